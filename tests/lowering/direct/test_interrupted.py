"""What a capture leaves behind when the model raises or is interrupted, or threads capture side by side: nothing."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import irkit
from irkit.errors import IrkitError


class Stopped(torch.nn.Module):
    """A model that writes all that it has, and then raises."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.layer = torch.nn.BatchNorm1d(3)
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.seen: list[Any] = []
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)  # type: ignore[operator]
        self.seen.append(x)
        self.added = x
        y = self.layer(x) * self.weight + torch.rand(3)
        with torch.enable_grad():
            self.weight.grad = torch.ones(3)
            torch.func.vmap(self.stop)(y)
        return y

    def stop(self, row: torch.Tensor) -> torch.Tensor:
        raise self.error("stopped")


def states() -> list[Any]:
    """What torch, numpy and Python keep for all."""
    return [
        torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state()), torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"), len(_get_current_dispatch_mode_stack()), torch.get_default_dtype(),
        torch._C._len_torch_function_stack(), torch.compiler.is_compiling(), torch.compiler.is_exporting(),
        torch.backends.mha.get_fastpath_enabled(),
        torch.nn.Module._apply, torch.are_deterministic_algorithms_enabled(),
    ]  # fmt: skip


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_model_that_stops_leaves_everything_as_it_was(error: type[BaseException]) -> None:
    model, x = Stopped(error), torch.randn(4, 3)
    assert irkit.to_onnx(torch.nn.ReLU(), (x,), capture="direct").check(1)  # what is imported once draws numbers
    before, held = states(), {name: each.clone() for name, each in model.state_dict().items()}
    attributes = dict(model.__dict__)
    given = x.clone()
    with pytest.raises(IrkitError if error is RuntimeError else error):
        irkit.to_onnx(model, (x,), dynamic_shapes=({0: "n"},), capture="direct")
    assert states() == before
    assert model.seen == [] and model.weight.grad is None and attributes.keys() == model.__dict__.keys()
    assert all(torch.equal(each, held[name]) for name, each in model.state_dict().items())
    assert torch.equal(x, given)
    assert irkit.to_onnx(torch.nn.ReLU(), (x,), capture="direct").check(1)


def test_threads_that_capture_side_by_side_meet_in_nothing() -> None:
    before = states()
    found: dict[int, Any] = {}

    def capture(number: int) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.layer_norm(x, x.shape[-1:]) * number + x.shape[0]

        program = irkit.to_onnx(function, (torch.ones(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
        x = torch.full((number, 4), 1.0)
        found[number] = torch.equal(program(x), function(x))

    threads = [threading.Thread(target=capture, args=(number,)) for number in range(2, 6)]
    for each in threads:
        each.start()
    while any(each.is_alive() for each in threads):  # others compute meanwhile, and are not traced
        assert type(torch.ones(2) + 1) is torch.Tensor
    assert found == dict.fromkeys(range(2, 6), True)
    assert states() == before
