"""Operators of ONNX that a model names itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.onnx.ops as onnx_ops

from irkit.doors.to_onnx import to_onnx
from lowering import lower
from tests.lowering.aten.oracle import Wrapped, check


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(interleaved: bool) -> None:
    """Four axes, of any batch and length."""
    x, cos, sin = torch.randn(2, 3, 4, 8), torch.randn(2, 4, 4), torch.randn(2, 4, 4)
    check(
        lambda x, c, s: onnx_ops.rotary_embedding(x, c, s, interleaved=interleaved),
        x,
        cos,
        sin,
        dynamic_shapes=[{0: "batch", 2: "length"}, {0: "batch", 1: "length"}, {0: "batch", 1: "length"}],
        others=[(torch.randn(3, 3, 5, 8), torch.randn(3, 5, 4), torch.randn(3, 5, 4))],
        operators=["RotaryEmbedding"],
    )


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


PAST_AND_MASK = [
    (past, mask, causal)
    for past in (False, True)
    for mask, causal in ((None, False), (None, True), ("bool", False), ("float", False))
]
FLAGS: list[dict[str, Any]] = [
    {}, {"scale": 0.3}, {"softcap": 2.0}, {"qk_matmul_output_mode": 1}, {"qk_matmul_output_mode": 3},
    {"qk_matmul_output_mode": 1, "softcap": 3.0}, {"qk_matmul_output_mode": 2, "softcap": 3.0},
    {"softmax_precision": 1},
]  # fmt: skip


@pytest.mark.parametrize(("past", "mask", "causal"), PAST_AND_MASK)
def test_every_flag_of_attention(past: bool, mask: str | None, causal: bool) -> None:
    """All four results, of four axes and of three, with heads that are shared and with heads that are not."""
    for rank, heads in ((4, 2), (3, 4)):
        sizes = [(2, 4, 3, 8), (2, heads, 5, 8)] if rank == 4 else [(2, 3, 32), (2, 5, 8 * heads)]
        q, k, v = torch.randn(sizes[0]), torch.randn(sizes[1]), torch.randn(sizes[1])
        before = [torch.randn(2, heads, 2, 8), torch.randn(2, heads, 2, 8)] if past else []
        columns = 7 if past else 5
        masks = {"bool": torch.rand(3, columns) > 0.4, "float": torch.randn(3, columns)}
        masks["bool"][:, 0] = True
        given = [q, k, v, *([masks[mask]] if mask else []), *before]
        own = {} if rank == 4 else {"q_num_heads": 4, "kv_num_heads": heads}
        for flags in FLAGS:
            check(Attending(bool(mask), {**own, **flags, "is_causal": causal}), *given)


class Attending(torch.nn.Module):
    """onnx_ops.attention with some flags on (q, k, v, *mask, *past)."""

    def __init__(self, masked: bool, flags: dict[str, Any]) -> None:
        super().__init__()
        self.masked, self.flags = masked, flags

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: torch.Tensor) -> Any:
        mask = rest[0] if self.masked else None
        past = rest[1:] if self.masked else rest
        return onnx_ops.attention(q, k, v, mask, *(past or (None, None)), **self.flags)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("part", [0, 4])
@pytest.mark.parametrize("positions", [False, True])
def test_every_flag_of_rotary_embedding(interleaved: bool, part: int, positions: bool) -> None:
    """Of three axes and of four, the whole width turned or a part of it, the caches by position or in order."""
    width = (part or 8) // 2
    cache = (torch.randn(9, width), torch.randn(9, width)) if positions else (torch.randn(2, 4, width),) * 2
    where = [torch.randint(0, 9, (2, 4))] if positions else []
    flags = {"interleaved": interleaved, "rotary_embedding_dim": part}
    for x, heads in ((torch.randn(2, 3, 4, 8), 3), (torch.randn(2, 4, 24), 3)):
        given = flags | ({"num_heads": heads} if x.ndim == 3 or part else {})
        check(lambda x, c, s, *p, given=given: onnx_ops.rotary_embedding(x, c, s, *p, **given), x, *cache, *where)


def test_operators_with_several_results_by_name() -> None:
    """ONNX's own runs; the model's own has the types that the model gives, and attributes of every kind."""

    def largest(x: torch.Tensor) -> Any:
        count = torch.tensor([2])
        return onnx_ops.symbolic_multi_out(
            "TopK",
            [x, count],
            {"axis": 1, "largest": False},
            dtypes=[torch.float32, torch.int64],
            shapes=[[3, 2], [3, 2]],
        )

    x = torch.randn(3, 5)
    values, places = to_onnx(Wrapped(largest), (x,))(x)
    assert torch.equal(values, x.topk(2, 1, largest=False)[0])
    assert torch.equal(places, x.topk(2, 1, largest=False)[1])
    attributes: dict[str, Any] = {
        "i": 3, "f": 0.5, "s": "word", "b": True, "is_": [1, 2], "fs": [0.5, 1.0],
        "ss": ["a", "b"], "bs": [True, False],
    }  # fmt: skip

    def own(x: torch.Tensor) -> Any:
        return onnx_ops.symbolic_multi_out(
            "mine::Bar",
            [x, None, x],
            attributes,
            dtypes=[x.dtype, torch.int64],
            shapes=[x.shape, [x.shape[0], 4]],
            version=1,
        )

    graph = lower(Wrapped(own), (x,), dynamic_shapes=({0: "n"},))
    first, second = graph.results
    assert (str(first.type), str(second.type)) == ("f32[n, 5]", "i64[n, 4]")
    (made,) = (v for v in graph.order if v.op == "mine::Bar")
    assert made.inputs[1] is None
    assert dict(made.attributes) == {
        "i": 3,
        "f": 0.5,
        "s": "word",
        "b": 1,
        "is_": (1, 2),
        "fs": (0.5, 1.0),
        "ss": ("a", "b"),
        "bs": (1, 0),
    }


def test_the_version_that_the_model_gives_of_a_domain_is_imported() -> None:
    def own(x: torch.Tensor) -> Any:
        y = onnx_ops.symbolic("mine::Foo", [x], dtype=x.dtype, shape=x.shape, version=3)
        return onnx_ops.symbolic("mine::Bar", [y], dtype=x.dtype, shape=x.shape, version=2)

    proto = to_onnx(Wrapped(own), (torch.randn(3),)).proto
    assert {i.domain: i.version for i in proto.opset_import if i.domain} == {"mine": 3}
