"""Pictures drawn by Python functions over values: what they compute of parameters of all ranks, as patterns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import Any

import attrs
import numpy as np

from irkit.build import const
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, Type, same_types
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.core.walk import post_order
from irkit.equations.equations import Condition, Equation, Pictures, equation_of, sides_of
from irkit.errors import IrkitError, TypeRuleError
from irkit.ops.schemas import BODIES
from irkit.pattern import Constant, Either, Hole, Op, Pattern
from irkit.pattern.heads import describe
from irkit.pattern.language import ABSENT, number_pattern
from irkit.pattern.predicates import Is, Typed, uniform
from irkit.rewriting.rules import Decline, Made, Match, Rule, Sample, decline, refused_by, rule
from irkit.support.results import as_tuple

Drawn = Callable[..., Any]
"""A function of values that returns a value or a tuple of values; numbers stand for constants."""

RANKS = (2, 3, 1, 4, 0)
"""The ranks of the parameters that functions are tried on, those of one rank first."""

KINDS = (DType.FLOAT, DType.INT64, DType.BOOL, DType.DOUBLE, DType.FLOAT16, DType.INT32, DType.UINT8)
"""And their element types."""

TRIED = 600
"""On how many lists of parameters a function is tried at most."""

NUMBERS = (bool, int, float, complex, np.ndarray, np.generic)
"""What stands for a constant where a function returns it."""

SIZES = (3, 5)
"""Each is tried with two sizes: what depends on them is no picture for all."""


@attrs.frozen
class Drawing:
    """What a function made of parameters of certain ranks: patterns, and the same as text."""

    side: tuple[Pattern, ...]
    text: str


def equation(
    left: Pictures | Drawn,
    right: Pictures | Drawn,
    where: Condition | None = None,
    *,
    exact: bool = True,
    name: str = "",
    sample: Sample | None = None,
) -> Equation:
    """The equation of two pictures, `equation(p.Sub(x, y), p.Add(x, p.Neg(y)))`: two rules, `.forward` and `.backward`.

    Args:
        left, right: patterns over the same holes, which read as the expressions that they look like; a number for a
            tensor of it; tuples for several values that are replaced together; or two Python functions over values with
            the same parameters (see `replace_pattern`). What a hole is asked for on one side, it is asked for on both.
        where: a function of the match that says whether the equation holds there: True, False, or `decline("why")`.
        exact: False where the equation holds in real arithmetic only, not to the last bit.
        name: that of the forward rule; the other one is called `name_backward`. Made of the operators, if not given.
        sample: a function from a random generator to an instance of the left side, for `check`.

    A rule declines where what it would build has not surely the type of what it replaces. Raises TypeRuleError for what
    is no picture, for sides of different length, and where neither direction says what is to be built.
    """
    if is_function(left) and is_function(right):
        names, others = parameters_of(left), parameters_of(right)
        if names != others:
            raise TypeRuleError(
                f"one side is a function of {', '.join(names)}, the other of {', '.join(others)}",
                hint="give both functions the same parameters",
            )
        title = name or f"{word(left)}_to_{word(right)}"
        sides = (picture_of(left, names), picture_of(right, names))
        return equation_of(*sides, where, exact=exact, name=title, sample=sample)
    if is_function(left) or is_function(right):
        raise TypeRuleError(
            "one side is a function, the other a pattern", hint="write two patterns, or two functions of values"
        )
    return equation_of(sides_of(left), sides_of(right), where, exact=exact, name=name, sample=sample)


def replace_pattern(
    before: Drawn,
    after: Drawn,
    where: Condition | None = None,
    *,
    exact: bool = True,
    name: str = "",
    like: Sequence[Type] = (),
    sample: Sample | None = None,
) -> Rule:
    """The rule that replaces what `before(x, y)` computes by `after(x, y)`, for values x and y of all types.

    `before` is called with parameters of ranks 0 to 4 and several element types, and what it computes of them becomes
    the pattern: one for all ranks where it is always the same, else one for each list of ranks. `after` is called with
    the values that a match found, so that it may look at their shapes, and return `decline("why")`.

    Args:
        before, after: Python functions over values with the same parameters, which return a value, or a tuple of them.
            Numbers stand for constants of that number.
        where: a function of the match, whose parts have the names of the parameters.
        exact: False where the two are equal in real arithmetic only, not to the last bit.
        name: of the rule; that of `after` (or of `before`, of a lambda), if not given.
        like: types for the parameters of `before`, instead of those that are tried.
        sample: as for `irkit.rule`.

    Raises TypeRuleError where `before` computes nothing of any of these parameters, where what it computes depends on
    their sizes, or uses not all of them.
    """
    names = parameters_of(before)
    if names != parameters_of(after):
        raise TypeRuleError(
            f"before is a function of {', '.join(names)}, after of {', '.join(parameters_of(after))}",
            hint="give both functions the same parameters",
        )
    left = pictures_of(before, names, like)

    def function(m: Match) -> Made:
        return refused_by(where, m, "the rule") or made_by(after, [m[each] for each in names], m.roots)

    function.__name__ = name or word(after, before)
    function.__doc__ = f"{word(before)}({', '.join(names)}) -> {word(after)}({', '.join(names)})"
    return rule(*left, exact=exact, sample=sample)(function)


def made_by(after: Drawn, operands: list[Value], roots: tuple[Value, ...]) -> Made:
    """What a function makes of values, where that has surely the types of the roots."""
    try:
        found = after(*operands)
    except TypeRuleError as error:
        return decline(error.what)
    if isinstance(found, Decline):
        return found
    values = [const(v) if isinstance(v, NUMBERS) else v for v in as_tuple(found)]
    if len(values) != len(roots) or not all(isinstance(v, Value) for v in values):
        return tuple(values) if isinstance(found, tuple) else values[0]  # which is refused with the name of the rule
    for new, old in zip(values, roots, strict=True):
        if same_types(new.type, old.type) is not True:
            return decline(f"{word(after)} gives a {new.type!r}, which is not surely a {old.type!r}")
    return tuple(values) if len(values) > 1 else values[0]


# ---------------------------------------------------------------------------------------------- calls


def is_function(given: object) -> bool:
    """True for what may be called with values."""
    return callable(given) and not isinstance(given, Pattern | Graph)


def word(*functions: object) -> str:
    """The name of the first of the functions that has one."""
    names = (getattr(each, "__name__", "") for each in functions)
    return next((name for name in names if name and name != "<lambda>"), "function")


def parameters_of(function: Any) -> tuple[str, ...]:
    """The names of the parameters. Raises TypeRuleError for a function that takes no fixed number of values."""
    if not is_function(function):
        if isinstance(function, Pattern):
            raise TypeRuleError(
                f"{describe(function)} is a pattern, and no function of values",
                hint="two patterns are an equation: irkit.equation(before, after).forward",
            )
        raise TypeRuleError(f"{function!r} is not a function of values", hint="write def before(x, y): ...")
    found = inspect.signature(function).parameters.values()
    odd = [each.name for each in found if each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if odd or not found:
        raise TypeRuleError(
            f"{word(function)} has the parameter {odd[0]!r}, which is no value" if odd else "it has no parameters",
            hint="write a function of values, one after the other: def before(x, y): ...",
        )
    return tuple(each.name for each in found)


def operand_types(count: int) -> Iterator[tuple[tuple[DType, ...], tuple[int, ...]]]:
    """Element types and ranks of so many parameters: all of one kind first."""
    ranks = [(r,) * count for r in RANKS]
    mixed = [each for each in product(RANKS, repeat=count) if len(set(each)) > 1] if count < 4 else []
    for dtype in KINDS:
        yield from (((dtype,) * count, each) for each in ranks + mixed)
    kinds = (DType.FLOAT, DType.BOOL, DType.INT64)
    for dtypes in product(kinds, repeat=count) if 1 < count < 5 else ():
        if len(set(dtypes)) > 1:
            yield from ((dtypes, each) for each in ranks)


def pictures_of(function: Drawn, names: tuple[str, ...], like: Sequence[Type] = ()) -> tuple[Pattern, ...]:
    """What a function computes, as patterns: one for all ranks, or a choice by ranks. Raises TypeRuleError as
    `replace_pattern`."""
    if like:
        return drawing_of(function, [param(t) for t in like], names).side
    found: dict[str, tuple[Drawing, list[tuple[int, ...]]]] = {}
    kinds: tuple[DType, ...] | None = None
    problem: Exception | None = None
    for dtypes, ranks in islice(operand_types(len(names)), TRIED):
        if kinds not in (None, dtypes):
            break
        both: list[Drawing] = []
        try:
            for size in SIZES:
                params = [param(Tensor(d, (size,) * r)) for d, r in zip(dtypes, ranks, strict=True)]
                both.append(drawing_of(function, params, names))
        except (IrkitError, ArithmeticError, LookupError, ValueError, TypeError, AttributeError) as error:
            problem = problem or error
            continue
        if both[0].text != both[1].text:
            raise TypeRuleError(
                f"what {word(function)} computes depends on sizes: {both[0].text} or {both[1].text}",
                hint="write sizes as symbols say them, or a rule by @irkit.rule(pattern)",
            )
        kinds = dtypes
        found.setdefault(both[0].text, (both[0], []))[1].append(ranks)
    if not found:
        raise TypeRuleError(
            f"{word(function)} computes nothing of tensors of ranks 0 to 4: {problem}",
            hint="say of what it is a function: like=(irkit.tensor('f32', 'n', 4), ...)",
        ) from problem
    if len(found) == 1:
        return next(iter(found.values()))[0].side
    return by_ranks([(drawing.side, each) for drawing, several in found.values() for each in several], names)


def picture_of(function: Any, names: tuple[str, ...]) -> tuple[Pattern, ...]:
    """What a function computes, as patterns that hold for all ranks. Raises TypeRuleError where it depends on them."""
    found = pictures_of(function, names)
    if any(isinstance(each, Either) for each in found):
        raise TypeRuleError(
            f"what {word(function)} computes depends on the ranks of its parameters",
            hint="irkit.replace_pattern(before, after) takes such functions, in one direction",
        )
    return found


def by_ranks(cases: list[tuple[tuple[Pattern, ...], tuple[int, ...]]], names: tuple[str, ...]) -> tuple[Pattern, ...]:
    """For each value the choice among the patterns of the cases, whose holes ask for the ranks of their case."""

    def ranked(pattern: Pattern, ranks: dict[str, int]) -> Pattern:
        if isinstance(pattern, Hole) and pattern.name in ranks:
            return attrs.evolve(pattern, type=Typed(ranks=frozenset((ranks[pattern.name],))))
        if isinstance(pattern, Op):
            return attrs.evolve(pattern, operands=tuple(ranked(each, ranks) for each in pattern.operands))
        return pattern

    sides = [tuple(ranked(each, dict(zip(names, ranks, strict=True))) for each in side) for side, ranks in cases]
    return tuple(Either(tuple(side[i] for side in sides)) for i in range(len(sides[0])))


# ---------------------------------------------------------------------------------------------- drawing


def drawing_of(function: Drawn, params: list[Value], names: tuple[str, ...]) -> Drawing:
    """What a function computes of parameters, drawn over holes of these names. Raises TypeRuleError for what is not
    computed by operators, and where a parameter is not used."""
    results = tuple(v if isinstance(v, Value) else const(v) for v in as_tuple(function(*params)))
    order = post_order(results)
    unused = [name for name, v in zip(names, params, strict=True) if v not in order]
    if unused:
        raise TypeRuleError(f"{word(function)} does not use {unused[0]}", hint="leave the parameter out")
    if not any(v.inputs for v in results):
        raise TypeRuleError(f"{word(function)} applies no operator", hint="write what is to be looked for: op.Neg(x)")
    holes = {v: Hole(name) for name, v in zip(names, params, strict=True)}
    patterns: dict[Value, Pattern] = {}
    texts: dict[Value, str] = {}
    for value in order:
        patterns[value], texts[value] = part_of(value, holes, patterns, texts)
    return Drawing(tuple(patterns[v] for v in results), ", ".join(texts[v] for v in results))


def part_of(
    value: Value, holes: dict[Value, Hole], patterns: dict[Value, Pattern], texts: dict[Value, str]
) -> tuple[Pattern, str]:
    """The pattern of a value whose operands are drawn, and its text."""
    if value in holes:
        return holes[value], holes[value].name
    if value.op == CONSTANT:
        return constant_of(value)
    if value.op in (PARAM, SHAPE_VECTOR, CALL, *BODIES):
        raise TypeRuleError(
            f"a {value.op} cannot be drawn",
            ir=repr(value),
            hint="before may apply operators to its parameters, over constants that hang on no symbol",
        )
    if value.op == ITEM and value.inputs[0] is not None:
        inner = patterns[value.inputs[0]]
        index: int = value.attributes[0][1]
        if isinstance(inner, Op):
            return inner[index], f"{texts[value.inputs[0]]}[{index}]"
    operands = tuple(ABSENT if v is None else patterns[v] for v in value.inputs)
    made = Op((value.op,), operands, value.attributes)
    inside = ["None" if v is None else texts[v] for v in value.inputs] + [f"{n}={a!r}" for n, a in value.attributes]
    return made, f"{value.op}({', '.join(inside)})"


def constant_of(value: Value) -> tuple[Pattern, str]:
    """The pattern of a constant: its number, where it is one of floats or a scalar; else its very content."""
    number = uniform(value)
    plain = isinstance(number, int | float) and not isinstance(number, bool)
    if plain and (value.rank == 0 or value.dtype.is_float):
        return number_pattern(number), f"{float(number)!r}"
    blob = value.attributes[0][1]
    array: np.ndarray = blob.array

    def holds(other: Value) -> bool:
        found = other.blob
        if found is None or found.dtype is not blob.dtype or found.shape != blob.shape:
            return False
        return bool(np.array_equal(found.array, array))

    def made(_sampler: object) -> Value:
        return const(array)

    text = f"{value.type!r} {array.tolist()!r}"
    return Constant("", (Is(f"is {text}", holds, (made,)),)), text
