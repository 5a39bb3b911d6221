"""Weights that are kept as integers: what moves them moves the integers, and what scales them is their scale."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core import walk
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, tensor
from irkit.core.vocabulary import CONSTANT
from irkit.evaluation.interpreter import evaluate
from irkit.evaluation.kernels.table import DRAWS
from irkit.pattern import attr, hole, one_of, p
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.rules.constants import is_narrow_weight, transposed_constant, viewed_constant

BYTES = (DType.INT8, DType.UINT8)
"""The element types of operands of MatMulInteger."""

MOST = 64
"""How many operators of constants may stand before a QuantizeLinear whose result is made a constant."""


def _sample(rng: np.random.Generator) -> Value:
    integers = const(rng.integers(-128, 128, (3, 4)).astype(np.int8))
    scales = rng.uniform(0.1, 1, 4 if rng.random() < 0.7 else ()).astype(np.float32)
    points = rng.integers(-9, 9, scales.shape).astype(np.int8)
    held = op.DequantizeLinear(integers, const(scales), const(points) if rng.random() < 0.7 else None, axis=1)
    return op.Transpose(held, perm=(1, 0))


_held = p.DequantizeLinear(
    constant("q").once(),
    constant("scale"),
    constant("zero", optional=True),
    axis=attr("axis"),
    block_size=attr("block"),
)


@rule(p.Transpose(_held, perm=attr("perm")), sample=_sample)
def transpose_of_integers(m: Match) -> Made:
    """Transpose(DequantizeLinear(weight, ...)) -> DequantizeLinear(weight transposed, ...), if nothing else uses it"""
    perm = m.perm or tuple(reversed(range(m.q.rank)))

    def moved(value: Value) -> Value:
        shape = tuple(value.shape[i] for i in perm)
        return viewed_constant(value, shape, lambda array: np.transpose(array, perm))

    def along(value: Value | None) -> Value | None:
        return moved(value) if value is not None and value.rank == m.q.rank else value

    axis = perm.index(m.axis % m.q.rank) if m.scale.rank else 1
    return op.DequantizeLinear(moved(m.q), along(m.scale), along(m.zero), axis=axis, block_size=m.block)


# ---------------------------------------------------------------------------------------------- made integers


def _rounded(rng: np.random.Generator) -> Value:
    weight = const(rng.normal(size=(3, 4)).astype(np.float32), name="w")
    given = op.Mul(weight, const(rng.uniform(0.5, 2, (3, 1)).astype(np.float32))) if rng.random() < 0.5 else weight
    scales = const(rng.uniform(0.01, 0.1, 3).astype(np.float32))
    return op.QuantizeLinear(given, scales, const(np.zeros(3, np.int8)), axis=0)


def computed_when_read(value: Value, name: str) -> Value:
    """A constant of what an operator of constants gives, computed when it is loaded."""
    shape = tuple(d for d in value.shape if isinstance(d, int))
    graph = Graph((), (value,))
    below = tuple({v.blob: None for v in graph.order if v.blob is not None})
    return const(Blob(value.dtype, shape, lambda: np.asarray(evaluate(graph, [])[0]), name, of=below))


@rule(one_of("QuantizeLinear")(hole("x"), constant("scale"), constant("zero", optional=True)), sample=_rounded)
def integers_of_weight(m: Match) -> Made:
    """QuantizeLinear(f(weights), ...) -> the integers, computed when they are loaded"""
    value = m.root
    if not all(isinstance(d, int) for d in value.shape):
        return decline("its sizes vary")
    for count, each in enumerate(walk.post_order((m.x,))):
        if count > MOST or (each.op != CONSTANT and (not each.inputs or each.bodies or each.op in DRAWS)):
            return decline("it is not made of constants alone")
        if each.op == "DequantizeLinear":
            return decline("what is kept as integers stays so")
    names = [v.blob.name for v in walk.post_order((m.x,)) if v.blob is not None and v.blob.is_weight]
    return computed_when_read(value, f"{names[0]}.quantized" if names else "")


def _clipped(rng: np.random.Generator) -> Value:
    integers = const(rng.integers(-128, 128, (3, 4)).astype(np.int8), name="w.quantized")
    return op.Clip(integers, np.int8(-7), np.int8(7))


@rule(p.Clip(constant("q"), constant("low", optional=True), constant("high", optional=True)), sample=_clipped)
def clip_of_integers(m: Match) -> Made:
    """Clip(weight of integers, low, high) -> the integers within these ends, clipped when they are loaded"""
    if not is_narrow_weight(m.q):
        return decline("it is no weight of integers")
    return computed_when_read(m.root, m.q.blob.name)


# ---------------------------------------------------------------------------------------------- scaled


def scale_along(scale: Value, shape: tuple[int, ...]) -> tuple[np.ndarray, int] | None:
    """(scales as DequantizeLinear takes them, axis) of a constant that broadcasts with a weight of `shape` along one of
    its axes, or is one number; None where it does otherwise."""
    if scale.blob is None or scale.rank > len(shape):
        return None
    sizes = (*(1,) * (len(shape) - scale.rank), *scale.blob.shape)
    wide = [i for i, size in enumerate(sizes) if size != 1]
    if any(sizes[i] != shape[i] for i in wide) or len(wide) > 1:
        return None
    axis = wide[0] if wide else 0
    return scale.blob.read().reshape(sizes[axis] if wide else ()), axis


def as_floats(q: Value) -> tuple[int, ...] | None:
    """The shape of a weight of integers; None for what is none."""
    if not is_narrow_weight(q) or q.dtype not in BYTES:
        return None
    return tuple(d for d in q.shape if isinstance(d, int))


def _times(rng: np.random.Generator) -> Value:
    integers = const(rng.integers(-128, 128, (3, 4)).astype(np.int8), name="w")
    scale = const(rng.uniform(0.1, 1, ((3, 1), (4,), (1,))[int(rng.integers(3))]).astype(np.float32))
    floats = op.Cast(integers, to=DType.FLOAT)
    if rng.random() < 0.5:
        points = const(rng.integers(-9, 9, scale.blob.shape if scale.blob else ()).astype(np.int8), name="z")
        floats = op.Sub(floats, op.Cast(points, to=DType.FLOAT))
    return op.Mul(floats, scale)


_floats = p.Cast(constant("q"), to=attr("to"))


@rule(p.Mul(_floats, constant("scale")), sample=_times)
def scaled_integers(m: Match) -> Made:
    """Cast(weight of integers) * scale -> DequantizeLinear(weight, scale), for a scale along one axis"""
    shape = as_floats(m.q)
    found = None if shape is None or m.root.dtype is not DType.FLOAT else scale_along(m.scale, shape)
    if found is None or m.root.shape != m.q.shape:
        return decline("it is no weight of integers, or its scale is not along one axis")
    return op.DequantizeLinear(m.q, const(found[0], name=_name(m.scale)), axis=found[1])


@rule(p.Mul(p.Sub(_floats, p.Cast(constant("zero"), to=attr("to"))), constant("scale")), sample=_times)
def scaled_integers_from_zero(m: Match) -> Made:
    """(Cast(weight of integers) - Cast(zero)) * scale -> DequantizeLinear(weight, scale, zero), for both along one
    axis"""
    shape = as_floats(m.q)
    if shape is None or m.root.dtype is not DType.FLOAT or m.zero.dtype is not m.q.dtype or m.root.shape != m.q.shape:
        return decline("it is no weight of integers")
    scale, zero = scale_along(m.scale, shape), scale_along(m.zero, shape)
    if scale is None or zero is None or scale[0].shape != zero[0].shape or scale[1] != zero[1]:
        return decline("its scale and its zero point are not along one axis")
    return op.DequantizeLinear(m.q, const(scale[0], name=_name(m.scale)), const(zero[0]), axis=scale[1])


def _name(value: Value) -> str:
    """The name of a constant."""
    return value.blob.name if value.blob is not None else ""


def _product(rng: np.random.Generator) -> Value:
    x = const(rng.normal(size=(2, 3)).astype(np.float32))
    integers = const(rng.integers(-128, 128, (3, 4)).astype(np.int8), name="w")
    scale = const(rng.uniform(0.1, 1, ((4,), (1,), (1, 4))[int(rng.integers(3))]).astype(np.float32))
    return op.Mul(op.MatMul(op.Relu(x), op.Cast(integers, to=DType.FLOAT)), scale)


@rule(p.Mul(p.MatMul(hole("x"), _floats).once(), constant("scale")), exact=False, sample=_product)
def scaled_product_of_integers(m: Match) -> Made:
    """(x @ Cast(weight of integers)) * scale -> x @ DequantizeLinear(weight, scale), for a scale of each column"""
    shape = as_floats(m.q)
    if shape is None or len(shape) != 2 or m.root.dtype is not DType.FLOAT or m.scale.rank > m.x.rank:
        return decline("it is no weight of integers")
    found = scale_along(m.scale, (1, shape[1]))
    if found is None:
        return decline("its scale is not one of columns")
    scale = const(found[0], name=_name(m.scale))
    return op.MatMul(m.x, op.DequantizeLinear(m.q, scale, axis=1))


def _of_bytes(rng: np.random.Generator) -> Value:
    x = op.QuantizeLinear(const(rng.normal(size=(2, 3)).astype(np.float32)), np.float32(0.1), np.uint8(7))
    integers = const(rng.integers(-128, 128, (3, 4)).astype(np.int8), name="w")
    return op.MatMul(op.Cast(x, to=DType.INT32), op.Cast(integers, to=DType.INT32))


@rule(p.MatMul(p.Cast(hole("a"), to=attr("to")), p.Cast(hole("b"), to=attr("to"))), sample=_of_bytes)
def product_of_bytes(m: Match) -> Made:
    """Cast(a) @ Cast(b) in int32 -> MatMulInteger(a, b), for a and b of 8 bits"""
    if m.root.dtype is not DType.INT32 or m.a.dtype not in BYTES or m.b.dtype not in BYTES:
        return decline("it is no product of bytes in int32")
    return op.MatMulInteger(m.a, m.b)


def _dynamic(rng: np.random.Generator) -> Value:
    x = const(rng.normal(size=(2, 3)).astype(np.float32))
    scale = op.Div(op.ReduceMax(op.Abs(param(tensor("f32", "n"))), keepdims=0), np.float32(127))
    zero = const(np.int8(0))
    rows = op.DequantizeLinear(op.QuantizeLinear(x, scale, zero), scale, zero)
    integers = const(rng.integers(-128, 128, (3, 4)).astype(np.int8), name="w")
    scales = const(rng.uniform(0.1, 1, 4 if rng.random() < 0.7 else ()).astype(np.float32))
    columns = op.DequantizeLinear(integers, scales, axis=1)
    if rng.random() < 0.5:
        return op.MatMul(rows, columns)
    return op.Gemm(rows, columns, const(rng.normal(size=4).astype(np.float32)))


_rows = p.DequantizeLinear(hole("a"), hole("s"), hole("za", optional=True))
_columns = p.DequantizeLinear(
    constant("w"), constant("t"), constant("zw", optional=True), axis=attr("axis"), block_size=attr("block")
)
DEPTH = (2**31 - 1) // (256 * 256)
"""How many products of bytes add up to no more than int32 holds."""


def product_on_bytes(m: Match, weight: Value, axis: int) -> Value | None:
    """a @ weight in integers, then scaled: for one scale of a that is computed, and none, or one for each column of the
    weight, whose zero points are 0; None where it is otherwise."""
    a, depth = m.a, weight.shape[0]
    if a.dtype not in BYTES or weight.dtype not in BYTES or weight.rank != 2 or m.root.dtype is not DType.FLOAT:
        return None
    if m.s.rank or m.s.blob is not None or not isinstance(depth, int) or depth > DEPTH or m.block:
        return None
    if m.zw is not None and (m.zw.blob is None or m.zw.blob.extremes != (0.0, 0.0)):
        return None
    if m.t.rank and axis != 1:
        return None
    product = op.MatMulInteger(a, weight) if m.za is None else op.MatMulInteger(a, weight, m.za)
    return op.Mul(op.Cast(product, to=DType.FLOAT), op.Mul(m.s, m.t))


@rule(p.MatMul(_rows, _columns), exact=False, sample=_dynamic)
def product_of_dynamic(m: Match) -> Made:
    """DequantizeLinear(a, s) @ DequantizeLinear(weight, t) -> MatMulInteger(a, weight) * (s * t), for a scale s that is
    computed for each call: runtimes have integer kernels for it in this form alone"""
    return product_on_bytes(m, m.w, m.axis % max(m.w.rank, 1)) or decline("its scales are no such ones")


@rule(
    p.Gemm(_rows, _columns, hole("bias", optional=True), alpha=1.0, beta=1.0, transA=0, transB=attr("turned")),
    exact=False,
    sample=_dynamic,
)
def gemm_of_dynamic(m: Match) -> Made:
    """Gemm(DequantizeLinear(a, s), DequantizeLinear(weight, t), bias) -> MatMulInteger(a, weight) * (s * t) + bias, for
    a scale s that is computed for each call"""
    weight, axis = m.w, m.axis % max(m.w.rank, 1)
    if m.turned:
        weight, axis = transposed_constant(weight), 1 - axis
    made = product_on_bytes(m, weight, axis)
    if made is None:
        return decline("its scales are no such ones")
    return made if m.bias is None else op.Add(made, m.bias)


QUANTIZED: tuple[Rule, ...] = (
    transpose_of_integers, integers_of_weight, clip_of_integers, scaled_integers, scaled_integers_from_zero,
    product_of_bytes,
)  # fmt: skip

REAL_QUANTIZED: tuple[Rule, ...] = (scaled_product_of_integers, product_of_dynamic, gemm_of_dynamic)
