"""`make bench`: how fast ONNX Runtime runs what each exporter and optimizer makes of the same models.

torch.onnx's optimized export, what onnxslim, onnxscript (with its rules for ONNX Runtime) and ONNX Runtime's own
transformer optimizer make of torch.onnx's file, and irkit's export in plain ONNX and with ONNX Runtime's own operators.
All sessions of a model live in one process, held to one thread on one core, with default session options. They
take turns, in an order that changes, and the least CPU time of each counts: what disturbs the machine disturbs all
alike, and what it does meanwhile is not counted.
`python benchmarks/latency.py decode-llama-4 vit` measures those models only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.models import DECODE, SMALL
from benchmarks.models_images import IMAGES, ORDERS
from benchmarks.peers import (
    TOOLS,
    count,
    inputs_of,
    largest_difference,
    place,
    results,
    session,
    write_by_irkit,
    write_by_torch,
)
from benchmarks.processes import in_process

OURS = {"irkit export": "onnxruntime-cpu", "irkit export ort": "onnxruntime-cpu+com.microsoft"}
"""irkit's own exports, and the target of each."""

OTHERS = ("torch.onnx optimized", "onnxscript", "onnxslim", "ort transformers", "ort extended")
MODEL_TYPES = {"bert": "bert", "gpt2": "gpt2", "vit": "vit", "t5": "t5", "whisper": "bart"}
"""What ONNX Runtime's transformer optimizer calls a model; others it is given as a BERT."""

WRITING = 600
"""Seconds that a tool may take for one file."""


def write(name: str, tool: str) -> None:
    """Writes one file, in this process."""
    warnings.simplefilter("ignore")
    path = place(name, tool)
    if tool in OURS:
        write_by_irkit(name, path, OURS[tool])
    elif path.exists():
        return
    elif tool == "model":
        write_by_torch(name, path)
    elif tool == "torch.onnx optimized":
        write_by_torch(name, path, optimize=True)
    elif tool == "ort transformers":
        from onnxruntime.transformers import optimizer

        kind = next((k for part, k in MODEL_TYPES.items() if part in name), "bert")
        optimizer.optimize_model(str(place(name, "model")), model_type=kind).save_model_to_file(str(path))
    else:
        TOOLS[tool](place(name, "model"), path)


def job(name: str, rounds: int) -> dict[str, Any]:
    """The times of all files of a model, in this process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    inputs, runs, rows = inputs_of(name), {}, {}
    expected = results(session(place(name, "model")), inputs) if place(name, "model").exists() else None
    for tool in (*OURS, *OTHERS):
        path = place(name, tool)
        if not path.exists():
            continue
        try:
            runs[tool] = session(path)
            found = results(runs[tool], inputs)
        except Exception as error:
            rows[tool] = {"failed": str(error).splitlines()[0][:80]}
            runs.pop(tool, None)
            continue
        expected = found if expected is None else expected
        rows[tool] = {"nodes": count(path), "difference": largest_difference(expected, found)}
    return rows | timed(runs, inputs, rounds, rows)


def timed(runs: dict[str, Any], inputs: Any, rounds: int, rows: dict[str, Any]) -> dict[str, Any]:
    """The rows with the least and the median milliseconds of sessions that take turns."""
    feeds = {tool: {i.name: x for i, x in zip(run.get_inputs(), inputs, strict=True)} for tool, run in runs.items()}
    start = time.thread_time()
    for tool, run in runs.items():
        run.run(None, feeds[tool])
    each = max(1, min(50, int(0.003 * len(runs) / (time.thread_time() - start))))
    order, times = list(runs), {tool: [] for tool in runs}
    for _ in range(rounds):
        random.shuffle(order)
        for tool in order:
            run, given = runs[tool], feeds[tool]
            run.run(None, given)
            start = time.thread_time()  # one thread runs it, this one
            for _ in range(each):
                run.run(None, given)
            times[tool].append((time.thread_time() - start) / each * 1000)
    return {tool: rows[tool] | {"ms": min(found), "median": statistics.median(found)} for tool, found in times.items()}


def main() -> int:
    """Prints the table."""
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--job")
    parser.add_argument("--write", nargs=2)
    options = parser.parse_args()
    if options.write:
        write(*options.write)
        print("{}")
        return 0
    if options.job:
        print(json.dumps(job(options.job, options.rounds)))
        return 0
    table = Table(title="milliseconds on ONNX Runtime's CPU provider, one thread; nodes in brackets")
    for title in ("model", *OURS, *OTHERS, "ours / fastest other"):
        table.add_column(title, justify="left" if title == "model" else "right")
    found: dict[str, Any] = {}
    for name in options.models or [*DECODE, *SMALL, *IMAGES, *ORDERS]:
        made = {tool: in_process(__file__, "--write", name, tool, limit=WRITING) for tool in ("model", *OTHERS, *OURS)}
        found[name] = {t: row for t, row in made.items() if "failed" in row}
        found[name] |= in_process(__file__, "--job", name, "--rounds", str(options.rounds))
        table.add_row(name, *cells(found[name]))
        print(json.dumps({name: found[name]}), file=sys.stderr)
    Console(width=160).print(table)
    for title, names in (("decoding steps", DECODE), ("transformers", SMALL), ("images", IMAGES), ("order", ORDERS)):
        ratios = [r for name in names if name in found and (r := ratio(found[name])) is not None]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{title}: geometric mean {mean:.3f} of the fastest other")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


def ratio(rows: dict[str, Any]) -> float | None:
    """irkit's faster file against the fastest of all others; None where there is nothing to compare."""
    ours = [rows[tool]["ms"] for tool in OURS if "ms" in rows.get(tool, {})]
    others = [rows[tool]["ms"] for tool in OTHERS if "ms" in rows.get(tool, {})]
    return min(ours) / min(others) if ours and others else None


def cells(rows: dict[str, Any]) -> list[str]:
    """One line of the table."""
    if "failed" in rows:
        return [rows["failed"]]
    shown = []
    for tool in (*OURS, *OTHERS):
        row = rows.get(tool, {})
        shown.append(f"{row['ms']:.3f} ({row['nodes']})" if "ms" in row else "fails" if "failed" in row else "")
    found = ratio(rows)
    return [*shown, f"{found:.3f}" if found is not None else ""]


if __name__ == "__main__":
    sys.exit(main())
