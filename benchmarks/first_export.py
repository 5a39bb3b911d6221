"""The first export of a process, from `import` to the file: CPU seconds of irkit, torch.onnx.export and torch.export.

    python -m benchmarks.first_export
    python -m benchmarks.first_export --runs 5

What is exported once in a process, as most scripts and the command line do, waits above all for modules to be loaded.
Each run is a process of its own, after one that compiles what Python keeps of modules (in a folder of its own, so that
no setting of the caller's prevents it); the least of the runs is printed, the import of torch, which all share, apart.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = {
    "linear": "torch.nn.Linear(4, 3).eval(), torch.ones(2, 4)",
    "convolutions": "torch.nn.Sequential(*[torch.nn.Conv2d(3, 3, 3), torch.nn.ReLU()] * 4).eval(), "
    "torch.ones(2, 3, 32, 32)",
    "transformer": "torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, batch_first=True), 2).eval(), "
    "torch.ones(2, 5, 32)",
}
WAYS = {
    "irkit": "import irkit; irkit.to_onnx(model, (x,), dynamic_shapes=({0: 'n'},)).save(path)",
    "torch.onnx.export": "torch.onnx.export(model, (x,), path, dynamo=True, verbose=False, dynamic_shapes=({0: n},))",
    "torch.export": "torch.export.export(model, (x,), dynamic_shapes=({0: n},))",
}
SCRIPT = """
import sys, time, warnings
warnings.simplefilter("ignore")
begin = time.process_time()
import torch
model, x = {model}
n, path = torch.export.Dim("n"), sys.argv[1]
loaded = time.process_time()
{way}
print("seconds", loaded - begin, time.process_time() - loaded)
"""


def spent(model: str, way: str, runs: int, folder: str) -> tuple[float, float]:
    """(seconds until torch is loaded, seconds from there to the file), each the least of some processes. Raises
    CalledProcessError where one fails."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode", "OMP_NUM_THREADS": "1"}
    script = SCRIPT.format(model=MODELS[model], way=WAYS[way])
    told: list[tuple[float, float]] = []
    for _ in range(runs + 1):
        command = [sys.executable, "-c", script, f"{folder}/model.onnx"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        line = next(line for line in done.stdout.splitlines() if line.startswith("seconds"))
        _, torch_, rest = line.split()
        told.append((float(torch_), float(rest)))
    return min(first for first, _ in told[1:]), min(rest for _, rest in told[1:])


def main() -> None:
    """Prints a line for each model and way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    print(f"{'':33} {'torch':>8} {'the rest':>8} {'irkit:it':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            rest = {}
            for way in WAYS:
                loading, rest[way] = spent(model, way, given.runs, str(Path(folder)))
                ratio = rest["irkit"] / rest[way]
                print(f"{model:14} {way:18} {loading:8.2f} {rest[way]:8.2f} {ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()
