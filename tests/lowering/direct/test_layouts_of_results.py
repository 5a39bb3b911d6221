"""What is written through a view of a result, or a copy, as its layout has it: as in eager, however operands lie."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError
from tests.fuzz.layouts_of_results import WAYS, drawn, outcome, written
from tests.support import draws

FAILED = (119, 143, 202, 210, 247, 627, 1115, 1207, 1339, 1408)
LAST = torch.channels_last
ORDERS = {2: [(0, 1), (1, 0)], 3: [(0, 1, 2), (2, 1, 0), (0, 2, 1)], 4: [(0, 1, 2, 3), (3, 2, 1, 0), (0, 2, 3, 1)]}
F = torch.nn.functional


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", draws.drawn("layouts of results", range(40_000), 25, FAILED))
def test_results_lie_as_in_eager(seed: int, way: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = drawn(seed)
        if case is not None:
            assert outcome(case, seed, way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sizes", [(2, 4, 5, 6), (1, 3, 4, 4)])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.pad(x.to(memory_format=LAST), (1, 1, 1, 1), mode="replicate"),
        lambda x: F.pad(x.permute(0, 3, 1, 2), (1, 2, 1, 1), mode="reflect"),
        lambda x: F.logsigmoid(x.mT),
        lambda x: (x.mT * 10).int() // torch.tensor([2.0]),
        lambda x: F.scaled_dot_product_attention(*[x.transpose(1, 2)] * 3),
        lambda x: F.mse_loss(x.permute(3, 1, 0, 2), x.permute(3, 1, 0, 2) + 1, reduction="none"),
        lambda x: F.batch_norm(x.permute(2, 0, 3, 1), None, None, training=True),
        lambda x: x.permute(0, 2, 3, 1)[torch.tensor([0, 0])],
        lambda x: F.unfold(x.transpose(2, 3), 2),
        lambda x: torch.logaddexp(x.mT, x.mT), lambda x: 2.0 ** x.mT, lambda x: torch.ldexp(x.mT, x.mT),
        lambda x: torch.linalg.svd(x)[0],
        lambda x: torch.linalg.lstsq(x, x[..., :2]).solution,
        lambda x: F.channel_shuffle(x.repeat(1, 2, 1, 1).to(memory_format=LAST), 2),
        lambda x: torch.nonzero_static((x > 0), size=3),
        lambda x: F.conv2d(x.mT, torch.ones(x.shape[1], 1, 2, 2), groups=x.shape[1]),
    ],
)  # fmt: skip
def test_layouts_that_torch_tells_otherwise(function: Callable[..., Any], sizes: tuple[int, ...], way: Any) -> None:
    def whole(x: torch.Tensor) -> torch.Tensor:
        y = function(x)
        return written(y, ORDERS[y.dim()])

    x = torch.linspace(-2, 2, 240)[: torch.Size(sizes).numel()].reshape(sizes)
    try:
        program = irkit.to_onnx(whole, (x,), capture=way)
    except IrkitError as error:
        assert way == "torch.export" and "where torch.export recorded" in str(error)
        return
    assert torch.equal(program(x), whole(x))


@pytest.mark.parametrize("written_first", [True, False])
def test_what_is_narrowed_by_a_tensor_is_a_view(written_first: bool) -> None:
    def model(x: torch.Tensor, place: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x * 1
        part = x.narrow(0, place, 2)
        (part if written_first else x).mul_(3)
        return x, part * 1

    x = torch.arange(15.0).reshape(5, 3)
    program = irkit.to_onnx(model, (x, torch.tensor(1)), capture="direct")
    for place in (0, 1, 3):
        for mine, eager in zip(program(x, torch.tensor(place)), model(x, torch.tensor(place)), strict=True):
            assert torch.equal(mine, eager)


def test_what_a_seeded_generator_draws_lies_as_what_it_is_like() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return torch.rand_like(x.mT) + x.mT

    x = torch.arange(15.0).reshape(5, 3)
    torch.testing.assert_close(irkit.to_onnx(model, (x,), capture="direct")(x), model(x))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_what_a_recurrent_layer_gives_lies_step_by_step(layer: Any, batch_first: bool, way: Any) -> None:
    model = layer(3, 4, batch_first=batch_first).eval()

    def whole(x: torch.Tensor) -> torch.Tensor:
        return written(model(x)[0], ORDERS[3])

    x = torch.linspace(-1, 1, 30).reshape(2, 5, 3)
    with torch.no_grad():
        assert torch.equal(irkit.to_onnx(whole, (x,), capture=way)(x), whole(x))


@pytest.mark.parametrize("size", [8, 600])
def test_large_operands_lie_as_small_ones(size: int) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return written(F.pad(x.permute(0, 3, 1, 2), (1, 1, 1, 1), mode="replicate").softmax(1), ORDERS[4])

    x = torch.zeros(1, size, size, 3)
    assert torch.equal(irkit.to_onnx(model, (x,), capture="direct")(x), model(x))


def test_kernels_that_read_where_they_are_told_are_not_asked() -> None:
    def model(x: torch.Tensor) -> Any:
        return torch.lu_unpack(*torch.linalg.lu_factor(x))

    x = torch.linspace(-1, 3, 15).reshape(3, 5) ** 2
    program = irkit.to_onnx(model, (x,), capture="direct")  # zeros are no pivots: asked of them, the process ended
    for mine, eager in zip(program(x), model(x), strict=True):
        torch.testing.assert_close(mine, eager)
