"""What a model asks of the layout of a tensor: the example's, which leaves no trace; strides as sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import sympy
import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false

from irkit import dims
from lowering.capture.guards.answers import holds
from lowering.direct.meta_device.arguments import laid_out, lies_in_order
from lowering.direct.meta_device.known_order import computed_around, has_part_of_one
from lowering.direct.points import number, plain_number, sizes_with
from lowering.direct.requirements import REFUSED
from lowering.direct.sizes import dim_of, size_of
from lowering.direct.tensors import Handle, has_view
from lowering.direct.tracer import Tracer
from lowering.errors import LoweringError
from lowering.records.torch_internals import pytree


def strides_of(tracer: Tracer, handle: Handle) -> tuple[dims.Dim, ...]:
    """The strides of a tensor: products of its sizes where it is dense, numbers where no size varies.

    Raises LoweringError for a tensor that is neither.
    """
    shape, sizes, strides = handle.value.shape, handle.twin.shape, handle.twin.stride()
    if dims.are_numbers(handle.memory.content.shape):
        return tuple(strides)
    if is_part(tracer, handle):
        raise of_part()
    found: dict[int, dims.Dim] = {}
    expression, number = 1, 1
    for axis in sorted(range(len(sizes)), key=lambda a: (strides[a], sizes[a] != 1, -a)):
        if strides[axis] == 0 and sizes[axis] != 1:
            found[axis] = 0
            continue
        if sizes[axis] != 1 and strides[axis] != number:
            raise LoweringError(
                "the model asks for the strides of a tensor that is no dense one, and whose sizes vary",
                hint="call contiguous() before it, or use capture='torch.export'",
            )
        found[axis] = expression
        expression, number = dims.mul(expression, shape[axis]), number * sizes[axis]
    return tuple(found[axis] for axis in range(len(sizes)))


def of_part() -> LoweringError:
    """The error for a question about the strides of a part of a tensor, which its sizes do not tell."""
    what = "the model asks for the strides of a part of a tensor whose sizes vary"
    return LoweringError(what, hint="call clone() before it, or use capture='torch.export'")


def is_part(tracer: Tracer, handle: Handle) -> bool:
    """Whether a tensor is a part of another whose sizes vary, so that these tell how it is laid out."""
    whole = handle.memory.content.shape
    if not handle.lenses or (dims.are_numbers(whole) and dims.are_numbers(handle.value.shape)):
        return False
    one, other = dims.product(handle.value.shape), dims.product(whole)
    if dims.same(one, other) is True:
        return False
    points = (tracer.asked.hints, {**tracer.asked.hints, **tracer.others})
    return any(plain_number(one, point) != plain_number(other, point) for point in points)


def stride(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """stride(x), stride(x, dim), asked by torch itself; where sizes do not tell, as if all lay in order"""
    handle = tracer.handle(args[0])
    try:
        told = strides_of(tracer, handle)
    except LoweringError:
        shape = handle.value.shape
        told = tuple(dims.product(shape[axis + 1 :]) for axis in range(len(shape)))
    found = [size_of(tracer.asked, d) for d in told]
    return found[args[1]] if len(args) > 1 else tuple(found)


def size(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """size(x), size(x, dim)"""
    found = [size_of(tracer.asked, d) for d in tracer.handle(args[0]).value.shape]
    return found[args[1]] if len(args) > 1 else tuple(found)


def numel(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """How many elements."""
    return size_of(tracer.asked, dims.product(tracer.handle(args[0]).value.shape))


def offset(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Where in its memory a tensor begins."""
    handle = tracer.handle(args[0])
    found = handle.twin.storage_offset()
    if found and not dims.are_numbers(handle.value.shape):
        raise LoweringError("the model asks where in its memory a view begins", hint="use capture='torch.export'")
    return found


def contiguous_to_all(tracer: Tracer, handle: Handle, memory_format: torch.memory_format) -> None:
    """Keeps that sizes are such that a tensor lies in order, or does not, as in the example."""
    keep_answer(
        tracer, handle, lambda sizes: replay_tensor(tracer, handle, sizes).is_contiguous(memory_format=memory_format)
    )


def settle_sharing(tracer: Tracer, of: Handle, made: Any) -> None:
    """Keeps that sizes are such that what an operator makes of a tensor shares its memory, or does not, as in the
    example."""

    def shares(sizes: Mapping[str, Any]) -> bool:
        base = replay_tensor(tracer, of, sizes)
        found = carried_out(tracer, made, sizes, of, base)
        return found.untyped_storage()._cdata == base.untyped_storage()._cdata

    free = (*sizes_met(of), *sizes_among(made)) if made[0]._schema.name in FREE_FORMS else ()
    keep_answer(tracer, of, shares, list(dict.fromkeys(map(sympy.sympify, free))))


def settle_view(tracer: Tracer, of: Handle, made: Any) -> None:
    """Keeps that sizes are such that a part of a tensor, or one whose elements lie in another order, has a view: torch
    refuses some of other sizes than the example's."""

    def has_view(sizes: Mapping[str, Any]) -> bool:
        base = replay_tensor(tracer, of, sizes)
        try:
            carried_out(tracer, made, sizes, of, base)
        except REFUSED as refused:
            return INCOMPATIBLE not in str(refused)
        return True

    keep_answer(tracer, of, has_view)


INCOMPATIBLE = "view size is not compatible"


def replay_tensor(tracer: Tracer, handle: Handle, sizes: Mapping[str, Any]) -> torch.Tensor:
    """A tensor on the meta device for other sizes of the names, laid out as the views of the model lay it."""
    if handle.made is None:
        elsewhere = handle.memory.elsewhere
        like = handle.twin if elsewhere is None or handle.lenses else elsewhere
        return laid_out(like, [number(d, sizes) for d in handle.value.shape])
    return carried_out(tracer, handle.made, sizes)


def carried_out(
    tracer: Tracer, made: Any, sizes: Mapping[str, Any], of: Handle | None = None, base: torch.Tensor | None = None
) -> torch.Tensor:
    """What an operator gives for other sizes of the names; `base` stands for the tensor of a handle."""
    func, args, kwargs, index = made
    of_sizes = partial(given_at, tracer, sizes, of, base)
    found = func(*map(of_sizes, args), **{name: of_sizes(each) for name, each in kwargs.items()})
    return found if index is None else found[index]


def given_at(tracer: Tracer, sizes: Mapping[str, Any], of: Handle | None, base: torch.Tensor | None, each: Any) -> Any:
    """An argument of an operator for these sizes. No function inside another, for one that calls itself is a cycle,
    which keeps all that it names until the collector comes."""
    if isinstance(each, Handle):
        return base if each is of and base is not None else replay_tensor(tracer, each, sizes)
    if isinstance(each, torch.SymInt):
        return plain_number(dim_of(each), sizes)
    if isinstance(each, torch.SymFloat | torch.SymBool):
        return each.node.hint
    if isinstance(each, list | tuple):
        return type(each)(given_at(tracer, sizes, of, base, part) for part in each)
    return each


def elsewhere(tracer: Tracer) -> Callable[[Any], Any]:
    """What gives an argument as it is at other sizes than the example's."""
    return partial(given_at, tracer, tracer.others, None, None)


FREE_FORMS = frozenset(("aten::reshape", "aten::reshape_as"))
"""Operators whose result has sizes that are none of what they are given, nor products of these."""


def keep_answer(
    tracer: Tracer, handle: Handle, question: Callable[[Mapping[str, Any]], Any], free: Sequence[Any] = ()
) -> None:
    """Keeps what changes the answer to a question about the layout of a tensor: the sizes 0 and 1, that sizes which are
    `free` are equal, or others than such of the example. Raises LoweringError where other sizes change it."""
    asked, shape = tracer.asked, (*handle.value.shape, *handle.memory.content.shape, *free)
    names = dict.fromkeys(s.name for d in shape for s in dims.symbols_of(d) if s.name in asked.hints)
    answer = question(asked.hints)
    bent = free or bent_sizes(handle)
    apart = points_apart(tracer, bent, question, answer) if bent else []
    if names and (apart or question({**asked.hints, **tracer.others}) != answer):
        small_ones = [name for name in names if asked.hints[name] < 2]
        if not small_ones:
            raise untold(tracer)
        for name in small_ones:
            asked.condition(sympy.Eq(dims.symbol(name), asked.hints[name]), True)
    for name in [name for name in names if asked.hints[name] < 2 and name in tracer.others]:
        if differs(tracer, question, answer, {name: tracer.others[name]}):  # the other names as small as they are
            asked.condition(sympy.Eq(dims.symbol(name), asked.hints[name]), True)
    some, further = list(names)[:MOST], 0
    near = (None, 0, 1, *(range(2, SMALL) if bent and 1 < len(some) < MOST else ()))
    for small in sorted(product(near, repeat=len(some)), key=lambda each: len(some) - each.count(None)):
        point = {name: size for name, size in zip(some, small, strict=True) if size is not None}
        sizes = sizes_with(asked, point)
        if sizes is not None:
            try:
                same = question(sizes) == answer
            except REFUSED:
                continue  # torch refuses the sizes, or no tensor has them
            if not same:
                further += max(point.values()) > 1
                if further > MOST_POINTS:
                    raise untold(tracer)
                there: list[Any] = [sympy.Eq(dims.symbol(n), size) for n, size in point.items()]
                asked.condition(sympy.And(*there), False)


def untold(tracer: Tracer) -> LoweringError:
    """The error for sizes that tell how a tensor lies, in a way that is not known."""
    what = "sizes that vary tell whether a part of a tensor lies in order, or shares the memory of another"
    hint = "clone() what reshape or contiguous makes of a part of a tensor"
    return LoweringError(what, source=tracer.line(), hint=hint)


def bent_sizes(handle: Handle) -> list[Any]:
    """The sizes, of those that are met on the way to a tensor, whose answers change elsewhere than at 0 and 1."""
    return [each for each in dict.fromkeys(sizes_met(handle)) if not is_plain(each)]


def sizes_met(handle: Handle) -> Iterator[dims.Dim]:
    """The sizes of a tensor, of those that it is a view of, and those by which it was taken from these."""
    yield from handle.value.shape
    yield from handle.memory.content.shape
    yield from sizes_among(handle.made or ())


def sizes_among(made: Any) -> Iterator[dims.Dim]:
    """The sizes that are met on the way to the arguments of an operator."""
    for each in pytree.tree_leaves(made[1:3]):
        if isinstance(each, Handle):
            yield from sizes_met(each)
        elif isinstance(each, torch.SymInt):
            yield dim_of(each)


def placing_sizes(*handles: Handle) -> list[Any]:
    """The sizes that tell where tensors lie in their memory: where slices begin, steps of as_strided, and such, whose
    answers may change anywhere, and their names; none where no view was taken by one."""
    placed = [size for each in handles for size in sizes_among(each.made or ()) if type(size) is not int]
    bent = [size for each in handles for size in bent_sizes(each)]
    names = [symbol for size in placed for symbol in dims.symbols_of(size)]
    return list(dict.fromkeys((*names, *map(sympy.sympify, placed), *bent))) if placed else []


def is_plain(size: dims.Dim) -> bool:
    """Whether a size is a product of names: its answers change at 0 and 1 alone."""
    told: Any = size
    return type(size) is int or all(part.is_Symbol or part.is_Integer for part in sympy.Mul.make_args(told))


def points_apart(
    tracer: Tracer, bent: Sequence[Any], question: Callable[[Mapping[str, Any]], Any], answer: Any
) -> list[dict[str, int]]:
    """Sizes of one name or two, from 2 on, at which a question about tensors of such sizes has another answer than for
    the example, if no condition tells them: what extremes of sizes are in the example is one, that two sizes are equal,
    and what they are not at one size alone."""
    asked = tracer.asked

    def others() -> list[dict[str, int]]:
        return [point for point in points_near(tracer, bent) if differs(tracer, question, answer, point)]

    def apart(condition: Any) -> bool:
        """Whether the answer is another one at all sizes, as far as is seen, for which a condition holds."""
        there = [point for point in points_near(tracer, bent) if holds(condition, {**asked.hints, **point}) is True]
        told = [differs(tracer, question, answer, point) for point in there]
        return True in told and False not in told

    found = others()
    for extreme in {each for size in bent for each in size.atoms(dims.Max, dims.Min)} if found else ():
        for side in sides_taken(extreme, asked.hints):
            if any(holds(side, {**asked.hints, **point}) is False for point in found):
                asked.condition(side, True)
                found = others()
    for one, two in combinations(bent, 2) if found else ():
        alike = sympy.Eq(one, two)
        if alike not in (sympy.true, sympy.false) and holds(alike, asked.hints) is False and apart(alike):
            asked.condition(alike, False)
            found = others()
    for point in found if 0 < len(found) <= FEW else ():
        if len(point) > 1:
            continue
        ((name, size),) = point.items()
        beside = [{name: each} for each in (size - 1, size + 1) if each > 1]
        if not any(differs(tracer, question, answer, each) for each in beside):
            asked.condition(sympy.Eq(dims.symbol(name), size), False)
    return (
        [point for point in points_near(tracer, bent, FAR) if differs(tracer, question, answer, point)] if found else []
    )


def differs(
    tracer: Tracer, question: Callable[[Mapping[str, Any]], Any], answer: Any, point: dict[str, int]
) -> bool | None:
    """Whether a question has another answer at sizes; None where torch or a condition refuses these."""
    sizes = sizes_with(tracer.asked, point)
    try:
        return None if sizes is None else question(sizes) != answer
    except REFUSED:
        return None


def points_near(tracer: Tracer, bent: Sequence[Any], small: int | None = None) -> list[dict[str, int]]:
    """Sizes of one name that stands in some sizes, or of two: small ones, and those around the numbers in these."""
    hints = tracer.asked.hints
    ends = {int(each) for size in bent for each in size.atoms(sympy.Integer)}
    ends |= {hints[s.name] for size in bent for s in dims.symbols_of(size) if s.name in hints}
    near = sorted({size + step for size in ends for step in (-1, 0, 1)} | set(range(2, small or first_large(bent))))
    names = dict.fromkeys(s.name for size in bent for s in dims.symbols_of(size) if s.name in hints)
    near = [size for size in near if 2 <= size <= LARGE]
    one = [{name: size} for name in names for size in near if size != hints[name]]
    return one + [{a: size, b: size} for a, b in combinations(names, 2) for size in near]


def first_large(bent: Sequence[Any]) -> int:
    """From which size on none is looked at for itself: quotients of quotients grow late, and where a name alone is
    among sizes, it is the place of something among as many elements."""
    quotients: set[Any] = {each for size in bent for each in size.atoms(dims.FloorDiv, dims.Mod)}
    divisors = [int(each.args[1]) for each in quotients if each.args[1].is_Integer]
    if not quotients:
        return FAR if any(type(each) is not int and each.is_Symbol for each in bent) else SMALL
    return min(max(FAR, 4 * math.prod(divisors)), MOST_NEAR)


def sides_taken(extreme: Any, hints: Mapping[str, Any]) -> Iterator[Any]:
    """Relations of the example by which an extreme of sizes is one of its sides."""
    most = isinstance(extreme, dims.Max)
    for side in extreme.args:
        told = sympy.And(*((side >= other) if most else (side <= other) for other in extreme.args if other != side))
        if holds(told, hints) is True:
            yield told


SMALL, FAR, MOST_NEAR, LARGE, FEW = 7, 30, 200, 1 << 16, 3
"""Below which sizes are looked at, beside those around others, and where some have another answer, or quotients are
met; above which none is; and of how many it is said that a name has not this size."""

MOST, MOST_POINTS = 4, 8
"""Of how many sizes all are tried together, and how many points are refused, one by one, that are not 0 and 1 alone."""


def strides_to_all(tracer: Tracer, handle: Handle) -> None:
    """Keeps that no axis has a size at which torch may tell other strides than products of sizes. What a tensor is a
    view of is laid out as its operands are, where none of its axes is 0, nor 1 if an operand lies in another order than
    that of its axes; how a view of that lies is asked at small sizes.

    Raises LoweringError for a tensor whose strides sizes do not tell.
    """
    told, memory = strides_of(tracer, handle), root_of(handle).memory
    given, whole = memory.name != "", handle.twin if memory.twin is None or not handle.made else memory.twin
    plain, around = (True, []) if given else computed_around(memory.first)
    outside = all(lies_in_order(each.twin) for _, each in tracer.handles.values())
    known = plain and outside and memory.elsewhere is None and lies_in_order(whole)
    one, other = (dims.product(shape) for shape in (handle.value.shape, memory.content.shape))
    bent = bent_sizes(handle) if handle.lenses and dims.same(one, other) is not True else []
    if bent and points_apart(tracer, bent, lambda sizes: plain_number(one, sizes) == plain_number(other, sizes), True):
        raise of_part()
    vary = [d for d in (*memory.content.shape, *([] if known else around)) if type(d) is not int]
    vary = [d for d in dict.fromkeys(vary) if not any(map(dims.is_fresh, dims.symbols_of(d)))]
    least = 0 if given and known else 1 if known else 2

    def as_told(at: Mapping[str, Any]) -> bool:
        return replay_tensor(tracer, handle, at).stride() == tuple(number(each, at) for each in told)

    ones = any(tracer.asked.hint(d) < 2 for d in memory.content.shape)
    free = given or known or not (ones and has_part_of_one(memory.first, tracer.asked.hint))
    least_met = (tracer.asked.hint(d) >= least or (free and not may_be(tracer, d, 2)) for d in vary)
    small = (0 in whole.shape and not given) or not all(least_met)
    untold = not free and 1 in memory.content.shape and bool(tracer.asked.hints)
    if small or untold or tuple(number(d, tracer.asked.hints) for d in told) != handle.twin.stride():
        raise unknown_strides(tracer)
    if not as_told(tracer.asked.hints) or is_given_back(handle):
        raise unknown_strides(tracer)
    for size in vary:
        if tracer.asked.hint(size) >= least > 0:
            tracer.asked.condition(sympy.Ge(size, least), True)
    keep_answer(tracer, handle, as_told)


def root_of(handle: Handle) -> Handle:
    """What a tensor is a view of, or a copy that is a view at other sizes."""
    while handle.made is not None:
        handle = handle.made[1][0]
    return handle


def is_given_back(handle: Handle) -> bool:
    """Whether a tensor is what contiguous() gives of one that lies in order by chance, which torch gives back as it is:
    here it is taken for one in order (see `in_order` of meta_device/results.py)."""
    if handle.made is None or handle.made[0] is not torch.ops.aten.contiguous.default:
        return False
    given = handle.made[1][0]
    return given.memory is handle.memory and given.twin.stride() != handle.twin.stride()


def unknown_strides(tracer: Tracer) -> LoweringError:
    """The error for strides of axes of one element, or of none, that nothing tells."""
    what = "the model asks for the strides of a tensor with axes of one element, or of none, which sizes do not tell"
    hint = "call clone(memory_format=torch.contiguous_format) before it, or use capture='torch.export'"
    return LoweringError(what, source=tracer.line(), hint=hint)


def may_be(tracer: Tracer, size: dims.Dim, least: int) -> bool:
    """Whether a size may be so much at all."""
    most = dims.bounds(size, tracer.asked.ranges).hi
    return most is None or most >= least


def contiguous(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Whether the elements of the example lie in order."""
    form = args[1] if len(args) > 1 else kwargs.get("memory_format", torch.contiguous_format)
    return tracer.handle(args[0]).twin.is_contiguous(memory_format=form)


def strides_like(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Whether the example is laid out as images in a memory format."""
    return tracer.handle(args[0]).twin.is_contiguous(memory_format=args[1])


def dense(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Whether the example fills its memory."""
    return is_non_overlapping_and_dense_or_false(tracer.handle(args[0]).twin)


def strided(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """NotImplemented where as_strided(x, size, stride, offset) stays within the elements of x, all in order, which is
    kept as a condition; raises LoweringError elsewhere: of a view it would see what the view does not."""
    handle = tracer.handle(args[0])
    for step in map(dim_of, args[2]):
        if type(step) is not int:
            tracer.asked.required(sympy.Ge(step, 0))
    whole = handle.twin.numel() * handle.twin.element_size() == handle.twin.untyped_storage().nbytes()
    base, memory = handle.memory.twin, handle.memory
    looked_through = base is not None and base is not handle.twin and base.is_contiguous()
    given = args[3] if len(args) > 3 else kwargs.get("storage_offset")
    if root_of(handle).memory is not memory:  # a copy here, which at other sizes is a view of less

        def has_its_own(sizes: Mapping[str, Any]) -> bool:
            held = replay_tensor(tracer, handle, sizes)
            return held.untyped_storage().nbytes() == held.element_size() * plain_number(whole_size, sizes)

        whole_size = dims.product(memory.content.shape)
        keep_answer(tracer, handle, has_its_own)
    if base is not None and looked_through:
        content = memory.content  # of a view, what it is a view of is looked at
        again = tracer.shown(Handle(base, memory, (), content, memory.version, "base"))
        if given is None:
            keep_answer(tracer, handle, lambda sizes: int(replay_tensor(tracer, handle, sizes).storage_offset()))
        with tracer.resumed():
            return func(again, args[1], args[2], handle.twin.storage_offset() if given is None else given)
    if not whole or not handle.twin.is_contiguous():
        raise LoweringError(
            "as_strided of a view, or of elements that lie in no order", source=tracer.line(),
            hint="call clone(memory_format=torch.contiguous_format) before it",
        )  # fmt: skip
    contiguous_to_all(tracer, handle, torch.contiguous_format)
    sizes, strides = ([dim_of(each) for each in numbers] for numbers in args[1:3])
    last = dims.dim(0) if given is None else dim_of(given)
    if any(tracer.asked.hint(size) == 0 for size in sizes):
        return NotImplemented
    for size, step in zip(sizes, strides, strict=True):
        last = dims.add(last, dims.mul(dims.sub(size, 1), step))
    rest = dims.sub(dims.product(handle.value.shape), last)
    if dims.are_numbers((rest,)):
        return NotImplemented
    tracer.asked.required(sympy.Ge(rest, 1))
    return NotImplemented


def as_many(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the memories of two tensors have as many elements."""
    one, other = (tracer.handle(each).memory.content.shape for each in args)
    return dims.same(dims.product(one), dims.product(other)) is True


def shared(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An operator of SHARING by the one that says whether its results share the memory of its argument; NotImplemented
    where no other one is needed"""
    other = SHARING[func._schema.name]
    if func._schema.name == "aten::native_channel_shuffle":
        if args[1] != 1:
            return NotImplemented
        args = args[:1]  # the kernel copies, and what it is made of elsewhere does not
    if func._schema.name == "aten::_reshape_alias":
        sizes, strides = ([each.node.hint if is_symbolic(each) else each for each in part] for part in args[1:3])
        twin = tracer.handle(args[0]).twin
        viewed = has_view(tracer.handle(args[0]), args[1]) and list(twin.view(sizes).stride()) == strides
        args, other = (args[:2], torch.ops.aten.view.default) if viewed else (args, other)
    with tracer.resumed():
        return other(*args, **kwargs)


def is_symbolic(number: Any) -> bool:
    """Whether a number is a size that varies."""
    return isinstance(number, torch.SymInt)


SHARING: Mapping[str, Any] = {
    "aten::unsafe_split": torch.ops.aten.split.Tensor, "aten::_unsafe_view": torch.ops.aten.view.default,
    "aten::unsafe_split_with_sizes": torch.ops.aten.split_with_sizes.default,
    "aten::lift": torch.ops.aten.alias.default, "aten::_reshape_alias": torch.ops.aten.as_strided.default,
    "aten::native_channel_shuffle": torch.ops.aten.clone.default,
}  # fmt: skip
"""Operators whose schemas do not say that their results share the memory of an argument, as they do, or say it wrongly:
by those that do."""

QUESTIONS = {
    **dict.fromkeys(SHARING, shared),
    "aten::_has_same_storage_numel": as_many,
    "aten::as_strided": strided,
    "aten::stride": stride, "aten::sym_stride": stride, "aten::size": size, "aten::sym_size": size,
    "aten::numel": numel, "aten::sym_numel": numel, "aten::storage_offset": offset,
    "aten::sym_storage_offset": offset, "aten::is_contiguous": contiguous, "aten::sym_is_contiguous": contiguous,
    "aten::is_strides_like_format": strides_like, "aten::is_non_overlapping_and_dense": dense,
}  # fmt: skip
"""What answers each question, or hands it on."""
