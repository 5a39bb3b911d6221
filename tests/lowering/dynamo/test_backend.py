"""`torch.compile` with irkit's backends, against eager: results, gradients, layouts, sizes, and what is kept."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx import GraphModule, symbolic_trace

import irkit
from irkit import Fact, Graph, Port, Signature, op, param, symbol
from irkit.core.types import DType, Tensor
from lowering.dynamo import store
from lowering.dynamo.backend import irkit_backend, irkit_debug
from lowering.dynamo.outputs import outputs_in_order, split_outputs
from lowering.dynamo.runner import Entry, Exit, Runner
from tests.tables.gradients import operators, outcome

PLAIN: dict[str, Any] = {"store": None, "fallback": False}


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    """Nothing that dynamo compiled in one test is met in another."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def through(function: Any, dynamic: bool | None = None, **options: Any) -> Any:
    return torch.compile(function, backend=irkit_backend, dynamic=dynamic, options={**PLAIN, **options})


def with_gradients(function: Callable[..., Any], tensors: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """A result with the gradients of the sum of its squares."""
    given = [t.detach().clone().requires_grad_() for t in tensors]
    result = function(*given)
    result.float().square().sum().backward()
    return [result.detach(), *(t.grad for t in given if t.grad is not None)]


def assert_alike(found: list[torch.Tensor], expected: list[torch.Tensor], tolerance: float = 1e-5) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))


def test_a_model_and_its_gradients_at_sizes_that_vary() -> None:
    module = model()
    compiled = through(module, dynamic=True)
    for rows in (3, 2, 7, 1, 0):
        x = torch.randn(rows, 4)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), module(x))
        found = []
        for each in (compiled, module):
            module.zero_grad()
            result = each(x)
            result.square().sum().backward()
            found.append([result.detach(), *(p.grad.clone() for p in module.parameters() if p.grad is not None)])
        assert_alike(*found)


def test_results_have_the_structure_types_and_layouts_of_eager() -> None:
    def function(x: torch.Tensor, count: int) -> dict[str, Any]:
        return {
            "part": x[:count] * 2 + x.shape[0], "view": x.t(), "mask": x > 0, "number": x.shape[0] * 2, "none": None,
            "turned": (x * 3).t(), "complex": x.to(torch.complex64) * 1j, "half": x.to(torch.bfloat16) + 1,
            "same": x, "twice": (x.exp(), x.exp()), "constant": torch.arange(3),
        }  # fmt: skip

    x = torch.arange(10.0).view(5, 2)
    found, expected = through(function, dynamic=True)(x, 3), function(x, 3)
    assert found.keys() == expected.keys() and found["number"] == 10 and found["none"] is None
    assert found["view"].data_ptr() == x.data_ptr() == found["same"].data_ptr()
    for key in ("part", "view", "mask", "turned", "complex", "half", "same", "constant"):
        assert found[key].dtype is expected[key].dtype and found[key].stride() == expected[key].stride(), key
        torch.testing.assert_close(found[key], expected[key])


def test_results_outlive_what_computed_them() -> None:
    compiled = through(lambda x: x * 2)
    kept = [compiled(torch.full((64,), float(i))) for i in range(20)]
    del compiled
    gc.collect()
    assert [float(each.sum()) for each in kept] == [128.0 * i for i in range(20)]


def test_arguments_are_written_and_state_goes_on() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen += x.sum(0)
            x.mul_(2)
            return x + self.seen

    ours, theirs = Counting(), Counting()
    compiled = through(ours)
    for _ in range(3):
        x = torch.ones(3, 2)
        y = x.clone()
        torch.testing.assert_close(compiled(x), theirs(y))
        torch.testing.assert_close(x, y)
    torch.testing.assert_close(ours.seen, theirs.seen)


@pytest.mark.parametrize(
    ("causal", "mask", "heads"),
    [(False, None, 4), (True, None, 2), (False, "float", 4), (False, "bool", 4)],
    ids=["plain", "causal_grouped", "added", "hidden"],
)
def test_gradients_of_attention(causal: bool, mask: str | None, heads: int) -> None:
    seen = torch.rand(5, 5) > 0.3
    chosen = {None: None, "float": torch.randn(5, 5), "bool": seen | torch.eye(5, dtype=torch.bool)}[mask]

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=chosen, is_causal=causal, enable_gqa=heads != 4
        )

    tensors = (torch.randn(2, 4, 5, 8), torch.randn(2, heads, 5, 8), torch.randn(2, heads, 5, 8))
    assert_alike(with_gradients(through(attention), tensors), with_gradients(attention, tensors))
    wide = tuple(t.double() for t in tensors)
    if mask != "float":
        assert_alike(with_gradients(through(attention), wide), with_gradients(attention, wide), 1e-12)


@pytest.mark.parametrize("name", ["linalg.inv", "masked.softmax", "__getitem__", "index_put", "nn.functional.conv2d"])
def test_gradients_as_torch_samples_them(name: str) -> None:
    """A few of what `make gradients` runs."""
    (found,) = {outcome(each, 1) for each in operators([name])}
    assert found == "agrees"


def test_a_training_step() -> None:
    ours, theirs = model(), model()
    theirs.load_state_dict(ours.state_dict())
    x, y = torch.randn(6, 4), torch.randn(6, 2)
    compiled = through(ours)
    pairs = [(compiled, torch.optim.Adam(ours.parameters())), (theirs, torch.optim.Adam(theirs.parameters()))]
    for _ in range(3):
        for module, optimizer in pairs:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(module(x), y).backward()
            optimizer.step()
    assert_alike([p.detach() for p in ours.parameters()], [p.detach() for p in theirs.parameters()])


def test_an_equal_graph_is_read_and_a_damaged_one_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = model(), torch.randn(3, 4)
    with torch.no_grad():
        expected = module(x)
        torch.testing.assert_close(through(module, store=tmp_path)(x), expected)
        assert {p.suffix for p in tmp_path.iterdir()} == {".onnx", ".json"}
        torch.compiler.reset()
        with monkeypatch.context() as patch:
            patch.setattr("lowering.dynamo.backend.export_model", lambda *_: pytest.fail("it was lowered again"))
            torch.testing.assert_close(through(module, store=tmp_path)(x), expected)
        next(tmp_path.glob("*.onnx")).write_bytes(b"nothing")
        torch.compiler.reset()
        torch.testing.assert_close(through(module, store=tmp_path)(x), expected)
        assert irkit.load(next(tmp_path.glob("*.onnx")))


def test_keys_tell_graphs_and_options_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys(function: Callable[..., Any], options: str = "") -> str:
        return store.key_of(symbolic_trace(function), options)

    assert keys(lambda x: x + 1) == keys(lambda x: x + 1)
    assert len({keys(lambda x: x + 1), keys(lambda x: x + 2), keys(lambda x: x * 1), keys(lambda x: x + 1, "o")}) == 4
    monkeypatch.setenv("IRKIT_COMPILED", "")
    assert store.default_folder() is None
    monkeypatch.setenv("IRKIT_COMPILED", "/somewhere")
    assert store.default_folder() == Path("/somewhere")


def test_the_oldest_graphs_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST", 2)
    for factor in range(4):
        torch.compiler.reset()
        through(lambda x, factor=factor: x * (factor + 2), store=tmp_path)(torch.ones(2))
    assert len(list(tmp_path.glob("*.onnx"))) == len(list(tmp_path.glob("*.json"))) == 2


@torch.library.custom_op("irkit_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_what_irkit_does_not_know_runs_in_torch_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.ones(3)
    with caplog.at_level(logging.WARNING, "irkit.compile"):
        assert through(lambda x: twice(x) + 1, fallback=True)(x).tolist() == [3, 3, 3]
    assert "runs in torch" in caplog.text and "no converter" in caplog.text
    torch.compiler.reset()
    with pytest.raises(RuntimeError, match="no converter"):  # as dynamo wraps what a backend raises
        through(lambda x: twice(x) + 1)(x)


def test_the_backends_are_found_by_name() -> None:
    assert {"irkit", "irkit_debug"} <= set(torch.compiler.list_backends())
    compiled = torch.compile(lambda x: x + 1, backend="irkit", options=PLAIN)
    assert compiled(torch.ones(2)).tolist() == [2, 2]


def test_what_a_graph_assumes_of_its_data_is_told(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    x = torch.tensor([[[[1.0, float("nan")], [2.0, 3.0]]]])
    for _ in range(2):  # once lowered, once read from the folder
        torch.compiler.reset()
        with caplog.at_level(logging.WARNING, "irkit.compile"):
            through(torch.nn.MaxPool2d(2), store=tmp_path)(torch.ones(1, 1, 2, 2))
        assert "finite numbers in MaxPool" in caplog.text and "default+nan" in caplog.text
        caplog.clear()
    with caplog.at_level(logging.WARNING, "irkit.compile"):
        assert through(torch.nn.MaxPool2d(2), rules="default+nan")(x).isnan().all()
        through(torch.nn.ReLU())(x)
    assert not caplog.text


def test_sizes_that_the_contract_leaves_out_run_in_torch_and_are_told(caplog: pytest.LogCaptureFixture) -> None:
    given = param(Tensor(DType.FLOAT, (symbol("n"),)))
    facts = (Fact("guard", "n >= 2", ""),)
    graph = Graph((given,), (op.Neg(given),), signature=Signature((Port("x"),), (Port("y", "output"),), facts))
    runner = Runner(graph, None, (Entry("x", 0),), (Exit("result", "float32"),), (), lambda x: (-x,))
    with caplog.at_level(logging.WARNING, "irkit.compile"):
        assert runner([torch.ones(1)])[0].tolist() == [-1]
    assert "runs in torch" in caplog.text and "n >= 2" in caplog.text


def test_wrong_options_are_refused_by_name() -> None:
    with pytest.raises(RuntimeError, match="no option 'tarject'"):
        through(lambda x: x + 1, tarject="cpu")(torch.ones(2))


def test_the_debugging_backend_prints_what_operators_give(capsys: pytest.CaptureFixture[str]) -> None:
    module, x = model(), torch.randn(3, 4)
    with torch.no_grad():
        found = torch.compile(module, backend=irkit_debug, options={"fallback": False})(x)
        torch.testing.assert_close(found, module(x))
    lines = capsys.readouterr().out.splitlines()
    assert any("f32[3, 8] = Gelu(" in line and "in [" in line for line in lines)
    kept: list[Any] = []
    options = {"verbose": 0, "every": lambda value, result: kept.append((value.op, result))}
    torch.compile(lambda x: x + 1, backend=irkit_debug, options=options)(x)
    assert not capsys.readouterr().out
    assert [name for name, _ in kept][-1] == "Add" and (kept[-1][1] == (x + 1).numpy()).all()


def test_outputs_that_are_views_of_inputs_are_not_computed() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    view = graph.call_function(torch.ops.aten.t.default, (x,))
    made = graph.call_function(torch.ops.aten.neg.default, (view,))
    graph.output((view, made, None, x, made))
    parts = split_outputs(GraphModule(torch.nn.Module(), graph))
    assert [node.target for node in parts.viewed.graph.nodes if node.op == "call_function"] == [view.target]
    assert [kind for kind, _ in parts.order] == ["viewed", "computed", "constant", "viewed", "computed"]
    given = torch.ones(2, 3)
    found = outputs_in_order(parts, parts.computed(given), parts.viewed(given))
    assert found[3] is given and found[2] is None and found[1] is found[4] and found[0].shape == (3, 2)
