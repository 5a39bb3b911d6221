"""Arithmetic on sizes: what computes dimensions becomes a ShapeVector, or, for one dimension, a Squeeze of one.

Graphs that irkit lowers hold no such arithmetic; in imported ONNX graphs chains of Shape, Gather, Concat, Mul and their
like fold away here, so that Reshape, Expand and Slice below them have known results. What each operator makes of sizes
stands in `irkit.ops.types.integers`.
"""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.checking.instances import Sampler
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.core.vocabulary import SHAPE_VECTOR
from irkit.ops.types.contents import leaf_content
from irkit.ops.types.integers import Integers, follow, sizes_of
from irkit.pattern import attr, hole, one_of, p, rest
from irkit.pattern import const as constant
from irkit.pattern.predicates import Is
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.known_sizes import Sizes, bound_by, is_size, sizes_held, sizes_value

x = hole("x")


def _example(sampler: Sampler) -> Value:
    """A random ShapeVector, or a Squeeze of one."""
    n, k = dims.symbol("n"), dims.symbol("k")
    sampler.param(DType.FLOAT, (n, k))
    parts = [sampler.pick(n, k, dims.mul(n, k), dims.add(n, 3), 2, 1) for _ in range(sampler.pick(1, 1, 2, 3))]
    parts[0] = n
    binder = sampler.params[-1]
    vector = shape_vector(parts, binder)
    return op.Squeeze(vector, np.array([0])) if len(parts) == 1 and sampler.chance(0.5) else vector


s = hole("s", where=Is("is_size", is_size, (_example,)), ops=(SHAPE_VECTOR, "Squeeze"))


def _sized(sampler: Sampler) -> Value:
    """A sample: sizes or numbers."""
    return _example(sampler) if sampler.chance(0.5) else const(np.array(sampler.pick(2, [3], [1]), dtype=np.int64))


known_sizes = Is("holds_sizes", lambda value: sizes_held(value) is not None, (_sized,))
a, b = hole("a", where=known_sizes), hole("b", where=known_sizes)
index = constant("index")


# ---------------------------------------------------------------------------------------------- from tensors


def _measured(m: Match) -> Made:
    found = sizes_of(m.root.op, m.x.type, dict(m.root.attributes))
    return decline("no tensor") if found is None else sizes_value(m, *found, bound_by(m.x))


@rule(p.Shape(x, start=attr("start"), end=attr("end")))
def shape_of(m: Match) -> Made:
    """Shape(x) -> the dimensions of x"""
    return _measured(m)


@rule(p.Size(x))
def size_of(m: Match) -> Made:
    """Size(x) -> the product of the dimensions of x"""
    return _measured(m)


# ---------------------------------------------------------------------------------------------- from sizes


def _followed(m: Match) -> Made:
    """What the operator computes, where its operands are sizes and constants."""
    root, given, sources = m.root, list[Integers | None](), list[Sizes]()
    for value in root.inputs:
        sizes = sizes_held(value)
        known = Integers(sizes.dims, sizes.rank) if sizes else None if value is None else leaf_content(value)
        if value is not None and known is None:
            return decline("an operand is neither sizes nor small")
        given.append(known)
        sources += [sizes] if sizes else []
    found = follow(root.op, root.dtype, given, dict(root.attributes))
    if found is None:
        return decline("not every element is certain: a sign is open, or sizes may be equal or not")
    if root.dtype is DType.BOOL:
        return const(np.array(found.elements, dtype=bool).reshape((-1,) if found.rank else ()))
    return sizes_value(m, *found, *sources)


def _is_symbolic(*values: Value | None) -> bool:
    return any(sizes is not None and sizes.symbolic for sizes in map(sizes_held, values))


@rule(p.Gather(s, index, axis=attr("axis")))
def gather_sizes(m: Match) -> Made:
    """Gather(dims, constant) -> those dimensions"""
    return _followed(m)


@rule(
    p.Slice(s, constant("starts"), constant("ends"), constant("axes", optional=True), constant("steps", optional=True))
)
def slice_sizes(m: Match) -> Made:
    """dims[a:b:c] -> those dimensions"""
    return _followed(m)


@rule(p.Concat(*rest("parts", where=known_sizes), axis=attr("axis")).typed(dtype="i64", rank=1))
def concat_sizes(m: Match) -> Made:
    """Concat(dims, dims, ...) -> one vector of dimensions"""
    return _followed(m) if _is_symbolic(*m.parts) else decline("nothing is symbolic")


@rule(one_of("Unsqueeze", "Reshape")(s, index))
def view_sizes(m: Match) -> Made:
    """Unsqueeze(dim) -> a vector of one; Reshape of one dimension to a scalar or a vector"""
    return _followed(m)


@rule(p.Where(constant("c"), a, b))
def where_sizes(m: Match) -> Made:
    """Where(constant, dims, dims) -> the chosen dimensions"""
    return _followed(m) if _is_symbolic(m.a, m.b) else decline("nothing is symbolic")


ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min")


@rule(one_of(*ARITHMETIC)(s, b))
def left_size_arithmetic(m: Match) -> Made:
    """dims + y -> dims"""
    return _followed(m)


@rule(one_of(*ARITHMETIC)(a, s))
def right_size_arithmetic(m: Match) -> Made:
    """x + dims -> dims"""
    return _followed(m)


@rule(p.Neg(s))
def neg_sizes(m: Match) -> Made:
    """-dims -> dims"""
    return _followed(m)


@rule(one_of("ReduceProd", "ReduceSum")(s, *rest("axes")))
def reduce_sizes(m: Match) -> Made:
    """ReduceProd(dims) -> the product of the dimensions"""
    return _followed(m)


@rule(p.Equal(s, b))
def equal_sizes(m: Match) -> Made:
    """dims == dims -> a constant, where every comparison can be told"""
    return _followed(m)


SIZES: tuple[Rule, ...] = (
    shape_of, size_of, gather_sizes, slice_sizes, concat_sizes, view_sizes, where_sizes, left_size_arithmetic,
    right_size_arithmetic, neg_sizes, reduce_sizes, equal_sizes,
)  # fmt: skip
