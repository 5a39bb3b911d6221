"""What a training step changes beside a module's own attributes: gradients, and the state of optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import attrs
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from lowering.capture.inputs.containers import containers, differs, restore
from lowering.capture.inputs.contents import Parts
from lowering.capture.inputs.first_steps import (
    Damping,
    State,
    dampings_of,
    first_state,
    first_steps_told,
    rates_of,
)
from lowering.capture.inputs.leaves import Leaves, Noted, calls_noted
from lowering.capture.inputs.schedules import Schedule


@attrs.frozen(eq=False)
class Training:
    """The optimizers that a module or function holds, and what each begins with for parameters that it has made no step
    of yet: what it would keep of these at the beginning of its first step.

    `schedules` are its schedulers, `dampings` groups of SGD whose first step is to come; `begins` are optimizers, in
    words, that each call of the program is the first step of. `records` says that the model is run with gradients
    recorded: it asks for them outside of `torch.enable_grad()`. `sums` are parameters at which the model leaves other
    gradients than it finds,
    each with what it finds: the zeros that it adds them to in the first call where there is none. `leaves` says that
    these are all at which it leaves some, those too that the next call drops; of what it finds, `replaced` has the
    identities of what it drops, and `dropped` the parameters that it leaves without one. `arguments` are the inputs
    that it leaves gradients at, by name.
    """

    optimizers: tuple[Optimizer, ...] = ()
    starts: tuple[State, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    dampings: tuple[Damping, ...] = ()
    begins: tuple[str, ...] = ()
    records: bool = False
    sums: tuple[tuple[torch.Tensor, torch.Tensor], ...] = ()
    leaves: bool = False
    replaced: frozenset[int] = frozenset()
    dropped: tuple[torch.Tensor, ...] = ()
    arguments: tuple[str, ...] = ()

    @classmethod
    def of(cls, module: torch.nn.Module, parts: Parts | None = None, leaves: bool = False) -> Training:
        """The optimizers of a module, with what they begin with; `parts` are what was found of the module already."""
        held = (parts or Parts.of(module)).around.training
        schedulers = [each for each in held if isinstance(each, LRScheduler)]
        inner = [part for each in schedulers for part in getattr(each, "_schedulers", ())]
        schedulers = [each for each in schedulers if not any(each is part for part in inner)]
        steered = [getattr(each, "optimizer", None) for each in schedulers]
        found = tuple(dict.fromkeys(v for v in (*held, *steered) if isinstance(v, Optimizer)))
        starts = tuple(first_state(each, not leaves) for each in found)
        dampings = tuple(d for each, start in zip(found, starts, strict=True) for d in dampings_of(each, start))
        schedules = tuple(Schedule.of(each, schedulers) for each in schedulers)
        return cls(found, starts, schedules, dampings=dampings, leaves=leaves)

    @classmethod
    def present(cls, module: torch.nn.Module, parts: Parts) -> Training:
        """The optimizers of a module, with nothing but what they keep already."""
        found = tuple(v for v in parts.around.training if isinstance(v, Optimizer))
        return cls(found, tuple({} for _ in found))

    def recording(self) -> Training:
        """The same, of a model that is run with gradients recorded."""
        return attrs.evolve(self, records=True)

    def adding_to(self, parameters: Iterable[torch.Tensor]) -> Training:
        """The same, of a model that leaves gradients at these parameters, to which its next call adds."""
        sums = ((each, torch.zeros_like(each).detach() if each.grad is None else each.grad) for each in parameters)
        return attrs.evolve(self, sums=tuple(sums))

    @property
    def kept(self) -> tuple[State, ...]:
        """What each optimizer keeps when the program begins."""
        pairs = zip(self.optimizers, self.starts, strict=True)
        return tuple({**each.state, **start} for each, start in pairs)

    def names(self, parameters: Mapping[int, str], taken: Mapping[int, str]) -> dict[int, str]:
        """What the tensors are called that optimizers keep, by identity: `0.weight.exp_avg`, `lr`. `parameters` has the
        names of parameters by identity, `taken` all names that there are."""
        free, found = set(taken.values()), {}
        for each, total in self.sums:
            name = f"{parameters.get(id(each), 'parameter')}.grad"
            found[id(total)] = numbered(name, next(n for n in range(len(free) + 1) if numbered(name, n) not in free))
            free.add(found[id(total)])
        for number, each in enumerate(self.schedules):
            found |= {id(tensor): name for name, tensor in each.names(numbered("schedule", number)).items()}
        found |= {id(each.stepped): numbered("stepped", number) for number, each in enumerate(self.dampings)}
        for each, state in zip(self.optimizers, self.kept, strict=True):
            held = [(key, group[key]) for group in each.param_groups for key in group if key != "params"]
            for number, (parameter, contents) in enumerate(state.items()):
                whose = parameters.get(id(parameter), f"parameter_{number}")
                held += [(f"{whose}.{key}", value) for key, value in contents.items()]
            for name, value in held:
                if type(value) is torch.Tensor and id(value) not in taken and id(value) not in found:
                    count = next(n for n in range(len(free) + 1) if numbered(name, n) not in free)
                    found[id(value)] = numbered(name, count)
                    free.add(found[id(value)])
        return found

    def named_tensors(self, module: torch.nn.Module) -> dict[str, torch.Tensor]:
        """All that a step writes, by name: parameters, buffers, and what optimizers keep now."""
        own = {**dict(module.named_buffers()), **dict(module.named_parameters())}
        names = {id(tensor): name for name, tensor in own.items()}
        kept = self.names(names, names)
        return own | {kept[key]: tensor for key, tensor in self.tensors(module).items() if key in kept}

    def tensors(self, module: torch.nn.Module) -> dict[int, torch.Tensor]:
        """All that a step writes, by identity: parameters, buffers, and what optimizers keep."""
        found = [*module.parameters(), *module.buffers()]
        for each in self.optimizers:
            held = [*each.state.values(), *each.param_groups]
            found += [p for group in each.param_groups for p in group["params"]]
            found += [v for inside in held for v in inside.values() if isinstance(v, torch.Tensor)]
        found += [each.grad for each in found if each.is_leaf and each.grad is not None]
        return {id(each): each for each in found}


def numbered(name: str, count: int) -> str:
    """A name, with a number behind it from the second of that name on."""
    return f"{name}_{count}" if count else name


@contextmanager
def training_state_kept(
    module: torch.nn.Module,
    training: Training | None = None,
    parts: Parts | None = None,
    used: Callable[[torch.Tensor], bool] = lambda _: False,
) -> Iterator[Begun]:
    """A block after which the gradients of parameters, and the optimizers that a module or function holds, are as they
    were before. With `training`, what was found of them before, optimizers are in it as they begin. It is given what
    begins in it that is no part of that. `parts` are what was found of the module already; `used` says whether the
    model has used a gradient that it found."""
    parameters = [*module.parameters()] if parts is None else [*parts.parameters.values(), *parts.around.leaves]
    held: list[Any] = (
        list((parts or Parts.of(module)).around.training)
        if training is None
        else [*training.optimizers, *(s.scheduler for s in training.schedules)]
    )
    found = list(dict.fromkeys(v for v in held if isinstance(v, Optimizer)))
    counting = [(each.__dict__, dict(each.__dict__)) for each in (*found, *with_parts(held))]
    parameters += [p for each in found for group in each.param_groups for p in group["params"]]
    if found:
        parameters = list(dict.fromkeys(parameters))
    leaves = Leaves.of(parameters) if parts is None or found else parts.leaves
    before = [dict(each.state) for each in found]
    for each, start in zip(found, () if training is None else training.starts, strict=False):
        for parameter, contents in start.items():
            each.state[parameter] = dict(contents)
    states = [{key: dict(held) for key, held in each.state.items()} for each in found]
    groups = [(held, type(held)(held)) for each in found for held in containers(each.param_groups)]
    settings = [(each, settings_of(each)) for each in found]
    begun = Begun(leaves)
    for group in [group for each in found for group in each.param_groups] if training is not None else []:
        if group.get("fused"):
            group["fused"] = False  # one kernel for all that a step does: the same in operators that are known
    for parameter, total in () if training is None else training.sums:
        parameter.grad = total
    told = Training() if training is None else training
    watched = parameters if told.leaves and told.records else [parameter for parameter, _ in told.sums]
    noted = Noted.of(told.sums, leaves, rates_of(found, told.starts), told.schedules)
    try:
        with calls_noted(found, watched, noted), first_steps_told(told.dampings):
            yield begun
    finally:
        begun.note(noted, leaves, told.leaves and told.records)
        begun.optimizers += [
            type(each).__name__ for each, known in zip(found, states, strict=True) if begins(each, known)
        ]
        begun.settings += set_by_hand(settings, () if training is None else training.schedules, noted.firsts)
        begun.gradients, begun.flags = leaves.put_back(noted, used)
        for each, contents, first in zip(found, states, before, strict=True):
            for key in [key for key in each.state if key not in first]:
                del each.state[key]
            for key, kept in first.items():
                restore(kept, contents[key])
        for table, known in (*groups, *counting):
            restore(table, known)


@attrs.define(eq=False)
class Begun:
    """What begins in one run: `optimizers`, in words, begin to keep tensors or numbers, and parameters get `gradients`
    to which the next call would add; `settings` of optimizers are numbers that the model sets, and `flags` counts
    whether some begin or cease to get gradients. The `dropped` parameters are left without theirs. `leaves` are the
    parameters as they were before. Optimizers, in words, make an `early` step of gradients that there are none of in
    the first call, and begin with a rate that is another, `rated`, when they make a step."""

    leaves: Leaves = attrs.field(factory=lambda: Leaves.of(()))
    optimizers: list[str] = attrs.field(factory=list)
    settings: list[str] = attrs.field(factory=list)
    gradients: list[torch.Tensor] = attrs.field(factory=list)
    flags: int = 0
    dropped: list[torch.Tensor] = attrs.field(factory=list)
    early: Sequence[str] = ()
    rated: Sequence[str] = ()

    def note(self, noted: Noted, leaves: Leaves, all_left: bool) -> None:
        """Takes over what was noted of calls; `all_left` says that no gradient is spent."""
        self.early, self.rated = tuple(dict.fromkeys(noted.early)), tuple(dict.fromkeys(noted.rated))
        if all_left:
            self.dropped += leaves.dropped(noted.gained)
            noted.spent.clear()

    def in_words(self, attributes: Sequence[str]) -> Iterator[str]:
        """That and the attributes which a run sets, as notes: no call of a program does either."""
        names = [*attributes, *self.settings, *(["which parameters get gradients"] if self.flags else [])]
        rest = [f"{len(names) - FEW} more"] if len(names) > FEW else []
        if names:
            yield SET.format(", ".join([*names[:FEW], *rest]))
        yield from map(BEGUN.format, self.optimizers)


def settings_of(optimizer: Optimizer) -> dict[tuple[int, str], Any]:
    """What the groups of an optimizer hold, and itself (group -1), by number of the group and name."""
    tables = enumerate((vars(optimizer), *optimizer.param_groups), -1)
    return {(number, name): value for number, table in tables for name, value in table.items() if name != "fused"}


def set_by_hand(
    settings: Sequence[tuple[Optimizer, Mapping[tuple[int, str], Any]]], schedules: Sequence[Schedule],
    firsts: Mapping[tuple[int, int], Mapping[str, Any]],
) -> Iterator[str]:  # fmt: skip
    """The numbers of optimizers, in words, that are others than before, and that no schedule has set. A tensor, or what
    data or sizes tell, is none where it was there when its group made a step for the first time, as in `firsts`: each
    call sets it before it uses it."""
    scheduled = {(id(each.scheduler.optimizer), *key): value for each in schedules for key, value in each.given.items()}
    overwritten = {(id(each.scheduler.optimizer), *key) for each in schedules for key in each.overwritten}
    for optimizer, before in settings:
        for key, value in settings_of(optimizer).items():
            plain = value if isinstance(value, (tuple, list)) else (value,)
            numbers = all(type(each) in (int, float) for each in plain)
            known = scheduled.get((id(optimizer), *key))
            was, first = before.get(key, MISSING), firsts.get((id(optimizer), key[0]), {}).get(key[1], MISSING)
            if known is not None:
                another = value is not known or (id(optimizer), *key) in overwritten
            elif numbers:
                another = value != was
            else:
                another = is_told(value, was) and not is_told(first, was)
            if another:
                yield f"{key[1]} of {type(optimizer).__name__}"


def is_told(value: Any, before: Any) -> bool:
    """Whether a setting holds a tensor, or a number that data or sizes tell, that is none of those before."""
    now, then = (held if isinstance(held, (tuple, list)) else (held,) for held in (value, before))
    return any(isinstance(each, VARYING) and not any(each is other for other in then) for each in now)


MISSING = object()
VARYING = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)


FEW = 4
NOT_KEPT = "and the program does not: each of its calls finds what was there at first"
SET = f"the model, when it is called, sets {{}}, {NOT_KEPT}"
BEGUN = "each call of the program is the first step of {}: make a step before, so that what it keeps is there"


def contents_kept(module: torch.nn.Module, training: Training) -> AbstractContextManager[None]:
    """A block after which parameters, buffers, and what optimizers keep hold the numbers that they held before."""
    return tensors_kept(training.tensors(module).values())


@contextmanager
def tensors_kept(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """A block after which tensors hold the numbers that they held before. Those that still do are not written: programs
    that were made of them would take them for changed."""
    before = [(tensor, tensor.detach().clone()) for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, content in before:
                if not have_same_bits(tensor, content):
                    tensor.copy_(content)


def have_same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the very same numbers, which NaN is to itself here; False where that cannot be seen."""
    try:
        plain = (each.detach().resolve_conj().resolve_neg().contiguous().reshape(-1) for each in (one, other))
        return torch.equal(*(each.view(torch.uint8) for each in plain))
    except (RuntimeError, TypeError):  # sparse or quantized tensors, and those without numbers
        return False


def with_parts(held: Iterable[Any]) -> Iterator[Any]:
    """The schedulers among some objects, and those that they are made of."""
    for each in held:
        if isinstance(each, LRScheduler):
            yield each
            yield from with_parts(getattr(each, "_schedulers", ()))


def begins(optimizer: Optimizer, before: State) -> bool:
    """Whether an optimizer keeps tensors or numbers, of some parameter, that it did not keep before, or others."""
    return any(differs(held, before.get(key, {})) for key, held in optimizer.state.items())


def asks_for_gradients(error: Exception) -> bool:
    """Whether an error says that gradients were asked for where none were recorded."""
    return isinstance(error, RuntimeError) and any(text in str(error) for text in UNRECORDED)


UNRECORDED = ("does not require grad", "doesn't require gradient", "on Tensor that has requires_grad=False")
"""What torch says of a tensor whose gradients were not recorded: where they are asked for, get a hook, or are kept."""
