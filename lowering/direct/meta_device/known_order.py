"""Of which values the elements lie in order whatever their sizes are, also where axes have one element: torch lays out
what it computes as the operands lie, and strides of such axes need not say how that is."""

from __future__ import annotations

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


def is_filled(value: Value) -> bool:
    """Whether a value is one number everywhere, as torch.full makes it."""
    filling = value.inputs[0] if value.op == "Expand" else None
    return filling is not None and filling.op == CONSTANT and set(filling.shape) <= {1}


def may_be_like_another(value: Value) -> bool:
    """Whether an operator makes numbers that tell nothing of its operands, but lie as one of these does: zeros_like
    makes zeros, and isnan of integers a truth value, whatever they are."""
    made_by = value.origin.target.partition(".")[0] if value.op in NUMBERS else ""
    return made_by.startswith("aten::") and made_by not in FACTORIES
