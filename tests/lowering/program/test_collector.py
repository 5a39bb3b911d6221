"""Python's collector of cycles, which is paused while a file is made, but not while torch.export captures."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

import irkit
from irkit.support.uncollected import with_collector, without_collector
from lowering.program import to_onnx, ways


def noting(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, found: list[bool]) -> None:
    """Has a function of a module note whether the collector runs."""
    own = getattr(module, name)

    def noted(*args: Any, **kwargs: Any) -> Any:
        found.append(gc.isenabled())
        return own(*args, **kwargs)

    monkeypatch.setattr(module, name, noted)


@pytest.mark.parametrize(("capture", "captures"), [("direct", False), ("torch.export", True)])
def test_the_collector_is_paused_unless_torch_captures(
    capture: str, captures: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_captured, between, after = list[bool](), list[bool](), list[bool]()
    noting(monkeypatch, ways, "capture_model" if captures else "trace_ways", while_captured)
    noting(monkeypatch, to_onnx, "program_of", between)
    irkit.to_onnx(torch.nn.ReLU(), (torch.ones(2),), capture=capture)
    after.append(gc.isenabled())
    assert (while_captured, between, after) == ([captures], [False], [True])


def test_one_that_the_user_paused_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    noting(monkeypatch, ways, "capture_model", found)
    gc.disable()
    try:
        irkit.to_onnx(torch.nn.ReLU(), (torch.ones(2),), capture="torch.export")
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert found == [False]


def test_it_is_as_it_was_after_an_error() -> None:
    found: list[bool] = []

    @with_collector
    def failing() -> None:
        found.append(gc.isenabled())
        raise ValueError

    @without_collector
    def around() -> None:
        with pytest.raises(ValueError):
            failing()
        found.append(gc.isenabled())

    around()
    assert found == [True, False]
    assert gc.isenabled()
