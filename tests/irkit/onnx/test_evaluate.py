"""`irkit.evaluate` of graphs and of ONNX models: chosen outputs, printed values, ONNX Runtime node by node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import irkit
from irkit import op, param, tensor
from irkit.build import closed
from irkit.checking.comparison import compare
from irkit.core.ir import Graph, Port, Signature, Value
from irkit.errors import EvaluateError
from irkit.evaluation import interpreter
from irkit.onnx.single_nodes import SingleNodes
from passes import prepare
from tests.support.node_cases import built, cases, fed

F = np.float32
X = np.array([[1, -2, 3], [0.5, 0, -1]], F)


def model() -> Graph:
    x = param(tensor("f32", "n", 3))
    soft = op.Softmax(op.Add(op.MatMul(x, np.eye(3, dtype=F)), F(1)), axis=-1)
    return Graph((x,), (op.Neg(soft),), signature=Signature((Port("x"),), (Port("y", "output"),)))


def test_a_graph_a_model_its_bytes_and_a_file_are_evaluated_alike(tmp_path: Path) -> None:
    proto = irkit.to_proto(model())
    irkit.save(model(), tmp_path / "m.onnx")
    (expected,) = interpreter.evaluate(model(), [X])
    for each in (model(), proto, proto.SerializeToString(), tmp_path / "m.onnx", str(tmp_path / "m.onnx")):
        assert (irkit.evaluate(each, {"x": X})[0] == expected).all()


def test_outputs_are_chosen_by_name_by_text_and_as_values() -> None:
    graph = model()
    soft = graph.results[0].inputs[0]
    assert isinstance(soft, Value)
    text = next(line for line in str(graph).splitlines() if "Softmax" in line).split(":")[0].strip()
    found = irkit.evaluate(graph, [X], outputs=["y", text, soft])
    assert len(found) == 3 and (found[0] == -found[1]).all() and (found[1] == found[2]).all()
    (named,) = irkit.evaluate(irkit.to_proto(graph), [X], outputs=["Softmax"])
    assert (named == found[1]).all()


def test_what_the_outputs_do_not_need_is_not_computed() -> None:
    x = param(tensor("f32", 2))
    graph = Graph((x,), (op.Add(x, x), irkit.custom("mylib::Unknown", x, type=x.type)))
    assert irkit.evaluate(graph, [np.ones(2, F)], outputs=[graph.results[0]])[0].tolist() == [2, 2]
    with pytest.raises(irkit.EvaluateError, match="no kernel for mylib::Unknown"):
        irkit.evaluate(graph, [np.ones(2, F)])
    kernels = {"mylib::Unknown": lambda node, a: a * 3}
    for runtime in ("irkit", "onnxruntime"):
        assert irkit.evaluate(graph, [np.ones(2, F)], kernels=kernels, runtime=runtime)[1].tolist() == [3, 3]


def test_wrong_arguments_are_refused_with_what_to_write() -> None:
    with pytest.raises(irkit.EvaluateError, match="no value called 'Sofmax'") as error:
        irkit.evaluate(irkit.to_proto(model()), [X], outputs=["Sofmax"])
    assert "near it: Softmax" in str(error.value)
    with pytest.raises(irkit.EvaluateError, match="give a list of names"):
        irkit.evaluate(model(), [X], outputs="y")
    with pytest.raises(irkit.EvaluateError, match="no runtime 'tvm'"):
        irkit.evaluate(model(), [X], runtime="tvm")  # type: ignore[arg-type]
    with pytest.raises(irkit.EvaluateError, match="no value"):
        irkit.evaluate(model(), [X], outputs=[param(tensor("f32"))])
    with pytest.raises(irkit.LoadError):
        irkit.evaluate(3, [X])  # type: ignore[arg-type]


def test_values_are_printed_with_type_and_range(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    irkit.evaluate(model(), {"x": X}, verbose=1, every=lambda v, _: seen.append(v.op))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "%1: f32[2, 3] = MatMul(%x, %0)  in [-2, 3]"
    assert len(lines) == 4 and "Param" in seen and "Softmax" in seen
    bad = np.array([[np.nan, 1, 2]], F)
    irkit.evaluate(model(), {"x": bad}, verbose=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "%x: f32[1, 3] = Param  in [1, 2], 1 NaN  nan, 1, 2"
    irkit.evaluate(model(), {"x": bad[:0]}, verbose=2)
    assert capsys.readouterr().out.splitlines()[-1].endswith("f32[0, 3] = Neg(%4)")


def test_bodies_run_node_by_node_on_onnx_runtime(capsys: pytest.CaptureFixture[str]) -> None:
    state, step, going = param(tensor("f32", 3)), param(tensor("i64")), param(tensor("bool"))
    body, _ = closed((step, going, state), (going, op.Add(op.Mul(state, F(2)), F(1))))
    first = param(tensor("f32", 3))
    graph = Graph((first,), op.Loop(np.int64(4), np.bool_(True), first, body=body))
    runs = SingleNodes()
    found = interpreter.evaluate(graph, [np.arange(3, dtype=F)], kernels=runs)
    assert found[0].tolist() == [15, 31, 47]
    assert len(runs._sessions) == 2  # four turns of two operators
    irkit.evaluate(graph, [np.arange(3, dtype=F)], verbose=1, runtime="onnxruntime")
    assert sum("Mul(" in line for line in capsys.readouterr().out.splitlines()) == 4


def test_what_onnx_runtime_does_not_run_is_said_with_what_to_do() -> None:
    x = param(tensor("bf16", 2))
    graph = Graph((x,), (op.Tan(x),))
    with pytest.raises(irkit.EvaluateError, match="ONNX Runtime does not run Tan") as error:
        irkit.evaluate(graph, [np.ones(2, F).astype(x.dtype.numpy)], runtime="onnxruntime")
    assert "passes.prepare" in str(error.value)


def test_node_cases_run_node_by_node() -> None:
    """What ONNX Runtime gives for each node of a prepared graph is what the evaluator gives."""
    failures, passed = [], 0
    for case in [c for c in cases()[11::61] if "dft" not in c.name]:  # its sums in float32 are off by 5e-5
        params: dict[str, Value] = {}
        results = tuple(r for r in built(case, lambda n, t: params.setdefault(n, param(t))) if r is not None)  # noqa: B023
        arrays = [x for info, x in zip(fed(case.model.graph), case.inputs, strict=True) if info.name in params]
        graph = Graph(tuple(params.values()), results)
        try:
            graph = prepare(graph)
            found: object = compare(
                list(irkit.evaluate(graph, arrays)), list(irkit.evaluate(graph, arrays, runtime="onnxruntime"))
            )
        except irkit.RewriteError:
            continue  # the target has nothing of the kind, and says so
        except irkit.EvaluateError as error:
            found = error
        passed += found is None
        if found is not None:
            failures.append(f"{case.name}: {found}")
    assert not failures, "\n".join(failures)
    assert passed >= 22


FILE = """
<ir_version: 10, opset_import: ["" : 21, "mine": 1, "com.microsoft": 1]>
agraph (float[N, 4] x, bool c) => (float[N, 4] y) {
  h = mine.twice(x)
  g = com.microsoft.FastGelu(h)
  z = If(c) <then_branch = a () => (float[N, 4] t) { t = Relu(g) },
             else_branch = b () => (float[N, 4] e) { e = Neg(g) }>
  y = Add(z, x)
}
<domain: "mine", opset_import: ["" : 21]>
twice (a) => (b) { two = Constant<value = float {2.0}>() b = Mul(a, two) }
"""


@pytest.mark.parametrize("runtime", ["irkit", "onnxruntime"])
def test_functions_branches_and_operators_of_other_domains_are_seen_from_inside(
    runtime: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    model, x = onnx.parser.parse_model(FILE), np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    seen: list[str] = []
    y, h, z = irkit.evaluate(
        model,
        {"x": x, "c": np.array(False)},
        outputs=["y", "h", "z"],
        runtime=runtime,
        verbose=1,
        every=lambda value, _: seen.append(value.op),
    )
    np.testing.assert_array_equal(h, 2 * x)
    half = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
    np.testing.assert_allclose(y, x - half, atol=1e-5)
    np.testing.assert_array_equal(y, z + x)
    assert {"Mul", "com.microsoft::FastGelu", "Neg"} <= set(seen) and "Relu" not in seen
    printed = capsys.readouterr().out
    assert any("= com.microsoft::FastGelu(" in line and line.endswith("# g") for line in printed.splitlines())


@pytest.mark.parametrize("runtime", ["irkit", "onnxruntime"])
def test_custom_operators_have_the_kernels_that_they_are_given(runtime: Any) -> None:
    x = irkit.param(irkit.tensor("f32", "n"))
    graph = irkit.Graph((x,), (irkit.op.Add(irkit.custom("mylib::Twist", x, type=x.type), 1.0),))
    kernels = {"mylib::Twist": lambda node, given: given * 7}
    (found,) = irkit.evaluate(graph, [np.ones(3, np.float32)], runtime=runtime, kernels=kernels)
    assert found.tolist() == [8, 8, 8]
    with pytest.raises(EvaluateError, match="mylib::Twist"):
        irkit.evaluate(graph, [np.ones(3, np.float32)], runtime=runtime)
