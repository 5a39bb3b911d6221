"""Definitions of ONNX Runtime's activations."""

from __future__ import annotations

from irkit.build.runtime.application import Application, number, op
from irkit.core.ir import Value


def gelu(a: Application, x: Value) -> Value:
    """x * Phi(x)"""
    return op.Gelu(x)


def bias_gelu(a: Application, x: Value, bias: Value) -> Value:
    """Gelu(x + bias), bias along the last axis"""
    if bias.rank != 1:
        raise a.fail("the bias must be a vector")
    return op.Gelu(op.Add(x, bias))


def fast_gelu(a: Application, x: Value, bias: Value | None) -> Value:
    """Gelu(x + bias) by the tanh of a polynomial"""
    if bias is not None and bias.rank != 1:
        raise a.fail("the bias must be a vector")
    return op.Gelu(x if bias is None else op.Add(x, bias), approximate="tanh")


def quick_gelu(a: Application, x: Value) -> Value:
    """x * Sigmoid(alpha * x)"""
    alpha = a.attr("alpha")
    return op.Mul(x, op.Sigmoid(x if alpha == 1 else op.Mul(x, number(x, alpha))))
