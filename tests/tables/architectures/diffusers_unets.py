"""Tiny unets, control networks and adapters of diffusers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tests.tables.architectures.diffusers_rows import SMALL, Row, row, steps, text_and_image
from tests.tables.architectures.listed import at, normal

IMAGES = at("batch height width", (2, 8, 16), (1, 16, 8), (3, 8, 8))
TEXTED = at("batch height width tokens", (2, 8, 16, 5), (1, 16, 8, 7), (3, 8, 8, 1))
ODD = at("batch height width tokens", (2, 7, 9, 5), (1, 11, 5, 3), (2, 9, 7, 2))
CLIPS = at("batch frames height width tokens", (2, 4, 8, 16, 5), (1, 3, 16, 8, 7), (3, 1, 8, 8, 1))
UNTEXTED = at("batch frames height width", (2, 4, 8, 16), (1, 3, 16, 8), (3, 2, 8, 8))
SMALL_3D: Mapping[str, Any] = {
    **SMALL,
    "attention_head_dim": 4,
    "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
    "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
}
SMALL_CONTROL: Mapping[str, Any] = {k: v for k, v in SMALL.items() if k not in ("sample_size", "up_block_types")}


def video(batch: int, frames: int, height: int, width: int, tokens: int) -> dict[str, Any]:
    """What a unet of clips is called with."""
    return {
        "sample": normal(batch, 4, frames, height, width),
        "timestep": steps(batch),
        "encoder_hidden_states": normal(batch, tokens, 12),
    }


ROWS: tuple[Row, ...] = (
    row(
        "unet2d",
        "UNet2DModel",
        {
            "sample_size": 16,
            "block_out_channels": (8, 16),
            "layers_per_block": 1,
            "norm_num_groups": 4,
            "attention_head_dim": 4,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
        },
        lambda b, h, w: {"sample": normal(b, 3, h, w), "timestep": steps(b)},
        IMAGES,
    ),
    row(
        "unet2d_resnet_down",
        "UNet2DModel",
        {
            "sample_size": 16,
            "block_out_channels": (8, 16),
            "layers_per_block": 1,
            "norm_num_groups": 4,
            "attention_head_dim": 4,
            "downsample_type": "resnet",
            "upsample_type": "resnet",
            "resnet_time_scale_shift": "scale_shift",
            "down_block_types": ("ResnetDownsampleBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "ResnetUpsampleBlock2D"),
            "num_class_embeds": 5,
        },
        lambda b, h, w: {"sample": normal(b, 3, h, w), "timestep": steps(b), "class_labels": torch.arange(b)},
        IMAGES,
    ),
    row(
        "unet2d_skip",
        "UNet2DModel",
        {
            "sample_size": 16,
            "block_out_channels": (32, 32),
            "layers_per_block": 1,
            "norm_num_groups": 4,
            "time_embedding_type": "fourier",
            "mid_block_scale_factor": 2**0.5,
            "norm_eps": 1e-06,
            "freq_shift": 0,
            "down_block_types": ("SkipDownBlock2D", "AttnSkipDownBlock2D"),
            "up_block_types": ("AttnSkipUpBlock2D", "SkipUpBlock2D"),
        },
        lambda b, h, w: {"sample": normal(b, 3, h, w), "timestep": steps(b)},
        IMAGES,
    ),
    row("unet2d_condition", "UNet2DConditionModel", SMALL, text_and_image, TEXTED),
    row(
        "unet2d_condition_scalar_t",
        "UNet2DConditionModel",
        SMALL,
        lambda *s: {**text_and_image(*s), "timestep": torch.tensor(7)},
        TEXTED,
    ),
    row("unet2d_condition_odd", "UNet2DConditionModel", SMALL, text_and_image, ODD),
    row(
        "unet2d_condition_sdxl",
        "UNet2DConditionModel",
        {
            **SMALL,
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": 60,
            "transformer_layers_per_block": (1, 2),
            "use_linear_projection": True,
        },
        lambda b, h, w, s: {
            **text_and_image(b, h, w, s),
            "added_cond_kwargs": {"text_embeds": normal(b, 12), "time_ids": normal(b, 6)},
        },
        TEXTED,
    ),
    row(
        "unet2d_condition_simple_cross",
        "UNet2DConditionModel",
        {
            **SMALL,
            "attention_head_dim": 4,
            "down_block_types": ("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
            "mid_block_type": "UNetMidBlock2DSimpleCrossAttn",
            "up_block_types": ("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"),
            "resnet_time_scale_shift": "scale_shift",
        },
        text_and_image,
        TEXTED,
    ),
    row(
        "unet2d_condition_mask",
        "UNet2DConditionModel",
        SMALL,
        lambda b, h, w, s: {**text_and_image(b, h, w, s), "encoder_attention_mask": torch.ones(b, s)},
        TEXTED,
    ),
    row(
        "unet1d",
        "UNet1DModel",
        {
            "sample_size": 16,
            "in_channels": 14,
            "out_channels": 14,
            "time_embedding_type": "positional",
            "use_timestep_embedding": True,
            "flip_sin_to_cos": False,
            "freq_shift": 1.0,
            "act_fn": "mish",
            "out_block_type": "OutConv1DBlock",
            "mid_block_type": "MidResTemporalBlock1D",
            "down_block_types": ("DownResnetBlock1D", "DownResnetBlock1D"),
            "up_block_types": ("UpResnetBlock1D",),
            "block_out_channels": (8, 16),
        },
        lambda b, n: {"sample": normal(b, 14, n), "timestep": steps(b)},
        at("batch length", (2, 16), (1, 32), (3, 24)),
    ),
    row(
        "unet1d_dance",
        "UNet1DModel",
        {
            "sample_size": 64,
            "in_channels": 2,
            "extra_in_channels": 64,
            "out_channels": 2,
            "block_out_channels": (32, 32, 64),
        },
        lambda b, n: {"sample": normal(b, 2, n), "timestep": steps(b)},
        at("batch length", (2, 64), (1, 128), (3, 96)),
    ),
    row("unet3d_condition", "UNet3DConditionModel", SMALL_3D, video, CLIPS),
    row(
        "unet_motion",
        "UNetMotionModel",
        {
            "sample_size": 8,
            "block_out_channels": (8, 16),
            "layers_per_block": 1,
            "norm_num_groups": 4,
            "num_attention_heads": 2,
            "motion_num_attention_heads": 2,
            "motion_max_seq_length": 8,
            "cross_attention_dim": 12,
            "down_block_types": ("CrossAttnDownBlockMotion", "DownBlockMotion"),
            "up_block_types": ("UpBlockMotion", "CrossAttnUpBlockMotion"),
        },
        lambda b, f, h, w, s: {
            "sample": normal(b, 4, f, h, w),
            "timestep": steps(b),
            "encoder_hidden_states": normal(b * f, s, 12),
        },
        CLIPS,
    ),
    row(
        "i2vgen_xl",
        "I2VGenXLUNet",
        {**SMALL_3D, "num_attention_heads": 2},
        lambda b, f, h, w: {
            "sample": normal(b, 4, f, h, w),
            "timestep": steps(b),
            "fps": torch.full((b,), 8),
            "image_latents": normal(b, 4, f, h, w),
            "image_embeddings": normal(b, 12),
            "encoder_hidden_states": normal(b, 5, 12),
        },
        at("batch frames height width", (2, 4, 8, 16), (1, 3, 16, 8), (3, 1, 8, 8)),
    ),
    row(
        "unet_spatio_temporal",
        "UNetSpatioTemporalConditionModel",
        {
            "sample_size": 8,
            "block_out_channels": (32, 64),
            "layers_per_block": 1,
            "num_attention_heads": (2, 4),
            "cross_attention_dim": 12,
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": 24,
            "down_block_types": ("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
            "up_block_types": ("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"),
        },
        lambda b, f, h, w: {
            "sample": normal(b, f, 8, h, w),
            "timestep": steps(b),
            "encoder_hidden_states": normal(b, 1, 12),
            "added_time_ids": normal(b, 3),
        },
        at("batch frames height width", (2, 4, 8, 16), (1, 3, 16, 8), (3, 2, 8, 8)),
    ),
    row(
        "kandinsky3_unet",
        "Kandinsky3UNet",
        {
            "time_embedding_dim": 16,
            "groups": 4,
            "attention_head_dim": 4,
            "layers_per_block": 2,
            "block_out_channels": (16, 32),
            "cross_attention_dim": 12,
            "encoder_hid_dim": 12,
        },
        lambda b, h, w, s: {
            "sample": normal(b, 4, h, w),
            "timestep": steps(b),
            "encoder_hidden_states": normal(b, s, 12),
            "encoder_attention_mask": torch.ones(b, s),
        },
        TEXTED,
    ),
    row(
        "stable_cascade_unet",
        "StableCascadeUNet",
        {
            "in_channels": 4,
            "out_channels": 4,
            "conditioning_dim": 16,
            "block_out_channels": (16, 32),
            "num_attention_heads": (2, 4),
            "down_num_layers_per_block": (1, 1),
            "up_num_layers_per_block": (1, 1),
            "clip_text_in_channels": 12,
            "clip_text_pooled_in_channels": 12,
            "clip_image_in_channels": 12,
        },
        lambda b, h, w, s: {
            "sample": normal(b, 4, h, w),
            "timestep_ratio": torch.rand(b),
            "clip_text_pooled": normal(b, 1, 12),
            "clip_text": normal(b, s, 12),
            "clip_img": normal(b, 1, 12),
        },
        TEXTED,
    ),
    row(
        "uvit2d",
        "UVit2DModel",
        {
            "hidden_size": 16,
            "cond_embed_dim": 12,
            "micro_cond_encode_dim": 4,
            "micro_cond_embed_dim": 20,
            "encoder_hidden_size": 12,
            "vocab_size": 33,
            "codebook_size": 32,
            "in_channels": 16,
            "block_out_channels": 16,
            "num_res_blocks": 1,
            "block_num_heads": 2,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "sample_size": 8,
        },
        lambda b, h, w, s: {
            "input_ids": torch.arange(b * h * w).reshape(b, h, w) % 33,
            "encoder_hidden_states": normal(b, s, 12),
            "pooled_text_emb": normal(b, 12),
            "micro_conds": torch.rand(b, 5),
        },
        TEXTED,
    ),
    row(
        "controlnet",
        "ControlNetModel",
        {**SMALL_CONTROL, "conditioning_embedding_out_channels": (4, 8)},
        lambda b, h, w, s: {**text_and_image(b, h, w, s), "controlnet_cond": normal(b, 3, 2 * h, 2 * w)},
        TEXTED,
    ),
    row(
        "t2i_adapter",
        "T2IAdapter",
        {"channels": [8, 16], "num_res_blocks": 1, "downscale_factor": 8},
        lambda b, h, w: {"x": normal(b, 3, h, w)},
        at("batch height width", (2, 32, 64), (1, 64, 32), (3, 32, 32)),
    ),
    row(
        "motion_controlnet_sparse",
        "SparseControlNetModel",
        {
            "in_channels": 4,
            "conditioning_channels": 3,
            "block_out_channels": (8, 16),
            "layers_per_block": 1,
            "norm_num_groups": 4,
            "num_attention_heads": 2,
            "motion_num_attention_heads": 2,
            "motion_max_seq_length": 8,
            "cross_attention_dim": 12,
            "conditioning_embedding_out_channels": (4, 8),
            "use_simplified_condition_embedding": False,
            "down_block_types": ("CrossAttnDownBlockMotion", "DownBlockMotion"),
        },
        lambda b, f, h, w: {
            "sample": normal(b, 4, f, h, w),
            "timestep": steps(b),
            "encoder_hidden_states": normal(b * f, 5, 12),
            "controlnet_cond": normal(b, 3, f, 2 * h, 2 * w),
            "conditioning_mask": torch.ones(b, 1, f, 2 * h, 2 * w),
        },
        at("batch frames height width", (2, 4, 8, 16), (1, 3, 16, 8), (3, 1, 8, 8)),
    ),
)
"""Each with what it is built with, what it is called with, and the sizes of its calls."""
