"""Converters of `lowering.aten.recurrent.recurrent` against eager torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import irkit
from tests.lowering.aten.oracle import check, check_all, module_cases

MODULES = [
    "nn.RNN", "nn.LSTM", "nn.GRU", "nn.RNNCell", "nn.LSTMCell", "nn.GRUCell",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    """ModuleInfo's modules."""
    check_all(module_cases(name, 4))


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_stacks_of_any_batch(kind: type[torch.nn.Module], both_ways: bool, batch_first: bool) -> None:
    """Two layers, either order of axes; the batch is a symbol."""
    model = kind(3, 5, 2, bidirectional=both_ways, batch_first=batch_first)
    axis = 0 if batch_first else 1
    x, other = (torch.randn(*((size, 4) if batch_first else (4, size)), 3) for size in (2, 6))
    check(model, x, dynamic_shapes=[{axis: "batch"}], others=[(other,)])


def test_states_that_are_given() -> None:
    """No batch axis, and states of the caller; relu; no biases."""
    check(torch.nn.LSTM(3, 5), torch.randn(4, 3), (torch.randn(1, 5), torch.randn(1, 5)))
    check(torch.nn.RNN(3, 5, nonlinearity="relu", bias=False, bidirectional=True), torch.randn(4, 2, 3))


@pytest.mark.parametrize("kind", [torch.nn.LSTMCell, torch.nn.GRUCell, torch.nn.RNNCell])
def test_cells(kind: type[torch.nn.Module]) -> None:
    """One step, for any batch and for none."""
    check(kind(3, 5), torch.randn(2, 3), dynamic_shapes=[{0: "batch"}], others=[(torch.randn(4, 3),)])
    check(kind(3, 5, bias=False), torch.randn(3))


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("both_ways", [False, True])
def test_projections(both_ways: bool) -> None:
    """ONNX's LSTM has none: a Scan, of any length and batch."""
    model = torch.nn.LSTM(3, 6, 2, proj_size=2, bidirectional=both_ways, bias=not both_ways)
    shapes = [{0: "length", 1: "batch"}]
    check(model, torch.randn(4, 3, 3), dynamic_shapes=shapes, others=[(torch.randn(6, 2, 3),)], operators=["Scan"])


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_sequences_of_any_length(kind: type[torch.nn.Module]) -> None:
    """Length and batch are symbols."""
    shapes = [{0: "length", 1: "batch"}]
    check(kind(3, 5, bidirectional=True), torch.randn(4, 2, 3), dynamic_shapes=shapes, others=[(torch.randn(7, 3, 3),)])


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("packed", [False, True])
def test_dropout_between_layers_is_drawn_in_training_mode(kind: Any, packed: bool) -> None:
    torch.manual_seed(0)
    layer = kind(4, 32, num_layers=2, dropout=0.5)

    def model(x: torch.Tensor) -> torch.Tensor:
        if packed:
            lengths = torch.full((x.shape[1],), 3)
            return layer(torch.nn.utils.rnn.pack_padded_sequence(x, lengths))[0].data
        return layer(x)[0]

    program = irkit.to_onnx(model, (torch.randn(3, 4, 4),), dynamic_shapes=({1: "n"},))
    x = torch.randn(3, 512, 4)
    ours, theirs = (torch.stack([run(x).detach() for _ in range(12)]) for run in (program, model))
    assert ours.std(0).mean() > 0 and not torch.equal(ours[0], ours[1])
    torch.testing.assert_close(ours.std(0).mean(), theirs.std(0).mean(), rtol=0.05, atol=0)
    torch.testing.assert_close(ours.mean(), theirs.mean(), rtol=0.2, atol=2e-3)
