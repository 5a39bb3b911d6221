"""Products of bytes that ONNX Runtime adds up in 16 bits on processors with AVX2 and without VNNI: those of unsigned
and signed ones, of which two together may be beyond. Of two unsigned or two signed ones it keeps every sum."""

from __future__ import annotations

from functools import partial

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, tensor
from irkit.pattern import hole
from irkit.rewriting.face import Made, Match, Rule, Rules, decline

SMALL = 64
"""Signed bytes up to this stay: 2 * 64 * 255 is below 2**15."""
MIDDLE = 128
"""How far the unsigned byte is from the signed one that stands for the same number."""
OPERANDS = {"MatMulInteger": (0, 1, 3), "QLinearMatMul": (0, 3, 5), "QLinearConv": (0, 3, 5), "ConvInteger": (0, 1, 3)}
"""Where each operator has what it multiplies, the weights, and their zero point."""
PRODUCTS = ("MatMul", "Gemm", "Conv")
"""Operators on floats that the runtime makes operators on bytes of, between DequantizeLinear."""
VIEWS = frozenset((
    "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "MaxPool", "Slice", "Gather",
    "Expand", "Relu",
))  # fmt: skip
"""Operators through which the runtime moves a DequantizeLinear."""


def moved(x: Value, to: DType) -> Value:
    """Bytes as the others that stand for the same numbers beside a zero point that is moved likewise."""
    step = MIDDLE if to is DType.UINT8 else -MIDDLE
    if x.blob is not None:
        return const((x.blob.read().astype(np.int32) + step).astype(to.numpy), name=x.blob.name)
    return op.Cast(op.Add(op.Cast(x, to=DType.INT32), const(np.int32(step))), to=to)


def point_moved(zero: Value | None, to: DType) -> Value:
    """The zero point beside bytes that are moved, 0 where none is given."""
    return const(np.uint8(MIDDLE) if to is DType.UINT8 else np.int8(-MIDDLE)) if zero is None else moved(zero, to)


def is_small(weights: Value) -> bool:
    """Whether weights are known to be so small that no two products are beyond 16 bits."""
    return (
        weights.blob is not None
        and weights.blob.size > 0
        and bool((np.abs(weights.blob.read().astype(np.int32)) <= SMALL).all())
    )


def of_one_kind(m: Match, given: DType, kept: DType) -> Made:
    """The product with weights of the same kind of bytes as what they are multiplied with; `given` are the kinds of
    that and `kept` of weights that go wrong beside it."""
    value = m.root
    one, two, three = OPERANDS[value.op]
    x, weights = value.inputs[one], value.inputs[two]
    zero = value.inputs[three] if len(value.inputs) > three else None
    if x is None or weights is None or x.dtype is not given or weights.dtype is not kept:
        return decline("both are of one kind")
    if kept is DType.INT8 and is_small(weights):
        return decline("no sum of two is beyond 16 bits")
    if value.op == "QLinearConv" and weights.blob is None:
        return decline("the runtime takes constant weights")
    inputs = [*value.inputs, *[None] * (three + 1 - len(value.inputs))]
    inputs[two], inputs[three] = moved(weights, given), point_moved(zero, given)
    if inputs[three - 1] is None and value.op in ("MatMulInteger", "ConvInteger"):
        inputs[three - 1] = const(np.zeros((), given.numpy))
    return value.with_inputs(tuple(inputs))


def bytes_below(value: Value | None) -> DType | None:
    """The kind of bytes that floats are made of, where the runtime may compute with these."""
    while value is not None and value.op in VIEWS:
        value = value.inputs[0]
    small = value.inputs[0] if value is not None and value.op == "DequantizeLinear" else None
    return None if small is None or value is None or value.attribute("block_size", 0) else small.dtype


def unsigned_weights(m: Match) -> Made:
    """The product of what comes from unsigned bytes with weights that come from unsigned bytes, too"""
    value = m.root
    x, whole = value.inputs[0], value.inputs[1]
    way: list[Value] = []
    while whole is not None and whole.op == "Transpose":
        way.append(whole)
        whole = whole.inputs[0]
    if whole is None or whole.op != "DequantizeLinear" or bytes_below(whole) is not DType.INT8:
        return decline("its weights are no signed bytes")
    weights, scale, *zero = whole.inputs
    if weights is None or weights.blob is None or scale is None or is_small(weights):
        return decline("its weights are not constant, or small")
    if bytes_below(x) is not DType.UINT8:
        return decline("the runtime multiplies floats")
    points = zero[0] if zero and zero[0] is not None else const(np.zeros(sizes_of(scale), np.int8))
    made = whole.with_inputs((moved(weights, DType.UINT8), scale, moved(points, DType.UINT8)))
    for each in reversed(way):
        made = each.with_inputs((made, *each.inputs[1:]))
    return value.with_inputs((x, made, *value.inputs[2:]))


def floats_apart(m: Match) -> Made:
    """Gemm(x, w, bias) by a MatMul less the negative bias, where x comes from bytes and the weights do not: the runtime
    would make signed bytes of those by itself, and of the Gemm, or of a MatMul and an Add, a product of bytes"""
    value = m.root
    x, weights, *bias = value.inputs
    if weights is None or weights.blob is None or weights.dtype is not DType.FLOAT or bytes_below(x) is None:
        return decline("it is no product of floats that come from bytes with weights that do not")
    if value.attribute("transA", 0) or value.attribute("alpha", 1.0) != 1 or value.attribute("beta", 1.0) != 1:
        return decline("it is more than a product and a sum")
    if value.attribute("transB", 0):
        weights = op.Transpose(weights, perm=(1, 0))
    product = op.MatMul(x, weights)
    if not bias or bias[0] is None:
        return product
    held = bias[0].blob
    return op.Sub(product, op.Neg(bias[0]) if held is None else const(-held.read()))


def kernels_apart(m: Match) -> Made:
    """QuantizeLinear(Conv(x, w, bias)) by the convolution less the negative bias, as that of a Gemm; one without a bias
    less the smallest float, which moves no result"""
    value = m.root
    way: list[Value] = []
    below = value.inputs[0]
    while below is not None and below.op in BETWEEN:
        way.append(below)
        below = below.inputs[0]
    added: Value | None = None
    if below is not None and below.op == "Add":  # which the runtime takes into the convolution
        below, added = below.inputs if is_kernel(below.inputs[0]) else reversed(below.inputs)
    if below is None or not is_kernel(below) or (added is not None and (added.blob is None or len(below.inputs) > 2)):
        return decline("it is no convolution of floats that come from bytes with weights that do not")
    bias, axes = below.inputs[2] if len(below.inputs) > 2 else None, list(range(1, below.rank - 1))
    if added is not None and added.blob is not None:
        rest = const(-added.blob.read())
    elif bias is None:
        rest = const(np.full((1,) * (below.rank - 1), np.finfo(np.float32).tiny, np.float32))
    elif bias.blob is None:
        rest = op.Unsqueeze(op.Neg(bias), np.array(axes, np.int64))
    else:
        rest = const(-bias.blob.read().reshape((-1, *[1] * len(axes))))
    made = op.Sub(below.with_inputs(below.inputs[:2]), rest)
    for each in reversed(way):
        made = each.with_inputs((made, *each.inputs[1:]))
    return value.with_inputs((made, *value.inputs[1:]))


def is_kernel(value: Value | None) -> bool:
    """Whether a value is a convolution in floats of what comes from bytes, with weights that do not."""
    if value is None or value.op not in ("Conv", "ConvTranspose"):
        return False
    weights = value.inputs[1]
    plain = weights is not None and weights.blob is not None and weights.dtype is DType.FLOAT
    return plain and bytes_below(value.inputs[0]) is not None


BETWEEN = ("Relu", "Clip", "MaxPool")
"""Operators behind a convolution that the runtime takes into it, or moves behind the bytes."""


def sizes_of(value: Value) -> tuple[int, ...]:
    """The shape of a constant."""
    return () if value.blob is None else value.blob.shape


def _weights(rng: np.random.Generator, shape: tuple[int, ...], kind: DType) -> Value:
    ends = np.iinfo(kind.numpy)
    return const(rng.integers(ends.min, ends.max + 1, shape).astype(kind.numpy), name="w")


def _matrix(rng: np.random.Generator) -> Value:
    x, w = param(tensor("u8", "n", 6)), _weights(rng, (6, 5), DType.INT8)
    if rng.random() < 0.4:
        return op.MatMulInteger(x, w)
    zero = np.uint8(rng.integers(0, 256))
    if rng.random() < 0.5:
        return op.MatMulInteger(x, w, zero, rng.integers(-9, 9, 5).astype(np.int8))
    return op.QLinearMatMul(x, np.float32(0.1), zero, w, np.float32(0.2), np.int8(3), np.float32(9), np.uint8(128))


def _images(rng: np.random.Generator) -> Value:
    x, w = param(tensor("u8", "n", 2, 5, 5)), _weights(rng, (4, 2, 3, 3), DType.INT8)
    point, zeros = np.uint8(rng.integers(0, 256)), np.zeros(4, np.int8)
    scales = rng.uniform(0.1, 1, 4).astype(np.float32)
    return op.QLinearConv(x, np.float32(0.1), point, w, scales, zeros, np.float32(9), np.uint8(128))


def _signed_images(rng: np.random.Generator) -> Value:
    x, w = param(tensor("i8", "n", 2, 5, 5)), _weights(rng, (4, 2, 3, 3), DType.UINT8)
    return (
        op.ConvInteger(x, w, np.int8(3), np.uint8(rng.integers(0, 256))) if rng.random() < 0.6 else op.ConvInteger(x, w)
    )


def _floats(rng: np.random.Generator) -> Value:
    x = op.DequantizeLinear(param(tensor("u8", "n", 6)), np.float32(0.1), np.uint8(rng.integers(0, 256)))
    scales = rng.uniform(0.1, 1, 5).astype(np.float32)
    w = op.DequantizeLinear(_weights(rng, (6, 5), DType.INT8), scales, axis=1)
    return op.MatMul(x, w) if rng.random() < 0.5 else op.Gemm(x, w)


def _float_weights(rng: np.random.Generator) -> Value:
    x = op.DequantizeLinear(param(tensor("u8", "n", 6)), np.float32(0.1), np.uint8(rng.integers(0, 256)))
    turned = int(rng.integers(2))
    w = const(rng.standard_normal((5, 6) if turned else (6, 5)).astype(np.float32), name="w")
    bias = [rng.standard_normal(5).astype(np.float32)] if rng.random() < 0.5 else []
    return op.Gemm(x, w, *bias, transB=turned)


def _float_kernels(rng: np.random.Generator) -> Value:
    x = op.DequantizeLinear(param(tensor("u8", "n", 3, 6, 6)), np.float32(0.1), np.uint8(rng.integers(0, 256)))
    w = const(rng.standard_normal((4, 3, 3, 3)).astype(np.float32), name="w")
    bias = [rng.standard_normal(4).astype(np.float32)] if rng.random() < 0.6 else []
    made = op.Conv(x, w, *bias)
    made = op.Relu(made) if rng.random() < 0.4 else made
    return op.QuantizeLinear(made, np.float32(0.2), np.uint8(rng.integers(0, 256)))


_TO_UNSIGNED, _TO_SIGNED = (
    partial(of_one_kind, given=a, kept=b) for a, b in ((DType.UINT8, DType.INT8), (DType.INT8, DType.UINT8))
)
BYTES: Rules = (
    Rule("unsigned_matrix", hole("made", ops=("MatMulInteger", "QLinearMatMul")), _TO_UNSIGNED, True,
         "MatMulInteger(uint8, int8) -> the same of uint8", sample=_matrix),
    Rule("unsigned_kernels", hole("made", ops=("QLinearConv",)), _TO_UNSIGNED, True,
         "QLinearConv(uint8, int8) -> the same of uint8", sample=_images),
    Rule("signed_kernels", hole("made", ops=("ConvInteger",)), _TO_SIGNED, True,
         "ConvInteger(int8, uint8) -> the same of int8", sample=_signed_images),
    Rule("unsigned_weights", hole("made", ops=PRODUCTS), unsigned_weights, True,
         "product of DequantizeLinear(uint8) and DequantizeLinear(int8) -> the same of uint8", sample=_floats),
    Rule("float_weights_of_bytes", hole("made", ops=("Gemm",)), floats_apart, False,
         "Gemm(DequantizeLinear(x), weights in float32, bias) -> MatMul - -bias", sample=_float_weights),
    Rule("float_kernels_of_bytes", hole("made", ops=("QuantizeLinear",)), kernels_apart, False,
         "QuantizeLinear(Conv(DequantizeLinear(x), weights in float32, bias)) -> QuantizeLinear(Conv - -bias)",
         sample=_float_kernels),
)  # fmt: skip
