"""Every node case of ONNX at every opset that irkit writes: legalized, written, checked, run, compared.

`python -m tests.tables.opsets --page docs/measured/opsets.md` does them all; the test suite does a sample.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from onnx.reference import ReferenceEvaluator

from irkit.checking.comparison import compare
from irkit.core.ir import Graph, Value, param
from irkit.errors import RewriteError, SerializeError
from irkit.onnx.sessions import session
from irkit.onnx.writing.models import to_proto
from passes.preparing.prepare import prepare
from passes.targets import OPSET, target_of
from passes.targets.targets import OLDEST
from tests.support.node_cases import Case, built, cases, fed

ROOT = Path(__file__).resolve().parents[2]
RUNTIME, SPEC = "onnxruntime-cpu", "onnx"


@attrs.frozen
class Outcome:
    """What became of a case at an opset: "passed", "refused" or "failed"; where it ran; and why it did not pass."""

    case: str
    op: str
    opset: int
    status: str
    ran: str = ""
    why: str = ""


@attrs.frozen(eq=False)
class Ready:
    """A case as a graph, with its inputs and the results that are expected."""

    case: Case
    graph: Graph
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


def ready(case: Case) -> Ready:
    """The case with operands of sizes and axes as constants; draws of random numbers expect what is drawn."""
    params: list[Value] = []
    taken: list[str] = []

    def make(name: str, type_: Any) -> Value:
        params.append(param(type_))
        taken.append(name)
        return params[-1]

    results = built(case, make)
    kept = [(v, data) for v, data in zip(results, case.outputs, strict=True) if v is not None]
    graph = Graph(tuple(params), tuple(v for v, _ in kept))
    names = [info.name for info in fed(case.model.graph)]
    inputs = dict(zip(names, case.inputs, strict=True))
    return Ready(case, graph, tuple(inputs[name] for name in taken), tuple(data for _, data in kept))


RANDOM = ("bernoulli", "dropout", "training_dropout")
"""Cases of which the numbers are drawn: only types and shapes are compared."""


def outcome(ready: Ready, opset: int) -> Outcome:
    """The case at an opset: on ONNX Runtime, or on ONNX's reference evaluator where ONNX Runtime has no kernel, or
    errs on the very model that ONNX gives for the case."""
    made = Outcome(ready.case.name, ready.case.op, opset, "refused")
    reasons = []
    for target in (RUNTIME, SPEC):
        try:
            legal = prepare(ready.graph, target_of(target, opset))
        except RewriteError as error:
            reasons.append((error.ir or error.what).splitlines()[0])
            continue
        except Exception as error:
            return attrs.evolve(made, status="failed", ran=target, why=f"legalize: {error!r}")
        why = written(ready, legal, opset, target)
        if target == RUNTIME and why and not runtime_is_right(ready):
            reasons.append(why)
            continue
        if target == SPEC and why and is_gap(why):
            return attrs.evolve(made, status="unrun", why=why)
        return attrs.evolve(made, status="failed" if why else "passed", ran=target, why=why)
    return attrs.evolve(made, why=reasons[-1])


@lru_cache(maxsize=8)
def runtime_is_right(ready: Ready) -> bool:
    """True where ONNX Runtime gives what is expected for the model that ONNX gives for the case."""
    proto = ready.case.model
    return not difference(attrs.evolve(ready, inputs=ready.case.inputs), proto, RUNTIME, check=False)


@lru_cache(maxsize=8)
def checker_is_right(ready: Ready) -> bool:
    """True where ONNX's checker infers for the model that ONNX gives for the case what it gives."""
    try:
        onnx.checker.check_model(ready.case.model, full_check=True)
    except Exception:
        return False
    return True


GAPS = ("NotImplementedError", "No implementation for", "RuntimeContextError", "RuntimeImplementationError", "Pillow")


def is_gap(why: str) -> bool:
    """True where the reference evaluator lacks an operator or element type, rather than computing something else."""
    return any(text in why for text in GAPS)


def written(ready: Ready, legal: Graph, opset: int, target: str) -> str:
    """What is wrong with the file of a legalized graph; empty where nothing is."""
    try:
        proto = to_proto(legal, opset=opset)
    except SerializeError as error:
        return f"to_proto: {error}"
    return difference(ready, proto, target)


def difference(ready: Ready, proto: onnx.ModelProto, target: str, check: bool = True) -> str:
    """What is wrong with a model for a case; empty where nothing is."""
    try:
        if check:
            onnx.checker.check_model(proto, full_check=checker_is_right(ready))
        return wrong(ready, proto, target)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"


def wrong(ready: Ready, proto: onnx.ModelProto, target: str) -> str:
    """In what the results of a model differ from those that are expected. Raises what the runtime raises."""
    if target == RUNTIME:
        got = tuple(session(proto).run(ready.inputs))
    else:
        names = [info.name for info in fed(proto.graph)]
        feeds = {name: plain(data) for name, data in zip(names, ready.inputs, strict=True)}
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = tuple(ReferenceEvaluator(proto).run(None, feeds))
    if any(word in ready.case.name for word in RANDOM):
        same = all(np.shape(a) == np.shape(b) for a, b in zip(got, ready.outputs, strict=True))
        return "" if same else "other shapes"
    rtol, atol = tolerance(ready)
    found = compare(ready.outputs, got, rtol=rtol, atol=atol)
    return str(found) if found is not None else ""


def plain(data: Any) -> Any:
    """Data as the reference evaluator takes it."""
    return [np.asarray(each) for each in data] if isinstance(data, list) else data


def tolerance(ready: Ready) -> tuple[float, float]:
    """(relative, absolute): loose where a value of 16 bits or less stands for a real number."""
    kinds = {np.asarray(a).dtype for a in (*ready.inputs, *ready.outputs) if a is not None and not isinstance(a, list)}
    if np.dtype(ml_dtypes.bfloat16) in kinds:
        return 4e-2, 2e-2
    return (2e-2, 1e-2) if np.dtype(np.float16) in kinds else (1e-3, 1e-4)


OTHER = ("_expanded", "opset13", "opset18")
"""Words in the names of cases that are those of another operator, or of an older opset's words."""


@lru_cache(maxsize=1)
def everything() -> tuple[Case, ...]:
    """The cases, without those that ONNX wrote out by functions: their operators have cases of their own."""
    return tuple(case for case in cases() if not any(word in case.name for word in OTHER))


def converted(ready: Ready, opset: int) -> str:
    """What `onnx.version_converter` makes of the same case, by irkit's file: "passed", "refused", "failed", "unrun"."""
    try:
        given = to_proto(prepare(ready.graph, target_of(SPEC, OPSET)), opset=OPSET)
        made = onnx.version_converter.convert_version(given, opset)
    except Exception:
        return "refused"
    if not difference(ready, made, RUNTIME):
        return "passed"
    why = difference(ready, made, SPEC)
    return "unrun" if why and is_gap(why) else "failed" if why else "passed"


def table(found: list[Outcome], other: dict[int, Counter[str]]) -> str:
    """The counts for each opset, and what is refused."""
    rows = []
    for opset in sorted({o.opset for o in found}):
        own = [o for o in found if o.opset == opset]
        ran = Counter(o.ran if o.status == "passed" else o.status for o in own)
        counts = (ran[RUNTIME], ran[SPEC], ran["refused"], ran["unrun"], ran["failed"])
        theirs = tuple(other.get(opset, Counter())[k] for k in ("passed", "refused", "failed"))
        rows.append(f"| {opset} | " + " | ".join(map(str, counts + theirs)) + " |")
    refused: dict[str, set[int]] = {}
    for o in found:
        if o.status == "refused":
            refused.setdefault(o.op, set()).add(o.opset)
    lines = [f"| {name} | {max(opsets)} |" for name, opsets in sorted(refused.items())]
    return PAGE.format(
        cases=len({o.case for o in found}),
        passed=sum(o.status == "passed" for o in found),
        pairs=len(found),
        refused=sum(o.status == "refused" for o in found),
        failed=sum(o.status == "failed" for o in found),
        rows="\n".join(rows),
        lines="\n".join(lines),
        onnx=onnx.__version__,
        runtime=onnxruntime.__version__,
    )


PAGE = """# Opsets, measured

<!-- written by `make opsets` -->

Each of ONNX's {cases} node cases whose operator is in irkit's vocabulary is built, legalized for each opset, written,
checked by `onnx.checker` with shape inference, run, and compared with the results that ONNX gives for it: {pairs} pairs
of a case and an opset. {passed} pass, {refused} are refused by name, {failed} fail; with onnx {onnx} and ONNX Runtime
{runtime}.

A case runs on ONNX Runtime, or on ONNX's reference evaluator where ONNX Runtime has no kernel for it or errs on ONNX's
own file of the case too. "Not run" is what neither runs. The columns on the right are the same cases through
`onnx.version_converter`, from irkit's file at the newest opset: "refused" is where it raises, "failed" where the file
is not valid, does not run, or gives other numbers.

| opset | ONNX Runtime | reference | refused | not run | failed | converter: passed | refused | failed |
|---|---|---|---|---|---|---|---|---|
{rows}

## What is refused

Operators with a case that some opset cannot express, and the newest such opset: element types, sequences and strings
that the opset does not have at all, and operators that no others express.

| operator | up to opset |
|---|---|
{lines}
"""


def main() -> None:
    """Measures all that the arguments ask for, and writes the page where that is everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--opsets", default=",".join(map(str, range(OLDEST, OPSET + 1))))
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--json", default="", help="where to write every outcome")
    parser.add_argument("--page", default="", help="where to write the page, with what onnx.version_converter does")
    given = parser.parse_args()
    found: list[Outcome] = []
    other: dict[int, Counter[str]] = {}
    for case in [c for c in everything() if given.only in c.name]:
        made = ready(case)
        for opset in map(int, given.opsets.split(",")):
            found.append(outcome(made, opset))
            if given.page:
                other.setdefault(opset, Counter())[converted(made, opset)] += 1
            if found[-1].status == "failed":
                print(f"FAILED {opset} {case.name}: {found[-1].why}", file=sys.stderr, flush=True)
    print(Counter(o.status for o in found))
    if given.json:
        Path(given.json).write_text(json.dumps([attrs.asdict(o) for o in found]))
    if given.page:
        Path(given.page).write_text(table(found, other))
    sys.exit(any(o.status == "failed" for o in found))


if __name__ == "__main__":
    main()
