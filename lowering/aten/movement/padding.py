"""Elements added around a tensor, or taken away where a pad is negative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.dims import Dim
from lowering.errors import Unsupported
from lowering.tensors.pieces import widen
from lowering.tensors.promotion import Number, cast, scalar
from lowering.tensors.shaping import add_rows, ints, iota, slice_axis


def padded(x: Value, pad: Sequence[Dim], mode: str, value: Number | None = None) -> Value:
    """x with pad[0] elements before and pad[1] after along the last axis, pad[2] and pad[3] along the one before...

    `mode` is ONNX's: "constant", "reflect", "edge", "wrap". Negative pads take elements away: before a wrap, and after
    the elements to mirror or to repeat were found.
    """
    around = {x.rank - 1 - i // 2: (pad[i], pad[i + 1]) for i in range(0, len(pad), 2)}
    if mode == "constant":
        return taken_and_grown(x, around, value)
    if mode in ("reflect", "edge"):
        return cut(grown(x, around, mode, value), around)
    return grown(cut(x, around), around, mode, value)


Around = Mapping[int, tuple[Dim, Dim]]


def cut(x: Value, around: Around) -> Value:
    """x without what negative pads take away."""
    for at, (before, after) in around.items():
        if negative(before) or negative(after):
            low = dims.mul(before, -1) if negative(before) else None
            high = dims.add(x.shape[at], after) if negative(after) else None
            x = slice_axis(x, at, low, high)
    return x


def grown(x: Value, around: Around, mode: str, value: Number | None) -> Value:
    """x with what positive pads add."""
    return taken_and_grown(x, {at: without_negative(pair) for at, pair in around.items()}, value, mode)


def without_negative(pair: tuple[Dim, Dim]) -> tuple[Dim, Dim]:
    """The pads of an axis, 0 for those that take away."""
    before, after = (0 if negative(p) else p for p in pair)
    return before, after


def taken_and_grown(x: Value, around: Around, value: Number | None, mode: str = "constant") -> Value:
    """x with what pads add, and without what they take away: one axis is as much longer as its pads say together."""
    where = sorted(at for at, pair in around.items() if not all(type(p) is int and p == 0 for p in pair))
    if not where:
        return x
    sizes = [around[at][side] for side in (0, 1) for at in where]
    fill = None if value is None or (isinstance(value, int | float) and value == 0) else scalar(value, x.dtype)
    return op.Pad(x, shape_vector(sizes), fill, ints(*where), mode=mode)


def negative(pad: Dim) -> bool:
    """True for a pad that is known to be below 0."""
    return pad < 0 if type(pad) is int else bool(pad.is_negative)  # type: ignore[union-attr]


def aten_constant_pad_nd(self: Value, pad: Sequence[Dim], value: Number = 0) -> Value:
    """self with `value` around it."""
    return padded(self, pad, "constant", value)


def aten_pad(self: Value, pad: Sequence[Dim], mode: str = "constant", value: float | None = None) -> Value:
    """self with `value`, or by `mode` with its own elements, around it."""
    if mode not in MODES:
        raise Unsupported(f"there is no padding mode {mode}")
    return padded(self, pad, MODES[mode], value)


MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""ONNX's name of each of torch's modes."""


def aten__pad_circular(self: Value, pad: Sequence[Dim]) -> Value:
    """self continued on each side by what stands at the other end."""
    return padded(self, pad, "wrap")


def aten_reflection_pad1d(self: Value, padding: Sequence[Dim]) -> Value:
    """self mirrored at its ends, edges or faces, which are not repeated."""
    return padded(self, padding, "reflect")


def aten_replication_pad1d(self: Value, padding: Sequence[Dim]) -> Value:
    """self with its ends, edges or faces repeated."""
    return padded(self, padding, "edge")


def aten_replication_pad1d_backward(grad_output: Value, self: Value, padding: Sequence[Dim]) -> Value:
    """The gradient of each element: those of all its repetitions, added up; 0 where a negative pad took it away."""
    found = widen(grad_output)
    for i in range(0, len(padding), 2):
        axis = self.rank - 1 - i // 2
        if any(type(p) is not int or p for p in padding[i : i + 2]):
            size = self.shape[axis]
            place = op.Sub(iota(found.shape[axis]), dim_scalar(padding[i]))
            place = op.Min(op.Max(place, const(0)), dim_scalar(dims.sub(size, 1)))
            found = add_rows(found, place, size, axis)
    return cast(found, grad_output.dtype)
