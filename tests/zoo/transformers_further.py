"""Further families of transformers, each for something that no other has: sliding windows, attention sinks, relative
positions, pyramids of images, queries of a detector, gated position biases."""

from __future__ import annotations

from typing import Any

import attrs
import torch
import transformers

from tests.zoo.case import Case, Dims, Inputs, config_of, padding_mask, sizes, token_ids
from tests.zoo.transformers_text import ENCODER_SIZES, TOKENS, VOCABULARY, decoder_case, decoder_options

ENCODER: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
}
IMAGE = {"pixel_values": {0: "batch", 2: "height", 3: "width"}}
IMAGE_SIZES = sizes(batch=(1, 3, 2), height=(96, 64, 70), width=(64, 128, 101))

MISTRAL = config_of("MistralConfig", **decoder_options(sliding_window=4))
GPT_OSS = config_of(
    "GptOssConfig",
    **decoder_options(
        head_dim=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=4,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    ),
)
DEBERTA = config_of(
    "DebertaV2Config",
    **ENCODER,
    relative_attention=True,
    pos_att_type=["p2c", "c2p"],
    position_buckets=8,
    share_att_key=True,
    norm_rel_ebd="layer_norm",
)
SEGFORMER = config_of(
    "SegformerConfig",
    num_encoder_blocks=4,
    depths=[1, 1, 1, 1],
    sr_ratios=[8, 4, 2, 1],
    hidden_sizes=[8, 16, 16, 32],
    num_attention_heads=[1, 2, 2, 4],
    decoder_hidden_size=16,
    num_labels=3,
)
BACKBONE = config_of(
    "ResNetConfig",
    embedding_size=8,
    hidden_sizes=[8, 16, 16, 32],
    depths=[1, 1, 1, 1],
    layer_type="basic",
    out_features=["stage4"],
)
DETR = config_of(
    "DetrConfig",
    use_timm_backbone=False,
    use_pretrained_backbone=False,
    backbone=None,
    backbone_config=BACKBONE,
    d_model=32,
    encoder_layers=1,
    decoder_layers=1,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    num_queries=5,
    num_labels=3,
)
WAVLM = config_of(
    "WavLMConfig",
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    vocab_size=32,
    conv_dim=(16, 16, 16),
    conv_stride=(5, 2, 2),
    conv_kernel=(10, 3, 3),
    num_feat_extract_layers=3,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=2,
    num_buckets=16,
    max_bucket_distance=32,
)


def tokens(dims: Dims) -> Inputs:
    batch, seq = dims["batch"], dims["seq"]
    return (), {"input_ids": token_ids(VOCABULARY, batch, seq), "attention_mask": padding_mask(batch, seq)}


def picture(dims: Dims) -> Inputs:
    return (), {"pixel_values": torch.randn(dims["batch"], 3, dims["height"], dims["width"])}


def windowed(name: str, model_class: str, config: Any) -> Case:
    """A decoder with sliding windows that goes on from a cache whose windows are full."""
    _, step = decoder_case(name, "sliding windows", model_class, config, "the cache holds more than the window of 4")
    return attrs.evolve(step, assignments=sizes(batch=(1, 3, 2), seq=(1, 4, 1), past=(8, 4, 16)))


CASES = (
    windowed("mistral", "MistralForCausalLM", MISTRAL),
    windowed("gpt_oss", "GptOssForCausalLM", GPT_OSS),
    Case(
        "deberta_v2",
        "encoder",
        lambda: transformers.DebertaV2Model(DEBERTA),
        tokens,
        {"input_ids": TOKENS, "attention_mask": TOKENS},
        {"batch": 2, "seq": 9},
        ENCODER_SIZES,
    ),
    Case(
        "segformer",
        "vision",
        lambda: transformers.SegformerForSemanticSegmentation(SEGFORMER),
        lambda dims: picture({"height": 64, "width": 96, **dims}),
        {"pixel_values": {0: "batch"}},
        {"batch": 2},
        sizes(batch=(1, 3, 5)),
    ),
    Case(
        "detr",
        "vision",
        lambda: transformers.DetrForObjectDetection(DETR),
        picture,
        IMAGE,
        {"batch": 2, "height": 64, "width": 96},
        IMAGE_SIZES,
    ),
    Case(
        "wavlm",
        "speech",
        lambda: transformers.WavLMModel(WAVLM),
        lambda dims: ((), {"input_values": torch.randn(dims["batch"], dims["samples"])}),
        {"input_values": {0: "batch", 1: "samples"}},
        {"batch": 2, "samples": 800},
        sizes(batch=(1, 3, 2), samples=(1000, 640, 1601)),
    ),
)
