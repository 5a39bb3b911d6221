"""Some fifty rules with one error each, as made by mistake: what `check_rule` is held to at its default settings.

None has a sample, and none is told apart by anything but what it says. tests/irkit/checking/test_wrong_rules.py checks
them on one seed, `make check-rules` on five.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit.build import call, op
from irkit.build import const as number
from irkit.core.types import DType
from irkit.pattern import attr, const, hole, is_all_ones, is_all_zeros, one_of, p, uniform
from irkit.rewriting.face import Match, decline, rule

x, y, z, c = hole("x"), hole("y"), hole("z"), hole("c")
real = hole("x", dtype="float")
whole = hole("x", dtype="integer")


def same(m: Match) -> bool:
    """Whether x has the type of the root."""
    return m.x.type == m.root.type


def ints(value: Any) -> list[int]:
    """The numbers in a constant."""
    return [] if value is None else [int(n) for n in value.blob.array.reshape(-1)]


def like(value: Any, data: Any) -> Any:
    """A constant of the element type of a value."""
    return number(np.asarray(data).astype(value.dtype.numpy))


# ---------------------------------------------------------------------------------------------- special numbers


@rule(p.Sub(x, x))
def sub_itself(m: Match) -> Any:
    """x - x -> 0"""
    return op.Expand(like(m.x, 0), op.Shape(m.x))


@rule(p.Mul(x, const("zero", where=is_all_zeros)))
def mul_zero(m: Match) -> Any:
    """x * 0 -> 0"""
    return op.Expand(like(m.x, 0), op.Shape(m.root))


@rule(p.Add(x, const("zero", where=is_all_zeros)))
def add_zero(m: Match) -> Any:
    """x + 0 -> x"""
    return m.x if same(m) else decline("it broadcasts")


@rule(p.Neg(p.Sub(x, y)))
def neg_sub(m: Match) -> Any:
    """-(x - y) -> y - x"""
    return op.Sub(m.y, m.x)


@rule(p.Not(p.Less(x, y)))
def not_less(m: Match) -> Any:
    """not x < y -> x >= y"""
    return op.GreaterOrEqual(m.x, m.y)


@rule(p.Equal(x, x))
def equal_itself(m: Match) -> Any:
    """x == x -> True"""
    return op.Expand(number(np.array(True)), op.Shape(m.x))


@rule(p.Where(p.Greater(x, y), x, y))
def where_greater(m: Match) -> Any:
    """x where x > y, else y -> Max(x, y)"""
    return op.Max(m.x, m.y)


@rule(p.Pow(real, 0.5))
def pow_half(m: Match) -> Any:
    """x ** 0.5 -> Sqrt(x)"""
    return op.Sqrt(m.x) if same(m) else decline("it broadcasts")


# ----------------------------------------------------------------------------------------- rounding, overflow, division


@rule(p.Div(x, const("c", dtype="float")))
def div_by_constant(m: Match) -> Any:
    """x / c -> x * (1 / c)"""
    return op.Mul(m.x, op.Reciprocal(m.c))


@rule(p.Add(p.Add(x, y), z))
def add_associates(m: Match) -> Any:
    """(x + y) + z -> x + (y + z)"""
    return op.Add(m.x, op.Add(m.y, m.z))


@rule(p.Mul(p.Mul(x, 2.0), 0.5))
def twice_half(m: Match) -> Any:
    """x * 2 * 0.5 -> x"""
    return m.x if same(m) else decline("it broadcasts")


@rule(p.Div(p.Mul(x, const("a")), const("b")), exact=False)
def mul_div_cancel(m: Match) -> Any:
    """x * a / a -> x"""
    if uniform(m.a) is None or uniform(m.a) != uniform(m.b) or not uniform(m.a) or not same(m):
        return decline("they do not cancel")
    return m.x


@rule(p.Log(p.Softmax(real, axis=attr("axis"))), exact=False)
def log_softmax_by_hand(m: Match) -> Any:
    """Log(Softmax(x)) -> x - Log(ReduceSum(Exp(x)))"""
    return op.Sub(m.x, op.Log(op.ReduceSum(op.Exp(m.x), np.array([m.axis]))))


@rule(p.Sub(p.ReduceMean(p.Mul(real, real), const("axes"), keepdims=1), hole("s")), exact=False)
def mean_of_squares(m: Match) -> Any:
    """ReduceMean(x * x) - s -> ReduceSum(x * x) / (size of the last axis) - s"""
    if not m.x.rank or type(m.x.shape[-1]) is not int or not m.x.shape[-1]:
        return decline("no size")
    total = op.ReduceSum(op.Mul(m.x, m.x), m.axes)
    return op.Sub(op.Div(total, like(m.x, m.x.shape[-1])), m.s)


@rule(
    p.ReduceMean(p.Mul(p.Sub(real, p.ReduceMean(real, -1.0)), p.Sub(real, p.ReduceMean(real, -1.0))), -1.0), exact=False
)
def variance_at_once(m: Match) -> Any:
    """the mean of (x - mean) ** 2 -> the mean of x ** 2 - mean ** 2"""
    mean, last = op.ReduceMean(m.x, np.array([-1])), np.array([-1])
    return op.Sub(op.ReduceMean(op.Mul(m.x, m.x), last), op.Mul(mean, mean))


@rule(p.Round(real), exact=False)
def round_by_floor(m: Match) -> Any:
    """Round(x) -> Floor(x + 0.5)"""
    return op.Floor(op.Add(m.x, 0.5))


@rule(p.Mod(whole, y))
def mod_by_division(m: Match) -> Any:
    """Mod(x, y) -> x - x / y * y"""
    return op.Sub(m.x, op.Mul(op.Div(m.x, m.y), m.y))


# ---------------------------------------------------------------------------------------------- element types


@rule(p.Cast(p.Cast(x, to=attr("first")), to=attr("second")))
def cast_of_cast(m: Match) -> Any:
    """Cast(Cast(x)) -> Cast(x)"""
    return op.Cast(m.x, to=m.second)


@rule(p.Cast(p.Cast(x, to=attr("first")), to=attr("second")))
def cast_there_and_back(m: Match) -> Any:
    """Cast(Cast(x)) -> x"""
    return m.x if DType(m.second) is m.x.dtype else decline("another element type")


@rule(p.Max(x, const("zero", where=is_all_zeros)))
def max_zero(m: Match) -> Any:
    """Max(x, 0) -> Relu(x)"""
    return op.Relu(m.x) if same(m) else decline("it broadcasts")


@rule(p.Div(const("one", where=is_all_ones), x))
def reciprocal(m: Match) -> Any:
    """1 / x -> Reciprocal(x)"""
    return op.Reciprocal(m.x)


@rule(p.Where(c, const("one", where=is_all_ones), const("zero", where=is_all_zeros)))
def where_to_cast(m: Match) -> Any:
    """1 where c, else 0 -> Cast(c)"""
    return op.Cast(m.c, to=int(m.one.dtype)) if m.one.rank == 0 else decline("no scalar")


# ---------------------------------------------------------------------------------------------- broadcasting


@rule(p.Mul(x, const("one", where=is_all_ones)))
def mul_one(m: Match) -> Any:
    """x * 1 -> x"""
    return m.x


@rule(p.Where(c, x, x))
def where_same(m: Match) -> Any:
    """x where c, else x -> x"""
    return m.x


@rule(p.MatMul(p.Mul(real, const("k")), y), exact=False)
def scaled_product(m: Match) -> Any:
    """(x * k) @ y -> (x @ y) * k"""
    return op.Mul(op.MatMul(m.x, m.y), m.k) if m.x.rank == 2 == m.y.rank else decline("no matrices")


@rule(p.Add(p.MatMul(real, y), z), exact=False)
def product_and_bias(m: Match) -> Any:
    """x @ y + z -> Gemm(x, y, z)"""
    return op.Gemm(m.x, m.y, m.z) if m.x.rank == 2 == m.y.rank else decline("no matrices")


@rule(p.Softmax(p.Add(real, const("k")), axis=attr("axis")), exact=False)
def softmax_of_shifted(m: Match) -> Any:
    """Softmax(x + k) -> Softmax(x)"""
    return op.Softmax(m.x, axis=m.axis) if m.x.shape == m.root.shape else decline("it broadcasts")


@rule(p.Add(p.Expand(x, hole("shape")), y))
def add_expanded(m: Match) -> Any:
    """Expand(x) + y -> x + y"""
    return op.Add(m.x, m.y)


@rule(p.Expand(x, hole("shape")))
def expand_of_one_rank(m: Match) -> Any:
    """Expand(x) -> x"""
    return m.x if m.x.rank == m.root.rank else decline("it adds dimensions")


# ----------------------------------------------------------------------------- axes, permutations, keepdims, attributes


@rule(p.Transpose(p.Transpose(x, perm=attr("inner")), perm=attr("outer")))
def transposes(m: Match) -> Any:
    """Transpose(Transpose(x)) -> Transpose(x)"""
    if m.inner is None or m.outer is None:
        return decline("no permutation")
    return op.Transpose(m.x, perm=tuple(m.outer[i] for i in m.inner))


@rule(p.Transpose(p.Transpose(x, perm=attr("inner")), perm=attr("outer")))
def transposes_cancel(m: Match) -> Any:
    """Transpose(Transpose(x)) -> x"""
    return m.x if m.inner == m.outer else decline("other permutations")


@rule(p.Transpose(p.MatMul(real, y), perm=(1, 0)), exact=False)
def transposed_product(m: Match) -> Any:
    """(x @ y).T -> x.T @ y.T"""
    if m.x.rank != 2 or m.y.rank != 2:
        return decline("no matrices")
    return op.MatMul(op.Transpose(m.x, perm=(1, 0)), op.Transpose(m.y, perm=(1, 0)))


@rule(one_of("ReduceSum")(p.Neg(real), const("axes")), exact=False)
def sum_of_neg(m: Match) -> Any:
    """ReduceSum(-x) -> -ReduceSum(x)"""
    return op.Neg(op.ReduceSum(m.x, m.axes))


@rule(p.ReduceSum(p.ReduceSum(real, const("a"), keepdims=0), const("b"), keepdims=0), exact=False)
def sum_of_sum(m: Match) -> Any:
    """ReduceSum(ReduceSum(x, a), b) -> ReduceSum(x, [*a, *b])"""
    axes = {n % m.x.rank for n in ints(m.a) + ints(m.b)}
    return op.ReduceSum(m.x, np.array(sorted(axes), np.int64), keepdims=0)


@rule(p.ReduceMax(p.Neg(real), const("axes"), keepdims=attr("keepdims")))
def max_of_neg(m: Match) -> Any:
    """ReduceMax(-x) -> -ReduceMax(x)"""
    return op.Neg(op.ReduceMax(m.x, m.axes, keepdims=m.keepdims))


@rule(p.Div(p.Exp(real), p.ReduceSum(p.Exp(real), const("axes"))), exact=False)
def softmax_by_hand(m: Match) -> Any:
    """Exp(x) / ReduceSum(Exp(x)) -> Softmax(x)"""
    return op.Softmax(m.x) if m.x.rank and len(ints(m.axes)) == 1 else decline("not one axis")


@rule(p.Concat(p.Concat(x, y, axis=attr("inner")), z, axis=attr("outer")))
def concat_of_concat(m: Match) -> Any:
    """Concat(Concat(x, y), z) -> Concat(x, y, z)"""
    return op.Concat(m.x, m.y, m.z, axis=m.outer)


@rule(p.Flatten(x, axis=attr("axis")))
def flatten_to_reshape(m: Match) -> Any:
    """Flatten(x) -> Reshape(x, [0, -1])"""
    return op.Reshape(m.x, np.array([0, -1])) if m.x.rank and abs(m.axis) == 1 else decline("another axis")


@rule(p.Slice(p.Slice(x, const("s"), const("e"), const("a")), const("t"), const("f"), const("b")))
def slice_of_slice(m: Match) -> Any:
    """x[s:e][t:f] -> x[s + t : s + f]"""
    if len(ints(m.s)) != 1 or ints(m.a) != ints(m.b) or min(ints(m.s) + ints(m.t) + ints(m.f)) < 0:
        return decline("not one axis from the front")
    end = min(ints(m.s)[0] + ints(m.f)[0], 2**63 - 1)
    return op.Slice(m.x, np.array([ints(m.s)[0] + ints(m.t)[0]]), np.array([end]), m.a)


@rule(p.Gather(x, const("at"), axis=attr("axis")))
def gather_to_slice(m: Match) -> Any:
    """x[at] -> x[at : at + 1], its axis dropped"""
    if m.at.rank or not m.x.rank or not m.root.rank:
        return decline("not one place")
    at, axis = ints(m.at)[0], np.array([m.axis])
    return op.Squeeze(op.Slice(m.x, np.array([at]), np.array([at + 1]), axis), axis)


@rule(p.Gemm(real, y, alpha=attr("alpha"), transB=attr("transB")), exact=False)
def gemm_to_product(m: Match) -> Any:
    """Gemm(x, y) -> x @ y"""
    return op.MatMul(m.x, op.Transpose(m.y, perm=(1, 0)) if m.transB else m.y)


@rule(p.Where(p.Greater(real, 0.0), real, p.Mul(real, const("slope"))), exact=False)
def leaky_relu(m: Match) -> Any:
    """x where x > 0, else slope * x -> LeakyRelu(x)"""
    return op.LeakyRelu(m.x) if m.slope.rank == 0 else decline("no scalar")


@rule(p.Relu(p.Pad(real, const("pads"), const("value"))))
def relu_of_pad(m: Match) -> Any:
    """Relu(Pad(x, pads, value)) -> Pad(Relu(x), pads, value)"""
    return op.Pad(op.Relu(m.x), m.pads, m.value)


@rule(p.Clip(p.Clip(real, const("a"), const("b")), const("low"), const("high")))
def clip_of_clip(m: Match) -> Any:
    """Clip(Clip(x, a, b), low, high) -> Clip(x, Max(a, low), Min(b, high))"""
    return op.Clip(m.x, op.Max(m.a, m.low), op.Min(m.b, m.high))


@rule(p.ArgMax(p.Mul(real, const("k")), axis=attr("axis")))
def argmax_of_scaled(m: Match) -> Any:
    """ArgMax(x * k) -> ArgMax(x)"""
    return op.ArgMax(m.x, axis=m.axis) if m.k.rank == 0 and m.x.rank else decline("no scalar")


@rule(p.Reshape(p.Reshape(x, const("first")), const("second")))
def reshape_of_reshape(m: Match) -> Any:
    """Reshape(Reshape(x, first), second) -> Reshape(x, second)"""
    return op.Reshape(m.x, m.second)


@rule(p.Sqrt(p.Mul(real, real)), exact=False)
def sqrt_of_square(m: Match) -> Any:
    """Sqrt(x * x) -> x"""
    return m.x


@rule(p.Where(p.Not(c), x, y))
def where_not(m: Match) -> Any:
    """x where not c, else y -> x where c, else y"""
    return op.Where(m.c, m.x, m.y)


@rule(one_of("Sub", "Div")(const("k"), real))
def taken_for_commutative(m: Match) -> Any:
    """k - x -> x - k"""
    return call(m.root.op, [m.x, m.k], {})


@rule(p.Mul(real, const("half", value=0.5, rtol=0.1)), exact=False)
def tolerance_too_wide(m: Match) -> Any:
    """x * 0.5 -> x / 2"""
    return op.Div(m.x, like(m.x, 2)) if m.half.rank == 0 else decline("no scalar")


# ---------------------------------------------------------------------------------------------- numbers in constants


@rule(p.Mul(real, p.Sigmoid(p.Mul(real, const("k")))), exact=False)
def swish_of_scaled(m: Match) -> Any:
    """x * Sigmoid(k * x) -> x * Sigmoid((x / 2) * (2k))"""
    k = uniform(m.k)
    if k is None or m.k.rank:
        return decline("no number")
    doubled = np.asarray(2 * k).astype(m.x.dtype.numpy)
    return op.Mul(m.x, op.Sigmoid(op.Mul(op.Mul(m.x, like(m.x, 0.5)), number(doubled))))


@rule(p.Mul(const("c"), p.Tanh(p.Div(real, const("c")))))
def cap_by_default(m: Match) -> Any:
    """c * tanh(x / c), of one number c, 30 where it is not told"""
    if m.c.rank:
        return decline("no number")
    told = uniform(m.c)
    c = like(m.x, 30.0 if told is None else told)
    return op.Mul(c, op.Tanh(op.Div(m.x, c)))


@rule(p.Div(real, const("c")), exact=False)
def div_to_mul(m: Match) -> Any:
    """x / c -> x * (1 / c), where c is not 0"""
    if m.c.rank or not m.c.blob.array:
        return decline("no number, or 0")
    return op.Mul(m.x, like(m.x, 1 / m.c.blob.array.astype(np.float64)))


@rule(p.Add(hole("x", dtype="i32"), const("k")))
def add_to_sub(m: Match) -> Any:
    """x + k -> x - (-k), by way of floats"""
    return op.Sub(m.x, number((-m.k.blob.array.astype(np.float32)).astype(np.int32)))


WRONG = (
    sub_itself, mul_zero, add_zero, neg_sub, not_less, equal_itself, where_greater, pow_half, div_by_constant,
    add_associates, twice_half, mul_div_cancel, log_softmax_by_hand, mean_of_squares, variance_at_once, round_by_floor,
    mod_by_division, cast_of_cast, cast_there_and_back, max_zero, reciprocal, where_to_cast, mul_one, where_same,
    scaled_product, product_and_bias, softmax_of_shifted, add_expanded, expand_of_one_rank, transposes,
    transposes_cancel, transposed_product, sum_of_neg, sum_of_sum, max_of_neg, softmax_by_hand, concat_of_concat,
    flatten_to_reshape, slice_of_slice, gather_to_slice, gemm_to_product, leaky_relu, relu_of_pad, clip_of_clip,
    argmax_of_scaled, reshape_of_reshape, sqrt_of_square, where_not, taken_for_commutative, tolerance_too_wide,
    swish_of_scaled, cap_by_default, div_to_mul, add_to_sub,
)  # fmt: skip
"""All of them."""
