"""Layers that are equal but for which of them they are: what a model looks up by that is noticed, so that none is taken
over that computes something else. One in the middle is the one, for the first and the last are traced all the same."""

from __future__ import annotations

import contextvars
import sys
import weakref
from typing import Any

import attrs
import pytest
import torch

import irkit

SOURCE = """
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.register_buffer("c", torch.full((4,), 0.5))
    {more}
    def forward(self, x):
        y = self.b(torch.relu(self.a(x)))
        {line}
        return x + y


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Block() for _ in range(9)])

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            {before}
            x = layer(x)
        return x
"""


@attrs.frozen
class Case:
    """A line of a layer, further methods of it, what comes before each layer, and what is done with the one."""

    line: str
    more: str = "pass"
    before: str = "pass"
    one: str = "pass"


def twice(condition: str, **rest: str) -> Case:
    return Case(f"y = y * 2 if {condition} else y", **rest)


CASES = {
    "a set": twice("self in SET", one="SET.add(one)"),
    "a dict": Case("y = y * DICT.get(self, 1)", one="DICT[one] = 2"),
    "a list": twice("self in LIST", one="LIST.append(one)"),
    "a weak dict": Case("y = y * WEAK.get(self, 1)", one="WEAK[one] = 2"),
    "a hash": twice("hash(self) in SET", one="SET.add(hash(one))"),
    "an id": twice("id(self) in SET", one="SET.add(id(one))"),
    "an id by another name": twice("number_of(self) in SET", one="SET.add(id(one))"),
    "an id by default": twice("by_default(self) in SET", one="SET.add(id(one))"),
    "the hash of any object": twice("object.__hash__(self) in SET", one="SET.add(object.__hash__(one))"),
    "the text of any object": twice("object.__repr__(self) in SET", one="SET.add(object.__repr__(one))"),
    "an address by NumPy": twice("self.c.numpy().ctypes.data in SET", one="SET.add(one.c.numpy().ctypes.data)"),
    "numbers by NumPy": twice("self.c.numpy()[0] == 7", one="one.c[0] = 7"),
    "it": twice("self is DICT.get('one')", one="DICT['one'] = one"),
    "a child": twice("self.a in SET", one="SET.add(one.a)"),
    "a weight": twice("self.a.weight in SET", one="SET.add(one.a.weight)"),
    "an id of a weight": twice("id(self.a.weight) in SET", one="SET.add(id(one.a.weight))"),
    "an address": twice("self.a.weight.data_ptr() in SET", one="SET.add(one.a.weight.data_ptr())"),
    "a storage": twice("self.a.weight.untyped_storage()._cdata in SET",
                       one="SET.add(one.a.weight.untyped_storage()._cdata)"),
    "a property": Case("y = y * self.scale", "scale = property(lambda self: 2 if id(self) in SET else 1)",
                       one="SET.add(id(one))"),
    "a static method": Case("y = y * self.scale(self)", "scale = staticmethod(lambda it: 2 if id(it) in SET else 1)",
                            one="SET.add(id(one))"),
    "a class method": Case("y = y * self.scale(self)", "scale = classmethod(lambda _, it: 2 if id(it) in SET else 1)",
                           one="SET.add(id(one))"),
    "a function": Case("y = by_id(self, y)", one="SET.add(id(one))"),
    "a function in a dict": Case("y = TABLE['by id'](self, y)", one="SET.add(id(one))"),
    "a function of the layer": Case("y = self.way(self, y)", one="SET.add(id(one))",
                                    more="way = None"),
    "an attribute of a weight": Case("y = y * getattr(self.a.weight, 'scale', 1)", one="one.a.weight.scale = 2"),
    "an attribute of a buffer": Case("y = y * getattr(self.c, 'scale', 1)", one="one.c.scale = 2"),
    "an attribute of the input": twice("getattr(x, 'number', 0) == 4", before="x.number = number"),
    "a weight without gradient": twice("self.a.weight.requires_grad", one="one.a.weight.requires_grad_(False)"),
    "a gradient": twice("self.a.weight.grad is not None", one="one.a.weight.grad = torch.ones(4, 4)"),
    "writes": twice("self.a.weight._version > 3", one="write_often(one.a.weight)"),
    "a hook": twice("len(self._backward_hooks) > 0", one="one.register_full_backward_hook(lambda *_: None)"),
    "the caller": twice("sys._getframe(1) is not None and caller_has(4)"),
    "a variable of the context": twice("CONTEXT.get() == 4", before="CONTEXT.set(number)"),
}  # fmt: skip


def caller_has(number: int) -> bool:
    """Whether a frame around has a layer of that number."""
    frame: Any = sys._getframe(1)
    while frame is not None and "layer" not in frame.f_locals:
        frame = frame.f_back
    return frame is not None and frame.f_locals["number"] == number


def write_often(weight: torch.Tensor) -> None:
    """Writes a weight, which holds what it held."""
    with torch.no_grad():
        for _ in range(9):
            weight.add_(0)


def model_of(case: Case) -> torch.nn.Module:
    """A model of nine layers, of which the fifth is the one."""
    known: dict[str, Any] = {
        "torch": torch, "sys": sys, "SET": set(), "DICT": {}, "LIST": [], "WEAK": weakref.WeakKeyDictionary(),
        "CONTEXT": contextvars.ContextVar("number", default=0), "caller_has": caller_has, "write_often": write_often,
        "number_of": id, "__name__": "models_of_tests",
    }  # fmt: skip
    exec("def by_id(it, y):\n    return y * 2 if id(it) in SET else y\nTABLE = {'by id': by_id}", known)
    exec("def by_default(it, number=id):\n    return number(it)", known)
    exec(SOURCE.format(line=case.line, more=case.more, before=case.before), known)
    torch.manual_seed(0)
    model = known["Model"]()
    if case.more == "way = None":
        for layer in model.layers:
            layer.way = known["by_id"]
    exec(case.one, known, {"one": model.layers[4]})
    return model


@pytest.mark.parametrize("name", CASES)
def test_which_layer_it_is_is_noticed(name: str) -> None:
    model = model_of(CASES[name])
    x = torch.randn(3, 4)
    with torch.no_grad():
        expected = model(x)
    program = irkit.to_onnx(model, (x,), dynamic_shapes={"x": {0: "rows"}}, capture="direct")
    torch.testing.assert_close(program(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_the_one_computes_something_else(name: str) -> None:
    model, plain = model_of(CASES[name]), model_of(Case("pass"))
    x = torch.randn(3, 4)
    with torch.no_grad():
        assert not torch.allclose(model(x), plain(x))
