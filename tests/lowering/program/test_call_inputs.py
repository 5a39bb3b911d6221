"""Calls of a program, and of a session, with what the model does not take: each is refused in words that help."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from irkit import ContractError, to_onnx

X, A, K = torch.ones(5, 4), torch.ones(3), torch.ones(())


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: Any, d: Any, k: Any = None, n: int = 2) -> Any:
        return {"y": self.linear(x) * n + d["a"], "k": k * 2}


@cache
def program() -> Any:
    """A model of a tensor, a dict of tensors, and a tensor of rank 0."""
    return to_onnx(Model().eval(), (X, {"a": A}, K), dynamic_shapes={"x": {0: "b"}, "d": {"a": None}, "k": None})


def arrays(**others: Any) -> dict[str, Any]:
    """What a session of the program is fed, with some of it replaced; None leaves one out."""
    given = {"x": X.numpy(), "d.a": A.numpy(), "k": K.numpy(), **others}
    return {name: array for name, array in given.items() if array is not None}


def called(*args: Any, **kwargs: Any) -> Callable[[], Any]:
    return lambda: program()(*args, **kwargs)


def fed(feeds: Any = None, **others: Any) -> Callable[[], Any]:
    return lambda: program().session.run(arrays(**others) if feeds is None else feeds)


D = {"a": A}
REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "another element type": (called(X.double(), D, K), "x is torch.float64, and the model takes f32", "torch.float32"),
    "ints": (called(X.long(), D, K), "x is torch.int64, and the model takes f32", "torch.float32"),
    "no content": (called(X.to("meta"), D, K), "x is on the meta device and has no numbers", "that has"),
    "an array": (
        called(X.double().numpy(), D, K), "x is a numpy array of float64[5, 4], and the model takes a tensor f32[b, 4]",
        "torch.from_numpy(array).to(torch.float32)",
    ),
    "an array inside": (called(X, {"a": A.numpy()}, K), "d.a is a numpy array of float32[3]", "torch.from_numpy"),
    "a number of numpy": (called(X, D, np.float32(3)), "k is a numpy number of float32", "torch.tensor(number)"),
    "a rank": (called(X[None], D, K), "x has 3 dimensions, and must be a f32[b, 4]", "that form"),
    "a size": (called(X[:, :3], D, K), "dimension 1 of x is 3, and must be 4", "dynamic_shapes"),
    "one too few": (called(X, D), "the call lacks 'k'", "x, d, k"),
    "none": (called(), "the call lacks 'x'", "x, d, k"),
    "too many": (called(X, D, K, 2, 5), "the call has 5 positional arguments, and the model takes", "x, d, k"),
    "another name": (called(X, D, K, n=3), "the call has 'n'", "capture it with all"),
    "twice": (called(X, D, K, x=X), "the call has two values for 'x'", "once"),
    "another structure": (called(X, [A], K), "d is a list, and was a dict", "the same structure"),
    "another key": (called(X, {"b": A}, K), "it has b too and it lacks a", "the same structure"),
    "a tensor for a dict": (called(X, A, K), "d is a single value, and was a dict", "the same structure"),
    "a list for a tensor": (called([[1.0, 2.0]], D, K), "x is a list, and was a single value", "the same structure"),
    "None": (called(None, D, K), "x is None, and the model takes a tensor f32[b, 4]", "None in its place"),
    "an int": (called(3, D, K), "x is the number 3, and the model takes a tensor f32[b, 4]", "give a tensor"),
    "an int for rank 0": (called(X, D, 3), "k is the number 3, and the model takes a tensor f32[]", "give a tensor"),
    "a bool": (called(X, D, True), "k is the number True, and the model takes a tensor f32[]", "give a tensor"),
    "a text": (called("x", D, K), "x is a str, and the model takes a tensor f32[b, 4]", ""),
    "a dict for all": (lambda: program().run({"x": X}), "args is a dict, and must be a tuple", "(x,)"),
    "fed another type": (
        fed(x=np.ones((5, 4))), "x is f64[5, 4], and the model takes f32[b, 4]", "float32, by .astype"
    ),
    "fed another rank": (fed(x=np.ones(4, "f4")), "x is f32[4], and the model takes f32[b, 4]", "that form"),
    "fed another size": (fed(x=np.ones((5, 3), "f4")), "x is f32[5, 3], and the model takes f32[b, 4]", "that form"),
    "fed less": (fed(k=None), "the feeds lack 'k'", "x, d.a, k"),
    "fed more": (fed(z=A.numpy()), "the feeds have 'z', which is not an input", "x, d.a, k"),
    "fed fewer in order": (fed([X.numpy()]), "the feeds lack 'd.a'", "x, d.a, k"),
    "fed more in order": (fed([*arrays().values(), X.numpy()]), "a model of 3 inputs is fed 4 arrays", "x, d.a, k"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_model_does_not_take_is_refused_with_what_to_give(case: str) -> None:
    call, what, hint = REFUSED[case]
    with pytest.raises(ContractError) as caught:
        call()
    assert what in caught.value.what and hint in caught.value.hint


@pytest.mark.parametrize("layout", ["empty", "turned", "sparse", "parameter"])
def test_tensors_of_any_layout_are_taken(layout: str) -> None:
    x = {"empty": X[:0], "turned": torch.rand(4, 5).T, "sparse": X.to_sparse(), "parameter": torch.nn.Parameter(X)}[
        layout
    ]
    model = torch.nn.Linear(4, 3)
    found = to_onnx(model, (X,), dynamic_shapes=({0: "b"},))(x)
    torch.testing.assert_close(found, model(x.detach().to_dense()), rtol=1e-5, atol=1e-5)


def test_a_session_takes_arrays_by_name_and_in_order() -> None:
    by_name, in_order = program().session.run(arrays()), program().session.run(list(arrays().values()))
    for a, b in zip(by_name, in_order, strict=True):
        np.testing.assert_array_equal(a, b)
