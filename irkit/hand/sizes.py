"""Graphs at other sizes: applied to values, and with numbers or names in the place of sizes that vary."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast

import attrs
import sympy
from pyrsistent import pmap

from irkit import dims
from irkit.build.retyping import inferred_type, refined_type
from irkit.contract.sizes import ENFORCED, check_sizes, names_of
from irkit.core.ir import Fact, Graph, Value, vertex
from irkit.core.types import Tensor, dims_of, map_dims, same_types
from irkit.core.vocabulary import CALL, CONSTANT, PARAM, SHAPE_VECTOR
from irkit.core.walk import post_order
from irkit.dims import Dim, Range, notation
from irkit.dims.conditions import holds
from irkit.dims.validation import size_of
from irkit.errors import DimensionError, GraphError, TypeRuleError
from irkit.hand.arithmetic import operand
from irkit.nodes.calls import applied_body
from irkit.nodes.construct import shape_vector
from irkit.support.arguments import brief
from irkit.support.counts import count_text

Sizes = Mapping[sympy.Symbol, Dim]
"""What stands in the place of each symbol."""


# ---------------------------------------------------------------------------------------------- applied to values


def grafted(graph: Graph, given: tuple[object, ...], named: Mapping[str, object]) -> Any:
    """The results of a graph over operands: a value, or a tuple of them. Raises TypeRuleError for operands that it does
    not take, ContractError or GraphError where they break its conditions, or leave them open."""
    operands = tuple(
        as_operand(graph, wanted, name, each)
        for wanted, (name, each) in zip(graph.params, arranged(graph, given, named), strict=True)
    )
    sizes = sizes_told(graph, operands)
    require_conditions(graph, sizes)
    found = retyped_values(applied_body(graph, operands, sizes=sizes))
    return found[0] if len(found) == 1 else found


def arranged(graph: Graph, given: tuple[object, ...], named: Mapping[str, object]) -> list[tuple[str, object]]:
    """(name, operand) for each parameter. Raises TypeRuleError for too many, too few, and unknown names."""
    names = names_of(graph)
    if len(given) > len(names):
        raise TypeRuleError(
            f"the graph {graph.name} takes {count_text(len(names), 'operand')}, and was given {len(given)}",
            hint=f"its parameters are {', '.join(names) or 'none'}",
        )
    found = dict(zip(names, given, strict=False))
    for name in named:
        if name not in names or name in found:
            raise TypeRuleError(
                f"the graph {graph.name} has {'the operand' if name in found else 'no parameter'} {name!r}"
                + " twice" * (name in found),
                hint=f"its parameters are {', '.join(names) or 'none'}",
            )
    found |= named
    missing = [name for name in names if name not in found]
    if missing:
        raise TypeRuleError(
            f"the graph {graph.name} was not given {', '.join(missing)}",
            hint=f"give one operand for each parameter: {', '.join(names)}",
        )
    return [(name, found[name]) for name in names]


def as_operand(graph: Graph, wanted: Value, name: str, given: object) -> Value:
    """An operand as a value of the kind that a parameter is of. Raises TypeRuleError for any other."""
    found = given if isinstance(given, Value) else None
    if found is None and isinstance(wanted.type, Tensor):
        found = operand(wanted, given, f"the parameter {name}")
    if found is None:
        raise TypeRuleError(f"{brief(given)} is no value", hint="irkit.const(data) makes one of numbers")
    kinds = isinstance(wanted.type, Tensor) and isinstance(found.type, Tensor)
    if kinds and (wanted.dtype is not found.dtype or wanted.rank != found.rank):
        cast = wanted.dtype is not found.dtype
        raise TypeRuleError(
            f"the graph {graph.name} takes a {wanted.type!r} as {name}, and was given a {found.type!r}",
            hint=f'cast it: {name}.cast("{wanted.dtype.short}")' if cast else f"give one of rank {wanted.rank}",
        )
    return found


def sizes_told(graph: Graph, operands: tuple[Value, ...]) -> Sizes:
    """What the operands say of the symbols in the parameters' types. Raises TypeRuleError where two contradict one
    another, and where it cannot be told whether they agree."""
    pairs = [
        (name, wanted, found)
        for name, wanted, found in zip(names_of(graph), graph.params, operands, strict=True)
        if wanted.type is not found.type
    ]
    known: dict[sympy.Symbol, Dim] = {}
    for name, wanted, found in pairs:
        for inner, outer in zip(dims_of(wanted.type), dims_of(found.type), strict=False):
            if isinstance(inner, sympy.Symbol):
                known.setdefault(inner, outer)
            elif type(outer) is int and type(inner) is not int:
                known |= solved(graph, name, inner, outer, known)
    for port, wanted, found in zip(graph.signature.params, graph.params, operands, strict=False):
        if port.role == "input" and port.binds and found is not wanted:
            known.setdefault(dims.symbol(port.binds), number_in(port.name, found))
    for name, wanted, found in pairs:
        type_ = map_dims(wanted.type, lambda d: dims.substitute(d, known))
        same = same_types(type_, found.type)
        if same is not True:
            told = ", ".join(f"{s.name} = {notation.text(d)}" for s, d in known.items())
            raise TypeRuleError(
                f"the graph {graph.name} takes a {wanted.type!r} as {name}"
                + (f" (with {told})" if told else "")
                + f", and was given a {found.type!r}"
                + ("" if same is False else ", of which it cannot be told whether it is one"),
                hint="give operands whose sizes agree" if same is False else "give sizes that are equal one name",
            )
    return {inner: outer for inner, outer in known.items() if inner is not outer}


def solved(graph: Graph, name: str, dim: Dim, size: int, known: Sizes) -> dict[sympy.Symbol, Dim]:
    """What a dimension says of its symbol where it has that size. Raises TypeRuleError where no value of it fits."""
    try:
        told = dims.solve(dim, size)
    except DimensionError as error:
        raise TypeRuleError(f"a size of {name} is {size}: {error.what}", hint=error.hint) from error
    return {s: told[1] for s in dims.symbols_of(dim) if told and s not in known and dims.label(s) == told[0]}


def number_in(name: str, value: Value) -> int:
    """The number that an operand is which is a size. Raises TypeRuleError for what is not known."""
    if value.blob is None:
        raise TypeRuleError(f"the parameter {name} is a size, and was given {value!r}", hint="give it a number")
    return int(value.blob.array.item())


def require_conditions(graph: Graph, sizes: Sizes) -> None:
    """Raises ContractError for sizes that the conditions of a graph exclude, GraphError for conditions left open."""
    ranges = graph.symbols
    numbers = {s.name: d for s, d in sizes.items() if type(d) is int}
    check_sizes(graph, numbers)
    by_name = {s.name: d for s, d in sizes.items()}
    left = [f.text for f in graph.signature.facts if f.kind in ENFORCED and holds(f.text, numbers) is None]
    for name, allowed in ranges.items():
        size = by_name.get(name, dims.symbol(name))
        bounds = dims.bounds(size, {})
        if bounds.lo < allowed.lo or (allowed.hi is not None and (bounds.hi is None or bounds.hi > allowed.hi)):
            left.append(f"{name} in {allowed}")
    if left:
        raise GraphError(
            f"the graph {graph.name} was made under the condition {left[0]}, and nobody would see to it here"
            + (f", nor to {len(left) - 1} more" if left[1:] else ""),
            hint="give operands of known sizes, or take graph.without_conditions(), and state them where you apply it",
        )


def without_conditions(graph: Graph) -> Graph:
    """The graph without what it asks of sizes."""
    facts = tuple(f for f in graph.signature.facts if f.kind not in ENFORCED)
    signature = attrs.evolve(graph.signature, facts=facts)
    return attrs.evolve(graph, symbols=pmap({}), signature=signature)


# ---------------------------------------------------------------------------------------------- other sizes


def with_sizes(graph: Graph, given: Mapping[str, object]) -> Graph:
    """The graph with other sizes. Raises GraphError for one that it does not have, ContractError for one that its
    conditions exclude."""
    symbols = {s.name: s for p in graph.params for d in dims_of(p.type) for s in dims.symbols_of(d)}
    sizes: dict[sympy.Symbol, Dim] = {}
    for name, each in given.items():
        if name not in symbols:
            near = get_close_matches(name, symbols) or list(symbols)
            raise GraphError(
                f"no parameter of the graph {graph.name} has the size {name!r}",
                hint=f"its sizes are {', '.join(near)}" if near else "all its sizes are numbers",
            )
        sizes[symbols[name]] = size_of(each)
    sizes = {symbol: size for symbol, size in sizes.items() if size is not symbol}
    if not sizes:
        return graph
    check_sizes(graph, {s.name: d for s, d in sizes.items() if type(d) is int})
    params = tuple(at_sizes(p, sizes) for p in graph.params)
    results = retyped_values(applied_body(graph, params, sizes=sizes))
    ranges, further = ranges_at(graph, sizes)
    facts = (*facts_at(graph, sizes), *further)
    signature = attrs.evolve(graph.signature, facts=facts)
    return Graph(params, results, pmap(ranges), signature, graph.name)


def at_sizes(param: Value, sizes: Sizes) -> Value:
    """A parameter of another type; itself where it has none of the sizes."""
    found = map_dims(param.type, lambda d: dims.substitute(d, sizes))
    return param if found is param.type else param.with_type(found)


def ranges_at(graph: Graph, sizes: Sizes) -> tuple[dict[str, Range], list[Fact]]:
    """The ranges of the sizes that are left, and as conditions what the ranges of others ask of these."""
    ranges = dict(graph.symbols)
    further: list[Fact] = []
    told = {port.binds for port in graph.signature.params if port.role == "input"}
    for symbol, size in sizes.items():
        allowed = ranges.pop(symbol.name, Range())
        if type(size) is int:
            if symbol.name in told:  # a parameter is this size, and must be this number
                ranges[symbol.name] = Range(size, size)
        elif isinstance(size, sympy.Symbol):
            before = ranges.get(size.name, graph.symbols.get(size.name, allowed))
            his = [r.hi for r in (before, allowed) if r.hi is not None]
            ranges[size.name] = Range(max(before.lo, allowed.lo), min(his, default=None))
        else:
            text = notation.text(size)
            if allowed.lo > dims.bounds(size, {}).lo:
                further.append(Fact("relation", f"{text} >= {allowed.lo}"))
            if allowed.hi is not None:
                further.append(Fact("relation", f"{text} <= {allowed.hi}"))
    return ranges, further


def facts_at(graph: Graph, sizes: Sizes) -> list[Fact]:
    """The conditions over the sizes that are left; those that hold now are left out."""
    numbers = {s.name: d for s, d in sizes.items() if type(d) is int}
    checked = {port.binds for port in graph.signature.results if port.role == "check"}
    found: list[Fact] = []
    for fact in graph.signature.facts:
        if fact.kind not in ENFORCED or fact.text in checked:
            found.append(fact)
        elif holds(fact.text, numbers) is not True:
            found.append(attrs.evolve(fact, text=condition_at(fact.text, sizes)))
    return found


def condition_at(text: str, sizes: Sizes) -> str:
    """A condition with other sizes in it."""
    written = {s.name: ast.parse(notation.text(d), mode="eval").body for s, d in sizes.items()}

    class Sized(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return written.get(node.id, node)

        def visit_Constant(self, node: ast.Constant) -> ast.expr:  # a name that is no word of Python's
            return written.get(node.value, node) if isinstance(node.value, str) else node

        def visit_Call(self, node: ast.Call) -> ast.expr:
            return ast.Call(node.func, [self.visit(each) for each in node.args], [])

    tree = ast.parse(text, mode="eval").body
    return ast.unparse(Sized().visit(tree))


# ---------------------------------------------------------------------------------------------- types inferred again


def retyped_values(results: Iterable[Value]) -> tuple[Value, ...]:
    """The values with their types inferred again: what has become known of a size that depended on data, or on whether
    two sizes are equal, is known of all that has it. Raises TypeRuleError where the sizes do not fit one another."""
    return Retyping().values(results)


@attrs.define(eq=False)
class Retyping:
    """What one run has learned of sizes that were unknown, and the bodies that it has seen."""

    learned: dict[sympy.Symbol, Dim] = attrs.field(factory=dict[sympy.Symbol, Dim])
    bodies: dict[int, tuple[Graph, Graph]] = attrs.field(factory=dict[int, tuple[Graph, Graph]])

    def size(self, dim: Dim) -> Dim:
        """A size with what was learned."""
        return dims.substitute(dim, self.learned) if self.learned else dim

    def values(self, results: Iterable[Value]) -> tuple[Value, ...]:
        """The values over operands of which more is known."""
        wanted = tuple(results)
        new: dict[Value | None, Value | None] = {None: None}
        for value in post_order(wanted):
            inputs = tuple([new[v] for v in value.inputs])
            new[value] = value if value.op in (PARAM, CONSTANT) else self.value(value, inputs)
        return tuple([cast("Value", new[r]) for r in wanted])

    def value(self, value: Value, inputs: tuple[Value | None, ...]) -> Value:
        """One value; itself where nothing new is known."""
        if value.op == SHAPE_VECTOR:
            sizes = tuple(map(self.size, value.attributes[0][1]))
            if sizes != value.attributes[0][1] or dims.are_numbers(sizes):
                return vector_of(value, inputs, sizes)
        bodies = tuple([self.body(each) for each in value.bodies]) if value.op != CALL else value.bodies
        before = map_dims(value.type, self.size)
        made = vertex(value.op, inputs, value.attributes, bodies, before, value.origin)
        found = refined_type(inferred(made, inputs), before)
        for old, now in zip(dims_of(before), dims_of(found), strict=False):
            if old is not now and type(old) is not int and dims.is_fresh(old):
                self.learned[cast("sympy.Symbol", old)] = now
        parts, others = (value.type, *value.inputs, *value.bodies), (found, *inputs, *bodies)
        if all(a is b for a, b in zip(parts, others, strict=True)):
            return value
        return made if found is before else made.with_type(found)

    def body(self, body: Graph) -> Graph:
        """A body of control flow; itself where nothing new is known."""
        if id(body) not in self.bodies:
            self.bodies[id(body)] = body, body.with_results(self.values(body.results))
        return self.bodies[id(body)][1]


def vector_of(value: Value, inputs: tuple[Value | None, ...], sizes: tuple[Dim, ...]) -> Value:
    """A ShapeVector of sizes of which more is known than before."""
    if dims.are_numbers(sizes):
        return shape_vector(sizes).with_origin(value.origin)
    attributes = (("dims", sizes), *value.attributes[1:])
    return vertex(value.op, inputs, attributes, value.bodies, value.type, value.origin)


def inferred(value: Value, inputs: tuple[Value | None, ...]) -> Any:
    """The type that an operator gives. Raises TypeRuleError, with where it came from, for operands that do not fit."""
    try:
        return inferred_type(value, inputs)
    except TypeRuleError as error:
        shown = ", ".join("_" if v is None else repr(v.type) for v in inputs)
        raise error.located(ir=f"{value.op}({shown})", source=str(value.origin)) from None
