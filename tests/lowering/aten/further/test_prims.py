"""Converters of `lowering.aten.further.prims` against torch's own primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lowering.aten.further.prims import AS_ATEN
from lowering.fold.registry import standard_converter
from tests.lowering.aten.oracle import check

prims = torch.ops.prims
X, Y, FLAGS = torch.rand(2, 3, 4) + 0.1, torch.rand(2, 3, 4) + 0.1, torch.rand(2, 3, 4) > 0.5
COUNTS = torch.tensor([-7, 8, 9])

CALLS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "add": (prims.add, (X, Y)),
    "pow": (prims.pow, (X, Y)),
    "atan2": (prims.atan2, (X, Y)),
    "div": (prims.div, (X, Y)),
    "div of integers": (prims.div, (COUNTS, torch.tensor([2, 2, -2]))),
    "cbrt": (prims.cbrt, (X - 0.5,)),
    "where": (prims.where, (FLAGS, X, Y)),
    "broadcast_in_dim": (lambda x: prims.broadcast_in_dim(x, [2, 5, 3, 4], [0, 2, 3]), (X,)),
    "collapse": (lambda x: prims.collapse(x, 1, 2), (X,)),
    "split_dim": (lambda x: prims.split_dim(x, 2, 2), (X,)),
    "squeeze": (lambda x: prims.squeeze(x, [1]), (torch.rand(2, 1, 3),)),
    "transpose": (lambda x: prims.transpose(x, [2, 0, 1]), (X,)),
    "reshape": (lambda x: prims.reshape(x, [6, 4]), (X,)),
    "rev": (lambda x: prims.rev(x, [0, 2]), (X,)),
    "sum": (lambda x: prims.sum(x, [0, 2]), (X,)),
    "prod": (lambda x: prims.prod(x, [0, 2]), (X,)),
    "amax": (lambda x: prims.amax(x, [1]), (X,)),
    "amin": (lambda x: prims.amin(x, [1]), (X,)),
    "var": (lambda x: prims.var(x, [0, 1], 1), (X,)),
    "full": (lambda x: x + prims.full([4], 2, dtype=torch.float32, device="cpu", requires_grad=False), (X,)),
    "iota": (
        lambda x: x + prims.iota(4, start=3, step=-2, dtype=torch.int64, device="cpu", requires_grad=False),
        (X,),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_primitives(name: str) -> None:
    """Each on ONNX Runtime as in eager."""
    function, tensors = CALLS[name]
    check(lambda *given: function(*given), *tensors)


def test_names_shared_with_aten() -> None:
    """Every primitive that is said to be an ATen operator has that operator's converter."""
    assert all(standard_converter([f"aten_{name}"]) for name in AS_ATEN)
    assert all(hasattr(prims, name) for name in AS_ATEN)
