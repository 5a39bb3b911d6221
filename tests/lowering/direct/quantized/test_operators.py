"""Operators on quantized tensors, against torch's kernels: their integers, scales and zero points."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from irkit.doors.to_onnx import to_onnx
from irkit.errors import IrkitError
from tests.lowering.direct.quantized.models import Over, assert_near

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of its own deprecated modules
Q, ATEN = torch.ops.quantized, torch.ops.aten
POINTS = torch.arange(4)
NORM = (torch.tensor([0.7, 1.2, 0.9, 1.1]), torch.tensor([0.1, -0.4, 0.2, 0.0]))
SEEN = (torch.tensor([0.2, 0.1, -0.3, 0.0]), torch.tensor([0.8, 1.3, 0.6, 1.0]))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # as below
    SLOPES = torch.quantize_per_tensor(torch.tensor([0.1, 0.2, -0.1, 0.3]), 0.01, 20, torch.quint8)
Function = Callable[[Any, Any], Any]


@pytest.mark.parametrize(
    ("a", "b", "made"),
    [((0.0713, 57), (0.0521, 83), (0.1017, 61)), ((0.03, 64), (0.05, 11), (0.02, 40)), ((0.1, 0), (0.3, 9), (0.2, 7))],
)
def test_sums_of_all_pairs_of_integers_are_those_of_torch_but_in_the_middle_of_two_steps(
    a: Any, b: Any, made: Any
) -> None:
    """torch's vectorized kernel rounds scale * zero_point before it is taken off, DequantizeLinear does not."""

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        one, other = (ATEN._make_per_tensor_quantized_tensor(*each) for each in ((x, *a), (y, *b)))
        return Q.add(one, other, *made).int_repr()

    x, y = (each.to(torch.uint8).flatten() for each in torch.meshgrid(*[torch.arange(256)] * 2, indexing="ij"))
    far = (to_onnx(model, (x, y))(x, y).int() - model(x, y).int()).abs()
    steps = ((x.double() - a[1]) * a[0] + (y.double() - b[1]) * b[0]) / made[0]
    middle = (steps - steps.floor() - 0.5).abs() < 1e-4
    assert far.max() <= 1
    assert not (far.bool() & ~middle).any()


def of_a_scale_from_data(q: Any, r: Any) -> Any:
    scale = q.dequantize().max() / 100
    return torch.quantize_per_tensor(r.dequantize(), scale, torch.tensor(3), torch.qint8).dequantize()


MOVED: tuple[Function, ...] = (
    lambda q, r: q.chunk(2, 1),
    lambda q, r: q.permute(0, 2, 3, 1),
    lambda q, r: q.reshape(-1, 9),
    lambda q, r: q.flatten(1)[:, 3:],
    lambda q, r: q[:, [2, 0]],
    lambda q, r: q[:, 1].unsqueeze(1).expand(-1, 2, -1, -1),
    lambda q, r: F.channel_shuffle(q, 2),
    lambda q, r: F.pixel_shuffle(q, 2),
    lambda q, r: q.transpose(1, 2).contiguous(),
    lambda q, r: F.pad(q, (1, 1, 0, 1), mode="reflect"),
    lambda q, r: F.pad(q, (1, 0, 2, 1), value=0.5),
    lambda q, r: torch.cat([q, q.flip(2)], 1),
    lambda q, r: torch.cat([q, r], 1),
    lambda q, r: torch.stack([q, r], 2),
    lambda q, r: q.split([1, 3], 1),
    lambda q, r: q.unfold(2, 2, 2),
    lambda q, r: q.repeat(1, 2, 1, 1),
    lambda q, r: q.to("cpu"),
)
POOLED: tuple[Function, ...] = (
    lambda q, r: F.max_pool2d(q, 3, 2, 1),
    lambda q, r: F.max_pool1d(q.flatten(2), 2),
    lambda q, r: F.avg_pool2d(q, 3, 1, 1),
    lambda q, r: F.avg_pool2d(q, q.shape[2:]),
    lambda q, r: F.adaptive_avg_pool2d(q, 1),
    lambda q, r: q.mean((2, 3)),
    lambda q, r: F.interpolate(q, scale_factor=2),
    lambda q, r: F.interpolate(q, size=(5, 7), mode="bilinear"),
    lambda q, r: q.max(),
    lambda q, r: q.topk(2, 1)[0],
    lambda q, r: q.std(1),
)
ACTIVATED: tuple[Function, ...] = (
    lambda q, r: F.relu(q),
    lambda q, r: F.relu6(q),
    lambda q, r: F.hardtanh(q, -0.5, 0.5),
    lambda q, r: q.clamp(-1, 1),
    lambda q, r: F.leaky_relu(q, 0.1),
    lambda q, r: F.gelu(q),
    lambda q, r: F.threshold(q, 0.5, 0.1),
    lambda q, r: q.sigmoid(),
    lambda q, r: q.tanh(),
    lambda q, r: F.hardsigmoid(q),
    lambda q, r: Q.hardswish(q, 0.05, 10),
    lambda q, r: Q.elu(q, 0.05, 30, 0.7),
    lambda q, r: Q.celu(q, 0.05, 30, 0.7),
    lambda q, r: Q.leaky_relu(q, 0.1, False, 0.05, 30),
    lambda q, r: Q.prelu(q, SLOPES, 0.05, 30),
    lambda q, r: Q.softmax(q, 1, 1 / 256, 0),
    lambda q, r: Q.sigmoid(q, 0.01, 5),
    lambda q, r: Q.relu6(q),
    lambda q, r: F.dropout(q, 0.5, False),
)
COMPUTED: tuple[Function, ...] = (
    lambda q, r: Q.add(q, r, 0.15, 8),
    lambda q, r: Q.add_relu(q, r, 0.15, 8),
    lambda q, r: Q.mul(q, r, 0.13, 8),
    lambda q, r: Q.mul_relu(q, r, 0.13, 8),
    lambda q, r: Q.add(q, -1.5),
    lambda q, r: Q.add(q, 1.5),
    lambda q, r: Q.add_relu(q, -30.0),
    lambda q, r: Q.add(q, 30.0),
    lambda q, r: Q.mul(q, 1.5),
    lambda q, r: Q.mul_relu(q, -1.5),
    lambda q, r: Q.mul(q, 0.0),
    lambda q, r: Q.cat([q, r], 1, 0.13, 8),
    lambda q, r: Q.cat_relu([q, r], 1, 0.13, 8),
    lambda q, r: Q.matmul(q, r.transpose(2, 3), 0.31, 10),
    lambda q, r: Q.batch_norm2d(q, *NORM, *SEEN, 1e-5, 0.05, 60),
    lambda q, r: Q.batch_norm2d_relu(q, *NORM, *SEEN, 1e-5, 0.05, 60),
    lambda q, r: Q.layer_norm(q, [6, 6], None, None, 1e-5, 0.05, 60),
    lambda q, r: Q.group_norm(q, 2, *NORM, 1e-5, 0.05, 60),
    lambda q, r: Q.instance_norm(q, *NORM, 1e-5, 0.05, 60),
)
OTHERS: tuple[Function, ...] = (
    lambda q, r: q > r,
    lambda q, r: q <= 0.55,
    lambda q, r: q.dequantize() + q.int_repr(),
    lambda q, r: ATEN._make_per_tensor_quantized_tensor(q.int_repr(), 0.3, 4),
    lambda q, r: q.q_scale() * q.dequantize(),
    of_a_scale_from_data,
    lambda q, r: ATEN.quantize_per_channel(r.dequantize(), NORM[0], POINTS, 1, torch.quint8).dequantize(),
    lambda q, r: ATEN.quantize_per_tensor_dynamic(r.dequantize(), torch.quint8, True).int_repr(),
    lambda q, r: torch.quantize_per_tensor(q.dequantize(), 0.001, 0, torch.qint32).int_repr(),
)
GROUPS = {"moved": MOVED, "pooled": POOLED, "activated": ACTIVATED, "computed": COMPUTED, "others": OTHERS}


def tensors(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    return torch.randn(count, 4, 6, 6, generator=generator), torch.randn(count, 4, 6, 6, generator=generator)


@pytest.mark.parametrize("group", GROUPS)
def test_operators_give_the_integers_of_kernels(group: str) -> None:
    model = Over(*GROUPS[group])
    program = to_onnx(model, tensors(2), dynamic_shapes=({0: "n"}, {0: "n"}), capture="direct")
    for count in (2, 1, 5):
        found, expected = program(*tensors(count)), model(*tensors(count))
        for ours, theirs in zip(found, expected, strict=True):
            assert_near([ours], [theirs], 0.1, 0.2 if group == "pooled" else 0.02)  # means of few lie between two steps
            if group == "moved":
                assert torch.equal(ours, theirs)


def test_writes_go_where_views_look() -> None:
    def written(q: Any, r: Any) -> Any:
        part = q[:, 1:3]
        F.relu(part, inplace=True)
        q[0].fill_(0.52)
        q.masked_fill_(r > 0.3, 0.21)
        return q

    model = Over(written)
    program = to_onnx(model, tensors(2), dynamic_shapes=({0: "n"}, {0: "n"}), capture="direct")
    for count in (2, 1, 3):
        assert all(map(torch.equal, program(*tensors(count)), model(*tensors(count))))


def test_a_quantized_tensor_that_the_model_holds_is_integers_in_the_graph() -> None:
    class Holding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = torch.quantize_per_tensor(torch.linspace(-1, 1, 200), 0.01, 100, torch.quint8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Q.add(torch.quantize_per_tensor(x, 0.1, 4, torch.quint8), self.held, 0.13, 9).dequantize()

    model = Holding()
    program = to_onnx(model, (torch.randn(2, 200),), dynamic_shapes=({0: "n"},), capture="direct")
    assert {t.data_type for t in program.proto.graph.initializer if list(t.dims) == [200]} == {2}
    for count in (1, 0, 3):
        assert_near([program(x := torch.randn(count, 200))], [model(x)], 0.13)


REFUSED: dict[str, tuple[Function, str]] = {
    "an operator that is not met": (
        lambda q, r: torch.equal(q, r),
        "aten.equal.default of quantized tensors is not met",
    ),
    "a copy into other steps": (lambda q, r: q.copy_(r), "of another scale or zero point"),
    "a conversion by to()": (lambda q, r: q.to(torch.float32), r"raises RuntimeError"),
    "an element type": (lambda q, r: torch.quantize_per_tensor(q.dequantize(), 0.1, 0, torch.quint4x2), "quint4x2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_met_is_refused_with_its_line(name: str) -> None:
    function, said = REFUSED[name]
    with pytest.raises(IrkitError, match=said) as caught:
        to_onnx(Over(function), tensors(2))
    assert "test_operators.py" in str(caught.value) or "models.py" in str(caught.value)


def test_quantized_tensors_at_the_border_are_refused_with_what_to_write() -> None:
    quantized = torch.quantize_per_tensor(torch.randn(3), 0.1, 4, torch.quint8)
    with pytest.raises(IrkitError, match="no input or result of a program") as caught:
        to_onnx(lambda x: x.dequantize(), (quantized,))
    assert "_make_per_tensor_quantized_tensor" in str(caught.value)
    with pytest.raises(IrkitError, match="no input or result of a program"):
        to_onnx(lambda x: torch.quantize_per_tensor(x, 0.1, 4, torch.quint8), (torch.randn(3),))
