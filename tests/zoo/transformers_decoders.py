"""Further decoders of transformers that go on from a cache, each for something that no other has: norms of the values
and heads beside each other, keys and values that are computed from less, biases by distance, states beside keys."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.zoo.case import Case, Dims, Inputs, config_of, padding_mask, sizes, token_ids
from tests.zoo.transformers_text import TOKENS, VOCABULARY, decoder_options

GEMMA4 = config_of(
    "Gemma4TextConfig",
    **decoder_options(
        head_dim=16,
        global_head_dim=16,
        sliding_window=4,
        layer_types=["sliding_attention", "full_attention"],
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=VOCABULARY,
    ),
)
DEEPSEEK_V3 = config_of(
    "DeepseekV3Config",
    **decoder_options(
        num_key_value_heads=4,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_nope_head_dim=16,
        qk_rope_head_dim=8,
        v_head_dim=16,
        first_k_dense_replace=0,
        num_hidden_layers=1,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        moe_intermediate_size=32,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    ),
)
MPT = config_of("MptConfig", d_model=64, n_heads=4, n_layers=1, max_seq_len=128, vocab_size=VOCABULARY)
LFM2 = config_of("Lfm2Config", **decoder_options(conv_L_cache=3, layer_types=["conv", "full_attention"]))
QWEN3_NEXT = config_of(
    "Qwen3NextConfig",
    **decoder_options(
        head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        layer_types=["linear_attention", "full_attention"],
    ),
)


def grown(model: torch.nn.Module, config: Any, batch: int, past: int) -> Any:
    """The cache of a model that has read `past` random tokens."""
    cache = transformers.DynamicCache(config=config)
    with torch.no_grad():
        model(input_ids=token_ids(VOCABULARY, batch, past), past_key_values=cache, use_cache=True)
    return cache


def going_on(
    name: str, family: str, model_class: str, config: Any, past: tuple[int, ...], note: str = "", several: bool = False
) -> Case:
    """A decoder that goes on from a cache of what it has read before, by several tokens at least, if `several`."""

    def model() -> torch.nn.Module:
        return getattr(transformers, model_class)(config).eval()

    def inputs(dims: Dims) -> Inputs:
        batch, seq, past = dims["batch"], dims.get("seq", 1), dims["past"]
        return (), {
            "input_ids": token_ids(VOCABULARY, batch, seq),
            "attention_mask": padding_mask(batch, past + seq),
            "past_key_values": grown(model(), config, batch, past),
        }

    one = bool(note) and not several
    seq = {} if one else {"seq": (3, 2, 4, 2) if several else (3, 1, 4, 1)}
    traced, *others = sizes(batch=(2, 1, 3, 2), past=past, **seq)
    mask = {0: "batch", 1: "past + 1" if one else "past + seq"}
    tokens = {0: "batch"} if one else TOKENS
    shapes = {"input_ids": tokens, "attention_mask": mask, "past_key_values": {0: "batch", 2: "past"}}
    return Case(name, family, model, inputs, shapes, traced, tuple(others), note)


CASES = (
    going_on("gemma4_cache", "sliding windows", "Gemma4ForCausalLM", GEMMA4, (7, 8, 4, 16)),
    going_on("deepseek_v3_cache", "mixture of experts", "DeepseekV3ForCausalLM", DEEPSEEK_V3, (5, 8, 1, 16)),
    going_on("mpt_cache", "decoder", "MptForCausalLM", MPT, (5, 8, 1, 16)),
    going_on(
        "lfm2_cache", "state space", "Lfm2ForCausalLM", LFM2, (5, 8, 4, 16),
        "of one token the mask is left out (masking_utils.py:1524), and a token that it hides is read: another program",
        several=True,
    ),
    going_on(
        "qwen3_next_step", "state space", "Qwen3NextForCausalLM", QWEN3_NEXT, (5, 8, 4, 16),
        "one token at a time: more are read in chunks of 64, which a Python loop counts",
    ),
)  # fmt: skip
