"""What operators assert of their operands' content, and of the sizes in which constant places must lie."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from irkit.core.ir import Value
from lowering.capture.guards.answers import holds
from lowering.capture.inputs.schedules import Schedule
from lowering.direct.kernel_sizes.lookups import LOOKING, divisions_of, lookups_of
from lowering.direct.kernel_sizes.numbers import FILLING, keep_fitting
from lowering.fold.asserted_operands import ASSERTING, DIVISIONS, asserted_conditions, asserted_in_place
from lowering.records.sizes import is_unbacked
from lowering.tensors.places import PLACED, places_there

TELLING = ASSERTING.union(PLACED, LOOKING, FILLING)
"""Operators that assert something."""


def keep_asserted(
    tracer: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Value]
) -> None:
    """Keeps what an operator asserts of its operands' content."""
    name = func._schema.name
    keep_places(tracer, func, args, kwargs)
    if name in FILLING:
        keep_fitting(tracer, func, args, kwargs, results)
    if name in ASSERTING:
        made = results[0] if len(results) == 1 else tuple(results)
        tracer.scope.checks.extend(asserted_conditions(name, args, kwargs, made, tracer.line()))
    if name in LOOKING:
        if not is_of_schedule(sys._getframe(1)):
            tracer.scope.lookups.extend(lookups_of(name, (args, kwargs), results, tracer.line()))
    elif name in DIVISIONS:
        tracer.scope.lookups.extend(divisions_of(args, results, tracer.line()))


def is_of_schedule(inner: FrameType) -> bool:
    """Whether a table of rates is looked up, which irkit has put in the place of a scheduler of the model's: what is
    beyond its end no scheduler refuses."""
    frame: FrameType | None = inner
    while frame is not None and frame.f_code is not RATES:
        frame = frame.f_back
    return frame is not None


RATES = Schedule.set_rates.__code__


def keep_asserted_in_place(
    tracer: Any, functional: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: list[Value]
) -> list[Value]:
    """Keeps what an operator asserts that stands for one which writes its arguments. The results, with their origin
    where it is to be known later whether they were used."""
    keep_places(tracer, functional, args, kwargs)
    name = functional._schema.name
    if name in FILLING:
        keep_fitting(tracer, functional, args, kwargs, results)
    asserted = asserted_in_place(name, args, kwargs, results, tracer.line())
    tracer.scope.checks.extend(asserted)
    if (name not in LOOKING and name not in DIVISIONS) or not all(isinstance(each, Value) for each in results):
        return results
    new = tracer.stamped({each: each.type for each in results}, tracer.origin(functional.name()))
    results = [new[each] for each in results]
    line = tracer.line()
    found = lookups_of(name, (args, kwargs), results, line) if name in LOOKING else divisions_of(args, results, line)
    tracer.scope.lookups.extend(found)
    return results


def keep_places(tracer: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Keeps that the places of an operator are there, as far as sizes of the arguments tell; of those that are not for
    the example, torch itself tells."""
    for condition in places_there(func, args, kwargs):
        of_data = any(is_unbacked(each.name) for each in condition.free_symbols)
        there = tracer.before is not None or holds(condition, tracer.asked.hints) is not False
        if not of_data and there:
            tracer.asked.required(condition)
