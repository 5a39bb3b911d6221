"""What rewriting did to a graph: every step of every pass, and every firing of every rule, in order."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from irkit.core.ir import Graph, Value
from irkit.rewriting.firings import Firing
from irkit.rewriting.passes import Pass, Step, as_pass
from irkit.support.counts import count_text


@attrs.frozen(eq=False, repr=False)
class Turn:
    """One pass that was applied, no combinator of others, and the rules that fired in it."""

    step: Step
    firings: tuple[Firing, ...] = ()


@attrs.frozen(eq=False, repr=False)
class History:
    """The turns that a graph went through, in order. `graph` is the first version, `result` the last; `irkit.viz` shows
    all of them."""

    graph: Graph
    turns: tuple[Turn, ...]
    result: Graph

    @property
    def firings(self) -> Iterator[Firing]:
        """All firings, in order."""
        return (firing for turn in self.turns for firing in turn.firings)

    def __repr__(self) -> str:
        count = sum(len(turn.firings) for turn in self.turns)
        became = f"{count_text(len(self.graph), 'operator')} to {len(self.result)}"
        return (
            f"<History {self.graph.name}: {count_text(len(self.turns), 'pass', 'passes')}, "
            f"{count_text(count, 'firing')}, {became}>"
        )


class Recorder:
    """An observer that keeps turns. A step that others were told of within is a combinator, and no turn itself."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._firings: list[Firing] = []
        self._ended = 0.0

    def fired(self, firing: Firing) -> None:
        """Keeps a firing for the step that it belongs to."""
        self._firings.append(firing)

    def __call__(self, step: Step) -> None:
        """Keeps a step, unless it is that of a combinator."""
        now = time.perf_counter()
        if self._firings or now - step.seconds >= self._ended:
            self.turns.append(Turn(step, tuple(self._firings)))
            self._firings, self._ended = [], now


def record_history(inner: Pass | Callable[..., Graph], graph: Graph) -> History:
    """The history of a graph under a pass, or a function of a graph that takes `observe`, such as `passes.optimize`."""
    recorder = Recorder()
    result = as_pass(inner).run(graph, recorder)
    return History(graph, tuple(recorder.turns), result)


# ---------------------------------------------------------------------------------------------- counted


@attrs.frozen
class Fired:
    """What one rule did over all passes: how often it fired, in how many seconds, and in which passes. For a rule of
    the caller's, `own`, `became` tells what is left of what it made: operators by what made the last word on them."""

    rule: str
    times: int
    seconds: float
    passes: tuple[str, ...]
    own: bool = False
    became: Mapping[str, int] = attrs.field(factory=dict[str, int])

    def __str__(self) -> str:
        times = "once" if self.times == 1 else f"{self.times} times"
        head = f"{self.rule}: {times}, {self.seconds * 1000:.1f} ms, in {', '.join(self.passes)}"
        fate = ", ".join(f"{count} {what}" for what, count in self.became.items())
        return f"{head}; yours: {fate}" if self.own and fate else head


class Tally:
    """An observer that counts firings, and keeps no graph."""

    def __init__(self, own: tuple[str, ...] = ()) -> None:
        self.own = own
        self._count: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._passes: dict[str, dict[str, None]] = {}
        self._fresh: set[str] = set()
        self._taken: list[tuple[str, str, str]] = []  # own rule, operator that it made, rule that replaced it
        self._fed: dict[str, Counter[str]] = {}  # own rule, and the rules that took what it made as an operand
        self.fates: dict[str, dict[str, int]] = {}
        self.counts_only = not own

    def fired(self, firing: Firing) -> None:
        """Counts a firing."""
        name = firing.rule.name
        self._count[name] = self._count.get(name, 0) + firing.times
        self._seconds[name] = self._seconds.get(name, 0.0) + firing.seconds
        self._fresh.add(name)
        for root in firing.found if self.own else ():
            if root.origin.rules and root.origin.rules[-1] in self.own:
                self._taken.append((root.origin.rules[-1], root.op, name))
        for value in taken_operands(firing) if self.own else ():
            if value.origin.rules and value.origin.rules[-1] in self.own:
                self._fed.setdefault(value.origin.rules[-1], Counter())[f"taken up by {name}"] += 1

    def __call__(self, step: Step) -> None:
        """Notes in which pass the rules fired that were counted since the last, and what it took of what rules of the
        caller's made."""
        title = step.name.partition("{")[0]
        for name in self._fresh:
            self._passes.setdefault(name, {}).setdefault(title)
        verb = "written out again" if title == "legalize" else "rewritten again"
        if step.changed or self._taken:
            taken = Counter((name, op) for name, op, _ in self._taken)
            for name, op, rule in self._taken:
                self.count_fate(name, f"{op} {verb} by {title}" + (f" ({rule})" if rule != title else ""), 1)
            for name in self.own:
                before, after = made_by(name, step.before), made_by(name, step.after)
                for op, count in before.items():
                    self.count_fate(name, f"{op} {verb} by {title}", count - after.get(op, 0) - taken[name, op])
        self._fresh.clear()
        self._taken.clear()

    def count_fate(self, name: str, what: str, count: int) -> None:
        """Adds to what became of what a rule of the caller's made."""
        fates = self.fates.setdefault(name, {})
        if count > 0:
            fates[what] = fates.get(what, 0) + count

    def counts(self, result: Graph) -> tuple[Fired, ...]:
        """What each rule did, the one that fired most first; `result` is the last graph."""
        found: list[Fired] = []
        for name, times in self._count.items():
            became: dict[str, int] = {}
            if name in self.own:
                became = {f"{op} in the model": n for op, n in made_by(name, result).items()} | self.fates.get(name, {})
                became = (
                    became or dict(self._fed.get(name, {})) or {"equal to what was there, or used by nothing": times}
                )
            passes = tuple(self._passes.get(name, ()))
            found.append(Fired(name, times, self._seconds[name], passes, name in self.own, became))
        return tuple(sorted(found, key=lambda each: (not each.own, -each.times, each.rule)))


REACH = 64
"""How many operands are looked at to see what a rule took."""


def taken_operands(firing: Firing) -> tuple[Value, ...]:
    """The values below the roots of a firing, as far as they are looked at, that what it made does not use."""
    kept = below(firing.made)
    return tuple(v for v in below(firing.found) if v not in kept and v not in firing.found)


def below(values: Iterable[Value]) -> dict[Value, None]:
    """Values and what they are made of, the nearest first, up to `REACH` of them."""
    found = dict.fromkeys(values)
    pending = deque(found)
    while pending and len(found) < REACH:
        new = [v for v in pending.popleft().inputs if v is not None and v not in found]
        found.update(dict.fromkeys(new))
        pending.extend(new)
    return found


def made_by(rule: str, graph: Graph) -> dict[str, int]:
    """How many operators of each kind stand in a graph, and in the bodies in it, that a rule made and that no other has
    replaced since."""
    found: dict[str, int] = {}
    for value in values_in(graph):
        if value.inputs and value.origin.rules and value.origin.rules[-1] == rule:
            found[value.op] = found.get(value.op, 0) + 1
    return found


def values_in(graph: Graph) -> Iterator[Value]:
    """The values of a graph and of the bodies in it."""
    for value in graph.order:
        yield value
        for body in value.bodies:
            yield from values_in(body)
