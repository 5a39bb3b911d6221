"""Type rules of operators that choose or place elements by index or by value."""

from __future__ import annotations

from irkit import dims
from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context


def infer_Gather(c: Context) -> Type:
    """x[a, n, b], indices[i...] -> [a, i..., b] along `axis`"""
    x, indices = c.tensor(0), c.shape(1)
    if not x.shape:
        raise c.fail("a scalar has no axis to gather along")
    axis = c.axis(c.attr("axis"), len(x.shape))
    check_range(c, x.shape[axis])
    return Tensor(x.dtype, x.shape[:axis] + indices + x.shape[axis + 1 :])


def check_range(c: Context, size: Dim) -> None:
    """Raises TypeRuleError where a constant index is certainly outside an axis of that size."""
    blob = c.blob(1)
    if blob is None or blob.size != 1 or type(size) is not int:
        return
    index = int(blob.array.reshape(-1)[0])
    if not -size <= index < size:
        raise c.fail(f"index {index} is out of range for an axis of size {size}")


def infer_GatherElements(c: Context) -> Type:
    """x[...], indices[i...] of the same rank -> [i...] along `axis`"""
    x, indices = c.tensor(0), c.shape(1)
    if len(indices) != len(x.shape):
        raise c.fail(f"the indices must have rank {len(x.shape)}, and have {len(indices)}")
    c.axis(c.attr("axis"), len(x.shape))
    return Tensor(x.dtype, indices)


def infer_GatherND(c: Context) -> Type:
    """x[b..., n..., rest...], indices[b..., i..., k] -> [b..., i..., rest...] with k axes looked up after the batch"""
    x, indices, batch = c.tensor(0), c.shape(1), c.attr("batch_dims")
    if not x.shape or not indices:
        raise c.fail("both operands must have rank 1 or more")
    depth = index_depth(c, indices, len(x.shape) - batch)
    shared = c.unify_shapes(x.shape[:batch], indices[:batch], "the batch sizes")
    return Tensor(x.dtype, shared + indices[batch:-1] + x.shape[batch + depth :])


def index_depth(c: Context, indices: tuple[Dim, ...], rank: int) -> int:
    """The last size of an index tensor: how many axes it looks up, at most `rank`. It must be a number."""
    depth = indices[-1]
    if type(depth) is not int:
        raise c.fail(f"the last size of the indices is {depth}, and the rank of the result depends on it")
    if depth > rank:
        raise c.fail(f"the indices look up {depth} axes, and there are {rank}")
    return depth


def infer_ScatterElements(c: Context) -> Type:
    """x[...], indices[i...], updates[i...] of the rank of x -> x[...]"""
    x = c.tensor(0)
    if len(c.shape(1)) != len(x.shape):
        raise c.fail(f"the indices must have rank {len(x.shape)}, and have {c.rank(1)}")
    c.unify_shapes(c.shape(1), c.shape(2), "indices and updates")
    c.axis(c.attr("axis"), len(x.shape))
    return x


def infer_ScatterND(c: Context) -> Type:
    """x[n..., rest...], indices[i..., k], updates[i..., rest...] -> x[...]"""
    x, indices = c.tensor(0), c.shape(1)
    if not x.shape or not indices:
        raise c.fail("data and indices must have rank 1 or more")
    depth = index_depth(c, indices, len(x.shape))
    c.unify_shapes(indices[:-1] + x.shape[depth:], c.shape(2), "the updates and what the indices look up")
    return x


def infer_TensorScatter(c: Context) -> Type:
    """past[b, ..., m, ...], update[b, ..., n, ...], write_indices[b]? -> past with the update written along `axis`"""
    past, update = c.tensor(0), c.shape(1)
    axis = c.axis(c.attr("axis"), len(past.shape))
    if axis == 0:
        raise c.fail("axis 0 is the batch")
    c.unify_shapes(past.shape[:axis] + past.shape[axis + 1 :], update[:axis] + update[axis + 1 :], "cache and update")
    if len(update) != len(past.shape):
        raise c.fail(f"the update must have rank {len(past.shape)}, and has {len(update)}")
    if c.has(2):
        c.unify(c.ranked(2, 1).shape[0], past.shape[0], "the batch sizes")
    return past


def infer_OneHot(c: Context) -> Type:
    """indices[i...], depth[], values[2] -> [i...] with an axis of size depth put in at `axis`"""
    indices = c.shape(0)
    if dims.same(c.ranked(2, 1).shape[0], 2) is False:
        raise c.fail("values must hold two elements: off and on")
    axis = c.axis(c.attr("axis"), len(indices), end=True)
    depth = c.scalar(1)
    if depth is None:
        depth = constant_depth(c)
    return Tensor(c.dtype(2), (*indices[:axis], depth, *indices[axis:]))


def constant_depth(c: Context) -> Dim:
    """The depth of a OneHot that is a floating-point constant; else fresh."""
    blob = c.blob(1)
    return dims.fresh() if blob is None or blob.size != 1 else int(blob.array.reshape(-1)[0])


def infer_Compress(c: Context) -> Type:
    """x[...], condition bool[k] -> x with some of the places of `axis`, or a vector of some elements"""
    x, axis = c.tensor(0), c.attr("axis")
    c.ranked(1, 1)
    flags = c.numbers(1)
    chosen: Dim = dims.fresh() if flags is None else sum(1 for flag in flags if flag)
    if axis is None:
        return Tensor(x.dtype, (chosen,))
    axis = c.axis(axis, len(x.shape))
    return Tensor(x.dtype, (*x.shape[:axis], chosen, *x.shape[axis + 1 :]))


def infer_NonZero(c: Context) -> Type:
    """x[...] -> i64[rank of x, as many as are not zero]"""
    return Tensor(DType.INT64, (len(c.shape(0)), dims.fresh()))


def infer_Unique(c: Context) -> tuple[Type, ...]:
    """x[...] -> values[u] (or x with u places along `axis`), first places i64[u], places i64[n], counts i64[u]"""
    x, axis, count = c.tensor(0), c.attr("axis"), dims.fresh()
    if axis is None:
        values, whole = Tensor(x.dtype, (count,)), dims.product(x.shape)
    else:
        axis = c.axis(axis, len(x.shape))
        values, whole = Tensor(x.dtype, (*x.shape[:axis], count, *x.shape[axis + 1 :])), x.shape[axis]
    each = Tensor(DType.INT64, (count,))
    return c.several(values, each, Tensor(DType.INT64, (whole,)), each)


def infer_TopK(c: Context) -> Type | tuple[Type, ...]:
    """x[...], k[1] -> values, i64 indices: x with k along the axis"""
    x = c.tensor(0)
    if not x.shape:
        raise c.fail("a scalar has no axis to choose along")
    axis = c.axis(c.attr("axis"), len(x.shape))
    k = c.scalar(1)
    if k is None:
        k = dims.fresh()
    elif type(k) is int and type(x.shape[axis]) is int and k > x.shape[axis]:
        raise c.fail(f"{k} of {x.shape[axis]} elements cannot be taken", hint="k must not exceed the size of the axis")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return Tensor(x.dtype, shape), Tensor(DType.INT64, shape)
