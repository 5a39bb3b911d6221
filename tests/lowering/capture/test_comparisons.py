"""Conditions on sizes are said in one way, which means the same for all sizes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import sympy

from irkit import dims
from lowering.capture.guards.comparisons import closed, in_lowest_terms

N, M = dims.symbol("n"), dims.symbol("m")


@pytest.mark.parametrize("relation", [sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt, sympy.Eq, sympy.Ne])
@pytest.mark.parametrize("factor", [-3, 2, 6])
def test_a_condition_in_lowest_terms_holds_where_it_did(relation: Any, factor: int) -> None:
    for limit in range(-7, 8):
        sides = (N - factor, factor - N, factor * N, factor * N + 2 * M, factor * N + 2 * factor * M, factor * N + 2)
        for side in sides:
            for told in (relation(side, limit, evaluate=False), relation(sympy.Integer(limit), side, evaluate=False)):
                found = closed(in_lowest_terms(told))
                for n, m in itertools.product(range(6), range(4)):
                    assert bool(found.subs({N: n, M: m})) == bool(told.subs({N: n, M: m})), (told, found, n, m)


def test_a_factor_of_all_terms_is_left_out() -> None:
    assert in_lowest_terms(3 * N >= 1) == (N >= 1)
    assert in_lowest_terms(2 * N + 4 * M > 5) == (N + 2 * M > 2)
    assert closed(sympy.Gt(16 - N, 0)) == (N <= 15)
