"""Each element from those at its place."""

from __future__ import annotations

import functools
from typing import Any

import torch

from lowering.torch_modules.common import Function


def div(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a / b; of integers, cut towards zero."""
    return torch.div(a, b) if a.is_floating_point() or a.is_complex() else torch.div(a, b, rounding_mode="trunc")


def mod(a: torch.Tensor, b: torch.Tensor, *, fmod: int = 0) -> torch.Tensor:
    """The rest of a division, with the sign of the divisor, or with `fmod` of the dividend."""
    return torch.fmod(a, b) if fmod else torch.remainder(a, b)


def power(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a to the b, in the element type of a."""
    if a.dtype == b.dtype:
        return torch.pow(a, b)
    if a.is_floating_point():
        return torch.pow(a, b.to(a.dtype))
    return torch.pow(a.to(b.dtype), b).to(a.dtype) if b.is_floating_point() else torch.pow(a, b).to(a.dtype)


def clip(x: torch.Tensor, low: Any = None, high: Any = None) -> torch.Tensor:
    """x between two numbers."""
    if low is not None:
        x = torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


def fold_all(function: Function, *xs: torch.Tensor) -> torch.Tensor:
    """One function of two over any number of operands."""
    return functools.reduce(function, xs)


def maximum(*xs: torch.Tensor) -> torch.Tensor:
    """The largest of the operands."""
    return fold_all(torch.maximum, *torch.broadcast_tensors(*xs))


def minimum(*xs: torch.Tensor) -> torch.Tensor:
    """The smallest of the operands."""
    return fold_all(torch.minimum, *torch.broadcast_tensors(*xs))


def total(*xs: torch.Tensor) -> torch.Tensor:
    """The sum of the operands."""
    return fold_all(torch.add, *torch.broadcast_tensors(*xs))


def mean(*xs: torch.Tensor) -> torch.Tensor:
    """The mean of the operands."""
    return total(*xs) / len(xs)


def isinf(x: torch.Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> torch.Tensor:
    """Where x is infinite, of the signs that are looked for."""
    found = torch.isinf(x)
    if not detect_negative:
        found = found & (x > 0)
    return found if detect_positive else found & (x < 0)


def shift(x: torch.Tensor, by: torch.Tensor, *, direction: str) -> torch.Tensor:
    """Bits moved to one side."""
    return torch.bitwise_left_shift(x, by) if direction == "LEFT" else torch.bitwise_right_shift(x, by)


def sign(x: torch.Tensor) -> torch.Tensor:
    """-1, 0 or 1; NaN stays."""
    return torch.where(torch.isnan(x), x, torch.sign(x)) if x.is_floating_point() else torch.sign(x)


TABLE = {
    "Abs": torch.abs, "Acos": torch.acos, "Acosh": torch.acosh, "Add": torch.add, "And": torch.logical_and,
    "Asin": torch.asin, "Asinh": torch.asinh, "Atan": torch.atan, "Atanh": torch.atanh, "BitShift": shift,
    "BitwiseAnd": torch.bitwise_and, "BitwiseNot": torch.bitwise_not, "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor, "Ceil": torch.ceil, "Clip": clip, "Cos": torch.cos, "Cosh": torch.cosh,
    "Div": div, "Equal": torch.eq, "Erf": torch.erf, "Exp": torch.exp, "Floor": torch.floor, "Greater": torch.gt,
    "GreaterOrEqual": torch.ge, "IsInf": isinf, "IsNaN": torch.isnan, "Less": torch.lt, "LessOrEqual": torch.le,
    "Log": torch.log, "Max": maximum, "Mean": mean, "Min": minimum, "Mod": mod, "Mul": torch.mul, "Neg": torch.neg,
    "Not": torch.logical_not, "Or": torch.logical_or, "Pow": power, "Reciprocal": torch.reciprocal,
    "Round": torch.round, "Sign": sign, "Sin": torch.sin, "Sinh": torch.sinh, "Sqrt": torch.sqrt, "Sub": torch.sub,
    "Sum": total, "Tan": torch.tan, "Tanh": torch.tanh, "Where": torch.where, "Xor": torch.logical_xor,
}  # fmt: skip
