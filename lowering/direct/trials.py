"""Sizes 0 and 1, which models tend to ask about: whether the same graph is right for them.

Where every question that was asked has the same answer at such a size, the run would be the same. Where one differs,
the model is run once more at that size: if the graph is equal, the question did not matter, and the condition that it
left is widened; if not, or if the model raises, the size stays refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import sympy
from pyrsistent import pmap

from irkit import dims
from irkit.core.ir import Graph, Signature
from irkit.dims import Range
from irkit.errors import IrkitError
from lowering.capture.guards.guards import Guard
from lowering.capture.torch_export import STAND_INS
from lowering.direct.repeats import Unlike
from lowering.direct.request import Request
from lowering.direct.run import Run, Trial, lowered_run, run
from lowering.direct.sizes import holds
from lowering.direct.tracer import Alike
from lowering.records.pytrees import Registrations

Sizes = Mapping[str, int]


@attrs.frozen(eq=False)
class Found:
    """A run, with the conditions and ranges under which its graph is right."""

    run: Run
    guards: tuple[Guard, ...]
    ranges: Mapping[str, Range]


def traced(request: Request, known: Registrations, widen: bool = True) -> Found:
    """The model's run at the sizes of the example, or at larger ones in place of 0 and 1, with its conditions."""
    found = opened(first_run, request, known, widen)
    if accepts(found, request):
        return found
    return opened(run_at_example, request, known, widen)  # other sizes than the example's own took another way


def opened(way: Callable[..., Run], request: Request, known: Registrations, widen: bool) -> Found:
    """A run with its conditions, opened to sizes 0 and 1 where the same graph is right for them."""
    first = with_names_alike(way, request, known)
    request = first.request
    found = Found(first, first.guards, dict(request.ranges))
    if not widen:
        return found
    low = lowered_run(first, first.guards, request.ranges)
    graph, outputs = bare(low.watched.whole), low.outputs
    sizes = first.tracer.asked.hints
    ones: list[str] = []
    for name in request.hints:
        for size in (1, 0):
            if size in request.ranges[name] and sizes[name] != size:
                found, same = tried(found, known, graph, outputs, {name: size})
                ones += [name] if same and size == 1 else []
    if len(ones) > 1:
        found, _ = tried(found, known, graph, outputs, dict.fromkeys(ones, 1))
    return found


def with_names_alike(way: Callable[..., Run], request: Request, known: Registrations) -> Run:
    """A run; names that it needs to be one are made one."""
    for _ in request.hints:
        try:
            return way(request, known)
        except Alike as told:
            request = request.with_equal(told.swaps)
    return way(request, known)


def accepts(found: Found, request: Request) -> bool:
    """Whether the conditions allow the example itself."""
    sizes = {**found.run.tracer.asked.hints, **request.hints}
    inside = all(size in found.ranges[n] for n, size in request.hints.items() if n in found.ranges)
    return inside and all(
        holds(guard.expr, sizes) is not False for guard in found.guards if is_of_sizes(guard, request)
    )


def is_of_sizes(guard: Guard, request: Request) -> bool:
    """Whether a condition hangs on named sizes alone."""
    return all(s.name in request.hints for s in getattr(guard.expr, "free_symbols", ()))


def run_at_example(request: Request, known: Registrations) -> Run:
    """The run at the very sizes of the example."""
    return run(request, request.hints, known, at_once=True)


def first_run(request: Request, known: Registrations) -> Run:
    """The run at larger sizes than 0 and 1 where that can be, with sizes kept that the model makes numbers of."""
    free = [n for n in STAND_INS if n not in request.hints.values()]
    small = [name for name, size in request.hints.items() if size < 2]
    larger = {name: min(n, top_of(request.ranges[name])) for name, n in zip(small, free, strict=False)}
    sizes = {**request.hints, **larger}
    try:
        found = run(request, sizes, known)
    except Alike:
        raise
    except Exception:
        if not larger:
            raise
        sizes = request.hints
        found = run(request, sizes, known, at_once=True)
    if not found.tracer.asked.fixed:
        return found
    try:
        other = run(request, sizes, known, keep_sizes=True)
    except Exception:
        return found
    return other if len(other.tracer.asked.fixed) < len(found.tracer.asked.fixed) else found


def top_of(known: Range) -> int:
    """The greatest size that is allowed."""
    return 1 << 30 if known.hi is None else known.hi


def tried(found: Found, known: Registrations, graph: Graph, outputs: Sequence[Any], point: Sizes) -> tuple[Found, bool]:
    """(the same, widened where the graph is right at a point too; whether it was)."""
    sizes = {**found.run.tracer.asked.hints, **point}
    names = set(point)
    against = [guard for guard in found.guards if about(guard, names) and holds(guard.expr, sizes) is False]
    zero = 0 in point.values()
    if not against and not (zero and found.run.tracer.unproven):
        return found, False  # the same run, and each operator was found to take such sizes
    request = found.run.request
    asked = found.run.tracer.asked
    if any(guard.expr in asked.refused for guard in against):
        return found, False  # torch refuses an operator of this graph there
    alone = all(s.name in names for guard in against for s in guard.expr.free_symbols)
    apart = point if alone else None
    try:
        there = {name: sizes[name] for name in request.hints}
        other = run(
            request, there, known, keep_sizes=asked.keeps, at_once=not asked.passed_on, trial=Trial(found.run, apart)
        )
        low = lowered_run(other, other.guards, request.ranges)
        again = bare(low.watched.whole)
        same = (again.token == graph.token or again == graph) and low.outputs == outputs  # weights are read last
        same = same and other.out_spec == found.run.out_spec
    except Unlike:
        return (found if against else refused(found, point, None)), False
    except Exception as error:
        return refused(found, point, error), False
    if not same:
        return (refused(found, point, None) if not against else found), False
    here = being_at(point)
    kept = [widened(guard, here) if guard in against else guard for guard in found.guards]
    told = {guard.text for guard in found.guards}
    kept += [
        guard if guard.expr is None else widened(guard, sympy.Not(here))
        for guard in other.guards
        if guard.text not in told and holds(guard.expr, point) is not True
    ]
    return attrs.evolve(found, guards=tuple(g for g in kept if g.expr not in (sympy.true, True))), True


def refused(found: Found, point: Sizes, error: Exception | None) -> Found:
    """The same with a point left out of the contract: the model raises there, or is another graph."""
    here = being_at(point)
    if any(holds(guard.expr, {**found.run.tracer.asked.hints, **point}) is False for guard in found.guards):
        return found
    source = getattr(error, "source", "") if isinstance(error, IrkitError) else ""
    if len(point) == 1:
        ((name, size),) = point.items()
        if size == found.ranges[name].lo:
            ranges = {**found.ranges, name: Range(size + 1, found.ranges[name].hi)}
            return attrs.evolve(found, ranges=ranges)
    guard = Guard(sympy.Not(here), str(sympy.Not(here)), source)
    return attrs.evolve(found, guards=(*found.guards, guard))


def being_at(point: Sizes) -> Any:
    """The condition that sizes are those of a point."""
    relations: list[Any] = [sympy.Eq(dims.symbol(name), size) for name, size in point.items()]
    return sympy.And(*relations)


def widened(guard: Guard, or_else: Any) -> Guard:
    """A condition that need not hold where another does."""
    expr = simplified(sympy.Or(guard.expr, or_else))
    return attrs.evolve(guard, expr=expr, text=str(expr))


def simplified(expr: Any) -> Any:
    """The alternatives `n > 1` or `n == 1` and their like as one comparison of non-negative n."""
    if not isinstance(expr, sympy.Or) or len(expr.args) != 2:
        return expr
    parts: Sequence[Any] = expr.args
    equal = next((p for p in parts if isinstance(p, sympy.Eq)), None)
    other = next((p for p in parts if p is not equal), None)
    if equal is None or not isinstance(other, sympy.core.relational.Relational):
        return expr
    sides: Any = equal.args
    symbol, number = sides
    if not symbol.is_Symbol or other.free_symbols != {symbol} or not number.is_Integer:
        return expr
    if isinstance(other, sympy.Ne) and other.args == equal.args:
        return sympy.true
    if isinstance(other, sympy.Gt) and other.args == (symbol, number):
        return sympy.true if number == 0 else sympy.Ge(symbol, number)
    if isinstance(other, sympy.Ge) and other.args == (symbol, number + 1):
        return sympy.true if number == 0 else sympy.Ge(symbol, number)
    return expr


def about(guard: Guard, names: set[str]) -> bool:
    """Whether a condition hangs on one of the names."""
    return any(s.name in names for s in getattr(guard.expr, "free_symbols", ()))


def bare(graph: Graph) -> Graph:
    """A graph without what is said of it, so that only what it computes is compared."""
    return attrs.evolve(graph, symbols=pmap({}), signature=Signature())
