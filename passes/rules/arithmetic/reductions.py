"""Reductions of reductions, of expanded values, over axes of size 1; and sums that ONNX has an operator for."""

from __future__ import annotations

import math

import numpy as np

from irkit import dims
from irkit.build import call, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.pattern import attr, attribute_of, hole, one_of, p, uniform
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import axes_of, is_float, positive, vector

x, y = hole("x"), hole("y")

REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- keepdims

_reduced = one_of(*REDUCTIONS)(x, constant("axes"))


def _keepdims(m: Match, keep: int, reduction: Value) -> Made:
    axes, moved = axes_of(m.axes), axes_of(m.moved)
    if axes is None or moved is None or not axes or not m.x.rank or attribute_of(reduction, "keepdims") == keep:
        return decline("the axes are not known, or stay already")
    rank = m.x.rank
    if positive(axes, rank) != positive(moved, rank):
        return decline("other axes come and go")
    return call(reduction.op, [m.x, m.axes], {**dict(reduction.attributes), "keepdims": keep})


@rule(p.Squeeze(_reduced.named("reduction").once(), constant("moved")))
def squeeze_reduction(m: Match) -> Made:
    """Squeeze(ReduceX(x, axes), axes) -> ReduceX(x, axes, keepdims=0)"""
    return _keepdims(m, 0, m.reduction)


@rule(p.Unsqueeze(_reduced.named("reduction").once(), constant("moved")))
def unsqueeze_reduction(m: Match) -> Made:
    """Unsqueeze(ReduceX(x, axes, keepdims=0), axes) -> ReduceX(x, axes)"""
    return _keepdims(m, 1, m.reduction)


# ---------------------------------------------------------------------------------------------- of one another

_first = constant("first")


def _both_axes(m: Match) -> tuple[tuple[int, ...], int] | None:
    """(axes, keepdims) of the one reduction that does what two in a row do; None where there is none."""
    first, second = axes_of(m.first), axes_of(m.axes)
    if not first or not second or m.inner.rank == 0:
        return None
    kept, keep = attribute_of(m.inner, "keepdims"), attribute_of(m.root, "keepdims")
    if kept != keep:
        return None
    rank = m.x.rank
    inner = positive(first, rank)
    left = range(rank) if kept else [i for i in range(rank) if i not in inner]
    outer = [left[a] for a in positive(second, len(left))]
    return tuple(sorted({*inner, *outer})), keep


def _of_both(m: Match) -> Made:
    if m.inner.op != m.root.op:
        return decline("two different reductions")
    found = _both_axes(m)
    if found is None:
        return decline("the axes are not known, or one keeps them and the other does not")
    return call(m.root.op, [m.x, vector(found[0])], {"keepdims": found[1]})


@rule(
    one_of("ReduceMax", "ReduceMin")(
        one_of("ReduceMax", "ReduceMin")(x, _first).named("inner").once(), constant("axes")
    ),
    exact=False,  # ONNX Runtime drops NaN, and with it other numbers, by where it stands along the axes
)
def bound_of_bounds(m: Match) -> Made:
    """ReduceMax(ReduceMax(x, a), b) -> ReduceMax(x, a and b), and so for ReduceMin"""
    return _of_both(m)


_MERGED = ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMean")


@rule(one_of(*_MERGED)(one_of(*_MERGED)(x, _first).named("inner").once(), constant("axes")), exact=False)
def reduction_of_reduction(m: Match) -> Made:
    """ReduceSum(ReduceSum(x, a), b) -> ReduceSum(x, a and b), and so for means, products and norms"""
    if m.inner.op == m.root.op == "ReduceMean":
        axes = (_both_axes(m) or ((),))[0]
        if any(type(m.x.shape[a]) is not int or m.x.shape[a] == 0 for a in axes):
            return decline("a mean of nothing is not a mean of means")
    if m.root.op in ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMean") and not is_float(m.x):
        return decline("a norm or a mean of integers is rounded each time")
    return _of_both(m)


# ---------------------------------------------------------------------------------------------- of little


def _of_ones(m: Match) -> Made:
    axes = axes_of(m.axes)
    if not axes or not m.x.rank:
        return decline("all axes, or none")
    places = positive(axes, m.x.rank)
    if any(type(m.x.shape[a]) is not int or m.x.shape[a] != 1 for a in places):
        return decline("an axis is not of size 1")
    return m.x if attribute_of(m.root, "keepdims") else op.Squeeze(m.x, vector(places))


@rule(one_of("ReduceMax", "ReduceMin", "ReduceProd")(x, constant("axes")))
def reduce_ones(m: Match) -> Made:
    """ReduceMax(x) over axes of size 1 -> x, without them where they are not kept; so for ReduceMin, ReduceProd"""
    return _of_ones(m)


@rule(one_of("ReduceSum", "ReduceMean")(x, constant("axes")), exact=False)
def sum_of_ones(m: Match) -> Made:
    """ReduceSum(x) over axes of size 1 -> x, which keeps the sign of -0.0; so for ReduceMean"""
    return _of_ones(m)


def _expanded(rng: np.random.Generator) -> Value:
    batch = dims.symbol("batch")
    x = param(Tensor(DType.FLOAT, (batch, 1, 3)))
    name = ("ReduceMax", "ReduceMin", "ReduceMean")[int(rng.integers(3))]
    axes = ([1], [-2], [0, 1])[int(rng.integers(3))]
    wide = op.Expand(x, shape_vector((batch, 4, 3)))
    return call(name, [wide, vector(axes)], {"keepdims": int(rng.random() < 0.5)})


@rule(
    one_of("ReduceMax", "ReduceMin", "ReduceMean")(p.Expand(x, hole("shape")).named("wide"), constant("axes")),
    exact=False,
    sample=_expanded,
)
def reduce_expanded(m: Match) -> Made:
    """ReduceMax(Expand(x)) -> ReduceMax(x), where just the reduced axes were expanded; so for ReduceMin, ReduceMean"""
    axes = axes_of(m.axes)
    if not axes or m.x.rank != m.wide.rank or not is_float(m.x):
        return decline("all axes, or axes were added")
    places = positive(axes, m.x.rank)
    for i, (before, after) in enumerate(zip(m.x.shape, m.wide.shape, strict=True)):
        if dims.same(before, after) is not True and not (i in places and type(after) is int and after > 0):
            return decline("another axis was expanded, or perhaps to nothing")
    return call(m.root.op, [m.x, m.axes], dict(m.root.attributes))


# ---------------------------------------------------------------------------------------------- by name

_keep = attr("keepdims")
_axes = constant("axes")


def _named(m: Match, name: str) -> Made:
    if not is_float(m.x) or m.x.dtype is DType.BFLOAT16 or m.x.dtype is DType.FLOAT16:
        return decline("integers and short numbers overflow elsewhere")
    return call(name, [m.x, m.axes], {"keepdims": m.keepdims})


@rule(p.ReduceSum(p.Mul(x, x).once(), _axes, keepdims=_keep), exact=False)
def sum_of_squares(m: Match) -> Made:
    """ReduceSum(x * x) -> ReduceSumSquare(x)"""
    return _named(m, "ReduceSumSquare")


@rule(p.ReduceSum(p.Abs(x).once(), _axes, keepdims=_keep), exact=False)
def sum_of_sizes(m: Match) -> Made:
    """ReduceSum(Abs(x)) -> ReduceL1(x)"""
    return _named(m, "ReduceL1")


@rule(p.Sqrt(p.ReduceSumSquare(x, _axes, keepdims=_keep).once()), exact=False)
def root_of_squares(m: Match) -> Made:
    """Sqrt(ReduceSumSquare(x)) -> ReduceL2(x)"""
    return _named(m, "ReduceL2")


@rule(p.Log(p.ReduceSum(p.Exp(x).once(), _axes, keepdims=_keep).once()), exact=False)
def log_of_sum_of_exp(m: Match) -> Made:
    """Log(ReduceSum(Exp(x))) -> ReduceLogSumExp(x)"""
    return _named(m, "ReduceLogSumExp")


def _divided(rng: np.random.Generator) -> Value:
    total = op.ReduceSum(param(Tensor(DType.FLOAT, (dims.symbol("n"), 3, 4))), vector([1, 2]), keepdims=0)
    return op.Div(total, 12.0) if rng.random() < 0.5 else op.Mul(total, 1 / 12)


_summed = p.ReduceSum(x, _axes, keepdims=_keep).named("total").once()


@rule(one_of("Div", "Mul")(_summed, constant("c")), exact=False, sample=_divided)
def sum_over_count(m: Match) -> Made:
    """ReduceSum(x) / how many -> ReduceMean(x)"""
    axes, found = axes_of(m.axes), uniform(m.c)
    count = math.prod(d if type(d) is int else 0 for d in (m.x.shape[a] for a in axes or ()))
    wanted = count if m.root.op == "Div" else 1 / count if count else 0
    slack = 1e-14 if m.x.dtype is DType.DOUBLE else 1e-6
    if not count or not found or abs(found - wanted) > slack * abs(wanted) or m.root.inputs[0] is m.c:
        return decline("not how many there are")
    if m.c.blob.size != 1 or m.c.rank > m.total.rank or not is_float(m.x):
        return decline("the number broadcasts")
    return call("ReduceMean", [m.x, m.axes], {"keepdims": m.keepdims})


@rule(
    one_of("ReduceMax", "ReduceMin")(
        one_of("Relu", "Exp", "Sqrt", "Sigmoid", "Tanh")(x).named("inner").once(), constant("axes")
    ),
    exact=False,
)
def bound_of_rising(m: Match) -> Made:
    """ReduceMax(Exp(x)) -> Exp(ReduceMax(x)), and so for what rises with x, which computes less"""
    axes = axes_of(m.axes)
    if not axes or not m.x.rank or not is_float(m.x):
        return decline("all axes, or integers")
    if any(type(m.x.shape[a]) is not int or m.x.shape[a] == 0 for a in axes):
        return decline("a bound of nothing")
    return call(m.inner.op, [call(m.root.op, [m.x, m.axes], dict(m.root.attributes))], dict(m.inner.attributes))


REDUCED: tuple[Rule, ...] = (squeeze_reduction, unsqueeze_reduction, reduce_ones)
"""Reductions that become fewer, to the same bits."""

REAL_REDUCED: tuple[Rule, ...] = (
    bound_of_bounds, reduction_of_reduction, sum_of_ones, reduce_expanded, sum_of_squares, sum_of_sizes,
    root_of_squares, log_of_sum_of_exp, sum_over_count, bound_of_rising,
)  # fmt: skip
"""Those that go through the elements in another order."""
