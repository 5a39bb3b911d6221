"""float16 that is compared, made whole numbers, or was rounded by the model is rounded on ONNX Runtime's CPU, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import irkit
from irkit.build import op
from irkit.core.ir import Graph, param
from irkit.core.types import tensor
from passes.legal.legalize import legalize

A = torch.tensor([1.0, 60000.0, 2.0, 0.3, 2048.0]).half()
B = torch.tensor([1e-4, 60000.0, 1e-3, 0.7, 0.6]).half()
WIDE = torch.tensor([1.0001, -3.4e38, 70000.0, 3.0, 65519.9, 1e-9])

OF_HALVES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "equal": lambda a, b: a + b == a,
    "greater": lambda a, b: a + b > a,
    "no greater": lambda a, b: a + b <= a,
    "rounded up": lambda a, b: (a + b).ceil(),
    "as integers": lambda a, b: (a + b).int(),
    "as a byte": lambda a, b: (a.float() + b.float()).half().byte(),
    "the largest": lambda a, b: torch.maximum(a + b, a) == a,
    "in another shape": lambda a, b: (a + b)[None] == a[None],
}
OF_FLOATS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "equal to 1": lambda x: x.half() == 1.0,
    "equal to infinity": lambda x: x.half() == float("inf"),
    "chosen": lambda x: torch.where(x.half() == 1.0, x.half(), x.half() * 2),
    "a sine": lambda x: x.half().sin(),
    "a difference": lambda x: x.half() - torch.ones(1).half(),
    "made finite": lambda x: x.half().nan_to_num(),
}


@pytest.mark.parametrize("name", OF_HALVES)
def test_computed_halves_are_rounded_before_they_are_looked_at(name: str) -> None:
    model = OF_HALVES[name]
    program = irkit.to_onnx(model, (A[:3], B[:3]), dynamic_shapes=({0: "n"}, {0: "n"}))
    assert torch.equal(program(A, B), model(A, B))


@pytest.mark.parametrize("name", OF_FLOATS)
def test_floats_that_a_model_rounds_to_halves_are_rounded(name: str) -> None:
    model = OF_FLOATS[name]
    program = irkit.to_onnx(model, (WIDE[:3],), dynamic_shapes=({0: "n"},))
    torch.testing.assert_close(program(WIDE), model(WIDE), equal_nan=True)


def test_nothing_stands_between_where_nothing_is_looked_at() -> None:
    a, b = param(tensor("f16", "n", 4)), param(tensor("f16", "n", 4))
    summed = Graph((a, b), (op.Mul(op.Add(a, b), op.MatMul(a, op.Transpose(b))),))
    assert legalize(summed, "onnxruntime-cpu") is summed
    given = Graph((a, b), (op.Equal(op.Reshape(a, [-1]), op.Reshape(b, [-1])),))
    assert legalize(given, "onnxruntime-cpu") is given
    looked = Graph((a, b), (op.Equal(op.Add(a, b), a),))
    assert legalize(looked, "onnxruntime-cuda") is looked
    assert [v.op for v in legalize(looked, "onnxruntime-cpu").order if v.inputs] == ["Add", "Max", "Min", "Equal"]
