"""Every converter serves an operator that torch has, by the names of its arguments."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch

from lowering.aten.aliases import ALIASES
from lowering.errors import LoweringError
from lowering.fold.complex_registry import complex_converters
from lowering.fold.registry import STANDARD, entry, gather_converters, late_converters

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
    own = {name: each for name, each in {**STANDARD, **late_converters()}.items() if name not in ALIASES}
    assert [line.partition(":")[0] for line in offences(own)] == ["aten_avg_pool1d"]  # made as that of images is


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


def test_aliases_are_served_by_the_converter_that_the_table_names() -> None:
    """With the arguments of the operator that it is named for, defaults included."""
    real = {**STANDARD, **late_converters()}
    for name, of in ALIASES.items():
        converters = complex_converters() if name.startswith("complex_") else real
        assert converters[name] is converters[of], name
        space, _, rest = name.replace("complex_", "aten_").partition("_")
        if not hasattr(getattr(torch.ops, space), rest):
            continue  # named with its overload
        parameters = inspect.signature(converters[of]).parameters
        overload = getattr(getattr(torch.ops, space), rest)
        schema = getattr(overload, overload.overloads()[0])._schema
        needed = {p.name for p in parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
        assert needed <= {argument.name for argument in schema.arguments}, name
        for argument in schema.arguments:
            found = parameters.get(argument.name)
            if found is not None and argument.has_default_value() and found.default is not inspect.Parameter.empty:
                assert plain(found.default) == plain(argument.default_value), f"{name}: {argument.name}"


def plain(default: Any) -> Any:
    """A default as it is compared: a number for a list of equal ones, -1 for nothing, as embedding bags write it."""
    if isinstance(default, list | tuple):
        return default[0] if len(set(default)) == 1 else (tuple(default) or -1)
    return -1 if default is None else default


def test_converters_that_factories_make_bear_their_own_names_in_tracebacks() -> None:
    own = {**STANDARD, **late_converters(), **complex_converters()}
    assert [name for name, each in own.items() if name not in ALIASES and each.__code__.co_name != name] == []
    with pytest.raises(AttributeError) as error:
        STANDARD["aten_avg_pool2d"](None, 2)
    assert error.traceback[1].name == "aten_avg_pool2d"
    assert "average_pool" in vars(importlib.import_module("lowering.aten.pooling.pool"))["aten_avg_pool2d"].__qualname__


def test_a_name_stands_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import lowering.aten.elementwise.arithmetic as module

    def aten_absolute(self: Any) -> Any:
        return self

    aten_absolute.__module__ = module.__name__
    monkeypatch.setattr(module, "aten_absolute", aten_absolute, raising=False)
    with pytest.raises(LoweringError, match="aten_absolute is both"):
        gather_converters(module)
