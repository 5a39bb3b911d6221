"""Files on tract: with the dimensions that vary as symbols, and where tract cannot follow them, at the sizes of a call.

tract wants every shape before it runs anything. What it cannot say of symbols it can often say of numbers: then the
file is loaded for each call, with inputs of the sizes of that call, and without the shapes that it declares of the
rest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from irkit.core.types import DType
from irkit.runtimes.exchange import Answer
from irkit.runtimes.known import library

TYPES: Mapping[DType, str] = {
    DType.FLOAT: "f32", DType.DOUBLE: "f64", DType.FLOAT16: "f16", DType.INT8: "i8", DType.INT16: "i16",
    DType.INT32: "i32", DType.INT64: "i64", DType.UINT8: "u8", DType.UINT16: "u16", DType.UINT32: "u32",
    DType.UINT64: "u64", DType.BOOL: "bool",
}  # fmt: skip
"""The element types of inputs, as tract writes them."""

SIZES = "Unsupported DatumType in the public API TDim"
"""What tract says of integers that it computes as sizes, which are of an element type of its own. Its Cast to int64
makes such, too."""

FIXED = "at fixed sizes"
"""What is noted where a file runs at the sizes of a call, and not with symbols."""


def load(path: Path) -> Callable[[Mapping[str, np.ndarray]], Answer]:
    """What runs the file on arrays by name."""
    tract = library("tract")
    tract.onnx()
    failed: dict[str, str] = {}
    try:
        whole = prepared(tract, path, None)
    except Exception as error:  # tract's own class, which is known only where tract is
        whole, failed["why"] = None, str(error)
    return runs(tract, path, whole, failed)


def load_fixed(path: Path) -> Callable[[Mapping[str, np.ndarray]], Answer]:
    """The same for a file at which the process ended, as it may at dimensions that vary: sizes are fixed at once."""
    tract = library("tract")
    tract.onnx()
    return runs(tract, path, None, {"why": "the process ended at dimensions that vary"})


def runs(
    tract: Any, path: Path, whole: tuple[list[str], Any] | None, failed: dict[str, str]
) -> Callable[[Mapping[str, np.ndarray]], Answer]:
    """What runs the file: prepared as a whole where it is, and for the sizes of each call where that fails."""

    def run(feeds: Mapping[str, np.ndarray]) -> Answer:
        if whole is not None:
            try:
                return Answer(results_of(whole, feeds))
            except Exception as error:  # the same
                failed["why"] = str(error)
        why = " ".join(failed["why"].partition("Stack backtrace")[0].split())
        return Answer(results_of(prepared(tract, path, feeds), feeds), note=f"{FIXED}: {why}"[:300])

    return run


def prepared(tract: Any, path: Path, feeds: Mapping[str, np.ndarray] | None) -> tuple[list[str], Any]:
    """(names of the inputs, what runs them); of inputs of the sizes of `feeds` where these are given."""
    if feeds is None:
        model = tract.onnx().load(str(path))
    else:
        with tempfile.TemporaryDirectory(prefix="irkit-") as folder:
            bare = Path(folder) / "model.onnx"
            bare.write_bytes(undeclared(path))
            model = tract.onnx().load(str(bare))
    names: list[str] = [model.input_name(i) for i in range(model.input_count())]
    if feeds is not None:
        for i, name in enumerate(names):
            sizes = map(str, feeds[name].shape)
            model.set_input_fact(i, ",".join((*sizes, TYPES[DType.of(feeds[name].dtype)])))
        for i in range(model.output_count()):
            model.set_output_fact(i, None)
    return names, model.into_model().into_runnable()


def undeclared(path: Path) -> bytes:
    """The model in a file without the types that it declares of what lies between inputs and outputs, and without the
    shapes of what goes into bodies and comes out of them."""
    model = onnx.load(str(path))  # pyright: ignore[reportUnknownMemberType]: onnx's own, of os.PathLike
    pending = [model.graph]
    while pending:
        graph = pending.pop()
        graph.ClearField("value_info")
        bodies = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
        for port in (port for body in bodies for port in (*body.input, *body.output)):
            if port.type.HasField("tensor_type"):
                port.type.tensor_type.ClearField("shape")
        pending += bodies
    return model.SerializeToString()


def results_of(runnable: tuple[list[str], Any], feeds: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """The results of a call."""
    names, model = runnable
    return tuple(map(array_of, model.run([feeds[name] for name in names])))


def array_of(tensor: Any) -> np.ndarray:
    """The numbers of a tensor; integers that tract computes as sizes, as the int64 that the file says they are."""
    try:
        return np.asarray(tensor.to_numpy())
    except Exception as error:  # tract's own class, which is known only where tract is
        if SIZES not in str(error):
            raise
        return np.asarray(tensor.convert_to(library("tract.tensor").DatumType.I64).to_numpy())
