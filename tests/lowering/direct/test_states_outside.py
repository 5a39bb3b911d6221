"""What stands somewhere, or is set, outside of a model: bound methods, iterators, generators, arrays, files, objects of
classes of their own, modules of Python, and what torch is set to. A capture puts it back, and tells of it."""

from __future__ import annotations

import array
import collections
import contextvars
import ctypes
import functools
import io
import itertools
import json
import operator
import queue
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import irkit

ROWS: Any = ({0: "n"},)


class OwnDict(dict[str, Any]):
    """A dict of a class of its own."""


class OwnList(list[Any]):
    """A list of a class of its own."""


def numbers_from(start: int) -> Any:
    while True:
        yield start
        start += 1


def appended() -> tuple[Callable[..., Any], Callable[[], Any]]:
    kept: list[Any] = []
    append = kept.append

    def function(x: torch.Tensor) -> torch.Tensor:
        append(x.sum())
        return x * 2

    return function, kept.copy


def appended_partially() -> tuple[Callable[..., Any], Callable[[], Any]]:
    kept: list[Any] = []
    append = functools.partial(kept.append, 1)

    def function(x: torch.Tensor) -> torch.Tensor:
        append()
        return x * 2

    return function, kept.copy


def put_into_a_dict() -> tuple[Callable[..., Any], Callable[[], Any]]:
    kept: dict[str, Any] = {}
    put = kept.__setitem__

    def function(x: torch.Tensor) -> torch.Tensor:
        put("sum", x.sum())
        return x * 2

    return function, kept.copy


def counted(held: Any, key: Any) -> tuple[Callable[..., Any], Callable[[], Any]]:
    def function(x: torch.Tensor) -> torch.Tensor:
        held[key] += 1
        return x * int(held[key])

    return function, lambda: (type(held), held[key])


def counted_by_attribute(held: Any, name: str) -> tuple[Callable[..., Any], Callable[[], Any]]:
    def function(x: torch.Tensor) -> torch.Tensor:
        setattr(held, name, getattr(held, name, 0) + 1)
        return x * getattr(held, name)

    return function, lambda: getattr(held, name, None)


def drawn(each: Any, now: Callable[[Any], Any]) -> tuple[Callable[..., Any], Callable[[], Any]]:
    return lambda x: x * next(each), lambda: now(each)


def drawn_by_a_method(each: Any, now: Callable[[], Any]) -> tuple[Callable[..., Any], Callable[[], Any]]:
    return lambda x: x * float(each()), now


def of_a_context() -> tuple[Callable[..., Any], Callable[[], Any]]:
    calls: contextvars.ContextVar[int] = contextvars.ContextVar("calls", default=0)

    def function(x: torch.Tensor) -> torch.Tensor:
        calls.set(calls.get() + 1)
        return x * calls.get()

    return function, calls.get


def of_a_queue() -> tuple[Callable[..., Any], Callable[[], Any]]:
    waiting: queue.Queue[Any] = queue.Queue()

    def function(x: torch.Tensor) -> torch.Tensor:
        waiting.put(x.sum())
        return x * waiting.qsize()

    return function, waiting.qsize


def of_itself() -> tuple[Callable[..., Any], Callable[[], Any]]:
    def function(x: torch.Tensor) -> torch.Tensor:
        held: Any = function
        held.calls = getattr(held, "calls", 0) + 1
        return x * held.calls

    return function, lambda: dict(vars(function))


def of_a_file() -> tuple[Callable[..., Any], Callable[[], Any]]:
    file = io.StringIO("".join(f"{number}\n" for number in range(1, 20)))
    return lambda x: x * int(file.readline()), file.tell


def of_a_draw() -> tuple[Callable[..., Any], Callable[[], Any]]:
    generator = np.random.default_rng(0)
    return drawn_by_a_method(generator.normal, lambda: repr(generator.bit_generator.state))


def local_to_threads() -> Any:
    held = threading.local()
    held.calls = 0
    return held


def reduced(each: Any) -> str:
    return repr(each.__reduce__())


STATES: dict[str, Callable[[], tuple[Callable[..., Any], Callable[[], Any]]]] = {
    "an append bound outside": appended,
    "an append bound in a partial": appended_partially,
    "a method of a dict": put_into_a_dict,
    "an array of NumPy": lambda: counted(np.zeros(2), 0),
    "a part of an array": lambda: counted(np.zeros(4)[1:], 0),
    "an array of objects": lambda: counted(np.array([0, None]), 0),
    "bytes": lambda: counted(bytearray(2), 0),
    "a view of bytes": lambda: counted(memoryview(bytearray(2)), 0),
    "an array of Python": lambda: counted(array.array("l", [0]), 0),
    "a dict of its own class": lambda: counted(OwnDict(calls=0), "calls"),
    "a list of its own class": lambda: counted(OwnList([0]), 0),
    "a chain of dicts": lambda: counted(collections.ChainMap({"calls": 0}), "calls"),
    "a dict of Python's class": lambda: counted(collections.UserDict(calls=0), "calls"),
    "a namespace": lambda: counted_by_attribute(types.SimpleNamespace(calls=0), "calls"),
    "what threads have": lambda: counted_by_attribute(local_to_threads(), "calls"),
    "an integer of C": lambda: counted_by_attribute(ctypes.c_int(0), "value"),
    "a class": lambda: counted_by_attribute(type("Counts", (), {"__module__": __name__}), "calls"),
    "a function": of_itself,
    "a context": of_a_context,
    "a queue": of_a_queue,
    "a file": of_a_file,
    "a draw bound outside": of_a_draw,
    "an iterator of a list": lambda: drawn(iter([*range(1, 20)]), reduced),
    "an iterator of a range": lambda: drawn(iter(range(1, 20)), reduced),
}
"""What is put back."""
ADVANCED: dict[str, Callable[[], Any]] = {
    "a generator": lambda: numbers_from(1),
    "a generator in a generator": lambda: (2 * each for each in numbers_from(1)),
    "a cycle": lambda: itertools.cycle([1.0, 2.0, 3.0, 4.0, 5.0]),
    "a map": lambda: map(float, range(1, 40)),
    "a chain of iterators": lambda: itertools.chain([1.0], iter(range(1, 40))),
    "sums": lambda: itertools.accumulate(range(1, 40), operator.add),
}
"""What cannot be put back, and is told of."""


@pytest.mark.parametrize("name", STATES)
def test_what_stands_somewhere_outside_is_told_and_put_back(name: str) -> None:
    function, now = STATES[name]()
    before = now()
    program = irkit.to_onnx(function, (torch.ones(3, 4),), dynamic_shapes=ROWS)
    assert now() == before
    assert "and the program does not" in "\n".join(program.report.notes), program.report.notes
    for rows in (0, 1, 5):
        x = torch.randn(rows, 4)
        assert torch.equal(program(x), STATES[name]()[0](x))


@pytest.mark.parametrize("name", ADVANCED)
def test_an_iterator_that_a_capture_advances_is_told(name: str) -> None:
    each = ADVANCED[name]()
    program = irkit.to_onnx(lambda x: x * next(each), (torch.ones(3, 4),), dynamic_shapes=ROWS)
    said = "\n".join(program.report.notes)
    assert "the state of each (which stands further on from now), and the program does not" in said


def test_a_generator_of_a_module_is_told() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.numbers = numbers_from(1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * next(self.numbers)

    program = irkit.to_onnx(Model(), (torch.ones(3, 4),), dynamic_shapes=ROWS)
    assert "the state of numbers" in "\n".join(program.report.notes)


def test_a_file_says_what_it_does_not_keep(tmp_path: Path) -> None:
    function, _ = appended()
    program = irkit.to_onnx(function, (torch.ones(3, 4),), dynamic_shapes=ROWS)
    program.save(tmp_path / "model.onnx")
    said = {each.key: each.value for each in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert json.loads(said["irkit.not_kept"]) == list(program.report.notes)
    plain = irkit.to_onnx(lambda x: x * 2, (torch.ones(3, 4),), dynamic_shapes=ROWS)
    assert "irkit.not_kept" not in dict(plain.graph.signature.metadata)


def test_what_is_not_changed_is_not_told() -> None:
    table, lines, numbers = np.arange(4.0), io.StringIO("1"), iter([1])
    held = OwnDict(scale=2.0), OwnList([1]), contextvars.ContextVar("none"), (lines, numbers)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * float(table[1]) * held[0]["scale"] * held[1][0]

    assert not irkit.to_onnx(function, (torch.ones(3, 4),), dynamic_shapes=ROWS).report.notes


def test_a_variable_of_a_users_module_of_python_is_told_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = types.ModuleType("steps_of_a_user")
    steps.__file__ = "steps_of_a_user.py"
    monkeypatch.setitem(sys.modules, "steps_of_a_user", steps)
    source = "calls = 0\ndef count():\n    global calls\n    calls += 1\n    return calls\n"
    exec(source, vars(steps))
    scope: dict[str, Any] = {"steps": steps, "__name__": __name__}
    for code in ("def f(x): return x * steps.count()", "def f(x):\n steps.calls += 1\n return x * steps.calls"):
        exec(code, scope)
        program = irkit.to_onnx(scope["f"], (torch.ones(3, 4),), dynamic_shapes=ROWS)
        assert vars(steps)["calls"] == 0
        assert "calls, and the program does not" in "\n".join(program.report.notes)


# ---------------------------------------------------------------------------------------------- what torch is set to


SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "element type": (
        lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype, "the default element type",
    ),
    "device": (lambda: torch.set_default_device("meta"), torch.get_default_device, "the default device"),
    "autocast": (
        lambda: torch.set_autocast_enabled("cpu", True), lambda: torch.is_autocast_enabled("cpu"), "autocast of cpu",
    ),
    "a block of autocast": (
        lambda: torch.autocast("cpu", torch.bfloat16).__enter__(), lambda: torch.is_autocast_enabled("cpu"),
        "a block of autocast that does not end",
    ),
    "determinism": (
        lambda: torch.use_deterministic_algorithms(True), torch.are_deterministic_algorithms_enabled,
        "deterministic algorithms",
    ),
    "threads": (
        lambda: torch.set_num_threads(torch.get_num_threads() + 1), torch.get_num_threads, "the number of threads",
    ),
    "gradients": (lambda: torch.set_grad_enabled(True), torch.is_grad_enabled, "whether gradients are recorded"),
    "precision": (
        lambda: torch.set_float32_matmul_precision("medium"), torch.get_float32_matmul_precision,
        "the precision of products of matrices",
    ),
}  # fmt: skip


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", SETTINGS)
def test_what_a_model_sets_torch_to_is_told_and_put_back(name: str, capture: Any) -> None:
    set_it, now, told = SETTINGS[name]
    if capture == "torch.export" and name in ("gradients", "a block of autocast"):
        pytest.skip("torch.export puts the first back itself, and refuses the second")

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x @ x.mT
        set_it()
        return y

    with torch.set_grad_enabled(name != "gradients"):
        before = now()
        program = irkit.to_onnx(function, (torch.ones(3, 4),), dynamic_shapes=ROWS, capture=capture)
        assert now() == before
    notes = [note for note in program.report.notes if "and the program does not" in note]
    assert len(notes) == 1 and told in notes[0]
    assert program.check(3)
    assert now() == (torch.is_grad_enabled() if name == "gradients" else before)


def test_what_a_model_sets_torch_to_is_put_back_where_it_raises() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch.set_default_dtype(torch.float64)
        raise ValueError("not so")

    with pytest.raises(ValueError, match="not so"):
        irkit.to_onnx(function, (torch.ones(3, 4),), dynamic_shapes=ROWS)
    assert torch.get_default_dtype() is torch.float32
