"""Capture: every form of `dynamic_shapes`, guards, every kind of torch program, and errors."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.shape_prop import ShapeProp

from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError
from lowering.capture.capture import Captured, capture
from lowering.errors import CaptureError
from lowering.records.pytrees import known_cache_types
from tests.support.captured import Add, Apart, Chained, X, Y, guards, shapes

BATCH = Dim("batch")
SPECS: dict[str, tuple[Any, dict[str, tuple[Any, ...]]]] = {
    "none": (None, {"x": (4, 6), "y": (4, 6)}),
    "strings": ({"x": {0: "n"}, "y": {0: "n"}}, {"x": ("n", 6), "y": ("n", 6)}),
    "names of equal sizes": ({"x": {0: "n"}, "y": {0: "m"}}, {"x": ("n", 6), "y": ("n", 6)}),
    "dims": ({"x": {0: BATCH}, "y": {0: BATCH}}, {"x": ("batch", 6), "y": ("batch", 6)}),
    "by position": (({0: "n"}, {0: "n"}), {"x": ("n", 6), "y": ("n", 6)}),
    "a list": ([{0: "n"}, {0: "n"}], {"x": ("n", 6), "y": ("n", 6)}),
    "a tuple for each axis": ({"x": ("n", None), "y": ["n", 6]}, {"x": ("n", 6), "y": ("n", 6)}),
    "auto": ({"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}, {"x": ("x_dim_0", 6), "y": ("x_dim_0", 6)}),
    "dynamic": ({"x": {0: Dim.DYNAMIC}, "y": {0: Dim.DYNAMIC}}, {"x": ("x_dim_0", 6), "y": ("x_dim_0", 6)}),
    "static": ({"x": {0: Dim.STATIC}, "y": None}, {"x": (4, 6), "y": (4, 6)}),
    "a number": ({"x": {0: 4}, "y": {0: 4, 1: None}}, {"x": (4, 6), "y": (4, 6)}),
    "one input left out": ({"x": {1: Dim.AUTO}}, {"x": (4, 6), "y": (4, 6)}),
    "from the back": ({"x": {-2: "n"}, "y": {-2: "n"}}, {"x": ("n", 6), "y": ("n", 6)}),
    "a name and a hint": ({"x": {0: "n"}, "y": {0: Dim.AUTO}}, {"x": ("n", 6), "y": ("n", 6)}),
}


@pytest.mark.parametrize("form", SPECS)
def test_dynamic_shapes_of_every_form_are_understood(form: str) -> None:
    spec, wanted = SPECS[form]
    assert shapes(capture(Add(), (X, Y), dynamic_shapes=spec)) == wanted


def test_names_given_to_one_size_keep_the_first_and_tell_the_other() -> None:
    captured = capture(Add(), (X, Y), dynamic_shapes={"x": {0: "n"}, "y": {0: "m"}})
    assert captured.equal == {"m": "n"}
    assert "m is n" in captured.notes


def test_one_name_is_one_size_even_where_the_model_does_not_compare() -> None:
    captured = capture(Apart(), (X, Y), dynamic_shapes={"x": {0: "n"}, "y": {0: "n"}})
    assert shapes(captured) == {"x": ("n", 6), "y": ("n", 6)}
    assert capture(Apart(), (X, Y), dynamic_shapes={"x": {0: "n"}, "y": {0: "m"}}).equal == {}


def test_derived_dims_are_expressions() -> None:
    n = Dim("n", min=2, max=16)
    captured = capture(Chained(), (X, torch.randn(8, 6)), dynamic_shapes={"x": {0: n}, "y": {0: 2 * n}})
    assert shapes(captured) == {"x": ("n", 6), "y": ("2*n", 6)}
    assert list(captured.range_constraints.values()) == [(2, 16)]


def test_expressions_of_names_are_promises_to_torch() -> None:
    spec = {"x": {0: "n"}, "y": {0: "2*n + 1"}}
    captured = capture(Apart(), (X, torch.randn(9, 6)), dynamic_shapes=spec)
    assert shapes(captured) == {"x": ("n", 6), "y": ("2*n + 1", 6)}
    with pytest.raises(CaptureError, match=r"'2\*n \+ 1' makes it 9: n is 4 at dimension 0 of 'x'"):
        capture(Apart(), (X, torch.randn(8, 6)), dynamic_shapes=spec)


def test_torch_collections_of_shapes_are_taken() -> None:
    collection = torch.export.ShapesCollection()
    collection[X] = {0: BATCH}
    collection[Y] = {0: BATCH}
    assert shapes(capture(Add(), (X, Y), dynamic_shapes=collection))["x"] == ("batch", 6)
    others = torch.export.AdditionalInputs()
    others.add((torch.randn(7, 6), torch.randn(7, 6)))
    assert shapes(capture(Add(), (X, Y), dynamic_shapes=others))["y"] == ("x_dim_0", 6)


def test_an_example_of_size_one_does_not_fix_a_named_dimension() -> None:
    one = capture(Add(), (X[:1], Y[:1]), dynamic_shapes={"x": {0: "n"}, "y": {0: "n"}})
    assert shapes(one)["x"] == ("n", 6)
    assert one.range_constraints[next(iter(one.dim_names))][0] <= 1


def test_an_example_of_size_one_is_stood_in_for_where_the_model_asks() -> None:
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] == 1 else x + x

    captured = capture(halved, (X[:1],), dynamic_shapes={"x": {0: "n"}})
    assert [attempt.how for attempt in captured.attempts][-1] == "torch.export, non-strict, with larger examples"
    assert guards(captured) == []
    assert captured.notes == ("n = 1 is allowed: traced at 1, the model takes another way, and the results agree",)


def test_size_one_stays_refused_where_the_model_computes_something_else() -> None:
    def odd(x: torch.Tensor) -> torch.Tensor:
        return x * 3 if x.shape[0] == 1 else x + x

    captured = capture(odd, (X,), dynamic_shapes={"x": {0: "n"}})
    assert guards(captured) == ["Ne(n, 1)"]
    assert captured.guards[0].source.endswith("return x * 3 if x.shape[0] == 1 else x + x")
    assert captured.notes == ("n = 1 is refused: the model computes something else then",)
    with pytest.raises(CaptureError, match="the example itself"):
        capture(odd, (X[:1],), dynamic_shapes={"x": {0: "n"}})


@pytest.mark.parametrize("way", ["direct", "torch.export"])
@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32], ids=str)
def test_size_one_stays_refused_where_the_model_leaves_out_a_mask_that_the_example_does_not_need(
    kind: torch.dtype, way: str
) -> None:
    def masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x if x.shape[0] == 1 else x * mask

    names = {"x": {0: "n"}, "mask": {0: "n"}}
    program = to_onnx(masked, (X, torch.ones(X.shape, dtype=kind)), dynamic_shapes=names, capture=way)
    with pytest.raises(ContractError, match=r"if x.shape\[0\] == 1"):
        program(X[:1], torch.zeros(X[:1].shape, dtype=kind))


def test_broadcasting_that_is_meant_keeps_the_one_fixed() -> None:
    captured = capture(lambda x, y: x + y, (X, Y[:1]), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))
    assert shapes(captured) == {"x": ("x_dim_0", 6), "y": (1, 6)}
    assert captured.how.endswith("where sizes 0 and 1 are fixed")


def test_a_size_that_is_one_where_nothing_is_empty_broadcasts() -> None:
    def biased(x: torch.Tensor, past: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        bias = bias[max(0, bias.shape[0] - past.shape[0] - 2 * x.shape[0]) :]
        return x + bias

    args = (X, torch.ones(7), Y[:1])
    program = to_onnx(biased, args, dynamic_shapes=({0: "n"}, {0: "past"}, None), capture="torch.export")
    assert program.report.capture.endswith("where sizes 0 and 1 are fixed")
    assert program.report.dims == (("n", "[0, inf]"), ("past", "[0, inf]"))
    for n, past in ((1, 0), (2, 7), (7, 1), (0, 0)):
        x = torch.randn(n, 6)
        assert torch.equal(program(x, torch.ones(past), Y[:1]), x + Y[:1])


# ---------------------------------------------------------------------------------------------- Guards


class Guarded(nn.Module):
    """A model that asks for sizes."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 8:
            return x.sum() + y.sum()
        return x.sum() - y[: x.shape[0] // 2].sum()


def test_guards_are_relations_with_the_line_that_asked() -> None:
    captured = capture(Guarded(), (X, Y), dynamic_shapes={"x": {0: "n"}, "y": {0: "m"}})
    assert "n <= 8" in guards(captured)
    (guard,) = (guard for guard in captured.guards if "8" in str(guard.expr))
    assert guard.source.endswith("if x.shape[0] > 8:")
    assert guard.kind == "guard"


def test_guards_of_a_file_are_read_from_their_text(tmp_path: Path) -> None:
    class Rounded(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.sum() if x.shape[0] == (y.shape[0] + 1) // 2 and x.shape[0] <= 8 else y.sum()

    program = torch.export.export(
        Rounded(), (X, torch.randn(7, 6)), dynamic_shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}
    )
    torch.export.save(program, tmp_path / "model.pt2")
    captured = capture(tmp_path / "model.pt2", dynamic_shapes={"y": {0: "m"}})
    assert captured.how == "read from model.pt2"
    assert captured.input_names == ("x", "y")
    assert all(guard.expr is not None for guard in captured.guards)
    assert shapes(captured)["y"] == ("m", 6)
    fresh = capture(program, dynamic_shapes={"y": {0: "m"}})
    assert sorted(guards(fresh)) == sorted(guards(captured))


# ---------------------------------------------------------------------------------------------- Kinds of programs


def test_a_function_is_captured_with_the_modules_it_uses() -> None:
    model = Add()

    def twice(x: torch.Tensor) -> torch.Tensor:
        return model(x, x)

    captured = capture(twice, (X,), dynamic_shapes={"x": {0: "n"}})
    assert sorted(captured.state) == ["model.linear.bias", "model.linear.weight"]
    assert captured.name.endswith("twice")


@pytest.mark.parametrize("function", [torch.sin, functools.partial(torch.add, alpha=2, other=Y), nn.functional.gelu])
def test_builtins_and_partials_are_captured(function: Any) -> None:
    assert capture(function, (X,)).program is not None


def test_a_bound_method_keeps_the_names_of_parameters() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 3)

        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x).relu()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("not this one")

    model = Encoder()
    captured = capture(model.encode, (X,), dynamic_shapes={"x": {0: "n"}})
    assert sorted(captured.state) == ["linear.bias", "linear.weight"]
    assert captured.state["linear.weight"] is model.linear.weight
    assert type(model.forward) is type(model.encode)


def test_a_method_of_another_object_is_captured() -> None:
    class Wrapper:
        def __init__(self) -> None:
            self.model = Add()

        def call(self, x: torch.Tensor) -> torch.Tensor:
            return self.model(x, x)

    assert sorted(capture(Wrapper().call, (X,)).state) == ["model.linear.bias", "model.linear.weight"]


def test_an_exported_program_is_named_afterwards() -> None:
    program = torch.export.export(Add(), (X, Y), dynamic_shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}})
    assert shapes(capture(program)) == {"x": ("x_dim_0", 6), "y": ("x_dim_0", 6)}
    captured = capture(program, dynamic_shapes={"x": {0: "n"}}, input_names=["a", "b"])
    assert shapes(captured) == {"a": ("n", 6), "b": ("n", 6)}
    assert captured.program is program
    with pytest.raises(CaptureError, match="dimension 1 of 'x' was to vary as 'k'"):
        capture(program, dynamic_shapes={"x": {1: "k"}})


def test_names_of_torch_dims_are_found_in_a_program() -> None:
    program = torch.export.export(Add(), (X, Y), dynamic_shapes={"x": {0: BATCH}, "y": {0: BATCH}})
    assert shapes(capture(program)) == {"x": ("batch", 6), "y": ("batch", 6)}


def test_a_graph_of_make_fx_is_taken_as_it_is() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y).relu()

    graph = make_fx(f, tracing_mode="symbolic")(X, torch.randn(6, 5))
    captured = capture(graph, (X, torch.randn(6, 5)))
    assert captured.program is None
    assert captured.graph_module is graph
    assert captured.input_names == ("x_1", "y_1")
    assert "x_1_dim_0" in captured.dim_names.values()
    assert captured.examples()[0] is X


def test_a_graph_of_make_fx_fetches_its_weights() -> None:
    model = Add()
    captured = capture(make_fx(model)(X, Y))
    assert captured.program is None
    assert any(value is model.linear.weight for value in captured.state.values())


def test_a_bare_graph_is_taken_with_the_module_that_owns_it() -> None:
    model = Add()
    module = make_fx(model)(X, Y)
    graph = module.graph
    assert capture(graph).graph_module is module
    found = to_onnx(graph)
    torch.testing.assert_close(torch.as_tensor(found(X, Y)), model(X, Y))
    loose = copy.deepcopy(graph)
    with pytest.raises(CaptureError, match="from its module, and no module owns the graph"):
        capture(loose)
    other = nn.Linear(2, 2)
    loose.owning_module = other  # type: ignore[assignment]
    with pytest.raises(CaptureError, match="Linear, which owns it, has none"):
        capture(loose)
    plain = make_fx(lambda x, y: x + y)(X, Y).graph
    alone = copy.deepcopy(plain)
    assert to_onnx(alone).graph == to_onnx(plain).graph
    assert alone.owning_module is None, "the graph given stays as it is"


def test_a_graph_of_symbolic_trace_is_traced_again() -> None:
    graph = torch.fx.symbolic_trace(Add())
    ShapeProp(graph).propagate(X, Y)
    captured = capture(graph)
    assert captured.program is not None
    assert sorted(captured.state) == ["linear.bias", "linear.weight"]
    assert shapes(captured) == {"x": (4, 6), "y": (4, 6)}
    with pytest.raises(CaptureError, match="do not fit"):
        capture(torch.fx.symbolic_trace(Add()))
    named = capture(torch.fx.symbolic_trace(Add()), (X, Y), dynamic_shapes=({0: "n"}, {0: "n"}))
    assert shapes(named)["x"] == ("n", 6)


def test_a_backend_of_torch_compile_is_given_a_graph() -> None:
    found: list[Captured] = []

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        found.append(capture(graph))
        return graph.forward

    torch.compile(Add(), backend=backend, dynamic=True)(X, Y)
    torch.compiler.reset()
    assert any(isinstance(size, str) for shape in shapes(found[0]).values() for size in shape)


def test_dynamo_traces_when_asked() -> None:
    captured = capture(Add(), (X, Y), dynamic_shapes={"x": {0: "n"}, "y": {0: "n"}}, strict=True)
    assert captured.how == "torch.export, strict"
    assert shapes(captured)["y"] == ("n", 6)


def test_recurrent_modules_take_sequences_of_any_length() -> None:
    captured = capture(nn.LSTM(3, 4, 2), (torch.randn(5, 2, 3),), dynamic_shapes=({0: "seq", 1: "batch"},))
    assert list(shapes(captured).values()) == [("seq", "batch", 3)]
    assert torch.ops.aten.lstm.input in {node.target for node in captured.graph_module.graph.nodes}


def test_numbers_that_depend_on_data_may_be_negative() -> None:
    def shifted(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        return x + by.item()

    captured = capture(shifted, (X, torch.tensor(3)))
    assert captured.signed == frozenset(captured.range_constraints)
    assert len(captured.signed) == 1


# --------------------------------------------------------------------------------------------- The model stays as it is


class Stateful(nn.Module):
    """A model that trains, counts and remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.register_buffer("count", torch.zeros(()))
        self.last: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.norm(x) * self.count


def test_capture_leaves_the_model_unchanged() -> None:
    model = Stateful()
    model.norm.eval()
    before = {name: (value, value.clone(), value._version) for name, value in model.state_dict(keep_vars=True).items()}
    captured = capture(model, (X,), dynamic_shapes={"x": {0: "n"}})
    for name, value in model.state_dict(keep_vars=True).items():
        same, content, version = before[name]
        assert value is same
        assert torch.equal(value, content)
        assert value._version == version
    assert model.training and not model.norm.training
    assert not model._forward_hooks and not model._forward_pre_hooks
    assert "the model is in training mode" in captured.notes
    assert captured.state["count"] is model.count


def test_examples_are_left_as_they_were() -> None:
    capture(Add(), (X, X), dynamic_shapes={"x": {0: "n"}, "y": {0: "n"}})
    assert not [name for name in vars(X) if name.startswith("_dynamo")]


# ---------------------------------------------------------------------------------------------- Errors


ERRORS: dict[str, tuple[Any, str]] = {
    "wrong key": ({"z": {0: "n"}}, "speaks of 'z', and no input is called so"),
    "wrong rank": ({"x": ("n", None, None)}, r"gives 3 dimensions for 'x', whose shape is \(4, 6\)"),
    "no such axis": ({"x": {2: "n"}}, "dimension 2 of 'x'"),
    "wrong number": ({"x": {0: 5}}, "is 5, and the example has 4"),
    "wrong count": (({0: "n"},), r"has 1 entry for 2 inputs \(x, y\)"),
    "no structure": ({"x": {"a": {0: "n"}}}, "which is a tensor"),
    "no name": ({"x": {0: "n m"}}, "neither a name nor an expression"),
    "no description": ({"x": 3.5}, "which is a tensor"),
    "no dict": ("n", "dynamic_shapes is a str"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_a_wrong_description_says_what_and_where(what: str) -> None:
    spec, message = ERRORS[what]
    with pytest.raises(CaptureError, match=message) as caught:
        capture(Add(), (X, Y), dynamic_shapes=spec)
    assert "try:" in str(caught.value)


def test_a_near_name_is_suggested() -> None:
    def model(input_ids: torch.Tensor) -> torch.Tensor:
        return input_ids + 1

    with pytest.raises(CaptureError, match="did you mean 'input_ids'"):
        capture(model, (X,), dynamic_shapes={"input_id": {0: "n"}})


def test_a_dimension_that_the_model_fixes_is_told_with_its_line() -> None:
    def picky(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] == 4 else x

    with pytest.raises(
        CaptureError, match=r"dimension 0 of 'x' was to vary as 'n', and the model works for 4 only"
    ) as e:
        capture(picky, (X,), dynamic_shapes={"x": {0: "n"}})
    assert "return x + 1 if x.shape[0] == 4 else x" in e.value.source


def test_a_torch_dim_that_the_model_narrows_is_narrower() -> None:
    captured = capture(Guarded(), (X, Y), dynamic_shapes={"x": {0: Dim("n", min=1, max=64)}, "y": {0: Dim("m")}})
    assert list(captured.range_constraints.values()) == [(1, 8), (0, None)]
    assert any(guard.source.endswith("if x.shape[0] > 8:") for guard in captured.guards)


def test_wrong_arguments_are_told_before_torch_sees_them() -> None:
    with pytest.raises(CaptureError, match=r"do not fit Add\.forward"):
        capture(Add(), (X,))
    with pytest.raises(CaptureError, match="args is a dict"):
        capture(Add(), {"x": X})  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match="an int cannot be captured"):
        capture(3, (X,))
    with pytest.raises(CaptureError, match="makes it 4: n is 4 at dimension 0 of 'x'"):
        capture(Add(), (X, Y[:2]), dynamic_shapes={"x": {0: "n"}, "y": {0: "n"}})


def test_a_branch_on_data_is_told_with_its_line() -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x

    with pytest.raises(CaptureError, match="cannot capture") as caught:
        capture(branching, (X,))
    assert "return x + 1 if x.sum() > 0 else x" in caught.value.source
    assert "torch.cond" in caught.value.hint
    assert type(caught.value.__cause__).__name__ == "GuardOnDataDependentSymNode"


@pytest.mark.parametrize("name", ["DynamicCache", "EncoderDecoderCache", "StaticCache"])
def test_a_version_without_a_cache_class_is_no_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(f"transformers.cache_utils.{name}")
    assert name not in {kind.__name__ for kind in known_cache_types()} or name == "StaticCache"
    assert capture(Add(), (X, Y)).program is not None


def doubled(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    """A hook."""
    return output * 2


class Remembering(nn.Module):
    """Remembers a tensor in a dict, and adds a hook to its child when it is first called, as transformers does."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.known: dict[str, list[torch.Tensor]] = {"all": []}
        self.hooked = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.hooked:
            self.inner.register_forward_hook(doubled)
            self.hooked = True
        if not self.known["all"]:
            self.known["all"].append(self.inner.weight * 2)
        return self.inner(x) @ self.known["all"][0]


def test_a_model_is_the_same_after_it_was_traced() -> None:
    model, x = Remembering().eval(), torch.randn(2, 3)
    before = copy.deepcopy(model)
    program = to_onnx(model, (x,), dynamic_shapes=({0: "batch"},))
    assert model.known == {"all": []} and not model.hooked and not model.inner._forward_hooks
    assert program.check(n=2)
    expected = before(x)
    assert torch.equal(model(x), expected) and torch.allclose(program(x), expected, atol=1e-6)
