"""Every converter serves an operator that torch has, by the names of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from lowering.fold.complex_registry import complex_converters
from lowering.fold.registry import STANDARD, entry, late_converters

SPACES = ("aten", "prims")


def overloads(name: str) -> list[Any]:
    """The overloads that a converter of this name serves; none where torch has no such operator."""
    space, _, rest = name.partition("_")
    whole = getattr(getattr(torch.ops, space), rest, None)
    found = [] if whole is None else [getattr(whole, each) for each in whole.overloads()]
    for place in [i for i, c in enumerate(rest) if c == "_" and 0 < i < len(rest) - 1]:
        packet = getattr(getattr(torch.ops, space), rest[:place], None)
        if packet is not None and rest[place + 1 :] in packet.overloads():
            found.append(getattr(packet, rest[place + 1 :]))
    return found


def offences(converters: Mapping[str, Callable[..., Any]]) -> Iterator[str]:
    """One line for each name that torch does not have."""
    for name, function in sorted(converters.items()):
        if name.partition("_")[0] not in SPACES:
            continue
        served = overloads(name)
        if not served:
            yield f"{name}: torch has no such operator"
            continue
        known = {a.name for overload in served for a in overload._schema.arguments}
        unknown = [n for n in entry(function).names if n not in known]
        if unknown:
            yield f"{name}: torch has no argument {', '.join(unknown)}; it has {', '.join(sorted(known))}"


def test_converters_are_named_as_torch_names_operators_and_arguments() -> None:
    assert list(offences({**STANDARD, **late_converters()})) == []


def test_converters_for_complex_tensors_are_named_so_too() -> None:
    renamed = {}
    for name, function in complex_converters().items():
        rest = name.removeprefix("complex_")
        renamed[rest if rest.startswith("prims_") else f"aten_{rest}"] = function
    assert list(offences(renamed)) == []


def test_a_name_that_torch_does_not_have_is_reported() -> None:
    def aten_no_such_operator(self: Any) -> Any:
        return self

    def aten_abs(x: Any) -> Any:
        return x

    def aten_add_Tensor(self: Any, other: Any, *, alpha: Any = 1, expected: Any = None) -> Any:
        return self, other, alpha, expected

    made = {f.__name__: f for f in (aten_no_such_operator, aten_abs, aten_add_Tensor)}
    assert [line.partition(":")[0] for line in offences(made)] == ["aten_abs", "aten_no_such_operator"]
    assert "expected" in inspect.signature(aten_add_Tensor).parameters
