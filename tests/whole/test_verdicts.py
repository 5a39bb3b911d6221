"""What a measure accepts where torch and irkit differ: shown to be right, or not at all."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from tests.lowering.aten.oracle import OPS
from tests.tables.coverage.measure import Called
from tests.tables.coverage.verdicts import (
    EQUALS,
    NO_NEARER,
    OFF,
    OFF_THERE_TOO,
    Sampled,
    is_no_nearer,
    sampled,
    unit,
    verdict,
)

BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("theirs", "ours", "exact", "right"),
    [
        (1.0, 1.25, 1.24, True),  # ours is nearer
        (1.25, 1.0, 1.24, False),  # torch's is
        (1.25, 1.0, 1.125, True),  # as near
        (np.nan, 2.0, 2.0001, True),
        (np.nan, 3.0, 2.0, True),  # a number where torch has none
        (2.0, np.nan, 2.0, False),
        (np.inf, 7.64, 7.6406, True),
        (7.64, np.inf, 7.6406, False),
        (6e4, np.inf, 1e6, True),  # what the exact number is as a half
        (6e4, -np.inf, 1e6, False),
        (1.0, np.nan, np.nan, True),
        (0.0, 0.0, 5.0, True),  # the same as torch's
    ],
)
def test_only_what_is_as_near_as_torch(theirs: float, ours: float, exact: float, right: bool) -> None:
    def table(x: float) -> np.ndarray:
        return np.array([1.0, x], np.float16)

    assert is_no_nearer(table(theirs), table(ours), np.array([1.0, exact])) is right


def test_one_unit_in_the_last_place() -> None:
    """Of the exact number: also below the normal numbers, and for each format."""
    assert unit(np.array([1.0, 1.99, 2.0, 1e-8, np.inf]), np.float16).tolist() == [2**-10, 2**-10, 2**-9, 2**-24, 0]
    assert unit(np.array([1.0, 300.0]), BF16).tolist() == [2**-7, 2.0]
    near = np.array([1.0 + 2**-7], BF16)
    assert is_no_nearer(np.array([1.0], BF16), near, np.array([1.0]))
    assert not is_no_nearer(np.array([1.0], BF16), np.array([1.03125], BF16), np.array([1.0]))


def sample_of(name: str, dtype: torch.dtype, number: int = 0) -> Sampled:
    info = OPS[name]
    return sampled(Called(info.name, info.op), list(info.sample_inputs("cpu", dtype, requires_grad=False))[number])


def shown(case: Sampled, change: Any) -> str:
    """The verdict on torch's own results, changed."""
    results = case.model(*case.args)
    return verdict(case, case.args, results, change(results))


def test_places_of_equal_elements() -> None:
    case = sample_of("sort", torch.bfloat16)
    assert shown(case, lambda r: torch.sort(case.args[0], stable=True)) == EQUALS
    assert shown(case, lambda r: (r[0], r[1].flip(0))) == ""
    assert shown(case, lambda r: (r[0], torch.zeros_like(r[1]))) == ""
    assert shown(case, lambda r: (r[0].flip(0), r[1])) == ""
    assert shown(case, lambda r: (r[0], r[1] + 8000)) == ""


def test_halves() -> None:
    """The float64 evaluation decides; float64 itself is never looked at."""
    case = sample_of("sum", torch.float16)
    assert shown(case, lambda r: r.double().half() * 1.5) == ""
    assert case.exact is not None
    exact = case.exact(*(a.double() for a in case.args))
    assert verdict(case, case.args, case.model(*case.args) * 1.5, exact.half()) == NO_NEARER
    double = sample_of("sum", torch.float64)
    assert double.exact is None and shown(double, lambda r: r * 2) == ""


def test_single_precision_only_where_torch_is_off() -> None:
    """Results that agree with the float64 evaluation within the ordinary tolerance, beside torch's that do not."""
    case = sample_of("sum", torch.float32)
    results = case.model(*case.args)
    assert verdict(case, case.args, results * 1.001, results) == OFF
    assert verdict(case, case.args, results, results * 1.001) == ""
    assert verdict(case, case.args, results * 1.001, results * 1.002) == ""


@pytest.mark.parametrize("name", ["special.bessel_j0", "special.bessel_y1"])
def test_double_precision_only_against_more_digits(name: str) -> None:
    """Where torch's own float64 is off, numbers of 30 digits decide; what differs from them stays wrong."""
    case = sample_of(name, torch.float64)
    assert case.exact is not None and case.certain
    exact, theirs = case.exact(*case.args), case.model(*case.args)
    assert verdict(case, case.args, theirs, exact) == OFF_THERE_TOO
    assert verdict(case, case.args, exact, theirs) == ""
    assert verdict(case, case.args, theirs, exact + 1e-6) == ""


def test_images_of_width_one() -> None:
    """torch repeats one row of them; the reference is its result for the image twice beside itself."""
    case = sample_of("_upsample_bilinear2d_aa", torch.float64, 3)
    image = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(1, 1, 8, 1)
    wide = case.model(image.expand(1, 1, 8, 6))
    assert case.exact is not None
    torch.testing.assert_close(case.exact(image), wide[..., :1])
    assert torch.equal(case.exact(wide), case.model(wide))
