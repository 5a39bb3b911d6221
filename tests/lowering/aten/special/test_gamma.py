"""The incomplete gamma functions against mpmath, to the bound that their module states."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch

from tests.lowering.aten.harness import check, lowered, run_onnx

BOUND = 1e-12


def grid() -> tuple[np.ndarray, np.ndarray]:
    """Pairs (a, x): every region, their borders, and both sides of the peak."""
    rng = np.random.default_rng(0)
    a = np.concatenate([rng.uniform(0, 22, 60), 10 ** rng.uniform(-6, 4, 60), [20.0, 20.0, 20.0000001, 1e-300, 1.0]])
    near = a[:90] * np.maximum(0.01, 1 + rng.normal(size=90) * 2 / np.sqrt(a[:90]))
    x = np.concatenate([near, rng.uniform(0, 60, 30), [20.0, 21.0, 20.0, 0.5, 2.0]])
    return a, x


@pytest.mark.parametrize("upper", [False, True])
def test_error_bound(upper: bool) -> None:
    a, x = grid()
    function = torch.special.gammaincc if upper else torch.special.gammainc
    given = torch.tensor(a), torch.tensor(x)
    (got,) = run_onnx(lowered(function, *given).graph, given)
    ends = (lambda t: (t, mpmath.inf)) if upper else (lambda t: (0, t))
    with mpmath.workdps(30):
        want = np.array([float(mpmath.gammainc(p, *ends(q), regularized=True)) for p, q in zip(a, x, strict=True)])
    assert np.abs(got - want).max() < BOUND


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", [torch.special.gammainc, torch.special.gammaincc])
def test_other_types_and_special_values(function: torch._ops.OpOverloadPacket, kind: torch.dtype) -> None:
    values = torch.tensor([0.0, -0.0, 0.25, 1.0, 3.0, 19.0, 25.0, 150.0, -1.0, math.inf, -math.inf, math.nan])

    def cast(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return function(a.to(kind), x.to(kind)).to(torch.promote_types(kind, torch.float32))

    check(cast, values[:, None], values)
    check(cast, torch.zeros(0, 3), torch.ones(3))
