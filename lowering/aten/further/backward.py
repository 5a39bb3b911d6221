"""Gradients: the operators that a traced backward pass calls, as sums of what the forward operators multiply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.convolution.conv import convolve
from lowering.aten.pooling.adaptive_pool import bounds
from lowering.aten.pooling.pool import add_batch_axis, average_pooled, drop_batch_axis, windows
from lowering.tensors.pieces import full, per_axis
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import axes as normalized
from lowering.tensors.shaping import expand, flat, ints, iota, may_be_empty, permute, reshape, slice_axis, unsqueeze

Mask = Sequence[bool]
Gradients = tuple[Value | None, Value | None, Value | None]


# ---------------------------------------------------------------------------------------------- convolution


def aten_convolution_backward(
    grad_output: Value,
    input: Value,
    weight: Value,
    bias_sizes: Sequence[Dim] | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Mask,
) -> Gradients:
    """The gradients of input, weight and bias.

    A convolution reads input place t * stride + k * dilation - padding for output place t and weight place k: its
    gradient for the input is the transposed convolution of grad_output, and that for the weight a convolution of input
    with grad_output in which stride and dilation change roles.
    """
    spatial = weight.rank - 2
    stride, padding, dilation = (per_axis(p, spatial) for p in (stride, padding, dilation))
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        if transposed:
            of_input = convolve(grad_output, weight, None, stride, padding * 2, dilation, groups)
        else:
            of_input = scattered(grad_output, weight, input.shape[2:], stride, padding, dilation, groups)
    if output_mask[1]:
        read, written = (grad_output, input) if transposed else (input, grad_output)
        of_weight = correlated(read, written, weight.shape[2:], stride, padding, dilation, groups)
    if output_mask[2]:
        of_bias = op.ReduceSum(grad_output, [0, *range(2, grad_output.rank)], keepdims=0)
    return of_input, of_weight, of_bias


def scattered(
    x: Value,
    weight: Value,
    sizes: Sequence[Dim],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """The transposed convolution of x, cut to `sizes`: zeros stand where no window reaches."""
    pads = (*padding, *(0 for _ in padding))
    made = convolve(x, weight, None, stride, pads, dilation, groups, transposed=True)
    if any(s > 1 for s in stride):
        made = op.Pad(made, ints(*(0,) * (len(stride) + 4), *(s - 1 for s in stride)))
    for axis, size in enumerate(sizes, 2):
        made = made if dims.same(made.shape[axis], size) is True else slice_axis(made, axis, 0, size)
    return made


def correlated(
    read: Value,
    written: Value,
    kernel: Sequence[Dim],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """sum over n and t of written[n, o, t] * read[n, c, t * stride + k * dilation - padding]: (o, c / groups, *kernel).

    The batch takes the place of channels, and the channels of a group the place of the batch.
    """
    n, c, *size = read.shape
    inner = dims.floordiv(c, groups)
    x = permute(reshape(read, (n, groups, inner, *size)), (2, 1, 0, *range(3, read.rank + 1)))
    x = reshape(x, (inner, dims.mul(groups, n), *size))
    by = permute(written, (1, 0, *range(2, written.rank)))
    made = convolve(x, by, None, dilation, tuple(padding) * 2, stride, groups)
    for axis, length in enumerate(kernel, 2):
        made = made if dims.same(made.shape[axis], length) is True else slice_axis(made, axis, 0, length)
    return permute(made, (1, 0, *range(2, made.rank)))


# ---------------------------------------------------------------------------------------------- pooling


def average_pool_backward(spatial: int) -> Callable[..., Value]:
    """The converter of each gradient, divided by what its window was divided by, added to every place of the window."""

    def convert(
        grad_output: Value,
        self: Value,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Value:
        rest = (stride, padding, ceil_mode, count_include_pad, divisor_override, spatial)
        return averages_backward(grad_output, self, kernel_size, *rest)

    return convert


aten_avg_pool2d_backward, aten_avg_pool3d_backward = map(average_pool_backward, (2, 3))


def averages_backward(
    grad_output: Value,
    self: Value,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
    spatial: int,
) -> Value:
    """The gradient of an average over windows, by a transposed convolution with ones."""
    x, gradient = add_batch_axis(self, spatial), add_batch_axis(grad_output, spatial)
    attributes = windows(kernel, stride, padding, spatial)
    sizes, strides, pads = attributes["kernel_shape"], attributes["strides"], attributes["pads"][:spatial]
    n, c, *places = x.shape
    if divisor is None:
        # The mean of ones is the share of a window that lies inside; their sum, how many places that are.
        ones = full(1, (1, 1, *places), x.dtype)
        rest = (sizes, strides, pads, ceil_mode)
        share = average_pooled(ones, *rest, count_include_pad, None, spatial)
        inside = average_pooled(ones, *rest, count_include_pad, 1, spatial)
        scaled = op.Mul(gradient, op.Div(share, op.Max(inside, scalar(1, x.dtype))))
    else:
        scaled = op.Div(gradient, scalar(divisor, x.dtype))
    each = reshape(scaled, (dims.mul(n, c), 1, *gradient.shape[2:]))
    weight = full(1, (1, 1, *sizes), x.dtype)
    made = reshape(widely(each, weight, places, strides, pads), x.shape)
    return drop_batch_axis(made, self)


def widely(x: Value, weight: Value, places: Sequence[Dim], strides: Sequence[int], pads: Sequence[int]) -> Value:
    """`scattered` where windows may begin beyond the end, as they do in ceil mode, or may not reach it."""
    spatial = len(places)
    made = convolve(x, weight, None, strides, (*pads, *(0,) * spatial), (1,) * spatial, 1, transposed=True)
    for axis, size in enumerate(places, 2):
        reach = made.shape[axis]
        if dims.same(reach, size) is not True:
            missing = dims.maximum(dims.sub(size, reach), 0)
            if missing != 0:
                rest = (*x.shape[:1], 1, *made.shape[2:axis], missing, *made.shape[axis + 1 :])
                made = op.Concat(made, full(0, rest, x.dtype), axis=axis)
            made = slice_axis(made, axis, 0, size)
    return made


def aten__adaptive_avg_pool2d_backward(grad_output: Value, self: Value) -> Value:
    """Each gradient, divided by the length of its window along every axis, added to every place of the window."""
    spatial = 3 if self.rank == 5 else 2
    made = grad_output
    for axis in range(self.rank - spatial, self.rank):
        start, end = bounds(self.shape[axis], grad_output.shape[axis])
        place = unsqueeze(iota(self.shape[axis]), 0)
        inside = op.And(op.GreaterOrEqual(place, unsqueeze(start, 1)), op.Less(place, unsqueeze(end, 1)))
        weights = op.Div(cast(inside, self.dtype), unsqueeze(cast(op.Sub(end, start), self.dtype), 1))
        turned = [i for i in range(self.rank) if i != axis]
        order = (*turned, axis)
        back = tuple(int(i) for i in np.argsort(order))
        made = permute(op.MatMul(permute(made, order), weights), back)
    return made


def aten__adaptive_avg_pool3d_backward(grad_output: Value, self: Value) -> Value:
    """As _adaptive_avg_pool2d_backward, over three axes; (c, d, h, w) has no batch."""
    if self.rank == 5:
        return aten__adaptive_avg_pool2d_backward(grad_output, self)
    made = aten__adaptive_avg_pool2d_backward(unsqueeze(grad_output, 0), unsqueeze(self, 0))
    return op.Squeeze(made, ints(0))


# ---------------------------------------------------------------------------------------------- embedding


def aten_embedding_dense_backward(
    grad_output: Value, indices: Value, num_weights: Dim, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    """Row i: the sum of the gradients of all that looked up row i, or their mean where scaled by frequency; the row of
    `padding_idx` is 0.  (*shape, d) and (*shape) -> (num_weights, d)"""
    width = grad_output.shape[-1]
    places = cast(flat(indices), DType.INT64)
    count = places.shape[0]
    rows = reshape(grad_output, (count, width))
    kept = op.Not(op.Equal(places, const(padding_idx, DType.INT64)))
    rows = op.Where(unsqueeze(kept, 1), rows, scalar(0, rows.dtype))
    where = expand(unsqueeze(places, 1), (count, width))
    made = op.ScatterElements(full(0, (num_weights, width), rows.dtype), where, rows, axis=0, reduction="add")
    if not scale_grad_by_freq:
        return made
    ones = full(1, (count,), rows.dtype)
    often = op.ScatterElements(full(0, (num_weights,), rows.dtype), places, ones, axis=0, reduction="add")
    return op.Div(made, unsqueeze(op.Max(often, scalar(1, rows.dtype)), 1))


# ---------------------------------------------------------------------------------------------- norms


def aten_native_layer_norm_backward(
    grad_out: Value,
    input: Value,
    normalized_shape: Sequence[Dim],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    output_mask: Mask,
) -> Gradients:
    """With h = (input - mean) * rstd and g = grad_out * weight: rstd * (g - mean(g) - h * mean(g * h)), the sum of
    grad_out * h, and the sum of grad_out."""
    first = input.rank - len(normalized_shape)
    inner, outer = list(range(first, input.rank)), list(range(first))
    h = op.Mul(op.Sub(input, mean), rstd)
    return norm_gradients(
        grad_out, grad_out if weight is None else op.Mul(grad_out, weight), h, rstd, inner, outer, output_mask
    )


def norm_gradients(
    grad: Value, weighted: Value, h: Value, rstd: Value, inner: list[int], outer: list[int], mask: Mask
) -> Gradients:
    """The gradients of a norm over the axes `inner` whose weight and bias were spread over the axes `outer`."""
    of_input = None
    if mask[0]:
        means = (op.ReduceMean(v, inner, keepdims=1) for v in (weighted, op.Mul(weighted, h)))
        first, second = means
        of_input = op.Mul(rstd, op.Sub(op.Sub(weighted, first), op.Mul(h, second)))
    of_weight = summed(op.Mul(grad, h), outer) if mask[1] else None
    return of_input, of_weight, summed(grad, outer) if mask[2] else None


def summed(x: Value, over: list[int]) -> Value:
    """The sum over some axes; x where they are none."""
    return op.ReduceSum(x, normalized(over, x.rank), keepdims=0) if over else x


def aten_native_group_norm_backward(
    grad_out: Value,
    input: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    N: Dim,
    C: Dim,
    HxW: Dim,
    group: int,
    output_mask: Mask,
) -> Gradients:
    """As native_layer_norm_backward, over groups of channels: mean and rstd are (n, group), weight is (c,)."""
    grouped = (N, group, dims.floordiv(C, group), HxW)
    grad, x = reshape(grad_out, grouped), reshape(input, grouped)
    spread = reshape(rstd, (N, group, 1, 1))
    h = op.Mul(op.Sub(x, reshape(mean, (N, group, 1, 1))), spread)
    by = None if weight is None else reshape(weight, (1, *grouped[1:3], 1))
    of_input, of_weight, of_bias = norm_gradients(
        grad, grad if by is None else op.Mul(grad, by), h, spread, [2, 3], [0, 3], output_mask
    )
    if of_weight is not None and may_be_empty(HxW):
        # Each item has a mean, which is NaN where there is nothing to take it of, and makes the weight's gradient NaN.
        sums = op.ReduceSum(op.Mul(grad, h), ints(3), keepdims=0)
        of_nothing = op.Div(scalar(0, sums.dtype), cast(dim_scalar(HxW, input), sums.dtype))
        of_weight = op.ReduceSum(op.Add(sums, of_nothing), ints(0), keepdims=0)
    first, second = (None if v is None else reshape(v, (C,)) for v in (of_weight, of_bias))
    return None if of_input is None else reshape(of_input, input.shape), first, second
