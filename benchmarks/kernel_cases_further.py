"""Further cases of benchmarks/kernel_costs.py: mixtures of experts, and states that go from token to token."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.kernel_forms import Case, Form, Maker
from irkit.build import op
from irkit.core.ir import Value

MIXTURES = {
    "small": {"rows": 8, "width": 64, "inner": 128, "experts": 4, "k": 2},
    "step": {"rows": 1, "width": 256, "inner": 512, "experts": 8, "k": 2},
    "wide step": {"rows": 1, "width": 768, "inner": 1536, "experts": 8, "k": 2},
    "many": {"rows": 16, "width": 256, "inner": 256, "experts": 32, "k": 4},
    "sequence": {"rows": 128, "width": 256, "inner": 512, "experts": 8, "k": 2},
}
"""Sizes of mixtures of experts, by class."""

CHANNELS = {
    "small": {"batch": 1, "channels": 64, "length": 8},
    "wide": {"batch": 1, "channels": 2048, "length": 4},
    "sequence": {"batch": 2, "channels": 256, "length": 64},
    "long": {"batch": 1, "channels": 1536, "length": 128},
}
STEPS = {
    "small": {"batch": 1, "channels": 64, "length": 1},
    "medium": {"batch": 1, "channels": 1536, "length": 1},
    "wide": {"batch": 1, "channels": 8192, "length": 1},
    "batch": {"batch": 8, "channels": 512, "length": 1},
}
"""Sizes of causal convolutions, by class: of many positions, and of one."""

STATES = {
    "small": {"batch": 1, "heads": 2, "keys": 16, "values": 16},
    "medium": {"batch": 1, "heads": 8, "keys": 64, "values": 64},
    "wide": {"batch": 1, "heads": 32, "keys": 128, "values": 128},
    "batch": {"batch": 8, "heads": 4, "keys": 64, "values": 32},
}
"""Sizes of the states of linear attention, by class."""

ms = op.com_microsoft


# ---------------------------------------------------------------------------------------------- mixtures of experts


def mixtures() -> Iterator[Case]:
    """MoE beside rows that are sorted by expert, which is its definition, and beside matrices gathered for each row."""
    for kind in ("swiglu", "silu", "gelu", "relu"):
        plain = (mixture(kind), gathered) if kind == "swiglu" else (mixture(kind),)
        yield Case(mixture(kind), plain, MIXTURES, copies=1)


def mixture(kind: str) -> Form:
    """MoE, which a target without the domain has written out."""

    def form(m: Maker) -> Value:
        given = {"k": m.k, "activation_type": kind, "normalize_routing_weights": 1}
        given |= {"swiglu_fusion": 1} if kind == "swiglu" else {}
        inner = m.inner * (2 if kind == "swiglu" else 1)
        x, logits = m.input(m.rows, m.width), m.input(m.rows, m.experts)
        first, second = m.weight(m.experts, inner, m.width), m.weight(m.experts, m.width, m.inner)
        return ms.MoE(x, logits, first, None, second, **given)

    return form


def gathered(m: Maker) -> Value:
    """Each row with the matrices of its experts."""
    x, logits = m.input(m.rows, m.width), m.input(m.rows, m.experts)
    first, second = m.weight(m.experts, 2 * m.inner, m.width), m.weight(m.experts, m.width, m.inner)
    shares, chosen = op.TopK(op.Softmax(logits), [m.k])
    shares = op.Div(shares, op.ReduceSum(shares, np.array([-1])))
    inner = op.Squeeze(op.MatMul(op.Gather(first, chosen), op.Unsqueeze(x, [1, 3])), [3])
    gate, other = (op.Slice(inner, [i], [2 * m.inner], [2], [2]) for i in (0, 1))
    made = op.Squeeze(op.MatMul(op.Gather(second, chosen), op.Unsqueeze(op.Mul(op.Swish(gate), other), [3])), [3])
    return op.ReduceSum(op.Mul(made, op.Unsqueeze(shares, [2])), np.array([1]), keepdims=0)


# ---------------------------------------------------------------------------------------------- states


def convolutions() -> Iterator[Case]:
    """Causal convolutions behind earlier positions, with an activation or without."""
    for activation in ("none", "silu"):
        for sizes in (CHANNELS, STEPS):
            yield Case(convolution(activation, True), (convolution(activation, False),), sizes)


def convolution(activation: str, fused: bool) -> Form:
    """A convolution of each channel with four positions."""

    def form(m: Maker) -> Value:
        x, past = m.input(m.batch, m.channels, m.length), m.input(m.batch, m.channels, 3)
        weight, bias = m.weight(m.channels, 1, 4), m.weight(m.channels)
        if fused:
            return ms.CausalConvWithState(x, weight, bias, past, activation=activation, outputs=2)[0]
        found = op.Conv(op.Concat(past, x, axis=2), weight, bias, group=m.channels)
        return op.Swish(found) if activation == "silu" else found

    return form


def attentions() -> Iterator[Case]:
    """One token of linear attention: every rule, with decays of heads and of keys."""
    for gated, by_key in ((False, False), (True, False), (True, True)):
        for delta in (False, True):
            yield Case(attention(gated, by_key, delta, True), (attention(gated, by_key, delta, False),), STATES)


def attention(gated: bool, by_key: bool, delta: bool, fused: bool) -> Form:
    """A state that a token changes and reads."""

    def form(m: Maker) -> tuple[Value, ...]:
        batch, heads, keys, values = m.batch, m.heads, m.keys, m.values
        past, value = m.input(batch, heads, keys, values), m.input(batch, heads, values)
        key, query = (m.fed(0.2 * m.random(batch, heads, keys)) for _ in range(2))
        decay = m.fed(-np.abs(m.random(batch, heads, keys if by_key else 1))) if gated else None
        beta = m.fed(np.abs(m.random(batch, heads))) if delta else None
        if fused:
            rows = [op.Reshape(v, [batch, 1, -1]) for v in (query, key, value)]
            gates = [None if v is None else op.Reshape(v, [batch, 1, -1]) for v in (decay, beta)]
            rule = {
                (False, False): "linear",
                (True, False): "gated",
                (False, True): "delta",
                (True, True): "gated_delta",
            }
            given = {"q_num_heads": heads, "kv_num_heads": heads, "scale": 1.0, "update_rule": rule[gated, delta]}
            found, state = ms.LinearAttention(*rows, past, *gates, **given, outputs=2)
            return op.Reshape(found, [batch, heads, values]), state
        left = past if decay is None else op.Mul(past, op.Unsqueeze(op.Exp(decay), [3]))
        column = op.Unsqueeze(key, [3])
        if beta is not None:
            seen = op.ReduceSum(op.Mul(left, column), np.array([2]), keepdims=0)
            value = op.Mul(op.Sub(value, seen), op.Unsqueeze(beta, [2]))
        state = op.Add(left, op.Mul(column, op.Unsqueeze(value, [2])))
        return op.ReduceSum(op.Mul(state, op.Unsqueeze(query, [3])), np.array([2]), keepdims=0), state

    return form


CASES = (*mixtures(), *convolutions(), *attentions())
"""All of these."""
