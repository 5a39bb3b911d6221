"""Decoders over caches of one size: what GroupQueryAttention gives over a buffer, and which attentions it computes."""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module, util
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from typer.testing import CliRunner

import irkit
import lowering
from irkit.contract.sizes import check_sizes
from irkit.core.ir import Graph
from irkit.doors.cli import app
from irkit.errors import ContractError
from irkit.onnx.sessions import session
from lowering.layouts.parts import decoder_part
from lowering.layouts.shared_caches import shared_caches
from lowering.layouts.written import graphs_of, programs_of
from lowering.records.options import ExportOptions
from tests.support.draws import drawn
from tests.support.readers import READERS
from tests.tables.layouts import said, written
from tests.zoo.generating import DECODERS, generator_named, prompt

STATES = ("MambaForCausalLM", "Mamba2ForCausalLM", "Lfm2ForCausalLM", "Qwen3NextForCausalLM")
UNLIKE = ("DeepseekV3ForCausalLM",)
"""Values of another size than keys."""
PINNED = (
    "LlamaForCausalLM", "MistralForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "BloomForCausalLM",
    "GptOssForCausalLM",
)  # fmt: skip
"""Plain masks, windows, bounded scores, heads that stand apart, a bias, sinks."""
ROOM = 16


@cache
def model_of(name: str) -> Any:
    """A tiny decoder."""
    return generator_named(name).model()


@cache
def growing(name: str) -> Graph:
    """The decoder over caches that grow."""
    parts = [decoder_part(model_of(name))]
    return graphs_of(parts, programs_of(parts, ExportOptions()))["model"]


def families() -> list[str]:
    """One of each kind of mask, and one more."""
    every = [name for name in DECODERS if name not in (*STATES, *UNLIKE)]
    return drawn("shared-caches", every, 1, pinned=PINNED)


def plain_options(optimized: bool) -> Any:
    """Session options with ONNX Runtime's own optimizations, or without."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    return options


def steps(graph: Graph, lengths: list[int], ids: np.ndarray[Any, Any], optimized: bool = True) -> list[Any]:
    """The logits of each step over tokens that are given in pieces of these lengths, over caches of one size that begin
    with anything in them."""
    opened = session(graph, options=plain_options(optimized))
    names = [port.name for port in graph.signature.params]
    rng = np.random.default_rng(0)
    caches = {
        name: rng.standard_normal((len(ids), value.shape[1], ROOM, value.shape[3])).astype(np.float32)
        for name, value in zip(names, graph.params, strict=True)
        if name.startswith("past_key_values")
    }
    found, done = list[Any](), 0
    for length in lengths:
        feeds: dict[str, Any] = {
            "input_ids": ids[:, done : done + length],
            "attention_mask": np.ones((len(ids), done + length), np.int64),
            "position_ids": np.broadcast_to(np.arange(done, done + length), (len(ids), length)),
        }
        given = [feeds[name] if name in feeds else caches[name] for name in names]
        results = dict(zip(opened.outputs, opened.run(given), strict=True))
        assert all(results[n.replace("past_key_values", "present")].shape == each.shape for n, each in caches.items())
        caches = {name: results[name.replace("past_key_values", "present")] for name in caches}
        found.append(results["logits"])
        done += length
    return found


@pytest.mark.parametrize("name", families())
def test_tokens_are_read_into_caches_with_room(name: str) -> None:
    graph, reason = shared_caches(growing(name))
    assert not reason and sum(v.op == "com.microsoft::GroupQueryAttention" for v in graph.order) == 2
    assert irkit.parse(str(graph), blobs=graph) == graph
    ids = np.random.default_rng(1).integers(5, 60, (2, 9))
    with torch.no_grad():
        expected = model_of(name)(torch.tensor(ids)).logits.numpy()
    for optimized in (True, False):  # a prompt of several rows, and tokens; then a prompt that is read in two pieces
        got = np.concatenate(steps(graph, [6, 1, 1, 1], ids, optimized), 1)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
        one = np.concatenate(steps(graph, [1, 4, 3, 1], ids[:1], optimized), 1)
        np.testing.assert_allclose(one, expected[:1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [*PINNED[:2], "GptOssForCausalLM"])
def test_models_of_half_precision_have_caches_of_float32(name: str, dtype: torch.dtype) -> None:
    """The attention is in float32 over numbers of half precision, with caches that grow and with those of one size."""
    model = generator_named(name).model().to(dtype)
    parts = [decoder_part(model)]
    before = graphs_of(parts, programs_of(parts, ExportOptions()))["model"]
    graph, reason = shared_caches(before)
    assert not reason and sum(v.op == "com.microsoft::GroupQueryAttention" for v in graph.order) == 2
    kept = {port.name: v for port, v in zip(graph.signature.params, graph.params, strict=True)}
    assert {v.dtype.short for n, v in kept.items() if n.startswith("past")} == {"f32"}
    ids = np.random.default_rng(1).integers(5, 60, (2, 9))
    with torch.no_grad():
        expected = model(torch.tensor(ids)).logits.float().numpy()
    got = np.concatenate(steps(graph, [6, 1, 1, 1], ids), 1).astype(np.float32)
    room = 8 * torch.finfo(dtype).eps * np.abs(expected).max()  # eager adds up in half precision, too
    np.testing.assert_allclose(got, expected, rtol=0, atol=room)


def test_rows_of_a_prompt_may_end_early() -> None:
    """What stands behind the end of a row changes nothing before it."""
    graph, _ = shared_caches(growing("LlamaForCausalLM"))
    ids = np.random.default_rng(2).integers(5, 60, (2, 6))
    mask = np.array([[1, 1, 1, 0, 0, 0], [1] * 6])
    names = [port.name for port in graph.signature.params]
    feeds = {"input_ids": ids, "attention_mask": mask, "position_ids": np.broadcast_to(np.arange(6), (2, 6))}
    empty = np.zeros((2, 2, ROOM, 8), np.float32)
    got = session(graph).run([feeds.get(name, empty) for name in names])[0]
    with torch.no_grad():
        alone = model_of("LlamaForCausalLM")(torch.tensor(ids[:1, :3])).logits.numpy()
    np.testing.assert_allclose(got[:1, :3], alone, rtol=1e-4, atol=1e-5)


def test_the_contract_says_what_its_operator_takes() -> None:
    graph, _ = shared_caches(growing("LlamaForCausalLM"))
    known = {"batch_size": 2, "sequence_length": 3, "past_sequence_length": 0, "cache_length": 8}
    check_sizes(graph, known)
    for wrong in ({"past_sequence_length": 2}, {"sequence_length": 1, "past_sequence_length": 9}):
        with pytest.raises(ContractError, match="GroupQueryAttention"):
            check_sizes(graph, known | wrong)
    assert any("hides nothing but the ends of rows" in fact.text for fact in graph.signature.facts)


@pytest.mark.parametrize("name", UNLIKE)
def test_an_attention_of_another_kind_keeps_caches_that_grow(name: str, tmp_path: Path) -> None:
    graph, reason = shared_caches(growing(name))
    assert graph is growing(name) and "the caches of layer 0 are not those of an attention" in reason
    made = lowering.export_hf(model_of(name), tmp_path, "genai")
    assert made.notes == (f"caches grow, and are copied at each step: {reason}",)
    assert not json.loads((tmp_path / "genai_config.json").read_text())["search"]["past_present_share_buffer"]


GRAPH = """graph g {{
  symbol batch_size in [1, inf]
  symbol past_sequence_length in [0, inf]
  symbol sequence_length in [1, inf]
  input %input_ids: i64[batch_size, sequence_length]
  input %attention_mask: i64[batch_size, past_sequence_length + sequence_length]
  input %x: f32[batch_size, sequence_length, {width}]
  input %past_key_values.0.key: f32[batch_size, 2, past_sequence_length, {size}]
  input %past_key_values.0.value: f32[batch_size, 2, past_sequence_length, {size}]
  input %mask: {mask}[batch_size, 1, sequence_length, past_sequence_length + sequence_length]
  %0: (f32[batch_size, sequence_length, {width}], f32[batch_size, 2, past_sequence_length + sequence_length, {size}], \
f32[batch_size, 2, past_sequence_length + sequence_length, {size}]) = Attention(%x, %x, %x, {given}, \
%past_key_values.0.key, %past_key_values.0.value) {{kv_num_heads = 2, q_num_heads = 2{more}}}
  %1: f32[batch_size, sequence_length, {width}] = Item(%0) {{index = 0}}
  %2: f32[batch_size, 2, past_sequence_length + sequence_length, {size}] = Item(%0) {{index = 1}}
  %3: f32[batch_size, 2, past_sequence_length + sequence_length, {size}] = Item(%0) {{index = 2}}
  return %1 as logits
  return %2 as present.0.key
  return %3 as present.0.value
}}"""


def reason_for(given: str = "%mask", size: int = 8, mask: str = "f32", more: str = "") -> str:
    """Why caches grow, of an attention alone."""
    text = GRAPH.format(width=2 * size, size=size, mask=mask, given=given, more=more)
    return shared_caches(irkit.parse(text))[1]


def test_reasons_are_told() -> None:
    assert reason_for(more=", is_causal = 1") == ""
    assert "a query may see the keys after it" in reason_for()
    assert "a query may see the keys after it" in reason_for(mask="bool")
    assert reason_for(mask="bool", more=", is_causal = 1") == ""
    assert "a head is 4" in reason_for(size=4, more=", is_causal = 1")
    assert "its scale is 0" in reason_for(more=", is_causal = 1, scale = 0.0")
    assert "bounded and have a bias" in reason_for(more=", is_causal = 1, softcap = 2.0")
    assert "is a special one" in reason_for(more=", is_causal = 1, softmax_precision = 1")


@pytest.mark.parametrize("mask", ["f32", "bool"])
def test_a_mask_of_its_own_is_added_to_scores(mask: str) -> None:
    """Padding on the left, too, where the mask is no attention_mask."""
    before = irkit.parse(GRAPH.format(width=16, size=8, mask=mask, given="%mask", more=", is_causal = 1"))
    after, _ = shared_caches(before)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5, 16)).astype(np.float32)
    hidden = rng.random((2, 1, 5, 5)) < 0.3
    hidden[..., 0] = False
    own = ~hidden if mask == "bool" else np.where(hidden, -1e30, rng.standard_normal(hidden.shape)).astype(np.float32)
    tokens = [np.zeros((2, 5), np.int64), np.ones((2, 5), np.int64), x]
    rows = [np.zeros((2, 2, n, 8), np.float32) for n in (0, 7)]
    expected = session(before).run([*tokens, rows[0], rows[0], own])
    got = session(after).run([*tokens, rows[1], rows[1], own])
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got[1][:, :, :5], expected[1])


def test_keys_that_were_never_halves_become_such_before_they_are_kept() -> None:
    """As those were that a cache of float16 gave back."""
    text = GRAPH.format(width=16, size=8, mask="f32", given="%mask", more=", is_causal = 1")
    for side in ("key", "value"):
        text = text.replace(f"%past_key_values.0.{side}: f32[", f"%past_key_values.0.{side}: f16[")
        text = text.replace(f"%past_key_values.0.{side})", f"%{side}s)").replace(
            f"%past_key_values.0.{side},", f"%{side}s,"
        )
    kept = "batch_size, 2, past_sequence_length, 8"
    grown = "batch_size, 2, past_sequence_length + sequence_length, 8"
    casts = "".join(f"  %{s}s: f32[{kept}] = Cast(%past_key_values.0.{s}) {{to = 1}}\n" for s in ("key", "value"))
    halves = "".join(f"  %h{i}: f16[{grown}] = Cast(%{i}) {{to = 10}}\n" for i in (2, 3))
    text = text.replace("  %0:", f"{casts}  %0:").replace("  return %1", f"{halves}  return %1")
    before = irkit.parse(text.replace("return %2 as", "return %h2 as").replace("return %3 as", "return %h3 as"))
    after, reason = shared_caches(before)
    assert not reason
    rng = np.random.default_rng(0)
    mask = rng.standard_normal((2, 1, 5, 5)).astype(np.float32)
    given = [np.zeros((2, 5), np.int64), np.ones((2, 5), np.int64), rng.standard_normal((2, 5, 16)).astype(np.float32)]
    expected = session(before).run([*given, *[np.zeros((2, 2, 0, 8), np.float16)] * 2, mask])
    got = session(after).run([*given, *[np.zeros((2, 2, 7, 8), np.float32)] * 2, mask])
    np.testing.assert_array_equal(got[1][:, :, :5].astype(np.float16).astype(np.float32), got[1][:, :, :5])
    np.testing.assert_array_equal(got[2][:, :, :5].astype(np.float16), expected[2])
    np.testing.assert_allclose(got[0], expected[0], rtol=2e-3, atol=2e-3)  # before, the first step's were rounded later


def test_the_command_tells_why_caches_grow(tmp_path: Path) -> None:
    model_of("DeepseekV3ForCausalLM").save_pretrained(tmp_path / "saved")
    done = CliRunner().invoke(
        app, ["export-hf", str(tmp_path / "saved"), "-o", str(tmp_path / "made"), "--layout", "genai"]
    )
    assert done.exit_code == 0 and "note: caches grow" in " ".join(done.output.split()), done.output


def genai() -> Any:
    """onnxruntime-genai; skips where it is missing."""
    if util.find_spec("onnxruntime_genai") is None:
        pytest.skip("onnxruntime-genai is not installed: pip install -e '.[genai]'")
    return import_module("onnxruntime_genai")  # an extra


@pytest.mark.parametrize("name", families())
def test_genai_generates_over_shared_buffers(name: str, tmp_path: Path) -> None:
    genai()
    asked = written(name, "genai", tmp_path)
    config = json.loads((tmp_path / "genai_config.json").read_text())
    assert config["search"]["past_present_share_buffer"]
    reader = READERS["genai"]()
    assert said(asked, reader.answers([each.job for each in asked])) == "equal"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen2ForCausalLM", "GptOssForCausalLM"])
def test_genai_generates_in_half_precision(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Over caches of one size, with sinks, too. Each token is one that eager might have chosen: in
    half precision the two highest scores are often a rounding apart."""
    genai()
    model, asked = generator_named(name).model().to(dtype), prompt(2, 5)
    lowering.export_hf(model, tmp_path, "genai")
    options = {"max_new_tokens": 8, "min_new_tokens": 8}
    plain = {key: each.tolist() for key, each in asked.items()}
    answer = READERS["genai"]().answers([{"folder": str(tmp_path), "inputs": plain, "options": options}])[0]
    found = torch.tensor(answer["found"])
    with torch.no_grad():
        scores = model(found).logits[:, 4:-1].float()
    assert model.config.eos_token_id is not None
    scores[..., model.config.eos_token_id] = -torch.inf  # which a text of at least so many tokens may not have
    chosen = scores.gather(-1, found[:, 5:, None])[..., 0]
    assert bool(
        (chosen >= scores.amax(-1) - 8 * torch.finfo(dtype).eps * scores.abs().nan_to_num(posinf=0).amax()).all()
    )


@pytest.mark.parametrize("name", PINNED[:3])
def test_genai_searches_by_beams(name: str, tmp_path: Path) -> None:
    """Then it shares no buffers, and the same file takes caches that grow."""
    genai()
    lowering.export_hf(model_of(name), tmp_path, "genai")
    options = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, "pad_token_id": 0, "num_beams": 3}
    inputs = prompt(2, 5)
    plain = {key: each.tolist() for key, each in inputs.items()}
    answer = READERS["genai"]().answers([{"folder": str(tmp_path), "inputs": plain, "options": options}])[0]
    assert answer.get("found") == model_of(name).generate(**inputs, **options).tolist(), answer


def test_genai_reads_a_prompt_in_pieces(tmp_path: Path) -> None:
    library, model = genai(), model_of("MistralForCausalLM")
    lowering.export_hf(model, tmp_path, "genai")
    first, second = prompt(1, 5)["input_ids"], prompt(1, 3)["input_ids"]
    opened = library.Model(str(tmp_path))
    asked = library.GeneratorParams(opened)
    asked.set_search_options(max_length=14, min_length=14, do_sample=False)
    generator = library.Generator(opened, asked)
    for each in (first, second):
        generator.append_tokens(each.numpy().astype(np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    ids = torch.cat([first, second], 1)
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), **options)[0].tolist()
    assert [int(token) for token in generator.get_sequence(0)] == expected
