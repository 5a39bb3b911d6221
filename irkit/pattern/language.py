"""The language of patterns: holes, constants, operators, alternatives, and what may stand inside bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any

import attrs

from irkit.attributes import frozen, single
from irkit.errors import TypeRuleError
from irkit.onnx.schemas import BODIES, AttributeSpec, OpSpec, names, spec
from irkit.pattern.predicates import Predicate, Typed, equals, near, typed
from irkit.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR


@attrs.frozen(eq=False)
class Hole:
    """Any value, or that of one of the operators `ops`. `only_user` asks that nothing but the matched expression uses
    it; `type` says what its type must be."""

    name: str
    where: tuple[Predicate, ...] = ()
    ops: tuple[str, ...] = ()
    optional: bool = False
    only_user: bool = False
    type: Typed | None = None

    is_free: bool = attrs.field(init=False, default=attrs.Factory(lambda self: _is_free(self), takes_self=True))
    """Whether it has a name, and stands for any value."""

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
    type: Typed | None = None

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
    """An operator applied to patterns. `item` is the result that is meant, of an operator with several; `whole` names
    the operator itself, of which `item` is one result; `bodies` are patterns of what its bodies give back."""

    ops: tuple[str, ...]
    operands: tuple[Pattern, ...]
    attributes: tuple[tuple[str, Any], ...] = ()
    any_attributes: bool = False
    name: str = ""
    where: tuple[Predicate, ...] = ()
    only_user: bool = False
    item: int | None = None
    type: Typed | None = None
    whole: str = ""
    bodies: tuple[tuple[str, tuple[Pattern | None, ...]], ...] = ()

    rest_at: int | None = attrs.field(init=False, default=attrs.Factory(lambda self: _rest_at(self), takes_self=True))
    """Where among the operands those stand that may be any number; None where there are none such."""
    is_more: bool = attrs.field(init=False, default=attrs.Factory(lambda self: _is_more(self), takes_self=True))
    """Whether more is asked of it than operators, attributes, operands and users."""

    def __getitem__(self, index: int) -> Op:
        """The pattern of result number `index`. What was named before is the operator, of which this is one result:
        `s = p.Split(x, num_outputs=2).named("s")` makes s[0] and s[1] results of one Split."""
        return attrs.evolve(self, item=index, name="", whole=self.name or self.whole)

    def __iter__(self) -> Iterator[Op]:
        raise TypeError("write pattern[0], pattern[1] for the results of an operator")

    def named(self, name: str) -> Op:
        """The same pattern, whose value the match has under `name`."""
        return attrs.evolve(self, name=name)

    def provided(self, *where: Predicate) -> Op:
        """The same pattern, for values that the predicates hold of."""
        return attrs.evolve(self, where=self.where + where)

    def typed(self, *, dtype: Any = None, rank: int | Iterable[int] | None = None, shape: Any = None) -> Op:
        """The same pattern, for values of that element type, rank and shape (see `hole`)."""
        return attrs.evolve(self, type=typed(dtype, rank, shape))

    def once(self) -> Op:
        """The same pattern, for a value that is used in one place only."""
        return attrs.evolve(self, only_user=True)


def _rest_at(op: Op) -> int | None:
    return next((i for i, operand in enumerate(op.operands) if type(operand) is Rest), None)


def _is_more(op: Op) -> bool:
    return bool(op.type or op.where or op.name or op.whole or op.bodies)


def _is_free(hole: Hole) -> bool:
    return bool(hole.name) and not (hole.where or hole.ops or hole.only_user or hole.type)


@attrs.frozen(eq=False)
class Either:
    """The first of several patterns that matches."""

    choices: tuple[Pattern, ...]


@attrs.frozen(eq=False)
class OfConstants:
    """Any operator all of whose operands are constants, bodies left out."""


@attrs.frozen(eq=False)
class Through:
    """What the inner pattern matches, be it here or inside a called function whose result stands here."""

    inner: Pattern


@attrs.frozen(eq=False)
class Own:
    """Parameter number `index` of the body that the pattern stands in: the number of the trip, what a Loop carries."""

    index: int
    name: str = ""


Pattern = Hole | Constant | Rest | Op | Either | OfConstants | Through | Own


# ---------------------------------------------------------------------------------------------- writing patterns


def hole(
    name: str,
    *,
    where: Predicate | None = None,
    ops: tuple[str, ...] = (),
    optional: bool = False,
    dtype: Any = None,
    rank: int | Iterable[int] | None = None,
    shape: Iterable[Any] | None = None,
) -> Hole:
    """Any value that `where` holds of, made by one of `ops` where they are given.

    Args:
        name: what the match calls it; a hole that occurs twice stands for one value.
        where: a function of the value; `explain` reports its name.
        ops: operators, one of which must have made it.
        optional: whether it may be absent; it is None in the match then.
        dtype: an element type ("f32"), a word ("float", "integer", "signed", "unsigned", "complex"), or several.
        rank: a number or several.
        shape: numbers, names (which stand for one dimension wherever they occur, and which the match holds), None for
            any dimension, and `...` in front for any number of them.
    """
    return Hole(name, () if where is None else (where,), ops, optional, type=typed(dtype, rank, shape))


def const(
    name: str = "",
    *,
    where: Predicate | None = None,
    optional: bool = False,
    value: float | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    dtype: Any = None,
    rank: int | Iterable[int] | None = None,
    shape: Iterable[Any] | None = None,
) -> Constant:
    """Any constant that `where`, a predicate of the Value, holds of.

    With `value`, all of its elements are that number, up to `atol + rtol * |value|`; where neither is given, up to a
    few roundings in the constant's element type. A number that stands in a pattern itself is compared to the last bit.
    """
    tests = () if where is None else (where,)
    if value is not None:
        tests = (near(value, rtol, atol), *tests)
    return Constant(name, tests, optional, type=typed(dtype, rank, shape))


def rest(name: str, *, where: Predicate | None = None) -> Rest:
    """All further operands; `where` must hold of each."""
    return Rest(name, () if where is None else (where,))


def attr(name: str, *, where: Predicate | None = None) -> Attr:
    """An attribute that the match has under `name`."""
    return Attr(name, () if where is None else (where,))


def either(*choices: Any) -> Either:
    """The first of the patterns that matches."""
    return Either(tuple(_operand(choice) for choice in choices))


def through(pattern: Pattern) -> Through:
    """The pattern, here or inside a called function: where a Call stands, what it computes is looked at instead. Holes
    hold what that is outside, so that a replacement may be built of them."""
    return Through(pattern)


def own(index: int, name: str = "") -> Own:
    """Inside a body: its parameter number `index` (of a Loop's: 0 the trip, 1 the condition, then what is carried)."""
    return Own(index, name)


def one_of(*ops: str) -> Callable[..., Op]:
    """`one_of("Relu", "Abs")(x)`: any of those operators, with any attributes but those that are written."""

    def construct(*operands: Any, **attributes: Any) -> Op:
        given = dict.fromkeys(pair for op in ops for pair in _expected(op, attributes, required=False))
        return Op(ops, tuple(_operand(o) for o in operands), tuple(given), any_attributes=True)

    return construct


class Vocabulary:
    """`p.Gemm(a, b, c, transB=1)`: the pattern of an operator, with checked attribute names.

    Of If, Loop and Scan, the attributes that are bodies may be patterns of what they give back, one or a tuple (None
    for a result of any kind): `p.If(c, *rest("captures"), then_branch=p.Add(x, y), else_branch=p.Sub(x, y))`. What a
    body takes from outside is seen as what it is outside.
    """

    def __getattr__(self, name: str) -> Callable[..., Op]:
        if name.startswith("_"):
            raise AttributeError(name)
        if row_of(name) is None and name not in LEAF_LIKE:
            near = get_close_matches(name, names(), 1)
            meant = f" (did you mean {near[0]}?)" if near else ""
            raise AttributeError(f"ONNX has no operator {name!r}{meant}; p.op({name!r}) is one of your own")
        return self.op(name)

    def op(self, name: str) -> Callable[..., Op]:
        """The pattern maker of any operator: `p.op("com.microsoft::Gelu")(x)`."""

        def construct(*operands: Any, **attributes: Any) -> Op:
            bodies = tuple((n, _results(attributes.pop(n))) for n in BODIES.get(name, ()) if n in attributes)
            given = tuple(_operand(o) for o in operands)
            return Op((name,), given, _expected(name, attributes), name in OWN, bodies=bodies)

        return construct


OWN = frozenset((SHAPE_VECTOR, CALL, *BODIES))
"""Operators whose attributes patterns leave open."""

LEAF_LIKE = OWN | {PARAM, CONSTANT, ITEM}
"""What `OfConstants` never stands for."""

p = Vocabulary()


ABSENT = Hole("", ops=("nothing",), optional=True)
"""What None means in a pattern: an operand that is left out."""


def _operand(operand: Any) -> Pattern:
    if isinstance(operand, Pattern):
        return operand
    if operand is None:
        return ABSENT
    if isinstance(operand, int | float):
        return _number(float(operand))
    raise TypeError(f"{operand!r} is no pattern: use hole, const, rest, p.Op(...) or a number")


def _results(given: Any) -> tuple[Pattern | None, ...]:
    return tuple(None if g is None else _operand(g) for g in (given if isinstance(given, tuple) else (given,)))


@cache
def _number(number: float) -> Constant:
    return Constant("", (equals(number),))


def _expected(op: str, given: dict[str, Any], required: bool = True) -> tuple[tuple[str, Any], ...]:
    """What each attribute must be, every one of the schema that has to be looked at."""
    known = None if op in OWN or op in (ITEM, CONSTANT) else row_of(op)
    if known is None:
        return tuple((n, v if isinstance(v, Attr) else frozen(n, v)) for n, v in given.items())
    table = known.attributes
    for name, attribute in table.items():
        if required and attribute.required and name not in given:
            raise TypeError(f"p.{op}: say what attribute {name} is: a value, or attr({name!r})")
    for name in given:
        if name not in table:
            raise TypeError(f"p.{op}: there is no attribute {name!r}; there are {', '.join(table) or 'none'}")
    return tuple((n, v if isinstance(v, Attr) else _of_schema(table[n], v)) for n, v in given.items())


@cache
def row_of(op: str) -> OpSpec | None:
    """The row of an operator's schema; None for an operator that nobody has a schema of (see `irkit.custom`)."""
    try:
        return spec(op)
    except TypeRuleError:
        return None


def _of_schema(attribute: AttributeSpec, value: Any) -> Any:
    return frozen(attribute.name, single(value) if attribute.kind == "FLOAT" else value)
