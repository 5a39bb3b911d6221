"""The function of torch that each ONNX operator is, and for which operands it is that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import torch

from irkit.core.ir import Value
from irkit.core.types import DType, Optional, Tensor, Tuple, Type
from irkit.core.types import Sequence as SequenceType
from irkit.core.vocabulary import CONSTANT
from irkit.evaluation.kernels.common import attr
from lowering.records.types import TORCH
from lowering.torch_modules import (
    activations,
    attention,
    casts,
    convolution,
    creation,
    elementwise,
    images,
    indexing,
    linear_algebra,
    movement,
    normalization,
    pooling,
    reduction,
    sequences,
)
from lowering.torch_modules.casts import PLAIN
from lowering.torch_modules.common import Function

FAMILIES = (
    activations, attention, casts, convolution, creation, elementwise, images, indexing, linear_algebra, movement,
    normalization, pooling, reduction, sequences,
)  # fmt: skip

FUNCTIONS: Mapping[str, Function] = {op: function for family in FAMILIES for op, function in family.TABLE.items()}
"""By the name of the operator."""

SIZES: Mapping[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "Slice": (1, 2, 3, 4), "Pad": (1, 3), "Squeeze": (1,),
    "Unsqueeze": (1,), "Split": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2), "TopK": (1,), "OneHot": (1,),
    "CumSum": (1,), "CumProd": (1,), "CenterCropPad": (1,), "AffineGrid": (1,), "Trilu": (1,), "SequenceAt": (1,),
    "SequenceErase": (1,), "SequenceInsert": (2,),
    **{f"Reduce{kind}": (1,) for kind in (
        "Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare",
    )},
}  # fmt: skip
"""The operands of each operator that are sizes or axes: they come as integers, where these are known."""

SEVERAL = frozenset(("Attention", "LayerNormalization", "Dropout", "TopK", "Split", "BatchNormalization"))
"""Operators whose function may give a tuple."""
CARRIED = frozenset((
    "Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Transpose", "Unsqueeze", *sequences.TABLE,
))  # fmt: skip
"""Operators that compute nothing, and so take every element type that torch has."""
COMPLEX = frozenset(("Abs", "Add", "Div", "MatMul", "Mul", "Neg", "Sub", "Where", "Concat", "Gather", "Slice"))
SMALL_INTEGERS = frozenset((torch.int8, torch.uint8))


def dtypes_in(type_: Type | None) -> Iterator[DType]:
    """The element types in a type."""
    if isinstance(type_, Tuple):
        for part in type_.items:
            yield from dtypes_in(part)
    elif isinstance(type_, SequenceType | Optional):
        yield from dtypes_in(type_.element)
    elif isinstance(type_, Tensor):
        yield type_.dtype


def function_of(value: Value) -> Function | None:
    """The function that computes an operator on operands like these; None where torch has none."""
    function = FUNCTIONS.get(value.op)
    if function is None or (isinstance(value.type, Tuple) and value.op not in SEVERAL):
        return None
    kinds = [TORCH.get(d) for v in (*value.inputs, value) if v is not None for d in dtypes_in(v.type)]
    allowed = PLAIN | {torch.complex64, torch.complex128} if value.op in COMPLEX else PLAIN
    if None in kinds or (value.op not in CARRIED and not allowed.issuperset(kinds)):
        return None
    fits = CONDITIONS.get(value.op)
    return function if fits is None or fits(value) else None


# ---------------------------------------------------------------------------------------------- conditions


def dtype_of(value: Value, at: int = 0) -> torch.dtype | None:
    """torch's element type of an operand."""
    operand = value.inputs[at] if at < len(value.inputs) else None
    return None if operand is None else TORCH.get(operand.dtype)


def rank_of(value: Value, at: int = 0) -> int:
    """How many dimensions an operand has."""
    operand = value.inputs[at]
    return 0 if operand is None else operand.rank


def is_attention(value: Value) -> bool:
    """Of floats, with a mask of them or of truth values, heads that divide one another, and no lengths with a past."""
    mask, past, valid = (value.inputs[i] if i < len(value.inputs) else None for i in (3, 4, 6))
    plain = mask is None or mask.dtype is DType.BOOL or mask.dtype.is_float
    return plain and (past is None or valid is None) and same_floats(value.inputs[:3])


def is_conv(value: Value) -> bool:
    """One to three spatial axes."""
    return 3 <= rank_of(value) <= 5


def is_pool(value: Value) -> bool:
    """One to three spatial axes, and pads that are fewer than places of a window."""
    return 3 <= rank_of(value) <= 5 and TORCH.get(value.dtype) in (PLAIN - {torch.bool, torch.int32, torch.int64})


def is_quantize(value: Value) -> bool:
    """Of float32, one scale or one along an axis, integers that torch has."""
    zero = dtype_of(value, 2)
    known = value.attribute("output_dtype", 0) == 0 if zero is None else zero in (*SMALL_INTEGERS, torch.int16)
    plain = not value.attribute("block_size", 0) and not value.attribute("precision", 0)
    return known and plain and dtype_of(value) == dtype_of(value, 1) == torch.float32 and rank_of(value, 1) <= 1


def is_dequantize(value: Value) -> bool:
    """One scale or one along an axis, of integers that torch has."""
    integer = dtype_of(value) in (*SMALL_INTEGERS, torch.int16, torch.int32)
    return integer and not value.attribute("block_size", 0) and rank_of(value, 1) <= 1


def is_grid(value: Value) -> bool:
    """Two spatial axes, or three without cubic ones."""
    return rank_of(value) == 4 or (rank_of(value) == 5 and attr(value, "mode") != "cubic")


def is_pad(value: Value) -> bool:
    """Constant pads, or known ones that are not negative."""
    if attr(value, "mode") == "constant":
        return True
    pads = value.inputs[1]
    known = pads is not None and pads.op == CONSTANT and pads.blob is not None and pads.blob.integers
    return bool(known) and min(known) >= 0


def is_resize(value: Value) -> bool:
    """Of floats, without a region, and with finite weights alone."""
    return attr(value, "coordinate_transformation_mode") != "tf_crop_and_resize" and is_of_floats(value)


def is_of_floats(value: Value) -> bool:
    """Floating-point numbers."""
    kind = dtype_of(value)
    return kind is not None and kind.is_floating_point


def is_scatter(value: Value) -> bool:
    """No reduction of truth values, which torch has none of."""
    return attr(value, "reduction") == "none" or dtype_of(value) != torch.bool


def is_cast(value: Value) -> bool:
    """Between element types that torch converts as ONNX does."""
    return not value.attribute("round_mode")


def of_one_type(value: Value) -> bool:
    """Operands of one element type."""
    return same_floats(value.inputs)


def same_floats(values: Iterable[Value | None]) -> bool:
    """Values of one element type."""
    return len({v.dtype for v in values if v is not None}) == 1


CONDITIONS: Mapping[str, Callable[[Value], bool]] = {
    "Attention": is_attention, "AveragePool": is_pool, "BatchNormalization": of_one_type, "Cast": is_cast,
    "Conv": is_conv,
    "ConvInteger": is_conv, "ConvTranspose": is_conv, "DequantizeLinear": is_dequantize, "GridSample": is_grid,
    "GroupNormalization": of_one_type, "InstanceNormalization": of_one_type, "LpPool": is_pool, "MaxPool": is_pool,
    "Pad": is_pad, "QuantizeLinear": is_quantize, "Resize": is_resize, "ScatterElements": is_scatter,
    "ScatterND": is_scatter,
}  # fmt: skip
"""What of an operator its function computes; all of it where nothing is said."""
