"""Layers that are alike, each of which changes something of Python's as it runs: every one of them does so."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import irkit
from lowering.direct import equal_modules

LOG: list[int] = []
COUNTS = {"layers": 0}
TOTAL = 0
NUMBERS: Any = None


class Inner:
    """What is held by what layers are handed."""

    __slots__ = ("__dict__", "slot")

    def __init__(self) -> None:
        self.log: list[int] = []
        self.count = self.slot = 0

    def bump(self) -> None:
        self.count += 1

    @property
    def told(self) -> int:
        return len(self.log) + self.count + self.slot


class State:
    """What layers are handed, or hold."""

    def __init__(self) -> None:
        self.log: list[int] = []
        self.flags: dict[Any, int] = {}
        self.count = 0
        self.inner = Inner()
        self.inner_count, self.push = self.inner.bump, self.log.append
        self.pushed = functools.partial(self.log.append, 1)
        self.add, self.added = counter_around()
        self.owner: Any = None

    def touch(self) -> None:
        """Something that can be asked."""

    @property
    def told(self) -> int:
        return len(self.log) + len(self.flags) + self.count + self.inner.told + self.added()


def add_to_total(*_: Any) -> None:
    global TOTAL  # noqa: PLW0603
    TOTAL += 1


def in_slot(layer: Any, state: State, given: list[int]) -> None:
    state.inner.slot += 1


def in_nested(layer: Any, state: State, given: list[int]) -> None:
    state.inner.count += 1


def in_held(layer: Any, state: State, given: list[int]) -> None:
    layer.held.count += 1


def in_count(layer: Any, state: State, given: list[int]) -> None:
    state.count += 1


def in_owner(layer: Any, state: State, given: list[int]) -> None:
    state.owner.count += 1


CHANGES: dict[str, Callable[[Any, State, list[int]], Any]] = {
    "list of an object": lambda layer, state, given: state.log.append(1),
    "dict of an object": lambda layer, state, given: state.flags.update({len(state.flags): 1}),
    "attribute": in_count,
    "attribute of an inner object": in_nested,
    "slot of an inner object": in_slot,
    "list of an inner object": lambda layer, state, given: state.inner.log.append(1),
    "own list": lambda layer, state, given: layer.own.append(1),
    "list in own list": lambda layer, state, given: layer.own[0].append(1),
    "object that all hold": in_held,
    "global list": lambda layer, state, given: LOG.append(1),
    "global dict": lambda layer, state, given: COUNTS.update(layers=COUNTS["layers"] + 1),
    "global variable": add_to_total,
    "counter": lambda layer, state, given: next(NUMBERS),
    "argument": lambda layer, state, given: given.append(1),
    "function that an object holds": lambda layer, state, given: state.add(),
    "method that an object holds": lambda layer, state, given: state.inner_count(),
    "method of a list": lambda layer, state, given: state.push(1),
    "partial": lambda layer, state, given: state.pushed(),
    "attribute of a module that an object holds": in_owner,
    "list of a module that an object holds": lambda layer, state, given: state.owner.notes.append(1),
    "random": lambda layer, state, given: random.random(),
    "numpy": lambda layer, state, given: float(np.random.rand()),
    "nothing": lambda layer, state, given: 1,
}


MADE_AGAIN = ("list of an object", "dict of an object")
"""What each layer changes by a method of what it is handed, which is called for each that is taken over."""


def counter_around() -> tuple[Callable[[], None], Callable[[], int]]:
    """(a function that counts in a variable around it, one that tells how far)"""
    count = 0

    def add() -> None:
        nonlocal count
        count += 1

    return add, lambda: count


class Layer(torch.nn.Module):
    """A layer that changes something; the number that it gets for that, if any, is part of what it gives."""

    def __init__(self, change: str, own: list[Any], held: State) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(80, 80)
        self.change, self.own, self.held = change, own, held

    def forward(self, x: Any, state: Any, given: Any) -> Any:
        number = CHANGES[self.change](self, state, given)
        return torch.relu(self.inner(x)) * (number if isinstance(number, int | float) else 1)


class Chain(torch.nn.Module):
    """Layers, and how much they changed."""

    def __init__(self, change: str) -> None:
        super().__init__()
        self.own: list[Any] = [[]]
        self.notes: list[int] = []
        self.count = 0
        self.held = State()
        self.layers = torch.nn.ModuleList(Layer(change, self.own, self.held) for _ in range(5))

    def forward(self, x: Any) -> Any:
        global TOTAL, NUMBERS
        TOTAL, COUNTS["layers"], NUMBERS = 0, 0, itertools.count(1)
        random.seed(0)
        np.random.seed(0)
        self.own[:] = [[]]
        self.held.count = self.count = 0
        LOG.clear()
        self.notes.clear()
        state, given = State(), list[int]()
        state.owner = self
        for layer in self.layers:
            x = layer(x, state, given)
        noted = len(self.notes) + self.count
        changed = (
            noted,
            len(self.own) + len(self.own[0]),
            len(LOG),
            COUNTS["layers"],
            TOTAL,
            len(given),
            self.held.count,
        )
        return x * (sum(changed) + state.told)


@pytest.mark.parametrize("change", CHANGES)
def test_each_of_some_equal_layers_changes_what_it_changes(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, taken = Chain(change).eval(), list[Any]()
    take = equal_modules.Calls.taken
    monkeypatch.setattr(equal_modules.Calls, "taken", lambda *given: taken.append(given) or take(*given))
    program = irkit.to_onnx(model, (torch.randn(3, 80),), dynamic_shapes=({0: "n"},), capture="direct")
    assert bool(taken) is (change in ("nothing", *MADE_AGAIN))
    for size in (3, 1, 5):
        x = torch.randn(size, 80)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)


TABLE = torch.ones(80)


class Scaled(torch.nn.Module):
    """A layer that computes with a tensor that it is not handed."""

    def __init__(self, shared: list[Any]) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(80, 80)
        self.shared = shared

    def forward(self, x: Any) -> Any:
        return torch.relu(self.inner(x)) * (self.shared[0] if self.shared else TABLE)


class Rewritten(torch.nn.Module):
    """Layers, with a tensor that is another in the middle ones: one from outside, or one that is made each time."""

    def __init__(self, outside: bool) -> None:
        super().__init__()
        self.outside = outside
        self.shared: list[Any] = []
        self.layers = torch.nn.ModuleList(Scaled(self.shared) for _ in range(6))

    def forward(self, x: Any) -> Any:
        self.shared[:] = [] if self.outside else [torch.ones(80)]
        table = TABLE if self.outside else self.shared[0]
        table.fill_(1)
        for i, layer in enumerate(self.layers):
            if i in (2, 5):
                table.fill_(2 if i == 2 else 1)
            x = layer(x)
        self.shared.clear()
        return x


@pytest.mark.parametrize("outside", [True, False])
def test_layers_compute_with_what_a_tensor_of_all_holds_at_their_turn(outside: bool) -> None:
    torch.manual_seed(0)
    model = Rewritten(outside).eval()
    program = irkit.to_onnx(model, (torch.randn(3, 80),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in (3, 1, 5):
        x = torch.randn(size, 80)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)
