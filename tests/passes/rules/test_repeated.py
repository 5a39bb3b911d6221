"""Constants that are repeated for each row of a batch: what is computed of them once, and what is not."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

import irkit
from irkit import const, dims, op, param, tensor
from irkit.build import shape_vector
from irkit.core.ir import Graph, Value
from irkit.evaluation.interpreter import evaluate
from lowering import lower
from passes import optimize
from passes.rules.movement.repeated import REAL_REPEATED, REPEATED

B = dims.symbol("b")


@pytest.mark.parametrize("rule", REPEATED + REAL_REPEATED, ids=lambda r: r.name)
def test_what_is_repeated_holds(rule: irkit.Rule) -> None:
    irkit.check_rule(rule)


def ones(x: Value, *shape: int) -> Value:
    return op.Expand(np.float32(1), shape_vector((B, *shape), x))


def ops_of(x: Value, *results: Value) -> Counter[str]:
    """The operators that are left; the numbers stay."""
    graph = Graph((x,), results)
    after = optimize(graph)
    for rows in (3, 1, 0):
        given = [np.arange(rows * 4, dtype="f4").reshape(rows, 4)]
        for a, b in zip(evaluate(graph, given), evaluate(after, given), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    return Counter(v.op for v in after.order if v.op not in ("Param", "Constant", "ShapeVector"))


def test_positions_in_images_of_any_number_are_one_constant() -> None:
    """As detectors make them of a mask of ones."""
    x = param(tensor("f32", "b", 4))
    mask = op.Gather(op.Unsqueeze(ones(x, 6, 8), [0]), const(np.array(0)), axis=0)
    small = op.Gather(op.Gather(mask, const(np.array([0, 3])), axis=1), const(np.array([0, 2, 4, 6])), axis=2)
    down = op.CumSum(small, const(np.array(1)))
    last = op.Slice(down, [-1], [2**62], [1])
    angles = op.Div(op.Unsqueeze(op.Div(down, op.Add(last, 1e-6)), [3]), const(np.array([1, 10], "f4")))
    waves = op.Concat(op.Sin(angles), op.Cos(angles), axis=3)
    assert ops_of(x, op.Reshape(waves, shape_vector((B, 8, 4), x))) == {"Expand": 1}
    assert ops_of(x, op.Add(x, op.Reshape(op.ReduceSum(small, [1]), shape_vector((B, 4), x)))) == {"Add": 1}


def test_rows_without_elements_stay_so_under_other_dimensions() -> None:
    x = param(tensor("f32", "b", 4))
    rows = op.Expand(const(np.zeros((1, 0), "f4")), shape_vector((B, 0), x))
    apart = op.Reshape(rows, shape_vector((B, 2, 0, 3), x), allowzero=1)
    assert ops_of(x, apart) == {"Expand": 1}


def test_what_mixes_rows_or_is_no_constant_stays() -> None:
    x = param(tensor("f32", "b", 4))
    data = op.Expand(const(np.array([[1, 2, 3, 4]], "f4")), shape_vector((B, 4), x))
    assert ops_of(x, op.CumSum(data, const(np.array(0))))["CumSum"] == 1
    assert ops_of(x, op.ReduceSum(data, [0]))["ReduceSum"] == 1
    assert ops_of(x, op.Slice(data, [1], [2], [0]))["Slice"] == 1
    assert ops_of(x, op.Reshape(op.Transpose(data), shape_vector((2, dims.mul(B, 2)), x)))["Reshape"] == 1
    assert ops_of(x, op.Concat(data, x, axis=1)) == {"Expand": 1, "Concat": 1}


class Detector(torch.nn.Module):
    """What DETR and its kind do where no mask is given: features, with positions out of a mask of ones."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones((x.shape[0], 8, 8), dtype=torch.long)
        small = torch.nn.functional.interpolate(mask[None].float(), size=(4, 4)).to(torch.bool)[0]
        across, down = small.cumsum(2, dtype=x.dtype), small.cumsum(1, dtype=x.dtype)
        place = torch.stack([across / (across[:, :, -1:] + 1e-6), down / (down[:, -1:] + 1e-6)], 1)
        share = small[:, :, 0].sum(1) / 4
        return (x * place).masked_fill(~small[:, None], 0.0) * share[:, None, None, None]


def test_a_mask_of_ones_leaves_no_operators() -> None:
    model, x = Detector(), torch.randn(2, 2, 4, 4)
    after = optimize(lower(model, (x,), dynamic_shapes=({0: "b"},)))
    assert Counter(v.op for v in after.order if v.op not in ("Param", "Constant", "ShapeVector")) == {"Mul": 1}
    wide = torch.randn(5, 2, 4, 4)
    torch.testing.assert_close(torch.from_numpy(evaluate(after, [wide.numpy()])[0]), model(wide))
