"""Attention and what goes with it: rotary embeddings, shared key heads, and heads left inside the last axis."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.pattern import Op, attr, hole, one_of, p, rest, uniform
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import VIEWS, axes_of, is_one, positive, same_shape, takes
from passes.rules.attention.rotary import is_rotated, rotation

x = hole("x")


# ---------------------------------------------------------------------------------------------- halves


@rule(one_of("Cos", "Sin", "Exp", "Neg", "Cast", "Sqrt", "Tanh")(p.Concat(x, x, axis=attr("axis"))))
def unary_of_doubled(m: Match) -> Made:
    """f(Concat(x, x)) -> Concat(f(x), f(x)), which computes half as much"""
    if not takes("Concat", m.root.dtype):
        return decline(f"Concat takes no {m.root.dtype.short}")
    inner = call(m.root.op, [m.x], dict(m.root.attributes))
    return op.Concat(inner, inner, axis=m.axis)


@rule(p.Unsqueeze(p.Concat(x, x, axis=attr("axis")), constant("axes")))
def unsqueeze_of_doubled(m: Match) -> Made:
    """Unsqueeze(Concat(x, x)) -> Concat of Unsqueeze(x), twice"""
    axes, rank = axes_of(m.axes) or (), m.root.rank
    kept, axis = [i for i in range(rank) if i not in positive(axes, rank)], int(m.axis % m.x.rank)
    inner = op.Unsqueeze(m.x, m.axes)
    return op.Concat(inner, inner, axis=kept[axis])


@rule(p.Mul(p.Concat(x, x, axis=attr("axis")), constant("c")))
def scaled_doubled(m: Match) -> Made:
    """Concat(x, x) * c -> Concat(x * c, x * c), for a scalar c"""
    if m.c.blob.size != 1 or m.c.rank > m.x.rank:
        return decline("c is not a scalar")
    inner = op.Mul(m.x, m.c)
    return op.Concat(inner, inner, axis=m.axis)


def _is_half(bounds: tuple[Value, ...], size: int, rank: int, second: int) -> bool:
    """True where these starts, ends and axes cut one half of the last axis."""
    numbers = [axes_of(v) for v in bounds]
    if any(n is None or len(n) != 1 for n in numbers):
        return False
    (start,), (end,), (axis,) = (n for n in numbers if n is not None)
    if axis % rank != rank - 1:
        return False
    begin, stop, _ = slice(start, end).indices(size)
    return (begin, stop) == ((size // 2, size) if second else (0, size // 2))


def _slice(prefix: str) -> Op:
    bounds = (constant(f"{prefix}_{n}") for n in ("start", "end", "axis"))
    return p.Slice(x, *bounds, constant(f"{prefix}_step", where=lambda v: uniform(v) == 1, optional=True))


_turned = p.Concat(p.Neg(_slice("second")), _slice("first"), axis=attr("axis"))
_cos = p.Concat(hole("cos"), hole("cos"), axis=attr("cos_axis"))
_sin = p.Concat(hole("sin"), hole("sin"), axis=attr("sin_axis"))


def _rotation(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    beside, heads = rng.random() < 0.3, 1 if rng.random() < 0.3 else 2
    x = param(Tensor(DType.FLOAT, (batch, length, heads, 4) if beside else (batch, 2, length, 4)))
    first = batch if rng.random() < 0.5 else 1
    angle = param(Tensor(DType.FLOAT, (first, length, 1, 2) if beside else (first, 1, length, 2)))
    cos, sin = (op.Concat(half, half, axis=-1) for half in (op.Cos(angle), op.Sin(angle)))
    low = op.Slice(x, np.array([0]), np.array([2]), np.array([3]))
    high = op.Slice(x, np.array([2]), np.array([2**63 - 1]), np.array([-1]))
    parts = [op.Mul(x, cos), op.Mul(op.Concat(op.Neg(high), low, axis=3), sin)]
    return op.Add(*(parts if rng.random() < 0.5 else reversed(parts)))


@rule(p.Add(p.Mul(x, _cos), p.Mul(_turned, _sin)), exact=False, sample=_rotation)
def rotary_embedding(m: Match) -> Made:
    """x * cos + Concat(-x[half:], x[:half]) * sin -> RotaryEmbedding(x, cos, sin)"""
    if not is_rotated(m.x):
        return decline("x has not the form (batch, heads, sequence, size)")
    if any(a % 4 != 3 for a in (m.axis, m.cos_axis, m.sin_axis)):
        return decline("not along the last axis")
    halves = [tuple(m[f"{name}_{n}"] for n in ("start", "end", "axis")) for name in ("first", "second")]
    if not all(_is_half(half, m.x.shape[-1], 4, second) for second, half in enumerate(halves)):
        return decline("the slices are not the two halves")
    return rotation(m, m.x, m.cos, m.sin, interleaved=False)


def _pairs(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = param(Tensor(DType.FLOAT, (batch, 2, length, 4)))
    angle = param(Tensor(DType.FLOAT, (batch if rng.random() < 0.5 else 1, length, 2)))
    twice = op.Expand(op.Unsqueeze(angle, [3]), np.array([1, 1, 2, 2]))
    twice = op.Reshape(twice, shape_vector((angle.shape[0], length, 4)))
    cos, sin = (op.Unsqueeze(each, [1]) for each in (op.Cos(twice), op.Sin(twice)))
    odd, even = (op.Slice(x, [n], [2**63 - 1], [3], [2]) for n in (1, 0))
    turned = op.Concat(op.Unsqueeze(op.Neg(odd), [4]), op.Unsqueeze(even, [4]), axis=-1)
    turned = op.Reshape(turned, shape_vector((batch, 2, length, 4)))
    return op.Add(op.Mul(x, cos), op.Mul(turned, sin))


def once_each(value: Value) -> Value | None:
    """A table whose last axis has each element twice in a row, without the repetitions; None for every other table."""
    above: list[Value] = []
    while value.op in ("Unsqueeze", "Cos", "Sin") and value.inputs[0] is not None and len(above) < 8:
        if value.op == "Unsqueeze" and value.rank - 1 in positive(axes_of(value.inputs[1]) or (-1,), value.rank):
            return None
        above.append(value)
        value = value.inputs[0]
    wide = value.inputs[0] if value.op == "Reshape" else None
    thin = wide.inputs[0] if wide is not None and wide.op == "Expand" else None
    base = thin.inputs[0] if thin is not None and thin.op == "Unsqueeze" else None
    if wide is None or thin is None or base is None or not same_shape(wide.shape, (*base.shape, 2)):
        return None
    if not same_shape(thin.shape, (*base.shape, 1)):
        return None
    if not same_shape(value.shape, (*base.shape[:-1], dims.mul(base.shape[-1], 2))):
        return None
    for each in reversed(above):
        base = call(each.op, [base, *each.inputs[1:]], dict(each.attributes))
    return base


def _every_second(prefix: str) -> Op:
    return p.Slice(x, *(constant(f"{prefix}_{n}") for n in ("start", "end", "axis", "step")))


_beside_each = p.Concat(
    p.Unsqueeze(p.Neg(_every_second("odd")), constant("odd_axes")),
    p.Unsqueeze(_every_second("even"), constant("even_axes")),
    axis=attr("axis"),
)


@rule(
    p.Add(p.Mul(x, hole("cos")), p.Mul(p.Reshape(_beside_each, hole("shape")).named("turned"), hole("sin"))),
    exact=False,
    sample=_pairs,
)
def interleaved_rotary_embedding(m: Match) -> Made:
    """x * cos + (-x[1::2], x[::2] in turns) * sin -> RotaryEmbedding(x, cos, sin, interleaved=1)"""
    size = m.x.shape[-1]
    if not is_rotated(m.x):
        return decline("x has not the form (batch, heads, sequence, size)")
    ends = m.axis % 5 == 4 and all(axes_of(m[n]) in ((4,), (-1,)) for n in ("odd_axes", "even_axes"))
    if not ends or not same_shape(m.turned.shape, m.x.shape):
        return decline("the parts do not stand in turns")
    for name, first in (("odd", 1), ("even", 0)):
        numbers = [axes_of(m[f"{name}_{n}"]) for n in ("start", "end", "axis", "step")]
        if any(n is None or len(n) != 1 for n in numbers):
            return decline("a slice is not along one axis")
        (start,), (end,), (axis,), (step,) = (n for n in numbers if n is not None)
        if axis % 4 != 3 or slice(start, end, step).indices(size) != (first, size, 2):
            return decline("the slices are not every second element")
    cos, sin = once_each(m.cos), once_each(m.sin)
    if cos is None or sin is None:
        return decline("cos and sin do not hold each number twice")
    return rotation(m, m.x, cos, sin, interleaved=True)


# ---------------------------------------------------------------------------------------------- heads


def split_heads(value: Value) -> tuple[Value, int] | None:
    """(x, heads) where the value is x of (batch, sequence, heads * size) seen as (batch, heads, sequence, size)."""
    if value.rank != 4 or value.op not in ("Transpose", *VIEWS):
        return None
    batch, heads, length, size = value.shape
    inner: Value | None = value
    if value.op == "Transpose":
        inner = value.inputs[0] if value.attribute("perm") == (0, 2, 1, 3) else None
    elif not is_one(heads) and not is_one(length):
        return None
    source = inner.inputs[0] if inner is not None and inner.op in VIEWS else None
    if source is None or source.rank != 3:
        return None
    whole = (batch, length, dims.mul(heads, size))
    return (source, heads) if type(heads) is int and same_shape(source.shape, whole) else None


def joined(m: Match, value: Value, heads: int, like: Value) -> Value | None:
    """A value of (batch, sequence, heads * size) seen as (batch, heads, sequence, size), the shape of `like`."""
    batch, _, length, size = like.shape
    shape = (batch, length, heads, size)
    source = bound_by(value)
    if not is_bound(m, shape, source):
        return None
    return op.Transpose(op.Reshape(value, sizes_value(m, shape, 1, source)), perm=(0, 2, 1, 3))


def _rotated_heads(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = param(Tensor(DType.FLOAT, (batch, length, 16)))
    heads = op.Transpose(op.Reshape(x, shape_vector((batch, length, 2, 8))), perm=(0, 2, 1, 3))
    if rng.random() < 0.3:
        heads = op.Unsqueeze(param(Tensor(DType.FLOAT, (batch, length, 8))), [1])
    tables = [param(Tensor(DType.FLOAT, (batch, length, 4))) for _ in range(2)]
    return op.RotaryEmbedding(heads, *tables, interleaved=int(rng.random() < 0.5))


_turning = ("Transpose", *VIEWS)


@rule(one_of("RotaryEmbedding")(hole("turned", ops=_turning), *rest("more")), sample=_rotated_heads)
def rotary_of_joined_heads(m: Match) -> Made:
    """RotaryEmbedding of heads split off x -> heads split off RotaryEmbedding(x, num_heads)"""
    found = split_heads(m.turned)
    if found is None:
        return decline("the heads are no part of the last axis")
    x, heads = found
    turned = call("RotaryEmbedding", [x, *m.more], {**dict(m.root.attributes), "num_heads": heads})
    made = joined(m, turned, heads, m.root)
    return decline("a dimension is not bound") if made is None else made


def _partly_turned(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = op.Relu(param(Tensor(DType.FLOAT, (batch, 2, length, 8))))
    tables = [param(Tensor(DType.FLOAT, (batch, length, 2))) for _ in range(2)]
    low, high = (op.Slice(x, [a], [b], [3]) for a, b in ((0, 4), (4, 2**63 - 1)))
    return op.Concat(op.RotaryEmbedding(low, *tables, interleaved=int(rng.random() < 0.5)), high, axis=-1)


_low_part = p.Slice(x, constant("start"), constant("end"), constant("along"), constant("step", optional=True))
_high_part = p.Slice(x, *(constant(f"rest_{n}") for n in ("start", "end", "along")), constant("skip", optional=True))
_turned_part = one_of("RotaryEmbedding")(_low_part.named("part"), hole("cos"), hole("sin")).named("rotation").once()


def _cut(m: Match, prefix: str, size: int) -> tuple[int, int, int] | None:
    """(start, end, axis) of a Slice along an axis of that size; None where it cuts more than one axis."""
    numbers = [axes_of(m[prefix + name]) for name in ("start", "end", "along")]
    found = [n[0] for n in numbers if n is not None and len(n) == 1]
    return (*slice(found[0], found[1]).indices(size)[:2], found[2] % 4) if len(found) == 3 else None


@rule(p.Concat(_turned_part, _high_part.named("kept"), axis=attr("axis")), sample=_partly_turned)
def partial_rotary_embedding(m: Match) -> Made:
    """Concat(RotaryEmbedding(x[..., :n]), x[..., n:]) -> RotaryEmbedding(x, rotary_embedding_dim=n)"""
    size, width = m.x.shape[-1], m.part.shape[-1]
    if m.x.rank != 4 or m.axis % 4 != 3 or type(size) is not int or type(width) is not int or width % 2:
        return decline("not heads of a known size")
    if any(v is not None and uniform(v) != 1 for v in (m.get("step"), m.get("skip"))):
        return decline("the slices have steps")
    if m.rotation.attribute("rotary_embedding_dim"):
        return decline("only a part of the part is turned")
    cuts = [_cut(m, prefix, size) for prefix in ("", "rest_")]
    if cuts != [(0, width, 3), (width, size, 3)]:
        return decline("the slices are not the two parts")
    given = {**dict(m.rotation.attributes), "rotary_embedding_dim": width}
    return call("RotaryEmbedding", [m.x, m.cos, m.sin], given)


def _normed_heads(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = op.Relu(param(Tensor(DType.FLOAT, (batch, length, 2, 8))))
    tables = [param(Tensor(DType.FLOAT, (batch, length, 4))) for _ in range(2)]
    return op.RotaryEmbedding(op.Transpose(x, perm=(0, 2, 1, 3)), *tables, interleaved=int(rng.random() < 0.5))


_beside = p.Transpose(x, perm=(0, 2, 1, 3))


@rule(one_of("RotaryEmbedding")(_beside, *rest("more")), sample=_normed_heads)
def rotary_of_heads_beside(m: Match) -> Made:
    """RotaryEmbedding(Transpose(x)) of heads -> heads split off RotaryEmbedding(heads joined in the last axis)"""
    batch, length, heads, size = m.x.shape
    wanted = (batch, length, dims.mul(heads, size))
    source = bound_by(m.x)
    if m.x.op in VIEWS or type(heads) is not int or type(size) is not int or not is_bound(m, wanted, source):
        return decline("the heads are split off already, or a dimension is not known")
    inner = op.Reshape(m.x, sizes_value(m, wanted, 1, source))
    turned = call("RotaryEmbedding", [inner, *m.more], {**dict(m.root.attributes), "num_heads": heads})
    made = joined(m, turned, heads, m.root)
    return decline("a dimension is not bound") if made is None else made


# ---------------------------------------------------------------------------------------------- shared heads


def repeated_heads(value: Value) -> Value | None:
    """k of (batch, heads, sequence, size), where the value is k with each head repeated several times in a row."""
    if value.op not in VIEWS:
        return None
    wide = value.inputs[0]
    if wide is None or wide.op != "Expand" or wide.rank != 5:
        return None
    spread = wide.inputs[0]
    if spread is None or spread.op != "Unsqueeze" or axes_of(spread.inputs[1]) not in ((2,), (-3,)):
        return None
    k = spread.inputs[0]
    batch, heads, times, length, size = wide.shape
    if k is None or k.rank != 4 or not same_shape(k.shape, (batch, heads, length, size)):
        return None
    return k if same_shape(value.shape, (batch, dims.mul(heads, times), length, size)) else None


def _has_past(operands: tuple[Value | None, ...]) -> bool:
    return any(v is not None for v in operands[4:])


def _shared(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    q = param(Tensor(DType.FLOAT, (batch, 4, length, 8)))
    count = int(rng.choice([1, 2]))
    k, v = (param(Tensor(DType.FLOAT, (batch, count, length, 8))) for _ in range(2))

    def spread(value: Value) -> Value:
        wide = op.Expand(op.Unsqueeze(value, np.array([2])), shape_vector((batch, count, 4 // count, length, 8)))
        return op.Squeeze(wide, [1]) if count == 1 else op.Reshape(wide, shape_vector((batch, 4, length, 8)))

    return op.Attention(q, spread(k), spread(v), is_causal=int(rng.random() < 0.5))


_spread_parts = (hole("q"), hole("k", ops=VIEWS), hole("v", ops=VIEWS))


@rule(one_of("Attention")(*_spread_parts, *rest("more")), sample=_shared)
def attention_shared_heads(m: Match) -> Made:
    """Attention(q, each head of k repeated, the same of v) -> Attention(q, k, v), which repeats them itself"""
    k, v = repeated_heads(m.k), repeated_heads(m.v)
    if k is None or v is None or not isinstance(m.root.type, Tensor) or _has_past(m.root.inputs):
        return decline("no repeated heads, or there are further results")
    if dims.same(k.shape[1], v.shape[1]) is not True or type(k.shape[1]) is not int:
        return decline("k and v are repeated differently")
    return call("Attention", [m.q, k, v, *m.more], dict(m.root.attributes))


def _split(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")

    def heads(count: int) -> Value:
        x = param(Tensor(DType.FLOAT, (batch, length, 8 * count)))
        if count == 1:
            return op.Unsqueeze(x, [1])
        return op.Transpose(op.Reshape(x, shape_vector((batch, length, count, 8))), perm=(0, 2, 1, 3))

    shared = int(rng.choice([1, 2, 4]))
    return op.Attention(heads(4), heads(shared), heads(shared), is_causal=int(rng.random() < 0.5))


_parts = (hole("q", ops=_turning), hole("k", ops=_turning), hole("v", ops=_turning))


@rule(one_of("Attention")(*_parts, *rest("more")), sample=_split)
def attention_of_joined_heads(m: Match) -> Made:
    """Attention of heads split off q, k, v -> heads split off Attention(q, k, v, q_num_heads, kv_num_heads)"""
    q, k, v = split_heads(m.q), split_heads(m.k), split_heads(m.v)
    if q is None or k is None or v is None or not isinstance(m.root.type, Tensor) or _has_past(m.root.inputs):
        return decline("the heads are no part of the last axis, or there are further results")
    if k[1] != v[1]:
        return decline("k and v have different numbers of heads")
    given = {**dict(m.root.attributes), "q_num_heads": q[1], "kv_num_heads": k[1]}
    made = joined(m, call("Attention", [q[0], k[0], v[0], *m.more], given), q[1], m.root)
    return decline("a dimension is not bound") if made is None else made


DOUBLED: tuple[Rule, ...] = (unary_of_doubled, unsqueeze_of_doubled, scaled_doubled)
"""What is computed on both halves of a tensor that hold the same, computed once."""

ATTENTION: tuple[Rule, ...] = (
    rotary_embedding, interleaved_rotary_embedding, rotary_of_joined_heads, rotary_of_heads_beside,
    partial_rotary_embedding, attention_shared_heads, attention_of_joined_heads,
)  # fmt: skip
