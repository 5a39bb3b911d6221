"""Decisions as calls: `and`, `or`, `not`, chained comparisons, `x if c else y`, and the builtins that ask for a truth.

Each call of `flow` does what Python does where no tensor is asked, and computes it where one is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TypeVar

from lowering.control_flow.comprehensions import (
    PARTS,
    comprehension_of,
    elements_gone_over,
    flow_call,
    inner_elements,
    is_asking,
    is_listed,
    is_parting,
    is_reducing,
    listed_arguments,
)
from lowering.control_flow.names import MUTATORS, is_path
from lowering.errors import CaptureError

Node = TypeVar("Node", bound=ast.AST)
TRUTHS = frozenset("bool any all max min torch.equal torch.allclose torch.is_nonzero".split())
"""Functions of which `flow.traceable` knows what they give for tensors."""
OPENING = frozenset(("tolist",))
"""Methods that make lists, of which data or a size that varies may tell how many elements they have."""
METHODS = frozenset("equal allclose is_nonzero".split()) | OPENING
RISKY = frozenset("item index_select gather take narrow select view reshape tolist unflatten split chunk".split())
"""Methods that may fail for data for which the operand before them is false."""


PAIRS = "pairwise"
ITERATED = frozenset(("range", "enumerate", "zip", "reversed", "len", "map", PAIRS))
"""Functions of Python's that a loop goes over, or that say how often."""


def is_called(node: ast.AST) -> bool:
    """Whether a call is one of a function that asks for truths or lengths."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        return True
    return (
        is_asking(node)
        or is_parting(node)
        or is_reducing(node)
        or (is_path(node.func) and ast.unparse(node.func) in TRUTHS)
    )


def is_opening(node: ast.AST) -> bool:
    """Whether a call makes a list whose length may vary."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in OPENING


def is_element(node: ast.AST) -> bool:
    """Whether an expression reads `x[i]`, of a place that is computed."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
        return False
    place = node.slice.operand if isinstance(node.slice, ast.UnaryOp) else node.slice
    return not isinstance(place, ast.Constant | ast.Slice | ast.Tuple)


def is_decision(node: ast.AST) -> bool:
    """Whether an expression decides something by a truth."""
    chained = isinstance(node, ast.Compare) and len(node.ops) > 1
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    listed = is_listed(node) and not isinstance(node, ast.GeneratorExp)  # which decides where something goes over it
    return chained or negated or isinstance(node, ast.BoolOp | ast.IfExp) or is_called(node) or listed


def iterating_calls(elements: ast.expr) -> set[ast.AST]:
    """The calls in what a loop goes over of which `flow.traceable` knows what they give for sizes that vary."""
    calls = [each for each in ast.walk(elements) if isinstance(each, ast.Call)]
    named = [each for each in calls if isinstance(each.func, ast.Name) and each.func.id in ITERATED]
    named += [each for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr in (*PARTS, PAIRS)]
    within = [elements, *(part for each in named for part in each.args)]
    return {*named, *(each for each in within if isinstance(each, ast.GeneratorExp) and is_listed(each))}


def tests_in(function: ast.AST) -> set[ast.AST]:
    """The expressions of which only the truth is asked: tests, and operands of `not`, and of `and` and `or` in them."""
    pending: list[ast.AST] = []
    for each in ast.walk(function):
        if isinstance(each, ast.If | ast.While | ast.Assert | ast.IfExp):
            pending.append(each.test)
        elif isinstance(each, ast.comprehension):
            pending += each.ifs
        elif isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not):
            pending.append(each.operand)
    found: set[ast.AST] = set()
    while pending:
        each = pending.pop()
        found.add(each)
        pending += each.values if isinstance(each, ast.BoolOp) else []
    return found


class Decisions(ast.NodeTransformer):
    """Writes the marked decisions of expressions as calls; `tests` are those of which only the truth is asked, `line`
    gives the text of a line, for errors, `fresh` a name that no variable has."""

    def __init__(
        self, marked: set[ast.AST], tests: set[ast.AST], line: Callable[[ast.AST], str], fresh: Callable[[], str]
    ) -> None:
        self.marked, self.tests, self.line, self.fresh = marked, tests, line, fresh

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        marked, bare = node in self.marked, [risks(each) for each in node.values]
        self.generic_visit(node)
        if not marked:
            return node
        self.refuse_bindings(node.values[1:])
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        rest = [deferred(each) for each in node.values[1:]]
        told = {"lazy": any(bare[1:]), "as_value": node not in self.tests}
        named = [ast.keyword(each, ast.Constant(True)) for each, holds in told.items() if holds]
        return at_place(flow_call(name, [node.values[0], *rest], named), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        marked = node in self.marked
        self.generic_visit(node)
        return at_place(flow_call("not_", [node.operand]), node) if marked else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        marked = node in self.marked
        self.generic_visit(node)
        if not marked:
            return node
        self.refuse_bindings([node.body, node.orelse])
        return at_place(flow_call("choose", [node.test, deferred(node.body), deferred(node.orelse)]), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        marked = node in self.marked
        self.generic_visit(node)
        if not marked:
            return node
        self.refuse_bindings(node.comparators)
        operators: list[ast.expr] = [ast.Constant(type(each).__name__) for each in node.ops]
        first, second, *rest = [node.left, *node.comparators]
        given = [ast.Tuple(operators, ast.Load()), first, second, *map(deferred, rest)]
        return at_place(flow_call("chain", given), node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self.listed(node) if node in self.marked else self.generic_visit(node)

    def visit_List(self, node: ast.List) -> ast.AST:
        return self.listed(node) if node in self.marked else self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return self.listed(node) if node in self.marked else self.generic_visit(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self.listed(node) if node in self.marked else self.generic_visit(node)

    def listed(self, node: ast.ListComp | ast.GeneratorExp | ast.Call | ast.BinOp | ast.List) -> ast.AST:
        """A call that makes a list of elements, or counts them."""
        elements = elements_gone_over(node)
        inner = inner_elements(node)
        for each in () if elements is None else (elements, *inner):
            self.marked |= iterating_calls(each)
        self.generic_visit(node)  # which may make the comprehension in a call another call
        several = inner and comprehension_of(node) is not None
        name = "repeated" if isinstance(node, ast.BinOp) else "nested" if several else "listed"
        return at_place(flow_call(name, listed_arguments(node, self.fresh)), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        marked = node in self.marked
        if marked and is_listed(node):
            return self.listed(node)
        self.marked |= iterating_calls(node.args[1]) if marked and is_reducing(node) else set()
        self.generic_visit(node)
        if not marked:
            return node
        if is_reducing(node):
            return at_place(flow_call("reduced", [node.func, *node.args]), node)
        for each in node.args:
            if isinstance(each, ast.GeneratorExp):
                self.refuse_bindings([each])
        made = ast.Call(flow_call("traceable", [node.func]), node.args, node.keywords)
        return at_place(made, node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        marked = node in self.marked
        self.generic_visit(node)
        return at_place(flow_call("element_at", [node.value, node.slice]), node) if marked else node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self.generic_visit(node)

    def refuse_bindings(self, nodes: Sequence[ast.expr]) -> None:
        """Raises CaptureError where an operand that becomes a function binds a variable, or yields."""
        for node in nodes:
            for each in ast.walk(node):
                if isinstance(each, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await):
                    what = ":=" if isinstance(each, ast.NamedExpr) else "yield or await"
                    raise CaptureError(
                        f"a decision on data has {what} in an operand, which is not rewritten",
                        source=self.line(node),
                        hint="write a statement of its own for it",
                    )


def risks(node: ast.expr) -> bool:
    """Whether an operand may fail, or change something, where the one before it decides already."""
    for each in ast.walk(node):
        if isinstance(each, ast.Subscript):
            return True
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            name = each.func.attr
            if name in RISKY or name in MUTATORS or (name.endswith("_") and not name.startswith("_")):
                return True
    return False


def deferred(node: ast.expr) -> ast.expr:
    """An expression as a function without parameters."""
    empty = ast.arguments(posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[])
    return ast.copy_location(ast.Lambda(empty, node), node)


def at_place(made: Node, place: ast.AST) -> Node:
    """A new node, and those in it that have no line yet, at the place of another. The name of a function that is called
    has the first line alone: where it is several lines long, Python says that it is called in the last one."""
    for each in ast.walk(made):
        if "lineno" in each._attributes and getattr(each, "lineno", None) is None:
            ast.copy_location(each, place)
            if isinstance(each, ast.Attribute):
                each.end_lineno, each.end_col_offset = each.lineno, each.col_offset
    return made
