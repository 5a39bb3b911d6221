"""What the loop of transformers calls a model with: calls recorded, steps made one, the sizes that vary named."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Mapping, MutableMapping
from typing import Any

import torch

from lowering.capture.inputs.contents import keep_unchanged
from lowering.records.pytrees import STATES, flatten_cache, is_cache_type

TOKENS = ("input_ids", "decoder_input_ids", "inputs_embeds", "decoder_inputs_embeds")
"""Arguments with one entry a token that is read: [batch, seq], or [batch, seq, features]."""
BY_TOKEN = (*TOKENS, "token_type_ids", "mm_token_type_ids")
MASKS = ("attention_mask", "decoder_attention_mask")
CACHES = ("past_key_values", "cache_params")

Arguments = Mapping[str, Any]


def is_cache(value: object) -> bool:
    """Whether a value is a cache of transformers."""
    return is_cache_type(type(value))


def named_arguments(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Arguments) -> dict[str, Any]:
    """The arguments of a call by name, as the signature of `forward` has them."""
    if not args:
        return dict(kwargs)
    names = [p.name for p in inspect.signature(module.forward).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def recorded_calls(model: Any, example: Arguments, tokens: int) -> list[dict[str, Any]]:
    """The arguments of each call of `model.forward` while so many tokens are generated, as they were before it. What
    the model remembers of them (the length that its rotations are scaled for) is put back."""
    calls = list[dict[str, Any]]()
    watched = copy.copy(model)

    @functools.wraps(model.forward)
    def forward(*args: Any, **kwargs: Any) -> Any:
        calls.append(copy.deepcopy(named_arguments(model, args, kwargs)))
        return model.forward(*args, **kwargs)

    watched.forward = forward
    with torch.no_grad(), keep_unchanged(model):
        watched.generate(**copy.deepcopy(dict(example)), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
    return calls


def cache_of(call: Arguments) -> Any:
    """The cache among the arguments of a call; None where there is none."""
    return next((value for value in call.values() if is_cache(value)), None)


def merged_steps(first: Arguments, second: Arguments) -> dict[str, Any] | None:
    """Two steps of a token each as one step of two, which a model answers the same; None where that cannot be told, as
    of layers that read token by token: these compute otherwise where there is more than one."""
    cache = cache_of(first)
    if cache is None or any(path.rpartition(".")[2] in STATES or "states" in path for path in cache_paths(cache)):
        return None
    made = dict[str, Any]()
    for name, a in first.items():
        b = second.get(name)
        if is_cache(a) or not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
            made[name] = a
        elif name in BY_TOKEN:
            made[name] = torch.cat([a, b], 1)
        elif name == "position_ids":
            made[name] = torch.cat([a, b], -1)
        elif name == "cache_position":
            made[name] = torch.cat([a, b], 0)
        elif name in MASKS and a.dim() == 4:
            if a.shape != b.shape:
                return None
            made[name] = torch.cat([a, b], 2)
        else:
            made[name] = b if name in MASKS else a
    return made


def tokens_seen(cache: Any) -> int:
    """How many tokens a cache has seen; 0 of one that does not count them, as of states alone."""
    try:
        return 0 if cache is None else int(cache.get_seq_length())
    except ValueError:
        return 0


def cache_paths(cache: Any) -> list[str]:
    """The path of each tensor in a cache: `0.key`."""
    return flatten_cache(cache)[1]["paths"]


def in_own_caches(call: Arguments, result: Any) -> Any:
    """A result in whose place of a cache is the caller's own, which holds what is new: a model writes into the cache
    that it is given, and whoever gave it to `generate` goes on from it."""
    for name, own in call.items():
        new = result.get(name) if is_cache(own) and isinstance(result, MutableMapping) else None
        if new is not None and new is not own and type(new) is type(own):
            vars(own).update(vars(new))
            result[name] = own
    return result


# ---------------------------------------------------------------------------------------------- Sizes that vary


def shapes_of(call: Arguments) -> dict[str, Any]:
    """The dimensions of a call's tensors that vary, in the form of `dynamic_shapes`: "batch", "seq" tokens that are
    read, "past" ones that the cache has seen, "source" positions of an encoder."""
    tokens = next((call[name] for name in TOKENS if isinstance(call.get(name), torch.Tensor)), None)
    if tokens is None:
        tokens = next((value for value in call.values() if isinstance(value, torch.Tensor)), torch.empty(0, 0))
    batch, seq = tokens.shape[0], tokens.shape[1] if tokens.dim() > 1 else 0
    cache, reads = cache_of(call), "encoder_outputs" in call
    past = tokens_seen(cache)
    found = dict[str, Any]()
    for name, value in call.items():
        if is_cache(value):
            found[name] = cache_shapes(value)
        elif isinstance(value, torch.Tensor):
            found[name] = axes_of(name, value, batch, seq, past, reads)
        elif isinstance(value, Mapping) and name in MASKS:  # one for each kind of layer
            found[name] = {
                kind: axes_of(name, each, batch, seq, past, False) if isinstance(each, torch.Tensor) else None
                for kind, each in value.items()
            }
        elif isinstance(value, Mapping):
            found[name] = [
                {0: "batch", 1: "source"} if each.dim() > 1 and each.shape[0] == batch else {}
                for each in value.values()
                if isinstance(each, torch.Tensor)
            ]
    return {name: each for name, each in found.items() if each}


def axes_of(name: str, value: torch.Tensor, batch: int, seq: int, past: int, reads: bool) -> dict[int, str]:
    """The dimensions of one tensor that vary; `reads` where the model reads an encoder's states, to which the mask
    belongs then."""
    dims, shape = value.dim(), value.shape
    if name == "cache_position":
        return {0: "seq"}
    if name == "position_ids":
        own = {dims - 1: "seq"} if shape[-1] == seq else {}
        return own | ({dims - 2: "batch"} if dims > 1 and shape[-2] == batch else {})
    found = {0: "batch"} if dims and shape[0] == batch else {}
    if name in BY_TOKEN and dims > 1 and shape[1] == seq:
        return found | {1: "seq"}
    length = "past + seq" if past else "seq"
    if name == "attention_mask" and reads and dims == 2:
        return found | {1: "source"}
    if name in MASKS and dims == 2 and shape[1] == past + seq:
        return found | {1: length}
    if name in MASKS and dims == 4 and shape[2] == seq:
        return found | {2: "seq"} | ({3: length} if shape[3] == past + seq else {})
    return found


def cache_shapes(cache: Any) -> Any:
    """What varies in a cache: nothing where nothing is in it yet, the batch alone where its size is fixed."""
    paths = cache_paths(cache)
    if not paths:
        return None
    leaves, of_two = flatten_cache(cache)[0], type(cache).__name__ == "EncoderDecoderCache"
    parts = (cache.self_attention_cache, cache.cross_attention_cache) if of_two else (cache, cache)
    fixed = [any(type(layer).__name__.startswith("Static") for layer in getattr(part, "layers", ())) for part in parts]
    if not of_two and not fixed[0]:
        return {0: "batch", 2: "past"}

    def axes(path: str, leaf: Any) -> dict[int, str] | None:
        """What varies in a tensor of the cache: not the length of one of a fixed size."""
        cross = of_two and "cross" in path
        if not isinstance(leaf, torch.Tensor) or not leaf.dim():
            return None
        return {0: "batch"} | ({} if fixed[cross] else {2: "source" if cross else "past"})

    return [axes(path, leaf) for path, leaf in zip(paths, leaves, strict=True)]
