"""Counts and seeds at the doors: whole numbers from 0 on, and one clear error for anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irkit
from irkit import op, param, tensor
from irkit.errors import GraphError, IrkitError


@irkit.rule(irkit.p.Relu(irkit.p.Relu(irkit.hole("x"))))
def relu_of_relu(m: Any) -> Any:
    """Relu(Relu(x)) -> Relu(x)"""
    return m.root.inputs[0]


@pytest.mark.parametrize("wrong", ["a", 1.5, -1, None, True, [3]])
def test_what_is_no_seed_or_count_is_said(wrong: Any) -> None:
    x = param(tensor("f32", 3))
    graph = irkit.Graph((x,), (op.Relu(x),))
    calls = (
        lambda: irkit.check_rule(relu_of_relu, 1, seed=wrong),
        lambda: irkit.check_rule(relu_of_relu, wrong),
        lambda: irkit.evaluate(graph, [np.zeros(3, np.float32)], seed=wrong),
    )
    for call in calls:
        with pytest.raises(IrkitError, match="must be a whole number from 0 on") as error:
            call()
        assert error.value.hint
    whole: Any = np.int64(1)
    assert irkit.check_rule(relu_of_relu, whole, seed=whole)


def test_graphs_are_drawn_by_a_generator_of_operators_that_there_are() -> None:
    """`irkit.testing` is there without an import of its own."""
    rng = np.random.default_rng(0)
    testing: Any = getattr(irkit, "testing")  # noqa: B009  # as a user does who has imported irkit alone
    for given, kind in (((3,), {}), ((rng,), {"ops": ["Ad"]}), ((rng,), {"ops": ["mylib::Silu"]})):
        with pytest.raises(GraphError) as raised:
            testing.random_graph(*given, **kind)
        assert raised.value.hint
    graph = testing.random_graph(rng, 2, ops=["Add"])
    with pytest.raises(GraphError, match="is not an irkit graph"):
        testing.assert_equivalent(graph, 3)
    testing.assert_equivalent(graph, graph)
