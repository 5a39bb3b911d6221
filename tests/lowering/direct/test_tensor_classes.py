"""Tensors of a user's class are met by what that class says of functions and operators, as eager meets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import irkit
from irkit.errors import EvaluateError
from lowering.errors import CaptureError
from lowering.records.types import array_of

F = torch.nn.functional


class Scaled(torch.Tensor):
    """Integers with a scale, as quantized weights are kept: it wraps two tensors, and has no memory of its own."""

    whole: torch.Tensor
    scale: torch.Tensor

    @staticmethod
    def __new__(cls, whole: torch.Tensor, scale: torch.Tensor) -> Scaled:
        made: Any = torch.Tensor._make_wrapper_subclass  # whose stub lacks the element type
        return made(cls, whole.shape, dtype=scale.dtype)

    def __init__(self, whole: torch.Tensor, scale: torch.Tensor) -> None:
        self.whole, self.scale = whole, scale

    @classmethod
    def of(cls, weight: torch.Tensor) -> Scaled:
        """A weight, rounded to 8 bits a number, by a scale for each row."""
        scale = weight.abs().amax(-1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale)

    def plain(self) -> torch.Tensor:
        """The numbers that it stands for."""
        return self.whole.to(self.scale.dtype) * self.scale

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].whole, args[0].scale)
        plain = pytree.tree_map_only(Scaled, Scaled.plain, (args, kwargs or {}))
        return func(*plain[0], **plain[1])


class Doubling(torch.Tensor):
    """A tensor whose class doubles what functions make of it."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            plain = pytree.tree_map_only(cls, lambda each: each.as_subclass(torch.Tensor), args)
            made = func(*plain, **(kwargs or {}))
        return made * 2 if isinstance(made, torch.Tensor) and made.is_floating_point() else made


USES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "linear": F.linear,
    "matmul": lambda x, w: x @ w.t(),
    "mul": lambda x, w: x.unsqueeze(1) * w,
    "add": lambda x, w: torch.add(w, x.sum()),
    "cat": lambda x, w: torch.cat([x, w]),
    "rows": lambda x, w: w[(x[:, 0] > 0).long()],
    "row": lambda x, w: x + w[1],
    "embedding": lambda x, w: F.embedding((x > 0).long(), w),
    "where": lambda x, w: torch.where(x[:1] > 0, w, 0.0),
    "norm": lambda x, w: F.layer_norm(x, (3,), w[0], w[1]),
    "einsum": lambda x, w: torch.einsum("ni,oi->no", x, w),
    "conv": lambda x, w: F.conv1d(x.t()[None], w.reshape(2, 3, 2)),
}


class Holding(torch.nn.Module):
    """A model that holds a tensor of another class, as a parameter or as an attribute."""

    def __init__(self, weight: torch.Tensor, use: Callable[..., Any]) -> None:
        super().__init__()
        self.weight: Any = weight
        self.use = use

    def forward(self, x: torch.Tensor) -> Any:
        return self.use(x, self.weight)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", ["wrapped", "wrapped parameter", "doubling"])
def test_a_tensor_of_another_class_is_what_its_class_makes_of_it(use: str, kind: str) -> None:
    """The memory of a wrapper was read, where nothing lies, wherever an operator was met before its class was asked."""
    torch.manual_seed(0)
    plain = torch.randn(4, 3)
    held = {
        "wrapped": lambda: Scaled.of(plain),
        "wrapped parameter": lambda: torch.nn.Parameter(Scaled.of(plain), requires_grad=False),
        "doubling": lambda: plain.as_subclass(Doubling),
    }[kind]()
    model = Holding(held, USES[use])
    program = irkit.to_onnx(model, (torch.randn(5, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    for count in (5, 2, 7):
        x = torch.randn(count, 3)
        torch.testing.assert_close(program(x), model(x).as_subclass(torch.Tensor))


def test_a_wrapper_that_the_model_makes_of_what_it_computes() -> None:
    def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.linear(x, Scaled.of(weight)) + Scaled.of(x).plain().sum()

    example = (torch.randn(2, 3), torch.randn(4, 3))
    program = irkit.to_onnx(model, example, dynamic_shapes=({0: "n"}, {0: "m"}), capture="direct")
    for n, m in ((2, 4), (5, 3), (1, 6)):
        given = (torch.randn(n, 3), torch.randn(m, 3))
        torch.testing.assert_close(program(*given), model(*given))


def test_the_numbers_of_a_wrapper_are_never_read_where_nothing_lies() -> None:
    with pytest.raises(EvaluateError, match=r"a Scaled \(4, 3\) has no memory of its own"):
        array_of(Scaled.of(torch.randn(4, 3)))


class Giving(torch.nn.Module):
    """A model that returns a tensor of another class, which it makes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Scaled.of(x)


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (Giving(), (torch.ones(5, 3),)),
        (lambda x, w: F.linear(x, w), (torch.ones(5, 3), Scaled.of(torch.ones(4, 3)))),
        (lambda x, w: F.linear(x, w["w"]), (torch.ones(5, 3), {"w": Scaled.of(torch.ones(4, 3))})),
    ],
)
def test_a_wrapper_is_no_input_and_no_result(model: Any, given: Any) -> None:
    with pytest.raises(CaptureError, match="a Scaled, whose class wraps other tensors, is no input or result"):
        irkit.to_onnx(model, given)
