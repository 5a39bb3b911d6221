"""Products by sparse matrices that a model holds, against eager at other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit

PLACES = torch.tensor([[0, 2, 1, 0, 2], [1, 0, 3, 1, 3]])
NUMBERS = torch.tensor([1.0, -2.0, 3.0, 0.5, 4.0])
COO = torch.sparse_coo_tensor(PLACES, NUMBERS, (3, 4), check_invariants=True)
KINDS = ("coo", "coalesced", "csr", "csc")
CALLS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "mm": torch.sparse.mm,
    "matmul": lambda a, x: a @ x,
    "turned": lambda a, x: (x.t() @ a.t()).t(),
    "mv": lambda a, x: torch.mv(a, x.sum(1)),
    "addmm": lambda a, x: torch.sparse.addmm(torch.ones(3, x.shape[1]), a, x, beta=2, alpha=0.5),
    "twice": lambda a, x: torch.relu(a @ torch.relu(a.to_dense().t() @ (a @ x))),
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse:UserWarning"),  # torch's own words of its sparse tensors
    pytest.mark.filterwarnings("ignore:.*check_sparse_tensor_invariants:UserWarning"),
]


def held(kind: str) -> torch.Tensor:
    if kind == "coo":
        return COO
    return COO.coalesce() if kind == "coalesced" else getattr(COO, f"to_sparse_{kind}")()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS)
def test_products_are_those_of_eager(call: str, kind: str) -> None:
    matrix = held(kind)

    def model(x: torch.Tensor) -> torch.Tensor:
        return CALLS[call](matrix, x)

    try:
        model(torch.randn(4, 5))
    except RuntimeError:
        return  # torch has no such product
    program = irkit.to_onnx(model, (torch.randn(4, 5),), dynamic_shapes=({1: "n"},), capture="direct")
    for count in (5, 1, 3, 0):
        x = torch.randn(4, count)
        torch.testing.assert_close(program(x), model(x))


class Convolution(torch.nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = torch.nn.Linear(6, 6)
        self.register_buffer("graph", (torch.rand(4, 4) * (torch.rand(4, 4) > 0.5)).to_sparse())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.sparse.mm(self.graph, self.linear(x)))


def test_layers_that_are_alike_have_their_own_matrices() -> None:
    model = torch.nn.Sequential(*map(Convolution, range(4)))
    program = irkit.to_onnx(model, (torch.randn(4, 6),), capture="direct")
    x = torch.randn(4, 6)
    torch.testing.assert_close(program(x), model(x))


def test_what_is_not_held_adds_nothing_of_infinities() -> None:
    program = irkit.to_onnx(lambda x: COO @ x, (torch.randn(4, 5),), capture="direct")
    x = torch.randn(4, 5)
    x[2] = float("inf")
    torch.testing.assert_close(program(x), COO @ x)


def test_a_step_trains_what_is_before_a_sparse_product() -> None:
    def step_of() -> Any:
        layer = Convolution(0)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> Any:
            loss = layer(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach(), layer.linear.weight.detach().clone()

        return step

    mine, eager = step_of(), step_of()
    program, state = irkit.to_onnx(mine, (torch.randn(4, 6),), capture="direct"), None
    for _ in range(3):
        x = torch.randn(4, 6)
        found, state = program.run((x,), {}, state)
        torch.testing.assert_close(found, eager(x))


def test_a_matrix_of_places_in_the_model_is_one_that_it_holds() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.sparse_coo_tensor(PLACES, NUMBERS, (3, 4)) @ x

    program = irkit.to_onnx(model, (torch.randn(4, 5),), dynamic_shapes=({1: "n"},), capture="direct")
    x = torch.randn(4, 7)
    torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize(
    "model", [lambda x: x.to_sparse().to_dense(), lambda x: torch.sparse_coo_tensor(PLACES, x[0], (3, 4)).to_dense()]
)
def test_a_matrix_that_the_model_computes_is_one_of_places_and_numbers(model: Any) -> None:
    program = irkit.to_onnx(model, (torch.randn(4, 5),), capture="direct")
    x = torch.randn(4, 5)
    torch.testing.assert_close(program(x), model(x))


def test_an_operator_that_is_not_met_on_a_computed_matrix_is_refused_by_name() -> None:
    with pytest.raises(irkit.IrkitError, match=r"aten.cat.default of a sparse tensor that the model computes") as told:
        irkit.to_onnx(lambda x: torch.cat([x.to_sparse()] * 2), (torch.randn(4, 5),), capture="direct")
    assert "index_add" in told.value.hint


@pytest.mark.parametrize("beta", [0, 0.5])
def test_a_start_of_factor_0_is_not_looked_at(beta: float) -> None:
    matrix = torch.tensor([[0.0, 1, 0], [2, 0, 3]]).to_sparse()

    def model(x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        return torch.addmm(start, matrix, x, beta=beta)

    given = (torch.randn(3, 4), torch.full((2, 4), torch.nan))
    program = irkit.to_onnx(model, given, capture="direct")
    torch.testing.assert_close(program(*given), model(*given), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
@pytest.mark.parametrize("way", ["mm", "addmm"])
def test_factors_of_other_types_are_refused(dtype: torch.dtype, way: str) -> None:
    matrix = torch.tensor([[0.0, 1, 0], [2, 0, 3]]).to_sparse()

    def model(x: torch.Tensor) -> torch.Tensor:
        if way == "mm":
            return torch.mm(matrix, x)
        return torch.addmm(torch.ones(2, 4, dtype=dtype), matrix, x.float())

    with pytest.raises(RuntimeError):
        model(torch.ones(3, 4, dtype=dtype))
    with pytest.raises(irkit.errors.IrkitError):
        irkit.to_onnx(model, (torch.ones(3, 4, dtype=dtype),), capture="direct")
