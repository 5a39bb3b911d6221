"""The driver: one bottom-up sweep that rebuilds, shares, applies rules, and remembers what is settled."""

from __future__ import annotations

from collections import Counter
from functools import cache, lru_cache, partial
from operator import attrgetter
from time import perf_counter
from typing import Any, cast

import attrs
import sympy

from irkit import dims
from irkit.build import retyping
from irkit.core import walk
from irkit.core.ir import Graph, Value
from irkit.core.operator_names import plain_name
from irkit.core.origins import NOWHERE, Origin
from irkit.core.types import dims_of, types_of
from irkit.core.vocabulary import CONSTANT, ITEM, PARAM
from irkit.errors import AbsentError, DimensionError, RewriteError, TypeRuleError
from irkit.pattern import Pattern, match
from irkit.pattern.heads import Guard, asks_users, guards, narrowed_pattern, root_ops
from irkit.rewriting.firings import Firing, Told
from irkit.rewriting.joint_rules import together
from irkit.rewriting.numbering import Bodies, Numbering, with_bodies
from irkit.rewriting.rules import Decline, Match, Rule, Rules
from irkit.rewriting.type_checks import foreign_error, refuse_no_values, refuse_other_type, refused_error
from irkit.support.results import as_tuple
from irkit.support.tracebacks import is_told

__tracebackhide__ = is_told

DEPTH = 500
"""How many replacements in a row may grow out of one value before the rules are said to run in a circle."""

SWEEPS = 100
"""How often a graph is swept again, for patterns that ask how many users a value has and rules of several roots, before
the rules are said to feed each other."""

NEAR = 8
"""How many operands are looked at to see that a replacement does not use a value any more."""

WIDE = 6
"""Of operators with more operands than this, which rules may match is not remembered."""

REMEMBERED = 1 << 14
"""Of how many operators with their operands that is remembered: files name operators as they like."""


_OP = attrgetter("op")

Result = Value | tuple[Value, ...]
"""What stands for a value: another, or one for each result of an operator with several."""

Fired = tuple[Any, Rule]
"""What a rule made, and the rule."""

Heads = str | tuple[str | None, ...]
"""The operator of a value that has no operands, or with those of its operands."""

Attempts = tuple[tuple[Rule, Pattern, tuple[Guard, ...]], ...]
"""Rules that may match, each with what its pattern comes to there, and cheap conditions that are necessary for it."""


class Index:
    """Which rules of a set may match a value. A pure function of the rules, which remembers some of its answers."""

    def __init__(self, rules: Rules) -> None:
        self.joint = tuple(each for each in rules if each.others)
        alone = tuple(each for each in rules if not each.others)
        self.asks_users = any(asks_users(each.pattern) for each in alone)
        self._roots = [(each, root_ops(each.pattern)) for each in alone]
        anywhere = any(ops is None for _, ops in self._roots)
        self.roots = None if anywhere else frozenset(op for _, ops in self._roots for op in ops or ())
        self._by_op: dict[str, Rules] = {}
        self._candidates: dict[Heads, Attempts] = {}

    def candidates(self, value: Value) -> Attempts:
        """The rules that may match, in the order of the rule set, judged by the operator of the value and those of
        its operands."""
        op, inputs = value.op, value.inputs
        key: Any = op
        try:
            if inputs:
                key = (op, *map(_OP, inputs))
        except AttributeError:  # of None, which stands for an operand that is left out
            key = (op, *[None if v is None else v.op for v in inputs])
        found = self._candidates.get(key)
        if found is None:
            operands = tuple([None if o is None else plain_name(o) for o in key[1:]]) if inputs else ()
            found = self._possible(op, operands)
            if len(inputs) <= WIDE and len(self._candidates) < REMEMBERED:
                self._candidates[(plain_name(op), *operands) if inputs else plain_name(op)] = found
        return found

    def _possible(self, op: str, operands: tuple[str | None, ...]) -> Attempts:
        op = plain_name(op)
        rules = self._by_op.get(op)
        if rules is None:
            rules = tuple(each for each, ops in self._roots if ops is None or op in ops)
            if len(self._by_op) < REMEMBERED:
                self._by_op[op] = rules
        left = ((rule, narrowed_pattern(rule.pattern, op, operands)) for rule in rules)
        return tuple((rule, pattern, guards(pattern)) for rule, pattern in left if pattern is not None)


@lru_cache(maxsize=64)
def index_of(rules: Rules) -> Index:
    """The index of a rule set, which every graph that the set is applied to shares."""
    return Index(rules)


class Plan:
    """What all sweeps of one call share: the rules by operator, the bodies that were rewritten already, and the values
    at which no rule applies. Those need no second try, since rules look only downward; they are kept by the parameters
    of their graph, which say what symbols are bound.

    `tidy` are rules for values that are new, or over new operands: what a graph holds from the beginning is left alone.
    `told` is told of each firing. `declined` are the values at which a rule might have applied, as the conditions that
    are asked first say, and did not.
    """

    def __init__(self, rules: Rules, depth: int = DEPTH, tidy: Rules = (), told: Told | None = None) -> None:
        self.rules, self.depth, self.told = rules, depth, told
        index = index_of(rules + tidy)
        self.asks_users, self.candidates, self.joint = index.asks_users, index.candidates, index.joint
        self.roots = index.roots
        self.first_candidates = index_of(rules).candidates if tidy else index.candidates
        self.tried: dict[tuple[Value, ...], set[Value]] = {}
        self.declined: set[Value] = set()
        self._bodies = Bodies()

    def rewrite(self, graph: Graph, around: Graph | None = None) -> Graph:
        """The graph swept once, or, where patterns ask for users or have several roots, until nothing changes; a body
        within the ranges that the graph around it has for its symbols."""
        fired: Counter[str] = Counter()
        for round in range(SWEEPS):
            if round == SWEEPS // 2:
                fired.clear()
            sweep = Sweep(graph, self, around)
            after = sweep.run()
            fired.update(sweep.fired_rules)
            again = after is not graph and self.asks_users and sweep.has_freed(after)
            if self.joint and not again:
                start = perf_counter()
                joined, taken = together(after, self.joint, partial(symbols_of, after), sweep.facts())
                fired.update({each.rule.name for each in taken})
                after, again = joined, joined is not after
                if self.told is not None and taken:
                    seconds = (perf_counter() - start) / len(taken)
                    for each in taken:
                        self.told(Firing(each.rule, each.roots, each.roots, each.made, seconds))
            if not again:
                return after
            graph = after
        raise RewriteError(
            f"the rules {', '.join(sorted(fired))} feed each other: {graph!r} still changes after {SWEEPS} sweeps",
            hint="each rule must lead to a simpler form; apply two that undo each other in separate passes",
        )

    def applies(self, graph: Graph, around: Graph | None = None) -> bool:
        """True where a rule of one root applies to a value of a graph or of its bodies."""
        sweep, roots = Sweep(graph, self, around), self.roots
        for value in graph.order:
            op = value.op
            rules = self.candidates(value) if op != PARAM and (roots is None or op in roots) else ()
            if rules and sweep.fired(value, rules) is not None:
                return True
            if value.bodies and any(self.applies(body, sweep.facts()) for body in value.bodies):
                return True
        return False

    def body(self, body: Graph, around: Graph) -> Graph:
        """A body of a graph rewritten; each distinct one is rewritten once."""
        key = self._bodies.key(body)
        known = self._bodies.known
        if key not in known:
            known[key] = body, self.rewrite(body, around)
        return known[key][1]


@attrs.define(eq=False)
class Trail:
    """Why a value is looked at: the origin that it takes, and the rules that fired on the way to it."""

    origin: Origin
    depth: int = 0
    rule: str = ""
    before: Trail | None = None

    def after(self, rule: str) -> Trail:
        """The trail of what `rule` built."""
        return Trail(self.origin.after(rule), self.depth + 1, rule, self)

    def rules(self) -> list[str]:
        """The rules that fired, the last first, each once."""
        names: dict[str, None] = {}
        trail: Trail | None = self
        while trail is not None and len(names) < 8:
            if trail.rule:
                names[trail.rule] = None
            trail = trail.before
        return list(names)


class Sweep:
    """One pass over one closed graph. Its tables die with it.

    A value is *settled* when its operands are settled and no rule matches it. `swaps` maps each other value that was
    met to the settled one that stands for it (a tuple of them, for an operator with several results).
    """

    def __init__(self, graph: Graph, plan: Plan, around: Graph | None = None) -> None:
        # Nothing that a rule may keep refers to this: a weight that is computed late would hold all graphs of the way.
        self.graph, self.plan, self._around = graph, plan, around
        self.table = Numbering()
        self.settled: set[Value] = set(graph.params)
        self.swaps: dict[Value, Any] = {}
        self.active: set[Value] = set()
        self.symbols, self.asks_users = cache(partial(symbols_of, graph)), plan.asks_users
        self._olds: dict[Value, list[Value]] = {}
        self.fired_rules: set[str] = set()
        self._shared: set[Value] = set()
        self._results: Counter[Value] | None = None
        self._tried = plan.tried.setdefault(graph.params, set())
        self._kept_back = 0
        self._seconds = 0.0

    def facts(self) -> Graph:
        """The graph, of whose symbols that is known that the graphs around it know."""
        around = self._around.symbols if self._around is not None else None
        return self.graph.with_symbols({**around, **self.graph.symbols}) if around else self.graph

    def run(self) -> Graph:
        """The graph rewritten; the very same object where nothing changes."""
        swaps, settled, tried, first = self.swaps, self.settled, self._tried, self.table.first
        candidates, first_candidates, roots = self.plan.candidates, self.plan.first_candidates, self.plan.roots
        for value in self.graph.order:
            op = value.op
            if op == PARAM:
                continue
            new = value
            if swaps and not swaps.keys().isdisjoint(value.inputs):
                if op == ITEM or value.bodies:
                    self.settle(value)
                    continue
                new = self.moved(value, value.origin)
            elif value.bodies:
                self.settle(value)
                continue
            found = first(new)
            if found is not new:
                self.note(value, swaps.get(found, found))
                continue
            rules: Attempts = ()
            if (roots is None or op in roots) and new not in tried:
                rules = first_candidates(new) if new is value else candidates(new)
            fired = self.fired(new, rules) if rules else None
            if fired is not None:
                self.tell(value, new, fired)
                made, rule = fired
                if type(made) is Value and (made in settled or made in swaps or self.placed(made, value, rule)):
                    self.fired_rules.add(rule.name)
                    found = swaps.get(made, made)
                    self.note(value, found)
                    if new is not value:
                        self.note(new, found)
                else:
                    self.settle(value, fired, new)
                continue
            settled.add(new)
            if new is not value:
                self.note(value, new)
        if not swaps:
            return self.graph
        return self.graph.with_results(swaps.get(r, r) for r in self.graph.results)

    def placed(self, made: Value, root: Value, rule: Rule) -> bool:
        """Settles a replacement of `root` that is a constant to which no rule applies. False for any other."""
        if made.op != CONSTANT or self.plan.candidates(made):
            return False
        new = made.with_origin(root.origin.after(rule.name)) if made.origin is NOWHERE else made
        found = self.table.first(new)
        if found is new:
            self.settled.add(new)
        if found is not made:
            self.note(made, self.swaps.get(found, found))
        return True

    def note(self, old: Value, new: Any) -> None:
        """`new` stands for `old` from now on."""
        self.swaps[old] = new
        if self.asks_users and type(new) is Value:
            olds = self._olds
            if new in olds:
                olds[new].append(old)
            else:
                olds[new] = [old]

    def settle(self, root: Value, fired: Fired | None = None, rebuilt: Value | None = None) -> None:
        """Settles `root` and what it reaches, operands first. A replacement is itself settled before it stands for
        anything. `fired` is the replacement of `root`, where that is known, or of `rebuilt`, which is `root` over
        settled operands. Written with a stack: depth is decided by the input."""
        settled, swaps, active, depth = self.settled, self.swaps, self.active, self.plan.depth
        stack: list[tuple[Any, tuple[Value, ...], Trail]] = []
        trail = Trail(root.origin)
        if fired is None:
            stack.append((root, (), trail))
        else:
            self.push(stack, fired, (root,) if rebuilt is None or rebuilt is root else (root, rebuilt), trail)
        while stack:
            value, waiting, trail = stack.pop()
            if waiting:
                found = self.resolved(value)
                for each in waiting:
                    self.note(each, found)
                active.difference_update(waiting)
                continue
            if value in settled or value in swaps:
                continue
            pending = [v for v in value.inputs if v is not None and v not in settled and v not in swaps]
            if pending:
                stack.append((value, (), trail))
                stack.extend([(v, (), trail) for v in reversed(pending)])
                continue
            if value in active or trail.depth > depth:
                self.refuse_circle(value, trail)
            rebuilt, fired = self.step(value, trail)
            if fired is not None:
                self.tell(value, rebuilt, fired)
                self.push(stack, fired, (value,) if rebuilt is value else (value, rebuilt), trail)

    def push(self, stack: list[Any], fired: Fired, waiting: tuple[Value, ...], trail: Trail) -> None:
        """Puts a replacement on the stack, and below it the values that wait for what it becomes."""
        replacement, rule = fired
        self.fired_rules.add(rule.name)
        self.active.update(waiting)
        trail = trail.after(rule.name)
        stack.append((replacement, waiting, trail))
        if type(replacement) is Value:
            stack.append((replacement, (), trail))
        else:
            stack.extend([(v, (), trail) for v in reversed(replacement)])

    def resolved(self, value: Any) -> Any:
        """The settled value, or tuple of values, that stands for `value`."""
        if type(value) is tuple:
            return tuple(self.swaps.get(v, v) for v in cast("tuple[Value, ...]", value))
        return self.swaps.get(value, value)

    def step(self, value: Value, trail: Trail) -> tuple[Value, Fired | None]:
        """(rebuilt, fired): the value over settled operands, and the rule that fires at it, with what it makes.
        Where none does, the value is settled."""
        swaps = self.swaps
        source = value.inputs[0] if value.op == ITEM else None
        if source is not None and type(swaps.get(source)) is tuple:
            self.note(value, swaps[source][value.attributes[0][1]])
            return value, None
        rebuilt = self.rebuilt(value, trail)
        found = self.table.first(rebuilt)
        if found is not rebuilt:
            if found in self.active:
                self.refuse_circle(found, trail)
            self.note(value, swaps.get(found, found))
            return rebuilt, None
        rules = () if rebuilt in self._tried else self.plan.candidates(rebuilt)
        fired = self.fired(rebuilt, rules) if rules else None
        if fired is None:
            self.settled.add(rebuilt)
            if rebuilt is not value:
                self.note(value, rebuilt)
        return rebuilt, fired

    def fired(self, value: Value, rules: Attempts) -> Fired | None:
        """The first of the rules that applies to a value, with what it makes of it."""
        kept_back, is_timed = self._kept_back, self.plan.told is not None
        for rule, pattern, conditions in rules:
            try:
                for guard in conditions:
                    if not guard(value):
                        break
                else:
                    start = perf_counter() if is_timed else 0.0
                    replacement = self.applied(rule, pattern, value)
                    if replacement is not None:
                        if is_timed:
                            self._seconds = perf_counter() - start
                        return replacement, rule
                    self.plan.declined.add(value)
            except AbsentError:  # a rule that depends on the numbers of a weight cannot apply without them
                self.plan.declined.add(value)
        if self._kept_back == kept_back:  # else a user may go, and the rule that minded it apply
            self._tried.add(value)
        return None

    def tell(self, root: Value, found: Value, fired: Fired) -> None:
        """Tells who wants to know that a rule fired at a value, which is `found` over settled operands."""
        told = self.plan.told
        if told is not None:
            told(Firing(fired[1], (root,), (found,), as_tuple(fired[0]), self._seconds))

    def refuse_circle(self, value: Value, trail: Trail) -> None:
        """Raises RewriteError where `value` is being replaced by something that contains it, or rules run on."""
        if value in self.active or trail.depth > self.plan.depth:
            raise RewriteError(
                f"the rules {', '.join(trail.rules())} run in a circle",
                ir=repr(value),
                source=str(trail.origin),
                hint="each rule must lead to a simpler form; apply two that undo each other in separate passes",
            )

    def rebuilt(self, value: Value, trail: Trail) -> Value:
        """`value` over settled operands, with rewritten bodies and an origin."""
        if value.op == PARAM:
            raise foreign_error(trail.rule, trail.origin)
        origin = trail.origin if value.origin is NOWHERE and trail.depth else value.origin
        if not self.swaps.keys().isdisjoint(value.inputs):
            new = self.moved(value, origin)
        else:
            new = value if origin is value.origin else value.with_origin(origin)
        if value.bodies:
            new = with_bodies(new, tuple(self.plan.body(body, self.facts()) for body in value.bodies))
        return new

    def moved(self, value: Value, origin: Origin) -> Value:
        """`value` over what stands for its operands, with an origin."""
        swaps = self.swaps
        try:
            return retyping.over(value, tuple(map(swaps.get, value.inputs, value.inputs)), origin)  # type: ignore[arg-type]
        except TypeRuleError as error:
            raise RewriteError(
                f"after the rewrites below it, {value.op} is refused: {error.what}",
                ir=error.ir,
                source=str(value.origin),
                hint="irkit.check_rule finds the rule that makes a value of another type",
            ) from error

    # ------------------------------------------------------------------------------------------ one rule

    def applied(self, rule: Rule, pattern: Pattern, value: Value) -> Result | None:
        """What the rule makes of `value`, an instance of `pattern`, checked; None where it is none, or declined."""
        bound = match(pattern, value, self.users if self.asks_users else None)  # kept, it would be a cycle
        if bound is None:
            return None
        try:
            found = rule.function(Match(value, bound, self.symbols))
        except TypeRuleError as error:
            raise refused_error(rule, value, error) from error
        except DimensionError:  # a size of the replacement would be a vast expression
            return None
        if type(found) is Decline or found is value:
            return None
        if type(found) is not Value:
            refuse_no_values(rule, (value,), found)
            return self.checked_results(rule, value, cast("tuple[Value, ...]", found))
        if found.type == value.type:
            return found
        refuse_other_type(rule, value, found, value.type, self.facts())
        if retyping.loses(found.type, value.type):
            if found in self.settled or found in self.swaps:
                return None  # the value would be right, but what is known of its dimensions would be lost
            found = found.with_type(retyping.refined_type(found.type, value.type))
        return found

    def checked_results(self, rule: Rule, value: Value, found: tuple[Value, ...]) -> tuple[Value, ...]:
        """The tuple of values that stands for the results of an operator with several."""
        for new, type_ in zip(found, types_of(value.type), strict=True):
            refuse_other_type(rule, value, new, type_, self.facts())
        return found

    def users(self, value: Value) -> int:
        """How many values of the graph use `value`, or what it stands for; being a result counts as a use."""
        if self._results is None:
            self._results = Counter(self.graph.results)
        users, results, swaps = self.graph.users, self._results, self.swaps
        found = 0
        for each in (value, *self._olds.get(value, ())):
            found += results.get(each, 0)
            for user in users.get(each, ()):
                stands = swaps.get(user)
                # One that `value` itself stands for has its own users counted in its place.
                if stands is None or (stands is not value and may_use(stands, value)):
                    found += 1
        if found > 1:
            self._shared.add(value)
            self._kept_back += 1
        return max(1, found)

    def has_freed(self, after: Graph) -> bool:
        """True where a value that a pattern wanted for itself, and that others used, has one user in the graph `after`
        the sweep: then the rule may apply now. Some that the sweep replaced were counted with all their users."""
        if not self._shared:
            return False
        shared = self._shared
        count = Counter(v for v in after.results if v in shared)
        for value in after.order:
            if not shared.isdisjoint(value.inputs):
                count.update(shared.intersection(value.inputs))
        return 1 in count.values()


def may_use(user: Value | tuple[Value, ...], value: Value) -> bool:
    """False where `user`, or what it is made of, certainly does not use a value, which the next few operands show."""
    if isinstance(user, tuple):
        return True
    pending = [user]
    for _ in range(NEAR):
        if not pending:
            return False
        each = pending.pop()
        if each is value:
            return True
        pending += [v for v in each.inputs if v is not None and v.inputs and v not in value.inputs]
    return True


def symbols_of(graph: Graph) -> frozenset[sympy.Symbol]:
    """The symbols that the types of the graph's parameters bind."""
    return frozenset(s for kind in walk.types(graph.params) for d in dims_of(kind) for s in bound_by(d))


def bound_by(dim: Any) -> tuple[sympy.Symbol, ...]:
    """The symbol whose value follows from that of the dimension, in a tuple; () where none does."""
    found = dims.symbols_of(dim)
    if len(found) != 1 or dim is found[0]:
        return found if found and dim is found[0] else ()
    linear = dim.is_polynomial(found[0]) and dim.coeff(found[0], 1) != 0 and not dim.coeff(found[0], 2)
    return found if linear else ()
