"""Where a file of irkit gives other numbers than eager at special values, each with its name and its reason.

What ONNX Runtime's kernels do bears the name of its row in the table of quirks, `passes/legal/runtime/quirks.py`. The
names of rules are those that `optimize=True` applies, which hold of real numbers; `level=1` does not apply them.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import attrs

ALL = "float32 float64 float16 bfloat16"
NARROW = "float32 float16 bfloat16"


@attrs.frozen
class Exceptional:
    """One exception: of which operators (patterns of names) and types, what differs, and by how much at most."""

    name: str
    operators: tuple[str, ...]
    kinds: str
    what: str
    reason: str
    absolute: float = 0.0
    relative: float = 0.0


EXCEPTIONS: tuple[Exceptional, ...] = (
    # ---- ONNX Runtime's kernels
    Exceptional("zero_chosen", ("where -0", "where of two", "masked_fill -0", "nn.functional.celu 2", "fmax", "fmin",
                "nn.functional.leaky_relu", "nn.functional.prelu", "nn.functional.rrelu", "special.*polynomial*",
                "special.bessel_j1"),
                ALL, "sign", "Where makes 0.0 of a -0.0 where its condition holds"),
    Exceptional("zero_first_added", ("sum*", "cumsum*", "mean"), ALL, "sign",
                "sums begin with the first number, torch's with 0.0: the sum of -0.0 alone is -0.0"),
    Exceptional("zeros_compared", ("fmax", "fmin", "clamp below 0", "max of two"), ALL, "sign",
                "of 0.0 and -0.0 Max and Min take either, as IEEE 754 leaves them to"),
    Exceptional("zero_of_selu", ("nn.functional.selu",), NARROW, "sign", "Selu of -0.0 is 0.0"),
    Exceptional("elu_near_zero", ("nn.functional.[ces]*lu*",), "float32 bfloat16", "far",
                "Elu and Selu are exp(x) - 1, which is rough near 0; expm1 written out takes seven times as long", 1.2e-7),
    Exceptional("rough_sigmoid", ("*sigmoid", "*silu*", "nn.functional.glu"), "float32 bfloat16", "far",
                "Sigmoid of float32 is a fraction of polynomials, and 0 far below 0", 1e-7, 1.2e-5),
    Exceptional("rough_tanh", ("tanh", "nn.functional.tanh", "expm1"), "float32", "far",
                "Tanh of float32 is a fraction of polynomials, good to 4e-6 of itself", 0.0, 4e-6),
    Exceptional("rough_tanh", ("nn.functional.tanhshrink", "nn.functional.gelu tanh"), "float32", "far",
                "the same, from which a number of about its size is taken", 3e-7, 0.0),
    Exceptional("rough_tanh", ("nn.functional.tanhshrink",), "float16", "sign", "the same"),
    Exceptional("nan_in_extremes", ("max of two",), ALL, "nan", "ReduceMax drops NaN, which the report says; `+nan` keeps it"),
    # ---- rules of real numbers
    Exceptional("add_zero", ("plus 0",), ALL, "sign", "x + 0.0 becomes x, by irkit's rule and by ONNX Runtime's own"),
    Exceptional("neg_of_sub", ("neg of sub",), ALL, "sign", "-(x - y) becomes y - x, whose zero is 0.0"),
    Exceptional("root_of_square", ("root of square",), "float64", "inf", "Sqrt(x * x) becomes Abs(x), which does not overflow"),
    Exceptional("root_of_square", ("root of square",), "float64", "far", "the same", 1e-150),
    # ---- eager's own: what a formula of torch's loses on the way
    Exceptional("eager_overflows", ("__rdiv__", "nn.functional.hardswish"), "float64", "inf",
                "torch divides by way of a reciprocal, or multiplies first, and overflows"),
    Exceptional("eager_overflows", ("__rdiv__", "special.zeta", "igamma*"), ALL, "nan",
                "the same, to inf * 0"),
    Exceptional("eager_zeros", ("nn.functional.softshrink", "nn.functional.logsigmoid"), "float16 bfloat16", "sign",
                "the sign of torch's zero is that of a number too small for the type"),
    Exceptional("eager_cancels", ("nn.functional.gelu",), "float64", "far", "1 + erf(x) of torch has lost the tail", 1e-15),
    Exceptional("eager_cancels", ("nn.functional.gelu tanh", "nn.functional.tanhshrink", "sinc"), "float64", "far",
                "a difference of two numbers of about one size, in torch too", 1e-15),
    Exceptional("eager_at_poles", ("*polygamma_n_0",), "float64", "far",
                "beside a pole each formula has other digits of the distance to it", 0.0, 1.0),
    Exceptional("eager_at_limits", ("igamma*",), ALL, "far",
                "the gamma function of the greatest and least numbers has no digits, in torch either", 4.0),
    # ---- formulas of irkit's own: good to a stated error, not to the last digit
    Exceptional("approximations", ("special.*bessel*", "special.airy_ai"), "float64", "far",
                "series and asymptotic series, good to 1e-8 of the largest terms", 1e-8, 1e-6),
    Exceptional("approximations", ("special.bessel_y*", "special.zeta"), "float64", "inf",
                "no formula of irkit's has the least numbers above 0"),
    Exceptional("approximations", ("special.bessel_y*", "special.zeta"), "float64", "nan", "the same"),
    Exceptional("approximations", ("special.*polynomial*",), "float64", "far",
                "the recurrence of a hundred steps, where torch takes cosines of multiples", 1e-13, 1e-10),
    Exceptional("approximations", ("digamma", "erfc", "exp of log", "special.log_ndtr"), "float64", "far",
                "some tens of units of the last place", 0.0, 1e-13),
    Exceptional("approximations", ("*lgamma*",), "float64", "far", "good to 1e-15 beside 1, not of the result", 2e-15),
    Exceptional("approximations", ("special.ndtri",), "float64", "far",
                "two steps of Halley's do not suffice for an area of 1e-300", 0.0, 1e-4),
    Exceptional("approximations", ("nn.functional.mish",), "float32", "far", "Softplus of float32 is 0 below -90", 1e-37),
)  # fmt: skip


def exceptions_of(operator: str, kind: str) -> tuple[Exceptional, ...]:
    """The exceptions that are named for an operator and an element type."""
    return tuple(
        each
        for each in EXCEPTIONS
        if kind in each.kinds.split() and any(fnmatchcase(operator, name) for name in each.operators)
    )
