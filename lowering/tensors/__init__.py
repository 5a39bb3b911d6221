"""What converters are written with: values as torch computes with them. Without torch.

Element types as torch promotes them, shapes, NaN, pairs of complex numbers, resampling.
"""

from lowering.tensors.complex_pairs import is_complex, pair, parts
from lowering.tensors.pieces import full
from lowering.tensors.promotion import Operand, cast, floating_all, promote, result_dtype, scalar, to_float
from lowering.tensors.shaping import (
    axes,
    axis,
    broadcast_shape,
    concat,
    expand,
    ints,
    iota,
    permute,
    reshape,
    slice_axis,
    squeeze,
    unsqueeze,
)

__all__ = [
    # element types
    "Operand",
    "promote",
    "result_dtype",
    "to_float",
    "floating_all",
    "cast",
    "scalar",
    # shapes
    "axis",
    "axes",
    "ints",
    "iota",
    "full",
    "reshape",
    "expand",
    "broadcast_shape",
    "permute",
    "squeeze",
    "unsqueeze",
    "concat",
    "slice_axis",
    # complex numbers as pairs
    "is_complex",
    "pair",
    "parts",
]
