"""What torch is told of dimensions: statements as torch.export takes them, and what the user's names promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.export import Dim

from lowering.records.dynamic_shapes import Hint, LeafStatement, Place, Statement, bound_sizes, expected_size, range_of
from lowering.records.torch_internals import pytree


def torch_statement(leaf: LeafStatement, lenient: bool = False, torch_dims: bool = False) -> Any:
    """A statement as torch.export takes it: names and Dims become `Dim.AUTO`, and so does all else that varies if it is
    asked of leniently, with its range. With `torch_dims` torch gets the Dims themselves."""
    if isinstance(leaf, dict):
        return {axis: torch_statement(each, lenient, torch_dims) for axis, each in leaf.items()}
    if isinstance(leaf, str):
        return Dim.AUTO
    if (isinstance(leaf, Dim) and not torch_dims) or (lenient and isinstance(leaf, Hint) and is_dynamic(leaf)):
        low, high = range_of(leaf)
        return Dim.AUTO if (low, high) == (None, None) else Dim.AUTO(min=low, max=high)
    return leaf


def is_dynamic(hint: Any) -> bool:
    """Whether a hint is `Dim.DYNAMIC`, with a range or without."""
    return hint.type == Dim.DYNAMIC.type


def is_derived(said: Statement) -> bool:
    """Whether this is a Dim that torch computes from another one: `2 * batch`."""
    return isinstance(said, Dim) and type(said) is not Dim


def torch_tree(value: Any, each: Iterator[LeafStatement], lenient: bool = False, torch_dims: bool = False) -> Any:
    """The statements in the structure torch.export wants: that of the inputs, other classes as lists of children."""
    kind = pytree._get_node_type(value)
    node = pytree.SUPPORTED_NODES.get(kind)
    if node is None:
        return torch_statement(next(each), lenient, torch_dims)
    children, context = node.flatten_fn(value)
    described = [torch_tree(child, each, lenient, torch_dims) for child in children]
    return node.unflatten_fn(described, context) if kind in pytree.BUILTIN_TYPES else described


def promise(places: Sequence[Place], values: Sequence[Any], ranges: bool = True) -> None:
    """Tells torch, while it traces, that places of one name are of one size, what the expressions are equal to, and the
    ranges of Dims unless it knows them.

    torch learns from it what nothing in the model may show: that `past` is the same in every layer of a cache. Numbers
    that vary are sizes, 0 or more: torch puts a sum in place of a size only where it knows that it is none below 0.
    """
    sizes = [values[p.leaf].shape[p.axis] if p.axis >= 0 else values[p.leaf] for p in places]
    for place, size in zip(places, sizes, strict=True):
        if place.axis < 0:
            torch._check(size >= 0)
    bound = {name: size for name, (size, _) in bound_sizes(places, sizes).items()}
    for place, size in zip(places, sizes, strict=True):
        wanted = expected_size(place, bound)
        if wanted is not None and wanted is not size:
            torch._check(size == wanted)
    for place, size in zip(places, sizes, strict=True) if ranges else ():
        if place.least:
            torch._check(size >= place.least)
        if place.most is not None:
            torch._check(size <= place.most)
