"""What a capture met is freed after it: sizes hold the run in which they vary, and torch's tensors hold sizes where the
collector of Python does not look."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError
from lowering.direct.tensors import Handle, Memory
from lowering.direct.tracer import Tracer


def plain(x: torch.Tensor) -> torch.Tensor:
    """Nothing is asked of sizes."""
    return x * 2


def counted(x: torch.Tensor) -> torch.Tensor:
    """A loop over a size: its number ends a run."""
    return sum((x[i] for i in range(x.shape[0])), torch.zeros(3))


def chosen(x: torch.Tensor) -> torch.Tensor:
    """A number of a size that code of others takes."""
    return x.new_ones(len(x.new_zeros(int(x.shape[0])).tolist())) * x.sum()


def caught(x: torch.Tensor) -> torch.Tensor:
    """An error that the model catches."""
    try:
        return x @ x
    except RuntimeError:
        return x + 1


def refused(x: torch.Tensor) -> torch.Tensor:
    """An error that the model raises."""
    raise ValueError(f"{x.shape[0]} rows are too many")


def decided(x: torch.Tensor) -> torch.Tensor:
    """A condition on data."""
    return x + 1 if x.sum() > 0 else x.expand(2, *x.shape).sum(0)


MODELS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    each.__name__: each for each in (plain, counted, chosen, caught, refused, decided)
}


def tracers() -> int:
    """How many tracers are alive, of those that the collector looks at."""
    gc.collect()
    return sum(type(each) is Tracer for each in gc.get_objects())


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_no_run_outlives_its_capture(name: str, rewrite: bool) -> None:
    gc.freeze()  # what other tests left is many times what this one makes
    try:
        with contextlib.suppress(IrkitError):
            irkit.to_onnx(MODELS[name], (torch.ones(4, 3),), dynamic_shapes=({0: "n"},), rewrite=rewrite)
        assert not tracers()
    finally:
        gc.unfreeze()


def turned(x: torch.Tensor) -> torch.Tensor:
    """Copies that are views at some sizes, of the input, of a weight, and of one another."""
    one, other = x.t().reshape(-1, 3), torch.arange(12.0).reshape(4, 3).t().reshape(-1, 3)
    return (one.t().reshape(-1) * 2).sum() + other.t().reshape(-1).sum()


def written(x: torch.Tensor) -> torch.Tensor:
    """One of them is written, so that it is asked at which sizes it is a view."""
    y = (x + 1).t()
    y.reshape(-1).mul_(2)
    return y.reshape(-1) + 1 if x.shape[0] > 1 else y.reshape(-1) + 2


@pytest.mark.parametrize("model", [turned, written])
def test_what_a_run_made_is_freed_before_the_collector_comes(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def export() -> None:
        irkit.to_onnx(model, (torch.ones(4, 3),), dynamic_shapes=({0: "n"},), capture="direct")

    def made() -> dict[int, Any]:
        return {id(each): each for each in gc.get_objects() if type(each) in (Memory, Handle)}

    export()
    gc.collect()
    gc.disable()
    try:
        before = made()  # of other tests, which somebody holds
        export()
        assert made().keys() <= before.keys()
    finally:
        gc.enable()


def storages(x: torch.Tensor) -> torch.Tensor:
    """Tensors of one type and layout, asked for what each has of its own."""
    one, other = x + 1, x * 2
    first, second = one.untyped_storage(), other.untyped_storage()
    assert first.nbytes() == second.nbytes() == x.numel() * 4
    assert one.untyped_storage()._cdata == first._cdata != second._cdata
    return one + other.add_(1)


def test_tensors_that_are_laid_out_alike_have_storages_of_their_own() -> None:
    x = torch.randn(4, 3)
    program = irkit.to_onnx(storages, (x,), dynamic_shapes=({0: "n"},), capture="direct")
    for size in (1, 2, 7):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), x + 1 + x * 2 + 1)


class Scaled(torch.nn.Module):
    """Of two tensors of one layout, that were made where no gradient is recorded, one is written after the other was
    kept for a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            first, one, other = x - 1, x + 1, x * 2
        total = (self.scale * one).sum()
        with torch.no_grad():
            other.mul_(2.0)
            other.clamp_(max=3.0)
        (gradient,) = torch.autograd.grad(total, [self.scale])
        return gradient, other + first


def test_writes_into_one_of_two_that_are_laid_out_alike_are_no_writes_into_the_other() -> None:
    model = Scaled()
    program = irkit.to_onnx(model, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in (1, 2, 7):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), model(x))
