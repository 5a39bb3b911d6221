"""What each step costs on graphs of 1,000 to 1,000,000 nodes: microseconds and bytes per node of load, optimize,
legalize, materialize and save, and of a second `optimize`, of the same object (`again`) and of an equal one (`sweep`).

`python benchmarks/scale.py 1000 10000` measures those sizes only; `--shapes` chooses among

- layers: a row of layers as a converter writes them, in each of which rules of several families fire;
- plain: a row of operators that are settled already;
- fan: one value with as many users as there are nodes, whose sums join in a Concat of as many operands;
- bodies: loops in each other's bodies, five deep, of a hundred operators each, no two alike.

Each graph is measured in a process of its own. Times are CPU seconds, the best of `--repeat`.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

SIZES = (1_000, 10_000, 100_000)
STEPS = ("load", "optimize", "again", "sweep", "legalize", "materialize", "save")


# ---------------------------------------------------------------------------------------------- graphs


def layer(x: Any, index: int) -> Any:
    """About twenty operators: a norm in parts, sizes computed, Transposes that meet, a gate, scalars that fold."""
    import numpy as np

    import irkit
    from irkit import op

    weight = irkit.const(np.full((16, 16), 0.01 * (index % 7 + 1), np.float32), name=f"layers.{index}.weight")
    scale = irkit.const(np.ones(16, np.float32), name=f"layers.{index}.norm")
    square = op.ReduceMean(op.Pow(x, 2.0), [-1], keepdims=1)
    normed = op.Mul(op.Mul(x, op.Reciprocal(op.Sqrt(op.Add(square, 1e-5)))), scale)
    turned = op.Transpose(op.Transpose(normed, perm=[0, 2, 1]), perm=[0, 2, 1])
    split = op.Reshape(turned, irkit.shape_vector(("batch", "seq", 4, 4)))
    joined = op.Reshape(
        op.Reshape(split, irkit.shape_vector(("batch", "seq", 2, 8))), irkit.shape_vector(("batch", "seq", 16))
    )
    product = op.MatMul(joined, weight)
    gate = op.Mul(product, op.Sigmoid(product))
    return op.Add(x, op.Identity(op.Mul(op.Mul(gate, 1.0), float(index % 5 + 2))))


def layers(count: int) -> Any:
    """`count` nodes in layers."""
    import irkit

    x = y = irkit.param(irkit.tensor("f32", "batch", "seq", 16))
    for index in range(count // 18):
        y = layer(y, index)
    return irkit.Graph((x,), (y,))


def plain(count: int) -> Any:
    """`count` nodes that no rule is about."""
    from benchmarks.core import chain

    return chain(count)


def fan(count: int) -> Any:
    """One value with half of `count` users, each with a sum of its own, which all join."""
    import irkit
    from irkit import op

    x = irkit.param(irkit.tensor("f32", "n", 4))
    parts = [op.Add(op.Mul(x, float(i + 2)), x) for i in range(count // 2)]
    return irkit.Graph((x,), (op.Concat(*parts, axis=0), op.Sum(*parts)))


def bodies(count: int) -> Any:
    """Loops five deep, of a hundred operators a body."""
    import irkit
    from irkit import op

    x, trips = irkit.param(irkit.tensor("f32", "n")), irkit.param(irkit.tensor("i64"))

    def nest(value: Any, depth: int, seed: int) -> Any:
        for i in range(50):
            value = op.Add(op.Tanh(value), float(i + seed + 2))
        if depth == 0:
            return value
        return op.Loop(trips, True, value, body=lambda i, go, s: (go, nest(s, depth - 1, seed + 1)))[0]

    y = x
    for index in range(max(1, count // 505)):
        y = nest(y, 4, 10 * index)
    return irkit.Graph((x, trips), (y,))


SHAPES: dict[str, Callable[[int], Any]] = {"layers": layers, "plain": plain, "fan": fan, "bodies": bodies}


# ---------------------------------------------------------------------------------------------- measuring


def memory() -> int:
    """The most bytes that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def nodes_in(graph: Any) -> int:
    """The operators of a graph and of its bodies."""
    return sum(1 + sum(map(nodes_in, v.bodies)) for v in graph.order if v.op not in ("Param", "Constant", "Item"))


def timed(times: dict[str, float], name: str, step: Callable[[], Any]) -> Any:
    """The result of a step, whose CPU seconds are noted where they are the fewest so far."""
    start = time.process_time()
    found = step()
    spent = time.process_time() - start
    times[name] = min(times.get(name, spent), spent)
    return found


def job(source: Path, repeat: int) -> dict[str, Any]:
    """One file, in this process."""
    import irkit
    from irkit.onnx.writing.materialize import materialize_dims
    from passes import optimize
    from passes.legal.legalize import legalize
    from passes.targets import target_of

    target = target_of("onnxruntime-cpu", None)
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output.onnx"
        for shape in SHAPES.values():  # imports, and tables that are made once
            irkit.save(shape(600), output)
            small = legalize(optimize(irkit.load(output)), target)
            irkit.save(materialize_dims(small), output)
        nodes, left, before = 0, 0, memory()
        for _ in range(repeat):
            nodes, left = once(source, output, target, times)
        return {"nodes": nodes, "left": left, "seconds": times, "bytes": (memory() - before) / nodes}


def once(source: Path, output: Path, target: Any, times: dict[str, float]) -> tuple[int, int]:
    """Every step once, noted in `times`; how many nodes there are before and after."""
    import attrs

    import irkit
    from irkit.onnx.writing.materialize import materialize_dims
    from passes import optimize
    from passes.legal.legalize import legalize

    graph = timed(times, "load", lambda: irkit.load(source))
    after = timed(times, "optimize", lambda: optimize(graph))
    if timed(times, "again", lambda: optimize(after)) is not after:
        raise SystemExit("a second run changes the graph")
    fresh = attrs.evolve(after)  # of which nothing is remembered
    if timed(times, "sweep", lambda: optimize(fresh)) != fresh:  # an equal one comes back, marked
        raise SystemExit("a sweep of the optimized graph changes it")
    legal = timed(times, "legalize", lambda: legalize(after, target))
    ready = timed(times, "materialize", lambda: materialize_dims(legal))
    timed(times, "save", lambda: irkit.save(ready, output, opset=target.opset))
    return nodes_in(graph), nodes_in(ready)


def write(shape: str, size: int, path: Path) -> None:
    """Builds a graph and writes its file."""
    import irkit
    from irkit.support.uncollected import without_collector

    irkit.save(without_collector(SHAPES[shape])(size), path)


def measured(shape: str, size: int, repeat: int) -> dict[str, Any]:
    """One graph, built in a process of its own and measured in another, whose memory tells nothing of the building."""
    with tempfile.TemporaryDirectory() as folder:
        source = str(Path(folder) / "source.onnx")
        for command in (["--write", shape, str(size), source], ["--job", source, "--repeat", str(repeat)]):
            done = subprocess.run([sys.executable, __file__, *command], capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{shape} of {size}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return json.loads(done.stdout.strip().rpartition("\n")[2])


def main() -> int:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--job", type=Path)
    parser.add_argument("--write", nargs=3)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(job(options.job, options.repeat)))
        return 0
    if options.write:
        write(options.write[0], int(options.write[1]), Path(options.write[2]))
        return 0
    rows: list[dict[str, Any]] = []
    print("microseconds per node that is loaded (bytes: memory per node)", file=sys.stderr)
    print(
        "shape".ljust(7),
        "nodes".rjust(8),
        "left".rjust(8),
        *(s.rjust(11) for s in STEPS),
        "bytes".rjust(7),
        file=sys.stderr,
    )
    for shape in options.shapes.split(","):
        for size in options.sizes:
            row = measured(shape, size, options.repeat)
            rows.append({"shape": shape, **row})
            cells = (f"{1e6 * row['seconds'][s] / row['nodes']:11.2f}" for s in STEPS)
            print(
                shape.ljust(7), f"{row['nodes']:8d} {row['left']:8d}", *cells, f"{row['bytes']:7.0f}", file=sys.stderr
            )
    if options.json:
        print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
