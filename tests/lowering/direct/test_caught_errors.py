"""Models that catch what an operator raises: they go on as in eager only where nothing else could have been raised."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import irkit

Model = Callable[[torch.Tensor], Any]
ROWS = ({0: "n"},)


def guarded(model: Model, *errors: type[Exception]) -> Model:
    """The model, or its input doubled where that raises."""

    def tried(x: torch.Tensor) -> Any:
        try:
            return model(x)
        except errors:
            return x * 2

    return tried


CAUGHT: dict[str, Model] = {
    "places": guarded(lambda x: x[[0, 5]], IndexError),
    "a row": guarded(lambda x: x[5], IndexError),
    "a product": guarded(lambda x: x.t() @ torch.ones(5, 2), RuntimeError),
    "a sum": guarded(lambda x: x + torch.ones(5, 3), RuntimeError),
    "a join": guarded(lambda x: torch.cat([x, torch.ones(5, 1)], 1), RuntimeError),
    "a stack": guarded(lambda x: torch.stack([x, torch.ones(5, 3)]), RuntimeError),
    "parts": guarded(lambda x: x.split([2, 3])[1], RuntimeError),
    "a view": guarded(lambda x: x.view(5, 3), RuntimeError),
    "a view of halves": guarded(lambda x: x.view(5, -1), Exception),
    "a narrow part": guarded(lambda x: x.narrow(0, 0, 5), RuntimeError, IndexError),
    "expanded": guarded(lambda x: x.expand(5, 3), RuntimeError),
    "zeros": guarded(lambda x: torch.zeros(x.shape[0] - 5, 3), RuntimeError),
    "unpacked": guarded(lambda x: sum(x.unbind(0), start=torch.zeros(5 // (x.shape[0] - 4))), ZeroDivisionError),
    "a remainder": guarded(lambda x: x * (7 % (x.shape[0] - 4)), ArithmeticError),
    "an assertion": guarded(lambda x: F.assert_rows(x), AssertionError),
}


class F:
    """Functions that assert."""

    @staticmethod
    def assert_rows(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[0] >= 5, "five rows at least"
        return x


@pytest.mark.parametrize("name", CAUGHT)
@pytest.mark.parametrize("capture", ["direct", "auto", "torch.export"])
def test_a_program_of_a_model_that_catches_an_error_is_right_or_refuses(name: str, capture: Any) -> None:
    model = CAUGHT[name]
    try:
        program = irkit.to_onnx(model, (torch.randn(4, 3),), dynamic_shapes=ROWS, capture=capture)
    except irkit.IrkitError:
        return
    for rows in (4, 5, 0, 1, 2, 3, 6, 7, 10):
        x = torch.randn(rows, 3)
        try:
            found = program(x)
        except (irkit.ContractError, irkit.EvaluateError):  # a runtime refuses places beyond the end itself
            continue
        torch.testing.assert_close(found, model(x))


def test_what_torch_refuses_of_the_example_and_the_model_catches_is_told() -> None:
    with pytest.raises(irkit.CaptureError, match="goes on where torch refuses an operator: IndexError") as told:
        irkit.to_onnx(CAUGHT["places"], (torch.randn(4, 3),), dynamic_shapes=ROWS, capture="direct")
    assert "ask for the sizes or numbers before" in str(told.value)
    program = irkit.to_onnx(CAUGHT["places"], (x := torch.randn(4, 3),), capture="direct")
    assert program(x).equal(x * 2)  # sizes that do not vary raise it in each call


def guarded_sum(compute: Model) -> Model:
    def model(x: torch.Tensor) -> torch.Tensor:
        try:
            return compute(x)
        except Exception:
            return x * 0

    return model


def slope_through_rounds(x: torch.Tensor) -> torch.Tensor:
    w = torch.ones(3, requires_grad=True)
    h, found = torch.zeros(3), torch.zeros(3)
    for i in range(x.shape[0]):
        h = torch.tanh(h * w + x[i])
        found = found + torch.autograd.grad(h.sum(), w, retain_graph=True)[0]
    return found


def set_twice(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    first = y[:1]
    y.data = x
    return y + first


OWN: dict[str, tuple[Model, str]] = {
    "by rows": (lambda x: (x.to_sparse_csr() @ x.t()).sum(0), "by rows or by columns"),
    "an operator": (lambda x: torch.cat([x.to_sparse()] * 2).to_dense(), "aten.cat.default of a sparse tensor"),
    "memory": (set_twice, "share the memory of another"),
    "rounds": (slope_through_rounds, "goes back through what was before"),
}


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("how", [{}, {"capture": "direct"}])
def test_an_error_of_irkits_own_is_no_answer_to_a_model_that_catches_all(name: str, how: Any) -> None:
    compute, said = OWN[name]
    with pytest.raises(irkit.IrkitError, match=said):
        irkit.to_onnx(guarded_sum(compute), (torch.randn(4, 3),), dynamic_shapes=ROWS, rewrite=[compute], **how)


ASKED_OF_DATA: dict[str, Model] = {
    "a number": guarded(lambda x: x + 1 if x.sum().item() > 3 else x - 1, Exception),
    "a tensor": guarded(lambda x: x + 1 if x.sum() > 3 else x - 1, Exception),
    "rounds": guarded(lambda x: x + 7 * len(list(range(int(x.abs().max().long().item())))), Exception),
    "rows": guarded(lambda x: x[: int(x.abs().max())], Exception),
}


@pytest.mark.parametrize("name", ASKED_OF_DATA)
@pytest.mark.parametrize("capture", ["direct", "auto", "torch.export"])
def test_what_eager_answers_of_data_is_no_error_that_a_model_catches(name: str, capture: Any) -> None:
    model = ASKED_OF_DATA[name]
    try:
        program = irkit.to_onnx(model, (torch.ones(4, 3),), dynamic_shapes=ROWS, capture=capture)
    except irkit.IrkitError:
        return
    for scale in (1, -3, 5, 1.5):
        x = torch.full((4, 3), float(scale))
        try:
            found = program(x)
        except (irkit.ContractError, irkit.EvaluateError):
            continue
        torch.testing.assert_close(found, model(x))


OF_CONTENT: dict[str, Callable[[torch.Tensor], Any]] = {
    "writes": lambda x: x._version, "capsule": lambda x: x.__dlpack__(), "array": lambda x: x.numpy() is None,
    "array of NumPy's": np.asarray, "file": lambda x: x.numpy().tofile("/dev/null"), "address": lambda x: x.data_ptr(),
    "__array__": lambda x: x.__array__(), "storage": lambda x: x.untyped_storage(), "text": lambda x: f"{x.sum():.2f}",
    "shared": lambda x: x.share_memory_(), "copy": copy.deepcopy, "list": lambda x: x.tolist(),
    "hash": lambda x: hash(x.shape[0]), "keys": lambda x: {x.shape[0]: 1}, "members": lambda x: {x.shape[0]},
    "root": lambda x: math.sqrt(float(x.sum())),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_CONTENT)
@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_that_tensors_have_no_memory_is_nothing_that_a_model_may_catch(name: str, dynamic: bool, capture: Any) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        try:
            OF_CONTENT[name](x * 1)
        except Exception:
            return x + 100
        return x - 1

    shapes = ROWS if dynamic else None
    try:
        program = irkit.to_onnx(model, (torch.ones(4, 3),), dynamic_shapes=shapes, capture=capture)
    except irkit.IrkitError:
        return
    torch.testing.assert_close(program(torch.ones(4, 3)), torch.zeros(4, 3))


OF_NO_SIZE: dict[str, Model] = {
    "an attribute": guarded(lambda x: getattr(x, "no_such_attribute"), AttributeError),  # noqa: B009  (the type checker knows better)
    "a key": guarded(lambda x: x + {"a": 1}["b"], KeyError),
    "an import": guarded(lambda x: __import__("no_such_module").run(x), ImportError),
    "an end": guarded(lambda x: x + next(iter(())), StopIteration),
    "asked for": lambda x: x * (3 if hasattr(x, "no_such_attribute") else 2),
}


@pytest.mark.parametrize("name", OF_NO_SIZE)
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_errors_that_no_size_decides_are_caught_as_in_eager(name: str, capture: Any) -> None:
    program = irkit.to_onnx(OF_NO_SIZE[name], (torch.randn(4, 3),), dynamic_shapes=ROWS, capture=capture)
    for rows in (0, 1, 4, 7):
        assert program(x := torch.randn(rows, 3)).equal(x * 2)
