"""Signs of zeros, as eager has them: of every float type, of graphs that irkit optimized and of such as it did not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from irkit.doors.to_onnx import to_onnx
from tests.support.draws import drawn

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
TORCH = (
    "abs neg ceil floor round trunc fix frac sign sgn relu square sqrt sin tan asin sinh tanh expm1 erf sigmoid "
    "positive nan_to_num deg2rad rad2deg reciprocal signbit"
)
UNARY: dict[str, Callable[[Tensor], Tensor]] = {name: getattr(torch, name) for name in TORCH.split()}
UNARY |= {
    "hardtanh": torch.nn.functional.hardtanh,
    "hardshrink": torch.nn.functional.hardshrink,
    "times 0": lambda x: x * 0.0,
    "times -0": lambda x: x * -0.0,
    "0 - x": lambda x: 0.0 - x,
    "by 2, trunc": lambda x: torch.div(x, 2, rounding_mode="trunc"),
    "by 2": lambda x: x // 2,
    "by -2": lambda x: x // -2,
    "fmod 2": lambda x: torch.fmod(x, 2),
    "remainder -2": lambda x: x % -2,
    "cubed": lambda x: x**3,
    "clamp at 0": lambda x: x.clamp(0.0),
}
NAMES = "add sub mul div fmod remainder floor_divide copysign atan2 heaviside"
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {name: getattr(torch, name) for name in NAMES.split()}
BINARY["div trunc"] = lambda a, b: torch.div(a, b, rounding_mode="trunc")
KNOWN = frozenset((("asin", torch.float64), ("atan2", torch.float64)))
"""Where ONNX Runtime has no kernel, and what is written instead takes -0.0 for 0.0."""


def numbers(dtype: torch.dtype) -> Tensor:
    """Zeros, ordinary numbers, and the ends of a float type, of both signs."""
    about = torch.finfo(dtype)
    some = [0.0, 0.4, 0.5, 1.0, 1.5, 2.0, float("inf"), about.max, about.tiny]
    return torch.tensor([*some, *(-x for x in some), float("nan")], dtype=dtype)


def is_zero_below(x: Tensor) -> Tensor:
    """Where a tensor is -0.0, or below 0."""
    return torch.signbit(x) & ~x.isnan()


def same_signs(found: Tensor, expected: Tensor) -> Tensor:
    """Where the zeros of two tensors have one sign."""
    zeros = (expected == 0) & (found == 0)
    return ~zeros | (is_zero_below(found) == is_zero_below(expected))


def cases() -> list[tuple[str, torch.dtype]]:
    named = [(name, dtype) for dtype in FLOATS for name in (*UNARY, *BINARY)]
    pinned = {("trunc", torch.float32), ("floor_divide", torch.float16), ("copysign", torch.float32)}
    pinned |= {("atan2", torch.float32), ("erf", torch.float64), ("heaviside", torch.float32)}
    return drawn("signs of zero", [each for each in named if each not in KNOWN], 30, pinned)


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize(("name", "dtype"), cases())
def test_zeros_have_the_sign_that_eager_gives_them(name: str, dtype: torch.dtype, optimize: bool) -> None:
    x = numbers(dtype)
    model: Callable[..., Tensor] = UNARY.get(name) or BINARY[name]
    pairs = torch.cartesian_prod(x, x)
    args = (x,) if name in UNARY else (pairs[:, 0].contiguous(), pairs[:, 1].contiguous())
    program = to_onnx(model, args, dynamic_shapes=tuple({0: "n"} for _ in args), optimize=optimize, widen=False)
    found, expected = program(*args), model(*args)
    if expected.is_floating_point():
        wrong = ~same_signs(found, expected)
        assert not wrong.any(), [tuple(a[wrong].tolist()) for a in args]
    else:
        torch.testing.assert_close(found, expected)


def test_a_wrong_sign_is_reported() -> None:
    assert same_signs(torch.tensor([-0.0, 0.0]), torch.tensor([-0.0, -0.0])).tolist() == [True, False]
