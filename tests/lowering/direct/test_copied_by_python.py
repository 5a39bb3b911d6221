"""Copies that Python makes of tensors while a model runs, by deepcopy, copy and pickle: right, or refused by name."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError


class Model(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.inner, self.function = torch.nn.Linear(3, 3), function
        self.kept: torch.Tensor
        self.register_buffer("kept", torch.arange(3.0))

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def written(given: Any, at: Any, read: Any) -> Any:
    """What a deep copy of something holds once a part of it is written."""
    made = copy.deepcopy(given)
    made[at].add_(1)
    return made[read] * 1


def saved(x: torch.Tensor) -> Any:
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file)


RIGHT: dict[str, Callable[..., Any]] = {
    "a buffer": lambda self, x: x + copy.deepcopy(self.kept).add_(1) + self.kept,
    "a buffer twice": lambda self, x: x + written({"a": self.kept, "b": self.kept}, "a", "b"),
    "a weight": lambda self, x: x @ copy.deepcopy(self.inner.weight),
    "a module": lambda self, x: copy.deepcopy(self.inner)(x),
    "the model": lambda self, x: x + copy.deepcopy(self).kept,
    "a tensor": lambda self, x: x + copy.deepcopy(x).add_(1),
    "a computed one": lambda self, x: written([x * 2, x], 0, 0) + x,
    "one of two": lambda self, x: written([x, x], 0, 1),
    "turned": lambda self, x: copy.deepcopy((x * 1).t()) + 1,
    "by copy": lambda self, x: copy.copy(x * 1).add_(1),
    "a size": lambda self, x: x.reshape(copy.deepcopy(x.shape)) * copy.copy(x.shape[0]),
    "what was written": lambda self, x: x + copy.deepcopy((x * 1).add_(1)),
}
REFUSED: dict[str, Callable[..., Any]] = {
    "a view beside it": lambda self, x: written({"y": x, "v": x[:1]}, "v", "y"),
    "every other column": lambda self, x: copy.deepcopy((x * 1)[:, ::2]).reshape(-1),
    "one row several times": lambda self, x: copy.deepcopy((x * 1)[:1].expand(4, 3)) + 1,
    "pickled": lambda self, x: pickle.loads(pickle.dumps(x)),
    "saved": lambda self, x: saved(x * 1),
    "the state saved": lambda self, x: x + saved(self.state_dict())["kept"],
}


@pytest.mark.parametrize("function", RIGHT.values(), ids=RIGHT)
def test_a_copy_is_eagers(function: Callable[..., Any]) -> None:
    model = Model(function).eval()
    program = irkit.to_onnx(copy.deepcopy(model), (torch.randn(2, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    for rows in (0, 1, 2, 5):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("function", REFUSED.values(), ids=REFUSED)
def test_a_copy_of_memory_is_refused_by_name(function: Callable[..., Any]) -> None:
    with pytest.raises(IrkitError, match=r"copied by deepcopy|is pickled"):
        irkit.to_onnx(Model(function).eval(), (torch.randn(2, 3),), dynamic_shapes=({0: "n"},), capture="direct")


MEMORY = ("x.data_ptr() % 2 == 0", "pickle.dumps(x)", "x.__reduce_ex__(2)", "len(repr(x)) > 0", "x.pin_memory() is x")


@pytest.mark.parametrize("error", ["RuntimeError", "Exception"])
@pytest.mark.parametrize("asked", MEMORY)
def test_a_model_that_catches_that_there_is_no_memory_is_refused_or_right(asked: str, error: str) -> None:
    names: dict[str, Any] = {"pickle": pickle}
    exec(
        f"def f(x):\n    try:\n        return x * 2 if {asked} else x\n    except {error}:\n        return x - 1", names
    )
    try:
        program = irkit.to_onnx(names["f"], (torch.ones(2, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    except IrkitError:
        return
    assert torch.equal(program(torch.ones(3, 3)), names["f"](torch.ones(3, 3)))
