"""Type rules of attention."""

from __future__ import annotations

from irkit import dims
from irkit.core.types import Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context, broadcast_to
from irkit.ops.types.movement import divided_evenly

Heads = tuple[Dim, Dim, Dim, Dim]
"""batch, heads, sequence, size of one head"""


def infer_Attention(c: Context) -> tuple[Type, ...]:
    """q[b, h, n, d], k[b, g, m, d], v[b, g, m, e], mask?, past_k[b, g, p, d]?, past_v[b, g, p, e]?
    -> y[b, h, n, e], present_k[b, g, p + m, d], present_v[b, g, p + m, e], scores[b, h, n, p + m];
    with operands of rank 3, heads and their size stand in one axis behind the sequence, in y too."""
    q = heads(c, 0, "q_num_heads")
    k, v = heads(c, 1, "kv_num_heads"), heads(c, 2, "kv_num_heads")
    batch = c.unify(c.unify(q[0], k[0], "the batch sizes"), v[0], "the batch sizes")
    groups, length = c.unify(k[1], v[1], "the heads of key and value"), c.unify(k[2], v[2], "the lengths")
    size = c.unify(q[3], k[3], "the head sizes of query and key")
    if type(q[1]) is int and type(groups) is int and (groups == 0 or q[1] % groups):
        raise c.fail(f"{q[1]} heads of the query cannot share {groups} heads of the key")
    if c.has(4) != c.has(5):
        raise c.fail("past_key and past_value go together")
    if c.has(4):
        past_k, past_v = c.ranked(4, 4).shape, c.ranked(5, 4).shape
        c.unify(past_k[1], groups, "the heads of key and past key")
        c.unify(past_k[3], size, "the head sizes of key and past key")
        c.unify(past_v[3], v[3], "the head sizes of value and past value")
        length = dims.add(c.unify(past_k[2], past_v[2], "the past lengths"), length)
    if c.has(3):
        check_mask(c, c.shape(3), (batch, q[1], q[2], length))
    dtype, dtype_v = c.dtype(0), c.dtype(2)
    y: tuple[Dim, ...] = (batch, q[1], q[2], v[3])
    if c.rank(0) == 3:
        y = (batch, q[2], dims.mul(q[1], v[3]))
    return c.several(
        Tensor(dtype, y),
        Tensor(dtype, (batch, groups, length, size)),
        Tensor(dtype_v, (batch, groups, length, v[3])),
        Tensor(dtype, (batch, q[1], q[2], length)),
    )


def heads(c: Context, index: int, attribute: str) -> Heads:
    """An operand of Attention as (batch, heads, sequence, size of one head)."""
    x = c.ranked(index, 3, 4).shape
    if len(x) == 4:
        return x
    count = c.attr(attribute)
    if not count:
        raise c.fail(f"attribute {attribute} must be given where the operands have rank 3")
    return x[0], count, x[1], divided_evenly(c, x[2], count)


def check_mask(c: Context, mask: tuple[Dim, ...], scores: Heads) -> None:
    """Raises TypeRuleError where a mask certainly does not fit the scores; its last axis may be shorter."""
    if len(mask) > 4:
        raise c.fail(f"the mask has rank {len(mask)}, and at most 4 is allowed")
    if mask:
        broadcast_to(c, (*mask[:-1], 1), scores, "the mask")
    if mask and type(mask[-1]) is int and type(scores[3]) is int and mask[-1] > scores[3]:
        raise c.fail(f"the mask of length {mask[-1]} is longer than the {scores[3]} keys")


def infer_RotaryEmbedding(c: Context) -> Type:
    """x[b, h, n, d] or x[b, n, h * d], cos, sin[p, r / 2], position_ids[b, n]? -> x[...]"""
    x = c.ranked(0, 3, 4)
    count = c.attr("num_heads")
    if len(x.shape) == 3:
        if not count:
            raise c.fail("attribute num_heads must be given where the operand has rank 3")
        divided_evenly(c, x.shape[2], count)
    rank = 2 if c.has(3) else 3
    cos = c.ranked(1, rank).shape
    c.unify_shapes(cos, c.ranked(2, rank).shape, "cosine and sine")
    size = x.shape[3] if len(x.shape) == 4 else dims.floordiv(x.shape[2], count)
    turned = c.attr("rotary_embedding_dim") or size
    c.unify(dims.mul(cos[-1], 2), turned, "twice the last size of the cosines, and the size that is turned,")
    return x
