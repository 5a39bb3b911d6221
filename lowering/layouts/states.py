"""Decoders that keep other states beside keys and values, of convolutions and recurrences: a program for several
tokens, behind whatever was read before, and one for a single token, for which such models have another way."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from torch.export import Dim

from lowering.errors import CaptureError
from lowering.layouts.parts import BATCH, PAST, PROMPT, SEQUENCE, TOTAL, Part, call_behind, prompt_call
from lowering.records.pytrees import flatten_cache

SEVERAL, SINGLE = "model", "model_single_token"
"""The names of the two programs; readers find both under the first."""

SSM = "ssm"
RECURRENT: Mapping[str, str] = MappingProxyType(
    {
        "lfm2": "",
        "lfm2_moe": "",
        "qwen3_next": "recurrent",
        "granitemoehybrid": SSM,
        "falcon_h1": SSM,
        "nemotron_h": SSM,
    }
)
"""What transformers.js 4.3.1 calls a recurrent state, by the type of the model (`getCacheNames` in its configs.js)."""

CACHED = re.compile(r"^(?:output\.)?past_key_values\.(\d+)\.(?:(key|value)|(conv)_states\.0|recurrent_states\.0)$")
LAYERS = ("layer_types", "layers_block_type")
OLDER = MappingProxyType({"linear_attention": "mamba", "full_attention": "attention"})
"""The kinds of layers as transformers.js knows them in models with such states: by older names, which transformers
still takes."""

READ = {"read a prompt": {BATCH: 1, SEQUENCE: 4, PAST: 0}}
WENT_ON = {"go on token by token": {BATCH: 1, PAST: 4}}


def keeps_states(model: Any) -> bool:
    """Whether a decoder keeps states for which transformers.js has names."""
    return model.config.model_type in RECURRENT and model.can_generate()


def state_parts(model: Any) -> list[Part]:
    """The two programs. A state of zeros is that of nothing read, so that the first reads prompts too.

    Raises CaptureError for states that transformers.js has no names for.
    """
    from transformers import DynamicCache

    asked, name_of = prompt_call(model), names_of(RECURRENT[model.config.model_type])
    several, single = (
        call_behind(model, asked, DynamicCache(config=model.config), count) for count in (PROMPT, PROMPT + 1)
    )
    require_named(model, flatten_cache(single["past_key_values"])[1]["paths"], name_of)
    ahead = {0: BATCH, 1: Dim(SEQUENCE, min=2)}
    return [
        Part(SEVERAL, model, several, shapes_of(several, ahead, TOTAL), name_of, READ, rewrite=True),
        Part(SINGLE, model, single, shapes_of(single, {0: BATCH}, f"{PAST} + 1"), name_of, WENT_ON),
    ]


def older_kinds(model: Any) -> dict[str, list[str]]:
    """What the configuration of a model says of its layers, by names that transformers.js knows."""
    if RECURRENT.get(model.config.model_type) != SSM:
        return {}
    said = model.config.to_dict()
    return {name: [OLDER.get(each, each) for each in said[name]] for name in LAYERS if said.get(name)}


def shapes_of(call: Mapping[str, Any], ahead: Mapping[int, Any], total: str) -> dict[str, Any]:
    """What varies of the arguments of a call: of tokens and positions `ahead`, of masks as many as `total` says."""
    paths: Sequence[str] = flatten_cache(call["past_key_values"])[1]["paths"]
    varying = [{0: BATCH, 2: PAST} if path.endswith(("key", "value")) else {0: BATCH} for path in paths]
    shapes = {name: ahead for name in ("input_ids", "position_ids") if name in call}
    return {**shapes, "attention_mask": {0: BATCH, 1: total}, "past_key_values": varying}


def names_of(recurrent: str) -> Callable[[str, bool], str]:
    """What gives states the names that transformers.js has for them: `past_conv.0`, and `present_conv.0` of a
    result."""

    def name(path: str, is_result: bool) -> str:
        found = CACHED.match(path)
        if found is None:
            return path
        layer, side, convolution = found.groups()
        if side:
            return f"{'present' if is_result else 'past_key_values'}.{layer}.{side}"
        return f"{'present' if is_result else 'past'}_{convolution or recurrent}.{layer}"

    return name


def require_named(model: Any, paths: Sequence[str], name_of: Callable[[str, bool], str]) -> None:
    """Raises CaptureError for a state that has no name in transformers.js."""
    for path in paths:
        if path.endswith(("key", "value")):
            continue
        name = name_of(f"past_key_values.{path}", False)
        if name == f"past_key_values.{path}" or "_." in name:
            raise CaptureError(
                f"transformers.js has no name for the state {path} of {type(model).__name__}",
                hint="lowering.generation serves models with states of other kinds",
            )
