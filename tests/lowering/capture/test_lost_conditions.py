"""Conditions on numbers out of data of which torch.export keeps neither the number nor the comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import ContractError, IrkitError

X, Y = torch.ones(3, 4), torch.tensor([1, 2])
ASSERTED: dict[str, Callable[[Any, Any], Any]] = {
    "a float": lambda x, y: y.max().item() <= 2.5,
    "a product": lambda x, y: y.max().item() * 1.5 <= 3.5,
    "of a size": lambda x, y: x.shape[0] * 0.5 + 1 >= y.max().item(),
}


def model_of(name: str) -> Callable[..., torch.Tensor]:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch._check(ASSERTED[name](x, y))
        return x * 2

    return model


@pytest.mark.parametrize("name", ASSERTED)
def test_what_is_asserted_of_a_float_is_checked_or_refused(name: str) -> None:
    model = model_of(name)
    shapes = ({0: "n"}, None)
    with pytest.raises(IrkitError, match=r"of which torch\.export keeps no number in its program"):
        irkit.to_onnx(model, (X, Y), dynamic_shapes=shapes, capture="torch.export")
    program = irkit.to_onnx(model, (X, Y), dynamic_shapes=shapes)
    torch.testing.assert_close(program(X, Y), model(X, Y))
    with pytest.raises(RuntimeError):
        model(X, Y * 9)
    with pytest.raises(ContractError):
        program(X, Y * 9)


def test_a_program_that_is_given_says_what_it_does_not_check() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return model_of("a float")(x, y)

    program = irkit.to_onnx(torch.export.export(Model(), (X, Y), strict=False))
    said = [note for note in program.report.notes if "does not compute, and it is not checked" in note]
    assert len(said) == 1 and "u0" in said[0] and "2.5" in said[0]


@pytest.mark.filterwarnings("ignore")
def test_a_program_that_holds_what_torch_traced_with_is_refused_in_a_sentence() -> None:
    def model(x: torch.Tensor) -> Any:
        return torch.func.jacrev(lambda each: (each * each).sum(1))(x)

    with pytest.raises(IrkitError, match=r"out of none|holds a tensor without numbers as a constant"):
        irkit.to_onnx(model, (X,), dynamic_shapes=({0: "n"},), capture="torch.export")
    program = irkit.to_onnx(model, (X,), dynamic_shapes=({0: "n"},))
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x), model(x))


@pytest.mark.filterwarnings("ignore")
def test_a_gradient_out_of_none_is_not_taken_to_torch_which_would_end_the_process() -> None:
    def model(x: torch.Tensor) -> Any:
        return torch.func.vjp(lambda each: each.cumsum(0), x)[1](x)

    with pytest.raises(IrkitError, match="a gradient out of none"):
        irkit.to_onnx(model, (torch.randn(4, 3),), capture="torch.export")
