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
from irkit.core.types import Tensor, dims_of
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.errors import IrkitError
from irkit.evaluation.interpreter import evaluate
from irkit.rewriting.numbering import is_random
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
    these, `held` are arrays with more of those that there are. Numbers with which a graph compares are drawn, too.

    Where all that is unlike lies before operators that are the same in both, a table of positions in a large model
    say, what these are given is compared first, and more closely: NumPy takes minutes for such a model."""
    first = [array_of(as_pairs(t) if t.is_complex() else t) for t in state]
    arrays, told = [*first, *leaves], [*first, *(held or leaves)]
    ours, theirs = (set(walk.post_order(each.results)) for each in (graph, other))
    apart = [
        array for array, p, q in zip(arrays, graph.params, other.params, strict=True) if (p in ours) != (q in theirs)
    ]
    asked = [place for place in telling if any(map(partial(hangs_on_any, arrays, place), (graph, other)))]
    numbers = Numbers(arrays, told, len(first), draws_for(apart), tuple(moved))
    front = None if asked else front_of(graph, other)
    if front is not None and numbers.agree(*front, part=FINER):
        return True
    return numbers.agree(graph, other, asked)


@attrs.frozen(eq=False)
class Numbers:
    """What two graphs are given: arrays, of which the first `states` are what calls go on from, and some as `told` with
    more of their numbers, by draws, and at other sizes."""

    arrays: Sequence[np.ndarray]
    told: Sequence[np.ndarray]
    states: int
    draws: Sequence[tuple[Draw, Draw]]
    moved: Sequence[Mapping[str, int]]

    def agree(self, graph: Graph, other: Graph, asked: Sequence[int] = (), part: float = 1.0) -> bool:
        """Whether the results are the same but for this part of what is taken for rounding; those at places that are
        asked for must have been true, and false."""
        generator = np.random.default_rng(0)
        return (
            self.agree_drawn(graph, other, asked, part, generator)
            and self.agree_beside(graph, other, part, generator)
            and self.agree_moved(graph, other, part, generator)
        )

    def feeds(
        self, pair: tuple[Draw, Draw], generator: np.random.Generator, of_state: Draw = nearby,
        arrays: Sequence[np.ndarray] | None = None,
    ) -> list[np.ndarray]:  # fmt: skip
        """The arrays, or others in their places, as these draw them."""
        given = enumerate(self.arrays if arrays is None else arrays)
        return [(of_state if i < self.states else pair[i % 2])(each, self.told[i], generator) for i, each in given]

    def agree_drawn(
        self, graph: Graph, other: Graph, asked: Sequence[int], part: float, generator: np.random.Generator
    ) -> bool:
        """Whether they do for arrays that each program takes."""
        seen: set[tuple[int, bool]] = set()
        for pair in self.draws:
            feeds = self.feeds(pair, generator)
            given, again = (list(map(np.asarray, evaluate(each, feeds))) for each in (graph, other))
            if not all_close(given, again, part):
                return False
            seen |= {(place, bool(given[place])) for place in asked}
        return len(seen) >= 2 * len(asked)

    def agree_beside(self, graph: Graph, other: Graph, part: float, generator: np.random.Generator) -> bool:
        """Whether they do for further arrays, where both take these."""
        compared = compared_in((graph, other))
        leaves, held = self.arrays[self.states :], self.told[self.states :]
        counts = ((redrawn, redrawn),) * (MOST_TURNS if self.states else 0)
        for pair in (*counts, *draws_beside(compared.whole, compared.real, compared.finite, leaves, held)):
            feeds = self.feeds(pair, generator, later_state)
            given, again = (results_or_none(each, feeds) for each in (graph, other))
            if given is not None and again is not None and not all_close(given, again, part):
                return False
        return True

    def agree_moved(self, graph: Graph, other: Graph, part: float, generator: np.random.Generator) -> bool:
        """Whether they do at other sizes, or refuse these alike."""
        for sizes in self.moved:
            try:
                feeds = [resized(value, array, sizes) for value, array in zip(graph.params, self.arrays, strict=True)]
            except (IrkitError, ArithmeticError, KeyError):  # sizes of which nothing tells some shape
                continue
            feeds = self.feeds((redrawn, redrawn), generator, arrays=feeds)
            given, again = (results_or_none(each, feeds) for each in (graph, other))
            if (given is None) != (again is None):
                return False
            if given is not None and again is not None and not all_close(given, again, part):
                return False
        return True


FINER = 0.01
"""Which part of the rounding that results may have is that of what whole models compute them of."""


def front_of(graph: Graph, other: Graph) -> tuple[Graph, Graph] | None:
    """The graphs with other results, the last values that are unlike: what follows is computed by the same operators in
    both, of these and of what is the same. None where results themselves are unlike, and where that is not known: of
    what hangs on random numbers, on numbers out of data, which the two may count otherwise, and of bodies."""
    named = {symbol for param in graph.params for dim in dims_of(param.type) for symbol in dims.symbols_of(dim)}
    if not named.issuperset((*graph.symbols_used, *other.symbols_used)):
        return None
    ours, theirs = ({param: i for i, param in enumerate(each.params)} for each in (graph, other))
    ends = [*zip(graph.results, other.results, strict=True)]
    pending, seen, front = [*ends], set[tuple[Value, Value]](), dict[tuple[Value, Value], None]()
    while pending:
        pair = a, b = pending.pop()
        if pair in seen or (a.op == b.op == PARAM and ours[a] == theirs[b]):
            continue
        seen.add(pair)
        if by_one_operator(a, b):
            pending += [(p, q) for p, q in zip(a.inputs, b.inputs, strict=True) if p is not None and q is not None]
        elif isinstance(a.type, Tensor) and isinstance(b.type, Tensor):
            front[pair] = None
        else:
            return None
    if not front or not front.keys().isdisjoint(ends) or any(map(is_random, (*graph.order, *other.order))):
        return None
    return graph.with_results(a for a, _ in front), other.with_results(b for _, b in front)


def by_one_operator(a: Value, b: Value) -> bool:
    """Whether two values are computed by one operator without a body, with the same attributes, of as many operands."""
    if a.op != b.op or a.op == PARAM or a.bodies or b.bodies:
        return False
    if a.op == CONSTANT:
        return a.blob is not None and b.blob is not None and a.blob.key == b.blob.key
    return a.attributes == b.attributes and [v is None for v in a.inputs] == [v is None for v in b.inputs]


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


def all_close(given: Sequence[np.ndarray], again: Sequence[np.ndarray], part: float = 1.0) -> bool:
    """Whether results are the same but for this part of what is taken for rounding."""
    return all(close(a, b, part) for a, b in zip(given, again, strict=True))


def close(a: np.ndarray, b: np.ndarray, part: float = 1.0) -> bool:
    """Whether two results are the same but for this part of what is taken for rounding."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype not in (np.float32, np.float64, np.float16):
        return bool(np.array_equal(a, b))
    tolerance = part * (2e-2 if a.dtype == np.float16 else 1e-3)
    a, b = a.astype("f8"), b.astype("f8")
    largest = np.abs(b[np.isfinite(b)]).max(initial=1.0)  # of whose digits sums lose some
    return np.allclose(a, b, rtol=tolerance, atol=tolerance * max(0.1, largest * 0.01), equal_nan=True)


def bare(graph: Graph) -> Graph:
    """A graph without what is said of it, so that only what it computes is compared."""
    return attrs.evolve(graph, symbols=pmap({}), signature=Signature())
