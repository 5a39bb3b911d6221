"""Encoder-decoder models of transformers with caches on both sides: T5, BART, Whisper."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.zoo.case import Case, Dims, Inputs, config_of, padding_mask, sizes, token_ids

VOCABULARY = 99
HEADS = 4
HEAD_SIZE = 16

T5 = config_of(
    "T5Config",
    vocab_size=VOCABULARY,
    d_model=64,
    d_kv=HEAD_SIZE,
    d_ff=128,
    num_layers=2,
    num_heads=HEADS,
    decoder_start_token_id=0,
    pad_token_id=0,
    eos_token_id=1,
)
BART = config_of(
    "BartConfig",
    vocab_size=VOCABULARY,
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=HEADS,
    decoder_attention_heads=HEADS,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    max_position_embeddings=128,
    pad_token_id=1,
    bos_token_id=0,
    eos_token_id=2,
    decoder_start_token_id=2,
    forced_eos_token_id=None,
)
WHISPER = config_of(
    "WhisperConfig",
    vocab_size=VOCABULARY,
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=HEADS,
    decoder_attention_heads=HEADS,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    num_mel_bins=16,
    max_source_positions=50,
    max_target_positions=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
    suppress_tokens=None,
    begin_suppress_tokens=None,
)

SOURCE = {0: "batch", 1: "source"}
TARGET = {0: "batch", 1: "target"}


def random_cache(batch: int, length: int, layers: int = 2) -> Any:
    """A DynamicCache of `length` random tokens in each layer."""
    cache = transformers.DynamicCache()
    for layer in range(layers):
        shape = (batch, HEADS, length, HEAD_SIZE)
        cache.update(torch.randn(shape), torch.randn(shape), layer)
    return cache


def both_caches(batch: int, past: int, source: int) -> Any:
    """Self-attention over `past` tokens and cross-attention over `source` positions."""
    return transformers.EncoderDecoderCache(random_cache(batch, past), random_cache(batch, source))


def read_and_write(dims: Dims) -> Inputs:
    batch, source, target = dims["batch"], dims["source"], dims["target"]
    kwargs = {
        "input_ids": token_ids(VOCABULARY, batch, source),
        "attention_mask": padding_mask(batch, source),
        "decoder_input_ids": token_ids(VOCABULARY, batch, target),
    }
    return (), kwargs


def write_on(dims: Dims) -> Inputs:
    """One step of the decoder: the encoder's states are given, both caches are filled."""
    batch, source, target, past = (dims[name] for name in ("batch", "source", "target", "past"))
    kwargs = {
        "attention_mask": padding_mask(batch, source),
        "decoder_input_ids": token_ids(VOCABULARY, batch, target),
        "encoder_outputs": (torch.randn(batch, source, 64),),
        "past_key_values": both_caches(batch, past, source),
    }
    return (), kwargs


def listen_and_write(dims: Dims) -> Inputs:
    batch, target = dims["batch"], dims["target"]
    kwargs = {
        "input_features": torch.randn(batch, 16, 100),
        "decoder_input_ids": token_ids(VOCABULARY, batch, target),
    }
    return (), kwargs


def write_on_from_audio(dims: Dims) -> Inputs:
    batch, target, past = dims["batch"], dims["target"], dims["past"]
    kwargs = {
        "decoder_input_ids": token_ids(VOCABULARY, batch, target),
        "encoder_outputs": (torch.randn(batch, 50, 64),),
        "past_key_values": both_caches(batch, past, 50),
    }
    return (), kwargs


CACHES = [{0: "batch", 2: "past"}] * 4 + [{0: "batch", 2: "source"}] * 4
STEP = {
    "attention_mask": SOURCE,
    "decoder_input_ids": TARGET,
    "encoder_outputs": ({0: "batch", 1: "source"},),
    "past_key_values": CACHES,
}
TURNS = sizes(batch=(1, 3, 5), source=(4, 1, 12), target=(3, 6, 1))
STEPS = sizes(batch=(1, 3, 5), source=(4, 1, 12), target=(1, 2, 4), past=(6, 2, 1))


def model_of(class_name: str, config: Any) -> Any:
    return lambda: getattr(transformers, class_name)(config)


def seq2seq_cases(name: str, class_name: str, config: Any) -> tuple[Case, Case]:
    """The whole model, which fills both caches, and one step of its decoder, which goes on from them."""
    return (
        Case(
            f"{name}_whole",
            "encoder-decoder",
            model_of(class_name, config),
            read_and_write,
            {"input_ids": SOURCE, "attention_mask": SOURCE, "decoder_input_ids": TARGET},
            {"batch": 2, "source": 7, "target": 5},
            TURNS,
        ),
        Case(
            f"{name}_step",
            "encoder-decoder",
            model_of(class_name, config),
            write_on,
            STEP,
            {"batch": 2, "source": 7, "target": 3, "past": 4},
            STEPS,
        ),
    )


WHISPER_NOTE = "Whisper's encoder takes exactly 2 * max_source_positions frames and says so itself"

CASES = (
    *seq2seq_cases("t5", "T5ForConditionalGeneration", T5),
    *seq2seq_cases("bart", "BartForConditionalGeneration", BART),
    Case(
        "whisper_whole",
        "speech",
        model_of("WhisperForConditionalGeneration", WHISPER),
        listen_and_write,
        {"input_features": {0: "batch"}, "decoder_input_ids": TARGET},
        {"batch": 2, "target": 5},
        sizes(batch=(1, 3, 4), target=(4, 1, 9)),
        WHISPER_NOTE,
    ),
    Case(
        "whisper_step",
        "speech",
        model_of("WhisperForConditionalGeneration", WHISPER),
        write_on_from_audio,
        {
            "decoder_input_ids": TARGET,
            "encoder_outputs": ({0: "batch"},),
            "past_key_values": [{0: "batch", 2: "past"}] * 4 + [{0: "batch"}] * 4,
        },
        {"batch": 2, "target": 3, "past": 4},
        sizes(batch=(1, 3, 4), target=(1, 2, 4), past=(6, 2, 1)),
        WHISPER_NOTE,
    ),
)
