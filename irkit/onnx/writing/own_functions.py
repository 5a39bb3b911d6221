"""Operators of the user's own in a file: each as a node that calls a local function, which is its definition.

A definition may say something else for other types, attributes, or small integers among its operands; so there is one
function for each that is another, all of one name, told apart by their `overload`. Inside of functions no operators of
one's own are left: ONNX Runtime (1.31) calls from there the function without an `overload`, whichever the node names.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from onnx import FunctionProto

from irkit.core.ir import Graph, Port, Signature, Value
from irkit.core.printer import nested_graphs
from irkit.core.types import types_of
from irkit.core.vocabulary import CALL
from irkit.errors import SerializeError
from irkit.nodes.operators import Operator, body, operator_of, stand_in
from irkit.onnx.writing.downgrade import downgraded_graph
from irkit.onnx.writing.inlining import expand_calls, map_bodies
from irkit.onnx.writing.materialize import materialize_dims
from irkit.onnx.writing.protos import Types, attribute_proto, place
from irkit.ops.schemas import split_domain


def body_at(known: Operator, value: Value, opset: int) -> Graph:
    """The definition of an operator for the operands of a value, as a graph that can be written at an opset. Its
    parameters, one for each operand that is given, bear the names that the operator has for them."""
    stands = tuple(map(stand_in, value.inputs))
    made = body(known, value.attributes, stands, len(types_of(value.type)))
    names = operand_names(known, len(value.inputs))
    given = [name for name, operand in zip(names, value.inputs, strict=True) if operand is not None]
    ends = [f.name if f.name not in names else f"{f.name}_out" for f in known.row.outputs]
    signature = Signature(tuple(map(Port, given)), tuple(Port(n, "output") for n in ends[: len(made.results)]))
    plain = attrs.evolve(own_written_out(made), signature=signature)
    return downgraded_graph(materialize_dims(expand_calls(plain), opset), opset)


def is_written_out(value: Value) -> bool:
    """True for an operator of one's own whose definition is written into files."""
    known = operator_of(value.op)
    return known is not None and known.definition is not None and not known.library


def own_written_out(graph: Graph) -> Graph:
    """The graph with its operators of one's own, and those in its bodies, in others, as they are defined; itself where
    it has none."""
    made: list[Graph] = []
    called = _with_calls(graph, made, {})
    known = set(map(id, made))
    return expand_calls(called, lambda call: id(call.bodies[0]) in known) if made else graph


def called_bodies_written_out(graph: Graph, memo: dict[int, Graph] | None = None) -> Graph:
    """The graph, in which the bodies of Calls, which become functions, hold no operators of one's own."""
    known: dict[int, Graph] = {} if memo is None else memo
    if not any(is_written_out(v) for nested, first in nested_graphs(graph) if first for v in nested.order):
        return graph

    def inner(value: Value) -> Value:
        def plain(body: Graph) -> Graph:
            if id(body) not in known:
                called = value.op == CALL
                known[id(body)] = own_written_out(body) if called else called_bodies_written_out(body, known)
            return known[id(body)]

        return map_bodies(value, plain)

    return _mapped(graph, inner)


def _with_calls(graph: Graph, made: list[Graph], memo: dict[int, Graph]) -> Graph:
    """The graph with a Call of the definition in the place of each operator of one's own; `made` gets their bodies."""

    def body_with_calls(nested: Graph) -> Graph:
        if id(nested) not in memo:
            memo[id(nested)] = _with_calls(nested, made, memo)
        return memo[id(nested)]

    def call(value: Value) -> Value:
        known = operator_of(value.op)
        if known is None or not is_written_out(value):
            return map_bodies(value, body_with_calls)
        stands, count = tuple(map(stand_in, value.inputs)), len(types_of(value.type))
        made.append(_with_calls(body(known, value.attributes, stands, count), made, memo))
        given = tuple(v for v in value.inputs if v is not None)
        return Value(CALL, given, (), (made[-1],), value.type, value.origin)

    return _mapped(graph, call)


def _mapped(graph: Graph, function: Callable[[Value], Value]) -> Graph:
    """The graph with what the function makes of each value, over its new operands."""
    new: dict[Value, Value] = {}
    for value in graph.order:
        inputs = tuple(None if v is None else new[v] for v in value.inputs)
        same = all(a is b for a, b in zip(inputs, value.inputs, strict=True))
        new[value] = function(value if same else value.with_inputs(inputs))
    return graph.with_results(new[r] for r in graph.results)


def operand_names(known: Operator, count: int) -> list[str]:
    """The name of each operand; of those that stand for one variadic formal, with a number."""
    found: list[str] = []
    for index in range(count):
        formal = known.row.formal(index)
        found.append(f"{formal.name}_{index}" if formal.option == "variadic" else formal.name)
    return found


def declare_attributes(proto: FunctionProto, known: Operator, types: Types) -> None:
    """Writes which attributes a call of the function may have, and their defaults."""
    for name, attribute in known.row.attributes.items():
        if attribute.default is None:
            proto.attribute.append(name)
        else:
            proto.attribute_proto.append(attribute_proto(name, attribute.kind, attribute.default, types))


@attrs.define(eq=False)
class OwnFunctions:
    """The functions of one file that are definitions of operators, and which of them a node calls."""

    overloads: dict[object, str] = attrs.field(factory=dict[object, str])
    written: dict[tuple[str, bytes], str] = attrs.field(factory=dict[tuple[str, bytes], str])
    known: dict[str, Operator] = attrs.field(factory=dict[str, Operator])
    counts: dict[str, int] = attrs.field(factory=dict[str, int])

    def require_one(self, known: Operator, value: Value) -> None:
        """Raises SerializeError for a second operator of one name in a file."""
        if self.known.setdefault(known.text, known) is not known:
            raise SerializeError(
                f"two operators called {known.text} stand in one graph, and a file has one of that name",
                hint="write one of them in other operators: passes.legalize(graph, target)",
                **place(value),
            )

    def settle(self, made: FunctionProto) -> bool:
        """True where the function is a new one, with its `overload` set; False where the file has it already, under
        the `overload` that it is given."""
        text = f"{made.domain}::{made.name}"
        raw = made.SerializeToString(deterministic=True)
        found = self.written.get((text, raw))
        if found is not None:
            made.overload = found
            return False
        count = self.counts.get(text, 0)
        self.counts[text] = count + 1
        made.overload = str(count) if count else ""
        self.written[text, raw] = made.overload
        return True


def call_key(known: Operator, value: Value) -> object:
    """Equal for values whose functions are one, for all that their operands tell."""
    return known, value.attributes, tuple(map(stand_in, value.inputs)), len(types_of(value.type))


def named_function(known: Operator) -> FunctionProto:
    """A function of the name of an operator, with nothing in it."""
    domain, name = split_domain(known.text)
    return FunctionProto(domain=domain, name=name, doc_string=known.doc)
