"""Files in other runtimes: what is asked and told, each runtime on the same file, and what is said where one fails."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs
import ml_dtypes
import numpy as np
import onnx
import pytest

import irkit
from irkit.build import const, op
from irkit.core.ir import Graph, param
from irkit.core.types import DType, tensor
from irkit.errors import IrkitError
from irkit.evaluation.interpreter import evaluate
from irkit.runtimes import RUNTIMES, Answer, Runtime, apart, run_file, run_files, runtime_named
from irkit.runtimes.exchange import (
    is_answered,
    is_second,
    outputs_of,
    read_answer,
    read_answers,
    read_request,
    write_answer,
    write_request,
)
from irkit.runtimes.known import library
from irkit.runtimes.tract import undeclared
from passes import prepare

X = np.array([[1.5, -2.0, 0.25]], np.float32)


def model(path: Path, target: str = "onnx") -> Graph:
    """Saves a layer over a batch that varies, with its integers and its sizes, prepared for a target."""
    x = param(tensor("f32", "batch", 3))
    weight = const(np.arange(12, dtype=np.float32).reshape(3, 4) / 7)
    found = op.MatMul(x, weight)
    graph = Graph((x,), (op.Softmax(found, axis=-1), op.Cast(found, to=DType.INT64), op.Shape(found)))
    irkit.save(prepare(graph, target), path)
    return graph


def inputs_of(path: Path) -> list[str]:
    """The names of the inputs of a file."""
    return [port.name for port in onnx.load(path).graph.input]


def test_requests_and_answers_are_read_as_they_were_written(tmp_path: Path) -> None:
    feeds = [{"x": X, "on": np.array(True)}, {"x": X.astype(ml_dtypes.bfloat16), "empty": np.zeros((0, 2), np.int64)}]
    request = write_request(tmp_path, Path("model.onnx"), feeds)
    path, calls = read_request(request)
    assert path.name == "model.onnx" and len(calls) == 2
    for given, (arrays, _) in zip(feeds, calls, strict=True):
        assert list(arrays) == list(given)
        for name, array in arrays.items():
            assert array.dtype == given[name].dtype and array.shape == given[name].shape
            assert array.tobytes() == given[name].tobytes()
    assert not is_answered(request)
    write_answer(calls[0][1], Answer((X,), note="slowly"))
    told = read_answer(calls[0][1])
    assert told and told.note == "slowly" and np.array_equal(told.results[0], X)
    first, second = read_answers(request, "it ended")
    assert first and not second and second.problem == "it ended"


@pytest.mark.parametrize("name", RUNTIMES)
def test_each_runtime_gives_what_the_evaluator_gives(tmp_path: Path, name: str) -> None:
    runtime = RUNTIMES[name]
    if not runtime.version():
        pytest.skip(f"{name} is an extra, and is not installed: {runtime.install}")
    path = tmp_path / "model.onnx"
    graph = model(path, runtime.target)
    (x,) = inputs_of(path)
    feeds = [{x: X}, {x: np.repeat(X, 3, axis=0) * np.float32(0.5)}]
    for given, answer in zip(feeds, run_file(path, feeds, name), strict=True):
        assert answer, answer.problem
        for expected, result in zip(evaluate(graph, [given[x]]), answer.results, strict=True):
            np.testing.assert_allclose(result, np.asarray(expected), rtol=1e-5, atol=1e-6)
            assert result.dtype == np.asarray(expected).dtype


def test_what_a_runtime_refuses_is_told_of_that_file_alone(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.onnx", tmp_path / "bad.onnx"
    model(good)
    bad.write_bytes(b"no model")
    (name,) = inputs_of(good)
    answers = list(run_files([(bad, [{name: X}]), (good, [{name: X}, {name: X[:, :2]}])], "onnxruntime"))
    assert "InvalidProtobuf" in answers[0][0].problem
    assert answers[1][0] and "INVALID_ARGUMENT" in answers[1][1].problem


def test_a_process_that_ends_is_told_and_another_goes_on(tmp_path: Path) -> None:
    """The child answers the first request, and is killed in the second; the third is another's."""
    script = (
        "import os, sys, json, pathlib\n"
        "for request in sys.argv[1:]:\n"
        "    for call in json.loads(pathlib.Path(request).read_text())['calls']:\n"
        "        if len(call['inputs']) == 2: os.kill(os.getpid(), 9)\n"
        "        pathlib.Path(call['output']).write_text(json.dumps({'results': [], 'problem': ''}))\n"
    )

    class Killed(Runtime):
        """A runtime that is this script."""

        def require(self) -> str:
            return "1"

        def command(self, requests: Iterable[Path]) -> list[str]:
            return [sys.executable, "-c", script, *map(str, requests)]

    jobs = [("a.onnx", [{"x": X}]), ("b.onnx", [{"x": X, "y": X}]), ("c.onnx", [{"x": X}])]
    first, second, third = run_files(jobs, Killed("killed", "onnx", "killed"))
    assert first[0] and third[0] and second[0].problem.startswith("the process of killed was ended by signal 9")


def test_errors_say_what_to_install_and_what_there_is() -> None:
    with pytest.raises(IrkitError, match="there is no runtime 'tensorrt'") as unknown:
        runtime_named("tensorrt")
    assert "openvino" in str(unknown.value)
    absent = Runtime("absent", "onnx", "no-such-package", "pip install no-such-package")
    with pytest.raises(IrkitError, match="absent is not installed") as missing:
        run_file("model.onnx", [], absent)
    assert "pip install no-such-package" in str(missing.value)
    with pytest.raises(IrkitError, match="cannot be imported") as unimported:
        library("no_such_module")
    assert "irkit[runtimes]" in str(unimported.value)


@pytest.mark.parametrize("name", ("tract", "onnx-reference"))
def test_a_file_at_which_the_process_ended_is_tried_again_where_there_is_another_way(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, bool]] = []

    def process_of(_: Runtime, requests: Sequence[Path], seconds: float) -> str:
        seen.append((len(requests), is_second(requests[0])))
        if is_second(requests[0]):
            for request in requests:
                for output in outputs_of(request):
                    write_answer(output, Answer((np.ones(1),)))
        return "it ended"

    monkeypatch.setattr(apart, "process_of", process_of)
    runtime = attrs.evolve(RUNTIMES[name], package="onnx")  # one that is installed
    answers = list(run_files([(tmp_path / "a.onnx", [{}]), (tmp_path / "b.onnx", [{}])], runtime))
    again = RUNTIMES[name].tries_again
    assert seen == ([(2, False), (2, True)] if again else [(2, False), (1, False)])
    assert [[answer.problem for answer in each] for each in answers] == [["" if again else "it ended"]] * 2


def test_tract_is_given_no_shapes_of_what_bodies_take_and_give(tmp_path: Path) -> None:
    x = param(tensor("f32", "n", 3))
    rows = op.Scan(x, num_scan_inputs=1, body=op.Neg)
    path = tmp_path / "a.onnx"
    irkit.save(Graph((x,), tuple(rows)), path)
    bodies = [a.g for n in onnx.load_from_string(undeclared(path)).graph.node for a in n.attribute if a.HasField("g")]
    assert bodies and not any(
        port.type.tensor_type.HasField("shape") for body in bodies for port in (*body.input, *body.output)
    )
