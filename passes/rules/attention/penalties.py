"""Masks of attention that are numbers: those that are needlessly expanded over the batch, those that are causal, and
those whose numbers are too low for the runtime."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor, Tuple
from irkit.pattern import const as constant
from irkit.pattern import hole, one_of, p, rest
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.counting import is_causal
from passes.analysis.questions import VIEWS, same_shape
from passes.analysis.reach import LEAST, is_low, leaves_first, number_of

POINTWISE = ("Where", "Add", "And", "Or", "Equal")
"""What masks are put together by."""

DEEP = 5
"""How many operators of a mask are looked through."""

TABLE = 1 << 16
"""The most elements of a table that are looked at."""

_operands = (hole("q"), hole("k"), hole("v"))


# ---------------------------------------------------------------------------------------------- spread


def thin(mask: Value, depth: int = DEEP) -> Value:
    """The mask without the expansions in it; broadcast, it has the same numbers."""
    if depth == 0 or not isinstance(mask.type, Tensor):
        return mask
    if mask.op == "Expand" and mask.inputs[0] is not None:
        return thin(mask.inputs[0], depth - 1)
    if mask.op not in POINTWISE:
        return mask
    operands = [None if v is None else thin(v, depth - 1) for v in mask.inputs]
    if all(a is b for a, b in zip(operands, mask.inputs, strict=True)):
        return mask
    return call(mask.op, operands, dict(mask.attributes))


def _spread(rng: np.random.Generator) -> Value:
    batch, length, keys = (dims.symbol(name) for name in ("batch", "length", "keys"))
    q = param(Tensor(DType.FLOAT, (batch, 2, length, 4)))
    k, v = (param(Tensor(DType.FLOAT, (batch, 2, keys, 4))) for _ in range(2))
    bias = param(Tensor(DType.FLOAT, (1, 2, length, keys)))
    wide = op.Expand(param(Tensor(DType.FLOAT, (1, 1, length, keys))), shape_vector((batch, 1, length, keys), q))
    makers = (lambda: wide, lambda: op.Add(wide, bias), lambda: op.Where(op.Greater(wide, 0.0), bias, -1e9))
    return op.Attention(q, k, v, makers[int(rng.integers(3))]())


@rule(one_of("Attention")(*_operands, hole("mask", ops=("Expand", *POINTWISE)), *rest("more")), sample=_spread)
def attention_of_spread_mask(m: Match) -> Made:
    """Attention(q, k, v, Expand(mask)) -> Attention(q, k, v, mask), where it is the same for all of the batch"""
    found = thin(m.mask)
    if found is m.mask or found.rank < 2 or not same_shape(found.shape[-2:], m.mask.shape[-2:]):
        return decline("nothing is spread, or it is along queries or keys")
    count = len(m.root.type.items) if isinstance(m.root.type, Tuple) else None
    return call("Attention", [m.q, m.k, m.v, found, *m.more], dict(m.root.attributes), outputs=count)


# ---------------------------------------------------------------------------------------------- causal


def _penalized(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    q, k, v = (param(Tensor(DType.FLOAT, (batch, 2, length, 4))) for _ in range(3))
    places = op.Range(0, op.Squeeze(op.Shape(q, start=2, end=3), [0]), 1)
    causal = op.LessOrEqual(op.Unsqueeze(places, [0, 1, 2]), op.Unsqueeze(places, [0, 1, 3]))
    slopes = const(rng.standard_normal((1, 2, 1, 1)).astype(np.float32))
    rest_: Value | float = 0.0 if rng.random() < 0.5 else op.Expand(slopes, shape_vector((1, 2, length, length), q))
    return op.Attention(q, k, v, op.Where(causal, rest_, -1e9), scale=0.5)


_penalty = p.Where(hole("seen"), hole("rest"), constant("low"))


@rule(one_of("Attention")(*_operands, _penalty), sample=_penalized, exact=False)
def causal_penalty_attention(m: Match) -> Made:
    """Attention(q, k, v, Where(keys <= queries, mask, -inf)) -> Attention(q, k, v, mask, is_causal=1)"""
    if m.root.attribute("is_causal") or not isinstance(m.root.type, Tensor) or not is_low(m.low):
        return decline("it is causal already, or there are further results")
    sizes = (m.q.shape[-2], m.k.shape[-2])
    if m.q.rank != m.k.rank or not same_shape(m.seen.shape[-2:], sizes) or not is_causal(m.seen):
        return decline("the condition is not the causal one")
    given = {**dict(m.root.attributes), "is_causal": 1}
    if number_of(m.rest) == 0:
        return call("Attention", [m.q, m.k, m.v], given)
    shaped = m.rest.rank >= 2 and same_shape(m.rest.shape[-2:], sizes)
    if not shaped or not leaves_first(m.rest, number_of(m.low) or 0.0):
        return decline("the mask may hide all keys of a query, or does not say of each key")
    return call("Attention", [m.q, m.k, m.v, m.rest], given)


# ---------------------------------------------------------------------------------------------- milder


def _milder(rng: np.random.Generator) -> Value:
    seen = param(Tensor(DType.BOOL, (dims.symbol("batch"), 1, 1, dims.symbol("keys"))))
    table = const(rng.standard_normal((1, 2, 3, 1)).astype(np.float32))
    mask = op.Where(seen, 0.0 if rng.random() < 0.5 else table, LEAST)
    return op.Where(op.Equal(mask, LEAST), np.float32(LEAST * 0.9), mask)


def _is_least(value: Value) -> bool:
    return number_of(value) == LEAST


_mask = p.Where(hole("seen"), hole("rest"), constant("least", where=_is_least)).named("mask")


@rule(p.Where(p.Equal(_mask, constant("same", where=_is_least)), constant("milder"), hole("mask")), sample=_milder)
def milder_penalty(m: Match) -> Made:
    """y = Where(c, x, least), Where(y == least, number, y) -> Where(c, x, number), for an x that is looked up"""
    if number_of(m.milder) is None or not same_shape(m.root.shape, m.mask.shape):
        return decline("no number, or a constant broadcasts the mask")
    number = number_of(m.rest)
    if number is None and not _is_looked_up(m.rest):
        return decline("the rest may hold the least number")
    made = op.Where(m.seen, m.rest, m.milder)
    if number == LEAST or not same_shape(made.shape, m.root.shape):
        return decline("the rest is the least number, or a constant broadcasts it")
    return made


def _is_looked_up(value: Value) -> bool:
    """True for a view of a lookup in a constant table that is small enough to read and holds no such number."""
    for _ in range(DEEP):
        if value.op not in ("Transpose", *VIEWS, "Gather", "Slice") or value.inputs[0] is None:
            break
        value = value.inputs[0]
    blob = value.blob
    return blob is not None and blob.size <= TABLE and not bool((blob.array == LEAST).any())


PENALTIES: tuple[Rule, ...] = (attention_of_spread_mask, causal_penalty_attention, milder_penalty)
"""Masks that are numbers."""
