"""`self.experts[i]`, and `self.experts[f"expert_{i}"]`, where data tells the number: one module with the weights of the
one that is chosen.

All that can be chosen must be equal but for their weights. These are stacked, and the number is a place among them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from lowering.capture.inputs.alike import Below
from lowering.direct.functions.numbers import hangs_on_data
from lowering.errors import LoweringError

WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64)
WEIGHTS = (torch.Tensor, torch.nn.Parameter)


def chosen_module(tracer: Any, holder: Any, place: Any) -> torch.nn.Module | None:
    """The module at a place of a ModuleList, ModuleDict or Sequential that only data tells; None where a plain number
    or key is asked for, or the modules differ."""
    if isinstance(place, str):
        modules, number = named_modules(holder, place, tracer.asked.written)
    else:
        modules, number = [*holder._modules.values()], place
        if isinstance(place, torch.Tensor) and place.dtype in WHOLE and place.numel() == 1:
            number = place.item()
    if not modules or not isinstance(number, torch.SymInt) or not hangs_on_data(number):
        return None
    if not are_alike(modules, tracer.likes.forwards):
        return None
    made = with_weights(modules, number, tracer.likes.forwards, lambda: refuse_write(tracer))
    tracer.chosen.append(Below.of(made))
    return made


def named_modules(holder: Any, key: str, written: Mapping[str, Any]) -> tuple[Sequence[torch.nn.Module], Any]:
    """(the modules whose keys have 0, 1, ... where another has the text of a number, that number); nothing where there
    is none, or a module has the very key."""
    if key in holder._modules:
        return [], None
    for text in sorted(written, key=len, reverse=True):
        before, found, behind = key.partition(text)
        if not found or re.match(r"\w", behind):
            continue
        keys = [f"{before}{place}{behind}" for place in range(len(holder._modules))]
        count = next((i for i, each in enumerate(keys) if each not in holder._modules), len(keys))
        others = re.compile(re.escape(before) + r"-?\d+" + re.escape(behind))
        if count and sum(others.fullmatch(each) is not None for each in holder._modules) == count:
            number = written[text]
            torch._check(number >= 0)
            return [holder._modules[each] for each in keys[:count]], number
    return [], None


def are_alike(modules: Sequence[Any], forwards: Mapping[int, Any]) -> bool:
    """Whether modules are equal but for the numbers in their weights, and no hook runs when one is called."""
    if any(each is None for each in modules):
        return False
    every = [Below.of(each) for each in modules]
    parts = [part for each in every for part in each.parts]
    own = any(part.__dict__["forward"] is not forwards.get(id(part)) for part in parts if "forward" in part.__dict__)
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in parts)
    if own or hooked or any(type(weight) not in WEIGHTS for each in every for weight in each.weights):
        return False
    first, *rest = map(structure, every)
    return all(each == first for each in rest) and all(every[0].differences(each) == frozenset() for each in every[1:])


def structure(below: Below) -> list[Any]:
    """What modules that are alike have in common beside their attributes."""
    found = []
    for part in below.parts:
        children = [(name, None if each is None else places(below, each)) for name, each in part._modules.items()]
        weights = [*part._parameters.items(), *part._buffers.items()]
        kinds = [(name, None if each is None else kind(each)) for name, each in weights]
        found.append((type(part), part.training, children, kinds))
    return found


def places(below: Below, child: torch.nn.Module) -> int:
    """Which of the parts a child is."""
    return next(i for i, part in enumerate(below.parts) if part is child)


def kind(weight: torch.Tensor) -> Any:
    """What weights have in common that can be stacked."""
    return (weight.dtype, tuple(weight.shape), weight.device, weight.layout, weight.requires_grad)


def with_weights(
    modules: Sequence[Any], number: Any, forwards: Mapping[int, Any], refuse: Callable[[], None]
) -> torch.nn.Module:
    """A module like some others, with the weights of the one that has this number. `refuse` is called where it writes
    one of them, which would not be that module's own."""
    known: dict[Any, Any] = {}

    def weight(several: Sequence[Any]) -> Any:
        if several[0] is None:
            return None
        key = tuple(map(id, several))  # weights that one module shares, another need not
        if key not in known:
            found: Any = torch.stack([*several])[number]
            found.handle.memory.doubtful.append(refuse)
            known[key] = found
        return known[key]

    def module(several: Sequence[Any]) -> Any:
        if several[0] is None or id(several[0]) in known:
            return None if several[0] is None else known[id(several[0])]
        first: Any = several[0]
        made = known[id(first)] = object.__new__(type(first))
        made.__dict__.update(
            {n: each for n, each in first.__dict__.items() if n != "forward" or id(first) not in forwards}
        )
        for name, make in (("_parameters", weight), ("_buffers", weight), ("_modules", module)):
            held = getattr(first, name)
            made.__dict__[name] = {n: make([getattr(each, name)[n] for each in several]) for n in held}
        return made

    return module(modules)


def refuse_write(tracer: Any) -> None:
    """Raises LoweringError: what is written is the weight of a module that data chooses."""
    raise LoweringError(
        "a module that data chooses among others writes one of its own tensors", source=tracer.line(),
        hint="keep such tensors stacked, outside of these modules",
    )  # fmt: skip


def refuse_changed(tracer: Any) -> None:
    """Raises LoweringError where a module that data chose was changed."""
    changed: Iterator[Below] = (each for each in tracer.chosen if not each.is_untouched())
    if next(changed, None) is not None:
        raise LoweringError(
            "a module that data chooses among others sets an attribute of its own when it is called",
            hint="return what it keeps, or choose by branches",
        )
