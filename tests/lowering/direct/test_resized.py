"""Tensors that get other sizes: `out=` as torch resizes it, resize_, and what is asked of sizes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from lowering.errors import LoweringError

NM = ({0: "n", 1: "m"},)


def into_nothing(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(0)
    torch.add(x, 1, out=out)
    out.mul_(2)
    return out + out[:1]


def into_other_sizes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(3, 4)
    torch.mul(x, 2, out=out)
    return out + x


def several_out(x: torch.Tensor) -> Any:
    values, places = torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.sort(x, out=(values, places))
    return values, places


def made_flat(x: torch.Tensor) -> Any:
    y = x.clone()
    row = y[0]
    y.resize_(x.shape[0] * x.shape[1])
    row.add_(1)
    y[1:].mul_(2)
    return y, row


def made_smaller(x: torch.Tensor) -> torch.Tensor:
    return x.clone().resize_(2, 3) + 1


def made_like(x: torch.Tensor) -> torch.Tensor:
    return (x * 1).resize_as_(x.new_zeros(x.shape[1], x.shape[0]))


def of_nothing(x: torch.Tensor) -> torch.Tensor:
    """A tensor of nothing, which becomes as large as another and is filled."""
    out = x.new().resize_as_(x)
    return torch.mul(x, 2, out=out)


def in_parts_by_size(x: torch.Tensor) -> Any:
    return torch.tensor_split(x, x.shape[0] // 2 + 1, dim=1)


def wrapped_around(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x[None, None], (-1, 1, -2, 1), "circular")


FUNCTIONS: tuple[Callable[..., Any], ...] = (
    into_nothing, into_other_sizes, several_out, made_flat, made_smaller, made_like, of_nothing, in_parts_by_size,
    wrapped_around,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_what_is_resized_is_as_eager_has_it_at_every_size(function: Callable[..., Any]) -> None:
    program = irkit.to_onnx(function, (torch.randn(3, 4),), dynamic_shapes=NM, capture="direct")
    taken = 0
    for shape in ((3, 4), (4, 3), (3, 7), (5, 5), (2, 2), (1, 3), (3, 1), (0, 4)):
        x = torch.randn(shape)
        try:
            expected = function(x.clone())
        except (RuntimeError, IndexError):
            with pytest.raises(irkit.IrkitError):
                program(x)
            continue
        try:
            found = program(x)
        except irkit.ContractError:
            continue
        taken += 1
        torch.testing.assert_close(found, expected)
    assert taken >= 2


def seen_before(x: torch.Tensor) -> Any:
    out = torch.zeros(2, 2)
    first = out[0]
    torch.add(x, 1, out=out)
    return out, first


def of_the_caller(x: torch.Tensor) -> torch.Tensor:
    return torch.add(torch.ones(5, 5), 1, out=x)


def larger(x: torch.Tensor) -> torch.Tensor:
    return x.clone().resize_(40)


REFUSED = {
    seen_before: "others share, or the caller has",
    of_the_caller: "others share, or the caller has",
    larger: "makes a tensor larger than it was",
    lambda x: torch.mm(x.to_sparse_csr(), x.t()): "by rows or by columns",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_a_graph_of_values_cannot_say_of_resizing_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(irkit.IrkitError, match=REFUSED[function]):
        irkit.to_onnx(function, (torch.randn(3, 4),), dynamic_shapes=NM, capture="direct")


@pytest.mark.filterwarnings("ignore")
def test_a_sparse_weight_is_refused_by_its_layout() -> None:
    weight = torch.eye(4).to_sparse_csr()
    with pytest.raises(LoweringError, match=r"layout torch\.sparse_csr is not met"):
        irkit.to_onnx(lambda x: torch.mul(weight, x), (torch.randn(4, 4),), capture="direct")
