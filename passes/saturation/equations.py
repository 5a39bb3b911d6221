"""The equations of equality saturation: true in both directions, and of use in neither alone.

The rules of `passes.optimize` lead to simpler forms. These lead sideways: to products that are grouped in another way,
factors before or behind a sum, Transposes above or below what they pass through, products that are put together. Which
form is the best one, costs say.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irkit.build import const as build_const
from irkit.build import op
from irkit.core.ir import Value, param
from irkit.core.types import Tensor, tensor
from irkit.equations import Equation, equation
from irkit.pattern import Op, attr, const, hole, is_scalar, p
from irkit.rewriting.face import Made, Match, Rule, Rules, decline, rule
from passes.analysis.questions import same_shape, same_type, small

x, y, z = hole("x"), hole("y"), hole("z")
real, other, third = hole("x", dtype="float"), hole("y", dtype="float"), hole("z", dtype="float")
scalar = const("c", dtype="float", where=is_scalar)


def _alike(m: Match) -> bool:
    """y and z have one shape"""
    return same_shape(m.y.shape, m.z.shape)


def _both_alike(m: Match) -> bool:
    """x and y have one shape"""
    return same_shape(m.x.shape, m.y.shape)


def _swaps_last(perm: tuple[int, ...] | None) -> bool:
    """it exchanges the last two axes"""
    rank = 0 if perm is None else len(perm)
    return rank >= 2 and perm == (*range(rank - 2), rank - 1, rank - 2)


SUMS: tuple[Equation, ...] = (
    equation(p.Add(p.Add(x, y), z), p.Add(x, p.Add(y, z)), exact=False, name="add_grouped"),
    equation(p.Sub(p.Add(x, y), z), p.Add(x, p.Sub(y, z)), exact=False, name="sub_of_add_grouped"),
    equation(p.Sub(p.Sub(x, y), z), p.Sub(x, p.Add(y, z)), exact=False, name="sub_grouped"),
)
"""Sums grouped in another way. They are true of real numbers, and may lose digits: (x - x) + z is z, and x + (z - x)
what rounding leaves of it. So they are none of those that `saturate` takes by itself."""

GROUPED: tuple[Equation, ...] = (
    equation(p.Mul(p.Mul(x, y), z), p.Mul(x, p.Mul(y, z)), exact=False, name="mul_grouped"),
    equation(p.Div(p.Mul(real, y), z), p.Mul(real, p.Div(y, z)), exact=False, name="div_of_mul_grouped"),
    equation(p.Div(p.Div(real, y), z), p.Div(real, p.Mul(y, z)), exact=False, name="div_grouped"),
)
"""Products grouped in another way."""

FACTORED: tuple[Equation, ...] = (
    equation(p.Add(p.Mul(x, y), p.Mul(x, z)), p.Mul(x, p.Add(y, z)), exact=False, name="add_of_mul"),
    equation(p.Sub(p.Mul(x, y), p.Mul(x, z)), p.Mul(x, p.Sub(y, z)), exact=False, name="sub_of_mul"),
    equation(p.Add(p.Div(real, z), p.Div(y, z)), p.Div(p.Add(real, y), z), exact=False, name="add_of_div"),
    equation(p.Add(real, p.Mul(real, y)), p.Mul(real, p.Add(y, 1.0)), exact=False, name="add_of_mul_one"),
    equation(
        p.Add(p.MatMul(x, y), p.MatMul(x, z)), p.MatMul(x, p.Add(y, z)), _alike, exact=False, name="add_of_matmul"
    ),
    equation(
        p.Add(p.MatMul(y, x), p.MatMul(z, x)), p.MatMul(p.Add(y, z), x), _alike, exact=False, name="add_of_matmul_right"
    ),
    equation(
        p.Sub(p.MatMul(x, y), p.MatMul(x, z)), p.MatMul(x, p.Sub(y, z)), _alike, exact=False, name="sub_of_matmul"
    ),
    equation(
        p.Sub(p.MatMul(y, x), p.MatMul(z, x)), p.MatMul(p.Sub(y, z), x), _alike, exact=False, name="sub_of_matmul_right"
    ),
)
"""Factors taken out of sums. `saturate` takes them forward only: back, what cancels in a sum would have been rounded in
each product before."""

MATMULS: tuple[Equation, ...] = (
    equation(
        p.MatMul(p.MatMul(hole("x", rank=2), hole("y", rank=2)), hole("z", rank=(1, 2))),
        p.MatMul(hole("x", rank=2), p.MatMul(hole("y", rank=2), hole("z", rank=(1, 2)))),
        exact=False,
        name="matmul_grouped",
    ),
    equation(
        p.MatMul(p.MatMul(hole("x", rank=(3, 4)), hole("y", rank=2)), hole("z", rank=2)),
        p.MatMul(hole("x", rank=(3, 4)), p.MatMul(hole("y", rank=2), hole("z", rank=2))),
        exact=False,
        name="matmul_of_rows_grouped",
    ),
    equation(p.MatMul(p.Mul(real, scalar), y), p.Mul(p.MatMul(real, y), scalar), exact=False, name="matmul_of_scaled"),
    equation(p.MatMul(y, p.Mul(real, scalar)), p.Mul(p.MatMul(y, real), scalar), exact=False, name="matmul_by_scaled"),
    equation(p.MatMul(p.Neg(x), y), p.Neg(p.MatMul(x, y)), exact=False, name="matmul_of_neg"),
    equation(p.Neg(p.Mul(x, y)), p.Mul(p.Neg(x), y), name="neg_of_mul"),
)
"""Products of matrices, and signs and scales that pass through products."""

to_gemm = equation(
    p.Gemm(hole("x", rank=2), hole("y", rank=2), z),
    p.Add(p.MatMul(hole("x", rank=2), hole("y", rank=2)).typed(dtype="float"), z),
    exact=False,
    name="gemm_of_add",
).backward
to_gemm_of_two = equation(
    p.Gemm(hole("x", rank=2), hole("y", rank=2)),
    p.MatMul(hole("x", rank=2), hole("y", rank=2)).typed(dtype="float"),
    exact=False,
    name="gemm_of_matmul",
).backward


def _scaled(value: Value, factor: float) -> Value:
    """The value times a number; computed at once of a constant that is not large."""
    array = small(value)
    if factor == 1:
        return value
    return op.Mul(value, factor) if array is None else build_const((array * factor).astype(value.dtype.numpy))


options = {name: attr(name) for name in ("alpha", "beta", "transA", "transB")}


@rule(p.Gemm(real, y, hole("z", optional=True), **options), exact=False)
def gemm_apart(m: Match) -> Made:
    """Gemm(x, y, z) -> x @ (alpha * y) + beta * z"""
    first = op.Transpose(m.x, perm=(1, 0)) if m.transA else m.x
    turned, array = bool(m.transB), small(m.y)
    if turned and array is not None:
        second = build_const(np.ascontiguousarray(array.T))
    else:
        second = op.Transpose(m.y, perm=(1, 0)) if turned else m.y
    product = op.MatMul(first, _scaled(second, m.alpha))
    if m.z is None:
        return product
    return op.Add(product, _scaled(m.z, m.beta))


GEMMS: Rules = (gemm_apart, to_gemm, to_gemm_of_two)
"""A product and what is added to it, as one operator and as two."""


def _pulled(name: str, *operands: str) -> Equation:
    """A Transpose before an operator of elements, and behind it."""
    perm = attr("perm")
    own = {"x": x, "y": y}
    turned: list[Op] = [p.Transpose(own[each], perm=perm) for each in operands]
    where = _both_alike if len(operands) == 2 else None
    made = p.op(name)
    return equation(
        made(*turned),
        p.Transpose(made(*(own[each] for each in operands)), perm=perm),
        where,
        name=f"{name.lower()}_of_transpose",
    )


TRANSPOSES: tuple[Equation, ...] = (
    *(_pulled(each, "x", "y") for each in ("Add", "Sub", "Mul", "Div")),
    *(_pulled(each, "x") for each in ("Relu", "Neg", "Exp", "Tanh", "Sigmoid", "Abs", "Sqrt", "Erf")),
    equation(
        p.MatMul(p.Transpose(x, perm=attr("perm", where=_swaps_last)), p.Transpose(y, perm=attr("perm"))),
        p.Transpose(p.MatMul(y, x), perm=attr("perm", where=_swaps_last)),
        lambda m: m.x.rank == m.y.rank,
        exact=False,
        name="matmul_of_transposes",
    ),
    equation(
        p.Mul(p.Transpose(real, perm=attr("perm")), scalar),
        p.Transpose(p.Mul(real, scalar), perm=attr("perm")),
        name="scaled_transpose",
    ),
)
"""Transposes before and behind what they pass through."""


@rule(p.Transpose(p.Transpose(x, perm=attr("a")), perm=attr("b")))
def transpose_joined(m: Match) -> Made:
    """Transpose(Transpose(x, a), b) -> Transpose(x, a after b), or x"""
    rank = m.x.rank
    first, second = m.a or tuple(reversed(range(rank))), m.b or tuple(reversed(range(rank)))
    joined = tuple(first[i] for i in second)
    return m.x if joined == tuple(range(rank)) else op.Transpose(m.x, perm=joined)


@rule(p.Transpose(x, perm=attr("perm")))
def transpose_of_nothing(m: Match) -> Made:
    """Transpose(x) -> x, where it moves no axis"""
    return m.x if m.perm == tuple(range(m.x.rank)) else decline("it moves an axis")


def _parts(whole: Value, sizes: list[object], axis: int) -> Made:
    """The parts of a value along an axis."""
    return op.Split(whole, np.array(sizes, dtype=np.int64), axis=axis)


def _columns(*weights: Value) -> list[object]:
    """How many columns each weight has."""
    return [w.shape[-1] for w in weights]


matrix = [const(name, dtype="float", rank=2) for name in ("a", "b", "c")]


@rule(p.MatMul(real, matrix[0]), p.MatMul(real, matrix[1]), exact=False)
def two_products(m: Match) -> Made:
    """x @ a, x @ b -> the parts of x @ Concat(a, b)"""
    return _parts(op.MatMul(m.x, op.Concat(m.a, m.b, axis=1)), _columns(m.a, m.b), -1)


@rule(p.MatMul(real, matrix[0]), p.MatMul(real, matrix[1]), p.MatMul(real, matrix[2]), exact=False)
def three_products(m: Match) -> Made:
    """x @ a, x @ b, x @ c -> the parts of x @ Concat(a, b, c)"""
    whole = op.MatMul(m.x, op.Concat(m.a, m.b, m.c, axis=1))
    return _parts(whole, _columns(m.a, m.b, m.c), -1)


bias = [const(f"{name}_bias", dtype="float", rank=1) for name in ("a", "b", "c")]


def _affine(m: Match, *names: str) -> Made:
    """Products and what is added to them, as one of each."""
    weights, added = [m[n] for n in names], [m[f"{n}_bias"] for n in names]
    if any(w.shape[1] != d.shape[0] for w, d in zip(weights, added, strict=True)):
        return decline("the bias broadcasts")
    whole = op.MatMul(m.x, op.Concat(*weights, axis=1))
    return _parts(op.Add(whole, op.Concat(*added, axis=0)), _columns(*weights), -1)


affine = [p.Add(p.MatMul(real, w), b) for w, b in zip(matrix, bias, strict=True)]


@rule(affine[0], affine[1], exact=False)
def two_affine(m: Match) -> Made:
    """x @ a + d, x @ b + e -> the parts of x @ Concat(a, b) + Concat(d, e)"""
    return _affine(m, "a", "b")


@rule(affine[0], affine[1], affine[2], exact=False)
def three_affine(m: Match) -> Made:
    """x @ a + d, x @ b + e, x @ c + f -> the parts of x @ Concat(a, b, c) + Concat(d, e, f)"""
    return _affine(m, "a", "b", "c")


concat_axis, split_axis = attr("concat_axis"), attr("split_axis")
parts = p.Split(x, const("sizes"), axis=split_axis).named("split")


def _whole(m: Match, count: int) -> Made:
    """What was split, where all of its parts are joined along the same axis."""
    rank = m.x.rank
    if len(m.split.type.items) != count or m.concat_axis % rank != m.split_axis % rank:
        return decline("other parts, or along another axis")
    return m.x if same_type(m.x, m.root) else decline("the sizes of the parts are not those of what was split")


def _sample(count: int) -> Callable[[np.random.Generator], Value]:
    """What makes a Split whose parts are joined."""

    def sample(rng: np.random.Generator) -> Value:
        sizes = rng.integers(0, 4, count)
        found = op.Split(param(tensor("f32", "n", int(sizes.sum()))), sizes, axis=1)
        return op.Concat(*found, axis=int(rng.choice([1, -1])))

    return sample


@rule(p.Concat(parts[0], parts[1], axis=concat_axis), sample=_sample(2))
def two_parts_joined(m: Match) -> Made:
    """Concat(both parts of a Split) -> what was split"""
    return _whole(m, 2)


@rule(p.Concat(parts[0], parts[1], parts[2], axis=concat_axis), sample=_sample(3))
def three_parts_joined(m: Match) -> Made:
    """Concat(the three parts of a Split) -> what was split"""
    return _whole(m, 3)


def _over_concat(name: str, count: int) -> Equation:
    """An operator of elements on each part, and on what the parts make together."""
    made, own = p.op(name), [hole(each) for each in "xyz"[:count]]
    return equation(
        p.Concat(*map(made, own), axis=concat_axis),
        made(p.Concat(*own, axis=concat_axis)),
        name=f"{name.lower()}_of_concat_{count}",
    )


CONCATS: tuple[Equation, ...] = tuple(
    _over_concat(name, count) for name in ("Relu", "Sigmoid", "Tanh", "Exp", "Neg") for count in (2, 3)
)
"""An operator of elements before and behind a Concat."""

kernel = [const(name, dtype="float", rank=4) for name in ("a", "b")]
settings = {name: attr(name) for name in ("auto_pad", "dilations", "kernel_shape", "pads", "strides")}


def _images(m: Match, *more: Value) -> Made:
    """The two convolutions of a match as one, with a bias where there is one."""
    if m.a.shape[1:] != m.b.shape[1:] or not isinstance(m.x.type, Tensor):
        return decline("the kernels are of other sizes")
    given = {name: m[name] for name in settings if m[name] is not None}
    whole = op.Conv(m.x, op.Concat(m.a, m.b, axis=0), *more, **given)
    return _parts(whole, [m.a.shape[0], m.b.shape[0]], 1)


@rule(p.Conv(real, kernel[0], **settings), p.Conv(real, kernel[1], **settings), exact=False)
def two_convolutions(m: Match) -> Made:
    """Conv(x, a), Conv(x, b) -> the parts of Conv(x, Concat(a, b))"""
    return _images(m)


@rule(p.Conv(real, kernel[0], bias[0], **settings), p.Conv(real, kernel[1], bias[1], **settings), exact=False)
def two_biased_convolutions(m: Match) -> Made:
    """Conv(x, a, d), Conv(x, b, e) -> the parts of Conv(x, Concat(a, b), Concat(d, e))"""
    return _images(m, op.Concat(m.a_bias, m.b_bias, axis=0))


TOGETHER: tuple[Rule, ...] = (
    two_products, three_products, two_affine, three_affine, two_convolutions, two_biased_convolutions,
)  # fmt: skip
"""Products and convolutions of one operand, put together."""

BOTH_WAYS: tuple[Equation, ...] = (*GROUPED, *MATMULS, *TRANSPOSES, *CONCATS)

EQUATIONS: Rules = (
    *(each for found in BOTH_WAYS for each in found.rules), *(each.forward for each in FACTORED),
    transpose_joined, transpose_of_nothing, *GEMMS, *TOGETHER, two_parts_joined,
    three_parts_joined,
)  # fmt: skip
"""What `saturate` takes: equations in both directions, factors taken out, and what is put together."""
