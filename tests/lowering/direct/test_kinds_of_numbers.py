"""A number that data or sizes tell is an int, float or bool to the model's code, however it asks, as it is in eager."""

from __future__ import annotations

import copy
import functools
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import irkit

Model = Callable[[torch.Tensor], torch.Tensor]
DATA = (torch.tensor([3, 1, 2]), torch.tensor([0, 7, 7]), torch.tensor([-1, 0, 1]), torch.tensor([1, 1, 1]))


@functools.singledispatch
def weight(_number: Any) -> int:
    return 1


@weight.register
def weight_of_int(_number: int) -> int:
    return 2


@weight.register
def weight_of_float(_number: float) -> int:
    return 3


def matched(number: Any) -> int:
    match number:
        case bool():
            return 1
        case int():
            return 2
        case float():
            return 3
    return 4


def converted(x: torch.Tensor, number: Any) -> torch.Tensor:
    """What code makes that takes whatever is no number for a tensor."""
    return x * number if isinstance(number, int | float) else x - 1


KINDS: dict[str, Callable[[Any], Any]] = {
    "isinstance": lambda n: isinstance(n, int) + 2 * isinstance(n, float) + 4 * isinstance(n, bool),
    "type": lambda n: 1 if type(n) is int else 2 if type(n) is float else 3 if type(n) is bool else 4,
    "a class": lambda n: 1 if n.__class__ is int else 2 if n.__class__ is float else 3,
    "a key": lambda n: {int: 1, float: 2, bool: 3}.get(type(n), 4),
    "a name": lambda n: len(type(n).__name__),
    "issubclass": lambda n: 1 if issubclass(type(n), int) else 2,
    "an abstract class": lambda n: isinstance(n, numbers.Integral) + 2 * isinstance(n, numbers.Number),
    "singledispatch": weight,
    "match": matched,
    "numpy": lambda n: 1 if np.isscalar(n) else 2,
}
NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "an integer": lambda x: x[0].item(),
    "int": lambda x: int(x[0]),
    "a real number": lambda x: (x[0] * 1.5).item(),
    "a truth": lambda x: (x[0] > 1).item(),
    "an element": lambda x: x.tolist()[1],
    "a size": lambda x: x.shape[0],
    "half a size": lambda x: x.shape[0] / 2,
    "an answer": lambda x: x.shape[0] > 3,
}
ROWS = ({0: "n"},)


@pytest.mark.parametrize("rewrite", [False, True], ids=["plain", "rewritten"])
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("asked", KINDS)
def test_the_kind_of_a_number_is_that_of_eager(asked: str, number: str, rewrite: bool) -> None:
    kind, taken = KINDS[asked], NUMBERS[number]

    def model(x: torch.Tensor) -> torch.Tensor:
        return x + kind(taken(x))

    program = irkit.to_onnx(model, (DATA[0],), capture="direct", widen=False, rewrite=rewrite)
    for x in DATA:
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("asked", KINDS)
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_the_kind_of_a_size_that_varies_is_that_of_eager(asked: str, capture: Any) -> None:
    kind = KINDS[asked]

    def model(x: torch.Tensor) -> torch.Tensor:
        return x + kind(x.shape[0])

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS, capture=capture, widen=False)
    for n in (2, 3, 4, 9):
        torch.testing.assert_close(program(torch.ones(n)), model(torch.ones(n)))


def test_code_that_takes_what_is_no_number_for_a_tensor_gets_a_number() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return converted(x, x.shape[0]) + converted(x, x[0].item())

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS)
    for x in (torch.ones(1), torch.ones(4) * 3, torch.arange(9.0)):
        torch.testing.assert_close(program(x), model(x))


def test_where_int_keeps_sizes_the_kind_of_a_number_is_int_all_the_same() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        half = int(x.shape[0] / 2)
        whole, real = len("abc"), abs(-0.5)
        known = (type(half) is int) + 2 * (type(whole) is int) + 4 * (type(real) is float) + 8 * isinstance(half, int)
        return x * half + known

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS)
    for n in (0, 1, 4, 7):
        torch.testing.assert_close(program(torch.ones(n)), model(torch.ones(n)))


def test_a_size_is_copied_and_type_makes_classes() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        made: Any = type("Made", (), {"n": copy.deepcopy({"n": x.shape[0]})["n"]})
        return x * made.n + isinstance(made, type) + (type(made) is type)

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS)
    for n in (0, 1, 4, 7):
        torch.testing.assert_close(program(torch.ones(n)), model(torch.ones(n)))


def test_behind_a_capture_symbols_have_their_own_class() -> None:
    irkit.to_onnx(lambda x: x * x.shape[0], (torch.ones(4),), dynamic_shapes=ROWS)
    for kind in (torch.SymInt, torch.SymFloat, torch.SymBool):
        assert kind(None).__class__ is kind and "__class__" not in vars(kind)
    assert type is type(int) and "type" not in globals()
