"""Places below 0 and beyond the end: where eager torch refuses them the program and its file do, where it counts from
the end they do, too. By both ways of capture, for places that are an input as it is, and for computed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
import torch
import torch.nn.functional as F

import irkit
from irkit.errors import ContractError, EvaluateError

Model = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

AS_ROWS: dict[str, Model] = {
    "gather": lambda x, i: x.gather(1, i),
    "scatter": lambda x, i: x.scatter(1, i, torch.ones_like(i) * 2.5),
    "scatter a number": lambda x, i: x.scatter(1, i, 2.5),
    "scatter and add": lambda x, i: x.scatter_add(1, i, torch.ones_like(i) * 2.5),
    "scatter_reduce amax": lambda x, i: x.scatter_reduce(1, i, torch.ones_like(i) * 2.5, "amax"),
    "scatter_reduce mean": lambda x, i: x.scatter_reduce(1, i, torch.ones_like(i) * 2.5, "mean", include_self=False),
    "take_along_dim of all": lambda x, i: x[:1].take_along_dim(i),
    "max_unpool1d": lambda x, i: F.max_unpool1d(torch.ones_like(i, dtype=x.dtype), i, [2], output_size=x.shape[1:]),
}
AS_VECTOR: dict[str, Model] = {
    "embedding": lambda x, i: F.embedding(i, x.t()),
    "embedding of a norm": lambda x, i: F.embedding(i, x.t().clone(), max_norm=0.5),
    "embedding_bag": lambda x, i: F.embedding_bag(i[None], x.t()),
    "index_select": lambda x, i: x.index_select(1, i),
    "index_select of a scalar": lambda x, i: x[0, 0].index_select(0, i[:1] - 3),
    "index_add": lambda x, i: x.index_add(1, i, x[:, :1] * torch.ones_like(i)),
    "index_add to rows": lambda x, i: x.t().index_add(0, i, (x[:, :1] * torch.ones_like(i)).t()),
    "index_copy": lambda x, i: x.index_copy(1, i, x[:, :1] * torch.ones_like(i)),
    "index_reduce": lambda x, i: x.index_reduce(1, i, x[:, :1] * torch.ones_like(i), "amax"),
    "index_fill": lambda x, i: x.index_fill(1, i, 2.5),
    "index": lambda x, i: x[:, i],
    "index_put": lambda x, i: x.index_put((torch.zeros_like(i), i), x[0, 0]),
    "take": lambda x, i: x.take(i),
    "put": lambda x, i: x.put(i, x[0, :1] * torch.ones_like(i)),
}


def answer(model: Callable[..., Any], *args: Any) -> torch.Tensor | None:
    """What a model gives, None where it refuses."""
    try:
        return model(*args).float()
    except (ContractError, EvaluateError, IndexError, RuntimeError):
        return None


def require_equal(found: torch.Tensor | None, wanted: torch.Tensor | None, what: str) -> None:
    """Both refuse, or both give the same."""
    assert (found is None) == (wanted is None), f"{what}: torch gives {wanted}, irkit {found}"
    if found is not None:
        torch.testing.assert_close(found, wanted, msg=what)


def of_file(path: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A file as a model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)

    def run(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        feeds = dict(zip((each.name for each in session.get_inputs()), (x.numpy(), i.numpy()), strict=False))
        try:
            return torch.from_numpy(session.run(None, feeds)[0])
        except Exception as error:  # ONNX Runtime's own classes have no common base
            raise RuntimeError(str(error)) from error

    return run


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("varies", [True, False], ids=["any size", "one size"])
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", [*AS_ROWS, *AS_VECTOR])
def test_places_out_of_range_are_refused_where_eager_refuses_them(
    name: str, capture: str, varies: bool, tmp_path: Any
) -> None:
    model = AS_ROWS.get(name) or AS_VECTOR[name]
    shape = (2, 2) if name in AS_ROWS else (2,)
    x = torch.arange(6.0).reshape(2, 3)

    def computed(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return model(x, i + 3)

    for each, shift in ((model, 0), (computed, 3)):
        example = torch.full(shape, 1 - shift if "of a scalar" not in name else 3 - shift)
        sizes = ({1: "n"}, {len(shape) - 1: "k"}) if varies else None
        if "of a scalar" in name:
            sizes = None
        program = irkit.to_onnx(each, (x, example), dynamic_shapes=sizes, capture=capture)
        file = of_file(program.save(tmp_path / "whole.onnx", conditions="all"))
        for other in (x, torch.arange(8.0).reshape(2, 4)) if sizes else (x,):
            n = other.shape[1]
            for place in (0, n - 1, n, 2 * n, -1, -n, -n - 1):
                i = torch.full(shape, 0)
                i[..., -1] = place
                i = i - shift
                wanted = answer(each, other.clone(), i)
                require_equal(answer(program, other.clone(), i), wanted, f"{name} of {place}")
                require_equal(answer(file, other, i), wanted, f"the file of {name} of {place}")


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_the_least_number_of_an_input_is_part_of_its_contract_and_costs_the_file_nothing(capture: str) -> None:
    table = torch.nn.Embedding(5, 3)
    ids = torch.tensor([[0, 4]])
    program = irkit.to_onnx(table, (ids,), dynamic_shapes=({0: "batch", 1: "seq"},), capture=capture)
    (entry,) = program.contract()["least"]
    assert (entry["input"], entry["least"]) == (program.contract()["inputs"][0]["name"], 0)
    assert [value.op for value in program.ready.order if value.op not in ("Param", "Constant")] == ["Gather"]
    bound = program.bound()
    assert torch.equal(bound(ids), table(ids))
    assert program(ids[:, :0]).shape == bound(ids[:, :0]).shape == (1, 0, 3)
    assert torch.equal(bound(ids[:, :1]), table(ids[:, :1]))
    for each in (program, bound):
        for below in ([[0, -1]], [[-1]]):
            with pytest.raises(ContractError, match="holds -1, and the model looks up places from 0 on"):
                each(torch.tensor(below))


def test_take_along_dim_counts_places_below_zero_from_the_end() -> None:
    program = irkit.to_onnx(
        lambda x, i: x.take_along_dim(i, 1), (torch.randn(2, 3), torch.tensor([[0, 1]])),
        dynamic_shapes=({1: "n"}, {1: "k"}),
    )  # fmt: skip
    x, i = torch.randn(2, 5), torch.tensor([[-1, 4, -5, 0]])
    assert torch.equal(program(x, i), x.take_along_dim(i, 1))


def test_an_input_that_is_only_looked_at_in_part_is_no_condition() -> None:
    def shifted(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x.index_select(0, i[1:])

    program = irkit.to_onnx(shifted, (torch.randn(4), torch.tensor([1, 2])), dynamic_shapes=({0: "n"}, {0: "k"}))
    x = torch.randn(5)
    assert torch.equal(program(x, torch.tensor([-100, 3])), x[3:4])
    assert answer(program, x, torch.tensor([0, -1])) is None
    assert program.contract()["least"] == []


def test_places_that_cannot_be_below_zero_are_not_looked_at() -> None:
    def counted(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        order = x.argsort(1)
        places = (mask.ne(0).int().cumsum(1) - 1).clamp(min=0) + torch.arange(x.shape[1]) // 2
        best = x.topk(1).indices + x.argmax(1, keepdim=True)
        return x.gather(1, order) + x.gather(1, (places % x.shape[1])) + x.gather(1, best % 3)

    x = torch.randn(2, 5)
    program = irkit.to_onnx(counted, (x, torch.ones(2, 5)), dynamic_shapes=({1: "n"}, {1: "n"}))
    assert "BitwiseAnd" not in {value.op for value in program.ready.order}
    assert program.contract()["least"] == []
    x = torch.randn(2, 7)
    torch.testing.assert_close(program(x, torch.ones(2, 7)), counted(x, torch.ones(2, 7)))


def test_places_carried_through_a_loop_are_refused_below_zero() -> None:
    def walk(x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        def body(place: torch.Tensor, found: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return place - 1, found + x.index_select(0, place).sum()

        return torch.while_loop(lambda place, found: found < 10, body, (start, x.sum() * 0))[1]

    x, start = torch.tensor([4.0, 5.0, 3.0]), torch.tensor([2])
    program = irkit.to_onnx(walk, (x, start))
    assert torch.equal(program(x, start), walk(x, start))
    low = torch.tensor([1.0, 1.0, 1.0])
    assert answer(walk, low, start) is None
    assert answer(program, low, start) is None


def test_a_graph_read_from_its_text_knows_the_least_number() -> None:
    program = irkit.to_onnx(torch.nn.Embedding(5, 3), (torch.tensor([1]),), dynamic_shapes=({0: "n"},))
    again = irkit.parse(str(program.graph))
    assert irkit.contract_of(again)["least"] == program.contract()["least"]
