"""Slices and places that hang on sizes, written at every size from 0 on, against eager; writes that torch has no
functional form of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError, IrkitError
from lowering.program.program import Program

pytestmark = pytest.mark.filterwarnings("ignore")


def exported(function: Callable[..., Any], x: Tensor) -> Program:
    """The program of a function of one tensor whose first size varies."""
    return to_onnx(function, (x,), dynamic_shapes=({0: Dim.AUTO},))


def agrees_at(function: Callable[..., Any], sizes: range, shape: tuple[int, ...] = (2,)) -> None:
    """Fails where the program differs from eager at one of the sizes, or answers where eager raises."""
    program = exported(function, torch.randn(6, *shape))
    for size in sizes:
        x = torch.randn(size, *shape)
        try:
            expected = function(x.clone())
        except IndexError:
            with pytest.raises(ContractError):
                program(x)
            continue
        torch.testing.assert_close(program(x), expected, msg=lambda m, at=size: f"at {at}: {m}")


PLACES: tuple[tuple[str, Callable[[Tensor], Any]], ...] = (
    ("[-(n // 2):]", lambda y: y[-(y.shape[0] // 2) :]),
    ("[-(n // 2)]", lambda y: y[-(y.shape[0] // 2)]),
    ("[:n - 3]", lambda y: y[: y.shape[0] - 3]),
    ("[n - 3:]", lambda y: y[y.shape[0] - 3 :]),
    ("[n - 3]", lambda y: y[y.shape[0] - 3]),
    ("[n // 2 - 5:]", lambda y: y[y.shape[0] // 2 - 5 :]),
    ("[-1:n - 1]", lambda y: y[-1 : y.shape[0] - 1]),
    ("[-n:-2]", lambda y: y[-y.shape[0] : -2]),
    ("[3:1]", lambda y: y[3:1]),
    ("[n // 2:1]", lambda y: y[y.shape[0] // 2 : 1]),
    ("[1:-1], [2:-3]", lambda y: y[1:-1][2:-3]),
    ("[2:-3]", lambda y: y[2:-3]),
    ("[-3:2]", lambda y: y[-3:2]),
    ("[-4:-1]", lambda y: y[-4:-1]),
    ("narrow(n - 1, 1)", lambda y: y.narrow(0, y.shape[0] - 1, 1)),
)


@pytest.mark.parametrize(("words", "view"), PLACES, ids=[words for words, _ in PLACES])
def test_what_hangs_on_sizes_is_written_at_every_size(words: str, view: Callable[[Tensor], Tensor]) -> None:
    """Bounds count from the end where they are below 0, which may depend on the size; a slice may be empty."""

    def function(x: Tensor) -> Tensor:
        y = x.clone()
        view(y).fill_(7.0)
        return y

    agrees_at(function, range(9))


def test_slices_scattered_at_every_size() -> None:
    def function(x: Tensor) -> Any:
        ones = torch.ones_like(x[-(x.shape[0] // 2) :])
        return (
            torch.slice_scatter(x, ones, 0, -(x.shape[0] // 2)),
            torch.select_scatter(x, torch.ones(2), 0, x.shape[0] - 3),
            torch.slice_scatter(x, torch.ones_like(x[2:-3]), 0, 2, -3),
        )

    agrees_at(function, range(2, 9))


NOTHING: dict[str, Callable[[Tensor], Tensor]] = {
    "[None][1:].unsqueeze(0)": lambda y: y[None][1:].unsqueeze(0),
    "[:, :0].flatten()": lambda y: y[:, :0].flatten(),
    "[:, 2:].view(1, 0, -1)": lambda y: y[:, 2:].view(1, 0, y.shape[0]),
    "[0:0].squeeze(1)": lambda y: y[:, :1][0:0].squeeze(1),
}


@pytest.mark.parametrize("words", NOTHING)
def test_views_of_nothing_are_written_at_every_size(words: str) -> None:
    def function(x: Tensor) -> Tensor:
        y = x.clone()
        NOTHING[words](y).add_(7.0)
        return y

    agrees_at(function, range(1, 5))


def test_parts_are_written() -> None:
    """Parts of chunk, and views that torch decomposes, whose places are found by the same view of numbers."""

    def function(x: Tensor) -> Any:
        y, z = x.clone(), x > 0
        y.chunk(2, 0)[0].fill_(1.0)
        y.adjoint()[0] = 5.0
        z.chunk(3, 0)[0].fill_(True)
        return y, z

    agrees_at(function, range(5, 10))


@pytest.mark.parametrize("wrap", [False, True])
def test_diagonals_are_filled(wrap: bool) -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        x, y = x.clone(), y.clone()
        return x.fill_diagonal_(3.0, wrap), y.fill_diagonal_(2)

    for rows, columns in ((7, 3), (3, 7), (1, 1), (9, 2), (4, 4), (9, 1), (0, 3), (3, 0)):
        assert to_onnx(function, (torch.randn(rows, columns), torch.ones(3, 3, 3).long())).check(1)


def test_every_second_element_of_nothing() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        x, y = x.clone(), y.clone()
        x[:, ::2] = 1.0
        y[2:1, 0::2] += 1.0
        return x, y

    program = to_onnx(function, (torch.randn(3, 4), torch.randn(2, 1)), dynamic_shapes=({1: "n"}, None))
    for n in (0, 1, 4, 5):
        args = torch.randn(3, n), torch.randn(2, 1)
        torch.testing.assert_close(program(*args), function(*args))


@pytest.mark.parametrize("module", [nn.Dropout(0.5, inplace=True), nn.Dropout2d(0.5, inplace=True)])
def test_dropout_in_place(module: nn.Module) -> None:
    """Nothing in evaluation; in training, twice the number or 0."""
    model = nn.Sequential(nn.ReLU(), module)
    x = torch.ones(4, 5, 2, 2)
    assert to_onnx(model.eval(), (x,)).check(1)
    found = to_onnx(model.train(), (x,), seed=1)(x)
    assert found.unique().tolist() == [0.0, 2.0]


def test_polygamma_in_place() -> None:
    assert to_onnx(lambda x: (x + 1.5).polygamma_(1), (torch.rand(4),)).check(1)


def test_numbers_minus_a_multiple() -> None:
    """rsub of a number takes its alpha by position."""
    agrees_at(lambda x: (torch.rsub(x, 7, alpha=2), torch.rsub(x.long(), x.shape[0], alpha=3)), range(4))


def test_a_cast_to_what_a_view_is_already_writes_through_it() -> None:
    def function(x: Tensor) -> Any:
        y = x * 1
        part = y[0].expand(3, 2)[1].to(torch.float32).type_as(y)
        part.fill_(2.0)
        return y, part

    agrees_at(function, range(1, 4))


RESIZED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "fewer rows": lambda x: torch.mul(x[:1], 2, out=torch.zeros(2, 3)),
    "no dimension": lambda x: torch.matmul(x[0], x[0], out=torch.zeros(1)),
    "more than nothing": lambda x: torch.add(x, 1, out=torch.empty(0)),
}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("name", RESIZED)
def test_a_tensor_that_torch_resizes_to_a_result_is_never_taken_for_one_of_its_old_sizes(name: str) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    with pytest.raises(IrkitError, match="to other sizes"):
        to_onnx(RESIZED[name], (x,), capture="torch.export")
    program = to_onnx(RESIZED[name], (x,))
    assert torch.equal(program(x), RESIZED[name](x))
