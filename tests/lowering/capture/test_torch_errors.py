"""Errors of torch's are told with the user's names for dimensions, and programs take their own example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

import irkit
from lowering.errors import CaptureError

AB = {"x": {0: "a"}, "y": {0: "b"}}


def branches_on_a_count(x: Any, y: Any) -> Any:
    rows = x[x[:, 0] > 0]
    return rows * 2 if rows.shape[0] > y.shape[0] // 2 else rows


CASES: list[tuple[str, Callable[..., Any], str]] = [
    ("index", lambda x, y: x[9], "index 9 is out of bounds for dimension 0 with size a"),
    ("add", lambda x, y: x + y, "The size of tensor a (a) must match the size of tensor b (b)"),
    ("reshape", lambda x, y: y.reshape(2, -1, 3), "shape '[2, -1, 3]' is invalid for input of size 4*b"),
    ("count", branches_on_a_count, "u0 > ((b//2))"),
    (
        "branch",
        lambda x, y: torch.cond(y.sum() > 0, lambda y: y.narrow(0, 0, 7), lambda y: y + 0, (y,)),
        "start (0) + length (7) exceeds dimension size (b)",
    ),
    (
        "branch of a part",
        lambda x, y: torch.cond(y.sum() > 0, lambda y: y.reshape(2, -1, 5), lambda y: y[None], (y[:3],)),
        "is invalid for input of size 4*Min(3, b)",
    ),
    (
        "strides of branches",
        lambda x, y: torch.cond(y.sum() > 0, lambda x: x.t(), lambda x: x.t().contiguous(), (x,)),
        "True branch has stride (1, 4) but false branch has stride (a, 1)",
    ),
]


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
@pytest.mark.parametrize(("function", "text"), [case[1:] for case in CASES[:3]], ids=[case[0] for case in CASES[:3]])
def test_an_error_of_torch_says_the_names_of_dimensions(function: Any, text: str, strict: bool) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return function(x, y)

    from lowering.capture.capture import capture

    with pytest.raises(CaptureError) as caught:
        capture(Model(), (torch.randn(6, 4), torch.randn(5, 4)), dynamic_shapes=AB, strict=strict)
    assert text in caught.value.what
    assert __file__ in caught.value.source or not caught.value.source


@pytest.mark.parametrize(("function", "text"), [case[1:] for case in CASES[3:]], ids=[case[0] for case in CASES[3:]])
def test_an_error_within_a_branch_says_the_names_of_dimensions(function: Any, text: str, caplog: Any) -> None:
    with pytest.raises(CaptureError) as caught:
        irkit.to_onnx(function, (torch.randn(6, 4), torch.randn(5, 4)), dynamic_shapes=AB, capture="torch.export")
    assert text in caught.value.what
    assert "torch.cond" in caught.value.hint


def test_a_dimension_without_a_name_is_told_by_its_place() -> None:
    given, dynamic = (torch.randn(6, 4), torch.randn(5, 4)), {"x": {0: Dim.DYNAMIC}, "y": {0: Dim.DYNAMIC}}
    with pytest.raises(
        CaptureError, match=r"tensor a \(x.shape\[0\]\) must match the size of tensor b \(y.shape\[0\]\)"
    ):
        irkit.to_onnx(lambda x, y: x + y, given, dynamic_shapes=dynamic, capture="torch.export")


def test_a_note_on_a_size_that_is_refused_says_the_names_of_dimensions() -> None:
    program = irkit.to_onnx(
        lambda x: x.unfold(0, 2, 1) * 2, (torch.randn(5),), dynamic_shapes={"x": {0: "rows"}}, capture="torch.export"
    )
    told = [note for note in program.report.notes if note.startswith("rows = 1 is refused")]
    assert told
    assert not any("s77" in note for note in program.report.notes)


class Branches(torch.nn.Module):
    """A model with a branch that needs six rows."""

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x.narrow(0, 0, 6).sum(), lambda x: x.sum(), (x,))


def test_a_program_whose_branch_excludes_its_own_example_is_refused() -> None:
    exported = torch.export.export(Branches(), (torch.randn(9, 4),), dynamic_shapes={"x": {0: Dim.AUTO}})
    program = irkit.to_onnx(exported)
    with pytest.raises(irkit.ContractError):
        program(torch.randn(5, 4))
    exported.example_inputs = ((torch.randn(5, 4),), {})
    with pytest.raises(CaptureError, match=r"refuses the very example .*x_dim_0 = 5.*") as caught:
        irkit.to_onnx(exported)
    assert "torch.cond" in caught.value.hint


def test_a_branch_that_the_example_cannot_run_is_noticed(caplog: Any) -> None:
    for rows in (1, 5):
        with pytest.raises(CaptureError) as caught:
            irkit.to_onnx(
                Branches(), (torch.randn(rows, 4),), dynamic_shapes={"x": {0: "rows"}}, capture="torch.export"
            )
        assert "rows" in caught.value.what and "torch.cond" in caught.value.hint
