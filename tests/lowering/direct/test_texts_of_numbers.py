"""Texts and truths of numbers that data tells: what a model decides by is a condition, what it says is none."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import irkit


def by_length(x: torch.Tensor) -> torch.Tensor:
    return x + len(str(int(x.sum())))


def by_text(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if f"{int(x.sum())}" == "3" else x


def by_places(x: torch.Tensor) -> torch.Tensor:
    return x + len(f"{x.sum().item():.1f}")


def by_percent(x: torch.Tensor) -> torch.Tensor:
    return x + len("%s" % x.sum().item())  # noqa: UP031 - this is what is tested


def by_answer(x: torch.Tensor) -> torch.Tensor:
    return x + len(repr(x.sum().item() > 5))


def by_tensor(x: torch.Tensor) -> torch.Tensor:
    return x + len(f"{x.sum()}")


def by_name(x: torch.Tensor) -> torch.Tensor:
    return x + getattr(by_name, f"a{int(x.sum())}", 5)


by_name.a3 = 7  # type: ignore[attr-defined]


@pytest.mark.parametrize("model", [by_length, by_text, by_places, by_percent, by_answer, by_tensor, by_name])
@pytest.mark.parametrize("rewrite", [False, True])
def test_a_text_that_a_model_decides_by_is_that_of_the_examples_number(model: Any, rewrite: bool) -> None:
    example, other = torch.tensor([1.0, 2.0]), torch.tensor([60.0, 60.0])
    program = irkit.to_onnx(model, (example,), capture="direct", rewrite=rewrite)
    torch.testing.assert_close(program(example), model(example))
    with pytest.raises(irkit.ContractError):
        program(other)


def by_whole_text(x: torch.Tensor) -> torch.Tensor:
    return x + len(str(x))


def by_list(x: torch.Tensor) -> torch.Tensor:
    return x + len(str(x.tolist()))


@pytest.mark.parametrize("model", [by_whole_text, by_list])
def test_the_text_of_a_tensor_is_refused(model: Any) -> None:
    shapes = ({0: "n"},)
    with pytest.raises(irkit.errors.IrkitError, match="the text of a"):
        irkit.to_onnx(model, (torch.rand(3),), dynamic_shapes=shapes, capture="direct", rewrite=True)


def telling(x: torch.Tensor) -> torch.Tensor:
    number = int(x.sum())
    print(f"{number} {x.sum()} {x.sum().item():.2f}", number, x)
    assert number > -1000, f"{number} of {x}"
    if number < -1000:
        raise ValueError(f"{number} of {x}")
    return x * number


def test_a_message_leaves_no_condition() -> None:
    program = irkit.to_onnx(telling, (torch.tensor([1.0, 2.0]),), capture="direct", rewrite=True)
    for x in (torch.tensor([1.0, 2.0]), torch.tensor([0.0, -7.0]), torch.tensor([50.0, 50.0])):
        torch.testing.assert_close(program(x), telling(x))


def told_later(x: torch.Tensor) -> torch.Tensor:
    number = int(x.sum())
    text = f"{number} is too little"
    text += " of {}".format(number)  # noqa: UP032 - this is what is tested
    if number < 0:
        raise ValueError(text)
    return x * number


def told_by_percent(x: torch.Tensor) -> torch.Tensor:
    number = x.sum().item()
    text = "%d is too little, %5.2f" % (number, number)  # noqa: UP031
    assert number >= 0, text
    print("%d" % number)  # noqa: UP031
    return x * number


def told_by_size(x: torch.Tensor) -> torch.Tensor:
    text = "%d rows are too many" % x.shape[0]  # noqa: UP031
    if x.shape[0] > 6:
        raise ValueError(text)
    return x * 2


@pytest.mark.parametrize("model", [told_later, told_by_percent, told_by_size])
@pytest.mark.parametrize("rewrite", [False, True])
def test_a_message_in_a_variable_leaves_no_condition(model: Any, rewrite: bool) -> None:
    shapes = ({0: "n"},)
    program = irkit.to_onnx(
        model, (torch.tensor([1.0, 2.0]),), dynamic_shapes=shapes, capture="direct", rewrite=rewrite
    )
    for x in (torch.tensor([1.0, 2.0]), torch.tensor([0.0]), torch.tensor([50.0, 50.0, 1.0]), torch.ones(0)):
        torch.testing.assert_close(program(x), model(x))
    for x in (torch.ones(7) * -1,):
        with pytest.raises(irkit.ContractError):
            program(x)


def returned(x: torch.Tensor) -> tuple[torch.Tensor, str]:
    text = f"{int(x.sum())}"
    return x, text


def compared(x: torch.Tensor) -> torch.Tensor:
    text = f"{int(x.sum())}"
    if text == "3":
        print(text)
        return x + 1
    return x


def measured(x: torch.Tensor) -> torch.Tensor:
    text = "%d" % int(x.sum())  # noqa: UP031
    return x + len(text)


def chosen_for_text(x: torch.Tensor) -> torch.Tensor:
    text = "long" if len(f"{int(x.sum())}") > 1 else "short"
    print(text)
    return x


def read_within(x: torch.Tensor) -> torch.Tensor:
    text = f"{int(x.sum())}"
    return x + (lambda: len(text))()


@pytest.mark.parametrize("model", [returned, compared, measured, chosen_for_text, read_within])
def test_a_text_in_a_variable_by_which_a_model_decides_is_a_condition(model: Any) -> None:
    program = irkit.to_onnx(model, (torch.tensor([1.0, 2.0]),), capture="direct")
    with pytest.raises(irkit.ContractError):
        program(torch.tensor([60.0, 60.0]))


def truths(x: torch.Tensor) -> torch.Tensor:
    number = x.sum().item()
    return torch.tensor([number > 2, number < 1, int(number) == 4]) & torch.as_tensor(number != 0)


def test_a_truth_of_a_number_out_of_data_becomes_a_tensor() -> None:
    program = irkit.to_onnx(truths, (torch.tensor([1.0, 2.0]),), capture="direct", rewrite=True)
    for x in ([1.0, 2.0], [0.0, 0.0], [2.0, 2.0], [1.0, -9.0]):
        assert torch.equal(program(torch.tensor(x)), truths(torch.tensor(x)))


def in_a_dict(x: torch.Tensor) -> torch.Tensor:
    found: dict[str, list[torch.Tensor]] = {"rows": []}
    for row in x:
        found["rows"].append(row * 2)
    return torch.stack(found["rows"])


def test_a_list_that_grows_inside_of_another_is_refused_by_name() -> None:
    with pytest.raises(irkit.errors.IrkitError, match="'found' holds a list or dict that grows in a loop on data"):
        irkit.to_onnx(in_a_dict, (torch.rand(3, 2),), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
