"""Reductions: over some dimensions, or over all where none are named."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.tensors.pieces import full, mean
from lowering.tensors.promotion import Number, cast, highest, is_static, lowest, scalar, sum_dtype, to_float, truth
from lowering.tensors.shaping import axes, flat, ints, may_be_empty, pick_index, reshape, slice_axis, unsqueeze

Axes = int | Sequence[int] | None


def reduced(function: str, x: Value, dim: Axes, keepdim: bool) -> Value:
    """The ONNX reduction of that name over `dim` (all dimensions where None or empty); x itself without dimensions."""
    where = axes(dim, x.rank)
    if not where:
        return x
    over = () if len(where) == x.rank else (ints(*where),)
    return getattr(op, function)(x, *over, keepdims=int(keepdim))


def count_of(x: Value, dim: Axes) -> Dim:
    """How many elements are reduced into one."""
    return dims.product(x.shape[a] for a in axes(dim, x.rank))


# ---------------------------------------------------------------------------------------------- sums


def aten_sum(self: Value, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None) -> Value:
    """The sum; integers and bools become i64."""
    return accumulated("ReduceSum", self, sum_dtype(self, dtype), dim, keepdim)


def accumulated(function: str, x: Value, dtype: DType, dim: Axes, keepdim: bool) -> Value:
    """A sum or product as `dtype`: integers wrap around, of bools it tells whether some, or all, are true."""
    if dtype is DType.BOOL:
        return (aten_any if function == "ReduceSum" else aten_all)(truth(x), dim, keepdim)
    if not dtype.is_integer:
        return reduced(function, cast(x, dtype), dim, keepdim)
    whole = cast(cast(x, dtype), DType.INT64)
    return cast((whole_sum if function == "ReduceSum" else whole_product)(whole, dim, keepdim), dtype)


_SMALL = frozenset((DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32))


def whole_sum(x: Value, dim: Axes, keepdim: bool) -> Value:
    """The sum of i64, which wraps around.

    ONNX Runtime adds integers as f64, and so rounds what is beyond 2**53 and stops at the greatest number. The upper
    and the lower halves of the bits are summed apart, which is exact for up to two million elements; integers of 32
    bits and fewer need no such care.
    """
    source = x.inputs[0] if x.op == "Cast" else x
    if (source is not None and source.dtype in _SMALL) or x.rank == 0:
        return reduced("ReduceSum", x, dim, keepdim)
    low = op.BitwiseAnd(x, 2**32 - 1)
    high = op.Div(op.Sub(x, low), 2**32)
    high, low = (reduced("ReduceSum", part, dim, keepdim) for part in (high, low))
    return op.Add(op.Mul(high, 2**32), low)


def whole_product(x: Value, dim: Axes, keepdim: bool) -> Value:
    """The product of i64, which wraps around: the last of the running products. ONNX Runtime's ReduceProd rounds."""
    if x.rank == 0:
        return x
    where = axes(dim, x.rank)
    if len(where) > 1:
        return whole_product(flat(x), 0, False)
    at = next(iter(where))
    if may_be_empty(x.shape[at]):
        x = op.Concat(full(1, (*x.shape[:at], 1, *x.shape[at + 1 :]), x.dtype), x, axis=at)
    products = op.CumProd(x, const(at))
    return slice_axis(products, at, -1, None) if keepdim else pick_index(products, at, -1)


def aten_nansum(self: Value, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None) -> Value:
    """The sum with NaN taken as 0."""
    return aten_sum(without_nan(self), dim, keepdim, dtype=dtype)


def without_nan(x: Value) -> Value:
    """x with 0 for NaN."""
    return op.Where(op.IsNaN(x), scalar(0, x.dtype), x) if x.dtype.is_float else x


def aten_mean(self: Value, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None) -> Value:
    """The mean; NaN of nothing."""
    return mean_of(self if dtype is None else cast(self, dtype), dim, keepdim)


def mean_of(x: Value, dim: Axes, keepdim: bool) -> Value:
    """The mean; NaN of nothing."""
    where = axes(dim, x.rank)
    return mean(x, None if len(where) == x.rank else where, keepdim) if where else x


def aten_nanmean(self: Value, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None) -> Value:
    """The mean of what is not NaN."""
    x = self if dtype is None else cast(self, dtype)
    count = reduced("ReduceSum", cast(op.Not(op.IsNaN(x)), x.dtype), dim, keepdim)
    return op.Div(reduced("ReduceSum", without_nan(x), dim, keepdim), count)


def aten_prod(self: Value, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None) -> Value:
    """The product; integers and bools become i64."""
    return accumulated("ReduceProd", self, sum_dtype(self, dtype), dim, keepdim)


def aten_count_nonzero(self: Value, dim: Axes = None) -> Value:
    """How many elements are not 0, as i64."""
    return reduced("ReduceSum", cast(truth(self), DType.INT64), dim, False)


def aten_trace(self: Value) -> Value:
    """The sum of the diagonal of a matrix."""
    x = cast(self, sum_dtype(self))
    rows, columns = (op.Range(0, _size(self, i), 1) for i in range(2))
    return aten_sum(op.Where(op.Equal(unsqueeze(rows, 1), columns), x, scalar(0, x.dtype)))


def _size(x: Value, index: int) -> Value:
    return scalar(x.shape[index], DType.INT64)


# ---------------------------------------------------------------------------------------------- extremes

_REDUCIBLE = frozenset((DType.BOOL, DType.INT8, DType.UINT8, DType.INT32, DType.INT64, DType.UINT32, DType.UINT64))


def extreme(function: str, x: Value, dim: Axes, keepdim: bool) -> Value:
    """ReduceMax or ReduceMin in the element type of x, NaN where one is in reach. i16 and u16, which ONNX leaves out,
    go through i32."""
    if x.dtype.is_float or x.dtype in _REDUCIBLE:
        return reduced(function, x, dim, keepdim)
    return cast(reduced(function, cast(x, DType.INT32), dim, keepdim), x.dtype)


def aten_amax(self: Value, dim: Axes = (), keepdim: bool = False) -> Value:
    """The largest element."""
    return extreme("ReduceMax", self, dim, keepdim)


def aten_amin(self: Value, dim: Axes = (), keepdim: bool = False) -> Value:
    """The smallest element."""
    return extreme("ReduceMin", self, dim, keepdim)


def aten_aminmax(self: Value, *, dim: int | None = None, keepdim: bool = False) -> tuple[Value, Value]:
    """The smallest and the largest element."""
    lowest_, highest_ = aten_amin(self, dim, keepdim), aten_amax(self, dim, keepdim)
    if dim is None and keepdim:
        shape = (1,) * self.rank
        return reshape(lowest_, shape), reshape(highest_, shape)
    return lowest_, highest_


def aten_max_dim(self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The largest element along `dim`, and where it stands first."""
    return aten_amax(self, dim, keepdim), position("ArgMax", self, dim, keepdim)


def aten_min_dim(self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The smallest element along `dim`, and where it stands first."""
    return aten_amin(self, dim, keepdim), position("ArgMin", self, dim, keepdim)


def position(function: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    """Where along `dim`, or in x laid flat, the first extreme element stands, as i64: the first NaN where one is."""
    x = cast(x, DType.INT32) if x.dtype is DType.BOOL else x
    if x.rank == 0:
        return scalar(0, DType.INT64)
    if dim is None:
        place = position(function, op.Reshape(x, ints(-1)), 0, False)
        return reshape(place, (1,) * x.rank) if keepdim else place
    options = {"axis": dim % x.rank, "keepdims": int(keepdim)}
    return getattr(op, function)(x, **options)


def aten_argmax(self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """Where the largest element stands first: along `dim`, or in self laid flat."""
    return position("ArgMax", self, dim, keepdim)


def aten_argmin(self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """Where the smallest element stands first: along `dim`, or in self laid flat."""
    return position("ArgMin", self, dim, keepdim)


def aten_all(self: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    """True where no element is 0, and of nothing; a u8 for u8."""
    if may_be_empty(count_of(self, dim)):
        return cast(op.Not(some(op.Not(truth(self)), dim, keepdim)), truth_dtype(self))
    return cast(reduced("ReduceMin", truth(self), dim, keepdim), truth_dtype(self))


def aten_any(self: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    """True where some element is not 0, and so not of nothing; a u8 for u8."""
    return cast(some(truth(self), dim, keepdim), truth_dtype(self))


def some(x: Value, dim: Axes, keepdim: bool) -> Value:
    """Whether some of these bools are true: a sum where there may be none, for ONNX Runtime has no extreme of those."""
    if not may_be_empty(count_of(x, dim)):
        return reduced("ReduceMax", x, dim, keepdim)
    return truth(reduced("ReduceSum", cast(x, DType.FLOAT), dim, keepdim))


def truth_dtype(x: Value) -> DType:
    """The element type of `all` and `any`: that of bytes stays."""
    return DType.UINT8 if x.dtype is DType.UINT8 else DType.BOOL


# ---------------------------------------------------------------------------------------------- variance


def variance(x: Value, dim: Axes, correction: Number | None, keepdim: bool) -> tuple[Value, Value]:
    """(variance, mean) over `dim`: the squares of deviations, summed and divided by count - correction (1 where None).

    A divisor below 0 counts as 0, which gives inf or NaN.
    """
    correction = 1 if correction is None else correction
    mean = mean_of(x, dim, True)
    deviation = op.Sub(x, mean)
    squares = op.Mul(deviation, deviation)
    shown = mean if keepdim else _dropped(mean, dim, x.rank)
    if is_static(correction) and correction == 0:
        return mean_of(squares, dim, keepdim), shown
    total = reduced("ReduceSum", squares, dim, keepdim)
    return op.Div(total, divisor(count_of(x, dim), correction, x.dtype)), shown


def divisor(count: Dim, correction: Number, dtype: DType) -> Value:
    """max(count - correction, 0) as a number of that type; of nothing it is 0, also by a correction below 0."""
    if is_static(count, correction):
        freedom = float(count) - float(correction) if count != 0 else 0.0  # type: ignore[arg-type]
        return scalar(max(freedom, 0.0), dtype)
    above = is_static(correction) and correction >= 0  # type: ignore[operator]
    some = 1 if above or not may_be_empty(count) else dims.minimum(count, 1)
    if isinstance(correction, float) and correction != int(correction):
        return op.Mul(op.Max(op.Sub(scalar(count, dtype), correction), 0), scalar(some, dtype))
    whole = int(correction) if isinstance(correction, float) else correction
    return scalar(dims.mul(dims.maximum(dims.sub(count, whole), 0), some), dtype)  # type: ignore[arg-type]


def _dropped(x: Value, dim: Axes, rank: int) -> Value:
    where = axes(dim, rank)
    return op.Squeeze(x, ints(*where)) if where else x


def _rooted(pair: tuple[Value, Value]) -> tuple[Value, Value]:
    return op.Sqrt(pair[0]), pair[1]


Spread = Value | tuple[Value, Value]


def forms_of(result: Callable[[tuple[Value, Value]], Spread]) -> list[Callable[..., Spread]]:
    """The converters of what `result` makes of the variance and the mean: with a correction, of all elements, and along
    `dim`; the latter two divide by count - 1 where `unbiased`, else by count."""

    def corrected(self: Value, dim: Axes = None, *, correction: Number | None = None, keepdim: bool = False) -> Spread:
        return result(variance(self, dim, correction, keepdim))

    def of_all(self: Value, unbiased: bool = True) -> Spread:
        return result(variance(self, None, int(unbiased), False))

    def along(self: Value, dim: Axes, unbiased: bool = True, keepdim: bool = False) -> Spread:
        return result(variance(self, dim, int(unbiased), keepdim))

    return [corrected, of_all, along]


aten_var_correction, aten_var_default, aten_var_dim = forms_of(lambda both: both[0])
aten_std_correction, aten_std_default, aten_std_dim = forms_of(lambda both: op.Sqrt(both[0]))
aten_var_mean_correction, aten_var_mean_default, aten_var_mean_dim = forms_of(lambda both: both)
aten_std_mean_correction, aten_std_mean_default, aten_std_mean_dim = forms_of(_rooted)


# ---------------------------------------------------------------------------------------------- norms


def vector_norm(x: Value, order: Number, dim: Axes, keepdim: bool) -> Value:
    """(sum of |x| ** order) ** (1 / order); the limits of that for inf, -inf, and the count of what is not 0 for 0."""
    power = float(order)  # type: ignore[arg-type]
    if x.rank == 0:
        return cast(truth(x), x.dtype) if power == 0 else op.Abs(x)
    simple: dict[float, Callable[[], Value]] = {
        2.0: lambda: reduced("ReduceL2", x, dim, keepdim),
        1.0: lambda: reduced("ReduceL1", x, dim, keepdim),
        0.0: lambda: reduced("ReduceSum", cast(truth(x), x.dtype), dim, keepdim),
        math.inf: lambda: extreme("ReduceMax", op.Abs(x), dim, keepdim),
        -math.inf: lambda: extreme("ReduceMin", op.Abs(x), dim, keepdim),
    }
    if power in simple:
        return simple[power]()
    total = reduced("ReduceSum", op.Pow(op.Abs(x), scalar(power, x.dtype)), dim, keepdim)
    return op.Pow(total, scalar(1 / power, x.dtype))


def aten_linalg_vector_norm(
    self: Value, ord: Number = 2, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Value:
    """The norm of order `ord` of vectors along `dim`, or of all elements."""
    return vector_norm(cast(self, dtype) if dtype is not None else self, ord, dim, keepdim)


def aten_norm(
    self: Value, p: Number | None = 2, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Value:
    """The norm of order p (2 where None) of vectors along `dim`, or of all elements."""
    return aten_linalg_vector_norm(self, 2 if p is None else p, dim, keepdim, dtype=dtype)


def aten_frobenius_norm(self: Value, dim: Axes, keepdim: bool = False) -> Value:
    """The square root of the sum of squares."""
    return vector_norm(self, 2, dim, keepdim)


def aten_dist(self: Value, other: Value, p: Number = 2) -> Value:
    """The norm of order p of self - other, over all elements."""
    return vector_norm(op.Sub(self, other), p, None, False)


def aten_logsumexp(self: Value, dim: Axes, keepdim: bool = False) -> Value:
    """log(sum(exp(self))) without overflow; -inf of nothing but -inf."""
    x = to_float(self)
    if x.rank == 0:
        return x
    peak = reduced("ReduceMax", x, dim, True)
    # Subtracting an infinite peak would give NaN.
    shift = op.Where(op.IsInf(peak), scalar(0, x.dtype), peak)
    total = op.Log(reduced("ReduceSum", op.Exp(op.Sub(x, shift)), dim, keepdim))
    return op.Add(total, shift if keepdim else _dropped(shift, dim, x.rank))


def identity_of(reduction: str, dtype: DType) -> Number:
    """The number that leaves a reduction ("amax", "amin", "sum", "prod") as it is."""
    return {"amax": lowest(dtype), "amin": highest(dtype), "prod": 1}.get(reduction, 0)
