"""Models that grow: what irkit does to them costs as much as they have nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import irkit
from irkit.dims.notation import text
from irkit.errors import EvaluateError
from irkit.onnx.writing.models import to_proto
from passes import optimize, prepare
from tests.support.growing import FAMILIES
from tests.support.timing import spent

SMALL, LARGE = 50, 200
"""Nodes, more or less: the second model is four times as large as the first."""
TWICE = 8
"""Times the cost that a model four times as large may have: twice what is linear, as a busy machine is uneven."""
INSTANT = 0.15
"""Seconds that are not worth a comparison."""


def steps(model: Any) -> tuple[dict[str, float], dict[str, int]]:
    """(CPU seconds by step, how large things are) of all that irkit does to a model."""
    seconds: dict[str, float] = {}
    data = model.SerializeToString()

    def timed(name: str, action: Callable[[], Any]) -> Any:
        with spent() as cost:
            found = action()
        seconds[name] = cost.seconds
        return found

    graph = timed("load", lambda: irkit.load(data))
    timed("verify", lambda: irkit.verify(graph))
    printed = timed("print", lambda: str(graph))
    assert timed("parse", lambda: irkit.parse(printed, blobs=graph)) == graph
    timed("digest", lambda: graph.digest)
    better = timed("optimize", lambda: optimize(graph))
    ready = timed("prepare", lambda: prepare(better))
    older = timed("legalize", lambda: prepare(graph, "onnx", 13))
    written = timed("write", lambda: to_proto(ready).SerializeToString())
    longest = max((len(text(d)) for v in graph.order if isinstance(v.type, irkit.Tensor) for d in v.shape), default=0)
    counts = {"nodes": len(graph), "better": len(better), "ready": len(ready), "older": len(older),
              "bytes": len(written), "text": len(printed), "longest size": longest}  # fmt: skip
    return seconds, counts


@pytest.mark.parametrize("family", FAMILIES)
def test_cost_grows_with_the_number_of_nodes(family: str) -> None:
    small, few = steps(FAMILIES[family](SMALL))
    large, many = steps(FAMILIES[family](LARGE))
    for name, count in many.items():
        if name == "longest size":
            assert count < 20_000, f"{family}: a size of {count} characters"
        else:
            most = 12 if name == "text" else 6  # sizes are longer, up to a limit
            spare = (
                12_000 if name in ("bytes", "text") else 200
            )  # nodes of a small model may be one size, and so no nodes
            assert count <= most * few[name] + spare, f"{family}, {name}: {few[name]}, and then {count}"
    slow = [name for name, taken in large.items() if taken > INSTANT and taken > TWICE * max(small[name], 0.01)]
    if slow:  # measured again, as something else may have run
        large, small = steps(FAMILIES[family](LARGE))[0], steps(FAMILIES[family](SMALL))[0]
    for name in slow:
        assert large[name] <= max(INSTANT, TWICE * max(small[name], 0.01)), f"{family}, {name}: {small} and {large}"


@pytest.mark.parametrize("family", [f for f in FAMILIES if "doubling" not in f and "size" not in f])
def test_small_models_of_a_family_compute_the_same_when_optimized(family: str) -> None:
    graph = irkit.load(FAMILIES[family](7))
    rng = np.random.default_rng(0)
    shapes = [[d if isinstance(d, int) else 3 for d in p.shape] for p in graph.params]
    feeds = [np.asarray(rng.integers(0, 2, s)).astype(p.dtype.numpy) for s, p in zip(shapes, graph.params, strict=True)]
    before, after = irkit.evaluate(graph, feeds), irkit.evaluate(optimize(graph), feeds)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=1e-5)


def test_sizes_beyond_an_int64_are_refused_by_the_evaluator() -> None:
    x = irkit.param(irkit.tensor("f32", "n"))
    vast = irkit.dims.mul(irkit.symbol("n"), 1 << 62)
    with pytest.raises(EvaluateError, match="beyond an int64"):
        irkit.evaluate(irkit.Graph((x,), (irkit.shape_vector((vast,)),)), [np.ones(3, np.float32)])
