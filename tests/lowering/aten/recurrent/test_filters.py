"""`lowering.aten.recurrent.filters`: torchaudio's loop over samples against one in Python, as torchaudio has it where
its own operators are not there."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
import torch

import irkit

SCHEMA = (
    "(Tensor input_signal_windows, Tensor a_coeff_flipped, Tensor(a!) padded_output_waveform) -> Tensor(a!)",
    "(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, Tensor(c!) output_waveform)"
    " -> (Tensor(a!), Tensor(b!), Tensor(c!))",
)


def filtered(x: torch.Tensor, weights: torch.Tensor, results: torch.Tensor) -> torch.Tensor:
    """Each sample less the results up to it times their weights, put where the result stands."""
    order = weights.shape[1]
    for i in range(x.shape[2]):
        window = results[:, :, i : i + order]
        results[:, :, i + order - 1] = x[:, :, i] - (window * weights).sum(2)
    return results


def overdriven(
    x: torch.Tensor, driven: torch.Tensor, before: torch.Tensor, became: torch.Tensor, heard: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Half of the sound, and three quarters of the differences of the driven one with what is left of those before."""
    for i in range(x.shape[1]):
        became.copy_(driven[:, i] - before + 0.995 * became)
        before.copy_(driven[:, i])
        heard[:, i] = x[:, i] * 0.5 + became * 0.75
    return before, became, heard


@pytest.fixture(scope="module")
def operators() -> Iterator[Any]:
    """torchaudio's operators, or those of their names and schemas."""
    if find_spec("torchaudio"):
        import_module("torchaudio.functional")  # an extra
        yield torch.ops.torchaudio
        return
    with torch.library._scoped_library("torchaudio", "FRAGMENT") as library:
        for name, schema, function in zip(("_lfilter", "_overdrive"), SCHEMA, (filtered, overdriven), strict=True):
            library.define(f"{name}_core_loop{schema}")
            library.impl(f"{name}_core_loop", function, "CompositeExplicitAutograd")
        yield torch.ops.torchaudio


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_a_filter_of_any_length(operators: Any, order: int) -> None:
    """Each channel by its own weights, at lengths of 1 and more, with results of before or without, of either width."""

    class Filter(torch.nn.Module):
        def forward(self, x: torch.Tensor, weights: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
            results = torch.cat([before, torch.zeros_like(x)], 2)
            operators._lfilter_core_loop(x, weights, results)
            return results[:, :, before.shape[2] :] * 2

    def given(batch: int, length: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
        x, before = torch.randn(batch, 3, length, dtype=dtype), torch.randn(batch, 3, order - 1, dtype=dtype)
        return x, torch.randn(3, order, dtype=dtype) / order, before

    for dtype in (torch.float32, torch.float64):
        shapes = ({0: "batch", 2: "length"}, None, {0: "batch"})
        program = irkit.to_onnx(Filter(), given(2, 9, dtype), dynamic_shapes=shapes)
        for batch, length in ((2, 9), (1, 1), (3, 40)):
            x, weights, before = given(batch, length, dtype)
            expected = filtered(x, weights, torch.cat([before, torch.zeros_like(x)], 2))[:, :, order - 1 :] * 2
            torch.testing.assert_close(program(x, weights, before), expected, rtol=1e-4, atol=1e-5)


def test_sizes_that_do_not_fit_are_refused(operators: Any) -> None:
    def model(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return operators._lfilter_core_loop(x, weights, torch.zeros(1, 1, 12))

    with pytest.raises(irkit.IrkitError, match="'length', and the model works for 10 only"):
        irkit.to_onnx(model, (torch.randn(1, 1, 10), torch.ones(1, 3)), dynamic_shapes=({2: "length"}, None))


def test_an_overdriven_sound_of_any_length(operators: Any) -> None:
    """What the loop leaves behind is written, too."""

    class Overdriven(torch.nn.Module):
        def forward(self, x: torch.Tensor, driven: torch.Tensor) -> tuple[torch.Tensor, ...]:
            before, became, heard = torch.zeros_like(x[:, 0]), torch.ones_like(x[:, 0]), torch.zeros_like(x)
            operators._overdrive_core_loop(x, driven, before, became, heard)
            return heard, before, became

    shapes = ({0: "batch", 1: "length"},) * 2
    program = irkit.to_onnx(Overdriven(), (torch.randn(2, 9), torch.randn(2, 9)), dynamic_shapes=shapes)
    for batch, length in ((2, 9), (1, 1), (3, 40)):
        x, driven = torch.randn(batch, length), torch.randn(batch, length)
        state = torch.zeros(batch), torch.ones(batch), torch.zeros_like(x)
        before, became, heard = overdriven(x, driven, *state)
        torch.testing.assert_close(program(x, driven), (heard, before, became), rtol=1e-4, atol=1e-5)
