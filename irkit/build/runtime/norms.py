"""Definitions of ONNX Runtime's normalizations. Half types are computed in float32 and rounded once, as it does."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build.runtime.application import Application, narrow, number, op, vector, wide
from irkit.core.ir import Value
from irkit.core.types import DType


def skip_layer_normalization(
    a: Application, x: Value, skip: Value, gamma: Value, beta: Value | None, bias: Value | None
) -> tuple[Value, ...]:
    """(LayerNormalization(s), its mean, 1 / its deviation, s) along the last axis, where s is x + skip + bias, and skip
    may lack the batch"""
    total = summed(a, x, skip, bias)
    scale, shift = wide(gamma), None if beta is None else wide(beta)
    found = op.LayerNormalization(total, scale, shift, epsilon=a.attr("epsilon"))
    if not a.wants(1):
        return (narrow(found, x),)
    mean = op.ReduceMean(total, vector(-1))
    rest = op.Sub(total, mean)
    return narrow(found, x), as_float(mean), as_float(inverse_root(a, rest)), narrow(total, x)


def skip_simplified_layer_normalization(
    a: Application, x: Value, skip: Value, gamma: Value, bias: Value | None
) -> tuple[Value, ...]:
    """(RMSNormalization(s), the mean of s, 1 / sqrt(mean(s^2) + epsilon), s) along the last axis, where s is
    x + skip + bias, and skip may lack the batch"""
    total = summed(a, x, skip, bias)
    found = op.RMSNormalization(total, wide(gamma), epsilon=a.attr("epsilon"))
    if not a.wants(1):
        return (narrow(found, x),)
    mean = op.ReduceMean(total, vector(-1))
    return narrow(found, x), as_float(mean), as_float(inverse_root(a, total)), narrow(total, x)


def inverse_root(a: Application, x: Value) -> Value:
    """1 / sqrt(mean(x^2) + epsilon) along the last axis."""
    return op.Reciprocal(op.Sqrt(op.Add(op.ReduceMean(op.Mul(x, x), vector(-1)), number(x, a.attr("epsilon")))))


def as_float(x: Value) -> Value:
    """x as float32, in which ONNX Runtime gives what it computed on the way."""
    return x if x.dtype is DType.FLOAT else op.Cast(x, to=DType.FLOAT)


def summed(a: Application, x: Value, skip: Value, bias: Value | None) -> Value:
    """x + skip + bias in the element type that ONNX Runtime computes in."""
    if x.rank not in (2, 3) or skip.rank not in (2, 3) or skip.rank > x.rank:
        raise a.fail("operand input must have rank 2 or 3, and skip its rank or that of one of its matrices")
    for mine, its in zip(reversed(skip.shape), reversed(x.shape), strict=False):
        if dims.same(mine, its) is False and not (mine == 1 and skip.rank == 3):
            raise a.fail("skip does not fit input")
    for row in a.inputs[2:]:
        if row is not None and (row.rank != 1 or dims.same(row.shape[0], x.shape[-1]) is False):
            raise a.fail("gamma, beta and bias must be vectors of the size of the last axis")
    total = op.Add(wide(x), wide(skip))
    return total if bias is None else op.Add(total, wide(bias))


def simplified_layer_normalization(a: Application, x: Value, scale: Value) -> tuple[Value, ...]:
    """(x * scale / sqrt(mean(x^2) + epsilon), 1 / sqrt(mean(x^2) + epsilon)) over the axes from `axis` on"""
    axis = a.attr("axis", -1) % x.rank
    inner = wide(x)
    epsilon = a.attr("epsilon", 1e-5)
    if not a.wants(1):
        return (narrow(op.RMSNormalization(inner, narrow(scale, inner), axis=axis, epsilon=epsilon), scale),)
    axes = vector(*range(axis, x.rank))
    factor = op.Reciprocal(op.Sqrt(op.Add(op.ReduceMean(op.Mul(inner, inner), axes), number(inner, epsilon))))
    found = op.Mul(op.Mul(inner, factor), narrow(scale, inner))
    return narrow(found, scale), factor


def embed_layer_normalization(
    a: Application,
    ids: Value,
    segments: Value | None,
    words: Value,
    positions: Value,
    segment_table: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None,
    position_ids: Value | None,
) -> tuple[Value, ...]:
    """(LayerNormalization(s), mask index, s), where s sums the embeddings of word, position and segment"""
    if ids.rank != 2:
        raise a.fail("input_ids must have rank 2")
    if not a.wants(1):
        raise a.fail("ONNX Runtime takes it with two results at least")
    if (segments is None) != (segment_table is None):
        raise a.fail("segment_ids and segment_embedding come together")
    places = op.Unsqueeze(a.ordinals(ids.shape[1]), vector(0)) if position_ids is None else position_ids
    total = op.Add(op.Gather(words, ids), op.Gather(positions, places))
    if segments is not None and segment_table is not None:
        total = op.Add(total, op.Gather(segment_table, segments))
    found = op.LayerNormalization(wide(total), wide(gamma), wide(beta), epsilon=a.attr("epsilon"))
    return narrow(found, words), mask_index(a, ids, mask), total


def mask_index(a: Application, ids: Value, mask: Value | None) -> Value:
    """How many ones each row of the mask holds, as int32: where the padding to the right begins; zeros without one."""
    if mask is None:
        return op.ConstantOfShape(a.sizes((ids.shape[0],)), value=np.zeros(1, np.int32))
    return op.ReduceSum(op.Cast(mask, to=DType.INT32), vector(1), keepdims=0)
