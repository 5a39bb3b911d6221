"""Converters that users hand in for operators that write their arguments."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import torch
from torch import Tensor
from torch.export import Dim

from irkit import op
from irkit.doors.to_onnx import to_onnx
from lowering.errors import MissingConverters


@torch.library.custom_op("irkit_tests::scale_", mutates_args=("x",))
def scale_(x: Tensor, by: float) -> None:
    """x *= by"""
    x.mul_(by)


@torch.library.custom_op("irkit_tests::both", mutates_args=("x", "y"))
def both(x: Tensor, y: Tensor, by: float) -> Tensor:
    """The column sums of x * by, which x holds afterwards; y += 1."""
    x.mul_(by)
    y.add_(1)
    return x.sum(0)


@both.register_fake
def _(x: Tensor, y: Tensor, by: float) -> Tensor:
    return x.new_empty(x.shape[1:])


def scaled(x: Any, by: float) -> Any:
    return op.Mul(x, by)


def both_scaled(x: Any, y: Any, by: float) -> Any:
    """The result first, then the new contents, in the order of the arguments."""
    return op.ReduceSum(op.Mul(x, by), [0], keepdims=0), op.Mul(x, by), op.Add(y, 1.0)


CONVERTERS = {torch.ops.irkit_tests.scale_.default: scaled, both: both_scaled}


class Writing(torch.nn.Module):
    """Writes a tensor, slices of it, and an input."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        a, b = x + 1, x * 2
        scale_(a, 2.0)
        scale_(a[1:], 3.0)
        scale_(a.t()[2], -1.0)
        sums = both(a[0], b, 0.5)
        scale_(y, 2.0)
        return a, b, sums


ARGS = (torch.randn(3, 4), torch.randn(2))


def test_results_come_first_and_then_new_contents() -> None:
    program = to_onnx(Writing(), ARGS, dynamic_shapes={"x": {0: "n"}}, converters=CONVERTERS)
    report = program.check()
    assert report, report


@pytest.mark.parametrize("dynamic", [False, True])
def test_torchs_functional_form_of_them_agrees(dynamic: bool) -> None:
    shapes = {"x": {0: Dim.AUTO}, "y": None} if dynamic else None
    exported = torch.export.export(Writing(), ARGS, dynamic_shapes=shapes).run_decompositions({})
    assert "auto_functionalized_v2" in {str(n.target) for n in exported.graph.nodes}
    program = to_onnx(exported, converters=CONVERTERS)
    report = attrs.evolve(program, model=Writing()).check()
    assert report, report


def test_without_a_converter_all_are_listed() -> None:
    with pytest.raises(MissingConverters) as caught:
        to_onnx(Writing(), ARGS)
    assert dict(caught.value.missing) == {"irkit_tests.scale_.default": 4, "irkit_tests.both.default": 1}
