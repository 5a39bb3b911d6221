"""Casts: those that change nothing, and two in a row of which the first loses nothing."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.pattern import attr, hole, one_of, p, rest, uniform
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import same_shape, takes

x = hole("x")

_EXACT_INTEGERS = {DType.FLOAT: 24, DType.DOUBLE: 53, DType.FLOAT16: 11, DType.BFLOAT16: 8}
"""Integers of up to this many bits are exact in a floating-point type."""

_WIDER = {
    DType.BFLOAT16: (DType.FLOAT, DType.DOUBLE),
    DType.FLOAT16: (DType.FLOAT, DType.DOUBLE),
    DType.FLOAT: (DType.DOUBLE,),
}
"""Floating-point types that hold every number of another."""


def holds_all(small: DType, large: DType) -> bool:
    """True where every value of `small` is a value of `large`."""
    if small is large:
        return True
    if small is DType.BOOL:
        return large.is_integer or large in _EXACT_INTEGERS
    if small.is_float:
        return large in _WIDER.get(small, ())
    if not small.is_integer:
        return False
    if large.is_integer:
        signs = small.is_unsigned == large.is_unsigned
        return (small.bits <= large.bits) if signs else (small.is_unsigned and small.bits < large.bits)
    return small.bits - (not small.is_unsigned) <= _EXACT_INTEGERS.get(large, 0)


def _merges(start: DType, middle: DType, end: DType) -> bool:
    """True where casting to a middle type and then on gives what one cast gives: the middle type holds every number of
    the first one; a text is written as the first type writes it (1, not 1.0); integers out of range wrap,
    floating-point numbers do not."""
    if start is middle:
        return True
    if not holds_all(start, middle) or (end is DType.STRING and not (start.is_integer and middle.is_integer)):
        return False
    return not (middle.is_float and not start.is_float and end.is_integer and not holds_all(start, end))


@rule(one_of("Cast")(x))
def same_cast(m: Match) -> Made:
    """Cast(x, its own element type) -> x"""
    return m.x if m.x.dtype is m.root.dtype else decline("the element type changes")


@rule(one_of("Cast")(one_of("Cast")(x).named("inner")))
def cast_cast(m: Match) -> Made:
    """Cast(Cast(x)) -> Cast(x), where the inner one loses nothing"""
    if not _merges(m.x.dtype, m.inner.dtype, m.root.dtype):
        return decline("the first cast loses something")
    if m.root.dtype is m.x.dtype:
        return m.x
    return call("Cast", [m.x], dict(m.root.attributes))


@rule(p.CastLike(x, hole("y"), round_mode=attr("round_mode"), saturate=attr("saturate")))
def cast_like(m: Match) -> Made:
    """CastLike(x, y) -> Cast(x, the element type of y)"""
    return op.Cast(m.x, to=m.root.dtype, round_mode=m.round_mode, saturate=m.saturate)


# ---------------------------------------------------------------------------------------------- around other operators


_MOVED = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Transpose", "Slice", "Gather", "Tile")


def _moved(rng: np.random.Generator) -> Value:
    start, middle, end = (
        (DType.FLOAT16, DType.FLOAT, DType.FLOAT16) if rng.random() < 0.5 else (DType.INT32, DType.INT64, DType.FLOAT)
    )
    wide = op.Cast(param(Tensor(start, (dims.symbol("n"), 4))), to=middle)
    makers = (
        lambda: op.Transpose(wide), lambda: op.Unsqueeze(wide, [0]), lambda: op.Slice(wide, [0], [2], [1]),
        lambda: op.Gather(wide, np.array([1, 0]), axis=1), lambda: op.Reshape(wide, [0, 2, 2]),
    )  # fmt: skip
    return op.Cast(makers[int(rng.integers(len(makers)))](), to=end)


@rule(
    one_of("Cast")(one_of(*_MOVED)(one_of("Cast")(x).named("inner").once(), *rest("more")).named("view").once()),
    sample=_moved,
)
def cast_of_moved_cast(m: Match) -> Made:
    """Cast(Transpose(Cast(x))) -> Transpose(Cast(x)), and so for what only moves elements"""
    if not _merges(m.x.dtype, m.inner.dtype, m.root.dtype):
        return decline("the first cast loses something")
    if not takes(m.view.op, m.root.dtype):
        return decline(f"{m.view.op} takes no {m.root.dtype.short}")
    new = m.x if m.x.dtype is m.root.dtype else call("Cast", [m.x], dict(m.root.attributes))
    return call(m.view.op, [new, *m.more], dict(m.view.attributes))


_NARROW = (DType.FLOAT16, DType.BFLOAT16)


def _around(rng: np.random.Generator) -> Value:
    dtype = _NARROW[int(rng.integers(2))]
    wide = [op.Cast(param(Tensor(dtype, (dims.symbol("n"), 3))), to=DType.FLOAT) for _ in range(2)]
    name = ("Add", "Sub", "Mul", "Div", "Neg", "Abs", "Relu")[int(rng.integers(7))]
    return op.Cast(call(name, wide[: 1 + (name in ("Add", "Sub", "Mul", "Div"))], {}), to=dtype)


_inner_cast = one_of("Cast")(x)


@rule(
    one_of("Cast")(one_of("Neg", "Abs", "Relu", "Sqrt")(_inner_cast.named("inner").once()).named("f").once()),
    sample=_around,
)
def cast_around_unary(m: Match) -> Made:
    """Cast(f(Cast(x, f32)), f16) -> f(x), for what is rounded once: Neg, Abs, Relu, Sqrt"""
    if m.x.dtype is not m.root.dtype or m.x.dtype not in _NARROW or m.inner.dtype is not DType.FLOAT:
        return decline("not from a narrow type to f32 and back")
    return call(m.f.op, [m.x], dict(m.f.attributes))


_two_casts = (one_of("Cast")(x).named("first").once(), one_of("Cast")(hole("y")).named("second").once())


@rule(one_of("Cast")(one_of("Add", "Sub", "Mul", "Div")(*_two_casts).named("f").once()), sample=_around)
def cast_around_binary(m: Match) -> Made:
    """Cast(Cast(x, f32) + Cast(y, f32), f16) -> x + y: f32 is wide enough that rounding twice is rounding once"""
    if m.x.dtype is not m.root.dtype or m.x.dtype not in _NARROW or m.y.dtype is not m.x.dtype:
        return decline("not from a narrow type and back")
    if m.first.dtype is not DType.FLOAT or (m.f.inputs[0] is not m.first and m.f.op in ("Sub", "Div")):
        return decline("not computed in f32")
    return call(m.f.op, [m.x, m.y], dict(m.f.attributes))


_COMPARED = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")


def _compared(rng: np.random.Generator) -> Value:
    a, b = (op.Cast(param(Tensor(DType.INT32, (dims.symbol("n"), 3))), to=DType.INT64) for _ in range(2))
    return call(_COMPARED[int(rng.integers(5))], [a, b], {})


@rule(one_of(*_COMPARED)(one_of("Cast")(x).named("first"), one_of("Cast")(hole("y")).named("second")), sample=_compared)
def compare_of_casts(m: Match) -> Made:
    """Cast(x, i64) < Cast(y, i64) -> x < y, where the casts lose nothing"""
    start = m.x.dtype
    if m.y.dtype is not start or not holds_all(start, m.first.dtype):
        return decline("two element types, or the casts lose something")
    if start is DType.BOOL and m.root.op != "Equal":
        return decline("flags have no order")
    if not takes(m.root.op, start):
        return decline(f"{m.root.op} takes no {start.short}")
    straight = m.root.inputs[0] is m.first
    return call(m.root.op, [m.x, m.y] if straight else [m.y, m.x], {})


def _flags(rng: np.random.Generator) -> Value:
    flags = op.Cast(param(Tensor(DType.BOOL, (dims.symbol("n"), 3))), to=DType.INT64)
    name = ("Equal", "Greater")[int(rng.integers(2))]
    return call(name, [flags, const(np.array(int(rng.random() < 0.5)))], {})


@rule(one_of("Equal", "Greater")(one_of("Cast")(x).named("inner"), constant("c")), sample=_flags)
def compare_of_flags(m: Match) -> Made:
    """Cast(flags) == 0 -> Not(flags); Cast(flags) == 1, Cast(flags) > 0 -> flags"""
    found = uniform(m.c)
    if m.x.dtype is not DType.BOOL or found not in (0, 1) or not same_shape(m.x.shape, m.root.shape):
        return decline("no flags, or the number broadcasts them")
    if m.root.op == "Greater":
        return m.x if found == 0 and m.root.inputs[0] is m.inner else decline("not above 0")
    return m.x if found else op.Not(m.x)


def _chosen(rng: np.random.Generator) -> Value:
    c = param(Tensor(DType.BOOL, (dims.symbol("n"), 3)))
    return op.Cast(op.Where(c, const(np.float32(1.5)), const(np.float32(-2.0))), to=DType.INT64)


@rule(one_of("Cast")(p.Where(hole("c"), constant("a"), constant("b")).once()), sample=_chosen)
def cast_of_choice(m: Match) -> Made:
    """Cast(Where(c, a, b)) -> Where(c, Cast(a), Cast(b)), for constants"""
    if m.a.blob.is_weight or m.b.blob.is_weight or m.a.blob.size > 64 or m.b.blob.size > 64:
        return decline("weights, or many numbers")
    if not takes("Where", m.root.dtype, 1):
        return decline(f"Where takes no {m.root.dtype.short}")
    a, b = (call("Cast", [v], dict(m.root.attributes)) for v in (m.a, m.b))
    return op.Where(m.c, a, b)


CASTS: tuple[Rule, ...] = (same_cast, cast_cast, cast_like)
"""Casts that are not needed; no bit changes. Legalizing applies them too."""

AROUND: tuple[Rule, ...] = (
    cast_of_moved_cast, cast_around_unary, cast_around_binary, compare_of_casts, compare_of_flags, cast_of_choice,
)  # fmt: skip
"""Casts that are not needed around other operators; legalizing puts such casts there where a kernel is missing."""
