"""Errors that a model catches while it is captured and that eager does not raise there: traced objects raise them."""

from __future__ import annotations

import copy
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import thread as pools
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import CodeType, FrameType
from typing import Any

import attrs
import torch

from lowering.capture.inputs.contents import keep_unchanged
from lowering.capture.patches.table import Occasion, patch_torch
from lowering.capture.patches.zero_questions import HERE, LIBRARIES, TORCH
from lowering.errors import CaptureError
from lowering.records.programs import first_line

HINT = "ask before instead of catching the error, or compute this outside the model"


ASYNC = CO_COROUTINE | CO_ASYNC_GENERATOR
"""What a task runs, which keeps the error that one raises."""
KEEPING = (pools.__file__,)
"""Files of Python's library that keep an error, for who asks a future for it."""
STARTS: CodeType = threading.Thread.start.__code__
Place = tuple[str, int, str]


@attrs.define(eq=False, repr=False)
class Errors:
    """The errors that reached functions of the model's own which may catch some: their texts by file, line and type,
    and how often each came there (`times`). It hears of each function that is called in this thread, and in those that
    are started in it, as a debugger does, and hands all on to who heard `before`. The model's own is also what stands
    in the files that begin with `packages`."""

    packages: tuple[str, ...] = ()
    before: Any = None
    found: dict[Place, str] = attrs.field(factory=dict)
    times: Counter[Place] = attrs.field(factory=Counter)
    known: dict[int, tuple[CodeType, bool]] = attrs.field(factory=dict)

    def begin(self, frame: FrameType, event: str, told: Any) -> Any:
        """What hears of the events in a function that is called now."""
        code = frame.f_code
        known = self.known.get(id(code))
        if known is None:
            known = self.known[id(code)] = (code, may_keep(code) and is_own(code.co_filename, self.packages))
        if code is STARTS:
            thread = frame.f_locals["self"]
            thread.run = partial(self.run_heard, thread.run)
        other = None if self.before is None else self.before(frame, event, told)
        if not known[1]:
            return other
        if self.before is None:
            frame.f_trace_lines = False
        return partial(self.within, other)

    def run_heard(self, run: Callable[[], None]) -> None:
        """What a thread runs, of which this hears, too."""
        sys.settrace(self.begin)
        try:
            run()
        finally:
            sys.settrace(None)

    def within(self, other: Any, frame: FrameType, event: str, told: Any) -> Any:
        """Hears of an event in such a function, as `other` does."""
        if event == "exception" and not issubclass(told[0], StopIteration | StopAsyncIteration | GeneratorExit):
            key = (frame.f_code.co_filename, frame.f_lineno, told[0].__name__)
            self.found.setdefault(key, first_line(told[1]) if isinstance(told[1], Exception) else str(told[1]))
            self.times[key] += 1
        return partial(self.within, None if other is None else other(frame, event, told))


def may_keep(code: CodeType) -> bool:
    """Whether errors may stay in what runs a code."""
    return bool(code.co_exceptiontable) or bool(code.co_flags & ASYNC)


def is_own(name: str, packages: tuple[str, ...]) -> bool:
    """Whether a file is of the model's author, rather than of a library, or keeps errors for that."""
    return name.startswith(packages) or name in KEEPING or not name.startswith((TORCH, HERE, *GENERATED, *LIBRARIES))


GENERATED = ("<frozen ", "<attrs generated ", "<eval_with_key>", "<__array_function__ ")
"""How the names of what stands in no file begin that libraries make; `exec` in a model names its code otherwise."""


@contextmanager
def errors_heard(catches: bool, packages: tuple[str, ...] = ()) -> Iterator[Errors]:
    """A block in which errors are heard, if the model `catches` any; it is given these. What stands in files that begin
    with `packages` is the model's own."""
    errors = Errors(packages, sys.gettrace())
    if not catches:
        yield errors
        return
    sys.settrace(errors.begin)
    try:
        yield errors
    finally:
        sys.settrace(errors.before)


def refuse_swallowed(errors: Errors, module: torch.nn.Module, given: Callable[[], tuple[Any, Any]]) -> None:
    """Raises CaptureError where the captured model caught an error that it does not raise in eager for what is `given`,
    arguments and keyword arguments; only where one was heard is it called again."""
    if not errors.found:
        return
    eager = heard_in_eager(module, given, errors.packages)
    for (name, line, kind), text in errors.found.items():
        if errors.times[name, line, kind] > eager.times[name, line, kind]:
            what = f"the model goes on where it caught an error that eager does not raise: {kind}: {text}"
            raise CaptureError(what, source=f"{name}:{line}", hint=HINT)


def heard_in_eager(module: torch.nn.Module, given: Callable[[], tuple[Any, Any]], packages: tuple[str, ...]) -> Errors:
    """The errors of a model in eager, by the ways that it has for exports; what it writes is put back."""
    with patch_torch(Occasion("example for exports", module)), ExitStack() as blocks:
        blocks.enter_context(torch.random.fork_rng(devices=()))
        blocks.enter_context(torch.no_grad())
        try:
            called = copy.deepcopy(module)
        except Exception:  # locks, files and their like have no copy
            called = module
            held = [(each, each.detach().clone()) for each in (*module.buffers(), *module.parameters())]
            blocks.callback(lambda: [each.copy_(content) for each, content in held])
            blocks.enter_context(keep_unchanged(module))
        args, kwargs = given()
        with errors_heard(True, packages) as errors, suppress(Exception):  # what eager refuses is told elsewhere
            called(*args, **kwargs)
    return errors
