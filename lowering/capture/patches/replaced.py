"""Attributes of torch's modules and classes that are others for a while."""

from __future__ import annotations

from collections.abc import Iterator
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
