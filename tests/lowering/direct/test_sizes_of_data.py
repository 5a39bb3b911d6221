"""Operators whose results have sizes that data tells, of examples whose sizes are all fixed: at other data, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError

F = torch.nn.functional
EXAMPLE = torch.tensor([1, 3, 0, 3, 2])
OTHERS = ([1, 3, 0, 3, 2], [5, 5, 0, 1, 1], [0, 0, 0, 0, 0], [7, 1, 2, 3, 4], [1, 1, 1, 1, 9])


@pytest.mark.parametrize("way", ["direct", "torch.export"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.one_hot(x), lambda x: F.one_hot(x).sum(0) + 1, lambda x: F.one_hot(x % 3).T,
        lambda x: torch.bincount(x), lambda x: torch.bincount(x, minlength=2).cumsum(0), lambda x: x.nonzero(),
        lambda x: torch.argwhere(x > 1), lambda x: x.unique(), lambda x: x.unique(return_counts=True)[1],
        lambda x: torch.unique_consecutive(x), lambda x: x.repeat_interleave(x), lambda x: x[x > 1], lambda x: x[x],
        lambda x: x.masked_select(x == 1), lambda x: torch.zeros(int(x.max()) + 1), lambda x: torch.arange(x[0].item()),
        lambda x: torch.where(x > 0)[0], lambda x: x.split(x[x < 2].tolist())[0] if x.sum() < 0 else x,
        lambda x: F.embedding(x % 4, torch.eye(4)), lambda x: torch.stack([x, x])[:, x > 2],
    ],
)  # fmt: skip
def test_sizes_that_data_tells_are_those_of_each_call(function: Callable[..., Any], way: Any) -> None:
    try:
        program = irkit.to_onnx(function, (EXAMPLE,), capture=way)
    except IrkitError:
        assert way == "torch.export"
        return
    for each in map(torch.tensor, OTHERS):
        try:
            expected = function(each)
        except (IndexError, RuntimeError):
            expected = None
        try:
            found = program(each)
        except IrkitError:
            continue
        assert expected is not None and torch.equal(found, expected)


NAN, INF = float("nan"), float("inf")
SCORES = torch.tensor([[1, NAN, INF, 0], [0, 1, NAN, 2], [NAN, 0, 1, 2], [INF, INF, 1, 0], [-INF, 1, 2, 3]])


@pytest.mark.parametrize("way", ["direct", "torch.export"])
@pytest.mark.parametrize(
    "loss",
    [
        lambda x: F.multi_margin_loss(x, EXAMPLE, reduction="none"),
        lambda x: F.multi_margin_loss(x, EXAMPLE, p=2, weight=torch.arange(1.0, 5), reduction="none"),
        lambda x: F.multilabel_margin_loss(x, torch.tensor([[0, 1, -1, -1]] * 5), reduction="none"),
    ],
    ids=["classes", "squared", "labels"],
)
def test_margins_that_are_nan_do_not_count(loss: Callable[..., Any], way: Any) -> None:
    program = irkit.to_onnx(loss, (SCORES,), capture=way, rules="default+nan")
    torch.testing.assert_close(program(SCORES), loss(SCORES), equal_nan=True)


def test_strides_of_windows_that_data_counts_are_those_of_any_number_of_them() -> None:
    """Longformer views its states in windows, of which the example may have one, and asks for their strides."""
    transformers = pytest.importorskip("transformers", reason="the extra transformers is not installed")
    sizes: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 99}
    config = transformers.LongformerConfig(num_hidden_layers=1, attention_window=[8], **sizes)
    model = transformers.LongformerModel(config).eval()
    given = {"input_ids": torch.randint(3, 90, (2, 7))}
    names = {"input_ids": {0: "batch", 1: "seq"}}
    program = irkit.to_onnx(model, (), given, dynamic_shapes=names, capture="direct")
    for batch, length in ((1, 3), (2, 9), (3, 33)):
        ids = torch.randint(3, 90, (batch, length))
        torch.testing.assert_close(program(input_ids=ids)[0], model(ids)[0], rtol=1e-4, atol=1e-4)
