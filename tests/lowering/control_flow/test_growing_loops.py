"""Loops on data that carry tensors which grow, and lists of tensors of unequal lengths, made or split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from irkit.errors import IrkitError


def tokens(ids: Tensor, times: Tensor) -> Any:
    for _ in range(times.shape[0]):
        ids = torch.cat([ids, ids.sum(1, keepdim=True) % 11], 1)
    return ids * 2, ids.shape[1]


def cached(x: Tensor, times: Tensor) -> Any:
    """Keys and values that grow alike, and are attended to."""
    keys, values, found = x, x * 2, [x.sum((1, 2))]
    for i in range(times.shape[0]):
        step = x[:, :1] * (i + 1)
        keys, values = torch.cat([keys, step], 1), torch.cat([values, step + 1], 1)
        found.append((keys @ values.transpose(1, 2)).sum((1, 2)) % 7)
    return keys, values.sum(1), torch.stack(found)


def until_large(x: Tensor, times: Tensor) -> Any:
    while x.sum() < 60:
        x = torch.cat([x, x[:, -1:] + 1], 1)
    return x, times


def while_short(x: Tensor, times: Tensor) -> Any:
    while x.shape[1] < times.shape[0]:
        x = torch.cat([x, x.sum(1, keepdim=True) % 5], 1)
    return x


def doubled(x: Tensor, times: Tensor) -> Any:
    for _ in range(times.shape[0]):
        x = torch.cat([x, x + 1], 1)
    return x


def by_data(x: Tensor, times: Tensor) -> Any:
    """It gains as many columns as data says, and is left by data."""
    out = x[:, :0]
    for n in times:
        if n > 4:
            break
        out = torch.cat([out, x[:, : n.item()]], 1)
    return out


def in_pairs(x: Tensor, times: Tensor) -> Any:
    return torch.cat([x[:, i : i + 2].cumsum(1) for i in range(0, x.shape[1], 2)], 1), times


def pieces_read(x: Tensor, times: Tensor) -> Any:
    found = []
    for i in range(0, x.shape[1], 3):
        found.append((x[:, i : i + 3] + i, x.sum() * i))
    largest = [wide.max() + one.sum() for wide, one in found]
    return found[0][0], found[-1][0] * 2, torch.stack(largest), len(found), times


def from_behind(x: Tensor, times: Tensor) -> Any:
    found: list[Tensor] = []
    for i in range(0, x.shape[1], 2):
        found.insert(0, x[:, i : i + 2] + i)
    return torch.cat(found, 1), times


def several_at_once(x: Tensor, times: Tensor) -> Any:
    found = [x]
    for i in range(0, x.shape[1], 2):
        found.append(x[:, i : i + 2])
        found.append(x[:, :i])
    return torch.cat(found, 1), times


CALLS = ((2, 3, (1, 2, 3)), (1, 1, ()), (3, 5, (1,)), (2, 8, (0, 4, 1, 2, 5, 1)), (2, 2, (2, 2)))
"""Rows, columns, and a list of numbers, for each call."""


def arguments(rows: int, columns: int, numbers: Sequence[int], rank: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(columns)
    shape = (rows, columns, 2)[:rank]
    return torch.randint(0, 9, shape).float(), torch.tensor(numbers, dtype=torch.int64)


def same(found: Any, expected: Any) -> None:
    """Raises AssertionError where the results are others."""
    found = found if isinstance(found, tuple) else (found,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other))


@pytest.mark.parametrize(
    ("function", "rank"),
    [
        (tokens, 2), (cached, 3), (until_large, 2), (while_short, 2), (doubled, 2), (by_data, 2), (in_pairs, 2),
        (pieces_read, 2), (from_behind, 2), (several_at_once, 2),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_what_grows_is_as_in_eager(function: Callable[..., Any], rank: int) -> None:
    shapes = ({0: "b", 1: "n"}, {0: "k"})
    example = arguments(*CALLS[0], rank)
    program = irkit.to_onnx(function, example, dynamic_shapes=shapes, rewrite=True, capture="direct")
    for rows, columns, numbers in CALLS:
        given = arguments(rows, columns, numbers, rank)
        same(program(*given), function(*given))


def test_the_size_of_what_grows_is_known_where_each_round_adds_as_much() -> None:
    example = arguments(*CALLS[0], 2)
    program = irkit.to_onnx(tokens, example, dynamic_shapes=({0: "b", 1: "n"}, {0: "k"}), rewrite=True)
    assert str(program.graph.results[0].type) == "f32[b, k + n]"
    assert not any("round" in text for text, _ in program.report.guards)


def attended(q: Tensor, k: Tensor, v: Tensor, ends: Tensor) -> Tensor:
    """Attention within each image, as Qwen2-VL has it."""
    lengths = ends[1:] - ends[:-1]
    splits = [torch.split(each, lengths.tolist(), dim=1) for each in (q, k, v)]
    found = [(torch.softmax(a @ b.transpose(1, 2), -1) @ c).transpose(0, 1) for a, b, c in zip(*splits)]  # noqa: B905
    return torch.cat(found, dim=0).reshape(q.shape[1], -1)


def images(*lengths: int, total: int | None = None) -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    count = sum(lengths) if total is None else total
    q, k, v = torch.randn(3, 2, count, 4).unbind(0)
    return q, k, v, torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


@pytest.fixture(scope="module")
def attention() -> Any:
    shapes = ({1: "n"}, {1: "n"}, {1: "n"}, {0: "k"})
    return irkit.to_onnx(attended, images(2, 4), dynamic_shapes=shapes, rewrite=True, capture="direct")


@pytest.mark.parametrize("lengths", [(2, 4), (5,), (1, 2, 3), (0, 3), (1, 1, 1, 1, 9)], ids=str)
def test_a_split_by_lengths_of_data_is_as_in_eager(attention: Any, lengths: tuple[int, ...]) -> None:
    given = images(*lengths)
    torch.testing.assert_close(attention(*given), attended(*given))


def test_the_pieces_of_a_split_are_as_long_together_as_it(attention: Any) -> None:
    assert str(attention.graph.results[0].type) == "f32[n, 8]"


@pytest.mark.parametrize(
    "given",
    [images(2, 4, total=5), images(2, 4, total=7), images(6, -1), images()],
    ids=["less", "more", "below", "none"],
)
def test_lengths_that_eager_refuses_are_refused(attention: Any, given: tuple[Tensor, ...]) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        attended(*given)
    with pytest.raises(IrkitError):
        attention(*given)


def pieces_in_order(x: Tensor, lengths: Tensor) -> Any:
    pieces = x.split(lengths.tolist(), 1)
    total = x.new_zeros(x.shape[0])
    for i, piece in enumerate(pieces):
        total = total * 0.5 + piece.sum(1) * (i + 1)
    return total, pieces[0], pieces[-1], torch.cat(pieces[1:], 1)


def pieces_stacked(x: Tensor, lengths: Tensor) -> Tensor:
    return torch.stack(x.split(lengths.tolist(), 1))


def test_pieces_are_read_by_number_and_in_order() -> None:
    shapes = ({0: "b", 1: "n"}, {0: "k"})
    program = irkit.to_onnx(
        pieces_in_order, (torch.rand(2, 6), torch.tensor([1, 2, 3])), dynamic_shapes=shapes, rewrite=True
    )
    for lengths in ([1, 2, 3], [4, 0], [2, 2, 1, 7]):
        given = torch.rand(3, sum(lengths)), torch.tensor(lengths)
        same(program(*given), pieces_in_order(*given))


def test_pieces_are_stacked_where_they_are_alike() -> None:
    shapes = ({0: "b", 1: "n"}, {0: "k"})
    given = torch.rand(2, 6), torch.tensor([2, 2, 2])
    program = irkit.to_onnx(pieces_stacked, given, dynamic_shapes=shapes, rewrite=True)
    for lengths in ([2, 2, 2], [5], [1, 1]):
        given = torch.rand(3, sum(lengths)), torch.tensor(lengths)
        same(program(*given), pieces_stacked(*given))
    with pytest.raises(IrkitError):
        program(torch.rand(2, 3), torch.tensor([1, 2]))


def with_nothing(x: Tensor) -> Any:
    """It keeps weights of attention that are None."""
    found: list[Tensor] = []
    weights: list[Any] = []
    for row in x:
        found.append(row * 2)
        weights.append(None)
    return torch.stack(found), weights[0]


def halved_with_nothing(x: Tensor) -> Any:
    """Only the loop tells how many there are."""
    weights: list[Any] = []
    while x.sum() > 1:
        x = x / 2
        weights.append(None)
    return x, weights


def test_a_list_of_nothing_may_grow_where_nobody_reads_it() -> None:
    program = irkit.to_onnx(with_nothing, (torch.rand(3, 2),), dynamic_shapes=({0: "n"},), rewrite=True)
    for n in (1, 2, 6):
        x = torch.rand(n, 2)
        torch.testing.assert_close(program(x)[0], x * 2)
    x = torch.rand(3, 2)
    program = irkit.to_onnx(lambda x: halved_with_nothing(x)[0], (x,), rewrite=True)
    for given in (x, x * 100, x * 0):
        torch.testing.assert_close(program(given), halved_with_nothing(given)[0])
    with pytest.raises(IrkitError, match="by what is no tensor"):
        irkit.to_onnx(lambda x: halved_with_nothing(x)[1][0], (x,), rewrite=True, capture="direct")


def two_sizes(x: Tensor) -> Tensor:
    return torch.cat([x[:i, :i].flatten() for i in range(x.shape[0])]) + sum(
        [x[:i, :i].sum() for i in range(x.shape[0])]
    )


def squares(x: Tensor) -> Tensor:
    found = [x[:i, :i] for i in range(x.shape[0])]
    return torch.cat([each.flatten() for each in found])


def squares_in_part(x: Tensor) -> Tensor:
    found = [x[:i, :i] for i in range(x.shape[0])]
    return torch.cat([each.flatten() for each in found[1:]])


def test_tensors_of_which_two_sizes_change_are_elements_of_a_list() -> None:
    shapes = ({0: "n", 1: "n"},)
    for of in (two_sizes, squares):
        program = irkit.to_onnx(of, (torch.rand(4, 4),), dynamic_shapes=shapes, rewrite=True)
        for n in (1, 2, 6):
            x = torch.rand(n, n)
            torch.testing.assert_close(program(x), of(x))
    with pytest.raises(IrkitError, match="differ along several axes is read in part"):
        irkit.to_onnx(squares_in_part, (torch.rand(4, 4),), dynamic_shapes=shapes, rewrite=True, capture="direct")


def lengths_repeated(grids: Tensor) -> Tensor:
    found = [0]
    for frames, size in grids.tolist():
        found.extend([size] * frames)
    return torch.tensor(found).cumsum(0)


def ends_counted_on(grids: Tensor) -> Tensor:
    found = [0]
    for frames, size in grids.tolist():
        found.extend([found[-1] + size * (i + 1) for i in range(frames)])
    return torch.tensor(found)


def lengths_alone(grids: Tensor) -> Tensor:
    found: list[int] = []
    for frames, size in grids.tolist():
        found += [size] * frames
    return torch.tensor(found, dtype=torch.int64)


def blocks_turned(grids: Tensor) -> Tensor:
    found = [torch.arange(frames * size).reshape(frames, size) for frames, size in grids.tolist()]
    return torch.cat([each.T.flatten() for each in found])


@pytest.mark.parametrize("of", [lengths_repeated, ends_counted_on, lengths_alone, blocks_turned])
def test_lists_gain_as_many_numbers_in_a_round_as_data_tells(of: Callable[[Tensor], Tensor]) -> None:
    program = irkit.to_onnx(of, (torch.tensor([[2, 3], [1, 5], [3, 2]]),), dynamic_shapes=({0: "n"},), rewrite=True)
    for grids in ([[1, 1]], [[0, 4], [2, 7], [1, 1], [4, 2]], [[3, 3], [3, 3]], [[0, 1]]):
        given = torch.tensor(grids)
        same(program(given), of(given))


def masks(x: Tensor) -> Any:
    """Rows of masks for segments and what is to their right, as streaming encoders make them."""
    length = x.shape[0] - 2
    count = (length + 3) // 4
    right, own = [], []
    both = [right, own]
    for i in range(count):
        widths = [i * 2, 2, (count - i - 1) * 2, i * 4, min(4, length - i * 4), length - min(i * 4 + 4, length)]
        right.append(torch.cat([torch.full((2, width), float(k)) for k, width in enumerate(widths)], 1))
        own.append(torch.cat([torch.zeros(min(4, length - i * 4), width) for width in widths], 1))
    return torch.cat([torch.cat(each) for each in both]) + x.sum()


def test_masks_of_segments_are_as_in_eager() -> None:
    program = irkit.to_onnx(masks, (torch.rand(12),), dynamic_shapes=({0: "n"},), rewrite=True)
    for size in (3, 5, 6, 7, 12, 31):
        x = torch.rand(size)
        torch.testing.assert_close(program(x), masks(x))
