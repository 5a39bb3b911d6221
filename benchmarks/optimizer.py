"""`make bench`: optimizers over the same ONNX files, which torch.onnx wrote without optimizing them.

For each file and tool: CPU seconds of load + optimize + save (imports left out, the best of `--repeat`, and of as many
more runs as take `--seconds`), the nodes that are left, the latency on ONNX Runtime, and the largest difference of the
results from those of the file as it was. Each (file, tool) pair runs in a process of its own. `python
benchmarks/optimizer.py gpt2 vit` measures those files only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.peers import (
    TOOLS,
    count,
    inputs_of,
    largest_difference,
    place,
    results,
    session,
    write_by_torch,
)
from benchmarks.processes import in_process


def job(name: str, tool: str, repeat: int, least: float) -> dict[str, Any]:
    """One measurement, in this process: the best of `repeat` runs, and of as many more as take `least` CPU seconds."""
    warnings.simplefilter("ignore")
    source, output = place(name, "model"), place(name, tool)
    inputs = inputs_of(name)
    row: dict[str, Any] = {"file": name, "tool": tool, "before": count(source)}
    best, runs, begin = float("inf"), 0, time.process_time()
    # The first run imports and warms up, and counts only where it is the only one.
    while runs <= repeat or time.process_time() - begin < least:
        output.unlink(missing_ok=True)  # to put a file in the place of another costs what the other was
        start = time.process_time()
        TOOLS[tool](source, output)
        spent = time.process_time() - start
        best, runs = min(best, spent), runs + 1
    row |= {"seconds": best, "nodes": count(output)}
    expected, run = results(session(source), inputs), session(output)
    found = results(run, inputs)
    row["error"] = largest_difference(expected, found)
    times = []
    for _ in range(15):
        start = time.perf_counter()
        results(run, inputs)
        times.append(time.perf_counter() - start)
    row["latency"] = sorted(times)[len(times) // 2] * 1000
    return row


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
    parser.add_argument("--seconds", type=float, default=0, help="repeat for so long at least, each tool the same")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--job", nargs=2)
    parser.add_argument("--write", action="store_true", help="only write the files")
    options = parser.parse_args()
    if options.job:
        print(json.dumps(job(options.job[0], options.job[1], options.repeat, options.seconds)))
        return 0
    names = options.files or list(FILES)
    if options.write:
        for name in names:
            write_by_torch(name, place(name, "model"))
        return 0
    subprocess.run([sys.executable, __file__, "--write", *names], check=True, stdout=subprocess.DEVNULL)
    names = [name for name in names if place(name, "model").exists()]
    table = Table(title="load + optimize + save, CPU seconds on one thread")
    for title in ("file", "tool", "before", "nodes", "seconds", "against irkit", "ms", "difference"):
        table.add_column(title, justify="left" if title in ("file", "tool") else "right")
    rows: list[dict[str, Any]] = []
    for name in names:
        ours: dict[str, Any] = {}
        for tool in options.tools.split(","):
            found = {"file": name, "tool": tool}
            how = ("--repeat", str(options.repeat), "--seconds", str(options.seconds))
            found |= in_process(__file__, "--job", name, tool, *how, limit=600)
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
