"""What optimizers begin with: what they would keep of parameters that they have made no step of yet."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import attrs
import torch
from torch.optim import SGD, Optimizer

State = Mapping[Any, Mapping[str, Any]]
"""What an optimizer keeps, by parameter and name."""


@attrs.frozen(eq=False)
class Damping:
    """The number of a group of SGD, and whether it has made a step, 0 or 1: its first one is not dampened."""

    optimizer: Optimizer
    group: int
    stepped: torch.Tensor = attrs.field(factory=partial(torch.zeros, (), dtype=torch.float64))

    def before(self, *_: Any) -> None:
        """Has the dampening be none in the first step."""
        group = self.optimizer.param_groups[self.group]
        group["dampening"] = self.stepped.mul(group["dampening"]).item()

    def after(self, given: float) -> None:
        """Notes that a step was made, of a group that dampens by that."""
        group = self.optimizer.param_groups[self.group]
        group["dampening"] = given
        if any(p.grad is not None for p in group["params"]):
            self.stepped.fill_(1.0)


def dampings_of(optimizer: Optimizer, start: State) -> Iterator[Damping]:
    """The groups of an optimizer that dampen, but for their first step, which is to come. None where that is of some
    of a group's parameters alone: these are dampened alike."""
    for number, group in enumerate(optimizer.param_groups):
        if start and type(optimizer) is SGD and group["momentum"] and group["dampening"]:
            yield Damping(optimizer, number)


@contextmanager
def first_steps_told(dampings: Sequence[Damping]) -> Iterator[None]:
    """A block in which steps of groups are dampened but for the first one, whichever call it is in."""
    with ExitStack() as blocks:
        for each in dampings:
            given = each.optimizer.param_groups[each.group]["dampening"]
            hooks = (
                each.optimizer.register_step_pre_hook(each.before),
                each.optimizer.register_step_post_hook(lambda *_, each=each, given=given: each.after(given)),
            )
            for hook in hooks:
                blocks.callback(hook.remove)
        yield


class Recording(dict[str, Any]):
    """What an optimizer keeps of one parameter; `first` has each tensor as it was when it was put in."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, Any] = {}

    def __setitem__(self, key: str, value: Any) -> None:
        self.first.setdefault(key, value.detach().clone() if isinstance(value, torch.Tensor) else value)
        super().__setitem__(key, value)


def first_state(optimizer: Optimizer, damped: bool = True) -> State:
    """What an optimizer would begin to keep of parameters that it keeps nothing of; empty where that hangs on the
    gradients, other than as a sum that begins with 0, where a step of it takes more than gradients, and where the
    first thing that it puts in is what the step has made already, a count of 1. Where SGD dampens all but the first
    step that is a sum, too, if it may be `damped` by a number of the program's."""
    lacking = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    lacking = [p for p in lacking if not optimizer.state.get(p)]
    if not lacking:
        return {}
    zero, one = (begun_by(optimizer, gradient) for gradient in (0.0, 1.0))
    if zero is None or one is None:
        return {}
    plain = type(optimizer) is SGD and all(is_sum(optimizer, group, damped) for group in optimizer.param_groups)
    found = {p: zero[0][p] for p in lacking if zero[0][p] and (plain or same_contents(zero[0][p], one[0][p]))}
    if not found or type(optimizer).__module__.startswith("torch.optim."):
        return found
    again = begun_by(optimizer, 1.0, found)
    return found if again is not None and all(same_contents(one[1][p], again[1][p]) for p in found) else {}


def rates_of(optimizers: Sequence[Optimizer], starts: Sequence[State]) -> dict[tuple[int, int], Any]:
    """The rates of optimizers that begin with their rate, as step sizes, by the identity of each and the number of the
    group."""
    return {
        (id(optimizer), number): group["lr"]
        for optimizer, start in zip(optimizers, starts, strict=False)
        for number, group in enumerate(optimizer.param_groups)
        if any(is_filled_with(group.get("lr"), start.get(p, {})) for p in group["params"])
    }


def is_filled_with(rate: Any, kept: Mapping[str, Any]) -> bool:
    """Whether some of what is kept is a rate, in each element."""
    tensors = [value for value in kept.values() if isinstance(value, torch.Tensor)]
    return isinstance(rate, float) and any(torch.equal(each, torch.full_like(each, rate)) for each in tensors)


def is_sum(optimizer: Optimizer, group: Mapping[str, Any], damped: bool) -> bool:
    """Whether the momentum of a group of SGD is a sum that begins with 0, or one but for the first dampening."""
    return not group["dampening"] or (damped and not any(optimizer.state.get(p) for p in group["params"]))


def same_contents(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two states hold equal tensors and numbers under the same names."""
    return one.keys() == other.keys() and all(
        torch.equal(value, other[key]) if isinstance(value, torch.Tensor) else value == other[key]
        for key, value in one.items()
    )


def begun_by(optimizer: Optimizer, gradient: float, start: State | None = None) -> tuple[State, State] | None:
    """What a first step, on copies and with all gradients alike, puts into an optimizer's state at first, and what is
    there after it, with the parameter itself, by parameter; None where that step cannot be made. `start` is what is in
    the state before."""
    copies = {p: torch.zeros_like(p).requires_grad_() for group in optimizer.param_groups for p in group["params"]}
    for each in copies.values():
        each.grad = torch.full_like(each, gradient)
    twin: Any = object.__new__(type(optimizer))
    twin.__dict__.update(optimizer.__dict__)
    twin.__dict__.update({name: OrderedDict() for name in optimizer.__dict__ if name.endswith("_hooks")})
    twin.__dict__.pop("step", None)  # a scheduler's, which makes a step of the optimizer itself
    twin.state = defaultdict(Recording)
    for p, contents in (start or {}).items():
        twin.state[copies[p]].update({name: copied(value) for name, value in contents.items()})
    twin.param_groups = [
        {key: copied(value) for key, value in group.items()} | {"params": [copies[p] for p in group["params"]]}
        for group in optimizer.param_groups
    ]
    try:
        with torch.no_grad():
            twin.step()
    except Exception:  # of an optimizer that wants a function, or more of its user's
        return None
    first = {p: dict(getattr(twin.state[twice], "first", {})) for p, twice in copies.items()}
    return first, {p: {**twin.state[twice], "parameter": twice.detach()} for p, twice in copies.items()}


def copied(value: Any) -> Any:
    """A tensor of its own; anything else as it is."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
