"""Factorizations and systems of matrices against eager torch: batches, sizes with 0 and 1, singular matrices, complex
numbers. Each function is exported once with dynamic sizes; Hypothesis draws the sizes that it is run on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from irkit.checking.comparison import compare
from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError
from lowering.program.program import Program
from tests.lowering.aten.oracle import array, check, tensors_of

linalg = torch.linalg


Matrix = torch.Tensor
Made = Callable[..., Any]


def definite(x: Matrix) -> Matrix:
    """Hermitian and positive matrices out of any."""
    return x @ x.mH + torch.eye(x.shape[-1], dtype=x.dtype)


def regular(x: Matrix) -> Matrix:
    """Matrices far from singular."""
    return x + 6 * torch.eye(x.shape[-1], dtype=x.dtype)


def symmetric(x: Matrix) -> Matrix:
    """Symmetric matrices."""
    return x + x.mT


def hermitian(x: Matrix) -> Matrix:
    """Hermitian matrices."""
    return x + x.mH


SQUARE: dict[str, tuple[Made, Made]] = {
    "inv": (lambda x: [regular(x)], linalg.inv), "solve": (lambda x: [regular(x), x], linalg.solve),
    "solve_right": (lambda x: [regular(x), x], lambda a, b: linalg.solve(a, b, left=False)),
    "upper": (lambda x: [regular(x), x], lambda a, b: linalg.solve_triangular(a, b, upper=True)),
    "lower_right_unit": (lambda x: [0.1 * x, x], lambda a, b: linalg.solve_triangular(
        a, b, upper=False, left=False, unitriangular=True)),
    "cholesky": (lambda x: [definite(x)], linalg.cholesky_ex),
    "cholesky_upper": (lambda x: [definite(x)], lambda a: linalg.cholesky(a, upper=True)),
    "cholesky_solve": (lambda x: [x, linalg.cholesky(definite(x))], torch.cholesky_solve),
    "cholesky_solve_upper": (lambda x: [x, linalg.cholesky(definite(x), upper=True)],
                             lambda b, u: torch.cholesky_solve(b, u, upper=True)),
    "cholesky_inverse": (lambda x: [linalg.cholesky(definite(x))], torch.cholesky_inverse),
    "lu_solve": (lambda x: [*linalg.lu_factor(regular(x)), x], linalg.lu_solve),
    "lu_solve_adjoint": (lambda x: [*linalg.lu_factor(regular(x)), x],
                         lambda a, p, b: linalg.lu_solve(a, p, b, adjoint=True)),
    "lu_solve_right": (lambda x: [*linalg.lu_factor(regular(x)), x],
                       lambda a, p, b: linalg.lu_solve(a, p, b, left=False)),
    "lu_solve_both": (lambda x: [*linalg.lu_factor(regular(x)), x],
                      lambda a, p, b: linalg.lu_solve(a, p, b, left=False, adjoint=True)),
    "det": (lambda x: [x], linalg.det), "slogdet": (lambda x: [x], linalg.slogdet),
    "ldl": (lambda x: [symmetric(x)], linalg.ldl_factor_ex),
    "ldl_hermitian": (lambda x: [hermitian(x)], lambda a: linalg.ldl_factor_ex(a, hermitian=True)),
    "ldl_solve": (lambda x: [*linalg.ldl_factor(symmetric(x)), x], linalg.ldl_solve),
    "ldl_solve_hermitian": (lambda x: [*linalg.ldl_factor(hermitian(x), hermitian=True), x],
                            lambda a, p, b: linalg.ldl_solve(a, p, b, hermitian=True)),
    "matrix_exp": (lambda x: [x], linalg.matrix_exp), "power": (lambda x: [x], lambda x: linalg.matrix_power(x, 5)),
    "power_0": (lambda x: [x], lambda x: linalg.matrix_power(x, 0)),
    "power_below_0": (lambda x: [regular(x)], lambda x: linalg.matrix_power(x, -2)),
}  # fmt: skip
"""Functions of square matrices: what makes their arguments out of any matrix, and the function."""

ANY: dict[str, tuple[Made, Made]] = {
    "lu_factor": (lambda x: [x], linalg.lu_factor_ex), "lu": (lambda x: [x], linalg.lu),
    "qr": (lambda x: [x], linalg.qr),
    "qr_complete": (lambda x: [x], lambda x: linalg.qr(x, mode="complete")),
    "qr_r": (lambda x: [x], lambda x: linalg.qr(x, mode="r")[1]),
    "ormqr": (lambda x: [*torch.geqrf(x), x], torch.ormqr),
    "ormqr_transpose": (lambda x: [*torch.geqrf(x), x], lambda a, t, c: torch.ormqr(a, t, c, True, True)),
    "ormqr_right": (lambda x: [*torch.geqrf(x), x.mT.clone()], lambda a, t, c: torch.ormqr(a, t, c, False)),
    "ormqr_both": (lambda x: [*torch.geqrf(x), x.mT.clone()], lambda a, t, c: torch.ormqr(a, t, c, False, True)),
}  # fmt: skip
"""Functions of matrices."""

FUNCTIONS = {**SQUARE, **ANY}


def parts(x: torch.Tensor) -> torch.Tensor:
    """A complex tensor as a real one."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


class Model(torch.nn.Module):
    """A function of tensors; complex ones enter and leave as pairs of real numbers in a last dimension."""

    def __init__(self, function: Made, is_complex: bool) -> None:
        super().__init__()
        self.function, self.is_complex = function, is_complex

    def forward(self, *tensors: torch.Tensor) -> Any:
        given_ = [torch.view_as_complex(t) if self.is_complex and t.is_floating_point() else t for t in tensors]
        return [parts(t) for t in tensors_of(self.function(*given_))]


@cache
def program(name: str, is_complex: bool) -> Program:
    """The function exported for matrices of any size."""
    args = arguments(name, drawn((3, 5, 5) if name in SQUARE else (3, 5, 4), is_complex, 0))
    count = -1 if is_complex else None
    free = [dict.fromkeys(range(a.ndim)[: count if a.is_floating_point() else None], Dim.AUTO) for a in args]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_onnx(Model(FUNCTIONS[name][1], is_complex), args, dynamic_shapes={"tensors": tuple(free)})


def arguments(name: str, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What the exported function is given."""
    return tuple(parts(a).clone() for a in FUNCTIONS[name][0](x))


def drawn(shape: tuple[int, ...], is_complex: bool, seed: int) -> torch.Tensor:
    """Random numbers in double precision."""
    dtype = torch.complex128 if is_complex else torch.float64
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def agree(name: str, is_complex: bool, x: torch.Tensor) -> None:
    """Fails where the exported function differs from eager torch on matrices made of x."""
    args = arguments(name, x)
    expected = Model(FUNCTIONS[name][1], is_complex)(*args)
    found = tensors_of(program(name, is_complex)(*args))
    difference = compare([array(t) for t in expected], [array(t) for t in found], rtol=1e-6, atol=1e-6)
    assert difference is None, f"{name} of {tuple(x.shape)}: {difference}"


SIZE = st.sampled_from((0, 1, 2, 3, 6))


@pytest.mark.parametrize("is_complex", (False, True), ids=("real", "complex"))
@pytest.mark.parametrize("name", (*SQUARE, *ANY))
@settings(max_examples=6, deadline=None)
@given(batch=st.sampled_from((0, 1, 2)), rows=SIZE, columns=SIZE, seed=st.integers(1, 99))
def test_every_size(name: str, is_complex: bool, batch: int, rows: int, columns: int, seed: int) -> None:
    try:
        agree(name, is_complex, drawn((batch, rows, rows if name in SQUARE else columns), is_complex, seed))
    except ContractError:  # torch captured the function under a condition
        return


SINGULAR = {
    "zeros": lambda x: 0 * x, "a column of zeros": lambda x: x * (torch.arange(x.shape[2]) != 1),
    "a row of zeros": lambda x: x * (torch.arange(x.shape[1]) != 2)[:, None],
    "the last of zeros": lambda x: x * (torch.arange(x.shape[2]) != x.shape[2] - 1),
}  # fmt: skip


@pytest.mark.parametrize("how", SINGULAR)
@pytest.mark.parametrize("name", ("lu_factor", "qr", "det", "slogdet", "ldl", "matrix_exp"))
def test_singular_matrices(name: str, how: str) -> None:
    x = SINGULAR[how](drawn((2, 4, 4), False, 3))
    if name == "ldl":  # the sum with the transpose has these rows and columns of zeros
        x = x * (x != 0).all(-2)[:, :, None] * (x != 0).all(-1)[:, None, :] if how != "zeros" else x
    agree(name, False, x)


@pytest.mark.parametrize("how", SINGULAR)
def test_reflections_of_singular_matrices(how: str) -> None:
    """torch has no shapes of geqrf for dynamic sizes."""
    check(torch.geqrf, SINGULAR[how](drawn((2, 4, 4), False, 3)))
    check(Model(torch.geqrf, True), parts(SINGULAR[how](drawn((2, 5, 3), True, 3))))


def test_where_a_factorization_stopped() -> None:
    """The numbers that the `_ex` forms give: steps from 1 on."""
    x = torch.stack([torch.eye(4), torch.diag(torch.tensor([1.0, 2.0, -1.0, 3.0])), torch.diag(torch.arange(4.0))])
    check(lambda a: linalg.cholesky_ex(a)[1], x)
    check(lambda a: linalg.inv_ex(a)[1], x)
    check(lambda a: linalg.solve_ex(a, a)[1], x)
    check(lambda a: linalg.lu_factor_ex(a)[2], x)
    check(lambda a: linalg.ldl_factor_ex(a)[2], x)


@pytest.mark.parametrize("seed", range(6))
def test_blocks_of_two_rows(seed: int) -> None:
    """Matrices that hardly have a diagonal take pivots of two rows."""
    x = drawn((4, 9, 9), False, seed) * (1 - 0.999 * torch.eye(9, dtype=torch.float64))
    assert (linalg.ldl_factor(symmetric(x))[1] < 0).any()
    both = torch.complex(x, x.flip(0))
    for name, is_complex in (("ldl", False), ("ldl", True), ("ldl_hermitian", True)):
        agree(name, is_complex, both if is_complex else x)
        agree(name.replace("ldl", "ldl_solve"), is_complex, both if is_complex else x)


@pytest.mark.filterwarnings("ignore")
def test_one_triangle_is_looked_at() -> None:
    x = drawn((2, 5, 5), False, 1)
    a = definite(x)
    below, above = a + torch.triu(torch.full_like(a, 7), 1), a + torch.tril(torch.full_like(a, 7), -1)
    check(linalg.cholesky, below)
    check(lambda v: linalg.cholesky(v, upper=True), above)
    check(lambda v: torch.cholesky(v, upper=True), above)
    check(lambda v, b: torch.cholesky_solve(b, v), below, x)
    check(lambda v, b: torch.triangular_solve(b, v, upper=False, transpose=True)[0], regular(x), x)


def test_logarithms_of_determinants_beyond_the_range_of_floats() -> None:
    check(lambda a: (linalg.slogdet(a), torch.logdet(a @ a.mT)), 10 * drawn((2, 60, 60), False, 2).float())


@pytest.mark.parametrize("scale", (0.01, 1.0, 4.0))
def test_exponentials_are_as_good_as_torch_has_them(scale: float) -> None:
    x = scale * drawn((20, 8, 8), False, 5).float()
    exact = linalg.matrix_exp(x.double())
    size = exact.norm(dim=(1, 2))
    found = to_onnx(Model(linalg.matrix_exp, False), (x,))(x)[0]
    ours, theirs = (((y.double() - exact).norm(dim=(1, 2)) / size).mean() for y in (found, linalg.matrix_exp(x)))
    assert ours <= 1.5 * theirs


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_exponentials_of_the_half_types(dtype: torch.dtype) -> None:
    x = (0.3 * drawn((4, 5, 5), False, 5)).to(dtype)
    found = to_onnx(Model(linalg.matrix_exp, False), (x,))(x)[0]
    assert torch.equal(found, linalg.matrix_exp(x.float()).to(dtype))


def test_tensors_as_matrices() -> None:
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    shapes = [{0: Dim.AUTO, 1: Dim.AUTO, 2: Dim.AUTO}]
    check(lambda a: linalg.tensorinv(a, ind=2), x, dynamic_shapes=shapes)
    b = torch.randn(2, 3, dtype=torch.float64)
    check(linalg.tensorsolve, x, b, dynamic_shapes=[*shapes, {0: Dim.AUTO, 1: Dim.AUTO}])
    check(lambda a, v: linalg.tensorsolve(a, v, dims=(0,)), torch.randn(6, 2, 3, dtype=torch.float64), b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_reflections_of_rows_that_are_not_known_to_be_equal(dtype: torch.dtype) -> None:
    """Each tensor's sizes vary by themselves; torch requires that the rows are as many."""

    def inputs(rows: int, columns: int) -> tuple[torch.Tensor, ...]:
        return *torch.geqrf(torch.randn(rows, 2, dtype=dtype)), torch.randn(rows, columns, dtype=dtype)

    auto = torch.export.Dim.AUTO
    varying = ({0: auto, 1: auto}, {0: auto}, {0: auto, 1: auto})
    program = to_onnx(lambda a, t, c: torch.ormqr(a, t, c, True, True), inputs(5, 3), dynamic_shapes=varying)
    for rows, columns in ((5, 3), (5, 1), (6, 3)):
        a, t, c = inputs(rows, columns)
        try:
            found = program(a, t, c)
        except ContractError:
            assert (rows, columns) != (5, 3)
            continue
        torch.testing.assert_close(found, torch.ormqr(a, t, c, True, True), rtol=1e-4, atol=1e-4)
