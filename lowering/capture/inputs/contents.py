"""What a model holds: its modules, their tensors, and their dicts, lists and sets with the very objects in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, compress, islice
from operator import is_
from typing import Any

import attrs
import torch

from irkit.support.once import once
from lowering.capture.inputs.containers import CONTAINERS, DICTS, OWN, containers, differs, is_other, restore
from lowering.capture.inputs.leaves import Leaves
from lowering.capture.inputs.surroundings import Surroundings, is_users
from lowering.capture.inputs.torch_settings import TorchSettings
from lowering.records.torch_internals import has_global_hooks, is_traceable_wrapper_subclass


@attrs.frozen(eq=False)
class Contents:
    """Dicts, and lists and sets (`others`), with what they held when they were looked at: the `sizes` of all of them,
    the `keys` of the dicts, and the `objects` in all, one after the other. Those that held nothing, as most tables of
    hooks do, are `empty`, and looked at by themselves."""

    dicts: Sequence[dict[Any, Any]]
    others: Sequence[Any]
    empty: Sequence[Any]
    sizes: Sequence[int]
    keys: Sequence[Any]
    objects: Sequence[Any]

    @classmethod
    def of(cls, held: Sequence[Any]) -> Contents:
        """What some dicts, lists and sets hold."""
        full = [each for each in held if each]
        empty = [each for each in held if not each] if len(full) < len(held) else []
        dicts = [each for each in full if type(each) in DICTS]
        others = [each for each in full if type(each) not in DICTS] if len(dicts) < len(full) else []
        keys, objects = list(chain.from_iterable(dicts)), list(objects_in(dicts, others))
        return cls(dicts, others, empty, [*map(len, dicts), *map(len, others)], keys, objects)

    @property
    def containers(self) -> Iterator[Any]:
        """All of them."""
        return chain(self.dicts, self.others, self.empty)

    def are_untouched(self) -> bool:
        """Whether all hold the very objects that they held, in the same order."""
        dicts, others = self.dicts, self.others
        if any(self.empty) or [*map(len, dicts), *map(len, others)] != self.sizes:
            return False
        same_keys = list(chain.from_iterable(dicts)) == self.keys  # of equal keys a dict knows one
        return same_keys and all(map(is_, objects_in(dicts, others), self.objects))

    def before(self) -> Iterator[tuple[Any, Any]]:
        """Each of them with a copy of what it held."""
        sizes, keys, objects = iter(self.sizes), iter(self.keys), iter(self.objects)
        for held, size in zip(self.dicts, sizes, strict=False):
            yield held, dict(zip(islice(keys, size), islice(objects, size), strict=True))
        for held, size in zip(self.others, sizes, strict=True):
            yield held, type(held)(islice(objects, size))
        for held in self.empty:
            yield held, type(held)()

    def changed(self) -> Iterator[tuple[Any, Any]]:
        """Those of them that do not hold the very objects that they held, in the same order, each with a copy of what
        it held."""
        count = len(self.dicts)
        last = sum(self.sizes[:count])
        yield from self.changed_among(0, count, 0, last)
        sizes, objects = iter(self.sizes[count:]), iter(self.objects[last:])
        for held, size in zip(self.others, sizes, strict=True):
            known = list(islice(objects, size))
            if len(held) != size or not all(map(is_, held, known)):
                yield held, type(held)(known)
        for held in self.empty:
            if held:
                yield held, type(held)()

    def changed_among(self, start: int, stop: int, first: int, last: int) -> Iterator[tuple[Any, Any]]:
        """The same of some of the dicts, whose keys and objects are those between `first` and `last`: half by half, as
        hardly any of them is another."""
        dicts, sizes = self.dicts[start:stop], self.sizes[start:stop]
        keys, objects = self.keys[first:last], self.objects[first:last]
        same = [*map(len, dicts)] == sizes and list(chain.from_iterable(dicts)) == keys
        if same and all(map(is_, objects_in(dicts, ()), objects)):
            return
        if len(dicts) == 1:
            yield dicts[0], dict(zip(keys, objects, strict=True))
            return
        half = len(dicts) // 2
        middle = first + sum(sizes[:half])
        yield from self.changed_among(start, start + half, first, middle)
        yield from self.changed_among(start + half, stop, middle, last)


def objects_in(dicts: Sequence[dict[Any, Any]], others: Sequence[Any]) -> Iterator[Any]:
    """What dicts hold, and then what lists and sets do."""
    return chain(chain.from_iterable(map(dict.values, dicts)), chain.from_iterable(others))


@attrs.frozen(eq=False, slots=False)
class Parts:
    """A model as it stands: its modules with their paths, their buffers and parameters by name, the `names` of these
    and of what they are made of, by identity, the contents of all dicts, lists and sets, and what is `around` it."""

    modules: Sequence[tuple[str, torch.nn.Module]]
    buffers: Mapping[str, torch.Tensor]
    parameters: Mapping[str, torch.Tensor]
    names: Mapping[int, str]
    contents: Contents
    around: Surroundings

    @classmethod
    def of(cls, module: torch.nn.Module) -> Parts:
        """The parts of a model."""
        modules = modules_below(module)
        buffers = first_names((f"{path}.{n}", t) for path, each in modules for n, t in each._buffers.items())
        parameters = first_names((f"{path}.{n}", t) for path, each in modules for n, t in each._parameters.items())
        known = containers_by_id([each.__dict__ for _, each in modules])
        contents = Contents.of([*known.values()])
        tensors = (*buffers.items(), *parameters.items())
        names = {id(tensor): name for name, tensor in tensors}
        made_of = [(n, t) for n, t in tensors if type(t) not in PLAIN]
        names.update({id(t): n for name, tensor in made_of for n, t in tensors_inside(name, tensor)})
        around = Surroundings.of(modules, known.keys())
        return cls(modules, buffers, parameters, names, contents, around)

    @once
    def paths(self) -> Mapping[int, str]:
        """The paths of its modules by their identities."""
        return {id(each): path for path, each in self.modules}

    @once
    def leaves(self) -> Leaves:
        """Its parameters, and the leaves around it, as they were when this was asked first."""
        return Leaves.of([*self.parameters.values(), *self.around.leaves])

    @once
    def are_compiled(self) -> bool:
        """Whether some of its modules were given to torch.compile."""
        return any("_orig_mod" in each._modules for _, each in self.modules)

    @property
    def run_torch_alone(self) -> bool:
        """Whether a call runs modules of torch, and no code beside: that asks neither Python nor NumPy for numbers."""
        return (
            not self.around.has_code
            and not has_global_hooks()
            and all(type(each).__module__.startswith("torch.nn.modules.") for _, each in self.modules)
            and not any(each._forward_hooks or each._forward_pre_hooks for _, each in self.modules)
            and not any("forward" in each.__dict__ for _, each in self.modules)
        )


def tensors_inside(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """A tensor with its name, and the tensors that it is made of, as torchao's quantized weights are, with theirs."""
    yield name, tensor
    if type(tensor) not in PLAIN and is_traceable_wrapper_subclass(tensor):
        for attribute in tensor.__tensor_flatten__()[0]:
            yield from tensors_inside(f"{name}.{attribute}", getattr(tensor, attribute))


PLAIN = (torch.Tensor, torch.nn.Parameter)


def modules_below(module: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """A module and its children with their paths, each once, in the order of `named_modules`."""
    found: list[tuple[str, torch.nn.Module]] = []
    seen: set[int] = set()
    stack = [("", module)]
    while stack:
        path, each = stack.pop()
        identity = id(each)
        if identity not in seen:
            seen.add(identity)
            found.append((path, each))
            if each._modules:
                inside = f"{path}." if path else ""
                children = [(inside + n, child) for n, child in each._modules.items() if child is not None]
                stack += reversed(children)
    return found


def first_names(named: Iterable[tuple[str, torch.Tensor | None]]) -> dict[str, torch.Tensor]:
    """Tensors by the first of their names."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in named:
        if tensor is not None and id(tensor) not in seen:
            seen.add(id(tensor))
            found[name.removeprefix(".")] = tensor
    return found


def all_containers(roots: Sequence[Any]) -> list[Any]:
    """Some dicts, lists and sets, and all that are in them, at any depth, each once."""
    return [*containers_by_id(roots).values()]


def containers_by_id(roots: Sequence[Any]) -> dict[int, Any]:
    """The same by their identities."""
    found = dict(zip(map(id, roots), roots, strict=True))
    pending: Sequence[Any] = roots
    while pending:
        values = list(chain.from_iterable([inside_of(each) for each in pending if each]))
        inside = list(compress(values, map(CONTAINERS.__contains__, map(type, values))))
        new = dict(zip(map(id, inside), inside, strict=True))
        if not found.keys().isdisjoint(new):
            new = {identity: each for identity, each in new.items() if identity not in found}
        found.update(new)
        pending = list(new.values())
    return found


def inside_of(container: Any) -> Iterable[Any]:
    """What may be a container in a dict, list or set."""
    kind = type(container)
    return container.values() if kind in DICTS else () if kind is set else container


@contextmanager
def keep_unchanged(
    module: torch.nn.Module, parts: Parts | None = None, touched: Callable[[], object] = bool
) -> Iterator[list[str]]:
    """A block after which the module and its children have the very attributes that they had before, and dicts, lists
    and sets among these the very contents: parameters, hooks, what a model remembers. It is given the list of those
    attributes in which tensors or numbers were others at its end, and of what torch was set to otherwise, in words,
    which is empty before. `parts` are what was found of the module already; `touched` is called once the block has
    ended well and something is others, before that is as it was.

    Tracing may leave fake tensors in what a model uses to remember things. Models of transformers add hooks to
    themselves when they are first called, and an attribute that says so.
    """
    modules = modules_below(module) if parts is None else parts.modules
    contents = Contents.of(containers_of(module)) if parts is None else parts.contents
    around = Surroundings.of(modules, set(map(id, contents.containers))) if parts is None else parts.around
    settings = None if parts is not None and parts.run_torch_alone else TorchSettings.now()
    changes: list[str] = []

    def put_back() -> None:
        before = list(contents.changed())
        changes.extend(changed_attributes(module, {id(held): known for held, known in before}, around.packages))
        for held, known in before:
            restore(held, known)

    try:
        yield changes
    except BaseException:
        if not contents.are_untouched():
            put_back()
        around.put_back()
        if settings is not None:
            settings.put_back()
        raise
    try:
        if not contents.are_untouched():
            try:
                touched()
            finally:
                put_back()
    finally:
        changes.extend(each for each in around.put_back() if each not in changes)
        changes.extend(() if settings is None else settings.put_back())


@contextmanager
def held_again(first: Contents) -> Iterator[None]:
    """A block in which dicts, lists and sets hold what they held when they were looked at, and after it what they held
    before it."""
    now = None if first.are_untouched() else list(Contents.of(list(first.containers)).before())
    for held, known in () if now is None else first.before():
        restore(held, known)
    try:
        yield
    finally:
        for held, known in now or ():
            restore(held, known)


def containers_of(module: torch.nn.Module) -> list[Any]:
    """The dicts, lists and sets among the attributes of a module and its children."""
    return all_containers([each.__dict__ for _, each in modules_below(module)])


def changed_attributes(module: torch.nn.Module, before: Mapping[int, Any], packages: frozenset[str]) -> Iterator[str]:
    """The attributes of a module and its children that hold other tensors or numbers than before, or other children,
    and, of the user's modules, other truth values and texts; `before` has what each dict, list and set that is
    another now held by its identity, `packages` are the installed ones that are the user's."""
    for path, each in module.named_modules():
        known, words = before.get(id(each.__dict__), each.__dict__), is_users(type(each).__module__, packages)
        inside = f"{path}." if path else ""
        for name, value in each.__dict__.items():
            held = [held for held in containers(value) if id(held) in before]
            if name in TENSORS:
                held_before = before.get(id(known.get(name)), known.get(name) or {})
                names = dict.fromkeys((*value, *held_before))
                yield from (f"{inside}{n}" for n in names if (held_before.get(n) is None) != (value.get(n) is None))
            elif name == "_modules":
                held_before = before.get(id(known.get(name)), known.get(name) or {})
                names = dict.fromkeys((*value, *held_before))
                yield from (f"{inside}{n}" for n in names if value.get(n) is not held_before.get(n))
            elif name == "training":
                yield from [f"{inside}{name}"] if value is not known.get(name) else []
            elif name not in OWN and (
                is_other(value, known.get(name), words) or any(differs(h, before[id(h)], words) for h in held)
            ):
                yield f"{inside}{name}"


TENSORS = ("_buffers", "_parameters")
"""The tables of a module's own tensors: those that are there before are followed by themselves."""
