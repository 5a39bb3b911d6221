"""Quantization, as observers fake it and as torch's quantized graphs have it, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators of quantized graphs
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.ao.quantization import disable_observer, get_default_qat_qconfig, prepare_qat

import irkit
from irkit.doors.to_onnx import to_onnx
from irkit.errors import IrkitError

Q = torch.ops.quantized_decomposed
X = torch.linspace(-9, 9, 60).reshape(3, 4, 5)
SCALES, POINTS = torch.tensor([0.1, 0.25, 0.03, 0.5]), torch.tensor([0, 3, -5, 100])
ONE = torch.tensor([0.07])
CAPTURES = ("direct", "torch.export")
ENDS = {
    "int8": (-128, 127), "uint8": (0, 255), "int8 symmetric": (-127, 127), "7 bits": (0, 127), "4 bits": (-8, 7),
    "unsigned 4 bits": (0, 15), "16 bits": (-32768, 32767), "unsigned 16 bits": (0, 65535), "20 bits": (0, 2**20 - 1),
}  # fmt: skip

FAKED: dict[str, Callable[[torch.Tensor], Any]] = {
    "per tensor": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127),
    "a range of four bits": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.3, 8, 0, 15),
    "parameters in tensors": lambda x: torch.fake_quantize_per_tensor_affine(
        x, ONE, torch.tensor([2], dtype=torch.int32), 0, 255
    ),
    "per channel": lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, POINTS.int(), 1, -128, 127),
    "per channel, the last": lambda x: torch.fake_quantize_per_channel_affine(
        x.transpose(1, 2), SCALES, POINTS.int(), 2, -10, 127
    ),
    "the mask": lambda x: torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.05, 3, -128, 127),
    "switched off": lambda x: torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        x, ONE, torch.tensor([2], dtype=torch.int32), torch.tensor([0]), 0, 255
    ),
}


def assert_same_steps(found: torch.Tensor, expected: torch.Tensor, x: torch.Tensor, scale: torch.Tensor) -> None:
    """Two tensors are equal but where x lies in the middle between two steps, to a few roundings: there they may be one
    step apart. A step is 1 between integers, `scale` between floats."""
    assert found.dtype is expected.dtype and found.shape == expected.shape
    wide = [each.double() for each in torch.broadcast_tensors(found, expected, x, scale)]
    ours, theirs, x, scale = wide
    step = scale if found.is_floating_point() else torch.ones_like(scale)
    gap = (ours - theirs).abs()
    steps = x / scale
    middle = ((steps - steps.floor()) - 0.5).abs() <= 1e-6 * (1 + steps.abs())
    rounding = 3e-7 * theirs.abs()  # of the float32 that the products are
    assert bool((gap <= step * 1.001 + rounding).all()) and bool((middle | (gap <= 1e-6 * theirs.abs())).all())


def beside(scales: torch.Tensor, axis: int | None, x: torch.Tensor) -> torch.Tensor:
    """Scales so that they broadcast with x."""
    at = [1] * x.dim()
    if axis is not None:
        at[axis] = scales.numel()
    return scales.reshape(at)


def operators(program: Any) -> set[str]:
    """The operators in a program's file."""
    return {node.op_type for node in program.proto.graph.node}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("name", FAKED)
def test_faked_quantization_goes_through_integers(name: str, capture: str) -> None:
    of_torch = name in ("the mask", "switched off")  # operators that torch.export captures for fixed sizes only
    program = to_onnx(FAKED[name], (X,), dynamic_shapes=None if of_torch else ({0: "batch"},), capture=capture)
    more = torch.tensor([0.0251, -0.0751, 0.1251, 0.3501, 9e3]).expand(2, 4, 5)
    for x in (X, X * 0.9) if of_torch else (X, X[:1], X[:0], more):
        expected, found = FAKED[name](x), program(x)
        for ours, theirs in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, expected)), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    wanted = {"Identity"} if name == "switched off" else {"QuantizeLinear", "DequantizeLinear"}
    assert wanted <= operators(program)
    assert ("Round" in operators(program)) is (name == "the mask")  # which alone is computed


@st.composite
def quantizations(draw: Any) -> tuple[torch.Tensor, int | None, torch.Tensor, torch.Tensor, int, int]:
    """(x, axis or None for all of it, scales, zero points, least, largest integer): sizes 0 and 1, negative axes, and
    numbers at the ends of the range, far outside, and in the middle between steps."""
    low, high = ENDS[draw(st.sampled_from(tuple(ENDS)))]
    shape = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    axis = draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    count = 1 if axis is None else shape[axis]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    scales = torch.from_numpy(rng.choice([0.5, 0.037, 2.0, 1e-3, 0.25], count).astype(np.float32))
    symmetric = draw(st.booleans())
    middle = max(low, min(high, 0))
    points = np.full(count, middle) if symmetric else rng.integers(low, high + 1, count)
    steps = rng.uniform(low - 3, high + 3, shape) if draw(st.booleans()) else rng.integers(low, high, shape) + 0.5
    at = [1] * len(shape)
    if axis is not None:
        at[axis] = count
    wide = scales if axis is None else scales.reshape(at)
    x = torch.from_numpy((steps - points.reshape(at if axis is not None else ())).astype(np.float32)) * wide
    return x, axis, scales, torch.from_numpy(points.astype(np.int32)), low, high


@settings(max_examples=40)
@given(quantizations(), st.sampled_from(CAPTURES))
def test_faked_quantization_of_any_form(case: Any, capture: str) -> None:
    x, axis, scales, points, low, high = case

    def function(x: torch.Tensor) -> torch.Tensor:
        if axis is None:
            return torch.fake_quantize_per_tensor_affine(x, scales, points, low, high)
        return torch.fake_quantize_per_channel_affine(x, scales, points, axis, low, high)

    try:
        expected = function(x)
    except RuntimeError:
        assume(False)
    else:
        assert_same_steps(to_onnx(function, (x,), capture=capture)(x), expected, x, beside(scales, axis, x))


@settings(max_examples=40)
@given(quantizations(), st.sampled_from((torch.int8, torch.uint8, torch.int16, torch.int32)), st.sampled_from(CAPTURES))
def test_integers_of_any_form(case: Any, dtype: torch.dtype, capture: str) -> None:
    x, axis, scales, points, low, high = case
    ends = torch.iinfo(dtype)
    low, high = max(low, ends.min), min(high, ends.max)
    points = points.clamp(low, high).long()

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if axis is None:
            made = Q.quantize_per_tensor(x, scales[0], points[0], low, high, dtype)
            return made, Q.dequantize_per_tensor(made, scales[0], points[0], low, high, dtype)
        made = Q.quantize_per_channel(x, scales, points, axis, low, high, dtype)
        return made, Q.dequantize_per_channel(made, scales, points, axis, low, high, dtype)

    expected, found = function(x), to_onnx(function, (x,), capture=capture)(x)
    for ours, theirs in zip(found, expected, strict=True):
        assert_same_steps(ours, theirs, x, beside(scales, axis, x))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float64))
def test_faked_quantization_keeps_the_element_type(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127)

    x = X.to(dtype)
    try:
        expected = function(x)
    except RuntimeError:
        pytest.skip("torch does not fake the quantization of this element type")
    found = to_onnx(function, (x,))(x)
    assert found.dtype is dtype
    torch.testing.assert_close(found.float(), expected.float(), rtol=1e-2, atol=0.051)


def there_and_back(x: torch.Tensor, dtype: torch.dtype, low: int, high: int) -> Any:
    """Whole numbers of an element type, and what they stand for: with one scale, and with one for each channel."""
    one = Q.quantize_per_tensor(x, 0.05, 3, low, high, dtype)
    held = Q.quantize_per_tensor(x, ONE[0], POINTS[1], low, high, dtype)
    points = POINTS.clamp(low, high)
    each = Q.quantize_per_channel(x, SCALES, points, 1, low, high, dtype)
    return (
        one, held, each, Q.dequantize_per_tensor(one, 0.05, 3, low, high, dtype),
        Q.dequantize_per_tensor(held, ONE[0], POINTS[1], low, high, dtype),
        Q.dequantize_per_channel(each, SCALES, points, 1, low, high, dtype),
    )  # fmt: skip


@pytest.mark.parametrize("opset", (13, 17, 19, 21, 23, 25))
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    (
        (torch.int8, -128, 127), (torch.uint8, 0, 255), (torch.int8, -127, 127), (torch.uint8, 0, 15),
        (torch.int16, -32768, 32767),
    ),
)  # fmt: skip
def test_quantized_graphs(dtype: torch.dtype, low: int, high: int, opset: int) -> None:
    def function(x: torch.Tensor) -> Any:
        return there_and_back(x, dtype, low, high)

    program = to_onnx(function, (X,), dynamic_shapes=({0: "batch"},), opset=opset)
    for x in (X, X[:1] * 1.7, X[:0]):
        for ours, theirs in zip(program(x), function(x), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    native = opset >= 21 or dtype is not torch.int16
    assert ("QuantizeLinear" in operators(program)) is native and irkit.load(program.proto) == program.ready


# ---------------------------------------------------------------------------------------------- chosen for each call


def chosen(x: torch.Tensor, dtype: torch.dtype, low: int, high: int, symmetric: bool) -> tuple[torch.Tensor, ...]:
    """Integers by the range of all numbers, and what they stand for."""
    choose = Q.choose_qparams_symmetric.tensor if symmetric else Q.choose_qparams.tensor
    scale, point = choose(x, low, high, 1e-5, dtype)
    made = Q.quantize_per_tensor.tensor(x, scale, point, low, high, dtype)
    return scale, point, made, Q.dequantize_per_tensor.tensor(made, scale, point, low, high, dtype)


def by_tokens(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Integers by the range of each row, and what they stand for."""
    scale, point = Q.choose_qparams_per_token_asymmetric(x, torch.int8)
    made = Q.quantize_per_token(x, scale, point, -128, 127, torch.int8)
    back = Q.dequantize_per_token(made, scale, point, -128, 127, torch.int8, torch.float32)
    return scale, point, made, back


def by_groups(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Integers with scales for pairs of numbers, and what they stand for."""
    x = x[:, :, :4].reshape(-1, 4)
    scale = torch.full((x.shape[0], 2), 0.07)
    point = torch.ones_like(scale).long()
    made = Q.quantize_per_channel_group(x, scale, point, -8, 7, torch.int8, 2)
    return made, Q.dequantize_per_channel_group(made, scale, point, -8, 7, torch.int8, 2, torch.float32)


CHOSEN: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "int8": lambda x: chosen(x, torch.int8, -128, 127, False),
    "uint8": lambda x: chosen(x, torch.uint8, 0, 255, False),
    "int8 symmetric": lambda x: chosen(x, torch.int8, -127, 127, True),
    "uint8 symmetric": lambda x: chosen(x, torch.uint8, 0, 255, True),
    "tokens": by_tokens,
    "groups": by_groups,
}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("name", CHOSEN)
def test_scales_that_are_chosen_for_each_call(name: str, capture: str) -> None:
    program = to_onnx(CHOSEN[name], (X,), dynamic_shapes=({0: "batch"},), capture=capture)
    torch.manual_seed(0)
    for x in (X, torch.randn(1, 4, 5), torch.randn(7, 4, 5) * 30, torch.zeros(2, 4, 5), X.abs() + 3):
        for ours, theirs in zip(program(x), CHOSEN[name](x), strict=True):
            assert ours.dtype is theirs.dtype
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    assert {"QuantizeLinear", "DequantizeLinear"} <= operators(program)


# ---------------------------------------------------------------------------------------------- training


def trained() -> Any:
    """A perceptron that torch.ao prepared for training, after two steps of its observers."""
    torch.manual_seed(0)
    model: Any = torch.ao.quantization.QuantWrapper(
        nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 8))
    ).train()
    model.qconfig = get_default_qat_qconfig("x86")
    prepare_qat(model, inplace=True)
    for _ in range(2):
        model(torch.randn(32, 16))
    return model.eval()


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated", "ignore:Please use quant_min and quant_max")
@pytest.mark.parametrize("capture", CAPTURES)
def test_modules_of_quantization_aware_training(capture: str) -> None:
    model, x = trained(), torch.randn(5, 16)
    with pytest.raises(IrkitError, match="observer of fake quantization is on"):
        to_onnx(model, (x,), capture=capture)
    model.apply(disable_observer)
    program = to_onnx(model, (x,), dynamic_shapes=({0: "batch"},), capture=capture)
    assert operators(program) == {"QuantizeLinear", "Clip", "DequantizeLinear", "Gemm", "Relu"}
    kinds = {tuple(t.dims): t.data_type for t in program.proto.graph.initializer}
    assert kinds[(24, 16)] == kinds[(8, 24)] == 2  # uint8, beside unsigned activations
    for count in (5, 1, 0, 9):
        x = torch.randn(count, 16)
        with torch.no_grad():
            expected = model(x)
        step = float(model.module[2].activation_post_process.scale)
        gap = (program(x) - expected).abs()
        assert bool((gap <= step * 1.001).all())
        assert float((gap > step / 2).float().sum()) <= 1 + 0.02 * gap.numel()


@pytest.mark.parametrize("level", ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"))
def test_integer_kernels_give_the_same(level: str) -> None:
    """With its optimizations on, ONNX Runtime makes one operator of integers of a product between integers."""
    weight = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))

    def function(x: torch.Tensor) -> torch.Tensor:
        x = torch.fake_quantize_per_tensor_affine(x, 0.02, 128, 0, 255)
        w = torch.fake_quantize_per_channel_affine(weight, torch.full((8,), 0.02), torch.zeros(8).int(), 1, -127, 127)
        return torch.fake_quantize_per_tensor_affine(x @ w, 0.1, 128, 0, 255)

    x = torch.rand(3, 16) - 0.5
    data = to_onnx(function, (x,)).proto.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    run = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    (found,) = run.run(None, {run.get_inputs()[0].name: x.numpy()})
    assert float((torch.from_numpy(found) - function(x)).abs().max()) <= 0.1001
