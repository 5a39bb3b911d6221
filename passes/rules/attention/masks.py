"""Masks of attention: looked up where they may be seen whole, removed where they hide nothing, and divided into the
causal part, which Attention makes itself, and the rest."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.dims import Dim
from irkit.pattern import hole, one_of, p, rest, uniform
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.counting import count_of, is_causal
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import VIEWS, is_known, same_shape
from passes.rules.movement.views import broadcast, view

DEEP = 8
"""How many operators are looked through."""


# ---------------------------------------------------------------------------------------------- lookups of everything


def _everywhere(rng: np.random.Generator) -> Value:
    """A sample: a matrix looked up at all of its places, given as a grid with axes of size 1 in between."""
    rows: Dim = dims.symbol("batch") if rng.random() < 0.7 else 1
    columns = dims.symbol("length")
    data = param(Tensor(DType.BOOL if rng.random() < 0.5 else DType.FLOAT, (rows, columns)))
    row, column = (op.Range(0, op.Squeeze(op.Shape(data, start=i, end=i + 1), [0]), 1) for i in range(2))
    rank = 4 if rng.random() < 0.5 else 5
    grid = shape_vector((rows, *(1,) * (rank - 3), columns, 1))
    first = op.Expand(op.Unsqueeze(row, list(range(1, rank))), grid)
    second = op.Expand(op.Unsqueeze(column, [*range(rank - 2), rank - 1]), grid)
    return op.GatherND(data, op.Concat(first, second, axis=-1))


@rule(one_of("GatherND")(hole("data"), p.Concat(*rest("places"), axis=-1).named("grid")), sample=_everywhere)
def look_up_everything(m: Match) -> Made:
    """GatherND(x, all places of x in order) -> Unsqueeze(x)"""
    data, shape = m.data, m.root.shape
    if m.root.attribute("batch_dims") or len(m.places) != data.rank or not is_known(shape):
        return decline("the places are no whole ones, or the dimensions are not known")
    axes: list[int] = []
    for part, size in zip(m.places, data.shape, strict=True):
        place = count_of(part) if dims.same(part.shape[-1], 1) is True else None
        if place is None or dims.same(place.start, 0) is not True:
            return decline("the places do not count from 0")
        along = place.axes
        if dims.same(size, 1) is True and not along:
            continue
        if len(along) != 1 or place.steps[along[0]] != 1 or dims.same(shape[along[0]], size) is not True:
            return decline("the places are not all places along one axis")
        axes.append(along[0])
    if axes != sorted(set(axes)):
        return decline("the axes change places")
    thin = tuple(d if i in axes else 1 for i, d in enumerate(shape))
    sources = bound_by(m.grid, data)
    found = view(m, data, thin, sources)
    if found is None or not is_bound(m, shape, sources):
        return decline("a dimension is not bound")
    return found if same_shape(thin, shape) else op.Expand(found, sizes_value(m, shape, 1, sources))


# ---------------------------------------------------------------------------------------------- masks that hide nothing


def sees_all(mask: Value) -> bool:
    """True for a mask that hides nothing and adds nothing: True or zeros, viewed or expanded in any way."""
    for _ in range(DEEP):
        if mask.op not in ("Expand", *VIEWS) or mask.inputs[0] is None:
            break
        mask = mask.inputs[0]
    found = uniform(mask)
    return found is not None and (found is True if mask.dtype is DType.BOOL else found == 0)


def _seen(rng: np.random.Generator) -> Value:
    batch, length, keys = (dims.symbol(name) for name in ("batch", "length", "keys"))
    q = param(Tensor(DType.FLOAT, (batch, 2, length, 4)))
    k, v = (param(Tensor(DType.FLOAT, (batch, 2, keys, 4))) for _ in range(2))
    mask = op.Expand(const(True) if rng.random() < 0.5 else const(0.0), shape_vector((batch, 1, length, keys)))
    return op.Attention(q, k, v, mask, scale=0.5)


_operands = (hole("q"), hole("k"), hole("v"), hole("mask"))


@rule(one_of("Attention")(*_operands, *rest("more")), sample=_seen)
def attention_that_sees_all(m: Match) -> Made:
    """Attention(q, k, v, True) -> Attention(q, k, v)"""
    if m.mask is None or not sees_all(m.mask) or any(v is not None for v in m.more[2:]):
        return decline("the mask hides something, or the lengths are given")
    if not isinstance(m.root.type, Tensor):
        return decline("there are further results")
    keys, old = m.k.shape[-2], m.more[0].shape[-2] if m.more and m.more[0] is not None else 0
    if dims.same(m.mask.shape[-1], dims.add(old, keys)) is not True:
        return decline("the mask may be shorter than the keys")
    return call("Attention", [m.q, m.k, m.v, None, *m.more], dict(m.root.attributes))


# ---------------------------------------------------------------------------------------------- causal and more


def without_causal(m: Match, mask: Value, past: Dim) -> tuple[Value | None] | None:
    """(rest,) for a mask that is causal and something else: the rest has the same last two axes, and is None where
    nothing is left. None for a mask without a causal part, or whose parts cannot be told apart. `past` keys precede the
    first query."""
    shape = mask.shape
    if mask.dtype is not DType.BOOL or len(shape) < 2:
        return None
    terms, left, found = [mask], list[Value](), False
    while terms:
        term = terms.pop()
        if term.op == "And":
            terms += [v for v in reversed(term.inputs) if v is not None]
        elif term.op == "Expand" and _keeps_rows(term):
            terms.append(term.inputs[0])  # type: ignore[arg-type]
        elif is_causal(term, past) and same_shape(term.shape[-2:], shape[-2:]):
            found = True
        else:
            left.append(term)
    if not found or len(left) > 1:
        return None
    return (whole(m, left[0], shape) if left else None,)


def _keeps_rows(expand: Value) -> bool:
    inner = expand.inputs[0]
    return inner is not None and inner.rank >= 2 and same_shape(inner.shape[-2:], expand.shape[-2:])


def whole(m: Match, mask: Value, shape: tuple[Dim, ...]) -> Value | None:
    """A mask expanded to the last two axes of a shape; its leading axes stay."""
    lead = mask.shape[:-2] if mask.rank > 2 else ()
    wanted = (*lead, *shape[-2:])
    if same_shape(mask.shape, wanted):
        return mask
    sources = bound_by(mask)
    reached = broadcast([mask.shape, wanted])
    if reached is None or not same_shape(reached, wanted) or not is_bound(m, wanted, sources):
        return None
    return op.Expand(mask, sizes_value(m, wanted, 1, sources))


def _half_masked(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    q, k, v = (param(Tensor(DType.FLOAT, (batch, 2, length, 4))) for _ in range(3))
    n = op.Squeeze(op.Shape(q, start=2, end=3), [0])
    places = op.Range(0, n, 1)
    causal = op.LessOrEqual(places, op.Unsqueeze(places, [1]))
    padding = param(Tensor(DType.BOOL, (batch, 1, 1, length)))
    both = op.And(causal, padding) if rng.random() < 0.5 else op.And(padding, causal)
    return op.Attention(q, k, v, both, scale=0.5)


_some = hole("mask", ops=("And", "Expand"))


@rule(one_of("Attention")(hole("q"), hole("k"), hole("v"), _some), sample=_half_masked, exact=False)
def partly_causal_attention(m: Match) -> Made:
    """Attention(q, k, v, And(keys <= queries, mask)) -> Attention(q, k, v, mask, is_causal=1)"""
    if m.root.attribute("is_causal") or not isinstance(m.root.type, Tensor):
        return decline("it is causal already, or there are further results")
    if not same_shape(m.mask.shape[-2:], (m.q.shape[-2], m.k.shape[-2])):
        return decline("the mask has another size than the scores")
    found = without_causal(m, m.mask, 0)
    if found is None:
        return decline("no part of the mask is causal")
    return call("Attention", [m.q, m.k, m.v, found[0]], {**dict(m.root.attributes), "is_causal": 1})


LOOKUPS: tuple[Rule, ...] = (look_up_everything,)
"""What is looked up whole."""

MASKS: tuple[Rule, ...] = (attention_that_sees_all, partly_causal_attention)
"""Masks that attention does not need, or makes itself."""
