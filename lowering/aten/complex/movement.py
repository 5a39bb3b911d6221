"""Complex tensors chosen, joined, written by index and made from numbers, where that is more than doing it twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from irkit.dims import Dim
from lowering.aten.complex.basics import both, complex_mul, split_parts
from lowering.aten.creation.creation import aten_eye, aten_eye_m, fill
from lowering.aten.elementwise.arithmetic import choose
from lowering.aten.indexing.scatter import aten_index_add, aten_scatter
from lowering.aten.movement.joining import aten_cat, aten_stack
from lowering.aten.movement.views import aten_broadcast_tensors
from lowering.errors import Unsupported
from lowering.tensors.complex_pairs import PARTS, pair, parts
from lowering.tensors.promotion import Number, result_dtype, scalar, truth
from lowering.tensors.shaping import expand

# ---------------------------------------------------------------------------------------------- choices and joining


def complex_cat(tensors: Sequence[Value], dim: int = 0) -> Value:
    """The tensors one after the other along `dim`."""
    halves = [split_parts(t, PARTS[result_dtype(*tensors)]) for t in tensors]
    return pair(aten_cat([h[0] for h in halves], dim), aten_cat([h[1] for h in halves], dim))


def complex_stack(tensors: Sequence[Value], dim: int = 0) -> Value:
    """The tensors side by side along a new dimension."""
    halves = [split_parts(t, PARTS[result_dtype(*tensors)]) for t in tensors]
    return pair(aten_stack([h[0] for h in halves], dim), aten_stack([h[1] for h in halves], dim))


def complex_broadcast_tensors(tensors: Sequence[Value]) -> list[Value]:
    """The tensors repeated to one shape; real ones stay real."""
    halves = [parts(t) for t in tensors]
    real, imaginary = (aten_broadcast_tensors([h[i] for h in halves]) for i in (0, 1))
    return [pair(a, b) if t.dtype.is_complex else a for t, a, b in zip(tensors, real, imaginary, strict=True)]


def complex_where(condition: Value, self: Any, other: Any) -> Value:
    """self where the condition holds, else other."""
    (a, b), (c, d) = both(self, other)
    flag = truth(condition)
    return pair(choose(flag, a, c), choose(flag, b, d))


def complex_masked_fill(self: Value, mask: Value, value: Any) -> Value:
    """self, and `value` where the mask holds."""
    return complex_where(mask, value, self)


def complex_eq(self: Any, other: Any) -> Value:
    """Both parts are equal."""
    (a, b), (c, d) = both(self, other)
    return op.And(op.Equal(a, c), op.Equal(b, d))


def complex_ne(self: Any, other: Any) -> Value:
    """Some part differs."""
    return op.Not(complex_eq(self, other))


def complex_prims_where(pred: Value, a: Value, b: Value) -> Value:
    """a where pred holds, else b."""
    return complex_where(pred, a, b)


def complex_scatter(self: Value, dim: int, index: Value, src: Any, *, reduce: str | None = None) -> Value:
    """self with self[..., index, ...] along `dim` replaced by `src`, or with it added."""
    if reduce not in (None, "add"):
        raise Unsupported(f"complex numbers scattered with reduce={reduce!r}")
    (a, b), (c, d) = parts(self), split_parts(src, PARTS[self.dtype])
    if not isinstance(src, Value):
        c, d = expand(c, index.shape), expand(d, index.shape)
    return pair(aten_scatter(a, dim, index, c, reduce=reduce), aten_scatter(b, dim, index, d, reduce=reduce))


def complex_scatter_value(self: Value, dim: int, index: Value, value: Number) -> Value:
    """self with self[..., index, ...] along `dim` replaced by a number."""
    return complex_scatter(self, dim, index, value)


def complex_scatter_value_reduce(self: Value, dim: int, index: Value, value: Number, *, reduce: str) -> Value:
    """self with a number added to self[..., index, ...] along `dim`."""
    return complex_scatter(self, dim, index, value, reduce=reduce)


def complex_index_add(self: Value, dim: int, index: Value, source: Value, *, alpha: Any = 1) -> Value:
    """self with alpha * source[i] added to self[index[i]] along `dim`."""
    if not (isinstance(alpha, int | float) and alpha == 1):
        source = complex_mul(source, alpha)
    (a, b), (c, d) = parts(self), parts(source)
    return pair(aten_index_add(a, dim, index, c), aten_index_add(b, dim, index, d))


# ---------------------------------------------------------------------------------------------- new tensors


def real_number(size: Sequence[Dim], number: int, dtype: DType) -> Value:
    """One real number everywhere, as a tensor of that type."""
    if not dtype.is_complex:
        return fill(size, number, dtype)
    return pair(fill(size, number, PARTS[dtype]), fill(size, 0, PARTS[dtype]))


def complex_ones(size: Sequence[Dim], *, dtype: DType | None = None, expected: Any = None) -> Value:
    """1 everywhere."""
    return real_number(size, 1, expected.dtype if dtype is None else dtype)


def complex_ones_like(self: Value, *, dtype: DType | None = None) -> Value:
    """1 everywhere, in the shape of self."""
    return real_number(self.shape, 1, dtype or self.dtype)


def complex_new_ones(self: Value, size: Sequence[Dim], *, dtype: DType | None = None) -> Value:
    """1 everywhere, in the element type of self where `dtype` is None."""
    return real_number(size, 1, dtype or self.dtype)


def complex_zeros_like(self: Value, *, dtype: DType | None = None) -> Value:
    """0 everywhere, in the shape of self."""
    return real_number(self.shape, 0, dtype or self.dtype)


def complex_new_zeros(self: Value, size: Sequence[Dim], *, dtype: DType | None = None) -> Value:
    """0 everywhere, in the element type of self where `dtype` is None."""
    return real_number(size, 0, dtype or self.dtype)


def complex_full_like(self: Value, fill_value: Any, *, dtype: DType | None = None) -> Value:
    """fill_value everywhere, in the shape of self."""
    return complex_new_full(self, self.shape, fill_value, dtype=dtype)


def complex_new_full(self: Value, size: Sequence[Dim], fill_value: Any, *, dtype: DType | None = None) -> Value:
    """fill_value everywhere, in the element type of self where `dtype` is None."""
    wanted = dtype or self.dtype
    real, imaginary = split_parts(fill_value, PARTS.get(wanted, wanted))
    made = expand(real, size)
    return pair(made, expand(imaginary, size)) if wanted.is_complex else made


def complex_eye(n: Dim, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """1 on the diagonal of an (n, n) matrix, 0 elsewhere."""
    real = aten_eye(n, dtype=part_type(dtype, expected))
    return pair(real, expand(scalar(0, real.dtype), real.shape))


def complex_eye_m(n: Dim, m: Dim, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """1 on the diagonal of an (n, m) matrix, 0 elsewhere."""
    real = aten_eye_m(n, m, dtype=part_type(dtype, expected))
    return pair(real, expand(scalar(0, real.dtype), real.shape))


def part_type(dtype: DType | None, expected: Any) -> DType:
    """The element type of the parts of what was asked for."""
    if dtype is None and isinstance(expected, Tensor):
        dtype = expected.dtype
    if dtype is None or not dtype.is_complex:
        raise Unsupported(f"a tensor of {dtype} made as a complex one")
    return PARTS[dtype]
