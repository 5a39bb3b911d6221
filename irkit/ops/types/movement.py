"""Type rules of operators that put elements elsewhere: views, joins, parts."""

from __future__ import annotations

from collections.abc import Callable

from irkit import dims
from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim, signs
from irkit.ops.types.context import Context, broadcast
from irkit.ops.types.creation import shape_of
from irkit.support.counts import count_text


def infer_Transpose(c: Context) -> Type:
    """x[...] -> x with its axes in the order `perm`, else reversed"""
    x = c.tensor(0)
    perm: tuple[int, ...] | None = c.attr("perm")
    if perm is None:
        return Tensor(x.dtype, x.shape[::-1])
    shape = x.shape
    if sorted(perm) != list(range(len(shape))):
        raise c.fail(f"perm {perm} is not an order of {count_text(len(shape), 'axis', 'axes')}")
    return Tensor(x.dtype, tuple([shape[i] for i in perm]))


def infer_Expand(c: Context) -> Type:
    """x[...], shape i64[k] -> x broadcast with that shape"""
    x = c.tensor(0)
    if c.contents(1) is None and c.shape(1) == (0,):
        return x
    shape = broadcast(c, x.shape, shape_of(c, 1))
    return x if shape is x.shape else Tensor(x.dtype, shape)


def infer_Concat(c: Context) -> Type:
    """x[..., n, ...], y[..., m, ...], ... -> [..., n + m + ..., ...] along `axis`"""
    first = c.tensor(0)
    if not first.shape:
        raise c.fail("scalars cannot be joined", hint="op.Unsqueeze them first")
    axis = c.axis(c.attr("axis"), len(first.shape))
    total, shape = first.shape[axis], list(first.shape)
    for index in range(1, len(c.inputs)):
        other = c.shape(index)
        if len(other) != len(shape):
            raise c.fail(f"operand {index} has rank {len(other)}, where {len(shape)} is needed")
        total = dims.add(total, other[axis])
        for i, d in enumerate(other):
            if i != axis and d is not shape[i]:
                shape[i] = c.unify(shape[i], d, f"the sizes of axis {i}")
    shape[axis] = total
    return Tensor(first.dtype, tuple(shape))


def infer_Split(c: Context) -> tuple[Type, ...]:
    """x[..., n, ...], sizes i64[k]? -> k tensors of those sizes along `axis`, or `num_outputs` of equal ones"""
    x = c.tensor(0)
    axis = c.axis(c.attr("axis"), len(x.shape))
    sizes = split_sizes(c, x.shape[axis])
    return tuple(Tensor(x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes)


def split_sizes(c: Context, whole: Dim) -> tuple[Dim, ...]:
    """The sizes of the parts of a Split."""
    if c.has(1):
        sizes = shape_of(c, 1)
        if c.outputs > 1 and len(sizes) != c.outputs:
            raise c.fail(f"{count_text(len(sizes), 'size')} given for {count_text(c.outputs, 'result')}")
        if dims.same(sum_of(sizes), whole) is False:
            raise c.fail(f"the sizes {list(sizes)} do not add up to {whole}")
        return sizes
    count = c.attr("num_outputs") or c.outputs
    if count < 1 or (c.outputs > 1 and c.outputs != count):
        raise c.fail(f"num_outputs is {count}, and {count_text(c.outputs, 'result')} asked for")
    part = dims.ceildiv(whole, count)
    return (*(part,) * (count - 1), dims.sub(whole, dims.mul(part, count - 1)))


def sum_of(parts: tuple[Dim, ...]) -> Dim:
    """The sum of dimensions; 0 where there are none."""
    total: Dim = 0
    for part in parts:
        total = dims.add(total, part)
    return total


def infer_Tile(c: Context) -> Type:
    """x[a, b, ...], repeats i64[rank] -> [a * repeats[0], b * repeats[1], ...]"""
    x = c.tensor(0)
    repeats = c.contents(1)
    if repeats is None:
        if c.rank(1) != 1 or dims.same(c.shape(1)[0], len(x.shape)) is False:
            raise c.fail(f"one repeat is needed for each of {count_text(len(x.shape), 'axis', 'axes')}")
        return Tensor(x.dtype, tuple(0 if type(d) is int and d == 0 else dims.fresh() for d in x.shape))
    if len(repeats) != len(x.shape):
        raise c.fail(f"{count_text(len(repeats), 'repeat')} given for {count_text(len(x.shape), 'axis', 'axes')}")
    if any(type(r) is int and r < 0 for r in repeats):
        raise c.fail(f"the repeats {list(repeats)} hold a negative number")
    return Tensor(x.dtype, tuple(dims.mul(d, r) for d, r in zip(x.shape, repeats, strict=True)))


def infer_Pad(c: Context) -> Type:
    """x[...], pads i64[2 * k], value[]?, axes[k]? -> each axis longer by its two pads"""
    x = c.tensor(0)
    rank = len(x.shape)
    given = c.numbers(3) if c.has(3) else tuple(range(rank))
    if given is None:
        return Tensor(x.dtype, tuple(dims.fresh() for _ in x.shape))
    axes, pads = c.axes(given, rank), c.contents(1)
    if dims.same(c.length(1), 2 * len(axes)) is False:
        raise c.fail(
            f"two pads are needed for each of {count_text(len(axes), 'axis', 'axes')}, and {c.length(1)} are given"
        )
    shape = list(x.shape)
    for i, axis in enumerate(axes):
        if pads is None:
            shape[axis] = dims.fresh()
            continue
        shape[axis] = dims.add(dims.add(shape[axis], pads[i]), pads[i + len(axes)])
        if type(shape[axis]) is int and shape[axis] < 0:
            raise c.fail(f"axis {axis} of size {x.shape[axis]} is cropped by more than that")
    return Tensor(x.dtype, tuple(shape))


def infer_CenterCropPad(c: Context) -> Type:
    """x[...], shape[k] -> x with the sizes of `axes` those of `shape`"""
    x = c.tensor(0)
    given = c.attr("axes")
    axes = c.axes(range(len(x.shape)) if given is None else given, len(x.shape))
    sizes = shape_of(c, 1)
    if len(sizes) != len(axes):
        raise c.fail(f"{count_text(len(sizes), 'size')} given for {count_text(len(axes), 'axis', 'axes')}")
    new = dict(zip(axes, sizes, strict=True))
    return Tensor(x.dtype, tuple(new.get(i, d) for i, d in enumerate(x.shape)))


def infer_Trilu(c: Context) -> Type:
    """x[..., n, m], k[]? -> x[..., n, m]"""
    x = c.tensor(0)
    if len(x.shape) < 2:
        raise c.fail(f"the operand must have rank 2 or more, and has {len(x.shape)}")
    return x


def infer_ReverseSequence(c: Context) -> Type:
    """x[time, batch, ...], lengths i64[batch] -> x[...]"""
    x = c.tensor(0)
    if len(x.shape) < 2:
        raise c.fail(f"the operand must have rank 2 or more, and has {len(x.shape)}")
    batch: int = c.attr("batch_axis")
    c.unify(c.ranked(1, 1).shape[0], x.shape[batch], "the batch sizes")
    return x


def infer_DepthToSpace(c: Context) -> Type:
    """x[n, c * b * b, h, w] -> [n, c, h * b, w * b]"""
    x, block = c.ranked(0, 4), c.attr("blocksize")
    n, depth, height, width = x.shape
    return Tensor(
        x.dtype, (n, divided_evenly(c, depth, block * block), dims.mul(height, block), dims.mul(width, block))
    )


def infer_SpaceToDepth(c: Context) -> Type:
    """x[n, c, h * b, w * b] -> [n, c * b * b, h, w]"""
    x, block = c.ranked(0, 4), c.attr("blocksize")
    n, depth, height, width = x.shape
    return Tensor(
        x.dtype, (n, dims.mul(depth, block * block), divided_evenly(c, height, block), divided_evenly(c, width, block))
    )


def divided_evenly(c: Context, whole: Dim, by: int) -> Dim:
    """whole / by, which must come out even; raises TypeRuleError where it certainly does not."""
    if by < 1:
        raise c.fail(f"{by} is not a size to divide by")
    if type(whole) is int and whole % by:
        raise c.fail(f"{whole} is not a multiple of {by}")
    return dims.floordiv(whole, by)


FAR = 2**31 - 1
"""Bounds of a Slice from here on mean "to the end", and from its negative on "to the start"."""


def infer_Reshape(c: Context) -> Type:
    """x[...], shape i64[k] -> k dimensions; 0 copies that of x, and one -1 is what the others leave"""
    x = c.tensor(0)
    c.ranked(1, 1)
    target = c.contents(1)
    if target is None:
        count = c.axes_in(1)
        return Tensor(x.dtype, (dims.product(x.shape),) if count == 1 else tuple(dims.fresh() for _ in range(count)))
    shape, hole = read_target(c, x.shape, target)
    have, taken = cancelled(x.shape, tuple([d for i, d in enumerate(shape) if i != hole]))
    if hole is None:
        check_count(c, have, taken, x.shape, shape)
        return Tensor(x.dtype, tuple(shape))
    shape[hole] = quotient(c, have, taken)
    return Tensor(x.dtype, tuple(shape))


def read_target(c: Context, source: tuple[Dim, ...], target: tuple[Dim, ...]) -> tuple[list[Dim], int | None]:
    """(dimensions with each 0 replaced by what it copies, the place of -1 or None)"""
    copies = not c.attr("allowzero")
    shape, hole = list(target), None
    for i, d in enumerate(shape):
        if type(d) is not int or d > 0:
            continue
        if d == 0 and copies:
            if i >= len(source):
                raise c.fail(f"0 at place {i} copies an axis that the operand of rank {len(source)} does not have")
            shape[i] = source[i]
        elif d == -1 and hole is None:
            hole = i
        elif d < 0:
            raise c.fail(f"the shape {list(target)} holds {'two -1' if d == -1 else d}")
    return shape, hole


def cancelled(have: tuple[Dim, ...], taken: tuple[Dim, ...]) -> tuple[list[Dim], list[Dim]]:
    """Both without the dimensions that stand in both, and without 1: their products have the same quotient."""
    left, rest = list(have), list[Dim]()
    for d in taken:
        for i, other in enumerate(left):
            if other is d or (type(other) is type(d) and other == d):
                del left[i]
                break
        else:
            rest.append(d)
    return [d for d in left if type(d) is not int or d != 1], [d for d in rest if type(d) is not int or d != 1]


def check_count(c: Context, have: list[Dim], taken: list[Dim], source: tuple[Dim, ...], target: list[Dim]) -> None:
    """Raises TypeRuleError where two shapes certainly hold different numbers of elements."""
    if not have and not taken:
        return
    if any(dims.is_fresh(symbol) for d in (*have, *taken) for symbol in dims.symbols_of(d)):
        return  # a size that nobody knows may be any number, and to multiply it out takes long
    rest = dims.product(have)
    if type(rest) is int and rest == dims.product(taken):
        return
    if dims.same(dims.product(source), dims.product(target)) is False:
        raise c.fail(
            f"{list(source)} and {list(target)} hold different numbers of elements", hint="leave one size to -1"
        )


def quotient(c: Context, have: list[Dim], taken: list[Dim]) -> Dim:
    """product(have) / product(taken), which comes out even in a legal Reshape."""
    top, bottom = dims.product(have), dims.product(taken)
    if type(bottom) is int and bottom == 0:
        return dims.fresh()
    if type(top) is int and type(bottom) is int and top % bottom:
        raise c.fail(f"{top} elements cannot be divided by {bottom}")
    return dims.floordiv(top, bottom)


def infer_Flatten(c: Context) -> Type:
    """x[...] -> [product of the axes before `axis`, product of the others]"""
    x = c.tensor(0)
    axis = c.attr("axis")
    rank = len(x.shape)
    if not -rank <= axis <= rank:
        raise c.fail(f"axis {axis} is out of range for rank {rank}")
    axis = axis + rank if axis < 0 else axis
    return Tensor(x.dtype, (dims.product(x.shape[:axis]), dims.product(x.shape[axis:])))


def infer_Squeeze(c: Context) -> Type:
    """x[...], axes i64[k]? -> x without those axes, each of size 1; without `axes`, without all that are 1"""
    x = c.tensor(0)
    if not c.has(1):
        if any(dims.same(d, 1) is None for d in x.shape):
            raise c.fail("the rank of the result depends on symbolic sizes", hint="say which axes to drop")
        return Tensor(x.dtype, tuple(d for d in x.shape if dims.same(d, 1) is False))
    given = c.numbers(1)
    if given is None:
        return Tensor(x.dtype, tuple(dims.fresh() for _ in range(len(x.shape) - c.length(1))))
    axes = c.axes(given, len(x.shape))
    for axis in axes:
        if len(x.shape) and dims.same(x.shape[axis], 1) is False:
            raise c.fail(f"axis {axis} has size {x.shape[axis]}, where only 1 can be dropped")
    return Tensor(x.dtype, tuple(d for i, d in enumerate(x.shape) if i not in axes))


def infer_Unsqueeze(c: Context) -> Type:
    """x[...], axes i64[k] -> x with an axis of size 1 at each of those places of the result"""
    x = c.tensor(0)
    given = c.numbers(1)
    if given is None:
        return Tensor(x.dtype, tuple(dims.fresh() for _ in range(len(x.shape) + c.axes_in(1))))
    rank = len(x.shape) + len(given)
    axes = c.axes(given, rank)
    old = iter(x.shape)
    return Tensor(x.dtype, tuple(1 if i in axes else next(old) for i in range(rank)))


def infer_Slice(c: Context) -> Type:
    """x[...], starts[k], ends[k], axes[k]?, steps[k]? -> x with those axes cut as Python does"""
    x = c.tensor(0)
    rank = len(x.shape)
    count = c.length(1)
    if dims.same(c.length(2), count) is False:
        raise c.fail(f"{count_text(count, 'start')} and {c.length(2)} ends are given")
    given = c.numbers(3) if c.has(3) else tuple(range(count))
    if given is None:
        return Tensor(x.dtype, tuple(dims.fresh() for _ in x.shape))
    if len(given) != count or count > rank:
        raise c.fail(f"{count_text(count, 'start')} given for {count_text(len(given), 'axis', 'axes')} of {rank}")
    if c.has(4) and dims.same(c.length(4), count) is False:
        raise c.fail(f"{count_text(count, 'start')} and {c.length(4)} steps are given")
    starts, ends = c.contents(1), c.contents(2)
    steps = c.contents(4) if c.has(4) else (1,) * count
    shape = list(x.shape)
    for i, axis in enumerate(c.axes(given, rank)):
        parts = tuple(None if part is None else part[i] for part in (starts, ends, steps))
        shape[axis] = sliced(c, shape[axis], *parts)
    return Tensor(x.dtype, tuple(shape))


def sliced(c: Context, size: Dim, start: Dim | None, end: Dim | None, step: Dim | None) -> Dim:
    """How many elements `[start:end:step]` takes out of `size`; fresh where that cannot be told."""
    if type(step) is int and step == 0:
        raise c.fail("a step is 0")
    if type(size) is int and size == 0:
        return 0
    if type(step) is not int or start is None or end is None:
        return dims.fresh()
    if step > 0 and type(size) is int and type(start) is int and type(end) is int:
        return len(range(*slice(start, end, step).indices(size)))
    first, stop = (first_up, stop_up) if step > 0 else (first_down, stop_down)
    low, high = counted(start, size, first), counted(end, size, stop)
    if low is None or high is None:
        return dims.fresh()
    gap = dims.sub(high, low) if step > 0 else dims.sub(low, high)
    return dims.maximum(0, dims.ceildiv(gap, abs(step)))


def counted(place: Dim, size: Dim, clamp: Callable[[Dim, Dim, bool], Dim]) -> Dim | None:
    """A bound of a Slice counted from the front and clamped; None where its sign is not known."""
    if isinstance(place, int):
        place = max(-FAR, min(place, FAR))
        return clamp(place, size, place < 0)
    if signs.is_nonnegative(place):
        return clamp(place, size, False)
    return clamp(place, size, True) if signs.sign(place) == -1 else None


def first_up(place: Dim, size: Dim, from_end: bool) -> Dim:
    """Where a Slice that goes up starts: not below 0."""
    if from_end:
        return 0 if place == -FAR else dims.maximum(0, dims.add(size, place))
    return size if place == FAR else place


def stop_up(place: Dim, size: Dim, from_end: bool) -> Dim:
    """Where a Slice that goes up stops: not above `size`."""
    if from_end:
        return 0 if place == -FAR else dims.add(size, place)
    return size if place == FAR else dims.minimum(place, size)


def first_down(place: Dim, size: Dim, from_end: bool) -> Dim:
    """Where a Slice that goes down starts: not below 0, and not above `size - 1`."""
    last = dims.sub(size, 1)
    if place in (-1, FAR):
        return last
    return dims.minimum(first_up(place, size, from_end), last)


def stop_down(place: Dim, size: Dim, from_end: bool) -> Dim:
    """Where a Slice that goes down stops: not below -1."""
    if from_end:
        return -1 if place == -FAR else dims.maximum(-1, dims.add(size, place))
    return place


def infer_Identity(c: Context) -> Type:
    """x -> x, of any type"""
    return c.type(0)


def infer_Shape(c: Context) -> Type:
    """x[...] -> i64[rank], or the dimensions from `start` to `end` only"""
    rank = c.rank(0)
    count = len(range(rank)[slice(c.attr("start"), c.attr("end"))])
    return Tensor(DType.INT64, (count,))


def infer_Size(c: Context) -> Type:
    """x[...] -> i64[]"""
    c.tensor(0)
    return Tensor(DType.INT64, ())
