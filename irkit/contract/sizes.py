"""The contract of a graph: what must hold of the dimensions it is called with, and the check that it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from irkit import dims
from irkit.contract.binding import Binding
from irkit.core.ir import Graph
from irkit.core.types import Tensor
from irkit.dims import Dim, Range, notation
from irkit.dims.conditions import holds
from irkit.errors import ContractError, DimensionError
from irkit.support.counts import count_text

ENFORCED = frozenset(("guard", "relation", "runtime"))
"""The kinds of facts that are conditions on sizes."""


def binding_of(
    graph: Graph, shapes: Sequence[tuple[int, ...] | None], numbers: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The value of each dimension symbol, from the shapes of the arguments of the tensor parameters, in order.

    `numbers` are the arguments that are themselves sizes, by the name of the parameter; a port tells which symbol it
    gives. Raises ContractError where a rank, a fixed size, or the relation between two sizes is not that of the graph.
    """
    binding = Binding()
    for port in graph.signature.params:
        if port.role == "input" and port.binds and port.name in (numbers or {}):
            binding.content(dims.symbol(port.binds), int((numbers or {})[port.name]), f"the number {port.name}")
    try:
        for name, param, shape in zip(names_of(graph), graph.params, shapes, strict=True):
            if not isinstance(param.type, Tensor) or shape is None:
                continue
            if len(shape) != param.type.rank:
                raise ContractError(
                    f"{name} has {count_text(len(shape), 'dimension')}, and must be a {param.type!r}",
                    hint="give it in that form, or capture the model again with an example like it",
                )
            binding.shape(param.type.shape, shape, name)
        binding.check_pending()
    except DimensionError as error:
        raise ContractError(error.what, hint=error.hint) from error
    return binding.values


def solved(name: str, axis: int, dim: Dim, size: int) -> tuple[str, int] | None:
    """What one dimension says of a symbol. Raises ContractError where no value of it fits."""
    try:
        return dims.solve(dim, size)
    except DimensionError as error:
        raise ContractError(
            f"dimension {axis} of {name} is {size}, which is not of the form {notation.text(dim)}",
            hint=f"give a size of the form {notation.text(dim)}, or capture the model anew",
        ) from error


def names_of(graph: Graph) -> tuple[str, ...]:
    """The public names of the parameters; `input 3` for those that have none."""
    ports = graph.signature.params
    return tuple(ports[i].name if i < len(ports) else f"input {i}" for i in range(len(graph.params)))


def sizes_after(graph: Graph, sizes: Mapping[str, int], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The sizes, and those that only the data decides, as far as the shapes of the results tell them."""
    found = dict(sizes)
    for i, (result, shape) in enumerate(zip(graph.results, shapes, strict=True)):
        if isinstance(result.type, Tensor):
            for axis, (dim, size) in enumerate(zip(result.type.shape, shape, strict=True)):
                told = solved(f"result {i}", axis, dim, size)
                if told is not None:
                    found.setdefault(*told)
    return found


def line_that_asked(graph: Graph, name: str, size: int) -> str:
    """The line of the first guard that a size breaks by itself; empty where none is known."""
    guards = (fact for fact in graph.signature.facts if fact.kind in ENFORCED and fact.source and name in fact.text)
    return next((fact.source for fact in guards if holds(fact.text, {name: size}) is False), "")


def with_equal_sizes(graph: Graph, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes, and those of symbols that the conditions say are equal to one of them: where it comes out otherwise
    when the model runs, that condition is broken."""
    pairs = [
        pair for fact in graph.signature.facts if fact.kind in ENFORCED and (pair := symbols_said_equal(fact.text))
    ]
    found = dict(sizes)
    for _ in pairs:
        more = {b: found[a] for pair in pairs for a, b in (pair, pair[::-1]) if a in found and b not in found}
        if not more:
            break
        found |= more
    return found


@lru_cache(maxsize=1024)  # a program asks the same of every call
def symbols_said_equal(condition: str) -> tuple[str, str] | None:
    """The two symbols of a condition such as `seq == u0`; None for any other."""
    left, _, right = condition.partition(" == ")
    return (left, right) if left.isidentifier() and right.isidentifier() else None


def check_sizes(graph: Graph, sizes: Mapping[str, int]) -> None:
    """Raises ContractError, with the user's line where it is known, for sizes that a range or a guard excludes."""
    sizes = with_equal_sizes(graph, sizes)
    for name, size in sizes.items():
        allowed: Range | None = graph.symbols.get(name)
        if allowed is not None and size not in allowed:
            raise ContractError(
                f"dimension {name} is {size}, and the model was captured for {name} in {allowed}",
                source=line_that_asked(graph, name, size),
                hint="capture the model with a wider range, or split the input",
            )
    for fact in graph.signature.facts:
        if fact.kind in ENFORCED and holds(fact.text, sizes) is False:
            used = ", ".join(f"{k} = {v}" for k, v in sizes.items() if k in fact.text)
            if fact.kind == "runtime":
                raise ContractError(
                    f"ONNX Runtime runs this model under the condition {fact.text}, which {used} breaks",
                    source=fact.source,
                    hint="leave the call out where there is nothing to compute, or split the input where it is long",
                )
            raise ContractError(
                f"the model was captured under the condition {fact.text}, which {used} breaks",
                source=fact.source,
                hint="capture the model again with an example input of this size",
            )
