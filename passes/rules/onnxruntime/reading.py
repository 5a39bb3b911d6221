"""How rules that read many operators walk from one to the next, and how they say that an operator is not the expected
one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeVar

from irkit.core.ir import Value
from irkit.pattern import attribute_of, uniform
from passes.analysis.questions import operand

VIEWS = frozenset(("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"))

Found = TypeVar("Found")


class Other(Exception):
    """What was read is not what the rule looks for; the text says why."""


def need(found: Found | Literal[False] | None, why: str) -> Found:
    """The argument, if something was found. Raises Other if it is None."""
    if not (isinstance(found, Value) or found):
        raise Other(why)
    return found


def bare(value: Value) -> Value:
    """The value below all views: the same elements in the same order."""
    while value.inputs and value.inputs[0] is not None and (value.op in VIEWS or is_only_slice(value)):
        value = value.inputs[0]
    return value


def is_only_slice(value: Value) -> bool:
    """True for the only slice along an axis."""
    if value.op != "Gather" or value.inputs[0] is None or value.inputs[1] is None or value.inputs[1].rank:
        return False
    return value.inputs[0].shape[attribute_of(value, "axis")] == 1


def uncast(value: Value) -> Value:
    """The value below casts."""
    while value.op == "Cast" and value.inputs[0] is not None:
        value = value.inputs[0]
    return value


def part_of(value: Value | None, index: int) -> Value | None:
    """The value with several results that this one is a result of; None for others."""
    return value.inputs[0] if value is not None and value.op == "Item" and value.attribute("index") == index else None


def first(value: Value) -> Value:
    """The first operand. Raises Other where it is left out."""
    return need(operand(value, 0), f"{value.op} has no first operand")


def both_ways(value: Value) -> Iterator[tuple[Value, Value]]:
    """The two operands of a commutative operator, in both orders; nothing where it has not two."""
    given = [v for v in value.inputs if v is not None]
    if len(given) == 2:
        yield given[0], given[1]
        yield given[1], given[0]


def is_last(axis: int | None, value: Value) -> bool:
    """True for the index of the last axis."""
    return isinstance(axis, int) and axis % max(value.rank, 1) == value.rank - 1


def factor(value: Value | None) -> float | None:
    """The number that all elements of a constant are; None for all else."""
    found = None if value is None else uniform(value)
    return float(found) if isinstance(found, int | float) else None
