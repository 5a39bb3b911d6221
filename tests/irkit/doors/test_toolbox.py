"""`irkit run`, `stats`, `extract` and their kin from a shell: what they print, write and refuse, and that none of them
needs torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import irkit
from irkit import op
from irkit.doors.cli import app

ROOT = Path(__file__).resolve().parents[3]


def irkit_(*arguments: object, stdin: bytes | None = None) -> Any:
    """What `irkit` with these arguments did: its exit code and output."""
    return CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)


def small_model() -> irkit.Graph:
    rng = np.random.default_rng(0)
    x = irkit.param(irkit.tensor("f32", "n", 8))
    weight = irkit.const(rng.standard_normal((8, 4)).astype(np.float32))
    ports = irkit.Signature((irkit.Port("x"),), (irkit.Port("y", "output"),))
    return irkit.Graph((x,), (op.Softmax(op.Relu(op.MatMul(x, weight))),), signature=ports)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("toolbox") / "m.onnx"
    irkit.save(small_model(), path, target="onnxruntime-cpu")
    return path


# ---------------------------------------------------------------------------------------------- run


def test_run_saves_what_it_computed_and_what_it_was_fed(model: Path, tmp_path: Path) -> None:
    done = irkit_("run", model, "n=3", "-o", tmp_path / "y.npz", "--save-inputs", tmp_path / "x.npz")
    assert done.exit_code == 0 and done.output.startswith("y: f32[3, 4]  in [") and "n=3" in done.output
    with np.load(tmp_path / "x.npz") as inputs, np.load(tmp_path / "y.npz") as outputs:
        expected = irkit.evaluate(model, dict(inputs))
        assert irkit.compare(list(expected), [outputs["y"]]) is None
    again = irkit_("run", model, "--inputs", tmp_path / "x.npz", "-o", tmp_path / "z.npz", "--quiet")
    assert (again.exit_code, again.output) == (0, "")
    assert np.load(tmp_path / "z.npz")["y"].tobytes() == np.load(tmp_path / "y.npz")["y"].tobytes()


@pytest.mark.parametrize("runtime", ["irkit", "onnxruntime"])
def test_run_all_has_intermediate_values(model: Path, tmp_path: Path, runtime: str) -> None:
    done = irkit_("run", model, "n=2", "--all", "--runtime", runtime, "--json", "-o", tmp_path / "all.npz")
    told = json.loads(done.output)
    assert list(told["values"]) == ["MatMul", "Relu", "y"] and told["sizes"] == {"n": 2}
    assert told["values"]["Relu"]["min"] == 0.0 and told["values"]["y"]["shape"] == [2, 4]
    with np.load(tmp_path / "all.npz") as found:
        assert set(found) == {"MatMul", "Relu", "y"}
        assert irkit.compare(found["Relu"], np.maximum(found["MatMul"], 0)) is None


def test_run_takes_a_model_from_standard_input_and_gives_arrays_on_standard_output(model: Path) -> None:
    for data in (model.read_bytes(), str(irkit.load(model)).encode()):
        done = irkit_("run", "-", "n=3", "-o", "-", stdin=data)
        assert done.exit_code == 0, done.output
        assert done.stdout_bytes.startswith(b"PK") and b"y: f32[3, 4]" in done.stderr_bytes


REFUSED = {
    "an unknown size": (["k=3"], 1, "has no size called 'k'"),
    "no size": (["3"], 1, "'3' gives no size"),
    "an unknown input": (["--range", "z=0:1"], 1, "has no input called 'z'"),
    "another runtime": (["--runtime", "torch"], 1, "there is no runtime 'torch'"),
    "inputs that are none": (["--inputs", __file__], 1, "holds no arrays by name"),
    "no such option": (["--whole"], 2, "No such option"),
    "no such folder": (["-o", "nowhere/y.npz"], 1, "there is no folder"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_run_refuses_in_one_line(model: Path, what: str) -> None:
    arguments, status, said = REFUSED[what]
    done = irkit_("run", model, *arguments)
    assert done.exit_code == status and said in done.output and "Traceback" not in done.output


# ---------------------------------------------------------------------------------------------- stats, extract


def test_stats_prints_formulas_numbers_and_json(model: Path) -> None:
    done = irkit_("stats", model)
    assert done.exit_code == 0 and "flops: 88*n" in done.output and "MatMul" in done.output
    told = json.loads(irkit_("stats", model, "n=10", "--json", "--by", "name").output)
    assert told["flops"] == 880 and told["parameters"] == 32 and [r["nodes"] for r in told["rows"]] == [1, 1, 1]
    assert "and 2 more" in irkit_("stats", model, "--top", "1").output
    assert irkit_("stats", model, "--by", "rank").exit_code == 1


def test_extract_writes_a_model_that_computes_its_part(model: Path, tmp_path: Path) -> None:
    done = irkit_("extract", model, "-i", "MatMul", "-y", "y,Relu", "-o", tmp_path / "part.onnx")
    assert done.exit_code == 0 and "input MatMul: f32[n, 4]" in done.output and "2 nodes" in done.output
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    _, relu = irkit.evaluate(tmp_path / "part.onnx", {"MatMul": x})
    assert irkit.compare(relu, np.maximum(x, 0)) is None
    assert irkit_("run", tmp_path / "part.onnx", "n=2").exit_code == 0
    wrong = irkit_("extract", model, "-i", "MatMull", "-o", tmp_path / "no.onnx")
    assert wrong.exit_code == 1 and "near it: MatMul" in wrong.output and not (tmp_path / "no.onnx").exists()


def test_commands_go_through_pipes(model: Path) -> None:
    part = irkit_("extract", model, "-y", "Relu", "-o", "-")
    assert part.exit_code == 0 and b"2 nodes" in part.stderr_bytes
    shown = irkit_("show", "-", stdin=part.stdout_bytes)
    assert shown.exit_code == 0 and "as Relu" in shown.output
    smaller = irkit_("optimize", "-", "-o", "-", stdin=part.stdout_bytes)
    assert smaller.exit_code == 0, smaller.output
    assert irkit_("stats", "-", stdin=smaller.stdout_bytes).exit_code == 0


# ---------------------------------------------------------------------------------------------- without torch

FRESH = """
import sys
sys.modules["torch"] = None
from typer.testing import CliRunner
from irkit.doors.cli import app
for command in sys.argv[1].split(";"):
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 0, (command, done.output)
loaded = {name.partition(".")[0] for name in sys.modules if sys.modules[name] is not None}
assert not loaded & {"torch", "lowering", "transformers"}, loaded
"""
COMMANDS = "run {m} n=3 -o {d}/y.npz;run {m} --all --json;stats {m} n=2;extract {m} -y Relu -o {d}/p.onnx"


def test_no_command_of_the_toolbox_needs_torch(model: Path, tmp_path: Path) -> None:
    commands = COMMANDS.format(m=model, d=tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FRESH, commands], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
