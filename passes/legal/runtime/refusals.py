"""What an older opset takes for something else than what is meant, and the conditions under which ONNX Runtime refuses
a value, or gets it wrong, although it has the kernel: `passes.legal.runtime.quirks` says what of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import HALVES, DType, Tensor, Tuple, types_of
from irkit.core.vocabulary import CONSTANT
from irkit.dims import Dim
from irkit.onnx.writing.downgrade import respelled_value
from irkit.pattern import attribute_of
from passes.analysis.questions import axes_of, is_known
from passes.analysis.reach import EXTREMES, LEAST, may_hold_least, number_of, reach

VALUES: Mapping[str, tuple[tuple[str, Any, int], ...]] = {
    "Pad": (("mode", "wrap", 19),),
    "Resize": (("coordinate_transformation_mode", "half_pixel_symmetric", 19),),
    "GridSample": (("mode", "linear", 20), ("mode", "cubic", 20)),
    "ScatterND": (("reduction", "max", 18), ("reduction", "min", 18)),
    "ScatterElements": (("reduction", "max", 18), ("reduction", "min", 18)),
    "RoiAlign": (("coordinate_transformation_mode", "half_pixel", 16),),
}
"""(attribute, value, opset): values that an attribute may have from that opset on."""

CHANGED: Mapping[str, int] = {"GroupNormalization": 21}
"""Operators that meant something else before that opset."""


REDUCTIONS = frozenset((
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
))  # fmt: skip
"""The reductions of which the axes are an operand."""

SCATTERS = frozenset(("ScatterND", "ScatterElements"))
"""What writes elements by index."""

PLACES = frozenset(("ArgMax", "ArgMin"))
"""The reductions of which the axis is an attribute."""


def misread(value: Value, opset: int) -> str:
    """Why an older opset would take a value for something else; empty where it would not, or has other words for it."""
    op = value.op
    if op in CHANGED and opset < CHANGED[op]:
        return f"{op} has another meaning before opset {CHANGED[op]}"
    if opset < 22 and op in ("MaxPool", "AveragePool", "LpPool") and counts_otherwise(value):
        return f"{op} counts windows that begin in the padding before opset 22"
    if op not in VALUES or respelled_value(value, opset) is not value:
        return ""
    if op == "GridSample" and opset < 20 and value.rank != 4:
        return "GridSample takes images of two axes before opset 20"
    for name, wanted, since in VALUES[op]:
        if opset < since and attribute_of(value, name) == wanted:
            return f"{op} with {name}={wanted!r} is new at opset {since}"
    return ""


def counts_otherwise(value: Value) -> bool:
    """True for a pool that rounds up and has fewer windows than that gives, one of them beginning in the padding."""
    x = value.inputs[0]
    if x is None or not value.attribute("ceil_mode") or attribute_of(value, "auto_pad") != "NOTSET":
        return False
    kernel = value.attribute("kernel_shape")
    first = value.type.items[0] if isinstance(value.type, Tuple) else value.type
    rank = len(kernel)
    strides, dilations, pads = (value.attribute(name) or default for name, default in (
        ("strides", (1,) * rank), ("dilations", (1,) * rank), ("pads", (0,) * (2 * rank))))  # fmt: skip
    for i, (size, count) in enumerate(zip(x.shape[2:], first.shape[2:], strict=True)):  # type: ignore[union-attr]
        reach = dilations[i] * (kernel[i] - 1) + 1
        if type(size) is int and type(count) is int:
            rounded = -(-(size + pads[i] + pads[rank + i] - reach) // strides[i]) + 1
            if rounded != count:
                return True
    return False


def is_of(value: Value, *dtypes: DType) -> bool:
    """True for a value whose first operand is of one of those element types."""
    return value.inputs[0] is not None and value.inputs[0].dtype in dtypes


def turns_beside_vector(value: Value) -> bool:
    """True for a product of a transposed tensor with a vector."""
    if "Transpose" not in [v.op for v in value.inputs if v is not None]:
        return False
    ranks = [v.rank for v in value.inputs if v is not None]
    return min(ranks) == 1 < max(ranks)


def wraps_nothing(value: Value) -> bool:
    """True for a Pad that wraps around what may be empty."""
    x = value.inputs[0]
    return attribute_of(value, "mode") == "wrap" and x is not None and any(map(may_be_empty, x.shape))


def lacks_bound(value: Value) -> bool:
    """True for a Clip of floating-point numbers on one side only, or on none."""
    return value.op == "Clip" and value.dtype.is_float and (len(value.inputs) < 3 or None in value.inputs)


def results_of(value: Value) -> int:
    """How many results are asked for."""
    return len(types_of(value.type))


def has_many(value: Value, index: int) -> bool:
    """True for an operand that is a vector, be it of one element."""
    given = value.inputs[index] if len(value.inputs) > index else None
    return given is not None and given.rank > 0 and given.shape != (1,)


def spectrum(value: Value) -> tuple[int, Dim] | None:
    """(axis, size): how much an inverse DFT to real numbers takes of its operand, where that may be less than all; None
    for every other value."""
    if value.op != "DFT" or not (value.attribute("inverse") and value.attribute("onesided")):
        return None
    axes = axes_of(value.inputs[2]) if len(value.inputs) > 2 and value.inputs[2] is not None else (-2,)
    if axes is None:
        return None
    axis = axes[0] % value.rank
    size, half = value.inputs[0].shape[axis], dims.add(dims.floordiv(value.shape[axis], 2), 1)  # type: ignore[union-attr]
    if not is_known((size, half)) or dims.same(dims.minimum(size, half), size) is True:
        return None
    return axis, half


def pads_some_axes(value: Value) -> bool:
    """True for a Pad that names axes other than all of them in order."""
    axes = axes_of(value.inputs[3]) if value.op == "Pad" and len(value.inputs) > 3 else None
    return axes is not None and axes != tuple(range(value.rank))


def names_no_axis(value: Value) -> bool:
    """True for a Squeeze whose axes are given, and are none."""
    return value.op == "Squeeze" and len(value.inputs) > 1 and axes_of(value.inputs[1]) == ()


def one_mask_for_all(value: Value) -> bool:
    """True for an attention whose mask has one row, and which may have several queries."""
    mask = value.inputs[3] if value.op == "Attention" and len(value.inputs) > 3 else None
    if mask is None or mask.rank < 2:
        return False
    queries = value.inputs[0].shape[-2]  # type: ignore[union-attr]
    return dims.same(mask.shape[-2], 1) is True and dims.same(queries, 1) is not True


THROUGH = ("Expand", "Unsqueeze", "Reshape", "Squeeze", "Slice")
"""Where the numbers of a mask come through unchanged."""


def least_in_mask(value: Value) -> bool:
    """True for an attention in whose mask the least number may stand, which ONNX Runtime takes for a mark."""
    return value.op == "Attention" and len(value.inputs) > 3 and may_hold_least(value.inputs[3])


def spelled_least(mask: Value) -> tuple[Value, ...]:
    """From a mask down to the Where or Mul with the least number, where it has it from nowhere else; else nothing."""
    chain: list[Value] = []
    while mask.op in THROUGH and mask.inputs[0] is not None:
        chain.append(mask)
        mask = mask.inputs[0]
    if mask.op not in ("Where", "Mul") or not any(is_least(v) for v in mask.inputs):
        return ()
    rest = [v for v in mask.inputs if v is not None and not is_least(v)]
    return () if any(reach(v).down >= EXTREMES for v in rest) else (*chain, mask)


def is_least(value: Value | None) -> bool:
    """True for a constant that holds the least float32 throughout."""
    return number_of(value) == LEAST


def scaled_roughly(value: Value) -> bool:
    """True for a product of float64 matrices with, or times, a number that float32 does not hold."""
    if (
        value.op not in ("MatMul", "Mul", "Div")
        or value.type.__class__ is not Tensor
        or value.dtype is not DType.DOUBLE
    ):
        return False
    if value.op == "MatMul":
        return any(is_rough(v) for v in value.inputs)
    return is_rough(value) and any(v is not None and v.op == "MatMul" for v in value.inputs)


def is_rough(value: Value | None) -> bool:
    """True for a tensor times or divided by one number that float32 does not hold, or the transpose of one."""
    if value is not None and value.op == "Transpose":
        value = value.inputs[0]
    if value is None or value.op not in ("Mul", "Div"):
        return False
    blobs = [v.blob for v in value.inputs if v is not None]
    return any(b is not None and b.size == 1 and float(np.float32(b.array.item())) != b.array.item() for b in blobs)


def linear_of_halves(value: Value) -> tuple[Value, Value] | None:
    """(product, bias) of a sum of 16 bits: a product of matrices that are no constants, or one that was computed in
    float32 for want of a kernel, and a vector; None for anything else.

    torch rounds the sum alone, and ONNX Runtime does where the matrix is a constant, as it then makes a Gemm of both.
    """
    if value.op != "Add" or not isinstance(value.type, Tensor) or value.dtype not in HALVES:
        return None
    for product, bias in (value.inputs[:2], value.inputs[1::-1]):
        if product is None or bias is None or bias.rank != 1 or product.rank < 2:
            continue
        found = product.inputs[0] if product.op == "Cast" else product
        if found is None or found.op != "MatMul":
            continue
        if product.op == "Cast" and any(rule.startswith("upcast") for rule in found.origin.rules):
            return found, bias
        if product.op == "MatMul" and not any(v.op == CONSTANT for v in found.inputs if v is not None):
            return found, bias
    return None


def counts_back(value: Value) -> bool:
    """True for a reduction of a tensor that may be empty over axes of which one is counted from the end."""
    if value.op not in REDUCTIONS and value.op not in PLACES:
        return False
    axes = reduced_axes(value)
    return axes is not None and min(axes, default=0) < 0 and any(may_be_empty(d) for d in value.inputs[0].shape)  # type: ignore[union-attr]


def reduced_axes(value: Value) -> tuple[int, ...] | None:
    """The axes that a reduction names; None where they are left out or no constants."""
    if value.op in PLACES:
        return (int(value.attribute("axis", 0)),)
    return axes_of(value.inputs[1]) if len(value.inputs) > 1 else None


def may_be_empty(dim: Dim) -> bool:
    """True for a size that is not known to be above 0."""
    return dims.same(dim, 0) is not False
