"""Projections of queries, keys and values whose columns are ordered by head first, as in Bloom, GPT-NeoX and Persimmon.
The columns of the weight are put in the order query, key, value; then one Split gives the three."""

from __future__ import annotations

from functools import partial

import numpy as np

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import tensor
from irkit.dims import Dim
from irkit.pattern import attr, either, hole, p, uniform
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.known_sizes import bound_by, is_bound, sizes_held, sizes_value
from passes.analysis.questions import axes_of, computed_constant, same_shape
from passes.rules.constants import transposed_constant

_product = p.MatMul(hole("x"), constant("w", rank=2).once()).once()
_sum = p.Add(_product, constant("b", rank=1).once()).named("sum").once()
_heads = p.Reshape(either(_sum, _product), hole("shape")).named("heads")


def _projected(rng: np.random.Generator, shape: tuple[Dim, ...]) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    made = op.MatMul(param(tensor("f32", "batch", "length", 5)), const(rng.standard_normal((5, 24)).astype(np.float32)))
    if rng.random() < 0.7:
        made = op.Add(made, const(rng.standard_normal(24).astype(np.float32)))
    return op.Reshape(made, shape_vector((batch, length, *shape)))


def _by_index(rng: np.random.Generator) -> tuple[Value, ...]:
    heads = _projected(rng, (2, 3, 4))
    return tuple(op.Gather(heads, np.array(i), axis=3) for i in range(3))


def _by_split(rng: np.random.Generator) -> tuple[Value, ...]:
    turned = _projected(rng, (2, 12))
    turned = op.Transpose(turned, perm=(0, 2, 1, 3)) if rng.random() < 0.6 else turned
    return tuple(op.Split(turned, np.array([4, 4, 4]), axis=-1))


def in_parts(m: Match, heads: int, size: int) -> tuple[Value, ...] | None:
    """Queries, keys and values of (batch, length, heads, size), by a projection whose columns are ordered by part, head
    and place; None where a size is not bound."""
    shape = (*m.heads.shape[:2], heads, size)
    sources = [bound_by(m.heads), *(each for each in (sizes_held(m.shape),) if each is not None)]
    if not is_bound(m, shape, *sources):
        return None
    order = np.arange(heads * 3 * size).reshape(heads, 3, size).transpose(1, 0, 2).reshape(-1)
    made = op.MatMul(m.x, _columns(m.w, order))
    if m.get("sum") is not None:
        b: Value = m.b
        made = op.Add(made, computed_constant(b, b.shape, partial(taken, order=order), [b]))
    parts = op.Split(made, axis=2, num_outputs=3)
    return tuple(op.Reshape(part, sizes_value(m, shape, 1, *sources)) for part in parts)


def _columns(w: Value, order: np.ndarray) -> Value:
    """The columns of a weight in another order; the new weight is held transposed where the old one is."""
    turned = w.blob.turned if w.blob is not None else None
    if turned is None:
        return computed_constant(w, w.shape, partial(taken, order=order), [w])
    below = const(turned)
    return transposed_constant(computed_constant(below, below.shape, partial(taken, order=order, axis=0), [below]))


def taken(array: np.ndarray, order: np.ndarray, axis: int = -1) -> np.ndarray:
    """The elements along an axis in another order."""
    return np.take(array, order, axis)


def _fits(m: Match, heads: Dim, size: Dim) -> bool:
    """True where the view only splits the last axis of a projection whose width is known."""
    if type(heads) is not int or type(size) is not int or m.x.rank != 3 or not heads or not size:
        return False
    width = heads * 3 * size
    bias = m.b.shape if m.get("sum") is not None else (width,)
    return m.w.shape[1] == width and bias == (width,) and same_shape(m.heads.shape[:2], m.x.shape[:2])


@rule(
    p.Gather(_heads, constant("i"), axis=attr("axis")),
    p.Gather(_heads, constant("j"), axis=attr("axis")),
    p.Gather(_heads, constant("k"), axis=attr("axis")),
    exact=False,
    sample=_by_index,
)
def parts_of_heads(m: Match) -> Made:
    """y = Reshape(x @ w, [b, s, heads, 3, n]), y[..., 0, :], y[..., 1, :], y[..., 2, :] -> Reshape of Split(x @ w')"""
    places = [uniform(each) if each.rank == 0 else None for each in (m.i, m.j, m.k)]
    if m.heads.rank != 5 or m.axis % 5 != 3 or m.heads.shape[3] != 3 or places != [0, 1, 2]:
        return decline("not the three parts of each head")
    heads, size = m.heads.shape[2], m.heads.shape[4]
    found = in_parts(m, heads, size) if _fits(m, heads, size) else None
    return decline("the width of the projection is not known, or a size is not bound") if found is None else found


_split = p.Split(
    either(p.Transpose(_heads, perm=(0, 2, 1, 3)).named("turned").once(), _heads),
    constant("sizes", optional=True),
    axis=attr("axis"),
    num_outputs=attr("count"),
).named("parts")


@rule(_split[0], _split[1], _split[2], exact=False, sample=_by_split)
def parts_of_turned_heads(m: Match) -> Made:
    """Split(Transpose(Reshape(x @ w, [b, s, heads, 3 * n]))) -> Transposes of Reshapes of Split(x @ w'), or neither"""
    size = m.root.shape[-1]
    if m.heads.rank != 4 or m.axis % 4 != 3 or type(size) is not int or m.heads.shape[3] != 3 * size:
        return decline("not the three parts of each head")
    sizes = axes_of(m.sizes) if m.sizes is not None else (size,) * 3
    heads = m.heads.shape[2]
    found = in_parts(m, heads, size) if sizes == (size,) * 3 and _fits(m, heads, size) else None
    if found is None:
        return decline("the width of the projection is not known, or a size is not bound")
    turned = m.get("turned") is not None
    return tuple(op.Transpose(part, perm=(0, 2, 1, 3)) if turned else part for part in found)


# ---------------------------------------------------------------------------------------------- some of the heads


def _some_heads(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    heads = op.Reshape(param(tensor("f32", "batch", "length", 24)), shape_vector((batch, length, 6, 4)))
    if rng.random() < 0.5:
        return op.Slice(heads, [0], [-2], [2])
    return op.Gather(heads, np.array([rng.choice([-2, -1, 3])]), axis=2)


_whole = p.Reshape(hole("x", rank=3), hole("shape")).named("heads")
_bounds = (constant("start"), constant("end"), constant("axes"), constant("step", optional=True))


@rule(
    either(p.Slice(_whole, *_bounds), p.Gather(_whole, constant("place", rank=1), axis=attr("axis"))),
    sample=_some_heads,
)
def some_of_heads(m: Match) -> Made:
    """Reshape(x, [b, s, heads, n])[:, :, i:j] -> Reshape(x[..., i * n : j * n])"""
    if m.heads.rank != 4:
        return decline("not heads")
    heads, size = m.heads.shape[2:]
    if type(heads) is not int or type(size) is not int or not same_shape(m.x.shape, (*m.heads.shape[:2], heads * size)):
        return decline("the last axis is not taken apart")
    found = _range(m, heads)
    if found is None or found[0] >= found[1]:
        return decline("not heads that follow one another")
    sources = [bound_by(m.x), *(each for each in (sizes_held(m.shape),) if each is not None)]
    if not is_bound(m, m.root.shape, *sources):
        return decline("a size is not bound")
    part = op.Slice(m.x, [found[0] * size], [found[1] * size], [2])
    return op.Reshape(part, sizes_value(m, m.root.shape, 1, *sources))


def _range(m: Match, heads: int) -> tuple[int, int] | None:
    """The first head that is taken and the one after the last; None where they do not follow one another."""
    if m.get("place") is not None:
        place = axes_of(m.place) or ()
        if len(place) != 1 or m.axis % 4 != 2 or not -heads <= place[0] < heads:
            return None
        return place[0] % heads, place[0] % heads + 1
    numbers = [axes_of(v) for v in (m.start, m.end, m.axes)]
    if any(n is None or len(n) != 1 for n in numbers) or (m.step is not None and uniform(m.step) != 1):
        return None
    (start,), (end,), (axis,) = (n for n in numbers if n is not None)
    return slice(start, end).indices(heads)[:2] if axis % 4 == 2 else None


INTERLEAVED: tuple[Rule, ...] = (parts_of_heads, parts_of_turned_heads, some_of_heads)
"""Projections ordered by head, in parts; and heads that follow one another."""
