"""Convolutions and transposed convolutions of one to three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.errors import Unsupported
from lowering.tensors.pieces import per_axis
from lowering.tensors.promotion import cast
from lowering.tensors.shaping import ints, iota, permute, reshape, squeeze, unsqueeze


def convolve(
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Any,
    pads: Sequence[Any],
    dilation: Any,
    groups: Dim,
    transposed: bool = False,
    output_padding: Any = 0,
) -> Value:
    """Conv or ConvTranspose of (n, c, *size) or (c, *size). `pads`: begin of every axis, then end of every axis.

    Integers, which ONNX does not convolve, are computed in f64, where their sums are exact below 2**53. A number of
    groups that varies, which no attribute holds, makes it a product of matrices for each group.
    """
    spatial = weight.rank - 2
    if any(type(p) is not int for p in pads):
        if transposed:
            raise Unsupported(f"a transposed convolution's padding must be numbers, and is {list(pads)}")
        x = op.Pad(x, shape_vector(pads, x, weight), None, ints(*range(x.rank - spatial, x.rank)))
        pads = (0,) * len(pads)
    if x.dtype.is_integer:
        parts = [cast(v, DType.DOUBLE) if v is not None else None for v in (x, weight, bias)]
        made = convolve(*parts, stride, pads, dilation, groups, transposed, output_padding)  # type: ignore[arg-type]
        return cast(made, x.dtype)
    if type(groups) is not int:
        batched = x if x.rank == spatial + 2 else unsqueeze(x, 0)
        several = many_transposed if transposed else many_groups
        made = several(batched, weight, groups, stride, pads, dilation, per_axis(output_padding, spatial))
        made = made if bias is None else op.Add(made, reshape(bias, (bias.shape[0], *(1,) * spatial)))
        return made if x.rank == spatial + 2 else squeeze(made, 0)
    attributes: dict[str, Any] = {
        "strides": per_axis(stride, spatial), "dilations": per_axis(dilation, spatial), "pads": tuple(pads),
        "group": groups,
    }  # fmt: skip
    if all(type(d) is int for d in weight.shape[2:]):
        attributes["kernel_shape"] = weight.shape[2:]
    batched = x if x.rank == spatial + 2 else unsqueeze(x, 0)
    if transposed:
        made = transposed_conv(batched, weight, bias, attributes, per_axis(output_padding, spatial))
    else:
        made = op.Conv(batched, weight, bias, **attributes)
    return made if batched is x else squeeze(made, 0)


def transposed_conv(
    x: Value, weight: Value, bias: Value | None, attributes: dict[str, Any], more: Sequence[int]
) -> Value:
    """ConvTranspose with `more` elements at the end of every axis.

    ONNX Runtime wants fewer of them than the stride has; others first take back padding, then are zeros plus the bias.
    """
    strides, pads = attributes["strides"], list(attributes["pads"])
    if all(m < s for m, s in zip(more, strides, strict=True)):
        return op.ConvTranspose(x, weight, bias, **attributes, output_padding=more if any(more) else None)
    spatial = len(more)
    back = [min(m, p) for m, p in zip(more, pads[spatial:], strict=True)]
    attributes = attributes | {"pads": (*pads[:spatial], *(p - b for p, b in zip(pads[spatial:], back, strict=True)))}
    rest = [m - b for m, b in zip(more, back, strict=True)]
    if not any(rest):
        return op.ConvTranspose(x, weight, bias, **attributes)
    made = op.Pad(op.ConvTranspose(x, weight, **attributes), ints(*(0,) * (spatial + 4), *rest))
    return made if bias is None else op.Add(made, reshape(bias, (bias.shape[0], *(1,) * spatial)))


def many_groups(
    x: Value, weight: Value, groups: Dim, stride: Any, pads: Sequence[int], dilation: Any, more: Sequence[int]
) -> Value:
    """The convolution of (n, g * i, *size) and (g * o, i, *kernel) -> (n, g * o, *windows), g a size that varies: of
    each group its windows as columns, times its weights."""
    kernel, taken, counts = kernel_of(weight), x, list[Dim]()
    spatial = len(kernel)
    if any(pads):
        taken = op.Pad(x, np.array([0, 0, *pads[:spatial], 0, 0, *pads[spatial:]], np.int64))
    for d, (step, gap) in enumerate(zip(per_axis(stride, spatial), per_axis(dilation, spatial), strict=True)):
        axis = 2 + 2 * d
        windows = dims.add(dims.floordiv(dims.sub(taken.shape[axis], gap * (kernel[d] - 1) + 1), step), 1)
        counts.append(windows)
        taken = op.Gather(taken, windowed(windows, kernel[d], step, gap), axis=axis)
    places, ends = range(2, 2 + 2 * spatial, 2), range(3, 3 + 2 * spatial, 2)
    depth = dims.product(weight.shape[1:])
    columns = reshape(permute(taken, (0, 1, *places, *ends)), (x.shape[0], groups, depth, dims.product(counts)))
    rows = reshape(weight, (groups, dims.floordiv(weight.shape[0], groups), depth))
    return reshape(op.MatMul(rows, columns), (x.shape[0], weight.shape[0], *counts))


def many_transposed(
    x: Value, weight: Value, groups: Dim, stride: Any, pads: Sequence[int], dilation: Any, more: Sequence[int]
) -> Value:
    """The transposed convolution of (n, g * i, *size) and (g * i, o, *kernel) -> (n, g * o, *sizes), g a size that
    varies: the weights of each group times its elements, added up where the windows lie."""
    kernel = kernel_of(weight)
    spatial = len(kernel)
    strides, gaps = per_axis(stride, spatial), per_axis(dilation, spatial)
    inside, outside = dims.floordiv(weight.shape[0], groups), weight.shape[1]
    depth = dims.product(weight.shape[1:])
    rows = permute(reshape(weight, (groups, inside, depth)), (0, 2, 1))
    made = op.MatMul(rows, reshape(x, (x.shape[0], groups, inside, dims.product(x.shape[2:]))))
    sizes = [
        dims.add(
            dims.mul(dims.sub(x.shape[2 + d], 1), strides[d]), gaps[d] * (kernel[d] - 1) + 1 + more[d] - pads[d] * 2
        )
        for d in range(spatial)
    ]
    columns = reshape(made, (x.shape[0], dims.product((groups, depth)), dims.product(x.shape[2:])))
    folded = op.Col2Im(
        columns, shape_vector(sizes), shape_vector(kernel), dilations=gaps, pads=tuple(pads), strides=strides
    )
    return reshape(folded, (x.shape[0], dims.product((groups, outside)), *sizes))


def kernel_of(weight: Value) -> tuple[int, ...]:
    """The sizes of the windows. Raises Unsupported where one varies."""
    kernel = tuple(size for size in weight.shape[2:] if type(size) is int)
    if len(kernel) != weight.rank - 2:
        raise Unsupported("a convolution of as many groups as a size says needs windows of a size that is a number")
    return kernel


def mirrored(padding: Any, spatial: int) -> tuple[Any, ...]:
    """Pads at the beginning and at the end of every axis, from one number for both."""
    return per_axis(padding, spatial) * 2


def named_pads(padding: str, kernel: Sequence[Dim], dilation: Any) -> tuple[Dim, ...]:
    """Pads for "valid" and "same"; where "same" needs an odd number, the end gets one more."""
    if padding == "valid":
        return (0,) * (2 * len(kernel))
    totals = [dims.mul(d, dims.sub(k, 1)) for k, d in zip(kernel, per_axis(dilation, len(kernel)), strict=True)]
    first = [dims.floordiv(t, 2) for t in totals]
    return (*first, *(dims.sub(t, f) for t, f in zip(totals, first, strict=True)))


def aten_conv1d(
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Dim = 1,
) -> Value:
    """input: (n, c, l) or (c, l); weight: (o, c / groups, k); bias: (o,)."""
    return convolve(input, weight, bias, stride, mirrored(padding, weight.rank - 2), dilation, groups)


def aten_conv1d_padding(
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: str = "valid",
    dilation: Any = 1,
    groups: Dim = 1,
) -> Value:
    """As conv1d, with padding "same" or "valid"."""
    return convolve(input, weight, bias, stride, named_pads(padding, weight.shape[2:], dilation), dilation, groups)


def aten_conv_transpose1d(
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: Dim = 1,
    dilation: Any = 1,
) -> Value:
    """input: (n, c, l) or (c, l); weight: (c, o / groups, k); bias: (o,)."""
    pads = mirrored(padding, weight.rank - 2)
    return convolve(input, weight, bias, stride, pads, dilation, groups, True, output_padding)


def aten_convolution(
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: Dim,
) -> Value:
    """Any of the convolutions, as core ATen has them."""
    pads = mirrored(padding, weight.rank - 2)
    return convolve(input, weight, bias, stride, pads, dilation, groups, transposed, output_padding)


def aten_slow_conv3d(
    self: Value, weight: Value, kernel_size: Any, bias: Value | None = None, stride: Any = 1, padding: Any = 0
) -> Value:
    """conv3d with the size of the kernel repeated in an argument"""
    return convolve(self, weight, bias, stride, mirrored(padding, weight.rank - 2), 1, 1)


def aten__conv_depthwise2d(
    self: Value, weight: Value, kernel_size: Any, bias: Value | None, stride: Any, padding: Any, dilation: Any
) -> Value:
    """One kernel for each channel.  weight: (c * m, 1, *kernel)."""
    pads = mirrored(padding, weight.rank - 2)
    return convolve(self, weight, bias, stride, pads, dilation, self.shape[-weight.rank + 1])


def aten_conv_tbc(self: Value, weight: Value, bias: Value, pad: int = 0) -> Value:
    """Convolution with time first.  self: (t, b, c); weight: (k, c, o); bias: (o,)."""
    made = convolve(permute(self, (1, 2, 0)), permute(weight, (2, 1, 0)), bias, 1, (pad, pad), 1, 1)
    return permute(made, (2, 0, 1))


# ---------------------------------------------------------------------------------------------- unfold and fold


def aten_im2col(self: Value, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    """(n, c, h, w) or (c, h, w) -> (n, c * kh * kw, blocks): every window of the padded image as a column."""
    kernel, dilation, padding, stride = (tuple(per_axis(v, 2)) for v in (kernel_size, dilation, padding, stride))
    x = self if self.rank == 4 else unsqueeze(self, 0)
    if any(padding):
        x = op.Pad(x, np.array([0, 0, *padding, 0, 0, *padding], np.int64))
    counts: list[Dim] = []
    for d in range(2):
        # Axis 2 + d becomes two: the place in the window, then the window.
        axis = 2 + 2 * d
        span = dilation[d] * (kernel[d] - 1) + 1
        windows = dims.add(dims.floordiv(dims.sub(x.shape[axis], span), stride[d]), 1)
        counts.append(windows)
        x = op.Gather(x, windowed(windows, kernel[d], stride[d], dilation[d]), axis=axis)
    n, c = x.shape[:2]
    made = op.Reshape(
        permute(x, (0, 1, 2, 4, 3, 5)), shape_vector((n, dims.product((c, *kernel)), dims.product(counts)))
    )
    return made if self.rank == 4 else squeeze(made, 0)


def windowed(windows: Dim, kernel: int, stride: int, dilation: int) -> Value:
    """(kernel, windows) positions: place i of window j stands at j * stride + i * dilation."""
    starts = iota(windows) if stride == 1 else op.Mul(iota(windows), stride)
    return op.Add(starts, np.arange(0, kernel * dilation, dilation, dtype=np.int64)[:, None])


def aten_col2im(self: Value, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    """(n, c * kh * kw, blocks) -> (n, c, h, w): columns added up where their windows lie."""
    kernel, dilation, padding, stride = (tuple(per_axis(v, 2)) for v in (kernel_size, dilation, padding, stride))
    x = self if self.rank == 3 else unsqueeze(self, 0)
    made = op.Col2Im(
        x, shape_vector(output_size), shape_vector(kernel), dilations=dilation, pads=padding * 2, strides=stride
    )
    return made if self.rank == 3 else squeeze(made, 0)
