"""Sizes 0 and 1 at which eager raises: the program refuses them too, operator by operator of torch's database."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch

from irkit.errors import IrkitError
from lowering.program.check import allowed, raised, resized, traced_sizes
from lowering.program.program import Program
from tests.tables.coverage.measure import Key, cases_of, exported

ONES = ("nn.functional.interpolate.nearest", "nn.functional.interpolate.bilinear", "nn.functional.conv_transpose2d",
        "nn.functional.multilabel_margin_loss", "nn.functional.ctc_loss")  # fmt: skip


def answered(program: Program) -> Iterator[str]:
    """Every assignment of 0 or 1 to a dimension at which torch refuses sizes, whatever they hold, and the program
    does not."""
    traced = traced_sizes(program)
    for name in traced:
        for size in (0, 1):
            sizes = {**traced, name: size}
            if sizes == traced or not allowed(program.graph, sizes):
                continue
            args, kwargs = resized(program, sizes, None)
            error = raised(program, args, kwargs)
            why = "" if error is None else f"{type(error).__name__}: {error}"
            if not why or why.startswith("IndexError: index") or "to have value" in why:  # what a tensor holds
                continue
            try:
                program(*args, **kwargs)
            except IrkitError:
                continue
            yield f"{sizes}: {why}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ONES)
def test_where_eager_refuses_a_size_so_does_the_program(name: str) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = list(cases_of(Key(name, "float32", "dynamic")))[3]
        assert list(answered(exported(case, True))) == []
