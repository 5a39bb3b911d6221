"""What torch puts in the place of numbers and sizes out of data is a condition of the program."""

from __future__ import annotations

import io
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
from lowering.capture.capture import capture
from lowering.fold.lower import lowered
from tests.support import asserting_programs

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
    (sum_of_numbers, "u0 == 2*u2 + 4"),
    (size_is_constant, "u0 == 6"),
    (size_is_size, "u0 == b"),
    (size_is_multiple, "== b"),
    (float_is_constant, "zuf0 == 1.5"),
    (truth_is_false, "u0 != 1"),
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
    found = lowered(capture(Whole(number_is_constant), (torch.randn(6), MASK), strict=True))
    assert [check.text.partition(" ")[2] for check in found.checks] == ["== 6"]


def test_what_a_strict_export_dropped_is_told() -> None:
    exported = torch.export.export(Whole(number_is_constant), (torch.randn(6), MASK), strict=True)
    program = irkit.to_onnx(exported)
    assert "u0 == 6" in [each["text"] for each in program.contract()["unchecked"]]


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
    path = irkit.to_onnx(size_is_constant, (torch.randn(6), MASK)).save(tmp_path / "sized.onnx")
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


@pytest.mark.parametrize("seed", [2, 9, 15, 17, 22, 25])
def test_random_programs_refuse_what_eager_refuses(seed: int) -> None:
    tally: Counter[str] = Counter()
    assert list(asserting_programs.faults(seed, tally, 8)) == []
    assert tally["both answer"] > 0
