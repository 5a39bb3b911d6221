"""Marked branches and loops as functions and one call of `flow`: what of the variables goes in, and what comes out."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Sequence

import attrs

from lowering.control_flow.comprehensions import flow_call, lambda_of
from lowering.control_flow.decisions import Decisions, at_place, iterating_calls, tests_in
from lowering.control_flow.exits import Exits
from lowering.control_flow.liveness import Around, Variables, variables_of
from lowering.control_flow.names import (
    FUNCTIONS,
    LOOPS,
    bound_names,
    changed_attributes,
    changed_names,
    exits,
    falls_through,
    names_in,
    reads,
    statements_of,
    walk_own,
)
from lowering.errors import CaptureError

Statements = list[ast.stmt]


@attrs.frozen
class Region:
    """What statements belong to: a function (`carried` is None), or the round of a loop that carries these names."""

    carried: tuple[str, ...] | None = None

    def end(self, place: ast.AST) -> ast.stmt:
        """The statement that ends the region."""
        value = ast.Constant(None) if self.carried is None else tuple_of(self.carried)
        return at_place(ast.Return(value), place)


@attrs.define(eq=False)
class Generation:
    """The rewriting of one function: its `marked` decisions become calls. `line` gives the text of a line, for errors.

    `unset` are names of which a branch or loop asks before they surely have a value.
    """

    function: ast.FunctionDef
    marked: set[ast.AST]
    line: Callable[[ast.AST], str]
    counts: Counter[str] = attrs.field(factory=Counter)
    taken: set[str] = attrs.field(init=False)
    unset: dict[str, None] = attrs.field(factory=dict)
    exits: Exits = attrs.field(init=False)
    variables: Variables = attrs.field(init=False)
    shared: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()

    def __attrs_post_init__(self) -> None:
        self.taken = names_in(self.function)
        self.exits = Exits(self.marked, self.fresh, self.line)

    def fresh(self, base: str) -> str:
        """A name that no variable has: `base_1`."""
        while True:
            self.counts[base] += 1
            name = f"{base}_{self.counts[base]}"
            if name not in self.taken:
                self.taken.add(name)
                return name

    def run(self) -> ast.FunctionDef:
        """The function, its statements rewritten in place."""
        function = self.function
        self.refuse_unknown()
        self.exits.spread(function.body)
        before = -1
        while len(self.marked) != before:  # a return that leaves one loop may stand in another
            before = len(self.marked)
            function.body = self.exits.unlooped(function.body)
            self.exits.spread(function.body)
        function.body = self.exits.pushed(function.body)
        self.shared = self.names_shared()
        self.declared = frozenset(
            name for each in walk_own(function) if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names
        )
        self.variables, tests = variables_of(function), tests_in(function)
        function.body = self.block(function.body, Region())
        if self.unset:
            function.body = self.with_values(function.body)
        decisions = Decisions(self.marked, tests, self.line, lambda: self.fresh("element"))
        function.body = [decisions.visit(each) for each in function.body]
        Supers(function).visit(function)
        place = 1 if ast.get_docstring(function) is not None else 0
        (imported,) = ast.parse("from lowering.control_flow import flow").body
        function.body.insert(place, at_place(imported, function))
        return ast.fix_missing_locations(function)

    def refuse_unknown(self) -> None:
        """Raises CaptureError for functions that are not rewritten."""
        for each in walk_own(self.function):
            if isinstance(each, ast.Yield | ast.YieldFrom | ast.Await | ast.AsyncFor | ast.AsyncWith):
                raise CaptureError(
                    f"{self.function.name} is a generator or a coroutine, and decides by data",
                    source=self.line(self.function),
                    hint="make it a function that returns a list",
                )
            if isinstance(each, ast.Name) and each.id in ("locals", "eval", "exec") and isinstance(each.ctx, ast.Load):
                raise CaptureError(
                    f"{self.function.name} calls {each.id}(), and decides by data",
                    source=self.line(each),
                    hint="name the variables that it uses",
                )

    def names_shared(self) -> frozenset[str]:
        """The names that functions inside use, other than in lambdas: they would not see what a branch assigns."""
        inner = [each for each in walk_own(self.function) if isinstance(each, FUNCTIONS) and each is not self.function]
        return frozenset().union(*(reads(each) for each in inner if not isinstance(each, ast.Lambda)))

    # ---------------------------------------------------------------------------------------------- statements

    def block(self, statements: Sequence[ast.stmt], region: Region) -> Statements:
        """Statements rewritten."""
        return [made for each in statements for made in self.statement(each, region)]

    def body(self, statements: Sequence[ast.stmt], region: Region, place: ast.AST) -> Statements:
        """The statements of a new function that stands for a part of a region."""
        made = self.block(statements, region)
        return [*made, region.end(place)] if falls_through(made) else made

    def statement(self, node: ast.stmt, region: Region) -> Statements:
        """A statement rewritten."""
        if isinstance(node, FUNCTIONS):
            return [node]
        if isinstance(node, ast.If) and node in self.marked:
            return self.leaving(node, region) if exits([node]) else self.branch(node)
        if isinstance(node, ast.While) and node in self.marked:
            return self.while_loop(node)
        if isinstance(node, ast.For) and node in self.marked:
            return self.for_loop(node)
        if isinstance(node, ast.Assert) and node in self.marked:
            said = [] if node.msg is None else [lambda_of([], node.msg)]
            return [at_place(ast.Expr(flow_call("assert_", [node.test, *said])), node)]
        if isinstance(node, ast.Break | ast.Continue) and region.carried is not None:
            return [region.end(node)]
        inner = Region() if isinstance(node, LOOPS) else region  # the exits of an unmarked loop are its own
        for held in statements_of(node):
            held[:] = self.block(held, inner if held is getattr(node, "body", None) else region)
        return [node]

    def branch(self, node: ast.If) -> Statements:
        """An if that control does not leave: its variables are the results of a call."""
        both = [*node.body, *node.orelse]
        outs = sorted(bound_names(both) & self.variables.after[node])
        given, attributes = self.operands(node, both, outs), self.attributes(both)
        name = self.names("then", "otherwise")
        region = Region(tuple(outs))
        made = [
            self.defined(name[0], given, [*self.block(node.body, Region()), region.end(node)], node),
            self.defined(name[1], given, [*self.block(node.orelse, Region()), region.end(node)], node),
        ]
        told = self.told(both, given, outs, attributes)
        call_ = flow_call("branch", [node.test, *map(load, name), tuple_of(given)], told)
        return [*made, at_place(assigned(outs, call_), node)]

    def leaving(self, node: ast.If, region: Region) -> Statements:
        """An if that control may leave: nothing follows it, and its result is that of the region."""
        both = [*node.body, *node.orelse]
        given, attributes = self.operands(node, both, []), self.attributes(both)
        if region.carried is not None:
            self.ask(region.carried, node)
            given = sorted({*given, *(name for name in region.carried if name in bound_names(both))})
        name = self.names("then", "otherwise")
        made = [
            self.defined(name[0], given, self.body(node.body, region, node), node),
            self.defined(name[1], given, self.body(node.orelse, region, node), node),
        ]
        told = self.told(both, given, region.carried, attributes)
        call_ = flow_call("branch", [node.test, *map(load, name), tuple_of(given)], told)
        return [*made, at_place(ast.Return(call_), node)]

    def while_loop(self, node: ast.While) -> Statements:
        """A while as functions of what it carries: its test, and one round."""
        carried, attributes = self.carried(node, []), self.attributes(node.body)
        test, step = self.names("test", "step")
        region = Region(tuple(carried))
        tested = self.defined(test, carried, [at_place(ast.Return(node.test), node)], node)
        made = self.defined(step, carried, self.body(node.body, region, node), node)
        told = self.told(node.body, carried, carried, attributes, self.exits.stops.get(node))
        call_ = flow_call("while_", [load(test), load(step), tuple_of(carried)], told)
        return [tested, made, at_place(assigned(carried, call_), node)]

    def for_loop(self, node: ast.For) -> Statements:
        """A for as a function of an element and of what it carries."""
        carried, attributes = self.carried(node, [node.target]), self.attributes(node.body)
        (step,) = self.names("step")
        element = self.fresh("element")
        if isinstance(node.target, ast.Name) and node.target.id not in carried:
            element, first = node.target.id, []
        else:
            first = [at_place(ast.Assign([node.target], load(element)), node)]
        region = Region(tuple(carried))
        made = self.defined(step, [element, *carried], [*first, *self.body(node.body, region, node)], node)
        told = self.told(node.body, carried, carried, attributes, self.exits.stops.get(node))
        self.marked |= iterating_calls(node.iter)
        call_ = flow_call("for_", [node.iter, load(step), tuple_of(carried)], told)
        return [made, at_place(assigned(carried, call_), node)]

    # ---------------------------------------------------------------------------------------------- variables

    def names(self, *bases: str) -> tuple[str, ...]:
        """New names of functions that belong together."""
        return tuple(self.fresh(base) for base in bases)

    def carried(self, node: ast.For | ast.While, targets: Sequence[ast.AST]) -> list[str]:
        """The names that a loop carries from round to round, or leaves behind."""
        inside = [*node.body, *targets]
        written = bound_names(inside) | (changed_names(node.body) & self.local())
        needed = self.variables.head[node] | self.variables.after[node]
        stop = self.exits.stops.get(node)
        found = sorted((written & needed) | ({stop} if stop else set()))
        self.refuse_declared(node, inside)
        self.ask(found, node)
        return found

    def operands(self, node: ast.If, both: Sequence[ast.stmt], outs: Sequence[str]) -> list[str]:
        """The names that a branch takes as parameters: those that it binds or changes, and that are read first."""
        written = bound_names(both) | (changed_names(both) & self.local())
        live = Variables(self.variables.pinned)
        around = live.live(both[: len(node.body)], frozenset(outs), AROUND)
        around |= live.live(both[len(node.body) :], frozenset(outs), AROUND)
        self.refuse_declared(node, both)
        found = sorted(written & around)
        self.ask(found, node)
        return found

    def local(self) -> set[str]:
        """The names of the function's own variables."""
        taken = self.function.args
        every = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
        return bound_names(self.function.body) | {each.arg for each in every if each is not None}

    def ask(self, names: Sequence[str], node: ast.stmt) -> None:
        """Notes names that need not have a value before a statement."""
        known = self.variables.assigned.get(node)
        if known is not None:
            self.unset.update(dict.fromkeys(n for n in names if n not in known and n not in self.exits.internal))

    def refuse_declared(self, node: ast.stmt, inside: Sequence[ast.AST]) -> None:
        """Raises CaptureError where a branch or loop binds what a function around or inside also sees."""
        own = bound_names(inside)
        for name in sorted(own & self.declared):
            raise CaptureError(
                f"a branch or loop on data assigns the global or nonlocal {name!r}",
                source=self.line(node),
                hint="return the value, and assign it outside",
            )
        for name in sorted(own & self.shared):
            if not any(name in reads(each) for each in inside if isinstance(each, FUNCTIONS)):
                raise CaptureError(
                    f"a branch or loop on data assigns {name!r}, which a function inside uses",
                    source=self.line(node),
                    hint=f"give {name!r} to that function as an argument",
                )
        for each in inside:
            if any(isinstance(sub, ast.Delete) for sub in walk_own(each)):
                raise CaptureError(
                    "a branch or loop on data deletes something", source=self.line(node), hint="delete it outside"
                )

    def attributes(self, statements: Sequence[ast.stmt]) -> list[ast.expr]:
        """The attributes that statements set or change, as pairs of an object and a name."""
        found: list[ast.expr] = []
        for place in changed_attributes(statements).values():
            root: ast.expr = place.value
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in bound_names(statements):
                continue  # the object is one of the branch's own
            holder = ast.parse(ast.unparse(place.value), mode="eval").body
            found.append(ast.Tuple([holder, ast.Constant(place.attr)], ast.Load()))
        return found

    def told(
        self,
        statements: Sequence[ast.stmt],
        given: Sequence[str],
        outs: Sequence[str] | None,
        attributes: list[ast.expr],
        stop: str | None = None,
    ) -> list[ast.keyword]:
        """What a call says beside its operands: the names of its results, and what is written in place."""
        found = []
        if outs:
            found.append(ast.keyword("names", ast.Constant(" ".join(outs))))
        written = [name for name in given if name in changed_names(statements)]
        if written:
            found.append(ast.keyword("written", ast.Constant(" ".join(written))))
        if attributes:
            found.append(ast.keyword("attributes", ast.Tuple(attributes, ast.Load())))
        if stop:
            found.append(ast.keyword("stop", ast.Constant(stop)))
        return found

    def defined(self, name: str, params: Sequence[str], body: Statements, place: ast.AST) -> ast.stmt:
        """A function inside."""
        (made,) = ast.parse(f"def {name}({', '.join(params)}):\n    pass").body
        made.body = body  # type: ignore[attr-defined]
        for each in [made, *ast.walk(made.args)]:  # type: ignore[attr-defined]
            if "lineno" in each._attributes:
                ast.copy_location(each, place)
        return made

    def with_values(self, statements: Statements) -> Statements:
        """Statements before which names have a value that says that they have none, and that ask for it by reading."""

        class Reads(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.AST:
                if isinstance(node.ctx, ast.Load) and node.id in unset:
                    return at_place(flow_call("defined", [node]), node)
                return node

            def visit_Call(self, node: ast.Call) -> ast.AST:
                made = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
                if made and node.func.value.id == "flow" and node.func.attr in PASSING:  # type: ignore[union-attr]
                    node.args[0] = self.visit(node.args[0])
                    return node
                return self.generic_visit(node)

            def visit_Return(self, node: ast.Return) -> ast.AST:
                return node if getattr(node.value, "passes", False) else self.generic_visit(node)

        unset = self.unset
        place = statements[0]
        made = [Reads().visit(each) for each in statements]
        first = [at_place(ast.parse(f"{n} = flow.undefined({n!r})").body[0], place) for n in unset]
        at = 1 if ast.get_docstring(self.function) is not None else 0
        parameters = {each for each in unset if each in self.parameters()}
        first = [each for each, n in zip(first, unset, strict=True) if n not in parameters]
        return [*made[:at], *first, *made[at:]]

    def parameters(self) -> set[str]:
        """The names of the function's parameters."""
        taken = self.function.args
        every = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
        return {each.arg for each in every if each is not None}


class Supers(ast.NodeTransformer):
    """Writes `super()` in functions inside a method with its arguments, which Python finds in the method only."""

    def __init__(self, function: ast.FunctionDef) -> None:
        arguments = [*function.args.posonlyargs, *function.args.args]
        self.first = arguments[0].arg if arguments else ""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and self.first:
            node.args = [at_place(load("__class__"), node), at_place(load(self.first), node)]
        return node


def load(name: str) -> ast.expr:
    """A variable that is read."""
    return ast.Name(name, ast.Load())


def tuple_of(names: Sequence[str]) -> ast.expr:
    """Several variables that are read, as they are, with a value or without."""
    made = ast.Tuple([load(name) for name in names], ast.Load())
    made.passes = True  # type: ignore[attr-defined]
    return made


def assigned(names: Sequence[str], value: ast.expr) -> ast.stmt:
    """The assignment of the results of a call."""
    if not names:
        return ast.Expr(value)
    target: ast.expr = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
    return ast.Assign([target], value)


AROUND = Around()
PASSING = frozenset(("branch", "while_", "for_"))
