"""An export that succeeds takes the example of its capture; where a condition is false for that, the export says so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

import irkit
from irkit.core.ir import Fact, Graph, Port, Signature
from irkit.dims import Range
from lowering import lower
from lowering.capture.own_example import refuse_broken_example
from lowering.errors import CaptureError, LoweringError
from lowering.fold.scope import Check
from tests.fuzz.own_examples import EXAMPLE, WAYS, eager, faults, text_of
from tests.support.written_functions import function_of


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(list(WAYS)))
def test_random_programs_take_their_example(seed: int, way: str) -> None:
    assert not [*faults(seed, way)], text_of(seed)


def test_the_generator_draws_conditions_that_the_example_breaks_and_others() -> None:
    runs = [eager(function_of(text_of(seed), f"drawn_{seed}.py", "model")) is not None for seed in range(40)]
    assert 5 < sum(runs) < 38


def sum_checked(x: torch.Tensor) -> torch.Tensor:
    torch._check(x.sum().item() > 1e9)
    return x + 1


def number_checked(x: torch.Tensor) -> torch.Tensor:
    n = int(x[0].item())
    torch._check(n > 100)
    return x * n


@pytest.mark.parametrize("model", [sum_checked, number_checked])
def test_a_condition_on_data_that_the_example_breaks_ends_the_export_with_its_line(
    model: Callable[..., object],
) -> None:
    with pytest.raises(LoweringError, match="would refuse the very example of its capture: its data breaks") as told:
        irkit.to_onnx(model, (torch.tensor([5.0, 7.0]),), capture="torch.export")
    assert "torch._check(" in told.value.source
    assert "another example" in told.value.hint
    with pytest.raises(CaptureError, match="raises RuntimeError"):
        irkit.to_onnx(model, (torch.tensor([5.0, 7.0]),))


def unequal_rows(x: torch.Tensor) -> torch.Tensor:
    parts, out = [x[0], x[1:2]], x
    for i in range(x.shape[0]):
        out = out + parts[i % 2]
    return out


def test_a_list_of_unequal_rows_that_a_round_numbers_ends_the_export() -> None:
    with pytest.raises(LoweringError, match=r"would refuse the very example.* in every round") as told:
        irkit.to_onnx(unequal_rows, (torch.rand(3, 4),), dynamic_shapes=({0: "n"},), rewrite=True, capture="direct")
    assert "out = out + parts[i % 2]" in told.value.source


def with_facts(*facts: Fact, least: int = 0) -> Graph:
    """A graph of one input of n rows, with conditions."""
    x = irkit.param(irkit.tensor("f32", "n", 2))
    signature = Signature((Port("x"),), (Port("y", "output"),), facts)
    return Graph((x,), (irkit.op.Relu(x),), signature=signature).with_symbols({"n": Range(least, None)})


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (
            with_facts(Fact("guard", "n % 2 == 0", "m.py:3 if n % 2:")),
            "condition n % 2 == 0, which n = 3 breaks",
        ),
        (with_facts(least=4), r"captured for n in \[4, inf\]"),
        (with_facts(Fact("relation", "n < 3", "m.py:3")), "n < 3"),
    ],
)
def test_sizes_of_the_example_are_held_against_guards_ranges_and_relations(graph: Graph, said: str) -> None:
    with pytest.raises(LoweringError, match=said):
        refuse_broken_example(graph, (), {"x": torch.zeros(3, 2)})


def test_what_cannot_be_told_of_an_example_is_no_error() -> None:
    graph = with_facts()
    (x,) = graph.params
    false = irkit.op.Less(irkit.op.ReduceSum(x, keepdims=0), irkit.const(np.float32(-1)))
    refuse_broken_example(graph, (Check(false, "the sum is below -1", ""),), {"x": torch.zeros(3, 2, device="meta")})
    refuse_broken_example(graph, (Check(false, "the sum is below -1", ""),), {"x": torch.zeros(900_000, 2)})
    with pytest.raises(LoweringError, match="its data breaks the sum is below -1"):
        refuse_broken_example(graph, (Check(false, "the sum is below -1", ""),), {"x": torch.zeros(3, 2)})


def test_sizes_are_compared_in_a_millisecond() -> None:
    facts = [Fact("guard", f"n % {k} != {k}", "m.py") for k in range(2, 30)]
    graph, example = with_facts(*facts), {"x": torch.zeros(3, 2)}
    refuse_broken_example(graph, (), example)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        refuse_broken_example(graph, (), example)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.002


def halves(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return y * (1 if (x.shape[0] / 2) % 1 == 0 else 2)


def thirds(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return y * (1 if (x.shape[0] / 3) % 3 == 0 else 2)


def caught(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    try:
        return y * (y[0].item() / 2 % 3)
    except Exception:
        return y


def test_a_remainder_of_what_is_no_whole_number_is_pythons_by_torch_export() -> None:
    program = irkit.to_onnx(
        halves, (torch.zeros(4), EXAMPLE[1]), dynamic_shapes=({0: "n"}, None), capture="torch.export"
    )
    for n in range(2, 9):
        given = torch.zeros(n), EXAMPLE[1]
        if n % 2 == 0:
            assert torch.equal(program(*given), halves(*given))
            continue
        with pytest.raises(irkit.ContractError, match="n = "):
            program(*given)


@pytest.mark.parametrize("model", [thirds, caught])
def test_other_remainders_of_what_is_no_whole_number_are_refused_by_torch_export(model: Callable[..., object]) -> None:
    with pytest.raises(CaptureError, match="takes the remainder of a number that need not be whole"):
        irkit.to_onnx(model, (torch.zeros(4), EXAMPLE[1]), dynamic_shapes=({0: "n"}, None), capture="torch.export")


LOOKED_UP = ("x[[0, 5]]", "x[[0, -4]]", "x.index_select(0, torch.tensor([0, 5]))")


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("text", LOOKED_UP)
def test_a_place_that_the_example_has_not_and_a_model_catches_ends_the_export(text: str, capture: str) -> None:
    lines = f"def model(x):\n    try: return {text}\n    except (IndexError, RuntimeError): return x\n"
    model = function_of(lines, f"looked_up_{LOOKED_UP.index(text)}.py", "model", {"torch": torch})
    assert model(torch.zeros(3, 4)).shape == (3, 4)
    told = r"not among the 3 that there are|goes on where torch refuses an operator: IndexError"
    with pytest.raises((LoweringError, CaptureError), match=told) as error:
        irkit.to_onnx(model, (torch.zeros(3, 4),), dynamic_shapes=({0: "n"},), capture=capture)
    assert text in error.value.source


CAUGHT = ("x.reshape(7)", "x @ torch.ones(5, 2)", "torch.cat([x, torch.ones(3, 5)])", "x.view(x.shape[0] * 3 + 1)")


@pytest.mark.parametrize("text", CAUGHT)
def test_what_torch_refuses_at_fixed_sizes_and_a_model_catches_is_no_part_of_the_program(text: str) -> None:
    lines = f"def model(x):\n    try:\n        return {text}\n    except RuntimeError:\n        return x * 2\n"
    model = function_of(lines, f"fixed_caught_{CAUGHT.index(text)}.py", "model", {"torch": torch})
    for capture in ("torch.export", "direct"):
        program = irkit.to_onnx(model, (torch.zeros(3, 4),), capture=capture)
        x = torch.rand(3, 4)
        assert torch.equal(program(x), x * 2)
        with pytest.raises(CaptureError, match="goes on where torch refuses an operator"):
            irkit.to_onnx(model, (torch.zeros(3, 4),), dynamic_shapes=({0: "n"},), capture=capture)


def test_a_program_that_was_given_with_sizes_of_torchs_own_is_taken_as_it_is() -> None:
    traced = make_fx(lambda x: x.reshape(-1) * 2, tracing_mode="symbolic")(torch.rand(3, 4))
    assert irkit.to_onnx(traced)(torch.ones(2, 5)).tolist() == [2.0] * 10


def test_places_in_a_buffer_without_numbers_are_not_asked_for() -> None:
    class Looked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("places", torch.tensor([0, 5]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            places: Any = self.places
            return x[places]

    assert "Gather" in str(lower(Looked().to("meta"), (torch.zeros(3, 2, device="meta"),)))
