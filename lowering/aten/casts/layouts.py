"""Which parts of a tensor share a scale: the whole, the places of an axis, blocks along an axis, or other blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Value
from irkit.dims import Dim
from lowering.tensors.shaping import reshape


def of_one(number: float | Value, dtype: type[np.generic]) -> Value:
    """A number, or a tensor of one element, as a tensor of rank 0."""
    if not isinstance(number, Value):
        return const(dtype(number))
    return op.Reshape(number, []) if number.rank else number


@attrs.frozen(eq=False)
class Layout:
    """How scales lie over a tensor of `shape`.

    `attributes` are those of QuantizeLinear; None where it has no such layout. `scales` is the shape that it takes
    scales in; `parts` is the shape in which each axis that is cut into blocks is two, and `factors` that of the scales
    beside it.
    """

    shape: tuple[Dim, ...]
    attributes: Mapping[str, Any] | None
    scales: tuple[Dim, ...]
    parts: tuple[Dim, ...]
    factors: tuple[Dim, ...]

    def laid(self, scale: Value) -> Value:
        """Scales or zero points as QuantizeLinear takes them; one number alone as it is."""
        return scale if scale.rank == 0 else reshape(scale, self.scales)

    def beside(self, scale: Value) -> Value:
        """Scales or zero points so that they broadcast with `parted`."""
        return scale if scale.rank == 0 else reshape(scale, self.factors)

    def parted(self, x: Value) -> Value:
        """The tensor in blocks."""
        return reshape(x, self.parts)

    def joined(self, x: Value) -> Value:
        """The tensor from blocks."""
        return reshape(x, self.shape)


def one(x: Value) -> Layout:
    """One scale for a whole tensor."""
    return Layout(x.shape, {"axis": 1 if x.rank > 1 else 0}, (), x.shape, ())


def per_axis(x: Value, axis: int) -> Layout:
    """A scale for each place of an axis."""
    size = x.shape[axis] if x.rank else 1
    factors = tuple(size if i == axis else 1 for i in range(x.rank))
    return Layout(x.shape, {"axis": axis}, (size,), x.shape, factors)


def in_blocks(x: Value, blocks: Sequence[Dim]) -> Layout:
    """A scale for each block, whose size on each axis is given."""
    whole = [dims.same(b, d) is True for b, d in zip(blocks, x.shape, strict=True)]
    single = [dims.same(b, 1) is True for b in blocks]
    each = [i for i, alone in enumerate(single) if alone and dims.same(x.shape[i], 1) is not True]
    wide = [i for i, alone in enumerate(single) if not alone]
    if all(w or i not in wide for i, w in enumerate(whole)):
        if not each:
            return one(x)
        if len(each) == 1:
            return per_axis(x, each[0])
    scales = tuple(1 if w else d if s else d // b for d, b, w, s in zip(x.shape, blocks, whole, single, strict=True))
    parts: list[Dim] = []
    factors: list[Dim] = []
    for d, b, w, s, count in zip(x.shape, blocks, whole, single, scales, strict=True):
        parts += [d] if w or s else [count, b]
        factors += [count] if w or s else [count, 1]
    size = blocks[wide[0]] if len(wide) == 1 else None
    known = {"axis": wide[0], "block_size": size} if isinstance(size, int) and size > 0 else None
    return Layout(x.shape, known, scales, tuple(parts), tuple(factors))
