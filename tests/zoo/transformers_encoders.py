"""Encoders of transformers that none of the others is like: windows and relative positions of an image, a detector that
takes its number of images by len, a codec of sound, forecasts of series."""

from __future__ import annotations

import torch
import transformers

from tests.zoo.case import Case, Dims, Inputs, config_of, sizes
from tests.zoo.transformers_further import picture

VITDET = config_of(
    "VitDetConfig",
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    image_size=64,
    pretrain_image_size=64,
    patch_size=8,
    window_size=3,
    window_block_indices=[0],
    use_relative_position_embeddings=True,
)
RT_DETR = config_of(
    "RTDetrConfig",
    num_labels=3,
    num_queries=5,
    num_denoising=0,
    d_model=32,
    encoder_hidden_dim=32,
    encoder_in_channels=[16, 16, 32],
    encoder_ffn_dim=48,
    encoder_attention_heads=2,
    decoder_in_channels=[32, 32, 32],
    decoder_ffn_dim=48,
    decoder_layers=1,
    decoder_attention_heads=4,
    backbone_config=config_of(
        "RTDetrResNetConfig",
        embedding_size=8,
        hidden_sizes=[8, 16, 16, 32],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    ),
)
DAC = config_of(
    "DacConfig",
    encoder_hidden_size=4,
    downsampling_ratios=[2, 4],
    upsampling_ratios=[4, 2],
    decoder_hidden_size=16,
    n_codebooks=2,
    codebook_size=16,
    codebook_dim=4,
)
TIMESFM = config_of(
    "TimesFmConfig",
    patch_length=8,
    context_length=32,
    horizon_length=8,
    num_hidden_layers=1,
    hidden_size=32,
    intermediate_size=32,
    head_dim=8,
    num_attention_heads=4,
)
PATCHTST = config_of(
    "PatchTSTConfig",
    num_input_channels=3,
    context_length=32,
    patch_length=8,
    patch_stride=4,
    num_hidden_layers=1,
    d_model=16,
    num_attention_heads=4,
    ffn_dim=32,
    prediction_length=6,
    num_targets=3,
    channel_attention=True,
    use_cls_token=True,
)


def rt_detr() -> torch.nn.Module:
    """A detector whose scores differ: as it begins, all queries are as good, and any may be chosen."""
    model = transformers.RTDetrForObjectDetection(RT_DETR)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            usual = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            weight.copy_(torch.randn_like(weight) * 0.1 + usual)
    return model


def series(dims: Dims) -> Inputs:
    batch, steps = dims["batch"], dims["steps"]
    kwargs = {
        "past_values": torch.randn(batch, steps),
        "past_values_padding": torch.zeros(batch, steps, dtype=torch.int64),
        "freq": torch.zeros(batch, 1, dtype=torch.int64),
    }
    return (), kwargs


CASES = (
    Case(
        "vitdet",
        "vision",
        lambda: transformers.VitDetModel(VITDET),
        lambda dims: picture({"height": 64, **dims}),
        {"pixel_values": {0: "batch", 3: "width"}},
        {"batch": 2, "width": 72},
        sizes(batch=(1, 3, 2), width=(79, 74, 76)),
        "int() of what is longer, rows or columns of patches, fixes how many patches there are",
    ),
    Case(
        "rt_detr",
        "vision",
        rt_detr,
        lambda dims: picture({"height": 64, "width": 96, **dims}),
        {"pixel_values": {0: "batch"}},
        {"batch": 2},
        sizes(batch=(1, 3, 5)),
    ),
    Case(
        "dac",
        "speech",
        lambda: transformers.DacModel(DAC),
        lambda dims: ((), {"input_values": torch.randn(dims["batch"], 1, dims["samples"])}),
        {"input_values": {0: "batch", 2: "samples"}},
        {"batch": 2, "samples": 160},
        sizes(batch=(1, 3, 2), samples=(200, 96, 331)),
    ),
    Case(
        "timesfm",
        "time series",
        lambda: transformers.TimesFmModel(TIMESFM),
        series,
        {
            "past_values": {0: "batch", 1: "steps"},
            "past_values_padding": {0: "batch", 1: "steps"},
            "freq": {0: "batch"},
        },
        {"batch": 2, "steps": 32},
        sizes(batch=(1, 3, 2), steps=(24, 40, 16)),
    ),
    Case(
        "patchtst",
        "time series",
        lambda: transformers.PatchTSTForClassification(PATCHTST),
        lambda dims: ((), {"past_values": torch.randn(dims["batch"], 32, 3)}),
        {"past_values": {0: "batch"}},
        {"batch": 2},
        sizes(batch=(1, 3, 5)),
    ),
)
