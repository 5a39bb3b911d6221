"""Lists to which a branch on data in a loop on data appends: they gain what the branch appends that is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError
from tests.lowering.control_flow.test_functions import same


def numbers(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    for test in tests:
        if test > 2:
            found.append(1.0)
        else:
            found.append(2.0)
    return torch.tensor(found)


def tensors(x: Any, tests: Any) -> Any:
    found: list[Any] = []
    for i, test in enumerate(tests):
        if test > 2:
            found.append((x.sum(0), i))
        else:
            found.append((x.sum(0) + test, 7))
    return torch.stack([each * number for each, number in found])


def unequal(x: Any, tests: Any) -> Any:
    found: list[Any] = []
    for test in tests:
        if test > 2:
            found.append(x[:1])
        else:
            found.append(x[:test] + 1)
    return torch.cat(found)


def several(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    for test in tests:
        found.append(0.0)
        if test > 2:
            if test > 3:
                found.append(found[-1] + 1)
                found += [7.0]
            else:
                found.extend([3.0, 6.0])
        else:
            found.append(2.0)
            found.append(4.0)
    return torch.tensor(found)


@pytest.mark.parametrize("model", [numbers, tensors, unequal, several])
def test_a_list_gains_what_the_branch_appends_that_is_taken(model: Callable[..., Any]) -> None:
    example = torch.rand(6, 2), torch.tensor([1, 2, 3])
    program = irkit.to_onnx(model, example, dynamic_shapes=({0: "n"}, {0: "m"}), rewrite=True, capture="direct")
    for tests in ([4, 1, 3, 1], [5], [0, 0]):
        inputs = torch.rand(7, 2), torch.tensor(tests)
        torch.testing.assert_close(program(*inputs), model(*inputs))


def one_way_only(_: Any, tests: Any) -> Any:
    found: list[Any] = [0.0]
    for test in tests:
        if test > 2:
            continue
        found.append(1.0)
    return torch.tensor(found)


def rows_above(x: Any, tests: Any) -> Any:
    found = [x[0]]
    for test in tests:
        if test > 2:
            found.append(x[0] * test)
    return torch.stack(found), len(found)


def pairs(x: Any, tests: Any) -> Any:
    found: list[Any] = [(x[0], 0)]
    for i, test in enumerate(tests):
        if test <= 2:
            found.append((x[1] * test, i))
    return torch.stack([each for each, _ in found]), torch.tensor([i for _, i in found])


def one_more_than_the_other(x: Any, tests: Any) -> Any:
    found = [x[0]]
    for test in tests:
        if test > 2:
            found.append(x[0] * test)
            found.append(x[1] * len(found))
            if test > 3:
                found.append(x[2])
        else:
            found.append(x[3])
        found.append(x[4] * len(found))
    return torch.stack(found), len(found)


def parted(x: Any, tests: Any) -> Any:
    above, below = [x[0]], [x[0]]
    for test in tests:
        if test > 2:
            above.append(x[1] * test)
        else:
            below.append(x[2] * test)
    return torch.stack(above), torch.stack(below), len(above) - len(below)


def until_there_are_many(x: Any, tests: Any) -> Any:
    found = [x[0]]
    for test in tests:
        if test > 2:
            found.append(x[0] * test)
            if len(found) > 2:
                break
    return torch.stack(found)


def filtered_twice(x: Any, tests: Any) -> Any:
    found = [x[0], x[1]]
    for test in tests:
        if test > 2:
            found += [x[0] * test, x[1]]
    for test in tests:
        if test < 2:
            found.append(x[2])
    return torch.stack(found[1:]), found[-1]


def behind_the_loop(x: Any, tests: Any) -> Any:
    found = [x[0]]
    for test in tests:
        found.append(x[0] * test)
    other = found
    if x[0].sum() > 0.8:
        found.append(x[1])
    for test in tests:
        if test > 2:
            other.append(x[2])
    return torch.stack(found), len(other)


def without_a_loop(x: Any, tests: Any) -> Any:
    found = [x[0]]
    if tests.sum() > 6:
        found.append(x[1])
    if x[0].sum() > 0.8:
        found.extend([x[2], x[3]])
    elif x[1].sum() > 0.8:
        found.append(x[4])
    return torch.stack(found), len(found)


def texts(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    for test in tests:
        if test > 2:
            found.append("above")
    return tests * len(found)


ONE_WAY = [
    one_way_only, rows_above, pairs, one_more_than_the_other, parted, until_there_are_many, filtered_twice,
    behind_the_loop, without_a_loop, texts,
]  # fmt: skip


@pytest.mark.parametrize("model", ONE_WAY, ids=lambda each: each.__name__)
def test_a_list_gains_what_one_way_only_appends(model: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    example = torch.rand(6, 2), torch.tensor([1, 2, 3])
    program = irkit.to_onnx(model, example, dynamic_shapes=({0: "n"}, {0: "m"}), rewrite=True, capture="direct")
    for tests in ([4, 1, 3, 1], [5], [0, 0], [3, 3, 3, 3, 4, 5]):
        for _ in range(3):
            inputs = torch.rand(7, 2), torch.tensor(tests)
            same(model(*inputs), program(*inputs))


class Suppression(torch.nn.Module):
    """Boxes that overlap one with a higher score are left out, one by one, as detectors do it in Python."""

    def forward(self, boxes: Any, scores: Any) -> Any:
        kept: list[Any] = []
        gone = torch.zeros(boxes.shape[0], dtype=torch.bool)
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        for i in scores.argsort(descending=True):
            if gone[i]:
                continue
            kept.append(i)
            low = torch.maximum(boxes[i, :2], boxes[:, :2])
            high = torch.minimum(boxes[i, 2:], boxes[:, 2:])
            shared = (high - low).clamp(min=0).prod(-1)
            gone = gone | (shared / (areas[i] + areas - shared) > 0.5)
        return boxes[torch.stack(kept)]


def test_a_loop_that_suppresses_boxes_is_as_in_eager() -> None:
    torch.manual_seed(0)

    def drawn(count: int) -> tuple[Any, Any]:
        corners = torch.rand(count, 2) * 10
        return torch.cat([corners, corners + torch.rand(count, 2) * 8], 1), torch.rand(count)

    model = Suppression()
    program = irkit.to_onnx(model, drawn(9), dynamic_shapes=({0: "n"}, {0: "n"}), rewrite=True, capture="direct")
    for count in (1, 9, 30, 60):
        inputs = drawn(count)
        same(model(*inputs), program(*inputs))


def at_the_front(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    for test in tests:
        if test > 2:
            found.insert(0, 1.0)
        else:
            found.insert(0, 2.0)
    return torch.tensor(found)


def by_another_name(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    last: list[Any] = []
    for test in tests:
        if test > 2:
            found.append(1.0)
            last = found
        else:
            found.append(2.0)
            last = found
    return torch.tensor(last)


def in_a_loop_within(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    for _each in tests:
        for _other in tests:
            found.append(1.0)
    return torch.tensor(found)


def read_in_the_loop(x: Any, tests: Any) -> Any:
    found = [x[0]]
    for test in tests:
        if test > found[-1].sum():
            found.append(x[0] * test)
    return torch.stack(found)


def unequal_on_one_way(x: Any, tests: Any) -> Any:
    found = [x[:1]]
    for test in tests:
        if test > 2:
            found.append(x[:test])
    return torch.cat(found)


REFUSED = [at_the_front, by_another_name, in_a_loop_within, read_in_the_loop, unequal_on_one_way]


@pytest.mark.parametrize("model", REFUSED)
def test_a_list_that_a_round_makes_longer_in_other_ways_is_refused(model: Callable[..., Any]) -> None:
    with pytest.raises(IrkitError):
        irkit.to_onnx(
            model, (torch.rand(6, 2), torch.tensor([1, 3, 2])), dynamic_shapes=({0: "n"}, {0: "m"}), rewrite=True
        )


def places_above(x: Any, tests: Any) -> Any:
    found: list[Any] = []
    for i, test in enumerate(tests):
        if test > 2:
            found.append(i)
    marked = tests * 1
    marked[found] = 0
    return tests[found], marked, x.T[:, found]


def truths_of_rows(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    for test in tests:
        found.append(bool(test > 2))
    return tests[found]


@pytest.mark.parametrize("model", [places_above, truths_of_rows])
def test_a_list_whose_length_data_tells_is_an_index(model: Callable[..., Any]) -> None:
    example = torch.rand(6, 2), torch.tensor([1, 2, 3])
    program = irkit.to_onnx(model, example, dynamic_shapes=({0: "n"}, {0: "m"}), rewrite=True, capture="direct")
    for tests in ([4, 1, 3, 1], [5], [0, 0], [3, 3, 3, 3, 4, 5]):
        inputs = torch.rand(7, 2), torch.tensor(tests)
        same(model(*inputs), program(*inputs))


def found_by_its_other_names(x: Any, _: Any) -> Any:
    found = [x[0]]
    other, held = found, {"rows": found}
    if x.sum() > 5:
        found.append(x[1])
    return torch.stack(other), len(held["rows"])


def changed_by_number(x: Any, _: Any) -> Any:
    found = [x[0], x[1]]
    if x.sum() > 5:
        found.append(x[2])
    found[0] = x[3]
    return torch.stack(found)


@pytest.mark.parametrize("model", [found_by_its_other_names, changed_by_number])
def test_a_list_that_a_branch_made_longer_is_one_list(model: Callable[..., Any]) -> None:
    example = torch.rand(6, 2), torch.tensor([1, 2, 3])
    program = irkit.to_onnx(model, example, dynamic_shapes=({0: "n"}, {0: "m"}), rewrite=True, capture="direct")
    for times in (0.1, 1.0, 10.0):
        inputs = torch.rand(7, 2) * times, torch.tensor([4])
        same(model(*inputs), program(*inputs))


def returned_list(x: Any, _: Any) -> Any:
    found = [x[0]]
    if x.sum() > 5:
        found.append(x[1])
    return found


def test_a_list_that_a_branch_made_longer_is_returned_as_a_list() -> None:
    example = torch.rand(6, 2), torch.tensor([1, 2, 3])
    program = irkit.to_onnx(returned_list, example, dynamic_shapes=({0: "n"}, {0: "m"}), rewrite=True, capture="direct")
    for times in (0.1, 10.0):
        inputs = torch.rand(7, 2) * times, torch.tensor([4])
        torch.testing.assert_close(program(*inputs), returned_list(*inputs))


def other_name_in_the_branch(x: Any, _: Any) -> Any:
    found = [x[0]]
    other = found
    if x.sum() > 5:
        found.append(x[1])
        count = len(other)
    else:
        found.append(x[2])
        count = len(other) + 1
    return x * count


def other_name_of_a_dict_in_the_branch(x: Any, _: Any) -> Any:
    held = {"x": x}
    other = held
    if x.sum() > 5:
        held["x"] = x * 2
        result = other["x"] * 1
    else:
        held["x"] = x * 3
        result = other["x"] * 4
    return result


def other_name_of_what_a_loop_made(x: Any, tests: Any) -> Any:
    found = [x[0]]
    for test in tests:
        found.append(x[0] * test)
    other = found
    if x.sum() > 5:
        found.append(x[1])
        count = len(other)
    else:
        count = len(other)
    return x * count


def written_behind(x: Any, _: Any) -> Any:
    rows = x.clone()
    found = [rows[0]]
    if x.sum() > 5:
        found.append(rows[1])
    rows.add_(1)
    return torch.stack(found)


def element_written(x: Any, _: Any) -> Any:
    rows = x.clone()
    found = [rows[0]]
    if x.sum() > 5:
        found.append(rows[1])
    found[-1].add_(1)
    return rows


def of_two_types(x: Any, _: Any) -> Any:
    found = [1, 2]
    if x.sum() > 5:
        found.append(0.5)  # type: ignore[arg-type]
    return torch.tensor(found)


def of_two_types_in_a_loop(x: Any, _: Any) -> Any:
    found = [torch.ones(2, dtype=torch.int64)]
    for row in x:
        found.append(row)
    return torch.stack(found)


def filled_by_a_function(x: Any, tests: Any) -> Any:
    found = [x[0]]
    for i in range(tests.shape[0]):
        append_if_above(found, x, tests[i])
    return torch.stack(found)


def append_if_above(found: list[Any], x: Any, test: Any) -> None:
    if test > 2:
        found.append(x[1])


APART = [
    (other_name_in_the_branch, "is used by another name"),
    (other_name_of_a_dict_in_the_branch, "is used by another name"),
    (other_name_of_what_a_loop_made, "is used by another name"),
    (written_behind, "may share its memory"),
    (element_written, "may share its memory"),
    (of_two_types, "several structures or types"),
    (of_two_types_in_a_loop, "several structures or types"),
    (filled_by_a_function, "changes a list in what it calls"),
]


@pytest.mark.parametrize(("model", "said"), APART, ids=lambda each: getattr(each, "__name__", ""))
def test_what_a_list_cannot_be_at_all_data_is_refused(model: Callable[..., Any], said: str) -> None:
    example = torch.rand(6, 2), torch.tensor([1, 2, 3])
    with pytest.raises(IrkitError, match=said):
        irkit.to_onnx(model, example, dynamic_shapes=({0: "n"}, {0: "m"}), rewrite=True, capture="direct")
