"""What fused operators cost on ONNX Runtime beside what they stand for: `python benchmarks/kernel_costs.py`.

Each case is built twice, as irkit graphs: fused, and in the plain forms that irkit would write without the fusion. Both
run on ONNX Runtime's CPU provider with default session options, so with ONNX Runtime's own fusions, in one thread, in
turns; of each the tenth percentile of the CPU times of many runs counts, and of several rounds the median. A graph
holds several copies of a case, on inputs of their own, so that what a run costs by itself counts for little. The
ratios fused by plain go to passes/targets/costs.json; what they say about a fusion is decided in
passes/targets/costs.py. A case is measured in every element type of floating-point numbers for which ONNX Runtime has
the kernel, be it between casts of its own. `--only NAME` and `--dtype f64` measure some of it and leave the rest as it
is.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).parents[1]))

import irkit
from benchmarks.kernel_forms import DTYPES, Case, Form, Maker, Sizes
from irkit.core.ir import Graph, Value
from irkit.core.types import DType
from irkit.core.walk import post_order
from irkit.errors import IrkitError
from irkit.onnx.writing.materialize import materialize_dims
from irkit.ops.runtime_table import is_contrib
from passes.legal.legalize import legalize
from passes.preparing.group_products import group_products
from passes.preparing.steer import steer
from passes.targets import Target, target_of
from passes.targets.costs import fusion_of

TABLE = Path(__file__).resolve().parent.parent / "passes" / "targets" / "costs.json"
PLAIN = target_of("onnxruntime-cpu")
CONTRIB = target_of("onnxruntime-cpu+com.microsoft")
PROVIDER = "CPUExecutionProvider"
LOW = 10
"""The percentile of times that counts: nearly the least, which itself is now and then a slip of the clock."""


def graph_of(
    form: Form, sizes: Sizes, dtype: str, target: Target | None, copies: int
) -> tuple[Graph, list[np.ndarray], Value]:
    """Copies of a form in one graph, made ready for a target or, without one, as they stand; what to feed it; and the
    result of the first copy."""
    maker = Maker(sizes, dtype)
    results = []
    for copy in range(copies):
        maker.seed = 1000 * copy
        found = form(maker)
        results += found if isinstance(found, tuple) else (found,)
    graph = Graph(tuple(maker.params), tuple(results))
    ready = graph if target is None else group_products(steer(legalize(graph, target), target), target)
    return materialize_dims(ready), maker.arrays, results[0]


class Runner:
    """One graph, ready to run again and again on the same inputs."""

    def __init__(self, graph: Graph, arrays: list[np.ndarray]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        data = irkit.to_proto(graph, ir_version=11).SerializeToString()
        self.session = onnxruntime.InferenceSession(data, options, providers=[PROVIDER])
        self.binding = self.session.io_binding()
        self.kept = [onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(a, int(DType.of(a.dtype))) for a in arrays]
        for place, value in zip(self.session.get_inputs(), self.kept, strict=True):
            self.binding.bind_ortvalue_input(place.name, value)
        for place in self.session.get_outputs():
            self.binding.bind_output(place.name, "cpu")

    def results(self) -> list[np.ndarray]:
        """What it computes."""
        self.session.run_with_iobinding(self.binding)
        return [as_array(v) for v in self.binding.get_outputs()]

    def time(self) -> float:
        """CPU seconds of one run."""
        start = time.thread_time()
        self.session.run_with_iobinding(self.binding)
        return time.thread_time() - start


def as_array(value: Any) -> np.ndarray:
    """What an OrtValue holds. ONNX Runtime makes no numpy array of bfloat16: its bytes are copied."""
    if value.element_type() != int(DType.BFLOAT16):
        return value.numpy()
    count = int(np.prod(value.shape()))
    held = (ctypes.c_uint16 * count).from_address(value.data_ptr())
    return np.array(held, np.uint16).view(DType.BFLOAT16.numpy).reshape(value.shape())


def measured(case: Case, sizes: Sizes, dtype: str, seconds: float, show: bool = False) -> tuple[str, float]:
    """The name of a case, and the time of its fused form by that of its fastest plain one."""
    forms = [(case.fused, None if case.name else CONTRIB), *((form, PLAIN) for form in case.plain)]
    made = [graph_of(form, sizes, dtype, target, case.copies) for form, target in forms]
    runners = [Runner(graph, arrays) for graph, arrays, _ in made]
    wanted = runners[0].results()
    for other in runners[1:]:
        for a, b in zip(wanted, other.results(), strict=True):
            x, y = a.astype("f4"), b.astype("f4")
            allowed = (0.1 if DTYPES[dtype].bits == 16 else 5e-3) * np.abs(x).max(initial=0.01)  # sums of many products
            np.testing.assert_allclose(x, y, rtol=0, atol=allowed)
    times: list[list[float]] = [[] for _ in runners]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for index, runner in enumerate(runners):
            times[index] += runner.time(), runner.time()
    least = [float(np.percentile(each, LOW)) for each in times]
    if show:
        print("   ", *(f"{1e6 * t / case.copies:.1f}" for t in least), "microseconds", flush=True)
    return named(case, made[0][2]), least[0] / min(least[1:])


def dtypes_of(case: Case) -> list[str]:
    """The element types in which the fused form runs, by its own kernel or between ONNX Runtime's own casts; those of
    what ONNX Runtime has no kernel for, and expands by ONNX's definition, are all but the last."""
    sizes, found = next(iter(case.sizes.values())), []
    for dtype in DTYPES:
        try:
            made = case.fused(Maker(sizes, dtype))
        except IrkitError:
            continue  # the operator does not take that element type
        if not any(CONTRIB.problem(v) for v in post_order(made if isinstance(made, tuple) else (made,))):
            found.append(dtype)
    return found or [*DTYPES][:-1]


def named(case: Case, made: Value) -> str:
    """What a case is called: after the fused operator that its result comes from."""
    while not case.name and not is_contrib(made.op):
        made = made.inputs[0]  # type: ignore[assignment]
    return case.name or fusion_of(made)


def main() -> None:
    """Measures and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="part of the name of the cases to measure")
    parser.add_argument("--dtype", action="append", default=[], choices=list(DTYPES), help="element types to measure")
    parser.add_argument("--show", action="store_true", help="print the time of each form")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each ratio in each round")
    parser.add_argument("--rounds", type=int, default=3, help="how often all is measured; the medians count")
    arguments = parser.parse_args()
    from benchmarks.kernel_cases import CASES

    known = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    same = known.get("onnxruntime") == onnxruntime.__version__ and known.get("provider") == PROVIDER
    ratios: dict[str, Any] = known["ratios"] if same else {}
    found: dict[tuple[str, str, str], list[float]] = {}
    for _ in range(arguments.rounds):
        for case, dtype in ((c, d) for c in CASES for d in dtypes_of(c) if d in (arguments.dtype or DTYPES)):
            for size_class, sizes in case.sizes.items():
                made = case.fused(Maker(sizes, dtype))
                name = named(case, made[0] if isinstance(made, tuple) else made)
                if arguments.only and not any(part in name for part in arguments.only):
                    continue
                _, ratio = measured(case, sizes, dtype, arguments.seconds, arguments.show)
                several = found.setdefault((name, dtype, size_class), [])
                several.append(ratio)
                ratios.setdefault(name, {}).setdefault(dtype, {})[size_class] = round(statistics.median(several), 3)
                print(f"{name} {dtype} {size_class}: {ratio:.3f}", flush=True)
        write(ratios)


def write(ratios: dict[str, Any]) -> None:
    """The table as a file, sorted."""
    content = {"onnxruntime": onnxruntime.__version__, "provider": PROVIDER, "ratios": dict(sorted(ratios.items()))}
    TABLE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
