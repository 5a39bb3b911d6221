"""Calls of a program: bound as Python binds them, caches in which nothing is yet, masks left out, `generate`."""

from __future__ import annotations

import copy
import inspect
import types
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from torch.export import Dim

import irkit
from irkit.doors.to_onnx import to_onnx
from lowering.capture.inputs.calls import settings_of
from tests.support.captured import X, Y


def refused(program: Any, *args: Any, **kwargs: Any) -> str:
    """What is wrong with a call."""
    with pytest.raises(irkit.ContractError) as caught:
        program(*args, **kwargs)
    return caught.value.what


# ---------------------------------------------------------------------------------------------- arguments


def test_an_argument_is_given_once() -> None:
    program = to_onnx(lambda x, y: x + y, (X, Y))
    assert refused(program, X, Y, x=X) == "the call has two values for 'x'"
    assert refused(program, X, Y, X) == "the call has 3 positional arguments, and the model takes 2"
    torch.testing.assert_close(program(y=Y, x=X), X + Y)


def test_arguments_by_name_only_are_not_taken_by_position() -> None:
    def model(x: torch.Tensor, *, y: torch.Tensor) -> torch.Tensor:
        return x - y

    program = to_onnx(model, (X,), {"y": Y})
    assert refused(program, X, Y) == "the call has 2 positional arguments, and the model takes 1"
    torch.testing.assert_close(program(X, y=Y), X - Y)
    assert str(inspect.signature(program)) == "(x, *, y)"


@pytest.mark.parametrize("saved", (False, True), ids=("program", "file"))
def test_a_program_of_torchs_takes_by_position_what_its_example_gave_so(saved: bool, tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, *, y: torch.Tensor, z: Any = None) -> torch.Tensor:
            return x - y

    given: Any = torch.export.export(Model(), (X,), {"y": Y})
    if saved:
        torch.export.save(given, tmp_path / "model.pt2")
        given = tmp_path / "model.pt2"
    program = to_onnx(given)
    assert refused(program, X, Y) == "the call has 2 positional arguments, and the model takes 1"
    torch.testing.assert_close(program(X, y=Y), X - Y)
    assert str(inspect.signature(program)) == "(x, *, y)"


def test_arguments_by_position_only_are_not_taken_by_name() -> None:
    def model(x: torch.Tensor, /, y: torch.Tensor) -> torch.Tensor:
        return x - y

    program = to_onnx(model, (X, Y))
    assert refused(program, x=X, y=Y) == "the call gives 'x' by name"
    torch.testing.assert_close(program(X, y=Y), X - Y)


def test_positions_are_those_of_the_signature_not_of_the_example() -> None:
    def model(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return x + 2 * y + 3 * z

    args = (X, Y, X * Y)
    program = to_onnx(model, (X,), {"z": args[2], "y": Y})
    torch.testing.assert_close(program(*args), model(*args))
    some = to_onnx(lambda x, mask=None, y=None: x + y, (X,), {"y": Y})
    assert refused(some, X, Y) == "the call lacks 'y'"  # the second is the mask
    torch.testing.assert_close(some(X, None, Y), X + Y)


def test_what_stands_for_an_argument_anyway_may_be_given() -> None:
    def model(x: torch.Tensor, scale: float = 2.0, flag: bool = False) -> torch.Tensor:
        return x * scale if flag else x

    program = to_onnx(model, (X,))
    torch.testing.assert_close(program(X, 2.0, flag=False), X)
    for wrong in ({"scale": 3.0}, {"flag": True}, {"flag": 0}):
        assert refused(program, X, **wrong) == f"the call has {next(iter(wrong))!r}"


def test_more_than_the_named_arguments_has_names() -> None:
    program = to_onnx(lambda *xs, **more: xs[0] + xs[1] * more["k"], (X, Y), {"k": X})
    torch.testing.assert_close(program(X, Y, k=X), X + Y * X)
    assert refused(program, X, Y, X) == "the call has 3 positional arguments, and the model takes 2"


def test_a_tensor_by_itself_is_the_one_argument() -> None:
    program = to_onnx(torch.sin, X, dynamic_shapes=({0: "n"},))
    torch.testing.assert_close(program.run(X[:2])[0], X[:2].sin())


# ---------------------------------------------------------------------------------------------- caches and masks

CONFIG = transformers.LlamaConfig(
    vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=64,
)  # fmt: skip


def filled(batch: int, past: int) -> Any:
    cache = transformers.DynamicCache()
    cache.update(torch.randn(batch, 1, past, 8), torch.randn(batch, 1, past, 8), 0)
    return cache


def test_generate_takes_a_program_for_its_forward() -> None:
    torch.manual_seed(0)
    model: Any = transformers.LlamaForCausalLM(CONFIG).eval()
    given = {"attention_mask": torch.ones(2, 7, dtype=torch.long), "past_key_values": filled(2, 4)}
    said = {"input_ids": {0: "b", 1: "new"}, "attention_mask": {0: "b", 1: "past + new"},
            "past_key_values": {0: "b", 2: "past"}}  # fmt: skip
    program = to_onnx(model, (), {"input_ids": torch.ones(2, 3, dtype=torch.long), **given}, dynamic_shapes=said)
    assert list(inspect.signature(program).parameters) == ["input_ids", "attention_mask", "past_key_values"]
    served = copy.copy(model)
    served.forward = program
    prompt = torch.tensor([[5, 7, 11], [1, 4, 9]])
    mask = torch.tensor([[1, 1, 1], [0, 1, 1]])
    for options in ({}, {"num_beams": 2}, {"attention_mask": mask}):
        each: dict[str, Any] = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0, **options}
        assert served.generate(prompt, **each).equal(model.generate(prompt, **each))
    for empty in (transformers.DynamicCache(), transformers.DynamicCache(config=CONFIG)):
        found = program(input_ids=prompt, past_key_values=empty)
        torch.testing.assert_close(found.logits, model(prompt).logits)
        assert found.past_key_values.get_seq_length() == 3
    long = torch.ones(2, 5, dtype=torch.long)
    assert "must be new + past = 3" in refused(program, prompt, attention_mask=long, past_key_values=empty)
    assert refused(program, prompt, past_key_values=empty, use_cache=False) == "the call has 'use_cache'"


class Summed(nn.Module):
    """The numbers in a cache."""

    def forward(self, x: torch.Tensor, cache: Any) -> torch.Tensor:
        own = getattr(cache, "cross_attention_cache", cache)
        return x + own.layers[0].keys.sum() + own.layers[0].values.sum()


def test_an_empty_cache_needs_a_length_that_varies() -> None:
    x, spec = torch.ones(2), {0: "b", 2: "past"}
    empty = transformers.DynamicCache()
    program = to_onnx(Summed(), (x, filled(2, 3)), dynamic_shapes=({0: "b"}, spec))
    assert program(x, empty).tolist() == [1, 1]
    fixed = to_onnx(Summed(), (x, filled(2, 3)), dynamic_shapes=({0: "b"}, {0: "b"}))
    assert refused(fixed, x, empty).startswith("the cache is empty, and cache.0.key is [2, 1, 3, 8] in the model")


def test_an_empty_cache_of_an_encoder_is_none_of_length_zero() -> None:
    both = transformers.EncoderDecoderCache(filled(2, 3), filled(2, 5))
    program = to_onnx(Summed(), (torch.ones(2), both), dynamic_shapes=({0: "b"}, {0: "b", 2: Dim.AUTO}))
    empty = transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())
    assert "another structure than at capture" in refused(program, torch.ones(2), empty)


def test_sizes_that_a_model_returns_are_a_size() -> None:
    """Of which torch's own pytree makes a tuple."""

    class Sizes(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            return x + y, {"shape": torch.broadcast_shapes(x.shape, y.shape)}

    x, y = torch.randn(3, 1, 4), torch.randn(2, 4)
    program = to_onnx(Sizes(), (x, y), dynamic_shapes=({0: "a"}, {0: "b"}))
    for call in (program, program.bound()):
        shape = call(x[:2], y)[1]["shape"]
        assert type(shape) is torch.Size and shape == (2, 2, 4)


def test_settings_are_those_of_the_text_of_a_composite_configuration() -> None:
    module, text = nn.Module(), types.SimpleNamespace(use_cache=True, return_dict=False)
    module.config = types.SimpleNamespace(return_dict=True, get_text_config=lambda: text)  # type: ignore[assignment]
    assert settings_of(module) == {"use_cache": True, "return_dict": True}  # its own come first

    def several() -> None:
        raise ValueError("Multiple valid text configs were found")

    module.config = types.SimpleNamespace(use_cache=False, get_text_config=several)  # type: ignore[assignment]
    assert settings_of(module) == {"use_cache": False}
