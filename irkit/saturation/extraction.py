"""The cheapest graph in an e-graph: a node for each class that is needed, what is shared counted once.

First greedily, from the leaves up, with the set of all that a class needs; then with what several values could share
given for nothing, one class at a time, which is how products of one operand are put together; then by exchanging single
nodes. Where the choices are few, all of them are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs

from irkit.core.ir import Graph, Value
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.errors import RewriteError
from irkit.saturation.egraph import EGraph, Node
from irkit.saturation.instances import over

LEAST = 1e-6
"""What every operator costs at least, so that fewer of them are better."""

STEPS = 20_000
"""How many choices are looked at, where all are."""

TRIALS = 200
"""How many classes are given for nothing, one after the other."""

Choice = dict[int, Node]
"""A node for each class that is needed."""


@attrs.define(eq=False)
class Extraction:
    """Finds cheap choices of nodes for given classes."""

    graph: EGraph
    price: Callable[[Value], float]
    roots: tuple[int, ...]
    costs: dict[int, float] = attrs.field(factory=dict[int, float])
    steps: int = 0

    def cost(self, node: Node) -> float:
        """What a node costs by itself; nothing where it can be computed beforehand."""
        known = self.costs.get(node.number)
        if known is None:
            free = node.value.op in (PARAM, CONSTANT) or self.graph.classes[self.graph.home(node)].is_constant
            known = self.costs[node.number] = 0.0 if free else max(LEAST, self.price(node.value))
        return known

    def needed(self, number: int, node: Node) -> tuple[int, ...]:
        """The classes that a node needs; none where it can be computed beforehand."""
        if self.graph.classes[number].is_constant:
            return ()
        return tuple(dict.fromkeys(c for c in self.graph.children(node) if c is not None))

    def greedy(self, given: Choice | None = None) -> Choice:
        """For each class the node with the cheapest set of all that it needs; those `given`, with all that they need,
        cost nothing."""
        best: dict[int, tuple[float, Node, dict[int, float]]] = {}
        best.update({number: (LEAST, node, {number: LEAST}) for number, node in (given or {}).items()})
        changed = True
        while changed:
            changed = False
            for number, each in self.graph.classes.items():
                if given and number in given:
                    continue
                for node in each.nodes[:1] if each.is_constant else each.nodes:
                    needs = self.needed(number, node)
                    if any(n not in best for n in needs):
                        continue
                    parts: dict[int, float] = {}
                    for n in needs:
                        parts.update(best[n][2])
                    if number in parts:
                        continue
                    parts[number] = self.cost(node)
                    total = sum(parts.values())
                    if number not in best or total < best[number][0] - 1e-9:
                        best[number] = total, node, parts
                        changed = True
        return {number: node for number, (_, node, _) in best.items()}

    def reached(self, choice: Mapping[int, Node]) -> list[int] | None:
        """The classes that the roots need, operands first; None where the choice runs in a circle."""
        state: dict[int, bool] = {}
        order: list[int] = []
        stack = [(root, False) for root in self.roots]
        while stack:
            number, done = stack.pop()
            if done:
                state[number] = True
                order.append(number)
            elif number not in state:
                if number not in choice:
                    return None
                state[number] = False
                stack.append((number, True))
                for n in self.needed(number, choice[number]):
                    if state.get(n) is False:
                        return None
                    if n not in state:
                        stack.append((n, False))
        return order

    def total(self, choice: Mapping[int, Node]) -> float:
        """What all that the roots need costs; infinity where the choice runs in a circle."""
        order = self.reached(choice)
        return float("inf") if order is None else sum(self.cost(choice[number]) for number in order)

    def best(self, start: Choice | None = None) -> Choice:
        """The cheapest choice that was found; `start` where none is cheaper."""
        plain = self.greedy()
        found = min((c for c in (start, plain) if c is not None), key=self.total)
        found = self.climbed({**plain, **found})
        for number in self.sharable(found):
            tried = self.climbed({**plain, **self.greedy({number: plain[number]})})
            if self.total(tried) < self.total(found) - 1e-9:
                found = tried
        return self.exact(found)

    def sharable(self, choice: Choice) -> Iterable[int]:
        """Classes that are not needed, and that nodes of several needed classes could share, directly or by an item."""
        order = set(self.reached(choice) or ())
        users: dict[int, set[int]] = {}
        for number, node in self.graph.nodes():
            for n in self.needed(number, node):
                users.setdefault(n, set()).add(number)
        found = [n for n in self.graph.classes if n not in order and len(self.wanted(n, users) & order) > 1]
        return found[:TRIALS]

    def wanted(self, number: int, users: Mapping[int, set[int]], depth: int = 3) -> set[int]:
        """The classes that use a class, at most so many nodes above it."""
        above = users.get(number, set())
        return above if depth == 1 else above.union(*(self.wanted(n, users, depth - 1) for n in above))

    def climbed(self, choice: Choice) -> Choice:
        """The choice with single nodes exchanged, as long as that makes it cheaper."""
        total = self.total(choice)
        again = True
        while again:
            again = False
            for number in self.reached(choice) or ():
                for node in self.graph.classes[number].nodes:
                    if node is choice[number]:
                        continue
                    tried = {**choice, number: node}
                    cost = self.total(tried)
                    if cost < total - 1e-9:
                        choice, total, again = tried, cost, True
        return choice

    # ------------------------------------------------------------------------------------------ few choices

    def exact(self, start: Choice) -> Choice:
        """The cheapest choice of all, where they are few enough to be looked at; else the cheapest that was found."""
        best = [self.total(start), start]
        self.steps = 0

        def search(chosen: Choice, pending: tuple[int, ...], cost: float) -> None:
            self.steps += 1
            if cost >= best[0] - 1e-9 or self.steps > STEPS:  # type: ignore[operator]
                return
            if not pending:
                if self.reached(chosen) is not None:
                    best[:] = [cost, dict(chosen)]
                return
            number, *rest = pending
            each = self.graph.classes[number]
            nodes = each.nodes[:1] if each.is_constant else sorted(each.nodes, key=self.cost)
            for node in nodes:
                more = [n for n in self.needed(number, node) if n not in chosen and n not in rest and n != number]
                if number in self.needed(number, node):
                    continue
                chosen[number] = node
                search(chosen, (*more, *rest), cost + self.cost(node))
                del chosen[number]

        search({}, tuple(dict.fromkeys(self.roots)), 0.0)
        return best[1]  # type: ignore[return-value]


def graph_of(found: Extraction, choice: Choice, like: Graph) -> Graph:
    """The graph that a choice of nodes says, with the parameters and names of `like`."""
    built: dict[int, Value] = {}
    whole: Choice = dict(choice)
    for number in constants_below(found.graph, choice):
        whole.setdefault(number, found.graph.classes[number].nodes[0])
    for number in found.roots:
        build(found.graph, whole, number, built)
    return like.with_results(built[number] for number in found.roots)


def constants_below(graph: EGraph, choice: Choice) -> list[int]:
    """The classes that can be computed beforehand."""
    return [number for number, each in graph.classes.items() if each.is_constant]


def build(graph: EGraph, choice: Choice, root: int, built: dict[int, Value]) -> None:
    """Adds to `built` the value of a class, and those that it needs."""
    stack = [root]
    while stack:
        number = stack[-1]
        if number in built:
            stack.pop()
            continue
        node = choice[number]
        children = graph.children(node)
        pending = [c for c in children if c is not None and c not in built]
        if not pending:
            stack.pop()
            built[number] = over(node.value, tuple(None if c is None else built[c] for c in children))
        elif len(stack) > len(choice) + 1:
            raise RewriteError(
                "the choice of nodes runs in a circle", hint="this is a fault of irkit's extraction: please report it"
            )
        else:
            stack.extend(pending)
