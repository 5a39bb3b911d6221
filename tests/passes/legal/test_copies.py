"""Results that a file writes as an Identity, of element types that ONNX Runtime copies by a cast."""

from __future__ import annotations

import numpy as np
import pytest

from irkit.build import const, op
from irkit.core.ir import Graph, param
from irkit.core.types import DType, Tensor
from irkit.errors import RewriteError
from irkit.onnx.sessions import session
from passes.preparing.prepare import prepare

NUMBERS = np.array([[1, 0, 1], [1, 1, 0]])


@pytest.mark.parametrize("kind", [DType.INT4, DType.UINT4, DType.INT2, DType.UINT2, DType.FLOAT8E8M0])
@pytest.mark.parametrize("shape", [(2, 3), (3,), (), (0, 3)])
def test_results_that_are_written_as_an_identity_are_cast(kind: DType, shape: tuple[int, ...]) -> None:
    numbers = np.resize(NUMBERS if kind.is_integer else NUMBERS + 1, shape).astype(kind.numpy)
    x, fixed = param(Tensor(kind, shape)), const(numbers)
    graph = Graph((x,), (x, fixed, x, fixed))
    ready = prepare(graph)
    assert prepare(ready) is ready
    for found in session(ready).run([numbers]):
        assert found.dtype == numbers.dtype and found.shape == shape
        np.testing.assert_array_equal(found.astype(np.float32), numbers.astype(np.float32))


def test_what_is_computed_and_what_can_be_copied_stays() -> None:
    x = param(Tensor(DType.INT8, (3,)))
    graph = Graph((x,), (x, op.Cast(x, to=DType.INT4), x))
    assert prepare(graph) is graph


def test_what_cannot_be_cast_is_refused() -> None:
    x = param(Tensor(DType.FLOAT4E2M1, (3,)))
    with pytest.raises(RewriteError, match="Identity cannot run"):
        prepare(Graph((x,), (x,)))
