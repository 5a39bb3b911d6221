"""Attention: torch's fused operators as ONNX's Attention, or as products around a softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import HALVES, DType
from irkit.dims import Dim
from lowering.aten.activations.softmax import aten__masked_softmax, zero_masked_rows
from lowering.aten.linear_algebra.products import aten_linear
from lowering.aten.normalization.norm import aten_layer_norm
from lowering.errors import Unsupported
from lowering.tensors.pieces import full, mean, swap, widen
from lowering.tensors.promotion import cast, finite_limits, scalar
from lowering.tensors.shaping import expand, iota, known_equal, permute, reshape, squeeze, unsqueeze


def aten_scaled_dot_product_attention(
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """softmax(query @ key^T * scale + mask) @ value; a row that may look nowhere gives 0.

    query: (*, h, l, e); key: (*, h, s, e); value: (*, h, s, v); attn_mask: broadcasts to (*, h, l, s), bool (True may
    be looked at) or added. With `enable_gqa`, key and value may have fewer heads, each of which serves several of
    query's.
    `is_causal` lets row i look at 0 ... i.
    """
    if dropout_p:
        raise Unsupported("attention with dropout: export the model in eval mode")
    q, k, v = query, key, value
    if k.shape[-2] == 0:  # nothing to look at
        return full(0, (*q.shape[:-1], v.shape[-1]), q.dtype)
    some = all(type(x.shape[-1]) is int and x.shape[-1] > 0 for x in (q, v))  # the fused operators refuse 0
    narrow = some and q.dtype is not DType.DOUBLE  # ONNX Runtime's own kernel computes in float32
    if narrow and not enable_gqa and q.rank == k.rank == v.rank in (3, 4) and batches_equal(q, k, v):
        return fused(q, k, v, attn_mask, is_causal, scale)
    alone = k.rank == q.rank == 4 and dims.same(k.shape[1], 1) is True and type(q.shape[1]) is int
    several = enable_gqa or alone  # one head of keys serves all
    shared = narrow and several and q.rank == k.rank == v.rank == 4 and known_equal(k.shape[:3], v.shape[:3])
    if shared and dims.same(q.shape[0], k.shape[0]) is True:
        return fused(q, k, v, attn_mask, is_causal, scale)
    if enable_gqa:
        heads = q.shape[-3]
        k, v = (repeat_heads(x, heads) for x in (k, v))
    if narrow and q.rank == 2 and k.rank == v.rank == 2 and (attn_mask is None or attn_mask.rank <= 2):
        return squeeze(fused(unsqueeze(q, 0), unsqueeze(k, 0), unsqueeze(v, 0), attn_mask, is_causal, scale), 0)
    return spelled_out(q, k, v, attn_mask, is_causal, scale)[0]


def batches_equal(q: Value, k: Value, v: Value) -> bool:
    """True where the leading axes of all three are known to be equal, and keys and values pair up."""
    lead = q.rank - 2
    paired = dims.same(k.shape[-2], v.shape[-2]) is True
    return paired and known_equal(q.shape[:lead], k.shape[:lead]) and known_equal(q.shape[:lead], v.shape[:lead])


def repeat_heads(x: Value, heads: Dim) -> Value:
    """(*, few, s, e) -> (*, heads, s, e): every head as often as it serves"""
    few = x.shape[-3]
    if dims.same(few, heads) is True:
        return x
    times = dims.floordiv(heads, few)
    wide = expand(unsqueeze(x, x.rank - 2), (*x.shape[:-2], times, *x.shape[-2:]))
    return reshape(wide, (*x.shape[:-3], heads, *x.shape[-2:]))


# ---------------------------------------------------------------------------------------------- one operator


def fused(q: Value, k: Value, v: Value, mask: Value | None, is_causal: bool, scale: float | None) -> Value:
    """ONNX's Attention of (b, h, l, e), or of (b, l, e), which has one head."""
    attributes: dict[str, Any] = {"is_causal": int(is_causal), "scale": scale}
    lone = q.rank == 3
    if lone:
        attributes |= {"q_num_heads": 1, "kv_num_heads": 1}
    if mask is not None:
        mask = fitted(mask, q.shape[-2], k.shape[-2], q.dtype, lone)
    return op.Attention(q, k, v, mask, **attributes)


def fitted(mask: Value, rows: Dim, columns: Dim, dtype: DType, lone: bool) -> Value:
    """A mask of rank 2 or 4 whose last two axes are whole: Attention takes a short last axis for a shorter sequence."""
    if mask.rank < 2:
        mask = unsqueeze(mask, *range(2 - mask.rank))
    if mask.dtype is not DType.BOOL:
        mask = above_lowest(cast(mask, dtype))
    if not known_equal(mask.shape[-2:], (rows, columns)):
        mask = expand(mask, (*mask.shape[:-2], rows, columns))
    return unsqueeze(mask, 1 if lone else 0) if mask.rank == 3 else mask


def above_lowest(mask: Value) -> Value:
    """A mask that adds numbers, with the lowest finite one raised a little.

    Models write it for "do not look". Where a whole row holds it, torch weighs all columns alike; ONNX Runtime takes it
    for -inf, and returns 0.
    """
    low, _ = finite_limits(mask.dtype)
    if mask.blob is not None and not (mask.blob.array == low).any():
        return mask
    return op.Where(op.Equal(mask, scalar(low, mask.dtype)), scalar(low * 0.9, mask.dtype), mask)


# ---------------------------------------------------------------------------------------------- several operators


def spelled_out(
    q: Value, k: Value, v: Value, mask: Value | None, is_causal: bool, scale: float | None
) -> tuple[Value, Value]:
    """(result, weights) by two products and a softmax, for operands whose leading axes broadcast; of half numbers in
    f32, as torch computes it."""
    if q.dtype in HALVES:
        made = spelled_out(widen(q), widen(k), widen(v), mask, is_causal, scale)
        return cast(made[0], q.dtype), cast(made[1], q.dtype)
    scores = scores_of(q, k, mask, is_causal, scale)
    weights = op.Softmax(scores, axis=-1)
    if mask is not None:
        weights = zero_masked_rows(weights, scores, -1)
    return op.MatMul(weights, v), weights


def scale_scores(x: Value, width: Dim, scale: float | None) -> Value:
    """x times the scale of attention, which is 1 / sqrt(width) where none is given; of no width, all scores are 0"""
    width = dims.maximum(width, 1)
    if scale is None and type(width) is not int:
        return op.Div(x, op.Sqrt(cast(dim_scalar(width), x.dtype)))
    return op.Mul(x, scalar(1.0 / math.sqrt(width) if scale is None else scale, x.dtype))


def scores_of(q: Value, k: Value, mask: Value | None, is_causal: bool, scale: float | None) -> Value:
    """(*, h, l, s): how much each row looks at each column, before the softmax; -inf where it may not"""
    scores = scale_scores(op.MatMul(q, swap(k)), q.shape[-1], scale)
    low = scalar(-np.inf, q.dtype)
    if is_causal:
        rows, columns = unsqueeze(iota(q.shape[-2]), 1), iota(k.shape[-2])
        scores = op.Where(op.GreaterOrEqual(rows, columns), scores, low)
    if mask is not None:
        scores = op.Where(mask, scores, low) if mask.dtype is DType.BOOL else op.Add(scores, cast(mask, q.dtype))
    return scores


def log_sums(q: Value, k: Value, mask: Value | None, is_causal: bool, scale: float | None) -> Value:
    """(*, h, l): the logarithm of the sum of exponentials that each row of weights was divided by"""
    scores = scores_of(q, k, mask, is_causal, scale)
    return op.ReduceLogSumExp(cast(scores, DType.FLOAT if q.dtype is not DType.DOUBLE else q.dtype), [-1], keepdims=0)


def aten__scaled_dot_product_attention_math(
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Value | None = None,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Value, Value]:
    """(result, weights)"""
    if dropout_p or dropout_mask is not None:
        raise Unsupported("attention with dropout: export the model in eval mode")
    k, v = (repeat_heads(x, query.shape[-3]) if enable_gqa else x for x in (key, value))
    return spelled_out(query, k, v, attn_mask, is_causal, scale)


def aten__scaled_dot_product_flash_attention_for_cpu(
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    """(result, logarithms of the sums).  key and value may have fewer heads, as torch's own kernel takes them."""
    grouped = dims.same(query.shape[1], key.shape[1]) is not True
    made = aten_scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=grouped
    )
    keys = repeat_heads(key, query.shape[1]) if grouped else key
    return made, log_sums(query, keys, attn_mask, is_causal, scale)


def aten__scaled_dot_product_efficient_attention(
    query: Value,
    key: Value,
    value: Value,
    attn_bias: Value | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Value, Value, Value, Value]:
    """(result, logarithms of the sums, two seeds of dropout)"""
    made = aten_scaled_dot_product_attention(query, key, value, attn_bias, dropout_p, is_causal, scale=scale)
    seed = scalar(0, DType.INT64)
    return made, log_sums(query, key, attn_bias, is_causal, scale), seed, seed


def aten__scaled_dot_product_fused_attention_overrideable(
    query: Value,
    key: Value,
    value: Value,
    attn_bias: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """(result, logarithms of the sums, ...); what follows serves torch's backward pass only"""
    made = aten_scaled_dot_product_attention(query, key, value, attn_bias, dropout_p, is_causal, scale=scale)
    none, seed = full(0, (0,), DType.INT32), scalar(0, DType.INT64)
    sums = log_sums(query, key, attn_bias, is_causal, scale)
    return made, sums, none, none, query.shape[-2], key.shape[-2], seed, seed, full(0, (0,), query.dtype)


def aten__scaled_dot_product_flash_attention(query: Value, key: Value, value: Value, *rest: Any, **named: Any) -> Any:
    """As `_scaled_dot_product_fused_attention_overrideable`, without a mask."""
    return aten__scaled_dot_product_fused_attention_overrideable(query, key, value, None, *rest, **named)


def aten__scaled_dot_product_cudnn_attention(
    query: Value, key: Value, value: Value, attn_bias: Value | None, compute_log_sumexp: bool, *rest: Any, **named: Any
) -> Any:
    """As `_scaled_dot_product_fused_attention_overrideable`."""
    return aten__scaled_dot_product_fused_attention_overrideable(query, key, value, attn_bias, *rest, **named)


# ---------------------------------------------------------------------------------------------- whole layers


def split_heads(x: Value, heads: int) -> Value:
    """(b, l, heads * e) -> (b, heads, l, e)"""
    b, length, width = x.shape
    return permute(reshape(x, (b, length, heads, dims.floordiv(width, heads))), (0, 2, 1, 3))


def joined_heads(x: Value) -> Value:
    """(b, heads, l, e) -> (b, l, heads * e)"""
    b, heads, length, width = x.shape
    return reshape(permute(x, (0, 2, 1, 3)), (b, length, dims.mul(heads, width)))


def aten__native_multi_head_attention(
    query: Value,
    key: Value,
    value: Value,
    embed_dim: int,
    num_head: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    mask: Value | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Value, Value]:
    """(result, weights).  query, key, value: (b, l, embed_dim); a mask is True where nothing may be looked at."""
    parts = zip((query, key, value), thirds(qkv_weight), thirds(qkv_bias), strict=True)
    q, k, v = (split_heads(aten_linear(x, w, b), num_head) for x, w, b in parts)
    scores = op.Mul(op.MatMul(q, swap(k)), scalar(1.0 / math.sqrt(embed_dim // num_head), q.dtype))
    weights = op.Softmax(scores, axis=-1) if mask is None else aten__masked_softmax(scores, mask, -1, mask_type)
    made = aten_linear(joined_heads(op.MatMul(weights, v)), proj_weight, proj_bias)
    if not need_weights:
        return made, full(0, (0,), made.dtype)
    return made, mean(weights, [1]) if average_attn_weights else weights


def thirds(packed: Value) -> Sequence[Value]:
    """The parts for query, key and value, which lie one after the other."""
    return op.Split(packed, axis=0, num_outputs=3, outputs=3)


def aten__transformer_encoder_layer_fwd(
    src: Value,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Value,
    norm_bias_1: Value,
    norm_weight_2: Value,
    norm_bias_2: Value,
    ffn_weight_1: Value,
    ffn_bias_1: Value,
    ffn_weight_2: Value,
    ffn_bias_2: Value,
    mask: Value | None = None,
    mask_type: int | None = None,
) -> Value:
    """One layer of a transformer's encoder.  src: (b, l, embed_dim)."""

    def attended(x: Value) -> Value:
        return aten__native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]

    def forwarded(x: Value) -> Value:
        inner = aten_linear(x, ffn_weight_1, ffn_bias_1)
        return aten_linear(op.Gelu(inner) if use_gelu else op.Relu(inner), ffn_weight_2, ffn_bias_2)

    def normed(x: Value, weight: Value, bias: Value) -> Value:
        return aten_layer_norm(x, [embed_dim], weight, bias, eps)

    if norm_first:
        x = op.Add(src, attended(normed(src, norm_weight_1, norm_bias_1)))
        return op.Add(x, forwarded(normed(x, norm_weight_2, norm_bias_2)))
    x = normed(op.Add(src, attended(src)), norm_weight_1, norm_bias_1)
    return normed(op.Add(x, forwarded(x)), norm_weight_2, norm_bias_2)
