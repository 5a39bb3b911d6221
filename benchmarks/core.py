"""What the IR itself costs: microseconds per node of building, ordering, sweeping, serializing and loading a graph, for
graphs of 1,000 to 100,000 nodes, and seconds of `import irkit` beyond the import of what it depends on.

`python benchmarks/core.py 1000 10000` measures those sizes only. Times are CPU seconds, the best of `--repeat`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

sys.path.insert(0, str(Path(__file__).parents[1]))

SIZES = (1_000, 10_000, 100_000)
DEPENDENCIES = "numpy, onnx, onnx.helper, onnx.numpy_helper, onnx.defs, sympy, attrs, pyrsistent, ml_dtypes"


def chain(count: int) -> Any:
    """A graph of `count` operators in a row over f32[batch, seq, 64]; one in ten reshapes to sizes of the input."""
    import irkit
    from irkit import op

    x = irkit.param(irkit.tensor("f32", "batch", "seq", 64))
    y = x
    makers: tuple[Callable[[Any, int], Any], ...] = (
        lambda v, i: op.Add(v, x), lambda v, i: op.Tanh(v), lambda v, i: op.Mul(v, float(i % 7 + 2)),
        lambda v, i: op.Sigmoid(v), lambda v, i: op.LayerNormalization(v, [1.0] * 64, axis=-1),
        lambda v, i: op.Reshape(v, irkit.shape_vector(("batch", "seq", 4, 16))),
        lambda v, i: op.Transpose(v, perm=[0, 2, 1, 3]), lambda v, i: op.Softmax(v, axis=-1),
        lambda v, i: op.Transpose(v, perm=[0, 2, 1, 3]),
        lambda v, i: op.Reshape(v, irkit.shape_vector(("batch", "seq", 64))),
    )  # fmt: skip
    for i in range(count // 10 * 10):
        y = makers[i % 10](y, i // 10)
    return irkit.Graph((x,), (y,))


def stages(count: int, folder: Path) -> Iterator[tuple[str, float]]:
    """(stage, CPU seconds) of one graph, in order."""
    import irkit
    from irkit.support.uncollected import without_collector
    from passes import optimize

    path = folder / "chain.onnx"
    state: dict[str, Any] = {}
    steps: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("build", lambda: without_collector(chain)(count)),
        ("order", lambda: attrs.evolve(state["build"]).order),
        ("share", lambda: irkit.share(state["build"])),
        ("optimize", lambda: optimize(state["build"])),
        ("again", lambda: optimize(state["optimize"])),
        ("to_proto", lambda: irkit.to_proto(state["build"])),
        ("save", lambda: irkit.save(state["build"], path)),
        ("load", lambda: irkit.load(path)),
    )
    for name, step in steps:
        start = time.process_time()
        state[name] = step()
        yield name, time.process_time() - start


def import_seconds(folder: Path) -> float:
    """CPU seconds of `import irkit` in a fresh process that has imported its dependencies; compiled files are kept in
    `folder`, as an installed package keeps them."""
    program = f"import time, {DEPENDENCIES}\ns = time.process_time()\nimport irkit\nprint(time.process_time() - s)"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONPYCACHEPREFIX": str(folder)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)
    return float(done.stdout)


def main() -> int:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chain(10)  # tables of operators are made once
    rows: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes:
            best = rows.setdefault(size, {})
            for _ in range(options.repeat):
                for name, seconds in stages(size, Path(folder)):
                    best[name] = min(best.get(name, seconds), seconds)
        imported = min(import_seconds(Path(folder)) for _ in range(max(options.repeat, 2)))
    if options.json:
        print(json.dumps({"import": imported, "seconds": rows}))
        return 0
    print("microseconds per node")
    print("nodes".rjust(8), *(name.rjust(9) for name in next(iter(rows.values()))))
    for size, best in rows.items():
        print(f"{size:8d}", *(f"{1e6 * seconds / size:9.2f}" for seconds in best.values()))
    print(f"import irkit: {imported:.3f} s beyond its dependencies")
    return 0


if __name__ == "__main__":
    sys.exit(main())
