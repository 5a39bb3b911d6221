"""Every configuration class of transformers: a model with a head, or the main one, and the main one beside it."""

from __future__ import annotations

import importlib
import inspect
import random
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from lowering.architectures.inputs import Sets
from tests.tables.architectures.calls import sets_for
from tests.tables.architectures.subject import Block, Sizes, Subject, sets_of
from tests.tables.architectures.tiny import missing, tiny_configurations

HEADS = (
    "masked_lm causal_lm seq_to_seq_causal_lm multimodal_lm image_text_to_text speech_seq_2_seq ctc "
    "image_classification object_detection instance_segmentation universal_segmentation semantic_segmentation "
    "depth_estimation video_classification audio_classification zero_shot_image_classification "
    "zero_shot_object_detection text_to_spectrogram text_to_waveform time_series_prediction keypoint_detection "
    "keypoint_matching mask_generation image_matting image_to_image sequence_classification token_classification "
    "question_answering document_question_answering visual_question_answering pretraining masked_image_modeling "
    "audio_xvector decision rnnt tdt backbone text_encoding"
).split()
"""The heads of transformers' tables of classes, those first that are most of their own."""


def subjects() -> Mapping[str, Subject]:
    """One subject for each configuration class, with a head where there is one; then the main models of those that had
    one. The names are model types of transformers, with the class after a dot where a table names it."""
    importlib.import_module("transformers")  # says what is missing
    from transformers.models.auto import configuration_auto, modeling_auto

    tables = {head: getattr(modeling_auto, f"MODEL_FOR_{head.upper()}_MAPPING_NAMES") for head in HEADS}
    tables["base"] = modeling_auto.MODEL_MAPPING_NAMES
    first: dict[str, Subject] = {}
    rest: dict[str, Subject] = {}
    for kind in vars(configuration_auto)["CONFIG_MAPPING_NAMES"]:
        heads = [head for head in tables if kind in tables[head]]
        both: list[str] = [*heads[:1], *(["base"] if "base" in heads else [])]
        chosen = list(dict.fromkeys(both)) or [""]
        for position, head in enumerate(chosen):
            named = tables[head][kind] if head else ""
            name = named if isinstance(named, str) else named[0]
            key = f"{kind}.{name}" if name else kind
            (first if not position else rest).setdefault(key, subject(key, kind, name, head))
    return {**first, **{key: each for key, each in rest.items() if key not in first}}


def subject(key: str, model_type: str, name: str, head: str) -> Subject:
    """The subject of a model type and a class; "" for the first that its module has of that configuration."""
    found: dict[int, Sets] = {}

    def build() -> torch.nn.Module:
        model, sets = built(model_type, name)
        found[id(model)] = sets
        return model

    kind = head.replace("_", " ") or "part"
    return Subject("transformers", key, kind, build, lambda model: found.pop(id(model)), prepared)


def prepared(model: torch.nn.Module, sets: Sets) -> tuple[Sets, Block] | None:
    """The sets with what transformers' exporters compute of the grids of images and the lengths of sounds beforehand,
    and the block in which its attention takes images of one size at once; None where they compute nothing."""
    importlib.import_module("transformers.exporters.exporter_dynamo")  # has the attention of packed images
    from transformers.exporters.utils import apply_patches, precompute_export_inputs

    calls = [dict(call) for call in (sets.example, *sets.others.values())]
    for call in calls:
        for part in (model, getattr(model, "base_model", model)):
            with torch.no_grad():
                precompute_export_inputs(part, call)
    if calls[0].keys() == sets.example.keys():
        return None
    numbers: list[Sizes] = [{"call": i} for i in range(len(calls))]
    ready = sets_of(lambda **at: calls[at["call"]], numbers, ["", *sets.others])
    return ready, partial(apply_patches, "dynamo")


def built(kind: str, name: str) -> tuple[torch.nn.Module, Sets]:
    """A tiny model that runs in eager, and its calls: of the first tiny configuration with which it does. Raises what
    the first of them raises where none does."""
    told: Exception | None = None
    for configuration in tiny_configurations(kind):
        try:
            return completed(configuration, name)
        except Exception as error:  # configurations that do not fit raise anything
            told = told or error
    raise told or ValueError(f"there is no tiny configuration of {kind}")


def completed(configuration: Callable[[], Any], name: str) -> tuple[torch.nn.Module, Sets]:
    """The model of a configuration and its calls, with what the model reads of the configuration and that leaves out.
    Raises whatever the model raises."""
    left_out: dict[str, dict[str, Any]] = {}
    whole = partial(with_attributes, configuration, left_out)
    while True:
        try:
            made = model_of(partial(class_of, whole(), name), partial(of_class, whole, name))
            return made, sets_for(made)
        except AttributeError as error:
            told = LEFT_OUT.search(str(error))
            if told is None or told[2] in left_out.get(told[1], {}):
                raise
            left_out.setdefault(told[1], {})[told[2]] = missing(told[2])


def of_class(configuration: Callable[[], Any], name: str) -> Any:
    """A configuration, or the one in it that the class takes: transformers' tables name classes of parts, too."""
    made = configuration()
    wanted = getattr(class_of(made, name), "config_class", None)
    parts = (each for each in nested(made) if type(each) is wanted)
    return made if wanted is type(made) else next(parts, made)


LEFT_OUT = re.compile(r"^'(\w+)' object has no attribute '(\w+)'$")


def with_attributes(configuration: Callable[[], Any], left_out: Mapping[str, Mapping[str, Any]]) -> Any:
    """A configuration with these attributes of it and of nested ones, by the names of their classes."""
    made = configuration()
    for each in nested(made):
        for name, value in left_out.get(type(each).__name__, {}).items():
            setattr(each, name, value)
    return made


def nested(configuration: Any) -> Iterator[Any]:
    """A configuration, and those nested in it at any depth."""
    yield configuration
    for each in list(vars(configuration).values()):
        if hasattr(each, "model_type") and hasattr(each, "to_dict"):
            yield from nested(each)


def model_of(found: Callable[[], type[torch.nn.Module]], configuration: Callable[[], Any]) -> torch.nn.Module:
    """The model in eval mode, with the same random weights at each call. Raises ValueError for a large one."""
    made = found()
    with torch.device("meta"):
        size = parameters(made, configuration())
    if size > LARGEST:
        raise ValueError(f"{made.__name__} has {size:,} parameters with this configuration")
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    model = made(configuration()).eval()
    with torch.no_grad():
        for weight in model.parameters():
            wide = weight.ndim > 1 and weight.numel() > 0 and weight.is_floating_point()
            if wide and weight.square().mean() * weight[0].numel() < FAINT:
                torch.nn.init.normal_(weight, std=weight[0].numel() ** -0.5)
    return model


FAINT = 0.25
"""How much of the square of its input a layer keeps at least: configurations that were made narrow have weights so
small that after some layers any result would agree with any other, and routers begin with zeros, which choose none."""


LARGEST = 40_000_000
"""Parameters that a tiny model has at most."""


def parameters(made: type[torch.nn.Module], configuration: Any) -> int:
    """How many parameters a model has; 0 where it cannot be made without memory."""
    try:
        return sum(p.numel() for p in made(configuration).parameters())
    except Exception:  # models that look at their weights while they are made
        return 0


def class_of(configuration: Any, name: str) -> type[torch.nn.Module]:
    """The class of that name, or the last in the module of the configuration that is made of it alone."""
    import transformers

    if name:
        return getattr(transformers, name)
    module = importlib.import_module(type(configuration).__module__.replace(".configuration_", ".modeling_"))
    found = list(classes(module, type(configuration), transformers.PreTrainedModel))
    if not found:
        raise ValueError(f"no model of transformers is made of a {type(configuration).__name__} alone")
    return found[-1]


def classes(module: Any, configuration: type, base: Any) -> Iterator[type[torch.nn.Module]]:
    """The classes of models in a module whose configuration it is, bases and abstract ones left out."""
    found: dict[str, Any] = vars(module)
    for name, each in found.items():
        if not inspect.isclass(each) or not issubclass(each, base) or name.endswith("PreTrainedModel"):
            continue
        made: Any = each
        if made.__module__ == module.__name__ and made.config_class is configuration:
            yield made
