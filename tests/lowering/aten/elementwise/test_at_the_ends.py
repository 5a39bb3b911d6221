"""Pointwise operators at zeros of both signs, the ends of the floats, infinities and NaN, by a file and by eager.

A sample, and what once failed: `python -m tests.fuzz.special_values` takes all of them (`make special-values`).
"""

from __future__ import annotations

import math

import pytest
import torch

from irkit.doors.to_onnx import to_onnx
from passes.legal.runtime.quirks import QUIRKS
from tests.support.draws import drawn
from tests.support.named_exceptions import EXCEPTIONS, Exceptional, exceptions_of, needs
from tests.support.special_values import OPERATORS, TYPES, Need, differences, unexpected

FAILED = {
    "float32": "log1p special.xlog1py erfinv frexp nextafter special.zeta polygamma.polygamma_n_1 lgamma igamma",
    "float64": "asin asinh atan atanh atan2 log1p erfinv frexp nn.functional.selu sigmoid nn.functional.silu lgamma",
    "float16": "sinc mvlgamma.mvlgamma_p_3",
    "bfloat16": "sinc erfc logaddexp lerp nn.functional.threshold round.decimals_neg_3 addcmul",
}
OF_RUNTIME = frozenset((
    "zero_chosen", "zero_first_added", "zeros_compared", "zero_of_selu", "elu_near_zero", "rough_sigmoid", "rough_tanh",
))  # fmt: skip


def cases() -> list[tuple[str, str, bool]]:
    every = [(name, kind, optimize) for name in OPERATORS for kind in TYPES for optimize in (True, False)]
    pinned = {(name, kind, name < "m") for kind, names in FAILED.items() for name in names.split()}
    return drawn("special values", every, 20, pinned)


@pytest.mark.parametrize(("name", "kind", "optimize"), cases())
def test_special_values_give_what_eager_gives(name: str, kind: str, optimize: bool) -> None:
    assert not unexpected(name, kind, optimize, exceptions_of(name, kind), set())


def test_nan_infinities_signs_and_digits_are_told_apart() -> None:
    want = torch.tensor([0.0, float("nan"), float("inf"), 1.0, -0.0])
    found = torch.tensor([-0.0, 1.0, 1.0, 1.001, -0.0])
    wrong = {
        what: torch.nonzero(where)[:, 0].tolist() for what, where in differences(found, want, want, "float32").items()
    }
    assert wrong == {"nan": [1], "inf": [2], "sign": [0], "far": [3]}


def test_what_the_runtime_does_otherwise_stands_in_its_table() -> None:
    assert {row.name for row in QUIRKS} >= OF_RUNTIME
    assert {each.name for each in EXCEPTIONS} >= OF_RUNTIME


@pytest.mark.parametrize("name", sorted({each.name for each in EXCEPTIONS}))
def test_an_exception_is_needed(name: str) -> None:
    """Else it would hide what fails later: for each of its operators and types something differs."""
    idle = [need for need in needs() if need[0].name == name and not is_needed(*need)]
    assert not [(each.operators, each.what, operator, kind) for each, operator, kind in idle]


def is_needed(each: Exceptional, operator: str, kind: str) -> bool:
    """Whether an exception explains something of an operator and a type."""
    found: set[Need] = set()
    return any((unexpected(operator, kind, optimize, (each,), found), found)[1] for optimize in (True, False))


def test_the_threshold_of_half_numbers_has_the_digits_of_float32() -> None:
    near = torch.tensor([0.1, 0.3, 0.7, 1.0, 1e-7, 0.0, -0.3, 70000.0, -70000.0])
    for kind in (torch.float16, torch.bfloat16):
        x = torch.cat([near.to(kind), torch.nextafter(near.to(kind), torch.tensor(0.0, dtype=kind))])
        for edge in (0.1, 0.3, 0.7, 1 - 1e-12, 1e-8, -1e-8, -0.3, 1e6, -1e6, math.inf):
            args = (torch.zeros(2, dtype=kind),)
            program = to_onnx(
                lambda x, edge=edge: torch.threshold(x, edge, 20.0), args, dynamic_shapes=({0: "n"},), widen=False
            )
            assert torch.equal(program(x), torch.threshold(x, edge, 20.0)), edge


def test_log1p_is_as_good_as_torchs_between_the_special_values() -> None:
    sizes = torch.logspace(-12, 3, 2001, dtype=torch.float64)
    for kind, bound in ((torch.float32, 4e-7), (torch.float64, 1e-15)):
        x = torch.cat([sizes, -sizes[sizes < 0.999], torch.zeros(1), torch.full((1,), math.inf)]).to(kind)
        found = to_onnx(torch.log1p, (x[:3],), dynamic_shapes=({0: "n"},), widen=False)(x)
        torch.testing.assert_close(found.double(), x.double().log1p(), rtol=bound, atol=0.0)


def test_negative_numbers_beside_a_huge_one_have_their_own_zeta() -> None:
    """The turns of its loop are counted from the numbers that need them."""
    x = torch.tensor([-1.5, -3e38, float("nan"), -float("inf"), 2.5, -0.25])
    for kind in ("float32", "float64"):
        args = (x.to(TYPES[kind]),)
        want = torch.special.polygamma(2, args[0])
        program = to_onnx(lambda x: torch.special.polygamma(2, x), args, dynamic_shapes=({0: "n"},), widen=False)
        torch.testing.assert_close(program(*args), want, rtol=1e-5, atol=0.0, equal_nan=True)
        torch.testing.assert_close(program(args[0][:1]), want[:1], rtol=1e-5, atol=0.0)
