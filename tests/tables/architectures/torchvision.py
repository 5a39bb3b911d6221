"""Every model of torchvision with random weights: classification, segmentation, detection, video, optical flow."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch

from lowering.architectures.inputs import Sets
from tests.tables.architectures.listed import by_name, images, normal, sets_of_calls, shallow, spread
from tests.tables.architectures.subject import Subject

FREE = ((2, 64, 96), (1, 96, 64), (3, 128, 96))
"""Numbers, heights and widths of images, for models that take any."""
LARGER = ((2, 96, 128), (1, 128, 96), (3, 160, 128))
"""The same for those that take none so small."""
KINDS = {
    "detection": "detection",
    "segmentation": "segmentation",
    "video": "video",
    "optical_flow": "optical flow",
    "quantization": "quantized",
}
"""The kind of a model by the module that it is of; the others classify images."""


def subjects() -> Mapping[str, Subject]:
    """Each model by its name. Raises ModuleNotFoundError without torchvision."""
    models = importlib.import_module("torchvision.models")
    return by_name([subject(name, models) for name in models.list_models()])


def subject(name: str, models: Any) -> Subject:
    """The subject of one name."""
    parts = models.get_model_builder(name).__module__.split(".")
    kind = next((KINDS[part] for part in parts if part in KINDS), "classification")
    options = {**OPTIONS[kind], **next((v for k, v in MORE.items() if name.startswith(k)), {})}

    def build() -> Any:
        model = shallow(made(models, name, options))
        model = model if kind == "quantized" else spread(model, SETS[kind](name, model))
        return certain(model) if kind == "detection" else model

    return Subject("torchvision", name, kind, build, lambda model: SETS[kind](name, model))


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "classification": {"num_classes": 10},
    "segmentation": {"num_classes": 5, "weights_backbone": None},
    "detection": {"num_classes": 5, "weights_backbone": None},
    "video": {"num_classes": 5},
    "optical flow": {},
    "quantized": {"num_classes": 10, "quantize": True},
}
"""What models of each kind are built with."""
FEW = {"detections_per_img": 8, "topk_candidates": 20}
FEW_OF_TWO = {"rpn_pre_nms_top_n_test": 40, "rpn_post_nms_top_n_test": 20, "box_detections_per_img": 8}
"""Results of detection in one stage and in two, of which no two are equally likely but for roundings, as of trained
models."""
MORE: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("fcos", "retinanet", "ssd"), FEW),
    **dict.fromkeys(("fasterrcnn", "keypointrcnn", "maskrcnn"), FEW_OF_TWO),
    "vit_h_14": {"image_size": 28},
    "vit_": {"image_size": 32},
    "googlenet": {"init_weights": False},
    "inception_v3": {"init_weights": False},
}
"""What some take beside that, by how their names begin."""


def made(models: Any, name: str, options: Mapping[str, Any]) -> Any:
    """The model with random weights."""
    model = models.get_model(name, weights=None, **options)
    if hasattr(model, "transform") and not name.startswith("ssd"):
        model.transform.min_size, model.transform.max_size = (64,), 128
    return model


REGRESSIONS = ("bbox_reg", "bbox_pred", "regression_head.module_list")
"""Layers that move boxes."""


def certain(model: Any) -> Any:
    """The model with boxes moved by a fifth of what `spread` gives, since the exponents of their sizes enlarge
    roundings, and without the biases by which those of one stage begin with next to nothing found."""
    for name, layer in model.named_modules():
        if name.endswith("cls_logits"):
            layer.bias.data.zero_()
        if any(part in name for part in REGRESSIONS) and isinstance(getattr(layer, "weight", None), torch.nn.Parameter):
            layer.weight.data.mul_(0.2)
    return model


def classified(name: str, model: Any) -> Sets:
    """Images to classify."""
    axes = {0: "batch", 2: "height", 3: "width"}
    if name.startswith("vit_"):
        side = model.image_size
        return images(model, [(2, side, side), (1, side, side), (3, side, side)], {0: "batch"}, 3)
    if name == "maxvit_t":
        return images(model, [(2, 224, 224), (1, 224, 224), (3, 224, 224)], {0: "batch"}, 3)
    return images(model, LARGER if "inception" in name else FREE, axes, 3)


def detected(name: str, model: Any) -> Sets:
    """An image in which things are found."""
    sizes = [(100, 120), (90, 70), (300, 320)] if name.startswith("ssd") else [(64, 96), (96, 70), (50, 50)]
    calls = {f"{h} x {w}": {"images": [normal(3, h, w).sigmoid()]} for h, w in sizes}
    return sets_of_calls(calls, {"images": [{1: "height", 2: "width"}]})


CLIPS = ((1, 8, 64, 96), (2, 4, 96, 64), (1, 6, 64, 64))
"""Numbers, frames, heights and widths of clips, for models that take any."""


def filmed(name: str, model: Any) -> Sets:
    """Clips to classify."""
    sizes, axes = CLIPS, {0: "batch", 2: "frames", 3: "height", 4: "width"}
    if name.startswith("mvit"):
        sizes, axes = ((1, 16, 224, 224), (2, 16, 224, 224)), {0: "batch"}
    if name == "s3d":
        sizes, axes = ((1, 16, 224, 224), (2, 16, 224, 224), (1, 32, 224, 224)), {0: "batch", 2: "frames"}
    calls = {f"{b} of {t} x {h} x {w}": {"x": normal(b, 3, t, h, w)} for b, t, h, w in sizes}
    return sets_of_calls(calls, {"x": axes})


def flowing(name: str, model: Any) -> Sets:
    """Two images, of which each place of one is found in the other."""
    sizes = ((1, 128, 136), (2, 144, 128), (1, 136, 136))
    calls = {
        f"{b} of {h} x {w}": {
            "image1": normal(b, 3, h, w).tanh(),
            "image2": normal(b, 3, h, w, seed=1).tanh(),
            "num_flow_updates": 3,
        }
        for b, h, w in sizes
    }
    axes = {0: "batch", 2: "8*height", 3: "8*width"}
    return sets_of_calls(calls, {"image1": axes, "image2": axes})


SETS = {
    "classification": classified,
    "segmentation": classified,
    "detection": detected,
    "video": filmed,
    "optical flow": flowing,
    "quantized": classified,
}
"""What models of each kind are called with."""
