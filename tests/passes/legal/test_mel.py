"""MelWeightMatrix of computed operands at every opset and of half types, and Col2Im of integers, on ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from irkit.build import const, op
from irkit.checking.comparison import compare
from irkit.core.ir import Graph, param
from irkit.core.types import tensor
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.sessions import session
from passes.legal.legalize import legalize
from passes.targets import Target


@pytest.mark.parametrize("opset", [16, 26])
@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "i32"])
def test_weights_of_computed_operands(kind: str, opset: int) -> None:
    operands = [param(tensor(each)) for each in ("i64", "i64", "i64", "f32", "f32")]
    root = op.MelWeightMatrix(*operands, output_datatype=int(tensor(kind).dtype))
    graph = Graph(tuple(operands), (root,))
    run = session(legalize(graph, Target(opset=opset)), opset=opset).run
    for edges in ((0, 4000), (300, 3400)):
        feeds = [np.array(8), np.array(64), np.array(8000), *(np.array(e, np.float32) for e in edges)]
        assert compare(evaluate(graph, feeds), tuple(run(feeds))) is None


@pytest.mark.parametrize("kind", ["i32", "i64", "u8"])
def test_columns_of_integers(kind: str) -> None:
    x = param(tensor(kind, "n", 8, 9))
    graph = Graph((x,), (op.Col2Im(x, const(np.array([4, 4])), const(np.array([2, 2]))),))
    run = session(legalize(graph, Target())).run
    top = 2**30 if kind != "u8" else 60
    feeds = [np.random.default_rng(0).integers(0, top, (2, 8, 9)).astype(x.dtype.numpy)]
    if kind == "i32":
        feeds[0] //= 8
    assert compare(evaluate(graph, feeds), tuple(run(feeds))) is None
