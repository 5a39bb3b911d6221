"""`make bench`: what an export costs and what it gives, against torch.onnx.export on the same ExportedProgram.

Each (model, tool) pair runs in a process of its own, so that peak memory is its own; times are CPU seconds of the
stages alone (imports and model building left out), the best of `--repeat` for irkit. `python benchmarks/export_speed.py
llama-4 bert-base` measures those models only; `--no-peer` leaves torch.onnx out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.processes import in_process

TARGETS = {"irkit": "onnxruntime-cpu", "irkit ort": "onnxruntime-cpu+com.microsoft"}
"""irkit's targets: plain ONNX, and with ONNX Runtime's operators."""

TOOLS = (*TARGETS, "torch.onnx", "torch.onnx optimized")


def cpu(function: Callable[[], Any]) -> tuple[float, Any]:
    """(CPU seconds, result) of a call."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def peak() -> float:
    """The largest memory that this process has held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def job(model_name: str, tool: str, repeat: int) -> dict[str, Any]:
    """One measurement, in this process."""
    import torch

    from benchmarks.models import MODELS
    from lowering.capture.capture import capture

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, args, kwargs, shapes = MODELS[model_name]()
    model = model.eval()
    weights = sum(p.numel() * p.element_size() for p in model.parameters()) / 2**20
    seconds, captured = cpu(lambda: capture(model, args, kwargs, dynamic_shapes=shapes, widen=False))
    row: dict[str, Any] = {"model": model_name, "tool": tool, "capture": seconds, "weights": weights}
    before = peak()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        if tool in TARGETS:
            row |= irkit_job(captured, path, repeat, TARGETS[tool])
        else:
            row |= torch_job(captured, path, optimize=tool.endswith("optimized"))
        row["memory"] = peak() - before
        row["nodes"] = count(path)
        if model_name != "linear-2GB":
            row["latency"] = latency(path, captured, tool)
    return row


def irkit_job(captured: Any, path: Path, repeat: int, name: str) -> dict[str, Any]:
    """irkit's stages from the captured program to the file."""
    from irkit.doors.to_onnx import save
    from irkit.onnx.writing.materialize import materialize_dims
    from lowering.fold.lower import lower_captured
    from passes import optimize
    from passes.preparing.prepare import fit_to_target
    from passes.targets import target_of

    best: dict[str, float] = {}
    target = target_of(name, None)
    for _ in range(repeat):
        low = cpu(partial(lower_captured, captured))
        better = cpu(partial(optimize, low[1].graph))
        fit = cpu(partial(fit_to_target, better[1], target))
        ready = cpu(partial(materialize_dims, fit[1], target.opset))
        path.unlink(missing_ok=True)  # to put a file in the place of another costs what the other was
        saved = cpu(partial(save, ready[1], path, opset=target.opset))
        stages = {
            "lower": low[0], "optimize": better[0], "fit": fit[0], "materialize": ready[0], "save": saved[0],
        }  # fmt: skip
        if not best or sum(stages.values()) < sum(best.values()):
            best = stages
    return {"seconds": sum(best.values()), "stages": best}


def torch_job(captured: Any, path: Path, *, optimize: bool) -> dict[str, Any]:
    """torch.onnx.export of the same ExportedProgram, and its save."""
    import torch

    def export() -> None:
        with captured.pytrees():
            program = torch.onnx.export(captured.program, dynamo=True, optimize=optimize, verbose=False)
        if program is not None:
            program.save(str(path))

    seconds, _ = cpu(export)
    return {"seconds": seconds}


def count(path: Path) -> int:
    """The nodes of an ONNX file, those of functions and bodies included."""
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    return len(model.graph.node) + sum(len(f.node) for f in model.functions)


def latency(path: Path, captured: Any, tool: str) -> float:
    """The median of up to 15 runs of a file on ONNX Runtime's CPU provider with one thread, in milliseconds."""
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    tensors = [leaf for leaf in captured.examples() if isinstance(leaf, torch.Tensor)]
    feeds = {i.name: t.numpy() for i, t in zip(session.get_inputs(), tensors, strict=True)}
    times = []
    for _ in range(15):
        start = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - start)
        if sum(times) > 30 and len(times) >= 3:
            break
    return sorted(times)[len(times) // 2] * 1000


def main() -> int:
    """Prints the table."""
    from rich.console import Console
    from rich.table import Table

    from benchmarks.models import MODELS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=[])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--job", nargs=2)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(job(options.job[0], options.job[1], options.repeat)))
        return 0
    table = Table(title="export, CPU seconds on one thread")
    for title in (
        "model",
        "tool",
        "capture",
        "export",
        "of capture",
        "against irkit",
        "us/node",
        "nodes",
        "ms",
        "MiB +",
    ):
        table.add_column(title, justify="left" if title in ("model", "tool") else "right")
    rows = []
    for model in options.models or list(MODELS):
        ours: dict[str, Any] = {}
        peerless = options.no_peer or model == "linear-2GB"
        for tool in TARGETS if peerless else TOOLS:
            found = {"model": model, "tool": tool}
            found |= in_process(__file__, "--job", model, tool, "--repeat", str(options.repeat))
            rows.append(found)
            ours = found if tool == "irkit" else ours
            table.add_row(*cells(found, ours))
            print(json.dumps(found), file=sys.stderr)
    Console(width=140).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


def cells(row: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """One line of the table."""
    if "failed" in row:
        return [row["model"], row["tool"], row["failed"][:60]]
    ratio = row["seconds"] / ours["seconds"] if ours.get("seconds") else float("nan")
    return [
        row["model"], row["tool"], f"{row['capture']:.2f}", f"{row['seconds']:.3f}",
        f"{row['seconds'] / row['capture']:.3f}", f"{ratio:.1f} x", f"{1e6 * row['seconds'] / row['nodes']:.0f}",
        str(row["nodes"]), f"{row['latency']:.2f}" if "latency" in row else "", f"{row['memory']:.0f}",
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
