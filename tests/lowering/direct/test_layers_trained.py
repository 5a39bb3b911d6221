"""Steps that train each layer of torch.nn, or what stands behind one, by batches and lengths that vary."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import irkit
from irkit.errors import IrkitError
from tests.support.draws import drawn


class Of(nn.Module):
    """What a function makes of a layer and an input."""

    def __init__(self, layer: nn.Module, function: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self.layer, x)


@attrs.frozen
class Case:
    """A layer, the sizes of its input without the batch, the axis whose length varies, and by how much at least."""

    made: Callable[[], nn.Module]
    sizes: tuple[int, ...]
    axis: int | None = None
    whole: int = 1
    tokens: bool = False


def after(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3), *layers)


def unpooled(layer: Any, x: torch.Tensor) -> torch.Tensor:
    found, places = F.max_pool2d(layer(x), 2, return_indices=True)
    return F.max_unpool2d(found, places, [2, 2])


def stepped(layer: Any, x: torch.Tensor) -> torch.Tensor:
    state = None
    for _ in range(3):
        state = layer(x, state)
    return state if isinstance(state, torch.Tensor) else torch.cat(state)  # type: ignore[arg-type]


HEADS: dict[str, Any] = {"d_model": 4, "nhead": 2, "dim_feedforward": 8, "dropout": 0.0, "batch_first": True}
IMAGE, ROWS, LINE = (2, 9, 8), (7, 4), (2, 9)
CASES: dict[str, Case] = {
    "Linear": Case(lambda: nn.Linear(4, 3), (4,)),
    "Bilinear": Case(lambda: Of(nn.Bilinear(4, 4, 3), lambda f, x: f(x, x * 0.5)), (4,)),
    "Conv1d": Case(lambda: nn.Conv1d(2, 4, 3, padding="same", groups=2, dilation=2), LINE, 2),
    "Conv2d": Case(lambda: nn.Conv2d(2, 3, 3, stride=2, padding=1), IMAGE, 2),
    "Conv2d reflected": Case(lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), IMAGE, 3),
    "Conv2d around": Case(lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), IMAGE, 2),
    "Conv3d": Case(lambda: nn.Conv3d(2, 2, 3, padding=1), (2, 4, 5, 4), 2),
    "ConvTranspose1d": Case(lambda: nn.ConvTranspose1d(2, 3, 3, stride=2), LINE, 2),
    "ConvTranspose2d": Case(lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), IMAGE, 2),
    "ConvTranspose3d": Case(lambda: nn.ConvTranspose3d(2, 2, 2), (2, 4, 4, 4), 3),
    "BatchNorm1d": Case(lambda: nn.BatchNorm1d(4), (4,)),
    "BatchNorm2d": Case(lambda: nn.BatchNorm2d(2, momentum=None), IMAGE, 2),
    "BatchNorm3d": Case(lambda: nn.BatchNorm3d(2), (2, 3, 4, 3), 2),
    "BatchNorm1d frozen": Case(lambda: nn.BatchNorm1d(4).eval(), (4,)),
    "LayerNorm": Case(lambda: nn.LayerNorm(4), ROWS, 1),
    "RMSNorm": Case(lambda: nn.RMSNorm(4), ROWS, 1),
    "GroupNorm": Case(lambda: nn.GroupNorm(2, 4), (4, 7), 2),
    "InstanceNorm1d": Case(lambda: nn.InstanceNorm1d(2, affine=True), LINE, 2),
    "InstanceNorm2d": Case(lambda: nn.InstanceNorm2d(2, affine=True, track_running_stats=True), IMAGE, 2),
    "InstanceNorm3d": Case(lambda: nn.InstanceNorm3d(2, affine=True), (2, 4, 4, 4), 2),
    "PReLU": Case(lambda: nn.PReLU(4), (4, 5), 2),
    "Embedding": Case(lambda: nn.Embedding(10, 4, padding_idx=1), (7,), 1, tokens=True),
    "Embedding by count": Case(lambda: nn.Embedding(10, 4, scale_grad_by_freq=True), (7,), 1, tokens=True),
    "EmbeddingBag": Case(lambda: nn.EmbeddingBag(10, 4), (7,), 1, tokens=True),
    "EmbeddingBag of sums": Case(lambda: nn.EmbeddingBag(10, 4, mode="sum", padding_idx=0), (7,), 1, tokens=True),
    "EmbeddingBag of greatest": Case(lambda: nn.EmbeddingBag(10, 4, mode="max"), (7,), 1, tokens=True),
    "RNN": Case(lambda: nn.RNN(4, 5, 2, batch_first=True), ROWS, 1),
    "GRU": Case(lambda: nn.GRU(4, 5, batch_first=True, bidirectional=True), ROWS, 1),
    "LSTM": Case(lambda: nn.LSTM(4, 5, 2, batch_first=True), ROWS, 1),
    "LSTM of projections": Case(lambda: nn.LSTM(4, 5, proj_size=3, batch_first=True), ROWS),
    "RNNCell": Case(lambda: Of(nn.RNNCell(4, 5), stepped), (4,)),
    "GRUCell": Case(lambda: Of(nn.GRUCell(4, 5), stepped), (4,)),
    "LSTMCell": Case(lambda: Of(nn.LSTMCell(4, 5), stepped), (4,)),
    "MultiheadAttention": Case(
        lambda: Of(nn.MultiheadAttention(4, 2, batch_first=True), lambda f, x: f(x, x, x)[0]), ROWS, 1
    ),
    "TransformerEncoderLayer": Case(lambda: nn.TransformerEncoderLayer(**HEADS, norm_first=True), ROWS, 1),
    "TransformerDecoderLayer": Case(
        lambda: Of(nn.TransformerDecoderLayer(**HEADS), lambda f, x: f(x, x * 0.5)), ROWS, 1
    ),
    "Transformer": Case(
        lambda: Of(nn.Transformer(num_encoder_layers=1, num_decoder_layers=1, **HEADS), lambda f, x: f(x, x)), ROWS, 1
    ),
    "MaxPool2d": Case(lambda: after(nn.MaxPool2d(2)), IMAGE, 2),
    "AvgPool2d": Case(lambda: after(nn.AvgPool2d(2)), IMAGE, 2),
    "AdaptiveAvgPool2d": Case(lambda: after(nn.AdaptiveAvgPool2d(2)), IMAGE, 2),
    "AdaptiveMaxPool2d": Case(lambda: after(nn.AdaptiveMaxPool2d(2)), IMAGE, 3),
    "LPPool2d": Case(lambda: after(nn.LPPool2d(2, (2, 2))), IMAGE, 2),
    "MaxUnpool2d": Case(lambda: Of(nn.Conv2d(2, 2, 1), unpooled), (2, 8, 8), 2, whole=2),
    "Upsample": Case(lambda: after(nn.Upsample(scale_factor=2)), IMAGE, 2),
    "Upsample bilinear": Case(lambda: after(nn.Upsample(scale_factor=2, mode="bilinear")), IMAGE, 2),
    "LocalResponseNorm": Case(lambda: after(nn.LocalResponseNorm(2)), IMAGE, 2),
    "PixelShuffle": Case(lambda: after(nn.PixelShuffle(2)), IMAGE, 2),
    "ChannelShuffle": Case(lambda: after(nn.ChannelShuffle(2)), IMAGE, 2),
    "Unfold": Case(lambda: after(nn.Unfold((2, 2))), IMAGE, 2),
    "ReflectionPad2d": Case(lambda: after(nn.ReflectionPad2d(1)), IMAGE, 2),
    "ReplicationPad1d": Case(lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReplicationPad1d(1)), LINE, 2),
    "GLU": Case(lambda: nn.Sequential(nn.Linear(4, 6), nn.GLU()), (4,)),
    "CosineSimilarity": Case(lambda: Of(nn.Linear(4, 4), lambda f, x: F.cosine_similarity(f(x), x)), (4,)),
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda of: torch.optim.SGD(of, lr=0.05, momentum=0.9),
    "Adam": lambda of: torch.optim.Adam(of, lr=0.01),
}
PINNED = [("AdaptiveAvgPool2d", "SGD"), ("LSTM", "Adam"), ("GLU", "SGD")]


def given(case: Case, batch: int, more: int) -> torch.Tensor:
    sizes = [batch, *case.sizes]
    if case.axis is not None:
        sizes[case.axis] += more * case.whole
    return torch.randint(0, 10, sizes) if case.tokens else torch.randn(*sizes, dtype=torch.float64)


def step_of(net: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    def step(x: torch.Tensor) -> Any:
        found = net(x)
        out = found[0] if isinstance(found, tuple) else found
        loss = out.pow(2).mean() + 0.01 * out.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), [each.detach().clone() for each in net.parameters()]

    return step


@pytest.mark.parametrize(
    ("name", "optimizer"), drawn("layers trained", [(a, b) for a in CASES for b in OPTIMIZERS], 30, PINNED)
)
def test_a_step_trains_a_layer_by_batches_and_lengths_that_vary(name: str, optimizer: str) -> None:
    case = CASES[name]
    torch.manual_seed(0)
    net = case.made().double()
    twin = copy.deepcopy(net)
    mine, eager = (step_of(each, OPTIMIZERS[optimizer](each.parameters())) for each in (net, twin))
    shapes = ({0: "batch"} if case.axis is None else {0: "batch", case.axis: "length"},)
    program = irkit.to_onnx(mine, (given(case, 3, 0),), dynamic_shapes=shapes, capture="direct")
    state: Any = None
    for batch, more in ((3, 0), (2, 2), (5, 1), (4, 5)):
        x = given(case, batch, more)
        found, state = program.run((x,), {}, state)
        # ONNX Runtime convolves in float32, and Adam divides by the root of small gradients
        torch.testing.assert_close(found, eager(x), rtol=1e-3, atol=1e-4)


NORMS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), 2), "LayerNorm": (lambda: nn.LayerNorm(7), 1),
    "RMSNorm": (lambda: nn.RMSNorm(7), 1), "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4, affine=True), 2),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), 2), "BatchNorm1d frozen": (lambda: nn.BatchNorm1d(4).eval(), 2),
    "PReLU": (lambda: nn.PReLU(4), 2),
}  # fmt: skip


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NORMS)
def test_a_step_by_nothing_gives_what_eager_gives_or_is_refused(name: str, kind: torch.dtype) -> None:
    made, axis = NORMS[name]
    net = made().to(kind)
    twin = copy.deepcopy(net)
    mine, eager = (step_of(each, torch.optim.SGD(each.parameters(), lr=0.1)) for each in (net, twin))
    program = irkit.to_onnx(
        mine, (torch.randn(3, 4, 7, dtype=kind),), dynamic_shapes=({0: "batch", axis: "length"},), capture="direct"
    )
    for batch, length in ((3, 0), (0, 7), (0, 0)):
        sizes = [batch, 4, 7]
        sizes[axis] = length
        x = torch.zeros(sizes, dtype=kind)
        before = copy.deepcopy(twin.state_dict())
        try:
            found, _ = program.run((x,), {}, None)
        except IrkitError:
            continue
        torch.testing.assert_close(found, eager(x), equal_nan=True)
        twin.load_state_dict(before)
