"""`make layouts`: which models the libraries load from `lowering.export_hf`'s folders and answer right, as a page.

`python -m tests.tables.layouts [NAME ...]` tries those of that name only, and writes no page.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch
import transformers

import lowering
from irkit.errors import IrkitError
from lowering.layouts.images import reads_images
from tests.support.readers import READERS, Reader
from tests.zoo.case import config_of
from tests.zoo.generating import GENERATORS, Generator, listening, prompt
from tests.zoo.layout_models import LAYOUT_MODELS

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "layouts.md"
HEAD = """# Layouts that others read

Written by `make layouts`: tiny models of transformers {version} with random weights, written by `lowering.export_hf` in
each layout, loaded by the library that the layout is of, and asked for eight tokens, greedily, of two prompts one of
which is padded on the left, and of one shorter. "equal" is equal to eager's tokens. onnxruntime-genai 0.18 hides no
padding of a batch, so its prompts have none; it hears sounds of 3000 frames, and so Whisper has 1500 positions there.
Models that read once are compared by their numbers.

{summary}

| model | {layouts} |
| --- | {rules} |
"""
OPTIONS: dict[str, Any] = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
PROMPTS: Mapping[str, Any] = {"genai": lambda: [prompt(2, 5), prompt(1, 3)]}
"""Prompts of another kind than others get: onnxruntime-genai 0.18 hides no padding, whatever pads."""
SMALL: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
PIXELS: dict[str, Any] = {**SMALL, "image_size": 16, "patch_size": 8, "num_labels": 3}
DISTIL: dict[str, Any] = {"vocab_size": 64, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4}
READ_ONCE: Mapping[str, tuple[str, dict[str, Any], str, str]] = {
    "BertModel": ("BertConfig", SMALL, "FeatureExtraction", "last_hidden_state"),
    "BertForMaskedLM": ("BertConfig", SMALL, "MaskedLM", "logits"),
    "RobertaForSequenceClassification": ("RobertaConfig", SMALL, "SequenceClassification", "logits"),
    "DistilBertForTokenClassification": ("DistilBertConfig", DISTIL, "TokenClassification", "logits"),
    "ElectraForQuestionAnswering": (
        "ElectraConfig",
        {**SMALL, "embedding_size": 16},
        "QuestionAnswering",
        "end_logits",
    ),
    "ViTForImageClassification": ("ViTConfig", PIXELS, "ImageClassification", "logits"),
}
"""Models that read once: the configuration, what the libraries call the task, and the output that is compared."""

TAIL = """
## Whose the others are

- optimum-onnx 0.1.0 (`ORTModelForCausalLM.__init__`) takes Gemma 2, Mixtral, OLMo 2, Phi 3, Qwen2-MoE and Starcoder2 to
  have as many heads of keys as of queries; where they do, they load. It expects keys of DeepSeek V3 by head, where
  transformers 5 keeps one compressed for all heads.
- transformers.js 4.3.1 has no class for Nemotron and Mixtral, and looks for caches of Falcon's that have keys and
  values in one tensor.
- onnxruntime-genai 0.18 makes values as wide as keys, which those of DeepSeek V3 are not, and wants a token that ends a
  text, which the configuration of MPT does not name. Of encoders with decoders it loads Whisper's, and Marian's with
  recurrent decoders. Its caches are of one size, written in place, in all that it loads but Whisper.
- What keeps other states than keys and values, and what reads images beside text, is written for transformers.js as far
  as it has names for it, which Mamba alone lacks. `lowering.generation` serves it elsewhere.
"""


@attrs.frozen
class Asked:
    """What a library is asked, and what eager gives."""

    name: str
    job: Mapping[str, Any]
    expected: Any


def asked_of(generator: Generator, layout: str, folder: Path, prompts: int = 2) -> list[Asked]:
    """The model written into a folder, and what is asked of it."""
    model = generator.model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowering.export_hf(model, folder, layout)
        found = list[Asked]()
        hears = model.main_input_name == "input_features"
        for inputs in (generator.prompts if hears else PROMPTS.get(layout, generator.prompts))()[:prompts]:
            if layout == "transformers.js" and hears:
                inputs = {name: each[:1] for name, each in inputs.items()}  # it hears one sound at a time
            expected = model.generate(**inputs, **OPTIONS).tolist()
            if layout != "optimum" and hears:
                expected = [[model.config.decoder_start_token_id, *row] for row in expected]  # which they give too
            plain = {name: each.tolist() for name, each in inputs.items()}
            job = {"folder": str(folder), "kind": "generate", "inputs": plain, "options": OPTIONS}
            job["start"] = model.config.decoder_start_token_id if model.config.is_encoder_decoder else None
            found.append(Asked(generator.name, {**job, **classes_of(model)}, expected))
    return found


def classes_of(model: Any) -> dict[str, str]:
    """The classes by which optimum and transformers.js load a model that generates."""
    if reads_images(model):
        return {"class": "ORTModelForVision2Seq", "js": "AutoModelForImageTextToText"}
    if not model.config.is_encoder_decoder:
        return {"class": "ORTModelForCausalLM", "js": "AutoModelForCausalLM"}
    kind = "Seq2SeqLM" if model.main_input_name == "input_ids" else "SpeechSeq2Seq"
    return {"class": f"ORTModelFor{kind}", "js": f"AutoModelFor{kind}"}


def read_once(name: str, layout: str, folder: Path) -> list[Asked]:
    """The model that reads once written into a folder, and what is asked of it."""
    kind, sizes, task, output = READ_ONCE[name]
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model = getattr(transformers, name)(config_of(kind, **sizes)).eval()
        lowering.export_hf(model, folder, layout)
        inputs = {"pixel_values": torch.rand(3, 3, 16, 16)} if "pixel_values" in model.main_input_name else prompt(3, 7)
        expected = getattr(model(**inputs), output).tolist()
    classes = {
        "class": f"ORTModelFor{task}",
        "js": "AutoModel" if task == "FeatureExtraction" else f"AutoModelFor{task}",
    }
    plain = {key: each.tolist() for key, each in inputs.items()}
    job = {"folder": str(folder), "kind": "infer", "inputs": plain, "options": {"output": output}, **classes}
    return [Asked(name, job, expected)]


def said(asked: Sequence[Asked], answers: Sequence[Mapping[str, Any]]) -> str:
    """What became of a model, in a cell of the table: "equal" where all is."""
    for each, answer in zip(asked, answers, strict=True):
        if "problem" in answer:
            return " ".join(answer["problem"].split())[:240].replace("|", "/")
        if each.job["kind"] == "generate" and answer["found"] != each.expected:
            return "other tokens"
        if each.job["kind"] == "infer" and not np.allclose(answer["found"], each.expected, rtol=1e-4, atol=1e-5):
            return f"other numbers, by {np.abs(np.subtract(answer['found'], each.expected)).max():.1e}"
    return "equal"


def written(name: str, layout: str, folder: Path, prompts: int = 2) -> list[Asked]:
    """The model of that name written into a folder, and what is asked of it."""
    if name in READ_ONCE:
        return read_once(name, layout, folder)
    is_long = layout == "genai" and name == "WhisperForConditionalGeneration"
    found = next(each for each in (*GENERATORS, *LAYOUT_MODELS) if each.name == name)
    return asked_of(listening(1500) if is_long else found, layout, folder, prompts)


def cells(names: Sequence[str], layout: str, reader: Reader) -> dict[str, str]:
    """What becomes of each model in a layout, read by its library."""
    found, asked = dict[str, str](), dict[str, list[Asked]]()
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            try:
                asked[name] = written(name, layout, Path(place, name))
            except Exception as error:
                what = error.what if isinstance(error, IrkitError) else f"{type(error).__name__}: {error}"
                found[name] = f"not written: {' '.join(what.split())[:240]}".replace("|", "/")
        answers = iter(reader.answers([each.job for every in asked.values() for each in every]))
        for name, every in asked.items():
            found[name] = said(every, [next(answers) for _ in every])
    return found


def main() -> None:
    """Tries the models, prints a row each, and writes the page where all were tried."""
    every = [*(each.name for each in (*GENERATORS, *LAYOUT_MODELS)), *READ_ONCE]
    names = [name for name in every if not sys.argv[1:] or name in sys.argv[1:]]
    readers = {layout: make() for layout, make in READERS.items()}
    columns = {layout: cells(names, layout, reader) for layout, reader in readers.items() if not reader.missing}
    rows = [f"| {name} | {' | '.join(column[name] for column in columns.values())} |" for name in names]
    print("\n".join(rows))
    if names == every and len(columns) == len(readers):
        counts = (f"{sum(c == 'equal' for c in column.values())} in {name}'s" for name, column in columns.items())
        head = HEAD.format(
            version=transformers.__version__,
            summary=f"Of {len(names)} models, equal are {', '.join(counts)} layout.",
            layouts=" | ".join(columns),
            rules=" | ".join("---" for _ in columns),
        )
        PAGE.write_text(head + "\n".join(rows) + "\n" + TAIL, encoding="utf-8")


if __name__ == "__main__":
    main()
