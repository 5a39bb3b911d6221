"""Activations that are put by others in their places, beside the rule of legalization that does so one by one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import irkit
from irkit.build import op
from irkit.core.ir import Graph, Value, param
from irkit.core.origins import Origin
from irkit.core.types import tensor
from irkit.rewriting.firings import Firing
from passes import optimize
from passes.legal.legalize import legalize


class Counting:
    """An observer that counts how often each rule fires; one that is `close` looks at graphs, too, by its own word."""

    def __init__(self, close: bool) -> None:
        self.counts_only = not close
        self.times = Counter[str]()

    def __call__(self, *_: Any) -> None:
        return

    def fired(self, firing: Firing) -> None:
        self.times[firing.rule.name] += firing.times


def steps(data: st.DataObject, x: Value) -> Value:
    """Something that is computed of a tensor: an activation that ONNX Runtime lacks, or one that it has."""
    alpha = data.draw(st.sampled_from((1.0, 1.0, 1.7)))
    kinds: dict[str, Any] = {
        "swish": lambda: op.Swish(x, alpha=alpha),
        "of its opposite": lambda: op.Swish(op.Neg(x), alpha=alpha),
        "times": lambda: op.Mul(x, op.Swish(x)),
        "relu": lambda: op.Relu(x),
        "half": lambda: op.Cast(op.Swish(op.Cast(x, to="f16")), to=x.dtype),
        "of a constant": lambda: op.Add(x, op.Swish(irkit.const(2.0, x.dtype))),
    }
    return kinds[data.draw(st.sampled_from(("swish", "swish", *kinds)))]()


@given(st.data(), st.sampled_from(("f32", "f32", "f64", "f16")))
def test_what_stands_for_activations_is_what_the_rule_makes_of_each(data: st.DataObject, dtype: str) -> None:
    x = param(tensor(dtype, "n", 3))
    made, results = x, []
    for number in range(data.draw(st.integers(1, 5))):
        made = steps(data, made).with_origin(Origin(node=f"n{number}", module=f"layers.{number}"))
        results += [made] if data.draw(st.booleans()) else []
    graph = optimize(Graph((x,), (made, *results)))  # else there is more to tidy up, above what the rule makes
    seen = [Counting(close) for close in (True, False)]
    plainly, closely = (legalize(graph, "onnxruntime-cpu", observe=each) for each in (seen[1], seen[0]))
    assert plainly.digest == closely.digest, f"{plainly}\n{closely}"
    assert [v.origin for v in plainly.order if v.inputs] == [v.origin for v in closely.order if v.inputs]
    assert seen[0].times["legalize"] == seen[1].times["legalize"]


@pytest.mark.parametrize("count", [1, 40])
def test_the_same_stands_for_all_that_are_alike(count: int) -> None:
    x = param(tensor("f32", "n", 3))
    made = x
    for _ in range(count):
        made = op.Swish(op.Tanh(made))
    counting = Counting(False)
    legal = legalize(Graph((x,), (made,)), "onnxruntime-cpu", observe=counting)
    assert Counter(v.op for v in legal.order if v.inputs) == {"Tanh": count, "Sigmoid": count, "Mul": count}
    assert len({id(v.type) for v in legal.order if v.op == "Sigmoid"}) == 1
    assert counting.times == {"legalize": count}
