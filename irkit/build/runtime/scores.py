"""What ONNX Runtime's attentions have in common: heads, causal and padding masks, softmax of scores."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from irkit import dims
from irkit.build.runtime.application import Application, number, op, vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim


def split_heads(a: Application, x: Value, count: int) -> Value:
    """(batch, length, count * size) as (batch, count, length, size)."""
    size = dims.floordiv(x.shape[-1], count)
    if type(size) is not int:
        raise a.fail("the size of a head is not known")
    return op.Transpose(op.Reshape(x, vector(0, 0, count, size)), perm=(0, 2, 1, 3))


def joined_heads(a: Application, x: Value) -> Value:
    """(batch, count, length, size) as (batch, length, count * size)."""
    width = dims.mul(x.shape[1], x.shape[3])
    if type(width) is not int:
        raise a.fail("the size of a head is not known")
    return op.Reshape(op.Transpose(x, perm=(0, 2, 1, 3)), vector(0, 0, width))


def repeated_heads(a: Application, x: Value, times: int) -> Value:
    """(batch, heads, length, size) with each head there `times` times, one after the other."""
    if times == 1:
        return x
    batch, heads, length, size = x.shape
    wide = op.Expand(op.Unsqueeze(x, vector(2)), vector(1, 1, times, 1, 1))
    if type(heads) is not int or type(size) is not int:
        raise a.fail("the number of heads is not known")
    if type(length) is not int and dims.is_fresh(length):
        return op.Reshape(wide, vector(0, heads * times, -1, size))
    return op.Reshape(wide, a.sizes((batch, heads * times, length, size)))


def attention_of(
    a: Application,
    q: Value,
    k: Value,
    v: Value,
    biases: Iterable[Value],
    *,
    scale: float = 0.0,
    softcap: float = 0.0,
    hidden: Value | None = None,
    sink: Value | None = None,
) -> Value:
    """softmax(capped(scale * q @ k^T) + biases) @ v, all of rank 4; keys where `hidden` is True get no share at all.

    A `scale` of 0 is 1 / sqrt(size of a head). `sink` is one more score, of no key, that takes its share.
    """
    size = q.shape[-1]
    if not scale and type(size) is not int:
        raise a.fail("the size of a head is not known")
    factor = scale or 1 / math.sqrt(max(int(size), 1))
    scores = op.MatMul(op.Mul(q, number(q, factor)), op.Transpose(k, perm=(0, 1, 3, 2)))
    if softcap:
        scores = op.Mul(op.Tanh(op.Div(scores, number(scores, softcap))), number(scores, softcap))
    for bias in biases:
        scores = op.Add(scores, bias)
    if hidden is not None:
        scores = op.Where(hidden, number(scores, -np.inf), scores)
    if sink is None:
        return op.MatMul(op.Softmax(scores, axis=-1), v)
    top = op.Max(op.ReduceMax(scores, vector(-1), keepdims=1), sink)
    powers = op.Exp(op.Sub(scores, top))
    total = op.Add(op.ReduceSum(powers, vector(-1), keepdims=1), op.Exp(op.Sub(sink, top)))
    return op.MatMul(op.Div(powers, total), v)


def later(a: Application, queries: Dim, keys: Dim, before: Dim) -> Value:
    """(queries, keys): True where a key comes after the query, before the first of which there are `before` keys."""
    rows = op.Add(op.Unsqueeze(a.ordinals(queries), vector(1)), a.size(before))
    return op.Greater(a.ordinals(keys), rows)


def penalty(like: Value, forbidden: Value, content: float) -> Value:
    """`content` where `forbidden`, 0 elsewhere: what is added to scores."""
    return op.Where(forbidden, number(like, content), number(like, 0))


def mask_bias(x: Value, mask: Value, content: float) -> Value:
    """What is added to scores for a mask of integers: `content` where it is not above 0."""
    return penalty(x, op.LessOrEqual(mask, number(mask, 0)), content)


def as_int64(x: Value) -> Value:
    """x as int64."""
    return x if x.dtype is DType.INT64 else op.Cast(x, to=DType.INT64)
