"""Counts and seeds at the doors: whole numbers from 0 on, and one clear error for anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irkit
from irkit import op, param, tensor
from irkit.errors import IrkitError


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
