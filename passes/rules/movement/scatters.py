"""Scatters that write every element, or write the same ones twice; and what is computed from one repeated number."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.dims import Dim
from irkit.pattern import attr, attribute_of, hole, one_of, p
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.counting import count_of
from passes.analysis.questions import same_shape, same_type, small, takes
from passes.rules.movement.transposes import UNARY

x, updates, indices = hole("x"), hole("updates"), hole("indices")


def counts(value: Value, axis: int, size: Dim) -> bool:
    """True for integers that count 0, 1, 2, ... up to `size` along one axis and do not vary along the others."""
    if dims.same(value.shape[axis], size) is not True:
        return False
    if value.blob is not None:
        found = small(value)
        if found is None or type(size) is not int:
            return False
        moved = np.moveaxis(found, axis, -1)
        return bool((np.where(moved < 0, moved + size, moved) == np.arange(size)).all())
    found = count_of(value)
    if found is None or not (type(found.start) is int and found.start == 0):
        return False
    return all(type(s) is int and s == int(i == axis) for i, s in enumerate(found.steps))


def _rows(rng: np.random.Generator) -> Value:
    n = dims.symbol("n")
    if rng.random() < 0.5:
        x, places = param(Tensor(DType.FLOAT, (3, 4))), const(np.array([[0], [1], [2]]))
        return op.ScatterND(x, places, param(Tensor(DType.FLOAT, (3, 4))))
    x = param(Tensor(DType.FLOAT, (n, 4)))
    places = op.Range(0, op.Squeeze(op.Shape(x, start=0, end=1), [0]), 1)
    return op.ScatterND(x, op.Unsqueeze(places, [1]), param(Tensor(DType.FLOAT, (n, 4))))


@rule(p.ScatterND(x, indices, updates, reduction="none"), sample=_rows)
def scatter_every_row(m: Match) -> Made:
    """ScatterND(x, [[0], [1], ...], updates) -> updates, where every row is written in order"""
    if m.indices.rank != 2 or m.indices.shape[-1] != 1 or not same_type(m.updates, m.root):
        return decline("no list of rows, or not all of them")
    if not counts(m.indices, 0, m.x.shape[0]):
        return decline("not every row, or in another order")
    return m.updates


def _elements(rng: np.random.Generator) -> Value:
    shape, axis = (2, 3), int(rng.integers(2))
    x, new = (param(Tensor(DType.FLOAT, shape)) for _ in range(2))
    places = np.broadcast_to(np.arange(shape[axis]).reshape((-1, 1) if axis == 0 else (1, -1)), shape)
    return op.ScatterElements(x, const(np.ascontiguousarray(places)), new, axis=axis)


@rule(p.ScatterElements(x, indices, updates, axis=attr("axis"), reduction="none"), sample=_elements)
def scatter_every_element(m: Match) -> Made:
    """ScatterElements(x, [0, 1, ...], updates) -> updates, where every element is written where it stands"""
    if not same_type(m.updates, m.root) or not m.x.rank:
        return decline("not every element is written")
    axis = m.axis % m.x.rank
    return m.updates if counts(m.indices, axis, m.x.shape[axis]) else decline("not in order")


@rule(p.GatherElements(x, indices, axis=attr("axis")), sample=lambda rng: _gathered(rng))
def gather_every_element(m: Match) -> Made:
    """GatherElements(x, [0, 1, ...]) -> x, where every element is read where it stands"""
    if not m.x.rank or not same_type(m.x, m.root):
        return decline("not every element is read")
    axis = m.axis % m.x.rank
    return m.x if counts(m.indices, axis, m.x.shape[axis]) else decline("not in order")


def _gathered(rng: np.random.Generator) -> Value:
    places = np.broadcast_to(np.arange(3), (2, 3))
    return op.GatherElements(param(Tensor(DType.FLOAT, (2, 3))), const(np.ascontiguousarray(places)), axis=1)


def _twice(rng: np.random.Generator) -> Value:
    x, places = param(Tensor(DType.FLOAT, (4, 3))), const(np.array([[3], [1]]))
    first, second = (param(Tensor(DType.FLOAT, (2, 3))) for _ in range(2))
    return op.ScatterND(op.ScatterND(x, places, first), places, second)


_scatter = one_of("ScatterND", "ScatterElements")


@rule(_scatter(_scatter(x, indices, hole("old")).named("inner"), indices, updates), sample=_twice)
def scatter_twice(m: Match) -> Made:
    """ScatterND(ScatterND(x, places, a), places, b) -> ScatterND(x, places, b)"""
    if m.inner.op != m.root.op or attribute_of(m.root, "reduction") != "none" or not same_type(m.old, m.updates):
        return decline("two different scatters, or one that adds up")
    if m.root.op == "ScatterElements" and attribute_of(m.inner, "axis") != attribute_of(m.root, "axis"):
        return decline("two axes")
    if attribute_of(m.inner, "reduction") != "none" and m.indices.blob is None:
        return decline("the first one adds up")
    return call(m.root.op, [m.x, m.indices, m.updates], dict(m.root.attributes))


# ---------------------------------------------------------------------------------------------- one number throughout


def _filled(rng: np.random.Generator) -> Value:
    shape = shape_vector((dims.symbol("n"), 3), param(Tensor(DType.FLOAT, (dims.symbol("n"), 3))))
    made = op.ConstantOfShape(shape, value=np.array([2.0], np.float32))
    return op.Cast(made, to=7) if rng.random() < 0.5 else op.Neg(made)


@rule(one_of(*UNARY, "Cast")(p.ConstantOfShape(hole("shape"), value=attr("value"))), sample=_filled)
def unary_of_filled(m: Match) -> Made:
    """f(ConstantOfShape(shape, c)) -> Expand(f(c), shape)"""
    if not takes("Expand", m.root.dtype):
        return decline(f"Expand takes no {m.root.dtype.short}")
    given = m.value
    number = const(np.zeros((), np.float32)) if given is None else const(given.array.reshape(()))
    return op.Expand(call(m.root.op, [number], dict(m.root.attributes)), m.shape)


def _zeros(rng: np.random.Generator) -> Value:
    x = param(Tensor(DType.FLOAT, (dims.symbol("n"), 3)))
    made = op.ConstantOfShape(shape_vector((dims.symbol("n"), 3), x), value=np.array([1.5], np.float32))
    return (op.Sub, op.Mul, op.Less)[int(rng.integers(3))](*((made, x) if rng.random() < 0.5 else (x, made)))


_BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal", "And", "Or")
_made = p.ConstantOfShape(hole("shape"), value=attr("value")).named("filled")


def _with_number(m: Match, first: bool) -> Made:
    if not same_shape(m.x.shape, m.root.shape):
        return decline("x does not broadcast as far")
    if not takes("Expand", m.root.dtype):
        return decline(f"Expand takes no {m.root.dtype.short}")
    given = m.value
    number = const(np.zeros((), np.float32)) if given is None else const(given.array.reshape(()))
    return call(m.root.op, [number, m.x] if first else [m.x, number], dict(m.root.attributes))


@rule(one_of(*_BINARY)(x, _made), sample=_zeros)
def with_filled(m: Match) -> Made:
    """x + ConstantOfShape(shape, c) -> x + c"""
    return _with_number(m, first=m.root.inputs[0] is m.filled)


@rule(one_of("Sub", "Div", "Pow", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")(_made, x), sample=_zeros)
def filled_with(m: Match) -> Made:
    """ConstantOfShape(shape, c) - x -> c - x"""
    return _with_number(m, first=True)


def _two_expanded(rng: np.random.Generator) -> Value:
    n = dims.symbol("n")
    x, y = (param(Tensor(DType.FLOAT, (1, 3))) for _ in range(2))
    shape = shape_vector((n, 3), param(Tensor(DType.FLOAT, (n,))))
    other = op.Expand(y, shape) if rng.random() < 0.5 else const(np.float32(2.0))
    return op.Add(op.Expand(x, shape), other)


_ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Less", "Greater", "LessOrEqual",
                "GreaterOrEqual", "Max", "Min")  # fmt: skip


@rule(one_of(*_ELEMENTWISE)(p.Expand(x, hole("shape")), p.Expand(hole("y"), hole("shape"))), sample=_two_expanded)
def binary_of_expands(m: Match) -> Made:
    """Expand(x, shape) + Expand(y, shape) -> Expand(x + y, shape)"""
    return op.Expand(call(m.root.op, [m.x, m.y], dict(m.root.attributes)), m.shape)


@rule(one_of(*_ELEMENTWISE)(p.Expand(x, hole("shape")), constant("c")), sample=_two_expanded)
def expand_and_number(m: Match) -> Made:
    """Expand(x, shape) + number -> Expand(x + number, shape)"""
    if m.c.blob.size != 1 or m.c.rank > m.x.rank:
        return decline("the constant is not a number")
    operands = [m.c, m.x] if m.root.inputs[0] is m.c else [m.x, m.c]
    return op.Expand(call(m.root.op, operands, dict(m.root.attributes)), m.shape)


SCATTERS: tuple[Rule, ...] = (
    scatter_every_row, scatter_every_element, gather_every_element, scatter_twice, unary_of_filled, with_filled,
    filled_with, binary_of_expands, expand_and_number,
)  # fmt: skip
"""What is written whole, and what is one number throughout; no bit changes."""
