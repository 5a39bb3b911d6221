"""What irkit writes gives the same on ONNX Runtime with its optimizations and without: a few draws of each source of
`make fuzz-optimized`, and what it found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import irkit
from irkit import dims
from irkit.build import op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import tensor
from irkit.onnx.writing.materialize import materialize_dims
from passes import optimize, prepare
from tests.fuzz.evaluated_runs import PLAIN
from tests.fuzz.evaluated_runs import lot as evaluated_lot
from tests.fuzz.optimized_runs import SOURCES, between, faults

DRAWS = {"typed": 25, "chained": 80, "sampled": 30, "noded": 25, "torch": 2}
"""How many draws of each source are taken here."""


@pytest.mark.parametrize("source", SOURCES)
def test_optimizations_of_the_runtime_change_nothing(source: str) -> None:
    counts: list[int] = []
    assert list(faults(source, range(DRAWS[source]), counts.append)) == []
    assert len([each for each in counts if each]) >= DRAWS[source] // 3  # else nothing was compared


@pytest.mark.parametrize("source", PLAIN)
def test_the_evaluator_computes_what_the_runtime_does(source: str) -> None:
    assert evaluated_lot((source, 0), lambda where: None)["what"] == {}


# ---------------------------------------------------------------------------------------------- places that count


def size_of(x: Value) -> Value:
    """The size of the first axis."""
    return op.Squeeze(op.Shape(x, start=0, end=1), [0])


def reversed_rows(x: Value) -> Value:
    """Places from the last to the first."""
    return op.Range(op.Sub(size_of(x), 1), np.array(-1), np.array(-1))


def rows_from_behind(x: Value) -> Value:
    """Places counted from the end."""
    return op.Range(op.Neg(size_of(x)), np.array(0), np.array(1))


def wrapped_rows(x: Value) -> Value:
    """0, and then the others from the last on."""
    return op.Range(np.array(0), op.Neg(size_of(x)), np.array(-1))


def less_all(x: Value) -> Value:
    """A difference, which `optimize` makes a Range of."""
    return op.Sub(op.Range(np.array(0), size_of(x), np.array(1)), size_of(x))


@pytest.mark.parametrize("places", [reversed_rows, rows_from_behind, wrapped_rows, less_all])
@pytest.mark.parametrize("axis", [0, -2])
def test_rows_at_places_that_count_downwards_or_below_zero(places: Any, axis: int) -> None:
    x = param(tensor("f32", "n", 4))
    graph = Graph((x,), (op.Gather(x, places(x), axis=axis),))
    feeds = [[np.arange(4 * n, dtype=np.float32).reshape(n, 4)] for n in (3, 1, 0, 7)]
    for level in (0, 1, 2):
        ready = prepare(optimize(graph, level))
        assert between(ready, feeds) == ""
        for arrays in feeds:
            assert irkit.compare(irkit.evaluate(graph, arrays), irkit.onnx.sessions.run(ready, arrays)) is None


def test_the_runtime_still_makes_a_wrong_slice_of_a_gather() -> None:
    """Where this fails, the installed ONNX Runtime does better, and the rule may go."""
    x = param(tensor("f32", "n", 4))
    plain = materialize_dims(Graph((x,), (op.Gather(x, reversed_rows(x)),)))
    assert "expected the shape (3, 4), got (0, 4)" in between(plain, [[np.ones((3, 4), np.float32)]])


def test_places_within_the_axis_stay_a_range() -> None:
    x, table = param(tensor("f32", "n", 4)), param(tensor("f32", dims.add(dims.symbol("n"), 2), 4))
    run = op.Range(np.array(0), size_of(x), np.array(1))
    ready = prepare(optimize(Graph((x, table), (op.Gather(table, run),))))
    assert [v.op for v in ready.order].count("Sub") == 0


def test_a_reversed_arange_of_torch() -> None:
    def model(x: torch.Tensor) -> Any:
        n = x.shape[0]
        return x[torch.arange(n - 1, -1, -1)], x[torch.arange(-n, 0)], x[torch.arange(n) - n]

    program = irkit.to_onnx(model, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},))
    for n in (3, 1, 6):
        x = torch.randn(n, 4)
        assert all(map(torch.equal, program(x), model(x)))


# --------------------------------------------------------------------------------------------- bounds that are left out


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_a_clip_on_one_side_keeps_infinities(dtype: str) -> None:
    x = param(tensor(dtype, "n"))
    kind = x.dtype.numpy
    zero = np.zeros((), kind)
    graph = Graph((x,), (op.Clip(x, zero), op.Clip(x, None, zero), op.Clip(x)))
    arrays = [np.array([np.inf, -np.inf, np.nan, 2.0, -2.0]).astype(kind)]
    ready = prepare(graph)
    assert irkit.compare(irkit.evaluate(graph, arrays), irkit.onnx.sessions.run(ready, arrays)) is None
    assert between(ready, [arrays]) == ""


# ---------------------------------------------------------------------------------------------- casts in a row


@pytest.mark.parametrize("middle", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("end", [torch.int8, torch.uint8])
def test_a_cast_to_a_half_type_rounds_before_one_to_bytes(middle: torch.dtype, end: torch.dtype) -> None:
    x = torch.tensor([0.99999, 1.99999, 99.99999, 33.49999, 100.0])
    assert torch.equal(irkit.to_onnx(lambda x: x.to(middle).to(end), (x,))(x), x.to(middle).to(end))


@pytest.mark.parametrize("end", [torch.int32, torch.int16, torch.int8, torch.uint8])
def test_a_cast_to_int64_comes_before_what_wraps_around(end: torch.dtype) -> None:
    x = torch.tensor([3e9, -3e9, 1e10, 5.0, 70000.0])
    assert torch.equal(irkit.to_onnx(lambda x: x.long().to(end), (x,))(x), x.long().to(end))
