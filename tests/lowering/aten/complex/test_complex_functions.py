"""Functions of complex numbers against torch: along branch cuts, near zeros, where squares overflow, at infinities."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from irkit.checking.comparison import compare
from irkit.doors.to_onnx import to_onnx
from lowering.program.program import Program

pytestmark = pytest.mark.filterwarnings("ignore")

Function = Callable[..., torch.Tensor]

CUTS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e-20, -1e-20)
"""Where branch cuts begin and end, on both sides of zero."""

ALGEBRAIC: dict[str, Function] = {
    name: getattr(torch, name)
    for name in "log log2 log10 log1p sqrt rsqrt asin acos atan asinh acosh atanh abs angle reciprocal sgn".split()
}
"""Functions that have large arguments, too."""

PERIODIC: dict[str, Function] = {
    **{name: getattr(torch, name) for name in "exp exp2 expm1 sin cos tan sinh cosh tanh sinc square".split()},
    "tanhshrink": torch.nn.functional.tanhshrink,
    "pow_real": lambda z: z**2.5, "pow_half": lambda z: z**0.5, "pow_whole": lambda z: z**3,
    "pow_negative": lambda z: z**-2, "pow_complex": lambda z: z ** (0.5 - 1j), "rpow": lambda z: 2.0**z,
}  # fmt: skip
BINARY: dict[str, Function] = {
    "mul": torch.mul, "div": torch.div, "add": lambda a, b: torch.add(a, b, alpha=2 - 1j), "pow": torch.pow,
    "logaddexp": torch.logaddexp, "ldexp": torch.ldexp, "float_power": torch.float_power, "eq": torch.eq,
}  # fmt: skip


@cache
def exported(name: str, dtype: torch.dtype) -> Program:
    """A function as a program of any number of complex numbers."""
    function = (ALGEBRAIC | PERIODIC | BINARY)[name]
    count = 2 if name in BINARY else 1
    args = tuple(torch.randn(3, dtype=dtype) for _ in range(count))
    return to_onnx(lambda *z: function(*z), args, dynamic_shapes=(tuple({0: "n"} for _ in args),))


def agree(name: str, dtype: torch.dtype, *numbers: list[complex]) -> None:
    """Compares a program with torch; where torch itself gives NaN for finite numbers, there is nothing to compare."""
    given_ = tuple(torch.tensor(z, dtype=torch.complex128).to(dtype) for z in numbers)
    wanted = (ALGEBRAIC | PERIODIC | BINARY)[name](*given_)
    found = exported(name, dtype)(*given_)
    assert found.dtype is wanted.dtype
    kept = torch.isfinite(wanted)
    difference = compare(wanted[kept].numpy(), found[kept].numpy())
    assert difference is None, f"{name} of {[z[kept][:8].tolist() for z in given_]}: {difference}"


def parts(size: float) -> st.SearchStrategy[float]:
    """Real numbers up to a size, often at the end of a branch cut."""
    return st.one_of(st.sampled_from(CUTS), st.floats(-size, size, width=32), st.floats(-3, 3, width=32))


def numbers(size: float) -> st.SearchStrategy[list[complex]]:
    """Four complex numbers with parts up to a size."""
    return st.lists(st.builds(complex, parts(size), parts(size)), min_size=4, max_size=4)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", PERIODIC)
@settings(max_examples=25, deadline=None)
@example(z=[complex(a, b) for a in CUTS for b in CUTS])
@given(z=numbers(20))
def test_functions_of_moderate_numbers(name: str, dtype: torch.dtype, z: list[complex]) -> None:
    agree(name, dtype, z)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", ALGEBRAIC)
@settings(max_examples=25, deadline=None)
@example(z=[complex(a, b) for a in CUTS for b in CUTS])
@example(z=[complex(a, b) for a in (1e19, -3e38, 1.0, 0.0) for b in (1e19, -3e38, 3e38, -1.0)])
@given(z=numbers(2.0**120))
def test_functions_of_numbers_whose_squares_overflow(name: str, dtype: torch.dtype, z: list[complex]) -> None:
    agree(name, dtype, z)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=25, deadline=None)
@given(a=numbers(8), b=numbers(8))
def test_functions_of_two_numbers(name: str, dtype: torch.dtype, a: list[complex], b: list[complex]) -> None:
    agree(name, dtype, a, b)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_quotients_of_numbers_whose_squares_overflow(dtype: torch.dtype) -> None:
    a = torch.tensor([1e30 + 1e30j, 1.0, 3e38j, 1e-30], dtype=dtype)
    b = torch.tensor([2e30 - 1e30j, 1e30j, 3e38 + 3e38j, 1e-30 + 1e-30j], dtype=dtype)
    wanted = torch.tensor([0.2 + 0.6j, -1e-30j, 0.5 + 0.5j, 0.5 - 0.5j], dtype=dtype)  # torch's own third is 0
    torch.testing.assert_close(exported("div", dtype)(a, b), wanted)


@pytest.mark.parametrize(
    ("name", "number", "result"),
    [
        ("sqrt", complex(-np.inf, 1), complex(0, np.inf)), ("sqrt", complex(1, -np.inf), complex(np.inf, -np.inf)),
        ("log", complex(-np.inf, 0), complex(np.inf, np.pi)), ("exp", complex(-np.inf, 2), 0j),
        ("asin", complex(np.inf, 0.5), complex(np.pi / 2, np.inf)), ("tanh", complex(np.inf, 1), 1 + 0j),
        ("acos", complex(np.inf, np.inf), complex(np.pi / 4, -np.inf)), ("reciprocal", complex(0.5, np.inf), 0j),
        ("atan", complex(np.inf, 3), complex(np.pi / 2, 0)), ("atanh", 1 + 0j, complex(np.inf, 0)),
        ("abs", complex(-np.inf, 3), np.inf), ("log", 0j, complex(-np.inf, 0)), ("reciprocal", 0j, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_infinities(name: str, number: complex, result: complex | None, dtype: torch.dtype) -> None:
    z = torch.tensor([number], dtype=dtype)
    found = exported(name, dtype)(z)[0].item()
    if result is None:
        assert not np.isfinite(found)
    else:
        np.testing.assert_allclose([np.real(found), np.imag(found)], [np.real(result), np.imag(result)], atol=1e-7)


@pytest.mark.parametrize("name", ["kron", "multi_dot", "chain_matmul"])
def test_products_of_several_are_of_any_sizes(name: str) -> None:
    several: dict[str, Function] = {
        "kron": lambda a, b, c: torch.kron(torch.kron(a, b), c.real),
        "multi_dot": lambda a, b, c: torch.linalg.multi_dot([a, b, c]),
        "chain_matmul": lambda a, b, c: torch.chain_matmul(a, b, c),
    }
    function = several[name]
    names = ({0: "m", 1: "k"}, {0: "k", 1: "n"}, {0: "n"})

    def made(*sizes: int) -> tuple[torch.Tensor, ...]:
        m, k, n = sizes
        return tuple(torch.randn(*size, dtype=torch.complex64) for size in ((m, k), (k, n), (n, 2)))

    program = to_onnx(lambda *z: function(*z), made(3, 4, 5), dynamic_shapes=(names,))
    for given_ in (made(2, 6, 3), made(1, 1, 4), made(4, 2, 1)):
        torch.testing.assert_close(program(*given_), function(*given_))
