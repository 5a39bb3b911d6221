"""Products of rows, each with one of a few matrices: rows are sorted by matrix, and no matrix is copied.

Mixtures of experts gather the matrices of its experts for each row; here the rows of one expert meet its matrix
together.
"""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.blobs import Blob
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.pattern import attribute_of, hole, p
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import VIEWS, axes_of

SORTING, AGAIN, EACH = 1 << 16, 8 << 10, 6 << 10
"""How many elements of matrices must not be copied for one row, all of its experts together, so that sorting pays, and
a product with each matrix: so many for the order, or so many where another product needs it anyway, and so many for
each matrix. Measured for a single row, on one thread; two rows and more gain from less."""

NEAR = 48
"""How many values are looked at to see whether rows come from others that were sorted."""


def _experts(rng: np.random.Generator) -> Value:
    length = dims.symbol("length")
    logits = param(Tensor(DType.FLOAT, (length, 3)))
    ids = op.TopK(logits, np.array([2]), axis=-1)[1]
    flat = op.Reshape(ids, shape_vector((dims.mul(length, 2),)))
    weight = const((rng.standard_normal((3, 256, 256)) / 64).astype(np.float32))
    rows = param(Tensor(DType.FLOAT, (dims.mul(length, 2), 256, 1)))
    return op.MatMul(op.Gather(weight, flat), rows)


def choices(ids: Value) -> tuple[int, int] | None:
    """(how many there are to choose from, how many each row chooses), where the ids are those of the largest scores."""
    while ids.op in VIEWS and ids.inputs[0] is not None:
        ids = ids.inputs[0]
    top = ids.inputs[0] if ids.op == "Item" and ids.attribute("index") == 1 else None
    if top is None or top.op != "TopK" or top.inputs[0] is None:
        return None
    scores, k = top.inputs[0], axes_of(top.inputs[1])
    count = scores.shape[attribute_of(top, "axis")]
    return (count, k[0]) if type(count) is int and k is not None else None


@rule(p.MatMul(p.Gather(constant("matrices"), hole("ids"), axis=0), hole("rows")), exact=False, sample=_experts)
def product_of_sorted_rows(m: Match) -> Made:
    """matrices[ids] @ rows -> the rows sorted by matrix, cut into groups, each of which meets its matrix"""
    blob: Blob = m.matrices.blob
    found = choices(m.ids)
    if len(blob.shape) != 3 or m.ids.rank != 1 or m.rows.rank != 3 or m.rows.dtype is not DType.FLOAT:
        return decline("no row has a matrix of its own")
    if found is None or found[0] != blob.shape[0] or dims.same(m.rows.shape[2], 1) is not True:
        return decline("the matrices are not chosen by scores")
    count, (height, width), pairs = found[0], blob.shape[1:], m.rows.shape[0]
    if dims.same(pairs, m.ids.shape[0]) is not True:
        return decline("rows broadcast")
    least = EACH * count + (AGAIN if sorted_before(m.rows, m.ids) else SORTING)
    if count < 2 or found[1] * height * width < least:
        return decline("copying the matrices costs less than sorting")
    sources = bound_by(m.ids, m.rows)
    if not is_bound(m, (pairs,), sources):
        return decline("the number of rows is not bound")
    every = sizes_value(m, (pairs,), 1, sources)
    order = op.TopK(m.ids, every, axis=0, largest=0)[1]
    back = op.TopK(order, every, axis=0, largest=0)[1]
    lengths = op.ReduceSum(op.OneHot(m.ids, count, np.array([0, 1])), [0], keepdims=0)
    rows = op.Gather(op.Reshape(m.rows, sizes_value(m, (pairs, width), 1, sources)), order)
    parts = op.Split(rows, lengths, axis=0, outputs=count)
    made = op.Concat(*(op.Gemm(x, one_of_them(blob, i), transB=1) for i, x in enumerate(parts)), axis=0)
    return op.Unsqueeze(op.Gather(made, back), [2])


def sorted_before(rows: Value, ids: Value) -> bool:
    """True where the rows come from a product whose rows were already sorted by these ids."""
    pending, seen = [rows], {rows}
    for value in pending:
        if value.op == "TopK" and value.inputs[0] is ids:
            return True
        if len(pending) < NEAR and value.op != "Concat":  # of the products with each matrix
            new = [v for v in value.inputs if v is not None and v not in seen]
            seen.update(new)
            pending += new
    return False


def one_of_them(matrices: Blob, index: int) -> Value:
    """One of the stacked matrices, read from their storage when it is loaded."""
    name = f"{matrices.name}.{index}" if matrices.name else ""
    return const(Blob(matrices.dtype, matrices.shape[1:], lambda: matrices.read()[index], name, of=(matrices,)))


SORTED_ROWS: tuple[Rule, ...] = (product_of_sorted_rows,)
"""Products of rows with a matrix each."""
