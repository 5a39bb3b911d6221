"""Attributes of torch's modules and classes that are others for a while."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced_attributes(*replaced: tuple[Any, str, Any]) -> Iterator[None]:
    """A block in which each (holder, name, value) holds; afterwards they are what they were, those that a class has
    from its base among them. It is entered for each run of a model, and so does no more than that."""
    before = [(holder, name, holder.__dict__.get(name)) for holder, name, _ in replaced]
    for holder, name, value in replaced:
        setattr(holder, name, value)
    try:
        yield
    finally:
        for holder, name, value in before:
            if value is None:
                delattr(holder, name)
            else:
                setattr(holder, name, value)


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
