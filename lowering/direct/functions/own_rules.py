"""Classes of tensors that say by themselves what operators make of them: those of a model, or of a library."""

from __future__ import annotations

from collections.abc import Sequence

import torch

SAYS_NOTHING = (None, torch._C._disabled_torch_dispatch_impl)
"""What a class has as `__torch_dispatch__` that leaves operators to torch."""


def have_own_rule(types: Sequence[type]) -> bool:
    """Whether one of some classes of tensors, none of which is irkit's, says what operators make of them."""
    return any(map(has_own_rule, types))


def has_own_rule(kind: type) -> bool:
    """Whether a class of tensors that is not irkit's says what operators make of it."""
    quiet = getattr(kind, "__torch_dispatch__", None) in SAYS_NOTHING or kind.__module__.startswith("lowering.")
    return not quiet
