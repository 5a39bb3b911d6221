"""Products, products of several matrices, running products and running sums of exponentials of complex tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.complex.basics import complex_add, complex_mul, complex_to
from lowering.aten.complex.elementwise import logaddexp_of
from lowering.aten.linear_algebra.products import aten_bmm, aten_matmul
from lowering.aten.reduction.reduce import aten_sum
from lowering.tensors.complex_numbers import product
from lowering.tensors.complex_pairs import WIDER, Parts, pair, parts
from lowering.tensors.pieces import full
from lowering.tensors.promotion import cast
from lowering.tensors.shaping import axis, flat, slice_axis, squeeze, unsqueeze

ONE = (1.0, 0.0)
"""The parts of the neutral element of products."""

NOTHING = (-math.inf, 0.0)
"""The parts of log 0."""

Step = Callable[[Parts, Parts], Parts]


def converted(x: Value, dtype: DType | None) -> Parts:
    """The parts of x, of another element type where one is asked for."""
    return parts(x if dtype is None else complex_to(x, dtype))


# ---------------------------------------------------------------------------------------------- products


def complex_prod(self: Value, *, dtype: DType | None = None) -> Value:
    """The product of all elements."""
    a, b = converted(self, dtype)
    return pair(*multiplied((flat(a), flat(b)), 0, keepdim=False)) if self.rank else pair(a, b)


def complex_prod_dim_int(self: Value, dim: int, keepdim: bool = False, *, dtype: DType | None = None) -> Value:
    """The product of the elements along one axis."""
    a, b = converted(self, dtype)
    return pair(*multiplied((a, b), axis(dim, self.rank), keepdim)) if self.rank else pair(a, b)


def complex_prims_prod(inp: Value, dims: Sequence[int] | None, *, output_dtype: DType | None = None) -> Value:
    """The product of the elements over axes."""
    made = converted(inp, output_dtype)
    for at in sorted(range(inp.rank) if dims is None else dims, reverse=True):
        made = multiplied(made, at, keepdim=False)
    return pair(*made)


def multiplied(x: Parts, at: int, keepdim: bool) -> Parts:
    """The product along an axis: of halves, halves of those, and so on; one after the other where the size is open."""
    size = x[0].shape[at]
    if type(size) is not int:
        made = scanned(x, at, product, ONE)[0]
        return (unsqueeze(made[0], at), unsqueeze(made[1], at)) if keepdim else made
    if size == 0:
        shape = (*x[0].shape[:at], 1, *x[0].shape[at + 1 :])
        x = full(1, shape, x[0].dtype), full(0, shape, x[0].dtype)
    while size > 1:
        half = size // 2
        low, high = (tuple(slice_axis(v, at, i * half, (i + 1) * half) for v in x) for i in (0, 1))
        made = product((low[0], low[1]), (high[0], high[1]))
        if size % 2:
            rest = (slice_axis(x[0], at, size - 1, size), slice_axis(x[1], at, size - 1, size))
            made = op.Concat(made[0], rest[0], axis=at), op.Concat(made[1], rest[1], axis=at)
        x, size = made, half + size % 2
    return x if keepdim else (squeeze(x[0], at), squeeze(x[1], at))


def complex_cumprod(self: Value, dim: int, *, dtype: DType | None = None) -> Value:
    """The products of the first 1, 2, ... elements along `dim`"""
    x = converted(self, dtype)
    return pair(*scanned(x, axis(dim, self.rank), product, ONE)[1]) if self.rank else pair(*x)


def scanned(x: Parts, at: int, step: Step, start: tuple[float, float]) -> tuple[Parts, Parts]:
    """(last, every): the state that `step(state, element)` leaves behind along an axis, at the end and after each."""
    rest = (*x[0].shape[:at], *x[0].shape[at + 1 :])

    def body(real: Value, imaginary: Value, a: Value, b: Value) -> tuple[Value, ...]:
        made = step((real, imaginary), (a, b))
        return (*made, *made)

    first = [full(number, rest, x[0].dtype) for number in start]
    a, b, c, d = op.Scan(*first, *x, body=body, num_scan_inputs=2, scan_input_axes=[at, at], scan_output_axes=[at, at])
    return (a, b), (c, d)


# ---------------------------------------------------------------------------------------------- sums


def complex_logcumsumexp(self: Value, dim: int) -> Value:
    """log(sum(exp(.))) of the first 1, 2, ... elements along `dim`, without overflow."""
    if not self.rank:
        return self
    a, b = parts(self)
    wider = WIDER[a.dtype]

    def step(state: Parts, element: Parts) -> Parts:
        return logaddexp_of(*state, *element, roomy=wider is not a.dtype)

    made = scanned((cast(a, wider), cast(b, wider)), axis(dim, self.rank), step, NOTHING)[1]
    return pair(cast(made[0], a.dtype), cast(made[1], a.dtype))


def complex_addbmm(self: Value, batch1: Value, batch2: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta * self + alpha * sum(batch1[i] @ batch2[i])"""
    real, imaginary = product(parts(batch1), parts(batch2), aten_bmm)
    total = pair(aten_sum(real, [0]), aten_sum(imaginary, [0]))
    added = total if alpha == 1 else complex_mul(total, alpha)
    if beta == 0:
        return added
    return complex_add(added, self if beta == 1 else complex_mul(self, beta))


def complex_linalg_multi_dot(tensors: Sequence[Value]) -> Value:
    """The product of several matrices, from the left; a vector may stand first or last."""
    return pair(*reduce(lambda made, part: product(made, part, aten_matmul), map(parts, tensors)))


def complex_chain_matmul(matrices: Sequence[Value]) -> Value:
    """The product of several matrices, from the left."""
    return complex_linalg_multi_dot(matrices)
