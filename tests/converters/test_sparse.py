"""Sparse tensors, which a graph takes as dense ones: products of them, and what a dense tensor does not say."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lowering.errors import LoweringError
from lowering.export import to_onnx

MATRIX = torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 3.0]])
OTHER = torch.tensor([[1.0, 2.0], [3.0, -4.0], [0.5, 6.0]])

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")

LAYOUTS = ["to_sparse", "to_sparse_csr"]


class Product(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return torch.sparse.mm(x, y), x.to_dense() - 1


class Held(torch.nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, y: Any) -> Any:
        return torch.sparse.addmm(y[:1], self.weight, y, beta=0.5, alpha=2.0)


class Reduced(torch.nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Any, y: Any) -> Any:
        return torch.sparse.mm(x, y, self.how)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sparse_input(layout: str) -> None:
    x = getattr(MATRIX, layout)()
    report = to_onnx(Product(), (x, OTHER)).check()
    assert report, report


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sparse_buffer(layout: str) -> None:
    model = Held(getattr(MATRIX, layout)())
    torch.testing.assert_close(to_onnx(model, (OTHER,))(OTHER), model(OTHER))


def test_reductions_of_stored_elements() -> None:
    """A sum is that of all elements; a mean is that of the stored ones, which a dense tensor does not say."""
    x = MATRIX.to_sparse_csr()
    torch.testing.assert_close(to_onnx(Reduced("sum"), (x, OTHER))(x, OTHER), MATRIX @ OTHER)
    with pytest.raises(LoweringError, match="the mean of a row is that of its stored elements"):
        to_onnx(Reduced("mean"), (x, OTHER))
