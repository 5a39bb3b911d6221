"""`irkit.stats`: bytes held against what the evaluator moves, operations against torch's own counter and ONNX's
definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

import irkit
from irkit import dims, op
from irkit.core.ir import Value
from irkit.core.types import Tensor, types_of
from irkit.core.vocabulary import CONSTANT, ITEM, PARAM
from irkit.ops.families import FAMILIES
from irkit.testing import bindings, random_feeds, typed_graphs
from irkit.toolbox.flops import FORMULAS, flops_of
from irkit.toolbox.stats import CONTROL, VIEWS
from passes.legal.opsets.onnx_functions import body_of

F = torch.nn.functional


def parameter(*shape: int | str, dtype: str = "f32") -> Value:
    return irkit.param(irkit.tensor(dtype, *shape))


def layer() -> irkit.Graph:
    x = parameter("n", 8)
    weight = irkit.const(np.ones((8, 16), np.float32))
    return irkit.Graph(
        (x,),
        (op.Relu(op.MatMul(x, weight)),),
        signature=irkit.Signature((irkit.Port("x"),), (irkit.Port("y", "output"),)),
    )


def test_stats_are_formulas_over_symbols_and_numbers_at_sizes() -> None:
    found = irkit.stats(layer())
    assert str(found.flops) == "272*n" and str(found.bytes) == "224*n + 512"
    assert (found.parameters, found.parameter_bytes, dict(found.operators)) == (128, 512, {"MatMul": 1, "Relu": 1})
    assert (found.at(n=3).flops, found.at(n=3).bytes) == (816, 1184)
    assert str(found.flops) == "272*n"  # unchanged
    with pytest.raises(irkit.DimensionError, match="no size called 'k'"):
        found.at(k=3)


def test_stats_are_immutable_and_add_up_by_what_is_asked() -> None:
    found = irkit.stats(layer())
    with pytest.raises(AttributeError):
        found.parameters = 0  # type: ignore[misc]
    rows = found.by("op")
    assert [(row.key, row.nodes, str(row.flops)) for row in rows] == [("MatMul", 1, "256*n"), ("Relu", 1, "16*n")]
    for key in ("op", "module", "source", "name"):
        assert sum(dims.evaluate(row.flops, {"n": 3}) for row in found.by(key)) == 816
    with pytest.raises(irkit.GraphError, match="nothing to add up by 'rank'"):
        found.by("rank")  # type: ignore[arg-type]


def test_a_weight_that_two_take_is_counted_once() -> None:
    x = parameter("n", 8)
    weight = irkit.const(np.ones((8, 8), np.float32))
    found = irkit.stats(irkit.Graph((x,), (op.MatMul(op.MatMul(x, weight), weight),)))
    assert found.parameters == 64 and sum(row.parameters for row in found.by("name")) == 64


def test_every_operator_of_onnx_has_a_formula() -> None:
    known = {operator for family in FAMILIES.values() for operator in family}
    assert known - CONTROL == set(FORMULAS) & known


# ---------------------------------------------------------------------------------------------- against others

TORCH = {
    "mm": (lambda a, b: a @ b, (3, 4), (4, 5)),
    "bmm": (lambda a, b: a @ b, (2, 3, 4), (2, 4, 5)),
    "conv1d": (lambda x, w: F.conv1d(x, w, stride=2, groups=2), (2, 4, 9), (6, 2, 3)),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding=1, dilation=2), (2, 4, 9, 8), (6, 4, 3, 2)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2), (2, 4, 5, 6), (4, 3, 2, 2)),
}


@pytest.mark.parametrize("name", TORCH)
def test_products_are_counted_as_torch_counts_them(name: str) -> None:
    function, *shapes = TORCH[name]
    arguments = tuple(torch.ones(shape) for shape in shapes)
    with FlopCounterMode(display=False) as counter:
        function(*arguments)
    model = irkit.to_onnx(function, arguments).graph
    assert irkit.stats(model).flops == counter.get_total_flops()


def test_attention_is_counted_as_torch_counts_its_products() -> None:
    q, k, v = (torch.ones(2, 3, n, d) for n, d in ((5, 8), (7, 8), (7, 4)))
    with FlopCounterMode(display=False) as counter:
        _ = torch.nn.functional.softmax(q @ k.transpose(-1, -2), -1) @ v
    attention = op.Attention(*(parameter(*x.shape) for x in (q, k, v)))
    attention = attention[0] if isinstance(attention, tuple) else attention
    scores = 2 * 3 * 5 * 7
    assert (
        flops_of(attention if attention.op != ITEM else attention.inputs[0]) == counter.get_total_flops() + 6 * scores
    )


X = (2, 6, 8)
DEFINED = {
    "Gelu": lambda: op.Gelu(parameter(*X)),
    "Gelu by tanh": lambda: op.Gelu(parameter(*X), approximate="tanh"),
    "LayerNormalization": lambda: op.LayerNormalization(parameter(*X), parameter(8), parameter(8)),
    "GroupNormalization": lambda: op.GroupNormalization(parameter(*X), parameter(6), parameter(6), num_groups=2),
    "RMSNormalization": lambda: op.RMSNormalization(parameter(*X), parameter(8)),
    "RotaryEmbedding": lambda: op.RotaryEmbedding(parameter(2, 3, 4, 8), parameter(2, 4, 4), parameter(2, 4, 4)),
    "MeanVarianceNormalization": lambda: op.MeanVarianceNormalization(parameter(2, 6, 8, 3)),
    "Clip": lambda: op.Clip(parameter(*X), np.float32(0), np.float32(1)),
    "SoftmaxCrossEntropyLoss": lambda: op.SoftmaxCrossEntropyLoss(parameter(6, 8), parameter(6, dtype="i64")),
    "NegativeLogLikelihoodLoss": lambda: op.NegativeLogLikelihoodLoss(parameter(6, 8), parameter(6, dtype="i64")),
    "DynamicQuantizeLinear": lambda: op.DynamicQuantizeLinear(parameter(*X)),
    "PRelu": lambda: op.PRelu(parameter(*X), parameter(8)),
    **{
        name: lambda name=name: getattr(op, name)(parameter(*X))
        for name in (
            "Celu Elu HardSigmoid HardSwish LeakyRelu LogSoftmax Mish Relu Selu Shrink Softmax Softplus Softsign Swish "
            "ThresholdedRelu ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare"
        ).split()
    },
}


@pytest.mark.parametrize("name", DEFINED)
def test_an_operator_takes_about_what_its_definition_by_onnx_takes(name: str) -> None:
    made = DEFINED[name]()
    value = made[0].inputs[0] if isinstance(made, tuple) else made
    types = tuple(None if v is None else v.type for v in value.inputs)
    body = body_of(value.op, value.attributes, types, len(types_of(value.type)))
    flops = flops_of(value)
    assert body is not None and isinstance(flops, int)
    assert 0.45 <= flops / irkit.stats(body).flops <= 2


def test_an_operator_of_onnx_runtime_takes_what_its_definition_takes() -> None:
    x, w = parameter("n", 8), parameter(8, 16)
    fused = irkit.stats(irkit.Graph((x, w), (op.com_microsoft.FusedMatMul(x, w, alpha=2.0),)))
    assert str(fused.flops) == "272*n" and not fused.uncounted


def test_an_operator_of_ones_own_takes_what_its_definition_takes() -> None:
    @irkit.operator("mylib::Twice", dtypes={"x": "float"})
    def twice(x: Any) -> Any:
        """x + x, then exp"""
        return op.Exp(op.Add(x, x))

    x = parameter("n", 8)
    counted = irkit.stats(irkit.Graph((x,), (twice(x),)))
    assert str(counted.flops) == "16*n" and dict(counted.operators) == {"mylib::Twice": 1}
    unknown = irkit.custom("mylib::Other", x, type=x.type)
    assert dict(irkit.stats(irkit.Graph((x,), (unknown,))).uncounted) == {"mylib::Other": 1}


def test_what_has_no_formula_is_said() -> None:
    """The sizes of irkit have no logarithm."""
    found = irkit.stats(irkit.Graph((x := parameter(1, "n", 1),), (op.DFT(x),)))
    assert dict(found.uncounted) == {"DFT": 1} and "not counted: 1 DFT" in str(found)


def integers(*given: int) -> Value:
    return irkit.const(np.array(given, np.int64).reshape(() if len(given) == 1 else -1))


SPECTRA_AND_REGIONS = {
    "DFT of real numbers": (lambda: op.DFT(parameter("b", 8, 1)), "60*b"),
    "DFT of complex ones, along another axis": (
        lambda: op.DFT(parameter("b", 8, 4, 2), None, integers(-3)), "480*b"),
    "DFT of a length": (lambda: op.DFT(parameter("b", 5, 2), integers(16)), "320*b"),
    "STFT with a window": (
        lambda: op.STFT(parameter("b", 32, 1), integers(8), parameter(8), integers(8), onesided=1), "272*b"),
    "STFT": (lambda: op.STFT(parameter(1, 32, 2), integers(8), None, integers(8), onesided=0), "480"),
    "AffineGrid": (lambda: op.AffineGrid(parameter(1, 2, 3), np.array([1, 3, 4, 5])), "160"),
    "AffineGrid in space": (lambda: op.AffineGrid(parameter(1, 3, 4), np.array([1, 3, 4, 5, 6])), "2160"),
    "RoiAlign": (
        lambda: op.RoiAlign(parameter(1, 3, 8, 8), parameter("r", 4), parameter("r", dtype="i64"),
                            output_height=2, output_width=2, sampling_ratio=2), "384*r"),
    "RoiAlign as large as it can be": (
        lambda: op.RoiAlign(parameter(1, 3, 8, 7), parameter("r", 4), parameter("r", dtype="i64"),
                            output_height=2, output_width=2), "1536*r"),
    "MaxRoiPool": (lambda: op.MaxRoiPool(parameter(1, 3, 8, 7), parameter("r", 5), pooled_shape=(2, 2)), "168*r"),
    "NonMaxSuppression": (
        lambda: op.NonMaxSuppression(parameter("b", 10, 4), parameter("b", 2, 10), integers(3)), "720*b"),
    "NonMaxSuppression of more than there are": (
        lambda: op.NonMaxSuppression(parameter("b", 10, 4), parameter("b", 2, 10), integers(300)), "2400*b"),
    "NonMaxSuppression of none": (lambda: op.NonMaxSuppression(parameter("b", 10, 4), parameter("b", 2, 10)), "0"),
}  # fmt: skip
"""Operators with the formula that they have."""


@pytest.mark.parametrize("name", SPECTRA_AND_REGIONS)
def test_spectra_and_regions_are_counted(name: str) -> None:
    make, formula = SPECTRA_AND_REGIONS[name]
    value = make()
    whole = value.inputs[0] if value.op == ITEM else value
    assert whole is not None and str(flops_of(whole)) == formula


def test_a_map_over_a_sequence_counts_its_elements() -> None:
    x = parameter("n", 4)
    parts = op.SequenceConstruct(x, x, x)
    assert str(irkit.stats(irkit.Graph((x,), op.SequenceMap(parts, body=op.Exp))).flops) == "12*n"
    rows = op.SplitToSequence(x, axis=0)
    assert str(irkit.stats(irkit.Graph((x,), op.SequenceMap(rows, body=op.Exp))).flops) == "4*n"


# ---------------------------------------------------------------------------------------------- bodies


def test_a_loop_counts_its_trips_and_an_if_its_longer_branch() -> None:
    text = """
    graph g {
      input %x: f32[n, 4]
      input %c: bool[]
      %trips: i64[] = Constant 5
      %on: bool[] = Constant true
      %y: f32[n, 4] = Loop(%trips, %on, %x) body {
        param %i: i64[]
        param %go: bool[]
        param %z: f32[n, 4]
        %0: f32[n, 4] = Exp(%z)
        return %go, %0
      }
      %r: f32[n, 4] = If(%c, %y) then {
        param %a: f32[n, 4]
        return %a
      } else {
        param %a: f32[n, 4]
        %0: f32[n, 4] = Exp(%a)
        %1: f32[n, 4] = Exp(%0)
        return %1
      }
      return %r
    }
    """
    found = irkit.stats(irkit.parse(text))
    assert str(found.flops) == "28*n" and dict(found.operators) == {"Exp": 3, "If": 1, "Loop": 1}


@settings(max_examples=15)
@given(typed_graphs(6, bodies=False).flatmap(lambda g: st.tuples(st.just(g), bindings(g))), st.integers(0, 99))
def test_bytes_are_those_that_the_evaluator_moves(drawn: tuple[irkit.Graph, dict[str, int]], seed: int) -> None:
    graph, sizes = drawn
    try:
        found = irkit.trace(graph, random_feeds(graph, sizes, np.random.default_rng(seed)))
    except irkit.EvaluateError:  # data that an operator does not take
        return
    counted = irkit.stats(graph).at(sizes)
    moved = [v for v in graph.order if v.op not in (PARAM, CONSTANT, ITEM)]
    assert len(moved) == len(counted.costs)
    for value, cost in zip(moved, counted.costs, strict=True):
        results = found[value] if isinstance(found[value], tuple) else (found[value],)
        whole = all(isinstance(t, Tensor) and t.dtype.bits >= 8 for t in types_of(value.type))
        if whole and type(cost.written) is int and value.op not in VIEWS:
            assert cost.written == sum(each.nbytes for each in results)
