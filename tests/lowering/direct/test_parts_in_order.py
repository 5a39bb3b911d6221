"""Whether a part of a tensor lies in order, has a view, or shares the memory of the whole may change at any size, where
a slice ends before the whole does, or an axis has one element. Programs do as eager does, or refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

import irkit

Model = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
N, NM = {0: "n"}, {0: "n", 1: "m"}
NK = {0: "n", 1: "k"}


def in_order(part: torch.Tensor) -> torch.Tensor:
    return part * 2 if part.is_contiguous() else -part


def written(make: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Model:
    """What is left of a tensor when what is made of it is written, which may be memory of its own."""

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        whole = y.clone()
        make(x, whole).mul_(2)
        return whole

    return model


MODELS: dict[str, tuple[Model, int, Mapping[int, str], int]] = {
    "up to another size": (lambda x, y: in_order(y[..., : x.shape[0]]), 3, N, 30),
    "up to a number": (lambda x, y: in_order(y[:, :3]), 3, NK, 90),
    "up to less": (lambda x, y: in_order(y[:, :3]), 5, NK, 90),
    "but for the ends": (lambda x, y: in_order(y[:-1, 1:]), 5, NK, 150),
    "turned": (lambda x, y: in_order(y[:, 1:].t()), 3, NK, 150),
    "seen otherwise": (lambda x, y: y[:, : x.shape[0]].view(-1), 3, N, 30),
    "strides": (lambda x, y: y * y[:, : x.shape[0]].stride(0), 3, N, 18),
    "reshape": (written(lambda x, y: y[:, : x.shape[0]].reshape(-1)), 3, N, 30),
    "reshape to an end that varies": (written(lambda x, y: y[:, : x.shape[1]].reshape(-1)), 3, NK, 100),
    "flatten": (written(lambda x, y: y[:, 1:].flatten()), 3, NK, 90),
    "contiguous": (written(lambda x, y: y[:, : x.shape[0]].contiguous()), 3, N, 30),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_part_lies_in_order_as_in_eager_or_is_refused(name: str) -> None:
    model, columns, sizes, least = MODELS[name]
    example = torch.randn(4, 5 if "varies" in name else 4), torch.randn(4, columns)
    program = irkit.to_onnx(model, example, dynamic_shapes=(NM, sizes), capture="direct")
    taken = 0
    for n, m, k in itertools.product(range(6), repeat=3):
        if k > 0 and 1 not in sizes:
            continue
        x, y = torch.randn(n, m), torch.randn(n, k if 1 in sizes else columns)
        try:
            found = program(x, y)
        except irkit.errors.IrkitError:
            continue
        taken += 1
        torch.testing.assert_close(found, model(x, y))
    assert taken >= least


def test_a_part_whose_order_changes_at_many_sizes_is_refused() -> None:
    def model(x: torch.Tensor) -> Any:
        return in_order(x[:, : x.shape[1] // 2 * 2])

    with pytest.raises(irkit.errors.IrkitError, match="sizes that vary tell whether a part of a tensor lies in order"):
        irkit.to_onnx(model, (torch.randn(4, 4),), dynamic_shapes=(NK,), capture="direct")
