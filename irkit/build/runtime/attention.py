"""Definitions of ONNX Runtime's MultiHeadAttention and Attention."""

from __future__ import annotations

from collections.abc import Sequence

from irkit import dims
from irkit.build.runtime.application import Application, op, require_present, vector
from irkit.build.runtime.scores import as_int64, attention_of, joined_heads, later, mask_bias, penalty, split_heads
from irkit.core.ir import Value
from irkit.dims import Dim

FILTER = -10000.0
"""What ONNX Runtime adds to the scores of keys that a mask hides, unless it is told otherwise."""


def multi_head_attention(
    a: Application,
    q: Value,
    k: Value | None,
    v: Value | None,
    bias: Value | None,
    mask: Value | None,
    attention_bias: Value | None,
    past_key: Value | None,
    past_value: Value | None,
) -> tuple[Value, ...]:
    """(softmax(scale * q @ k^T + masks) @ v, the keys, the values), heads side by side in the last axis of operands"""
    a.refuse_operands("past_sequence_length", "cache_indirection")
    require_present(a, past_key, 3)
    if k is None or v is None or q.rank != 3 or k.rank != v.rank or k.rank not in (3, 4):
        raise a.fail("packed keys and values are not defined")
    heads = a.attr("num_heads")
    if bias is not None:
        if k.rank != 3:
            raise a.fail("a bias is defined for keys of rank 3 only")
        q, k, v = (op.Add(x, b) for x, b in zip((q, k, v), parted(a, bias, (q, k, v)), strict=True))
    query = split_heads(a, q, heads)
    key, value = (split_heads(a, x, heads) if x.rank == 3 else x for x in (k, v))
    fresh = key.shape[2]
    if (past_key is None) != (past_value is None):
        raise a.fail("past_key and past_value come together")
    before: Dim = 0
    if past_key is not None and past_value is not None:
        before = past_key.shape[2]
        key, value = op.Concat(past_key, key, axis=2), op.Concat(past_value, value, axis=2)
    found = masked(a, query, key, value, mask, attention_bias, before, fresh)
    return joined_heads(a, found), key, value


def parted(a: Application, bias: Value, operands: Sequence[Value]) -> tuple[Value, ...]:
    """The bias in parts for each operand."""
    sizes = [x.shape[-1] for x in operands]
    if any(type(s) is not int for s in sizes):
        raise a.fail("the sizes of the last axes are not known")
    return op.Split(bias, vector(*sizes), outputs=len(sizes))


def masked(
    a: Application,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None,
    attention_bias: Value | None,
    before: Dim,
    fresh: Dim,
) -> Value:
    """The attention, of rank 4, with the masks that both operators have; `fresh` keys came after `before` others."""
    length = q.shape[2]
    biases = [] if attention_bias is None else [attention_bias]
    if mask is not None:
        biases.append(from_mask(a, q, k, mask, a.attr("mask_filter_value", FILTER)))
    hidden = None
    if a.flag("unidirectional"):
        if dims.same(length, fresh) is not True:
            raise a.fail("unidirectional is defined for as many queries as new keys only")
        hidden = later(a, length, k.shape[2], before)
    return attention_of(a, q, k, v, biases, scale=a.attr("scale", 0.0), hidden=hidden)


def from_mask(a: Application, q: Value, k: Value, mask: Value, content: float) -> Value:
    """What is added to the scores for a mask: of 0 and 1 for each key (rank 2) or each query and key (rank 3), or how
    many keys each row has (rank 1), which may be followed by where they begin."""
    batch, total = q.shape[0], k.shape[2]
    if mask.rank == 2 and dims.same(mask.shape[1], total) is not False:
        return mask_bias(q, op.Unsqueeze(mask, vector(1, 2)), content)
    if mask.rank == 3:
        return mask_bias(q, op.Unsqueeze(mask, vector(1)), content)
    if mask.rank != 1:
        raise a.fail("a mask of that shape is not defined")
    places, counts = a.ordinals(total), as_int64(mask)
    if dims.same(mask.shape[0], batch) is True:
        return penalty(q, op.GreaterOrEqual(places, op.Unsqueeze(counts, vector(1, 2, 3))), content)
    if dims.same(mask.shape[0], dims.mul(2, batch)) is not True:
        raise a.fail("a mask of that length is not defined")
    ends, starts = op.Split(counts, axis=0, num_outputs=2, outputs=2)
    after = op.GreaterOrEqual(places, op.Unsqueeze(ends, vector(1, 2, 3)))
    return penalty(q, op.Or(after, op.Less(places, op.Unsqueeze(starts, vector(1, 2, 3)))), content)


def attention(
    a: Application,
    x: Value,
    weights: Value,
    bias: Value | None,
    mask: Value | None,
    past: Value | None,
    attention_bias: Value | None,
) -> tuple[Value, ...]:
    """(the attention of x @ weights + bias, cut into queries, keys and values; keys and values, one upon the other)"""
    a.refuse("do_rotary", "past_present_share_buffer", "rotary_embedding_dim")
    a.refuse_operands("past_sequence_length")
    require_present(a, past, 2)
    heads, width = a.attr("num_heads"), weights.shape[-1]
    sizes = a.attr("qkv_hidden_sizes") or (dims.floordiv(width, 3),) * 3
    if any(type(s) is not int for s in sizes):
        raise a.fail("the size of the last axis of weights is not known")
    made = op.MatMul(x, weights)
    made = made if bias is None else op.Add(made, bias)
    parts = op.Split(made, vector(*sizes), axis=2, outputs=3)
    q, k, v = (split_heads(a, part, heads) for part in parts)
    fresh, before = k.shape[2], 0
    if past is not None:
        old_k, old_v = (op.Gather(past, i, axis=0) for i in range(2))
        before = past.shape[3]
        k, v = op.Concat(old_k, k, axis=2), op.Concat(old_v, v, axis=2)
    found = joined_heads(a, masked(a, q, k, v, mask, attention_bias, before, fresh))
    if not a.wants(1):
        return (found,)
    return found, op.Concat(op.Unsqueeze(k, vector(0)), op.Unsqueeze(v, vector(0)), axis=0)
