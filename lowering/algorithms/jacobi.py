"""Rows made orthogonal by Jacobi's rotations, and completed to orthonormal ones by Householder's reflections.

Rows of real and of complex numbers are treated alike as planes (b, rows, c, length): c is 1 for real numbers, and 2 for
complex ones, the real and the imaginary part. Multiplication by -i is `turned`.

The rotations are Hestenes' one-sided ones in the order of a tournament: the 2h rows are players, row i plays against
row i + h, all h games of a round at the same time, and after 2h - 1 rounds everyone has played against everyone. One
trip of the Loop is one round, about 50 operators of which ten touch all rows. It ends with 2h - 1 rounds in which no
pair was further from orthogonal than rounding errors are; random matrices need 8 to 12 times that many.
"""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.tensors.complex_numbers import near_modulus, product
from lowering.tensors.complex_pairs import pair, parts
from lowering.tensors.pieces import swap
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import concat, expand, ints, iota, pick_index, reshape, slice_axis, squeeze, unsqueeze

SWEEPS = 40
"""Tournaments after which the rotations end in any case."""

INNER = (2, 3)
"""The axes of planes that one row extends over."""


# ---------------------------------------------------------------------------------------------- planes


def planes(x: Value) -> Value:
    """(*, p, q) real or complex -> (b, p, c, q)"""
    halves = parts(x) if x.dtype.is_complex else (x,)
    shape = (dims.product(x.shape[:-2]), *x.shape[-2:])
    return concat([unsqueeze(reshape(part, shape), 2) for part in halves], 2)


def whole(x: Value, batch: tuple[Dim, ...]) -> Value:
    """(b, p, c, q) -> (*batch, p, q), real or complex"""
    shape = (*batch, x.shape[1], x.shape[3])
    if x.shape[2] == 1:
        return reshape(x, shape)
    return pair(*(reshape(pick_index(x, 2, i), shape) for i in (0, 1)))


def transpose_planes(x: Value) -> Value:
    """(b, p, c, q) -> (b, q, c, p)"""
    return swap(x, 1, 3)


def conjugate_planes(x: Value) -> Value:
    """Planes with the sign of imaginary parts changed"""
    if x.shape[2] == 1:
        return x
    return op.Mul(x, const(np.array([[1], [-1]], x.dtype.numpy)))


def turned(x: Value) -> Value:
    """-i * x, for complex planes"""
    return op.Mul(op.Gather(x, ints(1, 0), axis=2), const(np.array([[1], [-1]], x.dtype.numpy)))


def squares(x: Value) -> Value:
    """(b, p, c, q) -> (b, p, 1, 1): the sums of squares of rows"""
    return op.ReduceSumSquare(x, ints(*INNER), keepdims=1)


def products(x: Value, y: Value) -> Value:
    """(b, p, 1, 1): real parts of inner products of rows; with `turned(y)` the imaginary parts of x^H y"""
    return op.ReduceSum(op.Mul(x, y), ints(*INNER), keepdims=1)


def matrix_products(a: Value, b: Value) -> Value:
    """(b, p, c, q) and (b, q, c, r) -> (b, p, c, r): the products of the matrices"""
    if a.shape[2] == 1:
        return unsqueeze(op.MatMul(squeeze(a, 2), squeeze(b, 2)), 2)
    (e, f), (g, h) = ([pick_index(x, 2, i) for i in (0, 1)] for x in (a, b))
    return concat([unsqueeze(part, 2) for part in product((e, f), (g, h), op.MatMul)], 2)


def units(count: Dim, length: Dim, like: Value) -> Value:
    """(b, count, c, length): the first `count` unit vectors, for each matrix of `like`"""
    ones = cast(op.Equal(unsqueeze(iota(count), 1), iota(length)), like.dtype)
    layers = unsqueeze(ones, 0, 2)
    if like.shape[2] == 2:
        layers = concat([layers, op.Mul(layers, scalar(0, like.dtype))], 2)
    return expand(layers, (like.shape[0], count, like.shape[2], length))


def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next number"""
    return float(np.finfo(dtype.numpy).eps)


# ---------------------------------------------------------------------------------------------- rotations


def next_round(half: Dim) -> Value:
    """(2 * half,): which player sits at each place in the next round; the first stays, the others go round."""
    size = dims.mul(2, half)
    place, edge, last = iota(size), dim_scalar(half), dim_scalar(dims.sub(size, 1))
    left = op.Where(op.Equal(place, const(1)), edge, op.Max(op.Sub(place, const(1)), const(0)))
    turn = op.Max(op.Sub(edge, const(1)), const(1))
    right = op.Where(op.Equal(place, last), turn, op.Add(place, const(1)))
    return op.Where(op.Less(place, edge), left, right)


def rotation(first: Value, second: Value, inner: Value, significant: Value) -> tuple[Value, Value]:
    """(s, s / (1 + c)): sine and tangent of half the angle that makes rows orthogonal.

    first, second: their squares; inner: their real inner product; where it is not significant the angle is 0.
    """
    one = scalar(1, first.dtype)
    z = op.Div(op.Sub(second, first), op.Mul(op.Where(significant, inner, one), scalar(2, first.dtype)))
    root = op.Sqrt(op.Add(op.Mul(z, z), one))
    tangent = op.Div(one, op.Add(z, op.Where(op.Less(z, scalar(0, z.dtype)), op.Neg(root), root)))
    tangent = op.Where(significant, tangent, scalar(0, z.dtype))
    cosine = op.Div(one, op.Sqrt(op.Add(op.Mul(tangent, tangent), one)))
    sine = op.Mul(cosine, tangent)
    return sine, op.Div(sine, op.Add(cosine, one))


def played(x: Value, y: Value, length: Dim, tolerance: Value, floor: Value) -> tuple[Value, Value, Value]:
    """(x, y, whether they were far from it): pairs of rows rotated, so that they are orthogonal"""
    a, b = slice_axis(x, 3, 0, length), slice_axis(y, 3, 0, length)
    first, second, inner = squares(a), squares(b), products(a, b)
    size, behind, across = op.Abs(inner), y, inner
    if x.shape[2] == 2:
        behind = turned(y)
        across = products(a, slice_axis(behind, 3, 0, length))
        size = near_modulus((inner, across))
    scale = op.Sqrt(op.Mul(first, second))
    significant = op.Greater(size, op.Max(op.Mul(scale, scalar(epsilon(x.dtype), x.dtype)), floor))
    far = op.Greater(size, op.Max(op.Mul(scale, tolerance), floor))
    if x.shape[2] == 2:  # the phase of the inner product is taken from the second row
        safe = op.Where(significant, size, scalar(1, x.dtype))
        real = op.Where(significant, op.Div(inner, safe), scalar(1, x.dtype))
        imaginary = op.Where(significant, op.Div(across, safe), scalar(0, x.dtype))
        y, inner = op.Add(op.Mul(y, real), op.Mul(behind, imaginary)), size
    sine, half = rotation(first, second, inner, significant)
    # c * x - s * y in the words of Rutishauser: c, which is close to 1, would be rounded to the same side each time.
    left = op.Sub(x, op.Mul(sine, op.Add(y, op.Mul(half, x))))
    return left, op.Add(y, op.Mul(sine, op.Sub(x, op.Mul(half, y)))), far


def rotated(rows: Value, half: Dim, length: Dim) -> Value:
    """(b, 2 * half, c, *): rows combined by rotations until any two are orthogonal in their first `length` numbers.

    The elements must be around 1. Rows that are smaller than rounding errors of the largest ones count as zeros.
    """
    count, sizes = dims.sub(dims.mul(2, half), 1), shape_vector((half, half))
    numbers = cast(dim_scalar(dims.mul(rows.shape[2], length)), rows.dtype)
    eps = epsilon(rows.dtype)
    tolerance = op.Mul(op.Add(op.Sqrt(numbers), scalar(16, rows.dtype)), scalar(eps, rows.dtype))
    total = op.ReduceSumSquare(slice_axis(rows, 3, 0, length), ints(1, 2, 3), keepdims=1)
    floor = op.Mul(total, scalar((eps / 8) ** 2, rows.dtype))
    order, rounds = next_round(half), dim_scalar(count)

    def game(i: Value, going: Value, rows: Value, still: Value) -> tuple[Value, Value, Value]:
        """One round; `still` counts those since the last that turned rows far"""
        x, y = op.Split(rows, sizes, axis=1)
        x, y, far = played(x, y, length, tolerance, floor)
        any_ = op.ReduceMax(cast(far, DType.INT32), keepdims=0)
        still = op.Where(op.Equal(any_, scalar(1, DType.INT32)), const(0), op.Add(still, const(1)))
        return op.Less(still, rounds), op.Gather(op.Concat(x, y, axis=1), order, axis=1), still

    # ONNX Runtime runs no body over nothing.
    filled = dims.minimum(1, dims.mul(rows.shape[0], length))
    made, _ = op.Loop(dim_scalar(dims.mul(dims.mul(SWEEPS, count), filled)), const(True), rows, const(0), body=game)
    return made


def orthogonal(rows: Value, length: Dim) -> Value:
    """`rotated` for any number n of rows: 2h = n or n + 1 rows, of which the one too many, somewhere, is zero"""
    batch, count, layers, width = rows.shape
    half = dims.floordiv(dims.add(count, 1), 2)
    size = dims.mul(2, half)
    more = dims.sub(size, count)
    if dims.same(more, 0) is not True:
        rows = op.Pad(rows, shape_vector((0, 0, 0, 0, 0, more, 0, 0)))
    return reshape(rotated(rows, half, length), (batch, size, layers, width))


def orthogonalize(rows: Value) -> tuple[Value, Value]:
    """(W, V): V unitary and W = V^T @ rows with orthogonal rows, in no order.  rows: (b, n, c, m), elements around 1.

    W: (b, 2h, c, m) and V: (b, 2h, c, n) with 2h = n or n + 1; the row too many is zero in both.
    """
    count, length = rows.shape[1], rows.shape[3]
    made = orthogonal(concat([rows, units(count, count, rows)], 3), length)
    return slice_axis(made, 3, 0, length), slice_axis(made, 3, length, dims.add(length, count))


def top_rows(key: Value, count: Dim, descending: bool, *tables: Value) -> tuple[Value, ...]:
    """The `count` largest or smallest of (b, p), in order, and the rows of tables (b, p, c, *) in that order."""
    best, order = op.TopK(key, shape_vector((count,)), axis=1, largest=int(descending))
    best, order = reshape(best, (key.shape[0], count)), unsqueeze(order, 2)
    shapes = [(key.shape[0], count, *table.shape[2:]) for table in tables]
    return best, *(reshape(op.GatherND(t, order, batch_dims=1), s) for t, s in zip(tables, shapes, strict=True))


# ---------------------------------------------------------------------------------------------- reflections


def reflect(rows: Value, v: Value) -> Value:
    """rows - v * (v^H row) for every row.  rows: (b, p, c, q); v: (b, 1, c, q)."""
    along = op.Mul(products(rows, v), v)
    if v.shape[2] == 2:
        behind = turned(v)
        along = op.Add(along, op.Mul(products(rows, behind), behind))
    return op.Sub(rows, along)


def mirror(row: Value, places: Value, k: Value) -> tuple[Value, Value, Value]:
    """(v, phase, idle): the reflection I - v v^H that leaves -phase * |row| at place k and nothing else of a row.

    row: (b, 1, c, m); where it is 0, it is idle, and so is the reflection.
    """
    layers, dtype = row.shape[2], row.dtype
    zero, one, small = scalar(0, dtype), scalar(1, dtype), scalar(epsilon(dtype) ** 4, dtype)
    head = op.Gather(row, unsqueeze(k, 0), axis=3)
    inside, length = squares(head), squares(row)
    no_phase = op.Less(inside, small)
    ahead = const(np.array([[1], [0]][:layers], dtype.numpy))
    phase = op.Where(no_phase, ahead, op.Div(head, op.Sqrt(op.Where(no_phase, one, inside))))
    v = op.Add(row, op.Where(op.Equal(places, k), op.Mul(phase, op.Sqrt(length)), zero))
    idle = op.Less(length, small)
    scale = op.Sqrt(op.Div(scalar(2, dtype), op.Where(idle, one, squares(v))))
    return op.Mul(v, op.Where(idle, zero, scale)), phase, idle


def complete_basis(rows: Value, count: Dim) -> Value:
    """(b, count, c, m): orthonormal rows, the first of them the directions of `rows`: (b, p, c, m), orthogonal already.

    Where a row is 0, or there are less than `count`, they are any that are orthogonal to the others. p must not be more
    than `count`, nor that more than m.
    """
    batch, steps, layers, length = rows.shape
    places = iota(length)

    def reflection(rest: Value, k: Value) -> tuple[Value, Value, Value]:
        """Step k: (rows reflected, the vector of the reflection, the phase that row k is left with)"""
        row = op.Gather(rest, unsqueeze(k, 0), axis=1)
        v, phase, idle = mirror(op.Where(op.GreaterOrEqual(places, k), row, scalar(0, rows.dtype)), places, k)
        return reflect(rest, v), v, op.Where(idle, phase, op.Neg(phase))

    _, vectors, phases = op.Scan(rows, iota(steps), num_scan_inputs=1, body=reflection)
    start = units(count, length, rows)
    start = op.Mul(slice_axis(start, 2, 0, 1), phased(phases, dims.sub(count, steps)))
    made = op.Scan(start, vectors, num_scan_inputs=1, scan_input_directions=(1,), body=lambda q, v: (reflect(q, v),))
    made = made[0] if isinstance(made, tuple) else made
    return reshape(made, (batch, count, layers, length))


def phased(phases: Value, more: Dim) -> Value:
    """(p, b, 1, c, 1) -> (b, p + more, c, 1), filled with ones"""
    found = op.Transpose(squeeze(phases, 2), perm=(1, 0, 2, 3))
    if dims.same(more, 0) is True:
        return found
    pads, dtype = shape_vector((0, 0, 0, 0, 0, more, 0, 0)), found.dtype
    filled = [op.Pad(slice_axis(found, 2, i, i + 1), pads, scalar(1 - i, dtype)) for i in range(int(found.shape[2]))]
    return concat(filled, 2)
