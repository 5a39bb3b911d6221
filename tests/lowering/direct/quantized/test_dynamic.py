"""Layers that torch quantizes dynamically, against torch at several sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from irkit.doors.to_onnx import to_onnx
from irkit.errors import IrkitError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch.ao.nn.quantized.dynamic as dynamic
    from torch.ao import quantization
    from torch.ao.quantization.qconfig import default_dynamic_qconfig, float_qparams_weight_only_qconfig

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of its own deprecated modules
ENGINES = ("x86", "qnnpack")


def quantized(*layers: nn.Module, dtype: Any = torch.qint8) -> Any:
    kinds: Any = {type(layer) for layer in layers}
    return quantization.quantize_dynamic(nn.Sequential(*layers).eval(), kinds, dtype=dtype)


def layer(kind: Any, plain: Any) -> Any:
    plain.qconfig = default_dynamic_qconfig
    return kind.from_float(plain)


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...], tuple[int, ...]]] = {
    "linear": (lambda: quantized(nn.Linear(32, 64), nn.Linear(64, 8)), (3, 32), (7, 32)),
    "linear, float16": (lambda: quantized(nn.Linear(32, 8), dtype=torch.float16), (3, 32), (7, 32)),
    "lstm": (lambda: quantized(nn.LSTM(16, 32, 2, bidirectional=True)), (4, 3, 16), (7, 1, 16)),
    "lstm, batch first": (lambda: quantized(nn.LSTM(16, 32, batch_first=True)), (4, 3, 16), (2, 9, 16)),
    "lstm, float16": (lambda: quantized(nn.LSTM(16, 32), dtype=torch.float16), (4, 3, 16), (1, 5, 16)),
    "gru": (lambda: quantized(nn.GRU(16, 32, bidirectional=True)), (4, 3, 16), (1, 5, 16)),
    "lstm cell": (lambda: quantized(nn.LSTMCell(16, 8)), (3, 16), (5, 16)),
    "gru cell": (lambda: quantized(nn.GRUCell(16, 8)), (3, 16), (5, 16)),
    "rnn cell": (lambda: quantized(nn.RNNCell(16, 8, nonlinearity="relu")), (3, 16), (5, 16)),
}  # fmt: skip
CONVOLUTIONS: dict[str, tuple[Callable[[], Any], tuple[int, ...], tuple[int, ...]]] = {
    "conv1d": (lambda: layer(dynamic.Conv1d, nn.Conv1d(4, 8, 3)), (2, 4, 9), (1, 4, 5)),
    "conv2d": (lambda: layer(dynamic.Conv2d, nn.Conv2d(4, 8, 3, 2, 1)), (2, 4, 9, 9), (1, 4, 5, 9)),
    "transposed": (lambda: layer(dynamic.ConvTranspose2d, nn.ConvTranspose2d(4, 8, 3, 2)), (2, 4, 5, 9), (1, 4, 7, 9)),
}


def largest_gap(program: Any, model: Any, size: tuple[int, ...]) -> tuple[float, float]:
    """(the largest difference, in what part of the elements there is one) of two results."""
    x = torch.randn(size)
    pairs = zip(pytree.tree_leaves(program(x)), pytree.tree_leaves(model(x)), strict=True)
    gaps = [(ours - theirs).abs() for ours, theirs in pairs]
    return max(float(gap.max()) for gap in gaps), max(float((gap > 1e-5).float().mean()) for gap in gaps)


CASES = [(name, engine) for name in MODELS for engine in ENGINES if "16" not in name or engine != "qnnpack"]
"""QNNPACK has no weights of float16."""


@pytest.mark.parametrize(("name", "engine"), CASES)
def test_dynamic_layers_choose_the_scales_of_torch(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", engine)
    torch.manual_seed(0)
    make, size, other = MODELS[name]
    model = make()
    program = to_onnx(model, (torch.randn(size),), dynamic_shapes=({0: "n", 1: "m"} if len(size) == 3 else {0: "n"},))
    assert program.report.capture == "traced directly"
    for shape in (size, other, (1, *size[1:])):
        assert largest_gap(program, model, shape)[0] <= 1e-5


@pytest.mark.parametrize(
    ("name", "engine"), [(name, engine) for name in CONVOLUTIONS for engine in ENGINES if name != "transposed"]
    + [("transposed", "qnnpack")],
)  # fmt: skip
def test_dynamic_convolutions_round_results_as_torch(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", engine)
    torch.manual_seed(0)
    make, size, other = CONVOLUTIONS[name]
    model = make()
    program = to_onnx(model, (torch.randn(size),), dynamic_shapes=({0: "n", 2: "h"},), capture="direct")
    for shape in (size, other):
        most, part = largest_gap(program, model, shape)
        assert most <= 0.1 and part <= 0.01  # a step of the result, at few elements


def test_a_kernel_that_gives_something_else_than_it_says_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")
    make, size, _ = CONVOLUTIONS["transposed"]
    model = make()
    plain = torch.nn.functional.conv_transpose2d(x := torch.randn(size), model.weight().dequantize(), model.bias(), 2)
    if (model(x) - plain).abs().max() < 0.1:  # a torch whose kernel is right
        assert largest_gap(to_onnx(model, (x,)), model, size)[0] <= 0.1
        return
    with pytest.raises(IrkitError, match=r"quantized\.conv_transpose2d, whose kernel gives something else"):
        to_onnx(model, (x,))


@pytest.mark.parametrize("bag", (False, True))
def test_embeddings_keep_rows_as_integers(bag: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")
    torch.manual_seed(0)
    table: Any = nn.EmbeddingBag(50, 16, mode="sum") if bag else nn.Embedding(50, 16)
    model: Any = nn.Sequential(table).eval()
    model.qconfig = float_qparams_weight_only_qconfig
    model = quantization.convert(quantization.prepare(model))
    program = to_onnx(model, (torch.randint(0, 50, (3, 5)),), dynamic_shapes=({0: "n", 1: "m"},), capture="direct")
    assert {t.data_type for t in program.proto.graph.initializer if list(t.dims) == [50, 16]} == {2}
    for size in ((3, 5), (1, 7), (4, 1)):
        places = torch.randint(0, 50, size)
        torch.testing.assert_close(program(places), model(places))


def test_packed_sequences_are_refused_by_name() -> None:
    model = quantized(nn.LSTM(4, 6))[0]

    def packed(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        return model(nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False))[1][0]

    with pytest.raises(IrkitError, match="quantized_lstm"):
        to_onnx(packed, (torch.randn(5, 2, 4), torch.tensor([3, 5])))
