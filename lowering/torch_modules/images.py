"""Images resampled."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from irkit.evaluation.kernels.common import attr, axes_of
from irkit.evaluation.kernels.images import nearest_index, resized_sizes, source_places, weight_matrix
from lowering.records.types import array_of
from lowering.torch_modules.common import ints, vector, wide_floats
from lowering.torch_modules.kernel_calls import by_kernel, graph_of

MODES = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}


def grid_sample(
    x: torch.Tensor, grid: torch.Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> torch.Tensor:
    """x at the places of a grid."""
    return F.grid_sample(x, grid, MODES[mode], padding_mode, bool(align_corners))


def affine_grid(theta: torch.Tensor, size: object, *, align_corners: int = 0) -> torch.Tensor:
    """The places that an affine map sends those of an image to."""

    return F.affine_grid(theta, ints(size), bool(align_corners))


def resize(
    x: torch.Tensor,
    roi: torch.Tensor | None = None,
    scales: torch.Tensor | None = None,
    sizes: torch.Tensor | None = None,
    *,
    text: str,
) -> torch.Tensor:
    """x at another size: along each axis a matrix of weights, as irkit's kernel makes it, times x. `text` is that of a
    graph of the operator. Sizes that are not known while torch traces leave it to the kernel."""
    if any(type(size) is not int for size in x.shape) or torch.compiler.is_compiling():
        return by_kernel(x, roi, scales, sizes, text=text)
    node = graph_of(text).results[0]
    held = [None if each is None else array_of(vector(each)) for each in (scales, sizes)]
    given = attr(node, "axes")
    axes = axes_of(node, range(x.dim()) if given is None else given, x.dim())
    out, factors = resized_sizes(node, np.zeros(x.shape, np.bool_), axes, *held)
    wide = wide_floats(x)
    for axis, count, factor in zip(axes, out, factors, strict=True):
        size = x.shape[axis]
        if count == size and factor == 1.0:
            continue
        place = source_places(node, size, count, factor, 0.0, 1.0)
        if attr(node, "mode") == "nearest":
            wide = wide.index_select(axis, torch.from_numpy(np.asarray(nearest_index(node, place, size), np.int64)))
        else:
            matrix = torch.from_numpy(np.array(weight_matrix(node, place, size, factor))).to(wide.dtype)
            wide = torch.tensordot(wide.movedim(axis, -1), matrix.t(), 1).movedim(-1, axis)
    return wide.to(x.dtype)


TABLE = {"AffineGrid": affine_grid, "GridSample": grid_sample, "Resize": resize}
