"""Functions of square matrices, real and complex: powers and the exponential."""

from __future__ import annotations

import math

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import HALVES, DType
from lowering.algorithms.elimination import identity, inverses, square
from lowering.algorithms.real_or_complex import (
    add,
    flat_parts,
    matmul,
    mul,
    number,
    part_type,
    reshape,
    squared_modulus,
    where,
    whole_again,
)
from lowering.tensors.promotion import cast, scalar

DEGREES = {DType.FLOAT: (16, 2.0), DType.DOUBLE: (20, 1.4)}
"""For each element type the degree of the polynomial for exp, and up to which norm it holds to the last bit."""


def aten_linalg_matrix_power(self: Value, n: int) -> Value:
    """self multiplied by itself n times, by repeated squaring; its inverse where n is negative."""
    if n < 0:
        return aten_linalg_matrix_power(inverses(self), -n)
    if n == 0:
        return identity(self)
    made: Value | None = None
    square = self
    while n:
        if n & 1:
            made = square if made is None else matmul(made, square)
        n >>= 1
        if n:
            square = matmul(square, square)
    return made if made is not None else self


# ---------------------------------------------------------------------------------------------- exponential


def aten_linalg_matrix_exp(self: Value) -> Value:
    """sum of self^k / k!, computed in f64: squaring doubles the error of a matrix as often as it is squared"""
    if self.dtype in (*HALVES, DType.FLOAT):
        return cast(aten_linalg_matrix_exp(cast(self, DType.DOUBLE)), self.dtype)
    a = square(self)
    degree, reach = DEGREES[part_type(a)]
    size = op.Sqrt(op.ReduceSum(squared_modulus(a), [1, 2], keepdims=1))
    halvings = op.Ceil(op.Div(op.Log(op.Div(size, scalar(reach, size.dtype))), scalar(math.log(2), size.dtype)))
    some = op.And(op.Greater(halvings, scalar(0, size.dtype)), op.Not(op.IsInf(halvings)))
    halvings = op.Where(some, halvings, scalar(0, size.dtype))
    scaled = mul(a, op.Pow(scalar(2, size.dtype), op.Neg(halvings)))
    return reshape(squared_often(polynomial(scaled, degree), cast(halvings, DType.INT64)), self.shape)


def polynomial(a: Value, degree: int) -> Value:
    """The sum of a^k / k! up to a degree that 4 divides, in powers of a^4"""
    second = matmul(a, a)
    powers = [identity(a), a, second, matmul(second, a)]
    fourth = matmul(second, second)

    def block(start: int) -> Value:
        terms = [mul(p, number(1 / math.factorial(start + i), a)) for i, p in enumerate(powers)]
        return add(add(terms[0], terms[1]), add(terms[2], terms[3]))

    made = add(block(degree - 4), mul(fourth, number(1 / math.factorial(degree), a)))
    for start in range(degree - 8, -1, -4):
        made = add(block(start), matmul(fourth, made))
    return made


def squared_often(x: Value, times: Value) -> Value:
    """Each matrix squared as often as is said of it.  x: (b, n, n); times: (b, 1, 1) of i64"""
    most = op.ReduceMax(op.Concat(op.Reshape(times, [-1]), const([0]), axis=0), keepdims=0)

    def step(i: Value, go_on: Value, *flat: Value) -> tuple[Value, ...]:
        (made,) = whole_again(flat, [x.dtype.is_complex])
        return (go_on, *flat_parts([where(op.Less(i, times), matmul(made, made), made)]))

    found = op.Loop(most, const(True), *flat_parts([x]), body=step)
    return whole_again(found if isinstance(found, tuple) else (found,), [x.dtype.is_complex])[0]
