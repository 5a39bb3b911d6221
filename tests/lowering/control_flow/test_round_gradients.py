"""Gradients that rounds of a loop, and branches, ask for: of what they make, and of what a loop carries; those that
would go back through what was before are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

import irkit
from lowering.errors import CaptureError

Tensor = torch.Tensor
grad = torch.autograd.grad


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 1)


class Detached(Model):
    """Descends on what the loop carries, which begins each round without a past."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        w = torch.zeros(3)
        for i in range(x.shape[0]):
            w = w.detach().requires_grad_()
            (slope,) = grad((x[i] @ w - y.sum()).pow(2), w)
            w = w - 0.1 * slope
        return w.detach()


class Required(Model):
    """The same, of what requires a gradient before the loop, and behind each round."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        w = torch.zeros(3, requires_grad=True)
        for i in range(x.shape[0]):
            (slope,) = grad((x[i] @ w - y.sum()).pow(2), w)
            w = (w - 0.1 * slope).detach().requires_grad_()
        return w.detach()


class Fast(Model):
    """Steps from the weights on, which the model keeps."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        w, b = self.layer.weight, self.layer.bias
        for i in range(x.shape[0]):
            of_w, of_b = grad(F.linear(x[i : i + 1], w, b).pow(2).sum(), [w, b])
            w, b = w - 0.1 * of_w, b - 0.1 * of_b
        return F.linear(x, w, b)


class Learned(Model):
    """The gradient of what comes of such steps, by the weights that they begin with."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        weights: dict[str, Tensor] = dict(self.layer.named_parameters())
        for i in range(x.shape[0]):
            loss = F.mse_loss(torch.func.functional_call(self.layer, weights, (x[i : i + 1],)), y[:1, None])
            slopes = grad(loss, list(weights.values()), create_graph=True)
            weights = {key: each - 0.1 * slope for (key, each), slope in zip(weights.items(), slopes, strict=True)}
        loss = torch.func.functional_call(self.layer, weights, (x,)).pow(2).mean()
        return (loss, *grad(loss, list(self.layer.parameters())))


class Until(Model):
    """Descends until the gradient is small, which only data tells."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        w, count = torch.zeros(3), 0
        while count < 40:
            w = w.detach().requires_grad_()
            (slope,) = grad((x @ w - 1).pow(2).mean() + w.pow(2).sum(), w)
            if slope.norm() < 0.05:
                break
            w = w - 0.1 * slope
            count += 1
        return w.detach(), count


class Penalty(Model):
    """A sum of penalties of slopes, and its gradient behind the loop."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        total = torch.zeros(())
        for i in range(x.shape[0]):
            row = x[i : i + 1].detach().requires_grad_()
            value = self.layer(row).tanh().sum()
            (slope,) = grad(value, row, create_graph=True)
            total = total + (slope.norm() - 1).pow(2) + value
        return (total, *grad(total, list(self.layer.parameters()), allow_unused=True)[:1])


class Beside(Model):
    """A gradient within each round, and one behind the loop of something else that it carries."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        w, total, v = self.layer.weight * 1, torch.zeros(()), torch.ones(1, 3)
        for i in range(x.shape[0]):
            v = v.detach().requires_grad_()
            (slope,) = grad((v * x[i]).sum().pow(2), v)
            v = v - 0.1 * slope
            total = total + (v.detach() * w).sum().pow(2)
            w = w * 0.9
        return (total, *grad(total, [self.layer.weight]))


def given(count: int) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 3), torch.randn(2)


@pytest.mark.parametrize("kind", [Detached, Required, Fast, Learned, Until, Penalty, Beside])
def test_gradients_of_rounds_are_eagers_at_any_length(kind: type[Model]) -> None:
    model = kind()
    shapes = ({0: "n"}, {})
    program = irkit.to_onnx(model, given(4), dynamic_shapes=shapes, rewrite=True, capture="direct")
    for count in (4, 6, 2, 1):
        inputs = given(count)
        torch.testing.assert_close(program(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)


class ThroughWeights(Model):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        w = self.layer.weight
        for i in range(x.shape[0]):
            loss = (x[i] @ w.t()).sum() ** 2 + self.layer.weight.pow(2).sum()
            w = w - 0.1 * grad(loss, [self.layer.weight], create_graph=True)[0]
        return w


class Summed(Model):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        total, found = torch.zeros(()), torch.zeros(1, 3)
        for i in range(x.shape[0]):
            total = total + self.layer(x[i : i + 1]).pow(2).sum()
            found = found + grad(total, [self.layer.weight], retain_graph=True)[0]
        return found


class Recurrent(Model):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        h, found = torch.zeros(3), torch.zeros(1, 3)
        for i in range(x.shape[0]):
            h = torch.tanh(h * self.layer.weight[0] + x[i])
            found = found + grad(h.sum(), [self.layer.weight], retain_graph=True)[0]
        return found


class Around(Model):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        w, found = self.layer.weight * 2, torch.zeros(1, 3)
        for i in range(x.shape[0]):
            loss = (x[i] @ w.t()).pow(2).sum() + self.layer.weight.pow(2).sum()
            found = found + grad(loss, [self.layer.weight], retain_graph=True)[0]
        return found


class InABranch(Model):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        w = self.layer.weight * 2
        if y.sum() > 0:
            return grad((x @ w.t()).pow(2).sum() + self.layer.weight.pow(2).sum(), [self.layer.weight])[0]
        return torch.zeros(1, 3)


class InABranchOfARound(Model):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        w, found = self.layer.weight * 1, torch.zeros(1, 3)
        for i in range(x.shape[0]):
            if x[i].sum() > 0:
                loss = (x[i] @ w.t()).pow(2).sum() + self.layer.weight.pow(2).sum()
                found = found + grad(loss, [self.layer.weight], retain_graph=True)[0]
            w = w * 0.9
        return found


class Backward(Model):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        w = self.layer.weight * 1
        for i in range(x.shape[0]):
            (x[i] @ w.t()).pow(2).sum().backward(retain_graph=True)
        return self.layer.weight.grad


REFUSED = [ThroughWeights, Summed, Recurrent, Around, InABranch, InABranchOfARound, Backward]


@pytest.mark.parametrize("kind", REFUSED)
def test_gradients_that_go_back_through_what_was_before_are_refused(kind: type[Model]) -> None:
    """A round took what it carried for a constant, and gave a part of the gradient."""
    with pytest.raises(CaptureError, match="gradient that goes back through what was before"):
        irkit.to_onnx(kind(), given(4), dynamic_shapes=({0: "n"}, {}), rewrite=True)
