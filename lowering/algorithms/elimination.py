"""Eliminations and triangular factors of batches of matrices, real and complex: one Scan over the columns each.

Pivots and signs are LAPACK's. What torch refuses at run time, a singular matrix, gives infinities or NaN here, and is a
condition of the operators that refuse it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.algorithms.real_or_complex import (
    adjoint,
    beside,
    conj,
    div,
    each,
    expand,
    matmul,
    mul,
    number,
    part_type,
    real,
    reshape,
    rows_in,
    scan,
    slice_axis,
    sub,
    swap,
    take,
    taxicab,
    triangle,
    unsqueeze,
    where,
    whole,
    zeros,
)
from lowering.tensors import shaping
from lowering.tensors.pieces import full
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import broadcast_shape, iota


def merge_batches(x: Value) -> Value:
    """(*, n, m) -> (b, n, m)"""
    return reshape(x, (dims.product(x.shape[:-2]), *x.shape[-2:]))


def square(x: Value) -> Value:
    """(*, n, n) -> (b, n, n); torch does not ask whether empty matrices are square"""
    return merge_batches(reshape(x, (*x.shape[:-2], x.shape[-1], x.shape[-1])))


def eye(rows: Dim, columns: Dim, like: Value) -> Value:
    """(rows, columns): ones on the diagonal, in the type of `like`"""
    dtype = part_type(like)
    if type(rows) is int and type(columns) is int:
        return whole(const(np.eye(rows, columns, dtype=dtype.numpy)), like)
    return whole(cast(op.Equal(shaping.unsqueeze(iota(rows), 1), iota(columns)), dtype), like)


def identity(like: Value) -> Value:
    """(*, n, n): ones on the diagonal"""
    size = like.shape[-1]
    return expand(eye(size, size, like), (*like.shape[:-2], size, size))


def steps_of(a: Value) -> Dim:
    """How many columns are eliminated: the smaller side"""
    return dims.minimum(a.shape[-2], a.shape[-1])


# ---------------------------------------------------------------------------------------------- parts of a step


def first_of(info: Value, failed: Value, k: Value) -> Value:
    """(b): the number of the first step that failed, from 1 on; 0 as long as none did.  failed: (b)."""
    here = op.And(failed, op.Equal(info, scalar(0, info.dtype)))
    return op.Where(here, op.Add(cast(k, info.dtype), scalar(1, info.dtype)), info)


def exchange_rows(rows: Value, k: Value, pivot: Value) -> Value:
    """(b, n): the rows in order, k and each pivot having changed places.  pivot: (b, 1)."""
    return op.Where(op.Equal(rows, k), pivot, op.Where(op.Equal(rows, pivot), k, rows))


def largest_from(entries: Value, rows: Value, k: Value) -> Value:
    """(b, 1): the place of the largest of the entries from k on.  entries: (b, n)."""
    sizes = taxicab(entries)
    return op.ArgMax(op.Where(op.GreaterOrEqual(rows, k), sizes, scalar(-1, sizes.dtype)), axis=1, keepdims=1)


def head_of(entries: Value, k: Value) -> Value:
    """(b, 1): entry k.  entries: (b, n)."""
    return take(entries, op.Unsqueeze(k, [0]), 1)


def vanishes(x: Value) -> Value:
    """Where x is 0"""
    return op.Equal(taxicab(x), scalar(0, part_type(x)))


# ---------------------------------------------------------------------------------------------- general matrices


def eliminated(a: Value, b: Value) -> Value:
    """x with a @ x = b, by elimination with pivots.  a: (b, n, n); b: (b, n, m) -> (b, n, m)."""
    size = a.shape[1]
    rows = iota(size)

    def column(state: Value, k: Value) -> tuple[Value, ...]:
        """One step: the largest element of column k at or below the diagonal is the pivot, the column a unit"""
        state = rows_in(state, exchange_rows(rows, k, largest_from(take(state, k, 2), rows, k)))
        entries, chosen = take(state, k, 2), take(state, k, 1)
        chosen = unsqueeze(div(chosen, head_of(entries, k)), 1)
        rest = sub(state, mul(unsqueeze(entries, 2), chosen))
        return (where(op.Unsqueeze(op.Equal(rows, k), [1]), chosen, rest),)

    (made,) = scan(column, [beside(a, b)], [rows])
    return reshape(slice_axis(made, 2, size, dims.add(size, b.shape[2])), b.shape)


def solve(a: Value, b: Value) -> Value:
    """x with a @ x = b for matrices whose batches broadcast.  a: (*, n, n); b: (*, n, m)."""
    return batched(eliminated, a, b)


def batched(function: Callable[[Value, Value], Value], a: Value, b: Value) -> Value:
    """`function` of matrices whose batches broadcast, in the shape of b"""
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    a, b = expand(a, (*batch, *a.shape[-2:])), expand(b, (*batch, *b.shape[-2:]))
    return reshape(function(square(a), merge_batches(b)), b.shape)


def inverses(a: Value) -> Value:
    """The inverses of (*, n, n)"""
    return solve(a, identity(a))


def lu(a: Value, pivot: bool = True) -> tuple[Value, Value, Value]:
    """(both factors in one matrix, the row that each step changed places with, the first step without a pivot); rows
    and steps are counted from 1 on.  (*, n, m) -> (*, n, m), (*, k) of i32, (*) of i32"""
    count, batch = steps_of(a), a.shape[:-2]
    matrix, rows, columns = merge_batches(a), iota(a.shape[-2]), iota(a.shape[-1])

    def column(rest: Value, info: Value, k: Value) -> tuple[Value, ...]:
        """Step k: the pivot's row goes to place k, and its multiples leave the rows below"""
        best = largest_from(take(rest, k, 2), rows, k) if pivot else expand(k, (matrix.shape[0], 1))
        rest = rows_in(rest, exchange_rows(rows, k, best)) if pivot else rest
        entries, chosen = take(rest, k, 2), take(rest, k, 1)
        head = head_of(entries, k)
        failed = vanishes(head)
        zero = number(0, rest)
        factor = where(op.Greater(rows, k), div(entries, where(failed, number(1, rest), head)), zero)
        right = where(op.Greater(columns, k), chosen, zero)
        below = op.And(op.Unsqueeze(op.Greater(rows, k), [1]), op.Equal(columns, k))
        factor = unsqueeze(factor, 2)
        made = where(below, factor, sub(rest, mul(factor, unsqueeze(right, 1))))
        return made, first_of(info, op.Squeeze(failed, [1]), k), op.Add(op.Squeeze(best, [1]), const(1))

    start = full(0, (matrix.shape[0],), DType.INT32)
    made, info, pivots = scan(column, [matrix, start], [iota(count)])
    places = cast(reshape(swap(pivots), (*batch, count)), DType.INT32)
    return reshape(made, a.shape), places, reshape(info, batch)


def permutation(pivots: Value, size: Dim, like: Value) -> Value:
    """(*, n, n): the matrix P of the exchanges of rows, with A = P @ L @ U, in the type of `like`"""
    batch, count = pivots.shape[:-1], pivots.shape[-1]
    rows = iota(size)
    places = swap(reshape(cast(pivots, DType.INT64), (dims.product(batch), count)))
    table = op.Max(op.Min(op.Sub(places, const(1)), dim_scalar(dims.sub(size, 1))), const(0))  # there is no row beyond

    def exchange(order: Value, k: Value, pivot: Value) -> tuple[Value, ...]:
        return (op.GatherElements(order, exchange_rows(rows, k, op.Unsqueeze(pivot, [1])), axis=1),)

    (made,) = scan(exchange, [expand(rows, (dims.product(batch), size))], [iota(count), table])
    ones = op.Equal(op.Unsqueeze(made, [1]), op.Unsqueeze(rows, [1]))
    return whole(reshape(cast(ones, part_type(like)), (*batch, size, size)), like)


def triangles(data: Value) -> tuple[Value, Value]:
    """(L, U) out of one matrix.  (*, n, m) -> (*, n, k), (*, k, m)"""
    count, rank = steps_of(data), data.rank
    low, high = slice_axis(data, rank - 1, 0, count), slice_axis(data, rank - 2, 0, count)
    unit = op.Equal(op.Unsqueeze(iota(data.shape[-2]), [1]), iota(count))
    return where(unit, number(1, data), triangle(low, False, -1)), triangle(high, True)


# ---------------------------------------------------------------------------------------------- triangles


def solve_triangular(a: Value, b: Value, *, upper: bool, unit: bool = False) -> Value:
    """x with a @ x = b, looking at one triangle of a only, and not at its diagonal where `unit`; batches broadcast.

    a: (*, n, n); b: (*, n, m)
    """

    def rows_in_turn(a: Value, b: Value) -> Value:
        rows = iota(b.shape[1])
        others = triangle(a, upper, 1 if upper else -1)

        def row(x: Value, k: Value) -> tuple[Value, ...]:
            """Row k of x, from those that are known; the others are 0"""
            known = matmul(unsqueeze(take(others, k, 1), 1), x)
            found = sub(unsqueeze(take(b, k, 1), 1), known)
            if not unit:
                found = div(found, unsqueeze(head_of(take(a, k, 1), k), 2))
            return (where(op.Unsqueeze(op.Equal(rows, k), [1]), found, x),)

        (made,) = scan(row, [zeros(b.shape, b)], [rows], backward=upper)
        return made

    return batched(rows_in_turn, a, b)


def substituted_right(a: Value, b: Value, *, upper: bool, unit: bool = False) -> Value:
    """x with x @ a = b, else as `solve_triangular`"""
    return swap(solve_triangular(swap(a), swap(b), upper=not upper, unit=unit))


# ---------------------------------------------------------------------------------------------- positive matrices


def cholesky(a: Value, upper: bool) -> tuple[Value, Value]:
    """(l with l @ l^H = a, the first step without a positive pivot) out of lower triangles; (u with u^H @ u = a, ...)
    out of upper ones.  (*, n, n) -> (*, n, n), (*) of i32"""
    a = adjoint(a) if upper else a
    rows, matrix = iota(a.shape[-1]), square(a)

    def column(rest: Value, info: Value, k: Value) -> tuple[Value, ...]:
        """Column k of the factor, and what is left of the matrix without it"""
        entries = take(rest, k, 2)
        head = real(head_of(entries, k))
        failed = op.Not(op.Greater(head, scalar(0, head.dtype)))
        below = where(op.Greater(rows, k), div(entries, op.Sqrt(head)), number(0, rest))
        entries = where(op.Equal(rows, k), whole(expand(op.Sqrt(head), real(below).shape), below), below)
        rest = sub(rest, mul(unsqueeze(entries, 2), unsqueeze(conj(entries), 1)))
        return rest, first_of(info, op.Squeeze(failed, [1]), k), entries

    start = full(0, (matrix.shape[0],), DType.INT32)
    _, info, columns = scan(column, [matrix, start], [rows])
    made = reshape(each(op.Transpose, columns, perm=(1, 2, 0)), a.shape)
    return adjoint(made) if upper else made, reshape(info, a.shape[:-2])
