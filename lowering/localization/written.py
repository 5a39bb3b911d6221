"""The values of an ONNX model with their origins, and what they hold for some inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnx
from onnx import ModelProto, ValueInfoProto

from irkit.core.types import DType
from irkit.onnx.sessions import session
from irkit.onnx.writing.models import NODE_KEYS
from irkit.support.arguments import type_text
from lowering.errors import LoweringError
from lowering.piecewise.calls import inputs_of
from lowering.program.program import Program
from lowering.records.types import array_of, as_pairs


@attrs.frozen
class Named:
    """A value of a model: its name, the operator that gives it, where that comes from, and the names of what it is
    computed from."""

    name: str
    op: str
    node: str
    target: str
    module: str
    source: str
    inputs: tuple[str, ...]


def values_in(model: ModelProto) -> list[Named]:
    """The values that nodes of a model's own graph give, in order."""
    found = []
    for node in model.graph.node:
        notes = {each.key: each.value for each in node.metadata_props}
        place, target, module, source = (notes.get(key, "") for key in NODE_KEYS[:4])
        op = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        inside = [name for attribute in node.attribute if attribute.HasField("g") for name in outer_names(attribute.g)]
        inputs = tuple(name for name in (*node.input, *inside) if name)
        found += [Named(name, op, place, target, module, source, inputs) for name in node.output if name]
    return found


def outer_names(body: onnx.GraphProto) -> list[str]:
    """What a body takes from the graph around it."""
    own = {each.name for each in (*body.input, *body.initializer)} | {n for node in body.node for n in node.output}
    return [name for node in body.node for name in node.input if name and name not in own]


def contents_of(model: ModelProto, names: Sequence[str], feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What values of a model hold, by name, computed by ONNX Runtime; those of its outputs among them."""
    whole = ModelProto()
    whole.CopyFrom(model)
    own = [output.name for output in whole.graph.output]
    whole.graph.output.extend(ValueInfoProto(name=name) for name in dict.fromkeys(names) if name not in own)
    run = session(whole)
    found = zip(run.outputs, run.run(feeds), strict=True)
    return {name: content for name, content in found if isinstance(content, np.ndarray)}


def proto_of(program: Any) -> ModelProto:
    """The ONNX model of a program, a message or the path of a file. Raises LoweringError for anything else."""
    if isinstance(program, Program):
        return program.proto
    if isinstance(program, ModelProto):
        return program
    if isinstance(program, str | Path):
        return onnx.load(str(program))
    raise LoweringError(
        f"{type_text(program)} is no ONNX model", hint="give what irkit.to_onnx returned, or the path of a file"
    )


def feeds_of(program: Any, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, np.ndarray]:
    """What an ONNX model is given for a call of the torch model: leaves of the arguments by name, or in order where the
    file calls them otherwise; what it has for state, by the names of the model's buffers. Raises LoweringError where
    the file takes something else."""
    if isinstance(program, Program):
        return program.narrowed(program.feeds(args, dict(kwargs)))
    proto = proto_of(program)
    weights = {each.name for each in proto.graph.initializer}
    wanted = [each for each in proto.graph.input if each.name not in weights]
    leaves = {leaf.name: leaf.value for leaf in inputs_of(model, args, kwargs)}
    tensors = {name: value for name, value in leaves.items() if hasattr(value, "dtype")}
    held = {**dict(getattr(model, "named_buffers", dict)()), **leaves}
    if not all(each.name in held for each in wanted) and len(wanted) == len(tensors):
        held = dict(zip([each.name for each in wanted], tensors.values(), strict=True))
    missing = [each.name for each in wanted if each.name not in held]
    if missing:
        raise LoweringError(
            f"the file takes {missing[0]!r}, which no argument of the model is called",
            hint=f"the arguments are {', '.join(leaves)}",
        )
    return {each.name: in_type(held[each.name], each.type.tensor_type.elem_type) for each in wanted}


def in_type(value: Any, elem_type: int) -> np.ndarray:
    """An argument as an array of the element type that a file takes."""
    wanted = DType[onnx.TensorProto.DataType.Name(elem_type)].numpy
    if not hasattr(value, "detach"):
        return np.asarray(value, wanted)
    tensor = value.detach()
    return array_of(as_pairs(tensor) if tensor.is_complex() else tensor).astype(wanted)
