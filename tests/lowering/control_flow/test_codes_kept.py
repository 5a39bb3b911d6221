"""What is made for one capture of a model with its decisions rewritten serves those that begin anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from lowering.control_flow import rewriting


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
