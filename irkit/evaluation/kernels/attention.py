"""Scaled dot-product attention and rotary position embedding."""

from __future__ import annotations

import numpy as np

from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.evaluation.kernels.common import Array, attr, fail, narrowed_to, results, wide


def heads_first(x: Array, heads: int | None) -> Array:
    """(batch, sequence, heads * size) -> (batch, heads, sequence, size); four dimensions stay as they are."""
    if x.ndim == 4:
        return x
    batch, length, width = x.shape
    return x.reshape(batch, length, heads or 1, width // (heads or 1)).transpose(0, 2, 1, 3)


def allowed_keys(node: Value, queries: int, keys: int, past: int, valid: Array | None) -> Array:
    """Which keys the causal frontier, the window and the valid lengths let each query see, broadcastable to
    (batch, heads, queries, keys)."""
    place = np.arange(keys)[None, :]
    seen = np.ones((1, 1, queries, keys), dtype=np.bool_)
    offset = np.asarray(past) if valid is None or past else valid.astype(np.int64)[:, None, None, None] - queries
    query = np.arange(queries)[:, None] + offset
    if attr(node, "is_causal"):
        seen = seen & (place <= query)
    left, right = attr(node, "left_window_size"), attr(node, "right_window_size")
    if left >= 0:
        seen = seen & (place >= query - left)
    if right >= 0:
        seen = seen & (place <= query + right)
    if valid is not None:
        seen = seen & (place < valid.astype(np.int64)[:, None, None, None])
    return seen


def bias_of(mask: Array | None, keys: int, dtype: np.dtype[np.floating]) -> Array:
    """The mask as a bias to add: 0 or -inf for a boolean one; -inf for keys beyond a mask that is too short."""
    if mask is None:
        return np.zeros((), dtype)
    bias = np.where(mask, 0, -np.inf).astype(dtype) if mask.dtype == np.bool_ else wide(mask).astype(dtype)
    missing = keys - bias.shape[-1]
    if missing > 0:
        bias = np.pad(bias, [(0, 0)] * (bias.ndim - 1) + [(0, missing)], constant_values=-np.inf)
    return bias


def masked_softmax(x: Array) -> Array:
    """The softmax of the last dimension, and zeros for a row that is -inf throughout."""
    if x.shape[-1] == 0:
        return x
    top: Array = x.max(axis=-1, keepdims=True)
    shares = np.exp(x - np.where(np.isneginf(top), 0, top))
    total = shares.sum(axis=-1, keepdims=True)
    return shares / np.where(total == 0, 1, total)


def kernel_Attention(
    node: Value,
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    valid: Array | None = None,
) -> tuple[Array, ...]:
    """(y, present_key, present_value, scores): softmax(scale * q @ k^T, capped, plus bias) @ v by head.

    Several query heads may share one key head; `past_key` and `past_value` go before the keys and values.
    """
    q = heads_first(query, attr(node, "q_num_heads"))
    k = heads_first(key, attr(node, "kv_num_heads"))
    v = heads_first(value, attr(node, "kv_num_heads"))
    if (past_key is None) != (past_value is None):
        raise fail(node, "past_key and past_value must be given together")
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        k, v = np.concatenate([past_key, k], axis=2), np.concatenate([past_value, v], axis=2)
    share = q.shape[1] // k.shape[1]
    wide_q, wide_k, wide_v = wide(q), np.repeat(wide(k), share, axis=1), np.repeat(wide(v), share, axis=1)
    given = attr(node, "scale")
    scale = 1 / np.sqrt(q.shape[3]) if given is None else given
    raw = np.matmul(wide_q * np.asarray(scale, wide_q.dtype), wide_k.swapaxes(2, 3))
    cap = attr(node, "softcap")
    capped = np.tanh(raw / cap) * cap if cap else raw
    keys = k.shape[2]
    seen = allowed_keys(node, q.shape[2], keys, past, valid)
    biased = np.where(seen, capped + bias_of(mask, keys, capped.dtype), -np.inf).astype(capped.dtype)
    precision = attr(node, "softmax_precision")
    exact = np.float64 if precision == DType.DOUBLE else biased.dtype
    shares = masked_softmax(biased.astype(exact)).astype(biased.dtype)
    found = np.matmul(shares, wide_v.astype(shares.dtype))
    if query.ndim == 3:
        found = found.transpose(0, 2, 1, 3).reshape(query.shape[0], query.shape[1], found.shape[1] * found.shape[3])
    scores = (raw, capped, biased, shares)[attr(node, "qk_matmul_output_mode")] if results(node) > 3 else raw
    return narrowed_to(found, query.dtype), k, v, narrowed_to(scores, query.dtype)


def kernel_RotaryEmbedding(
    node: Value, x: Array, cosines: Array, sines: Array, positions: Array | None = None
) -> Array:
    """Pairs of elements of each head turned by the angle of their position; the rest of the head is kept."""
    value = wide(x)
    heads = (
        value.transpose(0, 2, 1, 3)
        if x.ndim == 4
        else value.reshape(*x.shape[:2], attr(node, "num_heads"), x.shape[2] // attr(node, "num_heads"))
    )
    cos, sin = wide(cosines), wide(sines)
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    cos, sin = cos[:, :, None, :], sin[:, :, None, :]
    size = attr(node, "rotary_embedding_dim") or heads.shape[-1]
    turned, kept = heads[..., :size], heads[..., size:]
    pairs = (turned[..., 0::2], turned[..., 1::2]) if attr(node, "interleaved") else np.split(turned, 2, axis=-1)
    first, second = cos * pairs[0] - sin * pairs[1], sin * pairs[0] + cos * pairs[1]
    if attr(node, "interleaved"):
        joined = np.stack([first, second], axis=-1).reshape(turned.shape)
    else:
        joined = np.concatenate([first, second], axis=-1)
    found = np.concatenate([joined, kept], axis=-1)
    return narrowed_to(found.transpose(0, 2, 1, 3) if x.ndim == 4 else found.reshape(x.shape), x.dtype)
