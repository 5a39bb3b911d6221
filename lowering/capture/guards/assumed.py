"""What torch takes for granted of sizes while it traces an operator, and records in no guard."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import sympy
import torch
from torch.fx import Node

from lowering.capture.guards.guards import over_sizes
from lowering.capture.guards.met_sizes import no_place, put_at_places, within_memory
from lowering.capture.guards.products import CHUNKED, SCALED, classes_there, integers_scaled
from lowering.records.sizes import is_unbacked
from lowering.records.torch_internals import OpOverload

_SQUEEZES = frozenset(("aten::squeeze", "aten::squeeze_copy"))
_RESIZES = ("aten::upsample_", "aten::_upsample_")
_SAMPLERS = ("aten::grid_sampler",)
_LOSSES = frozenset(("aten::cross_entropy_loss", "aten::nll_loss", "aten::nll_loss_nd", "aten::nll_loss_forward"))
_CONVOLUTIONS = ("aten::conv",)
_MARGINS = ("aten::multilabel_margin_loss", "aten::multi_margin_loss")
_NORMS = tuple(f"aten::{name}" for name in "batch_norm native_batch_norm _native_batch_norm_legit".split())
_NORMS += ("aten::_batch_norm_with_update",)
_ENDING = frozenset(("aten::native_batch_norm_backward", "aten::batch_norm_backward"))
"""Operators of which torch's kernel ends the process where there is no channel: it divides by their number."""
_ADAPTIVE = ("aten::adaptive_avg_pool", "aten::_adaptive_avg_pool", "aten::adaptive_max_pool")
_PADS = frozenset(("aten::pad", "aten::constant_pad_nd"))
_TRAPEZOIDS = frozenset(("aten::trapz", "aten::trapezoid"))
_WRITES = frozenset(("aten::slice_scatter", "aten::select_scatter"))
_CHOICES = frozenset(f"aten::{name}" for name in "max min amax amin aminmax argmax argmin mode".split())
_PUTS = frozenset(f"aten::{name}" for name in "index_put index_put_ _unsafe_index_put".split())
_PUTS |= {"aten::_unsafe_masked_index_put_accumulate"}
_GETS = frozenset(("aten::index", "aten::_unsafe_index"))
_STRIDED = frozenset(("aten::as_strided", "aten::as_strided_copy", "aten::as_strided_scatter"))
_MIDDLES = frozenset(("aten::median", "aten::nanmedian"))
"""Operators that choose one element along a dimension, and give NaN for the middle of nothing at all."""
_INDEXED = frozenset(("aten::index_reduce", "aten::index_add", "aten::index_copy"))
_PARTS = frozenset(("aten::diagonal_scatter", *_WRITES, *_INDEXED, *_PUTS, *_GETS, *_STRIDED))
_WHOLE = frozenset(("aten::pixel_unshuffle", "aten::linalg_cond"))
"""Operators that give something else of nothing: an image without pixels as it is, 0 for a matrix of nothing."""
_COMPARING = frozenset((
    *_WRITES, "aten::_softmax_backward_data", "aten::_log_softmax_backward_data", "aten::native_group_norm",
    "aten::diagonal_scatter", "aten::batch_norm",
))  # fmt: skip
"""What may be called at any sizes, as native_batch_norm may not: that asks nothing, and reads beyond its operands."""


def asks_in_its_kernel(name: str) -> bool:
    """True for an operator that refuses a size of 0 only while it computes. The meta device, which computes nothing,
    lets it through. The gradient of adaptive pooling refuses nothing: it writes into an image that has no pixels, which
    ends the process."""
    some = name in _CHOICES or name in _MIDDLES or name in _LOSSES or name == "aten::ctc_loss"
    if name in _ENDING or (name.startswith(_ADAPTIVE) and name.endswith("_backward")):
        return False
    return some or name.startswith((*_CONVOLUTIONS, *_RESIZES, *_SAMPLERS, *_MARGINS, *_NORMS, *_ADAPTIVE))


def compares_in_its_kernel(name: str) -> bool:
    """True for an operator that holds the sizes of its operands against one another only while it computes."""
    return name in _COMPARING


def replaces_part(name: str) -> bool:
    """True for an operator that replaces a part of a tensor by one of its sizes. The meta device stretches others."""
    return name in _WRITES or name == "aten::diagonal_scatter"


def normalizes_channels(name: str) -> bool:
    """True for an operator whose first operand has channels as its second axis, of which there must be some."""
    return name.startswith(_NORMS)


def resizes(name: str) -> bool:
    """True for an operator that gives an image another size."""
    return name.startswith(_RESIZES)


@lru_cache(maxsize=1 << 12)
def takes_all_sizes(name: str) -> bool:
    """True for an operator of which nothing here is asked, as of most."""
    some = (
        _SQUEEZES,
        _PARTS,
        _CHOICES,
        _MIDDLES,
        _LOSSES,
        _TRAPEZOIDS,
        _WHOLE,
        SCALED,
        _PADS,
        ("aten::select", "aten::ctc_loss", "aten::bincount"),
    )
    begins = (*_CONVOLUTIONS, *_RESIZES, *_SAMPLERS, *_ADAPTIVE, *_MARGINS, *_NORMS, CHUNKED)
    return not any(name in each for each in some) and not name.startswith(begins)


@lru_cache(maxsize=1 << 12)
def out_of_place(name: str) -> str:
    """The name of an operator that does the same and writes none of its operands, which wants the same of sizes."""
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def taken_for_granted(node: Node) -> Iterator[Any]:
    """The conditions, in torch's symbols, under which the operator of a node gives what torch recorded for it."""
    target: Any = node.target
    name = out_of_place(target._schema.name) if isinstance(target, OpOverload) else ""
    if takes_all_sizes(name):
        return
    operand = node.args[0] if node.args else None
    recorded = operand.meta.get("val") if isinstance(operand, Node) else None
    if not isinstance(recorded, torch.Tensor):
        return
    if name in _SQUEEZES:
        yield from kept_dimensions(node, recorded)
    elif target is torch.ops.aten.select.int:
        yield from place_within(node, recorded)
    elif name in _PARTS:
        yield from what_fits(name, node, recorded)
    elif name in _CHOICES or (name in _MIDDLES and (len(node.args) > 1 or "dim" in node.kwargs)):
        yield from something_to_choose(node, recorded, name == "aten::mode")
    elif name.startswith(_CONVOLUTIONS):
        yield from something_to_weigh(node)
        yield from something_transposed(name, node)
    elif name.startswith(_RESIZES):
        yield from something_to_resize(node, recorded)
    elif name in _LOSSES:
        yield from some_class(node, recorded)
    elif name in SCALED or name.startswith(CHUNKED):
        yield from of_a_product(name, node, recorded)
    elif name in _PADS:
        yield from enough_to_cut(node, recorded)
    else:
        yield from something_there(name, node, recorded)


def enough_to_cut(node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The conditions that what a padding below 0 takes away is there, whatever is added at the other end."""
    pads = node.args[1] if len(node.args) > 1 else node.kwargs["pad"]
    numbers = [each.meta.get("val") if isinstance(each, Node) else each for each in pads]  # type: ignore[union-attr]
    for axis, (before, after) in enumerate(zip(numbers[::2], numbers[1::2], strict=True), 1):
        cut = sum((sympy.Min(expression(each), 0) for each in (before, after)), sympy.Integer(0))
        if cut != 0:
            yield from of_sizes(sympy.Ge(expression(recorded.shape[-axis]) + cut, 0))


def what_fits(name: str, node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The conditions that a part of a tensor, which is read or written, lies within it, and fits what is put there."""
    if name == "aten::diagonal_scatter":
        yield from diagonal_within(node, recorded)
    elif name in _WRITES:
        yield from part_within(node, recorded, name == "aten::slice_scatter")
    elif name in _INDEXED:
        yield from one_index_each(node, recorded)
    elif name in _PUTS:
        yield from spread_to_places(node, recorded)
    elif name in _GETS:
        yield from taken_somewhere(node, recorded)
    else:
        yield from strides_within(node, recorded)


def something_there(name: str, node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The conditions that an operand is not empty, or not along some dimensions, where eager torch would raise."""
    if name.startswith(_MARGINS):
        yield from of_sizes(expression(recorded.shape[-1]) >= 1) if recorded.ndim else ()
    elif name.startswith(_NORMS):
        for size in dict.fromkeys(map(expression, normed_sizes(name, node, recorded))):
            yield from of_sizes(size >= 1)
    elif name.startswith(_SAMPLERS):
        for size in dict.fromkeys(map(expression, recorded.shape[2:])):
            yield from of_sizes(size >= 1)
    elif name == "aten::ctc_loss":
        for size in recorded.shape:
            yield from of_sizes(expression(size) >= 1)
        yield from frames_enough(node, recorded)
    elif name.startswith(_ADAPTIVE):
        for size in dict.fromkeys(map(expression, recorded.shape[1:])):
            yield from of_sizes(size >= 1)
    elif name in _WHOLE and node.args[1:2] != (1,):  # each pixel is one of its own then
        for size in dict.fromkeys(map(expression, recorded.shape)):
            yield from of_sizes(size >= 1)
    elif name in _TRAPEZOIDS:
        # Of no integers torch gives integers, of some floats.
        size: Any = recorded.shape[node.kwargs.get("dim", -1)]  # type: ignore[index]
        floats = recorded.is_floating_point() or recorded.is_complex() or type(size) is int
        yield from of_sizes(expression(size) >= 1) if not floats else ()
    elif name == "aten::bincount" and len(node.args) > 1 and isinstance(node.args[1], Node):
        yield from weights_enough(node.args[1], recorded)


def weights_enough(weights: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The conditions that there is a weight for each number that is counted, and some number: of nothing, torch counts
    in integers whatever the weights are."""
    yield from of_sizes(expression(recorded.shape[0]) >= 1) if is_dynamic(recorded) else ()
    told = weights.meta.get("val")
    if isinstance(told, torch.Tensor):
        yield from of_sizes(sympy.Eq(expression(recorded.shape[0]), expression(told.shape[0])))


def is_dynamic(recorded: torch.Tensor) -> bool:
    """True where some size of a recorded tensor is a symbol."""
    return any(isinstance(size, torch.SymInt) for size in recorded.shape)


def frames_enough(node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The condition that there are at least as many frames as the longest of the lengths, where the lengths are
    numbers."""
    lengths = node.args[2] if len(node.args) > 2 else None
    if isinstance(lengths, list | tuple) and lengths and all(type(each) is int for each in lengths):
        most = max(each for each in lengths if type(each) is int)
        yield from of_sizes(expression(recorded.shape[0]) >= most)


def normed_sizes(name: str, node: Node, recorded: torch.Tensor) -> Sequence[Any]:
    """The sizes that must not be 0 for a batch to be normalized: all of one that is learnt from by the kernel itself;
    of others, the channels."""
    if name == "aten::batch_norm":
        return recorded.shape[1:2]
    target: Any = node.target
    given = {**dict(zip((a.name for a in target._schema.arguments), node.args, strict=False)), **node.kwargs}
    return recorded.shape if given.get("training", not name.endswith("no_training")) else ()


def something_transposed(name: str, node: Node) -> Iterator[Any]:
    """The conditions that what a transposed convolution gives has rows and columns. torch checks that they are not
    below 0 while it traces."""
    transposed = "transpose" in name or (len(node.args) > 6 and node.args[6] is True and "convolution" in name)
    weight, made = node.args[1] if len(node.args) > 1 else None, node.meta.get("val")
    if not transposed or not isinstance(weight, Node) or not isinstance(made, torch.Tensor):
        return
    for size in dict.fromkeys(map(expression, made.shape[2 - weight.meta["val"].ndim :])):
        yield from of_sizes(size >= 1)


def something_to_weigh(node: Node) -> Iterator[Any]:
    """The conditions that the weight of a convolution is not empty, where it is not a constant."""
    weight = node.args[1].meta.get("val") if len(node.args) > 1 and isinstance(node.args[1], Node) else None
    for size in dict.fromkeys(map(expression, weight.shape)) if isinstance(weight, torch.Tensor) else ():
        yield from of_sizes(size >= 1)


def some_class(node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The conditions that each item has a label, and that there is at least one class, or no item that would need
    one."""
    target = node.args[1].meta.get("val") if len(node.args) > 1 and isinstance(node.args[1], Node) else None
    if isinstance(target, torch.Tensor) and not target.is_floating_point() and recorded.dim():
        items = (*recorded.shape[:-1][:1], *recorded.shape[2:])
        for size, other in zip(items, target.shape, strict=False):
            yield from of_sizes(sympy.Eq(expression(size), expression(other)))
        some = expression(recorded.shape[min(1, recorded.dim() - 1)]) >= 1
        for condition in of_sizes(some):
            nothing: list[Any] = [sympy.Eq(expression(size), 0) for size in target.shape]
            either = sympy.Or(condition, *nothing)
            yield from of_sizes(either) if either is not sympy.false else ()


def of_a_product(name: str, node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The conditions under which a product of matrices of nothing is taken."""
    operands: list[Any] = [recorded_of(each) for each in node.args[:3]]
    if not all(isinstance(each, torch.Tensor) for each in operands):
        return
    shapes = [[expression(size) for size in each.shape] for each in operands]
    if name.startswith(CHUNKED):
        yield from of_sizes(classes_there(shapes[0][:-1], shapes[1][0]))
    elif not recorded.is_floating_point() and not recorded.is_complex():
        for condition in integers_scaled(name, node.kwargs.get("beta", 1), *shapes[1:]):
            yield from of_sizes(condition)


def something_to_resize(node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The conditions that an image has channels, and rows and columns, before it is resized and after. The batch may be
    empty."""
    made = node.meta.get("val")
    sizes = [*recorded.shape[1:], *(made.shape[2:] if isinstance(made, torch.Tensor) else ())]
    for size in dict.fromkeys(expression(size) for size in sizes):
        yield from of_sizes(size >= 1)


def kept_dimensions(node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """For each dynamic dimension that a squeeze names and that stayed, the condition that it is not 1."""
    named: Any = node.args[1] if len(node.args) > 1 else range(recorded.ndim)
    for axis in (named,) if isinstance(named, int) else named:
        size = recorded.shape[axis] if recorded.ndim else 1
        if isinstance(size, torch.SymInt) and size.node.expr.free_symbols:
            yield sympy.Or(expression(size) < 1, expression(size) > 1)


def place_within(node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The conditions that a dimension reaches as far as the place that is read, where that place depends on sizes."""
    index = node.args[2].meta.get("val") if isinstance(node.args[2], Node) else node.args[2]
    length: Any = expression(recorded.shape[node.args[1]])  # type: ignore[index]
    if type(index) is int and any(is_unbacked(s.name) for s in length.free_symbols):
        yield length >= (index + 1 if index >= 0 else -index)  # of what data tells torch need not say even that
    elif type(index) is int and index not in (0, -1):
        yield from of_sizes(length >= (index + 1 if index > 0 else -index))
    if isinstance(index, torch.SymInt):
        place, size = expression(index), expression(recorded.shape[node.args[1]])  # type: ignore[index]
        # Of an empty dimension torch does say that nothing can be taken.
        some = place.subs(size, size + 1) if size.is_Symbol else place
        yield from of_sizes(place < size)
        if not sympy.expand(some).is_nonnegative:
            yield from of_sizes(place >= -size)


def diagonal_within(node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The condition that a diagonal is as long as the part that replaces it, by diagonal_scatter(x, part, offset, dim1,
    dim2)."""
    names = ("self", "src", "offset", "dim1", "dim2")
    given: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    offset, part = given.get("offset", 0), given["src"].meta.get("val")
    rows, columns = (expression(recorded.shape[given.get(n, d)]) for n, d in (("dim1", 0), ("dim2", 1)))
    if type(offset) is int and isinstance(part, torch.Tensor):
        length = sympy.Min(rows + min(offset, 0), columns - max(offset, 0))
        yield from of_sizes(sympy.Eq(sympy.Max(length, 0), expression(part.shape[-1])))


def part_within(node: Node, recorded: torch.Tensor, is_slice: bool) -> Iterator[Any]:
    """The conditions that a dimension reaches as far as the part of it that is replaced, by slice_scatter(x, part, dim,
    start, end, step) or select_scatter(x, row, dim, index), and that the others are those of the part."""
    names = ("self", "src", "dim", *(("start", "end", "step") if is_slice else ("index",)))
    given: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    axis = given.get("dim", 0) % max(recorded.ndim, 1)
    size, replaced = recorded.shape[axis], given["src"].meta.get("val") if isinstance(given["src"], Node) else None
    if isinstance(replaced, torch.Tensor):
        across = [*recorded.shape[:axis], *recorded.shape[axis + 1 :]]
        by = [*replaced.shape[:axis], *replaced.shape[axis + is_slice :]]
        for one, other in zip(across, by, strict=False):
            yield from of_sizes(sympy.Eq(expression(one), expression(other)))
    if not is_slice:
        index = given["index"]
        if type(index) is int and isinstance(size, torch.SymInt):
            yield from of_sizes(expression(size) >= (index + 1 if index >= 0 else -index))
        return
    start, end, step, part = given.get("start"), given.get("end"), given.get("step", 1), given["src"].meta.get("val")
    numbers = [n for n in (start, end) if n is not None]
    if type(step) is int and isinstance(part, torch.Tensor) and all(type(n) is int for n in numbers):
        whole = expression(size)
        low, high = (at if type(at) is int else default for at, default in ((start, 0), (end, sys.maxsize)))
        first = sympy.Min(low, whole) if low >= 0 else sympy.Max(low + whole, 0)
        last = whole if high == sys.maxsize else sympy.Min(high, whole) if high >= 0 else sympy.Max(high + whole, 0)
        length = sympy.ceiling(sympy.Max(last - first, 0) / step)
        yield from of_sizes(sympy.Eq(length, expression(part.shape[axis])))


def one_index_each(node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The conditions that there are as many indices as rows that they are for, that these are of the sizes of others,
    and that there is a place for them, by index_reduce(x, dim, index, rows, ...) and its like."""
    names = ("self", "dim", "index", "source")
    given: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    index, rows = (given[n].meta.get("val") if isinstance(given.get(n), Node) else None for n in names[2:])
    if not isinstance(index, torch.Tensor) or not isinstance(rows, torch.Tensor) or 0 in (index.ndim, rows.ndim):
        return
    axis = given["dim"] % rows.ndim
    pairs = [(index.shape[0], rows.shape[axis])]
    pairs += [pair for i, pair in enumerate(zip(recorded.shape, rows.shape, strict=False)) if i != axis]
    for size, other in pairs:
        yield from of_sizes(sympy.Eq(expression(size), expression(other)))
    whole, count = (expression(each) for each in (recorded.shape[axis], index.shape[0]))
    if "index_add" not in str(node.target):  # the others look at the first place of nothing
        yield from of_sizes(sympy.Or(sympy.Ge(whole, 1), sympy.Eq(count, 0)))


def spread_to_places(node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The conditions that values broadcast to the places that they are put at, where these are no masks; that masks
    are of the sizes of what they choose of."""
    *_, indices, new = (recorded_of(each) for each in node.args[: 4 if isinstance(node.args[1], Node) else 3])
    found: Any = [each for each in (*indices, new) if each is not None]
    if any(each.dtype in (torch.bool, torch.uint8) for each in found[:-1]):
        yield from masks_within(recorded, indices)
    else:
        places = [None if each is None else sizes_of(each) for each in indices]
        for condition in (
            *put_at_places(sizes_of(recorded), places, sizes_of(new)),
            *no_place(sizes_of(recorded), places),
        ):
            yield from of_sizes(condition)


def taken_somewhere(node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The conditions that nothing is taken along an axis of no element, where no index is a mask."""
    found: Any = recorded_of(node.args[1])
    if any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in found):
        return
    for condition in no_place(sizes_of(recorded), [None if each is None else sizes_of(each) for each in found]):
        yield from of_sizes(condition)


def masks_within(recorded: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> Iterator[Any]:
    """The conditions that masks among the indices of a tensor have the sizes of the axes that they choose of."""
    first = 0
    for each in indices:
        masks = each is not None and each.dtype in (torch.bool, torch.uint8)
        rank = each.ndim if each is not None and masks else 1
        sizes = sizes_of(each) if each is not None and masks else ()
        for size, other in zip(sizes_of(recorded)[first : first + rank], sizes, strict=False):
            yield from of_sizes(sympy.Eq(size, other))
        first += rank


def strides_within(node: Node, recorded: torch.Tensor) -> Iterator[Any]:
    """The condition that a strided view ends within the memory that it is a view of."""
    target: Any = node.target
    given = {**dict(zip((a.name for a in target._schema.arguments), node.args, strict=False)), **node.kwargs}
    numbers = [recorded_of(each) for each in (given["size"], given["stride"], [given.get("storage_offset") or 0])]
    sizes, strides, begin = ([expression(n) for n in each] for each in numbers)
    for condition in within_memory(sizes_of(recorded), sizes, strides, begin[0]):
        yield from of_sizes(condition)


def recorded_of(given: Any) -> Any:
    """What was recorded for an argument, or each of several."""
    if isinstance(given, list | tuple):
        return [recorded_of(each) for each in given]
    return given.meta["val"] if isinstance(given, Node) else given


def one_length(xs: Sequence[Any]) -> Iterator[Any]:
    """The conditions that tensors which nodes give have one length, as what a scan walks along."""
    found = [sizes_of(each)[0] for each in recorded_of(xs)]
    for other in found[1:]:
        yield from of_sizes(sympy.Eq(found[0], other))


def sizes_of(recorded: torch.Tensor) -> list[Any]:
    """The sizes of a recorded tensor, which may be 0, as expressions in torch's symbols."""
    return [expression(size) for size in recorded.shape]


def something_to_choose(node: Node, recorded: torch.Tensor, by_row: bool) -> Iterator[Any]:
    """The conditions that there is at least one element where the operator chooses one, along a dimension or of all.

    What a dimension of an input must be is found elsewhere, by `empty_sizes`.
    """
    first = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    named: Any = -1 if first is None and by_row else first
    if recorded.ndim and not isinstance(named, Node):
        axes = range(recorded.ndim) if named is None or named == [] else named if isinstance(named, list) else [named]
        for size in (expression(recorded.shape[axis]) for axis in axes):
            if not size.is_Symbol:
                yield from of_sizes(sympy.Ne(size, 0))


def expression(size: Any) -> Any:
    """A recorded size as an expression in torch's symbols, which may be 0."""
    return over_sizes(size.node.expr) if isinstance(size, torch.SymInt) else sympy.Integer(int(size))


def of_sizes(condition: Any) -> Iterator[Any]:
    """The condition; None where it always holds, or where only data can decide it."""
    if condition is not sympy.true and not any(is_unbacked(s.name) for s in condition.free_symbols):
        yield condition
