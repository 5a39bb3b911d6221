"""Derivations: the steps that lead from one graph to another follow on each other, and each is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irkit
from irkit import equation, hole, op, p
from irkit.core.ir import Graph, Value
from irkit.saturation.chains import Chains
from irkit.saturation.rounds import Bounds, saturation
from irkit.testing import assert_equivalent
from passes import optimize
from passes.saturation import EQUATIONS, SUMS, Derivation, derivation
from passes.saturation.choice import rules_of

TYPES = {"a": "f32[5, 5]", "b": "f32[5, 5]", "c": "f32[5, 5]", "v": "f32[5, 1]"}
x, y = hole("x"), hole("y")
RULES = rules_of((*EQUATIONS, *SUMS, equation(p.Neg(p.Neg(x)), x)))

PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "grouped": (lambda a, b, c, v: ((a @ b) @ c) @ v, lambda a, b, c, v: a @ (b @ (c @ v))),
    "shared": (
        lambda a, b, c, v: op.Relu((a @ b) @ v) + (a @ b) @ v,
        lambda a, b, c, v: op.Relu(a @ (b @ v)) + a @ (b @ v),
    ),
    "twice the same": (lambda a, b, c, v: op.Mul(*[(a @ b) @ v] * 2), lambda a, b, c, v: op.Mul(*[a @ (b @ v)] * 2)),
    "factor": (lambda a, b, c, v: (a @ c + b @ c) @ v, lambda a, b, c, v: (a + b) @ (c @ v)),
    "reordered": (
        lambda a, b, c, v: op.Transpose(op.Transpose(a @ b) + op.Transpose(c)),
        lambda a, b, c, v: c + a @ b,
    ),
    "several results": (
        lambda a, b, c, v: ((a @ b) @ v, op.Neg(op.Neg(a)) + b),
        lambda a, b, c, v: (a @ (b @ v), b + a),
    ),
    "no step": (lambda a, b, c, v: a @ b, lambda a, b, c, v: a @ b),
}


def both(name: str) -> tuple[Graph, Graph]:
    """Two graphs that are equal by the rules."""
    types: dict[str, Any] = dict(TYPES)
    first, second = (irkit.function(each, **types) for each in PAIRS[name])
    return first, second


def merged(graph: Graph) -> Graph:
    """The graph with equal values once, and without names."""
    return optimize(Graph(graph.params, graph.results), 0)


def follow(found: Derivation, first: Graph, second: Graph) -> None:
    """Asserts that the steps lead from the first to the second graph, each by one rewrite of a part."""
    at = merged(first)
    for step in found.steps:
        assert merged(step.before) == at != merged(step.after)
        at = merged(step.after)
    assert at == merged(second)


@pytest.mark.parametrize("name", PAIRS)
def test_steps_lead_from_one_graph_to_the_other(name: str) -> None:
    first, second = both(name)
    found = derivation(first, second, (*EQUATIONS, equation(p.Neg(p.Neg(x)), x)))
    assert found
    follow(found, first, second)
    found.check()
    assert len(found.explanation.splitlines()) == max(1, len(found.steps))


def test_a_step_is_the_rule_applied_to_its_part() -> None:
    """What a rule makes of the one side, `rewrite` makes of it, too: forward as well as backward."""
    rules = (equation(p.Sub(x, y), p.Add(x, p.Neg(y)), name="minus"),)
    first = irkit.function(lambda a, b: op.Relu(a - b), a="f32[3]", b="f32[3]")
    second = irkit.function(lambda a, b: op.Relu(a + op.Neg(b)), a="f32[3]", b="f32[3]")
    for one, other, forward in ((first, second, "minus"), (second, first, "minus_backward")):
        (step,) = derivation(one, other, rules).steps
        rule = {"minus": rules[0].forward, "minus_backward": rules[0].backward}[step.rule]
        start, end = (step.part, step.made) if step.forward else (step.made, step.part)
        assert irkit.rewrite(Graph(one.params, (start,)), rule) == Graph(one.params, (end,))
        assert step.rule == forward or not step.forward
    assert "Sub(a, b) == Add(a, Neg(b))" in str(derivation(first, second, rules).steps[0])


def test_the_chain_is_the_shortest_of_those_found() -> None:
    """Of a long way and a short one, the short one is told, though the long one was found as well."""
    rules = [
        equation(p.Relu(x), p.Elu(x), name="one"), equation(p.Elu(x), p.Selu(x), name="two"),
        equation(p.Selu(x), p.Softplus(x), name="three"), equation(p.Relu(x), p.Softplus(x), name="short"),
    ]  # fmt: skip
    graphs = [irkit.function(lambda a, made=made: op.Neg(made(a)), a="f32[3]") for made in (op.Relu, op.Softplus)]
    found = derivation(graphs[0], graphs[1], rules)
    assert len(found.steps) == 1 and found.steps[0].rule.startswith("short")
    assert len(derivation(graphs[0], graphs[1], rules[:3]).steps) == 3


def test_a_wrong_rule_is_named_by_its_step() -> None:
    wrong = equation(p.Sub(x, y), p.Sub(y, x), name="swapped")
    first = irkit.function(lambda a, b: op.Relu(op.Neg(op.Neg(a)) - b), a="f32[4, 4]", b="f32[4, 4]")
    second = irkit.function(lambda a, b: op.Relu(b - a), a="f32[4, 4]", b="f32[4, 4]")
    found = derivation(first, second, (wrong, equation(p.Neg(p.Neg(x)), x, name="twice")))
    assert found and {step.rule for step in found.steps} >= {"twice"}
    with pytest.raises(irkit.GraphError, match="swapped"):
        found.check()


def test_what_is_apart_has_no_steps() -> None:
    first = irkit.function(lambda a, b: (a @ b, a - b), a="f32[4, 4]", b="f32[4, 4]")
    second = irkit.function(lambda a, b: (b @ a, a - b), a="f32[4, 4]", b="f32[4, 4]")
    found = derivation(first, second, ())
    assert found.apart == (0,) and found.steps == ()


def terms(depth: int) -> st.SearchStrategy[Callable[[tuple[Value, ...]], Value]]:
    """Sums, differences, products and signs over three parameters."""
    leaf = st.integers(0, 2).map(lambda i: lambda params: params[i])
    if not depth:
        return leaf
    inner = terms(depth - 1)
    two = st.tuples(st.sampled_from([op.Add, op.Sub, op.Mul, op.MatMul]), inner, inner)
    one = st.tuples(st.sampled_from([op.Neg, op.Relu, op.Transpose]), inner)
    return leaf | two.map(lambda t: lambda ps: t[0](t[1](ps), t[2](ps))) | one.map(lambda t: lambda ps: t[0](t[1](ps)))


@settings(max_examples=25, deadline=None)
@given(terms(4), st.integers(0, 2**16))
def test_any_two_forms_of_a_class_have_a_chain_that_is_true(made: Callable[..., Value], seed: int) -> None:
    """Of what saturation finds equal, at any place, each step follows on the one before, and is true by numbers."""
    params = tuple(irkit.param("f32[3, 3]") for _ in "abc")
    found = saturation(Graph(params, (made(params),)), RULES, Bounds(nodes=150, rounds=3, seconds=3.0)).graph
    forms = [(each.value, node.value) for each in found.classes.values() for node in each.nodes[1:]]
    chains = Chains(found)
    for number in np.random.default_rng(seed).permutation(len(forms))[:4]:
        first, second = forms[number]
        at = merged(Graph(params, (first,)))
        for step in chains.chain(first, second):
            before, after = (merged(Graph(params, (v,))) for v in (step.before, step.after))
            assert before == at
            assert_equivalent(Graph(params, (step.part,)), Graph(params, (step.made,)), 1, atol=1e-3)
            at = after
        assert at == merged(Graph(params, (second,)))
