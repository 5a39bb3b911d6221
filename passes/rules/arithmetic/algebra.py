"""Identities of arithmetic and logic.

Floating-point numbers are taken seriously: a rule that is not marked `exact=False` keeps NaN, infinities and the sign
of zero. So x * 1 and x - 0 are x, x + (-0.0) is x, and x + 0.0, which turns -0.0 into 0.0, needs `exact=False`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from irkit import dims
from irkit.build import call, const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.pattern import attr, either, hole, is_all_ones, is_all_zeros, one_of, p, uniform
from irkit.pattern import const as constant
from irkit.pattern.predicates import Is
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import (
    is_float,
    is_integer,
    is_negative_zero,
    is_positive_zero,
    same_shape,
    same_type,
    small,
)

x, y, z = hole("x"), hole("y"), hole("z")
one, zero = constant("one", where=is_all_ones), constant("zero", where=is_all_zeros)
positive_zero = constant("zero", where=Is("is_positive_zero", is_positive_zero, (0.0,)))
negative_zero = constant("zero", where=Is("is_negative_zero", is_negative_zero, (-0.0,)))


def _as_x(m: Match, name: str = "x") -> Made:
    """The value of the hole, unless the operator also broadcasts it to the shape of the other operand."""
    found = m[name]
    return found if same_type(found, m.root) else decline("the other operand broadcasts")


# ---------------------------------------------------------------------------------------------- neutral operands


@rule(p.Identity(x))
def identity(m: Match) -> Made:
    """Identity(x) -> x"""
    return m.x


@rule(p.Mul(x, one))
def mul_one(m: Match) -> Made:
    """x * 1 -> x"""
    return _as_x(m)


@rule(p.Div(x, one))
def div_one(m: Match) -> Made:
    """x / 1 -> x"""
    return _as_x(m)


@rule(p.Sub(x, positive_zero))
def sub_zero(m: Match) -> Made:
    """x - 0 -> x"""
    return _as_x(m)


@rule(p.Add(x, negative_zero))
def add_negative_zero(m: Match) -> Made:
    """x + (-0.0) -> x, and x + 0 -> x for integers"""
    return _as_x(m)


@rule(p.Add(x, positive_zero), exact=False)
def add_zero(m: Match) -> Made:
    """x + 0.0 -> x, which keeps the sign of -0.0"""
    return _as_x(m)


@rule(p.Pow(x, one))
def pow_one(m: Match) -> Made:
    """x ** 1 -> x"""
    return _as_x(m)


@rule(one_of("Max", "Min", "Sum", "Mean", "Concat")(x))
def of_one_operand(m: Match) -> Made:
    """Max(x) -> x, and so for Min, Sum, Mean and Concat"""
    return m.x


@rule(one_of("Max", "Min", "And", "Or")(x, x))
def idempotent_binary(m: Match) -> Made:
    """Max(x, x) -> x, and so for Min, And and Or"""
    return m.x


# ---------------------------------------------------------------------------------------------- sums and products


@rule(p.Sum(x, y))
def sum_of_two(m: Match) -> Made:
    """Sum(x, y) -> x + y"""
    return op.Add(m.x, m.y)


@rule(p.Add(x, p.Neg(y)))
def add_neg(m: Match) -> Made:
    """x + (-y) -> x - y"""
    return op.Sub(m.x, m.y)


@rule(p.Sub(x, p.Neg(y)))
def sub_neg(m: Match) -> Made:
    """x - (-y) -> x + y"""
    return op.Add(m.x, m.y)


@rule(one_of("Mul", "Div")(x, constant("c", where=Is("is -1", lambda v: uniform(v) == -1, (-1,)))))
def mul_minus_one(m: Match) -> Made:
    """x * -1 -> -x"""
    return op.Neg(m.x) if same_type(m.x, m.root) else decline("the other operand broadcasts")


@rule(p.Div(one, y))
def one_over(m: Match) -> Made:
    """1 / y -> Reciprocal(y)"""
    if not is_float(m.y):
        return decline("Reciprocal is for floating-point numbers")
    return op.Reciprocal(m.y) if same_type(m.y, m.root) else decline("the one broadcasts")


@rule(p.Div(x, constant("c")))
def div_power_of_two(m: Match) -> Made:
    """x / 2**k -> x * 2**-k, which rounds alike"""
    found = uniform(m.c)
    if not is_float(m.x) or found is None or not found or not math.isfinite(found):
        return decline("the divisor is not one power of two")
    mantissa, exponent = math.frexp(found)
    if abs(mantissa) != 0.5 or abs(exponent) > 14:
        return decline("the divisor is not one power of two")
    return op.Mul(m.x, const(np.full(m.c.shape, 1.0 / found).astype(m.c.dtype.numpy)))


def _merged(m: Match, combine: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Value | None:
    """x and one constant, combined of `a` and `b`, as operands; None where that does not pay or overflows."""
    a, b = small(m.a), small(m.b)
    if a is None or b is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        if is_integer(m.a):
            found = combine(a, b)
        else:
            found = combine(a.astype(np.float64), b.astype(np.float64)).astype(m.a.dtype.numpy)
    if not is_integer(m.a):
        exact = found.astype(np.float64)
        if not np.isfinite(exact).all() or ((exact == 0) & (a != 0) & (b != 0)).any():
            return None
    return const(found) if found.size <= max(a.size, b.size, 1) else None


@rule(p.Mul(p.Mul(x, constant("a")).once(), constant("b")), exact=False)
def mul_mul(m: Match) -> Made:
    """(x * a) * b -> x * (a * b), for constants"""
    c = _merged(m, np.multiply)
    return decline("the product of the constants overflows, or is larger than both") if c is None else op.Mul(m.x, c)


@rule(p.Add(p.Add(x, constant("a")).once(), constant("b")), exact=False)
def add_add(m: Match) -> Made:
    """(x + a) + b -> x + (a + b), for constants"""
    c = _merged(m, np.add)
    return decline("the sum of the constants overflows, or is larger than both") if c is None else op.Add(m.x, c)


@rule(p.Mul(x, p.Reciprocal(y).once()), exact=False)
def mul_reciprocal(m: Match) -> Made:
    """x * (1 / y) -> x / y"""
    return op.Div(m.x, m.y)


@rule(p.Neg(p.Sub(x, y).once()), exact=False)
def neg_of_sub(m: Match) -> Made:
    """-(x - y) -> y - x, which is 0 where the other is -0.0"""
    return op.Sub(m.y, m.x)


@rule(p.Log(p.Exp(x)), exact=False)
def log_of_exp(m: Match) -> Made:
    """Log(Exp(x)) -> x, which does not overflow"""
    return m.x


logarithms = p.LogSoftmax(x, axis=attr("axis"))


@rule(either(p.Softmax(logarithms, axis=attr("axis")), p.LogSoftmax(logarithms, axis=attr("axis"))), exact=False)
def softmax_of_log_softmax(m: Match) -> Made:
    """Softmax(LogSoftmax(x)) -> Softmax(x), and LogSoftmax(LogSoftmax(x)) -> LogSoftmax(x)"""
    return call(m.root.op, [m.x], {"axis": m.axis})


# ---------------------------------------------------------------------------------------------- powers


@rule(p.Pow(x, constant("c")), exact=False)
def small_power(m: Match) -> Made:
    """x ** 2 -> x * x; x ** 0.5 -> Sqrt(x); x ** -1 -> 1 / x"""
    found = uniform(m.c)
    if not same_type(m.x, m.root):
        return decline("the exponent broadcasts")
    if found == 2:
        return op.Mul(m.x, m.x)
    if not is_float(m.x):
        return decline("a root of integers")
    if found == 0.5:
        return op.Sqrt(m.x)
    return op.Reciprocal(m.x) if found == -1 else decline("no operator of its own for this power")


# ---------------------------------------------------------------------------------------------- unary


@rule(one_of("Neg", "Not", "BitwiseNot")(one_of("Neg", "Not", "BitwiseNot")(x).named("inner")))
def involution(m: Match) -> Made:
    """-(-x) -> x, and so for Not and BitwiseNot"""
    return m.x if m.root.op == m.inner.op else decline("two different operators")


UNARY_PROJECTIONS = ("Abs", "Relu", "Ceil", "Floor", "Round", "Sign")


@rule(one_of(*UNARY_PROJECTIONS)(one_of(*UNARY_PROJECTIONS, "Sigmoid", "Exp", "Softmax", "Neg")(x).named("inner")))
def projection(m: Match) -> Made:
    """Abs(Abs(x)) -> Abs(x), and so for Relu, Ceil, Floor, Round, Sign; Relu(Sigmoid(x)) -> Sigmoid(x)"""
    outer, inner = m.root.op, m.inner.op
    if outer == inner:
        return m.inner
    if outer in ("Ceil", "Floor", "Round") and inner in ("Ceil", "Floor", "Round", "Sign"):
        return m.inner
    if outer == "Abs" and inner == "Neg":
        return op.Abs(m.x)
    if is_float(m.x) and outer in ("Relu", "Abs") and inner in ("Sigmoid", "Exp", "Softmax", "Abs", "Relu"):
        return m.inner
    return decline("two different operators")


@rule(p.Not(one_of("Greater", "Less", "GreaterOrEqual", "LessOrEqual")(x, y).named("inner")))
def not_compare(m: Match) -> Made:
    """Not(x > y) -> x <= y, for integers (NaN is neither)"""
    if not is_integer(m.x):
        return decline("NaN compares false both ways")
    other = {"Greater": "LessOrEqual", "Less": "GreaterOrEqual", "GreaterOrEqual": "Less", "LessOrEqual": "Greater"}
    return getattr(op, other[m.inner.op])(m.x, m.y)


# ---------------------------------------------------------------------------------------------- logic


@rule(one_of("And", "Or", "Xor")(x, constant("c")))
def logic_constant(m: Match) -> Made:
    """x & True -> x; x | False -> x; x ^ False -> x; x ^ True -> ~x; x & False -> False; x | True -> True"""
    found = uniform(m.c)
    if found is None:
        return decline("the constant is mixed")
    if not same_type(m.x, m.root):
        return decline("the constant broadcasts")
    keeps = {"And": True, "Or": False, "Xor": False}[m.root.op]
    if bool(found) is keeps:
        return m.x
    if m.root.op == "Xor":
        return op.Not(m.x)
    if not all(type(d) is int for d in m.root.shape) or math.prod(m.root.shape) > 4096:
        return decline("the result is as large as x")
    return const(np.full(m.root.shape, bool(found)))


@rule(p.Where(constant("c"), x, y))
def where_constant(m: Match) -> Made:
    """Where(True, x, y) -> x; Where(False, x, y) -> y"""
    found = uniform(m.c)
    if found is None:
        return decline("the condition is mixed")
    return _as_x(m, "x" if found else "y")


@rule(p.Where(z, x, x))
def where_same(m: Match) -> Made:
    """Where(c, x, x) -> x"""
    return _as_x(m)


@rule(p.Where(p.Not(z), x, y))
def where_not(m: Match) -> Made:
    """Where(Not(c), x, y) -> Where(c, y, x)"""
    return op.Where(m.z, m.y, m.x)


def _flagged(rng: np.random.Generator) -> Value:
    flags = param(Tensor(DType.BOOL, (dims.symbol("n"), 3)))
    kind = (np.bool_, np.float32, np.int64)[int(rng.integers(3))]
    return op.Where(flags, *(const(np.array(v, dtype=kind)) for v in ((1, 0) if rng.random() < 0.5 else (0, 1))))


@rule(p.Where(z, constant("a"), constant("b")), sample=_flagged)
def where_flags(m: Match) -> Made:
    """Where(c, True, False) -> c; Where(c, False, True) -> Not(c); Where(c, 1.0, 0.0) -> Cast(c)"""
    a, b = uniform(m.a), uniform(m.b)
    if {a, b} != {0, 1} or not same_shape(m.z.shape, m.root.shape) or isinstance(a, complex):
        return decline("not 1 and 0, or they broadcast the condition")
    if m.root.dtype.is_float and math.copysign(1, a) * math.copysign(1, b) < 0:
        return decline("a zero is -0.0")
    if m.root.dtype is DType.BOOL:
        return m.z if a else op.Not(m.z)
    return op.Cast(m.z if a else op.Not(m.z), to=m.root.dtype)


@rule(either(p.Where(z, x, p.Where(z, hole("w"), y)), p.Where(z, p.Where(z, x, hole("w")), y)))
def where_where(m: Match) -> Made:
    """Where(c, x, Where(c, w, y)) -> Where(c, x, y), and so where the inner one stands first"""
    found = op.Where(m.z, m.x, m.y)
    return found if same_type(found, m.root) else decline("what is left out broadcasts")


@rule(one_of("And", "Or")(x, one_of("And", "Or")(x, y).named("inner")))
def absorbed_logic(m: Match) -> Made:
    """x & (x & y) -> x & y; x & (x | y) -> x; and so for Or"""
    if m.inner.op == m.root.op:
        return m.inner if same_type(m.inner, m.root) else decline("x broadcasts")
    return _as_x(m)


@rule(one_of("And", "Or")(x, p.Not(x)))
def excluded_middle(m: Match) -> Made:
    """x & Not(x) -> False; x | Not(x) -> True, for flags of known, small shape"""
    if not all(type(d) is int for d in m.root.shape) or math.prod(m.root.shape) > 4096:
        return decline("the result is as large as x")
    return const(np.full(m.root.shape, m.root.op == "Or"))


@rule(one_of("Equal", "LessOrEqual", "GreaterOrEqual", "Less", "Greater")(x, x))
def compare_with_itself(m: Match) -> Made:
    """x == x -> True; x < x -> False, for integers of known, small shape (NaN is not equal to itself)"""
    if m.x.dtype.is_float or not all(type(d) is int for d in m.root.shape) or math.prod(m.root.shape) > 4096:
        return decline("floating-point numbers, or the result is as large as x")
    return const(np.full(m.root.shape, m.root.op in ("Equal", "LessOrEqual", "GreaterOrEqual")))


# ---------------------------------------------------------------------------------------------- inference mode


@rule(p.Dropout(x, hole("ratio", optional=True), hole("training", optional=True), seed=attr("seed")))
def dropout(m: Match) -> Made:
    """Dropout(x, ratio, training=False) -> x"""
    if m.training is not None and uniform(m.training) is not False:
        return decline("it drops: training is not False")
    if isinstance(m.root.type, type(m.x.type)):
        return m.x
    if not all(type(d) is int for d in m.x.shape):
        return decline("its mask is asked for")
    return m.x, const(np.ones(m.x.shape, dtype=bool))


ALGEBRA: tuple[Rule, ...] = (
    identity, mul_one, div_one, sub_zero, add_negative_zero, pow_one, of_one_operand, idempotent_binary, sum_of_two,
    add_neg, sub_neg, mul_minus_one, one_over, div_power_of_two, involution, projection, not_compare, logic_constant,
    where_constant, where_same, where_not, where_flags, where_where, absorbed_logic, excluded_middle,
    compare_with_itself, dropout,
)  # fmt: skip
"""Identities that keep every bit."""

REAL_ALGEBRA: tuple[Rule, ...] = (
    add_zero, mul_mul, add_add, mul_reciprocal, small_power, neg_of_sub, log_of_exp, softmax_of_log_softmax,
)  # fmt: skip
"""Identities of real arithmetic: results may differ in the last bits."""
