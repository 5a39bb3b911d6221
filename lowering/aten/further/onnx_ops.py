"""The operators that `torch.onnx.ops` offers to models: ONNX's own, written in the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from irkit.build import call, custom, op
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor, Tuple
from irkit.dims import Dim
from irkit.ops.schemas import has_schema
from lowering.aten.attention.attention import split_heads
from lowering.errors import Unsupported


def onnx_RotaryEmbedding(
    x: Value,
    cos_cache: Value,
    sin_cache: Value,
    position_ids: Value | None = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Value:
    """ONNX's RotaryEmbedding.  x: (b, heads, l, e) or (b, l, heads * e)."""
    return op.RotaryEmbedding(
        x,
        cos_cache,
        sin_cache,
        position_ids,
        interleaved=int(interleaved),
        num_heads=num_heads or None,
        rotary_embedding_dim=rotary_embedding_dim,
    )


def onnx_Attention(
    Q: Value,
    K: Value,
    V: Value,
    attn_mask: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Value, ...]:
    """ONNX's Attention at opset 23: (y, present key, present value, product of queries and keys).

    That opset masks the products before it caps them, and lets row i look at 0 ... i of past and present together;
    later ones cap first, and count rows from the end of the past. Where it matters, torch's formula is taken.
    """
    masked = attn_mask is not None or is_causal
    if (masked and (softcap or qk_matmul_output_mode in (1, 2))) or (softcap and qk_matmul_output_mode == 1):
        raise Unsupported("opset 23 masks before it caps")
    if is_causal and past_key is not None:
        raise Unsupported("opset 23 lets row i look at 0 ... i of past and present together")
    attributes: dict[str, Any] = {
        "is_causal": int(is_causal), "kv_num_heads": kv_num_heads or None, "q_num_heads": q_num_heads or None,
        "qk_matmul_output_mode": qk_matmul_output_mode, "scale": scale, "softcap": softcap,
        "softmax_precision": softmax_precision,
    }  # fmt: skip
    # The present key and value are asked for where there are past ones, as the operator wants it.
    if past_key is not None:
        return op.Attention(Q, K, V, attn_mask, past_key, past_value, **attributes, outputs=4)
    y = op.Attention(Q, K, V, attn_mask, **attributes)
    *_, product = op.Attention(Q, K, V, attn_mask, **attributes, outputs=4)
    if Q.rank == 3:
        K, V = split_heads(K, kv_num_heads), split_heads(V, kv_num_heads)
    return y, K, V, product


# ---------------------------------------------------------------------------------------------- by name


def onnx_symbolic__symbolic(
    inputs: Sequence[Value | None],
    op_type: str,
    onnx_dtype: int,
    *,
    shape: Sequence[Dim],
    attr_keys: Sequence[str],
    attr_types: Sequence[str],
    attr_pos: Sequence[Sequence[int]],
    attr_ints: Sequence[int],
    attr_floats: Sequence[float],
    attr_strs: Sequence[str],
    metadata_props_keys: Sequence[str] = (),
    metadata_props_values: Sequence[str] = (),
    domain: str = "",
    version: int | None = None,
) -> Value:
    """Any operator with one result: ONNX's own by its type rule, another by the type that the model gives."""
    attributes = decoded(attr_keys, attr_types, attr_pos, attr_ints, attr_floats, attr_strs)
    name = f"{domain}::{op_type}" if domain else op_type
    return made(name, inputs, attributes, Tensor(DType(onnx_dtype), tuple(shape)))


def onnx_symbolic__symbolic_multi_out(
    inputs: Sequence[Value | None],
    op_type: str,
    onnx_dtypes: Sequence[int],
    *,
    shapes: Sequence[Sequence[Dim]],
    attr_keys: Sequence[str],
    attr_types: Sequence[str],
    attr_pos: Sequence[Sequence[int]],
    attr_ints: Sequence[int],
    attr_floats: Sequence[float],
    attr_strs: Sequence[str],
    metadata_props_keys: Sequence[str] = (),
    metadata_props_values: Sequence[str] = (),
    domain: str = "",
    version: int | None = None,
) -> Sequence[Value]:
    """The same with several results."""
    attributes = decoded(attr_keys, attr_types, attr_pos, attr_ints, attr_floats, attr_strs)
    name = f"{domain}::{op_type}" if domain else op_type
    types = tuple(Tensor(DType(d), tuple(s)) for d, s in zip(onnx_dtypes, shapes, strict=True))
    if has_schema(name):
        result = call(name, inputs, attributes, outputs=len(types))
        return result if isinstance(result, tuple) else (result,)
    if "::" not in name:
        raise Unsupported(f"ONNX has no operator {name}")
    return custom(name, *inputs, type=Tuple(types), **attributes)


def made(name: str, inputs: Sequence[Value | None], attributes: dict[str, Any], type_: Tensor) -> Value:
    """The operator applied: ONNX's own, or one that only the model knows"""
    if has_schema(name):
        return call(name, inputs, attributes)
    if "::" not in name:
        raise Unsupported(f"ONNX has no operator {name}")
    return custom(name, *inputs, type=type_, **attributes)


def decoded(
    keys: Sequence[str],
    types: Sequence[str],
    places: Sequence[Sequence[int]],
    ints: Sequence[int],
    floats: Sequence[float],
    strings: Sequence[str],
) -> dict[str, Any]:
    """The attributes out of the flat lists that torch's schema has room for; a plural type is a list"""
    pools: dict[str, Sequence[Any]] = {"i": ints, "f": floats, "s": strings}
    found: dict[str, Any] = {}
    for key, kind, (start, end) in zip(keys, types, places, strict=True):
        values = list(pools[kind[0]][start:end])
        found[key] = values if kind.endswith("s") and len(kind) > 1 else values[0]
    return found
