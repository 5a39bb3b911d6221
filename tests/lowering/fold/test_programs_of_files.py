"""Programs that are read from a file: which tensors share their memory, which torch does not write down, and what it
requires of sizes; and buffers that become other tensors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from irkit.errors import ContractError
from tests.fuzz.copied_views import WAYS
from tests.support.same_results import right_answers


class Renewed(torch.nn.Module):
    """A buffer becomes another tensor, and what it was is returned."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Tensor) -> Any:
        before = self.count
        part = before[1:]
        self.count = self.count + x.sum(0)
        return before, part, self.count * 1


class Exchanged(torch.nn.Module):
    """Two buffers become one another, by way of new tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(3))
        self.register_buffer("b", torch.ones(3))

    def forward(self, x: Tensor) -> Any:
        self.a, self.b = self.b + 1, self.a + 2
        return self.a + x, self.b


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [Renewed, Exchanged])
def test_what_a_buffer_was_stays_what_it_was(kind: type[torch.nn.Module], way: Any, tmp_path: Path) -> None:
    example = (torch.arange(6.0).reshape(2, 3),)
    if way == "file":
        torch.export.save(torch.export.export(kind(), example), tmp_path / "program.pt2")
        program = irkit.to_onnx(tmp_path / "program.pt2")
    else:
        program = irkit.to_onnx(kind(), example, capture=way)
    eager, state = kind(), None
    for _ in range(3):
        expected = [each.clone() for each in eager(*example)]
        found, state = program.run(example, state=state)
        torch.testing.assert_close(list(found), expected)
        torch.testing.assert_close(dict(state), dict(eager.named_buffers()))


def row_of_input(x: Tensor) -> Any:
    row = x[0]
    row.add_(1)
    return x * 1, row


def halves_of_copy(x: Tensor) -> Any:
    whole = x * 1
    first, second = whole.chunk(2)
    first.add_(second.sum())
    whole.t().reshape(-1).mul_(3)
    return whole, first


def bits_of_copy(x: Tensor) -> Any:
    whole = x * 1
    whole.view(torch.int32).squeeze(0).fill_(0)
    return whole


@pytest.mark.parametrize("model", [row_of_input, halves_of_copy, bits_of_copy])
def test_writes_through_views_are_written_by_a_program_out_of_a_file(model: Callable[..., Any], tmp_path: Path) -> None:
    program = saved(model, (torch.arange(24.0).reshape(4, 6),), tmp_path)
    calls = [(torch.arange(float(n * 6)).reshape(n, 6),) for n in range(2, 9)]
    assert sum(is_right(program, model, given) for given in calls) >= 4


PAIRED: dict[str, Callable[[Tensor], Any]] = {
    "reshape": lambda x: x.reshape(-1, 2),
    "part": lambda x: x[1:].reshape(-1, 2),
    "narrow": lambda x: x[..., :2].narrow(-1, 0, 2),
    "windows": lambda x: x[1:].reshape(-1)[1:].unfold(-1, 1, 1),
}


@pytest.mark.parametrize("name", PAIRED)
def test_what_torch_requires_of_sizes_is_required_by_a_program_out_of_a_file(name: str, tmp_path: Path) -> None:
    model = PAIRED[name]
    program = saved(model, (torch.randn(4, 6),), tmp_path)
    calls = [(torch.randn(n, m),) for n, m in product(range(6), range(6))]
    assert right_answers(program, model, calls) >= 4


def saved(model: Callable[..., Any], example: tuple[Any, ...], folder: Path) -> Any:
    """The program of a file that torch.export wrote of a model, whose sizes vary."""

    class Module(torch.nn.Module):
        def forward(self, x: Tensor) -> Any:
            return model(x)

    shapes = (dict.fromkeys(range(2), torch.export.Dim.AUTO),)
    torch.export.save(torch.export.export(Module(), example, dynamic_shapes=shapes), folder / "program.pt2")
    return irkit.to_onnx(folder / "program.pt2")


def is_right(program: Callable[..., Any], model: Callable[..., Any], given: tuple[Tensor, ...]) -> bool:
    """Whether a program takes arguments; it answers as the model does on a copy of them, or fails the test."""
    try:
        found = program(*(each.clone() for each in given))
    except ContractError:
        return False
    torch.testing.assert_close(found, model(*(each.clone() for each in given)))
    return True
