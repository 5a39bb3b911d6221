"""Products with heads that several queries share, without a copy of the heads for each query."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.pattern import hole, p
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import VIEWS, same_shape
from passes.rules.attention.attention import repeated_heads


def _grouped(rng: np.random.Generator) -> Value:
    batch, length, keys = (dims.symbol(name) for name in ("batch", "length", "keys"))
    q = param(Tensor(DType.FLOAT, (batch, 6, length, 4)))
    turned = rng.random() < 0.5
    k = param(Tensor(DType.FLOAT, (batch, 2, keys, 4) if turned else (batch, 2, 4, keys)))
    wide = op.Expand(op.Unsqueeze(k, [2]), shape_vector((batch, 2, 3, *k.shape[2:]), k))
    every = op.Reshape(wide, shape_vector((batch, 6, *k.shape[2:]), k))
    return op.MatMul(q, op.Transpose(every, perm=(0, 1, 3, 2)) if turned else every)


@rule(p.MatMul(hole("q"), hole("k", ops=("Transpose", *VIEWS))), exact=False, sample=_grouped)
def product_of_shared_heads(m: Match) -> Made:
    """q @ (each head of k repeated) -> the queries of one head, one after another, @ k"""
    turned = m.k.op == "Transpose"
    if turned and m.k.attribute("perm") != (0, 1, 3, 2):
        return decline("the keys are turned otherwise")
    every = m.k.inputs[0] if turned else m.k
    shared = repeated_heads(every)
    if shared is None or m.q.rank != 4 or not same_shape(m.q.shape[:2], every.shape[:2]):
        return decline("no heads are repeated, or those of the queries broadcast")
    heads, count = m.q.shape[1], shared.shape[1]
    if type(heads) is not int or type(count) is not int or not count:
        return decline("the number of heads is not known")
    batch, _, length, size = m.q.shape
    sources = bound_by(m.q, shared)
    joined = (batch, count, dims.mul(heads // count, length), size)
    if not is_bound(m, joined, sources) or not is_bound(m, m.root.shape, sources):
        return decline("a dimension is not bound")
    k = op.Transpose(shared, perm=(0, 1, 3, 2)) if turned else shared
    found = op.MatMul(op.Reshape(m.q, sizes_value(m, joined, 1, sources)), k)
    return op.Reshape(found, sizes_value(m, m.root.shape, 1, sources))


SHARED_HEADS: tuple[Rule, ...] = (product_of_shared_heads,)
"""Products with heads that are shared."""
