"""Programs of torch at other opsets: captured and optimized once, then legalized, written, checked, run and compared.

`python -m tests.support.at_opsets` takes every model of the zoo and the first sample of each of torch's operators to
every opset that irkit writes, on each target; the test suite takes a sample.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, product
from typing import Any

import attrs
import onnx
import torch

from irkit.core.ir import Graph
from irkit.errors import RewriteError
from lowering.capture.capture import capture
from lowering.fold.assertions import Watched
from lowering.fold.lower import Lowered, lower_captured
from lowering.program.program import Program
from lowering.program.to_onnx import report_of
from passes import optimize
from passes.preparing.prepare import prepare
from passes.targets import OPSET, target_of
from passes.targets.targets import OLDEST
from tests.lowering.aten.oracle import OPS
from tests.tables.coverage.measure import (
    DTYPES,
    NOT_DETERMINED,
    OTHERS,
    Failed,
    Key,
    cases_of,
    clones,
    compared_on,
    determined,
    dynamic_axes,
    other_sizes,
)
from tests.zoo.case import Case
from tests.zoo.cases import CASES
from tests.zoo.outcome import measured

TARGETS = ("onnxruntime-cpu", "onnxruntime-cpu+com.microsoft", "onnx")
"""The last is only written and checked: nothing says what runs it."""


@attrs.frozen(eq=False)
class Optimized:
    """A program before legalization; `compare` says what is wrong with an exported one, nothing where it is right."""

    name: str
    low: Lowered
    graph: Graph
    model: Any
    compare: Callable[[Program], str]

    def at(self, target: str, opset: int) -> Program:
        """The program for a target and an opset. Raises RewriteError where the opset cannot say it."""
        chosen = target_of(target, opset)
        ready = prepare(self.graph, chosen)
        return Program(Watched(ready), self.low, opset, report_of(self.low, ready, chosen, {}, {}), self.model)


def of_model(case: Case) -> Optimized:
    """A model of the zoo, compared at the sizes it is captured at and at the first others."""
    model, args, kwargs = case.build()
    low = lower_captured(capture(model, args, kwargs, dynamic_shapes=case.dynamic_shapes))

    def compare(program: Program) -> str:
        found = (measured(program, case, sizes)[2] for sizes in (case.traced, *case.assignments[:1]))
        return next(filter(None, found), "")

    return Optimized(case.name, low, optimize(low.graph), model, compare)


def of_operator(key: Key) -> Optimized | None:
    """The first sample of an operator, as the coverage table takes it; None where none can be compared."""
    torch.manual_seed(0)
    if OPS[key.op].name in NOT_DETERMINED or DTYPES[key.dtype] not in OPS[key.op].dtypes:
        return None
    dynamic = key.mode == "dynamic"
    cases = tuple(islice(cases_of(key), OTHERS if dynamic else 1))
    try:
        determined(cases[0])
        case, model = cases[0], cases[0].model.eval()
        low = lower_captured(capture(model, clones(case.args), dynamic_shapes=dynamic_axes(case) if dynamic else None))
    except Exception:  # what is not captured or not lowered is the business of `tests.tables.coverage`
        return None

    def compare(program: Program) -> str:
        try:
            compared_on(program, case, case.args, "")
            for args in other_sizes(case, cases, program) if dynamic else ():
                compared_on(program, case, args, f"at {[list(a.shape) for a in args]}: ")
        except Failed as failed:
            return str(failed.args[1])
        return ""

    return Optimized(f"{key.op} {key.dtype} {key.mode}", low, optimize(low.graph), model, compare)


def problem(given: Optimized, target: str, opset: int) -> str:
    """What is wrong with a program at an opset, in no words where nothing is. An opset may refuse it where the error
    names a newer one to ask for: "refused: ..." then."""
    try:
        program = given.at(target, opset)
    except RewriteError as error:
        newer = error.hint.removeprefix("ask for opset ")
        return f"{'refused: ' if newer.isdigit() and int(newer) > opset else ''}{error}"
    except Exception as error:
        return f"legalize: {type(error).__name__}: {error}"
    try:
        onnx.checker.check_model(program.proto, full_check=True)
        return given.compare(program) if target != TARGETS[-1] else ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def everything(operators: bool) -> Iterator[Callable[[], Optimized | None]]:
    """What makes each program: the models, and the operators where `operators`."""
    for case in CASES:
        if not case.refused:
            yield partial(of_model, case)
    for op in OPS if operators else ():
        for mode in ("static", "dynamic"):
            yield partial(of_operator, Key(op, "float32", mode))


def swept(made: Iterable[Callable[[], Optimized | None]], opsets: Sequence[int]) -> Counter[str]:
    """How many pairs of a program and an opset, on all targets, passed, were refused, and failed, which are printed."""
    found: Counter[str] = Counter()
    for make in made:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = make()
            if given is None:
                continue
            for target, opset in product(TARGETS, opsets):
                why = problem(given, target, opset)
                found["refused" if why.startswith("refused") else "failed" if why else "passed"] += 1
                if why:
                    print(f"{given.name} at opset {opset} on {target}: {' '.join(why.split())[:400]}", flush=True)
    return found


def main() -> None:
    """Measures what the arguments ask for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--opsets", default=",".join(map(str, range(OLDEST, OPSET + 1))))
    parser.add_argument("--models-only", action="store_true")
    given = parser.parse_args()
    found = swept(everything(not given.models_only), [int(n) for n in given.opsets.split(",")])
    print(dict(found))
    sys.exit(bool(found["failed"]))


if __name__ == "__main__":
    main()
