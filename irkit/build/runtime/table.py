"""The operators of ONNX Runtime's own that irkit has a definition of, as values of the class of the user's own ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from irkit.build.runtime import (
    activations,
    attention,
    experts,
    grouped,
    norms,
    products,
    quantized,
    recurrences,
    rotary,
)
from irkit.nodes.operators import Definition, Operator, Table, TypeRule, operator_of

DEFINITIONS: Mapping[str, Definition] = MappingProxyType(
    {
        "com.microsoft::Attention": attention.attention,
        "com.microsoft::BiasGelu": activations.bias_gelu,
        "com.microsoft::CausalConvWithState": recurrences.causal_conv_with_state,
        "com.microsoft::DequantizeLinear": quantized.dequantize_linear,
        "com.microsoft::DynamicQuantizeMatMul": quantized.dynamic_quantize_mat_mul,
        "com.microsoft::EmbedLayerNormalization": norms.embed_layer_normalization,
        "com.microsoft::ExpandDims": quantized.expand_dims,
        "com.microsoft::FastGelu": activations.fast_gelu,
        "com.microsoft::FusedConv": products.fused_conv,
        "com.microsoft::FusedGemm": products.fused_gemm,
        "com.microsoft::FusedMatMul": products.fused_mat_mul,
        "com.microsoft::Gelu": activations.gelu,
        "com.microsoft::GroupQueryAttention": grouped.group_query_attention,
        "com.microsoft::LinearAttention": recurrences.linear_attention,
        "com.microsoft::MatMulIntegerToFloat": quantized.mat_mul_integer_to_float,
        "com.microsoft::MatMulNBits": quantized.mat_mul_n_bits,
        "com.microsoft::MoE": experts.moe,
        "com.microsoft::MultiHeadAttention": attention.multi_head_attention,
        "com.microsoft::QLinearAdd": quantized.binary("Add"),
        "com.microsoft::QLinearLeakyRelu": quantized.unary("LeakyRelu", "alpha"),
        "com.microsoft::QLinearMul": quantized.binary("Mul"),
        "com.microsoft::QLinearSigmoid": quantized.unary("Sigmoid"),
        "com.microsoft::QMoE": experts.q_moe,
        "com.microsoft::QuantizeLinear": quantized.quantize_linear,
        "com.microsoft::QuickGelu": activations.quick_gelu,
        "com.microsoft::RotaryEmbedding": rotary.rotary_embedding,
        "com.microsoft::SkipLayerNormalization": norms.skip_layer_normalization,
        "com.microsoft::SkipSimplifiedLayerNormalization": norms.skip_simplified_layer_normalization,
        "com.microsoft::TransposeMatMul": products.fused_mat_mul,
        "com.microsoft::Trilu": quantized.trilu,
        "SimplifiedLayerNormalization": norms.simplified_layer_normalization,
    }
)
"""What each operator is, in ONNX's own vocabulary."""

OPERATORS: Table = MappingProxyType(
    {
        op: Operator(op, definition, place=(__name__, "OPERATORS", op), doc=definition.__doc__ or "")
        for op, definition in DEFINITIONS.items()
    }
)
"""Each operator that is defined here."""

RULES: Mapping[str, TypeRule] = MappingProxyType({op: operator.rule for op, operator in OPERATORS.items()})
"""The type rule of each operator that is defined here."""


def defined_operator(op: str) -> Operator | None:
    """The operator of that name, where somebody defined it: of the user's own, which the name knows, or of ONNX
    Runtime's; None for ONNX's, and for one that nobody defined."""
    return operator_of(op) or OPERATORS.get(op)
