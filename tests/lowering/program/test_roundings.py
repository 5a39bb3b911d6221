"""What a check leaves to a model that rounds to integers: what its roundings may make, and no tenth of its results."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import torch

from irkit import to_onnx
from irkit.errors import RewriteError
from lowering.program import check
from lowering.program.program import Program
from lowering.program.roundings import evaluated_result, has_roundings, within_room
from passes import Quantization


class Rounding(torch.nn.Module):
    """Two products of numbers that are rounded to steps. Where `wrong` says so, a quantization has another scale, or a
    row of weights is another one."""

    def __init__(self, wrong: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 8)
        self.scale = 0.051 if wrong == "scale" else 0.05
        if wrong == "weight":
            with torch.no_grad():
                self.second.weight[2] *= 1.02

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127))
        x = torch.fake_quantize_per_tensor_affine(torch.relu(x), self.scale, 0, -128, 127)
        return torch.fake_quantize_per_tensor_affine(self.second(x), 0.01, 0, -128, 127)


def layers() -> torch.nn.Module:
    """Two linear layers, wide enough that their weights are quantized."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)).eval()


def exported(wrong: str = "") -> Program:
    """The program of the model, or that of a wrong one, which is compared with the right model."""
    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
    right, other = (to_onnx(Rounding(each).eval(), (x,), dynamic_shapes=({0: "batch"},)) for each in ("", wrong))
    return attrs.evolve(other, model=right.model)


def test_a_model_that_rounds_agrees_and_what_is_left_to_onnx_runtime_is_said() -> None:
    program = exported()
    report = program.check(4)
    assert has_roundings(program.ready) and report, report
    told = [run for run in report.runs if run.rounds]
    assert all("the graph itself agrees but for ties" in str(run) for run in told)


@pytest.mark.parametrize("wrong", ("scale", "weight"))
def test_what_is_wrong_and_less_than_a_tenth_of_the_results_is_caught(wrong: str) -> None:
    program = exported(wrong)
    args, kwargs = check.rebuilt(program, check.examples(program))
    expected, _ = check.reference(program, args, kwargs)
    gap = float((program(*args, **kwargs) - expected).abs().max())
    assert 0 < gap < 0.1 * float(expected.abs().max()), "a tenth of the largest result would let it pass"
    report = program.check(0)
    assert not report and "as irkit evaluates the graph" in str(report)


def test_numbers_in_the_middle_between_two_steps_may_be_rounded_to_either() -> None:
    class Halves(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fake_quantize_per_tensor_affine(x, 0.5, 0, -128, 127)

    for x, apart in (([0.25, 0.75, -1.25], True), ([0.26, 0.74, 0.0], False)):
        x = torch.tensor(x)
        program = to_onnx(Halves(), (x,))
        feeds = program.feeds((x,), {})
        exact = evaluated_result(program, feeds)
        assert torch.equal(exact, Halves()(x)) and program.check()
        other = torch.where(exact > 0, exact - 0.5, exact + 0.5)
        assert torch.equal(within_room(program, other, exact, feeds), other if apart else exact)


@pytest.mark.parametrize("wanted", ["int8", "int4", "dynamic"])
def test_what_a_quantized_program_is_allowed_is_said(wanted: str) -> None:
    program = to_onnx(layers(), (torch.randn(4, 64),), quantize=wanted)
    report = program.check(1)
    room = 0.5 if wanted == "int4" else 0.1
    assert report and f"weights are integers, which may be {room} of the largest number off" in str(report)
    assert "off the graph" in str(report)


def test_how_far_a_quantized_program_may_be_off_can_be_set() -> None:
    x = torch.randn(4, 64)
    assert to_onnx(layers(), (x,), quantize=Quantization(room=0.05)).check()
    assert not to_onnx(layers(), (x,), quantize=Quantization(room=1e-4)).check()
    with pytest.raises(RewriteError, match="room of a quantization is -1"):
        Quantization(room=-1)


def test_a_runtime_that_is_off_the_graph_of_integers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """By far less than the integers themselves are."""
    program = to_onnx(layers(), (torch.randn(4, 64),), quantize="int4")
    run = Program.run

    def off(self: Program, args: Any, kwargs: Any) -> Any:
        result, state = run(self, args, kwargs)
        return result * 1.01, state

    monkeypatch.setattr(Program, "run", off)
    report = program.check(0)
    assert not report and "by ONNX Runtime, of the graph as irkit evaluates it" in str(report)
