"""What ONNX Runtime's default optimizations turn into something else, written so that they leave it alone.

A session optimizes the graph that it is given, and here and there wrongly. Each rule keeps one such form out of what
irkit writes; `passes.legal.runtime.quirks` names the fusion and says what goes wrong. `make fuzz-optimized`
runs what irkit writes with these optimizations on against the same file with them off, and found them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Value, param
from irkit.core.types import HALVES, DType, tensor
from irkit.dims import Dim, Range
from irkit.pattern import attr, hole, one_of, p
from irkit.rewriting.face import Made, Match, Rule, Rules, decline
from passes.analysis.known_sizes import sizes_held
from passes.legal.runtime.images import resized_along_all

Ranges = Mapping[str, Range]

x = hole("x")


# ---------------------------------------------------------------------------------------------- places that count


def in_order(x: Dim, run: Sequence[Dim], ranges: Ranges) -> bool:
    """True where places of a Range (start, limit, step) certainly are such of an axis of size x, counted upwards."""
    start, limit, step = run
    least = [dims.bounds(d, ranges).lo for d in (start, limit, step, dims.sub(x, limit))]
    return min(least[0], least[1], least[3]) >= 0 and least[2] > 0


def counted_off(m: Match, ranges: Ranges) -> Made:
    """The places as a difference, of which no Slice is made"""
    found = [sizes_held(v) for v in (m.start, m.limit, m.step)]
    axis = m.axis % m.x.rank
    if all(f is not None for f in found) and in_order(m.x.shape[axis], [f.dims[0] for f in found if f], ranges):
        return decline("the places lie within the axis, and count upwards from 0 or above")
    zero = np.zeros((), m.start.dtype.numpy)
    places = op.Sub(m.start, op.Range(zero, op.Sub(m.start, m.limit), op.Neg(m.step)))
    return op.Gather(m.x, places, axis=m.axis)


def _counted_sample(rng: np.random.Generator) -> Value:
    data = param(tensor("f32", "n", 3))
    n = op.Squeeze(op.Shape(data, start=0, end=1), [0])
    one, less = np.array(1), op.Sub(n, 1)
    runs = ((less, np.array(-1), np.array(-1)), (op.Neg(n), np.array(0), one), (np.array(0), op.Neg(n), np.array(-1)))
    return op.Gather(data, op.Range(*runs[int(rng.integers(len(runs)))]), axis=int(rng.choice([0, -2])))


# ---------------------------------------------------------------------------------------------- casts in a row

BYTES = (DType.INT8, DType.UINT8)
NARROWER = (DType.INT32, DType.UINT32, DType.INT16, DType.UINT16)


def kept_apart(m: Match) -> Made:
    """Two casts with something between them that changes nothing of what comes out"""
    start, middle, end = m.x.dtype, m.inner.dtype, m.root.dtype
    if middle in HALVES and start not in HALVES + BYTES + (DType.BOOL,) and end in BYTES:
        return op.Cast(op.Max(op.Cast(m.inner, to=DType.FLOAT), const(np.float32(-np.inf))), to=end)
    if start.is_float and middle is DType.INT64 and end in NARROWER:
        return op.Cast(op.Mod(m.inner, const(np.array(2**end.bits))), to=end)
    return decline("the runtime casts twice, or once to the same")


def _cast_twice(rng: np.random.Generator) -> Value:
    data = param(tensor(str(rng.choice(["f32", "f64", "f16"])), "n", 3))
    if rng.random() < 0.5:
        return op.Cast(op.Cast(data, to=DType.INT64), to=NARROWER[int(rng.integers(4))])
    return op.Cast(op.Cast(op.Clip(data, 0, 100), to=HALVES[int(rng.integers(2))]), to=BYTES[int(rng.integers(2))])


# ---------------------------------------------------------------------------------------------- padded pools

PAD_AXES = 18
"""The opset since which a Pad may name its axes, and is not fused where it does."""


def padded_apart(m: Match, opset: int) -> Made:
    """The pool of a Pad that names all of its axes, or of what is at least the least number"""
    padded = m.padded
    if padded.op != "Pad" or padded.attribute("mode", "constant") != "constant":
        return decline("nothing is padded with a constant")
    x, pads, value, axes = (*padded.inputs, None, None)[:4]
    if axes is not None or x is None or pads is None:
        return decline("the Pad names its axes, and is left alone")
    if value is not None and value.blob is not None and value.blob.array.any():
        return decline("only zeros are taken for the pool's own padding")
    if opset >= PAD_AXES:
        named: Value = op.Pad(x, pads, value, const(np.arange(x.rank)))
    else:
        kind = x.dtype.numpy
        named = op.Max(padded, const(np.array(np.iinfo(kind).min if x.dtype.is_integer else -np.inf, kind)))
    return m.root.with_inputs((named,))


def _padded_pool(rng: np.random.Generator) -> Value:
    data = param(tensor(str(rng.choice(["f32", "f64", "i8", "u8"])), "n", 2, int(rng.integers(3, 6)), 4))
    pads = np.array([0, 0, *rng.integers(0, 2, 2), 0, 0, *rng.integers(0, 2, 2)])
    return op.MaxPool(op.Pad(data, pads), kernel_shape=[2, 3], strides=[int(rng.integers(1, 3)), 1])


# ---------------------------------------------------------------------------------------------- reciprocals


def reciprocal_apart(m: Match) -> Made:
    """The quotient of integers with a numerator that is no constant 1"""
    if not m.root.dtype.is_integer:
        return decline("a reciprocal of floats times a factor is their quotient")
    if m.one.blob is None or not m.one.blob.size or not (m.one.blob.array == 1).all():
        return decline("the numerator is no constant 1")
    if m.root.dtype.is_unsigned:
        return op.Div(op.Mul(op.Div(m.y, m.y), m.one), m.y)
    return op.Neg(op.Div(const(-m.one.blob.array), m.y))


def _reciprocal(rng: np.random.Generator) -> Value:
    kind = str(rng.choice(["i8", "i32", "i64", "u8", "u32"]))
    data = param(tensor(kind, "n", 3))
    one = np.array(1, data.dtype.numpy)
    above = data.dtype.is_unsigned or rng.random() < 0.5
    divisor = op.Max(data, one) if above else op.Min(data, np.array(-1, one.dtype))
    return op.Div(one, divisor)


# ---------------------------------------------------------------------------------------------- images at other sizes


def resized_along_every_axis(m: Match) -> Made:
    """The Resize with sizes or scales for all axes"""
    axes, x = m.root.attribute("axes"), m.root.inputs[0]
    if axes is None or x is None or len(axes) == x.rank:
        return decline("the Resize is told of every axis")
    if m.root.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        return decline("the axes that are named keep their proportions to each other")
    kept = {name: attribute for name, attribute in m.root.attributes if name != "axes"}
    return resized_along_all(m.root, x, kept)


def _resized_turned(rng: np.random.Generator) -> Value:
    data = param(tensor("f32", "n", 4, 5, 2))
    turned = op.Transpose(data, perm=[0, 3, 1, 2])
    if rng.random() < 0.5:
        return op.Resize(turned, None, np.array([2, 3], np.float32), axes=[2, 3], mode="linear")
    return op.Resize(turned, None, None, np.array([int(rng.integers(1, 8)), 6]), axes=[2, 3], mode="linear")


# ---------------------------------------------------------------------------------------------- turned rows, cast


def turned_after_cast(m: Match) -> Made:
    """The product of what is cast before it is turned"""
    if m.perm is None or len(m.perm) < 3 or m.perm[0] == 0:
        return decline("the Transpose leaves the first dimension where it is, or turns all around, or has two")
    turned = op.Transpose(op.Cast(m.x, to=m.cast.dtype), perm=m.perm)
    return m.root.with_inputs(tuple(turned if v is m.cast else v for v in m.root.inputs))


def _turned(rng: np.random.Generator) -> Value:
    data = param(tensor(str(rng.choice(["bf16", "f16", "f64", "i32"])), "n", 3, 4))
    perm = [[1, 0, 2], [1, 2, 0], [2, 0, 1]][int(rng.integers(3))]
    return op.Cast(op.Transpose(data, perm=perm), to=DType.FLOAT)


def _turned_left(rng: np.random.Generator) -> Value:
    turned = _turned(rng)
    return op.MatMul(turned, param(tensor("f32", turned.shape[2], 5)))


def _turned_right(rng: np.random.Generator) -> Value:
    turned = _turned(rng)
    return op.MatMul(param(tensor("f32", 5, turned.shape[1])), turned)


def fusion_rules(ranges: Ranges, opset: int = PAD_AXES) -> Rules:
    """The rules for a graph, given what it knows of its symbols, and the opset that it is written in."""
    run = p.Range(hole("start"), hole("limit"), hole("step"))
    turned = one_of("Cast")(p.Transpose(x, perm=attr("perm"))).named("cast")
    return (
        Rule("gather_of_range", p.Gather(x, run, axis=attr("axis")), lambda m: counted_off(m, ranges), True,
             "Gather(x, Range(a, b, c)) -> Gather(x, a - Range(0, a - b, -c))", sample=_counted_sample),
        Rule("pool_of_pad", one_of("MaxPool")(hole("padded")), lambda m: padded_apart(m, opset), True,
             "MaxPool(Pad(x, pads)) -> MaxPool(Pad(x, pads, axes)), which the runtime does not fuse",
             sample=_padded_pool),
        Rule("cast_of_cast", one_of("Cast")(one_of("Cast")(x).named("inner")), kept_apart, True,
             "Cast(Cast(x)) -> Cast(f(Cast(x))), where the runtime leaves the inner one out", sample=_cast_twice),
        Rule("reciprocal_of_integers", p.Div(hole("one"), hole("y")), reciprocal_apart, True,
             "Div(1, y) -> Neg(Div(-1, y)) of integers, of which times x the runtime makes Div(x, y)",
             sample=_reciprocal),
        Rule("resize_of_some_axes", hole("root", ops=("Resize",)), resized_along_every_axis, True,
             "Resize(x, sizes) of some axes -> one of all, through which the runtime moves a Transpose rightly",
             sample=_resized_turned),
        Rule("product_of_cast_of_transpose", p.MatMul(turned, hole("y")), turned_after_cast, True,
             "MatMul(Cast(Transpose(x)), y) -> MatMul(Transpose(Cast(x)), y)", sample=_turned_left),
        Rule("product_by_cast_of_transpose", p.MatMul(hole("y"), turned), turned_after_cast, True,
             "MatMul(y, Cast(Transpose(x))) -> MatMul(y, Transpose(Cast(x)))", sample=_turned_right),
    )  # fmt: skip
