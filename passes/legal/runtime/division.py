"""Integer division by 0, which ONNX Runtime refuses, and by -1 of the least number, which ends the process.

x86 raises SIGFPE for the second, where both operands are arrays. torch and numpy wrap around: least // -1 is the least
number again, and the remainder is 0. By 0 torch raises, which is a condition of what is captured from it, and ONNX
Runtime 1.31 refuses the call; numpy gives 0, and so does what is written here.
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


def may_fail(value: Value) -> bool:
    """True for a quotient or remainder of integers whose divisor may be 0, or -1 in a type of 32 or 64 bits."""
    x, y = value.inputs
    if x is None or y is None or not x.dtype.is_integer or value.attribute("fmod", 0):
        return False
    if y.blob is not None:
        wrong = (0, -1) if x.dtype in WIDE else (0,)
        return not y.blob.is_weight and bool(np.isin(y.blob.array, wrong).any())
    return not is_kept_off(y)


def is_kept_off(divisor: Value) -> bool:
    """True for Where(y == 0, 1, y), for the same with what else is asked of y, and for what is a size."""
    while divisor.op in ("Unsqueeze", "Squeeze", "Cast", "Reshape", "Gather") and divisor.inputs[0] is not None:
        divisor = divisor.inputs[0]
    if divisor.op in ("ShapeVector", "Shape", "Size"):
        return True
    flag = divisor.inputs[0] if divisor.op == "Where" else None
    flags = flag.inputs if flag is not None and flag.op == "Or" else (flag,)
    asked = [bare(v) for each in flags if each is not None and each.op == "Equal" for v in each.inputs]
    return bool(asked) and bare(divisor.inputs[2]) in asked


def bare(value: Value | None) -> Value | None:
    """What a value is a Cast of: without a kernel for a type, each operator may get one of its own."""
    while value is not None and value.op == "Cast":
        value = value.inputs[0]
    return value


def by_others(m: Match) -> Made:
    """Divided by 1 where the divisor is 0 or -1; a quotient is then 0, or turned"""
    x, y = m.root.inputs
    if y is None:
        return decline("no divisor")
    none, wide = op.Equal(y, number(y, 0)), y.dtype in WIDE
    minus = op.Equal(y, number(y, -1)) if wide else none
    safe = op.Where(op.Or(none, minus) if wide else none, number(y, 1), y)
    if m.root.op == "Mod":
        return op.Mod(x, safe)
    found = op.Div(x, safe)
    return op.Where(none, number(y, 0), op.Where(minus, op.Neg(found), found) if wide else found)


def _sample(rng: np.random.Generator, name: str) -> Value:
    dtype = ("i32", "i64")[int(rng.integers(2))]
    x, flags = param(tensor(dtype, "n", 3)), param(tensor("bool", "n", 3))
    signs = (np.array(n, x.dtype.numpy) for n in (-1, int(rng.integers(1, 9))))
    return op.Mod(x, op.Where(flags, *signs)) if name == "Mod" else op.Div(x, op.Where(flags, *signs))


OVERFLOWS = (
    Rule("mod_by_nothing", hole("root", ops=("Mod",), where=may_fail), by_others, True,
         "Mod(x, y) -> Mod(x, Where(y == 0 or y == -1, 1, y))", sample=lambda rng: _sample(rng, "Mod")),
    Rule("div_by_nothing", hole("root", ops=("Div",), where=may_fail), by_others, True,
         "Div(x, y) -> 0 or +-Div(x, Where(y == 0 or y == -1, 1, y))", sample=lambda rng: _sample(rng, "Div")),
)  # fmt: skip
"""What ONNX Runtime's CPU provider must never be given."""
