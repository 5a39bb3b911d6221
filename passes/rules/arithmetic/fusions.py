"""Expressions that ONNX has one operator for: Gemm, Gelu, Swish, norms, softmax, Clip, keepdims.

None of these is `exact`: the one operator may round elsewhere than the several.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.pattern import Constant, Either, Op, attr, either, hole, is_all_ones, p, uniform
from irkit.pattern import const as constant
from irkit.pattern.language import Pattern
from irkit.pattern.predicates import Is
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import axes_of, holds_digits, is_float, positive, same_shape, same_type, trailing_axis
from passes.rules.movement.views import view

x, y, w = hole("x"), hole("y"), hole("w")


def about(target: float) -> Constant:
    """A pattern for a constant that equals `target` up to rounding in its element type."""

    def holds(value: Value) -> bool:
        found = uniform(value)
        if found is None or isinstance(found, complex) or not value.dtype.is_float:
            return False
        slack = {DType.BFLOAT16: 1e-2, DType.FLOAT16: 2e-3, DType.DOUBLE: 1e-14}.get(value.dtype, 2e-6)
        return abs(found - target) <= slack * abs(target)

    return constant("", where=Is(f"is about {target:.6g}", holds, (target,)))


def _same_as_x(m: Match, build: Callable[[], Value]) -> Made:
    return build() if same_type(m.x, m.root) else decline("a constant broadcasts x")


# ---------------------------------------------------------------------------------------------- products


def _matrix(value: Value) -> bool:
    return value.rank == 2 and value.dtype.is_float


_product = p.MatMul(hole("a", where=_matrix), hole("b", where=_matrix)).named("product").once()


def _broadcasts_to(value: Value, target: Value) -> bool:
    """True where an operand may be the C of a Gemm with that result."""
    if value.rank > 2:
        return False
    pairs = zip(reversed(value.shape), reversed(target.shape), strict=False)
    return all((type(d) is int and d == 1) or dims.same(d, t) is True for d, t in pairs)


@rule(p.Add(_product, hole("c")).typed(rank=2), exact=False)
def gemm(m: Match) -> Made:
    """a @ b + c -> Gemm(a, b, c), for matrices"""
    if not _broadcasts_to(m.c, m.product):
        return decline("c does not broadcast to the product")
    return op.Gemm(m.a, m.b, m.c)


_gemm_attributes = {name: attr(name) for name in ("transA", "transB", "alpha", "beta")}


@rule(p.Add(p.Gemm(hole("a"), hole("b"), **_gemm_attributes).named("product").once(), hole("c")), exact=False)
def gemm_bias(m: Match) -> Made:
    """Gemm(a, b) + c -> Gemm(a, b, c)"""
    if not _broadcasts_to(m.c, m.product) or not is_float(m.a):
        return decline("c does not broadcast to the product, or the numbers are integers")
    return op.Gemm(m.a, m.b, m.c, transA=m.transA, transB=m.transB, alpha=m.alpha)


def _flattened(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = param(Tensor(DType.FLOAT, (batch, length, 4) if rng.random() < 0.5 else (batch, length, 2, 2)))
    flat = op.Reshape(x, shape_vector((dims.mul(batch, length), 4)))
    bias = param(Tensor(DType.FLOAT, (3,))) if rng.random() < 0.7 else None
    turned = int(rng.random() < 0.5)
    weight = const(rng.standard_normal((3, 4) if turned else (4, 3)).astype(np.float32))
    made = (
        op.Gemm(flat, weight, bias, transB=turned)
        if rng.random() < 0.8
        else op.MatMul(flat, param(Tensor(DType.FLOAT, (4, 5))))
    )
    return op.Reshape(made, shape_vector((batch, length, made.shape[-1])))


_rows = p.Reshape(x, hole("flat"), allowzero=attr("a")).named("rows")
_weighted = either(
    p.Gemm(_rows, hole("b"), hole("c", optional=True), transB=attr("transB")).named("product").once(),
    p.MatMul(_rows, hole("b")).named("product").once(),
)


@rule(p.Reshape(_weighted, hole("shape"), allowzero=attr("b_")), exact=False, sample=_flattened)
def product_of_rows(m: Match) -> Made:
    """Reshape(Gemm(Reshape(x, [n, k]), b, c)) -> x @ b + c, where leading axes were joined, or last ones to k"""
    lead, width = m.root.shape[:-1], m.rows.shape[-1]
    if m.rows.rank != 2 or m.x.rank < 3 or len(lead) < 2 or not same_shape(m.x.shape[: len(lead)], lead):
        return decline("the leading axes do not come back")
    if not same_shape(m.root.shape[-1:], m.product.shape[-1:]) or m.b.rank != 2:
        return decline("the last axis does not stay")
    gemm = m.product.op == "Gemm"
    if gemm and m.transB and m.b.blob is None:
        return decline("the transpose of b would be computed each time")
    c = m.c if gemm else None
    if c is not None and c.rank > 1:
        return decline("the bias is not a vector")
    rows = view(m, m.x, (*lead, width))
    if rows is None:
        return decline("a dimension is not bound")
    b = op.Transpose(m.b, perm=(1, 0)) if gemm and m.transB else m.b
    found = op.MatMul(rows, b)
    return found if c is None else op.Add(found, c)


# ---------------------------------------------------------------------------------------------- activations

_root2 = math.sqrt(2.0)
_erf = p.Erf(either(p.Div(x, about(_root2)), p.Mul(x, about(1 / _root2))))


def _halved(inner: Op) -> Either:
    """0.5 * x * (1 + inner), in every order of the products."""
    more = p.Add(inner, about(1.0))
    half = about(0.5)
    return either(p.Mul(p.Mul(x, half), more), p.Mul(x, p.Mul(more, half)), p.Mul(p.Mul(x, more), half))


@rule(_halved(_erf), exact=False)
def gelu(m: Match) -> Made:
    """0.5 * x * (1 + Erf(x / sqrt(2))) -> Gelu(x)"""
    return _same_as_x(m, lambda: op.Gelu(m.x))


_cube = either(p.Pow(x, about(3.0)), p.Mul(p.Mul(x, x), x))
_poly = either(
    p.Mul(p.Add(x, p.Mul(_cube, about(0.044715))), about(math.sqrt(2 / math.pi))),
    p.Mul(p.Mul(x, about(math.sqrt(2 / math.pi))), p.Add(p.Mul(p.Mul(x, about(0.044715)), x), about(1.0))),
    p.Mul(p.Mul(x, about(math.sqrt(2 / math.pi))), p.Add(p.Mul(p.Mul(x, x), about(0.044715)), about(1.0))),
)


@rule(_halved(p.Tanh(_poly)), exact=False)
def gelu_tanh(m: Match) -> Made:
    """0.5 * x * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) -> Gelu(x, approximate="tanh")"""
    return _same_as_x(m, lambda: op.Gelu(m.x, approximate="tanh"))


@rule(p.Mul(x, p.Sigmoid(x)), exact=False)
def swish(m: Match) -> Made:
    """x * Sigmoid(x) -> Swish(x)"""
    return op.Swish(m.x)


@rule(p.Mul(x, p.Sigmoid(p.Mul(x, constant("alpha")))), exact=False)
def swish_alpha(m: Match) -> Made:
    """x * Sigmoid(alpha * x) -> Swish(x, alpha)"""
    alpha = uniform(m.alpha)
    if alpha is None:
        return decline("alpha is not a single number")
    if not holds_digits(m.x, float(alpha)):
        return decline("more digits than the attribute has")
    return _same_as_x(m, lambda: op.Swish(m.x, alpha=float(alpha)))


@rule(p.Log(p.Softmax(x, axis=attr("axis"))), exact=False)
def log_softmax(m: Match) -> Made:
    """Log(Softmax(x)) -> LogSoftmax(x)"""
    return op.LogSoftmax(m.x, axis=m.axis)


# ---------------------------------------------------------------------------------------------- norms

_last = constant("axes")


def _of_last_axis(m: Match, axes: Value) -> bool:
    found = axes_of(axes)
    return found is not None and m.x.rank > 0 and positive(found, m.x.rank) == (m.x.rank - 1,)


def _mean(inner: Pattern) -> Op:
    return p.ReduceMean(inner, _last, keepdims=1)


def _square(inner: Pattern) -> Either:
    return either(p.Mul(inner, inner), p.Pow(inner, about(2.0)))


def _is_small(value: Value) -> bool:
    found = uniform(value)
    return found is not None and not isinstance(found, complex) and 0 < found < 1


_epsilon = constant("epsilon", where=Is("is_small", _is_small, (1e-5, 1e-6, 0.1)))
_deviation = p.Sub(x, p.ReduceMean(x, constant("axes_1"), keepdims=1)).named("deviation")
_variance = _mean(_square(hole("deviation")))
_spread = p.Sqrt(p.Add(_variance, _epsilon))


def _normed_by_mean(rng: np.random.Generator) -> Value:
    x = param(Tensor(DType.FLOAT, (dims.symbol("n"), 3, 4)))
    axes = np.array([[-1], [2], [1, 2], [-1, -2]][int(rng.integers(4))])
    gap = op.Sub(x, op.ReduceMean(x, axes))
    root = op.Sqrt(op.Add(op.ReduceMean(op.Mul(gap, gap) if rng.random() < 0.5 else op.Pow(gap, 2.0), axes), 1e-3))
    return op.Div(gap, root) if rng.random() < 0.5 else op.Mul(gap, op.Reciprocal(root))


def _scaled_norm(rng: np.random.Generator) -> Value:
    axis = int(rng.choice([-1, -2, 1, 2]))
    x = param(Tensor(DType.FLOAT, (dims.symbol("n"), 3, 4)))
    ones = const(np.ones(x.shape[axis % 3 :], np.float32))
    normed = op.LayerNormalization(x, ones, axis=axis, epsilon=1e-3)
    return op.Mul(*(normed, param(Tensor(DType.FLOAT, ones.shape)))[:: 1 if rng.random() < 0.5 else -1])


def _shifted_norm(rng: np.random.Generator) -> Value:
    made = _scaled_norm(rng)
    normed = next(v for v in made.inputs if v is not None and v.op == "LayerNormalization")
    other = param(Tensor(DType.FLOAT, normed.inputs[1].shape))  # type: ignore[union-attr]
    return op.Add(*(normed, other)[:: 1 if rng.random() < 0.5 else -1])


@rule(either(p.Div(_deviation, _spread), p.Mul(_deviation, p.Reciprocal(_spread))), exact=False, sample=_normed_by_mean)
def layer_norm(m: Match) -> Made:
    """(x - mean(x)) / Sqrt(mean((x - mean(x)) ** 2) + epsilon) -> LayerNormalization(x, 1)"""
    axis = trailing_axis(m.axes, m.x)
    if axis is None or trailing_axis(m.axes_1, m.x) != axis or not same_type(m.x, m.root):
        return decline("the mean is not along the last axis, or the last ones")
    shape = m.x.shape[axis:]
    if axis == 2 < m.x.rank - 1 and type(m.x.shape[1]) is int:
        return decline("an image of several channels, each of which is normed for itself")
    if any(type(d) is not int for d in shape) or m.x.dtype is not DType.FLOAT:
        return decline("the last axis is symbolic, or the norm would be computed in another element type")
    if not 0 < math.prod(shape) <= WIDEST:
        return decline("the last axes are long")
    ones = const(np.ones(shape, dtype=m.x.dtype.numpy))
    return op.LayerNormalization(m.x, ones, axis=axis - m.x.rank, epsilon=float(uniform(m.epsilon)))


WIDEST = 1 << 16
"""Scales of ones of more elements are not written down."""


def _row_like(value: Value, like: Value, axis: int = -1) -> bool:
    """True for a value with the shape of `like` from an axis on; of its last axis alone if none is given."""
    return like.rank > 0 and same_shape(value.shape, like.shape[axis % like.rank :])


_norm = {"axis": attr("axis"), "epsilon": attr("epsilon"), "stash_type": attr("stash_type")}


@rule(
    p.Mul(p.LayerNormalization(x, constant("unit", where=is_all_ones), **_norm).once(), w),
    exact=False,
    sample=_scaled_norm,
)
def layer_norm_scale(m: Match) -> Made:
    """LayerNormalization(x, 1) * w -> LayerNormalization(x, w)"""
    if not _row_like(m.w, m.x, m.axis):
        return decline("w has not the shape of the last axes")
    return op.LayerNormalization(m.x, m.w, axis=m.axis, epsilon=m.epsilon, stash_type=m.stash_type)


@rule(p.Add(p.LayerNormalization(x, w, **_norm).once(), hole("bias")), exact=False, sample=_shifted_norm)
def layer_norm_bias(m: Match) -> Made:
    """LayerNormalization(x, w) + bias -> LayerNormalization(x, w, bias)"""
    if not _row_like(m.bias, m.x, m.axis):
        return decline("the bias has not the shape of the last axes")
    return op.LayerNormalization(m.x, m.w, m.bias, axis=m.axis, epsilon=m.epsilon, stash_type=m.stash_type)


_root_mean_square = p.Sqrt(p.Add(_mean(_square(x)), _epsilon))
_normed = either(p.Div(x, _root_mean_square), p.Mul(x, p.Reciprocal(_root_mean_square)))


def _rms(m: Match, scale: Value) -> Made:
    if not _of_last_axis(m, m.axes) or not same_type(m.x, m.root):
        return decline("the mean is not along the last axis")
    if not _row_like(scale, m.x):
        return decline("w is not a vector along the last axis")
    return op.RMSNormalization(m.x, scale, axis=-1, epsilon=float(uniform(m.epsilon)))


@rule(p.Mul(_normed, w), exact=False)
def rms_norm(m: Match) -> Made:
    """w * x / Sqrt(mean(x * x) + epsilon) -> RMSNormalization(x, w)"""
    if m.x.dtype is not DType.FLOAT:
        return decline("the norm would be computed in another element type")
    return _rms(m, m.w)


def _narrow_norm(rng: np.random.Generator) -> Value:
    dtype = DType.FLOAT16 if rng.random() < 0.5 else DType.BFLOAT16
    x = op.Cast(param(Tensor(dtype, (2, dims.symbol("n"), 4))), to=DType.FLOAT)
    normed = op.Div(x, op.Sqrt(op.Add(op.ReduceMean(op.Mul(x, x), np.array([-1])), 1e-5)))
    return op.Mul(param(Tensor(dtype, (4,))), op.Cast(normed, to=dtype))


_narrowed = p.Cast(_normed, to=attr("to"), saturate=attr("saturate"), round_mode=attr("round_mode"))


@rule(p.Mul(_narrowed, w), exact=False, sample=_narrow_norm)
def rms_norm_cast(m: Match) -> Made:
    """w * Cast(Cast(x, f32) / Sqrt(mean + epsilon), f16) -> RMSNormalization(x, w), which computes in f32"""
    if m.x.op != "Cast" or m.x.dtype is not DType.FLOAT or not _of_last_axis(m, m.axes):
        return decline("the norm is not computed in f32")
    narrow = m.x.inputs[0]
    if not same_type(narrow, m.root) or not is_float(narrow) or not _row_like(m.w, narrow):
        return decline("the norm has another element type than x, or w is not a vector, or a constant broadcasts x")
    return op.RMSNormalization(narrow, m.w, axis=-1, epsilon=float(uniform(m.epsilon)))


_shifted = p.Exp(p.Sub(x, p.ReduceMax(x, constant("axes"), keepdims=1)))


@rule(p.Div(_shifted.named("e"), p.ReduceSum(hole("e"), constant("axes_1"), keepdims=1)), exact=False)
def softmax(m: Match) -> Made:
    """Exp(x - max(x)) / sum(Exp(x - max(x))) -> Softmax(x)"""
    axes, others = axes_of(m.axes), axes_of(m.axes_1)
    if axes is None or others is None or len(axes) != 1 or positive(axes, m.x.rank) != positive(others, m.x.rank):
        return decline("not along one axis")
    return op.Softmax(m.x, axis=axes[0])


def _is_nan(value: Value) -> bool:
    return value.rank == 0 and value.blob is not None and bool(np.isnan(value.blob.array))


def _shifted_softmax(rng: np.random.Generator) -> Value:
    x = param(Tensor(DType.FLOAT, (dims.symbol("n"), 3, 4)))
    axis = int(rng.choice([-1, 1, 2]))
    top = op.ReduceMax(x, np.array([axis]))
    if rng.random() < 0.5:
        broken = op.ReduceMax(op.Cast(op.IsNaN(x), to=DType.INT32), np.array([axis % 3]))
        top = op.Where(op.Cast(broken, to=DType.BOOL), np.nan, top)
    return op.Softmax(op.Sub(x, top), axis=axis)


_top = p.ReduceMax(x, constant("axes"), keepdims=1)
_cast = {name: attr(name) for name in ("to", "saturate", "round_mode")}
_counted = p.Cast(p.IsNaN(x), **{name: attr(f"{name}_1") for name in _cast})
_broken = p.Cast(p.ReduceMax(_counted, constant("axes_1"), keepdims=1), **_cast)
_top_or_nan = p.Where(_broken, constant("nan", where=_is_nan), _top)


@rule(p.Softmax(p.Sub(x, either(_top, _top_or_nan)), axis=attr("axis")), exact=False, sample=_shifted_softmax)
def softmax_of_shifted(m: Match) -> Made:
    """Softmax(x - max(x)) -> Softmax(x), which takes the largest off itself"""
    for each in (m.axes, m.get("axes_1", m.axes)):
        axes = axes_of(each)
        if axes is None or positive(axes, m.x.rank) != (m.axis % m.x.rank,):
            return decline("the largest is not of the axis of the softmax")
    return op.Softmax(m.x, axis=m.axis)


FUSIONS: tuple[Rule, ...] = (
    gemm, gemm_bias, product_of_rows, gelu, gelu_tanh, swish, swish_alpha, log_softmax, layer_norm, layer_norm_scale,
    layer_norm_bias, rms_norm, rms_norm_cast, softmax, softmax_of_shifted,
)  # fmt: skip
"""Several operators that one computes, with other rounding."""
