"""Quantization, as observers fake it and as torch's quantized graphs have it, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators of quantized graphs

import irkit
from irkit.doors.to_onnx import to_onnx

Q = torch.ops.quantized_decomposed
X = torch.linspace(-9, 9, 60).reshape(3, 4, 5)
SCALES, POINTS = torch.tensor([0.1, 0.25, 0.03, 0.5]), torch.tensor([0, 3, -5, 100])
ONE, TRUTH = torch.tensor([0.07]), torch.tensor([1])

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


@pytest.mark.parametrize("name", FAKED)
def test_fake_quantization_is_what_torch_computes_to_the_bit(name: str) -> None:
    of_torch = name in ("the mask", "switched off")  # operators that torch.export captures for fixed sizes only
    program = to_onnx(FAKED[name], (X,), dynamic_shapes=None if of_torch else ({0: "batch"},))
    for x in (X, X * 0.9) if of_torch else (X, X[:1], torch.tensor([0.025, -0.075, 0.125, 0.35, 9e3]).expand(2, 4, 5)):
        expected, found = FAKED[name](x), program(x)
        for ours, theirs in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, expected)), strict=True):
            assert torch.equal(ours, theirs)


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


@pytest.mark.parametrize(
    ("dtype", "low", "high", "native"),
    (
        (torch.int8, -128, 127, True), (torch.uint8, 0, 255, True), (torch.int8, -127, 127, False),
        (torch.uint8, 0, 15, False), (torch.int16, -32768, 32767, False),
    ),
)  # fmt: skip
def test_quantized_graphs(dtype: torch.dtype, low: int, high: int, native: bool) -> None:
    def function(x: torch.Tensor) -> Any:
        return there_and_back(x, dtype, low, high)

    program = to_onnx(function, (X,), dynamic_shapes=({0: "batch"},))
    for x in (X, X[:1] * 1.7):
        for ours, theirs in zip(program(x), function(x), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    operators = {node.op_type for node in program.proto.graph.node}
    assert ("QuantizeLinear" in operators) is native and irkit.load(program.proto) == program.ready
