"""What leaves branches and loops on data may share memory with other tensors: then it is refused to write one of them
and to read another after that, since eager writes both; everything else is as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from irkit.errors import IrkitError
from lowering.direct.tensors import Group
from lowering.errors import CaptureError
from tests.support.written_functions import function_of


def appended_view_of_what_a_loop_writes(x: Tensor, n: Tensor) -> Any:
    out, y = [], x * 1
    for _ in n.tolist():
        out.append(y[:2])
        y.add_(1)
    return torch.cat(out)


def appended_tensor_that_the_next_round_writes(x: Tensor, n: Tensor) -> Any:
    out, h = [], x * 1
    for k in n.tolist():
        h.add_(k)
        h = h * 2
        out.append(h)
    return torch.stack(out), h


def appended_view_of_what_is_written_later(x: Tensor, n: Tensor) -> Any:
    out, y = [], x * 1
    for _ in n.tolist():
        out.append(y[:2])
    y.mul_(10)
    return torch.cat(out)


def element_that_is_written(x: Tensor, n: Tensor) -> Any:
    out, y = [], x * 1
    for k in n.tolist():
        out.append(y[:k])
    out[0].mul_(10)
    return y


def element_of_a_ragged_list_that_is_written(x: Tensor, n: Tensor) -> Any:
    out = []
    for k in n.tolist():
        out.append(x[:k] * 2)
    out[0].add_(1)
    return torch.cat(out)


def view_that_a_loop_leaves(x: Tensor, n: Tensor) -> Any:
    y = x * 1
    z = y
    for _ in n.tolist():
        z = y[:2]
    z.mul_(10)
    return y


def variable_written_in_a_round_that_is_a_view_after_it(x: Tensor, n: Tensor) -> Any:
    y = x * 1
    z = y * 1
    for k in n.tolist():
        z.mul_(k)
        z = y[:]
    return y, z


def view_that_a_branch_leaves(x: Tensor, n: Tensor) -> Any:
    y = x * 1
    z = y[:2] if n[0] > 1 else y[1:3]
    y.mul_(10)
    return z


def one_of_two_tensors(x: Tensor, n: Tensor) -> Any:
    y, w = x * 1, x * 2
    z = y if n[0] > 1 else w
    z.mul_(10)
    return y, w


def both_written_in_a_branch(x: Tensor, n: Tensor) -> Any:
    y = x * 1
    z = y[:2]
    if n[0] > 1:
        z.add_(1)
        y.mul_(2)
    return y, z


def both_written_in_a_loop(x: Tensor, n: Tensor) -> Any:
    y = x * 1
    z = y[:2]
    for _ in n.tolist():
        z.add_(1)
        y.mul_(2)
    return y, z


def list_of_two_names(x: Tensor, n: Tensor) -> Any:
    out: list[Tensor] = []
    same = out
    for k in n.tolist():
        out.append(x * k)
        same.append(x + k)
    return torch.cat(same)


def fill(out: list[Tensor], x: Tensor, numbers: list[int]) -> None:
    for k in numbers:
        out.append(x * k)


def list_that_a_function_fills(x: Tensor, n: Tensor) -> Any:
    out = [x]
    fill(out, x, n.tolist())
    return torch.cat(out)


def lists_in_a_list(x: Tensor, n: Tensor) -> Any:
    found: list[Tensor] = []
    more: list[Tensor] = []
    both = [found, more]
    for k in n.tolist():
        found.append(x * k)
        more.append(x[:k])
    return torch.cat([torch.cat(each) for each in both])


def list_of_another_name(x: Tensor, n: Tensor) -> Any:
    found: list[Tensor] = []
    same = found
    for k in n.tolist():
        found.append(x * k)
    found.append(x)
    return torch.stack(same) * len(same)


def list_that_is_replaced(x: Tensor, n: Tensor) -> Any:
    found: list[Tensor] = []
    before = [found]
    for k in n.tolist():
        found.append(x * k)
    found = found + [x]  # noqa: RUF005 - what irkit takes
    return torch.stack(before[0]).sum() + torch.stack(found) * len(before[0])


def length_in_a_round(x: Tensor, n: Tensor) -> Any:
    found: list[Tensor] = []
    same = [found]
    for k in n.tolist():
        found.append(x * k)
        x = x + len(same[0])
    return torch.stack(found)


def last_element_in_a_round(x: Tensor, n: Tensor) -> Any:
    found = [x]
    same = [found]
    for k in n.tolist():
        found.append(x * k)
        x = x + same[0][-1]
    return torch.stack(found)


def list_appended_to_by_another_name(x: Tensor, n: Tensor) -> Any:
    found: list[Tensor] = []
    same = [found]
    for k in n.tolist():
        found.append(x * k)
    same[0].append(x)
    return torch.stack(found)


def dict_in_a_round(x: Tensor, n: Tensor) -> Any:
    found = {"sum": x * 0}
    same, y = [found], x * 0
    for k in n.tolist():
        found["sum"] = found["sum"] + x * k
        y = y + same[0]["sum"]
    return y


def row_that_the_next_round_writes(x: Tensor, n: Tensor) -> Any:
    y = (x * 1).reshape(-1, 1)
    before = y[0] * 1
    for row in y:
        before.add_(1)
        before = row
    return y, n


def row_of_what_a_round_writes(x: Tensor, n: Tensor) -> Any:
    y = (x * 1).reshape(-1, 1)
    for i, row in enumerate(y):
        y[i] = row * 2
        y[0] = row
    return y, n


def view_of_what_another_name_may_be(x: Tensor, n: Tensor) -> Any:
    y = x * 1
    z = y.view(-1) if n[0] > 1 else y
    w = y[:] if n[0] > 2 else y + 0
    z.add_(1)
    return w


def name_of_what_another_view_may_be(x: Tensor, n: Tensor) -> Any:
    y = x * 1
    z = y.view(-1) if n[0] > 1 else y
    w = y[:] if n[0] > 2 else y + 0
    w.add_(1)
    return z


def carried_from_one_variable_to_another_and_on(x: Tensor, n: Tensor) -> Any:
    y, z, w = x * 1, x * 2, x * 3
    first = y
    for _ in n.tolist():
        w = z
        z = y
        y = y + 1
    w.add_(1)
    return first


def first_of_what_is_carried_from_one_variable_to_another(x: Tensor, n: Tensor) -> Any:
    y, z, w = x * 1, x * 2, x * 3
    first = y
    for _ in n.tolist():
        w = z
        z = y
        y = y + 1
    first.add_(1)
    return w


REFUSED = (
    appended_view_of_what_a_loop_writes, appended_tensor_that_the_next_round_writes,
    appended_view_of_what_is_written_later, element_that_is_written, element_of_a_ragged_list_that_is_written,
    view_that_a_loop_leaves, variable_written_in_a_round_that_is_a_view_after_it, view_that_a_branch_leaves,
    one_of_two_tensors, both_written_in_a_branch, both_written_in_a_loop, list_of_two_names,
    length_in_a_round, last_element_in_a_round, dict_in_a_round,
    row_that_the_next_round_writes, row_of_what_a_round_writes, view_of_what_another_name_may_be,
    name_of_what_another_view_may_be, carried_from_one_variable_to_another_and_on,
    first_of_what_is_carried_from_one_variable_to_another,
)  # fmt: skip


def written_behind_a_branch_that_may_pass_it_on(x: Tensor, n: Tensor) -> Any:
    h = x * 1
    if n[0] > 1:
        h = h.view(-1)
    h += 1
    return h


def appended_before_it_is_written_anew(x: Tensor, n: Tensor) -> Any:
    out, h = [], x * 1
    for k in n.tolist():
        h = h * 1
        out.append(h)
        h.add_(k)
    return torch.stack(out)


def views_of_what_is_not_written(x: Tensor, n: Tensor) -> Any:
    out, h = [], x * 1
    for k in n.tolist():
        h = h + k
        out.append(h[:2])
    return torch.stack(out), h


def sums_of_what_a_loop_writes(x: Tensor, n: Tensor) -> Any:
    out, h = [], x * 1
    for k in n.tolist():
        h += k
        out.append(h.sum())
    h.mul_(2)
    return torch.stack(out), h


def another_name_of_what_a_loop_writes(x: Tensor, n: Tensor) -> Any:
    y = x * 1
    z = y
    for k in n.tolist():
        z.add_(k)
    return y, z


def view_that_a_branch_writes(x: Tensor, n: Tensor) -> Any:
    y = x * 1
    z = y[:2]
    if n[0] > 1:
        z.add_(1)
    return y, z


def written_beside_one_of_two_tensors(x: Tensor, n: Tensor) -> Any:
    y, w = x * 1, x * 2
    z = y if n[0] > 1 else w
    v = y[:2] if n[0] > 2 else y[1:3]
    w.mul_(10)
    return y, v, z.shape[0]


FOLLOWED = (
    written_behind_a_branch_that_may_pass_it_on, appended_before_it_is_written_anew, views_of_what_is_not_written,
    sums_of_what_a_loop_writes, another_name_of_what_a_loop_writes, view_that_a_branch_writes,
    list_that_a_function_fills, lists_in_a_list, list_of_another_name, list_that_is_replaced,
    list_appended_to_by_another_name, written_beside_one_of_two_tensors,
)  # fmt: skip
EXAMPLE = (torch.arange(6.0), torch.tensor([2, 3]))
SHAPES = ({0: "a"}, {0: "b"})


@pytest.mark.parametrize("function", REFUSED, ids=lambda each: each.__name__)
def test_what_would_be_written_by_another_name_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(IrkitError, match=r"memory|two names|another name"):
        irkit.to_onnx(function, EXAMPLE, dynamic_shapes=SHAPES, rewrite=True)


@pytest.mark.parametrize("function", FOLLOWED, ids=lambda each: each.__name__)
def test_what_no_other_name_sees_is_as_in_eager(function: Callable[..., Any]) -> None:
    program = irkit.to_onnx(function, EXAMPLE, dynamic_shapes=SHAPES, rewrite=True)
    for numbers in ([2, 3], [1, 0, 4], [3]):
        x, n = torch.arange(7.0), torch.tensor(numbers)
        torch.testing.assert_close(program(x, n), function(x, n))


class Holding(torch.nn.Module):
    """A module that keeps a tensor in an attribute, which a loop writes in place."""

    def __init__(self, rebinds: bool) -> None:
        super().__init__()
        self.rebinds, self.held = rebinds, torch.zeros(0)

    def forward(self, x: Tensor, n: Tensor) -> Any:
        self.held = x * 1
        view, total = self.held[:1], x.sum() * 0
        for k in n.tolist():
            self.held.add_(k)
            total = total + self.held.sum()
            if self.rebinds:
                self.held = self.held * 2
        return self.held, view, total


def test_an_attribute_that_a_loop_writes_is_read_in_it_and_by_its_views() -> None:
    model = Holding(rebinds=False)
    program = irkit.to_onnx(model, EXAMPLE, dynamic_shapes=SHAPES, rewrite=True)
    for numbers in ([2, 3], [1, 0, 4], [3]):
        x, n = torch.arange(7.0), torch.tensor(numbers)
        torch.testing.assert_close(program(x, n), model(x, n))


def test_what_an_attribute_held_before_a_loop_that_writes_and_replaces_it_is_not_read() -> None:
    with pytest.raises(IrkitError, match="memory"):
        irkit.to_onnx(Holding(rebinds=True), EXAMPLE, dynamic_shapes=SHAPES, rewrite=True)


def left_by_a_branch(x: Tensor, n: Tensor) -> Any:
    y = x * 2
    z = y[:1]
    if y.sum() > 5:
        y = y + 1
    z.add_(1)
    return y, z


def left_by_a_loop(x: Tensor, n: Tensor) -> Any:
    y = x * 2
    z = y
    k = 0
    while k < n[0]:
        z = z + k
        k += 1
    z.mul_(2)
    return y, z


def left_by_a_loop_of_two(x: Tensor, n: Tensor) -> Any:
    y = x * 2
    z = y[:1]
    k = 0
    while k < n[0]:
        y, z, k = y + k, z * 2, k + 1
    z.mul_(2)
    return y, z


def computed_anew(x: Tensor, n: Tensor) -> Any:
    y = x * 2
    z = y + 1 if y.sum() > 5 else y - 1
    z.mul_(2)
    return y, z


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize(
    "function", [left_by_a_branch, left_by_a_loop, left_by_a_loop_of_two], ids=lambda each: each.__name__
)
def test_what_may_be_one_tensor_is_refused_by_either_way_of_capture(function: Callable[..., Any], capture: Any) -> None:
    with pytest.raises(IrkitError, match="share its memory"):
        irkit.to_onnx(function, EXAMPLE, dynamic_shapes=({0: "a"}, None), rewrite=True, capture=capture)


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_what_both_branches_compute_is_written(capture: Any) -> None:
    program = irkit.to_onnx(computed_anew, EXAMPLE, dynamic_shapes=({0: "a"}, None), rewrite=True, capture=capture)
    for x in (torch.ones(2), torch.ones(9), torch.ones(1)):
        torch.testing.assert_close(program(x, EXAMPLE[1]), computed_anew(x, EXAMPLE[1]))


def views_passed_through_branches(x: Tensor, n: Tensor) -> Any:
    parts = [x[i] for i in range(x.shape[0])]
    if n[0] > 1:
        parts = [each.view(-1) for each in parts]
    if n[0] > 2:
        parts = [each[:] for each in parts]
    return torch.stack(parts)


def views_swapped_in_a_loop(x: Tensor, n: Tensor) -> Any:
    ones, others = [x[i] for i in range(x.shape[0])], [x[i] * 1 for i in range(x.shape[0])]
    for _ in n.tolist():
        ones, others = others, ones
    return torch.stack(ones)


def elements_of_a_list_that_a_loop_made(x: Tensor, n: Tensor) -> Any:
    found = []
    for k in n.tolist():
        found.append(x[0] * k)
    return sum(found[i % 2] for i in range(x.shape[0]))


@pytest.mark.parametrize(
    "function",
    [views_passed_through_branches, views_swapped_in_a_loop, elements_of_a_list_that_a_loop_made],
    ids=lambda each: each.__name__,
)
def test_links_between_many_tensors_of_one_memory_are_one_record(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each two of them took gigabytes for a list of two thousand."""
    told: list[Any] = []
    add = Group.add
    monkeypatch.setattr(Group, "add", lambda *args, **more: (told.append(1), add(*args, **more)))
    counts = []
    for rows in (6, 12):
        told.clear()
        example = (torch.rand(rows, 2), torch.tensor([2, 3]))
        irkit.to_onnx(function, example, dynamic_shapes=(None, {0: "b"}), rewrite=True, capture="direct", widen=False)
        counts.append(len(told))
    assert 0 < counts[1] <= 2.2 * counts[0]


def written_after_a_branch(x: Any, n: Any) -> Any:
    y = x * 2
    z = y[:1]
    if y.sum() > 5:
        if z.sum() > 3:
            y = y + 1
        y.add_(2)
        y = y + 1
    return y, z


def written_where_a_branch_gave_it(x: Any, n: Any) -> Any:
    y = x * 2
    z = y.view(-1)
    if y.sum() > 5:
        if z.sum() > 3:
            y = z.view(-1)
        y.add_(2)
    return y, z


@pytest.mark.parametrize("function", [written_after_a_branch, written_where_a_branch_gave_it])
def test_what_a_branch_in_a_branch_leaves_is_written_for_tensors_around_both(function: Any) -> None:
    example = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([2, 1])
    with pytest.raises(IrkitError, match="may share its memory with another tensor"):
        irkit.to_onnx(function, example, rewrite=True, capture="direct")


LOST = {
    "a part of another": ["if x.sum() > 3:", "    y = z[:1]", "    y.add_(1)"],
    "a part with a name of its own": ["if x.sum() > 3:", "    w = z[:1]", "    w.add_(1)"],
    "a part without a name": ["if x.sum() > 3:", "    z.view(-1).add_(1)"],
    "the tensor itself": ["if x.sum() > 3:", "    y = z", "    y.add_(1)"],
    "an element": ["ys = [z, x]", "if x.sum() > 3:", "    ys[0].add_(1)"],
    "a branch in a branch": ["if x.sum() > 3:", "    if n[0] > 1:", "        w = z[:1]", "        w.add_(1)"],
    "a loop": ["for k in n.tolist():", "    w = z[:1]", "    w.add_(k)"],
    "a loop that reads it": ["for k in n.tolist():", "    y = y + z", "    w = z[:1]", "    w.add_(k)"],
    "a branch in a loop that reads it": [
        "for k in n.tolist():", "    y = y + z", "    if k > 1:", "        w = z[:1]", "        w.add_(k)",
    ],
    "what a loop carries": ["for k in n.tolist():", "    w = y.view(-1)", "    w.add_(1)", "    y = y * 2"],
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
def test_what_a_body_writes_by_another_name_is_not_lost(name: str) -> None:
    lines = ["y = x * 2", "z = y[:1]", *LOST[name], "return y, z"]
    text = "def f(x, n):\n" + "".join(f"    {line}\n" for line in lines)
    function = function_of(text, f"/fuzz/lost_{[*LOST].index(name)}.py", space={"torch": torch})
    example = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([2, 1])
    try:
        program = irkit.to_onnx(function, example, dynamic_shapes=({0: "a"}, {0: "b"}), rewrite=True, capture="direct")
    except CaptureError as error:
        assert "by another name" in str(error) or "share its memory" in str(error)
        return
    for given in (example, (-example[0], example[1]), (torch.ones(2), torch.tensor([3]))):
        torch.testing.assert_close(program(*given), function(*given))


def a_part_within(x: Any, n: Any) -> Any:
    y = x * 2
    if x.sum() > 3:
        w = y[:1]
        w.add_(1)
        y = y + w
    return y


def a_part_that_nothing_reads(x: Any, n: Any) -> Any:
    y = x * 2
    z = y * 1
    if x.sum() > 3:
        w = y[:1]
        w.add_(1)
        z = z + w
    return z


@pytest.mark.parametrize("function", [a_part_within, a_part_that_nothing_reads])
def test_what_a_body_writes_by_another_name_is_read_in_it(function: Any) -> None:
    example = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([2, 1])
    program = irkit.to_onnx(function, example, rewrite=True, capture="direct")
    for given in (example, (-example[0], example[1])):
        torch.testing.assert_close(program(*given), function(*given))
