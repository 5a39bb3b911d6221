"""Inputs for a model: sizes for its symbols that its conditions allow, and arrays, drawn or from a file."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from irkit import dims
from irkit.contract.sizes import ENFORCED, check_sizes, names_of
from irkit.core.ir import Graph
from irkit.core.types import DType, Optional, Tensor, Tuple, Type, dims_of
from irkit.dims import Range, notation
from irkit.errors import ContractError, DimensionError, GraphError, IrkitError
from irkit.evaluation.kernels.common import Content

FIRST = 2
"""What a size is that nobody has given, where the model allows it."""

POOL = (1, 2, 3, 5, 7, 4, 8, 6, 16)
"""Sizes that are tried, beside the least that a range allows."""

TRIES = 300
"""So many assignments of sizes are drawn in search of one that the conditions of a model allow."""

WHOLE = (0, 2)
"""From where, and to below what, integers are drawn of which nothing was said: indices that any table has."""

Ranges = Mapping[str, tuple[float, float]]
"""By the name of an input: from where, and to below what, its numbers are drawn."""


Arrays = dict[str, Content]
"""Arrays by name: inputs, or results."""

NamedArrays = list[tuple[str, Content]]
"""Arrays with their names, in order."""


def symbols_of(graph: Graph) -> list[str]:
    """The symbols that inputs tell: those of their sizes, and those that are the number in an input."""
    bound = {port.binds for port in graph.signature.params if port.role == "input" and port.binds}
    return sorted({dims.label(s) for v in graph.params for d in dims_of(v.type) for s in dims.symbols_of(d)} | bound)


def sizes_from(texts: Iterable[str]) -> dict[str, int]:
    """Sizes by name, from `n=3`. Raises IrkitError for any other text."""
    found: dict[str, int] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not (name and equals and number.isdigit()):
            raise IrkitError(f"{text!r} gives no size", hint="write n=3, with the name that the model has for the size")
        found[name] = int(number)
    return found


def ranges_from(texts: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Ranges by input, from `ids=0:1000`. Raises IrkitError for any other text."""
    found: dict[str, tuple[float, float]] = {}
    for text in texts:
        name, _, ends = text.partition("=")
        low, _, high = ends.partition(":")
        try:
            found[name] = float(low), float(high)
        except ValueError:
            raise IrkitError(f"{text!r} gives no range", hint="write ids=0:1000, the end not included") from None
    return found


def require_known(graphs: Sequence[Graph], given: Mapping[str, int], ranges: Ranges) -> None:
    """Raises IrkitError for a size or an input that none of the graphs has."""
    known = sorted({name for graph in graphs for name in symbols_of(graph)})
    inputs = [name for graph in graphs for name in names_of(graph)]
    for name, allowed, what in [(n, known, "size") for n in given] + [(n, inputs, "input") for n in ranges]:
        if name not in allowed:
            told = ", ".join(dict.fromkeys(allowed)) or "none"
            raise IrkitError(f"the model has no {what} called {name!r}", hint=f"it has: {told}")


def is_allowed(graph: Graph, sizes: Mapping[str, int]) -> bool:
    """True where ranges, conditions and the inputs' own dimensions allow the sizes."""
    try:
        check_sizes(graph, sizes)
        return all(dims.evaluate(d, sizes) >= 0 for v in graph.params for d in dims_of(v.type))
    except IrkitError:
        return False


def sizes_for(graphs: Sequence[Graph], given: Mapping[str, int]) -> dict[str, int]:
    """Sizes for all symbols, those that were given among them: 2 for each other where that is allowed.

    Raises ContractError where the graphs do not allow what was given, or no sizes were found that they do.
    """
    names = sorted({name for graph in graphs for name in symbols_of(graph)})
    rng = random.Random(0)
    least = least_sizes(graphs, names)
    for attempt in range(TRIES):
        drawn = {name: max(least[name], FIRST if attempt == 0 else rng.choice(POOL)) for name in names}
        sizes = with_equations(graphs, drawn, given)
        if all(is_allowed(graph, sizes) for graph in graphs):
            return sizes
        if len(given) == len(names):
            break
    for graph in graphs:
        check_sizes(graph, given)
    raise ContractError(
        "no sizes were found that the model allows", hint=f"give them: {' '.join(f'{name}=3' for name in names)}"
    )


def several_sizes(graphs: Sequence[Graph], given: Mapping[str, int], count: int, seed: int) -> list[dict[str, int]]:
    """Up to `count` assignments that the graphs allow, the least first, then drawn ones."""
    names = sorted({name for graph in graphs for name in symbols_of(graph)})
    least = least_sizes(graphs, names)
    rng, found = random.Random(seed), list[dict[str, int]]()
    for attempt in range(TRIES):
        if len(found) == count:
            break
        drawn = {name: least[name] if attempt == 0 else max(least[name], rng.choice(POOL)) for name in names}
        sizes = with_equations(graphs, drawn, given)
        if sizes not in found and all(is_allowed(graph, sizes) for graph in graphs):
            found.append(sizes)
    return found or [sizes_for(graphs, given)]


def with_equations(graphs: Sequence[Graph], drawn: Mapping[str, int], given: Mapping[str, int]) -> dict[str, int]:
    """The sizes that were drawn, but for those that were given, and those that a condition, `m == 3*n`, settles."""
    sizes = dict(drawn) | {name: size for name, size in given.items() if name in drawn}
    for fact in (fact for graph in graphs for fact in graph.signature.facts if fact.kind in ENFORCED):
        left, equals, right = fact.text.partition(" == ")
        for name, text in ((left, right), (right, left)) if equals else ():
            if name in sizes and name not in given:
                try:
                    sizes[name] = dims.evaluate(notation.parse(text), sizes)
                except DimensionError:  # no size, or over symbols of which nothing is known
                    continue
                break
    return sizes


def least_sizes(graphs: Sequence[Graph], names: Iterable[str]) -> dict[str, int]:
    """The least size, from 1 on, that the ranges of all graphs allow."""
    return {name: max(1, *(graph.symbols.get(name, Range()).lo for graph in graphs)) for name in names}


# ---------------------------------------------------------------------------------------------- arrays


def drawn_inputs(
    graph: Graph, sizes: Mapping[str, int], rng: np.random.Generator, ranges: Ranges | None = None
) -> Arrays:
    """An array for each parameter by name: normal numbers for floats, 0 and 1 for integers, unless a range says
    otherwise. An input whose number is a size is that size."""
    found: Arrays = {}
    ports = graph.signature.params
    for i, (name, value) in enumerate(zip(names_of(graph), graph.params, strict=True)):
        binds = ports[i].binds if i < len(ports) and ports[i].role == "input" else ""
        if binds and isinstance(value.type, Tensor):
            found[name] = np.full((), sizes[binds], value.type.dtype.numpy)
        else:
            found[name] = drawn_value(value.type, sizes, rng, (ranges or {}).get(name))
    return found


def drawn_value(
    type_: Type, sizes: Mapping[str, int], rng: np.random.Generator, ends: tuple[float, float] | None
) -> Content:
    """An array of that type; a list of two for a sequence, an element for an optional. Raises GraphError for what is no
    type of an input."""
    if isinstance(type_, Tuple):
        raise GraphError(f"no input is a {type_!r}", hint="give the graph parameters that are tensors or sequences")
    if isinstance(type_, Optional):
        return drawn_value(type_.element, sizes, rng, ends)
    if not isinstance(type_, Tensor):
        return [drawn_value(type_.element, sizes, rng, ends) for _ in range(2)]
    shape, dtype = tuple(dims.evaluate(d, sizes) for d in type_.shape), type_.dtype
    if dtype is DType.STRING:
        return rng.choice(np.array(["", "a", "b c"], dtype=object), shape)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        low, high = map(int, ends or WHOLE)
        return rng.integers(low, max(high, low + 1), shape).astype(dtype.numpy)
    numbers = rng.standard_normal(shape) if ends is None else rng.uniform(*ends, shape)
    if dtype.is_complex:
        numbers = numbers + 1j * rng.standard_normal(shape)
    return np.asarray(numbers).astype(dtype.numpy)


def fitted_inputs(graph: Graph, arrays: Mapping[str, Content]) -> Arrays:
    """The arrays of a file for the parameters that have their names. Element types that numpy's files do not name, such
    as bfloat16, are what the parameter says. Raises IrkitError for a name that is none of an input."""
    types = dict(zip(names_of(graph), (v.type for v in graph.params), strict=True))
    unknown = [name for name in arrays if name not in types]
    if unknown:
        raise IrkitError(
            f"the model has no input called {unknown[0]!r}", hint=f"its inputs are: {', '.join(types) or 'none'}"
        )
    return {name: as_stored(types[name], array) for name, array in arrays.items()}


def as_stored(type_: Type, array: Content) -> Content:
    """The array in the element type of a parameter, where numpy's file has it as bytes without a type."""
    if isinstance(type_, Tensor) and array.dtype.kind == "V" and array.dtype.itemsize == type_.dtype.numpy.itemsize:
        return array.view(type_.dtype.numpy)
    return array.astype(object) if array.dtype.kind in "US" else array


def sizes_fed(graph: Graph, feeds: Mapping[str, Content]) -> dict[str, int]:
    """What the arrays say of the symbols: those that bind one in a plain way. The model's own check says the rest."""
    found: dict[str, int] = {}
    for name, value in zip(names_of(graph), graph.params, strict=True):
        shape = getattr(feeds.get(name), "shape", None)
        if shape is None or not isinstance(value.type, Tensor) or len(shape) != value.type.rank:
            continue
        for dim, size in zip(value.type.shape, shape, strict=True):
            solved = None if type(dim) is int else dims.solve(dim, size)
            if solved is not None:
                found.setdefault(*solved)
    return found
