"""Integer division by -1, which ends the process on a CPU where the least number of 32 or 64 bits is divided.

The quotient is a number that the type does not hold, and x86 raises SIGFPE for it. torch and numpy wrap around: least
// -1 is the least number again, and the remainder is 0. A division by 0 stays as it is: torch refuses it, which is a
condition of what is captured from it, and so does ONNX Runtime 1.31, for arrays and for scalars of every type.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from irkit.build import op
from irkit.core.ir import Value, param
from irkit.core.types import DType, tensor
from irkit.dims import signs
from irkit.pattern import hole
from irkit.rewriting.face import Made, Match, Rule, decline
from passes.analysis.questions import number

WIDE = (DType.INT32, DType.INT64)


def may_overflow(value: Value) -> bool:
    """True for a quotient or remainder of integers of 32 or 64 bits whose divisor may be -1."""
    x, y = value.inputs
    if x is None or y is None or x.dtype not in WIDE or value.attribute("fmod", 0):
        return False
    if y.blob is not None:
        return bool((y.blob.array == -1).any())
    return not is_size(y) and not is_kept_off(y, -1)


VIEWS = ("Unsqueeze", "Squeeze", "Reshape", "Gather", "Expand", "Identity")


def is_size(divisor: Value) -> bool:
    """True for one or several sizes of tensors, none of which is below 0."""
    divisor = seen_through(divisor, ("Cast", *VIEWS))
    if divisor.op == "ShapeVector":
        sizes = divisor.attribute("dims", ())
        return all(n >= 0 if isinstance(n, int) else signs.is_nonnegative(n) for n in sizes)
    return divisor.op in ("Shape", "Size")


def is_kept_off(divisor: Value, number: int) -> bool:
    """True for Where(y == number, other, y), and for the same with what else is asked of y."""
    divisor = seen_through(divisor, VIEWS)
    if divisor.op != "Where":
        return False
    flag, other, y = divisor.inputs
    if flag is None or other is None or other.blob is None or bool((other.blob.array == number).any()):
        return False
    return any(asks(each, bare(y), number) for each in alternatives(flag))


def asks(flag: Value, y: Value | None, number: int) -> bool:
    """True for y == number."""
    if flag.op != "Equal":
        return False
    for one, other in (flag.inputs, flag.inputs[::-1]):
        if bare(one) is y and other is not None and other.blob is not None:
            return other.dtype.is_integer and bool((other.blob.array == number).all())
    return False


def alternatives(flag: Value) -> Iterator[Value]:
    """The operands of an Or, and of those that stand in it; the flag itself where it is none."""
    for each in flag.inputs if flag.op == "Or" else ():
        if each is not None:
            yield from alternatives(each)
    if flag.op != "Or":
        yield flag


def seen_through(value: Value, ops: tuple[str, ...]) -> Value:
    """What a value is a view of, or several of the operators."""
    while value.op in ops and value.inputs[0] is not None:
        value = value.inputs[0]
    return value


def bare(value: Value | None) -> Value | None:
    """What a value is a Cast of: without a kernel for a type, each operator may get one of its own."""
    return value if value is None else seen_through(value, ("Cast",))


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
