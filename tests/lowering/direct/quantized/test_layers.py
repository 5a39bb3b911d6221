"""Models that eager mode and FX quantize statically, against torch at several sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from irkit.doors.to_onnx import to_onnx
from tests.lowering.direct.quantized.models import Between, assert_near, converted, optimized_operators

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.ao import quantization
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of its own deprecated modules
UINT8 = 2  # of onnx.TensorProto: beside unsigned activations, of which signed weights go wrong on some processors


class Residual(nn.Module):
    """Convolutions with a residual, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.begin, self.end = quantization.QuantStub(), quantization.DeQuantStub()
        self.first, self.norm, self.relu = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()
        self.second, self.last = nn.Conv2d(16, 16, 3, padding=1, groups=2), nn.Linear(16, 10)
        self.sum, self.product = FloatFunctional(), FloatFunctional()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.norm(self.first(self.begin(x))))
        y = self.sum.add_relu(self.second(y), y)
        y = self.product.mul(y, F.adaptive_avg_pool2d(y, 1))
        return self.end(self.last(F.max_pool2d(y, 2).mean((2, 3))))


def images(count: int, height: int = 8, width: int = 8) -> torch.Tensor:
    return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(count))


def residual(engine: str = "x86") -> Any:
    torch.manual_seed(0)
    return converted(Residual(), images(8), [("first", "norm", "relu")], engine)


@pytest.mark.parametrize("engine", ("x86", "qnnpack"))
def test_static_models_run_on_integer_kernels(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", engine)  # which the test leaves as it was
    model = residual(engine)
    shapes = ({0: "n", 2: "h", 3: "w"},)
    program = to_onnx(model, (images(2),), dynamic_shapes=shapes)
    assert program.report.capture == "traced directly"
    stored = {t.name: t.data_type for t in program.proto.graph.initializer}
    assert {stored[f"{name}.weight"] for name in ("first", "second", "last")} == {UINT8}
    found = optimized_operators(program)
    assert found["QLinearConv"] == 2 and found["QGemm"] == 1 and found["QLinearAdd"] == 1, found
    assert program.check()
    for size in ((2, 8, 8), (1, 5, 9), (7, 12, 4)):
        assert_near([program(images(*size))], [model(images(*size))], model.last.scale, 0.3)  # sums of sums of steps
    assert program(images(0)).shape == (0, 10)


SEVEN_BITS = quantization.QConfig(
    quantization.MinMaxObserver.with_args(reduce_range=True), quantization.default_weight_observer
)
"""torch's kernels for x86 add up two products in 16 bits where the processor has no VNNI."""

LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...], tuple[int, ...]]] = {
    "conv1d, reflected": (
        lambda: converted(
            Between(nn.Conv1d(4, 8, 3, 1, 1, padding_mode="reflect"), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2)),
            torch.randn(4, 4, 10), [("layers.0", "layers.1", "layers.2")],
        ), (2, 4, 10), (3, 4, 7),
    ),
    "conv3d": (
        lambda: converted(
            Between(nn.Conv3d(4, 8, (1, 3, 3)), nn.ReLU(), nn.BatchNorm3d(8), nn.AdaptiveAvgPool3d(1)),
            torch.randn(4, 4, 3, 6, 7), [("layers.0", "layers.1")],
        ), (2, 4, 3, 6, 7), (1, 4, 5, 6, 7),
    ),
    "transposed": (
        lambda: converted(
            Between(nn.ConvTranspose2d(4, 8, 3, 2, 1, 1, groups=2), nn.ReLU()), torch.randn(4, 4, 5, 6),
            qconfig=SEVEN_BITS,
        ), (2, 4, 5, 6), (1, 4, 7, 6),
    ),
    "transposed, one axis": (
        lambda: converted(
            Between(nn.ConvTranspose1d(4, 8, 3, 2, 1, 1), nn.LeakyReLU(0.1), nn.Sigmoid()),
            torch.randn(4, 4, 5), qconfig=quantization.get_default_qconfig("qnnpack"), engine="qnnpack",
        ), (2, 4, 5), (1, 4, 9),
    ),
    "norms": (
        lambda: converted(
            Between(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GroupNorm(2, 8), nn.LayerNorm([6, 6]), nn.Flatten(),
                    nn.Linear(288, 4), nn.Dropout()), torch.randn(8, 3, 8, 8),
        ), (2, 3, 8, 8), (5, 3, 8, 8),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_give_the_integers_of_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")
    torch.manual_seed(0)
    make, size, other = LAYERS[name]
    model = make()
    axes = {0: "n"} if name == "norms" else {0: "n", 2: "h"}
    program = to_onnx(model, (torch.randn(size),), dynamic_shapes=({**axes},), capture="direct")
    for shape in (size, other):
        x = torch.randn(shape)
        expected = model(x)
        steps = expected.unique().diff()
        assert_near([program(x)], [expected], float(steps[steps > 1e-7].min()))


class Plain(nn.Module):
    """What FX's quantization takes as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm(self.first(x)))
        y = torch.cat([y, F.hardswish(y)], 1).mean((2, 3))
        return (self.last(y) * 2).sigmoid()


def test_what_fx_quantizes_is_captured_directly() -> None:
    torch.manual_seed(0)
    prepared = prepare_fx(Plain().eval(), quantization.get_default_qconfig_mapping("x86"), (images(2),))
    prepared(images(8))
    model = convert_fx(prepared)
    program = to_onnx(model, (images(2),), dynamic_shapes=({0: "n", 2: "h", 3: "w"},))
    assert program.report.capture == "traced directly"
    for size in ((2, 8, 8), (1, 5, 9), (4, 12, 4)):
        assert_near([program(images(*size))], [model(images(*size))], 1 / 256, 0.2)
