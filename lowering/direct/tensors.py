"""Tensors of a traced model: what torch sees of them, and where their contents live.

Every tensor has a `Handle`: a twin on the meta device, which has the example's sizes, strides and memory and on which
torch itself runs each operator, and the irkit value that it holds. Tensors that share memory share a `Memory`; a view
is a chain of lenses on it. A write gives the memory a new content; a view is read anew when it is next asked for.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import torch

from irkit.core.ir import Value
from lowering.capture.patches.asked_texts import plain_number
from lowering.direct.functions.numbers import without_lists
from lowering.errors import CaptureError, LoweringError
from lowering.fold.memory.storage import Lens, Location
from lowering.records.message_lines import asks_text, chooses_module


@attrs.define(eq=False)
class Memory:
    """What a storage holds: the content of its base as a value, and how often it was written.

    `name` is that of the input or buffer that it belongs to, empty for what the model made itself; `first` what it held
    at first. `shared` says that views of it were made, `torn` that tensors from outside share it in a way that is not
    followed. `depth` says how many bodies of control flow it was made in; `twin` is that of its base, `born` how
    many tensors the model had made before it, -1 for one from outside. For other sizes
    tensors that share it might be copies, and those that are `linked` might share it: what is `doubtful` keeps, where
    it is written, that sizes are not such, or refuses it; what is `stale`, since a linked one was written, does so
    where it is read. `last` is what the buffer that it belongs to holds in the end, where that is another tensor.
    `local` says that the model makes it anew in each call.
    """

    content: Value
    name: str = ""
    version: int = 0
    local: bool = False
    torn: bool = False
    shared: bool = False
    doubtful: list[Callable[[], None]] = attrs.field(factory=list)
    depth: int = 0
    linked: list[tuple[Memory, Callable[[], None]]] = attrs.field(factory=list)
    stale: list[Callable[[], None]] = attrs.field(factory=list)
    twin: torch.Tensor | None = None
    born: int = -1
    last: Value | None = None
    first: Value = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.first = self.content

    @property
    def is_state(self) -> bool:
        """Whether the next call finds something else in it."""
        return not self.local and (self.version > 0 or self.last is not None)


@attrs.define(eq=False)
class Handle:
    """One tensor: its twin, its place in a memory, and its content when it was last read.

    `kind` is a number that tensors of equal type and layout have in common, from 1 on, once it was asked for.
    `made` is of a view how it was made: (operator, arguments, keyword arguments, which of several results); `depth` in
    how many bodies of control flow its value was made, -1 for as many as its memory.
    """

    twin: torch.Tensor
    memory: Memory
    lenses: tuple[Lens, ...]
    value: Value
    version: int
    name: str = ""
    kind: int = 0
    made: Any = None
    depth: int = -1

    @property
    def key(self) -> int:
        """Equal for tensors of one memory."""
        return self.twin.untyped_storage()._cdata

    def location(self) -> Location:
        """The place in the memory, as lenses from its base."""
        return Location(None, self.lenses)  # type: ignore[arg-type]


def leaves(given: Any) -> Iterator[Any]:
    """The leaves of nested arguments."""
    if isinstance(given, list | tuple):
        for each in given:
            yield from leaves(each)
    elif isinstance(given, dict):
        yield from leaves(tuple(given.values()))
    else:
        yield given


CPU = torch.device("cpu")


def tracer_of(found: Callable[[], Any]) -> Any:
    """The tracer that a weak reference knows. Raises CaptureError once its run is over."""
    tracer = found()
    if tracer is None:
        raise CaptureError(
            "a tensor of a captured model is used after its capture", hint="clear what the model keeps of its calls"
        )
    return tracer


class Traced(torch.Tensor):
    """A tensor without numbers that a model computes with while it is traced.

    It does not keep its tracer: torch leaves tensors in cycles, and all that a run has made would wait for the
    collector.
    """

    handle: Handle
    held: Callable[[], Any]
    stands_for_tensor = True

    @staticmethod
    def __new__(cls, tracer: Any, handle: Handle, sizes: list[Any], room: Any) -> Traced:
        twin = handle.twin
        asked = tracer.asked
        before, asked.silent = asked.silent, True
        try:
            made: Any = torch.Tensor._make_wrapper_subclass(
                cls,
                sizes,
                twin.stride(),
                dtype=twin.dtype,
                device=CPU,
                dispatch_sizes_strides_policy="strides",
                storage_size=room,
            )
        finally:
            asked.silent = before
        made.handle, made.held = handle, weakref.ref(tracer)
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore[reportAssignmentType]

    @property
    def tracer(self) -> Any:
        """The tracer that made it. Raises CaptureError once its run is over."""
        return tracer_of(self.held)

    @property
    def nbytes(self) -> Any:  # type: ignore[override]
        """How many bytes its elements take, which torch tells of plain sizes only."""
        return self.numel() * self.element_size()

    @property
    def _version(self) -> Any:  # type: ignore[override]
        """Raises LoweringError: torch counts no writes into tensors without numbers."""
        what = "the model asks how often a tensor was written"
        raise LoweringError(what, source=self.tracer.line(), hint="use capture='torch.export'")

    def __copy__(self) -> Any:
        return self.detach()  # another tensor, in the same memory

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tracer = next(each.tracer for each in leaves((args, kwargs or {})) if isinstance(each, Traced))
        return tracer.below.__torch_dispatch__(func, types, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        return torch.Tensor.__getitem__(self, without_lists(index))  # torch asks how long a list is

    def __setitem__(self, index: Any, value: Any) -> None:
        torch.Tensor.__setitem__(self, without_lists(index), value)

    def __repr__(self) -> str:  # type: ignore[override]
        if asks_text(sys._getframe(1)):
            return self.refuse_text()
        return f"Traced({self.handle.value.type!r})"

    def __format__(self, spec: str) -> str:
        frame = sys._getframe(1)
        if self.dim() or self.is_complex():
            return object.__format__(self, "") if not asks_text(frame) else self.refuse_text()
        if chooses_module(frame):
            return format(self.item(), spec)
        return format(plain_number(self.item()), spec) if asks_text(frame) else repr(self)

    def refuse_text(self) -> str:
        """Raises CaptureError: the model decides by the text of a tensor."""
        raise CaptureError(
            "the text of a tensor is asked for, whose content only data tells",
            source=self.tracer.line(),
            hint="decide by the tensor itself, or by a number of it: x.item()",
        )

    def __deepcopy__(self, memo: Any) -> Any:
        return self.clone()


def is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether a transform of torch.func (vmap, grad) holds a tensor."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)  # type: ignore[attr-defined]


def refuse_layout(tensor: torch.Tensor) -> None:
    """Raises LoweringError for a sparse tensor and its like, CaptureError for a quantized one."""
    if tensor.is_quantized:
        raise CaptureError("a quantized tensor is no input or result of a program", hint=INTEGERS)
    if tensor.layout is not torch.strided:
        raise LoweringError(
            f"a tensor of layout {tensor.layout} is not met by direct capture",
            hint="make it dense, with to_dense(), or use capture='torch.export'",
        )


INTEGERS = (
    "give its integers, x.int_repr(), and in the model make it of them, "
    "torch._make_per_tensor_quantized_tensor(x, scale, zero_point); return y.dequantize(), or y.int_repr() with "
    "y.q_scale() and y.q_zero_point()"
)
"""What to do with a quantized tensor at the border of a program."""
