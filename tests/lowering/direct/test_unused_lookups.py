"""Places that are looked up for a result that nothing uses: eager refuses those that are not there, and so does the
program."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import irkit

X, PLACES = torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1])


def taken(x: torch.Tensor, i: torch.Tensor) -> Any:
    return x[i]


def selected(x: torch.Tensor, i: torch.Tensor) -> Any:
    return x.index_select(0, i)


def embedded(x: torch.Tensor, i: torch.Tensor) -> Any:
    return functional.embedding(i, x)


def bagged(x: torch.Tensor, i: torch.Tensor) -> Any:
    return functional.embedding_bag(i[None], x)


def gathered(x: torch.Tensor, i: torch.Tensor) -> Any:
    return x.gather(0, i[:, None])


def taken_of_all(x: torch.Tensor, i: torch.Tensor) -> Any:
    return x.take(i * 3)


def scattered(x: torch.Tensor, i: torch.Tensor) -> Any:
    return x.scatter(0, i[:, None], 1.0)


def added(x: torch.Tensor, i: torch.Tensor) -> Any:
    return x.index_add(0, i, x[:2])


def filled(x: torch.Tensor, i: torch.Tensor) -> Any:
    return x.index_fill(0, i, 2.0)


def put(x: torch.Tensor, i: torch.Tensor) -> Any:
    return x.index_put((i,), torch.tensor(2.0))


def pair_of_places(x: torch.Tensor, i: torch.Tensor) -> Any:
    return x[i, i - 1]


def written(x: torch.Tensor, i: torch.Tensor) -> Any:
    y = x.clone()
    y[:, 1:][i] = 0
    return y


LOOKING = [
    taken, selected, embedded, bagged, gathered, taken_of_all, scattered, added, filled, put, pair_of_places, written,
]  # fmt: skip


def agree(model: Callable[..., Any], program: Any, given: tuple[torch.Tensor, ...]) -> bool:
    """Whether both refuse, or give the same numbers; True where both answered."""
    try:
        expected = model(*(each.clone() for each in given))
    except (IndexError, RuntimeError):
        with pytest.raises(irkit.errors.IrkitError):
            program(*given)
        return False
    assert torch.equal(program(*given), expected)
    return True


@pytest.mark.parametrize("look", LOOKING)
def test_places_that_are_not_there_are_refused_where_nothing_uses_what_is_found(look: Callable[..., Any]) -> None:
    def model(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        look(x, i)
        return x + 1

    program = irkit.to_onnx(model, (X, PLACES), dynamic_shapes=({0: "n"}, None), capture="direct")
    answered = [agree(model, program, (X, torch.tensor(places))) for places in ([1, 2], [0, 4], [-1, 0], [-5, 0])]
    assert answered[0] and answered.count(False) >= 2
    with pytest.raises(irkit.ContractError, match="looks up are there") as refused:
        program(X, torch.tensor([9, 9]))
    assert "in your model" in str(refused.value)


@pytest.mark.parametrize("look", LOOKING)
def test_nothing_is_asked_where_what_is_found_is_used(look: Callable[..., Any]) -> None:
    program = irkit.to_onnx(look, (X, PLACES), dynamic_shapes=({0: "n"}, None), capture="direct")
    assert not program.contract()["checks"]
    agree(look, program, (X, torch.tensor([4, 0])))


def test_as_many_places_as_another_tensor_is_long_are_there_where_it_is_no_longer() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[torch.arange(y.shape[0])]
        return x + 1

    program = irkit.to_onnx(model, (X, torch.zeros(3)), dynamic_shapes=({0: "n"}, {0: "m"}), capture="direct")
    answered = {(n, m): agree(model, program, (torch.ones(n, 3), torch.ones(m))) for n in range(4) for m in range(5)}
    assert answered == {(n, m): m <= n for n, m in answered}


@pytest.mark.parametrize(
    "look",
    [
        lambda x, i: x[torch.arange(x.shape[0])],
        lambda x, i: x[x > 3],
        lambda x, i: x.new_zeros(8)[i.clamp(0, 7)],
        lambda x, i: (x[i] + x[i])[0],
    ],
)
def test_nothing_is_asked_where_places_are_there_whatever_the_data_holds(look: Callable[..., Any]) -> None:
    def model(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        look(x, i)
        return x[i]

    program = irkit.to_onnx(model, (X, PLACES), dynamic_shapes=({0: "n"}, None), capture="direct")
    assert not program.contract()["checks"]


class Layer(torch.nn.Module):
    """Looks up what it does not use, or what the model does not."""

    def __init__(self, returns: bool) -> None:
        super().__init__()
        self.linear, self.returns = torch.nn.Linear(3, 3), returns

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
        found = x[i]
        return (self.linear(x), found) if self.returns else self.linear(x)


class Layers(torch.nn.Module):
    def __init__(self, returns: bool) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(returns) for _ in range(4)])

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            made = layer(x, i + number)
            x = made[0] if isinstance(made, tuple) else made
        return x


@pytest.mark.parametrize("returns", [False, True])
def test_each_of_equal_layers_is_asked_for_the_places_that_it_looks_up(returns: bool) -> None:
    model = Layers(returns).eval()
    x = torch.arange(18.0).reshape(6, 3)
    program = irkit.to_onnx(model, (x, PLACES), dynamic_shapes=({0: "n"}, None), capture="direct")
    torch.testing.assert_close(program(x, torch.tensor([2, 1])), model(x, torch.tensor([2, 1])))
    for places in ([3, 0], [0, -8]):  # the last layer alone, or the first, refuses these
        with pytest.raises(IndexError):
            model(x, torch.tensor(places))
        with pytest.raises(irkit.ContractError):
            program(x, torch.tensor(places))


def test_places_are_asked_for_in_the_branch_that_is_taken() -> None:
    def model(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x[i]
            return x + 1
        return x - 1

    program = irkit.to_onnx(model, (X, PLACES), dynamic_shapes=({0: "n"}, None), capture="direct", rewrite=True)
    beyond = torch.tensor([4, 0])
    assert agree(model, program, (X, PLACES)) and not agree(model, program, (X, beyond))
    assert agree(model, program, (-X, beyond))
