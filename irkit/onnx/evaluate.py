"""`irkit.evaluate`: a graph, an ONNX model or a file run on numpy or on ONNX Runtime, with every value to be seen."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sized
from typing import Any, Literal, cast

import attrs
import numpy as np
from onnx import ModelProto

from irkit.core.ir import Graph, Signature, Value
from irkit.core.operator_names import Dialects
from irkit.core.printer import nested_graphs, value_names
from irkit.core.types import DType
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.errors import EvaluateError, GraphError
from irkit.evaluation import interpreter
from irkit.evaluation.interpreter import Feeds, Watch
from irkit.evaluation.kernels.common import Array, Content, Kernel
from irkit.evaluation.kernels.table import KERNELS
from irkit.onnx.load import load
from irkit.support.tracebacks import is_told

__tracebackhide__ = is_told

SHOWN = 6
"""So many elements of a result are printed at the most, where elements are asked for."""


def evaluate(
    model: Graph | ModelProto | str | os.PathLike[str] | bytes,
    feeds: Feeds,
    *,
    outputs: Iterable[str | Value] | None = None,
    every: Watch | None = None,
    verbose: int = 0,
    runtime: Literal["irkit", "onnxruntime"] = "irkit",
    kernels: Mapping[str, Kernel] | None = None,
    dialects: Dialects = None,
    seed: int = 0,
    most: int | None = None,
) -> tuple[Any, ...]:
    """The results of a model: numpy arrays, lists for sequences, None for an empty optional.

    Args:
        model: a graph, or an ONNX model as `irkit.load` takes it: a ModelProto, its bytes, or the path of a file.
        feeds: an array for each parameter: by position, or by public name or parameter.
        outputs: what to return instead of the model's results: names of results, of nodes, or as the text of the graph
            has them (`%17`), or values. What they do not need is not computed.
        every: called with each value and its result, in order, those of bodies among them.
        verbose: 1 prints each operator with the type and the range of what it gave, 2 its first elements and those of
            parameters and constants too.
        runtime: what computes the operators: irkit's own kernels, or ONNX Runtime, one node at a time.
        kernels: what computes operators, by name, beside irkit's own kernels and before them: `{"mylib::Silu": silu}`,
            where `silu(node, *operands)` takes the Value (`node.attribute("alpha")`, `node.type`) and an array for each
            operand, a list for a sequence and None for one that is left out, writes into none of them, and gives an
            array of the element type and shape that `node.type` says, or a tuple of them for several results.
        dialects: operators of your own, which the nodes of a model in a file mean (see `irkit.load`).
        seed: of the generator that random operators draw from. They need not agree with any runtime.
        most: how many elements all values together may have, where a model is not trusted; each counts for 256 at
            least, so that a loop without an end is ended, too. A result whose size the operands tell is not begun.

    Raises EvaluateError for feeds that do not fit the parameters' types, for an operator without a kernel, for an
    output that there is none of, for a result whose element type or shape contradicts the type of its value, and for
    more than `most`.
    LoadError for a model that cannot be read. Results may share memory with the feeds.
    """
    if runtime not in ("irkit", "onnxruntime"):
        raise EvaluateError(f"there is no runtime {runtime!r}", hint="take 'irkit' or 'onnxruntime'")
    graph = (
        model if isinstance(model, Graph) else load(model, inline=False, dialects=dialects)
    )  # results of functions keep their names
    if outputs is not None:
        graph = ending_in(graph, outputs)
    table: Mapping[str, Kernel] = KERNELS if not kernels else {**KERNELS, **kernels}
    if runtime == "onnxruntime":
        from irkit.onnx.single_nodes import SingleNodes  # ONNX Runtime is loaded when it is asked for

        table = SingleNodes(own=kernels or {})
    if verbose:
        names = {v: name for each, _ in nested_graphs(graph) for v, name in value_names(each).items()}
        every = Printed(names, verbose, every)
    return interpreter.evaluate(graph, feeds, seed=seed, every=every, kernels=table, most=most)


def ending_in(graph: Graph, outputs: Iterable[str | Value]) -> Graph:
    """The graph with other results, by name or as values. Raises EvaluateError for what it does not have."""
    if isinstance(outputs, str | Value):
        raise EvaluateError(f"outputs is {outputs!r}", hint="give a list of names or values")
    found: list[Value] = []
    for output in outputs:
        try:
            value = graph.value(output) if isinstance(output, str) else output
        except GraphError as error:
            raise EvaluateError(error.what, hint=error.hint) from None
        if value not in graph.names:
            raise EvaluateError(
                f"the graph {graph.name} has no value {output!r}", hint="str(graph) shows the names that there are"
            )
        found.append(value)
    return attrs.evolve(graph, results=tuple(found), signature=Signature(params=graph.signature.params))


@attrs.frozen(eq=False)
class Printed:
    """A watch that prints a line for each value, and tells another one."""

    names: Mapping[Value, str]
    verbose: int
    then: Watch | None = None

    def __call__(self, value: Value, result: Any) -> None:
        """Prints what a value gave, and the module or the name in a file that it has: `%3: f32[2, 4] = Add(%x, %2)  in
        [-1.5, 2.25]  # layers.0`."""
        if self.verbose > 1 or value.op not in (PARAM, CONSTANT):
            operands = ", ".join("_" if v is None else self.names.get(v, "?") for v in value.inputs)
            call = f"{value.op}({operands})" if value.op not in (PARAM, CONSTANT) else value.op
            told = value.origin.module or value.origin.node
            where = f"  # {told}" if told else ""
            print(f"{self.names.get(value, '?')}: {summary(result, self.verbose > 1, call)}{where}")
        if self.then is not None:
            self.then(value, result)


def summary(result: Content, elements: bool, call: str) -> str:
    """A result in one line: its type, what computed it, the range of its numbers, and its first elements."""
    if isinstance(result, tuple | list):
        kind = "a sequence" if isinstance(result, list) else "results"
        return f"{len(cast('Sized', result))} {kind} = {call}"
    if not isinstance(result, np.ndarray):
        return f"nothing = {call}"
    array = cast("Array", result)
    text = f"{DType.of(array.dtype).short}{list(array.shape)} = {call}{spread(array)}"
    if elements and array.size:
        first = ", ".join(f"{v:.6g}" if type(v) is float else str(v) for v in array.ravel()[:SHOWN].tolist())
        text += f"  {first}{', ...' if array.size > SHOWN else ''}"
    return text


def spread(array: Array) -> str:
    """The least and the greatest number of an array, and how many are NaN; empty where there are none to compare."""
    kind = DType.of(array.dtype)
    if not array.size or not (kind.is_float or kind.is_integer):
        return ""
    wide = array.astype(np.float64) if kind.is_float else array.astype(object)
    nans = int(np.isnan(wide).sum()) if kind.is_float else 0
    told = f", {nans} NaN" if nans else ""
    if nans == array.size:
        return "  all NaN"
    low, high = (np.nanmin(wide), np.nanmax(wide)) if kind.is_float else (wide.min(), wide.max())
    return f"  in [{low:.6g}, {high:.6g}]{told}" if kind.is_float else f"  in [{low}, {high}]"
