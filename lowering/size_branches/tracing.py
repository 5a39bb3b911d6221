"""A model traced with the ways of its modules at other sizes as branches, module by module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import sympy

from irkit import dims
from lowering.capture.guards.at_points import guards_refusing
from lowering.capture.guards.comparisons import in_fewest_words
from lowering.capture.guards.guards import Guard
from lowering.direct.points import none_takes, points_apart, points_around
from lowering.direct.request import Deciding, Request
from lowering.direct.run import Run, Trial, run
from lowering.direct.trials import (
    Found,
    accepts,
    opened_run,
    points_taken,
    said_of,
    trace_model,
    with_other_ways,
)
from lowering.records.pytrees import Registrations
from lowering.size_branches.decisions import Fruitless, GivenUp
from lowering.size_branches.regions import branch_at_decisions

FEW = 4
FEW_POINTS = 3
"""At how many sizes it is looked first whether a model raises there."""
RUNS = 24
"""How often a model is run to find out which of its modules decide by sizes."""


def trace_ways(request: Request, known: Registrations, widen: bool = True, branching: bool = False) -> Found:
    """The model's run as `trace_model` gives it; where branches are asked for, with those of modules that decide by
    sizes, if it takes more sizes then, and of the model as a whole."""
    if not branching:
        return trace_model(request, known, widen)
    found = trace_model(attrs.evolve(request, around=branch_at_decisions), known, widen, True)
    return said_shortly(with_other_ways(with_branches(found, known, widen), known))


def said_shortly(found: Found) -> Found:
    """The same with each condition of one size in as few words as say it, and once: ways are joined by "or"."""
    sizes = {dims.symbol(name) for name, known in found.ranges.items() if known.lo >= 0}
    wordy = [g for g in found.guards if isinstance(g.expr, sympy.Or) and g.expr.free_symbols <= sizes]
    shortened = [shortened_guard(guard) for guard in wordy]
    if shortened == wordy:
        return found
    others = [guard for guard in found.guards if guard not in wordy]
    told = {guard.expr for guard in others}
    new = {guard.expr: guard for guard in shortened if guard.expr != sympy.true and guard.expr not in told}
    return attrs.evolve(found, guards=(*others, *new.values()))


def shortened_guard(guard: Guard) -> Guard:
    """A condition in as few words as say it."""
    expr = in_fewest_words(guard.expr)
    return guard if expr == guard.expr else attrs.evolve(guard, expr=expr, text=str(expr))


def with_branches(found: Found, known: Registrations, widen: bool) -> Found:
    """The same, or the run in which the ways of modules that decide by sizes are branches, if that takes more sizes."""
    asked, hints = found.run.tracer.asked, found.run.request.hints
    here = {**asked.hints, **hints}
    points = [*points_around(here, hints), *points_apart(here, hints)]
    taken = points_taken(found, points)
    more = [each for i, each in enumerate(points) if i not in taken and may_be_taken(found, each)]
    if not more:
        return found
    found = with_raised(found, known, more)
    if not any(may_be_taken(found, each) for each in more):
        return found  # it could take no more of them
    sizes = {name: asked.hints[name] for name in hints}

    def way(request: Request, known: Registrations) -> Run:
        how: dict[str, Any] = {"at_once": asked.at_once, "for_tracer": asked.for_tracer, "after": found.run}
        return run(request, sizes, known, keep_sizes=asked.keeps, **how)

    request, ran = with_deciding(found, known, way)
    if ran is None or ran.tracer.decisions is None or not ran.tracer.decisions.joined:
        return found

    def again(given: Request, known: Registrations) -> Run:
        return ran if given is request else way(given, known)

    try:
        other = opened_run(again, request, known, widen, True)
    except (Exception, GivenUp, Fruitless):  # what branches make of a model need not be captured
        return found
    same = accepts(other, request) and other.run.out_spec == found.run.out_spec
    if not same or len(taken) >= len(points_taken(other, points)):
        return found
    names = [path or "the model" for path, each in request.parts.modules if id(each) in request.deciding.modules]
    said = f"each way that {', '.join(names[:FEW])}{' and others' if len(names) > FEW else ''} may take by sizes is "
    return attrs.evolve(other, notes=(*other.notes, f"{said}a branch of its own"))


def with_raised(found: Found, known: Registrations, points: Sequence[Mapping[str, int]]) -> Found:
    """The same, told at which of some refused sizes the model raises, where these are few: plain runs of it tell that,
    sooner than one for the ways of its modules, and are made anyway. The first that does not raise is the last."""
    hints, asked = found.run.request.hints, found.run.tracer.asked
    refusing = [guards_refusing(found.guards, point) for point in points]
    about = [{s.name for each in against for s in each.expr.free_symbols} for against in refusing]
    alike: dict[Any, list[Mapping[str, int]]] = {}
    for point, names in zip(points, about, strict=True):
        there = {name: point[name] for name in hints}
        alike.setdefault(tuple((name, point[name]) for name in sorted(names)), []).append(there)
    if len(alike) > FEW_POINTS:
        return found
    how: dict[str, Any] = {"at_once": not asked.passed_on, "for_tracer": asked.for_tracer, "keep_sizes": asked.keeps}
    raised: list[Mapping[str, int]] = []
    for first, *others in alike.values():
        try:
            run(found.run.request, first, known, trial=Trial(found.run, {}, False), **how)
            break
        except Exception as error:  # models raise anything
            found = found.noting(first, f"is refused: {said_of(error)}")
            raised += [first, *others]
    return attrs.evolve(found, raised=(*found.raised, *raised))


def may_be_taken(found: Found, point: Mapping[str, int]) -> bool:
    """Whether sizes are within the ranges that were asked for, and neither the model nor an operator of it is known to
    refuse them."""
    ranges, asked = found.run.request.ranges, found.run.tracer.asked
    if not all(size in ranges[name] for name, size in point.items() if name in ranges):
        return False
    against = [guard.expr for guard in guards_refusing(found.guards, point)]
    there = {name: point[name] for name in found.run.request.hints}
    return not found.raises_at(point) and not none_takes(asked, there, against)


def with_deciding(
    found: Found, known: Registrations, way: Callable[[Request, Registrations], Run]
) -> tuple[Request, Run | None]:
    """What was traced, with the modules that decide by sizes, as runs of the model tell: the innermost first, and those
    that call them where their ways cannot be branches; and its run, None where no module decides, or none can."""
    request = found.run.request
    calls = {} if found.run.tracer.decisions is None else found.run.tracer.decisions.calls
    deciding, new = Deciding(calls=calls), modules_noted(found.run, Deciding())
    last: tuple[Request, Run | None] = (request, None)
    for _ in range(RUNS if new else 0):
        deciding = Deciding(deciding.modules | new, deciding.given_up, calls)
        tried = attrs.evolve(request, deciding=deciding)
        try:
            other = way(tried, known)
        except GivenUp as told:
            deciding, new = deciding.giving_up(told.module), frozenset()
            continue
        except (Exception, Fruitless):  # what branches make of a model need not be captured
            break
        new, last = modules_noted(other, deciding), (tried, other)
        if not new:
            break
    return last


def modules_noted(found: Run, deciding: Deciding) -> frozenset[int]:
    """The modules that are found to decide by sizes in a run, and were not before, with all others of their classes."""
    decisions = found.tracer.decisions
    if decisions is None:
        return frozenset()
    noted = {id(each) for _, each in found.request.parts.modules if type(each) in decisions.noted}
    return frozenset(noted - deciding.modules - deciding.given_up)
