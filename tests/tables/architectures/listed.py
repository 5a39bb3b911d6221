"""Subjects from lists: a name, how it is built, what it is called with, and the sizes of each call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch

from lowering.architectures.inputs import Sets
from lowering.records.torch_internals import pytree
from tests.tables.architectures.subject import Call, Sizes, Subject, sets_of


def subject_of(
    source: str, kind: str, name: str, build: Callable[[], Any], call: Callable[..., Call], sizes: Sequence[Sizes]
) -> Subject:
    """A subject that is called with `call(...)` of the numbers of each of the sizes. It has random weights where the
    library begins with zeros, which would hide what is computed before them."""

    def built() -> torch.nn.Module:
        return without_zeros(build())

    return Subject(source, name, kind, built, lambda _: sets_of(lambda **at: call(*at.values()), sizes))


def without_zeros(model: torch.nn.Module, least: float = 0.0, std: float = 0.02) -> torch.nn.Module:
    """The model with random numbers in the parameters of which none is greater than `least`."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.numel() and weight.is_floating_point() and weight.abs().max() <= least:
                torch.nn.init.normal_(weight, std=std)
    return model


def spread(model: torch.nn.Module, sets: Sets) -> torch.nn.Module:
    """The model with the weights of its layers scaled so that each has results of a spread of 1 at the largest of its
    calls, as those of trained models do: otherwise nothing of the input reaches the end of a deep one, and nothing is
    compared."""

    def scaled(layer: torch.nn.Module, args: tuple[Any, ...], result: Any) -> Any:
        weight: Any = layer.weight
        if layer in done or not isinstance(result, torch.Tensor) or not weight.is_floating_point():
            return result
        done.add(layer)
        size = result.std()
        if not bool(size.isfinite()) or float(size) < 1e-30:
            return result
        weight.div_(size)
        return layer.forward(*args)

    done: set[torch.nn.Module] = set()
    without_zeros(model, 0.01, 0.1)
    layers = [each for each in model.modules() if isinstance(getattr(each, "weight", None), torch.nn.Parameter)]
    hooks = [each.register_forward_hook(scaled) for each in layers if isinstance(each, LAYERS) and each.weight.numel()]
    try:
        with torch.no_grad():
            model.eval()(**max((sets.example, *sets.others.values()), key=elements))
    finally:
        for hook in hooks:
            hook.remove()
    return model


def elements(call: Call) -> int:
    """How many numbers the tensors of a call have."""
    return sum(leaf.numel() for leaf in pytree.tree_leaves(dict(call)) if isinstance(leaf, torch.Tensor))


LAYERS = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)
FEW = 60_000_000


def shallow(model: torch.nn.Module) -> torch.nn.Module:
    """The model; one of more than 60 million parameters without the blocks that repeat, but two of each."""
    if sum(each.numel() for each in model.parameters()) <= FEW:
        return model
    for part in model.modules():
        if isinstance(part, torch.nn.Sequential | torch.nn.ModuleList):
            kept = [at for at in range(len(part)) if at < 2 or not alike(part[at - 2], part[at - 1], part[at])]
            if len(kept) < len(part):
                part._modules = type(part._modules)(
                    (str(n) if name.isdigit() else name, part[at])
                    for n, (at, name) in enumerate((at, list(part._modules)[at]) for at in kept)
                )
    return model


def alike(*blocks: Any) -> bool:
    """Whether blocks have parameters, the same number of each shape in each."""
    shapes = [[(name, each.shape) for name, each in block.named_parameters()] for block in blocks]
    return bool(shapes[0]) and len(shapes[0]) > 2 and all(each == shapes[0] for each in shapes)


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


class Called(torch.nn.Module):
    """A module, one of its methods, or a function of tensors, called with these in their order under any names."""

    def __init__(self, model: Any, method: str = "__call__") -> None:
        super().__init__()
        self.model, self.method = model, method

    def forward(self, **given: Any) -> Any:
        return getattr(self.model, self.method)(*given.values())


@attrs.frozen
class Row:
    """A model of a library: its name, its kind, how it is built of the library, what it is called with, the sizes."""

    name: str
    kind: str
    made: Callable[[Any], Any]
    call: Callable[..., Call]
    sizes: Sequence[Sizes]


def subjects_of_rows(source: str, library: Any, rows: Sequence[Row]) -> Mapping[str, Subject]:
    """The subjects of rows by name."""
    return by_name(
        [subject_of(source, row.kind, row.name, lambda row=row: row.made(library), row.call, row.sizes) for row in rows]
    )
