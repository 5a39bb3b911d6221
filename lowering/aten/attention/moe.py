"""Products of groups of rows with a matrix each: mixtures of experts."""

from __future__ import annotations

import numpy as np

from irkit.build import op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.errors import Unsupported
from lowering.tensors.pieces import computed_weight
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import binders, concat, ints, pick_index, reshape, slice_axis


def grouped(x: Value, matrices: Value, ends: Value) -> Value:
    """Rows ends[g - 1] ... ends[g] of x times matrices[g].  x: (t, k); matrices: (g, k, n); ends: (g,) -> (t, n).

    The rows are cut into groups, whose lengths are known only when it runs, and every group meets its matrix: no row
    is multiplied twice. An empty group gives a product of no rows. Rows after the last group become 0, as transformers
    has it; torch leaves there what the memory held.
    """
    *parts, rest = pieces(x, 0, ends, matrices.shape[0])
    made = [op.MatMul(part, matrix(matrices, g)) for g, part in enumerate(parts)]
    made.append(zeros(x.dtype, op.Concat(rest, shape_vector((matrices.shape[2],)), axis=0)))
    return reshape(concat(made, 0), (x.shape[0], matrices.shape[2]))


def pieces(x: Value, axis: int, ends: Value, count: Dim) -> list[Value]:
    """x cut along an axis into groups that end at `ends`, and then how much is left, as a vector of one number."""
    if type(count) is not int:
        raise Unsupported("a grouped product needs a number of groups")
    ends = cast(ends, DType.INT64)
    upto = op.Concat(ends, shape_vector((x.shape[axis],), *binders((x.shape[axis],), x)), axis=0)
    lengths = op.Sub(upto, op.Concat(ints(0), ends, axis=0))
    *parts, _ = op.Split(x, lengths, axis=axis, outputs=count + 1)
    return [*parts, slice_axis(lengths, 0, count, count + 1)]


def zeros(dtype: DType, shape: Value) -> Value:
    """Zeros of a shape that is computed."""
    return op.Expand(scalar(0, dtype), shape)


def matrix(matrices: Value, index: int) -> Value:
    """One matrix of (g, k, n); a view of the storage where the matrices are a weight, or a weight transposed."""
    weight, order = matrices, (0, 1, 2)
    if matrices.op == "Transpose" and matrices.inputs[0] is not None:
        weight, order = matrices.inputs[0], matrices.attribute("perm") or (2, 1, 0)
    shape = matrices.shape[1:]
    if order[0] != 0 or weight.blob is None or not all(type(d) is int for d in shape):
        return pick_index(matrices, 0, index)
    seen = computed_weight([weight], shape, lambda a: np.transpose(a, order)[index], f"{weight.blob.name}.{index}")
    return pick_index(matrices, 0, index) if seen is None else seen


def aten__grouped_mm(
    self: Value, mat2: Value, offs: Value | None = None, bias: Value | None = None, out_dtype: DType | None = None
) -> Value:
    """Products of groups; `offs` says where each group ends.

    self: (t, k) with mat2: (g, k, n) -> (t, n); both of rank 3: a batched product; self: (n, t), mat2: (t, m) grouped
    along t -> (g, n, m); self: (g, n, k), mat2: (k, t) -> (n, t).
    """
    if bias is not None:
        raise Unsupported("a grouped product with a bias")
    if self.rank == 3 and mat2.rank == 3:
        made = op.MatMul(self, mat2)
    elif offs is None:
        raise Unsupported("a grouped product of rank 2 needs offsets")
    elif self.rank == 2 and mat2.rank == 3:
        made = grouped(self, mat2, offs)
    else:
        made = grouped_otherwise(self, mat2, offs)
    return cast(made, out_dtype or self.dtype)


def grouped_otherwise(a: Value, b: Value, ends: Value) -> Value:
    """Groups along the inner axis, or along the columns of the right operand"""
    count = ends.shape[0]
    if a.rank == 3:
        *columns, rest = pieces(b, 1, ends, count)
        made = [op.MatMul(pick_index(a, 0, g), part) for g, part in enumerate(columns)]
        made.append(zeros(a.dtype, op.Concat(shape_vector((a.shape[1],), *binders((a.shape[1],), a)), rest, axis=0)))
        return reshape(concat(made, 1), (a.shape[1], b.shape[1]))
    *lefts, _ = pieces(a, 1, ends, count)
    *rights, _ = pieces(b, 0, ends, count)
    parts = [op.Unsqueeze(op.MatMul(x, y), ints(0)) for x, y in zip(lefts, rights, strict=True)]
    return concat(parts, 0)


def transformers_grouped_mm_fallback(input: Value, weight: Value, offs: Value) -> Value:
    """Products of groups of rows.  input: (t, k); weight: (g, k, n); offs: (g,), where each group ends -> (t, n)."""
    return grouped(input, weight, offs)
