"""`y.data = x`: a tensor holds what another one does, and they share their memory from then on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import irkit
from lowering.errors import CaptureError

Tensor = torch.Tensor


class Held(torch.nn.Module):
    """A layer and a buffer, of which a function makes something."""

    def __init__(self, use: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 3)
        self.register_buffer("mean", torch.ones(3))
        self.use = use

    def forward(self, x: Tensor) -> Any:
        return self.use(self, x)


def of_a_row(m: Any, x: Tensor) -> Any:
    m.mean.data = x[0]
    return m.mean * 2


def of_a_copy(m: Any, x: Tensor) -> Any:
    m.mean.data = x[0].clone()
    return m.mean * 2 + (x + 1)


def written_since(m: Any, x: Tensor) -> Any:
    m.mean.data = x.sum(0)
    m.mean.add_(1)
    return m.mean + x


def moved(m: Any, x: Tensor) -> Any:
    m.mean.data = m.mean.data * 0.9 + x.mean(0) * 0.1
    return x - m.mean


def decayed(m: Any, x: Tensor) -> Any:
    for weight in m.layer.parameters():
        weight.data = weight.data * 0.5
    return m.layer(x)


def of_a_vector(m: Any, x: Tensor) -> Any:
    vector = parameters_to_vector(m.layer.parameters())
    vector_to_parameters(vector * 0.5 + x.sum(), m.layer.parameters())
    return m.layer(x)


def stepped(m: Any, x: Tensor) -> Any:
    weights = list(m.layer.parameters())
    loss = m.layer(x).square().mean()
    step = torch.cat([each.reshape(-1) for each in torch.autograd.grad(loss, weights)])
    with torch.no_grad():
        vector_to_parameters(parameters_to_vector(weights) - 0.1 * step, weights)
    return loss, m.layer(x)


def of_its_own(m: Any, x: Tensor) -> Any:
    y = x.clone()
    y.data = x * 2
    return y + 1


@pytest.mark.parametrize("use", [of_a_row, of_a_copy, written_since, moved, decayed, of_a_vector, stepped, of_its_own])
def test_what_a_tensor_holds_since_is_eagers_in_each_call(use: Callable[[Any, Tensor], Any]) -> None:
    model = Held(use)
    eager = copy.deepcopy(model)
    program = irkit.to_onnx(model, (torch.randn(2, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    state: Any = None
    for count in (2, 5, 1):
        x = torch.randn(count, 3)
        if program.state:
            found, state = program.run((x,), {}, state)
        else:
            found = program(x)
        torch.testing.assert_close(found, eager(x))
    for name, held in (state or {}).items():
        torch.testing.assert_close(torch.as_tensor(held), dict(eager.state_dict())[name])


def source_written(m: Any, x: Tensor) -> Any:
    row = x[0].clone()
    m.mean.data = row
    row.mul_(2)
    return m.mean + 0


def target_written(m: Any, x: Tensor) -> Any:
    row = x[0].clone()
    m.mean.data = row
    m.mean.add_(1)
    return row * 2


def input_written(m: Any, x: Tensor) -> Any:
    m.mean.data = x[0]
    x.add_(1)
    return m.mean * 2


def view_before(m: Any, x: Tensor) -> Any:
    before = m.mean[:2]
    m.mean.data = x[0].clone()
    return before * 2


def other_sizes(m: Any, x: Tensor) -> Any:
    m.mean.data = torch.zeros(4)
    return m.mean


@pytest.mark.parametrize("use", [source_written, target_written, input_written, view_before, other_sizes])
def test_what_shared_memory_would_tell_is_refused(use: Callable[[Any, Tensor], Any]) -> None:
    with pytest.raises(CaptureError, match="share"):
        irkit.to_onnx(Held(use), (torch.randn(2, 3),), dynamic_shapes=({0: "n"},))
