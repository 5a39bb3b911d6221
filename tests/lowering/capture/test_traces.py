"""`lowering.trace`: FX graphs with irkit's types over the user's names, which run, and are lowered as the model is."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import irkit
from irkit.core.types import tensor
from lowering import CaptureError, lower, trace
from lowering.capture.fx_graphs import TRACE

N = irkit.symbol("n")


class Stacked(torch.nn.Module):
    """A layer, its result twice, and how many rows there were."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        y = self.layer(x)
        return {"y": torch.cat([y, y]), "halves": y.chunk(3, dim=1), "count": x.shape[0]}


def asks_for_more_than_two(x: torch.Tensor) -> torch.Tensor:
    return x.sin() if x.shape[0] > 2 else x.cos()


def test_nodes_know_their_types_over_the_users_names_and_the_module_runs() -> None:
    model = Stacked()
    module = trace(model, (torch.randn(5, 4),), dynamic_shapes=({0: "n"},))
    known = {node.name: node.meta.get(TRACE) for node in module.graph.nodes}
    assert known["x"] == tensor("f32", N, 4) and known["linear"] == tensor("f32", N, 3)
    assert known["cat"] == tensor("f32", 2 * N, 3) and known["chunk"] == (tensor("f32", N, 1),) * 3
    assert known["sym_size_int_1"] == N
    x = torch.randn(9, 4)
    torch.testing.assert_close(module(x)["y"], model(x)["y"])
    assert module(x)["count"] == 9


@pytest.mark.parametrize("model", [Stacked(), asks_for_more_than_two], ids=["layers", "a_question"])
def test_a_trace_is_lowered_as_the_model_is(model: Any) -> None:
    args, shapes = (torch.randn(5, 4),), ({0: "n"},)
    module = trace(model, args, dynamic_shapes=shapes)
    ours, theirs = lower(copy.deepcopy(module)), lower(model, args, dynamic_shapes=shapes, capture="torch.export")
    assert ours.symbols == theirs.symbols and [v.type for v in ours.params] == [v.type for v in theirs.params]
    assert [(f.kind, f.text, f.source) for f in ours.signature.facts] == [
        (f.kind, f.text, f.source) for f in theirs.signature.facts
    ]
    assert [(v.op, v.type) for v in ours.order] == [(v.op, v.type) for v in theirs.order]
    program = irkit.to_onnx(module, args)
    assert program.check()


def test_a_trace_may_be_changed_before_it_is_lowered() -> None:
    module = trace(torch.sin, (torch.randn(3),), dynamic_shapes=({0: "n"},))
    (node,) = (each for each in module.graph.nodes if each.op == "call_function")
    node.target = torch.ops.aten.cos.default
    module.recompile()
    assert [value.op for value in lower(module).order] == ["Param", "Cos"]


def test_a_saved_program_is_traced_with_names(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(
        torch.export.export(Stacked(), (torch.randn(5, 4),), dynamic_shapes=({0: torch.export.Dim.AUTO},)), path
    )
    module = trace(path, dynamic_shapes={"x": {0: "rows"}})
    (x,) = (node for node in module.graph.nodes if node.op == "placeholder")
    assert str(x.meta[TRACE]) == "f32[rows, 4]"


class Counting(torch.nn.Module):
    """A buffer that is written through a view, and one that is not."""

    seen: torch.Tensor
    factor: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.register_buffer("factor", torch.full((4,), 3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen[1:] += x.sum(0)[1:]
        return x * self.factor + self.seen


def test_state_that_the_model_writes_is_carried_on() -> None:
    module = trace(Counting(), (torch.ones(5, 4),), dynamic_shapes=({0: "n"},))
    program = irkit.to_onnx(module, (torch.ones(5, 4),))
    assert program.report.state == ("seen",)
    first, state = program.run((torch.ones(2, 4),))
    assert state["seen"].tolist() == [0, 2, 2, 2] and first[0].tolist() == [3, 5, 5, 5]
    _, state = program.run((torch.ones(7, 4),), state=state)
    assert state["seen"].tolist() == [0, 9, 9, 9]
    assert program.check() and program.state["seen"].tolist() == [0, 0, 0, 0]


def test_what_cannot_be_captured_is_refused_by_name() -> None:
    def branches(x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x

    with pytest.raises(CaptureError, match="cannot capture"):
        trace(branches, (torch.randn(3),))
