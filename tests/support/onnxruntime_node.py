"""One operator on ONNX Runtime: a one-node model made with onnx.helper, run without any optimization."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as Unimplemented

from irkit.core.types import DType, Tensor, Type
from irkit.core.types import Sequence as SequenceType
from irkit.ops.schemas import OPSET, TYPE_STRINGS, spec

REFUSED = (Unimplemented, InvalidGraph)
"""What ONNX Runtime raises for an element type that it has no kernel for."""

IR_VERSION = 13

OLDER: Mapping[str, int] = {"RoiAlign": 21, "GlobalLpPool": 21}
"""Opsets for operators of which ONNX Runtime has no kernel in their newest version; the older one means the same."""


@cache
def kernel_types(op: str) -> Mapping[str, frozenset[str]]:
    """For each type variable of an operator the type strings that a CPU kernel takes; empty for function operators."""
    from onnxruntime.capi import _pybind_state

    found: dict[str, set[str]] = {}
    for kernel in _pybind_state.get_all_opkernel_def():
        first, last = kernel.version_range
        # A kernel without a last version serves just the version of the operator that it names.
        serves = first <= OPSET <= last if last < 2**31 - 1 else first == spec(op).since or op in OLDER
        if (kernel.op_name, kernel.domain, kernel.provider) == (op, "", "CPUExecutionProvider") and serves:
            for variable, types in kernel.type_constraints.items():
                found.setdefault(variable, set()).update(types)
    return {variable: frozenset(types) for variable, types in found.items()}


def schema_dtypes(op: str, operand: int = 0) -> tuple[DType, ...]:
    """The element types of one operand for which ONNX has the operator."""
    allowed = spec(op).allowed(spec(op).formal(operand))
    return tuple(sorted(kind for kind, string in TYPE_STRINGS.items() if string in allowed))


def dtypes(op: str, operand: int = 0) -> tuple[DType, ...]:
    """The element types of one operand for which ONNX and ONNX Runtime's table of kernels both have the operator."""
    known = kernel_types(op).get(spec(op).formal(operand).type)
    kinds = schema_dtypes(op, operand)
    return tuple(k for k in kinds if unpacked(k) and (known is None or TYPE_STRINGS[k] in known))


def value_info(name: str, type_: Type) -> Any:
    """The declaration of an operand or result: element type and rank."""
    if isinstance(type_, SequenceType):
        element = type_.element
        inner = helper.make_tensor_type_proto(int(element.dtype), None)  # type: ignore[union-attr]
        return helper.make_value_info(name, helper.make_sequence_type_proto(inner))
    if not isinstance(type_, Tensor):
        raise TypeError(f"{type_!r}")
    return helper.make_tensor_value_info(name, int(type_.dtype), [None] * len(type_.shape))


def model(op: str, inputs: Sequence[Any], attributes: Mapping[str, Any], types: Sequence[Type]) -> onnx.ModelProto:
    """The model of one node over arrays (None where an operand is left out), with results of those types."""
    given = [i for i, x in enumerate(inputs) if x is not None]
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs[: max(given, default=-1) + 1])]
    results = [f"y{i}" for i in range(len(types))]
    node = helper.make_node(op, names, results, **attributes)
    infos = [
        helper.make_tensor_value_info(f"x{i}", int(DType.of(x.dtype)), list(x.shape))
        for i, x in enumerate(inputs)
        if x is not None
    ]
    graph = helper.make_graph([node], "node", infos, [value_info(n, t) for n, t in zip(results, types, strict=True)])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OLDER.get(op, OPSET))], ir_version=IR_VERSION
    )


def run(op: str, inputs: Sequence[Any], attributes: Mapping[str, Any], types: Sequence[Type]) -> list[Any] | None:
    """The results, or None where ONNX Runtime has no kernel for these element types."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    made = model(op, inputs, attributes, types).SerializeToString()
    try:
        session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    except REFUSED:
        return None
    given = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    if any(isinstance(t, SequenceType) for t in types) or any(x.dtype == object for x in given.values()):
        return list(session.run(None, given))
    feeds = {name: ort_value(x) for name, x in given.items()}
    return [of_ort(y) for y in session.run_with_ort_values([f"y{i}" for i in range(len(types))], feeds)]


def ort_value(array: np.ndarray) -> onnxruntime.OrtValue:
    """An array as ONNX Runtime holds it."""
    kind = DType.of(array.dtype)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(np.array(array, order="C"), int(kind))


def of_ort(value: onnxruntime.OrtValue) -> np.ndarray:
    """A result as numpy, with ml_dtypes for the element types that numpy lacks."""
    kind = DType(value.element_type())
    if kind is DType.STRING:
        return np.asarray(value.numpy()).astype(object)
    if kind.numpy.isbuiltin == 1:
        return np.asarray(value.numpy())
    shape = tuple(value.shape())
    count = int(np.prod(shape)) * kind.numpy.itemsize
    held = (ctypes.c_char * count).from_address(value.data_ptr()) if count else b""
    return np.frombuffer(bytes(held), dtype=kind.numpy).reshape(shape)


def unpacked(kind: DType) -> bool:
    """True for element types that take whole bytes; the others are packed in ways that numpy does not share."""
    return kind.bits >= 8 or kind is DType.STRING
