"""Models that generate on ONNX Runtime the tokens that they generate in torch; `make generation` tries all families."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnx
import pytest
import torch
import transformers
from torch import nn

import lowering
from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError, LoadError, StaleError
from irkit.onnx.sessions import session
from lowering.decoding.steps import merged_steps, recorded_calls, shapes_of
from lowering.errors import CaptureError
from tests.support.draws import drawn
from tests.tables.generation import WAYS, row_of
from tests.zoo.generating import GENERATORS, Generator, generator_named, prompt

PINNED = ("MistralForCausalLM", "T5ForConditionalGeneration", "WhisperForConditionalGeneration")
OPTIONS: dict[str, Any] = {"max_new_tokens": 6, "min_new_tokens": 6, "pad_token_id": 0, "do_sample": False}


def families() -> list[Generator]:
    """Those with a cache of their own kind, and one more."""
    quick = [each for each in GENERATORS if each.name != "Qwen3NextForCausalLM"]  # which reads prompts in Python loops
    return drawn("generation", quick, 1, pinned=map(generator_named, PINNED), key=lambda each: each.name)


@cache
def llama() -> Any:
    """A model whose layers all see everything."""
    return generator_named("LlamaForCausalLM").model()


@cache
def made() -> Any:
    """Its generation."""
    return lowering.generation(llama())


@pytest.mark.parametrize("generator", families(), ids=lambda each: each.name)
def test_a_model_generates_what_it_generates_in_torch(generator: Generator) -> None:
    row = row_of(generator, {name: WAYS[name] for name in ("greedy", "beams")}, prompts=2)
    assert not row.problem and row.equal == row.tried > 0, row


@pytest.mark.parametrize("way", WAYS)
def test_one_program_reads_prompts_and_goes_on(way: str) -> None:
    assert made().is_one and made().prefill is made().decode and list(made().programs) == ["model"]
    for asked in (prompt(2, 5, 2), prompt(1, 1), prompt(3, 9, 4)):
        options = {**OPTIONS, **WAYS[way]}
        torch.manual_seed(1)
        expected = llama().generate(**asked, **options)
        torch.manual_seed(1)
        assert torch.equal(made().generate(**asked, **options), expected)
    assert list(made().programs) == ["model"] and "model" in repr(made())


def test_the_cache_of_a_step_is_read_where_the_step_before_left_it() -> None:
    asked = prompt(2, 4)
    call = recorded_calls(llama(), asked, 2)[1]
    bound = made().steps.bounds[0]
    result = bound(**call)
    before = [layer.keys.data_ptr() for layer in result.past_key_values.layers]
    vector, _ = bound.plainly_given({**call, "past_key_values": result.past_key_values, "attention_mask": ones(2, 6)})
    held = {value.data_ptr() for value in vector}
    assert set(before) <= held


def ones(*shape: int) -> torch.Tensor:
    """A mask that hides nothing."""
    return torch.ones(shape, dtype=torch.int64)


def test_static_caches_have_programs_of_their_size() -> None:
    model = llama()
    fixed = {"cache_implementation": "static"}
    generation = lowering.generation(model, {**prompt(2, 6), **fixed})
    for asked in (prompt(2, 5, 2), prompt(1, 3)):
        assert torch.equal(
            generation.generate(**asked, **fixed, **OPTIONS), model.generate(**asked, **fixed, **OPTIONS)
        )
    closed = attrs.evolve(generation, steps=attrs.evolve(generation.steps, grows=False))  # what fixed=True gives
    with pytest.raises(ContractError, match="no program of the model takes this call"):
        closed.generate(**prompt(1, 3), **OPTIONS)


def test_a_mask_of_four_axes_that_is_left_out_hides_what_is_to_come() -> None:
    """It is no mask that hides nothing: a program that was captured with one refuses the call."""
    call = recorded_calls(llama(), {**prompt(2, 6, 1), "cache_implementation": "static"}, 2)[0]
    assert call["attention_mask"].dim() == 4
    program = to_onnx(llama(), kwargs=call, dynamic_shapes=shapes_of(call))
    with pytest.raises(ContractError, match="the call lacks 'attention_mask'"):
        program(**{name: each for name, each in call.items() if name != "attention_mask"})


def test_what_cannot_generate_is_refused() -> None:
    with pytest.raises(CaptureError, match="Linear has no generate"):
        lowering.generation(nn.Linear(2, 2))
    with pytest.raises(CaptureError, match="reads input_features") as caught:
        lowering.generation(generator_named("WhisperForConditionalGeneration").model())
    assert "give an example" in caught.value.hint


def test_programs_are_saved_over_one_file_of_weights(tmp_path: Path) -> None:
    model = generator_named("MistralForCausalLM").model()
    generation = lowering.generation(model)
    files = generation.save(tmp_path / "saved")
    assert set(files) == set(generation.programs) and len(files) > 1
    names = {each.name for each in (tmp_path / "saved").iterdir()}
    assert names == {*(f"{name}.onnx" for name in files), "weights.data", "config.json", "generation_config.json"}
    written = (tmp_path / "saved" / "weights.data").stat().st_size
    weights = sum(each.nbytes for each in model.state_dict().values())
    assert written < weights + 4096 * (len(model.state_dict()) + 2)  # each on a page of its own, but once
    for path in files.values():
        onnx.checker.check_model(str(path))
    for call in recorded_calls(model, prompt(2, 6, 2), 3):
        program = generation.steps.answered(call)[0].program
        path = next(files[name] for name, each in generation.programs.items() if each is program)
        feeds = program.feeds((), call)
        for found, expected in zip(session(path).run(feeds), program.session.run(feeds), strict=False):
            np.testing.assert_array_equal(found, expected)
    loaded = lowering.load_generation(tmp_path / "saved")
    assert set(loaded.programs) == set(files) and all(p.is_meta for p in loaded.model.parameters())
    for way in ("greedy", "beams", "sampled"):
        options = {**OPTIONS, **WAYS.get(way, {})}
        torch.manual_seed(3)
        expected = generation.generate(**prompt(2, 5, 1), **options)
        torch.manual_seed(3)
        assert torch.equal(loaded.generate(**prompt(2, 5, 1), **options), expected)
    generation.save(tmp_path / "saved")
    assert {each.name for each in (tmp_path / "saved").iterdir()} == names


def test_a_saved_encoder_generates_again(tmp_path: Path) -> None:
    model = generator_named("T5ForConditionalGeneration").model()
    generation = lowering.generation(model)
    expected = generation.generate(**prompt(2, 6, 2), **OPTIONS)
    generation.save(tmp_path)
    assert torch.equal(lowering.load_generation(tmp_path).generate(**prompt(2, 6, 2), **OPTIONS), expected)
    torch.testing.assert_close(expected, model.generate(**prompt(2, 6, 2), **OPTIONS))


def test_one_saved_program_reads_prompts_and_goes_on(tmp_path: Path) -> None:
    made().save(tmp_path)
    loaded = lowering.load_generation(tmp_path)
    for asked in (prompt(2, 5, 2), prompt(1, 1)):
        assert torch.equal(loaded.generate(**asked, **OPTIONS), llama().generate(**asked, **OPTIONS))


def test_programs_of_an_earlier_save_do_not_answer(tmp_path: Path) -> None:
    """The first program that takes a call answers, and that was once one that another model had left."""
    lowering.generation(generator_named("MistralForCausalLM").model()).save(tmp_path)
    for name in ("decode", "prefill"):
        (tmp_path / f"{name}.kept").write_bytes((tmp_path / f"{name}.onnx").read_bytes())
    made().save(tmp_path)
    assert [each.name for each in tmp_path.glob("*.onnx")] == ["model.onnx"]
    loaded = lowering.load_generation(tmp_path)
    assert torch.equal(loaded.generate(**prompt(2, 5), **OPTIONS), llama().generate(**prompt(2, 5), **OPTIONS))
    (tmp_path / "decode.kept").rename(tmp_path / "decode.onnx")
    with pytest.raises(LoadError, match=r"decode\.onnx and model\.onnx are of two saves"):
        lowering.load_generation(tmp_path)
    (tmp_path / "model.onnx").unlink()
    with pytest.raises(LoadError, match=r"prefill\.onnx is missing, which decode\.onnx was saved with"):
        lowering.load_generation(tmp_path)
    (tmp_path / "prefill.kept").rename(tmp_path / "step_1.onnx")
    with pytest.raises(LoadError, match=r"prefill\.onnx is missing"):
        lowering.load_generation(tmp_path)


def test_a_saved_generation_with_the_weights_of_another_model_is_refused(tmp_path: Path) -> None:
    other = copy.deepcopy(llama())
    with torch.no_grad():
        other.lm_head.weight[3, 5] += 1
    made().save(tmp_path / "first")
    lowering.generation(other).save(tmp_path / "second")
    shutil.copy(tmp_path / "first" / "weights.data", tmp_path / "second")
    with pytest.raises(LoadError, match=r"'weights\.data' holds the weights of another model"):
        lowering.load_generation(tmp_path / "second")


def test_folders_without_a_generation_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="has no saved generation"):
        lowering.load_generation(tmp_path / "nothing")


def test_steps_of_recurrent_layers_stay_apart() -> None:
    calls = recorded_calls(generator_named("MambaForCausalLM").model(), prompt(2, 4), 3)
    assert merged_steps(calls[1], calls[2]) is None
    calls = recorded_calls(llama(), prompt(2, 4, 1), 3)
    both = merged_steps(calls[1], calls[2])
    assert both is not None and both["input_ids"].shape == (2, 2) and both["attention_mask"].shape == (2, 6)
    assert shapes_of(both) == {
        "input_ids": {0: "batch", 1: "seq"},
        "position_ids": {1: "seq", 0: "batch"},
        "attention_mask": {0: "batch", 1: "past + seq"},
        "past_key_values": {0: "batch", 2: "past"},
    }
    torch.testing.assert_close(made().steps(**both).logits, llama()(**both).logits)


def test_threads_may_generate_at_once() -> None:
    import threading

    asked, found = [prompt(1, 3), prompt(2, 6)], dict[int, Any]()
    made()  # before there are threads: both would make a model, with weights of their own

    def run(i: int) -> None:
        found[i] = made().generate(**asked[i], **OPTIONS)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(torch.equal(found[i], llama().generate(**asked[i], **OPTIONS)) for i in range(2))


def test_the_model_is_left_as_it_is() -> None:
    assert "forward" not in vars(llama()) and isinstance(llama(), transformers.LlamaForCausalLM)


def test_the_callers_own_cache_holds_what_was_generated() -> None:
    """It stayed empty: whoever gave a cache to `generate`, to go on from it, had one in which nothing is."""
    model, asked = llama(), prompt(2, 5)
    makes: tuple[Callable[[], Any], ...] = (
        lambda: transformers.DynamicCache(config=model.config),
        lambda: transformers.StaticCache(config=model.config, max_cache_len=32),
    )
    for make in makes:
        found = []
        for each in (model, made()):
            own: Any = make()
            first = each.generate(**asked, past_key_values=own, **OPTIONS)
            kept = int(own.get_seq_length()), own.layers[0].keys.clone()
            more = torch.cat([first, asked["input_ids"]], 1)
            second = each.generate(more, attention_mask=ones(*more.shape), past_key_values=own, **OPTIONS)
            found.append((*kept, second, int(own.get_seq_length()), own.layers[1].values))
        assert found[0][0] == found[1][0] > 0 and found[0][3] == found[1][3] > found[0][0]
        assert torch.equal(found[0][2], found[1][2])
        torch.testing.assert_close(found[1][1], found[0][1])
        torch.testing.assert_close(found[1][4], found[0][4])


@pytest.mark.parametrize("name", ["Lfm2ForCausalLM", "T5ForConditionalGeneration"])
def test_static_caches_beside_others_and_masks_of_each_kind(name: str) -> None:
    """Masks by kinds of layers took the names of an encoder's positions, and static caches in pairs those of growing
    ones: other lengths were refused."""
    model = generator_named(name).model()
    generation, fixed = lowering.generation(model), {"cache_implementation": "static"}
    for asked in (prompt(2, 6, 2), prompt(3, 2, 1)):
        assert torch.equal(
            generation.generate(**asked, **fixed, **OPTIONS), model.generate(**asked, **fixed, **OPTIONS)
        )


EARLY: dict[str, Any] = {"max_new_tokens": 7, "eos_token_id": list(range(5, 25)), "pad_token_id": 0}
ASKED: dict[str, dict[str, Any]] = {
    "one": {"max_new_tokens": 1, "do_sample": False},
    "at_least": {**EARLY, "min_new_tokens": 4, "do_sample": False},
    "beams": {**EARLY, "num_beams": 3, "length_penalty": -2.0, "num_return_sequences": 2, "do_sample": False},
    "sampled": {
        **EARLY, "do_sample": True, "temperature": 0.7, "top_k": 12, "top_p": 0.9, "repetition_penalty": 1.3,
        "no_repeat_ngram_size": 2,
    },
    "whole": {"max_new_tokens": 4, "do_sample": False, "use_cache": False},
    "looked_up": {"max_new_tokens": 6, "do_sample": False, "prompt_lookup_num_tokens": 2},
}  # fmt: skip


@pytest.mark.parametrize("way", ASKED)
def test_rows_end_early_and_processors_say_what_comes(way: str) -> None:
    for asked in (prompt(1, 1), prompt(4, 9, 5)):
        if way == "looked_up" and len(asked["input_ids"]) > 1:
            continue  # transformers looks up for one row
        torch.manual_seed(5)
        expected = llama().generate(**asked, **ASKED[way])
        torch.manual_seed(5)
        assert torch.equal(made().generate(**asked, **ASKED[way]), expected)


def test_what_generate_returns_beside_tokens_is_eagers() -> None:
    asked = {**prompt(2, 5, 2), "max_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
    beside = {"return_dict_in_generate": True, "output_scores": True, "output_hidden_states": True}
    expected, found = (each.generate(**asked, **beside) for each in (llama(), made()))
    assert expected.keys() == found.keys() and torch.equal(expected.sequences, found.sequences)
    for name in ("scores", "hidden_states"):
        torch.testing.assert_close(found[name], expected[name])


def test_a_model_in_training_mode_and_other_examples_are_refused() -> None:
    model = generator_named("GPT2LMHeadModel").model()
    with pytest.raises(CaptureError, match="GPT2LMHeadModel is in training mode"):
        lowering.generation(model.train())
    with pytest.raises(CaptureError, match="the example is str"):
        lowering.generation(model.eval(), "hello")  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match="says itself which sizes vary"):
        lowering.generation(model, dynamic_shapes={})


CHANGES: dict[str, Callable[[Any], object]] = {
    "layers cut": lambda model: setattr(model.model, "layers", model.model.layers[:1]),
    "layers counted otherwise": lambda model: setattr(model.config, "num_hidden_layers", 1),
    "a layer replaced": lambda model: setattr(model.model.layers[0], "mlp", nn.Identity()),
    "an attribute": lambda model: setattr(model.model.layers[0].self_attn, "scaling", 9.0),
    "a hook": lambda model: model.lm_head.register_forward_hook(lambda module, given, found: -found),
    "a forward of its own": lambda model: setattr(model.model.norm, "forward", lambda x: x),
    "training mode": lambda model: model.train(),
    "another weight": lambda model: setattr(model.lm_head, "weight", nn.Parameter(-model.lm_head.weight.detach())),
    "a weight written": lambda model: model.lm_head.weight.detach().neg_(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_is_changed_afterwards_is_refused(change: str) -> None:
    model = copy.deepcopy(llama())
    served = lowering.generation(model)
    ids = torch.randint(5, 20, (1, 4), generator=torch.Generator().manual_seed(0))
    served.generate(ids, **OPTIONS)
    served.generate(ids, num_beams=2, **OPTIONS)  # generating itself changes nothing
    CHANGES[change](model)
    with pytest.raises(StaleError, match="changed since its programs were captured"):
        served.generate(ids, **OPTIONS)


def test_a_generation_with_copied_weights_goes_on() -> None:
    model = copy.deepcopy(llama())
    ids = torch.randint(5, 20, (1, 4), generator=torch.Generator().manual_seed(0))
    wanted, served = model.generate(ids, **OPTIONS), lowering.generation(model, copy=True)
    model.lm_head.weight.detach().neg_()
    assert torch.equal(served.generate(ids, **OPTIONS), wanted)


def test_rotations_scaled_by_the_length_so_far_are_those_of_this_prompt() -> None:
    """What a model remembers of eager calls, the greatest length that it has seen, is in none of the programs."""
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=8,
        rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4},
    )
    torch.manual_seed(0)
    model: Any = transformers.LlamaForCausalLM(config).eval()
    rotations = model.model.rotary_emb
    before = rotations.inv_freq.clone(), rotations.max_seq_len_cached
    served = lowering.generation(model)
    assert torch.equal(rotations.inv_freq, before[0]) and rotations.max_seq_len_cached == before[1]
    asked = {**OPTIONS, "attention_mask": torch.ones(1, 5, dtype=torch.int64), "return_dict_in_generate": True}
    for tokens in (4, 9, 4, 7):
        given = {**asked, "max_new_tokens": tokens, "min_new_tokens": tokens, "output_logits": True}
        expected, found = (each.generate(torch.tensor([[5, 7, 11, 9, 3]]), **given) for each in (model, served))
        for ours, theirs in zip(found.logits, expected.logits, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)
