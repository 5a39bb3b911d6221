"""Arguments that eager refuses whatever the tensors hold, and that no shape tells: export refuses them, too."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from irkit.core.types import DType
from irkit.doors.to_onnx import to_onnx
from irkit.errors import IrkitError
from lowering.fold.refused_arguments import is_too_large
from tests.support.draws import drawn

pytestmark = pytest.mark.filterwarnings("ignore")

X, MASK = torch.randn(2, 3), torch.rand(2, 3) > 0.5
LABELS = torch.tensor([0, 1])
REFUSED: tuple[tuple[str, Callable[..., Any], tuple[Tensor, ...]], ...] = (
    ("clamp without bounds", lambda x: x.clamp(), (X,)),
    ("softmax along no dimension", lambda x: x.softmax(5), (X,)),
    ("a product of two types", lambda x, y: x @ y, (X, X.t().double())),
    ("a linear layer of two types", F.linear, (X, X.double())),
    ("a difference of masks", lambda x: x - x, (MASK,)),
    ("less a truth", lambda x: x - (x.shape[0] > 1), (X,)),
    ("a factor that is a truth", lambda x: x.add(x, alpha=True), (X,)),
    ("a mask of floats", lambda x, mask: x.masked_fill(mask, 0.0), (X, MASK.float())),
    ("a mask of numbers", lambda x, mask: x.masked_scatter(mask, x), (X, MASK.to(torch.uint8))),
    ("a choice by floats", lambda x, mask: torch.where(mask, x, -x), (X, MASK.float())),
    ("a rounding mode that is none", lambda x: torch.div(x, 2, rounding_mode="up"), (X,)),
    ("a number beyond float16", lambda x, mask: x.masked_fill(mask, 1e6), (X.half(), MASK)),
    ("a number beyond uint8", lambda x, mask: x.masked_fill(mask, 300), (X.to(torch.uint8), MASK)),
    ("a complex number", lambda x, mask: x.masked_fill(mask, 1j), (X, MASK)),
    ("labels of int32", F.cross_entropy, (X, LABELS.int())),
    ("a variance of integers", lambda x: x.var(), (LABELS,)),
    ("the greatest of masks", lambda x: x.topk(1), (MASK,)),
    ("the place of the greatest of masks", lambda x: x.argmax(1), (MASK,)),
    ("a width below 0", lambda x: F.softshrink(x, -0.5), (X,)),
    ("padding below 0", lambda x: F.conv3d(x, x, padding=-1), (torch.randn(1, 1, 4, 4, 4),)),
    ("output padded by a step", lambda x: F.conv_transpose1d(x, x, output_padding=2), (torch.randn(1, 1, 4),)),
    ("no draws", lambda x: torch.multinomial(x, 0), (X.abs(),)),
    ("a table of boundaries", torch.bucketize, (X, X)),
    ("rows added of another type", lambda x, i, y: x.index_add(0, i, y), (X, LABELS, X.double())),
)


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize(("name", "model", "args"), REFUSED, ids=[name for name, _, _ in REFUSED])
def test_what_eager_refuses_by_its_arguments_is_refused(name: str, model: Any, args: Any, capture: Any) -> None:
    with pytest.raises((RuntimeError, IndexError)):
        model(*args)
    with pytest.raises(IrkitError):
        to_onnx(model, args, capture=capture)


SIZES_TELL: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("a difference", lambda x: x - (x.shape[0] > 3)),
    ("a difference from it", lambda x: (x.shape[0] > 3) - x),
    ("a factor", lambda x: x.add(x, alpha=x.shape[0] > 3)),
)


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize(("name", "model"), SIZES_TELL, ids=[name for name, _ in SIZES_TELL])
def test_a_truth_that_sizes_tell_is_refused_where_eager_does(name: str, model: Any, capture: Any) -> None:
    with pytest.raises(RuntimeError):
        model(X)
    with pytest.raises(IrkitError):
        to_onnx(model, (X,), dynamic_shapes=({0: "n"},), capture=capture)


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_a_truth_that_sizes_tell_is_computed_with(capture: Any) -> None:
    def model(x: Tensor) -> Any:
        n = x.shape[0]
        known = (n > 3) & (n < 9)
        return x * (n > 3), x.float() + (n == 5), x + (0.1 * n > 0.5) + n, torch.add(x, x, alpha=n), x + known

    program = to_onnx(model, (torch.arange(5),), dynamic_shapes=({0: "n"},), capture=capture)
    for size in (5, 3, 9, 1, 0):
        for found, expected in zip(program(torch.arange(size)), model(torch.arange(size)), strict=True):
            torch.testing.assert_close(found, expected)


def test_numbers_that_an_element_type_holds_are_taken() -> None:
    taken = (
        (1e30, DType.FLOAT), (float("inf"), DType.FLOAT16), (65504, DType.FLOAT16), (-1, DType.UINT8),
        (-255, DType.UINT8), (127, DType.INT8), (2.5, DType.INT8), (2, DType.BOOL), (complex(1, 0), DType.FLOAT),
    )  # fmt: skip
    assert not [each for each in taken if is_too_large(*each)]
    for number, dtype in taken[:-1]:
        kind = {DType.FLOAT: torch.float32, DType.FLOAT16: torch.float16, DType.UINT8: torch.uint8}.get(
            dtype, torch.int8
        )
        torch.zeros(2, dtype=kind).masked_fill(torch.tensor([True, False]), number)


# ---------------------------------------------------------------------------------------------- torch's own

ANSWERED = frozenset((("complex", 2), ("aminmax", 3), ("multinomial", 2)))
"""`out` of an element type that torch casts to elsewhere."""
WITH_ERRORS = {info.full_name: info for info in op_db if info.error_inputs_func is not None}


def errors_of(info: Any) -> list[tuple[Callable[..., Any], list[Tensor]]]:
    """(function, tensors) for each call of an operator that torch's database says is refused, and eager refuses."""
    found = []
    for at, error in enumerate(info.error_inputs("cpu")):
        sample = error.sample_input
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [i for i, each in enumerate(leaves) if isinstance(each, Tensor)]

        def call(*tensors: Tensor, leaves: Any = leaves, spec: Any = spec, places: Any = places) -> Any:
            given = dict(enumerate(leaves)) | dict(zip(places, tensors, strict=True))
            first, args, kwargs = pytree.tree_unflatten([given[i] for i in range(len(leaves))], spec)
            return info.op(first, *args, **kwargs)

        tensors = [leaves[i].detach() for i in places]
        if (info.name, at) not in ANSWERED and is_refused(lambda call=call, tensors=tensors: call(*copies(tensors))):
            found.append((call, tensors))
    return found


def copies(tensors: list[Tensor]) -> list[Tensor]:
    """Tensors of their own, but for those whose elements share their memory."""
    return [each.clone() if each.layout is torch.strided and 0 not in each.stride() else each for each in tensors]


def is_refused(call: Callable[[], Any]) -> bool:
    """Whether a call raises."""
    try:
        call()
    except Exception:
        return True
    return False


@pytest.mark.parametrize(
    "name", drawn("error inputs", sorted(WITH_ERRORS), 30, ["masked_fill", "nn.functional.conv3d"])
)
def test_what_torchs_database_says_is_refused_is_refused(name: str) -> None:
    for call, tensors in errors_of(WITH_ERRORS[name]):

        def exported(call: Any = call, tensors: Any = tensors) -> Any:
            with warnings.catch_warnings(action="ignore"):
                return to_onnx(call, tuple(copies(tensors)), capture="direct", widen=False)(*copies(tensors))

        assert is_refused(exported), [(each.dtype, tuple(each.shape)) for each in tensors]


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_a_loss_without_a_width_is_refused(capture: Any) -> None:
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    losses = (
        lambda x, y: torch.nn.functional.smooth_l1_loss(x, y, beta=-1.0),
        lambda x, y: torch.nn.functional.huber_loss(x, y, delta=0.0),
    )
    for loss in losses:
        with pytest.raises(RuntimeError):
            loss(x, y)
        with pytest.raises(IrkitError):
            to_onnx(loss, (x, y), dynamic_shapes=({0: "n"}, {0: "n"}), capture=capture)
