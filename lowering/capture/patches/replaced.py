"""Attributes of torch's modules and classes that are others for a while: at once, or from the first number on."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

MISSING = object()
"""What a holder has of its own where it has nothing."""


class Replaced:
    """A block, entered once, in which each (holder, name, value) holds; afterwards they are what they were, those that
    a class has from its base among them. Many are entered for each run of a model, so it is no generator, and does no
    more than that."""

    __slots__ = ("before", "replaced")

    def __init__(self, replaced: tuple[tuple[Any, str, Any], ...]) -> None:
        self.replaced = replaced
        self.before: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> None:
        self.before = [(holder, name, holder.__dict__.get(name, MISSING)) for holder, name, _ in self.replaced]
        for holder, name, value in self.replaced:
            setattr(holder, name, value)

    def __exit__(self, *_: object) -> None:
        for holder, name, value in self.before:
            if value is MISSING:
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


# ---------------------------------------------------------------------------------------------- the first number


NUMBERS: tuple[Any, ...] = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""torch's classes of numbers that vary. Most small models make none, and these classes take longer to patch than such a
model to be met."""


class Awaited:
    """What is called, once and in order, when a number that varies is made, in any thread; until then torch's classes
    of numbers tell of it."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.guard = threading.RLock()  # so that no block ends while another thread still patches for it
        self.own = [(kind, kind.__init__) for kind in NUMBERS]
        self.waits = True
        for kind, own in self.own:
            kind.__init__ = self.telling(own)

    def telling(self, own: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        """The `__init__` of a class of numbers that tells of the first."""

        def made(number: Any, node: Any) -> None:
            self.begin()
            own(number, node)

        setattr(made, "awaited", self)  # noqa: B010  (functions have no such attribute to the type checker)
        return made

    def begin(self) -> None:
        """Calls what waits, where nothing has yet."""
        with self.guard:
            if self.waits:
                self.end()
                for call in self.calls:
                    call()

    def end(self) -> None:
        """Waits no more."""
        with self.guard:
            if self.waits:
                self.waits = False
                for kind, own in self.own:
                    kind.__init__ = own


def what_waits() -> Awaited | None:
    """What waits for the first number; None where nothing does, as after the first."""
    return getattr(torch.SymInt.__init__, "awaited", None)


@contextmanager
def at_first_number(call: Callable[[], None]) -> Iterator[None]:
    """A block in which something is called when the first number that varies is made, after what waits for it
    already."""
    before = what_waits()
    waiting = Awaited() if before is None else before
    waiting.calls.append(call)
    try:
        yield
    finally:
        with waiting.guard:
            waiting.calls.remove(call)
            if before is None:
                waiting.end()
