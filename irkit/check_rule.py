"""Checking a rule by numbers: random instances of its left side, both sides computed, the results compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import numpy as np

from irkit.agree import agree, agree_on_runtime, has_value, sides, text
from irkit.dims import symbols_of
from irkit.errors import RewriteError, TypeRuleError
from irkit.instances import Instance, Retry, instances
from irkit.ir import Value, param
from irkit.near_misses import near_miss
from irkit.pattern import match, names_of
from irkit.rule import Decline, Match, Rule, Rules
from irkit.sweep import bound_by
from irkit.types import DType, Tensor, Tuple, dims_of, same_types
from irkit.vocabulary import CONSTANT, PARAM, SHAPE_VECTOR
from irkit.walk import post_order, rebuild

PATIENCE = 300
"""How many instances are tried for each that is wanted."""

NEAR = 6
"""How many near misses are made of each instance on which a rule fired."""


@attrs.frozen
class Checked:
    """How a check went: on how many instances the rule fired and both sides agreed; how often it declined, and why.

    `near_misses` counts instances that were changed a little, `near_fired` those of them on which the rule fired, and
    both sides agreed, too. `on_runtime` counts the instances that were compared on ONNX Runtime, `not_there` those that
    were not: no kernel for the element type, something empty, integers divided by what may be 0.
    """

    fired: int
    declined: tuple[tuple[str, int], ...]
    near_misses: int = 0
    near_fired: int = 0
    on_runtime: int = 0
    not_there: int = 0

    def __str__(self) -> str:
        lines = [
            f"fired on {self.fired} instances, where both sides agree",
            f"near misses: {self.near_misses}, of which it fired on {self.near_fired}, where both sides agree",
            f"compared on ONNX Runtime: {self.on_runtime}; no answer there: {self.not_there}",
        ]
        return "\n".join(lines + [f"declined {count} times: {reason}" for reason, count in self.declined])


@attrs.define(eq=False)
class Tally:
    """What a check has counted so far."""

    rule: Rule
    rng: np.random.Generator
    onnxruntime: bool
    declined: Counter[str] = attrs.field(factory=Counter)
    on_runtime: int = 0
    not_there: int = 0

    def attempt(self, roots: tuple[Value, ...], arrays: Mapping[Value, Any] | None, near: bool = False) -> bool:
        """True where the rule fires on values and both sides agree; False where it does not match, or declines.
        `arrays` are numbers for some of the parameters."""
        rule = self.rule
        params = tuple(v for v in post_order(roots) if v.op == PARAM)
        symbols = frozenset(s for v in params for d in dims_of(v.type) for s in bound_by(d))
        m = matched(rule, roots, lambda: symbols)
        if m is None:
            return False
        try:
            found = rule.function(m)
        except Exception as error:
            if near and arrays is not None and isinstance(error, TypeRuleError):
                self.declined["what it would build is refused"] += 1
                return False
            self.blame(f"fails with {error!r}", roots, params, arrays, error)
            return False
        if isinstance(found, Decline):
            self.declined[found.reason] += 1
            return False
        if found is m.root or found == m.roots:
            self.declined["it returned its own root"] += 1
            return False
        if not all(isinstance(each, Value) for each in (found if isinstance(found, tuple) else (found,))):
            raise RewriteError(
                f"the rule {rule.name} returned {found!r}", ir=text(*roots), hint="return a Value, or decline('why')"
            )
        old = m.roots if rule.others else m.root
        for one, other in zip(*sides(old, found), strict=True):
            if same_types(one.type, other.type) is False:
                self.blame(f"turns a {one.type!r} into a {other.type!r}", roots, params, arrays)
                return False
        given = None if arrays is None else {v: arrays[v] for v in params if v in arrays}
        if not agree(rule.name, old, found, params, self.rng, exact=rule.exact, given=given):
            return given is None
        if self.onnxruntime and not near:
            there = agree_on_runtime(rule.name, old, found, params, self.rng, given)
            self.on_runtime, self.not_there = self.on_runtime + there, self.not_there + (not there)
        return True

    def blame(
        self, what: str, roots: tuple[Value, ...], params: Any, arrays: Mapping[Value, Any] | None, error: Any = None
    ) -> None:
        """Raises RewriteError, unless the left side has no value: what nothing computes, no rule need foresee."""
        if not has_value(roots, params, self.rng, arrays or {}):
            return
        if isinstance(error, TypeRuleError):
            what = f"builds a value that is refused: {error.what}"
        raise RewriteError(f"the rule {self.rule.name} {what}", ir=text(*roots)) from error


def check(rule: Rule, n: int = 20, *, seed: int = 0, onnxruntime: bool = True) -> Checked:
    """Makes random instances of the rule's left side until it has fired on `n`, and compares both sides by numbers.

    Element types, shapes (with sizes 0 and 1, and symbols), constants and attributes are random. Of each instance on
    which the rule fired, near misses are made: another axis, constant, element type, size, operand or operator. The
    rule may decline them; where it fires, both sides must agree. An exact rule must agree bit for bit, NaN, infinities,
    the sign of zero and the ends of the integers' range included; others within the tolerances of `irkit.compare`.

    Args:
        rule: the rule to check.
        n: on how many instances it shall fire.
        seed: of the random generator.
        onnxruntime: whether both sides are also compared on ONNX Runtime, where it has kernels for them.

    Raises RewriteError, with the instance as text and the numbers, where the sides differ in type or numbers, or where
    no instance was found on which the rule fires (give it a `sample` then: a function from a random generator to an
    instance; see `irkit.rule`).
    """
    if not isinstance(rule, Rule):
        raise RewriteError(f"{rule!r} is no rule", hint="check one rule at a time, made by @irkit.rule(pattern)")
    tally = Tally(rule, np.random.default_rng(seed), onnxruntime)
    fired, near, near_fired = 0, 0, 0
    for _ in range(n * PATIENCE):
        if fired >= n:
            break
        made = drawn(rule, tally.rng)
        if made is None or not tally.attempt(made.roots, made.arrays):
            continue
        fired += 1
        for _ in range(NEAR):
            try:
                changed = near_miss(made.roots, tally.rng)
            except Retry:
                continue
            near += 1
            near_fired += tally.attempt(changed, made.arrays, near=True)
    if not fired:
        raise RewriteError(
            f"no instance was found on which the rule {rule.name} fires",
            hint=f"declined: {dict(tally.declined)}; give the rule a sample: "
            "@rule(pattern, sample=function_of_a_generator)",
        )
    declined = tuple(sorted(tally.declined.items()))
    return Checked(fired, declined, near, near_fired, tally.on_runtime, tally.not_there)


def sampled(rule: Rule, rng: np.random.Generator) -> tuple[Value, ...] | None:
    """A random instance of the left side of a rule, one value for each of its patterns; None where none was found."""
    found = drawn(rule, rng)
    return None if found is None else found.roots


def drawn(rule: Rule, rng: np.random.Generator) -> Instance | None:
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
    return Instance(found if isinstance(found, tuple) else (found,))


def matched(rule: Rule, roots: tuple[Value, ...], symbols: Callable[[], frozenset[Any]]) -> Match | None:
    """The match of a rule on values, one for each of its patterns; None where one of them does not fit."""
    bound: dict[str, Any] | None = {}
    for pattern, value in zip((rule.pattern, *rule.others), roots, strict=True):
        bound = match(pattern, value, None, None, bound)
        if bound is None:
            return None
    return Match(roots[0], bound, symbols, roots if rule.others else ())


# ---------------------------------------------------------------------------------------------- one application


def guarded(rules: Rules, *, seed: int = 0) -> Rules:
    """The rules, each of which compares both sides by numbers whenever it fires, on random content of what it fired on.

    For finding which rule breaks a graph: `rewrite(graph, guarded(rules))` raises RewriteError at the first wrong
    application, with the fragment before and after, and the numbers. Slow: each application looks at all that lies
    below it. Fragments that cannot be computed alone (an index drawn out of range) pass.
    """
    return tuple(_guarded(each, np.random.default_rng(seed)) for each in rules)


def _guarded(rule: Rule, rng: np.random.Generator) -> Rule:
    holes = names_of(rule.pattern)

    def function(m: Match) -> Any:
        found = rule.function(m)
        if not isinstance(found, Decline) and found is not m.root:
            given = [m.get(name) for name in holes]
            _agree_here(rule, m.root, found, frozenset(v for v in _flat(given) if isinstance(v, Value)), rng)
        return found

    return attrs.evolve(rule, function=function)


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from value
        else:
            yield value


def _agree_here(rule: Rule, root: Value, found: Any, holes: frozenset[Value], rng: np.random.Generator) -> None:
    new = found if isinstance(found, tuple) else (found,)
    order = post_order([root])
    below = set(order)
    shared = {v for v in post_order(new, stop=below.__contains__) for v in v.inputs if v in below}
    shared.update(v for v in new if v in below)
    over_shared = _above(order, shared)
    over_holes = _above(order, holes)
    ends = {v for v in shared if v not in over_holes} | {v for v in holes if v not in over_shared}
    cut = {v: param(v.type) for v in order if v is not root and v in ends and _is_data(v)}
    if isinstance(root.type, Tuple) != isinstance(found, tuple):
        return
    built = rebuild((root, *new), cut)
    params = tuple(p for p in post_order([built[v] for v in (root, *new)]) if p.op == PARAM)
    after = tuple(built[v] for v in new) if isinstance(found, tuple) else built[found]
    if all(isinstance(p.type, Tensor) for p in params):
        params += _binding(post_order([built[v] for v in (root, *new)]), params)
        agree(rule.name, built[root], after, params, rng, exact=rule.exact)


def _above(order: tuple[Value, ...], below: Iterable[Value]) -> set[Value]:
    """The values of `order` that depend on one of `below`."""
    marks, found = set(below), set()
    for value in order:
        if any(v in marks or v in found for v in value.inputs):
            found.add(value)
    return found


def _binding(values: Iterable[Value], params: tuple[Value, ...]) -> tuple[Value, ...]:
    """One more parameter, in whose type every symbol stands that the values use and no parameter binds."""
    known = {s for v in params for d in dims_of(v.type) for s in bound_by(d)}
    used: dict[Any, None] = {}
    for value in values:
        for dim in (*dims_of(value.type), *(value.attribute("dims", ()) if value.op == SHAPE_VECTOR else ())):
            used.update(dict.fromkeys(s for s in symbols_of(dim) if s not in known))
    return (param(Tensor(DType.FLOAT, tuple(used))),) if used else ()


def _is_data(value: Value) -> bool:
    """True for a tensor of floats that is no constant: of sizes, positions and masks, and of numbers that are written
    down, a rule may know more than their types say."""
    return isinstance(value.type, Tensor) and value.dtype.is_float and value.op != CONSTANT
