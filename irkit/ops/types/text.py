"""Type rules of operators on strings."""

from __future__ import annotations

from irkit import dims
from irkit.core.types import DType, Tensor, Type
from irkit.ops.types.context import Context, broadcast


def infer_StringConcat(c: Context) -> Type:
    """x[...], y[...] -> strings, broadcast"""
    return Tensor(DType.STRING, broadcast(c, c.shape(0), c.shape(1)))


def infer_StringNormalizer(c: Context) -> Type:
    """x[n] or x[1, n] -> as many strings as are no stop words, at least one"""
    x = c.ranked(0, 1, 2)
    if not c.attr("stopwords"):
        return x
    return Tensor(x.dtype, (*x.shape[:-1], dims.fresh()))


def infer_StringSplit(c: Context) -> tuple[Type, ...]:
    """x[...] -> parts[..., most parts], i64[...]"""
    x = c.tensor(0)
    return Tensor(DType.STRING, (*x.shape, dims.fresh())), Tensor(DType.INT64, x.shape)


def infer_RegexFullMatch(c: Context) -> Type:
    """x[...] -> bool[...]"""
    return Tensor(DType.BOOL, c.shape(0))


def infer_TfIdfVectorizer(c: Context) -> Type:
    """x[n] or x[b, n] -> f32[places] or f32[b, places], as many places as `ngram_indexes` names"""
    x = c.ranked(0, 1, 2)
    return Tensor(DType.FLOAT, (*x.shape[:-1], max(c.attr("ngram_indexes"), default=-1) + 1))
