"""Subjects from lists: a name, how it is built, what it is called with, and the sizes of each call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from lowering.architectures.inputs import Sets
from tests.tables.architectures.subject import Call, Sizes, Subject, sets_of


def subject_of(
    source: str, kind: str, name: str, build: Callable[[], Any], call: Callable[..., Call], sizes: Sequence[Sizes]
) -> Subject:
    """A subject that is called with `call(...)` of the numbers of each of the sizes. It has random weights where the
    library begins with zeros, which would hide what is computed before them."""

    def built() -> torch.nn.Module:
        model = build()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.numel() and not weight.any():
                    torch.nn.init.normal_(weight, std=0.02)
        return model

    return Subject(source, name, kind, built, lambda _: sets_of(lambda **at: call(*at.values()), sizes))


def at(names: str, *numbers: Sequence[int]) -> tuple[Sizes, ...]:
    """The sizes of several calls: the names of the sizes, then the numbers of each call."""
    return tuple(dict(zip(names.split(), each, strict=True)) for each in numbers)


def by_name(subjects: Sequence[Subject]) -> Mapping[str, Subject]:
    """The subjects by name."""
    return {each.name: each for each in subjects}


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Random numbers, the same for the same shape and seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def sets_of_calls(calls: Mapping[str, Call], shapes: Mapping[str, Any]) -> Sets:
    """The sets of calls by their names, of which the first is the example."""
    example, *others = calls
    return Sets(calls[example], shapes, {name: calls[name] for name in others})


def images(
    model: torch.nn.Module, sizes: Sequence[tuple[int, int, int]], axes: Mapping[int, str], channels: int
) -> Sets:
    """The calls of a model of one argument with images of these numbers, heights and widths."""
    name = next(iter(inspect.signature(model.forward).parameters))
    calls = {f"{b} of {h} x {w}": {name: normal(b, channels, h, w)} for b, h, w in sizes}
    return sets_of_calls(calls, {name: dict(axes)})


def takes(model: torch.nn.Module, calls: Sequence[Call]) -> bool:
    """Whether eager takes all of these calls."""
    try:
        with torch.no_grad():
            for call in calls:
                model.eval()(**call)
    except Exception:  # models raise anything
        return False
    return True
