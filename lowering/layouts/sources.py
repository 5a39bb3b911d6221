"""Where a model comes from: a configuration, a folder that `save_pretrained` wrote, or the model itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import torch

from irkit.errors import IrkitError
from irkit.support.arguments import path_of
from lowering.errors import CaptureError
from lowering.records.programs import first_line

CONFIG, GENERATION = "config.json", "generation_config.json"
BESIDE = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "vocab.txt", "merges.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "source.spm", "target.spm",
    "normalizer.json", "preprocessor_config.json", "processor_config.json", "image_processor_config.json",
    "feature_extractor_config.json", "video_preprocessor_config.json", "chat_template.jinja", "chat_template.json",
    "spm.model", "spm_char.model", "sentencepiece.model", "bpe.codes", "dict.txt", "entity_vocab.json", "emoji.json",
    "vocab-src.json", "vocab-tgt.json", "target_vocab.json", "word_shape.json", "word_pronunciation.json",
    "prophetnet.tokenizer", "byte_maps.json", "tekken.json",
)  # fmt: skip
"""Files of tokenizers and processors, which are copied as they are."""
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")

TASKS: Mapping[str, str] = MappingProxyType(
    {
        "feature-extraction": "AutoModel",
        "text-generation": "AutoModelForCausalLM",
        "text2text-generation": "AutoModelForSeq2SeqLM",
        "fill-mask": "AutoModelForMaskedLM",
        "text-classification": "AutoModelForSequenceClassification",
        "token-classification": "AutoModelForTokenClassification",
        "question-answering": "AutoModelForQuestionAnswering",
        "multiple-choice": "AutoModelForMultipleChoice",
        "automatic-speech-recognition": "AutoModelForSpeechSeq2Seq",
        "image-classification": "AutoModelForImageClassification",
        "image-text-to-text": "AutoModelForImageTextToText",
        "audio-classification": "AutoModelForAudioClassification",
    }
)
"""What a model may be loaded for: the task, as optimum calls it, and transformers' class."""


@attrs.frozen(eq=False)
class Source:
    """A model in eval mode, and the folder that it came from, None where it came from none; with what is to be said."""

    model: Any
    folder: Path | None = None
    notes: tuple[str, ...] = ()

    def copy_beside(self, folder: Path) -> list[Path]:
        """Writes the configurations, of the model and of its generation, into a folder, and copies what the tokenizer
        or processor keeps in files; returns the paths."""
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / CONFIG]
        own = self.folder / CONFIG if self.folder is not None else None
        if own is not None and own.exists():
            copy_file(own, written[0])
        else:
            self.model.config.save_pretrained(folder)
        if getattr(self.model, "generation_config", None) is not None and self.model.can_generate():
            self.model.generation_config.save_pretrained(folder)
            written.append(folder / GENERATION)
        for name in BESIDE:
            if self.folder is not None and (self.folder / name).exists():
                copy_file(self.folder / name, folder / name)
                written.append(folder / name)
        return written


def copy_file(source: Path, target: Path) -> None:
    """Copies a file, unless it is that file."""
    if not (target.exists() and source.samefile(target)):
        shutil.copyfile(source, target)


def source_of(given: Any, task: str | None, random: bool, seed: int) -> Source:
    """The model that is meant: a model itself; the path of a configuration, or of a folder with one.

    Weights are those of the folder, in float32; where it has none, random ones after `seed`, if `random` says so.
    Raises CaptureError for what is none of these, for a folder without weights where `random` is False and for one with
    weights where it is True, and for a configuration that does not say which class the model has.
    """
    if isinstance(given, torch.nn.Module):
        if not callable(getattr(getattr(given, "config", None), "save_pretrained", None)):
            raise CaptureError(
                f"{type(given).__name__} has no configuration of transformers", hint="give a model of transformers"
            )
        return Source(require_eval(given))
    path = path_of(given, CaptureError)
    folder, config = (path, path / CONFIG) if path.is_dir() else (path.parent, path)
    if not config.is_file():
        raise CaptureError(f"there is no configuration at {str(config)!r}", hint="give config.json, or its folder")
    found = [each for pattern in WEIGHTS for each in folder.glob(pattern)] if config.name == CONFIG else []
    if not found and not random:
        raise CaptureError(
            f"there are no weights beside {config.name}", hint="say that they shall be random: --random, random=True"
        )
    if found and random:
        raise CaptureError(
            f"{found[0].name} has the weights, and random ones were asked for",
            hint="leave random out, or give the path of the configuration alone in another folder",
        )
    made, notes = made_model(config, task, folder if found else None, seed)
    return Source(made.eval(), folder, notes)


def require_eval(model: torch.nn.Module) -> torch.nn.Module:
    """The model, in eval mode. Raises CaptureError for one in training mode, of which dropout would be in the file."""
    if model.training:
        raise CaptureError(f"{type(model).__name__} is in training mode", hint="call model.eval() before")
    return model


def made_model(path: Path, task: str | None, folder: Path | None, seed: int) -> tuple[Any, tuple[str, ...]]:
    """The model of a configuration in a file, with the weights of a folder, or random ones; and what is to be said."""
    import transformers

    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(said, dict):
            raise TypeError("it is no dictionary")
        config: Any = transformers.AutoConfig.for_model(**said) if folder is None else None
    except Exception as error:  # transformers' configurations raise errors of their own
        says = " ".join(str(error).split())
        raise CaptureError(
            f"{path.name} is no configuration of a model that transformers {transformers.__version__} knows: {says}",
            hint="give the config.json that save_pretrained wrote; it names the model_type",
        ) from error
    kind = class_of(transformers, said, task)
    if folder is not None:
        require_generation_config(folder / GENERATION)
        return read_model(kind, folder, all_of_it=task is None)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return (kind.from_config if hasattr(kind, "from_config") else kind)(config).to(torch.float32), ()
    except Exception as error:  # models raise anything of a configuration
        raise CaptureError(
            f"{kind.__name__} cannot be made of {path.name}: {first_line(error)}", hint="name another task, or none"
        ) from error


def require_generation_config(path: Path) -> None:
    """Raises CaptureError for a file that cannot be read, in whose place transformers takes what is usual."""
    try:
        is_one = not path.is_file() or isinstance(json.loads(path.read_text(encoding="utf-8")), dict)
    except ValueError:
        is_one = False
    if not is_one:
        raise CaptureError(f"{path.name} is no dictionary in JSON", hint="write it anew, or take it away")


def read_model(kind: Any, folder: Path, all_of_it: bool) -> tuple[Any, tuple[str, ...]]:
    """The model of a class with the weights of a folder, and what is to be said of those that it does not take, where
    it should take all. Raises CaptureError where they cannot be read, are of other
    shapes, or lack some: transformers makes those up, and a file of them would answer at random."""
    try:
        model, told = kind.from_pretrained(
            folder,
            dtype=torch.float32,
            local_files_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    except Exception as error:  # transformers and safetensors raise anything
        raise CaptureError(
            f"{kind.__name__} cannot be read from {folder.name!r}: {first_line(error)}",
            hint="give a folder that save_pretrained wrote, and a task that its model is for",
        ) from error
    other = [f"{name} as {list(has)} for {list(wants)}" for name, has, wants in sorted(told["mismatched_keys"])]
    for lacks, names in (("weights", sorted(told["missing_keys"])), ("weights of its shapes", other)):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise CaptureError(
                f"{folder.name!r} lacks {lacks} that {type(model).__name__} takes: {', '.join(names[:3])}{more}",
                hint="name no task, which makes the model that was saved; or load the model, and give that",
            )
    rest = sorted(told["unexpected_keys"]) if all_of_it else []
    some = ", ".join(rest[:3]) + (f" and {len(rest) - 3} more" if len(rest) > 3 else "")
    return model, (f"weights of the folder that {type(model).__name__} does not take: {some}",) if rest else ()


def class_of(transformers: Any, said: Mapping[str, Any], task: str | None) -> Any:
    """The class of a model: that of the task, else the one that the configuration names. Raises CaptureError for a
    task that there is none of, and where neither says it."""
    if task is not None:
        if task not in TASKS:
            raise CaptureError(f"there is no task {task!r}", hint=f"take one of {', '.join(TASKS)}")
        return getattr(transformers, TASKS[task])
    names = said.get("architectures") or ()
    if len(names) != 1 or not hasattr(transformers, names[0]):
        named = f"names {', '.join(names)}" if names else "names no class of a model"
        raise CaptureError(f"the configuration {named}", hint=f"say what it is for, task=: {', '.join(TASKS)}")
    return getattr(transformers, names[0])


def require_folder(given: Any) -> Path:
    """The folder to write into, or the path of one to be made. Raises IrkitError where there is a file of that name."""
    folder = path_of(given, IrkitError)
    if folder.exists() and not folder.is_dir():
        raise IrkitError(f"{str(folder)!r} is a file", hint="give the name of a folder")
    return folder
