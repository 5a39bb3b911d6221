"""Gradients of whole graphs: of several uses, several results, branches, symbols, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import irkit
from irkit import op, param, tensor
from irkit.errors import GraphError
from irkit.onnx.sessions import session as session_of
from passes import prepare


def graph_of(params: dict[str, Any], results: dict[str, Any]) -> irkit.Graph:
    ports = tuple(irkit.Port(name) for name in params), tuple(irkit.Port(name, "output") for name in results)
    return irkit.Graph(tuple(params.values()), tuple(results.values()), signature=irkit.Signature(*ports))


def test_a_value_that_is_used_twice_has_the_sum() -> None:
    x = param(tensor("f64", "n"))
    graph = graph_of({"x": x}, {"y": op.ReduceSum(op.Mul(x, op.Add(x, op.Exp(x))), keepdims=0)})
    back = irkit.grad(graph, ["x"])
    irkit.verify(back)
    assert [port.name for port in back.signature.results] == ["y", "x.grad"]
    for size in (3, 1, 0):
        at = np.linspace(-1, 1, size)
        _, found = irkit.evaluate(back, [at])
        np.testing.assert_allclose(found, 2 * at + np.exp(at) * (1 + at), rtol=1e-12)


def test_dimensions_that_may_be_broadcast_are_known_when_the_graph_runs() -> None:
    x, y = param(tensor("f64", "n", 3)), param(tensor("f64", "m", 3))
    graph = graph_of({"x": x, "y": y}, {"z": op.ReduceSum(op.Mul(x, y), keepdims=0)})
    back = irkit.grad(graph, ["y", "x"], results=False)
    for left, right in ((4, 1), (1, 4), (4, 4), (1, 1)):
        a, b = np.random.default_rng(0).standard_normal((2, 4, 3))
        a, b = a[:left], b[:right]
        of_b, of_a = irkit.evaluate(back, [a, b])
        wide_a, wide_b = np.broadcast_arrays(a, b)
        np.testing.assert_allclose(of_a, wide_b.sum(0, keepdims=True) if left == 1 else wide_b)
        np.testing.assert_allclose(of_b, wide_a.sum(0, keepdims=True) if right == 1 else wide_a)


@pytest.mark.parametrize("taken", [True, False])
def test_branches_have_the_gradient_of_the_one_that_is_taken(taken: bool) -> None:
    x, y, flag = param(tensor("f64", 3)), param(tensor("f64", 3)), param(tensor("bool"))
    (chosen,) = op.If(flag, then_branch=lambda: op.Mul(x, x), else_branch=lambda: op.Mul(op.Sin(x), y))
    back = irkit.grad(graph_of({"x": x, "y": y, "flag": flag}, {"z": chosen}), ["x", "y"], results=False)
    a, b, seed = np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 2.0])
    of_x, of_y = irkit.evaluate(back, {"x": a, "y": b, "flag": np.array(taken), "z.grad": seed})
    np.testing.assert_allclose(of_x, seed * (2 * a if taken else np.cos(a) * b))
    np.testing.assert_allclose(of_y, seed * (0 * a if taken else np.sin(a)))


def test_what_has_no_gradient_is_said() -> None:
    x, n = param(tensor("f64", 3)), param(tensor("i64"))
    grown = op.Loop(n, True, x, body=lambda i, c, v: (c, op.Concat(v, v, axis=0)))
    with pytest.raises(GraphError, match=r"Loop has no gradient here: it carries .* comes back as") as refused:
        irkit.grad(graph_of({"x": x, "n": n}, {"y": op.ReduceSum(grown[0], keepdims=0)}), ["x"])
    assert "filled up to the largest" in str(refused.value)
    plain = graph_of({"x": x, "n": n}, {"y": op.Exp(x), "i": op.Add(n, 1)})
    messages: Any = {
        "no parameter or weight 'z'": (["z"], 0), "no gradient for": (["n"], 0), "no result 'w'": (["x"], "w"),
        "which has no gradient": (["x"], "i"), "wrt is 'x'": ("x", 0),
    }  # fmt: skip
    for said, (wrt, of) in messages.items():
        with pytest.raises(GraphError, match=said):
            irkit.grad(plain, wrt, of=of)
    zero = irkit.evaluate(
        irkit.grad(graph_of({"x": x, "w": n}, {"y": op.Exp(op.Cast(n, to=11))}), ["x"]), [np.ones(3), 1]
    )
    assert zero[1].tolist() == [0, 0, 0]


def slopes_by_differences(graph: irkit.Graph, feeds: dict[str, np.ndarray], wrt: list[str]) -> None:
    """Fails where gradients differ from differences, by the evaluator, or by ONNX Runtime."""
    back = irkit.grad(graph, wrt)
    irkit.verify(back)
    rng = np.random.default_rng(1)
    shapes = [y.shape for y in irkit.evaluate(graph, feeds)]
    seeds = {"y.grad": rng.standard_normal(shapes[0])} if len(back.params) > len(graph.params) else {}
    found = irkit.evaluate(back, {**feeds, **seeds})
    session = session_of(prepare(back))
    for one, other in zip(found, session.run({**feeds, **seeds}), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    for name, slope in zip(wrt, found[-len(wrt) :], strict=True):
        way = rng.standard_normal(feeds[name].shape)
        up, down = (irkit.evaluate(graph, {**feeds, name: feeds[name] + h * way})[0] for h in (1e-6, -1e-6))
        theirs = (np.asarray(seeds.get("y.grad", 1.0)) * (up - down)).sum() / 2e-6
        np.testing.assert_allclose((way * slope).sum(), theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_loops_run_backwards(trips: int) -> None:
    """What is carried, of integers too, what is captured and hangs on another capture, rows, the number of the trip."""
    x, w, n = param(tensor("f64", "k")), param(tensor("f64", "k")), param(tensor("i64"))
    bent = op.Sin(w)

    def body(i: Any, going: Any, v: Any, count: Any) -> Any:
        by = op.Mul(op.Mul(v, w), op.Add(bent, op.Cast(i, to=11)))
        return going, op.Tanh(by), op.Add(count, 2), op.Mul(by, op.Cast(count, to=11))

    last, _, rows = op.Loop(n, True, x, np.array(3), body=body)
    y = op.Add(op.ReduceSum(op.Exp(last), keepdims=0), op.ReduceSum(op.Mul(rows, rows), keepdims=0))
    graph = graph_of({"x": x, "w": w, "n": n}, {"y": y})
    feeds = {"x": np.array([0.3, -0.7, 1.1]), "w": np.array([0.9, 0.4, -1.3]), "n": np.array(trips)}
    slopes_by_differences(graph, feeds, ["x", "w"])


def test_loops_that_data_ends_and_loops_within_loops() -> None:
    x, w = param(tensor("f64", 3)), param(tensor("f64"))

    def inner(i: Any, going: Any, v: Any) -> Any:
        return going, op.Add(v, op.Mul(w, op.Sin(v)))

    def outer(i: Any, going: Any, v: Any) -> Any:
        (once,) = op.Loop(np.array(2), True, v, body=inner)
        (bent,) = op.If(
            op.Greater(op.ReduceSum(v, keepdims=0), 1.0),
            then_branch=lambda: op.Mul(once, w),
            else_branch=lambda: op.Exp(op.Mul(w, v)),
        )
        return op.Less(op.ReduceSum(bent, keepdims=0), 30.0), bent

    (found,) = op.Loop(np.array(9), True, x, body=outer)
    graph = graph_of({"x": x, "w": w}, {"y": found})
    slopes_by_differences(graph, {"x": np.array([0.3, -0.2, 0.5]), "w": np.array(1.2)}, ["x", "w"])


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scans_run_backwards(axis: int, turn: int) -> None:
    x, z = param(tensor("f64", "t", "t") if axis else tensor("f64", "t", 4)), param(tensor("f64", "t", 4))
    h, w = param(tensor("f64", 4)), param(tensor("f64", 4, 4))

    def body(state: Any, row: Any, other: Any) -> Any:
        made = op.Tanh(op.Add(op.MatMul(state, w), op.Mul(row, other)))
        return made, op.Mul(made, row), op.ReduceSum(made, keepdims=0)

    last, rows, sums = op.Scan(
        h,
        x,
        z,
        body=body,
        num_scan_inputs=2,
        scan_input_axes=[axis, 0],
        scan_input_directions=[turn, 0],
        scan_output_axes=[1, 0],
        scan_output_directions=[1 - turn, turn],
    )
    y = op.Add(op.MatMul(op.Transpose(rows), op.Exp(last)), sums)
    graph = graph_of({"x": x, "z": z, "h": h, "w": w}, {"y": y})
    rng = np.random.default_rng(0)
    feeds = {
        name: rng.standard_normal(shape) for name, shape in {"x": (4, 4), "z": (4, 4), "h": (4,), "w": (4, 4)}.items()
    }
    slopes_by_differences(graph, feeds, ["x", "z", "h", "w"])


def test_a_capture_that_hangs_on_another_counts_once() -> None:
    x, flag = param(tensor("f64")), param(tensor("bool"))
    bent = op.Sin(x)
    (y,) = op.If(flag, then_branch=lambda: op.Mul(x, bent), else_branch=lambda: op.Add(x, bent))
    back = irkit.grad(graph_of({"x": x, "flag": flag}, {"y": y}), ["x"], results=False)
    for taken, expected in ((True, np.sin(0.7) + 0.7 * np.cos(0.7)), (False, 1 + np.cos(0.7))):
        (found,) = irkit.evaluate(back, [np.array(0.7), np.array(taken)])
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def mlp() -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    ), torch.randn(5, 6)


def cnn() -> Any:
    layers = (
        torch.nn.Conv2d(2, 6, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(6, 6, 3, stride=2, groups=2), torch.nn.Tanh(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(6, 4),
    )  # fmt: skip
    return torch.nn.Sequential(*layers), torch.randn(5, 2, 9, 9)


class Attending(torch.nn.Module):
    """A transformer of one layer over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(11, 8)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
        self.last = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layer(self.tokens(x)).mean(1))


def transformer() -> Any:
    return Attending(), torch.randint(0, 11, (5, 6))


@pytest.mark.parametrize("make", [mlp, cnn, transformer])
def test_a_file_is_trained_as_its_model_is(make: Any, tmp_path: Any) -> None:
    """Fifty steps of gradient descent on a file that was loaded, on ONNX Runtime, are those of torch."""
    torch.manual_seed(0)
    model, x = make()
    model.train()
    y = torch.randint(0, 4, (5,))
    irkit.to_onnx(model, (x,), dynamic_shapes=({0: "batch"},)).save(tmp_path / "model.onnx")
    loaded = irkit.load(tmp_path / "model.onnx")
    weights = [name for name, p in model.named_parameters()]
    label = param(tensor("i64", *loaded.results[0].shape[:1]))
    loss = op.SoftmaxCrossEntropyLoss(loaded.results[0], label, outputs=1)
    loss = loss[0] if isinstance(loss, tuple) else loss
    names = [port.name for port in loaded.signature.params]
    whole = graph_of({**dict(zip(names, loaded.params, strict=True)), "label": label}, {"loss": loss})
    back = irkit.grad(whole, None)
    irkit.verify(back)
    chosen = [port.name.removesuffix(".grad") for port in back.signature.results[1:]]
    assert len(chosen) >= len(weights) - 2
    values = {
        v.blob.name: np.array(v.blob.array) for v in loaded.order if v.op == "Constant" and v.blob and v.blob.name
    }
    held = {name: values[name] for name in chosen}
    session = session_of(prepare(back))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(50):
        found, *slopes = session.run({names[0]: x.numpy(), "label": y.numpy(), **held})
        held = {name: value - 0.1 * slope for (name, value), slope in zip(held.items(), slopes, strict=True)}
        held = {name: value.astype(np.float32) for name, value in held.items()}
        optimizer.zero_grad()
        expected = torch.nn.functional.cross_entropy(model(x), y)
        expected.backward()
        optimizer.step()
        np.testing.assert_allclose(found, expected.detach().numpy(), rtol=2e-4, atol=1e-5)
