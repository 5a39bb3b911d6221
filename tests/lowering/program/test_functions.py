"""Submodules that stay functions of the ONNX model, functions as converters, and programs as functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import irkit
from irkit.onnx import sessions
from irkit.onnx.writing.inlining import has_calls
from lowering import CaptureError, Functions, LoweringError, lower
from passes import inline
from tests.support.draws import drawn
from tests.zoo.case import Case
from tests.zoo.cases import TRANSFORMERS


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.relu(self.linear(x))) + self.norm(x).reshape(x.shape[0], -1)


class Stack(torch.nn.Module):
    """Three layers that are equal but for their weights, and one that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(4) for _ in range(3)])
        self.tied = Block(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.tied(self.tied(x))


X, SHAPES = torch.randn(3, 4), ({0: "batch"},)


def calls_of(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def checked(program: irkit.Program, path: Path, *args: Any) -> onnx.ModelProto:
    """The file of a program, which gives what eager gives on ONNX Runtime with its optimizations on and off."""
    program.save(path)
    onnx.checker.check_model(path, full_check=True)
    expected = program.model(*args).detach().numpy()
    for level in (0, 99):
        options = sessions.quiet_options()
        options.graph_optimization_level = sessions.onnxruntime.GraphOptimizationLevel(level)
        found = sessions.session(path, options=options).run([each.numpy() for each in args])[0]
        assert irkit.compare(expected, found) is None
    return onnx.load(path)


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_equal_layers_share_one_function_and_each_call_of_a_module_is_one(capture: str, tmp_path: Path) -> None:
    model = Stack().eval()
    program = irkit.to_onnx(model, (X,), dynamic_shapes=SHAPES, functions=True, capture=capture)
    made = checked(program, tmp_path / "m.onnx", torch.randn(5, 4))
    assert {f.name for f in made.functions} == {"Block", "Linear", "LayerNorm"}
    assert calls_of(made) == ["Block"] * 5
    block = next(f for f in made.functions if f.name == "Block")
    assert list(block.input) == ["input", "linear.weight", "linear.bias", "norm.weight", "norm.bias"]
    assert [node.op_type for node in block.node if node.op_type == "Linear"] == ["Linear"] * 2
    assert {t.name for t in made.graph.initializer} >= {"layers.0.linear.weight", "tied.norm.bias"}
    assert program.check(n=2)
    flat = irkit.to_onnx(model, (X,), dynamic_shapes=SHAPES, capture=capture)
    assert not has_calls(flat.ready) and inline(lowered_with_calls(model, capture)) == flat.graph


def lowered_with_calls(model: torch.nn.Module, capture: str) -> irkit.Graph:
    names = {path: type(module).__name__ for path, module in model.named_modules() if isinstance(module, Block)}
    from passes import outline

    return outline(lower(model, (X,), dynamic_shapes=SHAPES, capture=capture), names.get).graph


@pytest.mark.parametrize(
    ("asked", "calls", "functions"),
    [
        ({Block}, ["Block"] * 5, 1),
        ({"Linear"}, ["Linear"] * 10, 1),
        (lambda path, module: path == "tied" and isinstance(module, Block), ["Block"] * 2, 1),
    ],
)
def test_functions_are_chosen_by_class_name_or_predicate(asked: Any, calls: list[str], functions: int) -> None:
    made = irkit.to_onnx(Stack().eval(), (X,), dynamic_shapes=SHAPES, functions=asked).proto
    assert [each for each in calls_of(made) if each in ("Block", "Linear")] == calls
    assert len(made.functions) == functions


def test_weights_may_stay_inside_where_only_tied_layers_share(tmp_path: Path) -> None:
    program = irkit.to_onnx(Stack().eval(), (X,), dynamic_shapes=SHAPES, functions=Functions({Block}, weights="inside"))
    made = checked(program, tmp_path / "m.onnx", torch.randn(2, 4))
    assert [f.name for f in made.functions] == ["Block", "Block_1", "Block_2", "Block_3"]
    assert all(list(f.input) == ["input"] for f in made.functions) and not made.graph.initializer


def test_a_program_of_torch_keeps_functions_by_the_names_of_classes(tmp_path: Path) -> None:
    model = Stack().eval()
    exported = torch.export.export(model, (X,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    made = irkit.to_onnx(exported, functions={Block}).proto
    assert calls_of(made) == ["Block"] * 5 and len(made.functions) == 1
    with pytest.raises(CaptureError, match=r"only the class, .*Block, is known"):
        irkit.to_onnx(exported, functions=lambda path, module: True)


def test_what_is_no_choice_of_modules_is_refused() -> None:
    for asked in (3, {"Nothing"}, lambda path, module: False):
        with pytest.raises(CaptureError, match="functions"):
            irkit.to_onnx(Stack(), (X,), functions=asked)
    with pytest.raises(CaptureError, match="weights is 'elsewhere'"):
        Functions(weights="elsewhere")


class Torn(torch.nn.Module):
    """A module whose work is in two parts, the second of which needs what was made of the first outside."""

    class Parts(torch.nn.Module):
        def forward(self, x: torch.Tensor, way: list[Any]) -> torch.Tensor:
            return way[0](x * 2) + 1

    def __init__(self) -> None:
        super().__init__()
        self.parts = self.Parts()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts(x, [self.linear])


def test_a_module_whose_work_is_interrupted_is_left_as_it_is_and_named(tmp_path: Path) -> None:
    program = irkit.to_onnx(Torn().eval(), (X,), functions=True)
    made = checked(program, tmp_path / "m.onnx", torch.randn(3, 4))
    assert [f.name for f in made.functions] == ["Linear"]
    assert "parts is no function" in " ".join(program.report.notes)


SOME = drawn("functions", TRANSFORMERS, 1, key=lambda case: case.name)


@pytest.mark.parametrize("case", SOME, ids=[case.name for case in SOME])
def test_models_of_transformers_agree_with_all_their_modules_as_functions(case: Case) -> None:
    model, args, kwargs = case.build()
    program = irkit.to_onnx(model, args, kwargs, dynamic_shapes=case.dynamic_shapes, functions=True)
    irkit.verify(program.ready)
    onnx.checker.check_model(program.proto, full_check=True)
    assert len(program.proto.functions) > 3
    assert program.check(n=1)


# ---------------------------------------------------------------------------------------------- programs as functions


@pytest.mark.parametrize("weights", ["inside", "arguments"])
def test_a_program_is_a_function_that_another_model_calls(weights: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 300), torch.nn.GELU()).eval()
    function = irkit.to_onnx(model, (X,), dynamic_shapes=SHAPES).as_function("Gelus", "my.domain", weights=weights)
    assert function.name == "Gelus" and function.domain == "my.domain"
    rest = {"0.weight", "0.bias"} if weights == "arguments" else set()
    assert set(function.input[1:]) == rest
    state = dict(model.state_dict())
    arrays = [helper.make_tensor(n, TensorProto.FLOAT, t.shape, t.numpy().ravel()) for n, t in state.items()]
    node = helper.make_node("Gelus", ["x", *function.input[1:]], ["y"], domain="my.domain")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", w]) for n, w in (("x", 4), ("y", 300)))
    graph = helper.make_graph([node], "outer", [x], [y], arrays if weights == "arguments" else [])
    opsets = [*function.opset_import, helper.make_opsetid("my.domain", 1)]
    made = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(made, full_check=True)
    data = torch.randn(6, 4)
    assert irkit.compare(model(data).detach().numpy(), sessions.run(made, [data.numpy()])[0]) is None


# ---------------------------------------------------------------------------------------------- converters


@torch.library.custom_op("irkit_functions::soft_clamp", mutates_args=())
def soft_clamp(x: torch.Tensor, limit: float = 1.0) -> torch.Tensor:
    return limit * torch.tanh(x / limit)


@soft_clamp.register_fake
def _(x: torch.Tensor, limit: float = 1.0) -> torch.Tensor:
    return torch.empty_like(x)


CLAMP = onnx.parser.parse_function(
    """<opset_import: ["" : 18], domain: "my">
    clamp <limit: float = 1.0> (x) => (y) {
        l = Constant <value_float: float = @limit> ()
        q = Div(x, l)
        t = Tanh(q)
        y = Mul(t, l)
    }"""
)


RELU = onnx.parser.parse_function('<opset_import: ["" : 18], domain: "d"> f (x) => (y) {y = Relu(x)}')


def converters_of_every_kind() -> dict[str, Any]:
    import onnxscript
    from onnxscript import script
    from onnxscript.values import Opset

    op: Any = onnxscript.opset18
    own = Opset("my.domain", 1)

    @script(own, default_opset=op)
    def scaled(x, limit):
        return op.Mul(x, limit)

    @script(own, default_opset=op)
    def clamp(x, limit: float = 1.0):
        l = op.CastLike(op.Constant(value_float=limit), x)  # noqa: E741
        return scaled(op.Tanh(op.Div(x, l)), l)

    x = irkit.param(irkit.tensor("f32", "n", 4))
    limit = irkit.param(irkit.tensor("f32"))
    graph = irkit.Graph((x, limit), (irkit.op.Mul(irkit.op.Tanh(irkit.op.Div(x, limit)), limit),))
    return {"onnx": CLAMP, "onnxscript": clamp, "graph": graph}


@pytest.mark.parametrize("kind", ["onnx", "onnxscript", "graph"])
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_functions_of_onnx_of_onnxscript_and_graphs_are_converters(kind: str, capture: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return soft_clamp(x, 2.0) + soft_clamp(x, 0.5)

    converter = converters_of_every_kind()[kind]
    program = irkit.to_onnx(Model(), (X,), dynamic_shapes=SHAPES, converters={soft_clamp: converter}, capture=capture)
    assert program.check(n=2)
    assert [node.op_type for node in program.proto.graph.node].count("Tanh") == 2


def test_a_function_that_does_not_fit_its_operator_is_named() -> None:
    with pytest.raises(LoweringError, match=r"irkit_functions\.soft_clamp.*takes 1 operand"):
        irkit.to_onnx(lambda x: soft_clamp(x, 2.0), (X,), converters={soft_clamp: RELU})


def test_call_function_applies_defaults_and_refuses_what_it_does_not_take() -> None:
    x = irkit.param(irkit.tensor("f32", "n"))
    data = np.linspace(-3, 3, 5, dtype=np.float32)
    for attributes, limit in (({}, 1.0), ({"limit": 0.5}, 0.5)):
        graph = irkit.Graph((x,), (irkit.call_function(CLAMP, [x], attributes),))
        assert irkit.compare(np.tanh(data / limit) * np.float32(limit), irkit.evaluate(graph, [data])[0]) is None
    with pytest.raises(irkit.TypeRuleError, match="no attribute bound"):
        irkit.call_function(CLAMP, [x], {"bound": 1.0})
    with pytest.raises(irkit.TypeRuleError, match="takes 1 operand"):
        irkit.call_function(CLAMP, [x, x])
