"""`isinstance(n, int)` and `type(n) is int` of a number that data or sizes tell, which is a symbol of torch's.

Python asks a number for its `__class__` where its type does not answer, so that a property of that name is all that
isinstance, match, singledispatch and abstract classes need. It stands in the dict of torch's class itself: Python takes
`torch.SymInt.__class__ = ...` for the class of the class, lets no class that has object for its only base get another,
and torch's C++ makes no numbers of a class derived from torch.SymInt. A `__getattribute__` would be called for every
attribute, and another `isinstance` in a model's globals is not what match and singledispatch ask.
"""

from __future__ import annotations

import copy
import copyreg
import enum
import functools
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import functorch
import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

import passes
from irkit import dims
from lowering.capture.patches.asked_texts import plain_number
from lowering.capture.patches.kept_sizes import Float, Int
from lowering.capture.patches.replaced import attributes_of, replaced_attributes, replaced_in_classes, what_waits
from lowering.records.members import keys_asked, members_asked
from lowering.records.module_kinds import kinds_of_parts

PLAIN: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
"""What a number of each kind of torch's is in eager."""
KEEPING: dict[type, type] = {int: Int, float: Float}
"""What stands for some of them where sizes are kept."""
TENSORS = frozenset((FakeTensor, FunctionalTensor))
"""What stands for a tensor while torch.export runs; direct capture's own class says so itself."""
ANSWERED = frozenset((*PLAIN, *KEEPING, *TENSORS, type))
"""The types that `type` of a model's may answer otherwise than Python's."""
FOLDERS = (
    *(Path(str(each.__file__)).parent for each in (torch, functorch, sympy, passes)),
    Path(str(dims.__file__)).parents[1], Path(__file__).parents[2],
)  # fmt: skip
OWN = (*(str(folder) + os.sep for folder in FOLDERS), copy.__file__, copyreg.__file__)
"""Code that tells the symbols of torch's from numbers, or makes copies of whatever it is given."""
LEFT = sys.stdlib_module_names | {
    "torch", "functorch", "torchgen", "sympy", "mpmath", "irkit", "passes", "lowering",
    "attr", "attrs", "numpy", "onnx", "google", "onnxruntime", "ml_dtypes", "pyrsistent",
}  # fmt: skip
"""Libraries whose `type` stays Python's: torch, irkit, and what irkit itself computes with."""
WITHOUT_TENSORS = frozenset((
    "anyio", "certifi", "filelock", "fsspec", "h11", "httpcore", "httpcore2", "httpx", "httpx2", "huggingface_hub",
    "idna", "jinja2", "markupsafe", "networkx", "regex", "requests", "rich", "safetensors", "tokenizers", "urllib3",
    "yaml",
))  # fmt: skip
"""Installed libraries that speak to networks, read files or write text, and are given no tensor and no size."""
ASKING = ("<frozen abc>", "<frozen _collections_abc>", functools.__file__, typing.__file__)
"""Code that asks in the name of its caller."""


def number_itself(number: Any, _memo: Any = None) -> Any:
    """The copy of a number. One of what stands behind it would keep its conditions for itself."""
    return number


def of_plain(name: str) -> Callable[..., Any]:
    """A method of plain numbers, which takes the number for what it is."""
    return lambda number, *args, **named: getattr(plain_number(number), name)(*args, **named)


def lacked_attributes() -> Iterator[tuple[type, str, Any]]:
    """(class, name, attribute) of what numbers have in eager, and symbols of torch's have not."""
    for kind, plain in PLAIN.items():
        yield from ((kind, name, number_itself) for name in ("__copy__", "__deepcopy__"))
        known = ALIKE.get(kind, {})
        for name in sorted(set(dir(plain)) - set(dir(kind))):
            if name in known:
                yield kind, name, known[name]
            elif name[0] != "_" and callable(getattr(plain, name)):
                yield kind, name, of_plain(name)
            elif name[0] != "_":
                yield kind, name, property(lambda number, name=name: getattr(plain_number(number), name))


SELF = property(number_itself)
ALIKE: dict[type, dict[str, Any]] = {
    torch.SymInt: {
        "real": SELF, "numerator": SELF, "conjugate": number_itself, "imag": property(lambda _number: 0),
        "denominator": property(lambda _number: 1),
    },
    torch.SymFloat: {"real": SELF, "conjugate": number_itself, "imag": property(lambda _number: 0.0)},
}  # fmt: skip
"""Attributes that are the same for all numbers, or the number."""
LACKED: dict[type, dict[str, Any]] = {
    kind: {name: held for holder, name, held in lacked_attributes() if holder is kind} for kind in PLAIN
}


class Askers(dict[str, bool | None]):
    """Of each file whether its code sees symbols as torch has them; None where the caller's file tells."""

    def __missing__(self, file: str) -> bool | None:
        self[file] = found = None if file in ASKING else file.startswith(OWN)
        return found


@contextmanager
def kinds_told() -> Iterator[None]:
    """A block in which all but torch's code and irkit's takes a symbolic number for what it is in eager: an int, a
    float or a bool, of which a copy is the number itself, with the attributes of these."""
    if are_kinds_told():
        yield
        return
    askers = Askers()
    told = {kind: {**LACKED[kind], "__class__": property(telling(kind, PLAIN[kind], askers))} for kind in PLAIN}
    with replaced_in_classes(told):
        yield


def are_kinds_told() -> bool:
    """Whether a block around this one tells kinds."""
    return "__class__" in attributes_of(torch.SymInt)


@contextmanager
def types_told(module: torch.nn.Module | None, places: Sequence[Any] = (), within: bool = False) -> Iterator[None]:
    """A block in which `type(n)`, which nothing but another `type` changes, is of the same kind in all libraries but
    Python's own, torch's and irkit's, in the model's functions wherever they stand, and in code whose globals are
    `places`: in these alone `within` a block for the same module, which has kinds told from the first number on."""
    is_within = within and (are_kinds_told() or what_waits() is not None)
    with type_told(places if is_within else (*spaces_of(sys.modules), *own_spaces(module), *places)):
        yield


@contextmanager
def type_told(spaces: Sequence[dict[str, Any]]) -> Iterator[None]:
    """A block in which `type` is `Kind` to code with certain globals, but where these have one of their own."""
    told: list[dict[str, Any]] = []
    try:
        for names in spaces:
            if "type" not in names:
                names["type"] = Kind
                told.append(names)
        yield
    finally:
        for names in told:
            names.pop("type", None)


def telling(kind: type, plain: type, askers: Askers) -> Callable[[Any], type]:
    """What gives the class of a number, as the code that asks shall see it."""

    def told(_number: Any) -> type:
        frame: Any = sys._getframe(1)
        while (own := askers[frame.f_code.co_filename]) is None and frame.f_back is not None:
            frame = frame.f_back
        return kind if own else named_in(frame.f_globals, plain)

    return told


def named_in(names: dict[str, Any], kind: type) -> type:
    """A class as code knows it that has these globals: where sizes are kept, its `int` is another."""
    held = KEEPING.get(kind)
    return held if held is not None and names.get(kind.__name__) is held else kind


def type_in(names: dict[str, Any], value: Any) -> type:
    """type(value), as code sees it that has these globals."""
    found = type(value)
    if found is type:
        return Kind if names.get("type") is Kind else type
    if found in TENSORS or stands_for_tensor(found):
        return torch.nn.Parameter if isinstance(value, torch.nn.Parameter) else torch.Tensor
    return named_in(names, PLAIN.get(found, found))


def stands_for_tensor(kind: type) -> bool:
    """Whether a class is that of what direct capture gives a model for tensors."""
    return "stands_for_tensor" in vars(kind)


class Meta(type):
    """What makes `Kind` look like type."""

    def __call__(cls, *given: Any, **named: Any) -> Any:
        if cls is not Kind:  # a class of classes that is derived from it
            return super().__call__(*given, **named)
        if not given or given[1:] or named:
            return type(*given, **named)
        found = type(given[0])
        plain = found not in ANSWERED and not stands_for_tensor(found)
        return found if plain else type_in(sys._getframe(1).f_globals, given[0])

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, type) if cls is Kind else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, type) if cls is Kind else super().__subclasscheck__(subclass)

    def __getitem__(cls, kinds: Any) -> Any:
        return types.GenericAlias(type, kinds)

    def __eq__(cls, other: object) -> bool:
        return cls is other or (cls is Kind and other is type)

    def __hash__(cls) -> int:
        return hash(type) if cls is Kind else super().__hash__()


class Kind(type, metaclass=Meta):
    """type, but that a symbolic number, or what stands for a tensor, is of the kind that it has in eager."""


Kind.__name__ = Kind.__qualname__ = "type"


def spaces_of(loaded: dict[str, types.ModuleType]) -> list[dict[str, Any]]:
    """The globals of all modules of Python that may hold code of models which asks for types. To look at each of
    thousands would take longer than a small model: what was installed stays as it is while nothing else is imported,
    and of the user's, where any function may be another in the next export, all are taken."""
    return [loaded[name].__dict__ for name in modules_asking(len(loaded), next(reversed(loaded))) if name in loaded]


@functools.lru_cache(maxsize=4)
def modules_asking(_count: int, _last: str) -> tuple[str, ...]:
    """Of the modules of Python, of which there are so many with this as the last, those that are the user's own, and of
    libraries that are installed and may be given tensors those whose code names `type`."""
    held = [(name, each) for name, each in [*sys.modules.items()] if is_modelling(name)]
    modules = [(name, each.__dict__) for name, each in held if isinstance(each, types.ModuleType)]
    own = {name: None for name, space in modules if not INSTALLED.search(str(space.get("__file__", "")))}
    rest = [(name, space) for name, space in modules if name not in own]
    given = [(name, space) for name, space in rest if name.partition(".")[0] not in WITHOUT_TENSORS]
    return (*own, *[name for name, space in given if may_ask(name, space)])


INSTALLED = re.compile(r"[\\/](site|dist)-packages[\\/]")
"""Where libraries lie, whose code nobody changes while it runs."""


def may_ask(name: str, space: dict[str, Any]) -> bool:
    """Whether code of a module of Python with these globals names `type`, or may be typed in at any time."""
    return name == "__main__" or names_type(name, len(space), id(space.get("__spec__")))


@functools.lru_cache(maxsize=1 << 16)
def is_modelling(name: str) -> bool:
    """Whether a module of Python stands in a library whose `type` may be another."""
    return name.partition(".")[0] not in LEFT


@functools.lru_cache(maxsize=1 << 16)
def names_type(module: str, _size: int, _spec: int) -> bool:
    """Whether code of a module of Python names `type`, as long as that has so many globals and was not loaded anew."""
    own = sys.modules[module].__dict__
    functions = (each for each in functions_in(own, module) if each.__globals__ is own)
    return any("type" in code.co_names for each in functions for code in codes_below(each.__code__))


def functions_in(attributes: Any, module: str) -> Iterator[types.FunctionType]:
    """The functions among attributes and in the classes of a module among them, and those that they wrap."""
    level, seen = [*attributes.values()], set[int]()
    for each in level:  # which grows
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, types.FunctionType):
            level += [cell.cell_contents for cell in each.__closure__ or () if is_filled(cell)]
            level.append(each.__dict__.get("__wrapped__"))
            yield each
        elif isinstance(each, type):
            level += vars(each).values() if vars(each).get("__module__") == module else ()
        else:
            level += [getattr(each, name, None) for name in WRAPPING.get(type(each), ())]


WRAPPING: dict[type, tuple[str, ...]] = {
    staticmethod: ("__func__",), classmethod: ("__func__",), types.MethodType: ("__func__",),
    property: ("fget", "fset", "fdel"), functools.partial: ("func",), functools.cached_property: ("func",),
}  # fmt: skip
"""Under which names objects have the functions that they call."""


def codes_below(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code and those of the functions inside it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes_below(each)


def is_filled(cell: types.CellType) -> bool:
    """Whether a cell of a closure holds something."""
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def own_spaces(module: torch.nn.Module | None) -> Iterator[dict[str, Any]]:
    """The globals of a model's functions that stand in no module of Python, as those of code that is executed do."""
    if module is None:
        return
    yield from globals_in(module.__dict__)
    for kind in {base: None for each in kinds_of_parts(module) for base in each.__mro__}:
        if kind.__module__ == "builtins" or is_modelling(kind.__module__):  # as a class is that exec() makes
            yield from globals_in(vars(kind))


def globals_in(attributes: Any) -> Iterator[dict[str, Any]]:
    """The globals of the functions among attributes, but for those of Python's modules."""
    for each in [*attributes.values()]:
        if isinstance(each, types.FunctionType):
            names = each.__globals__
            if getattr(sys.modules.get(names.get("__name__", "")), "__dict__", None) is not names:
                yield names


# ---------------------------------------------------------------------------------------------- sizes as keys


HASHING = (str(Path(torch.__file__).parent) + os.sep, str(Path(__file__).parents[2]) + os.sep)


@contextmanager
def sizes_hashed() -> Iterator[None]:
    """A block in which a model's own code may put a size into a set or a dict, which takes its number: a plain one of
    the same number has the same place there. Where it only asks whether a size is in one, that is the condition, and
    where a dict is asked by `get` for one that it does not have, that it has none such. An enumeration keeps what its
    members are made of, for good: it is given the plain number."""
    refusing, own = torch.SymInt.__hash__, enum.EnumMeta.__call__

    def hashed(size: Any) -> int:
        if sys._getframe(1).f_code.co_filename.startswith(HASHING):
            return refusing(size)
        node = size.node
        keys = keys_asked()
        told = members_asked() or (frozenset() if node.hint in keys else keys)
        if not told:
            return hash(node.guard_int("", 0))
        among = [node.eq(node.wrap_int(each)) for each in sorted(told)]
        functools.reduce(lambda one, other: one.or_(other), among).guard_bool("", 0)
        return hash(node.hint)

    def member(kind: Any, *values: Any, **named: Any) -> Any:
        return own(
            kind, *(each.node.guard_int("", 0) if isinstance(each, torch.SymInt) else each for each in values), **named
        )

    with replaced_attributes((torch.SymInt, "__hash__", hashed), (enum.EnumMeta, "__call__", member)):
        yield


@contextmanager
def hashes_heard(raised: list[Any]) -> Iterator[None]:
    """A block in which torch refuses the hash of a size that varies, by an error that is among those `raised`, with its
    frame, where the model's own code asks: it may catch that."""
    refusing = torch.SymInt.__hash__

    def hashed(size: Any) -> int:
        try:
            return refusing(size)
        except TypeError as error:
            if not sys._getframe(1).f_code.co_filename.startswith(HASHING):
                raised.append((error, None))
            raise

    with replaced_attributes((torch.SymInt, "__hash__", hashed)):
        yield
