"""Tiny autoencoders of diffusers: whole, and encoder and decoder by themselves.

Those of clips take frames in pieces, by a loop in Python over them: the number of frames is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tests.tables.architectures.diffusers_rows import Row, row
from tests.tables.architectures.listed import at, normal

IMAGES = at("batch height width", (2, 16, 32), (1, 32, 16), (3, 24, 24))
LATENTS = at("batch height width", (2, 8, 16), (1, 16, 8), (3, 5, 7))
WAVES = at("batch length", (2, 64), (1, 128), (3, 40))
WAVE_LATENTS = at("batch length", (2, 6), (1, 9), (3, 4))
CLIPS = at("batch frames height width", (2, 9, 32, 64), (1, 9, 64, 32), (1, 9, 32, 32))
CLIP_LATENTS = at("batch frames height width", (2, 2, 4, 8), (1, 2, 8, 4), (1, 2, 4, 4))
SMALL_KL: Mapping[str, Any] = {
    "block_out_channels": (8, 16),
    "norm_num_groups": 4,
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}


class Encoder(torch.nn.Module):
    """The encoder of an autoencoder: the parameters of its distribution, or what else it gives."""

    def __init__(self, whole: Any) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, sample: torch.Tensor) -> Any:
        found = self.whole.encode(sample)
        return found.latent_dist.parameters if hasattr(found, "latent_dist") else found


class Decoder(torch.nn.Module):
    """The decoder of an autoencoder."""

    def __init__(self, whole: Any, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.whole, self.options = whole, dict(options)

    def forward(self, latent: torch.Tensor) -> Any:
        return self.whole.decode(latent, **self.options)


def parts(
    name: str,
    made: str,
    options: Mapping[str, Any],
    latent: int,
    *,
    channels: int = 3,
    samples: Sequence[Mapping[str, int]] = IMAGES,
    latents: Sequence[Mapping[str, int]] = LATENTS,
    decode: Mapping[str, Any] | None = None,
) -> tuple[Row, ...]:
    """The rows of an autoencoder of so many channels, outside and inside."""
    return (
        row(name, made, options, lambda b, *s: {"sample": normal(b, channels, *s)}, samples),
        row(f"{name}_encode", made, options, lambda b, *s: {"sample": normal(b, channels, *s)}, samples, Encoder),
        row(
            f"{name}_decode",
            made,
            options,
            lambda b, *s: {"latent": normal(b, latent, *s)},
            latents,
            lambda whole: Decoder(whole, decode or {}),
        ),
    )


ROWS: tuple[Row, ...] = (
    *parts("autoencoder_kl", "AutoencoderKL", SMALL_KL, 4),
    *parts(
        "asymmetric_kl",
        "AsymmetricAutoencoderKL",
        {
            "down_block_types": ("DownEncoderBlock2D",) * 2,
            "down_block_out_channels": (8, 16),
            "layers_per_down_block": 1,
            "up_block_types": ("UpDecoderBlock2D",) * 2,
            "up_block_out_channels": (8, 16),
            "layers_per_up_block": 1,
            "norm_num_groups": 4,
        },
        4,
    ),
    *parts(
        "autoencoder_tiny",
        "AutoencoderTiny",
        {
            "encoder_block_out_channels": (8, 8),
            "decoder_block_out_channels": (8, 8),
            "num_encoder_blocks": (1, 2),
            "num_decoder_blocks": (2, 1),
        },
        4,
    ),
    *parts("vq_model", "VQModel", {**SMALL_KL, "num_vq_embeddings": 16}, 3),
    *parts(
        "autoencoder_dc",
        "AutoencoderDC",
        {
            "latent_channels": 4,
            "attention_head_dim": 2,
            "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "encoder_block_out_channels": (8, 8),
            "decoder_block_out_channels": (8, 8),
            "encoder_layers_per_block": (1, 1),
            "decoder_layers_per_block": (1, 1),
            "encoder_qkv_multiscales": ((), (5,)),
            "decoder_qkv_multiscales": ((), (5,)),
            "upsample_block_type": "interpolate",
            "downsample_block_type": "stride_conv",
            "decoder_norm_types": "rms_norm",
            "decoder_act_fns": "silu",
        },
        4,
    ),
    *parts(
        "temporal_decoder",
        "AutoencoderKLTemporalDecoder",
        {"block_out_channels": (32, 64), "down_block_types": ("DownEncoderBlock2D",) * 2},
        4,
        decode={"num_frames": 1},
    ),
    *parts(
        "oobleck",
        "AutoencoderOobleck",
        {
            "encoder_hidden_size": 8,
            "downsampling_ratios": [2, 4],
            "channel_multiples": [1, 2],
            "decoder_channels": 8,
            "decoder_input_channels": 4,
            "audio_channels": 2,
        },
        4,
        channels=2,
        latents=WAVE_LATENTS,
        samples=WAVES,
    ),
    *parts(
        "cogvideox_vae",
        "AutoencoderKLCogVideoX",
        {
            "block_out_channels": (8, 8, 8, 8),
            "latent_channels": 4,
            "layers_per_block": 1,
            "norm_num_groups": 2,
            "temporal_compression_ratio": 4,
        },
        4,
        latents=CLIP_LATENTS,
        samples=CLIPS,
    ),
    *parts(
        "wan_vae",
        "AutoencoderKLWan",
        {
            "base_dim": 3,
            "z_dim": 16,
            "dim_mult": [1, 1, 1, 1],
            "num_res_blocks": 1,
            "temperal_downsample": [False, True, True],
        },
        16,
        latents=CLIP_LATENTS,
        samples=CLIPS,
    ),
    *parts(
        "ltx_vae",
        "AutoencoderKLLTXVideo",
        {
            "latent_channels": 8,
            "block_out_channels": (8, 8, 8, 8),
            "decoder_block_out_channels": (8, 8, 8, 8),
            "layers_per_block": (1, 1, 1, 1, 1),
            "decoder_layers_per_block": (1, 1, 1, 1, 1),
            "spatio_temporal_scaling": (True, True, False, False),
            "decoder_spatio_temporal_scaling": (True, True, False, False),
            "decoder_inject_noise": (False,) * 5,
            "patch_size": 1,
            "patch_size_t": 1,
        },
        8,
        latents=CLIP_LATENTS,
        samples=CLIPS,
    ),
    *parts(
        "hunyuan_video_vae",
        "AutoencoderKLHunyuanVideo",
        {"block_out_channels": (8, 8, 8, 8), "layers_per_block": 1, "norm_num_groups": 4, "latent_channels": 4},
        4,
        latents=CLIP_LATENTS,
        samples=CLIPS,
    ),
    *parts(
        "mochi_vae",
        "AutoencoderKLMochi",
        {
            "in_channels": 15,
            "out_channels": 3,
            "encoder_block_out_channels": (32, 32, 32, 32),
            "decoder_block_out_channels": (32, 32, 32, 32),
            "latent_channels": 4,
            "layers_per_block": (1, 1, 1, 1, 1),
            "latents_mean": [0.0] * 4,
            "latents_std": [1.0] * 4,
        },
        4,
        latents=CLIP_LATENTS,
        samples=CLIPS,
    ),
    *parts(
        "cosmos_vae",
        "AutoencoderKLCosmos",
        {
            "latent_channels": 4,
            "encoder_block_out_channels": (8, 8, 8, 8),
            "decode_block_out_channels": (8, 8, 8, 8),
            "attention_resolutions": (8,),
            "resolution": 64,
            "num_layers": 1,
            "patch_size": 4,
            "patch_type": "haar",
        },
        4,
        latents=CLIP_LATENTS,
        samples=CLIPS,
    ),
)
"""Each with what it is built with, what it is called with, and the sizes of its calls."""
