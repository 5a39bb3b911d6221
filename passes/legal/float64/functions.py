"""Functions of float64 for which ONNX Runtime has no kernel, by those for which it has: exp, log, sqrt, sin, cos, tanh.

Legalization takes these before it would compute in float32. Each keeps a relative error of some units of 2**-52.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from irkit.build import call, op
from irkit.core.ir import Value
from irkit.core.types import DType, Tuple
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match
from passes.analysis.expansions import Expanded, Expansion
from passes.analysis.questions import number, vector
from passes.legal.runtime.images import mean_variance_normalization
from passes.legal.runtime.neighbours import DOUBLE_WINDOWS

Function = Callable[[Value], Value]

# ---------------------------------------------------------------------------------------------- pieces


def horner(x: Value, coefficients: Sequence[float]) -> Value:
    """c[0] + c[1] * x + c[2] * x**2 + ..."""
    result = number(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = op.Add(op.Mul(result, x), number(x, coefficient))
    return result


def odd(x: Value, positive: Value) -> Value:
    """A function with f(-x) = -f(x), from its values for abs(x); x itself where it is 0, which keeps its sign.

    ONNX Runtime's Where keeps the sign of a zero of its last operand only.
    """
    signed = op.Where(op.Less(x, number(x, 0)), op.Neg(positive), positive)
    return op.Where(op.Cast(x, to=DType.BOOL), signed, x)


def log1p(x: Value) -> Value:
    """log(1 + x): the logarithm of the rounded sum, off by the same factor as what the sum kept of x; x, if nothing."""
    one = number(x, 1)
    u = op.Add(one, x)
    kept = op.Sub(u, one)
    factor = op.Div(x, op.Min(kept, number(x, sys.float_info.max)))  # infinity is infinitely more than it
    return op.Where(op.Cast(kept, to=DType.BOOL), op.Mul(op.Log(u), factor), x)


def expm1(x: Value) -> Value:
    """exp(x) - 1 for x up to 700: tanh(x / 2) * (exp(x) + 1)"""
    return op.Mul(op.Tanh(op.Mul(x, number(x, 0.5))), op.Add(op.Exp(x), number(x, 1)))


# ---------------------------------------------------------------------------------------------- hyperbolic functions


def sinh(x: Value) -> Value:
    """(exp(x) - exp(-x)) / 2; near zero its power series"""
    grown = op.Exp(op.Mul(op.Abs(x), number(x, 0.5)))  # its square alone would overflow too soon
    half = op.Mul(grown, number(x, 0.5))
    far = op.Sub(op.Mul(half, grown), op.Div(op.Div(number(x, 0.5), grown), grown))
    near = op.Mul(x, horner(op.Mul(x, x), [1 / math.factorial(2 * n + 1) for n in range(10)]))
    return op.Where(op.GreaterOrEqual(op.Abs(x), number(x, 1)), odd(x, far), near)  # Where keeps the last one's -0.0


def cosh(x: Value) -> Value:
    """(exp(x) + exp(-x)) / 2"""
    grown = op.Exp(op.Mul(op.Abs(x), number(x, 0.5)))
    half = op.Mul(grown, number(x, 0.5))
    return op.Add(op.Mul(half, grown), op.Div(op.Div(number(x, 0.5), grown), grown))


LARGE = 1e8
"""From here on 1 + x * x is x * x."""


def asinh(x: Value) -> Value:
    """log(x + sqrt(x * x + 1)), as log1p(x + x * x / (1 + sqrt(x * x + 1)))"""
    size = op.Abs(x)
    square = op.Mul(size, size)
    root = op.Add(number(x, 1), op.Sqrt(op.Add(square, number(x, 1))))
    near = log1p(op.Add(size, op.Div(square, root)))
    far = op.Add(op.Log(size), number(x, math.log(2)))
    return odd(x, op.Where(op.Greater(size, number(x, LARGE)), far, near))


def acosh(x: Value) -> Value:
    """log(x + sqrt(x * x - 1)), as log1p(t + sqrt(t * (t + 2))) of t = x - 1"""
    above = op.Sub(x, number(x, 1))
    near = log1p(op.Add(above, op.Sqrt(op.Mul(above, op.Add(above, number(x, 2))))))
    far = op.Add(op.Log(x), number(x, math.log(2)))
    found = op.Where(op.Greater(x, number(x, LARGE)), far, near)
    return op.Where(op.Less(x, number(x, 1)), number(x, math.nan), found)


def atanh(x: Value) -> Value:
    """log((1 + x) / (1 - x)) / 2, as log1p(2 * x / (1 - x)) / 2"""
    size = op.Abs(x)
    ratio = op.Div(op.Add(size, size), op.Sub(number(x, 1), size))
    return odd(x, op.Mul(log1p(ratio), number(x, 0.5)))


# ---------------------------------------------------------------------------------------------- angles


def tan(x: Value) -> Value:
    """sin(x) / cos(x)"""
    return op.Div(op.Sin(x), op.Cos(x))


def atan(x: Value) -> Value:
    """The angle in float32, and what is left of it: tan(atan(x) - a) = (x * cos(a) - sin(a)) / (cos(a) + x * sin(a)).

    Above 1 by the angle of 1 / x. The rest is at most 1e-7, so that it is its own tangent.
    """
    size = op.Abs(x)
    beyond = op.Greater(size, number(x, 1))
    inner = op.Where(beyond, op.Div(number(x, 1), size), size)
    start = op.Cast(op.Atan(op.Cast(inner, to=DType.FLOAT)), to=DType.DOUBLE)
    sine, cosine = op.Sin(start), op.Cos(start)
    rest = op.Div(op.Sub(op.Mul(inner, cosine), sine), op.Add(cosine, op.Mul(inner, sine)))
    angle = op.Add(start, rest)
    return odd(x, op.Where(beyond, op.Sub(number(x, math.pi / 2), angle), angle))


def asin(x: Value) -> Value:
    """atan(x / sqrt(1 - x * x))"""
    one = number(x, 1)
    return atan(op.Div(x, op.Sqrt(op.Mul(op.Sub(one, x), op.Add(one, x)))))


def acos(x: Value) -> Value:
    """2 * atan(sqrt((1 - x) / (1 + x)))"""
    one = number(x, 1)
    return op.Mul(atan(op.Sqrt(op.Div(op.Sub(one, x), op.Add(one, x)))), number(x, 2))


# ---------------------------------------------------------------------------------------------- error function

# log(erfc(x) / t) + x * x as a polynomial in 2 * t - 1, t = 2 / (2 + x): the first 25 terms of its expansion in
# Chebyshev polynomials, computed with 50 digits. The terms left out are below 2e-16.
_TAIL = (
    -0.6717940840566922, 0.6726432239776583, 0.047343306841863525, -0.04689561023132892,
    -0.009872689364099222, 0.008824938561312326, 0.0017589335074028032, -0.002345812552995894,
    -0.00014624628742128406, 0.0006736791352568864, -9.373894767667295e-05, -0.00017430412986925938,
    7.141810433422301e-05, 3.174693542327236e-05, -3.023784054007137e-05, 1.3989370477611051e-07,
    8.662535397475538e-06, -2.963484230959699e-06, -1.409445991433531e-06, 1.283394915356199e-06,
    -4.146853754663641e-08, -2.895626567435524e-07, 7.745572408758512e-08, 2.980513364515168e-08,
    -1.2776086554968677e-08,
)  # fmt: skip

# erf(x) / x as a polynomial in x * x: its power series, good to the last digit below 1 / 2.
_CENTRE = tuple(2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(13))


def scaled_tail(size: Value) -> tuple[Value, Value]:
    """(t, p) with erfc(x) = t * exp(p - x * x) for x at or above 0."""
    t = op.Div(number(size, 2), op.Add(size, number(size, 2)))
    return t, horner(op.Sub(op.Add(t, t), number(size, 1)), _TAIL)


def erfc_above(size: Value) -> Value:
    """1 - erf(x), with a small relative error, for x at or above 0."""
    t, exponent = scaled_tail(size)
    return op.Mul(t, op.Exp(op.Sub(exponent, op.Mul(size, size))))


def erf_near(x: Value) -> Value:
    """erf(x) between -1 / 2 and 1 / 2."""
    return op.Mul(x, horner(op.Mul(x, x), _CENTRE))


def erf(x: Value) -> Value:
    """The error function"""
    size = op.Abs(x)
    far = odd(x, op.Sub(number(x, 1), erfc_above(size)))
    return op.Where(op.GreaterOrEqual(size, number(x, 0.5)), far, erf_near(x))


def erfc(x: Value) -> Value:
    """1 - erf(x), with a small relative error"""
    one, size = number(x, 1), op.Abs(x)
    tail = erfc_above(size)
    outer = op.Where(op.Less(x, number(x, 0)), op.Sub(number(x, 2), tail), tail)
    return op.Where(op.Less(size, number(x, 0.5)), op.Sub(one, erf_near(x)), outer)


def gelu(x: Value) -> Value:
    """x times the area to the left of x under the normal density: x * erfc(-x / sqrt(2)) / 2"""
    return op.Mul(op.Mul(x, number(x, 0.5)), erfc(op.Mul(x, number(x, -math.sqrt(0.5)))))


# ---------------------------------------------------------------------------------------------- activations


def sigmoid(x: Value) -> Value:
    """1 / (1 + exp(-x))"""
    return op.Reciprocal(op.Add(op.Exp(op.Neg(x)), number(x, 1)))


def softplus(x: Value) -> Value:
    """log(1 + exp(x)), as max(x, 0) + log1p(exp(-abs(x)))"""
    return op.Add(op.Max(x, number(x, 0)), log1p(op.Exp(op.Neg(op.Abs(x)))))


def mish(x: Value) -> Value:
    """x * tanh(softplus(x))"""
    return op.Mul(x, op.Tanh(softplus(x)))


def hard_swish(x: Value) -> Value:
    """x * max(0, min(1, x / 6 + 1 / 2))"""
    ramp = op.Add(op.Div(x, number(x, 6)), number(x, 0.5))
    return op.Mul(x, op.Max(op.Min(ramp, number(x, 1)), number(x, 0)))


def below_zero(x: Value, slope: float, scale: float = 1.0) -> Value:
    """scale * x above zero, scale * slope * (exp(x) - 1) below"""
    low = op.Mul(expm1(op.Min(x, number(x, 0))), number(x, slope))
    found = op.Where(op.Less(x, number(x, 0)), low, x)
    return found if scale == 1 else op.Mul(found, number(x, scale))


def elu(m: Match, value: Value) -> Value:
    """x above zero, alpha * (exp(x) - 1) below"""
    return below_zero(value.inputs[0], attribute_of(value, "alpha"))  # type: ignore[arg-type]


def selu(m: Match, value: Value) -> Value:
    """gamma * x above zero, gamma * alpha * (exp(x) - 1) below"""
    return below_zero(value.inputs[0], attribute_of(value, "alpha"), attribute_of(value, "gamma"))  # type: ignore[arg-type]


def gelu_of(m: Match, value: Value) -> Value | None:
    """x * erfc(-x / sqrt(2)) / 2, or the approximation by a hyperbolic tangent"""
    x = value.inputs[0]
    if x is None:
        return None
    if attribute_of(value, "approximate") != "tanh":
        return gelu(x)
    cubed = op.Mul(op.Mul(op.Mul(x, x), x), number(x, 0.044715))
    bent = op.Tanh(op.Mul(op.Add(x, cubed), number(x, math.sqrt(2 / math.pi))))
    return op.Mul(op.Mul(x, number(x, 0.5)), op.Add(bent, number(x, 1)))


# ---------------------------------------------------------------------------------------------- normalization


def instance_normalization(m: Match, value: Value) -> Value | None:
    """(x - mean) / sqrt(var + epsilon) * scale + bias, over all but batch and channels"""
    x, scale, bias = value.inputs
    if x is None or scale is None or bias is None:
        return None
    behind = range(2, x.rank)
    normed = normalized(x, behind, attribute_of(value, "epsilon"))
    along = vector(range(1, x.rank - 1))
    return op.Add(op.Mul(normed, op.Unsqueeze(scale, along)), op.Unsqueeze(bias, along))


def layer_normalization(m: Match, value: Value) -> Expanded:
    """(x - mean) / sqrt(var + epsilon) * scale + bias, over an axis and those behind it; mean and 1 / sqrt(...)"""
    x, scale, *rest = value.inputs
    if x is None or scale is None:
        return None
    over = vector(range(attribute_of(value, "axis") % x.rank, x.rank))
    center = op.ReduceMean(x, over)
    gap = op.Sub(x, center)
    spread = op.Sqrt(op.Add(op.ReduceMean(op.Mul(gap, gap), over), number(x, attribute_of(value, "epsilon"))))
    found = op.Mul(op.Div(gap, spread), scale)
    found = op.Add(found, rest[0]) if rest and rest[0] is not None else found
    if not isinstance(value.type, Tuple):
        return found
    others = zip((center, op.Reciprocal(spread)), value.type.items[1:], strict=False)
    return (found, *(op.Cast(v, to=t.dtype) if v.dtype is not t.dtype else v for v, t in others))  # type: ignore[union-attr]


def log_softmax(m: Match, value: Value) -> Value | None:
    """x - max - log(sum of exp(x - max)) along an axis: NaN in a row with NaN, with inf, or of -inf alone"""
    x = value.inputs[0]
    if x is None:
        return None
    if x.rank == 0:
        return op.Sub(x, x)
    over = vector([attribute_of(value, "axis") % x.rank])
    below = op.Sub(x, op.ReduceMax(x, over))
    return op.Sub(below, op.Log(op.ReduceSum(op.Exp(below), over)))


def rms_normalization(m: Match, value: Value) -> Value | None:
    """x / sqrt(mean(x * x) + epsilon) * scale, over an axis and those behind it"""
    x, scale = value.inputs
    if x is None or scale is None or scale.dtype is not x.dtype or value.dtype is not x.dtype:
        return None
    over = vector(range(attribute_of(value, "axis") % x.rank, x.rank))
    mean = op.Add(op.ReduceMean(op.Mul(x, x), over), number(x, attribute_of(value, "epsilon")))
    return op.Mul(op.Div(x, op.Sqrt(mean)), scale)


def normalized(x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """(x - mean) / sqrt(var + epsilon) over axes"""
    over, none = vector(axes), int(not axes)
    centred = op.Sub(x, op.ReduceMean(x, over, noop_with_empty_axes=none))
    var = op.ReduceMean(op.Mul(centred, centred), over, noop_with_empty_axes=none)
    return op.Div(centred, op.Sqrt(op.Add(var, number(x, epsilon))))


def over_all(reduction: str) -> Expansion:
    """The expansion of a pool over all but batch and channels: a reduction."""

    def expansion(m: Match, value: Value) -> Expanded:
        x = value.inputs[0]
        if x is None:
            return None
        return call(reduction, [x, vector(range(2, x.rank))], {"noop_with_empty_axes": int(x.rank == 2)})

    return expansion


# ---------------------------------------------------------------------------------------------- the table


def unary(function: Function) -> Expansion:
    """The expansion of an operator of one operand."""

    def expansion(m: Match, value: Value) -> Expanded:
        x = value.inputs[0]
        return None if x is None else function(x)

    return expansion


DOUBLES: Mapping[str, Expansion] = MappingProxyType({
    "Sinh": unary(sinh), "Cosh": unary(cosh), "Asinh": unary(asinh), "Acosh": unary(acosh), "Atanh": unary(atanh),
    "Tan": unary(tan), "Atan": unary(atan), "Asin": unary(asin), "Acos": unary(acos), "Erf": unary(erf),
    "Gelu": gelu_of, "Softplus": unary(softplus), "Mish": unary(mish), "HardSwish": unary(hard_swish), "Elu": elu,
    "Selu": selu, "InstanceNormalization": instance_normalization,
    "LayerNormalization": layer_normalization, "MeanVarianceNormalization": mean_variance_normalization,
    "RMSNormalization": rms_normalization,
    "GlobalAveragePool": over_all("ReduceMean"), "GlobalMaxPool": over_all("ReduceMax"), **DOUBLE_WINDOWS,
    "LogSoftmax": log_softmax, "Sigmoid": unary(sigmoid),
})  # fmt: skip
"""The expansion of each operator whose operands are float64."""
