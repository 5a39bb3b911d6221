"""Activation functions, and the softmax family."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irkit.core.ir import Value
from irkit.evaluation.kernels.common import Array, Kernel, attr, axis_of, narrowed_to, unary, wide
from irkit.evaluation.kernels.elementwise import erf


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def with_attributes(function: Kernel, *names: str) -> Kernel:
    """The kernel of a function of x and some attributes."""

    def kernel(node: Value, x: Array) -> Array:
        return narrowed_to(function(wide(x), *(attr(node, name) for name in names)), x.dtype)

    return kernel


def elu(x: Array, alpha: float) -> Array:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def selu(x: Array, alpha: float, gamma: float) -> Array:
    """gamma * elu(x)"""
    return gamma * elu(x, alpha)


def celu(x: Array, alpha: float) -> Array:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))"""
    return np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))


def leaky_relu(x: Array, alpha: float) -> Array:
    """x where it is not negative, else alpha * x."""
    return np.where(x < 0, alpha * x, x)


def hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    """alpha * x + beta, held between 0 and 1."""
    return np.clip(alpha * x + beta, 0, 1)


def gelu(x: Array, approximate: str) -> Array:
    """x * Phi(x), with the normal distribution's Phi or its approximation by tanh."""
    if approximate == "tanh":
        # 1 + tanh(u) is 2 * sigmoid(2 * u), which does not cancel where u is far below 0
        return x * sigmoid(2 * np.sqrt(2 / np.pi).astype(x.dtype) * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + erf(x / np.sqrt(2.0).astype(x.dtype)))


def shrink(x: Array, bias: float, lambd: float) -> Array:
    """x moved by `bias` towards zero where |x| > lambd, else 0."""
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


def relu(x: Array) -> Array:
    """x where it is above 0, else 0."""
    return np.maximum(x, 0)


def thresholded_relu(x: Array, alpha: float) -> Array:
    """x where it is above alpha, else 0."""
    return np.where(x > alpha, x, 0)


def softsign(x: Array) -> Array:
    """x / (1 + |x|)."""
    return x / (1 + np.abs(x))


def swish(x: Array, alpha: float) -> Array:
    """x * sigmoid(alpha * x)."""
    return x * sigmoid(alpha * x)


kernel_Relu = unary(relu)
kernel_Sigmoid = unary(sigmoid)
kernel_Softplus = unary(softplus)
kernel_Softsign = unary(softsign)
kernel_Mish = unary(lambda x: x * np.tanh(softplus(x)))
kernel_HardSwish = unary(lambda x: x * np.clip(x / 6 + 0.5, 0, 1))
kernel_Elu = with_attributes(elu, "alpha")
kernel_Selu = with_attributes(selu, "alpha", "gamma")
kernel_Celu = with_attributes(celu, "alpha")
kernel_LeakyRelu = with_attributes(leaky_relu, "alpha")
kernel_ThresholdedRelu = with_attributes(thresholded_relu, "alpha")
kernel_HardSigmoid = with_attributes(hard_sigmoid, "alpha", "beta")
kernel_Swish = with_attributes(swish, "alpha")
kernel_Gelu = with_attributes(gelu, "approximate")
kernel_Shrink = with_attributes(shrink, "bias", "lambd")


def kernel_PRelu(node: Value, x: Array, slope: Array) -> Array:
    """x where it is not negative, else slope * x."""
    value = wide(x)
    return narrowed_to(np.where(value < 0, value * wide(slope), value), x.dtype)


def softmax(x: Array, axis: int) -> Array:
    """exp(x) / sum(exp(x)) along an axis."""
    if x.size == 0:
        return x
    shifted = np.exp(x - x.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


def log_softmax(x: Array, axis: int) -> Array:
    """x - log(sum(exp(x))) along an axis."""
    if x.size == 0:
        return x
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def hardmax(x: Array, axis: int) -> Array:
    """1 at the first maximum along an axis, else 0."""
    found = np.zeros_like(x)
    if x.size:
        np.put_along_axis(found, np.expand_dims(x.argmax(axis=axis), axis), 1, axis=axis)
    return found


def along_axis(function: Callable[[Array, int], Array]) -> Kernel:
    """The kernel of a function along the attribute `axis`; a scalar counts as a vector of one."""

    def kernel(node: Value, x: Array) -> Array:
        value = wide(x).reshape(x.shape or (1,))
        axis = axis_of(node, attr(node, "axis"), value.ndim)
        return narrowed_to(function(value, axis), x.dtype).reshape(x.shape)

    return kernel


kernel_Softmax, kernel_LogSoftmax, kernel_Hardmax = along_axis(softmax), along_axis(log_softmax), along_axis(hardmax)
