"""Attention over a cache, with the cache's update inside: the joined keys and values are results of it.

ONNX's Attention (opset 23) takes past keys and values as operands and gives the joined ones as results, and takes
queries, keys and values with the heads still inside the last axis. In a decoder with a cache that replaces eleven
operators of a layer by one. It needs to know who uses the joined keys, and so is a pass and no rule.
"""

from __future__ import annotations

from typing import Any

import attrs

from irkit.build import call
from irkit.ir import Graph, Value
from irkit.pipeline import Pass, graph_pass, in_bodies
from irkit.types import Tensor
from passes.rules.attention import split_heads
from passes.rules.common import same_shape

PLAIN = frozenset(("scale", "softcap", "qk_matmul_output_mode", "softmax_precision"))
"""Attributes of Attention that mean the same with a past."""


@attrs.frozen(eq=False)
class Update:
    """One attention to be replaced: queries, new keys and values with heads inside the last axis, the past, the joined
    keys and values, and the values that join the heads of its result."""

    attention: Value
    parts: tuple[Value, Value, Value]
    heads: tuple[int, int]
    past: tuple[Value, Value]
    joined: tuple[Value, Value]
    results: tuple[Value, ...]


def update_of(graph: Graph, value: Value) -> Update | None:
    """The update that an Attention is part of; None where something else needs its parts."""
    operands = value.inputs
    if value.op != "Attention" or not isinstance(value.type, Tensor) or any(v is not None for v in operands[4:]):
        return None
    if any(name not in PLAIN for name, _ in value.attributes):
        return None
    q, k, v = operands[:3]
    if q is None or k is None or v is None or k is v:
        return None
    old_k, old_v = appended(graph, k, value), appended(graph, v, value)
    if old_k is None or old_v is None:
        return None
    (past_k, new_k), (past_v, new_v) = old_k, old_v
    found = [split_heads(x) for x in (q, new_k, new_v)]
    results = merged_heads(graph, value)
    if None in found or not results:
        return None
    (q3, count), (k3, shared), (v3, others) = (f for f in found if f is not None)
    if shared != others or not all(same_shape(r.shape, (*q3.shape[:2], r.shape[2])) for r in results):
        return None
    return Update(value, (q3, k3, v3), (count, shared), (past_k, past_v), (k, v), results)


def appended(graph: Graph, joined: Value, user: Value) -> tuple[Value, Value] | None:
    """(past, new) where a value joins the two along the sequence and nothing but `user` computes with it."""
    if joined.op != "Concat" or joined.rank != 4 or joined.attribute("axis") not in (2, -2) or len(joined.inputs) != 2:
        return None
    past, new = joined.inputs
    if past is None or new is None or graph.users[joined] != (user,):
        return None
    return past, new


def merged_heads(graph: Graph, attention: Value) -> tuple[Value, ...]:
    """The values that join the heads of a result into the last axis; none where another value uses the result."""
    found: list[Value] = []
    for turned in graph.users[attention]:
        if turned.op != "Transpose" or turned.attribute("perm") != (0, 2, 1, 3) or turned in graph.results:
            return ()
        for whole in graph.users[turned]:
            batch, length, heads, size = turned.shape
            wanted = (batch, length, *([heads * size] if type(heads) is int and type(size) is int else []))
            if whole.op != "Reshape" or whole.rank != 3 or not same_shape(whole.shape, wanted):
                return ()
            found.append(whole)
    return () if any(attention is r for r in graph.results) else tuple(found)


def fuse_caches_here(graph: Graph) -> Graph:
    """Concat of past and new keys and values, and the Attention over them -> one Attention, outside of bodies."""
    updates = {u.attention: u for v in graph.order if v.op == "Attention" and (u := update_of(graph, v)) is not None}
    if not updates:
        return graph
    late = {v for u in updates.values() for v in (*u.joined, *u.results)}
    new: dict[Value, Value] = {}
    for value in graph.order:
        if value in updates:
            new.update(replaced(updates[value], new))
        elif value not in late and all(v is None or v in new for v in value.inputs):
            inputs = tuple(None if v is None else new[v] for v in value.inputs)
            same = all(a is b for a, b in zip(inputs, value.inputs, strict=True))
            new[value] = value if same else value.with_inputs(inputs)
    return graph.with_results(new[r] for r in graph.results)


def replaced(update: Update, new: dict[Value, Value]) -> dict[Value, Value]:
    """What stands for the joined keys and values and for the results, over operands as they are in `new`."""
    value = update.attention
    mask = value.inputs[3] if len(value.inputs) > 3 else None
    operands: list[Any] = [new[x] for x in update.parts]
    operands += [None if mask is None else new[mask], *(new[x] for x in update.past)]
    attributes = {**dict(value.attributes), "q_num_heads": update.heads[0], "kv_num_heads": update.heads[1]}
    made = call("Attention", operands, attributes, outputs=3)
    whole = made[0].inputs[0].with_origin(value.origin.after("fuse_caches"))
    parts = [part.with_inputs((whole,)).with_origin(whole.origin) for part in made]
    first: Value = parts[0]
    swaps = dict.fromkeys(update.results, first)
    for old, part in zip(update.joined, parts[1:], strict=True):
        swaps[old] = part.with_type(old.type)
    return swaps


fuse_caches: Pass = in_bodies(graph_pass(fuse_caches_here))
"""Concat of past and new keys and values, and the Attention over them -> one Attention, in bodies too."""
