"""What torch takes for granted of sizes, and says in no guard: programs refuse sizes at which eager raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import irkit
from irkit.dims.conditions import holds
from irkit.doors.to_onnx import to_onnx
from lowering.errors import CaptureError

pytestmark = pytest.mark.filterwarnings("ignore")

ASKED: tuple[Callable[[Tensor], Any], ...] = (
    lambda x: x[2:-2].max(),
    lambda x: x[2:-2].min(),
    lambda x: x[2:-2].argmax(),
    lambda x: x[-4:4].min(0).values,
    lambda x: x[-4:4].amax((0, 1)),
    lambda x: x[3:].mode(0).values,
    lambda x: x[x.shape[0] - 3],
    lambda x: x[-(x.shape[0] // 2)],
    lambda x: x[4:].chunk(2, 0)[1],
    lambda x: nn.functional.interpolate(x.T[None], scale_factor=0.4),
    lambda x: nn.functional.interpolate(x.T[None], x.shape[0] - 3, mode="linear"),
    lambda x: nn.functional.interpolate(x[None, None], scale_factor=(0.3, 1), mode="bilinear", antialias=True),
    lambda x: nn.functional.interpolate(x[None, None, 2:-1], scale_factor=1.5, mode="bicubic"),
    lambda x: nn.functional.interpolate(x[None, None, None, 3:], scale_factor=2, mode="nearest-exact"),
)


@pytest.mark.parametrize("number", range(len(ASKED)))
def test_where_eager_raises_the_program_refuses(number: int) -> None:
    """A size may be refused at which eager answers; never the other way round."""
    function, answered = ASKED[number], 0
    program = to_onnx(function, (torch.randn(6, 4),), dynamic_shapes=({0: Dim.AUTO},))
    for size in range(10):
        x = torch.randn(size, 4)
        try:
            expected = function(x)
        except (IndexError, RuntimeError):
            with pytest.raises(irkit.ContractError):
                program(x)
            continue
        try:
            torch.testing.assert_close(program(x), expected)
            answered += 1
        except irkit.ContractError:
            continue
    assert answered > 2


def test_a_place_that_every_size_has_needs_no_condition() -> None:
    program = to_onnx(lambda x: x[x.shape[0] - 1], (torch.randn(6, 4),), dynamic_shapes=({0: "n"},))
    assert [condition for condition, _ in program.report.guards] == ["n >= 1"]


def test_a_condition_that_divides_by_nothing_does_not_hold() -> None:
    assert holds("n == 0 or 6 // n == 3", {"n": 0}) is True
    assert holds("6 // n == 3 or n == 0", {"n": 0}) is False
    assert holds("n > 0 and 6 % n == 0", {"n": 0}) is False
    assert holds("n == 0 or m > 1", {"n": 0}) is True


def test_a_view_at_a_place_out_of_the_data_is_returned_after_a_write() -> None:
    def function(x: Tensor, i: Tensor) -> Any:
        x = x * 1
        x.add_(1)
        return x[i % 3], x[:, i % 2]

    program = to_onnx(function, (torch.randn(3, 4), torch.tensor(1)), dynamic_shapes=({1: "n"}, None))
    for n, at in ((4, 0), (5, 2), (2, 4)):
        args = torch.randn(3, n), torch.tensor(at)
        torch.testing.assert_close(program(*args), function(*args))


def test_a_dimension_of_1_by_a_long_expression_is_squeezed() -> None:
    """min(n, 1) is 1 wherever there is something, which its expression does not tell."""

    def function(x: Tensor) -> Any:
        y = x * 2
        z = y.diagonal().squeeze(0)
        z.add_(1)
        return x.diagonal().squeeze(0), y, z

    program = to_onnx(function, (torch.ones(1, 1),), dynamic_shapes=({0: Dim.AUTO},))
    for n in (1, 2, 5):
        x = torch.randn(n, 1)
        torch.testing.assert_close(program(x), function(x))


def test_the_second_export_of_a_branch_takes_what_the_first_does() -> None:
    """dynamo, which traces torch.cond, remembers nothing of the first."""
    attention, linear = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 8)

    def function(x: Tensor, mask: Tensor) -> Tensor:
        y = torch.where(mask.unsqueeze(-1), attention(x, x, x)[0], linear(x))
        return torch.cond(y.sum() > 0, lambda q: q.cumsum(1), lambda q: q * 2, (y,))

    args = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
    shapes = ({0: "b", 1: "s"}, {0: "b", 1: "s"})
    first, second = (to_onnx(function, args, dynamic_shapes=shapes) for _ in range(2))
    assert first.report.guards == second.report.guards
    for b, s in ((2, 5), (3, 3), (1, 1), (1, 4), (4, 1)):
        x, mask = torch.randn(b, s, 8), torch.rand(b, s) > 0.5
        torch.testing.assert_close(second(x, mask), function(x, mask), atol=1e-5, rtol=1e-4)


def test_an_example_of_one_is_taken_at_its_word() -> None:
    """torch keeps a dimension of unknown size where it squeezes; an example whose size is 1 loses it."""
    auto = to_onnx(lambda x: x.squeeze(0), (torch.ones(1, 2),), dynamic_shapes=({0: Dim.AUTO},), capture="torch.export")
    assert auto(torch.ones(1, 2)).shape == (2,)  # Dim.AUTO leaves it to torch, which fixes the dimension
    for said in ("b", Dim.DYNAMIC):
        with pytest.raises(CaptureError, match=r"another way for the example itself \(dimension 0 of 'x' is 1\)"):
            to_onnx(lambda x: x.squeeze(0), (torch.ones(1, 2),), dynamic_shapes=({0: said},), capture="torch.export")
