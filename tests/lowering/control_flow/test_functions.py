"""Every way of every model, as eager takes it."""

from __future__ import annotations

import copy

import pytest
import torch

import irkit
from lowering.control_flow import rewritten
from lowering.records.torch_internals import pytree
from tests.lowering.control_flow.functions import Case, cases

CASES = cases()


def same(expected, found) -> None:
    """Raises AssertionError where two results differ in structure, type or numbers."""
    expected, found = (pytree.tree_flatten(each) for each in (expected, found))
    assert expected[1] == found[1]
    for one, other in zip(expected[0], found[0], strict=True):
        if not isinstance(one, torch.Tensor):
            assert one == (other.item() if isinstance(other, torch.Tensor) else other)
            continue
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5, equal_nan=True)


def ways(case: Case):
    return [case.example, *(other for other in case.others if case.sizes or fits(case, other))]


def fits(case: Case, other) -> bool:
    return all(a.shape == b.shape for a, b in zip(case.example, other, strict=True))


UNROLLED = ("rows_until", "find_first", "with_else", "search_matrix", "pairs", "clamp_if_large", "Counted")
"""Models whose loops are unrolled where no size varies."""
RUNS = [*((case, True) for case in CASES), *((case, False) for case in CASES if case.name in UNROLLED)]


@pytest.mark.parametrize(
    ("case", "dynamic"), RUNS, ids=[f"{case.name}-{'dynamic' if dynamic else 'static'}" for case, dynamic in RUNS]
)
def test_model_takes_every_way_as_eager_does(case: Case, dynamic: bool) -> None:
    dynamic = dynamic and case.sizes is not None
    shapes = case.sizes if dynamic else None
    program = irkit.to_onnx(case.model, case.example, dynamic_shapes=shapes, capture="direct", rewrite=True)
    assert program.report.capture == "traced directly"
    for given in ways(case):
        if not dynamic and not fits(case, given):
            continue
        same(copy.deepcopy(case.model)(*copy.deepcopy(given)), program(*copy.deepcopy(given)))


@pytest.mark.parametrize("case", [c for c in CASES if not isinstance(c.model, torch.nn.Module)], ids=lambda c: c.name)
def test_rewritten_function_is_the_same_in_eager(case: Case) -> None:
    function = rewritten(case.model)
    assert function.__diff__
    for given in ways(case):
        same(case.model(*copy.deepcopy(given)), function(*copy.deepcopy(given)))


BY_TORCH_EXPORT = ("sign_of_sum", "layers_until_stable", "Clamped")


@pytest.mark.parametrize("case", [c for c in CASES if c.name in BY_TORCH_EXPORT], ids=lambda c: c.name)
def test_torch_export_takes_every_way_too(case: Case) -> None:
    program = irkit.to_onnx(case.model, case.example, capture="torch.export", rewrite=True)
    for given in ways(case):
        if fits(case, given):
            same(case.model(*given), program(*given))
