"""Operators that write their arguments, or give a tensor other dimensions in place; buffers and gradients that are
others once the model was called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import sympy
import torch
from torch.utils._mode_utils import no_dispatch

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import Tensor, same_types
from lowering.aten.normalization.norm import instance_norm_with_update
from lowering.capture.patches.set_data import SETS_DATA, is_itself, set_to_itself
from lowering.direct.converting import (
    Decomposed,
    Info,
    apply_converter,
    as_list,
    info_of,
    names_alike,
    on_twins,
    operand,
    operands,
    settle_results,
    tensors_in,
    twin_of,
)
from lowering.direct.kernel_sizes.asserted import keep_asserted_in_place
from lowering.direct.layouts import contiguous_to_all, keep_answer, placing_sizes, replay_tensor
from lowering.direct.requirements import require
from lowering.direct.sizes import dim_of, size_of
from lowering.direct.tensors import Handle, Traced, note_first
from lowering.direct.tracer import Alike, Tracer
from lowering.errors import CaptureError, LoweringError
from lowering.fold.arguments import call_arguments, summed_as
from lowering.fold.complex_registry import complex_entry
from lowering.fold.memory import storage
from lowering.fold.memory.overlap import copies_one, fills_alone, has_overlap, same_elements, share_elements
from lowering.fold.memory.own_operands import hangs_on_its_writes, refuses_types, takes_elements_alone
from lowering.fold.mutation import positional as positional_arguments
from lowering.fold.mutation import with_shape
from lowering.fold.refused_arguments import require_fits
from lowering.fold.registry import Registry, operator_of, writing_operator
from lowering.tensors.complex_pairs import as_type, expand_pair, is_complex, pair, parts
from lowering.tensors.shaping import reshape


def write_arguments(tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An operator that writes its arguments: the functional operator's result is put where they live."""
    functional = writing_operator(tracer.options.registry, func)
    if functional is None:
        raise LoweringError(
            f"{func} writes in place, and torch has no functional form of it",
            hint="hand a converter in: lower(..., converters={...}), which returns the new contents behind the results",
        )
    targets = [
        each
        for position, key in info.writes
        for each in as_list(args[position] if position < len(args) else kwargs.get(key))
        if isinstance(each, torch.Tensor)
    ]
    value_args, value_kwargs = operands(tracer, func, args, kwargs)
    for target in targets:
        refuse_overlap(tracer, func, tracer.handle(target))
        refuse_reads(tracer, func, target, args, kwargs)
    if func in RESIZES:
        return resized(tracer, func, args, kwargs)
    shapes = [tracer.handle(target).twin.shape for target in targets]
    given = on_twins(tracer, func, info, args, kwargs)
    names = {key for _, key in info.writes}
    alone = any(n.startswith("out") or n not in {a.name for a in functional._schema.arguments} for n in names)
    if alone:
        value_kwargs = {k: v for k, v in value_kwargs.items() if k not in names}
        value_kwargs.update(summed_as(functional, value_kwargs, tracer.handle(targets[0]).twin.dtype))
    else:
        refuse_resized(tracer, func, targets, shapes)
        require_written(tracer, func, info, args, kwargs, targets)
    twins = [tracer.handle(t).twin for t in targets]
    name = tracer.name(func)
    made = apply_converter(
        tracer, functional, value_args, value_kwargs, twins[0] if len(twins) == 1 else twins, args,
        {k: v for k, v in kwargs.items() if k not in names or not k.startswith("out")},
    )  # fmt: skip
    if isinstance(made, Decomposed):
        results = [tracer.read(tracer.handle(r)) for r in as_list(made.result)]
    else:
        results = as_list(made)
    results = keep_asserted_in_place(tracer, functional, value_args, value_kwargs, results)
    own = [r.alias_info is None for r in func._schema.returns]
    if own and all(own):
        returned, results = results[: len(own)], results[len(own) :]
        new = settle_results(tracer, func, returned, as_list(given), name, value_args)
        shown = [tracer.tensor(twin, value, name) for twin, value in zip(as_list(given), new, strict=True)]
        for target, result in zip(targets, results, strict=True):
            put(tracer, func, tracer.handle(target), result, name)
        return tuple(shown) if len(shown) > 1 else shown[0]
    refuse_other_types(tracer, func, targets if alone else (), results, args, kwargs)
    for target, result in zip(targets, results, strict=False):
        if not (alone and renewed(tracer, func, target, result, name, value_args)):
            put(tracer, func, tracer.handle(target), result, name, fits=not alone)
    if alone:
        require_written(tracer, func, info, args, kwargs, targets)
    if not func._schema.returns:
        return None
    return targets[0] if len(targets) == 1 else tuple(targets)


def refuse_resized(tracer: Tracer, func: Any, targets: Sequence[torch.Tensor], before: Sequence[torch.Size]) -> None:
    """Raises RuntimeError where what an operator gives in place has other sizes than what it is written to, which the
    meta device gives these sizes."""
    for target, shape in zip(targets, before, strict=True):
        found = tracer.handle(target).twin.shape
        if found != shape:
            raise RuntimeError(
                f"{func}: output with shape {list(shape)} doesn't match the broadcast shape {list(found)}"
            )


def require_written(
    tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any], targets: list[torch.Tensor]
) -> None:
    """Keeps what an operator that writes these tensors requires of sizes."""
    one = len(targets) == 1 and len(func._schema.returns) == 1
    require(tracer, func, args, kwargs, [operand(tracer, targets[0])] if one else (), info.device)


def renewed(tracer: Tracer, func: Any, target: torch.Tensor, result: Value, name: str, operands: Sequence[Any]) -> bool:
    """Gives a tensor that is `out` the sizes of a result that may be others, and its content; False where the sizes are
    its own. Raises LoweringError where others would see the tensor before."""
    handle = tracer.handle(target)
    old = handle.value.shape
    if len(old) == result.rank and all(dims.same(a, b) is True for a, b in zip(old, result.shape, strict=True)):
        return False
    new = as_type(result, handle.value.dtype)
    (value,) = settle_results(tracer, func, [new], [handle.twin], name, operands)
    memory = handle.memory
    inside = memory.depth < len(tracer.frames)
    if type(target) is not Traced or handle.lenses or memory.name or memory.shared or inside:
        same = len(old) == value.rank and [*map(tracer.asked.hint, old)] == list(handle.twin.shape)
        if not same:
            raise LoweringError(
                f"{func} gives the tensor that it writes to other sizes, which others share, or the caller has",
                source=tracer.line(), hint="give `out` the right sizes",
            )  # fmt: skip
        for size, other in zip(old, value.shape, strict=True):
            tracer.asked.equal(size, other)
        return False
    handle.memory = tracer.tensor(handle.twin, value, name).handle.memory
    handle.value, handle.version, handle.kind, handle.made = value, 0, 0, None
    as_shown(target, tracer.shown(handle))
    return True


MAYBE_COPIES = frozenset(f"aten::{name}" for name in "reshape reshape_as flatten ravel contiguous".split())
"""Operators that give a view or a copy, as the layout of the elements has it."""
MAYBE_SUMS = frozenset(("aten::einsum", "aten::sum_to_size"))
"""Operators that give a view of one tensor or a sum of it, as sizes of 1 have it."""


def lens_of(
    tracer: Tracer, func: Any, args: list[Any], kwargs: dict[str, Any], of: Handle, results: list[Any],
    index: int | None,
) -> storage.Lens | None:  # fmt: skip
    """How the view that an operator gives of its first argument is read out of it, and written back; of a list of
    tensors, that of the one at the same place."""
    value = results[index or 0]
    target, rest, shape, registry = operator_of(func), tuple(args[1:]), value.shape, tracer.options.registry
    at = next(i for i, each in enumerate(args) if isinstance(each, Value | list | tuple))  # einsum's text is before it

    def get(content: Value) -> Value:
        found = Registry.find(registry, target)
        mixed = is_complex(content)
        found = complex_entry(registry, target) if mixed else found
        if found is None:
            raise LoweringError(
                f"{func} is a view that has no converter, and what it shows is written",
                hint="clone() the view before it is written, or hand a converter in: lower(..., converters={...})",
            )
        expected = Tensor(content.dtype, shape)
        if index is not None:
            expected = tuple(Tensor(content.dtype, part.shape) for part in results)
        shown: Any = content
        if isinstance(args[at], list | tuple):
            shown = [content if place == (index or 0) else each for place, each in enumerate(args[at])]
        positional, keyword = call_arguments(target, found, (*args[:at], shown, *args[at + 1 :]), kwargs, expected)
        made = found.function(*positional, **keyword)
        return with_shape(without_ones(made[index] if index is not None else made, shape), shape)

    before = of.value.shape
    same = len(before) == len(shape) and all(dims.same(a, b) is True for a, b in zip(before, shape, strict=True))
    if same and target._schema.name in storage.SAME:
        return None
    if index is not None:
        return storage.by_position(get)
    grows = target._schema.name in storage.EXPANSIONS and not same
    return storage.lens_of(target, get, positional_arguments(target, rest, kwargs), grows)


def without_ones(value: Value, shape: Sequence[Any]) -> Value:
    """The value without the axes whose length is 1 at the sizes of the run, which is a condition."""
    if value.rank <= len(shape):
        return value
    if is_complex(value):
        return pair(*(without_ones(part, shape) for part in parts(value)))
    return reshape(value, shape)


RESIZES = {torch.ops.aten.resize_.default: False, torch.ops.aten.resize_as_.default: True}
"""Operators that give a whole tensor other dimensions, and whether another tensor tells these."""


def refuse_overlap(tracer: Tracer, func: Any, written: Handle) -> None:
    """Raises LoweringError for a write into a tensor several of whose elements are one: what it leaves hangs on the
    order of the writes, unless all that is written is the same. Keeps that other sizes bring no such elements."""
    if fills_alone(func):
        return
    if has_overlap(written.twin):
        raise LoweringError(
            f"{func} writes a tensor several of whose elements share their memory", hint="clone() it before the write"
        )
    if any(lens.repeats for lens in written.lenses):
        placed = placing_sizes(written)
        keep_answer(tracer, written, lambda sizes: has_overlap(replay_tensor(tracer, written, sizes)), placed)


def refuse_reads(
    tracer: Tracer, func: Any, target: torch.Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raises LoweringError for a write that reads elements which it writes at another place: what it finds there hangs
    on the order of the writes. Keeps that other sizes bring no such elements."""
    written, alike = tracer.handle(target), 0
    for read in map(tracer.handle, tensors_in((args, tuple(kwargs.values())))):
        if read.memory is not written.memory:
            continue
        there = same_elements(read.twin, written.twin)
        alike += there
        if read is written or copies_one(func, read.value.shape):
            continue

        def share(sizes: Mapping[str, Any], read: Handle = read) -> bool:
            one, other = (replay_tensor(tracer, each, sizes) for each in (read, written))
            return share_elements(one, other) and not same_elements(one, other)

        if not there and share(tracer.asked.hints):
            raise LoweringError(
                f"{func} reads a part of the tensor that it writes, at other places than it writes there",
                source=tracer.line(), hint="clone() what is read before the write",
            )  # fmt: skip
        keep_answer(tracer, read, share, placing_sizes(read, written))
    if alike > 1 and not takes_elements_alone(func):
        refuse_own(tracer, func, written, args, kwargs)


def twins_of(tracer: Tracer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """(args, kwargs) with twins in the place of tensors."""
    return [twin_of(tracer, each) for each in args], {key: twin_of(tracer, each) for key, each in kwargs.items()}


def refuse_own(tracer: Tracer, func: Any, written: Handle, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises LoweringError for an operator that takes the tensor that it writes among its operands, where a kernel
    refuses it or finds there what it has written."""
    twins, named = twins_of(tracer, args, kwargs)
    handles = map(tracer.handle, tensors_in((args, tuple(kwargs.values()))))
    own = {id(h.twin) for h in handles if h.memory is written.memory and same_elements(h.twin, written.twin)}
    with no_dispatch(), torch._C.DisableTorchFunction():
        hangs = hangs_on_its_writes(func, twins, named, info_of(func).writes, lambda x: id(x) in own)
    if hangs:
        raise LoweringError(
            f"{func} writes a tensor that is among its operands, which torch refuses, or reads after it has written it",
            source=tracer.line(), hint="clone() it among the operands",
        )  # fmt: skip


def refuse_other_types(
    tracer: Tracer, func: Any, targets: Sequence[Any], results: Sequence[Value], args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> None:  # fmt: skip
    """Raises LoweringError where a kernel refuses to write a result to a tensor of another element type."""
    if all(result.dtype is tracer.handle(t).value.dtype for t, result in zip(targets, results, strict=False)):
        return
    twins, named = twins_of(tracer, args, kwargs)
    with no_dispatch(), torch._C.DisableTorchFunction():
        if refuses_types(func, twins, named):
            raise LoweringError(
                f"eager refuses to write the result of {func} to a tensor of another element type",
                source=tracer.line(), hint="give out= a tensor of the result's type",
            )  # fmt: skip


def resized(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
    """resize_ and resize_as_ to as many elements or fewer: the tensor becomes a view of its own elements, in order; one
    of nothing becomes a new tensor.

    Raises LoweringError for more elements, which would hold what the memory held before.
    """
    target: Any = args[0]
    size = [size_of(tracer.asked, d) for d in tracer.handle(args[1]).value.shape] if RESIZES[func] else list(args[1])
    handle = tracer.handle(target)
    if type(target) is not Traced or handle.name == handle.memory.name != "" or kwargs:
        raise LoweringError(f"{func} of a tensor that the caller has", hint="clone() it before")
    contiguous_to_all(tracer, handle, torch.contiguous_format)
    held, wanted = dims.product(handle.value.shape), dims.product(dim_of(each) for each in size)
    if held == 0 and not handle.lenses:
        with tracer.resumed():
            shown = torch.ops.aten.empty.memory_format(size, dtype=target.dtype)
        return turned_into(tracer, target, shown)
    if not handle.twin.is_contiguous() or tracer.asked.hint(wanted) > tracer.asked.hint(held):
        raise LoweringError(
            f"{func} makes a tensor larger than it was, or of elements that lie in no order", source=tracer.line(),
            hint="make a new tensor: torch.empty(size)",
        )  # fmt: skip
    if dims.same(held, wanted) is not True and type(dims.sub(held, wanted)) is not int:
        tracer.asked.required(sympy.Ge(sympy.sympify(held), sympy.sympify(wanted)))
    with tracer.resumed():
        flat = torch.ops.aten.view.default(target, [-1])
        shown = torch.ops.aten.view.default(flat.narrow(0, 0, size_of(tracer.asked, wanted)), size)
    return turned_into(tracer, target, shown)


def turned_into(tracer: Tracer, target: Traced, shown: Traced) -> Traced:
    """A traced tensor that from now on is another one."""
    tracer.effects["write"] += 1
    target.handle = shown.handle
    as_shown(target, shown)
    return target


def put(tracer: Tracer, func: Any, handle: Handle, result: Value, name: str, fits: bool = False) -> None:
    """Writes a result, cast and broadcast to what a tensor is, to where it lives; one that `fits` must be of the same
    numbers, and of no more elements, where eager would refuse others."""
    old = tracer.read(handle)
    if fits:
        require_fits(func, result, old)
    result = as_type(result, old.dtype)
    if same_types(result.type, old.type) is not True:
        result = expand_pair(result, old.shape)
    new = tracer.stamped({result: old.type}, tracer.origin(func.name(), name))[result]
    tracer.write(handle, new)


def as_shown(target: Traced, shown: Traced) -> None:
    """Gives a traced tensor the sizes that another one has."""
    with no_dispatch(), torch._C.DisableTorchFunction():
        target.data = shown


def batch_norm(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """batch_norm and instance_norm, which in training write running statistics that their schema does not tell;
    NotImplemented where nothing is written"""
    if kwargs:
        names = [a.name for a in func._schema.arguments]
        args = [*args, *(kwargs[n] for n in names[len(args) :])]
    training, momentum, epsilon = args[5:8]
    mean, variance = args[3:5]
    if not training or mean is None:
        return NotImplemented
    given = [operand(tracer, each) for each in args[:5]]
    require_channels(tracer, given)
    if func._schema.name == "aten::instance_norm" and type(given[0].shape[0]) is not int:
        tracer.asked.required(sympy.Ge(given[0].shape[0], 1))  # torch repeats statistics for each, and takes the first
    if func._schema.name == "aten::instance_norm":
        result, *new = instance_norm_with_update(given[0], given[1], given[2], given[3], given[4], momentum, epsilon)
    else:
        target = torch.ops.aten._native_batch_norm_legit_functional.default
        found: Any = Registry.find(tracer.options.registry, target)
        result, _, _, *new = found.function(*given, True, momentum, epsilon)
    twin = on_twins(tracer, func, info_of(func), args, {})
    name = tracer.name(func)
    (value,) = settle_results(tracer, func, [result], [twin], name, given)
    if given[0].rank > 1:  # of a vector, which is empty, nothing is learnt
        for target, content in zip((mean, variance), new, strict=True):
            put(tracer, func, tracer.handle(target), content, name)
    return tracer.tensor(twin, value, name)


def require_channels(tracer: Tracer, given: Sequence[Any]) -> None:
    """Keeps that what is normalized has channels, as many as there are weights and statistics, which torch's meta
    kernel does not ask. Raises Alike where their number is a name."""
    if given[0].rank < 2:
        return
    channels = given[0].shape[1]
    sizes = [each.shape[0] for each in given[1:] if each is not None]
    swaps = names_alike(tracer, [channels, *sizes])
    if swaps and all(s.name in tracer.named and o.name in tracer.named for s, o in swaps.items()):
        raise Alike(swaps, tracer.line())
    for size in sizes:
        tracer.asked.equal(size, channels)
    if type(channels) is not int:
        tracer.asked.required(sympy.Ge(channels, 1))


# ---------------------------------------------------------------------------------------------- after a call


def rebind_buffers(tracer: Tracer, module: torch.nn.Module, before: Mapping[str, torch.Tensor]) -> None:
    """Notes which buffers and parameters are other tensors, once the model was called; not those that a model which
    converts itself has in another element type, in which each call has them."""
    with torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        buffers = dict(module.named_buffers())
        for name, tensor in (*buffers.items(), *module.named_parameters()):
            known = before.get(name, tensor)
            if tensor is not known and (tensor.dtype == known.dtype or name in buffers):
                rebind(tracer, name, before[name], tensor)


def rebind_gradients(
    tracer: Tracer, sums: Sequence[Sequence[torch.Tensor]], spent: Sequence[torch.Tensor]
) -> frozenset[int]:
    """Notes which gradients that the model leaves are other tensors than those that it found: it drops these first. The
    identities of those that it drops. Where it leaves none at all, having used what it found, which is `spent`, the
    next call begins with zeros."""
    found: set[int] = set()
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        for parameter, total in sums:
            if parameter.grad is not None and parameter.grad is not total:
                rebind(tracer, tracer.handle(total).memory.name, total, parameter.grad)
                found.add(id(total))
        for total in spent:
            if id(total) in tracer.seen:
                rebind(tracer, tracer.handle(total).memory.name, total, torch.zeros_like(total))
    return frozenset(found)


def arguments_left(given: Sequence[Any]) -> tuple[str, ...]:
    """The names of the inputs that the model leaves gradients at."""
    with torch._C.DisableTorchFunction():  # which would be asked for each attribute
        found = [each for each in given if isinstance(each, Traced) and each.requires_grad]
        return tuple(each.handle.name for each in found if each.grad is not None)


def rebind(tracer: Tracer, name: str, buffer: torch.Tensor, after: torch.Tensor) -> None:
    """Notes that a buffer is another tensor once the model was called: what it holds then is what the buffer holds when
    it is called next."""
    memory, content = tracer.handle(buffer).memory, tracer.read(tracer.handle(after))
    if memory.torn or memory.name != name or same_types(content.type, memory.first.type) is not True:
        if tracer.options.declined is not None and content.origin is not None:
            tracer.options.declined(content.origin.source)
        raise LoweringError(
            f"the tensor {name!r} of {memory.first.type!r} becomes another tensor, of {content.type!r}",
            hint="write it in place: tensor.copy_(...)",
        )
    memory.last = content


def refuse_first_steps(rated: Sequence[str], early: Sequence[str]) -> None:
    """Raises CaptureError where the first step of an optimizer begins with a rate that the model sets by hand, or comes
    before there are gradients."""
    if rated:
        raise CaptureError(
            f"what {rated[0]} keeps begins with its learning rate, which the model sets before its first step",
            hint="make a step before, or set the rate of the optimizer before the export",
        )
    if early:
        raise CaptureError(
            f"the first call makes a step of {early[0]} before there are gradients, and others use those of the last",
            hint="call it once before the export, so that there are gradients",
        )


# ---------------------------------------------------------------------------------------------- y.data = x


def take_over(tracer: Tracer, func: Any, args: Sequence[Any]) -> Any:
    """y.data = x of tensors of equal types and layouts: y holds what x holds, and once one of both is written the other
    is refused where it is read, for they share their memory. Raises CaptureError elsewhere."""
    plain = func == SETS_DATA and len(args) == 2 and all(isinstance(each, torch.Tensor) for each in args)
    with torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        if not plain or is_itself(*args) or not is_taken_over(tracer, *args):
            return noted(tracer, partial(set_to_itself, func, args, tracer.line))
        ours, theirs = (tracer.handle(each) for each in args)
        tracer.write(ours, tracer.read(theirs))
        ours.memory.join(theirs.memory, partial(refuse_shared, tracer.line()))
    return None


def noted(tracer: Tracer, call: Callable[[], Any]) -> Any:
    """What a function gives, of which an error is kept: the model may catch it."""
    try:
        return call()
    except CaptureError as error:
        note_first(tracer, error)
        raise


def is_taken_over(tracer: Tracer, one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a tensor may hold what another one does in its own memory: all of that is its own, and nothing else that
    the model still has lies there, which would keep the old content."""
    if any(each.layout is not torch.strided or each.is_complex() for each in (one, other)) or tracer.frames:
        return False
    ours, theirs = tracer.handle(one), tracer.handle(other)
    if ours.lenses or ours.memory.torn or not same_types(ours.value.type, theirs.value.type):
        return False
    beside = (each for found in tracer.alive if (each := found()) is not None and each is not one)
    alone = all(each.handle.memory is not ours.memory for each in beside)
    return alone and ours.twin.dtype is theirs.twin.dtype and ours.twin.stride() == theirs.twin.stride()


def refuse_shared(line: str) -> None:
    """Raises CaptureError: one of two tensors that share their memory by `y.data = x` was written."""
    raise CaptureError(
        "the model writes one of two tensors that share their memory since y.data = x",
        source=line,
        hint="copy the content, y.copy_(x) or y.data = x.clone()",
    )
