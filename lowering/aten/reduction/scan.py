"""Running sums, products and extremes along a dimension."""

from __future__ import annotations

import math

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.elementwise.transcendental import aten_logaddexp
from lowering.tensors.promotion import cast, highest, lowest, scalar, sum_dtype, to_float
from lowering.tensors.shaping import axis, concat, expand, slice_axis


def aten_cumsum(self: Value, dim: int, *, dtype: DType | None = None) -> Value:
    """The sums of the first 1, 2, ... elements along `dim`; integers and bools become i64."""
    return running("CumSum", cast(self, sum_dtype(self, dtype)), dim)


def aten_cumprod(self: Value, dim: int, *, dtype: DType | None = None) -> Value:
    """The products of the first 1, 2, ... elements along `dim`; integers and bools become i64."""
    return running("CumProd", cast(self, sum_dtype(self, dtype)), dim)


_CUMULABLE = frozenset((DType.INT32, DType.INT64, DType.UINT32, DType.UINT64))


def running(function: str, x: Value, dim: int) -> Value:
    """CumSum or CumProd; integers that ONNX leaves out go through i64."""
    if x.rank == 0:
        return x
    wide = x if x.dtype.is_float or x.dtype in _CUMULABLE else cast(x, DType.INT64)
    return cast(getattr(op, function)(wide, const(axis(dim, x.rank))), x.dtype)


def aten_cummax(self: Value, dim: int) -> tuple[Value, Value]:
    """The largest of the first 1, 2, ... elements along `dim`, and where it stands, the last of equal ones."""
    return running_extreme(self, dim, largest=True)


def aten_cummin(self: Value, dim: int) -> tuple[Value, Value]:
    """The smallest of the first 1, 2, ... elements along `dim`, and where it stands, the last of equal ones."""
    return running_extreme(self, dim, largest=False)


def running_extreme(x: Value, dim: int, *, largest: bool) -> tuple[Value, Value]:
    """A Scan whose state is the extreme so far, its place, and the place it is at. NaN is beyond every number."""
    if x.rank == 0:
        return x, scalar(0, DType.INT64)
    narrow = cast(x, DType.INT32) if x.dtype is DType.BOOL else x
    at = axis(dim, x.rank)
    rest = (*x.shape[:at], *x.shape[at + 1 :])

    def step(best: Value, place: Value, here: Value, element: Value) -> tuple[Value, ...]:
        ahead = op.GreaterOrEqual(element, best) if largest else op.LessOrEqual(element, best)
        if narrow.dtype.is_float:
            ahead = op.Or(ahead, op.IsNaN(element))
        new_best = op.Where(ahead, element, best)
        new_place = op.Where(ahead, here, place)
        return new_best, new_place, op.Add(here, const(1)), new_best, new_place

    start = expand(scalar((lowest if largest else highest)(narrow.dtype), narrow.dtype), rest)
    places = expand(const(0), rest)
    *_, values, indices = op.Scan(
        start, places, const(0), narrow, body=step, num_scan_inputs=1, scan_input_axes=[at], scan_output_axes=[at, at]
    )
    return cast(values, x.dtype), indices


def aten_logcumsumexp(self: Value, dim: int) -> Value:
    """log(sum(exp(.))) of the first 1, 2, ... elements along `dim`, without overflow."""
    x = to_float(self)
    if x.rank == 0:
        return x
    at = axis(dim, x.rank)
    start = expand(scalar(-math.inf, x.dtype), (*x.shape[:at], *x.shape[at + 1 :]))

    def step(total: Value, element: Value) -> tuple[Value, Value]:
        new = aten_logaddexp(total, element)
        return new, new

    return op.Scan(start, x, body=step, num_scan_inputs=1, scan_input_axes=[at], scan_output_axes=[at])[1]


def aten_diff(
    self: Value, n: int = 1, dim: int = -1, prepend: Value | None = None, append: Value | None = None
) -> Value:
    """Each element less the one before it along `dim`, `n` times over; bools tell where neighbours differ."""
    at = axis(dim, self.rank)
    parts = [part for part in (prepend, self, append) if part is not None]
    x = concat(parts, at) if len(parts) > 1 and n else self
    less = op.Xor if x.dtype is DType.BOOL else op.Sub
    for _ in range(n):
        x = less(slice_axis(x, at, 1, None), slice_axis(x, at, 0, -1))
    return x
