"""Integers for runtimes that make float32 of them, or add them up in fewer bits: sums, differences, products and the
greater of two are exact there, and all else is made of these where numbers may be large.

No Where stands between: OpenVINO computes it and what is added to it or multiplied with it in one step, in float32."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from irkit.build import call, const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.rewriting.face import Match
from passes.analysis.questions import axes_of, operand, positive, vector
from passes.analysis.spans import MOST, span_of
from passes.legal.others.expansions import has_sizes
from passes.legal.others.integers import is_sum_of_lower

WHOLE = 2**24 - 1
"""Up to this a float32 holds every integer, and each quotient of two is cut off to the right one."""
WIDE = (DType.INT32, DType.INT64)
HIGH, LOW = -(2**16), 2**16 - 1
"""The two halves of an integer of 32 bits, as masks. A float32 holds either."""
HALVES = (2**31 - 2**16, LOW)
"""The same of integers without a sign, which are taken for such with one where they are beyond 2^31."""
FEW, NEAR = 8, 2**19
"""So many places are added at most, and so much besides, for a sum that counts as one."""
RUN = 256
"""So many products of bytes a float32 adds up rightly."""
ROUNDS = 6
"""So many squarings make the powers of which a number other than 0, 1 and -1 has any that 64 bits hold."""
BELOW = np.float32(1 - 2**-22)
"""What makes a rounded quotient one that is not too large."""


def is_small(v: Value | None) -> bool:
    """True for numbers that a float32 holds."""
    return v is not None and span_of(v).low >= -WHOLE and span_of(v).high <= WHOLE


def may_be_large(v: Value | None) -> bool:
    """True for integers that may be beyond those that a float32 holds, and are no places or sizes, nor sums of some."""
    if v is None or v.dtype not in WIDE:
        return False
    span = span_of(v)
    return not (is_of_places(span.low) and is_of_places(span.high))


def is_of_places(bound: float) -> bool:
    """True for a bound that a float32 holds, or that sums of a few places have; 32 bits have others."""
    most = abs(bound)
    count = round(most / MOST) if most < math.inf else 0
    return most <= WHOLE or (1 <= count <= FEW and abs(most - count * MOST) <= NEAR)


def has_large(value: Value) -> bool:
    """True for an operator whose first operand may be large."""
    return may_be_large(value.inputs[0])


def compares_large(value: Value) -> bool:
    """True for a comparison both of whose operands may be beyond what a float32 holds: with a number that it holds
    those beyond compare alike, rounded or not."""
    return any(map(may_be_large, value.inputs)) and not any(map(is_small, value.inputs))


def is_zero(x: Value) -> Value:
    """x == 0, which is exact"""
    return op.Equal(x, const(np.zeros((), x.dtype.numpy)))


def compared_by_differences(m: Match, value: Value) -> Value | None:
    """x < y -> max(x, y) - x != 0, and so on: differences wrap around, and are 0 for equals only"""
    x, y = value.inputs
    if x is None or y is None:
        return None
    if value.op == "Equal":
        return is_zero(op.Sub(x, y))
    of = {"Less": x, "GreaterOrEqual": x, "Greater": y, "LessOrEqual": y}[value.op]
    found = is_zero(op.Sub(op.Max(x, y), of))
    return op.Not(found) if value.op in ("Less", "Greater") else found


def clipped_by_bounds(m: Match, value: Value) -> Value | None:
    """Relu(x) -> Max(x, 0); Clip(x, low, high) -> Min(Max(x, low), high)"""
    x, low, high = (*value.inputs, None, None)[:3]
    if x is None:
        return None
    low = const(np.zeros((), x.dtype.numpy)) if value.op == "Relu" else low
    found = x if low is None else op.Max(x, low)
    return found if high is None else op.Min(found, high)


def is_between(value: Value) -> bool:
    """True for the greater or less of numbers that may be large and of the opposite of it: both are a Clip."""
    other = "Min" if value.op == "Max" else "Max"
    return any(map(may_be_large, value.inputs)) and any(v is not None and v.op == other for v in value.inputs)


def bounded_by_negatives(m: Match, value: Value) -> Value:
    """Min(Max(x, low), high) -> -Max(-Max(x, low), -high)"""
    negatives = [op.Neg(v) for v in value.inputs if v is not None]
    return op.Neg(call("Min" if value.op == "Max" else "Max", negatives))


def is_large_choice(value: Value) -> bool:
    """True for a choice among integers that may be large."""
    return any(map(may_be_large, value.inputs[1:]))


def chosen_by_product(m: Match, value: Value) -> Value | None:
    """Where(c, x, y) -> y + (x - y) * c, which wraps around where x - y does"""
    test, x, y = value.inputs
    if test is None or x is None or y is None:
        return None
    return op.Add(y, op.Mul(op.Sub(x, y), op.Cast(test, to=x.dtype)))


def shifts_large(value: Value) -> bool:
    """True for a shift to the right of integers that may be beyond what a float32 holds."""
    x = value.inputs[0]
    return value.attribute("direction", "") == "RIGHT" and not is_small(x) and not is_masked_half(x)


def is_masked_half(v: Value | None) -> bool:
    """True for either half of integers without a sign."""
    mask = operand(v, 1) if v is not None and v.op == "BitwiseAnd" else None
    return mask is not None and mask.blob is not None and mask.blob.size == 1 and int(mask.blob.array.max()) in HALVES


def shifted_by_halves(m: Match, value: Value) -> Value | None:
    """x >> n -> the sum of both halves of x >> n"""
    x, n = value.inputs
    if x is None or n is None:
        return None
    halves = [op.BitwiseAnd(x, const(np.array(mask, x.dtype.numpy))) for mask in HALVES]
    high, low = (op.BitShift(half, n, direction="RIGHT") for half in halves)
    return op.Add(high, low)


def divided(x: Value, y: Value) -> tuple[Value, Value]:
    """(x / y cut off, what is left), by a quotient that is not too large, and the one of what it leaves."""
    zero = const(np.zeros((), x.dtype.numpy))
    a, b = op.Abs(x), op.Abs(y)
    first = near_quotient(a, b, BELOW)
    rest = op.Sub(a, op.Mul(first, b))
    more = near_quotient(rest, b)
    rest = op.Sub(rest, op.Mul(more, b))
    whole = op.Add(op.Add(first, more), op.Min(op.Sign(rest), zero))  # where that was one too many
    quotient = op.Mul(whole, op.Mul(op.Sign(x), op.Sign(y)))
    return quotient, op.Sub(x, op.Mul(quotient, y))


def near_quotient(a: Value, b: Value, factor: np.float32 | None = None) -> Value:
    """a / b, by float32 as the runtime does it"""
    dividend = op.Cast(a, to=DType.FLOAT)
    dividend = dividend if factor is None else op.Mul(dividend, const(factor))
    return op.Cast(op.Div(dividend, op.Cast(b, to=DType.FLOAT)), to=a.dtype)


def divided_exactly(m: Match, value: Value) -> Value | None:
    """x / y of integers -> a quotient of float32, and what it lacks"""
    x, y = value.inputs
    return None if x is None or y is None else divided(x, y)[0]


def remainder_exactly(m: Match, value: Value) -> Value | None:
    """x mod y of integers -> what a quotient leaves; with y added where that has another sign, and fmod=0"""
    x, y = value.inputs
    if x is None or y is None:
        return None
    left = divided(x, y)[1]
    if value.attribute("fmod", 0):
        return left
    differs = op.Max(op.Neg(op.Mul(op.Sign(left), op.Sign(y))), const(np.zeros((), x.dtype.numpy)))
    return op.Add(left, op.Mul(differs, y))


# ---------------------------------------------------------------------------------------------- reductions


def reduced_axes(value: Value) -> tuple[int, ...] | None:
    """The axes of a reduction, from the front; None where no constants say them."""
    x, axes = value.inputs[0], operand(value, 1)
    if x is None:
        return None
    if axes is None:
        return () if value.attribute("noop_with_empty_axes", 0) else tuple(range(x.rank))
    found = axes_of(axes)
    if found == () and not value.attribute("noop_with_empty_axes", 0):
        return tuple(range(x.rank))
    return None if found is None else positive(found, x.rank)


def without_axes(value: Value, found: Value, axes: tuple[int, ...]) -> Value:
    """A result whose axes are of size 1, as the reduction gives it"""
    return found if value.attribute("keepdims", 1) or not axes else op.Squeeze(found, vector(list(axes)))


def summed_by_running(m: Match, value: Value) -> Value | None:
    """ReduceSum(x) -> the last of CumSum(x) along each axis, 0 where there is none"""
    x, axes = value.inputs[0], reduced_axes(value)
    if x is None or axes is None:
        return None
    found = x
    for axis in axes:
        size = x.shape[axis]
        if type(size) is not int or not size:  # a zero in front, which is left where nothing is
            pads = [int(at == axis) for at in range(x.rank)] + [0] * x.rank
            found = op.Pad(found, vector(pads), const(np.zeros((), x.dtype.numpy)))
        found = op.Slice(op.CumSum(found, const(np.int64(axis))), vector([-1]), vector([2**31 - 1]), vector([axis]))
    return without_axes(value, found, axes)


def is_long_sum(value: Value) -> bool:
    """True for a sum of integers that may be beyond those that a float32 holds, and is no part of one in halves."""
    return may_be_large(value) and not is_sum_of_lower(value)


def is_sum_of_64_bits(value: Value) -> bool:
    """True for a sum of int64 that 32 bits may not hold, and is no part of one in halves, nor of sizes and Casts."""
    return value.dtype is DType.INT64 and may_be_large(value) and not is_sum_of_lower(value) and not has_sizes(value)


def is_of_integers(value: Value) -> bool:
    """True for a result of integers."""
    return value.dtype.is_integer


def mean_by_sum(m: Match, value: Value) -> Value | None:
    """ReduceMean(x) of integers -> ReduceSum(x) / how many there are"""
    x, axes = value.inputs[0], reduced_axes(value)
    if x is None or not axes:
        return None
    along = vector(list(axes))
    total = call("ReduceSum", [x, along], {"keepdims": value.attribute("keepdims", 1)})
    count = op.ReduceProd(op.Gather(op.Shape(x), along), keepdims=0)
    return op.Div(total, op.Cast(count, to=x.dtype) if x.dtype is not DType.INT64 else count)


def mean_of_known(m: Match, value: Value) -> Value | None:
    """The same where sizes that are numbers tell how many there are: others are of a type in which much is lost"""
    x, axes = value.inputs[0], reduced_axes(value) or ()
    return mean_by_sum(m, value) if x is not None and all(type(x.shape[axis]) is int for axis in axes) else None


def summed_of_others(m: Match, value: Value) -> Value | None:
    """ReduceL1(x) -> ReduceSum(|x|); ReduceSumSquare(x) -> ReduceSum(x * x)"""
    x = value.inputs[0]
    if x is None:
        return None
    each = op.Abs(x) if value.op == "ReduceL1" else op.Mul(x, x)
    return call("ReduceSum", [each, *value.inputs[1:]], dict(value.attributes))


def is_half(v: Value | None) -> bool:
    """True for the upper half of integers, which a float32 holds."""
    mask = operand(v, 1) if v is not None and v.op == "BitwiseAnd" else None
    return mask is not None and mask.blob is not None and bool(np.all(mask.blob.array == HIGH))


def extremes_large(value: Value) -> bool:
    """True for the greatest or least of numbers that may be large, but for those whose lower half is 0."""
    x = value.inputs[0]
    return may_be_large(x) and not is_half(x)


def extreme_by_halves(m: Match, value: Value) -> Value | None:
    """ReduceMax(x) -> that of the upper halves, and that of the lower halves of those that have it"""
    x, axes = value.inputs[0], reduced_axes(value)
    if x is None or axes is None:
        return None
    high, low = (op.BitwiseAnd(x, const(np.array(mask, x.dtype.numpy))) for mask in (HIGH, LOW))
    along = vector(list(axes))
    top = call(value.op, [high, along], {"keepdims": 1})
    out = const(np.array(0 if value.op == "ReduceMax" else LOW, x.dtype.numpy))
    rest = call(value.op, [op.Where(is_zero(op.Sub(high, top)), low, out), along], {"keepdims": 1})
    return without_axes(value, op.Add(top, rest), axes)


# ---------------------------------------------------------------------------------------------- products


def multiplies_many(value: Value) -> bool:
    """True for a product of bytes each of whose sums is of more products than a float32 adds up."""
    x = value.inputs[0]
    size = x.shape[-1] if x is not None and x.rank else 1
    return type(size) is not int or size > RUN


def multiplied_in_runs(m: Match, value: Value) -> Value | None:
    """MatMulInteger(a, b) -> the sum of those of runs of the axis that they share"""
    a, b, *points = value.inputs
    if a is None or b is None or type(a.shape[-1]) is not int or any(v is not None and v.rank > 0 for v in points[:1]):
        return None
    parts: list[Value] = []
    for begin in range(0, a.shape[-1], RUN):
        ends = vector([begin]), vector([min(begin + RUN, a.shape[-1])])
        part = op.Slice(a, *ends, vector([-1])), op.Slice(b, *ends, vector([-1 if b.rank == 1 else -2]))
        parts.append(call("MatMulInteger", [*part, *points]))
    return reduce(op.Add, parts)


def convolves_many(value: Value) -> bool:
    """True for a convolution of bytes each of whose sums is of more products than a float32 adds up."""
    kernel = value.inputs[1]
    sizes = kernel.shape[1:] if kernel is not None else ()
    return any(type(size) is not int for size in sizes) or math.prod(s for s in sizes if type(s) is int) > RUN


def convolved_in_runs(m: Match, value: Value) -> Value | None:
    """ConvInteger(x, w) -> the sum of those of runs of channels"""
    x, kernel, *points = value.inputs
    if x is None or kernel is None or value.attribute("group", 1) != 1:
        return None
    sizes = [size for size in kernel.shape[1:] if type(size) is int]
    step = RUN // math.prod(sizes[1:]) if len(sizes) == kernel.rank - 1 else 0
    if not step:
        return None
    parts: list[Value] = []
    for begin in range(0, sizes[0], step):
        ends = vector([begin]), vector([min(begin + step, sizes[0])]), vector([1])
        part = call("ConvInteger", [op.Slice(x, *ends), op.Slice(kernel, *ends), *points], dict(value.attributes))
        parts.append(op.BitwiseAnd(part, const(np.int32(-1))))  # or else the sum is a step of the convolution
    return reduce(op.Add, parts)


def multiplied_out(m: Match, value: Value) -> Value | None:
    """Gemm(a, b, c) of integers -> MatMul(a, b) + c"""
    a, b, c = (*value.inputs, None)[:3]
    if a is None or b is None or value.attribute("alpha", 1.0) != 1.0 or value.attribute("beta", 1.0) != 1.0:
        return None
    a = op.Transpose(a, perm=[1, 0]) if value.attribute("transA", 0) else a
    b = op.Transpose(b, perm=[1, 0]) if value.attribute("transB", 0) else b
    found = op.MatMul(a, b)
    return found if c is None else op.Add(found, c)


def is_power_of_integers(value: Value) -> bool:
    """True for an integer raised to an integer."""
    power = value.inputs[1]
    return value.dtype in WIDE and power is not None and power.dtype.is_integer


def power_by_products(m: Match, value: Value) -> Value | None:
    """x ** n of integers -> products of squares of x, as the bits of n say"""
    x, n = value.inputs
    if x is None or n is None:
        return None
    one = const(np.ones((), x.dtype.numpy))
    known = int(n.blob.array.reshape(())) if n.blob is not None and n.blob.size == 1 else None
    if known is not None and known >= 0:
        squares = [x]
        while 2 ** len(squares) <= known:
            squares.append(op.Mul(squares[-1], squares[-1]))
        factors = [each for at, each in enumerate(squares) if known >> at & 1]
        found = reduce(op.Mul, factors) if factors else op.Add(op.Mul(x, const(np.zeros((), x.dtype.numpy))), one)
        return expanded_as(value, found)
    found, square = one, x
    for at in range(ROUNDS):
        bit = op.Min(op.BitwiseAnd(n, const(np.array(1 << at, n.dtype.numpy))), const(np.ones((), n.dtype.numpy)))
        taken = op.Cast(bit, to=x.dtype)
        found = op.Mul(found, op.Add(op.Mul(op.Sub(square, one), taken), one))
        square = op.Mul(square, square)
    below = op.Min(op.Sign(op.Cast(n, to=x.dtype)), const(np.zeros((), x.dtype.numpy)))  # -1 for 1 / x ** -n
    others = op.Sign(op.Abs(op.Sub(op.Abs(x), one)))  # 0 for 1 and -1 alone, which have such a power that is not 0
    return op.Mul(found, op.Add(op.Mul(below, others), one))


def expanded_as(value: Value, found: Value) -> Value | None:
    """The result, where it has the shape that the power has"""
    return found if found.type == value.type else None


# ---------------------------------------------------------------------------------------------- without a sign


def is_unsigned(value: Value) -> bool:
    """True for integers without a sign, of 32 bits or more."""
    return value.dtype in (DType.UINT32, DType.UINT64)


def sign_or_size(m: Match, value: Value) -> Value | None:
    """Abs(x) -> x; Sign(x) -> 0 where x is 0, and 1"""
    x = value.inputs[0]
    if x is None or value.op == "Abs":
        return x
    zero, one = (const(np.array(n, x.dtype.numpy)) for n in (0, 1))
    return op.Where(is_zero(x), zero, one)
