"""Activations that ONNX has an operator for, in the many ways in which they are written out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, tensor
from irkit.pattern import Either, attr, either, hole, is_all_ones, is_all_zeros, one_of, p, uniform
from irkit.pattern import const as constant
from irkit.pattern.language import Pattern
from irkit.pattern.predicates import Is
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from irkit.support.results import as_tuple
from passes.analysis.questions import axes_of, holds_digits, is_float, same_type
from passes.rules.arithmetic.fusions import about

x, y = hole("x"), hole("y")
_zero = constant("zero", where=is_all_zeros)
_one = constant("one", where=is_all_ones)


def _like_x(m: Match, build: Callable[..., Value], *attributes: float) -> Made:
    if not is_float(m.x):
        return decline("integers")
    if not holds_digits(m.x, *attributes):
        return decline("more digits than the attribute has")
    return build() if same_type(m.x, m.root) else decline("a constant broadcasts x")


def _x(rng: np.random.Generator) -> Value:
    return param(tensor("f32", "n", 5))


# ---------------------------------------------------------------------------------------------- hard ones


_relu6 = p.Clip(p.Add(x, about(3.0)), _zero, about(6.0))
_sixth = either(p.Div(_relu6, about(6.0)), p.Mul(_relu6, about(1 / 6)))


@rule(_sixth, exact=False)
def hard_sigmoid(m: Match) -> Made:
    """Clip(x + 3, 0, 6) / 6 -> HardSigmoid(x, 1 / 6, 1 / 2)"""
    return _like_x(m, lambda: op.HardSigmoid(m.x, alpha=1 / 6, beta=0.5), 1 / 6)


def _is_unit(value: Value) -> bool:
    found = uniform(value)
    return isinstance(found, float) and math.isfinite(found)


_number = constant("beta", where=Is("is_number", _is_unit, (0.5, 1.0, -0.25)))
_factor = constant("alpha", where=Is("is_number", _is_unit, (0.2, 1.0, 2.0)))


@rule(p.Clip(p.Add(p.Mul(x, _factor).once(), _number).once(), _zero, _one), exact=False)
def hard_sigmoid_of_affine(m: Match) -> Made:
    """Clip(alpha * x + beta, 0, 1) -> HardSigmoid(x, alpha, beta)"""
    alpha, beta = uniform(m.alpha), uniform(m.beta)
    return _like_x(m, lambda: op.HardSigmoid(m.x, alpha=alpha, beta=beta), alpha, beta)


_hard = p.HardSigmoid(x, alpha=attr("alpha"), beta=attr("beta"))


def _gated(rng: np.random.Generator) -> Value:
    x = _x(rng)
    return op.Mul(*((x, op.HardSigmoid(x, alpha=1 / 6)) if rng.random() < 0.5 else (op.HardSigmoid(x, alpha=1 / 6), x)))


@rule(p.Mul(x, _hard), exact=False, sample=_gated)
def hard_swish(m: Match) -> Made:
    """x * HardSigmoid(x, 1 / 6, 1 / 2) -> HardSwish(x)"""
    if abs(m.alpha - 1 / 6) > 1e-6 or abs(m.beta - 0.5) > 1e-6 or m.x.dtype is DType.DOUBLE:
        return decline("another slope, or more digits than the attribute has")
    return _like_x(m, lambda: op.HardSwish(m.x))


_times_relu6 = p.Mul(x, _relu6)


@rule(
    either(
        p.Div(_times_relu6, about(6.0)),
        p.Mul(_times_relu6, about(1 / 6)),
        p.Mul(p.Mul(x, about(1 / 6)), _relu6),
        p.Mul(p.Div(x, about(6.0)), _relu6),
    ),
    exact=False,
)
def hard_swish_late(m: Match) -> Made:
    """x * Clip(x + 3, 0, 6) / 6 -> HardSwish(x)"""
    return _like_x(m, lambda: op.HardSwish(m.x))


# ---------------------------------------------------------------------------------------------- of exponentials


@rule(one_of("Reciprocal")(p.Add(p.Exp(p.Neg(x)).once(), _one).once()), exact=False)
def sigmoid(m: Match) -> Made:
    """1 / (1 + Exp(-x)) -> Sigmoid(x)"""
    return _like_x(m, lambda: op.Sigmoid(m.x))


@rule(p.Log(p.Add(p.Exp(x).once(), _one).once()), exact=False)
def softplus(m: Match) -> Made:
    """Log(Exp(x) + 1) -> Softplus(x), which does not overflow"""
    return _like_x(m, lambda: op.Softplus(m.x))


@rule(p.Mul(x, p.Tanh(p.Softplus(x))), exact=False)
def mish(m: Match) -> Made:
    """x * Tanh(Softplus(x)) -> Mish(x)"""
    return _like_x(m, lambda: op.Mish(m.x))


@rule(p.Div(x, p.Add(p.Abs(x), _one)), exact=False)
def softsign(m: Match) -> Made:
    """x / (1 + Abs(x)) -> Softsign(x)"""
    return _like_x(m, lambda: op.Softsign(m.x))


_positive = either(p.Greater(x, _zero), p.GreaterOrEqual(x, _zero))
_grown = p.Sub(p.Exp(x), _one)
_scaled = either(p.Mul(_grown, _number), _grown)


@rule(p.Where(_positive, x, _scaled), exact=False)
def elu(m: Match) -> Made:
    """Where(x > 0, x, alpha * (Exp(x) - 1)) -> Elu(x, alpha)"""
    alpha = 1.0 if m.get("beta") is None else uniform(m.beta)
    return _like_x(m, lambda: op.Elu(m.x, alpha=alpha), alpha)


@rule(p.Mul(p.Elu(x, alpha=attr("alpha")).once(), _number), exact=False)
def selu(m: Match) -> Made:
    """gamma * Elu(x, alpha) -> Selu(x, alpha, gamma)"""
    gamma = uniform(m.beta)
    return _like_x(m, lambda: op.Selu(m.x, alpha=m.alpha, gamma=gamma), gamma)


# ---------------------------------------------------------------------------------------------- leaky ones


@rule(p.Where(_positive, x, p.Mul(x, _number)), exact=False)
def leaky_relu(m: Match) -> Made:
    """Where(x > 0, x, alpha * x) -> LeakyRelu(x, alpha)"""
    alpha = uniform(m.beta)
    return _like_x(m, lambda: op.LeakyRelu(m.x, alpha=alpha), alpha)


def _is_slope(value: Value) -> bool:
    found = uniform(value)
    return isinstance(found, float) and 0 < found < 1


@rule(p.Max(x, p.Mul(x, constant("slope", where=Is("is_slope", _is_slope, (0.01, 0.5))))), exact=False)
def leaky_relu_of_max(m: Match) -> Made:
    """Max(x, alpha * x) -> LeakyRelu(x, alpha), for 0 < alpha < 1"""
    alpha = uniform(m.slope)
    return _like_x(m, lambda: op.LeakyRelu(m.x, alpha=alpha), alpha)


def _slopes(rng: np.random.Generator) -> Value:
    x, slope = param(tensor("f32", "n", 5)), param(tensor("f32", 5))
    return op.Where(op.Greater(x, 0.0), x, op.Mul(x, slope))


@rule(p.Where(_positive, x, p.Mul(x, hole("slope")).once()), exact=False, sample=_slopes)
def p_relu(m: Match) -> Made:
    """Where(x > 0, x, slope * x) -> PRelu(x, slope)"""
    if m.slope is m.x or m.slope.rank > m.x.rank:
        return decline("the slope is not a parameter")
    pairs = zip(reversed(m.slope.shape), reversed(m.x.shape), strict=False)
    if not all((type(d) is int and d == 1) or dims.same(d, e) is True for d, e in pairs):
        return decline("the slope broadcasts x")
    return _like_x(m, lambda: op.PRelu(m.x, m.slope))


@rule(either(p.Where(p.Greater(x, _factor), x, _zero), p.Where(_positive, x, _zero)), exact=False)
def thresholded_relu(m: Match) -> Made:
    """Where(x > alpha, x, 0) -> ThresholdedRelu(x, alpha), which makes 0 of NaN too"""
    alpha = 0.0 if m.get("alpha") is None else uniform(m.alpha)
    return _like_x(m, lambda: op.ThresholdedRelu(m.x, alpha=alpha), alpha)


_negative = either(p.Less(x, _zero), p.LessOrEqual(x, _zero))


@rule(either(p.Where(_negative, p.Neg(x), x), p.Where(_positive, x, p.Neg(x)), p.Max(x, p.Neg(x))), exact=False)
def absolute(m: Match) -> Made:
    """Where(x < 0, -x, x) -> Abs(x)"""
    return _like_x(m, lambda: op.Abs(m.x))


@rule(p.Sqrt(p.Mul(x, x).once()), exact=False)
def root_of_square(m: Match) -> Made:
    """Sqrt(x * x) -> Abs(x)"""
    return _like_x(m, lambda: op.Abs(m.x))


# ---------------------------------------------------------------------------------------------- gelu

_root = math.sqrt(2 / math.pi)
_cube = either(p.Pow(x, about(3.0)), p.Mul(p.Mul(x, x), x))
_square = either(p.Mul(x, x), p.Pow(x, about(2.0)))
_inner = either(
    p.Mul(p.Add(x, p.Mul(_cube, about(0.044715))), about(2 * _root)),
    p.Mul(p.Mul(x, about(2 * _root)), p.Add(p.Mul(_square, about(0.044715)), about(1.0))),
)


@rule(p.Mul(x, p.Sigmoid(_inner)), exact=False)
def gelu_of_sigmoid(m: Match) -> Made:
    """x * Sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3)) -> Gelu(x, approximate="tanh")"""
    return _like_x(m, lambda: op.Gelu(m.x, approximate="tanh"))


_half = about(0.5)
_poly = either(
    p.Mul(p.Add(x, p.Mul(_cube, about(0.044715))), about(_root)),
    p.Mul(p.Mul(x, about(_root)), p.Add(p.Mul(_square, about(0.044715)), about(1.0))),
    p.Mul(p.Mul(x, p.Add(p.Mul(_square, about(0.044715)), about(1.0))), about(_root)),
    p.Mul(x, p.Add(p.Mul(_square, about(0.044715 * _root)), about(_root))),
)
_turn = either(p.Div(x, about(math.sqrt(2))), p.Mul(x, about(math.sqrt(0.5))))


def _bells(inner: Pattern) -> Either:
    """x * (1 + inner) / 2 in the orders in which the factor 1/2 comes last or is applied to both summands."""
    more = p.Add(inner, about(1.0))
    return either(
        p.Mul(p.Mul(x, more), _half),
        p.Mul(x, p.Mul(more, _half)),
        p.Mul(p.Mul(x, _half), more),
        p.Mul(x, p.Add(p.Mul(inner, _half), _half)),
        p.Add(p.Mul(p.Mul(x, _half), inner), p.Mul(x, _half)),
        p.Add(p.Mul(x, _half), p.Mul(x, p.Mul(inner, _half))),
    )


@rule(_bells(p.Erf(_turn)), exact=False)
def gelu_forms(m: Match) -> Made:
    """x * (0.5 * Erf(x / sqrt(2)) + 0.5) -> Gelu(x), in every order"""
    return _like_x(m, lambda: op.Gelu(m.x))


@rule(_bells(p.Tanh(_poly)), exact=False)
def gelu_tanh_forms(m: Match) -> Made:
    """x * (0.5 * Tanh(...) + 0.5) -> Gelu(x, approximate="tanh"), in every order"""
    return _like_x(m, lambda: op.Gelu(m.x, approximate="tanh"))


# ---------------------------------------------------------------------------------------------- softmax and losses


_exp = p.Exp(x).named("e")


@rule(p.Div(_exp, p.ReduceSum(hole("e"), constant("axes"), keepdims=1)), exact=False)
def softmax_plain(m: Match) -> Made:
    """Exp(x) / sum(Exp(x)) -> Softmax(x), which does not overflow"""
    axes = axes_of(m.axes)
    if axes is None or len(axes) != 1 or not m.x.rank:
        return decline("not along one axis")
    return _like_x(m, lambda: op.Softmax(m.x, axis=axes[0]))


@rule(p.Sub(x, p.ReduceLogSumExp(x, constant("axes"), keepdims=1)), exact=False)
def log_softmax_of_sum(m: Match) -> Made:
    """x - ReduceLogSumExp(x) -> LogSoftmax(x)"""
    axes = axes_of(m.axes)
    if axes is None or len(axes) != 1 or not m.x.rank:
        return decline("not along one axis")
    return _like_x(m, lambda: op.LogSoftmax(m.x, axis=axes[0]))


@rule(p.Exp(p.LogSoftmax(x, axis=attr("axis")).once()), exact=False)
def exp_of_log_softmax(m: Match) -> Made:
    """Exp(LogSoftmax(x)) -> Softmax(x)"""
    return op.Softmax(m.x, axis=m.axis)


def _loss(rng: np.random.Generator) -> Value:
    scores, labels = param(tensor("f32", 4, 3)), const(rng.integers(0, 3, 4))
    weight = const(rng.uniform(0.5, 2, 3).astype(np.float32)) if rng.random() < 0.5 else None
    reduction = ("mean", "sum", "none")[int(rng.integers(3))]
    return op.NegativeLogLikelihoodLoss(op.LogSoftmax(scores, axis=1), labels, weight, reduction=reduction)


@rule(
    p.NegativeLogLikelihoodLoss(
        p.LogSoftmax(x, axis=attr("axis")).once(),
        hole("labels"),
        hole("weight", optional=True),
        ignore_index=attr("ignore_index"),
        reduction=attr("reduction"),
    ),
    exact=False,
    sample=_loss,
)
def cross_entropy(m: Match) -> Made:
    """NegativeLogLikelihoodLoss(LogSoftmax(x), labels) -> SoftmaxCrossEntropyLoss(x, labels)"""
    if m.axis % m.x.rank != 1:
        return decline("not over the classes")
    if m.x.dtype is not DType.FLOAT:
        return decline("no kernel for the element type")
    return as_tuple(
        op.SoftmaxCrossEntropyLoss(
            m.x, m.labels, m.weight, ignore_index=m.ignore_index, reduction=m.reduction, outputs=1
        )
    )[0]


ACTIVATIONS: tuple[Rule, ...] = (
    hard_sigmoid, hard_sigmoid_of_affine, hard_swish, hard_swish_late, sigmoid, softplus, mish, softsign,
    elu, selu, leaky_relu, leaky_relu_of_max, p_relu, thresholded_relu, absolute, root_of_square, gelu_of_sigmoid,
    gelu_forms, gelu_tanh_forms, softmax_plain, log_softmax_of_sum, exp_of_log_softmax, cross_entropy,
)  # fmt: skip
"""Activations and losses that one operator computes, with other rounding."""
