"""Modules of a model that are equal but for their weights, and what each of them is made of."""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import is_
from typing import Any

import attrs
import torch

from lowering.capture.inputs.containers import CONTAINERS, OWN, names_beside
from lowering.capture.inputs.contents import Contents, Parts, modules_below

SIMPLE = (
    bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format
)  # fmt: skip
"""Types of attributes that are compared by what they are."""
MANY = 1 << 16
"""Integers and truth values of up to this many are compared by what they are: they may be places, lengths, or choices.
Of floats only single ones are, as a number that a layer computes with; the others are weights, which nobody reads."""
State = tuple[dict[str, Any], ...]
"""The attributes of some modules, but for those that each module has."""


@attrs.frozen(eq=False)
class Below:
    """A module with its children, as they stood when they were looked at: their attributes, hooks, weights and
    `kinds`: classes, and whether they are in the mode of training."""

    parts: Sequence[torch.nn.Module]
    objects: Sequence[Any]
    contents: Contents
    hooks: Sequence[Mapping[Any, Any]]
    state: State
    weights: Sequence[torch.Tensor]
    kinds: Sequence[tuple[type, bool]]

    @classmethod
    def of(cls, module: torch.nn.Module) -> Below:
        """A module as it stands."""
        parts = [each for _, each in modules_below(module)]
        own = [own_attributes(each) for each in parts]
        contents = Contents.of(containers_in(parts, own))
        state = tuple(map(state_of, own))
        kinds = [(type(each), each.training) for each in parts]
        return cls(parts, attributes_of(parts), contents, hooks_below(parts), state, list(weights_of(parts)), kinds)

    def is_untouched(self) -> bool:
        """Whether the module and its children hold the very attributes and weights that they held."""
        now, then = [one.__dict__ for one in self.parts], self.objects
        same = sum(map(len, now)) == len(then) and all(map(is_, chain.from_iterable(map(dict.values, now)), then))
        return same and self.contents.are_untouched()

    def differences(self, other: Below) -> frozenset[tuple[int, str]] | None:
        """The attributes in which a module differs from another, with their places among its children; None where
        these are not alike at all."""
        if self.kinds != other.kinds:
            return None
        found: list[tuple[int, str]] = []
        for place, (a, b) in enumerate(zip(self.state, other.state, strict=True)):
            if a.keys() != b.keys():
                return None
            found += [(place, name) for name in a if a[name] != b[name]]
        return frozenset(found)


@attrs.frozen(eq=False)
class Likes:
    """The modules of a model that are like another one: their `numbers`, by identity, which those have in common that
    are equal but for their weights; the `classes` of these and of what is below them; and the simple attributes in
    which modules of one class differ. `below` has what those are made of that were called: most are inside one that
    is taken over, and never are. `compared` has the differences that were looked at, `judged` what is known of codes
    that ran, by their identities, `told` what is known of classes. `running` is empty but while a model runs, and
    tells what its modules call then."""

    numbers: Mapping[int, int] = {}
    chosen: Sequence[torch.nn.Module] = ()
    classes: Sequence[type] = ()
    different: Sequence[tuple[type, str]] = ()
    below: dict[int, Below] = attrs.field(factory=dict)
    compared: dict[tuple[int, int], frozenset[tuple[int, str]] | None] = attrs.field(factory=dict)
    forwards: dict[int, Callable[..., Any]] = attrs.field(factory=dict)
    judged: dict[int, tuple[types.CodeType, bool]] = attrs.field(factory=dict)
    running: list[Any] = attrs.field(factory=list)
    told: dict[Any, Any] = attrs.field(factory=dict)

    def remembered(self, key: Any, tell: Callable[[], Any]) -> Any:
        """What is told once in an export, of code that may be another one in the next."""
        if key not in self.told:
            self.told[key] = tell()
        return self.told[key]

    def of(self, module: torch.nn.Module) -> Below:
        """What one of them is made of now."""
        known = self.below.get(id(module))
        if known is None:
            known = self.below[id(module)] = Below.of(module)
        elif not known.is_untouched():
            known = Below.of(module)
        return known

    def differences(self, one: Below, other: Below) -> frozenset[tuple[int, str]] | None:
        """The attributes in which two of them differ; None where they are not alike at all."""
        key = (id(one), id(other))
        if key in self.compared:
            return self.compared[key]
        found = one.differences(other)
        if all(self.below.get(id(each.parts[0])) is each for each in (one, other)):  # these live as long as this
            self.compared[key] = found
        return found

    @property
    def last(self) -> frozenset[int]:
        """The identity of the last one of each number."""
        return frozenset({self.numbers[id(each)]: id(each) for each in self.chosen}.values())


def likes_of(given: Parts, tells: Callable[[type], bool]) -> Likes:
    """The modules of a model that are like another one and do more than one operator of torch's, of which class `tells`
    may say that its modules know which of several equal ones they are."""
    modules = [each for _, each in given.modules]
    children = [child for each in modules for child in each._modules.values() if child is not None]
    shared = len(children) >= len(modules)  # some are the children of two
    kinds = Counter(map(type, modules))
    classes = {kind: looks_into_itself(kind) or (count > 1 and tells(kind)) for kind, count in kinds.items()}
    numbers: dict[Any, int] = {}
    found: dict[int, int] = {}

    def number(module: torch.nn.Module) -> int:
        if id(module) not in found:
            below = tuple([(name, None if each is None else number(each)) for name, each in module._modules.items()])
            own = (id(module),) if classes[type(module)] else own_like(module)
            found[id(module)] = numbers.setdefault((*own, below, sharing(module) if shared else ()), len(numbers))
        return found[id(module)]

    number(modules[0])
    several = {each: found[id(each)] for each in modules if is_composite(each)}
    often = Counter(several.values())
    chosen = [each for each, number in several.items() if often[number] > 1]
    parts = parts_of(chosen)
    below = list(dict.fromkeys(map(type, parts)))
    return Likes({id(each): several[each] for each in chosen}, chosen, below, different(parts))


def parts_of(modules: Iterable[torch.nn.Module]) -> list[torch.nn.Module]:
    """Modules and all that are below them, each once."""
    found: dict[int, torch.nn.Module] = {}
    pending = list(modules)
    while pending:
        each = pending.pop()
        if id(each) not in found:
            found[id(each)] = each
            pending += [child for child in each._modules.values() if child is not None]
    return list(found.values())


def sharing(module: torch.nn.Module) -> tuple[int, ...]:
    """Which children are one module: of each the place of the first that is the same; nothing where all differ."""
    below = [id(each) for _, each in module.named_modules(remove_duplicate=False)]
    return () if len(set(below)) == len(below) else tuple(map(below.index, below))


def own_like(module: torch.nn.Module) -> tuple[Any, ...]:
    """Equal for modules that may be equal but for their weights, apart from their children; by itself where a module is
    like no other."""
    if "forward" in module.__dict__:
        return (id(module),)
    weights = [*module._parameters.items(), *module._buffers.items()]
    shown = tuple([(name, None if each is None else weight_like(each)) for name, each in weights])
    held = module.__dict__
    simple = tuple([(name, type(held[name])) for name in names_beside(held)])
    return (type(module), module.training, shown, simple)


def is_composite(module: torch.nn.Module) -> bool:
    """Whether a module does more than call one operator."""
    own = type(module).__module__.startswith("torch.nn.modules")
    return bool(module._modules) or not own


def is_compared(weight: torch.Tensor) -> bool:
    """Whether a weight is compared by what it holds."""
    single = weight.is_floating_point() or weight.is_complex()
    return weight.device.type == "cpu" and weight.numel() <= (1 if single else MANY)


def content_of(weight: torch.Tensor) -> str:
    """A text that is equal for tensors that hold the same."""
    if weight.numel() <= FEW:
        return repr(weight.tolist())
    return hashlib.sha256(weight.detach().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


FEW = 64


def weight_like(weight: torch.Tensor) -> Any:
    """Equal for weights of equal types and layouts; of equal content, too, where that is compared."""
    if weight.layout is not torch.strided or type(weight) not in (torch.Tensor, torch.nn.Parameter):
        return id(weight)
    small = content_of(weight) if is_compared(weight) else ""
    whole = weight.untyped_storage().nbytes() == weight.nbytes
    said = tuple([(name, *said_of(held)) for name, held in weight.__dict__.items()]) if weight.__dict__ else ()
    asked = (weight.requires_grad, weight.grad is None, said)
    return (weight.dtype, weight.device, tuple(weight.shape), weight.stride(), small, asked) if whole else id(weight)


def said_of(held: Any) -> tuple[type, Any]:
    """Equal for attributes of tensors that are the same simple values, or the same object."""
    kind = type(held)
    return (kind, exactly(held)) if kind in SIMPLE else (kind, id(held))


def different(modules: Iterable[torch.nn.Module]) -> list[tuple[type, str]]:
    """The simple attributes in which modules of one class differ."""
    by_class: dict[type, list[dict[str, Any]]] = {}
    for one in modules:
        by_class.setdefault(type(one), []).append(one.__dict__)
    found: list[tuple[type, str]] = []
    for cls, each in by_class.items():
        names = {name for name in {name for one in each for name in one} - OWN if not hasattr(cls, name)}
        for name in sorted(names):
            held = [one.get(name) for one in each]
            kinds = set(map(type, held))
            if all(issubclass(kind, SIMPLE) for kind in kinds) and any(value != held[0] for value in held):
                found.append((cls, name))
    return found


# ---------------------------------------------------------------------------------------------- one module


def attributes_of(parts: Sequence[torch.nn.Module]) -> list[Any]:
    """The attributes of modules."""
    return list(chain.from_iterable([one.__dict__.values() for one in parts]))


def own_attributes(module: torch.nn.Module) -> dict[str, Any]:
    """The attributes of a module that not every module has."""
    held = module.__dict__
    return {name: held[name] for name in names_beside(held)}


def containers_in(parts: Sequence[torch.nn.Module], own: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The dicts, lists and sets among the attributes of modules, but for hooks: those of each module whose contents
    tell what it computes, and those among its `own`."""
    kept = [held for one in parts for held in (one._parameters, one._buffers, one._modules)]
    return kept + [held for each in own for held in each.values() if type(held) in CONTAINERS]


def state_of(own: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of one module by what they are compared by, but for a `forward` of its own."""
    return {
        name: (kind, repr(each) if kind in INEXACT else each)
        if (kind := type(each)) in SIMPLE or issubclass(kind, SIMPLE)
        else Same(each)
        for name, each in own.items()
        if name != "forward"
    }


@attrs.frozen(eq=False)
class Same:
    """An object that is equal to itself only, or to a list, tuple or dict of the same simple content, or to the same
    function with the same simple arguments."""

    held: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same):
            return False
        one, two = (as_told(each) for each in (self.held, other.held))
        return one is two or (is_plain(one) and is_plain(two) and plainly(one) == plainly(two))

    __hash__ = None  # type: ignore[assignment]


def as_told(held: Any) -> Any:
    """A function with some of its arguments by what these are; anything else as it is."""
    if type(held) is not functools.partial or held.__dict__:
        return held
    return (f"partial of {id(held.func)}", *held.args, *chain.from_iterable(held.keywords.items()))


def exactly(held: Any) -> Any:
    """Equal for simple values of one type that are the same, which 1 and 1.0, and 0.0 and -0.0, are not."""
    kind = type(held)
    return (kind, repr(held) if kind in INEXACT else held)


INEXACT = (float, complex)
"""Types whose equal numbers may differ in the sign of a zero."""


def plainly(held: Any) -> Any:
    """Equal for tuples, lists or dicts of one kind with the same simple content."""
    pairs = held.items() if type(held) is dict else enumerate(held)
    return (type(held), [(exactly(name), exactly(each)) for name, each in pairs])


def is_plain(held: Any) -> bool:
    """Whether a tuple, list or dict has simple content only."""
    if type(held) is dict:
        return all(isinstance(each, SIMPLE) for pair in held.items() for each in pair)
    return type(held) in (tuple, list) and all(isinstance(each, SIMPLE) for each in held)


def weights_of(parts: Sequence[torch.nn.Module]) -> Iterator[torch.Tensor]:
    """The parameters and buffers of modules, each as often as it is there."""
    for one in parts:
        for held in (one._parameters, one._buffers):
            if held:
                yield from [each for each in held.values() if each is not None]


def hooks_below(parts: Sequence[torch.nn.Module]) -> list[Mapping[Any, Any]]:
    """The tables of hooks of a module's children, which run while it does; the module is the first of the parts."""
    return [held for each in parts[1:] for held in (each._forward_hooks, each._forward_pre_hooks)]


def looks_into_itself(cls: type) -> bool:
    """Whether a class reads attributes in a way that is not noticed."""
    return any(name in function.__code__.co_names for function in functions_of([cls]) for name in ("__dict__", "vars"))


def functions_of(classes: Sequence[type]) -> Iterator[types.FunctionType]:
    """The functions of classes of modules that may run when these are called, but for those of torch."""
    for cls in classes:
        for one in cls.__mro__:
            if not one.__module__.startswith("torch.nn.modules") and one is not object:
                for name, held in vars(one).items():
                    for function in functions_behind(held) if name not in NOT_CALLED else ():
                        yield function
                        yield from unwrapped(function)


def functions_behind(held: Any) -> list[types.FunctionType]:
    """The functions that run where an attribute of a class is read or called."""
    found = [held, *(getattr(held, name, None) for name in BEHIND if isinstance(held, DESCRIPTORS))]
    return [each for each in found if inspect.isfunction(each)]


BEHIND = ("fget", "fset", "fdel", "func", "__func__")
DESCRIPTORS = (property, staticmethod, classmethod, functools.cached_property, functools.partialmethod)


NOT_CALLED = (
    "__init__", "__init_subclass__", "__class_getitem__", "__repr__", "__str__", "extra_repr", "__getstate__",
    "__setstate__",
)  # fmt: skip
"""Methods of modules that do not run as these are called."""


def unwrapped(function: Any) -> Iterator[types.FunctionType]:
    """The functions that a decorated one calls in the end."""
    while inspect.isfunction(inside := getattr(function, "__wrapped__", None)):
        yield inside
        function = inside
