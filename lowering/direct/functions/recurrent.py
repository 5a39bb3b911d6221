"""An LSTM whose gradient is recorded, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lowering.records.torch_internals import lstm_layer, lstm_layers, lstm_parameters


def lstm_in_steps(
    x: torch.Tensor, hx: Sequence[torch.Tensor], weights: Sequence[torch.Tensor], biases: bool, layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """aten.lstm.input in the operators of its steps, each of which has a gradient: where torch takes it apart on a CPU
    it makes one operator of oneDNN's of each layer."""
    given = lstm_parameters(weights, biases, hx[0].size(2) != hx[1].size(2))
    hidden = list(zip(hx[0], hx[1], strict=True))
    y, last = lstm_layers(x, hidden, given, biases, layers, dropout, train, bidirectional, batch_first, lstm_layer)
    states, cells = zip(*last, strict=True)
    return y, torch.stack(states), torch.stack(cells)
