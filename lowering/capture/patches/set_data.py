"""What makes one tensor share the memory of another is refused while torch traces, and modules that convert themselves
while they run (`self.head = self.head.to(dtype)`) do not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from lowering.capture.guards.guards import line_at
from lowering.capture.patches.replaced import Replaced, replaced_attributes
from lowering.capture.patches.zero_questions import user_frame
from lowering.errors import CaptureError

Change = Callable[[torch.Tensor], torch.Tensor]


class Sharing(TorchFunctionMode):
    """A block in which it is an error that a tensor is made to be another one: torch traces `y.data = x` as nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the function gives. Raises CaptureError for `set_` and for an assignment to `data`."""
        if sets_memory(func):
            return set_to_itself(func, args, lambda: line_at(user_frame(sys._getframe(2))))
        return func(*args, **(kwargs or {}))


def sets_memory(func: Any) -> bool:
    """Whether a function makes one tensor share the memory of another: `set_`, and an assignment to `data`."""
    return func == SETS_DATA or getattr(func, "__name__", "") in ("set_", "set_.source_Tensor")


SETS_DATA: Any = torch.Tensor.data.__set__  # type: ignore[attr-defined]


def set_to_itself(func: Any, args: Sequence[Any], line: Callable[[], str]) -> Any:
    """What such a function gives where a tensor is made to be what it is. Raises CaptureError where it becomes another
    one, with the line of the model."""
    if is_itself(*args):
        return None if func == SETS_DATA else args[0]
    name = "an assignment to Tensor.data" if func == SETS_DATA else "Tensor.set_"
    raise CaptureError(
        f"the model makes one tensor share the memory of another by {name}, which no graph of values can say",
        source=line(),
        hint="assign the variable or the attribute (y = x), or copy the content (y.copy_(x))",
    )


def is_itself(tensor: Any, other: Any = None, *rest: Any) -> bool:
    """Whether a tensor is made to be what it is: `y.data -= z` writes into `y`, and then sets its memory to its own."""
    one, two = tensor, other
    if rest or any(not isinstance(each, torch.Tensor) or each.layout is not torch.strided for each in (one, two)):
        return False
    traced: Any = next((each for each in (one, two) if hasattr(each, "handle")), None)
    if traced is not None:
        one, two = (traced.tracer.handle(each) for each in (one, two))
        if one.memory is not two.memory:
            return False
        one, two = one.twin, two.twin
    with torch._C.DisableTorchFunction():
        alike = all(getattr(one, name)() == getattr(two, name)() for name in ("size", "stride", "storage_offset"))
        return alike and (traced is not None or one.untyped_storage()._cdata == two.untyped_storage()._cdata)


def converting_modules() -> Replaced:
    """A block in which `Module.to` and its like put what they compute where the module looks for it.

    torch swaps the contents of a parameter and its conversion, which it cannot do while it traces: others hold on to
    the parameter. Whoever calls this sees to it that modules get back what they had.
    """
    return replaced_attributes((torch.nn.Module, "_apply", put_in_place))


def put_in_place(self: torch.nn.Module, fn: Change, recurse: bool = True) -> torch.nn.Module:
    """`Module._apply`, which puts what a function gives of its tensors where the module looks for these."""
    for module in self.modules() if recurse else (self,):
        for held in (module._parameters, module._buffers):
            converted: dict[str, Any] = {name: fn(each) for name, each in held.items() if each is not None}
            held.update({name: each for name, each in converted.items() if each is not held[name]})
    return self
