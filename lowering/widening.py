"""Allowing size 1 where torch refuses it for no reason that matters.

torch's own kernels ask whether a size is 1 while they choose strides and memory formats, models ask it to save work,
and each answer becomes a guard: a model traced with a batch of 2 then refuses a batch of 1. Whether the graph is wrong
for 1 is seen by tracing the model once more at 1. Where both graphs have the same operators and arguments, the first is
right for 1 too; where they differ, both are run on random numbers. Guards then say what was found.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import attrs
import sympy
import torch
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from irkit import dims, dims_text
from lowering.dynamic_shapes import LeafStatement, expression, places_of, value_of
from lowering.exporting import Attempt, Request, export, resized
from lowering.guards import Guard, guards_of, shape_env_of, size_of
from lowering.programs import first_line, metas_of_program, quiet, state_of_program

ONE = sympy.Integer(1)
LAST = (1 << 63) - 1  # torch's way to say "to the end"
Found = TypeVar("Found", bound=Any)  # a lowering.capture.Captured


def widened(captured: Found, request: Request) -> Found:
    """The same, with guards that allow size 1 of each named dimension for which the graph is right."""
    for name in dict.fromkeys(place.expr.name for place in request.places if place.is_plain):
        symbol = next((symbol for symbol, given in captured.dim_names.items() if given == name), None)
        if symbol is not None and refuses_one(captured, symbol) and allows_one(request, name):
            captured = tried_at_one(captured, request, name, symbol)
    return tried_together(captured, request)


def tried_together(captured: Found, request: Request) -> Found:
    """`captured` with guards that allow 1 for several dimensions at once, where each was allowed by itself, if tracing
    with all of them at 1 shows that the graph is right for that too."""
    found = {given: symbol for symbol, given in captured.dim_names.items()}
    names = [place.expr.name for place in request.places if place.is_plain and place.expr.name in found]
    names = [n for n in dict.fromkeys(names) if not refuses_one(captured, found[n]) and allows_one(request, n)]
    symbols = frozenset(found[name] for name in names)
    refusing = [guard for guard in captured.guards if at_one(guard.expr, symbols) is sympy.false]
    if len(names) < 2 or not refusing:
        return captured
    start = time.perf_counter()
    how = f"{captured.how}; once more at {' = '.join(names)} = 1"
    sizes = {place.expr.name: at(request, place) for place in request.places if place.is_plain}
    said: Any = request.said
    for name in names:
        said = tuple(fixed_at_one(each, name) for each in said)
    examples = resized(request, sizes | dict.fromkeys(names, 1))
    try:
        with quiet("torch._subclasses.fake_tensor"):
            other = export(attrs.evolve(request, said=said, places=places_of(said)), examples, True)
        change = Change(symbols, correspondence(captured.program, other))
        right = same_graphs(captured.program, other, change) or same_numbers(captured.program, other, examples)
    except Exception as error:
        failed = Attempt(how, time.perf_counter() - start, first_line(error))
        return attrs.evolve(captured, attempts=(failed, *captured.attempts))
    attempts = (Attempt(how, time.perf_counter() - start), *captured.attempts)
    if not right:
        return attrs.evolve(captured, attempts=attempts)
    kept = tuple(guard for guard in captured.guards if guard not in refusing)
    eased = tuple(together(guard, symbols) for guard in refusing)
    return attrs.evolve(captured, attempts=attempts, guards=(*kept, *eased))


def together(guard: Guard, symbols: frozenset[str]) -> Guard:
    """The guard with the one case let in that all of these symbols are 1."""
    ones: list[Any] = [sympy.Eq(each, ONE) for each in guard.expr.free_symbols if each.name in symbols]
    expr = either(guard.expr, sympy.And(*ones))
    return attrs.evolve(guard, expr=expr, text=str(expr))


def refuses_one(captured: Any, symbol: str) -> bool:
    """Whether a guard or the range of a torch symbol leaves out 1."""
    least, _ = captured.range_constraints.get(symbol, (0, None))
    return least > 1 or any(at_one(guard.expr, symbol) is sympy.false for guard in captured.guards)


def allows_one(request: Request, name: str) -> bool:
    """Whether the user's own range for a dimension holds 1."""
    for place in request.places:
        said = request.said[place.leaf]
        each = said[place.axis] if isinstance(said, dict) else said
        if place.is_plain and place.expr.name == name and isinstance(each, Dim) and not each.min <= 1 <= each.max:
            return False
    return True


def at_one(expr: Any, symbol: str | frozenset[str]) -> Any:
    """A relation with 1 in place of a torch symbol, or of several; True where there is no relation."""
    if expr is None:
        return sympy.true
    names = {symbol} if isinstance(symbol, str) else symbol
    return expr.xreplace({each: ONE for each in expr.free_symbols if each.name in names})


def tried_at_one(captured: Found, request: Request, name: str, symbol: str) -> Found:
    """`captured` with guards that allow 1 for a symbol, if tracing at 1 shows that the graph is right for it."""
    program: ExportedProgram = captured.program
    start = time.perf_counter()
    how = f"{captured.how}; once more at {name} = 1"
    sizes = {place.expr.name: at(request, place) for place in request.places if place.is_plain} | {name: 1}
    said = tuple(fixed_at_one(each, name) for each in request.said)
    narrow = attrs.evolve(request, said=said, places=places_of(said))
    examples = resized(request, sizes)
    try:
        with quiet("torch._subclasses.fake_tensor"):
            other = export(narrow, examples, True)
        change = Change(symbol, correspondence(program, other))
        same = same_graphs(program, other, change)
        right = same or same_numbers(program, other, examples)
    except Exception as error:
        failed = Attempt(how, time.perf_counter() - start, first_line(error))
        return attrs.evolve(captured, attempts=(failed, *captured.attempts))
    attempts = (Attempt(how, time.perf_counter() - start), *captured.attempts)
    if not right:
        note = f"{name} = 1 is refused: the model computes something else then"
        return attrs.evolve(captured, attempts=attempts, notes=(*captured.notes, note))
    reason = "the graph is the same" if same else "the model takes another way, and the results agree"
    metas = metas_of_program(other)
    further = guards_of(shape_env_of(metas), other._guards_code, request.leaves, metas)
    ranges = dict(captured.range_constraints)
    ranges[symbol] = (min(1, ranges.get(symbol, (0, None))[0]), ranges.get(symbol, (0, None))[1])
    return attrs.evolve(
        captured,
        attempts=attempts,
        guards=tuple(allowing_one(captured.guards, further, change)),
        range_constraints=ranges,
        notes=(*captured.notes, f"{name} = 1 is allowed: traced at 1, {reason}"),
    )


def at(request: Request, place: Any) -> int:
    """The size of a place in the example inputs."""
    value = request.leaves[place.leaf].value
    return int(value.shape[place.axis]) if place.axis >= 0 else int(value)


def fixed_at_one(said: LeafStatement, name: str) -> LeafStatement:
    """A statement with the dimension `name` fixed at 1, and what is derived from it at what follows."""
    if isinstance(said, dict):
        fixed = {axis: fixed_at_one(each, name) for axis, each in said.items()}
        return {axis: each for axis, each in fixed.items() if each is not None}
    text = said.__name__ if isinstance(said, Dim) else said
    if not isinstance(text, str):
        return said
    expr = expression(text)
    symbols = dims.symbols_of(expr)
    if name not in {each.name for each in symbols}:
        return said
    rest = value_of(expr, {each.name: ONE if each.name == name else each for each in symbols})
    rest = sympy.sympify(rest)
    return None if rest.is_Integer else dims_text.text(dims.dim(rest))


# ---------------------------------------------------------------------------------------------------------------------
# Guards
# ---------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Change:
    """What turns an expression of the program into one of the program traced at 1: the symbol (or symbols) that are 1,
    and for each symbol of the other program what it is called in this one."""

    symbol: str | frozenset[str]
    names: Mapping[Any, Any]

    def here(self, expr: Any) -> Any:
        """An expression of the program, at 1."""
        return at_one(sympy.sympify(expr), self.symbol)

    def there(self, expr: Any) -> Any:
        """An expression of the program traced at 1, in the symbols of this one."""
        return sympy.sympify(expr).xreplace(dict(self.names))

    def agree(self, ours: Any, theirs: Any) -> bool:
        """Whether an expression of this program, at 1, is one of the other."""
        a, b = self.here(ours), self.there(theirs)
        return bool(a == b) or bool(sympy.expand(a - b) == 0)


def correspondence(program: ExportedProgram, other: ExportedProgram) -> dict[Any, Any]:
    """Symbol of the other program -> symbol of this one, by where they stand in the inputs."""
    names: dict[Any, Any] = {}
    for ours, theirs in zip(metas_of_program(program), metas_of_program(other), strict=True):
        axes = range(ours.dim()) if isinstance(ours, torch.Tensor) else (-1,) if isinstance(ours, torch.SymInt) else ()
        for axis in axes:
            a, b = size_of(ours, axis), size_of(theirs, axis)
            if isinstance(a, sympy.Symbol) and isinstance(b, sympy.Symbol):
                names.setdefault(b, a)
    return names


def allowing_one(guards: Sequence[Guard], further: Sequence[Guard], change: Change) -> Iterator[Guard]:
    """The guards with 1 let in, and what tracing at 1 relied on beside them, where the size is 1."""
    remaining = set()
    for guard in guards:
        then = at_one(guard.expr, change.symbol)
        remaining.add(then)
        if then is not sympy.false:
            yield guard
        elif not is_only_about_one(guard.expr):
            (one,) = (each for each in guard.expr.free_symbols if each.name == change.symbol)
            expr: Any = either(guard.expr, sympy.Eq(one, ONE))
            yield attrs.evolve(guard, expr=expr, text=str(expr))
    symbol = next(iter(each for each in change.names.values() if each.name == change.symbol), None)
    symbol = symbol or sympy.Symbol(change.symbol, integer=True, nonnegative=True)
    for guard in further:
        if guard.expr is None or change.there(guard.expr) in remaining:
            continue
        expr = either(sympy.Ne(symbol, ONE), change.there(guard.expr))
        yield attrs.evolve(guard, expr=expr, text=str(expr))


def either(a: Any, b: Any) -> Any:
    """The relation that one of two holds."""
    return sympy.Or(a, b)


def is_only_about_one(expr: Any) -> bool:
    """Whether a relation says that one symbol is not 1, or greater, and nothing else."""
    a, b = (*expr.args, None, None)[:2]
    relation = isinstance(expr, sympy.Ne | sympy.StrictGreaterThan | sympy.StrictLessThan)
    return relation and ((isinstance(a, sympy.Symbol) and b == 1) or (isinstance(b, sympy.Symbol) and a == 1))


# ---------------------------------------------------------------------------------------------------------------------
# Whether the graph is right for 1
# ---------------------------------------------------------------------------------------------------------------------


def same_graphs(program: ExportedProgram, other: ExportedProgram, change: Change) -> bool:
    """Whether both programs call the same operators with the same arguments, sizes compared as expressions."""
    ours, theirs = list(steps(program)), list(steps(other))
    if len(ours) != len(theirs):
        return False
    partner = dict(zip(ours, theirs, strict=True))
    for a, b in partner.items():
        if a.op != b.op or (a.op == "call_function" and a.target is not b.target):
            return False
        if not (same_value(a.args, b.args, partner, change) and same_value(a.kwargs, b.kwargs, partner, change)):
            return False
        if not same_type(a.meta.get("val"), b.meta.get("val"), change):
            return False
    return True


def steps(program: ExportedProgram) -> Iterator[Node]:
    """The nodes that compute or return tensors: no arithmetic on sizes, no assertions, nothing that is `carried`."""
    for node in program.graph.nodes:
        scalar = isinstance(node.meta.get("val"), int | float | torch.SymInt | torch.SymFloat | torch.SymBool)
        checks = node.op == "call_function" and getattr(node.target, "__name__", "").startswith("_assert")
        if node.op in ("placeholder", "output") or not (scalar or checks or carried(node) is not node):
            yield node


def carried(node: Node) -> Node:
    """The node whose numbers this one holds unchanged: what a chain of full slices and `contiguous` begins with.

    Python's `x[:, 1]` slices a dimension of symbolic size, and no other; `contiguous` copies only what is not yet so.
    """
    while node.target in (torch.ops.aten.slice.Tensor, torch.ops.aten.contiguous.default):
        tensor = node.args[0]
        _, start, stop, step = (*node.args[1:], *(0, 0, None, 1)[len(node.args) - 1 :])
        whole = start in (0, None) and step == 1 and (stop is None or (isinstance(stop, int) and stop >= LAST))
        if not isinstance(tensor, Node) or not (whole or node.target is torch.ops.aten.contiguous.default):
            break
        node = tensor
    return node


def same_value(a: Any, b: Any, partner: Mapping[Node, Node], change: Change) -> bool:
    """Whether two arguments are the same: nodes that correspond, sizes that agree, equal constants."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same_value(x, y, partner, change) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_value(a[key], b[key], partner, change) for key in a)
    if isinstance(a, Node) and isinstance(b, Node) and carried(a) in partner:
        return partner[carried(a)] is carried(b)
    x, y = number_of(a), number_of(b)
    if x is None or y is None:
        return type(a) is type(b) and bool(a == b)
    return change.agree(x, y)


def number_of(argument: Any) -> Any:
    """The expression of an argument that is a size or a number; None for any other."""
    value = argument.meta.get("val") if isinstance(argument, Node) else argument
    if isinstance(value, torch.SymInt | torch.SymFloat):
        return value.node.expr
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def same_type(a: Any, b: Any, change: Change) -> bool:
    """Whether two recorded values have one element type, and shapes that agree."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) or not isinstance(a, torch.Tensor)
    if a.dtype != b.dtype or a.dim() != b.dim():
        return False
    return all(change.agree(size_of(a, axis), size_of(b, axis)) for axis in range(a.dim()))


def same_numbers(program: ExportedProgram, other: ExportedProgram, examples: Sequence[Any]) -> bool:
    """Whether both programs give the same results for these leaves, with random numbers in the floating-point ones."""
    generator = torch.Generator().manual_seed(0)
    leaves = [randomized(each, generator) for each in examples]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        ours, theirs = run(program, leaves), run(other, leaves)
    return len(ours) == len(theirs) and all(close(a, b) for a, b in zip(ours, theirs, strict=True))


def randomized(leaf: Any, generator: torch.Generator) -> Any:
    """A floating-point tensor with normal random numbers; anything else as it is."""
    if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
        return leaf
    return torch.randn(leaf.shape, generator=generator, dtype=torch.float64).to(leaf)


def run(program: ExportedProgram, leaves: Sequence[Any]) -> list[Any]:
    """All that the program's graph returns for these leaves; its state is copied where it could be written."""
    state, given = state_of_program(program), iter(leaves)
    arguments = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            leaf = next(given)
            arguments.append(leaf.clone() if isinstance(leaf, torch.Tensor) else leaf)
        elif spec.kind is InputKind.PARAMETER:
            arguments.append(state[str(spec.target)])
        else:
            value = state[spec.target] if spec.target is not None else None
            arguments.append(value.clone() if isinstance(value, torch.Tensor) else value)
    torch.manual_seed(0)
    return list(program.graph_module(*arguments))


def close(a: Any, b: Any) -> bool:
    """Whether two results are the same but for rounding."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return bool(a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.is_floating_point():
        return bool(torch.equal(a, b))
    tolerance = 1e-3 if a.dtype in (torch.float32, torch.float64) else 2e-2
    return torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance * 0.1, equal_nan=True)
