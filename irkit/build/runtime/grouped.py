"""Definition of ONNX Runtime's GroupQueryAttention."""

from __future__ import annotations

import attrs

from irkit import dims
from irkit.build.runtime.application import (
    Application,
    narrow,
    number,
    op,
    require_present,
    scalar_content,
    vector,
    wide,
)
from irkit.build.runtime.scores import as_int64, attention_of, joined_heads, repeated_heads, split_heads
from irkit.core.ir import Value
from irkit.dims import Dim


@attrs.frozen(eq=False)
class Places:
    """Where the new keys go: `before` is how many keys each row has already, `length` how many are new, `room` how many
    there are place for."""

    before: Value
    length: Dim
    room: Value


def group_query_attention(
    a: Application,
    query: Value,
    key: Value | None,
    value: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    seqlens: Value,
    total: Value,
    cos: Value | None,
    sin: Value | None,
    positions: Value | None,
    attention_bias: Value | None,
    sinks: Value | None,
) -> tuple[Value, ...]:
    """(the causal attention of queries to the keys before them and the new ones, those keys, their values)

    `seqlens` is for each row how many keys it has in the end, less one; `total` how many the longest has. Rows of a
    first prompt are padded to the right: what stands in the results behind their ends says nothing.

    The kernel on the CPU takes several queries behind earlier keys only where the batch is 1, and rotates only heads
    whose size 16 divides (`irkit.build.runtime.limits`).
    """
    a.refuse_operands("k_scale", "v_scale", "q_norm_weight", "k_norm_weight")
    require_present(a, past_key, 3)
    a.refuse("qk_output", "sliding_window_cache", "kv_cache_bit_width")
    if not a.attr("causal", 1) or query.rank != 3:
        raise a.fail("only causal attention, of a query of rank 3, is defined")
    heads, kv_heads = a.attr("num_heads"), a.attr("kv_num_heads")
    q, k, v = separate(a, query, key, value)
    places = placed(a, query.shape[1], past_key, as_int64(seqlens), total)
    if a.flag("do_rotary"):
        if cos is None or sin is None:
            raise a.fail("do_rotary needs cos_cache and sin_cache")
        if positions is None:
            row = op.Unsqueeze(a.ordinals(places.length), vector(0))
            positions = op.Add(op.Unsqueeze(places.before, vector(1)), row)
        q, k = (turned(a, x, cos, sin, positions) for x in (q, k))
    keys, values = (written(a, old, new, places) for old, new in ((past_key, k), (past_value, v)))
    sink = None
    if sinks is not None:
        sink = op.Unsqueeze(wide(sinks), vector(0, 2, 3))
    elif a.attr("smooth_softmax", 0) == 1:
        sink = number(wide(q), 0)
    every_k, every_v = (repeated_heads(a, wide(x), heads // kv_heads) for x in (keys, values))
    found = attention_of(
        a,
        wide(q),
        every_k,
        every_v,
        [] if attention_bias is None else [fitted(a, wide(attention_bias), places)],
        scale=a.attr("scale", 0.0),
        softcap=a.attr("softcap", 0.0),
        hidden=unseen(a, places),
        sink=sink,
    )
    return joined_heads(a, narrow(found, query)), keys, values


def separate(a: Application, query: Value, key: Value | None, value: Value | None) -> tuple[Value, Value, Value]:
    """Queries, keys and values by heads; the first operand holds all of them where the others are left out."""
    heads, kv_heads = a.attr("num_heads"), a.attr("kv_num_heads")
    if key is not None and value is not None:
        return split_heads(a, query, heads), split_heads(a, key, kv_heads), split_heads(a, value, kv_heads)
    if key is not None or value is not None:
        raise a.fail("key and value come together")
    both = split_heads(a, query, heads + 2 * kv_heads)
    q, k, v = op.Split(both, vector(heads, kv_heads, kv_heads), axis=1, outputs=3)
    return q, k, v


def placed(a: Application, length: Dim, past: Value | None, seqlens: Value, total: Value) -> Places:
    """Where new keys go: behind those that a row has, or, in a first prompt, at the beginning."""
    known, ends = scalar_content(total), op.Add(op.Reshape(seqlens, vector(-1)), number(seqlens, 1))
    old: Dim = 0 if past is None else past.shape[2]
    count = op.Reshape(as_int64(total), vector()) if known is None else a.size(known)
    before = op.Sub(ends, a.size(length))
    first = None if known is None else dims.same(length, known)
    if first is True:
        before = op.Mul(before, number(before, 0))
    elif first is None:
        before = op.Where(op.Equal(count, a.size(length)), number(before, 0), before)
    if known is not None:
        return Places(before, length, a.size(dims.maximum(known, old)))
    return Places(before, length, op.Max(count, a.size(old)))


def written(a: Application, old: Value | None, new: Value, places: Places) -> Value:
    """The keys (or values) that there were, and the new ones behind them; zeros behind those."""
    batch, heads, _, size = new.shape
    if old is None:
        outer = op.Concat(a.sizes((batch, heads)), op.Unsqueeze(places.room, vector(0)), a.sizes((size,)), axis=0)
        base = op.Expand(number(new, 0), outer)
    elif old.dtype is not new.dtype:
        raise a.fail("a cache of another element type is not defined")
    else:
        more = op.Unsqueeze(op.Sub(places.room, a.size(old.shape[2])), vector(0))
        base = op.Pad(old, op.Concat(vector(0, 0, 0, 0, 0, 0), more, vector(0), axis=0))
    if type(heads) is int and type(size) is int and any(map(dims.is_fresh, base.shape)):
        base = op.Reshape(base, vector(0, heads, -1, size))
    found = op.TensorScatter(base, new, places.before, axis=2)
    ends = op.Add(places.before, a.size(places.length))
    there = op.Less(ordinals(places), op.Unsqueeze(ends, vector(1)))
    return op.Where(op.Unsqueeze(there, vector(1, 3)), found, number(found, 0))


def ordinals(places: Places) -> Value:
    """0, 1, 2, ... for all places."""
    return op.Range(0, places.room, 1)


def unseen(a: Application, places: Places) -> Value:
    """(rows, 1, queries, keys): True for keys after the query, and for those too long before it for the window."""
    own = op.Add(op.Unsqueeze(a.ordinals(places.length), vector(0)), op.Unsqueeze(places.before, vector(1)))
    at, keys = op.Unsqueeze(own, vector(1, 3)), ordinals(places)
    hidden, window = op.Greater(keys, at), a.attr("local_window_size", -1)
    if window < 0:
        return hidden
    if window == 0:
        raise a.fail("a window of no keys is not defined")
    return op.Or(hidden, op.LessOrEqual(keys, op.Sub(at, number(at, window))))


def turned(a: Application, x: Value, cos: Value, sin: Value, positions: Value) -> Value:
    """x with its heads rotated."""
    width = dims.mul(2, cos.shape[-1])
    part = 0 if dims.same(width, x.shape[-1]) is True else width
    if type(part) is not int:
        raise a.fail("the width of the rotation is not known")
    interleaved = a.attr("rotary_interleaved", 0)
    return op.RotaryEmbedding(x, cos, sin, positions, interleaved=interleaved, rotary_embedding_dim=part)


def fitted(a: Application, bias: Value, places: Places) -> Value:
    """The bias for all places: zeros where it has none, which no query sees."""
    more = op.Unsqueeze(op.Sub(places.room, a.size(bias.shape[3])), vector(0))
    return op.Pad(bias, op.Concat(vector(0, 0, 0, 0, 0, 0, 0), more, axis=0))
