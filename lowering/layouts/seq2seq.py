"""Encoders and decoders: what reads a source, what reads the first tokens behind it, what goes on from there."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn

from irkit.support.arguments import type_text
from lowering.errors import CaptureError
from lowering.layouts.encoders import text_call
from lowering.layouts.parts import BATCH, PAST, SEQUENCE, Part
from lowering.records.pytrees import flatten_cache

SOURCE = "encoder_sequence_length"
TARGET, BEFORE = f"decoder_{SEQUENCE}", PAST.replace("sequence", "decoder_sequence")
ENCODER, FIRST, WITH_PAST, MERGED = "encoder_model", "decoder_model", "decoder_with_past_model", "decoder_model_merged"
"""The names of the models, as optimum has them."""

CACHED = re.compile(r"^(?:output\.)?past_key_values\.(self|cross)_attention_cache\.(\d+)\.(key|value)$")
SIDES = {"self": "decoder", "cross": "encoder"}


class Decoding(nn.Module):
    """The decoder of a model with its head, called as readers call it: tokens, with the states of the encoder or with
    a cache that has what comes of them."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        encoder_attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        past_key_values: Any = None,
    ) -> dict[str, Any]:
        """Logits, and the cache."""
        from transformers.modeling_outputs import BaseModelOutput

        if encoder_hidden_states is None:  # nothing but their sizes is looked at
            keys = past_key_values.cross_attention_cache.layers[0].keys
            encoder_hidden_states = keys.new_zeros(keys.shape[0], keys.shape[2], self.model.config.hidden_size)
        masks = {} if encoder_attention_mask is None else {"attention_mask": encoder_attention_mask}
        found = self.model(
            decoder_input_ids=input_ids,
            encoder_outputs=BaseModelOutput(last_hidden_state=encoder_hidden_states),
            past_key_values=past_key_values,
            use_cache=True,
            **masks,
        )
        return {"logits": found.logits, "past_key_values": found.past_key_values}


def seq2seq_parts(model: Any) -> list[Part]:
    """The encoder, the decoder behind its states, and the decoder behind a cache. Raises CaptureError for an encoder
    that reads neither tokens nor features of sounds, and for caches of something else than keys and values."""
    first = encoder_part(model)
    with torch.no_grad():
        states = first.module(**first.call).last_hidden_state
    module = Decoding(model).eval()
    masks = {"encoder_attention_mask": first.call["attention_mask"]} if "attention_mask" in first.call else {}
    size = model.config.get_text_config(decoder=True).vocab_size
    ids = torch.randint(min(4, size - 1), size, (2, 3), generator=torch.Generator().manual_seed(1))
    call = {"input_ids": ids, **masks, "encoder_hidden_states": states}
    with torch.no_grad():
        cache = module(**call)["past_key_values"]
    if type(cache).__name__ != "EncoderDecoderCache" or not all(
        CACHED.match(f"past_key_values.{path}") for path in paths_of(cache)
    ):
        raise CaptureError(
            f"the cache of {type(model).__name__} is {type_text(cache)}, and layouts have names for keys and "
            "values of a decoder and an encoder only",
            hint="lowering.generation serves other models",
        )
    source = {0: BATCH, 1: SOURCE}
    shapes: dict[str, Any] = {"input_ids": {0: BATCH, 1: TARGET}, **dict.fromkeys(masks, source)}
    varying = [{0: BATCH, 2: SOURCE if path.startswith("cross") else BEFORE} for path in paths_of(cache)]
    sizes = {BATCH: 1, SOURCE: 3}
    return [
        first,
        Part(
            FIRST,
            module,
            call,
            {**shapes, "encoder_hidden_states": source},
            first_name,
            {
                "read its first token": {**sizes, TARGET: 1},
                "read several tokens": {**sizes, TARGET: 4},
            },
        ),
        Part(
            WITH_PAST,
            module,
            {"input_ids": ids[:, :2], **masks, "past_key_values": cache},
            {**shapes, "past_key_values": varying},
            later_name,
            {"go on token by token": {**sizes, TARGET: 1, BEFORE: 1}},
        ),
    ]


def paths_of(cache: Any) -> list[str]:
    """The path of each tensor in a cache."""
    return flatten_cache(cache)[1]["paths"]


def encoder_part(model: Any) -> Part:
    """The encoder alone, of tokens or of features of sounds."""
    encoder, main = model.get_encoder(), model.main_input_name
    if main == "input_ids":
        call, _ = text_call(model)
        call = {name: each for name, each in call.items() if name in ("input_ids", "attention_mask")}
        shapes = {name: {0: BATCH, 1: SOURCE} for name in call}
        return Part(ENCODER, encoder, call, shapes, needed={"read one token": {BATCH: 1, SOURCE: 1}})
    if main == "input_features" and hasattr(model.config, "num_mel_bins"):
        frames = 2 * model.config.max_source_positions
        sound = torch.rand(2, model.config.num_mel_bins, frames, generator=torch.Generator().manual_seed(0))
        return Part(ENCODER, encoder, {"input_features": sound}, {"input_features": {0: BATCH}})
    raise CaptureError(
        f"the encoder of {type(model).__name__} reads {main}",
        hint="layouts are for encoders of tokens, or of features of sounds as Whisper's",
    )


def first_name(path: str, is_result: bool) -> str:
    """`present.0.encoder.key` for the keys of the first layer that the decoder takes of the encoder's states."""
    found = CACHED.match(path)
    if found is None:
        return path
    return f"{'present' if is_result else 'past_key_values'}.{found[2]}.{SIDES[found[1]]}.{found[3]}"


def later_name(path: str, is_result: bool) -> str | None:
    """The same; keys and values of the encoder's states, which stay as they are, are no results."""
    found = CACHED.match(path)
    return None if found is not None and found[1] == "cross" and is_result else first_name(path, is_result)
