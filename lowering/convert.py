"""One operator: by its converter, or by torch's decomposition of that operator alone."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from lowering import complexes
from lowering.arguments import call_arguments
from lowering.complex_dispatch import complex_entry
from lowering.decompose import decomposed
from lowering.errors import Unsupported
from lowering.registry import Registry
from lowering.scope import Scope


def convert(scope: Scope, node: Node, target: Any, args: Any, kwargs: Any, expected: Any) -> Any:
    """What the converter of `target` makes of arguments, or else torch's decomposition of that operator."""
    involved = complexes.involved((*args, *kwargs.values()), expected)
    find = complex_entry if involved else Registry.find
    found = find(scope.options.registry, target)
    reason = "no converter for complex numbers" if involved else "no converter"
    if found is not None:
        try:
            positional_, keyword = call_arguments(target, found, args, kwargs, expected)
            return found.function(*positional_, **keyword)
        except Unsupported as declined:
            reason = str(declined)
    return decomposed(scope, node, target, args, kwargs, reason)
