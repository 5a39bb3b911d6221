"""Models whose weights are large files of holes, and commands that must do with little memory beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]

CODE = """
import resource, sys
import irkit.doors.cli as cli
import irkit.toolbox.running, passes.files
from typer.testing import CliRunner

def data():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData"))

limit = data() + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
for command in sys.argv[2:]:
    done = CliRunner().invoke(cli.app, command.split())
    if done.exit_code != 0:
        print(command, done.output[-2000:], repr(done.exception), file=sys.stderr)
        sys.exit(3 if isinstance(done.exception, MemoryError) else 1)
"""


def write_large_model(folder: Path, layers: int, width: int, different: bool) -> None:
    """Writes `m.onnx`: products with square weights of zeros and a few numbers, which take no room on the disk. The
    second weight differs from the others where they shall."""
    size = width * width * 4
    nodes, weights, last = [], [], "x"
    for i in range(layers):
        tensor = TensorProto(name=f"w{i}", data_type=1, dims=[width, width], data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "m.data"), ("offset", str(i * size)), ("length", str(size))):
            tensor.external_data.add(key=key, value=value)
        weights.append(tensor)
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"p{i}"]))
        nodes.append(helper.make_node("Identity", [f"p{i}"], [f"i{i}"]))
        nodes.append(helper.make_node("Relu", [f"i{i}"], [f"r{i}"]))
        last = f"r{i}"
    x, y = (helper.make_tensor_value_info(name, 1, ["b", width]) for name in ("x", last))
    graph = helper.make_graph(nodes, "large", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(folder / "m.onnx"))
    with (folder / "m.data").open("wb") as file:
        file.truncate(layers * size)
        if different:
            os.pwrite(file.fileno(), b"\x00\x00\x80\x3f", size + 4 * (width + 1))


def run_within(room: int, commands: list[str]) -> None:
    """Runs commands in a process that may take so many bytes beyond what its imports took. Raises MemoryError where one
    of them asks for more, RuntimeError where one fails."""
    command = [sys.executable, "-c", CODE, str(room), *commands]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    if done.returncode == 3:
        raise MemoryError(done.stderr)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
