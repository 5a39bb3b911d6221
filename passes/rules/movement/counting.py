"""Integers that count (0, 1, 2, ... along an axis), brought to one form, and what follows from it.

The positions that models of packed or cached sequences compute (differences, prefix sums, lookups) fold away, and a
causal mask is recognized.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.dims import Dim, signs
from irkit.pattern import const as constant
from irkit.pattern import hole, is_all_zeros, one_of, p, rest
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.counting import (
    ANSWERS,
    DEEP,
    Counted,
    broadcast_count,
    comparison_result,
    count_of,
    extremes,
    is_causal,
)
from passes.analysis.known_sizes import Sizes, bound_by, is_bound, sizes_held, sizes_value
from passes.analysis.questions import is_known, is_one, takes
from passes.rules.movement.transposes import UNARY

# ---------------------------------------------------------------------------------------------- the plainest form


def plain(m: Match, found: Counted, shape: tuple[Dim, ...], *binders: Value) -> Value | None:
    """A tensor that counts the same: a number or a Range, unsqueezed and expanded; None for one that counts along two
    axes."""
    sources = bound_by(*binders)
    axes = found.axes
    if len(axes) > 1 or not is_known(shape) or not is_bound(m, (*shape, found.start, *found.steps), sources):
        return None
    if not axes:
        return _expanded(m, sizes_value(m, (found.start,), 0, sources), shape, sources)
    (axis,) = axes
    step, size = found.steps[axis], shape[axis]
    end = dims.add(found.start, dims.mul(step, size))
    run = op.Range(*(sizes_value(m, (d,), 0, sources) for d in (found.start, end, step)))
    if dims.same(run.shape[0], size) is not True:
        return None
    after = len(shape) - 1 - axis
    run = op.Unsqueeze(run, np.array(range(1, after + 1))) if after else run
    return _expanded(m, run, shape, sources)


def _expanded(m: Match, value: Value, shape: tuple[Dim, ...], sources: Sizes) -> Value:
    """The value broadcast to a shape; itself where it has that shape."""
    if len(shape) == value.rank and all(dims.same(a, b) is True for a, b in zip(shape, value.shape, strict=True)):
        return value
    return op.Expand(value, sizes_value(m, shape, 1, sources))


def _weight(value: Value, depth: int = DEEP) -> int:
    """How many operators the value is computed with, Ranges and leaves not counted."""
    if depth < 0 or value.op in ("Param", "Constant", "ShapeVector", "Range") or sizes_held(value) is not None:
        return 0
    return 1 + sum(_weight(v, depth - 1) for v in value.inputs[:1] if v is not None)


def _run(rng: np.random.Generator) -> Value:
    """A sample: positions along one axis, of a shape drawn at random."""
    x = param(Tensor(DType.FLOAT, (dims.symbol("batch"), dims.symbol("length"))))
    start, step = int(rng.integers(-2, 3)), int(rng.choice([1, 1, 2, 3]))
    size = op.Squeeze(op.Shape(x, start=1, end=2), [0])
    sizes = shape_vector((dims.dim(dims.symbol("length")),), x)
    run = op.Range(start, op.Add(op.Squeeze(sizes, [0]), 5), step)
    if rng.random() < 0.5:
        return run if rng.random() < 0.5 else op.Range(start, size, 1)
    rows = op.Unsqueeze(run, [int(rng.integers(2))])
    wide = (dims.symbol("batch"), rows.shape[1]) if rows.shape[0] == 1 else (rows.shape[0], 3)
    return op.Expand(rows, shape_vector(wide, x))


def _counting(rng: np.random.Generator) -> Value:
    run = _run(rng)
    last, size = run.rank - 1, int(rng.integers(1, 4))
    makers: tuple[Any, ...] = (
        lambda: op.Add(run, 3), lambda: op.Sub(run, 1), lambda: op.Mul(run, 2), lambda: op.Sub(op.Add(run, 7), run),
        lambda: op.Slice(run, [1], [2**62], [last]), lambda: op.Slice(run, [0], [-1], [last], [2]),
        lambda: op.Concat(op.Sub(op.Slice(run, [0], [1], [last]), 1), run, axis=last),
        lambda: op.Add(op.Slice(run, [0], [size], [last]), op.Range(0, 2, 1)),
    )  # fmt: skip
    return makers[int(rng.integers(len(makers)))]()


@rule(one_of("Add", "Sub", "Mul", "Slice", "Concat", "Squeeze")(*rest("operands")).typed(dtype="i64"), sample=_counting)
def count_plainly(m: Match) -> Made:
    """what goes on counting -> Range, Unsqueeze, Expand"""
    found = count_of(m.root) if m.root.rank else None
    if found is None:
        return decline("it does not count")
    made = plain(m, found, m.root.shape, *(v for v in m.operands if v is not None))
    if made is None or _weight(made) >= _weight(m.root) + (m.root.op == "Concat"):
        return decline("it counts along two axes, or is as plain as can be")
    return made


# ---------------------------------------------------------------------------------------------- comparisons


def _comparison(rng: np.random.Generator) -> Value:
    run = _run(rng)
    return getattr(op, str(rng.choice(list(ANSWERS))))(op.Add(run, int(rng.integers(-1, 2))), run)


@rule(one_of(*ANSWERS)(hole("x"), hole("y")), sample=_comparison)
def compare_counted(m: Match) -> Made:
    """positions == positions -> True or False, where all comparisons come out alike"""
    if not isinstance(m.x.type, Tensor) or m.x.dtype is not DType.INT64 or m.root.rank == 0:
        return decline("no positions")
    a, b = (broadcast_count(v, m.root.shape) for v in (m.x, m.y))
    if a is None or b is None:
        return decline("they are not counted")
    gap = extremes(a.plus(b, -1), m.root.shape)
    if gap is None:
        return decline("some may hold and others not")
    answer = comparison_result(m.root.op, *gap)
    shape, sources = m.root.shape, bound_by(m.x, m.y)
    if answer is None or not is_known(shape) or not is_bound(m, shape, sources):
        return decline("the difference may be of either sign")
    return _expanded(m, const(np.array(answer)), shape, sources)


# ---------------------------------------------------------------------------------------------- one number throughout


@rule(one_of(*UNARY, "Cast")(p.Expand(hole("x"), hole("shape"))))
def unary_of_expand(m: Match) -> Made:
    """f(Expand(x)) -> Expand(f(x))"""
    if not takes("Expand", m.root.dtype):
        return decline(f"Expand takes no {m.root.dtype.short}")
    return op.Expand(call(m.root.op, [m.x], dict(m.root.attributes)), m.shape)


@rule(p.CumSum(p.Expand(constant("zero", where=is_all_zeros), hole("shape")).named("zeros"), hole("axis")))
def sum_of_nothing(m: Match) -> Made:
    """CumSum of zeros -> zeros"""
    return m.zeros


def _lookup(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = param(Tensor(DType.FLOAT, (batch, length)))
    rows, columns = (op.Range(0, op.Squeeze(op.Shape(x, start=i, end=i + 1), [0]), 1) for i in range(2))
    data = op.Expand(op.Add(columns, 3) if rng.random() < 0.5 else const(7), shape_vector((batch, length)))
    grid = shape_vector((batch, 1, length, 1))
    places = (op.Expand(op.Unsqueeze(rows, [1, 2, 3]), grid), op.Expand(op.Unsqueeze(columns, [0, 1, 3]), grid))
    return op.GatherND(data, op.Concat(*places, axis=-1))


_grid = p.Concat(*rest("parts"), axis=-1).named("places")


@rule(one_of("GatherND")(hole("data"), _grid), sample=_lookup)
def look_up_counted(m: Match) -> Made:
    """GatherND(what counts, positions) -> what counts"""
    if m.root.attribute("batch_dims") or len(m.parts) != m.data.rank or not all(is_one(v.shape[-1]) for v in m.parts):
        return decline("the places are no grid of whole positions")
    shape = m.root.shape
    if not is_known(shape):
        return decline("the dimensions are not known")
    same = _same_throughout(m.data)
    if same is not None:
        sources = bound_by(m.places)
        return _expanded(m, same, shape, sources) if is_bound(m, shape, sources) else decline("a size is not bound")
    inner, places = count_of(m.data), [count_of(v) for v in m.parts]
    if inner is None or any(place is None for place in places):
        return decline("not all is counted")
    start, steps = inner.start, [0] * len(shape)
    for step, place in zip(inner.steps, places, strict=True):
        if place is None or not _is_nonnegative(place):
            return decline("a position may be negative")
        start = dims.add(start, dims.mul(step, place.start))
        steps = [dims.add(a, dims.mul(step, b)) for a, b in zip(steps, place.steps[:-1], strict=True)]
    made = plain(m, Counted(start, tuple(steps)), shape, m.places)
    return decline("it counts along two axes") if made is None else made


def _is_nonnegative(place: Counted) -> bool:
    parts = (place.start, *place.steps)
    return all(d >= 0 if isinstance(d, int) else signs.is_nonnegative(d) for d in parts)


def _same_throughout(value: Value) -> Value | None:
    """The scalar that every element equals, where the value is an expanded one."""
    if value.op == "Expand" and value.inputs[0] is not None and value.inputs[0].rank == 0:
        return value.inputs[0]
    return None


# ---------------------------------------------------------------------------------------------- causal masks


def _masked(rng: np.random.Generator) -> Value:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    q, k, v = (param(Tensor(DType.FLOAT, (batch, 2, length, 4))) for _ in range(3))
    n = op.Squeeze(op.Shape(q, start=2, end=3), [0])
    places = op.Range(0, n, 1)
    rows = op.Unsqueeze(places, [1])
    mask = op.LessOrEqual(places, rows) if rng.random() < 0.5 else op.GreaterOrEqual(rows, places)
    return op.Attention(q, k, v, mask)


_parts: Iterable[Any] = (hole("q"), hole("k"), hole("v"), hole("mask", ops=("LessOrEqual", "GreaterOrEqual")))


@rule(one_of("Attention")(*_parts), sample=_masked, exact=False)
def causal_attention(m: Match) -> Made:
    """Attention(q, k, v, keys <= queries) -> Attention(q, k, v, is_causal=1)"""
    if m.root.attribute("is_causal") or not is_causal(m.mask):
        return decline("the mask is not the causal one")
    if m.q.rank != m.k.rank or any(
        dims.same(a, b) is not True for a, b in zip(m.mask.shape[-2:], (m.q.shape[-2], m.k.shape[-2]), strict=True)
    ):
        return decline("the mask has another size than the scores")
    return call("Attention", [m.q, m.k, m.v], {**dict(m.root.attributes), "is_causal": 1})


ORDINALS: tuple[Rule, ...] = (
    count_plainly, compare_counted, unary_of_expand, sum_of_nothing, look_up_counted,
)  # fmt: skip
"""Integers that are counted in their plainest form, and what follows of them."""

CAUSAL: tuple[Rule, ...] = (causal_attention,)
"""Masks that attention makes itself."""
