"""Rules that keep NaN where numbers are compared. They belong to no level: they are applied where they are asked for by
name.

In the IR, as in torch and numpy, NaN is greater than every number: the maximum of several is NaN where one of them is
NaN, and a sort puts NaN last. ONNX does not say so. ONNX Runtime's kernels of the operators in `ORDERED` drop NaN, keep
it or misplace it, depending on the shapes, and its max pooling turns a window of -inf alone into the least finite
number. These rules write such an operator in others that keep NaN, which takes longer: `optimize(graph,
rules="default+nan")`.

They are applied without being asked for where the model itself writes NaN or an infinity into what is compared
(`passes.legalize`), and inside bodies. Elsewhere the model is assumed to compare no NaN: see `nan_assumptions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from irkit.build import call, const, op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, Tuple, tensor
from irkit.core.vocabulary import ITEM
from irkit.errors import RewriteError
from irkit.ops.schemas import BODIES
from irkit.ops.types.context import contents
from irkit.pattern import attribute_of, hole
from irkit.rewriting.face import Made, Match, Rule, decline, rewrite
from irkit.rewriting.rules import Sample
from irkit.support.results import as_tuple
from passes.analysis.questions import number

EXTREMES = ("ReduceMax", "ReduceMin")
PLACES = ("ArgMax", "ArgMin")
ORDERED = (*EXTREMES, *PLACES, "TopK", "MaxPool", "GlobalMaxPool", "ScatterElements")
"""The operators of which ONNX Runtime's kernels treat NaN as it happens."""

RECURRENT = ("GRU", "LSTM", "RNN")
"""Operators whose kernels of ONNX Runtime make a number of NaN, by their sigmoids, tanhs and Relus; an RNN of tanhs
keeps it. No rule writes them otherwise."""

POOLS = ("MaxPool", "GlobalMaxPool")
"""Those that make the least finite number of -inf alone."""

KEPT = frozenset((
    "Cast", "Identity", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Expand", "Slice", "Gather", "GatherElements",
    "Abs", "Neg", "Relu", "Sign", "Flatten", "Floor", "Ceil", "Round", "Tile", *EXTREMES, "TopK", "MaxPool", "Split",
    "GlobalMaxPool",
))  # fmt: skip
"""Operators whose results hold NaN only where their first operand does."""

NEVER = frozenset((
    "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Range", "OneHot", "IsNaN", "IsInf",
))  # fmt: skip
"""Operators whose results are numbers."""

SELECTS = frozenset(("Concat", "Max", "Min"))
"""Operators whose results hold NaN only where one of their operands does."""

SPREADS = frozenset(("Pad", "Clip", "Where", "Add", "Sub", "Mul", *SELECTS, *KEPT))
"""Operators that NaN and infinities come through which the model itself writes."""

AT_LEAST_0 = frozenset(("Relu", "Abs", "Sigmoid", "Softmax", "Exp", "HardSigmoid", "Softplus", "Sqrt"))
"""Operators whose results are not negative, or NaN."""

SEEN = 1 << 12
"""Constants of more elements are not looked into, nor are weights, which may be changed later."""

LONG = 512
"""From so many elements on, a sort by numbers with NaN above all takes about as long as one without: see
benchmarks/truth_costs.py."""

LOOKS = 32
"""How many values are looked at before a tensor counts as one of any numbers."""


# ---------------------------------------------------------------------------------------------- where NaN can be


def may_be_nan(x: Value) -> bool:
    """Whether some element may be NaN, judged by the operators that compute x."""
    pending = [x]
    for _ in range(LOOKS):
        if not pending:
            return False
        v = pending.pop()
        v = v.inputs[0] if v.op == ITEM and v.inputs[0] is not None else v
        if isinstance(v.type, Tensor) and not v.dtype.is_float:
            continue
        if v.blob is not None:
            if v.blob.is_weight or v.blob.size > SEEN or bool(np.isnan(v.blob.array.astype(np.float64)).any()):
                return True
        elif v.op in NEVER:
            continue
        elif v.op in KEPT:
            pending += [o for o in v.inputs[:1] if o is not None]
        elif v.op in SELECTS or v.op == "Where":
            operands = v.inputs[1:2] if is_blanked(v) else v.inputs[1:] if v.op == "Where" else v.inputs
            pending += [o for o in operands if o is not None]
        else:
            return True
    return True


def is_blanked(x: Value) -> bool:
    """True for Where(IsNaN(y), a, f(y)) with an f that makes no NaN."""
    condition, _, kept = x.inputs if x.op == "Where" else (None, None, None)
    if condition is None or condition.op != "IsNaN" or kept is None:
        return False
    for _ in range(LOOKS):
        if kept is condition.inputs[0]:
            return True
        plain = [v for v in kept.inputs if v is not None and not (v.blob is not None and not may_be_nan(v))]
        if kept.op not in KEPT | SELECTS or len(plain) != 1:
            return False
        kept = plain[0]
    return False


def is_normalized(x: Value, axis: int) -> bool:
    """Whether x is a softmax along that axis: then each row is NaN throughout or has no NaN."""
    while x.op == "Cast" and x.inputs[0] is not None:
        x = x.inputs[0]
    return x.op in ("Softmax", "LogSoftmax") and (x.attribute("axis", -1) - axis) % x.rank == 0


def is_not_negative(x: Value) -> bool:
    """Whether every element of x is at least 0 or NaN, judged by the operator that computes x."""
    return x.op in AT_LEAST_0


def writes_odd(x: Value, infinity: bool) -> bool:
    """Whether the model itself writes NaN into x, or -inf where that matters too: by a constant or a mask."""
    pending, seen = [x], 0
    while pending and seen < LOOKS:
        v, seen = pending.pop(), seen + 1
        v = v.inputs[0] if v.op == ITEM and v.inputs[0] is not None else v
        if v.blob is not None:
            if v.blob.is_weight or v.blob.size > SEEN or not v.dtype.is_float:
                continue
            numbers = v.blob.array.astype(np.float64)
            if bool(np.isnan(numbers).any()) or (infinity and bool((numbers == -np.inf).any())):
                return True
        elif v.op in SPREADS and not is_blanked(v):
            pending += [o for o in (v.inputs[:1] if v.op in KEPT else v.inputs) if o is not None]
    return False


def compared_operands(value: Value) -> tuple[Value, ...]:
    """The operands whose elements an operator compares; () for an operator that compares none."""
    if value.op in RECURRENT:
        return recurrent_operands(value)
    if value.op not in ORDERED or (value.op == "MaxPool" and not isinstance(value.type, Tensor)):
        return ()  # where a largest element stands is lowered with its NaN
    if value.op == "ScatterElements" and attribute_of(value, "reduction") not in ("max", "min"):
        return ()
    if value.op == "GlobalMaxPool" and value.rank < 3:
        return ()  # each element is an image of its own
    places = (0, 2) if value.op == "ScatterElements" else (0,)
    return tuple(v for v in (value.inputs[i] for i in places) if v is not None)


def recurrent_operands(value: Value) -> tuple[Value, ...]:
    """The steps and the first states of a recurrent operator that makes numbers of NaN; () for one that keeps it."""
    first = value.inputs[0]
    activations = attribute_of(value, "activations") or ()
    keeps = value.op == "RNN" and all(str(name).lower().startswith("tanh") for name in activations)
    if first is None or first.dtype is not DType.FLOAT or keeps:
        return ()
    return tuple(v for place, v in enumerate(value.inputs) if v is not None and place in (0, 5, 6))


def misplaced(value: Value) -> bool:
    """True for an operator for which ONNX Runtime may drop or misplace NaN."""
    operands = compared_operands(value)
    if not any(v.dtype.is_float and v.rank and may_be_nan(v) for v in operands):
        return False
    if value.op != "TopK" or not is_normalized(operands[0], attribute_of(value, "axis")):
        return True
    first = value.type.items[0] if isinstance(value.type, Tuple) else value.type
    # Of a row of NaN alone, a part is as good as another.
    return not isinstance(first, Tensor) or first.shape == operands[0].shape


def nan_assumptions(graph: Graph) -> Iterator[Value]:
    """The values of a graph, bodies left out, that are right only if no NaN is compared, or, for max pooling, if no
    window holds -inf alone."""
    return (value for value in graph.order if value.op in (*ORDERED, *RECURRENT) and misplaced(value))


# ---------------------------------------------------------------------------------------------- how it is kept


def blanked(x: Value, fill: float) -> Value:
    """x with each NaN replaced by a number."""
    return op.Where(op.IsNaN(x), number(x, fill), x)


def flags(x: Value) -> Value:
    """1 where x is NaN, else 0, as i32."""
    return op.Cast(op.IsNaN(x), to=int(DType.INT32))


def above_0(found: Value) -> Value:
    """True where a flag is set. The maximum over no flags at all counts as not set."""
    return op.Greater(found, const(np.int32(0)))


def least(value: Value) -> float:
    """The number that no element can beat: the least one for ReduceMax and ArgMax, the greatest for ReduceMin and
    ArgMin."""
    return -np.inf if value.op.endswith("Max") else np.inf


def extreme(value: Value, x: Value) -> Value:
    """The maximum or minimum of the numbers, or NaN where one element is NaN."""
    rest = list(value.inputs[1:])
    some = call("ReduceMax", [flags(x), *rest], dict(value.attributes))
    found = call(value.op, [blanked(x, least(value)), *rest], dict(value.attributes))
    return op.Where(above_0(some), number(x, np.nan), found)


def place(value: Value, x: Value) -> Value:
    """The place of the first NaN where there is one, else that of the maximum or minimum."""
    axis, keep = attribute_of(value, "axis"), attribute_of(value, "keepdims")
    given, odd = dict(value.attributes), flags(x)
    some = above_0(op.ReduceMax(odd, np.array([axis]), keepdims=keep))
    return op.Where(some, call("ArgMax", [odd], given), call(value.op, [blanked(x, least(value))], given))


def order(value: Value, x: Value) -> tuple[Value, Value]:
    """TopK that takes NaN for greater than every number."""
    axis, k = attribute_of(value, "axis") % x.rank, value.inputs[1]
    given = dict(value.attributes)

    def placed(keys: Value, count: Value | None) -> Value:
        return call("TopK", [keys, count], given)[1]

    if x.dtype is not DType.DOUBLE:
        places = placed(above_all(x), k)
    else:
        size, odd = op.Shape(x, start=axis, end=axis + 1), op.IsNaN(x)
        places = placed(op.Where(odd, number(x, np.inf), x), size)
        apart = placed(op.GatherElements(op.Cast(odd, to=int(DType.INT32)), places, axis=axis), k)
        places = op.GatherElements(places, apart, axis=axis)
    return op.GatherElements(x, places, axis=axis), places


def above_all(x: Value) -> Value:
    """Numbers without NaN that are in the same order as x with NaN on top: inf stands for NaN, and a number between the
    largest finite one and inf stands for inf.

    x: f32, f16 or bf16; the result has the next wider type, which has such a number.
    """
    wide = op.Cast(x, to=int(DType.DOUBLE if x.dtype is DType.FLOAT else DType.FLOAT))
    below = op.Min(wide, number(wide, np.finfo(wide.dtype.numpy).max))
    return op.Where(op.IsNaN(x), number(wide, np.inf), below)


MEANS = frozenset(("kernel_shape", "strides", "pads", "dilations", "ceil_mode", "storage_order"))
"""The attributes of a MaxPool of which an AveragePool knows the like."""


def pooled(value: Value, x: Value) -> Value:
    """The maximum of each window: NaN where the window holds NaN, -inf where it holds -inf alone."""
    given = dict(value.attributes)
    plain = not attribute_of(value, "ceil_mode") and set(given) <= MEANS
    if is_not_negative(x) and plain:
        # No infinities of both signs meet, so that a mean is NaN where an element is: the cheapest way to find one.
        means = {k: v for k, v in given.items() if k not in ("ceil_mode", "storage_order")}
        missing = op.IsNaN(call("AveragePool", [x], {**means, "count_include_pad": 1}))
        return op.Where(missing, number(x, np.nan), call("MaxPool", [blanked(x, 0)], given))
    # In the order of what outdoes what: 0 for -inf, 1 for numbers, 2 for NaN; and what makes it of what pooling found.
    numbers = op.Cast(op.Greater(x, number(x, -np.inf)), to=int(DType.FLOAT))
    kinds = call("MaxPool", [op.Where(op.IsNaN(x), const(np.float32(2)), numbers)], given)
    table = const(np.array([-np.inf, -0.0, np.nan]).astype(x.dtype.numpy))
    values = call("MaxPool", [blanked(x, -np.inf)], given)
    kinds = op.Max(kinds, const(np.float32(0)))  # a window wholly in padding is of nothing
    return op.Add(values, op.Gather(table, op.Cast(kinds, to=int(DType.INT32))))


def pooled_whole(value: Value, x: Value) -> Value:
    """The maximum of a whole image: NaN where it holds NaN, -inf where it holds -inf alone."""
    axes = np.arange(2, x.rank)
    some = op.ReduceMax(flags(x), axes)
    return op.Where(above_0(some), number(x, np.nan), op.ReduceMax(blanked(x, -np.inf), axes))


def scattered(value: Value, x: Value) -> Value:
    """The maximum or minimum at each place, NaN where one of the numbers is NaN."""
    where, part = value.inputs[1:]
    given, fill = dict(value.attributes), -np.inf if attribute_of(value, "reduction") == "max" else np.inf
    some = call("ScatterElements", [flags(x), where, flags(part)], {**given, "reduction": "max"})  # type: ignore[arg-type]
    found = call("ScatterElements", [blanked(x, fill), where, blanked(part, fill)], given)  # type: ignore[arg-type]
    return op.Where(above_0(some), number(x, np.nan), found)


# ---------------------------------------------------------------------------------------------- rules

Keeps = Callable[[Value, Value], Made]


def keeping(name: str, ops: tuple[str, ...], keep: Keeps, equation: str, sample: Sample) -> Rule:
    """The rule that writes these operators so that they keep NaN."""

    def function(m: Match) -> Made:
        if not misplaced(m.root):
            return decline("no NaN can be there, or it is kept already")
        return keep(m.root, compared_operands(m.root)[0])

    return Rule(name, hole("value", ops=ops), function, True, equation, sample=sample)


def _some(rng: np.random.Generator) -> Value:
    kind = ("f32", "f64", "f16")[int(rng.integers(3))]
    return param(tensor(kind, "batch", 4))


def _extreme(rng: np.random.Generator) -> Value:
    function = EXTREMES[int(rng.integers(2))]
    return call(function, [_some(rng), np.array([int(rng.integers(2))])], {"keepdims": int(rng.integers(2))})


def _place(rng: np.random.Generator) -> Value:
    given = {"axis": int(rng.integers(-2, 2)), "keepdims": int(rng.integers(2))}
    x = param(tensor("f32", int(rng.integers(1, 5)), 4))
    return call(PLACES[int(rng.integers(2))], [x], {**given, "select_last_index": int(rng.integers(2))})


def _order(rng: np.random.Generator) -> Value:
    given = {"axis": 1, "largest": int(rng.integers(2))}
    return call("TopK", [_some(rng), np.array([int(rng.integers(1, 5))])], given)[int(rng.integers(2))].inputs[0]


def _pooled(rng: np.random.Generator) -> Value:
    x = param(tensor("f32", "batch", 2, 6, 6))
    x = op.Relu(x) if rng.random() < 0.4 else x
    steps, pads = [int(rng.integers(1, 3))] * 2, [int(rng.integers(2))] * 4
    return op.MaxPool(x, kernel_shape=[3, 2], strides=steps, pads=pads)


def _pooled_whole(rng: np.random.Generator) -> Value:
    kind, sizes = ("f32", "f16")[int(rng.integers(2))], ("batch", 2, 3, 4, 2)[: int(rng.integers(3, 6))]
    return op.GlobalMaxPool(param(tensor(kind, *sizes)))


def _scattered(rng: np.random.Generator) -> Value:
    x, part = (param(tensor("f32", 4, 3)) for _ in range(2))
    where = const(rng.integers(0, 4, (4, 3)))
    return op.ScatterElements(x, where, part, axis=0, reduction=("max", "min")[int(rng.integers(2))])


def is_choice(value: Value) -> bool:
    """True for `where(x > 0, x, 0)` of what a convolution may have made NaN, which it makes 0 of: a Relu, which keeps
    NaN, would go into the convolution, and leave the image as it lies in memory."""
    if value.op != "ThresholdedRelu" or attribute_of(value, "alpha") != 0 or value.inputs[0] is None:
        return False
    return may_be_nan(value.inputs[0]) and follows_convolution(value.inputs[0])


def follows_convolution(x: Value) -> bool:
    """Whether x is what a convolution gives, or comes of one by what keeps images as convolutions lay them out."""
    pending, seen = [x], 0
    while pending and seen < LOOKS:
        v, seen = pending.pop(), seen + 1
        if v.op in CONVOLUTIONS:
            return True
        if v.op in BESIDE:
            pending += [o for o in v.inputs if o is not None]
    return False


CONVOLUTIONS = frozenset(("Conv", "FusedConv"))
BESIDE = frozenset((
    "Add", "Sum", "Mul", "BatchNormalization", "Concat", "MaxPool", "AveragePool", "GlobalAveragePool", "Clip", "Relu",
))  # fmt: skip
"""What ONNX Runtime computes of images in blocks of channels, or joins to a convolution."""


NAN: tuple[Rule, ...] = (
    keeping("extreme_with_nan", EXTREMES, extreme,
            "ReduceMax(x) -> Where(ReduceMax(IsNaN(x)), NaN, ReduceMax(Where(IsNaN(x), -inf, x)))", _extreme),
    keeping("place_with_nan", PLACES, place,
            "ArgMax(x) -> Where(ReduceMax(IsNaN(x)), ArgMax(IsNaN(x)), ArgMax(Where(IsNaN(x), -inf, x)))", _place),
    keeping("order_with_nan", ("TopK",), order, "TopK(x) -> GatherElements(x, places by numbers with NaN above all)",
            _order),
    keeping("pool_with_nan", ("MaxPool",), pooled,
            "MaxPool(x) -> Where(IsNaN(AveragePool(x)), NaN, MaxPool(Where(IsNaN(x), 0, x))), or the like", _pooled),
    keeping("global_pool_with_nan", ("GlobalMaxPool",), pooled_whole,
            "GlobalMaxPool(x) -> Where(ReduceMax(IsNaN(x)), NaN, ReduceMax(Where(IsNaN(x), -inf, x)))", _pooled_whole),
    keeping("scatter_with_nan", ("ScatterElements",), scattered,
            "ScatterElements(x, i, y) -> Where(ScatterElements(IsNaN(x), i, IsNaN(y)), NaN, ...), of max and min",
            _scattered),
)  # fmt: skip
"""Rules by which NaN is kept."""


def where_written(rule: Rule) -> Rule:
    """The same rule for operators into which the model itself writes NaN, or for max pooling -inf."""

    def function(m: Match) -> Made:
        if not any(writes_odd(v, m.root.op in POOLS) for v in compared_operands(m.root)):
            return decline("the model itself writes no NaN there")
        return rule.function(m)

    def sample(rng: np.random.Generator) -> Value:
        made = rule.sample(rng) if rule.sample is not None else None
        if not isinstance(made, Value) or made.inputs[0] is None:
            raise RewriteError(f"{rule.name} has no sample of one operator", hint="give it one: keeping(..., sample)")
        odd = _written(rng, made.inputs[0], made.op in POOLS)
        first = as_tuple(call(made.op, [odd, *made.inputs[1:]], dict(made.attributes)))[0]
        return first.inputs[0] if first.op == ITEM and first.inputs[0] is not None else first

    return Rule(f"written_{rule.name}", rule.pattern, function, rule.exact, rule.doc, sample=sample)


def _written(rng: np.random.Generator, x: Value, infinity: bool) -> Value:
    """x with NaN, or -inf where that matters too, put in the place of some elements."""
    odd = -np.inf if infinity and rng.random() < 0.5 else np.nan
    return op.Where(param(Tensor(DType.BOOL, x.shape)), x, number(x, odd))


def in_bodies(m: Match) -> Made:
    """Loop(f) -> Loop(f with NaN kept): nobody can check from outside what a body compares"""
    bodies = [rewrite(body, NAN) for body in m.root.bodies]
    if all(a is b for a, b in zip(bodies, m.root.bodies, strict=True)):
        return decline("nothing is put in order there")
    names = BODIES[m.root.op]
    return call(m.root.op, list(m.root.inputs), {**dict(m.root.attributes), **dict(zip(names, bodies, strict=True))})


def _branches(rng: np.random.Generator) -> Value:
    x, y = (param(tensor("f32", "batch", 4)) for _ in range(2))
    given = {"keepdims": int(rng.integers(2))}
    first, second = (lambda v=v: (call(EXTREMES[int(rng.integers(2))], [v, np.array([1])], given),) for v in (x, y))
    made = op.If(param(tensor("bool")), then_branch=first, else_branch=second)[0]
    return made.inputs[0] if made.op == ITEM and made.inputs[0] is not None else made


def _long_sort(rng: np.random.Generator) -> Value:
    x = param(tensor("f32", int(rng.integers(1, 3)), LONG))
    given = {"axis": int(rng.integers(-1, 1)) or 1, "largest": int(rng.integers(2))}
    made = call("TopK", [x, np.array([LONG])], given)[0]
    return made if made.inputs[0] is None else made.inputs[0]


def is_long_sort(value: Value) -> bool:
    """True for a sort of long rows, where keeping NaN costs next to nothing."""
    x, k = value.inputs[:2]
    if x is None or k is None or x.dtype is DType.DOUBLE or not x.rank:
        return False
    size = x.shape[attribute_of(value, "axis")]
    return type(size) is int and size >= LONG and contents(k) == (size,)


def sorted_with_nan(m: Match) -> Made:
    """TopK(x) -> GatherElements(x, places in the order with NaN on top), for TopK of all elements of long rows"""
    if not is_long_sort(m.root) or not misplaced(m.root):
        return decline("no sort of long rows, or no NaN can be there")
    return order(m.root, compared_operands(m.root)[0])


KEPT_BY_DEFAULT: tuple[Rule, ...] = (
    *map(where_written, NAN),
    Rule("sorted_with_nan", hole("value", ops=("TopK",)), sorted_with_nan, True, str(sorted_with_nan.__doc__),
         sample=_long_sort),
    Rule("nan_in_bodies", hole("value", ops=tuple(BODIES)), in_bodies, True,
         "Loop(f) -> Loop(f with NaN kept)", sample=_branches),
)  # fmt: skip
"""What is taken without being asked, for ONNX Runtime."""
