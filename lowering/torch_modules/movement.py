"""Elements put at places that are known beforehand."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from lowering.torch_modules.common import Ints, axes_of, ints, number

MOST = (1 << 31) - 1


def reshape(x: torch.Tensor, shape: Ints, *, allowzero: int = 0) -> torch.Tensor:
    """x in another shape; 0 copies a size unless `allowzero`."""
    target = ints(shape)
    if not allowzero:
        target = [x.shape[i] if type(d) is int and d == 0 else d for i, d in enumerate(target)]
    return x.reshape(target)


def expand(x: torch.Tensor, shape: Ints) -> torch.Tensor:
    """x repeated along axes of size 1, to the shape that both broadcast to."""
    target = ints(shape)
    own = [1] * (len(target) - x.dim()) + list(x.shape)
    target = [1] * (x.dim() - len(target)) + target
    return x.expand([b if type(a) is int and a == 1 else a for a, b in zip(own, target, strict=True)])


def flatten(x: torch.Tensor, *, axis: int = 1) -> torch.Tensor:
    """A matrix of what is before an axis and what is behind it."""
    at = axis + x.dim() if axis < 0 else axis
    rows = 1
    for size in x.shape[:at]:
        rows = rows * size
    columns = 1
    for size in x.shape[at:]:
        columns = columns * size
    return x.reshape(rows, columns)


def transpose(x: torch.Tensor, *, perm: Any = None) -> torch.Tensor:
    """The axes in another order; turned round where none is given."""
    return x.permute(list(perm) if perm is not None else list(range(x.dim()))[::-1])


def concat(*xs: torch.Tensor, axis: int) -> torch.Tensor:
    """The operands one after the other along an axis."""
    return torch.cat(xs, axis)


def unsqueeze(x: torch.Tensor, axes: Ints) -> torch.Tensor:
    """x with axes of size 1 more."""
    rank = x.dim() + len(ints(axes))
    for axis in sorted(a % rank for a in ints(axes)):
        x = x.unsqueeze(axis)
    return x


def squeeze(x: torch.Tensor, axes: Ints = None) -> torch.Tensor:
    """x without axes of size 1: those given, or all."""
    if axes is None:
        return x.squeeze()
    return x.squeeze([int(a) for a in ints(axes)]) if ints(axes) else x


def sliced(x: torch.Tensor, starts: Ints, ends: Ints, axes: Ints = None, steps: Ints = None) -> torch.Tensor:
    """Parts of axes, from start to before end, by steps that may go backwards."""
    first, last = ints(starts), ints(ends)
    places = [int(a) % x.dim() for a in ints(axes)] if axes is not None else list(range(len(first)))
    strides = ints(steps) if steps is not None else [1] * len(first)
    for start, end, axis, step in zip(first, last, places, strides, strict=True):
        if step > 0:
            x = torch.ops.aten.slice.Tensor(x, axis, start, end, step)
            continue
        size = x.shape[axis]
        start = min(start + size if start < 0 else start, size - 1)
        end = max(end + size if end < 0 else end, -1)
        x = x.index_select(
            axis, torch.arange(start, end, step, device=x.device) if start > end else torch.zeros(0, dtype=torch.int64)
        )
    return x


def pad(x: torch.Tensor, pads: Ints, value: Any = None, axes: Ints = None, *, mode: str = "constant") -> torch.Tensor:
    """x with more places at both ends of axes, or fewer."""
    amounts = ints(pads)
    places = axes_of(axes, x.dim())
    before, after = amounts[: len(places)], amounts[len(places) :]
    if mode == "constant":
        flat: list[Any] = [0] * (2 * x.dim())
        for axis, a, b in zip(places, before, after, strict=True):
            flat[2 * (x.dim() - 1 - axis)], flat[2 * (x.dim() - 1 - axis) + 1] = a, b
        fill = 0 if value is None else number(value)
        return F.pad(x, flat, value=fill)
    for axis, a, b in zip(places, before, after, strict=True):
        x = x.index_select(axis, padded_places(x.shape[axis], a, b, mode))
    return x


def padded_places(size: Any, before: Any, after: Any, mode: str) -> torch.Tensor:
    """Which place of an axis stands at each place of the padded one."""
    at = torch.arange(-before, size + after)
    if mode == "edge":
        return at.clamp(0, size - 1)
    if mode == "wrap":
        return at.remainder(size)
    if size == 1:
        return torch.zeros_like(at)
    around = at.remainder(2 * (size - 1))
    return torch.minimum(around, 2 * (size - 1) - around)


def split(x: torch.Tensor, sizes: Ints = None, *, axis: int = 0, num_outputs: int = 0) -> tuple[torch.Tensor, ...]:
    """x in parts along an axis."""
    if sizes is None:
        part = -(-x.shape[axis] // num_outputs)
        rest = [part] * (num_outputs - 1)
        return tuple(torch.split(x, [*rest, x.shape[axis] - part * (num_outputs - 1)], axis))
    return tuple(torch.split(x, ints(sizes), axis))


def tile(x: torch.Tensor, repeats: Ints) -> torch.Tensor:
    """x repeated along each axis."""
    return x.repeat(ints(repeats)) if x.dim() else x


def trilu(x: torch.Tensor, k: Any = None, *, upper: int = 1) -> torch.Tensor:
    """The part of matrices above a diagonal, or below it."""
    return torch.triu(x, 0 if k is None else number(k)) if upper else torch.tril(x, 0 if k is None else number(k))


def shape_of(x: torch.Tensor, *, start: int = 0, end: Any = None) -> torch.Tensor:
    """The sizes of x, from one axis to before another."""
    sizes = list(x.shape)[start:end]
    parts = [torch.scalar_tensor(size, dtype=torch.int64) for size in sizes]
    return torch.stack(parts) if parts else torch.zeros(0, dtype=torch.int64)


def size_of(x: torch.Tensor) -> torch.Tensor:
    """How many elements x has."""
    return torch.scalar_tensor(x.numel(), dtype=torch.int64)


def depth_to_space(x: torch.Tensor, *, blocksize: int, mode: str = "DCR") -> torch.Tensor:
    """Channels spread over blocks of places."""
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        return x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // (b * b), h * b, w * b)
    return x.reshape(n, c // (b * b), b, b, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // (b * b), h * b, w * b)


def space_to_depth(x: torch.Tensor, *, blocksize: int, mode: str = "DCR") -> torch.Tensor:
    """Blocks of places gathered into channels."""
    n, c, h, w = x.shape
    b = blocksize
    parts = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return parts.permute(order).reshape(n, c * b * b, h // b, w // b)


def identity(x: Any) -> Any:
    """The same."""
    return x.clone() if isinstance(x, torch.Tensor) else x


def center_crop_pad(x: torch.Tensor, shape: Ints, *, axes: Any = None) -> torch.Tensor:
    """The middle of x in other sizes, cut or padded with 0."""
    for axis, size in zip(axes_of(axes, x.dim()), ints(shape), strict=True):
        own = x.shape[axis]
        if own > size:
            x = x.narrow(axis, (own - size) // 2, size)
        elif own < size:
            before = (size - own) // 2
            flat = [0] * (2 * (x.dim() - 1 - axis)) + [before, size - own - before]
            x = F.pad(x, flat)
    return x


TABLE = {
    "CenterCropPad": center_crop_pad, "Concat": concat, "DepthToSpace": depth_to_space, "Expand": expand,
    "Flatten": flatten, "Identity": identity, "Pad": pad, "Reshape": reshape, "Shape": shape_of, "Size": size_of,
    "Slice": sliced, "SpaceToDepth": space_to_depth, "Split": split, "Squeeze": squeeze, "Tile": tile,
    "Transpose": transpose, "Trilu": trilu, "Unsqueeze": unsqueeze,
}  # fmt: skip
