"""ONNX models as graphs. A file is data from strangers: whatever is wrong with it is one LoadError, met early."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import onnx
import sympy
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto
from pyrsistent import PMap, pmap

from irkit import dims
from irkit.core.blobs import Blob
from irkit.core.ir import ROLES, Fact, Graph, Port, Signature, Value, constant, param
from irkit.core.origins import Origin
from irkit.core.types import Tensor, Type
from irkit.dims import Dim, Range
from irkit.errors import DimensionError, LoadError
from irkit.onnx.reading.nodes import PLAIN, LoadForm, Reader, opsets_of
from irkit.onnx.reading.scope import Frame, Scope, define, readable
from irkit.onnx.reading.sizes import Known
from irkit.onnx.reading.tensors import Files
from irkit.onnx.reading.types import Types
from irkit.onnx.writing.identities import IDENTITY_KEY
from irkit.onnx.writing.models import BAKED_KEY, DOC_KEY, DOMAINS_KEY, GUARDS_KEY, RANGES_KEY, SIGNATURE_KEY, as_json
from irkit.ops.schemas import BODIES
from irkit.verification.laws import law_7_signature

_JSON_LIMIT = 1 << 24
_DEEP = 64


def parsed_model(data: bytes, what: str) -> ModelProto:
    """The message in some bytes. Raises LoadError where there is none."""
    try:
        model = ModelProto.FromString(data)
    except DecodeError as error:
        raise no_model(what, "it cannot be decoded") from error
    except (RecursionError, MemoryError) as error:
        raise no_model(what, error) from error
    if not model.HasField("graph"):
        raise no_model(what, "it has no graph")
    return model


def no_model(what: str, why: object) -> LoadError:
    """The error for bytes that are no model."""
    return LoadError(
        f"there is no ONNX model in {what}: {why}", hint="see whether it is whole, and an ONNX model at all"
    )


def read_model(
    model: ModelProto,
    folder: Path | None,
    blobs: Mapping[str, Blob] | None = None,
    *,
    store: Path | None = None,
    noted: bool = True,
    form: LoadForm = PLAIN,
) -> Graph:
    """The graph of a model whose weights beside it lie in `folder`; `blobs` are further initializers, by name. `store`
    is where the model itself lies, where the folder holds a link to it. Where it is known that no node has metadata of
    irkit's, `noted` is False, and they are not looked for."""
    proto = model.graph
    opsets = opsets_of(model.opset_import)
    if not opsets and model.ir_version < 3:
        opsets = {"": 1}
    types = Types()
    scope = Scope()
    blobs = blobs or {}
    weights = {t.name for t in proto.initializer}.union((t.values.name for t in proto.sparse_initializer), blobs)
    params = read_params(proto, types, scope, weights)
    shapes = [p.type.shape for p in params if isinstance(p.type, Tensor)]
    free = frozenset(d for shape in shapes for d in shape if isinstance(d, sympy.Symbol))
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    for name, blob in blobs.items():
        define(scope, name, constant(blob))
    metadata = {readable(p.key): readable(p.value) for p in model.metadata_props}
    files = Files(folder, store, metadata.pop(IDENTITY_KEY, None))
    budget = functools.partial(budget_of, model)
    reader = Reader(files, types, functions, Known(free), budget, noted=noted, form=form)
    reader.fill(proto, scope, Frame(opsets))
    results: list[Value] = []
    for output in proto.output:
        found = reader.lookup(output.name, scope)
        if found is None:
            raise LoadError(f"the output {output.name!r} is an optional value that was left out")
        results.append(found)
    metadata.pop(DOMAINS_KEY, None)
    foreign = {name: number for name, number in sorted(opsets.items()) if number > 1 and name not in known_domains()}
    if foreign:
        metadata[DOMAINS_KEY] = as_json(foreign)
    if model.doc_string:
        metadata[DOC_KEY] = readable(model.doc_string)
    names = [p.origin.node for p in params], [o.name for o in proto.output]
    signature = read_signature(*names, metadata)
    graph = Graph(tuple(params), tuple(results), read_ranges(metadata), signature, readable(proto.name) or "graph")
    complaint = law_7_signature(graph, True)
    if complaint:
        raise LoadError(complaint)
    return graph


@functools.cache
def known_domains() -> frozenset[str]:
    """The domains whose operators ONNX defines, and so their versions."""
    return frozenset(schema.domain for schema in onnx.defs.get_all_schemas())


def budget_of(model: ModelProto) -> int:
    """How many nodes may be read: functions that call one another, or loops in loops, must not make a small file large.

    Raises LoadError where the functions would be written out to more than that, or call one another in a circle.
    """
    count = nodes_in(model.graph.node) + sum(nodes_in(f.node) for f in model.functions)
    budget = 10_000 + 100 * count
    if not model.functions:
        return budget
    sizes: dict[tuple[str, str, str], int] = {}
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    rounds = 0
    while (found := {key: expanded(f.node, sizes) for key, f in functions.items()}) != sizes and rounds <= _DEEP:
        sizes = {key: min(size, budget + 1) for key, size in found.items()}
        rounds += 1  # after n rounds the sizes of functions that call n levels of others are known
    if found != sizes or expanded(model.graph.node, sizes) > budget:
        raise LoadError(
            f"the functions of the model, written out, have more than {budget} nodes or no end",
            hint="see whether a function calls itself: irkit writes functions out",
        )
    return budget


def nodes_in(nodes: Sequence[NodeProto]) -> int:
    """How many nodes there are, those in bodies included."""
    inner = [node for node in nodes if node.op_type in BODIES]
    return len(nodes) + sum(nodes_in(a.g.node) for node in inner for a in node.attribute)


def expanded(nodes: Iterable[NodeProto], sizes: Mapping[tuple[str, str, str], int]) -> int:
    """How many nodes there are once calls of functions of known sizes are written out."""
    return sum(
        1
        + sizes.get((node.domain, node.op_type, node.overload), 0)
        + sum(expanded(a.g.node, sizes) for a in node.attribute if node.op_type in BODIES)
        for node in nodes
    )


def read_params(proto: GraphProto, types: Types, scope: Scope, weights: set[str]) -> list[Value]:
    """The parameters, defined in `scope`; inputs that have an initializer are left out."""
    taken = {d.dim_param for info in proto.input for d in info.type.tensor_type.shape.dim}
    params: list[Value] = []
    for info in proto.input:
        if info.name in weights:
            continue

        def missing(axis: int, name: str = info.name) -> Dim:
            return dims.symbol(unused(f"{name}_dim{axis}", taken))

        type_: Type = types.type(info.type, f"the input {info.name!r}", missing)
        try:
            made = param(type_)
        except DimensionError as error:
            raise LoadError(f"the input {info.name!r}: {error.what}", hint=error.hint) from error
        params.append(made.with_origin(Origin(node=info.name)))
        define(scope, info.name, params[-1])
    return params


def unused(name: str, taken: set[str]) -> str:
    """`name`, or with underscores behind it where other dimensions are called so; taken from now on."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


# ---------------------------------------------------------------------------------------------- metadata


def read_ranges(metadata: Mapping[str, str]) -> PMap[str, Range]:
    """The ranges of symbols that irkit wrote; empty where it wrote none."""
    found: dict[str, Range] = {}
    for name, entry in from_json(metadata, RANGES_KEY, dict).items():
        low, high = list_of(entry) if len(list_of(entry)) == 2 else ("", "")
        if type(low) is not int or not (high is None or (type(high) is int and low <= high)):
            raise LoadError(f"the metadata {RANGES_KEY} gives {entry!r} for the range of {name!r}")
        found[name] = Range(low, high)
    return pmap(found)


def list_of(entry: Any) -> list[Any]:
    """A list out of JSON as it is; an empty one for anything else."""
    return cast("list[Any]", entry) if isinstance(entry, list) else []


def read_signature(params: list[str], results: list[str], metadata: Mapping[str, str]) -> Signature:
    """Ports by the names in the file; roles and facts as irkit wrote them, other metadata as it stands."""
    ports = from_json(metadata, SIGNATURE_KEY, dict)
    known = (SIGNATURE_KEY, GUARDS_KEY, RANGES_KEY, BAKED_KEY)
    numbered: list[tuple[int, Fact]] = []
    for key in (GUARDS_KEY, BAKED_KEY):
        for entry in from_json(metadata, key, list):
            fact: Mapping[str, Any] = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
            if not all(isinstance(fact.get(k), str) for k in ("kind", "text", "source")):
                raise LoadError(f"the metadata {key} holds {str(cast(object, entry))[:80]}, which is not a fact")
            at = fact.get("at")
            numbered.append((at if type(at) is int else 0, Fact(fact["kind"], fact["text"], fact["source"])))
    numbered.sort(key=lambda pair: pair[0])
    return Signature(
        read_ports(params, ports.get("params"), "input"),
        read_ports(results, ports.get("results"), "output"),
        tuple(fact for _, fact in numbered),
        tuple((k, v) for k, v in metadata.items() if k not in known),
    )


def read_ports(names: list[str], written: Any, role: str) -> tuple[Port, ...]:
    """One port for each name, with role and binding as they were written, where as many were."""
    given = list_of(written)
    rows = [list_of(row) for row in given] if len(given) == len(names) else []
    if not all(len(row) == 3 and all(isinstance(x, str) for x in row) for row in rows):
        raise LoadError(f"the metadata {SIGNATURE_KEY} does not say names, roles and bindings")
    unknown = [row[1] for row in rows if row[1] not in ROLES]
    if unknown:
        raise LoadError(f"the metadata {SIGNATURE_KEY} names the role {unknown[0]!r}, and there is none such")
    return (
        tuple(Port(n, *row[1:]) for n, row in zip(names, rows, strict=True))
        if rows
        else tuple(Port(n, role) for n in names)
    )


def from_json(metadata: Mapping[str, str], key: str, kind: type) -> Any:
    """The JSON under a key, empty where the key is missing. Raises LoadError for what is no JSON of that kind."""
    if key not in metadata:
        return kind()
    try:
        found = json.loads(metadata[key]) if len(metadata[key]) <= _JSON_LIMIT else None
    except (ValueError, RecursionError) as error:
        raise LoadError(f"the metadata {key} is no JSON: {error}") from error
    if not isinstance(found, kind):
        raise LoadError(f"the metadata {key} holds no {kind.__name__}")
    return found
