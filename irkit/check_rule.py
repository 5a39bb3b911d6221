"""Checking a rule by numbers: random instances of its left side, both sides computed, the results compared."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np

from irkit.compare import compare
from irkit.dims import symbols_of
from irkit.errors import EvaluateError, RewriteError, TypeRuleError
from irkit.evaluate import evaluate
from irkit.instances import Retry, feeds, instance, results_of
from irkit.ir import Graph, Value, param
from irkit.pattern import Either, OfConstants, Op, Pattern, match
from irkit.rule import Decline, Match, Rule, Rules
from irkit.sweep import bound_by
from irkit.types import DType, Tensor, Tuple, dims_of, same_types
from irkit.vocabulary import CONSTANT, PARAM, SHAPE_VECTOR
from irkit.walk import post_order, rebuild

PATIENCE = 300
"""How many instances are tried for each that is wanted."""


@attrs.frozen
class Checked:
    """How a check went: on how many instances the rule fired and both sides agreed; how often it declined, and why."""

    fired: int
    declined: tuple[tuple[str, int], ...]


def check(rule: Rule, n: int = 20, *, seed: int = 0) -> Checked:
    """Makes random instances of the rule's left side until it has fired on `n`, and compares both sides by numbers.

    Element types, shapes (with sizes 0 and 1, and symbols), constants and attributes are random. An exact rule must
    agree bit for bit, NaN, infinities and the sign of zero included; others within the tolerances of `irkit.compare`.

    Raises RewriteError, with the instance as text, where the sides differ in type or numbers, or where no instance was
    found on which the rule fires (give it a `sample` then: a function from a random generator to an instance).
    """
    rng = np.random.default_rng(seed)
    fired, declined = 0, dict[str, int]()
    for _ in range(n * PATIENCE):
        if fired >= n:
            break
        reason = _attempt(rule, rng)
        if reason is None:
            fired += 1
        elif reason:
            declined[reason] = declined.get(reason, 0) + 1
    if not fired:
        raise RewriteError(
            f"no instance was found on which the rule {rule.name} fires",
            hint=f"declined: {declined}; give the rule a sample: @rule(pattern, sample=function_of_a_generator)",
        )
    return Checked(fired, tuple(sorted(declined.items())))


def _attempt(rule: Rule, rng: np.random.Generator) -> str | None:
    """None where the rule fired on a random instance and both sides agree; else why not ("" for no instance)."""
    try:
        root = instance(rule.pattern, rng) if rule.sample is None else rule.sample(rng)
    except (Retry, TypeRuleError):
        return ""
    bound = match(rule.pattern, root)
    if bound is None:
        return ""
    params = tuple(v for v in post_order([root]) if v.op == PARAM)
    symbols = frozenset(s for v in params for d in dims_of(v.type) for s in bound_by(d))
    try:
        found = rule.function(Match(root, bound, lambda: symbols))
    except TypeRuleError as error:
        raise RewriteError(
            f"the rule {rule.name} builds a value that is refused: {error.what}", ir=text(root)
        ) from error
    if isinstance(found, Decline):
        return found.reason
    if found is root:
        return "it returned its own root"
    if not all(isinstance(each, Value) for each in (found if isinstance(found, tuple) else (found,))):
        raise RewriteError(
            f"the rule {rule.name} returned {found!r}", ir=text(root), hint="return a Value, or decline('why')"
        )
    agree(rule.name, root, found, params, rng, exact=rule.exact)
    return None


def agree(
    name: str, root: Value, found: Any, params: tuple[Value, ...], rng: np.random.Generator, *, exact: bool
) -> None:
    """Raises RewriteError where `root` and what the rule made of it differ, on random feeds of `params`."""
    new = found if isinstance(found, tuple) else results_of(found)
    old = results_of(root)
    for a, b in zip(old, new, strict=True):
        if same_types(a.type, b.type) is False:
            raise RewriteError(f"the rule {name} turns a {a.type!r} into a {b.type!r}", ir=text(root))
    arrays = feeds(params, rng, special=exact)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's, of means of nothing
        try:
            expected = evaluate(Graph(params, old), arrays)
        except EvaluateError:
            return  # sizes that do not fit: the left side has no value, and says nothing of the right
        actual = evaluate(Graph(params, tuple(new)), arrays)
    for one, other in zip(expected, actual, strict=True):
        difference = compare(one, other)
        if difference is None and exact and not same_bits(one, other):
            difference = "the bits differ, and the rule is said to be exact"
        if difference is not None:
            raise RewriteError(
                f"the two sides of the rule {name} differ: {difference}",
                ir=f"{text(root)}\nis not\n{text(*new)}",
                source="\n".join(f"{p.type!r} = {a.tolist()}" for p, a in zip(params, arrays, strict=True)),
            )


def same_bits(a: Any, b: Any) -> bool:
    """True for arrays that are equal to the bit, all NaN being one."""
    if not isinstance(a, np.ndarray) or not DType.of(a.dtype).is_float:
        return bool(np.array_equal(a, b))
    x, y = a.astype(np.float64), b.astype(np.float64)
    return bool(np.array_equal(x, y, equal_nan=True) and np.array_equal(np.signbit(x[x == 0]), np.signbit(y[y == 0])))


def text(*results: Value) -> str:
    """The values as a graph over the parameters that they reach."""
    params = tuple(v for v in post_order(results) if v.op == PARAM)
    flat = tuple(r for value in results for r in results_of(value))
    return str(Graph(params, flat, name="instance"))


# ---------------------------------------------------------------------------------------------- one application


def guarded(rules: Rules, *, seed: int = 0) -> Rules:
    """The rules, each of which compares both sides by numbers whenever it fires, on random content of what it fired on.

    For finding which rule breaks a graph: `rewrite(graph, guarded(rules))` raises RewriteError at the first wrong
    application, with the fragment before and after, and the numbers. Slow: each application looks at all that lies
    below it. Fragments that cannot be computed alone (an index drawn out of range) pass.
    """
    return tuple(_guarded(each, np.random.default_rng(seed)) for each in rules)


def _guarded(rule: Rule, rng: np.random.Generator) -> Rule:
    holes = hole_names(rule.pattern)

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


def hole_names(pattern: Pattern) -> frozenset[str]:
    """The names of the holes of a pattern, those of named operators left out."""
    if isinstance(pattern, Either):
        return frozenset().union(*map(hole_names, pattern.choices))
    if isinstance(pattern, Op):
        return frozenset().union(*map(hole_names, pattern.operands))
    return frozenset() if isinstance(pattern, OfConstants) else frozenset((pattern.name,))


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
