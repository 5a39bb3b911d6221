"""Operators of older opsets in terms of those of the IR's opset: one small function for each change of meaning.

An operator that is not listed means the same, or less, in older opsets: its node is taken as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.attributes import Given
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from irkit.errors import LoadError
from irkit.ops.schemas import OPSET


@attrs.define(eq=False)
class Old:
    """One node of an older opset: operands, attributes, and how many results it names."""

    op: str
    opset: int
    inputs: list[Any]
    attributes: Given
    outputs: int

    def moved(self, *names: str) -> None:
        """Turns attributes into the operands that follow, as vectors of int64 (left out where they are not given)."""
        for name in names:
            given = self.attributes.pop(name, None)
            self.inputs.append(None if given is None else const(np.array(given, dtype=np.int64)))

    def dropped(self, *names: str) -> None:
        """Forgets attributes that never meant anything for the result."""
        for name in names:
            self.attributes.pop(name, None)

    def fail(self, why: str) -> LoadError:
        """The error that says what cannot be upgraded."""
        return LoadError(
            f"{self.op} of opset {self.opset} cannot be read: {why}", hint="convert the model to opset 13+"
        )


_CONSUMED, _UNCONSUMED = "consumed_inputs", 6
"""An attribute that operators had before an opset, and that never meant anything."""

Upgrade = Callable[[Old], Any]
"""Changes the node in place and returns None, or returns the value (or values) that it stands for."""


def upgraded_node(old: Old) -> Value | None:
    """The value of a node of an older opset, or None where `old`, perhaps changed, can now be built as it stands."""
    old.dropped(_CONSUMED)
    for below, function in UPGRADES.get(old.op, ()):
        if old.opset < below:
            found = function(old)
            if found is not None:
                return found
    return None


def is_upgraded(op: str, opset: int) -> bool:
    """False where `upgraded_node` leaves every node of an operator of that opset as it stands."""
    return opset < _UNCONSUMED or any(opset < below for below, _ in UPGRADES.get(op, ()))


# ---------------------------------------------------------------------------------------------- attributes to operands


def axes(old: Old) -> None:
    """axes was an attribute"""
    old.moved("axes")


def slice_(old: Old) -> None:
    """starts, ends and axes were attributes"""
    old.moved("starts", "ends", "axes")


def reshape(old: Old) -> None:
    """shape was an attribute"""
    old.moved("shape")


def top_k(old: Old) -> None:
    """k was an attribute"""
    old.inputs.append(const(np.array([old.attributes.pop("k")], dtype=np.int64)))


def split(old: Old) -> None:
    """split was an attribute"""
    if old.opset >= 2 or len(old.inputs) == 1:
        old.moved("split")


def split_evenly(old: Old) -> None:
    """without `split`, as many parts as results were named"""
    if len(old.inputs) < 2 or old.inputs[1] is None:
        old.attributes["num_outputs"] = old.outputs


def pad(old: Old) -> None:
    """pads and value were attributes"""
    if "paddings" in old.attributes:
        old.attributes["pads"] = old.attributes.pop("paddings")
    old.moved("pads")
    value = old.attributes.pop("value", 0.0)
    if value:
        old.inputs.append(like(value, old.inputs[0]))


def clip(old: Old) -> None:
    """min and max were attributes"""
    x = old.inputs[0]
    limits = {"min": -3.4028234663852886e38, "max": 3.4028234663852886e38}
    for name, none in limits.items():
        value = old.attributes.pop(name, none)
        old.inputs.append(None if value == none else like(value, x))


def dropout(old: Old) -> None:
    """ratio was an attribute, and a model for inference dropped nothing"""
    if old.opset < 7 and not old.attributes.get("is_test", 0):
        raise old.fail("it drops values at random, being in training mode")
    old.dropped("is_test")
    ratio = old.attributes.pop("ratio", 0.5)
    old.inputs.append(const(np.array(ratio, dtype=np.float32)))


def upsample(old: Old) -> Value:
    """Upsample was Resize with one way to place its samples"""
    x = old.inputs[0]
    if len(old.inputs) > 1:
        scales = old.inputs[1]
    elif "scales" in old.attributes:
        scales = const(np.array(old.attributes["scales"], dtype=np.float32))
    else:
        pair = old.attributes.get("height_scale", 1.0), old.attributes.get("width_scale", 1.0)
        scales = const(np.array([1.0, 1.0, *pair], dtype=np.float32))
    return asymmetric(x, scales, str(old.attributes.get("mode", "nearest")))


def resize(old: Old) -> Value | None:
    """opset 10 had one way to place samples; opset 11 took empty tensors for operands left out"""
    if old.opset < 11:
        return asymmetric(old.inputs[0], old.inputs[1], str(old.attributes.get("mode", "nearest")))
    sized = len(old.inputs) > 3 and old.inputs[3] is not None
    for index in (1, 2):
        given = old.inputs[index] if len(old.inputs) > index else None
        if given is not None and (given.shape == (0,) or (index == 2 and sized)):
            old.inputs[index] = None
    return None


def asymmetric(x: Value, scales: Value, mode: str) -> Value:
    """Resize as opset 10 meant it."""
    chosen = "linear" if mode in ("linear", "bilinear") else mode
    return op.Resize(x, None, scales, mode=chosen, nearest_mode="floor", coordinate_transformation_mode="asymmetric")


def dft(old: Old) -> None:
    """axis was an attribute, 1 by default"""
    axis = old.attributes.pop("axis", 1)
    old.inputs += [None] * (2 - len(old.inputs)) + [const(np.array(axis, dtype=np.int64))]


# ---------------------------------------------------------------------------------------------- other meanings


def like(value: float, x: Value) -> Value:
    """A scalar of the element type of `x`."""
    return const(np.array(value).astype(x.dtype.numpy))


def broadcast(old: Old) -> None:
    """opset 6 and before broadcast one way only, from an axis"""
    axis: int | None = old.attributes.pop("axis", None)
    allowed = old.attributes.pop("broadcast", 0)
    a, b = old.inputs
    if not allowed or axis is None or not isinstance(b.type, Tensor):
        return
    rank = int(b.rank)
    after = int(a.rank) - (axis if axis >= 0 else axis + int(a.rank)) - rank
    if after > 0:
        old.inputs[1] = op.Unsqueeze(b, np.arange(rank, rank + after))


def prelu(old: Old) -> None:
    """opset 6 and before: one slope for each channel"""
    x, slope = old.inputs
    if slope.rank == 1 and slope.shape != (1,) and x.rank > 2:
        old.inputs[1] = op.Unsqueeze(slope, np.arange(1, int(x.rank) - 1))


def old_cast(old: Old) -> None:
    """the element type was a name"""
    name = str(old.attributes["to"]).upper()
    if name not in DType.__members__:
        raise old.fail(f"it casts to {name!r}")
    old.attributes["to"] = int(DType[name])


def batch_normalization(old: Old) -> None:
    """opset 13 and before: training by number of results, and statistics for each activation"""
    if not old.attributes.pop("spatial", 1):
        raise old.fail("it normalizes each activation by itself (spatial=0)")
    if old.outputs > 1 or (old.opset < 7 and not old.attributes.get("is_test", 0)):
        raise old.fail("it is in training mode")
    old.dropped("is_test")


def flattened(old: Old) -> Value | None:
    """opset 12 and before: softmax over everything from `axis` on"""
    x = old.inputs[0]
    axis = old.attributes.pop("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    if axis == x.rank - 1:
        old.attributes["axis"] = -1
        return None
    found = call(old.op, [op.Flatten(x, axis=axis)], {"axis": -1})
    return op.Reshape(found, shape_vector(x.shape, x))


def group_normalization(old: Old) -> None:
    """opset 20 and before: scale and bias for each group, now for each channel"""
    x, groups = old.inputs[0], old.attributes["num_groups"]
    each = dims.floordiv(x.shape[1], groups)
    for index in (1, 2):
        wide = op.Expand(op.Unsqueeze(old.inputs[index], [1]), shape_vector((groups, each), x))
        old.inputs[index] = op.Reshape(wide, [-1])


def grid_sample(old: Old) -> None:
    """the modes had other names"""
    names = {"bilinear": "linear", "bicubic": "cubic"}
    mode = str(old.attributes.get("mode", "bilinear"))
    old.attributes["mode"] = names.get(mode, mode)


def roi_align(old: Old) -> None:
    """opset 15 and before: without the half pixel"""
    old.attributes.setdefault("coordinate_transformation_mode", "output_half_pixel")


def selu(old: Old) -> None:
    """other defaults"""
    old.attributes.setdefault("alpha", 1.673200011253357)
    old.attributes.setdefault("gamma", 1.0506999492645264)


def concat(old: Old) -> None:
    """axis was 1 by default"""
    old.attributes.setdefault("axis", 1)


def whole_power(old: Old) -> None:
    """p was a real number"""
    power = old.attributes.get("p", 2.0)
    if power != int(power):
        raise old.fail(f"p is {power}, not an integer")
    old.attributes["p"] = int(power)


def gemm(old: Old) -> None:
    """broadcasting had to be asked for"""
    old.dropped("broadcast")


def recurrent(old: Old) -> None:
    """all results were always computed"""
    old.dropped("output_sequence")


def scatter(old: Old) -> Value:
    """another name"""
    return call("ScatterElements", old.inputs, old.attributes)


def tile(old: Old) -> None:
    """one axis was tiled"""
    raise old.fail("it tiles one axis")


def scan(old: Old) -> None:
    """opset 8: with a batch axis"""
    raise old.fail("it scans with a batch axis")


_SUM_FREE = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
UPGRADES: Mapping[str, tuple[tuple[int, Upgrade], ...]] = {
    **{f"Reduce{name}": ((18, axes),) for name in _SUM_FREE},
    "ReduceSum": ((13, axes),), "Squeeze": ((13, axes),), "Unsqueeze": ((13, axes),),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "Equal", "Less", "Greater"), ((7, broadcast),)),
    **dict.fromkeys(("And", "Or", "Xor"), ((7, broadcast),)),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), ((13, flattened),)),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), ((7, recurrent),)),
    "Slice": ((10, slice_),), "Reshape": ((5, reshape),), "TopK": ((10, top_k),), "Pad": ((11, pad),),
    "Split": ((13, split), (18, split_evenly)), "Clip": ((11, clip),), "Dropout": ((12, dropout),),
    "Upsample": ((OPSET + 1, upsample),), "Resize": ((13, resize),), "DFT": ((20, dft),), "PRelu": ((7, prelu),),
    "Cast": ((6, old_cast),), "BatchNormalization": ((14, batch_normalization),), "Selu": ((6, selu),),
    "GroupNormalization": ((21, group_normalization),), "GridSample": ((20, grid_sample),), "Concat": ((4, concat),),
    "RoiAlign": ((16, roi_align),), "GlobalLpPool": ((2, whole_power),), "LpPool": ((2, whole_power),),
    "Gemm": ((7, gemm),), "Scatter": ((OPSET + 1, scatter),), "Tile": ((6, tile),), "Scan": ((9, scan),),
}  # fmt: skip
"""For each operator the opsets below which it meant something else, oldest change first, with what to do."""
