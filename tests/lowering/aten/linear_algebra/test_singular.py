"""Singular matrices are refused where eager raises, and answered where it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError

L: Any = torch.linalg
GOOD = torch.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
SINGULAR = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
NEGATIVE = torch.tensor([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
FLAT = torch.diag(torch.tensor([1.0, 1.0, 0.0]))
SIDES = torch.arange(6.0).reshape(3, 2)

REFUSED: dict[str, tuple[Callable[[torch.Tensor], Any], torch.Tensor]] = {
    "inv": (lambda a: L.inv(a), SINGULAR),
    "inverse": (lambda a: a.inverse(), SINGULAR),
    "inv_ex that checks": (lambda a: L.inv_ex(a, check_errors=True)[0], SINGULAR),
    "solve": (lambda a: L.solve(a, SIDES.expand(len(a), 3, 2)), SINGULAR),
    "solve from the right": (lambda a: L.solve(a, SIDES.mT.expand(len(a), 2, 3), left=False), SINGULAR),
    "solve_ex that checks": (lambda a: L.solve_ex(a, SIDES.expand(len(a), 3, 2), check_errors=True)[0], FLAT),
    "lu_factor": (lambda a: L.lu_factor(a)[0], SINGULAR),
    "a power below 0": (lambda a: L.matrix_power(a, -2), SINGULAR),
    "cholesky": (lambda a: L.cholesky(a), NEGATIVE),
    "cholesky of a last pivot that is 0": (lambda a: torch.linalg.cholesky(a, upper=True), FLAT),
    "cholesky_ex that checks": (lambda a: L.cholesky_ex(a, check_errors=True)[0], NEGATIVE),
    "an inverse of complex numbers": (lambda a: L.inv(torch.complex(a, a)).real, SINGULAR),
    "an inverse of a block": (lambda a: L.inv(a[:, :2, :2]), SINGULAR),
}
ANSWERED: dict[str, tuple[Callable[[torch.Tensor], Any], torch.Tensor]] = {
    "inv_ex": (lambda a: L.inv_ex(a)[1], SINGULAR),
    "cholesky_ex": (lambda a: L.cholesky_ex(a)[1], NEGATIVE),
    "lu_factor_ex": (lambda a: L.lu_factor_ex(a)[2], SINGULAR),
    "det": (lambda a: L.det(a), SINGULAR),
    "solve_triangular": (lambda a: L.solve_triangular(a, SIDES, upper=False), FLAT),
    "a power above 0": (lambda a: L.matrix_power(a, 2), SINGULAR),
    "the inverse of NaN": (lambda a: L.inv(a), GOOD * torch.nan),
}


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", REFUSED)
def test_matrices_that_eager_refuses_are_refused(name: str, capture: Any) -> None:
    model, wrong = REFUSED[name]
    program = to_onnx(model, (torch.stack([GOOD] * 3),), dynamic_shapes=({0: "n"},), capture=capture)
    for count in (0, 1, 2):
        a = torch.stack([GOOD, 2 * GOOD])[:count]
        torch.testing.assert_close(program(a), model(a), rtol=1e-4, atol=1e-5)
    for a in (wrong[None], torch.stack([GOOD, wrong])):
        with pytest.raises(RuntimeError):
            model(a)
        with pytest.raises(ContractError, match="test_singular"):
            program(a)


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_a_singular_matrix_is_refused_where_there_is_nothing_to_solve(capture: Any) -> None:
    def model(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return L.solve(a, b)

    program = to_onnx(model, (GOOD, SIDES), dynamic_shapes=(None, {1: "m"}), capture=capture)
    for count in (0, 1, 2):
        torch.testing.assert_close(program(GOOD, SIDES[:, :count]), model(GOOD, SIDES[:, :count]))
        with pytest.raises(RuntimeError):
            model(SINGULAR, SIDES[:, :count])
        with pytest.raises(ContractError, match="test_singular"):
            program(SINGULAR, SIDES[:, :count])


@pytest.mark.parametrize("name", ANSWERED)
def test_matrices_that_eager_answers_are_answered(name: str) -> None:
    model, wrong = ANSWERED[name]
    program = to_onnx(model, (torch.stack([GOOD] * 3),), dynamic_shapes=({0: "n"},))
    for a in (wrong[None], torch.stack([GOOD, wrong])):
        torch.testing.assert_close(program(a), model(a), equal_nan=True)
