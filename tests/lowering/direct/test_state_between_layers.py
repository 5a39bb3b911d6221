"""Layers that are alike but for something of Python's that the model changes between them: each computes with what
stands when it is called."""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import math
import os
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import irkit
from lowering.direct import equal_modules
from tests.fuzz.equal_layers import faults, text_of

FLAG = False
BOX = [False]
TABLE = {"is": False}
CONTEXT = contextvars.ContextVar("context", default=False)
LOCAL = threading.local()
ARRAY = np.zeros(2)
QUEUE = collections.deque([False])
SPACE = types.SimpleNamespace(is_on=False)


class Slots:
    """An object without a dict."""

    __slots__ = ("is_on",)


SLOTS = Slots()


class Told:
    """An object with a property."""

    @property
    def is_on(self) -> bool:
        return BOX[0]


TOLD = Told()


@dataclasses.dataclass
class Settings:
    """What all layers hold."""

    is_on: bool = False
    deep: Any = None
    table: dict[str, bool] = dataclasses.field(default_factory=lambda: {"is": False})


class Handed:
    """What layers are handed, as a cache is."""

    def __init__(self) -> None:
        self.flags: dict[str, bool] = {}
        self.items: list[Any] = [False, 0]
        self.inner = Inner()
        self.entries = [Inner()]
        self.is_on = False
        self.factor, self.zero = 1, 0.0

    def given(self, x: Any, _number: int) -> Any:
        return x


class Inner:
    """What that holds."""

    def __init__(self) -> None:
        self.is_on = False

    def told(self) -> bool:
        return self.is_on


def asked() -> bool:
    return asked.is_on  # type: ignore[attr-defined]


asked.is_on = False  # type: ignore[attr-defined]


def variable() -> tuple[Callable[[], bool], Callable[[bool], None]]:
    """(what a variable around both holds, what sets it)"""
    held = False

    def put(value: bool) -> None:
        nonlocal held
        held = value

    return lambda: held, put


GET, PUT = variable()


def set_global(_model: Any, _handed: Any, _layer: Any, on: bool) -> None:
    global FLAG  # noqa: PLW0603
    FLAG = on


def set_default(_model: Any, _handed: Any, _layer: Any, on: bool) -> None:
    torch.use_deterministic_algorithms(on)


Read = Callable[[Any, Handed], Any]
Change = Callable[[Any, Handed, Any, bool], Any]
KINDS: dict[str, tuple[Read, Change]] = {
    "object that all hold": (lambda s, h: s.held.is_on, lambda m, h, s, on: setattr(m.held, "is_on", on)),
    "object in it": (lambda s, h: s.held.deep.is_on, lambda m, h, s, on: setattr(m.held.deep, "is_on", on)),
    "dict in it": (lambda s, h: s.held.table["is"], lambda m, h, s, on: m.held.table.update({"is": on})),
    "list that all hold": (lambda s, h: s.shared[0][0], lambda m, h, s, on: m.shared[0].__setitem__(0, on)),
    "global variable": (lambda s, h: FLAG, set_global),
    "global list": (lambda s, h: BOX[0], lambda m, h, s, on: BOX.__setitem__(0, on)),
    "global dict": (lambda s, h: TABLE["is"], lambda m, h, s, on: TABLE.update({"is": on})),
    "attribute of the class": (lambda s, h: Layer.is_on, lambda m, h, s, on: setattr(Layer, "is_on", on)),
    "the same by the layer": (lambda s, h: s.is_on, lambda m, h, s, on: setattr(Layer, "is_on", on)),
    "attribute of a function": (lambda s, h: asked(), lambda m, h, s, on: setattr(asked, "is_on", on)),
    "variable of a function": (lambda s, h: GET(), lambda m, h, s, on: PUT(on)),
    "variable of a context": (lambda s, h: CONTEXT.get(), lambda m, h, s, on: CONTEXT.set(on)),
    "variable of a thread": (lambda s, h: LOCAL.is_on, lambda m, h, s, on: setattr(LOCAL, "is_on", on)),
    "array": (lambda s, h: bool(ARRAY[0]), lambda m, h, s, on: ARRAY.__setitem__(0, on)),
    "queue": (lambda s, h: QUEUE[0], lambda m, h, s, on: QUEUE.__setitem__(0, on)),
    "namespace": (lambda s, h: SPACE.is_on, lambda m, h, s, on: setattr(SPACE, "is_on", on)),
    "slot": (lambda s, h: SLOTS.is_on, lambda m, h, s, on: setattr(SLOTS, "is_on", on)),
    "property": (lambda s, h: TOLD.is_on, lambda m, h, s, on: BOX.__setitem__(0, on)),
    "mode of training": (lambda s, h: s.training, lambda m, h, s, on: setattr(s, "training", on)),
    "attribute of the layer": (lambda s, h: s.own, lambda m, h, s, on: setattr(s, "own", on)),
    "determinism": (lambda s, h: torch.are_deterministic_algorithms_enabled(), set_default),
    "environment": (
        lambda s, h: os.environ.get("IRKIT_TEST") == "1",
        lambda m, h, s, on: os.environ.__setitem__("IRKIT_TEST", str(int(on))),
    ),
    "attribute of what is handed": (lambda s, h: h.is_on, lambda m, h, s, on: setattr(h, "is_on", on)),
    "type of a number of it": (
        lambda s, h: isinstance(h.factor, float), lambda m, h, s, on: setattr(h, "factor", 1.0 if on else 1),
    ),
    "sign of a zero of it": (
        lambda s, h: math.copysign(1, h.zero) < 0, lambda m, h, s, on: setattr(h, "zero", -0.0 if on else 0.0),
    ),
    "sign of a zero of the layer": (
        lambda s, h: math.copysign(1, s.zero) < 0, lambda m, h, s, on: setattr(s, "zero", -0.0 if on else 0.0),
    ),
    "types in a list of the layer": (
        lambda s, h: isinstance(s.listed[0], float), lambda m, h, s, on: setattr(s, "listed", [1.0 if on else 1]),
    ),
    "dict of it": (lambda s, h: h.flags.get("is"), lambda m, h, s, on: h.flags.update({"is": on})),
    "whether it is in a dict of it": (
        lambda s, h: "is" in h.flags,
        lambda m, h, s, on: h.flags.update({"is": True}) if on else h.flags.pop("is", None),
    ),
    "list of it": (lambda s, h: h.items[0], lambda m, h, s, on: h.items.__setitem__(0, on)),
    "length of a list of it": (
        lambda s, h: len(h.items) > 2,
        lambda m, h, s, on: h.items.append(0) if on else h.items.__delitem__(slice(2, None)),
    ),
    "what a list of it begins with": (lambda s, h: next(iter(h.items)), lambda m, h, s, on: h.items.__setitem__(0, on)),
    "object of it": (lambda s, h: h.inner.is_on, lambda m, h, s, on: setattr(h.inner, "is_on", on)),
    "method of an object of it": (lambda s, h: h.inner.told(), lambda m, h, s, on: setattr(h.inner, "is_on", on)),
    "object in a list of it": (
        lambda s, h: h.entries[0].is_on, lambda m, h, s, on: setattr(h.entries[0], "is_on", on),
    ),
    "method of an object in a list of it": (
        lambda s, h: h.entries[0].told(), lambda m, h, s, on: setattr(h.entries[0], "is_on", on),
    ),
    "which object is in a list of it": (
        lambda s, h: h.entries[0] is h.inner,
        lambda m, h, s, on: h.entries.__setitem__(0, h.inner if on else m.held.deep),
    ),
}  # fmt: skip


class Layer(torch.nn.Module):
    """A layer that reads something, and is handed an object."""

    is_on = False

    def __init__(self, kind: str, number: int, held: Settings, shared: list[list[bool]]) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(80, 80)
        self.number, self.held, self.shared, self.own = number, held, shared, False
        self.ask, self.zero, self.listed = KINDS[kind][0], 0.0, [1]

    def forward(self, x: Any, handed: Handed) -> Any:
        x = handed.given(torch.relu(self.inner(x)), self.number)
        return x + 1 if self.ask(self, handed) else x * 2


class Chain(torch.nn.Module):
    """Layers, with something that is otherwise for the two in the middle."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.held, self.shared, self.kind = Settings(deep=Settings()), [[False]], kind
        self.layers = torch.nn.ModuleList(Layer(kind, i, self.held, self.shared) for i in range(8))

    def forward(self, x: Any) -> Any:
        handed = Handed()
        LOCAL.is_on = SLOTS.is_on = False
        for i, layer in enumerate(self.layers):
            KINDS[self.kind][1](self, handed, layer, i in (3, 4))
            x = layer(x, handed)
            KINDS[self.kind][1](self, handed, layer, False)
        return x


@pytest.mark.parametrize("kind", KINDS)
def test_each_layer_computes_with_what_stands_when_it_is_called(kind: str) -> None:
    torch.manual_seed(0)
    model = Chain(kind).eval()
    try:
        program = irkit.to_onnx(model, (torch.randn(3, 80),), dynamic_shapes=({0: "n"},), capture="direct")
        for size in (3, 1, 5):
            x = torch.randn(size, 80)
            torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)
    finally:
        torch.use_deterministic_algorithms(False)


def test_classes_of_objects_are_as_they_were_after_a_run() -> None:
    names = {cls: set(vars(cls)) for cls in (Handed, Inner)}
    model = Chain("dict of it").eval()
    irkit.to_onnx(model, (torch.randn(3, 80),), dynamic_shapes=({0: "n"},), capture="direct")
    assert {cls: set(vars(cls)) for cls in names} == names


@pytest.mark.parametrize("kind", ["dict of it", "list of it", "object of it", "object in a list of it"])
def test_layers_that_read_of_what_they_are_handed_are_taken_over(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, kind, (KINDS[kind][0], lambda m, h, s, on: None))
    taken, take = list[Any](), equal_modules.Calls.taken
    monkeypatch.setattr(equal_modules.Calls, "taken", lambda *given: taken.append(given) or take(*given))
    model = Chain(kind).eval()
    program = irkit.to_onnx(model, (torch.randn(3, 80),), dynamic_shapes=({0: "n"},), capture="direct")
    assert len(taken) >= 6
    x = torch.randn(4, 80)
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_random_layers_are_right_whatever_they_are_handed(seed: int) -> None:
    assert not [*faults(seed)], text_of(seed)
