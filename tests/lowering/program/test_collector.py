"""Python's collector of cycles, which is paused while a file is made, but not while torch.export captures."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch

import irkit
from irkit.support.uncollected import collector_paused, with_collector, without_collector
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


class Ring:
    """An object that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


def test_what_a_pause_leaves_counts_as_old_and_is_collected_all_the_same() -> None:
    with collector_paused():
        kept = Ring()
        left = weakref.ref(Ring())
    assert all(kept is not each for generation in (0, 1) for each in gc.get_objects(generation))
    assert left() is not None
    gc.collect()
    assert left() is None


def test_what_others_keep_from_the_collector_stays_so() -> None:
    script = """
import gc
import weakref
from irkit.support.uncollected import collector_paused
class Ring: pass
ring = Ring(); ring.itself = ring; left = weakref.ref(ring); del ring
gc.freeze(); count = gc.get_freeze_count()
with collector_paused(): pass
gc.collect()
assert gc.get_freeze_count() == count and left() is not None
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_export_waits_for_no_module_that_it_does_not_need() -> None:
    script = """
import sys
import torch
import irkit
irkit.to_onnx(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
print(*(n for n in ("rich", "torch._dynamo", "passes.saturation", "lowering.capture.leaves") if n in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
