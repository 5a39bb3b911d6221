"""Patches of numbers that vary, from where the first of them is made: most small models make none, and the classes of
these numbers take longer to patch than such a model to be met."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

KINDS: tuple[Any, ...] = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Awaited:
    """What is called, once and in order, when a number that varies is made, in any thread; until then torch's classes
    of numbers tell of it."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.guard = threading.RLock()  # so that no block ends while another thread still patches for it
        self.own = [(kind, kind.__init__) for kind in KINDS]
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


def awaited() -> Awaited | None:
    """What waits for the first number; None where nothing does, as after the first."""
    return getattr(torch.SymInt.__init__, "awaited", None)


@contextmanager
def at_first_number(call: Callable[[], None]) -> Iterator[None]:
    """A block in which something is called when the first number that varies is made, after what waits for it
    already."""
    before = awaited()
    waiting = Awaited() if before is None else before
    waiting.calls.append(call)
    try:
        yield
    finally:
        with waiting.guard:
            waiting.calls.remove(call)
            if before is None:
                waiting.end()
