"""The language of patterns: holes, constants, operators, alternatives, and what may stand inside bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, cast

import attrs

from irkit.core.attributes import ELEMENT_TYPES, Attribute, Given, freeze_attribute, kind_held
from irkit.core.ir import Value
from irkit.core.operator_names import plain_name
from irkit.core.types import ElementType
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.errors import TypeRuleError
from irkit.ops.runtime_table import CONTRIB, contrib_names
from irkit.ops.schemas import BODIES, AttributeSpec, OpSpec, known_row, names, own_row, split_domain
from irkit.pattern.predicates import Predicate, Typed, equals, near, typed_predicate


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
    attributes: tuple[tuple[str, Attribute | Attr], ...] = ()
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
        `s = p.Split(x, num_outputs=2).named("s")` makes s[0] and s[1] results of one Split.

        Raises TypeRuleError for a result that the operator does not have."""
        _check_item(self, index)
        return attrs.evolve(self, item=index, name="", whole=self.name or self.whole)

    def __iter__(self) -> Iterator[Op]:
        raise TypeRuleError(
            f"p.{'|'.join(self.ops)}(...) is one pattern, and no list",
            hint="write pattern[0], pattern[1] for its results",
        )

    def named(self, name: str) -> Op:
        """The same pattern, whose value the match has under `name`."""
        return attrs.evolve(self, name=_name(name, "named"))

    def provided(self, *where: Predicate) -> Op:
        """The same pattern, for values that the predicates hold of."""
        return attrs.evolve(self, where=self.where + tuple(map(_condition, where)))

    def typed(
        self,
        *,
        dtype: ElementType | Iterable[ElementType] | None = None,
        rank: int | Iterable[int] | None = None,
        shape: Any = None,
    ) -> Op:
        """The same pattern, for values of that element type, rank and shape (see `hole`)."""
        return attrs.evolve(self, type=typed_predicate(dtype, rank, shape))

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
    dtype: ElementType | Iterable[ElementType] | None = None,
    rank: int | Iterable[int] | None = None,
    shape: Iterable[object] | None = None,
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

    Raises TypeRuleError for what is none of these.
    """
    if isinstance(ops, str):
        raise TypeRuleError(f"hole({name!r}, ops={ops!r}): ops are several", hint=f"write ops=({ops!r},)")
    for op in ops:
        _check_op(op, f"hole({name!r})")
    return Hole(_name(name, "hole"), _conditions(where), tuple(ops), optional, type=typed_predicate(dtype, rank, shape))


def const(
    name: str = "",
    *,
    where: Predicate | None = None,
    optional: bool = False,
    value: float | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    dtype: ElementType | Iterable[ElementType] | None = None,
    rank: int | Iterable[int] | None = None,
    shape: Iterable[object] | None = None,
) -> Constant:
    """Any constant that `where`, a predicate of the Value, holds of.

    With `value`, all of its elements are that number, up to `atol + rtol * |value|`; where neither is given, up to a
    few roundings in the constant's element type. A number that stands in a pattern itself is compared to the last bit.
    """
    tests = _conditions(where)
    if value is not None:
        if not isinstance(value, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeRuleError(f"const(value={value!r}): {value!r} is not a number", hint="give a number, or where=")
        tests = (near(value, rtol, atol), *tests)
    return Constant(
        _name(name, "const") if name != "" else "", tests, optional, type=typed_predicate(dtype, rank, shape)
    )


def rest(name: str, *, where: Predicate | None = None) -> Rest:
    """All further operands; `where` must hold of each."""
    return Rest(_name(name, "rest"), _conditions(where))


def attr(name: str, *, where: Predicate | None = None) -> Attr:
    """An attribute that the match has under `name`."""
    return Attr(_name(name, "attr"), _conditions(where))


def either(*choices: Pattern | float | None) -> Either:
    """The first of the patterns that matches."""
    if not choices:
        raise TypeRuleError("either() has no patterns to choose from", hint="write either(p.Relu(x), x)")
    return Either(tuple(_pattern(choice) for choice in choices))


def through(pattern: Pattern) -> Through:
    """The pattern, here or inside a called function: where a Call stands, what it computes is looked at instead. Holes
    hold what that is outside, so that a replacement may be built of them."""
    return Through(_pattern(pattern))


def own(index: int, name: str = "") -> Own:
    """Inside a body: its parameter number `index` (of a Loop's: 0 the trip, 1 the condition, then what is carried)."""
    if type(index) is not int or index < 0:
        raise TypeRuleError(f"own({index!r}): a body has no such parameter", hint="own(0) is its first one")
    return Own(index, _name(name, "own") if name != "" else "")


def one_of(*ops: str) -> Callable[..., Op]:
    """`one_of("Relu", "Abs")(x)`: any of those operators, with any attributes but those that are written."""
    if not ops:
        raise TypeRuleError("one_of() names no operator", hint='write one_of("Relu", "Abs")(x)')
    for op in ops:
        _check_op(op, "one_of")

    def construct(*operands: Any, **attributes: Any) -> Op:
        given = dict.fromkeys(pair for op in ops for pair in _expected(op, attributes, required=False))
        patterns = tuple(_operand(o) for o in operands)
        for op in ops:
            _check_operands(op, patterns)
        return Op(ops, patterns, tuple(given), any_attributes=True)

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
            own = f'p.op("mydomain::{name}") is one of your own'
            raise AttributeError(f"ONNX has no operator {name!r}{meant}; {own}")
        return self.op(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *names(), *sorted(LEAF_LIKE)]

    def op(self, name: str) -> Callable[..., Op]:
        """The pattern maker of any operator: `p.op("com.microsoft::Gelu")(x)`. It raises TypeRuleError for operands and
        attributes that no value of the operator has."""
        _check_op(name, "p.op")

        def construct(*operands: Any, **attributes: Any) -> Op:
            bodies = tuple((n, _results(attributes.pop(n))) for n in BODIES.get(name, ()) if n in attributes)
            given = tuple(_operand(o) for o in operands)
            _check_operands(name, given)
            return Op((name,), given, _expected(name, attributes), name in OWN, bodies=bodies)

        return construct


OWN = frozenset((SHAPE_VECTOR, CALL, *BODIES))
"""Operators whose attributes patterns leave open."""

LEAF_LIKE = OWN | {PARAM, CONSTANT, ITEM}
"""What `OfConstants` never stands for."""

p = Vocabulary()


ABSENT = Hole("", ops=("nothing",), optional=True)
"""What None means in a pattern: an operand that is left out."""


def _operand(operand: object) -> Pattern:
    """The pattern of one operand. Raises TypeRuleError for what is none, and for an operator with several results."""
    found = _pattern(operand)
    if isinstance(found, Op) and found.item is None and all(map(_gives_several, found.ops)):
        raise TypeRuleError(
            f"p.{'|'.join(found.ops)}(...) has several results, and an operand is one of them",
            hint="write pattern[0] for its first result",
        )
    return found


def _pattern(given: object) -> Pattern:
    if isinstance(given, Pattern):
        return given
    if given is None:
        return ABSENT
    if isinstance(given, int | float):
        return number_pattern(given)
    hint = "use hole, const, rest, p.Op(...) or a number"
    if isinstance(given, str):
        hint = f"write hole({given!r})" if given.isidentifier() else hint
    elif isinstance(given, Value):
        hint = 'a pattern is drawn over holes, which stand for any value: hole("x")'
    raise TypeRuleError(f"{given!r} is not a pattern", hint=hint)


def _results(given: object) -> tuple[Pattern | None, ...]:
    several = cast("tuple[object, ...]", given) if isinstance(given, tuple) else (given,)
    return tuple(None if g is None else _operand(g) for g in several)


def number_pattern(number: float) -> Constant:
    """The pattern of a constant all of whose elements are a number, as its element type holds it.

    An integer that no float64 is, as the largest int64, stays an integer.
    """
    return _number_pattern(float(number) if float(number) == number else number)


@lru_cache(maxsize=1 << 12)
def _number_pattern(number: float) -> Constant:
    return Constant("", (equals(number),))


def _expected(op: str, given: Given, required: bool = True) -> tuple[tuple[str, Attribute | Attr], ...]:
    """What each attribute must be, every one of the schema that has to be looked at."""
    known = None if op in (SHAPE_VECTOR, CALL, ITEM, CONSTANT) else row_of(op)
    if known is None:
        return tuple((n, v if isinstance(v, Attr) else freeze_attribute(n, v)) for n, v in given.items())
    table = known.attributes
    for name, attribute in table.items():
        if required and attribute.required and name not in given and op not in OWN:
            raise TypeRuleError(f"p.{op}: say what attribute {name} is", hint=f"give a value, or attr({name!r})")
    for name in given:
        if name not in table and not (name == "captures" and op in BODIES):
            raise TypeRuleError(
                f"p.{op}: there is no attribute {name!r}",
                hint=f"its attributes are {', '.join(table)}" if table else f"{op} has no attributes",
            )
    return tuple((n, v if isinstance(v, Attr) else _of_schema(op, n, table.get(n), v)) for n, v in given.items())


def row_of(op: str) -> OpSpec | None:
    """The row of an operator's schema; None for an operator that nobody has a schema of (see `irkit.custom`)."""
    return own_row(op) or _row_of(plain_name(op))


@lru_cache(maxsize=1 << 12)
def _row_of(op: str) -> OpSpec | None:
    try:
        return known_row(op)
    except TypeRuleError:
        return None


def _of_schema(op: str, name: str, row: AttributeSpec | None, value: Any) -> Any:
    """An attribute in the form in which a value has it. Raises TypeRuleError for one that no value can have."""
    if isinstance(value, Pattern):
        raise TypeRuleError(f"p.{op}: attribute {name} is not an operand", hint=f"write {name}=attr({name!r})")
    try:
        return freeze_attribute(name, value) if row is None else kind_held(row.kind, name, value)
    except (TypeError, ValueError, KeyError) as error:
        kind = "" if row is None else row.kind
        hint = f"give a value of that kind, or attr({name!r})"
        if row is not None and name in ELEMENT_TYPES:
            hint = f'give an element type, "f32" say, or attr({name!r})'
        raise TypeRuleError(f"p.{op}: attribute {name} is of kind {kind} and cannot be {value!r}", hint=hint) from error


# ---------------------------------------------------------------------------------------------- what no value can be


SLIP = 0.85
"""How alike names are (`difflib`) of which one is a slip of the pen."""


def _check_op(op: object, where: str) -> None:
    """Raises TypeRuleError for what no value's operator is: neither ONNX's, nor irkit's, nor of another domain."""
    if not isinstance(op, str):
        raise TypeRuleError(f"{where}: {op!r} is not an operator's name", hint='write it as text: "Relu"')
    if row_of(op) is not None or op in LEAF_LIKE:
        return
    domain, name = split_domain(op)
    if not domain:
        near = get_close_matches(op, names(), 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise TypeRuleError(f"{where}: ONNX has no operator {op!r}", hint=f'{hint}one of your own is "mydomain::{op}"')
    near = get_close_matches(name, contrib_names(), 1, SLIP) if domain == CONTRIB else []
    if near:  # one that is like none may be of another ONNX Runtime than the installed one
        raise TypeRuleError(
            f"{where}: the installed ONNX Runtime has no operator {op!r}", hint=f"did you mean {domain}::{near[0]}?"
        )


def _check_operands(op: str, operands: tuple[Pattern, ...]) -> None:
    """Raises TypeRuleError for operands that no value of the operator has."""
    rests = [o for o in operands if isinstance(o, Rest)]
    if len(rests) > 1:
        raise TypeRuleError(f"p.{op}: only one operand can be a `rest`", hint="write it once")
    row = row_of(op)
    if row is None:
        return
    fixed: list[Pattern] = [o for o in operands if not isinstance(o, Rest)]
    there = sum(o is not ABSENT for o in fixed) if rests else _last(fixed, lambda o: o is not ABSENT)
    needed = _last(fixed, lambda o: not getattr(o, "optional", False))
    least, most = row.min_inputs, row.max_inputs
    if (needed > most and op not in OWN) or (not rests and there < least):
        many = f"{least}" if least == most else f"{least} or more" if most > MANY else f"{least} to {most}"
        raise TypeRuleError(
            f"p.{op}: {op} takes {many} operand{'s' * (most != 1)}, and the pattern has {max(len(fixed), needed)}",
            hint="operands that are left out are None, and any number of them is *rest('xs')",
        )
    for index, operand in enumerate(operands[: None if not rests else operands.index(rests[0])]):
        if operand is ABSENT and row.inputs and row.formal(index).option == "single":
            raise TypeRuleError(
                f"p.{op}: operand {index} ({row.formal(index).name}) cannot be left out",
                hint="put a hole there: hole('any')",
            )


def _last(operands: list[Pattern], holds: Callable[[Pattern], bool]) -> int:
    """The number of operands up to the last one that a condition holds of."""
    return next((len(operands) - i for i, o in enumerate(reversed(operands)) if holds(o)), 0)


MANY = 1_000
"""More operands than this are any number of them."""


def _check_item(op: Op, index: object) -> None:
    """Raises TypeRuleError for the number of a result that no operator of the pattern has."""
    title = f"p.{'|'.join(op.ops)}(...)"
    if op.item is not None:
        raise TypeRuleError(
            f"{title}[{op.item}] is one result, and has no result {index!r}", hint="leave the second index out"
        )
    if type(index) is not int or index < 0:
        raise TypeRuleError(f"{title} has no result {index!r}", hint="results are counted from 0")
    most = max(_most_results(name) for name in op.ops)
    if most == 1 or index >= most:
        count = "1 result" if most == 1 else f"{most} results"
        hint = "a pattern of an operator with one result stands for it" if most == 1 else ""
        raise TypeRuleError(f"{title} has {count}, and no result {index}", hint=hint)


def _most_results(op: str) -> int:
    row = row_of(op)
    return MANY * MANY if row is None else row.max_outputs


def _gives_several(op: str) -> bool:
    """True for an operator whose results are always Items."""
    row = row_of(op)
    return row is not None and (row.min_outputs > 1 or (bool(row.outputs) and row.outputs[-1].option == "variadic"))


def _name(name: object, where: str) -> str:
    if not isinstance(name, str) or not name:
        raise TypeRuleError(f"{where}({name!r}): a part of a pattern needs a name", hint=f'write {where}("x")')
    return name


def _condition(where: Any) -> Predicate:
    found: Any = where
    if not callable(where):
        raise TypeRuleError(f"the condition {where!r} is not a function of a value", hint="write where=lambda v: ...")
    return found


def _conditions(where: Predicate | None) -> tuple[Predicate, ...]:
    return () if where is None else (_condition(where),)
