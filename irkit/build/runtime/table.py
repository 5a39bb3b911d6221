"""The definitions of all families, and what follows from them: type rules, bodies, values to put in place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from irkit import dims
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
from irkit.build.runtime.application import Application, Sizes, bound_sizes, op
from irkit.core.attributes import Attributes
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, Type, dims_of, map_dims
from irkit.dims import Dim
from irkit.errors import TypeRuleError
from irkit.nodes import construct
from irkit.ops.schemas import spec
from irkit.ops.types.contents import contents
from irkit.ops.types.context import Context
from irkit.support.results import as_tuple

Definition = Callable[..., Any]
"""From an Application and its operands, None where one is left out, to a value, or a tuple of values: those that are
asked for at least."""

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

MOST = 16
"""Integer operands of more elements are not looked into by a type rule."""


def defined_results(
    op: str, inputs: Sequence[Value | None], attributes: Attributes, outputs: int, sizes: Sizes | None = None
) -> tuple[Value, ...]:
    """The results of an operator by its definition, `outputs` of them.

    `sizes` makes vectors of dimensions; without it those are bound by the operands. Raises TypeRuleError for operands
    and attributes that are not defined, and for an operator without a definition.
    """
    function = DEFINITIONS.get(op)
    if function is None:
        raise TypeRuleError(f"irkit has no definition of {op}", hint="irkit.custom(op, ..., type=...) says its type")
    given = tuple(inputs)
    application = Application(spec(op), given, dict(attributes), outputs, sizes or bound_sizes(given))
    missing = arity(function) - len(given)
    try:
        found = function(application, *given, *(None,) * missing)
    except TypeRuleError as error:
        if error.what.startswith(op):
            raise
        raise application.fail(error.what) from error
    results = as_tuple(found)
    if len(results) < outputs or any(r is None for r in results[:outputs]):
        raise application.fail(
            f"of its results only the first {len([r for r in results if r is not None])} are defined"
        )
    return results[:outputs]


@lru_cache(maxsize=1 << 12)
def arity(function: Definition) -> int:
    """How many operands a definition takes."""
    return len(inspect.signature(function).parameters) - 1


# ---------------------------------------------------------------------------------------------- type rules

StandIn = tuple[Type, tuple[Dim, ...] | None] | None
"""What a type rule may look at: the type of an operand, and its elements where it holds a few known integers."""


def stand_in(value: Value | None) -> StandIn:
    """What stands for an operand while its user's type is inferred."""
    if value is None:
        return None
    type_ = value.type
    small = isinstance(type_, Tensor) and len(type_.shape) <= 1 and type_.dtype in (DType.INT32, DType.INT64)
    found = contents(value) if small else None
    return type_, found if found is not None and len(found) <= MOST else None


def stood_in(stand: StandIn) -> Value | None:
    """A value of that type, and with those elements."""
    if stand is None:
        return None
    type_, elements = stand
    if elements is None or not isinstance(type_, Tensor):
        return param(type_)
    vector = construct.shape_vector(elements)
    shaped = vector if type_.shape else op.Squeeze(vector, [0])
    return shaped if type_.dtype is DType.INT64 else op.Cast(shaped, to=type_.dtype)


@lru_cache(maxsize=4096)
def result_types(op: str, attributes: Attributes, operands: tuple[StandIn, ...], outputs: int) -> tuple[Type, ...]:
    """The types of an operator's results."""
    return tuple(v.type for v in defined_results(op, [stood_in(s) for s in operands], attributes, outputs))


def infer(op: str, context: Context) -> tuple[Type, ...]:
    """The type rule of an operator that is defined here. Raises TypeRuleError for what the definition refuses."""
    operands = tuple(map(stand_in, context.inputs))
    found = result_types(op, tuple(sorted(context.attributes.items())), operands, context.outputs)
    known = {d for s in operands if s is not None for d in (*dims_of(s[0]), *(s[1] or ()))}
    known = {symbol for d in known for symbol in dims.symbols_of(d)}
    unknown = {s for t in found for d in dims_of(t) for s in dims.symbols_of(d) if dims.is_fresh(s) and s not in known}
    if not unknown:
        return found
    swaps = {symbol: dims.fresh() for symbol in unknown}  # the memo must not make unknown sizes of two values one
    return tuple(map_dims(t, lambda d: dims.substitute(d, swaps)) for t in found)


def rule_of(op: str) -> Callable[[Context], Type]:
    """The type rule of one operator."""

    def rule(context: Context) -> Any:
        return infer(op, context)

    return rule


RULES: Mapping[str, Callable[[Context], Type]] = MappingProxyType({op: rule_of(op) for op in DEFINITIONS})
"""The type rule of each operator that is defined here."""


# ---------------------------------------------------------------------------------------------- bodies


@lru_cache(maxsize=512)
def body(op: str, attributes: Attributes, operands: tuple[StandIn, ...], outputs: int) -> Graph:
    """The definition of an operator for operands of those types, as a graph over those that are given."""
    params = [None if s is None else param(s[0]) for s in operands]
    inputs = [p if s is None or s[1] is None else stood_in(s) for p, s in zip(params, operands, strict=True)]
    results = defined_results(op, inputs, attributes, outputs)
    return Graph(tuple(p for p in params if p is not None), results, name=op.rpartition("::")[2])
