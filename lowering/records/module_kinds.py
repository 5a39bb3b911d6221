"""The classes of the modules that a model is made of."""

from __future__ import annotations

import torch


def kinds_of_parts(module: torch.nn.Module) -> tuple[type, ...]:
    """The classes of a module and of the modules in it, each once; TorchScript is not looked into."""
    kinds: dict[type, bool] = {}
    parts: dict[torch.nn.Module, None] = {module: None}
    level = [module]
    for part in level:  # which grows; in this way a module more takes no call
        kind = type(part)
        if kind not in kinds:
            kinds[kind] = issubclass(kind, torch.jit.ScriptModule)
        if kinds[kind]:
            continue
        children = part._modules
        for name in children:
            child = children[name]
            if child is not None and child not in parts:
                parts[child] = None
                level += (child,)
    return tuple(kinds)
