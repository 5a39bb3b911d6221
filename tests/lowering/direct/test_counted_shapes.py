"""`x.shape.numel()`, of which torch makes a number, and `pow(n, 3, 5)`: both vary with the sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import irkit


def rows_counted(x: torch.Tensor) -> Any:
    shape = x.shape
    return x.reshape(shape[:-1].numel(), -1) * shape.numel(), shape, x.size()[1:].numel()


COUNTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "of a shape": lambda x: x * x.shape.numel(),
    "of a size": lambda x: x * x.size().numel() + x.size(0),
    "of a part": lambda x: torch.zeros(x.shape[:1].numel()) + x.expand(x.shape).sum(),
    "of two": lambda x: x * (x.shape[:1] + x.shape).numel(),
    "a remainder": lambda x: x * pow(x.shape[0], 3, 5) + pow(x.shape[0], 0, 1) - pow(x.shape[0], 2, -7),
    "beside what is returned": rows_counted,
}
WAYS = [(name, way) for name in COUNTED for way in ("direct", "torch.export")]
WAYS.remove(("beside what is returned", "torch.export"))  # which returns no shape


@pytest.mark.parametrize(("name", "capture"), WAYS)
def test_how_many_elements_a_shape_has_varies_with_its_sizes(name: str, capture: Any) -> None:
    function = COUNTED[name]
    program = irkit.to_onnx(function, (torch.randn(5, 3),), dynamic_shapes=({0: "n"},), capture=capture)
    for size in (5, 7, 2, 1):
        x = torch.randn(size, 3)
        found, expected = (pytree.tree_flatten(made) for made in (program(x), function(x)))
        assert found[1] == expected[1]
        for one, other in zip(found[0], expected[0], strict=True):
            torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other))
