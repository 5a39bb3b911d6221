"""Type rules of convolutions."""

from __future__ import annotations

import attrs

from irkit import dims
from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context
from irkit.ops.types.movement import divided_evenly


@attrs.frozen
class Window:
    """One axis of a sliding window: its extent with dilation, the step, and the padding on both sides."""

    extent: Dim
    stride: int
    before: int
    after: int


def windows(c: Context, kernel: tuple[Dim, ...]) -> tuple[Window, ...]:
    """The window of each spatial axis, from attributes `strides`, `dilations` and `pads`."""
    count = len(kernel)
    strides, dilations = per_axis(c, "strides", count, 1), per_axis(c, "dilations", count, 1)
    pads = per_axis(c, "pads", 2 * count, 0)
    if min(strides, default=1) < 1 or min(dilations, default=1) < 1:
        raise c.fail("strides and dilations must be 1 or more")
    return tuple(
        Window(spread(size, dilations[i]), strides[i], pads[i], pads[i + count]) for i, size in enumerate(kernel)
    )


def spread(size: Dim, dilation: int) -> Dim:
    """The extent of a kernel of that size with gaps between its elements."""
    if type(size) is int:
        return (size - 1) * dilation + 1
    return dims.add(dims.mul(dims.sub(size, 1), dilation), 1)


def per_axis(c: Context, name: str, count: int, default: int) -> tuple[int, ...]:
    """An attribute that holds `count` numbers, or the default for each of them."""
    given = c.attr(name)
    if given is None:
        return (default,) * count
    if len(given) != count:
        raise c.fail(f"attribute {name} must hold {count} numbers, and holds {len(given)}")
    return tuple(given)


def window_count(c: Context, size: Dim, window: Window) -> Dim:
    """How many places a window takes on an axis, under attributes `auto_pad` and `ceil_mode`."""
    auto = c.attr("auto_pad")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        return dims.ceildiv(size, window.stride)
    before, after = (0, 0) if auto == "VALID" else (window.before, window.after)
    room = dims.sub(dims.add(size, before + after), window.extent)
    ceil = "ceil_mode" in c.spec.attributes and c.attr("ceil_mode")
    if type(room) is int and room < 0 and not (ceil and room > -window.stride):  # upwards, a part of a window counts
        raise c.fail(f"a window of {window.extent} does not fit into {size} with pads {before} and {after}")
    if not ceil:
        return dims.add(dims.floordiv(room, window.stride), 1)
    count = dims.add(dims.ceildiv(room, window.stride), 1)
    if type(window.extent) is int and window.extent >= after + window.stride:
        return count  # the last window starts inside
    if type(count) is int and type(size) is int:
        return count - 1 if (count - 1) * window.stride >= size + before else count
    return dims.minimum(count, dims.ceildiv(dims.add(size, before), window.stride))


def infer_Conv(c: Context) -> Type:
    """x[n, c, d...], w[m, c / group, k...], bias[m]? -> [n, m, o...] with o = (d + pads - extent) // stride + 1"""
    return Tensor(c.dtype(0), convolved(c, 0, 1, 2))


def infer_ConvInteger(c: Context) -> Type:
    """x, w, x_zero_point?, w_zero_point? of 8-bit integers -> i32, of the shape of Conv"""
    return Tensor(DType.INT32, convolved(c, 0, 1, None))


def infer_QLinearConv(c: Context) -> Type:
    """x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias? -> the shape of Conv, of the type of y_zero"""
    return Tensor(c.dtype(7), convolved(c, 0, 3, 8))


def infer_DeformConv(c: Context) -> Type:
    """x[n, c, d...], w[m, c / group, k...], offset[n, _, o...], bias[m]?, mask? -> [n, m, o...]"""
    shape = convolved(c, 0, 1, 3)
    offset = c.ranked(2, len(shape)).shape
    space = c.unify_shapes(shape[2:], offset[2:], "the result and the offset")
    c.unify(shape[0], offset[0], "the batch sizes")
    return Tensor(c.dtype(0), (*shape[:2], *space))


def convolved(c: Context, x_at: int, w_at: int, bias_at: int | None) -> tuple[Dim, ...]:
    """The shape of a convolution of operand `x_at` with the weights `w_at`."""
    x = c.shape(x_at)
    if len(x) < 3:
        raise c.fail(f"the operand must have a batch, a channel and a spatial axis, and has rank {len(x)}")
    w, group = c.ranked(w_at, len(x)).shape, c.attr("group")
    c.unify(x[1], dims.mul(w[1], group), "the channels of the operand and of the weights")
    if group > 1:
        divided_evenly(c, w[0], group)
    if bias_at is not None and c.has(bias_at):
        c.unify(c.ranked(bias_at, 1).shape[0], w[0], "the channels of the bias and of the weights")
    kernel = c.unify_shapes(w[2:], tuple(c.attr("kernel_shape") or w[2:]), "weights and kernel_shape")
    return (x[0], w[0], *(window_count(c, d, win) for d, win in zip(x[2:], windows(c, kernel), strict=True)))


def infer_ConvTranspose(c: Context) -> Type:
    """x[n, c, d...], w[c, m / group, k...], bias[m]? -> [n, m, (d - 1) * stride + extent + output_padding - pads...]"""
    x = c.tensor(0)
    if len(x.shape) < 3:
        raise c.fail(f"the operand must have a batch, a channel and a spatial axis, and has rank {len(x.shape)}")
    w = c.ranked(1, len(x.shape)).shape
    c.unify(x.shape[1], w[0], "the channels of the operand and of the weights")
    channels = dims.mul(w[1], c.attr("group"))
    if c.has(2):
        c.unify(c.ranked(2, 1).shape[0], channels, "the channels of the bias and of the weights")
    kernel = c.unify_shapes(w[2:], tuple(c.attr("kernel_shape") or w[2:]), "weights and kernel_shape")
    return Tensor(x.dtype, (x.shape[0], channels, *transposed(c, x.shape[2:], kernel)))


def transposed(c: Context, space: tuple[Dim, ...], kernel: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The spatial sizes of a ConvTranspose."""
    count = len(space)
    if c.attr("output_shape") is not None:
        return per_axis(c, "output_shape", 2 * count if len(c.attr("output_shape")) > count else count, 0)[-count:]
    auto, extra = c.attr("auto_pad"), per_axis(c, "output_padding", count, 0)
    found: list[Dim] = []
    for i, (size, win) in enumerate(zip(space, windows(c, kernel), strict=True)):
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            found.append(dims.mul(size, win.stride))
            continue
        pads = 0 if auto == "VALID" else win.before + win.after
        reach = dims.add(dims.mul(dims.sub(size, 1), win.stride), win.extent)
        found.append(dims.add(reach, extra[i] - pads))
        if type(found[-1]) is int and found[-1] < 0:
            raise c.fail(f"the pads {win.before} and {win.after} take more than there is")
    return tuple(found)


def infer_Col2Im(c: Context) -> Type:
    """x[n, c * product(block), l], image i64[k], block i64[k] -> [n, c, image...]"""
    x = c.ranked(0, 3)
    image, block = c.contents(1), c.contents(2)
    space = tuple(dims.fresh() for _ in range(c.axes_in(1))) if image is None else image
    if block is None:
        return Tensor(x.dtype, (x.shape[0], dims.fresh(), *space))
    area = dims.product(block)
    channels = divided_evenly(c, x.shape[1], area) if type(area) is int else dims.floordiv(x.shape[1], area)
    return Tensor(x.dtype, (x.shape[0], channels, *space))
