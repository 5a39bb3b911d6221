"""Text encoders and decoders of transformers: BERT, GPT-2, Llama, Qwen, Mixtral, Mamba."""

from __future__ import annotations

import copy
from typing import Any

import attrs
import torch
import transformers

from tests.zoo.case import Case, Dims, Inputs, config_of, padding_mask, sizes, token_ids

VOCABULARY = 99


def decoder_options(**options: Any) -> dict[str, Any]:
    """What the Llama-like decoders share: two layers, grouped heads, hidden 64."""
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 112,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **options,
    }


def filled_cache(config: Any, batch: int, past: int) -> Any:
    """A DynamicCache that holds `past` random tokens for each layer of a decoder."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache = transformers.DynamicCache(config=config)
    for layer in range(config.num_hidden_layers):
        cache.update(torch.randn(batch, heads, past, size), torch.randn(batch, heads, past, size), layer)
    return cache


BERT = config_of(
    "BertConfig",
    vocab_size=VOCABULARY,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=128,
)


def bert_inputs(dims: Dims) -> Inputs:
    batch, seq = dims["batch"], dims["seq"]
    ids = token_ids(VOCABULARY, batch, seq)
    return (), {"input_ids": ids, "attention_mask": padding_mask(batch, seq), "token_type_ids": ids % 2}


TOKENS = {0: "batch", 1: "seq"}
ENCODER_SIZES = sizes(batch=(1, 3, 5, 4), seq=(6, 1, 17, 8))

GPT2 = config_of(
    "GPT2Config", vocab_size=VOCABULARY, n_positions=128, n_embd=64, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2
)
LLAMA = config_of("LlamaConfig", **decoder_options())
QWEN2 = config_of("Qwen2Config", **decoder_options())
QWEN3 = config_of("Qwen3Config", **decoder_options(head_dim=16))
MIXTRAL = config_of("MixtralConfig", **decoder_options(num_local_experts=4, num_experts_per_tok=2, sliding_window=None))
MAMBA = config_of(
    "MambaConfig",
    vocab_size=VOCABULARY,
    hidden_size=32,
    state_size=8,
    num_hidden_layers=2,
    conv_kernel=4,
    expand=2,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)


def prompt(dims: Dims) -> Inputs:
    batch, seq = dims["batch"], dims["seq"]
    return (), {"input_ids": token_ids(VOCABULARY, batch, seq), "attention_mask": padding_mask(batch, seq)}


def mamba_step(dims: Dims) -> Inputs:
    """One token, and the state of the convolutions and of the scans after earlier ones."""
    cache = transformers.DynamicCache(config=MAMBA)
    for layer in range(MAMBA.num_hidden_layers):
        cache.update_conv_state(torch.randn(dims["batch"], 64, 4), layer)
        cache.update_recurrent_state(torch.randn(dims["batch"], 64, 8), layer)
    return (), {"input_ids": token_ids(VOCABULARY, dims["batch"], 1), "cache_params": cache}


def decoder_case(name: str, family: str, model_class: str, config: Any, note: str = "") -> tuple[Case, Case]:
    """A decoder twice: reading a prompt, and going on from a cache; both return the cache."""

    def model() -> torch.nn.Module:
        return getattr(transformers, model_class)(config)

    def going_on(dims: Dims) -> Inputs:
        batch, seq, past = dims["batch"], dims["seq"], dims["past"]
        kwargs = {
            "input_ids": token_ids(VOCABULARY, batch, seq),
            "attention_mask": padding_mask(batch, past + seq),
            "past_key_values": filled_cache(config, batch, past),
        }
        return (), kwargs

    mask = {0: "batch", 1: "past + seq"}
    with_past = {"input_ids": TOKENS, "attention_mask": mask, "past_key_values": {0: "batch", 2: "past"}}
    return (
        Case(
            f"{name}_prompt",
            family,
            model,
            prompt,
            {"input_ids": TOKENS, "attention_mask": TOKENS},
            {"batch": 2, "seq": 7},
            ENCODER_SIZES,
            note,
        ),
        Case(
            f"{name}_cache",
            family,
            model,
            going_on,
            with_past,
            {"batch": 2, "seq": 3, "past": 5},
            sizes(batch=(1, 3, 2, 5), seq=(1, 4, 1, 2), past=(8, 1, 16, 7)),
            note,
        ),
    )


CASES = (
    Case(
        "bert",
        "encoder",
        lambda: transformers.BertModel(BERT),
        bert_inputs,
        {"input_ids": TOKENS, "attention_mask": TOKENS, "token_type_ids": TOKENS},
        {"batch": 2, "seq": 9},
        ENCODER_SIZES,
    ),
    *decoder_case("gpt2", "decoder", "GPT2LMHeadModel", GPT2),
    *decoder_case("llama", "decoder", "LlamaForCausalLM", LLAMA),
    *decoder_case("qwen2", "decoder", "Qwen2ForCausalLM", QWEN2),
    *decoder_case("qwen3", "decoder", "Qwen3ForCausalLM", QWEN3),
    *decoder_case("mixtral", "mixture of experts", "MixtralForCausalLM", MIXTRAL),
    Case(
        "bert_eager",
        "encoder",
        lambda: transformers.BertModel._from_config(copy.deepcopy(BERT), attn_implementation="eager"),
        bert_inputs,
        {"input_ids": TOKENS, "attention_mask": TOKENS, "token_type_ids": TOKENS},
        {"batch": 2, "seq": 9},
        ENCODER_SIZES,
    ),
    attrs.evolve(
        decoder_case("llama", "decoder", "LlamaForCausalLM", LLAMA)[1],
        name="llama_cache_eager",
        make_model=lambda: transformers.LlamaForCausalLM._from_config(
            copy.deepcopy(LLAMA), attn_implementation="eager"
        ),
    ),
    Case(
        "mamba",
        "state space",
        lambda: transformers.MambaForCausalLM(MAMBA),
        lambda dims: ((), {"input_ids": token_ids(VOCABULARY, dims["batch"], 7)}),
        {"input_ids": {0: "batch"}},
        {"batch": 2},
        sizes(batch=(1, 3, 5)),
        "its scan over the sequence is a Python loop, so the length is part of the graph",
    ),
    Case(
        "mamba_step",
        "state space",
        lambda: transformers.MambaForCausalLM(MAMBA),
        mamba_step,
        {"input_ids": {0: "batch"}, "cache_params": {0: "batch"}},
        {"batch": 2},
        sizes(batch=(1, 3, 5)),
        "one token at a time: its length is one",
    ),
)
