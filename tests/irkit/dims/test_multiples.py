"""What is padded, or cut, to a multiple of a size is that size times a quotient."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irkit import dims
from irkit.dims import Dim, add, evaluate, floordiv, mod, mul, notation, sub

N, M, W = dims.symbol("n"), dims.symbol("m"), dims.symbol("w")
UNITS: tuple[Dim, ...] = (7, W, dims.minimum(N, W), mul(2, W))


def padded(size: Dim, unit: Dim) -> Dim:
    """A size and what it lacks of a multiple, as models write it."""
    return add(size, mod(sub(unit, mod(size, unit)), unit))


def lacking(size: Dim, unit: Dim) -> Dim:
    return add(size, mod(mul(size, -1), unit))


def cut(size: Dim, unit: Dim) -> Dim:
    return sub(size, mod(size, unit))


def rounded_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def rounded_down(size: int, unit: int) -> int:
    return size // unit * unit


@given(st.integers(0, 60), st.integers(0, 9), st.integers(1, 9), st.integers(-9, 9), st.sampled_from(UNITS))
def test_what_is_padded_or_cut_is_a_multiple(n: int, m: int, w: int, more: int, unit: Dim) -> None:
    at = {"n": n, "m": m, "w": w}
    number = evaluate(unit, at)
    if number == 0:
        return
    for size in (N, add(N, more), add(mul(N, 3), M), sub(mul(N, 2), M)):
        whole = evaluate(size, at)
        for function, meant in ((padded, rounded_up), (lacking, rounded_up), (cut, rounded_down)):
            found = function(size, unit)
            assert evaluate(found, at) == meant(whole, number)
            assert evaluate(sub(found, size), at) == meant(whole, number) - whole
            assert evaluate(notation.parse(notation.text(found)), at) == meant(whole, number)


@pytest.mark.parametrize("unit", (7, W, dims.minimum(N, W)), ids=str)
@pytest.mark.parametrize("function", (padded, lacking, cut))
def test_a_multiple_is_divided_without_a_remainder(unit: Dim, function: Callable[[Dim, Dim], Dim]) -> None:
    made = function(N, unit)
    assert mod(made, unit) == 0
    assert mul(floordiv(made, unit), unit) == made
    assert function(made, unit) == made


def test_windows_of_an_image_are_one_term() -> None:
    """A product of two sizes that are padded would have four terms, and that of what follows sixteen."""
    area = mul(padded(N, 7), padded(M, 7))
    assert notation.text(area) == "49*((m + 6) // 7)*((n + 6) // 7)"
    parsed = notation.parse("((7 - n % 7) % 7 + n)*((7 - m % 7) % 7 + m) // 49")
    assert notation.text(parsed) == "((m + 6) // 7)*((n + 6) // 7)"
