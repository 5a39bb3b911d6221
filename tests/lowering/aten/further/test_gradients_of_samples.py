"""The operators of a backward pass one by one, and on the samples of torch's database."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import irkit
from irkit.checking.comparison import compare
from irkit.support.uncollected import without_collector
from tests.lowering.aten.harness import check, check_sizes, difference

aten = torch.ops.aten


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normally distributed numbers."""
    return torch.randn(*shape, dtype=dtype)


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def check_directly(function: Callable[..., Any], *args: torch.Tensor) -> None:
    """Fails where direct capture differs from eager: of operators that torch does not trace."""
    program = irkit.to_onnx(Function(function), args, capture="direct", rules="default+nan")
    found = pytree.tree_leaves(program(*args))
    wanted = pytree.tree_leaves(function(*args))
    assert compare([t.numpy() for t in wanted], [t.numpy() for t in found]) is None


PADS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "both": ((2, 3, 5), (2, 1)),
    "of one element": ((2, 3, 1), (2, 3)),
    "taken away": ((1, 2, 6), (-2, 1)),
    "of images": ((2, 3, 4, 5), (1, 0, 2, 3)),
    "of volumes": ((1, 2, 3, 4, 2), (1, 1, 0, 2, 2, 0)),
}


@pytest.mark.parametrize("name", PADS)
def test_elements_that_are_repeated_have_all_gradients(name: str) -> None:
    shape, pads = PADS[name]
    x = draw(*shape)
    wide = torch.nn.functional.pad(x, pads, "replicate")
    backward = getattr(aten, f"replication_pad{len(pads) // 2}d_backward")
    for dtype in (torch.float32, torch.float16):
        check(lambda g, x: backward(g, x, pads), draw(*wide.shape).to(dtype), x.to(dtype))


RESIZED: dict[str, tuple[str, int, tuple[Any, ...]]] = {
    "nearest": ("upsample_nearest1d", 1, ()),
    "nearest of images": ("upsample_nearest2d", 2, ()),
    "nearest of volumes": ("upsample_nearest3d", 3, ()),
    "nearest exact": ("_upsample_nearest_exact2d", 2, ()),
    "linear": ("upsample_linear1d", 1, (False,)),
    "bilinear": ("upsample_bilinear2d", 2, (True,)),
    "trilinear": ("upsample_trilinear3d", 3, (False,)),
    "bicubic": ("upsample_bicubic2d", 2, (False,)),
    "bilinear, filtered": ("_upsample_bilinear2d_aa", 2, (False,)),
    "bicubic, filtered": ("_upsample_bicubic2d_aa", 2, (True,)),
    "lanczos, filtered": ("_upsample_lanczos2d_aa", 2, (False,)),
}


@pytest.mark.parametrize("name", RESIZED)
def test_images_that_were_resized(name: str) -> None:
    operator, spatial, options = RESIZED[name]
    backward = getattr(aten, f"{operator}_backward")
    for before, after in (((5, 4, 3), (7, 2, 6)), ((1, 3, 2), (4, 1, 2))):
        sizes, out = before[:spatial], after[:spatial]
        check(lambda g, sizes=sizes, out=out: backward(g, out, (2, 3, *sizes), *options), draw(2, 3, *out))
    scales = (1.7,) * spatial
    check(
        lambda g: backward(g, (8,) * spatial, (1, 2, *(5,) * spatial), *options, *scales), draw(1, 2, *(8,) * spatial)
    )


def test_images_that_were_resized_to_other_sizes() -> None:
    def function(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return aten._upsample_bilinear2d_aa_backward(g, g.shape[2:], x.shape, False)

    def sizes(h: int, w: int, oh: int, ow: int) -> tuple[torch.Tensor, ...]:
        return draw(2, 3, h, w), draw(2, 3, oh, ow)

    check_sizes(function, sizes(5, 6, 4, 9), sizes(4, 2, 7, 5), sizes(8, 9, 2, 3))


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("spatial", [2, 3])
def test_images_that_a_grid_sampled(spatial: int, mode: int, padding: int) -> None:
    """Places within, at the edges, and far outside."""
    if spatial == 3 and mode == 2:
        return  # torch has no cubic interpolation of volumes
    torch.manual_seed(spatial + mode + padding)
    backward = getattr(aten, f"grid_sampler_{spatial}d_backward")
    for sizes, corners, symbolic in (((4, 5, 3), False, False), ((5, 3, 4), True, True), ((1, 3, 1), True, False)):
        x, grid = draw(2, 3, *sizes[:spatial]), draw(2, *(2, 3, 4)[:spatial], spatial) * 1.5
        found = difference(
            lambda g, x, grid, corners=corners: backward(g, x, grid, mode, padding, corners, (True, True)),
            draw(2, 3, *grid.shape[1:-1]),
            x,
            grid,
            symbolic=symbolic,
        )
        assert found is None


def test_an_image_alone_or_its_grid_alone() -> None:
    x, grid = draw(1, 2, 4, 5), draw(1, 3, 3, 2)
    g = draw(1, 2, 3, 3)
    check(lambda g, x, grid: aten.grid_sampler_2d_backward(g, x, grid, 0, 0, False, (False, True))[1], g, x, grid)
    check_directly(lambda *a: aten._grid_sampler_2d_cpu_fallback_backward(*a, 0, 1, False), g, x, grid)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.7, 2.0, 3.0, math.inf])
def test_distances(p: float) -> None:
    """Of equal rows too, which have none."""
    torch.manual_seed(3)
    x1, x2 = draw(2, 4, 3), draw(2, 5, 3)
    x2[:, 1] = x1[:, 2]
    x1[0, 0, 1] = x2[0, 0, 1]
    far = torch.cdist(x1, x2, p)
    check(lambda g, a, b, d: aten._cdist_backward(g, a, b, p, d), draw(2, 4, 5), x1, x2, far)
    rows = torch.cat([x1[0], x1[0, :1]])
    near = torch.pdist(rows, p)
    check(lambda g, a, d: aten._pdist_backward(g, a, p, d), draw(*near.shape), rows, near)


@pytest.mark.parametrize("count", [0, 4, 9])
def test_what_a_mask_took(count: int) -> None:
    held = torch.tensor([[True, False, True], [False, True, False]])
    check(lambda g, m: aten.masked_scatter_backward(g, m, (count + 3,)), draw(2, 3), held)
    check(lambda g, m: aten.masked_scatter_backward(g, m, (3, 2)), draw(4, 2, 3), torch.zeros(3, dtype=torch.bool))


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [-1, 2])
@pytest.mark.parametrize("scaled", [False, True])
def test_bags_of_rows(mode: int, padding: int, scaled: bool) -> None:
    """With rows looked up twice, an empty bag, equal largest elements."""
    if mode == 2 and scaled:
        return  # torch refuses it
    torch.manual_seed(5)
    places, starts = torch.tensor([1, 2, 1, 4, 4, 0, 2]), torch.tensor([0, 3, 3, 5])
    table, weights = draw(6, 4), draw(7)
    table[1, :2] = table[2, :2]

    def step(g: torch.Tensor, w: torch.Tensor, i: torch.Tensor, o: torch.Tensor, s: torch.Tensor) -> Any:
        each = s if mode == 0 else None
        made, bag, size, most = aten._embedding_bag(w, i, o, scaled, mode, False, each, False, padding)
        found = [aten._embedding_bag_backward(g, i, o, bag, size, most, 6, scaled, mode, False, each, padding)]
        if mode == 0:
            found.append(aten._embedding_bag_per_sample_weights_backward(g, w, i, o, bag, mode, padding))
        return [made, *found]

    check(step, draw(4, 4), table, places, starts, weights)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_stretches(reduce: str) -> None:
    """With zeros, equal largest elements, a stretch of none, elements of no stretch, along another axis."""
    torch.manual_seed(1)
    data = torch.randint(-2, 3, (7, 3)).float()
    lengths = torch.tensor([2, 0, 4])

    def first(g: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> Any:
        made = aten.segment_reduce(x, reduce, lengths=n, axis=0, unsafe=True, initial=2.0)
        return aten._segment_reduce_backward(g, made, x, reduce, lengths=n, axis=0, initial=2.0)

    check(first, draw(3, 3), data, lengths)
    offsets = torch.tensor([[0, 3, 4, 7]] * 3)

    def second(g: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> Any:
        made = aten.segment_reduce(x, reduce, offsets=n, axis=1, unsafe=True)
        return aten._segment_reduce_backward(g, made, x, reduce, offsets=n, axis=1)

    check(second, draw(3, 3), data.T.contiguous(), offsets)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_losses_of_margins(reduction: int) -> None:
    for shape in ((3, 4), (4,)):
        x, g = draw(*shape), draw(*shape[:-1]) if reduction == 0 and len(shape) == 2 else torch.randn(())
        t = torch.randint(0, 4, shape[:-1])
        for p, weight in ((1, None), (2, torch.rand(4))):
            extra = () if weight is None else (weight,)
            check_directly(
                lambda g, x, t, *w, p=p: aten.multi_margin_loss_backward(g, x, t, p, 0.7, *(w or (None,)), reduction),
                g,
                x,
                t,
                *extra,
            )
        labels = torch.tensor([2, 0, -1, 1]).expand(shape).contiguous()
        _, held = aten.multilabel_margin_loss_forward(x, labels, reduction)
        check_directly(lambda *a: aten.multilabel_margin_loss_backward(*a[:3], reduction, a[3]), g, x, labels, held)


def test_products_of_three() -> None:
    def function(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return aten._trilinear(a, b, c, [1, 3], [0], [1, 2], [2, 3])

    check(function, draw(4, 3), draw(5, 3, 2), draw(4, 2))


def test_weights_of_a_norm() -> None:
    v, g = draw(3, 4, 2), draw(3, 1, 1)
    w, norms = aten._weight_norm_interface(v, g, 0)
    check(lambda *a: aten._weight_norm_interface_backward(*a, 0), draw(*w.shape), v, g, norms)


def test_elements_shrunk() -> None:
    x = torch.tensor([0.5, -0.5, 0.2, 0.0, 2.0, -3.0, math.inf, math.nan])
    for backward in (aten.softshrink_backward, aten.hardshrink_backward):
        check_directly(lambda g, x, backward=backward: backward(g, x, 0.5), draw(8), x)


def test_largest_of_fractional_windows_of_volumes() -> None:
    torch.manual_seed(0)
    x = draw(2, 3, 5, 6, 5)
    values, places = aten.fractional_max_pool3d(x, 2, (3, 2, 3), torch.rand(2, 3, 3))
    check_directly(lambda g, x, i: aten.fractional_max_pool3d_backward(g, x, [2] * 3, (3, 2, 3), i), values, x, places)


# ---------------------------------------------------------------------------------------------- torch's samples


SAMPLED = (
    "nn.functional.grid_sample", "grid_sampler_3d", "nn.functional.pad", "cdist", "nn.functional.pdist",
    "_segment_reduce", "nn.functional.embedding_bag", "_upsample_bilinear2d_aa", "masked_scatter", "sgn",
    "nn.functional.bilinear", "nn.functional.linear_cross_entropy",
)  # fmt: skip


def gradients(function: Callable[..., Any], given: list[Any]) -> list[torch.Tensor]:
    """The gradients of the sum of the squares of all results."""
    outputs = [t for t in pytree.tree_leaves(function(*given)) if isinstance(t, torch.Tensor) and t.requires_grad]
    inputs = [leaf for leaf in given if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    found = torch.autograd.grad([t.square().sum() for t in outputs], inputs, allow_unused=True)
    return [each for each in found if each is not None]


def sampled(operator: Any, sample: Any) -> tuple[Callable[..., list[torch.Tensor]], list[torch.Tensor]]:
    """(the gradients of a sample as a function of its tensors, the tensors)."""
    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))

    def function(*given: Any) -> Any:
        args, kwargs = pytree.tree_unflatten(given, spec)
        return sample.output_process_fn_grad(operator(*args, **kwargs))

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        parts = iter(tensors)
        given = [
            next(parts).detach().requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf
            for leaf in leaves
        ]
        return gradients(function, given)

    return run, [leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize(
    "operator",
    [o for o in op_db if o.name in SAMPLED and o.variant_test_name not in ("constant", "reflect", "circular")],
    ids=lambda o: f"{o.name} {o.variant_test_name}",
)
@pytest.mark.filterwarnings("ignore:linear_cross_entropy")  # some samples ask for chunks that torch does not make
def test_gradients_of_samples(operator: Any) -> None:
    samples = list(operator.sample_inputs("cpu", torch.float32, requires_grad=True))
    for sample in samples[:: max(1, len(samples) // 2)]:
        run, tensors = sampled(operator, sample)
        traced = without_collector(make_fx(run, tracing_mode="fake", _allow_non_fake_inputs=True))(*tensors)
        found = pytree.tree_leaves(irkit.to_onnx(traced, tuple(tensors))(*tensors))
        for one, other in zip(found, run(*tensors), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
