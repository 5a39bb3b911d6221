"""The functions of a branch or a loop, run on stand-ins for what they use of the model around them."""

from __future__ import annotations

import operator
import os
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import torch

from lowering.control_flow.ragged import GrowingList
from lowering.control_flow.values import NUMBERS, Outer, as_complex, as_real, as_tensor, is_of_data, is_open
from lowering.direct.functions.arrays import Array
from lowering.direct.functions.mixed_kinds import may_be_number, note_number
from lowering.direct.tensors import Traced
from lowering.errors import CaptureError
from lowering.records.torch_internals import pytree

HERE = f"{Path(__file__).parent}{os.sep}"
CONTAINERS = (list, dict, set)
MISSING = object()
PASSED = (torch.Tensor, Array, *NUMBERS, list, tuple, dict)
"""What a variable of a function around may hold that a body takes as operands."""


class Again(Exception):
    """A body has other slots than were asked of it, and is to be traced anew with these; `of` is the loop or branch
    whose body that is, which may be one around that which is being traced."""

    def __init__(self, slots: Any, of: object) -> None:
        super().__init__("other slots")
        self.slots, self.of = slots, of


@attrs.define(eq=False)
class Operands:
    """What bodies use of the model around them: `found` are the tensors, and the numbers of data, in order."""

    found: list[Any] = attrs.field(factory=list)
    places: dict[int, int] = attrs.field(factory=dict)

    def gather(self, value: Any) -> None:
        """Notes the tensors and numbers in a value."""
        for each in map(tensor_or_number, pytree.tree_leaves(value)):
            if is_operand(each) and id(each) not in self.places:
                self.places[id(each)] = len(self.found)
                self.found.append(each)

    def gather_from(self, *functions: Any, seen: set[int] | None = None) -> None:
        """Notes those that functions use of the functions around them, and functions that they use so."""
        seen = set() if seen is None else seen
        for function in functions:
            if isinstance(function, types.FunctionType) and id(function) not in seen:
                seen.add(id(function))
                for cell in function.__closure__ or ():
                    content = contents(cell)
                    if isinstance(content, types.FunctionType):
                        self.gather_from(content, seen=seen)
                    elif isinstance(content, PASSED):
                        self.gather(content)
                        self.gather_from(*pytree.tree_leaves(content), seen=seen)

    @property
    def passed(self) -> tuple[Any, ...]:
        """What bodies are given: real numbers as tensors, complex tensors as pairs of real numbers."""
        return tuple(map(passed_on, self.found))

    def received(self, inside: Sequence[Any]) -> tuple[Any, ...]:
        """What bodies make of what they are given: the stand-ins."""
        return tuple(map(received_as, inside, self.found))

    def swapped(self, value: Any, inside: Sequence[Any]) -> Any:
        """A value with the stand-ins in place of what they stand for."""
        leaves, spec = pytree.tree_flatten(value)
        places = [self.places.get(id(tensor_or_number(each))) for each in leaves]
        if all(place is None for place in places):
            return value
        made = [
            each if place is None else Array(inside[place]) if isinstance(each, Array) else inside[place]
            for each, place in zip(leaves, places, strict=True)
        ]
        return pytree.tree_unflatten(made, spec)

    def rebound(self, function: Any, inside: Sequence[Any], seen: frozenset[int] = frozenset()) -> Any:
        """A function that finds the stand-ins where it found what they stand for."""
        if not isinstance(function, types.FunctionType) or not function.__closure__ or id(function) in seen:
            return function
        seen, cells, changed = seen | {id(function)}, [], False
        for cell in function.__closure__:
            content = contents(cell)
            made = self.rebound(content, inside, seen)
            if isinstance(content, PASSED):
                made = self.swapped(content, inside)
                leaves, spec = pytree.tree_flatten(made)
                if any(isinstance(each, types.FunctionType) for each in leaves):
                    made = pytree.tree_unflatten([self.rebound(each, inside, seen) for each in leaves], spec)
            changed = changed or made is not content
            cells.append(cell if made is content else types.CellType(made))
        return with_cells(function, cells) if changed else function

    def outside(self, value: Any, inside: Sequence[Any]) -> Any:
        """A value in which stand-ins that were left as they are tell what they stand for."""
        known = {id(each): original for each, original in zip(inside, self.found, strict=True)}
        leaves, spec = pytree.tree_flatten(value, is_leaf=lambda each: isinstance(each, Outer))
        if not any(id(each) in known for each in leaves):
            return value
        made = [Outer(known[id(each)], each) if id(each) in known else each for each in leaves]
        return pytree.tree_unflatten(made, spec)


def with_cells(function: types.FunctionType, cells: Sequence[Any]) -> types.FunctionType:
    """The same function over other variables."""
    made = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells)
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def contents(cell: Any) -> Any:
    """What a variable of a function around holds; MISSING where it has no value."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def passed_on(value: Any) -> Any:
    """What a body is given for a tensor or a number."""
    if isinstance(value, torch.Tensor):
        return as_real(value)
    return as_tensor(value, torch.float64) if isinstance(value, torch.SymFloat) else value


def received_as(inside: Any, own: Any) -> Any:
    """What a body makes of that again."""
    if isinstance(own, torch.Tensor) and own.is_complex():
        return as_complex(inside)
    if may_be_number(own):
        note_number(inside)
    return inside.item() if isinstance(own, torch.SymFloat) else inside


def tensor_or_number(value: Any) -> Any:
    """A value, or the tensor in an array."""
    return value.tensor if isinstance(value, Array) else value


def is_operand(value: Any) -> bool:
    """Whether a body takes a value as an operand: a traced tensor, or a number of data."""
    if isinstance(value, torch.Tensor):
        return type(value) is Traced or is_open(value)
    return isinstance(value, NUMBERS) and not isinstance(value, torch.SymBool) and is_of_data(value)


# ---------------------------------------------------------------------------------------------- what is written


@attrs.define(eq=False)
class Written:
    """An object that bodies may write in place: `original`, and the `copy` that the body at hand writes in its stead.
    `same` says for each body whether its variable was that object in the end, `changed` whether any wrote it; `gains`
    how many elements bodies appended to a list, -1 for one that did something else."""

    original: Any
    inside: Any = None
    copy: Any = None
    same: list[bool] = attrs.field(factory=list)
    changed: bool = False
    gains: list[int] = attrs.field(factory=list)

    def begin(self, inside: Any) -> Any:
        """The copy for one body, of the stand-in of the object."""
        self.inside = inside
        if isinstance(inside, GrowingList):
            self.copy = inside.begun()
        else:
            self.copy = inside.clone() if isinstance(inside, torch.Tensor) else inside.copy()
        return self.copy

    def content(self) -> Any:
        """What the object holds at the end of a body."""
        if not isinstance(self.copy, torch.Tensor):
            self.changed = True
            if isinstance(self.copy, GrowingList):
                return self.copy.told()
            if isinstance(self.copy, list):
                same = all(map(operator.is_, self.inside, self.copy)) and len(self.copy) >= len(self.inside)
                self.gains.append(len(self.copy) - len(self.inside) if same else -1)
            return self.copy
        handle = self.copy.handle if isinstance(self.copy, Traced) else None
        wrote = self.copy._version > 0 if handle is None else handle.memory.version > 0
        self.changed = self.changed or wrote
        return self.copy if wrote else self.inside

    @property
    def is_longer_on_one_way(self) -> bool:
        """Whether the last two bodies did nothing to a list but append, one more than the other."""
        return len(self.gains) > 1 and min(self.gains[-2:]) >= 0 and self.gains[-2] != self.gains[-1]

    def end(self, new: Any) -> Any:
        """The object itself, which holds what the bodies made of their copies."""
        if not self.changed:
            return self.original
        if isinstance(self.original, torch.Tensor):
            self.original.copy_(new)
        elif isinstance(self.original, GrowingList):
            self.original.extend(new)
        elif isinstance(self.original, list):
            self.original[:] = new
        else:
            self.original.clear()
            self.original.update(new)
        return self.original


class Carrier:
    """A loop or branch, which follows the lists that its bodies write."""

    places: dict[int, Written]

    def carries(self, held: Any) -> bool:
        """Whether a list is what the body at hand writes in the stead of one of its variables."""
        return any(each.copy is held for each in self.places.values())


def is_carried(held: Any) -> bool:
    """Whether a loop or branch whose body is being traced follows a list; others are the body's own."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        around = frame.f_locals.get("self") if frame.f_code.co_filename.startswith(HERE) else None
        if isinstance(around, Carrier) and around.carries(held):
            return True
        frame = frame.f_back
    return False


def is_copied(value: Any) -> bool:
    """Whether a body writes a copy of an object."""
    tensor = isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)
    return tensor or type(value) in CONTAINERS or isinstance(value, GrowingList)


@contextmanager
def attributes_kept(attributes: Sequence[tuple[Any, str]]) -> Iterator[None]:
    """A block after which attributes are what they were."""
    before = [getattr(holder, name, MISSING) for holder, name in attributes]
    try:
        yield
    finally:
        for (holder, name), value in zip(attributes, before, strict=True):
            if value is not MISSING:
                if getattr(holder, name, MISSING) is not value:
                    setattr(holder, name, value)
            elif hasattr(holder, name):
                delattr(holder, name)


@contextmanager
def undone(operands: Sequence[Any]) -> Iterator[None]:
    """A block that may be left by an error, after which another way is tried: then direct capture has asked nothing in
    it."""
    tracer = next((each.tracer for each in operands if type(each) is Traced), None)
    if tracer is None:
        yield
        return
    asked = tracer.asked
    kept, fixed, told = dict(asked.kept), dict(asked.fixed), len(asked.told)
    checks, lookups, raised = len(tracer.scope.checks), len(tracer.scope.lookups), asked.raised
    try:
        yield
    except Exception as error:
        final = raised is None and type(error) is CaptureError  # other kinds have another way tried
        asked.raised = (error, getattr(error, "source", "")) if final else raised
        asked.kept.clear()
        asked.kept.update(kept)
        tracer.allowed.clear()
        asked.fixed.clear()
        asked.fixed.update(fixed)
        del asked.told[told:]
        del tracer.scope.checks[checks:]
        del tracer.scope.lookups[lookups:]
        raise
