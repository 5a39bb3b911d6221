"""The least numbers that inputs may hold: places below 0, which a model refuses and ONNX counts from the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irkit.core.ir import Fact, Graph
from irkit.errors import ContractError

LEAST = "least"
"""The kind of a fact that no number of an input is less than one: `ids >= 0`."""


def least_fact(name: str, number: int, source: str) -> Fact:
    """The fact that no number of an input is less than `number`."""
    return Fact(LEAST, f"{name} >= {number}", source)


def least_numbers(graph: Graph) -> dict[str, tuple[int, str]]:
    """For each input of which the contract says that: its least number, and the line that asks for it."""
    found = [(fact.text.rpartition(" >= "), fact.source) for fact in graph.signature.facts if fact.kind == LEAST]
    return {name: (int(number), source) for (name, _, number), source in found}


def check_least(least: Mapping[str, tuple[int, str]], arrays: Mapping[str, Any]) -> None:
    """Raises ContractError for an input that holds a lesser number."""
    for name, (number, source) in least.items():
        array = arrays.get(name)
        if array is None or 0 in array.shape:
            continue
        held = int(array.min())
        if held < number:
            raise ContractError(
                f"{name} holds {held}, and the model looks up places from {number} on",
                source=source,
                hint="give places that are not below 0, which torch refuses, too",
            )
