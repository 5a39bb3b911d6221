"""Numbers at which ONNX Runtime's kernels, or their float32 attributes, part with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

import irkit
from irkit.onnx.sessions import session
from passes import optimize, prepare
from passes.legal.runtime.division import is_kept_off, is_size

ODD = torch.tensor([float("nan"), -1.0, 2.0, float("inf"), float("-inf"), -0.0, 0.0, 3e-4])
WHOLE = torch.tensor([2, 3, -1, 0, 1, -2, 5, 7])
EXPONENTS = torch.tensor([0, 1, 62, 63, 64, 65, 127, 128, 200, 1000, 2**31, 2**62 + 1])
TINY = torch.tensor([6e-8, -6e-8, 1.2e-7, 6e-5, 6.01e-5, -6.1e-5, 0.5, float("nan"), -0.0])
LEAST = torch.tensor([-(2**63), 5, -7, -(2**63)])
TURNED = torch.tensor([-1, -1, 3, 2])
SHIFTS = torch.tensor([0, 1, 63, 64, -1, -64, 100, 3])

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "relu written out, of NaN": (lambda x: torch.where(x > 0, x, 0.0), (ODD,)),
    "the same from 0 on": (lambda x: torch.where(x >= 0, x, 0.0), (ODD,)),
    "a power above 63": (lambda x: (x**64, x**65, x**127), (WHOLE,)),
    "a power above 127": (lambda x: (x**128, x**200, x**1001, x.int() ** 128, x.byte() ** 200), (WHOLE,)),
    "powers in a tensor": (lambda x, n: (x[:, None] ** n, 3**n, x[:, None].int() ** n.int()), (WHOLE, EXPONENTS)),
    "powers in a tensor of bytes": (lambda x, n: x.to(torch.int8)[:, None] ** n.to(torch.int8), (WHOLE, EXPONENTS[:7])),
    "small powers in a tensor": (lambda x, n: x[:, None] ** (n % 9), (WHOLE, EXPONENTS)),
    "softshrink of bfloat16": (lambda x: torch.nn.functional.softshrink(x, 6e-5), (TINY.bfloat16(),)),
    "softshrink of float16": (lambda x: torch.nn.functional.softshrink(x, 5.96e-8), (TINY.half(),)),
    "a power that is 0 in float32": (lambda x: (x**1e-300, x**-1e-300), (ODD,)),
    "celu of a large alpha": (lambda x: (torch.celu(x, 1e10), torch.celu(x, 70000.0)), (ODD,)),
    "elu in float64": (lambda x: torch.nn.functional.elu(x, 1.1), (ODD.double(),)),
    "shifts by any number": (lambda x, n: (x << n, x >> n, x << -1, x >> -5), (WHOLE, SHIFTS)),
    "ldexp down": (lambda x: torch.ldexp(x, torch.full((8,), -150)), (ODD,)),
    "ldexp up": (lambda x: torch.ldexp(x, torch.full((8,), 1100)), (ODD,)),
    "ldexp in float64": (lambda x: torch.ldexp(x, torch.full((8,), -1030)), (ODD.double(),)),
    "lerp of half numbers": (lambda x: torch.lerp(x, x + 1, 70000.0), (ODD[5:].half(),)),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_at_the_ends_are_torchs(name: str) -> None:
    function, args = CASES[name]
    found, expected = irkit.to_onnx(function, args)(*args), function(*args)
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", (torch.int8, torch.int16, torch.int32, torch.int64))
def test_the_least_number_by_minus_one_ends_no_process(dtype: torch.dtype) -> None:
    least = torch.iinfo(dtype).min
    x, y = LEAST.clamp(least).to(dtype), TURNED.to(dtype)
    program = irkit.to_onnx(
        lambda x, y: (x % y, torch.fmod(x, y), x // y, torch.div(x, y, rounding_mode="trunc")), (x, y)
    )
    found = [part.tolist() for part in program(x, y)]
    half = least // 2
    assert found == [[0, 0, 2, 0], [0, 0, -1, 0], [least, -5, -3, half], [least, -5, -2, half]]


@pytest.mark.parametrize("dtype", (torch.int8, torch.uint8, torch.int32, torch.int64))
@pytest.mark.parametrize("how", ("floor", "trunc", "remainder", "fmod"))
def test_integers_are_not_divided_by_0(how: str, dtype: torch.dtype) -> None:
    """eager raises; ONNX Runtime's Div ends the process."""

    def divided(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.div(x, y, rounding_mode=how) if how in ("floor", "trunc") else getattr(torch, how)(x, y)

    x, y = torch.tensor([5, 7, 0], dtype=dtype), torch.tensor([1, 2, 3], dtype=dtype)
    program = irkit.to_onnx(divided, (x, y))
    torch.testing.assert_close(program(x, y), divided(x, y))
    with pytest.raises(RuntimeError):
        divided(x, y * 0)
    with pytest.raises(irkit.ContractError, match="no integer is divided by 0"):
        program(x, y * 0)


@pytest.mark.parametrize("dtype", ("i8", "u8", "i32", "i64"))
@pytest.mark.parametrize("name", ("Div", "Mod"))
def test_a_bare_file_refuses_to_divide_integers_by_0(name: str, dtype: str) -> None:
    x, y = irkit.param(irkit.tensor(dtype, 3)), irkit.param(irkit.tensor(dtype, 3))
    graph = irkit.Graph((x, y), (getattr(irkit.op, name)(x, y),))
    ran = session(prepare(graph, "onnxruntime-cpu"))
    kind, expected = x.dtype.numpy, [2, 1, 1] if name == "Div" else [1, 3, 4]
    for divisor in ((1, 0, 3), (0, 0, 0)):
        with pytest.raises(Fail, match=r"Integer (division|modulo) by zero"):
            ran.run((np.array([5, 7, 9], kind), np.array(divisor, kind)))
    assert ran.run((np.array([5, 7, 9], kind), np.array([2, 4, 5], kind)))[0].tolist() == expected


@pytest.mark.parametrize("name", ("Div", "Mod"))
def test_constants_divided_by_0_are_not_computed(name: str) -> None:
    x = irkit.param(irkit.tensor("i32", 2))
    made = getattr(irkit.op, name)(irkit.const(np.array([5, 3], np.int32)), irkit.const(np.array([0, 2], np.int32)))
    ready = prepare(optimize(irkit.Graph((x,), (irkit.op.Add(made, x),))), "onnxruntime-cpu")
    with pytest.raises(Fail, match=r"Integer (division|modulo) by zero"):
        session(ready).run((np.array([1, 2], np.int32),))


def test_a_divisor_is_known_by_what_is_asked_of_it() -> None:
    x, y = irkit.param(irkit.tensor("i32", 3)), irkit.param(irkit.tensor("i32", 3))
    none, minus, five = (irkit.op.Equal(y, irkit.const(n, "i32")) for n in (0, -1, 5))
    one = irkit.const(1, "i32")
    safe = irkit.op.Where(irkit.op.Or(none, minus), one, y)
    assert is_kept_off(safe, 0) and is_kept_off(safe, -1) and not is_kept_off(safe, 5)
    assert not is_kept_off(irkit.op.Where(five, one, y), 0)
    assert not is_kept_off(irkit.op.Where(none, irkit.const(0, "i32"), y), 0)
    assert not is_kept_off(irkit.op.Where(none, one, x), 0)
    sizes = irkit.param(irkit.tensor("f32", "n"))
    assert is_size(irkit.op.Shape(sizes)) and not is_size(y)


def test_a_divisor_that_is_a_size_or_a_number_is_not_checked() -> None:
    program = irkit.to_onnx(lambda x: (x // x.shape[0], x % 3), (torch.arange(4),), dynamic_shapes=({0: "n"},))
    assert program.checks == ()


def test_an_exponent_that_the_type_does_not_hold_is_refused() -> None:
    with pytest.raises(RuntimeError):
        torch.pow(torch.ones(2, dtype=torch.int8), 128)
    with pytest.raises(irkit.IrkitError, match=r"128 does not fit i8|to type int8_t without overflow"):
        irkit.to_onnx(lambda x: x**128, (torch.ones(2, dtype=torch.int8),))
