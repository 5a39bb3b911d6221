"""What makes one tensor share the memory of another is refused while torch traces."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from lowering.capture.guards.guards import line_at
from lowering.capture.patches.zero_questions import user_frame
from lowering.errors import CaptureError


class Sharing(TorchFunctionMode):
    """A block in which it is an error that a tensor is made to be another one: torch traces `y.data = x` as nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the function gives. Raises CaptureError for `set_` and for an assignment to `data`."""
        sets = getattr(func, "__name__", "") in ("set_", "set_.source_Tensor")
        if sets or func == torch.Tensor.data.__set__:  # type: ignore[attr-defined]
            name = "Tensor.set_" if sets else "an assignment to Tensor.data"
            frame = user_frame(sys._getframe(1))
            raise CaptureError(
                f"the model makes one tensor share the memory of another by {name}, which no graph of values can say",
                source=line_at(frame),
                hint="assign the variable or the attribute (y = x), or copy the content (y.copy_(x))",
            )
        return func(*args, **(kwargs or {}))
