"""Allowing sizes 1 and 0 where torch refuses them for no reason that matters, and refusing them where it matters.

torch's own kernels ask whether a size is 1 while they choose strides and memory formats, models ask it to save work,
and each answer becomes a guard: a model traced with a batch of 2 then refuses a batch of 1. Whether the graph is wrong
for 1 is seen by tracing the model once more at 1. Where both graphs have the same operators and arguments, the first is
right for 1 too; where they differ, both are run on random numbers. Guards then say what was found. What models ask
about 0, which torch keeps no guard of, is a guard that is treated in the same way, and so are several sizes at once.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import attrs
import sympy
from torch.export import Dim

from irkit import dims
from irkit.dims import notation
from lowering.capture.guards.empty_sizes import without_empty
from lowering.capture.guards.guards import Guard, guards_of, line_at, number, shape_env_of
from lowering.capture.patches.zero_questions import Question
from lowering.capture.same_program import Change, Point, at_point, correspondence, same_graphs, same_numbers
from lowering.capture.torch_errors import message, user_frames
from lowering.capture.torch_export import Attempt, Request, examples_at, export
from lowering.records.dynamic_shapes import LeafStatement, Place, expression, hinted_places, range_of, value_of
from lowering.records.programs import metas_of_program, quiet
from lowering.records.torch_internals import LOGGER_OF_FAKE_TENSORS

MORE = 3
"""How often a program is traced once more for several sizes at once."""
MANY = 100
"""Beyond so many conditions several sizes at once are not traced."""
MOST_SYMBOLS = 3
SMALL = 4
Found = TypeVar("Found", bound=Any)  # a lowering.capture.capture.Captured


def widen_sizes(captured: Found, request: Request, asked: Sequence[Question]) -> Found:
    """The same program, which now also takes sizes 1 and 0 in each dimension where that is right. A guard refuses 0
    where the model does something else for it."""
    trial = Trial.of(captured, request)
    captured = attrs.evolve(captured, guards=(*captured.guards, *about_zero(asked, captured)))
    raised: list[str] = []
    for name in trial.names:
        if trial.allows(name, 1) and (trial.refuses(captured, {name: 1}) or hangs_on_more(captured, trial, {name: 1})):
            before = captured
            captured = tried(captured, trial, {name: 1})
            raised += [name] if least(before, trial, name) > least(captured, trial, name) == 1 else []
    done: list[dict[str, int]] = []
    captured = tried_together(captured, trial, done)
    open_ = [n for n in trial.names if trial.allows(n, 0) and (least(captured, trial, n) == 0 or n in raised)]
    captured, empty = without_empty(captured, [symbol for name in open_ for symbol in trial.symbols[name]])
    zeros = [n for n in open_ if trial.refuses(captured, {n: 0}) and not empty & set(trial.symbols[n])]
    captured = tried_at_zero(captured, trial, zeros)
    captured = tried_at_several(captured, trial, done)
    kept = tuple(guard for guard in captured.guards if not needless(guard.expr, captured.range_constraints))
    lasting = about_zero([each for each in asked if each.lasting], captured)
    return attrs.evolve(captured, guards=tuple(dict.fromkeys((*kept, *lasting, *about_one(asked)))))


def refuse_zeros(captured: Found, asked: Sequence[Question]) -> Found:
    """The same program, with guards that refuse 0 wherever the model asks about it, or an operator does not take it."""
    captured = attrs.evolve(captured, guards=(*captured.guards, *about_zero(asked, captured), *about_one(asked)))
    open_ = [symbol for symbol in captured.dim_names if captured.range_constraints.get(symbol, (1, None))[0] == 0]
    return without_empty(captured, open_)[0]


def about_zero(asked: Sequence[Question], captured: Any) -> Iterator[Guard]:
    """One guard for each question that the model asked about 0, for sizes that may be 0, with the first line that asked
    it."""
    seen: set[frozenset[str]] = set()
    for question in asked:
        for symbols in [frozenset({each}) for each in sorted(question.symbols)] or [question.together]:
            open_ = all(captured.range_constraints.get(each, (1, None))[0] == 0 for each in symbols)
            if symbols in seen or not symbols or not open_:
                continue
            seen.add(symbols)
            parts: list[Any] = [sympy.Ne(number(each), 0) for each in sorted(symbols)]
            expr: Any = sympy.Or(*parts)
            yield Guard(expr, str(expr), line_at(question.frame))


def about_one(asked: Sequence[Question]) -> Iterator[Guard]:
    """One guard for each size that must not be 1, since the model asked for strides that it tells."""
    for size, frame in {size: question.frame for question in asked for size in question.apart}.items():
        expr: Any = sympy.Ne(size.xreplace({s: number(s.name) for s in size.free_symbols}), 1)
        if expr is not sympy.true:
            yield Guard(expr, str(expr), line_at(frame))


@attrs.frozen
class Trial:
    """What it takes to trace the model once more: the request, the place of each dimension, and torch's symbols by
    name."""

    request: Request
    places: tuple[Place, ...]
    symbols: Mapping[str, tuple[str, ...]]
    oblivious: bool
    known: dict[Any, Any] = attrs.field(factory=dict, init=False, eq=False, repr=False)  # answers, by what was asked

    @classmethod
    def of(cls, captured: Any, request: Request) -> Trial:
        """The trial of what was captured for a request."""
        symbols: dict[str, tuple[str, ...]] = {}
        for symbol, name in captured.dim_names.items():
            symbols[name] = (*symbols.get(name, ()), symbol)
        metas = metas_of_program(captured.program)
        places = (*request.places, *hinted_places(request.said, metas, captured.dim_names))
        return cls(request, places, symbols, captured.attempts[-1].oblivious)

    @property
    def names(self) -> list[str]:
        """The names of the dimensions that are a whole size somewhere, and not only a part of an expression."""
        return list(dict.fromkeys(p.expr.name for p in self.places if p.is_plain and p.expr.name in self.symbols))

    def point(self, sizes: Mapping[str, int]) -> Point:
        """These sizes by torch's symbols in place of names."""
        return {symbol: size for name, size in sizes.items() for symbol in self.symbols[name]}

    def holds(self, expr: Any, point: Point) -> Any:
        """As `holds_at`; the answer is kept, by the sizes that the relation is about."""
        own = tuple((s.name, point[s.name]) for s in getattr(expr, "free_symbols", ()) if s.name in point)
        if not own:
            return expr
        if (expr, own) not in self.known:
            self.known[expr, own] = holds_at(expr, dict(own))
        return self.known[expr, own]

    def refuses(self, captured: Any, sizes: Mapping[str, int]) -> bool:
        """True where a guard or a range refuses these sizes."""
        point = self.point(sizes)
        for symbol, size in point.items():
            low, high = captured.range_constraints.get(symbol, (0, None))
            if size < low or (high is not None and size > high):
                return True
        return any(self.holds(guard.expr, point) is sympy.false for guard in captured.guards)

    def allows(self, name: str, size: int) -> bool:
        """True where the range that the user gave a dimension holds this size."""
        for place in self.places:
            said = self.request.said[place.leaf]
            each = said[place.axis] if isinstance(said, dict) else said
            if place.is_plain and place.expr.name == name and not isinstance(each, str):
                low, high = range_of(each)
                if (low is not None and size < low) or (high is not None and size > high):
                    return False
        return True

    def narrow(self, sizes: Mapping[str, int]) -> tuple[Request, list[Any]]:
        """(request, example leaves) in which these dimensions are fixed at these sizes."""
        said = [fixed_at(each, sizes) for each in self.request.said]
        for place in self.places[len(self.request.places) :]:
            each = said[place.leaf]
            if all(symbol.name in sizes for symbol in dims.symbols_of(place.expr)):
                said[place.leaf] = (
                    {a: s for a, s in each.items() if a != place.axis} if isinstance(each, dict) else None
                )
        whole = attrs.evolve(self.request, places=self.places)
        examples = examples_at(
            whole, {p.expr.name: at(self.request, p) for p in self.places if p.is_plain} | dict(sizes)
        )
        names = tuple(said)
        places = tuple(
            attrs.evolve(place, text=text, expr=expression(text))
            for place in self.request.places
            for each in [names[place.leaf]]
            for now in [each.get(place.axis) if isinstance(each, dict) else each]
            for text in [now.__name__ if isinstance(now, Dim) else now]
            if isinstance(text, str)
        )
        return attrs.evolve(self.request, said=names, places=places), examples


def hangs_on_more(captured: Any, trial: Trial, sizes: Mapping[str, int]) -> bool:
    """True where, at these sizes, a guard compares the largest or smallest of some other sizes with 1."""
    point = trial.point(sizes)
    relations = [(guard.expr, trial.holds(guard.expr, point)) for guard in captured.guards]
    return any(is_open(then) and then != expr for expr, then in relations)


def is_open(relation: Any) -> bool:
    """True for a relation which says that the largest or smallest of some sizes is not a certain number."""
    parts = sympy.preorder_traversal(relation) if isinstance(relation, sympy.Ne) else ()
    return any(type(part).__name__ in ("Max", "Min") for part in parts)


def holds_at(expr: Any, point: Point) -> Any:
    """True where a relation holds at these sizes; False where it would divide by 0."""
    try:
        return at_point(expr, point)
    except ArithmeticError:
        return sympy.false


def least(captured: Any, trial: Trial, name: str) -> int:
    """The smallest size that the ranges allow a dimension."""
    return max(captured.range_constraints.get(symbol, (0, None))[0] for symbol in trial.symbols[name])


def at(request: Request, place: Place) -> int:
    """The size that the example inputs have at a place."""
    value = request.leaves[place.leaf].value
    return int(value.shape[place.axis]) if place.axis >= 0 else int(value)


def fixed_at(said: LeafStatement, sizes: Mapping[str, int]) -> LeafStatement:
    """What the user said of a leaf, with the dimensions named here fixed at these sizes, and what is computed from them
    worked out."""
    if isinstance(said, dict):
        fixed = {axis: fixed_at(each, sizes) for axis, each in said.items()}
        return {axis: each for axis, each in fixed.items() if each is not None}
    text = said.__name__ if isinstance(said, Dim) else said
    if not isinstance(text, str):
        return said
    expr = expression(text)
    symbols = dims.symbols_of(expr)
    if not {each.name for each in symbols} & set(sizes):
        return said
    rest = sympy.sympify(
        value_of(expr, {s.name: sympy.Integer(sizes[s.name]) if s.name in sizes else s for s in symbols})
    )
    return None if rest.is_Integer else notation.text(dims.dim(rest))


# ---------------------------------------------------------------------------------------------------------------------
# Tracing once more
# ---------------------------------------------------------------------------------------------------------------------


def tried(captured: Found, trial: Trial, sizes: Mapping[str, int], refusal: bool = True) -> Found:
    """The program with guards that allow these sizes, where a trace at these sizes shows that its graph is right for
    them. Elsewhere the program as it was, with a note that says so where `refusal` is true."""
    start = time.perf_counter()
    at_sizes = " and ".join(f"{name} = {size}" for name, size in sizes.items())
    how = f"{captured.how}; once more at {at_sizes}"
    point = trial.point(sizes)
    request, examples = trial.narrow(sizes)
    try:
        with quiet(LOGGER_OF_FAKE_TENSORS):
            other, _ = export(request, examples, trial.oblivious)
        change = Change(point, correspondence(captured.program, other))
        metas = metas_of_program(other)
        further = guards_of(shape_env_of(metas), other._guards_code, request.leaves, metas)
        same = same_graphs(captured.program, other, change)
        asked = [change.there(guard.expr) for guard in further if guard.expr is not None]
        held = [leaf.value for leaf in trial.request.leaves]
        right = same or same_numbers(
            captured.program, other, examples, leaves_beside(trial, sizes, asked, captured), held
        )
    except Exception as error:
        said = message(error, request.places, request.leaves)
        failed = Attempt(how, time.perf_counter() - start, said)
        note = f"{at_sizes} is refused: {said}"
        guards = tuple(with_source(guard, point, user_frames(error)) for guard in captured.guards)
        captured = attrs.evolve(captured, attempts=(failed, *captured.attempts), guards=guards)
        return attrs.evolve(captured, notes=(*captured.notes, note)) if refusal else captured
    captured = attrs.evolve(captured, attempts=(Attempt(how, time.perf_counter() - start), *captured.attempts))
    if not right:
        note = f"{at_sizes} is refused: the model computes something else then"
        return attrs.evolve(captured, notes=(*captured.notes, note)) if refusal else captured
    reason = "the graph is the same" if same else "the model takes another way, and the results agree"
    where = f"at {next(iter(sizes.values()))}" if len(sizes) == 1 else "there"
    return attrs.evolve(
        captured,
        guards=tuple(allowing(captured.guards, further, change)),
        range_constraints=captured.range_constraints | lower_ends(captured, point),
        notes=(*captured.notes, f"{at_sizes} is allowed: traced {where}, {reason}"),
    )


def leaves_beside(trial: Trial, sizes: Mapping[str, int], asked: Sequence[Any], captured: Any) -> Iterator[list[Any]]:
    """Example leaves at sizes beside the example's of the names that `sizes` leave as they are, small ones too, where
    the relations that were `asked` hold, and those that the program keeps: two programs that give the same for the
    example alone are not the same."""
    hints = {p.expr.name: at(trial.request, p) for p in trial.places if p.is_plain}
    names = [name for name in trial.names if name not in sizes]
    here = trial.point({**hints, **sizes})
    kept = [each.expr for each in captured.guards if trial.holds(each.expr, here) is not sympy.false]
    steps = [{name: hints[name] + s * (1 + i % 2) for i, name in enumerate(names)} for s in (1, 2, 3, -1, -2)]
    for moved in (*steps, *({name: size} for name in names for size in (0, 1))) if names else ():
        there = {**hints, **sizes, **moved}
        point = trial.point(there)
        if any(trial.holds(each, point) is sympy.false for each in (*asked, *kept)):
            continue
        if all(there[n] >= least(captured, trial, n) and trial.allows(n, there[n]) for n in names):
            yield trial.narrow({**sizes, **{name: there[name] for name in names}})[1]


def with_source(guard: Guard, point: Point, source: str) -> Guard:
    """The guard; where it has no line of its own and refuses this point, the line is put in."""
    return (
        attrs.evolve(guard, source=source) if not guard.source and holds_at(guard.expr, point) is sympy.false else guard
    )


def lower_ends(captured: Any, point: Point) -> dict[str, tuple[int, int | None]]:
    """The ranges of symbols, where those that the point fixes begin at their size there."""
    ranges: dict[str, tuple[int, int | None]] = {}
    for symbol, size in point.items():
        low, high = captured.range_constraints.get(symbol, (0, None))
        ranges[symbol] = (min(size, low), high)
    return ranges


def tried_together(captured: Found, trial: Trial, done: list[dict[str, int]]) -> Found:
    """The program with guards that also allow 1 for several dimensions at once, of those that allow it one by one."""
    names = [n for n in trial.names if trial.allows(n, 1) and not trial.refuses(captured, {n: 1})]
    if len(names) < 2 or not trial.refuses(captured, dict.fromkeys(names, 1)):
        return captured
    done.append(dict.fromkeys(names, 1))
    return tried(captured, trial, done[-1], refusal=False)


def tried_at_zero(captured: Found, trial: Trial, names: Sequence[str]) -> Found:
    """The program with guards that allow 0 for these dimensions. It is tried for all of them at once, and, if that
    fails, for one after the other."""
    if not names:
        return captured
    found = tried(captured, trial, dict.fromkeys(names, 0), refusal=len(names) == 1)
    if len(names) == 1:
        return found
    if not trial.refuses(found, dict.fromkeys(names, 0)):
        alone = tuple(
            guard for guard in captured.guards if not is_only_about(guard.expr, trial.point(dict.fromkeys(names, 0)))
        )
        return attrs.evolve(
            found, guards=tuple(guard for guard in found.guards if guard in alone or guard not in captured.guards)
        )
    for name in names:
        found = tried(found, trial, {name: 0})
    return found


def tried_at_several(captured: Found, trial: Trial, done: list[dict[str, int]]) -> Found:
    """The program with guards that allow those points of 0 and 1 which only guards over several dimensions refuse.

    Each point costs a trace; where there are very many, the program stays as it was.
    """
    for _ in range(MORE if len(captured.guards) <= MANY else 0):
        sizes = next((each for each in refused_points(captured, trial) if each not in done), None)
        if sizes is None:
            break
        done.append(dict(sizes))
        captured = tried(captured, trial, sizes)
    return captured


def is_equality(expr: Any) -> bool:
    """True for a relation which says that sizes are equal; shapes in the graph then rely on it."""
    parts = expr.args if isinstance(expr, sympy.Or) else [expr]
    return any(isinstance(part, sympy.Eq) and len(part.free_symbols) > 1 for part in parts)


def refused_points(captured: Any, trial: Trial) -> Iterator[Mapping[str, int]]:
    """Sizes of 0 and 1 for several dimensions that are refused together, though each is allowed by itself."""
    owners = {symbol: name for name in trial.names for symbol in trial.symbols[name]}
    for guard in captured.guards:
        symbols = sorted(s.name for s in getattr(guard.expr, "free_symbols", ()))
        names = list(dict.fromkeys(owners.get(symbol, "") for symbol in symbols))
        if not 2 <= len(names) <= MOST_SYMBOLS or "" in names or is_equality(guard.expr):
            continue
        for values in itertools.product((1, 0), repeat=len(names)):
            sizes: dict[str, int] = dict(zip(names, values, strict=True))
            if trial.holds(guard.expr, trial.point(sizes)) is sympy.false and all(
                trial.allows(name, size) and not trial.refuses(captured, {name: size}) for name, size in sizes.items()
            ):
                yield sizes


# ---------------------------------------------------------------------------------------------------------------------
# Guards
# ---------------------------------------------------------------------------------------------------------------------


def allowing(guards: Sequence[Guard], further: Sequence[Guard], change: Change) -> Iterator[Guard]:
    """The guards, which now let a point in; at that point they ask instead for what the trace there relied on."""
    remaining = set()
    relied_on = {change.there(guard.expr) for guard in further if guard.expr is not None}
    for guard in guards:
        then = holds_at(guard.expr, change.point)
        # Whether a size is not 1 may hang on further sizes, and tracing at the point relied on no such thing.
        open_ = is_open(then) and then not in relied_on
        remaining.add(then)
        if then is not sympy.false and not open_:
            yield guard
        elif not is_only_about(guard.expr, change.point):
            mine = sorted(s.name for s in guard.expr.free_symbols if s.name in change.point)
            there: list[Any] = [sympy.Eq(number(s), change.point[s]) for s in mine]
            expr: Any = sympy.Or(guard.expr, sympy.And(*there))
            yield attrs.evolve(guard, expr=expr, text=str(expr))
    elsewhere: list[Any] = [sympy.Ne(number(symbol), size) for symbol, size in change.point.items()]
    for guard in further:
        if guard.expr is None or change.there(guard.expr) in remaining:
            continue
        expr = sympy.Or(*elsewhere, change.there(guard.expr))
        yield attrs.evolve(guard, expr=expr, text=str(expr))


def is_only_about(expr: Any, point: Point) -> bool:
    """True for a relation which says no more than that one symbol differs from its size at the point, or is greater."""
    a, b = (*getattr(expr, "args", ()), None, None)[:2]
    if not isinstance(expr, sympy.core.relational.Relational) or isinstance(expr, sympy.Eq):
        return False
    symbol, size = (a, b) if isinstance(a, sympy.Symbol) else (b, a)
    if not isinstance(symbol, sympy.Symbol) or not getattr(size, "is_Integer", False) or symbol.name not in point:
        return False
    value = point[symbol.name]
    more = sympy.true if isinstance(expr, sympy.Ne) else expr.xreplace({symbol: sympy.Integer(value - 1)})
    beyond = [expr.xreplace({symbol: sympy.Integer(value + k)}) for k in (1, 2, 1000)]
    return all(each == sympy.true for each in beyond) and (isinstance(expr, sympy.Ne) or more == sympy.false)


def needless(expr: Any, ranges: Mapping[str, tuple[int, int | None]]) -> bool:
    """True where a relation holds for all sizes in these ranges, so that no guard need ask it.

    A few small sizes decide. That is enough where each part of the relation compares one symbol (in an equality also a
    sum of symbols) with a small number, because beyond that number no answer changes.
    """
    if not isinstance(expr, sympy.Or) or len(expr.free_symbols) > MOST_SYMBOLS:
        return False
    parts: list[Any] = [
        part for part in sympy.preorder_traversal(expr) if isinstance(part, sympy.core.relational.Relational)
    ]
    if not all(is_small(part) for part in parts):
        return False
    top = max(int(part.rhs) for part in parts) + 2
    symbols: list[Any] = sorted(expr.free_symbols, key=str)
    boxes = [range(max(ranges.get(symbol.name, (0, None))[0], 0), top + 1) for symbol in symbols]
    sizes = ({s.name: v for s, v in zip(symbols, values, strict=True)} for values in itertools.product(*boxes))
    return all(at_point(expr, each) == sympy.true for each in sizes)


def is_small(part: Any) -> bool:
    """True for a comparison of one symbol with a small number, and for a sum of symbols that equals one."""
    if not part.rhs.is_Integer or not 0 <= part.rhs <= SMALL:
        return False
    if part.lhs.is_Symbol:
        return True
    terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(part.lhs)]
    return isinstance(part, sympy.Ne | sympy.Eq) and all(c.is_Integer and c > 0 and t.is_Symbol for c, t in terms)
