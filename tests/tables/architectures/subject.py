"""What a source of models hands to the sweep: a model to build, and calls of it at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import attrs
import torch

from lowering.architectures.inputs import Sets
from lowering.records.torch_internals import pytree

Call = Mapping[str, Any]
"""The keyword arguments of one call."""
Sizes = Mapping[str, int]
Block = Callable[[], AbstractContextManager[Any]]
"""A block that can be entered again and again."""


@attrs.frozen(eq=False)
class Subject:
    """One model: the library that it is of, its name there, its kind, how it is built, and how it is called.

    `build` is called once, in a process of its own, after `torch.manual_seed(0)`; `sets` gets what it returned. Both
    may raise anything: it is told as the reason why the model does not run in eager. `prepared` gives the sets with
    what the library's own exporters compute beforehand, and the block in which they export; None where they do nothing.
    """

    source: str
    name: str
    kind: str
    build: Callable[[], torch.nn.Module]
    sets: Callable[[torch.nn.Module], Sets]
    prepared: Callable[[torch.nn.Module, Sets], tuple[Sets, Block] | None] = lambda *_: None


def sets_of(call: Callable[..., Call], sizes: Sequence[Sizes], names: Sequence[str] = ()) -> Sets:
    """The sets of inputs that `call(**sizes)` gives; the first is the example.

    An axis is dynamic where its length is not the same in all calls. It bears the name of the size that it is equal
    to in all of them; else one of its own, by its argument and position.
    """
    calls = [dict(call(**each)) for each in sizes]
    titles = [*names] or [" ".join(f"{k}={v}" for k, v in each.items()) for each in sizes]
    shapes: dict[str, Any] = {}
    for name in calls[0]:
        leaves = [pytree.tree_leaves(each[name]) for each in calls]
        spec = pytree.tree_structure(calls[0][name])
        axes = [
            axes_of(f"{name}_{i}" if len(leaves[0]) > 1 else name, same, sizes)
            for i, same in enumerate(zip(*leaves, strict=True))
        ]
        shapes[name] = pytree.tree_unflatten(axes, spec)
    return Sets(calls[0], shapes, dict(zip(titles[1:], calls[1:], strict=True)))


def axes_of(name: str, same: Sequence[Any], sizes: Sequence[Sizes]) -> dict[int, str] | None:
    """The dynamic axes of one argument, by what it is in each call; None for none."""
    if not isinstance(same[0], torch.Tensor):
        return None
    found: dict[int, str] = {}
    for axis in range(same[0].dim()):
        lengths = [tensor.shape[axis] for tensor in same]
        if len(set(lengths)) > 1:
            equal = (size for size in sizes[0] if [each[size] for each in sizes] == lengths)
            found[axis] = next(equal, f"{name}_{axis}")
    return found or None
