"""What torch puts in the place of numbers and sizes out of data is a condition of the program."""

from __future__ import annotations

import io
import itertools
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop
from torch.fx.experimental.proxy_tensor import make_fx

import irkit
from irkit.errors import IrkitError
from lowering.capture.capture import capture
from lowering.errors import CaptureError
from lowering.fold.lower import lower_captured
from tests.fuzz import conditions

MASK = torch.tensor([True, True, True, False, True, True, False, True, False])
FEWER = torch.tensor([True, True, True, False, True, True, False, False, False])
"""6 and 5 places."""


def number_is_constant(x: Any, mask: Any) -> Any:
    torch._check(mask.sum().item() == 6)
    return x * 2


def number_is_size(x: Any, mask: Any) -> Any:
    n = mask.sum().item()
    torch._check(n == x.shape[0])
    return x * n


def number_is_number(x: Any, mask: Any) -> Any:
    n, m = mask.sum().item(), (mask[:6].sum() + 1).item()
    torch._check(n == m)
    return x * n + m


def sum_of_numbers(x: Any, mask: Any) -> Any:
    n, m, k = mask.sum().item(), mask[:6].sum().item(), mask[6:].sum().item()
    torch._check(n == m + k)  # always
    torch._check(n - k * 2 == 4)
    return x * n


def size_is_constant(x: Any, mask: Any) -> Any:
    places = mask.nonzero()
    torch._check(places.shape[0] == 6)
    return places * 2


def size_is_size(x: Any, mask: Any) -> Any:
    places = mask.nonzero()
    torch._check(places.shape[0] == x.shape[0])
    return x + places[:, 0]


def size_is_multiple(x: Any, mask: Any) -> Any:
    torch._check(mask.nonzero().shape[0] * 2 == x.shape[0] * 2)
    return x * 2


def float_is_constant(x: Any, mask: Any) -> Any:
    f = (mask.sum() / 4).item()
    torch._check(f == 1.5)
    return x * f


def truth_is_false(x: Any, mask: Any) -> Any:
    torch._check(torch.sym_not((mask.sum() < 6).item()))
    return x * 2


def numbers_of_a_list(x: Any, mask: Any) -> Any:
    n, m = torch.stack([mask.sum(), (~mask).sum()]).tolist()
    torch._check(n == 6)
    return x * n + m


def merged(x: Any, mask: Any) -> Any:
    """As vision-language models put image features in the place of image tokens."""
    embeds = torch.zeros(9, 2)
    wide, features = mask[:, None].expand_as(embeds), torch.stack([x, x], 1)
    torch._check(embeds[wide].numel() == features.numel())
    return embeds.masked_scatter(wide, features)


CASES: list[tuple[Callable[..., Any], str]] = [
    (number_is_constant, "u0 == 6"),
    (number_is_size, "u0 == b"),
    (number_is_number, "u0 == u1"),
    (sum_of_numbers, "u0 - 2*u2 == 4"),
    (size_is_constant, "u0 == 6"),
    (size_is_size, "u0 == b"),
    (size_is_multiple, "== b"),
    (float_is_constant, "zuf0 == 1.5"),
    (truth_is_false, "is False"),
    (numbers_of_a_list, "u0 == 6"),
    (merged, "== 2*b"),
]


class Whole(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, mask: Any) -> Any:
        return self.function(x, mask)


@pytest.mark.parametrize(("function", "text"), CASES, ids=[function.__name__ for function, _ in CASES])
def test_an_equality_that_torch_folds_is_checked(function: Any, text: str) -> None:
    x = torch.randn(6)
    program = irkit.to_onnx(function, (x, MASK), dynamic_shapes={"x": {0: "b"}, "mask": None})
    irkit.verify(program.graph)
    irkit.verify(program.watched)
    torch.testing.assert_close(program(x, MASK), function(x, MASK))
    with pytest.raises(irkit.ContractError) as refusal:
        program(x, FEWER)
    assert text in refusal.value.what
    with pytest.raises(RuntimeError):
        function(x, FEWER)
    (line,) = [source for said, source in program.report.guards if text in said]
    assert f"{Path(__file__).name}" in line and "_check" in line
    told = {each["text"] for each in (*program.contract()["unchecked"], *program.contract()["guards"])}
    assert any(text in each for each in told)


def forms(model: torch.nn.Module, args: Any) -> dict[str, Any]:
    """Programs that torch makes of one model, by how."""
    auto = {"x": {0: torch.export.Dim.AUTO}, "mask": None}
    exported = torch.export.export(model, args, dynamic_shapes=auto)
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = torch.export.load(file)
    return {
        "exported": exported,
        "read": read,
        "decomposed": exported.run_decompositions(),
        "traced": make_fx(model, tracing_mode="symbolic")(*args),
    }


@pytest.mark.parametrize("function", [number_is_size, size_is_constant, truth_is_false])
def test_every_form_of_a_program_keeps_the_equality(function: Any) -> None:
    x = torch.randn(6)
    for how, form in forms(Whole(function), (x, MASK)).items():
        program = irkit.to_onnx(form, (x, MASK) if how == "traced" else ())
        torch.testing.assert_close(program(x, MASK), function(x, MASK))
        with pytest.raises(irkit.ContractError):
            program(x, FEWER)


def test_a_strict_export_keeps_a_number_that_only_a_check_needs() -> None:
    found = lower_captured(capture(Whole(number_is_constant), (torch.randn(6), MASK), strict=True))
    assert [check.text.partition(" ")[2] for check in found.checks] == ["== 6"]


def two_numbers(x: Any, mask: Any) -> Any:
    n = mask.sum().item()
    m = (~mask).sum().item()
    torch._check(n == 6)
    torch._check(m == 3)
    return x * 2


def strict_file(function: Any, path: Path) -> Path:
    torch.export.save(torch.export.export(Whole(function), (torch.randn(6), MASK), strict=True), path)
    return path


def test_what_a_strict_export_dropped_is_checked() -> None:
    """dynamo writes 6 for the number, and then nothing needs it: number and check are gone from the program."""
    program = irkit.to_onnx(torch.export.export(Whole(number_is_constant), (torch.randn(6), MASK), strict=True))
    torch.testing.assert_close(program(torch.ones(6), MASK), torch.full((6,), 2.0))
    with pytest.raises(irkit.ContractError, match="u0 == 6"):
        program(torch.ones(6), FEWER)
    (line,) = [source for said, source in program.report.guards if "u0 == 6" in said]
    assert "sum().item()" in line


def test_what_a_strict_export_dropped_is_checked_of_a_file(tmp_path: Path) -> None:
    program = irkit.to_onnx(strict_file(number_is_constant, tmp_path / "strict.pt2"))
    torch.testing.assert_close(program(torch.ones(6), MASK), torch.full((6,), 2.0))
    with pytest.raises(irkit.ContractError, match="u0 == 6"):
        program(torch.ones(6), FEWER)


@pytest.mark.parametrize("saved", (False, True), ids=("program", "file"))
def test_several_numbers_that_a_strict_export_dropped_are_each_checked(saved: bool, tmp_path: Path) -> None:
    """The example tells which number is of which operator."""
    exported: Any = torch.export.export(Whole(two_numbers), (torch.randn(6), MASK), strict=True)
    program = irkit.to_onnx(strict_file(two_numbers, tmp_path / "two.pt2") if saved else exported)
    assert {check.text for check in program.checks} == {"u0 == 6", "u1 == 3"}
    torch.testing.assert_close(program(torch.ones(6), MASK), two_numbers(torch.ones(6), MASK))
    for wrong in (FEWER, ~MASK):
        with pytest.raises(RuntimeError):
            two_numbers(torch.ones(6), wrong)
        with pytest.raises(irkit.ContractError, match=r"u[01] == [36]"):
            program(torch.ones(6), wrong)


def test_of_more_numbers_than_were_dropped_as_many_are_asked_for() -> None:
    def unused(x: Any, mask: Any) -> Any:
        torch._check(mask.sum().item() == 6)
        (mask.long() * 1).sum()
        return x * 2

    program = irkit.to_onnx(torch.export.export(Whole(unused), (torch.randn(6), MASK), strict=True))
    torch.testing.assert_close(program(torch.ones(6), MASK), torch.full((6,), 2.0))
    with pytest.raises(irkit.ContractError, match="u0 == 6"):
        program(torch.ones(6), FEWER)


def test_a_number_whose_operator_is_gone_is_told_as_unchecked(tmp_path: Path) -> None:
    def gone(x: Any, numbers: Any) -> Any:
        torch._check(numbers[1].item() == 4)
        return x * 2

    exported = torch.export.export(Whole(gone), (torch.randn(6), torch.tensor([1, 4])), strict=True)
    torch.export.save(exported, tmp_path / "gone.pt2")
    for form in (exported, tmp_path / "gone.pt2"):
        program = irkit.to_onnx(form)
        assert "u0 == 4" in {each["text"] for each in program.contract()["unchecked"]}
        assert program.checks == ()


def test_a_number_that_is_kept_is_not_taken_for_a_dropped_one(tmp_path: Path) -> None:
    def kept(x: Any, mask: Any) -> Any:
        n = mask.sum().item()
        torch._check(n == 6)
        (~mask).sum().item()
        return x * n

    torch.export.save(torch.export.export(Whole(kept), (torch.randn(6), MASK)), tmp_path / "kept.pt2")
    program = irkit.to_onnx(tmp_path / "kept.pt2")
    torch.testing.assert_close(program(torch.ones(6), MASK), torch.full((6,), 6.0))
    with pytest.raises(irkit.ContractError, match="u0 == 6"):
        program(torch.ones(6), FEWER)


def test_arange_of_a_number_below_0_is_refused() -> None:
    def counted(numbers: Any) -> Any:
        return torch.arange(numbers[0].item()), torch.arange(2, numbers[1].item(), 3)

    program = irkit.to_onnx(counted, (torch.tensor([2, 4]),))
    torch.testing.assert_close(program(torch.tensor([0, 9])), counted(torch.tensor([0, 9])))
    for wrong in (torch.tensor([-1, 4]), torch.tensor([2, 1])):
        with pytest.raises(RuntimeError):
            counted(wrong)
        with pytest.raises(irkit.ContractError):
            program(wrong)


def test_a_bound_beyond_64_bits_always_holds() -> None:
    """torch adds to the largest number of rows that there may be."""

    def differ(x: Any, numbers: Any) -> Any:
        n = numbers.max().item()
        torch._check(n - numbers.nonzero().shape[0] == 2)
        return x * n

    args = (torch.ones(6), torch.tensor([4, 0, 1]))
    torch.testing.assert_close(irkit.to_onnx(Whole(differ), args)(*args), torch.full((6,), 4.0))


def test_a_program_that_torch_has_read_tells_which_number_is_lost(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = torch.export.load(strict_file(number_is_constant, tmp_path / "strict.pt2"))
    (note,) = [each for each in irkit.to_onnx(read).report.notes if "nothing uses" in each]
    assert "_check" in note and Path(__file__).name in note


def test_a_guard_of_a_strict_file_is_enforced(tmp_path: Path) -> None:
    def thirds(x: Any, mask: Any) -> Any:
        torch._check(x.shape[0] % 3 == 0)
        return x * 2

    auto = {"x": {0: torch.export.Dim.AUTO}, "mask": None}
    exported = torch.export.export(Whole(thirds), (torch.randn(6), MASK), dynamic_shapes=auto, strict=True)
    torch.export.save(exported, tmp_path / "thirds.pt2")
    program = irkit.to_onnx(tmp_path / "thirds.pt2")
    assert program(torch.ones(9), MASK).shape == (9,)
    with pytest.raises(irkit.ContractError):
        program(torch.ones(7), MASK)


@pytest.mark.parametrize("how", ["traced", "strict", "file"])
def test_divisibility_is_a_condition(how: str, tmp_path: Path) -> None:
    def fourths(x: Any, mask: Any) -> Any:
        n = mask.sum().item()
        torch._check(n % 4 == 2)
        return x * 2

    x = torch.ones(6)
    form: Any = Whole(fourths)
    if how != "traced":
        form = torch.export.export(form, (x, MASK), strict=True)
    if how == "file":
        torch.export.save(form, tmp_path / "fourths.pt2")
        form = tmp_path / "fourths.pt2"
    program = irkit.to_onnx(form, (x, MASK) if how == "traced" else ())
    torch.testing.assert_close(program(x, MASK), x * 2)
    for mask in (FEWER, MASK & False):
        with pytest.raises(irkit.ContractError, match=r"% 4"):
            program(x, mask)


def test_a_condition_in_a_branch_holds_where_the_branch_is_taken() -> None:
    def branch(x: Any, mask: Any) -> Any:
        def asserts(x: Any, mask: Any) -> Any:
            torch._check(mask.sum().item() % 2 == 0)
            return x * 2

        return torch.cond(x.sum() > 0, asserts, lambda x, mask: x - 1, (x, mask))

    x = torch.ones(6)
    program = irkit.to_onnx(branch, (x, MASK))
    torch.testing.assert_close(program(x, MASK), x * 2)
    torch.testing.assert_close(program(-x, FEWER), -x - 1)
    with pytest.raises(irkit.ContractError, match="in the branch that is taken"):
        program(x, FEWER)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["nonzero", "masked_select"])
def test_a_result_of_no_known_size_in_out_is_refused_by_torch(name: str, strict: bool, caplog: Any) -> None:
    """torch traces no operator with `out=` whose size data decides: there is nothing to lose a condition of."""

    def written(x: Any, mask: Any) -> Any:
        out = torch.empty(0, dtype=torch.int64 if name == "nonzero" else torch.bool)
        given = (mask,) if name == "nonzero" else (mask, mask)
        getattr(torch, name)(*given, out=out)
        torch._check(out.shape[0] == 6)
        return out * x[:1]

    with pytest.raises(CaptureError):
        capture(Whole(written), (torch.randn(6), MASK), strict=strict)


@pytest.mark.filterwarnings("ignore")
def test_what_a_draft_export_takes_from_the_example_is_checked(caplog: Any) -> None:
    class Drafted(torch.nn.Module):
        def forward(self, x: Any, mask: Any) -> Any:
            y = x.new_zeros(int(mask.sum()))
            return y + x.max() if mask.any() and x.sum().item() > 0 else y

    x = torch.rand(6)
    program = irkit.to_onnx(torch.export.draft_export(Drafted(), (x, MASK)))
    torch.testing.assert_close(program(x, MASK), Drafted()(x, MASK))
    for given in ((x, FEWER), (-x, MASK)):
        with pytest.raises(irkit.ContractError, match="breaks what the model asserts"):
            program(*given)
    assert any(note.startswith("draft_export: u0 is 6, as it was for the example") for note in program.report.notes)


def test_the_file_itself_refuses_a_size_that_is_another(tmp_path: Path) -> None:
    """torch.export writes the size into the graph, which direct capture leaves to the condition."""
    program = irkit.to_onnx(size_is_constant, (torch.randn(6), MASK), capture="torch.export")
    path = program.save(tmp_path / "sized.onnx")
    session = onnxruntime.InferenceSession(path)
    assert session.get_outputs()[0].shape == [6, 1]
    with pytest.raises(Exception, match="Reshape"):
        session.run(None, {"x": np.ones(6, "f4"), "mask": FEWER.numpy()})


def test_what_is_taken_twice_out_of_one_tensor_is_one_number() -> None:
    def twice(x: Any, mask: Any) -> Any:
        return x[mask] + x[mask] * mask.sum().item() + mask.sum().item()

    assert irkit.to_onnx(twice, (torch.randn(9), MASK)).checks == ()


def test_a_number_that_a_loop_gives_is_held_to_what_was_said_of_it() -> None:
    def doubled(x: Any, n: Any) -> Any:
        i, y = while_loop(lambda i, x: i < 5, lambda i, x: (i + 2, x * 2), (n, x))
        torch._check(i.item() == 6)
        return y * i

    x, even, odd = torch.ones(2), torch.tensor(2), torch.tensor(3)
    program = irkit.to_onnx(doubled, (x, even))
    assert program(x, even).tolist() == [24, 24]
    with pytest.raises(irkit.ContractError):
        program(x, odd)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [2, 9, 15, 17, 22, 25, 122, 346, 349])
def test_random_programs_refuse_what_eager_refuses(seed: int, caplog: Any) -> None:
    """The last three are strict programs: an unbacked size with two names, and numbers that torch dropped."""
    tally: Counter[str] = Counter()
    assert list(conditions.faults(seed, tally, 8)) == []
    assert tally["both answer"] > 0


@pytest.mark.parametrize("way", ["direct", "torch.export"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, k: torch.cat([x[x[:, 0] > 3], x[:2]], 1),
        lambda x, k: torch.stack([x[x[:, 0] > 3], x[:2]]),
        lambda x, k: x[x[:, 0] > 3].view(min(2, x.shape[0]), 3),
        lambda x, k: torch.arange(k.item() * 3).view(x.shape[0], 3) + 0,
        lambda x, k: torch.arange(k.item()) + torch.arange(x.shape[0]),
        lambda x, k: x.view(k.item(), 3),
    ],
)
def test_no_condition_looks_at_sizes_that_rest_on_it(function: Any, way: Any) -> None:
    """A size was read off a value whose type says that the condition holds, so that it always did."""
    x = torch.arange(12.0).reshape(4, 3)
    program = irkit.to_onnx(function, (x, torch.tensor(4)), dynamic_shapes=({0: "n"}, {}), capture=way)
    for n, k, least in itertools.product((1, 2, 3, 4, 5), (1, 2, 3, 4), (0.0, 2.5, 4.5)):
        given = (torch.arange(3.0 * n).reshape(n, 3) + least, torch.tensor(k))
        try:
            expected = function(*given)
        except RuntimeError:
            expected = None
        try:
            found = program(*given)
        except IrkitError:
            continue
        assert expected is not None and torch.equal(found, expected)
