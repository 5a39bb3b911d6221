"""Rules from ONNX's operators into those of ONNX Runtime, as decoders need them.

Measured on ONNX Runtime's CPU provider, for one token behind caches: ONNX's own Attention, with the caches and the
causal mask inside, is the fastest form of attention over keys that grow, and GroupQueryAttention and MultiHeadAttention
take 5 to 20 % longer; over keys that stay (those of an encoder) MultiHeadAttention is faster, since it takes queries
with their heads side by side. A norm takes less time behind a sum of its own than in SkipLayerNormalization. So these
rules say what equals what, and the table of costs says which of them a target wants.
"""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.attributes import Given
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor, types_of
from irkit.dims import Dim
from irkit.pattern import attribute_of, either, hole, one_of, p
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, decline, rule
from irkit.rewriting.rules import Rules
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import same_shape
from passes.analysis.reach import may_be_blind
from passes.rules.attention.attention import split_heads

PLAIN = frozenset(("scale", "is_causal", "q_num_heads", "kv_num_heads"))
"""Attributes of Attention that these rules carry over."""


# ---------------------------------------------------------------------------------------------- keys that stay


def _crossed(rng: np.random.Generator) -> Value:
    batch, length, keys = (dims.symbol(name) for name in ("batch", "length", "keys"))
    q = param(Tensor(DType.FLOAT, (batch, length, 8)))
    k, v = (param(Tensor(DType.FLOAT, (batch, 2, keys, 4))) for _ in range(2))
    queries = op.Transpose(op.Reshape(q, shape_vector((batch, length, 2, 4))), perm=(0, 2, 1, 3))
    found = op.Attention(queries, k, v, scale=0.4) if rng.random() < 0.5 else op.Attention(queries, k, v)
    return op.Reshape(op.Transpose(found, perm=(0, 2, 1, 3)), shape_vector((batch, length, 8)))


_attention = one_of("Attention")(hole("q", dtype="f32"), hole("k", rank=4), hole("v", rank=4)).named("attention").once()


@rule(p.Reshape(p.Transpose(_attention, perm=(0, 2, 1, 3)).once(), hole("shape")), sample=_crossed, exact=False)
def cross_attention(m: Match) -> Made:
    """Attention of heads split off q to keys that have them apart, its heads joined -> MultiHeadAttention(q, k, v)"""
    found, given = split_heads(m.q), dict(m.attention.attributes)
    if found is None or set(given) - {"scale"} or not isinstance(m.attention.type, Tensor) or not scales(given):
        return decline("the heads of the queries are no part of the last axis, or the attention is a special one")
    q, heads = found
    if not same_shape(m.root.shape, q.shape) or split_heads(m.k) is not None or split_heads(m.v) is not None:
        return decline("the heads are not joined again, or those of the keys were just split off")
    if not same_shape(m.k.shape, m.v.shape) or not same_shape(m.k.shape[:2], (q.shape[0], heads)):
        return decline("heads or batches broadcast")
    made = {"num_heads": heads, "scale": given.get("scale")}
    return call("com.microsoft::MultiHeadAttention", [q, m.k, m.v], made)


def scales(given: Given) -> bool:
    """False for a scale of 0, which for ONNX Runtime's own operators means the default scale."""
    return given.get("scale") != 0


# ---------------------------------------------------------------------------------------------- keys that grow


def _cached(rng: np.random.Generator, heads: int, shared: int, batch: Dim, causal: bool) -> Value:
    length: Dim = 1 if causal else dims.symbol("length")
    past = dims.symbol("past")
    q = param(Tensor(DType.FLOAT, (batch, length, heads * 8)))
    k, v = (param(Tensor(DType.FLOAT, (batch, length, shared * 8))) for _ in range(2))
    old = [param(Tensor(DType.FLOAT, (batch, shared, past, 8))) for _ in range(2)]
    given: Given = {"q_num_heads": heads, "kv_num_heads": shared, "is_causal": int(causal)}
    if rng.random() < 0.5:
        given["scale"] = 0.3
    mask = None
    if not causal and rng.random() < 0.5:
        mask = param(Tensor(DType.FLOAT, (batch, 1, length, dims.add(length, past))))
    return call("Attention", [q, k, v, mask, *old], given, outputs=3)[0].inputs[0]


_caches = (hole("past_k", rank=4), hole("past_v", rank=4))
_new = (hole("q", dtype="f32", rank=3), hole("k", rank=3), hole("v", rank=3))


@rule(
    one_of("Attention")(*_new, hole("mask", dtype="f32", optional=True), *_caches),
    sample=lambda rng: _cached(rng, 2, 2, dims.symbol("batch"), False),
    exact=False,
)
def cached_attention(m: Match) -> Made:
    """Attention(q, k, v, mask, caches) -> MultiHeadAttention(q, k, v, mask, caches)"""
    given = dict(m.root.attributes)
    if set(given) - PLAIN or not scales(given) or given.get("is_causal"):
        return decline("the attention is a special one")
    if given["q_num_heads"] != given["kv_num_heads"]:
        return decline("heads are shared")
    if _results(m.root) != 3 or not _are_caches(m):
        return decline("the scores are asked for, or keys and values have other sizes")
    if m.mask is not None and (not _is_whole(m.mask, m) or may_be_blind(m.mask)):
        return decline("the mask broadcasts, or may hide all keys of a query")
    made = {"num_heads": given["q_num_heads"], "scale": given.get("scale")}
    operands = [m.q, m.k, m.v, None, None, m.mask, m.past_k, m.past_v]
    return call("com.microsoft::MultiHeadAttention", operands, made, outputs=3)


def _results(value: Value) -> int:
    return 1 if isinstance(value.type, Tensor) else len(value.type.items)  # type: ignore[union-attr]


def _are_caches(m: Match) -> bool:
    """True for earlier keys and values of one shape with a known number of heads."""
    heads = m.root.attribute("kv_num_heads")
    return same_shape(m.past_k.shape, m.past_v.shape) and dims.same(m.past_k.shape[1], heads) is True


def _is_whole(mask: Value, m: Match) -> bool:
    """True for a mask of (batch or 1, heads or 1, queries, keys)."""
    if mask.rank != 4:
        return False
    total = dims.add(m.past_k.shape[2], m.k.shape[1])
    lead = zip(mask.shape[:2], (m.q.shape[0], m.root.attribute("q_num_heads")), strict=True)
    return same_shape(mask.shape[2:], (m.q.shape[1], total)) and all(
        dims.same(d, 1) is True or dims.same(d, whole) is True for d, whole in lead
    )


def _grouped(rng: np.random.Generator) -> Value:
    return _cached(rng, 4, int(rng.choice([1, 2, 4])), dims.symbol("batch") if rng.random() < 0.5 else 2, True)


@rule(one_of("Attention")(*_new, hole("mask", optional=True), *_caches), sample=_grouped, exact=False)
def grouped_attention(m: Match) -> Made:
    """Attention(q, k, v, caches, is_causal=1) -> GroupQueryAttention(q, k, v, caches, lengths)"""
    given = dict(m.root.attributes)
    if m.mask is not None or set(given) - PLAIN or not given.get("is_causal"):
        return decline("it is not causal, has a mask beside, or is a special one")
    if _results(m.root) != 3 or not scales(given) or not _are_caches(m):
        return decline("the scores are asked for, or the scale is 0, or keys and values have other sizes")
    batch, length = m.q.shape[:2]
    if type(length) is not int or length < 1:
        return decline("there may be no query")
    if not all(same_shape(each.shape[:2], (batch, length)) for each in (m.k, m.v)):
        return decline("there are not as many new keys as queries")
    total = dims.add(m.past_k.shape[2], length)
    sources = bound_by(m.q, m.past_k)
    if not is_bound(m, (batch, total), sources):
        return decline("a dimension is not bound")
    last = op.Cast(sizes_value(m, (dims.sub(total, 1),), 1, sources), to=DType.INT32)
    lengths = op.Expand(last, sizes_value(m, (batch,), 1, sources))
    count = op.Cast(sizes_value(m, (total,), 0, sources), to=DType.INT32)
    made = {"num_heads": given["q_num_heads"], "kv_num_heads": given["kv_num_heads"], "scale": given.get("scale")}
    operands = [m.q, m.k, m.v, m.past_k, m.past_v, lengths, count]
    found = call("com.microsoft::GroupQueryAttention", operands, made, outputs=3)
    return tuple(part.with_type(t) for part, t in zip(found, types_of(m.root.type), strict=True))


# ---------------------------------------------------------------------------------------------- norms behind sums


def _summed(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    a, b = (param(Tensor(DType.FLOAT, (batch, length, 8))) for _ in range(2))
    w, shift = (param(Tensor(DType.FLOAT, (8,))) for _ in range(2))
    if rng.random() < 0.5:
        a = op.Add(a, const(rng.standard_normal(8).astype(np.float32)))
    total = op.Add(*((a, b) if rng.random() < 0.5 else (b, a)))
    if rng.random() < 0.5:
        return op.RMSNormalization(total, w, epsilon=1e-3)
    return op.LayerNormalization(total, w, shift if rng.random() < 0.5 else None, epsilon=1e-3)


def _summed_twice(rng: np.random.Generator) -> tuple[Value, ...]:
    norm = _summed(rng)
    total = norm.inputs[0]
    return (norm, total) if total is not None else (norm,)


_a, _b = hole("a", dtype="f32", rank=3), hole("b", dtype="f32", rank=3)
_biased = p.Add(_a, constant("bias", rank=1)).named("biased").once()
_norms = one_of("LayerNormalization", "RMSNormalization")


def _skipped(m: Match, results: int) -> Made:
    """The norm of a sum, and the sum itself if that is used too."""
    axis, stash, epsilon = (attribute_of(m.root, name) for name in ("axis", "stash_type", "epsilon"))
    if axis % 3 != 2 or not same_shape(m.a.shape, m.b.shape) or not isinstance(m.root.type, Tensor):
        return decline("the norm is not along the last axis, or an operand of the sum broadcasts")
    bias = m.bias if m.get("biased") is not None else None
    if any(v is not None and not same_shape(v.shape, m.a.shape[2:]) for v in (m.w, m.shift, bias)) or stash != 1:
        return decline("the factors are no vectors along the last axis")
    centred = m.root.op == "LayerNormalization"
    name = "SkipLayerNormalization" if centred else "SkipSimplifiedLayerNormalization"
    operands = [m.a, m.b, m.w, *([m.shift] if centred else []), bias]
    while operands[-1] is None:
        operands.pop()
    found = call(f"com.microsoft::{name}", operands, {"epsilon": epsilon}, outputs=4 if results == 2 else None)
    return (found[0], found[3]) if results == 2 else found


@rule(
    _norms(either(p.Add(_biased, _b).once(), p.Add(_a, _b).once()), hole("w"), hole("shift", optional=True)),
    sample=_summed,
    exact=False,
)
def norm_of_sum(m: Match) -> Made:
    """LayerNormalization(a + b, w, shift) -> SkipLayerNormalization(a, b, w, shift), and so without a mean"""
    return _skipped(m, 1)


_total = either(p.Add(_biased, _b).named("total"), p.Add(_a, _b).named("total"))


@rule(_norms(_total, hole("w"), hole("shift", optional=True)), hole("total"), sample=_summed_twice, exact=False)
def norm_and_sum(m: Match) -> Made:
    """s = a + b, LayerNormalization(s, w, shift) -> the results of SkipLayerNormalization(a, b, w, shift)"""
    return _skipped(m, 2)


DECODERS: Rules = (cross_attention, cached_attention, grouped_attention, norm_of_sum, norm_and_sum)
"""Decoders in ONNX Runtime's own operators."""
