"""What is a number in eager on one way of a branch or loop on data, and a tensor on the other."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import irkit


def chosen(x: torch.Tensor) -> Any:
    return x.sum() if x.sum() > 3 else 0


def is_int(x: torch.Tensor) -> torch.Tensor:
    out = 0
    if x.sum() > 3:
        out = x.sum()
    return x + 1 if isinstance(out, int) else x


def is_tensor(x: torch.Tensor) -> torch.Tensor:
    out = x.sum() if x.sum() > 3 else 0
    return x + 1 if torch.is_tensor(out) else x


def is_instance(x: torch.Tensor) -> torch.Tensor:
    out = x.sum() if x.sum() > 3 else 0
    return x + 1 if isinstance(out, torch.Tensor) else x


def is_of_type(x: torch.Tensor) -> torch.Tensor:
    out = 0
    if x.sum() > 3:
        out = x.sum()
    return x + 1 if type(out) is int else x


def has_shape(x: torch.Tensor) -> torch.Tensor:
    out = x.sum() if x.sum() > 3 else 0
    return x + 1 if hasattr(out, "shape") else x


def is_more(x: torch.Tensor) -> torch.Tensor:
    more = (x.sum() if x.sum() > 3 else 0) * 2 + 1
    return x + 1 if isinstance(more, (int, float)) else x


def is_summed(x: torch.Tensor) -> torch.Tensor:
    out = 0
    for row in x:
        if row.sum() > 1:
            out = out + row.sum()
    return x + 1 if isinstance(out, int) else x


def is_asked_in_a_branch(x: torch.Tensor) -> torch.Tensor:
    out = chosen(x)
    if x.max() > 1:
        return x + 1 if isinstance(out, int) else x
    return x


@pytest.mark.parametrize(
    "model", [is_int, is_tensor, is_instance, is_of_type, has_shape, is_more, is_summed, is_asked_in_a_branch]
)
@pytest.mark.parametrize("example", [torch.ones(3, 2), torch.ones(3, 2) / 4], ids=["tensor", "number"])
def test_who_asks_whether_it_is_a_number_is_refused(model: Any, example: torch.Tensor) -> None:
    if model is is_asked_in_a_branch:
        example = example * 3 - 1
    with pytest.raises(irkit.errors.IrkitError, match="asks whether a value is a number or a tensor"):
        irkit.to_onnx(model, (example,), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)


def added(x: torch.Tensor) -> torch.Tensor:
    out = 0
    if x.sum() > 3:
        out = x.sum()
    assert not isinstance(out, (list, tuple)) and not hasattr(out, "keys")
    return x + out


def summed(x: torch.Tensor) -> torch.Tensor:
    out = 0
    for row in x:
        if row.sum() > 1:
            out = out + row.sum()
    out = out + x.sum()
    return x * out if isinstance(out, torch.Tensor) else x


def divided(x: torch.Tensor) -> torch.Tensor:
    return x + (chosen(x) + 1) / 2


@pytest.mark.parametrize("model", [added, summed, divided])
def test_who_computes_with_it_and_tensors_is_right(model: Any) -> None:
    program = irkit.to_onnx(model, (torch.ones(3, 2),), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    for x in (torch.ones(3, 2), torch.ones(1, 2), torch.ones(0, 2), -torch.ones(4, 2), torch.ones(5, 2)):
        torch.testing.assert_close(program(x), model(x))


def type_of_number(x: torch.Tensor) -> torch.Tensor:
    number = x.long().sum().item()
    if x.sum() > 3:
        x = x * 2
    return x + 1 if type(number) is int else x


def test_the_type_of_a_number_out_of_data_is_what_it_is_in_eager() -> None:
    program = irkit.to_onnx(type_of_number, (torch.ones(3, 2),), capture="direct", rewrite=True)
    for x in (torch.ones(3, 2), -torch.ones(3, 2)):
        torch.testing.assert_close(program(x), type_of_number(x))
