"""Texts of sizes: one that a model decides by is that of the example's size, one in a message fixes nothing."""

from __future__ import annotations

import collections
import logging
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import torch

import irkit
from tests.support.written_functions import function_of

Model = Callable[[torch.Tensor], Any]
ROWS = ({0: "n"},)


def percent(size: int) -> str:
    return "%s" % size  # noqa: UP031 - this is what is tested


def asserted(x: torch.Tensor) -> torch.Tensor:
    torch._assert(f"{x.shape[0]}" == "4", "four rows")
    return x * 2


def checked(x: torch.Tensor) -> torch.Tensor:
    check_rows(str(x.shape[0]) == "4", "four rows")
    return x * 2


FIXING: dict[str, Model] = {
    "an assertion": asserted,
    "a check": checked,
    "str": lambda x: x * len(str(x.shape[0])),
    "an f-string": lambda x: x + 1 if f"{x.shape[0]}" == "4" else x,
    "a key": lambda x: x * {"4": 2.0}.get(str(x.shape[0]), 3.0),
    "a number again": lambda x: x * int(str(x.shape[0])),
    "format": lambda x: x * len(format(x.shape[0], "")),
    "a width": lambda x: x * len(f"{x.shape[0]:>2d}"),
    "percent": lambda x: x * len(percent(x.shape[0])),
    "str.format": lambda x: x * len("{}".format(x.shape[0])),  # noqa: UP032 - this is what is tested
    "a shape": lambda x: x * len(repr(x.shape)),
    "a list": lambda x: x * len(str([x.shape[0] * 3])),
    "a part": lambda x: x * len(",".join(str(size) for size in x.shape)),
}


@pytest.mark.parametrize("name", FIXING)
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_a_text_that_a_model_decides_by_fixes_the_size(name: str, capture: Any) -> None:
    model = FIXING[name]
    with pytest.raises(irkit.errors.IrkitError, match=r"works for 4 only|constant"):
        irkit.to_onnx(model, (torch.ones(4, 3),), dynamic_shapes=ROWS, capture=capture)
    program = irkit.to_onnx(model, (torch.ones(4, 3),), capture=capture)
    torch.testing.assert_close(program(torch.ones(4, 3)), model(torch.ones(4, 3)))


CONDITIONS: dict[str, Model] = {
    "an answer": lambda x: x * len(str(x.shape[0] > 4)),
    "a quotient": lambda x: x * len(f"{x.shape[0] / 2}"),
    "places": lambda x: x * len(f"{x.shape[0] * 1.5:.3f}"),
    "a part of a size": lambda x: x * len(str(x.shape[0] // 5)),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_text_of_what_is_computed_of_a_size_leaves_a_condition(name: str) -> None:
    model = CONDITIONS[name]
    program = irkit.to_onnx(model, (torch.ones(4, 3),), dynamic_shapes=ROWS)
    refused = 0
    for rows in (4, 0, 1, 2, 3, 5, 60, 200):
        x = torch.ones(rows, 3)
        try:
            found = program(x)
        except irkit.ContractError:
            refused += 1
            continue
        torch.testing.assert_close(found, model(x))
    assert 0 < refused < 8


@attrs.frozen
class Record:
    size: int

    def __str__(self) -> str:
        return f"of {self.size}"


Pair = collections.namedtuple("Pair", "size")


def said(size: Any) -> str:
    return f"{size} rows of {Record(size)}, {Pair(size)}, {Record(size)!r}"


def check_rows(condition: bool, msg: str) -> None:
    if not condition:
        raise ValueError(msg)


def telling(x: torch.Tensor) -> torch.Tensor:
    size = x.shape[0]
    message = f"{size} rows"
    message += said(size)
    print(f"{size:3d} {size}", x.shape, said(size))
    logging.getLogger(__name__).warning("%s rows, %d columns, %s", size, x.shape[1], Record(size))
    assert x.shape[1] == 3, f"{size} {x.shape}"
    torch._assert(x.shape[1] == 3, f"{size} rows")
    check_rows(x.shape[1] == 3, f"{size} rows")
    right = check_rows(x.shape[1] == 3, msg=f"{size} rows")
    if x.shape[1] != 3:
        raise ValueError(message, right)
    return x * size


def test_a_text_for_a_message_fixes_nothing() -> None:
    program = irkit.to_onnx(telling, (torch.ones(4, 3),), dynamic_shapes=ROWS, capture="direct")
    assert not program.report.guards
    for rows in (4, 0, 1, 12):
        x = torch.rand(rows, 3)
        torch.testing.assert_close(program(x), telling(x))


def both(x: torch.Tensor) -> torch.Tensor:
    message = f"{x.shape[0]} rows"
    if x.shape[1] != 3:
        raise ValueError(message)
    return x * len(message)


def test_a_message_that_is_looked_at_besides_fixes_the_size() -> None:
    with pytest.raises(irkit.errors.IrkitError, match="works for 4 only"):
        irkit.to_onnx(both, (torch.ones(4, 3),), dynamic_shapes=ROWS, capture="direct")


@pytest.mark.parametrize("text", ["len(f'{x.shape[0]}')", "len('%d' % x.shape[0])", "len(str(x.shape[0]))"])
def test_a_text_in_code_that_stands_in_no_file_fixes_the_size(text: str) -> None:
    """Of a cell, or of what is executed with its lines in linecache."""
    function = function_of(f"def f(x):\n    return x * {text}\n", f"<cell {text}>")
    with pytest.raises(irkit.errors.IrkitError, match="works for 4 only"):
        irkit.to_onnx(function, (torch.ones(4, 3),), dynamic_shapes=ROWS, capture="direct")
