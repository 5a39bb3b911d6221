"""`to_onnx` over every kind of program, and what it promises of structure, opsets, files and reports."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import onnx
import onnxruntime
import pytest
import torch
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.shape_prop import ShapeProp

import irkit
from irkit.doors.to_onnx import to_onnx
from irkit.errors import IrkitError
from lowering.fold.assertions import Watched
from lowering.program.check import run


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.linear(x)) + y

    def halved(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) / 2


X, Y = torch.randn(5, 4), torch.randn(5, 3)
SHAPES = {"x": {0: "batch"}, "y": {0: "batch"}}


def test_a_module() -> None:
    model = Model()
    program = to_onnx(model, (X, Y), dynamic_shapes=SHAPES)
    torch.testing.assert_close(program(X[:2], Y[:2]), model(X[:2], Y[:2]))
    torch.testing.assert_close(program(X, y=Y), model(X, Y))


def test_an_exported_program_and_its_file(tmp_path: Path) -> None:
    model = Model()
    exported = torch.export.export(model, (X, Y), dynamic_shapes={"x": {0: Dim("b")}, "y": {0: Dim("b")}})
    program = to_onnx(exported)
    torch.testing.assert_close(program(X[:3], Y[:3]), model(X[:3], Y[:3]))
    assert {p.name for p in program.graph.signature.params} == {"x", "y"}
    torch.export.save(exported, tmp_path / "model.pt2")
    again = to_onnx(tmp_path / "model.pt2")
    assert again.graph == program.graph
    assert program.check(n=2)


def test_a_decomposed_program_with_written_buffers() -> None:
    class Counting(torch.nn.Module):
        seen: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(x.sum())
            return x * self.seen

    exported = torch.export.export(Counting(), (X,)).run_decompositions()
    program = to_onnx(exported)
    result, state = program.run((X,))
    eager = Counting()
    torch.testing.assert_close(result, eager(X))
    torch.testing.assert_close(state["seen"], eager.seen)


def test_a_function_and_a_method() -> None:
    model = Model()
    torch.testing.assert_close(to_onnx(lambda x: x.softmax(-1), (X,))(X), X.softmax(-1))
    program = to_onnx(model.halved, (X,))
    torch.testing.assert_close(program(X), model.halved(X))
    assert "linear.weight" in {i.name for i in program.proto.graph.initializer}


def test_an_fx_graph_of_make_fx() -> None:
    module = make_fx(lambda x: (x @ x.T).relu() * x.shape[0], tracing_mode="symbolic")(X)
    program = to_onnx(module)
    torch.testing.assert_close(program(X), (X @ X.T).relu() * 5)


def test_an_fx_graph_with_propagated_shapes() -> None:
    module = torch.fx.symbolic_trace(Model())
    ShapeProp(module).propagate(X, Y)
    torch.testing.assert_close(to_onnx(module, (X, Y))(X, Y), module(X, Y))


# ---------------------------------------------------------------------------------------------- structures


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


class Nested(torch.nn.Module):
    def forward(self, pair: Pair, tensors: list[Any], options: dict[str, Any]) -> dict[str, Any]:
        total = pair.first + pair.second + options["bias"]
        rest = (tensors[0] * options["scale"], [tensors[1][0] - 1, None])
        return {"total": total, "rest": rest, "flag": True, "pair": Pair(total * 2, total)}


def test_nested_inputs_and_outputs_keep_their_structure() -> None:
    args = (Pair(X, X + 1), [X, (X * 2,)], {"bias": torch.ones(4), "scale": 3})
    model = Nested()
    program = to_onnx(model, args)
    actual, expected = program(*args), model(*args)
    assert list(actual) == list(expected)
    assert isinstance(actual["pair"], Pair)
    assert actual["rest"][1][1] is None
    assert actual["flag"] is True
    torch.testing.assert_close(actual["rest"][0], expected["rest"][0])
    torch.testing.assert_close(actual["pair"].first, expected["pair"].first)
    names = [o.name for o in program.proto.graph.output]
    assert "total" in names
    assert "output.pair.first" in names  # an input has the plain name


FORMS: dict[str, Any] = {
    "dict of strings": {"x": {0: "b"}, "y": {0: "b"}},
    "tuple": ({0: "b"}, {0: "b"}),
    "Dim": {"x": {0: Dim("b")}, "y": {0: Dim("b")}},
    "Dim with a range": {"x": {0: Dim("b", min=1, max=64)}, "y": {0: Dim("b", min=1, max=64)}},
    "DYNAMIC": {"x": {0: Dim.DYNAMIC}, "y": {0: Dim.DYNAMIC}},
    "AUTO": {"x": {0: Dim.AUTO, 1: Dim.AUTO}, "y": {0: Dim.AUTO}},
    "lists": {"x": ["b", None], "y": ["b", None]},
    "STATIC beside": {"x": {0: "b", 1: Dim.STATIC}, "y": {0: "b"}},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_dynamic_shapes(form: str) -> None:
    model = Model()
    program = to_onnx(model, (X, Y), dynamic_shapes=FORMS[form])
    for batch in (1, 2, 7):
        x, y = torch.randn(batch, 4), torch.randn(batch, 3)
        torch.testing.assert_close(program(x, y), model(x, y))


def test_dynamic_shapes_by_the_renamed_inputs() -> None:
    program = to_onnx(
        Model(), (X, Y), dynamic_shapes={"left": {0: "b"}, "right": {0: "b"}}, input_names=["left", "right"]
    )
    assert [i.name for i in program.proto.graph.input] == ["left", "right"]
    assert program(X[:2], Y[:2]).shape == (2, 3)


def test_derived_dimensions() -> None:
    def fold(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2, 4).sum(1) + y

    program = to_onnx(
        fold, (torch.randn(6, 4), torch.randn(3, 4)), dynamic_shapes={"x": {0: 2 * Dim("b")}, "y": {0: Dim("b")}}
    )
    x, y = torch.randn(10, 4), torch.randn(5, 4)
    torch.testing.assert_close(program(x, y), fold(x, y))
    with pytest.raises(IrkitError):
        program(torch.randn(10, 4), torch.randn(4, 4))


def test_a_symbolic_int_is_an_input() -> None:
    def crop(x: torch.Tensor, n: int) -> torch.Tensor:
        return x[:n] * n

    program = to_onnx(crop, (torch.randn(8, 2), 4), dynamic_shapes={"x": None, "n": Dim.DYNAMIC})
    x = torch.randn(8, 2)
    torch.testing.assert_close(program(x, 4), crop(x, 4))
    torch.testing.assert_close(program(x, 6), crop(x, 6))


# ---------------------------------------------------------------------------------------------- opsets and files


@pytest.mark.parametrize("opset", range(13, 27))
def test_an_opset_is_honoured_exactly(opset: int) -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.RMSNorm(8), torch.nn.SiLU(), torch.nn.Linear(8, 2)
    )
    program = to_onnx(model, (X,), dynamic_shapes=({0: "batch"},), opset=opset)
    assert [(o.domain, o.version) for o in program.proto.opset_import] == [("", opset)]
    onnx.checker.check_model(program.proto, full_check=True)
    torch.testing.assert_close(program(X[:2]), model(X[:2]))


@pytest.mark.parametrize("opset", [1, 7, 12, 27, 99, "20", 20.0])
def test_an_opset_out_of_range_is_refused(opset: Any) -> None:
    with pytest.raises(IrkitError, match=str(opset)):
        to_onnx(torch.nn.ReLU(), (X,), opset=opset)


def test_a_saved_model_runs_and_loads_back(tmp_path: Path) -> None:
    model = Model()
    program = to_onnx(model, (X, Y), dynamic_shapes=SHAPES)
    for external in (False, True):
        path = program.save(tmp_path / f"model_{external}.onnx", external=external)
        session = onnxruntime.InferenceSession(str(path))
        (actual,) = session.run(None, {"x": X[:1].numpy(), "y": Y[:1].numpy()})
        torch.testing.assert_close(torch.from_numpy(actual), model(X[:1], Y[:1]))
        again = irkit.load(path)
        assert [p.name for p in again.signature.params] == ["x", "y"]
        irkit.verify(again)


def test_the_graph_of_a_program_is_pickled_and_the_program_is_not() -> None:
    program = to_onnx(torch.nn.Linear(3, 2), (torch.randn(4, 3),), dynamic_shapes=({0: "n"},))
    with pytest.raises(TypeError, match="save the program as a file, or pickle its graph"):
        pickle.dumps(program)
    assert pickle.loads(pickle.dumps(program.ready)) == program.ready
    assert copy.copy(program) is program and copy.deepcopy([program])[0] is program


def test_the_file_carries_the_contract() -> None:
    def guarded(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 3 else x - 1

    program = to_onnx(guarded, (X,), dynamic_shapes=({0: Dim("rows", min=4, max=40)},))
    text = " ".join(f"{p.key} {p.value}" for p in program.proto.metadata_props)
    assert "rows" in text
    assert "40" in text
    report = str(program.report)
    assert "rows in [4, 40]" in report
    for rows in (3, 41):
        with pytest.raises(irkit.ContractError):
            program(torch.randn(rows, 4))


def test_a_check_finds_a_wrong_model() -> None:
    """The comparison can fail: a converter that is wrong by a little is found, at every size."""
    wrong = {torch.ops.aten.gelu.default: lambda self, *, approximate="none": irkit.op.Mul(irkit.op.Gelu(self), 1.001)}
    program = to_onnx(Model(), (X, Y), dynamic_shapes=SHAPES, converters=wrong)
    report = program.check(n=2)
    assert not report
    assert all(r.problem for r in report.runs)
    assert to_onnx(Model(), (X, Y), dynamic_shapes=SHAPES).check(n=2)


def test_the_model_is_left_as_it_was() -> None:
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout())
    before = {k: v.clone() for k, v in model.state_dict().items()}
    to_onnx(model.eval(), (X,))
    assert not model.training
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, before[name])


def test_a_training_module_writes_its_statistics() -> None:
    model = torch.nn.BatchNorm1d(4)
    program = to_onnx(model, (X,))
    result, state = program.run((X,))
    torch.testing.assert_close(result, model(X))
    torch.testing.assert_close(state["running_mean"], model.running_mean)
    torch.testing.assert_close(state["running_var"], model.running_var)


def test_report_of_one_run() -> None:
    program = to_onnx(Model(), (X, Y), dynamic_shapes=SHAPES)
    assert run(program, (X, Y), {}).problem == ""
    assert "batch" in str(program.report)
    assert set(program.report.seconds) >= {"capture", "optimize"}  # directly, a model is lowered as it is captured
    exported = to_onnx(Model(), (X, Y), dynamic_shapes=SHAPES, capture="torch.export")
    assert set(exported.report.seconds) >= {"capture", "lower", "optimize"}


class Writing(torch.nn.Module):
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        self.seen.add_(x.sum(0))
        y.mul_(2)
        return self.seen, x / self.seen


def test_a_check_starts_from_the_state_at_capture_and_compares_what_is_left() -> None:
    model, args = Writing(), (torch.rand(3, 2), torch.rand(3))
    program = to_onnx(model, args, dynamic_shapes=({0: "b"}, {0: "b"}))
    model(*args)  # the model goes on; the program and its check do not
    seen = model.seen.clone()
    assert program.check(n=2)
    torch.testing.assert_close(model.seen, seen)
    assert program.state["seen"].tolist() == [0.0, 0.0]

    results = list(program.ready.results)
    names = [port.name for port in program.ready.signature.results]
    for name in ("seen_out", "y_out"):
        changed = list(results)
        changed[names.index(name)] = irkit.op.Mul(results[names.index(name)], 1.01)
        wrong = attrs.evolve(program, made=Watched(program.ready.with_results(changed)))
        assert wrong.check(n=0).runs[0].problem.startswith(f"state {name.removesuffix('_out')}: ")


def test_a_call_refuses_another_structure_and_unknown_state() -> None:
    program = to_onnx(Writing(), (torch.rand(3, 2), torch.rand(3)))
    with pytest.raises(irkit.ContractError, match="the call lacks 'y'"):
        program(torch.rand(3, 2))
    with pytest.raises(irkit.ContractError, match="another structure"):
        program([torch.rand(3, 2)], torch.rand(3))
    with pytest.raises(irkit.ContractError, match="no state called 'sen'"):
        program.run((torch.rand(3, 2), torch.rand(3)), state={"sen": torch.zeros(2)})


@pytest.mark.parametrize("vector_first", [False, True])
def test_a_transposed_batch_times_a_vector(vector_first: bool) -> None:
    """ONNX Runtime 1.31 fuses the Transpose into the product and then computes something else."""

    def product(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return v @ x.transpose(1, 2) if vector_first else x.transpose(1, 2) @ v

    x, v = torch.randn(3, 4, 5), torch.randn(5 if vector_first else 4)
    assert run(to_onnx(product, (x, v)), (x, v), {}).problem == ""


@pytest.mark.parametrize("target", ["tpu", 3])
def test_an_unknown_target_is_refused(target: Any) -> None:
    with pytest.raises(irkit.RewriteError, match="there is no target"):
        to_onnx(torch.nn.ReLU(), (X,), target=target)


def test_a_program_without_results_is_refused() -> None:
    with pytest.raises(IrkitError, match="returns no tensor"):
        to_onnx(lambda x: None, (X,))


def test_a_model_cannot_be_saved_as_a_folder_or_in_none(tmp_path: Path) -> None:
    program = to_onnx(torch.nn.ReLU(), (X,))
    with pytest.raises(irkit.SerializeError, match="is a folder"):
        program.save(tmp_path)
    with pytest.raises(irkit.SerializeError, match="there is no folder"):
        program.save(tmp_path / "none" / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_content_of_a_bool_is_a_result_and_a_number() -> None:
    class Content(torch.nn.Module):
        def forward(self, flag: torch.Tensor, x: torch.Tensor) -> Any:
            return x + flag.item(), torch.full((2,), flag.item()), flag.item()

    program = to_onnx(Content(), (torch.tensor(True), X))
    for flag in (torch.tensor(True), torch.tensor(False)):
        assert run(program, (flag, X), {}).problem == ""


def test_an_argument_that_was_none_may_be_left_out() -> None:
    def model(x: torch.Tensor, bias: Any = None, scale: float = 2.0) -> torch.Tensor:
        return x * scale if bias is None else x + bias

    program = irkit.to_onnx(model, (torch.ones(2), None, 3.0))
    assert program(torch.ones(2), scale=3.0).tolist() == [3.0, 3.0]
    with pytest.raises(irkit.ContractError, match="the call lacks 'scale'"):
        program(torch.ones(2))


@pytest.mark.parametrize("names", ["out", [3], [""]])
def test_names_are_a_list_of_names(names: Any) -> None:
    for option in ("input_names", "output_names"):
        with pytest.raises(irkit.IrkitError, match=f"{option} is "):
            irkit.to_onnx(torch.nn.ReLU(), (torch.ones(2),), **{option: names})


def test_the_door_and_what_is_behind_it_take_the_same() -> None:
    door, behind = (inspect.signature(each).parameters.values() for each in (irkit.to_onnx, to_onnx))
    assert [(p.name, p.kind, p.default) for p in door] == [(p.name, p.kind, p.default) for p in behind]
    with pytest.raises(TypeError, match=r"to_onnx\(\) got an unexpected keyword argument 'dynamic_axes'"):
        irkit.to_onnx(torch.nn.ReLU(), (torch.randn(2),), dynamic_axes={})  # type: ignore[call-arg]


class Opaque:
    """A result that torch does not know how to take apart."""


WRONG: dict[str, tuple[Callable[[], Any], str, str]] = {
    "no rule": (lambda: given(rules=3), "3 is not a rule", "@irkit.rule"),
    "a list of rules with another thing in it": (
        lambda: given(rules=["gelu", None]),
        "None is not a rule",
        "@irkit.rule",
    ),
    "a precision that is none": (lambda: given(precision=torch.float64), "and not to double", "float16"),
    "a list of converters": (lambda: given(converters=["aten.relu"]), "converters is a list", "a dict"),
    "a tensor that shall be a number": (
        lambda: given(scalar_inputs=["input"]),
        "'input', which is a tensor",
        "name ints",
    ),
    "an array": (lambda: irkit.to_onnx(torch.nn.ReLU(), (torch.ones(2).numpy(),)), "numpy.ndarray", "torch.from_numpy"),
    "an array in a call": (lambda: given()(torch.ones(3).numpy()), "is a numpy array", "torch.from_numpy"),
    "an object as result": (
        lambda: irkit.to_onnx(lambda x: Opaque(), (torch.ones(2),)),
        "is not a known type",
        "tensors, or",
    ),
    "fewer than no sizes": (lambda: given().check(-1), "n is -1", "as in n=0"),
    "a weight without content": (
        lambda: given(torch.nn.PReLU(device="meta")).proto,
        "has no numbers",
        "load the weights",
    ),
    "weights without content and an input with": (
        lambda: to_onnx(torch.nn.Linear(3, 2, device="meta"), (torch.ones(3),)),
        "at least two devices, cpu and meta!",
        "load them",
    ),
    "quantized modules": (
        lambda: to_onnx(quantized(), (torch.ones(2, 3),), capture="torch.export"),
        "LinearPackedParams",
        "leave capture='torch.export' out",
    ),
}


def quantized() -> torch.nn.Module:
    """Modules of torch.ao, whose weights are objects of C++."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch names its successor
        return torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(3, 2)))


def given(model: torch.nn.Module | None = None, **options: Any) -> Any:
    """The program of a small model with these options."""
    device = next(model.parameters()).device if model else "cpu"
    return irkit.to_onnx(model or torch.nn.ReLU(), (torch.ones(3, device=device),), **options)


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_what_to_try(case: str) -> None:
    do, what, hint = WRONG[case]
    with pytest.raises(IrkitError) as caught:
        do()
    assert what in caught.value.what and hint in caught.value.hint


def test_no_line_of_python_itself_is_shown_as_one_of_the_model() -> None:
    with pytest.raises(IrkitError) as packed:
        to_onnx(quantized(), (torch.ones(2, 3),), capture="torch.export")
    assert packed.value.source == ""

    with pytest.raises(IrkitError) as caught:
        to_onnx(lambda x: x * statistics.fmean(x.unbind()), (torch.ones(3),), capture="torch.export")
    assert "test_export.py" in caught.value.source


def test_a_check_takes_from_the_example_where_torch_refuses_what_is_drawn() -> None:
    class Widths(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(8, 4)

        def forward(self, intervals: torch.Tensor) -> torch.Tensor:
            return self.embedding(intervals[:, 1] - intervals[:, 0])

    intervals = torch.tensor([[1, 3], [0, 7], [2, 2], [5, 7]])
    report = to_onnx(Widths(), (intervals,), dynamic_shapes=({0: "n"},)).check(n=5)
    assert report and len(report.runs) == 6
    taken = [run for run in report.runs if run.redrawn]
    assert taken and all("torch refuses random ones: IndexError" in str(run) and run.errors for run in taken)


def test_a_check_says_where_torch_refuses_every_input_of_a_size() -> None:
    args = torch.randint(0, 10, (6,)), torch.tensor([0, 2, 5])
    program = to_onnx(torch.nn.EmbeddingBag(10, 4), args, dynamic_shapes=({0: "n"}, {0: "m"}))
    report = program.check(n=4)
    assert report.refused and all(run.untaken and not run.problem for run in report.refused)
    assert all(dict(run.sizes)["n"] == 1 and dict(run.sizes)["m"] > 2 for run in report.refused)
    assert report and all(run.errors for run in report.runs)  # what torch takes agrees
    assert str(report).splitlines()[-1].startswith("m=") and "nothing was compared, as torch refuses" in str(report)


def test_a_check_of_random_draws_says_why_they_differ() -> None:
    drawing = irkit.to_onnx(torch.nn.Dropout().train(), (torch.ones(100),)).check(0)
    assert not drawing and drawing.runs[0].problem.endswith("the model draws random numbers, and torch draws others")
    assert "draws" not in str(irkit.to_onnx(torch.nn.ReLU(), (torch.ones(3),)).check(0))


def test_a_failed_capture_leaves_the_saying_to_its_error(capfd: pytest.CaptureFixture[str]) -> None:
    """torch prints the whole graph that it had, on each attempt."""
    with pytest.raises(IrkitError, match="data-dependent") as caught:
        irkit.to_onnx(lambda x: x + 1 if x.sum() > 0 else x - 1, (torch.ones(3),), capture="torch.export")
    assert "torch.cond" in caught.value.hint and "test_export.py" in caught.value.source
    assert not any(capfd.readouterr())


def test_a_precision_may_be_torchs() -> None:
    assert given(torch.nn.Linear(3, 2), precision=torch.bfloat16).precision is irkit.DType.BFLOAT16


def test_a_number_that_never_varies_is_a_model() -> None:
    program = to_onnx(lambda x: {"rows": x.shape[0], "half": 0.5, "yes": True, "no": None}, (X,))
    assert program(X) == {"rows": 5, "half": 0.5, "yes": True, "no": None} and program.check()
    assert [each.name for each in program.proto.graph.output] == ["rows", "half", "yes"]
    with pytest.raises(IrkitError, match="returns no tensor"):
        to_onnx(lambda x: None, (X,))


def test_the_module_of_a_program_is_made_when_a_check_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = torch.export.export(torch.nn.Linear(4, 2), (X,))
    made: list[int] = []
    module = torch.export.ExportedProgram.module
    monkeypatch.setattr(torch.export.ExportedProgram, "module", lambda self: (made.append(1), module(self))[1])
    program = to_onnx(exported)
    program(X)
    assert not made
    assert program.check(n=0) and program.check(n=0) and made == [1]
