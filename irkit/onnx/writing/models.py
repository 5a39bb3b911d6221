"""A graph as an ONNX model: nodes, initializers, types, metadata. Every choice was made before; this only writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from typing import Any

import attrs
import onnx
import sympy
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from irkit.build import dtype_complaint, required_attributes
from irkit.core.blobs import SMALL, Blob
from irkit.core.digest import symbols_in
from irkit.core.ir import Graph, Value, require_graph
from irkit.core.origins import DOC_NOTE, NAME_NOTE, NOWHERE, Origin
from irkit.core.types import Tensor
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM
from irkit.dims import is_fresh
from irkit.errors import SerializeError
from irkit.nodes.operators import Operator, operator_of
from irkit.onnx.writing.downgrade import downgraded_graph
from irkit.onnx.writing.inlining import called_bodies, expand_calls
from irkit.onnx.writing.materialize import materialize_dims
from irkit.onnx.writing.names import Names, Scope, assign, encodable, weight_key
from irkit.onnx.writing.own_functions import (
    OwnFunctions,
    body_at,
    call_key,
    called_bodies_written_out,
    declare_attributes,
    named_function,
    operand_names,
)
from irkit.onnx.writing.protos import Types, attribute_proto, domain_version, explicit_defaults, kind_of, place, row_at
from irkit.onnx.writing.tensors import header, tensor_proto
from irkit.ops.schemas import BODIES, OPSET, OpSpec, split_domain
from irkit.support.counts import count_text
from irkit.support.uncollected import without_collector

PRODUCER = "irkit"
FUNCTIONS = "irkit.functions"
"""The domain of the local functions that bodies of Calls become."""
SIGNATURE_KEY, GUARDS_KEY, RANGES_KEY, BAKED_KEY = "irkit.signature", "irkit.guards", "irkit.ranges", "irkit.baked"
"""Keys of the model's metadata. Each holds JSON.

- `irkit.signature`: {"params": [[name, role, binds], ...], "results": [...]}
- `irkit.guards`: [{"at", "kind", "text", "source"}, ...], all facts but the baked ones; `at` is the place among all.
- `irkit.ranges`: {symbol: [lo, hi]}, hi null where there is no upper bound.
- `irkit.baked`: as `irkit.guards`, the values that capture fixed.
"""
DOMAINS_KEY = "irkit.domains"
"""Key of the metadata, of a graph already, that holds the versions of domains that ONNX does not know, as JSON."""
DOC_KEY = "irkit.doc_string"
"""Key of a graph's metadata for the text that describes a model, which is the model's `doc_string` in the file."""
NODE_KEYS = ("irkit.node", "irkit.target", "irkit.module", "irkit.source", "irkit.rules")
"""Keys of a node's metadata, in the order of the fields of `Origin`; `irkit.rules` is joined by commas."""
_UNWRITTEN = (CONSTANT, PARAM, ITEM)
DOMAIN_KEY = "irkit.domain"
"""Key of the metadata of a body of a Call for the domain of the function that it is."""
COPY_KEY = "irkit.copy"
"""Marks an Identity that is only there to give a result its name; the loader leaves it out again."""
EMPTY = "SequenceEmpty"
"""Its type is not written: the elements that it has none of have rank 0 in irkit, and no rank in ONNX."""
NODE_METADATA = 10
"""The IR version that brought metadata to nodes."""
OVERLOADS = 10
"""The IR version that brought functions of one name."""
TOO_LARGE = (1 << 31) - 1
"""A message of more bytes than this cannot be read by protobuf."""

Sink = Callable[[Blob, str], onnx.TensorProto | None]


def to_proto(
    graph: Graph, *, opset: int | None = None, ir_version: int | None = None, functions: bool = False
) -> ModelProto:
    """The graph as an ONNX model in memory, with its weights inside.

    ShapeVectors and Calls that are left are written out first; with `functions` the body of each Call becomes a local
    function of the model instead, once for all the Calls that share it. The graph's operators are those of opset 26;
    for an older `opset` it must have been legalized. `ir_version` is the lowest that fits the opset unless it is given.

    Raises SerializeError for what the opset cannot say, and for weights of 2 GiB and more (`irkit.save` takes those);
    StaleError where a weight has changed since the graph was made.
    """
    require_graph(graph)
    total = sum(blob.nbytes for blob in weights_of(graph))
    if total > TOO_LARGE:
        raise SerializeError(
            f"the weights take {total} bytes, and one ONNX message holds less than 2 GiB",
            hint="irkit.save(graph, path) writes them beside the model",
        )
    made = skeleton(graph, opset=opset, ir_version=ir_version, sink=tensor_proto, functions=functions)
    graph.check_contents()  # while it was written, too
    return made


def weights_of(graph: Graph) -> list[Blob]:
    """The blobs above 1 KiB that a graph and its bodies hold, each storage once, in order."""
    found: dict[Hashable, Blob] = {}
    pending, seen = [graph], {id(graph)}
    while pending:
        current = pending.pop()
        for value in current.order:
            if value.op == CONSTANT:
                blob = value.attributes[0][1]
                if blob.nbytes > SMALL:
                    found.setdefault(weight_key(blob), blob)
            for body in value.bodies:
                if id(body) not in seen:
                    seen.add(id(body))
                    pending.append(body)
    return list(found.values())


@without_collector
def skeleton(
    graph: Graph, *, opset: int | None, ir_version: int | None, sink: Sink, functions: bool = False
) -> ModelProto:
    """The model with each initializer as `sink` makes it from blob and name; one for which that is None is left out."""
    version = OPSET if opset is None else opset
    if type(version) is not int or not 7 <= version <= OPSET:
        raise SerializeError(
            f"irkit writes opsets 7 to {OPSET}, and was asked for {opset!r}",
            hint=f"give opset={OPSET}, or none for the newest",
        )
    if ir_version is not None and (type(ir_version) is not int or not 3 <= ir_version < 1 << 31):
        raise SerializeError(f"there is no IR version {ir_version!r}", hint="leave it out, and the lowest is taken")
    written = downgraded_graph(
        materialize_dims(called_bodies_written_out(graph) if functions else expand_calls(graph), version), version
    )
    model = ModelProto(producer_name=PRODUCER, ir_version=ir_version or lowest_ir_version(version))
    writer = Writer(version, Types(lambda: frozenset(s.name for s in all_symbols(written))), sink, model.ir_version)
    scope, known = assign(written), dict(graph.signature.metadata)
    if functions:
        writer.functions(model, written)
    writer.graph(model.graph, written, scope)
    model.functions.extend(writer.definitions)
    if any(function.overload for function in writer.definitions) and not ir_version:
        model.ir_version = max(model.ir_version, OVERLOADS)
    said: dict[str, int] = json.loads(known[DOMAINS_KEY]) if DOMAINS_KEY in known else {}
    domains = {"": version, **{name: max(v, said.get(name, 1)) for name, v in sorted(writer.domains.items())}}
    for message in (model, *model.functions):
        for domain, number in domains.items():
            message.opset_import.add(domain=domain, version=number)
    for key, value in metadata(graph).items():
        model.metadata_props.add(key=key, value=value)
    model.doc_string = known.get(DOC_KEY, "")
    return model


def all_symbols(graph: Graph) -> list[sympy.Symbol]:
    """The symbols of a graph and of its bodies, fresh ones left out."""
    found = [s for s in symbols_in(graph) if not is_fresh(s)]
    for value in graph.order:
        for body in value.bodies:
            found += all_symbols(body)
    return found


def lowest_ir_version(opset: int) -> int:
    """The lowest IR version that a model of an opset may have."""
    return onnx.helper.OP_SET_ID_VERSION_MAP[("ai.onnx", opset)]


# ---------------------------------------------------------------------------------------------- metadata


def metadata(graph: Graph) -> dict[str, str]:
    """What the model's metadata holds: the signature's own pairs, then the facts as JSON."""
    signature = graph.signature
    found = {key: value for key, value in signature.metadata if key != DOC_KEY}
    ports = {
        "params": [[p.name, p.role, p.binds] for p in signature.params],
        "results": [[p.name, p.role, p.binds] for p in signature.results],
    }
    if signature.params or signature.results:
        found[SIGNATURE_KEY] = as_json(ports)
    facts = [
        {"at": at, "kind": fact.kind, "text": fact.text, "source": fact.source}
        for at, fact in enumerate(signature.facts)
    ]
    if graph.symbols:
        found[RANGES_KEY] = as_json({name: [r.lo, r.hi] for name, r in sorted(graph.symbols.items())})
    for key, chosen in (
        (GUARDS_KEY, [f for f in facts if f["kind"] != "baked"]),
        (BAKED_KEY, [f for f in facts if f["kind"] == "baked"]),
    ):
        if chosen:
            found[key] = as_json(chosen)
    return found


def as_json(data: object) -> str:
    """JSON without spaces, in the order given."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


# ---------------------------------------------------------------------------------------------- nodes


@attrs.define(eq=False)
class Plan:
    """How every node of one operator is written: its row, what defaults to spell out, which results are optional."""

    row: OpSpec | None
    name: str
    domain: str
    bodies: tuple[str, ...]
    explicit: tuple[tuple[str, str, Any], ...]
    required: tuple[str, ...]
    spelled: bool
    own: Operator | None = None
    checked: set[Hashable] = attrs.field(factory=set[Hashable])
    """Element types of operands, and numbers of results, that the row was found to allow."""


class Writer:
    """Writes graphs of one model. What it remembers are messages that many nodes share."""

    def __init__(self, opset: int, types: Types, sink: Sink, ir_version: int) -> None:
        self.opset, self.types, self.sink = opset, types, sink
        self.ir_version = ir_version
        self.domains: dict[str, int] = {}
        self._plans: dict[str, Plan] = {}
        self._attributes: dict[tuple[Hashable, ...], list[AttributeProto]] = {}
        self._functions: dict[int, tuple[str, str]] = {}
        self._node_names: set[str] = set()
        self.own = OwnFunctions()
        self.definitions: list[FunctionProto] = []

    def functions(self, model: ModelProto, graph: Graph) -> None:
        """Writes the bodies of Calls, in the graph and in one another, as functions: callees first, each once, in the
        domain and with the text and metadata that it had in the file it came from."""
        pools: dict[str, Names] = {}
        for body in called_bodies(graph):
            said = dict(body.signature.metadata)
            domain = said.pop(DOMAIN_KEY, FUNCTIONS)
            name = pools.setdefault(domain, Names()).claim(encodable(body.name) or "function")
            made = model.functions.add(domain=domain, name=name, doc_string=said.pop(DOC_KEY, ""))
            for key, text in said.items() if self.ir_version >= NODE_METADATA else ():
                made.metadata_props.add(key=key, value=text)
            self._functions[id(body)] = made.name, domain
            self.domains[domain] = max(1, self.domains.get(domain, 1))
            scope = assign(body)
            made.input.extend(scope.inputs)
            made.output.extend(scope.outputs)
            for name, blob in scope.weights.items():
                node = made.node.add(op_type=CONSTANT, name=name, output=(name,))
                node.attribute.add(name="value", type=AttributeProto.TENSOR, t=tensor_proto(blob))
            self.nodes(made, body, scope)

    def own_function(self, known: Operator, value: Value) -> str:
        """Writes the definition of an operator as a function, for operands as the value has them, unless the file has
        it: the `overload` of the function."""
        key = call_key(known, value)
        if key not in self.own.overloads:
            made, body = named_function(known), body_at(known, value, self.opset)
            scope = assign(body)
            names = iter(scope.inputs)
            formals = operand_names(known, len(value.inputs))
            made.input.extend(n if v is None else next(names) for n, v in zip(formals, value.inputs, strict=True))
            made.output.extend(scope.outputs)
            declare_attributes(made, known, self.types)
            for name, blob in scope.weights.items():
                node = made.node.add(op_type=CONSTANT, name=name, output=(name,))
                node.attribute.add(name="value", type=AttributeProto.TENSOR, t=tensor_proto(blob))
            self.nodes(made, body, scope)
            del made.value_info[:]  # it serves operands of other sizes, too
            if self.own.settle(made):
                self.definitions.append(made)
            self.own.overloads[key] = made.overload
        return self.own.overloads[key]

    def graph(self, proto: GraphProto, graph: Graph, scope: Scope) -> None:
        """Writes one graph and its bodies into `proto`."""
        proto.name = encodable(graph.name) or "graph"
        for name, blob in scope.weights.items():
            made = self.sink(blob, name)
            if made is not None:
                proto.initializer.append(made)
        for param, name in zip(graph.params, scope.inputs, strict=False):
            proto.input.add(name=name, type=self.types.proto(param.type))
        self.nodes(proto, graph, scope)
        for result, name in zip(graph.results, scope.outputs, strict=True):
            proto.output.add(name=name, type=self.types.proto(result.type))

    def nodes(self, proto: GraphProto | FunctionProto, graph: Graph, scope: Scope) -> None:
        """Writes the nodes of a graph into `proto`, with the types of their results."""
        names, several, types = scope.names, scope.several, self.types
        public = {*scope.inputs, *scope.outputs}
        add_node, add_info, fill, proto_of = proto.node.add, proto.value_info.add, self.fill, types.proto
        for value in graph.order:
            op = value.op
            if op in _UNWRITTEN:
                continue
            name = names[value]
            parts = several.get(value)
            node = add_node()
            node.name = name
            if value.inputs:
                node.input.extend(["" if v is None else names[v] for v in value.inputs])
            if parts is None:
                node.output.append(name)
                if name not in public and op != EMPTY:
                    info = add_info()
                    info.name = name
                    info.type.CopyFrom(proto_of(value.type))
            else:
                self.outputs(proto, node, value, parts, public)
            fill(node, value, scope)
        for source, target in scope.copies:
            copy = proto.node.add(op_type="Identity", name=target, input=(source,), output=(target,))
            if self.ir_version >= NODE_METADATA:
                copy.metadata_props.add(key=COPY_KEY, value="result")

    def outputs(
        self,
        proto: GraphProto | FunctionProto,
        node: NodeProto,
        value: Value,
        parts: tuple[str, ...],
        public: set[str],
    ) -> None:
        """The results of a node that has several; optional ones at the end that nobody uses are left out."""
        kept = list(parts)
        while kept and not kept[-1]:
            kept.pop()
        node.output.extend(kept)
        for part, type_ in zip(kept, value.type.items, strict=False):  # type: ignore[union-attr]
            if part and part not in public:
                proto.value_info.add(name=part, type=self.types.proto(type_))

    def fill(self, node: NodeProto, value: Value, scope: Scope) -> None:
        """Operator, attributes, bodies and metadata of one node, checked against the operator's row."""
        if value.op == CALL and id(value.bodies[0]) in self._functions:
            node.op_type, node.domain = self._functions[id(value.bodies[0])]
            self.provenance(node, value)
            return
        plan = self._plans.get(value.op) or self.plan(value)
        node.op_type = plan.name
        if plan.domain:
            node.domain = plan.domain
        if plan.own is not None:
            self.own.require_one(plan.own, value)
            if plan.own.definition is not None and not plan.own.library:
                node.overload = self.own_function(plan.own, value)
        if plan.row is not None:
            kinds = tuple([v.type.dtype if v is not None and type(v.type) is Tensor else None for v in value.inputs])
            seen = (kinds, len(node.output))
            if value.bodies or seen not in plan.checked:
                check_node(value, plan.row, self.opset, len(node.output))
                plan.checked.add(seen)
        if value.attributes or plan.spelled:
            node.attribute.extend(self.attributes(value, plan))
        if value.bodies:
            if plan.bodies and len(plan.bodies) == len(value.bodies):
                count = value.attribute("captures", 0)
                del node.input[len(node.input) - count :]
            for key, body, inner in zip(plan.bodies, value.bodies, scope.bodies[value], strict=True):
                attribute = node.attribute.add(name=key, type=AttributeProto.GRAPH)
                self.graph(attribute.g, body, inner)
        self.provenance(node, value)

    def provenance(self, node: NodeProto, value: Value) -> None:
        """Where a node comes from, as its metadata."""
        origin = value.origin
        if origin is NOWHERE:
            return
        if origin.notes:
            self.noted(node, origin)
        if self.ir_version < NODE_METADATA:
            return
        add = node.metadata_props.add
        fields = (origin.node, origin.target, origin.module, origin.source, ",".join(origin.rules))
        for key, text in zip(NODE_KEYS, fields, strict=True):
            if text:
                entry = add()  # set one by one: given by name they take twice as long
                entry.key, entry.value = key, text if text.isascii() else encodable(text)

    def noted(self, node: NodeProto, origin: Origin) -> None:
        """What else the file that a node came from said of it: its name, if no other node has it, text, metadata."""
        for key, text in origin.notes:
            if key == NAME_NOTE:
                if text not in self._node_names:
                    self._node_names.add(text)
                    node.name = encodable(text)
            elif key == DOC_NOTE:
                node.doc_string = encodable(text)
            elif self.ir_version >= NODE_METADATA:
                node.metadata_props.add(key=encodable(key), value=encodable(text))

    def plan(self, value: Value) -> Plan:
        """How nodes of an operator are written. Raises SerializeError where the opset does not have it."""
        domain, name = split_domain(value.op)
        bodies = BODIES.get(value.op, ())
        if value.bodies and not bodies:
            raise SerializeError(f"irkit cannot write the bodies of {value.op}", **place(value))
        own = operator_of(value.op)
        version = domain_version(value.op, self.opset) if own is None else own.row.since
        if domain:
            self.domains[domain] = max(version, self.domains.get(domain, 1))
        row = row_at(value.op, version) if own is None else own.row
        explicit = explicit_defaults(value.op, version) if domain == "" else ()
        needed = required_attributes(row) if row is not None else ()
        self._plans[value.op] = made = Plan(row, name, domain, bodies, explicit, needed, bool(explicit or needed), own)
        return made

    def attributes(self, value: Value, plan: Plan) -> list[AttributeProto]:
        """The attributes of a node, graphs left out. Raises SerializeError for one that the opset does not have."""
        key = (value.op, value.attributes) if hashable_exactly(value.attributes) else None
        known = None if key is None else self._attributes.get(key)
        if known is not None:
            return known
        found: list[AttributeProto] = []
        given = {name for name, _ in value.attributes}
        for name, attribute in value.attributes:
            if name == "captures" and plan.bodies:
                continue
            row = None if plan.row is None else plan.row.attributes.get(name)
            if row is None and plan.row is not None:
                raise SerializeError(
                    f"{plan.name} has no attribute {name} at opset {self.opset}, and it is {attribute!r}",
                    hint="run passes.legalize for that opset",
                    **place(value),
                )
            kind = kind_of(attribute) if row is None else row.kind
            found.append(attribute_proto(name, kind, attribute, self.types))
        for name, kind, default in plan.explicit:
            if name not in given:
                given.add(name)
                found.append(attribute_proto(name, kind, default, self.types))
        missing = [name for name in plan.required if name not in given]
        if missing:
            raise SerializeError(f"{plan.name} needs attribute {missing[0]} at opset {self.opset}", **place(value))
        if key is not None:
            self._attributes[key] = found
        return found


_INT = frozenset((int,))


def hashable_exactly(attributes: tuple[Any, ...]) -> bool:
    """True where equal attributes are written alike: no floats, of which 0.0 and -0.0 are equal, and 1.0 and 1."""
    for _, value in attributes:
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # the type of Any
        if kind is not int and kind is not str and not (kind is tuple and _INT.issuperset(map(type, value))):
            return False
    return True


def check_node(value: Value, row: OpSpec, opset: int, outputs: int) -> None:
    """Raises SerializeError where a row refuses the number or the element types of operands, or lacks a result."""
    count = len(value.inputs) - value.attribute("captures", 0) if value.bodies else len(value.inputs)
    if not row.min_inputs <= count <= row.max_inputs:
        least = "" if row.min_inputs == row.max_inputs else f"{row.min_inputs} to "
        takes = least + count_text(row.max_inputs, "operand")
        raise SerializeError(
            f"{row.name} takes {takes} at opset {opset}, and has {count}",
            hint="run passes.legalize for that opset",
            **place(value),
        )
    if outputs > row.max_outputs:
        raise SerializeError(f"{row.name} has at most {row.max_outputs} results at opset {opset}", **place(value))
    kinds = tuple(v.type.dtype if v is not None and type(v.type) is Tensor else None for v in value.inputs[:count])
    complaint = dtype_complaint(row, kinds)
    if complaint:
        raise SerializeError(
            f"{row.name} at opset {opset}: {complaint}", hint="run passes.legalize for that opset", **place(value)
        )


__all__ = ["header", "metadata", "skeleton", "to_proto"]
