"""Tensors of a traced model: what torch sees of them, and where their contents live.

Every tensor has a `Handle`: a twin on the meta device, which has the example's sizes, strides and memory and on which
torch itself runs each operator, and the irkit value that it holds. Tensors that share memory share a `Memory`; a view
is a chain of lenses on it. A write gives the memory a new content; a view is read anew when it is next asked for.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import torch
from torch.autograd import forward_ad

from irkit import dims
from irkit.core.ir import Value
from lowering.capture.patches.asked_texts import plain_number
from lowering.direct.functions.computed_sparse import is_computed
from lowering.direct.functions.copies import BY_CLONE, PICKLED, SHARED, copied_once
from lowering.direct.functions.numbers import without_lists
from lowering.direct.sizes import Laid, RoomNode, laid_size
from lowering.errors import CaptureError, LoweringError
from lowering.fold.memory.storage import Lens, Location
from lowering.records.message_lines import asks_text, chooses_module
from lowering.records.types import PRESENT, is_wrapper


@attrs.define(eq=False)
class Memory:
    """What a storage holds: the content of its base as a value, and how often it was written.

    `name` is that of the input or buffer that it belongs to, empty for what the model made itself; `first` what it held
    at first. `shared` says that views of it were made, `torn` that tensors from outside share it in a way that is not
    followed. `depth` says how many bodies of control flow it was made in; `twin` is that of its base, `born` how
    many tensors the model had made before it, -1 for one from outside. For other sizes
    tensors that share it might be copies, and those that are `linked`, by the `groups` that it has, might share it:
    what is `doubtful` keeps, where it is written, that sizes are not such, or refuses it; what is `stale`, since a
    linked one was written, does so where it is read. `last` is what the buffer that it belongs to holds in the end,
    where that is another tensor. `local` says that the model makes it anew in each call. `elsewhere` lies as it does at
    other sizes than the example's, where it lies in order for these by chance.
    """

    content: Value
    name: str = ""
    version: int = 0
    local: bool = False
    torn: bool = False
    shared: bool = False
    doubtful: list[Callable[[], None]] = attrs.field(factory=list)
    depth: int = 0
    groups: list[Group] = attrs.field(factory=list)
    stale: list[Callable[[], None]] = attrs.field(factory=list)
    twin: torch.Tensor | None = None
    born: int = -1
    last: Value | None = None
    elsewhere: torch.Tensor | None = None
    first: Value = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.first = self.content

    @property
    def is_state(self) -> bool:
        """Whether the next call finds something else in it."""
        return not self.local and (self.version > 0 or self.last is not None)

    @property
    def linked(self) -> list[tuple[Memory, Callable[[], None]]]:
        """The memories that might be this one, each with what settles that it is not, or refuses it."""
        return [each for group in self.groups for each in group.others(self)]

    @property
    def roles(self) -> list[tuple[Group, bool]]:
        """The groups that it has, and whether it is one of those in it that may be one another."""
        return [(group, group.has_among(self)) for group in self.groups]

    def opened(self) -> list[tuple[Group, bool]]:
        """The same; a group is made of it alone where it is such a one in none."""
        if not any(mutual for _, mutual in self.roles):
            Group().add(self, nothing_to_settle)
        return self.roles

    def join(self, old: Memory, settle: Callable[[], None]) -> None:
        """Says of this memory that it may be another one, and so whatever that may be, unless this is settled."""
        if self is not old:
            for group, mutual in old.opened():
                group.add(self, settle, mutual)


def nothing_to_settle() -> None:
    """What settles the first memory of a group, before which there is none."""


@attrs.frozen
class Member:
    """A memory in a group: its number in the order in which they came, what settles that it is none of those before
    it, or refuses it, and whether it may be any other one; else it may be only one of those that may."""

    number: int
    settle: Callable[[], None]
    mutual: bool


@attrs.define(eq=False)
class Group:
    """Memories that may be one: one record for as many as there are, not one for each two of them. A memory may have a
    group that it is not in: then it may be one of those, for what is taken of it, while none of them is it."""

    members: dict[Memory, Member] = attrs.field(factory=dict)
    came: int = 0

    def add(self, memory: Memory, settle: Callable[[], None], mutual: bool = True) -> None:
        """Puts a memory into the group."""
        known = self.members.get(memory)
        if known is None or (mutual and not known.mutual):
            self.came += 1
            self.members[memory] = Member(self.came, settle, mutual)
        if known is None and self not in memory.groups:
            memory.groups.append(self)

    def has_among(self, memory: Memory) -> bool:
        """Whether a memory is one of those that may be one another."""
        return memory in self.members and self.members[memory].mutual

    def others(self, memory: Memory) -> Iterator[tuple[Memory, Callable[[], None]]]:
        """The memories that this one may be, each with what settles it: what came with the later one of both."""
        own = self.members.get(memory)
        for other, each in self.members.items():
            if other is not memory and (each.mutual or (own is not None and own.mutual)):
                yield other, (each if own is None or each.number > own.number else own).settle


@attrs.define(eq=False)
class Handle:
    """One tensor: its twin, its place in a memory, and its content when it was last read.

    `kind` is a number that tensors of equal type and layout have in common, from 1 on, once it was asked for.
    `made` is of a view, or a copy that is one elsewhere, how it was made: (operator, arguments, keyword arguments,
    which of several results); `depth` in how many bodies of control flow its value was made, -1 for as many as its
    memory.
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


CPU, META = torch.device("cpu"), torch.device("meta")
"""Where tensors seem to be, and where their twins are: torch reads a name of a device anew each time."""


def tracer_of(found: Callable[[], Any]) -> Any:
    """The tracer that a weak reference knows. Raises CaptureError once its run is over."""
    tracer = found()
    if tracer is None:
        raise CaptureError(
            "a tensor of a captured model is used after its capture", hint="clear what the model keeps of its calls"
        )
    return tracer


def weakly(held: Any, function: Callable[..., Any], *first: Any) -> Callable[..., Any]:
    """A function of an object, of `first` and of what it is called with, that does not keep the object: a run through
    which no cycle goes is freed as soon as nobody looks at it."""
    found = weakref.ref(held)
    return lambda *args: function(tracer_of(found), *first, *args)


OF_MEMORY = frozenset("data_ptr storage untyped_storage typed_storage __dlpack__ share_memory_ pin_memory".split())
"""What asks for memory, which only tensors of eager's have: the model may catch that there is none."""


def note_first(tracer: Any, error: Exception) -> None:
    """Keeps the first error that eager does not raise, and its line: the model may catch it."""
    if tracer.asked.raised is None:
        tracer.asked.raised = (error, tracer.line())


class Traced(torch.Tensor):
    """A tensor without numbers that a model computes with while it is traced.

    It does not keep its tracer: torch leaves tensors in cycles, and all that a run has made would wait for the
    collector.
    """

    handle: Handle
    held: Callable[[], Any]
    stored: torch.Tensor | None = None
    alone = False
    is_quantized = False  # what torch would have the tracer asked for
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
        made.handle, made.held, made.alone = handle, weakref.ref(tracer), True
        return made

    @classmethod
    def like(cls, laid: torch.Tensor, tracer: Any, handle: Handle) -> Traced:
        """One that is laid out as another tensor is, with a count of writes of its own, to which autograd looks."""
        alike: Any = torch.Tensor._make_subclass  # whose stub lacks the policy
        with torch._C.DisableTorchFunction():
            made = alike(cls, laid.data, False, dispatch_sizes_strides_policy="strides")
        made.handle, made.held = handle, weakref.ref(tracer)
        return made

    def untyped_storage(self) -> Any:
        """Its storage: one of its own, also where it was laid out as another is."""
        if not self.alone and self.stored is None:
            self.stored = self.tracer.layouts.shown_alone(self.tracer, self.handle)
        return torch.Tensor.untyped_storage(self if self.stored is None else self.stored)

    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore[reportAssignmentType]

    @property
    def tracer(self) -> Any:
        """The tracer that made it. Raises CaptureError once its run is over."""
        return tracer_of(self.held)

    @property
    def is_marked(self) -> bool:
        """Whether the model gave it attributes."""
        return len(self.__dict__) > 2 and not OWN.issuperset(self.__dict__)

    @property
    def nbytes(self) -> Any:  # type: ignore[override]
        """How many bytes its elements take, which torch tells of plain sizes only."""
        return self.numel() * self.element_size()

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return torch.Tensor  # as it is in eager, to which a model may compare it

    @property
    def _version(self) -> Any:  # type: ignore[override]
        """Raises LoweringError: torch counts no writes into tensors without numbers."""
        raise self.unknown("how often a tensor was written")

    def storage_offset(self) -> Any:
        """Where a tensor begins in its memory."""
        return torch.ops.aten.sym_storage_offset.default(self)

    def _is_view(self) -> bool:
        """Whether it shares the memory of another tensor. Raises LoweringError where some do."""
        if self.handle.memory.shared:
            raise self.unknown("whether a tensor is a view")
        return False

    @property
    def _base(self) -> None:  # type: ignore[override]
        """The tensor of which it is a view. Raises LoweringError where some share its memory."""
        if self.handle.memory.shared:
            raise self.unknown("what a tensor is a view of")

    def unknown(self, what: str) -> LoweringError:
        """The error for what the model asks and traced tensors do not tell, also where it catches that."""
        asks = f"the model asks {what}"
        error = LoweringError(asks, source=self.tracer.line(), hint="use capture='torch.export'")
        self.note(error)
        return error

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
        return self.refuse(
            "the text of a tensor is asked for, whose content only data tells",
            "decide by the tensor itself, or by a number of it: x.item()",
        )

    def note(self, error: Exception) -> None:
        """Keeps the first error that eager does not raise."""
        note_first(self.tracer, error)

    def refuse(self, what: str, hint: str) -> Any:
        """Raises CaptureError, also where the model catches it and goes on."""
        error = CaptureError(what, source=self.tracer.line(), hint=hint)
        note_first(self.tracer, error)
        raise error

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.refuse(PICKLED, BY_CLONE)

    def __deepcopy__(self, memo: Any) -> Any:
        handle = self.handle
        numbers = [dims.product(each.shape) for each in (handle.value, handle.memory.content)]
        whole = not handle.lenses or dims.same(*numbers) is True
        if id(self) not in memo and (not whole or ("memory", id(handle.memory)) in memo):
            return self.refuse(SHARED, BY_CLONE)
        return copied_once(self, memo, ("memory", id(handle.memory)), whole)


OWN = frozenset(("handle", "held", "stored", "alone"))
"""The attributes that one may have by itself."""


@attrs.define(eq=False)
class Layouts:
    """How torch lays out the tensors of a run: the `sizes` of each type as torch takes them, by its identity, with
    whether some vary; one that others are `laid` out like, by type and strides, False where there was but one so far;
    and the `memories` of all, weakly."""

    sizes: dict[int, tuple[Any, list[Any], bool]] = attrs.field(factory=dict)
    laid: dict[Any, torch.Tensor | bool] = attrs.field(factory=dict)
    memories: list[Callable[[], Memory | None]] = attrs.field(factory=list)

    def shown(self, tracer: Any, handle: Handle) -> Traced:
        """A handle as torch sees it. Torch takes its time to lay out a tensor by sizes that vary: from the third on,
        those of the same type and strides are made like the second."""
        if is_seen_by_torch():
            return self.shown_alone(tracer, handle)
        key = (id(handle.value.type), handle.twin.stride(), handle.twin.dtype)
        like = self.laid.get(key, True)
        if type(like) is not bool:
            return Traced.like(like, tracer, handle)
        made = self.shown_alone(tracer, handle)
        if like:
            self.laid[key] = False
        elif self.sizes[key[0]][2]:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                self.laid[key] = made.detach()
        return made

    def shown_alone(self, tracer: Any, handle: Handle) -> Traced:
        """The same, laid out by itself."""
        type_, memory, asked = handle.value.type, handle.memory, tracer.asked
        known = self.sizes.get(id(type_))
        if known is None:
            found = [laid_size(asked, d) for d in handle.value.shape]
            known = self.sizes[id(type_)] = (type_, found, any(type(size) is not int for size in found))
        _, sizes, vary = known
        each = handle.twin.element_size()
        room = Laid(RoomNode(asked, lambda: memory.content.shape, each)) if vary else None
        return Traced(tracer, handle, sizes, room)

    def forget_writes(self, outside: Iterable[Memory]) -> None:
        """Has the memories of a run that is over, and those from `outside`, forget what a write would ask: tensors that
        may share one know each other by that, and would wait for the collector, with all that they are computed of."""
        for memory in (*(found() for found in self.memories), *outside):
            if memory is not None and (memory.doubtful or memory.groups or memory.stale):
                memory.doubtful, memory.groups, memory.stale = [], [], []


def is_seen_by_torch() -> bool:
    """Whether torch itself keeps something of the tensors that are made now: for gradients, transforms or modes."""
    by_autograd = torch.is_grad_enabled() or torch.is_inference_mode_enabled()
    return by_autograd or transform_level() is not None or forward_ad._current_level >= 0


transform_level = torch._C._functorch.maybe_current_level  # type: ignore[attr-defined]
"""How deep in transforms of torch.func the caller is; None outside of all."""


def has_view(handle: Handle, sizes: Sequence[Any]) -> bool:
    """Whether a tensor of the example lies so that torch has a view of it of these sizes."""
    hints = [each.node.hint if isinstance(each, torch.SymInt) else each for each in sizes]
    try:
        handle.twin.view(hints)
    except (RuntimeError, ValueError):
        return False
    return True


def refuse_layout(tensor: torch.Tensor) -> None:
    """Raises LoweringError for a sparse tensor and its like, CaptureError for a quantized one, for a sparse one that
    the model computes, and for one that wraps others."""
    if type(tensor) in PRESENT and tensor.layout is torch.strided and not tensor.is_quantized:
        return  # as most are
    if tensor.is_quantized:
        raise CaptureError("a quantized tensor is no input or result of a program", hint=INTEGERS)
    refuse_wrapper(tensor)
    if is_computed(tensor):
        raise CaptureError(
            "the model gives a sparse tensor that it computes as a result, or to an operator that takes dense ones",
            hint="give x.to_dense(), or its places and numbers: x.indices() and x.values() of x.coalesce()",
        )
    if tensor.layout is not torch.strided:
        raise LoweringError(
            f"a tensor of layout {tensor.layout} is not met by direct capture",
            hint="make it dense, with to_dense(), or use capture='torch.export'",
        )


def refuse_wrapper(tensor: torch.Tensor) -> None:
    """Raises CaptureError for a tensor whose class wraps others."""
    if is_wrapper(tensor):
        raise CaptureError(
            f"a {type(tensor).__name__}, whose class wraps other tensors, is no input or result of a program",
            hint="hand over, or give, the tensors that it wraps, and make it of them in the model",
        )


INTEGERS = (
    "give its integers, x.int_repr(), and in the model make it of them, "
    "torch._make_per_tensor_quantized_tensor(x, scale, zero_point); return y.dequantize(), or y.int_repr() with "
    "y.q_scale() and y.q_zero_point()"
)
"""What to do with a quantized tensor at the border of a program."""
