"""Deep models of transformers are optimized layer by layer as a whole graph is: the same text comes of both."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import torch

import irkit
from lowering.architectures.catalogue import architecture
from lowering.architectures.configurations import LAYERS as CALLED_LAYERS
from passes import optimize
from passes.pipelines.standard import RULES, pipeline
from passes.whole_graph.layer_calls import layer_calls_of, operator_count
from passes.whole_graph.layer_search import layers_of

transformers = pytest.importorskip("transformers", reason="the extra transformers is not installed")

DEPTH = 8
TOKENS = {"input_ids": {0: "batch", 1: "seq"}}
IMAGE = {"image_size": 16, "patch_size": 4}
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": DEPTH, "num_attention_heads": 4}


def decoder(name: str, **options: Any) -> tuple[Any, dict[str, Any], Any]:
    """A small causal model of that name, without a cache."""
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **options}, vocab_size=100)
    model = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config)
    return model, {"input_ids": torch.randint(0, 90, (2, 5)), "use_cache": False}, {**TOKENS, "use_cache": None}


def cached(name: str, **options: Any) -> tuple[Any, dict[str, Any], Any]:
    """A causal model of that name and of ten layers, with a cache that holds something."""
    shape = {**SIZES, "num_hidden_layers": 10, "num_key_value_heads": 2, "vocab_size": 100, "head_dim": 8, **options}
    config = getattr(transformers, f"{name}Config")(**shape)
    cache = transformers.DynamicCache(config=config)
    for layer in range(config.num_hidden_layers):
        cache.update(torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8), layer)
    given = {"input_ids": torch.randint(0, 90, (2, 3)), "attention_mask": torch.ones(2, 8, dtype=torch.int64)}
    names = {"attention_mask": {0: "batch", 1: "past + seq"}, "past_key_values": {0: "batch", 2: "past"}}
    model = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config)
    return model, {**given, "past_key_values": cache}, {**TOKENS, **names}


def t5() -> tuple[Any, dict[str, Any], Any]:
    """A small encoder of T5."""
    config = transformers.T5Config(d_model=32, d_ff=48, d_kv=8, num_layers=DEPTH, num_heads=4, vocab_size=100)
    return transformers.T5EncoderModel(config), {"input_ids": torch.randint(0, 90, (2, 5))}, TOKENS


def whisper() -> tuple[Any, dict[str, Any], Any]:
    """A small encoder of Whisper."""
    config = transformers.WhisperConfig(
        d_model=32, encoder_layers=DEPTH, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, vocab_size=100, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1,
    )  # fmt: skip
    given = {"input_features": torch.randn(2, 80, 3000)}
    return transformers.WhisperModel(config).get_encoder(), given, {"input_features": {0: "batch"}}


def vit() -> tuple[Any, dict[str, Any], Any]:
    """A small ViT."""
    config = transformers.ViTConfig(**SIZES, **IMAGE)
    return transformers.ViTModel(config), {"pixel_values": torch.randn(2, 3, 16, 16)}, {"pixel_values": {0: "batch"}}


def bert() -> tuple[Any, dict[str, Any], Any]:
    """A small BERT."""
    config = transformers.BertConfig(**SIZES, vocab_size=100)
    return transformers.BertModel(config), {"input_ids": torch.randint(0, 90, (2, 5))}, TOKENS


class PartsOfBiases(torch.nn.Module):
    """A layer of attention with a bias that is made 0 in part, as in Swin 2: a constant computed of a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner, self.outer = torch.nn.LayerNorm(6), torch.nn.Linear(6, 18), torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bias = self.inner.bias.clone()
        bias[6:12].zero_()
        q, k, v = torch.nn.functional.linear(self.norm(x), self.inner.weight, bias).chunk(3, -1)
        return x + self.outer((q @ k.mT).softmax(-1) @ v)


def parts_of_biases() -> tuple[Any, dict[str, Any], Any]:
    """Layers of biases that are made 0 in part."""
    layers = torch.nn.Sequential(*(PartsOfBiases() for _ in range(DEPTH)))
    return layers, {"input": torch.randn(2, 3, 6)}, {"input": {0: "batch"}}


MODELS: dict[str, Callable[[], tuple[Any, dict[str, Any], Any]]] = {
    "llama": lambda: decoder("Llama", num_key_value_heads=2),
    "qwen3": lambda: decoder("Qwen3", num_key_value_heads=2, head_dim=8),
    "gemma2": lambda: decoder("Gemma2", num_key_value_heads=2, head_dim=8),
    "gemma3": lambda: decoder("Gemma3Text", num_hidden_layers=13, num_key_value_heads=2, head_dim=8),
    "neox": lambda: decoder("GPTNeoX"),
    "mixtral": lambda: decoder("Mixtral", num_key_value_heads=2, num_local_experts=2),
    "parts_of_biases": parts_of_biases, "bert": bert, "vit": vit, "t5": t5, "whisper": whisper,
    "llama_cache": lambda: cached("Llama"), "gemma2_cache": lambda: cached("Gemma2"),
    "gemma3_cache": lambda: cached("Gemma3Text", num_hidden_layers=13),
}  # fmt: skip

VARIED = ("mixtral",)
"""Models whose layers differ in more than weights, so that they are optimized one by one: how many rows an expert gets
is a size of its own in each."""


FEW = ("gemma2", "gemma2_cache")
"""Models with fewer than six layers of each of two kinds, as capture tells them."""


def plain(graph: irkit.Graph) -> str:
    """A graph as text, without where its values come from: of equal ones any may be the first."""
    return "\n".join(line.partition("  # ")[0] for line in str(graph).splitlines())


@pytest.mark.parametrize("name", MODELS)
def test_layers_of_a_model_become_what_they_become_one_by_one(name: str) -> None:
    torch.manual_seed(0)
    model, kwargs, names = MODELS[name]()
    lowered = irkit.to_onnx(model.eval(), (), kwargs, dynamic_shapes=names, capture="direct", optimize=False).lowered
    graph, called = lowered.graph, lowered.with_calls
    layers = layers_of(graph)
    assert name in VARIED or (layers is not None and len(layers.each) >= DEPTH - 1)
    assert bool(layer_calls_of(called).calls) is (name not in (*VARIED, *FEW)) and not layer_calls_of(graph).calls
    assert operator_count(called) == len(graph)
    found = optimize(graph)
    assert str(found) == str(pipeline(2, RULES[2], alike=False).run(graph))
    assert plain(found) == plain(optimize(called))
    irkit.verify(found)


KINDS = "apertus bart bloom ctrl doge gemma3_text gpt_bigcode lfm2 longt5 mpt persimmon roformer vit".split()
"""Architectures whose layers are calls at that depth, in one way each."""


@pytest.mark.parametrize("name", KINDS)
def test_layers_of_architectures_are_rewritten_from_their_calls(name: str) -> None:
    chosen = architecture(name)
    deep = attrs.evolve(chosen, options={**chosen.options, **dict.fromkeys(CALLED_LAYERS, DEPTH)})
    model = deep.model()
    sets = deep.sets(model)
    lowered = irkit.to_onnx(
        model, (), sets.example, dynamic_shapes=sets.dynamic_shapes, capture="direct", optimize=False
    ).lowered
    assert layer_calls_of(lowered.with_calls).calls
    plainly, found = optimize(lowered.graph), optimize(lowered.with_calls)
    if name == "longt5":  # of which layers are found in the encoder alone where they are searched for
        assert len(found) < len(plainly)
    else:
        assert plain(found) == plain(plainly)
    irkit.verify(found)


def calls_of(layers: int, cached: bool) -> int:
    """How many calls, of functions of Python and of C, a small Llama of so many layers takes from module to program."""
    shape = {**SIZES, "num_hidden_layers": layers}
    config = transformers.LlamaConfig(**shape, num_key_value_heads=2, vocab_size=100)
    model = transformers.LlamaForCausalLM(config).eval()
    kwargs: dict[str, Any] = {"input_ids": torch.randint(0, 90, (2, 3))}
    names: dict[str, Any] = dict(TOKENS)
    if cached:
        cache = transformers.DynamicCache(config=config)
        for layer in range(layers):
            cache.update(torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8), layer)
        kwargs |= {"attention_mask": torch.ones(2, 8, dtype=torch.int64), "past_key_values": cache}
        names |= {"attention_mask": {0: "batch", 1: "past + seq"}, "past_key_values": {0: "batch", 2: "past"}}
    else:
        kwargs["use_cache"], names["use_cache"] = False, None
    seen = 0

    def count(_frame: object, event: str, _what: object) -> None:
        nonlocal seen
        seen += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        irkit.to_onnx(model, (), kwargs, dynamic_shapes=names, capture="direct")
    finally:
        sys.setprofile(before)
    return seen


@pytest.mark.parametrize(("cached", "most"), [(False, 6_400), (True, 12_600)], ids=["plain", "cache"])
def test_a_further_layer_takes_few_calls(cached: bool, most: int) -> None:
    for layers in (10, 20, 10):
        calls_of(layers, cached)  # what is made once, and kept
    assert (calls_of(20, cached) - calls_of(10, cached)) / 10 < most
