"""For tests of passes, rules and converters: random well-typed graphs, golden pairs, equality by numbers, and `check`.

`hypothesis` is imported when a strategy is asked for, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from pyrsistent import pmap

from irkit import dims
from irkit.checking.comparison import compare
from irkit.checking.rules import Checked, check_rule, guarded
from irkit.checking.samples.own import samples_with
from irkit.checking.samples.sampler import Sampler
from irkit.checking.samples.table import SAMPLES, WITH_BODIES, Sample
from irkit.core.ir import Graph, Port, Signature, require_graph
from irkit.core.operator_names import Dialects
from irkit.core.types import DType, Optional, Tensor, Tuple, Type, dims_of
from irkit.dims import Dim, Range
from irkit.errors import GraphError
from irkit.evaluation.interpreter import evaluate
from irkit.support.results import as_tuple
from irkit.support.tracebacks import is_told
from irkit.text.parser import parse

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__tracebackhide__ = is_told

__all__ = [
    "Checked",
    "assert_equivalent",
    "bindings",
    "check_rule",
    "choices",
    "feeds",
    "golden",
    "grown_graph",
    "guarded",
    "random_feeds",
    "random_graph",
    "random_value",
    "typed_graphs",
]

SIZES = (0, 1, 2, 3, 5)
"""What the symbols of random graphs are bound to."""

NUMBERS = (0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0, -2.0, 0.25, -0.0)
"""What the elements of feeds are drawn from: exact in every float type."""


# ---------------------------------------------------------------------------------------------- random graphs


def typed_graphs(
    max_ops: int = 8,
    *,
    symbolic: bool = True,
    bodies: bool = True,
    empty: bool = True,
    ops: Sequence[str] | None = None,
    wide: bool = True,
    dialects: Dialects = None,
) -> SearchStrategy[Graph]:
    """The strategy of well-typed graphs, grown from their parameters by the samples of `irkit.checking.samples`.

    Args:
        max_ops: how many samples are applied at most; one may add several operators.
        symbolic: whether dimensions may be symbols.
        bodies: whether there may be If, Loop, Scan and Call.
        empty: whether sizes and numbers of trips may be 0.
        ops: the samples to draw from, by name; all by default: every operator of ONNX but ImageDecoder, which takes
            the bytes of a picture, and irkit's own.
        wide: whether all 28 element types are drawn, where an operator takes them, or the usual ones only.
        dialects: operators of your own, which are drawn too.
    """
    from hypothesis import strategies as st

    samples = samples_with(dialects)
    names = tuple(n for n in (ops or samples) if bodies or n not in WITH_BODIES)

    @st.composite
    def graphs(draw: Callable[[Any], Any]) -> Graph:
        return grown_graph(
            lambda low, high: draw(st.integers(low, high)), names, max_ops, symbolic, empty, wide, samples
        )

    return graphs()


def random_graph(
    rng: np.random.Generator,
    max_ops: int = 8,
    *,
    symbolic: bool = True,
    empty: bool = True,
    ops: Sequence[str] | None = None,
    wide: bool = True,
    dialects: Dialects = None,
) -> Graph:
    """One well-typed graph, drawn by a generator instead of by Hypothesis. Raises GraphError for no generator, and for
    operators that have no sample."""
    if not isinstance(rng, np.random.Generator):  # pyright: ignore[reportUnnecessaryIsInstance]  # a seed, say
        raise GraphError(f"{rng!r} is no generator", hint="give numpy.random.default_rng(seed)")
    samples = samples_with(dialects)
    names = drawn_operators(ops, samples)

    def integer(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    return grown_graph(integer, names, max_ops, symbolic, empty, wide, samples)


def drawn_operators(ops: Sequence[str] | None, samples: Mapping[str, Sample]) -> tuple[str, ...]:
    """The operators that graphs are drawn of, all where none are given. Raises GraphError for one without a sample."""
    for name in ops or ():
        if name not in samples:
            near = get_close_matches(name, samples, n=3)
            raise GraphError(
                f"there is no sample of an operator {name!r}",
                hint=f"near it: {', '.join(near)}" if near else "an operator of your own is drawn with dialects=",
            )
    return tuple(ops or samples)


def grown_graph(
    integer: Callable[[int, int], int],
    names: Sequence[str],
    max_ops: int,
    symbolic: bool,
    empty: bool,
    wide: bool = True,
    samples: Mapping[str, Sample] = SAMPLES,
) -> Graph:
    """A graph that `integer(low, high)` decides on.

    Small ranks and sizes of 1 come often; so do values that are used twice, and results that are used.
    """
    batch, seq = dims.symbol("batch"), dims.symbol("seq")
    sizes: tuple[Dim, ...] = (2, batch, 1, seq, 3, dims.add(seq, 1)) if symbolic else (2, 1, 3)
    s = Sampler(integer, (*sizes, 0) if empty else sizes, least=0 if empty else 1, wide=wide)
    s.parameter(DType.FLOAT, s.shape(0, 2))
    for _ in range(integer(1, max_ops)):
        s.sample = s.choose(names)
        s.add(*as_tuple(samples[s.sample](s)))
    results = [s.values[-1]]
    for _ in range(integer(0, 3)):
        results.append(s.choose(list(reversed(s.values))))
    ports = tuple(Port(f"x{i}") for i in range(len(s.params)))
    ends = tuple(Port(f"y{i}", "output") for i in range(len(results)))
    used = {x.name for p in s.params for d in dims_of(p.type) for x in dims.symbols_of(d)}
    ranges = pmap({name: Range(s.least, None) for name in used})
    return Graph(tuple(s.params), tuple(results), ranges, Signature(ports, ends), "random")


# ---------------------------------------------------------------------------------------------- feeds


def bindings(graph: Graph) -> SearchStrategy[dict[str, int]]:
    """The strategy of assignments of sizes to the symbols of the graph's parameters."""
    from hypothesis import strategies as st

    return st.fixed_dictionaries({name: st.sampled_from(sizes) for name, sizes in choices(graph).items()})


def feeds(graph: Graph, binding: Mapping[str, int] | None = None) -> SearchStrategy[tuple[Any, ...]]:
    """The strategy of arguments for the graph's parameters, under an assignment of its symbols or any."""
    from hypothesis import strategies as st

    given = bindings(graph) if binding is None else st.just(dict(binding))

    def feeds_of(sizes: Mapping[str, int], seed: int) -> tuple[Any, ...]:
        return random_feeds(graph, sizes, np.random.default_rng(seed))

    return st.builds(feeds_of, given, st.integers(0, 999))


def choices(graph: Graph) -> dict[str, tuple[int, ...]]:
    """The sizes of `SIZES` that the range of each symbol of the parameters allows, or its smallest."""
    found: dict[str, tuple[int, ...]] = {}
    for symbol in sorted({s for p in graph.params for d in dims_of(p.type) for s in dims.symbols_of(d)}, key=str):
        allowed = graph.symbols.get(symbol.name, Range())
        found[symbol.name] = tuple(n for n in SIZES if n in allowed) or (max(allowed.lo, 0),)
    return found


def random_feeds(graph: Graph, binding: Mapping[str, int], rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """One argument for each parameter."""
    return tuple(random_value(p.type, binding, rng) for p in graph.params)


def random_value(type_: Type, binding: Mapping[str, int], rng: np.random.Generator) -> Any:
    """An array, list, or None of that type, of small numbers. Raises GraphError for a Tuple."""
    if isinstance(type_, Tensor):
        shape = tuple(dims.evaluate(d, binding) for d in type_.shape)
        if type_.dtype is DType.STRING:
            return rng.choice(np.array(["", "a", "b c"], dtype=object), shape)
        data = rng.choice(np.array(NUMBERS), shape)
        return (np.abs(data) if type_.dtype.is_unsigned else data).astype(type_.dtype.numpy)
    if isinstance(type_, Tuple):
        raise GraphError(f"no argument is a {type_!r}", hint="give the graph parameters that are tensors or sequences")
    if isinstance(type_, Optional) and rng.integers(2):
        return None
    element = type_.element
    if isinstance(type_, Optional):
        return random_value(element, binding, rng)
    return [random_value(element, binding, rng) for _ in range(int(rng.integers(0, 3)))]


# ---------------------------------------------------------------------------------------------- comparisons


def golden(before: str, pass_: Callable[[Graph], Graph], after: str) -> None:
    """Raises GraphError, with the text that came out, where the pass does not make `after` of `before`."""
    found, wanted = pass_(parse(before)), parse(after)
    if found != wanted:
        raise GraphError(
            "the pass made another graph than the text says",
            ir=f"{found}\n\nwanted:\n{wanted}",
            hint="mend the pass, or write what it makes into the text",
        )


def assert_equivalent(
    before: Graph, after: Graph, n: int = 3, seed: int = 0, *, rtol: float | None = None, atol: float | None = None
) -> None:
    """Raises GraphError where two graphs give different numbers on `n` random arguments, or have other parameters, and
    for what is no graph."""
    for each in (before, after):
        require_graph(each)
    if [p.type for p in before.params] != [p.type for p in after.params]:
        raise GraphError(
            "the graphs take different parameters",
            ir=f"{before}\n\n{after}",
            hint="compare graphs whose parameters have the same types, in the same order",
        )
    rng = np.random.default_rng(seed)
    for _ in range(n):
        binding = {name: int(rng.choice(sizes)) for name, sizes in choices(before).items()}
        arguments = random_feeds(before, binding, rng)
        difference = compare(evaluate(before, arguments), evaluate(after, arguments), rtol=rtol, atol=atol)
        if difference is not None:
            raise GraphError(
                f"with {binding or 'these arguments'}, results differ: {difference}",
                ir=f"{before}\n\n{after}",
                hint="irkit.check_rule finds a small instance of the rule that is wrong",
            )
