"""Transposes: merged, moved outward through elementwise operators until two meet, replaced by views, or absorbed."""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit import dims
from irkit.build import call, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.dims import Dim
from irkit.pattern import attr, attribute_of, hole, one_of, p
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import VIEWS, axes_of, is_one, positive, vector
from passes.rules.movement.views import is_cheap, sources_of, view

x, y = hole("x"), hole("y")


def order(perm: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """The permutation of a Transpose; where it names none, the axes in reverse."""
    return tuple(reversed(range(rank))) if perm is None else tuple(perm)


# ---------------------------------------------------------------------------------------------- alone, and two in a row


def moves_nothing(turn: Value) -> bool:
    """True for a Transpose whose permutation is the identity."""
    return order(turn.attribute("perm"), turn.rank) == tuple(range(turn.rank))


def moves_only_ones(turn: Value) -> bool:
    """True for a Transpose that leaves the axes of sizes other than 1 in their order."""
    source = turn.inputs[0]
    if source is None:
        return False
    shape = source.shape
    kept = [i for i in order(turn.attribute("perm"), len(shape)) if type(shape[i]) is not int or shape[i] != 1]
    return kept == sorted(kept)


@rule(p.Transpose(x, perm=attr("perm")).provided(moves_nothing))
def transpose_nothing(m: Match) -> Made:
    """Transpose(x, [0, 1, ...]) -> x"""
    return m.x


@rule(p.Transpose(p.Transpose(x, perm=attr("inner")), perm=attr("outer")))
def transpose_transpose(m: Match) -> Made:
    """Transpose(Transpose(x)) -> Transpose(x), or x"""
    rank = m.x.rank
    inner, outer = order(m.inner, rank), order(m.outer, rank)
    perm = tuple(inner[i] for i in outer)
    return m.x if perm == tuple(range(rank)) else op.Transpose(m.x, perm=perm)


@rule(p.Transpose(x, perm=attr("perm")).provided(moves_only_ones))
def transpose_ones(m: Match) -> Made:
    """Transpose(x) -> a view of x, where only axes of size 1 move"""
    found = view(m, m.x, m.root.shape)
    if found is None or (found.op == "Reshape" and not is_cheap(m.x.shape, m.root.shape)):
        return decline("sizes would have to be computed")
    return found


# ---------------------------------------------------------------------------------------------- between views


def _joined(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> list[range] | None:
    """For each axis of the new shape, the axes of the old one that it joins; None where a Reshape does more than join
    axes."""
    found: list[range] = []
    at = 0
    for d in target:
        ends = (e for e in range(at + 1, len(source) + 1) if dims.same(dims.product(source[at:e]), d) is True)
        end = next(ends, at if is_one(d) else None)
        if end is None:
            return None
        found.append(range(at, end))
        at = end
    return found if at == len(source) else None


def _heads(rng: np.random.Generator) -> Value:
    """A sample: the keys of attention as one stack of matrices, transposed and viewed by heads again, some repeated."""
    batch, length, size = dims.symbol("batch"), dims.symbol("length"), int(rng.choice([1, 8]))
    repeated = rng.random() < 0.5
    x = param(Tensor(DType.FLOAT, (batch, 2, 3, length, size) if repeated else (batch, 6, length, size)))
    stack = op.Reshape(x, shape_vector((dims.mul(batch, 6), length, size)))
    if rng.random() < 0.7:
        return op.Reshape(op.Transpose(stack, perm=[0, 2, 1]), shape_vector((batch, 6, size, length)))
    return op.Reshape(op.Transpose(stack, perm=[2, 0, 1]), shape_vector((size, batch, 6, length)))


_inside = p.Transpose(one_of(*VIEWS)(x, hole("first", optional=True)).named("joined"), perm=attr("perm"))


@rule(one_of(*VIEWS)(_inside.named("turned").once(), hole("second", optional=True)), sample=_heads)
def transpose_between_views(m: Match) -> Made:
    """Reshape(Transpose(Reshape(x))) -> Transpose(Reshape(x)), where axes are joined only to be moved"""
    joins = m.joined.rank < m.x.rank and m.turned.rank <= m.root.rank
    parted = _joined(m.root.shape, m.turned.shape) if joins else None
    if parted is None:
        return decline("the first view does not join axes, or the last one not only part them")
    perm = order(m.perm, len(parted))
    before = [parted[perm.index(i)] for i in range(len(perm))]  # the axes of the result, as they stood before the move
    flat = [axis for axes in before for axis in axes]
    found = view(m, m.x, tuple(m.root.shape[axis] for axis in flat), *sources_of(m.root, m.joined))
    if found is None or (found.op == "Reshape" and not is_cheap(m.x.shape, found.shape)):
        return decline("sizes would have to be computed")
    return op.Transpose(found, perm=[flat.index(axis) for axis in range(len(flat))])


# ---------------------------------------------------------------------------------------------- outward

UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf",
    "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not",
    "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
    "Swish", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip
"""Elementwise operators of one operand."""

BINARY = (
    "Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual",
    "Max", "Min",
)  # fmt: skip
"""Elementwise operators of two operands."""

_turned = p.Transpose(x, perm=attr("perm")).once()


@rule(one_of(*UNARY)(_turned))
def unary_of_transpose(m: Match) -> Made:
    """f(Transpose(x)) -> Transpose(f(x)), so that transposes meet"""
    inner = call(m.root.op, [m.x], dict(m.root.attributes))
    return op.Transpose(inner, perm=order(m.perm, m.x.rank))


@rule(one_of("Cast")(_turned))
def cast_of_transpose(m: Match) -> Made:
    """Cast(Transpose(x)) -> Transpose(Cast(x)), where that moves no more bytes"""
    if m.root.dtype.bits > m.x.dtype.bits:
        return decline("the transposed elements would be larger")
    return op.Transpose(call("Cast", [m.x], dict(m.root.attributes)), perm=order(m.perm, m.x.rank))


@rule(one_of(*BINARY)(_turned, p.Transpose(y, perm=attr("perm"))))
def binary_of_transposes(m: Match) -> Made:
    """Transpose(x) + Transpose(y) -> Transpose(x + y)"""
    if m.x.rank != m.y.rank:
        return decline("the ranks differ")
    return op.Transpose(call(m.root.op, [m.x, m.y], dict(m.root.attributes)), perm=order(m.perm, m.x.rank))


def _with_constant(m: Match, first: bool) -> Made:
    rank = m.x.rank
    if m.c.blob.size != 1 or m.c.rank > rank:
        return decline("the constant is not a scalar")
    operands = [m.x, m.c] if first else [m.c, m.x]
    return op.Transpose(call(m.root.op, operands, dict(m.root.attributes)), perm=order(m.perm, rank))


@rule(one_of(*BINARY)(_turned, constant("c")))
def transpose_and_scalar(m: Match) -> Made:
    """Transpose(x) + 2 -> Transpose(x + 2)"""
    return _with_constant(m, first=m.root.inputs[0] is not m.c)


@rule(one_of(*(name for name in BINARY if name in ("Sub", "Div", "Pow", "Greater", "Less")))(constant("c"), _turned))
def scalar_and_transpose(m: Match) -> Made:
    """2 - Transpose(x) -> Transpose(2 - x)"""
    return _with_constant(m, first=False)


_REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
)  # fmt: skip


@rule(one_of(*_REDUCTIONS)(_turned, constant("axes")), exact=False)
def reduction_of_transpose(m: Match) -> Made:
    """ReduceX(Transpose(x)) -> Transpose(ReduceX(x)), or ReduceX(x), which turns fewer elements"""
    axes, rank = axes_of(m.axes), m.x.rank
    if not axes or not rank:
        return decline("all axes, or none")
    perm = order(m.perm, rank)
    gone = sorted(perm[a] for a in positive(axes, rank))
    found = call(m.root.op, [m.x, vector(gone)], dict(m.root.attributes))
    if attribute_of(m.root, "keepdims"):
        return op.Transpose(found, perm=perm)
    left = [i for i in range(rank) if i not in gone]
    back = tuple(left.index(i) for i in perm if i not in gone)
    return found if back == tuple(range(len(back))) else op.Transpose(found, perm=back)


# ---------------------------------------------------------------------------------------------- into products


def _gemm(m: Match, **changed: Any) -> Value:
    names = ("transA", "transB", "alpha", "beta")
    given = {name: m[name] for name in names} | changed
    return op.Gemm(m.a, m.b, m.c, **given)


_gemm_attributes = {name: attr(name) for name in ("transA", "transB", "alpha", "beta")}
_c = hole("c", optional=True)


@rule(p.Gemm(p.Transpose(hole("a"), perm=attr("perm")), hole("b"), _c, **_gemm_attributes), exact=False)
def gemm_of_transposed_left(m: Match) -> Made:
    """Gemm(Transpose(a), b) -> Gemm(a, b, transA=1)"""
    return _gemm(m, transA=1 - m.transA) if order(m.perm, 2) == (1, 0) else decline("nothing is transposed")


@rule(p.Gemm(hole("a"), p.Transpose(hole("b"), perm=attr("perm")), _c, **_gemm_attributes), exact=False)
def gemm_of_transposed_right(m: Match) -> Made:
    """Gemm(a, Transpose(b)) -> Gemm(a, b, transB=1)"""
    return _gemm(m, transB=1 - m.transB) if order(m.perm, 2) == (1, 0) else decline("nothing is transposed")


def _matrix(value: Value) -> bool:
    return value.rank == 2


_a, _b = hole("a", where=_matrix), hole("b", where=_matrix)


@rule(p.MatMul(p.Transpose(_a, perm=attr("perm")), _b), exact=False)
def matmul_of_transposed_left(m: Match) -> Made:
    """Transpose(a) @ b -> Gemm(a, b, transA=1), for matrices of floating-point numbers"""
    if not m.a.dtype.is_float or order(m.perm, 2) != (1, 0):
        return decline("Gemm is for floating-point numbers")
    return op.Gemm(m.a, m.b, transA=1)


@rule(p.MatMul(_a, p.Transpose(_b, perm=attr("perm"))), exact=False)
def matmul_of_transposed_right(m: Match) -> Made:
    """a @ Transpose(b) -> Gemm(a, b, transB=1), for matrices of floating-point numbers"""
    if not m.a.dtype.is_float or order(m.perm, 2) != (1, 0):
        return decline("Gemm is for floating-point numbers")
    return op.Gemm(m.a, m.b, transB=1)


MOVEMENT: tuple[Rule, ...] = (
    transpose_nothing, transpose_transpose, transpose_ones, transpose_between_views, unary_of_transpose,
    cast_of_transpose, binary_of_transposes, transpose_and_scalar, scalar_and_transpose,
)  # fmt: skip
"""Transposes moved and merged, to the same bits."""

REAL_MOVEMENT: tuple[Rule, ...] = (
    gemm_of_transposed_left, gemm_of_transposed_right, matmul_of_transposed_left, matmul_of_transposed_right,
    reduction_of_transpose,
)  # fmt: skip
"""Those after which sums are formed in another order: of a matrix that lies the other way round, too."""
