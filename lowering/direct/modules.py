"""Which module of the model is running, for the origins of what it computes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

if TYPE_CHECKING:
    from lowering.direct.tracer import Tracer


@contextmanager
def running(tracer: Tracer, model: torch.nn.Module) -> Iterator[None]:
    """A block in which the tracer knows the path of the module that is running, in this thread."""
    paths = {id(module): path for path, module in model.named_modules()}
    stack, own = tracer.modules, threading.get_ident()

    def before(module: Any, _: Any) -> None:
        if threading.get_ident() == own:
            stack.append(paths.get(id(module), stack[-1] if stack else ""))

    def after(module: Any, _: Any, __: Any) -> None:
        if threading.get_ident() == own and stack:
            stack.pop()

    hooks = [register_module_forward_pre_hook(before), register_module_forward_hook(after, always_call=True)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        stack.clear()
