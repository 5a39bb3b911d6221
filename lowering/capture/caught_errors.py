"""What a model catches while torch.export runs it: an error that other sizes or data would not raise is no fact."""

from __future__ import annotations

import sys
from typing import Any

import attrs
import torch
from torch.overrides import TorchFunctionMode

from irkit.errors import IrkitError
from lowering.capture.guards.guards import line_at
from lowering.capture.patches.zero_questions import Heard, user_frame
from lowering.errors import CaptureError
from lowering.records.programs import first_line
from lowering.records.torch_internals import MODULES_OF_TRACING, C

OF_CONTENT = frozenset(
    "data_ptr storage untyped_storage typed_storage __dlpack__ share_memory_ pin_memory numpy __array__ tolist "
    "__format__ __deepcopy__ __reduce_ex__ item".split()
)
"""What asks for memory or numbers, which only tensors of eager's have."""
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


@attrs.define(eq=False)
class Raised:
    """The first error that an operator of the model raised and that eager may not raise elsewhere, and its line."""

    error: Exception | None = None
    line: str = ""

    def refuse(self, heard: Heard) -> None:
        """Raises CaptureError where the model caught an error and went on: torch keeps no condition of it."""
        if self.error is None and heard.raised:
            self.error, frame = heard.raised[0]
            self.line = line_at(frame)
        if self.error is None:
            return
        if isinstance(self.error, IrkitError):
            raise self.error
        raise CaptureError(
            f"the model goes on where torch refuses an operator: {type(self.error).__name__}: {first_line(self.error)}",
            source=self.line,
            hint="ask for the sizes or numbers before: if x.shape[0] > 5",
        ) from self.error


class Caught(TorchFunctionMode):
    """A block in which errors are noted that functions raise for sizes that vary, for data, or for want of tracing."""

    def __init__(self, raised: Raised) -> None:
        super().__init__()
        self.raised = raised

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the function gives, whose error is kept."""
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            asked = getattr(func, "__name__", "") in OF_CONTENT
            if self.raised.error is None and (asked or may_differ(error, (*args, *(kwargs or {}).values()))):
                self.raised.error, self.raised.line = error, line_at(user_frame(sys._getframe(1)))
            raise


def may_differ(error: Exception, given: Any) -> bool:
    """Whether eager may raise no such error, at some sizes or for some data."""
    unmet = isinstance(error, RuntimeError) and type(error) is not RuntimeError  # no kernel without numbers
    own = unmet or isinstance(error, IrkitError) or type(error).__module__.startswith(MODULES_OF_TRACING)
    return own or (not isinstance(error, AttributeError) and varies(given))


def varies(given: Any) -> bool:
    """Whether sizes that vary, or tensors of such sizes, are among what is given."""
    if isinstance(given, SYMBOLIC):
        return True
    if isinstance(given, torch.Tensor):
        with C.DisableTorchFunction():
            return any(isinstance(size, torch.SymInt) for size in given.shape)
    if isinstance(given, dict):
        return varies(tuple(given.values()))
    if isinstance(given, slice):
        return varies((given.start, given.stop, given.step))
    return isinstance(given, list | tuple) and any(map(varies, given))
