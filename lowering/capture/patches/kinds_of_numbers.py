"""`isinstance(n, int)` and `type(n) is int` of a number that data or sizes tell, which is a symbol of torch's."""

from __future__ import annotations

import copy
import copyreg
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import sympy
import torch

from lowering.capture.patches.kept_sizes import Float, Int

PLAIN: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
"""What a number of each kind of torch's is in eager."""
KEEPING: dict[type, type] = {int: Int, float: Float}
"""What stands for some of them where sizes are kept."""
OWN = (
    *(str(Path(str(each.__file__)).parent) for each in (torch, sympy)), str(Path(__file__).parents[2]),
    copy.__file__, copyreg.__file__,
)  # fmt: skip
"""Code that tells the symbols of torch's from numbers, or makes copies of whatever it is given."""
LEFT = frozenset(("torch", "builtins", "lowering", "irkit", "passes", ""))
"""Libraries whose `type` stays Python's."""
ASKING = ("<frozen abc>", "<frozen _collections_abc>")
"""Code that asks in the name of its caller."""


@contextmanager
def kinds_told(module: torch.nn.Module | None, places: Sequence[Any] = ()) -> Iterator[None]:
    """A block in which all but torch's code and irkit's takes a symbolic number for what it is in eager: an int, a
    float or a bool. `type(n)`, which nothing but another `type` changes, does so in the libraries that a model's code
    stands in, and in modules whose globals are `places`."""
    spaces = [names for names in (*spaces_of(module), *places) if "type" not in names]
    try:
        for names in spaces:
            names["type"] = Kind
        for kind, plain in PLAIN.items():
            set_class_of(kind, property(telling(kind, plain)))
        yield
    finally:
        for kind in PLAIN:
            set_class_of(kind, None)
        for names in spaces:
            names.pop("type", None)


def set_class_of(kind: type, told: property | None) -> None:
    """Gives numbers of a kind another `__class__`, by which isinstance goes; None gives them their own. Python would
    take `kind.__class__ = ...` for the class of the kind itself; what it has for attributes is a dict all the same.
    A `__getattribute__` would be called for every attribute."""
    (attributes,) = gc.get_referents(vars(kind))
    if told is None:
        attributes.pop("__class__", None)
    else:
        attributes["__class__"] = told
    kind.__doc__ = kind.__doc__  # so that Python looks for attributes of the class anew


def telling(kind: type, plain: type) -> Callable[[Any], type]:
    """What gives the class of a number, as the code that asks shall see it."""

    def told(number: Any) -> type:
        frame = sys._getframe(1)
        while frame.f_code.co_filename in ASKING and frame.f_back is not None:
            frame = frame.f_back
        return kind if frame.f_code.co_filename.startswith(OWN) else named_in(frame.f_globals, plain)

    return told


def named_in(names: dict[str, Any], kind: type) -> type:
    """A class as code knows it that has these globals: where sizes are kept, its `int` is another."""
    held = KEEPING.get(kind)
    return held if held is not None and names.get(kind.__name__) is held else kind


class Meta(type):
    """What makes `Kind` look like type."""

    def __call__(cls, *given: Any, **named: Any) -> Any:
        if len(given) != 1 or named:
            return type(*given, **named)
        found = type(given[0])
        found = PLAIN.get(found, found)
        if found is type:
            return cls
        return named_in(sys._getframe(1).f_globals, found)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, type)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, type)

    def __eq__(cls, other: object) -> bool:
        return other is type or other is cls

    def __hash__(cls) -> int:
        return hash(type)


class Kind(type, metaclass=Meta):
    """type, but that a symbolic number is of the kind that it has in eager."""


def spaces_of(module: torch.nn.Module | None) -> Iterator[dict[str, Any]]:
    """The globals of all modules of Python in the libraries that a model's code stands in, but for torch's own."""
    heads: set[str] = set()
    level: list[Any] = [] if module is None else [module]
    while level:  # module.modules() would take far more calls
        heads.update([name for kind in {type(each) for each in level} for name in map(head_of, kind.__mro__)])
        heads.update([head_of(each.__dict__["forward"]) for each in level if "forward" in each.__dict__])
        level = [part for each in level for part in each._modules.values() if part is not None]
    heads -= LEFT
    inner = tuple([f"{head}." for head in heads])
    for name in [*heads, *(name for name in [*sys.modules] if name.startswith(inner))]:
        held = sys.modules.get(name)
        if isinstance(held, ModuleType):
            yield held.__dict__


def head_of(held: Any) -> str:
    """The library of a class or function."""
    return (getattr(held, "__module__", "") or "").partition(".")[0]
