"""Activation functions: one ONNX operator where there is one, else the shortest exact expression."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import HALVES, DType
from lowering.aten.elementwise.transcendental import aten_expm1
from lowering.errors import Unsupported
from lowering.tensors.pieces import widen
from lowering.tensors.promotion import Number, cast, is_beyond, scalar, to_float
from lowering.tensors.shaping import axis, slice_axis, squeeze, unsqueeze

# ---------------------------------------------------------------------------------------------- pieces of lines


def aten_relu(self: Value) -> Value:
    """max(self, 0)"""
    return op.Relu(self) if self.dtype.is_float else op.Max(self, 0)


def aten_relu6(self: Value) -> Value:
    """self kept within [0, 6]."""
    return op.Clip(self, 0, 6)


def aten_hardtanh(self: Value, min_val: Number = -1, max_val: Number = 1) -> Value:
    """self kept within [min_val, max_val]."""
    return op.Clip(self, scalar(min_val, self.dtype), scalar(max_val, self.dtype))


def aten_leaky_relu(self: Value, negative_slope: float = 0.01) -> Value:
    """self above zero, negative_slope * self below."""
    if not held(self, negative_slope):
        return op.Where(op.Greater(self, 0), self, op.Mul(self, scalar(negative_slope, self.dtype)))
    return op.LeakyRelu(self, alpha=negative_slope)


def held(x: Value, number: Number) -> bool:
    """True where an attribute, which is float32, says a number as precisely as the elements of x do."""
    return x.dtype is not DType.DOUBLE or (isinstance(number, int | float) and float(np.float32(number)) == number)


def aten_prelu(self: Value, weight: Value) -> Value:
    """self above zero, weight * self below; weight: (1,) or (c,) along axis 1 of self."""
    if self.rank == 0 and weight.rank:
        return op.PRelu(self, squeeze(weight, 0))
    if weight.rank == 0 or self.rank <= 2:
        return op.PRelu(self, weight)
    return op.PRelu(self, unsqueeze(weight, *range(1, self.rank - 1)))


def aten__prelu_kernel(self: Value, weight: Value) -> Value:
    """self above zero, weight * self below; weight broadcasts to self."""
    return op.PRelu(self, weight)


def aten_rrelu(self: Value, lower: float = 0.125, upper: float = 1 / 3, training: bool = False) -> Value:
    """self above zero, below it self times the middle of the range that training draws from."""
    if training:
        raise Unsupported("rrelu in training draws random slopes")
    return aten_leaky_relu(self, (lower + upper) / 2)


def aten_threshold(self: Value, threshold: Number, value: Number) -> Value:
    """self above the threshold, else `value`."""
    x, edge = self, threshold
    if self.dtype in HALVES and isinstance(threshold, int | float):
        edge = half_below(threshold, self.dtype)
    elif is_beyond(threshold, self.dtype):
        x = widen(self)
    below = op.LessOrEqual(x, scalar(edge, x.dtype))
    return op.Where(below, scalar(value, self.dtype), self)


def half_below(number: float, dtype: DType) -> float:
    """The greatest number of a half type that is not above one of float32, in which torch compares."""
    with np.errstate(over="ignore"):
        wanted = np.float32(number)
        near = wanted.astype(dtype.numpy)
    down = np.nextafter(near, dtype.numpy.type(-np.inf))
    return float(down if near.astype(np.float32) > wanted else near)


def aten_hardsigmoid(self: Value) -> Value:
    """self / 6 + 0.5 kept within [0, 1]."""
    if not held(self, 1 / 6):
        return op.Clip(op.Add(op.Div(self, 6), 0.5), 0, 1)
    return op.HardSigmoid(self, alpha=1 / 6, beta=0.5)


def aten_hardswish(self: Value) -> Value:
    """self * hardsigmoid(self)"""
    return op.HardSwish(self)


def aten_softshrink(self: Value, lambd: Number = 0.5) -> Value:
    """self moved towards zero by lambd, and zero within it."""
    x = cast(self, DType.FLOAT) if self.dtype is DType.BFLOAT16 else self  # torch keeps lambd in float32
    edge = scalar(lambd, x.dtype)
    return cast(op.Sub(x, op.Clip(x, op.Neg(edge), edge)), self.dtype)


def aten_hardshrink(self: Value, lambd: Number = 0.5) -> Value:
    """self, but zero within lambd of zero."""
    return op.Where(op.LessOrEqual(op.Abs(self), scalar(lambd, self.dtype)), scalar(0, self.dtype), self)


def aten_softshrink_backward(grad_output: Value, self: Value, lambd: Number) -> Value:
    """The gradient, but zero where self is within lambd of zero."""
    within = op.LessOrEqual(op.Abs(self), scalar(lambd, self.dtype))
    return op.Where(within, scalar(0, grad_output.dtype), grad_output)


def aten_hardshrink_backward(grad_out: Value, self: Value, lambd: Number) -> Value:
    """The gradient, but zero where self is within lambd of zero."""
    return aten_softshrink_backward(grad_out, self, lambd)


# ---------------------------------------------------------------------------------------------- exponentials


STEEP = 16
"""From such a slope on, exp(x) - 1 is too rough beside 0: ONNX Runtime's Elu subtracts."""


def aten_elu(self: Value, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Value:
    """scale * self above zero, scale * alpha * (exp(input_scale * self) - 1) below."""
    if input_scale == 1 and held(self, alpha) and abs(float(alpha)) <= STEEP:  # type: ignore[arg-type]
        result = op.Elu(self, alpha=float(alpha))  # type: ignore[arg-type]
        return result if scale == 1 else op.Mul(result, scalar(scale, self.dtype))
    slope = float(scale) * float(alpha)  # type: ignore[arg-type]
    if any(is_beyond(number, self.dtype) for number in (slope, scale, input_scale)):
        return cast(aten_elu(widen(self), alpha, scale, input_scale), self.dtype)
    x = self if input_scale == 1 else op.Mul(self, scalar(input_scale, self.dtype))
    grown = op.Elu(x) if abs(slope) <= STEEP else aten_expm1(x)
    below = op.Mul(grown, scalar(slope, self.dtype))
    above = self if scale == 1 else op.Mul(self, scalar(scale, self.dtype))
    return op.Where(op.Less(self, 0), below, above)


def aten_celu(self: Value, alpha: Number = 1.0) -> Value:
    """self above zero, alpha * (exp(self / alpha) - 1) below."""
    return aten_elu(self, alpha, 1, 1 / float(alpha))  # type: ignore[arg-type]


SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def aten_selu(self: Value) -> Value:
    """The scaled exponential unit with the constants that keep mean 0 and variance 1."""
    if not held(self, SELU_ALPHA):
        return aten_elu(self, SELU_ALPHA, SELU_SCALE)
    return op.Selu(self, alpha=SELU_ALPHA, gamma=SELU_SCALE)


def aten_sigmoid(self: Value) -> Value:
    """1 / (1 + exp(-self))"""
    return op.Sigmoid(to_float(self))


def aten_silu(self: Value) -> Value:
    """self * sigmoid(self)"""
    return op.Mul(self, op.Sigmoid(self))


def aten_mish(self: Value) -> Value:
    """self * tanh(softplus(self))"""
    return op.Mish(self)


def aten_gelu(self: Value, *, approximate: str = "none") -> Value:
    """self * Phi(self), by erf, or by tanh where `approximate` says so."""
    return op.Gelu(self, approximate=approximate)


def aten_softplus(self: Value, beta: Number = 1, threshold: Number = 20) -> Value:
    """log(1 + exp(beta * self)) / beta, and self where beta * self is above the threshold."""
    if any(is_beyond(number, self.dtype) for number in (beta, threshold)):
        return cast(aten_softplus(widen(self), beta=beta, threshold=threshold), self.dtype)
    x = self if beta == 1 else op.Mul(self, scalar(beta, self.dtype))
    soft = op.Softplus(x)
    if beta != 1:
        soft = op.Div(soft, scalar(beta, self.dtype))
    if threshold == 20 and self.dtype is not DType.DOUBLE and 0 < abs(beta) < 1e3:  # type: ignore[arg-type,operator]
        return soft  # beyond 20 the two are the same number
    return op.Where(op.Greater(x, scalar(threshold, self.dtype)), self, soft)


def aten_log_sigmoid(self: Value) -> Value:
    """log(sigmoid(self))"""
    return op.Sub(0, op.Softplus(op.Neg(self)))  # whose zero is 0, as torch's is


def aten_log_sigmoid_forward(self: Value) -> tuple[Value, Value]:
    """log(sigmoid(self)), and the buffer of the backward pass, which is never read."""
    return aten_log_sigmoid(self), op.Exp(op.Neg(op.Abs(self)))


def aten_glu(self: Value, dim: int = -1) -> Value:
    """a * sigmoid(b) for the two halves of self along `dim`."""
    at = axis(dim, self.rank)
    size = self.shape[at]
    if type(size) is int and size:
        a, b = op.Split(self, axis=at, num_outputs=2)
    else:  # ONNX Runtime does not split nothing into two
        middle = dims.floordiv(size, 2)
        a, b = slice_axis(self, at, 0, middle), slice_axis(self, at, middle, size)
    return op.Mul(a, op.Sigmoid(b))


def aten_logit(self: Value, eps: float | None = None) -> Value:
    """log(self / (1 - self)), of self kept within [eps, 1 - eps] where it is given."""
    x = to_float(self)
    if eps is not None:
        x = op.Clip(x, scalar(eps, x.dtype), scalar(1 - eps, x.dtype))
    return op.Log(op.Div(x, op.Sub(1, x)))
