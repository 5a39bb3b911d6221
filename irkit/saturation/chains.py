"""Why two values of an e-graph are equal: a chain of applications of rules that leads from the one to the other.

An e-graph notes why it joined: the rule, and what it made of what; or that two operators are one because their operands
are. A chain is found among these notes, and what is about operands is written out as applications within them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

import attrs

from irkit.core.ir import Value
from irkit.core.vocabulary import CONSTANT
from irkit.errors import RewriteError
from irkit.rewriting.rules import Rule
from irkit.saturation.egraph import EGraph, Link
from irkit.saturation.instances import over

REORDERED = 0.001
"""What operands in another order count, where a rule counts 1: it decides between chains of as many rules."""


@attrs.frozen
class Rewritten:
    """One step of a chain: `rule` turns `part`, which stands in `before`, into `made`, which stands in its place in
    `after`; or backward, where `forward` is false, `made` into `part`. Without a rule, operands change places where
    that changes no bit."""

    before: Value
    after: Value
    part: Value
    made: Value
    rule: Rule | None
    forward: bool


class Chains:
    """The chains of one e-graph, which does not change meanwhile."""

    def __init__(self, graph: EGraph) -> None:
        self.links: tuple[Link, ...] = tuple(graph.links)
        self._near: dict[Value, list[int]] = {}
        self._costs: dict[int, float] = {}
        for number, link in enumerate(self.links):
            for end in (link.first, link.second):
                self._near.setdefault(end, []).append(number)

    def chain(self, first: Value, second: Value) -> tuple[Rewritten, ...]:
        """The steps from one value to another. They are as few as what was noted gives, where a step within an operand
        counts as often as the operand is rewritten. Raises RewriteError for values that are not in one class."""
        return tuple(self._steps(first, second, len(self.links)))

    def _steps(self, first: Value, second: Value, limit: int) -> Iterator[Rewritten]:
        at = first
        for number, following in self._path(first, second, limit)[1]:
            link = self.links[number]
            if link.rule is not None:
                yield Rewritten(at, following, at, following, link.rule, at is link.first)
            else:
                yield from self._within(at, following, number)
            at = following

    def _within(self, first: Value, second: Value, limit: int) -> Iterator[Rewritten]:
        """The steps within the operands of two values whose operators are one."""
        order, now = self._order(first, second, limit), first
        for mine, other in pairs(first, second, order):
            places = [i for i, v in enumerate(first.inputs) if v is mine and second.inputs[order[i]] is other]
            for step in self._steps(mine, other, limit):
                inputs = tuple(step.after if i in places else v for i, v in enumerate(now.inputs))
                made = over(now, inputs)
                yield attrs.evolve(step, before=now, after=made)
                now = made
        if order != tuple(range(len(order))):
            yield Rewritten(now, second, now, second, None, True)

    def _order(self, first: Value, second: Value, limit: int) -> tuple[int, ...]:
        """Which operand of the second value each operand of the first one equals."""
        plain = tuple(range(len(first.inputs)))
        if all(self._reaches(a, b, limit) for a, b in zip(first.inputs, second.inputs, strict=True)):
            return plain
        left, found = list(plain), list[int]()
        for mine in first.inputs:
            number = next(i for i in left if self._reaches(mine, second.inputs[i], limit))
            left.remove(number)
            found.append(number)
        return tuple(found)

    def _reaches(self, first: Value | None, second: Value | None, limit: int) -> bool:
        if first is second or first is None or second is None:
            return first is second
        seen, stack = {first}, [first]
        while stack:
            for number in self._near.get(stack.pop(), ()):
                if number < limit:
                    link = self.links[number]
                    stack += [end for end in (link.first, link.second) if end not in seen]
                    seen.update((link.first, link.second))
        return second in seen

    def _path(self, first: Value, second: Value, limit: int) -> tuple[float, list[tuple[int, Value]]]:
        """What the cheapest path among links before a limit costs, and its links with the value after each."""
        best: dict[Value, float] = {first: 0.0}
        came: dict[Value, tuple[int, Value]] = {}
        queue: list[tuple[float, int, Value]] = [(0.0, 0, first)]
        done, pushed = set[Value](), 0
        while queue:
            cost, _, at = heappop(queue)
            if at is second:
                break
            if at in done:
                continue
            done.add(at)
            for number in self._near.get(at, ()):
                if number >= limit:
                    break
                link = self.links[number]
                other = link.second if at is link.first else link.first
                total = cost + self._cost(number)
                if total < best.get(other, float("inf")):
                    best[other], came[other], pushed = total, (number, at), pushed + 1
                    heappush(queue, (total, pushed, other))
        if second not in best:
            raise RewriteError(
                f"no rule leads from {first!r} to {second!r}", hint="ask about values that are in one class"
            )
        path: list[tuple[int, Value]] = []
        at = second
        while at is not first:
            number, before = came[at]
            path.append((number, at))
            at = before
        return best[second], path[::-1]

    def _cost(self, number: int) -> float:
        """How many applications of rules a link stands for."""
        link = self.links[number]
        if link.rule is not None:
            return 1.0
        if number not in self._costs:
            order = self._order(link.first, link.second, number)
            inner = (self._path(a, b, number)[0] for a, b in pairs(link.first, link.second, order))
            self._costs[number] = sum(inner) + (0 if order == tuple(range(len(order))) else REORDERED)
        return self._costs[number]


def pairs(first: Value, second: Value, order: Iterable[int]) -> list[tuple[Value, Value]]:
    """The operands of two values that correspond and are two, each pair once."""
    found: dict[tuple[Value, Value], None] = {}
    for mine, number in zip(first.inputs, order, strict=True):
        other = second.inputs[number]
        if mine is not None and other is not None and mine is not other:
            found[mine, other] = None
    return list(found)


def expression(value: Value, names: dict[Value, str], depth: int = 4) -> str:
    """A value as an expression over names, of so many operators one within the other; what is deeper is `…`."""
    if value in names:
        return names[value]
    if value.op == CONSTANT:
        number = value.blob.uniform if value.blob is not None and value.blob.size == 1 else None
        return f"a {value.type!r}" if number is None else f"{number!r}"
    if not depth:
        return "…"
    inner = ", ".join("_" if v is None else expression(v, names, depth - 1) for v in value.inputs)
    given = "".join(f", {name}={attribute!r}" for name, attribute in value.attributes)
    return f"{value.op}({inner}{given})"
