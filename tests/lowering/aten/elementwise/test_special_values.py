"""Elementwise converters on zeros of both signs, tiny and huge numbers, infinities and NaN."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.lowering.aten.harness import check, eager, lowered, run_onnx

INF, NAN = float("inf"), float("nan")
VALUES = torch.tensor(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        1e-8,
        -1e-8,
        1e-20,
        20.0,
        -20.0,
        88.0,
        -88.0,
        100.0,
        -100.0,
        9.0,
        10.0,
        1e5,
        -1e5,
        0.1,
        0.9999999,
        -0.9999999,
        3e38,
        -3e38,
        INF,
        -INF,
        NAN,
    ]
)

UNARY_NAMES = (
    "abs neg signbit floor ceil trunc round frac exp exp2 expm1 log log2 log10 log1p sin cos atan sinh cosh tanh asinh "
    "acosh atanh asin acos erf sqrt rsqrt reciprocal square isnan isinf isfinite isposinf isneginf nan_to_num deg2rad "
    "erfinv logit"
)
UNARY: dict[str, Callable[..., Any]] = {name: getattr(torch, name) for name in UNARY_NAMES.split()}
UNARY |= {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "leaky_relu": F.leaky_relu,
    "softshrink": F.softshrink,
    "hardshrink": F.hardshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 20.0),
    "logsigmoid": F.logsigmoid,
    "softplus": F.softplus,
    "softplus_2_5": lambda x: F.softplus(x, 2.0, 5.0),
    "softsign": F.softsign,
    "mish": F.mish,
    "clamp": lambda x: x.clamp(-0.7, 0.8),
    "clamp_min": lambda x: x.clamp(min=0.0),
    "clamp_max": lambda x: x.clamp(max=0.5),
    "clamp_min_5": lambda x: x.clamp(min=-5.0),
    "erfc": torch.erfc,
    "round_2": lambda x: x.round(decimals=2),
    "square_root": lambda x: x**0.5,
    "cube": lambda x: x**3,
    "inverse": lambda x: x**-1,
    "inverse_root": lambda x: x**-0.5,
    "power": lambda x: x**1.5,
    "two_to": lambda x: 2**x,
    "entr": torch.special.entr,
    "ndtr": torch.special.ndtr,
    "log_ndtr": torch.special.log_ndtr,
    "erfcx": torch.special.erfcx,
    "elu": F.elu,
    "celu": lambda x: F.celu(x, 2.0),
    "selu": F.selu,
    "nan_to_num_3": lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0),
}
ABSOLUTE = {"elu": 2e-8, "celu": 2e-8, "selu": 2e-8, "logsigmoid": 1e-7}
"""Where ONNX Runtime's kernel is accurate in absolute terms only."""

BINARY_NAMES = (
    "add sub mul div maximum minimum fmax fmin atan2 hypot copysign logaddexp xlogy heaviside eq ne lt le gt ge pow "
    "isclose"
)
BINARY: dict[str, Callable[..., Any]] = {name: getattr(torch, name) for name in BINARY_NAMES.split()}
BINARY |= {
    "divided_towards_zero": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "clamp_tensor": lambda a, b: torch.clamp(a, min=b),
    "clamp_tensors": lambda a, b: torch.clamp(a, b, b + 1),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "logsumexp": lambda a, b: torch.logsumexp(torch.stack([a, b]), 0),
    "cummax": lambda a, b: torch.stack([a, b]).cummax(0)[0],
}
MODERATE = {"fmod": torch.fmod, "remainder": torch.remainder, "floor_divide": torch.floor_divide}
"""Where torch and C++ disagree about quotients beyond what a float can hold."""


def agree(function: Callable[..., Any], *args: torch.Tensor, atol: float = 1e-30) -> None:
    """Fails where an element is further off than 1e-5 of its size, or NaN or infinite in one result only."""
    (want,), (got,) = eager(function, *args), run_onnx(lowered(function, *args).graph, list(args))
    assert got.dtype == want.dtype and got.shape == want.shape
    off = ~np.isclose(got, want, rtol=1e-5, atol=atol, equal_nan=True)
    shown = [(*(a.ravel()[i].item() for a in args), want.ravel()[i], got.ravel()[i]) for i in np.flatnonzero(off)]
    assert shown == []


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    agree(UNARY[name], VALUES, atol=ABSOLUTE.get(name, 1e-30))


def pairs(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Every pair of the values."""
    return values[:, None].expand(-1, len(values)).contiguous(), values.expand(len(values), -1).contiguous()


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    agree(BINARY[name], *pairs(VALUES))


@pytest.mark.parametrize("name", MODERATE)
def test_division_with_remainder(name: str) -> None:
    moderate = VALUES[(VALUES.abs() < 1e6) & ((VALUES.abs() > 1e-2) | (VALUES == 0))]
    agree(MODERATE[name], *pairs(torch.cat([moderate, torch.tensor([INF, -INF, NAN])])))


def test_one_over_a_tenth_is_nine_whole_tenths() -> None:
    agree(torch.floor_divide, torch.tensor([1.0, 0.3, -1.0]), torch.tensor([0.1, 0.1, 0.1]))


@pytest.mark.parametrize("kind", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8])
def test_whole_division_of_extremes(kind: torch.dtype) -> None:
    info = torch.iinfo(kind)
    values = torch.tensor([info.min, info.min + 1, 0, 1, 2, 7, info.max - 1, info.max], dtype=kind)
    signed = [-2, -3, info.min] if info.min else []
    divisors = torch.tensor([1, 2, 3, 7, info.max, *signed], dtype=kind)
    a, b = values[:, None].expand(-1, len(divisors)).contiguous(), divisors.expand(len(values), -1).contiguous()
    agree(torch.floor_divide, a, b)
    agree(torch.remainder, a, b)
    agree(lambda x, y: torch.div(x, y, rounding_mode="trunc"), a, b)
    for divisor in (3, *signed[1:2]):
        agree(lambda x, by=divisor: x // by, values)


@pytest.mark.parametrize("kind", [torch.int32, torch.int64, torch.uint8])
def test_rows_of_whole_numbers(kind: torch.dtype) -> None:
    """Where a step meets a whole number but for rounding, one rounding more or less decides what is cut off."""
    rows = [(36, 48, 41), (20, 92, 34), (90, 15, 37), (0, 255, 1), (7, 3, 2), (3, 250, 60)]
    agree(lambda x: torch.cat([torch.linspace(*row, dtype=kind) for row in rows]), torch.zeros(1))
    agree(lambda x: torch.linspace(100, 15, x.shape[0], dtype=kind), torch.zeros(37))
    if kind is not torch.uint8:
        moved = [(a - 56, b - 96, n) for a, b, n in rows]
        agree(lambda x: torch.cat([torch.linspace(*row, dtype=kind) for row in moved]), torch.zeros(1))


@pytest.mark.parametrize("kind", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("exponent", [0.5, -0.5])
def test_roots_as_powers(kind: torch.dtype, exponent: float) -> None:
    """torch takes them as powers in f16, where those of -inf and -0.0 are inf and 0, and as roots elsewhere."""
    x = torch.tensor([-INF, INF, -0.0, 0.0, -1.0, 4.0, 6e-8, 60000.0, NAN], dtype=kind)
    agree(lambda x: torch.cat([x**exponent, 1 / x**exponent]), x)


@pytest.mark.parametrize("kind", [torch.int8, torch.int32, torch.int64, torch.uint8])
def test_shifts_of_extremes(kind: torch.dtype) -> None:
    info = torch.iinfo(kind)
    values = torch.tensor([info.min, info.min + 1, 0, 1, 5, info.max] + ([-1, -7] if info.min else []), dtype=kind)
    counts = torch.arange(info.bits, dtype=kind)
    a, b = values[:, None].expand(-1, len(counts)).contiguous(), counts.expand(len(values), -1).contiguous()
    agree(torch.bitwise_left_shift, a, b)
    agree(torch.bitwise_right_shift, a, b)


FAR = torch.randint(-(2**62), 2**62, (3, 4, 5), generator=torch.Generator().manual_seed(0))
WHOLE: dict[str, Callable[..., Any]] = {
    "sum": lambda x: x.sum(), "sum_of_rows": lambda x: x.sum((0, 2), keepdim=True), "prod": lambda x: x.prod(),
    "prod_of_rows": lambda x: x.prod(1), "prod_kept": lambda x: x.prod(-1, keepdim=True),
    "sum_i32": lambda x: x.int().sum(0, dtype=torch.int32), "prod_i32": lambda x: x.int().prod(0, dtype=torch.int32),
    "prod_u8": lambda x: x.to(torch.uint8).prod(1), "trace": lambda x: x[0].trace(), "fmod": lambda x: x.fmod(7),
    "fmod_negative": lambda x: x.fmod(-(2**40) - 1), "remainder": lambda x: x.remainder(-7),
    "matmul": lambda x: x[0] @ x[0].T, "dot": lambda x: torch.dot(x[0, 0], x[0, 1]), "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1), "diff": lambda x: x.diff(), "hash": torch.hash_tensor,
    "hash_of_rows": lambda x: torch.hash_tensor(x, (0, 2), keepdim=True),
    "hash_of_floats": lambda x: torch.hash_tensor(x.float()), "hash_of_bools": lambda x: torch.hash_tensor(x > 0),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_beyond_the_53_bits_of_a_float(name: str) -> None:
    check(WHOLE[name], FAR)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_neighbours_of_numbers_of_every_width(kind: torch.dtype) -> None:
    wide = torch.promote_types(kind, torch.float32)
    values = torch.tensor([0.0, -0.0, 1.0, -1.0, 1.5, 2.0**-14, -3.0e4, INF, -INF, NAN]).to(kind).to(wide)
    check(lambda a, b: torch.nextafter(a.to(kind), b.to(kind)).to(wide), *pairs(values))


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.uint8])
def test_powers_of_whole_numbers(kind: torch.dtype) -> None:
    """They wrap around; a negative exponent gives the whole part."""
    bases = torch.tensor([0, 1, -1, 2, -2, 3, 7, -7, 10, 2**31, 2**40 + 1]).to(kind)
    exponents = torch.tensor([0, 1, 2, 3, 5, 22, 62, 63, *([-1, -2, -3] if kind.is_signed else [])]).to(kind)
    check(torch.pow, bases[:, None], exponents)
    for exponent in (0, 1, 2, 3, 5, 22, 63):
        check(lambda x, e=exponent: x**e, bases)
    check(lambda e: 2**e, torch.tensor([0, 1, 5, 7]).to(kind))


BORDERS = torch.tensor(
    [
        0,
        1,
        -1,
        2**31 - 1,
        2**31,
        2**32 - 1,
        2**32,
        2**32 + 2**31 + 3,
        -(2**31),
        -(2**31) - 1,
        -(2**32),
        5,
        2**62 + 2**31,
        2**63 - 1,
        -(2**63),
    ]
)
ORDER: dict[str, Callable[..., Any]] = {
    "maximum": torch.maximum, "minimum": torch.minimum, "clamp": lambda a, b: a.clamp(0, 10) + b.clamp(min=3),
    "clamp_between": lambda a, b: a.clamp(b, b + 7), "amax": lambda a, b: torch.stack([a, b]).amax(0),
    "amin": lambda a, b: b.amin(1), "amin_of_all": lambda a, b: b.amin(), "max_of_rows": lambda a, b: b.max(1)[0],
    "sort": lambda a, b: b.sort(1)[0], "relu": lambda a, b: a.relu(), "sign": lambda a, b: a.sign(),
    "cummin": lambda a, b: b.cummin(1)[0], "argmin": lambda a, b: b.argmin(1), "less": torch.lt,
    "abs": lambda a, b: a.abs(),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDER)
def test_order_of_whole_numbers_beyond_32_bits(name: str) -> None:
    check(ORDER[name], *pairs(BORDERS))


# ---------------------------------------------------------------------------------------------- NaN in extremes

EXTREMES: dict[str, Callable[..., Any]] = {
    "amax": lambda x: [x.amax(i) for i in range(2)], "amin": lambda x: [x.amin(i, keepdim=True) for i in range(2)],
    "amax of all": lambda x: x.amax(), "max": lambda x: x.max(), "min": lambda x: x.min(),
    "max along": lambda x: [*x.max(0), *x.max(1)], "min along": lambda x: [*x.min(0, True), *x.min(1, True)],
    "argmax": lambda x: [x.argmax(), x.argmax(0), x.argmax(1, keepdim=True)],
    "argmin": lambda x: [x.argmin(), x.argmin(0), x.argmin(1)], "aminmax": lambda x: [*x.aminmax(dim=1)],
    "norm": lambda x: [x.norm(INF, 1), x.norm(-INF, 0)],
}  # fmt: skip


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_keep_nan(name: str, kind: torch.dtype) -> None:
    """Of rows and columns with NaN at the beginning, in the middle, at the end, everywhere and nowhere."""
    for width in (3, 40):
        x = torch.linspace(-1, 1, 6 * width).reshape(width, 6).T.contiguous()
        x[0, 0], x[1, 1], x[2, -1], x[3, :] = NAN, NAN, NAN, NAN
        x[0, 1], x[2, 0] = INF, -INF
        check(EXTREMES[name], x.to(kind))
        check(EXTREMES[name], x[4:].to(kind))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("low", [NAN, 0.0])
@pytest.mark.parametrize("high", [NAN, 1.0])
def test_a_bound_that_is_nan(dtype: torch.dtype, low: float, high: float) -> None:
    """Everything is NaN then, be the bound a number, a tensor of one, or of many."""
    x = torch.tensor([-2.0, 0.5, 3.0, NAN, INF], dtype=dtype)
    bounds = torch.tensor(low, dtype=dtype), torch.tensor(high, dtype=dtype)
    check(lambda x: torch.clamp(x, low, high), x)
    check(torch.clamp, x, *bounds)
    check(torch.clamp, x, *(b.expand(5).clone() for b in bounds))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_multiples_beyond_the_type(dtype: torch.dtype) -> None:
    """torch takes the size of a product of 8 or 16 bits before it cuts it back."""
    top = torch.iinfo(dtype).max
    factors = [3, 4, 6, 0] if dtype.itemsize > 2 else [2, 3, 5, 0]
    check(
        torch.lcm,
        torch.tensor([top if dtype.itemsize < 4 else 7, 15, -4, 9], dtype=dtype),
        torch.tensor(factors, dtype=dtype),
    )


SUMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda x: x.sum(1),
    "cumsum": lambda x: x.cumsum(1)[:, 0],
    "norm": lambda x: torch.linalg.vector_norm(x, dim=1),
}


@pytest.mark.parametrize("name", SUMS)
def test_the_sign_of_a_sum_of_zeros(name: str) -> None:
    """torch adds to 0, and ONNX Runtime to the first number: a sum of -0 has another sign there."""
    x = torch.tensor(list(itertools.product((0.0, -0.0, 1.0, -1.0), repeat=3)))
    for function in (
        lambda x: torch.signbit(SUMS[name](x)),
        lambda x: torch.copysign(x[:, 0], SUMS[name](x)),
        lambda x: torch.atan2(x[:, 0], SUMS[name](x)),
        lambda x: torch.atan2(SUMS[name](x), SUMS["sum"](x.roll(1, 0))),
    ):
        check(function, x)


def test_the_angle_of_an_edge_from_a_point_to_itself() -> None:
    """As torch_geometric's PPFConv takes it, of vectors that are zero."""

    def angle(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.atan2(torch.cross(x, y, dim=1).norm(p=2, dim=1), (x * y).sum(dim=1))

    x = -torch.rand(4, 3, generator=torch.Generator().manual_seed(0)) - 0.1
    check(angle, x, torch.tensor([[0.0] * 3, [1.0, 2.0, 3.0], [-0.0] * 3, [-1.0, 0.0, 0.0]]))
