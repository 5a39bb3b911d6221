"""What a body of control flow changes beside its results: attributes, variables of functions around it, global ones,
and lists, dicts and sets.

Both sides of a branch run while a model is captured, and one round stands for all of a loop: such a change would be
made where eager makes none, or as often as no call makes it.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import torch

from lowering.capture.inputs.containers import CONTAINERS, DICTS, by_key, restore
from lowering.capture.inputs.contents import Contents
from lowering.capture.inputs.variables import Variable, is_filled, names_in
from lowering.errors import CaptureError
from lowering.records.disguised_lists import undisguise

OURS = ("lowering.", "irkit.", "sympy.", "torch.fx.", "torch._")
"""Where classes are of whose objects a model changes nothing that it computes with."""


@contextmanager
def refuse_side_effects(*roots: Any) -> Iterator[None]:
    """A block in which a body runs. Raises CaptureError where it leaves other contents in what it reaches from its
    functions and arguments than it found there; these are put back."""
    reached = reached_from(roots)
    before, variables = Contents.of(reached.containers), reached.variables()
    lists = [each for each in reached.containers if type(each) is list]
    try:
        yield
    finally:
        untouched = before.are_untouched()
        undisguise(*(() if untouched else lists))  # which the body made other objects of
        changed = [] if untouched else [*before.before()]
        names = [name for held, known in changed for name in names_changed(held, known)]
        for held, known in changed:
            restore(held, known)
        names += [f"the variable {variable.name!r}" for variable in variables if variable.is_other()]
        for variable in variables:
            variable.restore()
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


@attrs.frozen(eq=False)
class Reached:
    """What a body may change: `containers`, and the variables that `functions` have in common with others."""

    containers: list[Any]
    functions: list[types.FunctionType]

    def variables(self) -> list[Variable]:
        """These variables with what they hold: of functions around, and global ones. torch keeps its own accounts in
        those of its functions."""
        found: dict[Any, Variable] = {}
        for each in [f for f in self.functions if not (f.__module__ or "").startswith(OURS)]:
            for name, cell in zip(each.__code__.co_freevars, each.__closure__ or (), strict=True):
                if is_filled(cell):
                    found[id(cell)] = Variable(name, cell, cell.cell_contents)
            for name in names_in(each.__code__):
                if name in each.__globals__:
                    found[id(each.__globals__), name] = Variable(name, each.__globals__, each.__globals__[name])
        return [*found.values()]


def reached_from(roots: Sequence[Any]) -> Reached:
    """The dicts, lists and sets, attributes of objects among them, that objects hold, and functions around them, at any
    depth, and the functions, each once."""
    found, functions = [], []
    pending, seen = list(roots), set[int]()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if type(each) in CONTAINERS:
            found.append(each)
        if isinstance(each, types.FunctionType):
            functions.append(each)
        pending += contents_of(each)
    return Reached(found, functions)


def followed_globals(function: types.FunctionType) -> list[Any]:
    """The lists, dicts, sets and functions that a function finds by its global names."""
    known = function.__globals__
    held = [known[name] for name in names_in(function.__code__) if name in known]
    return [each for each in held if type(each) in CONTAINERS or is_of_user(each)]


def is_of_user(value: Any) -> bool:
    """Whether something is a function, and neither irkit's nor torch's."""
    return isinstance(value, types.FunctionType) and not (value.__module__ or "").startswith((*OURS, "torch"))


def contents_of(value: Any) -> list[Any]:
    """What a value holds in which something may be changed."""
    if type(value) in DICTS:
        return [*value.values()]
    if type(value) in CONTAINERS or isinstance(value, tuple):
        return [*value]  # not those that a rewritten loop makes, which count who goes over them
    if isinstance(value, types.FunctionType):
        around = [cell.cell_contents for cell in value.__closure__ or () if is_filled(cell)]
        return [*around, *followed_globals(value)]
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
