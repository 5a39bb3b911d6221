"""Pooling over windows of a fixed size: max, average, and the way back from max."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.indexing.places import from_front
from lowering.tensors.pieces import full, per_axis, widen
from lowering.tensors.promotion import cast, lowest, scalar
from lowering.tensors.shaping import iota, reshape, slice_axis, squeeze, unsqueeze

_POOLED = (DType.FLOAT, DType.DOUBLE, DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.UINT8)
"""What ONNX's MaxPool takes; other integers are computed in f64."""


def add_batch_axis(x: Value, spatial: int) -> Value:
    """x with a batch axis where it has none"""
    return x if x.rank == spatial + 2 else unsqueeze(x, 0)


def drop_batch_axis(made: Value, like: Value) -> Value:
    """Without the batch axis that `add_batch_axis` gave"""
    return made if made.rank == like.rank else squeeze(made, 0)


def windows(kernel: Any, stride: Any, padding: Any, spatial: int) -> dict[str, Any]:
    """The attributes that say where windows lie; without strides they lie side by side."""
    sizes = per_axis(kernel, spatial)
    return {
        "kernel_shape": sizes,
        "strides": per_axis(stride, spatial) if stride else sizes,
        "pads": per_axis(padding, spatial) * 2,
    }


# ---------------------------------------------------------------------------------------------- max


def max_pooled(
    self: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, spatial: int, count: int
) -> tuple[Value, ...]:
    """The largest element of every window and, for a `count` of 2, its position in the flattened image.

    A window that lies wholly in padding gives -inf, or the smallest integer, and the first place that it reaches.
    """
    x = add_batch_axis(self, spatial)
    if x.dtype is DType.INT64:
        rest = (kernel, stride, padding, dilation, ceil_mode, spatial, count)
        return ranked(self, lambda ranks: max_pooled(ranks, *rest))
    narrow = x if x.dtype in _POOLED else cast(x, DType.DOUBLE)
    attributes: dict[str, Any] = windows(kernel, stride, padding, spatial)
    attributes |= {"dilations": per_axis(dilation, spatial), "ceil_mode": int(ceil_mode)}
    void = may_be_void(x.shape[2:], attributes["dilations"])
    if count == 1 and x.dtype.is_float:
        return (drop_batch_axis(largest_of(x, attributes, void), self),)
    values, *indices = op.MaxPool(narrow, **attributes, outputs=2) if count > 1 else (op.MaxPool(narrow, **attributes),)
    if x.dtype.is_float:
        values = largest_of(x, attributes, void)
    else:
        values = cast(bounded(values, x.dtype) if void else values, x.dtype)
    if count == 1:
        return (drop_batch_axis(values, self),)
    size = dims.product(x.shape[2:])
    # ONNX counts through the whole batch, torch through one channel of one image.
    inside = op.Mod(indices[0], dim_scalar(size))
    first = beginnings(values.shape[2:], x.shape[2:], attributes)
    if not self.dtype.is_float:
        inside = op.Where(op.Equal(values, scalar(lowest(x.dtype), values.dtype)), first, inside)
    elif void:
        inside = odd_places(narrow, inside, first, attributes)
    else:  # one look at the whole image tells whether there is anything odd: what is finite is 0 times 0
        some = op.IsNaN(op.ReduceSum(op.Mul(narrow, scalar(0, narrow.dtype)), keepdims=0))
        inside = op.If(
            some,
            then_branch=lambda: (odd_places(narrow, inside, first, attributes),),
            else_branch=lambda: (op.Identity(inside),),
        )[0]
    return drop_batch_axis(values, self), drop_batch_axis(inside, self)


def odd_places(x: Value, inside: Value, first: Value, attributes: dict[str, Any]) -> Value:
    """The positions `inside` the image, but that of the last NaN in windows that hold one, and the first place of those
    that hold -inf alone, or nothing. The last NaN of a window is its largest element, says torch."""
    size = dims.product(x.shape[2:])
    # -1 for -inf, 0 for numbers, 1 and on for the place of a NaN.
    kind_type = DType.FLOAT if type(size) is int and size < 2**24 else DType.DOUBLE  # which holds every place
    place = reshape(cast(iota(size), kind_type), (1, 1, *x.shape[2:]))
    kinds = cast(op.Greater(x, scalar(-np.inf, x.dtype)), kind_type)
    kinds = op.Where(op.IsNaN(x), op.Add(place, 1.0), op.Sub(kinds, 1.0))
    kind = op.MaxPool(kinds, **attributes)
    missing, nothing = op.Greater(kind, scalar(0, kind.dtype)), op.Less(kind, scalar(0, kind.dtype))
    return op.Where(nothing, first, op.Where(missing, cast(op.Sub(kind, 1.0), DType.INT64), inside))


def may_be_void(sizes: Sequence[Dim], dilations: Sequence[int]) -> bool:
    """Whether a window may lie wholly in padding: torch allows it only where steps within windows go over the image."""
    return any(
        step > 1 and not (type(size) is int and size >= step) for size, step in zip(sizes, dilations, strict=True)
    )


def bounded(values: Value, dtype: DType) -> Value:
    """Integers that were pooled in another type, none below the smallest of their own"""
    return op.Max(values, scalar(lowest(dtype), values.dtype))


def ranked(self: Value, pooled: Callable[[Value], tuple[Value, ...]]) -> tuple[Value, ...]:
    """As `max_pooled`, of integers that no float holds: their ranks are pooled, and are known again in order."""
    flat = reshape(self, (dims.product(self.shape),))
    ordered, _, ranks, _ = op.Unique(op.Concat(const([np.iinfo(np.int64).min]), flat, axis=0), sorted=1, outputs=4)
    numbers = cast(reshape(slice_axis(ranks, 0, 1, None), self.shape), DType.INT32)
    values, *indices = pooled(numbers)
    return op.Gather(ordered, op.Max(values, scalar(0, values.dtype))), *indices


def beginnings(counts: Sequence[Dim], sizes: Sequence[Dim], attributes: dict[str, Any]) -> Value:
    """(1, 1, *counts): for every window, the first of its places that is not before the image, in the flat image."""
    spatial, found = len(counts), None
    rows = zip(counts, attributes["strides"], attributes["pads"], attributes["dilations"], strict=False)
    for i, (count, stride, pad, dilation) in enumerate(rows):
        start = op.Sub(op.Mul(iota(count), stride), pad)
        steps = op.Max(op.Div(op.Sub(dilation - 1, start), dilation), scalar(0, DType.INT64))
        start = op.Mul(op.Add(start, op.Mul(steps, dilation)), dim_scalar(dims.product(sizes[i + 1 :])))
        start = unsqueeze(start, *(k for k in range(spatial + 2) if k != i + 2))
        found = start if found is None else op.Add(found, start)
    return found  # type: ignore[return-value]


def largest_of(x: Value, attributes: dict[str, Any], void: bool) -> Value:
    """The largest element of every window, NaN where there is one; -inf of nothing, which there may be where `void`.

    ONNX Runtime's pooling finds the least finite number in a window of nothing, so that it is told what it holds.
    """
    if not x.dtype.is_float or not void:
        return op.MaxPool(x, **attributes)
    # In the order of what outdoes what: 0 for -inf, 1 for numbers, 2 for NaN; and what makes it of what pooling found.
    values = op.MaxPool(op.Where(op.IsNaN(x), scalar(-np.inf, x.dtype), x), **attributes)
    numbers = cast(op.Greater(x, scalar(-np.inf, x.dtype)), DType.FLOAT)
    kinds = op.MaxPool(op.Where(op.IsNaN(x), scalar(2, DType.FLOAT), numbers), **attributes)
    kinds = op.Max(kinds, scalar(0, kinds.dtype))
    table = const(np.array([-np.inf, -0.0, np.nan], np.float32))
    return op.Add(values, op.Gather(cast(table, x.dtype), cast(kinds, DType.INT32)))


def max_pools(spatial: int) -> tuple[Callable[..., Value], Callable[..., tuple[Value, ...]]]:
    """The converters of the largest element of every window over so many axes, of (n, c, *) or (c, *): alone, and with
    its position in the flattened image."""

    def with_indices(
        self: Value, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> tuple[Value, ...]:
        return max_pooled(self, kernel_size, stride, padding, dilation, ceil_mode, spatial, 2)

    def alone(
        self: Value, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Value:
        return max_pooled(self, kernel_size, stride, padding, dilation, ceil_mode, spatial, 1)[0]

    return alone, with_indices


aten_max_pool1d, aten_max_pool1d_with_indices = max_pools(1)
aten_max_pool2d, aten_max_pool2d_with_indices = max_pools(2)
aten_max_pool3d, aten_max_pool3d_with_indices = max_pools(3)


def aten_max_unpool2d(self: Value, indices: Value, output_size: Sequence[Dim]) -> Value:
    """Elements put where max_pool found them, zeros elsewhere.  indices: positions in the flattened result."""
    spatial = len(output_size)
    batch = self.shape[: self.rank - spatial]
    flat, size = (*batch, dims.product(self.shape[-spatial:])), (*batch, dims.product(output_size))
    ground = full(0, size, self.dtype)
    made = op.ScatterElements(ground, reshape(from_front(indices), flat), reshape(self, flat), axis=-1)
    return reshape(made, (*batch, *output_size))


def aten_max_unpool3d(self: Value, indices: Value, output_size: Sequence[Dim], stride: Any, padding: Any) -> Value:
    """As max_unpool2d; stride and padding only say how the size was found."""
    return aten_max_unpool2d(self, indices, output_size)


# ---------------------------------------------------------------------------------------------- average


def average_pooled(
    self: Value,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
    spatial: int,
) -> Value:
    """The mean of every window, or its sum divided by `divisor`; integers are rounded towards zero."""
    if self.dtype.is_integer:
        rest = (kernel, stride, padding, ceil_mode, count_include_pad, divisor, spatial)
        mean = average_pooled(cast(self, DType.DOUBLE), *rest)
        # A mean that is whole may come out a little below: it is told from the nearest fraction by half of 1 / count.
        count = divisor or int(np.prod(per_axis(kernel, spatial)))
        near = op.Less(op.Abs(op.Sub(mean, op.Round(mean))), scalar(0.5 / abs(count), mean.dtype))
        return cast(op.Where(near, op.Round(mean), mean), self.dtype)
    x = add_batch_axis(self, spatial)
    attributes = windows(kernel, stride, padding, spatial)
    if divisor is None:
        counted = int(count_include_pad and any(attributes["pads"]))
        made = op.AveragePool(x, **attributes, ceil_mode=int(ceil_mode), count_include_pad=counted)
        return drop_batch_axis(made, self)
    # A sum: the zeros around the image are made plain, so that every window has all of its elements.
    x = op.Pad(x, shape_vector((0, 0, *per_axis(padding, spatial), 0, 0, *ends(x, attributes, ceil_mode))))
    sizes = attributes["kernel_shape"]
    averaged = op.AveragePool(x, kernel_shape=sizes, strides=attributes["strides"])
    return drop_batch_axis(op.Mul(averaged, scalar(float(np.prod(sizes)) / divisor, x.dtype)), self)


def ends(x: Value, attributes: dict[str, Any], ceil_mode: bool) -> list[Dim]:
    """How many zeros follow each axis, so that whole windows cover what pooling covers."""
    spatial = x.rank - 2
    found: list[Dim] = []
    kernels, strides, pads = attributes["kernel_shape"], attributes["strides"], attributes["pads"][:spatial]
    rows = zip(x.shape[2:], kernels, strides, pads, strict=True)
    for size, kernel, stride, pad in rows:
        if not ceil_mode:
            found.append(pad)
            continue
        padded = dims.add(size, 2 * pad)
        last = dims.ceildiv(dims.sub(padded, kernel), stride)
        # The last window must begin inside the image or the padding before it.
        last = dims.minimum(last, dims.floordiv(dims.add(size, pad - 1), stride))
        need = dims.sub(dims.add(dims.mul(last, stride), kernel), dims.add(size, pad))
        found.append(dims.maximum(need, 0))
    return found


def average_pool(spatial: int) -> Callable[..., Value]:
    """The converter of the mean of every window over so many axes, of (n, c, *) or (c, *); or its sum divided by
    `divisor_override`, which is not asked of one axis."""

    def convert(
        self: Value,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        rest = (stride, padding, ceil_mode, count_include_pad, divisor_override, spatial)
        return average_pooled(self, kernel_size, *rest)

    return convert


aten_avg_pool1d, aten_avg_pool2d, aten_avg_pool3d = map(average_pool, (1, 2, 3))


def max_pool_backward(spatial: int) -> Callable[..., Value]:
    """The converter of what each element of self gave to the windows of which it was the largest.

    self: (*, h, w) or (*, d, h, w); grad_output, indices: (*, h', w') or (*, d', h', w'), indices into the flat image.
    """

    def convert(
        grad_output: Value,
        self: Value,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        indices: Value,
    ) -> Value:
        return given_back(grad_output, self, indices, spatial, per_axis(dilation, spatial))

    return convert


aten_max_pool2d_with_indices_backward, aten_max_pool3d_with_indices_backward = map(max_pool_backward, (2, 3))


def aten_adaptive_max_pool2d_backward(grad_output: Value, self: Value, indices: Value) -> Value:
    """As max_pool2d_with_indices_backward; no window lies outside."""
    return given_back(grad_output, self, indices, 2, (1, 1))


def aten_adaptive_max_pool3d_backward(grad_output: Value, self: Value, indices: Value) -> Value:
    """As max_pool3d_with_indices_backward; no window lies outside."""
    return given_back(grad_output, self, indices, 3, (1, 1, 1))


def aten_fractional_max_pool2d_backward(
    grad_output: Value, self: Value, kernel_size: Any, output_size: Any, indices: Value
) -> Value:
    """As max_pool2d_with_indices_backward; no window lies outside."""
    return given_back(grad_output, self, indices, 2, (1, 1))


def aten_fractional_max_pool3d_backward(
    grad_output: Value, self: Value, kernel_size: Any, output_size: Any, indices: Value
) -> Value:
    """As max_pool3d_with_indices_backward; no window lies outside."""
    return given_back(grad_output, self, indices, 3, (1, 1, 1))


def given_back(grad_output: Value, self: Value, indices: Value, spatial: int, dilation: Sequence[int]) -> Value:
    """Each gradient added to the place that its window was filled from.

    A window that lies wholly in padding names a place that may lie behind the image. Nothing is added there: torch
    writes it into what stands behind in memory.
    """
    places = self.shape[-spatial:]
    rows, count = dims.product(self.shape[:-spatial]), dims.product(places)
    shape = (rows, dims.product(grad_output.shape[-spatial:]))
    where, gradient = (reshape(v, shape) for v in (indices, widen(grad_output)))
    void = may_be_void(places, dilation)
    start = full(0, (rows, dims.add(count, 1) if void else count), gradient.dtype)
    if void:  # one place more takes what belongs nowhere
        where = op.Min(where, dim_scalar(count))
    found = op.ScatterElements(start, where, gradient, axis=1, reduction="add")
    found = slice_axis(found, 1, 0, count) if void else found
    return cast(reshape(found, self.shape), grad_output.dtype)
