"""`make bench-optimizer`: optimizers over the same ONNX files, which torch.onnx wrote without optimizing them.

For each file and tool: CPU seconds of load + optimize + save (imports left out, the best of `--repeat`), the nodes that
are left, the latency on ONNX Runtime, and the largest difference of the results from those of the file as it was. Each
(file, tool) pair runs in a process of its own. `python benchmarks/optimizer.py gpt2 vit` measures those files only.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

FOLDER = Path(__file__).parents[1] / "build" / "benchmark-files"
"""Where the files of torch.onnx are kept between runs."""


def irkit_tool(source: Path, output: Path) -> None:
    """irkit: load, the standard level, legalized for ONNX Runtime, saved."""
    from irkit.onnx.external import save
    from irkit.onnx.load import load
    from passes import optimize, prepare
    from passes.targets import target_of

    target = target_of("onnxruntime-cpu", None)
    save(prepare(optimize(load(source)), target), output, opset=target.opset)


def onnxscript_tool(source: Path, output: Path) -> None:
    """onnxscript's optimizer, and its rules for ONNX Runtime."""
    import onnx_ir
    from onnxscript import optimizer
    from onnxscript.rewriter import ort_fusions

    model = onnx_ir.load(source)
    optimizer.optimize(model)
    ort_fusions.optimize_for_ort(model)
    onnx_ir.save(model, output)


def onnxslim_tool(source: Path, output: Path) -> None:
    """onnxslim with its defaults."""
    importlib.import_module("onnxslim").slim(str(source), str(output))


def onnxsim_tool(source: Path, output: Path) -> None:
    """onnxsim with its defaults."""
    import onnx

    simplified, _ = importlib.import_module("onnxsim").simplify(onnx.load(str(source)))
    onnx.save(simplified, str(output))


def ort(level: str) -> Callable[[Path, Path], None]:
    """ONNX Runtime's own optimizer at a level, which writes the model that it would run."""

    def run(source: Path, output: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
        options.optimized_model_filepath = str(output)
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])

    return run


TOOLS: dict[str, Callable[[Path, Path], None]] = {
    "irkit": irkit_tool, "onnxscript": onnxscript_tool, "onnxslim": onnxslim_tool, "onnxsim": onnxsim_tool,
    "ort basic": ort("BASIC"), "ort extended": ort("EXTENDED"),
}  # fmt: skip
"""What is compared. Only the C++ tools run beside several threads of their own; all are held to one."""


def write_files(names: list[str]) -> None:
    """Has torch.onnx write the files that are not there yet."""
    for name in names:
        path = FOLDER / name / "model.onnx"
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        for dynamic in (True, False):  # torch.onnx cannot view some tensors of symbolic size
            try:
                write(name, path, dynamic=dynamic)
                break
            except Exception as error:
                sizes = "dynamic" if dynamic else "fixed"
                print(f"torch.onnx cannot write {name} with {sizes} sizes: {type(error).__name__}", file=sys.stderr)


def write(name: str, path: Path, *, dynamic: bool) -> None:
    """Has torch.onnx write one file, and keeps the example inputs beside it."""
    import torch

    from benchmarks.models import FILES
    from lowering.capture import capture

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    model, args, kwargs, shapes = FILES[name]()
    with torch.no_grad():  # fresh biases are zeros, which a trained model's are not, and some tools drop such an Add
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    captured: Any = capture(model.eval(), args, kwargs, dynamic_shapes=shapes if dynamic else None, widen=False)
    with captured.pytrees():
        program = torch.onnx.export(captured.program, dynamo=True, optimize=False, verbose=False)
    leaves = [leaf for leaf in captured.examples() if isinstance(leaf, torch.Tensor)]
    np.savez(path.parent / "inputs.npz", *[leaf.numpy() for leaf in leaves])
    if program is not None:
        program.save(str(path), external_data=False)


def count(path: Path) -> int:
    """The nodes of an ONNX file, with those of functions and of bodies."""
    import onnx

    def nodes(graph: Any) -> int:
        inner = (a.g for n in graph.node for a in n.attribute if a.HasField("g"))
        return len(graph.node) + sum(nodes(g) for g in inner)

    model = onnx.load(str(path), load_external_data=False)
    return nodes(model.graph) + sum(len(f.node) for f in model.functions)


def session(path: Path) -> Any:
    """A session on ONNX Runtime's CPU provider with one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def results(run: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The results for inputs in order."""
    return run.run(None, {i.name: x for i, x in zip(run.get_inputs(), inputs, strict=True)})


def job(name: str, tool: str, repeat: int) -> dict[str, Any]:
    """One measurement, in this process."""
    warnings.simplefilter("ignore")
    source, output = FOLDER / name / "model.onnx", FOLDER / name / f"{tool.replace(' ', '-')}.onnx"
    inputs = list(np.load(source.parent / "inputs.npz").values())
    row: dict[str, Any] = {"file": name, "tool": tool, "before": count(source)}
    best = float("inf")
    for _ in range(repeat + 1):  # the first run imports and warms up, and counts only where it is the only one
        start = time.process_time()
        TOOLS[tool](source, output)
        spent = time.process_time() - start
        best = spent if best == float("inf") or spent < best else best
    row |= {"seconds": best, "nodes": count(output)}
    expected, run = results(session(source), inputs), session(output)
    found = results(run, inputs)
    row["error"] = max(
        (float(np.max(np.abs(a.astype(np.float64) - b))) for a, b in zip(expected, found, strict=True) if a.size),
        default=0.0,
    )
    times = []
    for _ in range(15):
        start = time.perf_counter()
        results(run, inputs)
        times.append(time.perf_counter() - start)
    row["latency"] = sorted(times)[len(times) // 2] * 1000
    return row


def measured(name: str, tool: str, repeat: int) -> dict[str, Any]:
    """One measurement, in a process of its own; `failed` holds the last line where it failed."""
    command = [sys.executable, __file__, "--job", name, tool, "--repeat", str(repeat)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"file": name, "tool": tool, "failed": (done.stderr.strip().splitlines() or ["?"])[-1]}
    return json.loads(done.stdout.strip().rpartition("\n")[2])


def cells(row: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """One line of the table."""
    if "failed" in row:
        return [row["file"], row["tool"], "", "fails"]
    ratio = row["seconds"] / ours["seconds"] if ours.get("seconds") else float("nan")
    return [
        row["file"], row["tool"], str(row["before"]), str(row["nodes"]), f"{row['seconds']:.3f}", f"{ratio:.1f} x",
        f"{row['latency']:.2f}", f"{row['error']:.1e}",
    ]  # fmt: skip


def main() -> int:
    """Prints the table."""
    from rich.console import Console
    from rich.table import Table

    from benchmarks.models import FILES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=[])
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--job", nargs=2)
    parser.add_argument("--write", action="store_true", help="only write the files")
    options = parser.parse_args()
    if options.job:
        print(json.dumps(job(options.job[0], options.job[1], options.repeat)))
        return 0
    names = options.files or list(FILES)
    if options.write:
        write_files(names)
        return 0
    subprocess.run([sys.executable, __file__, "--write", *names], check=True, stdout=subprocess.DEVNULL)
    names = [name for name in names if (FOLDER / name / "model.onnx").exists()]
    table = Table(title="load + optimize + save, CPU seconds on one thread")
    for title in ("file", "tool", "before", "nodes", "seconds", "against irkit", "ms", "difference"):
        table.add_column(title, justify="left" if title in ("file", "tool") else "right")
    rows: list[dict[str, Any]] = []
    for name in names:
        ours: dict[str, Any] = {}
        for tool in options.tools.split(","):
            found = measured(name, tool, options.repeat)
            rows.append(found)
            ours = found if tool == "irkit" else ours
            table.add_row(*cells(found, ours))
            print(json.dumps(found), file=sys.stderr)
    Console(width=140).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
