"""Rows that are put at places, of as many as there are places and as long as those that are there, and masks of the
sizes of what they choose of: what eager refuses is refused, by operators that write in place, too."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from irkit.errors import IrkitError

WAYS = ("direct", "torch.export")
Put = Callable[[Tensor, Tensor, Tensor], Tensor]
PUTS: dict[str, Put] = {
    "index_add": lambda x, at, rows: x.index_add(0, at, rows),
    "index_add_": lambda x, at, rows: (x * 1).index_add_(0, at, rows),
    "index_reduce": lambda x, at, rows: x.index_reduce(0, at, rows, "amax"),
    "index_reduce_": lambda x, at, rows: (x * 1).index_reduce_(0, at, rows, "amax"),
    "index_copy": lambda x, at, rows: x.index_copy(0, at, rows),
    "index_copy_": lambda x, at, rows: (x * 1).index_copy_(0, at, rows),
}


def agrees(model: Callable[..., Tensor], program: Any, given: tuple[Tensor, ...]) -> None:
    """Fails where a program answers otherwise than eager, or where eager refuses."""
    try:
        answer = program(*given)
    except IrkitError:
        return
    try:
        expected = model(*given)
    except (RuntimeError, IndexError) as error:
        raise AssertionError(f"{[tuple(each.shape) for each in given]}: {error}") from None
    assert torch.equal(answer, expected)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PUTS)
@pytest.mark.parametrize("example", [(3, 4, 2, 2, 4), (3, 1, 2, 2, 1), (1, 4, 1, 1, 4)], ids=str)
def test_rows_are_put_where_eager_puts_them(name: str, example: tuple[int, ...], way: Any) -> None:
    def given(n: int, m: int, count: int, rows: int, length: int) -> tuple[Tensor, ...]:
        return torch.randn(n, m), torch.zeros(count, dtype=torch.int64), torch.randn(rows, length)

    names = ({0: "n", 1: "m"}, {0: "count"}, {0: "rows", 1: "length"})
    program = irkit.to_onnx(PUTS[name], given(*example), dynamic_shapes=names, capture=way)
    for sizes in product((0, 1, 3), (1, 4), (0, 1, 2), (0, 1, 2), (0, 1, 4)):
        agrees(PUTS[name], program, given(*sizes))


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["index_add", "index_add_", "index_reduce", "index_reduce_"])
def test_a_number_is_no_row(name: str, way: Any) -> None:
    put = PUTS[name]
    with pytest.raises(IrkitError):
        irkit.to_onnx(
            lambda x, at, rows: put(x, at[0], rows[0]),
            (torch.randn(3), torch.zeros(2, dtype=torch.int64), torch.randn(2)),
            dynamic_shapes=({0: "n"}, None, None),
            capture=way,
        )


def masked(write: Callable[[Tensor, Tensor], Any]) -> Callable[[Tensor, Tensor], Tensor]:
    """A function that writes a copy of its first argument by a mask of the second one."""

    def model(x: Tensor, y: Tensor) -> Tensor:
        t = x * 1
        write(t, y)
        return t

    return model


MASKED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a number": masked(lambda t, y: t.__setitem__(y > 0, 2.0)),
    "a tensor of one number": masked(lambda t, y: t.__setitem__(y > 0, y.sum())),
    "part of a row": masked(lambda t, y: t.__setitem__((y > 0, slice(0, 2)), 5.0)),
    "index_put": lambda x, y: x.index_put((y > 0,), torch.tensor(1.0)),
    "taken": lambda x, y: x[y > 0],
    "columns": masked(lambda t, y: t.t().__setitem__((slice(None), y > 0), 1.0)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MASKED)
def test_a_mask_has_the_sizes_of_what_it_chooses_of(name: str, way: Any) -> None:
    names, model = ({0: "n", 1: "m"}, {0: "k"}), MASKED[name]
    program = irkit.to_onnx(model, (torch.randn(3, 4), torch.randn(3)), dynamic_shapes=names, capture=way)
    for n, m, k in product((0, 1, 3), (0, 1, 4), (0, 1, 3)):
        agrees(model, program, (torch.randn(n, m), torch.randn(k)))


NOTHING: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "taken along no element": (lambda x: x[:, torch.tensor([0, 1])], (torch.randn(2, 0, 0),)),
    "taken of nothing": (lambda x: x[:, torch.tensor([0, 1])][:, :, 2:2], (torch.randn(2, 0, 5),)),
    "a weight for one of two channels": (
        lambda x: torch.native_group_norm(x, x.new_ones(1), x.new_ones(1), 0, 2, 3, 1, 1e-5)[0],
        (torch.randn(0, 2, 3),),
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NOTHING)
def test_what_eager_refuses_of_nothing_is_refused(name: str, way: Any) -> None:
    model, given = NOTHING[name]
    with pytest.raises((RuntimeError, IndexError)):
        model(*given)
    with pytest.raises(IrkitError):
        irkit.to_onnx(model, given, capture=way)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x.repeat_interleave(2, 0).split(x.shape[0])[1],
        lambda x: torch.cat([x, x]).split(x.shape[0])[-1],
        lambda x: torch.cat([x, x]).split(x.shape[0])[0] + len(torch.cat([x, x]).split(x.shape[0])) * x,
        lambda x: sum(torch.cat([x, x]).split(x.shape[0])),
    ],
    ids=["the second", "the last", "how many", "all"],
)
@pytest.mark.parametrize("way", WAYS)
def test_of_nothing_there_is_one_part(model: Callable[[Tensor], Any], way: Any) -> None:
    program = irkit.to_onnx(model, (torch.randn(4, 2),), dynamic_shapes=({0: "n"},), capture=way)
    for n in range(4):
        agrees(model, program, (torch.randn(n, 2),))


def lies(x: Tensor) -> Tensor:
    """Whether images with their channels last lie in order, which none do but such of one channel or of no pixel."""
    z = x.contiguous(memory_format=torch.channels_last)
    return torch.tensor([z.is_contiguous(), z.is_contiguous(memory_format=torch.channels_last)])


def steps(x: Tensor) -> Tensor:
    """The strides of a tensor and of one that is turned."""
    z = x * 2
    return torch.tensor([*z.stride(), *z.transpose(0, 1).stride()])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", [lies, steps])
def test_how_nothing_lies_is_told_or_refused(model: Callable[[Tensor], Tensor], way: Any) -> None:
    names = ({0: "n", 1: "c", 2: "h", 3: "w"},)
    program = irkit.to_onnx(model, (torch.randn(2, 3, 4, 5),), dynamic_shapes=names, capture=way)
    for sizes in product((0, 1, 2), (0, 1, 3), (0, 1, 4), (0, 4)):
        agrees(model, program, (torch.randn(sizes),))


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_asks_for_backends_is_told_what_eager_is(way: Any) -> None:
    def model(x: Tensor) -> Tensor:
        told: tuple[Any, ...] = (torch.backends.cudnn.enabled, torch.backends.mkldnn.enabled)
        return x + told[0] + 10 * told[1]

    x = torch.randn(3)
    assert torch.equal(irkit.to_onnx(model, (x,), capture=way)(x), model(x))
    assert torch.backends.cudnn.enabled and torch.backends.mkldnn.enabled


def flags_told() -> list[bool]:
    """Flags of torch.backends, as a model reads them."""
    found: Any = torch.backends
    return [found.cudnn.enabled, found.cudnn.benchmark, found.mkldnn.enabled, found.mha.get_fastpath_enabled()]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "block",
    [
        lambda: torch.backends.cudnn.flags(enabled=False),
        lambda: torch.backends.cudnn.flags(enabled=True, benchmark=True),
        lambda: torch.backends.mkldnn.flags(enabled=False, allow_tf32=False),
        lambda: torch.backends.mkldnn.flags(enabled=True, allow_tf32=False),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:TF32 acceleration on top of oneDNN:UserWarning")  # torch restores what it warns of
def test_a_model_that_sets_flags_is_told_what_it_has_set(block: Callable[[], Any], way: Any) -> None:
    def model(x: Tensor) -> Tensor:
        told = flags_told()
        with block():
            told += flags_told()
            with torch.backends.cudnn.flags(enabled=True):
                told += flags_told()
        fused = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(not fused)
        told += flags_told()
        torch.backends.mha.set_fastpath_enabled(fused)
        return x + torch.tensor([float(each) for each in told + flags_told()])

    x, before = torch.zeros(20), flags_told()
    assert torch.equal(irkit.to_onnx(model, (x,), capture=way)(x), model(x)) and flags_told() == before


BEFORE: dict[str, Callable[[Tensor], Any]] = {
    "an image that is resized": lambda x: torch.nn.functional.interpolate(x, scale_factor=2),
    "an image that is resized to its size": lambda x: torch.nn.functional.interpolate(x, size=x.shape[2:]),
    "counts": lambda x: torch.bincount((x > 0).long().flatten()),
    "rows as often as data says": lambda x: torch.repeat_interleave(x.new_ones(4), (x.sum() > 0) * torch.arange(4)),
    "places": lambda x: torch.nonzero(x.flatten() > 0),
    "different numbers": lambda x: torch.unique(x),
    "as many as data says": lambda x: torch.zeros(int((x > 0).sum())),
    "a branch": lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("before", BEFORE)
def test_what_follows_an_operator_that_torch_cannot_tell_is_asked_of_nothing(before: str, way: Any) -> None:
    def model(x: Tensor) -> Tensor:
        first = BEFORE[before](x)
        return (x * 1).view(x.shape[0], -1, *x.shape[2:]) + first.sum() * 0

    names = ({0: "n", 2: "h", 3: "w"},)
    program = irkit.to_onnx(model, (torch.randn(2, 4, 8, 8),), dynamic_shapes=names, capture=way)
    for sizes in product((0, 1, 2), (4,), (1, 4), (3,)):
        agrees(model, program, (torch.randn(sizes),))
