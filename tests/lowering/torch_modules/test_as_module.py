"""Graphs as torch modules: numbers, gradients, export, contracts."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import irkit
from irkit import op
from irkit.onnx import sessions
from lowering import as_module, lower
from lowering.records.types import array_of, tensor_of
from lowering.torch_modules.kernel_calls import as_array, as_held, by_kernel
from tests.support.draws import drawn
from tests.support.node_cases import Case
from tests.tables.torch_modules import chosen_cases, differences
from tests.zoo.case import Case as Model
from tests.zoo.cases import CASES


def results(found: Any) -> list[Any]:
    return [as_array(each) for each in (found if isinstance(found, tuple) else (found,))]


# ---------------------------------------------------------------------------------------------- ONNX's node cases

SOME_CASES = drawn("as_module", chosen_cases(), 150, key=lambda case: case.name)


@pytest.mark.parametrize("case", SOME_CASES, ids=[case.name for case in SOME_CASES])
def test_node_cases_give_what_they_say(case: Case) -> None:
    """All of them by `make torch-modules`; those that torch has no meaning for by irkit's kernels."""
    assert not differences(case)


# ---------------------------------------------------------------------------------------------- models

SOME_MODELS = drawn("as_module", CASES, 4, key=lambda case: case.name)


@pytest.mark.parametrize("case", SOME_MODELS, ids=[case.name for case in SOME_MODELS])
def test_models_come_back_to_torch_as_they_were(case: Model) -> None:
    model, args, kwargs = case.build()
    program = irkit.to_onnx(model, args, kwargs, dynamic_shapes=case.dynamic_shapes)
    feeds = program.feeds(args, kwargs)
    made = as_module(program.graph, trainable=False)
    found = results(made(*(tensor_of(np.array(feeds[port.name])) for port in program.graph.signature.params)))
    expected = program.kept(program.found(program.narrowed(feeds)))
    assert irkit.compare(found, list(expected)) is None


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        return torch.softmax(self.head(x.mean((2, 3))), -1)


def net() -> tuple[Net, Any, torch.Tensor]:
    model = Net().eval()
    x = torch.randn(2, 3, 5, 6)
    return model, as_module(lower(model, (x,), dynamic_shapes=({0: "n", 2: "h", 3: "w"},))), x


def test_weights_are_parameters_under_their_names_and_statistics_are_buffers() -> None:
    model, made, _ = net()
    assert {n: p.shape for n, p in made.named_parameters()} == {n: p.shape for n, p in model.named_parameters()}
    assert {"norm.running_mean", "norm.running_var"} <= {name for name, _ in made.named_buffers()}
    assert not any(
        p.requires_grad for p in as_module(lower(model, (torch.randn(2, 3, 5, 6),)), trainable=False).parameters()
    )
    own = dict(made.named_parameters())["head.weight"]
    with torch.no_grad():
        own.zero_()
    assert float(model.head.weight.detach().abs().sum()) > 0  # a copy


def test_gradients_are_those_of_the_model() -> None:
    model, made, x = net()
    target = torch.randn(2, 2)
    for each in (model, made):
        ((each(x) - target) ** 2).sum().backward()
    for name, parameter in model.named_parameters():
        mine, theirs = dict(made.named_parameters())[name].grad, parameter.grad
        assert mine is not None and theirs is not None and torch.allclose(mine, theirs, atol=1e-6), name


def test_a_module_is_exported_with_sizes_that_vary_copied_and_traced_again() -> None:
    model, made, x = net()
    dim = torch.export.Dim.DYNAMIC
    exported = torch.export.export(made, (x,), dynamic_shapes=({0: dim, 2: dim, 3: dim},))
    other = torch.randn(5, 3, 7, 4)
    assert torch.allclose(exported.module()(other), model(other), atol=1e-6)
    assert torch.equal(copy.deepcopy(made)(other), made(other))
    again = irkit.to_onnx(made, (x,), dynamic_shapes=({0: "n", 2: "h", 3: "w"},))
    assert again.check(n=2)


def test_a_model_of_onnx_is_a_module_too(tmp_path: Any) -> None:
    model, _, x = net()
    irkit.to_onnx(model, (x,), dynamic_shapes=({0: "n"},)).save(tmp_path / "net.onnx")
    for source in (tmp_path / "net.onnx", onnx.load(tmp_path / "net.onnx"), irkit.load(tmp_path / "net.onnx")):
        made = as_module(source)
        assert torch.allclose(made(x), model(x), atol=1e-6)
    assert dict(made.named_parameters()).keys() >= {"head.weight"}


def test_sizes_that_the_contract_does_not_allow_are_refused() -> None:
    graph = lower(
        lambda x, y: x + y[::2], (torch.randn(4, 3), torch.randn(8, 3)), dynamic_shapes={"x": {0: "b"}, "y": {0: "c"}}
    )
    made = as_module(graph)
    assert made(torch.randn(2, 3), torch.randn(4, 3)).shape == (2, 3)
    with pytest.raises(irkit.ContractError, match="b == "):
        made(torch.randn(1, 3), torch.randn(12, 3))


# ---------------------------------------------------------------------------------------------- what torch has not


def test_what_torch_has_not_is_one_operator_that_export_keeps() -> None:
    x = irkit.param(irkit.tensor("f32", "n", 4))
    graph = irkit.Graph((x,), (op.MaxPool(op.Unsqueeze(x, [0]), kernel_shape=[2], outputs=2)[1],))
    made = as_module(graph)
    assert [node.target for node in made.graph.nodes].count(by_kernel) == 1
    data = torch.randn(3, 4)
    expected = irkit.evaluate(graph, [data.numpy()])
    assert irkit.compare(results(made(data)), expected) is None
    exported = torch.export.export(made, (data,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    assert torch.ops.irkit.evaluate.default in [node.target for node in exported.graph.nodes]
    wider = torch.randn(5, 4)
    assert irkit.compare(results(exported.module()(wider)), irkit.evaluate(graph, [wider.numpy()])) is None


@pytest.mark.parametrize("flag", [True, False])
def test_branches_loops_and_their_gradients(flag: bool) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[n] x, bool c, int64 trips) => (float[n] y, float[k, n] steps) {
            z = If (c) <then_branch = a () => (float[n] u) { u = Mul(x, x) },
                        else_branch = b () => (float[n] v) { v = Neg(x) }>
            y, steps = Loop (trips, , z) <
              body = l (int64 i, bool go, float[n] s) => (bool more, float[n] t, float[n] o) {
                more = Identity(go)
                t = Add(s, x)
                o = Mul(t, t)
            }>
        }"""
    )
    made = as_module(model)
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    y, steps = made(x, torch.tensor(flag), torch.tensor(2))
    expected = sessions.run(model, [x.detach().numpy(), np.array(flag), np.array(2)])
    assert irkit.compare(results((y.detach(), steps.detach())), list(expected)) is None
    y.sum().backward()
    assert x.grad is not None and torch.allclose(x.grad, (2 * x if flag else -torch.ones(3)) + 2)
    none = made(x, torch.tensor(flag), torch.tensor(0))
    assert none[1].shape[0] == 0


def test_strings_and_small_numbers_are_held_as_arrays() -> None:
    x = irkit.param(irkit.tensor("str", "n"))
    graph = irkit.Graph((x,), (op.StringConcat(x, x),))
    assert as_module(graph)(np.array(["a", "b"], object)).tolist() == ["aa", "bb"]
    y = irkit.param(irkit.tensor("f32", "n"))
    narrow = irkit.Graph((y,), (op.Cast(op.Cast(y, to=irkit.DType.INT4), to=irkit.DType.FLOAT),))
    assert as_module(narrow)(torch.tensor([1.0, -3.0])).tolist() == [1.0, -3.0]


def test_a_weight_without_numbers_is_refused() -> None:
    with torch.device("meta"):
        model = torch.nn.Linear(3, 2)
    graph = lower(model, (torch.randn(2, 3, device="meta"),))
    with pytest.raises(irkit.AbsentError, match="weight"):
        as_module(graph)


def test_names_that_torch_does_not_take_are_changed() -> None:
    x = irkit.param(irkit.tensor("f32", 2))
    weights = [
        irkit.const(np.full(2, i, np.float32), name=n) for i, n in enumerate(("a/b:0", "a/b:0.c", "layer", "layer.w"))
    ]
    graph = irkit.Graph((x,), (op.Sum(x, *weights),), name="9 lives")
    made = as_module(graph)
    assert torch.equal(made(torch.zeros(2)), torch.full((2,), 6.0)) and len(list(made.parameters())) == 4


def test_held_values_go_both_ways() -> None:
    for array in (np.arange(3, dtype=np.float32), [np.ones(2, np.float32)], None):
        type_ = irkit.tensor("f32", 3) if isinstance(array, np.ndarray) else None
        if type_ is not None:
            assert array_of(as_held(array, type_)).tolist() == array.tolist()  # type: ignore[union-attr]
