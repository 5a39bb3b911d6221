"""What `unbind` and `split` give of an axis whose length varies, as a value of its own, and `functools.reduce` over
rows: at all sizes what it is in eager, also where it is written."""

from __future__ import annotations

import functools
import operator
from typing import Any

import pytest
import torch

import irkit
from tests.lowering.control_flow.test_functions import same


def first_and_last(x: torch.Tensor) -> Any:
    rows = x.unbind(0)
    return rows[0], rows[-1] * len(rows), torch.unbind(x.T, 1)[-1], x.unbind(dim=0)[0]


def joined(x: torch.Tensor) -> Any:
    return (
        torch.stack(x.unbind(0)[::-1]),
        torch.cat(x.unbind(0)),
        torch.stack([*x.unbind(0)], 1),
        torch.tensor([*range(len(x))]),
    )


def halves(x: torch.Tensor) -> Any:
    parts = x.split(2)
    return parts[0], torch.split(x, 3)[-1], len(parts), torch.cat([each * 2 for each in parts])


def recurrent(x: torch.Tensor) -> Any:
    state, found = torch.zeros(3), []
    for row in torch.unbind(x, 0):
        state = torch.tanh(state + row)
        found.append(state)
    return torch.stack(found)


def chosen(x: torch.Tensor) -> Any:
    rows = x.unbind(0)
    if x.sum() > 0:
        return rows[0]
    return rows[-1] * 2


def put_together(x: torch.Tensor) -> Any:
    running = functools.reduce(lambda a, i: a * 0.5 + x[i], range(x.shape[0]), x[0])
    weighted = functools.reduce(lambda a, pair: a + pair[0] * pair[1], zip(x, x.flip(0), strict=True), torch.zeros(3))
    return (
        running,
        weighted,
        functools.reduce(torch.maximum, x.unbind(0)),
        functools.reduce(operator.add, [r * 2 for r in x]),
    )


def written_first(x: torch.Tensor) -> Any:
    y = x.clone()
    y.unbind(0)[0].add_(1)
    rows = y.unbind(0)
    rows[-1].mul_(3)
    return y, rows[-1], torch.stack(rows)


def written_behind(x: torch.Tensor) -> Any:
    y = x.clone()
    rows, parts = y.unbind(0), y.split(2)
    y.add_(1)
    return rows[0], torch.stack(rows), parts[0]


def other_names(x: torch.Tensor) -> Any:
    def reduce(a: Any, b: Any) -> Any:
        return a + b

    words = "a b c".split()
    return reduce(x, x) * len(words) if x.sum() > 0 else x


MODELS = [
    first_and_last, joined, halves, recurrent, chosen, put_together, written_first, written_behind, other_names,
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_parts_of_an_axis_that_varies_are_those_of_eager(model: Any) -> None:
    x = torch.arange(12.0).reshape(4, 3).sin()
    program = irkit.to_onnx(model, (x,), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    for n in (4, 5, 1, 9, 2, 3):
        for sign in (1, -1):
            x = torch.arange(n * 3.0).reshape(n, 3).cos() * sign
            same(model(x.clone()), program(x.clone()))


def test_one_part_that_is_written_leaves_how_many_there_are_to_vary() -> None:
    def written(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.split(2)[0].add_(1)
        return y

    program = irkit.to_onnx(written, (torch.ones(4, 3),), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    for n in (4, 3, 9, 1):
        same(written(torch.ones(n, 3)), program(torch.ones(n, 3)))


def test_parts_that_are_written_keep_how_many_there_are() -> None:
    def written(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        place = int(x.shape[1]) - 3
        y.split(2)[place].add_(1)
        return y

    program = irkit.to_onnx(written, (torch.ones(4, 3),), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    same(written(torch.ones(3, 3)), program(torch.ones(3, 3)))
    with pytest.raises(irkit.ContractError):
        program(torch.ones(9, 3))


def test_parts_that_are_left_as_they_are_do_not_fix_what_loops_vary() -> None:
    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y = y.clone()
        y.split(2)[0].add_(1)
        return torch.stack([row * 2 for row in x]).sum(0) + y.sum(0)

    program = irkit.to_onnx(
        both, (torch.ones(4, 3), torch.ones(4, 3)), dynamic_shapes=({0: "n"}, {0: "m"}), capture="direct", rewrite=True
    )
    for n in (4, 1, 7):
        same(both(torch.ones(n, 3), torch.ones(3, 3)), program(torch.ones(n, 3), torch.ones(3, 3)))
