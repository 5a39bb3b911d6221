"""Converters of `lowering.aten.linear_algebra.products` against eager torch."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim

from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError
from tests.lowering.aten.oracle import check, check_all, module_cases, op_cases

OPS = [
    "matmul", "mm", "bmm", "baddbmm", "addmm", "addmm.decomposed", "addmv", "addbmm", "addr", "mv", "dot", "vdot",
    "outer", "inner", "kron", "linalg.vecdot", "__rmatmul__", "nn.functional.linear", "nn.functional.bilinear",
    "einsum", "cross", "linalg.cross", "tensordot", "linalg.multi_dot", "linalg.det", "logdet",
]  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_as_torch_samples_it(name: str) -> None:
    """OpInfo's samples in f32."""
    check_all(op_cases(name, torch.float32, 5))


@pytest.mark.parametrize("name", ["matmul", "addmm", "baddbmm", "addmv", "addr", "addbmm", "inner", "tensordot"])
def test_of_integers(name: str) -> None:
    """OpInfo's samples in i64, compared exactly."""
    check_all(op_cases(name, torch.int64, 3))


@pytest.mark.parametrize("name", ["nn.Linear", "nn.Bilinear"])
def test_modules(name: str) -> None:
    """ModuleInfo's modules."""
    check_all(module_cases(name, 3))


def test_narrow_integers_wrap_around() -> None:
    """The sums of int8 products wrap as torch's do."""
    a, b = torch.randint(-128, 128, (3, 40), dtype=torch.int8), torch.randint(-128, 128, (40, 5), dtype=torch.int8)
    check(torch.matmul, a, b)


def test_linear_takes_its_weight_as_it_is() -> None:
    """Two dimensions: one Gemm; more: MatMul by the transposed weight, for every batch and length."""
    model = torch.nn.Linear(4, 5)
    check(model, torch.randn(3, 4), dynamic_shapes=[{0: "batch"}], others=[(torch.randn(7, 4),)], operators=["Gemm"])
    shapes = [{0: "batch", 1: "seq"}]
    check(model, torch.randn(2, 3, 4), dynamic_shapes=shapes, others=[(torch.randn(5, 6, 4),)], operators=["MatMul"])


def test_addmm_looks_at_no_bias_that_counts_nothing() -> None:
    """beta = 0 with NaN in the bias; an inner size of 0, where only the bias is left."""
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0), torch.full((5,), torch.nan), a, b)
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0.2), torch.randn(5), torch.zeros(3, 0), torch.zeros(0, 5))


def test_factors_of_doubles_are_exact() -> None:
    """0.3 is no f32: Gemm would lose digits of it. (ONNX Runtime loses those of alpha by a fusion of its own.)"""
    c, a, b = (torch.randn(*shape, dtype=torch.float64) for shape in ((5,), (3, 4), (4, 5)))
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0.3), c, a, b, tolerance=1e-12)


EQUATIONS = {
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "bhqd,bhkd->bhqk": ((2, 3, 4, 5), (2, 3, 6, 5)),
    "bqhd,bkhd->bhqk": ((2, 4, 3, 5), (2, 6, 3, 5)),
    "bhqk,bkhd->bqhd": ((2, 3, 4, 6), (2, 6, 3, 5)),
    "ij,j": ((3, 4), (4,)),
    "i,j->ij": ((3,), (4,)),
    "ii->i": ((3, 3),),
    "ij->ji": ((3, 4),),
    "ij->": ((3, 4),),
    "...ij,...jk->...ik": ((2, 3, 4), (2, 4, 5)),
    "bi,bj,bk->bijk": ((2, 3), (2, 4), (2, 5)),
    "bi,bi->b": ((2, 3), (2, 3)),
    "bij,b->ij": ((2, 3, 4), (2,)),
    "ij,kl->ijkl": ((2, 3), (4, 5)),
    "ij,ij->ij": ((2, 3), (1, 3)),
    "A b,bC->CA": ((2, 3), (3, 4)),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str) -> None:
    """Equations that models write, and corners of the notation."""
    check(lambda *operands: torch.einsum(equation, *operands), *(torch.randn(*s) for s in EQUATIONS[equation]))


def test_einsum_of_symbolic_sizes_is_a_product() -> None:
    """Attention's first product, for every batch and length."""
    q, k, more = torch.randn(2, 4, 3, 5), torch.randn(2, 6, 3, 5), (torch.randn(3, 7, 3, 5), torch.randn(3, 2, 3, 5))
    batch, length, seen = "batch", "length", "seen"
    check(
        lambda q, k: torch.einsum("bqhd,bkhd->bhqk", q, k),
        q,
        k,
        operators=["MatMul"],
        dynamic_shapes=[{0: batch, 1: length}, {0: batch, 1: seen}],
        others=[more],
    )


def test_powers_of_matrices() -> None:
    """By repeated squaring; the zeroth is the identity."""
    check(
        lambda a: (torch.matrix_power(a, 5), torch.matrix_power(a, 1), torch.matrix_power(a, 0)), torch.randn(2, 3, 3)
    )


SUMS = {
    "...ik,...j->ij": [(1, 2, 3), (3,)],
    "bik,bj->b": [(4, 2, 3), (4, 3)],
    "bik->b": [(4, 2, 3)],
    "ij,k": [(2, 3), (4,)],
    "bik,kj->bij": [(4, 2, 3), (3, 5)],
}


@pytest.mark.parametrize(
    ("equation", "dtype"), [*((each, torch.uint8) for each in SUMS), *((each, torch.bool) for each in [*SUMS][:-1])]
)
def test_einsum_of_small_integers_refuses_sizes_of_another_element_type(equation: str, dtype: torch.dtype) -> None:
    """torch sums as int64, and squeezes a size of 1, which keeps the element type."""
    shapes = SUMS[equation]

    def model(*operands: torch.Tensor) -> torch.Tensor:
        return torch.einsum(equation, *operands)

    made = [torch.ones(s, dtype=dtype) for s in shapes]
    varying = {"operands": tuple({i: Dim.AUTO for i, n in enumerate(s) if n > 1} for s in shapes)}
    program = to_onnx(model, tuple(made), dynamic_shapes=varying)
    letters = sorted(set(equation.partition("->")[0]) - set(".,"))
    answered = 0
    for sizes in itertools.product((1, 2), repeat=len(letters)):
        at = dict(zip(letters, sizes, strict=True))
        sources = equation.partition("->")[0].replace("...", " " if len(made) == 2 else "").split(",")
        shaped = [[at.get(c, 1) for c in source] for source in sources]
        args = [torch.ones(s[-m.ndim :], dtype=dtype) for s, m in zip(shaped, made, strict=True)]
        try:
            found = program(*args)
        except ContractError:
            continue
        expected = model(*args)
        assert found.dtype == expected.dtype and torch.equal(found, expected)
        answered += 1
    assert answered >= 2 ** (len(letters) - 1)
