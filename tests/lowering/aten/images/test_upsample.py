"""Converters of `lowering.aten.images.upsample` and `lowering.aten.images.grids` against eager torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn.functional import affine_grid, grid_sample, interpolate

from tests.lowering.aten.oracle import check, check_all, op_cases

OPS = [
    "nn.functional.interpolate.nearest", "nn.functional.interpolate.nearest-exact",
    "nn.functional.interpolate.linear", "nn.functional.interpolate.bilinear", "nn.functional.interpolate.bicubic",
    "nn.functional.interpolate.trilinear", "nn.functional.interpolate.area", "nn.functional.upsample_bilinear",
    "nn.functional.upsample_nearest", "nn.functional.grid_sample", "grid_sampler_3d",
]  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_as_torch_samples_it(name: str) -> None:
    """OpInfo's samples in f32."""
    check_all(op_cases(name, torch.float32, 5))


SIZES = [{0: "batch", 2: Dim("height", min=3), 3: Dim("width", min=3)}]
ASKED = [{"scale_factor": 2.0}, {"scale_factor": 1.7}, {"scale_factor": (0.75, 2.5)}, {"size": (9, 4)}]
WAYS = [
    {"mode": "nearest"},
    {"mode": "nearest-exact"},
    {"mode": "bilinear"},
    {"mode": "bilinear", "align_corners": True},
    {"mode": "bicubic"},
    {"mode": "bicubic", "align_corners": True},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_images_of_any_size(way: dict[str, Any], asked: dict[str, Any]) -> None:
    """Batch, height and width are symbols; and numbers, where more can be computed beforehand."""
    x, other = torch.randn(2, 3, 6, 7), torch.randn(1, 3, 5, 9)
    check(lambda x: interpolate(x, **asked, **way), x)
    check(lambda x: interpolate(x, **asked, **way), x, dynamic_shapes=SIZES, others=[(other,)])


FACTORS = [1.1, (1.25, 2.0), 2.2, (2.1, 1.02), (0.6, 1.3)]
FILTERED = [{"mode": "bilinear", "antialias": True}, {"mode": "bicubic", "antialias": True}]


@pytest.mark.parametrize("way", [*(w for w in WAYS if "align_corners" not in w), *FILTERED], ids=str)
@pytest.mark.parametrize("factor", FACTORS, ids=str)
def test_sizes_that_a_factor_does_not_change(way: dict[str, Any], factor: Any) -> None:
    """1.1 times 4 are 4: torch leaves such an axis as it is, but for cubic weights; nearest sees doubled ones, too."""
    others = [(torch.randn(2, 3, h, w),) for h, w in ((2, 2), (3, 5), (9, 4), (10, 12))]
    sizes = [{0: "batch", 2: "height", 3: "width"}]
    check(lambda x: interpolate(x, scale_factor=factor, **way), torch.randn(2, 3, 6, 4))
    x = torch.randn(2, 3, 6, 4)
    check(lambda x: interpolate(x, scale_factor=factor, **way), x, dynamic_shapes=sizes, others=others)


@pytest.mark.parametrize(("mode", "rank"), [("linear", 1), ("nearest", 1), ("trilinear", 3), ("nearest", 3)])
@pytest.mark.parametrize("factor", [1.1, 2.2])
def test_lines_and_volumes_that_a_factor_does_not_change(mode: str, rank: int, factor: float) -> None:
    """Kernels of one and three axes take the nearest element by the factor, whatever the size."""
    x, *others = (torch.randn(1, 2, h, *[4] * (rank - 1)) for h in (5, 1, 2, 3, 4, 10, 12))
    sizes, calls = [{2: "height"}], [(other,) for other in others]
    check(lambda x: interpolate(x, scale_factor=factor, mode=mode), x, dynamic_shapes=sizes, others=calls)


@pytest.mark.parametrize("way", [w for w in WAYS if w["mode"] in ("bilinear", "bicubic")], ids=str)
def test_antialiased(way: dict[str, Any]) -> None:
    """Filters as wide as what they skip."""
    check(lambda x: interpolate(x, size=(4, 9), antialias=True, **way), torch.randn(2, 3, 6, 7))
    check(lambda x: interpolate(x, scale_factor=0.6, antialias=True, **way), torch.randn(2, 3, 6, 7))


@pytest.mark.parametrize("size", range(1, 40, 3))
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_rounding_of_places(size: int, mode: str) -> None:
    """14 to 2 is where ONNX Runtime's own rounding takes the row before the right one."""
    check(lambda x: interpolate(x, size=size, mode=mode), torch.arange(14.0).reshape(1, 1, 14))


def test_whole_factors_are_one_operator() -> None:
    """The usual way to grow an image."""
    model = torch.nn.Upsample(scale_factor=2)
    check(
        model, torch.randn(2, 3, 6, 7), dynamic_shapes=SIZES, others=[(torch.randn(1, 3, 5, 9),)], operators=["Resize"]
    )


def test_lines_and_volumes() -> None:
    """One and three dimensions."""
    check(lambda x: interpolate(x, size=9, mode="linear"), torch.randn(2, 3, 5))
    check(lambda x: interpolate(x, scale_factor=2, mode="trilinear", align_corners=True), torch.randn(1, 2, 3, 4, 5))
    check(lambda x: interpolate(x, size=(5, 6, 7)), torch.randn(1, 2, 3, 4, 5))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [False, True])
def test_sampling(mode: str, padding: str, corners: bool) -> None:
    """Places inside and outside of the image."""
    x, grid = torch.randn(2, 3, 6, 7), torch.rand(2, 4, 5, 2) * 2.4 - 1.2
    check(lambda x, g: grid_sample(x, g, mode, padding, corners), x, grid)


def test_affine_grids() -> None:
    """Of images and of volumes."""
    check(lambda t: affine_grid(t, [2, 3, 4, 5], align_corners=False), torch.randn(2, 2, 3))
    check(lambda t: affine_grid(t, [2, 3, 4, 5, 6], align_corners=True), torch.randn(2, 3, 4))


@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid behavior has changed")
def test_an_affine_grid_of_one_place_is_the_middle() -> None:
    theta = torch.randn(2, 2, 3)
    for size in ([2, 3, 1, 5], [2, 3, 4, 1], [2, 3, 1, 1]):
        check(lambda t, size=size: affine_grid(t, size, align_corners=True), theta)
