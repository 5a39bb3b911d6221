"""Samples of operators whose places are data."""

from __future__ import annotations

from irkit.build import const, op
from irkit.checking.samples.movement import indices
from irkit.checking.samples.sampler import ANY, F32, I64, NUMBERS, Sampler, has_static_axis, static_axis
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.support.results import as_tuple


def sample_Gather(s: Sampler) -> Value:
    """Along an axis of known size."""
    x = s.tensor(ANY, 1, 4, has_static_axis)
    axis = static_axis(s, x)
    return op.Gather(x, indices(s, s.static_shape(0, 2), int(x.shape[axis])), axis=axis)


def sample_GatherElements(s: Sampler) -> Value:
    """Along the axis of a vector of known size."""
    x = s.tensor(ANY, 1, 1, has_static_axis)
    return op.GatherElements(x, indices(s, s.static_shape(1, 1), int(x.shape[0])), axis=0)


def sample_ScatterElements(s: Sampler) -> Value:
    """One element of a vector replaced."""
    x = s.tensor(ANY, 1, 1, has_static_axis)
    return op.ScatterElements(x, indices(s, (1,), int(x.shape[0])), s.of(x.dtype, (1,)), axis=0)


def sample_NonZero(s: Sampler) -> Value:
    """A size that depends on data."""
    return op.NonZero(s.tensor(ANY, 1, 2))


def sample_TopK(s: Sampler) -> tuple[Value, ...]:
    """Both results."""
    x = s.tensor(NUMBERS, 1, 4, has_static_axis)
    axis = static_axis(s, x)
    return op.TopK(x, [s.integer(1, int(x.shape[axis]))], axis=axis, largest=s.integer(0, 1))


def sample_OneHot(s: Sampler) -> Value:
    """Of indices."""
    return op.OneHot(s.tensor((I64,), 1, 3), [3], [0.0, 1.0], axis=-1)


def sample_TensorScatter(s: Sampler) -> Value:
    """New rows in a cache."""
    cache = s.of(F32, (2, 4, 3))
    return op.TensorScatter(cache, s.of(F32, (2, 1, 3)), const(indices(s, (2,), 4) % 4), axis=1)


def sample_GatherND(s: Sampler) -> Value:
    """Rows of known places."""
    x = s.of(s.choose(ANY), (3, s.choose(s.sizes)))
    return op.GatherND(x, indices(s, (s.integer(1, 2), 1), 3))


def sample_ScatterND(s: Sampler) -> Value:
    """One row replaced, or added to."""
    x = s.of(F32, (3, s.choose(s.sizes)))
    return op.ScatterND(x, indices(s, (1, 1), 3), s.of(F32, (1, x.shape[1])), reduction=s.choose(("none", "add")))


def sample_Compress(s: Sampler) -> Value:
    """Rows that are asked for: a size that depends on data."""
    x = s.of(s.choose(ANY), (3, 2))
    return op.Compress(x, s.of(DType.BOOL, (3,)), axis=0 if s.flag() else None)


def sample_Unique(s: Sampler) -> Value:
    """Sorted, of all elements: a size that depends on data."""
    return as_tuple(op.Unique(s.of(s.choose(NUMBERS), (s.integer(1, 4),)), outputs=1))[0]
