"""One operator: by its converter, or by torch's decomposition of that operator alone."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from lowering.arguments import call_arguments
from lowering.decompose import decomposed
from lowering.errors import Unsupported
from lowering.scope import Scope


def convert(scope: Scope, node: Node, target: Any, args: Any, kwargs: Any, expected: Any) -> Any:
    """What the converter of `target` makes of arguments, or else torch's decomposition of that operator."""
    found = scope.options.registry.find(target)
    reason = "no converter"
    if found is not None:
        try:
            positional_, keyword = call_arguments(target, found, args, kwargs, expected)
            return found.function(*positional_, **keyword)
        except Unsupported as declined:
            reason = str(declined)
    return decomposed(scope, node, target, args, kwargs, reason)
