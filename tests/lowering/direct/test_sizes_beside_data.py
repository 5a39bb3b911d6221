"""Operators whose results data sizes, of operands whose sizes must fit: they are asked for, used or not."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError

MODELS: dict[str, Callable[[Any, Any], Any]] = {
    "repeats": lambda x, r: x.repeat_interleave(r, dim=0),
    "repeats of numbers": lambda x, r: x[:, 0].repeat_interleave(r),
    "so many repeats": lambda x, r: x.repeat_interleave(r, dim=0, output_size=7),
    "counts": lambda x, r: torch.bincount(r, x[:, 0]),
    "histogram": lambda x, r: torch.histogram(x[:, 0], 3, weight=r.float())[0],
    "rows by a mask": lambda x, r: x[r > 1], "numbers by a mask": lambda x, r: x[:, 0].masked_select(r > 1),
}  # fmt: skip


@pytest.mark.parametrize("way", ["direct", "torch.export"])
@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_operands_of_sizes_that_do_not_fit_are_refused(name: str, used: bool, way: Any) -> None:
    def model(x: torch.Tensor, r: torch.Tensor) -> Any:
        made = MODELS[name](x, r)
        return made if used else x * 2

    def given(n: int, m: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.arange(3.0 * n).reshape(n, 3) + 1, torch.arange(m) % 3 + 1

    try:
        program = irkit.to_onnx(model, given(4, 4), dynamic_shapes=({0: "n"}, {0: "m"}), capture=way)
    except IrkitError:
        assert way == "torch.export" and name == "histogram"
        return
    for n, m in itertools.product((0, 1, 2, 4, 5, 9), (0, 1, 2, 4, 5)):
        try:
            found = program(*given(n, m))
        except IrkitError:
            continue
        torch.testing.assert_close(found, model(*given(n, m)))
