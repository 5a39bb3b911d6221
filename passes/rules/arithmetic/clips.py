"""Clip, Relu, Max and Min: several bounds become one Clip.

All four pass NaN on, so merging two of them keeps it. ONNX does not say which of 0.0 and -0.0 is the larger, so a rule
that turns one operator into another is `exact=False`.
"""

from __future__ import annotations

import math

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value, param
from irkit.core.types import tensor
from irkit.pattern import const as constant
from irkit.pattern import hole, is_all_zeros, one_of, p, uniform
from irkit.pattern.predicates import Is
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import is_float, number, same_type, small

x, y = hole("x"), hole("y")
_low, _high = constant("low", optional=True), constant("high", optional=True)

Bounds = tuple[float, float]


def bounds_of(low: Value | None, high: Value | None) -> Bounds | None:
    """Both bounds as numbers, infinite where a bound is absent; None where one is not a constant number, or is NaN."""
    a = -math.inf if low is None else uniform(low)
    b = math.inf if high is None else uniform(high)
    return None if a is None or b is None or a != a or b != b else (a, b)


def mixes_zeros(*constants: float | np.ndarray) -> bool:
    """True where 0.0 is compared with -0.0: ONNX does not say which of them Clip or Max then gives."""
    zeros = [np.signbit(np.asarray(each)[np.asarray(each) == 0]) for each in constants]
    signs = np.concatenate([np.ravel(each) for each in zeros])
    return bool(signs.any() and not signs.all())


def clipped(x: Value, bounds: Bounds) -> Value:
    """x held between two numbers; a bound that no number of the type exceeds is left out."""
    widest = (-math.inf, math.inf)
    return op.Clip(x, *(None if v == end else number(x, v) for v, end in zip(bounds, widest, strict=True)))


def _within(inner: Bounds, outer: Bounds) -> Bounds | None:
    """The bounds that have the same effect as first `inner`, then `outer`."""
    low, high = max(inner[0], outer[0]), min(inner[1], outer[1])
    if inner[0] > inner[1] or outer[0] > outer[1]:
        return None
    if low <= high:
        return low, high
    return (outer[0], outer[0]) if inner[1] < outer[0] else (outer[1], outer[1])


# ---------------------------------------------------------------------------------------------- Clip and Relu


@rule(p.Relu(p.Clip(x, _low, _high)))
def relu_clip(m: Match) -> Made:
    """Relu(Clip(x, a, b)) -> Clip(x, max(a, 0), b)"""
    found = bounds_of(m.low, m.high)
    if found is None or found[1] <= 0:
        return decline("the bounds are not known, or nothing is above 0")
    return clipped(m.x, (found[0] if found[0] > 0 else 0, found[1]))


@rule(p.Clip(p.Relu(x), _low, _high))
def clip_relu(m: Match) -> Made:
    """Clip(Relu(x), a, b) -> Clip(x, max(a, 0), b)"""
    found = bounds_of(m.low, m.high)
    if found is None or (m.x.dtype.is_float and (found[1] == 0 or mixes_zeros(found[0], 0.0))):
        return decline("the bounds are not known, or one meets the 0 of Relu with another sign")
    return clipped(m.x, (found[0] if found[0] > 0 else 0, found[1]))


@rule(p.Clip(p.Clip(x, constant("a", optional=True), constant("b", optional=True)), _low, _high))
def clip_clip(m: Match) -> Made:
    """Clip(Clip(x, a, b), c, d) -> Clip(x, max(a, c), min(b, d))"""
    inner, outer = bounds_of(m.a, m.b), bounds_of(m.low, m.high)
    found = None if inner is None or outer is None else _within(inner, outer)
    if found is None or inner is None or outer is None:
        return decline("the bounds are not known, or crossed")
    crossed = 0 in (inner[0], outer[0]) and 0 in (inner[1], outer[1])
    if m.x.dtype.is_float and (crossed or mixes_zeros(*inner, *outer)):
        return decline("zeros meet, of some sign")
    return clipped(m.x, found)


@rule(p.Clip(x, _low, _high))
def clip_nothing(m: Match) -> Made:
    """Clip(x) without bounds -> x"""
    found = bounds_of(m.low, m.high)
    if found is None or not (math.isinf(found[0]) and found[0] < 0 and math.isinf(found[1]) and found[1] > 0):
        return decline("there are bounds")
    return m.x


@rule(p.Clip(x, constant("low", where=is_all_zeros), constant("high", optional=True)), exact=False)
def clip_to_relu(m: Match) -> Made:
    """Clip(x, 0) -> Relu(x)"""
    found = bounds_of(m.low, m.high)
    if found is None or not math.isinf(found[1]) or not is_float(m.x):
        return decline("there is an upper bound, or the numbers are integers")
    return op.Relu(m.x)


# ---------------------------------------------------------------------------------------------- Max and Min

_a, _b = constant("a"), constant("b")


@rule(one_of("Max", "Min")(one_of("Max", "Min")(x, _a).named("inner").once(), _b))
def bound_of_bound(m: Match) -> Made:
    """Max(Max(x, a), b) -> Max(x, max(a, b)), and so for Min, for constants"""
    if m.inner.op != m.root.op:
        return decline("a Max and a Min")
    a, b = small(m.a), small(m.b)
    if a is None or b is None:
        return decline("the constants are large")
    if m.a.dtype.is_float and mixes_zeros(a, b):
        return decline("a bound of 0.0 meets one of -0.0")
    with np.errstate(invalid="ignore"):
        found = (np.maximum if m.root.op == "Max" else np.minimum)(a, b).astype(m.a.dtype.numpy)
    if m.a.dtype.is_float and np.any(found == 0):
        return decline("which zero is taken depends on the order of the operands")
    if found.size > max(a.size, b.size, 1):
        return decline("the bound is larger than both")
    return (op.Max if m.root.op == "Max" else op.Min)(m.x, const(found))


@rule(one_of("Max", "Min")(one_of("Max", "Min")(x, _a).named("inner"), _b), exact=False)
def clip_of_max_min(m: Match) -> Made:
    """Max(Min(x, b), a) -> Clip(x, a, b), and so for Min(Max(x, a), b), for numbers a <= b"""
    a, b = uniform(m.a), uniform(m.b)
    if m.inner.op == m.root.op or a is None or b is None or not same_type(m.x, m.root):
        return decline("two of one kind, or a bound is not a number")
    low, high = (b, a) if m.root.op == "Max" else (a, b)
    return clipped(m.x, (low, high)) if low <= high else decline("the bounds are crossed")


@rule(one_of("Max", "Min")(p.Clip(x, _low, _high), _b), exact=False)
def bound_of_clip(m: Match) -> Made:
    """Max(Clip(x, a, b), c) -> Clip(x, max(a, c), max(b, c)), and so for Min"""
    found, b = bounds_of(m.low, m.high), uniform(m.b)
    if found is None or b is None or not same_type(m.x, m.root):
        return decline("a bound is not a number")
    merged = _within(found, (b, math.inf) if m.root.op == "Max" else (-math.inf, b))
    return decline("the bounds are crossed") if merged is None else clipped(m.x, merged)


@rule(p.Clip(one_of("Max", "Min")(x, _a).named("inner"), _low, _high), exact=False)
def clip_of_bound(m: Match) -> Made:
    """Clip(Max(x, c), a, b) -> Clip(x, max(a, c), b), and so for Min"""
    found, a = bounds_of(m.low, m.high), uniform(m.a)
    if found is None or a is None or not same_type(m.x, m.root):
        return decline("a bound is not a number")
    merged = _within((a, math.inf) if m.inner.op == "Max" else (-math.inf, a), found)
    return decline("the bounds are crossed") if merged is None else clipped(m.x, merged)


@rule(p.Min(p.Relu(x), _b), exact=False)
def min_of_relu(m: Match) -> Made:
    """Min(Relu(x), b) -> Clip(x, 0, b)"""
    b = uniform(m.b)
    if b is None or b < 0 or not same_type(m.x, m.root):
        return decline("the bound is not a number, or below 0")
    return clipped(m.x, (0, b))


@rule(p.Max(x, constant("zero", where=is_all_zeros)), exact=False)
def max_to_relu(m: Match) -> Made:
    """Max(x, 0) -> Relu(x)"""
    if not is_float(m.x) or not same_type(m.x, m.root):
        return decline("the zero broadcasts, or the numbers are integers")
    return op.Relu(m.x)


@rule(p.Relu(p.Min(x, _b)), exact=False)
def relu_of_min(m: Match) -> Made:
    """Relu(Min(x, b)) -> Clip(x, 0, b)"""
    b = uniform(m.b)
    if b is None or b < 0 or not same_type(m.x, m.root):
        return decline("the bound is not a number, or below 0")
    return clipped(m.x, (0, b))


@rule(p.Relu(p.Max(x, _b).named("most")), exact=False)
def relu_of_max(m: Match) -> Made:
    """Relu(Max(x, b)) -> Max(x, b) for b >= 0, and Relu(x) for b <= 0"""
    b = uniform(m.b)
    if b is None or not same_type(m.x, m.root):
        return decline("the bound is not a number")
    return m.most if b >= 0 else op.Relu(m.x)


_bounded = ("Sigmoid", "Softmax", "Tanh", "Erf", "Sin", "Cos", "Sign", "HardSigmoid", "Softsign")


@rule(p.Clip(one_of(*_bounded)(x).named("inner"), _low, _high))
def clip_of_bounded(m: Match) -> Made:
    """Clip(Sigmoid(x), 0, 1) -> Sigmoid(x), and so for what lies within the bounds anyway"""
    found = bounds_of(m.low, m.high)
    positive = m.inner.op in ("Sigmoid", "Softmax", "HardSigmoid")
    if found is None or found[0] > (0 if positive else -1) or found[1] < 1:
        return decline("the bounds cut")
    if found[0] == 0 and not math.copysign(1, found[0]) > 0:
        return decline("a bound of -0.0")
    return m.inner


@rule(p.Min(x, p.Max(x, y)))
def absorbed_max(m: Match) -> Made:
    """Min(x, Max(x, y)) -> x, for integers"""
    if not m.x.dtype.is_integer or not same_type(m.x, m.root):
        return decline("NaN in y shows, or y broadcasts")
    return m.x


@rule(p.Max(x, p.Min(x, y)))
def absorbed_min(m: Match) -> Made:
    """Max(x, Min(x, y)) -> x, for integers"""
    if not m.x.dtype.is_integer or not same_type(m.x, m.root):
        return decline("NaN in y shows, or y broadcasts")
    return m.x


def _is_lowest(value: Value) -> bool:
    return uniform(value) == -math.inf


def _is_highest(value: Value) -> bool:
    return uniform(value) == math.inf


_lowest = constant("a", where=Is("is_lowest", _is_lowest, (-math.inf,)))
_highest = constant("a", where=Is("is_highest", _is_highest, (math.inf,)))


def _unbounded(rng: np.random.Generator) -> Value:
    x = param(tensor("f32", "n", 3))
    return op.Max(x, const(np.float32(-np.inf))) if rng.random() < 0.5 else op.Min(x, const(np.float32(np.inf)))


@rule(p.Max(x, _lowest), sample=_unbounded)
def max_of_lowest(m: Match) -> Made:
    """Max(x, -inf) -> x"""
    return m.x if same_type(m.x, m.root) else decline("the bound broadcasts")


@rule(p.Min(x, _highest), sample=_unbounded)
def min_of_highest(m: Match) -> Made:
    """Min(x, inf) -> x"""
    return m.x if same_type(m.x, m.root) else decline("the bound broadcasts")


CLIPS: tuple[Rule, ...] = (
    relu_clip, clip_relu, clip_clip, clip_nothing, clip_of_bounded, bound_of_bound, absorbed_max, absorbed_min,
    max_of_lowest, min_of_highest,
)  # fmt: skip
"""Bounds of bounds, to the same bits."""

REAL_CLIPS: tuple[Rule, ...] = (
    clip_to_relu, clip_of_max_min, bound_of_clip, clip_of_bound, min_of_relu, max_to_relu, relu_of_min, relu_of_max,
)  # fmt: skip
"""The same with Max and Min, of which zeros of either sign are one."""
