"""Numbers of classes of their own beside sizes, and conditions on sizes that no program can ask for."""

from __future__ import annotations

import enum
import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError

WAYS = ("direct", "torch.export")


class Kind(enum.IntEnum):
    """Some sizes that have names."""

    NARROW, WIDE = 2, 3


class Whole(int):
    """An integer of a class of its own."""


class Real(float):
    """A float of a class of its own."""


QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "n == IntEnum": lambda n, m: n == Kind.WIDE, "IntEnum == n": lambda n, m: operator.eq(Kind.WIDE, n),
    "n != IntEnum": lambda n, m: n != Kind.WIDE, "n < IntEnum": lambda n, m: n < Kind.WIDE,
    "n in IntEnums": lambda n, m: n in (Kind.NARROW, Kind.WIDE), "n == Whole": lambda n, m: n == Whole(3),
    "Whole == n": lambda n, m: operator.eq(Whole(3), n), "n == Real": lambda n, m: n == Real(3),
    "n < Real": lambda n, m: n < Real(2.5), "n == complex": lambda n, m: n == 3 + 0j,
    "n != complex": lambda n, m: n != 3 + 0j, "n == no real": lambda n, m: n == 3 + 1j,
    "n + IntEnum": lambda n, m: n + Kind.WIDE, "IntEnum - n": lambda n, m: Kind.WIDE - n,
    "n * Whole": lambda n, m: n * Whole(3), "n // IntEnum": lambda n, m: n // Kind.NARROW,
    "n % Real": lambda n, m: n % Real(2), "n | 4": lambda n, m: n | 4, "n & 6": lambda n, m: n & 6,
    "n ^ m": lambda n, m: n ^ m, "round(n / 3, 1)": lambda n, m: round(n / 3, 1),
    "(n | 4) == 7": lambda n, m: (n | 4) == 7, "n << 2 | 1": lambda n, m: n << 2 | 1,
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("asks", [True, False])
def test_a_number_is_what_it_is_to_python(name: str, asks: bool, way: Any) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        found = QUESTIONS[name](x.shape[0], x.shape[1])
        return (x * 2 if found else x * 3) if asks else x * float(found)

    try:
        program = irkit.to_onnx(model, (torch.ones(3, 4),), dynamic_shapes=({0: "n", 1: "m"},), capture=way)
    except IrkitError:
        return
    for n, m in itertools.product((1, 2, 3, 4, 9), (1, 4, 5)):
        x = torch.ones(n, m)
        try:
            found = program(x)
        except IrkitError:
            continue
        assert torch.allclose(found, model(x)), (n, m)


def test_a_model_that_names_its_sizes_takes_those_that_it_names() -> None:
    program = irkit.to_onnx(
        lambda x: x * 2 if x.shape[0] < Kind.WIDE else x * 3, (torch.ones(4, 4),), dynamic_shapes=({0: "n"},)
    )
    assert torch.equal(program(torch.ones(7, 4)), torch.full((7, 4), 3.0))
