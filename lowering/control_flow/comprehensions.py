"""Lists made by expressions: `[f(x) for x in xs]`, `list(range(n))`, `sum(f(x) for x in xs)`, `[0] * n`.

Where data or a size that varies tells how many elements there are, `flow.listed` makes them by a loop.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from lowering.records.message_lines import name_called

FLOW = "flow"
"""By which name a rewritten function knows what it calls."""
NAMES = ("list", "tuple", "sum", "len", "set")
"""The builtins that make something of all elements at once."""
ONES = ("max", "min", "any", "all")
"""Those that take one of all elements, or ask these for their truth, where they are made one by one."""
FIRST = ("any", "all")
"""Those of them of which the first elements may tell, so that the others are not made."""
ASKING = ("tolist", "numel")
"""The methods that make plain numbers of sizes."""
REFUSED = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await, ast.Lambda)
"""What an element may not have that becomes the result of a function: it binds, waits, or is called later."""


def is_listed(node: ast.AST) -> bool:
    """Whether an expression goes over elements, and makes one thing of each."""
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return is_plain_comprehension(node)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List)
    if isinstance(node, ast.List):
        return len(node.elts) == 1 and isinstance(node.elts[0], ast.Starred) and isinstance(node.ctx, ast.Load)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    if node.func.id not in (*NAMES, *ONES) or not is_of_elements(node):
        return False
    given = node.args[0]
    if isinstance(given, ast.GeneratorExp | ast.ListComp) and not is_plain_comprehension(given):
        return False
    if isinstance(given, ast.GeneratorExp):
        return len(given.generators) == 1 or node.func.id not in FIRST
    mapped = isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and given.func.id == "map"
    return node.func.id in NAMES or mapped


def is_of_elements(node: ast.Call) -> bool:
    """Whether a call is given elements, and nothing beside, but for the number that `sum` begins with."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    more = [*node.args[1:], *(each.value if each.arg == "start" else each for each in node.keywords)]
    if not node.args or any(isinstance(each, ast.Starred | ast.keyword) for each in (node.args[0], *more)):
        return False
    return not more or (name == "sum" and len(more) == 1)


def is_plain_comprehension(node: ast.ListComp | ast.GeneratorExp) -> bool:
    """Whether the element of a comprehension, what it goes over and its tests can be results of functions."""
    if any(each.is_async or not is_plain_target(each.target) for each in node.generators):
        return False
    inner = [each.iter for each in node.generators[1:]]
    made = (node.elt, *inner, *(test for each in node.generators for test in each.ifs))
    return not any(isinstance(each, REFUSED) for part in made for each in ast.walk(part))


def comprehension_of(node: ast.AST) -> ast.ListComp | ast.GeneratorExp | None:
    """The comprehension of an expression that goes over elements; None where it has none."""
    given = node.args[0] if isinstance(node, ast.Call) and node.args else node
    return given if isinstance(given, ast.ListComp | ast.GeneratorExp) else None


def tests_of_elements(node: ast.AST) -> list[ast.expr]:
    """The tests that say which elements an expression takes, `if c` in it."""
    given = comprehension_of(node) if is_listed(node) else None
    return [] if given is None else [test for each in given.generators for test in each.ifs]


def inner_elements(node: ast.AST) -> list[ast.expr]:
    """What the second and later `for` of an expression go over."""
    given = comprehension_of(node) if is_listed(node) else None
    return [] if given is None else [each.iter for each in given.generators[1:]]


def is_plain_target(target: ast.expr) -> bool:
    """Whether what a loop binds are names, or tuples of them."""
    if isinstance(target, ast.Tuple | ast.List):
        return all(map(is_plain_target, target.elts))
    return isinstance(target, ast.Name)


def is_asking(node: ast.AST) -> bool:
    """Whether a call asks for all elements of a tensor, or how many a shape has: `x.tolist()`, `x.shape.numel()`."""
    method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args and not node.keywords
    return method and node.func.attr in ASKING  # type: ignore[attr-defined]


PARTS = frozenset(("unbind", "split"))
"""Methods that give parts of a tensor, of which a size that varies may tell how many there are."""


def is_parting(node: ast.AST) -> bool:
    """Whether a call gives parts of a tensor: `x.unbind(0)`, `torch.split(x, 2)`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PARTS


def is_reducing(node: ast.AST) -> bool:
    """Whether a call puts elements together, one after the other: `functools.reduce(f, xs)`."""
    if not isinstance(node, ast.Call) or node.keywords or len(node.args) not in (2, 3):
        return False
    return not any(isinstance(each, ast.Starred) for each in node.args) and name_called(node) == "reduce"


def is_counting(node: ast.AST) -> bool:
    """Whether a call only says how many elements there are: `len(x)`, `x.shape.numel()`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "len"
    return is_asking(node) and node.func.attr == "numel"  # type: ignore[attr-defined]


def elements_gone_over(node: ast.AST) -> ast.expr | None:
    """The expression that a `for`, or one in an expression, goes over, or that says how often; None for anything
    else."""
    if isinstance(node, ast.For):
        return node.iter
    if isinstance(node, ast.ListComp | ast.GeneratorExp) and is_listed(node):
        return node.generators[0].iter
    if isinstance(node, ast.BinOp) and is_listed(node):
        return node.right
    if isinstance(node, ast.List) and is_listed(node):
        return node.elts[0].value  # type: ignore[attr-defined]
    if is_reducing(node):
        return node.args[1]  # type: ignore[attr-defined]
    if is_asking(node) or is_parting(node):
        return node.func.value  # type: ignore[attr-defined]
    if isinstance(node, ast.Call) and is_listed(node):
        given = node.args[0]
        return given.generators[0].iter if isinstance(given, ast.GeneratorExp) else given
    return None


def listed_arguments(
    node: ast.ListComp | ast.GeneratorExp | ast.Call | ast.BinOp | ast.List, fresh: Callable[[], str]
) -> list[ast.expr]:
    """The arguments of `flow.listed` that stand for an expression, or of `flow.repeated`; `fresh` gives names that no
    variable has."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    made: ast.expr = made_by(node) if isinstance(node, ast.Call) else ast.Name("list", ast.Load())
    given = comprehension_of(node)
    if isinstance(node, ast.List):
        return [node.elts[0].value, ast.Constant(None), made]  # type: ignore[attr-defined]
    if given is None:
        return [node.args[0] if isinstance(node, ast.Call) else node, ast.Constant(None), made]
    first, value = given.generators[0], given.elt
    for each in reversed(given.generators[1:]):
        value = flow_call("within", [each.iter, *functions_of_elements(each, value, fresh)])
    each, *tests = functions_of_elements(first, value, fresh)
    return [first.iter, each, made, *tests]


def made_by(node: ast.Call) -> ast.expr:
    """What makes something of elements: the function, and what its sum begins with."""
    if len(node.args) == 1 and not node.keywords:
        return node.func
    return flow_call("beginning", [node.func, *node.args[1:]], node.keywords)


def functions_of_elements(level: ast.comprehension, value: ast.expr, fresh: Callable[[], str]) -> list[ast.expr]:
    """The functions of an element of one `for` of a comprehension: what it becomes, and each test of it."""
    return [element_function(level.target, each, fresh) for each in (value, *level.ifs)]


def flow_call(name: str, args: Sequence[ast.expr], named: Sequence[ast.keyword] = ()) -> ast.Call:
    """A call of a function of `flow`."""
    function = ast.Attribute(ast.Name(FLOW, ast.Load()), name, ast.Load())
    return ast.Call(function, list(args), list(named))


def element_function(target: ast.expr, value: ast.expr, fresh: Callable[[], str]) -> ast.expr:
    """The function of an element that binds a target to it and gives a value."""
    if isinstance(target, ast.Name):
        return lambda_of([target.id], value)
    name = fresh()
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    names, inner = [], value
    for part in reversed(parts):
        own = part.id if isinstance(part, ast.Name) else fresh()
        names.insert(0, own)
        if not isinstance(part, ast.Name):
            inner = ast.Call(element_function(part, inner, fresh), [ast.Name(own, ast.Load())], [])
    unpacked = ast.Call(lambda_of(names, inner), [ast.Starred(ast.Name(name, ast.Load()), ast.Load())], [])
    return lambda_of([name], unpacked)


def lambda_of(params: list[str], value: ast.expr) -> ast.expr:
    """A function of an expression."""
    made: ast.Lambda = ast.parse(f"lambda {', '.join(params)}: 0", mode="eval").body  # type: ignore[assignment]
    made.body = value
    return made
