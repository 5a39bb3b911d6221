"""Each operator that torch's own exporter registers, and each core ATen operator, is lowered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from lowering.fold.decompose import can_decompose
from lowering.fold.registry import Registry

LIST = Path(__file__).parent / "peers_operators.txt"
ELSEWHERE: Mapping[str, str] = {
    "aten._local_scalar_dense.default": "the fold itself makes it a symbol",
    "aten.allclose.default": "torch.export does not capture a Python bool that hangs on numbers",
    "aten.equal.default": "torch.export does not capture a Python bool that hangs on numbers",
    "aten.is_nonzero.default": "torch.export does not capture a Python bool that hangs on numbers",
    "aten.sym_numel.default": "dimension algebra", "aten.sym_size.int": "dimension algebra",
    "aten.sym_storage_offset.default": "dimension algebra", "aten.sym_stride.int": "dimension algebra",
    "aten.tensor.bool": "torch has no such kernel", "aten.tensor.float": "torch has no such kernel",
    "aten.tensor.int": "torch has no such kernel", "prims.resize.default": "writes the size of its argument",
}  # fmt: skip
"""Operators that no converter serves, and why none needs to."""

DIRECT, DECOMPOSED = 463, 13
"""How many have a converter of their own, and how many only torch's decomposition."""


@cache
def listed() -> tuple[str, ...]:
    """The operators of the list."""
    return tuple(line for line in LIST.read_text().splitlines() if line and not line.startswith("#"))


def way_of(name: str) -> str:
    """How an operator is lowered: "direct", "decomposed", "elsewhere", or "not at all"."""
    if name in ELSEWHERE:
        return "elsewhere"
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part)
    if Registry().find(found) is not None:
        return "direct"
    return "decomposed" if can_decompose(found) else "not at all"


def test_every_operator_of_the_list_is_lowered() -> None:
    ways = {name: way_of(name) for name in listed()}
    assert [name for name, way in ways.items() if way == "not at all"] == []
    counts = Counter(ways.values())
    assert (counts["direct"], counts["decomposed"], counts["elsewhere"]) == (DIRECT, DECOMPOSED, len(ELSEWHERE))


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_served_elsewhere_is_on_the_list(name: str) -> None:
    assert name in listed()
