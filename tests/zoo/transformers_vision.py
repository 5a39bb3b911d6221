"""Image and sound models of transformers: ViT, Swin, ResNet, ConvNeXt, CLIP, Wav2Vec2."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.zoo.case import Case, Dims, Inputs, config_of, padding_mask, sizes, token_ids

VIT = config_of(
    "ViTConfig",
    hidden_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=96,
    image_size=32,
    patch_size=8,
)
SWIN = config_of(
    "SwinConfig", image_size=32, patch_size=4, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4
)
RESNET = config_of(
    "ResNetConfig", embedding_size=16, hidden_sizes=[16, 32], depths=[2, 2], layer_type="bottleneck", num_labels=5
)
CONVNEXT = config_of("ConvNextConfig", hidden_sizes=[16, 32], depths=[2, 2], num_stages=2, num_labels=5)
CLIP = config_of(
    "CLIPConfig",
    text_config={
        "vocab_size": 99,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 40,
        "eos_token_id": 98,
        "bos_token_id": 97,
        "pad_token_id": 1,
    },
    vision_config={
        "hidden_size": 48,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 32,
        "patch_size": 8,
    },
    projection_dim=24,
)
WAV2VEC2 = config_of(
    "Wav2Vec2Config",
    vocab_size=30,
    hidden_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=96,
    conv_dim=(32, 32, 32),
    conv_stride=(5, 2, 2),
    conv_kernel=(10, 3, 3),
    num_feat_extract_layers=3,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4,
)


def model_of(class_name: str, config: Any) -> Any:
    return lambda: getattr(transformers, class_name)(config)


def images(dims: Dims) -> Inputs:
    return (), {"pixel_values": torch.randn(dims["batch"], 3, dims.get("height", 32), dims.get("width", 32))}


def images_of_any_size(dims: Dims) -> Inputs:
    return (), {**images(dims)[1], "interpolate_pos_encoding": True}


def image_and_text(dims: Dims) -> Inputs:
    batch, seq = dims["batch"], dims["seq"]
    kwargs = {
        "input_ids": torch.cat([token_ids(90, batch, seq - 1), torch.full((batch, 1), 98)], 1),
        "pixel_values": torch.randn(dims["images"], 3, 32, 32),
        "attention_mask": torch.ones_like(padding_mask(batch, seq)),
    }
    return (), kwargs


def waves(dims: Dims) -> Inputs:
    return (), {"input_values": torch.randn(dims["batch"], dims["samples"])}


IMAGES = {0: "batch", 2: "height", 3: "width"}

CASES = (
    Case(
        "vit",
        "vision",
        model_of("ViTForImageClassification", VIT),
        images,
        {"pixel_values": {0: "batch"}},
        {"batch": 2},
        sizes(batch=(1, 3, 8)),
        "without interpolate_pos_encoding, ViT takes images of its own size only",
    ),
    Case(
        "vit_any_size",
        "vision",
        model_of("ViTModel", VIT),
        images_of_any_size,
        {"pixel_values": IMAGES, "interpolate_pos_encoding": None},
        {"batch": 2, "height": 48, "width": 64},
        sizes(batch=(1, 3, 2), height=(64, 32, 56), width=(48, 40, 24)),
    ),
    Case(
        "swin",
        "vision",
        model_of("SwinForImageClassification", SWIN),
        images,
        {"pixel_values": {0: "batch"}},
        {"batch": 2},
        sizes(batch=(1, 3, 8)),
    ),
    Case(
        "resnet",
        "vision",
        model_of("ResNetForImageClassification", RESNET),
        images,
        {"pixel_values": IMAGES},
        {"batch": 2, "height": 32, "width": 48},
        sizes(batch=(1, 3, 2), height=(40, 32, 65), width=(40, 65, 33)),
    ),
    Case(
        "convnext",
        "vision",
        model_of("ConvNextForImageClassification", CONVNEXT),
        images,
        {"pixel_values": IMAGES},
        {"batch": 2, "height": 32, "width": 48},
        sizes(batch=(1, 3, 2), height=(40, 32, 65), width=(40, 65, 33)),
    ),
    Case(
        "clip",
        "vision and text",
        model_of("CLIPModel", CLIP),
        image_and_text,
        {"input_ids": {0: "batch", 1: "seq"}, "pixel_values": {0: "images"}, "attention_mask": {0: "batch", 1: "seq"}},
        {"batch": 2, "seq": 7, "images": 3},
        sizes(batch=(1, 4, 3), seq=(9, 2, 20), images=(2, 1, 3)),
    ),
    Case(
        "wav2vec2",
        "speech",
        model_of("Wav2Vec2ForCTC", WAV2VEC2),
        waves,
        {"input_values": {0: "batch", 1: "samples"}},
        {"batch": 2, "samples": 800},
        sizes(batch=(1, 3, 2), samples=(1000, 640, 1601)),
    ),
)
