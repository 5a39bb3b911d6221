"""Cells of torch's databases that direct capture once failed on, and a draw of the others; `make coverage` runs all."""

from __future__ import annotations

import attrs
import pytest

from tests.support.draws import drawn
from tests.tables.coverage.databases import cells, measured
from tests.tables.coverage.measure import DTYPES, Key

ONCE_FAILED = """
    cov float32 dynamic
    lu_unpack float32 dynamic
    linalg.lstsq float32 dynamic
    native_batch_norm float16 dynamic
    native_layer_norm bfloat16 static
    nn.functional.pad.circular float32 dynamic
    nn.functional.multilabel_margin_loss float32 dynamic
    resize_ int32 dynamic
    resize_as_ float32 dynamic
    take_along_dim int64 dynamic
    tensor_split bool static
    linalg.ldl_solve complex64 dynamic
    nn.functional.conv_transpose1d float16 dynamic
    unique_consecutive float32 dynamic
    unique_consecutive bool static
    modules:nn.FractionalMaxPool3d.eval float32 dynamic
    modules:nn.MultiLabelMarginLoss.train float32 dynamic
"""
FEW = 3
"""Samples of a cell that are looked at."""


def pinned() -> list[Key]:
    """The cells that once failed."""
    return [Key(*line.split(), capture="direct") for line in ONCE_FAILED.strip().splitlines()]


def text_of(key: Key) -> str:
    """A cell as it stands above."""
    return f"{key.op} {key.dtype} {key.mode}"


def chosen() -> list[Key]:
    """The pinned cells and some of the others."""
    every = (attrs.evolve(key, capture="direct") for key in cells(tuple(DTYPES), names=("operators", "modules")))
    return drawn("cells captured directly", list(dict.fromkeys(every)), 16, pinned(), text_of)


@pytest.mark.parametrize("key", chosen(), ids=text_of)
def test_operators_of_torchs_database_are_captured_directly(key: Key) -> None:
    found = measured(key, FEW)
    assert found.outcome != "fail", found


@pytest.mark.parametrize("op", ["corrcoef", "cov", "geqrf"])
def test_operators_that_torch_does_not_trace_are_captured_by_torch_export_too(op: str) -> None:
    found = measured(Key(op, "float32", "dynamic", capture="torch.export"), FEW)
    assert found.outcome == "pass", found
