"""Modules that convert themselves while they run, and modules that are converted after their export."""

from __future__ import annotations

from collections import Counter

import torch

import irkit


class Router(torch.nn.Module):
    """Computes in an element type that it converts a part of itself to."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.head = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(4)
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.head = self.head.to(self.dtype)
        return self.head(self.norm.to(self.dtype)(x.to(self.dtype))).to(x.dtype)


def test_module_that_converts_a_part_of_itself_to_what_it_is():
    program = irkit.to_onnx(Router(torch.float32).eval(), (torch.randn(2, 4),), dynamic_shapes=({0: "b"},))
    assert program.check()
    assert Counter(node.op_type for node in program.proto.graph.node) == {"BatchNormalization": 1, "Gemm": 1}


def test_module_that_converts_a_part_of_itself_to_another_type():
    model = Router(torch.float64).eval()
    before = dict(model.named_parameters()) | dict(model.named_buffers())
    program = irkit.to_onnx(model, (torch.randn(2, 4),), dynamic_shapes=({0: "b"},))
    after = dict(model.named_parameters()) | dict(model.named_buffers())
    assert all(after[name] is each and each.dtype is not torch.float64 for name, each in before.items())
    assert program.check()
    assert model.head.weight.dtype is torch.float64  # by the check, which runs it


def test_converting_a_model_leaves_its_program_alone():
    model = torch.nn.Linear(4, 3)
    x = torch.randn(2, 4)
    expected = model(x).detach()
    program = irkit.to_onnx(model, (x,))
    model.half()
    assert torch.allclose(program(x), expected, atol=1e-6)
