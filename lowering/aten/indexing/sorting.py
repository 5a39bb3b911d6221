"""Order: sorting is TopK of everything, and searching counts what is below. ONNX keeps ties in order."""

from __future__ import annotations

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.elementwise.arithmetic import aten_lerp
from lowering.aten.reduction.reduce import aten_any
from lowering.tensors.nan import is_set, nan_where
from lowering.tensors.pieces import compress_rows, widen
from lowering.tensors.promotion import Number, cast, highest, lowest, promote, scalar
from lowering.tensors.shaping import (
    axis,
    expand,
    flat,
    ints,
    iota,
    may_be_empty,
    move_axis,
    reshape,
    slice_axis,
    squeeze,
    unsqueeze,
    vector,
)
from passes.rules.nan import above_all, may_be_nan


def sorted_by(x: Value, k: Dim, dim: int, largest: bool) -> tuple[Value, Value]:
    """The k largest or smallest elements along `dim`, in order, and where they stood. NaN is above all numbers."""
    if x.rank == 0:
        values, places = sorted_by(vector(x), k, 0, largest)
        return squeeze(values, 0), squeeze(places, 0)
    narrow = cast(x, DType.INT32) if x.dtype is DType.BOOL else x
    values, places = op.TopK(narrow, shape_vector((k,)), axis=axis(dim, x.rank), largest=int(largest))
    return cast(values, x.dtype), places


def aten_topk(self: Value, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Value, Value]:
    """The k largest (or smallest) elements along `dim`, in order, and where they stood."""
    return sorted_by(self, k, dim, largest)


def aten_sort(self: Value, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    """The elements along `dim` in order, and where they stood; equal ones stay in order."""
    return sorted_by(self, self.shape[dim] if self.rank else 1, dim, descending)


def aten_sort_stable(
    self: Value, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Value, Value]:
    """The elements along `dim` in order, and where they stood; equal ones stay in order."""
    return aten_sort(self, dim, descending)


def aten_argsort(self: Value, dim: int = -1, descending: bool = False) -> Value:
    """Where the elements along `dim` stand, in the order of their values."""
    return aten_sort(self, dim, descending)[1]


def aten_argsort_stable(self: Value, *, stable: bool, dim: int = -1, descending: bool = False) -> Value:
    """Where the elements along `dim` stand, in the order of their values."""
    return aten_sort(self, dim, descending)[1]


def aten_msort(self: Value) -> Value:
    """The elements along the first dimension in order."""
    return aten_sort(self, 0)[0]


def nth(x: Value, count: Dim, dim: int, keepdim: bool) -> tuple[Value, Value]:
    """The count-th smallest element along `dim`, and where it stands."""
    if x.rank == 0:
        return x, scalar(0, DType.INT64)
    at = axis(dim, x.rank)
    values, places = sorted_by(x, count, at, False)
    last = [slice_axis(v, at, -1, None) for v in (values, places)]
    return (last[0], last[1]) if keepdim else (squeeze(last[0], at), squeeze(last[1], at))


def aten_kthvalue(self: Value, k: Dim, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """The k-th smallest element along `dim`, and where it stands."""
    return nth(self, k, dim, keepdim)


def aten_median(self: Value) -> Value:
    """The middle element of all, the lower of two; NaN where one is."""
    return aten_median_dim(not_empty(flat(self)), 0)[0]


def aten_median_dim(self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The middle element along `dim`, the lower of two, and where it stands; the first NaN where there is one."""
    if self.rank == 0 or not may_be_nan(self):
        return nth(self, half(self.shape[dim] if self.rank else 1), dim, keepdim)
    # Counted from the largest down, NaN comes first, so that one look tells of it.
    at = axis(dim, self.rank)
    count = dims.sub(dims.add(self.shape[at], 1), half(self.shape[at]))
    first, last = (
        [slice_axis(v, at, *ends) for v in sorted_by(self, count, at, True)] for ends in ((0, 1), (-1, None))
    )
    missing = op.IsNaN(first[0])
    value, place = (op.Where(missing, a, b) for a, b in zip(first, last, strict=True))
    return (value, place) if keepdim else (squeeze(value, at), squeeze(place, at))


def half(count: Dim) -> Dim:
    """The rank of the lower middle element of so many, counted from 1."""
    return dims.floordiv(dims.add(count, 1), 2)


def aten_nanmedian(self: Value) -> Value:
    """The middle element of all that are not NaN, the lower of two."""
    return aten_nanmedian_dim(not_empty(flat(self)), 0)[0]


def not_empty(x: Value) -> Value:
    """A vector, with an element where it has none: NaN, or what torch makes of NaN in the type of x."""
    if not may_be_empty(x.shape[0]):
        return x
    kept = DType.INT32, DType.INT64
    missing = float("nan") if x.dtype.is_float else lowest(x.dtype) if x.dtype in kept else x.dtype is DType.BOOL
    more = dims.maximum(dims.sub(1, x.shape[0]), 0)
    return op.Concat(x, expand(scalar(missing, x.dtype), (more,)), axis=0)


def aten_nanmedian_dim(self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The middle element along `dim` of those that are not NaN, and where it stands."""
    if self.rank == 0 or not self.dtype.is_float:
        return nth(self, half(self.shape[dim] if self.rank else 1), dim, keepdim)
    at = axis(dim, self.rank)
    missing = op.IsNaN(self)
    values, places = sorted_by(op.Where(missing, scalar(float("inf"), self.dtype), self), self.shape[at], at, False)
    present = op.ReduceSum(cast(op.Not(missing), DType.INT64), ints(at))
    middle = op.Max(op.Div(op.Sub(present, const(1)), const(2)), const(0))
    value, place = (op.GatherElements(v, middle, axis=at) for v in (values, places))
    value = op.Where(op.Equal(present, const(0)), scalar(float("nan"), self.dtype), value)
    return (value, place) if keepdim else (squeeze(value, at), squeeze(place, at))


def aten_mode(self: Value, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """The element that is most frequent along `dim`, the smallest of several, and where it stands last.

    Of rows of NaN alone, NaN at place 0; among numbers NaN counts for nothing. torch's own answer hangs there on where
    its sort, for which NaN is neither below nor above a number, leaves the equal ones.
    """
    if self.rank == 0:
        return self, scalar(0, DType.INT64)
    x = cast(self, DType.INT32) if self.dtype is DType.BOOL else self
    at = axis(dim, x.rank)
    last = move_axis(x, at, -1)
    equal = cast(op.Equal(unsqueeze(last, -1), unsqueeze(last, -2)), DType.INT32)
    counts = op.ReduceSum(equal, ints(-1), keepdims=0)
    most = op.ReduceMax(counts, ints(-1))
    rest = scalar(highest(x.dtype), x.dtype)
    if x.dtype is DType.INT64:  # an element that is frequent, so that no number beyond 32 bits comes in
        rest = op.GatherElements(last, op.ArgMax(counts, axis=-1, keepdims=1), axis=-1)
    value = op.ReduceMin(op.Where(op.Equal(counts, most), last, rest), ints(-1))
    place = op.ArgMax(cast(op.Equal(last, value), DType.INT32), axis=-1, select_last_index=1)
    if may_be_nan(x):
        nothing = op.Equal(most, scalar(0, DType.INT32))
        value = op.Where(nothing, scalar(float("nan"), x.dtype), value)
        place = op.Where(nothing, scalar(0, DType.INT64), place)
    value, place = cast(move_axis(value, -1, at), self.dtype), move_axis(place, -1, at)
    return (value, place) if keepdim else (squeeze(value, at), squeeze(place, at))


def aten_quantile(
    self: Value, q: Value | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Value:
    """The number below which a share q of the elements along `dim` (of all where None) lies; a vector q makes a new
    first dimension. NaN where one is."""
    x = flat(self) if dim is None else vector(self)
    at = axis(dim or 0, x.rank)
    ordered = move_axis(sorted_by(x, x.shape[at], at, False)[0], at, -1)
    count = op.Sub(scalar(x.shape[at], x.dtype), 1)
    result = interpolated(ordered, at_share(q, x, count), interpolation)  # (..., shares)
    missing = op.IsNaN(slice_axis(ordered, ordered.rank - 1, -1, None))  # NaN comes last
    return arranged(nan_where(missing, result), self, q, dim, keepdim)


def aten_nanquantile(
    self: Value, q: Value | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Value:
    """`quantile` of the elements that are not NaN."""
    x = flat(self) if dim is None else vector(self)
    at = axis(dim or 0, x.rank)
    last = move_axis(x, at, -1)
    missing = op.IsNaN(last)
    ordered = sorted_by(op.Where(missing, scalar(float("inf"), x.dtype), last), x.shape[at], -1, False)[0]
    present = op.ReduceSum(cast(op.Not(missing), x.dtype), ints(-1))
    result = interpolated(ordered, at_share(q, x, op.Max(op.Sub(present, 1), 0)), interpolation)
    return arranged(nan_where(op.Equal(present, 0), result), self, q, dim, keepdim)


def at_share(q: Value | float, x: Value, count: Value) -> Value:
    """The places, in a sorted row, of the shares q: (..., shares)."""
    shares = vector(q) if isinstance(q, Value) else reshape(scalar(q, x.dtype), (1,))
    return op.Mul(shares, count)


def interpolated(ordered: Value, places: Value, how: str) -> Value:
    """What stands at broken places of sorted rows: (..., n) and (shares,) or (..., shares) -> (..., shares)."""
    below, above = op.Floor(places), op.Ceil(places)
    if how in ("lower", "higher", "nearest"):
        chosen = {"lower": below, "higher": above}.get(how)
        return taken_at(ordered, op.Round(places) if chosen is None else chosen)
    low, high = taken_at(ordered, below), taken_at(ordered, above)
    return aten_lerp(low, high, 0.5 if how == "midpoint" else op.Sub(places, below))


def taken_at(ordered: Value, places: Value) -> Value:
    """ordered[..., places]"""
    where = cast(places, DType.INT64)
    if where.rank == 1:
        return op.Gather(ordered, where, axis=-1)
    return op.GatherElements(ordered, where, axis=-1)


def arranged(result: Value, x: Value, q: Value | float, dim: int | None, keepdim: bool) -> Value:
    """(..., shares) as torch returns it: the shares in front, or gone; reduced dimensions kept as 1 where asked."""
    many = isinstance(q, Value) and q.rank == 1
    front = move_axis(result, -1, 0)
    if keepdim and x.rank:
        where = range(x.rank) if dim is None else (axis(dim, x.rank),)
        front = unsqueeze(front, *(w + 1 for w in where))
    return front if many else squeeze(front, 0)


# ---------------------------------------------------------------------------------------------- searching


def aten_searchsorted(
    sorted_sequence: Value,
    self: Value | Number,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """How many elements of each sorted row are below each of self, or not above where `right`. NaN is above all.

    A row that ends in NaN is searched as torch searches it, which finds its end too soon: see `misled`.
    """
    row = (
        sorted_sequence if sorter is None else op.GatherElements(sorted_sequence, sorter, axis=sorted_sequence.rank - 1)
    )
    values, bounds = promote(self, row)
    after = right if side is None else side == "right"
    wanted = DType.INT32 if out_int32 else DType.INT64
    rows = unsqueeze(bounds, -2) if bounds.rank > 1 else bounds
    if values.dtype is DType.BOOL:
        values, rows = cast(values, DType.INT32), cast(rows, DType.INT32)
    found = count_bounds(values, rows, after, wanted)
    if not may_be_nan(bounds) or bounds.shape[-1] == 0:
        return found
    # A sorted row has its NaN at the end: one look there tells whether torch's search is led astray.
    ends = op.ReduceSum(cast(op.IsNaN(slice_axis(bounds, bounds.rank - 1, -1, None)), DType.INT32), keepdims=0)
    some = op.Greater(ends, scalar(0, DType.INT32))
    return op.If(some, then_branch=lambda: (misled(found, rows),), else_branch=lambda: (op.Identity(found),))[0]


def misled(found: Value, bounds: Value) -> Value:
    """Where torch's search ends in rows that end in NaN. found: how many bounds, NaN among them, come before a value.

    It halves the row, and goes on to the right of every NaN that it meets: so it comes to the end of the row, n, if
    one of its steps meets NaN. While it goes right, these are at n - q, q = (n + 1) // 2, (n + 1) // 4, ...; it turns
    left at the first that is not before the place where the value belongs, c. So it comes to c where a q lies between
    n - m, of m numbers in the row, and n - c.
    """
    size, dtype = bounds.shape[-1], found.dtype
    missing = op.ReduceSum(cast(op.IsNaN(bounds), dtype), ints(-1), keepdims=0)  # n - m
    belongs = op.Sub(found, missing)
    steps = [dims.floordiv(dims.add(size, 1), 2**i) for i in range(1, steps_of(size))]
    behind = unsqueeze(op.Sub(scalar(size, dtype), belongs), -1)
    turns = cast(shape_vector(steps), dtype)
    turned = op.And(op.Greater(turns, unsqueeze(missing, -1)), op.LessOrEqual(turns, behind))
    left = op.ReduceMax(cast(turned, DType.INT32), ints(-1), keepdims=0)
    return op.Where(is_set(left), belongs, scalar(size, dtype))


def steps_of(size: Dim) -> int:
    """So many times a row can be halved, and a little more; any row where its size is not known."""
    return size.bit_length() + 1 if type(size) is int else 40


def count_bounds(values: Value, bounds: Value, right: bool, dtype: DType) -> Value:
    """For each value, how many of the bounds (along the last axis) come before it."""
    x = unsqueeze(values, -1)
    before = op.Not(op.Less(x, bounds)) if right else op.Not(op.LessOrEqual(x, bounds))
    made = op.ReduceSum(cast(before, dtype), ints(-1), keepdims=0)
    if any(dims.same(d, 0) is True for d in made.shape):  # ONNX Runtime keeps the axis that it sums of no elements
        return expand(scalar(0, dtype), made.shape)
    return made


def aten_bucketize(self: Value | Number, boundaries: Value, *, out_int32: bool = False, right: bool = False) -> Value:
    """The number of the bucket between sorted boundaries in which each element of self falls."""
    return aten_searchsorted(boundaries, self, out_int32=out_int32, right=right)


def aten_bincount(self: Value, weights: Value | None = None, minlength: Dim = 0) -> Value:
    """How often each of 0, 1, 2, ... occurs, or the sum of their weights; as many as the largest asks for."""
    x, weights = cast(self, DType.INT64), None if self.shape[0] == 0 else weights  # of nothing torch gives integers
    largest = op.ReduceMax(op.Concat(x, shape_vector((dims.sub(minlength, 1),)), axis=0), keepdims=0)
    dtype = DType.INT64 if weights is None else weights.dtype if weights.dtype.is_float else DType.DOUBLE
    places = op.Range(const(0), op.Add(largest, const(1)), const(1))
    empty = cast(op.Sub(places, places), dtype)
    added = expand(scalar(1, dtype), x.shape) if weights is None else cast(weights, dtype)
    return op.ScatterElements(empty, x, added, axis=0, reduction="add")


def aten__convert_indices_from_coo_to_csr(self: Value, size: Dim, *, out_int32: bool = False) -> Value:
    """Where each of `size` rows begins among sorted row numbers, and where the last one ends."""
    x = cast(self, DType.INT64)
    none = expand(const(0), (dims.add(size, 1),))
    counts = op.ScatterElements(none, op.Add(x, const(1)), expand(const(1), x.shape), axis=0, reduction="add")
    return cast(op.CumSum(counts, const(0)), DType.INT32 if out_int32 else DType.INT64)


def aten_histc(self: Value, bins: int = 100, min: Number = 0, max: Number = 0) -> Value:
    """How many elements fall in each of `bins` equal parts of [min, max]; of their own range where min equals max."""
    x = flat(self)
    low, high = scalar(min, x.dtype), scalar(max, x.dtype)
    if min == max:
        low, high = op.ReduceMin(x, keepdims=0), op.ReduceMax(x, keepdims=0)
        alike = op.Equal(low, high)
        low, high = op.Where(alike, op.Sub(low, 1), low), op.Where(alike, op.Add(high, 1), high)
    scaled = op.Div(op.Mul(op.Sub(x, low), scalar(bins, x.dtype)), op.Sub(high, low))
    place = op.Min(cast(scaled, DType.INT64), const(bins - 1))
    inside = op.And(op.GreaterOrEqual(x, low), op.LessOrEqual(x, high))
    hit = op.And(op.Equal(unsqueeze(place, -1), iota(bins)), unsqueeze(inside, -1))
    return op.ReduceSum(cast(hit, x.dtype), ints(0), keepdims=0)


# ---------------------------------------------------------------------------------------------- unique


def comparable(x: Value) -> Value:
    """x in an element type of which ONNX finds the different ones, and that holds all numbers of its own."""
    return cast(x, DType.INT64) if x.dtype is DType.BOOL else widen(x)


def aten__unique2(
    self: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Value, Value, Value]:
    """The different elements in order, for each element which of them it is, and how often each occurs."""
    x = flat(self)
    if may_be_nan(self):
        values, inverse, counts = unique_numbers(x)
    else:
        values, _, inverse, counts = op.Unique(comparable(x), sorted=1, outputs=4)
    nothing = ints()  # what torch returns for a result that was not asked for
    return (
        cast(values, self.dtype),
        reshape(inverse, self.shape) if return_inverse else nothing,
        counts if return_counts else nothing,
    )


def aten__unique(self: Value, sorted: bool = True, return_inverse: bool = False) -> tuple[Value, Value]:
    """The different elements in order, and for each element which of them it is."""
    return aten__unique2(self, sorted, return_inverse)[:2]


def aten_unique_dim(
    self: Value, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Value, Value, Value]:
    """The different slices along `dim` in order, for each slice which of them it is, and how often each occurs."""
    at = axis(dim, self.rank)
    if not may_be_nan(self):
        values, _, inverse, counts = op.Unique(comparable(self), axis=at, sorted=1, outputs=4)
        return cast(values, self.dtype), inverse, counts
    _, first, inverse, counts = op.Unique(told_apart(move_axis(self, at, 0)), axis=0, sorted=1, outputs=4)
    return op.Gather(self, first, axis=at), inverse, counts


def unique_numbers(x: Value) -> tuple[Value, Value, Value]:
    """(the different elements of a vector in order, which of them each is, how often); no NaN equals another."""
    ordered, places = sorted_by(x, x.shape[0], 0, False)
    values, which, counts = runs(ordered)
    return values, op.ScatterElements(which, places, which, axis=0), counts


def told_apart(x: Value) -> Value:
    """Rows of numbers, equal and in order as those of x are with NaN above all: but one with NaN equals no other.

    In which order torch has rows with NaN is left to chance: its sort takes NaN for equal to everything. Here they
    stand as they do in torch.unique of elements, and in numpy.
    """
    rows = reshape(x, (x.shape[0], dims.product(x.shape[1:])))
    missing = op.IsNaN(rows)
    number = unsqueeze(op.Add(cast(iota(x.shape[0]), DType.DOUBLE), 1), 1)
    alone = op.Where(is_set(op.ReduceMax(cast(missing, DType.INT32), ints(1))), number, scalar(0, DType.DOUBLE))
    if x.dtype is not DType.DOUBLE:
        return op.Concat(cast(above_all(rows), DType.DOUBLE), alone, axis=1)
    flags, numbers = cast(missing, x.dtype), op.Where(missing, scalar(0, x.dtype), rows)
    pairs = op.Concat(unsqueeze(flags, -1), unsqueeze(numbers, -1), axis=2)
    return op.Concat(reshape(pairs, (rows.shape[0], dims.mul(2, rows.shape[1]))), alone, axis=1)


def aten_unique_consecutive(
    self: Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Value, Value, Value]:
    """The elements (slices along `dim`) that differ from the one before, which of them each is, and how often."""
    x = flat(self) if dim is None else move_axis(self, dim, 0)
    values, inverse, counts = runs(x)
    shaped = reshape(inverse, self.shape) if dim is None else inverse
    nothing = ints()
    return (
        values if dim is None else move_axis(values, 0, dim),
        shaped if return_inverse or dim is not None else nothing,
        counts if return_counts or dim is not None else nothing,
    )


def runs(x: Value) -> tuple[Value, Value, Value]:
    """(the rows that differ from the one before, which of them each row is, how many are equal in a row)"""
    changed = op.Not(op.Equal(slice_axis(x, 0, 1, None), slice_axis(x, 0, 0, -1)))
    if x.rank > 1:
        changed = aten_any(changed, tuple(range(1, x.rank)))
    first = expand(scalar(True, DType.BOOL), (dims.minimum(x.shape[0], 1),))
    fresh = op.Concat(first, changed, axis=0)
    values = compress_rows(x, fresh)
    inverse = op.Sub(op.CumSum(cast(fresh, DType.INT64), const(0)), const(1))
    starts = squeeze(op.NonZero(fresh), 0)
    ends = op.Concat(slice_axis(starts, 0, 1, None), shape_vector((x.shape[0],)), axis=0)
    counts = op.Sub(ends, starts)
    return values, inverse, counts
