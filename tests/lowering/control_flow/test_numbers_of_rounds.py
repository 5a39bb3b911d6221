"""Conditions of rounds that the number of rounds proves: none of these is asked of a call, and every other one is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st

from irkit import dims
from irkit.doors.to_onnx import to_onnx
from irkit.errors import IrkitError
from lowering.capture.guards.rounds import Below, always_in_rounds, bounds_of_rounds

U, V = dims.symbol("u7", signed=True), dims.symbol("u8", signed=True)
N, M = dims.symbol("n"), dims.symbol("m")
SIZES = range(6)


# ---------------------------------------------------------------------------------------------- Conditions

LENGTHS: Sequence[Any] = (
    N, dims.sub(N, 1), dims.add(N, 2), dims.maximum(0, dims.sub(N, 1)), dims.maximum(0, dims.sub(N, M)), dims.sub(N, M),
    dims.floordiv(N, 2), dims.floordiv(dims.add(N, 3), 4), dims.minimum(N, M), dims.maximum(N, M), dims.mul(N, 2),
)  # fmt: skip
INNER: Sequence[Any] = (*LENGTHS, V, dims.add(V, 1), dims.sub(N, V), dims.maximum(0, dims.sub(dims.sub(N, V), 1)))
RELATIONS: Sequence[Any] = (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)
SMALL = st.integers(-2, 2)


def sum_of(*terms: tuple[int, Any]) -> Any:
    """The sum of multiples."""
    return dims.dim(sympy.Add(*(count * sympy.sympify(each) for count, each in terms)))


SIDES = st.builds(lambda *k: sum_of(*zip(k, (U, V, N, M, 1), strict=True)), SMALL, SMALL, SMALL, SMALL, SMALL)


def whole(dim: Any, at: dict[Any, int]) -> int:
    """What a dimension is for these numbers."""
    return dim if type(dim) is int else dims.evaluate(dim, {dims.label(s): number for s, number in at.items()})


def rounds_in(inner: Any, outer: Any) -> list[dict[Any, int]]:
    """All rounds at small sizes: v of so many outer ones, u of so many inner ones."""
    return [
        {N: n, M: m, V: v, U: u}
        for n in SIZES
        for m in SIZES
        for v in range(whole(outer, {N: n, M: m}))
        for u in range(whole(inner, {N: n, M: m, V: v}))
    ]


def is_so(relation: Any, left: Any, right: Any, at: dict[Any, int]) -> bool:
    """Whether a condition holds for these numbers."""
    return bool(relation(whole(left, at), whole(right, at)))


@given(st.sampled_from(INNER), st.sampled_from(LENGTHS), st.sampled_from(RELATIONS), SIDES, SIDES)
def test_what_is_proved_holds_in_every_round(inner: Any, outer: Any, relation: Any, left: Any, right: Any) -> None:
    condition = relation(sympy.sympify(left), sympy.sympify(right), evaluate=False)
    if always_in_rounds(condition, {U: Below(inner), V: Below(outer)}):
        for at in rounds_in(inner, outer):
            assert is_so(relation, left, right, at), (condition, at)


@given(st.sampled_from((N, dims.sub(N, 1), dims.add(N, 2))), st.integers(-2, 2), st.integers(-3, 3), st.integers(-1, 1))
def test_a_place_that_is_always_there_is_proved(length: Any, slope: int, offset: int, ends: int) -> None:
    """x[slope*u + offset + ends*n], of n rows: all of these are proved that hold at all sizes."""
    place = sum_of((slope, U), (offset, 1), (ends, N))
    for relation, end in ((sympy.Lt, N), (sympy.Ge, dims.mul(N, -1))):
        condition = relation(sympy.sympify(place), sympy.sympify(end), evaluate=False)
        rounds = ({N: n, U: u} for n in range(20) for u in range(whole(length, {N: n})))
        holds = all(is_so(relation, place, end, at) for at in rounds)
        assert always_in_rounds(condition, {U: Below(length)}) == holds, condition


@given(st.sampled_from(INNER), st.sampled_from(LENGTHS))
def test_bounds_of_rounds_are_theirs(inner: Any, outer: Any) -> None:
    bounds = [*bounds_of_rounds({U: Below(inner), V: Below(outer)})]
    for at in rounds_in(inner, outer)[::7]:
        known = {**at, **{dims.symbol(f"{s.name}_seen", signed=True): at[s] for s in (U, V)}}
        for each in bounds:
            assert is_so(type(each), dims.dim(each.args[0]), dims.dim(each.args[1]), known)


def test_what_a_symbol_stands_for_is_looked_at() -> None:
    numbers = {U: dims.add(V, 1), V: Below(N)}
    assert always_in_rounds(sympy.Le(U, N), numbers) and not always_in_rounds(sympy.Lt(U, N), numbers)
    assert always_in_rounds(sympy.And(sympy.Le(U, N), sympy.Ge(U, 1)), numbers)
    assert always_in_rounds(sympy.Or(sympy.Lt(U, N), sympy.Ge(U, 1)), numbers)
    assert not always_in_rounds(sympy.Ne(U, -1), numbers)


# ---------------------------------------------------------------------------------------------- Programs


def each_row(x: Any) -> Any:
    s = torch.zeros_like(x[0])
    for i in range(x.shape[0]):
        s = s * 0.5 + x[i]
    return s


def each_row_in_a_list(x: Any) -> Any:
    found = []
    for i in range(x.shape[0]):
        found.append(x[i] * 2)
    return torch.stack(found)


def from_the_second(x: Any) -> Any:
    s = torch.zeros_like(x[0])
    for i in range(1, x.shape[0]):
        s = s * 0.5 + x[i] + x[i - 1]
    return s


def from_the_end(x: Any) -> Any:
    s, n = torch.zeros_like(x[0]), x.shape[0]
    for i in range(n):
        s = s * 0.5 + x[-1 - i] + x[n - 1 - i]
    return s


def downwards(x: Any) -> Any:
    s = torch.zeros_like(x[0])
    for i in range(x.shape[0] - 1, -1, -1):
        s = s * 0.5 + x[i]
    return s


def every_second(x: Any) -> Any:
    s = torch.zeros_like(x[0])
    for i in range(0, x.shape[0], 2):
        s = s * 0.5 + x[i]
    return s


def both_axes(x: Any) -> Any:
    s = torch.zeros_like(x[0, 0])
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            s = s * 0.5 + x[i, j]
    return s


def triangle(x: Any) -> Any:
    s = torch.zeros_like(x[0])
    for i in range(x.shape[0]):
        for j in range(i):
            s = s * 0.5 + x[j] * x[i] + x[i - j]
    return s


def in_a_branch(x: Any) -> Any:
    s = torch.zeros_like(x[0])
    for i in range(x.shape[0]):
        if x[i].sum() > 0:
            s = s * 0.5 + x[i]
            s = s + x[i - 1]
    return s


def until_it_is_left(x: Any) -> Any:
    s = torch.zeros_like(x[0])
    for i in range(x.shape[0]):
        s = s * 0.5 + x[i]
        if s.sum() > 1:
            break
    return s


def written_rows(x: Any) -> Any:
    x = x.clone()
    for i in range(1, x.shape[0]):
        x[i] = x[i] + x[i - 1]
    return x


def chunks(x: Any) -> Any:
    x = torch.nn.functional.pad(x, (0, 0, 0, (4 - x.shape[0] % 4) % 4)).reshape(-1, 4, x.shape[1])
    s, found = torch.zeros_like(x[0]), torch.zeros_like(x)
    for i in range(x.shape[0]):
        s = s * 0.5 + x[i]
        found[i] = s
    return found


def two_halves(x: Any) -> Any:
    s = torch.zeros_like(x[0])
    for i in range(x.shape[0] // 2):
        s = s * 0.5 + x[2 * i] * x[2 * i + 1]
    return s


PROVED: Sequence[Callable[..., Any]] = (
    each_row, each_row_in_a_list, from_the_second, from_the_end, downwards, every_second, both_axes, triangle,
    in_a_branch, until_it_is_left, written_rows, chunks, two_halves,
)  # fmt: skip


def behind_the_last(x: Any) -> Any:
    s = torch.zeros_like(x[0])
    for i in range(x.shape[0]):
        s = s * 0.5 + x[i] + x[i + 1]
    return s


def before_the_first(x: Any) -> Any:
    s = torch.zeros_like(x[0])
    for i in range(x.shape[0]):
        s = s * 0.5 + x[-2 - i]
    return s


def twice_as_far(x: Any) -> Any:
    s = torch.zeros_like(x[0])
    for i in range(x.shape[0] - 2):
        s = s * 0.5 + x[2 * i]
    return s


def both_of_one_length(x: Any) -> Any:
    s = torch.zeros_like(x[0])
    for i in range(x.shape[0]):
        for j in range(i + 1):
            s = s * 0.5 + x[i + j]
    return s


KEPT: dict[Callable[..., Any], str] = {
    behind_the_last: "u0 + 1 < n",
    before_the_first: "-u0 - 2 >= -n",
    twice_as_far: "2*u0 < n",
    both_of_one_length: " < n",
}


def exported(function: Callable[..., Any], size: int) -> Any:
    """The program of a function over rows whose number varies."""
    torch.manual_seed(0)
    return to_onnx(function, (torch.randn(size, 5, 2),), dynamic_shapes=({0: "n", 1: "m"},), rewrite=True)


@pytest.mark.parametrize("function", PROVED, ids=lambda each: each.__name__)
def test_nothing_is_asked_that_rounds_prove(function: Callable[..., Any]) -> None:
    function = function if function is not chunks else lambda x: chunks(x[:, :, 0])
    program = exported(function, 6)
    assert not program.checks, program.checks
    for size in (1, 2, 3, 4, 7):
        x = torch.randn(size, 3, 2)
        torch.testing.assert_close(program(x), function(x))


@pytest.mark.parametrize("function", KEPT, ids=lambda each: each.__name__)
def test_what_rounds_do_not_prove_is_asked(function: Callable[..., Any]) -> None:
    program = exported(function, 2)
    (check,) = program.checks
    assert KEPT[function] in check.text and ">= -n; " not in check.text, check.text
    for size in (1, 2, 3, 4, 7):
        x = torch.randn(size, 3, 2)
        agrees_or_raises(program, function, x)


def test_another_length_is_asked_of() -> None:
    def rows_of_both(x: Any, y: Any) -> Any:
        s = torch.zeros_like(x[0])
        for i in range(x.shape[0]):
            s = s * 0.5 + x[i] * y[i]
        return s

    sizes = ({0: "n"}, {0: "k"})
    program = to_onnx(rows_of_both, (torch.randn(4, 2), torch.randn(5, 2)), dynamic_shapes=sizes, rewrite=True)
    assert [check.text for check in program.checks] == ["in every round: u0 < k"]
    for n, k in ((3, 3), (2, 7), (3, 2)):
        agrees_or_raises(program, rows_of_both, torch.randn(n, 2), torch.randn(k, 2))


@pytest.mark.parametrize("seed", range(12))
def test_any_place_agrees_or_is_refused(seed: int) -> None:
    """range(start, n + more, step) and x[slope*i + offset]: what eager takes is equal, where it raises, so does it."""
    draw = torch.Generator().manual_seed(seed)
    start, more, step, slope, offset = (
        int(torch.randint(low, high + 1, (), generator=draw))
        for low, high in ((0, 2), (-2, 1), (1, 3), (-1, 2), (-2, 1))
    )

    def function(x: Any) -> Any:
        s = torch.zeros_like(x[0])
        for i in range(start, x.shape[0] + more, step):
            s = s * 0.5 + x[slope * i + offset]
        return s

    program = exported(function, 6)
    for size in range(1, 9):
        agrees_or_raises(program, function, torch.randn(size, 3, 2))


def agrees_or_raises(program: Any, function: Callable[..., Any], *args: Any) -> None:
    """Requires that a program gives what eager does, and refuses what eager does not take."""
    try:
        expected = function(*args)
    except IndexError:
        with pytest.raises(IrkitError):  # ONNX Runtime looks at places, too
            program(*args)
        return
    torch.testing.assert_close(program(*args), expected)
