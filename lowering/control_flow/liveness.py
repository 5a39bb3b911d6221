"""Which variables a function still needs at a place, and which it has surely given a value: two analyses of its tree.

Both are conservative: a name may be called live that is not, and never the other way round; a name is said to be
assigned only where every way there assigns it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

import attrs

from lowering.control_flow.names import FUNCTIONS, LOOPS, bound_names, parameters_of, reads, statements_of

Names = frozenset[str]
NONE: Names = frozenset()


@attrs.frozen
class Around:
    """What is live where a `break` or a `continue` of the loop around leads."""

    after: Names = NONE
    again: Names = NONE


@attrs.define(eq=False)
class Variables:
    """What is known of the variables of a function at its branches and loops, by the statement.

    `after` are the names that are live behind a statement, `head` those that are live before each round of a loop,
    `assigned` those that surely have a value before it; `pinned` are names that functions inside use at any time.
    """

    pinned: Names
    after: dict[ast.stmt, Names] = attrs.field(factory=dict)
    head: dict[ast.stmt, Names] = attrs.field(factory=dict)
    assigned: dict[ast.stmt, Names | None] = attrs.field(factory=dict)

    # ---------------------------------------------------------------------------------------------- liveness

    def live(self, statements: Sequence[ast.stmt], out: Names, around: Around) -> Names:
        """The names that are live before statements, where these are live behind them."""
        for each in reversed(statements):
            out = self.before(each, out, around)
        return out

    def before(self, node: ast.stmt, out: Names, around: Around) -> Names:
        """The names that are live before a statement."""
        self.after[node] = out | self.pinned
        if isinstance(node, ast.If):
            both = self.live(node.body, out, around) | self.live(node.orelse, out, around)
            return both | reads(node.test)
        if isinstance(node, LOOPS):
            return self.before_loop(node, out, around)
        if isinstance(node, ast.Try):
            return self.before_try(node, out, around)
        if isinstance(node, ast.With):
            names = frozenset().union(*(bound_names(item.optional_vars) for item in node.items if item.optional_vars))
            return (self.live(node.body, out, around) - names) | reads(node.items)
        if isinstance(node, ast.Match):
            cases = (self.live(case.body, out, around) | reads(case) for case in node.cases)
            return out.union(*cases) | reads(node.subject)
        if isinstance(node, ast.Return):
            return frozenset(reads(node))
        if isinstance(node, ast.Raise):
            return frozenset(reads(node))
        if isinstance(node, ast.Break | ast.Continue):
            return around.after if isinstance(node, ast.Break) else around.again
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return (out - {node.name}) | reads(node)
        return (out - bound_names(node)) | reads(node)

    def before_loop(self, node: ast.For | ast.While, out: Names, around: Around) -> Names:
        """The names that are live before a loop: what a round needs, and what is needed once it is over."""
        end = self.live(node.orelse, out, around)
        tested = reads(node.test) if isinstance(node, ast.While) else set()
        targets = bound_names(node.target) if isinstance(node, ast.For) else set()
        head = end | tested
        while True:
            body = self.live(node.body, head, Around(out, head))
            more = head | (body - targets)
            if more == head:
                break
            head = more
        self.head[node] = head | self.pinned
        return head | (reads([node.iter, node.target]) if isinstance(node, ast.For) else set())

    def before_try(self, node: ast.Try, out: Names, around: Around) -> Names:
        """The names that are live before a try: its body may be left anywhere."""
        later = out | reads(node.finalbody)
        self.live(node.finalbody, out, around)
        caught = later.union(*(self.live(handler.body, later, around) | reads(handler) for handler in node.handlers))
        well = self.live(node.orelse, later, around)
        return self.live(node.body, well | caught, around) | caught | reads(node.body)

    # ---------------------------------------------------------------------------------------------- assignment

    def sure(self, statements: Iterable[ast.stmt], known: Names | None) -> Names | None:
        """The names that surely have a value behind statements; None where nothing gets there."""
        for each in statements:
            if each not in self.assigned or self.assigned[each] is None:
                self.assigned[each] = known
            known = self.behind(each, known)
        return known

    def behind(self, node: ast.stmt, known: Names | None) -> Names | None:
        """The names that surely have a value behind a statement."""
        if known is None or isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
            for held in statements_of(node):
                self.sure(held, known)
            return None
        if isinstance(node, ast.If):
            return both(self.sure(node.body, known), self.sure(node.orelse, known))
        if isinstance(node, ast.For):
            self.sure(node.body, known | bound_names(node.target))
            self.sure(node.orelse, known)
            return known
        if isinstance(node, ast.While):
            self.sure(node.body, known)
            self.sure(node.orelse, known)
            return known
        if isinstance(node, ast.Try):
            well = self.sure(node.orelse, self.sure(node.body, known))
            ends = [well, *(self.sure(h.body, known | ({h.name} if h.name else set())) for h in node.handlers)]
            met = ends[0]
            for each in ends[1:]:
                met = both(met, each)
            last = self.sure(node.finalbody, known)
            return None if met is None or last is None else met | last
        if isinstance(node, ast.With):
            names = set().union(*(bound_names(item.optional_vars) for item in node.items if item.optional_vars))
            return self.sure(node.body, known | names)
        if isinstance(node, ast.Match):
            for case in node.cases:
                self.sure(case.body, known | bound_names(case.pattern))
            return known
        if isinstance(node, ast.Delete):
            return known - bound_names(node)
        return known | (set() if is_maybe(node) else bound_names(node))


def both(one: Names | None, other: Names | None) -> Names | None:
    """What is sure on two ways that meet; a way that nothing takes says nothing."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def is_maybe(node: ast.stmt) -> bool:
    """Whether names that a plain statement binds need not be bound by it: `f(a and (b := c))`."""
    return any(isinstance(each, ast.NamedExpr) for each in ast.walk(node))


def variables_of(function: ast.FunctionDef) -> Variables:
    """What is known of the variables of a function at each of its statements."""
    inner = [each for each in ast.walk(function) if isinstance(each, FUNCTIONS) and each is not function]
    pinned = frozenset().union(*(reads(each) for each in inner if not isinstance(each, ast.Lambda)))
    found = Variables(pinned & bound_names(function.body) | NONE)
    found.live(function.body, NONE, Around())
    found.sure(function.body, frozenset(parameters_of(function)))
    return found
