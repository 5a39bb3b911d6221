"""Integers that are counted, not data: positions, and the masks that compare them.

`counted(x)` reads an int64 tensor as start + step * i + ... over its axes, where that is known: a Range, seen through
views, slices, sums and concatenations that go on counting.
"""

from __future__ import annotations

import attrs

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from irkit.dims import Dim, signs
from irkit.ops.types.contents import contents
from irkit.pattern import attribute_of, uniform
from passes.analysis.known_sizes import sizes_held
from passes.analysis.questions import axes_of, positive

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


def count_of(value: Value | None, depth: int = DEEP) -> Counted | None:
    """What an int64 tensor counts; None where it does not, or where that cannot be told."""
    if value is None or depth < 0 or not isinstance(value.type, Tensor) or value.dtype is not DType.INT64:
        return None
    if value.op in ("Unsqueeze", "Squeeze", "Expand", "Slice", "Concat", "Add", "Sub", "Identity", "Mul"):
        return _READERS[value.op](value, depth - 1)
    if value.op == "Range":
        start, step = sizes_held(value.inputs[0]), sizes_held(value.inputs[2])
        return None if start is None or step is None else Counted(start.dims[0], (step.dims[0],))
    number = uniform(value)
    if number is not None:
        return Counted(int(number), (0,) * value.rank)
    sizes = sizes_held(value)
    return Counted(sizes.dims[0], (0,) * sizes.rank) if sizes is not None and len(sizes.dims) == 1 else None


def _unsqueeze(value: Value, depth: int) -> Counted | None:
    inner, axes = count_of(value.inputs[0], depth), axes_of(value.inputs[1])
    if inner is None or axes is None:
        return None
    steps = iter(inner.steps)
    places = positive(axes, value.rank)
    return Counted(inner.start, tuple(0 if i in places else next(steps) for i in range(value.rank)))


def _squeeze(value: Value, depth: int) -> Counted | None:
    inner, axes = count_of(value.inputs[0], depth), axes_of(value.inputs[1] if len(value.inputs) > 1 else None)
    if inner is None or axes is None:
        return None
    places = positive(axes, len(inner.steps))
    return Counted(inner.start, tuple(step for i, step in enumerate(inner.steps) if i not in places))


def _expand(value: Value, depth: int) -> Counted | None:
    source = value.inputs[0]
    inner = count_of(source, depth)
    if inner is None or source is None:
        return None
    return inner.over(source.shape, value.shape)


def _slice(value: Value, depth: int) -> Counted | None:
    inner, source = count_of(value.inputs[0], depth), value.inputs[0]
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
    axis: int = attribute_of(value, "axis") % value.rank
    found: Counted | None = None
    before: Dim = 0
    for part in value.inputs:
        here = count_of(part, depth)
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


def broadcast_count(operand: Value | None, shape: tuple[Dim, ...], depth: int = DEEP) -> Counted | None:
    """What an operand counts, broadcast to a shape; None where it does not, or where that cannot be told."""
    found = count_of(operand, depth)
    return None if found is None or operand is None else found.over(operand.shape, shape)


def _sum(value: Value, depth: int) -> Counted | None:
    a, b = (broadcast_count(v, value.shape, depth) for v in value.inputs)
    return None if a is None or b is None else a.plus(b, -1 if value.op == "Sub" else 1)


def _product(value: Value, depth: int) -> Counted | None:
    a, b = (broadcast_count(v, value.shape, depth) for v in value.inputs)
    if a is None or b is None:
        return None
    if a.axes:
        a, b = b, a
    if a.axes:
        return None
    return Counted(dims.mul(a.start, b.start), tuple(dims.mul(a.start, s) for s in b.steps))


def _identity(value: Value, depth: int) -> Counted | None:
    return count_of(value.inputs[0], depth)


_READERS = {
    "Unsqueeze": _unsqueeze, "Squeeze": _squeeze, "Expand": _expand, "Slice": _slice, "Concat": _concat, "Add": _sum,
    "Sub": _sum, "Mul": _product, "Identity": _identity,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- comparisons

ANSWERS = {"Equal": 0, "Less": -1, "LessOrEqual": -1, "Greater": 1, "GreaterOrEqual": 1}
"""Comparisons, by what they ask of the sign of a difference."""


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


def comparison_result(name: str, low: Dim, high: Dim) -> bool | None:
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


def is_causal(mask: Value, past: Dim = 0) -> bool:
    """True for (..., queries, keys) that is True just where the key is not after the query.

    `past` keys stand before that of the first query.
    """
    flipped = mask.op == "GreaterOrEqual"
    if not flipped and mask.op != "LessOrEqual":
        return False
    rank = mask.rank
    keys, queries = (broadcast_count(v, mask.shape) for v in (reversed(mask.inputs) if flipped else mask.inputs))
    if keys is None or queries is None or rank < 2:
        return False
    gap = keys.plus(queries, -1)
    return dims.same(dims.add(gap.start, past), 0) is True and gap.steps == (*(0,) * (rank - 2), -1, 1)
