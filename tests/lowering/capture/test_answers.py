"""Whether conditions hold for sizes: at each sizes that they hang on once, however many others there are."""

from __future__ import annotations

from typing import Any

import pytest
import sympy

from irkit import dims
from irkit.dims import Range
from lowering.capture.guards.answers import holds
from lowering.capture.guards.questions import Questions
from lowering.direct.points import are_allowed, move_test
from tests.support.python_calls import python_calls

N, M = dims.symbol("n"), dims.symbol("m")


def test_a_condition_is_computed_once_for_the_sizes_that_it_hangs_on() -> None:
    expr: Any = sympy.Ge(N, 0)
    for i in range(40):
        expr = sympy.And(expr, sympy.Ge(sympy.Rational(i + 1, 3) * N + dims.FloorDiv(N, i + 2), 7), evaluate=False)
    assert holds(expr, {"n": 30, "m": 0}) is True
    assert python_calls(lambda: [holds(expr, {"n": 30, "m": size}) for size in range(100)]) < 5 * 100
    assert holds(expr, {"n": 3, "m": 0}) is False


def test_a_condition_equal_to_one_before_is_compared_with_it_once_for_all_sizes() -> None:
    """A further run asks equal conditions, which are other objects."""
    first, again = (sympy.Ge(N + dims.FloorDiv(N, 3), 7, evaluate=False) for _ in range(2))
    points = [{"n": size, "m": 0} for size in range(100)]
    expected = [bool(holds(first, point)) and point["n"] <= 90 for point in points]
    asked = Questions(str, print, print, ranges={"n": Range(0, 90)}, assumed=(again,))
    assert again is not first and {True, False} == set(expected)
    allows = move_test(asked)
    looked_up_once = python_calls(lambda: [allows(point) for point in points])
    looked_up_each_time = python_calls(lambda: [are_allowed(asked, point) for point in points])
    assert 1.3 * looked_up_once < looked_up_each_time
    assert expected == [allows(point) for point in points] == [are_allowed(asked, point) for point in points]


@pytest.mark.parametrize(
    ("expr", "sizes", "expected"),
    [
        (sympy.Ge(N, M), {"n": 2, "m": 2}, True),
        (sympy.Ge(N, M), {"n": 1, "m": 2}, False),
        (sympy.Ge(N, M), {"m": 1, "n": 2, "others": 0}, True),
        (sympy.Ge(N, M), {"n": 2}, None),
        (sympy.Or(sympy.Ge(N, 1), sympy.Ge(M, 1)), {"n": 1}, None),
        (sympy.Ge(N / 2, sympy.Rational(3, 2)), {"n": 3}, True),
        (sympy.Eq(dims.Mod(N, M), 0), {"n": 3, "m": 0}, None),
        (sympy.Or(sympy.Eq(dims.Mod(N, M), 0), sympy.Ge(N, 3)), {"n": 3, "m": 0}, True),
        (sympy.Ne(sympy.sqrt(N), 2), {"n": 4}, False),
        (sympy.true, {}, True),
        (None, {"n": 1}, None),
    ],
)
def test_what_holds(expr: Any, sizes: dict[str, int], expected: bool | None) -> None:
    assert holds(expr, sizes) is expected
    assert holds(expr, sizes) is expected


def test_an_unknown_symbol_is_one_of_its_own() -> None:
    one, two = dims.fresh(), dims.fresh()
    assert holds(sympy.Ge(one, 3), {dims.label(one): 3}) is True
    assert holds(sympy.Ge(one, 3), {dims.label(two): 3}) is None
