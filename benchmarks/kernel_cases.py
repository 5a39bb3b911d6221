"""The cases that benchmarks/kernel_costs.py measures: fused forms, and the plain ones that stand for the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.kernel_cases_further import CASES as FURTHER
from benchmarks.kernel_forms import Case, Form, Maker
from irkit.build import call, const, op
from irkit.core.ir import Value

ROWS = {
    "small": {"batch": 1, "length": 8, "width": 64, "heads": 4, "past": 16},
    "step": {"batch": 1, "length": 1, "width": 256, "heads": 4, "past": 128},
    "wide step": {"batch": 1, "length": 1, "width": 768, "heads": 12, "past": 128},
    "sequence": {"batch": 2, "length": 64, "width": 256, "heads": 4, "past": 16},
    "long": {"batch": 1, "length": 128, "width": 768, "heads": 12, "past": 16},
}
"""Sizes of what a transformer computes, by class."""

MAPS = {
    "small": {"batch": 1, "channels": 8, "filters": 8, "side": 16},
    "wide": {"batch": 1, "channels": 64, "filters": 64, "side": 14},
    "large": {"batch": 1, "channels": 16, "filters": 32, "side": 56},
}
"""Sizes of convolutions, by class."""

ms = op.com_microsoft


def rows(m: Maker) -> Value:
    """(batch, length, width)"""
    return m.input(m.batch, m.length, m.width)


# ---------------------------------------------------------------------------------------------- activations


def activations() -> Iterator[Case]:
    """Gelu and its kin, behind nothing, as of a hidden layer four times as wide."""

    def hidden(m: Maker) -> Value:
        return m.input(m.batch, m.length, 4 * m.width)

    def biased(m: Maker) -> Value:
        return op.Add(hidden(m), m.weight(4 * m.width))

    def erf_gelu(m: Maker) -> Value:
        x = hidden(m)
        return op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, math.sqrt(2))), 1.0)), 0.5)

    def tanh_gelu(m: Maker) -> Value:
        x = hidden(m)
        cube = op.Add(x, op.Mul(op.Pow(x, 3.0), 0.044715))
        return op.Mul(op.Mul(x, 0.5), op.Add(op.Tanh(op.Mul(cube, math.sqrt(2 / math.pi))), 1.0))

    def swish(m: Maker) -> Value:
        x = hidden(m)
        return op.Mul(x, op.Sigmoid(x))

    def quick(m: Maker) -> Value:
        x = hidden(m)
        return op.Mul(x, op.Sigmoid(op.Mul(x, 1.702)))

    yield Case(lambda m: ms.Gelu(hidden(m)), (lambda m: op.Gelu(hidden(m)), erf_gelu), ROWS)
    yield Case(lambda m: ms.BiasGelu(hidden(m), m.weight(4 * m.width)), (lambda m: op.Gelu(biased(m)),), ROWS)
    fast = (lambda m: op.Gelu(hidden(m), approximate="tanh"), tanh_gelu)
    yield Case(lambda m: ms.FastGelu(hidden(m)), fast, ROWS)
    yield Case(
        lambda m: ms.FastGelu(hidden(m), m.weight(4 * m.width)),
        (lambda m: op.Gelu(biased(m), approximate="tanh"),),
        ROWS,
    )
    yield Case(lambda m: ms.QuickGelu(hidden(m), alpha=1.702), (quick,), ROWS)
    yield Case(lambda m: op.Gelu(hidden(m)), (erf_gelu,), ROWS, "onnx.Gelu")
    yield Case(lambda m: op.Gelu(hidden(m), approximate="tanh"), (tanh_gelu,), ROWS, "onnx.Gelu[tanh]")
    yield Case(lambda m: ms.QuickGelu(hidden(m), alpha=1.0), (swish,), ROWS, "QuickGelu[swish]")


# ---------------------------------------------------------------------------------------------- products


def products() -> Iterator[Case]:
    """Products of what is transposed or scaled, by weights and by one another."""

    def scores(m: Maker) -> tuple[Value, Value]:
        size = m.width // m.heads
        return m.input(m.batch, m.heads, m.length, size), m.input(m.batch, m.heads, m.past, size)

    def flipped(x: Value) -> Value:
        return op.Transpose(x, perm=(0, 1, 3, 2))

    factor = 0.125

    def by_right(m: Maker) -> Value:
        a, b = scores(m)
        return op.MatMul(a, flipped(b))

    def left(m: Maker) -> tuple[Value, Value]:
        size = m.width // m.heads
        return m.input(m.batch, m.heads, size, m.length), m.input(m.batch, m.heads, size, m.past)

    def by_left(m: Maker) -> Value:
        a, b = left(m)
        return op.MatMul(flipped(a), b)

    def by_both(m: Maker) -> Value:
        size = m.width // m.heads
        a, b = m.input(m.batch, m.heads, size, m.length), m.input(m.batch, m.heads, m.past, size)
        return op.MatMul(flipped(a), flipped(b))

    def fused_both(m: Maker) -> Value:
        size = m.width // m.heads
        a, b = m.input(m.batch, m.heads, size, m.length), m.input(m.batch, m.heads, m.past, size)
        return ms.FusedMatMul(a, b, transA=1, transB=1)

    def scaled(m: Maker) -> Value:
        size = m.width // m.heads
        a, b = m.input(m.batch, m.heads, m.length, size), m.input(m.batch, m.heads, size, m.past)
        return op.Mul(op.MatMul(a, b), factor)

    def fused_scaled(m: Maker) -> Value:
        size = m.width // m.heads
        a, b = m.input(m.batch, m.heads, m.length, size), m.input(m.batch, m.heads, size, m.past)
        return ms.FusedMatMul(a, b, alpha=factor)

    def batched(m: Maker) -> tuple[Value, Value]:
        size = m.width // m.heads
        return m.input(m.length, m.heads, size), m.input(m.heads, size, m.past)

    yield Case(lambda m: ms.FusedMatMul(*scores(m), transB=1), (by_right,), ROWS)
    yield Case(lambda m: ms.FusedMatMul(*left(m), transA=1), (by_left,), ROWS)
    yield Case(fused_both, (by_both,), ROWS)
    yield Case(fused_scaled, (scaled,), ROWS)
    yield Case(
        lambda m: ms.FusedMatMul(*scores(m), transB=1, alpha=factor),
        (lambda m: op.Mul(by_right(m), factor),),
        ROWS,
    )
    yield Case(
        lambda m: ms.FusedMatMul(*left(m), transA=1, alpha=factor), (lambda m: op.Mul(by_left(m), factor),), ROWS
    )

    def turned_batch(m: Maker) -> Value:
        a, b = batched(m)
        return op.MatMul(op.Transpose(a, perm=(1, 0, 2)), b)

    yield Case(lambda m: ms.FusedMatMul(*batched(m), transBatchA=1), (turned_batch,), ROWS)
    for name, more in GEMM_ACTIVATIONS:
        yield Case(gemm(name, True, more), (gemm(name, False, more),), ROWS, copies=1)


GEMM_ACTIVATIONS: tuple[tuple[str, dict[str, float]], ...] = (
    ("Relu", {}), ("LeakyRelu", {"alpha": 0.1}), ("Sigmoid", {}), ("Tanh", {}),
    ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}), ("Elu", {"alpha": 1.0}),
)  # fmt: skip


def gemm(activation: str, fused: bool, more: dict[str, float]) -> Form:
    """A Gemm with an activation behind it."""

    def form(m: Maker) -> Value:
        x, w, b = m.input(m.length, m.width), m.weight(m.width, m.width), m.weight(m.width)
        if fused:
            given = {f"activation_{k}": v for k, v in more.items()}
            return ms.FusedGemm(x, w, b, activation=activation, **given)
        return call(activation, [op.Gemm(x, w, b)], more)

    return form


# ---------------------------------------------------------------------------------------------- convolutions

CONV_ACTIVATIONS: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("Relu", ()), ("LeakyRelu", (0.1,)), ("Sigmoid", ()), ("Tanh", ()), ("Clip", (0.0, 6.0)),
    ("HardSigmoid", (0.2, 0.5)),
)  # fmt: skip


def convolutions() -> Iterator[Case]:
    """Convolutions with a summand, an activation, or both behind them."""
    for name, params in CONV_ACTIVATIONS:
        yield Case(conv(name, params, False, True), (conv(name, params, False, False),), MAPS)
    yield Case(conv("", (), True, True), (conv("", (), True, False),), MAPS)
    yield Case(conv("Relu", (), True, True), (conv("Relu", (), True, False),), MAPS)


def conv(activation: str, params: tuple[float, ...], added: bool, fused: bool) -> Form:
    """A convolution of 3 by 3."""

    def form(m: Maker) -> Value:
        x = m.input(m.batch, m.channels, m.side, m.side)
        w, b = m.weight(m.filters, m.channels, 3, 3), m.weight(m.filters)
        z = m.input(m.batch, m.filters, m.side, m.side) if added else None
        pads = (1, 1, 1, 1)
        if fused:
            given: dict[str, Any] = {"activation_params": params} if params else {}
            given |= {"activation": activation} if activation else {}
            return ms.FusedConv(x, w, b, z, pads=pads, **given)
        found = op.Conv(x, w, b, pads=pads)
        found = found if z is None else op.Add(found, z)
        if not activation:
            return found
        if activation == "Clip":
            return op.Clip(found, *params)
        return call(activation, [found], dict(zip(("alpha", "beta"), params, strict=False)))

    return form


# ---------------------------------------------------------------------------------------------- norms


def norms() -> Iterator[Case]:
    """Normalizations alone and behind a sum that others need too."""
    for bias in (False, True):
        yield Case(skip(True, bias, True), (skip(True, bias, False),), ROWS)
        yield Case(skip(False, bias, True), (skip(False, bias, False),), ROWS)

    def rms(m: Maker) -> Value:
        x = rows(m)
        root = op.Sqrt(op.Add(op.ReduceMean(op.Mul(x, x), np.array([-1])), 1e-5))
        return op.Mul(op.Div(x, root), m.weight(m.width))

    def plain_rms(m: Maker) -> Value:
        return op.RMSNormalization(rows(m), m.weight(m.width), epsilon=1e-5)

    def layer(m: Maker) -> Value:
        x = rows(m)
        rest = op.Sub(x, op.ReduceMean(x, np.array([-1])))
        root = op.Sqrt(op.Add(op.ReduceMean(op.Mul(rest, rest), np.array([-1])), 1e-5))
        return op.Add(op.Mul(op.Div(rest, root), m.weight(m.width)), m.weight(m.width))

    yield Case(
        lambda m: call("SimplifiedLayerNormalization", [rows(m), m.weight(m.width)], {"epsilon": 1e-5, "axis": -1}),
        (plain_rms, rms),
        ROWS,
    )
    yield Case(plain_rms, (rms,), ROWS, "onnx.RMSNormalization")
    yield Case(
        lambda m: op.LayerNormalization(rows(m), m.weight(m.width), m.weight(m.width), epsilon=1e-5),
        (layer,),
        ROWS,
        "onnx.LayerNormalization",
    )
    for centred in (True, False):
        yield Case(
            alone(centred, op.Add),
            (alone(centred, op.Sum),),
            ROWS,
            f"Add before {'Layer' if centred else 'RMS'}Normalization",
        )
    yield Case(group_norm(True), (group_norm(False),), MAPS, "onnx.GroupNormalization")
    yield Case(embedded(True), (embedded(False), embedded(False, op.Sum)), ROWS)


def skip(centred: bool, bias: bool, fused: bool) -> Form:
    """A norm of a sum, and the sum."""

    def form(m: Maker) -> Value:
        x, y, scale = rows(m), rows(m), m.weight(m.width)
        shift = m.weight(m.width) if centred else None
        more = m.weight(m.width) if bias else None
        if fused:
            name = "SkipLayerNormalization" if centred else "SkipSimplifiedLayerNormalization"
            operands = [x, y, scale, shift, more] if centred else [x, y, scale, more]
            found, _, _, total = call(f"com.microsoft::{name}", operands, {"epsilon": 1e-5}, outputs=4)
            return op.Add(found, total)
        total = op.Add(x if more is None else op.Add(x, more), y)
        if centred:
            return op.Add(op.LayerNormalization(total, scale, shift, epsilon=1e-5), total)
        return op.Add(op.RMSNormalization(total, scale, epsilon=1e-5), total)

    return form


def alone(centred: bool, plus: Any) -> Form:
    """A norm of a sum that nothing else needs; ONNX Runtime fuses an Add into it, and no Sum."""

    def form(m: Maker) -> Value:
        total, scale = plus(rows(m), rows(m)), m.weight(m.width)
        if centred:
            return op.LayerNormalization(total, scale, m.weight(m.width), epsilon=1e-5)
        return op.RMSNormalization(total, scale, epsilon=1e-5)

    return form


def group_norm(fused: bool) -> Form:
    """A GroupNormalization of 4 groups, or what irkit writes it out to."""

    def form(m: Maker) -> Value:
        x = m.input(m.batch, m.channels, m.side, m.side)
        scale, shift = m.weight(m.channels), m.weight(m.channels)
        if fused:
            return op.GroupNormalization(x, scale, shift, num_groups=4, epsilon=1e-5)
        flat = op.Reshape(x, np.array([0, 4, -1]))
        ones, zeros = (const(np.full(4, n).astype(x.dtype.numpy)) for n in (1, 0))
        normed = op.Reshape(op.InstanceNormalization(flat, ones, zeros, epsilon=1e-5), np.array(x.shape))
        axes = np.array([1, 2])
        return op.Add(op.Mul(normed, op.Unsqueeze(scale, axes)), op.Unsqueeze(shift, axes))

    return form


def embedded(fused: bool, plus: Any = op.Add) -> Form:
    """Embeddings of words, positions and segments, summed and normalized."""

    def form(m: Maker) -> Value:
        ids = m.fed(np.random.default_rng(m.seed).integers(0, 500, (m.batch, m.length)).astype(np.int32))
        parts = m.fed(np.zeros((m.batch, m.length), np.int32))
        tables = [m.weight(n, m.width) for n in (500, 256, 2)]
        norm = m.weight(m.width), m.weight(m.width)
        if fused:
            operands = [ids, parts, *tables, *norm]
            return call("com.microsoft::EmbedLayerNormalization", operands, {"epsilon": 1e-5}, outputs=2)[0]
        places = const(np.arange(m.length)[None])
        words, positions, segments = (op.Gather(t, i) for t, i in zip(tables, (ids, places, parts), strict=True))
        return op.LayerNormalization(plus(plus(words, positions), segments), *norm, epsilon=1e-5)

    return form


# ---------------------------------------------------------------------------------------------- attention


def attentions() -> Iterator[Case]:
    """Attention of (batch, length, width), with what may come with it."""
    for wanted in (
        (),
        ("bias",),
        ("mask",),
        ("attention_bias",),
        ("past",),
        ("unidirectional",),
        ("bias", "mask"),
        ("bias", "attention_bias"),
        ("unidirectional", "past"),
        ("attention_bias", "past"),
    ):
        yield Case(many_heads(wanted), tuple(written(wanted, style) for style in ("operator", "products")), ROWS)
    for wanted in (
        (),
        ("mask",),
        ("unidirectional",),
        ("attention_bias",),
        ("unidirectional", "mask"),
        ("unidirectional", "attention_bias"),
    ):
        plain = tuple(written((*wanted, "projected"), style) for style in ("operator", "products", "apart"))
        yield Case(packed(wanted), plain, ROWS, copies=1)
    yield Case(crossed(True), (crossed(False),), ROWS)
    for wanted in (("past",), ("past", "rotary"), (), ("rotary",)):
        yield Case(
            grouped(wanted, "fused"),
            tuple(grouped(wanted, s) for s in ("operator", "whole operator", "products")),
            ROWS,
        )
    for wanted in ((), ("unidirectional",), ("attention_bias",), ("past",)):
        name = "onnx.Attention" + (f"[{','.join(wanted)}]" if wanted else "")
        yield Case(written(wanted, "operator"), (written(wanted, "products"),), ROWS, name)
    yield Case(rotated("contrib"), (rotated("operator"), rotated("products")), ROWS)
    yield Case(rotated("operator"), (rotated("products"),), ROWS, "onnx.RotaryEmbedding")


class Given:
    """Operands of an attention; those that are not wanted are None."""

    def __init__(self, m: Maker, wanted: tuple[str, ...]) -> None:
        self.m, self.heads, self.size = m, m.heads, m.width // m.heads
        self.past_k = self.past_v = None
        total = m.length
        if "projected" in wanted:
            self.x, self.w, self.b = rows(m), m.weight(m.width, 3 * m.width), m.weight(3 * m.width)
        else:
            self.q, self.k, self.v = rows(m), rows(m), rows(m)
        self.bias = m.weight(3 * m.width) if "bias" in wanted else None
        if "past" in wanted:
            self.past_k, self.past_v = (m.input(m.batch, m.heads, m.past, self.size) for _ in range(2))
            total += m.past
        ones = np.ones((m.batch, total), np.int32)
        ones[:, total // 2 :: 3] = 0
        self.mask = m.fed(ones) if "mask" in wanted else None
        self.scores = m.input(m.batch, 1, m.length, total) if "attention_bias" in wanted else None
        self.causal = int("unidirectional" in wanted)


def many_heads(wanted: tuple[str, ...]) -> Form:
    """MultiHeadAttention."""

    def form(m: Maker) -> Value:
        g = Given(m, wanted)
        operands = [g.q, g.k, g.v, g.bias, g.mask, g.scores, g.past_k, g.past_v]
        given = {"num_heads": g.heads, "unidirectional": g.causal}
        return call("com.microsoft::MultiHeadAttention", operands, given, outputs=3 if g.past_k is not None else 1)

    return form


def crossed(fused: bool) -> Form:
    """Attention to keys and values that have their heads apart and stay as they are."""

    def form(m: Maker) -> Any:
        q, size = rows(m), m.width // m.heads
        k, v = (m.input(m.batch, m.heads, m.past, size) for _ in range(2))
        if fused:
            return ms.MultiHeadAttention(q, k, v, num_heads=m.heads)
        apart = op.Transpose(op.Reshape(q, np.array([0, 0, m.heads, size])), perm=(0, 2, 1, 3))
        found = op.Transpose(op.Attention(apart, k, v), perm=(0, 2, 1, 3))
        return op.Reshape(found, np.array([0, 0, m.width]))

    return form


def packed(wanted: tuple[str, ...]) -> Form:
    """Attention, which holds the projections."""

    def form(m: Maker) -> Value:
        g = Given(m, (*wanted, "projected"))
        given = {"num_heads": g.heads, "unidirectional": g.causal}
        return call("com.microsoft::Attention", [g.x, g.w, g.b, g.mask, None, g.scores], given)

    return form


def written(wanted: tuple[str, ...], style: str) -> Form:
    """The same in ONNX: by its Attention, or by products and a softmax."""

    def form(m: Maker) -> Value:
        g = Given(m, wanted)
        if "projected" in wanted and style == "apart":
            w, b = (np.split(v.attributes[0][1].array, 3, -1) for v in (g.w, g.b))
            q, k, v = (op.Add(op.MatMul(g.x, const(a)), const(c)) for a, c in zip(w, b, strict=True))
        elif "projected" in wanted:
            made = op.Add(op.MatMul(g.x, g.w), g.b)
            q, k, v = op.Split(made, np.array([m.width] * 3), axis=2, outputs=3)
        else:
            q, k, v = g.q, g.k, g.v
        if g.bias is not None:
            parts = op.Split(g.bias, np.array([m.width] * 3), outputs=3)
            q, k, v = (op.Add(x, b) for x, b in zip((q, k, v), parts, strict=True))
        extra = g.scores
        if g.mask is not None:
            hidden = op.Mul(op.Sub(1.0, op.Cast(op.Unsqueeze(g.mask, np.array([1, 2])), to=q.dtype)), -10000.0)
            extra = hidden if extra is None else op.Add(extra, hidden)
        if style != "products":
            return by_operator(g, q, k, v, extra)
        return by_products(g, q, k, v, extra)

    return form


def by_operator(g: Given, q: Value, k: Value, v: Value, extra: Value | None) -> Any:
    """ONNX's Attention."""
    given = {"q_num_heads": g.heads, "kv_num_heads": g.heads, "is_causal": g.causal}
    if extra is not None and g.m.length > 1 and extra.shape[2] == 1:  # ONNX Runtime takes no mask for all queries
        extra = op.Expand(extra, np.array([1, 1, g.m.length, 1]))
    if g.past_k is None:
        return call("Attention", [q, k, v, extra], given)
    return call("Attention", [q, k, v, extra, g.past_k, g.past_v], given, outputs=3)


def by_products(g: Given, q: Value, k: Value, v: Value, extra: Value | None) -> Any:
    """Products and a softmax."""
    m = g.m

    def apart(x: Value, perm: tuple[int, ...] = (0, 2, 1, 3)) -> Value:
        return op.Transpose(op.Reshape(x, np.array([0, 0, g.heads, g.size])), perm=perm)

    present = None
    if g.past_k is None or g.past_v is None:
        keys, values = apart(k, (0, 2, 3, 1)), apart(v)
    else:
        present = op.Concat(g.past_k, apart(k), axis=2)
        keys, values = op.Transpose(present, perm=(0, 1, 3, 2)), op.Concat(g.past_v, apart(v), axis=2)
    scores = op.Mul(op.MatMul(apart(q), keys), 1 / math.sqrt(g.size))
    scores = scores if extra is None else op.Add(scores, extra)
    if g.causal:
        total = m.length + (m.past if g.past_k is not None else 0)
        mask = np.triu(np.full((m.length, total), -np.inf, np.float32), 1 + total - m.length)
        scores = op.Add(scores, const(mask.astype(q.dtype.numpy)))
    found = op.MatMul(op.Softmax(scores, axis=-1), values)
    joined = op.Reshape(op.Transpose(found, perm=(0, 2, 1, 3)), np.array([0, 0, m.width]))
    return joined if present is None else (joined, present, values)


def rotated(style: str) -> Form:
    """Heads turned by their positions; positions follow one another."""

    def form(m: Maker) -> Value:
        size = m.width // m.heads
        x = m.input(m.batch, m.heads, m.length, size)
        angles = np.arange(m.length + m.past)[:, None] * 0.1 ** np.linspace(0, 4, size // 2)
        cos, sin = (f(angles).astype(x.dtype.numpy) for f in (np.cos, np.sin))
        ids = m.fed(np.broadcast_to(np.arange(m.length), (m.batch, m.length)).copy())
        return turned(style, x, cos, sin, ids)

    return form


def turned(style: str, x: Value, cos: np.ndarray, sin: np.ndarray, ids: Value) -> Value:
    """x turned: by either operator, or by halves."""
    if style == "contrib":
        return ms.RotaryEmbedding(x, ids, const(cos), const(sin))
    if style == "operator":
        return op.RotaryEmbedding(x, const(cos), const(sin), ids)
    half = x.shape[-1] // 2
    c, s = (op.Unsqueeze(op.Gather(const(np.concatenate([t, t], -1)), ids), np.array([1])) for t in (cos, sin))
    low, high = op.Split(x, np.array([half, half]), axis=3, outputs=2)
    return op.Add(op.Mul(x, c), op.Mul(op.Concat(op.Neg(high), low, axis=3), s))


def grouped(wanted: tuple[str, ...], style: str) -> Form:
    """Attention of groups of two heads that share keys and values, behind a cache, turned or not; causal."""

    def form(m: Maker) -> Any:
        size = m.width // m.heads
        shared = m.heads // 2
        batch = 1 if "past" in wanted and m.length > 1 else m.batch
        q = m.input(batch, m.length, m.width)
        k, v = (m.input(batch, m.length, shared * size) for _ in range(2))
        before = m.past if "past" in wanted else 0
        past = [m.input(batch, shared, before, size) for _ in range(2)] if before else [None, None]
        total = before + m.length
        angles = np.arange(total)[:, None] * 0.1 ** np.linspace(0, 4, size // 2)
        cos, sin = (f(angles).astype(q.dtype.numpy) for f in (np.cos, np.sin))
        ids = m.fed(np.broadcast_to(np.arange(before, total), (batch, m.length)).copy())
        if style == "fused":
            ends, count = np.full(batch, total - 1, np.int32), np.array(total, np.int32)
            caches = (const(cos), const(sin)) if "rotary" in wanted else ()
            given = {"num_heads": m.heads, "kv_num_heads": shared, "do_rotary": int("rotary" in wanted)}
            operands = [q, k, v, *past, m.fed(ends), const(count), *caches]
            return call("com.microsoft::GroupQueryAttention", operands, given, outputs=3)
        heads = [
            op.Transpose(op.Reshape(x, np.array([0, 0, n, size])), perm=(0, 2, 1, 3))
            for x, n in ((q, m.heads), (k, shared), (v, shared))
        ]
        if "rotary" in wanted:
            heads[:2] = [turned(style.rpartition(" ")[2], x, cos, sin, ids) for x in heads[:2]]
        keys, values = (x if p is None else op.Concat(p, x, axis=2) for p, x in zip(past, heads[1:], strict=True))
        mask = const(np.triu(np.full((m.length, total), -np.inf, np.float32), 1 + before).astype(q.dtype.numpy))
        present = keys, values
        if style == "operator":
            found = op.Attention(heads[0], keys, values, mask)
        elif style == "whole operator":
            given = {"is_causal": 1} if not before else {}
            more = [] if not before else [mask, *past]
            found = call("Attention", [heads[0], *heads[1:], *more], given, outputs=3 if before else 1)
            found, *present = found if before else (found, *present)
        else:
            keys, values = (repeated(x, batch, shared, total, size) for x in (keys, values))
            scores = op.Mul(op.MatMul(heads[0], op.Transpose(keys, perm=(0, 1, 3, 2))), 1 / math.sqrt(size))
            found = op.MatMul(op.Softmax(op.Add(scores, mask), axis=-1), values)
        return op.Reshape(op.Transpose(found, perm=(0, 2, 1, 3)), np.array([0, 0, m.width])), *present

    return form


def repeated(x: Value, batch: int, heads: int, length: int, size: int) -> Value:
    """Each head twice."""
    wide = op.Expand(op.Unsqueeze(x, np.array([2])), np.array([1, 1, 2, 1, 1]))
    return op.Reshape(wide, np.array([batch, 2 * heads, length, size]))


CASES = (*activations(), *products(), *convolutions(), *norms(), *attentions(), *FURTHER)
"""All cases."""
