"""Models of segmentation_models_pytorch: each decoder over one encoder, and encoders of each family below one decoder,
with random weights."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from tests.tables.architectures.listed import by_name, images, spread
from tests.tables.architectures.subject import Subject

DECODERS: Mapping[str, Mapping[str, Any]] = {
    "Unet": {},
    "UnetPlusPlus": {},
    "MAnet": {},
    "Linknet": {},
    "FPN": {},
    "PSPNet": {},
    "PAN": {},
    "DeepLabV3": {},
    "DeepLabV3Plus": {},
    "UPerNet": {},
    "Segformer": {},
    "DPT": {"encoder_name": "tu-vit_tiny_patch16_224", "dynamic_img_size": True},
}
"""Each decoder with what it is built with beside a ResNet."""
ENCODERS = """
resnet18 resnext50_32x4d timm-resnest14d timm-res2net50_26w_4s timm-regnetx_002 timm-regnety_002 timm-gernet_s
se_resnet50 timm-skresnet18 densenet121 inceptionresnetv2 inceptionv4 efficientnet-b0 timm-efficientnet-b0
timm-tf_efficientnet_lite0 mobilenet_v2 timm-mobilenetv3_small_075 dpn68 vgg11_bn xception mit_b0 mobileone_s0
tu-convnext_atto tu-mobilenetv4_conv_small tu-edgenext_xx_small
""".split()
HEADS: Mapping[str, Mapping[str, Any]] = {
    "Unet_scse": {"decoder_attention_type": "scse"},
    "Unet_classes": {"aux_params": {"classes": 3, "dropout": 0.2}},
    "Unet_sigmoid": {"activation": "sigmoid"},
    "Unet_instance_norm": {"decoder_use_norm": "instancenorm"},
    "Unet_one_channel": {"in_channels": 1},
}
"""What a Unet may have beside."""
SIZES = ((2, 64, 96), (1, 96, 64), (3, 128, 96))
"""Numbers, heights and widths of images, each a multiple of 32, as the library demands."""

LARGER = ((2, 128, 192), (1, 192, 128), (3, 256, 192))
"""The same for a decoder that pools what is left of an image twice more."""


def subjects() -> Mapping[str, Subject]:
    """Each model by its name. Raises ModuleNotFoundError without segmentation_models_pytorch."""
    library = importlib.import_module("segmentation_models_pytorch")
    found = [subject(library, name, "decoder", name, more) for name, more in DECODERS.items()]
    found += [subject(library, f"Unet_{name}", "encoder", "Unet", {"encoder_name": name}) for name in ENCODERS[1:]]
    return by_name(found + [subject(library, name, "options", "Unet", more) for name, more in HEADS.items()])


def subject(library: Any, name: str, kind: str, decoder: str, more: Mapping[str, Any]) -> Subject:
    """The subject of a decoder with options."""

    def build() -> Any:
        options = {"encoder_name": "resnet18", "encoder_weights": None, "classes": 3, **more}
        model = getattr(library, decoder)(**options)
        return spread(model, sets(model))

    def sets(model: Any) -> Any:
        axes, sizes = {0: "batch", 2: "height", 3: "width"}, LARGER if decoder == "PAN" else SIZES
        return images(model, sizes, axes, more.get("in_channels", 3))

    return Subject("segmentation", name, kind, build, sets)
