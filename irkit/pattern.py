"""Patterns: expressions of the `op.*` vocabulary with holes in them, and the matcher.

    x, one = hole("x"), const("one", where=is_all_ones)
    p.Mul(x, one)                        # one pattern, whichever side the constant stands on
    p.Transpose(x, perm=attr("perm"))    # an attribute, bound with the schema's default filled in
    p.Concat(*rest("xs"), axis=0)        # any number of operands
    p.TopK(x, k)[1]                      # the second result of an operator with several

A pattern reads as the expression that it looks like: an operand or attribute that is not written is absent, or has
the schema's default. A hole that occurs twice stands for one value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property, lru_cache
from typing import Any

import attrs

from irkit.attributes import frozen, single
from irkit.ir import Value
from irkit.onnx.schemas import BODIES, COMMUTATIVE, AttributeSpec, spec
from irkit.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR

Predicate = Callable[[Any], bool]
"""A condition on what a hole is to hold: a Value, or an attribute's value. Its name is what `explain` reports."""


@attrs.frozen(eq=False)
class Is:
    """A predicate that knows what it holds of: `examples` are numbers, one of which fills a constant, or a function
    from a `Sampler` to a Value (see `irkit.instances`)."""

    name: str
    test: Callable[[Any], bool]
    examples: tuple[Any, ...]

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, found: Any) -> bool:
        return self.test(found)


# ---------------------------------------------------------------------------------------------- the language


@attrs.frozen(eq=False)
class Hole:
    """Any value, or that of one of the operators `ops`. `only_user` asks that nothing but the matched expression uses
    it."""

    name: str
    where: tuple[Predicate, ...] = ()
    ops: tuple[str, ...] = ()
    optional: bool = False
    only_user: bool = False

    def once(self) -> Hole:
        """The same hole for a value that is used in one place only."""
        return attrs.evolve(self, only_user=True)


@attrs.frozen(eq=False)
class Constant:
    """A constant. Its conditions read the blob only after the operator and the shapes matched."""

    name: str
    where: tuple[Predicate, ...] = ()
    optional: bool = False
    only_user: bool = False

    def once(self) -> Constant:
        """The same pattern for a constant that is used in one place only."""
        return attrs.evolve(self, only_user=True)


@attrs.frozen(eq=False)
class Rest:
    """Any number of operands, none included: written `*rest("xs")`, bound to a tuple."""

    name: str
    where: tuple[Predicate, ...] = ()

    def __iter__(self) -> Iterator[Rest]:
        yield self


@attrs.frozen(eq=False)
class Attr:
    """An attribute of any value, bound under `name`, with the schema's default where it is not given."""

    name: str
    where: tuple[Predicate, ...] = ()


@attrs.frozen(eq=False)
class Op:
    """An operator applied to patterns. `item` is the result that is meant, of an operator with several."""

    ops: tuple[str, ...]
    operands: tuple[Pattern, ...]
    attributes: tuple[tuple[str, Any], ...] = ()
    any_attributes: bool = False
    name: str = ""
    where: tuple[Predicate, ...] = ()
    only_user: bool = False
    item: int | None = None

    @cached_property
    def rest_at(self) -> int | None:
        """Where among the operands those stand that may be any number; None where there are none such."""
        return next((i for i, operand in enumerate(self.operands) if type(operand) is Rest), None)

    def __getitem__(self, index: int) -> Op:
        """The pattern of result number `index`."""
        return attrs.evolve(self, item=index)

    def __iter__(self) -> Iterator[Op]:
        raise TypeError("write pattern[0], pattern[1] for the results of an operator")

    def named(self, name: str) -> Op:
        """The same pattern, whose value the match has under `name`."""
        return attrs.evolve(self, name=name)

    def provided(self, *where: Predicate) -> Op:
        """The same pattern, for values that the predicates hold of."""
        return attrs.evolve(self, where=self.where + where)

    def once(self) -> Op:
        """The same pattern, for a value that is used in one place only."""
        return attrs.evolve(self, only_user=True)


@attrs.frozen(eq=False)
class Either:
    """The first of several patterns that matches."""

    choices: tuple[Pattern, ...]


@attrs.frozen(eq=False)
class OfConstants:
    """Any operator all of whose operands are constants, bodies left out."""


Pattern = Hole | Constant | Rest | Op | Either | OfConstants


def hole(name: str, *, where: Predicate | None = None, ops: tuple[str, ...] = (), optional: bool = False) -> Hole:
    """Any value that `where` holds of, made by one of `ops` where they are given.

    An optional hole may be absent, and is None in the match then.
    """
    return Hole(name, () if where is None else (where,), ops, optional)


def const(name: str, *, where: Predicate | None = None, optional: bool = False) -> Constant:
    """Any constant that `where`, a predicate of the Value, holds of."""
    return Constant(name, () if where is None else (where,), optional)


def rest(name: str, *, where: Predicate | None = None) -> Rest:
    """All further operands; `where` must hold of each."""
    return Rest(name, () if where is None else (where,))


def attr(name: str, *, where: Predicate | None = None) -> Attr:
    """An attribute that the match has under `name`."""
    return Attr(name, () if where is None else (where,))


def either(*choices: Pattern) -> Either:
    """The first of the patterns that matches."""
    return Either(choices)


def one_of(*ops: str) -> Callable[..., Op]:
    """`one_of("Relu", "Abs")(x)`: any of those operators, with any attributes."""

    def construct(*operands: Any) -> Op:
        return Op(ops, tuple(_operand(o) for o in operands), any_attributes=True)

    return construct


class Vocabulary:
    """`p.Gemm(a, b, c, transB=1)`: the pattern of an operator, with checked attribute names."""

    def __getattr__(self, name: str) -> Callable[..., Op]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.op(name)

    def op(self, name: str) -> Callable[..., Op]:
        """The pattern maker of any operator: `p.op("com.microsoft::Gelu")(x)`."""

        def construct(*operands: Any, **attributes: Any) -> Op:
            return Op((name,), tuple(_operand(o) for o in operands), _expected(name, attributes), name in OWN)

        return construct


OWN = frozenset((SHAPE_VECTOR, CALL, *BODIES))
"""Operators whose attributes patterns leave open."""

LEAF_LIKE = OWN | {PARAM, CONSTANT, ITEM}
"""What `OfConstants` never stands for."""

p = Vocabulary()


def _operand(operand: Any) -> Pattern:
    if isinstance(operand, Pattern):
        return operand
    if isinstance(operand, int | float):
        return _number(float(operand))
    raise TypeError(f"{operand!r} is no pattern: use hole, const, rest, p.Op(...) or a number")


@cache
def _number(number: float) -> Constant:
    return Constant("", (Is(f"is {number:g}", lambda value: uniform(value) == number, (number,)),))


def _expected(op: str, given: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What each attribute must be, every one of the schema that has to be looked at."""
    if op in OWN or op in (ITEM, CONSTANT):
        return tuple(given.items())
    table = spec(op).attributes
    for name, attribute in table.items():
        if attribute.required and name not in given:
            raise TypeError(f"p.{op}: say what attribute {name} is: a value, or attr({name!r})")
    for name in given:
        if name not in table:
            raise TypeError(f"p.{op}: there is no attribute {name!r}; there are {', '.join(table) or 'none'}")
    return tuple((n, v if isinstance(v, Attr) else _of_schema(table[n], v)) for n, v in given.items())


def _of_schema(attribute: AttributeSpec, value: Any) -> Any:
    return frozen(attribute.name, single(value) if attribute.kind == "FLOAT" else value)


# ---------------------------------------------------------------------------------------------- predicates

LIMIT = 4096
"""Constants of more elements are not read to see what they hold."""


def uniform(value: Value) -> Any:
    """The number that every element of a constant is, as a Python number; None where there is no such number.

    NaN is no such number, and -0.0 is told from 0.0 by its sign. Empty and large constants give None, and so do
    weights: what they hold now is no property of the program.
    """
    blob = value.blob
    if blob is None or not 0 < blob.size <= LIMIT or blob.dtype.bits == 0 or blob.is_weight:
        return None
    return _uniform(blob)


@lru_cache(maxsize=1 << 15)
def _uniform(blob: Any) -> Any:
    array = blob.array
    first = array.reshape(-1)[0]
    if blob.size > 1 and array.tobytes() != first.tobytes() * blob.size:
        return None
    number = first.item() if blob.dtype.bits > 16 or not blob.dtype.is_float else float(first)
    if blob.dtype.is_integer:
        number = int(first)
    return None if number != number else number


is_all_ones = Is("is_all_ones", lambda value: uniform(value) == 1, (1,))
"""Holds of a constant of ones (of True, for bool)."""

is_all_zeros = Is("is_all_zeros", lambda value: uniform(value) == 0, (0, -0.0))
"""Holds of a constant of zeros of either sign (of False, for bool)."""


def is_scalar(value: Value) -> bool:
    """True for a tensor of one element, of any rank, as far as its dimensions are known to be 1."""
    return all(type(d) is int and d == 1 for d in value.shape)


# ---------------------------------------------------------------------------------------------- matching


@attrs.frozen
class Miss:
    """Where a match failed: how many parts had matched, the path of operand numbers, the value there, and why."""

    matched: int
    path: tuple[int, ...]
    value: Value | None
    reason: str


Goals = tuple[Any, Any, tuple[int, ...], Any] | None
"""A linked list of what is still to be matched: pattern, value, path, further goals."""


def match(
    pattern: Pattern,
    value: Value,
    users: Callable[[Value], int] | None = None,
    misses: list[Miss] | None = None,
) -> dict[str, Any] | None:
    """What the holes of `pattern` hold if `value` is an instance of it; None if it is not.

    Args:
        users: how many values use a value; without it `.once()` asks for nothing.
        misses: where given, every failure is added to it (see `irkit.rewrite.explain`).
    """
    return _solve((pattern, value, (), None), {}, users, misses)


def _solve(goals: Goals, bound: dict[str, Any], users: Any, misses: list[Miss] | None) -> dict[str, Any] | None:
    while goals is not None:
        pattern, value, path, goals = goals
        kind = type(pattern)
        if kind is Op:
            why, more = _enter(pattern, value, path, goals, bound, users)
            if why:
                return _missed(misses, bound, path, value, why)
            if type(more) is list:
                return _first(more, bound, users, misses)
            goals = more
        elif kind is OfConstants:
            if not is_of_constants(value.op, tuple(None if v is None else v.op for v in value.inputs)):
                return _missed(misses, bound, path, value, "not all operands are constants")
        elif kind is Either:
            return _first([(choice, value, path, goals) for choice in pattern.choices], bound, users, misses)
        else:
            why = _leaf(pattern, value, bound, users)
            if why:
                return _missed(misses, bound, path, value, why)
    return bound


def _first(branches: list[Goals], bound: dict[str, Any], users: Any, misses: Any) -> dict[str, Any] | None:
    for branch in branches:
        found = _solve(branch, dict(bound), users, misses)
        if found is not None:
            return found
    return None


def _missed(misses: list[Miss] | None, bound: dict[str, Any], path: Any, value: Any, why: str) -> None:
    if misses is not None:
        misses.append(Miss(len(bound), path, value, why))


def _leaf(pattern: Any, value: Any, bound: dict[str, Any], users: Any) -> str:
    """Binds a hole, a constant or a rest; the reason why it cannot be bound, or an empty string."""
    name = pattern.name
    if name and name in bound:
        return "" if bound[name] is value else f"{name} stands for another value already"
    if value is None:
        if not pattern.optional:
            return f"operand {name} is absent"
    elif type(pattern) is Rest:
        if any(not test(v) for test in pattern.where for v in value):
            return f"not all of {name} are {_names(pattern.where)}"
    else:
        if type(pattern) is Constant and value.op != CONSTANT:
            return f"{name} is a {value.op}, no constant"
        if type(pattern) is Hole and pattern.ops and value.op not in pattern.ops:
            return f"{name} is a {value.op}, no {' or '.join(pattern.ops)}"
        for test in pattern.where:
            if not test(value):
                return f"{test.__name__} does not hold of {name}"
        if type(pattern) is not Rest and pattern.only_user and users is not None and users(value) > 1:
            return f"{name} has {users(value)} users"
    if name:
        bound[name] = value
    return ""


def _names(where: tuple[Predicate, ...]) -> str:
    return " and ".join(test.__name__ for test in where)


def _enter(
    pattern: Op, value: Any, path: tuple[int, ...], goals: Goals, bound: dict[str, Any], users: Any
) -> tuple[str, Any]:
    """(reason, goals): why `value` is no such operator, or the goals that its operands add (a list of alternatives
    where the operands may change places)."""
    if value is None:
        return "the operand is absent", None
    node = value
    if pattern.item is not None:
        if value.op != ITEM or value.attributes[0][1] != pattern.item:
            return f"it is a {value.op}, no result {pattern.item} of {' or '.join(pattern.ops)}", None
        node = value.inputs[0]
    if node.op not in pattern.ops:
        return f"it is a {node.op}, no {' or '.join(pattern.ops)}", None
    if pattern.only_user and users is not None and users(value) > 1:
        return f"the {value.op} has {users(value)} users", None
    if not pattern.any_attributes or pattern.attributes:
        why = _attributes(pattern, node, bound)
        if why:
            return why, None
    for test in pattern.where:
        if not test(value):
            return f"{test.__name__} does not hold", None
    if pattern.name and bound.setdefault(pattern.name, value) is not value:
        return f"{pattern.name} stands for another value already", None
    return _operands(pattern, node, path, goals)


def _attributes(pattern: Op, value: Value, bound: dict[str, Any]) -> str:
    given = dict(value.attributes)
    seen = 0
    for name, wanted in pattern.attributes:
        if name in given:
            seen += 1
            found = given[name]
        else:
            found = schema_default(value.op, name)
        if type(wanted) is not Attr:
            if found != wanted:
                return f"attribute {name} is {found!r}, not {wanted!r}"
            continue
        if wanted.name in bound and bound[wanted.name] != found:
            return f"{wanted.name} is {bound[wanted.name]!r} already, and attribute {name} is {found!r}"
        for test in wanted.where:
            if not test(found):
                return f"{test.__name__} does not hold of attribute {name}, {found!r}"
        bound[wanted.name] = found
    if seen < len(given) and not pattern.any_attributes:
        other = next(n for n in given if n not in dict(pattern.attributes))
        return f"attribute {other} is {given[other]!r}, not the default"
    return ""


@cache
def schema_default(op: str, name: str) -> Any:
    """The default of an attribute of an ONNX operator; None where it has none."""
    return spec(op).attributes[name].default


def attribute_of(value: Value, name: str) -> Any:
    """The attribute of a value, with the schema's default where it is not given."""
    found = value.attribute(name)
    return schema_default(value.op, name) if found is None else found


def _operands(pattern: Op, node: Value, path: tuple[int, ...], goals: Goals) -> tuple[str, Any]:
    wanted, given = pattern.operands, node.inputs
    at = pattern.rest_at
    if at is not None:
        after = len(wanted) - at - 1
        if len(given) < at + after:
            return f"it has {len(given)} operands, fewer than {at + after}", None
        middle = given[at : len(given) - after]
        given = (*given[:at], middle, *given[len(given) - after :])
    elif len(given) != len(wanted):
        if len(given) > len(wanted):
            return f"it has {len(given)} operands, more than {len(wanted)}", None
        given = given + (None,) * (len(wanted) - len(given))
    if len(wanted) == 2 and node.op in COMMUTATIVE and at is None:
        straight = _ordered(wanted, given, path, goals)
        crossed = _ordered(wanted, (given[1], given[0]), path, goals)
        if straight is None and crossed is None:
            return _why_not(wanted, given), None
        if straight is None or crossed is None:
            return "", straight or crossed
        return "", [straight, crossed]
    for index in reversed(range(len(wanted))):
        goals = (wanted[index], given[index], (*path, index), goals)
    return "", goals


def _ordered(wanted: Any, given: Any, path: tuple[int, ...], goals: Goals) -> Goals:
    """The goals of two operands in this order; None where their operators show at once that they do not fit."""
    if not (fits(wanted[0], given[0]) and fits(wanted[1], given[1])):
        return None
    return wanted[0], given[0], (*path, 0), (wanted[1], given[1], (*path, 1), goals)


def _why_not(wanted: Any, given: Any) -> str:
    ops = " and ".join("nothing" if v is None else v.op for v in given)
    return f"its operands are {ops}, where {' and '.join(describe(w) for w in wanted)} are needed"


def fits(pattern: Pattern, value: Value | None) -> bool:
    """False where the operator of `value` alone shows that it cannot match."""
    wanted = heads(pattern)
    return wanted is None or (value.op if value is not None else None) in wanted


@cache
def heads(pattern: Pattern) -> frozenset[str | None] | None:
    """The operators that a value must have to match; None for any. The set holds None where it may be absent."""
    if isinstance(pattern, Op):
        return frozenset(pattern.ops if pattern.item is None else (ITEM,))
    if isinstance(pattern, Constant):
        return frozenset((CONSTANT, None) if pattern.optional else (CONSTANT,))
    if isinstance(pattern, Hole) and pattern.ops:
        return frozenset((*pattern.ops, None) if pattern.optional else pattern.ops)
    if isinstance(pattern, Either):
        sets = [heads(choice) for choice in pattern.choices]
        return None if any(s is None for s in sets) else frozenset().union(*(s for s in sets if s is not None))
    return None


def describe(pattern: Pattern) -> str:
    """A pattern as text, in the form in which it is written."""
    if isinstance(pattern, Either):
        return f"either({', '.join(describe(c) for c in pattern.choices)})"
    if not isinstance(pattern, Op):
        if isinstance(pattern, OfConstants):
            return "any(constants)"
        return f"*{pattern.name}" if isinstance(pattern, Rest) else pattern.name or _names(pattern.where)
    parts = [describe(o) for o in pattern.operands]
    parts += [f"{n}={v.name if isinstance(v, Attr) else v!r}" for n, v in pattern.attributes]
    item = "" if pattern.item is None else f"[{pattern.item}]"
    return f"{'|'.join(pattern.ops)}({', '.join(parts)}){item}"


def is_of_constants(op: str, operands: tuple[str | None, ...]) -> bool:
    """True for an operator of ONNX without bodies, all of whose operands are constants."""
    return op not in LEAF_LIKE and all(o is None or o == CONSTANT for o in operands)


def possible(pattern: Pattern, op: str, operands: tuple[str | None, ...]) -> bool:
    """False where the operator of a value and those of its operands show that it cannot match."""
    if isinstance(pattern, Either):
        return any(possible(choice, op, operands) for choice in pattern.choices)
    if isinstance(pattern, OfConstants):
        return is_of_constants(op, operands)
    if not isinstance(pattern, Op) or pattern.item is not None:
        wanted = heads(pattern)
        return wanted is None or op in wanted
    if op not in pattern.ops:
        return False
    wanted = pattern.operands
    if any(type(o) is Rest for o in wanted):
        at = next(i for i, o in enumerate(wanted) if type(o) is Rest)
        after = len(wanted) - at - 1
        if len(operands) < at + after:
            return False
        wanted = wanted[:at] + wanted[len(wanted) - after :]
        operands = operands[:at] + operands[len(operands) - after :]
        return all(_head_fits(w, o) for w, o in zip(wanted, operands, strict=True))
    if len(operands) > len(wanted):
        return False
    operands = operands + (None,) * (len(wanted) - len(operands))
    if all(_head_fits(w, o) for w, o in zip(wanted, operands, strict=True)):
        return True
    crossed = len(wanted) == 2 and op in COMMUTATIVE
    return crossed and _head_fits(wanted[0], operands[1]) and _head_fits(wanted[1], operands[0])


Guard = Callable[[Value], bool]


@cache
def guards(pattern: Pattern) -> tuple[Guard, ...]:
    """Cheap conditions, necessary for a match: the predicates of the root's operands, asked of the operands alone."""
    if not isinstance(pattern, Op) or pattern.item is not None or any(type(o) is Rest for o in pattern.operands):
        return ()
    found = []
    for index, operand in enumerate(pattern.operands):
        if isinstance(operand, Hole | Constant) and operand.where and not operand.optional:
            crossed = len(pattern.operands) == 2 and bool(COMMUTATIVE.intersection(pattern.ops))
            found.append(_guard(operand, index, crossed))
    return tuple(found)


def _guard(operand: Hole | Constant, index: int, crossed: bool) -> Guard:
    wanted, where = heads(operand), operand.where
    (first, *more) = where

    def holds(value: Value | None) -> bool:
        if value is None or (wanted is not None and value.op not in wanted) or not first(value):
            return False
        return not more or all(test(value) for test in more)

    if crossed:
        return lambda value: len(value.inputs) == 2 and (holds(value.inputs[1]) or holds(value.inputs[0]))
    return lambda value: index < len(value.inputs) and holds(value.inputs[index])


def _head_fits(pattern: Pattern, op: str | None) -> bool:
    wanted = heads(pattern)
    return wanted is None or op in wanted


def root_ops(pattern: Pattern) -> frozenset[str] | None:
    """The operators that a match of the pattern may have at its root; None for any."""
    found = heads(pattern)
    return found if found is None else frozenset(op for op in found if op is not None)
