"""Slice, Split, Gather and Concat: pairs of them that undo each other or that one operator replaces."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.build import call, const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor, Tuple, Type, same_types, types_of
from irkit.core.vocabulary import ITEM
from irkit.dims import Dim, signs
from irkit.ops.types.context import contents
from irkit.pattern import attr, attribute_of, hole, one_of, p, rest, uniform
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from irkit.support.results import as_tuple
from passes.analysis.questions import axes_of, same_type, small, vector

x, y = hole("x"), hole("y")

FARTHEST = np.iinfo(np.int64).max


@attrs.frozen
class Part:
    """The part of a value from `start` up to `stop` along an axis."""

    source: Value
    axis: int
    start: Dim
    stop: Dim


def part_of(value: Value) -> Part | None:
    """The value read as a part of another one: a Slice along one axis with step 1, or a result of Split; else None."""
    if value.op == ITEM:
        return _of_split(value)
    return _of_slice(value) if value.op == "Slice" else None


def _of_split(value: Value) -> Part | None:
    split = value.inputs[0]
    if split is None or split.op != "Split" or split.inputs[0] is None or not isinstance(split.type, Tuple):
        return None
    source = split.inputs[0]
    axis: int = attribute_of(split, "axis") % source.rank
    start: Dim = 0
    for each in split.type.items[: value.attributes[0][1]]:
        if not isinstance(each, Tensor):
            return None
        start = dims.add(start, each.shape[axis])
    return Part(source, axis, start, dims.add(start, value.shape[axis]))


def _of_slice(value: Value) -> Part | None:
    source = value.inputs[0]
    if source is None or len(value.inputs) < 4 or (len(value.inputs) > 4 and uniform_step(value.inputs[4]) != 1):
        return None
    starts, axes = contents(value.inputs[1]), axes_of(value.inputs[3])
    if starts is None or axes is None or len(axes) != 1 or len(starts) != 1:
        return None
    axis, start = axes[0] % source.rank, starts[0]
    size = source.shape[axis]
    if isinstance(start, int) and isinstance(size, int):
        start = min(start, size) if start >= 0 else max(0, start + size)
    elif not (start >= 0 if isinstance(start, int) else signs.is_nonnegative(start)):
        return None
    return Part(source, axis, start, dims.add(start, value.shape[axis]))


def uniform_step(value: Value | None) -> Any:
    """The step of a Slice, if it is the same along all its axes; else None."""
    return 1 if value is None else uniform(value)


def same(a: Dim, b: Dim) -> bool:
    """True for dimensions that are known to be equal."""
    return a is b or dims.same(a, b) is True


# ---------------------------------------------------------------------------------------------- joined again


def _not_split(rng: np.random.Generator) -> Value:
    x = param(Tensor(DType.FLOAT, (dims.symbol("batch"), 4)))
    sizes, given = ([const(np.array([4]))], {"axis": 1}) if rng.random() < 0.5 else ([], {"num_outputs": 1})
    parts = as_tuple(call("Split", [x, *sizes], given))
    return parts[0].inputs[0] if parts[0].op == ITEM else parts[0]


@rule(one_of("Split")(x, hole("sizes", optional=True)), sample=_not_split)
def split_of_one(m: Match) -> Made:
    """Split(x) into one part -> x"""
    types: tuple[Type, ...] = types_of(m.root.type)
    if len(types) != 1 or same_types(types[0], m.x.type) is not True:
        return decline("there are several parts, or the part is not the whole")
    return (m.x,) if isinstance(m.root.type, Tuple) else m.x


def _cut_up(rng: np.random.Generator) -> Value:
    batch = dims.symbol("batch")
    x = param(Tensor(DType.FLOAT, (batch, 8)))
    if rng.random() < 0.4:
        sizes = np.array([3, 1, 4] if rng.random() < 0.5 else [2, 6])
        parts = list(call("Split", [x, const(sizes)], {"axis": 1}, outputs=len(sizes)))
        parts = parts if rng.random() < 0.5 else parts[:-1] + parts[-1:]
        return op.Concat(*(parts if rng.random() < 0.7 or len(parts) < 3 else parts[1:]), axis=-1)
    at = int(rng.integers(1, 7))
    first = op.Slice(x, np.array([0]), np.array([at]), np.array([1]))
    second = op.Slice(x, np.array([at]), np.array([FARTHEST if rng.random() < 0.5 else 8]), np.array([-1]))
    return op.Concat(first, second, axis=1)


@rule(p.Concat(hole("first", ops=("Slice", ITEM)), *rest("more"), axis=attr("axis")), sample=_cut_up)
def concat_of_parts(m: Match) -> Made:
    """Concat(x[:3], x[3:]) -> x, and for parts that follow one another a Slice of x"""
    axis = m.axis % m.root.rank
    found = [part_of(m.first)]
    if not m.more or found[0] is None or found[0].axis != axis:
        return decline("no parts along that axis")
    for value in m.more:
        part = part_of(value)
        last = found[-1]
        if part is None or last is None or part.source is not last.source or part.axis != axis:
            return decline("the parts are not of one value")
        if not same(last.stop, part.start):
            return decline("the parts do not follow one another")
        found.append(part)
    first, last = found[0], found[-1]
    if last is None:
        return decline("no parts along that axis")
    source = first.source
    if same(first.start, 0) and same(last.stop, source.shape[axis]):
        return source if same_type(source, m.root) else decline("a dimension is not known")
    if type(first.start) is not int or type(last.stop) is not int:
        return decline("sizes would have to be computed")
    return op.Slice(source, vector([first.start]), vector([last.stop]), vector([axis]))


def _offsets(parts: tuple[Value, ...], axis: int) -> list[Dim]:
    """Where each part of a Concat begins, and where the last one ends."""
    found: list[Dim] = [0]
    for value in parts:
        found.append(dims.add(found[-1], value.shape[axis]))
    return found


def _joined(parts: tuple[Value, ...], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)


def _run(offsets: list[Dim], start: Dim, stop: Dim) -> tuple[int, int] | None:
    """The parts between `start` and `stop`, if parts begin and end exactly there; else None."""
    first = next((i for i, d in enumerate(offsets[:-1]) if same(d, start)), None)
    last = next((i for i in range(len(offsets) - 1, 0, -1) if same(offsets[i], stop)), None)
    return None if first is None or last is None or last <= first else (first, last)


def _of_joined(rng: np.random.Generator) -> Value:
    sizes = (2, 3, 4)
    joined = op.Concat(*(param(Tensor(DType.FLOAT, (dims.symbol("batch"), n))) for n in sizes), axis=1)
    start, stop = ((0, 2), (2, 5), (2, 9), (3, 5), (0, 5), (-4, FARTHEST))[int(rng.integers(6))]
    return op.Slice(joined, np.array([start]), np.array([stop]), np.array([1]))


_joined_parts = p.Concat(*rest("parts"), axis=attr("axis"))


@rule(one_of("Slice")(_joined_parts, *rest("bounds")), sample=_of_joined)
def slice_of_concat(m: Match) -> Made:
    """Concat(a, b)[:, len(a):] -> b, and a Slice within one part -> a Slice of that part"""
    axis = m.axis % m.root.rank
    part = part_of(m.root)
    if part is None or part.axis != axis:
        return decline("another axis is cut")
    offsets = _offsets(m.parts, axis)
    run = _run(offsets, part.start, part.stop)
    if run is not None:
        return _joined(m.parts[slice(*run)], axis) if run[1] - run[0] < len(m.parts) else decline("it is the whole")
    if type(part.start) is not int or type(part.stop) is not int:
        return decline("the place of the part is not known")
    for value, (low, high) in zip(m.parts, pairwise(offsets), strict=True):
        if type(low) is not int or type(high) is not int:
            break
        if low <= part.start and part.stop <= high and part.start < part.stop:
            return op.Slice(value, vector([part.start - low]), vector([part.stop - low]), vector([axis]))
    return decline("it cuts across parts")


def _split_joined(rng: np.random.Generator) -> Value:
    joined = op.Concat(*(param(Tensor(DType.FLOAT, (dims.symbol("batch"), n))) for n in (2, 3, 4)), axis=1)
    sizes = ([2, 3, 4], [5, 4], [2, 7], [4, 5])[int(rng.integers(4))]
    return call("Split", [joined, const(np.array(sizes))], {"axis": 1}, outputs=len(sizes))[0].inputs[0]


@rule(one_of("Split")(_joined_parts, hole("sizes", optional=True)), sample=_split_joined)
def split_of_concat(m: Match) -> Made:
    """Split(Concat(a, b)) -> a, b, where it is cut at the joints"""
    rank = m.parts[0].rank
    axis = m.axis % rank
    if attribute_of(m.root, "axis") % rank != axis or not isinstance(m.root.type, Tuple):
        return decline("another axis is cut")
    offsets = _offsets(m.parts, axis)
    found, at = list[Value](), offsets[0]
    for each in m.root.type.items:
        stop = dims.add(at, each.shape[axis])  # type: ignore[union-attr]
        run = _run(offsets, at, stop)
        if run is None:
            return decline("it is not cut at the joints")
        found.append(_joined(m.parts[slice(*run)], axis))
        at = stop
    return tuple(found)


def _gathered(rng: np.random.Generator) -> Value:
    joined = op.Concat(*(param(Tensor(DType.FLOAT, (dims.symbol("batch"), n))) for n in (1, 3, 2)), axis=1)
    return op.Gather(joined, np.array(int(rng.integers(-6, 6))), axis=1)


@rule(p.Gather(_joined_parts, constant("index"), axis=attr("along")), sample=_gathered)
def gather_of_concat(m: Match) -> Made:
    """Gather(Concat(a, b), number) -> Gather of the part where it lies"""
    rank = m.parts[0].rank
    axis = m.axis % rank
    offsets = _offsets(m.parts, axis)
    if m.along % rank != axis or m.index.rank or any(type(d) is not int for d in offsets):
        return decline("another axis, several places, or a size that is not known")
    place = int(m.index.blob.array)
    place += offsets[-1] if place < 0 else 0
    at = next((i for i in range(len(m.parts)) if offsets[i] <= place < offsets[i + 1]), None)
    if at is None:
        return decline("the index is out of range")
    return op.Gather(m.parts[at], const(np.array(place - offsets[at], dtype=np.int64)), axis=axis)


# ---------------------------------------------------------------------------------------------- twice


def _twice(rng: np.random.Generator) -> Value:
    x = param(Tensor(DType.FLOAT, (6, dims.symbol("n"))))
    first = op.Gather(x, rng.integers(-6, 6, 4), axis=0)
    return op.Gather(first, rng.integers(-4, 4, (2,) if rng.random() < 0.5 else ()), axis=0)


@rule(
    p.Gather(p.Gather(x, constant("first"), axis=attr("axis")), constant("second"), axis=attr("along")), sample=_twice
)
def gather_gather(m: Match) -> Made:
    """x[:, a][:, b] -> x[:, a[b]], for constant places of one axis"""
    first, second = small(m.first), small(m.second)
    rank = m.x.rank
    if first is None or second is None or first.ndim != 1 or m.axis % rank != m.along % rank:
        return decline("places of two axes, or many of them")
    size = len(first)
    if second.size and (second.min() < -size or second.max() >= size):
        return decline("an index is out of range")
    return op.Gather(m.x, const(first[second]), axis=m.axis)


def _every_place(rng: np.random.Generator) -> Value:
    places = np.arange(4) if rng.random() < 0.7 else rng.permutation(4)
    return op.Gather(param(Tensor(DType.FLOAT, (dims.symbol("n"), 4))), places, axis=1)


@rule(p.Gather(x, constant("places"), axis=attr("axis")), sample=_every_place)
def gather_everything(m: Match) -> Made:
    """Gather(x, [0, 1, ..., n - 1]) -> x"""
    blob = m.places.blob
    size = m.x.shape[m.axis % m.x.rank]
    if len(blob.shape) != 1 or type(size) is not int or blob.shape[0] != size:
        return decline("not as many places as there are")
    found = small(m.places)
    if found is None or not np.array_equal(np.where(found < 0, found + size, found), np.arange(size)):
        return decline("not in order")
    return m.x


def _cut_twice(rng: np.random.Generator) -> Value:
    size = 9 if rng.random() < 0.6 else dims.symbol("n")
    x = param(Tensor(DType.FLOAT, (2, size)))
    low = 0 if size == 9 and rng.random() < 0.5 else -5
    steps = [int(rng.choice([1, 1, 2])) if size == 9 else 1 for _ in range(2)]
    bounds = [[int(rng.integers(0 if size != 9 else low, 5)), int(rng.choice([3, 6, 8, FARTHEST]))] for _ in range(2)]
    made = x
    for (start, stop), step in zip(bounds, steps, strict=True):
        made = op.Slice(made, np.array([start]), np.array([stop]), np.array([1]), np.array([step]))
    return made


_bounds = (constant("starts"), constant("ends"), constant("axes"), constant("steps", optional=True))
_inner = tuple(constant(f"inner_{c.name}", optional=c.optional) for c in _bounds)


@rule(p.Slice(p.Slice(x, *_inner).once(), *_bounds), sample=_cut_twice)
def slice_slice(m: Match) -> Made:
    """x[a:b][c:d] -> x[a + c:min(b, a + d)], and x[a:b][:, c:d] -> x[a:b, c:d], for constant bounds"""
    rank = m.x.rank
    inner, outer = _cuts(m, "inner_", rank), _cuts(m, "", rank)
    for axis, (start, stop, step) in outer.items():
        if axis in inner:
            both = _cut_of_cut(inner[axis], (start, stop, step), m.x.shape[axis])
            if both is None:
                return decline("an axis of a size that is not known is cut from its end, or in steps")
            inner[axis] = both
        else:
            inner[axis] = (start, stop, step)
    starts, stops, steps = (np.array([cut[i] for cut in inner.values()], dtype=np.int64) for i in range(3))
    more = [] if (steps == 1).all() else [const(steps)]
    made = op.Slice(m.x, const(starts), const(stops), vector(inner), *more)
    if any(type(old) is int and type(new) is not int for old, new in zip(m.root.shape, made.shape, strict=True)):
        return decline("the part in between has a size by a condition, which the bounds do not tell")
    return made


Cut = tuple[int, int, int]


def _cuts(m: Match, prefix: str, rank: int) -> dict[int, Cut]:
    axes = [a % rank for a in axes_of(m[f"{prefix}axes"]) or ()]
    starts, ends, steps = (axes_of(m[f"{prefix}{name}"]) for name in ("starts", "ends", "steps"))
    return dict(zip(axes, zip(starts or (), ends or (), steps or (1,) * len(axes), strict=True), strict=True))


def _cut_of_cut(inner: Cut, outer: Cut, size: Dim) -> Cut | None:
    """The one Slice that does what two in a row do."""
    if type(size) is int and inner[2] > 0 and outer[2] > 0:
        found = range(size)[slice(*inner)][slice(*outer)]
        return (found.start, max(found.start, found.stop), found.step)
    if inner[2] != 1 or outer[2] != 1 or min(*inner[:2], *outer[:2]) < 0:
        return None
    start = min(inner[0] + outer[0], FARTHEST)
    return (start, max(start, min(inner[1], inner[0] + outer[1], FARTHEST)), 1)


PARTS: tuple[Rule, ...] = (
    split_of_one, concat_of_parts, slice_of_concat, split_of_concat, gather_of_concat, gather_gather,
    gather_everything, slice_slice,
)  # fmt: skip
"""Parts cut out and joined; no number is computed."""
