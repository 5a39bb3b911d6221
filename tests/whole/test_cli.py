"""The command line: every command, and every way in which a user gets one wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from torch.export import Dim
from typer.testing import CliRunner

import irkit
from irkit.doors.cli import app

ROOT = Path(__file__).resolve().parents[2]


class Scaled(torch.nn.Module):
    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        y = torch.nn.functional.gelu(self.linear(x)) * self.factor
        return {"y": y, "kind": 7, "total": y.sum(0)}


def saved(module: torch.nn.Module, path: Path) -> Path:
    """The file of the module's exported program, with a dynamic batch."""
    torch.manual_seed(0)
    exported = torch.export.export(module, (torch.randn(3, 4),), dynamic_shapes={"x": {0: Dim("batch", max=64)}})
    torch.export.save(exported, path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two programs of the same inputs, and the ONNX model of the first, written by the command line."""
    found = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    model = Scaled()
    saved(model, found / "model.pt2")
    model.factor = 2.001
    saved(model, found / "other.pt2")
    result = irkit_(["export", str(found / "model.pt2"), "-o", str(found / "model.onnx")])
    assert result.exit_code == 0, result.output
    return found


def irkit_(arguments: Sequence[str]) -> Any:
    """What `irkit` with these arguments did: its exit code and output."""
    return CliRunner().invoke(app, list(arguments))


def names(folder: Path) -> set[str]:
    """The names of the files in a folder."""
    return {path.name for path in folder.iterdir()}


# ---------------------------------------------------------------------------------------------- what works


def test_export_writes_a_valid_model_and_its_report(folder: Path, tmp_path: Path) -> None:
    result = irkit_(["export", str(folder / "model.pt2"), "-o", str(tmp_path / "model.onnx"), "--check"])
    assert result.exit_code == 0, result.output
    assert "f32[x_dim_0, 4]" in result.output
    assert result.output.count("agrees") == 4
    assert names(tmp_path) == {"model.onnx"}  # nothing temporary is left
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)


@pytest.mark.parametrize("opset", [18, 20])
def test_export_honours_the_opset(folder: Path, tmp_path: Path, opset: int) -> None:
    path = tmp_path / "model.onnx"
    assert irkit_(["export", str(folder / "model.pt2"), "-o", str(path), "--opset", str(opset)]).exit_code == 0
    assert [entry.version for entry in onnx.load(path).opset_import if entry.domain == ""] == [opset]


def test_export_refuse_writes_a_file_that_fails_beyond_its_contract(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "strict.onnx"
    result = irkit_(["export", str(folder / "model.pt2"), "-o", str(output), "--refuse"])
    assert result.exit_code == 0, result.output
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(str(output), options, providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.ones((64, 4), np.float32)})[0].shape == (64, 3)
    with pytest.raises(InvalidArgument, match=r"Gather .* out of data bounds"):
        session.run(None, {"x": np.ones((65, 4), np.float32)})


def test_export_cannot_both_refuse_and_tell(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "model.onnx"
    result = irkit_(["export", str(folder / "model.pt2"), "-o", str(output), "--refuse", "--conditions"])
    assert result.exit_code == 2
    assert not output.exists()


def test_export_for_any_runtime(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    assert irkit_(["export", str(folder / "model.pt2"), "-o", str(path), "--target", "onnx"]).exit_code == 0
    assert irkit.load(path) == irkit.load(folder / "model.onnx")


@pytest.mark.parametrize("ending", ["onnx", "pt2", "irkit"])
def test_show_prints_text_that_parses(folder: Path, ending: str) -> None:
    irkit.save_text(irkit.load(folder / "model.onnx"), folder / "model.irkit")
    result = irkit_(["show", str(folder / f"model.{ending}")])
    assert result.exit_code == 0, result.output
    graph = irkit.parse(result.output)
    assert irkit.verify(graph).signature.params[0].name == "x"
    assert {"Gemm", "Gelu"} <= {value.op for value in graph.order}


def test_check_agrees_at_several_sizes(folder: Path) -> None:
    result = irkit_(["check", str(folder / "model.onnx"), "--against", str(folder / "model.pt2"), "--runs", "2"])
    assert result.exit_code == 0, result.output
    assert result.output.count("agrees") == 3
    assert "x_dim_0=1: agrees" in result.output


def test_optimize_makes_a_model_smaller_and_keeps_its_numbers(folder: Path, tmp_path: Path) -> None:
    x = irkit.param(irkit.tensor("f32", "n", 4))
    turned = irkit.op.Transpose(irkit.op.Transpose(x, perm=[1, 0]), perm=[1, 0])
    irkit.save(irkit.Graph((x,), (irkit.op.Add(irkit.op.Relu(turned), 0.0),)), tmp_path / "long.onnx")
    path = tmp_path / "short.onnx"
    result = irkit_(["optimize", str(tmp_path / "long.onnx"), "-o", str(path), "--opset", "19"])
    assert result.exit_code == 0, result.output
    assert result.output.endswith(f" nodes to 1: wrote {path}\n")
    model = onnx.load(path)
    assert ([n.op_type for n in model.graph.node], model.opset_import[0].version) == (["Relu"], 19)
    numbers = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    assert irkit.compare(irkit.evaluate(irkit.load(path), [numbers]), [np.maximum(numbers, 0)]) is None
    same = irkit_(["optimize", str(folder / "model.onnx"), "-o", str(path), "--level", "0"])
    assert same.exit_code == 0, same.output
    assert irkit_(["check", str(path), "--against", str(folder / "model.pt2")]).exit_code == 0


def test_check_takes_models_with_other_names(folder: Path, tmp_path: Path) -> None:
    model = onnx.load(folder / "model.onnx")
    for node in model.graph.node:
        node.input[:] = ["renamed" if name == "x" else name for name in node.input]
    model.graph.input[0].name = "renamed"
    onnx.save(model, tmp_path / "renamed.onnx")
    result = irkit_(["check", str(tmp_path / "renamed.onnx"), "--against", str(folder / "model.pt2")])
    assert result.exit_code == 0, result.output


# ---------------------------------------------------------------------------------------------- what is refused


def test_check_fails_where_the_numbers_differ(folder: Path) -> None:
    result = irkit_(["check", str(folder / "model.onnx"), "--against", str(folder / "other.pt2")])
    assert result.exit_code == 1
    assert "elements differ" in result.output
    assert "output y" in result.output


def test_check_fails_where_the_shapes_differ(folder: Path, tmp_path: Path) -> None:
    graph = irkit.load(folder / "model.onnx")
    y, total = graph.results
    irkit.save(graph.with_results((irkit.op.Neg(y), irkit.op.Unsqueeze(total, [0]))), tmp_path / "wrong.onnx")
    result = irkit_(["check", str(tmp_path / "wrong.onnx"), "--against", str(folder / "model.pt2"), "--runs", "0"])
    assert result.exit_code == 1
    assert "output y" in result.output


def test_check_refuses_a_model_of_another_program(folder: Path, tmp_path: Path) -> None:
    x = irkit.param(irkit.tensor("f32", "n", 4))
    irkit.save(irkit.Graph((x,), (irkit.op.Relu(x),)), tmp_path / "one_result.onnx")
    result = irkit_(["check", str(tmp_path / "one_result.onnx"), "--against", str(folder / "model.pt2")])
    assert result.exit_code == 1
    assert "gives 1 result, and the program 2" in result.output
    y = irkit.param(irkit.tensor("f32", "n", 4))
    irkit.save(irkit.Graph((x, y), (irkit.op.Add(x, y),)), tmp_path / "two_inputs.onnx")
    result = irkit_(["check", str(tmp_path / "two_inputs.onnx"), "--against", str(folder / "model.pt2")])
    assert result.exit_code == 1
    assert "and the program x" in result.output


def test_check_reports_what_the_runtime_refuses(folder: Path, tmp_path: Path) -> None:
    x = irkit.param(irkit.tensor("f32", 3, 4))  # the batch is fixed
    graph = irkit.Graph((x,), (irkit.op.Relu(x), irkit.op.ReduceSum(x, [0], keepdims=0)))
    irkit.save(graph, tmp_path / "fixed.onnx")
    result = irkit_(["check", str(tmp_path / "fixed.onnx"), "--against", str(folder / "model.pt2")])
    assert result.exit_code == 1
    assert "ONNX Runtime cannot run the file on these inputs" in result.output


def test_export_that_fails_its_check_writes_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lowering.program.check import CheckReport, SizeReport
    from lowering.program.program import Program

    monkeypatch.setattr(Program, "check", lambda self: CheckReport((SizeReport((("n", 1),), (), "it differs"),)))
    result = irkit_(["export", str(folder / "model.pt2"), "-o", str(tmp_path / "model.onnx"), "--check"])
    assert result.exit_code == 1
    assert "n=1: it differs" in result.output
    assert names(tmp_path) == set()


def test_export_that_fails_leaves_the_old_file(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    assert irkit_(["export", str(folder / "model.pt2"), "-o", str(path), "--opset", "12"]).exit_code == 1
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == {"model.onnx"}


WRONG = {
    "an opset that is too old": (
        ["export", "{model.pt2}", "-o", "{out.onnx}", "--opset", "12"],
        1,
        "13 to 26",
    ),
    "an opset that is not a number": (["export", "{model.pt2}", "-o", "{out.onnx}", "--opset", "new"], 2, "--opset"),
    "a target that nobody knows": (
        ["export", "{model.pt2}", "-o", "{out.onnx}", "--target", "tpu"],
        1,
        "onnxruntime-cpu",
    ),
    "a missing program": (["export", "{missing.pt2}", "-o", "{out.onnx}"], 2, "does not exist"),
    "no output": (["export", "{model.pt2}"], 2, "--output"),
    "an output of torch's": (["export", "{model.pt2}", "-o", "{out.pt2}"], 1, "a file of torch's"),
    "an ONNX model to export": (["export", "{model.onnx}", "-o", "{out.onnx}"], 1, "irkit optimize"),
    "an output in no folder": (["export", "{model.pt2}", "-o", "{nowhere/out.onnx}"], 1, "no folder"),
    "a level that is none": (["optimize", "{model.onnx}", "-o", "{out.onnx}", "--level", "3"], 1, "no level 3"),
    "a text to optimize": (["optimize", "{notes.txt}", "-o", "{out.onnx}"], 1, "no ONNX model"),
    "an empty file": (["optimize", "{empty.onnx}", "-o", "{out.onnx}"], 1, "empty.onnx': it has no graph"),
    "a file that is cut off": (
        ["convert", "{cut.onnx}", "-o", "{out.onnx}", "--opset", "18"],
        1,
        "see whether it is whole",
    ),
    "a text to show as ONNX": (["show", "{notes.txt}"], 1, "no ONNX model"),
    "a text that is not a graph": (["show", "{wrong.irkit}"], 1, "error:"),
    "a missing model": (["show", "{missing.onnx}"], 2, "does not exist"),
    "a folder": (["show", "{.}"], 2, "directory"),
    "nothing to check against": (["check", "{model.onnx}"], 2, "--against"),
    "a negative number of runs": (["check", "{model.onnx}", "--against", "{model.pt2}", "--runs", "-1"], 2, "--runs"),
    "a text to check": (["check", "{notes.txt}", "--against", "{model.pt2}"], 1, "ONNX Runtime cannot run notes.txt"),
    "a model and a text": (["check", "{model.onnx}", "--against", "{notes.txt}"], 1, "notes.txt"),
    "a command that is none": (["convert"], 2, "convert"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_a_line(folder: Path, case: str) -> None:
    arguments, code, said = WRONG[case]
    (folder / "notes.txt").write_text("Just some notes.\n")
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "cut.onnx").write_bytes((folder / "model.onnx").read_bytes()[:-9])
    (folder / "wrong.irkit").write_text("graph g {\n  input %x: f33[n]\n  return %x\n}\n")
    filled = [str(folder / each[1:-1]) if each.startswith("{") else each for each in arguments]
    result = irkit_(filled)
    assert (result.exit_code, "Traceback" in result.output) == (code, False), result.output
    assert said in " ".join(result.output.replace("│", " ").split())
    assert not (folder / "out.onnx").exists()
    assert isinstance(result.exception, SystemExit)


def test_no_arguments_print_the_commands() -> None:
    result = irkit_([])
    assert all(command in result.output for command in ("export", "optimize", "show", "check"))


# ---------------------------------------------------------------------------------------------- the process


def test_the_process_prints_and_exits_as_a_shell_expects(folder: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "irkit", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    shown = run("show", str(folder / "model.onnx"))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert irkit.parse(shown.stdout) == irkit.load(folder / "model.onnx")
    wrong = run("show", str(ROOT / "Makefile"))
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("error: there is no ONNX model")


def test_the_installed_script_is_the_command_line() -> None:
    installed = Path(sys.executable).with_name("irkit")
    done = subprocess.run([installed, "--help"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "optimize" in done.stdout) == (0, True), done.stderr


def test_a_closed_pipe_keeps_no_file_from_being_written(folder: Path, tmp_path: Path) -> None:
    """`irkit optimize ... | head`, where the reader is gone at once."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "irkit", "optimize", str(folder / "model.onnx"), "-o", str(tmp_path / "out.onnx")]
    done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert names(tmp_path) == {"out.onnx"} and "Traceback" not in done.stderr


def test_the_nodes_of_a_file_are_counted_as_they_stand_in_it(folder: Path, tmp_path: Path) -> None:
    model = onnx.load(folder / "model.onnx")
    for command in (["optimize"], ["convert", "--opset", "17"]):
        result = irkit_([*command, str(folder / "model.onnx"), "-o", str(tmp_path / "model.onnx")])
        assert f"{len(model.graph.node)} ONNX nodes to " in result.output


def test_help_has_a_short_name() -> None:
    assert irkit_(["show", "-h"]).output == irkit_(["show", "--help"]).output


@pytest.mark.parametrize("module", ["irkit", "irkit.doors.cli"])
def test_modules_run_the_command_line_too(module: str) -> None:
    command = [sys.executable, "-m", module, "--version"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"irkit {version('irkit')}\n", "")


@pytest.mark.parametrize("when", ["imports", "command"])
def test_an_interrupt_ends_in_one_line(when: str) -> None:
    """While modules are imported, and later: the process interrupts itself, so that the moment is certain."""
    code = "import os, signal, sys, irkit_command\nhit = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background ignores interrupts
    if when == "imports":
        code += "class Finder:\n    find_spec = staticmethod(lambda name, *_: name == 'sympy' and hit() or None)\n"
        code += "sys.meta_path.insert(0, Finder)\n"
    else:
        code += "import irkit.doors.cli\nirkit.doors.cli.read_graph = hit\n"
    code += f"sys.argv = ['irkit', 'show', {__file__!r}]\nirkit_command.main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_the_version_is_told() -> None:
    result = irkit_(["--version"])
    assert result.exit_code == 0 and result.output == f"irkit {version('irkit')}\n"


@pytest.mark.parametrize("command", [["optimize"], ["convert", "--opset", "18"]])
def test_an_output_that_ends_in_irkit_is_text(folder: Path, tmp_path: Path, command: list[str]) -> None:
    output = tmp_path / "model.irkit"
    result = irkit_([*command, str(folder / "model.onnx"), "-o", str(output)])
    assert result.exit_code == 0, result.output
    assert output.read_text().startswith("graph ") and irkit.load_text(output).results


def test_devices_and_links_stay_what_they_are(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = irkit_(["optimize", str(folder / "model.onnx"), "-o", str(tmp_path / "pipe")])
    assert result.exit_code == 1 and "is not an ordinary file, and cannot be replaced" in result.output
    assert (tmp_path / "pipe").is_fifo()

    (tmp_path / "there").mkdir()
    link = tmp_path / "link.onnx"
    link.symlink_to(tmp_path / "there" / "model.onnx")
    assert irkit_(["optimize", str(folder / "model.onnx"), "-o", str(link)]).exit_code == 0
    assert link.is_symlink() and onnx.load(tmp_path / "there" / "model.onnx").graph.node


@pytest.mark.parametrize(
    ("kind", "what"),
    [("script", "holds TorchScript, which keeps no example arguments"), ("state", "holds what torch.save wrote")],
)
def test_other_archives_of_torch_are_named(tmp_path: Path, kind: str, what: str) -> None:
    model, path = torch.nn.Linear(2, 2), tmp_path / "model.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(model).save(path) if kind == "script" else torch.save(model.state_dict(), path)
    result = irkit_(["export", str(path), "-o", str(tmp_path / "model.onnx")])
    assert result.exit_code == 1 and what in result.output and "try: " in result.output
