"""What a training step changes beside a module's own attributes: gradients, and the state of optimizers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim import Optimizer

from lowering.capture.inputs.calls import containers, differs, restore


@contextmanager
def training_state_kept(module: torch.nn.Module, found: Sequence[Optimizer] | None = None) -> Iterator[list[str]]:
    """A block after which the gradients of parameters, and the optimizers that a module or function holds (`found`,
    where that was looked up before), are as they were before. It is given the list of those optimizers, in words, that
    began to keep tensors or numbers in it."""
    parameters = [*module.parameters()]
    found = optimizers_of(module) if found is None else found
    parameters += [p for each in found for group in each.param_groups for p in group["params"]]
    gradients = [(parameter, parameter.grad) for parameter in dict.fromkeys(parameters)]
    states = [(each.state, {key: dict(held) for key, held in each.state.items()}, dict(each.state)) for each in found]
    groups = [(held, type(held)(held)) for each in found for held in containers(each.param_groups)]
    begun: list[str] = []
    try:
        yield begun
    finally:
        begun += [
            type(each).__name__ for each, (_, contents, _) in zip(found, states, strict=True) if begins(each, contents)
        ]
        for parameter, gradient in gradients:
            if parameter.grad is not gradient:
                parameter.grad = gradient
        for state, contents, before in states:
            for key in [key for key in state if key not in before]:
                del state[key]
            for key, held in before.items():
                restore(held, contents[key])
        for held, contents in groups:
            restore(held, contents)


def begins(optimizer: Optimizer, before: Mapping[Any, Mapping[str, Any]]) -> bool:
    """Whether an optimizer keeps tensors or numbers, of some parameter, that it did not keep before, or others."""
    return any(differs(held, before.get(key, {})) for key, held in optimizer.state.items())


def optimizers_of(module: torch.nn.Module) -> list[Optimizer]:
    """The optimizers among the attributes of a module and its children, and among what a wrapped function holds."""
    found: list[Any] = []
    for each in module.modules():
        for held in containers(each.__dict__):
            values = list(held.values()) if isinstance(held, dict) else list(held)
            for value in values:
                found.append(value)
                cells = getattr(value, "__closure__", None) or ()
                found += [cell.cell_contents for cell in cells if holds_something(cell)]
    return list(dict.fromkeys(v for v in found if isinstance(v, Optimizer)))


def holds_something(cell: Any) -> bool:
    """Whether a cell of a closure was given its content already."""
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
