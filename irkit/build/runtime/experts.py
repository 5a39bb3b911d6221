"""Definition of ONNX Runtime's mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from irkit.build.runtime.application import Application, narrow, number, op, vector, wide
from irkit.build.runtime.quantized import unpacked_bytes
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.nodes import construct


def moe(
    a: Application,
    x: Value,
    logits: Value,
    w1: Value,
    b1: Value | None,
    w2: Value,
    b2: Value | None,
    w3: Value | None,
    b3: Value | None,
) -> Value:
    """For each row of x: the sum of what `k` experts make of it, each by its share in Softmax(logits).

    Expert e makes f(x @ w1[e]^T + b1[e]) @ w2[e]^T + b2[e] of its rows; with w3, f(...) * (x @ w3[e]^T + b3[e]) goes
    into the second product. x: (rows, width) or (batch, length, width); logits: (rows, experts); w1: (experts, inner,
    width); w2: (experts, width, inner). The rows are sorted by expert, so that none is multiplied twice.

    Of experts with equal logits the first are taken, and the kernel on the CPU takes the last.
    """
    shares, chosen = op.TopK(op.Softmax(wide(logits)), vector(a.attr("k")))
    if a.flag("normalize_routing_weights"):
        shares = normal(shares)
    return mixed(a, x, shares, chosen, (w1, b1), (w2, b2), None if w3 is None else (w3, b3))


def normal(shares: Value) -> Value:
    """Shares that sum up to 1 in each row."""
    return op.Div(shares, op.ReduceSum(shares, vector(-1)))


def q_moe(
    a: Application,
    x: Value,
    logits: Value,
    w1: Value,
    scale1: Value | None,
    b1: Value | None,
    w2: Value,
    scale2: Value | None,
    b2: Value | None,
    w3: Value | None,
    scale3: Value | None,
    b3: Value | None,
    zero1: Value | None,
    zero2: Value | None,
    zero3: Value | None,
    weights: Value | None,
    *further: Value | None,
) -> Value:
    """MoE of weights of 4 or 8 bits: (packed - zero) * scale for each row of a matrix, or each block of one.

    The shares are Softmax over the logits of the chosen experts alone, or, where there are `weights` of all experts,
    those of the chosen ones.
    """
    if a.attr("quant_type") != "int" or any(v is not None for v in further):
        raise a.fail("only weights of integers are defined")
    top, chosen = op.TopK(wide(logits), vector(a.attr("k")))
    shares = op.Softmax(top)
    if weights is not None:
        shares = op.GatherElements(wide(weights), chosen, axis=1)
        shares = normal(shares) if a.flag("normalize_routing_weights") else shares
    first, second = restored(a, 1, w1, scale1, zero1), restored(a, 2, w2, scale2, zero2)
    third = None if w3 is None else (restored(a, 3, w3, scale3, zero3), b3)
    return mixed(a, x, shares, chosen, (first, b1), (second, b2), third)


def restored(a: Application, layer: int, packed: Value, scale: Value | None, zero: Value | None) -> Value:
    """(experts, out, in) in float32."""
    bits, block = a.attr(f"fc{layer}_expert_weight_bits") or a.attr("expert_weight_bits"), a.attr("block_size") or 0
    if bits not in (4, 8) or scale is None or packed.rank != 3 or not all(type(d) is int for d in packed.shape):
        raise a.fail(f"weights of {bits} bits, without scales or of unknown sizes, are not defined")
    experts, rows, columns = packed.shape
    columns = columns * 8 // bits
    blocks = columns // block if block else 1
    whole = op.Reshape(unpacked_bytes(packed, bits), vector(experts, rows, blocks, -1))
    middle: Value = number(whole, 2 ** (bits - 1))
    if zero is not None:
        every = op.Reshape(unpacked_bytes(zero, bits), vector(experts, -1))
        if block:
            every = op.Reshape(every, vector(experts, rows, -1))
        every = op.Slice(every, vector(0), vector(blocks if block else rows), vector(-1))
        middle = op.Reshape(every, vector(experts, rows, blocks, 1))
    factors = op.Reshape(wide(scale), vector(experts, rows, blocks, 1))
    return op.Reshape(op.Mul(op.Sub(whole, middle), factors), vector(experts, rows, columns))


Matrices = tuple[Value, Value | None]
"""The matrices of experts, and their biases."""


def mixed(
    a: Application, x: Value, shares: Value, chosen: Value, first: Matrices, second: Matrices, third: Matrices | None
) -> Value:
    """The sum of what the chosen experts make of each row, by the shares."""
    (w1, b1), (w2, b2) = first, second
    count, k, all_rows = w1.shape[0], a.attr("k"), chosen.shape[0]
    ranks = (chosen.rank, w1.rank, w2.rank, third[0].rank if third else 3)
    if type(count) is not int or x.rank not in (2, 3) or ranks != (2, 3, 3, 3):
        raise a.fail("the number of experts is not known, or an operand has another rank")
    if not 1 <= k <= count:
        raise a.fail(f"{k} of {count} experts")
    pairs = all_rows * k
    rows = wide(x) if x.rank == 2 else op.Reshape(wide(x), a.sizes((all_rows, x.shape[2])))
    sorted_, order = op.TopK(op.Reshape(chosen, vector(-1)), a.sizes((pairs,)), largest=0)
    lengths = op.ReduceSum(
        op.Cast(op.Equal(op.Unsqueeze(sorted_, vector(1)), construct.const(np.arange(count))), to=DType.INT64),
        vector(0),
        keepdims=0,
    )
    mine = op.Gather(rows, op.Div(order, np.int64(k)))
    inner = grouped(a, mine, lengths, w1, b1)
    gate = None if third is None else grouped(a, mine, lengths, *third)
    made = grouped(a, activated(a, inner, gate), lengths, w2, b2)
    back = op.TopK(order, a.sizes((pairs,)), largest=0)[1]
    apart = op.Reshape(op.Gather(made, back), a.sizes((all_rows, k, w2.shape[1])))
    total = op.ReduceSum(op.Mul(apart, op.Unsqueeze(shares, vector(-1))), vector(1), keepdims=0)
    return narrow(total if x.rank == 2 else op.Reshape(total, a.sizes(x.shape)), x)


def grouped(a: Application, x: Value, lengths: Value, weights: Value, bias: Value | None) -> Value:
    """The rows of x, which are sorted by expert, each times the transposed matrix of its expert, plus its bias."""
    count = weights.shape[0]
    parts = op.Split(x, lengths, axis=0, outputs=count) if count > 1 else (x,)
    made: list[Value] = []
    for index, part in enumerate(parts):
        matrix, row = (None if v is None else op.Gather(wide(v), np.int64(index)) for v in (weights, bias))
        made.append(op.Gemm(part, matrix, row, transB=1))
    if count == 1:
        return made[0]
    return op.Reshape(op.Concat(*made, axis=0), a.sizes((x.shape[0], weights.shape[1])))


def activated(a: Application, x: Value, gate: Value | None) -> Value:
    """What goes into the second product."""
    kind = a.attr("activation_type")
    if kind == "swiglu":
        return gated(a, x, gate)
    known: Mapping[str, Callable[[Value], Value]] = {
        "relu": op.Relu, "silu": op.Swish, "identity": lambda x: x,
        "gelu": lambda x: op.Gelu(x, approximate="tanh"),
    }  # fmt: skip
    made = known.get(kind)
    if made is None:
        raise a.fail(f"the activation {kind} is not defined")
    return made(x) if gate is None else op.Mul(made(x), gate)


def gated(a: Application, x: Value, other: Value | None) -> Value:
    """g * Sigmoid(alpha * g) * (l + beta), with g and l limited; they are neighbours in x, halves of it, or two
    values."""
    fusion, limit = a.attr("swiglu_fusion"), a.attr("swiglu_limit")
    if (fusion == 0) is (other is None):
        raise a.fail("swiglu_fusion = 0 goes with fc3_experts_weights, and only it")
    if other is not None:
        gate, linear = x, other
    elif fusion == 1:
        gate, linear = (op.Slice(x, vector(i), vector(np.iinfo(np.int64).max), vector(-1), vector(2)) for i in (0, 1))
    else:
        gate, linear = op.Split(x, axis=-1, num_outputs=2)
    if limit is not None:
        gate, linear = op.Min(gate, number(x, limit)), op.Clip(linear, number(x, -limit), number(x, limit))
    beta = a.attr("activation_beta")
    return op.Mul(op.Swish(gate, alpha=a.attr("activation_alpha")), op.Add(linear, number(x, beta)) if beta else linear)
