"""The loss of a transducer and its gradient, against a recursion over single places that torch differentiates."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from irkit.doors.to_onnx import to_onnx
from irkit.errors import IrkitError

SCHEMA = (
    "rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, "
    "float clamp, bool fused_log_softmax) -> (Tensor, Tensor?)"
)
Given = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def transduced(
    logits: torch.Tensor,
    targets: torch.Tensor,
    frames: torch.Tensor,
    labels: torch.Tensor,
    blank: int,
    clamp: float,
    fused: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss and its gradient, place by place."""
    with torch.enable_grad():
        x = logits.detach().clone().requires_grad_(True)
        scores, blank = x.log_softmax(-1) if fused else x, blank % logits.shape[-1]
        found = []
        for sample, (t_count, u_count) in enumerate(zip(frames.tolist(), labels.tolist(), strict=True)):
            alpha = {(0, 0): torch.zeros((), dtype=x.dtype)}
            own = scores[sample]
            for t in range(t_count):
                for u in range(u_count + 1):
                    ways = [alpha[t - 1, u] + own[t - 1, u, blank]] if t else []
                    ways += [alpha[t, u - 1] + own[t, u - 1, targets[sample, u - 1]]] if u else []
                    if ways:
                        alpha[t, u] = torch.logsumexp(torch.stack(ways), 0)
            found.append(-(alpha[t_count - 1, u_count] + own[t_count - 1, u_count, blank]))
        costs = torch.stack(found)
        costs.sum().backward()
    gradient: Any = x.grad
    return costs.detach(), gradient.clamp(-clamp, clamp) if clamp > 0 else gradient


@pytest.fixture(scope="module")
def operator() -> Iterator[Any]:
    """torchaudio's operator, or one of its name and schema."""
    if find_spec("torchaudio"):
        import_module("torchaudio.functional")  # an extra
        yield torch.ops.torchaudio.rnnt_loss_forward
        return
    with torch.library._scoped_library("torchaudio", "FRAGMENT") as library:
        library.define(SCHEMA)
        library.impl("rnnt_loss_forward", transduced, "CompositeExplicitAutograd")
        yield torch.ops.torchaudio.rnnt_loss_forward


class Loss(torch.nn.Module):
    def __init__(self, operator: Any, *options: Any) -> None:
        super().__init__()
        self.operator, self.options = operator, options

    def forward(self, logits: Any, targets: Any, logit_lengths: Any, target_lengths: Any) -> Any:
        return self.operator(logits, targets, logit_lengths, target_lengths, *self.options)


def given(samples: int, time: int, labels: int, first: int = 0) -> Given:
    generator = torch.Generator().manual_seed(samples + 10 * time + 100 * labels)
    frames = torch.randint(1, time + 1, (samples,), generator=generator).int()
    counts = torch.randint(0, labels + 1, (samples,), generator=generator).int()
    frames[0], counts[-1] = time, labels
    logits = torch.randn(samples, time, labels + 1, 4, generator=generator)
    return logits, torch.randint(first, 3 + first, (samples, labels), generator=generator).int(), frames, counts


SHAPES = ({0: "n", 1: "t", 2: "u + 1"}, {0: "n", 1: "u"}, {0: "n"}, {0: "n"})


@pytest.mark.parametrize("options", [(-1, -1.0, True), (0, 0.05, True), (-1, -1.0, False)])
def test_the_loss_and_its_gradient_are_those_of_single_places(operator: Any, options: tuple[Any, ...]) -> None:
    first = 1 if options[0] == 0 else 0
    program = to_onnx(Loss(operator, *options), given(2, 5, 3, first), dynamic_shapes=SHAPES, capture="direct")
    for sizes in ((2, 5, 3), (3, 7, 2), (1, 1, 1), (4, 2, 6), (2, 3, 0)):
        x = given(*sizes, first)
        for ours, theirs in zip(program(*x), transduced(*x, *options), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_lengths_and_labels_that_do_not_fit_are_refused(operator: Any) -> None:
    logits, targets, frames, labels = given(3, 7, 2)
    program = to_onnx(Loss(operator, -1, -1.0, True), given(2, 5, 3), dynamic_shapes=SHAPES)
    for wrong in (
        (logits, targets, frames - 1, labels),
        (logits, targets, frames, labels * 0),
        (logits, targets * 0 + 9, frames, labels),
        (logits, targets * 0 - 1, frames, labels),
        (logits, targets, frames[:2], labels),
        (logits[:, :, 1:], targets, frames, labels),
    ):
        with pytest.raises(IrkitError):
            program(*wrong)
