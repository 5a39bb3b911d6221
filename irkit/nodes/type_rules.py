"""The type rules of all families, gathered once into an immutable map."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from irkit.core.types import Type
from irkit.errors import TypeRuleError
from irkit.ops.families import FAMILIES
from irkit.ops.types.context import Context
from irkit.support.families import functions_of

RULES: Mapping[str, Callable[[Context], Type]] = functions_of("infer_", "irkit.ops.types", FAMILIES)


def infer(op: str) -> Callable[[Context], Type]:
    """The type rule of an operator. Raises TypeRuleError where there is none."""
    rule = RULES.get(op)
    if rule is None:
        raise TypeRuleError(
            f"irkit has no type rule for {op}", hint="give its result type: irkit.custom(op, ..., type=...)"
        )
    return rule
