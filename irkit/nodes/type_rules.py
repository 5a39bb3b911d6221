"""The type rules of all families, gathered once into an immutable map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from irkit.errors import TypeRuleError
from irkit.ops.types import (
    activations,
    attention,
    casts,
    control,
    convolution,
    creation,
    elementwise,
    images,
    indexing,
    linear_algebra,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    sequences,
    signal,
    text,
)
from irkit.support.families import functions_of

RULES: Mapping[str, Callable[[Any], Any]] = functions_of("infer_", "irkit.ops.types", (
    activations, attention, casts, control, convolution, creation, elementwise, images, indexing, linear_algebra,
    movement, normalization, pooling, recurrent, reduction, sequences, signal, text,
))  # fmt: skip


def infer(op: str) -> Callable[[Any], Any]:
    """The type rule of an operator. Raises TypeRuleError where there is none."""
    rule = RULES.get(op)
    if rule is None:
        raise TypeRuleError(
            f"irkit has no type rule for {op}", hint="give its result type: irkit.custom(op, ..., type=...)"
        )
    return rule
