"""Checking a rule by numbers: random instances of its left side, both sides computed, the results compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import sympy

from irkit.checking.agreement import Limits, agree, agree_on_runtime, count_agreeing, has_value, text
from irkit.checking.counterexamples import Case, Counterexample
from irkit.checking.coverage import Checked, Covered, ends_of, record_lines, sorted_counts, untried_types
from irkit.checking.draws import NOTHING
from irkit.checking.instances import Instance, Retry, dtypes_of, instances
from irkit.checking.near_misses import CHANGES, EXACT_CHANGES, FAR, REAL_CHANGES, Change, kind_of, near_miss
from irkit.checking.shrinking import Smaller, shrunk
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor, dims_of, same_types
from irkit.core.vocabulary import CONSTANT, PARAM, SHAPE_VECTOR
from irkit.core.walk import post_order, rebuild
from irkit.dims import symbols_of
from irkit.errors import DimensionError, RewriteError, TypeRuleError
from irkit.evaluation.kernels.common import Content
from irkit.pattern import Hole
from irkit.pattern.heads import names_of, operators_named
from irkit.proofs import prove
from irkit.rewriting.driver import bound_by
from irkit.rewriting.face import Made
from irkit.rewriting.rules import Decline, Match, Rule, Rules
from irkit.rewriting.sides import match_of, results_of, sides
from irkit.rewriting.type_checks import at_line, short_text, values_given
from irkit.support.arguments import require_count
from irkit.support.results import as_tuple
from irkit.support.tracebacks import is_told

__tracebackhide__ = is_told

PATIENCE = 300
"""How many instances are tried for each that is wanted."""

TRACED = 2000
"""So many calls of the rule's function are followed line by line, while some of its ends were not reached."""

NEAR = 6
"""How many near misses are made of each instance on which a rule fired."""


@attrs.define(eq=False)
class Misses:
    """How many near misses were made, of which kinds, and on how many of them the rule fired."""

    made: int = 0
    fired: int = 0
    kinds: Counter[str] = attrs.field(factory=Counter[str])
    fired_kinds: Counter[str] = attrs.field(factory=Counter[str])


def _ends(tally: Tally) -> tuple[tuple[int, str], ...]:
    return ends_of(tally.rule.function)


@attrs.define(eq=False)
class Tally:
    """What a check has counted so far."""

    rule: Rule
    rng: np.random.Generator
    limits: Limits
    onnxruntime: bool
    declined: Counter[str] = attrs.field(factory=Counter[str])
    covered: Covered = attrs.field(factory=Covered)
    ran: set[int] = attrs.field(factory=set[int])
    ends: tuple[tuple[int, str], ...] = attrs.field(default=attrs.Factory(_ends, takes_self=True))
    traced: int = 0
    on_runtime: int = 0
    not_there: int = 0
    empty: int = 0
    no_value: int = 0

    def attempt(self, roots: tuple[Value, ...], arrays: Mapping[Value, Content] | None, *, near: bool = False) -> bool:
        """True where the rule fires on values and both sides agree on numbers, of which there are some; False where it
        does not match, or declines, or there is nothing to compare. `arrays` are numbers for some of the parameters.
        Raises Counterexample, made as small as can be, where the rule is wrong."""
        try:
            return self._attempt(roots, arrays, near)
        except Counterexample as error:
            case = error.case
            if case is None:
                raise
            given = None if case.arrays is None else dict(zip(case.params, case.arrays, strict=True))
            smallest = shrunk(Smaller(roots, given), error, lambda smaller: self.failure(smaller, case.kind))
            raise smallest from None

    def near(self, made: Instance, misses: Misses) -> None:
        """Tries near misses of an instance, and counts them."""
        changes = changes_for(self.limits, made.arrays is not None)
        for _ in range(NEAR):
            try:
                changed = near_miss(made.roots, self.rng, changes)
            except Retry:
                continue
            misses.made += 1
            misses.kinds.update(changed.kinds)
            limits = self.limits
            self.limits = attrs.evolve(limits, far=not FAR.isdisjoint(changed.kinds))
            agreed = self.attempt(changed.roots, made.arrays, near=True)
            self.limits = limits
            if agreed:
                misses.fired += 1
                misses.fired_kinds.update(changed.kinds)

    def applied(self, roots: tuple[Value, ...], params: tuple[Value, ...]) -> tuple[Match, Any] | None:
        """(the match, what the rule made of it); None where it does not match."""
        symbols = frozenset(s for v in params for d in dims_of(v.type) for s in bound_by(d))
        m = match_of(self.rule, roots, lambda: symbols)
        if m is None:
            return None
        with np.errstate(all="ignore"):  # what numbers at the ends of ranges come to shows in what is compared
            if self.traced >= TRACED or not self.unseen():
                return m, self.rule.function(m)
            self.traced += 1
            with record_lines(self.rule.function, self.ran):
                return m, self.rule.function(m)

    def operands(self, m: Match) -> tuple[Value, ...]:
        """The values that the holes of the patterns stand for, those left out that the patterns say more of."""
        patterns = (self.rule.pattern, *self.rule.others)
        operators = frozenset[str]().union(*map(operators_named, patterns))
        names = frozenset[str]().union(*map(names_of, patterns)) - operators
        return tuple(v for v in _flat(m.get(name) for name in sorted(names)) if isinstance(v, Value))

    def unseen(self) -> tuple[tuple[int, str], ...]:
        """The lines of the rule's function that return or raise, and never ran."""
        return tuple(line for line in self.ends if line[0] not in self.ran)

    def failure(self, smaller: Smaller, kind: str) -> Counterexample | None:
        """The error where the rule is wrong in that way on an instance and its numbers; None where it is not."""
        params = smaller.params
        given = None if smaller.arrays is None else dict(smaller.arrays)
        tally = attrs.evolve(self, declined=Counter(), covered=Covered(), ran=set(), traced=TRACED)
        try:
            if kind == "numbers" and given is not None:
                tally.compare_on(smaller.roots, params, given)
            else:
                tally._attempt(smaller.roots, given, False)
        except Counterexample as error:
            return error if error.case is not None and error.case.kind == kind else None
        except Exception:  # of a rule that is handed what no pattern allows
            return None
        return None

    def compare_on(self, roots: tuple[Value, ...], params: tuple[Value, ...], given: Mapping[Value, Content]) -> None:
        """Raises Counterexample where both sides differ on these very numbers."""
        made = self.applied(roots, params)
        if made is None or values_given(self.rule, made[0].roots, made[1]) is None:
            return
        m, found = made
        old, new = sides(m.roots if self.rule.others else m.root, found)
        if any(same_types(a.type, b.type) is False for a, b in zip(old, new, strict=True)):
            return
        names = names_in(m, params)
        arrays, operands = [given[p] for p in params], self.operands(m)
        count_agreeing(self.rule.name, old, new, params, arrays, self.rng, self.limits, names, operands)

    def _attempt(self, roots: tuple[Value, ...], arrays: Mapping[Value, Content] | None, near: bool) -> bool:
        rule = self.rule
        params = tuple(v for v in post_order(roots) if v.op == PARAM)
        try:
            made = self.applied(roots, params)
        except DimensionError:  # as the driver has it
            self.declined["a size would be a vast expression, or beyond 64 bits"] += 1
            return False
        except Exception as error:
            if near and arrays is not None and isinstance(error, TypeRuleError):
                self.declined["what it would build is refused"] += 1
                return False
            self.blame(f"fails with {short_text(repr(error), 300)}", roots, params, arrays, error)
            return False
        if made is None:
            return False
        m, found = made
        if values_given(rule, m.roots, found, text(*m.roots)) is None:
            self.declined[found.reason if isinstance(found, Decline) else "it returned its own root"] += 1
            return False
        old, names = m.roots if rule.others else m.root, names_in(m, params)
        for one, other in zip(*sides(old, found), strict=True):
            if same_types(one.type, other.type) is False:
                self.blame(
                    f"turns a {one.type!r} into a {other.type!r}", roots, params, arrays, made=(old, found), names=names
                )
                return False
        given = None if arrays is None else {v: arrays[v] for v in params if v in arrays}
        agreed = agree(
            rule.name,
            old,
            found,
            params,
            self.rng,
            limits=self.limits,
            given=given,
            names=names,
            operands=self.operands(m),
        )
        if not any(each.elements for each in agreed):
            self.empty, self.no_value = self.empty + bool(agreed), self.no_value + (not agreed)
            return False
        if not near:
            shallow = isinstance(self.rule.pattern, Hole)
            self.covered.note(roots, params, [each.arrays for each in agreed], shallow)
        if self.onnxruntime and not near:
            there = agree_on_runtime(rule.name, old, found, params, self.rng, given, names, limits=self.limits)
            self.on_runtime, self.not_there = self.on_runtime + there, self.not_there + (not there)
        return True

    def blame(
        self,
        what: str,
        roots: tuple[Value, ...],
        params: tuple[Value, ...],
        arrays: Mapping[Value, Content] | None,
        error: Exception | None = None,
        made: Any = None,
        names: Mapping[Value, str] = NOTHING,
    ) -> None:
        """Raises Counterexample, unless the left side has no value: what nothing computes, no rule need foresee."""
        if not has_value(roots, params, self.rng, arrays or {}):
            return
        if isinstance(error, TypeRuleError):
            what = f"builds a value that is refused: {error.what}"
        if error is not None:
            what = at_line(what, error, self.rule)
        old, new = sides(*made) if made else (tuple(r for root in roots for r in results_of(root)), ())
        kind = "types" if made else "fails"
        raise Counterexample.of(Case(self.rule.name, kind, what, old, new, params, names)) from error


def changes_for(limits: Limits, given: bool = False) -> tuple[Change, ...]:
    """What may be changed in an instance for a near miss. As with operands, constants are NaN and infinities for exact
    rules only; what is held to fixed tolerances, or to numbers that are `given`, keeps to moderate sizes."""
    if limits.exact:
        return EXACT_CHANGES
    return CHANGES if limits.asked or given else REAL_CHANGES


def names_in(m: Match, params: Sequence[Value]) -> dict[Value, str]:
    """What the pattern calls the parameters."""
    bound = reversed(list(vars(m).items()))
    return {v: name for name, v in bound if isinstance(v, Value) and v in set(params)}


ONE_RULE = "check one rule at a time, made by @irkit.rule(pattern); of an equation, equation.check()"


def check_rule(
    rule: Rule,
    n: int = 50,
    *,
    seed: int = 0,
    onnxruntime: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    measured: bool = True,
    proof: int = 2,
) -> Checked:
    """Makes random instances of the rule's left side until it has fired on `n`, and compares both sides by numbers.

    Element types (all 28, where the operators take them), shapes (with sizes 0 and 1, and symbols), axes, constants
    and attributes are random. Of each instance on which the rule fired, near misses are made: another axis, constant,
    element type, size, operand or operator. The rule may decline them; where it fires, both sides must agree. Empty
    results do not count.

    An exact rule must agree bit for bit, NaN, infinities, the sign of zero, subnormal numbers and the ends of every
    range included, in constants, too. Of one that is true of real numbers, integers and booleans must be equal, and
    floats no worse than the left side's: both are measured against that in float64 (see `irkit.checking.accuracy`),
    and what is computed of scalar constants must stay in range.

    Args:
        rule: the rule to check.
        n: on how many instances it shall fire.
        seed: of the random generator.
        onnxruntime: whether both sides are also compared on ONNX Runtime, where it has kernels for them.
        rtol, atol: where given, floats of a rule that is not exact may differ by atol + rtol * |left|, and are not
            measured against float64.
        measured: whether they are measured at all; without it, and without tolerances, those of `irkit.compare` hold:
            for rules that are to be right rather than as precise.
        proof: up to which rank `irkit.prove` is asked for a proof for all sizes; 0 for none.

    Returns the report: what was covered, and what was not. Raises Counterexample, a RewriteError, where the sides
    differ in type or numbers: the smallest instance that was found, with the numbers, and as a program to paste
    (`error.python`). Raises RewriteError where n or seed is no whole number from 0 on, and where no instance was found
    on which the rule fires and there is something to compare (give it a `sample` then: a function from a random
    generator to an instance; see `irkit.rule`).
    """
    if not isinstance(rule, Rule):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may give anything
        raise RewriteError(f"{rule!r} is not a rule", hint=ONE_RULE)
    n, seed = require_count(n, "n", RewriteError), require_count(seed, "seed", RewriteError)
    proof = require_count(proof, "proof", RewriteError)
    tally = Tally(rule, np.random.default_rng(seed), Limits(rule.exact, rtol, atol, measured), onnxruntime)
    fired, misses = 0, Misses()
    for _ in range(n * PATIENCE):
        if fired >= n:
            break
        made = random_instance(rule, tally.rng)
        if made is not None and tally.attempt(made.roots, made.arrays):
            fired += 1
            tally.near(made, misses)
    if not fired:
        raise RewriteError(
            f"no instance was found on which the rule {rule.name} fires and there is something to compare",
            hint=f"declined: {dict(tally.declined)}; all results were empty: {tally.empty}; the left side had no "
            f"value: {tally.no_value}; give the rule a sample: @rule(pattern, sample=function_of_a_generator)",
        )
    return attrs.evolve(report(tally, fired, misses), proof=prove(rule, proof) if proof else None)


def report(tally: Tally, fired: int, misses: Misses) -> Checked:
    """What a check has counted, as it is returned."""
    rule, covered = tally.rule, tally.covered
    kinds = sorted({*map(kind_of, changes_for(tally.limits)), *misses.kinds})
    allowed = () if rule.sample is not None else dtypes_of((rule.pattern, *rule.others))
    return Checked(
        fired=fired,
        declined=sorted_counts(tally.declined),
        near_misses=misses.made,
        near_fired=misses.fired,
        on_runtime=tally.on_runtime,
        not_there=tally.not_there,
        rule=rule.name,
        exact=rule.exact,
        near_kinds=tuple((k, (misses.kinds[k], misses.fired_kinds[k])) for k in kinds),
        empty=tally.empty,
        no_value=tally.no_value,
        types=sorted_counts(covered.types),
        untried=untried_types(allowed, covered.types),
        ranks=sorted_counts(covered.ranks),
        axes=sorted_counts(covered.axes),
        sizes=sorted_counts(covered.sizes),
        numbers=sorted_counts(covered.numbers),
        reused=covered.reused,
        lines=tally.unseen(),
    )


def random_sample(rule: Rule, rng: np.random.Generator) -> tuple[Value, ...] | None:
    """A random instance of the left side of a rule, one value for each of its patterns; None where none was found."""
    found = random_instance(rule, rng)
    return None if found is None else found.roots


def random_instance(rule: Rule, rng: np.random.Generator) -> Instance | None:
    """A random instance of the left side of a rule, with numbers where its sample gives some; None where none was
    found."""
    try:
        if rule.sample is None:
            return Instance(instances((rule.pattern, *rule.others), rng))
        found = rule.sample(rng)
    except (Retry, TypeRuleError):
        return None
    if isinstance(found, Instance):
        return found
    if not all(isinstance(each, Value) for each in as_tuple(found)):
        raise RewriteError(
            f"the sample of the rule {rule.name} returned {found!r}", hint="return a value that the pattern matches"
        )
    return Instance(as_tuple(found))


# ---------------------------------------------------------------------------------------------- one application


def guarded(rules: Rules, *, seed: int = 0) -> Rules:
    """The rules, each of which compares both sides by numbers whenever it fires, on random content of what it fired on.

    For finding which rule breaks a graph: `rewrite(graph, guarded(rules))` raises RewriteError at the first wrong
    application, with the fragment before and after, and the numbers. Slow: each application looks at all that lies
    below it. Fragments that cannot be computed alone (an index drawn out of range) pass.
    """
    seed = require_count(seed, "seed", RewriteError)
    return tuple(_guarded(each, np.random.default_rng(seed)) for each in rules)


def _guarded(rule: Rule, rng: np.random.Generator) -> Rule:
    holes = frozenset[str]().union(*map(names_of, (rule.pattern, *rule.others)))

    def function(m: Match) -> Made:
        found = rule.function(m)
        if values_given(rule, m.roots, found) is not None:
            given = [m.get(name) for name in holes]
            _agree_here(rule, m.roots, found, frozenset(v for v in _flat(given) if isinstance(v, Value)), rng)
        return found

    return attrs.evolve(rule, function=function)


def _flat(values: Iterable[Value | None]) -> Iterable[Value | None]:
    for value in values:
        if isinstance(value, tuple):
            yield from value
        else:
            yield value


def _agree_here(
    rule: Rule, roots: tuple[Value, ...], found: Any, holes: frozenset[Value], rng: np.random.Generator
) -> None:
    new = as_tuple(found)
    order = post_order(roots)
    below = set(order)
    shared = {v for v in post_order(new, stop=below.__contains__) for v in v.inputs if v in below}
    shared.update(v for v in new if v in below)
    over_shared = _above(order, shared)
    over_holes = _above(order, holes)
    ends = {v for v in shared if v not in over_holes} | {v for v in holes if v not in over_shared}
    cut = {v: param(v.type) for v in order if v not in roots and v in ends and _is_data(v)}
    built = rebuild((*roots, *new), cut)
    params = tuple(p for p in post_order([built[v] for v in (*roots, *new)]) if p.op == PARAM)
    after = tuple(built[v] for v in new) if isinstance(found, tuple) else built[found]
    if all(isinstance(p.type, Tensor) for p in params):
        params += _binding(post_order([built[v] for v in (*roots, *new)]), params)
        before = tuple(built[v] for v in roots) if rule.others else built[roots[0]]
        agree(rule.name, before, after, params, rng, limits=Limits(rule.exact, measured=False))


def _above(order: tuple[Value, ...], below: Iterable[Value]) -> set[Value]:
    """The values of `order` that depend on one of `below`."""
    marks, found = set(below), set[Value]()
    for value in order:
        if any(v in marks or v in found for v in value.inputs):
            found.add(value)
    return found


def _binding(values: Iterable[Value], params: tuple[Value, ...]) -> tuple[Value, ...]:
    """One more parameter, in whose type every symbol stands that the values use and no parameter binds."""
    known = {s for v in params for d in dims_of(v.type) for s in bound_by(d)}
    used: dict[sympy.Symbol, None] = {}
    for value in values:
        for dim in (*dims_of(value.type), *(value.attribute("dims", ()) if value.op == SHAPE_VECTOR else ())):
            used.update(dict.fromkeys(s for s in symbols_of(dim) if s not in known))
    return (param(Tensor(DType.FLOAT, tuple(used))),) if used else ()


def _is_data(value: Value) -> bool:
    """True for a tensor of floats that is not a constant: of sizes, positions and masks, and of numbers that are
    written down, a rule may know more than their types say."""
    return isinstance(value.type, Tensor) and value.dtype.is_float and value.op != CONSTANT
