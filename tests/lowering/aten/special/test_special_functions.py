"""Special functions by published approximations: the error that is stated for each, against forty digits of mpmath.

The error is absolute where the function is below 1, relative where it is above. In float32 all of them are good to
4e-6: they are computed in wider numbers, or lose what one float32 step of an operand makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import mpmath
import numpy as np
import pytest
import torch

from tests.lowering.aten.harness import eager, lowered, run_onnx

S = torch.special
POSITIVE = np.concatenate([10.0 ** np.linspace(-8, 3, 40), np.linspace(0.05, 60, 50)])
BELOW = POSITIVE[POSITIVE < 600]
LINE = np.linspace(-60, 60, 121) + 0.013
NEGATIVE = -np.linspace(0.13, 20.7, 40)
SINGLE = 4e-6
"""The bound in float32."""


@attrs.frozen
class Row:
    """A function, the same of mpmath, where it is tried, and the error that is stated in float64."""

    ours: Callable[[torch.Tensor], torch.Tensor]
    exact: Callable[[Any], Any]
    points: np.ndarray
    bound: float


def scaled_i(order: int) -> Callable[[Any], Any]:
    """Modified Bessel function of the first kind times exp(-|x|)"""
    return lambda x: mpmath.besseli(order, x) * mpmath.exp(-abs(x))


def scaled_k(order: int) -> Callable[[Any], Any]:
    """Modified Bessel function of the second kind times exp(x)"""
    return lambda x: mpmath.besselk(order, x) * mpmath.exp(x)


ROWS: dict[str, Row] = {
    "lgamma": Row(torch.lgamma, lambda x: mpmath.log(abs(mpmath.gamma(x))), np.append(POSITIVE, NEGATIVE), 1e-14),
    "digamma": Row(torch.digamma, mpmath.digamma, np.append(POSITIVE, NEGATIVE), 1e-14),
    "trigamma": Row(lambda x: torch.polygamma(1, x), lambda x: mpmath.psi(1, x), POSITIVE, 1e-14),
    "polygamma of order 3": Row(lambda x: torch.polygamma(3, x), lambda x: mpmath.psi(3, x), POSITIVE, 1e-14),
    "gammainc": Row(
        lambda x: S.gammainc(torch.full_like(x, 2.5), x),
        lambda x: mpmath.gammainc(mpmath.mpf(2.5), 0, x, regularized=True), POSITIVE, 1e-12,
    ),
    "gammaincc": Row(
        lambda x: S.gammaincc(torch.full_like(x, 2.5), x),
        lambda x: mpmath.gammainc(mpmath.mpf(2.5), x, mpmath.inf, regularized=True), POSITIVE, 1e-12,
    ),
    "erfinv": Row(torch.erfinv, mpmath.erfinv, np.linspace(-0.999, 0.999, 41), 1e-14),
    "ndtri": Row(S.ndtri, lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), np.linspace(0.001, 0.999, 41), 1e-14),
    "erfcx": Row(S.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), np.linspace(-5, 50, 60), 1e-13),
    "log_ndtr": Row(
        S.log_ndtr, lambda x: mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2), np.linspace(-40, 8, 60), 1e-14
    ),
    "i0": Row(S.i0, lambda x: mpmath.besseli(0, x), LINE, 1e-10), "i0e": Row(S.i0e, scaled_i(0), LINE, 1e-10),
    "i1": Row(S.i1, lambda x: mpmath.besseli(1, x), LINE, 1e-10), "i1e": Row(S.i1e, scaled_i(1), LINE, 1e-10),
    "modified_bessel_i0": Row(S.modified_bessel_i0, lambda x: mpmath.besseli(0, x), LINE, 1e-10),
    "modified_bessel_i1": Row(S.modified_bessel_i1, lambda x: mpmath.besseli(1, x), LINE, 1e-10),
    "bessel_j0": Row(S.bessel_j0, lambda x: mpmath.besselj(0, x), LINE, 1e-11),
    "bessel_j1": Row(S.bessel_j1, lambda x: mpmath.besselj(1, x), LINE, 1e-11),
    "bessel_y0": Row(S.bessel_y0, lambda x: mpmath.bessely(0, x), POSITIVE, 1e-11),
    "bessel_y1": Row(S.bessel_y1, lambda x: mpmath.bessely(1, x), POSITIVE, 1e-11),
    "modified_bessel_k0": Row(S.modified_bessel_k0, lambda x: mpmath.besselk(0, x), BELOW, 1e-12),
    "modified_bessel_k1": Row(S.modified_bessel_k1, lambda x: mpmath.besselk(1, x), BELOW, 1e-12),
    "scaled_modified_bessel_k0": Row(S.scaled_modified_bessel_k0, scaled_k(0), POSITIVE, 5e-9),
    "scaled_modified_bessel_k1": Row(S.scaled_modified_bessel_k1, scaled_k(1), POSITIVE, 5e-9),
    "spherical_bessel_j0": Row(S.spherical_bessel_j0, lambda x: mpmath.sin(x) / x, LINE, 1e-14),
    "airy_ai": Row(S.airy_ai, mpmath.airyai, np.linspace(-20.1, 10, 80), 1e-9),
    "zeta": Row(
        lambda x: S.zeta(x, torch.full_like(x, 1.5)), lambda x: mpmath.zeta(x, mpmath.mpf(1.5)),
        np.linspace(1.05, 40, 60), 1e-14,
    ),
    "zeta from q": Row(
        lambda q: S.zeta(torch.full_like(q, 2.5), q), lambda q: mpmath.zeta(mpmath.mpf(2.5), q), POSITIVE, 1e-14
    ),
    "sinc": Row(torch.sinc, lambda x: mpmath.sin(mpmath.pi * x) / (mpmath.pi * x), LINE, 1e-14),
}  # fmt: skip


@pytest.mark.parametrize("kind", (torch.float64, torch.float32), ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_stated_error(name: str, kind: torch.dtype) -> None:
    row = ROWS[name]
    x = torch.tensor(row.points).to(kind)
    (found,) = run_onnx(lowered(row.ours, x).graph, [x])
    with mpmath.workdps(40):
        exact = np.array([float(row.exact(mpmath.mpf(float(v)))) for v in x.double()])
    held = np.isfinite(exact) & (np.abs(exact) < float(torch.finfo(kind).max) / 2)
    assert held.sum() > len(exact) // 2
    error = np.abs(found[held] - exact[held]) / np.maximum(np.abs(exact[held]), 1)
    assert error.max() <= (row.bound if kind is torch.float64 else SINGLE), f"{error.max():.2e}"


POLYNOMIALS = (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
    "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
    "shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l "
    "legendre_polynomial_p"
)


@pytest.mark.parametrize("name", POLYNOMIALS.split())
def test_polynomials_of_each_degree(name: str) -> None:
    """Degrees 0 to 12, on the interval where each is used and beyond it: ten digits of their largest value."""
    x = torch.linspace(-1.5, 1.5, 31, dtype=torch.float64)
    for n in (0, 1, 2, 3, 7, 12):
        (expected,) = eager(lambda x, n=n: getattr(S, name)(x, n), x)
        (found,) = run_onnx(lowered(lambda x, n=n: getattr(S, name)(x, n), x).graph, [x])
        both = np.isfinite(expected)
        np.testing.assert_array_equal(np.isfinite(found), both)
        np.testing.assert_allclose(
            found[both], expected[both], rtol=1e-12, atol=1e-10 * max(1, np.abs(expected[both]).max())
        )


def test_negative_numbers_do_not_hang_on_the_others() -> None:
    near = np.array([-1.5, -2.25, 3.0])
    x = torch.tensor([*near, -1e30, -math.inf], dtype=torch.float64)
    (got,) = run_onnx(lowered(lambda x: torch.polygamma(2, x), x).graph, (x,))
    assert np.allclose(got[:3], [float(mpmath.psi(2, each)) for each in near], rtol=1e-13)
    (alone,) = run_onnx(lowered(lambda x: torch.polygamma(2, x), x[:3]).graph, (x[:3],))
    assert np.array_equal(got[:3], alone)


def test_the_incomplete_gamma_function_of_huge_shapes() -> None:
    """The distribution is a normal one there, of which as many digits are kept as of small ones."""
    shape = torch.tensor([1e4, 1e9, 1e12, 1e15, 1e16, 1e100, 1.7e308, 1e30], dtype=torch.float64)
    other = shape + torch.tensor([100, 0.0, 1e6, -2e8, 1e8, 0.0, 0.0, -1e29], dtype=torch.float64)
    for function in (torch.igamma, torch.igammac):
        (found,) = run_onnx(lowered(function, shape, other).graph, (shape, other))
        np.testing.assert_allclose(found, function(shape, other).numpy(), rtol=0.0, atol=2e-9)


def test_trigamma_at_both_ends_is_torch_s() -> None:
    x = torch.tensor([math.inf, -math.inf, math.nan, 2.5])
    (got,) = run_onnx(lowered(lambda x: torch.polygamma(1, x), x).graph, (x,))
    np.testing.assert_allclose(got, torch.polygamma(1, x).numpy(), rtol=1e-5)
