"""Of which values the elements lie in order whatever their sizes are, also where axes have one element: torch lays out
what it computes as the operands lie, and strides of such axes need not say how that is."""

from __future__ import annotations

from collections.abc import Callable

from irkit.core.ir import Value
from irkit.core.types import Tensor
from irkit.core.vocabulary import CONSTANT, PARAM, SHAPE_VECTOR
from irkit.dims import Dim
from irkit.ops.families import family_of

NEW = frozenset(("MatMul", "Gemm", "LayerNormalization", "ConstantOfShape", "Range", CONSTANT, PARAM, SHAPE_VECTOR))
"""Operators whose result lies in order however their operands lie, and what is given."""
ALIKE = frozenset(
    "Reshape Unsqueeze Squeeze Flatten Identity Concat Pad CumSum ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd "
    "ReduceL2 ArgMax ArgMin Gather Conv".split()
)
"""Others whose result lies in order where their operands do."""
FAMILIES = frozenset(("elementwise", "activations", "casts", "normalization"))
NUMBERS = frozenset((CONSTANT, "ConstantOfShape", "Expand", "Range"))
FACTORIES = frozenset(
    f"aten::{name}"
    for name in "zeros ones full empty new_zeros new_ones new_full new_empty scalar_tensor arange range "
    "linspace logspace eye tril_indices triu_indices lift_fresh lift_fresh_copy _tensor_constant tensor".split()
)
MOST = 4096
"""Of how many values this is looked at."""


def computed_around(value: Value) -> tuple[bool, list[Dim]]:
    """(whether a value is computed of such as lie in order, by operators that leave it at that, the sizes that vary on
    the way)"""
    plain, seen, left = True, {value}, [value]
    sizes: dict[Dim, None] = {}
    while left:
        at = left.pop()
        if isinstance(at.type, Tensor):
            sizes.update(dict.fromkeys(d for d in at.type.shape if type(d) is not int))
        if at.op in NEW or is_filled(at):
            plain = plain and not may_be_like_another(at)
            continue
        plain = plain and (at.op in ALIKE or family_of(at.op) in FAMILIES) and not at.bodies
        new = {each for each in at.inputs if each is not None and each not in seen}
        seen |= new
        left += new
        if len(seen) > MOST:
            return False, list(sizes)
    return plain, list(sizes)


def has_part_of_one(value: Value, size: Callable[[Dim], int]) -> bool:
    """Whether a value may be computed of a part of a tensor, or of its axes in another order, with an axis whose `size`
    is one: how what is computed of it lies along that, the other strides tell, and these are others at other sizes. A
    part that is written is none: what is written lies as it did."""
    seen, left = {value}, [value]
    while left:
        at = left.pop()
        if at.bodies or len(seen) > MOST:
            return True
        alike = (at.op in NEW or is_filled(at)) and may_be_like_another(at)
        part = at.op in PARTS and isinstance(at.type, Tensor) and at.origin.target != WRITTEN
        if alike or (part and 1 in map(size, at.shape)):
            return True
        new = {each for each in at.inputs if each is not None and each not in seen}
        seen |= new
        left += new
    return False


WRITTEN = "write"
"""Where what stands for a write into a part comes from."""
PARTS = frozenset(("Slice", "Split", "Transpose", "Item"))


def is_filled(value: Value) -> bool:
    """Whether a value is one number everywhere, as torch.full makes it."""
    filling = value.inputs[0] if value.op == "Expand" else None
    return filling is not None and filling.op == CONSTANT and set(filling.shape) <= {1}


def may_be_like_another(value: Value) -> bool:
    """Whether an operator makes numbers that tell nothing of its operands, but lie as one of these does: zeros_like
    makes zeros, and isnan of integers a truth value, whatever they are."""
    if value.op not in NUMBERS or not isinstance(value.type, Tensor) or value.rank < 2:  # what else lies in order
        return False
    made_by = value.origin.target.partition(".")[0]
    return made_by.startswith("aten::") and made_by not in FACTORIES
