"""What is said of dimensions: Dims are names with a range, expressions over no dimension are names, None may miss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import nn
from torch.export import Dim

import irkit
from irkit.doors.to_onnx import to_onnx
from lowering.capture.capture import capture
from lowering.capture.guards.guards import Guard, follows, number
from lowering.errors import CaptureError
from lowering.records.dynamic_shapes import free_name, range_of, with_names
from tests.support.captured import Apart, X, Y, guards, shapes

FULL = torch.randn(2, 5, 16)


def encoder_layer() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()


def small_llama() -> nn.Module:
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        vocab_size=50, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


# ----------------------------------------------------------------------------------------- a Dim is a name with a range


def test_dims_do_for_an_encoder_layer() -> None:
    program = to_onnx(encoder_layer(), (FULL,), dynamic_shapes=({0: Dim("batch"), 1: Dim("seq", min=1, max=64)},))
    assert {name: str(found) for name, found in program.graph.symbols.items()} == {
        "batch": "[0, inf]",
        "seq": "[1, 64]",
    }
    assert [text for text, _ in program.report.guards] == ["batch >= 1"] and program.check(n=2)  # of ONNX Runtime
    for refused in (FULL[:, :0], torch.randn(1, 65, 16)):
        with pytest.raises(irkit.ContractError, match="seq is"):
            program(refused)


def test_dims_do_for_a_llama() -> None:
    torch.manual_seed(0)
    said = {"input_ids": {0: Dim("batch"), 1: Dim("seq", min=1, max=64)}}
    ids = {"input_ids": torch.randint(0, 50, (2, 5))}
    program = to_onnx(small_llama(), (), ids, dynamic_shapes=said, widen=False)
    assert program.check(n=1) and str(program.graph.symbols["seq"]) == "[2, 64]"
    assert any(line for text, line in program.report.guards if "seq" in text)  # why it is not 1, unless that is tried


def test_what_of_a_range_does_not_hold_is_a_guard_with_its_line() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 8 else x + 1

    program = to_onnx(model, (X,), dynamic_shapes=({0: Dim("b", min=1, max=64)},))
    ((text, line),) = program.report.guards
    assert text == "b <= 8" and "x.shape[0] > 8" in line
    assert str(program.graph.symbols["b"]) == "[1, 8]"


def test_a_branch_that_the_range_decides_leaves_no_guard() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 8 else x + 1

    assert to_onnx(model, (X,), dynamic_shapes=({0: Dim("b", max=8)},)).report.guards == ()


def test_a_dim_that_the_model_fixes_is_refused_with_the_line() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] == 4 else x

    with pytest.raises(CaptureError, match="was to vary as 'b', and the model works for 4 only") as caught:
        to_onnx(model, (X,), dynamic_shapes=({0: Dim("b", max=9)},))
    assert "x.shape[0] == 4" in caught.value.source


def test_derived_dims_that_torch_refuses_are_names() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y * 2 if x.shape[0] > 8 else y + x.sum()

    half = Dim("half", max=64)
    program = to_onnx(model, (X, torch.randn(8, 6)), dynamic_shapes=({0: half}, {0: 2 * half}), capture="torch.export")
    assert [shape for _, shape in program.report.inputs] == ["f32[half, 6]", "f32[2*half, 6]"]
    ((text, line),) = program.report.guards
    assert text == "half <= 8" and "x.shape[0] > 8" in line
    captured = program.lowered.captured
    assert [each.how for each in captured.attempts if each.error] == ["torch.export, non-strict, over its own Dims"]
    assert program.check(n=2)


def test_two_dims_that_the_model_makes_one_keep_both_ranges() -> None:
    """Directly they stay two names, under the condition that they are equal."""
    shapes = {0: Dim("n", min=2)}, {0: Dim("m", max=9)}
    direct = to_onnx(torch.add, (X, Y), dynamic_shapes=shapes)
    assert [text for text, _ in direct.report.guards] == ["(m == 1) or (m == n)"]
    assert [str(direct.graph.symbols[name]) for name in "nm"] == ["[2, inf]", "[0, 9]"]
    program = to_onnx(torch.add, (X, Y), dynamic_shapes=shapes, capture="torch.export")
    assert str(program.graph.symbols["n"]) == "[2, 9]" and "m is n" in program.report.notes


def test_a_range_of_what_is_an_expression_is_a_relation() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x[1:] + y

    program = to_onnx(model, (X, Y[1:]), dynamic_shapes=({0: Dim("n")}, {0: Dim("m", max=5)}))
    for rows, takes in ((6, True), (7, False)):
        args = (torch.randn(rows, 6), torch.randn(rows - 1, 6))
        if takes:
            torch.testing.assert_close(program(*args), model(*args))
        else:
            with pytest.raises(irkit.ContractError):
                program(*args)


def test_a_number_is_a_dim_too() -> None:
    def model(x: torch.Tensor, n: int) -> torch.Tensor:
        return x + torch.arange(n).sum()

    program = to_onnx(model, (X, 5), dynamic_shapes=({0: Dim("b")}, Dim("n", max=9)))
    assert float(program(torch.zeros(1, 6), 9)[0, 0]) == 36
    with pytest.raises(irkit.ContractError, match="n is 10"):
        program(torch.zeros(1, 6), 10)


def test_dynamo_is_told_ranges_too() -> None:
    captured = capture(torch.nn.ReLU(), (X,), dynamic_shapes=({0: Dim("b", min=2, max=9)},), strict=True)
    assert list(captured.range_constraints.values()) == [(2, 9)]


@pytest.mark.parametrize(
    ("said", "message"),
    (
        (({0: Dim("b", max=3)}, None), "dimension 0 of 'x' is 4 in the example, and the Dim 'b' is from 0 to 3"),
        (({0: Dim("b", min=5)}, None), "dimension 0 of 'x' is 4 in the example, and the Dim 'b' is from 5 to any size"),
        (({0: Dim("b", max=8)}, {0: Dim("b", max=9)}), "the Dim 'b' has one range at dimension 0 of 'x' and another"),
    ),
)
def test_ranges_that_cannot_be_are_refused(said: Any, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        capture(Apart(), (X, Y), dynamic_shapes=said)


def test_ranges_that_follow_are_no_news() -> None:
    n = number("s0")
    ranges: dict[str, tuple[int, int | None]] = {"s0": (2, 9)}
    assert follows(2 * n <= 18, ranges) and not follows(2 * n <= 17, ranges)
    assert follows(10 - n >= 1, ranges) and not follows(10 - n >= 2, ranges)
    assert not follows(2 * n <= 18, {"s0": (2, None)}) and not follows(n * n <= 1000, ranges)
    assert Guard(2 * n <= 18, "").kind == "guard"
    assert range_of(Dim("b")) == (None, None) and range_of(Dim.DYNAMIC(max=3)) == (None, 3)


# ---------------------------------------------------------------------------------------- expressions over no dimension


def test_an_expression_over_no_dimension_is_a_name_with_a_note() -> None:
    said = ({0: "cache+seq"}, {0: "cache + seq"})
    program = to_onnx(torch.add, (X, Y), dynamic_shapes=said)
    assert [shape for _, shape in program.report.inputs] == ["f32[cache_seq, 6]"] * 2
    assert "cache_seq stands for 'cache+seq', none of whose names is a dimension" in program.report.notes
    assert program.check(n=2)


def test_an_expression_over_dimensions_stays_one() -> None:
    said = {"x": {0: "cache+seq"}, "y": {0: "seq"}}
    captured = capture(lambda x, y: x.sum() + y.sum(), (X, Y[:3]), dynamic_shapes=said)
    assert captured.notes == () and shapes(captured)["y"] == ("seq", 6)


def test_names_made_of_expressions_are_free() -> None:
    said, notes = with_names([{0: "a+b", 1: "a_b"}, "a-b", None])
    assert said == [{0: "a_b_", 1: "a_b"}, "a_b__", None] and len(notes) == 2
    assert free_name("2*k + 1", ()) == "dim_2_k_1"


def test_a_captured_program_takes_such_names_too() -> None:
    exported = torch.export.export(nn.ReLU(), (X,), dynamic_shapes=({0: Dim.AUTO},))
    program = to_onnx(exported, dynamic_shapes=({0: "cache+seq"},))
    assert program.report.inputs[0][1] == "f32[cache_seq, 6]" and "'cache+seq'" in program.report.notes[0]


# ---------------------------------------------------------------------------------------------- None, and caches


def test_none_may_be_left_out_of_lists() -> None:
    def model(x: torch.Tensor, mask: Any, parts: list[Any]) -> torch.Tensor:
        return x + parts[0] + parts[2]

    rows = {0: "n"}
    whole = (rows, None, [rows, None, rows])
    for said in (whole, (rows, [rows, rows]), (rows, None, [rows, rows]), {"x": rows, "parts": (rows, rows)}):
        captured = capture(model, (X, None, [Y, None, Y]), dynamic_shapes=said)
        assert shapes(captured) == dict.fromkeys(("x", "parts.0", "parts.2"), ("n", 6))
    with pytest.raises(CaptureError, match="dynamic_shapes has 1 entry for 3 inputs"):
        capture(model, (X, None, [Y, None, Y]), dynamic_shapes=(rows,))


def cache_of(past: int, sliding: int | None = None) -> Any:
    config = transformers.MistralConfig(
        num_hidden_layers=2, num_attention_heads=2, hidden_size=8, sliding_window=sliding
    )
    cache = transformers.DynamicCache(config=config) if sliding else transformers.DynamicCache()
    for layer in range(2):
        cache.update(torch.randn(2, 2, past, 4), torch.randn(2, 2, past, 4), layer)
    return cache


def sums(cache: Any) -> list[torch.Tensor]:
    return [each.keys.sum() + each.values.sum() for each in cache.layers]


KEYS, VALUES = {0: "b", 2: "k"}, {0: "b", 2: "v"}


@pytest.mark.parametrize(
    "said", ([KEYS, VALUES, KEYS, VALUES], [KEYS, KEYS, VALUES, VALUES], [[KEYS, KEYS], [VALUES, VALUES]])
)
def test_a_flat_list_describes_a_cache_in_either_order(said: Any) -> None:
    found = shapes(capture(sums, (cache_of(3),), dynamic_shapes=(said,)))
    assert found == {f"cache.{i}.{n}": ("b", 2, n[0], 4) for i in range(2) for n in ("key", "value")}


def test_a_flat_list_says_nothing_of_counters() -> None:
    every = {0: "b", 2: "past"}
    for said in ([every] * 4, [[every] * 2] * 2, every):
        captured = capture(sums, (cache_of(9, sliding=4),), dynamic_shapes=(said,))
        assert shapes(captured)["cache.1.value"] == ("b", 2, 3, 4)
        assert guards(captured) == set() or "past" not in str(guards(captured))


# ------------------------------------------------------------------------------- dimensions that can have one size only


def test_a_dimension_that_must_broadcast_is_one() -> None:
    def model(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return x[i, j]

    args = (torch.randn(5, 6), torch.randint(0, 5, (3, 1)), torch.randint(0, 6, (4,)))
    for hint in (Dim.AUTO, Dim.DYNAMIC):
        said = ({0: hint, 1: hint}, {0: hint, 1: hint}, {0: hint})
        program = to_onnx(model, args, dynamic_shapes=said)
        assert program.report.inputs[1][1] == "i64[i_dim_0, 1]"
        assert [what for what, _ in program.report.fixed] == ["dimension 1 of 'i', which was to vary, is 1"]
        other = (torch.randn(7, 9), torch.randint(0, 7, (2, 1)), torch.randint(0, 9, (8,)))
        torch.testing.assert_close(program(*other), model(*other))
        with pytest.raises(irkit.ContractError):
            program(other[0], torch.zeros(2, 8, dtype=torch.long), other[2])
    with pytest.raises(CaptureError, match="1 of 'i'"):
        to_onnx(model, args, dynamic_shapes=said, specialization="error")
