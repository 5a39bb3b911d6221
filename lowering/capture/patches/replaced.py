"""Attributes of torch's modules and classes that are others for a while."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Replaced:
    """A block, entered once, in which each (holder, name, value) holds; afterwards they are what they were, those that
    a class has from its base among them. Many are entered for each run of a model, so it is no generator, and does no
    more than that."""

    __slots__ = ("before", "replaced")

    def __init__(self, replaced: tuple[tuple[Any, str, Any], ...]) -> None:
        self.replaced = replaced
        self.before: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> None:
        self.before = [(holder, name, holder.__dict__.get(name)) for holder, name, _ in self.replaced]
        for holder, name, value in self.replaced:
            setattr(holder, name, value)

    def __exit__(self, *_: object) -> None:
        for holder, name, value in self.before:
            if value is None:
                delattr(holder, name)
            else:
                setattr(holder, name, value)


def replaced_attributes(*replaced: tuple[Any, str, Any]) -> Replaced:
    """A block in which each (holder, name, value) holds."""
    return Replaced(replaced)


@contextmanager
def replaced_in_classes(replaced: Mapping[type, Mapping[str, Any]]) -> Iterator[None]:
    """The same of classes that have many others, by their dicts: to set one after another takes five times as long.
    Special methods (`__add__`) a class must have of its own, in Python: else it needs places for them in C."""
    held = [(attributes_of(kind), values) for kind, values in replaced.items()]
    before = [{name: attributes[name] for name in values.keys() & attributes.keys()} for attributes, values in held]
    try:
        for attributes, values in held:
            attributes.update(values)
        forget_lookups(replaced)
        yield
    finally:
        for (attributes, values), own in zip(held, before, strict=True):
            for name in values.keys() - own.keys():
                attributes.pop(name, None)
            attributes.update(own)
        forget_lookups(replaced)


def attributes_of(kind: type) -> dict[str, Any]:
    """The dict behind vars(kind), which itself can only be read."""
    return gc.get_referents(vars(kind))[0]


def forget_lookups(kinds: Iterable[type]) -> None:
    """Makes Python look for attributes of classes anew, where their dicts were changed."""
    for kind in kinds:
        kind.__doc__ = kind.__doc__
