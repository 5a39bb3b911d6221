"""Functions of ONNX: applied to values, and made of graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from onnx import FunctionProto, helper

from irkit.build import call_graph, const
from irkit.core.blobs import SMALL
from irkit.core.ir import Graph, Port, Value, param, require_graph
from irkit.core.vocabulary import CONSTANT
from irkit.core.walk import rebuild
from irkit.errors import SerializeError, TypeRuleError
from irkit.onnx.reading.nodes import Reader, opsets_of
from irkit.onnx.reading.scope import Frame
from irkit.onnx.reading.sizes import Known
from irkit.onnx.reading.tensors import Files
from irkit.onnx.reading.types import Types
from irkit.onnx.writing.inlining import expand_calls
from irkit.onnx.writing.models import DOMAIN_KEY, FUNCTIONS, metadata, to_proto
from irkit.support.counts import count_text
from irkit.support.results import as_tuple

ARGUMENTS, INSIDE = "arguments", "inside"


def call_function(
    function: FunctionProto | Sequence[FunctionProto],
    inputs: Sequence[Any],
    attributes: Mapping[str, Any] | None = None,
) -> Any:
    """What a function of ONNX computes of operands: a Value, or a tuple where it has several results.

    `function` may be several, the first of which is called, and calls the others. Operands are Values, None, or what
    `irkit.const` takes; attributes have the function's defaults. Raises TypeRuleError for operands or attributes that
    it does not take, LoadError for a body that makes no sense over them.
    """
    functions = (function,) if isinstance(function, FunctionProto) else tuple(function)
    first = functions[0]
    if len(inputs) > len(first.input):
        what = f"the function {first.name} takes {count_text(len(first.input), 'operand')}, and was given {len(inputs)}"
        raise TypeRuleError(what, hint=f"they are: {', '.join(first.input) or 'none'}")
    given = {a.name: a for a in first.attribute_proto}
    unknown = [name for name in attributes or {} if name not in given and name not in first.attribute]
    if unknown:
        known = ", ".join((*first.attribute, *given)) or "none"
        raise TypeRuleError(f"the function {first.name} has no attribute {unknown[0]}", hint=f"it has: {known}")
    given |= {name: helper.make_attribute(name, each) for name, each in (attributes or {}).items()}
    missing = [name for name in first.attribute if name not in given]
    if missing:
        what = f"the function {first.name} needs the attribute {missing[0]}"
        raise TypeRuleError(what, hint="it has no default: give it among the attributes")
    operands = [v if v is None or isinstance(v, Value) else const(v) for v in inputs]
    frame = Frame(opsets_of(first.opset_import), given, 1)
    results = reader_of(functions).inlined(first, operands, frame, first.output)
    return results[0] if len(results) == 1 else tuple(results)


def reader_of(functions: Sequence[FunctionProto]) -> Reader:
    """A reader that knows functions, and no model around them."""
    table = {(f.domain, f.name, f.overload): f for f in functions}
    steps = 10_000 + 100 * sum(len(f.node) for f in functions)
    return Reader(Files(None), Types(), table, Known(frozenset()), lambda: steps)


def as_function(
    graph: Graph, *, name: str = "", domain: str = FUNCTIONS, opset: int | None = None, weights: str = INSIDE
) -> FunctionProto:
    """A graph as a function of ONNX: its inputs are the parameters, under their names, and with `weights="arguments"`
    after them the named contents and those above 1 KiB; else these are Constants inside.

    Calls are written out. What the graph's contract says stands in the function's metadata, for nobody checks it where
    the function is called. Raises SerializeError as `irkit.to_proto` does, and for a place of weights that there is
    none of.
    """
    require_graph(graph)
    if weights not in (ARGUMENTS, INSIDE):
        raise SerializeError(f"weights is {weights!r}", hint="write 'arguments' or 'inside'")
    body = expand_calls(graph)
    signature = attrs.evolve(body.signature, metadata=((DOMAIN_KEY, domain), *metadata(body).items()))
    body = attrs.evolve(body, name=name or body.name, signature=signature)
    body = with_arguments(body) if weights == ARGUMENTS else body
    params = tuple(param(p.type) for p in body.params)
    outer = Graph(params, as_tuple(call_graph(body, *params)), body.symbols)
    return to_proto(outer, opset=opset, functions=True).functions[0]


def with_arguments(graph: Graph) -> Graph:
    """The graph with a parameter in the place of each named content and each large one."""
    held = [
        v for v in graph.order if v.op == CONSTANT and v.blob is not None and (v.blob.name or v.blob.nbytes > SMALL)
    ]
    names = [v.blob.name or f"constant_{i}" for i, v in enumerate(held) if v.blob is not None]
    swaps = {v: param(v.type) for v in held}
    ports = graph.signature.params
    ports += tuple(Port("") for _ in range(len(graph.params) - len(ports))) + tuple(map(Port, names))
    signature = attrs.evolve(graph.signature, params=ports)
    new = rebuild(graph.results, swaps)
    return attrs.evolve(
        graph,
        params=(*graph.params, *swaps.values()),
        results=tuple(new[r] for r in graph.results),
        signature=signature,
    )
