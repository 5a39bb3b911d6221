"""What the IR itself costs: microseconds per node of building, ordering, sweeping, serializing and loading a graph, for
graphs of 1,000 to 100,000 nodes; of operators of Python on values beside `irkit.op`; and seconds of `import irkit`
beyond the import of what it depends on.

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
CALLS = 2_000
"""How often an operator on values is timed at once."""
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


def operators() -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """(what is written, the same by a constructor, what is written as a function) of operators of Python on values."""
    import numpy as np

    import irkit
    from irkit import op

    x, w = irkit.param("f32[batch, seq, 64]"), irkit.param("f32[64, 64]")
    bounds = [np.array([n]) for n in (1, 9, 2)]
    yield "x + y", lambda: op.Add(x, x), lambda: x + x
    yield "x * 2.0", lambda: op.Mul(x, 2.0), lambda: x * 2.0
    yield "1 - x", lambda: op.Sub(1, x), lambda: 1 - x
    yield "x / y", lambda: op.Div(x, x), lambda: x / x
    yield "x ** 2", lambda: op.Pow(x, 2), lambda: x**2
    yield "x @ w", lambda: op.MatMul(x, w), lambda: x @ w
    yield "-x", lambda: op.Neg(x), lambda: -x
    yield "x.less(y)", lambda: op.Less(x, x), lambda: x.less(x)
    yield "x[:, 0]", lambda: op.Gather(x, irkit.const(0), axis=1), lambda: x[:, 0]
    yield "x[:, :, 1:9]", lambda: op.Slice(x, *bounds), lambda: x[:, :, 1:9]


def operator_calls() -> dict[str, tuple[int, int]]:
    """How many calls of Python, and of C, each operator on values takes: by a constructor, and as it is written. Unlike
    times, these are always the same."""
    return {name: (calls_of(by_op), calls_of(by_sign)) for name, by_op, by_sign in operators()}


def calls_of(function: Callable[[], Any]) -> int:
    """How many calls a function takes, once what it remembers is known."""
    function()
    found: list[str] = []
    sys.setprofile(lambda frame, event, given: found.append(event) if event in ("call", "c_call") else None)
    try:
        function()
    finally:
        sys.setprofile(None)
    return len(found) - 1  # that of setprofile itself


def operator_times(repeat: int) -> dict[str, tuple[float, float]]:
    """Microseconds of each operator on values: by a constructor of `irkit.op`, and as it is written in Python."""
    best: dict[str, tuple[float, float]] = {}
    for _ in range(repeat):
        for name, *functions in operators():
            found = []
            for function in functions:
                start = time.process_time()
                for _ in range(CALLS):
                    function()
                found.append(1e6 * (time.process_time() - start) / CALLS)
            before = best.get(name, tuple(found))
            best[name] = (min(before[0], found[0]), min(before[1], found[1]))
    return best


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
    written = operator_times(max(options.repeat, 5))
    if options.json:
        print(json.dumps({"import": imported, "seconds": rows, "operators": written, "calls": operator_calls()}))
        return 0
    print("microseconds per node")
    print("nodes".rjust(8), *(name.rjust(9) for name in next(iter(rows.values()))))
    for size, best in rows.items():
        print(f"{size:8d}", *(f"{1e6 * seconds / size:9.2f}" for seconds in best.values()))
    print("an operator on values, by irkit.op and as it is written: microseconds, and calls")
    calls = operator_calls()
    for name, (by_op, by_sign) in written.items():
        print(f"{name:>14}", f"{by_op:9.2f}", f"{by_sign:9.2f}", *(f"{count:6d}" for count in calls[name]))
    print(f"import irkit: {imported:.3f} s beyond its dependencies")
    return 0


if __name__ == "__main__":
    sys.exit(main())
