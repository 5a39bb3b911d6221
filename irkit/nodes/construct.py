"""How a value is made: operands coerced, attributes normalized, held against the operator's row, the type inferred.

Here are the operators of ONNX's own domain; `irkit.build` adds those that `irkit.build.runtime` defines by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
import sympy

from irkit import dims
from irkit.core.attributes import ELEMENT_TYPES, AttributeMap, Attributes, are_ints, kind_held, single_in_range
from irkit.core.blobs import Blob, blob
from irkit.core.ir import Graph, Value, constant, item, vertex
from irkit.core.operator_names import OperatorName
from irkit.core.types import DType, Tensor, Tuple, Type
from irkit.core.vocabulary import SHAPE_VECTOR
from irkit.dims import Dim
from irkit.dims.validation import number_of
from irkit.errors import TypeRuleError
from irkit.nodes import type_rules
from irkit.nodes.bodies import Operand, with_bodies
from irkit.nodes.coarse_types import inferred_or_coarser
from irkit.ops.schemas import BODIES, TYPE_STRINGS, AttributeSpec, OpSpec, dtype_of, known_row
from irkit.ops.types.context import Context
from irkit.support.arguments import type_text
from irkit.support.counts import count_text


def call(
    op: str,
    inputs: Sequence[Operand],
    attributes: AttributeMap | None = None,
    *,
    outputs: int | None = None,
    row: OpSpec | None = None,
    rule: Callable[[Context], Type] | None = None,
) -> Any:
    """As `irkit.build.call`, which is what others call, with the operator's type rule. Definitions of operators, on
    which type rules rest, are built with this. Raises TypeRuleError where schema or type rule refuses the operands.
    """
    known = row or known_row(op)
    given: AttributeMap = attributes or {}
    if outputs is not None:
        check_outputs(op, known, outputs)
    bodies: tuple[Graph, ...] = ()
    if op in BODIES:
        inputs, given, bodies = with_bodies(op, list(inputs), dict(given))
    operands = coerced(op, known, inputs)
    frozen = normalized(op, known, given) if given or required_attributes(known) else ()
    if bodies or None in operands or not known.min_inputs <= len(operands) <= known.max_inputs:
        check_arity(op, known, operands, bodies)
    check_dtypes(op, known, operands[: len(operands) - given["captures"]] if bodies else operands)
    count = outputs if outputs is not None else known.min_outputs or 1
    if count > known.max_outputs:
        raise TypeRuleError(
            f"{op} has {count_text(known.max_outputs, 'result')} at most, and {count} are asked for",
            hint=told_of(op, "gives"),
        )
    context = Context(known, operands, dict(frozen), bodies, count)
    found = inferred_or_coarser(rule or type_rules.infer(op), context)
    if isinstance(found, tuple):
        several = len(found) != 1 or known.min_outputs > 1 or is_variadic(known)
        found = Tuple(found) if several else next(iter(found))
    value = vertex(op, operands, frozen, bodies, found)
    if type(found) is Tuple:
        return tuple(item(value, i) for i in range(len(found.items)))
    return value


def check_outputs(op: str, known: OpSpec, outputs: object) -> None:
    """Raises TypeRuleError for more results than an operator has."""
    if type(outputs) is not int or not 1 <= outputs <= max(1, known.max_outputs):
        most = known.max_outputs
        many = "any number of results" if is_variadic(known) else f"1 result{f' to {most}' * (most > 1)}"
        raise TypeRuleError(f"{op} has {many}, and {outputs!r} are asked for", hint=told_of(op, "gives"))


def told_of(op: str, does: str = "takes") -> str:
    """Where it is said what an operator takes, or gives: of one of your own its parameters themselves."""
    return f"help(irkit.op.{op}) says what it {does}" if type(op) is not OperatorName else f"it is {op.operator!r}"


def is_variadic(known: OpSpec) -> bool:
    """True where an operator has any number of results."""
    return bool(known.outputs) and known.outputs[-1].option == "variadic"


# ---------------------------------------------------------------------------------------------- leaves


def not_several(shape: object) -> bool:
    """True for what is not a list of dimensions: one size, one value, a text."""
    return isinstance(shape, str | int | Value) or not isinstance(shape, Iterable)


def shape_vector(
    shape: Iterable[Dim | str], *binders: Value, scalars: Mapping[sympy.Symbol, Value] | None = None
) -> Value:
    """The dimensions as a vector of int64.

    Args:
        shape: ints, expressions, or strings that name symbols.
        binders: values in whose types the data-dependent symbols of `shape` stand as plain dimensions.
        scalars: for symbols that are the *content* of an integer scalar (torch's `item()`), that scalar; they follow
            the binders among the operands, and attribute `scalars` names their symbols in order.

    Raises DimensionError for what is not a dimension, TypeRuleError for what is not a list of them, and for binders and
    scalars that are no values.
    """
    if type(shape) not in (tuple, list) and not_several(shape):
        raise TypeRuleError(f"{shape!r} is not a list of dimensions", hint=f"write shape_vector(({shape!r},))")
    sizes = tuple(map(number_of, shape))
    if dims.are_numbers(sizes):
        return const(np.array(sizes, dtype=np.int64))
    attributes: Attributes = (("dims", sizes),)
    if scalars:
        attributes = (*attributes, ("scalars", tuple(scalars)))
        binders = (*binders, *scalars.values())
    for each in binders:
        if type(each) is not Value:
            raise TypeRuleError(
                f"shape_vector: {each!r} is not a value", hint="give values in whose types the sizes stand"
            )
    return vertex(SHAPE_VECTOR, binders, attributes, (), Tensor(DType.INT64, (len(sizes),)))


def dim_scalar(dim: Dim, *binders: Value) -> Value:
    """One dimension as an int64 scalar; `binders` as for `shape_vector`."""
    if type(dim) is int:
        return const(dim, "i64")
    return call("Squeeze", [shape_vector((dim,), *binders), np.array([0])])


def const(data: Any, dtype: Any = None, name: str = "", *, copy: bool = True) -> Value:
    """The constant that holds an array, a number, a string, or a list: f32 for floats and i64 for ints, and numpy's own
    type for arrays, unless `dtype` says otherwise. Weights have a `name`.

    An array is copied, so that the constant stays what it is whatever becomes of the array. `copy=False` leaves out the
    copy of a large one, for a caller who lets the array be from then on; what is noticed of a write into it raises
    StaleError. Raises TypeRuleError for what is not an array of numbers or strings, for what is not an element type,
    and for numbers that a type of integers does not hold."""
    if isinstance(data, Blob):
        return constant(data)
    return constant(blob(data, dtype, name, copy=copy))


# ---------------------------------------------------------------------------------------------- operands


def coerced(op: str, known: OpSpec, inputs: Sequence[Operand]) -> tuple[Value | None, ...]:
    """The operands as values, trailing None cut; numbers and arrays become constants of the fitting element type."""
    for value in inputs:
        if type(value) is not Value:
            break
    else:
        return tuple(inputs)
    found = list(inputs)
    while found and found[-1] is None:
        found.pop()
    for index, value in enumerate(found):
        if value is None or type(value) is Value:
            continue
        found[index] = const(value) if isinstance(value, Blob) else as_constant(op, known, index, found)
    return tuple(found)


def as_constant(op: str, known: OpSpec, index: int, inputs: Sequence[Operand]) -> Value:
    """The constant for an operand that was given as a number, a list or an array."""
    data, formal = inputs[index], known.formal(index)
    if isinstance(data, np.ndarray | np.generic):
        return const(data)
    if isinstance(data, list | tuple) and Value in map(type, cast("tuple[Any, ...]", data)):
        raise TypeRuleError(
            f"{op}: operand {index} is a {'list' if isinstance(data, list) else 'tuple'} of values",
            hint=f"give each operand by itself: op.{op}(*values); one tensor of them is op.Concat(*values, axis=0)",
        )
    if not isinstance(data, int | float | complex | str | bytes | list | tuple):
        raise TypeRuleError(
            f"{op}: operand {index} is {type_text(data)}", hint="give a Value, a number, a list or a numpy array"
        )
    for other, value in enumerate(inputs):
        shares = other != index and type(value) is Value and known.formal(other).type == formal.type
        if shares and isinstance(value.type, Tensor) and formal.homogeneous:
            return const(converted(op, index, data, value.type.dtype))
    allowed = known.allowed(formal)
    try:
        if len(allowed) == 1:
            (only,) = allowed
            return const(np.array(data), dtype_of(only))
        if "tensor(int64)" in allowed and np.array(data).dtype.kind in "iub":
            return const(np.array(data), "i64" if np.array(data).dtype.kind != "b" else None)
        return const(data)
    except (KeyError, TypeError, ValueError) as error:
        raise TypeRuleError(
            f"{op}: operand {index} is {data!r}, which is not an array",
            hint="irkit.shape_vector(sizes) is a vector of sizes that vary",
        ) from error


def converted(op: str, index: int, data: Any, dtype: DType) -> np.ndarray:
    """A number or list as an array of an element type. Raises TypeRuleError where an integer type cannot hold it."""
    try:
        given = np.array(data)
        narrow = given.dtype.kind == "c" and not dtype.is_complex
        with np.errstate(invalid="ignore"):
            found = (np.real(given) if narrow else given).astype(dtype.numpy)
    except (TypeError, ValueError) as error:
        raise TypeRuleError(
            f"{op}: operand {index} is {data!r}, which cannot be {dtype.short}",
            hint=told_of(op),
        ) from error
    rounds = (dtype.is_float or dtype.is_complex) and not narrow
    if not rounds and not bool(np.all(found.astype(given.dtype) == given)):
        raise TypeRuleError(
            f"{op}: operand {index} is {data!r}, which {dtype.short} cannot hold", hint="cast the other operand first"
        )
    return found


def normalized(op: str, known: OpSpec, given: AttributeMap) -> Attributes:
    """The attributes frozen, of the schema's kinds, without those that say what the default says."""
    found: list[tuple[str, object]] = []
    for name in sorted(given) if len(given) > 1 else given:
        value = given[name]
        if value is None:
            require_left_out(op, known, name)
            continue
        row = known.attributes.get(name)  # none for `captures`
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # the type of Any
        if row is None or _PLAIN.get(row.kind) is not kind or (kind is tuple and not are_ints(value)):
            value = of_kind(op, known, row, name, value)
        if row is None or row.required or value != row.default:
            found.append((name, value))
    for name in required_attributes(known):
        if given.get(name) is None:
            raise TypeRuleError(f"{op}: attribute {name} must be given", hint=told_of(op))
    return tuple(found)


def require_left_out(op: str, known: OpSpec, name: str) -> None:
    """Raises TypeRuleError where None is given for an attribute of an operator of one's own that has a default. ONNX's
    operators take None for one that is left out; in yours it is more often what was looked up and not found."""
    row = known.attributes.get(name)
    if type(op) is OperatorName and row is not None and row.default is not None:
        raise TypeRuleError(
            f"{op}: attribute {name} is None, which would be its default, {row.default!r}",
            hint=f"leave {name} out where the default is meant",
        )


@lru_cache(maxsize=1 << 12)
def required_attributes(known: OpSpec) -> tuple[str, ...]:
    """The attributes that must be given, graph attributes left out."""
    return tuple(a.name for a in known.attributes.values() if a.required and a.kind not in ("GRAPH", "GRAPHS"))


def in_single(value: Any) -> Any:
    """An attribute with the floats in it as an f32, and so an ONNX file, holds them. Raises TypeRuleError for one
    beyond its range."""
    if isinstance(value, list | tuple):
        return tuple(in_single(v) for v in cast("tuple[Any, ...]", value))
    if not isinstance(value, float):
        return value
    try:
        return single_in_range(value)
    except ValueError as error:
        raise TypeRuleError(f"an attribute is {value!r}", hint="attributes hold float32: give an operand") from error


_PLAIN: Mapping[str, type] = {"INT": int, "INTS": tuple, "STRING": str, "TENSOR": Blob}
"""Kinds of attributes that are held as they are given, where they are of that type."""


ELEMENT_HINT = 'give an element type: "f32", np.float32 or irkit.DType.FLOAT'


def of_kind(op: str, known: OpSpec, row: AttributeSpec | None, name: str, value: Any) -> Any:
    """An attribute, frozen, of the kind that the schema wants. Raises TypeRuleError where it refuses name or value."""
    if row is None:
        if name == "captures" and op in BODIES:
            return int(value)
        operands = [formal.name for formal in known.inputs]
        hint = f"it has: {', '.join(known.attributes)}" if known.attributes else "it takes operands alone"
        if name in operands:
            hint = (
                f"it is operand {operands.index(name)}: operands are given by position, None for one that is left out"
            )
        raise TypeRuleError(f"{op} has no attribute {name!r}", hint=hint)
    try:
        return kind_held(row.kind, name, value)
    except (TypeError, ValueError, KeyError) as error:
        hint = ELEMENT_HINT if name in ELEMENT_TYPES else told_of(op)
        wanted = "be of kind FLOAT, which is float32," if row.kind == "FLOAT" else f"be of kind {row.kind},"
        raise TypeRuleError(f"{op}: attribute {name} must {wanted} and is {value!r:.60}", hint=hint) from error


def check_arity(op: str, known: OpSpec, operands: tuple[Value | None, ...], bodies: tuple[Graph, ...]) -> None:
    """Raises TypeRuleError for too few or too many operands, or a required one that is None."""
    count = len(operands)
    if count < known.min_inputs or (count > known.max_inputs and not bodies):
        least, most = known.min_inputs, known.max_inputs
        many = f"{least}" if least == most else f"{least} to {most}"
        raise TypeRuleError(
            f"{op} takes {many} operand{'s' * (most != 1)}, and was given {count}",
            hint=told_of(op),
        )
    for index, value in enumerate(operands):
        if value is None and known.formal(index).option == "single":
            raise TypeRuleError(
                f"{op}: operand {index} ({known.formal(index).name}) must be given",
                hint=told_of(op),
            )


CAST_HINT = "cast the operand with op.Cast; a number of Python, 2.0 say, takes the element type beside it"


def check_dtypes(op: str, known: OpSpec, operands: tuple[Value | None, ...]) -> None:
    """Raises TypeRuleError where an element type is refused by the schema, or two that share a variable differ."""
    kinds = tuple([v.type.dtype if v is not None and type(v.type) is Tensor else None for v in operands])
    complaint = dtype_complaint(known, kinds)
    if complaint:
        types = ", ".join("-" if v is None else repr(v.type) for v in operands)
        raise TypeRuleError(f"{op}: {complaint}", ir=f"{op}({types})", hint=CAST_HINT)


@lru_cache(maxsize=1 << 14)
def dtype_complaint(known: OpSpec, kinds: tuple[DType | None, ...]) -> str:
    """What is wrong with operands of these element types; empty where nothing is."""
    bound: dict[str, DType] = {}
    for index, kind in enumerate(kinds):
        if kind is None or not known.inputs:
            continue
        formal = known.formal(index)
        if TYPE_STRINGS[kind] not in known.allowed(formal):
            return f"operand {index} ({formal.name}) cannot be {kind.short}"
        first = bound.setdefault(formal.type, kind)
        if first is not kind and formal.homogeneous:
            return f"operand {index} ({formal.name}) is {kind.short}, where {first.short} is needed"
    return ""
