"""Schur's form of complex matrices: A = Z T Z^H, T upper triangular, by the QR algorithm with single shifts.

One trip of the Loop is one rotation of two neighbouring rows and columns, which chases the bulge one place further
down; each matrix of a batch is at a place of its own. Matrices are planes of two layers (b, n, 2, n), see
`lowering.algorithms.jacobi`; a matrix of n columns takes some 1.3 * n * n trips of about 120 small operators.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.algorithms.jacobi import conjugate_planes, epsilon, mirror, reflect, squares, transpose_planes, units
from lowering.tensors.complex_numbers import (
    conjugate,
    either,
    minus,
    near_quotient,
    plus,
    product,
    root,
    squared_modulus,
)
from lowering.tensors.complex_pairs import Parts
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import concat, expand, ints, iota, pick_index, reshape, slice_axis, unsqueeze

PATIENCE = 10
"""Sweeps without a result after which a shift is taken that nothing suggests."""


# ---------------------------------------------------------------------------------------------- Hessenberg's form


def hessenberg(a: Value) -> tuple[Value, Value]:
    """(H, Z) with A = Z H Z^H, Z unitary and nothing in H below the first diagonal under the main one"""
    size = a.shape[1]
    places = iota(size)

    def column(h: Value, z: Value, k: Value) -> tuple[Value, Value]:
        """Column k loses what is below row k + 1"""
        below = op.Gather(transpose_planes(h), unsqueeze(k, 0), axis=1)
        below = op.Where(op.Greater(places, k), below, scalar(0, a.dtype))
        v, _, _ = mirror(below, places, op.Add(k, const(1)))
        h = transpose_planes(reflect(transpose_planes(h), v))
        backwards = conjugate_planes(v)
        return reflect(h, backwards), reflect(z, backwards)

    steps = dims.maximum(dims.sub(size, 1), 0)
    h, z = op.Scan(a, units(size, size, a), iota(steps), num_scan_inputs=1, body=column)
    return h, z


# ---------------------------------------------------------------------------------------------- rotations


def picks(table: Value, size: Dim, places: Sequence[tuple[Value, Value]]) -> list[Parts]:
    """The elements (b, 1) of H at rows and columns (b, 1); places outside are moved inside.  table: (b, p, n)."""
    last = dim_scalar(dims.sub(size, 1))

    def inside(x: Value) -> Value:
        return op.Max(op.Min(x, last), const(0))

    width = dim_scalar(size)
    flat = [op.Add(op.Mul(op.Mul(inside(i), const(2)), width), inside(j)) for i, j in places]
    index = op.Concat(*flat, axis=1)
    values = op.Reshape(table, const(np.array([0, -1])))
    halves = [op.GatherElements(values, at, axis=1) for at in (index, op.Add(index, width))]
    columns = [op.Split(half, axis=1, num_outputs=len(places), outputs=len(places)) for half in halves]
    return list(zip(*columns, strict=True))


def wilkinson(corner: Sequence[Parts]) -> Parts:
    """The eigenvalue of the matrix ((a, b), (c, d)) that is next to d"""
    a, b, c, d = corner
    half = scalar(0.5, a[0].dtype)
    difference = minus(a, d)
    p = op.Mul(difference[0], half), op.Mul(difference[1], half)
    across = product(b, c)
    disc = root(plus(product(p, p), across), roomy=True)
    against = op.Less(op.Add(op.Mul(p[0], disc[0]), op.Mul(p[1], disc[1])), scalar(0, half.dtype))
    disc = either(against, (op.Neg(disc[0]), op.Neg(disc[1])), disc)
    step = near_quotient(across, plus(p, disc))
    zero = op.Mul(step[0], scalar(0, half.dtype))
    none = op.Equal(squared_modulus(across), scalar(0, half.dtype))
    return minus(d, either(none, (zero, zero), step))


def rotation(x: Parts, y: Parts, idle: Value) -> tuple[Parts, Parts]:
    """(c, s) of the unitary ((conj c, conj s), (-s, c)) that turns (x, y) to (r, 0)"""
    zero, one = scalar(0, x[0].dtype), scalar(1, x[0].dtype)
    size = op.Max(op.Max(op.Abs(x[0]), op.Abs(x[1])), op.Max(op.Abs(y[0]), op.Abs(y[1])))
    idle = op.Or(idle, op.Equal(size, zero))
    size = op.Where(idle, one, size)
    x, y = (op.Div(x[0], size), op.Div(x[1], size)), (op.Div(y[0], size), op.Div(y[1], size))
    length = op.Sqrt(op.Add(op.ReduceSumSquare(op.Concat(*x, *y, axis=1), ints(1), keepdims=1), zero))
    length = op.Where(idle, one, length)
    c = op.Where(idle, one, op.Div(x[0], length)), op.Where(idle, zero, op.Div(x[1], length))
    return c, (op.Where(idle, zero, op.Div(y[0], length)), op.Where(idle, zero, op.Div(y[1], length)))


def turn_rows(w: Value, at: Value, c: Parts, s: Parts) -> Value:
    """Rows `at` and the next of H, four rows of w with their real and imaginary parts, multiplied from the left."""
    (p, q), (u, v) = c, s
    nq, nu, nv = op.Neg(q), op.Neg(u), op.Neg(v)
    table = [p, q, u, v, nq, p, nv, u, nu, v, p, nq, nv, nu, q, p]
    matrix = op.Reshape(op.Concat(*table, axis=1), const(np.array([0, 4, 4])))
    index = unsqueeze(op.Add(op.Mul(at, const(2)), ints(0, 1, 2, 3)), 2)
    index = expand(index, (w.shape[0], 4, w.shape[2]))
    made = op.MatMul(matrix, op.GatherElements(w, index, axis=1))
    # What is 0 but for rounding errors would keep the sweeps from converging.
    behind = op.Equal(iota(w.shape[2]), unsqueeze(op.Sub(at, const(1)), 1))
    behind = op.And(behind, const(np.array([[False], [False], [True], [True]])))
    return op.ScatterElements(w, index, op.Where(behind, scalar(0, w.dtype), made), axis=1)


def turn_columns(w: Value, at: Value, c: Parts, s: Parts) -> Value:
    """Columns `at` and the next of H and Z multiplied from the right by the adjoint."""
    (p, q), (u, v) = c, s
    nq, nu, nv = op.Neg(q), op.Neg(u), op.Neg(v)
    # Columns of this matrix are the results: first and second column, real parts, then imaginary parts.
    table = [p, nu, q, v, u, p, v, nq, nq, nv, p, nu, nv, q, u, p]
    matrix = op.Reshape(op.Concat(*table, axis=1), const(np.array([0, 4, 4])))
    index = expand(unsqueeze(op.Add(at, ints(0, 1)), 1), (w.shape[0], w.shape[1], 2))
    pairs = op.GatherElements(w, index, axis=2)
    shape = (w.shape[0], dims.floordiv(w.shape[1], 2), 4)
    made = reshape(op.MatMul(reshape(pairs, shape), matrix), (w.shape[0], w.shape[1], 2))
    return op.ScatterElements(w, index, made, axis=2)


def triangular(h: Value, z: Value | None) -> tuple[Value, Value | None]:
    """(T, Z'): Hessenberg's form made triangular, and Z times the same rotations"""
    batch, size, dtype = h.shape[0], h.shape[1], h.dtype
    double = dims.mul(2, size)
    parts = [reshape(x, (batch, double, size)) for x in (h, *(() if z is None else (z,)))]
    w = concat(parts, 1)
    height = dims.mul(double, len(parts))
    places = iota(size)
    main, under = (cast(op.Equal(unsqueeze(places, 1), unsqueeze(op.Add(places, const(i)), 0)), dtype) for i in (0, 1))
    earlier = op.Max(op.Sub(places, const(1)), const(0))
    total = op.ReduceSumSquare(h, ints(1, 2, 3), keepdims=0)
    floor = unsqueeze(op.Mul(op.Sqrt(total), scalar(epsilon(dtype) ** 2, dtype)), 1)

    def trip(i: Value, going: Value, w: Value, at: Value, low: Value, waited: Value, linked: Value) -> tuple:
        """One rotation.  at: the upper row, -1 where a sweep begins; low: the last row of the block that is worked at;
        waited: sweeps since that changed; linked: (b, n), the rows that are linked to the one above"""
        new = op.Less(at, const(0))
        size_ = op.ReduceL1(reshape(slice_axis(w, 1, 0, double), (batch, size, 2, size)), ints(2), keepdims=0)
        diagonal = op.ReduceSum(op.Mul(size_, main), ints(2), keepdims=0)
        beside = op.ReduceSum(op.Mul(size_, under), ints(2), keepdims=0)
        around = op.Mul(op.Add(diagonal, op.Gather(diagonal, earlier, axis=1)), scalar(epsilon(dtype), dtype))
        holds = op.And(linked, op.Or(op.Not(new), op.Greater(beside, op.Max(around, floor))))
        last = op.ReduceMax(op.Where(holds, places, const(0)), ints(1), keepdims=1)
        first = op.And(op.Not(holds), op.LessOrEqual(places, last))
        first = op.ReduceMax(op.Where(first, places, const(0)), ints(1), keepdims=1)
        done = op.And(new, op.Equal(last, const(0)))
        waited = op.Where(new, op.Where(op.Equal(last, low), op.Add(waited, const(1)), const(0)), waited)
        low = op.Where(new, last, low)
        at = op.Where(new, first, at)
        c, s = chased(w, size, new, done, at, low, waited)
        w = turn_columns(turn_rows(w, at, c, s), at, c, s)
        following = op.Add(at, const(1))
        ends = op.Or(done, op.GreaterOrEqual(following, low))
        more = op.ReduceMax(cast(op.Not(done), DType.INT32), keepdims=0)
        at = op.Where(ends, const(-1), following)
        return op.Equal(more, scalar(1, DType.INT32)), reshape(w, (batch, height, size)), at, low, waited, holds

    trips = dims.mul(dims.mul(30, size), dims.maximum(dims.sub(size, 1), 0))
    trips = dims.mul(trips, dims.minimum(batch, 1))
    whole = expand(const(-1), (batch, 1))
    linked = expand(op.Greater(places, const(0)), (batch, size))
    w, *_ = op.Loop(dim_scalar(trips), const(True), w, whole, whole, expand(const(0), (batch, 1)), linked, body=trip)
    shape = (batch, size, 2, size)
    t = reshape(slice_axis(w, 1, 0, double), shape)
    return t, None if z is None else reshape(slice_axis(w, 1, double, height), shape)


def chased(w: Value, size: Dim, new: Value, done: Value, at: Value, low: Value, waited: Value) -> tuple[Parts, Parts]:
    """(c, s): the rotation that begins a sweep with a shift, or drives the bulge on; none where all is done"""
    one = const(1)
    upper, above, following = op.Sub(low, one), op.Sub(at, one), op.Add(at, one)
    found = picks(
        w,
        size,
        [
            (upper, upper),
            (upper, low),
            (low, upper),
            (low, low),
            (at, at),
            (following, at),
            (at, above),
            (following, above),
        ],
    )
    shift, corner = wilkinson(found[:4]), found[3]
    lost = op.And(op.Greater(waited, const(0)), op.Equal(op.Mod(waited, const(PATIENCE)), const(0)))
    off = op.Mul(op.Add(op.Abs(found[2][0]), op.Abs(found[2][1])), scalar(0.75, w.dtype))
    shift = either(lost, (op.Add(corner[0], off), corner[1]), shift)
    x = either(new, minus(found[4], shift), found[6])
    return rotation(x, either(new, found[5], found[7]), done)


# ---------------------------------------------------------------------------------------------- eigenvectors


def diagonal_of(t: Value) -> Parts:
    """(b, n): the elements of the diagonal"""
    size = t.shape[1]
    eye = cast(op.Equal(unsqueeze(iota(size), 1), iota(size)), t.dtype)
    return tuple(op.ReduceSum(op.Mul(pick_index(t, 2, i), eye), ints(2), keepdims=0) for i in (0, 1))  # type: ignore[return-value]


def triangular_vectors(t: Value) -> Parts:
    """(b, n, n): the eigenvectors of triangular matrices as columns, with no element much above 1"""
    batch, size, dtype = t.shape[0], t.shape[1], t.dtype
    places, one = iota(size), scalar(1, dtype)
    values = diagonal_of(t)
    here: Parts = unsqueeze(values[0], 1), unsqueeze(values[1], 1)
    total = op.Sqrt(op.ReduceSumSquare(t, ints(1, 2, 3), keepdims=1))
    total = op.Squeeze(total, ints(3))
    least = op.Mul(
        op.Add(op.Add(op.Abs(here[0]), op.Abs(here[1])), op.Mul(total, scalar(epsilon(dtype), dtype))),
        scalar(epsilon(dtype), dtype),
    )
    least = op.Max(least, scalar(float(np.finfo(dtype.numpy).tiny) ** 0.4, dtype))
    column = unsqueeze(places, 1)

    def row(x: Value, y: Value, k: Value, real: Value, imaginary: Value) -> tuple[Value, Value]:
        """Row k of all vectors, out of those below"""
        along = unsqueeze(real, 1), unsqueeze(imaginary, 1)
        real = op.Sub(op.MatMul(along[0], x), op.MatMul(along[1], y))
        sum_ = real, op.Add(op.MatMul(along[0], y), op.MatMul(along[1], x))
        own = op.Gather(here[0], unsqueeze(k, 0), axis=2), op.Gather(here[1], unsqueeze(k, 0), axis=2)
        gap = minus(here, own)
        near = op.Less(op.Add(op.Abs(gap[0]), op.Abs(gap[1])), least)
        gap = either(near, (least, op.Mul(least, scalar(0, dtype))), gap)
        made = near_quotient(sum_, gap)
        unit = cast(op.Equal(places, k), dtype)
        right = cast(op.Greater(places, k), dtype)
        made = op.Add(op.Mul(made[0], right), unit), op.Mul(made[1], right)
        scale = op.Reciprocal(op.Max(op.Max(op.Abs(made[0]), op.Abs(made[1])), one))
        chosen = op.Equal(column, k)
        return op.Mul(op.Where(chosen, made[0], x), scale), op.Mul(op.Where(chosen, made[1], y), scale)

    zeros = expand(scalar(0, dtype), (batch, size, size))
    rows = [op.Transpose(pick_index(t, 2, i), perm=(1, 0, 2)) for i in (0, 1)]
    x, y = op.Scan(zeros, zeros, places, *rows, num_scan_inputs=3, scan_input_directions=(1, 1, 1), body=row)
    return x, y


def unit_rows(x: Value) -> Value:
    """Rows (b, n, 2, n) of length 1 with a real largest element"""
    size = op.Sqrt(squares(x))
    x = op.Div(x, op.Where(op.Equal(size, scalar(0, x.dtype)), scalar(1, x.dtype), size))
    sizes = op.ReduceSumSquare(x, ints(2), keepdims=1)
    index = op.ArgMax(sizes, axis=3, keepdims=1)
    best = op.GatherElements(x, op.Concat(index, index, axis=2), axis=3)
    length = op.Sqrt(squares(best))
    best = op.Div(best, op.Where(op.Equal(length, scalar(0, x.dtype)), scalar(1, x.dtype), length))
    c, s = slice_axis(best, 2, 0, 1), slice_axis(best, 2, 1, 2)
    real, imaginary = slice_axis(x, 2, 0, 1), slice_axis(x, 2, 1, 2)
    made = product((real, imaginary), conjugate((c, s)))
    return op.Concat(*made, axis=2)
