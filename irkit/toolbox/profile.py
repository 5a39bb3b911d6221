"""Where the time of a model goes on ONNX Runtime: by operator, by module and by line of the user's model."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from irkit.contract.as_json import Json
from irkit.core.ir import Graph
from irkit.core.printer import nested_graphs
from irkit.errors import GraphError
from irkit.onnx.sessions import Session, quiet_options
from irkit.toolbox.inputs import Arrays
from irkit.toolbox.running import made_session

WARM = 2
"""So many runs come before those that are measured."""

SUFFIX = "_kernel_time"
"""What ONNX Runtime writes behind the name of a node."""

FUSED = "(made by ONNX Runtime)"
"""The module and the line of what ONNX Runtime itself put in the place of nodes."""

Progress = Callable[[str, int, int], None]


@attrs.frozen
class Kernel:
    """One node: how often it ran in a run, and the milliseconds that it took then, by the median of its calls."""

    name: str
    op: str
    module: str
    source: str
    calls: float
    milliseconds: float


@attrs.frozen
class Timed:
    """The kernels of what is added up by one key."""

    key: str
    calls: float
    milliseconds: float


@attrs.frozen(repr=False)
class Profile:
    """The profile of a model: the median of its runs without a profiler, and its kernels with it."""

    name: str
    milliseconds: float
    runs: int
    kernels: tuple[Kernel, ...]

    def by(self, key: str = "op") -> tuple[Timed, ...]:
        """The kernels added up by op, module, source or name, the longest first."""
        if key not in ("op", "module", "source", "name"):
            raise GraphError(f"there is nothing to add up by {key!r}", hint="take op, module, source or name")
        found: dict[str, list[Kernel]] = {}
        for each in self.kernels:
            found.setdefault(getattr(each, key), []).append(each)
        rows = [Timed(name, sum(k.calls for k in own), sum(k.milliseconds for k in own)) for name, own in found.items()]
        return tuple(sorted(rows, key=lambda row: -row.milliseconds))

    def as_json(self, by: str = "op") -> Json:
        """The same as plain data."""
        rows = [attrs.asdict(row) for row in self.by(by)]
        return {"model": self.name, "milliseconds": self.milliseconds, "runs": self.runs, "by": by, "rows": rows}


def profile_models(
    models: Sequence[tuple[str, Graph, Path | None]],
    feeds: Arrays,
    runs: int,
    threads: int,
    progress: Progress,
) -> list[Profile]:
    """The profiles of models on the same inputs. The runs without a profiler take turns, so that what else the machine
    does befalls all alike. Raises EvaluateError where ONNX Runtime does not take a model."""
    sessions = [made_session(graph, file, options_for(threads)) for _, graph, file in models]
    given = [fed(session, graph, feeds) for session, (_, graph, _) in zip(sessions, models, strict=True)]
    times: list[list[float]] = [[] for _ in models]
    for turn in range(WARM + runs):
        for session, each, found in zip(sessions, given, times, strict=True):
            start = time.perf_counter()
            session.run(each)
            found.append(1000 * (time.perf_counter() - start))
        progress("running", turn + 1, WARM + runs)
    made: list[Profile] = []
    for i, (name, graph, file) in enumerate(models):
        events = profiled_events(graph, file, given[i], runs, threads)
        measured = sorted(times[i][WARM:])
        made.append(Profile(name, measured[len(measured) // 2], runs, kernels_of(graph, events, runs)))
        progress("profiling", i + 1, len(models))
    return made


def options_for(threads: int) -> Any:
    """Session options with so many threads within an operator, 0 for one on each core."""
    options = quiet_options()
    options.intra_op_num_threads = threads
    return options


def fed(session: Session, graph: Graph, feeds: Arrays) -> Arrays:
    """The inputs by the names that a session has: by name where it has these, else in order."""
    if set(session.inputs) <= feeds.keys():
        return {name: feeds[name] for name in session.inputs}
    return dict(zip(session.inputs, feeds.values(), strict=False))


def profiled_events(graph: Graph, file: Path | None, feeds: Arrays, runs: int, threads: int) -> list[Any]:
    """What ONNX Runtime's profiler says of so many runs, after those that warm it."""
    with tempfile.TemporaryDirectory() as folder:
        options = options_for(threads)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = made_session(graph, file, options)
        for _ in range(WARM + runs):
            session.run(feeds)
        events: list[Any] = json.loads(Path(session.inner.end_profiling()).read_text())
    starts = sorted(event["ts"] for event in events if event.get("name") == "model_run")
    return [event for event in events if event.get("cat") == "Node" and event["ts"] >= starts[-runs]]


def kernels_of(graph: Graph, events: Sequence[Any], runs: int) -> tuple[Kernel, ...]:
    """The kernels of the events, each with where the node came from."""
    origins = origins_in(graph)
    found: dict[tuple[str, str], list[int]] = {}
    for event in events:
        if event["name"].endswith(SUFFIX):
            key = event["name"].removesuffix(SUFFIX), event["args"].get("op_name", "")
            found.setdefault(key, []).append(event["dur"])
    kernels: list[Kernel] = []
    for (name, op), spans in found.items():
        module, source = origin_of(name, origins)
        calls = len(spans) / runs
        kernels.append(Kernel(name, op, module, source, calls, calls * statistics.median(spans) / 1000))
    return tuple(kernels)


def origins_in(graph: Graph) -> dict[str, tuple[str, str]]:
    """(module, line) by the names that nodes have: their own, and that of their first result."""
    found: dict[str, tuple[str, str]] = {}
    for nested, _ in nested_graphs(graph):
        for value in nested.order:
            origin = value.origin
            names = [origin.node, dict(origin.notes).get("irkit.name", "")]
            for name in filter(None, names):
                found.setdefault(name, (origin.module, origin.source))
    return found


def origin_of(name: str, origins: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """Where a node came from; of what ONNX Runtime fused, where the node came from whose name it kept."""
    if name in origins:
        return origins[name]
    held = max((known for known in origins if len(known) > 3 and known in name), key=len, default="")
    return origins[held] if held else (FUSED, FUSED)
