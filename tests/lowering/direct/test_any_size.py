"""Operators that torch takes at any size, so that they are not run at others, and attention by its two products."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import irkit
from lowering.direct.meta_device.results import ATTENTION, attended
from lowering.direct.points import FREE

OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "linear": lambda x: F.linear(x, torch.zeros(5, 4), torch.zeros(5)),
    "layer_norm": lambda x: F.layer_norm(x, (4,), torch.ones(4), torch.zeros(4)),
    "rms_norm": lambda x: F.rms_norm(x, (4,), torch.ones(4)),
    "embedding": lambda x: F.embedding(x.long(), torch.zeros(3, 2)),
    "batch_norm": lambda x: F.batch_norm(x.mT, torch.zeros(4), torch.ones(4), torch.ones(4), torch.zeros(4)),
    "conv1d": lambda x: F.conv1d(x.reshape(-1, 2, 2) if x.numel() else x.new_zeros(0, 2, 2), torch.zeros(3, 2, 2)),
    "conv2d": lambda x: F.conv2d(x.new_zeros(len(x), 2, 4, 5), torch.zeros(4, 1, 3, 3), torch.zeros(4), 2, 1, 1, 2),
    "conv3d": lambda x: F.conv3d(x.new_zeros(x.shape[1], 1, 2, 3, 4), torch.zeros(3, 1, 2, 2, 2), padding="same"),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "transpose": lambda x: x.transpose(0, -1),
    "permute": lambda x: x.permute(2, 0, 1),
    "t": lambda x: x[0].t(),
    "to": lambda x: x.to(torch.float16),
    "contiguous": lambda x: x.transpose(0, 1).contiguous(),
    "clone": torch.clone,
    "detach": torch.detach,
    "alias": torch.ops.aten.alias,
    "dropout": lambda x: F.dropout(x, training=False),
    "softmax": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, 1),
    "mean": lambda x: x.mean((0, 2)),
    "sum": lambda x: x.sum(1),
    "hardswish": F.hardswish,
    "selu": torch.selu,
    "log_sigmoid": F.logsigmoid,
    "relu6": F.relu6,
    "square": torch.square,
}


def test_each_operator_that_takes_any_size_is_among_those_below() -> None:
    assert {f"aten::{name}" for name in OPERATORS} == FREE.keys()


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_takes_any_size(name: str) -> None:
    for rows in (0, 1, 2, 7):
        for columns in (0, 1, 3):
            OPERATORS[name](torch.zeros(rows + 1 if name == "t" else rows, columns, 4))


@pytest.mark.parametrize("wrong", [torch.zeros(2, 5), torch.zeros(2, 4, dtype=torch.float16)])
def test_what_torch_refuses_for_the_example_is_refused(wrong: torch.Tensor) -> None:
    with pytest.raises(irkit.IrkitError):
        irkit.to_onnx(torch.nn.Linear(4, 3), (wrong,), dynamic_shapes=({0: "n"},), capture="direct")


def drawn(draw: random.Random) -> list[Any]:
    """Queries, keys, values and a mask of sizes that mostly fit."""

    def size() -> int:
        return draw.choice((0, 1, 1, 2, 3, 5))

    def made(shape: list[int]) -> torch.Tensor:
        shape = [each if draw.random() < 0.9 else size() for each in shape]
        turned = len(shape) > 2 and draw.random() < 0.5
        made = torch.zeros([*shape[:-3], shape[-2], shape[-3], shape[-1]] if turned else shape)
        return made.transpose(-2, -3) if turned else made

    lead, (rows, width, columns, last) = [size() for _ in range(draw.randint(0, 3))], [size() for _ in range(4)]
    mask = None
    if draw.random() < 0.5:
        mask = made([*lead, rows, columns][draw.randint(0, 1) :]).to(draw.choice((torch.bool, torch.float32)))
    return [made([*lead, rows, width]), made([*lead, columns, width]), made([*lead, columns, last]), mask]


def outcome(function: Callable[..., torch.Tensor], given: list[Any], device: str) -> Any:
    """The shape and strides of what an operator gives on a device; None where it refuses."""
    try:
        found = function(*(each.to(device) if isinstance(each, torch.Tensor) else each for each in given))
    except RuntimeError:
        return None
    return found.shape, found.stride()


def test_attention_is_told_as_torch_tells_it() -> None:
    draw, taken = random.Random(0), 0
    for _ in range(150):
        given = [*drawn(draw), 0.0, draw.random() < 0.2]
        theirs, ours = outcome(ATTENTION, given, "meta"), outcome(attended, given, "meta")
        assert ours == theirs or (ours is None and outcome(ATTENTION, given, "cpu") is None)
        taken += ours is not None
    assert taken > 50


CONVOLUTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "plain": F.conv2d,
    "padded": lambda x, w: F.conv2d(x, w, padding=(1, 0)),
    "dilated": lambda x, w: F.conv2d(x, w, dilation=2, stride=2, padding=1),
    "same": lambda x, w: F.conv2d(x, w, padding="same"),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_kernel_that_varies_is_at_most_as_large_as_the_padded_image(name: str) -> None:
    function = CONVOLUTIONS[name]
    program = irkit.to_onnx(
        function, (torch.randn(1, 2, 9, 8), torch.randn(3, 2, 3, 2)),
        dynamic_shapes=({2: "h", 3: "w"}, {2: "a", 3: "b"}), capture="direct",
    )  # fmt: skip
    for h, w, a, b in [
        (9, 8, 3, 2),
        (2, 8, 3, 2),
        (3, 2, 3, 2),
        (3, 2, 3, 3),
        (7, 7, 3, 7),
        (5, 9, 3, 4),
        (4, 4, 4, 1),
    ]:
        x, kernel = torch.randn(1, 2, h, w), torch.randn(3, 2, a, b)
        try:
            expected = function(x, kernel)
        except RuntimeError:
            with pytest.raises(irkit.ContractError):
                program(x, kernel)
        else:
            torch.testing.assert_close(program(x, kernel), expected, rtol=1e-4, atol=1e-4)


class Attended(torch.nn.Module):
    """Attention that is causal where there are several tokens, as Whisper's, beside a sparse buffer, as it has one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("heads", torch.eye(3).to_sparse(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, is_causal=x.shape[1] > 1)


def test_a_comparison_of_sizes_is_answered_where_torch_takes_none() -> None:
    model, x = Attended(), torch.randn(2, 5, 4)
    program = irkit.to_onnx(model, (x,), dynamic_shapes=({0: "batch", 1: "tokens"},), capture="direct")
    for shape in ((2, 5, 4), (1, 1, 4), (3, 9, 4)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-6)
