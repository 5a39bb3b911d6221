"""Activations by other operators, in fewer than ONNX's own definition of them has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from irkit.build import op
from irkit.core.ir import Value
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match


def swish(_: Match, value: Value) -> Value:
    """x * Sigmoid(alpha * x)

    ONNX's definition of it casts a constant to the type of x and multiplies by it, be it 1: four operators, and four
    rules that take them out again, for each layer of most decoders.
    """
    x: Any = value.inputs[0]
    alpha = float(np.float32(attribute_of(value, "alpha")))  # that is what a file holds
    return op.Mul(x, op.Sigmoid(x if alpha == 1 else op.Mul(x, alpha)))


EXPANSIONS: Mapping[str, Callable[[Match, Value], Any]] = {"Swish": swish}
