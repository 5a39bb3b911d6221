"""Whether two graphs over the same parameters give the same numbers: for what an example has, for others, and for
arrays of other sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

import attrs
import numpy as np
import torch
from pyrsistent import pmap

from irkit import dims
from irkit.core import walk
from irkit.core.ir import Graph, Signature, Value
from irkit.core.types import dims_of
from irkit.errors import IrkitError
from irkit.evaluation.interpreter import evaluate
from lowering.capture.compared_numbers import compared_in
from lowering.capture.inputs.draws import (
    MOST_TURNS,
    Draw,
    draws_beside,
    draws_for,
    later_state,
    nearby,
    redrawn,
)
from lowering.records.types import array_of, as_pairs


def same_numbers(
    graph: Graph, other: Graph, leaves: Sequence[np.ndarray], moved: Iterable[Mapping[str, int]] = (),
    state: Collection[torch.Tensor] = (), telling: Collection[int] = (), held: Sequence[np.ndarray] = (),
) -> bool:  # fmt: skip
    """Whether two graphs give the same results, but for rounding, for arrays with random numbers in place of floats,
    for others like them, and with every other one zero; and the first one tensors of the very types that it promises on
    the way. So they must at the sizes of `moved`, where the two could agree at those of the arrays alone. What
    calls go on from, `state`, comes before these arrays, with numbers near to its own: averages of squares are not
    below 0. Results at places that are `telling`, truth values that hang on numbers, must have been either: one that is
    false each time tells nothing. Where one graph hangs on integers and the other does not, more of them are drawn. Of
    these, `held` are arrays with more of those that there are. Numbers with which a graph compares are drawn, too."""
    generator = np.random.default_rng(0)
    arrays = [*(array_of(as_pairs(t) if t.is_complex() else t) for t in state), *leaves]

    told = [*arrays[: len(state)], *(held or leaves)]

    def drawn(array: np.ndarray, number: int, draw: Draw, of_state: Draw = nearby) -> np.ndarray:
        return (of_state if number < len(state) else draw)(array, told[number], generator)

    ours, theirs = (set(walk.post_order(each.results)) for each in (graph, other))
    apart = [
        array for array, p, q in zip(arrays, graph.params, other.params, strict=True) if (p in ours) != (q in theirs)
    ]
    asked = [place for place in telling if any(map(partial(hangs_on_any, arrays, place), (graph, other)))]
    seen: set[tuple[int, bool]] = set()
    for pair in draws_for(apart):
        feeds = [drawn(array, i, pair[i % 2]) for i, array in enumerate(arrays)]
        given, again = evaluate(graph, feeds), evaluate(other, feeds)
        if not all(close(np.asarray(a), np.asarray(b)) for a, b in zip(given, again, strict=True)):
            return False
        seen |= {(place, bool(given[place])) for place in asked}
    if len(seen) < 2 * len(asked):
        return False
    compared = compared_in((graph, other))
    counts = ((redrawn, redrawn),) * (MOST_TURNS if state else 0)
    for pair in (*counts, *draws_beside(compared.whole, compared.real, compared.finite, leaves, held or leaves)):
        feeds = [drawn(array, i, pair[i % 2], later_state) for i, array in enumerate(arrays)]
        given, again = (results_or_none(each, feeds) for each in (graph, other))
        if given is not None and again is not None and not all(map(close, given, again)):
            return False
    for sizes in moved:
        try:
            feeds = [resized(value, array, sizes) for value, array in zip(graph.params, arrays, strict=True)]
        except (IrkitError, ArithmeticError, KeyError):  # sizes of which nothing tells some shape
            continue
        feeds = [drawn(array, i, redrawn) for i, array in enumerate(feeds)]
        given, again = (results_or_none(each, feeds) for each in (graph, other))
        if (given is None) != (again is None):
            return False
        if given is not None and again is not None and not all(map(close, given, again)):
            return False
    return True


def hangs_on_any(arrays: Sequence[np.ndarray], place: int, graph: Graph) -> bool:
    """Whether a result of a graph hangs on numbers of any of its arrays: some may be empty."""
    reached = set(walk.post_order((graph.results[place],)))
    return any(value in reached and array.size for value, array in zip(graph.params, arrays, strict=True))


def results_or_none(graph: Graph, feeds: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """What a graph gives for these arrays; None where it takes none such."""
    try:
        return [np.asarray(each) for each in evaluate(graph, feeds)]
    except (IrkitError, ArithmeticError, ValueError, KeyError, IndexError):
        return None


def resized(param: Value, array: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    """An array for a parameter at other sizes, with the numbers of one repeated. Raises KeyError for a size that these
    do not tell."""
    return np.resize(array, tuple(dims.evaluate(size, sizes) for size in dims_of(param.type)))


def close(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two results are the same but for rounding."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype not in (np.float32, np.float64, np.float16):
        return bool(np.array_equal(a, b))
    tolerance = 2e-2 if a.dtype == np.float16 else 1e-3
    a, b = a.astype("f8"), b.astype("f8")
    largest = np.abs(b[np.isfinite(b)]).max(initial=1.0)  # of whose digits sums lose some
    return np.allclose(a, b, rtol=tolerance, atol=tolerance * max(0.1, largest * 0.01), equal_nan=True)


def bare(graph: Graph) -> Graph:
    """A graph without what is said of it, so that only what it computes is compared."""
    return attrs.evolve(graph, symbols=pmap({}), signature=Signature())
