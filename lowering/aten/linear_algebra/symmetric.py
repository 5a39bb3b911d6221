"""Factors L @ D @ L^T of symmetric and L @ D @ L^H of Hermitian matrices, with the pivots of Bunch and Kaufman.

D has blocks of one and of two rows. As in LAPACK's sytrf and hetrf, exchanges of rows are not applied to the columns
of L that came before, and a negative pivot, twice, stands for a block of two rows.
"""

from __future__ import annotations

import math

import attrs

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.algorithms.elimination import exchange_rows, first_of, head_of, merge_batches, square, vanishes
from lowering.algorithms.real_or_complex import (
    absolute,
    add,
    adjoint,
    columns_in,
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
    squeeze,
    sub,
    swap,
    take,
    taxicab,
    triangle,
    unsqueeze,
    where,
    whole,
)
from lowering.tensors.complex_pairs import pair, parts
from lowering.tensors.pieces import full
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import broadcast_shape, iota

ALPHA = (1 + math.sqrt(17)) / 8
"""How much smaller than the largest of its column a pivot may be."""


@attrs.frozen(eq=False)
class Choice:
    """The pivot of one step, for each matrix: (b, 1).

    `place` is the row that changes places with row k, or with row k + 1 where `double`, which says that the pivot is a
    block of two rows; `failed` that the column has nothing but zeros.
    """

    place: Value
    double: Value
    failed: Value


def chosen(rest: Value, rows: Value, k: Value) -> Choice:
    """The pivot of step k.  rest: (b, n, n), all of the symmetric matrix that is left."""
    entries = take(rest, k, 2)
    zero, minus = (scalar(n, part_type(rest)) for n in (0, -1))
    alpha = scalar(ALPHA, zero.dtype)
    head, after = taxicab(head_of(entries, k)), op.Greater(rows, k)
    sizes = op.Where(after, taxicab(entries), minus)
    best = op.ArgMax(sizes, axis=1, keepdims=1)
    largest = op.Max(op.ReduceMax(sizes, [1], keepdims=1), zero)
    index = expand(op.Unsqueeze(best, [2]), (rest.shape[0], 1, rest.shape[2]))
    other = taxicab(squeeze(each(op.GatherElements, rest, index, axis=1), 1))
    beside = op.And(op.GreaterOrEqual(rows, k), op.Not(op.Equal(rows, best)))
    widest = op.ReduceMax(op.Where(beside, other, zero), [1], keepdims=1)
    corner = op.GatherElements(other, best, axis=1)
    bound = op.Mul(alpha, largest)
    ratio = op.Div(largest, op.Where(op.Equal(widest, zero), scalar(1, zero.dtype), widest))
    stays = op.Or(op.GreaterOrEqual(head, bound), op.GreaterOrEqual(head, op.Mul(bound, ratio)))
    single = op.Or(stays, op.GreaterOrEqual(corner, op.Mul(alpha, widest)))
    failed = op.Equal(op.Max(head, largest), zero)
    return Choice(op.Where(stays, k, best), op.Not(single), failed)


def block_parts(d11: Value, d21: Value, d22: Value, hermitian: bool) -> tuple[Value, Value, Value, Value]:
    """(p, q, c, f) with [[d11, d21'], [d21, d22]]^-1 = f * [[p, -c'], [-c, q]], none of which overflows early"""
    size = whole(absolute(d21), d21) if hermitian else d21
    size = where(vanishes(size), number(1, size), size)
    p, q, c = div(d22, size), div(d11, size), div(d21, size)
    gap = sub(mul(p, q), number(1, p))
    return p, q, c, div(div(number(1, p), where(vanishes(gap), number(1, p), gap)), size)


def factored(a: Value, hermitian: bool) -> tuple[Value, Value, Value]:
    """(D and L below it in one matrix, pivots, the first step without a pivot), out of lower triangles"""
    hermitian = hermitian and a.dtype.is_complex
    size, matrix = a.shape[-1], square(a)
    rows = iota(size)

    def turned(x: Value) -> Value:
        return conj(x) if hermitian else x

    def step(rest: Value, second: Value, last: Value, info: Value, k: Value) -> tuple[Value, ...]:
        """Step k; nothing where it is the second row of a block"""
        pick = chosen(rest, rows, k)
        free = op.Not(second)
        double, one = op.And(pick.double, free), number(1, rest)
        order = op.Where(second, rows, exchange_rows(rows, op.Add(k, cast(double, DType.INT64)), pick.place))
        trailing = op.And(op.Unsqueeze(op.GreaterOrEqual(rows, k), [1]), op.GreaterOrEqual(rows, k))
        rest = where(trailing, columns_in(rows_in(rest, order), order), rest)
        following = op.Min(op.Add(k, const(1)), op.Sub(op.Size(rows), const(1)))
        x1, x2 = take(rest, k, 2), take(rest, following, 2)
        d11, d21, d22 = head_of(x1, k), head_of(x1, following), head_of(x2, following)
        below = op.And(op.Greater(rows, op.Add(k, cast(double, DType.INT64))), free)
        x1, x2 = (where(below, x, number(0, rest)) for x in (x1, x2))
        p, q, c, f = block_parts(d11, d21, d22, hermitian)
        alone = div(x1, where(vanishes(d11), one, d11))
        l1 = where(double, mul(f, sub(mul(p, x1), mul(c, x2))), alone)
        l2 = where(double, mul(f, sub(mul(q, x2), mul(turned(c), x1))), number(0, rest))
        change = add(outer(l1, turned(x1)), outer(l2, turned(x2)))
        made = sub(rest, change)
        made = where(op.And(op.Unsqueeze(below, [2]), op.Equal(rows, k)), unsqueeze(l1, 2), made)
        behind = op.And(op.Unsqueeze(op.And(below, double), [2]), op.Equal(rows, following))
        made = where(behind, unsqueeze(l2, 2), made)
        place = op.Add(pick.place, const(1))
        last = op.Where(second, last, op.Where(double, op.Neg(place), place))
        info = first_of(info, op.Squeeze(op.And(pick.failed, free), [1]), k)
        return made, double, last, info, op.Squeeze(last, [1])

    count = matrix.shape[0]
    start = [symmetric(matrix, hermitian), full(False, (count, 1), DType.BOOL), full(0, (count, 1), DType.INT64)]
    made, _, _, info, pivots = scan(step, [*start, full(0, (count,), DType.INT32)], [rows])
    places = cast(reshape(swap(pivots), a.shape[:-1]), DType.INT32)
    return reshape(triangle(made, False), a.shape), places, reshape(info, a.shape[:-2])


def outer(x: Value, y: Value) -> Value:
    """(b, n), (b, n) -> (b, n, n)"""
    return mul(unsqueeze(x, 2), unsqueeze(y, 1))


def symmetric(a: Value, hermitian: bool) -> Value:
    """The whole of matrices of which the lower triangle is given; on the diagonal real where Hermitian"""
    low = triangle(a, False, -1)
    diagonal = sub(triangle(a, False), low)
    diagonal = whole(real(diagonal), a) if hermitian else diagonal
    return add(add(low, diagonal), adjoint(low) if hermitian else swap(low))


# ---------------------------------------------------------------------------------------------- solving


def solved(data: Value, pivots: Value, b: Value, hermitian: bool) -> Value:
    """x with L @ D @ L' @ x = b.  data: (m, n, n); pivots: (m, n) of i64; b: (m, n, j)"""
    rows = iota(b.shape[1])
    table = op.Unsqueeze(swap(pivots), [2])

    def below(k: Value, first: Value) -> Value:
        entries = take(data, k, 2)
        return where(op.Greater(rows, op.Add(k, cast(first, DType.INT64))), entries, number(0, entries))

    def order(k: Value, first: Value, second: Value, pivot: Value) -> Value:
        place = op.Sub(op.Abs(pivot), const(1))
        return op.Where(second, rows, exchange_rows(rows, op.Add(k, cast(first, DType.INT64)), place))

    def forward(x: Value, second: Value, k: Value, pivot: Value) -> tuple[Value, ...]:
        first = op.And(op.Less(pivot, const(0)), op.Not(second))
        x = rows_in(x, order(k, first, second, pivot))
        x = sub(x, mul(unsqueeze(below(k, first), 2), unsqueeze(take(x, k, 1), 1)))
        return x, first, first, second

    def back(x: Value, k: Value, pivot: Value, first: Value, second: Value) -> tuple[Value, ...]:
        entries = below(k, first)
        known = matmul(unsqueeze(conj(entries) if hermitian else entries, 1), x)
        x = where(op.Unsqueeze(op.Equal(rows, k), [1]), sub(x, known), x)
        return (rows_in(x, order(k, first, second, pivot)),)

    start = full(False, (data.shape[0], 1), DType.BOOL)
    x, _, first, second = scan(forward, [b, start], [rows, table])
    flags = [op.Transpose(v, perm=(1, 0, 2)) for v in (first, second)]
    x = blocks_solved(data, x, flags[0], flags[1], hermitian)
    return scan(back, [x], [rows, table, first, second], backward=True)[0]


def diagonal_of(data: Value, offset: int) -> Value:
    """(b, n, 1): the elements `offset` below the diagonal, one for each column.  data: (b, n, n)"""
    rows = iota(data.shape[-1])
    flags = op.Equal(op.Unsqueeze(rows, [1]), op.Add(rows, const(offset)))
    kept = where(flags, data, number(0, data))
    if not kept.dtype.is_complex:
        return op.Unsqueeze(op.ReduceSum(kept, [1], keepdims=0), [2])
    return pair(*(op.Unsqueeze(op.ReduceSum(v, [1], keepdims=0), [2]) for v in parts(kept)))


def blocks_solved(data: Value, b: Value, first: Value, second: Value, hermitian: bool) -> Value:
    """x with D @ x = b; `first` and `second` say which rows are those of a block of two.  (b, n, j), (b, n, 1)"""
    rows = iota(data.shape[-1])
    ahead = op.Min(op.Add(rows, const(1)), op.Sub(op.Size(rows), const(1)))
    behind = op.Max(op.Sub(rows, const(1)), const(0))

    def partner(x: Value) -> Value:
        return where(first, take(x, ahead, 1), take(x, behind, 1))

    d, e = diagonal_of(data, 0), diagonal_of(data, 1)
    e = where(first, conj(e) if hermitian else e, take(e, behind, 1))
    double, one = op.Or(first, second), number(1, d)
    p, _, c, f = block_parts(d, where(double, e, one), partner(d), hermitian)
    paired = mul(f, sub(mul(p, b), mul(c, partner(b))))
    return where(double, paired, div(b, where(double, one, d)))


def aten_linalg_ldl_factor_ex(
    self: Value, *, hermitian: bool = False, check_errors: bool = False
) -> tuple[Value, Value, Value]:
    """(D and L below it in one matrix, pivots, the first step without a pivot)"""
    return factored(self, hermitian)


def aten_linalg_ldl_factor(self: Value, *, hermitian: bool = False) -> tuple[Value, Value]:
    """(D and L below it in one matrix, pivots)"""
    return factored(self, hermitian)[:2]


def aten_linalg_ldl_solve(LD: Value, pivots: Value, B: Value, *, hermitian: bool = False) -> Value:
    """x with A @ x = B, for the factors of A; batches broadcast.  LD: (*, n, n); pivots: (*, n); B: (*, n, m)"""
    batch = broadcast_shape(LD.shape[:-2], B.shape[:-2])
    data, b = expand(LD, (*batch, *LD.shape[-2:])), expand(B, (*batch, *B.shape[-2:]))
    places = expand(cast(pivots, DType.INT64), (*batch, pivots.shape[-1]))
    places = squeeze(merge_batches(unsqueeze(places, -1)), -1)
    return reshape(solved(square(data), places, merge_batches(b), hermitian and LD.dtype.is_complex), b.shape)
