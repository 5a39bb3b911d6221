"""A capture that begins anew since a further decision is rewritten keeps sizes at once where the one before it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
import lowering.direct.run
from lowering.control_flow.rewriting import Rewriting
from tests.support.written_functions import function_of

TAKEN = (
    "y = x[: int(x.shape[0] * 0.5)]",
    "y = x[: min(x.shape[0], 3)]",
    "y = x.repeat(len(x), 1)[: max(len(x) // 2, 1)]",
    "y = x[: int(math.floor(x.shape[0] / 2))]",
)
"""Code that takes the number of a size, each in globals of its own."""
DECIDED = (
    "    if y.sum() > {}:\n        y = y * 2\n",
    "    for k in (y[:, 0] > {}).nonzero().flatten().tolist():\n        y = y + k\n",
    "    while y.sum() > {}:\n        y = y - 10\n",
    "",
)
"""What data decides behind that."""


def parts(number: int) -> list[Callable[[Tensor], Tensor]]:
    """Functions that take sizes and decide by data, each of another file."""
    made: list[Callable[[Tensor], Tensor]] = []
    for at in range(3):
        taken, decided = TAKEN[(at + number) % len(TAKEN)], DECIDED[(at * (number + 1) + number) % len(DECIDED)]
        lines = f"def f(x):\n    {taken}\n{decided.format(at + 1)}    return y + x[:1]\n"
        made.append(function_of(lines, f"/restarts/part_{number}_{at}.py", space={"math": __import__("math")}))
    return made


def exported(functions: list[Callable[[Tensor], Tensor]], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, int]:
    """(the program of functions one after the other, how often it was run)"""

    def model(x: Tensor) -> Tensor:
        for function in functions:
            x = torch.cat([function(x), x])
        return x

    ran: list[int] = []
    run_once = lowering.direct.run.run_once
    with monkeypatch.context() as patch:
        patch.setattr(lowering.direct.run, "run_once", lambda *a, **k: (ran.append(1), run_once(*a, **k))[1])
        program = irkit.to_onnx(
            model,
            (torch.arange(12.0).reshape(6, 2),),
            dynamic_shapes=({0: "n"},),
            rewrite=True,
            capture="direct",
            widen=False,
        )
    return program, len(ran)


@pytest.mark.parametrize("number", range(3))
def test_what_an_earlier_capture_kept_gives_the_same_program(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = parts(number)
    program, runs = exported(functions, monkeypatch)
    monkeypatch.setattr(Rewriting, "learned", lambda self, key, new: new)
    other, more = exported(functions, monkeypatch)
    assert str(program.graph) == str(other.graph)
    assert program.graph.digest == other.graph.digest
    assert runs < more
