"""Steps that train recurrent layers over sequences whose length varies, against eager at other lengths."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

import irkit
from tests.support.draws import drawn

OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"num_layers": 2}, {"bidirectional": True, "num_layers": 2}, {"bias": False}, {"batch_first": True},
)  # fmt: skip
KINDS = ("LSTM", "GRU", "RNN", "RNN of relu")
PROJECTED: tuple[dict[str, Any], ...] = (
    {"proj_size": 3}, {"proj_size": 2, "num_layers": 2, "bidirectional": True, "bias": False},
)  # fmt: skip
CASES = [(kind, options) for kind in KINDS for options in OPTIONS] + [("LSTM", options) for options in PROJECTED]


def layer(kind: str, options: dict[str, Any]) -> torch.nn.RNNBase:
    torch.manual_seed(0)
    if kind == "RNN of relu":
        return torch.nn.RNN(4, 5, nonlinearity="relu", **options)
    return getattr(torch.nn, kind)(4, 5, **options)


def step_of(model: torch.nn.RNNBase) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor) -> Any:
        y, states = model(x)
        last = states if isinstance(states, tuple) else (states,)
        loss = y.pow(2).mean() + 0.1 * sum((each * torch.arange(each.shape[-1])).mean() for each in last)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), [each.detach().clone() for each in model.parameters()]

    return step


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")  # eager's, of its speed
@pytest.mark.parametrize(("kind", "options"), drawn("recurrent training", CASES, 9, [CASES[2], *CASES[-2:]]))
def test_a_step_takes_sequences_of_any_length(kind: str, options: dict[str, Any]) -> None:
    mine, eager = (step_of(layer(kind, options)) for _ in range(2))
    program = irkit.to_onnx(mine, (torch.randn(7, 3, 4),), dynamic_shapes=({0: "n", 1: "m"},), capture="direct")
    state: Any = None
    for sizes in ((7, 3), (5, 2), (1, 4), (9, 1)):
        x = torch.randn(*sizes, 4)
        found, state = program.run((x,), {}, state)
        torch.testing.assert_close(found, eager(x), rtol=1e-4, atol=1e-5)


def test_what_encodes_and_what_decodes_are_trained_together() -> None:
    def step() -> Any:
        torch.manual_seed(0)
        tokens, encoder = torch.nn.Embedding(9, 4), torch.nn.GRU(4, 6, batch_first=True, bidirectional=True)
        decoder, head = torch.nn.LSTM(4, 12, batch_first=True), torch.nn.Linear(12, 9)
        whole = torch.nn.ModuleList([tokens, encoder, decoder, head])
        optimizer = torch.optim.AdamW(whole.parameters(), lr=0.01)

        def stepped(source: torch.Tensor, target: torch.Tensor) -> Any:
            state = torch.cat([*encoder(tokens(source))[1]], -1)[None]
            y = head(decoder(tokens(target[:, :-1]), (state, state.tanh()))[0])
            loss = F.cross_entropy(y.flatten(0, 1), target[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(whole.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        return stepped

    def pair(batch: int, n: int, m: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randint(0, 9, (batch, n)), torch.randint(0, 9, (batch, m))

    mine, eager = step(), step()
    shapes = ({0: "batch", 1: "n"}, {0: "batch", 1: "m"})
    program = irkit.to_onnx(mine, pair(3, 7, 5), dynamic_shapes=shapes, capture="direct")
    state: Any = None
    for sizes in ((3, 7, 5), (2, 4, 6), (5, 9, 3), (1, 1, 2)):
        given = pair(*sizes)
        found, state = program.run(given, {}, state)
        torch.testing.assert_close(found, eager(*given), rtol=1e-3, atol=1e-4)


def test_gradients_of_the_input_and_none_of_the_weights() -> None:
    model = layer("GRU", {}).requires_grad_(False)

    def slope(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(model(x)[0].pow(2).sum(), x)[0]

    program = irkit.to_onnx(slope, (torch.randn(7, 3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    for length in (7, 1, 4):
        x = torch.randn(length, 3, 4)
        torch.testing.assert_close(program(x), slope(x))
    with pytest.raises(irkit.ContractError, match=r"captured for n in \[1, inf\]"):
        program(torch.randn(0, 3, 4))


def packed_step(model: torch.nn.RNNBase, first: bool, whole: bool) -> Any:
    """A step by words of batches that are packed, sorted or not, padded as far as the longest or as they were."""
    words = torch.nn.Embedding(9, 4)
    weights = [*words.parameters(), *model.parameters()]
    optimizer = torch.optim.SGD(weights, lr=0.1)

    def step(ids: torch.Tensor, lengths: torch.Tensor) -> Any:
        x = words(ids)
        given = x if first else x.transpose(0, 1)
        packed = torch.nn.utils.rnn.pack_padded_sequence(given, lengths, batch_first=first, enforce_sorted=False)
        found, states = model(packed)
        total = ids.shape[1] if whole else None
        y, counts = torch.nn.utils.rnn.pad_packed_sequence(found, first, -0.5, total_length=total)
        last = states if isinstance(states, tuple) else (states,)
        loss = y.pow(2).mean() + 0.1 * sum((each * torch.arange(each.shape[-1])).mean() for each in last)
        optimizer.zero_grad()
        (loss * counts.sum()).backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        return loss.detach(), [each.detach().clone() for each in weights]

    return step


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")  # eager's, of its speed
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("kind", "options"), drawn("packed training", CASES, 4, [CASES[2], CASES[8], *CASES[-2:]]))
def test_a_step_takes_packed_sequences_of_any_lengths(kind: str, options: dict[str, Any], whole: bool) -> None:
    first = options.get("batch_first", False)
    steps = []
    for _ in range(2):
        model = layer(kind, options)
        steps.append(packed_step(model, first, whole))
    mine, eager = steps

    def batch(count: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = torch.randint(1, length + 1, (count,))
        lengths[torch.randint(0, count, ())] = length
        return torch.randint(0, 9, (count, length)), lengths

    shapes = ({0: "batch", 1: "n"}, {0: "batch"})
    program = irkit.to_onnx(mine, batch(3, 7), dynamic_shapes=shapes, capture="direct")
    state: Any = None
    for sizes in ((3, 7), (4, 5), (1, 3), (5, 2), (2, 1)):
        given = batch(*sizes)
        found, state = program.run(given, {}, state)
        torch.testing.assert_close(found, eager(*given), rtol=1e-4, atol=1e-5)


def test_padding_that_is_shorter_than_the_longest_sequence_is_refused() -> None:
    model = layer("GRU", {"batch_first": True})

    def step(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        found, _ = torch.nn.utils.rnn.pad_packed_sequence(model(packed)[0], batch_first=True, total_length=6)
        return torch.autograd.grad(found.pow(2).sum(), list(model.parameters()))

    shapes = ({0: "batch", 1: "n"}, {0: "batch"})
    program = irkit.to_onnx(step, (torch.randn(3, 5, 4), torch.tensor([4, 2, 5])), dynamic_shapes=shapes)
    given = torch.randn(2, 7, 4), torch.tensor([6, 2])
    torch.testing.assert_close(program(*given), step(*given), rtol=1e-4, atol=1e-5)
    with pytest.raises(irkit.ContractError):
        program(given[0], torch.tensor([7, 2]))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_gradient_of_the_gradient_needs_a_length_that_is_fixed(kind: str) -> None:
    model = layer(kind, {})

    def step(x: torch.Tensor) -> Any:
        x = x.detach().requires_grad_()
        slope = torch.autograd.grad(model(x)[0].pow(2).sum(), x, create_graph=True)[0]
        return torch.autograd.grad(slope.pow(2).sum(), list(model.parameters()), allow_unused=True)

    with pytest.raises(irkit.IrkitError, match="whose length varies is asked for a gradient of its own"):
        irkit.to_onnx(step, (torch.randn(7, 3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    program = irkit.to_onnx(step, (torch.randn(7, 3, 4),), dynamic_shapes=({1: "batch"},), capture="direct")
    for batch in (3, 1, 5):
        x = torch.randn(7, batch, 4)
        torch.testing.assert_close(program(x), step(x), rtol=1e-4, atol=1e-5)
