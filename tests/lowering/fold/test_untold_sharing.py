"""By torch.export, views that are none at the example's sizes, or that torch does not record, and that are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError, IrkitError
from lowering import lower
from lowering.fold.memory import storage

pytestmark = pytest.mark.filterwarnings("ignore")

Give = Callable[[Tensor], Tensor]

AT_SOME_SIZES: dict[str, Give] = {
    "sum_to_size": lambda x: x.sum_to_size(x.shape[0], 1),
    "reshape": lambda x: x.t().reshape(-1),
    "contiguous": lambda x: x.t().contiguous(),
}
ALWAYS: dict[str, Give] = {
    "einsum": lambda x: torch.einsum("ij->ji", x),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[:, 0], indexing="ij")[0],
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.0, True),
}


def written(give: Give, first: bool) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """A model that writes what an operator is given, or what it gives, and reads both."""

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        whole = x * 1
        part = give(whole)
        (whole if first else part).add_(1)
        return whole, part

    return model


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("name", AT_SOME_SIZES)
def test_a_view_at_some_sizes_is_refused_there_and_right_elsewhere(name: str, first: bool) -> None:
    model = written(AT_SOME_SIZES[name], first)
    program = to_onnx(
        model, (torch.randn(3, 4),), dynamic_shapes=({0: "n", 1: "m"},), capture="torch.export", widen=False
    )
    for sizes in ((3, 4), (5, 2), (7, 3)):
        x = torch.randint(-5, 5, sizes).float()
        torch.testing.assert_close(program(x), model(x))
    with pytest.raises(ContractError):
        program(torch.randn(3, 1))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("name", ALWAYS)
def test_a_view_that_is_not_recorded_is_refused(name: str, first: bool) -> None:
    with pytest.raises(IrkitError, match=r"clone\(\)|did not record"):
        to_onnx(written(ALWAYS[name], first), (torch.randn(3, 4),), capture="torch.export")


def test_what_is_not_read_after_the_write_may_be_a_view() -> None:
    def model(x: Tensor) -> Tensor:
        return (x * 2).t().reshape(-1).add_(1)

    program = to_onnx(model, (torch.randn(3, 4),), dynamic_shapes=({0: "n", 1: "m"},), capture="torch.export")
    for sizes in ((1, 4), (3, 1), (5, 2), (0, 2)):
        x = torch.randn(sizes)
        torch.testing.assert_close(program(x), model(x))


def read_after_the_first(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    one = y.t().reshape(-1)
    y.add_(1)
    two = y.t().contiguous() * 2
    y.mul_(3)
    return y, one, two


def read_after_the_second(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    one = y.t().reshape(-1)
    total = one.sum()
    z = x * 2
    z.add_(1)
    two = y.t().contiguous()
    two.add_(total)
    return y, z, two


def written_by_turns(x: Tensor) -> tuple[Tensor, ...]:
    y, z = x * 1, x * 2
    y.add_(1)
    one, other = y.t().reshape(-1), z.t().reshape(-1)
    z.add_(other.sum())
    y.add_(one.sum())
    return y, z, one


def copy_of_a_copy(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    one = y.t().contiguous()
    y.add_(1)
    two = one.t().contiguous()
    y.mul_(2)
    return y, two


@pytest.mark.parametrize(
    "model",
    [read_after_the_first, read_after_the_second, written_by_turns, copy_of_a_copy],
    ids=lambda each: each.__name__,
)
def test_each_of_several_writes_asks_of_what_came_before_it(model: Callable[[Tensor], tuple[Tensor, ...]]) -> None:
    program = to_onnx(
        model, (torch.randn(3, 4),), dynamic_shapes=({0: "n", 1: "m"},), capture="torch.export", widen=False
    )
    for sizes in ((3, 4), (5, 2)):
        x = torch.randint(-5, 5, sizes).float()
        torch.testing.assert_close(program(x), model(x))
    with pytest.raises(ContractError):
        program(torch.randn(3, 1))


class Rows(torch.nn.Module):
    """A module that writes one row after the other."""

    def forward(self, x: Tensor) -> Tensor:
        y, found = x * 1, x * 2
        for i in range(x.shape[0]):
            found[i] = y[i].reshape(-1) + y[i - 1]
        return found


def test_many_writes_take_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    storage_of = storage.storage_of
    monkeypatch.setattr(storage, "storage_of", lambda node: (asked.append(1), storage_of(node))[1])
    counts = []
    for rows in (8, 16):
        exported = torch.export.export(Rows(), (torch.randn(rows, 2),))
        asked.clear()
        lower(exported)
        counts.append(len(asked))
    assert 0 < counts[1] < 2.2 * counts[0]
