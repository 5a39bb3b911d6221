"""Conditions over sizes as text: that they mean what Python means, at any length, and that nothing is executed."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irkit import dims
from irkit.dims import Range, notation
from irkit.dims.condition_source import DEPTH, LENGTH, condition_source, depth
from irkit.dims.conditions import holds
from irkit.dims.known_conditions import always_holds, bound_of
from irkit.errors import DimensionError

FUNCTIONS = {"max": max, "min": min, "ceil": math.ceil, "floor": math.floor, "trunc": math.trunc, "round": round}


TEXTS = [
        "a - b - 2 == 1", "-a // 2 < -b", "-(a % 4) % 4 < b", "2 <= a < b*b", "not a == b", "a // b*b + a % b == a",
        "max(a // 4, 1) != 1 or a < 8", "min(a, b, 3) == 3", "a**2 > b", "floor(0.5*a) == ceil(a*0.5)",
        "trunc(1.5*b) == round(1.5*b)", "0.5 < a", "2*a - (b - 1) > 0", "a == b == 1", "False or True",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_condition_means_what_python_means(text: str) -> None:
    for a in range(1, 12):
        for b in range(1, 6):
            assert holds(text, {"a": a, "b": b}) is eval(text, dict(FUNCTIONS), {"a": a, "b": b}), (a, b)


@pytest.mark.parametrize("text", TEXTS)
def test_source_of_a_condition_says_what_it_says(text: str) -> None:
    source = condition_source(text, {"a": "x", "b": "y"})
    assert (source is None) is any(word in text for word in (".", "**", "max", "min(", "floor"))
    for a, b in product(range(12), range(1, 6)):
        assert source is None or eval(source, {}, {"x": a, "y": b}) is holds(text, {"a": a, "b": b}), (a, b)


NUMBERS = st.recursive(
    st.sampled_from(("a", "b", '"c d"', "0", "1", "7")),
    lambda inner: (
        st.builds("({}) {} ({})".format, inner, st.sampled_from("+ - * // %".split()), inner)
        | inner.map("-({})".format)
    ),
    max_leaves=6,
)
RELATIONS = st.builds("{} {} {}".format, NUMBERS, st.sampled_from("== != < <= > >=".split()), NUMBERS)
CONDITIONS = st.recursive(
    RELATIONS,
    lambda inner: (
        st.builds("({}) {} ({})".format, inner, st.sampled_from(("and", "or")), inner) | inner.map("not ({})".format)
    ),
    max_leaves=4,
)


@given(CONDITIONS, st.integers(0, 3), st.integers(0, 2**63), st.integers(0, 3))
def test_source_of_random_conditions(text: str, a: int, b: int, c: int) -> None:
    source, expected = condition_source(text, {"a": "x", "b": "y", "c d": "z"}), holds(text, {"a": a, "b": b, "c d": c})
    if source is None:
        assert len(text) > LENGTH or depth(text) > DEPTH // 2
        return
    try:
        assert eval(source, {}, {"x": a, "y": b, "z": c}) is expected
    except ZeroDivisionError:
        assert expected is False


@pytest.mark.parametrize(
    "text",
    [
        "a == n",
        "a == 1.0",
        "a / 1 == 2",
        "+".join("a" * 240) + " == 7",
        "-" * 200 + "a == 7",
        "a == 7" + " or a == 7" * 60,
    ],
    ids=["unknown", "real", "quotient", "long", "signs", "many"],
)
def test_there_is_no_source_of_others(text: str) -> None:
    assert condition_source(text, {"a": "x"}) is None
    assert holds(text, {"a": 7}) is not None or "n" in text


def test_nothing_of_a_text_stands_in_its_source() -> None:
    text = '"__import__(1)" == 2'
    assert condition_source(text, {"__import__(1)": "s0"}) == "(s0 == 2)" and condition_source(text, {}) is None
    for wrong in ("a", "f(a) == 1", "a if a else b", "a.b == 1", "(a := 2) == 2", "a == 1 and"):
        with pytest.raises(DimensionError):
            assert condition_source(wrong, {"a": "s0"}) is None and holds(wrong, {"a": 1})


def test_ratios_are_exact() -> None:
    assert holds("a / b == 1.5 and a / b == 3/2", {"a": 3, "b": 2}) is True
    n = 3**50
    assert holds("n/3*3 == n and (1/3)*n == n // 3 and n**-1*n == 1", {"n": n}) is True
    assert holds("floor(n/2) == n // 2", {"n": n}) is True
    assert holds("sqrt(a) == 3 and a**(1/2) == 3", {"a": 9}) is True


def test_names_that_are_no_identifiers_stand_in_quotes() -> None:
    assert holds('"max" == 2*"odd name"', {"max": 4, "odd name": 2}) is True
    assert holds('"max" == 2*"odd name"', {"max": 4}) is None


def test_a_side_that_is_no_number_breaks_the_condition() -> None:
    assert holds("sqrt(a - 2) >= 0", {"a": 1}) is False
    assert holds("(a - 2)**(1/2) != 5", {"a": 1}) is False
    assert holds("4 % a != 5", {"a": 0}) is False


def test_a_long_condition_is_computed() -> None:
    """Windows over windows over an image make such sums; expanded, this one would have 6561 terms."""
    sides = [f"(-((-({n} % 4) % 4 + {n}) % 4) % 4 + -({n} % 4) % 4 + {n})" for n in "ab"] * 4
    assert holds("*".join(sides) + " == (a*b)**4", {"a": 8, "b": 4}) is True
    assert holds("*".join(sides) + " == (a*b)**4", {"a": 7, "b": 4}) is False
    assert holds(" + ".join(["a*b - b"] * 900) + " == 900*b*(a - 1)", {"a": 7, "b": 4}) is True


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "a +", "a == ", "f(a) == 1", "a.b == 1", "[a] == 1", "max() == 1", "floor(a, a) == 1",
        "max(a, key=b) == 1", "__import__('os') == 1", "a == 1e999", "a == 1j", "a == (lambda: a)",
        "(a if a else a) == 1", "a << 2 == 1", "9**64**64 == 1", "((9**64)**64)**64**64 == 1", "a in b",
        "-" * 9000 + "a == 1", "a == " + "*".join(["9**3000"] * 9), "(" * 500 + "a" + ")" * 500 + " == 1",
        "a == 1 or " * 200_000 + "a == 2", "(a/3)**10**9 == 1", "((a/3)**99)**99**9 == 1", "not " * 5000 + "a == 1",
        "(" * 80 + "a" + "/3 + 1/7)**9" * 80 + " == 1", " + ".join(f"a/{n}" for n in range(2, 60_000)) + " == 1",
    ],
)  # fmt: skip
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(DimensionError) as caught:
        holds(text, {"a": 2, "b": 3})
    assert len(str(caught.value)) < 600


REFUSED = (
    "f(n)", "n if n else 2", "n.m", "[n]", "max()", "floor(n, 2)", "max(n, key=2)", "n @ 2", "n & 1", "n << 1", "1e999",
    "(m := 3)", "lambda: n", "n[0]", "~n", "f'{n}'", "2j", "None", "True + n", "*n",
)  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_dimensions_and_conditions_have_one_reader_that_refuses_the_same(text: str) -> None:
    with pytest.raises(DimensionError):
        notation.parse(text)
    with pytest.raises(DimensionError):
        holds(f"{text} == 1", {"n": 3})


@pytest.mark.parametrize("text", ["2*n + 1", "n // 2 - n % 3", "max(n, 2, 7)", "-n ** 2", '"n" * 3', "ceil(n / 2)"])
def test_dimensions_and_conditions_have_one_reader_that_reads_the_same(text: str) -> None:
    for size in range(6):
        number = dims.evaluate(notation.parse(text), {"n": size})
        assert holds(f"{text} == {number}", {"n": size}) is True


# ---------------------------------------------------------------------------------------- what ranges say of conditions

NAMES = st.sampled_from(["n", "m", "'odd name'"])
RANGES = st.builds(
    lambda lo, more: Range(lo, None if more is None else lo + more), st.integers(-2, 4), st.none() | st.integers(0, 4)
)
COMPARISON = st.builds(
    lambda name, relation, number, turned: f"{number} {relation} {name}" if turned else f"{name} {relation} {number}",
    NAMES,
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.integers(-3, 6),
    st.booleans(),
)
CONDITION = st.recursive(
    COMPARISON | st.sampled_from(["n < m", "n * m >= 1", "2 < 3", "True"]),
    lambda inner: st.one_of(
        st.builds("({}) or ({})".format, inner, inner),
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=5,
)


@given(CONDITION, RANGES, RANGES, RANGES, st.data())
def test_what_ranges_say_of_a_condition_is_so(
    condition: str, n: Range, m: Range, odd: Range, data: st.DataObject
) -> None:
    ranges = {"n": n, "m": m, "odd name": odd}
    bound, always = bound_of(condition, ranges), always_holds(condition, ranges)
    for _ in range(8):
        sizes = {
            name: data.draw(st.integers(r.lo, r.lo + 8 if r.hi is None else r.hi), label=name)
            for name, r in ranges.items()
        }
        told = holds(condition, sizes)
        assert told is True or not always
        assert bound is None or told is (sizes[bound[0]] in bound[1])


def test_bounds_and_what_follows_from_them_are_seen() -> None:
    assert bound_of("batch >= 1", {"batch": Range(0)}) == ("batch", Range(1))
    assert bound_of("8 > batch", {"batch": Range(2)}) == ("batch", Range(2, 7))
    assert bound_of("batch >= 1", {}) is None and bound_of("batch < 1", {"batch": Range(1)}) is None
    assert always_holds("(batch >= 1) or (not ((past == 0) and (seq == 1)))", {"batch": Range(1)})
    assert not always_holds("batch >= 1", {}) and not always_holds("batch >= 2", {"batch": Range(1)})
