"""Places that constants tell, and any along an axis of no element, are conditions on sizes, whoever uses the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import ContractError, IrkitError
from tests.fuzz.written_views import faults
from tests.support.draws import drawn

WAYS = ("direct", "torch.export")
Model = Callable[[torch.Tensor], Any]


def at(*places: int) -> torch.Tensor:
    """Places along a dimension."""
    return torch.tensor(places)


WRITES: dict[str, Model] = {
    "index_fill_": lambda t: t.index_fill_(0, at(0), 1.0),
    "index_fill_ of a part": lambda t: t[1:].index_fill_(0, at(0), 1.0),
    "index_fill_ of columns": lambda t: t.t().index_fill_(1, at(2), 1.0),
    "index_copy_": lambda t: t.index_copy_(0, at(2), torch.ones(1, 3)),
    "index_add_": lambda t: t.index_add_(0, at(2), torch.ones(1, 3)),
    "index_reduce_": lambda t: t.index_reduce_(0, at(2), torch.ones(1, 3), "amax"),
    "scatter_": lambda t: t.scatter_(0, at(2, 1).reshape(1, 2), 1.0),
    "scatter_add_": lambda t: t.scatter_add_(0, at(2, 1).reshape(1, 2), torch.ones(1, 2)),
    "scatter_reduce_": lambda t: t.scatter_reduce_(0, at(2, 1).reshape(1, 2), torch.ones(1, 2), "sum"),
    "index_put_": lambda t: t.index_put_((at(-3),), torch.tensor(1.0)),
    "a place put": lambda t: t.__setitem__((at(2), at(1)), 1.0),
    "put_": lambda t: t.put_(at(7), torch.ones(1)),
    "taken": lambda t: t.take(at(7)),
    "rows": lambda t: t[[2]],
    "rows and columns": lambda t: t[at(2), at(1)],
    "index_select": lambda t: t.index_select(0, at(2)),
    "gather": lambda t: t.gather(0, at(2, 1).reshape(1, 2)),
    "embedding": lambda t: torch.nn.functional.embedding(at(2), t),
}


def answer(function: Callable[..., Any], x: torch.Tensor) -> Any:
    """What a function or program gives; None where it refuses, a program by its contract."""
    try:
        return function(x.clone())
    except ContractError:
        return None
    except IrkitError:
        raise
    except Exception:  # torch refuses in every class of errors
        return None


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_place_that_is_not_there_is_refused_where_nothing_uses_the_result(write: Model, way: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        write(x * 1)
        return x * 2

    program = irkit.to_onnx(function, (torch.randn(6, 3),), dynamic_shapes=({0: "n"},), capture=way)
    for rows in range(5):
        x = torch.randn(rows, 3)
        expected, found = answer(function, x), answer(program, x)
        if rows == 0 and expected is not None:
            continue  # index_add_ asks nothing of nothing
        assert (found is None) == (expected is None), rows
        assert found is None or expected is None or torch.equal(found, expected)


@pytest.mark.parametrize("way", WAYS)
def test_a_place_that_data_tells_needs_an_element_where_there_are_places(way: str) -> None:
    def function(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        (x * 1).index_fill_(0, places, 1.0)
        return x * 2

    given = torch.randn(6, 3), at(1, 2)
    program = irkit.to_onnx(function, given, dynamic_shapes=({0: "n"}, {0: "k"}), capture=way)
    assert program(torch.randn(0, 3), torch.zeros(0, dtype=torch.int64)).shape == (0, 3)
    with pytest.raises(ContractError):
        program(torch.randn(0, 3), at(0))


@pytest.mark.parametrize("seed", drawn("views written in place", range(2000), 30))
def test_what_is_written_in_place_into_a_view_is_eagers(seed: int) -> None:
    assert not [*faults(seed, Counter())]


@pytest.mark.parametrize("way", WAYS)
def test_places_of_which_there_are_none_where_the_axis_has_none_ask_nothing(way: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(x.shape[0])
        return x[rows] + x[rows[:, None].expand(-1, 2).reshape(-1)].view(x.shape[0], 2, 3).sum(1) + x[rows.flip(0)]

    program = irkit.to_onnx(function, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture=way)
    assert not [text for text, _ in program.report.guards if "n >= 1" in text]
    for count in (0, 1, 6):
        x = torch.randn(count, 3)
        torch.testing.assert_close(program(x), function(x))
