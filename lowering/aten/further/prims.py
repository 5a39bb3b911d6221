"""The primitives that torch's decompositions of single operators emit: no promotion, no broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

from irkit import dims
from irkit.build import dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.reduction.reduce import aten_amax, aten_amin, aten_prod, aten_sum, variance
from lowering.tensors.pieces import full
from lowering.tensors.promotion import Number, cast, scalar
from lowering.tensors.shaping import expand, permute, reshape, squeeze, unsqueeze

AS_ATEN = frozenset((
    "abs", "acos", "acosh", "add", "as_strided_scatter", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "cat", "ceil", "clone", "conj_physical", "cos", "cosh",
    "digamma", "eq", "erf", "erfc", "exp", "exp2", "expm1", "fill", "floor", "fmax", "fmin", "fmod", "gcd",
    "ge", "gt", "hypot", "igamma", "igammac", "isfinite", "le", "lgamma", "log", "log10", "log1p", "log2",
    "lt", "maximum", "minimum", "mul", "ne", "neg", "nextafter", "real", "reciprocal", "remainder", "round",
    "rsqrt", "scalar_tensor", "sign", "signbit", "sin", "sinh", "sqrt", "sub", "tan", "tanh", "trunc",
))  # fmt: skip
"""Primitives that are the ATen operators of the same names, arguments included."""


def prims_div(self: Value, other: Value) -> Value:
    """self / other; integers are rounded towards zero"""
    return op.Div(self, other)


def prims_pow(self: Value, other: Value) -> Value:
    """self ** other"""
    return op.Pow(self, other)


def prims_cbrt(self: Value) -> Value:
    """The number whose cube is self"""
    return op.Mul(op.Sign(self), op.Pow(op.Abs(self), scalar(1 / 3, self.dtype)))


def prims_where(pred: Value, a: Value, b: Value) -> Value:
    """a where pred holds, else b"""
    return op.Where(pred, a, b)


# ---------------------------------------------------------------------------------------------- shapes


def prims_broadcast_in_dim(a: Value, shape: Sequence[Dim], broadcast_dimensions: Sequence[int]) -> Value:
    """a with its axes at those places of `shape`, and expanded to it"""
    new = [i for i in range(len(shape)) if i not in broadcast_dimensions]
    return expand(unsqueeze(a, *new), shape)


def prims_collapse(a: Value, start: int, end: int) -> Value:
    """a with the axes from `start` to `end` made one"""
    return reshape(a, (*a.shape[:start], dims.product(a.shape[start : end + 1]), *a.shape[end + 1 :]))


def prims_split_dim(a: Value, dim: int, outer_length: Dim) -> Value:
    """a with one axis made two, the first of them `outer_length` long"""
    inner = dims.floordiv(a.shape[dim], outer_length)
    return reshape(a, (*a.shape[:dim], outer_length, inner, *a.shape[dim + 1 :]))


def prims_squeeze(a: Value, dimensions: Sequence[int]) -> Value:
    """a without those axes, which are of size 1"""
    return squeeze(a, *dimensions)


def prims_transpose(a: Value, permutation: Sequence[int]) -> Value:
    """Axis i of the result is axis permutation[i] of a"""
    return permute(a, permutation)


def prims_reshape(a: Value, shape: Sequence[Dim]) -> Value:
    """The elements of a, in order, under other sizes"""
    return reshape(a, shape)


def prims_rev(a: Value, dims: Sequence[int]) -> Value:
    """a backwards along axes"""
    count = len(dims)
    if not count:
        return a
    low = shape_vector([-(2**63) + 1] * count)
    return op.Slice(a, shape_vector([-1] * count), low, shape_vector(dims), shape_vector([-1] * count))


def prims_view_of(a: Value) -> Value:
    """a"""
    return a


def prims_device_put(a: Value) -> Value:
    """a"""
    return a


def prims_copy_strided(a: Value, stride: Sequence[Dim]) -> Value:
    """a: strides are no matter of values"""
    return a


# ---------------------------------------------------------------------------------------------- sums and the like


def prims_sum(inp: Value, dims: Sequence[int] | None, *, output_dtype: DType | None = None) -> Value:
    """Sum over axes"""
    return aten_sum(inp, dims, False, dtype=output_dtype or inp.dtype) if dims is None or len(dims) else inp


def prims_prod(inp: Value, dims: Sequence[int] | None, *, output_dtype: DType | None = None) -> Value:
    """Product over axes"""
    made = inp
    for axis in sorted(range(inp.rank) if dims is None else dims, reverse=True):
        made = aten_prod(made, axis, False, dtype=output_dtype or inp.dtype)
    return made


def prims_amax(inp: Value, dims: Sequence[int] | None, *, output_dtype: DType | None = None) -> Value:
    """The largest over axes"""
    return aten_amax(inp, dims or (), False)


def prims_amin(inp: Value, dims: Sequence[int] | None, *, output_dtype: DType | None = None) -> Value:
    """The least over axes"""
    return aten_amin(inp, dims or (), False)


def prims_var(
    inp: Value, dims: Sequence[int] | None, correction: float | None = 1, *, output_dtype: DType | None = None
) -> Value:
    """The variance over axes; sums are divided by their number less `correction`"""
    return variance(inp, dims, correction, False)[0]


# ---------------------------------------------------------------------------------------------- new tensors


def prims_full(shape: Sequence[Dim], fill_value: Number, *, dtype: DType) -> Value:
    """fill_value everywhere"""
    return full(fill_value, shape, dtype)


def prims_full_like(a: Value, fill_value: Number, *, dtype: DType) -> Value:
    """fill_value everywhere, in the shape of a"""
    return full(fill_value, a.shape, dtype)


def prims_empty(shape: Sequence[Dim], *, dtype: DType) -> Value:
    """A tensor to be written: 0 everywhere"""
    return full(0, shape, dtype)


def prims_empty_strided(shape: Sequence[Dim], strides: Sequence[Dim], *, dtype: DType) -> Value:
    """A tensor to be written: 0 everywhere"""
    return full(0, shape, dtype)


def prims_empty_permuted(shape: Sequence[Dim], physical_layout: Sequence[int], *, dtype: DType) -> Value:
    """A tensor to be written: 0 everywhere"""
    return full(0, shape, dtype)


def prims_iota(length: Dim, *, start: Dim, step: Dim, dtype: DType) -> Value:
    """start, start + step, ...: `length` of them"""
    end = dims.add(start, dims.mul(length, step))
    return cast(op.Range(dim_scalar(start), dim_scalar(end), dim_scalar(step)), dtype)
