"""Sizes that only the data tells, of examples that find none, one or several: a program gives what eager gives for data
in which any other number is found, or refuses it, and so does its file by itself."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import irkit
from irkit.errors import IrkitError

Ways = dict[str, Callable[..., Any]]

TAKEN: Ways = {
    "mask": lambda x, keep: x[keep],
    "masked_select": lambda x, keep: torch.masked_select(x, keep),
    "nonzero": lambda x, keep: x[torch.nonzero(keep)[:, 0]],
    "where": lambda x, keep: x[torch.where(keep)[0]],
    "unique": lambda x, keep: torch.unique(x * keep)[1:],
    "unique_consecutive": lambda x, keep: torch.unique_consecutive(x * keep)[1:],
    "repeat_interleave": lambda x, keep: torch.repeat_interleave(x, keep.long()),
    "item": lambda x, keep: x[: keep.sum().item()],
    "tolist": lambda x, keep: x[: keep.sum()[None].tolist()[0]],
    "topk": lambda x, keep: x.topk(min(3, torch.where(keep)[0].size(0))).values,
    "topk of item": lambda x, keep: x.topk(keep.sum().item()).values,
    "sorted": lambda x, keep: x[keep].sort(descending=True).values,
    "masks joined": lambda x, keep: torch.cat([x[keep], x[keep & (x > 4)]]),
    "arange": lambda x, keep: torch.arange(keep.sum().item()).float(),
}
"""Rows of which the data tells how many there are."""

ASKED: Ways = {
    "not": lambda r: r,
    "numel": lambda r: r.new_full((1,), 7.0) if r.numel() == 0 else r * 2,
    "numel, of one size": lambda r: r.new_full((1,), 7.0) if r.numel() == 0 else r.sum()[None],
    "len": lambda r: r + 1 if len(r) == 0 else torch.cat([r, r]),
    "truth": lambda r: r - 1 if r.shape[0] else r.new_zeros(2),
    "one": lambda r: r * 3 if r.shape[0] == 1 else r,
    "few": lambda r: r * (2 if r.shape[0] < 2 else 3),
    "min": lambda r: r[: min(2, r.shape[0])],
    "max": lambda r: r.new_zeros(max(1, r.shape[0])),
    "loop": lambda r: sum((r[i : i + 1] for i in range(r.shape[0])), torch.ones(1)),
    "joined where any": lambda r: torch.cat([each for each in (r, r[r > 5]) if each.numel()] + [torch.ones(1)]),
    "told twice": lambda r: (r, r.new_full((2,), float(r.numel() > 0))),
    "padded": lambda r: torch.cat([r, r.new_full((1,), 5.0 if r.numel() == 0 else 6.0)]),
    "largest": lambda r: r.max() if r.numel() else r.new_tensor(-1.0),
    "split": lambda r: sum((each.sum() for each in r.split(2)), torch.zeros(())),
    "factor": lambda r: r.sum() * r.shape[0],
}
"""What a model asks of how many there are."""


class Found(torch.nn.Module):
    """Some of a row of numbers, and what becomes of them."""

    def __init__(self, taken: str, asked: str) -> None:
        super().__init__()
        self.taken, self.asked = TAKEN[taken], ASKED[asked]

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> Any:
        return self.asked(self.taken(x, keep))


def data(count: int, size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """(numbers that differ, which to keep: `count` of them)."""
    return torch.arange(size) + 1.5, (torch.arange(size) * 5 % size) >= size - count


def as_list(found: Any) -> Sequence[torch.Tensor]:
    """The results of a model, or of a file."""
    several = found if isinstance(found, list | tuple) else [found]
    return [torch.as_tensor(each) for each in several]


def answer(run: Callable[[], Any]) -> Sequence[torch.Tensor] | None:
    """What is given; None where it is refused."""
    try:
        return as_list(run())
    except IrkitError:
        return None
    except Exception as error:  # ONNX Runtime's own classes have no common base
        if "onnxruntime" not in type(error).__module__:
            raise
        return None


def compare(taken: str, asked: str, example: int, varies: bool, counts: Sequence[int]) -> None:
    """Holds a program and its file to eager, which tells what is wrong; the example itself is never refused."""
    model = Found(taken, asked).eval()
    axes: Any = ({0: "n"}, {0: "n"}) if varies else None
    program = irkit.to_onnx(model, data(example), dynamic_shapes=axes)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        path = program.save(Path(folder) / "found.onnx")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    for count in (example, *counts):
        x, keep = data(count)
        feeds = {n: each.numpy() for n, each in (("x", x), ("keep", keep)) if n in names}
        expected = as_list(model(x, keep))
        for found in (answer(partial(program, x, keep)), answer(partial(session.run, None, feeds))):
            assert found is not None or count != example
            if found is not None:
                torch.testing.assert_close(found, expected, msg=f"{count} found: {found} for {expected}")


@pytest.mark.parametrize("asked", ASKED)
@settings(max_examples=12)
@given(draw=st.data())
def test_no_other_number_is_answered_as_the_example_is(asked: str, draw: st.DataObject) -> None:
    taken = draw.draw(st.sampled_from(sorted(TAKEN)))
    compare(taken, asked, draw.draw(st.sampled_from([0, 1, 2, 3])), draw.draw(st.booleans()), range(7))


@pytest.mark.parametrize("example", [0, 1, 2])
@pytest.mark.parametrize("asked", ["numel", "padded", "few"])
def test_a_condition_on_the_size_of_a_result_is_in_the_file(asked: str, example: int) -> None:
    """The call saw it by the sizes of its results; the file by itself answered what the example's way gives."""
    compare("mask", asked, example, False, range(7))


def suppressed(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """As torchvision's batched_nms goes about it: nothing where there is nothing, else what no better one is near."""
    if boxes.numel() == 0:
        return torch.empty((0,), dtype=torch.int64)
    near = (boxes[:, None] - boxes[None]).abs() < 0.5 + 0 * boxes.max()
    return torch.where(~(near & (scores[:, None] < scores[None])).any(1))[0]


def detections(levels: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """As FCOS ends: of each level the best few above a threshold, joined, and of these what is not suppressed."""
    boxes, scores = [], []
    for level in levels:
        keep = level > 0.5
        places, score = torch.where(keep)[0], level[keep]
        score, order = score.topk(min(3, places.size(0)))
        boxes.append(places[order].float())
        scores.append(score)
    joined, score = torch.cat(boxes), torch.cat(scores)
    kept = suppressed(joined, score)[:4]
    return joined[kept], score[kept]


@pytest.mark.parametrize("example", [0, 1, 5])
def test_a_detector_whose_example_found_nothing_refuses_what_has_detections(example: int, tmp_path: Path) -> None:
    def levels(count: int) -> list[torch.Tensor]:
        return [torch.where(data(count)[1], 0.6, 0.1) + torch.arange(6) / 100, torch.zeros(4) + 0.2 * (count > 2)]

    program = irkit.to_onnx(detections, (levels(example),))
    session = onnxruntime.InferenceSession(program.save(tmp_path / "detector.onnx"))
    names = [each.name for each in session.get_inputs()]
    for count in range(7):
        feeds = dict(zip(names, (each.numpy() for each in levels(count)), strict=True))
        for found in (answer(partial(program, levels(count))), answer(partial(session.run, None, feeds))):
            assert (found is not None) == ((count == 0) == (example == 0)), count
            if found is not None:
                torch.testing.assert_close(found, as_list(detections(levels(count))))


class ByMask(torch.nn.Module):
    """Rows that a mask chooses, written where the same mask, computed anew, says."""

    def forward(self, x: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        special = kinds == 3
        rows = x[~special] * 2
        x = x.clone()
        x[~special] += rows
        x[kinds == 3] = x[special] - 1
        return x


def test_masks_that_are_computed_alike_count_the_same() -> None:
    x, kinds = torch.randn(4, 3), torch.tensor([3, 1, 3, 2])
    program = irkit.to_onnx(ByMask(), (x, kinds), dynamic_shapes=({0: "n"}, {0: "n"}))
    assert not any("u" in fact.text for fact in program.graph.signature.facts)
    for of in ([1, 1], [3, 3, 3], [2, 3, 3, 1, 3]):
        given = torch.randn(len(of), 3), torch.tensor(of)
        torch.testing.assert_close(program(*given), ByMask()(*given))


def test_masks_that_are_computed_otherwise_are_compared() -> None:
    def model(x: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[kinds > 2] += x[kinds == 3]
        return x

    shapes = ({0: "n"}, {0: "n"})
    program = irkit.to_onnx(model, (torch.randn(4, 3), torch.tensor([3, 1, 3, 2])), dynamic_shapes=shapes)
    with pytest.raises(IrkitError):
        program(torch.randn(3, 3), torch.tensor([3, 4, 3]))
