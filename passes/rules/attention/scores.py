"""Operands of attention: factors of queries and keys, and masks that are repeated."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.pattern import attribute_of, hole, one_of, p, rest, uniform
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.known_sizes import bound_by, is_bound, sizes_held, sizes_value
from passes.analysis.questions import is_known, same_shape

# ---------------------------------------------------------------------------------------------- factors

MOVES = ("Transpose", "Reshape")
"""What a factor may stand under."""


def without_factor(value: Value | None, depth: int = 3) -> tuple[Value, float] | None:
    """(x, c) where the value is x * c for a number c, or a Transpose or Reshape of that; else None."""
    if value is None or depth == 0 or value.op not in ("Mul", "Div", *MOVES):
        return None
    first, second = value.inputs[0], value.inputs[1] if len(value.inputs) > 1 else None
    if value.op in MOVES:
        found = without_factor(first, depth - 1)
        if found is None:
            return None
        return call(value.op, [found[0], *value.inputs[1:]], dict(value.attributes)), found[1]
    for x, c in ((first, second), (second, first)):
        if x is None or c is None or c.rank > x.rank or c.blob is None or c.blob.size != 1:
            continue
        number = uniform(c)
        if isinstance(number, float) and number and np.isfinite(number):
            return None if value.op == "Div" and c is first else (x, 1 / number if value.op == "Div" else number)
    return None


def _with_factors(rng: np.random.Generator) -> Value:
    batch, length, keys = (dims.symbol(name) for name in ("batch", "length", "keys"))
    q, k, v = (param(Tensor(DType.FLOAT, (batch, n, 2, 4))) for n in (length, keys, keys))
    scaled = [op.Mul(q, 0.5) if rng.random() < 0.7 else op.Div(q, 3.0), op.Mul(k, 0.6) if rng.random() < 0.7 else k]
    turned = [op.Transpose(x, perm=(0, 2, 1, 3)) for x in (*scaled, v)]
    return call("Attention", turned, {"scale": 0.7} if rng.random() < 0.5 else {})


@rule(one_of("Attention")(hole("q"), hole("k"), hole("v"), *rest("more")), exact=False, sample=_with_factors)
def attention_of_factors(m: Match) -> Made:
    """Attention(q * a, k * b, v) -> Attention(q, k, v, scale * a * b), for numbers a and b"""
    q = without_factor(m.q)
    past = len(m.more) > 1 and m.more[1] is not None
    k = None if past or not isinstance(m.root.type, Tensor) else without_factor(m.k)
    if q is None and k is None:
        return decline("no number is multiplied in")
    if m.q.dtype is DType.DOUBLE:
        return decline("the scale is kept in float32")
    scale = m.root.attribute("scale")
    if scale is None:
        size = m.q.shape[-1] if m.q.rank == 4 else dims.floordiv(m.q.shape[-1], attribute_of(m.root, "q_num_heads"))
        if type(size) is not int or not size:
            return decline("the size of a head is not known")
        scale = size**-0.5
    for _, factor in filter(None, (q, k)):
        scale *= factor
    if not scale > 0 or not np.isfinite(np.float32(scale)) or not np.float32(scale):
        return decline("the scale would not be a positive number of float32")
    operands = [m.q if q is None else q[0], m.k if k is None else k[0], m.v, *m.more]
    return call("Attention", operands, {**dict(m.root.attributes), "scale": float(scale)})


# ---------------------------------------------------------------------------------------------- masks


def _anded(rng: np.random.Generator) -> Value:
    rows, columns = dims.symbol("rows"), dims.symbol("columns")
    mask = param(Tensor(DType.BOOL, (rows, 1, columns)))
    size = param(Tensor(DType.BOOL, (1, dims.symbol("middle"), 1)))
    wide = op.Expand(const(bool(rng.random() < 0.5)), shape_vector((1, dims.symbol("middle"), 1), size))
    function = op.And if rng.random() < 0.5 else op.Or
    return op.Or(function(mask, wide) if rng.random() < 0.5 else function(wide, mask), size)


_throughout = p.Expand(constant("c"), hole("shape"))


@rule(one_of("And", "Or")(_throughout, hole("x")), sample=lambda rng: _anded(rng).inputs[0])
def logic_of_expand(m: Match) -> Made:
    """Expand(True) & x -> Expand(x); Expand(False) & x -> Expand(False); and so for |"""
    found, shape = uniform(m.c), m.root.shape
    sources = [each for each in (sizes_held(m.shape),) if each is not None] + [bound_by(m.x)]
    if found is None or not is_known(shape) or not is_bound(m, shape, *sources):
        return decline("the constant is mixed, or a size is not bound")
    neutral = bool(found) is (m.root.op == "And")
    kept = m.x if neutral else const(bool(found))
    return kept if same_shape(kept.shape, shape) else op.Expand(kept, sizes_value(m, shape, 1, *sources))


def _penalty(rng: np.random.Generator) -> Value:
    seen = param(Tensor(DType.BOOL, (dims.symbol("batch"), 1, 1, dims.symbol("keys"))))
    wide = op.Expand(seen, shape_vector((dims.symbol("batch"), 1, 3, dims.symbol("keys"))))
    return op.Where(wide, 0.0, -1e9) if rng.random() < 0.5 else op.Where(wide, -1.0, 2.0)


@rule(p.Where(p.Expand(hole("seen"), hole("shape")), constant("a"), constant("b")), sample=_penalty)
def penalty_of_expand(m: Match) -> Made:
    """Where(Expand(c), number, number) -> Expand(Where(c, number, number))"""
    if m.a.blob.size != 1 or m.b.blob.size != 1 or max(m.a.rank, m.b.rank) > m.seen.rank:
        return decline("not two numbers")
    return op.Expand(op.Where(m.seen, m.a, m.b), m.shape)


FACTORED: tuple[Rule, ...] = (attention_of_factors,)
"""Factors in the scale of attention; not exact: they meet elsewhere."""

SPREAD: tuple[Rule, ...] = (logic_of_expand, penalty_of_expand)
"""Masks that hold the same along an axis, computed once along it."""
