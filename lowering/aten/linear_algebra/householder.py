"""QR factors of real and complex matrices by Householder's reflections H = I - tau * v @ v^H, as LAPACK has them."""

from __future__ import annotations

from irkit.build import op
from irkit.core.ir import Value
from lowering.algorithms.elimination import eye, head_of, merge_batches, steps_of, vanishes
from lowering.algorithms.real_or_complex import (
    adjoint,
    conj,
    div,
    expand,
    imaginary,
    matmul,
    mul,
    number,
    part_type,
    real,
    reshape,
    scan,
    slice_axis,
    squared_modulus,
    sub,
    swap,
    take,
    triangle,
    unsqueeze,
    where,
    whole,
)
from lowering.tensors.pieces import full
from lowering.tensors.promotion import scalar
from lowering.tensors.shaping import iota


def reflection(head: Value, tail: Value) -> tuple[Value, Value, Value]:
    """(what head becomes, tau, v without its leading 1) of the reflection that leaves nothing of the tail.

    head: (b, 1); tail: (b, n), zeros but below the head -> (b, 1) of real numbers, (b, 1), (b, n)
    """
    below = op.ReduceSum(squared_modulus(tail), [1], keepdims=1)
    first, zero = real(head), scalar(0, part_type(head))
    norm = op.Sqrt(op.Add(squared_modulus(head), below))
    idle = op.Equal(below, zero)
    if head.dtype.is_complex:
        idle = op.And(idle, op.Equal(imaginary(head), zero))
    made = op.Where(idle, first, op.Where(op.Less(first, zero), norm, op.Neg(norm)))
    safe = op.Where(idle, scalar(1, made.dtype), made)
    tau = div(sub(whole(made, head), head), safe)
    gap = sub(head, whole(made, head))
    v = div(tail, where(vanishes(gap), number(1, gap), gap))
    return made, tau, v


def factored(a: Value) -> tuple[Value, Value]:
    """(R above and on the diagonal, the vectors of the reflections below; tau).  (*, n, m) -> (*, n, m), (*, k)"""
    count, batch = steps_of(a), a.shape[:-2]
    rows, columns = iota(a.shape[-2]), iota(a.shape[-1])

    def column(rest: Value, k: Value) -> tuple[Value, ...]:
        """Step k: the reflection of column k, applied to the columns behind it"""
        entries = take(rest, k, 2)
        zero, here = number(0, rest), op.Equal(rows, k)
        made, tau, v = reflection(head_of(entries, k), where(op.Greater(rows, k), entries, zero))
        stored = where(here, whole(expand(made, real(v).shape), v), where(op.Greater(rows, k), v, entries))
        across = unsqueeze(where(here, number(1, rest), v), 2)
        turned = sub(rest, matmul(mul(across, unsqueeze(conj(tau), 2)), matmul(adjoint(across), rest)))
        behind = where(op.Greater(columns, k), turned, rest)
        return where(op.Equal(columns, k), unsqueeze(stored, 2), behind), reshape(tau, (tau.shape[0],))

    made, taus = scan(column, [merge_batches(a)], [iota(count)])
    return reshape(made, a.shape), reshape(swap(taus), (*batch, count))


def reflected(vectors: Value, tau: Value, start: Value, *, backward: bool) -> Value:
    """The reflections applied to `start` from the left, the last one first where `backward`: H1 @ H2 @ ... @ start.

    vectors: (*, n, m), below the diagonal; tau: (*, k); start: (*, n, j) -> (*, n, j)
    """
    matrix, rows, count = merge_batches(vectors), iota(vectors.shape[-2]), tau.shape[-1]
    turns = swap(reshape(tau, (matrix.shape[0], count)))

    def step(made: Value, k: Value, turn: Value) -> tuple[Value, ...]:
        below = where(op.Greater(rows, k), take(matrix, k, 2), number(0, matrix))
        v = unsqueeze(where(op.Equal(rows, k), number(1, matrix), below), 2)
        scaled = mul(v, unsqueeze(turn, 1, 2))
        turned = matmul(scaled, matmul(adjoint(v), made))
        # Both have as many rows as torch requires, which may not be known yet where they have names of their own.
        return (sub(made, turned if turned.shape == made.shape else reshape(turned, made.shape)),)

    (made,) = scan(step, [merge_batches(start)], [iota(count), turns], backward=backward)
    return reshape(made, start.shape)


def aten_geqrf(self: Value) -> tuple[Value, Value]:
    """(R above and on the diagonal, the vectors of the reflections below; tau)"""
    return factored(self)


def aten_linalg_householder_product(input: Value, tau: Value) -> Value:
    """The first columns of H1 @ H2 @ ...  input: (*, n, m); tau: (*, k) -> (*, n, m)"""
    start = expand(eye(input.shape[-2], input.shape[-1], input), input.shape)
    return reflected(input, tau, start, backward=True)


def aten_orgqr(self: Value, input2: Value) -> Value:
    """The first columns of H1 @ H2 @ ...  self: (*, n, m); input2: (*, k) -> (*, n, m)"""
    return aten_linalg_householder_product(self, input2)


def aten_ormqr(self: Value, input2: Value, input3: Value, left: bool = True, transpose: bool = False) -> Value:
    """Q @ input3, or input3 @ Q, for Q = H1 @ H2 @ ..., or its adjoint where `transpose`"""
    if not left:  # (C @ Q)^H = Q^H @ C^H
        return adjoint(aten_ormqr(self, input2, adjoint(input3), True, not transpose))
    return reflected(self, conj(input2) if transpose else input2, input3, backward=not transpose)


def aten_linalg_qr(A: Value, mode: str = "reduced") -> tuple[Value, Value]:
    """(Q, R): "reduced", "complete", or "r" for R alone.  A: (*, n, m)."""
    size, count, batch = A.shape[-2], steps_of(A), A.shape[:-2]
    data, tau = factored(A)
    r = triangle(data, True)
    if mode == "complete":
        return reflected(data, tau, expand(eye(size, size, A), (*batch, size, size)), backward=True), r
    r = slice_axis(r, A.rank - 2, 0, count)
    if mode == "r":
        return whole(full(0, (0,), part_type(A)), A), r
    return reflected(data, tau, expand(eye(size, count, A), (*batch, size, count)), backward=True), r


def aten_qr(self: Value, some: bool = True) -> tuple[Value, Value]:
    """(Q, R)"""
    return aten_linalg_qr(self, "reduced" if some else "complete")
