"""What a model may change that is none of its modules' own: variables of functions around it, global ones, attributes
of objects and classes of the user's, the dicts and lists in all these, and what `functools.lru_cache` remembers."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import sysconfig
import threading
import types
from collections import ChainMap, UserDict, UserList
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from queue import Queue
from typing import Any

import attrs
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from irkit.support.installed import installed_packages
from lowering.capture.inputs.containers import (
    CONTAINERS,
    DICTS,
    by_key,
    copy_of,
    differs,
    is_other,
    names_beside,
    restore,
)
from lowering.capture.inputs.states import held_inside, held_state, keeps_state, restore_held, same_held
from lowering.capture.inputs.variables import ABSENT, Variable, is_filled, names_in

REMEMBERS = type(lru_cache(len))
"""What `functools.lru_cache` makes of a function."""
TENSORS = frozenset((torch.Tensor, torch.nn.Parameter))
INERT = frozenset((
    types.ModuleType, str, bytes, bool, int, float, complex, type(None),
))  # fmt: skip
"""Types of what holds nothing that a model changes, or is looked at elsewhere: what tensors hold."""
BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)
"""Types of functions of Python's own, which may be of an object: `append = names.append`."""
APART = (Optimizer, LRScheduler)
"""What training changes, which is looked at by itself."""
STEP_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
"""Where an optimizer has what is called before and after its steps."""
TABLES = ("_parameters", "_buffers", "_modules")
"""Where a module has its own parts."""
OURS = ("lowering.", "irkit.", "passes.", "sympy.", "torch.fx.", "torch._")
STDLIB = sysconfig.get_path("stdlib")
LIBRARIES = frozenset(
    "accelerate diffusers lightning numpy onnxruntime peft pytorch_lightning scipy sentence_transformers timm torch "
    "torch_geometric torchao torchaudio torchvision transformers".split()
)
"""Packages of which models are made, or classes around them, that change nothing as they run but what is known of them.
Any other installed package that a model stands in is its author's, a company's own, say."""


@attrs.frozen(eq=False)
class Surroundings:
    """Dicts and lists with what they are called and what they held, variables with what they are called, remembering
    functions with how often they were called anew, generators, iterators, arrays and such (`drawing`) with where they
    stood or what they held, classes with the names in them, and the tensors in all these that are none of the modules'
    own, with their `names` by identity; the optimizers and schedulers (`training`); whether they lead to code at all
    (`has_code`), and to code of the user's in which errors may be caught (`catches`). `packages` are the installed ones
    that are the user's, since classes of the modules stand there."""

    contents: Sequence[tuple[str, Any, Any]]
    variables: Sequence[tuple[str, Variable]]
    remembering: Sequence[tuple[Any, int]]
    drawing: Sequence[tuple[str, Any, Any]]
    classes: Sequence[tuple[type, frozenset[str]]]
    tensors: Sequence[torch.Tensor]
    names: Mapping[int, str]
    training: Sequence[Any]
    has_code: bool
    catches: bool
    packages: frozenset[str] = frozenset()

    @property
    def leaves(self) -> list[torch.Tensor]:
        """The tensors that get gradients."""
        return [each for each in self.tensors if each.requires_grad and each.is_leaf]

    @classmethod
    def of(cls, modules: Sequence[tuple[str, torch.nn.Module]], known: Collection[int]) -> Surroundings:
        """What modules with these paths reach beside the dicts and lists that are `known`, by their identities."""
        held_by = [each for _, each in modules]
        classes_of = dict.fromkeys(map(type, held_by))
        packages = own_packages(classes_of)
        walk = Walk(known, packages)
        walk.seen.update(map(id, held_by))
        walk.seen.update(map(id, [each.__dict__ for each in held_by]))
        pending: list[tuple[str, Any]] = [("", kind) for kind in classes_of]
        for path, each in modules:
            inside = f"{path}." if path else ""
            held = each.__dict__
            pending += [
                (f"{inside}{n}" if n != "forward" else "", v)
                for n in leading_names(held)
                if type(v := held[n]) not in INERT and (type(v) not in CONTAINERS or v)
            ]
        tables = [table for each in held_by for table in (each._parameters, each._buffers)]
        own = list(chain.from_iterable(map(dict.values, tables)))
        walk.go(pending + [("", hook) for each in own if each is not None for hook in hooks_of(each)])
        contents = [(name, each, copy_of(each)) for name, each in walk.contents]
        misses = [(each, each.cache_info().misses) for each in walk.remembering]
        known = set(map(id, own))
        tensors = {key: each for key, each in walk.tensors.items() if key not in known}
        names = {key: name for key, (name, _) in tensors.items() if name}
        drawing = [(name, each, held_state(each)) for name, each in walk.drawing]
        classes = [(each, frozenset(vars(each))) for each in walk.classes]
        held = [each for _, each in tensors.values()]
        has_code = bool(walk.methods or walk.remembering or walk.used != ENTERED)
        training = walk.training[::-1]  # what is held first is met last
        variables = [*walk.variables.values()]
        return cls(
            contents, variables, misses, drawing, classes, held, names, training, has_code, walk.catches, packages
        )

    def put_back(self) -> list[str]:
        """Has all hold again what it held; what held other tensors or numbers, in words."""
        changed: list[str] = []
        for name, held, before in self.contents:
            if differs(held, before, words=True):
                changed += names_changed(name, held, before)
            restore(held, before)
        for name, variable in self.variables:
            if variable.is_other():
                changed += [name] if is_other(variable.now, variable.held, words=True) else []
                variable.restore()
        for each, misses in self.remembering:
            if each.cache_info().misses != misses:
                each.cache_clear()
        for name, each, state in self.drawing:
            if not same_held(each, held_state(each), state):
                beyond = "" if restore_held(each, state) else " (which stands further on from now)"
                changed.append(f"the state of {name.strip('.') or type(each).__name__}{beyond}")
        for kind, names in self.classes:
            for name in [name for name in vars(kind) if name not in names and not name.startswith("__")]:
                changed.append(f"{kind.__name__}.{name}")
                delattr(kind, name)
        return list(dict.fromkeys(name.lstrip(".") for name in changed))


def leading_names(held: Mapping[str, Any]) -> list[str]:
    """The names of the attributes of a module, all of which are `held`, that may lead beyond its own parts."""
    try:
        tables = tables_of(held)
    except KeyError:
        tables = (held,)
    if any(tables) or not DICTS.issuperset(map(type, tables)) or type(held.get("training")) not in INERT:
        return [name for name in held if name not in TABLES]
    return names_beside(held)


tables_of = itemgetter(
    *(name for name, each in torch.nn.Module().__dict__.items() if type(each) in DICTS and name not in TABLES)
)
"""The tables of hooks among the attributes of a module, most of which are empty."""


def names_changed(name: str, held: Any, before: Any) -> list[str]:
    """What of a dict or a list holds other tensors or numbers."""
    if not name.endswith("."):
        return [name or "a list"]
    known, path = by_key(before), name
    return [f"{path}{key}" for key, value in by_key(held).items() if is_other(value, known.get(key), words=True)]


ENTERED = {"forward", "__call__"}
"""The methods by which models are entered."""


@attrs.define(eq=False)
class Walk:
    """What is met on the way from a module. `known` has the identities of dicts and lists that are looked at elsewhere,
    `packages` the installed ones that are the user's,
    `used` the names in the code of the functions, `methods` those of classes that no name led to yet, `hooks` those of
    tensors that were not followed yet, and `catches` says that a function may catch errors."""

    known: Collection[int]
    packages: frozenset[str]
    seen: set[int] = attrs.field(factory=set)
    contents: list[tuple[str, Any]] = attrs.field(factory=list)
    variables: dict[Any, tuple[str, Variable]] = attrs.field(factory=dict)
    remembering: list[Any] = attrs.field(factory=list)
    drawing: list[tuple[str, Any]] = attrs.field(factory=list)
    classes: list[type] = attrs.field(factory=list)
    training: list[Any] = attrs.field(factory=list)
    tensors: dict[int, tuple[str, torch.Tensor]] = attrs.field(factory=dict)
    used: set[str] = attrs.field(factory=ENTERED.copy)
    methods: list[tuple[str, str, Any]] = attrs.field(factory=list)
    hooks: list[tuple[str, Any]] = attrs.field(factory=list)
    catches: bool = False

    def go(self, pending: list[tuple[str, Any]]) -> None:
        """Follows all that some objects reach, each by what it is called."""
        while pending:
            name, each = pending.pop()
            if id(each) not in self.seen:
                self.seen.add(id(each))
                inside = [(name, each)] if type(each) in TENSORS else self.inside(name, each)
                pending += [(n, held) for n, held in inside if self.leads_on(n, held)]
            if not pending:
                pending, self.hooks = self.hooks, []
            if not pending:
                pending += [(path, each) for path, name, each in self.methods if name in self.used]
                self.methods = [each for each in self.methods if each[1] not in self.used]

    def is_users(self, module: str | None) -> bool:
        """Whether something that is defined in a module is the user's."""
        return is_users(module, self.packages)

    def leads_on(self, name: str, value: Any) -> bool:
        """Whether something may hold something that changes. Tensors are kept by themselves."""
        kind = type(value)
        if kind in TENSORS:
            self.tensors.setdefault(id(value), (name.strip("."), value))
            self.hooks += [("", hook) for hook in hooks_of(value)]
            return False
        return kind not in INERT

    def inside(self, name: str, each: Any) -> Iterable[tuple[str, Any]]:
        """What something holds in which something may be changed, by what it is called."""
        kind = type(each)
        if keeps_state(each):
            self.drawing.append((name, each))
            within = f"{name}." if isinstance(each, dict) and name else ""
            return [(f"{within}{n}" if within else name, held) for n, held in held_inside(each)]
        if kind in BOUND:
            return [(f"{name}.__self__" if name else "", each.__self__)]
        if isinstance(each, APART):
            self.training.append(each)
            hooks = [hook for name in STEP_HOOKS for hook in vars(each).get(name, {}).values()]
            return [("", held) for held in (*vars(each).values(), *hooks) if isinstance(held, (*APART, *FUNCTIONS))]
        if kind in CONTAINERS:
            if kind is dict and "__builtins__" in each:  # names of code: functions lead to those that they use
                return () if is_of_module(each) else [("", f) for f in each.values() if isinstance(f, FUNCTIONS)]
            if id(each) not in self.known:
                self.contents.append((name, each))
            inside = each.items() if kind in DICTS else ((name, held) for held in each)
            return [(f"{name}{n}" if name.endswith(".") else name, held) for n, held in inside]
        if isinstance(each, (tuple, *FUNCTIONS)):
            return [(name, held) for held in each] if isinstance(each, tuple) else self.of_function(name, each)
        if isinstance(each, type):
            return self.of_class(each) if self.is_users(each.__module__) else ()
        if isinstance(each, torch.Tensor) or f"{kind.__module__}.".startswith(OURS):
            return ()
        return [("", kind), *self.of_object(name, each, kind)]

    def of_function(self, name: str, each: Any) -> Iterable[tuple[str, Any]]:
        """What a function uses, what it is made of, and what it holds."""
        if isinstance(each, types.MethodType):
            return ("", each.__self__), (name, each.__func__)
        if isinstance(each, functools.partial):
            return (name, each.func), (name, each.args), (name, each.keywords)
        if isinstance(each, REMEMBERS):
            users = self.is_users(each.__module__)
            self.remembering += [each] if users else []
            return [(name, each.__wrapped__)] if users else ()
        of = f"{each.__module__}."
        if of.startswith("torch."):
            return ()
        if of.startswith(OURS):  # around a function of the user's
            cells = [cell.cell_contents for cell in each.__closure__ or () if is_filled(cell)]
            return [(name, held) for held in cells if callable(held)]
        held: list[tuple[str, Any]] = [(f"{name}.", each.__dict__)]
        usual = zip(reversed(arguments_of(each)), reversed(each.__defaults__ or ()), strict=False)
        held += [*usual, *(each.__kwdefaults__ or {}).items()]
        for variable, cell in zip(each.__code__.co_freevars, each.__closure__ or (), strict=True):
            if is_filled(cell):
                self.variables[id(cell)] = variable, Variable(variable, cell, cell.cell_contents)
                held.append((variable, cell.cell_contents))
        self.used.update(names_in(each.__code__))
        self.catches = self.catches or may_catch(each.__code__)
        held += self.of_names(names_in(each.__code__), each.__globals__, "")
        for variable in names_set(each.__code__):
            if variable not in each.__globals__:
                self.variables[id(each.__globals__), variable] = variable, Variable(variable, each.__globals__, ABSENT)
        return held

    def of_names(self, names: Sequence[str], known: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
        """What names lead to among those of a module of Python, and, of the user's modules there, in these."""
        for name in names:
            if name in known and (id(known), name) not in self.variables:
                value = known[name]
                self.variables[id(known), name] = f"{path}{name}", Variable(name, known, value)
                if may_change(value, self.packages):
                    yield f"{path}{name}", value
                elif type(value) is types.ModuleType and self.is_users(value.__name__):
                    yield from self.of_names(names, vars(value), f"{path}{name}.")

    def of_class(self, kind: type) -> Iterator[tuple[str, Any]]:
        """What a class of the user's has beside methods, and what its bases have."""
        self.classes.append(kind)
        yield from (("", base) for base in kind.__bases__)
        for name, value in vars(kind).items():
            function = next((getattr(value, n) for n in WRAPPED if hasattr(value, n)), value)
            if isinstance(function, FUNCTIONS):
                self.methods.append(("", name, function))
            elif not name.startswith("__") and not isinstance(value, DESCRIPTORS):
                self.variables[id(kind), name] = f"{kind.__name__}.{name}", Variable(name, kind, value)
                yield f"{kind.__name__}.{name}", value

    def of_object(self, name: str, each: Any, kind: type) -> Iterator[tuple[str, Any]]:
        """The attributes of an object."""
        path = f"{name}." if name else "."
        held = getattr(each, "__dict__", None)
        if type(held) is dict:
            yield path, held
        for base in kind.__mro__ if self.is_users(kind.__module__) else ():
            slots = base.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if hasattr(each, slot) and not slot.startswith("__"):
                    value = getattr(each, slot)
                    self.variables[id(each), slot] = f"{path}{slot}".lstrip("."), Variable(slot, each, value)
                    yield f"{path}{slot}", value


def is_of_module(held: Mapping[Any, Any]) -> bool:
    """Whether a dict has the names of a module of Python, which another one that `exec` filled has not."""
    name = held.get("__name__")
    found = sys.modules.get(name) if isinstance(name, str) else None
    return name == "builtins" or (found is not None and getattr(found, "__dict__", None) is held)


FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial, REMEMBERS)
WRAPPED = ("__func__", "fget", "func")
"""Where static and class methods, properties, and cached ones have their functions."""
DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)


PLAIN_OBJECTS = (types.SimpleNamespace, threading.local, UserDict, UserList, ChainMap, Queue)
"""Types of Python's library whose objects hold what others put there."""


def hooks_of(tensor: torch.Tensor) -> Iterator[Any]:
    """What is called as a tensor gets its gradient."""
    for held in (tensor._backward_hooks, getattr(tensor, "_post_accumulate_grad_hooks", None)):
        yield from held.values() if held else ()


def may_catch(code: types.CodeType) -> bool:
    """Whether code, or that of a function in it, has a block that errors may not leave, `try` or `with`, is what a task
    runs, or may lead to such code that nobody sees before: threads keep errors, too."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    own = code.co_exceptiontable or code.co_flags & inspect.CO_COROUTINE or not KEEPING.isdisjoint(code.co_names)
    return bool(own) or any(map(may_catch, inner))


KEEPING = frozenset(("exec", "eval", "submit", "Thread"))


def arguments_of(function: types.FunctionType) -> tuple[str, ...]:
    """The names of what a function takes by position."""
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def may_change(value: Any, packages: frozenset[str] = frozenset()) -> bool:
    """Whether something that a global name leads to is a dict or list, or the user's, as what stands in some `packages`
    is."""
    if type(value) in CONTAINERS | TENSORS or isinstance(value, (functools.partial, REMEMBERS, *PLAIN_OBJECTS, *APART)):
        return True
    if isinstance(value, (*BOUND, types.MethodType)):
        return may_change(value.__self__, packages)
    if keeps_state(value):
        return True
    of = value if isinstance(value, (type, types.FunctionType)) else type(value)
    return is_users(of.__module__, packages)


def own_packages(classes: Iterable[type]) -> frozenset[str]:
    """The installed packages that are the user's, since classes of a model stand there."""
    return installed_packages(classes) - LIBRARIES


def is_users(module: str | None, packages: frozenset[str] = frozenset()) -> bool:
    """Whether something that is defined in a module is the user's: of no installed library, but for some `packages`,
    and not Python's own. A module that nobody finds by its name, as torch.hub loads one, is."""
    if not module or f"{module}.".startswith(OURS):
        return False
    if packages and module.partition(".")[0] in packages:
        return True
    held = sys.modules.get(module)
    if held is None:
        return not module.startswith("torch.")
    file = getattr(held, "__file__", None)
    return module == "__main__" or (file is not None and not file.startswith(STDLIB) and "site-packages" not in file)


@lru_cache(maxsize=1 << 10)
def names_set(code: types.CodeType) -> tuple[str, ...]:
    """The global names that a code sets, and those inside it."""
    own = [each.argval for each in dis.get_instructions(code) if each.opname == "STORE_GLOBAL"]
    inner = (name for each in code.co_consts if isinstance(each, types.CodeType) for name in names_set(each))
    return tuple(dict.fromkeys((*own, *inner)))
