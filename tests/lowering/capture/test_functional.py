"""FX graphs without mutation, and traces with modules left whole."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx import GraphModule, symbolic_trace

from lowering import CaptureError, functional, lower, trace
from lowering.records.torch_internals import OpOverload


class Writes(torch.nn.Module):
    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.linear(x).clone()
        y[:, 1:3].fill_(1.0)
        y.add_(1)
        self.count.add_(y.sum(0))
        x.mul_(2)
        turned = y.t()
        turned.relu_()
        return y, turned.sum()


def writing(module: GraphModule) -> list[str]:
    nodes = [n for n in module.graph.nodes if isinstance(n.target, OpOverload) and n.target._schema.is_mutable]
    return [str(node.target) for node in nodes]


def test_writes_become_values_and_what_outlives_the_call_is_written_once_at_the_end() -> None:
    traced = symbolic_trace(Writes())
    made = functional(traced, (torch.randn(3, 4),))
    assert writing(made) == ["aten.copy_.default"] * 2
    assert [node.target for node in made.graph.nodes if node.op == "placeholder"] == ["x"]
    assert dict(made.named_parameters()).keys() == dict(traced.named_parameters()).keys()
    one, other = torch.randn(3, 4), torch.randn(3, 4)
    other.copy_(one)
    expected, found = traced(one), made(other)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(other, one)


def test_a_graph_that_writes_nothing_is_the_same_and_whole_slices_go() -> None:
    clean = symbolic_trace(lambda x: torch.relu(x))
    assert functional(clean, (torch.randn(2),)) is clean
    sliced = trace(lambda x: torch.ops.aten.slice.Tensor(torch.relu(x), 0, 0, 1 << 62) + 1, (torch.randn(2),))
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    whole = graph.call_function(torch.ops.aten.slice.Tensor, (x, 0, 0, (1 << 63) - 1))
    part = graph.call_function(torch.ops.aten.slice.Tensor, (whole, 0, 1, (1 << 63) - 1))
    graph.output(part)
    made = functional(GraphModule(torch.nn.Module(), graph), (torch.arange(3),))
    assert len([n for n in made.graph.nodes if n.op == "call_function"]) == 1 and made(torch.arange(3)).tolist() == [
        1,
        2,
    ]
    assert isinstance(sliced, GraphModule)


def test_what_is_no_graph_or_does_not_run_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"is no torch\.fx\.GraphModule"):
        functional(torch.nn.ReLU(), (torch.randn(2),))  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match="cannot be traced with these arguments"):
        functional(symbolic_trace(Writes()), (torch.randn(3, 5),))


class Inner(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> dict[str, Any]:
        y = self.linear(x) * scale
        return {"a": y, "b": (y + 1,)}


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Inner(), torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.one(x, scale=3.0)
        y = found["b"][0].clone()
        y[0:, :].add_(1)
        return self.two(y) + found["a"].sum()


@pytest.mark.parametrize(
    ("leaves", "calls"),
    [(None, []), ({Inner}, ["one"]), (lambda path, module: path in ("two", "one.linear"), ["one.linear", "two"])],
)
@pytest.mark.parametrize("functional_", [False, True])
def test_modules_are_left_whole_and_writes_are_left_out_on_request(
    leaves: Any, calls: list[str], functional_: bool
) -> None:
    model = Outer().eval()
    x = torch.randn(3, 4)
    made = trace(model, (x,), dynamic_shapes=({0: "n"},), leaves=leaves, functional=functional_)
    assert [node.target for node in made.graph.nodes if node.op == "call_module"] == calls
    assert bool(writing(made)) is not functional_
    for each in (x, torch.randn(6, 4)):
        torch.testing.assert_close(made(each), model(each))
    assert "forward" not in vars(model.one)
    if leaves is None:
        assert len(lower(made).results) == 1


def branching(number: Any, nothing: Any) -> Any:
    weight = torch.ones(4)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n = x.shape[0]

            def yes(a: torch.Tensor, k: Any, rest: Any) -> torch.Tensor:
                return a[: n - 1] * k + weight if rest is None else a[: n - 1]

            def no(a: torch.Tensor, k: Any, rest: Any) -> torch.Tensor:
                return a[1:n]

            return torch.cond(x.sum() > 0, yes, no, (x, number, nothing))

    return Model()


@pytest.mark.parametrize("number", [2, 0.5, True])
def test_branches_take_numbers_and_none_index_by_sizes_and_close_over_tensors(number: Any) -> None:
    before, model = torch.cond, branching(number, None)
    made = trace(model, (torch.ones(3, 4),), dynamic_shapes=({0: "n"},))
    for x in (torch.ones(3, 4), -torch.ones(5, 4), torch.randn(7, 4)):
        expected = x[:-1] * number + torch.ones(4) if x.sum() > 0 else x[1:]  # eager torch.cond takes no numbers
        torch.testing.assert_close(made(x), expected)
    assert torch.cond is before


def test_leaves_that_take_sizes_or_are_no_choice_are_refused() -> None:
    class Takes(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x[: n - 1]

    class Gives(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.takes = Takes()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.takes(x, x.shape[0])

    with pytest.raises(CaptureError, match="is given the size"):
        trace(Gives(), (torch.randn(4, 2),), dynamic_shapes=({0: "n"},), leaves={Takes})
    with pytest.raises(CaptureError, match="leaves is 3"):
        trace(Gives(), (torch.randn(4, 2),), leaves=3)
