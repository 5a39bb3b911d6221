"""The source of functions: found by their code, rewritten, compiled anew at its own lines, and shown as a diff."""

from __future__ import annotations

import ast
import copy
import difflib
import types
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import attrs

from lowering.control_flow.comprehensions import is_counting, tests_of_elements
from lowering.control_flow.decisions import is_decision, is_element
from lowering.control_flow.generation import Generation
from lowering.control_flow.names import FUNCTIONS
from lowering.errors import CaptureError
from lowering.records.message_lines import name_called
from lowering.records.source_lines import lines_now, short_path

Place = tuple[int, int, int, int]
"""Where a statement or an expression stands: its first line, its last, its first column, its last."""
STATEMENTS = (ast.If, ast.While, ast.For, ast.Assert)


@attrs.frozen(eq=False)
class Rewritten:
    """A function's code that computes decisions on data, with its source before and after."""

    code: types.CodeType
    name: str
    file: str
    before: str
    after: str
    lines: tuple[str, ...]

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        short = short_path(self.file)
        return "".join(
            difflib.unified_diff(
                self.before.splitlines(keepends=True),
                self.after.splitlines(keepends=True),
                f"{short} {self.name}",
                f"{short} {self.name}, rewritten",
            )
        )


def place_of(node: ast.AST) -> Place:
    """Where a node stands."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset  # type: ignore[attr-defined]


@attrs.frozen(eq=False)
class Definition:
    """A function in the source of a file: its first line, decorators included, its qualified name, and the classes
    around it."""

    node: ast.FunctionDef
    first: int
    name: str
    classes: tuple[str, ...]


@attrs.frozen(eq=False)
class Source:
    """A file's lines, and the functions in it, outer ones first."""

    lines: tuple[str, ...]
    definitions: tuple[Definition, ...]


def source_of(file: str) -> Source | None:
    """The source of a file; None where it is not at hand."""
    lines = tuple(lines_now(file))
    return parsed_source(file, lines) if lines else None


@lru_cache(maxsize=64)
def parsed_source(file: str, lines: tuple[str, ...]) -> Source | None:
    """The source of a file with these lines; None where that is no Python."""
    own = code_lines(lines) if file.endswith(".md") else lines
    try:
        tree = ast.parse("".join(own), file)
    except SyntaxError:
        return None
    return Source(lines, tuple(definitions_in(tree, "", ())))


def code_lines(lines: Sequence[str]) -> list[str]:
    """The lines of a page of text with its blocks of Python as they are, and empty ones for the rest."""
    found, inside = [], False
    for line in lines:
        fence = line.strip().startswith("```")
        found.append(line if inside and not fence else "\n")
        inside = line.strip() == "```python" if fence else inside
    return found


def definitions_in(node: ast.AST, prefix: str, classes: tuple[str, ...]) -> Iterator[Definition]:
    """The functions below a node."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{each.name}"
            first = min([each.lineno, *(d.lineno for d in each.decorator_list)])
            if isinstance(each, ast.FunctionDef):
                yield Definition(each, first, name, classes)
            yield from definitions_in(each, f"{name}.<locals>.", classes)
        elif isinstance(each, ast.ClassDef):
            yield from definitions_in(each, f"{prefix}{each.name}.", (*classes, each.name))
        elif isinstance(each, ast.Lambda):
            yield from definitions_in(each, f"{prefix}<lambda>.<locals>.", classes)
        else:
            yield from definitions_in(each, prefix, classes)


def definition_of(code: types.CodeType) -> tuple[Definition, Source] | None:
    """The source of a function; None where it is not at hand."""
    source = source_of(code.co_filename)
    for each in source.definitions if source is not None else ():
        if each.first == code.co_firstlineno and each.name == code.co_qualname:
            return each, source  # type: ignore[return-value]
    return None


def definition_at(file: str, line: int) -> Definition | None:
    """The innermost function at a line of a file."""
    source = source_of(file)
    found = [
        each
        for each in (source.definitions if source is not None else ())
        if each.node.body[0].lineno <= line <= (each.node.end_lineno or 0)
    ]
    return found[-1] if found else None


def line_in(file: str, lines: Sequence[str]) -> Callable[[ast.AST], str]:
    """What gives the text of a node's line: `folder/model.py:12 if x:`."""

    def line(node: ast.AST) -> str:
        number = getattr(node, "lineno", 1)
        return f"{short_path(file)}:{number} {lines[number - 1].strip()}"

    return line


def candidates(function: ast.AST) -> set[ast.AST]:
    """The decisions of a function that may hang on data, as far as its source tells."""
    return {each for each in decisions_in(function) if not is_plain(each)}


def decisions_in(function: ast.AST) -> list[ast.AST]:
    """The statements and expressions of a function that decide between two ways."""
    every = [each for each in ast.walk(function) if isinstance(each, STATEMENTS) or is_decision(each)]
    return [each for each in every if not is_refusing(each)]


def is_refusing(node: ast.AST) -> bool:
    """Whether an `if` raises on one of its ways: that the other one is taken is a condition, as of an `assert`."""
    sides = (node.body, node.orelse) if isinstance(node, ast.If) else ()
    return any(isinstance(each, ast.Raise) for side in sides for each in side[-1:])


def is_plain(node: ast.AST) -> bool:
    """Whether a decision evidently asks no tensor: `x is None`, `isinstance(x, tuple)`, `while True`."""
    if isinstance(node, ast.If | ast.While | ast.Assert | ast.IfExp):
        return not isinstance(node, ast.While) and asks_nothing(node.test)
    if isinstance(node, ast.BoolOp):
        return all(map(asks_nothing, node.values))
    if isinstance(node, ast.UnaryOp):
        return asks_nothing(node.operand)
    return isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute | ast.Name)


def asks_nothing(test: ast.expr) -> bool:
    """Whether a test evidently asks no tensor."""
    if isinstance(test, ast.Compare):
        return all(isinstance(each, ast.Is | ast.IsNot) for each in test.ops)
    if isinstance(test, ast.Call):
        return isinstance(test.func, ast.Name) and test.func.id in ("isinstance", "hasattr", "callable", "issubclass")
    if isinstance(test, ast.BoolOp):
        return all(map(asks_nothing, test.values))
    if isinstance(test, ast.UnaryOp):
        return asks_nothing(test.operand)
    return isinstance(test, ast.Constant)


def marked_at(function: ast.AST, places: frozenset[Place]) -> set[ast.AST]:
    """The decisions of a function at these places, with those that make their tests; where loops are among them, with
    each `len(...)`, which may ask a list that a loop makes grow, by another name, and each `x[i]`; and each `type(x)`
    and its like."""
    found: set[ast.AST] = set()
    every = decisions_in(function)
    for each in every:
        if place_of(each) in places:
            found |= {each, *parts_of(each)}
    loops = any(isinstance(each, ast.For | ast.While) for each in found)
    found |= {each for each in every if loops and isinstance(each, ast.Call) and is_counting(each)}
    found |= {each for each in ast.walk(function) if loops and is_element(each)}
    return found | {each for each in ast.walk(function) if found and asks_for_kind(each)}


def asks_for_kind(node: ast.AST) -> bool:
    """Whether a node is `type(x)`, `isinstance(x, kinds)`, `hasattr(x, name)` or `torch.is_tensor(x)`."""
    return isinstance(node, ast.Call) and not node.keywords and KINDS.get(name_called(node)) == len(node.args)


KINDS = {"type": 1, "isinstance": 2, "hasattr": 2, "is_tensor": 1}
"""How many arguments a function has that asks for the kind of the first."""


def parts_of(node: ast.AST) -> list[ast.AST]:
    """The decisions that make the test of a decision: operands of `and`, of `not`."""
    if isinstance(node, ast.If | ast.While | ast.Assert | ast.IfExp):
        tested = [node.test]
    elif isinstance(node, ast.BoolOp):
        tested = node.values
    elif isinstance(node, ast.UnaryOp):
        tested = [node.operand]
    else:
        tested = tests_of_elements(node)
    return [each for test in tested if is_decision(test) for each in (test, *parts_of(test))]


def rewritten_code(code: types.CodeType, places: frozenset[Place] | None = None) -> Rewritten | None:
    """A function's code with its decisions rewritten, those at some places or all that may hang on data; None where
    there is nothing to rewrite. Raises CaptureError where its source is not at hand, or cannot be rewritten."""
    found = definition_of(code)
    if found is None:
        raise CaptureError(f"{code.co_qualname} has no source to rewrite", hint="define it in a file")
    (original, lines, classes) = found[0].node, found[1].lines, found[0].classes
    function = copy.deepcopy(original)
    function.decorator_list = []
    line = line_in(code.co_filename, lines)
    any_marked = False
    for each in reversed([f for f in ast.walk(function) if isinstance(f, ast.FunctionDef)]):  # inner ones first
        own = set(own_nodes(each))
        marked = candidates(each) if places is None else marked_at(each, places)
        marked = {m for m in marked if m in own}
        if marked:
            any_marked = True
            Generation(each, marked, line).run()
    if not any_marked:
        return None
    if classes:
        Mangled(classes[-1]).visit(function)
    made = compiled(function, code)
    before = "".join(lines[original.lineno - 1 : original.end_lineno])
    after = shown(function, original, lines)
    told = tuple(
        sorted({line(each) for each in (decisions_in(original)) if places is not None and place_of(each) in places})
    )
    return Rewritten(made, code.co_qualname, code.co_filename, before, after, told)


def own_nodes(function: ast.FunctionDef) -> list[ast.AST]:
    """The nodes of a function, but for those of functions with a name in it."""
    found: list[ast.AST] = []
    pending: list[ast.AST] = [*function.body]
    while pending:
        each = pending.pop()
        found.append(each)
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(each))
    return found


def compiled(function: ast.FunctionDef, code: types.CodeType) -> types.CodeType:
    """The code of a function that is rewritten, over the very variables of the functions around it."""
    (outer,) = ast.parse(f"def outer({', '.join(code.co_freevars)}):\n    return 0").body
    held = copy.copy(function)
    held.name = f"<{function.name}>"  # no variable: a global of its own name, as in recursion, stays one
    outer.body = [held, outer.body[0]]  # type: ignore[attr-defined]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    whole = compile(module, code.co_filename, "exec", dont_inherit=True, flags=code.co_flags & FUTURE)
    inner = next(c for c in whole.co_consts if isinstance(c, types.CodeType))
    made = next(c for c in inner.co_consts if isinstance(c, types.CodeType) and c.co_name == held.name)
    if made.co_freevars != code.co_freevars:
        raise CaptureError(
            f"{code.co_qualname} uses {made.co_freevars} where it used {code.co_freevars} before",
            hint="import the module again: its source was changed since",
        )
    return made.replace(co_name=code.co_name, co_qualname=code.co_qualname)


FUTURE = 0x1000000 | 0x100000
"""The flags of `from __future__ import annotations` and of its like."""


class Mangled(ast.NodeTransformer):
    """Writes the private names of a class as Python does: `self.__x` as `self._Class__x`."""

    def __init__(self, owner: str) -> None:
        self.prefix = f"_{owner.lstrip('_')}"

    def mangled(self, name: str) -> str:
        return f"{self.prefix}{name}" if name.startswith("__") and not name.endswith("__") else name

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self.mangled(node.attr)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.mangled(node.id)
        return node


# ---------------------------------------------------------------------------------------------- shown


def shown(made: ast.FunctionDef, original: ast.FunctionDef, lines: Sequence[str]) -> str:
    """The source of a rewritten function: its own lines where nothing changed, with their comments."""
    head = lines[original.lineno - 1 : original.body[0].lineno - 1]
    if original.body[0].lineno == original.lineno:
        return ast.unparse(made) + "\n"
    return "".join([*head, *block_shown(made.body, original.body, lines, original.body[0].col_offset)])


def block_shown(made: Sequence[ast.stmt], original: Sequence[ast.stmt], lines: Sequence[str], indent: int) -> list[str]:
    """The lines of a block: those of its statements that stayed what they were, and new ones for the others."""
    texts = {place_of(each): ast.dump(each) for each in original}
    found: list[str] = []
    last = original[0].lineno - 1
    for each in made:
        place = place_of(each)
        if texts.get(place) == ast.dump(each) and each.lineno > last:
            found += lines[last : each.end_lineno] if last < each.lineno else []
            last = each.end_lineno or last
            continue
        found += [f"{' ' * indent}{line}\n" for line in ast.unparse(each).splitlines()]
        if place in texts:
            last = max(last, each.end_lineno or last)
    return found


def is_function(node: ast.AST) -> bool:
    """Whether a node defines a function."""
    return isinstance(node, FUNCTIONS)
