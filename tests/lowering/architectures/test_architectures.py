"""Tiny architectures: built, exported, compared on each set of inputs; sweeps that go on."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import lowering
from irkit.doors.cli import app
from irkit.errors import IrkitError
from lowering.architectures import ARCHITECTURES, Validation, architecture, sweep, validate
from tests.support.draws import drawn


def test_there_are_at_least_150_with_names_of_their_own() -> None:
    assert lowering.architectures.ARCHITECTURES is ARCHITECTURES and len(ARCHITECTURES) >= 150
    assert {each.task for each in ARCHITECTURES.values()} == {"decoder", "encoder", "seq2seq", "image"}
    assert all(name == each.name for name, each in ARCHITECTURES.items())
    with pytest.raises(IrkitError, match="no architecture 'lama'") as told:
        architecture("lama")
    assert "llama" in told.value.hint


def test_a_model_is_tiny_and_the_same_at_each_call() -> None:
    first, second = architecture("gpt2").model(), architecture("gpt2").model()
    weights = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in weights)
    assert sum(p.numel() for p in first.parameters()) < 1e6 and not first.training


@pytest.mark.parametrize(
    ("name", "options", "sets"),
    [
        ("llama", {}, ["example", "prefill", "empty cache", "decode", "batch 1"]),
        ("distilbert", {"dtype": "float16"}, ["example", "longer", "one token", "batch 1"]),
        ("vit", {"runtime": "irkit", "opset": 20}, ["example", "batch 3", "batch 1"]),
        ("gpt2", {"dtype": "float64"}, ["example", "prefill", "empty cache", "decode", "batch 1"]),
    ],
)
def test_an_architecture_agrees_with_eager_on_every_set(name: str, options: dict[str, Any], sets: list[str]) -> None:
    found = validate(name, **options)
    assert found, found.said
    assert [each.name for each in found.sets] == sets and found.nodes > 10 and found.size > 1000
    assert set(found.seconds) == {"build", "capture", "export", "compare"}
    assert Validation.of(json.loads(found.json())).asdict() == found.asdict()


def test_what_fails_is_an_outcome_with_its_line() -> None:
    found = validate("mamba", capture="direct")
    assert not found and "was to vary" in found.problem and "for index in range(seq_len)" in found.line
    for wrong in ({"dtype": "int8"}, {"runtime": "tensorrt"}):
        with pytest.raises(IrkitError, match="there is no"):
            validate("vit", **wrong)


def test_a_sweep_goes_on_where_it_was_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def stub(names: Sequence[str], options: Mapping[str, Any], limit: float) -> list[Validation]:
        done.extend(names[:2])
        return [Validation(name, "image", problem="" if name != "vit" else "it ended") for name in names[:2]]

    monkeypatch.setitem(vars(sys.modules["lowering.architectures.sweep"]), "in_process", stub)
    results = tmp_path / "build" / "rows.jsonl"
    names = list(ARCHITECTURES)[:5]
    found = sweep(names, {"dtype": "float32"}, results, jobs=2)
    assert [each.name for each in found] == names and sorted(done) == sorted(names)
    with results.open("a") as file:
        file.write('{"cut short')
    again = sweep([*names, "vit"], {"dtype": "float32"}, results)
    assert len(done) == 6 and [each.name for each in again] == [*names, "vit"] and again[-1].problem == "it ended"
    sweep(names[:1], {"dtype": "float16"}, results)
    assert len(done) == 7


def test_the_command_prints_tables_and_json_and_says_what_is_missing() -> None:
    run = CliRunner().invoke(app, ["validate", "--list"])
    assert run.exit_code == 0 and "llama" in run.output and len(run.output.splitlines()) == len(ARCHITECTURES)
    run = CliRunner().invoke(app, ["validate", "vit", "--json", "--dtype", "bfloat16"])
    assert run.exit_code == 0 and json.loads(run.output.splitlines()[-1])["passed"]
    run = CliRunner().invoke(app, ["validate"])
    assert run.exit_code == 1


@pytest.mark.parametrize("name", drawn("architectures", sorted(ARCHITECTURES), 3))
def test_architectures_build_and_run(name: str) -> None:
    chosen = architecture(name)
    model = chosen.model()
    sets = chosen.sets(model)
    with torch.no_grad():
        assert model(**sets.example) is not None


def test_patches_are_in_place_while_a_model_is_captured(tmp_path: Path) -> None:
    file = tmp_path / "patches.py"
    file.write_text(
        "from lowering import Replacement\n"
        "def fail(*args, **kwargs):\n"
        "    raise ValueError('the patch is in place')\n"
        "failing = Replacement('transformers.models.vit.modeling_vit.ViTEmbeddings.forward', fail)\n"
    )
    found = validate("vit", patch=[f"{file}:failing"])
    assert not found
    assert "the patch is in place" in found.problem
    for text, said in (
        (f"{file}:other", "has no other"),
        ("no_such_module:x", "cannot be read"),
        ("x", "names no patch"),
    ):
        with pytest.raises(IrkitError, match=said):
            validate("vit", patch=[text])
