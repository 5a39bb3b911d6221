"""torch's database of operators at sizes 0 and 1: what `make fuzz-sizes` draws thousands of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import ContractError, IrkitError
from tests.fuzz.small_sizes import WAYS, faults
from tests.support.draws import drawn

FOUND = (44, 81, 233, 306, 398, 503, 605, 983, 1103, 1309, 1355, 1494, 1697, 1862, 1906, 1962,
         41049, 363023, 363956, 370135, 370497, 371423)  # fmt: skip
"""Draws that once went wrong: counts of nothing by weights, lengths beyond the frames of a loss, an adaptive pooling of
nothing, trapezoids of no integers, a batch of one number, and of none, that is learnt from, lengths of segments that do
not add up, indices into nothing (three), a deviation of nothing whose count has 1 added, classes of a loss that are
none, an image without rows, a diagonal that is not there, one edge of a histogram, an image without places, a part that
begins where the data says, classes that are none of a linear layer's loss, rows that are none and scaled, factors of
nothing with pivots, an image without channels, places in nothing."""


@pytest.mark.parametrize("seed", drawn("small sizes", range(100_000), 12, FOUND))
def test_sizes_0_and_1_are_eagers(seed: int) -> None:
    assert list(faults([seed], Counter(), WAYS if seed in FOUND else ())) == []


@pytest.mark.parametrize("seed", drawn("small sizes in place", range(5_000_000, 5_100_000), 8))
def test_what_is_written_in_place_at_sizes_0_and_1_is_eagers(seed: int) -> None:
    assert list(faults([seed], Counter(), WAYS)) == []


INDEX, PLACES = torch.tensor([[0, 1]] * 3), torch.tensor([0, 1])
WRITES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "scatter_add": lambda x, s: x.scatter_add(1, INDEX, s),
    "scatter": lambda x, s: x.scatter(1, INDEX, s),
    "scatter_value": lambda x, s: x.scatter(1, INDEX, 1.0),
    "scatter_reduce": lambda x, s: x.scatter_reduce(1, INDEX, s, "amax"),
    "index_copy": lambda x, s: x.index_copy(1, PLACES, s),
    "index_fill": lambda x, s: x.index_fill(1, PLACES, 1.0),
    "index_reduce": lambda x, s: x.index_reduce(1, PLACES, s, "amax"),
    "index_put": lambda x, s: x.index_put((torch.arange(3), INDEX[:, 0]), s[:, 0]),
    "put": lambda x, s: x.put(PLACES, s[0]),
    "slice_scatter": lambda x, s: x.slice_scatter(s, 1, 0, 2),
    "slice_scatter, from the end": lambda x, s: x.slice_scatter(s, 1, -2),
    "slice_scatter, every second": lambda x, s: x.slice_scatter(s, 1, 1, 5, 2),
    "select_scatter": lambda x, s: x.select_scatter(s[:, 0], 1, 2),
    "select_scatter, from the end": lambda x, s: x.select_scatter(s[:, 0], 1, -2),
    "one_hot": lambda x, s: torch.nn.functional.one_hot(INDEX, x.shape[1]),
}


@pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")
@pytest.mark.parametrize("capture", ["torch.export", "direct"])
@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_beyond_a_tensor_is_refused(name: str, capture: Any) -> None:
    model, part = WRITES[name], torch.randn(3, 2)
    try:
        program = irkit.to_onnx(model, (torch.randn(3, 5), part), dynamic_shapes=({1: "n"}, None), capture=capture)
    except IrkitError:
        assert name == "one_hot"  # whose number of classes torch.export takes from the example
        program = None
    with pytest.raises(IrkitError):
        irkit.to_onnx(model, (torch.randn(3, 0), part), capture=capture)
    for count in (0, 1, 2, 3, 4, 5, 7):
        x = torch.randn(3, count)
        try:
            expected = model(x, part)
        except (RuntimeError, IndexError):
            if program is not None:
                with pytest.raises(IrkitError):
                    program(x, part)
            continue
        assert program is None or torch.equal(program(x, part), expected)


def test_lengths_beyond_the_frames_or_the_labels_are_refused() -> None:
    scores, labels, joined = (
        torch.randn(5, 2, 4).log_softmax(-1),
        torch.randint(1, 4, (2, 3)),
        torch.randint(1, 4, (5,)),
    )
    model = torch.nn.functional.ctc_loss
    for targets in (labels, joined):
        lengths = (torch.tensor([5, 4]), torch.tensor([3, 2]))
        program = irkit.to_onnx(model, (scores, targets, *lengths))
        for frames, counts in (
            ([5, 5], [3, 2]),
            ([6, 4], [3, 2]),
            ([-1, 4], [3, 2]),
            ([5, 4], [4, 2]),
            ([5, 4], [3, -1]),
        ):
            given = scores, targets, torch.tensor(frames), torch.tensor(counts)
            try:
                expected = model(*given)
            except RuntimeError:
                with pytest.raises(IrkitError):
                    program(*given)
            else:
                torch.testing.assert_close(program(*given), expected)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_that_begin_beyond_the_indices_or_not_at_0_are_refused(mode: str, last: bool) -> None:
    weight, indices = torch.randn(6, 3), torch.tensor([0, 2, 5, 1])

    def model(indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(indices, weight, offsets, mode=mode, include_last_offset=last)

    program = irkit.to_onnx(model, (indices, torch.tensor([0, 2, 4])), dynamic_shapes=({0: "n"}, {0: "bags"}))
    for offsets in ([0, 2, 4], [0, 4], [0, 5], [1, 3], [0, 0, 3], [0, 2, 5]):
        given = indices, torch.tensor(offsets)
        try:
            expected = model(*given)
        except RuntimeError:
            with pytest.raises(IrkitError):
                program(*given)
        else:
            torch.testing.assert_close(program(*given), expected)


ATEN = torch.ops.aten
WEIGHT, PLACE = torch.randn(3), torch.tensor([-7, -1, 0, 2, 9])
TAKEN, ONES = torch.tensor([True, True, False, True, True]), torch.ones(5)
BATCHES: dict[str, Callable[[torch.Tensor], Any]] = {
    "a batch that is learnt from": lambda x: ATEN._native_batch_norm_legit.no_stats(x, None, None, True, 0.5, 1e-5),
    "a batch that is not": lambda x: ATEN._native_batch_norm_legit_no_training(x, None, None, WEIGHT, ONES[:3], 0, 1),
    "deviations, 2 added": lambda x: torch.std_mean(x, dim=0, correction=-2),
    "variances, a half added": lambda x: torch.var(x, dim=(0, 2), correction=-0.5),
    "what lies within": lambda x: ATEN._unsafe_masked_index(x, TAKEN, [None, PLACE % 3, PLACE], 3.0),
    "added within": lambda x: ATEN._unsafe_masked_index_put_accumulate(x.mT, TAKEN, [None, PLACE, PLACE % 2], ONES),
    "margins": lambda x: torch.nn.functional.multi_margin_loss(x[:, :, 0], x[:, 0, 0].long() * 0),
    "an image": lambda x: torch.nn.functional.conv_transpose1d(x, torch.ones(3, 2, 2), padding=2, stride=2),
    "trapezoids of integers": lambda x: torch.trapezoid(x.long(), dim=0),
}  # fmt: skip


@pytest.mark.parametrize("capture", ["torch.export", "direct"])
@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_nothing_and_of_one_are_eagers(name: str, capture: Any) -> None:
    model = BATCHES[name]
    program = irkit.to_onnx(model, (torch.randn(4, 3, 5),), dynamic_shapes=({0: "n", 2: "length"},), capture=capture)
    for shape in ((4, 3, 5), (0, 3, 5), (2, 3, 0), (1, 3, 1), (2, 3, 2), (3, 3, 3), (0, 3, 0)):
        x = torch.randn(shape)
        try:
            expected = model(x)
        except (RuntimeError, IndexError):
            with pytest.raises(IrkitError):
                program(x)
            continue
        try:
            found = program(x)
        except ContractError:  # of no integers torch gives others than of some
            assert name == "trapezoids of integers" or (name in ("margins", "an image") and expected.numel() == 0)
            continue
        if name != "margins" or shape[0]:  # of no items, torch gives what memory held
            torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("capture", ["torch.export", "direct"])
def test_segments_that_do_not_fit_are_refused(unsafe: bool, capture: Any) -> None:
    def by_lengths(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return torch.segment_reduce(x, "max", lengths=lengths, axis=0, unsafe=unsafe)

    def by_offsets(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return torch.segment_reduce(x, "sum", offsets=offsets, axis=0, unsafe=unsafe)

    x = torch.randn(5, 2)
    varying = {0: "n"}, {0: "segments"}
    program = irkit.to_onnx(by_lengths, (x, torch.tensor([2, 3])), dynamic_shapes=varying, capture=capture)
    for lengths, fits in (([5], True), ([0, 5, 0], True), ([2, 2], unsafe), ([6], False), ([-1, 6], False)):
        given = x, torch.tensor(lengths)
        if fits:
            torch.testing.assert_close(program(*given), by_lengths(*given))
        else:
            with pytest.raises(ContractError, match="stretches"):
                program(*given)
    program = irkit.to_onnx(by_offsets, (x, torch.tensor([0, 2, 5])), dynamic_shapes=varying, capture=capture)
    for offsets, fits in (([0, 5], True), ([1, 2, 2], True), ([0, 6], False), ([-1, 5], False), ([3, 1], False)):
        given = x, torch.tensor(offsets)
        if fits:
            torch.testing.assert_close(program(*given), by_offsets(*given))
        else:
            with pytest.raises(ContractError, match="stretches"):
                program(*given)


CUT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "before": lambda x: torch.nn.functional.pad(x, (0, 0, -2, 2)),
    "behind": lambda x: torch.nn.functional.pad(x, (0, 0, 1, -3)),
    "both": lambda x: torch.nn.functional.pad(x, (0, 0, -1, -1)),
    "by a size": lambda x: torch.nn.functional.pad(x, (0, 0, 1 - x.shape[0] // 2, 2)),
}


@pytest.mark.parametrize("capture", ["torch.export", "direct"])
@pytest.mark.parametrize("name", CUT)
def test_more_than_there_is_is_not_cut_whatever_is_added_besides(name: str, capture: Any) -> None:
    model = CUT[name]
    program = irkit.to_onnx(model, (torch.randn(5, 3),), dynamic_shapes=({0: "n"},), capture=capture)
    for rows in (5, 4, 3, 2, 1, 0):
        x = torch.randn(rows, 3)
        try:
            expected = model(x)
        except RuntimeError:
            with pytest.raises(IrkitError):
                program(x)
            with pytest.raises(IrkitError):
                irkit.to_onnx(model, (x,), capture=capture)
            continue
        assert torch.equal(program(x), expected)


def test_what_torch_makes_of_nothing_is_so_or_refused() -> None:
    """Weights of nothing are counted in integers; there are no labels where lengths say that there are."""
    nothing = torch.zeros(0, dtype=torch.int64), torch.zeros(0)
    program = irkit.to_onnx(torch.bincount, nothing, capture="direct")
    assert program(*nothing).dtype is torch.int64
    with pytest.raises(IrkitError):
        irkit.to_onnx(torch.bincount, nothing, capture="torch.export")
    scores = torch.randn(5, 2, 4).log_softmax(2), torch.ones(2, 0, dtype=torch.int64)
    lengths: Any = (5, 5), (2, 2)
    with pytest.raises(IrkitError, match="0 labels in a row"):
        irkit.to_onnx(lambda x, y: torch.nn.functional.ctc_loss(x, y, *lengths), scores, capture="torch.export")
