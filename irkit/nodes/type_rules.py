"""The type rules of all families, gathered once into an immutable map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
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

PREFIX = "infer_"


def gathered(*families: ModuleType) -> Mapping[str, Callable[[Any], Any]]:
    """Every function `infer_X` of the modules, by operator name. Raises TypeRuleError where two have one name.

    Names in lower case (`infer_broadcast`) are rules that several operators share, and no operator's own.
    """
    found: dict[str, Callable[[Any], Any]] = {}
    for family in families:
        for name, function in vars(family).items():
            op = name.removeprefix(PREFIX)
            if name.startswith(PREFIX) and callable(function) and not op[0].islower():
                if op in found and found[op] is not function:
                    raise TypeRuleError(f"two type rules for {op}")
                found[op] = function
    return MappingProxyType(found)


RULES = gathered(
    activations, attention, casts, control, convolution, creation, elementwise, images, indexing, linear_algebra,
    movement, normalization, pooling, recurrent, reduction, sequences, signal, text,
)  # fmt: skip


def infer(op: str) -> Callable[[Any], Any]:
    """The type rule of an operator. Raises TypeRuleError where there is none."""
    rule = RULES.get(op)
    if rule is None:
        raise TypeRuleError(
            f"irkit has no type rule for {op}", hint="give its result type: irkit.custom(op, ..., type=...)"
        )
    return rule
