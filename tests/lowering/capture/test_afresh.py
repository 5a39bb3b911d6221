"""What ran, was compiled or was exported before leaves no trace in an export."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree as pytree

import irkit
from lowering import lower
from lowering.capture.patches.fresh_dynamo import compiled_afresh
from lowering.records.pytrees import forget


def loop(x: Any) -> Any:
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2 + 1), (torch.tensor(0), x))


def two_loops(x: Any) -> Any:
    _, y = while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y.sin()), (torch.tensor(0), x))
    return while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y.cos()), (torch.tensor(0), y))


def branch(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))


def scanned(x: Any) -> Any:
    return scan(lambda c, y: (c + y, c * y), x[0], x, dim=0)


def masked(x: Any) -> Any:
    return x[x > 0] * x.shape[0]


def rows(x: Any) -> Any:
    return x.reshape(-1, 2) if x.shape[0] % 2 else x * 2


ONE, BOTH = {0: "a"}, {0: "a", 1: "b"}
JOBS: list[tuple[Callable[..., Any], dict[int, str]]] = [
    (loop, ONE), (loop, BOTH), (two_loops, BOTH), (branch, ONE), (branch, BOTH), (scanned, ONE), (masked, ONE),
    (rows, BOTH),
]  # fmt: skip
X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Whole(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def digests(rng: random.Random, disturbed: bool) -> dict[tuple[str, int], bytes]:
    """The digest of each graph, exported in a random order, with runs and exports of torch at other sizes between."""
    found: dict[tuple[str, int], bytes] = {}
    for function, spec in rng.sample(JOBS, len(JOBS)):
        if disturbed and rng.random() < 0.6:
            disturb(rng, function)
        graph = lower(Whole(function), (X,), dynamic_shapes={"x": dict(spec)}, widen=False)
        found[function.__name__, len(spec)] = graph.digest
    return found


def disturb(rng: random.Random, function: Callable[..., Any]) -> None:
    """Runs a function, or exports it by torch, at some other size."""
    x = torch.randn(2 * rng.randint(1, 3), 4)
    if rng.random() < 0.6:
        function(x)
    else:
        torch.export.export(Whole(function), (x,), dynamic_shapes={"x": {0: torch.export.Dim.AUTO}})


def test_the_order_of_exports_does_not_matter() -> None:
    known = digests(random.Random(0), disturbed=False)
    assert len(set(known.values())) == len(known)
    assert digests(random.Random(1), disturbed=True) == known


def test_what_the_user_compiled_stays_compiled() -> None:
    compilations: list[int] = []

    def counting(module: Any, example: Any) -> Any:
        compilations.append(1)
        return module.forward

    compiled = torch.compile(Whole(rows), backend=counting)
    compiled(torch.randn(4, 4))
    for _ in range(2):
        lower(Whole(branch), (X,), dynamic_shapes={"x": {0: "a"}})
        compiled(torch.randn(4, 4))
    assert len(compilations) == 1


def test_dynamo_remembers_no_sizes_of_an_export() -> None:
    pgo: Any = pytest.importorskip("torch._dynamo.pgo")
    before = pgo._CODE_STATE
    with compiled_afresh():
        assert not pgo._CODE_STATE
        branch(X)
        assert pgo._CODE_STATE
    assert pgo._CODE_STATE is before


class Pair:
    """Two tensors, of a class that no pytree knows."""

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right


@contextmanager
def opened(order: str) -> Iterator[None]:
    """A block in which torch's pytree opens a Pair, its parts in this order."""
    pytree._private_register_pytree_node(
        Pair,
        lambda pair: ([getattr(pair, name) for name in order.split()], order),
        lambda parts, order: Pair(**dict(zip(order.split(), parts, strict=True))),
        serialized_type_name=f"Pair {order}",
        flatten_with_keys_fn=lambda pair: (  # type: ignore[arg-type]
            [(pytree.GetAttrKey(name), getattr(pair, name)) for name in order.split()],
            order,
        ),
    )
    try:
        yield
    finally:
        forget(Pair)


def swapped(pair: Any) -> Any:
    return Pair(pair.right * 2, pair.left)


@pytest.mark.parametrize("later", ["left right", "right left", ""])
def test_a_class_that_somebody_registers_later_is_opened_as_at_the_export(later: str) -> None:
    with opened("left right"):
        program = irkit.to_onnx(swapped, (Pair(X, X + 1),))

    def right() -> None:
        found = program(Pair(X, X + 1))
        torch.testing.assert_close((found.left, found.right), (X * 2 + 2, X))

    right()
    if later:
        with opened(later):
            before = pytree.SUPPORTED_NODES[Pair]
            right()
            assert pytree.SUPPORTED_NODES[Pair] is before
    assert Pair not in pytree.SUPPORTED_NODES
