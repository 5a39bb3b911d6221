"""Small models, one for each higher-order operator that torch.export records, written for this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from functorch.experimental.control_flow import map as torch_map
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.invoke_subgraph import mark_compile_region
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

Program = Callable[[], tuple[nn.Module, tuple[Any, ...]]]


class Of(nn.Module):
    """A module of a function, with two layers for it to use."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("count", torch.zeros(4))

    def forward(self, *tensors: Any) -> Any:
        return self.function(self, *tensors)


def of(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Program:
    """A program of a function of (module, *tensors) on random tensors."""

    def program() -> tuple[nn.Module, tuple[Any, ...]]:
        torch.manual_seed(1)
        return Of(function).eval(), tuple(torch.randn(shape) for shape in shapes)

    return program


def plain_region(x: Tensor, w: Tensor) -> Tensor:
    return torch.relu(x @ w).cumsum(0)


region: Any = mark_compile_region(plain_region)


def no_grad(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        y = m.first(x)
    with torch.enable_grad():
        z = m.second(y)
    return z * x


def no_grad_writes(m: Any, x: Tensor) -> Tensor:
    y = m.first(x)
    with torch.no_grad():
        m.count.add_(y.sum(0))
        y[:, 1:3] = 0
    return y + m.count


def autocast(m: Any, x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = m.first(x)
    with torch.autocast("cpu", enabled=False):
        return m.second(y.float())


def checkpointed(m: Any, x: Tensor) -> Tensor:
    return checkpoint(lambda t: torch.relu(m.first(t)), x, use_reentrant=False) + x


def subgraph(m: Any, x: Tensor) -> Tensor:
    return region(region(x, m.first.weight), m.second.weight)


def conditional(m: Any, x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t: (m.first(t), t.sum(0)), lambda t: (m.second(t) - 1, t.amax(0)), (x,))


def conditional_on_size(m: Any, x: Tensor) -> Tensor:
    return torch.cond(x.shape[0] > 4, lambda t: m.first(t), lambda t: m.second(t), (x,))


def conditional_on_sizes(m: Any, x: Tensor) -> Tensor:
    rows, columns = x.shape
    many = (rows != columns) & ((rows * 2 > columns + 3) | (rows // 2 == 1))
    return torch.cond(many, lambda t: t.sin(), lambda t: t.cos() + t.shape[0], (x,))


def conditional_nested(m: Any, x: Tensor) -> Tensor:
    def inner(t: Tensor) -> Tensor:
        return torch.cond(t.amax() > 1, lambda u: m.first(u).sin(), lambda u: u.cos(), (t,))

    return torch.cond(x.mean() > 0, inner, lambda t: t * 2, (x,))


def loop(m: Any, x: Tensor) -> Any:
    def more(i: Tensor, t: Tensor) -> Tensor:
        return i < 5

    def step(i: Tensor, t: Tensor) -> Any:
        return i + 1, torch.tanh(m.first(t))

    return while_loop(more, step, (torch.tensor(0), x))


def loop_over_data(m: Any, x: Tensor) -> Any:
    def step(i: Tensor, t: Tensor) -> Any:
        return i + 1, t / 2

    return while_loop(lambda i, t: t.abs().sum() > 1, step, (torch.tensor(0), x))


def scanned(m: Any, x: Tensor) -> Any:
    return scan(lambda c, t: (torch.tanh(m.first(c) + t), c * t), torch.zeros(4), x)


def scanned_backwards(m: Any, x: Tensor) -> Any:
    return scan(lambda c, t: (c + t, c * 2), torch.zeros(4), x, reverse=True)


def scanned_second(m: Any, x: Tensor) -> Any:
    return scan(lambda c, t: (c + t, (c * 2, t.sum())), x[:, 0] * 0, x, dim=1)


def scanned_tree(m: Any, x: Tensor, y: Tensor) -> Any:
    def step(c: Any, t: Any) -> Any:
        return {"a": c["a"] + t[0], "b": c["b"] * t[1].exp()}, [t[0] - t[1], c["a"].clone()]

    return scan(step, {"a": torch.zeros(4), "b": torch.ones(4)}, (x, y))


def associative(m: Any, x: Tensor) -> Any:
    return associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")


def associative_pairs(m: Any, x: Tensor, y: Tensor) -> Any:
    def combine(a: Any, b: Any) -> Any:
        return a[0] * b[0], b[0] * a[1] + b[1]

    return associative_scan(combine, (torch.sigmoid(x), y), 1, reverse=True, combine_mode="generic")


def mapped(m: Any, x: Tensor) -> Any:
    return torch_map(lambda t, w: (torch.relu(t @ w), t.sum()), x, m.first.weight)


def flex_plain(m: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return flex_attention(q, k, v)


def flex_scores(m: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    def scores(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.where(i >= j, s * 0.5 + (i - j) * 0.1 + h, -float("inf"))

    return flex_attention(q, k, v, score_mod=scores)


def flex_bias(m: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Any:
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h, i, j], return_lse=True)


def flex_masked(m: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, q.shape[-2], k.shape[-2], device="cpu")
    return flex_attention(q, k, v, block_mask=mask)


def flex_grouped(m: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return flex_attention(q, k, v, enable_gqa=True, scale=0.3)


class Squared(torch.autograd.Function):
    """A function with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * gradients[0]


def autograd_function(m: Any, x: Tensor) -> Tensor:
    return Squared.apply(m.first(x))


def printed(m: Any, x: Tensor) -> Tensor:
    torch._higher_order_ops.print("sum {}", x.sum())  # type: ignore[attr-defined]
    return x + 1


def vmapped(m: Any, x: Tensor, y: Tensor) -> Tensor:
    return torch.vmap(torch.dot)(x, y)


def differentiated(m: Any, x: Tensor) -> Tensor:
    return torch.func.grad(lambda t: (t.sin() * t).sum())(x)


def jacobian(m: Any, x: Tensor) -> Tensor:
    return torch.func.jvp(lambda t: t.tanh(), (x,), (torch.ones_like(x),))[1]


HEADS = (2, 4, 16, 8)
PROGRAMS: Mapping[str, Program] = {
    "wrap_with_set_grad_enabled": of(no_grad, (3, 4)),
    "wrap_with_set_grad_enabled.writes": of(no_grad_writes, (3, 4)),
    "wrap_with_autocast": of(autocast, (3, 4)),
    "tag_activation_checkpoint": of(checkpointed, (3, 4)),
    "invoke_subgraph.twice": of(subgraph, (3, 4)),
    "cond.two_results": of(conditional, (3, 4)),
    "cond.on_size": of(conditional_on_size, (3, 4)),
    "cond.on_sizes": of(conditional_on_sizes, (3, 4)),
    "cond.nested": of(conditional_nested, (3, 4)),
    "while_loop.closure": of(loop, (3, 4)),
    "while_loop.over_data": of(loop_over_data, (3, 4)),
    "scan.closure": of(scanned, (5, 4)),
    "scan.reverse": of(scanned_backwards, (5, 4)),
    "scan.second_dimension": of(scanned_second, (4, 5)),
    "scan.tree": of(scanned_tree, (5, 4), (5, 4)),
    "associative_scan.sum": of(associative, (5, 4)),
    "associative_scan.pairs_reverse": of(associative_pairs, (3, 5), (3, 5)),
    "map.closure": of(mapped, (5, 3, 4)),
    "flex_attention.plain": of(flex_plain, HEADS, HEADS, HEADS),
    "flex_attention.score_mod": of(flex_scores, HEADS, HEADS, HEADS),
    "flex_attention.captured_bias": of(flex_bias, HEADS, HEADS, HEADS, (4, 16, 16)),
    "flex_attention.block_mask": of(flex_masked, HEADS, HEADS, HEADS),
    "flex_attention.gqa": of(flex_grouped, HEADS, (2, 2, 16, 8), (2, 2, 16, 8)),
    "autograd_function": of(autograd_function, (3, 4)),
    "print": of(printed, (3, 4)),
    "vmap": of(vmapped, (3, 4), (3, 4)),
    "grad": of(differentiated, (3, 4)),
    "jvp": of(jacobian, (3, 4)),
}
