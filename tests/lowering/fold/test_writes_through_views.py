"""Random chains of views that are written through, and random indices read and assigned, against eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from irkit.doors.to_onnx import to_onnx
from lowering.program.check import run

pytestmark = pytest.mark.filterwarnings("ignore")
QUICK = settings(max_examples=10, deadline=None, phases=(Phase.explicit, Phase.generate))
Step = tuple[str, Callable[[Tensor], Tensor]]


class Of(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, *rest: Tensor) -> Any:
        return self.function(x, *rest)


def agrees(function: Callable[..., Any], args: tuple[Tensor, ...], sizes: dict[int, str], words: str) -> None:
    """Fails where the program differs from eager, at the traced sizes or where the first size is larger."""
    shapes = {"x": sizes, "rest": tuple({} for _ in args[1:])} if sizes else None
    program = to_onnx(Of(function), tuple(a.clone() for a in args), dynamic_shapes=shapes)
    report = run(program, tuple(a.clone() for a in args), {})
    assert not report.problem, f"{words}: {report.problem}"
    if sizes:
        x = args[0]
        larger = torch.cat([x, x[:2] * 2], 0)
        report = run(program, (larger, *(a.clone() for a in args[1:])), {})
        assert not report.problem, f"{words} at {list(larger.shape)}: {report.problem}"


# ---------------------------------------------------------------------------------------------- views


@st.composite
def steps(draw: Any, shape: tuple[int, ...], dynamic: bool, first: bool) -> tuple[Step, tuple[int, ...]]:
    """One view of a tensor of a shape, and its shape. Where sizes vary, the first axis is left whole; memory is
    addressed in the first view only, which is laid out as its elements are."""
    rank = len(shape)
    axis = draw(st.integers(1 if dynamic and rank > 1 else 0, rank - 1))
    names = ["slice", "negative", "unsqueeze"]
    names += ["step"] if shape[axis] > 2 else []
    names += ["select", "transpose", "diagonal", "permute", "flatten", "chunk", "unbind", "view"] * (
        rank > 1 and not dynamic
    )
    names += ["strided"] if rank > 1 and not dynamic and first else []
    names += ["select"] if rank > 2 else []
    name, size = draw(st.sampled_from(names)), shape[axis]
    if name in ("slice", "negative"):
        low = draw(st.integers(0, size - 1))
        high = draw(st.integers(low + 1, size))
        begin, end = (low, high) if name == "slice" else (low - size, high - size or None)
        made: Callable[[Tensor], Tensor] = lambda t: t[(slice(None),) * axis + (slice(begin, end),)]  # noqa: E731
        words = f"[{axis}: {begin}:{end}]"
    elif name == "step":
        first, step = draw(st.integers(0, 1)), draw(st.integers(2, 3))
        made, words = lambda t: t[(slice(None),) * axis + (slice(first, None, step),)], f"[{axis}: {first}::{step}]"
    elif name == "select":
        index = draw(st.integers(-size, size - 1))
        made, words = lambda t: t.select(axis, index), f"select({axis}, {index})"
    elif name == "unsqueeze":
        made, words = lambda t: t.unsqueeze(axis + 1), f"unsqueeze({axis + 1})"
    elif name == "transpose":
        made, words = lambda t: t.transpose(axis, 0), f"transpose({axis}, 0)"
    elif name == "permute":
        order = draw(st.permutations(range(rank)))
        made, words = lambda t: t.permute(order), f"permute({order})"
    elif name == "diagonal":
        offset = draw(st.integers(-min(shape[0], 2) + 1, min(shape[-1], 2) - 1))
        made, words = lambda t: t.diagonal(offset, 0, -1), f"diagonal({offset}, 0, -1)"
    elif name == "flatten":
        made, words = lambda t: t.contiguous().flatten(0, 1) if not t.is_contiguous() else t.flatten(0, 1), "flatten"
    elif name == "view":
        made, words = lambda t: t.unflatten(0, (1, shape[0])), "unflatten"
    elif name == "chunk":
        made, words = lambda t: t.chunk(2, axis)[-1], f"chunk(2, {axis})[-1]"
    elif name == "strided":
        count = min(shape)
        made, words = lambda t: t.as_strided((count,), (1,), t.storage_offset()), f"as_strided({count})"
    else:
        made, words = lambda t: t.unbind(axis)[0], f"unbind({axis})[0]"
    return (words, made), tuple(made(torch.zeros(shape)).shape)


WRITES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "add_": lambda v, y: v.add_(1.5),
    "mul_": lambda v, y: v.mul_(v),
    "fill_": lambda v, y: v.fill_(7.0),
    "copy_": lambda v, y: v.copy_(y.sum()),
    "zero_": lambda v, y: v.zero_(),
    "clamp_": lambda v, y: v.clamp_(-0.5, 0.5),
    "masked_fill_": lambda v, y: v.masked_fill_(v > 0, -3.0),
    "setitem": lambda v, y: v.__setitem__(Ellipsis, y[0, 0]),
}


@st.composite
def chains(draw: Any, dynamic: bool) -> tuple[list[Step], str, str]:
    """(views, first write, second write)"""
    shape: tuple[int, ...] = (3, 4, 5)
    found: list[Step] = []
    for _ in range(draw(st.integers(1, 3))):
        if not shape or 0 in shape:
            break
        step, shape = draw(steps(shape, dynamic, not found))
        found.append(step)
    return found, draw(st.sampled_from(sorted(WRITES))), draw(st.sampled_from(sorted(WRITES)))


def written(chain: tuple[list[Step], str, str]) -> Callable[..., Any]:
    """Writes through the last view, then through the base, and reads every one."""
    views, first, second = chain

    def function(x: Tensor, y: Tensor) -> Any:
        base = x * 2
        every = [base]
        for _, view in views:
            every.append(view(every[-1]))
        WRITES[first](every[-1], y)
        middle = [each.clone() for each in every]
        WRITES[second](every[len(every) // 2], y)
        return *middle, *(each + 0 for each in every)

    return function


@QUICK
@given(chain=chains(False))
def test_writes_through_chains_of_views(chain: Any) -> None:
    words = " ".join([w for w, _ in chain[0]] + list(chain[1:]))
    agrees(written(chain), (torch.randn(3, 4, 5), torch.randn(2, 2)), {}, words)


@QUICK
@given(chain=chains(True))
def test_writes_through_chains_of_views_of_any_size(chain: Any) -> None:
    words = " ".join([w for w, _ in chain[0]] + list(chain[1:]))
    agrees(written(chain), (torch.randn(3, 4, 5), torch.randn(2, 2)), {0: "n"}, words)


def test_an_input_is_written_through_a_view_of_a_view() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x[1:, :, ::2].transpose(0, 1)[2].add_(y.sum())
        return x.sum(0)

    agrees(function, (torch.randn(3, 4, 5), torch.randn(2, 2)), {0: "n"}, "input")


# ---------------------------------------------------------------------------------------------- indices

INDEX = st.one_of(
    st.integers(-3, 2),
    st.just(None),
    st.builds(
        slice, st.sampled_from([None, 0, 1, -2]), st.sampled_from([None, 2, 3, -1]), st.sampled_from([None, 1, 2])
    ),
    st.sampled_from(["list", "row", "column", "scalar", "bool"]),
)


def index_of(drawn: list[Any], ellipsis: int | None) -> tuple[Any, ...]:
    """The indices of a tensor of sizes (3, 3, 3), tensors in the places of words; `ellipsis` is where one stands."""
    tensors: dict[str, Any] = {
        "list": [0, 2], "row": torch.tensor([2, 0]), "column": torch.tensor([[1], [-1]]), "scalar": torch.tensor(1),
        "bool": torch.tensor([True, False, True]),
    }  # fmt: skip
    made: list[Any] = [tensors[each] if isinstance(each, str) else each for each in drawn]
    if ellipsis is not None:
        made.insert(min(ellipsis, len(made)), Ellipsis)
    return tuple(made)


def fits(index: tuple[Any, ...]) -> bool:
    """True where eager takes the index of a tensor of sizes (3, 3, 3), and finds something."""
    try:
        return torch.zeros(3, 3, 3)[index].numel() > 0
    except IndexError:
        return False


@QUICK
@given(drawn=st.lists(INDEX, max_size=4), ellipsis=st.sampled_from([None, None, 0, 1, 2]))
def test_indices_are_read(drawn: list[Any], ellipsis: int | None) -> None:
    index = index_of(drawn, ellipsis)
    if fits(index):
        agrees(lambda x: x[index] * 1.0, (torch.randn(3, 3, 3),), {}, str(index))


@QUICK
@given(
    drawn=st.lists(INDEX, max_size=4),
    ellipsis=st.sampled_from([None, None, 0, 1, 2]),
    how=st.sampled_from(["number", "whole", "row", "add", "accumulate"]),
)
def test_indices_are_assigned(drawn: list[Any], ellipsis: int | None, how: str) -> None:
    """A number, a tensor of the shape of the view, one that is broadcast, in place on what was there."""
    index = index_of(drawn, ellipsis)
    if not fits(index):
        return
    place = torch.zeros(3, 3, 3)[index]
    value = torch.randn(place.shape if how == "whole" else place.shape[-1:])
    tensors = [i for i in index if isinstance(i, Tensor | list)]

    def function(x: Tensor, value: Tensor) -> Tensor:
        y = x.clone()
        if how == "number":
            y[index] = 5.0
        elif how == "add":
            y[index] += value
        elif how == "accumulate" and len(tensors) == len(index) > 0:
            y.index_put_(tuple(torch.as_tensor(i) for i in index), value, accumulate=True)
        else:
            y[index] = value
        return y

    agrees(function, (torch.randn(3, 3, 3), value), {}, f"{how} {index}")


def test_masks_select_and_are_assigned() -> None:
    """A mask of the input's own numbers: a number, a vector, other rows."""

    def function(x: Tensor, value: Tensor) -> Any:
        y, z, w = x.clone(), x.clone(), x.clone()
        y[x > 0] = 0.0
        z[x[:, 0] > 0] = value
        w[:, value > 0] *= 2
        return y, z, w, x[x[:, 0] > 0]

    agrees(function, (torch.randn(5, 4), torch.tensor([1.0, -1.0, 2.0, -2.0])), {0: "n"}, "masks")


# ---------------------------------------------------------- views that hold an element several times, and views of bits

REPEATING: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
    ("unfold", lambda y: y.unfold(0, 3, 1)[0]),
    ("unfold, transposed", lambda y: y.unfold(1, 4, 1).transpose(0, 1)[1, 2:]),
    ("as_strided", lambda y: torch.as_strided(y, (3, 4), (2, 1))[1]),
    ("expand of a new dimension", lambda y: y.expand(2, 4, 6)[0, 1]),
    ("expand of a dimension of 1", lambda y: y[:1].expand(4, 6)[2, 1:3]),
    ("expand as", lambda y: y.expand_as(torch.empty(2, 4, 6))[1].t()[2]),
    ("expand of nothing", lambda y: y.expand(1, 4, 6)[0]),
    ("bits", lambda y: y.view(torch.int32)[1:3]),
    ("bits of an expansion", lambda y: y.expand(2, 4, 6)[0].view(torch.int32)[1]),
    ("parts of an expansion", lambda y: torch.view_as_complex(y.view(4, 3, 2)).expand(2, 4, 3)[1].imag),
)


@pytest.mark.parametrize(("words", "view"), REPEATING, ids=[words for words, _ in REPEATING])
def test_what_a_view_repeats_is_written_once(words: str, view: Callable[[Tensor], Tensor]) -> None:
    """Of windows that overlap, only what the last view shows is written."""

    def function(x: Tensor) -> Tensor:
        y = x.clone()
        view(y).zero_()
        return y

    x = torch.arange(24.0).reshape(4, 6) + 1
    assert not torch.equal(function(x), x)
    agrees(function, (x,), {}, words)


OF_LISTS: tuple[tuple[str, Callable[[Tensor, Tensor], Sequence[Tensor]]], ...] = (
    ("broadcast_tensors", lambda x, y: torch.broadcast_tensors(x, y)),
    ("atleast_2d", lambda x, y: torch.atleast_2d(x, y)),
    ("meshgrid", lambda x, y: torch.meshgrid(x[:, 0], y[0, :1], indexing="ij")),
)


@pytest.mark.parametrize(("words", "views"), OF_LISTS, ids=[words for words, _ in OF_LISTS])
def test_the_views_of_several_tensors_are_written_each_in_its_own(
    words: str, views: Callable[[Tensor, Tensor], Sequence[Tensor]]
) -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x, y = x.clone(), y.clone()
        views(x, y)[0].add_(2)
        return x, y

    program = to_onnx(function, (torch.randn(3, 4), torch.randn(3, 4)), dynamic_shapes=({0: "n"}, {0: "n"}))
    for n in (3, 1, 5):
        x, y = torch.randn(n, 4), torch.randn(n, 4)
        for found, expected in zip(program(x, y), function(x, y), strict=True):
            torch.testing.assert_close(found, expected)
