"""What a model asks of how a result lies in memory, where sizes are 0 or 1 in the example or elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError
from tests.fuzz import asked_layouts
from tests.fuzz.asked_layouts import tensor_of, written
from tests.support.draws import drawn

WAYS = ("direct", "torch.export")


@pytest.mark.parametrize("seed", drawn("asked layouts", range(10_000), 25, (279, 5970077)))
def test_random_questions_about_layouts_are_right_or_refused(seed: int) -> None:
    assert asked_layouts.faults(seed) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("example", [(3, 4), (1, 4), (4, 1), (1, 1)])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.t().relu().stride(), lambda x: x.t().contiguous().stride(), lambda x: (2**x.t()).stride(),
        lambda x: (x.sum(0, keepdim=True).t() * x.sum(1, keepdim=True).t()).stride(), lambda x: x.t().isinf().stride(),
        lambda x: x.t().reshape(-1, 1).stride(), lambda x: torch.zeros_like(x.t()).stride(), lambda x: x.stride(),
        lambda x: x.t().sort(0).values.stride(), lambda x: (x.t() * 1).is_contiguous(), lambda x: (x @ x.t()).stride(),
        lambda x: written(x.t() * 1), lambda x: written(x.t().clone()), lambda x: (x.t() * 1).view(-1) + 1,
        lambda x: written(x.unsqueeze(0).transpose(0, 2) * 1), lambda x: written(x.t().flip(0)),
        lambda x: x[x[:, 0] > 4].t().relu().stride(), lambda x: (x > 4).nonzero().t().clone().stride(),
    ],
)  # fmt: skip
def test_what_lies_in_order_by_chance_does_not_elsewhere(function: Callable[..., Any], example: Any, way: Any) -> None:
    def model(x: torch.Tensor) -> Any:
        return x * 2, function(x)

    given = torch.arange(16.0)[: example[0] * example[1]].reshape(example)
    try:
        program = irkit.to_onnx(model, (given,), dynamic_shapes=({0: "n", 1: "m"},), capture=way)
    except (IrkitError, RuntimeError):
        return
    for sizes in itertools.product((0, 1, 2, 3, 5), repeat=2):
        try:
            found = program(tensor_of(sizes))[1]
        except IrkitError:
            continue
        expected = model(tensor_of(sizes))[1]
        same = torch.equal(found, expected) if isinstance(expected, torch.Tensor) else found == expected
        assert same, f"{found} for {expected} at {sizes}"


PARTS = (
    lambda x: x[:1, :2], lambda x: x[:, :2], lambda x: x[:, :1], lambda x: x.unsqueeze(0)[..., 1:],
    lambda x: x.t()[:1, :2], lambda x: x.diagonal()[None, :2], lambda x: x.unfold(0, 1, 1), lambda x: x[:1, None, :2],
)  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    "made", [torch.zeros_like, torch.clone, torch.Tensor.double, torch.isnan, lambda x: torch.zeros_like(x) * 2]
)
@pytest.mark.parametrize("example", [(3, 2), (1, 3)])
def test_steps_of_one_element_are_told_of_no_part(made: Any, part: Any, example: tuple[int, int]) -> None:
    def model(x: torch.Tensor) -> Any:
        return x * 2, made(part(x * 1)).stride()

    compare_at_sizes(model, example)


def test_a_copy_that_is_a_view_at_other_sizes_lies_in_no_order_there() -> None:
    compare_at_sizes(lambda x: (x * 3, (x * 1)[..., 1:].flatten().is_contiguous()), (1, 4))


@pytest.mark.parametrize("example", [(1, 2), (2, 2), (3, 2)])
@pytest.mark.parametrize(
    "function",
    [
        lambda t: t[:, 1:].clone().resize_(t[:, 1:].numel()), lambda t: t[2:].clone().resize_(t[2:].numel()),
        lambda t: t[2:].clone().is_contiguous(), lambda t: (t[:, 1:] * 2).is_contiguous(),
        lambda t: written(t[2:].clone()), lambda t: written(t[:, 1:] * 2),
    ],
)  # fmt: skip
def test_what_is_made_of_a_part_without_elements_lies_otherwise_where_it_has_some(function: Any, example: Any) -> None:
    compare_at_sizes(lambda x: (x * 2, function((x * 1).t())), example)


def compare_at_sizes(model: Callable[..., Any], example: tuple[int, ...]) -> None:
    """That a program answers at each of some sizes what eager does, or refuses."""
    try:
        program = irkit.to_onnx(model, (tensor_of(example),), dynamic_shapes=({0: "n", 1: "m"},), capture="direct")
    except IrkitError:
        return
    for sizes in itertools.product((1, 2, 3, 5), repeat=2):
        try:
            found = program(tensor_of(sizes))[1]
        except IrkitError:
            continue
        assert not asked_layouts.differs(found, model(tensor_of(sizes))[1]), sizes
