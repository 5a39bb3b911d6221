"""The error function of float64 and what is made of it, against torch, digits of small results included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from irkit.checking.comparison import compare
from irkit.doors.to_onnx import to_onnx

UNIT = np.concatenate(
    [np.linspace(-0.999, 0.999, 301), 10.0 ** np.linspace(-12, -1, 30), [1 - 1e-9, -1 + 1e-12, 0, 1, -1, 2, np.nan]]
)
AREA = np.concatenate([np.linspace(0.001, 0.999, 301), 10.0 ** np.linspace(-200, -3, 60), [0, 1, -1, 2, 0.5, np.nan]])
LINE = np.concatenate([np.linspace(-20, 24, 401), 10.0 ** np.linspace(-12, 0, 30), [np.nan, 0.0, np.inf]])


def test_small_areas_of_float32_keep_their_digits() -> None:
    x = torch.tensor([1e-38, 1e-30, 1e-10, 1e-7, 0.5, 1 - 6e-8, 0.0, -0.0, -1e-30, -1e-10, -1.0, 1.0, 2.0, torch.nan])
    program = to_onnx(torch.special.ndtri, (torch.full((14,), 0.25),))
    torch.testing.assert_close(program(x), torch.special.ndtri(x), rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "data", "rtol"),
    [("erfinv", UNIT, 1e-13), ("ndtri", AREA, 1e-13), ("erfc", LINE, 3e-13), ("ndtr", LINE, 3e-13),
     ("log_ndtr", LINE, 1e-12), ("erfcx", LINE, 3e-13)],
)  # fmt: skip
def test_float64_keeps_its_digits(name: str, data: np.ndarray, rtol: float) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return getattr(torch.special, name)(x)

    x = torch.from_numpy(data)
    program = to_onnx(Model(), (x,))
    expected = Model()(x).numpy()
    # torch adds 1 to erf, which leaves no digits of small areas.
    difference = compare((expected,), (np.asarray(program(x)),), rtol=rtol, atol=3e-16 if name == "ndtr" else 1e-300)
    assert difference is None, difference
