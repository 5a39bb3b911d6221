"""Gradients of each sample, `torch.func.vmap` of `torch.func.grad`: the batch varies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._higher_order_ops import associative_scan
from torch.func import functional_call, grad, vmap

import irkit

torch.manual_seed(0)
NET = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
PARAMS = {name: p.detach() for name, p in NET.named_parameters()}


def scores(params: Any, x: torch.Tensor) -> torch.Tensor:
    return functional_call(NET, params, (x[None],))


LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "cross entropy": lambda p, x, y: F.cross_entropy(scores(p, x), y[None]),
    "cross entropy of a vector": lambda p, x, y: F.cross_entropy(scores(p, x)[0], y, reduction="sum"),
    "cross entropy of no reduction": lambda p, x, y: F.cross_entropy(scores(p, x), y[None], reduction="none")[0],
    "cross entropy without a class": lambda p, x, y: F.cross_entropy(scores(p, x), y[None], ignore_index=2),
    "nll loss": lambda p, x, y: F.nll_loss(scores(p, x).log_softmax(-1), y[None]),
    "nll loss of places": lambda p, x, y: F.nll_loss(
        scores(p, x)[..., None].repeat(1, 1, 2).log_softmax(1), y.repeat(1, 2)
    ),
    "a tensor of its own": lambda p, x, y: (scores(p, x) * torch.arange(3).view(1, 3)).square().sum() + 0 * y,
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_each_sample_are_those_of_eager(name: str) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return vmap(grad(LOSSES[name]), (None, 0, 0))(PARAMS, x, y)

    shapes = ({0: "n"}, {0: "n"})
    program = irkit.to_onnx(model, (torch.randn(4, 4), torch.randint(0, 3, (4,))), dynamic_shapes=shapes)
    assert "directly" in str(program.report)
    for n in (1, 2, 7):
        x, y = torch.randn(n, 4), torch.arange(n) % 3
        torch.testing.assert_close(program(x, y), model(x, y), rtol=1e-4, atol=1e-5, equal_nan=True)


# ---------------------------------------------------------------------------------------------- functions of the user's


class Sine(torch.autograd.Function):
    """sin(x) with twice its gradient, for torch to take apart over a batch."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> torch.Tensor:
        return gradients[0] * ctx.saved_tensors[0].cos() * 2


class Scaled(torch.autograd.Function):
    """x * k with a rule of its own for a batch, to whose results it adds the size of the batch."""

    @staticmethod
    def forward(x: torch.Tensor, k: float) -> torch.Tensor:
        return x * k

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[torch.Tensor, None]:
        return gradients[0] * ctx.k * 2, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> tuple[torch.Tensor, int]:
        return Scaled.apply(*args) + info.batch_size, in_dims[0]


def branches(t: torch.Tensor) -> torch.Tensor:
    return torch.cond(t.sum() > 0, lambda u: u.sin(), lambda u: u.cos(), (t,))


TRANSFORMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "gradient of each": lambda x: vmap(grad(lambda t: Sine.apply(t).sum()))(x),
    "gradient of a gradient": lambda x: grad(lambda t: grad(lambda s: Sine.apply(s).sum())(t).sum())(x),
    "a batch": lambda x: vmap(Sine.apply)(x),
    "jacobians": lambda x: vmap(torch.func.jacrev(Sine.apply))(x),
    "a rule of its own": lambda x: vmap(lambda t: Scaled.apply(t, 3.0))(x),
    "the gradient of a rule of its own": lambda x: vmap(grad(lambda t: Scaled.apply(t, 3.0).sum()))(x),
    "cond": lambda x: vmap(branches)(x),
    "cond of elements": lambda x: vmap(vmap(branches))(x),
    "cond of a condition for all": lambda x: vmap(
        lambda t: torch.cond(x.sum() > 0, lambda u: (u.sin(),), lambda u: (u.cos(),), (t,))
    )(x),
    "cond in cond": lambda x: vmap(
        lambda t: torch.cond(t.sum() > 0, lambda u: torch.cond(u[0] > 0, torch.sin, torch.exp, (u,)), torch.cos, (t,))
    )(x),
    "a scan of each": lambda x: vmap(lambda t: associative_scan(torch.add, t, dim=0, combine_mode="generic"))(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_functions_and_branches_inside_transforms_are_those_of_eager(name: str) -> None:
    model = TRANSFORMS[name]
    program = irkit.to_onnx(model, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    for n in (3, 5, 2, 7):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program(x), model(x))


def test_a_nested_tensor_is_refused_by_name() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.nested.nested_tensor([x[0], x[0, :2]], layout=torch.jagged).to_padded_tensor(0.0)

    with pytest.raises(irkit.LoweringError, match="a nested tensor is not met by direct capture"):
        irkit.to_onnx(model, (torch.randn(3, 4),), capture="direct")
