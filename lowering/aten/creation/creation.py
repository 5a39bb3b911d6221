"""Tensors made from numbers: filled, counted, triangular. What torch leaves undefined (`empty`) is 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import HALVES, DType, Tensor
from irkit.dims import Dim
from lowering.errors import Unsupported
from lowering.tensors.promotion import DEFAULT, Number, Operand, as_dim, cast, is_static, number_dtype, promote, scalar
from lowering.tensors.shaping import concat, expand, ints_scalar, iota, reshape, unsqueeze


def dtype_of(dtype: DType | None, expected: Any, otherwise: DType) -> DType:
    """The element type asked for, or that torch recorded, or the usual one."""
    if dtype is not None:
        return dtype
    return expected.dtype if isinstance(expected, Tensor) else otherwise


def fill(size: Sequence[Dim], value: Operand, dtype: DType) -> Value:
    """A tensor of one number (or of one scalar tensor's content)."""
    return expand(promote(value, to=dtype)[0], size)


# ---------------------------------------------------------------------------------------------- one number


def aten_full(size: Sequence[Dim], fill_value: Operand, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """fill_value everywhere; its own element type where `dtype` is None."""
    usual = fill_value.dtype if isinstance(fill_value, Value) else number_dtype(fill_value)
    return fill(size, fill_value, dtype_of(dtype, expected, usual))


def aten_full_like(self: Value, fill_value: Operand, *, dtype: DType | None = None) -> Value:
    """fill_value everywhere, in the shape of self."""
    return fill(self.shape, fill_value, dtype or self.dtype)


def aten_new_full(self: Value, size: Sequence[Dim], fill_value: Operand, *, dtype: DType | None = None) -> Value:
    """fill_value everywhere, in the element type of self where `dtype` is None."""
    return fill(size, fill_value, dtype or self.dtype)


def aten_fill(self: Value, value: Operand) -> Value:
    """value everywhere, in the shape and the element type of self."""
    if isinstance(value, Value):
        value = reshape(value, ())
    return fill(self.shape, value, self.dtype)


def aten_zero(self: Value) -> Value:
    """0 everywhere, in the shape and the element type of self."""
    return fill(self.shape, 0, self.dtype)


def aten_zeros(size: Sequence[Dim], *, dtype: DType | None = None, expected: Any = None) -> Value:
    """0 everywhere, and so in a tensor to be written (`empty`)."""
    return fill(size, 0, dtype_of(dtype, expected, DEFAULT))


def aten_zeros_like(self: Value, *, dtype: DType | None = None) -> Value:
    """0 everywhere, in the shape of self."""
    return fill(self.shape, 0, dtype or self.dtype)


def aten_new_zeros(self: Value, size: Sequence[Dim], *, dtype: DType | None = None) -> Value:
    """0 everywhere, in the element type of self where `dtype` is None."""
    return fill(size, 0, dtype or self.dtype)


def aten__new_zeros_with_same_feature_meta(self: Value, other: Value, *, self_num_batch_dims: int = 0) -> Value:
    """0 everywhere, in the element type of self: its first axes, of a batch, and then those of other."""
    return fill((*self.shape[:self_num_batch_dims], *other.shape), 0, self.dtype)


def aten_ones(size: Sequence[Dim], *, dtype: DType | None = None, expected: Any = None) -> Value:
    """1 everywhere."""
    return fill(size, 1, dtype_of(dtype, expected, DEFAULT))


def aten_ones_like(self: Value, *, dtype: DType | None = None) -> Value:
    """1 everywhere, in the shape of self."""
    return fill(self.shape, 1, dtype or self.dtype)


def aten_new_ones(self: Value, size: Sequence[Dim], *, dtype: DType | None = None) -> Value:
    """1 everywhere, in the element type of self where `dtype` is None."""
    return fill(size, 1, dtype or self.dtype)


def aten_empty_strided(
    size: Sequence[Dim], stride: Sequence[Dim], *, dtype: DType | None = None, expected: Any = None
) -> Value:
    """A tensor to be written: 0 everywhere."""
    return fill(size, 0, dtype_of(dtype, expected, DEFAULT))


def aten_new_empty_strided(
    self: Value, size: Sequence[Dim], stride: Sequence[Dim], *, dtype: DType | None = None
) -> Value:
    """A tensor to be written: 0 everywhere."""
    return fill(size, 0, dtype or self.dtype)


def aten_empty_permuted(
    size: Sequence[Dim], physical_layout: Sequence[int], *, dtype: DType | None = None, expected: Any = None
) -> Value:
    """A tensor to be written: 0 everywhere."""
    return fill(size, 0, dtype_of(dtype, expected, DEFAULT))


def aten_scalar_tensor(s: Number | Value, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """A number as a tensor without dimensions."""
    kind = dtype_of(dtype, expected, DEFAULT)
    return cast(s, kind) if isinstance(s, Value) else scalar(s, kind)


# ---------------------------------------------------------------------------------------------- counting


def aten_arange(end: Number, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """0, 1, ... below `end`."""
    return counted(0, end, 1, dtype, expected)


def aten_arange_start(start: Number, end: Number, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """start, start + 1, ... below `end`."""
    return counted(start, end, 1, dtype, expected)


def aten_arange_start_step(
    start: Number, end: Number, step: Number = 1, *, dtype: DType | None = None, expected: Any = None
) -> Value:
    """start, start + step, ... before `end`."""
    return counted(start, end, step, dtype, expected)


def counted(start: Any, end: Any, step: Any, dtype: DType | None, expected: Any) -> Value:
    """start, start + step, ... before `end`: a Range of i64, then arithmetic where the numbers are no integers."""
    kinds = [number_dtype(n) for n in (start, end, step)]
    usual = DType.INT64 if DEFAULT not in kinds else DEFAULT
    wanted = dtype_of(dtype, expected, usual)
    if DEFAULT not in kinds:
        return cast(op.Range(*(dim_scalar(as_dim(n)) for n in (start, end, step))), wanted)
    counts = isinstance(expected, Tensor) or is_static(start, end, step)
    if wanted.is_integer and (wanted is DType.INT64 or not counts):  # torch takes the bounds in the type asked for
        bounds = [dim_scalar(as_dim(math.trunc(n)) if isinstance(n, float) else n) for n in (start, end, step)]
        return cast(op.Range(*bounds), wanted)
    if any(isinstance(n, Value) for n in (start, end, step)):
        first, last, gap = (scalar(n, DType.DOUBLE) if not isinstance(n, Value) else n for n in (start, end, step))
        count = cast(op.Ceil(op.Div(op.Sub(last, first), gap)), DType.INT64)
        places = cast(op.Range(ints_scalar(0), count, ints_scalar(1)), DType.DOUBLE)
        return cast(op.Add(op.Mul(places, gap), first), wanted)
    if isinstance(expected, Tensor):
        (count,) = expected.shape
    elif is_static(start, end, step):
        count = max(math.ceil((end - start) / step), 0)
    else:
        raise Unsupported("the length of this arange is known to torch only")
    if wanted.is_integer:  # of other integers, torch counts between the bounds as they are given
        first, gap = (dim_scalar(as_dim(math.trunc(n)) if isinstance(n, float) else n) for n in (start, step))
        return cast(op.Add(op.Mul(iota(count), gap), first), wanted)
    places = cast(iota(count), wanted)
    if not (is_static(step) and step == 1):
        places = op.Mul(places, scalar(step, wanted))
    return places if is_static(start) and start == 0 else op.Add(places, scalar(start, wanted))


def aten_range(start: Number, end: Number, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """start, start + 1, ... up to and with `end`."""
    return aten_range_step(start, end, 1, dtype=dtype, expected=expected)


def aten_range_step(
    start: Number, end: Number, step: Number = 1, *, dtype: DType | None = None, expected: Any = None
) -> Value:
    """start, start + step, ... up to and with `end`."""
    wanted = dtype_of(dtype, expected, DEFAULT)
    if isinstance(expected, Tensor):
        (count,) = expected.shape
    else:
        count = math.floor((float(end) - float(start)) / float(step)) + 1  # type: ignore[arg-type]
    places = op.Mul(cast(iota(count), wanted), scalar(step, wanted))
    return op.Add(places, scalar(start, wanted))


def aten_linspace(
    start: Operand, end: Operand, steps: Dim, *, dtype: DType | None = None, expected: Any = None
) -> Value:
    """`steps` numbers from start to end at equal distances, each counted from the nearer end."""
    wanted = dtype_of(dtype, expected, DEFAULT)
    working = wanted if wanted.is_float else DType.DOUBLE
    return cast(linspace(*ends(start, end, wanted), steps, working, whole=not wanted.is_float), wanted)


def ends(start: Operand, end: Operand, dtype: DType) -> tuple[Operand, Operand]:
    """Where a row of that element type begins and ends: for integers, numbers without their fractions."""
    if dtype.is_float:
        return start, end
    first, last = (cast(v, dtype) if isinstance(v, Value) else scalar(v, dtype) for v in (start, end))
    return first, last


def linspace(start: Operand, end: Operand, steps: Dim, dtype: DType, whole: bool = False) -> Value:
    """`steps` floats from start to end at equal distances; with `whole` product and sum are rounded once, as torch's
    compiler makes of them, which decides where the fraction is cut off."""
    first, last = (reshape(v, ()) for v in promote(start, end, to=dtype))
    if type(steps) is int and steps <= 1:
        return expand(first, (steps,))
    places = iota(steps)
    gap = op.Div(op.Sub(last, first), scalar(dims.maximum(dims.sub(steps, 1), 1), dtype))
    back = op.Sub(dim_scalar(dims.sub(steps, 1)), places)
    if whole:
        rising = multiplied_and_added(cast(places, dtype), gap, first)
        falling = multiplied_and_added(cast(back, dtype), op.Neg(gap), last)
    else:
        rising = op.Add(first, op.Mul(cast(places, dtype), gap))
        falling = op.Sub(last, op.Mul(cast(back, dtype), gap))
    half = dims.maximum(dims.floordiv(steps, 2), 1)  # a row of one number has its beginning
    return op.Where(op.Less(places, dim_scalar(half)), rising, falling)


def multiplied_and_added(count: Value, gap: Value, start: Value) -> Value:
    """start + count * gap in f64, as good as rounded once: what Dekker's product and Knuth's sum lose is added again.

    `count` is a whole number below 2 ** 24.
    """
    high = cast(cast(gap, DType.FLOAT), DType.DOUBLE)
    product = op.Mul(count, gap)
    lost = op.Add(op.Sub(op.Mul(count, high), product), op.Mul(count, op.Sub(gap, high)))
    total = op.Add(start, product)
    part = op.Sub(total, start)
    rest = op.Add(op.Sub(start, op.Sub(total, part)), op.Sub(product, part))
    return op.Add(total, op.Add(rest, lost))


def aten_logspace(
    start: Operand,
    end: Operand,
    steps: Dim,
    base: float = 10.0,
    *,
    dtype: DType | None = None,
    expected: Any = None,
) -> Value:
    """base ** x for `steps` numbers x from start to end at equal distances."""
    wanted = dtype_of(dtype, expected, DEFAULT)
    working = DType.FLOAT if wanted in HALVES else wanted if wanted.is_float else DType.DOUBLE
    first, last = ends(start, end, wanted)
    if wanted in HALVES and steps != 1:  # torch rounds the ends of a row of several half numbers, then takes f32
        first, last = (cast(v, wanted) if isinstance(v, Value) else scalar(v, wanted) for v in (first, last))
    return cast(op.Pow(scalar(base, working), linspace(first, last, steps, working)), wanted)


# ---------------------------------------------------------------------------------------------- triangles


def aten_eye(n: Dim, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """The unit matrix of n rows."""
    return aten_eye_m(n, n, dtype=dtype, expected=expected)


def aten_eye_m(n: Dim, m: Dim, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """n rows and m columns, 1 where row and column are equal, else 0."""
    return cast(op.Equal(unsqueeze(iota(n), 1), iota(m)), dtype_of(dtype, expected, DEFAULT))


def aten_tril(self: Value, diagonal: Dim = 0) -> Value:
    """The matrices of self with 0 above a diagonal."""
    return op.Trilu(self, dim_scalar(diagonal), upper=0)


def aten_triu(self: Value, diagonal: Dim = 0) -> Value:
    """The matrices of self with 0 below a diagonal."""
    return op.Trilu(self, dim_scalar(diagonal), upper=1)


def aten_tril_indices(
    row: Dim, col: Dim, offset: Dim = 0, *, dtype: DType | None = None, expected: Any = None
) -> Value:
    """The rows and the columns of the lower triangle, (2, count)."""
    wanted = dtype_of(dtype, expected, DType.INT64)
    if type(row) is int and type(col) is int and type(offset) is int:
        return const(np.stack(np.tril_indices(row, offset, col)).astype(wanted.numpy))
    count = triangle_count(col, row, dims.mul(offset, -1))
    return cast(places_where(op.LessOrEqual, row, col, offset, count), wanted)


def aten_triu_indices(
    row: Dim, col: Dim, offset: Dim = 0, *, dtype: DType | None = None, expected: Any = None
) -> Value:
    """The rows and the columns of the upper triangle, (2, count)."""
    wanted = dtype_of(dtype, expected, DType.INT64)
    if type(row) is int and type(col) is int and type(offset) is int:
        return const(np.stack(np.triu_indices(row, offset, col)).astype(wanted.numpy))
    return cast(places_where(op.GreaterOrEqual, row, col, offset, triangle_count(row, col, offset)), wanted)


def places_where(compare: Callable[..., Value], rows: Dim, columns: Dim, offset: Dim, count: Dim) -> Value:
    """The places of a matrix, row by row, where column - row compares so with offset: (2, count) of i64."""
    over = op.Sub(iota(columns), unsqueeze(iota(rows), 1))
    inside = reshape(compare(over, dim_scalar(offset)), (dims.mul(rows, columns),))
    places = reshape(op.Compress(iota(dims.mul(rows, columns)), inside, axis=0), (count,))
    width = dim_scalar(dims.maximum(columns, 1))  # without columns there is no place to divide
    return concat([unsqueeze(op.Div(places, width), 0), unsqueeze(op.Mod(places, width), 0)], 0)


def triangle_count(rows: Dim, columns: Dim, offset: Dim) -> Dim:
    """How many places of a matrix have column - row >= offset: rows that shrink by one, cut off on both sides."""

    def summed(widest: Dim) -> Dim:
        """1 + 2 + ... + widest; 0 where that is below 1"""
        top = dims.maximum(widest, 0)
        return dims.floordiv(dims.mul(top, dims.add(top, 1)), 2)

    first = dims.sub(columns, offset)
    beyond = dims.mul(offset, -1)
    whole = dims.sub(summed(first), summed(dims.sub(first, rows)))
    return dims.sub(whole, dims.sub(summed(beyond), summed(dims.sub(beyond, rows))))


# ---------------------------------------------------------------------------------------------- windows


def window(window_length: Dim, periodic: bool, dtype: DType, weights: Callable[[Value], Value]) -> Value:
    """A window function of the phase i / (n - 1), or i / n where periodic."""
    if type(window_length) is int and window_length <= 1:
        return fill((window_length,), 1, dtype)
    span = window_length if periodic else dims.sub(window_length, 1)
    if type(window_length) is int:
        return weights(op.Div(cast(iota(window_length), dtype), scalar(span, dtype)))
    phase = op.Div(cast(iota(window_length), dtype), scalar(dims.maximum(span, 1), dtype))
    alone = op.Equal(dim_scalar(window_length), scalar(1, DType.INT64))
    return op.Where(alone, scalar(1, dtype), weights(phase))


def cosines(phase: Value, *terms: float) -> Value:
    """terms[0] + terms[1] * cos(2 * pi * phase) + terms[2] * cos(4 * pi * phase) + ..."""
    result = scalar(terms[0], phase.dtype)
    for k, term in enumerate(terms[1:], 1):
        result = op.Add(result, op.Mul(op.Cos(op.Mul(phase, 2 * math.pi * k)), term))
    return result


def aten_hann_window(
    window_length: Dim, periodic: bool = True, *, dtype: DType | None = None, expected: Any = None
) -> Value:
    """0.5 - 0.5 * cos"""
    return window(window_length, periodic, dtype_of(dtype, expected, DEFAULT), lambda p: cosines(p, 0.5, -0.5))


def aten_hamming_window(
    window_length: Dim,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DType | None = None,
    expected: Any = None,
) -> Value:
    """alpha - beta * cos"""
    return window(window_length, periodic, dtype_of(dtype, expected, DEFAULT), lambda p: cosines(p, alpha, -beta))


def aten_blackman_window(
    window_length: Dim, periodic: bool = True, *, dtype: DType | None = None, expected: Any = None
) -> Value:
    """0.42 - 0.5 * cos + 0.08 * cos of twice the phase"""
    wanted = dtype_of(dtype, expected, DEFAULT)
    return window(window_length, periodic, wanted, lambda p: cosines(p, 0.42, -0.5, 0.08))


def aten_bartlett_window(
    window_length: Dim, periodic: bool = True, *, dtype: DType | None = None, expected: Any = None
) -> Value:
    """1 - |2 * phase - 1|"""
    wanted = dtype_of(dtype, expected, DEFAULT)
    return window(window_length, periodic, wanted, lambda p: op.Sub(1, op.Abs(op.Sub(op.Mul(p, 2), 1))))


# ---------------------------------------------------------------------------------------------- storage


def aten_resize(self: Value, size: Sequence[Dim]) -> Value:
    """The elements of self under other dimensions.  An empty self gives zeros, where torch leaves them undefined."""
    if dims.same(dims.product(self.shape), dims.product(size)) is True:
        return reshape(self, size)
    if dims.same(dims.product(self.shape), 0) is True:
        return expand(scalar(0, self.dtype), size)
    raise Unsupported("resize changes the number of elements of a tensor that holds some")


def aten_resize_as(self: Value, the_template: Value) -> Value:
    """The elements of self under the dimensions of the_template (see `aten_resize`)."""
    return aten_resize(self, the_template.shape)
