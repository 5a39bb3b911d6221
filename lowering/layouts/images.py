"""Models that read images beside text, in three programs: what embeds tokens, what reads images, and what goes on from
embeddings. The reader puts the features of the images into the places that the text holds for them."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from lowering.errors import CaptureError
from lowering.layouts.parts import (
    BATCH,
    PAST,
    PROMPT,
    SEQUENCE,
    STEPS,
    TOTAL,
    Part,
    call_behind,
    present_name,
    require_plain,
    with_places,
)

EMBED, SEE, DECODE = "embed_tokens", "vision_encoder", "decoder_model_merged"
"""The names of the models, as transformers.js has them."""

FEATURES, EMBEDDED, IMAGES = "image_features", "inputs_embeds", "num_images"


class Embedding(nn.Module):
    """The embeddings of tokens."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.embedding = model.get_input_embeddings()

    def forward(self, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """`inputs_embeds` [batch, sequence, width] of `input_ids` [batch, sequence]."""
        return {EMBEDDED: self.embedding(input_ids)}


class Seeing(nn.Module):
    """What becomes of images before they meet the text."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: torch.Tensor, **others: torch.Tensor) -> dict[str, torch.Tensor]:
        """`image_features` [places in the text, width], those of all images behind each other."""
        found = self.model.get_image_features(pixel_values=pixel_values, **others)
        features = getattr(found, "pooler_output", found)
        if not isinstance(features, torch.Tensor):
            features = torch.cat(features)
        return {FEATURES: features.reshape(-1, features.shape[-1])}


def reads_images(model: Any) -> bool:
    """Whether a model writes text behind a text with images in it."""
    config = model.config
    return (
        model.can_generate()
        and not config.is_encoder_decoder
        and hasattr(config, "vision_config")
        and callable(getattr(model, "get_image_features", None))
    )


def image_parts(model: Any) -> list[Part]:
    """The three programs. Raises CaptureError for a model that asks for more than pixels of an image, and for caches of
    something else than keys and values."""
    ids = token_ids(model)
    embedding = Embedding(model).eval()
    return [
        Part(EMBED, embedding, {"input_ids": ids}, {"input_ids": {0: BATCH, 1: SEQUENCE}}),
        seeing_part(model),
        decoding_part(model, embedding, ids),
    ]


def token_ids(model: Any) -> torch.Tensor:
    """Five tokens for each of two rows, none of them the place of an image."""
    config = model.config.get_text_config()
    ids = torch.randint(min(4, config.vocab_size - 1), config.vocab_size, (2, 5), generator=seeded(0))
    places = getattr(model.config, "image_token_id", None)
    return torch.where(ids == places, ids - 1, ids) if isinstance(places, int) else ids


def seeing_part(model: Any) -> Part:
    """What reads images of the size that the configuration says, any number of them."""
    takes = inspect.signature(model.get_image_features).parameters
    needed = [name for name, each in takes.items() if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    others = ", ".join(name for name in needed if name != "pixel_values")
    if others:
        raise CaptureError(
            f"{type(model).__name__} asks for {others} beside pixels, and layouts have no names for them",
            hint="lowering.generation serves it",
        )
    config = model.config.vision_config
    size = getattr(config, "image_size", None) or 224
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    shape = (getattr(config, "num_channels", 3), height, width)
    if "pixel_attention_mask" not in takes:
        pixels = torch.rand(2, *shape, generator=seeded(0))
        return Part(SEE, Seeing(model).eval(), {"pixel_values": pixels}, {"pixel_values": {0: IMAGES}}, rewrite=True)
    call = {
        "pixel_values": torch.rand(2, 3, *shape, generator=seeded(0)),
        "pixel_attention_mask": torch.ones((2, 3, height, width), dtype=torch.bool),
    }
    return Part(SEE, Seeing(model).eval(), call, {key: {0: BATCH, 1: IMAGES} for key in call}, rewrite=True)


def decoding_part(model: Any, embedding: nn.Module, ids: torch.Tensor) -> Part:
    """The language model behind embeddings and a cache: two embeddings behind three, the second row padded."""
    from transformers import DynamicCache

    with torch.no_grad():
        embedded = embedding(ids)[EMBEDDED].detach()
        whole = with_places(ids, {EMBEDDED: embedded}, inspect.signature(model.forward).parameters)
        read = {name: each[:, :PROMPT] for name, each in whole.items()}
        require_plain(model, getattr(model(**read, use_cache=True), "past_key_values", None))
    call = call_behind(model, whole, DynamicCache(), PROMPT)
    shapes: dict[str, Any] = {key: {0: BATCH, 1: SEQUENCE} for key in whole}
    shapes |= {"attention_mask": {0: BATCH, 1: TOTAL}, "past_key_values": {0: BATCH, 2: PAST}}
    return Part(DECODE, model, call, shapes, result_name, STEPS)


def result_name(path: str, is_result: bool) -> str | None:
    """`present.0.key` for the keys of the first layer; logits; nothing else is a result."""
    name = present_name(path, is_result)
    return name if not is_result or name.startswith(("logits", "present.")) else None


def seeded(seed: int) -> torch.Generator:
    """What draws the same numbers each time."""
    return torch.Generator().manual_seed(seed)
