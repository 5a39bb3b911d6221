"""What it costs to be right where ONNX Runtime's kernels are not: NaN, tensors without elements, wide integers.

For each construct that irkit writes beside a kernel, the kernel alone and with it, on ONNX Runtime's CPU provider; and
for those of NaN a whole model with and without. Both sessions live in one process on one thread and take turns, and the
least CPU time of each counts. `python benchmarks/truth_costs.py` prints the table, `--write` puts it into
docs/measured/what_truth_costs.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch.nn import functional as F

from benchmarks.models_images import IMAGES, ORDERS, RARE
from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import dims_of, tensor
from irkit.dims import Range
from irkit.doors.to_onnx import to_onnx
from irkit.onnx.writing.materialize import materialize_dims
from irkit.onnx.writing.models import to_proto
from irkit.rewriting.face import rewrite
from passes.analysis.reach import with_nan
from passes.legal.legalize import legalize
from passes.pipelines.standard import optimize
from passes.rules.attention import written_out
from passes.rules.nan import NAN
from passes.targets import target_of

PAGE = Path(__file__).parents[1] / "docs" / "measured" / "what_truth_costs.md"
BEGIN, END = "<!-- measured:begin -->", "<!-- measured:end -->"
ASKED = "assumed and said; `+nan` keeps it"
KEPT = "kept"
LONG_ROWS = "kept in rows of 512 and more; of shorter ones assumed and said"
HEAD = "| beside the kernel | why | alone, us | with it, us | ratio | a model | default |"
Pair = tuple[Graph, Graph]


@attrs.frozen
class Construct:
    """What is written beside a kernel: why, the graphs with it and without, what they are fed, a model in which it
    weighs, and what is done by default."""

    name: str
    why: str
    pair: Callable[[], Pair]
    feeds: Callable[[], Sequence[np.ndarray]]
    default: str
    model: str = ""


# ---------------------------------------------------------------------------------------------- graphs


def graph_of(function: Callable[..., Any], *types: Any, low: int = 0) -> Graph:
    """A function of values as a graph; the least size of each symbol is `low`."""
    params = tuple(param(tensor(*each)) for each in types)
    made = function(*params)
    results = made if isinstance(made, tuple) else (made,)
    names = {s.name for p in params for d in dims_of(p.type) for s in dims.symbols_of(d)}
    graph = Graph(params, results)
    return attrs.evolve(graph, symbols=graph.symbols.update({name: Range(low) for name in names}))


def ready(graph: Graph, legal: bool = True) -> Graph:
    """The graph as it is written; without what is done for ONNX Runtime, where not `legal`."""
    return materialize_dims(legalize(graph, target_of("onnxruntime-cpu")) if legal else graph)


def with_nan_kept(function: Callable[..., Any], *types: Any) -> Pair:
    """A graph by which NaN is kept, and as it is."""
    graph = graph_of(function, *types)
    return ready(rewrite(graph, NAN)), ready(graph)


def legalized(function: Callable[..., Any], *types: Any) -> Pair:
    """A graph in the words that ONNX Runtime takes rightly, and as it is."""
    graph = graph_of(function, *types)
    return ready(graph), ready(graph, legal=False)


def maybe_empty(function: Callable[..., Any], *types: Any) -> Pair:
    """A graph whose sizes may be 0, and one whose sizes are not."""
    return ready(graph_of(function, *types)), ready(graph_of(function, *types, low=1))


def lowered(function: Callable[..., Any], example: Sequence[Any], plain: Callable[..., Any], *types: Any) -> Pair:
    """What irkit makes of a torch function, and the operators without what is written for the sake of NaN."""
    return to_onnx(function, tuple(example)).ready, ready(graph_of(plain, *types))


# ---------------------------------------------------------------------------------------------- the constructs


def drawn(*shape: int) -> np.ndarray:
    """Numbers as models have them."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def whole(*shape: int) -> np.ndarray:
    """Integers of 64 bits."""
    return np.random.default_rng(0).integers(-(2**40), 2**40, shape)


def ordered(count: int) -> np.ndarray:
    """Numbers in order."""
    return np.sort(drawn(count))


POOL: Any = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
IMAGE, ROWS = ("f32", 1, 32, 56, 56), ("f32", 64, 512)
BATCH = ("f32", "n", 32, 64)


def pooled_places(x: Value) -> tuple[Value, Value]:
    """The largest elements of windows, and their places in the image."""
    values, places = op.MaxPool(x, **POOL, outputs=2)
    return values, op.Mod(places, const(56 * 56))


def sliced_middle(x: Value) -> Value:
    """The middle element of each row."""
    values, _ = op.TopK(x, [256])
    return op.Slice(values, [255], [256], [1])


def counted(values: Value, bounds: Value) -> Value:
    """How many bounds are below each value."""
    below = op.Not(op.LessOrEqual(op.Unsqueeze(values, [1]), bounds))
    return op.ReduceSum(op.Cast(below, to=7), [-1], keepdims=0)


def running(x: Value) -> Value:
    """A running largest element, by a Scan."""

    def step(best: Value, row: Value) -> tuple[Value, Value]:
        found = op.Max(best, row)
        return found, op.Identity(found)

    return op.Scan(const(np.zeros(64, np.float32)), x, body=step, num_scan_inputs=1)[1]


def attended(q: Value, mask: Value) -> Value:
    """Attention of one tensor to itself."""
    return op.Attention(q, q, q, mask)


NAN_ROWS: tuple[Construct, ...] = (
    Construct("MaxPool behind Relu: AveragePool, IsNaN, Where", "ONNX Runtime drops NaN, unless it comes last",
              partial(with_nan_kept, lambda x: op.MaxPool(op.Relu(x), **POOL), IMAGE), lambda: [drawn(1, 32, 56, 56)],
              ASKED, "resnet-small"),
    Construct("MaxPool: a second one of the kinds of numbers", "the same, and -inf alone gives the least finite number",
              partial(with_nan_kept, lambda x: op.MaxPool(x, **POOL), IMAGE), lambda: [drawn(1, 32, 56, 56)], ASKED,
              "unet"),
    Construct("ReduceMax, ReduceMin: IsNaN, ReduceMax, Where", "NaN is dropped or kept as the shape happens to be",
              partial(with_nan_kept, lambda x: op.ReduceMax(x, [1]), ROWS), lambda: [drawn(64, 512)], ASKED, "vgg"),
    Construct("ArgMax, ArgMin: the same, and an ArgMax of flags", "the same",
              partial(with_nan_kept, lambda x: op.ArgMax(x, axis=1), ROWS), lambda: [drawn(64, 512)], ASKED, "argmax"),
    Construct("TopK of a few: of float64 numbers with NaN above all", "NaN ends up anywhere",
              partial(with_nan_kept, lambda x: op.TopK(x, [8])[0], ROWS), lambda: [drawn(64, 512)], ASKED, "topk"),
    Construct("TopK of all, a sort of rows of 512: the same", "the same",
              partial(with_nan_kept, lambda x: op.TopK(x, [512])[0], ROWS),
              lambda: [drawn(64, 512)], LONG_ROWS, "sort"),
    Construct("ScatterElements with max or min: one of flags", "NaN is dropped",
              partial(with_nan_kept, lambda x: op.ScatterElements(
                  x, const(np.arange(64 * 512).reshape(64, 512) % 64), x, axis=0, reduction="max"), ROWS),
              lambda: [drawn(64, 512)], ASKED),
    Construct("median: Slice, IsNaN, Where", "torch's is NaN where an element is; one look at a reduced tensor",
              partial(lowered, lambda x: x.median(1, keepdim=True)[0], [torch.zeros(64, 512)], sliced_middle, ROWS),
              lambda: [drawn(64, 512)], KEPT, "median"),
    Construct("searchsorted: an If on the last bound", "torch's search is led astray by rows that end in NaN; one look",
              partial(lowered, lambda x, y: torch.searchsorted(y, x), [torch.zeros(400), torch.zeros(64)], counted,
                      ("f32", 400), ("f32", 64)), lambda: [drawn(400), ordered(64)], KEPT,
              "cut in bins"),
    Construct("sign: two comparisons in place of Sign", "torch's sign of NaN is 0",
              partial(lowered, torch.sign, [torch.zeros(64, 512)], op.Sign, ROWS), lambda: [drawn(64, 512)], KEPT,
              "signs"),
    Construct("clamp by tensors: Max and Min in place of Clip", "a Clip takes a bound of NaN for none",
              partial(lowered, torch.clamp, [torch.zeros(64, 512), torch.tensor(-1.0), torch.tensor(1.0)], op.Clip,
                      ROWS, ("f32",), ("f32",)),
              lambda: [drawn(64, 512), np.array(-1, np.float32), np.array(1, np.float32)], KEPT, "bounded"),
    Construct("places of max pooling: an If on anything that is not finite, in it a pool of kinds",
              "torch names the last NaN of a window",
              partial(lowered, lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), [torch.zeros(1, 32, 56, 56)],
                      pooled_places, IMAGE), lambda: [drawn(1, 32, 56, 56)], KEPT, "segnet"),
    Construct("`where(x > 0, x, 0)`: ThresholdedRelu in place of Relu, which goes into a Conv before it",
              "a Relu keeps NaN, and `where` makes 0 of it",
              partial(lowered, lambda x: torch.where(x > 0, x, 0), [torch.zeros(64, 512)], op.Relu, ROWS),
              lambda: [drawn(64, 512)], "behind a Conv assumed and said, `+nan` keeps it; elsewhere kept", "chosen"),
    Construct("Attention with a mask that may hide all keys: ReduceMax, Equal, Where", "torch's softmax of -inf alone "
              "is NaN, ONNX Runtime's attention gives 0",
              lambda: (ready(graph_of(lambda q, m: attended(q, with_nan(m)), ("f32", 1, 4, 128, 32),
                                      ("f32", 1, 1, 128, 128))),
                       ready(graph_of(attended, ("f32", 1, 4, 128, 32), ("f32", 1, 1, 128, 128)))),
              lambda: [drawn(1, 4, 128, 32), drawn(1, 1, 128, 128)], "kept, where the mask is not known to show a key",
              "masked"),
)  # fmt: skip

EMPTY_ROWS: tuple[Construct, ...] = (
    Construct("MatMul of a transposed batch: Reshape on both sides", "a fused Transpose fails on batches of 0",
              partial(maybe_empty, lambda x, y: op.MatMul(op.Transpose(x, perm=(0, 2, 1)), y), BATCH, ("f32", 32, 48)),
              lambda: [drawn(8, 32, 64), drawn(32, 48)], KEPT),
    Construct("MatMul of one matrix and many: Slice, Shape", "a batch of 1 is not broadcast to one of 0",
              partial(maybe_empty, lambda x, y: op.MatMul(x, y), ("f32", 1, 16, 32), BATCH),
              lambda: [drawn(1, 16, 32), drawn(8, 32, 64)], KEPT, "bands"),
    Construct("MatMul with a vector: Unsqueeze, Squeeze", "of nothing it leaves what memory held",
              partial(maybe_empty, op.MatMul, ("f32", "n", 64), ("f32", 64)),
              lambda: [drawn(256, 64), drawn(64)], KEPT),
    Construct("Einsum: an If on the sizes", "of nothing it divides by 0, which ends the process",
              partial(maybe_empty, lambda x, y: op.Einsum(x, y, equation="bij,bkj->bik"), BATCH, BATCH),
              lambda: [drawn(8, 32, 64), drawn(8, 32, 64)], KEPT, "joined"),
    Construct("Scan: an If on the number of rounds", "a Scan of nothing fails",
              partial(maybe_empty, running, ("f32", "n", 64)), lambda: [drawn(32, 64)], KEPT),
    Construct("any: a sum in place of a largest", "there is no largest of no bools",
              partial(lowered, lambda x: (x > 0).any(), [torch.zeros(64, 512)],
                      lambda x: op.ReduceMax(op.Greater(x, const(np.float32(0))), keepdims=0), ROWS),
              lambda: [drawn(64, 512)], "kept where a size may be 0"),
)  # fmt: skip

INTEGER_ROWS: tuple[Construct, ...] = (
    *(Construct(f"{name} of int64: Less, Where", "numbers are compared by their lower 32 bits",
                partial(legalized, function, ("i64", 64, 512)), lambda: [whole(64, 512)],
                "kept, where numbers may be beyond 32 bits", model)
      for name, function, model in (("Max, Min", lambda x: op.Max(x, const(7)), "first words"),
                                    ("Clip", lambda x: op.Clip(x, -9, 9), "known words"),
                                    ("Sign", op.Sign, "signed words"))),
    Construct("ReduceMax, ReduceMin of int64: two of halves", "the same",
              partial(legalized, lambda x: op.ReduceMax(x, [1]), ("i64", 64, 512)), lambda: [whole(64, 512)],
              "kept, where numbers may be beyond 32 bits", "most of words"),
    Construct("LogSoftmax of float64: written out", "of rows with NaN or inf it gives numbers",
              partial(legalized, op.LogSoftmax, ("f64", 64, 512)), lambda: [drawn(64, 512).astype(np.float64)], KEPT,
              "wide"),
)  # fmt: skip

GROUPS: Mapping[str, tuple[Construct, ...]] = {
    "NaN and infinities": NAN_ROWS, "Tensors without elements": EMPTY_ROWS, "Wide numbers": INTEGER_ROWS,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- times


def session(graph: Graph, opset: int | None = None) -> Any:
    """A session with one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    model = to_proto(graph) if opset is None else to_proto(graph, opset=opset)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def times(graphs: Pair, arrays: Sequence[np.ndarray], rounds: int) -> tuple[float, float]:
    """The least CPU milliseconds of one run of each, which take turns."""
    runs = [session(graph) for graph in graphs]
    feeds = [{i.name: x for i, x in zip(run.get_inputs(), arrays, strict=True)} for run in runs]
    start = time.thread_time()
    for run, given in zip(runs, feeds, strict=True):
        run.run(None, given)
    each = max(1, min(20, int(0.004 / (time.thread_time() - start + 1e-6))))
    found: list[list[float]] = [[], []]
    for _ in range(rounds):
        for run, given, kept in zip(runs, feeds, found, strict=True):
            start = time.thread_time()
            for _ in range(each):
                run.run(None, given)
            kept.append((time.thread_time() - start) / each * 1000)
    return min(found[0]), min(found[1])


def plain_pool(x: Value, size: Sequence[int], *more: Any) -> tuple[Value, Value]:
    """The largest elements of windows that do not overlap, and their places in the image, as ONNX Runtime has them."""
    values, places = op.MaxPool(x, kernel_shape=list(size), strides=list(size), outputs=2)
    return values, op.Mod(places, const(np.array(x.shape[-1] * x.shape[-2])))


PLAIN: Mapping[str, tuple[Any, Callable[..., Any]]] = {
    "segnet": (torch.ops.aten.max_pool2d_with_indices, plain_pool),
    "signs": (torch.ops.aten.sign, lambda self: op.Sign(self)),
    "bounded": (torch.ops.aten.clamp, lambda self, min, max: op.Clip(self, min, max)),
}
"""Models with an operator of torch's, and what it would be without what is written for the sake of NaN."""


PLAINLY = frozenset((
    "known words", "first words", "signed words", "most of words", "joined", "bands", "wide", "cut in bins",
))  # fmt: skip
"""Models that are compared with themselves in the operators as lowered, which ONNX Runtime takes and computes."""


def of_model(name: str, rounds: int) -> tuple[float, float]:
    """The times of a model that keeps NaN, and of one that does not."""
    torch.manual_seed(0)
    model, args, kwargs, shapes = {**IMAGES, **ORDERS, **RARE}[name]()
    given = [leaf for leaf in (*args, *kwargs.values()) if isinstance(leaf, torch.Tensor)]
    if name in PLAIN:
        asked: tuple[Mapping[Any, Any], ...] = ({}, dict([PLAIN[name]]))
        made = [to_onnx(model.eval(), args, kwargs, dynamic_shapes=shapes, converters=c).ready for c in asked]
        return times((made[0], made[1]), [leaf.numpy() for leaf in given], rounds)
    if name in PLAINLY:
        program = to_onnx(model.eval(), args, kwargs, dynamic_shapes=shapes)
        plain = materialize_dims(optimize(program.graph))
        return times((program.ready, plain), [leaf.numpy() for leaf in given], rounds)
    if name == "masked":
        kept = to_onnx(model.eval(), args, kwargs, dynamic_shapes=shapes).ready
        with mock.patch.object(written_out, "with_nan", lambda mask: mask):
            plain = to_onnx(model.eval(), args, kwargs, dynamic_shapes=shapes).ready
        return times((kept, plain), [leaf.numpy() for leaf in given], rounds)
    rules = ("default+nan", "default") if name != "median" else ("default", "default+finite")  # its nodes are kept
    pair = [to_onnx(model.eval(), args, kwargs, dynamic_shapes=shapes, rules=r).ready for r in rules]
    return times((pair[0], pair[1]), [leaf.numpy() for leaf in given], rounds)


def row(each: Construct, rounds: int) -> str:
    """One line of the table."""
    kept, plain = times(each.pair(), each.feeds(), rounds)
    cells = [each.name, each.why, f"{plain * 1000:.0f}", f"{kept * 1000:.0f}", f"{kept / plain:.2f}"]
    shown = ""
    if each.model:
        whole_kept, whole_plain = of_model(each.model, rounds)
        shown = f"{each.model}: {whole_kept / whole_plain:.2f}"
    return f"| {' | '.join([*cells, shown, each.default])} |"


def table(rounds: int, only: str) -> str:
    """All rows, group by group."""
    lines: list[str] = []
    for title, group in GROUPS.items():
        chosen = [each for each in group if only in each.name]
        if not chosen:
            continue
        lines += ["", f"**{title}**", "", HEAD, "| --- | --- | ---: | ---: | ---: | --- | --- |"]
        for each in chosen:
            lines.append(row(each, rounds))
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines).strip("\n")


def main() -> int:
    """Prints the table, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found = table(options.rounds, options.only)
    if not options.write:
        print(found)
        return 0
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{found}\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
