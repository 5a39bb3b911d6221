"""What irkit writes, on ONNX Runtime with its optimizations off, against the evaluator.

`make fuzz-evaluated` draws graphs until its time is over, from the sources of tests/fuzz/optimized_runs.py;
tests/whole/test_optimized_runs.py takes a few of each. Integers must be the same, numbers within the tolerance of their
type, NaN and infinities in the same places: the rules that keep NaN are asked for. Needs no torch.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from irkit.checking.accuracy import MOST_ELEMENTS
from irkit.checking.agreement import plain_options
from irkit.checking.comparison import Difference, compare, tolerance
from irkit.core.ir import Graph, Value
from irkit.core.types import HALVES, DType, Tensor, Tuple
from irkit.errors import IrkitError
from irkit.evaluation.interpreter import trace
from irkit.evaluation.kernels.common import Content
from irkit.evaluation.kernels.table import DRAWS
from irkit.onnx.sessions import session
from irkit.rewriting.face import rewrite
from passes.preparing.prepare import prepare
from passes.rules.nan import NAN
from tests.fuzz.optimized_runs import LOT, SOURCES, Drawn, drawn, swept_lots, values_of
from tests.support.sweeps import Found, Piece, options

PLAIN = tuple(source for source in SOURCES if source != "torch")


def difference(found: Drawn) -> tuple[int, str]:
    """(how many results were compared, what differs; empty where nothing does or there is no kernel)."""
    graph, compared = found.graph, 0
    if any(v.op in (*DRAWS, "Dropout") or is_known(v) for v in values_of(graph)):
        return 0, ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            there = session(prepare(rewrite(graph, NAN)), options=plain_options())
        except Exception:  # ONNX Runtime's own classes have no common base
            return 0, ""
        for arrays in found.feeds:
            one, other = computed(graph, arrays), ran(there, arrays)
            if one is None or other is None:
                continue
            compared += len(one)
            wrong = next(filter(None, map(apart, one, other)), None)
            if wrong is not None:
                fed = [(a.dtype.name, a.shape) if isinstance(a, np.ndarray) else a for a in arrays]
                return compared, f"{wrong} on {fed}"
    return compared, ""


def apart(one: Content, other: Content) -> Difference | None:
    """How two results differ; floats beyond the tolerance of their type, of the largest of them: sums cancel."""
    if not isinstance(one, np.ndarray) or not DType.of(one.dtype).is_float:
        return compare(one, other)
    wide = np.abs(one.astype(np.float64))
    scale = max(1.0, float(wide[np.isfinite(wide)].max(initial=0.0)))
    return compare(one, other, atol=scale * tolerance(DType.of(one.dtype)).atol)


# ---------------------------------------------------------------------------------------------- what says nothing


def is_known(value: Value) -> bool:
    """True where ONNX Runtime reads an operator otherwise, and irkit leaves that to it: corners of a Resize by factors
    whose size is no whole number, and cubic weights of doubles, which it computes in float32; places among halves that
    GridSample takes the nearest of; masked products of an Attention, which are its least number; halves that are
    quantized, which it divides in float32; floats as integers below 8 bits, which it rounds and does not cut off; what
    a step of several in float16 gave, which it does not round; and floats as bits, the last of which no kernel
    promises."""
    x = value.inputs[0] if value.inputs else None
    if value.op == "Resize":
        wide = value.attribute("mode") == "cubic" and value.dtype is DType.DOUBLE
        return wide or (value.attribute("coordinate_transformation_mode") == "align_corners" and len(value.inputs) == 3)
    if value.op == "GridSample":
        return value.attribute("mode") == "nearest" and value.dtype in HALVES
    if value.op == "Attention":
        return isinstance(value.type, Tuple) and len(value.type.items) == 4
    if value.op not in ("QuantizeLinear", "Cast", "BitCast") or x is None or not x.dtype.is_float:
        return False
    narrow = value.dtype.bits < 8 if value.dtype.is_integer else x.dtype is DType.FLOAT16
    return narrow if value.op == "Cast" else value.op == "BitCast" or x.dtype in HALVES


NEEDS_NUMBERS = frozenset(("Hardmax", "Sign", "NonMaxSuppression", "DynamicQuantizeLinear"))
"""Operators of which ONNX does not say what they make of NaN."""
OPEN = NEEDS_NUMBERS | {"ReduceMean", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "Pow", "Resize"}
"""Operators of which ONNX leaves some result open."""


def is_undefined(value: Value, operands: Sequence[Content]) -> bool:
    """True where ONNX leaves a result open: a mean of nothing, numbers quantized that are all about 0, order and sign
    of NaN, infinities of which a Resize takes nothing, logarithms of sums as integers, and powers and products of
    integers that their type does not hold, or that float64 does not, in which ONNX Runtime computes them."""
    if value.op not in OPEN:
        return False
    first = np.asarray(operands[0])
    if value.op in NEEDS_NUMBERS and any(np.any(x != x) for x in map(np.asarray, operands) if x.dtype.kind == "f"):
        return True
    if value.op == "Resize":
        return not np.isfinite(first.astype(np.float64)).all()
    if value.op == "DynamicQuantizeLinear":
        return not np.any(np.abs(first) > 1e-30)
    if value.op == "ReduceMean":
        return first.size == 0
    if not isinstance(value.type, Tensor) or not value.dtype.is_integer:
        return False
    limit = min(float(2**53), float(np.iinfo(value.dtype.numpy).max)) if value.dtype.bits >= 8 else 1.0
    if value.op == "ReduceProd":
        return bool(np.prod(np.maximum(np.abs(first.astype(np.float64)), 1)) > limit)
    if value.op == "Pow":
        base, power = (np.asarray(x).astype(np.float64) for x in operands)
        return bool(np.any(np.abs(base) ** power > limit) or np.any((base == 0) & (power < 0)))
    return value.op not in NEEDS_NUMBERS


def overflows(value: Value, operands: Sequence[Content], result: Content) -> bool:
    """True where finite numbers make a float16 that is not: ONNX Runtime rounds only at the end of several steps."""
    if not isinstance(result, np.ndarray) or result.dtype != np.float16 or np.isfinite(result).all():
        return False
    return all(np.isfinite(x).all() for x in operands if isinstance(x, np.ndarray) and x.dtype.kind == "f")


def computed(graph: Graph, arrays: Sequence[Content]) -> Sequence[Content] | None:
    """The results on the evaluator; None where it refuses, and where ONNX does not say what they are."""
    try:
        found = trace(graph, arrays, most=MOST_ELEMENTS)
    except IrkitError:
        return None
    for value in graph.order:
        operands = [found[v] for v in value.inputs if v is not None and v in found]
        if operands and (is_undefined(value, operands) or overflows(value, operands, found[value])):
            return None
    return [found[result] for result in graph.results]


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
