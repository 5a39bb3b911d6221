"""How what was captured stood, so that it can be asked later whether it is what it was: attributes, children, weights,
hooks, configurations, and what optimizers hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import torch

from irkit.errors import StaleError
from lowering.capture.inputs.contents import Contents, containers_of
from lowering.capture.inputs.surroundings import STEP_HOOKS
from lowering.capture.inputs.variables import is_filled

MISSING = object()
PLAIN = (bool, int, float, complex, str, type(None), torch.dtype, torch.device)
"""Values that are compared as such; of others that they are the same objects."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
PARTS = ("_parameters", "_buffers", "_modules", *HOOKS, "_backward_hooks", "_backward_pre_hooks")
"""The dicts of a module whose contents its forward and its gradients use."""
REMEMBERED = frozenset(("max_seq_len_cached",))
"""What models note of the calls so far: the length that rotations are scaled for."""
CONFIGURATION = "config"


@attrs.frozen
class Listed:
    """The plain values in a list or dict of a configuration, which are compared in place of it."""

    values: tuple[tuple[Any, Any], ...]

    @classmethod
    def of(cls, value: Any) -> Any:
        """Those of a list, tuple or dict; anything else as it is."""
        if not isinstance(value, list | tuple | dict):
            return value
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        return cls(tuple((key, each) for key, each in inside if isinstance(each, PLAIN)))


@attrs.frozen(eq=False)
class Table:
    """A dict, what it is called, which of its entries are looked at, by key and value (None for all), and whether lists
    in it are looked into."""

    held: Mapping[Any, Any]
    path: str = ""
    looks_at: Callable[[Any, Any], bool] | None = None
    lists: bool = False

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """What is looked at, as it is now."""
        found = self.held.items()
        kept = found if self.looks_at is None else [each for each in found if self.looks_at(*each)]
        return ((key, Listed.of(value)) for key, value in kept) if self.lists else iter(kept)


@attrs.frozen(eq=False)
class Standing:
    """Places in dicts with what stood there, how many entries there were in each dict, lists with what they held,
    tensors as they were, and of some whether they got gradients, and by which hooks."""

    places: tuple[tuple[Table, Any, Any], ...]
    counts: tuple[tuple[Table, int], ...]
    weights: Weights
    lists: tuple[tuple[list[Any], tuple[Any, ...]], ...] = ()
    leaves: tuple[tuple[torch.Tensor, Any], ...] = ()

    @classmethod
    def of(cls, tables: Iterable[Table], tensors: Iterable[torch.Tensor]) -> Standing:
        """How dicts and tensors stand now."""
        pairs = [(table, [*table.entries()]) for table in tables]
        places = tuple((table, key, value) for table, entries in pairs for key, value in entries)
        return cls(places, tuple((table, len(entries)) for table, entries in pairs), Weights.of(tensors))

    @classmethod
    def of_call(
        cls, module: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer], tensors: Iterable[torch.Tensor],
        leaves: Iterable[torch.Tensor] = (), besides: Collection[Any] = (),
    ) -> Standing:  # fmt: skip
        """How a module, or the function that it stands for, its optimizers, and these tensors stand now, besides some
        places, by the identity of the dict and the key; the `leaves` with how they get gradients."""
        apart = {identity for identity, _ in besides}

        def table(held: Mapping[Any, Any]) -> Table:
            looks_at = (lambda key, _: (id(held), key) not in besides) if id(held) in apart else None
            return Table(held, looks_at=looks_at)

        tables = [
            *map(table, dicts_of(module, optimizers)),
            *(Table(each.__dict__, "", is_kept) for each in optimizers),
        ]
        lists = [held for each in optimizers for held in (each.param_groups, *(g["params"] for g in each.param_groups))]
        return attrs.evolve(
            cls.of(tables, tensors),
            lists=tuple((held, tuple(held)) for held in lists),
            leaves=tuple((each, gradient_of(each)) for each in leaves),
        )

    @classmethod
    def of_model(cls, model: torch.nn.Module) -> Standing:
        """How a model stands now whose calls may note things: its plain attributes, not its own notes, and its
        weights, not the buffers that it computes anew as it is called."""
        return cls.of(tables_of(model), weights_of(model))

    def holds(self) -> bool:
        """Whether all is as it was."""
        for table, key, value in self.places:
            now = table.held.get(key, MISSING)
            if now is not value and not is_same(Listed.of(now) if table.lists else now, value):
                return False
        for table, count in self.counts:
            if (len(table.held) if table.looks_at is None else sum(1 for _ in table.entries())) != count:
                return False
        for held, before in self.lists:
            if len(held) != len(before) or any(one is not other for one, other in zip(held, before, strict=True)):
                return False
        return self.weights.hold() and all(gradient_of(each) == before for each, before in self.leaves)

    def changed(self) -> list[str]:
        """The paths of what is not as it was."""
        known: dict[int, dict[Any, Any]] = {id(table): {} for table, _ in self.counts}
        for table, key, value in self.places:
            known[id(table)][key] = value
        found: dict[str, None] = {}
        for table, _ in self.counts:
            before, now = known[id(table)], dict(table.entries())
            keys = [k for k in {**before, **now} if not is_same(now.get(k, MISSING), before.get(k, MISSING))]
            found |= dict.fromkeys(f"{table.path}{key}" for key in keys)
            written = {id(tensor) for tensor in self.weights.written()}
            found |= dict.fromkeys(f"{table.path}{key}" for key, value in now.items() if id(value) in written)
        return list(found)

    def require(self, name: str) -> None:
        """Raises StaleError where what has that name stands otherwise now."""
        if self.holds():
            return
        changed = self.changed()
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise StaleError(
            f"{changed[0] if changed else 'something'}{more} of {name} changed since its programs were captured",
            hint="make the generation anew of the model as it is, or have the model as it was",
        )


def gradient_of(tensor: torch.Tensor) -> Any:
    """Whether a tensor gets a gradient, and the hooks that it goes through."""
    tables = tensor._backward_hooks, getattr(tensor, "_post_accumulate_grad_hooks", None)
    return tensor.requires_grad, *(tuple(map(id, held.values())) if held else () for held in tables)


def is_kept(name: str, _: Any) -> bool:
    """Whether an attribute of an optimizer is where it has its groups and what it keeps."""
    return name in ("param_groups", "state")


def is_same(now: Any, value: Any) -> bool:
    """Whether two values are one object, or equal and plain."""
    return now is value or (isinstance(value, (*PLAIN, Listed)) and type(now) is type(value) and now == value)


@attrs.frozen(eq=False)
class Weights:
    """Tensors whose numbers are part of a graph: their places in memory, and torch's counts of writes."""

    tensors: tuple[torch.Tensor, ...]
    known: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, tensors: Iterable[torch.Tensor]) -> Weights:
        """These tensors as they are now."""
        found = tuple(tensors)
        return cls(found, tuple(map(mark, found)))

    def hold(self) -> bool:
        """Whether none was written since, as far as torch counts it."""
        return all(mark(tensor) == known for tensor, known in zip(self.tensors, self.known, strict=True))

    def written(self) -> list[torch.Tensor]:
        """Those that were."""
        return [tensor for tensor, known in zip(self.tensors, self.known, strict=True) if mark(tensor) != known]


def mark(tensor: torch.Tensor) -> tuple[int, int]:
    """Where a tensor lies, and how often torch saw it written."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


# ---------------------------------------------------------------------------------------------- what a call uses


def dicts_of(module: torch.nn.Module, optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[Mapping[Any, Any]]:
    """The dicts that say what a call computes: attributes and parts of modules, groups and states of optimizers."""
    objects = Contents.of(containers_of(module)).objects
    behind = [each for held in objects for each in used_by(held) if isinstance(each, torch.nn.Module)]
    modules = dict.fromkeys(inner for each in (module, *behind) for inner in each.modules())
    for each in modules:
        yield each.__dict__
        for part in PARTS:
            yield each.__dict__.get(part, {})
    for optimizer in optimizers:
        yield from optimizer.param_groups
        yield optimizer.state
        yield from optimizer.state.values()
        yield from (optimizer.__dict__.get(name, {}) for name in STEP_HOOKS)


def used_by(function: Any) -> Iterator[Any]:
    """What a function uses without taking it as an argument: of the variables around it, of the module of Python that
    it is in, and of the object whose method it is; nothing of what is no function."""
    owner = getattr(function, "__self__", None) if inspect.ismethod(function) else None
    if owner is not None and not isinstance(owner, torch.nn.Module | torch.optim.Optimizer):
        yield from getattr(owner, "__dict__", {}).values()
    inner = function.__func__ if inspect.ismethod(function) else function
    if inspect.isfunction(inner):
        yield from [cell.cell_contents for cell in inner.__closure__ or () if is_filled(cell)]
        yield from [inner.__globals__[name] for name in inner.__code__.co_names if name in inner.__globals__]


# ---------------------------------------------------------------------------------------------- a model of transformers


def tables_of(model: torch.nn.Module) -> Iterator[Table]:
    """The children, hooks, weights and plain attributes of all modules, and what configurations say."""
    configurations: set[int] = set()
    for path, each in model.named_modules():
        inside = f"{path}." if path else ""
        yield Table(each.__dict__, inside, is_said)
        yield Table(each._modules, inside)
        yield Table(each._parameters, inside)
        passing = each._non_persistent_buffers_set
        yield Table(each._buffers, inside, lambda name, _, passing=passing: name not in passing)
        yield from (Table(each.__dict__[part], f"{inside}{part}.", is_no_recorder) for part in HOOKS)
        config = each.__dict__.get(CONFIGURATION)
        if config is not None and id(config) not in configurations:
            configurations.add(id(config))
            yield Table(getattr(config, "__dict__", {}), f"{inside}{CONFIGURATION}.", is_compared, lists=True)


def weights_of(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """The parameters of a model, and the buffers that are saved with it."""
    for each in model.modules():
        passing = each._non_persistent_buffers_set
        held = [*each._parameters.items(), *each._buffers.items()]
        yield from (tensor for name, tensor in held if tensor is not None and name not in passing)


def is_said(name: str, value: Any) -> bool:
    """Whether an attribute of a module says what it computes; others are transformers' own notes of a generation."""
    plain = isinstance(value, PLAIN) and name not in REMEMBERED and not name.startswith("_")
    return plain or name == "forward"


def is_compared(_: Any, value: Any) -> bool:
    """Whether an entry of a configuration is plain, or a list or dict of what is."""
    return isinstance(value, (*PLAIN, list, tuple, dict))


def is_no_recorder(_: Any, hook: Any) -> bool:
    """Whether a hook is none that transformers' models add to themselves when they are called, to record results."""
    of = getattr(hook, "__module__", None) or ""
    return isinstance(hook, torch.nn.Module) or not of.startswith("transformers.")
