"""What plain operators cost on ONNX Runtime's CPU provider, in one thread: `python benchmarks/operator_costs.py`.

Each operator runs in graphs of several copies of it, below an Abs and over inputs of their own, at several sizes, in
turns with graphs of the Abs alone; of many runs the tenth percentile of the CPU times counts. A line is laid through
them: microseconds of each call, nanoseconds of each element (of the result, or the first operand if it has more), and
of each multiplication for products and convolutions. The lines go to passes/targets/operator_costs.json, by which
`passes.saturate` chooses.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).parents[1]))

import irkit
from benchmarks.kernel_costs import LOW, PROVIDER, Runner
from irkit import Graph, Value, const, op, param, tensor
from passes.targets.operator_costs import multiplications, places

TABLE = Path(__file__).resolve().parent.parent / "passes" / "targets" / "operator_costs.json"
COPIES = 8
SQUARES = (8, 64, 320)
"""Rows and columns of what is computed element by element, and of matrices."""

PLAIN = (
    "Abs", "Neg", "Relu", "Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Erf", "Reciprocal", "Sin", "Cos", "Floor", "Round",
    "Gelu", "Softplus", "Sign", "LeakyRelu", "Elu", "HardSwish",
)  # fmt: skip
PAIRS = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Less", "Greater", "Equal", "PRelu", "Sum", "Mean", "MatMul")

Form = Callable[[Value, Value], Value]


def forms() -> dict[str, Form]:
    """What is measured of two square matrices, by operator."""
    found: dict[str, Form] = {name: lambda x, y, name=name: irkit.build.call(name, [x]) for name in PLAIN}
    found |= {name: lambda x, y, name=name: irkit.build.call(name, [x, y]) for name in PAIRS}
    return found | {
        "Gemm": lambda x, y: op.Gemm(x, y, np.ones(x.shape[1], np.float32)),
        "Transpose": lambda x, y: op.Transpose(x, perm=(1, 0)),
        "Reshape": lambda x, y: op.Reshape(x, [-1]),
        "Unsqueeze": lambda x, y: op.Unsqueeze(x, [0]),
        "Cast": lambda x, y: op.Cast(x, to=irkit.DType.INT32),
        "Concat": lambda x, y: op.Concat(x, y, axis=1),
        "Split": lambda x, y: op.Concat(*op.Split(x, num_outputs=2, axis=1), axis=1),
        "Split of four": lambda x, y: op.Concat(*op.Split(x, num_outputs=4, axis=1), axis=1),
        "Slice": lambda x, y: op.Slice(x, [0], [x.shape[1] // 2], [1]),
        "Gather": lambda x, y: op.Gather(x, np.arange(x.shape[0])[::-1].copy(), axis=0),
        "Expand": lambda x, y: op.Expand(x, [2, *x.shape]),
        "Where": lambda x, y: op.Where(np.tri(x.shape[0], dtype=bool), x, y),
        "Softmax": lambda x, y: op.Softmax(x, axis=-1),
        "LayerNormalization": lambda x, y: op.LayerNormalization(x, np.ones(x.shape[1], np.float32), axis=-1),
        "ReduceSum": lambda x, y: op.ReduceSum(x, [-1]),
        "ReduceMean": lambda x, y: op.ReduceMean(x, [-1]),
        "ReduceMax": lambda x, y: op.ReduceMax(x, [-1]),
        "Clip": lambda x, y: op.Clip(x, np.float32(0), np.float32(1)),
        "Pad": lambda x, y: op.Pad(x, [1, 1, 1, 1]),
        "Conv": lambda x, y: op.Conv(op.Reshape(x, [1, 1, *x.shape]), np.ones((8, 1, 3, 3), np.float32)),
    }


def runner(form: Form | None, size: int) -> tuple[Runner, Value]:
    """Copies of an operator, each over an input of its own and below an Abs; of the Abs alone, without a form."""
    rng = np.random.default_rng(size)
    params = [param(tensor("f32", size, size)) for _ in range(COPIES + 1)]
    made = [x if form is None else form(x, params[-1]) for x in params[:COPIES]]
    results = tuple(op.Abs(v if v.dtype.is_float else op.Cast(v, to=irkit.DType.FLOAT)) for v in made)
    arrays = [rng.uniform(0.1, 1, (size, size)).astype(np.float32) for _ in params]
    return Runner(Graph(tuple(params), results), arrays), made[0]


def measured(form: Form, size: int, seconds: float) -> tuple[float, Value]:
    """Seconds of one operator at a size, beside a graph without it, and the operator."""
    (whole, made), (empty, _) = runner(form, size), runner(None, size)
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 9:
        times[0].append(whole.time())
        times[1].append(empty.time())
    took, alone = (float(np.percentile(each, LOW)) for each in times)
    return max(1e-8, (took - alone) / COPIES), made


def main() -> None:
    """Measures and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="operators to measure; the rest stays")
    parser.add_argument("--seconds", type=float, default=0.15, help="for each operator and size")
    arguments = parser.parse_args()
    known = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    lines: dict[str, dict[str, float]] = known.get("operators", {})
    for name, form in forms().items():
        if arguments.only and name not in arguments.only:
            continue
        rows, seconds, work = [], [], 0
        for size in SQUARES:
            took, made = measured(form, size, arguments.seconds)
            work = multiplications(made)
            rows.append([1.0, float(work or places(made))])
            seconds.append(took)
        weights = 1 / np.array(seconds)
        fitted = np.linalg.lstsq(np.array(rows) * weights[:, None], np.array(seconds) * weights, rcond=None)[0]
        call, each = max(1e-7, float(fitted[0])), max(1e-13, float(fitted[1]))
        kind = "multiplication" if work else "element"
        lines[name] = {"call": round(1e6 * call, 3), kind: float(f"{1e9 * each:.4g}")}
        print(name, lines[name], flush=True)
    if not arguments.only:  # what is not float was cast back, by a Cast each
        lines["Cast"] = {name: each / 2 for name, each in lines["Cast"].items()}
        for name in ("Less", "Greater", "Equal"):
            lines[name] = {key: round(max(0.01, t - lines["Cast"][key]), 4) for key, t in lines[name].items()}
    several = lines.pop("Split of four", None)
    if several is not None:  # what the Concat takes that puts the parts together again is taken off
        joined, two = lines["Concat"], lines["Split"]
        each = max(0.0, (several["call"] - two["call"]) / 2)
        lines["Split"] = {
            "call": round(max(0.1, two["call"] - joined["call"] - 2 * each), 3),
            "element": float(f"{max(0.01, two['element'] - joined['element']):.4g}"),
            "result": round(each, 3),
        }
    content = {
        "onnxruntime": onnxruntime.__version__,
        "provider": PROVIDER,
        "dtype": const(1.0).dtype.short,
        "operators": dict(sorted(lines.items())),
    }
    TABLE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
