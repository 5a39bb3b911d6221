"""Where a file of irkit gives other numbers than eager at special values, each with its name and its reason.

What ONNX Runtime's kernels do bears the name of its row in the table of quirks, `passes/legal/runtime/quirks.py`. The
names of rules are those that `optimize=True` applies, which hold of real numbers; `level=1` does not apply them. The
figures are measured: times in turns on one thread, at 4,096, 262,144 and 2,000,000 numbers.
"""

from __future__ import annotations

import math

import attrs

ALL = "float32 float64 float16 bfloat16"
NARROW = "float32 float16 bfloat16"

ANY = (-1.0, math.inf)
"""All sizes, and NaN."""
ZERO = (0.0, 0.0)
LEAST = (0.0, 2e-45)
"""The least numbers of float32 and float64, and zero."""


@attrs.frozen
class Exceptional:
    """One exception: of which operators and types, what differs, at which sizes of the first operand, and by how much
    at most. Each operator needs it for each of the types."""

    name: str
    operators: tuple[str, ...]
    kinds: str
    what: str
    reason: str
    sizes: tuple[float, float] = ANY
    absolute: float = 0.0
    relative: float = 0.0


def activations(*names: str) -> tuple[str, ...]:
    return tuple(f"nn.functional.{name}" for name in names)


def special(*names: str) -> tuple[str, ...]:
    return tuple(f"special.{name}" for name in names)


ELU = (
    "Elu and Selu are exp(x) - 1, off by 6e-8 beside 0; with tanh(x / 2) * (exp(x) + 1) for them, seven nodes for one, "
    "it takes 1.0, 0.7 and 1.4 to 2.3 times as long"
)
SIGMOID = (
    "Sigmoid is off by 1.35e-7, whatever the result, and may be 0 below -16; 1 / (1 + exp(-x)) takes 1.25, 1.56 and "
    "2.58 times as long"
)
CHOSEN = "Where makes 0.0 of a -0.0 where its condition holds"
BESSEL = "series that are off by 1.2e-8 at 10 to 20"
STEPS = "a hundred steps of the recurrence, where torch takes the cosine of a multiple"

EXCEPTIONS: tuple[Exceptional, ...] = (
    # ---- ONNX Runtime's kernels
    Exceptional("zero_chosen", ("where -0",), NARROW, "sign", CHOSEN),
    Exceptional("zero_chosen", ("masked_fill -0",), ALL, "sign", CHOSEN, (0.7, math.inf)),
    Exceptional("zero_chosen", ("where of two",), ALL, "sign", CHOSEN, ZERO),
    Exceptional("zero_chosen", ("fmax", "fmin"), ALL, "sign",
                "the same; by Max of operands without NaN it takes 1.27, 1.63 and 1.67 times as long, of float16 3 to "
                "5.6 times", ZERO),
    Exceptional("zero_chosen", activations("celu 2"), "float32 float64", "sign", CHOSEN, LEAST),
    Exceptional("zero_chosen", (*activations("leaky_relu", "prelu", "rrelu"), "special.bessel_j1"), "float64", "sign",
                "the least number times a slope is -0.0, and is chosen", LEAST),
    Exceptional("zero_chosen", special("chebyshev_polynomial_t", "chebyshev_polynomial_u", "hermite_polynomial_h",
                                       "hermite_polynomial_he", "legendre_polynomial_p"), "float32 float64", "sign",
                CHOSEN, ZERO),
    Exceptional("zero_first_added", ("sum", "sum of one", "sum of two", "cumsum", "cumsum of two", "mean"), ALL, "sign",
                "sums begin with the first number, torch's with 0.0: the sum of -0.0 alone is -0.0", ZERO),
    Exceptional("zeros_compared", ("clamp below 0",), "float32 float64 bfloat16", "sign",
                "of 0.0 and -0.0 Min takes either, as IEEE 754 leaves it to", ZERO),
    Exceptional("zero_of_selu", activations("selu"), NARROW, "sign", "Selu of -0.0 is 0.0", ZERO),
    Exceptional("elu_near_zero", activations("celu", "celu 2", "elu", "elu 1.5", "selu"), "float32 bfloat16", "far",
                ELU, (0.0, 0.0011), 1.2e-7),
    Exceptional("rough_sigmoid", ("sigmoid", *activations("sigmoid")), "float32", "far", SIGMOID,
                (4.9, math.inf), 1.5e-7),
    Exceptional("rough_sigmoid", activations("silu", "silu.complex", "glu"), "float32", "far",
                "x times the same", (4.9, math.inf), 1e-6),
    Exceptional("rough_sigmoid", ("sigmoid", *activations("sigmoid", "silu", "silu.complex", "glu")), "bfloat16", "far",
                SIGMOID, (15.0, math.inf), 1e-7),
    Exceptional("rough_tanh", ("tanh", "expm1", *activations("tanh")), "float32", "far",
                "below 3e-37 Tanh loses digits, up to 1.1e-5 of itself beside the least normal number", (0.0, 3e-37),
                0.0, 1.2e-5),
    Exceptional("rough_tanh", activations("tanhshrink"), "float32", "far",
                "x - tanh(x), of a Tanh whose last digit is another", (0.0, 0.11), 1.5e-8),
    Exceptional("rough_tanh", activations("tanhshrink"), "float16", "sign", "the same", (0.0, 0.0011)),
    Exceptional("rough_tanh", activations("gelu tanh"), "float32", "far", "1 + tanh(x), of a Tanh off by 2e-7",
                (2.9, 3.1), 1.8e-7),
    Exceptional("nan_in_extremes", ("max of two",), ALL, "nan",
                "ReduceMax drops NaN, which the report says; `+nan` keeps it"),
    # ---- rules of real numbers
    Exceptional("add_zero", ("plus 0",), ALL, "sign",
                "x + 0.0 becomes x, by irkit's rule and by ONNX Runtime's own", ZERO),
    Exceptional("neg_of_sub", ("neg of sub",), ALL, "sign", "-(x - y) becomes y - x, whose zero is 0.0"),
    Exceptional("root_of_square", ("root of square",), "float64", "inf",
                "Sqrt(x * x) becomes Abs(x), which does not overflow", (1e154, math.inf)),
    Exceptional("root_of_square", ("root of square",), "float64", "far", "the same, which keeps the least numbers",
                (0.0, 1e-300), 1e-300),
    # ---- eager's own: what a formula of torch's loses on the way
    Exceptional("eager_overflows", ("__rdiv__",), "float64", "inf", "torch takes 1 / x, which overflows", LEAST),
    Exceptional("eager_overflows", ("__rdiv__",), "float64", "nan", "the same: 0 * inf", LEAST),
    Exceptional("eager_overflows", activations("hardswish"), "float64", "inf",
                "torch multiplies before it divides by 6", (8e307, math.inf)),
    Exceptional("eager_overflows", ("igamma", "igammac"), "float64", "nan", "of the greatest number and 100: 0 and 1",
                (1e308, math.inf)),
    Exceptional("eager_zeros", activations("softshrink"), "float16 bfloat16", "sign",
                "torch gives x * 0 below the edge, irkit x - Clip(x), whose zero is 0.0", (0.0, 0.5)),
    Exceptional("eager_zeros", activations("logsigmoid"), "bfloat16", "sign",
                "-exp(-100) is a number in float32, and -0.0 in 16 bits", (88.0, 105.0)),
    # ---- formulas of irkit's own: good to a stated error, not to the last digit
    Exceptional("bessel_functions", special("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"), "float64", "far",
                BESSEL, (0.0, 25.0), 3e-8),
    Exceptional("bessel_functions", special("bessel_y0"), "float64", "inf", "the logarithm of half of it, 0", LEAST),
    Exceptional("bessel_functions", special("bessel_y1"), "float64", "nan", "the same, and inf - inf", LEAST),
    Exceptional("bessel_functions", special("modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0",
                                            "scaled_modified_bessel_k1"), "float64", "far",
                "good to 2e-10 of the result", (2.0, 11.0), 0.0, 4e-10),
    Exceptional("bessel_functions", special("airy_ai"), "float64", "far", "good to 5e-9", (1.0, 31.0), 1e-8),
    Exceptional("infinite_order", special("zeta"), "float32 float64", "nan",
                "of an order that is infinite or the greatest number one of both is NaN, where the sum has a limit",
                (3e38, math.inf)),
    Exceptional("recurrences", special(*(f"{s}chebyshev_polynomial_{k}" for s in ("", "shifted_") for k in "tuvw"),
                                       "laguerre_polynomial_l"), "float64", "far", STEPS, (0.0, 1.0), 1e-13, 5e-11),
    Exceptional("beside_roots", ("digamma", "polygamma.polygamma_n_0", "special.polygamma.special_polygamma_n_0"),
                "float64", "far", "good to 1e-15, not of the result, which is 0 at 1.46", (0.4, 1.6), 2e-15),
    Exceptional("beside_roots", ("lgamma", "mvlgamma.mvlgamma_p_1"), "float64", "far",
                "good to 1e-15, not of the result, which is 0 at 1 and 2", (0.9, 2.1), 3e-15),
    Exceptional("beside_roots", ("lgamma", "mvlgamma.mvlgamma_p_1"), "float32 bfloat16", "far",
                "the same; to ask for these and for the least numbers takes 1.08 to 1.19 times as long", (1.0, 2.0),
                1e-15),
    Exceptional("beside_roots", ("lgamma", "mvlgamma.mvlgamma_p_1"), "float16", "sign", "the same", (1.0, 2.0)),
    Exceptional("least_numbers", ("lgamma", "mvlgamma.mvlgamma_p_1"), "float64", "far",
                "pi times the least number is three times it", LEAST, 0.05),
    Exceptional("least_numbers", special("ndtri"), "float64", "far",
                "two steps of Halley's are 9e-6 off for such an area", LEAST, 0.0, 2e-5),
    Exceptional("least_numbers", activations("mish"), "float32", "far",
                "the least numbers lose their digits in Mish", (85.0, 105.0), 2e-41),
    Exceptional("least_numbers", ("igammac",), "float32 bfloat16", "far", "1 - P, of a P that is good to 4e-16",
                (0.0, 1.2e-38), 1e-15),
    Exceptional("units", ("igamma", "igammac"), "float64", "far", "good to 4e-15, not of the result", ANY, 1e-14),
    Exceptional("units", ("erfc",), "float64", "far", "1.2e-14 of the result", (10.0, 27.0), 0.0, 3e-14),
    Exceptional("units", special("log_ndtr"), "float64", "far", "2.8e-14 of the result", (5.0, 38.0), 0.0, 6e-14),
    Exceptional("units", ("exp of log",), "float64", "far", "the logarithm is 23 or 46, and so its last digit",
                (1e-20, 1e10), 0.0, 1.5e-14),
    Exceptional("units", activations("gelu tanh"), "float64", "far", "1 + tanh(x), of a Tanh off by 1e-16", (2.9, 5.1),
                6e-16),
    Exceptional("units", activations("tanhshrink"), "float64", "far",
                "x - tanh(x), of a Tanh whose last digit is another", (0.09, 0.26), 6e-17),
    Exceptional("units", ("sinc",), "float64", "far", "the digits of pi * x beside pi", (0.99, 1.01), 1e-16),
)  # fmt: skip


def exceptions_of(operator: str, kind: str) -> tuple[Exceptional, ...]:
    """The exceptions that are named for an operator and an element type."""
    return tuple(each for each in EXCEPTIONS if kind in each.kinds.split() and operator in each.operators)


def needs() -> list[tuple[Exceptional, str, str]]:
    """Each exception with an operator and a type that are to need it."""
    return [(each, name, kind) for each in EXCEPTIONS for name in each.operators for kind in each.kinds.split()]
