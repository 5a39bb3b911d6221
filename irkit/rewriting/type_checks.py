"""Whether a rewrite keeps the type of what it replaces: at all sizes that the graph allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from irkit import dims
from irkit.contract.sizes import check_sizes
from irkit.core import walk
from irkit.core.ir import Graph, Value
from irkit.core.types import Tensor, Type, dims_of, map_dims, same_types
from irkit.dims import Dim
from irkit.dims.validation import apart
from irkit.errors import ContractError, DimensionError, RewriteError
from irkit.rewriting.rules import Rule

BELOW = 400
"""How many values below the one that is replaced are looked at for what their operators ask of sizes."""


BROADCASTING = frozenset(
    ("Add", "Sub", "Mul", "Div", "Pow", "Mod", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual", "Greater",
     "GreaterOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "PRelu")
)  # fmt: skip
"""Operators of two operands, which broadcast."""


def contract_error(rule: Rule, value: Value, what: str, ir: str = "", hint: str = "") -> RewriteError:
    """The error for a rule that breaks its contract."""
    return RewriteError(f"the rule {rule.name} {what}", ir=ir or repr(value), source=str(value.origin), hint=hint)


def refuse_other_type(rule: Rule, value: Value, new: Value, old: Type, graph: Graph) -> None:
    """Raises RewriteError where a rule gives something else than a value for one of type `old`, or a value that has
    another type at some sizes that the graph, and the operators of what is replaced, allow."""
    if type(new) is not Value:
        raise contract_error(
            rule,
            value,
            f"turns a {old!r} into {new!r}",
            hint="give a value of the same element type and shape, or decline where it would be another",
        )
    same = same_types(new.type, old)
    if same is True:
        return
    if same is False:
        raise contract_error(
            rule,
            value,
            f"turns a {old!r} into a {new.type!r}",
            hint="give a value of the same element type and shape, or decline where it would be another",
        )
    sizes = apart(dims_of(new.type), dims_of(old), graph.symbols, lambda at: is_allowed(graph, value, at))
    if sizes is not None:
        at = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise contract_error(
            rule,
            value,
            f"turns a {old!r} into a {new.type!r}, which differ at {at}: {valued(old, sizes)!r} and "
            f"{valued(new.type, sizes)!r}",
            hint="decline unless the shapes are the same: hole('x', shape=('n', 'n')), or a predicate",
        )


def valued(type: Type, sizes: Mapping[str, int]) -> Type:
    """The type with numbers for its symbols, where they have one."""

    def number(dim: Dim) -> Dim:
        return dim if any(dims.label(s) not in sizes for s in dims.symbols_of(dim)) else dims.evaluate(dim, sizes)

    return map_dims(type, number)


def is_allowed(graph: Graph, value: Value, sizes: Mapping[str, int]) -> bool:
    """True where neither the graph's facts nor an operator below the value exclude the sizes."""
    try:
        check_sizes(graph, sizes)
        below = islice(reversed(walk.post_order((value,))), BELOW)
        return all(takes(each, sizes) and exists(each, sizes) for each in below)
    except (ContractError, DimensionError):
        return False


def exists(value: Value, sizes: Mapping[str, int]) -> bool:
    """False for a value with a dimension below 0 at these sizes: windows larger than what they are moved over."""
    known = (d for d in dims_of(value.type) if all(dims.label(s) in sizes for s in dims.symbols_of(d)))
    return all(dims.evaluate(d, sizes) >= 0 for d in known)


def takes(value: Value, sizes: Mapping[str, int]) -> bool:
    """False where an operator does not take operands of these sizes: those of a product, of a Concat, of a Pad.

    A Pad that cuts off more than there is gives another size than the one stated for it, and torch refuses it.
    """
    types = [v.type for v in value.inputs if v is not None and isinstance(v.type, Tensor)]
    if value.op == "Concat":
        axis = value.attribute("axis", 0) % max(1, len(types[0].shape))
        rows = [t.shape[:axis] + t.shape[axis + 1 :] for t in types]
        return all(equal(a, b, sizes) for row in rows[1:] for a, b in zip(rows[0], row, strict=False))
    if value.op == "Pad":
        return all(equal(given, stated, sizes) for given, stated in padded(value))
    if value.op in BROADCASTING and len(types) == 2:
        pairs = zip(reversed(types[0].shape), reversed(types[1].shape), strict=False)
        return all(equal(a, b, sizes) or equal(a, 1, sizes) or equal(b, 1, sizes) for a, b in pairs)
    if value.op in ("MatMul", "Gemm") and len(types) > 1 and types[0].shape and types[1].shape:
        a, b = types[0].shape, types[1].shape
        inner = a[0 if value.attribute("transA", 0) else -1]
        return equal(inner, b[-1 if value.attribute("transB", 0) else max(-2, -len(b))], sizes)
    return True


def padded(value: Value) -> Iterator[tuple[Dim, Dim]]:
    """(dimension by its operands, dimension of the result) for each axis that a Pad with constant numbers changes."""
    x, pads, *more = value.inputs
    axes = more[1] if len(more) > 1 else None
    if x is None or pads is None or pads.blob is None or (axes is not None and axes.blob is None):
        return
    named = range(x.rank) if axes is None or axes.blob is None else axes.blob.array.reshape(-1).tolist()
    for axis, added in zip(named, pads.blob.array.reshape(2, -1).sum(0).tolist(), strict=True):
        yield dims.add(x.shape[axis], added), value.shape[axis]


def equal(a: Dim, b: Dim, sizes: Mapping[str, int]) -> bool:
    """False where two dimensions, both of which have a value, have different ones."""
    if any(dims.label(s) not in sizes for d in (a, b) for s in dims.symbols_of(d)):
        return True
    return dims.evaluate(a, sizes) == dims.evaluate(b, sizes)
