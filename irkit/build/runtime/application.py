"""Shorthands that definitions of ONNX Runtime's operators are written in."""

from __future__ import annotations

import numpy as np

from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from irkit.nodes import construct
from irkit.nodes.applications import Application, Sizes, bound_sizes
from irkit.ops.opset import Operators
from irkit.ops.types.contents import contents
from irkit.support.counts import count_text

op = Operators(construct.call)
"""ONNX's own operators: what definitions are written in."""

__all__ = [
    "Application",
    "Sizes",
    "bound_sizes",
    "narrow",
    "number",
    "op",
    "require_present",
    "scalar_content",
    "vector",
    "wide",
]


def vector(*numbers: Dim) -> np.ndarray:
    """A constant vector of int64; the dimensions are numbers."""
    return np.array(numbers, dtype=np.int64)


def number(like: Value, content: float) -> Value:
    """A scalar constant in the element type of a value."""
    return construct.const(np.array(content).astype(like.dtype.numpy))


def wide(x: Value) -> Value:
    """x in float32, where it is of a half type: what ONNX Runtime computes in."""
    return op.Cast(x, to=DType.FLOAT) if x.dtype in (DType.FLOAT16, DType.BFLOAT16) else x


def narrow(x: Value, like: Value) -> Value:
    """x in the element type of another value."""
    return x if x.dtype is like.dtype else op.Cast(x, to=like.dtype)


def require_present(a: Application, past: Value | None, results: int) -> None:
    """Raises TypeRuleError where there are earlier keys, and the new ones are not asked for: the kernel computes with
    the memory of these results, whoever reads them."""
    if past is not None and a.outputs < results:
        raise a.fail(f"with a past ONNX Runtime takes it with {count_text(results, 'result')} at least")


def scalar_content(value: Value | None) -> Dim | None:
    """The only element of an integer operand as a dimension; None where it is unknown."""
    found = contents(value)
    return found[0] if found is not None and len(found) == 1 else None
