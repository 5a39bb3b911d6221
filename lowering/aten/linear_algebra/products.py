"""Products of vectors and matrices, and what is made of them."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import HALVES, DType
from lowering.errors import Unsupported
from lowering.tensors.pieces import full, swap, total, widen
from lowering.tensors.promotion import cast, promote, promote_types, scalar
from lowering.tensors.shaping import may_be_empty, permute, pick_index, reshape, squeeze, unsqueeze

_WIDER: Mapping[DType, DType] = {
    DType.INT8: DType.INT32, DType.UINT8: DType.INT32, DType.INT16: DType.INT32, DType.UINT16: DType.INT32,
    DType.BOOL: DType.INT32,
}  # fmt: skip
"""Integers that ONNX multiplies no matrices of, and one that holds their sums; the cast back wraps around."""


def product(a: Value, b: Value) -> Value:
    """a @ b by numpy's rules; narrow integers are widened and cut back."""
    wide = _WIDER.get(a.dtype, a.dtype)
    made = op.MatMul(cast(a, wide), cast(b, wide))
    # ONNX Runtime takes a batch of 0 for 1, and leaves sums of nothing but the first as the memory was.
    if any(dims.same(d, 0) is True for d in (*made.shape, a.shape[-1])):
        return full(0, made.shape, a.dtype)
    if a.rank == 1 and b.rank > 2 and type(a.shape[0]) is not int:  # so it is with a vector, where its size may be 0
        made = squeeze(op.MatMul(unsqueeze(cast(a, wide), 0), cast(b, wide)), -2)
    return cast(made, a.dtype)


def scaled(x: Value, factor: Any) -> Value:
    """x * factor; x itself for 1."""
    return x if factor == 1 else op.Mul(x, scalar(factor, x.dtype))


def combined(bias: Value, made: Value, beta: Any, alpha: Any) -> Value:
    """beta * bias + alpha * made. As in torch, `bias` is not looked at where beta is 0.

    `made` of f32 beside a bias of a half type is what torch rounds once, after the sum.
    """
    found = scaled(made, alpha)
    found = found if beta == 0 else op.Add(found, scaled(cast(bias, made.dtype), beta))
    return cast(found, bias.dtype)


# ---------------------------------------------------------------------------------------------- matrices


def aten_mm(self: Value, mat2: Value) -> Value:
    """(n, k) @ (k, m) -> (n, m)"""
    return product(self, mat2)


def aten_mm_dtype(self: Value, mat2: Value, out_dtype: DType) -> Value:
    """(n, k) @ (k, m) -> (n, m), computed in `out_dtype`"""
    return product(cast(self, out_dtype), cast(mat2, out_dtype))


def aten_bmm(self: Value, mat2: Value) -> Value:
    """(b, n, k) @ (b, k, m) -> (b, n, m)"""
    return product(self, mat2)


def aten_matmul(self: Value, other: Value) -> Value:
    """self @ other with broadcast batches; a vector is a row on the left and a column on the right."""
    return product(self, other)


def aten__int_mm(self: Value, mat2: Value) -> Value:
    """(n, k) @ (k, m) of int8 or uint8 -> int32"""
    return op.MatMulInteger(self, mat2)


def aten_mv(self: Value, vec: Value) -> Value:
    """(n, k) @ (k,) -> (n,)"""
    return product(self, vec)


def aten_dot(self: Value, tensor: Value) -> Value:
    """(n,) . (n,) -> ()"""
    return product(self, tensor)


def aten_vdot(self: Value, other: Value) -> Value:
    """(n,) . (n,) -> (); for real numbers the same as `dot`"""
    return product(self, other)


def aten_inner(self: Value, other: Value) -> Value:
    """Sum of products over the last axis of both: (*a, k), (*b, k) -> (*a, *b)"""
    if self.rank == 0 or other.rank == 0:
        return op.Mul(self, other)
    if other.rank <= 2:
        return product(self, other if other.rank == 1 else swap(other))
    flat = reshape(other, (dims.product(other.shape[:-1]), other.shape[-1]))
    return reshape(product(self, swap(flat)), (*self.shape[:-1], *other.shape[:-1]))


def aten_outer(self: Value, vec2: Value) -> Value:
    """(n,), (m,) -> (n, m)"""
    a, b = promote(unsqueeze(self, 1), vec2)
    return op.And(a, b) if a.dtype is DType.BOOL else op.Mul(a, b)


def aten_addmm(self: Value, mat1: Value, mat2: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta * self + alpha * (mat1 @ mat2).  self: broadcasts to (n, m); mat1: (n, k); mat2: (k, m)."""
    return affine(self, mat1, mat2, beta, alpha, 0)


def affine(bias: Value, a: Value, b: Value, beta: Any, alpha: Any, trans_b: int) -> Value:
    """Gemm where it is exact: for floats, with factors that ONNX's float attributes hold.

    ONNX Runtime's Gemm forgets beta where the inner size is 0.
    """
    held = a.dtype is not DType.DOUBLE or all(float(np.float32(f)) == f for f in (alpha, beta))
    forgets = beta != 1 and may_be_empty(a.shape[-1])
    exact = a.dtype.is_float and held and not forgets and dims.same(a.shape[-1], 0) is not True
    if not exact or beta == 0:
        return combined(bias, product(widen(a), widen(swap(b) if trans_b else b)), beta, alpha)
    return op.Gemm(a, b, bias, alpha=float(alpha), beta=float(beta), transB=trans_b)


def aten_addmm_dtype(
    self: Value, mat1: Value, mat2: Value, out_dtype: DType, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    """beta * self + alpha * (mat1 @ mat2), computed in `out_dtype`"""
    return affine(cast(self, out_dtype), cast(mat1, out_dtype), cast(mat2, out_dtype), beta, alpha, 0)


def aten__addmm_activation(
    self: Value, mat1: Value, mat2: Value, *, beta: Any = 1, alpha: Any = 1, use_gelu: bool = False
) -> Value:
    """relu or gelu of beta * self + alpha * (mat1 @ mat2)"""
    made = affine(self, mat1, mat2, beta, alpha, 0)
    return op.Gelu(made, approximate="tanh") if use_gelu else op.Relu(made)


def aten_addmv(self: Value, mat: Value, vec: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta * self + alpha * (mat @ vec) -> (n,)"""
    return combined(self, product(widen(mat), widen(vec)), beta, alpha)


def aten_addr(self: Value, vec1: Value, vec2: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta * self + alpha * outer(vec1, vec2) -> (n, m)"""
    if self.dtype is DType.BOOL:
        outer = op.And(unsqueeze(vec1, 1), vec2)
        return op.Or(outer if alpha else op.And(outer, const(False)), self) if beta else outer
    a, b = widen(vec1), widen(vec2)
    return combined(self, op.Mul(unsqueeze(scaled(a, alpha), 1), b), beta, 1)


def aten_baddbmm(self: Value, batch1: Value, batch2: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta * self + alpha * (batch1 @ batch2) -> (b, n, m)"""
    return combined(self, product(widen(batch1), widen(batch2)), beta, alpha)


def aten_baddbmm_dtype(
    self: Value, batch1: Value, batch2: Value, out_dtype: DType, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    """beta * self + alpha * (batch1 @ batch2), computed in `out_dtype`"""
    made = product(cast(batch1, out_dtype), cast(batch2, out_dtype))
    return combined(cast(self, out_dtype), made, beta, alpha)


def aten_addbmm(self: Value, batch1: Value, batch2: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta * self + alpha * sum over the batch of (batch1 @ batch2) -> (n, m)"""
    count = batch1.shape[0]
    if self.dtype not in HALVES or type(count) is not int or not 0 < count <= LONG:
        return combined(self, total(product(widen(batch1), widen(batch2)), [0]), beta, alpha)
    made = self
    for i in range(count):
        made = combined(made, product(widen(pick_index(batch1, 0, i)), widen(pick_index(batch2, 0, i))), beta, alpha)
        beta = 1
    return made


LONG = 16
"""Up to so many products of half types are rounded one after the other, as torch does it."""


def aten_linear(input: Value, weight: Value, bias: Value | None = None) -> Value:
    """input @ weight^T + bias.  input: (*, k); weight: (m, k) or (k,); bias: (m,) or ()."""
    if weight.rank == 1:
        made = product(input, weight)
    elif input.rank == 2 and bias is not None:
        return affine(bias, input, weight, 1, 1, 1)
    elif input.rank == 2 and input.dtype.is_float:
        return op.Gemm(input, weight, transB=1)
    else:
        made = product(input, swap(weight))
    return made if bias is None else op.Add(made, bias)


def aten_bilinear(input1: Value, input2: Value, weight: Value, bias: Value | None = None) -> Value:
    """input1 W_o input2 for every output o.  input1: (*, a); input2: (*, b); weight: (o, a, b); bias: (o,)."""
    outputs, a, b = weight.shape
    flat = reshape(permute(weight, (1, 0, 2)), (a, dims.mul(outputs, b)))  # one product of matrices for all outputs
    left = reshape(product(input1, flat), (*input1.shape[:-1], outputs, b))
    made = squeeze(product(left, unsqueeze(input2, -1)), -1)
    return made if bias is None else op.Add(made, bias)


def aten__trilinear(
    i1: Value,
    i2: Value,
    i3: Value,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Value:
    """i1 * i2 * i3, each without the dimensions that it is to be repeated along, summed over `sumdim`."""
    rank = i1.rank + len(expand1)
    own = ("".join(LETTERS[i] for i in range(rank) if i not in left_out) for left_out in (expand1, expand2, expand3))
    left = "".join(LETTERS[i] for i in range(rank) if i not in sumdim)
    return op.Einsum(i1, i2, i3, equation=f"{','.join(own)}->{left}")


LETTERS = "abcdefghijklmnopqrstuvwxyz"


def aten_linalg_vecdot(x: Value, y: Value, *, dim: int = -1) -> Value:
    """sum(x * y) over one axis, broadcast"""
    made = op.Mul(x, y)
    return total(made, [dim % made.rank])


def aten_linalg_cross(self: Value, other: Value, *, dim: int = -1) -> Value:
    """Cross product along an axis of size 3, broadcast."""
    rank = max(self.rank, other.rank)
    axis = dim % rank

    def turned(x: Value, order: tuple[int, ...]) -> Value:
        return op.Gather(x, const(np.array(order, np.int64)), axis=axis - rank + x.rank)

    ahead, behind = (1, 2, 0), (2, 0, 1)
    return op.Sub(
        op.Mul(turned(self, ahead), turned(other, behind)), op.Mul(turned(self, behind), turned(other, ahead))
    )


def aten_cross(self: Value, other: Value, dim: int | None = None) -> Value:
    """Cross product along `dim`, or along the first axis of size 3."""
    axis = dim if dim is not None else next((i for i, d in enumerate(self.shape) if dims.same(d, 3) is True), None)
    if axis is None:
        raise Unsupported("cross: no axis is known to be of size 3")
    return aten_linalg_cross(self, other, dim=axis)


def aten_tensordot(self: Value, other: Value, dims_self: Sequence[int], dims_other: Sequence[int]) -> Value:
    """Sum of products over pairs of axes; the free axes of self come first, then those of other."""
    over_a, over_b = [d % self.rank for d in dims_self], [d % other.rank for d in dims_other]
    sizes = list(zip((self.shape[i] for i in over_a), (other.shape[j] for j in over_b), strict=True))
    for k, (m, n) in enumerate(sizes):  # torch lets a size of 1 stand for any
        if m == 1 and n != 1:
            other = total(other, [over_b[k]], keepdims=True)
        elif n == 1 and m != 1:
            self = total(self, [over_a[k]], keepdims=True)
    free_a = [i for i in range(self.rank) if i not in over_a]
    free_b = [i for i in range(other.rank) if i not in over_b]
    inner = dims.product(self.shape[i] for i in over_a)
    shape_a, shape_b = [self.shape[i] for i in free_a], [other.shape[i] for i in free_b]
    a = reshape(permute(self, [*free_a, *over_a]), (dims.product(shape_a), inner))
    b = reshape(permute(other, [*over_b, *free_b]), (inner, dims.product(shape_b)))
    return reshape(product(a, b), (*shape_a, *shape_b))


def aten_chain_matmul(matrices: Sequence[Value]) -> Value:
    """The product of several matrices; a vector may stand first or last."""
    return _chain(list(matrices))


def aten_linalg_multi_dot(tensors: Sequence[Value]) -> Value:
    """The product of several matrices; a vector may stand first or last."""
    return _chain(list(tensors))


def _chain(parts: list[Value]) -> Value:
    """Parenthesized for the fewest multiplications where the sizes are numbers, from the left otherwise."""
    edge: list[Any] = [p.shape[0] for p in parts] + [parts[-1].shape[1] if parts[-1].rank == 2 else 1]
    if parts[0].rank == 1:
        edge[0] = 1
    count = len(parts)
    if not all(type(e) is int for e in edge):
        made = parts[0]
        for part in parts[1:]:
            made = product(made, part)
        return made
    best: dict[tuple[int, int], tuple[Any, Value]] = {(i, i): (0, p) for i, p in enumerate(parts)}
    for width in range(1, count):
        for i in range(count - width):
            j = i + width
            splits = ((best[i, k][0] + best[k + 1, j][0] + edge[i] * edge[k + 1] * edge[j + 1], k) for k in range(i, j))
            cost, k = min(splits)
            best[i, j] = (cost, product(best[i, k][1], best[k + 1, j][1]))
    return best[0, count - 1][1]


# ---------------------------------------------------------------------------------------------- einsum


def aten_einsum(equation: str, tensors: Sequence[Value], *, path: Any = None, expected: Any = None) -> Value:
    """Sums of products named by letters; `path`, the order of products, changes no result but by rounding.

    Integers are summed as int64. torch gives them back as they were, or as int64 where it sums before it multiplies;
    `lowering.capture.guards.einsum_types` refuses sizes for which it does the other of the two.
    """
    wide = reduce(promote_types, (t.dtype for t in tensors))
    tensors = [cast(t, wide) for t in tensors]  # they are not all of one type where nothing is summed
    first = tensors[0].dtype
    if first is DType.BOOL or (first.is_integer and first is not DType.INT64):
        found = aten_einsum(equation, [cast(t, DType.INT64) for t in tensors], path=path)
        return cast(found, first if expected is None else expected.dtype)
    text = explicit(equation.replace(" ", ""), tensors)
    sources, target = text.split("->")
    plain = all(len(set(s)) == len(s) for s in sources.split(","))
    if plain and len(tensors) == 1:
        return _single(tensors[0], sources, target)
    if plain and len(tensors) == 2:
        left, right = sources.split(",")
        found = _pair(tensors[0], tensors[1], left, right, target)
        if found is not None:
            return found
    wide = DType.FLOAT if first is DType.BFLOAT16 else first
    made = op.Einsum(*(cast(t, wide) for t in tensors), equation=text)
    return cast(made, first)


def explicit(equation: str, tensors: Sequence[Value]) -> str:
    """The equation with its right side (letters that occur once, in order, after the ellipsis), and letters in place of
    ellipses, which ONNX wants to have as many axes in each operand."""
    sources, arrow, target = equation.partition("->")
    named = sources.replace("...", "").replace(",", "")
    if not arrow:
        once = sorted(c for c in set(named) if named.count(c) == 1)
        target = f"{'...' if '...' in sources else ''}{''.join(once)}"
    parts = sources.split(",")
    ranks = [t.rank - len(part.replace("...", "")) for part, t in zip(parts, tensors, strict=True)]
    free = "".join(c for c in string.ascii_letters if c not in named)[: max(ranks, default=0)]
    filled = [part.replace("...", free[len(free) - rank :]) for part, rank in zip(parts, ranks, strict=True)]
    return f"{','.join(filled)}->{target.replace('...', free)}"


def _single(x: Value, source: str, target: str) -> Value:
    """Letters that are left out are summed; the others are permuted."""
    gone = [i for i, c in enumerate(source) if c not in target]
    kept = [c for c in source if c in target]
    summed = total(x, gone) if gone else x
    return permute(summed, (kept.index(c) for c in target))


def _pair(a: Value, b: Value, left: str, right: str, target: str) -> Value | None:
    """One matrix product with permutations around it; None where that would take a reshape, or sizes of 1 broadcast."""
    sizes = dict(zip(left, a.shape, strict=True))
    if any(c in sizes and dims.same(sizes[c], d) is not True for c, d in zip(right, b.shape, strict=True)):
        return None
    a, left = _reduced(a, left, right + target)
    b, right = _reduced(b, right, left + target)
    batch = [c for c in target if c in left and c in right]
    inner = [c for c in left if c in right and c not in target]
    rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]
    if len(inner) != 1 or len(rows) > 1 or len(columns) > 1 or not a.dtype.is_float:
        return None
    # A vector on either side of a batch needs an axis of its own; without a batch MatMul takes the vector as it is.
    x = permute(a, (left.index(c) for c in [*batch, *rows, *inner]))
    y = permute(b, (right.index(c) for c in [*batch, *inner, *columns]))
    x = unsqueeze(x, len(batch)) if batch and not rows else x
    y = unsqueeze(y, len(batch) + 1) if batch and not columns else y
    made = op.MatMul(x, y)
    alone = [i for i, part in ((-2, rows), (-1, columns)) if batch and not part]
    made = squeeze(made, *(i % made.rank for i in alone))
    have = [*batch, *rows, *columns]
    return permute(made, (have.index(c) for c in target))


def _reduced(x: Value, source: str, needed: str) -> tuple[Value, str]:
    """x summed over the letters that nothing else names."""
    gone = [i for i, c in enumerate(source) if c not in needed]
    return (total(x, gone), "".join(c for c in source if c in needed)) if gone else (x, source)
