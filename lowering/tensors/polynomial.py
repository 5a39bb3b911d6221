"""Polynomials as ONNX arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from irkit.build import op
from irkit.core.ir import Value
from lowering.tensors.promotion import scalar


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """c[0] + c[1] * x + c[2] * x**2 + ... by Horner's scheme, in the element type of x."""
    result = scalar(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        result = op.Add(op.Mul(result, x), coefficient)
    return result
