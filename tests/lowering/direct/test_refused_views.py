"""Views that torch refuses for how elements lie in memory, of the example or of other sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import irkit

Model = Callable[[torch.Tensor], torch.Tensor]
REFUSED: dict[str, Model] = {
    "turned": lambda x: x.t().view(-1),
    "a part": lambda x: x[:, :2].view(-1),
    "turned, of two axes": lambda x: x.transpose(0, 1).view(2, -1),
    "expanded": lambda x: x[:, :1].expand(-1, 3).view(-1),
    "as another": lambda x: x.t().view_as(x),
    "of the operator": lambda x: torch.ops.aten.view.default(x.t(), [-1]),
}
TAKEN: dict[str, Model] = {
    "an axis more": lambda x: x.t().view(3, -1, 1),
    "rows split": lambda x: x[:, :2].view(-1, 2, 1),
    "of rows": lambda x: x[1:].view(-1),
    "of another order": lambda x: x.t().contiguous().view(-1),
    "overlapping": lambda x: x.reshape(-1).unfold(0, 2, 1)[:1].view(-1),
}
ROWS = ({0: "n"},)


@pytest.mark.parametrize("model", REFUSED.values(), ids=REFUSED)
def test_a_view_that_torch_refuses_of_the_example_is_refused(model: Model) -> None:
    x = torch.randn(4, 3)
    with pytest.raises(RuntimeError):
        model(x)
    for shapes in (None, ROWS):
        with pytest.raises(irkit.IrkitError, match="view size"):
            irkit.to_onnx(model, (x,), dynamic_shapes=shapes, capture="direct")


@pytest.mark.parametrize("model", [REFUSED["turned"], REFUSED["a part"], REFUSED["expanded"]])
def test_a_view_that_torch_takes_of_one_row_only_is_for_that(model: Model) -> None:
    try:
        program = irkit.to_onnx(model, (torch.randn(1, 3),), dynamic_shapes=ROWS, capture="direct")
    except irkit.CaptureError as refused:
        assert "works for 1 only" in str(refused)
        return
    for rows in (0, 1):
        assert program(x := torch.randn(rows, 3)).equal(model(x))
    for rows in (2, 5):
        with pytest.raises(irkit.ContractError):
            program(torch.randn(rows, 3))


@pytest.mark.parametrize("rows", [4, 1])
@pytest.mark.parametrize("model", TAKEN.values(), ids=TAKEN)
def test_a_view_that_torch_takes_of_all_sizes_is_taken_of_them(model: Model, rows: int) -> None:
    program = irkit.to_onnx(model, (torch.randn(rows, 3),), dynamic_shapes=ROWS, capture="direct")
    for other in (0, 1, 2, 7):
        x = torch.randn(other, 3)
        try:
            expected = model(x)
        except RuntimeError:
            with pytest.raises(irkit.ContractError):
                program(x)
            continue
        assert program(x).equal(expected)


def test_whether_a_part_is_a_view_is_asked_at_sizes_that_other_sizes_must_follow() -> None:
    """At 2 rows what is written is a view, not a copy, which the condition on `y` hid: 2 rows are allowed only with
    fewer rows of that than the example has."""

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        columns = torch.zeros(x.shape[1], x.shape[0]).t()
        columns.copy_(x)
        if x.shape[0] >= y.shape[0]:
            columns[1:].reshape(-1).mul_(2)
        return columns

    shapes = {"x": {0: "n", 1: "m"}, "y": {0: "p"}}
    program = irkit.to_onnx(model, (torch.randn(4, 4), torch.randn(4, 3)), dynamic_shapes=shapes, capture="direct")
    for rows in (4, 5, 3):
        given = torch.randn(rows, 4), torch.randn(1, 3)
        torch.testing.assert_close(program(*given), model(*given))
    with pytest.raises(irkit.ContractError):
        program(torch.randn(2, 4), torch.randn(1, 3))


HALVES: dict[str, Model] = {
    "half of half": lambda x: x[:-1][: (len(x) - 1) // 2][::2].view(-1),
    "a quarter": lambda x: x[: len(x) // 4][::2].view(-1),
    "a tenth": lambda x: x[: (len(x) + 9) // 10][::2].view(-1),
    "a quarter of a third": lambda x: x[: len(x) // 3][::4].view(-1),
    "shared, of a tenth": lambda x: x[: (len(x) + 9) // 10][::2].reshape(-1).mul_(2) * 0 + x.sum(),
}


@pytest.mark.parametrize("rows", [4, 13])
@pytest.mark.parametrize("name", HALVES)
def test_a_view_of_quotients_of_sizes_is_for_those_that_torch_takes(name: str, rows: int) -> None:
    """Where the second row comes hangs on the divisors."""
    model = HALVES[name]
    try:
        program = irkit.to_onnx(model, (torch.randn(rows, 3),), dynamic_shapes=ROWS, capture="direct")
    except irkit.IrkitError:
        return
    for other in (0, 1, 2, 3, 5, 7, 8, 9, 12, 20, 21, 22, 45):
        x = torch.randn(other, 3)
        try:
            expected = model(x.clone())
        except RuntimeError:
            with pytest.raises(irkit.IrkitError):
                program(x)
            continue
        try:
            found = program(x.clone())
        except irkit.ContractError:
            continue
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("sizes", [(5, 5), ((5, 5),), (5,), (1, 5)])
@pytest.mark.parametrize("axis", [0, 1])
def test_sizes_that_are_summed_to_are_those_of_the_tensor_or_1(sizes: tuple[object, ...], axis: int) -> None:
    """torch gives a tensor of these sizes back as it is, by no operator."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return x.sum_to_size(*sizes)  # type: ignore[arg-type]

    x, varies = torch.arange(25).reshape(5, 5), axis == 0 and sizes in ((5,), (1, 5))
    if not varies:
        with pytest.raises(irkit.IrkitError, match="works for 5 only"):
            irkit.to_onnx(model, (x,), dynamic_shapes=({axis: "n"},), capture="direct")
        return
    program = irkit.to_onnx(model, (x,), dynamic_shapes=({axis: "n"},), capture="direct")
    for n in (1, 2, 7):
        assert torch.equal(program(x[:1].expand(n, 5)), model(x[:1].expand(n, 5)))


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x.sum_to_size(size=(5, 5)),
        lambda x: torch.ops.aten.sum_to_size.default(x, [5, 5]),
        lambda x: torch.ops.aten.sum_to_size(x, [5, 5]),
        lambda x: torch.vmap(lambda row: row.sum_to_size(5))(x),
    ],
    ids=["by name", "the operator", "its packet", "mapped"],
)
def test_sizes_are_summed_to_alike_however_torch_is_called(model: Model) -> None:
    with pytest.raises(irkit.IrkitError, match="works for 5 only"):
        irkit.to_onnx(model, (torch.randn(5, 5),), dynamic_shapes=({1: "n"},), capture="direct")


def test_sizes_of_another_that_are_summed_to_are_kept_as_one() -> None:
    program = irkit.to_onnx(
        lambda x, y: x.sum_to_size(y.shape),
        (torch.randn(4, 5, 3), torch.randn(5, 3)),
        dynamic_shapes=({1: "n"}, {0: "m"}),
        capture="direct",
    )
    assert program(torch.ones(4, 2, 3), torch.ones(2, 3)).shape == (2, 3)
    with pytest.raises(irkit.IrkitError):
        program(torch.ones(4, 2, 3), torch.ones(3, 3))
