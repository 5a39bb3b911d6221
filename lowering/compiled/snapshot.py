"""What a capture took for granted of Python's side: attributes, children, parameters, hooks, numbers of optimizers."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import attrs
import torch

from lowering.capture.inputs.contents import Contents, containers_of
from lowering.capture.inputs.variables import is_filled

MISSING = object()
PLAIN = (bool, int, float, complex, str, type(None), torch.dtype, torch.device)
"""Values that are compared as such; of others that they are the same objects."""
PARTS = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")
"""The dicts of a module whose contents its forward uses."""


@attrs.frozen(eq=False)
class Snapshot:
    """Places in dicts with what stood there, and how many there were in each dict."""

    places: tuple[tuple[Mapping[Any, Any], Any, Any], ...]
    counts: tuple[tuple[Mapping[Any, Any], int], ...]

    @classmethod
    def of(
        cls, module: torch.nn.Module, optimizers: Iterable[torch.optim.Optimizer], besides: Collection[Any] = ()
    ) -> Snapshot:
        """What a module, or the function that it stands for, and its optimizers are made of now, besides some places,
        by the identity of the dict and the key."""
        dicts = list(dicts_of(module, optimizers))
        return cls(
            tuple(
                (held, key, value) for held in dicts for key, value in held.items() if (id(held), key) not in besides
            ),
            tuple((held, len(held)) for held in dicts),
        )

    def holds(self) -> bool:
        """Whether all is as it was."""
        for held, key, value in self.places:
            now = held.get(key, MISSING)
            if now is not value and not (isinstance(value, PLAIN) and type(now) is type(value) and now == value):
                return False
        return all(len(held) == count for held, count in self.counts)


def dicts_of(module: torch.nn.Module, optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[Mapping[Any, Any]]:
    """The dicts that say what a call computes: attributes and parts of modules, groups of optimizers."""
    objects = Contents.of(containers_of(module)).objects
    behind = [each for held in objects for each in used_by(held) if isinstance(each, torch.nn.Module)]
    modules = dict.fromkeys(inner for each in (module, *behind) for inner in each.modules())
    for each in modules:
        yield each.__dict__
        for part in PARTS:
            yield each.__dict__.get(part, {})
    for optimizer in optimizers:
        yield from optimizer.param_groups


def used_by(function: Any) -> Iterator[Any]:
    """What a function uses without taking it as an argument: of the variables around it, of the module of Python that
    it is in, and of the object whose method it is; nothing of what is no function."""
    owner = getattr(function, "__self__", None) if inspect.ismethod(function) else None
    if owner is not None and not isinstance(owner, torch.nn.Module | torch.optim.Optimizer):
        yield from getattr(owner, "__dict__", {}).values()
    inner = function.__func__ if inspect.ismethod(function) else function
    if inspect.isfunction(inner):
        yield from [cell.cell_contents for cell in inner.__closure__ or () if is_filled(cell)]
        yield from [inner.__globals__[name] for name in inner.__code__.co_names if name in inner.__globals__]


@attrs.frozen(eq=False)
class Weights:
    """Tensors whose numbers are part of a graph: their places in memory, and torch's counts of writes."""

    tensors: tuple[torch.Tensor, ...]
    known: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, tensors: Iterable[torch.Tensor]) -> Weights:
        """These tensors as they are now."""
        found = tuple(tensors)
        return cls(found, tuple(map(mark, found)))

    def hold(self) -> bool:
        """Whether none was written since, as far as torch counts it."""
        return all(mark(tensor) == known for tensor, known in zip(self.tensors, self.known, strict=True))


def mark(tensor: torch.Tensor) -> tuple[int, int]:
    """Where a tensor lies, and how often torch saw it written."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version
