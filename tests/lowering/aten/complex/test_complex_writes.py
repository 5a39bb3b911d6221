"""Complex tensors written through views of them and of their parts, and carried through branches and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from irkit.doors.to_onnx import to_onnx

pytestmark = pytest.mark.filterwarnings("ignore")

Tensor = torch.Tensor


def whole(z: Tensor, x: Tensor) -> Tensor:
    z = z.clone()
    z.add_(1j)
    z[0] = 2
    z[:, 1:3].mul_(x[:, 1:3])
    z.t()[0].fill_(1 + 2j)
    z[:, ::2] = 0
    return z


def real_part(z: Tensor, x: Tensor) -> Tensor:
    z = z.clone()
    z.real.mul_(2)
    z.imag[:, 0] = 5
    torch.view_as_real(z)[..., 1].add_(x)
    return z


def conjugate(z: Tensor, x: Tensor) -> Tensor:
    y = torch.zeros(3, 4, dtype=torch.complex64)
    y[1] = z[1]
    y[0, 2] = x[0, 0]
    y.conj()[2] = z[2]
    y.conj().imag[0] = 3
    return y


def masked(z: Tensor, x: Tensor) -> Tensor:
    z = z.clone()
    z[x > 0] = 0
    z.masked_fill_(x < -1, 3j)
    z.diagonal().copy_(z[0, 0])
    return z


def pairs(z: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    x = torch.stack([x, x], -1).clone()
    w = torch.view_as_complex(x)
    w.mul_(1j)
    w[0] = z[0]
    return x, w


def given(z: Tensor, x: Tensor) -> Tensor:
    z.mul_(2j)
    return z.sum()


def out(z: Tensor, x: Tensor) -> Tensor:
    made = torch.empty_like(z)
    torch.mul(z, z, out=made)
    return made


def branch(z: Tensor, x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda z, x: (z * 2j, x), lambda z, x: (z + x, x * 2), (z, x))


def running(z: Tensor, x: Tensor) -> Any:
    return scan(lambda state, row: (state * row, state + row), z[0], z)


def loop(z: Tensor, x: Tensor) -> Any:
    return while_loop(lambda i, z: z.abs().sum() < 1000, lambda i, z: (i + 1, z * (1 + 1j)), (torch.tensor(0), z))


@pytest.mark.parametrize(
    "function",
    [whole, real_part, conjugate, masked, pairs, given, out, branch, running, loop],
    ids=lambda f: f.__name__,
)
def test_complex_tensors_are_written_and_carried(function: Callable[..., Any]) -> None:
    for sign in (1, -1):
        z, x = torch.randn(3, 4, dtype=torch.complex64), sign * torch.rand(3, 4) * 2
        report = to_onnx(function, (z, x)).check()
        assert report, report
