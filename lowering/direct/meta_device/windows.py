"""What tells the sizes of convolutions, pools, paddings and resized images on the meta device.

torch tells them by functions in Python that ask fifty questions each, and an operator is told at some thirty sizes.
What is told here is of images that lie in order and have pixels; torch is asked of all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from operator import gt
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

from lowering.direct.meta_device.arguments import lies_in_order, with_defaults

Counts = Sequence[int]


def as_counts(given: Any, rank: int) -> tuple[int, ...]:
    """A number for each axis of an image, where one may stand for all."""
    if isinstance(given, int):
        return (given,) * rank
    found = tuple(given)
    return found * rank if len(found) == 1 else found


def is_plain(x: torch.Tensor) -> bool:
    """Whether a tensor on the meta device has floats in it that lie in order."""
    return x.is_floating_point() and 0 not in x.shape and lies_in_order(x)


def are_images(x: torch.Tensor, rank: int) -> bool:
    """Whether a tensor has one image, or any number of them, that lie in order. Raises RuntimeError, as torch does,
    where these have no pixels."""
    images = rank < x.dim() < rank + 3 and x.is_floating_point() and lies_in_order(x)
    if images and 0 in x.shape[-rank - 1 :]:
        raise RuntimeError(f"images of {tuple(x.shape)} have no pixels")
    return images


def refuse_small(counts: Counts) -> None:
    """Raises RuntimeError, as torch does, for an image without pixels that would be the result."""
    if min(counts) < 1:
        raise RuntimeError(f"the result would be an image of {tuple(counts)} pixels")


def windows(sizes: Counts, kernel: Counts, stride: Counts, padding: Counts, dilation: Counts) -> list[int]:
    """How many windows there are along each axis."""
    each = zip(sizes, kernel, stride, padding, dilation, strict=True)
    return [(size + 2 * pad - apart * (wide - 1) - 1) // step + 1 for size, wide, step, pad, apart in each]


# ---------------------------------------------------------------------------------------------- convolutions


def fit_together(x: torch.Tensor, weight: torch.Tensor, bias: Any, channels: int, groups: int) -> bool:
    """Whether images lie in order, as weights and biases do, and all are of one type, with so many channels at the
    end."""
    plain = x.dim() == weight.dim() and x.is_floating_point() and lies_in_order(x) and lies_in_order(weight)
    alike = plain and x.dtype is weight.dtype and 0 not in weight.shape and groups > 0 and weight.shape[0] % groups == 0
    return alike and (bias is None or (tuple(bias.shape) == (channels,) and bias.dtype is x.dtype))


def convolved(func: Any, x: torch.Tensor, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
    """What a convolution gives."""
    rank, channels = weight.dim() - 2, weight.shape[0]
    bias, stride, padding, dilation, groups = with_defaults(rest, None, 1, 0, 1, 1)
    fits = fit_together(x, weight, bias, channels, groups) and x.shape[1] == weight.shape[1] * groups
    same, shrinks = padding == "same", padding if not isinstance(padding, str) else 0
    steps, apart, pads = (as_counts(each, rank) for each in (stride, dilation, shrinks))
    told = len(steps) == len(apart) == len(pads) == rank > 0 and min(*steps, *apart) > 0 and min(pads) >= 0
    if not (fits and told) or (same and max(steps) > 1):
        made = func(x, weight, *rest)
        return with_channels_as(
            made, x, weight, lays_in_order(x, weight, False, (stride, padding, 0, dilation, groups))
        )
    sizes = list(x.shape[2:]) if same else windows(x.shape[2:], weight.shape[2:], steps, pads, apart)
    if not same:
        refuse_small(sizes)
    return func(x, weight, *rest) if 0 in x.shape[2:] else x.new_empty((x.shape[0], channels, *sizes))


def convolved_back(func: Any, x: torch.Tensor, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
    """What a transposed convolution gives on a CPU, which refuses to make an image without rows or columns, while the
    meta device does not."""
    bias, stride, padding, output_padding, groups, dilation = with_defaults(rest, None, 1, 0, 0, 1, 1)
    rank, channels = weight.dim() - 2, weight.shape[1] * groups
    given = [as_counts(each, rank) for each in (stride, padding, output_padding, dilation)]
    fits = fit_together(x, weight, bias, channels, groups) and x.shape[1] == weight.shape[0]
    if fits and all(len(each) == rank for each in given) and rank > 0 and 0 not in x.shape:
        steps, pads, more, apart = given
        known = min(*steps, *apart) > 0 and min(*pads, *more) >= 0
        if known and all(m < max(s, d) for m, s, d in zip(more, steps, apart, strict=True)):
            each = zip(x.shape[2:], weight.shape[2:], *given, strict=True)
            sizes = [(n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, k, s, p, m, d in each]
            refuse_small(sizes)
            return x.new_empty((x.shape[0], channels, *sizes))
    result = func(x, weight, *rest)
    if x.dim() < weight.dim() or x.shape[0]:  # of no image the CPU says nothing
        refuse_small([*result.shape[2 - weight.dim() :], 1])
    return with_channels_as(result, x, weight, lays_in_order(x, weight, True, (*given, groups)))


def with_channels_as(made: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, in_order: bool) -> torch.Tensor:
    """What a convolution gives, whose channels lie last on a CPU where those of the images or of the weights do, unless
    its kernel lays them `in_order`; on the meta device they never do."""
    if not made.is_meta or in_order:
        return made
    one, line = x.dim() < weight.dim(), weight.dim() == 3  # a row is an image of one line, and is put in order
    found = [suggest_memory_format(as_images(each, one and each is x, line)) for each in ((x, weight)[line:])]
    last = next((each for each in found if each is not torch.contiguous_format), None)
    if last is None:
        return made
    laid = as_images(made, one, line).contiguous(memory_format=last)
    laid = laid.squeeze(2) if line else laid
    return laid.squeeze(0) if one else laid


def as_images(x: torch.Tensor, one: bool, line: bool) -> torch.Tensor:
    """Images of two axes or three, out of `one` that is not among others, and of lines."""
    x = x.unsqueeze(0) if one else x
    return x.unsqueeze(2) if line else x


def lays_in_order(x: torch.Tensor, weight: torch.Tensor, back: bool, given: Sequence[Any]) -> bool:
    """Whether the kernel that a CPU has for a convolution of volumes, or for one `back`, lays its result in order: with
    the steps, padding, padding of the output, dilation and groups that are given."""
    if weight.dim() != 5 or not x.is_meta or 0 in x.shape or 0 in weight.shape:
        return False
    steps, pads, more, apart, groups = given
    steps, apart, x = as_counts(steps, 3), as_counts(apart, 3), as_images(x, x.dim() < weight.dim(), False)
    sizes, added = list(x.shape), [d * (k - 1) for d, k in zip(apart, weight.shape[2:], strict=True)]
    if pads == "same":
        sizes[2:] = [n + each % 2 for n, each in zip(sizes[2:], added, strict=True)]  # it is padded at its end before
    pads = [each // 2 for each in added] if pads == "same" else as_counts(0 if pads == "valid" else pads, 3)
    images = torch.empty(sizes, dtype=x.dtype, memory_format=suggest_memory_format(x))
    there = images, torch.empty(weight.shape, dtype=weight.dtype, memory_format=suggest_memory_format(weight))
    kernel = torch._C._select_conv_backend(*there, None, steps, pads, apart, back, as_counts(more, 3), groups, None)
    return torch._C._conv_determine_backend_memory_format(*there, kernel) is torch.contiguous_format


# ---------------------------------------------------------------------------------------------- pools


def pooled_sizes(
    x: torch.Tensor, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any, up: bool
) -> tuple[int, ...] | None:
    """The shape of pooled images, of which torch rounds the sizes `up` or down; None where torch is to tell it. Raises
    RuntimeError where that has no pixels."""
    if not are_images(x, rank):
        return None
    wide, pads, apart = (as_counts(each, rank) for each in (kernel, padding, dilation))
    steps = as_counts(stride, rank) if isinstance(stride, int) or len(stride) else wide
    if not len(wide) == len(steps) == len(pads) == len(apart) == rank or min(*wide, *steps, *apart) < 1:
        return None
    if min(pads) < 0 or any(2 * pad > size for pad, size in zip(pads, wide, strict=True)):
        return None
    sizes = x.shape[-rank:]
    if not up:
        found = windows(sizes, wide, steps, pads, apart)
    else:
        spans = zip(sizes, wide, steps, pads, apart, strict=True)
        found = [-((d * (k - 1) + 1 - n - 2 * p) // s) + 1 for n, k, s, p, d in spans]
        ends = zip(found, sizes, steps, pads, strict=True)
        found = [count - 1 if (count - 1) * s >= n + p else count for count, n, s, p in ends]
    refuse_small(found)
    return (*x.shape[:-rank], *found)


def averaged(func: Any, rank: int, x: torch.Tensor, kernel: Any, *rest: Any) -> torch.Tensor:
    """What a pool gives that takes means."""
    stride, padding, up, _, divisor = with_defaults(rest, (), 0, False, True, None)[:5]
    small = rank == 3 and any(map(gt, as_counts(kernel, rank), x.shape[-rank:]))  # whatever the padding is
    divides = divisor is None or divisor
    found = pooled_sizes(x, rank, kernel, stride, padding, 1, up) if divides and not small else None
    return func(x, kernel, *rest) if found is None else x.new_empty(found)


def greatest_in(func: Any, rank: int, x: torch.Tensor, kernel: Any, *rest: Any) -> Any:
    """What a pool gives that takes the greatest: with where these are, where it has two results."""
    found = pooled_sizes(x, rank, kernel, *with_defaults(rest, (), 0, 1, False))
    return func(x, kernel, *rest) if found is None else with_places(func, x, found)


def with_places(func: Any, x: torch.Tensor, shape: Sequence[int]) -> Any:
    """A tensor of a shape, and places of as many, where an operator has two results."""
    made = x.new_empty(shape)
    return made if len(func._schema.returns) == 1 else (made, x.new_empty(shape, dtype=torch.int64))


def pooled_to(func: Any, rank: int, x: torch.Tensor, size: Any) -> Any:
    """What a pool gives that makes images of a size."""
    sizes = as_counts(size, rank)
    if 0 in x.shape[-rank - 1 :] or not are_images(x, rank) or len(sizes) != rank or min(sizes) < 1:
        return func(x, size)
    return with_places(func, x, (*x.shape[:-rank], *sizes))


# ---------------------------------------------------------------------------------------------- other images


def padded(x: torch.Tensor, pads: Sequence[int], *rest: Any) -> torch.Tensor:
    """What pad gives that makes something larger; at some ends it may take something off."""
    mode, value = with_defaults(rest, "constant", None)
    rank = len(pads) // 2
    plain = is_plain(x) and len(pads) == 2 * rank and max(pads, default=0) > 0 and rank <= x.dim()
    sizes, ends = list(x.shape), list(zip(pads[::2], pads[1::2], strict=False))
    if plain and mode == "constant":
        taken = [size + min(a, 0) + min(b, 0) for (a, b), size in zip(ends, reversed(sizes), strict=False)]
        if min(taken) < 0:
            raise RuntimeError(f"pad takes off more than there is of {tuple(x.shape)}")
    elif plain:
        plain = min(pads) >= 0
        most = {"reflect": -1, "circular": 0, "replicate": 1 << 62}.get(mode, -2)
        inside = all(max(pair) <= size + most for pair, size in zip(ends, reversed(sizes), strict=False))
        plain = plain and rank < x.dim() < rank + 3 and rank < 4 and inside and value is None
    if not plain:
        return aten.pad.default(x, pads, *rest)
    for axis, pair in enumerate(ends, 1):
        sizes[-axis] += sum(pair)
    return x.new_empty(sizes)


def as_columns(x: torch.Tensor, kernel: Counts, dilation: Counts, padding: Counts, stride: Counts) -> torch.Tensor:
    """What im2col gives: a column for each window."""
    given = [as_counts(each, 2) for each in (kernel, stride, padding, dilation)]
    wide, steps, pads, apart = given
    if x.dim() != 4 or not are_images(x, 2) or min(*wide, *steps, *apart) < 1 or min(pads) < 0:
        return aten.im2col.default(x, kernel, dilation, padding, stride)
    found = windows(x.shape[2:], *given)
    refuse_small(found)
    return x.new_empty((x.shape[0], x.shape[1] * math.prod(wide), math.prod(found)))


def of_columns(
    x: torch.Tensor, size: Counts, kernel: Counts, dilation: Counts, padding: Counts, stride: Counts
) -> torch.Tensor:
    """What col2im gives: the sums of columns where they overlap."""
    given = [as_counts(each, 2) for each in (kernel, stride, padding, dilation)]
    wide, steps, pads, apart = given
    plain = x.dim() == 3 and is_plain(x) and min(*wide, *steps, *apart, *size) > 0 and min(pads) >= 0
    if plain and len(size) == 2 and x.shape[1] % math.prod(wide) == 0:
        found = windows(size, *given)
        if min(found) > 0 and math.prod(found) == x.shape[2]:
            return x.new_empty((x.shape[0], x.shape[1] // math.prod(wide), *size))
    return aten.col2im.default(x, size, kernel, dilation, padding, stride)


def enlarged(func: Any, rank: int, x: torch.Tensor, size: Any, *scales: Any) -> torch.Tensor:
    """What an operator gives that repeats pixels, or leaves some out; by a size, or by factors in a list."""
    factors = scales[0] if scales and isinstance(scales[0], list | tuple) else None
    if x.dim() == rank + 2 and is_plain(x) and (size is None) == (factors is not None):
        sizes = size if factors is None else [int(n * f) for n, f in zip(x.shape[2:], factors, strict=False)]
        if len(sizes) == rank and min(sizes) > 0:
            return x.new_empty((*x.shape[:2], *sizes))
    return func(x, size, *scales)


def resized(func: Any, nearest: Any, x: torch.Tensor, size: Any, *rest: Any) -> Any:
    """What an operator gives that makes an image another size by weights, which the meta device computes by thousands
    of operators: the sizes of `nearest`, with its refusals, which are those of all kernels on a CPU."""
    if not x.is_meta or 0 in x.shape:
        return func(x, size, *rest)
    rank = int(nearest._schema.name[-2])
    return enlarged(nearest, rank, x, size, *rest[1:])  # whether the corners are aligned does not matter


aten = torch.ops.aten
RESIZING = {
    aten.upsample_linear1d: aten.upsample_nearest1d, aten.upsample_bilinear2d: aten.upsample_nearest2d,
    aten.upsample_bicubic2d: aten.upsample_nearest2d, aten.upsample_trilinear3d: aten.upsample_nearest3d,
}  # fmt: skip
NEAREST = {1: aten.upsample_nearest1d, 2: aten.upsample_nearest2d, 3: aten.upsample_nearest3d}
CONVOLUTIONS = tuple(
    getattr(packet, name) for packet in (aten.conv1d, aten.conv2d, aten.conv3d) for name in ("default", "padding")
)
TRANSPOSED = aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input
MEANS = {1: aten.avg_pool1d.default, 2: aten.avg_pool2d.default, 3: aten.avg_pool3d.default}
GREATEST = {
    aten.max_pool1d.default: 1, aten.max_pool2d.default: 2, aten.max_pool3d.default: 3,
    aten.max_pool1d_with_indices.default: 1, aten.max_pool2d_with_indices.default: 2,
    aten.max_pool3d_with_indices.default: 3,
}  # fmt: skip
ADAPTIVE = {
    aten.adaptive_avg_pool1d.default: 1, aten.adaptive_avg_pool2d.default: 2, aten.adaptive_avg_pool3d.default: 3,
    aten.adaptive_max_pool1d.default: 1, aten.adaptive_max_pool2d.default: 2, aten.adaptive_max_pool3d.default: 3,
}  # fmt: skip
IMAGES = {
    **{getattr(func, name): partial(resized, getattr(func, name), getattr(nearest, name))
       for func, nearest in RESIZING.items() for name in ("vec", "default")},
    **{getattr(func, name): partial(enlarged, getattr(func, name), rank)
       for rank, func in NEAREST.items() for name in ("vec", "default")},
    **{func: partial(convolved, func) for func in CONVOLUTIONS},
    **{func: partial(convolved_back, func) for func in TRANSPOSED},
    **{func: partial(averaged, func, rank) for rank, func in MEANS.items()},
    **{func: partial(greatest_in, func, rank) for func, rank in GREATEST.items()},
    **{func: partial(pooled_to, func, rank) for func, rank in ADAPTIVE.items()},
    aten.pad.default: padded, aten.im2col.default: as_columns, aten.col2im.default: of_columns,
}  # fmt: skip
"""What tells the results of operators on images."""
