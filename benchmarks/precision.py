"""Float16 by irkit and by onnxruntime.transformers, of the same files: casts added, bytes, errors against float32.

`python benchmarks/precision.py` builds small models of several kinds, writes each in float32 at two opsets, has both
convert the file with inputs and outputs left in float32, and runs all three on ONNX Runtime. Stress models hold what
float16 is known to break on. Times are processor time, the least of three.

ONNX Runtime's CPU has few kernels of float16: it computes most in float32, and leaves out the casts between. "strict"
is the error where each operator gives float16 as the file says, as an accelerator does: by irkit's evaluator.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnx
import torch
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import irkit  # noqa: E402
from irkit.build import const, op  # noqa: E402
from irkit.core.ir import Graph, param  # noqa: E402
from irkit.core.types import tensor  # noqa: E402
from irkit.onnx.sessions import session  # noqa: E402
from passes import optimize, prepare  # noqa: E402
from passes.precision import mixed_precision  # noqa: E402

OPSETS = (17, 26)


@attrs.frozen(eq=False)
class Subject:
    """A float32 graph with inputs for it."""

    name: str
    graph: Graph
    feeds: Sequence[np.ndarray]


def subjects() -> list[Subject]:
    """Models of transformers, small, and graphs that float16 breaks."""
    from tests.passes.precision.test_precision import CHOSEN, EXAMPLES, MODELS, random_inputs

    found = []
    for name, build in {**{n: EXAMPLES[n] for n in EXAMPLES if n not in CHOSEN}, **MODELS}.items():
        torch.manual_seed(0)
        model, args, kwargs, shapes = build()
        graph = optimize(irkit.to_onnx(model.eval(), args, kwargs, dynamic_shapes=shapes).graph)
        found.append(Subject(name, graph, random_inputs(graph)))
    return found + stress()


def stress() -> list[Subject]:
    """Graphs that hold what float16 is known to break on."""
    rng = np.random.default_rng(0)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (rng.normal(size=shape) * scale).astype(np.float32)

    x = param(tensor("f32", "b", 256))
    y = op.MatMul(x, const(normal(256, 256, scale=0.1)))
    mask, at = param(tensor("i64", "b", 256)), param(tensor("i64", "b"))
    masked = op.Softmax(op.Add(y, op.Mul(op.Sub(1.0, op.Cast(mask, to=1)), -3.4028234663852886e38)))
    norm = op.Div(y, op.Sqrt(op.Add(op.ReduceMean(op.Mul(y, y), [1]), 1e-12)))
    angles = op.Mul(op.Unsqueeze(op.Cast(at, to=1), [1]), const((0.97 ** np.arange(256)).astype(np.float32)))
    keys = np.ones((4, 256), np.int64)
    keys[0, 5:] = 0
    keys[1, 1:] = 0
    rows = normal(4, 256)
    turned = op.Mul(y, op.Cos(angles))
    return [
        Subject("mask of -3.4e38", Graph((x, mask), (masked,)), [rows, keys]),
        Subject(
            "norm, epsilon 1e-12, rows of 0", Graph((x,), (norm,)), [rows * np.array([[1], [0], [1], [1]], np.float32)]
        ),
        Subject("positions to 100000", Graph((x, at), (turned,)), [rows, np.array([1, 99999, 5, 4096])]),
        Subject("sum of squares", Graph((x,), (op.ReduceSumSquare(y, [1]),)), [rows * 30]),
        Subject("exponentials", Graph((x,), (op.Log(op.ReduceSum(op.Exp(y), [1])),)), [rows * 6]),
    ]


def theirs(model: onnx.ModelProto) -> onnx.ModelProto:
    """What onnxruntime.transformers makes of a file."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    return convert_float_to_float16(model, keep_io_types=True, disable_shape_infer=False)


def ours(opset: int) -> Callable[[onnx.ModelProto], onnx.ModelProto]:
    """What irkit makes of a file."""

    def converted(model: onnx.ModelProto) -> onnx.ModelProto:
        return irkit.to_proto(prepare(mixed_precision(irkit.load(model)).graph, "onnx", opset), opset=opset)

    return converted


def measured(
    convert: Callable[[onnx.ModelProto], onnx.ModelProto], given: Subject, data: bytes, expected: Any
) -> list[str]:
    """Cells of one row: casts added, bytes, error, milliseconds."""
    seconds, made, why = float("inf"), None, ""
    for _ in range(3):
        model = onnx.ModelProto.FromString(data)
        start = time.process_time()
        try:
            made = convert(model)
        except Exception as error:
            why = type(error).__name__
            break
        seconds = min(seconds, time.process_time() - start)
    if made is None:
        return [f"raises {why}", "", "", "", ""]
    casts = sum(n.op_type == "Cast" for n in made.graph.node)
    casts -= sum(n.op_type == "Cast" for n in onnx.ModelProto.FromString(data).graph.node)
    feeds = list(given.feeds)
    runs = (lambda: session(made).run(feeds), lambda: irkit.evaluate(irkit.load(in_order(made)), feeds))
    errors = [error_of(run, expected) for run in runs]
    return [
        f"{casts}{'' if is_valid(made) else ', not valid'}",
        f"{made.ByteSize() / 1024:.0f} KiB",
        *errors,
        f"{1e3 * seconds:.0f}",
    ]


def is_valid(model: onnx.ModelProto) -> bool:
    """Whether ONNX's checker takes a file."""
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return False
    return True


def in_order(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its nodes after what they read."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    known = {"", *(i.name for i in made.graph.input), *(i.name for i in made.graph.initializer)}
    waiting, placed = list(made.graph.node), []
    while waiting:
        free = [node for node in waiting if known.issuperset(node.input)]
        if not free:
            raise ValueError("the nodes of the graph run in a circle")
        known.update(name for node in free for name in node.output)
        placed += free
        waiting = [node for node in waiting if node not in free]
    del made.graph.node[:]
    made.graph.node.extend(placed)
    return made


def error_of(run: Callable[[], Any], expected: Any) -> str:
    """The largest error of what a run gives."""
    try:
        error = max(distance(a, b) for a, b in zip(expected, run(), strict=True))
    except Exception as problem:
        return f"does not run: {type(problem).__name__}"
    return f"{error:.1e}" if np.isfinite(error) else "NaN or inf"


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, as a part of the largest number; infinite where what was finite is not."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if not np.isfinite(b[np.isfinite(a)]).all():
        return float("inf")
    return float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-6)) if a.size else 0.0


def main() -> None:
    """Prints one row for each model and opset."""
    table = Table(
        "model",
        "opset",
        *(f"{who}: {what}" for who in ("irkit", "onnxruntime") for what in ("casts", "size", "error", "strict", "ms")),
    )
    for subject in subjects():
        for opset in OPSETS:
            ready = prepare(subject.graph, "onnxruntime-cpu", opset)
            data = irkit.to_proto(ready, opset=opset).SerializeToString()
            expected = session(data).run(list(subject.feeds))
            rows = [measured(convert, subject, data, expected) for convert in (ours(opset), theirs)]
            table.add_row(subject.name, str(opset), *rows[0], *rows[1])
    Console(width=240).print(table)


if __name__ == "__main__":
    main()
