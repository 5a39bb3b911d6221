"""Calls: one body applied at several sizes."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import irkit
from irkit import op
from passes import prepare


def test_a_call_has_the_sizes_of_its_operands() -> None:
    """One body, called at two sizes: types, evaluation, text and ONNX Runtime agree."""
    p = irkit.param(irkit.tensor("f32", "n"))
    doubled = op.Concat(p, op.Reshape(op.Neg(p), irkit.shape_vector(p.shape)), axis=0)
    body = irkit.Graph((p,), (doubled, op.NonZero(p)))
    x, y = irkit.param(irkit.tensor("f32", "n")), irkit.param(irkit.tensor("f32", "b"))
    (first, some), (second, others) = irkit.call_graph(body, x), irkit.call_graph(body, y)
    assert str(first.shape[0]) == "2*n" and str(second.shape[0]) == "2*b"
    assert some.shape[1] != others.shape[1]  # how many are not zero is another number in each call
    graph = irkit.Graph((x, y), (first, some, second, others))
    irkit.verify(graph)
    assert irkit.parse(graph.text()) == graph
    feeds = [np.array([1, 0], np.float32), np.array([0, 2, 3], np.float32)]
    expected = [np.array([1, 0, -1, 0], np.float32), np.array([[0]]), np.array([0, 2, 3, 0, -2, -3], np.float32),
                np.array([[1, 2]])]  # fmt: skip
    assert irkit.compare(expected, irkit.evaluate(graph, feeds)) is None
    for functions in (False, True):
        model = irkit.to_proto(prepare(graph), functions=functions)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        assert irkit.compare(expected, session.run(None, dict(zip(names, feeds, strict=True)))) is None


def test_a_call_refuses_what_its_body_does_not_take() -> None:
    p = irkit.param(irkit.tensor("f32", "n"))
    body = irkit.Graph((p,), (op.Neg(p),))
    with pytest.raises(irkit.TypeRuleError, match="takes 1 operand"):
        irkit.call_graph(body, p, p)
    with pytest.raises(irkit.TypeRuleError, match="was given a"):
        irkit.call_graph(body, irkit.param(irkit.tensor("i64", "n")))
