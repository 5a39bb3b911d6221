"""ONNX's own node cases as irkit graphs: inputs typed by the cases' data, results beside the data they describe."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto, numpy_helper

from irkit import dims
from irkit.build import call, const, shape_vector
from irkit.core.blobs import blob
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Optional, Sequence, Tensor, Type
from irkit.nodes import bodies
from irkit.ops.schemas import BODIES, OPSET, TYPE_STRINGS, spec

SIZES: Mapping[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "Slice": (1, 2, 3, 4), "Pad": (1, 3), "Squeeze": (1,),
    "Unsqueeze": (1,), "Split": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2), "TopK": (1,), "OneHot": (1,),
    "Resize": (1, 2, 3), "CumSum": (1,), "CumProd": (1,), "CenterCropPad": (1,), "AffineGrid": (1,), "Col2Im": (1, 2),
    "DFT": (1, 2), "STFT": (1, 3), "HannWindow": (0,), "HammingWindow": (0,), "BlackmanWindow": (0,),
    "MelWeightMatrix": (0, 1), "MaxUnpool": (2,), "SplitToSequence": (1,), "Compress": (1,), "Loop": (0, 1),
    **{f"Reduce{kind}": (1,) for kind in (
        "Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare",
    )},
}  # fmt: skip
"""The operands of each operator that its type depends on: constants in the graphs built here."""


@attrs.frozen(eq=False)
class Case:
    """One node case: its model, and for each input and output the data (an array, a list of arrays, or None)."""

    name: str
    model: ModelProto
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]

    @property
    def op(self) -> str:
        """The operator of the first node."""
        return self.model.graph.node[0].op_type


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """Every case of the default domain whose operators are those of `OPSET`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    nodes = (
        Case(case.name, case.model, tuple(map(data_of, inputs)), tuple(map(data_of, outputs)))
        for case in found
        for inputs, outputs in (case.data_sets or ())[:1]
        if case.model is not None and case.name not in OTHER_FORM and is_known(case.model)
    )
    return (*nodes, *sequence_models())


def sequence_models() -> Iterator[Case]:
    """ONNX's small models of sequence operators, which have no node cases."""
    root = Path(onnx.__file__).parent / "backend" / "test" / "data" / "simple"
    for folder in sorted(root.glob("test_sequence_model*")):
        model = onnx.load(folder / "model.onnx")
        data = folder / "test_data_set_0"
        inputs = tuple(stored(data / f"input_{i}.pb", info.type) for i, info in enumerate(fed(model.graph)))
        outputs = tuple(stored(data / f"output_{i}.pb", info.type) for i, info in enumerate(model.graph.output))
        yield Case(folder.name, model, inputs, outputs)


def fed(graph: GraphProto) -> list[onnx.ValueInfoProto]:
    """The inputs of a graph that no initializer gives."""
    given = {initializer.name for initializer in graph.initializer}
    return [info for info in graph.input if info.name not in given]


def stored(path: Path, proto: TypeProto) -> Any:
    """The data in a file of a case."""
    if proto.WhichOneof("value") == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(path.read_bytes()))
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


OTHER_FORM: Mapping[str, str] = {
    "test_scan_sum": "Scan as it was before opset 9, with a batch axis",
    "test_loop13_seq": "the model does not say the rank of the elements of its empty sequence",
    "test_loop16_seq_none": "the model does not say the rank of the elements of its empty sequence",
    **dict.fromkeys((f"test_affine_grid_{n}d{kind}_expanded" for n in (2, 3) for kind in ("", "_align_corners")),
                    "the function's body decides at run time whether it is of 2 or of 3 dimensions"),
}  # fmt: skip
"""Cases that irkit does not take, and why."""


GROWN = frozenset((
    "BitShift", "Cast", "Celu", "Compress", "DepthToSpace", "DequantizeLinear", "Einsum", "Mod", "OneHot",
    "OptionalGetElement", "OptionalHasElement", "QuantizeLinear", "Range", "ReduceLogSum", "ReduceLogSumExp",
    "ReverseSequence", "SpaceToDepth", "Unique",
))  # fmt: skip
"""Operators that took more element types after `OPSET`, and are what they were otherwise."""


def is_known(model: ModelProto) -> bool:
    """True where every node is an operator of the default domain, as it is at `OPSET`."""
    opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)
    if not all(is_known_node(node, opset) for node in nodes_of(model.graph)):
        return False
    return opset <= OPSET or has_old_types(model.graph)


def has_old_types(graph: GraphProto) -> bool:
    """True where the only node of a graph takes and gives element types that `OPSET` allows."""
    if len(graph.node) != 1:
        return False
    (node,) = graph.node
    row = spec(node.op_type)
    types = {info.name: info.type.tensor_type.elem_type for info in (*graph.input, *graph.output)}
    operands = [(name, row.formal(i)) for i, name in enumerate(node.input)]
    results = [(name, row.outputs[min(i, len(row.outputs) - 1)]) for i, name in enumerate(node.output)]
    return all(
        TYPE_STRINGS[DType(types[name])] in row.allowed(formal)
        for name, formal in (*operands, *results)
        if types.get(name)
    )


def nodes_of(graph: GraphProto) -> Iterator[NodeProto]:
    """Every node of a graph and of the bodies in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from nodes_of(attribute.g)


def is_known_node(node: NodeProto, opset: int) -> bool:
    """True for an operator of the default domain whose attributes and operands are those of `OPSET`."""
    if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type, ""):
        return False
    try:
        schema = onnx.defs.get_schema(node.op_type, OPSET, "")
    except onnx.defs.SchemaError:
        return False
    if onnx.defs.get_schema(node.op_type, opset, "").since_version > OPSET and node.op_type not in GROWN:
        return False
    old = not {a.name for a in node.attribute} <= set(schema.attributes) or len(node.input) > schema.max_input
    return not schema.deprecated and not old


def data_of(data: Any) -> Any:
    """Data of a case as an array, a list of arrays, or None."""
    if isinstance(data, onnx.TensorProto):
        return numpy_helper.to_array(data)
    if isinstance(data, list | tuple):
        return [data_of(each) for each in data]
    return None if data is None else np.asarray(data)


# ---------------------------------------------------------------------------------------------- building

MakeInput = Callable[[str, Type], Value]
MakeConstant = Callable[[str, np.ndarray], Value]


def constant_of(name: str, data: np.ndarray) -> Value:
    """The operand that a type depends on, as it is."""
    return const(data)


def built(
    case: Case, make: MakeInput = lambda _, type_: param(type_), fixed: MakeConstant = constant_of
) -> tuple[Value | None, ...]:
    """The results of a case's graph over inputs made by `make` from name and type; operands in `SIZES` by `fixed`."""
    graph = case.model.graph
    needed = sizes_in(graph)
    env: dict[str, Value | None] = {"": None}
    for info, data in zip(fed(graph), case.inputs, strict=True):
        if info.name in needed and isinstance(data, np.ndarray):
            env[info.name] = fixed(info.name, data)
        else:
            env[info.name] = make(info.name, type_of(info.type, data))
    run(graph, env)
    return tuple(env[o.name] for o in graph.output)


def sizes_in(graph: GraphProto) -> set[str]:
    """The names that stand where an operand of `SIZES` stands."""
    return {
        node.input[at]
        for node in graph.node
        for at in SIZES.get(node.op_type, ())
        if at < len(node.input) and node.input[at]
    }


def run(graph: GraphProto, env: dict[str, Value | None]) -> None:
    """The values of all nodes of a graph, put into `env` by name."""
    for initializer in graph.initializer:
        env[initializer.name] = const(numpy_helper.to_array(initializer))
    for node in graph.node:
        attributes = {a.name: attribute_of(a) for a in node.attribute if a.type != AttributeProto.GRAPH}
        operands = [env[name] for name in node.input]
        if node.op_type == "Constant":
            results: Any = const(constant_data(attributes))
        elif node.op_type in BODIES:
            results = control(node, operands, attributes, env)
        else:
            several = len(node.output) if spec(node.op_type).max_outputs > 1 else None
            results = call(node.op_type, operands, attributes, outputs=several)
        for name, value in zip(node.output, results if isinstance(results, tuple) else (results,), strict=False):
            if name:
                env[name] = value


def control(node: NodeProto, operands: list[Any], attributes: dict[str, Any], env: Mapping[str, Any]) -> Any:
    """The results of a control-flow node, its bodies closed."""
    graphs = {a.name: a.g for a in node.attribute if a.type == AttributeProto.GRAPH}
    opened: dict[str, tuple[list[Value], list[Value]]] = {}
    for name in BODIES[node.op_type]:
        inner = dict(env)
        types = expected_types(node.op_type, operands, attributes)
        infos = graphs[name].input
        params = [param(declared(info.type) if is_typed(info.type) else types[i]) for i, info in enumerate(infos)]
        inner.update(zip((info.name for info in graphs[name].input), params, strict=True))
        run(graphs[name], inner)
        opened[name] = params, [v for o in graphs[name].output if (v := inner[o.name]) is not None]
    outer = {v for v in env.values() if v is not None}
    captures: dict[Value, None] = {}
    for params, results in opened.values():
        inside = set(params) | set(bodies.walk.post_order(results, stop=outer.__contains__))
        captures.update(dict.fromkeys(bodies.entries(results, inside)))
    closed = {name: bodies.sealed_graph(p, r, tuple(captures), name) for name, (p, r) in opened.items()}
    return call(node.op_type, [*operands, *captures], {**attributes, **closed, "captures": len(captures)})


def is_typed(proto: TypeProto) -> bool:
    """True where a model says the element type."""
    kind = proto.WhichOneof("value")
    return kind is not None and (kind != "tensor_type" or proto.tensor_type.elem_type != 0)


def expected_types(op: str, operands: list[Any], attributes: Mapping[str, Any]) -> list[Type]:
    """The types of a body's parameters, for models that do not declare them."""
    if op == "Loop":
        return [bodies.INDEX, bodies.FLAG, *(v.type for v in operands[2:])]
    if op == "Scan":
        states = len(operands) - attributes["num_scan_inputs"]
        elements = [Tensor(v.dtype, v.shape[1:]) for v in operands[states:]]
        return [*(v.type for v in operands[:states]), *elements]
    return []


def constant_data(attributes: Mapping[str, Any]) -> Any:
    """What a Constant node holds."""
    ((name, value),) = attributes.items()
    if name == "value":
        return value
    kinds = {"float": np.float32, "floats": np.float32, "int": np.int64, "ints": np.int64}
    kind = kinds.get(name.removeprefix("value_"))
    return np.array(value, dtype=object if kind is None else kind)


def attribute_of(attribute: AttributeProto) -> Any:
    """An ONNX attribute as `call` takes it."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        return blob(numpy_helper.to_array(value))
    if isinstance(value, TypeProto):
        return declared(value)
    return value


def declared(proto: TypeProto) -> Type:
    """The type that a model declares; unknown sizes are fresh."""
    kind = proto.WhichOneof("value")
    if kind == "sequence_type":
        return Sequence(declared(proto.sequence_type.elem_type))
    if kind == "optional_type":
        return Optional(declared(proto.optional_type.elem_type))
    shape = tuple(d.dim_value if d.HasField("dim_value") else dims.fresh() for d in proto.tensor_type.shape.dim)
    return Tensor(DType(proto.tensor_type.elem_type), shape)


def type_of(proto: TypeProto, data: Any) -> Type:
    """The type of an input: kind and element type as declared, sizes as in the data."""
    kind = proto.WhichOneof("value")
    if kind == "optional_type":
        inner = proto.optional_type.elem_type
        return Optional(declared(inner) if data is None else type_of(inner, data))
    if kind == "sequence_type":
        shapes = [each.shape for each in data]
        sizes = [s[0] if len(set(s)) == 1 else dims.fresh() for s in zip(*shapes, strict=True)]
        return Sequence(Tensor(DType(proto.sequence_type.elem_type.tensor_type.elem_type), tuple(sizes)))
    return Tensor(DType(proto.tensor_type.elem_type), data.shape)


# ---------------------------------------------------------------------------------------------- comparing


def complaints(type_: Type | None, data: Any, sizes: Mapping[str, int] | None = None) -> list[str]:
    """What is wrong with a type that is to describe data, with the symbols in it as in `sizes`."""
    if type_ is None:
        return []
    if isinstance(type_, Optional):
        return [] if data is None else complaints(type_.element, data, sizes)
    if isinstance(type_, Sequence):
        if not isinstance(data, list):
            return [f"{type_!r} for {type(data).__name__}"]
        return [wrong for each in data for wrong in complaints(type_.element, each, sizes)]
    if not isinstance(type_, Tensor) or not isinstance(data, np.ndarray):
        return [f"{type_!r} for {type(data).__name__}"]
    expected = DType.of(data.dtype)
    if type_.dtype is not expected:
        return [f"{type_!r} for elements of {expected.short}"]
    if len(type_.shape) != len(data.shape):
        return [f"{type_!r} for the shape {data.shape}"]
    pairs = zip(type_.shape, data.shape, strict=True)
    return [f"{type_!r} for the shape {data.shape}" for d, n in pairs if not unknown(d) and number(d, sizes or {}) != n]


def unknown(dim: Any) -> bool:
    """True for a size in which a fresh symbol stands."""
    return any(map(dims.is_fresh, dims.symbols_of(dim)))


def number(dim: Any, sizes: Mapping[str, int]) -> int:
    """The size under an assignment of symbols."""
    return dims.evaluate(dim, sizes)


def unknowns(types: Iterable[Any]) -> int:
    """How many sizes in the types are unknown."""
    return sum(unknown(d) for t in types if isinstance(t, Tensor) for d in t.shape)


__all__ = ["Case", "Graph", "built", "cases", "complaints", "shape_vector", "type_of", "unknowns"]
