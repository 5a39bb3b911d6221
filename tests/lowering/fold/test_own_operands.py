"""Operators that write a tensor that is among their operands, whole or in part, at the example's sizes or at others, or
write more than it holds:
where eager refuses, or reads what it has written, there is no program that answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from irkit.errors import IrkitError

WAYS = ("direct", "torch.export")
FIRST = torch.zeros(1, 4, dtype=torch.int64)


def places(t: Tensor) -> Tensor:
    """A place for each row."""
    return torch.arange(t.shape[0])


OWN: dict[str, Callable[[Tensor], Any]] = {
    "cat": lambda t: torch.cat((t,), out=t),
    "cat with nothing": lambda t: torch.cat((t, t[:0]), out=t),
    "index_select": lambda t: torch.index_select(t, 0, FIRST[0, :1], out=t),
    "gather": lambda t: torch.gather(t, 0, FIRST, out=t),
    "scatter": lambda t: t.scatter_(0, FIRST, t),
    "scatter_add": lambda t: t.scatter_add_(0, FIRST, t),
    "index_add": lambda t: t.index_add_(0, places(t), t),
    "index_copy": lambda t: t.index_copy_(0, places(t), t),
    "masked_scatter": lambda t: t.masked_scatter_(t > 0, t),
    "masked_scatter of a view": lambda t: t.view(-1).masked_scatter_(t.view(-1) > 0, t.view(-1)),
}
ALLOWED: dict[str, Callable[[Tensor], Any]] = {
    "cumsum": lambda t: torch.cumsum(t, 0, out=t),
    "add": lambda t: torch.add(t, t, out=t),
    "mul of a view": lambda t: t.mul_(t.view(-1, 4)),
    "a clone": lambda t: t.index_add_(0, places(t), t.clone()),
    "rows in another order": lambda t: t.index_copy_(0, places(t), t.flip(0)),
    "masked_fill of a sum": lambda t: t.masked_fill_(t > 0, t.sum()),
    "where": lambda t: torch.where(t > 0, t, torch.zeros(()), out=t),
}


def written(write: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    """A function that writes a copy of its argument so."""

    def model(x: Tensor) -> Tensor:
        t = x * 1
        write(t)
        return t

    return model


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OWN)
def test_what_is_read_after_it_is_written_is_refused(name: str, way: Any) -> None:
    x = torch.arange(12.0).reshape(3, 4) - 4
    with pytest.raises(IrkitError):
        irkit.to_onnx(written(OWN[name]), (x,), dynamic_shapes=({0: "n"},), capture=way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_read_before_it_is_written_is_computed(name: str, way: Any) -> None:
    x, model = torch.arange(12.0).reshape(3, 4) - 4, written(ALLOWED[name])
    program = irkit.to_onnx(model, (x,), dynamic_shapes=({0: "n"},), capture=way)
    for given in (x, x[:1] + 7, x.repeat(2, 1)):
        assert torch.equal(program(given), model(given))


MOVED: dict[str, tuple[Callable[[Tensor], Any], int]] = {
    "ends that meet": (lambda t: t[:2].copy_(t[-2:]), 6),
    "ends that are one": (lambda t: t[:2].copy_(t[-2:]), 2),
    "ends that are added": (lambda t: t[:2].add_(t[-2:]), 6),
    "a part that is the same one": (lambda t: t[:2].add_(t[t.shape[0] - 3 : t.shape[0] - 1]), 3),
    "a turned one": (lambda t: t[:, : t.shape[0]].copy_(t[:, : t.shape[0]].t()), 1),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MOVED)
def test_a_write_that_reads_other_elements_of_its_own_at_some_sizes_is_refused_there(name: str, way: Any) -> None:
    write, rows = MOVED[name]
    model = written(write)
    try:
        program = irkit.to_onnx(model, (torch.randn(rows, 4),), dynamic_shapes=({0: "n"},), capture=way)
    except IrkitError:
        return
    for n in range(7):
        x = torch.randn(n, 4)
        try:
            answer = program(x)
        except IrkitError:
            continue
        assert torch.equal(answer, model(x)), n


IN_PLACE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "pow": lambda t, y: t.pow_(y),
    "lt": lambda t, y: t.lt_(y),
    "clamp_max": lambda t, y: t.clamp_max_(y),
    "hypot": lambda t, y: t.hypot_(y),
    "add": lambda t, y: t.add_(y),
    "masked_scatter": lambda t, y: t.masked_scatter_(y > 0, y),
    "masked_fill": lambda t, y: t.masked_fill_(y > 0, 1.0),
}


@pytest.mark.parametrize("names", [None, ({0: "n"}, {0: "n"})], ids=["fixed", "n"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", IN_PLACE)
def test_what_is_written_in_place_has_the_sizes_of_the_tensor(name: str, way: Any, names: Any) -> None:
    given = torch.randn(3, 1, 1), torch.randn(3, 4, 1)
    with pytest.raises(IrkitError):
        irkit.to_onnx(lambda t, y: IN_PLACE[name](t * 1, y), given, dynamic_shapes=names, capture=way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.logit_(),
        lambda t: t.ldexp_(torch.ones(3)),
        lambda t: t.mul_(1.5),
        lambda t: t.div_(2),
        lambda t: t.eq_(1).logit_(),
    ],
    ids=["logit", "ldexp", "mul", "div", "logit of truths"],
)
def test_what_is_written_in_place_is_of_the_numbers_of_the_tensor(write: Callable[[Tensor], Tensor], way: Any) -> None:
    with pytest.raises(IrkitError):
        irkit.to_onnx(lambda t: write(t * 1), (torch.arange(3),), capture=way)


OUT: dict[str, Callable[[Tensor], Any]] = {
    "sort": lambda x: torch.sort(x, 0, out=(x.new_zeros(3, 4, dtype=torch.float64), FIRST.repeat(3, 1))),
    "index_select": lambda x: torch.index_select(x, 0, FIRST[0, :1], out=torch.zeros(1, 4, dtype=torch.float64)),
    "tril": lambda x: torch.tril(x, out=torch.zeros(3, 4, dtype=torch.float64)),
    "add": lambda x: torch.add(x, 1.5, out=torch.zeros(3, 4, dtype=torch.int64)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OUT)
def test_what_is_given_for_a_result_is_of_a_type_that_takes_it(name: str, way: Any) -> None:
    with pytest.raises(IrkitError):
        irkit.to_onnx(lambda x: OUT[name](x), (torch.randn(3, 4),), capture=way)


@pytest.mark.parametrize("way", WAYS)
def test_a_wider_type_takes_a_result_where_torch_casts_it(way: Any) -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        held = torch.zeros(3, 4, dtype=torch.float64), torch.zeros(3, 4, dtype=torch.int64)
        torch.mul(x, x, out=held[0])
        torch.lt(x, 0, out=held[1])
        return held

    x = torch.randn(3, 4)
    for mine, eager in zip(irkit.to_onnx(model, (x,), capture=way)(x), model(x), strict=True):
        torch.testing.assert_close(mine, eager)
