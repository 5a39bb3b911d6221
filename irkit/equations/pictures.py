"""Patterns as pictures: built of what a match holds, and told the conditions that the other side makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import attrs
import numpy as np

from irkit.build import call, const, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import Tensor
from irkit.errors import TypeRuleError
from irkit.nodes.construct import is_variadic
from irkit.pattern import Attr, Constant, Either, Hole, Op, Pattern, Rest
from irkit.pattern.heads import describe, every_name, named_parts, number_in
from irkit.pattern.language import ABSENT, row_of
from irkit.pattern.predicates import Is, Typed, expected_text
from irkit.rewriting.rules import Match

Part = Value | tuple[Value | None, ...] | float | None
"""What a part of a picture becomes: a value, what a `rest` holds, a number, or nothing."""


class Unfit(Exception):
    """A picture cannot be built of what a match holds; the text says why."""


def made_of(pattern: Pattern) -> Callable[[], Value] | None:
    """What makes the array that a constant of a traced function is; None for every other pattern."""
    for test in pattern.where if isinstance(pattern, Constant) else ():
        first = next(iter(test.examples), None) if isinstance(test, Is) else None
        if callable(first):
            make = cast("Callable[[None], Value]", first)
            return lambda: make(None)
    return None


def refusal(pattern: Pattern, known: frozenset[str]) -> str:
    """Why a picture cannot be built where the names `known` hold something; empty where it can."""
    if isinstance(pattern, Op):
        if pattern.name and pattern.name in known:
            return ""
        several = len(pattern.ops) > 1 or pattern.any_attributes or pattern.bodies
        if several or any(row_of(each) is None for each in pattern.ops):
            return f"{describe(pattern)} does not say which operator is to be built"
        unknown = [a.name for _, a in pattern.attributes if isinstance(a, Attr) and a.name not in known]
        if unknown:
            return f"nothing says what the attribute {unknown[0]} is"
        return next(filter(None, (refusal(each, known) for each in pattern.operands)), "")
    if pattern is ABSENT or (isinstance(pattern, Hole | Constant | Rest) and pattern.name in known):
        return ""
    if isinstance(pattern, Constant) and (number_in(pattern) is not None or made_of(pattern) is not None):
        return ""
    return f"nothing says what {describe(pattern)} is"


@attrs.define(eq=False)
class Builder:
    """Builds pictures of what one match holds. What occurs twice is built once."""

    match: Match
    bound: dict[str, Any]
    known: dict[object, Part] = attrs.field(factory=dict[object, Part])

    @classmethod
    def of(cls, match: Match) -> Builder:
        """The builder of a match."""
        return cls(match, dict(vars(match)))

    def root(self, pattern: Pattern, like: Value) -> Value | tuple[Value, ...]:
        """The value of a picture that stands for `like`; its results where it has several. Raises Unfit where its type
        would be another."""
        found = self.build(pattern)
        if isinstance(found, int | float):
            return self.filled(found, like)
        if isinstance(found, tuple):
            return cast("tuple[Value, ...]", found)
        if found is None:
            raise Unfit("it would be absent")
        return found

    def filled(self, number: float, like: Value) -> Value:
        """The number in every place of a tensor."""
        if not isinstance(like.type, Tensor):
            raise Unfit("a number stands for a tensor only")
        scalar = const(np.array(number).astype(like.dtype.numpy))
        if not like.shape:
            return scalar
        if like.type.is_static:
            return const(np.full(tuple(map(int, like.shape)), number).astype(like.dtype.numpy))
        binders = self.match.binding(like.shape, *(v for v in self.match.bound_values() if isinstance(v, Value)))
        if binders is None:
            raise Unfit("nothing in reach says how large the result is")
        return op.Expand(scalar, shape_vector(like.shape, *binders))

    def build(self, pattern: Pattern) -> Part:
        """What a part of a picture becomes."""
        if pattern is ABSENT:
            return None
        if isinstance(pattern, Op):
            key: object = pattern.name or id(pattern)
            if pattern.name and pattern.name in self.bound:
                return self.bound[pattern.name]
            if key not in self.known:
                self.known[key] = self.operator(pattern)
            return self.known[key]
        if isinstance(pattern, Hole | Constant | Rest) and pattern.name in self.bound:
            return self.bound[pattern.name]
        number, make = number_in(pattern), made_of(pattern)
        if make is not None:
            return make()
        if number is None:
            raise Unfit(f"nothing says what {describe(pattern)} is")
        return number

    def operator(self, pattern: Op) -> Part:
        """The operator of a picture over what its operands become. Raises Unfit where a condition of the picture does
        not hold of it."""
        operands: list[Any] = []
        for each in pattern.operands:
            found = self.build(each)
            operands += found if isinstance(each, Rest) and isinstance(found, tuple) else (found,)
        given = {name: self.attribute(each) for name, each in pattern.attributes}
        key = (pattern.whole, "results") if pattern.whole else (id(pattern), "results")
        made: Any = self.known.get(key)
        if made is None:
            made = self.known[key] = called(pattern, operands, given)
        if isinstance(made, tuple) and pattern.item is not None:
            made = cast("tuple[Value, ...]", made)[pattern.item]
        if isinstance(made, Value):
            self.require(pattern, made)
        return cast("Part", made)

    def require(self, pattern: Op, made: Value) -> None:
        """Raises Unfit where a picture asks for something that a value is not."""
        why = "" if pattern.type is None else pattern.type.refuses(made, self.bound)
        why = why or next((f"expected {expected_text(t)}" for t in pattern.where if not t(made)), "")
        if why:
            raise Unfit(f"{describe(pattern)}: {why}")

    def attribute(self, given: object) -> object:
        """What an attribute of a picture becomes."""
        if not isinstance(given, Attr):
            return given
        found = self.bound[given.name]
        if not all(test(found) for test in given.where):
            raise Unfit(f"the attribute {given.name} is {found!r}")
        return found


def called(pattern: Op, operands: list[Any], given: Mapping[str, object]) -> Value | tuple[Value, ...]:
    """The operator of a picture, applied. Raises Unfit for operands that it does not take."""
    row = row_of(pattern.ops[0])
    count = None if row is None or is_variadic(row) or pattern.item is None else max(pattern.item + 1, row.min_outputs)
    try:
        return call(pattern.ops[0], operands, dict(given), outputs=count)
    except TypeRuleError as error:
        raise Unfit(error.what) from error


# ---------------------------------------------------------------------------------------------- conditions


Named = Hole | Constant | Rest


def joined_conditions(*sides: tuple[Pattern, ...]) -> dict[str, Named]:
    """For each name the part that asks for what all parts of that name ask for. Raises TypeRuleError where nothing can
    be all of that."""
    found: dict[str, Named] = {}
    for part in (each for side in sides for pattern in side for each in named_parts(pattern)):
        known = found.get(part.name)
        found[part.name] = part if known is None or known is part else joined(known, part)
    return found


def joined(a: Named, b: Named) -> Named:
    """What asks for all that both parts of one name ask for."""
    where = (*a.where, *(test for test in b.where if test not in a.where))
    if isinstance(a, Rest) or isinstance(b, Rest):
        if type(a) is not type(b):
            raise TypeRuleError(f"{a.name!r} stands for one operand and for several", hint="give each its own name")
        return attrs.evolve(a, where=where)
    optional, once, wanted = a.optional and b.optional, a.only_user or b.only_user, joined_types(a.name, a.type, b.type)
    if isinstance(a, Constant) or isinstance(b, Constant):
        return Constant(a.name, where, optional, once, wanted)
    ops = tuple(o for o in a.ops if o in b.ops) if a.ops and b.ops else a.ops or b.ops
    if a.ops and b.ops and not ops:
        raise TypeRuleError(f"no operator makes what {a.name!r} is on both sides", hint="give each its own name")
    return Hole(a.name, where, ops, optional, once, wanted)


def joined_types(name: str, a: Typed | None, b: Typed | None) -> Typed | None:
    """The type that both ask for."""
    if a is None or b is None or a is b:
        return a or b
    dtypes = a.dtypes & b.dtypes if a.dtypes and b.dtypes else a.dtypes or b.dtypes
    ranks = a.ranks & b.ranks if a.ranks and b.ranks else a.ranks or b.ranks
    none = (a.dtypes and b.dtypes and not dtypes) or (a.ranks and b.ranks and not ranks)
    if none or (a.shape != b.shape and a.shape is not None and b.shape is not None):
        raise TypeRuleError(f"{name!r} has another type on each side: {a} and {b}", hint="say its type once")
    return Typed(dtypes, ranks, b.shape if a.shape is None else a.shape)


def with_conditions(pattern: Pattern, known: Mapping[str, Named]) -> Pattern:
    """The pattern with the parts of `known` in the place of those of their names."""
    if isinstance(pattern, Hole | Constant | Rest):
        return known.get(pattern.name, pattern)
    if isinstance(pattern, Either):
        return Either(tuple(with_conditions(each, known) for each in pattern.choices))
    if isinstance(pattern, Op):
        operands = tuple(with_conditions(each, known) for each in pattern.operands)
        if all(a is b for a, b in zip(operands, pattern.operands, strict=True)):
            return pattern
        return attrs.evolve(pattern, operands=operands)
    return pattern


def names_in(side: tuple[Pattern, ...]) -> frozenset[str]:
    """All names under which a match of these patterns has something."""
    return frozenset[str]().union(*map(every_name, side))


def conditions_text(side: tuple[Pattern, ...]) -> str:
    """What the named parts of pictures are asked for, as text."""
    found: dict[str, str] = {}
    for part in (each for pattern in side for each in named_parts(pattern)):
        kind = ["a constant"] if isinstance(part, Constant) else []
        typed = [] if isinstance(part, Rest) or part.type is None else [str(part.type)]
        made = [] if isinstance(part, Rest | Constant) or not part.ops else ["by " + " or ".join(part.ops)]
        said = [*kind, *typed, *made, *map(expected_text, part.where)]
        if said:
            found.setdefault(part.name, f"{part.name}: {', '.join(said)}")
    return "; ".join(found.values())
