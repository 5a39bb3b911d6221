"""Samples of reductions, running sums and losses."""

from __future__ import annotations

from collections.abc import Callable

from irkit.build import call, const, op
from irkit.checking.samples.movement import indices
from irkit.checking.samples.sampler import F32, FLOATS, NUMBERS, Sampler, has_static_axis, is_static, static_axis
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.support.results import as_tuple


def reduction(name: str, kinds: tuple[DType, ...] = NUMBERS, empty: bool = False) -> Callable[[Sampler], Value]:
    """The sample of a reduction over one axis, or all where the tensor is known not to be empty."""

    def sample(s: Sampler) -> Value:
        if s.rarely():
            return call(name, [s.tensor(kinds, 0, 4, None if empty else is_static)], {"keepdims": s.integer(0, 1)})
        x = s.tensor(kinds, 1, 4, None if empty else has_static_axis)
        axis = s.axis(x.rank) if empty else static_axis(s, x)
        return call(name, [x, [axis]], {"keepdims": s.integer(0, 1)})

    return sample


sample_ReduceSum, sample_ReduceMax = reduction("ReduceSum", empty=True), reduction("ReduceMax")
sample_ReduceMin, sample_ReduceMean = reduction("ReduceMin"), reduction("ReduceMean", FLOATS)
sample_ReduceProd, sample_ReduceL2 = reduction("ReduceProd"), reduction("ReduceL2", FLOATS)
sample_ReduceSumSquare, sample_ReduceL1 = reduction("ReduceSumSquare"), reduction("ReduceL1")
sample_ReduceLogSum, sample_ReduceLogSumExp = reduction("ReduceLogSum", FLOATS), reduction("ReduceLogSumExp", FLOATS)


def sample_ArgMax(s: Sampler) -> Value:
    """Along an axis that is not empty."""
    x = s.tensor(NUMBERS, 1, 4, has_static_axis)
    return op.ArgMax(x, axis=static_axis(s, x), keepdims=s.integer(0, 1))


def sample_ArgMin(s: Sampler) -> Value:
    """Along an axis that is not empty."""
    x = s.tensor(NUMBERS, 1, 4, has_static_axis)
    return op.ArgMin(x, axis=static_axis(s, x), keepdims=s.integer(0, 1))


def sample_CumProd(s: Sampler) -> Value:
    """In either direction."""
    x = s.tensor(NUMBERS, 1)
    return op.CumProd(x, s.axis(x.rank), exclusive=s.integer(0, 1), reverse=s.integer(0, 1))


def sample_CumSum(s: Sampler) -> Value:
    """In either direction."""
    x = s.tensor(NUMBERS, 1)
    return op.CumSum(x, s.axis(x.rank), exclusive=s.integer(0, 1), reverse=s.integer(0, 1))


def labels(s: Sampler) -> tuple[Value, Value]:
    """Scores of three classes, and which is meant."""
    x = s.of(F32, (s.integer(1, 3), 3))
    return x, const(indices(s, (int(x.shape[0]),), 3) % 3)


def sample_NegativeLogLikelihoodLoss(s: Sampler) -> Value:
    """In every reduction."""
    return op.NegativeLogLikelihoodLoss(*labels(s), reduction=s.choose(("mean", "sum", "none")))


def sample_SoftmaxCrossEntropyLoss(s: Sampler) -> Value:
    """In every reduction."""
    return as_tuple(op.SoftmaxCrossEntropyLoss(*labels(s), reduction=s.choose(("mean", "sum", "none")), outputs=1))[0]
