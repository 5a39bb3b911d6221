"""The models that the benchmarks export: built from configuration classes, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.models_images import IMAGES, ORDERS

Built = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], Any]

EAGER: dict[str, Any] = {"attn_implementation": "eager"}
"""For models whose other attention torch.onnx cannot write."""


def llama(layers: int, hidden: int = 256) -> Built:
    """A Llama decoder with a cache in and out; batch, sequence and past are dynamic."""
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    heads = 4 if hidden <= 256 else hidden // 64
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        max_position_embeddings=512,
    )
    size = hidden // heads
    past = DynamicCache(config=config)
    for layer in range(layers):
        past.update(torch.randn(2, heads // 2, 8, size), torch.randn(2, heads // 2, 8, size), layer)
    inputs = {
        "input_ids": torch.randint(0, 1000, (2, 3)),
        "attention_mask": torch.ones(2, 11, dtype=torch.int64),
        "past_key_values": past,
    }
    shapes = {
        "input_ids": {0: "batch", 1: "seq"},
        "attention_mask": {0: "batch", 1: "past + seq"},
        "past_key_values": {0: "batch", 2: "past"},
    }
    return LlamaForCausalLM(config), (), inputs, shapes


def bert() -> Built:
    """BERT-base."""
    from transformers import BertConfig, BertModel

    inputs = {"input_ids": torch.randint(5, 2000, (2, 16)), "attention_mask": torch.ones(2, 16, dtype=torch.int64)}
    return BertModel(BertConfig(vocab_size=2000)), (), inputs, {name: {0: "batch", 1: "seq"} for name in inputs}


def resnet() -> Built:
    """ResNet-50's shape."""
    from transformers import ResNetConfig, ResNetModel

    return (
        ResNetModel(ResNetConfig()),
        (),
        {"pixel_values": torch.randn(2, 3, 224, 224)},
        {"pixel_values": {0: "batch"}},
    )


def whisper() -> Built:
    """The encoder of Whisper-small."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=768, encoder_layers=12, encoder_attention_heads=12, encoder_ffn_dim=3072, num_mel_bins=80
    )
    inputs = {"input_features": torch.randn(2, 80, 3000)}
    return WhisperEncoder(config), (), inputs, {"input_features": {0: "batch"}}


def gpt2() -> Built:
    """A GPT-2 of four layers."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=1000, n_embd=256, n_layer=4, n_head=4, n_positions=256, use_cache=False)
    inputs = {"input_ids": torch.randint(0, 1000, (2, 16)), "attention_mask": torch.ones(2, 16, dtype=torch.int64)}
    return GPT2LMHeadModel(config), (), inputs, {name: {0: "batch", 1: "seq"} for name in inputs}


def t5() -> Built:
    """A T5 encoder and decoder of three layers each."""
    from transformers import T5Config, T5Model

    config = T5Config(
        vocab_size=1000, d_model=128, d_ff=256, d_kv=32, num_layers=3, num_heads=4, use_cache=False, **EAGER
    )
    inputs = {"input_ids": torch.randint(0, 1000, (2, 9)), "decoder_input_ids": torch.randint(0, 1000, (2, 7))}
    shapes = {"input_ids": {0: "batch", 1: "source"}, "decoder_input_ids": {0: "batch", 1: "target"}}
    return T5Model(config), (), inputs, shapes


def vit() -> Built:
    """A vision transformer of four layers."""
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        image_size=64, patch_size=8, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=256
    )
    return ViTModel(config), (), {"pixel_values": torch.randn(2, 3, 64, 64)}, {"pixel_values": {0: "batch"}}


def swin() -> Built:
    """A Swin transformer of three stages."""
    from transformers import SwinConfig, SwinModel

    config = SwinConfig(
        image_size=64, patch_size=4, embed_dim=32, depths=[2, 2, 2], num_heads=[2, 4, 8], window_size=4, **EAGER
    )
    return SwinModel(config), (), {"pixel_values": torch.randn(2, 3, 64, 64)}, {"pixel_values": {0: "batch"}}


def yolos() -> Built:
    """A YOLOS detector of four layers."""
    from transformers import YolosConfig, YolosForObjectDetection

    config = YolosConfig(
        image_size=[64, 96],
        patch_size=16,
        hidden_size=96,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=192,
        num_detection_tokens=10,
    )
    return (
        YolosForObjectDetection(config),
        (),
        {"pixel_values": torch.randn(2, 3, 64, 96)},
        {"pixel_values": {0: "batch"}},
    )


def large() -> Built:
    """A stack of linear layers with 2 GB of weights."""
    layers = [torch.nn.Linear(4096, 4096, bias=False) for _ in range(32)]
    return torch.nn.Sequential(*layers), (torch.randn(2, 4096),), {}, ({0: "batch"},)


MODELS: dict[str, Callable[[], Built]] = {
    "llama-4": lambda: llama(4), "llama-16": lambda: llama(16), "llama-64": lambda: llama(64),
    "bert-base": bert, "resnet-50": resnet, "whisper-small-encoder": whisper, "linear-2GB": large,
}  # fmt: skip
"""What benchmarks/export_speed.py exports."""

FILES: dict[str, Callable[[], Built]] = {
    "bert-base": bert, "gpt2": gpt2, "llama-8": lambda: llama(8), "vit": vit, "swin": swin, "yolos": yolos,
    "whisper-small-encoder": whisper, "t5": t5, "resnet-50": resnet,
}  # fmt: skip
"""What benchmarks/optimizer.py has torch.onnx write to files."""

SMALL = ("gpt2", "vit", "swin", "yolos", "t5", "bert-small", "whisper-tiny-encoder")
"""Of FILES, those on which operator overhead weighs."""


def decoding(config: Any, past: int) -> Built:
    """A decoder with a cache of `past` tokens; batch, sequence and past are dynamic, and traced at sizes above 1."""
    from transformers import AutoModelForCausalLM, DynamicCache

    model = AutoModelForCausalLM.from_config(config)
    cache = DynamicCache(config=config)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for layer in range(config.num_hidden_layers):
        cache.update(torch.randn(2, heads, past, size), torch.randn(2, heads, past, size), layer)
    inputs = {
        "input_ids": torch.randint(0, config.vocab_size, (2, 3)),
        "attention_mask": torch.ones(2, past + 3, dtype=torch.int64),
        "past_key_values": cache,
    }
    shapes = {
        "input_ids": {0: "batch", 1: "seq"},
        "attention_mask": {0: "batch", 1: "past + seq"},
        "past_key_values": {0: "batch", 2: "past"},
    }
    return model, (), inputs, shapes


def step(leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    """The inputs of `decoding` cut down to one token of one sequence: ids, mask if there is one, caches."""
    ids, *rest = leaves
    masks = [rest.pop(0)] if rest[0].ndim == 2 else []
    masks = [mask[:1, : mask.shape[1] - ids.shape[1] + 1] for mask in masks]
    return [ids[:1, :1], *masks, *(each[:1] for each in rest)]


class Translator(torch.nn.Module):
    """The decoder of an encoder-decoder model: logits and the grown caches, given caches of itself and the encoder."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, own: Any, encoded: Any) -> tuple[torch.Tensor, Any]:
        from transformers import EncoderDecoderCache

        cache = EncoderDecoderCache(own, encoded)
        cache.is_updated = dict.fromkeys(range(len(encoded)), True)
        keys = encoded.layers[0].keys
        states = keys.new_zeros(keys.shape[0], keys.shape[2], self.model.config.d_model)  # their keys are known
        found = self.model(decoder_input_ids=ids, encoder_outputs=(states,), past_key_values=cache, use_cache=True)
        return found.logits, found.past_key_values.self_attention_cache


def translating(model: Any, layers: int, heads: int, size: int, *, length: int = 3, past: int = 32) -> Built:
    """A decoder with caches of its own and of the encoder, which stay; sizes are dynamic, but for a `length` of 1."""
    from transformers import DynamicCache

    def cache(count: int) -> Any:
        found = DynamicCache()
        for layer in range(layers):
            found.update(torch.randn(2, heads, count, size), torch.randn(2, heads, count, size), layer)
        return found

    inputs = {"ids": torch.randint(0, 1000, (2, length)), "own": cache(past), "encoded": cache(50)}
    shapes = {
        "ids": {0: "batch"} if length == 1 else {0: "batch", 1: "seq"},
        "own": {0: "batch", 2: "past"},
        "encoded": {0: "batch", 2: "source"},
    }
    return Translator(model), (), inputs, shapes


def decode_bart() -> Built:
    """One step of the decoder of a BART."""
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(
        vocab_size=1000,
        d_model=256,
        decoder_ffn_dim=512,
        encoder_ffn_dim=512,
        encoder_layers=1,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        max_position_embeddings=512,
    )
    return translating(BartForConditionalGeneration(config), 3, 4, 64)


def decode_whisper() -> Built:
    """One step of the decoder of a Whisper."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=1000,
        d_model=256,
        decoder_ffn_dim=512,
        encoder_ffn_dim=512,
        encoder_layers=1,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return translating(WhisperForConditionalGeneration(config), 3, 4, 64)


def decode_t5() -> Built:
    """One step of the decoder of a T5, traced at one token: torch.onnx cannot write it otherwise."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=1000, d_model=256, d_ff=512, d_kv=64, num_layers=3, num_heads=4)
    return translating(T5ForConditionalGeneration(config), 3, 4, 64, length=1)


def decode_llama(layers: int, hidden: int, past: int) -> Built:
    """One step of a Llama."""
    from transformers import LlamaConfig

    heads = max(2, hidden // 64)
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        max_position_embeddings=512,
    )
    return decoding(config, past)


def decode_qwen() -> Built:
    """One step of a Qwen3, which norms its queries and keys."""
    from transformers import Qwen3Config

    config = Qwen3Config(
        vocab_size=1000,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=512,
    )
    return decoding(config, 64)


def decode_gpt2() -> Built:
    """One step of a GPT-2."""
    from transformers import GPT2Config

    return decoding(GPT2Config(vocab_size=1000, n_embd=256, n_layer=4, n_head=4, n_positions=512), 64)


def bert_small() -> Built:
    """A BERT of four layers."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=2000, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512
    )
    inputs = {"input_ids": torch.randint(5, 2000, (2, 16)), "attention_mask": torch.ones(2, 16, dtype=torch.int64)}
    return BertModel(config), (), inputs, {name: {0: "batch", 1: "seq"} for name in inputs}


def whisper_tiny() -> Built:
    """The encoder of a small Whisper, over two seconds."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=128,
        encoder_layers=4,
        encoder_attention_heads=4,
        encoder_ffn_dim=256,
        num_mel_bins=80,
        max_source_positions=100,
    )
    inputs = {"input_features": torch.randn(1, 80, 200)}
    return WhisperEncoder(config), (), inputs, {"input_features": {0: "batch"}}


DECODE: dict[str, Callable[[], Built]] = {
    "decode-llama-2-small": lambda: decode_llama(2, 128, 16), "decode-llama-4": lambda: decode_llama(4, 256, 64),
    "decode-llama-4-long": lambda: decode_llama(4, 256, 256), "decode-llama-8-wide": lambda: decode_llama(8, 512, 64),
    "decode-qwen3": decode_qwen, "decode-gpt2": decode_gpt2, "decode-bart": decode_bart,
    "decode-whisper": decode_whisper, "decode-t5": decode_t5,
}  # fmt: skip
"""Single-token steps with caches."""

EVERY: dict[str, Callable[[], Built]] = {
    **MODELS, **FILES, **DECODE, **IMAGES, **ORDERS, "bert-small": bert_small, "whisper-tiny-encoder": whisper_tiny,
}  # fmt: skip
"""All of them."""
