"""torchvision's operators: suppression of boxes, pooling over regions, deformable convolution."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.lowering.aten.images.torchvision_operators import LIBRARY
from tests.lowering.aten.oracle import check

OPS = torch.ops.torchvision


def boxes(count: int, size: float, seed: int = 0) -> torch.Tensor:
    """(count, 4): boxes within a square, by two corners."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.rand(count, 2, generator=generator) * size * 0.7
    return torch.cat([first, first + torch.rand(count, 2, generator=generator) * size * 0.5], 1)


def regions(count: int, images: int, size: float, seed: int = 0) -> torch.Tensor:
    """(count, 5): boxes, some of them outside the image, with the image that each is of."""
    image = torch.arange(count) % images
    return torch.cat([image[:, None].float(), boxes(count, size, seed) - 0.1 * size], 1)


def test_the_operators_are_there() -> None:
    assert LIBRARY is not None or OPS.nms.default._schema.name == "torchvision::nms"


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 1.0])
def test_nms(threshold: float) -> None:
    given = boxes(20, 10.0), torch.rand(20)
    others = [(boxes(n, 10.0, seed=n), torch.rand(n)) for n in (1, 7, 40)]
    shapes = [{0: "n"}, {0: "n"}]
    check(lambda d, s: OPS.nms(d, s, threshold), *given, dynamic_shapes=shapes, others=others)
    check(lambda d, s: d[OPS.nms(d, s, threshold)] * 2, *given, dynamic_shapes=shapes, others=others)


def test_nms_with_equal_scores_and_boxes_without_area() -> None:
    dets = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 2], [5, 5, 5, 5], [5, 5, 5, 5], [0, 0, 2, 1.9]])
    check(lambda d, s: OPS.nms(d, s, 0.5), dets, torch.tensor([0.5, 0.5, 0.4, 0.4, -1.0]))


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [-1, 0, 1, 3])
@pytest.mark.parametrize("images", [1, 2])
def test_roi_align(aligned: bool, ratio: int, images: int) -> None:
    x, rois = torch.randn(images, 3, 9, 7), regions(5, images, 16.0)
    check(
        lambda x, r: OPS.roi_align(x, r, 0.5, 3, 2, ratio, aligned),
        x,
        rois,
        tolerance=1e-5,
        dynamic_shapes=[{2: "h", 3: "w"}, {0: "k"}],
        others=[(torch.randn(images, 3, 5, 11), regions(2, images, 20.0, seed=1))],
    )


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_roi_pool(images: int, scale: float) -> None:
    x, rois = torch.randn(images, 3, 9, 7), regions(5, images, 9.0 / scale)
    check(
        lambda x, r: OPS.roi_pool(x, r, scale, 3, 2),
        x,
        rois,
        dynamic_shapes=[{2: "h", 3: "w"}, {0: "k"}],
        others=[(torch.randn(images, 3, 5, 11), regions(2, images, 12.0 / scale, seed=1))],
    )


GEOMETRIES: list[dict[str, Any]] = [
    {}, {"stride": (2, 1)}, {"pad": (1, 2)}, {"dilation": (2, 1)}, {"groups": 2}, {"offset_groups": 2},
    {"use_mask": False, "groups": 2, "offset_groups": 4, "pad": (1, 1), "stride": (2, 2)},
]  # fmt: skip


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_deform_conv2d(geometry: dict[str, Any]) -> None:
    stride, pad, dilation = (geometry.get(k, d) for k, d in (("stride", (1, 1)), ("pad", (0, 0)), ("dilation", (1, 1))))
    groups, sets, use_mask = (geometry.get(k, d) for k, d in (("groups", 1), ("offset_groups", 1), ("use_mask", True)))

    def given(n: int, h: int, w: int) -> tuple[torch.Tensor, ...]:
        out = [
            (s + 2 * p - d * (k - 1) - 1) // t + 1
            for s, p, d, k, t in zip((h, w), pad, dilation, (3, 2), stride, strict=True)
        ]
        return (
            torch.randn(n, 4, h, w), torch.randn(n, sets * 12, *out), torch.rand(n, sets * 6, *out),
        )  # fmt: skip

    weight, bias = torch.randn(6, 4 // groups, 3, 2), torch.randn(6)
    check(
        lambda x, o, m: OPS.deform_conv2d(x, weight, o, m, bias, *stride, *pad, *dilation, groups, sets, use_mask),
        *given(2, 6, 5),
        tolerance=1e-4,
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_other_element_types(dtype: torch.dtype) -> None:
    x, rois = torch.randn(2, 3, 9, 7).to(dtype), regions(5, 2, 16.0).to(dtype)
    check(
        lambda x, r: OPS.roi_align(x, r, 0.5, 3, 2, 2, True), x, rois, tolerance=2e-2 if x.dtype.itemsize == 2 else 1e-9
    )
