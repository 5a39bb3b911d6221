"""Exits out of branches and loops in plain terms: a `return` in a loop becomes a `break`, and what follows a branch
that may leave becomes part of the branches. What comes out is Python that does the same, and in which each branch that
may leave is the last statement of its function or of the round of its loop.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Sequence

import attrs

from lowering.control_flow.names import FUNCTIONS, LOOPS, exits, falls_through, statements_of
from lowering.errors import CaptureError

MOST = 4000
"""How many nodes the statements may have that are written twice, since they follow two branches."""


@attrs.define(eq=False)
class Exits:
    """The rewriting of one function: `marked` are its decisions that are rewritten, which grow; `stops` has the name of
    the variable that says that a loop was left, by the loop; `fresh` gives a new name, `line` the text of a line."""

    marked: set[ast.AST]
    fresh: Callable[[str], str]
    line: Callable[[ast.AST], str]
    stops: dict[ast.stmt, str] = attrs.field(factory=dict)
    internal: set[str] = attrs.field(factory=set)
    copied: int = 0

    def spread(self, statements: Sequence[ast.stmt], above: tuple[ast.stmt, ...] = ()) -> None:
        """Marks what a marked branch leaves: the loops around it, and the branches on the way."""
        for each in statements:
            if isinstance(each, ast.If) and each in self.marked:
                self.spread_from(each, exits([each]), above)
            for held in statements_of(each):
                self.spread(held, (*above, each))

    def spread_from(self, node: ast.stmt, kinds: set[type[ast.stmt]], above: tuple[ast.stmt, ...]) -> None:
        """Marks what control passes that leaves a statement so."""
        for outer in reversed(above):
            if not kinds:
                return
            if isinstance(outer, ast.If):
                self.marked.add(outer)
            elif isinstance(outer, LOOPS):
                if isinstance(outer, ast.For | ast.While):
                    self.marked.add(outer)
                kinds = kinds & {ast.Return}
            elif isinstance(outer, ast.With | ast.Try | ast.Match):
                what = {ast.With: "a with block", ast.Try: "a try block", ast.Match: "a match"}[type(outer)]
                raise CaptureError(
                    f"a branch on data leaves {what} by {word_of(kinds)}, which is not rewritten",
                    source=self.line(node),
                    hint=f"set a variable in {what}, and leave behind it",
                )

    # ---------------------------------------------------------------------------------------------- loops

    def unlooped(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements whose marked loops are left by `break` and `continue` alone, and have no `else`."""
        found: list[ast.stmt] = []
        for each in statements:
            for held in statements_of(each):
                held[:] = self.unlooped(held)
            found += self.without_returns(each) if isinstance(each, LOOPS) and each in self.marked else [each]
        return found

    def without_returns(self, loop: ast.For | ast.While) -> list[ast.stmt]:
        """A loop, with statements before and behind it that do what its returns and its `else` say."""
        before: list[ast.stmt] = []
        behind: list[ast.stmt] = []
        if ast.Return in exits(loop.body):
            left, value = self.fresh("returned"), self.fresh("value")
            self.internal |= {left, value}
            before += parsed(f"{left} = False\n{value} = flow.unset({value!r})", loop)
            loop.body = self.breaking(loop.body, left, value)
            (leave,) = parsed(f"if {left}:\n    return {value}", loop)
            self.marked.add(leave)
            behind.append(leave)
        if loop not in self.stops and (loop.orelse or ast.Break in exits(loop.body)):
            stop = self.fresh("stopped")
            self.stops[loop] = stop
            self.internal.add(stop)
            before += parsed(f"{stop} = False", loop)
            loop.body = stopping(loop.body, stop)
        if loop.orelse:
            (rest,) = parsed(f"if flow.not_({self.stops[loop]}):\n    pass", loop)
            assert_if(rest).body = loop.orelse
            self.marked.add(rest)
            behind.insert(0, rest)
            loop.orelse = []
        return [*before, loop, *behind]

    def breaking(self, statements: Sequence[ast.stmt], left: str, value: str) -> list[ast.stmt]:
        """Statements of a loop in which each `return` sets two variables and breaks; loops inside do so first."""
        found: list[ast.stmt] = []
        for each in statements:
            if isinstance(each, ast.Return):
                given = ast.unparse(each.value) if each.value is not None else "None"
                made = parsed(f"{left} = True\n{value} = {given}\nbreak", each)
                if each.value is not None:
                    made[1].value = each.value  # type: ignore[attr-defined]
                found += made
                continue
            if isinstance(each, LOOPS) and ast.Return in exits([each]):
                self.marked.add(each)
                found += self.breaking(self.without_returns(each), left, value)
                continue
            for held in statements_of(each):
                held[:] = self.breaking(held, left, value)
            found.append(each)
        return found

    # ---------------------------------------------------------------------------------------------- branches

    def pushed(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements in which nothing follows a marked branch that may leave: it is part of the branches."""
        for place, each in enumerate(statements):
            if isinstance(each, ast.If) and each in self.marked and exits([each]):
                rest = list(statements[place + 1 :])
                ways = [side for side in (each.body, each.orelse) if falls_through(side)]
                for side in ways:
                    side += rest if side is ways[-1] else self.copy(rest)
                each.body, each.orelse = self.pushed(each.body), self.pushed(each.orelse)
                return [*statements[:place], each]
            if not isinstance(each, FUNCTIONS):
                for held in statements_of(each):
                    held[:] = self.pushed(held)
        return list(statements)

    def copy(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The same statements once more, marked as they are."""
        found = copy.deepcopy(list(statements))
        for one, other in zip(statements, found, strict=True):
            for a, b in zip(ast.walk(one), ast.walk(other), strict=True):
                self.copied += 1
                if a in self.marked:
                    self.marked.add(b)
                if isinstance(a, ast.stmt) and isinstance(b, ast.stmt) and a in self.stops:
                    self.stops[b] = self.stops[a]
        if self.copied > MOST:
            raise CaptureError(
                "the function returns at too many places under conditions on data",
                source=self.line(statements[0]),
                hint="assign the result to a variable, and return it at the end",
            )
        return found


def assert_if(node: ast.stmt) -> ast.If:
    """The same, known to be an if."""
    if not isinstance(node, ast.If):
        raise TypeError("no if")
    return node


def stopping(statements: Sequence[ast.stmt], stop: str) -> list[ast.stmt]:
    """Statements of a loop in which each `break` of it says so first."""
    found: list[ast.stmt] = []
    for each in statements:
        if isinstance(each, ast.Break):
            found += [*parsed(f"{stop} = True", each), each]
            continue
        if isinstance(each, LOOPS):
            each.orelse = stopping(each.orelse, stop)
        else:
            for held in statements_of(each):
                held[:] = stopping(held, stop)
        found.append(each)
    return found


def parsed(text: str, place: ast.AST) -> list[ast.stmt]:
    """Statements out of a text, at the line of another."""
    made = ast.parse(text).body
    for statement in made:
        for each in ast.walk(statement):
            if "lineno" in each._attributes:
                ast.copy_location(each, place)
                each.end_lineno, each.end_col_offset = place.lineno, place.col_offset  # type: ignore[attr-defined]
    return made


def word_of(kinds: Iterable[type[ast.stmt]]) -> str:
    """The kinds of exit in words."""
    return " or ".join(sorted(kind.__name__.lower() for kind in kinds))
