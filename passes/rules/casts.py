"""Casts: those that change nothing, and two in a row of which the first loses nothing."""

from __future__ import annotations

from typing import Any

from irkit.build import call, op
from irkit.pattern import attr, hole, one_of, p
from irkit.rewrite import Match, Rule, decline, rule
from irkit.types import DType

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


@rule(one_of("Cast")(x))
def same_cast(m: Match) -> Any:
    """Cast(x, its own element type) -> x"""
    return m.x if m.x.dtype is m.root.dtype else decline("the element type changes")


@rule(one_of("Cast")(one_of("Cast")(x).named("inner")))
def cast_cast(m: Match) -> Any:
    """Cast(Cast(x)) -> Cast(x), where the inner one loses nothing"""
    start, middle, end = m.x.dtype, m.inner.dtype, m.root.dtype
    if not holds_all(start, middle):
        return decline(f"{middle.short} does not hold every {start.short}")
    if middle.is_float and not start.is_float and end.is_integer and not holds_all(start, end):
        return decline("integers wrap, and floating-point numbers out of range do not")
    if end is start:
        return m.x
    return call("Cast", [m.x], dict(m.root.attributes))


@rule(p.CastLike(x, hole("y"), round_mode=attr("round_mode"), saturate=attr("saturate")))
def cast_like(m: Match) -> Any:
    """CastLike(x, y) -> Cast(x, the element type of y)"""
    return op.Cast(m.x, to=m.root.dtype, round_mode=m.round_mode, saturate=m.saturate)


CASTS: tuple[Rule, ...] = (same_cast, cast_cast, cast_like)
