"""What a user changes between two exports in one process, a function, a method, a file, is as it is in the second."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import irkit
from tests.support.right_or_refused import first_wrong

WAYS = ("direct", "torch.export")
NUMBERS = itertools.count()


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What writes a module of Python, or another text in its place, and loads it anew."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = f"changed_{next(NUMBERS)}"

    def loaded(text: str) -> Any:
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        time = 1e9 + next(NUMBERS)
        os.utime(file, (time, time))
        importlib.invalidate_caches()
        return importlib.reload(sys.modules[name]) if name in sys.modules else importlib.import_module(name)

    yield loaded
    sys.modules.pop(name, None)


def is_right(function: Callable[..., Any], way: str) -> bool:
    """Whether an export of f(x) gives what eager gives, or refuses."""
    inputs = (sign * torch.rand(rows, 3) for rows in (12, 5, 3, 1) for sign in (1, -1))
    return first_wrong(function, torch.rand(12, 3), way, inputs) is None


FILES = {
    "a branch": (
        "def f(x):\n    if x.sum() > 0:\n        return x * 2\n    return x * 3\n",
        "def f(x):\n    if x.sum() > 0:\n        return x * 5\n    return x * 7\n",
    ),
    "a text": (
        "def f(x):\n    if False: raise ValueError(f'{x.shape[0]}')\n    return x\n",
        "def f(x):\n    if f'{x.shape[0]}' == '12': x = x * 2\n    return x\n",
    ),
    "an identity": (
        "def g(n):\n    return n > 4\ndef f(x):\n    return x * 2 if g(x.shape[0]) else x\n",
        "def g(n):\n    return n > 4\ndef f(x):\n    return x * 2 if g(x.shape[0]) is True else x\n",
    ),
    "a type": (
        "def g(n):\n    return True\ndef f(x):\n    return x * 2 if g(x.shape[0]) else x\n",
        "def g(n):\n    return type(n) is int\ndef f(x):\n    return x * 2 if g(x.shape[0]) else x\n",
    ),
}
"""The text of a file, and another one, by what differs."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("texts", FILES.values(), ids=FILES)
def test_a_file_that_is_loaded_anew(texts: tuple[str, str], way: str, load: Any) -> None:
    for text in (*texts, *texts):
        assert is_right(load(text).f, way)


HELPERS = """
def g(n):
    return True
class A:
    def go(self, n):
        return True
def f(x):
    return x * 2 if g(x.shape[0]) and A().go(x.shape[0]) else x
"""
REPLACED = {
    "a function": "def g(n):\n    return type(n) is int",
    "a method": "def go(self, n):\n    return type(n) is int\nA.go = go\ndel go",
    "an identity": "def g(n):\n    return (n > 4) is True",
    "a text": "def g(n):\n    return str(n) == '12'",
}
"""What takes the place of a function or method, by name."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", REPLACED.values(), ids=REPLACED)
def test_a_function_or_method_that_is_replaced(text: str, way: str, load: Any) -> None:
    module = load(HELPERS)
    assert is_right(module.f, way)
    exec(compile(text, module.__file__, "exec"), vars(module))
    assert is_right(module.f, way)


STORES = """
import torch

class Store:
    def __init__(self):
        self.kept = []
    def put(self, x):
        self.kept.append(x)
        return x

def keep(store, x):
    return store.put(x)

def bare(store, x):
    return x

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
    def forward(self, x, store):
        return keep(store, self.inner(x).relu())

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(5))
    def forward(self, x):
        store = Store()
        for layer in self.layers:
            x = layer(x, store)
        return x + len(store.kept)
"""
KEEPERS = {
    "by its type": "def keep(store, x):\n    return store.put(x) if type(store) is Store else x * 2",
    "by its class": "def keep(store, x):\n    return store.put(x) if store.__class__ is Store else x * 2",
    "by its attributes": "def keep(store, x):\n    return store.put(x * len(vars(store)))",
    "by a copy": "import copy\ndef keep(store, x):\n    return copy.copy(store).put(x)",
    "by another helper": "def bare(store, x):\n    return store.put(x) if type(store) is Store else x * 2\nkeep = bare",
    "by a method": "def put(self, x):\n    self.kept.append(x)\n    return x if type(self) is Store else x * 2\n"
    "Store.put = put",
    "by a property": "Store.twice = property(lambda self: 2 * len(self.kept))\n"
    "def keep(store, x):\n    return store.put(x) * store.twice",
    "by a special method": "Store.__len__ = lambda self: len(self.kept) + 1\n"
    "def keep(store, x):\n    return store.put(x) * len(store)",
}  # fmt: skip
"""What a helper of equal layers, or the class of an object that they share, becomes, by name."""


@pytest.mark.parametrize("text", KEEPERS.values(), ids=KEEPERS)
def test_a_helper_of_equal_layers_that_share_an_object(text: str, load: Any) -> None:
    module = load(STORES)
    model, x = module.Model(), torch.rand(4, 3)
    for change in ("", text):
        exec(compile(change, module.__file__, "exec"), vars(module))
        program = irkit.to_onnx(model, (x,), dynamic_shapes=({0: "n"},), capture="direct")
        for given in (x, torch.rand(2, 3)):
            torch.testing.assert_close(program(given), model(given))
