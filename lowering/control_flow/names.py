"""What the statements of a function read, bind and change, by the names of its variables."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.While)
EXITS = (ast.Return, ast.Break, ast.Continue)
MUTATORS = frozenset("append extend insert pop remove clear sort reverse update setdefault popitem add discard".split())
"""Methods of lists, dicts and sets that change them."""


def walk_own(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, but for the bodies of functions and classes in it."""
    pending: list[ast.AST] = [node]
    while pending:
        each = pending.pop()
        yield each
        if each is node or not isinstance(each, (*FUNCTIONS, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(each))
        elif not isinstance(each, ast.Lambda):
            pending.extend(each.decorator_list)


def statements_of(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The lists of statements that a statement holds, but for those of functions and classes."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return
    for field in ("body", "orelse", "finalbody"):
        held = getattr(node, field, None)
        if held and isinstance(held, list):
            yield held
    for handler in getattr(node, "handlers", ()):
        yield handler.body
    for case in getattr(node, "cases", ()):
        yield case.body


def reads(nodes: ast.AST | Iterable[ast.AST] | None) -> set[str]:
    """The names that are read anywhere in nodes, in functions inside too."""
    if nodes is None:
        return set()
    given = [nodes] if isinstance(nodes, ast.AST) else list(nodes)
    found = {
        each.id
        for node in given
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Store)
    }
    # x += 1 reads x, though its Name is one that is stored.
    return found | {
        each.target.id
        for node in given
        for each in ast.walk(node)
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
    }


def bound_names(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """The names that statements bind in the function that they stand in."""
    found: set[str] = set()
    for node in [nodes] if isinstance(nodes, ast.AST) else nodes:
        for each in outside_comprehensions(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store | ast.Del):
                found.add(each.id)
            elif isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(each.name)
            elif isinstance(each, ast.Import | ast.ImportFrom):
                found.update((alias.asname or alias.name.partition(".")[0]) for alias in each.names)
            elif isinstance(each, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and each.name:
                found.add(each.name)
            elif isinstance(each, ast.MatchMapping) and each.rest:
                found.add(each.rest)
    return found


def outside_comprehensions(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one in whose names the function itself binds: a comprehension has variables of its own."""
    pending: list[ast.AST] = [node]
    while pending:
        each = pending.pop()
        yield each
        if isinstance(each, COMPREHENSIONS):
            pending.extend(sub.target for sub in ast.walk(each) if isinstance(sub, ast.NamedExpr))
        elif not isinstance(each, (*FUNCTIONS, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(each))


def changed_names(nodes: Iterable[ast.AST]) -> set[str]:
    """The names whose objects statements write in place: `x[0] = y`, `x += y`, `x.add_(y)`, `x.append(y)`."""
    return {place.id for place in changed_places(nodes) if isinstance(place, ast.Name)}


def changed_attributes(nodes: Sequence[ast.AST]) -> dict[str, ast.Attribute]:
    """The attributes that statements set, or whose objects they write in place, by their text: `self.count`."""
    found = {ast.unparse(place): place for place in changed_places(nodes) if isinstance(place, ast.Attribute)}
    for node in nodes:
        for each in walk_own(node):
            if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and is_path(each):
                found.setdefault(ast.unparse(each), each)
    return found


def changed_places(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """The names and attributes whose objects statements write in place."""
    for node in nodes:
        for each in walk_own(node):
            place: ast.expr | None = None
            if isinstance(each, ast.Subscript) and not isinstance(each.ctx, ast.Load):
                place = each.value
            elif isinstance(each, ast.AugAssign):
                place = each.target
            elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and writes(each.func.attr):
                place = each.func.value
            while isinstance(place, ast.Subscript):  # x[0][1] = y
                place = place.value
            if place is not None and is_path(place):
                yield place


def writes(method: str) -> bool:
    """Whether a method of this name changes its object: `add_`, `append`."""
    return method in MUTATORS or (method.endswith("_") and not method.startswith("_"))


def is_path(node: ast.expr) -> bool:
    """Whether an expression is a name, or an attribute of one: `self.encoder.cache`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def exits(statements: Iterable[ast.stmt]) -> set[type[ast.stmt]]:
    """The kinds of exit by which control leaves statements: Return, and Break and Continue of a loop around them."""
    found: set[type[ast.stmt]] = set()
    for each in statements:
        if isinstance(each, EXITS):
            found.add(type(each))
            continue
        inner = set[type[ast.stmt]]().union(*(exits(held) for held in statements_of(each)))
        if isinstance(each, LOOPS):
            inner = (inner & {ast.Return}) | exits(each.orelse)
        found |= inner
    return found


def falls_through(statements: Sequence[ast.stmt]) -> bool:
    """Whether control may reach the end of statements."""
    if not statements:
        return True
    last = statements[-1]
    if isinstance(last, ast.Return | ast.Raise | ast.Break | ast.Continue):
        return False
    if isinstance(last, ast.If):
        return falls_through(last.body) or falls_through(last.orelse)
    if isinstance(last, ast.With):
        return falls_through(last.body)
    return True


def names_in(function: ast.AST) -> set[str]:
    """Every name that stands in a function, so that a new one can be another."""
    named = {each.id for each in ast.walk(function) if isinstance(each, ast.Name)}
    return (
        named
        | {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
        | bound_names(
            child for each in ast.walk(function) if isinstance(each, (ast.FunctionDef,)) for child in each.body
        )
    )


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """The names of a function's parameters."""
    taken = function.args
    every = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
    return {each.arg for each in every if each is not None}
