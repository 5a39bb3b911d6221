"""Sizes at which modules are run once more: those at which a condition holds, and no more of them than need be."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import pytest
import sympy
import torch

import irkit
from irkit import dims
from irkit.dims import Range
from lowering.capture.guards.guards import Guard
from lowering.capture.guards.questions import Questions
from lowering.direct import control, trials
from lowering.direct.points import are_allowed, move_test
from lowering.direct.run import run
from lowering.size_branches import tracing
from lowering.size_branches.elsewhere import may_hold, point_where

A, B, C = map(dims.symbol, "abc")
SIDES = (A, B, C, A * B, A * B * C, A + 2 * C, dims.FloorDiv(A, 4) * B, dims.Mod(B, 3), B * C / 7, A * B / 1024)


def drawn_condition(rng: random.Random) -> Any:
    """A comparison of two sizes, or of one with a number."""
    kind = rng.choice((sympy.Gt, sympy.Ge, sympy.Lt, sympy.Le, sympy.Eq, sympy.Ne))
    other = rng.choice((*SIDES, sympy.Integer(rng.randint(0, 300)), sympy.Float(rng.choice((0.5, 2.0, 7.25)))))
    return kind(rng.choice(SIDES), other)


def drawn_questions(rng: random.Random) -> Questions:
    """Conditions that hold for the example but for one at times, as in a block that is run at other sizes."""
    hints = {name: rng.randint(1, 40) for name in "abc"}
    found = Questions(str, print, print, hints=hints, ranges={"a": Range(0, 64), "b": Range(2), "c": Range()})
    for _ in range(rng.randint(0, 4)):
        told = drawn_condition(rng)
        if told not in (sympy.true, sympy.false):
            found.kept[told] = Guard(told, str(told), "")
    return found


def test_sizes_that_moved_are_allowed_where_all_sizes_are() -> None:
    rng, answers = random.Random(0), set[bool]()
    for _ in range(150):
        asked = drawn_questions(rng)
        allows = move_test(asked)
        for _ in range(20):
            point = {name: rng.randint(0, 70) for name in rng.sample("abc", rng.randint(1, 2))}
            assert allows(point) is are_allowed(asked, {**asked.hints, **point}), (asked.kept, asked.hints, point)
            answers.add(allows(point))
    assert answers == {True, False}


def holds_at(condition: Any, sizes: Mapping[Any, int]) -> bool:
    """Whether a condition holds, as sympy says."""
    return bool(condition.xreplace({symbol: sympy.Integer(size) for symbol, size in sizes.items()}).doit())


def test_a_condition_holds_nowhere_where_its_ends_say_so() -> None:
    rng, told = random.Random(1), set[bool]()
    for _ in range(200):
        condition = drawn_condition(rng)
        spans = {name: Range(low := rng.randint(1, 6), low + rng.randint(0, 3)) for name in "abc"}
        if condition in (sympy.true, sympy.false):
            continue
        may = may_hold(condition, spans)
        told.add(may)
        sizes = itertools.product(*(range(each.lo, (each.hi or 0) + 1) for each in spans.values()))
        assert may or not any(holds_at(condition, dict(zip((A, B, C), each, strict=True))) for each in sizes)
    assert told == {True, False}


def test_what_holds_at_no_sizes_near_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Questions(str, print, print, hints={"a": 3, "b": 4}, ranges={"a": Range(), "b": Range()})
    assert point_where(asked, A * B > 10**6) is None
    assert point_where(asked, A * B > 30) == {"a": 8}
    refused: Any = lambda *_: pytest.fail("sizes are looked for again")  # noqa: E731
    monkeypatch.setattr("lowering.size_branches.elsewhere.sizes_near", refused)
    assert point_where(asked, A * B > 10**6) is None


class Large(torch.nn.Module):
    """Refuses very many frames."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] * x.shape[2] * x.shape[3] > 32768:
            raise ValueError("too many frames")
        return x + 1


def test_a_model_is_run_at_no_sizes_that_are_many_times_the_example_s(monkeypatch: pytest.MonkeyPatch) -> None:
    elements: list[int] = []

    def counted(request: Any, sizes: Any, *args: Any, **kwargs: Any) -> Any:
        elements.append(request.elements_at({**request.hints, **sizes}))
        return run(request, sizes, *args, **kwargs)

    monkeypatch.setattr(trials, "run", counted)
    model, x = Large(), torch.rand(2, 105, 32, 64)
    program = irkit.to_onnx(model, (x,), dynamic_shapes=({0: "batch", 2: "h", 3: "w"},), rewrite=True)
    assert max(elements) <= trials.TIMES * x.numel()
    given = torch.rand(3, 105, 16, 16)
    torch.testing.assert_close(program(given), model(given))


class Inner(torch.nn.Module):
    """Asks of many what a tensor holds, which nothing says at other sizes."""

    def forward(self, x: torch.Tensor, many: bool) -> torch.Tensor:
        return x[: int(x.sum())] if many else x * 2


class Outer(torch.nn.Module):
    """Decides by a size, and asks once more behind the module that it called."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, True) if x.shape[0] > 24 else self.inner(x, False)


def test_a_way_that_is_refused_names_no_module_and_makes_no_further_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, ...]] = []
    widened: list[bool] = []

    def counted(request: Any, *args: Any, **kwargs: Any) -> Any:
        chosen = [each for _, each in request.parts.modules if id(each) in request.deciding.modules]
        made.append(tuple(type(each).__name__ for each in chosen))
        return run(request, *args, **kwargs)

    def opened(*args: Any) -> Any:
        widened.append(True)
        return trials.opened_run(*args)

    monkeypatch.setattr(tracing, "run", counted)
    monkeypatch.setattr(tracing, "opened_run", opened)
    model = torch.nn.Sequential(Outer(), Outer()).eval()
    program = irkit.to_onnx(model, (torch.rand(8, 4),), dynamic_shapes=({0: "n"},), rewrite=True, capture="direct")
    assert made == [("Outer", "Outer")] and not widened
    x = torch.rand(20, 4)
    torch.testing.assert_close(program(x), model(x))
    with pytest.raises(irkit.ContractError):
        program(torch.rand(30, 4))


def test_the_body_of_a_loop_whose_sizes_grow_is_traced_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[str] = []

    def counted(tracer: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        traced.append(function.__name__)
        return body_of(tracer, function, *args, **kwargs)

    def more(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return i < 3

    def grown(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return i + 1, torch.cat([x, x[-1:] * 2])

    def model(x: torch.Tensor) -> Any:
        return torch.ops.higher_order.while_loop(more, grown, (torch.zeros((), dtype=torch.int64), x), ())

    body_of = control.body_of
    monkeypatch.setattr(control, "body_of", counted)
    program = irkit.to_onnx(model, (torch.rand(5),), dynamic_shapes=({0: "n"},), capture="direct")
    assert traced.count("grown") == 2
    x = torch.rand(7)
    torch.testing.assert_close(program(x)[1], torch.cat([x, x[-1] * torch.tensor([2.0, 4.0, 8.0])]))


def test_the_body_of_a_loop_in_a_branch_at_one_size_has_the_sizes_of_that() -> None:
    """At one row the count of rows and 1 are one value, in the body of a loop too. What ways leave is said shortly."""

    def model(x: torch.Tensor) -> torch.Tensor:
        w = x.sum() % 4
        while w > 0:
            w = w - 2
            kept = [x[0]]
            while len(kept) < x.shape[0]:
                kept.append(kept[-1] % 5 + w)
            rows = []
            for row in x:
                rows.append(row + torch.stack(kept).sum())
            x = torch.stack(rows)
        return x

    x = torch.arange(9).reshape(3, 3) - 2
    program = irkit.to_onnx(model, (x,), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    for n in (1, 2, 3):
        for more in range(4):
            given = torch.arange(3 * n).reshape(n, 3) % 5 - 2 + more
            assert torch.equal(program(given), model(given))
    assert [text for text, _ in program.report.guards] == ["n >= 1", "n != 5", "n <= 6"]
