"""What the operators of a value and of its operands say at once: whether a pattern can match at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import attrs

from irkit.core.ir import Value
from irkit.core.operator_names import plain_name
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM
from irkit.ops.schemas import COMMUTATIVE
from irkit.pattern.language import LEAF_LIKE, Attr, Constant, Either, Hole, OfConstants, Op, Own, Pattern, Rest, Through
from irkit.pattern.predicates import Is, expected_text

Ops = tuple[str | None, ...]
"""The operators of operands; None for one that is absent."""


def fits(pattern: Pattern, value: Value | None) -> bool:
    """False where the operator of `value` alone shows that it cannot match."""
    wanted = heads(pattern)
    return wanted is None or (value.op if value is not None else None) in wanted


@lru_cache(maxsize=1 << 12)
def heads(pattern: Pattern) -> frozenset[str | None] | None:
    """The names of operators that a value must have to match; None for any. The set holds None where it may be absent.
    The names are plain text: which of several operators of one name is meant, the match itself tells."""
    if isinstance(pattern, Op):
        return frozenset(map(plain_name, pattern.ops)) if pattern.item is None else frozenset((ITEM,))
    if isinstance(pattern, Constant):
        return frozenset((CONSTANT, None) if pattern.optional else (CONSTANT,))
    if isinstance(pattern, Hole) and pattern.ops:
        ops = map(plain_name, pattern.ops)
        return frozenset((*ops, None) if pattern.optional else ops)
    if isinstance(pattern, Either):
        sets = [heads(choice) for choice in pattern.choices]
        return None if any(s is None for s in sets) else frozenset[str]().union(*(s for s in sets if s is not None))
    if isinstance(pattern, Through):
        inner = heads(pattern.inner)
        return None if inner is None else inner | {CALL, ITEM}
    return frozenset((PARAM,)) if isinstance(pattern, Own) else None


def root_ops(pattern: Pattern) -> frozenset[str] | None:
    """The operators that a match of the pattern may have at its root; None for any."""
    found = heads(pattern)
    return found if found is None else frozenset(op for op in found if op is not None)


def is_of_constants(op: str, operands: Ops) -> bool:
    """True for an operator of ONNX without bodies, all of whose operands are constants."""
    return op not in LEAF_LIKE and set(operands) <= {None, CONSTANT}


def possible(pattern: Pattern, op: str, operands: Ops) -> bool:
    """False where the operator of a value and those of its operands show that it cannot match."""
    if isinstance(pattern, Either):
        return any(possible(choice, op, operands) for choice in pattern.choices)
    if isinstance(pattern, Through):
        return op in (CALL, ITEM) or possible(pattern.inner, op, operands)
    if isinstance(pattern, OfConstants):
        return is_of_constants(op, operands)
    if not isinstance(pattern, Op) or pattern.item is not None:
        wanted = heads(pattern)
        return wanted is None or op in wanted
    return op in pattern.ops and _operands_fit(pattern, op, operands)


def narrowed_pattern(pattern: Pattern, op: str, operands: Ops) -> Pattern | None:
    """The pattern without the alternatives that the operators of a value and of its operands rule out; None where they
    rule out a match."""
    if not possible(pattern, op, operands):
        return None
    if isinstance(pattern, Op) and pattern.item is None and op not in COMMUTATIVE:
        return _narrowed_operands(pattern, operands[: pattern.rest_at])
    if not isinstance(pattern, Either):
        return pattern
    choices = tuple(each for each in pattern.choices if possible(each, op, operands))
    if len(choices) == 1:
        return narrowed_pattern(choices[0], op, operands)
    return pattern if len(choices) == len(pattern.choices) else Either(choices)


@lru_cache(maxsize=1 << 12)
def _narrowed_operands(pattern: Op, operands: Ops) -> Op:
    """The pattern without those alternatives that its first operands, up to a rest, rule out by their operators."""
    fixed = pattern.operands[: pattern.rest_at]
    given = operands + (None,) * (len(fixed) - len(operands))
    if not any(isinstance(w, Either) for w in fixed):
        return pattern
    chosen: list[Pattern] = []
    for wanted, each in zip(fixed, given, strict=False):
        left = tuple(c for c in wanted.choices if _head_fits(c, each)) if isinstance(wanted, Either) else (wanted,)
        chosen.append(left[0] if len(left) == 1 else Either(left))
    return attrs.evolve(pattern, operands=(*chosen, *pattern.operands[len(fixed) :]))


def _operands_fit(pattern: Op, op: str, operands: Ops) -> bool:
    wanted, at = pattern.operands, pattern.rest_at
    if op in COMMUTATIVE and len(wanted) > 2 - (at is not None):
        fixed = [w for w in wanted if type(w) is not Rest]
        enough = len(operands) >= len(fixed) if at is not None else len(operands) == len(fixed)
        return enough and all(any(_head_fits(w, o) for o in operands) for w in fixed)
    if at is not None:
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


def _head_fits(pattern: Pattern, op: str | None) -> bool:
    wanted = heads(pattern)
    return wanted is None or op in wanted


Guard = Callable[[Value], bool]


@lru_cache(maxsize=1 << 12)
def guards(pattern: Pattern) -> tuple[Guard, ...]:
    """Cheap conditions, necessary for a match: the element type, rank and predicates of the root, and the predicates of
    its operands, asked of the operands alone."""
    if isinstance(pattern, Hole):
        return () if pattern.optional else pattern.where
    if not isinstance(pattern, Op) or pattern.item is not None:
        return ()
    found: list[Guard] = [] if pattern.type is None else [pattern.type.may_be]
    found += pattern.where
    commutes = bool(COMMUTATIVE.intersection(pattern.ops))
    if commutes and (pattern.rest_at is not None or len(pattern.operands) > 2):
        return tuple(found)
    for index, operand in enumerate(pattern.operands[: pattern.rest_at]):
        if isinstance(operand, Hole | Constant) and operand.where and not operand.optional:
            found.append(_guard(operand, index, commutes and len(pattern.operands) == 2))
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


# ---------------------------------------------------------------------------------------------- what a pattern holds


def parts(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns directly inside a pattern."""
    if isinstance(pattern, Either):
        return pattern.choices
    if isinstance(pattern, Through):
        return (pattern.inner,)
    if isinstance(pattern, Op):
        return pattern.operands + tuple(each for _, given in pattern.bodies for each in given if each is not None)
    return ()


@lru_cache(maxsize=1 << 12)
def size(pattern: Pattern) -> int:
    """How many parts a match of the pattern has: the least of its alternatives."""
    inner = [size(each) for each in parts(pattern)]
    if isinstance(pattern, Either):
        return min(inner)
    return sum(inner) + (not isinstance(pattern, Through))


def asks_users(pattern: Pattern) -> bool:
    """True where some part of the pattern is marked `.once()`."""
    if isinstance(pattern, Op | Hole | Constant) and pattern.only_user:
        return True
    return any(asks_users(each) for each in parts(pattern))


def names_of(pattern: Pattern) -> frozenset[str]:
    """The names of the holes of a pattern, those of named operators left out."""
    if isinstance(pattern, Hole | Constant | Rest | Own):
        return frozenset((pattern.name,)) - {""}
    return frozenset[str]().union(*map(names_of, parts(pattern)))


def operators_named(pattern: Pattern) -> frozenset[str]:
    """The names of the operators of a pattern."""
    own = (pattern.name, pattern.whole) if isinstance(pattern, Op) else ()
    return (frozenset(own) - {""}).union(*map(operators_named, parts(pattern)))


def dims_named(pattern: Pattern) -> frozenset[str]:
    """The names of the dimensions that shapes in a pattern name."""
    own = pattern.type.names if isinstance(pattern, Op | Hole | Constant) and pattern.type is not None else ()
    return frozenset(own).union(*map(dims_named, parts(pattern)))


def attributes_named(pattern: Pattern) -> frozenset[str]:
    """The names under which a match has attributes."""
    own = [v.name for _, v in pattern.attributes if isinstance(v, Attr)] if isinstance(pattern, Op) else ()
    return frozenset(own).union(*map(attributes_named, parts(pattern)))


def every_name(pattern: Pattern) -> frozenset[str]:
    """All names under which a match has something."""
    return operators_named(pattern) | names_of(pattern) | dims_named(pattern) | attributes_named(pattern)


def holds_itself(pattern: Pattern, above: frozenset[str] = frozenset()) -> str:
    """The name of a part that stands inside of what has the same name, so that nothing matches; empty where there is
    none."""
    if isinstance(pattern, Hole | Constant | Rest | Own):
        return pattern.name if pattern.name in above else ""
    own = frozenset((pattern.name, pattern.whole)) - {""} if isinstance(pattern, Op) else frozenset[str]()
    if own & above:
        return min(own & above)
    return next(filter(None, (holds_itself(each, above | own) for each in parts(pattern))), "")


def has_own_outside(pattern: Pattern) -> bool:
    """True where a parameter of a body stands outside of the patterns of bodies."""
    if isinstance(pattern, Op):
        return any(map(has_own_outside, pattern.operands))
    return isinstance(pattern, Own) or any(map(has_own_outside, parts(pattern)))


@lru_cache(maxsize=1 << 12)
def describe(pattern: Pattern) -> str:
    """A pattern as text, in the form in which it is written."""
    if isinstance(pattern, Either):
        return f"either({', '.join(describe(c) for c in pattern.choices)})"
    if isinstance(pattern, Through):
        return f"through({describe(pattern.inner)})"
    if isinstance(pattern, Own):
        return pattern.name or f"own({pattern.index})"
    if isinstance(pattern, OfConstants):
        return "any(constants)"
    if not isinstance(pattern, Op):
        if isinstance(pattern, Rest):
            return f"*{pattern.name}"
        return pattern.name or " and ".join(map(expected_text, pattern.where)) or "a constant"
    inside = [describe(o) for o in pattern.operands]
    inside += [f"{n}={v.name if isinstance(v, Attr) else v!r}" for n, v in pattern.attributes]
    inside += [f"{n}={', '.join('any' if g is None else describe(g) for g in given)}" for n, given in pattern.bodies]
    item = "" if pattern.item is None else f"[{pattern.item}]"
    return f"{'|'.join(pattern.ops)}({', '.join(inside)}){item}"


def named_parts(pattern: Pattern) -> list[Hole | Constant | Rest]:
    """The holes, constants and rests of a pattern that have a name, in order."""
    if isinstance(pattern, Hole | Constant | Rest):
        return [pattern] if pattern.name else []
    return [each for part in parts(pattern) for each in named_parts(part)]


def number_in(pattern: Pattern) -> float | None:
    """The number that stands in a pattern itself, or that `const(value=)` gives; None for every other pattern."""
    for test in pattern.where if isinstance(pattern, Constant) else ():
        first = next(iter(test.examples), None) if isinstance(test, Is) else None
        if isinstance(first, int | float):
            return first
    return None
