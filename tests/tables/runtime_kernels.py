"""The kernels of runtimes, measured: which element types each operator takes there, at each of its versions.

`python -m tests.tables.runtime_kernels openvino tract` writes passes/targets/kernels_openvino.json and so on. For each
operator of ONNX some samples are drawn in each element type, without NaN and empty tensors, run on the runtime at the
newest version of the operator, and compared with irkit's evaluator; where nothing of that version runs, at the one
before. Older versions are taken to have the kernels of the newest that runs: none of these
runtimes drops a version. An operator is taken to have a kernel for an element type where at least a third of the
samples with it agree, and where none was drawn with it; what is wrong in the others is printed, and belongs into the
runtime's table of quirks, whose rows leave out the samples that they meet. For operators without samples ONNX's own
node cases stand in, and say nothing of element types. An element type whose digits a runtime does not keep is left out
whatever the samples say. Samples are drawn from seeds, and a runtime answers them the same each time: two runs of one
state of the code write one table.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from onnx.reference.ops import _op_list as ops

from irkit.build import call, const
from irkit.checking.comparison import compare
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, tensor
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.writing.downgrade import respelled_value
from irkit.onnx.writing.models import to_proto
from irkit.ops.schemas import OPSET, TYPE_STRINGS
from irkit.rewriting.sides import results_of
from irkit.runtimes import run_files, runtime_named
from irkit.runtimes.exchange import Answer
from passes.legal.others.quirks import other_of
from passes.targets import target_of
from passes.targets.targets import OLDEST, bindings, kind_of, row_at
from tests.support.kernel_samples import Sample
from tests.support.kernel_samples_table import SAMPLES
from tests.support.node_cases import SIZES, cases, fed
from tests.support.onnxruntime_node import schema_dtypes, unpacked
from tests.support.operator_instances import Drawn

FOLDER = Path(__file__).resolve().parents[2] / "passes" / "targets"
NUMPY = frozenset(
    d for d in DType if unpacked(d) and not d.is_complex and d is not DType.STRING and d.numpy.isbuiltin == 1
)
"""The element types that all runtimes take from Python."""

PLAIN = frozenset(TYPE_STRINGS[d] for d in NUMPY)
"""The same, as ONNX writes them."""

ROUNDS: Mapping[str, int] = {
    "CastLike": 8,
    "Pow": 6,
    "Pad": 6,
    "Resize": 20,
    "GridSample": 12,
    "Attention": 20,
    "ConvTranspose": 6,
    "GatherElements": 6,
    "Unique": 6,
    "LSTM": 12,
    "GRU": 12,
    "RNN": 12,
}
"""Samples for each element type of the first operand; `ROUNDS_ELSE` of others. Two of them were often both at an edge
(one operand alone, K = 0), and which these are changes with what draws samples."""
ROUNDS_ELSE = 6

BLIND = frozenset(("Cast", "Shape", "Size"))
"""Operators of which a runtime may take an element type whose digits it does not keep."""
RANDOM = frozenset(("Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike"))
"""Operators whose numbers are others in each run: only what they are of is compared."""
FLOATS = (DType.FLOAT16, DType.FLOAT, DType.DOUBLE)

LIKE: Mapping[str, str] = {"Unsqueeze": "Squeeze"}
"""Operators of which no sample is drawn, and others that have the same kernels."""

HELD: Mapping[str, tuple[str, ...]] = {
    "openvino": ("If", "Loop", "Scan", "Dropout", "SequenceEmpty", "SequenceInsert", "ConcatFromSequence"),
    "tract": ("If", "Loop", "Scan", "Dropout"),
    "onnx-reference": tuple(sorted(name.rpartition("_")[0] or name for name in vars(ops) if name[0].isupper())),
}  # fmt: skip
"""Operators that a runtime says it has, and that are taken to have a kernel of any type where neither sample nor case
says which: those with bodies, sequences, random numbers and texts."""

SEEN: Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "tract": {
        "Range": {"T": ("tensor(int32)", "tensor(int64)")},
        "ConstantOfShape": {},
        "GatherND": {},
        "ScatterND": {},
        "BatchNormalization": {},
    },
}
"""Operators that models were seen to run with, and of which the samples ask more: operands that are no constants,
places that are counted from the end."""

CHUNK = 60
"""So many files are given to one process."""

VERSIONS = 2
"""So many versions of an operator are tried."""

TOLERANCE: Mapping[DType, float] = {DType.FLOAT16: 2e-2, DType.FLOAT: 1e-4, DType.DOUBLE: 1e-9}


class Plain(Drawn):
    """Samples without NaN, infinities and empty tensors, whose first operand is of one element type."""

    def __init__(self, seed: int, kind: DType) -> None:
        super().__init__(np.random.default_rng(seed), lambda op, at: kinds_of(op, at, kind))

    def array(self, kind: Any, shape: Sequence[int], low: float = -4, high: float = 4, special: bool = False) -> Any:
        """Numbers from low to high."""
        return super().array(kind, shape, low, high, False)

    def shape(self, low: int = 0, high: int = 4, least: int = 0, most: int = 4) -> tuple[int, ...]:
        """A shape of sizes from 1 on."""
        return super().shape(max(low, 1) if high else low, high, max(least, 1), max(most, 1))


def kinds_of(op: str, at: int, first: DType) -> tuple[DType, ...]:
    """The element types of an operand, where that of the first is settled."""
    kinds = tuple(k for k in schema_dtypes(op, at) if k in NUMPY)
    return (first,) if at == 0 and first in kinds else kinds


@attrs.frozen(eq=False)
class Probe:
    """One sample as a graph, at an opset: what is fed, what it gives, and which element types it has."""

    op: str
    since: int
    types: tuple[tuple[str, str], ...]
    text: str
    model: bytes
    feeds: Mapping[str, np.ndarray]
    expected: tuple[Any, ...]
    value: Value | None = None


def versions(op: str) -> dict[int, int]:
    """The versions of an operator from opset 13 on, each with the newest opset that has it."""
    return {row.since: opset for opset in range(OLDEST, OPSET + 1) if (row := row_at(op, opset)) is not None}


def casts() -> Iterator[Sample]:
    """A Cast from each element type to each."""
    for source in sorted(NUMPY):
        for to in sorted(NUMPY):
            numbers = np.array([[0, 1, 2], [3, 4, 5]]).astype(source.numpy)
            yield Sample((numbers,), {"to": int(to)})


def samples(name: str, kinds: Collection[DType]) -> Iterator[Sample]:
    """The samples of an entry of SAMPLES, in each element type."""
    op = name.partition(":")[0]
    if name == "Cast":
        yield from casts()
        return
    first = [k for k in schema_dtypes(op) if k in kinds] if row_at(op, OPSET) is not None else []
    for kind in first or [DType.FLOAT]:
        for seed in range(ROUNDS.get(op, ROUNDS_ELSE)):
            with contextlib.suppress(Exception):  # a strategy of Hypothesis, or a type for which there is no sample
                yield SAMPLES[name](Plain(seed + 1000 * int(kind), kind))


def probes(name: str, kinds: Collection[DType]) -> Iterator[Probe]:
    """The probes of an entry of SAMPLES, at each version of the operator."""
    op = name.partition(":")[0]
    for sample in samples(name, kinds):
        try:
            graph, arrays = graph_of(op, sample)
            with np.errstate(all="ignore"):
                expected = evaluate(graph, arrays)
        except Exception:  # what the operator does not take
            continue
        if all(isinstance(r.type, Tensor) for r in graph.results):
            yield from (
                p for s, o in versions(op).items() if (p := probe_at(op, s, o, graph, arrays, expected, sample))
            )


def case_probes(chosen: Sequence[str] = ()) -> Iterator[Probe]:
    """ONNX's node cases of operators that have no samples."""
    sampled = {name.partition(":")[0] for name in SAMPLES}
    for case in cases():
        plain = all(isinstance(x, np.ndarray) and x.dtype != object for x in (*case.inputs, *case.outputs))
        row = row_at(case.op, OPSET)
        if case.op in sampled or not plain or row is None or (chosen and case.op not in chosen):
            continue
        feeds = dict(zip((i.name for i in fed(case.model.graph)), case.inputs, strict=True))
        model = case.model.SerializeToString()
        yield Probe(case.op, row.since, (), case.name, model, feeds, case.outputs)


def graph_of(op: str, sample: Sample) -> tuple[Graph, list[np.ndarray]]:
    """The graph of a sample, sizes as constants, and what to feed it."""
    operands: list[Value | None] = []
    params: list[Value] = []
    arrays: list[np.ndarray] = []
    for at, array in enumerate(sample.inputs):
        if array is None:
            operands.append(None)
        elif at in SIZES.get(op, ()):
            operands.append(const(array))
        else:
            if not array.size or array.dtype == object:
                raise ValueError("empty")
            params.append(param(tensor(DType.of(array.dtype), *array.shape)))
            arrays.append(array)
            operands.append(params[-1])
    made = call(op, operands, dict(sample.attributes), outputs=sample.outputs)
    results = made if isinstance(made, tuple) else results_of(made)
    if op == "Dropout":
        raise ValueError("random")
    return Graph(tuple(params), tuple(r for r in results if r is not None)), arrays


def probe_at(op: str, since: int, opset: int, graph: Graph, arrays: Any, expected: Any, sample: Sample) -> Probe | None:
    """The probe of a version of an operator; None where that version does not have what the sample asks for."""
    row = row_at(op, opset)
    node = next((v for v in graph.order if v.op == op), None)
    if row is None or node is None:
        return None
    value = respelled_value(node, opset)
    if any(n not in row.attributes for n, _ in value.attributes) or len(value.inputs) > row.max_inputs:
        return None
    kinds = tuple(kind_of(v) for v in value.inputs)
    results = tuple(kind_of(r) for r in graph.results)
    found = {n: t for n, t in bindings(row, kinds, results).items() if n in row.types}
    if any(t not in row.types[n] for n, t in found.items()):
        return None
    try:
        proto = to_proto(graph, opset=opset)
    except Exception:  # what the opset cannot say
        return None
    if [n.op_type for n in proto.graph.node].count(op) != 1 or len(proto.graph.node) > 2:
        return None
    feeds = dict(zip((i.name for i in proto.graph.input), arrays, strict=True))
    return Probe(op, since, tuple(sorted(found.items())), str(sample), proto.SerializeToString(), feeds, expected, node)


def complaint(probe: Probe, answer: Answer) -> str:
    """What is wrong with an answer; empty where it agrees."""
    if answer.problem:
        return answer.problem
    for expected, actual in zip(probe.expected, answer.results, strict=True):
        wanted = np.asarray(expected)
        if wanted.dtype != actual.dtype or wanted.shape != actual.shape:
            return f"{actual.dtype}{list(actual.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
        off = TOLERANCE.get(DType.of(wanted.dtype))
        difference = compare(wanted, actual, rtol=off, atol=off)
        if difference is not None and probe.op not in RANDOM:
            return str(difference)
    return ""


def measured(
    runtime: str, names: Sequence[str], more: Sequence[str] = (), kinds: Collection[DType] = NUMPY
) -> dict[str, list[list[Any]]]:
    """The kernels that a runtime was found to have: for each operator rows of first version, last, and types."""
    provider = target_of(runtime_named(runtime).target).provider
    pending = [*(p for name in names for p in probes(name, kinds)), *case_probes(more)]
    pending = [p for p in pending if p.value is None or other_of(p.value, provider) is None]
    found: dict[str, list[list[Any]]] = {}
    for _ in range(VERSIONS):
        newest = {op: max(p.since for p in pending if p.op == op) for op in {p.op for p in pending}}
        now = [p for p in pending if p.since == newest[p.op]]
        print(f"{runtime}: {len(now)} probes", file=sys.stderr, flush=True)
        found |= rows_of(answered(runtime, now))
        pending = [p for p in pending if p.op not in found and p.since < newest[p.op]]
        if not pending:
            break
    return kernels_without(found, narrowed_types(runtime))


def narrowed_types(runtime: str) -> frozenset[str]:
    """The element types that a runtime computes in a narrower one, as ONNX writes them: OpenVINO float64 in float32.

    What random samples say of those is chance, since a comparison or a rounded number is right in either.
    """
    found = set[str]()
    for kind in FLOATS:
        numbers = (1 + np.arange(4) * np.finfo(kind.numpy).eps).astype(kind.numpy)
        x = param(tensor(kind, 4))
        proto = to_proto(Graph((x,), (call("Neg", [x]),)), opset=OLDEST)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "digits.onnx"
            path.write_bytes(proto.SerializeToString())
            ((answer,),) = run_files([(path, [{proto.graph.input[0].name: numbers}])], runtime, seconds=300)
        if not answer.problem and not np.array_equal(answer.results[0], -numbers):
            found.add(TYPE_STRINGS[kind])
    return frozenset(found)


def kernels_without(kernels: Mapping[str, list[list[Any]]], kinds: Collection[str]) -> dict[str, list[list[Any]]]:
    """The kernels without some element types, but for operators that compute no number of them."""
    found: dict[str, list[list[Any]]] = {}
    for op, rows in kernels.items():
        left = [
            [first, last, {n: [t for t in types if op in BLIND or t not in kinds] for n, types in bound.items()}]
            for first, last, bound in rows
        ]
        left = [row for row in left if all(row[2].values())]
        if left:
            found[op] = left
    return found


def answered(runtime: str, probes: Sequence[Probe]) -> dict[Any, list[str]]:
    """What is wrong with each of some probes, by operator, version and element types; what is wrong is printed."""
    found: dict[Any, list[str]] = defaultdict(list)
    for start in range(0, len(probes), CHUNK):
        chunk = probes[start : start + CHUNK]
        with tempfile.TemporaryDirectory() as folder:
            jobs: list[Any] = []
            for at, probe in enumerate(chunk):
                path = Path(folder) / f"{at}.onnx"
                path.write_bytes(probe.model)
                jobs.append((path, [probe.feeds]))
            for probe, (answer,) in zip(chunk, run_files(jobs, runtime, seconds=300), strict=True):
                told = complaint(probe, answer)
                found[probe.op, probe.since, probe.types].append(told)
                if told:
                    print(f"{probe.op}-{probe.since} {probe.text[:160]}: {told[-200:]}", flush=True)
    return found


def rows_of(good: Mapping[Any, Sequence[str]]) -> dict[str, list[list[Any]]]:
    """The rows of the table: for each operator one, with the types that each of its type variables may be."""
    told: dict[str, dict[tuple[str, str], list[str]]] = {}
    last: dict[str, int] = {}
    for (op, since, types), complaints in good.items():
        last[op] = since
        for pair in types or (("", ""),):
            told.setdefault(op, {}).setdefault(pair, []).extend(complaints)
    found: dict[str, list[list[Any]]] = {}
    for op, pairs in sorted(told.items()):
        kept = {pair for pair, each in pairs.items() if 3 * each.count("") >= len(each)}
        row = row_at(op, OPSET)
        drawn = {n: {t for m, t in pairs if m == n} for n in dict.fromkeys(n for n, _ in pairs if n)}
        others = {n: PLAIN.intersection(row.types[n]) - each if row else set[str]() for n, each in drawn.items()}
        bound = {n: sorted({*others[n], *(t for m, t in kept if m == n)}) for n in drawn}
        if kept and all(bound.values()):
            found[op] = [[1, last[op], bound]]
    return found


def completed(runtime: str, kernels: Mapping[str, list[list[Any]]]) -> dict[str, list[list[Any]]]:
    """The kernels, with those of operators of which nothing was drawn."""
    sampled = {name.partition(":")[0] for name in SAMPLES} - {"Dropout"}
    found = dict(kernels)
    for op in HELD.get(runtime, ()):
        row = row_at(op, OPSET)
        if row is not None and op not in sampled:
            found.setdefault(op, [[1, row.since, {}]])
    for op, bound in SEEN.get(runtime, {}).items():
        row = row_at(op, OPSET)
        if row is not None:
            found[op] = [[1, row.since, {name: list(types) for name, types in bound.items()}]]
    for op, other in LIKE.items():
        row = row_at(op, OPSET)
        if row is not None and other in found:
            found[op] = [[1, row.since, bound] for _, _, bound in found[other]]
    return found


def main(arguments: Sequence[str]) -> None:
    """Measures runtimes, or some operators of them, and writes the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.tables.runtime_kernels", description=__doc__)
    parser.add_argument("runtimes", nargs="+")
    parser.add_argument("--only", default="", help="operators, with commas between: the rows of others stay")
    parser.add_argument("--dtypes", default="", help="element types, f32,i64 for instance; all without")
    given = parser.parse_args(arguments)
    kinds = frozenset(k for k in NUMPY if not given.dtypes or k.short in given.dtypes.split(","))
    names = [n for n in SAMPLES if not given.only or n.partition(":")[0] in given.only.split(",")]
    for name in given.runtimes:
        runtime = runtime_named(name)
        path = FOLDER / f"kernels_{name.replace('-', '_')}.json"
        kept = json.loads(path.read_text(encoding="utf-8"))["kernels"] if given.only and path.exists() else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept |= measured(name, names, given.only.split(",") if given.only else (), kinds)
        kept = completed(name, kept)
        table = {"runtime": name, "version": runtime.require(), "opset": OPSET, "kernels": dict(sorted(kept.items()))}
        lines = ",\n".join(f"  {json.dumps(op)}: {json.dumps(rows)}" for op, rows in table.pop("kernels").items())
        head = json.dumps(table)[:-1]
        path.write_text(f'{head}, "kernels": {{\n{lines}\n}}}}\n', encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
