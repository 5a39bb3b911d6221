"""Covariances of weighed columns: of one, torch writes 0 into what it is given, where one kind of weights is."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError


@pytest.mark.parametrize("way", ["direct", "torch.export"])
@pytest.mark.parametrize("kinds", [("fweights",), ("aweights",), ("fweights", "aweights")])
def test_what_covariances_are_taken_of_is_as_in_eager(kinds: tuple[str, ...], way: Any) -> None:
    def model(x: torch.Tensor, often: torch.Tensor, weights: torch.Tensor) -> Any:
        y = x * 1
        given = {"fweights": often, "aweights": weights}
        return torch.cov(y, correction=0, **{kind: given[kind] for kind in kinds}), y

    def given(count: int) -> tuple[torch.Tensor, ...]:
        return torch.arange(3.0 * count).reshape(3, count) ** 2, torch.arange(count) + 1, torch.ones(count)

    shapes = ({1: "c"}, {0: "c"}, {0: "c"})
    program = irkit.to_onnx(model, given(4), dynamic_shapes=shapes, capture=way)
    for count in (1, 2, 5):
        try:
            found = program(*given(count))
        except IrkitError:
            assert count == 1 and len(kinds) == 1
            continue
        torch.testing.assert_close(found, model(*given(count)))
    if len(kinds) == 1:
        with pytest.raises(IrkitError, match="torch writes 0 into its input"):
            irkit.to_onnx(model, given(1), capture=way)
