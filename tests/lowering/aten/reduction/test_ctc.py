"""ctc_loss against torch: paddings, joined targets, lengths, reductions, repeated labels, impossible alignments."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from irkit.doors.to_onnx import to_onnx
from irkit.errors import IrkitError
from lowering.program.check import run


class Loss(torch.nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, scores: torch.Tensor, targets: torch.Tensor, frames: Any, labels: Any) -> torch.Tensor:
        return torch.nn.functional.ctc_loss(scores.log_softmax(-1), targets, frames, labels, **self.options)


PADDED = torch.tensor([[1, 1, 2, 3], [4, 2, 2, 0], [3, 0, 0, 0]])
JOINED = torch.tensor([1, 1, 2, 3, 4, 2, 2, 3])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("targets", [PADDED, JOINED], ids=["padded", "joined"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_lengths_as_numbers(reduction: str, targets: torch.Tensor, zero_infinity: bool) -> None:
    model = Loss(reduction=reduction, zero_infinity=zero_infinity)
    for frames in ([9, 8, 5], [9, 3, 0]):  # three frames are too few for 2, 2; none for any label
        inputs = (torch.randn(9, 3, 6), targets, frames, [4, 3, 1])
        report = run(to_onnx(model, inputs), inputs, {}, rtol=1e-5)
        assert not report.problem, report.problem


@pytest.mark.parametrize("blank", [0, 5])
def test_lengths_as_tensors_and_dynamic_sizes(blank: int) -> None:
    model = Loss(reduction="none", blank=blank)
    targets = torch.tensor([[1, 1, 2, 3], [4, 2, 2, 1], [3, 1, 1, 1]])

    def inputs(time: int, batch: int) -> tuple[Any, ...]:
        frames = torch.arange(batch) % 3 + time - 2
        return torch.randn(time, batch, 6), targets[:batch], frames, torch.arange(batch) + 1

    shapes = ({0: "time", 1: "batch"}, {0: "batch"}, {0: "batch"}, {0: "batch"})
    program = to_onnx(model, inputs(9, 3), dynamic_shapes=shapes)
    for time, batch in ((9, 3), (7, 2), (12, 1)):
        report = run(program, inputs(time, batch), {}, rtol=1e-5)
        assert not report.problem, report.problem


def test_one_sample() -> None:
    inputs = (torch.randn(6, 5), torch.tensor([1, 2, 2]), [6], [3])
    for reduction in ("none", "mean", "sum"):
        report = run(to_onnx(Loss(reduction=reduction), inputs), inputs, {}, rtol=1e-5)
        assert not report.problem, report.problem


@pytest.mark.parametrize("way", ["direct", "torch.export"])
@pytest.mark.parametrize("single", [False, True])
def test_labels_that_are_no_class_are_refused_but_where_they_pad(single: bool, way: str) -> None:
    """torch reads what lies elsewhere in memory."""
    targets = torch.tensor([1, 2]) if single else torch.tensor([[1, 2, 0], [3, 1, 2]])
    frames, labels = ((6,), (2,)) if single else ([6, 6], [2, 3])
    scores = torch.randn(6, 4) if single else torch.randn(6, 2, 4)
    given = (scores, targets, torch.tensor(frames), torch.tensor(labels))
    varying = ({scores.dim() - 1: "classes"}, None, None, None)
    program = to_onnx(Loss(reduction="none"), given, dynamic_shapes=varying, capture=way)
    with pytest.raises(IrkitError, match="the labels of ctc_loss are classes"):
        program(scores[..., :2], *given[1:])
    for label in (-1, 4):
        wrong = targets.clone()
        wrong[..., 0] = label
        with pytest.raises(IrkitError, match="the labels of ctc_loss are classes"):
            program(scores, wrong, *given[2:])
        if not single:
            padded = targets.clone()
            padded[0, 2] = label
            report = run(program, (scores, padded, *given[2:]), {}, rtol=1e-5)
            assert not report.problem, report.problem
