"""The contract of a graph: what must hold of the dimensions it is called with, and the check that it does."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from irkit import dims, dims_text
from irkit.dims import Range
from irkit.errors import ContractError, DimensionError
from irkit.ir import Graph
from irkit.types import Tensor

_COMPARE: Mapping[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
Truth = Callable[[Mapping[str, int]], bool | None]
Size = Callable[[Mapping[str, int]], int | float | None]


def holds(condition: str, sizes: Mapping[str, int]) -> bool | None:
    """Whether a condition over dimension symbols (`batch >= 4 and seq % 8 == 0`) holds under an assignment.

    None where it speaks of a symbol without a value, False where it divides by 0. Raises DimensionError for what is no
    condition. The text is parsed, never executed, so that it may come from a file.
    """
    if len(condition) > 10_000:
        raise DimensionError("a condition of more than 10,000 characters is refused")
    try:
        return _truth_of(condition)(sizes)
    except ZeroDivisionError:
        return False


@lru_cache(maxsize=1024)  # a program asks the same of every call
def _truth_of(condition: str) -> Truth:
    """What tells whether a condition holds."""
    try:
        tree = ast.parse(condition.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DimensionError(f"{condition!r} is no condition") from error
    return _truth(tree, condition)


def _truth(node: ast.expr, source: str) -> Truth:
    if isinstance(node, ast.BoolOp):
        return _joined([_truth(v, source) for v in node.values], isinstance(node.op, ast.Or))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _truth(node.operand, source)

        def negated(sizes: Mapping[str, int]) -> bool | None:
            answer = inner(sizes)
            return None if answer is None else not answer

        return negated
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        value = node.value
        return lambda sizes: value
    if isinstance(node, ast.Compare) and all(type(o) in _COMPARE for o in node.ops):
        return _compared([_COMPARE[type(o)] for o in node.ops], [_size(e) for e in (node.left, *node.comparators)])
    raise DimensionError(f"{source!r} is no condition", hint="compare dimensions, join with and, or, not")


def _joined(parts: Sequence[Truth], decisive: bool) -> Truth:
    """`or` of the parts where `decisive`, else `and`; as in Python, what follows the part that decides is not asked."""

    def joined(sizes: Mapping[str, int]) -> bool | None:
        unknown = False
        for part in parts:
            answer = part(sizes)
            if answer is decisive:
                return decisive
            unknown = unknown or answer is None
        return None if unknown else not decisive

    return joined


def _compared(relations: Sequence[Callable[[Any, Any], bool]], sides: Sequence[Size]) -> Truth:
    """Whether each relation holds between two sides that follow one another."""

    def compared(sizes: Mapping[str, int]) -> bool | None:
        found = [side(sizes) for side in sides]
        if None in found:
            return None
        return all(relation(a, b) for relation, a, b in zip(relations, found[:-1], found[1:], strict=True))

    return compared


def _size(node: ast.expr) -> Size:
    """The value of an expression over dimensions; None where a symbol has no value."""
    expression = dims_text.parse(ast.unparse(node))
    names = [s.name for s in dims.symbols_of(expression)]
    return lambda sizes: dims.number(expression, sizes) if all(n in sizes for n in names) else None


def binding_of(
    graph: Graph, shapes: Sequence[tuple[int, ...] | None], numbers: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The value of each dimension symbol, from the shapes of the arguments of the tensor parameters, in order.

    `numbers` are the arguments that are themselves sizes, by the name of the parameter; a port tells which symbol it
    gives. Raises ContractError where a rank, a fixed size, or the relation between two sizes is not that of the graph.
    """
    sizes: dict[str, int] = {}
    origin: dict[str, str] = {}
    later: list[tuple[str, int, Any, int]] = []
    for port in graph.signature.params:
        if port.role == "input" and port.binds and port.name in (numbers or {}):
            sizes[port.binds], origin[port.binds] = int((numbers or {})[port.name]), f"the number {port.name}"
    for name, param, shape in zip(names_of(graph), graph.params, shapes, strict=True):
        if not isinstance(param.type, Tensor) or shape is None:
            continue
        if len(shape) != param.type.rank:
            raise ContractError(
                f"{name} has {len(shape)} dimensions, and must be a {param.type!r}",
                hint="give it in that form, or capture the model again with an example like it",
            )
        for axis, (dim, size) in enumerate(zip(param.type.shape, shape, strict=True)):
            found = solved(name, axis, dim, size)
            if found is None:
                later.append((name, axis, dim, size))
            elif sizes.setdefault(found[0], found[1]) != found[1]:
                first = f"{found[0]} is {sizes[found[0]]} by {origin[found[0]]}"
                raise ContractError(f"dimension {axis} of {name} makes {found[0]} = {found[1]}, but {first}")
            else:
                origin.setdefault(found[0], f"dimension {axis} of {name}")
    for name, axis, dim, size in later:
        expected = dims.evaluate(dim, sizes) if all(s.name in sizes for s in dims.symbols_of(dim)) else size
        if expected != size:
            wanted = str(dim) if type(dim) is int else f"{dims_text.text(dim)} = {expected}"
            hint = "where it may vary, name it in dynamic_shapes when the model is captured" if type(dim) is int else ""
            raise ContractError(f"dimension {axis} of {name} is {size}, and must be {wanted}", hint=hint)
    return sizes


def solved(name: str, axis: int, dim: Any, size: int) -> tuple[str, int] | None:
    """What one dimension says of a symbol. Raises ContractError where no value of it fits."""
    try:
        return dims.solve(dim, size)
    except DimensionError as error:
        raise ContractError(f"dimension {axis} of {name} is {size}, which is no {dims_text.text(dim)}") from error


def names_of(graph: Graph) -> tuple[str, ...]:
    """The public names of the parameters; `input 3` for those that have none."""
    ports = graph.signature.params
    return tuple(ports[i].name if i < len(ports) else f"input {i}" for i in range(len(graph.params)))


def sizes_after(graph: Graph, sizes: Mapping[str, int], shapes: Sequence[Any]) -> dict[str, int]:
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
    guards = (fact for fact in graph.signature.facts if fact.kind == "guard" and fact.source and name in fact.text)
    return next((fact.source for fact in guards if holds(fact.text, {name: size}) is False), "")


def check_sizes(graph: Graph, sizes: Mapping[str, int]) -> None:
    """Raises ContractError, with the user's line where it is known, for sizes that a range or a guard excludes."""
    for name, size in sizes.items():
        allowed: Range | None = graph.symbols.get(name)
        if allowed is not None and size not in allowed:
            raise ContractError(
                f"dimension {name} is {size}, and the model was captured for {name} in {allowed}",
                source=line_that_asked(graph, name, size),
                hint="capture the model with a wider range, or split the input",
            )
    for fact in graph.signature.facts:
        if fact.kind in ("guard", "relation") and holds(fact.text, sizes) is False:
            used = ", ".join(f"{k} = {v}" for k, v in sizes.items() if k in fact.text)
            raise ContractError(
                f"the model was captured under the condition {fact.text}, which {used} breaks",
                source=fact.source,
                hint="capture the model again with an example input of this size",
            )
