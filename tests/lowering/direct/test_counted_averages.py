"""Averages over all calls, batches in chunks, and what is linear: right in each call, and at sizes that the example did
not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import irkit
from irkit.errors import IrkitError

ROWS: Any = ({0: "n"},)


class Normed(nn.Module):
    """A layer and a norm that averages all batches, whose mean is a result."""

    def __init__(self, kind: type[nn.Module], momentum: float | None) -> None:
        super().__init__()
        self.norm: Any = kind(3, momentum=momentum)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) + self.norm.running_mean.sum() * self.norm.running_var.sum()


def agree_in_turn(model: Callable[..., Any], program: Any, shapes: list[tuple[int, ...]]) -> None:
    """Compares calls of a model, each from what the one before left, with those of its program."""
    state = None
    for number, shape in enumerate(shapes):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(number))
        found, state = program.run((x,), state=state)
        torch.testing.assert_close(found, model(x))


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize(("kind", "shape"), [(nn.BatchNorm1d, (4, 3)), (nn.BatchNorm2d, (2, 3, 4, 5))])
def test_a_norm_without_momentum_averages_all_batches(kind: Any, shape: tuple[int, ...], before: int) -> None:
    model = Normed(kind, None).train()
    for _ in range(before):
        model(torch.randn(shape))
    program = irkit.to_onnx(model, (torch.randn(shape),), dynamic_shapes=ROWS)
    assert int(model.norm.num_batches_tracked) == before
    agree_in_turn(model, program, [shape, (7, *shape[1:]), (2, *shape[1:]), (3, *shape[1:])])
    with pytest.raises(IrkitError):  # of one number a channel eager takes no variance
        program(torch.randn(1, 3, *(1 for _ in shape[2:])))


def test_running_statistics_move_by_a_number_of_sizes_or_data() -> None:
    mean, variance = torch.zeros(3), torch.ones(3)

    def by_size(x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, mean, variance, training=True, momentum=1 / x.shape[0]) + mean * variance

    def by_data(x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, mean, variance, training=True, momentum=x[0, 0].sigmoid().item()) + mean * variance

    for function in (by_size, by_data):
        program = irkit.to_onnx(function, (torch.randn(4, 3),), dynamic_shapes=ROWS)
        agree_in_turn(function, program, [(4, 3), (9, 3), (2, 3)])
        mean.zero_()
        variance.fill_(1)


WAYS: dict[str, dict[str, Any]] = {
    "means": {},
    "moving means": {"multi_avg_fn": get_ema_multi_avg_fn(0.9)},
    "a function of its own": {"avg_fn": lambda mean, new, count: mean + (new - mean) / (count + 2)},
    "buffers too": {"use_buffers": True},
}


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("way", WAYS)
def test_an_average_of_models_is_right_from_the_first_call_on(way: str, before: int) -> None:
    base: Any = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average: Any = AveragedModel(base, **WAYS[way])
    for _ in range(before):
        average.update_parameters(base)

    def step(x: torch.Tensor) -> torch.Tensor:
        base[0].weight.data.add_(x.sum())
        average.update_parameters(base)
        return average.module[0](x)

    program = irkit.to_onnx(step, (torch.randn(4, 3),), dynamic_shapes=ROWS)
    assert int(average.n_averaged) == before
    agree_in_turn(step, program, [(4, 3), (1, 3), (0, 3), (6, 3)])


@pytest.mark.parametrize("chunk", [1, 2, 5])
@pytest.mark.parametrize("example", [1, 4, 5])
def test_a_batch_in_chunks_is_right_at_other_counts(chunk: int, example: int) -> None:
    function = torch.vmap(lambda row: row * row.sum(), chunk_size=chunk, out_dims=1)
    program = irkit.to_onnx(function, (torch.randn(example, 3),), dynamic_shapes=ROWS)
    for rows in (1, 2, 4, 7):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), function(x))
    with pytest.raises(AssertionError):
        function(torch.randn(0, 3))
    with pytest.raises(IrkitError):
        program(torch.randn(0, 3))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch.func.jvp calls it
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr")  # in eager
def test_what_is_linear_varies_with_the_sizes() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).eval()

    def function(x: torch.Tensor) -> Any:
        y, linear = torch.func.linearize(model, x)
        z, several = torch.func.linearize(lambda a, b: {"k": a * b.sin()}, x, x * 2)
        return y, linear(x), linear(x * 2), several(x, x.cos()), z

    program = irkit.to_onnx(function, (torch.randn(4, 3),), dynamic_shapes=ROWS)
    assert program.report.capture == "traced directly"
    for rows in (0, 1, 6):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), function(x))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_tangents_of_other_sizes_are_refused() -> None:
    def function(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return torch.func.linearize(torch.sin, x)[1](t)

    program = irkit.to_onnx(
        function, (torch.randn(4, 3), torch.randn(4, 3)), dynamic_shapes=({0: "n"}, {0: "m"}), specialization="report"
    )
    torch.testing.assert_close(program(torch.ones(2, 3), torch.ones(2, 3)), torch.ones(2, 3).cos())
    with pytest.raises(IrkitError):
        program(torch.ones(2, 3), torch.ones(3, 3))


ATTRIBUTES: dict[str, Callable[[torch.Tensor, Any], torch.Tensor]] = {
    "elu": lambda x, r: F.elu(x, r),
    "celu": lambda x, r: F.celu(x, r),
    "leaky_relu": lambda x, r: F.leaky_relu(x, r),
    "softplus": lambda x, r: F.softplus(x, r),
    "norm": lambda x, r: x.norm(p=r + 1),
    "vector_norm": lambda x, r: torch.linalg.vector_norm(x, r + 1, dim=1),
    "normalize": lambda x, r: F.normalize(x, p=r + 1),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_number_of_sizes_that_onnx_has_as_an_attribute_is_a_condition(name: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return ATTRIBUTES[name](x, 1 / x.shape[0])

    x = torch.randn(4, 3)
    program = irkit.to_onnx(function, (x,), dynamic_shapes=ROWS, widen=False)
    torch.testing.assert_close(program(x), function(x))
    with pytest.raises(IrkitError, match="1/n"):
        program(torch.randn(7, 3))
