"""What a buffer holds at capture decides nothing where the model writes it: a later call finds other numbers there.
Each function of an input and a buffer is called three times, the buffer added to or replaced between, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import tensor

import irkit

X = torch.linspace(-2, 3, 24).reshape(4, 6)
PLACES = torch.zeros(1, 6, dtype=torch.int64)
Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

CASES: dict[str, tuple[Function, torch.Tensor, Any]] = {
    "floor_divide by a divisor whose sign changes": (lambda x, b: (x * 4).long() // b, tensor(3), -5),
    "remainder by one": (lambda x, b: (x * 4).long() % b, tensor(3), -5),
    "floor_divide": (lambda x, b: b // 4, tensor(3), -5),
    "remainder of floats": (lambda x, b: x % b, tensor(3.0), -5.0),
    "index_select below 0": (lambda x, b: x.index_select(0, b), tensor([1, 0]), -1),
    "embedding below 0": (lambda x, b: F.embedding(b, x), tensor([1, 0]), -1),
    "gather below 0": (lambda x, b: x.gather(0, b), PLACES, -1),
    "scatter below 0": (lambda x, b: x.scatter(0, b, 1.5), PLACES, -1),
    "one_hot below 0": (lambda x, b: F.one_hot(b, 8), tensor([1, 0]), -1),
    "index from the end": (lambda x, b: x[b], tensor([1, 0]), -1),
    "pow": (lambda x, b: x.abs().pow(b), tensor(2.0), 1.0),
    "pow of 0": (lambda x, b: x.abs().pow(b), tensor(0.0), 1.0),
    "shift": (lambda x, b: b >> 1, tensor(3), -5),
    "conversion of floats": (lambda x, b: x * b.to(torch.uint8), tensor(1.2), 3.0),
    "a mask of numbers": (
        lambda x, b: F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=b),
        torch.zeros(4, 4),
        tensor([0.0, 0.0, 0.0, -torch.inf]),
    ),
    "a mask of flags": (
        lambda x, b: F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=b > 0),
        torch.ones(4, 4),
        tensor([0.0, 0.0, -1.0, -2.0]),
    ),
    "a scale of integers": (
        lambda x, b: torch.fake_quantize_per_tensor_affine(x, b, tensor(0), -8, 7),
        tensor(0.5),
        0.25,
    ),
    "scales of channels": (
        lambda x, b: torch.fake_quantize_per_channel_affine(x, b, torch.zeros(4, dtype=torch.int32), 0, -8, 7),
        tensor([0.5, 1.0, 0.5, 1.0]),
        0.25,
    ),
    "a variance": (lambda x, b: F.batch_norm(x, torch.ones(6), b), torch.ones(6), 1.0),
    "weights of classes": (lambda x, b: F.cross_entropy(x, tensor([0, 1, 2, 3]), weight=b), torch.ones(6), 1.0),
    "classes that are left out": (lambda x, b: F.cross_entropy(x, b), tensor([0, 1, 2, 3]), -100),
    "bounds": (lambda x, b: torch.bucketize(x, b), tensor([0.0, 1.0]), 1.0),
}


class Counting(torch.nn.Module):
    """A function of an input and a buffer, which is then added to."""

    def __init__(self, function: Function, first: torch.Tensor, more: Any, replaced: bool) -> None:
        super().__init__()
        self.function, self.more, self.replaced = function, more, replaced
        self.register_buffer("held", first.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.function(x, self.held)
        if self.replaced:
            self.held = self.held + self.more
        else:
            self.held.add_(self.more)
        return found


def answer(call: Callable[[], Any]) -> Any:
    """What a call gives, None where it refuses."""
    try:
        return call()
    except (irkit.errors.IrkitError, IndexError, RuntimeError):
        return None


@pytest.mark.parametrize("replaced", [False, True], ids=["written", "replaced"])
@pytest.mark.parametrize("name", list(CASES))
def test_what_a_buffer_holds_at_capture_decides_nothing(name: str, replaced: bool) -> None:
    model, eager = (Counting(*CASES[name], replaced).eval() for _ in range(2))
    bound, kept = irkit.to_onnx(model, (X,), copy=True).bound("held"), None
    for turn in range(3):
        expected = answer(lambda: eager(X))
        found = answer(lambda kept=kept: bound.run((X,), kept=kept))
        assert (found is None) == (expected is None), (turn, expected, found)
        if found is None:
            break
        shown, kept = found
        torch.testing.assert_close(shown, expected, equal_nan=True)


class Reading(torch.nn.Module):
    """A function of an input and a buffer, which others write."""

    def __init__(self, function: Function, first: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("held", first.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, self.get_buffer("held"))


@pytest.mark.parametrize("name", list(CASES))
def test_what_a_buffer_holds_at_a_capture_of_what_changes_decides_nothing(name: str) -> None:
    """`irkit.compile` reads a buffer at each call once somebody wrote it, whatever it held when that was noticed."""
    function, first, more = CASES[name]
    model = Reading(function, first).eval()
    compiled = irkit.compile(model)
    for step in (0, 1, 2 * more - 1, 0):
        model.get_buffer("held").add_(step)
        expected, found = answer(lambda: model(X)), answer(lambda: compiled(X))
        assert (found is None) == (expected is None), (step, expected, found)
        if found is not None:
            torch.testing.assert_close(found, expected, equal_nan=True)


def test_a_written_tensor_and_a_constant_may_hold_the_same() -> None:
    """Runs at other sizes find a small constant by what it holds: that is no state that happens to hold the same."""
    constant, written = torch.zeros(3), torch.zeros(3)

    class Adds(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            written.add_(1)
            return (x + written) * 2 + constant

    bound = irkit.to_onnx(Adds(), (torch.ones(2, 3),), dynamic_shapes=({0: "n"},), copy=True).bound("constant_0")
    kept = None
    for turn, n in enumerate((2, 1, 0, 3)):
        found, kept = bound.run((torch.ones(n, 3),), kept=kept)
        torch.testing.assert_close(found, torch.full((n, 3), 2.0 * (turn + 2)))


def test_a_buffer_that_nobody_writes_stays_a_constant() -> None:
    """What it holds may decide then: no mask is left of places that are not below 0."""

    class Reads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("held", tensor([1, 0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.index_select(0, self.get_buffer("held"))

    graph = irkit.to_onnx(Reads().eval(), (X,)).graph
    assert [port.role for port in graph.signature.params] == ["input"]
    assert all(value.op != "BitwiseAnd" for value in graph.order)
