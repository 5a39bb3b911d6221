"""Attention written in single operators: read from the softmax back to queries and keys.

Scores may be scaled, capped, biased, masked, and viewed with batch and heads as one axis, in any order that amounts to
Softmax(cap(scale * q @ k^T) + bias). Whatever is added becomes one mask of Attention.
"""

from __future__ import annotations

from functools import reduce

import attrs
import numpy as np

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.dims import Dim
from irkit.pattern import attr, hole, is_all_zeros, p
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.counting import is_causal
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import VIEWS, same_shape
from passes.analysis.reach import (
    EXTREMES,
    LEAST,
    NOTHING,
    SMALL,
    is_low,
    leaves_first,
    may_be_blind,
    number_of,
    reach,
    shows_a_key,
    with_nan,
)
from passes.rules.movement.views import view

DEEP = 10
"""How many operators stand between the product and the softmax at most."""

ABOVE = ("MatMul", "Mul", "Div", "Add", "Where", "Reshape")
"""What scores may be the result of."""

LOW = -1e38
"""What hides keys, and leaves nothing of their scores, where the number itself does not matter."""

DROWNS = -1e30
"""Of scores to which this or less is added nothing is left."""


@attrs.frozen
class Scores:
    """cap(scale * q @ k^T) + biases; then, for each (condition, low) of `seen`, `low` where the condition is false.
    `rows` is a factor of the queries."""

    q: Value
    k_turned: Value
    scale: float = 1.0
    cap: float = 0.0
    biases: tuple[Value, ...] = ()
    seen: tuple[tuple[Value, float], ...] = ()
    rows: Value | None = None


def scores_of(m: Match, value: Value | None, shape: tuple[Dim, ...], depth: int = DEEP) -> Scores | None:
    """How the scores are computed; None where the value is no scores. Every operator on the way to the product keeps
    their shape."""
    if value is None or depth == 0 or value.op not in ABOVE or not same_shape(value.shape, shape):
        return None
    if value.op == "MatMul":
        q, k = value.inputs
        return None if q is None or k is None or q.rank != k.rank else Scores(q, k)
    return _READERS[value.op](m, value, shape, depth - 1)


def _biased(m: Match, value: Value, shape: tuple[Dim, ...], depth: int) -> Scores | None:
    for inner, bias in (value.inputs, value.inputs[::-1]):
        found = scores_of(m, inner, shape, depth)
        if found is not None and bias is not None:
            found = _added(found) if found.seen else found
            return None if found is None else attrs.evolve(found, biases=(*found.biases, bias))
    return None


def _added(found: Scores) -> Scores | None:
    """The scores with these numbers added instead of those that hide keys, after which nothing is left of a hidden
    score."""
    if any(low > DROWNS for _, low in found.seen):
        return None
    total = _total(found.biases)
    for seen, low in found.seen:
        total = op.Where(seen, 0.0 if total is None else total, const(np.float32(low)))
    return attrs.evolve(found, seen=(), biases=() if total is None else (total,))


def _masked(m: Match, value: Value, shape: tuple[Dim, ...], depth: int) -> Scores | None:
    seen, inner, low = value.inputs
    turned = is_low(inner)
    if turned:
        inner, low = low, inner
    found = scores_of(m, inner, shape, depth) if is_low(low) else None
    number = number_of(low)
    if found is None or seen is None or number is None:
        return None
    return attrs.evolve(found, seen=(*found.seen, (op.Not(seen) if turned else seen, number)))


def _scaled(m: Match, value: Value, shape: tuple[Dim, ...], depth: int) -> Scores | None:
    x, c = value.inputs
    if value.op == "Mul" and x is not None and x.op not in (*ABOVE, "Tanh"):
        x, c = c, x
    factor = number_of(c)
    if x is None or c is None or (factor is not None and not 0 < factor < np.inf):
        return None
    if x.op == "Tanh":
        return _capped(m, x, shape, depth, factor) if value.op == "Mul" and factor is not None else None
    found = scores_of(m, x, shape, depth)
    if found is None:
        return None
    if factor is not None:
        return _times(found, 1 / factor if value.op == "Div" else factor)
    plain = found.rows is None and not found.cap and not found.biases and not found.seen
    if value.op == "Mul" and plain and 2 <= c.rank <= len(shape) and c.shape[-2:] == (1, 1):
        return attrs.evolve(found, rows=c)
    return None


def _times(found: Scores, factor: float) -> Scores | None:
    """The scores times a positive number; the biases added so far are multiplied too."""
    if found.cap or found.seen:
        return None
    biases = tuple(_bias_times(bias, factor) for bias in found.biases)
    return attrs.evolve(found, scale=found.scale * factor, biases=biases)


def _bias_times(bias: Value, factor: float) -> Value:
    numbers = [number_of(v) for v in bias.inputs[1:]] if bias.op == "Where" else [None]
    if any(n is None for n in numbers):
        return op.Mul(bias, factor)
    return op.Where(bias.inputs[0], *(n * factor if n * factor >= LEAST else -np.inf for n in numbers if n is not None))


def _capped(m: Match, tanh: Value, shape: tuple[Dim, ...], depth: int, cap: float) -> Scores | None:
    found = scores_of(m, tanh.inputs[0], shape, depth)
    if found is None or found.cap or found.biases or found.seen:
        return None
    return attrs.evolve(found, scale=found.scale * cap, cap=cap)


def _apart(m: Match, value: Value, shape: tuple[Dim, ...], depth: int) -> Scores | None:
    """Scores with batch and heads as one axis, rewritten with two: every value that they are computed from is viewed
    so."""
    inner = value.inputs[0]
    if inner is not None and inner.rank == 5:
        return _windowed(m, value, inner, depth)
    if inner is None or value.rank != 4 or inner.rank != 3 or not same_shape(inner.shape[1:], shape[2:]):
        return None
    found = scores_of(m, inner, inner.shape, depth)
    if found is None or found.seen or found.rows is not None:
        return None
    parts = [_with_heads(m, each, inner.shape[0], shape[:2]) for each in (found.q, found.k_turned, *found.biases)]
    q, k, *biases = (part for part in parts if part is not None)
    return attrs.evolve(found, q=q, k_turned=k, biases=tuple(biases)) if len(biases) == len(found.biases) else None


def _with_heads(m: Match, value: Value, both: Dim, lead: tuple[Dim, ...]) -> Value | None:
    """A value of (batch * heads, ...) seen as (batch, heads, ...); itself where it is the same for all of them."""
    if value.rank < 3 or (type(value.shape[0]) is int and value.shape[0] == 1):
        return value
    if dims.same(value.shape[0], both) is not True:
        return None
    return view(m, value, (*lead, *value.shape[1:]), bound_by(value))


def _windowed(m: Match, value: Value, inner: Value, depth: int) -> Scores | None:
    """Scores of windows that are part of the batch, with a bias for each window that is the same for all images."""
    if inner.op != "Add" or value.rank != 4 or not same_shape(inner.shape[2:], value.shape[1:]):
        return None
    for view_, bias in (inner.inputs, inner.inputs[::-1]):
        scores = view_.inputs[0] if view_ is not None and view_.op == "Reshape" else None
        if scores is None or bias is None or not same_shape(scores.shape, value.shape) or not 3 <= bias.rank <= 5:
            continue
        found = scores_of(m, scores, value.shape, depth)
        if found is None or found.seen or (bias.rank > 2 and bias.shape[-3] != 1):
            return None
        sources = bound_by(value, inner)
        each, whole = (*inner.shape[:2], 1, *inner.shape[3:]), (value.shape[0], 1, *value.shape[2:])
        if not is_bound(m, (*each, *whole), sources):
            return None
        spread = op.Expand(bias, sizes_value(m, each, 1, sources))
        return attrs.evolve(found, biases=(*found.biases, op.Reshape(spread, sizes_value(m, whole, 1, sources))))
    return None


_READERS = {"Mul": _scaled, "Div": _scaled, "Add": _biased, "Where": _masked, "Reshape": _apart}


# ---------------------------------------------------------------------------------------------- masks


def mask_of(found: Scores, shape: tuple[Dim, ...]) -> tuple[Value | None, int] | None:
    """(mask, is_causal) of an Attention with those scores; None where no single mask keeps the order of their low
    numbers."""
    for i, bias in enumerate(found.biases):
        if not found.seen and is_causal_penalty(bias, shape):
            others = _total((*found.biases[:i], *found.biases[i + 1 :]))
            if leaves_first(others, number_of(bias.inputs[2]) or 0.0):
                return others, 1
    total = _total(found.biases)
    if not found.seen:
        return total, 0
    lows = {low for _, low in found.seen}
    causal = all(is_causal(seen) and same_shape(seen.shape[-2:], shape[-2:]) for seen, _ in found.seen)
    if causal and leaves_first(total, max(lows)):
        return total, 1
    finite = lows - {-np.inf}
    if any(low > DROWNS for low in finite) and (len(finite) > 1 or (total is not None and reach(total).down > NOTHING)):
        return None
    hiding = found.seen if len(lows) > 1 else ((reduce(op.And, (seen for seen, _ in found.seen)), lows.pop()),)
    if total is None and hiding[0][1] == -np.inf and len(hiding) == 1:
        return hiding[0][0], 0
    for seen, low in hiding:
        number = low if low <= DROWNS else LOW
        total = op.Where(seen, 0.0 if total is None else total, const(np.float32(number)))
    return total, 0


def _total(biases: tuple[Value, ...]) -> Value | None:
    """The sum of the biases; None where there are none. The least number of the type, in a bias that hides by it, is
    replaced by a higher one, which hides as well and keeps the sum above the least: where one of several biases has it,
    or two have it of which one leaves a key visible."""
    extreme = [bias for bias in biases if reach(bias).down >= EXTREMES]
    milder = len(biases) > 1 and len(extreme) == 1
    if len(extreme) == 2 and all(map(_hides_by_least, extreme)):
        milder = any(map(shows_a_key, extreme))
    low = LEAST / 2 if len(extreme) == 1 else LOW
    return reduce(op.Add, (_summand(bias, low) for bias in biases) if milder else biases) if biases else None


def _hides_by_least(bias: Value) -> bool:
    """True for Where(c, a small number, the least number), or with its branches exchanged."""
    numbers = bias.inputs[1:] if bias.op == "Where" else ()
    return [number_of(v) == LEAST for v in numbers].count(True) == 1 and any(reach(v) == SMALL for v in numbers)


def _summand(bias: Value, low: float) -> Value:
    """The bias with another low number in place of the least one: it hides as well, and a sum with it does not reach
    -inf. Half the least one is below whatever the other biases hold, which reach less far."""
    if bias.op != "Where" or not any(number_of(v) == LEAST for v in bias.inputs[1:]):
        return bias
    return op.Where(bias.inputs[0], *(low if number_of(v) == LEAST else v for v in bias.inputs[1:]))


def is_causal_penalty(bias: Value, shape: tuple[Dim, ...]) -> bool:
    """True for Where(keys <= queries, 0, a very low number) over the last two axes of a shape."""
    if bias.op != "Where" or bias.inputs[0] is None or not same_shape(bias.shape[-2:], shape[-2:]):
        return False
    if number_of(bias.inputs[1]) != 0 or not is_low(bias.inputs[2]):
        return False
    return same_shape(bias.inputs[0].shape[-2:], shape[-2:]) and is_causal(bias.inputs[0])


def reaches_up(bias: Value) -> bool:
    """True for a constant, or a Where of constants, that holds inf or NaN."""
    parts = bias.inputs[1:] if bias.op == "Where" else (bias,)
    return any(v is not None and v.blob is not None and not v.blob.extremes[1] < np.inf for v in parts)


def fits(mask: Value, scores: tuple[Dim, ...]) -> bool:
    """True where the mask broadcasts to the scores and has their number of keys."""
    pairs = list(zip(reversed(mask.shape), reversed(scores), strict=False))
    if not 2 <= mask.rank <= 4:
        return False
    same = [dims.same(d, t) is True for d, t in pairs]
    return same[0] and all(s or (type(d) is int and d == 1) for s, (d, _) in zip(same, pairs, strict=True))


# ---------------------------------------------------------------------------------------------- the rules


def _written_out(rng: np.random.Generator) -> Value:
    batch, length, keys = (dims.symbol(name) for name in ("batch", "length", "keys"))
    q = param(Tensor(DType.FLOAT, (batch, 2, length, 4)))
    k, v = (param(Tensor(DType.FLOAT, (batch, 2, keys, 4))) for _ in range(2))
    scores = op.MatMul(q, op.Transpose(k, perm=(0, 1, 3, 2)))
    shapes = ((batch, 1, length, keys), (1, 2, length, keys), (length, keys), (batch, 1, 1, keys))
    if rng.random() < 0.2:
        scores = op.Mul(scores, const(np.array([0.5, 2.0], np.float32).reshape(2, 1, 1)))
    elif rng.random() < 0.2:
        scores = op.Mul(op.Tanh(op.Div(scores, 5.0)), 5.0)
    for _ in range(int(rng.integers(4))):
        shape = shapes[int(rng.integers(4))]
        kind = int(rng.integers(6))
        if kind < 2:
            scores = op.Mul(scores, 0.3) if kind else op.Div(scores, 3.0)
        elif kind < 4:
            scores = op.Add(*(scores, param(Tensor(DType.FLOAT, shape)))[:: 1 if kind == 2 else -1])
        else:
            seen, low = param(Tensor(DType.BOOL, shape)), float(rng.choice([-np.inf, LEAST, -1e9, -1e4]))
            if rng.random() < 0.3:  # of a number that leaves something of the scores, each side leaves something else
                scores = op.Add(scores, op.Where(seen, 0.0, min(low, LEAST)))
            else:
                scores = op.Where(seen, scores, low) if kind == 4 else op.Where(op.Not(seen), low, scores)
    return op.MatMul(op.Softmax(scores, axis=-1), v)


def _flat(rng: np.random.Generator) -> Value:
    """A sample: scores with the heads of all sequences along one axis, and a bias for each."""
    batch, length, keys = (dims.symbol(name) for name in ("batch", "length", "keys"))
    q = param(Tensor(DType.FLOAT, (batch, 2, length, 4)))
    k, v = (param(Tensor(DType.FLOAT, (batch, 2, keys, 4))) for _ in range(2))
    many = dims.mul(batch, 2)
    flat_q = op.Reshape(q, shape_vector((many, length, 4)))
    flat_k = op.Reshape(op.Transpose(k, perm=(0, 1, 3, 2)), shape_vector((many, 4, keys)))
    slopes = op.Reshape(param(Tensor(DType.FLOAT, (batch, 2, keys))), shape_vector((many, 1, keys)))
    scores = op.Mul(op.MatMul(flat_q, flat_k), 0.4)
    scores = op.Add(scores, slopes) if rng.random() < 0.5 else op.Add(slopes, scores)
    scores = op.Reshape(scores, shape_vector((batch, 2, length, keys)))
    if rng.random() < 0.5:
        scores = op.Add(scores, param(Tensor(DType.FLOAT, (batch, 1, length, keys))))
    return op.MatMul(op.Softmax(scores, axis=-1), v)


def _windows(rng: np.random.Generator) -> Value:
    """A sample: scores of four windows of each image, with a mask for each window."""
    batch = dims.symbol("batch")
    many = dims.mul(batch, 4)
    q, k, v = (param(Tensor(DType.FLOAT, (many, 2, 3, 5))) for _ in range(3))
    scores = op.Add(op.MatMul(q, op.Transpose(k, perm=(0, 1, 3, 2))), param(Tensor(DType.FLOAT, (1, 2, 3, 3))))
    apart = op.Reshape(scores, shape_vector((batch, 4, 2, 3, 3), q))
    masked = op.Add(apart, param(Tensor(DType.FLOAT, (1, 4, 1, 3, 3))))
    return op.MatMul(op.Softmax(op.Reshape(masked, shape_vector((many, 2, 3, 3), q)), axis=-1), v)


def _sample(rng: np.random.Generator) -> Value:
    return (_flat, _windows, _written_out, _written_out, _written_out)[int(rng.integers(5))](rng)


FARTHEST = 2.0**63
"""How far from 1 a factor and a cap of scores may be: Attention multiplies in another order."""


def attended(m: Match, mended: bool = False) -> Made:
    """The Attention that stands for shares times values, or the reason why there is none.

    The shares of a query that sees no key are NaN, which the mask tells; where they were `mended`, they are zeros,
    which Attention gives as well.
    """
    shares, v = m.shares, m.v
    if shares.rank != 4 or v.rank != 4 or m.axis % 4 != 3 or shares.dtype is not DType.FLOAT:
        return decline("not heads of f32, or another axis")
    found = scores_of(m, shares.inputs[0], shares.shape)
    if found is None:
        return decline("the scores are not made of a product by numbers, biases and masks")
    if not all(1 / FARTHEST <= n <= FARTHEST for n in (found.scale, found.cap or 1.0)):
        return decline("a factor, or a cap, that scores leave their range by")
    q, k = found.q, _turned_back(found.k_turned)
    if k is None or q.rank != 4 or k.rank != 4:
        return decline("the keys are not turned, or heads have no axis of their own")
    lead = q.shape[:2]
    if type(lead[1]) is not int or not all(same_shape(x.shape[:2], lead) for x in (k, v)):
        return decline("batches or heads broadcast, or their number is not known")
    masks = mask_of(found, shares.shape)
    if masks is None:
        return decline("low numbers of several kinds hide keys")
    mask, causal = masks
    if mended and any(map(reaches_up, found.biases)):
        return decline("a mask adds infinity, of which the shares are mended, and Attention's are not")
    if mask is not None and not fits(mask, shares.shape):
        return decline("the mask is larger than the scores, or does not say of each key")
    if mask is not None and not mended and may_be_blind(mask):
        mask = with_nan(mask)
    if found.rows is not None:
        q = op.Mul(q, found.rows)
        if not same_shape(q.shape, found.q.shape):
            return decline("a factor is larger than the queries")
    return op.Attention(q, k, v, mask, scale=found.scale, softcap=found.cap, is_causal=causal)


def _turned_back(k: Value) -> Value | None:
    """The keys as (batch, heads, keys, size), if the value is a Transpose of them or a view of one."""
    under = k.inputs[0] if k.op in VIEWS else k
    if k.op != "Transpose" and (under is None or under.op not in ("Transpose", *VIEWS)):
        return None
    return op.Transpose(k, perm=(0, 1, 3, 2))


@rule(
    p.MatMul(p.Softmax(hole("scores", ops=ABOVE), axis=attr("axis")).named("shares"), hole("v")),
    exact=False,
    sample=_sample,
)
def attention(m: Match) -> Made:
    """Softmax(q @ k^T * scale + bias) @ v -> Attention(q, k, v, bias)"""
    return attended(m)


def _with_guard(rng: np.random.Generator) -> Value:
    made = _sample(rng)
    shares = made.inputs[0]
    return op.MatMul(op.Where(op.IsNaN(shares), 0.0, shares), made.inputs[1])


_shares = p.Softmax(hole("scores", ops=ABOVE), axis=attr("axis")).named("shares")
_guarded = p.Where(p.IsNaN(hole("shares")), constant("zero", where=is_all_zeros), _shares).named("guarded")


@rule(p.MatMul(_guarded, hole("v")), exact=False, sample=_with_guard)
def attention_without_nan(m: Match) -> Made:
    """s = Softmax(q @ k^T * scale + bias), Where(IsNaN(s), 0, s) @ v -> Attention(q, k, v, bias), which sees to it"""
    if not same_shape(m.guarded.shape, m.shares.shape):
        return decline("the zeros broadcast the shares")
    return attended(m, mended=True)


WRITTEN_OUT: tuple[Rule, ...] = (attention, attention_without_nan)
"""Attention written out."""
