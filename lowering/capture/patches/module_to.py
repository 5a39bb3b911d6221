"""Modules that convert themselves while they run (`self.head = self.head.to(dtype)`), as torch traces them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

Change = Callable[[torch.Tensor], torch.Tensor]


@contextmanager
def converting_modules() -> Iterator[None]:
    """A block in which `Module.to` and its like put what they compute where the module looks for it.

    torch swaps the contents of a parameter and its conversion, which it cannot do while it traces: others hold on to
    the parameter. Whoever calls this sees to it that modules get back what they had.
    """
    before = torch.nn.Module._apply

    def apply(self: torch.nn.Module, fn: Change, recurse: bool = True) -> torch.nn.Module:
        for module in self.modules() if recurse else (self,):
            for held in (module._parameters, module._buffers):
                converted: dict[str, Any] = {name: fn(each) for name, each in held.items() if each is not None}
                held.update({name: each for name, each in converted.items() if each is not held[name]})
        return self

    torch.nn.Module._apply = apply
    try:
        yield
    finally:
        torch.nn.Module._apply = before
