"""The leaves of autograd's graph that a model holds: they have the gradients, flags and hooks again that they had; and
what a run does with these gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
import torch
from torch.optim import SGD, Optimizer

from lowering.capture.inputs.containers import restore


@attrs.frozen(eq=False)
class Leaves:
    """Parameters, and other tensors that get gradients, each with its gradient, whether it gets one, and its tables of
    hooks, and what these tables held. There are many: most are only looked at."""

    tensors: Sequence[tuple[Any, Any, bool, Any, Any]]
    tables: Sequence[tuple[Any, Mapping[Any, Any]]]

    @classmethod
    def of(cls, tensors: Iterable[Any]) -> Leaves:
        """Tensors as they are."""
        found = [(t, t.grad, t.requires_grad, t._backward_hooks, t._post_accumulate_grad_hooks) for t in tensors]
        return cls(found, [(table, dict(table)) for each in found for table in each[3:] if table is not None])

    def dropped(self, gained: set[int]) -> list[torch.Tensor]:
        """The tensors that have no gradient now, and had one before, or `gained` one since."""
        return [t for t, before, *_ in self.tensors if t.grad is None and (before is not None or id(t) in gained)]

    def spent(self) -> list[torch.Tensor]:
        """The gradients of tensors that have none now."""
        return [before for t, before, *_ in self.tensors if before is not None and t.grad is None]

    def put_back(self, noted: Noted, used: Callable[[torch.Tensor], bool]) -> tuple[list[torch.Tensor], int]:
        """Has the tensors be as they were. (those that are left with another gradient, but for those whose gradients
        are spent by a step and are dropped, as `noted`, before one is `used`; of how many it is others whether they
        get one)."""
        begun: list[torch.Tensor] = []
        flags = 0
        others = [
            each
            for each in self.tensors
            if (t := each[0]).grad is not each[1]
            or t.requires_grad != each[2]
            or t._backward_hooks is not each[3]
            or t._post_accumulate_grad_hooks is not each[4]
        ]
        for tensor, gradient, records, backward, after in others:
            another = tensor.grad is not None and tensor.grad is not gradient
            dropped = id(tensor) in noted.dropped or (gradient is not None and not used(gradient))
            if another and not (noted.spent.get(id(tensor)) is tensor.grad and dropped):
                begun.append(tensor)
            tensor.grad = gradient
            if tensor.requires_grad != records:
                flags += 1
                tensor.requires_grad_(records)
            if tensor._backward_hooks is not backward:
                tensor._backward_hooks.clear()
            if tensor._post_accumulate_grad_hooks is not after:
                tensor._post_accumulate_grad_hooks.clear()
        for table, held in self.tables:
            restore(table, held)
        return begun, flags


@attrs.frozen(eq=False)
class Noted:
    """What is noted of calls in a run, by the identities of parameters: whose gradients are `dropped` while there are
    none, as each call does before it adds to them; which ones are `spent` by a step; who `gained` one. `zeros` are
    gradients that the first call has none of, `rates` what some optimizers begin with, by the optimizer and the number
    of a group, `schedules` what sets rates. Optimizers, in words, make a step `early`, of such zeros, or at another
    rate than that, `rated`; `firsts` has what groups held when they made a step for the first time."""

    zeros: Mapping[int, torch.Tensor]
    rates: Mapping[tuple[int, int], Any]
    schedules: Sequence[Any]
    dropped: set[int] = attrs.field(factory=set)
    spent: dict[int, torch.Tensor] = attrs.field(factory=dict)
    gained: set[int] = attrs.field(factory=set)
    early: list[str] = attrs.field(factory=list)
    rated: list[str] = attrs.field(factory=list)
    firsts: dict[tuple[int, int], dict[str, Any]] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls, sums: Sequence[tuple[Any, torch.Tensor]], leaves: Leaves, rates: Mapping[tuple[int, int], Any],
        schedules: Sequence[Any],
    ) -> Noted:  # fmt: skip
        """Nothing yet. `sums` are gradients that a run begins with, of parameters that stood as `leaves`."""
        without = {id(tensor) for tensor, gradient, *_ in leaves.tensors if gradient is None} if sums else set[int]()
        return cls({id(p): total for p, total in sums if id(p) in without}, rates, schedules)

    def drops(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
        """zero_grad of an optimizer."""
        self.dropped.update(id(p) for group in optimizer.param_groups for p in group["params"] if p.grad is None)
        type(optimizer).zero_grad(optimizer, *args, **kwargs)

    def steps(self, optimizer: Optimizer, *_: Any) -> None:
        """What comes before a step of an optimizer."""
        name = type(optimizer).__name__
        for number, group in enumerate(optimizer.param_groups):
            self.firsts.setdefault((id(optimizer), number), dict(group))
            with_gradients = [p for p in group["params"] if p.grad is not None]
            self.spent.update((id(p), p.grad) for p in with_gradients)
            has_state = not isinstance(optimizer, SGD) or group["momentum"] or group["weight_decay"]
            if has_state and any(self.is_zero(p) for p in with_gradients):
                self.early.append(name)
            known = self.rates.get((id(optimizer), number))
            looked_up = [s.given.get((number, "lr")) for s in self.schedules if s.scheduler.optimizer is optimizer]
            if known is not None and not any(group["lr"] is each for each in (known, *looked_up)):
                self.rated.append(name)

    def is_zero(self, parameter: torch.Tensor) -> bool:
        """Whether a parameter has zeros that the first call has no gradient in place of."""
        return parameter.grad is self.zeros.get(id(parameter), self) and id(parameter) not in self.gained

    def gains(self, parameter: torch.Tensor) -> None:
        """What comes after a gradient was added to."""
        self.gained.add(id(parameter))


@contextmanager
def calls_noted(optimizers: Iterable[Optimizer], watched: Iterable[torch.Tensor], noted: Noted) -> Iterator[None]:
    """A block in which what optimizers do with gradients is `noted`, and which parameters, of those that are `watched`,
    get one."""
    found = list(optimizers)
    own = [each for each in found if "zero_grad" not in each.__dict__]
    for each in own:
        each.__dict__["zero_grad"] = partial(noted.drops, each)
    hooks: list[Any] = [each.register_step_pre_hook(noted.steps) for each in found]
    leaves = [each for each in watched if each.requires_grad and each.is_leaf]
    hooks += [each.register_post_accumulate_grad_hook(noted.gains) for each in leaves]
    try:
        yield
    finally:
        for each in hooks:
            each.remove()
        for each in own:
            del each.__dict__["zero_grad"]
