"""Sizes that grow by the same in every period, as one quotient."""

from __future__ import annotations

from typing import Any

import pytest

from irkit import dims
from irkit.dims.periodic import quotient_of, shortest
from tests.support.python_calls import python_calls

N: Any = dims.symbol("n")


@pytest.mark.parametrize("step", [2, 3, 6, 7])
@pytest.mark.parametrize("more", [-3, 0, 1, 5])
def test_nested_quotients_are_one(step: int, more: int) -> None:
    nested = dims.add(dims.floordiv(dims.add(dims.floordiv(dims.add(N, more), step), 1), 2), 3)
    found = shortest(nested)
    assert [dims.evaluate(found, {"n": n}) for n in range(99)] == [dims.evaluate(nested, {"n": n}) for n in range(99)]
    assert found == dims.add(dims.floordiv(dims.add(N, more + step), 2 * step), 3)


def test_what_is_no_quotient_stays() -> None:
    uneven = dims.add(dims.floordiv(N, 2), dims.floordiv(N, 3))
    assert shortest(uneven) == uneven


def test_the_sizes_of_a_long_period_are_looked_at_once() -> None:
    period = 1024
    half = dims.floordiv(dims.add(N, period // 2), period)
    found: list[Any] = []
    calls = python_calls(lambda: found.append(quotient_of((half,), lambda n, _: (n + period // 2) // period)))
    assert found == [half]
    assert calls < 16 * period
