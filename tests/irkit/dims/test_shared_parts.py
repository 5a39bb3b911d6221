"""Sizes that contain one another many times over: what is asked of them takes as long as their different parts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import sympy

from irkit import dims
from irkit.dims import Dim, Range, symbol
from irkit.dims.functions import Double
from irkit.dims.written import OFTEN
from irkit.errors import DimensionError
from tests.support.python_calls import python_calls


def nested(layers: int) -> Dim:
    """A size that contains that of the layer before twice, in each of so many layers."""
    size: Dim = symbol("n")
    for _ in range(layers):
        size = dims.floordiv(dims.add(dims.minimum(size, 40), dims.maximum(size, 3)), 2)
    return size


def plain(layers: int, size: int) -> int:
    """The same in integers."""
    for _ in range(layers):
        size = (min(size, 40) + max(size, 3)) // 2
    return size


LAYERS = 9


@pytest.mark.parametrize("size", [0, 1, 2, 3, 17, 40, 41, 1000])
def test_shared_parts_have_the_numbers_of_integers(size: int) -> None:
    expr = nested(LAYERS)
    assert dims.evaluate(expr, {"n": size}) == plain(LAYERS, size)
    low, high = dims.bounds(expr, {"n": Range(size, size + 5)}).lo, dims.bounds(expr, {"n": Range(size, size + 5)}).hi
    assert high is not None and all(low <= plain(LAYERS, each) <= high for each in range(size, size + 6))


def test_a_part_is_computed_once() -> None:
    expr, sizes, ranges = nested(LAYERS), {"n": 5}, {"n": Range(2, 9)}
    dims.evaluate(expr, sizes)  # how it is computed is kept
    parts = len({*sympy.preorder_traversal(expr)})
    assert len([*sympy.preorder_traversal(expr)]) > 20 * parts
    assert python_calls(lambda: dims.evaluate(expr, sizes)) < 4 * parts
    assert python_calls(lambda: dims.bounds(expr, ranges)) < 20 * parts


def test_a_sum_within_a_function_is_no_factor_to_expand() -> None:
    expr: Any = sympy.Mul(3, nested(LAYERS), symbol("m"))
    parts = len({*sympy.preorder_traversal(expr)})
    found: list[Dim] = []
    assert python_calls(lambda: found.append(dims.dim(expr))) < 20 * parts
    assert found == [expr]


def test_factors_are_expanded_wherever_they_stand() -> None:
    n, m = symbol("n"), symbol("m")
    half: Any = dims.FloorDiv(n * (m + 1), 2)
    product, power = sympy.Mul(n, m + 1, evaluate=False), sympy.Pow(n + 1, 2, evaluate=False)
    for given, expected in [
        (product, n * m + n),
        (power, n**2 + 2 * n + 1),
        (sympy.Add(product, power, evaluate=False), n**2 + n * m + 3 * n + 1),
        (half * m, dims.FloorDiv(n * m + n, 2) * m),
    ]:
        assert dims.dim(given) == expected


def test_numbers_are_exact_and_rounded_once() -> None:
    n: Any = symbol("n")
    third = sympy.Rational(1, 3)
    double: Any = Double
    assert dims.number_of(n * third + third, {"n": 2}) == 1
    assert dims.number_of(n**-1 * 6, {"n": 3}) == 2
    assert dims.number_of(double(n / 10) * 3, {"n": 1}) == 0.1 * 3
    assert dims.number_of(double(n / 10) + double(n / 5), {"n": 1}) == 0.1 + 0.2
    with pytest.raises(ZeroDivisionError):
        dims.number_of(n**-1, {"n": 0})
    with pytest.raises(DimensionError, match="'n' has no value"):
        dims.number_of(n + 1, {"m": 2})


def numbers_asked(expr: Any, calls: int, sizes: dict[str, Any]) -> Any:
    """The number of an expression for these sizes, after it was asked for at so many others."""
    for size in range(calls):
        dims.number_of(expr, {"n": size + 3, "m": size + 1})
    return dims.number_of(expr, sizes)


@pytest.mark.parametrize(
    "sizes",
    [{"n": 7, "m": 3}, {"n": 0, "m": 5}, {"n": -4, "m": 3}, {"n": 2.5, "m": 2}, {"n": Fraction(7, 2), "m": 2}],
)
def test_a_number_that_is_asked_for_often_is_what_it_was(sizes: dict[str, Any]) -> None:
    n, m = symbol("n"), symbol("m")
    written: Any = sympy.Add(n**2, dims.mul(m, 3), dims.floordiv(n, 2), dims.mod(n, m), dims.maximum(n, m, 4), -1)
    values = sizes["n"], sizes["m"]
    expected = values[0] ** 2 + 3 * values[1] + values[0] // 2 + values[0] % values[1] + max(*values, 4) - 1
    told = numbers_asked(written, 0, sizes), numbers_asked(written, OFTEN + 1, sizes)
    assert told == (expected, expected)
    assert type(told[0]) is type(told[1])


def test_a_number_that_is_asked_for_often_refuses_what_it_refused() -> None:
    n, m = symbol("n"), symbol("m")
    expr: Any = sympy.Add(dims.floordiv(n, m), dims.mod(n, m))
    assert numbers_asked(expr, OFTEN + 1, {"n": 7, "m": 2}) == 4
    with pytest.raises(DimensionError, match="'m' has no value"):
        dims.number_of(expr, {"n": 2})
    with pytest.raises(ZeroDivisionError):
        dims.number_of(expr, {"n": 2, "m": 0})
    power: Any = sympy.Pow(n, 1 << 12) + m
    assert numbers_asked(power, OFTEN + 1, {"n": 2, "m": 1}) == 2 ** (1 << 12) + 1
    with pytest.raises(DimensionError, match="beyond any size"):
        dims.number_of(power, {"n": 1 << 20, "m": 1})


def test_a_number_that_is_asked_for_often_takes_no_call_for_each_part() -> None:
    expr, parts = nested(LAYERS), len({*sympy.preorder_traversal(nested(LAYERS))})
    few = python_calls(lambda: numbers_asked(expr, OFTEN + 1, {"n": 5}))
    assert few > OFTEN * parts
    assert python_calls(lambda: dims.number_of(expr, {"n": 6})) < 8 < parts
