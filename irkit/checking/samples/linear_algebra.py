"""Samples of products and determinants of matrices."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.checking.samples.casts import I8, scale
from irkit.checking.samples.sampler import F32, FLOATS, U8, Sampler
from irkit.core.ir import Value


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


def sample_MatMulInteger(s: Sampler) -> Value:
    """Of bytes."""
    x = s.tensor((U8, I8), 1, 3)
    return op.MatMulInteger(x, s.of(x.dtype, (x.shape[-1], 2)), s.of(x.dtype, ()))


def sample_QLinearMatMul(s: Sampler) -> Value:
    """Of bytes."""
    a, b = s.of(U8, (s.choose(s.sizes), 3)), s.of(U8, (3, 2))
    zero = const(np.array(1, np.uint8))
    return op.QLinearMatMul(a, scale(s), zero, b, scale(s), zero, scale(s), zero)
