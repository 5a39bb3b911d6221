"""Loops over sizes as models have them: lists made round by round, states that begin as None or 0, comprehensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import irkit
from tests.lowering.control_flow.test_functions import same

SHAPES = ({0: "b", 1: "t"},)
SIZES = ((2, 5), (1, 1), (3, 7), (2, 16))


def state_of_none(x: Tensor) -> Tensor:
    state = None
    found = []
    for t in range(x.shape[1]):
        state = x[:, t] if state is None else torch.tanh(state + x[:, t])
        found.append(state)
    return torch.stack(found, 1)


class Cells(nn.Module):
    """A cell that takes None for its first state, and gives two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Any]:
        state = None
        found = []
        for step in x.unbind(1):
            state = self.cell(step, state)
            found.append(state[0])
        return torch.stack(found, 1), state


class Gated(nn.Module):
    """A recurrent layer whose state is of one row at first, as in speech models."""

    def __init__(self) -> None:
        super().__init__()
        self.given, self.kept = nn.Linear(4, 6), nn.Linear(3, 6, bias=False)
        self.first = nn.Buffer(torch.zeros(1, 3))

    def forward(self, x: Tensor) -> Tensor:
        w = self.given(x)
        state: Tensor = self.first
        found = []
        for k in range(w.shape[1]):
            new, gate = (w[:, k] + self.kept(state)).chunk(2, 1)
            gate = torch.sigmoid(gate)
            state = gate * state + (1 - gate) * torch.relu(new)
            found.append(state)
        return torch.stack(found, dim=1)


def moments(x: Tensor) -> Tensor:
    mean, square = 0, 0
    for t in range(x.shape[1]):
        mean = 0.9 * mean + 0.1 * x[:, t]
        square = 0.99 * square + 0.01 * x[:, t] ** 2
    return mean / (square + 1e-8) ** 0.5


def returns_of_rewards(x: Tensor) -> tuple[Tensor, Tensor]:
    """Advantages as in reinforcement learning: written backwards, from a plain 0."""
    found, gained = torch.zeros_like(x), 0
    front = []
    for t in reversed(range(x.shape[1])):
        gained = x[:, t] + 0.9 * gained
        found[:, t] = gained
        front.insert(0, gained)
    return found, torch.stack(front, 1)


def backwards(x: Tensor) -> Tensor:
    state, found = torch.zeros(x.shape[0], 4), []
    for t in reversed(range(x.shape[1])):
        state = 0.5 * state + x[:, t]
        found.append(state)
    return torch.stack(found[::-1], 1)


def rows_of_batch(x: Tensor) -> Tensor:
    return torch.stack([row.softmax(0) * row.shape[0] for row in x])


def rows_by_number(x: Tensor) -> Tensor:
    return torch.stack([x[i, -3:].sum(0) for i in range(x.shape[0])])


def rows_padded(x: Tensor) -> Tensor:
    ends = [row[-3:] for row in x]
    return torch.stack([nn.functional.pad(each, (0, 0, 4 - each.shape[0], 0)) for each in ends])


def rows_in_pairs(x: Tensor) -> Tensor:
    return torch.stack([a * b[0] + i for i, (a, b) in enumerate(zip(x, x + 1))])  # noqa: B905


def pairs_in_a_list(x: Tensor) -> Tensor:
    pairs = []
    for t in range(x.shape[1]):
        pairs.append((x[:, t], x[:, t] * t))
    return torch.stack([a + b for a, b in pairs], 1)


def places_of_range(x: Tensor) -> Tensor:
    return x + torch.tensor(list(range(x.shape[1]))[::-1])[None, :, None].repeat(x.shape[0], 1, 1)


def largest_row(x: Tensor) -> Any:
    best = float("-inf")
    for row in x:
        best = max(best, row.sum())
    return best


def summed(x: Tensor) -> Any:
    return sum(row.cumsum(0) for row in x) + sum([row * 2 for row in x])


def counted(x: Tensor) -> tuple[Tensor, Any]:
    rows = [row * 2 for row in x]
    weights, ones = [0.5] * len(rows), [1] * len(x)
    made = torch.stack(rows) * torch.tensor(weights)[:, None, None] + torch.tensor(ones)[:, None, None] * len(rows)
    return made if rows else x, len(ones)


def joined_lists(x: Tensor) -> Tensor:
    places = list(range(x.shape[1]))
    placed = [-1] + places[1:] + [places[-1], x.shape[0]]  # noqa: RUF005
    return torch.cat([x, x[:, :1], x[:, :1]], 1) * torch.tensor(placed, dtype=torch.float32)[:, None]


def running_maximum(x: Tensor) -> Tensor:
    found = [x[:, 0]]
    for t in range(1, x.shape[1]):
        found.append(torch.maximum(found[-1], x[:, t]) * 0.9)
    return torch.stack(found, 1)


def blocks(x: Tensor) -> Tensor:
    """Blocks of 4 with a state, as in linear attention; the example has two, of which one is padding in part."""
    batch, length, width = x.shape
    padded = nn.functional.pad(x, (0, 0, 0, (4 - length % 4) % 4)).reshape(batch, -1, 4, width)
    state, found = torch.zeros(batch, width, width), torch.zeros_like(padded)
    for i in range(padded.shape[1]):
        block = padded[:, i]
        found[:, i] = block @ state + block
        state = state + block.transpose(1, 2) @ block * 0.1
    return found.reshape(batch, -1, width)[:, :length]


def averaged(x: Tensor) -> Tensor:
    """Rounds over a size that is computed of sizes."""
    halved = nn.functional.avg_pool1d(x.transpose(1, 2), 2, 2, padding=1).permute(2, 0, 1)
    state, found = torch.zeros(x.shape[0], 4), []
    for i in range(halved.shape[0]):
        state = 0.5 * state + halved[i]
        found.append(state.unsqueeze(0))
    return torch.cat(found, 0)


LOOPS = [
    state_of_none, Cells().eval(), Gated().eval(), moments, returns_of_rewards, backwards, rows_of_batch,
    rows_by_number, rows_padded, rows_in_pairs, pairs_in_a_list, places_of_range, largest_row, summed,
    counted, joined_lists, running_maximum, blocks, averaged,
]  # fmt: skip


@pytest.mark.parametrize("model", LOOPS, ids=lambda f: getattr(f, "__name__", type(f).__name__))
def test_loops_over_sizes_are_computed(model: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    program = irkit.to_onnx(model, (torch.randn(2, 5, 4),), dynamic_shapes=SHAPES, rewrite=True)
    assert program.report.capture == "traced directly"
    for batch, length in SIZES:
        x = torch.randn(batch, length, 4)
        same(model(x), program(x))


def running_sum(x: Tensor) -> Any:
    total = 0
    for t in range(x.shape[1]):
        total = total + x[:, t]
    return total


def test_a_loop_that_needs_a_round_refuses_none() -> None:
    """Without a round the sum would be a plain 0."""
    program = irkit.to_onnx(running_sum, (torch.randn(2, 5, 4),), dynamic_shapes=SHAPES, rewrite=True)
    for batch, length in ((2, 5), (1, 1), (3, 7)):
        x = torch.randn(batch, length, 4)
        same(running_sum(x), program(x))
    with pytest.raises(irkit.ContractError, match="dimension t is 0"):
        program(torch.randn(2, 0, 4))


def mixed(x: Tensor) -> Tensor:
    found: list[Any] = []
    for row in x:
        found += [row, (row, row)]
    return found[0]


def backwards_in_part(x: Tensor) -> Tensor:
    return torch.stack([row * 2 for row in x][3::-1])


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (mixed, "gains tensors of several types"),
        (backwards_in_part, "is read backwards in part"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_lists_that_cannot_be_computed_are_refused_with_their_line(model: Callable[..., Any], said: str) -> None:
    with pytest.raises(irkit.IrkitError, match=said) as told:
        irkit.to_onnx(model, (torch.randn(4, 5, 4),), dynamic_shapes=SHAPES, capture="direct", rewrite=True)
    assert "test_lists_of_loops.py" in told.value.source
