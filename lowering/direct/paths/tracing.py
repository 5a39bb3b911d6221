"""A model traced with the ways of its modules at other sizes as branches, module by module."""

from __future__ import annotations

import attrs

from lowering.direct.paths.decisions import Deciding, GivenUp
from lowering.direct.request import Request
from lowering.direct.trials import Found, accepts, first_run, points_around, taken, trace_model, with_names_alike
from lowering.records.pytrees import Registrations

RUNS = 24
"""How often a model is run to find out which of its modules decide by sizes."""


def trace_ways(request: Request, known: Registrations, widen: bool = True, branching: bool = False) -> Found:
    """The model's run as `trace_model` gives it; where branches are asked for, with those of modules that decide by
    sizes, if it takes more sizes then."""
    plain = trace_model(request, known, widen, branching)
    if not branching or request.options.decides is None:
        return plain
    decided = with_deciding(plain.run.request, known)
    if not decided.deciding.modules:
        return plain
    try:
        found = trace_model(decided, known, widen, branching)
    except (Exception, GivenUp):  # what branches make of a model need not be captured
        return plain
    points = points_around(plain, plain.run.request)
    more = accepts(found, decided) and found.run.out_spec == plain.run.out_spec
    return found if more and taken(plain, points) < taken(found, points) else plain


def with_deciding(request: Request, known: Registrations) -> Request:
    """The same with the modules that decide by sizes, as runs of the model tell: the innermost first, and those that
    call them where their ways cannot be branches."""
    deciding = Deciding()
    for _ in range(RUNS):
        try:
            run = with_names_alike(first_run, attrs.evolve(request, deciding=deciding), known)
        except GivenUp as told:
            deciding = deciding.giving_up(told.module)
            continue
        except Exception:  # what branches make of a model need not be captured
            return request
        new = run.tracer.decisions.noted - deciding.modules
        if not new:
            break
        deciding = Deciding(deciding.modules | new, deciding.given_up)
    return attrs.evolve(request, deciding=deciding)
