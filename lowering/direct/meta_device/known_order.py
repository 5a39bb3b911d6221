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
