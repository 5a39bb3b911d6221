"""What is known of the results of operators whose number or rank of results hangs on sizes that vary.

The example tells how many parts a split gives and which dimensions a squeeze drops; that is kept as a condition. So are
sizes of operands that meet, where torch does not look at them on the meta device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from lowering.aten.indexing.embedding import MAX
from lowering.aten.linear_algebra.products import explicit
from lowering.capture.guards.comparisons import as_said
from lowering.capture.guards.met_sizes import put_at_places, within_memory
from lowering.direct.kernel_sizes.linear_algebra import (
    attention_of_some,
    least_squares,
    product_added_to,
    reflections,
    tensor_inverse,
    tensor_solution,
    unpacked_factors,
)
from lowering.direct.kernel_sizes.numbers import NUMBERED
from lowering.direct.kernel_sizes.parts import part_of, sizes_cropped, wrapped_around
from lowering.direct.sizes import SizeNode
from lowering.direct.tracer import Alike, Tracer
from lowering.records.sizes import is_unbacked
from lowering.records.types import DTYPES
from lowering.tensors.shaping import slice_bounds


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis % rank if rank else 0


def is_asked(tracer: Tracer, question: Any, answer: bool) -> bool:
    """The answer to a question of sizes that torch asks for the model: that of the sizes at hand, kept as a condition
    where no branch holds it."""
    asked = tracer.asked
    node = SizeNode(asked, question, bool, answer)
    told = asked.decide(node) if asked.decide is not None and not asked.silent else None
    if told is None:
        asked.condition(question, answer)
    return answer


def squeezed(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """squeeze(x), squeeze(x, dim), squeeze(x, dims)"""
    x = args[0]
    named = args[1] if len(args) > 1 else kwargs.get("dim", range(x.rank))
    axes = {axis_of(a, x.rank) for a in ([named] if isinstance(named, int) else named)} if x.rank else set()
    kept = []
    for axis, size in enumerate(x.shape):
        if axis in axes and type(size) is not int:
            gone = is_asked(tracer, sympy.Eq(size, 1), tracer.asked.hint(size) == 1)
        else:
            gone = axis in axes and size == 1
        if not gone:
            kept.append(size)
    return Tensor(x.dtype, tuple(kept))


def parts(tracer: Tracer, x: Any, axis: int, sizes: Sequence[Any]) -> tuple[Tensor, ...]:
    """The types of the parts of x along an axis."""
    return tuple(Tensor(x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes)


def split(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """split(x, size or sizes, dim)"""
    x, part = args[0], args[1]
    axis = axis_of(args[2] if len(args) > 2 else kwargs.get("dim", 0), x.rank)
    if isinstance(part, list | tuple):
        tracer.asked.equal(dims.dim(sum(part[1:], part[0])) if part else 0, x.shape[axis])
        return parts(tracer, x, axis, list(part))
    return in_equal_parts(tracer, x, axis, part, len(twins))


def in_equal_parts(tracer: Tracer, x: Any, axis: int, part: Any, count: int) -> tuple[Tensor, ...]:
    """Parts of one size, but for the last; of the size 0 there are as many as the example has, of nothing."""
    size = x.shape[axis]
    if tracer.asked.hint(part) == 0:
        tracer.asked.equal(size, 0)
        return parts(tracer, x, axis, [0] * count)
    if count > 1 and type(part) is not int:  # of nothing there is one part, also where a quotient says how many
        tracer.asked.condition(sympy.Ge(part, 1), True)
    tracer.asked.equal(dims.maximum(dims.ceildiv(size, part), 1), count)
    last = dims.sub(size, dims.mul(part, count - 1))
    return parts(tracer, x, axis, [*[part] * (count - 1), last])


def chunked(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """chunk(x, count, dim)"""
    x, count = args[0], args[1]
    axis = axis_of(args[2] if len(args) > 2 else kwargs.get("dim", 0), x.rank)
    part = dims.ceildiv(x.shape[axis], count)
    if len(twins) < count or tracer.asked.hint(part) == 0:
        return in_equal_parts(tracer, x, axis, part, len(twins))
    return in_all_parts(tracer, x, axis, part, count)


def in_all_parts(tracer: Tracer, x: Any, axis: int, part: Any, count: int) -> tuple[Tensor, ...]:
    """As many parts of one size as were asked for, the last one smaller: so, too, where there is nothing."""
    size = x.shape[axis]
    found = dims.ceildiv(size, dims.maximum(part, 1))
    if dims.same(found, count) is not True:
        whole: list[Any] = [sympy.Eq(sympy.sympify(one), n) for one, n in ((size, 0), (found, count))]
        tracer.asked.required(sympy.Or(*whole))
    return parts(tracer, x, axis, [*[part] * (count - 1), dims.sub(size, dims.mul(part, count - 1))])


def unbound(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """unbind(x, dim)"""
    x = args[0]
    axis = axis_of(args[1] if len(args) > 1 else kwargs.get("dim", 0), x.rank)
    tracer.asked.equal(x.shape[axis], len(twins))
    return tuple(Tensor(x.dtype, (*x.shape[:axis], *x.shape[axis + 1 :])) for _ in twins)


def viewed(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """view(x, sizes) and its like: as many elements as x has, one of the sizes may be -1"""
    x = args[0]
    named = args[1] if len(args) > 1 else next(iter(kwargs.values()))
    if isinstance(named, Value):  # view_as, reshape_as
        named = named.shape
    if not isinstance(named, list | tuple):
        return None  # another element type, whose size tells the last dimension
    return Tensor(x.dtype, in_order(tracer, list(named), dims.product(x.shape)))


def unflattened(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """unflatten(x, dim, sizes)"""
    x, axis = args[0], axis_of(args[1], args[0].rank)
    return Tensor(x.dtype, (*x.shape[:axis], *in_order(tracer, list(args[2]), x.shape[axis]), *x.shape[axis + 1 :]))


def in_order(tracer: Tracer, sizes: list[Any], count: Any) -> tuple[Any, ...]:
    """The sizes, -1 replaced by what is left of `count` elements; that it comes out even is kept."""
    if -1 not in sizes:
        tracer.asked.equal(dims.product(sizes), count)
        return tuple(sizes)
    at = sizes.index(-1)
    rest = dims.product(sizes[:at] + sizes[at + 1 :])
    whole = quotient(count, rest)
    if whole is not None:
        sizes[at] = whole
        return tuple(sizes)
    left = dims.mod(count, rest)
    if left != 0:
        tracer.asked.required(sympy.Eq(left, 0))
    sizes[at] = dims.floordiv(count, rest)
    return tuple(sizes)


def quotient(count: Any, rest: Any) -> Any:
    """count / rest where that is a product of factors of count, whatever the sizes are; None elsewhere."""
    if type(rest) is int and type(count) is int:
        return None
    if count == 0 or rest == 0:
        return None if rest == 0 else 0
    over: Any = sympy.Add.make_args(sympy.sympify(count))
    under: Any = sympy.Add.make_args(sympy.sympify(rest))
    if len(over) != len(under):
        return None
    for term in under:  # what the first term of count is a multiple of
        ratio = over[0] / term
        whole = all(f.is_Integer or f.is_Symbol or f.is_Function for f in sympy.Mul.make_args(ratio))
        if whole and (len(under) == 1 or dims.mul(dims.dim(ratio), rest) == count):
            return dims.dim(ratio)
    return None


def bags(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """embedding_bag: what it gives beside the bags is for gradients, and has the sizes that torch gives it on the meta
    device"""
    weight, indices, offsets = args[:3]
    mode = args[4] if len(args) > 4 else kwargs.get("mode", 0)
    last = args[7] if len(args) > 7 else kwargs.get("include_last_offset", False)
    count = dims.sub(offsets.shape[0], 1) if last else offsets.shape[0]
    whole = (count, weight.shape[1])
    shapes = (whole, indices.shape, offsets.shape, whole if mode == MAX else (0,))
    return tuple(Tensor(DTYPES[t.dtype], tuple(shape)) for t, shape in zip(twins, shapes, strict=True))


def summed(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """einsum(equation, tensors): the axes of a letter have one size, but for those of size 1"""
    sources, _, target = explicit(args[0].replace(" ", ""), args[1]).partition("->")
    sizes: dict[str, list[Any]] = {}
    for letters, x in zip(sources.split(","), args[1], strict=True):
        own: dict[str, Any] = {}
        for letter, size in zip(letters, x.shape, strict=True):
            tracer.asked.equal(size, own.setdefault(letter, size))
        for letter, size in own.items():
            sizes.setdefault(letter, []).append(size)
    common = {letter: common_size(tracer, found) for letter, found in sizes.items()}
    return Tensor(DTYPES[twins.dtype], tuple(common[letter] for letter in target))


def common_size(tracer: Tracer, sizes: Sequence[Any]) -> Any:
    """The size to which axes are spread: those that are 1 in the example are so always, which is kept. That two names
    are equal is left to what tries them out, and makes one of them."""
    varying = [size for size in sizes if type(size) is not int or size != 1]
    large = [size for size in varying if tracer.asked.hint(size) != 1] or varying
    common = next((size for size in large if type(size) is int), large[0] if large else 1)
    for size in varying:
        if size not in large:
            tracer.asked.equal(size, 1)
        elif not all(getattr(each, "name", None) in tracer.named for each in (size, common)):
            tracer.asked.equal(size, common)
    return common


def spread(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """expand(x, sizes), broadcast_to(x, sizes): -1 keeps a dimension"""
    x, sizes = args[0], args[1] if len(args) > 1 else kwargs.get("size", ())
    new = len(sizes) - x.rank
    kept = (x.shape[i - new] if type(d) is int and d == -1 else d for i, d in enumerate(sizes))
    return Tensor(x.dtype, tuple(map(dims.dim, kept)))


def resized(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """upsample_*.vec(x, None, ..., factors): each size times its factor, rounded down"""
    x, factors = args[0], args[-1]
    if len(args) < 3 or args[1] is not None or not isinstance(factors, list | tuple):
        return None
    sizes = (
        int(d * f) if type(d) is int else dims.dim(dims.Trunc(sympy.Float(f) * d) if f != int(f) else int(f) * d)
        for d, f in zip(x.shape[2:], factors, strict=True)
    )
    return Tensor(x.dtype, (*x.shape[:2], *sizes))


def put_there(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """put(x, index, source): as many elements as places"""
    tracer.asked.equal(*(dims.product(each.shape) for each in args[1:3]))
    return like_first(tracer, args, kwargs, twins)


def put_at(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """index_put(x, indices, values) and its like: values that broadcast to what is there"""
    x, *_, indices, values = args[: 4 if isinstance(args[1], Value) else 3]
    if not any(index is not None and index.dtype in (DType.BOOL, DType.UINT8) for index in indices):
        places = [None if index is None else index.shape for index in indices]
        for condition in put_at_places(x.shape, places, values.shape):
            tracer.asked.required(condition)
    return like_first(tracer, args, kwargs, twins)


def put_in_strides(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """as_strided_scatter(x, part, size, stride, offset), whose part lies within the memory of x"""
    offset = args[4] if len(args) > 4 else kwargs.get("storage_offset")
    for condition in within_memory(args[0].shape, args[2], args[3], offset):
        tracer.asked.required(condition)
    for size, step in zip(args[2], args[3], strict=False):
        if type(step) is not int:  # torch writes nothing in one place twice
            tracer.asked.required(sympy.Or(sympy.Ne(step, 0), sympy.Le(size, 1)))
    return like_first(tracer, args, kwargs, twins)


def added_to(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """addmm(x, a, b), addmv(x, a, b): x has the sizes of the product, or 1, which torch asks on a CPU only"""
    x, a, b = args[:3]
    for size, whole in zip(reversed(x.shape), reversed((a.shape[0], *b.shape[1:])), strict=False):
        if type(size) is not int and dims.same(size, whole) is not True:
            either: list[Any] = [sympy.Eq(size, whole), sympy.Eq(size, 1)]
            tracer.asked.required(sympy.Or(*either))
    if b.rank == 2:
        product_added_to(tracer, args, kwargs, twins)
    return None


def like_first(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """An operator that puts elements into its first operand"""
    return args[0].type if args[0].dtype is DTYPES[twins.dtype] else None


def with_part(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """slice_scatter(x, part, dim, start, end, step), whose part is as long as the slice"""
    given = {**dict(zip(("self", "src", "dim", "start", "end", "step"), args, strict=False)), **kwargs}
    x, axis = args[0], axis_of(given.get("dim", 0), args[0].rank)
    for at, (size, other) in enumerate(zip(x.shape, given["src"].shape, strict=True)):
        if at != axis:
            same_size(tracer, other, size)
    low, high = slice_bounds(given.get("start"), given.get("end"), x.shape[axis])
    tracer.asked.equal(dims.ceildiv(dims.sub(high, low), given.get("step", 1)), given["src"].shape[axis])
    return like_first(tracer, args, kwargs, twins)


def sliced(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """slice(x, dim, start, end, step) with ends that are sizes"""
    given = {**dict(zip(("self", "dim", "start", "end", "step"), args, strict=False)), **kwargs}
    ends = [given.get("start"), given.get("end")]
    if all(end is None or type(end) is int for end in ends):
        return None  # the type rule tells
    x, axis = args[0], axis_of(given.get("dim", 0), args[0].rank)
    size = x.shape[axis]
    low, high = told_place(tracer, ends[0], size, 0), told_place(tracer, ends[1], size, size)
    if low is None or high is None or not tracer.asked.decided("le", low, high):
        low, high = slice_bounds(ends[0], ends[1], size)
    length = dims.ceildiv(dims.sub(high, low), given.get("step", 1))
    return Tensor(x.dtype, (*x.shape[:axis], length, *x.shape[axis + 1 :]))


def convolved(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> None:
    """conv1d and its like: the channels that torch wants of weights and bias, which it does not ask for on the meta
    device"""
    given = {**dict(zip(CONVOLUTION, args, strict=False)), **kwargs}
    match_channels(tracer, given, 1, 0)
    fit_kernel(tracer, given)


def convolved_back(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> None:
    """conv_transpose1d and its like, as `convolved`"""
    given = {**dict(zip(TRANSPOSED_CONVOLUTION, args, strict=False)), **kwargs}
    match_channels(tracer, given, 0, 1)
    kernel, image = given["weight"].shape[2:], given["input"].shape
    names = ("stride", "padding", "dilation", "output_padding")
    for axis, size in enumerate(kernel):
        step, pad, dilation, more = (at_axis(given.get(n, int(n in names[::2])), axis) for n in names)
        around = dims.add(dims.mul(dims.sub(size, 1), dilation), dims.sub(more, dims.mul(pad, 2)))
        rest = dims.add(dims.mul(dims.sub(image[axis - len(kernel)], 1), step), around)
        if not dims.are_numbers((rest,)):
            some: Any = sympy.Ge(dims.add(rest, 1), 1)
            tracer.asked.required(some)
            tracer.asked.refused.add(as_said(some))


CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
TRANSPOSED_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")


def fit_kernel(tracer: Tracer, given: Mapping[str, Any]) -> None:
    """Keeps that the kernel of a convolution is at most as large as its padded image, where the kernel varies; for one
    that does not, the least image is found as for any operator."""
    kernel, image = given["weight"].shape[2:], given["input"].shape
    padding, dilation = given.get("padding", 0), given.get("dilation", 1)
    for axis, size in enumerate(kernel):
        if type(size) is int:
            continue
        step = at_axis(dilation, axis)
        inside = dims.mul(dims.sub(size, 1), step)
        around = inside if padding == "same" else 0 if padding == "valid" else dims.mul(at_axis(padding, axis), 2)
        fits = sympy.Ge(dims.add(image[axis - len(kernel)], around), dims.add(inside, 1))
        if fits not in (True, sympy.true):
            tracer.asked.required(fits)


def at_axis(given: Any, axis: int) -> Any:
    """One of some numbers; the only one for all axes."""
    return given if not isinstance(given, list | tuple) else given[axis if len(given) > 1 else 0]


def match_channels(tracer: Tracer, given: Mapping[str, Any], within: int, out: int) -> None:
    """Keeps that the channels of images are those of weights, along the axis `within`, and that there is a bias for
    each channel `out`; the axis 1 of weights has those of one group."""
    weight, bias, groups = given["weight"], given.get("bias"), given.get("groups", 1)
    of_weight = [dims.mul(weight.shape[0], 1), dims.mul(weight.shape[1], groups)]
    same_size(tracer, given["input"].shape[1 - weight.rank], of_weight[within])
    if isinstance(bias, Value) and bias.rank:
        same_size(tracer, bias.shape[0], of_weight[out])


def same_size(tracer: Tracer, one: Any, other: Any) -> None:
    """Keeps that two dimensions are equal. Raises Alike where both are names, LoweringError where the example's are
    not."""
    named = all(type(d) is not int and d.is_Symbol and d.name in tracer.named for d in (one, other))
    if named and one != other and tracer.asked.hint(one) == tracer.asked.hint(other):
        raise Alike({one: other}, tracer.line())
    tracer.asked.equal(one, other)


def bilinear(tracer: Any, args: Sequence[Any], kwargs: Mapping[str, Any], twins: Any) -> None:
    """bilinear(x, y, weight, bias): as many rows of x as of y, with as many features as the weight has"""
    x, y, weight, *bias = (*args, *kwargs.values())
    for one, other in zip(x.shape[:-1], y.shape[:-1], strict=True):
        same_size(tracer, one, other)
    for one, other in ((x.shape[-1], weight.shape[1]), (y.shape[-1], weight.shape[2])):
        same_size(tracer, one, other)
    for each in bias:
        if isinstance(each, Value):
            same_size(tracer, each.shape[0], weight.shape[0])


def in_groups(tracer: Tracer, args: Sequence[Any], kwargs: Mapping[str, Any], twins: Any) -> None:
    """group_norm(x, groups, weight, bias): channels that groups divide, as many as there are weights"""
    x, groups, *weights = args
    channels = x.shape[1]
    for each in (*weights[:2], *kwargs.values()):
        if isinstance(each, Value):
            same_size(tracer, each.shape[0], channels)
    if type(channels) is not int:
        tracer.asked.equal(dims.mod(channels, groups), 0)


def by_trapezoids(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> None:
    """trapezoid(y): of no integers torch gives integers, of some floats, so that there must be some"""
    y = args[0]
    if y.dtype.is_integer or y.dtype is DType.BOOL:
        size = y.shape[axis_of(kwargs.get("dim", -1), y.rank)]
        if type(size) is not int:
            tracer.asked.required(sympy.Ge(size, 1))


def aligned(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> None:
    """ctc_loss: a row of labels for each of a batch, and one of each length"""
    batch = args[0].shape[1] if args[0].rank == 3 else 1
    if args[0].rank == 3 and args[1].rank == 2:
        same_size(tracer, args[1].shape[0], batch)
    for lengths in args[2:4]:
        if isinstance(lengths, Value) and lengths.rank:
            same_size(tracer, lengths.shape[0], batch)


def told_place(tracer: Tracer, index: Any, size: Any, otherwise: Any) -> Any:
    """An end of a part as a place between the front and the back, where that is known; else None."""
    asked = tracer.asked
    if index is None:
        return otherwise
    if type(index) is int and (index == 0 or index >= 1 << 31):
        return index and size
    if asked.decided("ge", index, 0) or is_kept(tracer, sympy.Ge(index, 0), sympy.Gt(index, 0)):
        return index if asked.decided("le", index, size) else None
    place = dims.add(index, size)
    return place if asked.decided("lt", index, 0) and asked.decided("ge", place, 0) else None


def is_kept(tracer: Tracer, *conditions: Any) -> bool:
    """Whether one of these conditions is kept."""
    return any(as_said(each) in tracer.asked.kept for each in conditions)


def with_diagonal(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """diagonal_scatter(x, part, offset, dim1, dim2), whose part is as long as the diagonal"""
    given = {**dict(zip(("self", "src", "offset", "dim1", "dim2"), args, strict=False)), **kwargs}
    x, offset = args[0], given.get("offset", 0)
    rows, columns = (x.shape[axis_of(given.get(n, d), x.rank)] for n, d in (("dim1", 0), ("dim2", 1)))
    if type(offset) is int:
        sizes = (rows, dims.sub(columns, offset)) if offset >= 0 else (dims.add(rows, offset), columns)
        tracer.asked.equal(given["src"].shape[-1], dims.maximum(dims.minimum(*sizes), 0))
    return like_first(tracer, args, kwargs, twins)


def row_of(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> None:
    """select(x, dim, index), whose index lies within the dimension: of sizes, where it is a name, trials tell"""
    given = {**dict(zip(("self", "dim", "index"), args, strict=False)), **kwargs}
    size, index = args[0].shape[axis_of(given["dim"], args[0].rank)], given["index"]
    if type(index) is int or type(size) is int:
        return
    if not size.is_Symbol or any(is_unbacked(symbol.name) for symbol in index.free_symbols):
        tracer.asked.required(sympy.Lt(index, size))
        if not sympy.sympify(index).is_nonnegative:
            tracer.asked.required(sympy.Ge(index, -size))


def with_row(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """select_scatter(x, row, dim, index), whose index lies within the dimension"""
    given = {**dict(zip(("self", "src", "dim", "index"), args, strict=False)), **kwargs}
    size, index = args[0].shape[axis_of(given["dim"], args[0].rank)], given["index"]
    if type(index) is int and type(size) is not int:
        tracer.asked.required(sympy.Ge(size, index + 1 if index >= 0 else -index))
    elif type(index) is not int and not isinstance(index, Value):
        for there in (sympy.Lt(index, size), sympy.Ge(index, -sympy.sympify(size))):
            tracer.asked.required(there)
    return like_first(tracer, args, kwargs, twins)


def binned(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """histogram(x, edges, weight) and histogramdd(x, lists of edges): two edges at least make a bin"""
    for edges in args[1] if isinstance(args[1], list | tuple) else args[1:2]:
        if isinstance(edges, Value) and type(edges.shape[0]) is not int:
            tracer.asked.required(sympy.Ge(edges.shape[0], 2))
    weight = kwargs.get("weight")
    for one, other in zip(args[0].shape, () if weight is None else weight.shape, strict=False):
        tracer.asked.equal(one, other)
    return None


def padded(tracer: Tracer, args: Sequence[Any], kwargs: Any, twins: Any) -> Any:
    """pad(x, pad, mode)"""
    mode = args[2] if len(args) > 2 else kwargs.get("mode", "constant")
    if mode == "circular":
        return wrapped_around(tracer, args, kwargs, twins)
    for left in sizes_cropped(args[0], args[1]) if mode == "constant" else ():
        if type(left) is not int:
            tracer.asked.required(sympy.Ge(left, 0))
    return None


SCATTERS = "index_copy index_add index_fill scatter scatter_add"
PUTS = "index_put _unsafe_index_put _unsafe_masked_index_put_accumulate".split()
UPSAMPLES = "nearest1d nearest2d nearest3d linear1d bilinear2d trilinear3d bicubic2d".split()
VIEWS = "view reshape _unsafe_view view_copy _reshape_copy view_as reshape_as".split()
SPLITS = "split split_with_sizes unsafe_split unsafe_split_with_sizes split_copy".split()
BAGS = "embedding_bag _embedding_bag _embedding_bag_forward_only".split()

KNOWN = {
    "aten::squeeze": squeezed, "aten::chunk": chunked, "aten::unsafe_chunk": chunked, "aten::unbind": unbound,
    "aten::pad": padded, "aten::_pad_circular": wrapped_around, "aten::lu_unpack": unpacked_factors,
    "aten::bilinear": bilinear, "aten::linalg_householder_product": reflections, "aten::orgqr": reflections,
    "aten::linalg_tensorinv": tensor_inverse, "aten::linalg_tensorsolve": tensor_solution,
    "aten::group_norm": in_groups, "aten::scaled_dot_product_attention": attention_of_some,
    "aten::linalg_lstsq": least_squares, "aten::addmm": added_to, "aten::addmv": added_to,
    "aten::addbmm": product_added_to, "aten::baddbmm": product_added_to,
    "aten::einsum": summed, "aten::unflatten": unflattened,
    **NUMBERED, "aten::select": row_of, "aten::narrow": part_of, "aten::narrow_copy": part_of,
    "aten::expand": spread, "aten::broadcast_to": spread,
    "aten::put": put_there,
    **dict.fromkeys((f"aten::{name}" for name in VIEWS), viewed),
    **dict.fromkeys((f"aten::upsample_{name}" for name in UPSAMPLES), resized),
    **dict.fromkeys((f"aten::{name}" for name in SCATTERS.split()), like_first),
    **dict.fromkeys((f"aten::{name}" for name in PUTS), put_at), "aten::as_strided_scatter": put_in_strides,
    **{f"aten::conv{n}d": convolved for n in (1, 2, 3)}, "aten::ctc_loss": aligned,
    "aten::trapz": by_trapezoids, "aten::trapezoid": by_trapezoids,
    **{f"aten::conv_transpose{n}d": convolved_back for n in (1, 2, 3)},
    "aten::slice": sliced, "aten::slice_scatter": with_part, "aten::select_scatter": with_row,
    "aten::diagonal_scatter": with_diagonal, "aten::histogram": binned,
    "aten::_histogramdd_from_bin_tensors": binned,
    **dict.fromkeys((f"aten::{name}" for name in SPLITS), split),
    **dict.fromkeys((f"aten::{name}" for name in BAGS), bags),
}  # fmt: skip
"""By operator: what it gives, as far as the example's sizes tell it."""


# ---------------------------------------------------------------------------------------------- sizes that meet

INDEXING = frozenset(f"aten::{name}" for name in "index index_put index_put_ _unsafe_index_put".split())
"""Operators whose masks torch does not look at on the meta device."""


def require_masks(tracer: Tracer, func: Any, args: Sequence[Any]) -> None:
    """Keeps that the masks among the indices of an operator have the sizes of what they index."""
    if func._schema.name not in INDEXING:
        return
    shape, axis = tracer.handle(args[0]).value.shape, 0
    for index in args[1]:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            axis += 1
            continue
        for size in tracer.handle(index).value.shape:
            tracer.asked.equal(size, shape[axis])
            axis += 1


def require_shared_sizes(tracer: Tracer, func: Any, args: Sequence[Any]) -> None:
    """Keeps that a mask has the sizes of what it chooses from where sizes meet that are not a plain 1."""
    if func._schema.name != "aten::masked_select":
        return
    shape, mask = (tracer.handle(each).value.shape for each in args[:2])
    for size, other in zip(reversed(shape), reversed(mask), strict=False):
        if 1 in (size, other):
            continue
        if tracer.asked.hint(size) == tracer.asked.hint(other):
            tracer.asked.equal(size, other)
        else:
            tracer.asked.equal(1, size if tracer.asked.hint(size) == 1 else other)


def require_counts(tracer: Tracer, sizes: Sequence[Any]) -> None:
    """Keeps that none of the sizes of a tensor that is made is below 0; nothing else tells what these are."""
    for size in sizes:
        tracer.loose.difference_update(symbol.name for symbol in dims.symbols_of(size))
        if tracer.asked.decided("ge", size, 0) is not True:
            tracer.asked.required(sympy.Ge(size, 0))


def require_broadcast(tracer: Tracer, operands: Sequence[Any]) -> None:
    """Keeps that sizes which meet a number in operands that are broadcast are that number, or 1."""
    shapes = {v.shape for v in operands if isinstance(v, Value) and isinstance(v.type, Tensor) and v.shape}
    if len(shapes) < 2:
        return
    for axis in range(1, max(map(len, shapes)) + 1):
        sizes = {s[-axis] for s in shapes if len(s) >= axis} - {1}
        for fixed in [size for size in sizes if type(size) is int]:
            for size in [each for each in sizes if type(each) is not int]:
                either: list[Any] = [sympy.Eq(size, fixed), sympy.Eq(size, 1)]
                tracer.asked.required(sympy.Or(*either))
