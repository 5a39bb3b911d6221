"""Schur's form of real matrices: A = Z T Z^T, T upper triangular but for blocks of two rows, by Francis' double shifts.

As in `lowering.algorithms.complex_schur` one trip of the Loop chases the bulge one place further down, here by a
reflection of three rows and columns. Eigenvalues mostly come in the order in which LAPACK finds them, complex ones in
pairs; no order is promised, as torch promises none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.algorithms.complex_schur import PATIENCE
from lowering.algorithms.jacobi import epsilon
from lowering.tensors.complex_pairs import Parts
from lowering.tensors.pieces import swap
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import concat, expand, ints, iota, pick_index, reshape, slice_axis, unsqueeze


def band(size: Dim, offset: int, dtype: DType) -> Value:
    """(n, n): ones where the column is the row plus `offset`"""
    places = iota(size)
    return cast(op.Equal(unsqueeze(op.Add(places, const(offset)), 1), unsqueeze(places, 0)), dtype)


def along(x: Value, mask: Value, axis: int) -> Value:
    """(b, n, n) -> (b, n): the elements that a mask leaves, one in each row (axis 2) or column (axis 1)"""
    return op.ReduceSum(op.Mul(x, mask), ints(axis), keepdims=0)


def elements(w: Value, last: Value, places: Sequence[tuple[Value, Value]]) -> list[Value]:
    """The elements (b, 1) at rows and columns (b, 1), none of them after `last`.  w: (b, p, q)"""
    width = dim_scalar(w.shape[2])

    def inside(x: Value) -> Value:
        return op.Max(op.Min(x, last), const(0))

    index = op.Concat(*(op.Add(op.Mul(inside(i), width), inside(j)) for i, j in places), axis=1)
    found = op.GatherElements(op.Reshape(w, const(np.array([0, -1]))), index, axis=1)
    return list(op.Split(found, axis=1, num_outputs=len(places), outputs=len(places)))


def shifts(a: Value, b: Value, c: Value, d: Value, lost: Value) -> tuple[Value, Value, Value]:
    """(first real part, second real part, square of the imaginary parts): the eigenvalues of ((a, b), (c, d)).

    Where both are real, twice the one next to d; where `lost`, those of a matrix that nothing suggests.
    """
    zero, half = scalar(0, a.dtype), scalar(0.5, a.dtype)
    off = op.Abs(c)
    away = op.Add(d, op.Mul(off, scalar(0.75, a.dtype)))
    middle = op.Mul(op.Add(a, d), half)
    p = op.Mul(op.Sub(a, d), half)
    square = op.Add(op.Mul(p, p), op.Mul(b, c))
    square = op.Where(lost, op.Mul(op.Mul(off, off), scalar(-0.4375, a.dtype)), square)
    middle = op.Where(lost, away, middle)
    root = op.Sqrt(op.Max(square, zero))
    near = op.Where(op.Less(d, middle), op.Sub(middle, root), op.Add(middle, root))
    real = op.Where(op.Greater(square, zero), near, middle)
    return real, real, op.Max(op.Neg(square), zero)


def reflection(parts: Sequence[Value], idle: Value) -> Value:
    """(b, 3, 3): the symmetric matrix that turns a vector of three parts (b, 1) to a multiple of the first unit"""
    vector = op.Concat(*parts, axis=1)
    dtype = vector.dtype
    zero, one = scalar(0, dtype), scalar(1, dtype)
    size = op.ReduceMax(op.Abs(vector), ints(1), keepdims=1)
    idle = op.Or(idle, op.Equal(size, zero))
    vector = op.Div(vector, op.Where(idle, one, size))
    length = op.Sqrt(op.ReduceSumSquare(vector, ints(1), keepdims=1))
    head = op.Where(op.Less(parts[0], zero), op.Neg(length), length)
    vector = op.Add(vector, op.Mul(head, const(np.array([1, 0, 0], dtype.numpy))))
    square = op.Where(idle, one, op.ReduceSumSquare(vector, ints(1), keepdims=1))
    vector = op.Mul(vector, op.Where(idle, zero, op.Sqrt(op.Div(scalar(2, dtype), square))))
    return op.Sub(const(np.eye(3, dtype=dtype.numpy)), op.Mul(unsqueeze(vector, 2), unsqueeze(vector, 1)))


def mirrored(w: Value, at: Value, matrix: Value) -> Value:
    """Rows at, at + 1 and at + 2 multiplied by a matrix from the left, and those columns from the right"""
    three = op.Add(at, ints(0, 1, 2))
    rows = expand(unsqueeze(three, 2), (w.shape[0], 3, w.shape[2]))
    made = op.MatMul(matrix, op.GatherElements(w, rows, axis=1))
    # What is 0 but for rounding errors would keep the sweeps from converging.
    behind = op.Equal(iota(w.shape[2]), unsqueeze(op.Sub(at, const(1)), 1))
    behind = op.And(behind, const(np.array([[False], [True], [True]])))
    w = op.ScatterElements(w, rows, op.Where(behind, scalar(0, w.dtype), made), axis=1)
    columns = expand(unsqueeze(three, 1), (w.shape[0], w.shape[1], 3))
    return op.ScatterElements(w, columns, op.MatMul(op.GatherElements(w, columns, axis=2), matrix), axis=2)


def bulge(w: Value, last: Value, new: Value, at: Value, low: Value, waited: Value) -> list[Value]:
    """The three numbers (b, 1) of which the reflection leaves one: of a new sweep, or of the bulge as it is"""
    one, two = const(1), const(2)
    upper, above, next_, after = op.Sub(low, one), op.Sub(at, one), op.Add(at, one), op.Add(at, two)
    a, b, c, d, e, f, g, h, k, x, y, z = elements(
        w,
        last,
        [
            (upper, upper),
            (upper, low),
            (low, upper),
            (low, low),
            (at, at),
            (at, next_),
            (next_, at),
            (next_, next_),
            (after, next_),
            (at, above),
            (next_, above),
            (after, above),
        ],
    )
    lost = op.And(op.Greater(waited, const(0)), op.Equal(op.Mod(waited, const(PATIENCE)), const(0)))
    first, second, square = shifts(a, b, c, d, lost)
    begin = op.Add(op.Add(op.Mul(g, f), op.Mul(op.Sub(e, first), op.Sub(e, second))), square)
    middle = op.Mul(g, op.Sub(op.Sub(op.Add(e, h), first), second))
    x, y, z = op.Where(new, begin, x), op.Where(new, middle, y), op.Where(new, op.Mul(g, k), z)
    return [x, y, op.Where(op.LessOrEqual(after, low), z, scalar(0, w.dtype))]


def quasi_triangular(h: Value, z: Value | None) -> tuple[Value, Value | None, Value]:
    """(T, Z', blocks): Hessenberg's form (b, n, n) made triangular, Z times the same reflections, and (b, n): the rows
    that are the second of a block of two."""
    batch, size, dtype = h.shape[0], h.shape[1], h.dtype
    more = dims.add(size, 1)
    parts = [op.Pad(h, ints(0, 0, 0, 0, 1, 1)), *(() if z is None else (op.Pad(z, ints(0, 0, 0, 0, 0, 1)),))]
    height = more if z is None else dims.add(more, size)
    places, last = iota(size), dim_scalar(dims.sub(size, 1))
    main, under = band(size, 0, dtype), band(size, -1, dtype)
    earlier = op.Max(op.Sub(places, const(1)), const(0))
    total = op.ReduceSumSquare(h, ints(1, 2), keepdims=0)
    floor = unsqueeze(op.Mul(op.Sqrt(total), scalar(epsilon(dtype) ** 2, dtype)), 1)

    def trip(i: Value, going: Value, w: Value, at: Value, low: Value, waited: Value, linked: Value) -> tuple:
        """One reflection.  at: its first row, -1 where a sweep begins; low: the last row of the block that is worked
        at; waited: sweeps since that changed; linked: (b, n), the rows that are linked to the one above"""
        new = op.Less(at, const(0))
        size_ = op.Abs(slice_axis(slice_axis(w, 1, 0, size), 2, 0, size))
        diagonal, beside = along(size_, main, 2), along(size_, under, 2)
        around = op.Mul(op.Add(diagonal, op.Gather(diagonal, earlier, axis=1)), scalar(epsilon(dtype), dtype))
        holds = op.And(linked, op.Or(op.Not(new), op.Greater(beside, op.Max(around, floor))))
        chain = op.And(holds, op.Gather(holds, earlier, axis=1))
        bottom = op.ReduceMax(op.Where(chain, places, const(0)), ints(1), keepdims=1)
        top = op.And(op.Not(holds), op.LessOrEqual(places, bottom))
        top = op.ReduceMax(op.Where(top, places, const(0)), ints(1), keepdims=1)
        done = op.And(new, op.Equal(bottom, const(0)))
        waited = op.Where(new, op.Where(op.Equal(bottom, low), op.Add(waited, const(1)), const(0)), waited)
        low, at = op.Where(new, bottom, low), op.Where(new, top, at)
        w = mirrored(w, op.Where(done, const(0), at), reflection(bulge(w, last, new, at, low, waited), done))
        following = op.Add(at, const(1))
        at = op.Where(op.Or(done, op.GreaterOrEqual(following, low)), const(-1), following)
        more_ = op.ReduceMax(cast(op.Not(done), DType.INT32), keepdims=0)
        return op.Equal(more_, scalar(1, DType.INT32)), reshape(w, (batch, height, more)), at, low, waited, holds

    trips = dims.mul(dims.mul(30, size), dims.maximum(dims.sub(size, 1), 0))
    start, count = expand(const(-1), (batch, 1)), dim_scalar(dims.mul(trips, dims.minimum(batch, 1)))
    linked = expand(op.Greater(places, const(0)), (batch, size))
    w = reshape(concat(parts, 1), (batch, height, more))
    w, _, _, _, blocks = op.Loop(count, const(True), w, start, start, expand(const(0), (batch, 1)), linked, body=trip)
    w = slice_axis(w, 2, 0, size)
    t = reshape(slice_axis(w, 1, 0, size), (batch, size, size))
    return t, None if z is None else reshape(slice_axis(w, 1, more, height), (batch, size, size)), blocks


# ---------------------------------------------------------------------------------------------- blocks of two


def block_values(t: Value, blocks: Value) -> tuple[Parts, Parts, Parts]:
    """(eigenvalues (b, n), x, y): as pairs; at the second row of each block its first eigenvector (x, y), not normed.

    Of a pair of complex eigenvalues the one with a positive imaginary part comes first.
    """
    size, dtype = t.shape[1], t.dtype
    places, zero = iota(size), scalar(0, dtype)
    earlier = op.Max(op.Sub(places, const(1)), const(0))
    later = op.Min(op.Add(places, const(1)), dim_scalar(dims.sub(size, 1)))
    diagonal, below, beside = (along(t, band(size, i, dtype), axis) for i, axis in ((0, 2), (-1, 2), (1, 1)))
    p = op.Mul(op.Sub(op.Gather(diagonal, earlier, axis=1), diagonal), scalar(0.5, dtype))
    product = op.Mul(below, beside)
    square = op.Add(op.Mul(p, p), product)
    root, real = op.Sqrt(op.Abs(square)), op.GreaterOrEqual(square, zero)
    sum_ = op.Add(p, op.Where(op.Less(p, zero), op.Neg(root), root))
    other = op.Div(product, op.Where(op.Equal(sum_, zero), scalar(1, dtype), sum_))
    gap, turn = op.Where(real, sum_, p), op.Where(real, zero, root)
    upper = op.Add(diagonal, gap)
    lower = op.Where(real, op.Sub(diagonal, other), upper)
    head = op.And(op.Gather(blocks, later, axis=1), op.Less(places, later))
    values = op.Where(blocks, lower, op.Where(head, op.Gather(upper, later, axis=1), diagonal))
    parts = op.Where(blocks, op.Neg(turn), op.Where(head, op.Gather(turn, later, axis=1), zero))
    # Either row of the block tells the vector; the one with the larger element tells it to more digits.
    right = op.Greater(op.Abs(beside), op.Abs(below))
    x = op.Where(right, beside, gap), op.Where(right, zero, turn)
    y = op.Where(right, op.Where(real, other, op.Neg(p)), below), op.Where(right, turn, zero)
    return (values, parts), x, y


def block_turns(blocks: Value, x: Parts, y: Parts) -> Parts:
    """(b, n, n): the unitary matrices that make blocks of two triangular.  x, y: see `block_values`"""
    size, dtype = blocks.shape[1], x[0].dtype
    places, zero, one = iota(size), scalar(0, dtype), scalar(1, dtype)
    later = op.Min(op.Add(places, const(1)), dim_scalar(dims.sub(size, 1)))
    vector = concat([unsqueeze(part, 2) for part in (*x, *y)], 2)
    scale = op.ReduceMax(op.Abs(vector), ints(2), keepdims=1)
    vector = op.Div(vector, op.Where(op.Equal(scale, zero), one, scale))
    length = op.Sqrt(op.ReduceSumSquare(vector, ints(2), keepdims=1))
    vector = op.Div(vector, op.Where(op.Equal(length, zero), one, length))
    vector = op.Where(unsqueeze(blocks, 2), vector, zero)
    real, imaginary, first, second = (pick_index(vector, 2, i) for i in range(4))
    head = op.And(op.Gather(blocks, later, axis=1), op.Less(places, later))
    main = op.Where(blocks, real, op.Where(head, op.Gather(real, later, axis=1), one))
    turn = op.Where(blocks, op.Neg(imaginary), op.Where(head, op.Gather(imaginary, later, axis=1), zero))
    beneath = [op.Mul(unsqueeze(part, 2), band(size, -1, dtype)) for part in (first, second)]
    diagonal = [op.Mul(unsqueeze(part, 2), band(size, 0, dtype)) for part in (main, turn)]
    return (
        op.Add(diagonal[0], op.Sub(beneath[0], swap(beneath[0]))),
        op.Add(diagonal[1], op.Add(beneath[1], swap(beneath[1]))),
    )


def made_complex(t: Value, z: Value, blocks: Value) -> tuple[Parts, Parts, Parts]:
    """(eigenvalues, T, Z): the complex Schur form of matrices whose real one is known, as parts (b, n, n)"""
    values, x, y = block_values(t, blocks)
    real, imaginary = block_turns(blocks, x, y)
    right = op.MatMul(t, real), op.MatMul(t, imaginary)
    left = swap(real), swap(imaginary)
    made = [
        op.Add(op.MatMul(left[0], right[0]), op.MatMul(left[1], right[1])),
        op.Sub(op.MatMul(left[0], right[1]), op.MatMul(left[1], right[0])),
    ]
    main = op.Equal(band(t.shape[1], 0, t.dtype), scalar(1, t.dtype))
    exact = [op.Where(main, unsqueeze(value, 2), part) for value, part in zip(values, made, strict=True)]
    return values, (exact[0], exact[1]), (op.MatMul(z, real), op.MatMul(z, imaginary))
