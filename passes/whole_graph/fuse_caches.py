"""Attention over a cache, with the cache's update inside: the joined keys and values are results of it.

ONNX's Attention (opset 23) takes past keys and values as operands and gives the joined ones as results, and takes
queries, keys and values with the heads still inside the last axis. In a decoder with a cache that replaces eleven
operators of a layer by one. It also makes the causal part of a mask itself, from where the past ends. It needs to know
who uses the joined keys, and so is a pass and no rule.
"""

from __future__ import annotations

from collections.abc import Hashable

import attrs

from irkit import dims
from irkit.build import call
from irkit.core.ir import Graph, Value
from irkit.core.types import Tensor
from irkit.dims import Dim
from irkit.rewriting.driver import symbols_of
from irkit.rewriting.passes import Pass, graph_pass, in_bodies
from irkit.rewriting.rules import Match
from passes.analysis.questions import VIEWS, is_one, same_shape
from passes.rules.attention.attention import split_heads
from passes.rules.attention.masks import without_causal

PLAIN = frozenset(("scale", "softcap", "qk_matmul_output_mode", "softmax_precision"))
"""Attributes of Attention that mean the same with a past."""


@attrs.frozen(eq=False)
class Update:
    """One attention to be replaced: queries, new keys and values, the past, the joined keys and values, and the values
    that join the heads of its result. `heads` counts those of queries and of keys where they stand inside the last
    axis; where it is None they are an axis of their own, and the result stays as it is."""

    attention: Value
    parts: tuple[Value, Value, Value]
    heads: tuple[int, int] | None
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
    if None not in found and results:
        (q3, count), (k3, shared), (v3, others) = (f for f in found if f is not None)
        if shared == others and all(same_shape(r.shape, (*q3.shape[:2], r.shape[2])) for r in results):
            return Update(value, (q3, k3, v3), (count, shared), (past_k, past_v), (k, v), results)
    return Update(value, (q, new_k, new_v), None, (past_k, past_v), (k, v), (value,))


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
    batch, heads, length, size = attention.shape
    wanted = (batch, length, dims.mul(heads, size))
    found: list[Value] = []
    for user in graph.users[attention]:
        turned = user.op == "Transpose" and user.attribute("perm") == (0, 2, 1, 3) and user not in graph.results
        wholes = graph.users[user] if turned else (user,)
        for whole in wholes:
            if whole.op not in VIEWS or not same_shape(whole.shape, wanted):
                return ()
            if not turned and not is_one(heads) and not is_one(length):
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
    causal = Causal(graph)
    for value in graph.order:
        if value in updates:
            new.update(replaced(updates[value], new, causal))
        elif value not in late and all(v is None or v in new for v in value.inputs):
            inputs = tuple(None if v is None else new[v] for v in value.inputs)
            same = all(a is b for a, b in zip(inputs, value.inputs, strict=True))
            new[value] = value if same else value.with_inputs(inputs)
    return graph.with_results(new[r] for r in graph.results)


class Causal:
    """What is left of masks without their causal part; each is worked on once, so that layers share it."""

    def __init__(self, graph: Graph) -> None:
        self.symbols = symbols_of(graph)
        self.known: dict[Hashable, tuple[Value | None] | None] = {}

    def split(self, mask: Value, past: Dim) -> tuple[Value | None, int]:
        """(mask, is_causal): the mask that does with keys of a `past` before the first query."""
        if (mask, past) not in self.known:
            match = Match(mask, {}, lambda: self.symbols)
            self.known[mask, past] = without_causal(match, mask, past)
        found = self.known[mask, past]
        return (mask, 0) if found is None else (found[0], 1)


def replaced(update: Update, new: dict[Value, Value], causal: Causal) -> dict[Value, Value]:
    """What stands for the joined keys and values and for the results, over operands as they are in `new`."""
    value = update.attention
    mask, is_causal = value.inputs[3] if len(value.inputs) > 3 else None, 0
    if mask is not None:
        mask, is_causal = causal.split(new[mask], update.past[0].shape[2])
    operands: list[Value | None] = [*(new[x] for x in update.parts), mask, *(new[x] for x in update.past)]
    attributes = {**dict(value.attributes), "is_causal": is_causal}
    if update.heads is not None:
        attributes |= {"q_num_heads": update.heads[0], "kv_num_heads": update.heads[1]}
    made = call("Attention", operands, attributes, outputs=3)
    whole = made[0].inputs[0].with_origin(value.origin.after("fuse_caches"))
    parts = [part.with_inputs((whole,)).with_origin(whole.origin) for part in made]
    first: Value = parts[0].with_type(update.results[0].type)
    swaps = dict.fromkeys(update.results, first)
    for old, part in zip(update.joined, parts[1:], strict=True):
        swaps[old] = part.with_type(old.type)
    return swaps


fuse_caches: Pass = in_bodies(graph_pass(fuse_caches_here))
"""Concat of past and new keys and values, and the Attention over them -> one Attention, in bodies too."""
