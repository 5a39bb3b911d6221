"""The first value that departs from eager: by programs, by files, after optimization, in half precision."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import irkit
import lowering
from irkit import op
from irkit.core.types import DType
from lowering.errors import LoweringError
from lowering.localization.localize import AGREES, CARRIED, DEVIATES, least_distances


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.silu(self.layer(x))
        return nn.functional.hardswish(hidden) + 1


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = Inner(), nn.LayerNorm(4)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.norm(self.inner(x))
        return hidden.softmax(-1) * 2, (hidden * scale).sum(-1)


def wrong_hardswish(self: Any) -> Any:
    return op.Mul(self, op.HardSigmoid(self, alpha=0.9))  # torch's slope is 1/6


@cache
def model() -> Model:
    torch.manual_seed(0)
    return Model().eval()


def arguments(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, 4), torch.randn(4)


@cache
def program(**options: Any) -> Any:
    own = {"converters": {torch.ops.aten.hardswish: wrong_hardswish}} if options.pop("wrong", True) else {}
    shapes = {"x": {0: "rows"}, "scale": None}
    return irkit.to_onnx(model(), arguments(3), dynamic_shapes=shapes, **own, **options)


@pytest.mark.parametrize("options", [{}, {"capture": "torch.export"}, {"precision": "float16"}, {"optimize": False}])
def test_the_first_value_that_deviates_is_found_with_its_line(options: dict[str, Any]) -> None:
    found = lowering.localize(program(**options), model(), arguments(5))
    assert not found and found.first is not None
    assert found.first.target == "aten::hardswish" and found.first.module == "inner"
    assert "nn.functional.hardswish(hidden)" in found.first.source
    statuses = [row.status for row in found.rows]
    assert options.get("precision") or statuses.count(DEVIATES) == 1  # norms widen what half precision leaves
    assert set(statuses[: statuses.index(DEVIATES)]) == {AGREES}
    assert CARRIED in statuses and found.modules["inner.layer"].status == AGREES
    assert found.outputs[0].deviation > 1


@pytest.mark.parametrize("options", [{}, {"precision": "float16"}, {"precision": "bfloat16"}])
def test_nothing_is_found_where_nothing_is_wrong(options: dict[str, Any]) -> None:
    found = lowering.localize(program(wrong=False, **options), model(), arguments(2))
    assert found and found.first is None and len(found.rows) >= 6
    assert found.modules["norm"].op == "LayerNormalization" and found.modules["norm"].deviation < 1


def test_a_file_alone_has_its_origins(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    program().save(path)
    x, scale = arguments(6)
    for written in (path, str(path), onnx.load(path)):
        found = lowering.localize(written, model(), (x,), {"scale": scale})
        assert found.first is not None and found.first.target == "aten::hardswish"
    proto = onnx.load(path)
    for i, port in enumerate(proto.graph.input):  # whose inputs are called otherwise
        for node in proto.graph.node:
            node.input[:] = [f"in_{i}" if name == port.name else name for name in node.input]
        port.name = f"in_{i}"
    assert lowering.localize(proto, model(), (x, scale)).first is not None
    proto.graph.input.add().CopyFrom(onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, [1]))
    with pytest.raises(LoweringError, match="no argument of the model is called"):
        lowering.localize(proto, model(), (x, scale))
    with pytest.raises(LoweringError, match="no ONNX model"):
        lowering.localize(3, model(), (x, scale))


def test_layers_that_are_alike_are_told_apart() -> None:
    config = transformers.LlamaConfig(
        vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, pad_token_id=0
    )
    torch.manual_seed(0)
    llama = transformers.LlamaModel(config).eval()
    ids = torch.randint(5, 99, (2, 6))
    shapes = {"input_ids": {0: "batch", 1: "seq"}}
    made = irkit.to_onnx(llama, (ids,), {"use_cache": False}, dynamic_shapes=shapes)
    found = lowering.localize(made, llama, (ids,), {"use_cache": False})
    assert found and {f"layers.{i}.mlp.down_proj" for i in range(3)} <= set(found.modules)
    proto = made.proto
    with torch.no_grad():
        llama.get_submodule("layers.1.mlp.down_proj").get_parameter("weight").mul_(1.5)  # the file has those of before
    wrong = lowering.localize(proto, llama, (ids,), {"use_cache": False})
    assert wrong.first is not None and wrong.first.module == "layers.1.mlp.down_proj"


def test_it_is_shown_side_by_side(tmp_path: Path) -> None:
    found = lowering.localize(program(), model(), arguments(3))
    text = str(found)
    assert text.splitlines()[0].startswith("hardswish (aten::hardswish) of inner deviates first")
    assert "f32[3, 4]" in text and "carries on" in text
    page = found.save_page(tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<tr") == len(found.rows) + len(found.outputs) + 1 and 'class="red"' in page
    assert json.loads(found.json())["rows"][0]["module"] == "inner.layer"


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
    st.sampled_from([0.0, 1e-7, 0.5]),
)
def test_values_that_are_moved_agree_and_others_do_not(shape: list[int], rng: Any, off: float) -> None:
    array = np.random.default_rng(rng.randrange(1 << 30)).normal(size=shape).astype(np.float32)
    axes = list(range(len(shape)))
    rng.shuffle(axes)
    moved = array.transpose(axes).reshape(-1)
    error, deviation = least_distances(array, moved + np.float32(off), DType.FLOAT)
    assert (deviation <= 1) == (off < 0.1) or array.size < 3
    assert error <= off + 1e-6 or off == 0.5


def test_infinities_masks_and_integers() -> None:
    low = np.float32(np.finfo(np.float32).min)
    assert least_distances(np.array([low, 1.0], np.float32), np.array([-np.inf, 1.0], np.float16), DType.FLOAT16)[1] < 1
    assert least_distances(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), DType.FLOAT) == (0.0, 0.0)
    assert least_distances(np.array([1.0]), np.array([np.nan]), DType.FLOAT)[1] == np.inf
    assert least_distances(np.array([3, 4]), np.array([3, 5]), DType.FLOAT) == (1.0, np.inf)
    assert least_distances(np.zeros((0, 2)), np.zeros((2, 0)), DType.FLOAT) == (0.0, 0.0)
    assert least_distances(np.zeros(3), np.zeros(2), DType.FLOAT)[1] == np.inf
