"""Rotary embeddings as models write them: by halves, in interleaved pairs, or of a part of each head."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.pattern import attr, hole, p, rest, uniform
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import axes_of, same_shape, same_type, vector
from passes.rules.movement.parts import part_of

x, a, b, c, s = hole("x"), hole("a"), hole("b"), hole("cos"), hole("sin")

ROTATED = (DType.FLOAT, DType.FLOAT16, DType.BFLOAT16)
"""What ONNX has RotaryEmbedding for."""

_low = p.Sub(p.Mul(a, c), p.Mul(b, s))
_high = p.Add(p.Mul(b, c), p.Mul(a, s))


# ---------------------------------------------------------------------------------------------- shared


def is_rotated(value: Value) -> bool:
    """True for heads of (batch, heads, sequence, size) with an even size and an element type that RotaryEmbedding
    takes."""
    size = value.shape[-1] if value.rank == 4 else 1
    return type(size) is int and size % 2 == 0 and value.dtype in ROTATED


def table(m: Match, value: Value, x: Value, half: int) -> Value | None:
    """cos or sin of (batch or 1, 1, sequence, half) as (batch, sequence, half); leading 1s may be missing."""
    batch, _, length, _ = x.shape
    if value.rank == 2 and same_shape(value.shape, (length, half)):
        flat, found = op.Unsqueeze(value, vector([0])), 1
    elif value.rank == 3 and same_shape(value.shape, (1, length, half)):
        flat, found = value, 1
    elif value.rank == 4 and same_shape(value.shape[1:], (1, length, half)):
        flat, found = op.Squeeze(value, vector([1])), value.shape[0]
    else:
        return None
    if dims.same(found, batch) is True:
        return flat
    wanted = (batch, length, half)
    if found != 1 or not m.is_bound(wanted, x):
        return None
    return op.Expand(flat, shape_vector(wanted, *m.binders(wanted, x)))


def rotation(m: Match, x: Value, cos: Value, sin: Value, interleaved: bool) -> Made:
    """RotaryEmbedding of x with these tables, in place of the root of the match."""
    if not is_rotated(x) or not same_type(x, m.root):
        return decline("not heads of (batch, heads, sequence, size), or of another element type")
    half, back = x.shape[-1] // 2, False
    if cos.rank == sin.rank == 4 and all(is_beside(t, x, half) for t in (cos, sin)):
        x, cos, sin = (op.Transpose(v, perm=(0, 2, 1, 3)) for v in (x, cos, sin))
        back = True
    tables = [table(m, cos, x, half), table(m, sin, x, half)]
    if any(t is None or t.dtype is not x.dtype for t in tables):
        return decline("cos and sin have not the form (batch or 1, 1, sequence, size / 2)")
    found = op.RotaryEmbedding(x, *tables, interleaved=int(interleaved))
    return op.Transpose(found, perm=(0, 2, 1, 3)) if back else found


def is_beside(table: Value, x: Value, half: int) -> bool:
    """True for a table of (batch or 1, sequence, 1, half) where x is (batch, sequence, heads, size)."""
    _, first, second, _ = x.shape
    return same_shape(table.shape[1:], (first, 1, half)) and not same_shape(table.shape[1:], (1, second, half))


def _heads(rng: np.random.Generator, size: int = 4) -> tuple[Value, Value, Value]:
    """A sample: x, with cos and sin for half of its size."""
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = param(Tensor(DType.FLOAT, (batch, 2, length, size)))
    half = size // 2
    if rng.random() < 0.2:
        x, shape = param(Tensor(DType.FLOAT, (batch, length, 2, size))), (1, length, 1, half)
    else:
        shape = ((batch, 1, length, half), (1, 1, length, half), (length, half))[int(rng.integers(3))]
    cos, sin = (param(Tensor(DType.FLOAT, shape)) for _ in range(2))
    return x, cos, sin


# ---------------------------------------------------------------------------------------------- half by half


def halves(first: Value, second: Value) -> Value | None:
    """The value whose last axis these two values are the halves of; None where there is none."""
    low, high = part_of(first), part_of(second)
    if low is None or high is None or low.source is not high.source or not low.axis == high.axis == first.rank - 1:
        return None
    size = low.source.shape[-1]
    if (
        type(size) is not int
        or size % 2
        or (low.start, low.stop, high.start, high.stop) != (0, size // 2, size // 2, size)
    ):
        return None
    return low.source


def _by_halves(rng: np.random.Generator) -> Value:
    x, cos, sin = _heads(rng)
    if rng.random() < 0.5:
        low, high = op.Split(x, axis=-1, num_outputs=2)
    else:
        low, high = (op.Slice(x, [i], [i + 2], [-1]) for i in (0, 2))
    first = op.Sub(op.Mul(low, cos), op.Mul(high, sin))
    return op.Concat(first, op.Add(op.Mul(high, cos), op.Mul(low, sin)), axis=-1)


@rule(p.Concat(_low, _high, axis=attr("axis")), exact=False, sample=_by_halves)
def rotary_by_halves(m: Match) -> Made:
    """Concat(a * cos - b * sin, b * cos + a * sin) -> RotaryEmbedding(x, cos, sin), for the halves a, b of x"""
    found = halves(m.a, m.b)
    if found is None or m.axis % m.root.rank != m.root.rank - 1:
        return decline("not the two halves of one value")
    return rotation(m, found, m.cos, m.sin, interleaved=False)


# ---------------------------------------------------------------------------------------------- pairs


def every_other(value: Value) -> tuple[Value, int] | None:
    """(x, 0) for x[..., ::2] and (x, 1) for x[..., 1::2], whether cut with steps or taken from pairs; None for all
    else."""
    source = value.inputs[0] if value.inputs else None
    if source is None:
        return None
    if value.op == "Slice" and len(value.inputs) == 5:
        bounds = [axes_of(v) for v in value.inputs[1:]]
        size = source.shape[-1] if source.rank else 1
        if type(size) is not int or size % 2 or any(found is None or len(found) != 1 for found in bounds):
            return None
        (start,), (stop,), (axis,), (step,) = (found for found in bounds if found is not None)
        whole = step == 2 and start in (0, 1) and stop >= size - 1 + start and axis % source.rank == source.rank - 1
        return (source, start) if whole else None
    return _of_pairs(value)


def _of_pairs(value: Value) -> tuple[Value, int] | None:
    """As `every_other`, for the first or second element of pairs that a Reshape made."""
    pairs, place = value.inputs[0], None
    if value.op == "Gather" and value.inputs[1] is not None and pairs is not None:
        place, axis = uniform(value.inputs[1]), value.attribute("axis", 0) % pairs.rank
        place = place if axis == pairs.rank - 1 and value.inputs[1].rank == 0 else None
    elif value.op == "Squeeze" and pairs is not None:
        part = part_of(pairs)
        if part is None or part.axis != pairs.rank - 1 or pairs.shape[-1] != 1 or value.rank != pairs.rank - 1:
            return None
        pairs, place = part.source, part.start
    if pairs is None or place not in (0, 1, -1, -2) or pairs.op != "Reshape" or pairs.shape[-1] != 2:
        return None
    source = pairs.inputs[0]
    if source is None or source.rank != pairs.rank - 1 or not same_shape(source.shape[:-1], pairs.shape[:-2]):
        return None
    return source, int(place) % 2


def _pairs(rng: np.random.Generator, x: Value) -> tuple[Value, Value]:
    kind = int(rng.integers(3))
    if kind == 0:
        return op.Slice(x, [0], [2**62], [-1], [2]), op.Slice(x, [1], [2**62], [3], [2])
    shape = shape_vector((*x.shape[:3], 2, 2))
    pairs = op.Reshape(x, shape)
    if kind == 1:
        return op.Gather(pairs, 0, axis=-1), op.Gather(pairs, 1, axis=4)
    parts = op.Split(pairs, axis=-1, num_outputs=2)
    return op.Squeeze(parts[0], [-1]), op.Squeeze(parts[1], [4])


def _by_pairs(rng: np.random.Generator) -> Value:
    x, cos, sin = _heads(rng)
    first, second = _pairs(rng, x)
    low = op.Unsqueeze(op.Sub(op.Mul(first, cos), op.Mul(second, sin)), [4])
    high = op.Unsqueeze(op.Add(op.Mul(second, cos), op.Mul(first, sin)), [-1])
    return op.Reshape(op.Concat(low, high, axis=-1), shape_vector(x.shape))


_stacked = p.Concat(p.Unsqueeze(_low, hole("i")), p.Unsqueeze(_high, hole("j")), axis=attr("axis")).named("stacked")


@rule(p.Reshape(_stacked, hole("shape"), allowzero=attr("z")), exact=False, sample=_by_pairs)
def rotary_by_pairs(m: Match) -> Made:
    """Stack(a * cos - b * sin, b * cos + a * sin) -> RotaryEmbedding(x, cos, sin, interleaved=1), for the pairs of x"""
    first, second = every_other(m.a), every_other(m.b)
    if first is None or second is None or first[0] is not second[0] or (first[1], second[1]) != (0, 1):
        return decline("not the pairs of one value")
    last = m.stacked.rank - 1
    if m.axis % m.stacked.rank != last or any(
        tuple(i % m.stacked.rank for i in axes_of(v) or ()) != (last,) for v in (m.i, m.j)
    ):
        return decline("not stacked along the last axis")
    return rotation(m, first[0], m.cos, m.sin, interleaved=True)


_SEEN_THROUGH = ("Cos", "Sin", "Cast", "Unsqueeze", "Mul")
_DEEP = 6


def doubled(value: Value) -> Value | None:
    """cos, where the value is cos with each number twice in a row along the last axis, elementwise operators in between
    or not; None for every other value."""
    above: list[Value] = []
    while value.op in _SEEN_THROUGH and len(above) < _DEEP and value.inputs[0] is not None:
        if value.op == "Unsqueeze" and value.rank - 1 in tuple(i % value.rank for i in axes_of(value.inputs[1]) or ()):
            return None
        if value.op == "Mul" and (uniform(value.inputs[1]) is None or value.inputs[1].rank):  # type: ignore[arg-type, union-attr]
            return None
        above.append(value)
        value = value.inputs[0]
    found = _half_of(value)
    for each in reversed(above):
        found = None if found is None else call(each.op, [found, *each.inputs[1:]], dict(each.attributes))
    return found


def _half_of(value: Value) -> Value | None:
    """cos, where the value is a Reshape of pairs that hold the same number twice."""
    wide = value.inputs[0] if value.op == "Reshape" else None
    if wide is None or wide.op not in ("Concat", "Expand") or wide.shape[-1:] != (2,) or wide.rank != value.rank + 1:
        return None
    inner = wide.inputs[0]
    if wide.op == "Concat" and (len(wide.inputs) != 2 or wide.inputs[0] is not wide.inputs[1]):
        return None
    if inner is None or inner.op != "Unsqueeze" or inner.shape[-1] != 1:
        return None
    if wide.op == "Concat" and wide.attribute("axis", 0) % wide.rank != wide.rank - 1:
        return None
    source, axes = inner.inputs[0], axes_of(inner.inputs[1])
    places = sorted(i % inner.rank for i in axes or ())
    if source is None or inner.rank - 1 not in places or not same_shape(inner.shape[:-1], wide.shape[:-1]):
        return None
    return source if len(places) == 1 else op.Unsqueeze(source, vector(places[:-1]))


def _twice(rng: np.random.Generator, table: Value) -> Value:
    shape = shape_vector((*table.shape[:-1], 2 * table.shape[-1]))
    column = op.Unsqueeze(table, [table.rank])
    if rng.random() < 0.5:
        return op.Reshape(op.Concat(column, column, axis=-1), shape)
    return op.Reshape(op.Expand(column, shape_vector((*table.shape, 2))), shape)


def _every_two(rng: np.random.Generator) -> Value:
    x, cos, sin = _heads(rng)
    first, second = _pairs(rng, x)
    turned = op.Concat(op.Unsqueeze(op.Neg(second), [-1]), op.Unsqueeze(first, [-1]), axis=-1)
    turned = op.Reshape(turned, shape_vector(x.shape))
    return op.Add(op.Mul(x, _twice(rng, cos)), op.Mul(turned, _twice(rng, sin)))


_WIDE = ("Reshape", *_SEEN_THROUGH)

_turned_pairs = p.Reshape(
    p.Concat(p.Unsqueeze(p.Neg(b), hole("i")), p.Unsqueeze(a, hole("j")), axis=attr("axis")).named("stacked"),
    hole("shape"),
    allowzero=attr("z"),
)


@rule(
    p.Add(p.Mul(x, hole("wide_cos", ops=_WIDE)), p.Mul(_turned_pairs, hole("wide_sin", ops=_WIDE))),
    exact=False,
    sample=_every_two,
)
def rotary_of_every_two(m: Match) -> Made:
    """x * cos + Stack(-x[1::2], x[::2]) * sin -> RotaryEmbedding(x, cos, sin, interleaved=1), for doubled tables"""
    first, second = every_other(m.a), every_other(m.b)
    if first != (m.x, 0) or second != (m.x, 1):
        return decline("not the pairs of x")
    last = m.stacked.rank - 1
    if m.axis % m.stacked.rank != last or any(
        tuple(i % m.stacked.rank for i in axes_of(v) or ()) != (last,) for v in (m.i, m.j)
    ):
        return decline("not stacked along the last axis")
    tables = doubled(m.wide_cos), doubled(m.wide_sin)
    if tables[0] is None or tables[1] is None:
        return decline("cos and sin do not come in pairs")
    return rotation(m, m.x, tables[0], tables[1], interleaved=True)


# ---------------------------------------------------------------------------------------------- a part of each head


def _partial(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = param(Tensor(DType.FLOAT, (batch, 2, length, 8)))
    low, high = op.Slice(x, [0], [4], [3]), op.Slice(x, [4], [2**62], [-1])
    tables = [param(Tensor(DType.FLOAT, (batch, length, 2))) for _ in range(2)]
    turned = op.RotaryEmbedding(low, *tables, interleaved=int(rng.random() < 0.5))
    return op.Concat(turned, high, axis=-1)


_rotary = p.RotaryEmbedding(
    a, *rest("tables"), interleaved=attr("interleaved"), num_heads=attr("heads"), rotary_embedding_dim=0
).once()


@rule(p.Concat(_rotary, b, axis=attr("axis")), exact=False, sample=_partial)
def partial_rotary(m: Match) -> Made:
    """Concat(RotaryEmbedding(x[..., :r]), x[..., r:]) -> RotaryEmbedding(x, rotary_embedding_dim=r)"""
    low, high = part_of(m.a), part_of(m.b)
    if low is None or high is None or low.source is not high.source or m.a.rank != 4 or m.axis % 4 != 3:
        return decline("not the parts of one value")
    size = low.source.shape[-1]
    if low.axis != 3 or high.axis != 3 or low.start != 0 or high.start != low.stop or high.stop != size:
        return decline("the parts do not follow one another")
    heads = m.a.shape[1]
    if type(low.stop) is not int or type(heads) is not int:
        return decline("the number of heads is not known")
    given = {"interleaved": m.interleaved, "num_heads": heads, "rotary_embedding_dim": low.stop}
    return call("RotaryEmbedding", [low.source, *m.tables], given)


def _partial_beside(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = param(Tensor(DType.FLOAT, (batch, length, 2, 8)))
    low, high = op.Split(x, np.array([4, 4]), axis=-1)
    tables = [param(Tensor(DType.FLOAT, (batch, length, 2))) for _ in range(2)]
    joined = op.Reshape(low, shape_vector((batch, length, 8)))
    turned = op.RotaryEmbedding(joined, *tables, num_heads=2, interleaved=int(rng.random() < 0.5))
    return op.Concat(op.Reshape(turned, shape_vector((batch, length, 2, 4))), high, axis=3)


_joined = p.Reshape(a, hole("flat")).once()
_beside = p.RotaryEmbedding(
    _joined, *rest("tables"), interleaved=attr("interleaved"), num_heads=attr("heads"), rotary_embedding_dim=0
).once()


@rule(
    p.Concat(p.Reshape(_beside, hole("shape")).named("turned").once(), b, axis=attr("axis")),
    exact=False,
    sample=_partial_beside,
)
def partial_rotary_beside(m: Match) -> Made:
    """Concat(RotaryEmbedding(x[..., :r]), x[..., r:]) -> RotaryEmbedding(x, rotary_embedding_dim=r), of heads beside"""
    low, high = part_of(m.a), part_of(m.b)
    if low is None or high is None or low.source is not high.source or m.a.rank != 4 or m.axis % 4 != 3:
        return decline("not the parts of one value")
    batch, length, heads, size = low.source.shape
    if low.axis != 3 or high.axis != 3 or low.start != 0 or high.start != low.stop or high.stop != size:
        return decline("the parts do not follow one another")
    if heads != m.heads or type(size) is not int or type(low.stop) is not int or not same_type(m.turned, m.a):
        return decline("the heads are others, or of a size that is not known")
    whole = (batch, length, dims.mul(heads, size))
    sources = bound_by(low.source)
    if not is_bound(m, whole, sources):
        return decline("a dimension is not bound")
    given = {"interleaved": m.interleaved, "num_heads": m.heads, "rotary_embedding_dim": low.stop}
    flat = op.Reshape(low.source, sizes_value(m, whole, 1, sources))
    found = call("RotaryEmbedding", [flat, *m.tables], given)
    return op.Reshape(found, sizes_value(m, m.root.shape, 1, sources))


ROTARY: tuple[Rule, ...] = (
    rotary_by_halves, rotary_by_pairs, rotary_of_every_two, partial_rotary, partial_rotary_beside,
)  # fmt: skip
"""Rotary embeddings in other layouts."""
