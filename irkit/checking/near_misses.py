"""Near misses: instances of a rule's left side that are changed a little, where the rule must decline or still hold.

Another axis, another constant, another element type, a size that became 1, an operand in the place of another: what a
condition that was forgotten would let through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs
import ml_dtypes
import numpy as np

from irkit import dims
from irkit.build import call, const, shape_vector
from irkit.checking.draws import ends, numbers, specials
from irkit.checking.instances import DTYPES, SIGNED, Retry, permutation
from irkit.core.attributes import Given
from irkit.core.ir import Value, item, param
from irkit.core.types import DType, Tensor, Tuple, dims_of, types_of
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.core.walk import post_order
from irkit.dims import Dim
from irkit.errors import IrkitError
from irkit.ops.schemas import BODIES, AttributeSpec, has_schema, spec
from irkit.proofs.elements import EACH
from irkit.support.results import as_tuple

Made = Callable[[Sequence[Value | None]], Value | tuple[Value, ...]]
"""A value out of the operands that it would get."""

Instead = dict[Value, Value | Made]
"""What stands for some values: others, or functions from the operands that they would get to the value."""

Change = Callable[[tuple[Value, ...], np.random.Generator], Instead]


TRIES = 6
"""How many changes are tried until one leads somewhere."""


@attrs.frozen(eq=False)
class NearMiss:
    """Values with one thing changed, or several: `kinds` names the changes."""

    roots: tuple[Value, ...]
    kinds: tuple[str, ...]


def near_miss(roots: Sequence[Value], rng: np.random.Generator, changes: Sequence[Change] | None = None) -> NearMiss:
    """The values with one thing changed, now and then two, and all above it built anew: by one of `changes`, of
    `CHANGES` where none are given. Raises Retry where no change leads anywhere."""
    changes = CHANGES if changes is None else changes
    found, wanted = tuple(roots), 2 if rng.random() < 0.25 else 1
    kinds: list[str] = []
    for _ in range(TRIES):
        change = changes[int(rng.integers(len(changes)))]
        try:
            found = changed(found, rng, change)
        except Retry:
            continue
        kinds.append(kind_of(change))
        if len(kinds) == wanted:
            break
    if all(a is b for a, b in zip(found, roots, strict=True)):
        raise Retry("nothing can be changed")
    return NearMiss(found, tuple(kinds))


def kind_of(change: Change) -> str:
    """What a report calls a change."""
    return change.__name__.replace("_", " ")


def changed(roots: Sequence[Value], rng: np.random.Generator, change: Change) -> tuple[Value, ...]:
    """The values with one thing changed. Raises Retry where the change leads nowhere."""
    order = post_order(roots)
    try:
        with np.errstate(all="ignore"):
            built = rebuild_over(order, change(order, rng))
    except (IrkitError, ValueError, IndexError, ZeroDivisionError, OverflowError, KeyError, TypeError) as error:
        raise Retry(str(error)) from error
    found = tuple(built[r] for r in roots)
    if any(type(v) is not Value for v in found) or all(a is b for a, b in zip(found, roots, strict=True)):
        raise Retry("nothing changed")
    return found


def rebuild_over(order: Sequence[Value], instead: Instead) -> dict[Value, Value]:
    """Each value over what stands for its operands, its type inferred anew."""
    built: dict[Value, Value] = {}
    for value in order:
        given = tuple(None if v is None else built[v] for v in value.inputs)
        other = instead.get(value)
        if isinstance(other, Value):
            built[value] = other
        elif other is not None:
            built[value] = _whole(value, other(given))
        elif all(a is b for a, b in zip(given, value.inputs, strict=True)):
            built[value] = value
        else:
            built[value] = again(value, value.op, given, dict(value.attributes))
    return built


def again(value: Value, op: str, given: Sequence[Any], attributes: Given) -> Value:
    """The operator of a value, or another one, over other operands or attributes."""
    if op == ITEM:
        return item(given[0], value.attributes[0][1])
    if op in BODIES or op in (CALL, SHAPE_VECTOR):
        if any(a.type != b.type for a, b in zip(given, value.inputs, strict=True) if a is not None and b is not None):
            raise Retry("a body over operands of other types")
        return value.with_inputs(tuple(given))
    count = len(types_of(value.type))
    return _whole(value, call(op, list(given), attributes, outputs=count))


def over(value: Value, op: str, attributes: Given, leaving_out: int = 0) -> Made:
    """`again`, over all operands but so many of the last."""
    return lambda operands: again(value, op, operands[: len(operands) - leaving_out], attributes)


def vector_over(sizes: tuple[Dim, ...]) -> Made:
    """A vector of sizes, which its operands bind."""
    return lambda operands: shape_vector(sizes, *(v for v in operands if v is not None))


def _whole(value: Value, made: Value | tuple[Value, ...]) -> Value:
    """The operator itself, where several results were made of it."""
    first = as_tuple(made)[0]
    return cast(Value, first.inputs[0]) if isinstance(made, tuple) and isinstance(value.type, Tuple) else first


def _pick(rng: np.random.Generator, choices: Sequence[Any]) -> Any:
    if not choices:
        raise Retry("there is nothing of that kind to change")
    return choices[int(rng.integers(len(choices)))]


def _operators(order: Sequence[Value]) -> list[Value]:
    plain = (PARAM, CONSTANT, ITEM, SHAPE_VECTOR, CALL, *BODIES)
    return [v for v in order if v.op not in plain and ("::" in v.op or has_schema(v.op))]


# ---------------------------------------------------------------------------------------------- changes


def another_attribute(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One attribute of one operator says something else"""
    known = [(v, a) for v in _operators(order) for a in spec(v.op).attributes.values() if a.kind != "GRAPH"]
    value, attribute = _pick(rng, known)
    given = dict(value.attributes)
    found = _other(rng, attribute, given.get(attribute.name, attribute.default), value)
    return {value: over(value, value.op, {**given, attribute.name: found})}


def _other(rng: np.random.Generator, attribute: AttributeSpec, now: Any, value: Value) -> Any:
    first = value.inputs[0] if value.inputs else None
    rank = first.rank if first is not None and isinstance(first.type, Tensor) else 1
    if attribute.name in ("axis", "batch_dims"):
        return int(rng.integers(-rank, rank)) if rank else 0
    if attribute.name == "perm":
        return permutation(rng, rank)
    if attribute.name == "to":
        return int(_pick(rng, DTYPES if rng.random() < 0.7 else tuple(DType)))
    if attribute.kind == "FLOAT":
        extremes = tuple(map(float, edges(DType.FLOAT)))
        return _pick(rng, extremes if rng.random() < 0.2 else (0.0, 0.5, 2.0, 1e-3, -1.0, 1.0))
    if attribute.kind == "INT" and now in (0, 1):
        return 1 - now
    if attribute.kind == "INT":
        return _pick(rng, (0, 1, 1 - int(bool(now)), -1))
    if attribute.kind == "STRING":
        return _pick(rng, ("none", "tanh", "SAME_UPPER", "reflect", "edge", "mul", "add"))
    if attribute.kind == "INTS" and now:
        return tuple(int(n) + int(rng.integers(0, 2)) for n in now)
    raise Retry(f"nothing else for {attribute.name}")


def another_constant(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One constant holds other numbers: a little more, another sign, one element that differs"""
    value = _pick(rng, [v for v in order if v.op == CONSTANT and v.blob is not None and v.blob.size])
    array = np.array(value.blob.array)
    kind = DType.of(array.dtype)
    if kind is DType.BOOL:
        return {value: const(~array)}
    if kind.is_integer and kind.bits >= 8:
        backwards = array[::-1].copy() if array.ndim else array - 1
        ways = (array + 1, array - 1, backwards, -array, np.zeros_like(array), array * 0 + int(rng.integers(-3, 4)))
        return {value: const(ways[int(rng.integers(len(ways)))].astype(array.dtype))}
    if not kind.is_float:
        raise Retry("neither numbers nor flags")
    wide = array.astype(np.float64)
    one = wide.copy()
    one.reshape(-1)[0] += 1.0
    ways = (wide * 1.03, wide * 0.95, wide * 1.1 + 0.01, wide * 1.5 + 0.25, -wide, np.zeros_like(wide), one)
    return {value: const(ways[int(rng.integers(len(ways)))].astype(array.dtype))}


SIZING = frozenset(("Resize", "Upsample", "Range", "OneHot", "ConstantOfShape"))
"""Operators that make as many elements as a number in a constant says."""

COUNTING = frozenset(("Shape", "Size", "Range", SHAPE_VECTOR))
"""Operators that give sizes and places."""


def extreme_constant(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One constant holds an end of its element type's range, a subnormal number, a zero of either sign, a number beside
    1: everywhere, or in some places"""
    return _filled(_fillable(order), rng, edges)


def extreme_scalar(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One constant of one element holds such a number"""
    return _filled([v for v in _fillable(order) if math.prod(v.shape) == 1], rng, edges)


def no_number(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One constant holds NaN or an infinity: everywhere, or in some places"""
    return _filled(_fillable(order), rng, lambda kind: [n for n in specials(kind) if not np.isfinite(float(n))])


def edges(kind: DType) -> list[Any]:
    """The finite numbers of an element type at which equations break, its ends twice."""
    if kind.is_integer:
        low, high = ends(kind)
        return [low, high, high - 1, low + 1]
    top = ml_dtypes.finfo(kind.numpy).max
    return [top, -top, *(n for n in specials(kind) if np.isfinite(float(n)))]


def _fillable(order: Sequence[Value]) -> list[Value]:
    """The constants that may hold any numbers. Integers that say axes or places may not, nor those of 64 bits beside
    sizes: no tensor has so many elements that counting them overflows."""
    users: dict[Value, set[str]] = {}
    for value in order:
        for operand in value.inputs:
            if operand is not None and operand.op == CONSTANT:
                users.setdefault(operand, set()).add(value.op)
    counted = not COUNTING.isdisjoint(v.op for v in order)
    found: list[Value] = []
    for value, ops in users.items():
        if value.blob is None or not value.blob.size or not ops.isdisjoint(SIZING):
            continue
        summed = value.dtype.is_integer and ops <= EACH and not (counted and value.dtype is DType.INT64)
        if value.dtype.is_float or summed:
            found.append(value)
    return found


def _filled(
    constants: Sequence[Value], rng: np.random.Generator, numbers_of: Callable[[DType], Sequence[Any]]
) -> Instead:
    """One of the constants with one of the numbers that its element type has, everywhere or in some places."""
    value = _pick(rng, constants)
    array: np.ndarray = value.blob.array
    number = np.asarray(_pick(rng, numbers_of(value.dtype))).astype(array.dtype)
    most = 1.0 if rng.random() < 0.6 else 0.5
    places = rng.random(array.shape) < most
    return {value: const(np.where(places, number, array).astype(array.dtype))}


def wider_constant(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One constant is repeated, so that it broadcasts what it is combined with"""
    value = _pick(rng, [v for v in order if v.op == CONSTANT and v.blob is not None and v.rank < 3])
    array = value.blob.array
    shape = (2, *array.shape) if rng.random() < 0.5 else (1, *array.shape)
    if array.shape and rng.random() < 0.5 and array.shape[-1] == 1:
        shape = (*array.shape[:-1], 3)
    return {value: const(np.broadcast_to(array, shape).copy())}


def _resized(order: tuple[Value, ...], change: Callable[[Dim], Dim]) -> Instead:
    """Parameters and vectors of sizes with every dimension changed by a function."""
    found: Instead = {}
    for value in order:
        if value.op == PARAM and isinstance(value.type, Tensor):
            shape = tuple(change(d) for d in value.shape)
            if shape != value.shape:
                found[value] = param(Tensor(value.dtype, shape))
        elif value.op == SHAPE_VECTOR:
            sizes = tuple(change(d) for d in value.attributes[0][1])
            if any(type(d) is not int for d in sizes) and len(value.attributes) > 1:
                raise Retry("sizes out of data")
            found[value] = vector_over(sizes)
    return found


def another_size(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One symbol becomes a number, or another symbol, wherever it stands"""
    symbols = sorted({s for v in order for d in dims_of(v.type) for s in dims.symbols_of(d)}, key=str)
    chosen = _pick(rng, symbols)
    other = _pick(rng, (0, 1, 1, 1, 2, 2, dims.symbol("other"), dims.symbol("other")))
    return _resized(order, lambda d: dims.substitute(d, {chosen: other}))


def another_shape(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One parameter has a size of 1 instead, an unrelated size, or one dimension more or less"""
    value = _pick(rng, [v for v in order if v.op == PARAM and isinstance(v.type, Tensor)])
    shape = list(value.shape)
    way = int(rng.integers(4))
    at = int(rng.integers(len(shape))) if shape else 0
    if way == 0 or not shape:
        shape.insert(0, _pick(rng, (1, 2)))
    elif way == 1:
        del shape[0]
    else:
        shape[at] = 1 if way == 2 else dims.symbol("other")
    return {value: param(Tensor(value.dtype, tuple(shape)))}


def another_dtype(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """All numbers of one element type are of another"""
    kinds = {v.dtype for v in order if v.op == PARAM and isinstance(v.type, Tensor)}
    old = _pick(rng, sorted(kinds))
    new = _pick(rng, DTYPES if rng.random() < 0.7 else tuple(DType))
    found: Instead = {}
    for value in order:
        if not isinstance(value.type, Tensor) or value.dtype is not old:
            continue
        if value.op == PARAM:
            found[value] = param(Tensor(new, value.shape))
        elif value.op == CONSTANT and value.blob is not None and (new.is_float or not old.is_float):
            found[value] = const(value.blob.array.astype(new.numpy))
        elif value.op == CONSTANT and value.blob is not None:
            found[value] = const(numbers(rng, new, value.blob.shape))
        elif value.op in ("Cast", "CastLike") and value.attribute("to") == int(old):
            attributes = {**dict(value.attributes), "to": int(new)}
            found[value] = over(value, value.op, attributes)
    return found


def swapped(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """Two operands of one operator change places"""
    value = _pick(rng, [v for v in _operators(order) if len(v.inputs) > 1])
    first = int(rng.integers(len(value.inputs) - 1))

    def made(operands: Sequence[Value | None]) -> Value:
        changed = list(operands)
        changed[first], changed[first + 1] = changed[first + 1], changed[first]
        return again(value, value.op, changed, dict(value.attributes))

    return {value: made}


def stranger(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One operand of one operator is something else of the same type"""
    value = _pick(rng, [v for v in _operators(order) if v.inputs])
    at = int(rng.integers(len(value.inputs)))
    there = value.inputs[at]
    if there is None or not isinstance(there.type, Tensor) or there.op in (CONSTANT, SHAPE_VECTOR):
        raise Retry("it says where or how much")

    def made(operands: Sequence[Value | None]) -> Value:
        changed = list(operands)
        changed[at] = param(cast(Value, changed[at]).type)
        return again(value, value.op, changed, dict(value.attributes))

    return {value: made}


def without(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """The last operand of one operator is left out"""
    value = _pick(rng, [v for v in _operators(order) if len(v.inputs) > spec(v.op).min_inputs])
    return {value: over(value, value.op, dict(value.attributes), leaving_out=1)}


def one_more(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One operator has one operand more, of the type of one that it has"""
    value = _pick(rng, [v for v in _operators(order) if v.inputs])
    extra = _pick(rng, [v for v in value.inputs if v is not None])

    def made(operands: Sequence[Value | None]) -> Value:
        return again(value, value.op, [*operands, param(extra.type)], dict(value.attributes))

    return {value: made}


def same_operand(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One parameter is another one of the same type: what differed is one value that is used twice"""
    given = [v for v in order if v.op == PARAM and isinstance(v.type, Tensor)]
    pairs = [(v, w) for v in given for w in given if v is not w and v.type == w.type]
    value, other = _pick(rng, pairs)
    return {value: other}


def a_result(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One parameter is the result of an operator instead"""
    value = _pick(rng, [v for v in order if v.op == PARAM and isinstance(v.type, Tensor)])
    own = param(value.type)
    if value.dtype is DType.BOOL:
        return {value: call("Not", [own], {})}
    if value.dtype in SIGNED:
        return {value: call(_pick(rng, ("Neg", "Abs", "Relu")), [own], {})}
    return {value: call("Identity", [own], {})}


FAMILIES = (
    ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"),
    ("And", "Or", "Xor"),
    ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"),
    ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"),
    ("Relu", "Abs", "Neg", "Sigmoid", "Tanh", "Exp", "Sqrt", "Floor", "Ceil", "Round", "Sign", "Reciprocal"),
    ("Softmax", "LogSoftmax", "Hardmax"),
    ("Sin", "Cos"),
)
"""Operators that take the same operands."""


def sibling(order: tuple[Value, ...], rng: np.random.Generator) -> Instead:
    """One operator is another one that takes the same operands"""
    pairs = [(v, family) for v in _operators(order) for family in FAMILIES if v.op in family]
    value, family = _pick(rng, pairs)
    other = _pick(rng, [op for op in family if op != value.op])
    return {value: over(value, other, dict(value.attributes))}


CHANGES: tuple[Change, ...] = (
    another_attribute, another_attribute, another_attribute, another_constant, another_constant, another_constant,
    another_constant, wider_constant, another_size, another_shape, another_dtype, swapped, stranger, without, one_more,
    sibling, same_operand, a_result,
)  # fmt: skip
"""What may be changed; those that stand here more than once are made more often."""

EXACT_CHANGES: tuple[Change, ...] = (*CHANGES, extreme_constant, extreme_constant, no_number)
"""What may be changed where a rule holds of all numbers."""

REAL_CHANGES: tuple[Change, ...] = (*CHANGES, extreme_scalar, extreme_scalar)
"""What may be changed where a rule holds of real numbers: larger constants are of moderate size, as operands are."""

FAR = frozenset((kind_of(extreme_constant), kind_of(extreme_scalar), "another attribute"))
"""Changes after which a constant, or an attribute, may be far from 1."""
