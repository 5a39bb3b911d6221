"""Sparse tensors, which a graph takes as dense ones: products of them, and what a dense tensor does not say."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError
from lowering.errors import CaptureError, LoweringError

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


class HeldAndReduced(Held):
    def forward(self, y: Any) -> Any:
        return torch.sparse.mm(self.weight, y, "mean")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("how", ["sum", "mean", "amax", "amin"])
def test_reductions_of_stored_elements(how: str, dtype: torch.dtype) -> None:
    x, y = MATRIX.to(dtype).to_sparse_csr(), OTHER.to(dtype)
    program = to_onnx(Reduced(how), (x, y), rules="default+nan")
    # A product with a dense matrix holds 0 * NaN too.
    factor = torch.tensor([-1.0, float("nan") if how in ("amax", "amin") else 2.0], dtype=dtype)
    for other in (y, y * factor):
        torch.testing.assert_close(program(x, other), torch.sparse.mm(x, other, how), equal_nan=True)


def test_a_stored_zero_is_refused_where_it_counts() -> None:
    """A dense tensor does not say whether a 0 is stored."""
    x = MATRIX.to_sparse_csr()
    zero = torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), x.values() - 2, x.shape, check_invariants=True)
    for how in ("sum", "mean"):
        program = to_onnx(Reduced(how), (x, OTHER))
        if how == "sum":
            torch.testing.assert_close(program(zero, OTHER), zero.to_dense() @ OTHER)
            continue
        assert any("no sparse matrix stores a 0" in text for text, _ in program.report.guards), program.report.guards
        with pytest.raises(ContractError, match="stores a 0, and the model counts"):
            program(zero, OTHER)
    torch.testing.assert_close(to_onnx(HeldAndReduced(x), (OTHER,))(OTHER), torch.sparse.mm(x, OTHER, "mean"))
    with pytest.raises(CaptureError, match="weight is sparse and stores a 0"):
        to_onnx(HeldAndReduced(zero), (OTHER,))


def test_what_a_computed_matrix_stores_is_not_known() -> None:
    class Computed(Reduced):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.sparse.mm(torch.sin(x), y, self.how)

    with pytest.raises(LoweringError, match="which elements a computed sparse matrix stores is not known"):
        to_onnx(Computed("amax"), (MATRIX.to_sparse_csr(), OTHER))
