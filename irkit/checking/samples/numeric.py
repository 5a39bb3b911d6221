"""Samples of reductions, products, convolutions, pools, norms, sorting."""

from __future__ import annotations

from collections.abc import Callable

from irkit.build import call, op
from irkit.checking.samples.sampler import F32, FLOATS, I64, NUMBERS, Sampler, has_static_axis, is_static, static_axis
from irkit.core.ir import Value


def reduction(name: str, kinds: tuple = NUMBERS, empty: bool = False) -> Callable[[Sampler], Value]:
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


def sample_Det(s: Sampler) -> Value:
    """Of small matrices."""
    size = s.integer(1, 2)
    return op.Det(s.of(F32, (*s.shape(0, 1), size, size)))


def sample_Einsum(s: Sampler) -> Value:
    """A product of matrices, an outer product, a trace of rows."""
    x = s.tensor(FLOATS, 2, 2)
    y = s.of(x.dtype, (x.shape[1], s.choose(s.sizes)))
    equation = s.choose(("ij,jk->ik", "ij,jk->k", "ij,jk->jik"))
    return op.Einsum(x, y, equation=equation)


def sample_EyeLike(s: Sampler) -> Value:
    """Ones on one diagonal."""
    return op.EyeLike(s.tensor(NUMBERS, 2, 2), k=s.integer(-1, 1))


def sample_CumSum(s: Sampler) -> Value:
    """In either direction."""
    x = s.tensor(NUMBERS, 1)
    return op.CumSum(x, s.axis(x.rank), exclusive=s.integer(0, 1), reverse=s.integer(0, 1))


def sample_TopK(s: Sampler) -> tuple[Value, ...]:
    """Both results."""
    x = s.tensor(NUMBERS, 1, 4, has_static_axis)
    axis = static_axis(s, x)
    return op.TopK(x, [s.integer(1, int(x.shape[axis]))], axis=axis, largest=s.integer(0, 1))


def sample_MatMul(s: Sampler) -> Value:
    """Of vectors, matrices, or stacks of matrices."""
    x = s.tensor(FLOATS, 1, 3)
    return op.MatMul(x, s.of(x.dtype, (x.shape[-1], *s.shape(0, 1))))


def sample_Gemm(s: Sampler) -> Value:
    """With and without transposition and bias."""
    x = s.tensor(FLOATS, 2, 2)
    flip_a, flip_b = s.flag(), s.flag()
    inner, outer = x.shape[0 if flip_a else 1], s.choose(s.sizes)
    y = s.of(x.dtype, (outer, inner) if flip_b else (inner, outer))
    bias = s.of(x.dtype, (outer,)) if s.flag() else None
    return op.Gemm(x, y, bias, transA=int(flip_a), transB=int(flip_b), alpha=s.choose((1.0, 0.5)))


def sample_Conv(s: Sampler) -> Value:
    """Over one axis, padded so that no kernel is larger than its input."""
    x = s.of(F32, (s.choose(s.sizes), s.integer(1, 3), s.integer(1, 3)))
    weight = s.of(F32, (s.integer(1, 2), x.shape[1], 3))
    bias = s.of(F32, (weight.shape[0],)) if s.flag() else None
    return op.Conv(x, weight, bias, pads=[1, 1], strides=[s.integer(1, 2)])


def sample_MaxPool(s: Sampler) -> Value:
    """Over one axis."""
    x = s.of(F32, (s.choose(s.sizes), s.integer(1, 3), s.integer(2, 3)))
    return op.MaxPool(x, kernel_shape=[2], strides=[s.integer(1, 2)])


def sample_LayerNormalization(s: Sampler) -> Value:
    """Over the last axis."""
    x = s.tensor((F32,), 1, 4, lambda t: type(t.shape[-1]) is int and t.shape[-1] > 0)
    return op.LayerNormalization(x, s.of(F32, (x.shape[-1],)), s.of(F32, (x.shape[-1],)) if s.flag() else None)


def sample_OneHot(s: Sampler) -> Value:
    """Of indices."""
    return op.OneHot(s.tensor((I64,), 1, 3), [3], [0.0, 1.0], axis=-1)
