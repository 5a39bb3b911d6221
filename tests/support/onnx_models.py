"""Small ONNX models for the tests of the loader, made with ONNX's own helper."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

import irkit
from irkit import op
from irkit.core.ir import Graph, Port, Signature, param
from irkit.core.types import tensor

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
make = helper.make_node


def model_of(
    nodes: list[Any], inputs: list[Any], outputs: list[str], opset: int = 26, initializers: Any = (), **more: Any
) -> ModelProto:
    """A model of some nodes; inputs as (name, shape) or (name, shape, element type)."""
    infos = [helper.make_tensor_value_info(entry[0], (*entry, FLOAT)[2], entry[1]) for entry in inputs]
    outs = [onnx.ValueInfoProto(name=name) for name in outputs]
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(initializers).items()]
    graph = helper.make_graph(nodes, "g", infos, outs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more)


def kinds(graph: Graph) -> list[str]:
    """The operators of a graph, in order."""
    return [v.op for v in graph.order if v.op not in ("Param", "Constant", "Item")]


def branch(nodes: list[Any], outputs: list[str]) -> Any:
    """A body without parameters."""
    return helper.make_graph(nodes, "branch", [], [onnx.ValueInfoProto(name=o) for o in outputs])


def function(name: str, inputs: list[str], outputs: list[str], nodes: list[Any], **more: Any) -> Any:
    """A function of the domain `local`."""
    imports = [helper.make_opsetid("", 26), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, inputs, outputs, nodes, imports, **more)


def small() -> Graph:
    """relu(x + w), with weights of more than 1 KiB."""
    x = param(tensor("f32", "n", 600))
    w = irkit.const(np.linspace(0, 1, 600, dtype=np.float32), name="w")
    return Graph((x,), (op.Relu(op.Add(x, w)),), signature=Signature((Port("x"),), (Port("y", "output"),)))
