"""Dimensions: canonical form, three-valued comparison, intervals, text, all against plain integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import sympy
from hypothesis import example, given
from hypothesis import strategies as st

from irkit import dims
from irkit.dims import Range, conditions, functions, notation, reals, same, symbol
from irkit.dims.functions import interval
from irkit.errors import DimensionError

A, B, C = symbol("a"), symbol("b"), symbol("c")
NAMES = ("a", "b", "c")
VALUES = (0, 1, 2, 3, 7, 8)

Tree = tuple[Any, Callable[[dict[str, int]], Any]]
"""An expression, and what it is in plain integers."""


def guarded(function: Callable[[int, int], int], a: Any, b: Any) -> Callable[[dict[str, int]], Any]:
    """The function of two trees' numbers; None where the divisor is zero."""

    def number(values: dict[str, int]) -> Any:
        left, right = a(values), b(values)
        return None if left is None or right is None or right == 0 else function(left, right)

    return number


def plain(function: Callable[..., int], *parts: Any) -> Callable[[dict[str, int]], Any]:
    def number(values: dict[str, int]) -> Any:
        found = [p(values) for p in parts]
        return None if None in found else function(*found)

    return number


@st.composite
def trees(draw: Any, depth: int = 3) -> Tree:
    kind = draw(
        st.sampled_from(
            ["symbol", "int"] if depth == 0 else ["symbol", "add", "sub", "mul", "div", "mod", "max", "min"]
        )
    )
    if kind == "symbol":
        name = draw(st.sampled_from(NAMES))
        return symbol(name), lambda values: values[name]
    if kind == "int":
        constant = draw(st.integers(-3, 9))
        return constant, lambda values: constant
    (a, x), (b, y) = draw(trees(depth=depth - 1)), draw(trees(depth=depth - 1))
    if kind in ("div", "mod") and type(b) is int and b == 0:
        kind = "add"
    make = {
        "add": dims.add, "sub": dims.sub, "mul": dims.mul, "div": dims.floordiv, "mod": dims.mod,
        "max": dims.maximum, "min": dims.minimum,
    }[kind]  # fmt: skip
    if kind in ("div", "mod"):
        return make(a, b), guarded(lambda p, q: p // q if kind == "div" else p % q, x, y)
    function = {"add": lambda p, q: p + q, "sub": lambda p, q: p - q, "mul": lambda p, q: p * q, "max": max, "min": min}
    return make(a, b), plain(function[kind], x, y)


assignments = st.fixed_dictionaries({name: st.sampled_from(VALUES) for name in NAMES})


@given(trees(), assignments)
def test_expressions_mean_what_integers_do(tree: Tree, values: dict[str, int]) -> None:
    expression, number = tree
    wanted = number(values)
    if wanted is not None:
        assert dims.evaluate(expression, values) == wanted


@given(trees())
def test_text_reads_back(tree: Tree) -> None:
    expression = tree[0]
    text = notation.text(expression)
    again = notation.parse(text)
    assert again == expression
    assert notation.text(again) == text


@given(trees(), trees(), assignments)
def test_same_is_never_wrong(first: Tree, second: Tree, values: dict[str, int]) -> None:
    answer = same(first[0], second[0])
    a, b = first[1](values), second[1](values)
    if answer is not None and a is not None and b is not None:
        assert (a == b) is answer


@given(trees(), assignments)
def test_bounds_hold_every_value(tree: Tree, values: dict[str, int]) -> None:
    expression, number = tree
    wanted = number(values)
    found = dims.bounds(expression, {name: Range(0, 8) for name in NAMES})
    if wanted is not None:
        assert found.lo <= wanted
        assert found.hi is None or wanted <= found.hi


@given(trees(), assignments, st.sampled_from(NAMES))
def test_substitution_commutes_with_evaluation(tree: Tree, values: dict[str, int], name: str) -> None:
    expression, number = tree
    if number(values) is not None:
        replaced = dims.substitute(expression, {symbol(name): values[name]})
        assert dims.evaluate(replaced, values) == number(values)


# ---------------------------------------------------------------------------------------------- canonical form


def test_ints_stay_ints() -> None:
    results = (
        dims.add(2, 3), dims.sub(A, A), dims.mul(A, 0), dims.floordiv(dims.mul(A, 0), 3), dims.mod(dims.mul(A, 4), 2),
        dims.sub(dims.mul(A, B), dims.mul(B, A)), dims.minimum(A, 0), dims.product([2, 3, 4]),
    )  # fmt: skip
    assert results == (5, 0, 0, 0, 0, 0, 0, 24)
    assert {type(r) for r in results} == {int}


def test_equal_expressions_are_equal_objects_in_canonical_form() -> None:
    assert dims.mul(A, dims.add(B, 1)) == dims.add(dims.mul(A, B), A)
    assert dims.floordiv(dims.add(dims.mul(A, 4), 2), 4) == A
    assert dims.mod(dims.add(dims.mul(A, 4), 2), 4) == 2
    assert dims.ceildiv(dims.add(A, 3), 4) == dims.floordiv(dims.add(A, 6), 4)
    assert dims.floordiv(dims.floordiv(A, 2), 3) == dims.floordiv(A, 6)
    larger = dims.add(dims.maximum(A, dims.mul(B, 2)), dims.minimum(A, 1))
    assert dims.floordiv(dims.mul(dims.mul(B, 32), larger), dims.mul(B, 32)) == larger
    assert dims.mod(dims.mul(dims.mul(B, 32), larger), dims.mul(B, 32)) == 0
    assert dims.floordiv(dims.mul(larger, 3), dims.mul(B, 3)) != larger
    assert dims.maximum(A, dims.add(A, 1)) == dims.add(A, 1)
    assert dims.minimum(A, 0) == 0
    assert dims.maximum(A, 0) == A
    table = dims.sub(16, dims.maximum(dims.sub(16, A), 0))  # the last columns of a table of 16
    assert dims.maximum(table, 0) == table and dims.minimum(table, 16) == table
    assert symbol("a") is A


@pytest.mark.parametrize(("number", "divisor"), list(itertools.product((-7, -1, 0, 1, 7, 8), (-3, -1, 1, 2, 4))))
def test_division_rounds_down_as_python_does(number: int, divisor: int) -> None:
    a, b = symbol("p", signed=True), symbol("q", signed=True)
    values = {"p": number, "q": divisor}
    assert dims.floordiv(number, divisor) == number // divisor
    assert dims.evaluate(dims.floordiv(a, b), values) == number // divisor
    assert dims.evaluate(dims.mod(a, b), values) == number % divisor
    assert dims.evaluate(dims.ceildiv(a, b), values) == -(-number // divisor) == math.ceil(number / divisor)


# ---------------------------------------------------------------------------------------------- comparison


def test_same_has_three_answers() -> None:
    assert same(A, A) is True
    assert same(dims.mul(A, dims.add(B, 1)), dims.add(dims.mul(A, B), A)) is True
    assert same(A, dims.add(A, 1)) is False
    assert same(dims.mul(A, 2), dims.add(dims.mul(A, 2), 5)) is False
    assert same(A, -1) is False  # sizes are not negative
    assert same(symbol("s", signed=True), -1) is None
    assert same(A, B) is None
    assert same(A, 0) is None
    assert same(3, 4) is False
    assert same(dims.fresh(), dims.fresh()) is None
    unknown = dims.fresh()
    assert same(unknown, unknown) is True


def test_a_sign_is_part_of_a_symbol() -> None:
    assert symbol("n") != symbol("n", signed=True)
    assert symbol("n").is_nonnegative and symbol("n", signed=True).is_nonnegative is None


# ---------------------------------------------------------------------------------------------- values


def test_evaluate_wants_every_symbol_and_an_integer() -> None:
    with pytest.raises(DimensionError, match="'b' has no value"):
        dims.evaluate(dims.add(A, B), {"a": 1})
    with pytest.raises(DimensionError, match="not an integer"):
        dims.evaluate(A / 2, {"a": 3})
    assert dims.evaluate(A / 2, {"a": 4}) == 2
    assert dims.evaluate(A * B / 6, {"a": 4, "b": 3}) == 2
    assert dims.evaluate(sympy.sqrt(A), {"a": 49}) == 7
    assert dims.evaluate(4, {}) == 4


def test_a_float_of_a_size_is_rounded_to_the_size() -> None:
    assert dims.Ceil(sympy.Float(1) * A) == A and dims.Floor(2.0 * A + 1.0) == 2 * A + 1
    assert isinstance(dims.Round(0.5 * A), dims.Round)


def test_solve_finds_the_only_symbol_of_a_linear_expression() -> None:
    assert dims.solve(A, 4) == ("a", 4)
    assert dims.solve(dims.add(dims.mul(A, 2), 1), 7) == ("a", 3)
    assert dims.solve(5, 5) is None
    assert dims.solve(dims.add(A, B), 5) is None
    assert dims.solve(dims.mul(A, A), 9) is None
    with pytest.raises(DimensionError, match="no integer"):
        dims.solve(dims.mul(A, 2), 7)


def test_dim_refuses_what_is_no_dimension() -> None:
    for wrong in (1.5, "a", None, True):
        with pytest.raises(DimensionError):
            dims.dim(wrong)
    with pytest.raises(DimensionError):
        symbol("")
    with pytest.raises(DimensionError):
        dims.floordiv(A, 0) if dims.floordiv(4, 0) else None


# ---------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize(
    "text",
    [
        "a", "2*a + 1", "a // 2", "(a + 1) // 2", "a % 3", "max(3, a, b)", "a**2*b", '2*"odd name" + 1',
        "floor(sqrt(a))", "a - b // 2", "-a + 3", "2**a", "(b % 3)*a", "-(a // 2)", "-(a // b) + 1", "trunc(0.5*a)",
        '"max"', '"lambda"', '"é\\n\\"\\\\"',
    ],
)  # fmt: skip
def test_text_is_python_and_reads_back(text: str) -> None:
    found = notation.parse(text)
    assert notation.text(found) == text
    assert notation.parse(notation.text(found)) == found


def test_what_windows_over_an_image_make_of_its_size_is_read() -> None:
    """Quotients and remainders are not expanded: what they are of does not multiply."""
    height, width = (f"(-({name} // 4 % 4) % 4 + {name} // 4) // 4" for name in "ab")
    windows = f"16*({height})*({width})*c"
    whole = f"{windows} // ((-(a // 4 % 4) % 4)*(b // 4) + (a // 4)*(-(b // 4 % 4) % 4) + (a // 4)*(b // 4))"
    text = f"32*({whole})*(-(a // 4 % 4) % 4)*(b // 4) + 16*({whole})*(a // 4)*(b // 4) - {windows}"
    for sizes in ({"a": 32, "b": 64, "c": 2}, {"a": 21, "b": 6, "c": 1}):
        assert dims.evaluate(notation.parse(text), sizes) == eval(text, dict(sizes))


def test_what_many_windows_make_of_a_size_is_read() -> None:
    """A long sum of small numbers is no large number."""
    height, width = (f"((({n} % 5 + {n}) % 4 + {n}) % 3 + ({n} % 5 + {n}) % 4 + {n})" for n in "ab")
    text = notation.text(notation.parse(f"{height}*{width}*(16*{height}*{width}*c // ({height}*{width}))"))
    assert len(text) > 5_000 and notation.text(notation.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "a +", "a b", "f(a)", "a.b", "[a]", "True", "1e999", "0.5", "a/0", "4 // 0", "max()",
        "sqrt(a, b)", "1j", "lambda: a",
        "9**64**64", "((9**64)**64)**64", "(a+b+c)**64", "*".join(["(a+b)"] * 30), "*".join(["((a+b)//c)"] * 30),
        "-" * 9000 + "a", "a" * 20_000,
        "max(a, key=b)", "a if b else c", "a < b", "__import__('os')",
    ],
)  # fmt: skip
def test_what_is_no_dimension_is_refused(text: str) -> None:
    with pytest.raises(DimensionError):
        notation.parse(text)


def test_text_under_other_names_does_not_depend_on_the_first() -> None:
    """Equal up to names, equal in text: what the digest of a graph rests on."""
    for make in (lambda p, q: dims.add(p, dims.mul(q, 2)), dims.maximum, lambda p, q: dims.mul(dims.floordiv(p, 2), q)):
        first = notation.text(make(A, B), {A: "s0", B: "s1"})
        second = notation.text(make(B, A), {B: "s0", A: "s1"})
        assert first == second


N = sympy.Symbol("n")
FOREIGN: tuple[Callable[[], Any], ...] = (
    lambda: dims.add(N, 1), lambda: dims.sub(3, N), lambda: dims.mul(N, 2), lambda: dims.mul(1, N),
    lambda: dims.floordiv(N, 2), lambda: dims.ceildiv(N, 2), lambda: dims.mod(N, 2), lambda: dims.maximum(N, 1),
    lambda: dims.minimum(N, 1), lambda: dims.product([N]), lambda: dims.product([2, symbol("m"), N]),
    lambda: dims.add(sympy.Symbol("n", positive=True, integer=True), symbol("n")),
)  # fmt: skip


@pytest.mark.parametrize("made", FOREIGN)
def test_arithmetic_refuses_symbols_of_sympy_s_own(made: Callable[[], Any]) -> None:
    with pytest.raises(DimensionError, match="n is a symbol of sympy's own") as refusal:
        made()
    assert 'irkit.symbol("n")' in refusal.value.hint


def test_arithmetic_takes_unknown_and_signed_symbols() -> None:
    assert dims.add(dims.fresh(), 1) is not None
    assert dims.sub(symbol("n", signed=True), symbol("n", signed=True)) == 0


NUMBERS = st.one_of(st.integers(-3, 9), st.sampled_from([2**31, 2**62, 2**63 - 1, 10**30, 1.5, 0.1, 1e19, 1.1e308]))
WRITTEN = st.recursive(
    st.one_of(st.sampled_from(["n", "m", '"odd name"', "max_"]), NUMBERS.map(str)),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "/"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(inner, st.integers(0, 70)).map(lambda t: f"({t[0]})**{t[1]}"),
        st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(st.sampled_from(["floor", "ceil"]), inner).map(lambda t: f"{t[0]}({t[1]})"),
        inner.map(lambda text: f"-{text}"),
    ),
    max_leaves=7,
)


@given(WRITTEN)
@example("floor((1.1e+308)**2)")
def test_whatever_is_read_is_printed_as_what_reads_the_same(source: str) -> None:
    try:
        size = notation.parse(source)
    except DimensionError:
        return
    text = notation.text(size)
    again = notation.parse(text)
    assert notation.text(again) == text
    assert again == size or dims.same(again, size) is True or (not isinstance(size, int) and size.has(sympy.Float))


def test_real_numbers_keep_where_they_are_rounded() -> None:
    """What sympy would bring together stays apart, in text, in numbers and in what symbols are replaced by."""
    n, m = symbol("n"), symbol("m")
    found: Any = dims.Ceil(reals.product(n, reals.quotient(2 * m, n)))
    assert notation.text(found) == "ceil(double(2*m/n)*n)"
    assert notation.parse(notation.text(found)) == found
    assert dims.evaluate(found, {"n": 25, "m": 7}) == math.ceil(25 * (14 / 25)) == 15
    assert conditions.holds("ceil(n*double(2*m/n)) == 15", {"n": 25, "m": 7})
    scaled: Any = dims.Floor(reals.product(sympy.Float(0.57), n))
    threefold = dims.substitute(scaled, {n: 3 * m})
    assert [dims.evaluate(threefold, {"m": k}) for k in range(300)] == [math.floor(0.57 * (3 * k)) for k in range(300)]
    assert notation.text(dims.dim(dims.Floor(reals.quotient(n + m, sympy.Integer(2))))) == "(m + n) // 2"
    assert conditions.holds("double(n/m) == 0.1", {"n": 1, "m": 10})


def test_a_size_without_the_last_part_that_does_not_fill_a_chunk_is_not_above_it() -> None:
    n, m = dims.symbol("n"), dims.symbol("m")
    whole = dims.mul(dims.floordiv(n, 8), 8)
    assert dims.bounds(dims.sub(n, whole), {}) == Range(0, 7)
    assert dims.minimum(n, whole) == whole and dims.maximum(n, whole) == n
    assert dims.mod(dims.minimum(n, whole), 8) == 0
    assert dims.minimum(n, dims.mul(dims.ceildiv(n, 8), 8)) == n
    twice = dims.sub(dims.mul(dims.add(n, m), 2), dims.mul(dims.floordiv(dims.add(n, m), 3), 6))
    assert dims.bounds(twice, {}) == Range(0, 4)
    for size in (0, 1, 7, 8, 23):
        assert dims.evaluate(dims.sub(n, whole), {"n": size}) == size % 8


def test_a_sum_with_an_extreme_in_it_is_as_with_either_side() -> None:
    n, m = dims.symbol("n"), dims.symbol("m")
    most, least = dims.maximum(0, dims.sub(n, 3)), dims.minimum(n, m)
    assert dims.bounds(dims.sub(n, most), {}) == Range(0, 3)
    assert dims.bounds(dims.sub(dims.add(n, m), least), {}) == Range(0, None)
    assert dims.bounds(dims.sub(least, n), {}).hi == 0
    assert dims.maximum(0, dims.sub(n, most)) == dims.sub(n, most)
    for first, second in itertools.product(range(6), repeat=2):
        at = {"n": first, "m": second}
        assert dims.evaluate(dims.sub(n, most), at) >= 0 and dims.evaluate(dims.sub(least, n), at) <= 0


@pytest.mark.parametrize("text", ["(n - n % 2) // 2", "(n + m - (n + m) % 3) // 3", "(n + 7 - (n + 7) % 4) // 4"])
def test_a_quotient_without_its_remainder_is_that_of_the_whole(text: str) -> None:
    found = notation.parse(text)
    assert "%" not in notation.text(found)
    for n, m in itertools.product(range(9), repeat=2):
        assert dims.evaluate(found, {"n": n, "m": m}) == eval(text, {"n": n, "m": m})


def test_the_ends_of_a_part_of_a_size_are_those_of_its_numbers() -> None:
    n = symbol("n")
    assert interval(n / 4 + sympy.Rational(1, 2), {"n": Range(2, 10)}) == (1, 3)
    assert interval(-3 * n / 2, {"n": Range(1, 2)}) == (-3, Fraction(-3, 2))
    assert dims.bounds(n / 2 - sympy.Rational(1, 2), {"n": Range(0, 4)}) == Range(-1, 2)


def test_the_ends_of_nested_extremes_are_told_once_for_equal_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    size, told = symbol("n"), list[Any]()
    for each in map(str, range(9)):
        size = dims.sub(dims.add(symbol("m"), symbol(f"k{each}")), dims.minimum(symbol(f"j{each}"), size))

    def counted(expr: Any, *rest: Any) -> Any:
        told.append(expr)
        return ends(expr, *rest)

    ends = functions._ends
    monkeypatch.setattr(functions, "_ends", counted)
    interval(dims.sub(size, symbol("q")), {"n": Range(1), "m": Range(1)})
    assert len(told) < 300
