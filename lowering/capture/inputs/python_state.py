"""What Python code may change as it runs, and whether it did between two moments.

A module that computes its results from its arguments and weights leaves lists, dicts, sets, attributes of objects,
variables and generators of random numbers as they were. One that counts its calls, or notes something, does not.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from operator import is_
from types import FunctionType, MethodType, ModuleType
from typing import Any

import attrs
import numpy as np
import torch

from lowering.capture.inputs.containers import CONTAINERS, DICTS
from lowering.capture.inputs.contents import Contents
from lowering.capture.inputs.drawing import comparable
from lowering.capture.inputs.states import held_inside, held_state, keeps_state, same_held
from lowering.capture.inputs.surroundings import BOUND, OURS, TABLES, Surroundings, is_users, may_change
from lowering.capture.inputs.variables import ABSENT, Variable, is_filled, names_in

PLAIN = frozenset((bool, int, float, str, type(None)))
LEFT_OUT = (torch.Tensor, type, ModuleType)
"""What is looked at by itself."""


@attrs.frozen(eq=False)
class PythonState:
    """How all that stands at a moment: the `contents` of lists, dicts and sets, variables with what each held, of
    global ones also what their names hold by the dict in which they are (`named`), and the rest (`cells`), generators
    and counters with where each stood, and where those that all draw from stood (`drawn`), if that is asked; `met` are
    the objects on the way. With `outer`, only what that does not have: another one, of what runs around and began
    before."""

    contents: Contents
    variables: Sequence[tuple[Variable, Any]]
    named: Sequence[tuple[Mapping[str, Any], Sequence[str], Sequence[Any]]]
    cells: Sequence[tuple[Variable, Any]]
    drawing: Sequence[tuple[Any, Any]]
    drawn: Any
    apart: type
    met: Mapping[int, Any]
    outer: PythonState | None

    @classmethod
    def around(cls, around: Surroundings, functions: Iterable[FunctionType], apart: type) -> PythonState:
        """What is around a model and what these functions of its modules read, as it stands, but for where those
        generators stand that all draw from. What is `apart` in a dict is not of it: it stands there for a while."""
        variables = {(id(each.where), each.name): each for _, each in around.variables}
        for function in functions:
            for each in plain_variables_of(function):
                variables.setdefault((id(each.where), each.name), each)
        known = [each for _, each, _ in (*around.contents, *around.drawing)]
        held = list(variables.values())
        return cls.now([known, [each.now for each in held], os.environ], {}, held, [], apart, None, False)

    @classmethod
    def of(cls, given: Any, apart: type, outer: PythonState, draws: bool) -> PythonState:
        """What arguments reach beside what is around, as it stands."""
        return cls.now(given, {}, [], [], apart, outer, draws)

    @classmethod
    def now(
        cls, given: Any, met: dict[int, Any], variables: Sequence[Variable], others: Sequence[Any], apart: type,
        outer: PythonState | None, draws: bool,
    ) -> PythonState:  # fmt: skip
        """All that something reaches as it stands, with some variables and `others`, containers and what draws."""
        containers, slots, drawing = reached(given, met, outer)
        containers += [each for each in others if type(each) in CONTAINERS]
        drawing += [each for each in others if type(each) not in CONTAINERS]
        states = [(each, held_state(each)) for each in drawing]
        held = [(each, each.now) for each in (*variables, *slots)]
        named, cells = names_by_dict(held), [each for each in held if not isinstance(each[0].where, dict)]
        return cls(
            Contents.of(containers), held, named, cells, states, drawn_of_all() if draws else None, apart, met, outer
        )

    def renewed(self, outer: PythonState | None) -> PythonState:
        """How the same stands now, and what it reaches now."""
        new: list[Any] = [part for now, before in self.parts() if is_other(now, before) for part in now]
        new += [variable.now for variable, before in self.variables if variable.now is not before]
        others = [*self.contents.containers, *(each for each, _ in self.drawing)]
        variables = [variable for variable, _ in self.variables]
        return self.now(new, dict(self.met), variables, others, self.apart, outer, self.drawn is not None)

    def is_kept(self) -> bool:
        """Whether all still stands so."""
        return (self.outer is None or self.outer.is_kept()) and self.is_kept_alone()

    def is_kept_alone(self) -> bool:
        """Whether all still stands so but for what is in the outer one."""
        return (
            (self.contents.are_untouched() or not any(is_other(now, before) for now, before in self.parts()))
            and all(all(map(is_, map(known.get, names), held)) for known, names, held in self.named)
            and all(each.now is held for each, held in self.cells)
            and all(same_held(each, held_state(each), state) for each, state in self.drawing)
            and (self.drawn is None or drawn_of_all() == self.drawn)
        )

    def parts(self) -> Iterator[tuple[list[Any], list[Any]]]:
        """(what it holds now, what it held) of each list, dict and set that may hold something else."""
        for each, before in self.contents.changed():
            yield parts_of(each, self.apart), parts_of(before, self.apart)

    def has(self, identity: int) -> bool:
        """Whether this, or what is around it, met an object."""
        return identity in self.met or (self.outer is not None and self.outer.has(identity))


def drawn_of_all() -> Any:
    """Where the generators of random numbers stand that the functions of Python's and NumPy's modules draw from, told
    by the numbers that each draw changes."""
    _, words, gauss = random.getstate()
    state: Any = np.random.get_state(legacy=False)
    inner = state["state"]
    told = (inner["pos"], int(inner["key"][0])) if state["bit_generator"] == "MT19937" else comparable(inner)
    return words[0], words[-1], gauss, told, state["has_gauss"], state["gauss"]


def names_by_dict(
    variables: Iterable[tuple[Variable, Any]],
) -> list[tuple[Mapping[str, Any], list[str], list[Any]]]:
    """(dict, names in it, what they hold) of the global ones among some variables: all of a dict are looked at in one
    go. What is not there holds None."""
    found: dict[int, tuple[Mapping[str, Any], list[str], list[Any]]] = {}
    for variable, held in variables:
        if isinstance(variable.where, dict):
            _, names, values = found.setdefault(id(variable.where), (variable.where, [], []))
            names.append(variable.name)
            values.append(None if held is ABSENT else held)
    return list(found.values())


def is_other(now: Sequence[Any], before: Sequence[Any]) -> bool:
    """Whether these are not the very objects."""
    return len(now) != len(before) or not all(map(is_, now, before))


def parts_of(container: Any, apart: type) -> list[Any]:
    """What a list, dict or set holds, keys among it, in order."""
    if type(container) not in DICTS:
        return list(container)
    values = list(container.values())
    if apart not in map(type, values):
        return [*container, *values]
    own = {name: each for name, each in container.items() if type(each) is not apart}
    return [*own, *own.values()]


def reached(given: Any, met: dict[int, Any], outer: PythonState | None) -> tuple[list[Any], list[Variable], list[Any]]:
    """(the lists, dicts and sets that something reaches, by attributes of objects and modules, and by what functions
    use, each once; the slots and variables of these; generators and counters), but for what is in `outer`; all that is
    `met` is put there."""
    found: list[Any] = []
    slots: list[Variable] = []
    drawing: list[Any] = []
    pending = [given]
    while pending:
        each = pending.pop()
        kind = type(each)
        if kind in PLAIN or isinstance(each, LEFT_OUT) or id(each) in met or is_own(kind):
            continue
        if outer is not None and outer.has(id(each)):
            continue
        met[id(each)] = each
        if kind in CONTAINERS:
            found.append(each)
            pending += each.values() if kind in DICTS else each
        elif keeps_state(each):
            drawing.append(each)
            pending += [held for _, held in held_inside(each)]
        elif isinstance(each, torch.nn.Module):
            found.append(each.__dict__)
            pending += [held for name, held in each.__dict__.items() if name not in TABLES]
        elif isinstance(each, FunctionType):
            inside = variables_of(each)
            pending += [each.__defaults__, each.__kwdefaults__, *(variable.held for variable in inside)]
            slots += inside
        elif isinstance(each, MethodType) or kind in BOUND:
            pending += [each.__self__, getattr(each, "__func__", None)]
        elif isinstance(each, partial):
            pending += [each.func, each.args, each.keywords]
        elif isinstance(each, tuple | frozenset):
            pending += each
        elif kind.__module__ != "builtins":
            own = getattr(each, "__dict__", None)
            pending += [own] if type(own) is dict else []
            inside = [Variable(name, each, getattr(each, name, None)) for name in slots_of(kind)]
            pending += [variable.held for variable in inside]
            slots += inside
    return found, slots, drawing


@lru_cache(maxsize=1 << 10)
def is_own(kind: type) -> bool:
    """Whether a class is irkit's, or of what it computes with."""
    return f"{kind.__module__}.".startswith(OURS)


def variables_of(function: FunctionType) -> list[Variable]:
    """The variables around a function that are filled, and of the user's the global ones that may change."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found = [Variable(name, cell, cell.cell_contents) for name, cell in cells if is_filled(cell)]
    if is_users(function.__module__):
        held = function.__globals__
        names = [name for name in names_in(function.__code__) if name in held]
        numbers = [name for name in names if type(held[name]) in PLAIN]
        found += [Variable(name, held, held[name]) for name in names if name in numbers or may_change(held[name])]
    return found


def plain_variables_of(function: FunctionType) -> list[Variable]:
    """The variables around a function, and the global ones that it names, which hold a number, a text, or a list, dict
    or set; whosever code it is."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found = [Variable(name, cell, cell.cell_contents) for name, cell in cells if is_filled(cell)]
    known = function.__globals__
    found += [Variable(name, known, known[name]) for name in names_in(function.__code__) if name in known]
    return [each for each in found if type(each.held) in PLAIN or type(each.held) in CONTAINERS]


@lru_cache(maxsize=1 << 10)
def slots_of(kind: type) -> tuple[str, ...]:
    """The names of the slots of a class and its bases."""
    named = [vars(each).get("__slots__", ()) for each in kind.__mro__]
    every = [(names,) if isinstance(names, str) else tuple(names) for names in named]
    return tuple(name for names in every for name in names if not name.startswith("__"))
