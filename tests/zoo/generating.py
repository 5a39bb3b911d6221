"""Models that generate, tiny, with random weights: decoders of each family, encoder-decoders, one that sees images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import torch
import transformers

from tests.zoo.case import config_of

SIZES: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
HYBRID: dict[str, Any] = {
    "head_dim": 16, "num_experts": 4, "shared_expert_intermediate_size": 32, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"], **EXPERTS,
}  # fmt: skip
LATENT: dict[str, Any] = {
    "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
    "v_head_dim": 16, "first_k_dense_replace": 0, "n_routed_experts": 4, "n_group": 1, "topk_group": 1,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}, **EXPERTS,
}  # fmt: skip
OTHER_NAMES = {
    "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "n_inner": 48, "rotary_dim": 4, "vocab_size": 64,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip

# A decoder by its class, with the class of its configuration and what is said beside SIZES, or None and all of it.
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "LlamaForCausalLM": ("LlamaConfig", {}),
    "MistralForCausalLM": ("MistralConfig", {"sliding_window": 4}),
    "Qwen2ForCausalLM": ("Qwen2Config", {}),
    "Qwen3ForCausalLM": ("Qwen3Config", {"head_dim": 8}),
    "GemmaForCausalLM": ("GemmaConfig", {"head_dim": 8}),
    "Gemma2ForCausalLM": ("Gemma2Config", {"head_dim": 8, "sliding_window": 4}),
    "Gemma3ForCausalLM": ("Gemma3TextConfig", {
        "head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"],
    }),
    "PhiForCausalLM": ("PhiConfig", {"num_key_value_heads": 4}),
    "Phi3ForCausalLM": ("Phi3Config", {}),
    "GPT2LMHeadModel": ("GPT2Config", OTHER_NAMES),
    "GPTNeoXForCausalLM": ("GPTNeoXConfig", {}),
    "GPTJForCausalLM": ("GPTJConfig", OTHER_NAMES),
    "CodeGenForCausalLM": ("CodeGenConfig", OTHER_NAMES),
    "OPTForCausalLM": ("OPTConfig", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "BloomForCausalLM": ("BloomConfig", {"n_layer": 2, "n_head": 4}),
    "FalconForCausalLM": ("FalconConfig", {}),
    "MptForCausalLM": ("MptConfig", {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64}),
    "CohereForCausalLM": ("CohereConfig", {}),
    "Olmo2ForCausalLM": ("Olmo2Config", {}),
    "StableLmForCausalLM": ("StableLmConfig", {}),
    "Starcoder2ForCausalLM": ("Starcoder2Config", {}),
    "GraniteForCausalLM": ("GraniteConfig", {}),
    "NemotronForCausalLM": ("NemotronConfig", {}),
    "GlmForCausalLM": ("GlmConfig", {"head_dim": 8}),
    "SmolLM3ForCausalLM": ("SmolLM3Config", {}),
    "HeliumForCausalLM": ("HeliumConfig", {"head_dim": 8}),
    "MixtralForCausalLM": ("MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "Qwen2MoeForCausalLM": ("Qwen2MoeConfig", {"num_experts": 4, "shared_expert_intermediate_size": 32, **EXPERTS}),
    "DeepseekV3ForCausalLM": ("DeepseekV3Config", LATENT),
    "GptOssForCausalLM": ("GptOssConfig", {"head_dim": 8, "num_local_experts": 4, "sliding_window": 4}),
    "MambaForCausalLM": ("MambaConfig", {"state_size": 4}),
    "Mamba2ForCausalLM": ("Mamba2Config", {
        "state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 4,
    }),
    "Lfm2ForCausalLM": ("Lfm2Config", {"conv_L_cache": 3, "layer_types": ["conv", "full_attention"]}),
    "Qwen3NextForCausalLM": ("Qwen3NextConfig", HYBRID),
}  # fmt: skip
ENCODER_DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "T5ForConditionalGeneration": (
        "T5Config",
        {
            "vocab_size": 64,
            "d_model": 16,
            "d_kv": 8,
            "d_ff": 32,
            "num_layers": 2,
            "num_heads": 2,
            "decoder_start_token_id": 0,
        },
    ),
    "BartForConditionalGeneration": (
        "BartConfig",
        {
            "vocab_size": 64,
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 32,
            "max_position_embeddings": 64,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
            "forced_eos_token_id": None,
        },
    ),
}
WHISPER: dict[str, Any] = {
    "vocab_size": 64, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "num_mel_bins": 8,
    "max_source_positions": 10, "max_target_positions": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, "suppress_tokens": None, "begin_suppress_tokens": None,
}  # fmt: skip


@attrs.frozen(eq=False)
class Generator:
    """A model that generates. `example` is what `lowering.generation` is shown, None where ids do; `prompts` what is
    asked of it."""

    name: str
    make: Callable[[], Any] = attrs.field(repr=False)
    example: Callable[[], dict[str, Any] | None] = attrs.field(repr=False)
    prompts: Callable[[], list[dict[str, Any]]] = attrs.field(repr=False)

    def model(self) -> Any:
        """The model in eval mode, with the same random weights at each call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.make().eval()


def prompt(batch: int, length: int, padded: int = 0) -> dict[str, Any]:
    """Token ids, the first row of them padded on the left."""
    generator = torch.Generator().manual_seed(batch * 10 + length)
    ids = torch.randint(5, 60, (batch, length), generator=generator)
    mask = torch.ones_like(ids)
    ids[0, :padded], mask[0, :padded] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


def of_ids(name: str, config: str, options: dict[str, Any], encoder: bool) -> Generator:
    """A model that reads ids."""
    sizes = options if encoder or options is OTHER_NAMES else {**SIZES, **options}
    if name == "MptForCausalLM":
        sizes = {**options, "vocab_size": 64}
    return Generator(
        name,
        lambda: getattr(transformers, name)(config_of(config, **sizes)),
        lambda: None,
        lambda: [prompt(2, 5, 2), prompt(1, 3), prompt(3, 7)],
    )


def features(frames: int = 20) -> dict[str, Any]:
    """What a listening model reads."""
    return {"input_features": torch.randn(2, 8, frames, generator=torch.Generator().manual_seed(3))}


def llava() -> Any:
    """A model that sees images."""
    seen = config_of(
        "CLIPVisionConfig",
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=8,
        patch_size=4,
    )
    text = config_of("LlamaConfig", **SIZES)
    config = config_of(
        "LlavaConfig", text_config=text, vision_config=seen, image_token_index=3, vision_feature_layer=-1
    )
    config.image_token_id = 3
    return transformers.LlavaForConditionalGeneration(config)


def picture() -> dict[str, Any]:
    """Two images, each with words behind it."""
    asked = prompt(2, 9)
    asked["input_ids"][:, 1:5] = 3
    pixels = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(4))
    return {**asked, "pixel_values": pixels}


def listening(positions: int) -> Generator:
    """A model that hears sounds of twice as many frames as its encoder has positions."""
    sizes = {**WHISPER, "max_source_positions": positions}
    return Generator(
        "WhisperForConditionalGeneration",
        lambda: transformers.WhisperForConditionalGeneration(config_of("WhisperConfig", **sizes)),
        lambda: features(2 * positions),
        lambda: [features(2 * positions)],
    )


GENERATORS: tuple[Generator, ...] = (
    *(of_ids(name, config, options, False) for name, (config, options) in DECODERS.items()),
    *(of_ids(name, config, options, True) for name, (config, options) in ENCODER_DECODERS.items()),
    listening(WHISPER["max_source_positions"]),
    Generator("LlavaForConditionalGeneration", llava, picture, lambda: [picture()]),
)  # fmt: skip


def generator_named(name: str) -> Generator:
    """The model of that name."""
    return next(each for each in GENERATORS if each.name == name)
