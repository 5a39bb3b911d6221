"""Models of Whisper's kind as onnxruntime-genai takes them: an encoder that gives the decoder's keys and values of its
states, and a decoder that reads these beside its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from lowering.errors import CaptureError
from lowering.layouts.parts import BATCH, PAST, SEQUENCE, Part
from lowering.layouts.seq2seq import CACHED, Decoding, paths_of

ENCODER, DECODER = "encoder", "decoder"
SOUND, STATES = "audio_features", "hidden_states"
"""What the encoder reads, and what it gives beside keys and values."""
SELF, CROSS = "{}_{}_self_", "{}_{}_cross_"
"""The names of caches, of (past or present, key or value), before the number of the layer."""
FRAMES = 3000
"""The length of a sound, of 30 seconds, in onnxruntime-genai."""


class Listening(nn.Module):
    """The encoder of a model, with the keys and values that its decoder makes of the states."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, audio_features: torch.Tensor) -> dict[str, Any]:
        """The states, and keys and values of each layer."""
        from transformers.modeling_outputs import BaseModelOutput

        states = self.model.get_encoder()(audio_features).last_hidden_state
        ids = torch.zeros(audio_features.shape[0], 1, dtype=torch.int64)
        found = self.model(
            decoder_input_ids=ids, encoder_outputs=BaseModelOutput(last_hidden_state=states), use_cache=True
        )
        made: dict[str, Any] = {STATES: states}
        for i, layer in enumerate(found.past_key_values.cross_attention_cache.layers):
            made[CROSS.format("present", "key") + str(i)] = layer.keys
            made[CROSS.format("present", "value") + str(i)] = layer.values
        return made


def listening_parts(model: Any) -> list[Part]:
    """The encoder, and the decoder. Raises CaptureError for a model that onnxruntime-genai has no layout for."""
    if model.config.model_type != "whisper":
        raise CaptureError(
            f"{type(model).__name__} has an encoder, and onnxruntime-genai has a layout for that of Whisper only",
            hint="take the layout of optimum, or of transformers.js",
        )
    frames, bins = 2 * model.config.max_source_positions, model.config.num_mel_bins
    if frames != FRAMES:
        raise CaptureError(
            f"the model hears sounds of {frames} frames, and onnxruntime-genai gives {FRAMES}",
            hint="take the layout of optimum, or of transformers.js",
        )
    sound = torch.rand(2, bins, frames, generator=torch.Generator().manual_seed(0))
    hearing, module = Listening(model).eval(), Decoding(model).eval()
    size = model.config.vocab_size
    ids = torch.randint(min(4, size - 1), size, (2, 5), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        states = hearing(sound)[STATES]
        cache = module(ids[:, :3], encoder_hidden_states=states)["past_key_values"]
    varying = [{0: BATCH, **({} if path.startswith("cross") else {2: PAST})} for path in paths_of(cache)]
    call = {"input_ids": ids[:, 3:], "past_key_values": cache}
    shapes = {"input_ids": {0: BATCH, 1: SEQUENCE}, "past_key_values": varying}
    needed = {
        "read a prompt": {BATCH: 1, SEQUENCE: 4, PAST: 0},
        "go on token by token": {BATCH: 1, SEQUENCE: 1, PAST: 4},
    }
    return [
        Part(ENCODER, hearing, {SOUND: sound}, {SOUND: {0: BATCH}}, heard_name),
        Part(DECODER, module, call, shapes, cache_name, needed),
    ]


def heard_name(path: str, is_result: bool) -> str:
    """What the encoder gives, by the names of its dictionary."""
    return path.removeprefix("output.") if is_result else path


def cache_name(path: str, is_result: bool) -> str | None:
    """`past_key_self_0` for the keys of the first layer; those of the encoder's states are no results."""
    found = CACHED.match(path)
    if found is None:
        return path.removeprefix("output.") if is_result else path
    side, layer, kind = found.groups()
    if side == "cross":
        return None if is_result else CROSS.format("past", kind) + layer
    return SELF.format("present" if is_result else "past", kind) + layer
