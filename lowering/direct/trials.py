"""Sizes 0 and 1, which models tend to ask about: whether the same graph is right for them.

Where all that was asked has the same answer at such a size, the run would be the same. Where one differs, the model is
run once more there: if the graph is equal, the question did not matter, and the condition that it left is widened; if
not, or if the model raises, the size stays refused.

Where branches are asked for, sizes around the example that conditions refuse are run, too: what the model does there is
a branch, taken where the conditions of that run hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import attrs
import sympy

from irkit import dims
from irkit.core.ir import Graph, Value
from irkit.dims import Range
from irkit.errors import IrkitError
from lowering.capture.guards.answers import holds, is_of_integers
from lowering.capture.guards.at_points import (
    about,
    being_at,
    counts,
    guard_widened,
    guards_refusing,
    is_either,
    is_equation,
    is_fixing,
    is_required,
    only_at,
    texts,
)
from lowering.capture.guards.comparisons import as_said
from lowering.capture.guards.guards import Guard
from lowering.capture.guards.questions import Chosen, Taken
from lowering.capture.guards.settled import settled_at
from lowering.capture.patches.arrays_of_sizes import OF_NUMPY
from lowering.capture.same_numbers import bare, same_numbers
from lowering.capture.torch_export import STAND_INS
from lowering.capture.widen import needless
from lowering.direct.points import none_takes, points_apart, points_around
from lowering.direct.repeats import equal_at, unlike_at
from lowering.direct.request import Deciding, Kept, Request
from lowering.direct.run import Run, Trial, lowered_run, refuse_unsaid, run
from lowering.direct.tensors import Traced
from lowering.direct.tracer import Alike
from lowering.fold.assertions import Watched
from lowering.fold.lower import Lowered
from lowering.fold.size_branches import Way, can_branch, divisors_of, gives_alike, relation_value, way_where
from lowering.records.programs import first_line
from lowering.records.pytrees import Registrations

Sizes = Mapping[str, int]
MORE, MOST = 3, 4
"""How often a model is run once more for several small sizes at once, and of how many names these are."""


@attrs.frozen(eq=False)
class Found:
    """A run, with the conditions and ranges under which its graph is right, and notes on sizes that were tried; where
    `branching`, with the ways that the model takes at small sizes where it computes something else. At the points in
    `raised` the model itself raises."""

    run: Run
    guards: tuple[Guard, ...]
    ranges: Mapping[str, Range]
    notes: tuple[str, ...] = ()
    branching: bool = False
    ways: tuple[Way, ...] = ()
    raised: tuple[Sizes, ...] = ()

    def raises_at(self, point: Sizes) -> bool:
        """Whether the model raises at a point: it was found to, or comes to an operator that torch refuses there before
        it asks anything else that is other there."""
        first, asked = next(iter(guards_refusing(self.guards, point)), None), self.run.tracer.asked
        refused = first is not None and (first.expr in asked.refused or is_required(first, asked, point))
        return refused or {name: point[name] for name in self.run.request.hints} in self.raised

    def noting(self, point: Sizes, what: str) -> Found:
        """The same with a note on a point."""
        at = " and ".join(f"{name} = {size}" for name, size in point.items())
        return attrs.evolve(self, notes=(*self.notes, f"{at} {what}"))


def trace_model(request: Request, known: Registrations, widen: bool = True, branching: bool = False) -> Found:
    """The model's run at the sizes of the example, or at larger ones in place of 0 and 1, with its conditions; with
    branches for small sizes where the model computes something else, if that is asked."""
    how = (widen, branching)
    found = opened_run(first_run, request, known, *how)
    if accepts(found, request):
        return more_general(found, request, known, *how)
    at_example = partial(run_at_example, after=found.run)
    return opened_run(at_example, request, known, *how)  # other sizes than the example's own took another way


def more_general(found: Found, request: Request, known: Registrations, widen: bool, branching: bool) -> Found:
    """The same; or the run by the ways that the model has for TorchScript's tracer, where these take more sizes and the
    results agree: models ask `torch.jit.is_tracing()` where a size decides otherwise."""
    if not found.run.tracer.asked.asked_for_tracer:
        return found
    request = found.run.request  # with the names as one that are
    points = points_around({**found.run.tracer.asked.hints, **request.hints}, request.hints)
    if not any(is_refused_by_asker(found, point) for point in points if not found.raises_at(point)):
        return found
    ours = points_taken(found, points)
    try:
        other = opened_run(partial(first_run, for_tracer=True, after=found.run), request, known, widen, branching)
    except Exception:  # what sizes are to that tracer, tensors, they are not here
        return found
    if not accepts(other, request) or other.run.out_spec != found.run.out_spec:
        return found
    if not ours < points_taken(other, points_around({**other.run.tracer.asked.hints, **request.hints}, request.hints)):
        return found
    low = lowered_run(other.run, other.guards, other.run.request.ranges)
    moved = (sizes for sizes in sizes_beside(found, other.run, {}) if allows(found, sizes))
    if not agreement(low, found.run, {}, moved):  # whatever the first checks of data must be checked by the other
        return attrs.evolve(found, notes=(*found.notes, "the model computes something else for torch.jit.trace"))
    return attrs.evolve(other, notes=(*other.notes, "the model took the ways that it has for torch.jit.trace"))


def is_refused_by_asker(found: Found, point: Sizes) -> bool:
    """Whether sizes are refused by conditions of files alone in which the model asked for TorchScript's tracer."""
    askers = found.run.tracer.asked.asked_for_tracer
    files = [guard.source.partition(":")[0] for guard in guards_refusing(found.guards, point)]
    return bool(files) and inside(found, point) and all(any(asker.endswith(f) for asker in askers) for f in files)


def points_taken(found: Found, points: Sequence[Sizes]) -> frozenset[int]:
    """Which of some sizes a run takes, by their number."""
    return frozenset(i for i, point in enumerate(points) if inside(found, point) and allows(found, point))


def inside(found: Found, sizes: Sizes) -> bool:
    """Whether sizes are within the ranges."""
    return all(size in found.ranges[name] for name, size in sizes.items() if name in found.ranges)


def opened_run(
    way: Callable[..., Run], request: Request, known: Registrations, widen: bool, branching: bool = False
) -> Found:
    """A run with its conditions, opened to sizes 0 and 1 where the same graph is right for them, or has a branch."""
    first = with_names_alike(way, request, known)
    request = first.request
    found = Found(first, first.guards, dict(request.ranges), branching=branching)
    if not widen:
        return found
    lowered = cache(partial(lowered_run, first, first.guards, request.ranges))
    sizes = first.tracer.asked.hints
    ones: list[str] = []
    for name in request.hints:
        for size in (1, 0):
            if size in request.ranges[name] and sizes[name] != size:
                found, same = tried(found, known, lowered, {name: size})
                ones += [name] if same and size == 1 else []
    looked_at: list[Sizes] = []
    if len(ones) > 1:
        looked_at.append(dict.fromkeys(ones, 1))
        found, _ = tried(found, known, lowered, looked_at[0])
    for _ in range(MORE):
        point = next((each for each in refused_together(found) if each not in looked_at), None)
        if point is None:
            break
        looked_at.append(point)
        found, _ = tried(found, known, lowered, point)
    return found


def refused_together(found: Found) -> Iterator[Sizes]:
    """Small sizes of several names that a condition refuses, each allowed by itself; fewest names and zeros first."""
    hints = found.run.tracer.asked.hints
    names = [n for n in found.run.request.hints if any(size in found.ranges[n] for size in (0, 1))][:MOST]
    ones = [[n for n in (0, 1) if n in found.ranges[name] and allows(found, {**hints, name: n})] for name in names]
    each = itertools.product(*((*sizes, None) for sizes in ones))
    for sizes in sorted(each, key=lambda sizes: (-sizes.count(None), sizes.count(0))):
        point = {n: size for n, size in zip(names, sizes, strict=True) if size is not None}
        if len(point) > 1 and not allows(found, {**hints, **point}):
            yield point


def allows(found: Found, sizes: Sizes) -> bool:
    """Whether no condition refuses these sizes."""
    return all(guard.is_of_data or holds(guard.expr, sizes) is not False for guard in found.guards)


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
    return inside(found, request.hints) and all(
        holds(guard.expr, sizes) is not False for guard in found.guards if is_of_sizes(guard, request)
    )


def is_of_sizes(guard: Guard, request: Request) -> bool:
    """Whether a condition hangs on named sizes alone."""
    return all(s.name in request.hints for s in getattr(guard.expr, "free_symbols", ()))


def run_at_example(request: Request, known: Registrations, after: Run) -> Run:
    """The run at the very sizes of the example."""
    return run(request, request.hints, known, at_once=True, after=after)


def first_run(request: Request, known: Registrations, for_tracer: bool = False, after: Run | None = None) -> Run:
    """The run at larger sizes than 0 and 1 where that can be, with sizes kept that the model makes numbers of. Raises
    Taken where it makes one of a name that was to vary also where they are kept."""
    free = [n for n in STAND_INS if n not in request.hints.values()]
    small = [name for name, size in request.hints.items() if size < 2]
    larger = {name: min(n, top_of(request.ranges[name])) for name, n in zip(small, free, strict=False)}
    sizes = {**request.hints, **larger}
    names = () if for_tracer or request.lists_all else set(request.hints) - set(larger) - request.free
    ran = Ran(partial(run, request, sizes, known, for_tracer=for_tracer, after=after))
    try:
        found, places = run_keeping(ran, frozenset(names), Kept.of(request, sizes, for_tracer, frozenset(names)))
    except Alike:
        raise
    except Exception as error:
        if not larger and not isinstance(error, TypeError) and "SymBool" not in str(error):  # where a bool is taken
            raise
        ran = Ran(partial(run, request, request.hints, known, for_tracer=for_tracer))
        found, places = ran.anew(at_once=True), []
    last = found
    while more := [each for each in last.tracer.asked.fixed.values() if all(each is not place for place in places)]:
        places += more
        try:
            last = ran.keeping(places, after=found)
        except Exception:  # a size that is kept may come where torch wants a number
            return found
        if last.tracer.asked.taken < found.tracer.asked.taken:
            found = last
    return found


@attrs.frozen(eq=False)
class Ran:
    """Runs of a model in which sizes are kept in code of some globals, by these: one, or what it raised."""

    anew: Callable[..., Run]
    kept: dict[frozenset[int], Run | Exception] = attrs.field(factory=dict)

    def keeping(self, places: Sequence[Any], **how: Any) -> Run:
        """A run with sizes kept there, the one that there was if there was one. Raises what the model raises."""
        at = frozenset(map(id, places))
        if at not in self.kept:
            try:
                self.kept[at] = self.anew(keep_sizes=tuple(places), **how)
            except Exception as error:
                self.kept[at] = error
        found = self.kept[at]
        if isinstance(found, Exception):
            raise found
        return found


def run_keeping(ran: Ran, varying: frozenset[str], kept: Kept) -> tuple[Run, list[Any]]:
    """(a run, the globals of code in which sizes are kept for it, which makes numbers of them otherwise). A run ends at
    the first such number, and the next keeps sizes there; where that makes a number of the same one all the same, runs
    end where one of a name is made. Raises Taken where that does not help: the rest of the run would not."""
    stops = True
    first: BaseException | None = None
    while True:
        how = {"varying": varying, "stops": stops}
        try:
            found = ran.keeping(kept.places, **how) if kept.any else ran.anew(**how)
            if kept.chosen.isdisjoint(found.tracer.asked.fixed):
                return found, kept.emptied()
        except (Chosen, Taken) as told:
            if isinstance(told, Chosen):
                kept.chosen.add(told.size)
            if all(told.code is not place for place in kept.places):
                first, kept.any = first or told, True
                kept.places.append(told.code)
                continue
            if not kept.chosen:
                raise
        except Alike:
            raise
        except Exception as error:
            if not kept.any and OF_NUMPY.search(str(error)):
                first, kept.any = error, True
                continue
            if not kept.any:
                raise
            if not kept.chosen and first is not None:
                raise first  # noqa: B904 - without the sizes kept that is what the model does
        kept, first, stops = Kept(), None, first is None and not kept.chosen


def top_of(known: Range) -> int:
    """The greatest size that is allowed."""
    return 1 << 30 if known.hi is None else known.hi


def tried(found: Found, known: Registrations, lowered: Callable[[], Lowered], point: Sizes) -> tuple[Found, bool]:
    """(the same, widened where the graph is right at a point too; whether it was); `lowered` gives the graph of its
    run, which is looked at where the values of another run are not the same."""
    sizes = {**found.run.tracer.asked.hints, **point}
    names = set(point)
    against = guards_refusing((guard for guard in found.guards if about(guard, names)), sizes)
    zero = 0 in point.values()
    if not against and not (zero and found.run.tracer.unproven):
        return found, False  # the same run, and each operator was found to take such sizes
    if any(guard.kind == "promise" or is_fixing(guard) for guard in against):
        return found, False  # that is said as it is
    request = found.run.request
    asked = found.run.tracer.asked
    if any(guard.expr in asked.refused for guard in against):
        return found, False  # torch refuses an operator of this graph there
    alone = all(s.name in names for guard in against for s in guard.expr.free_symbols)
    to_tell = len(point) == 1 and not any(is_equation(guard, names) for guard in against)
    there = {name: sizes[name] for name in request.hints}
    try:
        trial = Trial(found.run, point, alone)
        ways: dict[str, Any] = {"at_once": not asked.passed_on, "for_tracer": asked.for_tracer}
        other = run(request, there, known, trial=trial, keep_sizes=asked.keeps, **ways)
        how = SAME if gives_the_same(found, other) else ""
    except Exception as error:
        if not isinstance(error, IrkitError):
            found = attrs.evolve(found, raised=(*found.raised, there))
        return refused_with(found, point, error, to_tell), False
    if not how:
        low = lowered()
        try:
            how = (
                agreement(low, other, point, sizes_beside(found, other, point))
                if other.out_spec == found.run.out_spec
                else ""
            )
            graph = branch_there(found, low, other) if against and not how else None
            way = None if graph is None else way_at(found, other, point, graph)
        except Exception as error:
            return refused_with(found, point, error, to_tell), False
        if way is not None:
            found = attrs.evolve(found, ways=(*found.ways, way))
            return allowed(found, other, point, against, BRANCH), False
    if not how:
        if to_tell:
            found = found.noting(point, "is refused: the model computes something else then")
        return (refused(found, point, None) if not against else found), False
    return allowed(found, other, point, against, how), True


SAME = "the graph is the same"
BRANCH = "what the model computes then is a branch of its own"


def with_other_ways(found: Found, known: Registrations) -> Found:
    """The same with the ways that the model takes at sizes around the example that conditions refuse, as branches."""
    lowered = cache(partial(lowered_run, found.run, found.run.guards, found.run.request.ranges))
    looked_at: set[frozenset[str]] = set()
    for _ in range(WAYS):
        point, against = next((each for each in refused_around(found) if texts(each[1]) not in looked_at), ({}, ()))
        if not against:
            break
        looked_at.add(texts(against))
        found = with_way(found, known, lowered, point, against)
    return found


WAYS = 6
"""How often a model is run once more at sizes that conditions refuse."""
MOST_APART = 64
"""Into how many conditions those of two ways are written out: six ways of ten conditions each would be a million."""


def refused_around(found: Found) -> list[tuple[dict[str, int], list[Guard]]]:
    """Sizes around the example that are in range and that conditions refuse, with these conditions: one point for each
    set of them, those first that refuse most; none that torch, or the user, refuses."""
    request, asked = found.run.request, found.run.tracer.asked
    asks = [guard for guard in found.guards if is_asked(guard, request)]
    rest = [guard for guard in found.guards if guard not in asks and guard.expr is not None]
    groups: dict[frozenset[str], list[tuple[dict[str, int], list[Guard]]]] = {}
    hints = {**asked.hints, **request.hints}
    most = max(LARGEST, TIMES * request.elements_at(hints))
    for point in (*points_around(hints, request.hints), *points_apart(hints, request.hints)):
        against = guards_refusing(asks, point)
        if against and inside(found, point) and not guards_refusing(rest, point) and request.elements_at(point) <= most:
            groups.setdefault(texts(against), []).append((point, against))
    return [group[0] for group in sorted(groups.values(), key=lambda group: -len(group))]


LARGEST, TIMES = 1 << 22, 16
"""How many elements the arguments may have where a model is run once more, or how often those of the example: what
loops and data decide is computed there."""


def is_asked(guard: Guard, request: Request) -> bool:
    """Whether a condition may be one of two ways: of sizes alone, of whole numbers, and none that the user promised, or
    that leaves a size only so many numbers, as loops do."""
    plain = guard.kind == "guard" and guard.expr is not None and is_of_sizes(guard, request)
    return plain and is_of_integers(guard.expr) and not counts(guard.expr)


def with_way(
    found: Found, known: Registrations, lowered: Callable[[], Lowered], point: Sizes, against: Sequence[Guard]
) -> Found:
    """The same with what the model does at a point as a branch, which is taken wherever the conditions of the run there
    hold; the very same, with a note, where the model raises there, or that cannot be a branch."""
    request, asked = found.run.request, found.run.tracer.asked
    there = {name: point[name] for name in request.hints}
    at = " and ".join(f"{name} = {size}" for name, size in there.items())
    if there in found.raised:
        return found
    if found.raises_at(point) or none_takes(asked, point, [guard.expr for guard in against]):
        return attrs.evolve(
            found, notes=(*found.notes, f"what the model does at {at} is refused: an operator takes no such size")
        )
    how: dict[str, Any] = {"at_once": not asked.passed_on, "for_tracer": asked.for_tracer, "keep_sizes": asked.keeps}
    try:
        if request.deciding.modules:  # each of which is run for all its ways: a plain run tells sooner that it raises
            run(attrs.evolve(request, deciding=Deciding()), there, known, after=found.run, **how)
        other = run(request, there, known, trial=Trial(found.run, {}, False), **how)
        graph = branch_there(found, lowered(), other)
        where = conditions_there(found, other, against) if graph is not None else []
        if graph is None or not where or not all(holds(each, point) for each in where):
            return attrs.evolve(found, notes=(*found.notes, f"what the model does at {at} cannot be a branch"))
        relation_value(sympy.And(*where))
        if any(way.where == sympy.And(*where) for way in found.ways):
            return found
    except Exception as error:  # models raise anything; what ONNX cannot say raises Unsupported
        told = f"what the model does at {at} is refused: {said_of(error)}"
        return attrs.evolve(found, notes=(*found.notes, told))
    kept = [guard for guard in found.guards if not is_of_one(guard, found, other)]
    apart = [guard for guard in found.guards if is_of_one(guard, found, other)]
    if len(apart) * len(where) > MOST_APART:
        told = f"what the model does at {at} is no branch: with those there are it would take too many conditions"
        return attrs.evolve(found, notes=(*found.notes, told))
    kept += [guard_widened(guard, each) for guard in apart for each in where if not is_either(guard.expr, each)]
    kept += [guard for guard in other.guards if guard.expr is None and guard.text not in texts(kept)]
    ends = {name: (known.lo, known.hi) for name, known in found.ranges.items()}
    told = f"what the model does at {at} is a branch of its own, taken where {' and '.join(map(str, where))}"
    return attrs.evolve(
        found,
        guards=tuple(guard for guard in kept if guard.expr is None or not needless(guard.expr, ends)),
        notes=(*found.notes, told),
        ways=(*found.ways, way_where(where, graph)),
    )


def is_of_one(guard: Guard, found: Found, other: Run) -> bool:
    """Whether a condition need hold for the first of two ways only: it is of sizes, and the other did not ask it."""
    return is_asked(guard, found.run.request) and guard.expr not in {each.expr for each in other.guards}


def conditions_there(found: Found, other: Run, against: Sequence[Guard]) -> list[Any]:
    """The conditions of another run that are not kept for both; none where one of them is not of sizes."""
    kept = {guard.expr for guard in found.guards if not is_of_one(guard, found, other)}
    new = [guard for guard in other.guards if guard.is_before_a_run and guard.expr not in kept]
    others = {as_said(sympy.Not(guard.expr)) for guard in against}
    if not all(is_asked(guard, found.run.request) or guard.expr in others for guard in new):
        return []
    hints = found.run.request.hints if other.tracer.unproven else ()
    least = [dims.symbol(name) >= 1 for name in hints if 0 in found.ranges[name]]
    exprs = [guard.expr for guard in new]
    least += [each >= 1 for expr in exprs for each in divisors_of(expr)]
    return [each for each in dict.fromkeys((*exprs, *map(as_said, least))) if each not in kept and each != sympy.true]


def branch_there(found: Found, low: Lowered, other: Run) -> Watched | None:
    """The graph of another run as a branch, with what it checks; None where none is asked for or can be."""
    if not found.branching or other.out_spec != found.run.out_spec:
        return None
    there = lowered_run(other, other.guards, other.request.ranges)
    return there.watched if can_branch(low, there) else None


def agreement(low: Lowered, other: Run, point: Sizes, moved: Iterable[Sizes]) -> str:
    """How another run gives what a graph gives, also at other sizes, in words; empty where it does not."""
    there = lowered_run(other, other.guards, other.request.ranges)
    ours, theirs = ({check.text: check for check in each.checks} for each in (low, there))
    alike = gives_alike(low, there) and there.graph.signature.params == low.graph.signature.params
    if not alike or not theirs.keys() <= ours.keys():
        return ""  # what is checked here and not there is checked there, too
    graph = bare(Watched.of(low.graph, [ours[text] for text in theirs]).whole)
    again = bare(there.watched.whole)
    if equal_at(point, graph, again) or again == graph:  # weights are read last
        return SAME
    agree = numbers_agree(graph, again, other, there, moved, unlike_at(point, graph, again, len(theirs)))
    return "the model takes another way, and the results agree" if agree else ""


def refused_with(found: Found, point: Sizes, error: Exception, to_tell: bool) -> Found:
    """The same without a point at which the model, or its capture, raises; with a note on that, if it is to be told."""
    return refused(found.noting(point, f"is refused: {said_of(error)}") if to_tell else found, point, error)


def said_of(error: Exception) -> str:
    """What an error says."""
    return error.what if isinstance(error, IrkitError) else first_line(error)


def allowed(found: Found, other: Run, point: Sizes, against: Sequence[Guard], how: str) -> Found:
    """The same, widened to a point at which another run gave the same, with the conditions of that one there."""
    where = f"at {next(iter(point.values()))}" if len(point) == 1 else "there"
    found = found.noting(point, f"is allowed: traced {where}, {how}")
    here = being_at(point)
    kept = [guard_widened(guard, here) if guard in against else guard for guard in found.guards]
    told = {guard.text for guard in found.guards}
    # Where that holds, the first run is right.
    before = sympy.And(*(settled_at(guard.expr, point) for guard in against))
    kept += [
        guard if guard.expr is None else only_at(guard, point, before)
        for guard in other.guards
        if guard.text not in told and not guard.is_of_data and holds(guard.expr, point) is not True
    ]
    return attrs.evolve(found, guards=tuple(g for g in kept if g.expr not in (sympy.true, True)))


def way_at(found: Found, other: Run, point: Sizes, graph: Watched) -> Way:
    """The way of another run at a point, taken where its conditions on sizes hold there: elsewhere the first run may be
    right. Raises Unsupported for conditions that ONNX cannot say."""
    where = sympy.And(being_at(point), *(settled_at(g.expr, point) for g in other.guards if g.is_before_a_run))
    relation_value(where)
    return Way(where, graph, point)


def gives_the_same(found: Found, other: Run) -> bool:
    """Whether the results of another run are the very values of the one before it, under conditions on sizes alone;
    False where state is written or data are checked, which is looked at in graphs. Raises LoweringError for a condition
    that no text can say."""
    first = found.run
    told = {guard.text for guard in found.guards}
    new = [guard for guard in other.guards if guard.text not in told]
    if not all(guard.expr is not None and is_of_sizes(guard, first.request) for guard in new):
        return False
    if other.out_spec != first.out_spec or other.changed != first.changed or any(map(writes_or_checks, (first, other))):
        return False
    for ours, theirs in zip(first.results, other.results, strict=True):
        if not (isinstance(ours, Traced) and isinstance(theirs, Traced)):
            return False
        if contents(first, ours) is not contents(other, theirs):
            return False
    refuse_unsaid(other.tracer, new)
    return other.tracer.index.stand_for_the_same(other.tracer.record, first.tracer.record)


def writes_or_checks(run: Run) -> bool:
    """Whether a run wrote state or inputs, or is checked as it runs."""
    given = any(isinstance(each, Traced) and each.handle.memory.version for each in run.inputs.given)
    return (
        given
        or bool(run.tracer.scope.checks)
        or run.tracer.options.live
        or any(memory.is_state for memory, _ in run.tracer.memories.values())
    )


def contents(run: Run, tensor: Traced) -> Value:
    """The value that a tensor of a run holds."""
    return run.tracer.read(run.tracer.handle(tensor))


def numbers_agree(
    graph: Graph, other: Graph, at: Run, there: Lowered, moved: Iterable[Sizes], telling: Sequence[int]
) -> bool:
    """Whether two graphs give the same numbers for the leaves and the state of a run, and at the sizes of `moved`."""
    known = [at.tracer.examples.of(value) for _, value in at.inputs.params]
    held = at.request.numbers_held(at.inputs.params)
    fits = len(there.initial_state) + len(known) == len(graph.params) == len(other.params)
    return fits and same_numbers(graph, other, known, moved, there.initial_state.values(), telling, held)


def sizes_beside(found: Found, other: Run, point: Sizes) -> Iterator[Sizes]:
    """Sizes of the names that a point leaves as they are in the example, small ones too, which neither another run
    there refuses nor the first: two graphs that give the same for the example alone are not the same."""
    hints = {**found.run.tracer.asked.hints, **point}
    names = [name for name in found.run.request.hints if name not in point]
    kept = {*found.guards} - {*guards_refusing(found.guards, hints)}
    steps = [{n: hints[n] + step * (1 + i % 2) for i, n in enumerate(names)} for step in (1, 2, 3, -1, -2)]
    for sizes in ({**hints, **each} for each in (*steps, *({n: s} for n in names for s in (0, 1)))) if names else ():
        if all(sizes[n] in found.ranges[n] for n in names) and not guards_refusing((*other.guards, *kept), sizes):
            yield sizes


def refused(found: Found, point: Sizes, error: Exception | None) -> Found:
    """The same with a point left out of the contract: the model raises there, or is another graph."""
    if not allows(found, {**found.run.tracer.asked.hints, **point}):
        return found
    source = getattr(error, "source", "") if isinstance(error, IrkitError) else ""
    (name, size), *more = point.items()
    if not more and size == found.ranges[name].lo:
        return attrs.evolve(found, ranges={**found.ranges, name: Range(size + 1, found.ranges[name].hi)})
    there = sympy.Not(being_at(point))
    return attrs.evolve(found, guards=(*found.guards, Guard(there, str(there), source)))
