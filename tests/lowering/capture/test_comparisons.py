"""Conditions on sizes are said in one way, which means the same for all sizes."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import sympy

from irkit import dims
from lowering.capture.guards.comparisons import closed, in_fewest_words, in_lowest_terms

N, M = dims.symbol("n"), dims.symbol("m")


@pytest.mark.parametrize("relation", [sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt, sympy.Eq, sympy.Ne])
@pytest.mark.parametrize("factor", [-3, 2, 6])
def test_a_condition_in_lowest_terms_holds_where_it_did(relation: Any, factor: int) -> None:
    for limit in (-7, -6, -3, -1, 0, 1, 2, 4, 6):
        sides = (N - factor, factor - N, factor * N, factor * N + 2 * M, factor * N + 2 * factor * M, factor * N + 2)
        for side in sides:
            for told in (relation(side, limit, evaluate=False), relation(sympy.Integer(limit), side, evaluate=False)):
                found = closed(in_lowest_terms(told))
                for n, m in itertools.product(range(5), range(3)):
                    assert bool(found.subs({N: n, M: m})) == bool(told.subs({N: n, M: m})), (told, found, n, m)


def test_a_factor_of_all_terms_is_left_out() -> None:
    assert in_lowest_terms(3 * N >= 1) == (N >= 1)
    assert in_lowest_terms(2 * N + 4 * M > 5) == (N + 2 * M > 2)
    assert closed(sympy.Gt(16 - N, 0)) == (N <= 15)


def test_alternatives_in_fewest_words_hold_where_they_did() -> None:
    rng = random.Random(0)
    kinds = (sympy.Eq, sympy.Ne, sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt)
    for _ in range(400):
        parts = [rng.choice(kinds)(N, rng.randint(-1, 9)) for _ in range(rng.randint(2, 5))]
        told = sympy.Or(*parts, evaluate=False)
        found = in_fewest_words(told)
        for n in range(13):
            assert bool(found.subs({N: n})) == any(bool(part.subs({N: n})) for part in parts), (told, found, n)


def test_alternatives_are_said_in_fewest_words() -> None:
    assert in_fewest_words((N >= 2) | (N <= 3)) == sympy.true
    assert in_fewest_words((N >= 6) | (N <= 2) | (N <= 4)) == sympy.Ne(N, 5)
    assert in_fewest_words(sympy.Eq(N, 1) | (N >= 2)) == (N >= 1)
    assert in_fewest_words(sympy.Eq(N, 1) | sympy.Eq(N, 2)) == ((N >= 1) & (N <= 2))
    of_two = sympy.Eq(N, 1) | (M >= 2)
    assert in_fewest_words(of_two) is of_two
