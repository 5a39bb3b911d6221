"""The programs that a layout consists of: what each is called with, which of its sizes vary, what its tensors are
called."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch

from irkit.contract.sizes import check_sizes
from irkit.core.ir import Graph, Port, Value
from irkit.errors import ContractError
from lowering.errors import CaptureError
from lowering.program.program import Program
from lowering.program.to_onnx import export_model
from lowering.records.options import ExportOptions
from lowering.records.torch_internals import pytree

BATCH, SEQUENCE, PAST = "batch_size", "sequence_length", "past_sequence_length"
TOTAL = f"{PAST} + {SEQUENCE}"
"""The names of dimensions, as optimum has them."""

STEPS = {
    "read a prompt": {BATCH: 1, SEQUENCE: 4, PAST: 0},
    "go on token by token": {BATCH: 1, SEQUENCE: 1, PAST: 4},
}
"""What a decoder does."""

PROMPT = 3
"""So many tokens are in the cache of the example."""

LAYERED = re.compile(r"^(?:past_key_values|present)\.(\d+)\.")
CACHED = re.compile(r"^(?:output\.)?past_key_values\.(\d+)\.(key|value)$")


@attrs.frozen(eq=False)
class Part:
    """A program of a layout: its name, which is that of its file too, and what it is captured with.

    `names` gives what irkit calls by its path the name that readers look for: a parameter, or, where it is asked with
    True, a result, None for one that is left out. `needed` are sizes that the program must take, by what it does at
    them. `rewrite` is for modules whose Python goes over what varies; what the options say of it comes first.
    """

    name: str
    module: Any
    call: Mapping[str, Any]
    shapes: Mapping[str, Any]
    names: Callable[[str, bool], str | None] = lambda path, _: path
    needed: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)
    rewrite: bool | None = None

    def program(self, options: ExportOptions) -> Program:
        """The program. Raises what `irkit.to_onnx` raises, and CaptureError where a size that shall vary is fixed."""
        rewrite = self.rewrite if options.rewrite is None else options.rewrite
        asked = attrs.evolve(options, dynamic_shapes=dict(self.shapes), specialization="error", rewrite=rewrite)
        with torch.no_grad():
            return export_model(self.module, (), dict(self.call), asked)

    def graph(self, program: Program) -> Graph:
        """What is written: the graph with its conditions on data, its tensors called as readers want them, in order."""
        made = program.written()
        params = sides(made.signature.params, made.params, lambda path: self.names(path, False))
        results = sides(made.signature.results, made.results, lambda path: self.names(path, True))
        signature = attrs.evolve(
            made.signature, params=tuple(port for port, _ in params), results=tuple(port for port, _ in results)
        )
        return attrs.evolve(
            made, params=tuple(v for _, v in params), results=tuple(v for _, v in results), signature=signature
        )


def sides(
    ports: Sequence[Port], values: Sequence[Value], name_of: Callable[[str], str | None]
) -> list[tuple[Port, Value]]:
    """The parameters or results of a graph by their new names: caches by layer, behind all others."""
    found = list[tuple[Port, Value]]()
    for port, value in zip(ports, values, strict=True):
        name = name_of(port.name) if port.role in ("input", "output") else port.name
        if name is not None:
            found.append((attrs.evolve(port, name=name), value))
    return sorted(found, key=lambda each: layer_of(each[0].name))


def layer_of(name: str) -> int:
    """The number of the layer in the name of a cache; -1 in other names."""
    found = LAYERED.match(name)
    return int(found[1]) if found else -1


def decoder_part(model: Any, name: str = "model") -> Part:
    """A decoder as one program: it reads a prompt, behind a cache of length 0, and goes on from any other.

    Raises CaptureError for a model that does not keep keys and values of each layer.
    """
    call = decoder_call(model)
    axes = {0: BATCH, 1: SEQUENCE}
    shapes = {
        "input_ids": axes,
        "attention_mask": {0: BATCH, 1: TOTAL},
        "position_ids": axes,
        "past_key_values": {0: BATCH, 2: PAST},
    }
    return Part(name, model, call, {key: each for key, each in shapes.items() if key in call}, present_name, STEPS)


def decoder_call(model: Any) -> dict[str, Any]:
    """Two tokens behind three for each of two rows, the second padded on the left.

    The cache keeps all keys and values, also of layers that look at some of them only: readers hand back what they
    were given, and masks say which are looked at.
    """
    from transformers import DynamicCache

    call = prompt_call(model)
    with torch.no_grad():
        read = {name: each[:, :PROMPT] for name, each in call.items()}
        require_plain(model, getattr(model(**read, use_cache=True), "past_key_values", None))
    return call_behind(model, call, DynamicCache(), PROMPT)


def prompt_call(model: Any) -> dict[str, torch.Tensor]:
    """Five tokens for each of two rows, the second padded on the left. Raises CaptureError for a model that reads more
    than text, or keeps no cache."""
    takes = inspect.signature(model.forward).parameters
    if model.config.get_text_config() is not model.config:
        raise CaptureError(
            f"{type(model).__name__} reads more than text",
            hint="the layout of transformers.js takes models that read images; else give its language model, or "
            "lowering.generation all of it",
        )
    if "past_key_values" not in takes:
        raise CaptureError(
            f"{type(model).__name__} takes no past_key_values",
            hint="layouts are for models that keep keys and values; lowering.generation serves others too",
        )
    size = model.config.get_text_config().vocab_size
    ids = torch.randint(min(4, size - 1), size, (2, 5), generator=torch.Generator().manual_seed(0))
    return with_places(ids, {"input_ids": ids}, takes)


def with_places(
    ids: torch.Tensor, call: Mapping[str, torch.Tensor], takes: Mapping[str, object]
) -> dict[str, torch.Tensor]:
    """The call with the mask of rows of which the second is padded on the left, and with positions where a model takes
    them."""
    mask = torch.ones_like(ids)
    mask[1, 0] = 0
    places = {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)} if "position_ids" in takes else {}
    return {**call, "attention_mask": mask, **places}


def call_behind(model: Any, call: Mapping[str, torch.Tensor], cache: Any, count: int) -> dict[str, Any]:
    """The call of what is left when the first `count` tokens are read into a cache, which is empty."""
    with torch.no_grad():
        model(**{name: each[:, :count] for name, each in call.items()}, past_key_values=cache, use_cache=True)
    left = {name: each if name == "attention_mask" else each[:, count:] for name, each in call.items()}
    return {**left, "past_key_values": cache, "use_cache": True}


def require_plain(model: Any, cache: Any) -> None:
    """Raises CaptureError for a cache that has something else than keys and values by head."""
    layers = getattr(cache, "layers", None) or ()
    if not layers or not all(map(is_plain, layers)):
        kinds = ", ".join(sorted({type(layer).__name__ for layer in layers})) or "nothing"
        raise CaptureError(
            f"the cache of {type(model).__name__} is made of {kinds}, and layouts have names for keys and values only",
            hint="lowering.generation serves models with states of other kinds",
        )


def is_plain(layer: Any) -> bool:
    """Whether a layer of a cache has nothing but keys and values by head."""
    held = {name: each for name, each in vars(layer).items() if isinstance(each, torch.Tensor) and each.dim()}
    others = (each for name, each in vars(layer).items() if name not in held)
    return (
        set(held) == {"keys", "values"}
        and all(each.dim() == 4 for each in held.values())
        and not any(
            isinstance(leaf, torch.Tensor) and leaf.dim() for each in others for leaf in pytree.tree_leaves(each)
        )
    )


def present_name(path: str, is_result: bool) -> str:
    """`present.0.key` for the keys of the first layer that a model gives back; any other name as it is."""
    if not is_result:
        return path
    found = CACHED.match(path)
    return path if found is None else f"present.{found[1]}.{found[2]}"


def require_sizes(graph: Graph, sizes: Mapping[str, int], what: str) -> None:
    """Raises CaptureError where the graph refuses inputs of these sizes."""
    try:
        check_sizes(graph, sizes)
    except ContractError as error:
        raise CaptureError(
            f"the program that was captured cannot {what}: {error.what}",
            source=error.source,
            hint="lowering.generation captures a program for each kind of call",
        ) from error
