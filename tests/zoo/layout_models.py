"""Models of which only some layouts have names, tiny, with random weights: those that read images beside text, and
decoders with states of convolutions and recurrences."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.zoo.case import config_of
from tests.zoo.generating import EXPERTS, SIZES, Generator, of_ids, prompt

VISION: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16,
    "patch_size": 4, "vision_use_head": False,
}  # fmt: skip
GEMMA: dict[str, Any] = {"head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
MAMBA: dict[str, Any] = {
    "mamba_d_state": 8, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1,
}  # fmt: skip
LLAMA: dict[str, Any] = {"model_type": "llama", **SIZES}
PLACE = 3
"""The token that holds a place for the features of an image."""

# A model that reads images: its configuration, the places that an image takes, and whether images come in tiles.
SEEING: dict[str, tuple[dict[str, Any], int, bool]] = {
    "PaliGemma": (
        {
            "text_config": {"model_type": "gemma", "head_dim": 8, **SIZES}, "projection_dim": 32, "hidden_size": 32,
            "vision_config": {"model_type": "siglip_vision_model", "projection_dim": 32, **VISION},
            "image_token_index": PLACE,
        }, 16, False,
    ),
    "Gemma3": (
        {
            "text_config": {**SIZES, **GEMMA}, "vision_config": VISION, "mm_tokens_per_image": 4,
            "image_token_index": PLACE, "boi_token_index": 4, "eoi_token_index": 5,
        }, 4, False,
    ),
    "Idefics3": ({"text_config": LLAMA, "vision_config": VISION, "image_token_id": PLACE, "scale_factor": 2}, 4, True),
    "SmolVLM": ({"text_config": LLAMA, "vision_config": VISION, "image_token_id": PLACE, "scale_factor": 2}, 4, True),
}  # fmt: skip

STATES: dict[str, tuple[str, dict[str, Any]]] = {
    "Lfm2MoeForCausalLM": ("Lfm2MoeConfig", {
        "conv_L_cache": 3, "layer_types": ["conv", "full_attention"], "num_experts": 4, "num_dense_layers": 1,
        **EXPERTS,
    }),
    "FalconH1ForCausalLM": ("FalconH1Config", {"mamba_d_ssm": 64, **MAMBA}),
    "GraniteMoeHybridForCausalLM": ("GraniteMoeHybridConfig", {
        **MAMBA, "layer_types": ["mamba", "attention"], "num_local_experts": 0, "shared_intermediate_size": 32,
    }),
}  # fmt: skip


def seeing(name: str) -> Generator:
    """A model that reads images, with two texts of an image each."""
    sizes, places, has_tiles = SEEING[name]

    def made() -> Any:
        config = config_of(f"{name}Config", **sizes)
        config.image_token_id = PLACE
        return getattr(transformers, f"{name}ForConditionalGeneration")(config)

    def asked() -> dict[str, Any]:
        words = prompt(2, places + 4)
        words["input_ids"][:, 1 : 1 + places] = PLACE
        pixels = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(5))
        if not has_tiles:
            return {**words, "pixel_values": pixels}
        seen = torch.ones((2, 1, 16, 16), dtype=torch.bool)
        return {**words, "pixel_values": pixels[:, None], "pixel_attention_mask": seen}

    return Generator(f"{name}ForConditionalGeneration", made, asked, lambda: [asked()])


LAYOUT_MODELS: tuple[Generator, ...] = (
    *(of_ids(name, config, options, False) for name, (config, options) in STATES.items()),
    *map(seeing, SEEING),
)
