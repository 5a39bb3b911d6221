"""Parts that a line takes of what a call gives, where how many there are varies: `list(x)[0]`, `x.split(2)[-1]`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from irkit.errors import ContractError, IrkitError

Function = Callable[[Tensor], Any]


def ends(x: Tensor) -> Any:
    rows = x.unbind(0)
    return rows[0] - rows[-1]


def written(x: Tensor) -> Any:
    rows = list(x)
    rows[0].add_(1)
    return rows[0] * 2, x * 1


def gradient(x: Tensor) -> Any:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(x.unbind(0)[-1].square().sum(), x)[0]


TAKEN: dict[str, tuple[Function, int]] = {
    "the first": (lambda x: x.unbind(0)[0] * 2, 1),
    "the last": (lambda x: torch.unbind(x)[-1], 1),
    "the third": (lambda x: x.unbind(dim=-2)[2], 3),
    "the last but one": (lambda x: x.unbind()[-2], 2),
    "of a list": (lambda x: list(x)[-1] + list(x * 2)[1], 2),
    "of a tuple": (lambda x: tuple(x)[1], 2),
    "the next": (lambda x: next(iter(x)), 1),
    "of a variable": (ends, 1),
    "written": (written, 1),
    "with its gradient": (gradient, 1),
    "in a transform": (torch.func.vmap(lambda x: x.unbind(0)[0] * 2, in_dims=1), 1),
    "of numbers": (lambda x: x[:, 1].tolist()[-1], 1),
    "of numbers, a row": (lambda x: x.tolist()[1][2], 2),
    "split, the first": (lambda x: x.split(2)[0], 0),
    "split, the last": (lambda x: torch.split(x, 2, dim=0)[-1], 0),
    "split, the second": (lambda x: x.split(split_size=2)[1], 3),
    "split, the last but one": (lambda x: x.split(2)[-2], 3),
    "chunk, the first": (lambda x: x.chunk(3)[0], 0),
    "chunk, the last": (lambda x: torch.chunk(x, 3, 0)[-1], 0),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_part_that_is_taken_leaves_a_size_to_vary(name: str) -> None:
    function, least = TAKEN[name]
    program = irkit.to_onnx(function, (torch.randn(5, 3),), dynamic_shapes=({0: "n"},))
    for size in (5, 8, 4, 3, 2, 1, 0):
        x = torch.randn(size, 3)
        if size < least:
            with pytest.raises(IndexError if name != "the next" else StopIteration):
                function(x.clone())
            with pytest.raises(ContractError):
                program(x)
            continue
        expected, found = function(x.clone()), program(x.clone())
        for one, other in zip(*(each if type(each) is tuple else (each,) for each in (expected, found)), strict=True):
            torch.testing.assert_close(torch.as_tensor(other), torch.as_tensor(one))


def all_of_a_variable(x: Tensor) -> Any:
    rows = x.unbind(0)
    return rows[0] + len(rows)


def more_of_a_variable(x: Tensor) -> Any:
    rows = x.unbind(0)
    rows += (x[0],)
    return rows[-1]


def by_another_name(x: Tensor) -> Any:
    rows = x.unbind(0)
    held = locals()
    return rows[0] + torch.stack(held["rows"]).sum(0)


WHOLE: dict[str, Function] = {
    "counted": all_of_a_variable,
    "made more": more_of_a_variable,
    "found otherwise": by_another_name,
    "a list in a list": lambda x: list(map(list, [x, x]))[1][0],
    "parts in a list": lambda x: list(map(torch.unbind, [x, x]))[1][-1],
    "one behind another": lambda x: list(itertools.chain(x, x[:1]))[-1],
    "of something else": lambda x: functools.partial(torch.unbind, dim=0)(x)[0] + len(x.unbind(0)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_takes_more_fixes_the_size_or_is_as_in_eager(name: str) -> None:
    function = WHOLE[name]
    example = torch.randn(5, 3)
    with pytest.raises(IrkitError, match="was to vary"):
        irkit.to_onnx(function, (example,), dynamic_shapes=({0: "n"},), capture="direct")
    fixed = irkit.to_onnx(function, (example,), capture="direct")
    torch.testing.assert_close(fixed(example), function(example))


def test_a_function_of_the_models_own_is_no_list() -> None:
    def list(x: Tensor) -> Any:  # stands for Python's own
        return [torch.stack(x.unbind(0)).sum(), x.shape[0]]

    with pytest.raises(IrkitError, match="was to vary"):
        irkit.to_onnx(lambda x: list(x)[0], (torch.randn(5, 3),), dynamic_shapes=({0: "n"},), capture="direct")


AFTERWARDS: dict[str, Function] = {
    "unfold": lambda x: x.split(2)[-1].unfold(0, 2, 2),
    "of three": lambda x: x.chunk(3)[1].unfold(0, 2, 1),
    "linear": lambda x: torch.nn.functional.linear(x.split(2)[-1][:, :3], torch.ones(2, 3)),
    "largest": lambda x: x.chunk(3)[-1].max(0).values,
    "a row": lambda x: x.split(3)[-1][1],
    "with another": lambda x: x.split(2)[-1] + x[:2],
    "a product": lambda x: x.split(3)[-1] @ x.mT,
}


@pytest.mark.parametrize("name", AFTERWARDS)
def test_what_operators_require_of_the_sizes_of_a_part_is_kept(name: str) -> None:
    """Of a last part torch takes sizes that hang on how many there are, and of its other sizes what it takes of all."""
    function = AFTERWARDS[name]
    given = {"dynamic_shapes": ({0: "n", 1: "m"},), "capture": "direct"}
    program = irkit.to_onnx(function, (torch.randn(12, 3),), **given)
    answered = 0
    for n, m in itertools.product((1, 2, 3, 4, 5, 6, 7, 9), (1, 2, 3, 4)):
        x = torch.randn(n, m)
        try:
            expected = function(x)
        except (RuntimeError, IndexError):
            with pytest.raises(IrkitError):
                program(x)
            continue
        try:
            found = program(x)
        except irkit.ContractError:
            continue
        torch.testing.assert_close(found, expected)
        answered += 1
    assert answered
