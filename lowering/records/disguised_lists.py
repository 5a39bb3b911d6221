"""Lists of Python's own that answer as another object does, for as long as a model is traced.

A list has any number of names, and nothing of Python's asks its elements for the length of it. So where a traced loop
makes a list grow, the very object that other names hold is made one of a class that asks what it became: its class is
written into it, as CPython lays objects out, which is looked at before, and it is a plain list again afterwards.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable
from typing import Any

from lowering.errors import CaptureError

FIRST = "__contains__ __delitem__ __getitem__ __iter__ __len__ __reversed__ __setitem__ __eq__ __ne__ __lt__ __le__"
METHODS = f"{FIRST} __gt__ __ge__ __add__ __iadd__ __mul__ __rmul__ __imul__ append clear copy count extend"
NAMES = f"{METHODS} index insert pop remove reverse sort".split()


class Disguised(list[Any]):
    """A list whose only element tells, as `answering`, what answers for it."""

    __slots__ = ()

    __hash__ = None

    def answering(self) -> Any:
        """What answers for it."""
        return list.__getitem__(self, 0).answering(self)

    def __radd__(self, other: Any) -> Any:
        return other + self.answering()

    def __copy__(self) -> Any:
        return copy.copy(self.answering())

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.deepcopy(self.answering(), memo)


def answered(name: str) -> Callable[..., Any]:
    """The method of that name of what answers for a list."""

    def answer(self: Disguised, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.answering(), name)(*args, **kwargs)

    return answer


for each in NAMES:
    setattr(Disguised, each, answered(each))


def disguise(held: list[Any]) -> None:
    """Makes a plain list, whose only element tells what answers for it, ask that. Raises CaptureError where objects do
    not lie in memory as those of CPython do."""
    if type(held) is list:
        set_class(held, Disguised)


def undisguise(*lists: Any) -> None:
    """Makes plain lists again of those that ask another object."""
    for held in lists:
        if type(held) is Disguised:
            set_class(held, list)


def set_class(held: list[Any], cls: type[list[Any]]) -> None:
    """Writes the class of a list: the last word of the head of an object."""
    before = type(held)
    place = ctypes.c_void_p.from_address(id(held) + object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p))
    if place.value != id(before) or cls.__basicsize__ != before.__basicsize__:
        raise CaptureError(
            "a list that a loop on data makes grow has other names, which this Python does not let irkit follow",
            hint="use CPython, or return the list from the function that makes it grow and use no other name",
        )
    if cls is Disguised:  # of which each instance counts as a user, as of no class that is built in
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(cls))
    place.value = id(cls)
    if before is Disguised:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(before))
