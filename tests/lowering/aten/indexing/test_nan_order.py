"""NaN among numbers and infinities, wherever elements are compared: torch holds it greater than every number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from irkit.checking.comparison import compare
from irkit.onnx.writing.models import to_proto
from lowering import lower
from tests.lowering.aten.harness import IR_VERSION, array_of, check, eager, legal, lowered

INF, NAN = float("inf"), float("nan")
pytestmark = pytest.mark.filterwarnings("ignore")  # index_reduce is in beta
KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
ELEMENTS = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5)
SHAPE = (6, 9)
Function = Callable[[torch.Tensor], Any]


def taken(places: torch.Tensor, x: torch.Tensor, dim: int) -> torch.Tensor:
    """The elements at places of which torch leaves open which of equal ones they name."""
    return x.gather(dim, places)


def volume(x: torch.Tensor) -> torch.Tensor:
    """x as an image of three axes, its rows in other orders."""
    return torch.stack([x, x.flip(0), x.flip(1), x.roll(1, 0)])[None, None]


DRAWN = torch.full((1, 1, 3), 0.4)
ORDER: dict[str, Function] = {
    "sort": lambda x: [x.sort(1)[0], taken(x.sort(1)[1], x, 1)],
    "sort downwards": lambda x: [x.sort(0, descending=True)[0], taken(x.sort(0, True)[1], x, 0)],
    "stable sort": lambda x: [*torch.sort(x, stable=True, dim=1)],
    "stable sort downwards": lambda x: [*torch.sort(x, stable=True, dim=1, descending=True)],
    "argsort": lambda x: torch.argsort(x, stable=True, dim=1), "msort": torch.msort,
    "topk": lambda x: [x.topk(3, 1)[0], taken(x.topk(3, 1)[1], x, 1)],
    "topk of all": lambda x: x.topk(9, 1)[0], "smallest": lambda x: x.topk(4, 0, largest=False)[0],
    "kthvalue": lambda x: [x.kthvalue(3, 1)[0], x.kthvalue(9, 1)[0], taken(x.kthvalue(5, 0, True)[1], x, 0)],
    "median": lambda x: [x.median(), x.median(1)[0], taken(x.median(1, True)[1], x, 1)],
    "nanmedian": lambda x: [x.nanmedian(), x.nanmedian(1)[0], x.nanmedian(0, True)[0]],
    "unique": lambda x: [torch.unique(x), *(torch.unique(x, return_counts=True))],
    "unique, back again": lambda x: taken(torch.unique(x, return_inverse=True)[1].flatten(), torch.unique(x), 0),
    "unique_consecutive": lambda x: [*torch.unique_consecutive(x, return_inverse=True, return_counts=True)],
    "unique rows": lambda x: torch.unique(x, dim=0, return_counts=True)[1].sort()[0],
    "searchsorted": lambda x: [torch.searchsorted(x.sort(1)[0], x.flip(1), right=r) for r in (False, True)],
    "bucketize": lambda x: [torch.bucketize(x, x[0].sort()[0], right=r) for r in (False, True)],
    "cummax": lambda x: [*x.cummax(1), *x.cummax(0)], "cummin": lambda x: [*x.cummin(0), *x.cummin(1)],
    "amax": lambda x: [x.amax(1), x.amax((0, 1))], "amin": lambda x: [x.amin(0), x.amin()],
    "max": lambda x: [x.max(), *x.max(1)], "min": lambda x: [x.min(), *x.min(0)],
    "aminmax": lambda x: [*x.aminmax(), *x.aminmax(dim=1)],
    "argmax": lambda x: [x.argmax(), x.argmax(1)], "argmin": lambda x: [x.argmin(), x.argmin(0)],
    "maximum": lambda x: [torch.maximum(x, x.flip(1)), torch.minimum(x, x.flip(1))],
    "fmax": lambda x: [torch.fmax(x, x.flip(1)), torch.fmin(x, x.flip(1))],
    "clamp": lambda x: [x.clamp(-0.5, 0.5), x.clamp(min=x.flip(0)), x.clamp(max=x.flip(0))],
    "sign": lambda x: x.sign(),
    "norms": lambda x: [x.norm(INF, 1), x.norm(-INF, 0)],
    "scatter_reduce": lambda x: [
        x.scatter_reduce(1, torch.arange(9).expand(6, 9) // 2, x.flip(1), how) for how in ("amax", "amin")
    ],
    "index_reduce": lambda x: [
        x.index_reduce(0, torch.tensor([0, 0, 1, 5]), x[:4].flip(1), how) for how in ("amax", "amin")
    ],
    "embedding_bag": lambda x: F.embedding_bag(torch.tensor([[0, 1, 2], [2, 3, 0], [4, 4, 5]]), x, mode="max"),
}  # fmt: skip

POOLS: dict[str, Function] = {
    "1d": lambda x: F.max_pool1d(x, 3, 2, 1), "1d, rows": lambda x: F.max_pool1d(x[None], 2, 1, 0, 2),
    "1d, where": lambda x: [*F.max_pool1d(x[None], 3, 2, 1, return_indices=True)],
    "2d": lambda x: [F.max_pool2d(x[None, None], 3, 2, 1), F.max_pool2d(x[None], 2)],
    "2d, where": lambda x: [*F.max_pool2d(x[None, None], 2, 1, return_indices=True)],
    "2d, apart": lambda x: [*F.max_pool2d(x[None, None], 2, 1, 0, 2, return_indices=True)],
    "2d, ceil": lambda x: F.max_pool2d(x[None, None], 3, 2, 1, ceil_mode=True),
    "2d, ceil, where": lambda x: [*F.max_pool2d(x[None, None], 3, 2, 1, ceil_mode=True, return_indices=True)],
    "2d of what is not negative": lambda x: F.max_pool2d(F.relu(x)[None, None], 3, 2, 1),
    "3d": lambda x: F.max_pool3d(volume(x), 2, 2), "3d, padded": lambda x: F.max_pool3d(volume(x), 3, 2, 1),
    "3d, where": lambda x: [*F.max_pool3d(volume(x), 2, 2, return_indices=True)],
    "adaptive 1d": lambda x: [*F.adaptive_max_pool1d(x[None], 4, return_indices=True)],
    "adaptive 2d": lambda x: [*F.adaptive_max_pool2d(x[None, None], (2, 4), return_indices=True)],
    "adaptive to one": lambda x: F.adaptive_max_pool2d(x[None, None], 1),
    "adaptive 3d": lambda x: [*F.adaptive_max_pool3d(volume(x), (2, 2, 4), return_indices=True)],
    "fractional 2d": lambda x: [*F.fractional_max_pool2d(
        x[None, None], 2, output_size=(3, 4), return_indices=True, _random_samples=DRAWN[..., :2].to(x.dtype)
    )],
    "fractional 3d": lambda x: [*F.fractional_max_pool3d(
        volume(x), 2, output_size=(2, 3, 4), return_indices=True, _random_samples=DRAWN.to(x.dtype)
    )],
}  # fmt: skip


def of_kind(function: Function, kind: torch.dtype) -> Function:
    """The function of numbers of one type, taking f32 and giving f32 in the place of bf16, which numpy lacks."""

    def run(x: torch.Tensor) -> list[torch.Tensor]:
        made = function(x.to(kind))
        results = list(made) if isinstance(made, Sequence) else [made]
        return [r.float() if r.dtype is torch.bfloat16 else r for r in results]

    return run


def runs(function: Function, x: torch.Tensor) -> Callable[[torch.Tensor], list[np.ndarray]]:
    """The function on ONNX Runtime, lowered once for tensors like x."""
    model = to_proto(legal(lowered(function, x).graph, nan=True), ir_version=IR_VERSION).SerializeToString()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda given: [np.asarray(r) for r in session.run(None, {"x0": array_of(given)})]


def agrees(function: Function, elements: Sequence[float], examples: int) -> None:
    """Fails where torch and ONNX Runtime differ on tensors of these elements."""
    run = runs(function, torch.zeros(SHAPE))

    @settings(max_examples=examples, deadline=None, database=None)
    @given(st.lists(st.sampled_from(elements), min_size=54, max_size=54))
    def hold(drawn: list[float]) -> None:
        x = torch.tensor(drawn).reshape(SHAPE)
        found = compare(eager(function, x), run(x))
        assert found is None, f"{found} for {drawn}"

    hold()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", ORDER)
def test_order(name: str, kind: torch.dtype) -> None:
    function = of_kind(ORDER[name], kind)
    try:
        eager(function, torch.zeros(SHAPE))
    except RuntimeError as error:
        assert "not implemented for" in str(error)  # torch has no such kernel for half numbers
        return
    agrees(function, ELEMENTS, 25)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str, kind: torch.dtype) -> None:
    function = of_kind(POOLS[name], kind)
    agrees(function, ELEMENTS, 15)
    agrees(function, (-INF, -INF, -INF, -INF, torch.finfo(kind).min, NAN), 10)


@pytest.mark.parametrize("how", [False, True], ids=["left", "right"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 20])
def test_searching_rows_that_end_in_nan(size: int, how: bool) -> None:
    """torch's search is led astray by NaN; for every count of numbers before it, as torch's own."""
    rows = torch.stack([torch.arange(size).float().masked_fill(torch.arange(size) >= n, NAN) for n in range(size + 1)])
    values = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, 6.5, size - 1, size, NAN]).expand(size + 1, -1).contiguous()
    check(lambda rows, values: torch.searchsorted(rows, values, right=how), rows, values)


FREE: dict[str, Function] = {
    "integers": lambda x: x.long().sort(1)[0], "integers made floats": lambda x: x.long().float().amax(1),
    "bools": lambda x: (x > 0).max(), "weights of a softmax": lambda x: x.softmax(1).topk(2, 1)[0],
    "half weights of a softmax": lambda x: x.softmax(-1).half().topk(2, -1)[0],
    "pooled integers": lambda x: F.max_pool2d(x.to(torch.uint8)[None, None], 2),
}  # fmt: skip


class Applied(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize("name", FREE)
def test_nothing_is_added_where_no_nan_can_be_misplaced(name: str) -> None:
    held = {value.op for value in lower(Applied(FREE[name]), (torch.randn(SHAPE),)).order}
    assert not held & {"IsNaN", "GatherElements"}
