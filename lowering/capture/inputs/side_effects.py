"""What a body of control flow changes beside its results: attributes, and lists, dicts and sets around it.

Both sides of a branch run while a model is captured, and one round stands for all of a loop: such a change would be
made where eager makes none, or as often as no call makes it.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from lowering.capture.inputs.contents import CONTAINERS, DICTS, Contents, by_key, restore
from lowering.errors import CaptureError

OURS = ("lowering.", "irkit.", "sympy.", "torch.fx.", "torch._")
"""Where classes are of whose objects a model changes nothing that it computes with."""


@contextmanager
def refuse_side_effects(*roots: Any) -> Iterator[None]:
    """A block in which a body runs. Raises CaptureError where it leaves other contents in what it reaches from its
    functions and arguments than it found there; these are put back."""
    before = Contents.of(reached_from(roots))
    try:
        yield
    finally:
        changed = [] if before.are_untouched() else [*before.before()]
        names = [name for held, known in changed for name in names_changed(held, known)]
        for held, known in changed:
            restore(held, known)
    if names:
        raise CaptureError(
            f"a branch or a loop of the graph changes {', '.join(dict.fromkeys(names))} in what it calls, and both "
            "branches, or one round for all, are run while it is captured",
            hint="set it in the branch or the loop itself, or give it back as a result",
        )


def names_changed(held: Any, before: Any) -> list[str]:
    """What is other in a dict, list or set than before, in words."""
    now, known = by_key(held), by_key(before)
    others = [key for key in {**known, **now} if key not in now or key not in known or now[key] is not known[key]]
    if isinstance(held, dict):
        return [f"{key!r}" for key in others]
    return [f"a {type(held).__name__}"] if others else []


def reached_from(roots: Sequence[Any]) -> list[Any]:
    """The dicts, lists and sets, attributes of objects among them, that objects hold, and functions around them, at any
    depth, each once."""
    found: list[Any] = []
    pending, seen = list(roots), set[int]()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if type(each) in CONTAINERS:
            found.append(each)
        pending += contents_of(each)
    return found


def contents_of(value: Any) -> list[Any]:
    """What a value holds in which something may be changed."""
    if type(value) in DICTS:
        return [*value.values()]
    if type(value) in CONTAINERS or isinstance(value, tuple):
        return [*value]  # not those that a rewritten loop makes, which count who goes over them
    if isinstance(value, types.FunctionType):
        return [*(cell.cell_contents for cell in value.__closure__ or () if is_filled(cell))]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, torch.nn.Module):
        return [value.__dict__]
    if isinstance(value, PLAIN) or type(value).__module__.startswith(OURS):
        return []
    return [value.__dict__] if hasattr(value, "__dict__") else []


PLAIN = (torch.Tensor, type, types.ModuleType, types.BuiltinFunctionType, str, int, float, complex)
"""What holds nothing that a model changes, or is followed elsewhere: the contents of tensors."""


def is_filled(cell: Any) -> bool:
    """Whether a variable of a function around has a value."""
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
