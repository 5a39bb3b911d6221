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
import torch
from typer.testing import CliRunner

import irkit
from irkit import op
from irkit.doors.cli import app
from irkit.pattern import const
from irkit.toolbox.listing import graph_data
from irkit.toolbox.rule_files import run_file

ROOT = Path(__file__).resolve().parents[3]


def irkit_(*arguments: object, stdin: bytes | None = None) -> Any:
    """What `irkit` with these arguments did: its exit code and output."""
    return CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)


class Two(torch.nn.Module):
    """Two layers, each on a line of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.second(x.relu())


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
    refused = irkit_("stats", model, "--by", "rank")
    assert refused.exit_code == 1 and "flops" not in refused.output and "take op, module" in refused.output


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


# ---------------------------------------------------------------------------------------------- check, explain, bind


def test_check_compares_two_models_at_several_sizes(model: Path, tmp_path: Path) -> None:
    assert irkit_("optimize", model, "-o", tmp_path / "o.onnx").exit_code == 0
    done = irkit_("check", model, "--against", tmp_path / "o.onnx", "--runs", "2")
    assert done.exit_code == 0 and done.output.count("agrees") == 3 and done.output.startswith("n=1: agrees")
    told = json.loads(irkit_("check", model, "n=5", "--against", tmp_path / "o.onnx", "--json").output)
    assert told["agrees"] and [run["sizes"] for run in told["runs"]] == [{"n": 5}]
    assert irkit_("check", model, "--against", tmp_path / "o.onnx", "--quiet", "--runtime", "irkit").output == ""


def test_check_says_where_models_differ(model: Path, tmp_path: Path) -> None:
    graph = small_model()
    off = irkit.Graph(graph.params, (op.Mul(graph.results[0], np.float32(1.01)),), signature=graph.signature)
    irkit.save(off, tmp_path / "off.onnx", target="onnxruntime-cpu")
    done = irkit_("check", model, "--against", tmp_path / "off.onnx")
    assert done.exit_code == 1 and "output y:" in done.output and "elements differ" in done.output
    told = irkit_("check", model, "--against", tmp_path / "off.onnx", "--json")
    assert told.exit_code == 1 and not json.loads(told.output)["agrees"]
    assert irkit_("check", model, "--against", tmp_path / "off.onnx", "--rtol", "0.05").exit_code == 0
    two = irkit.Graph(graph.params, (*graph.results, graph.results[0]))
    irkit.save(two, tmp_path / "two.onnx", target="onnxruntime-cpu")
    assert "has 1 outputs, y, and two.onnx 2" in irkit_("check", model, "--against", tmp_path / "two.onnx").output


RULES = """
import irkit
from irkit import hole, op, p

x = hole("x")


@irkit.rule(p.Softmax(p.Relu(x)), exact=False)
def shifted(m):
    "Softmax(Relu(x)) -> Softmax(LeakyRelu(x))"
    return op.Softmax(op.LeakyRelu(m.x, alpha=0.0))


@irkit.rule(p.Softmax(p.Abs(x)))
def never(m):
    "Softmax(Abs(x)) -> itself"
    return m.root
"""


def test_explain_asks_rules_of_a_file(model: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RULES)
    done = irkit_("explain", model, "--rules", tmp_path / "mine.py")
    assert done.exit_code == 0 and done.output.startswith("applies at 1, declines at 0, does not match at 1")
    assert "found Relu, expected Abs" in done.output
    (told,) = json.loads(irkit_("explain", model, "--rules", f"{tmp_path}/mine.py:never", "--json").output)
    assert (told["rule"], told["applies"], told["reason"]) == ("never", False, "found Relu, expected Abs")
    assert "gelu looks for Mul" in irkit_("explain", model, "--rules", "gelu", "--optimized").output
    used = irkit_("optimize", model, "-o", tmp_path / "o.onnx", "--rules", tmp_path / "mine.py")
    assert used.exit_code == 0 and "LeakyRelu" in [v.op for v in irkit.load(tmp_path / "o.onnx").order]


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("x = 1", "", "makes no rules"),
        ("1 / 0", "", "mine.py:1 1 / 0"),
        (RULES, ":other", "its rules are: shifted, never"),
        (None, "", "there is no file"),
    ],
)
def test_a_file_without_such_rules_is_refused(
    model: Path, tmp_path: Path, text: str | None, name: str, said: str
) -> None:
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    done = irkit_("explain", model, "--rules", f"{tmp_path}/mine.py{name}")
    assert done.exit_code == 1 and said in done.output and "Traceback" not in done.output


def safetensors(path: Path, **arrays: np.ndarray) -> Path:
    """A file of safetensors with float32 arrays."""
    header: dict[str, Any] = {}
    end = 0
    for name, each in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(each.shape), "data_offsets": [end, end + each.nbytes]}
        end += each.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(each.tobytes() for each in arrays.values()))
    return path


def test_wrong_arguments_are_told_in_words_of_the_shell(model: Path, tmp_path: Path) -> None:
    said = irkit_("profile", model, "--rules", "gelu")  # which were not looked at
    assert said.exit_code == 2 and "--optimize" in said.output
    said = irkit_(
        "bind", model, safetensors(tmp_path / "w.safetensors", z=np.zeros(3, np.float32)), "-o", tmp_path / "b.onnx"
    )
    assert said.exit_code == 1 and "--no-strict" in said.output
    (tmp_path / "none.safetensors").write_text("none of that kind")
    said = irkit_("bind", model, tmp_path / "none.safetensors", "-o", tmp_path / "b.onnx")
    assert said.exit_code == 1 and "index.json" in said.output and "check_model" not in said.output
    said = irkit_("validate", "Foo")
    assert said.exit_code == 1 and "near it" not in said.output and "validate --list" in said.output


def test_bind_puts_weights_in_the_place_of_inputs_and_of_others(tmp_path: Path) -> None:
    x, w = irkit.param(irkit.tensor("f32", "n", 4)), irkit.param(irkit.tensor("f32", 4, 4))
    ports = irkit.Signature((irkit.Port("x"), irkit.Port("w")), (irkit.Port("y", "output"),))
    irkit.save(irkit.Graph((x, w), (op.MatMul(x, w),), signature=ports), tmp_path / "open.onnx")
    first = safetensors(tmp_path / "first.safetensors", w=np.eye(4, dtype=np.float32))
    second = safetensors(tmp_path / "second.safetensors", w=2 * np.eye(4, dtype=np.float32))
    done = irkit_("bind", tmp_path / "open.onnx", first, "-o", tmp_path / "first.onnx")
    assert done.exit_code == 0 and "1 input became a weight" in done.output
    done = irkit_("bind", tmp_path / "first.onnx", second, "-o", tmp_path / "second.onnx", "--json")
    assert done.exit_code == 0 and json.loads(done.output)["parameters_bound"] == 0
    fed = np.ones((2, 4), np.float32)
    assert irkit.evaluate(tmp_path / "first.onnx", [fed])[0].max() == 1
    assert irkit.evaluate(tmp_path / "second.onnx", [fed])[0].max() == 2
    other = safetensors(tmp_path / "other.safetensors", v=np.eye(4, dtype=np.float32))
    refused = irkit_("bind", tmp_path / "open.onnx", other, "-o", tmp_path / "no.onnx")
    assert refused.exit_code == 1 and "no weight called 'v'" in refused.output
    assert irkit_("bind", tmp_path / "open.onnx", other, "-o", tmp_path / "no.onnx", "--no-strict").exit_code == 0


# ---------------------------------------------------------------------------------------------- profile, new-rule


def test_profile_says_where_the_time_goes_before_and_after(tmp_path: Path) -> None:
    program = irkit.to_onnx(Two(), (torch.randn(3, 8),), dynamic_shapes=({0: "n"},), optimize=False)
    irkit.save(program.ready, tmp_path / "m.onnx", target="onnxruntime-cpu")
    arguments = ("profile", tmp_path / "m.onnx", "n=64", "--runs", "3", "--optimize")
    told = json.loads(irkit_(*arguments, "--json", "--by", "module").output)
    assert [each["model"] for each in told["profiles"]] == ["m.onnx", "optimized"] and told["sizes"] == {"n": 64}
    for each in told["profiles"]:
        assert each["milliseconds"] > 0 and {"first", "second"} <= {row["key"] for row in each["rows"]}
    by_line = irkit_(*arguments, "--by", "source")
    assert by_line.exit_code == 0 and "self.first(x)" in by_line.output.replace("\n", " ")
    assert "ms a run at n=64" in irkit_(*arguments).output
    assert irkit_(*arguments, "--by", "color").exit_code == 1


def test_equal_constants_that_are_two_values_are_said_to_be_so() -> None:
    x, c = irkit.hole("x"), const("c")
    two = irkit.rule(irkit.p.Sub(irkit.p.Add(x, c), c))(lambda m: m.x)
    value = irkit.param(irkit.tensor("f32", 2))
    graph = irkit.Graph((value,), (op.Sub(op.Add(value, 1.0), 1.0),))
    assert "irkit.share(graph) makes equal values one" in irkit.explain(two, graph)[0].reason
    assert irkit.explain(two, irkit.share(graph))[0].applies


def test_new_rule_writes_files_that_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = irkit_("new-rule", "my_swish", "--folder", tmp_path)
    assert done.exit_code == 0 and done.output.count("wrote ") == 4
    tests = [each for name, each in vars(run_file(tmp_path / "test_my_swish.py")).items() if name.startswith("test_")]
    monkeypatch.delitem(sys.modules, "my_swish")
    assert len(tests) == 3
    for each in tests:
        each()
    assert irkit_("new-rule", "my_swish", "--folder", tmp_path).exit_code == 1  # nothing is written over
    for wrong in ("my-swish", "class", "MySwish"):
        assert "cannot be the name of a rule" in irkit_("new-rule", wrong, "--folder", tmp_path).output


WRONG = """
from irkit import hole, op, p, rule


@rule(p.Sqrt(p.Mul(hole("x", dtype="float"), hole("x"))))
def root(m):
    \"\"\"Sqrt(x * x) -> x\"\"\"
    return m.x


@rule(p.Neg(p.Neg(hole("x", dtype="float"))))
def twice(m):
    \"\"\"-(-x) -> x\"\"\"
    return m.x
"""


def test_check_rule_tells_true_rules_from_wrong_ones(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(WRONG)
    done = irkit_("check-rule", tmp_path / "mine.py", "-n", 5, "--json")
    assert done.exit_code == 1
    first, second = json.loads(done.output)
    assert (first["rule"], first["holds"], second["rule"], second["holds"]) == ("root", False, "twice", True)
    assert "differs" in first["report"] and "import irkit" in first["program"] and second["fired"] == 5
    done = irkit_("check-rule", f"{tmp_path / 'mine.py'}:twice", "-n", 5)
    assert done.exit_code == 0 and "twice fired on 5 instances" in done.output
    assert irkit_("check-rule", "neg_of_neg_not_there").exit_code == 1
    assert irkit_("check-rule", tmp_path / "none.py").exit_code == 1
    assert irkit_("check-rule", "sub_neg", "-n", 2, "--no-runtime").exit_code == 0


# ---------------------------------------------------------------------------------------------- without torch

FRESH = """
import sys
sys.modules["torch"] = None
from typer.testing import CliRunner
from irkit.doors.cli import app
from irkit.pattern import const
from irkit.toolbox.listing import graph_data
from irkit.toolbox.rule_files import run_file
for command in sys.argv[1].split(";"):
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 0, (command, done.output)
loaded = {name.partition(".")[0] for name in sys.modules if sys.modules[name] is not None}
assert not loaded & {"torch", "lowering", "transformers"}, loaded
"""
COMMANDS = (
    "run {m} n=3 -o {d}/y.npz;run {m} --all --json;stats {m} n=2;extract {m} -y Relu -o {d}/p.onnx;"
    "check {m} --against {m};explain {m} --rules default;bind {m} {d}/w.safetensors -o {d}/b.onnx --no-strict;"
    "profile {m} --optimize --runs 2;new-rule mine --folder {d};check-rule {d}/mine.py -n 3"
)


def test_no_command_of_the_toolbox_needs_torch(model: Path, tmp_path: Path) -> None:
    safetensors(tmp_path / "w.safetensors", w=np.eye(4, dtype=np.float32))
    commands = COMMANDS.format(m=model, d=tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FRESH, commands], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------------------------------------- data


def test_every_command_has_json(model: Path, tmp_path: Path) -> None:
    """What a command prints with --json, and no more, is JSON."""
    here, rules = tmp_path / "o.onnx", tmp_path / "mine.py"
    rules.write_text(
        "import irkit\nfrom irkit import hole, p\n\n"
        "@irkit.rule(p.Relu(p.Relu(hole('x'))))\ndef twice(m):\n    return irkit.op.Relu(m.x)\n"
    )
    told = {
        each[0]: json.loads(irkit_(*each, "--json").output)
        for each in (
            ("optimize", model, "-o", here),
            ("convert", model, "--opset", "17", "-o", tmp_path / "c.onnx"),
            ("show", model),
            ("rules", "norms"),
            ("contract", model),
            ("viz", model, "-o", tmp_path / "v.html"),
            ("diff", model, model),
            ("explain", model, "--rules", rules),
            ("check", model, "--against", here),
            ("extract", model, "-y", "Relu", "-o", tmp_path / "p.onnx"),
        )
    }
    assert (
        told["optimize"]["before"] == 3 and told["optimize"]["saved"] == str(here) and told["optimize"]["passes"] == []
    )
    assert told["convert"] == {"before": 3, "after": 3, "opset": 17, "saved": str(tmp_path / "c.onnx")}
    assert [node["op"] for node in told["show"]["nodes"]] == ["Constant", "MatMul", "Relu", "Softmax"]
    assert told["show"]["inputs"] == [{"name": "x", "value": "%x", "type": "f32[n, 8]"}]
    assert all(each["equation"] and "norm" in "".join(each["families"]) for each in told["rules"])
    assert told["viz"]["bytes"] == (tmp_path / "v.html").stat().st_size
    families = json.loads(irkit_("rules", "--families", "--json").output)
    assert families.get("norms")


def test_show_has_bodies_and_attributes_as_data() -> None:
    x, flag = irkit.param(irkit.tensor("f32", "n")), irkit.param(irkit.tensor("bool"))
    made = op.If(flag, then_branch=lambda: op.LeakyRelu(x, alpha=0.5), else_branch=lambda: op.Cast(x, to="f32"))
    told = graph_data(irkit.Graph((x, flag), made if isinstance(made, tuple) else (made,)))
    (branches,) = [node["bodies"] for node in told["nodes"] if "bodies" in node]
    assert list(branches) == ["then", "else"] and branches["then"]["nodes"][0]["attributes"] == {"alpha": 0.5}
    assert json.loads(json.dumps(told, allow_nan=False)) == told
