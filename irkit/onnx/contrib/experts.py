"""Definition of ONNX Runtime's mixtures of experts."""

from __future__ import annotations

import numpy as np

from irkit import construct
from irkit.dims import Dim
from irkit.ir import Value
from irkit.onnx.contrib.application import Application, narrow, number, op, vector, wide
from irkit.types import DType


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
    count, k = w1.shape[0], a.attr("k")
    if type(count) is not int or x.rank not in (2, 3) or logits.rank != 2 or w1.rank != 3 or w2.rank != 3:
        raise a.fail("the number of experts is not known, or an operand has another rank")
    if not 1 <= k <= count:
        raise a.fail(f"{k} of {count} experts")
    if w3 is not None and w3.rank != 3:
        raise a.fail("operand fc3_experts_weights must have rank 3")
    rows = wide(x) if x.rank == 2 else op.Reshape(wide(x), a.sizes((logits.shape[0], x.shape[2])))
    shares, chosen = op.TopK(op.Softmax(wide(logits)), vector(k))
    if a.flag("normalize_routing_weights"):
        shares = op.Div(shares, op.ReduceSum(shares, vector(-1)))
    sorted_, order = op.TopK(op.Reshape(chosen, vector(-1)), a.sizes((pairs(logits, k),)), largest=0)
    lengths = op.ReduceSum(
        op.Cast(op.Equal(op.Unsqueeze(sorted_, vector(1)), construct.const(np.arange(count))), to=DType.INT64),
        vector(0), keepdims=0,
    )  # fmt: skip
    mine = op.Gather(rows, op.Div(order, np.int64(k)))
    inner = grouped(a, mine, lengths, w1, b1)
    gate = None if w3 is None else grouped(a, mine, lengths, w3, b3)
    made = grouped(a, activated(a, inner, gate), lengths, w2, b2)
    back = op.TopK(order, a.sizes((pairs(logits, k),)), largest=0)[1]
    apart = op.Reshape(op.Gather(made, back), a.sizes((logits.shape[0], k, w2.shape[1])))
    total = op.ReduceSum(op.Mul(apart, op.Unsqueeze(shares, vector(-1))), vector(1), keepdims=0)
    return narrow(total if x.rank == 2 else op.Reshape(total, a.sizes(x.shape)), x)


def pairs(logits: Value, k: int) -> Dim:
    """How many pairs of a row and an expert there are."""
    return logits.shape[0] * k


def grouped(a: Application, x: Value, lengths: Value, weights: Value, bias: Value | None) -> Value:
    """The rows of x, which are sorted by expert, each times the transposed matrix of its expert, plus its bias."""
    count = weights.shape[0]
    parts = op.Split(x, lengths, axis=0, outputs=count) if count > 1 else (x,)
    made = []
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
    made = {
        "relu": op.Relu, "silu": op.Swish, "identity": lambda x: x,
        "gelu": lambda x: op.Gelu(x, approximate="tanh"),
    }.get(kind)  # fmt: skip
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
