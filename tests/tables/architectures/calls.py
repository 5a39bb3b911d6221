"""How any model of transformers is called: by what its forward takes, and by what its configuration says of sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from lowering.architectures.inputs import Sets, decoder_sets
from tests.tables.architectures.subject import Call, Sizes, sets_of

TRIES: tuple[tuple[str, ...], ...] = (("input_ids",), ("pixel_values",), ("input_values",), ("input_features",))


def sets_for(model: Any) -> Sets:
    """The calls of a model, at sizes at which eager takes them. Raises what eager raises for the first."""
    names = parameters_of(model)
    if "past_key_values" in names and "input_ids" in names and "decoder_input_ids" not in names:
        try:
            return decoder_sets(model)
        except Exception:  # a model that wants more than tokens
            pass
    call = lambda **sizes: inputs(model, names, sizes)  # noqa: E731
    first = {"batch": 2, "seq": 7, "target": 5}
    runs(model, call(**first))
    others = [
        o
        for o in ({"batch": 3, "seq": 11, "target": 6}, {"batch": 1, "seq": 5, "target": 3})
        if taken(model, call(**o))
    ]
    return sets_of(call, [first, *others])


def parameters_of(model: torch.nn.Module) -> Mapping[str, inspect.Parameter]:
    """What forward takes."""
    return inspect.signature(model.forward).parameters


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


def inputs(model: Any, names: Mapping[str, inspect.Parameter], sizes: Sizes) -> dict[str, Any]:
    """The arguments that a model needs, of these sizes."""
    found: dict[str, Any] = {}
    for name, parameter in names.items():
        if name in MAKERS and (parameter.default is inspect.Parameter.empty or name in ALWAYS):
            found[name] = MAKERS[name](model.config, sizes)
    if "input_ids" not in found:
        found.pop("attention_mask", None)
    if "use_cache" in names:
        found["use_cache"] = False
    return found


ALWAYS = frozenset(
    {"input_ids", "attention_mask", "pixel_values", "decoder_input_ids", "input_values", "input_features"}
)


def text(config: Any, sizes: Sizes, key: str = "seq") -> torch.Tensor:
    """Token ids."""
    generator = torch.Generator().manual_seed(sizes["batch"] * 31 + sizes[key])
    vocabulary = getattr(config.get_text_config(), "vocab_size", None) or 99
    return torch.randint(5, max(6, min(vocabulary, 99) - 40), (sizes["batch"], sizes[key]), generator=generator)


def mask(_: Any, sizes: Sizes) -> torch.Tensor:
    """What is no padding: the last token of the second text is."""
    found = torch.ones(sizes["batch"], sizes["seq"], dtype=torch.int64)
    found[1:, -1] = 0
    return found


def image(config: Any, sizes: Sizes) -> torch.Tensor:
    """Images of the size that the configuration names."""
    vision = getattr(config, "vision_config", config)
    side = getattr(vision, "image_size", None) or 64
    high, wide = (side, side) if isinstance(side, int) else tuple(side)
    channels = getattr(vision, "num_channels", None) or getattr(vision, "in_channels", None) or 3
    generator = torch.Generator().manual_seed(sizes["batch"])
    return torch.randn(sizes["batch"], channels, high, wide, generator=generator)


MAKERS: Mapping[str, Callable[[Any, Sizes], Any]] = {
    "input_ids": text,
    "decoder_input_ids": lambda config, sizes: text(config, sizes, "target"),
    "attention_mask": mask,
    "pixel_values": image,
}
"""What makes each argument."""
