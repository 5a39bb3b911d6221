"""The gradients of attention."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import HALVES
from irkit.dims import Dim
from lowering.aten.attention.attention import repeat_heads, scale_scores, scores_of
from lowering.errors import Unsupported
from lowering.tensors.pieces import swap, widen
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import reshape, unsqueeze


def aten__scaled_dot_product_flash_attention_for_cpu_backward(
    grad_out: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value, Value]:
    """The gradients for query, key and value, as in FlashAttention (Dao et al., 2022, appendix B.2).

    The weights are computed again, from the logarithms of their sums; a row that may look nowhere has none. Half
    numbers are computed in f32, as torch does. key and value may have fewer heads.
    """
    if dropout_p:
        raise Unsupported("the gradient of attention with dropout")
    if query.dtype in HALVES:
        go, q, k, v, o = (widen(x) for x in (grad_out, query, key, value, out))
        grads = gradients(go, q, k, v, o, logsumexp, is_causal, attn_mask, scale)
        return cast(grads[0], query.dtype), cast(grads[1], query.dtype), cast(grads[2], query.dtype)
    return gradients(grad_out, query, key, value, out, logsumexp, is_causal, attn_mask, scale)


def gradients(
    grad_out: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    is_causal: bool,
    mask: Value | None,
    scale: float | None,
) -> tuple[Value, Value, Value]:
    """The gradients for query, key and value, in the element type of query."""
    heads = query.shape[1]
    keys, values = repeat_heads(key, heads), repeat_heads(value, heads)
    sums = unsqueeze(cast(logsumexp, query.dtype), -1)
    exponent = op.Sub(scores_of(query, keys, mask, is_causal, scale), sums)
    looks = op.Greater(sums, scalar(-np.inf, query.dtype))
    weights = op.Where(looks, op.Exp(exponent), scalar(0, query.dtype))
    of_weights = op.MatMul(grad_out, swap(values))
    of_rows = op.ReduceSum(op.Mul(grad_out, out), [-1])
    of_scores = op.Mul(weights, op.Sub(of_weights, of_rows))
    width = query.shape[-1]
    of_query = scale_scores(op.MatMul(of_scores, keys), width, scale)
    of_keys = scale_scores(op.MatMul(swap(of_scores), query), width, scale)
    of_values = op.MatMul(swap(weights), grad_out)
    return of_query, added_up(of_keys, key.shape[1]), added_up(of_values, value.shape[1])


def added_up(x: Value, heads: Dim) -> Value:
    """(b, many, s, e) -> (b, heads, s, e): the sum over the heads that one head serves"""
    many = x.shape[1]
    if dims.same(many, heads) is True:
        return x
    apart = reshape(x, (x.shape[0], heads, dims.floordiv(many, heads), *x.shape[2:]))
    return op.ReduceSum(apart, [2], keepdims=0)
