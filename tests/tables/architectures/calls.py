"""How any model of transformers is called: by what its forward takes, and by what its configuration says of sizes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import torch

from lowering.architectures.inputs import Sets, decoder_sets
from tests.tables.architectures.arguments import MAKERS, Asked, placeholders
from tests.tables.architectures.subject import Call, Sizes, sets_of

FIRST: Sizes = {"batch": 2, "seq": 7, "target": 5, "samples": 4000, "frames": 100, "height": 0, "width": 0}
"""The sizes of the example; those of images are added to what the configuration names."""
OTHERS: tuple[Sizes, ...] = (
    {"batch": 3, "seq": 11, "target": 6, "samples": 5200, "frames": 132, "height": 32, "width": 64},
    {"batch": 1, "seq": 5, "target": 3, "samples": 3300, "frames": 68, "height": 64, "width": 32},
)
GIVEN = frozenset(
    """input_ids attention_mask pixel_values decoder_input_ids input_values input_features bbox past_values
    pixel_values_videos image_grid_thw image_sizes input_features_mask past_time_features past_observed_mask
    flattened_patches mm_token_type_ids""".split()
)
"""What is given even where forward has a default."""
BESIDE = frozenset(
    "encoder_hidden_states visual_feats visual_pos states actions rewards returns_to_go timesteps".split()
)
"""What is given where a model takes nothing else."""
LONE = {
    "pixel_values": ("image_grid_thw", "pixel_values_videos", "image_sizes"),
    "input_ids": ("attention_mask", "bbox", "mm_token_type_ids"),
}
"""What says nothing without another argument."""
SWITCHES = {"use_cache": False, "return_loss": None}


def sets_for(model: Any) -> Sets:
    """The calls of a model, at sizes at which eager takes them. Raises what eager raises for the first call."""
    names = inspect.signature(model.forward).parameters
    if "past_key_values" in names and "input_ids" in names and not {"decoder_input_ids", "pixel_values"} & set(names):
        try:
            return decoder_sets(model)
        except Exception:  # a model that wants more than tokens
            pass
    told: Exception | None = None
    for asked in ways(model, names):
        try:
            runs(model, call_of(asked, names, FIRST))
        except Exception as error:  # models raise anything
            told = told or error
            continue
        return sets_of(lambda asked=asked, **sizes: call_of(asked, names, sizes), [FIRST, *sizes_taken(asked, names)])
    raise told or ValueError(f"{type(model).__name__} takes nothing that is known here")


def sizes_taken(asked: Asked, names: Mapping[str, inspect.Parameter]) -> list[Sizes]:
    """Other sizes at which eager takes a model: all of them other, or those but one kind."""
    for fixed in ((), IMAGE, SOUND, (*IMAGE, *SOUND), ("seq", *IMAGE, *SOUND), tuple(FIRST)):
        tried = [{**each, **{name: FIRST[name] for name in fixed}} for each in OTHERS]
        found: list[Sizes] = [sizes for sizes in tried if taken(asked.model, call_of(asked, names, sizes))]
        if len(found) == len(tried) and fixed != tuple(FIRST):
            return found
    return []


IMAGE, SOUND = ("height", "width"), ("samples", "frames")


def ways(model: Any, names: Mapping[str, inspect.Parameter]) -> Iterator[Asked]:
    """How a model may be asked, the fullest first: with images among its tokens, with videos, tokens alone."""
    given = [name for name in names if name in MAKERS and (required(names[name]) or name in GIVEN)]
    whole = Asked(model, tuple(given))
    optional = {"pixel_values", "pixel_values_videos", "image_grid_thw", "input_features", "input_values"}
    optional = {name for name in optional if name in given and not required(names[name])}
    mixed = "input_ids" in given and bool(optional)
    videos = () if "pixel_values" not in given else ("pixel_values_videos",)
    others = tuple(name for name in names if name in BESIDE and name not in given)
    for layout in ("", "video", "turned"):
        if mixed:
            image = whole.without("pixel_values_videos", "input_values").laid(layout)
            yield from placeholders(image, FIRST)
            if "image_sizes" in given and not required(names["image_sizes"]):
                yield from placeholders(image.without("image_sizes"), FIRST)
            continue
        for side in (0, 64, 128, 224):
            if not side or "pixel_values" in given:
                yield whole.without(*videos).laid(layout).of_side(side)
    if mixed:
        yield whole.without(*optional, "mm_token_type_ids")
    if getattr(model.config, "num_codebooks", 0):
        yield whole.without(*optional).laid("codebooks")
    if others:
        yield attrs.evolve(whole.without(*optional), names=(*whole.without(*optional).names, *others))


def required(parameter: inspect.Parameter) -> bool:
    """Whether forward has no default for a parameter."""
    named = parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return named and parameter.default is inspect.Parameter.empty


def runs(model: torch.nn.Module, call: Call) -> Any:
    """What eager answers."""
    with torch.no_grad():
        return model(**call)


def taken(model: torch.nn.Module, call: Call) -> bool:
    """Whether eager takes a call."""
    try:
        runs(model, call)
    except Exception:  # models raise anything
        return False
    return True


def call_of(asked: Asked, names: Mapping[str, inspect.Parameter], sizes: Sizes) -> dict[str, Any]:
    """The arguments of these sizes."""
    found = {name: MAKERS[name](asked, sizes) for name in asked.names}
    for name, others in LONE.items():
        if name not in found:
            found = {k: v for k, v in found.items() if k not in others or required(names[k])}
    return found | {name: value for name, value in SWITCHES.items() if name in names and value is not None}
