"""The one way out of irkit's own kernels: onnx's reference implementation of a single node.

Operators that no PyTorch program needs, those on strings, say, are not written again here.
Their node becomes an ONNX model of one node, which `onnx.reference.ReferenceEvaluator` runs.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from irkit.core.blobs import Blob
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.errors import EvaluateError
from irkit.evaluation.kernels.common import Array, Content, results
from irkit.ops.schemas import OPSET, split_domain


def run_reference(node: Value, *operands: Array | None) -> tuple[np.ndarray, ...]:
    """The node's results by onnx's reference implementation: an array, or a tuple where there are several."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    if node.op == "MelWeightMatrix" and any(np.size(x) and not np.all(x >= 0) for x in operands if x is not None):
        # It would write from the end.
        raise EvaluateError("MelWeightMatrix: a count or frequency is below 0", hint="give none that is below 0")
    domain, name = split_domain(node.op)
    inputs = ["" if x is None else f"x{i}" for i, x in enumerate(operands)]
    outputs = [f"y{i}" for i in range(results(node))]
    attributes = {key: to_onnx(value) for key, value in node.attributes}
    made = onnx.helper.make_node(name, inputs, outputs, domain=domain, **attributes)
    value_info = [onnx.helper.make_empty_tensor_value_info(n) for n in inputs if n]
    results_info = [onnx.helper.make_empty_tensor_value_info(n) for n in outputs]
    graph = onnx.helper.make_graph([made], "node", value_info, results_info)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(domain, OPSET if not domain else 1)])
    feeds = {f"x{i}": x for i, x in enumerate(operands) if x is not None}
    try:
        evaluator: Any = ReferenceEvaluator(model)
        return tuple(_strings(y) for y in evaluator.run(None, feeds))
    except RuntimeError as error:  # an attribute that no operator has
        raise EvaluateError(f"{node.op} cannot be computed: {error}", hint="look at its attributes") from error


def to_onnx(value: Any) -> Any:
    """An attribute in the form that `onnx.helper.make_node` takes."""
    if isinstance(value, Blob):
        import onnx

        return onnx.numpy_helper.from_array(value.array)
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def _strings(value: Content) -> Content:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return value.astype(DType.STRING.numpy) if kind in ("U", "S") else value
