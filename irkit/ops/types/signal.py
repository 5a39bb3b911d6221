"""Type rules of Fourier transforms and windows."""

from __future__ import annotations

from typing import Any

from irkit import dims
from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context


def infer_DFT(c: Context) -> Type:
    """x[..., n, ..., 1 or 2], length[]?, axis[]? -> [..., length, ..., 2]; one-sided: length // 2 + 1 places, or, in
    the inverse, real numbers [..., length, ..., 1] from as many"""
    x = c.tensor(0)
    rank = len(x.shape)
    if rank < 2:
        raise c.fail(f"the operand must have a signal axis and a last axis of 1 or 2, and has rank {rank}")
    if dims.same(x.shape[-1], 1) is False and dims.same(x.shape[-1], 2) is False:
        raise c.fail(f"the last axis has size {x.shape[-1]}, where 1 (real) or 2 (complex) is needed")
    one_sided, inverse = bool(c.attr("onesided")), bool(c.attr("inverse"))
    last = 1 if one_sided and inverse else 2
    axis = -2 if not c.has(2) else c.scalar(2)
    if type(axis) is not int:
        return Tensor(x.dtype, (*(dims.fresh() for _ in range(rank - 1)), last))
    axis = c.axis(axis, rank)
    if axis == rank - 1:
        raise c.fail("the last axis holds real and imaginary parts, and is not a signal axis")
    places = spectrum(c, x.shape[axis], one_sided, inverse)
    return Tensor(x.dtype, (*x.shape[:axis], places, *x.shape[axis + 1 : -1], last))


def spectrum(c: Context, size: Dim, one_sided: bool, inverse: bool) -> Dim:
    """How many places a DFT has on its axis."""
    default = dims.mul(dims.sub(size, 1), 2) if one_sided and inverse else size
    length = known_size(c, 1) if c.has(1) else default
    return dims.add(dims.floordiv(length, 2), 1) if one_sided and not inverse else length


def infer_STFT(c: Context) -> Type:
    """x[b, n, 1 or 2], step[], window[w]?, length[]? -> [b, (n - length) // step + 1, length (// 2 + 1), 2]"""
    x, step = c.ranked(0, 3), c.scalar(1)
    length: Dim = x.shape[1]
    if c.has(3):
        length = known_size(c, 3)
    if c.has(2):
        window = c.ranked(2, 1).shape[0]
        length = c.unify(length, window, "the window and frame_length") if c.has(3) else window
    if step is None:
        frames: Dim = dims.fresh()
    else:
        frames = dims.add(dims.floordiv(dims.sub(x.shape[1], length), step), 1)
    places = dims.add(dims.floordiv(length, 2), 1) if c.attr("onesided") else length
    return Tensor(x.dtype, (x.shape[0], frames, places, 2))


def infer_window(c: Context) -> Type:
    """size[] -> [size] of the element type `output_datatype`"""
    return Tensor(c.allowed(c.element("output_datatype", DType.FLOAT)), (known_size(c, 0),))


infer_HannWindow = infer_HammingWindow = infer_BlackmanWindow = infer_window


def known_size(c: Context, index: int) -> Dim:
    """The size that a scalar operand says, or a fresh one."""
    found: Any = c.scalar(index)
    return dims.fresh() if found is None else found


def infer_MelWeightMatrix(c: Context) -> Type:
    """num_mel_bins[], dft_length[], ... -> [dft_length // 2 + 1, num_mel_bins]"""
    bins, length = known_size(c, 0), c.scalar(1)
    rows = dims.fresh() if length is None else dims.add(dims.floordiv(length, 2), 1)
    return Tensor(c.allowed(c.element("output_datatype", DType.FLOAT)), (rows, bins))
