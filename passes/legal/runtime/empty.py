"""Operators that ONNX Runtime fails on where a tensor has no elements, made right wherever a size may be 0.

Whether it may is read off the dimensions and off what the graph knows of its symbols: where every size is positive,
nothing changes. The size that is proved positive then stands in the types as `max(1, n)`, so that a graph is treated
once.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from irkit import dims
from irkit.build import call, const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor, Tuple, tensor, types_of
from irkit.dims import Dim, Range
from irkit.ops.types.contents import contents
from irkit.pattern import hole, p
from irkit.rewriting.face import Made, Match, Rule, Rules, decline
from irkit.support.results import as_tuple
from passes.analysis.known_sizes import Sizes, bound_by, is_bound, sizes_value
from passes.analysis.questions import scan_axes
from passes.legal.runtime.expansions import softmax_cross_entropy

Ranges = Mapping[str, Range]


def has_no_places(pool: Value) -> bool:
    """True for a pool of images without places, which ONNX Runtime refuses."""
    x = pool.inputs[0]
    return x is not None and 0 in x.shape[2:]


def mean_of_places(m: Match) -> Made:
    """The mean of nothing, for each channel, which is no number"""
    shape, sources = m.pool.shape, bound_by(m.pool.inputs[0])
    if not m.is_bound(shape, m.pool.inputs[0]):
        return decline("a dimension is not bound")
    return op.Expand(const(np.array(np.nan, m.pool.dtype.numpy)), sizes_value(m, shape, 1, sources))


def _no_places(rng: np.random.Generator) -> Value:
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 4)), 0, int(rng.integers(0, 3)))
    return op.GlobalAveragePool(param(Tensor(DType.FLOAT, shape)))


def is_mean_of_nothing(mean: Value) -> bool:
    """True for a mean of floats along an axis of size 0 that has results."""
    x, shape = mean.inputs[0], mean.shape
    return x is not None and mean.dtype.is_float and 0 in x.shape and 0 not in shape


def _nothing(rng: np.random.Generator) -> Value:
    x = param(Tensor(DType.FLOAT, (int(rng.integers(1, 3)), 0, int(rng.integers(1, 3)))))
    return op.ReduceMean(x, [1], keepdims=int(rng.integers(0, 2)))


def empty_rules(ranges: Ranges) -> Rules:
    """The rules for a graph, given what it knows of its symbols."""
    return (
        Rule("scan_of_other_axes", hole("scan", ops=("Scan",)), lambda m: scanned_first(m, ranges), True,
             "Scan along an axis -> Scan along the first one between Transposes"),
        Rule("scan_of_nothing", hole("scan", ops=("Scan",)), lambda m: scanned(m, ranges), True,
             "Scan -> If(n > 0, Scan, start)"),
        Rule("loop_of_no_rounds", hole("loop", ops=("Loop",)), lambda m: looped(m, ranges), True,
             "Loop -> If(m > 0 and condition, Loop, start), where rows have a size that varies"),
        Rule("product_of_no_batch", p.MatMul(hole("a", ops=("Transpose",)), hole("b")), lambda m: product(m, ranges),
             False, "MatMul(Transpose(x), y) -> Reshape(MatMul(Reshape(Transpose(x)), y))"),
        Rule("product_of_nothing", p.MatMul(hole("a", where=has_no_columns), hole("b")), zero_product, True,
             "MatMul(x[n, 0], y[0, k]) -> 0", sample=_no_columns),
        Rule("product_with_a_vector", p.MatMul(hole("a"), hole("b")).provided(has_a_vector),
             lambda m: with_vector(m, ranges), True, "MatMul(x, v) -> Squeeze(MatMul(x, Unsqueeze(v)))"),
        Rule("products_of_no_matrices", p.MatMul(hole("a"), hole("b", where=is_a_stack)),
             lambda m: products(m, ranges), True, "MatMul(x, y) -> MatMul(x[:b], y), one matrix for all b"),
        Rule("integer_product_of_nothing", hole("made", ops=("MatMulInteger", "QLinearMatMul")),
             lambda m: integers(m, ranges), True, "MatMulInteger(x, y) -> If(k > 0, MatMulInteger(x, y), 0)",
             sample=_integers_of_nothing),
        Rule("attention_of_nothing", hole("made", ops=("Attention",), where=sees_nothing), attended, True,
             "Attention(q, k, v) -> 0, where there are no keys", sample=_no_keys),
        Rule("cross_entropy_of_nothing", hole("loss", ops=("SoftmaxCrossEntropyLoss",)), lambda m: entropy(m, ranges),
             False, "SoftmaxCrossEntropyLoss(x, y) -> NegativeLogLikelihoodLoss(LogSoftmax(x), y)"),
        Rule("einsum_of_nothing", hole("einsum", ops=("Einsum",)), lambda m: einsum(m, ranges), True,
             "Einsum -> If(n > 0, Einsum, 0)"),
        Rule("mean_of_no_places", hole("pool", ops=("GlobalAveragePool",), where=has_no_places), mean_of_places, True,
             "GlobalAveragePool(x[b, c, 0, w]) -> NaN", sample=_no_places),
        Rule("mean_of_nothing", hole("pool", ops=("ReduceMean",), where=is_mean_of_nothing), mean_of_places, True,
             "ReduceMean(x[b, 0], [1]) -> NaN", sample=_nothing),
        Rule("norm_of_nothing", hole("norm", ops=("LayerNormalization",)), lambda m: normalized(m, ranges), True,
             "LayerNormalization -> If(n > 0, LayerNormalization, x)"),
    )  # fmt: skip


def has_no_columns(value: Value) -> bool:
    """True where what is multiplied and added is known to be nothing."""
    return bool(value.rank) and type(value.shape[-1]) is int and value.shape[-1] == 0


def has_no_elements(value: Value) -> bool:
    """True for a tensor whose sizes are known, and one of them 0."""
    return 0 in value.shape and all(type(d) is int for d in value.shape)


def no_elements(m: Match) -> Made:
    """The constant of that shape"""
    if not has_no_elements(m.root):
        return decline("the sum has elements, or unknown sizes")
    return const(np.zeros(m.root.shape, m.root.dtype.numpy))


def has_a_vector(product: Value) -> bool:
    """True for a product with an operand of rank 1."""
    return 1 in [v.rank for v in product.inputs if v is not None]


def is_a_stack(value: Value) -> bool:
    """True for matrices of which there may be more, or fewer, than one."""
    return bool([d for d in value.shape[:-2] if type(d) is not int or d != 1])


def is_positive(size: Dim, ranges: Ranges) -> bool:
    """True for a size that is certainly not 0."""
    return dims.bounds(size, ranges).lo > 0


# ---------------------------------------------------------------------------------------------- scans


def scanned_first(m: Match, ranges: Ranges) -> Made:
    """The Scan between Transposes: those that ONNX Runtime makes inside of it crash where nothing is to be moved"""
    value = m.root
    operands, captures = operand_groups(value)
    count = len(operands) - value.attribute("num_scan_inputs")
    sequences, results = operands[count:], types_of(value.type)
    rows = [t for t in results[count:] if isinstance(t, Tensor)]
    starts = scan_axes(value, "scan_input_axes", [len(v.shape) for v in sequences])
    ends = scan_axes(value, "scan_output_axes", [len(t.shape) for t in rows])
    moved = [v.shape for v, axis in zip((*sequences, *rows), (*starts, *ends), strict=True) if axis]
    if all(is_positive(d, ranges) for shape in moved for d in shape):
        return decline("nothing is moved, or there is something to move")
    turned = [to_front(v, axis) for v, axis in zip(sequences, starts, strict=True)]
    left = {k: a for k, a in value.attributes if k not in ("scan_input_axes", "scan_output_axes")}
    parts = as_tuple(call("Scan", [*operands[:count], *turned, *captures], {**left, "body": value.bodies[0]}))
    made = (*parts[:count], *(from_front(v, axis) for v, axis in zip(parts[count:], ends, strict=True)))
    return made if isinstance(value.type, Tuple) else made[0]


def to_front(x: Value, axis: int) -> Value:
    """x with one axis as its first"""
    return op.Transpose(x, perm=(axis, *(i for i in range(x.rank) if i != axis))) if axis else x


def from_front(x: Value, axis: int) -> Value:
    """x with its first axis as that number"""
    return op.Transpose(x, perm=(*range(1, axis + 1), 0, *range(axis + 1, x.rank))) if axis else x


def scanned(m: Match, ranges: Ranges) -> Made:
    """The Scan where there is something to scan; else the states as they began, and no rows"""
    value = m.root
    operands, captures = operand_groups(value)
    taken = value.attribute("num_scan_inputs")
    states, sequences = operands[: len(operands) - taken], operands[len(operands) - taken :]
    axes = scan_axes(value, "scan_input_axes", [len(v.shape) for v in sequences])
    size = sequences[0].shape[axes[0]]
    if is_positive(size, ranges):
        return decline("there is something to scan")
    types = [t for t in types_of(value.type) if isinstance(t, Tensor)]
    sources = bound_by(*sequences, *states)
    if not is_bound(m, (size,), sources):
        return decline("nothing tells the size")

    def begin() -> tuple[Value, ...]:
        """Rows of a size that nothing tells are none either"""
        shapes = ([d if is_bound(m, (d,), sources) else 0 for d in t.shape] for t in types[len(states) :])
        rows = zip(types[len(states) :], shapes, strict=True)
        return (
            *map(op.Identity, states),
            *(op.Expand(const(0, t.dtype), sizes_value(m, s, 1, sources)) for t, s in rows),
        )

    def steps() -> tuple[Value, ...]:
        some = [filled(m, v, axis) for v, axis in zip(sequences, axes, strict=True)]
        parts = as_tuple(call("Scan", [*states, *some, *captures], {**dict(value.attributes), "body": value.bodies[0]}))
        rows = parts[len(states) :]
        ends = scan_axes(value, "scan_output_axes", [v.rank for v in rows])
        made = (sized(m, v, size, axis, sources) for v, axis in zip(rows, ends, strict=True))
        return (*parts[: len(states)], *made)

    if type(size) is int:
        made = begin()
        return made if isinstance(value.type, Tuple) else made[0]
    return op.If(op.Greater(sizes_value(m, (size,), 0, sources), const(0)), then_branch=steps, else_branch=begin)


def looped(m: Match, ranges: Ranges) -> Made:
    """The Loop where there is a round; else the states as they began, and no rows: ONNX Runtime, which has seen no row
    then, takes each of their sizes that varies for 0"""
    value = m.root
    most, flag, *rest = value.inputs
    count = len(rest) - value.attribute("captures", 0)
    states, types = rest[:count], value.type.items if isinstance(value.type, Tuple) else (value.type,)
    rows = [t for t in types[count:] if isinstance(t, Tensor)]
    if all(type(d) is int for t in rows for d in t.shape[1:]):
        return decline("no row has a size that varies")
    asked = [] if most is None or is_some(most, ranges) else [op.Greater(most, const(0))]
    asked += [] if flag is None or (flag.blob is not None and bool(flag.blob.array.all())) else [flag]
    if not asked:
        return decline("there is a round")
    sources = bound_by(*(v for v in value.inputs if v is not None))

    def begin() -> tuple[Value, ...]:
        shapes = [[d if is_bound(m, (d,), sources) else 0 for d in t.shape[1:]] for t in rows]
        none = (
            op.Expand(const(0, t.dtype), sizes_value(m, (0, *s), 1, sources)) for t, s in zip(rows, shapes, strict=True)
        )
        return (*(op.Identity(v) for v in states if v is not None), *none)

    def steps() -> tuple[Value, ...]:
        some = None if most is None else op.Where(op.Greater(most, const(0)), most, const(1))
        return as_tuple(call("Loop", [some, const(True), *rest], {**dict(value.attributes), "body": value.bodies[0]}))

    if most is not None and contents(most) == (0,):
        made = begin()
        return made if isinstance(value.type, Tuple) else made[0]
    whole = [op.Reshape(each, []) for each in asked]
    return op.If(whole[0] if len(whole) == 1 else op.And(*whole), then_branch=steps, else_branch=begin)


def is_some(most: Value, ranges: Ranges) -> bool:
    """True for a number of rounds that is certainly above 0."""
    known = contents(most)
    if known is not None:
        return is_positive(known[0], ranges)
    other = most.inputs[2] if most.op == "Where" else None
    return other is not None and contents(other) == (1,)


def operand_groups(value: Value) -> tuple[list[Value], list[Value]]:
    """(operands, captures) of a value with bodies"""
    inputs = [v for v in value.inputs if v is not None]
    count = len(inputs) - value.attribute("captures", 0)
    return inputs[:count], inputs[count:]


def filled(m: Match, x: Value, axis: int) -> Value:
    """x, whose axis is known not to be empty where this is computed, with a type that says so"""
    return sized(m, x, dims.maximum(x.shape[axis], 1), axis, bound_by(x))


def sized(m: Match, x: Value, size: Dim, axis: int, sources: Sizes) -> Value:
    """x with another expression for the size of one axis, which is not 0 (a 0 keeps the size of an axis)"""
    return op.Reshape(x, sizes_value(m, [size if i == axis else 0 for i in range(x.rank)], 1, sources))


# ---------------------------------------------------------------------------------------------- attention, losses


def sees_nothing(value: Value) -> bool:
    """True where a size of the queries, keys or values is known to be 0."""
    return any(type(d) is int and d == 0 for v in value.inputs[:3] if v is not None for d in v.shape)


def _no_keys(rng: np.random.Generator) -> Value:
    q, k = (param(Tensor(DType.FLOAT, (dims.symbol("n"), 2, size, 4))) for size in (int(rng.integers(1, 4)), 0))
    return op.Attention(q, k, k)


def attended(m: Match) -> Made:
    """Zeros where queries or keys are known to be none, which ONNX Runtime refuses; where a size may be 0 or not, that
    is a condition (`passes.legal.runtime.limits`)"""
    value = m.root
    if isinstance(value.type, Tuple):
        return decline("other results are asked for")
    sources = bound_by(*(v for v in value.inputs[:3] if v is not None))
    if not is_bound(m, value.shape, sources):
        return decline("nothing tells the sizes")
    return op.Expand(const(0, value.dtype), sizes_value(m, value.shape, 1, sources))


def entropy(m: Match, ranges: Ranges) -> Made:
    """The loss in two operators: ONNX Runtime's own words for it hold a Reshape that nothing fits into"""
    value = m.root
    x = value.inputs[0]
    if x is None or all(is_positive(d, ranges) for d in x.shape):
        return decline("there are elements")
    found = softmax_cross_entropy(m, value)
    return decline("there are no scores") if found is None else found


# ---------------------------------------------------------------------------------------------- products


def product(m: Match, ranges: Ranges) -> Made:
    """One matrix of all rows times y: ONNX Runtime fuses the Transpose otherwise, and fails on batches of size 0"""
    a, b = m.a, m.b
    if b.rank != 2 or a.rank < 3 or all(is_positive(d, ranges) for d in a.shape[:-2]):
        return decline("there is a batch")
    flat, whole = (dims.product(a.shape[:-1]), a.shape[-1]), (*a.shape[:-1], b.shape[-1])
    if not is_bound(m, (*flat, *whole), bound_by(a, b)):
        return decline("nothing tells the sizes")
    rows = op.Reshape(a, sizes_value(m, flat, 1, bound_by(a)), allowzero=1)
    return op.Reshape(op.MatMul(rows, b), sizes_value(m, whole, 1, bound_by(a, b)), allowzero=1)


def _no_columns(rng: np.random.Generator) -> Value:
    rows = ("n", 2, 0) if rng.random() < 0.5 else (int(rng.integers(1, 4)), 0)
    return op.MatMul(param(tensor("f32", *rows)), param(tensor("f32", 0, int(rng.integers(1, 4)))))


def zero_product(m: Match) -> Made:
    """Zeros: with an Add after it ONNX Runtime makes a Gemm, and a Reshape to (-1, 0) before it, which fails"""
    shape, sources = m.root.shape, bound_by(m.a, m.b)
    if not is_bound(m, shape, sources):
        return decline("nothing tells the sizes")
    return op.Expand(const(0, m.root.dtype), sizes_value(m, shape, 1, sources))


def with_vector(m: Match, ranges: Ranges) -> Made:
    """The vector as a matrix of one column, or one row: of nothing with a vector of nothing ONNX Runtime leaves what
    memory held."""
    a, b = m.a, m.b
    if a.rank == 1 and b.rank > 2 and not all(is_positive(d, ranges) for d in b.shape[:-2]):
        return op.Squeeze(op.MatMul(op.Unsqueeze(a, [0]), b), [b.rank - 2])
    if b.rank != 1 or a.rank < 2 or all(is_positive(d, ranges) for d in a.shape):
        return decline("there are elements, or there is no vector")
    return op.Squeeze(op.MatMul(a, op.Unsqueeze(b, [1])), [a.rank - 1])


def products(m: Match, ranges: Ranges) -> Made:
    """No matrix for no matrices: ONNX Runtime does not broadcast a batch of 1 to one of 0.

    Slices take the one matrix where there are others to be multiplied with, and none where there are none. Where the
    inner size may be 0, ONNX Runtime does not broadcast the batch on the left at all, and it is repeated.
    """
    a, b = m.a, m.b
    if min(a.rank, b.rank) < 2:
        return decline("there is a vector")
    rank, inner = max(a.rank, b.rank), a.shape[-1]
    wide = [(1,) * (rank - v.rank) + v.shape[:-2] for v in (a, b)]
    pairs = list(zip(*wide, strict=True))
    spread = not is_positive(inner, ranges) and any(x == 1 != y for x, y in pairs)
    ends = [
        {i: two[1 - side] for i, two in enumerate(pairs) if two[side] == 1 and not is_positive(two[1 - side], ranges)}
        for side in range(2)
    ]
    if not any(ends) and not spread:
        return decline("there is a batch")
    batch = [ends[0].get(i, ends[1].get(i, d)) for i, d in enumerate(m.root.shape[: rank - 2])]
    whole, sources = (*batch, a.shape[-2], b.shape[-1]), bound_by(a, b)
    if not is_bound(m, (*whole, inner), sources):
        return decline("nothing tells the sizes")
    parts = [op.Unsqueeze(v, list(range(rank - v.rank))) if v.rank < rank else v for v in (a, b)]
    if spread:
        ends[0], parts[0] = {}, op.Expand(parts[0], sizes_value(m, (*batch, a.shape[-2], inner), 1, sources))
    taken = [
        op.Slice(v, [0] * len(e), sizes_value(m, e.values(), 1, sources), list(e)) if e else v
        for v, e in zip(parts, ends, strict=True)
    ]
    return op.Reshape(op.MatMul(*taken), sizes_value(m, whole, 1, sources), allowzero=1)


def _integers_of_nothing(rng: np.random.Generator) -> Value:
    inner = ("k", 0)[int(rng.integers(2))]
    a = param(tensor(("u8", "i8")[int(rng.integers(2))], int(rng.integers(1, 4)), inner))
    b = param(tensor(("u8", "i8")[int(rng.integers(2))], inner, int(rng.integers(1, 4))))
    if a.dtype is DType.INT8 or b.dtype is DType.INT8 or rng.random() < 0.5:
        return op.MatMulInteger(a, b)
    scales = [np.float32(each) for each in (0.5, 0.25, 0.125)]
    points = [np.uint8(each) for each in rng.integers(0, 9, 3)]
    return op.QLinearMatMul(a, scales[0], points[0], b, scales[1], points[1], scales[2], points[2])


def integers(m: Match, ranges: Ranges) -> Made:
    """The product where there is something to add; else 0, or the zero point that stands for it: ONNX Runtime's kernels
    for integers leave what memory held."""
    value = m.root
    a, b = value.inputs[0], value.inputs[1 if value.op == "MatMulInteger" else 3]
    if a is None or b is None or is_positive(a.shape[-1], ranges):
        return decline("there is something to add")
    size, shape, sources = a.shape[-1], value.shape, bound_by(a, b)
    if not is_bound(m, (size, *shape), sources):
        return decline("nothing tells the sizes")
    point = value.inputs[7] if value.op == "QLinearMatMul" else None
    nothing = const(0, value.dtype) if point is None else point
    if nothing.rank:
        return decline("each row has a zero point of its own")
    if type(size) is int:
        return op.Expand(nothing, sizes_value(m, shape, 1, sources))

    def product() -> Value:
        inner = {a: a.rank - 1, b: max(b.rank - 2, 0)}
        full = {v: sized(m, v, dims.maximum(size, 1), axis, sources) for v, axis in inner.items()}
        made = call(value.op, [full.get(v, v) if v is not None else None for v in value.inputs], dict(value.attributes))
        return op.Reshape(made, sizes_value(m, shape, 1, sources), allowzero=1)

    def zeros() -> Value:
        return op.Expand(nothing, sizes_value(m, shape, 1, sources))

    there = op.Greater(sizes_value(m, (size,), 0, sources), const(0))
    return op.If(there, then_branch=lambda: (product(),), else_branch=lambda: (zeros(),))[0]


def einsum(m: Match, ranges: Ranges) -> Made:
    """Sums of products where every operand has elements; else zeros: ONNX Runtime divides by a size there, which ends
    the process"""
    value = m.root
    operands = [v for v in value.inputs if v is not None]
    shape = value.shape
    doubtful = list(dict.fromkeys(d for v in operands for d in v.shape if not is_positive(d, ranges)))
    if not doubtful:
        return decline("there are elements")
    sources = bound_by(*operands)
    if not is_bound(m, (*doubtful, *shape), sources):
        return decline("nothing tells the sizes")

    def zeros() -> Value:
        return op.Expand(const(0, value.dtype), sizes_value(m, shape, 1, sources))

    def sums() -> Value:
        some = [op.Reshape(v, sizes_value(m, [dims.maximum(d, 1) if d in doubtful else d for d in v.shape], 1, sources))
                for v in operands]  # fmt: skip
        found = op.Einsum(*some, equation=value.attribute("equation"))
        return op.Reshape(found, sizes_value(m, shape, 1, sources), allowzero=1)

    if any(type(d) is int for d in doubtful):
        return zeros()
    there = op.Greater(sizes_value(m, (dims.product(doubtful),), 0, sources), const(0))
    return op.If(there, then_branch=lambda: (sums(),), else_branch=lambda: (zeros(),))[0]


def normalized(m: Match, ranges: Ranges) -> Made:
    """What there is, normalized, where rows have elements; else the rows as they are: ONNX Runtime refuses them"""
    value = m.root
    x = value.inputs[0]
    if x is None or isinstance(value.type, Tuple):
        return decline("the mean and deviation are asked for")
    if not x.rank:
        return decline("a number is normalized, which is there")
    axis = value.attribute("axis", -1) % x.rank
    doubtful = [d for d in x.shape[axis:] if not is_positive(d, ranges)]
    if not doubtful:
        return decline("there are elements")
    sources = bound_by(x)
    if not is_bound(m, (*doubtful, *x.shape), sources):
        return decline("nothing tells the sizes")
    if any(type(d) is int for d in doubtful):
        return x

    def some() -> Value:
        shapes = {
            v: [dims.maximum(d, 1) if d in doubtful else d for d in v.shape] for v in value.inputs if v is not None
        }
        full = [None if v is None else op.Reshape(v, sizes_value(m, shapes[v], 1, sources)) for v in value.inputs]
        made = call(value.op, full, dict(value.attributes))
        return op.Reshape(made, sizes_value(m, x.shape, 1, sources), allowzero=1)

    there = op.Greater(sizes_value(m, (dims.product(doubtful),), 0, sources), const(0))
    return op.If(there, then_branch=lambda: (some(),), else_branch=lambda: (op.Identity(x),))[0]


def expanded_to_nothing(m: Match) -> Made:
    """A part without elements: ONNX Runtime takes the Expand for none where every size of x is 1 or stays as it is"""
    x, shape = m.x, m.root.shape
    gap = len(shape) - x.rank
    axes = [a for a, d in enumerate(x.shape) if type(d) is int and d == 1 and shape[gap + a] == 0]
    if not axes:
        return decline("no size of 1 becomes 0")
    count = len(axes)
    return op.Expand(op.Slice(x, [0] * count, [0] * count, axes), m.shape)


WITHOUT_ELEMENTS: Rules = (
    Rule("linear_of_nothing", p.Add(hole("product", ops=("MatMul",), where=has_no_elements), hole("bias")), no_elements,
         True, "Add(MatMul(x[0, n], y), b) -> a constant of no elements"),
    Rule("expansion_to_nothing", p.Expand(hole("x"), hole("shape")), expanded_to_nothing, True,
         "Expand(x[1, n], [0, n]) -> Slice(x, 0, 0)"),
)  # fmt: skip
"""Rules that no instance can show to be wrong: both sides are empty."""
