"""LU and QR factors of batches of real matrices: one Scan over the columns each."""

from __future__ import annotations

from irkit import dims
from irkit.build import const, op
from irkit.dims import Dim
from irkit.ir import Value
from irkit.types import DType
from lowering.aten.solve import aten_linalg_solve, fine, identity, merged
from lowering.pieces import full, swap
from lowering.promotion import cast, scalar
from lowering.shaping import expand, iota, reshape, sliced, unsqueeze

Triple = tuple[Value, Value, Value]


def steps_of(a: Value) -> Dim:
    """How many columns are eliminated: the smaller side"""
    return dims.minimum(a.shape[-2], a.shape[-1])


def swapped_order(rows: Value, k: Value, pivot: Value) -> Value:
    """(b, n): the rows in order, k and each pivot having changed places.  pivot: (b, 1)."""
    return op.Where(op.Equal(rows, k), pivot, op.Where(op.Equal(rows, pivot), k, rows))


def lu(a: Value, pivot: bool) -> tuple[Value, Value]:
    """(both factors in one matrix, the row that each step changed places with, from 1 on).  (*, n, m), (*, k) of i32"""
    count, batch = steps_of(a), a.shape[:-2]
    if any(dims.same(d, 0) is True for d in a.shape):  # ONNX Runtime scans nothing
        return a, full(0, (*batch, count), DType.INT32)
    whole, rows, columns = merged(a), iota(a.shape[-2]), iota(a.shape[-1])

    def column(rest: Value, k: Value) -> tuple[Value, Value]:
        """Step k: the pivot's row goes to place k, and its multiples leave the rows below"""
        entries = op.Gather(rest, k, axis=2)
        open_ = op.Where(op.GreaterOrEqual(rows, k), op.Abs(entries), scalar(-1, rest.dtype))
        best = op.ArgMax(open_, axis=1, keepdims=1)
        best = best if pivot else op.Add(op.Mul(best, const(0)), k)
        order = unsqueeze(swapped_order(rows, k, best), 2)
        rest = op.GatherElements(rest, expand(order, rest.shape), axis=1)
        entries, chosen = op.Gather(rest, k, axis=2), op.Gather(rest, k, axis=1)
        head = op.Gather(entries, unsqueeze(k, 0), axis=1)
        zero = scalar(0, rest.dtype)
        safe = op.Where(op.Equal(head, zero), scalar(1, rest.dtype), head)
        factor = unsqueeze(op.Where(op.Greater(rows, k), op.Div(entries, safe), zero), 2)
        right = unsqueeze(op.Where(op.Greater(columns, k), chosen, zero), 1)
        below = op.And(unsqueeze(op.Greater(rows, k), 1), op.Equal(columns, k))
        made = op.Where(below, factor, op.Sub(rest, op.Mul(factor, right)))
        return made, op.Add(op.Squeeze(best, [1]), const(1))

    made, pivots = op.Scan(whole, iota(count), num_scan_inputs=1, body=column)
    return reshape(made, a.shape), cast(reshape(swap(pivots), (*batch, count)), DType.INT32)


def permutation(pivots: Value, size: Dim, dtype: DType) -> Value:
    """(*, n, n): the matrix P of the exchanges of rows, with A = P @ L @ U"""
    batch, count = pivots.shape[:-1], pivots.shape[-1]
    rows = iota(size)
    if any(dims.same(d, 0) is True for d in (*pivots.shape, size)):
        return expand(identity(full(0, (size, size), dtype)), (*batch, size, size))
    table = swap(reshape(cast(pivots, DType.INT64), (dims.product(batch), count)))

    def exchange(order: Value, k: Value, pivot: Value) -> tuple[Value]:
        place = op.Sub(unsqueeze(pivot, 1), const(1))
        return (op.GatherElements(order, swapped_order(rows, k, place), axis=1),)

    start = expand(rows, (dims.product(batch), size))
    made = op.Scan(start, iota(count), table, num_scan_inputs=2, body=exchange)
    made = made[0] if isinstance(made, tuple) else made
    ones = op.Equal(unsqueeze(made, 1), unsqueeze(rows, 1))
    return reshape(cast(ones, dtype), (*batch, size, size))


def triangles(data: Value) -> tuple[Value, Value]:
    """(L, U) out of one matrix.  (*, n, m) -> (*, n, k), (*, k, m)"""
    count, rank = steps_of(data), data.rank
    low, high = sliced(data, rank - 1, 0, count), sliced(data, rank - 2, 0, count)
    unit = op.Equal(unsqueeze(iota(data.shape[-2]), 1), iota(count))
    low = op.Where(unit, scalar(1, data.dtype), op.Trilu(low, const(-1), upper=0))
    return low, op.Trilu(high, upper=1)


def aten_linalg_lu_factor_ex(A: Value, *, pivot: bool = True, check_errors: bool = False) -> Triple:
    """(both factors in one matrix, exchanges of rows, no error)"""
    data, pivots = lu(A, pivot)
    return data, pivots, fine(A)


def aten_lu_unpack(LU_data: Value, LU_pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True) -> Triple:
    """(P, L, U); those that are not asked for have no elements"""
    none = full(0, (0,), LU_data.dtype)
    low, high = triangles(LU_data) if unpack_data else (none, none)
    return permutation(LU_pivots, LU_data.shape[-2], LU_data.dtype) if unpack_pivots else none, low, high


def aten_linalg_lu(A: Value, *, pivot: bool = True) -> Triple:
    """(P, L, U) with A = P @ L @ U; P has no elements without pivots"""
    return aten_lu_unpack(*lu(A, pivot), True, pivot)


def aten_linalg_lu_solve(LU: Value, pivots: Value, B: Value, *, left: bool = True, adjoint: bool = False) -> Value:
    """x with A @ x = B, or x @ A = B, for the factors of A; of its transpose where `adjoint`"""
    low, high = triangles(LU)
    whole = op.MatMul(permutation(pivots, LU.shape[-2], LU.dtype), op.MatMul(low, high))
    whole = swap(whole) if adjoint else whole
    return swap(aten_linalg_solve(swap(whole), swap(B))) if not left else aten_linalg_solve(whole, B)


def aten__linalg_solve_ex(
    A: Value, B: Value, *, left: bool = True, check_errors: bool = False
) -> tuple[Value, Value, Value, Value]:
    """(solution, factors of A, exchanges of rows, no error)"""
    return aten_linalg_solve(A, B, left=left), *lu(A, True), fine(A)


def aten_linalg_qr(A: Value, mode: str = "reduced") -> tuple[Value, Value]:
    """(Q, R) by Householder's reflections: "reduced", "complete", or "r" for R alone.  A: (*, n, m)."""
    size, count, batch = A.shape[-2], steps_of(A), A.shape[:-2]
    rows = iota(size)
    none = full(0, (0,), A.dtype)
    square = (dims.product(batch), size, size)
    q, r = expand(identity(full(0, (size, size), A.dtype)), square), merged(A)
    if not any(dims.same(d, 0) is True for d in A.shape):

        def column(q: Value, r: Value, k: Value) -> tuple[Value, Value]:
            """Step k: the reflection that leaves nothing below the diagonal"""
            zero = scalar(0, r.dtype)
            entries = op.Gather(r, k, axis=2)
            below = op.ReduceSum(op.Mul(x := op.Where(op.Greater(rows, k), entries, zero), x), const([1]))
            head = op.Gather(entries, unsqueeze(k, 0), axis=1)
            size_ = op.Sqrt(op.Add(below, op.Mul(head, head)))
            first = op.Add(head, op.Where(op.Less(head, zero), op.Neg(size_), size_))
            v = op.Where(op.Equal(rows, k), first, x)
            length = op.Add(below, op.Mul(first, first))
            idle = op.Equal(below, zero)
            scale = op.Where(idle, zero, op.Div(scalar(2, r.dtype), op.Where(idle, scalar(1, r.dtype), length)))
            across, down = unsqueeze(v, 1), unsqueeze(op.Mul(v, scale), 2)
            r = op.Sub(r, op.Mul(down, op.MatMul(across, r)))
            return op.Sub(q, op.MatMul(op.MatMul(q, unsqueeze(v, 2)), swap(down))), r

        q, r = op.Scan(q, r, iota(count), num_scan_inputs=1, body=column)
    q, r = reshape(q, (*batch, size, size)), op.Trilu(reshape(r, A.shape), upper=1)
    if mode == "complete":
        return q, r
    return none if mode == "r" else sliced(q, A.rank - 1, 0, count), sliced(r, A.rank - 2, 0, count)
