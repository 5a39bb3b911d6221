"""A rule: an equation between a pattern and what a function of the match returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import numpy as np
import sympy

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import dims_of
from irkit.dims import Dim
from irkit.errors import RewriteError, TypeRuleError
from irkit.pattern import Pattern, Rest
from irkit.pattern.heads import (
    attributes_named,
    describe,
    dims_named,
    every_name,
    has_own_outside,
    holds_itself,
    names_of,
)
from irkit.pattern.predicates import Bound


@attrs.frozen
class Decline:
    """Why a rule that matched does not apply."""

    reason: str


Made = Value | tuple[Value, ...] | Decline
"""What the function of a rule returns: what replaces the root, or all roots, or why nothing does."""


def decline(reason: str) -> Decline:
    """What a rule's function returns where the equation does not hold, or does not pay: `return decline("not along one
    axis")`. The reason is told by `irkit.explain` and counted by `irkit.check_rule`."""
    return Decline(reason)


def refused_by(condition: Callable[[Match], object] | None, m: Match, what: str) -> Decline | None:
    """None where a condition of a match holds, or where there is none; else why it does not. Raises TypeRuleError for
    an answer that is neither True nor False nor `decline("why")`."""
    found = True if condition is None else condition(m)
    if isinstance(found, Decline):
        return found
    if not isinstance(found, bool | np.bool_):
        raise TypeRuleError(
            f"the condition of {what} returned {found!r}", hint='return True, False, or decline("why") of the match'
        )
    return None if found else decline(f"the condition of {what} does not hold")


class Match:
    """An instance of a pattern: `m.root`, and what each hole, attribute, named part and named dimension holds, as
    `m.x`. `m.roots` are the values that the patterns of a rule stand for, `m.root` the first."""

    __slots__ = ("__dict__", "_symbols", "root", "roots")

    def __init__(
        self,
        root: Value,
        bound: Bound,
        symbols: Callable[[], frozenset[sympy.Symbol]] = frozenset,
        roots: tuple[Value, ...] = (),
    ) -> None:
        self.__dict__ = bound  # parts are plain attributes, which Python finds fastest
        self.root, self._symbols, self.roots = root, symbols, roots or (root,)

    def __getattr__(self, name: str) -> Any:
        has = ", ".join(self.__dict__) or "none that has a name"
        raise AttributeError(f"the pattern has no part called {name!r}; its parts are: {has}")

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]

    def bound_values(self) -> Iterable[Any]:
        """What the named parts of the pattern hold: values, tuples of them, attributes."""
        return self.__dict__.values()

    def get(self, name: str, default: Any = None) -> Any:
        """What a part of the pattern holds, or `default` where the alternative that matched has no such part."""
        return self.__dict__.get(name, default)

    def binders(self, sizes: Iterable[Dim], *candidates: Value) -> tuple[Value, ...]:
        """The `candidates` whose types are needed to bind a symbol of `sizes` that no parameter's type binds."""
        return self._bind(sizes, candidates)[0]

    def is_bound(self, sizes: Iterable[Dim], *candidates: Value) -> bool:
        """True where every symbol of `sizes` is bound by a parameter's type or by that of a candidate."""
        return not self._bind(sizes, candidates)[1]

    def binding(self, sizes: Iterable[Dim], *candidates: Value) -> tuple[Value, ...] | None:
        """As `binders`; None where something binds no symbol of `sizes`."""
        found, left = self._bind(sizes, candidates)
        return None if left else found

    def _bind(self, sizes: Iterable[Dim], candidates: tuple[Value, ...]) -> tuple[tuple[Value, ...], set[sympy.Symbol]]:
        left = {s for d in sizes for s in dims.symbols_of(d)}
        if left:
            left -= self._symbols()
        found: list[Value] = []
        for value in candidates if left else ():
            mine = {s for d in dims_of(value.type) for s in dims.symbols_of(d)} & left
            if mine:
                found.append(value)
                left -= mine
        return tuple(found), left


Sample = Callable[[np.random.Generator], Any]
"""What makes an instance of the left side of a rule out of a random generator: a value, a tuple of values where there
are several, or an `irkit.checking.instances.Instance` with numbers to feed it."""


@attrs.frozen(eq=False, repr=False)
class Rule:
    """An equation. `exact` is False where it holds in real arithmetic only, not to the last bit.

    `sample`, where given, makes an instance of the left side from a random generator (see `irkit.checking.rules`).
    `others` are the patterns of further values, over operands of the first, which the rule replaces together with it.
    """

    name: str
    pattern: Pattern
    function: Callable[[Match], Made]
    exact: bool = True
    doc: str = ""
    sample: Sample | None = None
    others: tuple[Pattern, ...] = ()

    def __repr__(self) -> str:
        return f"<rule {self.name}: {self.doc}>"


Rules = tuple[Rule, ...]


def rule_set(rules: Rules | Rule) -> Rules:
    """The rules as a tuple. Raises RewriteError for what is not a rule."""
    found = tuple(rules) if isinstance(rules, list | tuple) else (rules,)
    for each in found:
        if not isinstance(each, Rule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RewriteError(
                f"{each!r} is not a rule",
                hint="@rule(pattern) makes a rule of a function of the match; of an equation, take .forward or .rules",
            )
    return found


def rule(
    pattern: Pattern, *others: Pattern, exact: bool = True, sample: Sample | None = None
) -> Callable[[Callable[[Match], Made]], Rule]:
    """`@rule(p.Mul(x, one))` turns a function of the match into a rule of its name; its docstring is the equation.

    Args:
        pattern: the left side. The function returns a Value of the same type, a tuple for an operator with several
            results, or `decline("why")`.
        others: patterns of further values that are replaced with it; the function returns a tuple, one value for each
            pattern. They share operands with the first.
        exact: False where the equation holds in real arithmetic only, not to the last bit.
        sample: a function from a random generator to an instance, for `check_rule`; a tuple of values where there are
            several patterns.

    Raises TypeRuleError for what is not a pattern or no function of a match, for an `exact` or `sample` that is
    neither, and for patterns that nothing matches: where a name stands for two things that are never one."""
    patterns = (pattern, *others)
    for each in patterns:
        refuse_impossible(each)
    _refuse_names(patterns)
    if type(exact) is not bool:
        raise TypeRuleError(f"exact is {exact!r}", hint="write True, or False for what holds of real numbers only")
    if sample is not None and not callable(sample):
        raise TypeRuleError(f"the sample is {sample!r}", hint="give a function from a random generator to an instance")

    def made(function: Callable[[Match], Made]) -> Rule:
        _refuse_function(function)
        doc = inspect.getdoc(function) or ""
        return Rule(
            getattr(function, "__name__", "rule"), pattern, function, exact, doc.partition("\n")[0], sample, others
        )

    return made


def refuse_impossible(pattern: object) -> None:
    """Raises TypeRuleError for what is not a pattern of a value, or one that no value matches."""
    if not isinstance(pattern, Pattern):
        raise TypeRuleError(
            f"{pattern!r} is not a pattern", hint="write one by irkit.pattern.p, as in @rule(p.Relu(hole('x')))"
        )
    if isinstance(pattern, Rest):
        raise TypeRuleError(f"*{pattern.name} stands for operands, and a rule is about a value", hint="write hole('x')")
    twice = holds_itself(pattern)
    if twice:
        raise TypeRuleError(
            f"{describe(pattern)} never matches: no value {twice!r} is made of itself",
            hint="use two names, or the same value twice: p.Add(x, x)",
        )
    if has_own_outside(pattern):
        raise TypeRuleError(
            f"{describe(pattern)} never matches: own(...) is a parameter of a body, and stands outside of bodies",
            hint="write it in the pattern of a body: p.Loop(..., body=...)",
        )


def _refuse_names(patterns: tuple[Pattern, ...]) -> None:
    values = frozenset[str]().union(*map(names_of, patterns))
    for kind, names in (("dimension", dims_named), ("attribute", attributes_named)):
        both = values & frozenset[str]().union(*map(names, patterns))
        if both:
            raise TypeRuleError(
                f"{min(both)!r} names a value and {'an' if kind[0] == 'a' else 'a'} {kind}",
                hint="give each its own name",
            )
    taken = RESERVED & frozenset[str]().union(*map(every_name, patterns))
    if taken:
        raise TypeRuleError(
            f"a match has something else called {min(taken)!r}", hint=f"it has {', '.join(sorted(RESERVED))}"
        )


def _refuse_function(function: object) -> None:
    if not callable(function):
        raise TypeRuleError(f"{function!r} is not a function of a match", hint="write @rule(pattern) above a function")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        name = getattr(function, "__name__", repr(function))
        raise TypeRuleError(
            f"{name} cannot be called with a match: {error}", hint=f"write def {name}(m): ..."
        ) from error
    except ValueError:  # what is written in C tells nothing of its parameters
        return


RESERVED = frozenset(name for name in dir(Match) if not name.startswith("_"))
"""What a match has beside the parts of its pattern."""
