"""`int(x.shape[0])` and `len(x)` in the code of a model, which Python answers with a number that no longer varies."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

ASKED = re.compile(r"\b(int|len)\(")


class Meta(type):
    """What makes `Int` look like int to those who ask."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        number = args[0] if len(args) == 1 and not kwargs else None
        number = number.item() if isinstance(number, torch.Tensor) else number
        if isinstance(number, torch.SymInt | torch.SymFloat):
            return torch.sym_int(number)
        return int(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, int | torch.SymInt)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, int)

    def __eq__(cls, other: object) -> bool:
        return other is int or other is cls

    def __hash__(cls) -> int:
        return hash(int)


class Int(int, metaclass=Meta):
    """int, but that sizes stay what they are."""


def length(value: Any) -> Any:
    """len, but of a tensor the size, which may vary."""
    return value.shape[0] if isinstance(value, torch.Tensor) and value.ndim else len(value)


def asks_for_sizes(error: Any) -> bool:
    """Whether the line that an error of capture names calls int or len."""
    return ASKED.search(getattr(error, "source", "")) is not None


@contextmanager
def sizes_kept(module: torch.nn.Module, places: Sequence[Any] = ()) -> Iterator[None]:
    """A block in which the modules of Python that a model's code stands in, and those whose globals are `places`, have
    an `int` and a `len` that keep sizes, and numbers out of data.

    Who compares types with `is`, or hands `int` to torch as an element type, sees the difference: this is for models
    that cannot be traced without.
    """
    changed: list[tuple[dict[str, Any], str]] = []
    try:
        for names in (*namespaces(module), *places):
            for name, kept in (("int", Int), ("len", length)):
                if name not in names:
                    names[name] = kept
                    changed.append((names, name))
        yield
    finally:
        for names, name in changed:
            del names[name]


def namespaces(module: torch.nn.Module) -> Iterator[dict[str, Any]]:
    """The globals of the functions of a model, but for torch's own."""
    for each in module.modules():
        for kind in type(each).__mro__:
            place = sys.modules.get(kind.__module__)
            if place is not None and kind.__module__.partition(".")[0] not in ("torch", "builtins", "lowering"):
                yield vars(place)
        forward = vars(each).get("forward")
        if isinstance(forward, types.FunctionType):
            yield forward.__globals__
