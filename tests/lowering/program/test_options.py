"""The options of an export: one record, and the signatures that say the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import attrs
import onnxruntime
import pytest
import torch

import irkit
from irkit.onnx.save import Form
from lowering import lower
from lowering.capture.capture import capture
from lowering.errors import CaptureError
from lowering.program.clock import Clock
from lowering.records.options import ExportOptions

FIELDS = {field.name: field.default for field in attrs.fields(ExportOptions)}
INNER = ("dynamo", "live", "gradients", "kernels")
"""What the record holds that is no option of an export."""


def keywords(function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of the arguments that a function takes by name only."""
    found = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in found if each.kind is each.KEYWORD_ONLY}


def test_to_onnx_takes_what_the_record_holds_with_the_same_defaults() -> None:
    assert keywords(irkit.to_onnx) == {name: default for name, default in FIELDS.items() if name not in INNER}


@pytest.mark.parametrize(("function", "names"), [(lower, {}), (capture, {"strict": "dynamo"})])
def test_lower_and_capture_take_a_part_of_it(function: Callable[..., Any], names: dict[str, str]) -> None:
    for name, default in keywords(function).items():
        assert FIELDS[names.get(name, name)] == default, name


def test_save_takes_what_the_form_of_a_file_holds_and_a_target() -> None:
    form = {field.name: field.default for field in attrs.fields(Form)}
    assert keywords(irkit.save) == {**form, "target": None}


def test_the_record_refuses_what_there_is_none_of_and_cannot_be_changed() -> None:
    with pytest.raises(CaptureError, match="capture is 'jit'"):
        ExportOptions(capture="jit")
    with pytest.raises(CaptureError, match="specialization is 'ignore'"):
        ExportOptions(specialization="ignore")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        ExportOptions().widen = False  # type: ignore[misc]


def test_lower_goes_either_way_and_tells_of_its_progress() -> None:
    told: list[tuple[int, int]] = []

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sum(0)

    graphs = [
        lower(
            scaled, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},), capture=way, progress=lambda *at: told.append(at)
        )
        for way in ("torch.export", "direct")
    ]
    assert [v.op for v in graphs[0].order] == [v.op for v in graphs[1].order]
    assert all(len(at) == 2 for at in told)
    with pytest.raises(CaptureError, match="capture is 'dynamo'"):
        lower(scaled, (torch.randn(3),), capture="dynamo")


def test_a_clock_notes_stages_that_end() -> None:
    told: list[tuple[str, int, int]] = []
    clock = Clock(progress=lambda *at: told.append(at))
    with clock("optimize"):
        pass
    with pytest.raises(ValueError), clock("legalize"):
        raise ValueError
    assert list(clock.seconds) == ["optimize"]
    assert told == [("optimize", 0, 1), ("optimize", 1, 1), ("legalize", 0, 1)]


@pytest.mark.parametrize("name", ["widen", "strict", "copy", "optimize"])
def test_a_flag_is_true_or_false(name: str) -> None:
    """ "no" would count as yes."""
    given: dict[str, Any] = {name: "no"}
    with pytest.raises(CaptureError, match=f"{name} is 'no'"):
        irkit.to_onnx(torch.relu, (torch.zeros(2),), **given)


def test_progress_is_called() -> None:
    wrong: Any = 1
    with pytest.raises(CaptureError, match="progress is 1"):
        irkit.to_onnx(torch.relu, (torch.zeros(2),), progress=wrong)


def test_a_provider_that_the_installed_runtime_lacks_is_told() -> None:
    x = torch.randn(2, 3)
    notes = irkit.to_onnx(torch.nn.GELU(), (x,), target="onnxruntime-cuda").report.notes
    available = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    told = "no cost was measured on" if available else "the installed ONNX Runtime has no"
    assert [note.partition(" CUDAExecutionProvider")[0] for note in notes] == [told]
    assert "run on the CPU" in notes[0]
    for target in ("onnxruntime-cpu", "onnxruntime-web", "onnx", "tract"):
        assert not irkit.to_onnx(torch.nn.GELU(), (x,), target=target).report.notes
