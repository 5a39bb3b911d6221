"""What the optimizer must find in models of transformers, whichever way their attention is written."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from irkit.checking.comparison import compare
from irkit.evaluation.interpreter import evaluate
from lowering import lower
from passes import optimize

SMALL: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
GROUPED: dict[str, Any] = {**SMALL, "num_key_value_heads": 2, "use_cache": False}
NAMED = ({0: "batch", 1: "length"},)


def llama(kind: str) -> Any:
    config = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config}[kind](**GROUPED)
    return {"llama": transformers.LlamaForCausalLM, "qwen2": transformers.Qwen2ForCausalLM}[kind](config)


def gpt2() -> Any:
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=64, n_embd=32, n_layer=2, n_head=4, use_cache=False, bos_token_id=0, eos_token_id=0
        )
    )


def bert() -> Any:
    return transformers.BertModel(transformers.BertConfig(**SMALL))


MODELS: dict[str, tuple[Any, dict[str, int]]] = {
    "llama": (lambda: llama("llama"), {"RMSNormalization": 5, "RotaryEmbedding": 4, "Swish": 2}),
    "qwen2": (lambda: llama("qwen2"), {"RMSNormalization": 5, "RotaryEmbedding": 4, "Swish": 2}),
    "gpt2": (gpt2, {"LayerNormalization": 5, "Gelu": 2}),
    "bert": (bert, {"LayerNormalization": 5, "Gelu": 2}),
}


@pytest.mark.parametrize("written", ["eager", "sdpa"])
@pytest.mark.parametrize("name", MODELS)
def test_fusions_fire(name: str, written: str) -> None:
    make, expected = MODELS[name]
    model = make().eval()
    model.set_attn_implementation(written)
    graph = lower(model, (torch.randint(0, 64, (2, 7)),), dynamic_shapes=NAMED, widen=False)
    after = optimize(graph)
    found = Counter(v.op for v in after.order)
    assert {op: found[op] for op in expected} == expected
    assert (found["Attention"], found["Softmax"], found["Erf"], found["Tanh"]) == (2, 0, 0, name == "bert")
    assert len(after) < len(graph) / 1.6
    for shape in ((2, 7), (3, 5)):
        feeds = [np.random.default_rng(0).integers(0, 64, shape)]
        difference = compare(evaluate(graph, feeds), evaluate(after, feeds))
        assert difference is None, difference


def test_a_causal_model_needs_no_mask() -> None:
    model = llama("llama").eval()
    graph = lower(model, (torch.randint(0, 64, (2, 7)),), dynamic_shapes=NAMED, widen=False)
    after = optimize(graph)
    assert all(v.attribute("is_causal") for v in after.order if v.op == "Attention")
    assert not {v.op for v in after.order} & {"GatherND", "CumSum", "LessOrEqual", "Transpose", "Slice"}
    assert len(after) <= 46
