"""The standard pipelines on random graphs, constant folding, and what they cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from irkit.build import const, op
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Port, Signature, Value, param
from irkit.core.types import DType, tensor
from irkit.testing import assert_equivalent, typed_graphs
from irkit.verification.laws import verify
from passes import optimize
from tests.support.timing import spent


def value(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


@given(typed_graphs())
def test_optimize_keeps_the_meaning_of_random_graphs(graph: Graph) -> None:
    after = optimize(graph)
    verify(after)
    assert_equivalent(graph, after)
    assert optimize(after) is after


@given(typed_graphs())
def test_level_one_keeps_the_meaning_of_random_graphs(graph: Graph) -> None:
    after = optimize(graph, level=1)
    verify(after)
    assert_equivalent(graph, after, rtol=0, atol=0)
    assert optimize(after, level=1) is after


@given(typed_graphs(max_ops=5))
def test_every_application_is_right(graph: Graph) -> None:
    assert optimize(graph, check=True) == optimize(graph)


def test_the_signature_and_the_parameters_stay() -> None:
    a, unused = value("n"), value("n")
    ports = Signature((Port("a"), Port("b")), (Port("y", "output"),))
    g = Graph((a, unused), (op.Relu(op.Relu(a)),), signature=ports)
    after = optimize(g)
    assert after.params == (a, unused) and after.signature is ports


def test_constants_fold_within_limits() -> None:
    a = value("n", 4)
    table = op.Cast(op.Range(0, 4, 1), to=1)
    g = optimize(Graph((a,), (op.Add(a, table),)))
    assert [v.op for v in g.order] == ["Param", "Constant", "Add"]
    large = op.Expand(const(1.0), np.array([4096, 4096]))
    assert "Expand" in [v.op for v in optimize(Graph((a,), (op.Neg(large),))).order]
    drawn = op.RandomNormal(shape=[2])
    assert "RandomNormal" in [v.op for v in optimize(Graph((a,), (drawn,))).order]


def test_weights_are_not_read() -> None:
    def load() -> np.ndarray:
        raise AssertionError("a weight was read")

    weight = const(Blob(DType.FLOAT, (512, 512), load, "w"))
    bias = const(Blob(DType.FLOAT, (512,), load, "b"))
    a = value("n", "m", 512)
    h = op.Add(op.MatMul(op.Mul(a, bias), op.Transpose(weight, perm=(1, 0))), bias)
    after = optimize(Graph((a,), (op.Add(h, op.Reshape(bias, [1, 512])),)))
    assert "Transpose" not in [v.op for v in after.order]


def test_a_branch_that_is_certainly_taken_is_written_out() -> None:
    a = value(3)
    (taken,) = op.If(const(True), then_branch=lambda: op.Relu(a), else_branch=lambda: op.Abs(a))
    assert [v.op for v in optimize(Graph((a,), (taken,))).order] == ["Param", "Relu"]


def test_a_step_is_observed() -> None:
    a = value(3)
    seen = []
    optimize(Graph((a,), (op.Relu(op.Relu(a)),)), observe=seen.append)
    changes = {step.name.partition("{")[0]: step.changed for step in seen}
    assert changes["simplify"] and changes["standard"] and not changes["share_contents"]
    assert seen[-1].name.startswith("standard") and seen[-1].depth == 0


def test_slices_that_tile_an_axis_become_one_split() -> None:
    a = value("n", 6)
    parts = [op.Slice(a, [i], [i + 2], [1]) for i in (0, 2, 4)]
    g = Graph((a,), (op.Add(op.Mul(parts[0], parts[2]), parts[1]),))
    after = optimize(g)
    assert [v.op for v in after.order if v.op in ("Slice", "Split")] == ["Split"]
    verify(after)
    assert_equivalent(g, after)
    overlapping = [op.Slice(a, [0], [3], [1]), op.Slice(a, [2], [6], [1])]
    g = Graph((a,), (op.Relu(overlapping[0]), op.Relu(overlapping[1])))
    assert "Split" not in [v.op for v in optimize(g).order]
    condition = value(dtype="bool")
    (r,) = op.If(
        condition,
        then_branch=lambda: op.Add(*(op.Slice(a, [i], [i + 3], [1]) for i in (0, 3))),
        else_branch=lambda: op.Slice(a, [0], [3], [1]),
    )
    after = optimize(Graph((a, condition), (r,)))
    assert "Split" in [v.op for u in after.order for body in u.bodies for v in body.order]


def test_splits_above_one_another_compute_nothing_twice() -> None:
    x = param(tensor("f32", "n", 8, 8))

    def rolled(value: Value, axis: int) -> Value:
        """The value with its last two elements of an axis in front, as torch.roll is written out."""
        return op.Concat(op.Slice(value, [6], [8], [axis]), op.Slice(value, [0], [6], [axis]), axis=axis)

    graph = Graph((x,), (rolled(op.Tanh(rolled(op.Sigmoid(rolled(x, 1)), 2)), 1),))
    after = optimize(graph)
    verify(after)
    assert sorted(v.op for v in after.order if v.op not in ("Param", "Constant", "Item")) == [
        *["Concat"] * 3,
        "Sigmoid",
        *["Split"] * 3,
        "Tanh",
    ]
    assert_equivalent(graph, after)


@pytest.mark.parametrize("length", [8000])
def test_a_long_chain_takes_under_two_seconds(length: int) -> None:
    a = value("n", 4)
    v = a
    for i in range(length):
        v = (op.Relu, lambda t: op.Mul(t, 1.0), lambda t, i=i: op.Add(t, float(i)), op.Abs)[i % 4](v)
    g = Graph((a,), (v,))
    with spent() as cost:
        after = optimize(g)
    assert cost.seconds < 2
    assert len(after) == length // 2 + 1
    with spent() as cost:
        assert optimize(after) is after
    assert cost.seconds < 0.5
