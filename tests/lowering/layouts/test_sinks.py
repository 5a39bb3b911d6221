"""Attention with sinks: how it is read off its steps, and what GroupQueryAttention makes of sinks of every size."""

from __future__ import annotations

from functools import cache
from typing import Any

import attrs
import numpy as np
import pytest
import torch

from irkit.core.ir import Graph
from lowering.layouts.parts import decoder_part
from lowering.layouts.shared_caches import shared_caches
from lowering.layouts.sinks import sunk_attention
from lowering.layouts.written import graphs_of, programs_of
from lowering.records.options import ExportOptions
from tests.lowering.layouts.test_shared_caches import steps

SIZES: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8,
    "vocab_size": 64, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4, "eos_token_id": 1,
    "pad_token_id": 0, "max_position_embeddings": 64, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
}  # fmt: skip


def model_with(heads: int) -> Any:
    """A tiny GPT-OSS with so many heads of keys, and sinks that outweigh all keys, some, and none."""
    transformers = pytest.importorskip("transformers", reason="pip install -e '.[transformers]'")
    torch.manual_seed(0)
    model = transformers.GptOssForCausalLM(transformers.GptOssConfig(**SIZES, num_key_value_heads=heads)).eval()
    for layer in model.model.layers:
        layer.self_attn.sinks.data = torch.tensor([-30.0, 0.5, 3.0, 20.0])
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
            projection.weight.data *= 30
    return model


@cache
def growing(heads: int) -> tuple[Any, Graph]:
    """The model, and its decoder over caches that grow."""
    model = model_with(heads)
    parts = [decoder_part(model)]
    return model, graphs_of(parts, programs_of(parts, ExportOptions()))["model"]


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("optimized", [True, False])
def test_each_head_has_its_own_sink(heads: int, optimized: bool) -> None:
    """One head of keys for all queries, for two, and for each."""
    model, before = growing(heads)
    graph, reason = shared_caches(before)
    grouped = [v for v in graph.order if v.op == "com.microsoft::GroupQueryAttention"]
    assert not reason and [len(v.inputs) for v in grouped] == [12, 12]
    assert not any(v.op == "Softmax" and v.rank == 4 for v in graph.order)
    assert [v.attribute("local_window_size", -1) for v in grouped] == [4, -1]
    ids = np.random.default_rng(1).integers(5, 60, (2, 9))
    with torch.no_grad():
        expected = model(torch.tensor(ids)).logits.numpy()
    got = np.concatenate(steps(graph, [6, 1, 1, 1], ids, optimized), 1)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    alone = np.concatenate(steps(graph, [1, 4, 3, 1], ids[:1], optimized), 1)
    np.testing.assert_allclose(alone, expected[:1], rtol=1e-4, atol=1e-5)


def test_steps_that_are_read_elsewhere_stay() -> None:
    """A graph that gives the weights of its attention, too."""
    _, before = growing(2)
    ports = dict(zip((port.name for port in before.signature.params), before.params, strict=True))
    named = dict(zip((port.name for port in before.signature.results), before.results, strict=True))
    past = [ports[f"past_key_values.0.{each}"] for each in ("key", "value")]
    present = [named[f"present.0.{each}"] for each in ("key", "value")]
    assert sunk_attention(before, past, present) is not None
    assert sunk_attention(before, past[::-1], present) is None
    weights = next(v for v in before.order if v.op == "Softmax" and v.rank == 4)
    port = attrs.evolve(before.signature.results[0], name="weights")
    signature = attrs.evolve(before.signature, results=(*before.signature.results, port))
    shown = attrs.evolve(before, results=(*before.results, weights), signature=signature)
    assert sunk_attention(shown, past, present) is None
    assert "the caches of layer 0 are not those of an attention" in shared_caches(shown)[1]
