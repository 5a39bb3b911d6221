"""Operators by others, for runtimes that have them and get some of their uses wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np

from irkit.build import call, const, op
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor, Tuple, types_of
from irkit.core.vocabulary import ITEM, SHAPE_VECTOR
from irkit.core.walk import rebuild
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match
from irkit.support.results import as_tuple
from passes.analysis.known_sizes import bound_by, is_bound, sizes_held, sizes_value
from passes.analysis.questions import VIEWS, axes_of, is_known, number, operand, scan_axes, vector
from passes.analysis.spans import is_from_front
from passes.legal.float64.recurrent import recurrent
from passes.legal.float64.windows import average_pool
from passes.legal.opsets.onnx_functions import by_function
from passes.legal.runtime.empty import operand_groups
from passes.legal.runtime.expansions import attention, attention_of_heads, causal, heads_of, ordinals, pad_wrap

__all__ = [
    "attention",
    "attention_of_heads",
    "causal",
    "gather_elements",
    "heads_of",
    "pad_wrap",
    "recurrent",
    "split_by_slices",
]

Expansion = Callable[[Match, Value], Any]


def gather_elements(m: Match, value: Value) -> Value | None:
    """GatherElements(x, indices) -> GatherND(x, places), with the place of each element along every axis"""
    x, indices = value.inputs
    if x is None or indices is None or not is_known(indices.shape) or not is_bound(m, indices.shape, bound_by(indices)):
        return None
    axis, rank = value.attribute("axis", 0) % x.rank, x.rank
    whole = sizes_value(m, indices.shape, 1, bound_by(indices))
    parts: list[Value] = []
    for at, size in enumerate(indices.shape):
        if at == axis:
            places: Value = op.Cast(indices, to=DType.INT64) if indices.dtype is not DType.INT64 else indices
        else:
            line = ordinals(m, size, indices)
            if line is None:
                return None
            beside = [i for i in range(rank) if i != at]
            places = op.Expand(op.Unsqueeze(line, vector(beside)) if beside else line, whole)
        parts.append(op.Unsqueeze(places, vector([rank])))
    return op.GatherND(x, op.Concat(*parts, axis=rank))


def split_by_slices(m: Match, value: Value) -> Any:
    """Split(x, sizes) -> a Slice for each part, from the sum of the sizes before it to that of those up to it"""
    x, sizes = value.inputs[0], value.inputs[1] if len(value.inputs) > 1 else None
    if x is None or sizes is None or sizes.blob is not None:
        return None
    axis = vector([value.attribute("axis", 0) % x.rank])
    parts: list[Value] = []
    begin: Value = vector([0])
    for each in parts_of(sizes):
        end = op.Add(begin, op.Unsqueeze(each, vector([0])))  # a CumSum, of which tract has none for symbols
        parts.append(op.Slice(x, begin, end, axis))
        begin = end
    return tuple(parts) if len(parts) == len(types_of(value.type)) else None


def slice_by_lookups(m: Match, value: Value) -> Value | None:
    """Slice(x, starts, ends, axes) by numbers that are computed -> a Gather along each axis, of the places between"""
    x, starts, ends, axes, steps = (*value.inputs, None, None)[:5]
    along = tuple(range(x.rank)) if x is not None and axes is None else axes_of(axes)
    if x is None or starts is None or ends is None or along is None or not is_known(x.shape):
        return None
    if steps is not None and (steps.blob is None or not bool(np.all(steps.blob.array == 1))):
        return None
    found = x
    for at, axis in enumerate(a % x.rank for a in along):
        size = x.shape[axis]
        if not is_bound(m, (size,), bound_by(x)):
            return None
        most = sizes_value(m, (size,), 0, bound_by(x))
        begin, end = (place_between(op.Gather(each, const(at)), most) for each in (starts, ends))
        found = op.Gather(found, op.Range(begin, end, 1), axis=axis)
    return found


def place_between(place: Value, most: Value) -> Value:
    """A place of a Slice, counted from the start, and not beyond either end"""
    place = op.Cast(place, to=DType.INT64) if place.dtype is not DType.INT64 else place
    place = op.Where(op.Less(place, 0), op.Add(place, most), place)
    return op.Min(op.Max(place, 0), most)


def is_computed(sizes: Value | None) -> bool:
    """True for integers that are neither numbers nor sizes."""
    if sizes is None or sizes.blob is not None or sizes_held(sizes) is not None or sizes.op == "Shape":
        return False
    return sizes.op != "Concat" or any(map(is_computed, sizes.inputs))


def conv_transpose_by_groups(m: Match, value: Value) -> Value | None:
    """ConvTranspose of groups -> a ConvTranspose of the channels of each group, joined"""
    x, weight = value.inputs[:2]
    bias = value.inputs[2] if len(value.inputs) > 2 else None
    groups = value.attribute("group", 1)
    if x is None or weight is None or type(x.shape[1]) is not int or type(value.shape[1]) is not int:
        return None
    given = {name: content for name, content in value.attributes if name != "group"}
    taken, made = x.shape[1] // groups, value.shape[1] // groups
    parts = [
        call(
            "ConvTranspose",
            [
                op.Slice(x, vector([i * taken]), vector([(i + 1) * taken]), vector([1])),
                op.Slice(weight, vector([i * taken]), vector([(i + 1) * taken]), vector([0])),
                None if bias is None else op.Slice(bias, vector([i * made]), vector([(i + 1) * made]), vector([0])),
            ],
            given,
        )
        for i in range(groups)
    ]
    return op.Concat(*parts, axis=1)


def constant_expanded(m: Match, value: Value) -> Value | None:
    """ConstantOfShape(shape) -> Expand(number, shape)"""
    shape, fill = value.inputs[0], value.attribute("value")
    zero = np.zeros((), value.dtype.numpy) if fill is None else fill.array.reshape(())
    return None if shape is None else op.Expand(const(zero), shape)


def expand_by_lookups(m: Match, value: Value) -> Value | None:
    """Expand(x, shape) to sizes that are computed -> a Gather along each axis that is one long in x"""
    x, shape = value.inputs
    if x is None or shape is None or not isinstance(shape.shape[0], int) or not is_known(x.shape):
        return None
    count = max(shape.shape[0], x.rank)
    sizes = parts_of(shape)
    found = op.Unsqueeze(x, vector(range(count - x.rank))) if count > x.rank else x
    for axis, size in zip(range(count - len(sizes), count), sizes, strict=True):
        if size.blob is not None and size.blob.array.item() == 1:
            continue
        if type(found.shape[axis]) is not int or found.shape[axis] != 1:
            if found.shape[axis] == x.shape[axis - count] and size.blob is not None:
                continue
            return None
        places = op.Range(0, size, 1)
        found = op.Gather(found, op.Cast(op.Less(places, 0), to=DType.INT64), axis=axis)
    return found


def parts_of(shape: Value) -> list[Value]:
    """The elements of a vector as scalars: of a Concat, of what is joined."""
    if shape.op == "Concat":
        return [part for each in shape.inputs if each is not None for part in parts_of(each)]
    if shape.blob is not None:
        return [const(np.int64(each)) for each in shape.blob.array.ravel().tolist()]
    count = shape.shape[0]
    return [op.Gather(shape, const(at)) for at in range(count if isinstance(count, int) else 0)]


def normalized_by(m: Match, value: Value) -> Value | None:
    """BatchNormalization(x, scale, bias, mean, variance) -> (x - mean) / sqrt(variance + epsilon) * scale + bias"""
    x, given = value.inputs[0], [v for v in value.inputs[1:] if v is not None]
    if x is None or len(given) != 4 or value.attribute("training_mode"):
        return None
    axes = vector(range(1, x.rank - 1))
    scale, bias, mean, variance = (op.Unsqueeze(v, axes) if x.rank > 2 else v for v in given)
    root = op.Sqrt(op.Add(variance, number(variance, attribute_of(value, "epsilon"))))
    return op.Add(op.Mul(op.Div(op.Sub(x, mean), root), scale), bias)


def expand_of_scalar(m: Match, value: Value) -> Value | None:
    """Expand(x, ()) of a scalar -> x"""
    x = value.inputs[0]
    return x if x is not None and x.rank == value.rank == 0 else None


def product_by_sums(m: Match, value: Value) -> Value | None:
    """MatMul(x, y) -> the sums of products over the axis that they share"""
    x, y = value.inputs
    if x is None or y is None:
        return None
    rows = op.Unsqueeze(x, vector([0])) if x.rank == 1 else x
    columns = op.Unsqueeze(y, vector([1])) if y.rank == 1 else y
    products = op.Mul(op.Unsqueeze(rows, vector([-1])), op.Unsqueeze(columns, vector([-3])))
    found = op.ReduceSum(products, vector([-2]), keepdims=0)
    without = [axis for axis, each in ((-2, x), (-1, y)) if each.rank == 1]
    return op.Squeeze(found, vector(without)) if without else found


def is_square(value: Value) -> bool:
    """True for a product of a tensor by itself, and for its second power."""
    x, y = value.inputs
    return x is y if value.op == "Mul" else y is not None and y.blob is not None and bool(np.all(y.blob.array == 2))


def square_by_neighbour(m: Match, value: Value) -> Value | None:
    """x * x -> (x + 1) * x - x, which wraps around alike"""
    x = value.inputs[0]
    return None if x is None else op.Sub(op.Mul(op.Add(x, number(x, 1)), x), x)


def pad_with_scalar(m: Match, value: Value) -> Value | None:
    """Pad(x, pads, [number]) -> Pad(x, pads, number)"""
    x, pads, number_given, *axes = value.inputs
    if number_given is None:
        return None
    return call("Pad", [x, pads, op.Squeeze(number_given), *axes], dict(value.attributes))


def counted_from_start(m: Match, value: Value) -> Value | None:
    """GatherND(x, places), ScatterND(x, places, updates) -> the same, sizes added to places that count from the end"""
    x, places, *updates = value.inputs
    if x is None or places is None or not isinstance(places.shape[-1], int):
        return None
    begin = value.attribute("batch_dims", 0) if value.op == "GatherND" else 0
    named = x.shape[begin : begin + places.shape[-1]]
    if not is_known(named) or not is_bound(m, named, bound_by(x)):
        return None
    ends = sizes_value(m, named, 1, bound_by(x))
    found = op.Where(op.Less(places, number(places, 0)), op.Add(places, ends), places)
    return call(value.op, [x, found, *updates], dict(value.attributes))


def counts_from_start(places: Value | None) -> bool:
    """True for integers that are surely not below zero: numbers that are known, ordinals, and what
    `counted_from_start` writes."""
    if places is None:
        return True
    if places.blob is not None:
        return bool(np.all(places.blob.array >= 0))
    if places.op == "Where":
        test, _, plain = places.inputs
        return test is not None and plain is not None and test.op == "Less" and test.inputs[0] is plain
    if places.op in ("Concat", *VIEWS, "Expand", "Transpose", "Slice", "Gather"):
        return all(counts_from_start(v) for v in (places.inputs if places.op == "Concat" else places.inputs[:1]))
    if places.op == ITEM:
        source = places.inputs[0]
        return source is not None and source.op == "TopK"
    if places.op == "Range":
        begin, _, step = (None if v is None or v.blob is None else v.blob.array.item() for v in places.inputs)
        return begin is not None and step is not None and begin >= 0 and step > 0
    return places.op in ("NonZero", "ArgMax", "ArgMin", SHAPE_VECTOR, "Shape")


def has_masked_places(value: Value) -> bool:
    """True for a lookup, or a write, whose places of int64 are kept from counting from the end by a mask of bits."""
    return bool(masked_in(operand(value, 1)))


def masked_in(places: Value | None) -> list[Value]:
    """The values that are, through views and joins, a part of some places, and mask their bits."""
    pending, seen, found = [] if places is None else [places], set[int](), list[Value]()
    while pending:
        v = pending.pop()
        if id(v) in seen:
            continue
        seen.add(id(v))
        if v.dtype is DType.INT64 and is_from_front(v):
            found.append(v)
        elif v.op in PARTS:
            pending += [x for x in (v.inputs if v.op == "Concat" else v.inputs[:1]) if x is not None]
    return found


PARTS = frozenset(("Concat", *VIEWS, "Expand", "Transpose"))
"""Operators that hold the elements of their first operand, or of all."""


def compared_places(m: Match, value: Value) -> Value | None:
    """A lookup at BitwiseAnd(places, greatest) -> the lookup at 2**31 - 1, beyond every end, for those below 0"""
    x, places, *rest = value.inputs
    if places is None:
        return None
    swaps = {v: compared(v) for v in masked_in(places)}
    return call(value.op, [x, rebuild((places,), swaps)[places], *rest], dict(value.attributes))


def compared(masked: Value) -> Value:
    """BitwiseAnd(places, greatest integer), where that is a place to be refused, by a comparison."""
    given = masked.inputs[0]
    return op.Where(op.Less(given, number(masked, 0)), number(masked, np.iinfo(np.int32).max), given)


def kept_extreme(m: Match, value: Value) -> Value | None:
    """ReduceMax(x), ReduceMin(x) -> NaN where x has one, an infinity where x has nothing else, and the result of the
    numbers otherwise"""
    x, rest = value.inputs[0], value.inputs[1:]
    if x is None:
        return None
    ends = np.finfo(x.dtype.numpy)
    empty, least = (-np.inf, ends.min) if value.op == "ReduceMax" else (np.inf, ends.max)
    undefined, infinite = op.IsNaN(x), op.Equal(x, number(x, empty))
    kinds = op.Where(undefined, const(np.int32(2)), op.Where(infinite, const(np.int32(0)), const(np.int32(1))))
    given = dict(value.attributes)
    found = call(value.op, [op.Where(op.Or(undefined, infinite), number(x, least), x), *rest], given)
    kind = call("ReduceMax", [kinds, *rest], given)
    found = op.Where(op.Greater(kind, const(np.int32(0))), found, number(x, empty))
    return op.Where(op.Equal(kind, const(np.int32(2))), number(x, np.nan), found)


def keeps_extremes(x: Value | None) -> bool:
    """True for floating-point numbers among which a NaN or the infinity that counts least may stand."""
    if x is None or x.dtype not in (DType.FLOAT16, DType.FLOAT, DType.DOUBLE):
        return False
    test = x.inputs[0] if x.op == "Where" else None
    return not (test is not None and test.op == "Or" and test.inputs[0] is not None and test.inputs[0].op == "IsNaN")


def by_definition(m: Match, value: Value) -> Any:
    """The operator by ONNX's own definition of it"""
    return by_function(m, value)


def laid_out_mean(m: Match, value: Value) -> Value | None:
    """AveragePool of windows that begin in the image and end outside -> their means, from the windows laid out"""
    return average_pool(m, value)


def pads_along(value: Value) -> dict[int, tuple[int, int]] | None:
    """How much a Pad adds before and after, for each axis that it names; None where no constants say it."""
    x, pads, axes = value.inputs[0], axes_of(value.inputs[1]), operand(value, 3)
    along = axes_of(axes) if axes is not None else tuple(range(x.rank)) if x is not None else None
    if x is None or pads is None or along is None:
        return None
    return {axis % x.rank: (pads[i], pads[len(along) + i]) for i, axis in enumerate(along)}


def has_negative(value: Value) -> bool:
    """True for a Pad of constants, some of them below zero: it takes elements away."""
    return any(min(each) < 0 for each in (pads_along(value) or {}).values())


def sliced_and_padded(m: Match, value: Value) -> Value | None:
    """Pad(x, pads) with some below zero -> a Slice of x, padded by the others"""
    x, added = value.inputs[0], pads_along(value)
    if x is None or added is None or attribute_of(value, "mode") != "constant":
        return None
    cut = {axis: each for axis, each in added.items() if min(each) < 0}
    starts = [max(-before, 0) for before, _ in cut.values()]
    ends = [min(after, 0) or np.iinfo(np.int64).max for _, after in cut.values()]
    found = op.Slice(x, vector(starts), vector(ends), vector(cut))
    left = [max(each[side], 0) for side in (0, 1) for each in added.values()]
    fill = operand(value, 2)
    return call("Pad", [found, vector(left), fill, vector(added)], dict(value.attributes)) if any(left) else found


def padded_by_joining(m: Match, value: Value) -> Value | None:
    """Pad(x, pads, number) -> x between tensors of the number, along one axis after the other"""
    x, added, fill = value.inputs[0], pads_along(value), operand(value, 2)
    if x is None or added is None:
        return None
    fill = number(x, 0) if fill is None else fill
    for axis, sides in added.items():
        parts: list[Value] = []
        for count in sides:
            shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
            if not is_known(shape) or not is_bound(m, shape, bound_by(x)):
                return None
            parts.append(op.Expand(fill, sizes_value(m, shape, 1, bound_by(x))))
        whole = [part for part, count in zip((parts[0], x, parts[1]), (sides[0], 1, sides[1]), strict=True) if count]
        x = op.Concat(*whole, axis=axis) if len(whole) > 1 else x
    return x


def is_backwards(value: Value) -> bool:
    """True for a Scan that goes through some of its sequences, or of its results, from their ends."""
    return any(any(value.attribute(name) or ()) for name in DIRECTIONS)


DIRECTIONS = ("scan_input_directions", "scan_output_directions")
"""The attributes of a Scan that say which sequences are gone through from their ends."""


def scan_forwards(m: Match, value: Value) -> Any:
    """Scan of sequences and results from their ends -> a Scan forwards of those turned around, turned around again"""
    operands, captures = operand_groups(value)
    many = value.attribute("num_scan_inputs")
    states, sequences = operands[: len(operands) - many], operands[len(operands) - many :]
    axes = scan_axes(value, "scan_input_axes", [v.rank for v in sequences])
    back = value.attribute(DIRECTIONS[0]) or (0,) * many
    sequences = [turned(v, a) if b else v for v, a, b in zip(sequences, axes, back, strict=True)]
    left = {name: each for name, each in value.attributes if name not in DIRECTIONS}
    parts = as_tuple(call("Scan", [*states, *sequences, *captures], {**left, "body": value.bodies[0]}))
    rows = parts[len(states) :]
    ends = scan_axes(value, "scan_output_axes", [v.rank for v in rows])
    back = value.attribute(DIRECTIONS[1]) or (0,) * len(rows)
    rows = [turned(v, a) if b else v for v, a, b in zip(rows, ends, back, strict=True)]
    found = (*parts[: len(states)], *rows)
    return found if isinstance(value.type, Tuple) else found[0]


def turned(v: Value, axis: int) -> Value:
    """The tensor with one axis from its end."""
    return op.Slice(v, vector([-1]), vector([np.iinfo(np.int64).min]), vector([axis]), vector([-1]))


def handed_on(m: Match, value: Value) -> Any:
    """Scan whose steps see values from around it -> a Scan that has these as states, which each step hands on"""
    operands, captures = operand_groups(value)
    if not captures or any(not isinstance(each.type, Tensor) for each in captures):
        return None
    many, body = value.attribute("num_scan_inputs"), value.bodies[0]
    states, sequences = operands[: len(operands) - many], operands[len(operands) - many :]
    taken, seen = body.params[: len(operands)], body.params[len(operands) :]
    params = (*taken[: len(states)], *seen, *taken[len(states) :])
    results = (*body.results[: len(states)], *map(op.Identity, seen), *body.results[len(states) :])
    step = attrs.evolve(body, params=params, results=results)
    given = {name: each for name, each in value.attributes if name != "captures"}
    parts = as_tuple(call("Scan", [*states, *captures, *sequences], {**given, "body": step}))
    found = (*parts[: len(states)], *parts[len(states) + len(captures) :])
    return found if isinstance(value.type, Tuple) else found[0]


def squeezed_by_lookup(m: Match, value: Value) -> Value | None:
    """Squeeze(x, axes) of one element by an axis that is computed, and has to be 0 -> the element at that place"""
    x, axes = value.inputs
    if x is None or axes is None or x.rank != 1 or value.rank or axes.rank != 1 or axes.shape[0] != 1:
        return None
    return op.Squeeze(op.Gather(x, axes), vector([0]))


def has_sizes(value: Value) -> bool:
    """True for an operator among whose data are integers that tract computes as sizes: sizes, Casts to int64, and what
    it makes of them."""
    if value.op.startswith("Scatter") and attribute_of(value, "reduction") in (None, "none"):
        return False
    return any(each.op in MEASURES for each in sources_of(value))


MEASURES = frozenset(("Cast", "Shape", "Size", SHAPE_VECTOR))
"""Operators whose int64 is computed as sizes."""

WHOLE = frozenset(("Concat", "Add", "Sub", "Min", "Max", "Range"))
"""Operators that make sizes of all of their operands."""

FIRST = frozenset((*VIEWS, "Expand", "Transpose", "Slice", "Gather", "ReduceSum"))
"""Operators that make sizes of their first operand."""

SMALL = frozenset((DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16))
"""Element types of which sums stay within 32 bits, in any tensor that has room in memory."""


def sources_of(value: Value) -> list[Value]:
    """What the int64 among the data of an operator is made of, as far as tract makes sizes of sizes."""
    pending = [v for at in DATA.get(value.op, (0,)) if (v := operand(value, at)) is not None and v.dtype is DType.INT64]
    seen, found = set(map(id, pending)), list[Value]()
    while pending:
        v = pending.pop()
        chosen = results_of_branches(v)
        further = chosen or (v.inputs if v.op in WHOLE else v.inputs[1:] if v.op == "Where" else v.inputs[:1])
        if not chosen and v.op not in WHOLE and v.op not in FIRST and v.op != "Where":
            found.append(v)
            continue
        further = [x for x in further if x is not None and id(x) not in seen]
        seen.update(map(id, further))
        pending += further
    return found


def results_of_branches(v: Value) -> Sequence[Value]:
    """What an If, or an item of one, is in each of its branches; nothing for all others."""
    source, at = (v.inputs[0], v.attribute("index")) if v.op == ITEM else (v, 0)
    if source is None or source.op != "If":
        return ()
    captures = operand_groups(source)[1]
    found = [(body.results[at], dict(zip(body.params, captures, strict=True))) for body in source.bodies]
    return [around.get(result, result) for result, around in found]


def is_small(v: Value) -> bool:
    """True for sizes, for Casts of few bits, and for numbers of 32 bits."""
    if v.blob is not None:
        return v.blob.array.size == 0 or bool(np.abs(v.blob.array).max() <= np.iinfo(np.int32).max)
    return v.op in MEASURES and (v.op != "Cast" or (v.inputs[0] is not None and v.inputs[0].dtype in SMALL))


def in_32_bits(m: Match, value: Value) -> Any:
    """An operator on sizes, or on Casts of few bits -> the same on int32"""
    if not all(map(is_small, sources_of(value))):
        return None
    data = DATA.get(value.op, (0,))
    narrow = [op.Cast(v, to=DType.INT32) if at in data and v is not None else v for at, v in enumerate(value.inputs)]
    parts = as_tuple(call(value.op, narrow, dict(value.attributes), outputs=len(types_of(value.type))))
    found = tuple(op.Cast(v, to=DType.INT64) if v.dtype is DType.INT32 else v for v in parts)
    return found if isinstance(value.type, Tuple) else found[0]


DATA: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("Pad", "ScatterElements", "ScatterND"), (0, 2)),
        **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), (0, 1)),
    }
)
"""The operands that have the element type of the result, of operators that have more than the first one."""


def counts_down(value: Value) -> bool:
    """True for a Range whose step is a number below zero."""
    step = value.inputs[2]
    return step is not None and step.blob is not None and step.blob.array.item() < 0


def counted_up(m: Match, value: Value) -> Value | None:
    """Range(start, limit, step) of integers, step < 0 -> start - Range(0, start - limit, -step)"""
    start, limit, step = value.inputs
    if start is None or limit is None or step is None or step.blob is None or not value.dtype.is_integer:
        return None
    up = number(start, -step.blob.array.item())
    return op.Sub(start, op.Range(number(start, 0), op.Sub(start, limit), up))
