"""What architectures are called with: an example whose sizes vary, and the sets of inputs at which it is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import torch

from lowering.records.pytrees import STATES, is_cache_type, leaf_paths, register_classes
from lowering.records.torch_internals import pytree

VOCABULARY = 99
FIRST = 5
"""Smaller token ids are special in some vocabulary."""


@attrs.frozen(eq=False)
class Sets:
    """The example that a model is exported with, its dynamic dimensions, and other calls by name."""

    example: Mapping[str, Any]
    dynamic_shapes: Mapping[str, Any]
    others: Mapping[str, Mapping[str, Any]]


def tokens(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    """Token ids that are none of the special ones, the same at each call."""
    generator = torch.Generator().manual_seed(seed + 31 * batch + length)
    return torch.randint(FIRST, VOCABULARY - 9, (batch, length), generator=generator)


def decoder_sets(model: torch.nn.Module) -> Sets:
    """Those of a decoder: with a cache, where it keeps keys and values in one; else without."""
    cache = grown_cache(model, 2, 5)
    if cache is None:
        return encoder_sets(model, use_cache=False)

    def call(batch: int, past: int, seq: int) -> dict[str, Any]:
        mask = torch.ones(batch, past + seq, dtype=torch.int64)
        held = grown_cache(model, batch, past) if past else type(cache)(config=getattr(model, "config", None))
        return {"input_ids": tokens(batch, seq, 1), "attention_mask": mask, "past_key_values": held}

    shapes = {
        "input_ids": {0: "batch", 1: "seq"},
        "attention_mask": {0: "batch", 1: "past + seq"},
        "past_key_values": {0: "batch", 2: "past"},
    }
    others = {"prefill": call(2, 0, 6), "empty cache": call(3, 0, 1), "decode": call(2, 7, 1), "batch 1": call(1, 4, 3)}
    return Sets(call(2, 5, 3), shapes, others)


def grown_cache(model: torch.nn.Module, batch: int, past: int) -> Any:
    """The cache of a model that has read some tokens; None where a model keeps something else."""
    ids = tokens(batch, past)
    with torch.no_grad():
        result = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=True)
    cache = getattr(result, "past_key_values", None)
    if cache is None or not is_cache_type(type(cache)) or type(cache).__name__ != "DynamicCache":
        return None
    with register_classes(cache):
        leaves, spec = pytree.tree_flatten(cache)
        states = any(STATES.intersection(path) for path in leaf_paths(spec))
    plain = all(isinstance(leaf, torch.Tensor) and leaf.dim() == 4 and leaf.shape[2] == past for leaf in leaves)
    return cache if leaves and plain and not states else None


def encoder_sets(_: torch.nn.Module, **more: Any) -> Sets:
    """Those of a model that reads tokens once."""

    def call(batch: int, seq: int) -> dict[str, Any]:
        ids = tokens(batch, seq)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **more}

    axes = {0: "batch", 1: "seq"}
    others = {"longer": call(3, 11), "one token": call(2, 1), "batch 1": call(1, 5)}
    return Sets(call(2, 7), {"input_ids": axes, "attention_mask": axes}, others)


def seq2seq_sets(_: torch.nn.Module) -> Sets:
    """Those of an encoder and a decoder, both of tokens."""

    def call(batch: int, source: int, target: int) -> dict[str, Any]:
        ids = tokens(batch, source)
        read = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        return {**read, "decoder_input_ids": tokens(batch, target, 2), "use_cache": False}

    axes = {0: "batch", 1: "source"}
    shapes = {"input_ids": axes, "attention_mask": axes, "decoder_input_ids": {0: "batch", 1: "target"}}
    others = {"longer": call(3, 11, 6), "first token": call(2, 7, 1), "batch 1": call(1, 5, 3)}
    return Sets(call(2, 7, 5), shapes, others)


def image_sets(_: torch.nn.Module) -> Sets:
    """Those of a model that classifies images of one size."""

    def call(batch: int) -> dict[str, Any]:
        return {"pixel_values": torch.randn(batch, 3, 32, 32, generator=torch.Generator().manual_seed(batch))}

    return Sets(call(2), {"pixel_values": {0: "batch"}}, {"batch 3": call(3), "batch 1": call(1)})


SETS = {"decoder": decoder_sets, "encoder": encoder_sets, "seq2seq": seq2seq_sets, "image": image_sets}
"""How a model of each task is called."""
