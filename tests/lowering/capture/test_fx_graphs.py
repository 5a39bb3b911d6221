"""FX graphs that no torch.export made: of nested arguments, annotated by ShapeProp, of forward and backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch._functorch.aot_autograd import aot_export_joint_simple, aot_export_module
from torch.export.experimental import _export_forward_backward
from torch.fx.experimental.proxy_tensor import make_fx

from irkit.doors.to_onnx import to_onnx
from lowering.capture.fx_graphs import structure_of
from tests.support.captured import X, Y


def mixed(first: dict[str, Any], second: list[torch.Tensor]) -> dict[str, Any]:
    return {"sum": first["a"] + first["b"][0], "rest": [second[0] * 2, second[1]]}


TREE: Any = ({"a": X, "b": [Y]}, [X, Y])


@pytest.mark.parametrize("mode", ["real", "symbolic"])
def test_make_fx_of_nested_arguments(mode: Any) -> None:
    graph = make_fx(mixed, tracing_mode=mode)(*TREE)
    program = to_onnx(graph)
    assert [name for name, _ in program.report.inputs] == [
        "first.a", "first.b.0", "second.0", "second.1"
    ]  # fmt: skip
    assert program.check(n=1)
    torch.testing.assert_close(program(*TREE), mixed(*TREE))
    assert to_onnx(graph, TREE).check(n=0)


def test_make_fx_of_a_tuple_and_a_dict_is_no_call_by_name() -> None:
    def model(pair: tuple[torch.Tensor, ...], by_key: dict[str, torch.Tensor]) -> torch.Tensor:
        return pair[0] - pair[1] + by_key["k"]

    args = ((X, Y, X), {"k": Y})
    graph = make_fx(model)(*args)
    found = structure_of(graph)
    assert found is not None and found.arguments == ("pair", "by_key")
    torch.testing.assert_close(to_onnx(graph)(*args), model(*args))


@pytest.mark.parametrize("mode", ["real", "symbolic"])
def test_aten_graphs_that_keep_tensor_meta_only(mode: Any) -> None:
    cases: tuple[tuple[Any, Any], ...] = ((lambda x: (x.relu() + 1).split(2), (X,)), (mixed, TREE))
    for model, args in cases:
        graph: Any = make_fx(model, tracing_mode=mode)(*args)
        for node in graph.graph.nodes:
            node.meta.pop("val", None)
        program = to_onnx(graph)
        torch.testing.assert_close(program(*args), model(*args))


class Loss(nn.Module):
    """A model whose loss is its result."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.linear(x).relu().sum(),)


def test_joint_graphs_of_aot_autograd() -> None:
    model = Loss()
    joint, _ = aot_export_module(model, (X,), trace_joint=True, output_loss_index=0)
    args = (model.linear.weight.detach(), model.linear.bias.detach(), X)
    for mine, theirs in zip(to_onnx(joint)(*args), joint(*args), strict=True):
        torch.testing.assert_close(mine, theirs)
    weights = torch.randn(6, 2)
    both = tuple(each.clone().requires_grad_() for each in (X, weights))
    simple = aot_export_joint_simple(lambda x, w: ((x @ w).relu(),), both, trace_joint=True)
    tangent = torch.randn(4, 2)
    given = ([X, weights], [tangent])
    for mine, theirs in zip(to_onnx(simple)(*given), simple(*given), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_joint_program_gives_its_loss_and_its_gradients() -> None:
    class Scalar(Loss):
        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return super().forward(x)[0]

    model = Scalar()
    joint = _export_forward_backward(torch.export.export(model, (X,), strict=True))
    program = to_onnx(joint)
    names = [name for name, _ in program.report.outputs]
    assert names[1:] == ["linear.weight.grad", "linear.bias.grad"] and program.check(n=0)
    loss, weight, bias = program(X)
    model(X).backward()
    torch.testing.assert_close((weight, bias), (model.linear.weight.grad, model.linear.bias.grad))
    torch.testing.assert_close(loss, model(X).detach())
