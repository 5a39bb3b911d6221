"""Loops of real programs: exported by torch, optimized, and run by ONNX Runtime against torch's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from irkit.core.ir import Graph
from irkit.doors.to_onnx import to_onnx
from irkit.verification.laws import verify
from lowering import lower
from passes import optimize


def inner(graph: Graph) -> list[str]:
    """The operators of all bodies."""
    found = [v for value in graph.order for body in value.bodies for v in (*body.order, *nested(body))]
    return [v.op for v in found if v.op not in ("Param", "Constant", "Item", "ShapeVector")]


def nested(body: Graph) -> list[Any]:
    """The values of the bodies in a body."""
    return [v for value in body.order for b in value.bodies for v in (*b.order, *nested(b))]


def exported(model: Callable[..., Any], *calls: tuple[torch.Tensor, ...], **given: Any) -> tuple[Graph, Graph]:
    """The graph as it was lowered and optimized; the program agrees with torch on every call."""
    before = lower(model, calls[0], **given)
    after = optimize(before)
    verify(after)
    assert optimize(after) is after
    program = to_onnx(model, calls[0], **given)
    for arguments in calls:
        wanted = model(*arguments)
        found = program(*arguments)
        pairs = zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]
        for a, b in pairs:
            np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-4, atol=1e-5)
    return before, after


def test_what_a_while_loop_computes_anew_at_each_trip_is_computed_before_it() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def power(n: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
        return while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v @ torch.tanh(w.t())), (n, x))

    x, w = torch.randn(2, 3), torch.randn(3, 3) * 0.5
    before, after = exported(power, (torch.tensor(0), x, w), (torch.tensor(9), x, w))
    assert "Tanh" in inner(before) and "Tanh" not in inner(after)


def test_a_state_that_a_loop_only_hands_on_is_captured() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def steps(n: torch.Tensor, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        found = while_loop(lambda i, v, s: i < 3, lambda i, v, s: (i + 1, v * s, s.clone()), (n, x, scale))
        return found[1]

    before, after = exported(steps, (torch.tensor(0), torch.randn(3), torch.rand(3)))
    loops = [next(v for v in g.order if v.op == "Loop") for g in (before, after)]
    assert len(loops[1].inputs) - loops[1].attribute("captures") < len(loops[0].inputs) - loops[0].attribute("captures")


def test_a_scan_of_known_length_and_what_it_computes_of_weights() -> None:
    from torch._higher_order_ops.scan import scan

    def recurrent(x: torch.Tensor, h: torch.Tensor, gate: torch.Tensor, w: torch.Tensor) -> Any:
        def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
            new = torch.tanh(row + carry @ (w * torch.sigmoid(gate)).t())
            return new, new.clone()

        return scan(step, h, x)

    more = (torch.zeros(3), torch.randn(3, 3), torch.randn(3, 3) * 0.3)
    arguments = (torch.randn(20, 3), *more)
    before, after = exported(recurrent, arguments)
    assert "Sigmoid" in inner(before) and "Sigmoid" not in inner(after)
    assert "Scan" not in {v.op for v in exported(recurrent, (torch.randn(2, 3), *more))[1].order}


def test_branches_that_compute_one_thing() -> None:
    def choose(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            x.sum() > 0, lambda a, b: torch.exp(a @ b).relu(), lambda a, b: torch.exp(a @ b).neg(), (x, w)
        )

    x, w = torch.rand(2, 3), torch.rand(3, 3)
    _, after = exported(choose, (x, w), (-x, w))
    assert "Exp" not in inner(after) and [v.op for v in after.order].count("Exp") == 1


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_networks(kind: Any) -> None:
    model = kind(4, 5, num_layers=2, bidirectional=True, batch_first=True).eval()

    def states(x: torch.Tensor) -> torch.Tensor:
        return model(x)[0]

    with torch.no_grad():
        exported(states, (torch.randn(2, 6, 4),))
