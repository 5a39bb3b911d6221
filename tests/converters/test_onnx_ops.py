"""Operators of ONNX that a model names itself."""

from __future__ import annotations

import pytest
import torch
import torch.onnx.ops as onnx_ops

from lowering import lower
from tests.converters.oracle import Wrapped, check


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(interleaved: bool) -> None:
    """Four axes, of any batch and length."""
    x, cos, sin = torch.randn(2, 3, 4, 8), torch.randn(2, 4, 4), torch.randn(2, 4, 4)
    check(
        lambda x, c, s: onnx_ops.rotary_embedding(x, c, s, interleaved=interleaved), x, cos, sin,
        dynamic_shapes=[{0: "batch", 2: "length"}, {0: "batch", 1: "length"}, {0: "batch", 1: "length"}],
        others=[(torch.randn(3, 3, 5, 8), torch.randn(3, 5, 4), torch.randn(3, 5, 4))],
        operators=["RotaryEmbedding"],
    )  # fmt: skip


def test_attention() -> None:
    """With a past, and without one."""
    q, k, v = (torch.randn(2, 3, 4, 8) for _ in range(3))
    past = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 8)
    check(lambda q, k, v: onnx_ops.attention(q, k, v, is_causal=True)[0], q, k, v, operators=["Attention"])
    check(lambda q, k, v, a, b: onnx_ops.attention(q, k, v, past_key=a, past_value=b)[:3], q, k, v, *past)


def test_operators_by_name() -> None:
    """ONNX's own has its type rule; one of the model's own has the type that the model gives."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own = onnx_ops.symbolic("Softmax", [x], {"axis": 0}, dtype=torch.float32, shape=[2, 3])
        attributes = {"count": 1, "weights": [1.0, 2.0], "mode": "fast"}
        return own, onnx_ops.symbolic("mine::Foo", [x], attributes, dtype=torch.float32, shape=[2, 5], version=1)

    graph = lower(Wrapped(function), (torch.randn(2, 3),))
    softmax, foo = graph.results
    assert (softmax.op, softmax.attribute("axis"), softmax.shape) == ("Softmax", 0, (2, 3))
    assert (foo.op, foo.shape) == ("mine::Foo", (2, 5))
    assert dict(foo.attributes) == {"count": 1, "weights": (1.0, 2.0), "mode": "fast"}
