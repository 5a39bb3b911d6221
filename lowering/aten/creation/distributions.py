"""Random numbers of distributions whose parameters are tensors: Poisson's, the binomial, gamma's and Dirichlet's.

Small counts come by inversion: as many as there are sums of probabilities that one draw reaches. Large ones, and
gamma's numbers, come by rejection, as in torch, for all elements at once: a Loop draws until each has been accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.creation.draws import gaussian, uniform
from lowering.aten.reduction.reduce import some
from lowering.aten.special.gamma import aten_lgamma
from lowering.tensors.promotion import cast, promote, scalar
from lowering.tensors.shaping import broadcast_shape, expand, unsqueeze

FEW = 10
"""Below this mean a count comes by inversion."""
COUNTS = 48
"""Counts that inversion knows: with a mean below `FEW` a larger one has a probability below 1e-17."""


def finer(x: Value) -> Value:
    """Numbers from [0, 1) in the shape of x, of 48 bits: a draw of f32 has 24, too few for what is rare."""
    both = op.Add(uniform(x.shape, DType.DOUBLE), op.Mul(uniform(x.shape, DType.DOUBLE), 2.0**-24))
    return op.Sub(both, op.Floor(both))


def accepted(wanted: Value, draw: Callable[[], tuple[Value, Value]]) -> Value:
    """For each element where `wanted` is true the first number that `draw` accepts, else 0.

    `draw` gives (numbers of f64, whether each is accepted), of the shape of `wanted`, anew in each turn.
    """

    def turn(i: Value, go_on: Value, found: Value, missing: Value) -> tuple[Value, Value, Value]:
        numbers, good = draw()
        rest = op.And(missing, op.Not(good))
        return some(rest, None, False), op.Where(op.And(missing, good), numbers, found), rest

    nothing = expand(scalar(0, DType.DOUBLE), wanted.shape)
    return op.Loop(None, some(wanted, None, False), nothing, wanted, body=turn)[0]


def inverted(x: Value, log_probability: Callable[[Value], Value]) -> Value:
    """Counts in the shape of x, given the logarithm of the probability of each of 0, 1, ... along a new last axis."""
    counts = const(np.arange(COUNTS, dtype=np.float64))
    reached = op.CumSum(op.Exp(log_probability(counts)), scalar(-1, DType.INT64))
    passed = op.GreaterOrEqual(unsqueeze(finer(x), -1), reached)
    return op.ReduceSum(cast(passed, DType.DOUBLE), [-1], keepdims=0)


def transformed(
    center: Value, a: Value, b: Value, scale: Value, log_ratio: Callable[[Value], Value]
) -> tuple[Value, Value]:
    """One draw of a large count by Hoermann's transformed rejection: (count, whether it is accepted).

    `log_ratio(k)` is the logarithm of the probability of k, over what `scale` is measured by.
    """
    u, v = op.Sub(finer(center), 0.5), finer(center)
    us = op.Sub(0.5, op.Abs(u))
    k = op.Floor(op.Add(op.Mul(op.Add(op.Div(op.Mul(a, 2.0), us), b), u), center))
    height = op.Log(op.Div(op.Mul(v, scale), op.Add(op.Div(a, op.Mul(us, us)), b)))
    known = op.And(op.GreaterOrEqual(k, 0.0), op.Or(op.GreaterOrEqual(us, 0.013), op.LessOrEqual(v, us)))
    at = op.Where(known, k, 0.0)
    return k, op.And(known, op.LessOrEqual(height, log_ratio(at)))


def log_factorial(k: Value) -> Value:
    """log(k!)"""
    return aten_lgamma(op.Add(k, 1.0))


# ---------------------------------------------------------------------------------------------- counts


def aten_poisson(self: Value) -> Value:
    """Counts of what happens as often as self says, on average: 0 for 0, self where it is not finite."""
    rate = cast(self, DType.DOUBLE)
    large = op.And(op.GreaterOrEqual(rate, float(FEW)), op.Less(rate, math.inf))
    few = op.And(op.Greater(rate, 0.0), op.Less(rate, float(FEW)))
    small = op.Where(few, rate, 1.0)

    def log_of_few(k: Value) -> Value:
        mean = unsqueeze(small, -1)
        return op.Sub(op.Sub(op.Mul(k, op.Log(mean)), mean), log_factorial(k))

    safe = op.Where(large, rate, float(FEW))
    b = op.Add(op.Mul(op.Sqrt(safe), 2.53), 0.931)
    a = op.Add(op.Mul(b, 0.02483), -0.059)
    scale = op.Add(op.Div(1.1328, op.Sub(b, 3.4)), 1.1239)

    def log_of_many(k: Value) -> Value:
        return op.Sub(op.Sub(op.Mul(k, op.Log(safe)), safe), log_factorial(k))

    many = accepted(large, lambda: transformed(op.Add(safe, 0.43), a, b, scale, log_of_many))
    counted = op.Where(few, inverted(small, log_of_few), rate)
    return cast(op.Where(large, many, counted), self.dtype)


def aten_binomial(count: Value, prob: Value) -> Value:
    """How many of `count` trials succeed, each with the probability `prob`: of one shape, after broadcasting."""
    trials, chance = promote(count, prob)
    shape = broadcast_shape(trials.shape, chance.shape)
    n, p = (expand(cast(v, DType.DOUBLE), shape) for v in (trials, chance))
    rare = op.LessOrEqual(p, 0.5)
    less = op.Where(rare, p, op.Sub(1.0, p))  # of what is rarer, successes or failures
    mean = op.Mul(n, less)
    large = op.GreaterOrEqual(mean, float(FEW))
    few = op.And(op.Greater(mean, 0.0), op.Not(large))

    def log_ratio(n: Value, p: Value, k: Value) -> Value:
        """The logarithm of n over k times p ** k (1 - p) ** (n - k), -inf beyond n"""
        rest = op.Max(op.Sub(n, k), 0.0)
        ways = op.Sub(op.Sub(log_factorial(n), log_factorial(k)), log_factorial(rest))
        made = op.Add(ways, op.Add(op.Mul(k, op.Log(p)), op.Mul(rest, op.Log(op.Sub(1.0, p)))))
        return op.Where(op.Greater(k, n), -math.inf, made)

    n_few, p_few = op.Where(few, n, 1.0), op.Where(few, less, 0.5)
    counted = inverted(n, lambda k: log_ratio(unsqueeze(n_few, -1), unsqueeze(p_few, -1), k))
    n_many, p_many = op.Where(large, n, 4.0 * FEW), op.Where(large, less, 0.5)
    spread = op.Sqrt(op.Mul(op.Mul(n_many, p_many), op.Sub(1.0, p_many)))
    b = op.Add(op.Mul(spread, 2.53), 1.15)
    a = op.Add(op.Add(op.Mul(b, 0.0248), -0.0873), op.Mul(p_many, 0.01))
    scale = op.Mul(op.Add(op.Div(5.1, b), 2.83), spread)
    peak = log_ratio(n_many, p_many, op.Floor(op.Mul(op.Add(n_many, 1.0), p_many)))
    center = op.Add(op.Mul(n_many, p_many), 0.5)
    many = accepted(
        large, lambda: transformed(center, a, b, scale, lambda k: op.Sub(log_ratio(n_many, p_many, k), peak))
    )
    found = op.Where(large, many, op.Where(few, op.Min(counted, n), mean))
    return cast(op.Where(rare, found, op.Sub(n, found)), trials.dtype)


# ---------------------------------------------------------------------------------------------- gamma


def gamma(shape: Value) -> Value:
    """Numbers of gamma's distribution, in f64, by Marsaglia's and Tsang's rejection; a shape below 1 is raised by 1,
    and the number multiplied by u ** (1 / shape)."""
    whole = op.GreaterOrEqual(shape, 1.0)
    d = op.Sub(op.Where(whole, shape, op.Add(shape, 1.0)), 1 / 3)
    c = op.Reciprocal(op.Sqrt(op.Mul(d, 9.0)))

    def draw() -> tuple[Value, Value]:
        x = gaussian(shape.shape, DType.DOUBLE)
        base = op.Add(op.Mul(c, x), 1.0)
        v = op.Mul(op.Mul(base, base), base)
        good = op.Greater(base, 0.0)
        log_v = op.Log(op.Where(good, v, 1.0))
        bound = op.Add(op.Mul(op.Mul(x, x), 0.5), op.Mul(d, op.Add(op.Sub(1.0, v), log_v)))
        return op.Mul(d, v), op.And(good, op.Less(op.Log(finer(shape)), bound))

    made = accepted(op.And(op.Greater(shape, 0.0), op.Less(shape, math.inf)), draw)
    factor = op.Pow(op.Sub(1.0, finer(shape)), op.Reciprocal(op.Where(whole, 1.0, shape)))
    return op.Where(whole, made, op.Mul(made, factor))


def aten__standard_gamma(self: Value) -> Value:
    """Numbers of gamma's distribution of the shapes self and of scale 1; at least the smallest normal one."""
    least = float(np.finfo(np.float32).tiny) if self.dtype is DType.BFLOAT16 else float(np.finfo(self.dtype.numpy).tiny)
    return cast(op.Max(gamma(cast(self, DType.DOUBLE)), least), self.dtype)


def aten__sample_dirichlet(self: Value) -> Value:
    """Shares that add up to 1 along the last axis, of Dirichlet's distribution."""
    made = gamma(cast(self, DType.DOUBLE))
    return cast(op.Div(made, op.ReduceSum(made, [-1], keepdims=1)), self.dtype)
