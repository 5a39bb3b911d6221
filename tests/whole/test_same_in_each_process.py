"""What a capture gives hangs on no order of a set, which is another in each process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """
import importlib.util, os, string, sys, sympy, tempfile, torch, irkit
from irkit import dims
from irkit.dims import Range
from lowering.capture.guards.questions import Questions
from lowering.direct.points import sizes_moved
from lowering.size_branches.elsewhere import point_where

for one, other in zip(string.ascii_lowercase, string.ascii_lowercase[1:]):
    asked = Questions(str, print, print, hints={one: 3, other: 4}, ranges={one: Range(), other: Range()})
    condition = dims.symbol(one) + 2 * dims.symbol(other) > 20
    print(point_where(asked, condition), sizes_moved(asked, {one: 9, other: 9}, condition))

def numbers(x, y):
    first, last, most = int(x.sum()), int(y.sum()), int(y.max())
    if first * last + most > 4:
        x = x[first:] * last
    return x + most, torch.zeros(first + last * 2 + most)

def imported(name, text):
    # what libraries do with code that they write themselves: the name of the file is drawn
    with tempfile.NamedTemporaryFile("w", prefix=f"{name}_", suffix=".py", delete=False) as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location(name, file.name)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, file.name

module, name = imported("written_by_a_library", "def doubled(x):\\n    return x * 2\\n")
program = irkit.to_onnx(module.doubled, (torch.rand(3),), dynamic_shapes=({0: "n"},))
exported = irkit.to_onnx(module.doubled, (torch.rand(3),), dynamic_shapes=({0: "n"},), capture="torch.export")
print(program.graph, exported.graph)
assert "written_by_a_library.py:2 return x * 2" in str(program.graph)
os.remove(name)

given = torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[0.0, 1.0], [1.0, 1.0]])
program = irkit.to_onnx(numbers, given, dynamic_shapes=({0: "rows"}, {0: "also"}), rewrite=True)
print(program.graph, program.report.guards, program.report.notes, sorted(map(str, program.graph.symbols.items())))
"""


def test_a_capture_gives_the_same_in_each_process() -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("0", "1")
    ]
    texts = [each.communicate(timeout=120)[0] for each in started]
    assert all(each.returncode == 0 for each in started)
    assert texts[0] and texts[0] == texts[1]
