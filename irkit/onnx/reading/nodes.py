"""Nodes of an ONNX graph as values: names resolved, old operators upgraded, sizes folded, bodies closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Any, cast

import attrs
import onnx
import onnx.defs
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

from irkit import dims
from irkit.build import call
from irkit.build.runtime import defined_operator
from irkit.core.attributes import Given, freeze
from irkit.core.blobs import Blob, blob, whole
from irkit.core.ir import Graph, Value, constant, item, param, vertex
from irkit.core.origins import DOC_NOTE, NAME_NOTE, NOWHERE, Origin, provenance
from irkit.core.types import DType, Tensor, Tuple, Type, dims_of, map_dims, same_types, types_of
from irkit.core.vocabulary import CONSTANT, ITEM, SHAPE_VECTOR
from irkit.errors import IrkitError, LoadError, TypeRuleError
from irkit.nodes.operators import Operator, Table
from irkit.onnx.reading.bodies import read_control
from irkit.onnx.reading.functions import called_function
from irkit.onnx.reading.repeats import LONG, Repeats
from irkit.onnx.reading.scope import Frame, Scope, define, readable, require_sizes
from irkit.onnx.reading.sizes import Known
from irkit.onnx.reading.tensors import Files, blob_of, dense
from irkit.onnx.reading.types import Types
from irkit.onnx.reading.upgrade import Old, is_upgraded, upgraded_node
from irkit.onnx.writing.models import COPY_KEY, NODE_KEYS
from irkit.ops.runtime_table import STOWAWAYS
from irkit.ops.schemas import BODIES, OPSET, names
from irkit.support.counts import count_text
from irkit.support.results import as_tuple

_DEEP = 64
_WRONG = (
    IrkitError, TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError,
    MemoryError,
)  # fmt: skip
"""What a node that makes no sense may lead to: all of it is the file's fault, and becomes a LoadError."""
_APART = frozenset((*BODIES, *STOWAWAYS))
"""Operators of which no two nodes are compared."""
_NODE_KEYS = dict(zip(NODE_KEYS[:4], ("node", "target", "module", "source"), strict=True))

# Read once: an attribute of a message class takes as long to find as an attribute of a node does to read.
_INT, _INTS, _FLOAT, _FLOATS = AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT, AttributeProto.FLOATS
_STRING, _STRINGS, _TENSOR = AttributeProto.STRING, AttributeProto.STRINGS, AttributeProto.TENSOR
_TENSORS, _SPARSE_TENSOR, _TYPE_PROTO = AttributeProto.TENSORS, AttributeProto.SPARSE_TENSOR, AttributeProto.TYPE_PROTO

Attributes = dict[str, AttributeProto]


@attrs.frozen
class LoadForm:
    """What `irkit.load` takes beside the model."""

    inline: bool = True
    notes: bool = False
    operators: Table = MappingProxyType({})


PLAIN = LoadForm()


class Reader:
    """Reads the nodes of one model. Where it is not `noted`, no node has metadata of irkit's. `budget` says how many
    nodes of functions and bodies may be read; it is asked where the first of them are met."""

    def __init__(
        self,
        files: Files,
        types: Types,
        functions: Mapping[tuple[str, str, str], FunctionProto],
        known: Known,
        budget: Callable[[], int],
        *,
        noted: bool = True,
        form: LoadForm = PLAIN,
    ) -> None:
        self.files, self.types, self.functions, self.known = files, types, functions, known
        self.form, self.bodies = form, dict[tuple[Any, ...], list[Graph | None]]()
        self.budget, self.noted, self.repeats = budget, noted, Repeats(known)
        self.plain = not (noted or functions or form.notes or form.operators)
        self.left: int | None = None
        self.constants: dict[bytes, Value] = {}

    # ------------------------------------------------------------------------------------------ graphs

    def fill(self, proto: GraphProto, scope: Scope, frame: Frame) -> None:
        """Reads initializers and nodes into `scope`, whose parameters are there already."""
        scope.declarations += (proto.value_info, proto.output)
        for tensor in proto.initializer:
            name = tensor.name
            define(scope, name, constant(blob_of(tensor, self.files, name)))
        for sparse in proto.sparse_initializer:
            define(scope, sparse.values.name, constant(dense(sparse, self.files, sparse.values.name)))
        self.nodes(proto.node, scope, frame)

    def nodes(self, protos: Sequence[NodeProto], scope: Scope, frame: Frame) -> None:
        """Reads nodes into `scope`, in order. An error names the node it comes from."""
        if frame.depth:
            self.left = (self.budget() if self.left is None else self.left) - len(protos)
            if self.left < 0:
                raise LoadError(
                    "the model takes far more steps to read than it has nodes, in nested functions or loops",
                    hint="write functions out first, with onnx.inliner.inline_local_functions",
                )
        for node in protos:
            try:
                self.node(node, scope, frame)
            except LoadError:
                raise
            except _WRONG as error:
                raise self.located(error, node, frame) from error

    def located(self, error: Exception, node: NodeProto, frame: Frame) -> LoadError:
        """An error met at a node, as a LoadError."""
        opset = frame.opsets.get(node.domain, "?")
        name = f" {node.name!r}" if node.name else ""
        what = error.what if isinstance(error, IrkitError) else f"{type(error).__name__}: {error}"
        hint = error.hint if isinstance(error, IrkitError) else ""
        return LoadError(
            f"node{name} ({node.op_type}, opset {opset}): {what}", ir=str(getattr(error, "ir", "")), hint=hint
        )

    def lookup(self, name: str, scope: Scope) -> Value | None:
        """The value called `name`; one of an outer graph becomes a parameter of the body, but for leaves."""
        if name in scope.values:
            return scope.values[name]
        if scope.outer is None:
            raise LoadError(
                f"the name {name!r} is used before anything defines it",
                hint="sort the nodes in the order in which they are computed",
            )
        found = self.lookup(name, scope.outer)
        if found is None or scope.open or found.op == CONSTANT or (found.op == SHAPE_VECTOR and not found.inputs):
            scope.values[name] = found
            return found
        content = self.known.content(found)
        inside = self.known.value(content) if content and not content.binders and found.dtype is DType.INT64 else None
        if inside is None:
            inside = param(found.type).with_origin(Origin(node=name))
            scope.captures[name] = (found, inside)
        scope.values[name] = inside
        return inside

    # ------------------------------------------------------------------------------------------ one node

    def node(self, node: NodeProto, scope: Scope, frame: Frame) -> None:  # noqa: C901, PLR0912 - one branch for each kind of node
        """Reads one node and gives its results their names."""
        op, names, domain = node.op_type, node.output[:], "" if (named := node.domain) == "ai.onnx" else named
        notes = known = function = None
        if not self.plain:
            notes = self.notes_of(node, names)
            if notes and COPY_KEY in notes and len(node.input) == 1:
                define(scope, names[0], self.lookup(node.input[0], scope))
                return
            known = self.operator(domain, op, frame) if domain and self.form.operators else None
            function = self.functions.get((domain, op, node.overload)) if self.functions and known is None else None
        if function is None and domain not in frame.opsets:
            raise LoadError(
                f"the model uses the domain {domain or 'ai.onnx'!r} and does not import an opset of it",
                hint="add it to opset_import: onnx.helper.make_opsetid(domain, version)",
            )
        protos = node.attribute[:]  # slices: to iterate takes twice as long
        if op == CONSTANT and domain == "" and len(protos) == len(names) == 1 and frame.attributes is None:
            define(scope, names[0], self.constant(protos[0], names, notes))
            return
        given = node.input[:]
        try:
            inputs = tuple(map(scope.values.__getitem__, given))
        except KeyError:
            inputs = tuple([self.lookup(n, scope) if n else None for n in given])
        if function is not None:
            self.call(function, node, inputs, scope, frame, notes)
            return
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        key = came = None
        if domain == "" and len(names) == 1 and frame.attributes is None and op not in _APART:
            key = self.repeats.key(op, protos, inputs)
            came = self.repeats.came.get(key)
            if came is not None and came.leaf is not None:
                define(scope, names[0], came.leaf)
                return
        origin = provenance(names[0]) if notes is None and names and names[0] else origin_of(names, notes)
        if came is not None:
            define(scope, names[0], self.repeats.value(came, inputs, origin))
            return
        given = {a.name: a for a in protos} if protos else {}
        if frame.attributes is not None:
            given = resolved(given, frame.attributes)
        if domain == "" and op not in STOWAWAYS:
            found = self.standard(node, list(inputs), given, names, scope, frame)
        else:
            full = known.name if known is not None else f"{domain}::{op}" if domain else op
            found = self.foreign(full, node, inputs, given, scope)
        if key is not None:
            came = self.repeats.remember(key, found, inputs, origin)
        if came is not None:
            define(scope, names[0], self.repeats.value(came, inputs, origin) if came.leaf is None else came.leaf)
        elif type(found) is Value and len(names) == 1:
            define(scope, names[0], self.placed(found, origin, names[0], scope))
        else:
            self.bind(node, found, names, origin, scope)

    def notes_of(self, node: NodeProto, names: list[str]) -> dict[str, str] | None:
        """The metadata of a node, where it may have some of irkit's; with its name and text where these are kept."""
        if not (self.form.notes or (self.noted and node.metadata_props)):
            return None
        notes = {p.key: p.value for p in node.metadata_props[:]}
        if self.form.notes:
            notes |= {NAME_NOTE: node.name, DOC_NOTE: node.doc_string}
            if node.name in names:
                del notes[NAME_NOTE]
        return notes

    def constant(self, proto: AttributeProto, names: list[str], notes: Mapping[str, str] | None) -> Value:
        """The value of a Constant: one for all that hold the same, called after the first, but for long ones."""
        raw = proto.SerializeToString()
        found = self.constants.get(raw)
        if found is None:
            found = constant(self.constant_of({proto.name: proto})).with_origin(origin_of(names, notes))
            if len(raw) <= LONG:
                self.constants[raw] = found
        return found

    def standard(
        self,
        node: NodeProto,
        inputs: list[Value | None],
        given: Attributes,
        names: list[str],
        scope: Scope,
        frame: Frame,
    ) -> Any:
        """The value, or values, of a node of ONNX's own domain."""
        name, opset = node.op_type, frame.opsets[""]
        if name == CONSTANT:
            return constant(self.constant_of(given))
        if name in BODIES:
            return self.control(node, inputs, given, scope, frame)
        attributes = {key: self.attribute(a) for key, a in given.items()} if given else {}
        count = len(names)
        while count > 1 and not names[count - 1]:
            count -= 1
        if changed_since(name, opset):
            old = Old(name, opset, inputs, attributes, count)
            found = upgraded_node(old)
            if found is not None:
                return found
            inputs, attributes = old.inputs, old.attributes
        folded = self.known.fold(name, inputs, attributes)
        if folded is not None:
            return folded
        found = call(name, inputs, attributes, outputs=max(count, min_results(name)))
        if type(found) is Value:
            self.known.remember(name, found, inputs, attributes)
        return found

    def operator(self, domain: str, name: str, frame: Frame) -> Operator | None:
        """The operator of the caller's dialects of that name; None where they have none, or a newer one than the model
        was written with."""
        known = self.form.operators.get(f"{domain}::{name}")
        return known if known is not None and known.row.since <= frame.opsets.get(domain, 0) else None

    def foreign(self, op: str, node: NodeProto, inputs: tuple[Any, ...], given: Attributes, scope: Scope) -> Any:
        """The value of a node of another domain. Where irkit does not define the operator, for such operands, its types
        are those that the model declares."""
        attributes = {key: self.attribute(a) for key, a in given.items()}
        known = defined_operator(op)
        if known is not None and known.key:
            return known(*inputs, **attributes)
        if known is not None:
            try:
                return known(*inputs, outputs=named_results(node), **attributes)
            except TypeRuleError:
                pass
        types: list[Type] = []
        for name in node.output:
            proto = scope.info(name)
            declared = None if proto is None else self.types.declared(proto)
            if declared is None and name:
                return self.ruled(op, node, inputs, attributes, name)
            types.append(declared or Tensor(DType.FLOAT, ()))
        several = len(types) > 1
        value = Value(op, inputs, freeze(attributes), (), Tuple(tuple(types)) if several else types[0])
        return tuple(item(value, i) for i in range(len(types))) if several else value

    def ruled(self, op: str, node: NodeProto, inputs: tuple[Value, ...], attributes: Given, name: str) -> Any:
        """The value of a node whose results have no declared type. Raises LoadError where irkit has no rule either."""
        try:
            return call(op, inputs, attributes, outputs=len(node.output))
        except IrkitError as error:
            raise LoadError(
                f"node {node.name!r} ({op}): nothing says what type its result {name!r} has: {error.what}",
                hint="declare it in the graph's value_info",
            ) from error

    def bind(self, node: NodeProto, found: Any, names: list[str], origin: Origin, scope: Scope) -> None:
        """Gives the results of a node their names, origins, and what the model declares of their sizes."""
        values: tuple[Value, ...] = as_tuple(found)
        if len(values) < len(names) and any(names[len(values) :]):
            raise LoadError(
                f"node {node.name!r} ({node.op_type}) names {count_text(len(names), 'result')}, and has {len(values)}"
            )
        parent = values[0].inputs[0] if isinstance(found, tuple) and values and values[0].op == ITEM else None
        if parent is not None and parent.origin is NOWHERE:
            parts = list(types_of(parent.type))
            for index, name in enumerate(names):
                if name and index < len(parts):
                    parts[index] = self.refined(parts[index], name, scope)
            owner = Value(parent.op, parent.inputs, parent.attributes, parent.bodies, Tuple(tuple(parts)), origin)
            values = tuple(
                item(owner, i).with_origin(attrs.evolve(origin, node=n)) for i, n in enumerate(names) if i < len(values)
            )
        else:
            values = tuple([self.placed(v, origin, n, scope) for v, n in zip(values, names, strict=False)])
        for name, value in zip(names, values, strict=False):
            if name:
                define(scope, name, value)

    def placed(self, value: Value, origin: Origin, name: str, scope: Scope) -> Value:
        """A value with its origin and the better type; one that has an origin, or is shared, stays as it is."""
        if value.origin.node or value.op == "Param":
            return value
        type_ = self.refined(value.type, name, scope)
        if value.op == "Reshape" and type_ is not value.type and not holds_as_many(value, type_):
            type_ = value.type  # what is declared cannot be
        made = vertex(value.op, value.inputs, value.attributes, value.bodies, type_, origin)
        self.known.follow(value, made)
        return made

    def refined(self, type_: Type, name: str, scope: Scope) -> Type:
        """The type of what the model calls `name`, with its unknown sizes as the model declares them, where it does."""
        sizes = type_.shape if type(type_) is Tensor else dims_of(type_)
        require_sizes(sizes)
        for size in sizes:
            if type(size) is not int and dims.is_fresh(size):
                break
        else:
            return type_
        proto = scope.info(name)
        if proto is None:
            return type_
        declared = self.types.declared(proto)
        if declared is None or same_types(type_, declared) is False or type(type_) is Tuple:
            return type_
        better = iter(dims_of(declared))
        pairs = ((d, next(better)) for d in dims_of(type_))
        chosen = iter([b if dims.is_fresh(d) else d for d, b in pairs])
        return map_dims(type_, lambda d: next(chosen))

    # ------------------------------------------------------------------------------------------ attributes

    def attribute(self, proto: AttributeProto) -> Any:
        """The value of an attribute that is not a graph."""
        kind = proto.type
        if kind == _INT:
            return proto.i
        if kind == _INTS:
            return tuple(proto.ints[:])
        if kind == _FLOAT:
            return proto.f
        if kind == _STRING:
            return text(proto.s)
        if kind == _TENSOR:
            return blob_of(proto.t, self.files)
        if kind == _FLOATS:
            return tuple(proto.floats[:])
        if kind == _STRINGS:
            return tuple(text(s) for s in proto.strings)
        if kind == _TYPE_PROTO:
            return self.types.type(proto.tp, f"attribute {proto.name}")
        if kind == _TENSORS:
            return tuple(blob_of(t, self.files) for t in proto.tensors)
        if kind == _SPARSE_TENSOR:
            return dense(proto.sparse_tensor, self.files)
        raise LoadError(f"attribute {proto.name!r} is of a kind that irkit does not read ({kind})")

    def constant_of(self, given: Attributes) -> Blob:
        """The content of a Constant node, whichever attribute holds it."""
        if len(given) != 1:
            raise LoadError(f"a Constant has one attribute, and this one has {sorted(given)}")
        ((name, proto),) = given.items()
        found = self.attribute(proto)
        if isinstance(found, Blob):
            return found
        if (name, proto.type) in (("value_ints", _INTS), ("value_int", _INT)):
            return whole(as_tuple(found), 1 if type(found) is tuple else 0)
        kinds = {"value_int": "i64", "value_ints": "i64", "value_float": "f32", "value_floats": "f32"}
        if name not in kinds and name not in ("value_string", "value_strings"):
            raise LoadError(f"a Constant cannot have the attribute {name!r}")
        return blob(list(cast("tuple[Any, ...]", found)) if isinstance(found, tuple) else found, kinds.get(name, "str"))

    # ------------------------------------------------------------------------------------------ functions

    def call(
        self,
        function: FunctionProto,
        node: NodeProto,
        inputs: tuple[Any, ...],
        scope: Scope,
        frame: Frame,
        notes: Mapping[str, str] | None,
    ) -> None:
        """Reads the body of a local function in place of a node that calls it, or makes a Call of it."""
        if frame.depth > _DEEP:
            raise LoadError(f"the function {function.name!r} calls itself, or functions are nested too deep")
        if len(inputs) > len(function.input):
            raise LoadError(
                f"the function {function.name!r} takes {count_text(len(function.input), 'operand')}, not {len(inputs)}"
            )
        given = {a.name: a for a in node.attribute}
        if frame.attributes is not None:
            given = resolved(given, frame.attributes)
        given = {**{a.name: a for a in function.attribute_proto}, **given}
        opsets = {**frame.opsets, **opsets_of(function.opset_import)}
        within = Frame(opsets, given, frame.depth + 1)
        if not self.form.inline:
            found = called_function(self, function, inputs, within)
            if found is not None:
                self.bind(node, found, node.output[:], origin_of(node.output[:], notes), scope)
                return
        for result, outer in zip(self.inlined(function, inputs, within, node.output), node.output, strict=False):
            if outer:
                define(scope, outer, result)

    def inlined(
        self, function: FunctionProto, inputs: Sequence[Value | None], frame: Frame, asked: Sequence[str]
    ) -> list[Value | None]:
        """The results of a function over operands, as many as are `asked` for by a name; a body need not define the
        others."""
        inner = Scope()
        for index, name in enumerate(function.input):
            define(inner, name, inputs[index] if index < len(inputs) else None)
        inner.declarations += (function.value_info,)
        self.nodes(function.node, inner, frame)
        pairs = zip(function.output, asked, strict=False)
        return [self.lookup(name, inner) if wanted else None for name, wanted in pairs]

    # ------------------------------------------------------------------------------------------ control flow

    def control(
        self, node: NodeProto, inputs: list[Value | None], given: Attributes, scope: Scope, frame: Frame
    ) -> tuple[Value, ...] | None:
        """The value of If, Loop, Scan or SequenceMap: bodies are closed, and their captures become operands."""
        if frame.depth > _DEEP:
            raise LoadError("control flow is nested too deep")
        inner = attrs.evolve(frame, depth=frame.depth + 1)
        attributes = {key: self.attribute(a) for key, a in given.items() if key not in BODIES[node.op_type]}
        if changed_since(node.op_type, frame.opsets[""]):
            upgraded_node(Old(node.op_type, frame.opsets[""], inputs, attributes, len(node.output)))
        protos: list[GraphProto] = []
        for name in BODIES[node.op_type]:
            if name not in given or given[name].type != AttributeProto.GRAPH:
                raise LoadError(f"node {node.name!r} ({node.op_type}) has no graph {name}")
            protos.append(given[name].g)
        return read_control(self, node.op_type, protos, inputs, attributes, scope, inner)


def holds_as_many(value: Value, type_: Type) -> bool:
    """False where a Reshape cannot be of that type: it would hold more elements than its operand, or fewer."""
    x = value.inputs[0]
    if x is None or type(x.type) is not Tensor or type(type_) is not Tensor:
        return True
    return dims.same(dims.product(x.type.shape), dims.product(type_.shape)) is not False


def named_results(node: NodeProto) -> int:
    """How many results a node has, without those at the end that have no name."""
    count = len(node.output)
    while count > 1 and not node.output[count - 1]:
        count -= 1
    return count


def resolved(given: Attributes, call_attributes: Mapping[str, AttributeProto]) -> Attributes:
    """Attributes of a node in a function, with references to the call's attributes followed; those not given vanish."""
    found: Attributes = {}
    for name, proto in given.items():
        if not proto.ref_attr_name:
            found[name] = proto
        elif proto.ref_attr_name in call_attributes:
            found[name] = call_attributes[proto.ref_attr_name]
    return found


def text(raw: bytes) -> str | bytes:
    """A string attribute as text; bytes that are no UTF-8 stay bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def opsets_of(imports: Iterable[Any]) -> dict[str, int]:
    """The version of each domain. Raises LoadError for an opset that the installed onnx does not know: its operators
    may say something else than those of the same name."""
    found = {("" if entry.domain == "ai.onnx" else readable(entry.domain)): entry.version for entry in imports}
    if found.get("", 0) > onnx.defs.onnx_opset_version():
        raise LoadError(
            f"the model is of opset {found['']}, and onnx {onnx.__version__} knows those up to "
            f"{onnx.defs.onnx_opset_version()}",
            hint="write the model at an older opset, or install a newer onnx",
        )
    return found


@lru_cache(maxsize=1 << 12)
def changed_since(op: str, opset: int) -> bool:
    """True where nodes of an operator may say something else at `opset` than at that of the IR."""
    return _since(op, opset) != _since(op, OPSET) and is_upgraded(op, opset)


@lru_cache(maxsize=1 << 12)
def _since(op: str, opset: int) -> int:
    try:
        return onnx.defs.get_schema(op, opset, "").since_version
    except onnx.defs.SchemaError:
        near = get_close_matches(op, names(), 1)
        hint = f"did you mean {near[0]}?" if near else "an operator of your own needs a domain of its own"
        raise LoadError(f"ONNX has no operator {op!r} at opset {opset}", hint=hint) from None


@lru_cache(maxsize=1 << 12)
def min_results(op: str) -> int:
    """How many results an operator always has."""
    return max(1, onnx.defs.get_schema(op, OPSET, "").min_output)


def origin_of(names: list[str], notes: Mapping[str, str] | None) -> Origin:
    """Where the metadata of a node says that it comes from; else it is called after its first result."""
    first = next((name for name in names if name), "")
    if not notes:
        return Origin(first)
    fields = {_NODE_KEYS[key]: readable(text) for key, text in notes.items() if key in _NODE_KEYS}
    rules = tuple(readable(notes[NODE_KEYS[4]]).split(",")) if NODE_KEYS[4] in notes else ()
    others = tuple((readable(key), readable(text)) for key, text in notes.items() if key not in NODE_KEYS and text)
    return Origin(**{"node": first, **fields}, rules=rules, notes=others)
