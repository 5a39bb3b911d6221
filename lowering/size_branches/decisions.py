"""Which modules decide by sizes, and the answers of a run of one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import sympy
import torch

from irkit.dims.choice import negation, plain
from lowering.capture.guards.comparisons import as_said
from lowering.direct.request import Deciding
from lowering.direct.tracer import Tracer
from lowering.size_branches.elsewhere import assume, point_where

MOST = 12
"""How many ways of one module become branches."""


class GivenUp(BaseException):
    """The ways of a module cannot be branches; which one, and why."""

    def __init__(self, module: torch.nn.Module, why: str) -> None:
        super().__init__(why)
        self.module, self.why = id(module), why


class Fruitless(BaseException):
    """Each module that was to have ways as branches has one way only: the rest of the run shows nothing new."""


@attrs.define(eq=False)
class Path:
    """The answers that one run of a module gets, as conditions: those `said` beforehand, then those of the sizes at
    which it is run, which are the example's, or those of a `point`. `forks` are other runs to be made, `left` says how
    many there may be; `elsewhere` that the answers are not those of the example, `line` is that of the model which
    asked last of what is said."""

    module: torch.nn.Module
    said: list[Any]
    point: Mapping[str, int] = {}
    line: str = ""
    left: int = MOST
    elsewhere: bool = False
    forks: list[Path] = attrs.field(factory=list)

    def answer(self, tracer: Tracer, condition: Any, answer: bool) -> bool | None:
        """The answer to a question that was not asked before; None where it has no other one than the example's."""
        here, there = (condition, negation(condition)) if answer else (negation(condition), condition)
        point = point_where(tracer.asked, there) if len(self.forks) < self.left else None
        if point is None:
            return None
        sizes = {name: tracer.asked.hints[name] for name in tracer.named}
        self.forks.append(Path(self.module, [*self.said, there], {**sizes, **point}, line=tracer.line()))
        self.said.append(here)
        assume(tracer, here)
        return answer

    @property
    def where(self) -> Any:
        """Where this way is taken."""
        return sympy.And(*self.said)


@attrs.define(eq=False)
class Decisions:
    """The questions of sizes in one run, in which ways of the `chosen` modules become branches: `running` are the
    modules around, `paths` the ways that are being run, `noted` the classes of modules whose ways are to be branches in
    the next run. `decides` says whether code that may be rewritten decides now, `joined` whether any ways became
    branches. `calls` counts those of each module, `of_one_way` are the modules that are done and have one way only."""

    tracer: Tracer
    deciding: Deciding
    decides: Callable[[], bool]
    chosen: Sequence[torch.nn.Module] = ()
    running: list[torch.nn.Module] = attrs.field(factory=list)
    paths: list[Path] = attrs.field(factory=list)
    noted: set[type] = attrs.field(factory=set)
    joined: bool = False
    calls: Counter[int] = attrs.field(factory=Counter)
    of_one_way: set[int] = attrs.field(factory=set)

    def one_way(self, module: torch.nn.Module) -> None:
        """Is told that a call of a module goes one way only. Raises Fruitless in a run that is about nothing else than
        ways of modules, where those of none will become branches."""
        expected = self.deciding.calls.get(id(module), 0)
        if self.joined or self.paths or self.tracer.before is not None or not 0 < expected <= self.calls[id(module)]:
            return
        self.of_one_way.add(id(module))
        others = {type(each) for each in self.chosen}
        if self.deciding.modules <= self.of_one_way and self.noted <= others:
            raise Fruitless

    def answer(self, node: Any) -> bool | None:
        """The answer to a question of sizes; None where that of the example is to be kept as a condition."""
        asked, condition = self.tracer.asked, plain(node.expr)
        if not isinstance(condition, sympy.core.relational.Relational | sympy.And | sympy.Or):
            return None
        for told, answer in ((condition, True), (negation(condition), False)):
            if all(as_said(each) in asked.assumed for each in sympy.And.make_args(told)):
                return answer
        if not all(s.name in asked.ranges for s in condition.free_symbols) or not self.decides():
            return None
        owner = self.owner()
        if owner is None:
            return None
        hint = bool(node.hint)
        if self.paths and self.paths[-1].module is owner:
            return self.paths[-1].answer(self.tracer, condition, hint)
        kind = type(owner)
        if kind not in self.noted and point_where(asked, negation(condition) if hint else condition) is not None:
            self.noted.add(kind)
        return None

    def owner(self) -> torch.nn.Module | None:
        """The innermost module around whose ways may be branches."""
        return next((each for each in reversed(self.running) if id(each) not in self.deciding.given_up), None)
