"""as_strided of a part of a tensor: where it begins, and what lies around it, hangs on sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError

WAYS = ("direct", "torch.export")


def written(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 1
    part = y[1].as_strided((2,), (1,))
    y.diagonal().zero_()
    return y, part


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1:].as_strided((2,), (1,)),
        lambda x: x[1].as_strided((2,), (1,)),
        lambda x: x[-1:].as_strided((2,), (1,)),
        lambda x: x.split(2)[1].as_strided((2,), (1,)),
        lambda x: x[1:].as_strided((2, 2), x.stride()),
        lambda x: x[1:].as_strided((2,), (1,), x.shape[1]),
        lambda x: x[:, :3].as_strided((3,), (2,)),
        lambda x: (x * 1)[:, :3].as_strided((3,), (2,)),
        lambda x: (x.t() * 1).as_strided((2,), (2,)),
        lambda x: (x * 1)[1:].as_strided_scatter(torch.zeros(2), (2,), (1,)),
        lambda x: torch.stack(written(x)[1:]), written,
    ],
)  # fmt: skip
@pytest.mark.parametrize(("example", "named"), [((4, 4), (0, 1)), ((4, 3), (1,)), ((3, 4), (0,)), ((1, 4), (0, 1))])
def test_a_part_begins_where_it_does_in_eager(function: Callable[..., Any], example: Any, named: Any, way: Any) -> None:
    def given(sizes: tuple[int, ...]) -> torch.Tensor:
        return torch.arange(float(sizes[0] * sizes[1])).reshape(sizes) + 1

    try:
        program = irkit.to_onnx(function, (given(example),), dynamic_shapes=({a: "nm"[a] for a in named},), capture=way)
    except (IrkitError, RuntimeError):
        return
    for sizes in itertools.product((1, 2, 3, 4, 7), repeat=2):
        if any(sizes[a] != example[a] for a in (0, 1) if a not in named):
            continue
        try:
            found = program(given(sizes))
        except IrkitError:
            continue
        expected = function(given(sizes))
        both = (found, expected) if isinstance(found, tuple) else ((found,), (expected,))
        assert all(map(torch.equal, *both)), sizes


def test_a_part_that_begins_at_one_place_is_taken() -> None:
    program = irkit.to_onnx(
        lambda x: x[1:].as_strided((2, 3), (4, 1)), (torch.rand(4, 4),), dynamic_shapes=({0: "n"},), capture="direct"
    )
    x = torch.rand(9, 4)
    assert torch.equal(program(x), x[1:3, :3])
