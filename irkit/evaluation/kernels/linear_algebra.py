"""Products of matrices."""

from __future__ import annotations

import numpy as np

from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.evaluation.kernels.casts import integer_range
from irkit.evaluation.kernels.common import Array, attr, is_float, narrowed_to, wide


def kernel_MatMul(node: Value, a: Array, b: Array) -> Array:
    """a @ b, as numpy.matmul: (..., n, k), (..., k, m) -> (..., n, m)."""
    return narrowed_to(np.matmul(wide(a), wide(b)), a.dtype)


def kernel_Gemm(node: Value, a: Array, b: Array, c: Array | None = None) -> Array:
    """alpha * (a @ b) + beta * c, with a and b transposed where the attributes say so."""
    left, right = wide(a), wide(b)
    found = np.matmul(left.T if attr(node, "transA") else left, right.T if attr(node, "transB") else right)
    alpha, beta = attr(node, "alpha"), attr(node, "beta")
    if found.dtype.kind in "iu" and alpha == int(alpha) and beta == int(beta):  # they wrap, as other products do
        alpha, beta = (np.array(int(n)).astype(found.dtype) for n in (alpha, beta))
    found = found if alpha == 1 else found * alpha
    if c is not None and beta != 0:
        found = found + (wide(c) if beta == 1 else wide(c) * beta)
    return narrowed_to(found, a.dtype)


def kernel_Einsum(node: Value, *operands: Array) -> Array:
    """The sum of products that the equation says."""
    equation = attr(node, "equation").replace(" ", "")
    found = np.einsum(equation, *map(wide, operands), optimize=len(operands) > 2)
    return narrowed_to(found, operands[0].dtype)


def kernel_Det(node: Value, x: Array) -> Array:
    """The determinant of the last two dimensions."""
    return narrowed_to(np.linalg.det(x.astype(np.float64)), x.dtype)


def centred(x: Array, zero_point: Array | None, rows: bool) -> Array:
    """x - zero_point in int32; a vector of zero points goes by rows or by columns of the matrix."""
    value = x.astype(np.int32)
    if zero_point is None:
        return value
    zero = zero_point.astype(np.int32)
    if zero.ndim == 1 and zero.size > 1 and rows and x.ndim > 1:
        zero = zero[:, None]
    return value - (zero.reshape(()) if zero.size == 1 else zero)


def kernel_MatMulInteger(
    node: Value, a: Array, b: Array, a_zero_point: Array | None = None, b_zero_point: Array | None = None
) -> Array:
    """(a - a_zero_point) @ (b - b_zero_point) in int32."""
    return np.matmul(centred(a, a_zero_point, True), centred(b, b_zero_point, False))


def kernel_QLinearMatMul(
    node: Value,
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    y_scale: Array,
    y_zero: Array,
) -> Array:
    """The product of two quantized matrices, quantized again."""
    exact = np.matmul(centred(a, a_zero, True), centred(b, b_zero, False))
    left = a_scale.reshape(()) if a_scale.size == 1 else a_scale[..., None] if a_scale.ndim == 1 else a_scale
    right = b_scale.reshape(()) if b_scale.size == 1 else b_scale
    scale = wide(left) * wide(right) / wide(y_scale.reshape(()) if y_scale.size == 1 else y_scale)
    return requantized_to(exact, scale, y_zero.reshape(()) if y_zero.size == 1 else y_zero)


def requantized_to(exact: Array, scale: Array, zero: Array) -> Array:
    """round(exact * scale) + zero, held in the range of the type of `zero`."""
    moved = np.rint(exact * scale)
    if is_float(zero.dtype):
        return narrowed_to(moved + wide(zero), zero.dtype)
    low, high = integer_range(DType.of(zero.dtype))
    return np.clip(moved + zero.astype(np.float64), low, high).astype(zero.dtype)
