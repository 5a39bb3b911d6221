"""Gradients of resized images, whose kernels treat sizes that a factor leaves as they are otherwise than others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

import irkit

SHAPES = ({0: "b", 2: "h", 3: "w"},)
FORMS = [
    *((mode, {}) for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")),
    *((mode, {"antialias": True}) for mode in ("bilinear", "bicubic")),
    *((mode, {"align_corners": True}) for mode in ("bilinear", "bicubic")),
]


def with_gradient(resize: Callable[[Tensor], Tensor]) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """The function that gives what a function gives, and the gradient of a weighted sum of it."""

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().requires_grad_()
        y = resize(x)
        (found,) = torch.autograd.grad((y * y.detach().sin()).sum(), x)
        return y.detach(), found

    return model


def same(expected: Any, found: Any) -> None:
    """Raises AssertionError where results differ."""
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("mode", "options"), FORMS, ids=lambda each: each if isinstance(each, str) else "-".join(each))
@pytest.mark.parametrize("factor", [1.1, 2.2, 0.5])
def test_gradients_are_those_of_eager_at_every_size(mode: str, options: dict[str, bool], factor: float) -> None:
    torch.manual_seed(0)
    model = with_gradient(lambda x: interpolate(x, scale_factor=factor, mode=mode, **options))
    program = irkit.to_onnx(model, (torch.randn(2, 2, 6, 5),), dynamic_shapes=SHAPES)
    answered = 0
    for sizes in ((2, 2, 6, 5), (1, 2, 7, 9), (2, 2, 3, 4), (1, 2, 10, 11), (1, 2, 40, 90), (1, 2, 1, 3)):
        x = torch.randn(sizes)
        try:
            expected = model(x)
        except RuntimeError:
            with pytest.raises(irkit.ContractError):
                program(x)
            continue
        try:
            same(expected, program(x))
        except irkit.ContractError:
            continue
        answered += 1
    assert answered >= 4


@pytest.mark.parametrize("mode", ["nearest", "linear", "trilinear"])
def test_gradients_along_one_axis_and_three(mode: str) -> None:
    torch.manual_seed(0)
    axes = {"linear": 1, "trilinear": 3}.get(mode, 1)
    model = with_gradient(lambda x: interpolate(x, scale_factor=1.1, mode=mode))
    shapes = ({n: name for n, name in enumerate("bchwd") if n != 1 and n < axes + 2},)
    program = irkit.to_onnx(model, (torch.randn(2, 2, *(6, 5, 4)[:axes]),), dynamic_shapes=shapes)
    for sizes in ((6, 5, 4), (7, 9, 3), (11, 12, 13)):
        x = torch.randn(1, 2, *sizes[:axes])
        same(model(x), program(x))


def test_gradients_of_gradients() -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        x = x.detach().requires_grad_()
        y = interpolate(x, scale_factor=1.1, mode="bilinear")
        (first,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
        return torch.autograd.grad((first.sin()).sum(), x)

    torch.manual_seed(0)
    program = irkit.to_onnx(model, (torch.rand(2, 2, 6, 5),), dynamic_shapes=SHAPES)
    for sizes in ((2, 2, 6, 5), (1, 2, 12, 5), (1, 2, 12, 13)):
        x = torch.rand(sizes)
        same(model(x), program(x))


def test_a_transform_refuses_sizes_that_a_factor_leaves_as_they_are() -> None:
    def model(x: Tensor) -> tuple[Tensor]:
        return (torch.func.grad(lambda v: (interpolate(v, scale_factor=1.1, mode="bilinear") ** 2).sum())(x),)

    program = irkit.to_onnx(model, (torch.randn(2, 2, 12, 13),), dynamic_shapes=SHAPES)
    for sizes in ((1, 2, 12, 19), (1, 2, 10, 11)):
        x = torch.randn(sizes)
        same(model(x), program(x))
    with pytest.raises(irkit.ContractError, match="h"):
        program(torch.randn(1, 2, 7, 19))
    with pytest.raises(irkit.IrkitError, match="leaves h elements as"):
        irkit.to_onnx(model, (torch.randn(2, 2, 6, 13),), dynamic_shapes=SHAPES, capture="direct")
