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
    looped = op.Loop(n, True, x, body=lambda i, c, v: (c, op.Mul(v, v)))
    graph = graph_of({"x": x, "n": n}, {"y": looped[0]})
    with pytest.raises(GraphError, match="Loop has no gradient here"):
        irkit.grad(graph, ["x"])
    plain = graph_of({"x": x, "n": n}, {"y": op.Exp(x), "i": op.Add(n, 1)})
    refused: Any = {
        "no parameter or weight 'z'": (["z"], 0), "no gradient for": (["n"], 0), "no result 'w'": (["x"], "w"),
        "which has no gradient": (["x"], "i"), "wrt is 'x'": ("x", 0),
    }  # fmt: skip
    for said, (wrt, of) in refused.items():
        with pytest.raises(GraphError, match=said):
            irkit.grad(plain, wrt, of=of)
    zero = irkit.evaluate(
        irkit.grad(graph_of({"x": x, "w": n}, {"y": op.Exp(op.Cast(n, to=11))}), ["x"]), [np.ones(3), 1]
    )
    assert zero[1].tolist() == [0, 0, 0]


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
