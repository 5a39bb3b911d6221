"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import torch

from lowering.torch_modules.common import wide_floats


def heads_first(x: torch.Tensor, heads: int) -> torch.Tensor:
    """(batch, sequence, heads * size) -> (batch, heads, sequence, size); four dimensions stay as they are."""
    if x.dim() == 4:
        return x
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(1, 2)


def allowed_keys(
    queries: Any, keys: Any, past: Any, valid: torch.Tensor | None, is_causal: int, left: int, right: int
) -> torch.Tensor | None:
    """Which keys the causal frontier, the window and the valid lengths let each query see; None for all."""
    if not is_causal and left < 0 and right < 0 and valid is None:
        return None
    place = torch.arange(keys).unsqueeze(0)
    lengths = None if valid is None else valid.long().reshape(-1, 1, 1, 1)
    query = torch.arange(queries).unsqueeze(1) + (past if lengths is None else lengths - queries)
    seen = torch.ones_like(place <= query)
    if is_causal:
        seen = seen & (place <= query)
    if left >= 0:
        seen = seen & (place >= query - left)
    if right >= 0:
        seen = seen & (place <= query + right)
    return seen if lengths is None else seen & (place < lengths)


def bias_of(mask: torch.Tensor, keys: Any, dtype: torch.dtype) -> torch.Tensor:
    """The mask as a bias to add: 0 or -inf for a boolean one; -inf for keys beyond a mask that is too short."""
    zero = torch.zeros((), dtype=dtype)
    bias = torch.where(mask, zero, -math.inf) if mask.dtype == torch.bool else mask.to(dtype)
    own = bias.shape[-1]
    if type(own) is int and type(keys) is int and own < keys:
        bias = torch.nn.functional.pad(bias, [0, keys - own], value=-math.inf)
    return bias


def masked_softmax(x: torch.Tensor) -> torch.Tensor:
    """The softmax of the last dimension, and zeros for a row that is -inf throughout."""
    hidden = torch.isneginf(x).all(-1, keepdim=True)
    return torch.where(hidden, 0.0, torch.softmax(torch.where(hidden, 0.0, x), -1))


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    past_key: torch.Tensor | None = None,
    past_value: torch.Tensor | None = None,
    valid: torch.Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 1,
    left_window_size: int = -1,
    q_num_heads: int = 1,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int = 0,
) -> tuple[torch.Tensor, ...]:
    """(y, present key, present value, scores): softmax(scale * q @ k^T, capped, plus bias) @ v by head."""
    q, k, v = heads_first(query, q_num_heads), heads_first(key, kv_num_heads), heads_first(value, kv_num_heads)
    past: Any = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
    share = q.shape[1] // k.shape[1]
    wide_k, wide_v = wide_floats(k).repeat_interleave(share, 1), wide_floats(v).repeat_interleave(share, 1)
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    raw = torch.matmul(wide_floats(q) * factor, wide_k.transpose(2, 3))
    capped = torch.tanh(raw / softcap) * softcap if softcap else raw
    keys = k.shape[2]
    biased = capped if mask is None else capped + bias_of(mask, keys, capped.dtype)
    frontier = allowed_keys(q.shape[2], keys, past, valid, is_causal, left_window_size, right_window_size)
    if frontier is not None:
        biased = torch.where(frontier, biased, -math.inf)
    exact = biased.double() if softmax_precision == 11 else biased  # 11 is ONNX's number of float64
    shares = masked_softmax(exact).to(biased.dtype)
    found = torch.matmul(shares, wide_v)
    if query.dim() == 3:
        found = found.transpose(1, 2).reshape(query.shape[0], query.shape[1], found.shape[1] * found.shape[3])
    scores = (raw, capped, biased, shares)[qk_matmul_output_mode]
    return found.to(query.dtype), k.clone(), v.clone(), scores.to(query.dtype)


TABLE = {"Attention": attention}
