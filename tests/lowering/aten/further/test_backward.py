"""Gradients: each operator of a backward pass by itself, and whole backward passes, against eager torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import irkit
from tests.lowering.aten.harness import check, check_sizes, lowered

aten = torch.ops.aten


def draw(*shape: int) -> torch.Tensor:
    """Normally distributed numbers."""
    return torch.randn(*shape)


def gradients(function: Callable[..., torch.Tensor], *args: torch.Tensor) -> list[torch.Tensor]:
    """The gradients of the squared sum of `function` by all of its arguments."""
    leaves = [a.detach().requires_grad_(True) for a in args]
    return list(torch.autograd.grad((function(*leaves) ** 2).sum(), leaves))


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "one axis": ((2, 3, 9), (4, 3, 3), {}),
    "strided": ((2, 3, 9, 8), (4, 3, 3, 2), {"stride": (2, 3), "padding": 1}),
    "dilated": ((2, 4, 11, 10), (6, 4, 3, 3), {"dilation": 2, "stride": 2, "padding": (2, 1)}),
    "grouped": ((2, 4, 7, 7), (6, 2, 3, 3), {"groups": 2, "stride": 2}),
    "depthwise": ((1, 3, 5, 6), (3, 1, 2, 2), {"groups": 3}),
    "three axes": ((1, 2, 5, 4, 6), (3, 2, 2, 2, 3), {"stride": 2, "padding": 1}),
    "one image": ((1, 1, 1, 1), (1, 1, 1, 1), {}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    torch.manual_seed(0)
    shape, weight, options = CONVOLUTIONS[name]
    spatial = len(shape) - 2
    convolve = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
    check(
        lambda x, w, b: gradients(lambda *a: convolve(*a, **options), x, w, b),
        draw(*shape),
        draw(*weight),
        draw(weight[0]),
    )


@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "dilation": 2}]
)
def test_transposed_convolution(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    groups = options.get("groups", 1)
    check(
        lambda x, w: gradients(lambda *a: F.conv_transpose2d(*a, **options), x, w),
        draw(2, 4, 5, 6),
        draw(4, 6 // groups, 3, 2),
    )


def test_convolution_of_other_sizes() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        return gradients(lambda *a: F.conv2d(*a, stride=2, padding=1), x, w)

    weight = draw(4, 3, 3, 3)
    check_sizes(function, (draw(2, 3, 9, 8), weight), (draw(3, 3, 6, 7), weight), (draw(1, 3, 12, 5), weight))


POOLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "average": lambda x: F.avg_pool2d(x, 2),
    "average, overlapping": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "average, padding not counted": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "average, ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "average, ceil, padding not counted": lambda x: F.avg_pool2d(x, 2, 2, 0, ceil_mode=True, count_include_pad=False),
    "average, by a divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive, one": lambda x: F.adaptive_avg_pool2d(x, 1),
}


@pytest.mark.parametrize("name", POOLS)
def test_pooling(name: str) -> None:
    torch.manual_seed(0)
    for shape in ((2, 3, 7, 8), (1, 1, 5, 4)):
        check(lambda x: gradients(POOLS[name], x), draw(*shape))


@pytest.mark.parametrize("name", ["average", "average, ceil", "adaptive"])
def test_pooling_of_one_image(name: str) -> None:
    check(lambda x: gradients(POOLS[name], x), draw(3, 7, 6))


@pytest.mark.parametrize("shape", [(2, 3, 7, 6, 5), (3, 4, 6, 5)])
def test_pooling_of_volumes(shape: tuple[int, ...]) -> None:
    check(lambda x: gradients(lambda v: F.avg_pool3d(v, 2, 2, 1), x), draw(*shape))
    check(lambda x: gradients(lambda v: F.adaptive_avg_pool3d(v, (2, 3, 2)), x), draw(*shape))


@pytest.mark.parametrize("shape", [(2, 3, 7, 8), (3, 5, 4)])
def test_largest_of_windows(shape: tuple[int, ...]) -> None:
    """Overlapping windows that share a largest element add to its gradient."""
    torch.manual_seed(0)
    x = draw(*shape)
    values, places = aten.max_pool2d_with_indices(x, 3, 2, 1)
    check(lambda g, x, i: aten.max_pool2d_with_indices_backward(g, x, 3, 2, 1, 1, False, i), values, x, places)


@pytest.mark.parametrize("shape", [(2, 3, 5, 6, 4), (3, 5, 4, 4), (1, 2, 3, 1, 1)])
def test_largest_of_windows_of_three_axes(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = draw(*shape)
    for given in [(2, 2, 1, 1, False), (3, 2, 1, 1, True), ((2, 1, 1), 1, 0, 1, False)]:
        if min(shape[-3:]) + 2 * given[2] >= 3 or given[0] != 3:
            values, places = aten.max_pool3d_with_indices(x, *given)
            check(
                lambda g, x, i, given=given: aten.max_pool3d_with_indices_backward(g, x, *given, i), values, x, places
            )


@pytest.mark.parametrize("spatial", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_largest_of_adaptive_and_of_fractional_windows(spatial: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, sizes = draw(2, 3, 7, 8, 5).to(dtype), (3, 5, 2)[:spatial]
    x = x[..., 0] if spatial == 2 else x
    values, places = getattr(aten, f"adaptive_max_pool{spatial}d")(x, sizes)
    check(lambda g, x, i: getattr(aten, f"adaptive_max_pool{spatial}d_backward")(g, x, i), values, x, places)
    if dtype is not torch.float16 and spatial == 2:  # torch traces no gradient of fractional windows of three axes
        values, places = aten.fractional_max_pool2d(x, 2, sizes, draw(2, 3, 2).sigmoid().to(dtype))
        check(lambda g, x, i: aten.fractional_max_pool2d_backward(g, x, [2, 2], sizes, i), values, x, places)


@pytest.mark.parametrize("padding", [-1, 2])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,)])
def test_embedding(padding: int, scaled: bool, shape: tuple[int, ...]) -> None:
    places = torch.randint(0, 6, shape)
    check(lambda g, i: aten.embedding_dense_backward(g, i, 6, padding, scaled), draw(*shape, 4), places)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("mask", [(True, True, True), (True, False, False), (False, True, True)])
def test_norms(affine: bool, mask: tuple[bool, ...]) -> None:
    torch.manual_seed(0)
    given = (mask[0], mask[1] and affine, mask[2] and affine)
    x, weight = draw(2, 4, 3, 5), draw(3, 5)
    _, mean, root = aten.native_layer_norm(x, [3, 5], weight, weight, 1e-5)

    def layer(g: torch.Tensor, x: torch.Tensor, m: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> Any:
        used = w if affine else None
        made = aten.native_layer_norm_backward(g, x, [3, 5], m, r, used, used, given)
        return [made[i] for i in range(3) if given[i]]

    if any(given):
        check(layer, draw(2, 4, 3, 5), x, mean, root, weight)
    channels = draw(4)
    _, mean, root = aten.native_group_norm(x, channels, channels, 2, 4, 15, 2, 1e-5)

    def group(g: torch.Tensor, x: torch.Tensor, m: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> Any:
        size = x.shape[2] * x.shape[3]
        made = aten.native_group_norm_backward(g, x, m, r, w if affine else None, x.shape[0], 4, size, 2, given)
        return [made[i] for i in range(3) if given[i]]

    if any(given):
        check(group, draw(2, 4, 3, 5), x, mean, root, channels)


def test_a_training_step_is_lowered_whole() -> None:
    """Forward, loss, backward and the update of a small network, against eager."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3, 2, 1),
        torch.nn.GroupNorm(2, 6),
        torch.nn.GELU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.LayerNorm(24),
        torch.nn.Linear(24, 5),
    )
    names = [name for name, _ in model.named_parameters()]

    def step(x: torch.Tensor, target: torch.Tensor, *given: torch.Tensor) -> list[torch.Tensor]:
        weights = [w.detach().requires_grad_(True) for w in given]
        result = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (x,))
        found = torch.autograd.grad(F.cross_entropy(result, target), weights)
        return [w - 0.1 * g for w, g in zip(weights, found, strict=True)]

    weights = [p.detach() for p in model.parameters()]
    args = (draw(4, 3, 8, 8), torch.tensor([0, 2, 4, 1]), *weights)
    program = irkit.to_onnx(make_fx(step)(*args))  # traced below autograd, unlike what `check` traces
    assert irkit.compare([w.detach().numpy() for w in step(*args)], [w.numpy() for w in program(*args)]) is None
    operators = {v.op for v in program.graph.order}
    assert "ConvTranspose" not in operators and {"Conv", "ScatterElements"} <= operators


def test_no_gradient_is_decomposed() -> None:
    """Each of these operators has a converter of its own."""
    traced = make_fx(lambda x, w: gradients(F.conv2d, x, w))(draw(1, 2, 4, 4), draw(3, 2, 2, 2))
    assert any(n.target is aten.convolution_backward.default for n in traced.graph.nodes)
    case = lowered(lambda x, w: gradients(F.conv2d, x, w), draw(1, 2, 4, 4), draw(3, 2, 2, 2))
    assert not case.decomposed
    assert irkit.verify(case.graph) is case.graph
