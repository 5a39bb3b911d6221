"""What irkit writes, on ONNX Runtime with its optimizations off, against the evaluator.

`make fuzz-evaluated` draws graphs until its time is over, from the sources of tests/fuzz/optimized_runs.py;
tests/whole/test_optimized_runs.py takes a few of each. Integers must be the same, numbers within the tolerance of their
type, NaN and infinities in the same places. Needs no torch.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from irkit.checking.agreement import plain_options
from irkit.checking.comparison import compare
from irkit.core.ir import Graph
from irkit.errors import IrkitError
from irkit.evaluation.interpreter import evaluate
from irkit.evaluation.kernels.common import Content
from irkit.evaluation.kernels.table import DRAWS
from irkit.onnx.sessions import session
from passes.preparing.prepare import prepare
from tests.fuzz.optimized_runs import LOT, SOURCES, Drawn, drawn, swept_lots, values_of
from tests.support.sweeps import Found, Piece, options

PLAIN = tuple(source for source in SOURCES if source != "torch")


def difference(found: Drawn) -> tuple[int, str]:
    """(how many results were compared, what differs; empty where nothing does or there is no kernel)."""
    graph, compared = found.graph, 0
    if any(v.op in (*DRAWS, "Dropout") for v in values_of(graph)):
        return 0, ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            there = session(prepare(graph), options=plain_options())
        except Exception:  # ONNX Runtime's own classes have no common base
            return 0, ""
        for arrays in found.feeds:
            one, other = computed(graph, arrays), ran(there, arrays)
            if one is None or other is None:
                continue
            compared += len(one)
            wrong = compare(list(one), list(other))
            if wrong is not None:
                fed = [(a.dtype.name, a.shape) if isinstance(a, np.ndarray) else a for a in arrays]
                return compared, f"{wrong} on {fed}"
    return compared, ""


def computed(graph: Graph, arrays: Sequence[Content]) -> Sequence[Content] | None:
    """The results on the evaluator; None where it refuses."""
    try:
        return evaluate(graph, arrays)
    except IrkitError:
        return None


def ran(there: object, arrays: Sequence[Content]) -> Sequence[Content] | None:
    """The results on ONNX Runtime; None where a kernel refuses."""
    try:
        return there.run(arrays)  # type: ignore[attr-defined]
    except Exception:
        return None


def lot(piece: Piece, tell: Callable[[str], None]) -> Found:
    """What came of a source's seeds: how many results were compared, and what differs."""
    source, first = str(piece[0]), int(piece[1])
    what: dict[int, str] = {}
    total = 0
    for seed in range(first, first + LOT):
        tell(f"at seed {seed}")
        found = drawn(source, seed)
        if found is not None:
            compared, wrong = difference(found)
            total += compared
            what.update({seed: wrong} if wrong else {})
    return {"seeds": LOT, "compared": total, "differ": len(what), "what": what}


def main() -> int:
    """Draws `--lots` times fifty seeds of each source, as far as the time reaches. 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", default=",".join(PLAIN))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--lots", type=int, default=400, help=f"how many times {LOT} seeds")
    parser.add_argument("--only", type=int, help="one seed of one source, in this process")
    options("evaluated_runs", parser, 600)
    given = parser.parse_args()
    sources = given.sources.split(",")
    if given.only is not None:
        found = drawn(sources[0], given.only)
        print(found and found.graph, found and difference(found), sep="\n")
        return 0
    return swept_lots(given, lot, [(source, given.first + LOT * i) for i in range(given.lots) for source in sources])


if __name__ == "__main__":
    raise SystemExit(main())
