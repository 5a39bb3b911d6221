"""Graphs to and from `onnx_ir` models, so that irkit can serve as a checker or a rewriter among other tools.

`onnx_ir` is optional: it is imported when one of these functions is called. Weights cross as they lie in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
from onnx import TensorProto

from irkit.core.blobs import COPIED, SMALL, Blob, owned_blob
from irkit.core.ir import Graph, require_graph
from irkit.core.types import DType
from irkit.errors import LoadError
from irkit.evaluation.kernels.common import Array
from irkit.onnx.reading.models import read_model
from irkit.onnx.reading.nodes import PLAIN, LoadForm
from irkit.onnx.reading.tensors import stored_blob
from irkit.onnx.writing.identities import IDENTITY_KEY, require_written_together
from irkit.onnx.writing.models import skeleton
from irkit.onnx.writing.tensors import header, tensor_proto
from irkit.support.arguments import type_text
from irkit.support.stored_files import Place, opened_file
from irkit.support.watch import SampleWatch


def to_onnx_ir(graph: Graph, *, opset: int | None = None, ir_version: int | None = None) -> Any:
    """The graph as an `onnx_ir.Model` whose large initializers are views of the graph's own weights.

    Raises SerializeError as `irkit.to_proto` does, and ImportError where onnx_ir is not installed.
    """
    import onnx_ir

    require_graph(graph)
    large: dict[str, Blob] = {}

    def sink(blob: Blob, name: str) -> TensorProto:
        if blob.nbytes <= SMALL or blob.dtype is DType.STRING:
            return tensor_proto(blob, name)
        large[name] = blob
        made = header(blob, name)
        made.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "memory"), ("offset", "0"), ("length", str(blob.nbytes))):
            made.external_data.add(key=key, value=value)
        return made

    model = onnx_ir.from_proto(skeleton(graph, opset=opset, ir_version=ir_version, sink=sink))
    for name, blob in large.items():
        model.graph.initializers[name].const_value = onnx_ir.Tensor(
            blob.read(), onnx_ir.DataType(int(blob.dtype)), shape=onnx_ir.Shape(blob.shape), name=name
        )
    return model


def from_onnx_ir(model: Any, form: LoadForm = PLAIN) -> Graph:
    """The graph of an `onnx_ir.Model`, whose large initializers are read when asked for; the model is left as it is.

    Raises LoadError as `irkit.load` does, and ImportError where onnx_ir is not installed.
    """
    import onnx_ir

    if not isinstance(model, onnx_ir.Model):
        raise LoadError(
            f"{type_text(model)} is no onnx_ir.Model",
            hint="give an onnx_ir.Model, a ModelProto, bytes or a path to irkit.load",
        )
    copy = model.clone()
    blobs: dict[str, Blob] = {}
    for name, value in copy.graph.initializers.items():
        tensor = value.const_value
        if tensor is None:
            raise LoadError(
                f"the initializer {name!r} has no content", hint="give it a const_value before the model is converted"
            )
        if tensor.nbytes > SMALL and tensor.dtype != onnx_ir.DataType.STRING:
            blobs[name] = foreign_blob(tensor, name, model.metadata_props.get(IDENTITY_KEY))
    for name in blobs:
        del copy.graph.initializers[name]
    return read_model(onnx_ir.to_proto(copy), None, blobs, form=form)


def foreign_blob(tensor: Any, name: str, identity: str | None = None) -> Blob:
    """The blob of a tensor of onnx_ir: small ones copied, arrays watched, and what lies in a file read from there."""
    import onnx_ir

    dtype, shape, given = DType(int(tensor.dtype)), tuple(tensor.shape.numpy()), cast(object, tensor)
    if isinstance(given, onnx_ir.ExternalTensor) and tensor.location:
        file = opened_file(Path(tensor.path).resolve(), f"the initializer {name!r}")
        require_written_together(file, identity)
        if (tensor.offset or 0) + tensor.nbytes > file.size:
            raise LoadError(f"the initializer {name!r} ends beyond the file {file.path.name!r}")
        return stored_blob(Place(file, tensor.offset or 0), dtype, shape, name, tensor)
    if not isinstance(given, onnx_ir.Tensor):
        return Blob(dtype, shape, tensor.numpy, name, tensor)
    array: Array = tensor.numpy()
    if array.nbytes <= COPIED:
        return owned_blob(np.array(array), dtype, name, tensor)
    return Blob(
        dtype, shape, lambda: array, name, tensor, watch=SampleWatch.of(array, f"the array of the weight {name}")
    )
