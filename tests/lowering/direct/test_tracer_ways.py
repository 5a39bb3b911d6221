"""The ways that models have for TorchScript's tracer, which ask nothing of sizes, and those for export."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

import irkit
from lowering.capture import same_numbers
from lowering.direct import run as runs
from lowering.program import ways


def is_traced() -> bool:
    """What a model asks: `torch.jit.is_tracing()`, which torch does not say that it exports."""
    asked: Any = torch.jit
    return asked.is_tracing()


class Positions(torch.nn.Module):
    """Positions for 4 x 4 patches, interpolated for images of other sides."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(1, 3, 4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not is_traced() and x.shape[-2] == 4 and x.shape[-1] == 4:
            return x + self.table
        return x + F.interpolate(self.table, size=x.shape[-2:], mode="bicubic", align_corners=False)


class OfTensors(torch.nn.Module):
    """What is a tensor to TorchScript's tracer is a number here: its way for that raises."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size: Any = x.shape[0]
        least = size.clamp(max=2) if is_traced() else min(x.shape[0], 2)
        return x[:least] * 2


class OtherNumbers(torch.nn.Module):
    """The way for the tracer takes no more sizes than the other."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 2:
            return x * (3 if is_traced() else 2)
        return x


class OtherResults(torch.nn.Module):
    """The way for the tracer takes all sizes, and computes something else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if is_traced():
            return x * 3
        return x * 2 if x.shape[0] < 4 else x


class AskingData(torch.nn.Module):
    """The way for the tracer takes all sizes and asks nothing of data; the other computes something else for some."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not is_traced() and x.shape[0] < 6:
            return x.abs() if (x > 0).all() else x * 2
        return x.abs()


class AskingOtherData(torch.nn.Module):
    """Either way asks one thing of data, and each another."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if is_traced():
            return x.abs() if (x < 9).all() else x
        if x.shape[0] < 6:
            return x.abs() if (x > 0).all() else x * 2
        return x.abs()


SIZES = {0: "n", 2: "high", 3: "wide"}


@pytest.mark.parametrize("side", [4, 5])
def test_the_way_for_the_tracer_is_taken_where_the_other_leaves_conditions(side: int) -> None:
    torch.manual_seed(0)
    program = irkit.to_onnx(Positions(), (torch.randn(2, 3, side, side),), dynamic_shapes=(SIZES,))
    assert program.report.capture == "traced directly"
    for high, wide in ((4, 4), (5, 5), (4, 7), (9, 3), (1, 1)):
        x = torch.randn(1, 3, high, wide)
        torch.testing.assert_close(program(x), program.reference(x), rtol=1e-5, atol=1e-6)
    assert any("torch.jit.trace" in note for note in program.report.notes)
    assert program.check()


def test_the_way_for_the_tracer_is_left_where_it_raises_or_takes_no_more_sizes() -> None:
    x = torch.randn(3, 4)
    for model in (OfTensors(), OtherNumbers()):
        program = irkit.to_onnx(model, (x,), dynamic_shapes=({0: "n"},))
        torch.testing.assert_close(program(x), model(x))
        assert not any("torch.jit.trace" in note for note in program.report.notes)


def test_the_way_for_the_tracer_is_left_where_its_results_are_others() -> None:
    program = irkit.to_onnx(OtherResults(), (torch.randn(3, 4),), dynamic_shapes=({0: "n"},))
    assert program(x := torch.randn(3, 4)).equal(x * 2)
    assert "the model computes something else for torch.jit.trace" in program.report.notes
    with pytest.raises(irkit.IrkitError):
        program(torch.randn(4, 4))


@pytest.mark.parametrize("model", [AskingData(), AskingOtherData()])
def test_the_way_for_the_tracer_is_left_where_the_other_asks_more_of_data(model: torch.nn.Module) -> None:
    program = irkit.to_onnx(model, (torch.ones(4, 3),), dynamic_shapes=({0: "n"},))
    assert program(x := torch.ones(5, 3)).equal(model(x))
    assert "the model computes something else for torch.jit.trace" in program.report.notes
    with pytest.raises(irkit.ContractError):
        program(-torch.ones(4, 3))


def test_nothing_is_run_twice_where_sizes_do_not_vary() -> None:
    torch.manual_seed(0)
    program = irkit.to_onnx(Positions(), (torch.randn(2, 3, 4, 4),), dynamic_shapes=({0: "n"},))
    assert "Resize" not in str(program.graph) and not is_traced()


class Followed(torch.nn.Module):
    """Positions, and what stands for the rest of a large model."""

    def __init__(self) -> None:
        super().__init__()
        self.positions, self.rest = Positions(), torch.nn.Conv2d(3, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self.positions(x)).relu()


class Forgotten(torch.nn.Module):
    """Two ways whose numbers differ before what makes them one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not is_traced() and x.shape[0] == 3:
            return (x.abs() + 1).clamp(max=0.5)
        return (x.abs() + 2).clamp(max=0.5)


def test_two_ways_are_compared_where_they_are_unlike(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = list[str]()

    def noting(graph: irkit.Graph, feeds: Any) -> Any:
        computed.extend(value.op for value in graph.order)
        return irkit.evaluate(graph, feeds)

    monkeypatch.setattr(same_numbers, "evaluate", noting)
    torch.manual_seed(0)
    program = irkit.to_onnx(Followed(), (torch.randn(2, 3, 4, 4),), dynamic_shapes=(SIZES,))
    assert any("torch.jit.trace" in note for note in program.report.notes)
    assert "Resize" in computed and "Conv" not in computed and "Relu" not in computed
    assert program.check()


def test_two_ways_whose_numbers_differ_on_the_way_are_compared_by_their_results() -> None:
    program = irkit.to_onnx(Forgotten(), (torch.randn(3, 4),), dynamic_shapes=({0: "n"},))
    assert any("torch.jit.trace" in note for note in program.report.notes)
    assert program(torch.randn(5, 4)).equal(torch.full((5, 4), 0.5))


class OfEager(torch.nn.Module):
    """The way for exports makes a mask for which what follows is not made; that of eager makes none."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool) if torch.compiler.is_exporting() else None
        if mask is not None and mask.shape[-1] != x.shape[0] // 2:
            raise ValueError("the mask is too long")
        return x[: x.shape[0] // 2] * 2


class OfData(torch.nn.Module):
    """The way for exports raises; that of eager asks what data holds, and so do calls that the program refuses."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            raise ValueError("nothing is made for exports")
        return x * 2 if (x > 0).all() else x


class OfExport(torch.nn.Module):
    """torch.export takes the way for exports, direct capture that of eager alone, which asks what data holds."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            if hasattr(x, "handle"):
                raise ValueError("this is no way for direct capture")
            return x * 2
        return x * 2 if (x > 0).all() else x + x


class Wrong(torch.nn.Module):
    """It raises in each of its ways while it is traced, for reasons of their own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            raise ValueError("the first reason")
        if hasattr(x, "handle"):
            raise ValueError("the second reason")
        return x


def test_a_model_that_raises_in_its_way_for_exports_is_captured_by_that_of_eager() -> None:
    program = irkit.to_onnx(OfEager(), (torch.randn(6, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    for rows in (0, 1, 2, 7):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), program.reference(x), rtol=0, atol=0)
    assert any("took those of eager" in note for note in program.report.notes)
    assert program.check()


def test_torch_export_is_not_asked_for_a_model_that_raises_in_its_way_for_exports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: Any) -> Any:
        raise AssertionError("torch.export takes the same way as direct capture, which raises")

    monkeypatch.setattr(ways, "by_torch_export", refused)
    program = irkit.to_onnx(OfEager(), (torch.randn(6, 3),), dynamic_shapes=({0: "n"},))
    assert program.report.capture == "traced directly" and program.check()
    monkeypatch.undo()
    with pytest.raises(irkit.IrkitError, match="the first reason"):  # both fail: the error is that of torch.export
        irkit.to_onnx(Wrong(), (torch.randn(6, 3),))


def test_what_the_way_of_eager_asks_of_data_is_a_condition() -> None:
    program = irkit.to_onnx(OfData(), (torch.ones(2, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    assert program(torch.ones(5, 3)).equal(torch.full((5, 3), 2.0))
    with pytest.raises(irkit.ContractError):
        program(-torch.ones(5, 3))


def test_the_way_of_eager_is_taken_where_torch_export_takes_none_for_exports() -> None:
    given: dict[str, Any] = {"args": (torch.ones(2, 3),), "dynamic_shapes": ({0: "n"},)}
    program = irkit.to_onnx(OfExport(), **given)
    assert program.report.capture != "traced directly"
    x = -torch.ones(5, 3)
    assert program(x).equal(x * 2)
    program = irkit.to_onnx(OfExport(), **given, capture="direct")
    assert program.report.capture == "traced directly" and program(-x).equal(x * -2)
    with pytest.raises(irkit.ContractError):
        program(x)


def test_where_the_way_of_eager_raises_too_the_first_reason_is_told() -> None:
    with pytest.raises(irkit.IrkitError, match="the first reason"):
        irkit.to_onnx(Wrong(), (torch.ones(2, 3),), dynamic_shapes=({0: "n"},), capture="direct")


class OfEight(torch.nn.Module):
    """Takes eight at once, and asks how many times eight there are."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = torch.nn.Conv1d(3, 4, 8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.taken(x)
        return y * 2 if not is_traced() and y.shape[2] > 0 else y + y


class OfSeveral(torch.nn.Module):
    """Raises for one, but not for the tracer."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not is_traced() and x.shape[2] == 1:
            raise ValueError("too few")
        return x * 2


@pytest.mark.parametrize("model", [OfEight(), OfSeveral()])
def test_the_way_for_the_tracer_is_not_looked_at_where_the_model_raises(
    model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What eager refuses no program need take."""
    made: list[bool] = []
    once = runs.run_once

    def noted(*args: Any) -> Any:
        made.append(args[3].asked.for_tracer)
        return once(*args)

    monkeypatch.setattr(runs, "run_once", noted)
    program = irkit.to_onnx(model, (torch.randn(2, 3, 32),), dynamic_shapes=({2: "n"},))
    assert made and not any(made)
    torch.testing.assert_close(program(x := torch.randn(2, 3, 19)), model(x), rtol=1e-5, atol=1e-6)
    with pytest.raises(irkit.ContractError):
        program(torch.randn(2, 3, 1))
