"""Integer division by -1, which ends the process on a CPU where the least number of 32 or 64 bits is divided.

The quotient is a number that the type does not hold, and x86 raises SIGFPE for it; ONNX Runtime lets that pass. torch
and numpy wrap around: least // -1 is the least number again, and the remainder is 0.
"""

from __future__ import annotations

import numpy as np

from irkit.build import op
from irkit.core.ir import Value, param
from irkit.core.types import DType, tensor
from irkit.pattern import hole
from irkit.rewriting.face import Made, Match, Rule, decline
from passes.analysis.questions import number

WIDE = (DType.INT32, DType.INT64)


def may_overflow(value: Value) -> bool:
    """True for a quotient or remainder of integers whose divisor may be -1."""
    x, y = value.inputs
    if x is None or y is None or x.dtype not in WIDE or value.attribute("fmod", 0):
        return False
    if y.blob is not None:
        return not y.blob.is_weight and bool((y.blob.array == -1).any())
    return not is_kept_off(y)


def is_kept_off(divisor: Value) -> bool:
    """True for Where(y == -1, 1, y), and for what is a size."""
    while divisor.op in ("Unsqueeze", "Squeeze", "Cast", "Reshape", "Gather") and divisor.inputs[0] is not None:
        divisor = divisor.inputs[0]
    if divisor.op in ("ShapeVector", "Shape", "Size"):
        return True
    flag = divisor.inputs[0] if divisor.op == "Where" else None
    return flag is not None and flag.op == "Equal" and divisor.inputs[2] in flag.inputs


def by_others(m: Match) -> Made:
    """Divided by 1 where the divisor is -1; a quotient is then turned"""
    x, y = m.root.inputs
    if y is None:
        return decline("no divisor")
    minus = op.Equal(y, number(y, -1))
    safe = op.Where(minus, number(y, 1), y)
    if m.root.op == "Mod":
        return op.Mod(x, safe)
    found = op.Div(x, safe)
    return op.Where(minus, op.Neg(found), found)


def _sample(rng: np.random.Generator, name: str) -> Value:
    dtype = ("i32", "i64")[int(rng.integers(2))]
    x, flags = param(tensor(dtype, "n", 3)), param(tensor("bool", "n", 3))
    signs = (np.array(n, x.dtype.numpy) for n in (-1, int(rng.integers(1, 9))))
    return op.Mod(x, op.Where(flags, *signs)) if name == "Mod" else op.Div(x, op.Where(flags, *signs))


OVERFLOWS = (
    Rule("mod_by_minus_one", hole("root", ops=("Mod",), where=may_overflow), by_others, True,
         "Mod(x, y) -> Mod(x, Where(y == -1, 1, y))", sample=lambda rng: _sample(rng, "Mod")),
    Rule("div_by_minus_one", hole("root", ops=("Div",), where=may_overflow), by_others, True,
         "Div(x, y) -> +-Div(x, Where(y == -1, 1, y))", sample=lambda rng: _sample(rng, "Div")),
)  # fmt: skip
"""What ONNX Runtime's CPU provider must never be given."""
