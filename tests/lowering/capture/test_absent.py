"""Models that were built without memory: on the meta device, or of fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import BertConfig, BertModel

import irkit
from lowering import lower
from lowering.program.program import Program
from passes import optimize


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).eval()


def on_meta() -> tuple[Any, Any]:
    with torch.device("meta"):
        return small(), torch.randn(3, 8)


def fake() -> tuple[Any, Any]:
    with FakeTensorMode():
        return small(), torch.randn(3, 8)


def fake_program() -> tuple[Any, None]:
    with FakeTensorMode():
        return torch.export.export(small(), (torch.randn(3, 8),)), None


@pytest.mark.parametrize("made", [on_meta, fake, fake_program])
def test_graphs_without_numbers_are_printed_read_compared_and_optimized(made: Callable[[], tuple[Any, Any]]) -> None:
    model, x = made()
    graph = lower(model) if x is None else lower(model, (x,))
    irkit.verify(graph)
    assert irkit.parse(str(graph), blobs=graph) == graph
    other, y = made()
    again = lower(other) if y is None else lower(other, (y,))
    assert graph == again
    assert hash(graph) == hash(again)
    full = lower(small(), (torch.randn(3, 8),))
    assert full != graph
    after = optimize(graph)
    assert irkit.parse(str(after), blobs=after) == after
    operators = [v.op for v in after.order if v.op not in ("Param", "Constant")]
    assert operators == ["Gemm", "Relu", "Gemm"]
    with pytest.raises(irkit.AbsentError, match="has no numbers"):
        irkit.evaluate(graph, [np.zeros((3, 8), np.float32)])


@pytest.mark.parametrize("made", [on_meta, fake])
def test_a_program_without_numbers_is_neither_written_nor_run(
    made: Callable[[], tuple[Any, Any]], tmp_path: Path
) -> None:
    model, x = made()
    program = irkit.to_onnx(model, (x,), dynamic_shapes=({0: "batch"},))
    assert program.report.nodes["ONNX"] == 3
    with pytest.raises(irkit.AbsentError, match="has no numbers"):
        program.save(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(irkit.AbsentError, match="load the weights before the model is captured"):
        program(torch.randn(2, 8))


def bert() -> tuple[Any, Any]:
    config = BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128)
    return BertModel(config).eval(), torch.zeros(2, 7, dtype=torch.int64)


def test_a_transformer_is_optimized_without_numbers_as_with_them() -> None:
    def exported(device: str) -> Program:
        with torch.device(device):
            model, ids = bert()
        return irkit.to_onnx(model, (ids,), dynamic_shapes=({0: "batch", 1: "seq"},))

    absent, full = exported("meta").report, exported("cpu").report
    assert absent.weights == full.weights
    # What depends on numbers, such as a table that counts from 0, stays.
    assert full.nodes["ONNX"] <= absent.nodes["ONNX"] <= full.nodes["ONNX"] + 4
