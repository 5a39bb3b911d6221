"""Samples of operators that put elements elsewhere."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import op, shape_vector
from irkit.checking.samples.elementwise import unary
from irkit.checking.samples.sampler import ANY, BOOL, F32, FLOATS, Sampler, has_static_axis, static_axis
from irkit.core.ir import Value
from irkit.dims import Dim


def sample_Transpose(s: Sampler) -> Value:
    """By a permutation, or reversed."""
    x = s.tensor(ANY)
    axes = list(range(x.rank))
    order = [axes.pop(s.integer(0, len(axes) - 1)) for _ in range(x.rank)]
    return op.Transpose(x) if s.rarely() else op.Transpose(x, perm=order)


def sample_Reshape(s: Sampler) -> Value:
    """Dimensions joined, or put in as ones."""
    x = s.tensor(ANY)
    shape: list[Dim] = list(x.shape)
    if shape and s.flag():
        at = s.integer(0, len(shape) - 1)
        shape[at : at + 2] = [dims.product(shape[at : at + 2])]
    else:
        shape.insert(s.integer(0, len(shape)), 1)
    if s.rarely():
        shape = [dims.product(shape)]
    empty = any(type(d) is int and d == 0 for d in shape)  # else a 0 would mean: as it is in x
    return op.Reshape(x, shape_vector(shape, *(s.binders(x.shape) or ())), allowzero=int(empty))


def sample_Expand(s: Sampler) -> Value:
    """To more dimensions."""
    x = s.tensor(ANY, 0, 3)
    return op.Expand(x, shape_vector((*s.bound_shape(0, 1), *x.shape), *(s.binders(x.shape) or ())))


def sample_Unsqueeze(s: Sampler) -> Value:
    """One new axis."""
    x = s.tensor(ANY, 0, 3)
    return op.Unsqueeze(x, [s.axis(x.rank + 1)])


def sample_Squeeze(s: Sampler) -> Value:
    """One axis of size 1, which is made where there is none."""
    x = s.tensor(ANY)
    ones = [i for i, d in enumerate(x.shape) if type(d) is int and d == 1]
    return op.Squeeze(x, [s.choose(ones)]) if ones else op.Squeeze(op.Unsqueeze(x, [0]), [0])


def sample_Flatten(s: Sampler) -> Value:
    """To two dimensions."""
    x = s.tensor(ANY, 1)
    return op.Flatten(x, axis=s.integer(0, x.rank))


def sample_Concat(s: Sampler) -> Value:
    """One to three tensors."""
    x = s.tensor(ANY, 1)
    axis = s.axis(x.rank)
    more = [s.of(x.dtype, x.shape) for _ in range(s.integer(0, 2))]
    return op.Concat(x, *more, axis=axis)


def sample_Split(s: Sampler) -> tuple[Value, ...]:
    """Two parts of an axis of known size."""
    x = s.tensor(ANY, 1, 4, has_static_axis)
    axis = static_axis(s, x)
    size = int(x.shape[axis])
    first = s.integer(min(s.least, size // 2), size - min(s.least, size // 2))
    return op.Split(x, [first, size - first], axis=axis, outputs=2)


def sample_Slice(s: Sampler) -> Value:
    """Forwards or backwards; ends beyond the size are allowed."""
    x = s.tensor(ANY, 1)
    start, end, step = (
        s.integer(0, 0 if s.least else 2),
        s.choose((3, 1, 2**31, *(() if s.least else (-1,)))),
        s.choose((1, 2)),
    )
    if s.rarely():
        start, end, step = -1, -(2**31), -1
    return op.Slice(x, [start], [end], [s.axis(x.rank)], [step])


def indices(s: Sampler, shape: tuple[int, ...], size: int) -> np.ndarray:
    """Numbers of that shape, each a valid index into `size` elements."""
    count = int(np.prod(shape, dtype=np.int64))
    return np.array([s.integer(-size, size - 1) for _ in range(count)], dtype=np.int64).reshape(shape)


def sample_Tile(s: Sampler) -> Value:
    """Each axis once, twice or not at all."""
    x = s.tensor(ANY, 1)
    return op.Tile(x, [s.choose((1, 2, 1 if s.least else 0)) for _ in range(x.rank)])


def sample_Pad(s: Sampler) -> Value:
    """With a constant."""
    x = s.tensor([k for k in ANY if k is not BOOL], 1)
    pads = [s.integer(0, 2) for _ in range(2 * x.rank)]
    value = None if s.flag() else s.of(x.dtype, ())
    return op.Pad(x, pads, value)


def sample_Trilu(s: Sampler) -> Value:
    """Upper or lower triangle."""
    x = s.tensor(ANY, 2)
    return op.Trilu(x, s.integer(-1, 1), upper=s.integer(0, 1))


def sample_Shape(s: Sampler) -> Value:
    """The dimensions as a vector."""
    return op.Shape(s.tensor(ANY))


def sample_Size(s: Sampler) -> Value:
    """The number of elements."""
    return op.Size(s.tensor(ANY))


def sample_ShapeVector(s: Sampler) -> Value:
    """Dimensions of a parameter, as numbers to compute with."""
    known: list[Dim] = [d for p in s.root.params for d in getattr(p.type, "shape", ())]
    size = s.choose(known) if known else 2
    return shape_vector((size, s.choose((1, dims.add(size, 1)))))


sample_Identity = unary("Identity", ANY)


def sample_DepthToSpace(s: Sampler) -> Value:
    """In both orders."""
    return op.DepthToSpace(s.of(F32, (s.choose(s.sizes), 4, 1, 2)), blocksize=2, mode=s.choose(("DCR", "CRD")))


def sample_SpaceToDepth(s: Sampler) -> Value:
    """In blocks of two."""
    return op.SpaceToDepth(s.of(F32, (s.choose(s.sizes), 1, 2, 4)), blocksize=2)


def sample_CenterCropPad(s: Sampler) -> Value:
    """One axis cut or padded."""
    return op.CenterCropPad(s.tensor(FLOATS, 1), [s.integer(1, 4)], axes=[0])


def sample_ReverseSequence(s: Sampler) -> Value:
    """As far as is said for each row."""
    x = s.of(s.choose(ANY), (3, 2))
    return op.ReverseSequence(x, np.array([s.integer(1, 3), s.integer(1, 3)]), time_axis=0, batch_axis=1)
