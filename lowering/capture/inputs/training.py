"""What a training step changes beside a module's own attributes: gradients, and the state of optimizers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim import Optimizer

from lowering.capture.inputs.calls import containers, restore


@contextmanager
def training_state_kept(module: torch.nn.Module, found: Sequence[Optimizer] | None = None) -> Iterator[None]:
    """A block after which the gradients of parameters, and the optimizers that a module or function holds (`found`,
    where that was looked up before), are as they were before."""
    parameters = [*module.parameters()]
    found = optimizers_of(module) if found is None else found
    parameters += [p for each in found for group in each.param_groups for p in group["params"]]
    gradients = [(parameter, parameter.grad) for parameter in dict.fromkeys(parameters)]
    states = [(each.state, {key: dict(held) for key, held in each.state.items()}, dict(each.state)) for each in found]
    groups = [(held, type(held)(held)) for each in found for held in containers(each.param_groups)]
    try:
        yield
    finally:
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
