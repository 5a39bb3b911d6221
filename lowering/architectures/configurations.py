"""Tiny configurations of the models of transformers, made of what a configuration class calls its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irkit.errors import IrkitError

WIDTH = "hidden_size n_embd d_model dim embed_dim embedding_size word_embed_proj_dim".split()
INNER = "intermediate_size n_inner ffn_dim d_ff encoder_ffn_dim decoder_ffn_dim hidden_dim".split()
LAYERS = (
    "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers "
    "num_encoder_layers".split()
)
HEADS = "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads".split()
EXPERTS = "num_experts num_local_experts n_routed_experts".split()
NARROW = "moe_intermediate_size shared_expert_intermediate_size".split()
HEAD_SIZES = "head_dim d_kv qk_nope_head_dim qk_rope_head_dim v_head_dim rotary_dim state_size mamba_d_state".split()
LENGTHS = "max_position_embeddings n_positions n_ctx max_target_positions".split()

SIZES: Mapping[str, int] = {
    "vocab_size": 99,
    **dict.fromkeys(WIDTH, 32),
    **dict.fromkeys(INNER, 48),
    **dict.fromkeys(LAYERS, 2),
    **dict.fromkeys(HEADS, 4),
    "num_key_value_heads": 2,
    **dict.fromkeys(EXPERTS, 4),
    "num_experts_per_tok": 2,
    **dict.fromkeys(NARROW, 32),
    **dict.fromkeys(HEAD_SIZES, 8),
    **dict.fromkeys(LENGTHS, 64),
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "sliding_window": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "image_size": 32,
    "patch_size": 8,
    "type_vocab_size": 2,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_n_groups": 1,
    "time_step_rank": 4,
    "max_source_positions": 50,
    "num_mel_bins": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "conv_L_cache": 3,
    "num_mem_blocks": 1,
}
"""What a size of that name is in a tiny model."""
OPTIONAL = frozenset({"sliding_window", "head_dim", "q_lora_rank"})
"""Sizes that a configuration leaves out on purpose."""


def tiny_configuration(kind: str, options: Mapping[str, Any]) -> Any:
    """A configuration of a model type of transformers with small sizes; `options` win. Raises IrkitError for a type
    that the installed transformers does not have."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if kind not in CONFIG_MAPPING:
        raise IrkitError(f"the installed transformers has no model {kind!r}", hint="install a newer one")
    made = CONFIG_MAPPING[kind]
    usual = made()
    known = {name: getattr(usual, name) for name in SIZES if hasattr(usual, name)}
    sizes = {
        name: SIZES[name]
        for name, value in known.items()
        if type(value) in (int, float) or (value is None and name not in OPTIONAL)
    }
    return made(**{**sizes, **options})
