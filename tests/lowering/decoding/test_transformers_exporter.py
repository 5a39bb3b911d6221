"""irkit as a backend of transformers' exporters: through its own registry, runners and files."""

from __future__ import annotations

import copy
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import transformers
from transformers.exporters.auto import AutoExportConfig, AutoHfExporter
from transformers.exporters.base import ExportedModel

import irkit
import irkit.transformers
from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError, LoadError, StaleError
from irkit.onnx.load import load
from lowering.decoding.program_files import KEY
from lowering.errors import CaptureError
from lowering.program.program import Program
from lowering.records.torch_internals import pytree
from tests.tables.transformers_exports import once_row, row_of
from tests.zoo.cases import case_named
from tests.zoo.generating import generator_named, prompt


@cache
def llama() -> Any:
    """A tiny decoder."""
    return generator_named("LlamaForCausalLM").model()


def exported(**options: Any) -> Any:
    """Its export by transformers' own way."""
    irkit.transformers.register()
    config = irkit.transformers.IrkitConfig(dynamic=True, **options)
    return AutoHfExporter.from_config(config).export(llama(), prompt(2, 5, 2), config)


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "T5ForConditionalGeneration"])
def test_components_agree_and_tokens_are_equal_through_the_runners(name: str) -> None:
    row = row_of(generator_named(name))
    assert not row.problem and row.tokens == "equal" and row.components == ("prefill", "decode"), row


def test_an_export_is_called_saved_read_and_saved_again(tmp_path: Path) -> None:
    stages = []
    model = exported(opset=24, progress=lambda stage, done, total: stages.append(stage))
    assert isinstance(model.program, Program) and model.program.opset == 24 and "capture" in stages
    asked = prompt(3, 7, 1)
    with torch.no_grad():
        expected = llama()(**asked)
    for folder in (None, tmp_path / "first", tmp_path / "second"):
        if folder is not None:
            model.save_pretrained(folder)
            assert {each.name for each in folder.iterdir()} == {
                "model.onnx",
                "model.onnx.data",
                "config.json",
                "export.json",
            }
            model = ExportedModel.from_pretrained(folder)
        found = model(**asked, unknown_to_it=1)
        torch.testing.assert_close(found.logits, expected.logits, rtol=1e-4, atol=1e-5)
        assert type(found) is type(expected) and type(found.past_key_values) is transformers.DynamicCache
        assert found.past_key_values.get_seq_length() == 7 and model.device.type == "cpu"
        with pytest.raises(ContractError, match=r"input_ids is torch\.float32"):
            model(**{**asked, "input_ids": torch.ones(3, 7)})
        with pytest.raises(ContractError, match="attention_mask"):
            model(input_ids=asked["input_ids"], attention_mask=torch.ones(3, 9, dtype=torch.int64))
    manifest = json.loads((tmp_path / "second" / "export.json").read_text())
    assert manifest["export_format"] == "irkit"
    assert dict(load(tmp_path / "second" / "model.onnx").signature.metadata)[KEY]


def test_files_of_two_exports_that_were_mixed_are_refused(tmp_path: Path) -> None:
    """The weights of another model of the same sizes were once read without a word."""
    exported().save_pretrained(tmp_path / "first")
    other = copy.deepcopy(llama())
    with torch.no_grad():
        for each in other.parameters():
            each.mul_(1.5)
    config = irkit.transformers.IrkitConfig(dynamic=True)
    AutoHfExporter.from_config(config).export(other, prompt(2, 5, 2), config).save_pretrained(tmp_path / "second")
    read = irkit.transformers.IrkitExporter.load_program(tmp_path / "second" / "model.onnx")
    shutil.copy(tmp_path / "first" / "model.onnx.data", tmp_path / "second")
    with pytest.raises(LoadError, match=r"'model\.onnx\.data' holds the weights of another model"):
        ExportedModel.from_pretrained(tmp_path / "second")
    with pytest.raises(LoadError, match="of another model"):
        read.save(tmp_path / "third.onnx")
    shutil.copy(tmp_path / "first" / "model.onnx", tmp_path / "second")
    with pytest.raises(StaleError, match=r"model\.onnx was written again after it was read"):
        read.save(tmp_path / "third.onnx")
    assert not (tmp_path / "third.onnx").exists()
    data = tmp_path / "first" / "model.onnx.data"
    data.write_bytes(data.read_bytes()[:-4096])
    with pytest.raises(LoadError, match="ends at byte"):
        ExportedModel.from_pretrained(tmp_path / "first")


def test_a_program_that_is_copied_has_its_weights_under_another_name(tmp_path: Path) -> None:
    exported().save_pretrained(tmp_path / "first")
    kind = irkit.transformers.IrkitExporter
    kind.load_program(tmp_path / "first" / "model.onnx").save(tmp_path / "again.onnx")
    asked = prompt(3, 7, 1)
    found = kind.load_program(tmp_path / "again.onnx")(**asked)
    with torch.no_grad():
        torch.testing.assert_close(found.logits, llama()(**asked).logits, rtol=1e-4, atol=1e-5)
    assert {each.name for each in tmp_path.iterdir()} == {"first", "again.onnx", "again.onnx.data"}


def test_a_program_in_a_file_says_what_it_does_not_take(tmp_path: Path) -> None:
    model = exported()
    model.save_pretrained(tmp_path)
    call = ExportedModel.from_pretrained(tmp_path).runners["model"]
    asked = prompt(2, 4)
    with pytest.raises(ContractError, match="the call lacks 'input_ids'"):
        call(attention_mask=asked["attention_mask"])
    with pytest.raises(ContractError, match="the call has 'use_cache'"):
        call(**asked, use_cache=False)
    with pytest.raises(ContractError, match="the call has 'pixels'"):
        call(**asked, pixels=torch.ones(1))
    with pytest.raises(LoadError, match="does not say how it is called"):
        model.program.save(tmp_path / "plain.onnx")
        irkit.transformers.IrkitExporter.load_program(tmp_path / "plain.onnx")


@pytest.mark.parametrize("said", ["{", "[]", '{"in": null}'])
def test_a_file_whose_calls_cannot_be_read_is_refused(said: str, tmp_path: Path) -> None:
    exported().save_pretrained(tmp_path)
    model = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    for entry in model.metadata_props:
        entry.value = said if entry.key == KEY else entry.value
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(LoadError, match=r"what model\.onnx says of its calls cannot be read"):
        ExportedModel.from_pretrained(tmp_path)


def test_a_file_with_other_inputs_than_it_says_is_refused(tmp_path: Path) -> None:
    exported().save_pretrained(tmp_path)
    model = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    for node in model.graph.node:
        node.input[:] = ["other" if name == "input_ids" else name for name in node.input]
    model.graph.input[0].name = "other"
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(LoadError, match="has other inputs or outputs than it says"):
        ExportedModel.from_pretrained(tmp_path)


def test_a_model_in_training_mode_is_refused() -> None:
    irkit.transformers.register()
    model, config = generator_named("GPT2LMHeadModel").model().train(), irkit.transformers.IrkitConfig()
    with pytest.raises(CaptureError, match="GPT2LMHeadModel is in training mode"):
        AutoHfExporter.from_config(config).export(model, prompt(2, 5), config)


def test_what_irkit_is_to_transformers_is_registered_when_asked_for() -> None:
    irkit.transformers.register()
    irkit.transformers.register()
    found: Any = AutoExportConfig.from_dict({"export_format": "irkit", "dynamic": True, "precision": "float16"})
    assert isinstance(found, irkit.transformers.IrkitConfig) and found.precision == "float16"
    with pytest.raises(AttributeError, match="has no attribute 'Exporter'"):
        _ = irkit.transformers.Exporter
    with pytest.raises(CaptureError, match="quantizer is for other formats"):
        exported(quantizer=object())


def test_caches_are_named_by_irkit_though_transformers_registered_them() -> None:
    from transformers.exporters.exporter_dynamo import register_cache_pytrees_for_model

    register_cache_pytrees_for_model(llama())
    cache_ = transformers.DynamicCache(config=llama().config)
    with torch.no_grad():
        llama()(**prompt(2, 3), past_key_values=cache_)
    kwargs = {"input_ids": torch.ones(2, 1, dtype=torch.int64), "past_key_values": cache_}
    program = to_onnx(llama(), kwargs=kwargs, dynamic_shapes={"past_key_values": {2: "past"}})
    assert dict(program.report.inputs)["past_key_values.0.key"] == "f32[2, 2, past, 8]"
    kind = pytree.SUPPORTED_NODES[transformers.DynamicCache]
    assert kind.flatten_fn.__module__.startswith("transformers.exporters")  # as it was


@pytest.mark.parametrize("name", ["bert", "resnet", "t5_step"])
def test_one_forward_agrees_at_its_sizes_and_refuses_those_that_are_fixed(name: str) -> None:
    """`make transformers-exports` tries all models of the zoo."""
    row = once_row(case_named(name))
    assert row.agrees and row.right + row.refused == len(case_named(name).assignments), row
    assert row.right == (4 if name == "bert" else 0)
