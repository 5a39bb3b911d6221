"""Layers that are alike are rewritten as one, and what comes of it is what rewriting each of them gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irkit
from irkit import op
from irkit.core.blobs import Blob, blob
from irkit.core.ir import Graph, Value, constant
from irkit.rewriting.history import Tally, record_history
from passes import optimize
from passes.pipelines.standard import RULES, pipeline
from passes.whole_graph.equal_layers import by_surroundings, rewrite_layers
from passes.whole_graph.layer_search import LEAST, layers_of

WIDTH = 4


@attrs.frozen
class Layer:
    """What a layer is made with: what its weights hold, how wide it is inside, a number in it, whether what it computes
    inside is a result of the graph, too, whether it takes a parameter of its own, whether its order is another, and
    whether it is over another one of two things that are computed around all layers."""

    held: str = "random"
    inner: int = 6
    epsilon: float = 1e-5
    shown: bool = False
    past: bool = False
    turned: bool = False
    other: bool = False


def weight(name: str, shape: tuple[int, ...], held: str, rng: np.random.Generator) -> Blob:
    """A weight of that name, of random numbers or of one number."""
    fills = {"zeros": 0.0, "ones": 1.0, "minus": -1.0, "nan": float("nan")}
    array = rng.standard_normal(shape) if held not in fills else np.full(shape, fills[held])
    return blob(array.astype(np.float32), name=name)


@attrs.frozen(eq=False)
class Ends:
    """Where a layer stands: what it is over, and what it gives, that of its inner part first."""

    over: Sequence[Value]
    gives: Sequence[Value]


def chain(layers: Sequence[Layer], anchored: bool = False, seed: int = 0) -> Graph:
    """A graph of layers, as `chained` makes it."""
    return chained(layers, anchored, seed)[0]


def chained(layers: Sequence[Layer], anchored: bool = False, seed: int = 0) -> tuple[Graph, list[Ends]]:
    """A graph of layers, and where each stands: a norm and two products over what the one before it gave, and, where
    they are `anchored`, over something made of what the first was given; "same" are weights that are those of the layer
    before."""
    rng = np.random.default_rng(seed)
    x = irkit.param(irkit.tensor("f32", "batch", "seq", WIDTH))
    mask = irkit.param(irkit.tensor("f32", "seq", 1))
    shared = op.Sigmoid(op.Mul(mask, 2.0))
    further = op.Relu(op.Neg(op.Mul(mask, 1.0)))
    hidden: Value = op.Add(x, shared)
    anchor = op.Tanh(op.Neg(op.Mul(hidden, 1.0)))
    params, results = [x, mask], []
    before: Mapping[str, Blob] = {}
    ends: list[Ends] = []
    for index, layer in enumerate(layers):
        shapes = {"norm": (WIDTH,), "up": (layer.inner, WIDTH), "down": (WIDTH, layer.inner), "bias": (WIDTH,)}
        fits = layer.held == "same" and before and all(before[name].shape == shape for name, shape in shapes.items())
        held = before if fits else {n: weight(f"layers.{index}.{n}", s, layer.held, rng) for n, s in shapes.items()}
        before = held
        squares = op.ReduceMean(op.Pow(hidden, 2.0), np.array([2]))
        normal = op.Mul(hidden, op.Reciprocal(op.Sqrt(op.Add(squares, layer.epsilon))))
        normal = op.Mul(constant(held["norm"]), normal)
        up = op.MatMul(normal, op.Transpose(constant(held["up"]), perm=[1, 0]))
        gate = op.Mul(up, op.Sigmoid(up))
        around = further if layer.other else shared
        gate = op.Mul(around, gate) if layer.turned else op.Mul(gate, around)
        if layer.past:
            past = irkit.param(irkit.tensor("f32", "batch", "seq", layer.inner))
            params.append(past)
            gate = op.Add(gate, past)
        down = op.Add(op.MatMul(gate, op.Transpose(constant(held["down"]), perm=[1, 0])), constant(held["bias"]))
        over = [hidden, anchor, shared, further]
        hidden = op.Add(op.Add(hidden, anchor) if anchored else hidden, op.Mul(down, 1.0))
        results += [gate] if layer.shown else []
        ends.append(Ends(over, [gate, hidden]))
    return Graph(tuple(params), (op.Relu(hidden), *results)), ends


def plainly(graph: Graph, level: int = 2) -> Graph:
    """The graph optimized without looking for layers."""
    return pipeline(level, RULES[level], alike=False).run(graph)


def numbers(graph: Graph) -> list[np.ndarray]:
    """What a graph computes of some numbers."""
    rng = np.random.default_rng(1)
    sizes: dict[str, Any] = {"batch": 2, "seq": 3}
    shapes = [tuple(sizes.get(str(d), d) for d in p.shape) for p in graph.params]
    given_ = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    return [np.asarray(each) for each in irkit.evaluate(graph, given_)]


LAYERS = st.builds(
    Layer,
    held=st.sampled_from(("random", "random", "zeros", "ones", "minus", "nan", "same")),
    inner=st.sampled_from((6, 6, 1, 5)),
    epsilon=st.sampled_from((1e-5, 1e-5, 1e-6)),
    shown=st.sampled_from((False, False, True)),
    past=st.sampled_from((False, False, True)),
    turned=st.sampled_from((False, False, True)),
    other=st.sampled_from((False, False, True)),
)


CHAINS: Any = (
    st.integers(LEAST + 1, 10),
    st.dictionaries(st.integers(0, 9), LAYERS, max_size=3),
    st.sampled_from((1, 2)),
    LAYERS,
    st.booleans(),
)
"""How many layers, which of them differ, at which level they are optimized, what the others are, whether anchored."""


@settings(max_examples=40, deadline=None)
@given(*CHAINS)
def test_layers_of_which_some_differ_become_what_each_would(
    count: int, others: dict[int, Layer], level: int, usual: Layer, anchored: bool
) -> None:
    graph = chain([others.get(i, usual) for i in range(count)], anchored)
    plain, found = plainly(graph, level), optimize(graph, level)
    assert str(found) == str(plain)
    irkit.verify(found)
    for one, other in zip(numbers(graph), numbers(found), strict=True):
        assert np.allclose(one, other, 1e-4, 1e-5, equal_nan=True)


def test_layers_are_found_and_rewritten_as_one() -> None:
    graph = chain([Layer()] * 9)
    layers = layers_of(graph)
    assert layers is not None and len(layers.each) >= 8
    seen: list[Graph] = []

    def rewriting(layer: Graph, told: Any) -> Graph:
        seen.append(plainly(layer))
        return seen[-1]

    after = rewrite_layers(graph, rewriting)
    assert len(seen) == 1 and len(after) < len(graph) / 2
    assert str(optimize(after)) == str(plainly(graph))


@pytest.mark.parametrize("period", [1, 2, 3, 5])
def test_layers_over_other_surroundings_are_rewritten_by_themselves(period: int) -> None:
    graph = chain([Layer(other=i % period == period - 1) for i in range(12)])
    layers = layers_of(graph)
    assert layers is not None and len(layers.each) >= 11
    assert sum(len(places) for places, _ in by_surroundings(graph, layers)) == len(layers.each)
    seen: list[Graph] = []

    def rewriting(layer: Graph, told: Any) -> Graph:
        seen.append(layer)
        return plainly(layer)

    rewrite_layers(graph, rewriting)
    assert len(seen) == min(period, 2)
    assert str(optimize(graph)) == str(plainly(graph))


@given(st.lists(st.booleans(), min_size=LEAST + 1, max_size=14))
def test_what_is_computed_around_layers_may_stand_in_the_first_that_uses_it(others: list[bool]) -> None:
    graph = chain([Layer(other=other) for other in others])
    assert str(optimize(graph)) == str(plainly(graph))


def test_weights_of_each_layer_stay_its_own() -> None:
    found = optimize(chain([Layer()] * 9))
    names = [v.blob.name for v in found.order if v.blob is not None and v.blob.name.startswith("layers.")]
    assert sorted(names) == sorted(f"layers.{i}.{name}" for i in range(9) for name in ("norm", "up", "down", "bias"))
    for value in found.order:
        if value.blob is not None and value.blob.turned is not None:
            assert value.blob.name == value.blob.turned.name
            assert np.array_equal(value.blob.array, value.blob.turned.array.T)


@pytest.mark.parametrize(
    "odd", [Layer(inner=5), Layer(epsilon=1e-3), Layer(shown=True), Layer(past=True), Layer(turned=True)], ids=str
)
@pytest.mark.parametrize("place", [0, 4, 8])
def test_a_layer_that_differs_is_rewritten_by_itself(odd: Layer, place: int) -> None:
    graph = chain([odd if i == place else Layer() for i in range(9)])
    assert str(optimize(graph)) == str(plainly(graph))


def test_what_all_layers_use_is_the_same_for_all() -> None:
    graph = chain([Layer()] * 9, anchored=True)
    found = optimize(graph)
    assert str(found) == str(plainly(graph))
    assert sum(v.op == "Tanh" for v in found.order) == 1


def test_few_layers_are_rewritten_one_by_one() -> None:
    assert layers_of(chain([Layer()] * (LEAST - 2))) is None
    graph = chain([Layer()] * 3)
    assert rewrite_layers(graph, lambda layer, told: layer) is graph


def test_a_rule_that_wants_numbers_of_a_weight_gets_those_of_each_layer() -> None:
    asked: list[str] = []

    @irkit.rule(irkit.p.Mul(irkit.pattern.const("w"), irkit.hole("x")))
    def noted(m: irkit.Match) -> Any:
        """w * x -> x where w is all ones"""
        ones = bool((m.w.blob.array == 1).all())
        asked.append(m.w.blob.name)
        return m.x if ones and m.x.type == m.root.type else irkit.decline("not all ones")

    def by_rule(layer: Graph, told: Any = None) -> Graph:
        return irkit.rewrite(layer, (noted,))

    graph = chain([Layer(held="ones" if i in (2, 5) else "random") for i in range(9)])
    apart = rewrite_layers(graph, by_rule)
    assert not [name for name in asked if name.startswith("layers.")]  # by itself no layer says what it holds
    assert str(by_rule(apart)) == str(by_rule(graph))
    assert {f"layers.{i}.norm" for i in range(9)} <= set(asked)


@pytest.mark.parametrize("huge", [None, 0, 4])
def test_a_factor_goes_into_the_weights_of_all_layers_where_all_take_it(huge: int | None) -> None:
    rng = np.random.default_rng(0)
    hidden: Value = irkit.param(irkit.tensor("f32", "batch", "seq", WIDTH))
    given = hidden
    for index in range(9):
        array = rng.standard_normal((WIDTH, WIDTH)) if index != huge else np.full((WIDTH, WIDTH), 3e38)
        held = constant(blob(array.astype(np.float32), name=f"layers.{index}.w"))
        scores = op.Tanh(op.Mul(op.MatMul(hidden, op.Transpose(held, perm=[1, 0])), 0.125))
        for made in (op.Sin, op.Erf, op.Softplus, op.Sigmoid, op.Cos, op.Tanh, op.Softsign, op.Elu):
            scores = made(scores)
        hidden = op.Add(hidden, scores)
    graph = Graph((given,), (op.Neg(hidden),))
    seen: list[str] = []

    def noting(layer: Graph, told: Any = None) -> Graph:
        found = pipeline(2, RULES[2], alike=False).run(layer)
        seen.append(str([value.op for value in found.order]))
        return found

    rewrite_layers(graph, noting)
    assert len(seen) == 1 and ("'Mul'" in seen[0]) == (huge is not None)
    found = optimize(graph)
    assert str(found) == str(plainly(graph))
    assert sum(value.op == "Mul" for value in found.order) == (huge is not None)


def test_firings_are_counted_for_each_layer() -> None:
    graph = chain([Layer()] * 9)
    one, other = Tally(), Tally()
    plain = pipeline(2, RULES[2], alike=False).run(graph, one)
    found = optimize(graph, observe=other)
    counts = [
        {each.rule: each.times for each in tally.counts(result)} for tally, result in ((one, plain), (other, found))
    ]
    assert counts[0] == counts[1]


def test_a_history_shows_every_layer_being_rewritten() -> None:
    graph = chain([Layer()] * 9)
    history = record_history(optimize, graph)
    assert all(set(firing.roots) for firing in history.firings)
    assert sum(firing.rule.name == "turn_weight" for firing in history.firings) == 18
    assert str(history.result) == str(optimize(graph))
