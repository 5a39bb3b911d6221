"""The formulas of complex arithmetic, which stand once: they hold up to the ends of the floats."""

from __future__ import annotations

import cmath
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import irkit
from irkit.core.ir import Graph
from lowering.tensors import complex_numbers

GREAT, TINY = float(np.finfo(np.float64).max), float(np.finfo(np.float64).tiny)
EPS = float(np.finfo(np.float64).eps)
ENDS = st.sampled_from([0.0, 1.0, -3.0, GREAT, -GREAT / 3, TINY, -TINY * 5, GREAT**0.5 * 2, TINY**0.5 / 3])
NUMBERS = st.builds(complex, ENDS | st.floats(-1e3, 1e3), ENDS | st.floats(-1e3, 1e3))


def run(name: str, *numbers: complex, **options: bool) -> complex:
    """What a formula gives in f64."""
    pairs = [(irkit.const(np.float64(z.real)), irkit.const(np.float64(z.imag))) for z in numbers]
    found = getattr(complex_numbers, name)(*pairs, **options)
    results = found if isinstance(found, tuple) else (found,)
    with np.errstate(all="ignore"):
        return complex(*(float(a) for a in irkit.evaluate(Graph((), results), [])))


def is_close(found: complex, real: Fraction, imaginary: Fraction) -> bool:
    """True where a number is off by some ulps of its size at the most."""
    gap = max(abs(Fraction(found.real) - real), abs(Fraction(found.imag) - imaginary))
    return gap <= 8 * Fraction(EPS) * max(abs(real), abs(imaginary))


@given(NUMBERS, NUMBERS)
@example(complex(GREAT / 4, GREAT / 4), complex(GREAT, GREAT))
@example(complex(TINY * 2**60, 0), complex(TINY, TINY))
def test_quotients_reach_the_ends(a: complex, b: complex) -> None:
    assume(b != 0)
    (x, y), (c, d) = ((Fraction(z.real), Fraction(z.imag)) for z in (a, b))
    size = c * c + d * d
    real, imaginary = (x * c + y * d) / size, (y * c - x * d) / size
    least, most = Fraction(TINY) * 2**60, Fraction(GREAT) / 4
    assume(all(least <= abs(v) <= most or v == 0 for v in (x, y, real, imaginary)))
    assert is_close(run("quotient", a, b), real, imaginary)


def test_quotients_by_nothing_and_by_infinity() -> None:
    found = run("quotient", 3 - 2j, 0j)
    assert found == complex(np.inf, -np.inf)
    assert run("quotient", 3 - 2j, complex(np.inf, 1)) == 0
    assert run("near_quotient", 3 - 2j, 0j) == 3 - 2j


@given(NUMBERS)
@example(complex(GREAT / 2, GREAT / 2))
@example(complex(TINY, TINY))
def test_moduli_reach_the_ends(a: complex) -> None:
    with np.errstate(over="ignore"):
        expected = float(np.hypot(a.real, a.imag))
    assert run("modulus", a).real == pytest.approx(expected, rel=4 * EPS, abs=0)


@given(NUMBERS)
@example(complex(-GREAT, GREAT))
@example(complex(-4.0, -0.0))
@example(complex(-4.0, 1e-30))
def test_roots_reach_the_ends(a: complex) -> None:
    found, expected = run("root", a, roomy=False), cmath.sqrt(a)
    assume(min(abs(v) for v in (a.real, a.imag) if v) > TINY * 16 if a else True)
    assert found.real == pytest.approx(expected.real, rel=8 * EPS, abs=0)
    assert found.imag == pytest.approx(expected.imag, rel=8 * EPS, abs=0)
    assert np.signbit(found.imag) == np.signbit(a.imag)


@given(st.builds(complex, st.floats(-8, 8), st.floats(-8, 8)), st.builds(complex, st.floats(-8, 8), st.floats(-8, 8)))
def test_near_formulas_are_the_others_where_squares_stay_in_range(a: complex, b: complex) -> None:
    assume(all(v == 0 or abs(v) > 1e-3 for v in (a.real, a.imag, b.real, b.imag)) and b != 0)
    assert run("near_quotient", a, b) == pytest.approx(run("quotient", a, b), rel=16 * EPS, abs=1e-13)
    assert run("near_modulus", a) == pytest.approx(run("modulus", a), rel=8 * EPS)
    assert run("root", a, roomy=True) == pytest.approx(run("root", a, roomy=False), rel=16 * EPS)
