"""Models that torch.ao.quantization converts, and how what is made of them is compared."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.ao import quantization


class Between(nn.Module):
    """Layers between a stub that quantizes and one that does the reverse."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.begin, self.end, self.layers = quantization.QuantStub(), quantization.DeQuantStub(), nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.end(self.layers(self.begin(x)))


def converted(
    model: nn.Module, x: torch.Tensor, fused: Sequence[Sequence[str]] = (), engine: str = "x86", qconfig: Any = None
) -> Any:
    """What eager mode's static quantization makes of a model, by one sample."""
    torch.backends.quantized.engine = engine
    model = model.eval()
    model.qconfig = qconfig or quantization.get_default_qconfig(engine)  # type: ignore[assignment]
    model = quantization.fuse_modules(model, [list(each) for each in fused]) if fused else model
    prepared = quantization.prepare(model)
    prepared(x)
    return quantization.convert(prepared)


def steps_off(found: torch.Tensor, expected: torch.Tensor, step: float) -> tuple[float, float]:
    """(by how many steps two tensors differ at most, in what part of the elements they do)."""
    assert found.shape == expected.shape and found.dtype is expected.dtype
    if not found.numel():
        return 0.0, 0.0
    gap = (found.double() - expected.double()).abs() / step
    return float(gap.max()), float((gap > 0.5).double().mean())


def assert_near(found: Any, expected: Any, step: float = 1.0, share: float = 0.1) -> None:
    """Two results are the same but for single steps, at few elements."""
    for ours, theirs in zip(found, expected, strict=True):
        most, part = steps_off(ours, theirs, step if theirs.is_floating_point() else 1.0)
        assert most < 1.01 and part <= share, (most, part)


def optimized_operators(program: Any) -> Counter[str]:
    """The operators of a program's file once ONNX Runtime has optimized it."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        onnxruntime.InferenceSession(program.proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return Counter(node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node)


class Over(nn.Module):
    """A function of two quantized tensors; of each result that is quantized its integers, scale and zero point."""

    def __init__(self, *functions: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[Any]:
        q = torch.quantize_per_tensor(x, 0.1, 4, torch.quint8)
        r = torch.quantize_per_tensor(y, 0.17, 6, torch.quint8)
        found: list[Any] = []
        for function in self.functions:
            made = function(q, r)
            for each in made if isinstance(made, list | tuple) else [made]:
                if isinstance(each, torch.Tensor) and each.is_quantized:
                    found += [each.int_repr(), torch.tensor(each.q_scale()), torch.tensor(each.q_zero_point())]
                else:
                    found.append(each)
        return found
