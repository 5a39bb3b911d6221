"""Samples of ONNX Runtime's own operators: operands that its kernels and irkit's definitions take, and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from irkit.checking.samples.sampler import F32, Sampler
from irkit.core.types import DType
from irkit.evaluation.kernels.common import Array

Operands = tuple[Any, ...]
"""Operands of an operator; a last dict holds attributes, and how many results are asked for."""

U8 = DType.UINT8


def whole(s: Sampler, top: int, *shape: int, dtype: str = "int32") -> Array:
    """A constant of integers from 0 to below `top`."""
    rng = np.random.default_rng(s.integer(0, 999))
    return rng.integers(0, top, shape).astype(dtype)


def numbers(s: Sampler, *shape: int, scale: float = 1.0) -> Array:
    """A constant of normal numbers."""
    return (np.random.default_rng(s.integer(0, 999)).standard_normal(shape) * scale).astype(np.float32)


def rows(s: Sampler, width: int) -> Any:
    """A tensor of rows of so many numbers: one axis or two before them."""
    return s.of(F32, (*s.shape(1, 2), width))


# ---------------------------------------------------------------------------------------------- elements and products


def gelu(s: Sampler) -> Operands:
    """Of any shape."""
    return (s.tensor((F32,), 1, 3),)


def biased_gelu(s: Sampler) -> Operands:
    """With a bias along the last axis."""
    return rows(s, 4), s.of(F32, (4,))


def quick_gelu(s: Sampler) -> Operands:
    """With other factors than the usual one."""
    return (*gelu(s), {"alpha": s.choose((1.702, 1.0, 0.5))})


def fused_product(s: Sampler) -> Operands:
    """Of matrices, alone or in a batch, that may be transposed, with a factor."""
    m, k, n = (s.integer(1, 4) for _ in range(3))
    left, right = s.integer(0, 1), s.integer(0, 1)
    batch = (2,) if s.flag() else ()
    a, b = (*batch, *((k, m) if left else (m, k))), (*batch, *((n, k) if right else (k, n)))
    return s.of(F32, a), s.of(F32, b), {"transA": left, "transB": right, "alpha": s.choose((1.0, 0.25))}


def fused_gemm(s: Sampler) -> Operands:
    """With a third operand or none, and an activation."""
    m, k, n = s.choose(s.sizes), s.integer(1, 4), s.integer(1, 4)
    third = (s.of(F32, (n,)),) if s.flag() else ()
    given = {"activation": s.choose(("Relu", "Tanh", "Sigmoid", "LeakyRelu")), "alpha": s.choose((1.0, 0.5))}
    return s.of(F32, (m, k)), s.of(F32, (k, n)), *third, given


def fused_convolution(s: Sampler) -> Operands:
    """With a bias and a summand or neither, and an activation."""
    x, w = s.of(F32, (s.integer(1, 2), 3, 5, 4)), numbers(s, 4, 3, 3, 3)
    more = (numbers(s, 4), s.of(F32, (x.shape[0], 4, 3, 2))) if s.flag() else ()
    return x, w, *more, {"activation": s.choose(("Relu", "Tanh", "Sigmoid"))}


# ---------------------------------------------------------------------------------------------- norms, rotations


def skip_norm(s: Sampler) -> Operands:
    """Of a sum, with a scale; the shift and the bias of the full one are left to `skip_layer_norm`."""
    x = s.of(F32, (s.choose(s.sizes), s.integer(1, 3), 8))
    return x, s.of(F32, x.shape), numbers(s, 8), {"epsilon": s.choose((1e-5, 0.1))}


def skip_layer_norm(s: Sampler) -> Operands:
    """The same with a shift and a bias."""
    *operands, given = skip_norm(s)
    more = (numbers(s, 8), numbers(s, 8)) if s.flag() else (numbers(s, 8),)
    return *operands, *more, given


def summed_embeddings(s: Sampler) -> Operands:
    """Of words, places and parts, with a mask or without."""
    b, n = s.integer(1, 2), s.integer(1, 4)
    tables = numbers(s, 9, 8), numbers(s, 6, 8), numbers(s, 2, 8)
    mask = (whole(s, 2, b, n),) if s.flag() else ()
    return (
        whole(s, 9, b, n),
        whole(s, 2, b, n),
        *tables,
        numbers(s, 8),
        numbers(s, 8),
        *mask,
        {"epsilon": 1e-5, "outputs": 2},
    )


def rotation(s: Sampler) -> Operands:
    """Of heads that stand apart, at places that are given."""
    b, n = s.integer(1, 2), s.integer(1, 3)
    places = whole(s, 16, b, n, dtype="int64") if s.flag() else np.array([s.integer(0, 5)])
    return s.of(F32, (b, 2, n, 8)), places, numbers(s, 16, 4), numbers(s, 16, 4), {"interleaved": s.integer(0, 1)}


# ---------------------------------------------------------------------------------------------- attention, states


def packed_attention(s: Sampler) -> Operands:
    """With its projections, and a mask of keys or none."""
    b, n = s.integer(1, 2), s.integer(1, 4)
    mask = (whole(s, 2, b, n),) if s.flag() else ()
    given = {"num_heads": s.choose((1, 2, 4)), "unidirectional": s.integer(0, 1)}
    return s.of(F32, (b, n, 6)), numbers(s, 6, 24), numbers(s, 24), *mask, given


def attention_of_heads(s: Sampler) -> Operands:
    """Of queries and keys, with a bias of scores or none."""
    b, n, m = s.choose(s.sizes), s.integer(1, 3), s.integer(1, 4)
    q, k, v = s.of(F32, (b, n, 8)), s.of(F32, (b, m, 8)), s.of(F32, (b, m, 8))
    more = (None, None, numbers(s, 1, 2, n, m)) if s.flag() else ()
    return q, k, v, *more, {"num_heads": 2}


def grouped_attention(s: Sampler) -> Operands:
    """A prompt, or a step behind what is kept."""
    b, n, before = (s.integer(1, 2), 1, 4) if s.flag() else (1, s.integer(1, 3), 0)
    heads = tuple(s.of(F32, (b, n, 16 * count)) for count in (4, 2, 2))
    past = tuple(s.of(F32, (b, 2, before, 16)) for _ in range(2)) if before else (None, None)
    ends, total = np.full(b, before + n - 1, np.int32), np.array(before + n, np.int32)
    return *heads, *past, ends, total, {"num_heads": 4, "kv_num_heads": 2, "outputs": 3}


def causal_convolution(s: Sampler) -> Operands:
    """With a bias and what came before, or with neither."""
    b, n, taps = s.choose(s.sizes), s.integer(1, 5), s.integer(2, 4)
    x, w = s.of(F32, (b, 6, n)), numbers(s, 6, 1, taps)
    if s.flag():
        return x, w, {"activation": "silu"}
    return x, w, numbers(s, 6), s.of(F32, (b, 6, taps - 1))


def linear_attention(s: Sampler) -> Operands:
    """By each of its rules, behind a state or none."""
    rule = s.choose(("linear", "gated", "delta", "gated_delta"))
    b, n = s.integer(1, 2), s.integer(1, 3)
    q, k, v = s.of(F32, (b, n, 16)), s.of(F32, (b, n, 16)), s.of(F32, (b, n, 12))
    state = s.of(F32, (b, 2, 8, 6)) if s.flag() else None
    decay = -np.abs(numbers(s, b, n, 2)) if "gated" in rule else None
    beta = (1 / (1 + np.exp(-numbers(s, b, n, 2)))).astype(np.float32) if "delta" in rule else None
    return q, k, v, state, decay, beta, {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": rule}


# ---------------------------------------------------------------------------------------------- integers


def scale_of(s: Sampler) -> Array:
    """A scale as a scalar: a power of two, so that no number lies between two integers."""
    return np.array(2.0 ** -s.integer(2, 5), np.float32)


def zero_of(s: Sampler) -> Array:
    """A zero point as a scalar."""
    return np.array(s.integer(0, 200), np.uint8)


def quantized(s: Sampler) -> Operands:
    """Of rows."""
    return rows(s, 4), scale_of(s), zero_of(s)


def dequantized(s: Sampler) -> Operands:
    """Of rows of bytes."""
    return s.of(U8, s.shape(1, 3)), scale_of(s), zero_of(s)


def quantized_unary(s: Sampler) -> Operands:
    """Of bytes, to bytes."""
    return *dequantized(s), scale_of(s), zero_of(s)


def quantized_binary(s: Sampler) -> Operands:
    """Of bytes and bytes, to bytes."""
    x = s.of(U8, s.shape(1, 3))
    return x, scale_of(s), zero_of(s), s.of(U8, x.shape), scale_of(s), zero_of(s), scale_of(s), zero_of(s)


def integer_product(s: Sampler) -> Operands:
    """Of matrices of bytes, with zero points and a bias."""
    m, k, n = s.integer(1, 4), s.integer(1, 8), s.integer(1, 4)
    a, b = s.of(U8, (m, k)), whole(s, 255, k, n, dtype="uint8")
    return a, b, scale_of(s), scale_of(s), zero_of(s), zero_of(s), numbers(s, n)


def half_quantized_product(s: Sampler) -> Operands:
    """Of numbers that become bytes, and bytes."""
    k, n = s.integer(1, 8), s.integer(1, 4)
    return s.of(F32, (s.integer(1, 4), k)), whole(s, 255, k, n, dtype="uint8"), scale_of(s), zero_of(s)


def product_of_bits(s: Sampler) -> Operands:
    """With weights of 4 bits, in blocks."""
    given = {"N": 4, "K": 32, "block_size": 16, "bits": 4}
    return s.of(F32, (s.choose(s.sizes), 32)), whole(s, 255, 4, 2, 8, dtype="uint8"), numbers(s, 8, scale=0.1), given


def triangle(s: Sampler) -> Operands:
    """Above or below a diagonal."""
    x = s.of(F32, (*s.shape(0, 1), s.integer(1, 4), s.integer(1, 4)))
    return x, np.array(s.integer(-1, 1)), {"upper": s.integer(0, 1)}


def new_axis(s: Sampler) -> Operands:
    """At the front or at the end."""
    return s.tensor((F32,), 1, 3), np.array(s.choose((0, -1)), np.int32)


# ---------------------------------------------------------------------------------------------- experts


def experts(s: Sampler) -> Operands:
    """A mixture of four, with biases or without."""
    n = s.integer(1, 5)
    biases = (numbers(s, 4, 12), numbers(s, 4, 8)) if s.flag() else (None, None)
    given = {"k": s.choose((1, 2, 4)), "normalize_routing_weights": s.integer(0, 1)}
    x, logits = s.of(F32, (n, 8)), numbers(s, n, 4)  # of equal logits, which experts are taken is left to the runtime
    return x, logits, numbers(s, 4, 12, 8), biases[0], numbers(s, 4, 8, 12), biases[1], given


def experts_of_bits(s: Sampler) -> Operands:
    """A mixture of four, whose weights are kept in 4 bits."""
    n = s.integer(1, 5)
    layers: list[Any] = []
    for out, into in ((64, 32), (32, 64)):
        scales = np.abs(numbers(s, 4, out, scale=0.02))
        layers += [whole(s, 255, 4, out, into // 2, dtype="uint8"), scales, None]
    given = {"k": 2, "expert_weight_bits": 4, "activation_type": "silu"}
    return s.of(F32, (n, 32)), numbers(s, n, 4), *layers[:-1], given


SAMPLES: Mapping[str, Callable[[Sampler], Operands]] = MappingProxyType(
    {
        "Attention": packed_attention, "BiasGelu": biased_gelu, "CausalConvWithState": causal_convolution,
        "DequantizeLinear": dequantized, "DynamicQuantizeMatMul": half_quantized_product,
        "EmbedLayerNormalization": summed_embeddings, "ExpandDims": new_axis, "FastGelu": biased_gelu,
        "FusedConv": fused_convolution, "FusedGemm": fused_gemm, "FusedMatMul": fused_product, "Gelu": gelu,
        "GroupQueryAttention": grouped_attention, "LinearAttention": linear_attention,
        "MatMulIntegerToFloat": integer_product, "MatMulNBits": product_of_bits, "MoE": experts,
        "MultiHeadAttention": attention_of_heads, "QLinearAdd": quantized_binary, "QLinearLeakyRelu": quantized_unary,
        "QLinearMul": quantized_binary, "QLinearSigmoid": quantized_unary, "QMoE": experts_of_bits,
        "QuantizeLinear": quantized, "QuickGelu": quick_gelu, "RotaryEmbedding": rotation,
        "SkipLayerNormalization": skip_layer_norm, "SkipSimplifiedLayerNormalization": skip_norm,
        "TransposeMatMul": fused_product, "Trilu": triangle,
    }
)  # fmt: skip
"""What makes an instance of each operator of ONNX Runtime's domain that irkit defines."""
