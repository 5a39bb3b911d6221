"""What irkit writes, on ONNX Runtime with its optimizations on, against the same file with them off.

`make fuzz-optimized` draws graphs until its time is over; tests/whole/test_optimized_runs.py takes a few of each
source. Sources are random typed graphs, random chains of what moves elements and computes places, ONNX's node cases,
irkit's own samples of operators, and torch's database of operators. Each graph is written as `to_onnx` writes it, and
without the rules of `optimize`. Integers must be the same, numbers within the tolerance of their type, NaN and
infinities in the same places.
"""

from __future__ import annotations

import argparse
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
from tests.support.sweeps import CODE, Found, Piece, Work, options, resumed, summary


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


def difference(drawn: Drawn, target: str = "onnxruntime-cpu") -> tuple[int, str]:
    """(how many runs with optimizations were compared with those without, what differs; empty where nothing does)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            ready = prepare(optimize(drawn.graph, drawn.level) if drawn.level else drawn.graph, target)
        except IrkitError:
            return 0, ""
        return compared(ready, drawn.feeds)


def values_of(graph: Graph) -> Iterator[Value]:
    """Every value of a graph and of its bodies."""
    for value in graph.order:
        yield value
        for body in value.bodies:
            yield from values_of(body)


def between(ready: Graph, feeds: Sequence[Sequence[Any]]) -> str:
    """What differs between the runs of a graph that is ready to be written."""
    return compared(ready, feeds)[1]


def compared(ready: Graph, feeds: Sequence[Sequence[Any]]) -> tuple[int, str]:
    """As `difference`, for a graph that is ready to be written."""
    if any(v.op in (*DRAWS, "Dropout") for v in values_of(ready)):
        return 0, ""
    try:
        plain = session(ready, options=plain_options())
    except Exception:  # ONNX Runtime's own classes have no common base
        return 0, ""
    try:
        better = session(ready, options=default_options())
    except Exception as error:
        return 0, f"refused with optimizations only: {str(error)[:300]}"
    count = 0
    for arrays in feeds:
        try:
            expected = plain.run(arrays)
        except Exception:
            continue
        try:
            found = better.run(arrays)
        except Exception as error:
            return count, f"fails with optimizations only: {str(error)[:300]}"
        count += 1
        wrong = compare(expected, found)
        if wrong is not None:
            given = [(a.dtype.name, a.shape) if isinstance(a, np.ndarray) else a for a in arrays]
            return count, f"{wrong} on {given}"
    return count, ""


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


def faults(source: str, seeds: Sequence[int], tally: Callable[[int], Any] = id) -> Iterator[tuple[int, str]]:
    """(seed, what differs) for each seed on which the two runs differ; `tally` hears how many runs were compared."""
    for seed in seeds:
        found = drawn(source, seed)
        count, wrong = (0, "") if found is None else difference(found)
        tally(count)
        if wrong:
            yield seed, wrong


# ---------------------------------------------------------------------------------------------- for long

LOT = 50
"""Seeds of one piece of the sweep."""


def lot(piece: Piece, tell: Callable[[str], None]) -> Found:
    """What came of a source's seeds: how many there were, how many runs were compared, and what differs."""
    source, first = str(piece[0]), int(piece[1])
    found: dict[int, str] = {}
    counts: list[int] = []
    for seed in range(first, first + LOT):
        tell(f"at seed {seed}")
        found.update(faults(source, [seed], counts.append))
    return {"seeds": LOT, "compared": sum(counts), "differ": len(found), "what": found}


def main() -> int:
    """Draws `--lots` times fifty seeds of each source, as far as the time reaches. 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", default=",".join(SOURCES), help="all but `torch` need no torch")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--lots", type=int, default=400, help=f"how many times {LOT} seeds")
    parser.add_argument("--only", type=int, help="one seed of one source, in this process")
    options("optimized_runs", parser, 600)
    given = parser.parse_args()
    sources = given.sources.split(",")
    if given.only is not None:
        print(list(faults(sources[0], [given.only])))
        return 0
    return swept_lots(given, lot, [(source, given.first + LOT * i) for i in range(given.lots) for source in sources])


def swept_lots(given: argparse.Namespace, work: Work, pieces: Sequence[Piece]) -> int:
    """Runs pieces, and prints what differs in them; 1 where something does, or nothing was compared."""
    code = (*CODE, "lowering") if "torch" in given.sources else CODE
    rows = resumed(given.results, work, pieces, given.jobs, given.seconds, code)
    done = [rows[piece] for piece in pieces if piece in rows]
    for row in done:
        for seed, wrong in {**row.get("what", {}), **({"-": row["ended"]} if "ended" in row else {})}.items():
            print(f"DIFFERS {row['piece'][0]} {seed}: {wrong}")
    print(summary(rows, pieces, "seeds", "compared", "differ"))
    nothing = bool(done) and not any(row.get("compared") for row in done)
    return int(nothing or any(row.get("differ") or "ended" in row for row in done))


if __name__ == "__main__":
    raise SystemExit(main())
