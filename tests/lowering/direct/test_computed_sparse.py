"""Sparse tensors that a model makes of what it computes, against eager at other sizes, places and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import ContractError
from lowering.errors import CaptureError

Tensor = torch.Tensor
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse:UserWarning"),  # torch's own words of its sparse tensors
    pytest.mark.filterwarnings("ignore:.*check_sparse_tensor_invariants:UserWarning"),
]


def of_dense(x: Tensor, y: Tensor, places: Tensor, numbers: Tensor) -> Tensor:
    return x.to_sparse()


def of_places(x: Tensor, y: Tensor, places: Tensor, numbers: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(places, numbers, x.shape)


def in_order(x: Tensor, y: Tensor, places: Tensor, numbers: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(places, numbers, (x.shape[0], x.shape[1])).coalesce()


MADE: dict[str, Callable[..., Any]] = {"of dense": of_dense, "of places": of_places, "in order": in_order}
USES: dict[str, Callable[[Any, Tensor, Tensor], Any]] = {
    "dense": lambda a, x, y: a.to_dense(),
    "parts": lambda a, x, y: (a.coalesce().indices(), a.coalesce().values()),
    "count": lambda a, x, y: a.coalesce()._nnz() + x,
    "mm": lambda a, x, y: torch.sparse.mm(a, y),
    "matmul": lambda a, x, y: a @ y,
    "turned": lambda a, x, y: y.t() @ a.t(),
    "turned first": lambda a, x, y: a.transpose(0, 1) @ x,
    "mv": lambda a, x, y: a @ y.sum(1),
    "addmm": lambda a, x, y: torch.sparse.addmm(torch.ones(a.shape[0], y.shape[1]), a, y, beta=2, alpha=0.5),
    "sparse product": lambda a, x, y: [each for b in [torch.sparse.mm(a, a.t().coalesce())] for each in (
        b.to_dense(), b.coalesce().indices())],
    "scaled": lambda a, x, y: (2 * a / 3).to_dense(),
    "at places": lambda a, x, y: (a * x).to_dense(),
    "sum of two": lambda a, x, y: (a + x.to_sparse()).to_dense(),
    "difference": lambda a, x, y: (x.to_sparse() - a).to_dense(),
    "beside a dense one": lambda a, x, y: x + a,
    "sum": lambda a, x, y: (torch.sparse.sum(a), a.sum()),
    "sums of rows": lambda a, x, y: (torch.sparse.sum(a, 1).to_dense(), torch.sparse.sum(a, -2).to_dense()),
    "softmax": lambda a, x, y: torch.sparse.softmax(a, 1).to_dense(),
    "logarithms": lambda a, x, y: torch.sparse.log_softmax(a, 0).to_dense(),
    "mask": lambda a, x, y: x.sparse_mask(a.coalesce()).to_dense(),
    "each number": lambda a, x, y: (torch.relu(a).to_dense(), (-a).to_dense(), a.double().to_dense()),
    "questions": lambda a, x, y: x + a.dim() + a.sparse_dim() + (1 if a.is_sparse else 5) + a.shape[0] + a.numel(),
}  # fmt: skip


def inputs(n: int, m: int, count: int, seed: int) -> tuple[Tensor, ...]:
    """A matrix of which half is 0, a dense factor, places of which some come twice, and their numbers."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(n, m, generator=draw) * (torch.rand(n, m, generator=draw) > 0.5)
    rows, columns = (torch.randint(0, max(size, 1), (count,), generator=draw) for size in (n, m))
    return x, torch.randn(m, 2, generator=draw), torch.stack([rows, columns]), torch.randn(count, generator=draw)


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("use", USES)
def test_what_is_computed_of_a_sparse_tensor_is_eagers(made: str, use: str) -> None:
    def model(*given: Tensor) -> Any:
        return USES[use](MADE[made](*given), given[0], given[1])

    sizes = ({0: "n", 1: "m"}, {0: "m"}, {1: "e"}, {0: "e"})
    program = irkit.to_onnx(model, inputs(4, 3, 6, 0), dynamic_shapes=sizes, capture="direct")
    for seed, (n, m, count) in enumerate([(4, 3, 6), (5, 7, 9), (2, 2, 3), (3, 4, 0), (1, 1, 2)], 1):
        given = inputs(n, m, count, seed)
        try:
            found = program(*given)
        except ContractError:  # where all hangs on places of which there are none
            assert count == 0
            continue
        torch.testing.assert_close(found, model(*given))


def test_places_beyond_an_axis_are_refused() -> None:
    """torch looks at them only where it is asked to, and writes beyond its memory elsewhere."""
    given = inputs(4, 3, 3, 0)
    program = irkit.to_onnx(lambda *each: of_places(*each).to_dense(), given, capture="direct")
    for wrong in ([[0, 1, 4], [0, 1, 2]], [[0, 1, -1], [0, 1, 2]], [[0, 1, 2], [0, 1, 3]]):
        with pytest.raises(ContractError, match="sparse"):
            program(*given[:2], torch.tensor(wrong), given[3])


def test_sizes_that_places_tell() -> None:
    def model(places: Tensor, numbers: Tensor) -> Tensor:
        return torch.sparse_coo_tensor(places, numbers).to_dense()

    program = irkit.to_onnx(model, inputs(4, 3, 6, 0)[2:], dynamic_shapes=({1: "e"}, {0: "e"}), capture="direct")
    for seed, count in enumerate((6, 2, 9)):
        given = inputs(5, 7, count, seed)[2:]
        torch.testing.assert_close(program(*given), model(*given))


def test_batches_and_rows_of_numbers() -> None:
    def model(x: Tensor, y: Tensor, places: Tensor, rows: Tensor) -> Any:
        batch = x.to_sparse()
        hybrid = torch.sparse_coo_tensor(places, rows, (7, rows.shape[1]))
        sums = torch.sparse.sum(batch, (0, 2)).to_dense()
        return torch.bmm(batch, y), sums, hybrid.to_dense(), hybrid.coalesce().values(), x.to_sparse(2).values()

    def drawn(b: int, n: int, m: int, e: int) -> tuple[Tensor, ...]:
        x = torch.stack([inputs(n, m, 0, seed)[0] for seed in range(b)])
        return x, torch.randn(b, m, 2), torch.randint(0, 7, (1, e)), torch.randn(e, m)

    sizes = ({0: "b", 1: "n", 2: "m"}, {0: "b", 1: "m"}, {1: "e"}, {0: "e", 1: "m"})
    program = irkit.to_onnx(model, drawn(2, 4, 3, 5), dynamic_shapes=sizes, capture="direct")
    for counts in ((2, 4, 3, 5), (3, 2, 5, 8), (1, 6, 2, 1)):
        given = drawn(*counts)
        torch.testing.assert_close(program(*given), model(*given))


class Layer(torch.nn.Module):
    """A layer of a network on a graph, with edges of its own beside those it is given."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = torch.nn.Linear(70, 70)
        self.own = (torch.rand(4, 4) > 0.6).float().to_sparse()

    def forward(self, edges: Tensor, x: Tensor) -> Tensor:
        return torch.relu((edges + self.own) @ self.linear(x)) + x


class Network(torch.nn.Module):
    """Layers that are given one sparse matrix, normed by its degrees."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(map(Layer, range(4)))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        matrix = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (4, 4)).coalesce()
        degrees = torch.sparse.sum(matrix, 1).to_dense().clamp(min=1)
        normed = matrix.values() / degrees[matrix.indices()[0]]
        matrix = torch.sparse_coo_tensor(matrix.indices(), normed, matrix.shape)
        for layer in self.layers:
            x = layer(matrix, x)
        return x


@pytest.mark.parametrize("trained", [False, True])
def test_layers_of_a_network_on_a_graph(trained: bool) -> None:
    network = Network()

    def step(x: Tensor, edges: Tensor) -> Any:
        loss = network(x, edges).square().mean()
        return (loss, *torch.autograd.grad(loss, list(network.parameters())))

    def drawn(count: int) -> tuple[Tensor, Tensor]:
        return torch.randn(4, 70), torch.randint(0, 4, (2, count))

    model: Any = step if trained else network
    program = irkit.to_onnx(model, drawn(6), dynamic_shapes=({}, {1: "e"}), capture="direct")
    for count in (6, 9, 1):
        given = drawn(count)
        torch.testing.assert_close(program(*given), model(*given), rtol=1e-4, atol=1e-4)


def test_gradients_reach_the_numbers_and_the_factor() -> None:
    def model(x: Tensor, y: Tensor, places: Tensor, numbers: Tensor) -> Any:
        numbers, y = numbers.detach().requires_grad_(), y.detach().requires_grad_()
        found = torch.sparse.mm(torch.sparse_coo_tensor(places, numbers, x.shape), y)
        return torch.autograd.grad(found.square().sum(), [numbers, y])

    def distinct(n: int, m: int, seed: int) -> tuple[Tensor, ...]:  # torch has no gradient of places that come twice
        x, y, _, _ = inputs(n, m, 0, seed)
        places = x.nonzero().t()
        return x, y, places, torch.randn(places.shape[1])

    sizes = ({0: "n", 1: "m"}, {0: "m"}, {1: "e"}, {0: "e"})
    program = irkit.to_onnx(model, distinct(4, 3, 0), dynamic_shapes=sizes, capture="direct")
    for seed, (n, m) in enumerate([(4, 3), (5, 7), (2, 3)], 1):
        given = distinct(n, m, seed)
        torch.testing.assert_close(program(*given), model(*given))


SUMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "product": lambda x, y: torch.sparse.mm(x.to_sparse(), y).square().sum(),
    "scaled": lambda x, y: torch.sparse.mm(x.to_sparse() * 2, y).square().sum(),
    "numbers": lambda x, y: x.to_sparse().values().square().sum() * y.sum(),
    "dense again": lambda x, y: (x.to_sparse().to_dense() @ y).square().sum(),
    "sums": lambda x, y: torch.sparse.sum(x.to_sparse(), 1).to_dense().square().sum() * y.sum(),
}


@pytest.mark.parametrize("name", SUMS)
def test_gradients_of_what_a_sparse_tensor_is_made_of(name: str) -> None:
    def model(x: Tensor, y: Tensor) -> Any:
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        return [each.to_dense() for each in torch.autograd.grad(SUMS[name](x, y), [x, y])]

    sizes = ({0: "n", 1: "m"}, {0: "m"})
    program = irkit.to_onnx(model, inputs(4, 3, 0, 0)[:2], dynamic_shapes=sizes, capture="direct")
    for seed, (n, m) in enumerate([(4, 3), (5, 7), (2, 3)], 1):
        given = inputs(n, m, 0, seed)[:2]
        torch.testing.assert_close(program(*given), model(*given))


def by_dense_slope(x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad((x.to_sparse() @ torch.ones(3, 2)).square().sum(), x)[0]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (by_dense_slope, "which torch computes of all of x, also where x is 0"),
        (lambda x: x.to_sparse(), "gives a sparse tensor that it computes"),
        (lambda x: x.to_sparse_csr() @ x.t(), "by rows or by columns"),
        (lambda x: torch.sparse_coo_tensor(x.nonzero().t(), x[x != 0], x.shape).values(), "please call .coalesce"),
    ],
)
def test_what_is_not_met_says_so(model: Callable[[Tensor], Any], said: str) -> None:
    with pytest.raises(CaptureError, match=said):
        irkit.to_onnx(model, (inputs(4, 3, 0, 0)[0],))
