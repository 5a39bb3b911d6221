"""With rewrite=True, sizes at which a model computes something else are branches of the graph."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnxruntime as ort
import pytest
import sympy
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from torch.nn.functional import max_pool2d, pad

import irkit
from lowering.direct import run
from lowering.fold.facts import is_always_true


class Masked(torch.nn.Module):
    """Leaves out the mask for one token, as hybrid decoders do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 512)
        self.outer = torch.nn.Linear(512, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.inner(x)
        if x.shape[1] != 1:
            hidden = hidden * mask[:, -x.shape[1] :, None]
        return self.outer(hidden.relu()), hidden.sum(1)


class Empty(torch.nn.Module):
    """Gives something else where there is nothing."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 0:
            return torch.full_like(y, 7.0)
        return y + x.sum(0)


def masks(batch: int, seq: int) -> torch.Tensor:
    mask = torch.ones(batch, seq)
    mask[:1] = 0
    return mask


def test_a_mask_left_out_for_one_token_is_a_branch() -> None:
    torch.manual_seed(0)
    model, given = Masked().eval(), (torch.randn(2, 3, 4), masks(2, 5))
    shapes = ({0: "batch", 1: "seq"}, {0: "batch", 1: "all"})
    program = irkit.to_onnx(model, given, dynamic_shapes=shapes, rewrite=True)
    assert any("seq = 1 is allowed" in note and "branch" in note for note in program.report.notes)
    for batch, seq, whole in ((2, 3, 5), (2, 1, 4), (1, 1, 1), (1, 4, 4), (3, 1, 2), (2, 2, 2)):
        call = torch.randn(batch, seq, 4), masks(batch, whole)
        for ours, theirs in zip(program(*call), model(*call), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    assert program.check()
    plain = irkit.to_onnx(model, given, dynamic_shapes=shapes)
    with pytest.raises(irkit.ContractError):
        plain(torch.randn(2, 1, 4), masks(2, 4))


def test_large_weights_stand_outside_of_the_branches_once(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, given = Masked().eval(), (torch.randn(2, 3, 4), masks(2, 5))
    shapes = ({0: "batch", 1: "seq"}, {0: "batch", 1: "all"})
    sizes = []
    for rewrite in (None, True):
        path = tmp_path / f"model_{rewrite}.onnx"
        irkit.to_onnx(model, given, dynamic_shapes=shapes, rewrite=rewrite).save(str(path))
        sizes.append(path.stat().st_size)
    assert sizes[1] < sizes[0] + 8192


def test_nothing_is_a_branch_where_its_results_are_of_other_sizes_or_none() -> None:
    shapes = ({0: "rows"}, {0: "n"})
    program = irkit.to_onnx(
        Empty(), (torch.randn(3, 4), torch.randn(4)), dynamic_shapes=({0: "rows"}, {}), rewrite=True
    )
    for rows in (3, 0, 1):
        call = torch.randn(rows, 4), torch.randn(4)
        torch.testing.assert_close(program(*call), Empty()(*call))

    def listed(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x] if x.shape[0] == 1 else [x, y]

    program = irkit.to_onnx(listed, (torch.randn(3, 4), torch.randn(4)), dynamic_shapes=shapes, rewrite=True)
    with pytest.raises(irkit.ContractError):
        program(torch.randn(1, 4), torch.randn(4))


def counted(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """Checks its data in two of three ways, each of them otherwise."""
    if x.shape[0] == 1:
        return x * 2
    if x.shape[0] % 2 == 0:
        torch._check(n.item() <= 5)
        return x + n
    torch._check(n.item() >= 3)
    return x - n


def test_what_a_way_checks_of_data_need_hold_only_there(tmp_path: Path) -> None:
    program = irkit.to_onnx(counted, (torch.ones(4, 2), torch.tensor(4)), dynamic_shapes=({0: "b"}, None), rewrite=True)
    path = program.save(tmp_path / "counted.onnx")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for rows, number in itertools.product((1, 2, 3, 4, 5), (2, 4, 6)):
        x, n = torch.randn(rows, 2), torch.tensor(number)
        feeds = {"x": x.numpy(), "n": n.numpy()}
        if rows == 1 or (number <= 5 if rows % 2 == 0 else number >= 3):
            torch.testing.assert_close(program(x, n), counted(x, n))
            torch.testing.assert_close(torch.from_numpy(session.run(None, feeds)[0]), counted(x, n))
            continue
        with pytest.raises(irkit.ContractError, match="breaks what the model asserts"):
            program(x, n)
        with pytest.raises(InvalidArgument, match="Gather"):
            session.run(None, feeds)


def test_what_is_checked_of_more_than_one_row_alone_does_not_keep_one_row_out() -> None:
    def model(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        if x.shape[0] != 1:
            torch._check(n.item() > 2)
        return x * 2

    given = torch.randn(3, 4), torch.tensor(5)
    program = irkit.to_onnx(model, given, dynamic_shapes=({0: "rows"}, {}), capture="direct")
    for rows, n in ((3, 5), (1, 5), (2, 3)):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(program(x, torch.tensor(n)), x * 2)
    assert not any("zip()" in note for note in program.report.notes)
    with pytest.raises(irkit.ContractError):
        program(torch.randn(3, 4), torch.tensor(1))


def windowed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two questions, one of which is asked on one way only."""
    padded = (x.shape[1] + 7) // 8 * 8
    if padded != x.shape[1]:
        x = pad(x, (0, padded - x.shape[1]))
        return x.reshape(x.shape[0], 8, -1).sum(1) * 2, x[:, : x.shape[1] - 1].exp()
    if x.shape[1] > 40:
        return x.reshape(x.shape[0], 8, -1).mean(1), x.tanh()
    return x.reshape(x.shape[0], 8, -1).sum(1), x + 1


def padded_each_way(x: torch.Tensor) -> torch.Tensor:
    """Four ways by two questions; at one row the result has a row, which the way for whole windows does not say."""
    if x.shape[3] % 8 != 0:
        x = pad(x, (0, 8 - x.shape[3] % 8))
    if x.shape[2] % 8 != 0:
        x = pad(x, (0, 0, 0, 8 - x.shape[2] % 8))
    return max_pool2d(x, 8, 8)


def rounded_up(x: torch.Tensor) -> torch.Tensor:
    """A question of a quotient, and results of other sizes; what divides by the batch is asked on one way."""
    if math.ceil(x.shape[1] / 4) * 4 != x.shape[1]:
        return pad(x, (0, 3)).reshape(x.shape[0], -1)[:, ::2]
    return x.reshape(x.shape[0], 4, -1).sum(1)


WAYS: list[tuple[Callable[[torch.Tensor], object], Sequence[int], dict[int, str], Sequence[Sequence[int]]]] = [
    *((windowed, (2, n), {0: "b", 1: "h"}, ((1, 2, 3), (*range(1, 50), 64, 81))) for n in (16, 19, 48)),
    *(
        (padded_each_way, (2, 1, *n), {2: "h", 3: "w"}, ((2,), (1,), *[(*range(1, 18), 32)] * 2))
        for n in ((20, 30), (64, 64))
    ),
    (rounded_up, (2, 16), {0: "b", 1: "h"}, ((0, 1, 2), range(1, 20))),
]


@pytest.mark.parametrize(
    ("model", "example", "axes", "sizes"), WAYS, ids=lambda each: getattr(each, "__name__", "") or str(each)[:16]
)
def test_ways_at_other_sizes_are_branches(
    model: Callable[[torch.Tensor], object],
    example: Sequence[int],
    axes: dict[int, str],
    sizes: Sequence[Sequence[int]],
) -> None:
    torch.manual_seed(0)
    program = irkit.to_onnx(model, (torch.randn(*example),), dynamic_shapes=(axes,), rewrite=True)
    assert any("a branch of its own" in note for note in program.report.notes)
    plain = irkit.to_onnx(model, (torch.randn(*example),), dynamic_shapes=(axes,))
    taken = 0
    for size in itertools.product(*sizes):
        x = torch.randn(*size)
        if 0 in size:  # which eager refuses
            with pytest.raises(irkit.ContractError):
                program(x)
            continue
        torch.testing.assert_close(program(x), model(x))
        try:
            plain(x)
            taken += 1
        except irkit.ContractError:
            pass
    assert taken < math.prod(map(len, sizes))


def test_a_loop_over_a_size_is_no_branch() -> None:
    def summed(x: torch.Tensor) -> torch.Tensor:
        columns = {i: x[:, i].cumsum(0) for i in range(x.shape[1] // 2)}
        return torch.stack([*columns.values()]).sum(0)

    with pytest.raises(irkit.IrkitError):
        irkit.to_onnx(summed, (torch.randn(3, 8),), dynamic_shapes=({1: "n"},), rewrite=True)(torch.randn(3, 12))


SUMS_OF_CHUNKS = """
def summed(x):
    batch, length, width = x.shape
    left = (4 - length % 4) % 4 + 4 * (length % 3 // 2)
    chunks = pad(x, (0, 0, 0, left)).reshape(batch, -1, 4, width)
    total, found = torch.zeros(batch, 4, width), torch.zeros_like(chunks)
    for i in range((length + left) // 4):
        found[:, i] = chunks[:, i] * 2 + total
        total = total + chunks[:, i]
    return found.reshape(batch, -1, width)[:, :length]
"""


def test_ways_of_many_conditions_are_left_out_once_there_are_too_many() -> None:
    """A loop that nobody can rewrite asks a condition in each round; six such ways were written out into millions."""
    found: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {}
    exec(SUMS_OF_CHUNKS, {"torch": torch, "pad": pad}, found)
    program = irkit.to_onnx(
        found["summed"], (torch.randn(2, 7, 3),), dynamic_shapes=({0: "batch", 1: "seq"},), rewrite=True
    )
    assert "too many conditions" in str(program.report)
    answered = set()
    for batch, length in itertools.product((1, 4), (1, 4, 5, 8, 9, 13, 17, 21, 25, 29, 41)):
        x = torch.randn(batch, length, 3)
        try:
            given = program(x)
        except irkit.ContractError:
            continue
        answered.add(-(-length // 4))
        assert torch.allclose(given, found["summed"](x), atol=1e-5)
    assert {2, 3, 5} <= answered and not {8, 11} & answered


def test_a_condition_of_alternatives_is_dropped_only_where_one_of_them_holds_always() -> None:
    a, b = sympy.symbols("a b", integer=True, nonnegative=True)
    both = sympy.And(sympy.Eq(a, 1), sympy.Eq(b, 1))
    assert is_always_true(sympy.Or(sympy.Ne(a, 1), sympy.Ne(b, 1), both))
    assert not is_always_true(sympy.Or(sympy.Ne(a, 1), both))
    assert not is_always_true(sympy.Or(sympy.Ne(a, 1), sympy.And(sympy.Eq(a, 1), b > 3)))
    assert not is_always_true(sympy.Or(sympy.Eq(a, 2), sympy.And(sympy.Eq(a, 4), b > 3)))


def test_a_quotient_of_1_by_a_size_times_another_is_that() -> None:
    """ONNX Runtime's DivMulFusion makes b * (1 / c) into b / c, also of integers."""

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x.sum() + x.shape[1] * (1 // x.shape[0])

    def divided(x: torch.Tensor) -> torch.Tensor:
        return x * torch.div(1, x, rounding_mode="trunc")

    program = irkit.to_onnx(scaled, (torch.zeros(3, 8),), dynamic_shapes=({0: "c", 1: "b"},))
    for sizes in ((3, 8), (1, 8), (2, 9), (4, 3)):
        assert program(torch.zeros(sizes)) == scaled(torch.zeros(sizes))
    numbers = torch.tensor([5, 1, -1, -3, 2])
    assert irkit.to_onnx(divided, (numbers,))(numbers).equal(divided(numbers))


class Experts(torch.nn.Module):
    """Splits rows by lengths that data tells, and asks of sizes whether a cache is empty, and how many tokens
    there are."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 4, 4))

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, 4)
        kinds = (rows.abs() * 2).sum(1).long() % 3
        order = kinds.sort(stable=True)[1]
        parts = rows[order].split(torch.nn.functional.one_hot(kinds, 3).sum(0).tolist())
        found = torch.cat([torch.nn.functional.linear(parts[i], self.weight[i]) for i in range(3)])
        if x.shape[1] > 1 and cache.numel() == 0:
            return found * 2
        return found + cache.sum()


def test_lengths_that_data_tells_do_not_keep_other_sizes_out() -> None:
    torch.manual_seed(0)
    model, shapes = Experts().eval(), ({0: "b", 1: "n"}, {0: "b", 1: "past"})
    program = irkit.to_onnx(model, (torch.randn(2, 3, 4), torch.randn(2, 5)), dynamic_shapes=shapes, rewrite=True)
    for b, n, past in ((2, 3, 5), (1, 1, 5), (3, 1, 4), (7, 4, 3), (3, 6, 0), (2, 1, 0), (1, 1, 0)):
        given = torch.randn(b, n, 4) * 3, torch.randn(b, past)
        torch.testing.assert_close(program(*given), model(*given), rtol=1e-4, atol=1e-5)


class Tall(torch.nn.Module):
    """Takes windows of eight rows; where it is `padded`, it makes rows of fewer so many itself, else of fewer than
    three."""

    def __init__(self, padded: bool) -> None:
        super().__init__()
        self.inner = torch.nn.Conv2d(2, 3, (8, 1))
        self.least = 8 if padded else 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[2] < self.least:
            x = pad(x, (0, 0, 0, 8))
        return self.inner(x)


def tall(padded: bool) -> tuple[Tall, irkit.Program]:
    model = Tall(padded).eval()
    given = (torch.randn(2, 2, 12, 3),)
    return model, irkit.to_onnx(model, given, dynamic_shapes=({0: "batch", 2: "rows"},), rewrite=True)


class Placed(torch.nn.Module):
    """Takes as many rows of a table as there are, and asks whether it is being traced, as models do that have a way for
    that."""

    def __init__(self, expands: bool) -> None:
        super().__init__()
        self.expands, self.table = expands, torch.nn.Parameter(torch.randn(1, 9))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = 2 if torch.jit.is_tracing() else 2.0  # pyright: ignore[reportPrivateImportUsage] - as models call it
        table = self.table[:, : x.shape[1]]
        return (x + table if not self.expands else x + table.expand(x.shape)) * scale


@pytest.mark.parametrize("expands", [False, True])
def test_sizes_beyond_what_operators_take_are_no_reason_for_further_runs(
    expands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A greatest size, and sizes that are equal: at others torch refuses the very operator."""
    runs: list[Any] = []
    once = run.run_once
    monkeypatch.setattr(run, "run_once", lambda *given: runs.append(given[1]) or once(*given))
    shapes = ({0: "batch", 1: "rows"},)
    program = irkit.to_onnx(Placed(expands).eval(), (torch.randn(2, 6),), dynamic_shapes=shapes, rewrite=True)
    assert len(runs) == 1
    assert program.check(3)
    with pytest.raises(irkit.ContractError):
        program(torch.randn(2, 10))


class Refusing(torch.nn.Module):
    """Raises for fewer than three rows, behind something that it computes of them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.cumsum(0) * 2
        if x.shape[0] < 3:
            y = torch.cat((y, torch.ones(1, 9)))
        return y


def test_few_sizes_at_which_a_model_raises_are_told_by_plain_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is made then for the ways of its modules."""
    runs: list[Any] = []
    once = run.run_once
    monkeypatch.setattr(run, "run_once", lambda *given: runs.append(given[0].deciding.modules) or once(*given))
    program = irkit.to_onnx(Refusing(), (torch.randn(5, 4),), dynamic_shapes=({0: "rows"},), rewrite=True)
    assert not any(runs)
    assert any("rows = 2 is refused" in note for note in program.report.notes)
    for rows in (1, 2):
        with pytest.raises(irkit.ContractError):
            program(torch.randn(rows, 4))
    x = torch.randn(3, 4)
    torch.testing.assert_close(program(x), Refusing()(x))


def test_a_size_that_an_operator_refuses_is_not_run_again() -> None:
    """The convolution of the way of the example has said so, and nothing else is asked of that size."""
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, (8, 1)), torch.nn.ReLU()).eval()
    shapes = ({0: "batch", 2: "rows"},)
    program = irkit.to_onnx(model, (torch.randn(2, 2, 12, 3),), dynamic_shapes=shapes, rewrite=True)
    notes = [note for note in program.report.notes if "rows = " in note and "batch = 2" in note]
    assert notes
    assert all(note.endswith("is refused: an operator takes no such size") for note in notes)
    with pytest.raises(irkit.ContractError):
        program(torch.randn(2, 2, 7, 3))


@pytest.mark.parametrize("padded", [True, False])
def test_a_size_of_which_the_model_asks_is_run_again(padded: bool) -> None:
    torch.manual_seed(0)
    model, program = tall(padded)
    for rows in (1, 2, 8, 9, 20) if not padded else (1, 3, 7, 8, 9, 20):
        x = torch.randn(3, 2, rows, 3)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)
    for rows in () if padded else (3, 7):
        with pytest.raises(irkit.ContractError):
            program(torch.randn(3, 2, rows, 3))
