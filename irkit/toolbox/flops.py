"""How many operations on numbers each operator does, as a formula over the sizes of its operands and results.

An addition, a multiplication, a comparison, and a function of one number (exp, erf, sqrt) count as one operation each,
so that a product of matrices [m, k] and [k, n] takes 2 * m * k * n. Moving elements, converting them and computing
sizes counts as none. An operator that ONNX defines by others takes about what its definition takes. Where it hangs on
the data (how large regions are, how many boxes are kept), it is the most that can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import Tensor, Tuple, types_of
from irkit.dims import Dim
from irkit.errors import DimensionError
from irkit.ops.families import FAMILIES

Formula = Callable[[Value], Dim | None]
"""From an operator to how many operations it does; None where no formula over its sizes says so."""


def elements(value: Value | None) -> Dim:
    """How many elements a value has, all results of an operator together; 0 for what is no tensor."""
    if value is None:
        return 0
    sizes = [dims.product(t.shape) for t in types_of(value.type) if isinstance(t, Tensor)]
    return dims_sum(sizes)


def first_elements(value: Value) -> Dim:
    """How many elements the first result has."""
    first = value.type.items[0] if isinstance(value.type, Tuple) else value.type
    return dims.product(first.shape) if isinstance(first, Tensor) else 0


def dims_sum(parts: list[Dim]) -> Dim:
    """The sum of sizes."""
    total: Dim = 0
    for part in parts:
        total = dims.add(total, part)
    return total


def each_result(count: int) -> Formula:
    """So many operations for each element of the first result."""
    return lambda value: dims.mul(count, first_elements(value))


def each_operand(count: int) -> Formula:
    """So many operations for each element of the first operand."""
    return lambda value: dims.mul(count, elements(value.inputs[0]))


def folded(value: Value) -> Dim:
    """An operator between all operands: one operation less than there are operands, for each element."""
    given = sum(v is not None for v in value.inputs)
    extra = 1 if value.op == "Mean" else 0
    return dims.mul(max(given - 1, 0) + extra, first_elements(value))


def shape_of(value: Value | None) -> tuple[Dim, ...]:
    """The sizes of a tensor; none for what is no tensor."""
    if value is not None and isinstance(value.type, Tensor):
        return value.type.shape
    return ()


def is_given(value: Value, index: int) -> bool:
    """True where an operator has an operand of that number."""
    return len(value.inputs) > index and value.inputs[index] is not None


# ---------------------------------------------------------------------------------------------- products


def of_product(value: Value) -> Dim:
    """MatMul and its kin: a multiplication and an addition for each element of the result and each that is summed."""
    return dims.product((2, first_elements(value), shape_of(value.inputs[0])[-1]))


def of_gemm(value: Value) -> Dim:
    """Gemm: the product, and the sum with its third operand."""
    a = shape_of(value.inputs[0])
    inner = a[0] if value.attribute("transA", 0) else a[1]
    third = is_given(value, 2)
    scaled = sum(value.attribute(name, 1.0) != 1.0 for name in ("alpha", *(("beta",) if third else ())))
    return dims.add(
        dims.product((2, first_elements(value), inner)), dims.mul(int(third) + scaled, first_elements(value))
    )


def of_einsum(value: Value) -> Dim:
    """Einsum: an operation for each operand, for each combination of indices; none where nothing is multiplied or
    summed."""
    equation = str(value.attribute("equation", "")).replace(" ", "")
    left, _, right = equation.partition("->")
    sizes: dict[str, Dim] = {}
    for term, operand in zip(left.split(","), value.inputs, strict=False):
        shape = shape_of(operand)
        start, _, end = term.partition("...")
        letters = [*start, *(f".{i}" for i in range(len(shape) - len(start) - len(end), 0, -1)), *end]
        for letter, size in zip(letters, shape, strict=False):
            if sizes.get(letter, 1) == 1:
                sizes[letter] = size
    summed = not set(left) - set(",.") <= set(right) if right else True
    if len(value.inputs) == 1 and not summed:
        return 0
    return dims.product((len(value.inputs), *sizes.values()))


def of_convolution(value: Value) -> Dim:
    """Conv: for each element of the result a product with a filter, and the bias."""
    weight = shape_of(value.inputs[1])
    bias = is_given(value, 2) and value.op == "Conv"
    return dims.add(dims.product((2, first_elements(value), *weight[1:])), dims.mul(int(bias), first_elements(value)))


def of_transposed_convolution(value: Value) -> Dim:
    """ConvTranspose: each element of the operand times a filter, and the bias."""
    weight = shape_of(value.inputs[1])
    bias = is_given(value, 2)
    return dims.add(
        dims.product((2, elements(value.inputs[0]), *weight[1:])), dims.mul(int(bias), first_elements(value))
    )


def of_deformed_convolution(value: Value) -> Dim:
    """DeformConv: Conv, over elements put together of four neighbours each, by seven operations."""
    weight = shape_of(value.inputs[1])
    sampled = dims.product((elements(value.inputs[2]), 7))
    return dims.add(dims.product((2, first_elements(value), *weight[1:])), sampled)


def of_determinant(value: Value) -> Dim:
    """Det: elimination, of 2 / 3 of the third power of the size, rounded down."""
    shape = shape_of(value.inputs[0])
    n = shape[-1]
    return dims.product((dims.floordiv(dims.product((2, n, n, n)), 3), *shape[:-2]))


# ---------------------------------------------------------------------------------------------- attention, recurrences


def heads_of(value: Value) -> tuple[Dim, Dim, Dim, Dim, Dim]:
    """(batch, heads, queries, width of a key's head, width of a value's head) of an Attention."""
    q, v = shape_of(value.inputs[0]), shape_of(value.inputs[2])
    if len(q) == 4:
        return q[0], q[1], q[2], q[3], v[3]
    heads, kv_heads = value.attribute("q_num_heads", 1), value.attribute("kv_num_heads", 1)
    return q[0], heads, q[1], dims.floordiv(q[2], heads), dims.floordiv(v[2], kv_heads)


def of_attention(value: Value) -> Dim:
    """Attention: two products, a scale, a mask where there is one, and the softmax. All keys count, masked or not."""
    batch, heads, queries, width, out_width = heads_of(value)
    keys = shape_of(value.inputs[1])[-2]
    if is_given(value, 4):
        keys = dims.add(keys, shape_of(value.inputs[4])[2])
    mask = is_given(value, 3)
    scores = dims.product((batch, heads, queries, keys))
    each = dims.add(dims.mul(2, dims.add(width, out_width)), 1 + SOFTMAX + int(mask))
    return dims.mul(scores, each)


SOFTMAX = 5
"""Operations for each element of a Softmax: the largest, a difference, exp, the sum, a quotient."""

GATES: Mapping[str, tuple[int, int]] = MappingProxyType({"RNN": (1, 2), "GRU": (3, 20), "LSTM": (4, 24)})
"""How many gates a cell has, and how many operations beside the products it takes for each number that it holds."""


def of_recurrence(value: Value) -> Dim:
    """RNN, GRU and LSTM: for each step and direction the products of the gates, and the functions."""
    x, w, r = (shape_of(value.inputs[i]) for i in range(3))
    gates, functions = GATES[value.op]
    hidden = r[2]
    inner = dims.add(w[2], hidden)
    step = dims.add(dims.product((2 * gates, hidden, inner)), dims.mul(functions, hidden))
    return dims.product((x[0], x[1], w[0], step))


# ---------------------------------------------------------------------------------------------- windows, norms, images


def of_pooling(value: Value) -> Dim:
    """Pooling: an operation for each element of a window, for each element of the result."""
    kernel = value.attribute("kernel_shape", ())
    each = 2 if value.op == "LpPool" else 1
    return dims.product((each, first_elements(value), *kernel))


def of_layer_norm(value: Value) -> Dim:
    """LayerNormalization and its kin: mean, difference, square, mean, quotient, scale, and the bias where there is."""
    bias = is_given(value, 2)
    return dims.mul(6 + int(bias), elements(value.inputs[0]))


def of_gelu(value: Value) -> Dim:
    """Gelu: by the error function, or by tanh of a polynomial."""
    return dims.mul(8 if value.attribute("approximate", "none") == "tanh" else 5, first_elements(value))


def of_picked_loss(value: Value) -> Dim:
    """NegativeLogLikelihoodLoss: what is taken for each target, weighed and added."""
    return dims.mul(2, elements(value.inputs[1]))


def of_local_norm(value: Value) -> Dim:
    """LRN: a sum of squares over the channels beside, and what is made of it."""
    return dims.mul(int(value.attribute("size", 1)) + 4, elements(value.inputs[0]))


def of_resize(value: Value) -> Dim:
    """Resize: nothing for the nearest element; else a multiplication and an addition for each element that is mixed,
    which are two along each axis that changes, four for cubic."""
    mode = value.attribute("mode", "nearest")
    if mode == "nearest":
        return 0
    before, after = shape_of(value.inputs[0]), shape_of(value)
    moved = sum(a != b for a, b in zip(before, after, strict=False))
    return dims.mul(2 * (2 if mode == "linear" else 4) ** moved, first_elements(value)) if moved else 0


def of_sampled_grid(value: Value) -> Dim:
    """GridSample: as Resize, over the axes of the grid."""
    mode = value.attribute("mode", "linear")
    spatial = len(shape_of(value.inputs[0])) - 2
    each = {"nearest": 0, "linear": 2, "bilinear": 2}.get(mode, 4)
    return dims.mul(2 * each**spatial, first_elements(value)) if each else 0


def of_affine_grid(value: Value) -> Dim:
    """AffineGrid: for each coordinate a product with a row of the matrix, and the shift."""
    shape = shape_of(value)
    return dims.mul(2 * (len(shape) - 2), dims.product(shape))


# ---------------------------------------------------------------------------------------------- spectra


def fast_transform(length: Dim, is_real: bool) -> int | None:
    """What is commonly counted for a fast Fourier transform of n complex numbers, 5 n log2(n); half of it for real
    ones. None for a length that is not known: the sizes of irkit have no logarithm."""
    if type(length) is not int:
        return None
    whole = 5 * length * max(length - 1, 0).bit_length()
    return whole // 2 if is_real else whole


def known_number(value: Value, index: int) -> int | None:
    """The number that an operand is, where it is a constant of one."""
    operand = value.inputs[index] if is_given(value, index) else None
    found = operand.blob.integers if operand is not None and operand.blob is not None else None
    return found[0] if found is not None and len(found) == 1 else None


def of_fourier_transform(value: Value) -> Dim | None:
    """DFT: a fast transform for each row along the axis."""
    shape = shape_of(value.inputs[0])
    axis = known_number(value, 2) if is_given(value, 2) else int(value.attribute("axis", -2))
    if axis is None:
        return None
    length = known_number(value, 1) if is_given(value, 1) else shape[axis]
    each = None if length is None else fast_transform(length, dims.same(shape[-1], 1) is True)
    others = [d for i, d in enumerate(shape[:-1]) if i != axis % len(shape)]
    return None if each is None else dims.product((each, *others))


def of_short_transform(value: Value) -> Dim | None:
    """STFT: for each frame a product with the window, where there is one, and a fast transform."""
    signal, window = shape_of(value.inputs[0]), value.inputs[2] if is_given(value, 2) else None
    is_real = len(signal) < 3 or dims.same(signal[-1], 1) is True
    length = known_number(value, 3) if is_given(value, 3) else shape_of(window)[0]
    each = None if length is None else fast_transform(length, is_real)
    if each is None or length is None:
        return None
    weighed = 0 if window is None else dims.mul(1 if is_real else 2, length)
    return dims.product((*shape_of(value)[:2], dims.add(each, weighed)))


# ---------------------------------------------------------------------------------------------- regions

SAMPLED, OVERLAP = 8, 12
"""Operations for a number that is put together of four neighbours and added, and for how far two boxes overlap."""


def of_aligned_regions(value: Value) -> Dim:
    """RoiAlign: for each element of the result the samples of its cell; where their number is that of the region's
    elements, at most those of the whole image."""
    result, image = shape_of(value), shape_of(value.inputs[0])
    count = int(value.attribute("sampling_ratio", 0))
    cell = [count, count] if count > 0 else [dims.ceildiv(d, n) for d, n in zip(image[2:], result[2:], strict=True)]
    return dims.product((SAMPLED, *result, *cell))


def of_pooled_regions(value: Value) -> Dim:
    """MaxRoiPool: a comparison for each element of each region, which is at most the whole image."""
    return dims.product((shape_of(value)[0], *shape_of(value.inputs[0])[1:]))


def of_suppression(value: Value) -> Dim:
    """NonMaxSuppression: each box that is kept against all others of its class; at most so many are kept as are asked
    for, or there are."""
    batch, classes, boxes = shape_of(value.inputs[1])
    most = known_number(value, 2) if is_given(value, 2) else 0
    kept = boxes if most is None else min(most, boxes) if type(boxes) is int else most
    return dims.product((OVERLAP, batch, classes, boxes, kept))


# ---------------------------------------------------------------------------------------------- the table

MOVED = (
    *FAMILIES["movement"], *FAMILIES["sequences"], *FAMILIES["text"], *FAMILIES["creation"], "Cast", "CastLike",
    "BitCast", "Compress", "Gather", "GatherElements", "GatherND", "NonZero", "OneHot", "ScatterElements", "ScatterND",
    "TensorScatter", "Unique", "MaxUnpool", "ShapeVector", "Item", "Param", "BlackmanWindow", "HammingWindow",
    "HannWindow", "MelWeightMatrix", "ImageDecoder",
)  # fmt: skip
"""Operators that do no arithmetic, or, as windows and random numbers, none that a model takes time for."""

PER_RESULT: Mapping[int, str] = {
    1: """
        Abs Acos Acosh And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Cos Cosh Div
        Equal Erf Exp Floor Greater IsInf IsNaN Less Log Mod Mul Neg Not Or Pow Reciprocal Round Sign Sin Sinh Sqrt
        Sub Tan Tanh Where Xor Add GreaterOrEqual LessOrEqual Relu
    """,
    2: "Clip Hardmax LeakyRelu PRelu ThresholdedRelu DequantizeLinear",
    3: "Softplus Softsign Shrink RotaryEmbedding LpNormalization QuantizeLinear",
    4: "Elu HardSigmoid Sigmoid RMSNormalization BatchNormalization",
    5: "Celu HardSwish LogSoftmax Mish Selu Softmax Swish DynamicQuantizeLinear MeanVarianceNormalization",
}  # fmt: skip
"""Operators by how many operations they do for each element of their first result."""

PER_OPERAND: Mapping[int, str] = {
    1: """
        ArgMax ArgMin Col2Im CumProd CumSum GlobalAveragePool GlobalMaxPool ReduceMax
        ReduceMean ReduceMin ReduceProd ReduceSum ReduceLogSum TopK
    """,
    2: "GlobalLpPool ReduceL1 ReduceL2 ReduceSumSquare",
    4: "ReduceLogSumExp",
    6: "SoftmaxCrossEntropyLoss",
}  # fmt: skip
"""Operators by how many operations they do for each element of their first operand."""

OWN: Mapping[str, Formula] = {
    "AffineGrid": of_affine_grid, "Attention": of_attention, "AveragePool": of_pooling, "Conv": of_convolution,
    "ConvInteger": of_convolution, "ConvTranspose": of_transposed_convolution, "DFT": of_fourier_transform,
    "DeformConv": of_deformed_convolution, "Det": of_determinant, "Einsum": of_einsum, "GRU": of_recurrence,
    "Gelu": of_gelu, "Gemm": of_gemm, "GridSample": of_sampled_grid, "GroupNormalization": of_layer_norm,
    "InstanceNormalization": of_layer_norm, "LRN": of_local_norm, "LSTM": of_recurrence,
    "LayerNormalization": of_layer_norm, "LpPool": of_pooling, "MatMul": of_product, "MatMulInteger": of_product,
    "Max": folded, "MaxPool": of_pooling, "MaxRoiPool": of_pooled_regions, "Mean": folded, "Min": folded,
    "NegativeLogLikelihoodLoss": of_picked_loss, "NonMaxSuppression": of_suppression, "QLinearConv": of_convolution,
    "QLinearMatMul": of_product, "RNN": of_recurrence, "Resize": of_resize, "RoiAlign": of_aligned_regions,
    "STFT": of_short_transform, "Sum": folded,
}  # fmt: skip
"""Operators with a formula of their own."""


def nothing(value: Value) -> Dim:
    """No operation."""
    return 0


def formulas() -> Mapping[str, Formula]:
    """The formula of each operator that has one."""
    found: dict[str, Formula] = dict.fromkeys(MOVED, nothing)
    for table, made in ((PER_RESULT, each_result), (PER_OPERAND, each_operand)):
        for count, names in table.items():
            found |= dict.fromkeys(names.split(), made(count))
    return MappingProxyType(found | dict(OWN))


FORMULAS: Mapping[str, Formula] = formulas()


def flops_of(value: Value) -> Dim | None:
    """How many operations an operator of ONNX without bodies does; None where there is no formula."""
    formula = FORMULAS.get(value.op)
    if formula is None:
        return None
    try:
        return formula(value)
    except (IndexError, DimensionError):  # a rank that the formula does not know, a number beyond 64 bits
        return None
