"""Converters of `lowering.aten.pooling.pool` and `lowering.aten.pooling.adaptive_pool` against eager torch."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from tests.lowering.aten.harness import check_sizes
from tests.lowering.aten.oracle import check, check_all, module_cases, op_cases

OPS = [
    "nn.functional.max_pool1d", "nn.functional.max_pool2d", "nn.functional.max_pool3d",
    "nn.functional.avg_pool1d", "nn.functional.avg_pool2d", "nn.functional.avg_pool3d",
    "nn.functional.adaptive_avg_pool1d", "nn.functional.adaptive_avg_pool2d", "nn.functional.adaptive_max_pool1d",
    "nn.functional.adaptive_max_pool2d", "nn.functional.adaptive_max_pool3d", "nn.functional.max_unpool1d",
    "nn.functional.max_unpool2d", "nn.functional.max_unpool3d",
]  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_as_torch_samples_it(name: str) -> None:
    """OpInfo's samples in f32."""
    check_all(op_cases(name, torch.float32, 3))


MODULES = [
    "nn.MaxPool1d", "nn.MaxPool2d", "nn.MaxPool3d", "nn.AvgPool1d", "nn.AvgPool2d", "nn.AvgPool3d", "nn.LPPool1d",
    "nn.LPPool2d", "nn.LPPool3d", "nn.AdaptiveAvgPool1d", "nn.AdaptiveAvgPool2d", "nn.AdaptiveAvgPool3d",
    "nn.AdaptiveMaxPool1d", "nn.AdaptiveMaxPool2d", "nn.AdaptiveMaxPool3d",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    """ModuleInfo's modules."""
    check_all(module_cases(name, 3))


LINE = [{0: "batch", 2: 2 * Dim("half", min=2)}]  # torch finds other sizes to behave otherwise in ceil mode


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("size", [6, 7, 8])
def test_windows(ceil: bool, size: int) -> None:
    """Strides that do not fit, paddings, dilations; positions of maxima; every way to count an average."""
    x = torch.randn(2, 3, size, size + 1)
    check(torch.nn.MaxPool2d(3, 2, 1, ceil_mode=ceil, return_indices=True), x)
    check(torch.nn.MaxPool2d(2, 1, dilation=2, ceil_mode=ceil, return_indices=True), x)
    for counted in (False, True):
        for divisor in (None, 5):
            check(torch.nn.AvgPool2d(3, 2, 1, ceil, counted, divisor), x)


@pytest.mark.parametrize("ceil", [False, True])
def test_windows_over_any_length(ceil: bool) -> None:
    """Batch and length are symbols."""
    models = [torch.nn.MaxPool1d(3, 2, 1, ceil_mode=ceil, return_indices=True), torch.nn.AvgPool1d(3, 2, 1, ceil)]
    for model in models:
        check(
            model, torch.randn(2, 3, 8), dynamic_shapes=LINE, others=[(torch.randn(1, 3, 10),), (torch.randn(3, 3, 4),)]
        )


def test_a_divisor_over_any_size() -> None:
    """A sum over windows, where the zeros around the image are made plain."""
    shapes = [{0: "batch", 2: 2 * Dim("half", min=2), 3: 2 * Dim("other", min=2) - 1}]
    others = [(torch.randn(1, 3, 10, 5),), (torch.randn(1, 3, 6, 9),)]
    for ceil in (False, True):
        check(
            torch.nn.AvgPool2d(3, 2, 1, ceil, divisor_override=5),
            torch.randn(2, 3, 8, 7),
            dynamic_shapes=shapes,
            others=others,
        )


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_adaptive_over_any_length(count: int) -> None:
    """Windows of unequal lengths, which only the run knows; more windows than elements too."""
    shapes, others = [{0: "batch", 2: Dim("length", min=2)}], [(torch.randn(5, 3, 7),), (torch.randn(5, 3, 3),)]
    check(torch.nn.AdaptiveAvgPool1d(count), torch.randn(2, 3, 8), dynamic_shapes=shapes, others=others)
    model = torch.nn.AdaptiveMaxPool1d(count, return_indices=True)
    check(model, torch.randn(2, 3, 8), dynamic_shapes=shapes, others=others)


def test_adaptive_to_one_is_one_operator() -> None:
    """The pooling at the end of image models."""
    shapes = [{0: "batch", 2: "height", 3: "width"}]
    check(
        torch.nn.AdaptiveAvgPool2d(1),
        torch.randn(2, 3, 8, 7),
        dynamic_shapes=shapes,
        others=[(torch.randn(1, 3, 4, 4),)],
        operators=["GlobalAveragePool"],
    )


def test_of_integers() -> None:
    """ONNX pools no int64; the numbers come out all the same."""
    x = torch.randint(-99, 99, (1, 2, 6, 6))
    check(lambda x: torch.nn.functional.max_pool2d(x, 2), x)
    check(lambda x: torch.nn.functional.avg_pool2d(x, 2), x)


def test_drawn_windows() -> None:
    """Fractional pooling, its random numbers given."""
    x, u = torch.randn(2, 3, 8, 9), torch.rand(2, 3, 2)
    check(lambda x, u: torch.ops.aten.fractional_max_pool2d(x, [2, 3], [4, 3], u), x, u)
    x, u = torch.randn(2, 3, 8, 9, 7), torch.rand(2, 3, 3)
    check(lambda x, u: torch.ops.aten.fractional_max_pool3d(x, [2, 3, 2], [4, 3, 2], u), x, u)


def test_the_way_back_from_the_largest() -> None:
    """Windows overlap, so that one element may have given to several."""

    def back(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        made, places = torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)
        return torch.ops.aten.max_pool2d_with_indices_backward(made * scale, x, [3], [2], [1], [1], False, places)

    check_sizes(back, (torch.randn(2, 3, 8, 9), torch.tensor(2.0)), (torch.randn(3, 2, 5, 7), torch.tensor(3.0)))
