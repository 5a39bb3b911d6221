"""Small models to capture, and what was captured of them in the user's names."""

from __future__ import annotations

import functools
from typing import Any

import sympy
import torch
from torch import nn
from torch.utils import _pytree as pytree

from lowering.capture.capture import Captured
from lowering.capture.guards.guards import size_of
from lowering.records.programs import metas_of_program

X = torch.randn(4, 6)
Y = torch.randn(4, 6)


class Add(nn.Module):
    """Two inputs whose sizes the model ties together."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + self.linear(y)


class Apart(nn.Module):
    """Two inputs whose sizes the model does not compare."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin(), y.cos()


class Chained(nn.Module):
    """Two inputs of which the second is twice as long as the first."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x]) + y


class Tree(nn.Module):
    """A model of anything nested: the sum of all tensors in it."""

    def forward(self, tree: Any, scale: torch.Tensor) -> torch.Tensor:
        tensors = [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
        return functools.reduce(torch.add, tensors) * scale


def program_of(captured: Captured) -> torch.export.ExportedProgram:
    """The program torch.export made."""
    assert captured.program is not None
    return captured.program


def shapes(captured: Captured) -> dict[str, tuple[Any, ...]]:
    """Input name -> its shape, with the user's names for what may vary."""
    found = {}
    for name, meta in zip(captured.input_names, metas_of_program(program_of(captured)), strict=True):
        if isinstance(meta, torch.Tensor):
            found[name] = tuple(named(captured, size_of(meta, axis)) for axis in range(meta.dim()))
    return found


def named(captured: Captured, size: Any) -> Any:
    """A size with the user's names."""
    if isinstance(size, int):
        return size
    return str(size.xreplace({s: sympy.Symbol(captured.dim_names[s.name]) for s in size.free_symbols}))


def guards(captured: Captured) -> list[str]:
    """The guards with the user's names."""
    names = {
        s: sympy.Symbol(captured.dim_names[s.name], integer=True, nonnegative=True)
        for g in captured.guards
        for s in g.expr.free_symbols
    }
    return [str(guard.expr.xreplace(names)) for guard in captured.guards]
