"""Integers that are counted, not data: positions, and the masks that compare them.

`counted(x)` reads an int64 tensor as start + step * i + ... over its axes, where that is known: a Range, seen through
views, slices, sums and concatenations that go on counting. What packed or cached sequences compute from positions
(differences, prefix sums, lookups) then folds away, and a causal mask is seen to be one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.dims import Dim, signs
from irkit.ops.types.context import contents
from irkit.pattern import attribute_of, hole, is_all_zeros, one_of, p, rest, uniform
from irkit.pattern import const as constant
from irkit.rewriting.face import Match, Rule, decline, rule
from passes.analysis.known_sizes import bound_by, built, is_bound, read
from passes.analysis.questions import axes_of, is_known, positive, takes
from passes.rules.movement.transposes import UNARY

DEEP = 24
"""How many operators are looked through."""


@attrs.frozen
class Counted:
    """The integers start + sum of step[k] * i[k] over the places i of a shape."""

    start: Dim
    steps: tuple[Dim, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which it counts."""
        return tuple(i for i, step in enumerate(self.steps) if not _is(step, 0))

    def plus(self, other: Counted, sign: int = 1) -> Counted:
        """The sum, or difference, of two over one shape."""
        pairs = zip(self.steps, other.steps, strict=True)
        return Counted(
            dims.add(self.start, dims.mul(other.start, sign)), tuple(dims.add(a, dims.mul(b, sign)) for a, b in pairs)
        )

    def over(self, own: tuple[Dim, ...], shape: tuple[Dim, ...]) -> Counted | None:
        """The same, broadcast from its own shape to another; None where a size that may be 1 may be repeated."""
        more = len(shape) - len(own)
        for step, size, wanted in zip(self.steps, own, shape[more:], strict=True):
            if not _is(step, 0) and not _is(size, 1) and dims.same(size, wanted) is not True:
                return None
        steps = (0 if _is(size, 1) else step for step, size in zip(self.steps, own, strict=True))
        return Counted(self.start, ((0,) * more + (*steps,)))


def _is(dim: Dim, number: int) -> bool:
    return type(dim) is int and dim == number


def counted(value: Value | None, depth: int = DEEP) -> Counted | None:
    """What an int64 tensor counts; None where it does not, or where that cannot be told."""
    if value is None or depth < 0 or not isinstance(value.type, Tensor) or value.dtype is not DType.INT64:
        return None
    if value.op in ("Unsqueeze", "Squeeze", "Expand", "Slice", "Concat", "Add", "Sub", "Identity", "Mul"):
        return _READERS[value.op](value, depth - 1)
    if value.op == "Range":
        start, step = read(value.inputs[0]), read(value.inputs[2])
        return None if start is None or step is None else Counted(start.dims[0], (step.dims[0],))
    number = uniform(value)
    if number is not None:
        return Counted(int(number), (0,) * value.rank)
    sizes = read(value)
    return Counted(sizes.dims[0], (0,) * sizes.rank) if sizes is not None and len(sizes.dims) == 1 else None


def _unsqueeze(value: Value, depth: int) -> Counted | None:
    inner, axes = counted(value.inputs[0], depth), axes_of(value.inputs[1])
    if inner is None or axes is None:
        return None
    steps = iter(inner.steps)
    places = positive(axes, value.rank)
    return Counted(inner.start, tuple(0 if i in places else next(steps) for i in range(value.rank)))


def _squeeze(value: Value, depth: int) -> Counted | None:
    inner, axes = counted(value.inputs[0], depth), axes_of(value.inputs[1] if len(value.inputs) > 1 else None)
    if inner is None or axes is None:
        return None
    places = positive(axes, len(inner.steps))
    return Counted(inner.start, tuple(step for i, step in enumerate(inner.steps) if i not in places))


def _expand(value: Value, depth: int) -> Counted | None:
    source = value.inputs[0]
    inner = counted(source, depth)
    if inner is None or source is None:
        return None
    return inner.over(source.shape, value.shape)


def _slice(value: Value, depth: int) -> Counted | None:
    inner, source = counted(value.inputs[0], depth), value.inputs[0]
    if inner is None or source is None:
        return None
    starts, given = contents(value.inputs[1]), value.inputs[3:5]
    axes = axes_of(given[0]) if given else tuple(range(len(starts or ())))
    strides = contents(given[1]) if len(given) > 1 else (1,) * len(starts or ())
    if starts is None or axes is None or strides is None:
        return None
    start, steps = inner.start, list(inner.steps)
    for begin, axis, stride in zip(starts, axes, strides, strict=True):
        place = axis % source.rank
        if _is(steps[place], 0):
            continue
        if type(stride) is not int or stride < 1 or type(begin) is not int:
            return None
        if begin < 0:
            if type(source.shape[place]) is not int:
                return None
            begin = max(0, begin + source.shape[place])
        elif begin > 0 and not _at_least(source.shape[place], begin):
            return None
        start = dims.add(start, dims.mul(steps[place], begin))
        steps[place] = dims.mul(steps[place], stride)
    return Counted(start, tuple(steps))


def _at_least(size: Dim, number: int) -> bool:
    """True where a size is certainly no smaller; an empty slice beyond the end counts nothing, and may count so."""
    return type(size) is not int or size >= number


def _concat(value: Value, depth: int) -> Counted | None:
    axis = attribute_of(value, "axis") % value.rank
    found: Counted | None = None
    before: Dim = 0
    for part in value.inputs:
        here = counted(part, depth)
        if here is None or part is None:
            return None
        size = part.shape[axis]
        if found is None:
            found = here
        elif _is(before, 1):  # one place alone fits any step: the next part says which
            found = Counted(found.start, _with(found.steps, axis, here.steps[axis]))
        step = found.steps[axis]
        if _is(size, 1):
            here = Counted(here.start, _with(here.steps, axis, step))
        goes_on = dims.same(dims.add(found.start, dims.mul(step, before)), here.start) is True
        if not goes_on or any(dims.same(a, b) is not True for a, b in zip(found.steps, here.steps, strict=True)):
            return None
        before = dims.add(before, size)
    return found


def _with(steps: tuple[Dim, ...], axis: int, step: Dim) -> tuple[Dim, ...]:
    return (*steps[:axis], step, *steps[axis + 1 :])


def spread(operand: Value | None, shape: tuple[Dim, ...], depth: int = DEEP) -> Counted | None:
    """What an operand counts, broadcast to a shape; None where it does not, or where that cannot be told."""
    found = counted(operand, depth)
    return None if found is None or operand is None else found.over(operand.shape, shape)


def _sum(value: Value, depth: int) -> Counted | None:
    a, b = (spread(v, value.shape, depth) for v in value.inputs)
    return None if a is None or b is None else a.plus(b, -1 if value.op == "Sub" else 1)


def _product(value: Value, depth: int) -> Counted | None:
    a, b = (spread(v, value.shape, depth) for v in value.inputs)
    if a is None or b is None:
        return None
    if a.axes:
        a, b = b, a
    if a.axes:
        return None
    return Counted(dims.mul(a.start, b.start), tuple(dims.mul(a.start, s) for s in b.steps))


def _identity(value: Value, depth: int) -> Counted | None:
    return counted(value.inputs[0], depth)


_READERS = {
    "Unsqueeze": _unsqueeze, "Squeeze": _squeeze, "Expand": _expand, "Slice": _slice, "Concat": _concat, "Add": _sum,
    "Sub": _sum, "Mul": _product, "Identity": _identity,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- the plainest form


def plain(m: Match, found: Counted, shape: tuple[Dim, ...], *binders: Value) -> Value | None:
    """A tensor that counts so: a number or a Range, unsqueezed and expanded; None where it counts along two axes."""
    sources = bound_by(*binders)
    axes = found.axes
    if len(axes) > 1 or not is_known(shape) or not is_bound(m, (*shape, found.start, *found.steps), sources):
        return None
    if not axes:
        return _expanded(m, built(m, (found.start,), 0, sources), shape, sources)
    (axis,) = axes
    step, size = found.steps[axis], shape[axis]
    end = dims.add(found.start, dims.mul(step, size))
    run = op.Range(*(built(m, (d,), 0, sources) for d in (found.start, end, step)))
    if dims.same(run.shape[0], size) is not True:
        return None
    after = len(shape) - 1 - axis
    run = op.Unsqueeze(run, np.array(range(1, after + 1))) if after else run
    return _expanded(m, run, shape, sources)


def _expanded(m: Match, value: Value, shape: tuple[Dim, ...], sources: Any) -> Value:
    """The value broadcast to a shape; itself where it has that shape."""
    if len(shape) == value.rank and all(dims.same(a, b) is True for a, b in zip(shape, value.shape, strict=True)):
        return value
    return op.Expand(value, built(m, shape, 1, sources))


def _weight(value: Value, depth: int = DEEP) -> int:
    """How many operators stand above Ranges and leaves."""
    if depth < 0 or value.op in ("Param", "Constant", "ShapeVector", "Range") or read(value) is not None:
        return 0
    return 1 + sum(_weight(v, depth - 1) for v in value.inputs[:1] if v is not None)


def _run(rng: np.random.Generator) -> Value:
    """Positions along one axis, of one of several shapes."""
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
def count_plainly(m: Match) -> Any:
    """what goes on counting -> Range, Unsqueeze, Expand"""
    found = counted(m.root) if m.root.rank else None
    if found is None:
        return decline("it does not count")
    made = plain(m, found, m.root.shape, *(v for v in m.operands if v is not None))
    if made is None or _weight(made) >= _weight(m.root) + (m.root.op == "Concat"):
        return decline("it counts along two axes, or is as plain as can be")
    return made


# ---------------------------------------------------------------------------------------------- comparisons

ANSWERS = {"Equal": 0, "Less": -1, "LessOrEqual": -1, "Greater": 1, "GreaterOrEqual": 1}
"""Comparisons, by what they ask of the sign of a difference."""


def _comparison(rng: np.random.Generator) -> Value:
    run = _run(rng)
    return getattr(op, str(rng.choice(list(ANSWERS))))(op.Add(run, int(rng.integers(-1, 2))), run)


@rule(one_of(*ANSWERS)(hole("x"), hole("y")), sample=_comparison)
def compare_counted(m: Match) -> Any:
    """positions == positions -> True or False, where all comparisons come out alike"""
    if not isinstance(m.x.type, Tensor) or m.x.dtype is not DType.INT64 or m.root.rank == 0:
        return decline("no positions")
    a, b = (spread(v, m.root.shape) for v in (m.x, m.y))
    if a is None or b is None:
        return decline("they are not counted")
    gap = extremes(a.plus(b, -1), m.root.shape)
    if gap is None:
        return decline("some may hold and others not")
    answer = decided(m.root.op, *gap)
    shape, sources = m.root.shape, bound_by(m.x, m.y)
    if answer is None or not is_known(shape) or not is_bound(m, shape, sources):
        return decline("the difference may be of either sign")
    return _expanded(m, const(np.array(answer)), shape, sources)


def extremes(gap: Counted, shape: tuple[Dim, ...]) -> tuple[Dim, Dim] | None:
    """The least and the greatest of what is counted over a shape; None where the sign of a step is open."""
    low = high = gap.start
    for step, size in zip(gap.steps, shape, strict=True):
        reach = dims.mul(step, dims.sub(size, 1))
        if at_least(step, 0):
            high = dims.add(high, reach)
        elif at_least(dims.mul(step, -1), 0):
            low = dims.add(low, reach)
        else:
            return None
    return low, high


def at_least(dim: Dim, number: int) -> bool:
    """True for what is certainly no smaller than a number."""
    gap = dims.sub(dim, number)
    return gap >= 0 if isinstance(gap, int) else signs.is_nonnegative(gap)


def decided(name: str, low: Dim, high: Dim) -> bool | None:
    """Whether x - y between `low` and `high` answers a comparison; None where it does not."""
    above, below = at_least(low, 1), at_least(dims.mul(high, -1), 1)
    if name == "Equal":
        if dims.same(low, 0) is True and dims.same(high, 0) is True:
            return True
        return False if above or below or (dims.same(low, high) is True and dims.same(low, 0) is False) else None
    if name in ("LessOrEqual", "Greater"):
        yes, no = above, at_least(dims.mul(high, -1), 0)
    else:
        yes, no = at_least(low, 0), below
    return None if not (yes or no) else yes is (name in ("Greater", "GreaterOrEqual"))


# ---------------------------------------------------------------------------------------------- one number throughout


@rule(one_of(*UNARY, "Cast")(p.Expand(hole("x"), hole("shape"))))
def unary_of_expand(m: Match) -> Any:
    """f(Expand(x)) -> Expand(f(x))"""
    if not takes("Expand", m.root.dtype):
        return decline(f"Expand takes no {m.root.dtype.short}")
    return op.Expand(call(m.root.op, [m.x], dict(m.root.attributes)), m.shape)


@rule(p.CumSum(p.Expand(constant("zero", where=is_all_zeros), hole("shape")), hole("axis")))
def sum_of_nothing(m: Match) -> Any:
    """CumSum of zeros -> zeros"""
    return m.root.inputs[0]


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
def look_up_counted(m: Match) -> Any:
    """GatherND(what counts, positions) -> what counts"""
    if m.root.attribute("batch_dims") or len(m.parts) != m.data.rank or not all(_is(v.shape[-1], 1) for v in m.parts):
        return decline("the places are no grid of whole positions")
    shape = m.root.shape
    if not is_known(shape):
        return decline("the dimensions are not known")
    same = _same_throughout(m.data)
    if same is not None:
        sources = bound_by(m.places)
        return _expanded(m, same, shape, sources) if is_bound(m, shape, sources) else decline("a size is not bound")
    inner, places = counted(m.data), [counted(v) for v in m.parts]
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
    """The scalar that every element is, where the value is one expanded."""
    if value.op == "Expand" and value.inputs[0] is not None and value.inputs[0].rank == 0:
        return value.inputs[0]
    return None


# ---------------------------------------------------------------------------------------------- causal masks


def is_causal(mask: Value, past: Dim = 0) -> bool:
    """True for (..., queries, keys) that is True just where the key is not after the query.

    `past` keys stand before that of the first query.
    """
    flipped = mask.op == "GreaterOrEqual"
    if not flipped and mask.op != "LessOrEqual":
        return False
    rank = mask.rank
    keys, queries = (spread(v, mask.shape) for v in (reversed(mask.inputs) if flipped else mask.inputs))
    if keys is None or queries is None or rank < 2:
        return False
    gap = keys.plus(queries, -1)
    return dims.same(dims.add(gap.start, past), 0) is True and gap.steps == (*(0,) * (rank - 2), -1, 1)


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
def causal_attention(m: Match) -> Any:
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
