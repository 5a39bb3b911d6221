"""Sizes that are one or another by a condition, and quotients in their shortest form."""

from __future__ import annotations

from typing import Any

import sympy
from hypothesis import given
from hypothesis import strategies as st

from irkit import dims
from irkit.dims.choice import choose_size, negation
from irkit.dims.periodic import shortest

n, m = dims.symbol("n"), dims.symbol("m")
RELATIONS = (sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Sizes made of others."""
    units = st.integers(1, 7)
    return st.one_of(
        st.builds(dims.add, inner, inner),
        st.builds(dims.sub, inner, inner),
        st.builds(dims.floordiv, inner, units),
        st.builds(dims.mod, inner, units),
        st.builds(dims.minimum, inner, inner),
        st.builds(dims.mul, inner, units),
    )


sizes = st.recursive(st.sampled_from((n, m, 1, 2, 5)), combined, max_leaves=5)
of_one = st.recursive(st.sampled_from((n, n, 1, 3)), combined, max_leaves=8)
relations = st.builds(
    lambda kind, a, b: kind(sympy.sympify(a), sympy.sympify(b)), st.sampled_from(RELATIONS), sizes, sizes
)
conditions = st.recursive(
    relations, lambda inner: st.builds(sympy.And, inner, inner) | st.builds(sympy.Or, inner, inner), max_leaves=3
)


@given(condition=conditions, one=sizes, other=sizes)
def test_a_chosen_size_is_one_or_the_other(condition: Any, one: Any, other: Any) -> None:
    found = choose_size(condition, one, other)
    for first in range(12):
        for second in (0, 1, 4, 7):
            at = {n: first, m: second}
            holds = bool(sympy.sympify(condition).xreplace(at).doit())
            assert bool(sympy.sympify(negation(condition)).xreplace(at).doit()) is not holds
            if found is not None:
                values = {"n": first, "m": second}
                assert dims.evaluate(found, values) == dims.evaluate(one if holds else other, values)


@given(size=of_one)
def test_the_shortest_form_is_the_same_size(size: Any) -> None:
    found = shortest(size)
    for at in (*range(40), 419, 420, 421, 5040, 99991):
        assert dims.evaluate(found, {"n": at}) == dims.evaluate(size, {"n": at})


@given(of=of_one, unit=st.integers(2, 7), one=of_one, other=of_one)
def test_a_size_chosen_by_a_remainder_is_one_or_the_other(of: Any, unit: int, one: Any, other: Any) -> None:
    rest = sympy.sympify(dims.mod(of, unit))
    found = choose_size(sympy.Ne(rest, 0), one, other)
    for at in (*range(30), 419, 420, 421, 5040, 99991):
        values = {"n": at}
        expected = one if dims.evaluate(dims.mod(of, unit), values) else other
        assert found is not None and dims.evaluate(found, values) == dims.evaluate(expected, values)


def test_quotients_of_quotients_are_one() -> None:
    quarter = choose_size(sympy.Ne(dims.mod(n, 4), 0), dims.add(dims.floordiv(n, 4), 1), dims.floordiv(n, 4))
    assert quarter == dims.floordiv(dims.add(n, 3), 4)
    assert choose_size(sympy.Ne(dims.mod(n, 4), 0), n, dims.mul(4, dims.floordiv(n, 4))) == n
    assert shortest(dims.add(n, dims.mod(dims.mul(n, -1), 7))) == dims.mul(7, dims.floordiv(dims.add(n, 6), 7))
