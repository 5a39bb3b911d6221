"""Each rule of a gradient against differences of the evaluator's results, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irkit.build import call
from irkit.core.ir import Graph, Port, Signature, item, param
from irkit.core.types import DType, Tensor, Tuple
from irkit.dims import symbol
from irkit.errors import IrkitError
from irkit.evaluation.interpreter import evaluate
from passes.gradients import RULES, grad
from tests.support.kernel_samples import Draw, Sample
from tests.support.kernel_samples_table import SAMPLES
from tests.support.node_cases import SIZES
from tests.support.onnxruntime_node import schema_dtypes

STEP = 1e-6
FIXED = {
    **dict.fromkeys(("Conv", "ConvTranspose"), (1, 2)), **dict.fromkeys(("GatherND", "ScatterND"), (1, 2)),
    **dict.fromkeys(("DepthToSpace", "GroupNormalization", "Squeeze"), (0,)), "Attention": (0, 1, 2),
    "Det": (0,),
}  # fmt: skip
"""Operands whose sizes the type of the result, or the rule, has to know."""


def doubles(op: str, operand: int) -> tuple[DType, ...]:
    """float64 where the operand may have it."""
    known = schema_dtypes(op, operand)
    return (DType.DOUBLE,) if DType.DOUBLE in known else known


class Smooth(Draw):
    """Operands of float64 without special numbers, none of which is near a place where a function bends."""

    narrow = False

    def array(self, kind: Any, shape: Any, low: float = -4, high: float = 4, special: bool = False) -> np.ndarray:
        wide = DType.DOUBLE if DType.of(kind).is_float and not self.narrow else kind
        found = super().array(wide, shape, low, high)
        return np.where(np.abs(found) < 0.05, 0.3, found).astype(found.dtype) if found.dtype.kind == "f" else found


def compared(op: str, sample: Sample, symbolic: bool) -> tuple[float, float, float] | None:
    """(the directional derivative by the gradients, by differences, the scale of what was summed); None where the
    operator has no operand or result of floats. With `symbolic` the sizes of operands are symbols."""
    operands: list[Any] = []
    params, feeds = [], []
    for index, x in enumerate(sample.inputs):
        if x is None or index in SIZES.get(op, ()):
            operands.append(x)
            continue
        free = symbolic and index not in FIXED.get(op, ())
        shape = tuple(symbol(f"d{index}_{i}") for i in range(x.ndim)) if free else x.shape
        params.append(param(Tensor(DType.of(x.dtype), shape)))
        operands.append(params[-1])
        feeds.append(x)
    made = call(op, operands, sample.attributes, outputs=sample.outputs)
    result = made[0] if isinstance(made, tuple) else made
    floats = [i for i, x in enumerate(feeds) if x.dtype in (np.float64, np.float32)]
    if not floats or not isinstance(result.type, Tensor) or not result.dtype.is_float:
        return None
    step = STEP if feeds[floats[0]].dtype == np.float64 else 1e-2
    ports = tuple(Port(f"x{i}") for i in range(len(params)))
    graph = Graph(tuple(params), (result,), signature=Signature(ports, (Port("y", "output"),)))
    back = grad(graph, [f"x{i}" for i in floats], results=False)
    rng = np.random.default_rng(0)
    (y,) = evaluate(graph, feeds)
    seed = np.asarray(rng.standard_normal(y.shape))
    ways = {i: np.asarray(rng.standard_normal(feeds[i].shape)) for i in floats}

    def at(step: float) -> np.ndarray:
        moved = [(x + step * ways[i]).astype(x.dtype) if i in ways else x for i, x in enumerate(feeds)]
        return evaluate(graph, moved)[0]

    gradients = evaluate(back, feeds if len(back.params) == len(feeds) else [*feeds, seed.astype(y.dtype)])
    seed = seed if len(back.params) > len(feeds) else np.ones(())
    for i, found in zip(floats, gradients, strict=True):
        assert found.dtype == feeds[i].dtype and found.shape == feeds[i].shape
    ours = [float((ways[i] * found).sum()) for i, found in zip(floats, gradients, strict=True)]
    theirs = float((seed * (at(step) - at(-step))).sum()) / (2 * step)
    scale = (float(np.abs(seed * y).sum()) + sum(map(abs, ours)) + 1.0) * (1 if step == STEP else 1e3)
    return sum(ours), theirs, scale


def mixed(*rows: Sample) -> Callable[[Draw], Sample]:
    """One of some samples, with floats drawn anew."""

    def make(d: Draw) -> Sample:
        chosen = d.pick(rows)
        drawn = (
            d.array(DType.DOUBLE, x.shape) if x is not None and x.dtype == np.float64 else x for x in chosen.inputs
        )
        return Sample(tuple(drawn), chosen.attributes, chosen.outputs)

    return make


def f(*shape: int) -> np.ndarray:
    return np.ones(shape)


def i(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def scalar(number: float) -> np.ndarray:
    return np.array(number)


OWN: dict[str, Callable[[Draw], Sample]] = {
    "Conv": mixed(
        Sample((f(2, 4, 7, 6), f(6, 2, 3, 2), f(6)), {"group": 2, "strides": [2, 3], "pads": [1, 0, 2, 1]}),
        Sample((f(2, 3, 9), f(4, 3, 3), f(4)), {"dilations": [2], "strides": [3], "pads": [2, 0]}),
        Sample((f(1, 2, 5, 5), f(3, 2, 1, 1)), {"strides": [2, 2]}),
        Sample((f(2, 3, 8, 5), f(3, 1, 3, 3)), {"group": 3, "auto_pad": "SAME_LOWER", "strides": [2, 1]}),
        Sample((f(0, 3, 5), f(2, 3, 2))),
    ),
    "ConvTranspose": mixed(
        Sample((f(2, 4, 3, 4), f(4, 3, 3, 2), f(6)), {"group": 2, "strides": [2, 3], "pads": [1, 0, 1, 1]}),
        Sample((f(2, 3, 4), f(3, 2, 3)), {"strides": [3], "output_padding": [2], "dilations": [2]}),
    ),
    "AveragePool": mixed(
        Sample((f(2, 3, 7, 6),), {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 1]}),
        Sample((f(2, 3, 7, 6),), {"kernel_shape": [3, 2], "strides": [1, 2], "pads": [1, 0, 1, 1],
                                 "count_include_pad": 1}),
        Sample((f(2, 1, 9),), {"kernel_shape": [2]}),
    ),
    "Gemm": mixed(
        Sample((f(3, 4), f(4, 2), f(2)), {"alpha": 0.5, "beta": 2.0}),
        Sample((f(4, 3), f(4, 2), f(3, 1)), {"transA": 1}), Sample((f(3, 4), f(2, 4)), {"transB": 1}),
        Sample((f(4, 3), f(2, 4), f()), {"transA": 1, "transB": 1}),
    ),
    "MatMul": mixed(
        Sample((f(3, 4), f(4, 2))), Sample((f(4), f(4))), Sample((f(2, 3, 4), f(4))), Sample((f(4), f(5, 4, 2))),
        Sample((f(2, 1, 3, 4), f(5, 4, 2))), Sample((f(1, 4), f(4, 1))), Sample((f(0, 4), f(4, 2))),
    ),
    "Einsum": mixed(
        Sample((f(3, 4), f(4, 2)), {"equation": "ij,jk->ik"}), Sample((f(3, 4),), {"equation": "ij->j"}),
        Sample((f(2, 3, 4), f(2, 5, 4)), {"equation": "bij,bkj->bik"}), Sample((f(3), f(4)), {"equation": "i,j"}),
        Sample((f(3, 4), f(4)), {"equation": "ij,k->i"}),
    ),
    "Slice": mixed(
        Sample((f(5, 6), i(1, -1), i(4, -6), i(0, 1), i(2, -2))), Sample((f(5, 6), i(1), i(9))),
        Sample((f(4, 3, 5), i(3, 0), i(-9, 2), i(-1, 0), i(-1, 1))), Sample((f(4, 3), i(2), i(2), i(0))),
    ),
    "Pad": mixed(
        Sample((f(3, 4), i(1, 0, 2, 1), scalar(0.5))), Sample((f(5, 4), i(-1, 2, 1, -2))),
        Sample((f(3, 4), i(2, 1), None, i(1))), Sample((f(3, 4), i(2, 1, 1, 3)), {"mode": "reflect"}),
        Sample((f(3, 4), i(2, 1, 1, 3)), {"mode": "edge"}), Sample((f(3, 4), i(2, 1, 1, 3)), {"mode": "wrap"}),
    ),
    "Gather": mixed(
        Sample((f(4, 3), i(0, 2, -1, 2))), Sample((f(2, 4, 3), np.array([[1, 1], [0, -4]])), {"axis": 1}),
        Sample((f(4, 3), np.array(2))), Sample((f(4, 0), i(1))), Sample((f(3,), np.zeros((0, 2), np.int64))),
    ),
    "GatherElements": mixed(Sample((f(3, 4), np.array([[0, -1], [2, 2]])), {"axis": 1})),
    "GatherND": mixed(Sample((f(3, 4, 2), np.array([[0, 1], [2, 3], [0, 1]])))),
    "ScatterElements": mixed(
        Sample((f(3, 4), np.array([[0, 3], [2, 1]]), f(2, 2)), {"axis": 1}),
        Sample((f(3, 4), np.array([[0, 0], [2, 1]]), f(2, 2)), {"axis": 1, "reduction": "add"}),
    ),
    "ScatterND": mixed(
        Sample((f(3, 4), np.array([[0], [2]]), f(2, 4))),
        Sample((f(3, 4), np.array([[0], [0]]), f(2, 4)), {"reduction": "add"}),
    ),
    "LayerNormalization": mixed(
        Sample((f(2, 3, 4), f(4), f(4)), {}, 1), Sample((f(2, 3, 4), f(3, 4)), {"axis": 1, "epsilon": 0.1}, 1)
    ),
    "RMSNormalization": mixed(Sample((f(2, 3, 4), f(4))), Sample((f(2, 3, 4), f(3, 4)), {"axis": 1})),
    "Where": mixed(Sample((np.array([True, False, True]), f(2, 3), f(3))), Sample((np.array(True), f(1), f(2, 0)))),
    "Clip": mixed(
        Sample((f(3, 4), scalar(-1.0), scalar(1.0))), Sample((f(3, 4), None, scalar(1.0))), Sample((f(5), scalar(0.2)))
    ),
    "PRelu": mixed(Sample((f(2, 3, 4), f(3, 1))), Sample((f(3, 4), f(1)))),
    "Div": mixed(Sample((f(3, 4), f(4))), Sample((f(1), f(2, 1)))),
    "Concat": mixed(Sample((f(2, 3), f(2, 1), f(2, 0)), {"axis": -1}), Sample((f(2, 3),), {"axis": 0})),
    "Split": mixed(Sample((f(5, 3), i(2, 3)), {"axis": 0}, 2), Sample((f(2, 6),), {"axis": -1, "num_outputs": 4}, 4)),
    "Tile": mixed(Sample((f(2, 3), i(2, 3))), Sample((f(2, 1), i(0, 2)))),
    "Transpose": mixed(Sample((f(2, 3, 4),), {"perm": [2, 0, 1]}), Sample((f(2, 3),)), Sample((f(),))),
    "Expand": mixed(Sample((f(3, 1), i(2, 1, 4))), Sample((f(), i(2, 0)))),
    "Reshape": mixed(Sample((f(2, 6), i(3, -1))), Sample((f(0, 3), i(3, 0)), {"allowzero": 1})),
    "Flatten": mixed(Sample((f(2, 3, 4),), {"axis": 2})),
    "Squeeze": mixed(Sample((f(2, 1, 3), i(1))), Sample((f(1, 1),))),
    "Unsqueeze": mixed(Sample((f(2, 3), i(0, -1)))),
    "Trilu": mixed(Sample((f(2, 3, 4),), {"upper": 0}), Sample((f(3, 3), np.array(1)))),
    "DepthToSpace": mixed(Sample((f(1, 8, 2, 3),), {"blocksize": 2}),
                          Sample((f(1, 8, 2, 3),), {"blocksize": 2, "mode": "CRD"})),
    "SpaceToDepth": mixed(Sample((f(1, 2, 4, 6),), {"blocksize": 2})),
    "TopK": mixed(Sample((f(3, 5), i(2)), {"axis": 1}, 2)),
    "CumSum": mixed(Sample((f(3, 4), np.array(1)), {"reverse": 1, "exclusive": 1}), Sample((f(3, 4), np.array(0)))),
    "Cast": mixed(Sample((f(3),), {"to": int(DType.DOUBLE)})), "CastLike": mixed(Sample((f(3), f(1)))),
    "Dropout": mixed(Sample((f(3, 4),), {}, 1)), "Identity": mixed(Sample((f(2, 0),))),
    "SoftmaxCrossEntropyLoss": mixed(
        Sample((f(3, 4), i(0, 3, 2)), {}, 1), Sample((f(3, 4), i(0, 3, 2), f(4)), {"reduction": "sum"}, 1),
        Sample((f(3, 4), i(0, -1, 2)), {"ignore_index": -1}, 1),
        Sample((f(2, 4, 2), np.array([[0, 3], [2, 1]])), {"reduction": "none"}, 1),
    ),
    "NegativeLogLikelihoodLoss": mixed(
        Sample((f(3, 4), i(0, 3, 2))), Sample((f(3, 4), i(0, -1, 2)), {"ignore_index": -1, "reduction": "sum"}),
        Sample((f(2, 4, 2), np.array([[0, 3], [2, 1]])), {"reduction": "none"}),
    ),
    "Resize": mixed(
        Sample((f(1, 2, 4, 5), None, None, i(1, 2, 7, 3)), {"mode": "linear"}),
        Sample((f(1, 2, 4, 5), None, None, i(6, 3)), {"mode": "cubic", "axes": [2, 3], "antialias": 1}),
        Sample((f(2, 3, 5), None, np.array([1, 1, 2.0], np.float32)), {"mode": "nearest"}),
        Sample((f(1, 1, 5, 4), None, None, i(3, 8)),
               {"mode": "linear", "axes": [2, 3], "coordinate_transformation_mode": "align_corners"}),
        Sample((f(1, 1, 6, 4), np.array([0.2, -0.1, 0.8, 1.2]), None, i(4, 5)),
               {"mode": "linear", "axes": [2, 3], "coordinate_transformation_mode": "tf_crop_and_resize",
                "extrapolation_value": 3.0}),
        Sample((f(1, 1, 4, 4), None, np.array([0.6, 1.7], np.float32)),
               {"mode": "cubic", "axes": [-1, -2], "exclude_outside": 1, "cubic_coeff_a": -0.5}),
    ),
    "LpPool": mixed(
        Sample((f(2, 3, 7, 6),), {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 1]}),
        Sample((f(2, 1, 9),), {"kernel_shape": [3], "p": 3, "dilations": [2]}),
        Sample((f(2, 1, 9),), {"kernel_shape": [2], "p": 1}),
    ),
    "LRN": mixed(
        Sample((f(2, 5, 3),), {"size": 3, "alpha": 0.3}),
        Sample((f(1, 4, 2, 2),), {"size": 4, "bias": 2.0, "beta": 0.5, "alpha": 1.0}),
    ),
    "Det": mixed(Sample((f(3, 3),)), Sample((f(2, 1, 4, 4),)), Sample((f(2, 2, 2),)), Sample((f(2, 1, 1),))),
    "OneHot": mixed(
        Sample((i(0, 3, -1, 9), np.array(4), f(2))), Sample((np.array([[1], [2]]), np.array(3), f(2)), {"axis": 0})
    ),
    "Compress": mixed(
        Sample((f(3, 4), np.array([True, False, True])), {"axis": 1}),
        Sample((f(3, 4), np.array([False, True, True, False, True]))),
    ),
    "ReverseSequence": mixed(Sample((f(4, 3, 2), i(1, 4, 2)), {"time_axis": 0, "batch_axis": 1})),
    # without a rule: written in others first
    "GroupNormalization": mixed(Sample((f(2, 4, 3), f(4), f(4)), {"num_groups": 2})),
    "LpNormalization": mixed(Sample((f(3, 4),), {"axis": 1}), Sample((f(3, 4),), {"axis": 0, "p": 1})),
    "Celu": mixed(Sample((np.ones((2, 3), np.float32),), {"alpha": 0.7})),
    "GridSample": mixed(Sample((f(1, 2, 4, 5), np.full((1, 2, 3, 2), 0.3)))),
    "MeanVarianceNormalization": mixed(Sample((f(2, 3, 2, 2),))),
    "Attention": mixed(Sample((f(2, 2, 3, 4), f(2, 2, 5, 4), f(2, 2, 5, 4)), {}, 1)),
    "com.microsoft::FastGelu": mixed(Sample((f(3, 4), f(4)))),
    "com.microsoft::BiasGelu": mixed(Sample((f(3, 4), f(4)))),
    "com.microsoft::FusedMatMul": mixed(Sample((f(3, 4), f(2, 4)), {"transB": 1, "alpha": 0.5})),
}  # fmt: skip
"""Samples of operators of which the table of kernels has none, or none of floats that are apart."""

NAMES = sorted({*OWN, *(name for name in RULES if name in SAMPLES)})


@pytest.mark.parametrize("op", NAMES)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_gradients_are_what_differences_say(op: str, data: st.DataObject) -> None:
    draw = Smooth(data.draw, doubles)
    draw.narrow = op == "Celu"  # which is of float32 only
    sample = OWN[op](draw) if op in OWN else SAMPLES[op](draw)
    try:
        found = compared(op, sample, data.draw(st.booleans()))
    except IrkitError as error:
        if "has no gradient here" in str(error) and (op not in OWN or "sizes that vary" in str(error)):
            return
        raise
    if found is not None and np.isfinite(found[1]):
        ours, theirs, scale = found
        assert abs(ours - theirs) <= 2e-6 * scale, sample


def test_every_rule_is_drawn() -> None:
    assert sorted(set(RULES) - set(NAMES)) == []


def test_results_of_split_that_nothing_uses_have_no_gradient() -> None:
    x = param(Tensor(DType.DOUBLE, (5,)))
    first, *_ = call("Split", [x, np.array([2, 3])], {"axis": 0}, outputs=2)
    found = evaluate(grad(Graph((x,), (first,)), [x], results=False), [np.arange(5.0), np.ones(2)])
    assert found[0].tolist() == [1, 1, 0, 0, 0]
    assert isinstance(first.inputs[0].type, Tuple) and item(first.inputs[0], 1).shape == (3,)
