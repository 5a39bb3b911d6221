"""Operators by others that an opset before them has: what legalization takes first for such an opset."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import call, const, op
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value
from irkit.core.types import HALVES, DType, Optional, Sequence, Tensor, Tuple, types_of
from irkit.core.vocabulary import SHAPE_VECTOR
from irkit.dims import Dim, Range
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.writing.materialize import ALLOWZERO, Sweep
from irkit.onnx.writing.sizes import Sizes
from irkit.pattern import attribute_of, hole, p
from irkit.rewriting.face import Made, Match, Rule, decline
from passes.analysis.expansions import Expanded
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import axes_of, is_known, number, operand, small, vector
from passes.legal.float64.windows import average_pool, axes_of_windows, col2im, laid_out, positions
from passes.legal.opsets.images import affine_grid, deform_conv, grid_sample, resize
from passes.legal.opsets.mel import mel_in_float, mel_weights
from passes.legal.opsets.onnx_functions import inline_body
from passes.legal.opsets.signals import dft, stft
from passes.legal.runtime.expansions import Expansion, ordinals, pad_all_axes, reshape_if_bound
from passes.legal.runtime.images import has_gaps
from passes.legal.runtime.refusals import may_be_empty

# ---------------------------------------------------------------------------------------------- shapes


def part_of_shape(m: Match, value: Value) -> Value | None:
    """Shape(x)[start:end]"""
    x, start = value.inputs[0], int(value.attribute("start", 0))
    if x is None or not (start or value.attribute("end") is not None):
        return None
    first, last, _ = slice(start, value.attribute("end")).indices(x.rank)
    return op.Slice(op.Shape(x), vector([first]), vector([max(first, last)]))


def reshape(m: Match, value: Value) -> Value | None:
    """x under other dimensions without `allowzero`, by way of sizes of at least 1 where some may be 0"""
    x, sizes = value.inputs[0], axes_of(value.inputs[1])
    if x is None or not value.attribute("allowzero"):
        return None
    if (sizes is not None and 0 not in sizes) or not any(map(may_be_empty, value.shape)):
        return op.Reshape(x, value.inputs[1])
    return padded_reshape(m, x, value.shape)


def padded_reshape(m: Match, x: Value, shape: tuple[Dim, ...]) -> Value | None:
    """x under dimensions of which any may be 0: filled up to sizes of at least 1, and cut off afterwards"""
    sources = bound_by(x)
    if not is_known(shape) or not is_bound(m, shape, sources):
        return None
    if any(type(d) is int and d == 0 for d in shape):  # x is empty, whatever the other sizes
        return op.Expand(const(np.zeros((), dtype=x.dtype.numpy)), sizes_value(m, shape, 1, sources))
    safe = tuple(dims.maximum(d, 1) for d in shape)
    missing = dims.sub(dims.product(safe), dims.product(shape))
    filled = op.Pad(op.Reshape(x, vector([-1])), sizes_value(m, (0, missing), 1, sources))
    whole = op.Reshape(filled, sizes_value(m, safe, 1, sources))
    return op.Slice(whole, vector([0] * len(shape)), sizes_value(m, shape, 1, sources))


def plain_reshapes(ranges: Mapping[str, Range]) -> Rule:
    """The rule for Reshapes to sizes that may be 0, where they would be written with `allowzero`."""

    def plain(m: Match) -> Made:
        x, shape = m.root.inputs
        if x is None or shape is None or shape.op != SHAPE_VECTOR or m.root.attribute("allowzero"):
            return decline("its sizes are constants, or computed")
        sweep = Sweep(Sizes((), ranges, opset=ALLOWZERO - 1), ranges, ALLOWZERO - 1)
        if not sweep.cheapest_target(False, x.shape, shape.attribute("dims"))[1]:
            return decline("it needs no allowzero")
        found = padded_reshape(m, x, m.root.shape)
        return decline("some size is not bound") if found is None else found

    return Rule("plain_reshapes", p.Reshape(hole("x"), hole("sizes")), plain, True, "Reshape -> Slice(Reshape(Pad))")


def split(m: Match, value: Value) -> Expanded:
    """The sizes of the parts written out"""
    x, count = value.inputs[0], value.attribute("num_outputs")
    if x is None or count is None:
        return None
    parts = types_of(value.type)
    axis: int = attribute_of(value, "axis")
    sizes = tuple(t.shape[axis % x.rank] for t in parts if isinstance(t, Tensor))
    if not is_known(sizes) or not is_bound(m, sizes, bound_by(x)):
        return None
    made = op.Split(x, sizes_value(m, sizes, 1, bound_by(x)), axis=axis, outputs=count)
    return made if isinstance(value.type, Tuple) else made[0]


def reduction(m: Match, value: Value) -> Value | None:
    """Over no axes: over a further one of size 1"""
    x, axes = value.inputs[0], operand(value, 1)
    if x is None or not value.attribute("noop_with_empty_axes"):
        return None
    if axes is not None and axes_of(axes) != ():
        return None
    return call(value.op, [op.Unsqueeze(x, vector([-1])), vector([x.rank])], {"keepdims": 0})


# ---------------------------------------------------------------------------------------------- numbers


def relu(m: Match, value: Value) -> Value | None:
    """max(x, 0), for integers"""
    x = value.inputs[0]
    return None if x is None or x.dtype.is_float else op.Max(x, number(x, 0))


def trilu(m: Match, value: Value) -> Value | None:
    """x where column - row is at least, or at most, k; 0 elsewhere"""
    x, k = value.inputs[0], operand(value, 1)
    if x is None:
        return None
    rows, columns = ordinals(m, x.shape[-2], x), ordinals(m, x.shape[-1], x)
    if rows is None or columns is None or (k is not None and k.shape not in ((), (1,))):
        return None
    gap = op.Sub(columns, op.Unsqueeze(rows, vector([1])))
    bound = const(np.array(0)) if k is None else k
    kept = op.GreaterOrEqual(gap, bound) if attribute_of(value, "upper") else op.LessOrEqual(gap, bound)
    if x.dtype is DType.BOOL:
        return op.And(kept, x)
    return op.Where(kept, x, number(x, 0))


def bitwise(m: Match, value: Value) -> Value | None:
    """Operators on bits by way of the bits: x is the sum of 2**i of them, and of -2**63 where it is below 0"""
    x, y = value.inputs
    if x is None or y is None:
        return None
    width = x.dtype.bits
    a, b = (bits_of(v, width) for v in (x, y))
    both = op.Mul(a, b)
    if value.op == "BitwiseAnd":
        found = both
    elif value.op == "BitwiseOr":
        found = op.Sub(op.Add(a, b), both)
    else:
        found = op.Sub(op.Add(a, b), op.Mul(both, const(np.array(2))))
    weights = [2 ** (i % 32) for i in range(width)]
    if has_sign(x):
        weights[-1] = -weights[-1]
    low, *high = (weighed(found, weights, at) for at in range(0, width, 32))
    return op.Cast(op.Add(low, op.Mul(high[0], const(np.array(2**32)))) if high else low, to=x.dtype)


def weighed(bits: Value, weights: list[int], at: int) -> Value:
    """The sum of 32 of the bits, of which each has a weight: ONNX Runtime adds up 53 binary places, no more."""
    part = op.Slice(bits, vector([at]), vector([at + 32]), vector([-1])) if len(weights) > 32 else bits
    factors = const(np.array(weights[at : at + 32], dtype=np.int64))
    return op.ReduceSum(op.Mul(part, factors), vector([-1]), keepdims=0)


def bits_of(x: Value, width: int) -> Value:
    """(*shape, width): the bits of integers as 0 and 1 in int64, the lowest first; the last is the sign's."""
    wide = op.Unsqueeze(op.Cast(x, to=DType.INT64), vector([-1]))
    powers = const(2 ** np.arange(width - 1, dtype=np.int64))
    below = op.Mod(wide, powers)  # never below 0
    low = op.Mod(op.Div(op.Sub(wide, below), powers), const(np.array(2)))
    top = op.Less(wide, const(np.array(0)))
    last = top if has_sign(x) else op.GreaterOrEqual(wide, const(np.array(2 ** (width - 1))))
    return op.Concat(low, op.Cast(last, to=DType.INT64), axis=-1)


def has_sign(x: Value) -> bool:
    """True where the highest bit of an integer, cast to int64, is its sign."""
    return not x.dtype.is_unsigned or x.dtype is DType.UINT64


def bitwise_not(m: Match, value: Value) -> Value | None:
    """-1 - x, or the largest number less x where there is no sign"""
    x = value.inputs[0]
    if x is None:
        return None
    top = -1 if has_sign(x) else 2**x.dtype.bits - 1
    return op.Cast(op.Sub(const(np.array(top)), op.Cast(x, to=DType.INT64)), to=x.dtype)


def batch_normalization(m: Match, value: Value) -> Expanded:
    """In training: normalized by its own mean and variance, which go into the running ones"""
    x, scale, bias, mean, variance = value.inputs
    if not value.attribute("training_mode") or x is None or mean is None or variance is None:
        return None
    axes = vector(i for i in range(x.rank) if i != 1)
    beside = vector(range(1, x.rank - 1))
    center = op.ReduceMean(x, axes, keepdims=1)
    gap = op.Sub(x, center)
    spread = op.ReduceMean(op.Mul(gap, gap), axes, keepdims=1)
    norm = op.Div(gap, op.Sqrt(op.Add(spread, number(x, attribute_of(value, "epsilon")))))
    scale, bias = (op.Cast(v, to=x.dtype) if v is not None and v.dtype is not x.dtype else v for v in (scale, bias))
    found = op.Add(op.Mul(norm, op.Unsqueeze(scale, beside)), op.Unsqueeze(bias, beside))
    if not isinstance(value.type, Tuple):
        return found
    momentum = attribute_of(value, "momentum")
    running: list[Value] = []
    for old, now in ((mean, center), (variance, spread)):
        flat = op.Cast(op.Squeeze(now, axes), to=old.dtype)
        running.append(op.Add(op.Mul(old, number(old, momentum)), op.Mul(flat, number(old, 1 - momentum))))
    return (found, *running)[: len(value.type.items)]


def lp_pool(m: Match, value: Value) -> Value | None:
    """(sum |x| ** p) ** (1 / p) over windows that are laid out"""
    x, power = value.inputs[0], attribute_of(value, "p")
    if x is None or power < 1 or not (value.attribute("dilations") or value.attribute("ceil_mode")):
        return None
    axes = axes_of_windows(value, value.attribute("kernel_shape"))
    size = op.Abs(x)
    raised = op.Pow(size, number(x, power)) if power != 1 else size
    laid = None if axes is None else laid_out(m, axes, positions, raised)
    if laid is None or axes is None:
        return None
    total = op.ReduceSum(laid, vector(range(2 + len(axes), laid.rank)), keepdims=0)
    return op.Pow(total, number(x, 1 / power)) if power != 1 else total


def laid_out_pool(m: Match, value: Value) -> Value | None:
    """The mean over windows with gaps, or that would be counted otherwise, laid out"""
    gaps = set(value.attribute("dilations") or ()) - {1}
    return average_pool(m, value) if gaps or value.attribute("ceil_mode") else None


def without_gaps(m: Match, value: Value) -> Expanded:
    """The mean over windows without saying that they have no gaps, which older opsets have no word for"""
    gaps = value.attribute("dilations")
    if gaps is None or set(gaps) != {1}:
        return None
    return call("AveragePool", list(value.inputs), {k: v for k, v in value.attributes if k != "dilations"})


def max_pool(m: Match, value: Value) -> Expanded:
    """As many windows as there are by the amounts of padding, instead of by rounding up"""
    x = value.inputs[0]
    if x is None or not value.attribute("ceil_mode") or attribute_of(value, "auto_pad") != "NOTSET":
        return None
    first = value.type.items[0] if isinstance(value.type, Tuple) else value.type
    axes = axes_of_windows(value.with_type(first), value.attribute("kernel_shape"))
    if axes is None or any(type(n) is not int for a in axes for n in (a.size, a.count)):
        return None
    after: list[Dim] = []
    for a in axes:
        reach = a.dilation * (a.kernel - 1) + 1
        after.append(max(0, (a.count - 1) * a.stride + reach - a.size - a.before))
    given = {name: attribute for name, attribute in value.attributes if name != "ceil_mode"}
    given["pads"] = (*(a.before for a in axes), *after)
    return call("MaxPool", [x], given, outputs=len(value.type.items) if isinstance(value.type, Tuple) else None)


# ---------------------------------------------------------------------------------------------- scattering

COMBINE = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}


def scatter_nd(m: Match, value: Value) -> Value | None:
    """One update after the other: a slice is read, combined with the update, and written back"""
    data, indices, updates = value.inputs
    combine = COMBINE.get(str(value.attribute("reduction")))
    if data is None or indices is None or updates is None or combine is None:
        return None
    depth = indices.shape[-1]
    if type(depth) is not int or not (data.dtype.is_integer or data.dtype.is_float):
        return None
    places = op.Reshape(indices, vector([-1, depth]))
    parts = reshape_if_bound(m, updates, (dims.product(indices.shape[:-1]), *data.shape[depth:]), data, indices)
    count = sizes_value(m, (dims.product(indices.shape[:-1]),), 0, bound_by(indices))
    if parts is None:
        return None

    def step(i: Value, go_on: Value, whole: Value) -> tuple[Value, Value]:
        place = op.Unsqueeze(op.Gather(places, i), vector([0]))
        part = op.Unsqueeze(op.Gather(parts, i), vector([0]))
        return op.Identity(go_on), op.ScatterND(whole, place, call(combine, [op.GatherND(whole, place), part], {}))

    (found,) = op.Loop(count, const(True), data, body=step)
    return found


def scatter_elements(m: Match, value: Value) -> Value | None:
    """The same by the full index of each element"""
    data, indices, updates = value.inputs
    if data is None or indices is None or value.attribute("reduction", "none") not in COMBINE:
        return None
    axis = attribute_of(value, "axis") % data.rank
    if not is_known(indices.shape) or not is_bound(m, indices.shape, bound_by(indices)):
        return None
    shape = sizes_value(m, indices.shape, 1, bound_by(indices))
    columns: list[Value] = []
    for i, size in enumerate(indices.shape):
        along = op.Cast(indices, to=DType.INT64) if i == axis else ordinals(m, size, indices)
        if along is None:
            return None
        if i != axis:
            along = op.Expand(op.Unsqueeze(along, vector(range(1, data.rank - i))), shape)
        columns.append(op.Unsqueeze(along, vector([-1])))
    return op.ScatterND(data, op.Concat(*columns, axis=-1), updates, reduction=attribute_of(value, "reduction"))


# ---------------------------------------------------------------------------------------------- quantization


EIGHT_BITS = {DType.INT4: DType.INT8, DType.UINT4: DType.UINT8}
"""The element types of 4 bits, which older opsets do not have, with those that hold the same numbers."""


def eight_bits(x: Value) -> Value:
    """A constant of integers of 4 bits in 8."""
    blob = x.blob
    if blob is None or x.dtype not in EIGHT_BITS:
        return x
    dtype = EIGHT_BITS[x.dtype]
    return const(Blob(dtype, blob.shape, lambda: blob.read().astype(dtype.numpy), blob.name, of=(blob,)))


def dequantize(m: Match, value: Value) -> Value | None:
    """(x - zero point) * scale, in the element type of the scale; a weight of 4 bits is one of 8"""
    x, scale, zero = value.inputs[0], value.inputs[1], operand(value, 2)
    if x is None or scale is None or value.dtype is not scale.dtype:
        return None
    if x.dtype in EIGHT_BITS and x.blob is not None and (zero is None or zero.blob is not None):
        x, zero = eight_bits(x), None if zero is None else eight_bits(zero)
        if not attribute_of(value, "block_size"):
            return op.DequantizeLinear(x, scale, zero, axis=attribute_of(value, "axis"))
    if attribute_of(value, "block_size") and x.blob is not None and scale.rank == x.rank:
        return scaled_blocks(value, x.blob, scale, zero)
    factor, shift = (None if v is None else beside(m, value, v) for v in (scale, zero))
    if factor is None or (zero is not None and shift is None):
        return None
    number_ = op.Cast(x, to=DType.FLOAT)
    moved = number_ if shift is None else op.Sub(number_, op.Cast(shift, to=DType.FLOAT))
    return op.Cast(op.Mul(moved, op.Cast(factor, to=DType.FLOAT)), to=value.dtype)


def scaled_blocks(value: Value, integers: Blob, scale: Value, zero: Value | None) -> Value:
    """The numbers that constants by blocks stand for, with an axis for the places in a block: scales and zero points
    stay one for each block."""
    shape: list[int] = [int(d) for d in integers.shape]
    axis, block = int(attribute_of(value, "axis")) % len(shape), int(attribute_of(value, "block_size"))
    size = shape[axis]
    count = -(-size // block)
    filled = [(0, count * block - size if i == axis else 0) for i in range(len(shape))]
    wide = (*shape[:axis], count, block, *shape[axis + 1 :])

    def load() -> np.ndarray:
        return np.pad(integers.read(), filled).reshape(wide)

    number_ = op.Cast(const(Blob(integers.dtype, wide, load, integers.name, of=(integers,))), to=DType.FLOAT)
    if zero is not None:
        number_ = op.Sub(number_, op.Cast(op.Unsqueeze(zero, vector([axis + 1])), to=DType.FLOAT))
    found = op.Mul(number_, op.Cast(op.Unsqueeze(scale, vector([axis + 1])), to=DType.FLOAT))
    flat = op.Reshape(found, vector([*shape[:axis], count * block, *shape[axis + 1 :]]))
    return op.Cast(op.Slice(flat, vector([0]), vector([size]), vector([axis])), to=value.dtype)


def quantize(m: Match, value: Value) -> Value | None:
    """x / scale rounded, plus the zero point, within what the element type holds; for integers"""
    x, scale, zero = value.inputs[0], value.inputs[1], operand(value, 2)
    if x is None or scale is None or not value.dtype.is_integer or value.attribute("precision"):
        return None
    factor, shift = (None if v is None else beside(m, value, v) for v in (scale, zero))
    if factor is None or (zero is not None and shift is None):
        return None
    exact = op.Div(op.Cast(x, to=DType.FLOAT), op.Cast(factor, to=DType.FLOAT))
    if scale.dtype in HALVES:  # the quotient is one of the scale's type
        exact = op.Cast(op.Cast(exact, to=scale.dtype), to=DType.FLOAT)
    ratio = op.Round(exact)
    moved = ratio if shift is None else op.Add(ratio, op.Cast(shift, to=DType.FLOAT))
    bits = value.dtype.bits
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if not value.dtype.is_unsigned else (0, 2**bits - 1)
    return op.Cast(op.Clip(moved, const(np.float32(low)), const(np.float32(high))), to=value.dtype)


def beside(m: Match, value: Value, v: Value) -> Value | None:
    """A scale or zero point in a shape that broadcasts with what is quantized."""
    x: Any = value.inputs[0]
    axis, block = attribute_of(value, "axis") % max(x.rank, 1), attribute_of(value, "block_size")
    if v.rank == 0 or (v.rank == 1 and v.shape == (1,)):
        return op.Squeeze(v, vector([0])) if v.rank > x.rank else v
    if not block:
        return op.Unsqueeze(v, vector(range(1, x.rank - axis)))
    wide = (*v.shape[: axis + 1], block, *v.shape[axis + 1 :])
    sources = bound_by(v, x)
    if not is_known(wide) or not is_bound(m, wide, sources):
        return None
    repeated = op.Expand(op.Unsqueeze(v, vector([axis + 1])), sizes_value(m, wide, 1, sources))
    joined = (*v.shape[:axis], dims.mul(v.shape[axis], block), *v.shape[axis + 1 :])
    flat = reshape_if_bound(m, repeated, joined, x)
    return (
        None
        if flat is None
        else op.Slice(flat, vector([0]), sizes_value(m, (x.shape[axis],), 1, sources), vector([axis]))
    )


# ---------------------------------------------------------------------------------------------- the rest


def has_element(m: Match, value: Value) -> Value | None:
    """What is not an optional has an element, and what is left out has none"""
    x = value.inputs[0] if value.inputs else None
    return None if x is not None and isinstance(x.type, Optional) else const(np.array(x is not None))


def element(m: Match, value: Value) -> Value | None:
    """A tensor is its own element"""
    x = value.inputs[0]
    return op.Identity(x) if x is not None and isinstance(x.type, Tensor) else None


def sequence_map(m: Match, value: Value) -> tuple[Value, ...] | None:
    """A Loop over the elements of the sequences"""
    cut = len(value.inputs) - int(value.attribute("captures", 0))
    operands, outer = value.inputs[:cut], value.inputs[cut:]
    types: Any = types_of(value.type)
    if any(not isinstance(t, Sequence) or not isinstance(t.element, Tensor) for t in types):
        return None

    def step(i: Value, go_on: Value, *made: Value) -> tuple[Value, ...]:
        given = [op.SequenceAt(v, i) if isinstance(v.type, Sequence) else v for v in operands if v is not None]
        parts = inline_body(m, value.bodies[0], [*given, *(v for v in outer if v is not None)], {})
        return (op.Identity(go_on), *(op.SequenceInsert(s, p) for s, p in zip(made, parts, strict=True)))

    start = [op.SequenceEmpty(dtype=int(t.element.dtype)) for t in types]
    return op.Loop(op.SequenceLength(operands[0]), const(True), *start, body=step)


def quantized_product(m: Match, value: Value) -> Value | None:
    """The product of the numbers that the integers stand for, quantized"""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = value.inputs
    pairs = ((a_scale, a_zero), (b_scale, b_zero), (scale, zero))
    if any(s is None or z is None or s.shape != z.shape for s, z in pairs):
        return None
    scales = [
        v if v is None or v.dtype is DType.FLOAT else op.Cast(v, to=DType.FLOAT) for v in (a_scale, b_scale, scale)
    ]
    rows = op.DequantizeLinear(a, scales[0], a_zero, axis=-2)
    return op.QuantizeLinear(
        op.MatMul(rows, op.DequantizeLinear(b, scales[1], b_zero, axis=-1)), scales[2], zero, axis=-2
    )


def computed(m: Match, value: Value) -> Value | None:
    """What constants alone make"""
    if any(v is not None and small(v) is None for v in value.inputs):
        return None
    return const(evaluate(Graph((), (value,)), [])[0])


def columns_without_kernel(m: Match, value: Value) -> Value | None:
    """Col2Im by sums where there is no kernel that holds all numbers, or one that leaves out dilations"""
    return None if value.dtype.is_float and not has_gaps(value) else col2im(m, value)


NEVER = 1 << 10
"""Above every opset: what ONNX Runtime asks for, at whichever."""
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
OLDER: Mapping[str, tuple[tuple[int, Expansion], ...]] = MappingProxyType({
    "Shape": ((15, part_of_shape),), "Reshape": ((14, reshape),), "Split": ((18, split),), "Pad": ((18, pad_all_axes),),
    **{f"Reduce{name}": ((18, reduction),) for name in _REDUCTIONS}, "Relu": ((14, relu),), "Trilu": ((14, trilu),),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), ((18, bitwise),)), "BitwiseNot": ((18, bitwise_not),),
    "BatchNormalization": ((NEVER, batch_normalization),), "LpPool": ((18, lp_pool),),
    "AveragePool": ((22, laid_out_pool), (19, without_gaps)),
    "MaxPool": ((22, max_pool),), "Col2Im": ((18, col2im), (NEVER, columns_without_kernel)),
    "MelWeightMatrix": ((NEVER, mel_in_float), (17, computed), (17, mel_weights)), "ScatterND": ((18, scatter_nd),),
    "ScatterElements": ((18, scatter_elements),), "DequantizeLinear": ((23, dequantize),),
    "QuantizeLinear": ((23, quantize),), "DeformConv": ((19, deform_conv),),
    "Resize": ((19, resize),),
    "OptionalHasElement": ((18, has_element),), "OptionalGetElement": ((18, element),),
    "QLinearMatMul": ((21, quantized_product),), "GridSample": ((20, grid_sample),),
    "AffineGrid": ((20, affine_grid),), "SequenceMap": ((17, sequence_map),), "DFT": ((20, dft),),
    "STFT": ((17, stft),),
})  # fmt: skip
"""For each operator the opsets below which it is expanded, and how."""
