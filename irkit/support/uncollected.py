"""Work without the cyclic garbage collector, for functions that build many values: values form no cycles."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from irkit.support.tracebacks import is_told

__tracebackhide__ = is_told

P = ParamSpec("P")
R = TypeVar("R")

PAUSED: ContextVar[bool] = ContextVar("PAUSED", default=False)
"""Whether the collector is paused by a function that runs here."""


def without_collector(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run with the cyclic collector paused, which is as it was afterwards, also after an error.

    The collector visits everything that lives in the process, a captured torch program included, again and again while
    values are made, and finds nothing: a Value is freed when its last user is. On a program of 4,500 FX nodes it took
    more than a third of the time.
    """

    return switched(function, gc.isenabled, gc.disable, gc.enable)


def with_collector(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run with the cyclic collector as it was before `without_collector` paused it: what torch.export
    leaves are cycles, and they hold tensors."""

    return switched(function, PAUSED.get, gc.enable, gc.disable)


def switched(
    function: Callable[P, R], wanted: Callable[[], bool], before: Callable[[], None], after: Callable[[], None]
) -> Callable[P, R]:
    """The function, run between two others where that is `wanted`: they pause the collector, or have it run again."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not wanted():
            return function(*args, **kwargs)
        before()
        held = PAUSED.set(not gc.isenabled())
        try:
            return function(*args, **kwargs)
        finally:
            PAUSED.reset(held)
            after()

    return run


@contextmanager
def collector_paused() -> Generator[None]:
    """A block without the cyclic collector, for what imports many modules: each of their classes is a cycle, but one
    that lives on, and to look for others took a third of the time of `import irkit`. What it leaves counts as old, so
    that the collector does not go through all of it as soon as it runs again."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # others may keep objects from the collector for good
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        gc.enable()
