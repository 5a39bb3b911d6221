"""Errors that a model catches while it is captured and that eager does not raise there: traced objects raise them."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
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


@attrs.define(eq=False, repr=False)
class Errors:
    """The errors that reached functions of the model's own which may catch some, by file, line and type, and their
    texts. It hears of each function that is called, as a debugger does, and hands all on to who heard `before`."""

    before: Any = None
    found: dict[tuple[str, int, str], str] = attrs.field(factory=dict)
    known: dict[int, tuple[CodeType, bool]] = attrs.field(factory=dict)

    def begin(self, frame: FrameType, event: str, told: Any) -> Any:
        """What hears of the events in a function that is called now."""
        code = frame.f_code
        known = self.known.get(id(code))
        if known is None:
            mine = bool(code.co_exceptiontable) and is_own(code.co_filename)
            known = self.known[id(code)] = (code, mine)
        other = None if self.before is None else self.before(frame, event, told)
        if not known[1]:
            return other
        if self.before is None:
            frame.f_trace_lines = False
        return partial(self.within, other)

    def within(self, other: Any, frame: FrameType, event: str, told: Any) -> Any:
        """Hears of an event in such a function, as `other` does."""
        if event == "exception" and not issubclass(told[0], StopIteration | GeneratorExit):
            key = (frame.f_code.co_filename, frame.f_lineno, told[0].__name__)
            self.found.setdefault(key, first_line(told[1]) if isinstance(told[1], Exception) else str(told[1]))
        return partial(self.within, None if other is None else other(frame, event, told))


def is_own(name: str) -> bool:
    """Whether a file is of the model's author, rather than of a library."""
    return not name.startswith((TORCH, HERE, "<", *LIBRARIES))


@contextmanager
def errors_heard(catches: bool) -> Iterator[Errors]:
    """A block in which errors are heard, if the model `catches` any; it is given these."""
    errors = Errors(sys.gettrace())
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
    eager = heard_in_eager(module, given)
    for (name, line, kind), text in errors.found.items():
        if (name, line, kind) not in eager.found:
            what = f"the model goes on where it caught an error that eager does not raise: {kind}: {text}"
            raise CaptureError(what, source=f"{name}:{line}", hint=HINT)


def heard_in_eager(module: torch.nn.Module, given: Callable[[], tuple[Any, Any]]) -> Errors:
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
        with errors_heard(True) as errors, suppress(Exception):  # what eager refuses is told elsewhere
            called(*args, **kwargs)
    return errors
