"""Layers that are calls of one body until they are written out are what they were, or what each would become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import irkit
from irkit import op
from irkit.core import walk
from irkit.core.blobs import blob
from irkit.core.ir import Graph, Value, constant
from passes import optimize
from passes.whole_graph.layer_calls import (
    Alike,
    layer_calls_of,
    operator_count,
    rewritten_layers,
    with_calls,
    written_out,
)
from passes.whole_graph.layer_search import LEAST
from tests.passes.whole_graph.test_equal_layers import CHAINS, Ends, Layer, chain, chained, numbers, plainly


def alike(ends: Sequence[Ends]) -> Alike:
    """Layers that compute the same, told of the first of them."""
    first = ends[0]
    stop = {*first.over}.__contains__
    inner = [v for v in walk.post_order(first.gives, stop=stop) if v.inputs]
    given_ = dict.fromkeys(x for v in inner for x in v.inputs if x is not None and x not in set(inner))
    return Alike(list(given_), inner, list(first.gives), [paired(first, each) for each in ends])


def paired(first: Ends, other: Ends) -> dict[Value, Value]:
    """What each value of a layer, and that it is over, is in another one."""
    found: dict[Value, Value] = dict(zip(first.over, other.over, strict=True))
    pairs = list(zip(first.gives, other.gives, strict=True))
    while pairs:
        x, y = pairs.pop()
        if x not in found:
            found[x] = y
            pairs += [(a, b) for a, b in zip(x.inputs, y.inputs, strict=True) if a is not None and b is not None]
    return found


def groups_of(layers: Sequence[Layer], ends: Sequence[Ends]) -> list[Alike]:
    """The layers that are equal but for their weights, in groups."""
    groups: dict[Any, list[Ends]] = {}
    for layer, each in zip(layers, ends, strict=True):
        groups.setdefault((layer.inner, layer.epsilon, layer.past, layer.turned, layer.other), []).append(each)
    return [alike(each) for each in groups.values()]


def in_calls(graph: Graph, groups: Sequence[Alike]) -> Graph:
    """A graph with its layers as calls."""
    found = with_calls(graph.results, graph.params, groups)
    assert found is not None
    return graph.with_results(found)


@settings(max_examples=60, deadline=None)
@given(*CHAINS)
def test_layers_that_are_calls_become_what_each_would(
    count: int, others: dict[int, Layer], level: int, usual: Layer, anchored: bool
) -> None:
    layers = [others.get(i, usual) for i in range(count)]
    graph, ends = chained(layers, anchored)
    groups = groups_of(layers, ends)
    found = with_calls(graph.results, graph.params, groups)
    if found is None:
        assert max(len(each.each) for each in groups) < LEAST
        return
    called = graph.with_results(found)
    assert layer_calls_of(called).calls and len(called) < len(graph) and operator_count(called) == len(graph)
    assert written_out(called) == graph and str(written_out(called)) == str(graph)
    better = optimize(called, level)
    irkit.verify(better)
    assert str(better) == str(plainly(graph, level))
    for one, other in zip(numbers(graph), numbers(better), strict=True):
        greatest = np.nanmax(np.abs(one), initial=1.0)  # of which sums of several layers are what is left
        assert np.allclose(one, other, 1e-4, 1e-4 * greatest, equal_nan=True)


def test_a_graph_without_calls_stays_itself() -> None:
    graph = chain([Layer()] * 8)
    assert written_out(graph) is graph and operator_count(graph) == len(graph)
    assert rewritten_layers(graph, lambda layer, _: layer) is None


def test_the_body_is_rewritten_once() -> None:
    graph, ends = chained([Layer()] * 9)
    seen: list[Graph] = []

    def rewriting(layer: Graph, told: Any) -> Graph:
        seen.append(plainly(layer))
        return seen[-1]

    after = rewritten_layers(in_calls(graph, [alike(ends)]), rewriting)
    assert len(seen) == 1 and after is not None and not layer_calls_of(after).calls
    assert str(optimize(after)) == str(plainly(graph))


def test_the_graph_as_it_is_met_is_no_less_than_one_without_calls() -> None:
    layers = [Layer()] * 8
    graph, ends = chained(layers)
    called = in_calls(graph, [alike(ends)])
    for level in (0, 1, 2):
        assert str(optimize(called, level)) == str(optimize(graph, level))


def test_what_is_used_inside_a_layer_keeps_all_as_they_are() -> None:
    graph, ends = chained([Layer()] * 8)
    inner = alike(ends).values[3]
    shown = Graph(graph.params, (*graph.results, op.Neg(alike(ends).each[4][inner])))
    assert with_calls(shown.results, shown.params, [alike(ends)]) is None


def test_layers_that_are_given_what_they_give_are_no_calls() -> None:
    """As a block of which the second part is over what is made of the first."""
    x = irkit.param(irkit.tensor("f32", "n", 4))
    hidden: Value = x
    ends: list[Ends] = []
    for _ in range(8):
        given_ = hidden
        first = given_
        for _ in range(7):
            first = op.Tanh(first)
        between = op.Neg(first)
        second = between
        for _ in range(7):
            second = op.Sigmoid(second)
        hidden = second
        ends.append(Ends([given_, between], [first, second]))
    assert with_calls([hidden], [x], [alike(ends)]) is None


def test_the_lowest_layer_is_called_too_where_it_is_not_among_them() -> None:
    graph, ends = chained([Layer()] * 9)
    called = in_calls(graph, [alike(ends[1:])])
    assert sum(value.op == "Call" for value in called.order) == 9
    assert str(written_out(called)) == str(graph)


def test_few_or_short_layers_are_no_calls() -> None:
    graph, ends = chained([Layer()] * (LEAST - 2))
    assert with_calls(graph.results, graph.params, [alike(ends)]) is None


@pytest.mark.parametrize("where", ["inside", "given"])
def test_places_that_are_counted_from_either_end_stay_where_they_are_seen(where: str) -> None:
    places = irkit.param(irkit.tensor("i64", "n"))
    counted = op.BitwiseAnd(places, irkit.const(np.int64(1 << 60)))
    hidden: Value = op.Cast(places, to="f32")
    ends: list[Ends] = []
    for _ in range(8):
        at = op.BitwiseAnd(places, irkit.const(np.int64(1 << 60))) if where == "inside" else op.Unsqueeze(counted, [0])
        end = op.Add(hidden, op.Cast(at, to="f32"))
        for _ in range(14):
            end = op.Tanh(end)
        ends.append(Ends([hidden, counted, places, *([at] if where == "given" else [])], [end]))
        hidden = end
    assert with_calls([hidden], [places], [alike(ends)]) is None


@pytest.mark.parametrize("size", [4, "n"])
def test_a_place_that_may_not_be_there_stays_where_it_is_seen(size: int | str) -> None:
    x = irkit.param(irkit.tensor("f32", size, 3))
    hidden: Value = x
    ends: list[Ends] = []
    for _ in range(8):
        end = op.Add(hidden, op.Gather(hidden, irkit.const(np.int64(2)), axis=0))
        for _ in range(14):
            end = op.Tanh(end)
        ends.append(Ends([hidden], [end]))
        hidden = end
    assert (with_calls([hidden], [x], [alike(ends)]) is not None) is (size == 4)


def test_a_weight_of_two_layers_is_told_of_neither() -> None:
    """How many use a weight is a reason of rules: such layers are written out, and looked at one by one."""
    held = constant(blob(np.ones((4, 4), np.float32), name="held"))
    x = irkit.param(irkit.tensor("f32", "n", 4))
    hidden: Value = x
    ends: list[Ends] = []
    for _ in range(8):
        end = op.MatMul(hidden, held)
        for _ in range(14):
            end = op.Tanh(end)
        ends.append(Ends([hidden], [end]))
        hidden = end
    called = in_calls(Graph((x,), (hidden,)), [alike(ends)])
    assert rewritten_layers(called, lambda layer, _: layer) is None
    assert str(optimize(called)) == str(plainly(Graph((x,), (hidden,))))


def test_what_one_kind_of_layers_gives_may_be_what_all_of_another_share() -> None:
    """As a decoder over what its encoder gives."""
    first, ends = chained([Layer()] * 8)
    encoded = first.results[0]
    x = irkit.param(irkit.tensor("f32", "batch", "seq", 4))
    hidden: Value = x
    others: list[Ends] = []
    for number in range(8):
        held = constant(blob(np.full((4, 4), number + 1, np.float32), name=f"held{number}"))
        end = op.Add(op.MatMul(op.Add(encoded, hidden), held), hidden)
        for _ in range(12):
            end = op.Tanh(end)
        others.append(Ends([hidden, encoded], [end]))
        hidden = end
    graph = Graph((*first.params, x), (hidden,))
    for groups in ([alike(ends), alike(others)], [alike(others), alike(ends)]):
        called = in_calls(graph, groups)
        assert sum(value.op == "Call" for value in called.order) == 16
        assert str(written_out(called)) == str(graph)
        assert str(optimize(called)) == str(plainly(graph))
