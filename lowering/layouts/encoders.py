"""Models that read once: of tokens, images or sounds, with whatever head."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from lowering.errors import CaptureError
from lowering.layouts.parts import BATCH, SEQUENCE, Part

ONE_TOKEN = {"read one token": {BATCH: 1, SEQUENCE: 1}}


def encoder_part(model: Any, name: str = "model") -> Part:
    """A model that reads once, as one program. Raises CaptureError for one that reads something else than token ids,
    images or sounds."""
    main = model.main_input_name
    known = {"input_ids": text_call, "pixel_values": image_call, "input_values": sound_call}
    if main not in known:
        raise CaptureError(
            f"{type(model).__name__} reads {main}", hint=f"layouts are for models that read one of {', '.join(known)}"
        )
    call, shapes = known[main](model)
    return Part(name, model, call, shapes, needed=ONE_TOKEN if main == "input_ids" else {})


def text_call(model: Any) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Two texts of four tokens, the second padded on the right."""
    config = model.config.get_text_config()
    size, takes = config.vocab_size, inspect.signature(model.forward).parameters
    ids = torch.randint(min(4, size - 1), size, (2, 4), generator=torch.Generator().manual_seed(0))
    call: dict[str, Any] = {"input_ids": ids}
    if "attention_mask" in takes:
        call["attention_mask"] = torch.ones_like(ids)
        call["attention_mask"][1, 3] = 0
    if "token_type_ids" in takes and (getattr(config, "type_vocab_size", 0) or 0) > 1:
        call["token_type_ids"] = torch.zeros_like(ids)
    shapes = {key: {0: BATCH, 1: SEQUENCE} for key in call}
    return (call | {"use_cache": False} if "use_cache" in takes else call), shapes


def image_call(model: Any) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Two images of the size that the configuration says."""
    config = model.config
    size = getattr(config, "image_size", None) or 224
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    image = torch.rand(2, getattr(config, "num_channels", 3), height, width, generator=torch.Generator().manual_seed(0))
    return {"pixel_values": image}, {"pixel_values": {0: BATCH}}


def sound_call(_: Any) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Two sounds of a second at 16 kHz."""
    sound = torch.rand(2, 16_000, generator=torch.Generator().manual_seed(0))
    return {"input_values": sound}, {"input_values": {0: BATCH, 1: SEQUENCE}}
