"""Norms in other forms: without a scale, computed in another element type, with the mean of squares, by channel."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor, tensor
from irkit.pattern import Either, Op, attr, either, hole, is_all_ones, is_all_zeros, p, uniform
from irkit.pattern import const as constant
from irkit.pattern.language import Pattern
from irkit.pattern.predicates import Is
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import axes_of, lazily, positive, same_type
from passes.rules.arithmetic.fusions import about

x, w = hole("x"), hole("w")


def _is_small(value: Value) -> bool:
    found = uniform(value)
    return isinstance(found, float) and 0 < found < 1


_epsilon = constant("epsilon", where=Is("is_small", _is_small, (1e-5, 1e-6, 0.1)))
WIDEST = 1 << 13
"""Scales of ones of more elements are not written down."""

NARROW = (DType.FLOAT16, DType.BFLOAT16)


def _square(inner: Pattern) -> Either:
    return either(p.Mul(inner, inner), p.Pow(inner, about(2.0)))


def _along_last(value: Value, rank: int) -> bool:
    axes = axes_of(value)
    return axes is not None and rank > 0 and positive(axes, rank) == (rank - 1,)


def _ones(like: Value) -> Value | None:
    size = like.shape[-1]
    return const(np.ones(size, like.dtype.numpy)) if type(size) is int and 0 < size <= WIDEST else None


# ---------------------------------------------------------------------------------------------- RMS


@rule(p.Sqrt(p.Reciprocal(x).once()), exact=False)
def root_of_reciprocal(m: Match) -> Made:
    """Sqrt(1 / x) -> 1 / Sqrt(x)"""
    return op.Reciprocal(op.Sqrt(m.x)) if m.x.dtype.is_float else decline("integers")


@rule(p.Pow(x, about(-0.5)), exact=False)
def inverse_root(m: Match) -> Made:
    """x ** -0.5 -> 1 / Sqrt(x)"""
    return op.Reciprocal(op.Sqrt(m.x)) if same_type(m.x, m.root) else decline("the exponent broadcasts")


_root = p.Sqrt(p.Add(p.ReduceMean(_square(x), constant("axes"), keepdims=1), _epsilon))


@rule(either(p.Div(x, _root), p.Mul(x, p.Reciprocal(_root))), exact=False)
def rms_norm_plain(m: Match) -> Made:
    """x / Sqrt(mean(x * x) + epsilon) -> RMSNormalization(x, 1)"""
    if m.x.dtype is not DType.FLOAT or not same_type(m.x, m.root):
        return decline("the norm would be computed in another element type")
    if not _along_last(m.axes, m.x.rank):
        return decline("the mean is not along the last axis")
    ones = _ones(m.x)
    if ones is None:
        return decline("the last axis is long, or of a size that is not known")
    return op.RMSNormalization(m.x, ones, axis=-1, epsilon=float(uniform(m.epsilon)))


_unit = constant("unit", where=is_all_ones)
_attributes = {"axis": attr("axis"), "epsilon": attr("epsilon"), "stash_type": attr("stash_type")}


def _row_of(value: Value, like: Value) -> bool:
    return value.rank == 1 and value.shape[0] == like.shape[-1] and value.dtype is like.dtype


def _scaled(rng: np.random.Generator) -> Value:
    x = param(tensor("f32", "n", 4))
    normed = op.RMSNormalization(x, np.ones(4, np.float32), epsilon=1e-3)
    return op.Mul(*((normed, param(tensor("f32", 4))) if rng.random() < 0.5 else (param(tensor("f32", 4)), normed)))


@rule(p.Mul(p.RMSNormalization(x, _unit, **_attributes).once(), w), exact=False, sample=_scaled)
def rms_norm_scale(m: Match) -> Made:
    """RMSNormalization(x, 1) * w -> RMSNormalization(x, w)"""
    if not _row_of(m.w, m.x) or m.axis % m.x.rank != m.x.rank - 1:
        return decline("w is not a vector along the last axis")
    return op.RMSNormalization(m.x, m.w, axis=m.axis, epsilon=m.epsilon, stash_type=m.stash_type)


# ---------------------------------------------------------------------------------------------- narrow ones


def _narrow(rng: np.random.Generator, name: str) -> Value:
    dtype = NARROW[int(rng.integers(2))]
    wide = op.Cast(param(Tensor(dtype, (2, 3, 4))), to=DType.FLOAT)
    normed = getattr(op, name)(wide, np.ones(4, np.float32), epsilon=1e-3, axis=-1)
    return op.Cast(normed, to=dtype)


def _narrowed(m: Match, name: str) -> Made:
    source, to = m.x, m.root.dtype
    if source.dtype is not to or to not in NARROW or m.stash_type != 1 or m.axis % source.rank != source.rank - 1:
        return decline("not from a narrow type to f32 and back")
    ones = _ones(source)
    if ones is None:
        return decline("the last axis is long")
    return getattr(op, name)(source, ones, axis=m.axis, epsilon=m.epsilon)


_widened = p.Cast(x, to=DType.FLOAT)


def _cast(inner: Pattern) -> Op:
    return p.Cast(inner, to=attr("to"))


@rule(
    _cast(p.RMSNormalization(_widened, _unit, **_attributes).once()),
    exact=False,
    sample=lambda rng: _narrow(rng, "RMSNormalization"),
)
def rms_norm_narrow(m: Match) -> Made:
    """Cast(RMSNormalization(Cast(x, f32), 1), f16) -> RMSNormalization(x, 1), which computes in f32"""
    return _narrowed(m, "RMSNormalization")


@rule(
    _cast(p.LayerNormalization(_widened, _unit, **_attributes).once()),
    exact=False,
    sample=lambda rng: _narrow(rng, "LayerNormalization"),
)
def layer_norm_narrow(m: Match) -> Made:
    """Cast(LayerNormalization(Cast(x, f32), 1), f16) -> LayerNormalization(x, 1), which computes in f32"""
    return _narrowed(m, "LayerNormalization")


# ---------------------------------------------------------------------------------------------- by the mean of squares


def _mean(inner: Pattern, name: str) -> Op:
    return p.ReduceMean(inner, constant(name), keepdims=1)


_average = _mean(x, "axes").named("average")
_spread = p.Sqrt(p.Add(p.Sub(_mean(_square(x), "axes_1"), _square(hole("average"))), _epsilon))
_gap = p.Sub(x, _average)


def _of_squares(rng: np.random.Generator) -> Value:
    x = param(tensor("f32", 2, "n", 16))
    mean = op.ReduceMean(x, [-1])
    spread = op.Sub(op.ReduceMean(op.Mul(x, x), [2]), op.Mul(mean, mean))
    root = op.Sqrt(op.Add(spread, 0.1))
    return op.Div(op.Sub(x, mean), root) if rng.random() < 0.5 else op.Mul(op.Sub(x, mean), op.Reciprocal(root))


@rule(either(p.Div(_gap, _spread), p.Mul(_gap, p.Reciprocal(_spread))), exact=False, sample=_of_squares)
def layer_norm_of_squares(m: Match) -> Made:
    """(x - mean(x)) / Sqrt(mean(x * x) - mean(x) ** 2 + epsilon) -> LayerNormalization(x, 1)"""
    if m.x.dtype is not DType.FLOAT or not same_type(m.x, m.root):
        return decline("the norm would be computed in another element type")
    if not (_along_last(m.axes, m.x.rank) and _along_last(m.axes_1, m.x.rank)):
        return decline("the mean is not along the last axis")
    ones = _ones(m.x)
    if ones is None:
        return decline("the last axis is long, or of a size that is not known")
    return op.LayerNormalization(m.x, ones, axis=-1, epsilon=float(uniform(m.epsilon)))


# ---------------------------------------------------------------------------------------------- by channel


def _by_channel(rng: np.random.Generator) -> Value:
    x = param(tensor("f32", "n", 3, 4, 5) if rng.random() < 0.5 else tensor("f32", "n", 3, "length"))
    axes = np.arange(2, x.rank)
    gap = op.Sub(x, op.ReduceMean(x, axes))
    root = op.Sqrt(op.Add(op.ReduceMean(op.Mul(gap, gap), axes - x.rank), 1e-3))
    return op.Div(gap, root) if rng.random() < 0.5 else op.Mul(gap, op.Reciprocal(root))


_deviation = p.Sub(x, _mean(x, "axes")).named("deviation")
_own_spread = p.Sqrt(p.Add(_mean(_square(hole("deviation")), "axes_1"), _epsilon))


@rule(
    either(p.Div(_deviation, _own_spread), p.Mul(_deviation, p.Reciprocal(_own_spread))),
    exact=False,
    sample=_by_channel,
)
def instance_norm(m: Match) -> Made:
    """(x - mean(x)) / Sqrt(variance + epsilon) over all but batch and channels -> InstanceNormalization(x, 1, 0)"""
    rank, channels = m.x.rank, m.x.shape[1] if m.x.rank > 2 else None
    if type(channels) is not int or m.x.dtype is not DType.FLOAT or not same_type(m.x, m.root):
        return decline("no channels, or the norm would be computed in another element type")
    for axes in (axes_of(m.axes), axes_of(m.axes_1)):
        if axes is None or positive(axes, rank) != tuple(range(2, rank)):
            return decline("the mean is not over all but batch and channels")
    ones, zeros = (const(np.full(channels, n, np.float32)) for n in (1, 0))
    return op.InstanceNormalization(m.x, ones, zeros, epsilon=float(uniform(m.epsilon)))


_none = constant("none", where=is_all_zeros)


def _scaled_instances(rng: np.random.Generator) -> Value:
    x = param(tensor("f32", "n", 3, "length"))
    normed = op.InstanceNormalization(x, np.ones(3, np.float32), np.zeros(3, np.float32), epsilon=1e-3)
    number = const(rng.standard_normal((3, 1)).astype(np.float32))
    return op.Mul(normed, number) if rng.random() < 0.5 else op.Add(normed, number)


def _of_channels(value: Value, like: Value) -> bool:
    """True for a constant with one number for each channel."""
    shape = (1,) * (like.rank - value.rank) + value.shape
    return value.rank <= like.rank and all(d == (like.shape[1] if i == 1 else 1) for i, d in enumerate(shape))


@rule(
    p.Mul(p.InstanceNormalization(x, _unit, _none, epsilon=attr("epsilon")).once(), constant("c")),
    exact=False,
    sample=_scaled_instances,
)
def instance_norm_scale(m: Match) -> Made:
    """InstanceNormalization(x, 1, 0) * w -> InstanceNormalization(x, w, 0), for a w for each channel"""
    if not _of_channels(m.c, m.x):
        return decline("not one number for each channel")
    scale = lazily(m.c, (m.x.shape[1],), lambda: m.c.blob.read().reshape(-1), [m.c])
    return op.InstanceNormalization(m.x, scale, m.none, epsilon=m.epsilon)


@rule(
    p.Add(p.InstanceNormalization(x, w, _none, epsilon=attr("epsilon")).once(), constant("c")),
    exact=False,
    sample=_scaled_instances,
)
def instance_norm_bias(m: Match) -> Made:
    """InstanceNormalization(x, w, 0) + b -> InstanceNormalization(x, w, b), for a b for each channel"""
    if not _of_channels(m.c, m.x):
        return decline("not one number for each channel")
    bias = lazily(m.c, (m.x.shape[1],), lambda: m.c.blob.read().reshape(-1), [m.c])
    return op.InstanceNormalization(m.x, m.w, bias, epsilon=m.epsilon)


NORMS: tuple[Rule, ...] = (
    root_of_reciprocal, inverse_root, rms_norm_plain, rms_norm_scale, rms_norm_narrow, layer_norm_narrow,
    layer_norm_of_squares, instance_norm, instance_norm_scale, instance_norm_bias,
)  # fmt: skip
"""Norms in other spellings."""
