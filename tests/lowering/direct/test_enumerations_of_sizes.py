"""Sizes that enumerations of the model's meet: these keep their members for good, and must keep no size among them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit


class Flags(enum.IntFlag):
    NARROW = 1
    WIDE = 2
    DEEP = 4


class Plain(enum.Flag):
    NARROW = 1
    WIDE = 2
    DEEP = 4


class Numbers(enum.IntEnum):
    ONE = 1
    FIVE = 5


USES: dict[str, Callable[[Any], Any]] = {
    "or": lambda n: int(Flags.NARROW | n), "reflected": lambda n: n | Flags.NARROW, "and": lambda n: Flags.WIDE & n,
    "xor": lambda n: Flags.WIDE ^ n, "inverted": lambda n: ~Flags.NARROW & n, "called": lambda n: int(Flags(n)),
    "plain": lambda n: Plain(n).value, "number": lambda n: int(Numbers(n)), "equal": lambda n: 1 + (n == Flags.NARROW),
}  # fmt: skip


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_no_size_stays_in_an_enumeration(use: Callable[[Any], Any]) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * use(x.shape[0])

    try:
        program = irkit.to_onnx(model, (torch.ones(5, 2),), dynamic_shapes=({0: "n"},), capture="direct")
    except irkit.CaptureError as refused:
        assert "works for 5 only" in str(refused)
    else:
        for n in (5, 3, 1, 7):
            x = torch.randn(n, 2)
            try:
                found = program(x)
            except irkit.ContractError:
                continue
            torch.testing.assert_close(found, model(x))
    for kind in (Flags, Plain, Numbers):
        assert {type(each) for each in kind._value2member_map_} == {int}
        assert {type(each.value) for each in kind._value2member_map_.values()} == {int}
