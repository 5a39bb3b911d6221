"""Recurrent layers, every flag: padded and packed batches, layers, two ways, projections, no biases, float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError
from lowering.program.check import run
from lowering.records.options import DIRECT, TORCH_EXPORT

pytestmark = pytest.mark.filterwarnings("ignore")

WAYS = (DIRECT, TORCH_EXPORT)
KINDS: dict[str, Any] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *sizes, **flags: nn.RNN(*sizes, nonlinearity="relu", **flags),
    "projected": lambda *sizes, **flags: nn.LSTM(*sizes, proj_size=2, **flags),
}
FLAGS = st.fixed_dictionaries({
    "num_layers": st.integers(1, 3), "bidirectional": st.booleans(), "batch_first": st.booleans(),
    "bias": st.booleans(),
})  # fmt: skip


def states_of(layer: Any, batch: int | None, dtype: torch.dtype) -> Any:
    """Random first states; without a batch axis where there is no batch."""
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = [layer.proj_size or layer.hidden_size, *([layer.hidden_size] if isinstance(layer, nn.LSTM) else [])]
    made = tuple(torch.randn(count, *(() if batch is None else (batch,)), size, dtype=dtype) for size in sizes)
    return made if isinstance(layer, nn.LSTM) else made[0]


def agrees(
    model: nn.Module,
    args: tuple[Any, ...],
    shapes: Any = None,
    others: tuple[tuple[Any, ...], ...] = (),
    way: str = DIRECT,
) -> None:
    """Fails where the program, captured in this way, differs from eager on the arguments, or on the others."""
    program = to_onnx(model.eval(), args, dynamic_shapes=shapes, capture=way)
    for each in (args, *others):
        report = run(program, each, {})
        assert not report.problem, report.problem


@settings(max_examples=10, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(kind=st.sampled_from(sorted(KINDS)), flags=FLAGS, double=st.booleans(), given_state=st.booleans(),
       lone=st.booleans())  # fmt: skip
def test_padded_batches(kind: str, flags: dict[str, Any], double: bool, given_state: bool, lone: bool) -> None:
    """Lengths and batches are symbols; states are given or not; there is a batch or none."""
    dtype = torch.float64 if double else torch.float32
    layer = KINDS[kind](3, 4, **flags).to(dtype)
    batch_axis = 0 if flags["batch_first"] else 1

    def arguments(time: int, batch: int) -> tuple[Any, ...]:
        shape = (time, 3) if lone else (batch, time, 3) if batch_axis == 0 else (time, batch, 3)
        x = torch.randn(shape, dtype=dtype)
        return (x, states_of(layer, None if lone else batch, dtype)) if given_state else (x,)

    said: list[Any] = [{0: "time"} if lone else {1 - batch_axis: "time", batch_axis: "batch"}]
    if given_state:
        each = None if lone else {1: "batch"}
        said.append((each, each) if isinstance(layer, nn.LSTM) else each)
    agrees(layer, arguments(5, 2), tuple(said), (arguments(3, 4), arguments(1, 1)))


class Packing(nn.Module):
    """Packs a padded batch, runs a layer over it, and pads what comes out."""

    def __init__(self, layer: Any, in_order: bool, total: int | None) -> None:
        super().__init__()
        self.layer, self.in_order, self.total = layer, in_order, total

    def forward(self, x: Tensor, lengths: Tensor, *states: Any) -> Any:
        first = self.layer.batch_first
        packed = pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=self.in_order)
        y, last = self.layer(packed, *states)
        return pad_packed_sequence(y, batch_first=first, padding_value=-1.0, total_length=self.total), last


@settings(max_examples=10, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(kind=st.sampled_from(sorted(KINDS)), flags=FLAGS, double=st.booleans(), given_state=st.booleans(),
       in_order=st.booleans(), total=st.sampled_from([None, 8]), way=st.sampled_from(WAYS))  # fmt: skip
def test_packed_batches(
    kind: str, flags: dict[str, Any], double: bool, given_state: bool, in_order: bool, total: int | None, way: str
) -> None:
    """The lengths are data: other ones, and another batch, run on the same program."""
    dtype = torch.float64 if double else torch.float32
    layer = KINDS[kind](3, 4, **flags).to(dtype)
    model = Packing(layer, in_order, total)

    def arguments(*lengths: int) -> tuple[Any, ...]:
        ordered = sorted(lengths, reverse=True) if in_order else lengths
        shape = (len(lengths), 6, 3) if flags["batch_first"] else (6, len(lengths), 3)
        state = (states_of(layer, len(lengths), dtype),) if given_state else ()
        return torch.randn(shape, dtype=dtype), torch.tensor(ordered), *state

    agrees(model, arguments(2, 5, 3), None, (arguments(6, 1, 6), arguments(1, 1, 1)), way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("in_order", [True, False])
def test_lengths_that_eager_refuses_are_refused(in_order: bool, way: str) -> None:
    """Too long, or of nothing; or in no order, where the model does not sort them."""
    model = Packing(nn.GRU(3, 4), in_order, None).eval()
    x = torch.randn(6, 3, 3)
    program = to_onnx(model, (x, torch.tensor([5, 3, 2])), capture=way)
    torch.testing.assert_close(program(x, torch.tensor([6, 6, 1])), model(x, torch.tensor([6, 6, 1])))
    for lengths in ([7, 3, 2], [3, 2, 0], [3, 2, -1], *([[2, 5, 3]] if in_order else [])):
        with pytest.raises(RuntimeError):
            model(x, torch.tensor(lengths))
        with pytest.raises(ContractError, match="the lengths of packed sequences fall, and are 1 to 6"):
            program(x, torch.tensor(lengths))


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_of_any_size_is_packed(way: str) -> None:
    model = Packing(nn.GRU(3, 4, bidirectional=True), False, None)
    shapes = {"x": {0: "time", 1: "batch"}, "lengths": {0: "batch"}, "states": ()}
    others = tuple((torch.randn(t, len(n), 3), torch.tensor(n)) for t, n in ((7, [7, 2]), (4, [1, 2, 3, 4, 1])))
    agrees(model, (torch.randn(5, 3, 3), torch.tensor([2, 5, 3])), shapes, others, way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_packed_sequences_are_inputs_and_outputs(kind: str, way: str) -> None:
    """As they are, in order or with the permutation that sorts them."""

    def packed(*lengths: int) -> PackedSequence:
        return pack_padded_sequence(torch.randn(6, len(lengths), 3), torch.tensor(lengths), enforce_sorted=False)

    layer = KINDS[kind](3, 4, bidirectional=True)
    agrees(layer, (packed(2, 5, 3),), way=way)
    agrees(layer, (pack_padded_sequence(torch.randn(6, 3, 3), torch.tensor([6, 4, 1])),), way=way)
