"""What real calls tell: examples, names of dimensions, relations among sizes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import lowering
from lowering.errors import CaptureError
from lowering.piecewise.relations import Formula, Place, formula_of, relate
from lowering.records.pytrees import register_classes

LLAMA = transformers.LlamaConfig(
    vocab_size=99,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    pad_token_id=0,
)


def generate(model: Any, batch: int, length: int) -> None:
    model.generate(torch.randint(5, 99, (batch, length)), max_new_tokens=3, do_sample=False)


def test_calls_of_generate_tell_an_export_with_a_cache() -> None:
    model = transformers.LlamaForCausalLM(LLAMA).eval()
    with lowering.observe(model) as seen:
        generate(model, 2, 6)
        generate(model, 3, 4)
    found = seen.observation
    assert found.dynamic_shapes["input_ids"] == {0: "batch", 1: "seq"} and len(found.calls) == 6
    assert found.dynamic_shapes["past_key_values.1.value"] == {0: "batch", 2: "past"}
    assert seen.kwargs["input_ids"].shape[1] == 2  # no size of 1 where another call has more
    program = seen.to_onnx()
    assert found.check(program) and len(found.check(program).runs) == 6
    assert "forward" not in vars(model) and "past" in str(found)
    assert json.loads(json.dumps(found.asdict()))["names"]["batch"] == [2, 2, 2, 3, 3, 3]


def test_torchs_own_observer_is_read() -> None:
    model = transformers.LlamaForCausalLM(LLAMA).eval()
    theirs = torch.onnx.InputObserver()
    with register_classes(transformers.DynamicCache(config=LLAMA)), theirs(model):
        generate(model, 2, 6)
    found = lowering.observe(model, theirs)
    assert found.names["past"] == (0, 6, 7) and found.check(found.to_onnx())


def test_shapes_for_torch_export_have_the_structure_of_the_arguments() -> None:
    class Nested(nn.Module):
        def forward(self, x: Any, *more: Any, flag: bool = True, z: Any = 0) -> Any:
            return x["a"] + x["b"][0] + more[0] + z

    model = Nested()

    def call(n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return ({"a": torch.randn(n, 3), "b": [torch.randn(n, 3)]}, torch.randn(3)), {"z": torch.randn(n, 1)}

    seen = lowering.observe(model, [call(4), call(6)])
    vary = {0: torch.export.Dim.DYNAMIC}
    assert seen.torch_shapes == {"x": {"a": vary, "b": [vary]}, "more": (None,), "z": vary}
    program = torch.export.export(model, seen.args, dict(seen.kwargs), dynamic_shapes=seen.torch_shapes)
    args, kwargs = call(5)
    assert program.module()(*args, **kwargs).shape == (5, 3)


def test_numbers_that_vary_are_inputs() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, count: int, scale: float, shift: int) -> torch.Tensor:
            return x[:count] * scale + shift

    calls = [(torch.randn(5, 2), 2, 0.5, -1), (torch.randn(7, 2), 4, 1.5, -1), (torch.randn(7, 2), 4, 1.5, -3)]
    seen = lowering.observe(Scaled(), calls)
    assert seen.scalar_inputs == ("scale",) and seen.dynamic_shapes["count"] == "count"
    assert seen.notes == ("shift is below 0 in some calls, and so stays what it is in the example",)
    assert [bool(run.problem) for run in seen.check(seen.to_onnx()).runs] == [False, False, True]


def test_a_call_of_another_kind_is_left_out_and_told() -> None:
    class Optional(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            return x if y is None else x + y

    seen = lowering.observe(Optional(), [(torch.randn(3), torch.randn(3)), (torch.randn(4),)])
    assert seen.notes == ("call 1 leaves out y, which the program needs",)
    seen = lowering.observe(Optional(), [(torch.randn(3),), (torch.randn(2, 3),)])
    assert "left out" in seen.notes[0]
    with pytest.raises(CaptureError, match="not called"):
        lowering.observe(Optional(), lambda: None)


def test_an_example_that_the_model_refuses_is_not_stretched() -> None:
    class OneRow(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] not in (1, 8):
                raise ValueError("one row, or eight")
            return x * 2

    seen = lowering.observe(OneRow(), [(torch.randn(1, 9),), (torch.randn(8, 2),), (torch.randn(1, 3),)])
    assert seen.args[0].shape[0] in (1, 8)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=4, max_size=6, unique=True), st.data())
def test_a_formula_that_is_found_holds_in_every_call(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    others = [tuple(column) for column in zip(*rows, strict=True)]
    made = data.draw(
        st.sampled_from(
            [Formula(0), Formula(1, factor=3), Formula(0, 1), Formula(0, 1, is_product=True), Formula(0, offset=5)]
        )
    )
    sizes = tuple(made.of(row) for row in rows)
    found = formula_of(sizes, others, sure=True)
    varied = len(set(sizes)) == 1 or (found is not None and tuple(found.of(row) for row in rows) == sizes)
    assert varied or len({tuple(row[i] for i in (made.first, made.second) if i is not None) for row in rows}) < 3
    absent = tuple(None if i == 0 else size for i, size in enumerate(sizes))
    again = formula_of(absent, others)
    assert again is None or all(again.of(row) == size for row, size in list(zip(rows, sizes, strict=True))[1:])


def test_relations_are_sums_of_the_smaller_names() -> None:
    places = [
        Place("ids", 1, (6, 1, 1, 4), ("seq",)),
        Place("mask", 1, (6, 7, 8, 9), ()),
        Place("cache", 2, (None, 6, 7, 5), ("past",)),
        Place("pairs", 0, (12, 2, 2, 8), ()),
        Place("fixed", 0, (3, 3, 3, 3), ()),
    ]
    found = relate(places)
    assert found.texts == ("seq", "seq + past", "past", "2*seq", None)
    assert found.names == {"seq": (6, 1, 1, 4), "past": (0, 6, 7, 5)}
    assert relate([Place("x", 0, (2, 3), ()), Place("y", 0, (5, 8), ()), Place("z", 0, (7, 11), ())]).told == ()
