"""Objects that modules are handed and call methods of, and what of them modules may see otherwise.

The number by which a layer tells a cache which one it is, an attribute in which layers differ, may go to a method of
that and nowhere else: while a module runs whose calls are noted, it reads a `Mark` in place of such a number, and
whatever else is done with that counts as having read the attribute.
"""

from __future__ import annotations

import dis
import inspect
import itertools
import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache, partial, wraps
from typing import Any, TypeGuard

import torch

from lowering.capture.inputs.alike import SIMPLE, functions_of
from lowering.capture.inputs.variables import ABSENT, is_filled
from lowering.records.message_lines import OWN


class Mark:
    """An int of a module, as far as anybody asks; `read` is called when somebody does."""

    def __init__(self, number: int, place: tuple[int, str], read: Callable[[], None]) -> None:
        self.number, self.place, self.read = number, place, read

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return int

    def __getattr__(self, name: str) -> Any:
        self.read()
        return getattr(self.number, name)


def answered(name: str) -> Callable[..., Any]:
    """A method of int as one of `Mark`."""
    own = getattr(int, name)

    def answer(self: Any, *args: Any) -> Any:
        self.read()
        return own(self.number, *map(without_marks, args))

    return answer


METHODS = (
    "abs add and bool ceil divmod eq float floor floordiv format ge gt hash index int invert le lshift lt mod mul ne",
    "neg or pos pow radd rand rdivmod repr rfloordiv rlshift rmod rmul ror round rpow rrshift rshift rsub rtruediv",
    "rxor str sub truediv trunc xor",
)
for each in " ".join(METHODS).split():
    setattr(Mark, f"__{each}__", answered(f"__{each}__"))


def without_marks(given: Any) -> Any:
    """The same with what it is of in place of each mark, noted list or dict, and item."""
    kind = type(given)
    if kind is Mark:
        return given.number
    if kind is Item:
        return vars(given)["held of"]
    if issubclass(kind, Asked):
        return given.held
    if kind is tuple or kind is list:
        return kind([without_marks(each) for each in given])
    return {name: without_marks(each) for name, each in given.items()} if kind is dict else given


class Watch:
    """An attribute of instances of a class whose reads are noted, or which is a mark where its use is."""

    def __init__(self, name: str, calls: Any) -> None:
        self.name, self.calls = name, calls

    def __get__(self, held: Any, cls: type) -> Any:
        if held is None or self.name not in held.__dict__:
            raise AttributeError(self.name)
        number, place = held.__dict__[self.name], (id(held), self.name)
        if type(number) is int and self.calls.marks:
            self.calls.marked = True
            return Mark(number, place, partial(self.calls.reads.append, place))
        self.calls.reads.append(place)
        return number

    def __set__(self, held: Any, value: Any) -> None:
        held.__dict__[self.name] = value

    def __delete__(self, held: Any) -> None:
        del held.__dict__[self.name]


# ---------------------------------------------------------------------------------------------- their methods


class Shadow:
    """A method of an object, as an attribute of the object itself: its calls are noted."""

    def __init__(self, holder: Any, name: str, call: Callable[..., Any]) -> None:
        self.holder, self.name, self.call = holder, name, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        method = getattr(type(self.holder), self.name)
        return self.call(self.holder, self.name, types.MethodType(method, self.holder), args, kwargs)


@contextmanager
def shadow_methods(
    objects: Sequence[Any], call: Callable[..., Any], read: Callable[[Any, str], Any], is_object: Callable[[Any], bool]
) -> Iterator[None]:
    """A block in which each method of some objects is a `Shadow`, of those that have none yet, and each of their
    attributes that may hold more than one number or tensor is what `read` gives for it, unless it is an object
    itself."""
    made: list[tuple[dict[str, Any], str]] = []
    watched: list[tuple[type, str, Any]] = []
    try:
        for each in objects:
            cls = type(each)
            for name, held in each.__dict__.items():
                before = vars(cls).get(name, ABSENT)
                if not isinstance(held, SEEN) and not is_object(held) and type(before) is not Attribute:
                    setattr(cls, name, Attribute(name, read))
                    watched.append((cls, name, before))
            for name in methods_of(cls):
                if name not in each.__dict__:
                    each.__dict__[name] = Shadow(each, name, call)
                    made.append((each.__dict__, name))
        yield
    finally:
        for held, name in made:
            held.pop(name, None)
        for cls, name, before in watched:
            if before is ABSENT:
                delattr(cls, name)
            else:
                setattr(cls, name, before)


SEEN = (*SIMPLE, torch.Tensor, type, Shadow)
"""What an attribute of an object may be whose reading needs no noting: it is compared as the object is handed over."""


class Attribute:
    """An attribute of the instances of a class which is what `read` gives for it."""

    def __init__(self, name: str, read: Callable[[Any, str], Any]) -> None:
        self.name, self.read = name, read

    def __get__(self, holder: Any, cls: type) -> Any:
        if holder is not None and self.name in holder.__dict__:
            return self.read(holder, self.name)
        for each in cls.__mro__:
            if type(held := vars(each).get(self.name, self)) is not Attribute:
                return held
        raise AttributeError(self.name)

    def __set__(self, holder: Any, value: Any) -> None:
        holder.__dict__[self.name] = value

    def __delete__(self, holder: Any) -> None:
        if self.name not in holder.__dict__:
            raise AttributeError(self.name)
        del holder.__dict__[self.name]


class Asked:
    """What lists and dicts have in common whose methods are noted: `call` is called with the name of one, itself, and
    what it is given, and with ITEM for an attribute of an object in them; `failed` where anything else is done."""

    call: Callable[..., Any]
    held: Any
    failed: Callable[[], None]

    @classmethod
    def of(cls, held: Any, call: Callable[..., Any], failed: Callable[[], None]) -> Any:
        """A list or dict with the same in it."""
        made = cls(held)  # type: ignore[call-arg]
        vars(made).update(held=held, call=call, failed=failed)
        return made

    def __getitem__(self, place: Any) -> Any:
        item = self.held[without_marks(place)] if type(place) in (int, str, Mark) else None
        if item is None or not is_told_by_attributes(type(item)):
            return self.call("__getitem__", self.held.__getitem__, (place,), {})
        return Item.of(item, partial(self.call, ITEM, partial(item_attribute, self.held)), place, self.failed)


def noted(name: str) -> Callable[..., Any]:
    """A method of a list or dict whose calls are noted."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.call(name, getattr(self.held, name), args, kwargs)

    return method


def noting(kind: type) -> type:
    """A list or dict whose methods are noted."""
    own = [name for name, held in vars(kind).items() if callable(held) and name not in LEFT and name != "__getitem__"]
    return type(f"Asked{kind.__name__.title()}", (Asked, kind), {name: noted(name) for name in own})


LEFT = ("__new__", "__init__", "__getattribute__", "__class_getitem__", "__hash__", "fromkeys")
ASKED = {kind: noting(kind) for kind in (list, dict)}
"""Lists and dicts whose methods are noted, by which of both they are."""
ITEM = "an attribute of an object in it"


def item_attribute(held: Any, place: Any, name: str) -> Any:
    """An attribute of an object in a list or dict."""
    return getattr(held[place], name)


def method_of(holder: Any, attribute: str | None, name: str) -> Callable[..., Any]:
    """A method of an object, or of the list or dict that is an attribute of it."""
    if attribute is None:
        return getattr(holder, name)
    held = holder.__dict__[attribute]
    return partial(item_attribute, held) if name == ITEM else getattr(held, name)


def is_told_by_attributes(cls: type) -> bool:
    """Whether the instances of a class have attributes and methods, and no special ones, which go by no name."""
    for each in cls.__mro__:
        for name, held in vars(each).items() if each is not object else ():
            if name.startswith("__") and name not in ("__init__", "__repr__") and inspect.isfunction(held):
                return False
    return are_objects(cls)


class Item:
    """An object in a list or dict whose attributes are noted as they are read."""

    @classmethod
    def of(cls, held: Any, call: Callable[..., Any], place: Any, failed: Callable[[], None]) -> Item:
        """Such an object by its place."""
        made = cls()
        vars(made).update({"held of": held, "call of": call, "place of": place, "failed of": failed})
        return made

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return type(vars(self)["held of"])

    def __getattr__(self, name: str) -> Any:
        own = vars(self)
        if isinstance(getattr(own["held of"], name), (*SIMPLE, torch.Tensor)):
            return own["call of"]((own["place of"], name), {})
        return getattr(self.itself(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.itself(), name, value)

    def __eq__(self, other: object) -> bool:
        return self.itself() == without_marks(other)

    def __hash__(self) -> int:
        return hash(self.itself())

    def __repr__(self) -> str:
        return repr(self.itself())

    def itself(self) -> Any:
        """The object, of which something is asked that is not noted."""
        vars(self)["failed of"]()
        return vars(self)["held of"]


def methods_of(cls: type) -> list[str]:
    """The names of the methods of a class, but for special ones."""
    names = (name for each in cls.__mro__ if each is not object for name in vars(each) if not name.startswith("__"))
    return [name for name in dict.fromkeys(names) if inspect.isfunction(inspect.getattr_static(cls, name))]


SPECIAL = ("__getattr__", "__getattribute__", "__setattr__", "__call__", "__torch_function__")
COPIES = ("copy", "deepcopy", "__dict__", "vars", "getattr")


def are_objects(cls: type) -> bool:
    """Whether the instances of a class are objects of Python's, whose methods can be noted."""
    if issubclass(cls, torch.nn.Module | type | types.ModuleType):
        return False
    own = [each for each in cls.__mro__ if each is not object]
    plain = all(each.__flags__ & HEAP and not vars(each).get("__slots__") for each in own)
    return plain and not any(name in vars(each) for each in own for name in SPECIAL) and bool(methods_of(cls))


HEAP = 1 << 9
"""The flag of a class that Python code made."""


def is_asked_only(cls: type, names: Set[str]) -> bool:
    """Whether code that reads some names says nothing of an object of a class that is not seen: a property, a copy."""
    own = (name for each in cls.__mro__ for name, held in vars(each).items() if is_computed(name, held))
    return names.isdisjoint((*COPIES, *own))


def names_read_by(functions: Iterable[types.FunctionType]) -> frozenset[str]:
    """The names that some functions read."""
    return frozenset(name for each in functions for code in codes_inside(each.__code__) for name in names_read(code))


def identity_tells(functions: Iterable[types.FunctionType]) -> bool:
    """Whether some functions may ask what tells an object from one that stands for it: its class by `type`, its `id`,
    or whether it is another object that is no function, None or such."""
    for function in functions:
        asks, compared = kinds_asked(function.__code__)
        known = {"LOAD_GLOBAL": function.__globals__, "LOAD_DEREF": variables_around(function)} if compared else {}
        if asks or any(not isinstance(known.get(step, {}).get(name, ABSENT), SINGLE) for step, name in compared):
            return True
    return False


def variables_around(function: types.FunctionType) -> dict[str, Any]:
    """What the variables around a function hold that are filled."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if is_filled(cell)}


@lru_cache(maxsize=1 << 12)
def kinds_asked(code: types.CodeType) -> tuple[bool, tuple[tuple[str, Any], ...]]:
    """(whether a code, or one inside it, asks for a class or an `id`; the steps and names by which it reads what it
    asks whether something is it). A module may ask for its own class."""
    compared: list[tuple[str, Any]] = []
    for each in codes_inside(code):
        steps = list(dis.get_instructions(each))
        itself = [each.co_varnames[:1] == ("self",) and step.argval == "self" for step in steps]
        for place, step in enumerate(steps):
            asks = step.opname == "LOAD_GLOBAL" and step.argval in APART
            if asks and not (itself[place + 1] and steps[place + 2].opname in CALLING):
                return True, ()
            if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval == "__class__" and not itself[place - 1]:
                return True, ()
            before = steps[place - 1]
            if step.opname == "IS_OP" and not (before.opname == "LOAD_CONST" and isinstance(before.argval, SINGLE)):
                compared.append((before.opname, before.argval))
    return False, tuple(dict.fromkeys(compared))


def tells_which(cls: type) -> bool:
    """Whether modules of a class may ask which of several equal ones they are in a way that is noticed by nobody: the
    `id` of something, where its memory lies, or whether it is another object that is no class, None or such."""
    return any(function_tells_which(each) for each in reached_from(functions_of((cls,))))  # as they are now


def value_tells_which(held: Any) -> bool:
    """The same of what an attribute of a module holds, if that is a function."""
    function = held.func if isinstance(held, partial) else getattr(held, "__func__", held)
    return is_followed(function) and any(map(function_tells_which, reached_from([function])))


Known = Mapping[str, Mapping[str, Any]]
"""What the variables around a code hold, by the step that reads one of them, LOAD_GLOBAL or LOAD_DEREF."""


def code_tells_which(code: types.CodeType, known: Known) -> bool:
    """The same of a code that ran, where variables held what is known, and of the functions that it calls by name."""
    if asks_which(code, known):
        return True
    named = functions_named(code, known["LOAD_GLOBAL"])
    return any(function_tells_which(each) for each in reached_from(named))


def function_tells_which(function: types.FunctionType) -> bool:
    """The same of a function alone."""
    known = {"LOAD_GLOBAL": function.__globals__, "LOAD_DEREF": variables_around(function)}
    given = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return any(map(is_telling, given)) or asks_which(function.__code__, known)


def asks_which(code: types.CodeType, known: Known) -> bool:
    """The same of a code, and those inside it, alone."""
    if any(is_telling(known["LOAD_GLOBAL"].get(name)) for name in globals_read(code)):
        return True
    if any(map(is_telling, known["LOAD_DEREF"].values())):
        return True
    always, compared = asked_of_identity(code)
    return always or not all(
        isinstance(known.get(step, {}).get(name, ABSENT), NEVER_MODULES) for step, name in compared
    )


@lru_cache(maxsize=1 << 12)
def asked_of_identity(code: types.CodeType) -> tuple[bool, tuple[tuple[str, Any], ...]]:
    """(whether a code, or one inside it, asks for an `id` or for where memory lies; the steps and names by which it
    reads what it asks whether something is it, but for constants)."""
    compared: list[tuple[str, Any]] = []
    for each in codes_inside(code):
        steps = list(dis.get_instructions(each))
        if any(step.opname in READING and step.argval in TELLING for step in steps):
            return True, ()
        if any(one.argval == "inspect" and step.argval == "stack" for one, step in itertools.pairwise(steps)):
            return True, ()
        before = (steps[place - 1] for place, step in enumerate(steps) if step.opname == "IS_OP")
        compared += [(step.opname, step.argval) for step in before if step.opname != "LOAD_CONST"]
    return False, tuple(dict.fromkeys(compared))


READING = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD")
TELLING = frozenset((
    "id", "is_", "is_not", "untyped_storage", "storage", "_cdata", "is_set_to", "_version", "grad", "_getframe",
    "__hash__", "__eq__", "__repr__", "ctypes", "__array_interface__",
    "currentframe", "_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks",
))  # fmt: skip
"""Names of what tells a module or a weight from an equal one, or by whom it is called."""
TELLING_FUNCTIONS = (id, operator.is_, operator.is_not, sys._getframe, inspect.currentframe, inspect.stack)
"""Functions that do, by whatever name."""


def is_telling(held: Any) -> bool:
    """Whether something is one of those functions."""
    return any(held is each for each in TELLING_FUNCTIONS)


NEVER_MODULES = (
    *SIMPLE, type(Ellipsis), type(NotImplemented), type, types.FunctionType, types.BuiltinFunctionType,
    types.ModuleType, Enum,
)  # fmt: skip
"""Types of what no module or weight is."""


@contextmanager
def identity_noted(classes: Sequence[type], asked: Callable[[], None]) -> Iterator[None]:
    """A block in which `asked` is called where code beside torch's and ours looks up an instance of one of some classes
    in a set, dict or list, or whether it is equal to another object, and of tensors where they lie."""
    replaced: list[tuple[type, str, Any]] = []
    try:
        for cls in classes:
            for name in OF_MODULES if issubclass(cls, torch.nn.Module) else OF_TENSORS:
                own = getattr(cls, name)
                if own is not None:  # of what compares by its content, and is in no set
                    replaced.append((cls, name, vars(cls).get(name, ABSENT)))
                    setattr(cls, name, noting_call(own, asked))
        yield
    finally:
        for cls, name, before in reversed(replaced):
            if before is ABSENT:
                delattr(cls, name)
            else:
                setattr(cls, name, before)


OF_MODULES = ("__hash__", "__eq__")
"""The methods by which sets, dicts and lists find a module."""
OF_TENSORS = ("__hash__", "data_ptr")
"""What tells which of several equal tensors one is: `==` compares elements."""


def noting_call(own: Callable[..., Any], asked: Callable[[], None]) -> Callable[..., Any]:
    """A method that says so where code beside torch's and ours calls it."""

    @wraps(own)
    def method(*given: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if f"{caller}.".startswith(NOT_ASKING):
            return own(*given)
        asked()
        return own(*given)

    return method


NOT_ASKING = ("torch.", "irkit.", "lowering.", "passes.")
"""Modules whose code looks modules up for other reasons than to compute something else."""

CALLING = ("PRECALL", "CALL")
SINGLE = (type(None), bool, type(Ellipsis), types.FunctionType)
APART = frozenset(("type", "id"))


def codes_inside(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code, and those of the functions and comprehensions in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes_inside(each)


def functions_called(modules: Sequence[type]) -> list[types.FunctionType]:
    """The functions of modules of these classes, and those that they call by name, as they are now."""
    return reached_from(functions_of(modules))


def reached_from(functions: Iterable[types.FunctionType]) -> list[types.FunctionType]:
    """Some functions, and those that they call by name."""
    pending, found = list(functions), dict[types.CodeType, types.FunctionType]()
    while pending:
        each = pending.pop()
        if each.__code__ not in found:
            found[each.__code__] = each
            pending += functions_named(each.__code__, each.__globals__)
    return list(found.values())


def functions_named(code: types.CodeType, variables: Mapping[str, Any]) -> Iterator[types.FunctionType]:
    """The functions that a code calls by name, or may choose from a list or dict that it names."""
    for name in globals_read(code):
        held = unpatched(variables.get(name))
        if is_followed(held):
            yield held
        elif isinstance(held, dict | list | tuple):
            yield from filter(is_followed, map(unpatched, held.values() if isinstance(held, dict) else held))


def unpatched(held: Any) -> Any:
    """What stood there before irkit put a function of its own in its place, as it does while a model runs."""
    while inspect.isfunction(held) and held.__code__.co_filename.startswith(OWN):
        held = getattr(held, "__wrapped__", None)
    return held


def is_followed(held: Any) -> TypeGuard[types.FunctionType]:
    """Whether something is a function that is none of torch's."""
    return inspect.isfunction(held) and not is_of_torch(held)


@lru_cache(maxsize=1 << 12)
def globals_read(code: types.CodeType) -> tuple[str, ...]:
    """The global names that a code reads, and those inside it."""
    own = [each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"]
    inner = (name for each in code.co_consts if isinstance(each, types.CodeType) for name in globals_read(each))
    return tuple(dict.fromkeys((*own, *inner)))


def is_of_torch(function: types.FunctionType) -> bool:
    """Whether a function is one of torch's, which takes no objects."""
    return f"{function.__module__}.".startswith("torch.")


@lru_cache(maxsize=1 << 12)
def names_read(code: types.CodeType) -> frozenset[str]:
    """The names in a code, and those that it hands to `getattr`, which is among them only if it hands over others, for
    other things than the module itself that it is a method of."""
    if "getattr" not in code.co_names:
        return frozenset(code.co_names)
    steps, found, told = list(dis.get_instructions(code)), set(code.co_names) - {"getattr"}, True
    for place in (index for index, each in enumerate(steps) if each.argval == "getattr"):
        name = name_handed_over(steps[place + 1 :])
        told = told and (name is not None or is_of_itself(steps[place + 1 : place + 3], code))
        found.add(str(name))
    return frozenset(found) if told else frozenset((*found, "getattr"))


def name_handed_over(steps: Sequence[dis.Instruction]) -> str | None:
    """The name that is handed to `getattr`, by the steps from its first argument on, a variable or an attribute of one;
    None where that is another expression."""
    if not steps or steps[0].opname not in PLAIN:
        return None
    of_variable = itertools.dropwhile(lambda each: each.opname == "LOAD_ATTR", steps[1:])
    name, *rest = [*itertools.islice(of_variable, 3)]
    count = 3 if len(rest) == 2 and rest[0].opname in (*PLAIN, "LOAD_CONST") else 2
    call = rest[count - 2] if len(rest) >= count - 1 else name
    whole = call.opname in CALLING and call.arg == count
    return name.argval if whole and name.opname == "LOAD_CONST" and isinstance(name.argval, str) else None


def is_of_itself(steps: Sequence[dis.Instruction], code: types.CodeType) -> bool:
    """Whether two steps hand over what a method is of, as its first argument is called, and then a variable."""
    itself = code.co_varnames[:1] == ("self",) and len(steps) > 1 and steps[1].opname in PLAIN
    return itself and steps[0].opname == "LOAD_FAST" and steps[0].argval == "self"


PLAIN = ("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL")
"""Steps that read a variable."""


def is_computed(name: str, held: Any) -> bool:
    """Whether an attribute of a class is computed when it is read."""
    return not name.startswith("__") and hasattr(type(held), "__get__") and not inspect.isfunction(held)
