"""Experts that data chooses: each round of a loop works with the weights that its number names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import irkit

WEIGHT = torch.randn(4, 3, 5)


def same_as_eager(model: Callable[..., Any], chosen: list[list[int]], refused: Sequence[list[int]] = ()) -> None:
    """Exports for the first of some lists of experts, and compares for all."""

    def given(experts: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand(len(experts), 3), torch.tensor(experts, dtype=torch.int64)

    shapes = ({0: "n"}, {0: "n"})
    program = irkit.to_onnx(model, given(chosen[0]), dynamic_shapes=shapes, capture="direct", rewrite=True)
    for experts in chosen:
        args = given(experts)
        torch.testing.assert_close(program(*args), model(*args))
    for experts in refused:
        with pytest.raises(irkit.errors.IrkitError):
            program(*given(experts))


def test_a_place_beyond_the_weights_is_in_a_branch_that_the_example_does_not_take() -> None:
    def kept_or_weighed(x: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
        number = int(experts.max().item())
        return x * 2 if number >= 4 else x * WEIGHT[number, :, 0]

    same_as_eager(kept_or_weighed, [[9, 0], [3], [1, 0, 2], [-1], [4]], refused=[[-5]])


def test_a_loop_works_with_the_weights_of_the_experts_that_are_hit() -> None:
    def mixed(x: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
        out = x.new_zeros(x.shape[0], 5)
        mask = torch.nn.functional.one_hot(experts, num_classes=5).permute(1, 0)
        for number in torch.greater(mask.sum(-1), 0).nonzero():
            number = number[0]
            if number == 4:
                continue
            (rows,) = torch.where(mask[number])
            out.index_add_(0, rows, x[rows] @ WEIGHT[number])
        return out

    same_as_eager(mixed, [[0, 4, 1, 4], [3], [1, 1, 0, 2, 3]])


class Expert(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(3, 6), torch.nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).relu())


class Sorted(torch.nn.Module):
    """Rows in the order of their experts; each expert works on a part of them."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = torch.nn.ModuleList([Expert() for _ in range(4)])

    def forward(self, x: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        order = experts.argsort()
        ends = experts.bincount().cpu().numpy().cumsum(0)
        for number, end in enumerate(ends):
            start = 0 if number == 0 else ends[number - 1]
            if start == end:
                continue
            rows = order[start:end]
            out.scatter_reduce_(0, rows.view(-1, 1).repeat(1, 3), self.experts[number](x[rows]), reduce="sum")
        return out


class Named(torch.nn.Module):
    """Experts in a dict, by a text that has the number."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = torch.nn.ModuleDict({f"expert_{number}": Expert() for number in range(4)})

    def forward(self, x: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        mask = torch.nn.functional.one_hot(experts, num_classes=4).permute(1, 0)
        for number in torch.greater(mask.sum(-1), 0).nonzero():
            (rows,) = torch.where(mask[number].squeeze(0))
            out.index_add_(0, rows, self.experts[f"expert_{number[0]}"](x[rows]))
        return out


@pytest.mark.parametrize("model", [Sorted(), Named()])
@torch.no_grad()
def test_a_round_works_with_the_module_that_its_number_names(model: torch.nn.Module) -> None:
    same_as_eager(model.eval(), [[0, 2, 1, 2], [0, 0, 2, 2], [3, 0, 3, 3, 1], [1]], refused=[[4], [5, 0]])


class Chosen(torch.nn.Module):
    def __init__(self, *experts: torch.nn.Module) -> None:
        super().__init__()
        self.experts = torch.nn.ModuleList(experts)

    def forward(self, x: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
        return self.experts[experts.max()](x)  # type: ignore[call-overload]


@torch.no_grad()
def test_a_module_is_chosen_without_rewriting_too() -> None:
    model, x = Chosen(Expert(), Expert(), Expert()).eval(), torch.rand(2, 3)
    program = irkit.to_onnx(model, (x, torch.tensor([0, 1])), capture="direct")
    for experts in ([2, 1], [0, 0], [-1, -3]):
        torch.testing.assert_close(program(x, torch.tensor(experts)), model(x, torch.tensor(experts)))
    for experts in ([3, 0], [-4, -4]):
        with pytest.raises(irkit.ContractError):
            program(x, torch.tensor(experts))


@torch.no_grad()
def test_weights_that_one_module_shares_another_need_not() -> None:
    def square(shared: bool) -> torch.nn.Module:
        first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        second.weight = first.weight if shared else second.weight
        return torch.nn.Sequential(first, second)

    model, x = Chosen(square(True), square(False)).eval(), torch.rand(2, 3)
    program = irkit.to_onnx(model, (x, torch.tensor([0])), capture="direct")
    for number in (0, 1):
        torch.testing.assert_close(program(x, torch.tensor([number])), model(x, torch.tensor([number])))


@torch.no_grad()
def test_modules_that_differ_beyond_their_weights_are_chosen_for_the_example_only() -> None:
    model = Chosen(Expert(), torch.nn.Sequential(Expert(), Expert())).eval()
    program = irkit.to_onnx(model, (torch.rand(2, 3), torch.tensor([0, 1])), capture="direct")
    with pytest.raises(irkit.ContractError):
        program(torch.rand(2, 3), torch.tensor([0, 0]))


class Counting(Expert):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x) * self.calls


class Keeping(Expert):
    last: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x
        return super().forward(x)


@pytest.mark.parametrize(("kind", "told"), [(Counting, "writes one of its own"), (Keeping, "sets an attribute")])
@torch.no_grad()
def test_a_chosen_module_that_keeps_something_is_refused(kind: type[torch.nn.Module], told: str) -> None:
    with pytest.raises(irkit.errors.IrkitError, match=told):
        irkit.to_onnx(Chosen(kind(), kind()).eval(), (torch.rand(2, 3), torch.tensor([0, 1])), capture="direct")


@pytest.mark.parametrize("first", [[0, 2], [2, 3], [3, 3]])
def test_the_expert_that_the_example_hits_first_need_not_be_the_first(first: list[int]) -> None:
    """That the number of classes refuses a size above leaves it to the operator what it takes below."""
    every = torch.randn(4 * 3, 5)

    def mixed(x: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(x.shape[0], 5)
        mask = torch.nn.functional.one_hot(experts, num_classes=5).permute(1, 0)
        for number in torch.greater(mask.sum(-1), 0).nonzero():
            (rows,) = torch.where(mask[number[0]])
            out.index_add_(0, rows, x[rows] @ every.view(-1, 3, 5)[number[0]])
        return out

    same_as_eager(mixed, [first, [0, 1, 2], [3, 3]], refused=[[4, 0]])
