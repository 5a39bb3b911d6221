"""The modes by which torch hands over every operator of a model, composite ones whole, and which module runs then."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from types import MappingProxyType
from typing import Any

import sympy
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._functorch.autograd_function import custom_function_call
from torch._functorch.pyfunctorch import dispatch_functorch, retrieve_current_functorch_interpreter
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from torch.nested._internal.nested_tensor import NestedTensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from irkit import dims
from irkit.errors import IrkitError, TypeRuleError
from lowering.capture.guards.answers import holds
from lowering.capture.guards.questions import Required
from lowering.capture.patches.set_data import sets_memory
from lowering.direct.control import plain_results, scanned_over, version_of
from lowering.direct.converting import CAT, info_of, on_twins
from lowering.direct.data import array_of_weight
from lowering.direct.functions.arrays import Array, axes_taken, indices, no_tensors, refuse_numpy
from lowering.direct.functions.bodies import with_gradients
from lowering.direct.functions.computed_sparse import makes_sparse, sparse_call
from lowering.direct.functions.numbers import places_of
from lowering.direct.functions.own_rules import have_own_rule
from lowering.direct.functions.parts_taken import listed_parts
from lowering.direct.functions.plain_calls import plain_call, plain_steps
from lowering.direct.functions.recurrent import BY_SCAN
from lowering.direct.functions.sparse import SPARSE, held_by_model, is_held, is_sparse
from lowering.direct.functions.table import ATTRIBUTES, FUNCTIONS, OPERATORS, operator_with_sizes, with_plain_numbers
from lowering.direct.functions.transforms import (
    IN_PARTS,
    QUESTIONS,
    held_by_transforms,
    is_batched,
    is_in_transform,
    is_taken_apart,
    scalar_overload,
    where,
)
from lowering.direct.layouts import bent_sizes, contiguous_to_all, elsewhere, strides_to_all
from lowering.direct.meta_device.by_chance import lie_by_chance
from lowering.direct.operators import call
from lowering.direct.quantized.calls import is_met_as_quantized, quantized_call
from lowering.direct.repeats import SIZES
from lowering.direct.sizes import SizeNode
from lowering.direct.tensors import OF_MEMORY, Traced, has_view, is_seen_by_torch, note_first, tracer_of
from lowering.direct.tracer import Tracer
from lowering.direct.writes import take_over
from lowering.errors import CaptureError, LoweringError
from lowering.records.module_calls import ModuleCalls
from lowering.records.programs import first_line
from lowering.records.torch_internals import views_by_their_functions

LEAVING = {torch.Tensor.tolist: listed_parts, torch.Tensor.numpy: Array, torch.Tensor.__array__: refuse_numpy}
"""What gives the content of a tensor to Python or NumPy, and what stands for it."""
ARRAYS = (torch.Tensor.numpy, torch.Tensor.__array__)
READING = frozenset((
    *LEAVING, torch.Tensor.__repr__, torch.Tensor.__format__, torch.Tensor.__dlpack__, torch.Tensor.untyped_storage,
))  # fmt: skip
"""What gives the content of a weight to Python: what comes of it is that of this one."""


@contextmanager
def follow_modules(tracer: Tracer, paths: Mapping[int, str], compiled: bool) -> Iterator[None]:
    """A block in which the tracer knows the path of that one of some modules, by their identities, that is running in
    this thread; `compiled` says that some were given to torch.compile."""
    stack, own = tracer.modules, threading.get_ident()
    tracer.visits = ModuleCalls(paths)

    def before(module: Any, _: Any) -> None:
        if threading.get_ident() == own:
            stack.append(tracer.visits.enter(stack[-1] if stack else "", id(module)))

    def after(module: Any, _: Any, __: Any) -> None:
        if threading.get_ident() == own and stack:
            stack.pop()

    hooks = [register_module_forward_pre_hook(before), register_module_forward_hook(after, always_call=True)]
    try:
        with without_warning_of_hooks(compiled):
            yield
    finally:
        for hook in hooks:
            hook.remove()
        stack.clear()


@contextmanager
def without_warning_of_hooks(compiled: bool) -> Iterator[None]:
    """A block in which modules that were given to torch.compile do not warn of the hooks that follow modules."""
    if not compiled:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", OF_HOOKS, UserWarning)
        yield


OF_HOOKS = r"Using `torch\.compile\(module\)` when there are global hooks on modules"
"""What a module that was given to torch.compile says where it meets these hooks."""


@contextmanager
def meet_operators(tracer: Tracer) -> Iterator[None]:
    """A block in which every operator is met by this tracer, in this thread."""
    tracer.functions, tracer.above, tracer.below = Functions(tracer), Above(tracer), Below(tracer)
    # autograd would say by as_strided where a view begins that is written, and traced tensors do not tell it that
    with views_by_their_functions(True), tracer.functions, tracer.below, enable_python_dispatcher(), tracer.above:
        yield


class OfTracer:
    """A mode of a tracer, which it does not keep: the tracer keeps its modes."""

    def __init__(self, tracer: Tracer) -> None:
        self.held = weakref.ref(tracer)

    @property
    def own(self) -> Tracer:
        """The tracer."""
        return tracer_of(self.held)


class Above(OfTracer, ProxyTorchDispatchMode):
    """Meets operators above autograd, before torch takes composite ones apart.

    torch lets only three classes of mode that high, so this derives from one, and begins otherwise: that loads dynamo.
    """

    _mode_key = torch._C._TorchDispatchModeKey.PROXY

    def __init__(self, tracer: Tracer) -> None:
        OfTracer.__init__(self, tracer)
        TorchDispatchMode.__init__(self, torch._C.DispatchKey.PreDispatch)
        self.enter_stack, self.pre_dispatch = [], True
        self.viewing, self.parted = False, None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # dynamo is off altogether; to switch it off for each operator again takes its time

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if makes_sparse(func, args):
            with self:
                return sparse_call(self.own, func, args, kwargs or {})
        if types and have_own_rule(types):
            return func(*args, **(kwargs or {}))
        if is_taken_apart(args):
            if func._schema.name.startswith(RESIZING) and not kwargs:
                if type(args[0]) is Traced and not is_in_transform():
                    return Resized.apply(args[0], self.own, func, tuple(args[1:]))
                refuse_unchanged(self.own, func, args)
            found = None
            if func in SPARSE and any(map(is_sparse, args)):
                with self:
                    return met(self.own, func, args, kwargs or {})
            if func in BY_SCAN and not kwargs and not is_in_transform():
                with self:
                    found = BY_SCAN[func](partial(scanned_over, self.own), func, *args)
            if found is None and func in IN_PARTS and not kwargs and func is not self.parted:
                outer, self.parted = self.parted, func
                try:
                    with self:
                        found = IN_PARTS[func](*args)
                finally:
                    self.parted = outer
            if found is not None:
                return found
            before, self.viewing = self.viewing, func in VIEWS
            try:
                return scalar_overload(func, args)(*args, **(kwargs or {}))
            finally:
                self.viewing = before
        return met(self.own, func, args, kwargs or {})


VIEWS = (torch.ops.aten.view.default, torch.ops.aten.view_as.default)
"""What is refused where a tensor has no view of some sizes; other operators copy it then."""


class Below(OfTracer, TorchDispatchMode):
    """Meets operators below autograd, where gradients are recorded."""

    def __init__(self, tracer: Tracer) -> None:
        OfTracer.__init__(self, tracer)
        TorchDispatchMode.__init__(self)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # dynamo is off altogether; to switch it off for each operator again takes its time

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if types and have_own_rule(types):
            return NotImplemented  # what its class makes of it comes here again
        if func in QUESTIONS:
            args = (held_by_transforms(args[0]), *args[1:])
        if (
            func is torch.ops.aten.view.default
            and not self.own.above.viewing
            and not has_view(self.own.handle(args[0]), args[1])
        ):
            func = torch.ops.aten.reshape.default  # which torch takes for a view, for it is told that all lies in order
        return met(self.own, func, args, kwargs or {})


# ---------------------------------------------------------------------------------------------- resized images

RESIZING = ("aten::upsample_", "aten::_upsample_")
"""Operators that resize images. Above autograd torch takes them apart by functions of its own, which compute other
weights than its kernels where a scale factor leaves a size as it is."""


def refuse_unchanged(tracer: Tracer, func: Any, args: Sequence[Any]) -> None:
    """Keeps that a scale factor leaves no size of an image as it is, nor makes it just twice that, where torch takes
    the resizing apart in a transform of torch.func. Raises LoweringError where it does so for the example."""
    factors = args[-1] if func._overloadname == "vec" and args[1] is None else None
    for size, factor in zip(args[0].shape[2:], factors or (), strict=False):
        for times in (1, 2):
            if times < factor < times + 0.5:
                known: Any = getattr(getattr(size, "node", None), "expr", size)
                reached = int(size * factor) if type(size) is int else dims.Trunc(sympy.Float(factor) * known)
                apart = sympy.Ne(reached, times * known)
                if holds(apart, tracer.asked.hints) is False:
                    said = f"{func} by {factor} in a transform of torch.func leaves {known} elements as {reached}"
                    raise LoweringError(said, source=tracer.line(), hint="give the size in place of the scale factor")
                tracer.asked.required(apart)


class Resized(torch.autograd.Function):
    """A resized image whose gradient is recorded, met as one operator, as its gradient is."""

    @staticmethod
    def forward(x: Any, tracer: Tracer, func: Any, rest: Sequence[Any]) -> Any:
        """func(x, *rest)"""
        return met(tracer, func, (x, *rest), {})

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keeps the sizes before and behind."""
        x, ctx.tracer, ctx.func, ctx.rest = inputs
        ctx.before, ctx.behind = tuple(x.shape), tuple(output.shape[2:])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The gradient of the image."""
        told = (ctx.tracer, ctx.func, ctx.rest, ctx.before, ctx.behind)
        return ResizedBack.apply(gradients[0], *told), None, None, None


class ResizedBack(torch.autograd.Function):
    """The gradient of a resized image. It is linear: its own gradient is an image resized again."""

    @staticmethod
    def forward(
        gradient: Any, tracer: Tracer, func: Any, rest: Sequence[Any], before: Sequence[Any], behind: Sequence[Any]
    ) -> Any:
        """The operator behind func(x, *rest) for x of the sizes `before`, and a result of the sizes `behind`."""
        name, overload = func._schema.name.removeprefix("aten::"), func._overloadname
        _, *flags = rest if overload != "vec" else rest[:-1]
        scales = (rest[-1] or [None] * len(behind)) if overload == "vec" else flags[len(flags) - len(behind) :]
        corners = [each for each in flags if isinstance(each, bool)]
        operator = getattr(torch.ops.aten, f"{name}_backward").default
        return met(tracer, operator, (gradient, list(behind), list(before), *corners, *scales), {})

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keeps what resized the image."""
        ctx.told = inputs[1:]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The gradient of the gradient."""
        return Resized.apply(gradients[0], *ctx.told[:3]), None, None, None, None, None


class Functions(OfTracer, TorchFunctionMode):
    """Meets what a model calls before torch takes it for a call of operators: branches, loops, lists of numbers."""

    def __init__(self, tracer: Tracer) -> None:
        OfTracer.__init__(self, tracer)
        TorchFunctionMode.__init__(self)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in AT_ONCE and (made := AT_ONCE[func](self.own, *args, **(kwargs or {}))) is not None:
            return made
        if isinstance(func, torch._ops.HigherOrderOperator):
            return self.higher_order(func, args, kwargs or {})
        if sets_memory(func):
            return take_over(self.own, func, args)
        if func in READING and (made := content_for_python(self.own, func, args, kwargs or {})) is not None:
            return made
        if func in LAYOUT and type(args[0]) is Traced and keeps_layout(self.own, func, *args, **(kwargs or {})):
            func, taken = torch.ops.aten.contiguous.default, is_taken_apart(args) or args[1:] or kwargs
            return func(*args, **(kwargs or {})) if taken else met(self.own, func, args, {})
        if func in FUNCTIONS and (made := FUNCTIONS[func](*args, **(kwargs or {}))) is not None:
            return made
        if func in ATTRIBUTES:
            args, kwargs = with_plain_numbers(func, args, kwargs or {})
        if func in OPERATORS and not is_taken_apart(args):
            given, named = operator_with_sizes(func, args, kwargs or {})
            if given is not None:
                return met(self.own, OPERATORS[func], given, named)
        if func in INDEXING and not kwargs and (type(args[0]) is Traced or has_traced(args[1])):
            args = without_symbols(*args)
            if len(args) == 3 and type(args[0]) is type(args[2]) is Traced and 0 < args[2].dim() <= args[0].dim():
                return write_places(self.own, *args)
            if func is torch.Tensor.__getitem__ and (steps := plain_steps(*args)) and not is_taken_apart(args[:1]):
                return reduce(lambda x, step: met(self.own, step[0], (x, *step[1:]), {}), steps, args[0])
        told = plain_call(func, args, kwargs or {})
        if told is None or is_taken_apart(told[1]):
            return taken_by_torch(self.own, func, types, args, kwargs or {})
        operator, given, named = told
        return met(self.own, operator, given, named)

    def higher_order(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """The result of a higher-order operator."""
        if torch._C._are_functorch_transforms_active():
            if func is torch.ops.higher_order.cond and is_batched(*args):
                with self:
                    return where(*args)
            if func.functorch_table.get(retrieve_current_functorch_interpreter().key()) is not None:
                with self:  # what torch's own rule of the transform calls comes here again
                    return dispatch_functorch(func, args, dict(kwargs))
        elif func is custom_function_call:
            return func(*args, **kwargs)
        perform = partial(plain_results, self.own)
        if torch.is_grad_enabled() and not kwargs:
            version = partial(version_of, self.own)
            return with_gradients(perform, len(self.own.frames), version, func, args)
        return perform(func, *args, **kwargs)


def taken_by_torch(tracer: Tracer, func: Any, types: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """What torch makes of a call. Raises LoweringError for a nested tensor, which is an object of Python's."""
    if NestedTensor in types:
        raise LoweringError(
            "a nested tensor is not met by direct capture", hint="pad its rows, and mask what is padded"
        )
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        if getattr(func, "__name__", "") in OF_MEMORY:
            note_first(tracer, error)
        raise


def content_for_python(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What stands for the content of a traced tensor that Python asks for; of a weight NumPy's array of it, and None
    for what torch gives: it is noted that its numbers were asked."""
    if type(args[0]) is Traced:
        try:
            return LEAVING[func](args[0]) if func in LEAVING else None
        except IrkitError as error:
            note_first(tracer, error)
            raise
    tracer.effects["content"] += 1
    return array_of_weight(tracer, func, args, kwargs) if func in ARRAYS else None


LAYOUT = (torch.Tensor.is_contiguous, torch.Tensor.contiguous, torch.Tensor.stride)


def keeps_layout(
    tracer: Tracer, func: Any, x: Traced, *given: Any, memory_format: Any = torch.contiguous_format, **_: Any
) -> bool:
    """Keeps what a model asks of how a tensor lies in memory; whether `contiguous` is to be met for what it gives at
    other sizes: torch would give back one that lies in order for the example's alone."""
    if func is torch.Tensor.is_contiguous:
        contiguous_to_all(tracer, x.handle, given[0] if given else memory_format)
    if func is torch.Tensor.stride:
        strides_to_all(tracer, x.handle)
    if func is not torch.Tensor.contiguous:
        return False
    handle, plain = x.handle, not given and memory_format is torch.contiguous_format
    by_chance = lie_by_chance((handle,), elsewhere(tracer), tracer.others)
    return by_chance or (plain and (not handle.twin.is_contiguous() or bool(handle.lenses and bent_sizes(handle))))


def met(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], plain: bool = False) -> Any:
    """The result of an operator on traced tensors; of a `plain` one it is known that it only computes with such."""
    if not plain and func in SPARSE and (made := SPARSE[func](func, args, kwargs)) is not None:
        tracer.effects["content"] += 1
        return made
    tracer.calls += 1
    asked = tracer.asked
    asked.operators += 1
    with torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        try:
            if not plain and is_met_as_quantized(func, args, kwargs):
                return quantized_call(tracer, func, args, kwargs)
            return call(tracer, func, args, kwargs)
        except IrkitError as error:
            if any(map(is_sparse, args)) and is_held(args) and not func._schema.is_mutable:
                tracer.effects["content"] += 1
                return held_by_model(func, args, kwargs)
            torchs = isinstance(error, Required | TypeRuleError)  # Python takes a TypeError of `x + y` for another one
            refused = refused_by_torch(tracer, func, args, kwargs) if torchs else None
            if refused is not None:
                note_raised(tracer, refused)
                raise refused from error
            told = error.located(ir=shown(func, args, kwargs), source=tracer.line())
            note_raised(tracer, told)
            raise told from error.__cause__
        except Exception as error:  # torch's own
            if vary_among(tracer, (*args, *kwargs.values())):
                note_raised(tracer, error)
            raise
        finally:
            asked.operators -= 1


def note_raised(tracer: Tracer, error: Exception) -> None:
    """Keeps the first error that an operator of the model raises, and its line: the model may catch it."""
    if tracer.asked.operators == 1 and tracer.asked.raised is None:
        tracer.asked.raised = (error, tracer.line())


def refused_by_torch(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Exception | None:
    """What torch itself raises for an operator on tensors like the example's, which is what the model may catch."""
    try:
        on_twins(tracer, func, info_of(func), args, kwargs)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return error if type(error) in (RuntimeError, IndexError, ValueError, TypeError) else None
    return None


def vary_among(tracer: Tracer, given: Sequence[Any]) -> bool:
    """Whether sizes or numbers that vary are among arguments."""
    for each in given:
        if type(each) is Traced and not dims.are_numbers(tracer.handle(each).value.shape):
            return True
        if isinstance(each, SIZES) or (isinstance(each, list | tuple) and vary_among(tracer, each)):
            return True
    return False


def refuse_caught(tracer: Tracer) -> None:
    """Raises what an operator raised, where the model caught it and went on: irkit's own errors mean nothing to it, and
    one of torch's may be raised for the example's sizes and data alone, which no condition says."""
    if tracer.asked.raised is None:
        return
    error, line = tracer.asked.raised
    own = isinstance(error, IrkitError) and not isinstance(error, Required)
    if own or type(error).__module__.startswith("lowering."):
        raise error
    said = error.what if isinstance(error, IrkitError) else f"{type(error).__name__}: {first_line(error)}"
    what = f"the model goes on where torch refuses an operator: {said}"
    hint = "ask for the sizes or numbers before: if x.shape[0] > 5"
    raise CaptureError(what, source=line, hint=hint) from error


def shown(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A call of an operator as text: `aten.add.Tensor(f32[n, 4], 2)`."""

    def text(each: Any) -> str:
        if type(each) is Traced:
            return repr(each.handle.value.type)
        if isinstance(each, torch.Tensor):
            return f"{str(each.dtype).removeprefix('torch.')}{list(each.shape)}"
        if isinstance(each, list | tuple):
            return f"[{', '.join(map(text, each))}]"
        return str(each)

    named = [f"{key}={text(each)}" for key, each in kwargs.items()]
    return f"{func}({', '.join([*map(text, args), *named])})"


def tensor_of_numbers(_: Tracer, data: Any, **more: Any) -> Any:
    """torch.tensor of a number, or of a list of a few, without what torch calls meanwhile, which does nothing; None
    where anything in it hangs on what is traced."""
    held = data if type(data) in (list, tuple) else [data]
    plain = len(held) <= FEW and all(type(each) in (int, float, bool) for each in held)
    if not plain or more.get("requires_grad") or is_taken_apart(()):
        return None
    with torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        return torch.tensor(data, **more)


def joined(tracer: Tracer, tensors: Any, dim: Any = 0, **more: Any) -> Any:
    """torch.cat of traced tensors, met without the way through torch's dispatcher, which a cache would take twice for
    each layer and run; None where anything may stand between."""
    if more or type(dim) is not int or type(tensors) not in (tuple, list):
        return None
    kinds = {*map(type, tensors)}
    if Traced not in kinds or not kinds <= {Traced, torch.Tensor}:
        return None
    if is_seen_by_torch() or torch.is_autocast_enabled("cpu"):
        return None
    plain = len(kinds) == 1  # neither sparse ones nor quantized ones are traced ones
    return met(tracer, CAT, ([*tensors], dim) if dim else ([*tensors],), {}, plain)


AT_ONCE: Mapping[Any, Callable[..., Any]] = MappingProxyType({torch.cat: joined, torch.tensor: tensor_of_numbers})
"""What a cache calls twice for each layer and run, met without the way through torch's dispatcher where that can be."""


# ---------------------------------------------- `x[i]` and `x[i] = y`, with numbers that vary


INDEXING = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
FEW = 64
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


def write_places(tracer: Tracer, x: Any, index: Any, value: Any) -> None:
    """x[index] = value, where torch leaves out no axis of `value` for being 1 long: it may where it refuses that."""
    tracer.asked.unstripped, before = True, tracer.asked.raised
    try:
        return torch.Tensor.__setitem__(x, index, value)
    except (RuntimeError, IndexError, IrkitError):
        tracer.asked.unstripped, tracer.asked.raised = False, before
        return torch.Tensor.__setitem__(x, index, value)
    finally:
        tracer.asked.unstripped = False


def without_symbols(x: Any, index: Any, *value: Any) -> tuple[Any, ...]:
    """The arguments of an indexing where `x` is selected from already by each number that varies.

    Such a number is a size, or what a tensor of no axes holds; at the ends of a slice, too.
    """
    index = indices(index)
    if isinstance(index, list) and holds_numbers(index) and all(isinstance(each, int | torch.SymInt) for each in index):
        index = places_of(index)  # a list with lists or tensors in it is a tuple to torch
    parts = list(index) if isinstance(index, tuple) else [index]
    if isinstance(index, tuple) and any(map(holds_numbers, parts)):
        parts = [places_of(part) if holds_numbers(part) else part for part in parts]
        index = tuple(parts)
    ends = [part for part in parts if isinstance(part, slice)]
    if any(varies(end) for part in ends for end in (part.start, part.stop, part.step)):
        parts = [sliced(part) if isinstance(part, slice) else part for part in parts]
        index = tuple(parts)
    if not any(map(varies, parts)):
        return (x, index, *value)
    rest: list[Any] = []
    for place, part in enumerate(parts):
        if varies(part):
            after = sum(map(axes_taken, parts[place + 1 :]))
            dim = -1 - after if Ellipsis in no_tensors(parts[:place]) else sum(map(axes_taken, rest))
            x = x.select(dim, place_within(x.shape[dim], part.item() if isinstance(part, torch.Tensor) else part))
        else:
            rest.append(part)
    return (x, tuple(rest) or Ellipsis, *value)


def place_within(size: Any, place: Any) -> Any:
    """A place along an axis; in a body, where it is beyond the axis for the example, which need not come there, one
    that is within it, under the condition that it is the same."""
    node = getattr(place, "node", None)
    if not isinstance(node, SizeNode) or not node.asked.inside:
        return place
    length = size.node.hint if isinstance(size, torch.SymInt) else size
    if length < 1 or -length <= node.hint < length:
        return place
    torch._check(place < size)
    torch._check(place >= -size)
    return torch.sym_max(torch.sym_min(place, size - 1), -size)


def has_traced(index: Any) -> bool:
    """Whether a part of an index of a weight is a tensor that is traced, or a number that varies."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(each, Traced | torch.SymInt | slice | list | Array) for each in parts)


def holds_numbers(part: Any) -> bool:
    """Whether a part of an index is a list of places, of which some vary."""
    leaves = pytree.tree_leaves(part) if isinstance(part, list | tuple) else ()
    return any(type(each) is Traced or isinstance(each, torch.SymInt) for each in leaves)


def sliced(part: slice) -> slice:
    """A slice whose ends are numbers, where tensors of no axes were."""
    ends = (part.start, part.stop, part.step)
    return slice(*(end.item() if varies(end) and isinstance(end, torch.Tensor) else end for end in ends))


def varies(part: Any) -> bool:
    """Whether a part of an index is a number that varies."""
    if isinstance(part, torch.SymInt):
        return True
    return type(part) is Traced and part.dim() == 0 and part.dtype in INTEGERS
