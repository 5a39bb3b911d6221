"""From file to file: what is written runs, the file given stays, and the collector is as it was."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from irkit.build import op
from irkit.core.ir import Graph, Value
from irkit.doors.cli import app
from irkit.errors import LoadError, RewriteError
from irkit.pattern import hole, p
from irkit.rewriting.face import Match, rule
from passes import optimize_file


def written(folder: Path) -> Path:
    """A file with two Transposes that cancel, and a sum."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Transpose", ["t"], ["u"], perm=[1, 0]),
        helper.make_node("Add", ["u", "c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(np.arange(3, dtype=np.float32), "c")],
    )
    path = folder / "given.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.mark.parametrize("opset", [None, 18])
def test_a_file_is_optimized(tmp_path: Path, opset: int | None) -> None:
    """The graph that is returned is what the file holds, in the opset asked for, and the numbers are the same."""
    given, output = written(tmp_path), tmp_path / "smaller.onnx"
    before = given.read_bytes()
    graph = optimize_file(given, output, opset=opset)
    model = onnx.load(output)
    assert [n.op_type for n in model.graph.node] == ["Add"] and len(graph) == 1
    assert opset in (None, model.opset_import[0].version)
    assert given.read_bytes() == before and gc.isenabled()
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    found = onnxruntime.InferenceSession(output, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    np.testing.assert_array_equal(np.asarray(found), x + np.arange(3, dtype=np.float32))


def test_rules_are_chosen_as_an_export_chooses_them(tmp_path: Path) -> None:
    """By a text, by a rule of the caller's own, or both; what names no rule is refused."""
    given, output = written(tmp_path), tmp_path / "smaller.onnx"
    kinds = [v.op for v in optimize_file(given, output, rules="default-movement").order if v.inputs]
    assert kinds == ["Transpose", "Transpose", "Add"]

    @rule(p.Add(hole("x"), hole("y")))
    def turned(m: Match) -> Value:
        """x + y -> -(-x - y)"""
        return op.Neg(op.Sub(op.Neg(m.x), m.y))

    graph = optimize_file(given, output, rules=(turned, "default-algebra"))
    assert [v.op for v in graph.order if v.inputs] == ["Neg", "Sub", "Neg"]
    for wrong in ("defualt", 3):
        with pytest.raises(RewriteError):
            optimize_file(given, output, rules=wrong)  # pyright: ignore[reportArgumentType]


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    """Nothing is written, and the collector runs again."""
    given = tmp_path / "none.onnx"
    given.write_bytes(b"nothing of the kind")
    with pytest.raises(LoadError):
        optimize_file(given, tmp_path / "smaller.onnx")
    assert not (tmp_path / "smaller.onnx").exists() and gc.isenabled()


def test_graphs_are_freed_without_the_collector(tmp_path: Path) -> None:
    """No cycle holds the graphs of the way, and with them an open file."""
    given = written(tmp_path)
    gc.collect()
    gc.disable()
    held = [each for each in gc.get_objects() if issubclass(type(each), Value | Graph)]  # a bounded cache may drop some
    before = set(map(id, held))
    try:
        optimize_file(given, tmp_path / "smaller.onnx")
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [each for each in gc.garbage if isinstance(each, Value | Graph) and id(each) not in before]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left


def test_a_file_is_what_the_command_line_writes(tmp_path: Path) -> None:
    """One tail for both: two weights of equal content are held once, unless that is not wanted."""
    weights = np.arange(300, dtype=np.float32)
    nodes = [helper.make_node("Mul", ["x", "a"], ["t"]), helper.make_node("Pow", ["t", "b"], ["y"])]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 300]) for name in ("x", "y")]
    given = [numpy_helper.from_array(weights, name) for name in ("a", "b")]
    path, ours, theirs = (tmp_path / f"{name}.onnx" for name in ("given", "ours", "theirs"))
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], given)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    for options, share, names in (([], True, ["a"]), (["--no-share-weights"], False, ["a", "b"])):
        optimize_file(path, ours, share_weights=share)
        done = CliRunner().invoke(app, ["optimize", str(path), "-o", str(theirs), *options])
        assert done.exit_code == 0 and ours.read_bytes() == theirs.read_bytes()
        assert [tensor.name for tensor in onnx.load(ours).graph.initializer] == names
