"""Derivatives by torch.func and in forward mode, of sizes that vary, against eager at other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import func
from torch.autograd import forward_ad
from torch.nn import functional as F

import irkit
from tests.support.draws import drawn

# eager's own derivatives of some operators in forward mode are written in TorchScript, those of some batches are slow,
# and what it records for linearize names what it does not hold
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
]
SIZES = (5, 7, 2)
Function = Callable[[torch.Tensor], torch.Tensor]


def places(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.shape[0]) % 4


def with_ones(x: torch.Tensor) -> torch.Tensor:
    return x.t() @ x + 3 * torch.eye(4)


torch.manual_seed(0)
LAYER = torch.nn.MultiheadAttention(4, 2, batch_first=True)


def attended(x: torch.Tensor) -> torch.Tensor:
    return LAYER(x[None], x[None], x[None])[0]


FUNCTIONS: dict[str, Function] = {
    "layer_norm": lambda x: F.layer_norm(x, (4,), torch.arange(4.0), torch.ones(4)),
    "group_norm": lambda x: F.group_norm(x.view(-1, 2, 2).expand(x.shape[0], 2, 2).repeat(1, 2, 1), 2),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4), torch.arange(4.0), torch.ones(4)),
    "batch_norm of the batch": lambda x: F.batch_norm(x, None, None, training=True),
    "instance_norm": lambda x: F.instance_norm(x.t().reshape(2, 2, -1), weight=torch.arange(2.0)),
    "glu": F.glu,
    "silu": F.silu,
    "bilinear": lambda x: F.bilinear(x, x, torch.ones(2, 4, 4)),
    "linear of three axes": lambda x: F.linear(x.view(-1, 1, 4).expand(x.shape[0], 2, 4), torch.ones(3, 4)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "joined to what has no derivative": lambda x: torch.cat([x * x, torch.ones_like(x)]),
    "stacked with what has none": lambda x: torch.stack([x.sin(), torch.ones_like(x)]),
    "cross_entropy": lambda x: F.cross_entropy(x, places(x), torch.arange(1.0, 5), ignore_index=2),
    "nll_loss": lambda x: F.nll_loss(x.log_softmax(-1), places(x), reduction="sum"),
    "abs": lambda x: x.abs() * x,
    "prod": lambda x: x.prod(-1),
    "lgamma": lambda x: torch.lgamma(x.abs() + 1),
    "solve": lambda x: torch.linalg.solve(with_ones(x), torch.ones(4)),
    "logdet": lambda x: torch.logdet(with_ones(x)),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "repeat": lambda x: x.repeat(2, 1) ** 2,
    "multi-head attention": attended,
}


def by_jvp(f: Function, x: torch.Tensor) -> Any:
    return func.jvp(f, (x,), (x.cos(),))


def by_dual_numbers(f: Function, x: torch.Tensor) -> Any:
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(f(forward_ad.make_dual(x, x.cos())))
        return found.primal, found.tangent


def by_linearize(f: Function, x: torch.Tensor) -> Any:
    found, tangent = func.linearize(f, x)
    return found, tangent(x.sin())


def hessian(f: Function, x: torch.Tensor) -> Any:
    return func.hessian(lambda w: f(x + w).sum())(torch.zeros(4))


def jacobian(f: Function, x: torch.Tensor) -> Any:
    return func.jacrev(lambda w: f(x * w))(torch.ones(4))


def product_forward_over_reverse(f: Function, x: torch.Tensor) -> Any:
    return func.jvp(func.grad(lambda w: f(w).pow(2).sum()), (x,), (torch.ones_like(x),))


def product_by_autograd(f: Function, x: torch.Tensor) -> Any:
    return torch.autograd.functional.hvp(lambda w: f(w).pow(2).sum(), x, x.sin())


WAYS = (
    by_jvp, by_dual_numbers, by_linearize, hessian, jacobian, product_forward_over_reverse, product_by_autograd,
)  # fmt: skip


CASES = [(way, name) for way in WAYS for name in FUNCTIONS]
PINNED = ((hessian, "logdet"), (hessian, "solve"), (jacobian, "attention"), (product_by_autograd, "batch_norm"))


def named(case: tuple[Callable[..., Any], str]) -> str:
    return f"{case[0].__name__} {case[1]}"


@pytest.mark.parametrize(("way", "name"), drawn("derivatives", CASES, 36, PINNED, named))
def test_derivatives_are_those_of_eager_at_other_sizes(way: Callable[..., Any], name: str) -> None:
    def model(x: torch.Tensor) -> Any:
        return way(FUNCTIONS[name], x)

    torch.manual_seed(1)
    # torch itself has no derivatives in forward mode of attention and of the gradient of group norm
    try:
        model(torch.randn(5, 4))
    except (NotImplementedError, RuntimeError) as error:
        assert "forward AD" in str(error) or "is not implemented" in str(error), error
        return
    program = irkit.to_onnx(model, (torch.randn(5, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in SIZES:
        x = torch.randn(size, 4)
        torch.testing.assert_close(program(x), model(x), rtol=1e-3, atol=1e-4)


def test_derivative_of_vjp_without_recorded_gradients_is_kept_as_the_model_asks_for_it() -> None:
    """In eager, too, forward mode over vjp gives another derivative under torch.no_grad."""

    def model(x: torch.Tensor) -> Any:
        with torch.no_grad():
            return func.hessian(lambda w: torch.logdet(with_ones(x + w)))(torch.zeros(4))

    program = irkit.to_onnx(model, (torch.randn(5, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in SIZES:
        x = torch.randn(size, 4)
        torch.testing.assert_close(program(x), model(x), rtol=1e-3, atol=1e-4)


def test_view_that_torch_refuses_is_refused_where_gradients_are_recorded() -> None:
    def model(x: torch.Tensor) -> Any:
        return func.grad(lambda w: w.t().view(-1).sum())(x)

    with pytest.raises(irkit.IrkitError, match="view size is not compatible"):
        irkit.to_onnx(model, (torch.randn(5, 4),), dynamic_shapes=({0: "n"},), capture="direct")
