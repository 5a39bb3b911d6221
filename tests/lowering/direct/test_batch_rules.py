"""`torch.func.vmap` of networks and functions whose operators torch batches by a number: here the batch varies, and
gradients of each sample are those of eager at batches that the example did not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, hessian, vmap

import irkit
from lowering.capture.patches.batch_rules import KERNELS
from lowering.records.torch_internals import BATCHED

torch.manual_seed(0)
N = ({0: "n"},)
pytestmark = [
    pytest.mark.filterwarnings("ignore:There is a performance drop"),  # eager goes through some batches one by one
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),  # torch's own functions are written so
]


class Residual(nn.Module):
    """Convolutions with a norm between, parts joined and sliced, both kinds of pooling, a value that is used twice."""

    def __init__(self, norm: nn.Module, axes: int = 2) -> None:
        super().__init__()
        conv = (nn.Conv1d, nn.Conv2d)[axes - 1]
        self.first, self.norm = conv(2, 4, 3, padding=1), norm
        self.grouped, self.last = conv(4, 4, 3, padding=2, dilation=2, groups=2), conv(4, 4, 2, stride=2, bias=False)
        self.largest, self.mean = (nn.MaxPool1d, nn.MaxPool2d)[axes - 1](2), (nn.AvgPool1d, nn.AvgPool2d)[axes - 1](2)
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.norm(self.first(x)))
        x = x + 0.5 * self.grouped(x)
        x = torch.cat([self.largest(x), self.mean(x)], 1)[:, 2:6]
        return self.head(self.last(x).flatten(2).mean(2))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8, padding_idx=3)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.words(ids)).mean(1))


class Resized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        larger = F.interpolate(self.conv(x), scale_factor=2, mode="bilinear")
        return (F.adaptive_avg_pool2d(larger, 2) + F.interpolate(x, size=(2, 2))).flatten(1)[:, :3]


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "group norm": (lambda: Residual(nn.GroupNorm(2, 4)), (2, 8, 8)),
    "group norm of signals": (lambda: Residual(nn.GroupNorm(2, 4), 1), (2, 8)),
    "layer norm": (lambda: Residual(nn.LayerNorm([4, 8, 8])), (2, 8, 8)),
    "batch norm": (lambda: Residual(nn.BatchNorm2d(4)).eval(), (2, 8, 8)),
    "instance norm": (lambda: Residual(nn.InstanceNorm2d(4, affine=True)), (2, 8, 8)),
    "resized": (Resized, (2, 4, 4)),
    "encoder": (Encoder, (5,)),
}


def drawn(n: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(0, 11, (n, *shape)) if len(shape) == 1 else torch.randn(n, *shape)


def gradients(net: nn.Module) -> Callable[..., Any]:
    params = {name: each.detach() for name, each in net.named_parameters()}

    def loss(params: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(net, params, (x[None],)), y[None])

    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        return vmap(grad(loss), (None, 0, 0))(params, x, y)

    return model


@pytest.mark.parametrize("name", NETS)
def test_gradients_of_each_sample_are_those_of_eager(name: str) -> None:
    make, shape = NETS[name]
    model = gradients(make())
    shapes = ({0: "n"}, {0: "n"})
    program = irkit.to_onnx(model, (drawn(3, shape), torch.arange(3)), dynamic_shapes=shapes, capture="direct")
    for n in (1, 5):
        x, y = drawn(n, shape), torch.arange(n) % 3
        torch.testing.assert_close(program(x, y), model(x, y), rtol=1e-4, atol=1e-5)


def test_a_length_that_varies_beside_the_batch() -> None:
    model = gradients(Residual(nn.GroupNorm(2, 4), 1))
    shapes = ({0: "n", 2: "length"}, {0: "n"})
    program = irkit.to_onnx(model, (torch.randn(3, 2, 8), torch.arange(3)), dynamic_shapes=shapes, capture="direct")
    for n, length in ((1, 12), (2, 16)):
        x, y = torch.randn(n, 2, length), torch.arange(n) % 3
        torch.testing.assert_close(program(x, y), model(x, y), rtol=1e-4, atol=1e-5)


ROW = torch.tensor([[0, 1, 1, 0]])
FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "joined": lambda r: torch.cat([r, r * 2], -1)[1:],
    "gathered": lambda r: r.gather(0, ROW),
    "scattered": lambda r: r.scatter(0, ROW, 1.0).scatter_add(0, ROW, r[:1]),
    "scattered and reduced": lambda r: r.scatter_reduce(0, ROW, r[1:2], "amax"),
    "added at places": lambda r: r.index_add(0, torch.tensor([0, 0]), r[:2], alpha=3),
    "looked up": lambda r: F.embedding(torch.tensor([2, 0]), r),
    "statistics of its own": lambda r: F.batch_norm(r, None, None, torch.ones(4), torch.arange(4.0), training=True),
    "given statistics": lambda r: F.batch_norm(r, torch.zeros(4), torch.ones(4)),
    "the gradient of a sort": lambda r: grad(lambda t: (t.sort(1)[0] * torch.arange(4)).sum())(r),
    "the gradient of windows": lambda r: grad(lambda t: t.unfold(0, 2, 1).square().sum())(r),
    "the gradient of batch norm": lambda r: grad(
        lambda t: F.batch_norm(t, None, None, torch.ones(4), None, training=True).pow(3).sum()
    )(r),
    "the gradient of a table": lambda r: grad(lambda t: F.embedding(torch.tensor([2, 0, 2]), t).square().sum())(r),
    "second gradients": lambda r: hessian(lambda t: torch.cat([t.tanh(), 2 * t]).pow(3).sum())(r),
    "maxima": lambda r: grad(lambda t: F.max_pool1d(t[None], 2).square().sum())(r),
    "a batch of batches": lambda r: vmap(lambda t: torch.cat([t, t * 2])[1:5])(r),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_batch_of_a_function_varies(name: str) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return vmap(FUNCTIONS[name])(x)

    program = irkit.to_onnx(model, (torch.randn(2, 3, 4),), dynamic_shapes=N, capture="direct")
    for n in (1, 5):
        x = torch.randn(n, 3, 4)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


IMAGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "convolution": lambda r: F.conv1d(r, torch.ones(2, 3, 2)),
    "convolution of one": lambda r: F.conv1d(r[None], torch.ones(2, 3, 2)),
    "group norm": lambda r: F.group_norm(r[None], 3),
    "pooling": lambda r: F.max_pool1d(r[None], 2),
    "resizing": lambda r: F.interpolate(r[None], scale_factor=2),
    "inverse": lambda r: torch.linalg.inv(r[:, :3] + 3 * torch.eye(3)),
    "determinant": lambda r: torch.linalg.det(r[:, :3]),
    "decomposition": lambda r: torch.linalg.qr(r).R.abs(),
    "solution": lambda r: torch.linalg.solve(r[:, :3] + 3 * torch.eye(3), r),
    "Cholesky": lambda r: torch.linalg.cholesky(r @ r.t() + 3 * torch.eye(3)),
    "singular values": lambda r: torch.linalg.svdvals(r),
    "a joined gradient": lambda r: grad(lambda t: torch.cat([t, t[:1]]).gather(0, ROW).square().sum())(r),
    "layer norm": lambda r: F.layer_norm(r, (4,)),
    "attention": lambda r: F.scaled_dot_product_attention(r[None, None], r[None, None], r[None, None]),
}


@pytest.mark.parametrize("name", [*FUNCTIONS, *IMAGES])
def test_a_batch_of_nothing_is_that_of_eager_or_refused(name: str) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return vmap((FUNCTIONS | IMAGES)[name])(x)

    program = irkit.to_onnx(model, (torch.randn(2, 3, 4),), dynamic_shapes=N, capture="direct")
    x = torch.randn(0, 3, 4)
    try:
        found = program(x)
    except irkit.ContractError:
        return
    torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)


SINGLE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda e: e + 1,
    "product": lambda e: e * 2.5,
    "quotient": lambda e: torch.div(e, 2, rounding_mode="floor"),
    "difference": lambda e: 2 - e,
    "power": lambda e: e**2,
    "comparison": lambda e: torch.where(e > 0, e, -e),
    "gradient": lambda e: grad(lambda t: t.exp() * 2)(e),
    "derivative": lambda e: torch.func.jvp(lambda t: t * 2, (e,), (e,))[1],
}


@pytest.mark.parametrize("shape, axis", [((3,), 0), ((4, 3), 1), ((3, 4), 0)])
@pytest.mark.parametrize("name", SINGLE)
def test_a_batch_of_no_single_elements_is_that_of_eager_or_refused(
    name: str, shape: tuple[int, ...], axis: int
) -> None:
    """Eager looks at the first of them where a number stands beside, and so refuses none."""
    model = vmap(SINGLE[name]) if len(shape) == 1 else vmap(vmap(SINGLE[name]))
    program = irkit.to_onnx(model, (torch.randn(shape),), dynamic_shapes=({axis: "n"},), capture="direct")
    x = torch.randn([0 if at == axis else size for at, size in enumerate(shape)])
    try:
        expected = model(x)
    except IndexError:
        with pytest.raises(irkit.ContractError):
            program(x)
        return
    torch.testing.assert_close(program(x), expected)


def test_a_tangent_of_no_elements_is_refused_as_in_eager() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return hessian(lambda t: (t**3).sum() * 2)(x)

    program = irkit.to_onnx(model, (torch.randn(3),), dynamic_shapes=N, capture="direct")
    torch.testing.assert_close(program(torch.ones(5)), model(torch.ones(5)))
    with pytest.raises(IndexError):
        model(torch.ones(0))
    with pytest.raises(irkit.ContractError):
        program(torch.ones(0))


def test_the_batch_may_be_any_axis() -> None:
    def model(x: torch.Tensor) -> Any:
        behind = vmap(lambda r: F.layer_norm(r, (5,)), in_dims=2, out_dims=1)(x)
        return behind, vmap(lambda r: torch.cat([r, r], -1), in_dims=0, out_dims=-1)(x)

    program = irkit.to_onnx(model, (torch.randn(3, 2, 4, 5),), dynamic_shapes=N, capture="direct")
    for n in (1, 6):
        x = torch.randn(n, 2, 4, 5)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


def test_numbers_are_multiplied_within_gradients() -> None:
    def model(x: torch.Tensor) -> Any:
        return vmap(grad(lambda r: (2 * r / 3 + r.remainder(0.7)).square().sum()))(x)

    program = irkit.to_onnx(model, (torch.randn(2, 3),), capture="direct")
    x = torch.randn(2, 3)
    torch.testing.assert_close(program(x), model(x))


def test_torch_is_left_as_it_was() -> None:
    irkit.to_onnx(lambda x: vmap(lambda r: torch.cat([r, r]))(x), (torch.randn(2, 3),), capture="direct")
    assert all(BATCHED not in operator.py_kernels for operator in KERNELS)


def test_modules_given_to_torch_compile_are_captured() -> None:
    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner: Any = torch.compile(nn.Linear(4, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) + 1

    model = Around().eval()
    program = irkit.to_onnx(model, (torch.randn(2, 4),), dynamic_shapes=N, capture="direct")
    x = torch.randn(5, 4)
    expected = F.linear(x, model.inner._orig_mod.weight, model.inner._orig_mod.bias) + 1
    torch.testing.assert_close(program(x), expected, rtol=1e-4, atol=1e-5)
