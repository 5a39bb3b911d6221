"""Writes into views inside `torch.func.grad`, `jvp` and `vmap`: what they write is the view, wherever in its memory it
begins, at sizes that the example did not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.func import grad, jvp, vjp, vmap

import irkit

torch.manual_seed(0)
Function = Callable[[torch.Tensor], Any]
VIEWS: dict[str, Function] = {
    "rows from the second on": lambda y: y[1:],
    "a column": lambda y: y[:, 1],
    "the diagonal": lambda y: y.diagonal(),
    "transposed": lambda y: y.t()[1:],
    "flat": lambda y: y.view(-1)[3:],
    "a view of a view of a view": lambda y: y[1:].t()[:2].unsqueeze(0),
    "every second": lambda y: y[::2, 1::2],
    "from the middle on": lambda y: y[y.shape[0] // 2 :],
}
TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "grad": lambda f: grad(lambda x: f(x).square().sum()),
    "vjp": lambda f: lambda x: vjp(f, x)[1](x.cos())[0],
    "jvp": lambda f: lambda x: jvp(f, (x,), (2 * x + 1,)),
    "jvp of grad": lambda f: lambda x: jvp(grad(lambda t: f(t).square().sum()), (x,), (x + 1,)),
    "vmap of grad": lambda f: lambda x: vmap(grad(lambda t: f(t).square().sum()))(torch.stack([x, 2 * x])),
}


def written(view: Function) -> Function:
    """A function that writes a view twice, of itself and of its argument."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.5
        part = view(y)
        part.mul_(x.sum())
        part += 2
        return y * x.sin()

    return function


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # torch's own functions are written so
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_written_where_it_begins(view: str, transform: str) -> None:
    model = TRANSFORMS[transform](written(VIEWS[view]))
    program = irkit.to_onnx(lambda x: model(x), (torch.randn(5, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    for n in (3, 8):
        x = torch.randn(n, 4)
        try:
            found = program(x)
        except irkit.ContractError:
            assert view in ("the diagonal", "flat") and transform == "vmap of grad"  # torch asks for their length there
            continue
        torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-4)


def test_each_sample_is_written_by_itself() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[1:] += x[:-1]
        y.mul_(2)
        y[0] = x.sum()
        return y

    def model(x: torch.Tensor) -> torch.Tensor:
        return vmap(grad(lambda r: function(r).square().sum()))(x)

    program = irkit.to_onnx(model, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    for n in (1, 5):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)
