"""What irkit writes, on ONNX Runtime with its optimizations on, against the same file with them off.

`make fuzz-optimized` draws graphs until its time is over; tests/whole/test_optimized_runs.py takes a few of each
source. Sources are random typed graphs, random chains of what moves elements and computes places, ONNX's node cases,
irkit's own samples of operators, and torch's database of operators. Each graph is written as `to_onnx` writes it, and
without the rules of `optimize`. Integers must be the same, numbers within the tolerance of their type, NaN and
infinities in the same places.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import onnxruntime

from irkit.checking.agreement import is_safe, plain_options
from irkit.checking.comparison import compare
from irkit.checking.instances import Retry
from irkit.core.ir import Graph, Value, param
from irkit.errors import IrkitError
from irkit.evaluation.kernels.table import DRAWS
from irkit.onnx.sessions import session
from irkit.testing import choices, random_feeds, random_graph
from passes import optimize
from passes.preparing.prepare import prepare
from tests.support.chains import chain
from tests.support.node_cases import built, cases, fed
from tests.support.operator_instances import graph_of, instances_of, names_with_samples


@attrs.frozen(eq=False)
class Drawn:
    """A graph, a few arguments for it, and how it is written."""

    graph: Graph
    feeds: Sequence[Sequence[Any]]
    level: int


def default_options() -> Any:
    """Session options that leave ONNX Runtime's optimizations as they are by default, and print nothing."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


def difference(drawn: Drawn, target: str = "onnxruntime-cpu") -> str:
    """What differs between the runs with optimizations and without; empty where nothing does, or nothing runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            ready = prepare(optimize(drawn.graph, drawn.level) if drawn.level else drawn.graph, target)
        except IrkitError:
            return ""
        return between(ready, drawn.feeds)


def values_of(graph: Graph) -> Iterator[Value]:
    """Every value of a graph and of its bodies."""
    for value in graph.order:
        yield value
        for body in value.bodies:
            yield from values_of(body)


def between(ready: Graph, feeds: Sequence[Sequence[Any]]) -> str:
    """As `difference`, for a graph that is ready to be written."""
    if any(v.op in (*DRAWS, "Dropout") for v in values_of(ready)):
        return ""
    try:
        plain = session(ready, options=plain_options())
    except Exception:  # ONNX Runtime's own classes have no common base
        return ""
    try:
        better = session(ready, options=default_options())
    except Exception as error:
        return f"refused with optimizations only: {str(error)[:300]}"
    for arrays in feeds:
        try:
            expected = plain.run(arrays)
        except Exception:
            continue
        try:
            found = better.run(arrays)
        except Exception as error:
            return f"fails with optimizations only: {str(error)[:300]}"
        wrong = compare(expected, found)
        if wrong is not None:
            return f"{wrong} on {[(a.dtype.name, a.shape) if isinstance(a, np.ndarray) else a for a in arrays]}"
    return ""


# ---------------------------------------------------------------------------------------------- sources


def typed(rng: np.random.Generator) -> Drawn | None:
    """A random typed graph, with bodies and symbols."""
    graph = random_graph(rng, int(rng.integers(2, 9)))
    feeds = []
    for _ in range(3):
        binding = {name: int(rng.choice(sizes)) for name, sizes in choices(graph).items()}
        feeds.append(random_feeds(graph, binding, rng))
    return Drawn(graph, feeds, int(rng.integers(0, 3)))


def chained(rng: np.random.Generator) -> Drawn | None:
    """A random chain of what moves elements and computes places."""
    graph, feeds = chain(rng)
    return Drawn(graph, feeds, int(rng.choice([0, 0, 2])))


NOT_HERE = frozenset(("StringNormalizer", "ImageDecoder", "Dropout", *DRAWS))
"""Operators of which a run says nothing."""

SAMPLED = tuple(name for name in names_with_samples() if name not in NOT_HERE)


def sampled(rng: np.random.Generator) -> Drawn | None:
    """One of irkit's samples of an operator, with something simple before and after it."""
    try:
        graph, arrays = graph_of(instances_of(SAMPLED[int(rng.integers(len(SAMPLED)))])(rng))
    except (Retry, IndexError, ValueError, IrkitError):
        return None
    return Drawn(graph, [arrays], int(rng.choice([0, 2])))


CASES = tuple(case for case in cases() if case.op not in NOT_HERE)


def noded(rng: np.random.Generator) -> Drawn | None:
    """One of ONNX's own node cases."""
    case = CASES[int(rng.integers(len(CASES)))]
    made: dict[str, Value] = {}

    def make(name: str, type_: Any) -> Value:
        made[name] = param(type_)
        return made[name]

    try:
        results = tuple(r for r in built(case, make) if r is not None)
    except IrkitError:
        return None
    given = [x for info, x in zip(fed(case.model.graph), case.inputs, strict=True) if info.name in made]
    return Drawn(Graph(tuple(made.values()), results), [given], int(rng.choice([0, 2])))


def from_torch(rng: np.random.Generator) -> Drawn | None:
    """A sample of torch's database, exported."""
    from tests.support.optimized_torch import exported  # brings in torch

    found = exported(rng)
    return None if found is None else Drawn(found[0], [found[1]], 2)


SOURCES: Mapping[str, Callable[[np.random.Generator], Drawn | None]] = {
    "typed": typed, "chained": chained, "sampled": sampled, "noded": noded, "torch": from_torch,
}  # fmt: skip


def drawn(source: str, seed: int) -> Drawn | None:
    """What a source draws from a seed; None where it has nothing to say."""
    found = SOURCES[source](np.random.default_rng([zlib.crc32(source.encode()), seed]))
    return found if found is not None and is_safe(found.graph) else None


def faults(source: str, seeds: Sequence[int]) -> Iterator[tuple[int, str]]:
    """(seed, what differs) for each seed on which the two runs differ."""
    for seed in seeds:
        found = drawn(source, seed)
        wrong = "" if found is None else difference(found)
        if wrong:
            yield seed, wrong


# ---------------------------------------------------------------------------------------------- for long


def main() -> int:
    """Draws until the time is over, each lot in a process of its own: a fault may end it. 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--sources", default=",".join(SOURCES))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--lot", type=int, default=200, help="seeds for one process")
    parser.add_argument("--only", action="store_true", help="one lot of one source, in this process")
    given = parser.parse_args()
    if given.only:
        for seed in range(given.first, given.first + given.lot):
            print("at", seed, flush=True)
            for where, wrong in faults(given.sources, [seed]):
                print(f"DIFFERS {given.sources} {where}: {wrong}", flush=True)
        return 0
    end, first, wrong = time.monotonic() + given.seconds, given.first, 0
    while time.monotonic() < end:
        for source in given.sources.split(","):
            wrong += lot(source, first, given.lot)
        first += given.lot
    print(f"{first - given.first} seeds of each source, {wrong} differ")
    return int(wrong > 0)


def lot(source: str, first: int, count: int) -> int:
    """How many seeds of a lot differ, printed; what ends the process counts, and the lot goes on after it."""
    command = [sys.executable, "-m", "tests.fuzz.optimized_runs", "--only", "--sources", source]
    wrong, end = 0, first + count
    while first < end:
        done = subprocess.run(
            [*command, "--first", str(first), "--lot", str(end - first)], capture_output=True, text=True, check=False
        )
        lines = done.stdout.splitlines()
        last = next((line for line in reversed(lines) if line.startswith("at ")), f"at {first}")
        found = [line for line in lines if line.startswith("DIFFERS")]
        if done.returncode:
            found.append(f"ENDED {source} {last[3:]}: {done.returncode} {done.stderr[-300:]}")
        print("\n".join(found), end="\n" * bool(found), flush=True)
        wrong += len(found)
        first = int(last[3:]) + 1 if done.returncode else end
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
