"""Rules that are proved: for all sizes, where they only move elements, or calculate with integers, real numbers or in
logic.

All forms of the left side up to a rank are enumerated: every rank of every hole, sizes as symbols, or 1 where an
operand may be broadcast, every permutation and axis, every element type. The rule is applied to each, and both sides
must have the same elements (`irkit.proofs.elements`). What the enumeration cannot reach, numbers of any kind,
further operands of any count, predicates, is no case for a proof, and is said to be none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice, permutations, product
from typing import Any, cast

import attrs
import numpy as np

from irkit import dims
from irkit.build import call, const
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor, dims_of, same_types
from irkit.core.vocabulary import PARAM
from irkit.core.walk import post_order
from irkit.errors import IrkitError, RewriteError
from irkit.ops.schemas import TYPE_STRINGS
from irkit.pattern import Attr, Constant, Either, Hole, Op, Pattern
from irkit.pattern.heads import named_parts, number_in, parts
from irkit.pattern.language import ABSENT, row_of
from irkit.pattern.predicates import Is
from irkit.proofs.contractions import Unprovable
from irkit.proofs.elements import BITWISE, CONTRACTED, EACH, MOVED, are_equal
from irkit.rewriting.driver import bound_by
from irkit.rewriting.rules import Rule
from irkit.rewriting.sides import match_of, sides
from irkit.rewriting.type_checks import values_given
from irkit.support.arguments import require_count

RANK = 4
CASES = 2500
"""How many forms of one rule are looked at, at most: a rule with more is proved up to a lower rank."""

POSITIONS = 7
"""How many axes the operands of products of matrices have together, at most: each may be of the size of any other."""

SIZES = (0.0, 1e-30, 1e-3, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 7.0, 10.0, 64.0, 100.0, 127.0, 255.0, 1e30, float("inf"))
OTHERS = (float("nan"), *SIZES, *(-size for size in SIZES))
"""Numbers that a constant of one number is not, but for one of them."""

INTEGERS = tuple(d for d in DType if d.is_integer and d.bits >= 8)
COUNTED = frozenset(("perm", "axis", "to", "allowzero"))
"""Attributes of which all values are tried."""

CALCULATED = frozenset(("Add", "Sub", "Mul", "Neg", "Sum"))
ORDERED_FOR_FLOATS = frozenset(("Max", "Min"))
"""Operators whose operands may change places for integers only."""
LOGICAL = frozenset(("And", "Or", "Xor", "Not"))


@attrs.frozen
class Proof:
    """Whether a rule is proved, and of what: `rank` is the highest of the operands, `cases` how many forms of the left
    side it fired on. `about` says what was proved; `reason`, where it is not, why."""

    rule: str
    proved: bool
    rank: int = 0
    cases: int = 0
    declined: int = 0
    about: str = ""
    reason: str = ""

    def __bool__(self) -> bool:
        return self.proved

    def __str__(self) -> str:
        return f"{self.rule} is " + (f"proved {self.extent}" if self.proved else f"not proved: {self.reason}")

    @property
    def extent(self) -> str:
        """Of what it is proved, in words."""
        return (
            f"for all sizes up to rank {self.rank}, {self.about}: {self.cases} forms of its left side, "
            f"{self.declined} of which it declines"
        )


def prove(rule: Rule, rank: int = RANK) -> Proof:
    """Whether a rule is true for all sizes: proved by what each element of both sides is, instead of by samples.

    It qualifies where its patterns are made of operators that move elements (Transpose, views, Expand, Concat, Split,
    Gather and Slice by constants), work on each alone or multiply matrices, and their holes and attributes can be
    enumerated. Operators on each element stay uninterpreted, but for logic, and for sums, differences and products of
    integers, which are polynomials modulo the powers of two of their types. A rule that is not exact speaks of real
    numbers: then floats are calculated with as such.

    Args:
        rule: the rule.
        rank: how high the ranks of the operands may be; fewer where there are too many forms.

    Returns the proof, false where there is none, with the reason. Sizes are symbols, or the number 1: what the rule
    does where it is told another number, as for a size that is known to be 7, is not proved by it, and drawn by
    `irkit.check_rule`. A rule that is not proved may be true. Raises RewriteError for what is not a rule, for one that
    returns no value, and for a rank that is no whole number from 0 on.
    """
    if not isinstance(rule, Rule):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may give anything
        raise RewriteError(f"{rule!r} is not a rule", hint="prove one rule at a time; of an equation, equation.prove()")
    rank = require_count(rank, "rank", RewriteError)
    patterns = (rule.pattern, *rule.others)
    reason = first_hindrance(patterns)
    if reason:
        return Proof(rule.name, False, reason=reason)
    tried: list[Proof] = []
    for dtypes, about in element_types(frozenset[str]().union(*map(operators, patterns)), rule.exact):
        tried.append(proof_for(rule, patterns, rank, dtypes, about))
        if tried[-1]:
            return tried[-1]
    return max(tried, key=lambda found: not found.reason.startswith("it "))  # what says most


def proof_for(rule: Rule, patterns: tuple[Pattern, ...], rank: int, dtypes: tuple[DType, ...], about: str) -> Proof:
    """The proof for some element types, up to the highest rank whose forms are not too many."""
    least = min(rank, 1)
    while rank >= least:
        try:
            fired, declined = proved_forms(rule, patterns, rank, dtypes)
        except TooMany:
            rank -= 1
            continue
        except Unprovable as error:
            return Proof(rule.name, False, reason=str(error))
        except RewriteError:  # the rule breaks its contract
            raise
        except IrkitError as error:
            return Proof(rule.name, False, reason=f"not all of its forms can be made: {error.what}")
        if not fired:
            return Proof(rule.name, False, reason=f"it fires on none of {declined} forms")
        return Proof(rule.name, True, rank, fired, declined, about)
    return Proof(rule.name, False, reason="it has too many forms")


def element_types(ops: frozenset[str], exact: bool) -> Iterator[tuple[tuple[DType, ...], str]]:
    """Element types for which a rule over these operators may be proved, the first up to the highest rank, and what
    they are called: all, or those that are calculated with. Of a rule that is not exact, floats stand for real numbers:
    that is what it says of them."""
    if not exact:
        yield (DType.FLOAT, *(d for d in DType if d is not DType.FLOAT)), "of integers and real numbers"
        yield (DType.FLOAT, *(d for d in DType if d.is_float and d is not DType.FLOAT)), "of real numbers"
        return
    yield (DType.FLOAT, *(d for d in DType if d is not DType.FLOAT)), "of all element types"
    if ops & (CALCULATED | BITWISE | ORDERED_FOR_FLOATS):
        yield (DType.INT64, *(d for d in INTEGERS if d is not DType.INT64)), "of integers"
    if ops & LOGICAL:
        yield (DType.BOOL,), "of booleans"


class TooMany(Exception):
    """There are more forms than are looked at."""


def proved_forms(rule: Rule, patterns: tuple[Pattern, ...], rank: int, dtypes: tuple[DType, ...]) -> tuple[int, int]:
    """On how many forms the rule fires, and how many it declines. Raises Unprovable where one is not shown."""
    fired = declined = 0
    for number, roots in enumerate(islice(forms(patterns, rank, dtypes), CASES + 1)):
        if number == CASES:
            raise TooMany
        params = [v for v in post_order(roots) if v.op == PARAM]
        symbols = frozenset(s for v in params for d in dims_of(v.type) for s in bound_by(d))
        m, found = match_of(rule, roots, lambda known=symbols: known), None
        is_refused = True
        with suppress(IrkitError):
            found, is_refused = None if m is None else rule.function(m), False
        if m is None or is_refused or values_given(rule, m.roots, found) is None:
            declined += m is not None
            continue
        fired += 1
        for one, other in zip(*sides(m.roots if rule.others else m.root, found), strict=True):
            if same_types(one.type, other.type) is not True:
                raise Unprovable(f"a {one.type!r} becomes a {other.type!r}")
            are_equal(one, other, of_reals=not rule.exact)
    return fired, declined


# ---------------------------------------------------------------------------------------------- what can be enumerated


def operators(pattern: Pattern) -> frozenset[str]:
    """The operators of a pattern."""
    own = frozenset(pattern.ops) if isinstance(pattern, Op) else frozenset[str]()
    return own.union(*map(operators, parts(pattern)))


def hindrance(pattern: Pattern) -> str:
    """Why not all forms of a pattern can be enumerated; empty where they can."""
    if isinstance(pattern, Op):
        strange = sorted(set(pattern.ops) - MOVED - EACH - CONTRACTED)
        if strange:
            return f"{strange[0]} neither moves elements nor works on each"
        if pattern.bodies or (pattern.any_attributes and set(open_attributes(pattern)) - COUNTED):
            return "its attributes are left open"
        if any(isinstance(a, Attr) and name not in COUNTED for name, a in pattern.attributes):
            return "an attribute of it has no end of values"
    elif isinstance(pattern, Constant):
        if not is_axes(pattern) and only_number(pattern) is None:
            return f"{pattern.name or 'a constant'} may hold any numbers"
    elif isinstance(pattern, Hole):
        if (pattern.where or pattern.ops) and pattern is not ABSENT:
            return f"{pattern.name} is asked for by a predicate"
    elif not isinstance(pattern, Either):
        return "it has operands of any count, bodies or calls"
    return first_hindrance(parts(pattern))


def first_hindrance(patterns: tuple[Pattern, ...]) -> str:
    """Why not all forms of patterns can be enumerated, told of the first of them that has a reason."""
    return next((why for why in (hindrance(each) for each in patterns) if why), "")


def open_attributes(pattern: Op) -> list[str]:
    """The attributes that a choice of operators leaves open."""
    rows = [row_of(each) for each in pattern.ops]
    return sorted({name for row in rows if row is not None for name in row.attributes})


def only_number(pattern: Constant) -> float | None:
    """The number that a constant must be; None where it may be one of several. What a predicate is asked shows that:
    the numbers that it gives as examples, and some of each kind."""
    found = number_in(pattern)
    if found is None:
        return None
    given = [e for t in pattern.where if isinstance(t, Is) for e in t.examples if isinstance(e, int | float)]
    others = [const(np.array(n, np.float64)) for n in (*given, *OTHERS) if n != found]
    return None if any(all(test(each) for test in pattern.where) for each in others) else found


def is_axes(pattern: Constant) -> bool:
    """True for a constant of which nothing is asked, and which stands for axes where it is an operand of a view."""
    return not pattern.where and pattern.type is None and bool(pattern.name)


def only_types(patterns: tuple[Pattern, ...]) -> dict[str, DType]:
    """The element types of holes that can have but one, by the schemas of the operators that they stand under."""
    found: dict[str, DType] = {}
    for pattern in patterns:
        row = row_of(pattern.ops[0]) if isinstance(pattern, Op) else None
        for index, part in enumerate(parts(pattern)):
            if isinstance(part, Hole) and row is not None and row.inputs:
                allowed = row.allowed(row.formal(index))
                if len(allowed) == 1:
                    found.update((part.name, d) for d, text in TYPE_STRINGS.items() if text in allowed)
        found |= only_types(parts(pattern))
    return found


def forms(patterns: tuple[Pattern, ...], rank: int, dtypes: tuple[DType, ...]) -> Iterator[tuple[Value, ...]]:
    """All forms of patterns: every choice, rank, size, attribute; of the first element type up to the rank, of others
    up to rank 1."""
    found = list(dict.fromkeys(p.name for each in patterns for p in named_parts(each) if isinstance(p, Hole)))
    known = only_types(patterns)
    lists = [name for name in found if known.get(name) is DType.INT64]
    names = [name for name in found if name not in lists]
    ops = frozenset[str]().union(*map(operators, patterns))
    only = ranks_of(patterns)
    for at, dtype in enumerate(dtypes):
        if ops & CONTRACTED:
            own = [[r for r in range((rank if not at else min(2, rank)) + 1) if r in only.get(n, (r,))] for n in names]
            shapes = factor_shapes(own, bool(at))
        else:
            shapes = hole_shapes(len(names), rank if not at else min(1, rank), "Concat" in ops)
        for chosen, lengths in product(shapes, product(range(rank + 1), repeat=len(lists))):
            made = {
                name: param(Tensor(known.get(name, dtype), tuple(map(size_of, shape))))
                for name, shape in zip(names, chosen, strict=True)
            }
            made |= {n: param(Tensor(DType.INT64, (k,))) for n, k in zip(lists, lengths, strict=True)}
            yield from several(patterns, Form(made, dtype))


def size_of(named: int | str) -> dims.Dim:
    """A size of a form."""
    return dims.symbol(named) if isinstance(named, str) else named


def hole_shapes(count: int, rank: int, joins: bool) -> Iterator[tuple[tuple[int | str, ...], ...]]:
    """The shapes of so many operands: sizes from the last axis on with the same symbols, or 1; where they are joined,
    along one axis their own."""
    own: list[tuple[int | str, ...]] = [
        tuple(f"n{r - i}" if named else 1 for i, named in enumerate(chosen))
        for r in range(rank + 1)
        for chosen in product((True, False), repeat=r)
    ]
    if not joins:
        yield from product(own, repeat=count)
        return
    for r in range(1, rank + 1):
        for axis in range(r):
            yield tuple(tuple(f"m{number}" if i == axis else f"n{r - i}" for i in range(r)) for number in range(count))


def ranks_of(patterns: tuple[Pattern, ...]) -> dict[str, frozenset[int]]:
    """The ranks that holes are asked for, by name."""
    found: dict[str, frozenset[int]] = {}
    for each in (each for pattern in patterns for each in named_parts(pattern)):
        if isinstance(each, Hole) and each.type is not None and each.type.ranks:
            found[each.name] = found.get(each.name, each.type.ranks) & each.type.ranks
    return found


def factor_shapes(ranks: list[list[int]], alike: bool) -> Iterator[tuple[tuple[int | str, ...], ...]]:
    """The shapes of operands of products of matrices, of so many ranks: each size 1, or the same as any of the others,
    or its own; where they are `alike`, one size for all. Raises TooMany for more axes than are looked at."""
    if sum(max(own, default=0) for own in ranks) > POSITIONS:
        raise TooMany
    for chosen in product(*ranks):
        for sizes in [(1,) * sum(chosen)] if alike else groupings(sum(chosen)):
            left = iter(sizes)
            yield tuple(tuple(f"n{n}" if (n := next(left)) else 1 for _ in range(r)) for r in chosen)


def groupings(length: int) -> Iterator[tuple[int, ...]]:
    """All ways to say which of so many sizes are the same, numbered from 1 as they come, with 0 for the size 1."""
    if not length:
        yield ()
        return
    for before in groupings(length - 1):
        yield from ((*before, n) for n in range(max(before, default=0) + 2))


@attrs.frozen(eq=False)
class Form:
    """What the names of one form hold, attributes among them."""

    held: Mapping[str, Any]
    dtype: DType


def several(patterns: tuple[Pattern, ...], state: Form) -> Iterator[tuple[Value, ...]]:
    """The values of patterns, one for each, in every way."""
    if not patterns:
        yield ()
        return
    for first, more in built(patterns[0], state):
        for rest in several(patterns[1:], more):
            if first is not None:
                yield (first, *rest)


def built(pattern: Pattern, state: Form) -> Iterator[tuple[Value | None, Form]]:
    """The values of one pattern, in every way, with what its names hold then."""
    if isinstance(pattern, Either):
        for choice in pattern.choices:
            yield from built(choice, state)
    elif pattern is ABSENT:
        yield None, state
    elif isinstance(pattern, Op):
        yield from applied(pattern, state)
    elif isinstance(pattern, Hole):
        if pattern.type is None or pattern.type.may_be(state.held[pattern.name]):
            yield state.held[pattern.name], state
    elif isinstance(pattern, Constant):
        if pattern.name in state.held:
            yield state.held[pattern.name], state
            return
        example = only_number(pattern)
        if example is None:
            raise Unprovable(f"{pattern.name or 'a constant'} may hold any numbers")
        if (
            pattern.name
            and isinstance(state.held.get(pattern.name), Value)
            and state.held[pattern.name].blob is not None
        ):
            yield state.held[pattern.name], state
            return
        if state.dtype is DType.STRING:  # no number is a text
            return
        with np.errstate(all="ignore"):
            whole = np.array(example).astype(state.dtype.numpy)
        for r in range(3):
            made = const(whole.reshape((1,) * r))
            yield made, attrs.evolve(state, held={**state.held, **({pattern.name: made} if pattern.name else {})})


def axes_under(
    pattern: Op, operand: Pattern, before: tuple[Value | None, ...], state: Form
) -> list[tuple[Value | None, Form]]:
    """All constants of axes that an operand of a view may be; none for another operand."""
    given = before[0] if before else None
    if not isinstance(operand, Constant) or not is_axes(operand) or operand.name in state.held or given is None:
        return []
    if not {"Squeeze", "Unsqueeze"}.issuperset(pattern.ops) or len(before) != 1:
        raise Unprovable(f"{operand.name} may hold any numbers")
    found: list[tuple[Value | None, Form]] = []
    whole = range(given.rank + 1)
    for axes in (each for n in range(1, 3) for each in permutations((*whole, *(-1 - i for i in whole)), n)):
        made = const(np.array(axes, dtype=np.int64))
        found.append((made, attrs.evolve(state, held={**state.held, operand.name: made})))
    return found


def applied(pattern: Op, state: Form) -> Iterator[tuple[Value | None, Form]]:
    """The values of an operator, in every way."""

    def operands(
        left: tuple[Pattern, ...], now: Form, before: tuple[Value | None, ...] = ()
    ) -> Iterator[tuple[tuple[Value | None, ...], Form]]:
        if not left:
            yield (), now
            return
        for first, more in axes_under(pattern, left[0], before, now) or built(left[0], now):
            for rest, last in operands(left[1:], more, (*before, first)):
                yield (first, *rest), last

    for name in pattern.ops:
        for inputs, after in operands(pattern.operands, state):
            for given, last in attribute_choices(pattern, inputs, after):
                try:
                    made = call(name, list(inputs), given)
                except IrkitError:
                    continue
                found = made
                if isinstance(made, tuple):
                    results = cast("tuple[Value, ...]", made)
                    found = results[0].inputs[0] if pattern.item is None else results[pattern.item]
                if found is None or (pattern.type is not None and not pattern.type.may_be(found)):
                    continue
                if name in CONTRACTED and not is_contracted(found):
                    continue
                if all(test(found) for test in pattern.where):
                    yield found, last


def is_contracted(value: Value) -> bool:
    """True for a product of matrices whose rows and columns are surely as many: where they only may be, there is
    another form in which they are."""
    a, b = value.inputs[:2]
    if a is None or b is None:
        return False
    turns = (value.attribute("transA", 0), value.attribute("transB", 0))
    inner = a.shape[-2 if turns[0] else -1], b.shape[-1 if turns[1] or b.rank == 1 else -2]
    return dims.same(*inner) is True


def attribute_choices(
    pattern: Op, inputs: tuple[Value | None, ...], state: Form
) -> Iterator[tuple[dict[str, Any], Form]]:
    """What the attributes of an operator may be: all permutations, axes and element types."""
    rank = inputs[0].rank if inputs and inputs[0] is not None else 0
    ranges: list[list[tuple[str, Any, str]]] = []
    open_ = [(n, Attr("")) for n in open_attributes(pattern)] if pattern.any_attributes else []
    for name, wanted in (*pattern.attributes, *open_):
        if not isinstance(wanted, Attr):
            ranges.append([(name, wanted, "")])
        elif wanted.name in state.held:
            ranges.append([(name, state.held[wanted.name], "")])
        else:
            own: dict[str, Any] = {
                "axis": range(-rank, rank) if rank else (0,),
                "allowzero": (0, 1),
                "to": (int(d) for d in DType),
                "perm": permutations(range(rank)),
            }
            found = own[name]
            ranges.append([(name, each, wanted.name) for each in found if all(t(each) for t in wanted.where)])
    for chosen in product(*ranges):
        held = {held: each for _, each, held in chosen if held}
        yield {name: each for name, each, _ in chosen}, attrs.evolve(state, held={**state.held, **held})
