"""A model run on arrays by name, whole or with every value between, and arrays by name in a file."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from irkit.contract.as_json import Json
from irkit.contract.sizes import binding_of, check_sizes, names_of
from irkit.core.ir import Graph, Value
from irkit.core.printer import value_names
from irkit.core.types import DType, Tuple
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.errors import EvaluateError, IrkitError
from irkit.evaluation.kernels.common import Array, Content
from irkit.onnx.evaluate import evaluate, summary
from irkit.onnx.sessions import Session, session
from irkit.toolbox.inputs import Arrays


def require_contract(graph: Graph, feeds: Mapping[str, Content]) -> None:
    """Raises ContractError where the shapes of the arrays break what the model relies on."""
    shapes = [getattr(feeds[name], "shape", None) for name in names_of(graph)]
    numbers = {
        port.name: int(np.asarray(feeds[port.name]).reshape(-1)[0])
        for port in graph.signature.params
        if port.role == "input" and port.binds and np.size(feeds[port.name]) == 1
    }
    check_sizes(graph, binding_of(graph, shapes, numbers))


def outputs_of(graph: Graph) -> list[str]:
    """The names of the results; `output 3` for those that have none."""
    ports = graph.signature.results
    return [ports[i].name if i < len(ports) else f"output {i}" for i in range(len(graph.results))]


def run_whole(graph: Graph, feeds: Mapping[str, Content], runtime: str, file: Path | None) -> tuple[Arrays, float]:
    """(results by name, seconds that the run took). ONNX Runtime runs the `file` itself where there is one, not the
    graph.

    Raises EvaluateError where the runtime does not run the model, or fails on the arrays.
    """
    in_order = [feeds[name] for name in names_of(graph)]
    if runtime == "irkit":
        start = time.perf_counter()
        results = evaluate(graph, in_order)
        return dict(zip(outputs_of(graph), results, strict=True)), time.perf_counter() - start
    loaded = made_session(graph, file)
    start = time.perf_counter()
    hint = "--all --runtime irkit shows how far it comes; --range NAME=LOW:HIGH bounds what is drawn"
    with told_errors("ONNX Runtime cannot run the model on these inputs", hint):
        found = loaded.run(in_order if file is None else dict(feeds))
    return dict(zip(outputs_of(graph), found, strict=True)), time.perf_counter() - start


def made_session(graph: Graph, file: Path | None, options: Any = None) -> Session:
    """A session for a model. Raises EvaluateError where ONNX Runtime does not take it."""
    hint = "irkit optimize writes it in operators that ONNX Runtime has; --runtime irkit needs none of it"
    with told_errors("ONNX Runtime does not take the model", hint):
        return session(graph if file is None else file, options=options)


@contextmanager
def told_errors(what: str, hint: str) -> Generator[None]:
    """Raises EvaluateError for what ONNX Runtime raises, whose own classes have no common base."""
    try:
        yield
    except IrkitError:
        raise
    except Exception as error:
        raise EvaluateError(f"{what}: {error}", hint=hint) from error


def run_all(
    graph: Graph,
    feeds: Mapping[str, Content],
    runtime: str,
    keep: Callable[[str, Value, Content], None],
) -> Arrays:
    """The results by name, and on the way each operator's own, which `keep` is told with its name: that of the file, or
    what the text of the graph has. Nothing is fused; bodies of control flow are not told."""
    own, numbered = set(graph.order), value_names(graph)
    used: set[str] = set()
    names: dict[Value, str] = {}
    for value in graph.order:
        name = value.origin.node or numbered[value].removeprefix("%")
        names[value] = name if name not in used else numbered[value]
        used.add(names[value])
    names |= dict(zip(graph.results, outputs_of(graph), strict=True))

    def every(value: Value, result: Content) -> None:
        if value in own and value.op not in (PARAM, CONSTANT) and not isinstance(value.type, Tuple):
            keep(names[value], value, result)

    in_order = [feeds[name] for name in names_of(graph)]
    found = evaluate(graph, in_order, runtime=runtime, every=every)  # type: ignore[arg-type]
    return dict(zip(outputs_of(graph), found, strict=True))


def result_line(result: Content) -> str:
    """A result in a few words: its type, and the range of its numbers."""
    return summary(result, False, "").replace(" = ", "", 1)


def result_facts(result: Content) -> Json:
    """A result as plain data: element type, shape, least and greatest number, how many NaN; or what else it is."""
    if not isinstance(result, np.ndarray):
        return {"type": result_line(result)}
    array = cast("Array", result)
    found: Json = {"dtype": DType.of(array.dtype).short, "shape": list(array.shape)}
    kind = DType.of(array.dtype)
    if array.size and (kind.is_float or kind.is_integer):
        wide = array.astype(np.float64)
        nans = int(np.isnan(wide).sum())
        finite = wide[np.isfinite(wide)]
        ends = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
        found |= {"min": ends[0], "max": ends[1], "nan": nans, "infinite": int(np.isinf(wide).sum())}
    return found


# ---------------------------------------------------------------------------------------------- files of arrays


def write_arrays(file: IO[bytes], arrays: Iterable[tuple[str, Content]]) -> None:
    """Writes an .npz file, an array at a time; those of a sequence are `name/0`, `name/1`, ..."""
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, each in arrays:
            write_array(archive, name, each)


def write_array(archive: zipfile.ZipFile, name: str, given: Content) -> None:
    """Writes one array into an .npz file that is open; nothing for an empty optional."""
    if isinstance(given, list | tuple):
        for i, part in enumerate(given):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            write_array(archive, f"{name}/{i}", part)
    elif given is not None:
        array = np.asarray(given)
        array = array.astype(str) if array.dtype == object else array
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)
