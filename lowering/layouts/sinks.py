"""Attention with sinks: scores of no key, one for each head, which the softmax counts and the result leaves out.

ONNX's Attention has none, and so a decoder with sinks (gpt-oss) computes each step by itself. What is read here off
those steps is an Attention without sinks, and the sinks beside it, which GroupQueryAttention takes as `head_sink`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import attrs
import ml_dtypes
import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Graph, Value
from irkit.core.types import DType
from irkit.pattern import uniform
from passes.analysis.questions import VIEWS, axes_of, same_shape


@attrs.frozen(eq=False)
class Sunk:
    """What computes `output` in a graph: an Attention in float32, and `sinks`, one for each head, that it has not."""

    attention: Value
    output: Value
    sinks: Value


def sunk_attention(graph: Graph, past: Sequence[Value], present: Sequence[Value]) -> Sunk | None:
    """The attention with sinks whose keys and values were `past` and become `present`; None where the graph has no such
    one, or reads one of its steps elsewhere."""
    new = [appended(now, old) for now, old in zip(present, past, strict=True)]
    product = next((each for each in reached(graph, [present[1]]) if each.op == "MatMul"), None)
    if new[0] is None or new[1] is None or product is None or stored(product.inputs[1]) != (present[1], False):
        return None
    weights = without_sinks(ungrouped(product.inputs[0]))
    asked = None if weights is None else masked_scores(weights[0], present[0])
    if weights is None or asked is None:
        return None
    queries, factor, mask = asked
    output = whole_of(graph, product, queries)
    if output is None or not leads_only_to(graph, present, output):
        return None
    q, k, v, old_k, old_v = (wide(each) for each in (queries, new[0], new[1], *past))
    attention = op.Attention(q, k, v, as_bools(mask), old_k, old_v, scale=factor, outputs=3)[0].inputs[0]
    heads = wide(op.Reshape(weights[1], const([weights[1].shape[1]])))
    return None if attention is None else Sunk(attention, output, heads)


# ---------------------------------------------------------------------------------------------- steps


def wide(value: Value) -> Value:
    """A value in float32, in which attention is computed on the CPU."""
    return value if value.dtype is DType.FLOAT else op.Cast(value, to=DType.FLOAT)


def uncast(value: Value | None) -> Value | None:
    """What a value was before it was another floating-point number."""
    while value is not None and value.op == "Cast" and value.inputs[0] is not None and value.inputs[0].dtype.is_float:
        value = value.inputs[0]
    return value


def as_bools(mask: Value) -> Value:
    """A mask that adds the least number of half precision where it hides a key, as bools; every other as it is."""
    shown, zero, least = (*mask.inputs, None, None)[:3]
    if mask.op != "Where" or shown is None or zero is None or least is None or uniform(zero) != 0:
        return mask
    return shown if uniform(least) == LEAST.get(mask.dtype) else mask


LEAST: Mapping[DType, float] = MappingProxyType(
    {DType.FLOAT16: float(np.finfo(np.float16).min), DType.BFLOAT16: float(ml_dtypes.finfo(ml_dtypes.bfloat16).min)}
)
"""The least number of each type of half precision."""


def appended(present: Value, past: Value) -> Value | None:
    """What follows `past` in `present`."""
    if present.op != "Concat" or len(present.inputs) != 2 or present.attribute("axis") % 4 != 2:
        return None
    return present.inputs[1] if uncast(present.inputs[0]) is past else None


def stored(value: Value | None) -> tuple[Value | None, bool]:
    """(the keys that a value is made of, each head repeated for its queries or not; whether their last axes changed
    places)"""
    value, turned = uncast(value), False
    while value is not None:
        shared = unrepeated(value)
        if shared is not None:
            value = shared
        elif value.op == "Transpose" and value.attribute("perm") == (0, 1, 3, 2):
            value, turned = uncast(value.inputs[0]), not turned
        else:
            break
    return value, turned


def unrepeated(value: Value) -> Value | None:
    """The keys that a value has with each head several times in a row, in whatever types the steps are."""
    spread = uncast(value.inputs[0]) if value.op in VIEWS else None
    thin = uncast(spread.inputs[0]) if spread is not None and spread.op == "Expand" and spread.rank == 5 else None
    if spread is None or thin is None or thin.op != "Unsqueeze" or axes_of(thin.inputs[1]) not in ((2,), (-3,)):
        return None
    batch, heads, times, length, size = spread.shape
    keys = uncast(thin.inputs[0])
    if keys is None or keys.rank != 4 or not same_shape(keys.shape, (batch, heads, length, size)):
        return None
    return keys if same_shape(value.shape, (batch, dims.mul(heads, times), length, size)) else None


def ungrouped(value: Value | None) -> Value | None:
    """What (batch, heads, length, size) was before the rows of the queries that share a head were set one behind
    another; a value that was not, as it is."""
    value = uncast(value)
    source = uncast(value.inputs[0]) if value is not None and value.op == "Reshape" else None
    return source if value is not None and source is not None and are_grouped(source, value) else value


def are_grouped(source: Value, value: Value) -> bool:
    """Whether a value is `source` with the rows of several heads behind one another."""
    if source.rank != 4 or value.rank != 4:
        return False
    heads, count = source.shape[1], value.shape[1]
    if type(heads) is not int or type(count) is not int or not count or heads % count:
        return False
    batch, _, length, size = source.shape
    return same_shape(value.shape, (batch, count, dims.mul(heads // count, length), size))


def without_sinks(kept: Value | None) -> tuple[Value, Value] | None:
    """(the scores, the sinks) of a softmax over scores and sinks of which all but the last column is kept."""
    if kept is None or kept.op != "Slice" or any(one is None for one in kept.inputs[1:4]):
        return None
    bounds = [axes_of(each) for each in kept.inputs[1:]]
    soft = uncast(kept.inputs[0])
    if bounds[:2] != [(0,), (-1,)] or bounds[2] not in ((3,), (-1,)) or bounds[3:] not in ([], [(1,)]):
        return None
    if soft is None or soft.op != "Softmax" or soft.rank != 4 or soft.attribute("axis", -1) % 4 != 3:
        return None
    both = uncast(soft.inputs[0])
    if both is None or both.op != "Concat" or len(both.inputs) != 2 or both.attribute("axis") % 4 != 3:
        return None
    scores, spread = (uncast(each) for each in both.inputs)
    sinks = uncast(spread.inputs[0]) if spread is not None and spread.op == "Expand" else spread
    if scores is None or sinks is None or not same_shape(sinks.shape, (1, scores.shape[1], 1, 1)):
        return None
    return scores, sinks


def masked_scores(scores: Value, keys: Value) -> tuple[Value, float, Value] | None:
    """(queries, factor, mask) of queries @ keys * factor + mask."""
    if scores.op != "Add" or scores.rank != 4:
        return None
    for one, other in (scores.inputs, reversed(scores.inputs)):
        found = scaled_product(uncast(one), keys)
        mask = uncast(other)
        if found is not None and mask is not None and one is not None and same_shape(one.shape, scores.shape):
            return (*found, mask)
    return None


def scaled_product(value: Value | None, keys: Value) -> tuple[Value, float] | None:
    """(queries, factor) of queries @ keys * factor."""
    factor: float = 1.0
    if value is not None and value.op == "Mul" and value.inputs[1] is not None:
        number = uniform(value.inputs[1])
        if not isinstance(number, float) or not number or value.inputs[1].rank:
            return None
        factor, value = number, uncast(value.inputs[0])
    if value is None or value.rank != 4:
        return None
    product, shape = value, value.shape
    if value.op == "Reshape" and value.inputs[0] is not None:
        product = uncast(value.inputs[0])
    if product is None or product.op != "MatMul" or stored(product.inputs[1]) != (keys, True):
        return None
    queries = ungrouped(product.inputs[0])
    if queries is None or queries.rank != 4 or (product is not value and not are_grouped(value, product)):
        return None
    return (queries, factor) if same_shape(queries.shape[:3], shape[:3]) else None


# ---------------------------------------------------------------------------------------------- readers


def reached(graph: Graph, values: Sequence[Value], end: Value | None = None) -> list[Value]:
    """What is computed of values, these left out, up to `end`."""
    found, left = dict[Value, None](), list(values)
    while left:
        for user in graph.users.get(left.pop(0), ()):
            if user not in found:
                found[user] = None
                left += [] if user is end else [user]
    return list(found)


def whole_of(graph: Graph, product: Value, queries: Value) -> Value | None:
    """The value, of the shape of `queries`, that weights @ values is, or is set apart into; None where it is none."""
    value, users = product, graph.users.get(product, ())
    while len(users) == 1 and users[0].op == "Cast" and users[0].dtype.is_float:
        value, users = users[0], graph.users.get(users[0], ())
    if same_shape(value.shape, queries.shape):
        return value
    if len(users) != 1 or users[0].op != "Reshape" or not same_shape(users[0].shape, queries.shape):
        return None
    return users[0] if are_grouped(users[0], value) else None


def leads_only_to(graph: Graph, present: Sequence[Value], output: Value) -> bool:
    """Whether all that is computed of new caches ends in one value, and is no result of the graph but for it."""
    results = {value for value in graph.results if value is not output}
    return not any(each in results for each in reached(graph, present, output) if each is not output)
