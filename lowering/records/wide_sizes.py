"""Sizes that a graph computes in 64 bits and Python without an end: conditions that they do not go beyond.

`x * x.shape[0] ** 16` raises in eager for 16 rows or more, and `min(n ** 16, 5)` is 5 there; in the graph such a number
would wrap around. Most numbers made of sizes cannot become so large, for a tensor that has them would not fit into any
memory; of these nothing is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import sympy

from irkit import dims
from irkit.core import walk
from irkit.core.ir import Fact, Graph, Value
from irkit.core.types import dims_of
from irkit.core.vocabulary import SHAPE_VECTOR
from irkit.dims import Range, notation
from irkit.dims.functions import interval

MOST = (1 << 63) - 1
LONG = (1 << 31) - 1
"""No axis is taken to be longer where nothing is known of it: two of them make a number of 62 bits."""
NUMBER = 1 << 61
"""No number among the inputs is taken to be greater: two of them can be added up."""
MEMORY = 1 << 47
"""No tensor is taken to have more elements: the addresses of a process do not tell more bytes."""


def with_wide_sizes(graph: Graph, roots: Iterable[Value] = ()) -> Graph:
    """The graph with the condition, for each number that it or the roots make of sizes, that 64 bits hold it, if it
    might go beyond; the very same where none might."""
    known = {fact.text for fact in graph.signature.facts}
    order = (*graph.order, *walk.post_order(roots, stop=frozenset(graph.order).__contains__))
    found = {fact.text: fact for fact in wide_facts(graph, every_value(order)) if fact.text not in known}
    if not found:
        return graph
    signature = attrs.evolve(graph.signature, facts=(*graph.signature.facts, *found.values()))
    return attrs.evolve(graph, signature=signature)


def every_value(order: Sequence[Value]) -> list[Value]:
    """The values in order, then those of their bodies."""
    found = list(order)
    for body in walk.bodies(order):
        found += every_value(body.order)
    return found


def wide_facts(graph: Graph, values: Sequence[Value]) -> Iterator[Fact]:
    """The conditions that numbers made of sizes are below 2**63, with the lines that make them."""
    vectors = [value for value in values if value.op == SHAPE_VECTOR]
    told = [(d, v) for v in vectors for d in v.attributes[0][1] if type(d) is not int and not d.is_Symbol]
    if not told:
        return
    made = dict[Any, Value](reversed(told))
    names = {dims.label(s) for kind in walk.types(graph.params) for dim in dims_of(kind) for s in dims.symbols_of(dim)}
    ends = {name: ends_of(graph.symbols.get(name)) for name in sorted(names)}
    given = {port.binds for port in graph.signature.params if port.role == "input" and port.binds}
    ends |= {name: ends_of(graph.symbols.get(name, Range(-NUMBER, NUMBER)), NUMBER) for name in sorted(given - names)}
    limits = Limits(ends, (graph.params, tuple(values)))
    for dim, value in made.items():
        if ends.keys() >= set(map(dims.label, dims.symbols_of(dim))):
            yield from (Fact("guard", text, value.origin.source) for text in limits.wide_parts(dim))


def ends_of(known: Range | None, most: int = LONG) -> Range:
    """Between which numbers a size is taken to be, where nothing is known of it up to `most`."""
    low, high = (0, None) if known is None else (known.lo, known.hi)
    return Range(low, max(low, most) if high is None else high)


@attrs.frozen(eq=False)
class Limits:
    """How large the numbers that are made of sizes can become: `ends` are those of each size, and no tensor is larger
    than memory, of which `groups` are looked at one after the other."""

    ends: Mapping[str, Range]
    groups: Sequence[Sequence[Value]]
    _held: dict[int, list[Mapping[Any, int]]] = attrs.field(factory=dict, init=False, repr=False)
    _spans: dict[Any, tuple[float, float]] = attrs.field(factory=dict, init=False, repr=False)
    _parts: dict[Any, tuple[float, float]] = attrs.field(factory=dict, init=False, repr=False)

    def wide_parts(self, expr: Any) -> Iterator[str]:
        """The conditions that 64 bits hold the parts of an expression that might go beyond."""
        if isinstance(expr, RING):
            least, most = self.span(expr)
            if most > MOST:
                yield f"{notation.text(expr)} <= {MOST}"
            if least < -MOST:
                yield f"{notation.text(expr)} >= {-MOST}"
            if least < -MOST or most > MOST:
                return
        for part in expr.args:
            yield from self.wide_parts(part)

    def span(self, expr: Any) -> tuple[float, float]:
        """The ends between which a sum of products is: sizes behind several layers have those before them as parts."""
        found = [self.span_of_term(term) for term in sympy.Add.make_args(expr)]
        return sum(low for low, _ in found), sum(high for _, high in found)

    def span_of_term(self, term: Any) -> tuple[float, float]:
        """The same of one product; one of sizes that a tensor has is no larger than memory."""
        if term not in self._spans:
            number, rest = term.as_coeff_Mul()
            if not rest.is_number and self.is_held(factors_of(rest)):
                self._spans[term] = min(number * MEMORY, 0), max(number * MEMORY, 0)
            else:
                self._spans[term] = interval(term, self.ends, self._parts)
        return self._spans[term]

    def is_held(self, factors: Mapping[Any, int]) -> bool:
        """Whether a tensor has all of these sizes, none of which is wide itself."""
        for number in range(len(self.groups)):
            if number not in self._held:
                self._held[number] = list(self.held(self.groups[number]))
            if any(all(each.get(f, 0) >= count for f, count in factors.items()) for each in self._held[number]):
                return True
        return False

    def held(self, values: Sequence[Value]) -> Iterator[Mapping[Any, int]]:
        """The factors of each tensor's number of elements."""
        for shape in dict.fromkeys(tuple(dims_of(value.type)) for value in values):
            sizes = [size for size in shape if type(size) is not int]
            if sizes and all(interval(size, self.ends, self._parts)[1] <= MOST for size in sizes):
                yield sum((factors_of(size) for size in sizes), Counter[Any]())


RING = (sympy.Add, sympy.Mul, sympy.Pow)


def factors_of(expr: Any) -> Counter[Any]:
    """How often each factor is in a product."""
    found = Counter[Any]()
    for factor in sympy.Mul.make_args(expr):
        base, power = factor.as_base_exp()
        whole = power.is_Integer and power > 0
        found[base if whole else factor] += int(power) if whole else 1
    return found
