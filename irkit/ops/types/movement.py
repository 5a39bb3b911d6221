"""Type rules of operators that move elements without computing: Transpose, Concat, Split, Tile, Pad and their like."""

from __future__ import annotations

from irkit import dims
from irkit.core.types import Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context, broadcast
from irkit.ops.types.shape_ops import shape_of


def infer_Transpose(c: Context) -> Type:
    """x[...] -> x with its axes in the order `perm`, else reversed"""
    x = c.tensor(0)
    perm = c.attr("perm")
    if perm is None:
        return Tensor(x.dtype, x.shape[::-1])
    shape = x.shape
    if sorted(perm) != list(range(len(shape))):
        raise c.fail(f"perm {perm} is no order of {len(shape)} axes")
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
            raise c.fail(f"{len(sizes)} sizes are given for {c.outputs} results")
        if dims.same(sum_of(sizes), whole) is False:
            raise c.fail(f"the sizes {list(sizes)} do not add up to {whole}")
        return sizes
    count = c.attr("num_outputs") or c.outputs
    if count < 1 or (c.outputs > 1 and c.outputs != count):
        raise c.fail(f"num_outputs is {count}, and {c.outputs} results are asked for")
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
            raise c.fail(f"one repeat is needed for each of {len(x.shape)} axes")
        return Tensor(x.dtype, tuple(0 if type(d) is int and d == 0 else dims.fresh() for d in x.shape))
    if len(repeats) != len(x.shape):
        raise c.fail(f"{len(repeats)} repeats are given for {len(x.shape)} axes")
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
        raise c.fail(f"two pads are needed for each of {len(axes)} axes, and {c.length(1)} are given")
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
        raise c.fail(f"{len(sizes)} sizes are given for {len(axes)} axes")
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
    c.unify(c.ranked(1, 1).shape[0], x.shape[c.attr("batch_axis")], "the batch sizes")
    return x


def infer_DepthToSpace(c: Context) -> Type:
    """x[n, c * b * b, h, w] -> [n, c, h * b, w * b]"""
    x, block = c.ranked(0, 4), c.attr("blocksize")
    n, depth, height, width = x.shape
    return Tensor(x.dtype, (n, divided(c, depth, block * block), dims.mul(height, block), dims.mul(width, block)))


def infer_SpaceToDepth(c: Context) -> Type:
    """x[n, c, h * b, w * b] -> [n, c * b * b, h, w]"""
    x, block = c.ranked(0, 4), c.attr("blocksize")
    n, depth, height, width = x.shape
    return Tensor(x.dtype, (n, dims.mul(depth, block * block), divided(c, height, block), divided(c, width, block)))


def divided(c: Context, whole: Dim, by: int) -> Dim:
    """whole / by, which must come out even; raises TypeRuleError where it certainly does not."""
    if by < 1:
        raise c.fail(f"{by} is no size to divide by")
    if type(whole) is int and whole % by:
        raise c.fail(f"{whole} is no multiple of {by}")
    return dims.floordiv(whole, by)
