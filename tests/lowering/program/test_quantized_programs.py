# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# torchao is an extra, and int4 an element type that stubs of torch lack.
"""Programs that others quantized: PT2E, torchao's weights, torch.ao's reference modules. Integers stay integers."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from irkit.doors.to_onnx import to_onnx

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torchao = pytest.importorskip("torchao", reason="torchao is an extra: pip install irkit[torchao]")
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8DynamicActivationIntxWeightConfig,
        Int8WeightOnlyConfig,
        IntxWeightOnlyConfig,
        PerAxis,
        PerGroup,
        quantize_,
    )
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

pytestmark = pytest.mark.filterwarnings("ignore")  # torch and torchao warn of one another
CAPTURES = ("direct", "torch.export")
INT8, INT4 = 3, 22  # of onnx.TensorProto


class Net(nn.Module):
    """Convolutions with a residual, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second, self.last = nn.Conv2d(16, 16, 3, padding=1), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.first(x)))
        y = nn.functional.max_pool2d(torch.relu(self.second(y) + y), 2)
        return self.last(y.mean((2, 3)))


def images(count: int) -> torch.Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(count))


def rows(count: int) -> torch.Tensor:
    return torch.randn(count, 64, generator=torch.Generator().manual_seed(count))


def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32)).eval()


def by_pt2e(model: nn.Module, x: torch.Tensor, quantizer: Any, training: bool = False) -> Any:
    """What PT2E makes of a model, for any batch."""
    shapes = ({0: torch.export.Dim("batch", min=2, max=64)},)
    module: Any = torch.export.export(model, (x,), dynamic_shapes=shapes).module()
    module = (prepare_qat_pt2e if training else prepare_pt2e)(module, quantizer)
    module(x)
    if training:
        module(x * 0.9)
        move_exported_model_to_eval(module)
    return convert_pt2e(module)


def for_xnnpack(**options: Any) -> Any:
    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(**options))


def for_x86(**options: Any) -> Any:
    return X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config(**options))


def optimized_operators(program: Any) -> Counter[str]:
    """The operators of a program's file once ONNX Runtime has optimized it."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        data = program.proto.SerializeToString()
        onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        return Counter(node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node)


def kinds(program: Any) -> dict[tuple[int, ...], int]:
    """The element types of a program's weights by their shape."""
    return {tuple(t.dims): t.data_type for t in program.proto.graph.initializer if len(t.dims) > 1}


STATIC = {
    "per tensor": lambda: by_pt2e(Net().eval(), images(4), for_xnnpack()),
    "per channel": lambda: by_pt2e(Net().eval(), images(4), for_xnnpack(is_per_channel=True)),
    "trained": lambda: by_pt2e(Net().train(), images(4), for_xnnpack(is_per_channel=True, is_qat=True), True),
    "for x86": lambda: by_pt2e(Net().eval(), images(4), for_x86()),
}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("name", STATIC)
def test_static_pt2e_runs_on_integer_kernels(name: str, capture: str) -> None:
    torch.manual_seed(0)
    model = STATIC[name]()
    program = to_onnx(model, (images(4),), dynamic_shapes=({0: "batch"},), capture=capture)
    assert {shape: kinds(program)[shape] for shape in ((16, 3, 3, 3), (16, 16, 3, 3), (10, 16))} == dict.fromkeys(
        ((16, 3, 3, 3), (16, 16, 3, 3), (10, 16)), INT8
    )
    found = optimized_operators(program)
    integers = {"QLinearConv": 2, "QLinearAdd": 1, "QGemm": 1} if name != "for x86" else {"QLinearConv": 1}
    assert {key: found[key] for key in integers} == integers, found  # the quantizer for x86 leaves the last in floats
    for count in (4, 2, 7):
        with torch.no_grad():
            expected = model(images(count))
        gap = (program(images(count)) - expected).abs()
        # ONNX Runtime's integer kernels round some sums to the step beside torch's: a few steps of the results.
        assert float(gap.max()) <= 0.05 * float(expected.abs().max()), float(gap.max())
        assert float(gap.mean()) <= 0.01 * float(expected.abs().max())


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("quantizer", ("xnnpack", "x86"))
def test_dynamic_pt2e_runs_on_integer_kernels(quantizer: str, capture: str) -> None:
    wanted = for_x86(is_dynamic=True) if quantizer == "x86" else for_xnnpack(is_per_channel=True, is_dynamic=True)
    model = by_pt2e(perceptron(), rows(4), wanted)
    program = to_onnx(model, (rows(4),), dynamic_shapes=({0: "batch"},), capture=capture)
    assert set(kinds(program).values()) == {INT8}
    assert optimized_operators(program)["MatMulIntegerToFloat"] == 2
    for count in (4, 2, 9):
        torch.testing.assert_close(program(rows(count)), model(rows(count)), rtol=1e-5, atol=1e-5)


WEIGHTS: dict[str, tuple[Any, int, dict[str, int]]] = {
    "int8": (Int8WeightOnlyConfig(), INT8, {"DequantizeLinear": 2}),
    "int8 by axis": (
        IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)), INT8, {"DequantizeLinear": 2},
    ),
    "int4 by groups": (
        IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), INT4, {"DequantizeLinear": 2},
    ),
    "int8, activations too": (Int8DynamicActivationInt8WeightConfig(), INT8, {"MatMulInteger": 2}),
    "int4, activations of int8": (
        Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)), INT4,
        {"QuantizeLinear": 2, "DequantizeLinear": 4},
    ),
}  # fmt: skip


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_of_torchao_stay_integers(name: str, capture: str) -> None:
    config, dtype, wanted = WEIGHTS[name]
    model = perceptron()
    quantize_(model, config)
    program = to_onnx(model, (rows(4),), dynamic_shapes=({0: "batch"},), capture=capture)
    found = Counter(node.op_type for node in program.proto.graph.node)
    assert {key: found[key] for key in wanted} == wanted, found
    large = {shape: kind for shape, kind in kinds(program).items() if shape[0] * shape[1] >= 64 * 128 // 2}
    assert set(large.values()) == {dtype}
    for count in (4, 1, 9):
        with torch.no_grad():
            expected = model(rows(count))
        torch.testing.assert_close(program(rows(count)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", (13, 17, 21, 24))
def test_weights_of_torchao_at_older_opsets(opset: int) -> None:
    for name in ("int8", "int4 by groups", "int8, activations too"):
        model = perceptron()
        quantize_(model, WEIGHTS[name][0])
        program = to_onnx(model, (rows(4),), dynamic_shapes=({0: "batch"},), opset=opset)
        assert program.check(), program.check()
        small = {INT8} if opset < 21 or name != "int4 by groups" else {INT4}
        assert small <= set(kinds(program).values())


def test_names_of_weights_say_what_they_are_part_of() -> None:
    model = perceptron()
    quantize_(model, Int8WeightOnlyConfig())
    program = to_onnx(model, (rows(4),))
    names = {t.name for t in program.proto.graph.initializer}
    assert {"0.weight.qdata", "2.weight.qdata"} <= names


def test_reference_modules_of_fx_stay_integers() -> None:
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import _convert_to_reference_decomposed_fx, prepare_fx

    torch.manual_seed(0)
    model = prepare_fx(Net().eval(), get_default_qconfig_mapping("x86"), (images(4),))
    model(images(4))
    model = _convert_to_reference_decomposed_fx(model)
    program = to_onnx(model, (images(4),), dynamic_shapes=({0: "batch"},))
    assert {kinds(program)[shape] for shape in ((16, 3, 3, 3), (16, 16, 3, 3), (10, 16))} == {INT8}
    with torch.no_grad():
        expected = model(images(3))
    assert float((program(images(3)) - expected).abs().max()) <= 0.05 * float(expected.abs().max())
