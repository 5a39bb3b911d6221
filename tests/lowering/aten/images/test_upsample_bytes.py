"""Images of bytes: the very bytes of torch; and the weights of symbolic sizes, which are those of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.export import Dim

from irkit import dims
from irkit.checking.comparison import compare
from irkit.core.ir import Graph, param
from irkit.core.types import tensor
from irkit.doors.to_onnx import to_onnx
from irkit.evaluation.interpreter import evaluate
from lowering.aten.images.upsample import antialiased_weights, weights
from lowering.tensors.resampling import matrix

F = torch.nn.functional
sizes = st.sampled_from([1, 2, 3, 5, 8, 13, 40])
MODES = [("bilinear", False), ("bicubic", False), ("bilinear", True), ("bicubic", True)]


class Resized(torch.nn.Module):
    """interpolate with fixed arguments."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.arguments = arguments

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, **self.arguments)


def check(model: torch.nn.Module, program: Any, shape: tuple[int, ...], seed: int) -> None:
    x = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    got = np.asarray(program(x))
    assert got.dtype == np.uint8
    assert np.array_equal(got, model(x).numpy())


@pytest.mark.parametrize(("mode", "antialias"), MODES)
@given(data=st.data(), align=st.booleans(), channels=st.sampled_from([1, 3, 6]))
@settings(max_examples=8)
def test_fixed_sizes(mode: str, antialias: bool, data: Any, align: bool, channels: int) -> None:
    height, width, *wanted = data.draw(st.lists(sizes, min_size=4, max_size=4))
    # torch 2.13 repeats the first row of results one wide: antialiased ones, and those of more than four channels.
    assume(wanted[1] > 1 or not (antialias or channels > 4))
    # torch 2.13 fails on its own assertion where three channels become one place: num_channels == size(0).
    assume(channels != 3 or wanted != [1, 1])
    model = Resized(size=tuple(wanted), mode=mode, antialias=antialias, align_corners=align)
    shape = (1, channels, height, width)
    check(model, to_onnx(model, (torch.zeros(shape, dtype=torch.uint8),)), shape, height)


@pytest.mark.parametrize(("mode", "antialias"), MODES)
@pytest.mark.parametrize("more", [{"size": (7, 9)}, {"scale_factor": 0.7}, {"scale_factor": 2.0}])
def test_symbolic_sizes(mode: str, antialias: bool, more: dict[str, Any]) -> None:
    model = Resized(mode=mode, antialias=antialias, **more)
    shapes = ({2: Dim("h", min=2, max=100), 3: Dim("w", min=2, max=100)},)
    program = to_onnx(model, (torch.zeros(1, 2, 6, 11, dtype=torch.uint8),), dynamic_shapes=shapes)
    for seed, (height, width) in enumerate([(6, 11), (3, 20), (31, 8)]):
        check(model, program, (1, 2, height, width), seed)


@given(
    size=sizes,
    out=sizes,
    align=st.booleans(),
    scaled=st.booleans(),
    mode=st.sampled_from(["linear", "cubic", "lanczos"]),
)
@settings(max_examples=40)
def test_weights_of_symbols_are_those_of_numbers(size: int, out: int, align: bool, scaled: bool, mode: str) -> None:
    for antialias in (True, False) if mode != "lanczos" else (True,):
        scale = out / size * 1.03 if scaled else None
        step = ((size - 1) / (out - 1) if out > 1 else 0.0) if align else 1 / scale if scale else size / out
        expected = (antialiased_weights if antialias else weights)(size, out, step, align, mode)
        binder = param(tensor("f32", "n", "m"))
        made = matrix(dims.symbol("n"), dims.symbol("m"), scale, align, mode, antialias)
        (got,) = evaluate(Graph((binder,), (made,)), [np.zeros((size, out), np.float32)])
        difference = compare((expected,), (np.asarray(got),), rtol=1e-9, atol=1e-12)
        assert difference is None, difference
