"""Operators by others, for runtimes that have them and get some of their uses wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irkit.build import call, const, op
from irkit.core.ir import Value
from irkit.core.types import DType, types_of
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import is_known, number, vector
from passes.legal.runtime.expansions import attention, attention_of_heads, causal, heads_of, ordinals, pad_wrap

__all__ = ["attention", "attention_of_heads", "causal", "gather_elements", "heads_of", "pad_wrap", "split_by_slices"]

Expansion = Callable[[Match, Value], Any]


def gather_elements(m: Match, value: Value) -> Value | None:
    """GatherElements(x, indices) -> GatherND(x, places), with the place of each element along every axis"""
    x, indices = value.inputs
    if x is None or indices is None or not is_known(indices.shape) or not is_bound(m, indices.shape, bound_by(indices)):
        return None
    axis, rank = value.attribute("axis", 0) % x.rank, x.rank
    whole = sizes_value(m, indices.shape, 1, bound_by(indices))
    parts: list[Value] = []
    for at, size in enumerate(indices.shape):
        if at == axis:
            places: Value = op.Cast(indices, to=DType.INT64) if indices.dtype is not DType.INT64 else indices
        else:
            line = ordinals(m, size, indices)
            if line is None:
                return None
            beside = [i for i in range(rank) if i != at]
            places = op.Expand(op.Unsqueeze(line, vector(beside)) if beside else line, whole)
        parts.append(op.Unsqueeze(places, vector([rank])))
    return op.GatherND(x, op.Concat(*parts, axis=rank))


def split_by_slices(m: Match, value: Value) -> Any:
    """Split(x, sizes) -> a Slice for each part, from the sum of the sizes before it to that of those up to it"""
    x, sizes = value.inputs[0], value.inputs[1] if len(value.inputs) > 1 else None
    if x is None or sizes is None or sizes.blob is not None:
        return None
    axis = vector([value.attribute("axis", 0) % x.rank])
    ends = op.CumSum(sizes, 0)
    starts = op.Sub(ends, sizes)
    spans = [(vector([i]), vector([i + 1])) for i in range(len(types_of(value.type)))]
    return tuple([op.Slice(x, op.Slice(starts, *span), op.Slice(ends, *span), axis) for span in spans])


def conv_transpose_by_groups(m: Match, value: Value) -> Value | None:
    """ConvTranspose of groups -> a ConvTranspose of the channels of each group, joined"""
    x, weight = value.inputs[:2]
    bias = value.inputs[2] if len(value.inputs) > 2 else None
    groups = value.attribute("group", 1)
    if x is None or weight is None or type(x.shape[1]) is not int or type(value.shape[1]) is not int:
        return None
    given = {name: content for name, content in value.attributes if name != "group"}
    taken, made = x.shape[1] // groups, value.shape[1] // groups
    parts = [
        call(
            "ConvTranspose",
            [
                op.Slice(x, vector([i * taken]), vector([(i + 1) * taken]), vector([1])),
                op.Slice(weight, vector([i * taken]), vector([(i + 1) * taken]), vector([0])),
                None if bias is None else op.Slice(bias, vector([i * made]), vector([(i + 1) * made]), vector([0])),
            ],
            given,
        )
        for i in range(groups)
    ]
    return op.Concat(*parts, axis=1)


def constant_expanded(m: Match, value: Value) -> Value | None:
    """ConstantOfShape(shape) -> Expand(number, shape)"""
    shape, fill = value.inputs[0], value.attribute("value")
    zero = np.zeros((), value.dtype.numpy) if fill is None else fill.array.reshape(())
    return None if shape is None else op.Expand(const(zero), shape)


def normalized_by(m: Match, value: Value) -> Value | None:
    """BatchNormalization(x, scale, bias, mean, variance) -> (x - mean) / sqrt(variance + epsilon) * scale + bias"""
    x, given = value.inputs[0], [v for v in value.inputs[1:] if v is not None]
    if x is None or len(given) != 4 or value.attribute("training_mode"):
        return None
    axes = vector(range(1, x.rank - 1))
    scale, bias, mean, variance = (op.Unsqueeze(v, axes) if x.rank > 2 else v for v in given)
    root = op.Sqrt(op.Add(variance, number(variance, attribute_of(value, "epsilon"))))
    return op.Add(op.Mul(op.Div(op.Sub(x, mean), root), scale), bias)


def expand_of_scalar(m: Match, value: Value) -> Value | None:
    """Expand(x, ()) of a scalar -> x"""
    x = value.inputs[0]
    return x if x is not None and x.rank == value.rank == 0 else None
