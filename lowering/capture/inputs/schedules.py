"""Schedulers of learning rates inside a training step: what they do at each step as a table, looked up by a count.

A scheduler is Python code that counts its own steps, so a step that was captured once would use one rate for ever. What
it sets in the groups of its optimizer hangs on the count alone: it is computed beforehand, and the count becomes state.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch
from torch.optim import Optimizer

from lowering.errors import CaptureError

SEVERAL = "another one sets numbers of the same optimizer, which one ChainedScheduler of both would do"
STEPS = 10_000
"""So many steps of a scheduler are computed beforehand; a program refuses one more."""


@attrs.frozen(eq=False)
class Schedule:
    """A scheduler with what it sets after each number of steps: `tables` has these numbers by group, name, and place
    in a tuple (-1 for a number by itself). `count` is how many steps were made, as a tensor. `refusal` says why there
    is no table; empty where there is one. `first` is where the scheduler itself was, `given` what it has set last, and
    `overwritten` what of that the model had set to something else when it made another step: most schedulers go on from
    what they find."""

    scheduler: Any
    count: torch.Tensor
    tables: Mapping[tuple[int, str, int], torch.Tensor]
    refusal: str = ""
    first: Any = None
    given: dict[tuple[int, str], Any] = attrs.field(factory=dict)
    overwritten: set[tuple[int, str]] = attrs.field(factory=set)

    @classmethod
    def of(cls, scheduler: Any, others: Sequence[Any] = ()) -> Schedule:
        """The next steps of a scheduler, from where it is; `others` are all that there are."""
        count = torch.tensor(0)
        if sum(getattr(each, "optimizer", None) is scheduler.optimizer for each in others) > 1:
            return cls(scheduler, count, {}, SEVERAL, last_epoch(scheduler))
        try:
            rows = rates(scheduler)
        except Exception as error:  # of a scheduler that wants a loss, or anything else
            return cls(scheduler, count, {}, f"{type(error).__name__}: {error}", last_epoch(scheduler))
        changing = [key for key, first in rows[0].items() if any(row[key] != first for row in rows)]
        tables = {key: torch.tensor([row[key] for row in rows], dtype=torch.float64) for key in changing}
        return cls(scheduler, count, tables, first=last_epoch(scheduler))

    def is_followed(self) -> bool:
        """Whether the scheduler itself has made as many steps since as are counted."""
        now = last_epoch(self.scheduler)
        return now is None or self.first is None or now == self.first + int(self.count)

    def names(self, taken: str) -> dict[str, torch.Tensor]:
        """The tensors that it is made of, by what they are called."""
        return {taken: self.count, **{f"{taken}.{key[1]}": table for key, table in self.tables.items()}}

    def set_rates(self) -> None:
        """Puts what the table says at the count into the groups of the optimizer."""
        groups = self.scheduler.optimizer.param_groups
        for (number, key, place), table in self.tables.items():
            rate = table.index_select(0, self.count.reshape(1)).item()
            if place < 0:
                groups[number][key] = rate
            else:
                held = list(groups[number][key])
                held[place] = rate
                groups[number][key] = tuple(held)
            self.given[number, key] = groups[number][key]

    def step(self, *args: Any, **kwargs: Any) -> None:
        """A step of the scheduler. Raises CaptureError for one that is no matter of counting."""
        name = type(self.scheduler).__name__
        if self.refusal or args or kwargs:
            why = self.refusal or "it is given arguments"
            raise CaptureError(
                f"a step of {name} cannot be part of a program: {why}",
                hint="make the steps of the scheduler outside, and give the learning rate as an argument: "
                "optimizer.param_groups[0]['lr'] = rate",
            )
        groups = self.scheduler.optimizer.param_groups
        self.overwritten.update(key for key, value in self.given.items() if groups[key[0]].get(key[1]) is not value)
        self.count.add_(1)
        self.stand()

    def stand(self) -> None:
        """Has the scheduler and its optimizer stand where the count is."""
        self.set_rates()
        self.scheduler._last_lr = [group["lr"] for group in self.scheduler.optimizer.param_groups]
        if self.first is not None:
            self.scheduler.last_epoch = self.first + self.count.item()


def last_epoch(scheduler: Any) -> int | None:
    """How many steps a scheduler has made; None where it does not say."""
    found = getattr(scheduler, "last_epoch", None)
    return found if isinstance(found, int) else None


def begin_schedules(schedules: Sequence[Schedule]) -> None:
    """Makes the steps of schedulers be looked up, and the numbers of the first one stand where they belong."""
    for each in schedules:
        each.overwritten.clear()
        if not each.refusal:
            each.stand()
        each.scheduler.step = each.step


def rates(scheduler: Any) -> list[dict[tuple[int, str, int], float]]:
    """What stands in the groups of a scheduler's optimizer now, and after each of its next steps, made on copies."""
    optimizer: Any = object.__new__(type(scheduler.optimizer))
    optimizer.__dict__.update(scheduler.optimizer.__dict__)
    optimizer.param_groups = [
        {**{key: copy.deepcopy(value) for key, value in group.items() if key != "params"}, "params": []}
        for group in scheduler.optimizer.param_groups
    ]
    twin = copy.deepcopy(scheduler, {id(scheduler.optimizer): optimizer})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no step of the optimizer goes before, and some schedules are shorter
        found = [numbers(optimizer)]
        for _ in range(STEPS):
            try:
                twin.step()
            except ValueError:  # OneCycleLR knows how many steps there are
                if len(found) == 1:
                    raise
                break
            found.append(numbers(optimizer))
    return found


def numbers(optimizer: Optimizer) -> dict[tuple[int, str, int], float]:
    """The numbers in the groups of an optimizer, by group, name, and place in a tuple."""
    found: dict[tuple[int, str, int], float] = {}
    for number, group in enumerate(optimizer.param_groups):
        for key, value in group.items():
            if isinstance(value, tuple) and all(isinstance(each, float) for each in value):
                found |= {(number, key, place): each for place, each in enumerate(value)}
            elif isinstance(value, float) or (isinstance(value, torch.Tensor) and value.numel() == 1):
                found[number, key, -1] = float(value)
    return found
