"""What is made for one capture of a model with its decisions rewritten serves those that begin anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from lowering.control_flow import rewriting
from lowering.direct import run


def first(x: Tensor) -> Tensor:
    return x + 1 if x.sum() > 0 else x - 1


def second(x: Tensor) -> Tensor:
    return x * 2 if x.amax() > 1 else x * 3


def third(x: Tensor) -> Tensor:
    if x.mean() > 0:
        x = x.exp()
    if x.amin() > 0:
        x = x.log()
    return x


def test_a_function_is_rewritten_once_for_each_decision_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int]] = []
    rewritten_code = rewriting.rewritten_code

    def counted(code: Any, places: Any) -> Any:
        made.append((code.co_name, len(places)))
        return rewritten_code(code, places)

    monkeypatch.setattr(rewriting, "rewritten_code", counted)
    program = irkit.to_onnx(lambda x: third(second(first(x))), (torch.rand(3),), rewrite=True)
    assert made == [("first", 1), ("second", 1), ("third", 1), ("third", 2)]
    for x in (torch.rand(3), -torch.rand(3), torch.tensor([-4.0, 1.0, 2.0])):
        torch.testing.assert_close(program(x), third(second(first(x))))


def parted(x: Tensor) -> Tensor:
    half = int(x.shape[0] // 2)
    return third(second(x[:half]))


def test_what_one_capture_finds_of_sizes_is_known_to_those_that_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of a size that the model takes ends a run, once: not once for each decision behind it."""
    runs: list[bool] = []
    once = run.run_once
    monkeypatch.setattr(run, "run_once", lambda *given: runs.append(given[4][0] is None) or once(*given))
    shapes: Any = ({0: "n"},)
    program = irkit.to_onnx(parted, (torch.rand(6),), dynamic_shapes=shapes, rewrite=True, widen=False)
    assert runs.count(True) == 1
    for n in (2, 5, 9):
        for x in (torch.rand(n), -torch.rand(n), 4 * torch.rand(n)):
            torch.testing.assert_close(program(x), parted(x), equal_nan=True)
