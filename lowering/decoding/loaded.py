"""`load_generation`: a folder that `Generation.save` wrote generates again, without capture and torch's weights."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import torch
import transformers

from irkit.errors import ContractError, LoadError
from lowering.decoding.program_files import SAVE_KEY, FileProgram
from lowering.decoding.stages import answered_by
from lowering.decoding.steps import in_own_caches, named_arguments


@attrs.frozen(eq=False, repr=False)
class LoadedGeneration:
    """What `lowering.load_generation` returns: `generate`, as that of the model that was saved.

    `model` is of the model's class, for the loop of transformers: its weights have no numbers, those of the programs
    are in the files. `programs` are those of the folder, by name.
    """

    model: Any
    programs: Mapping[str, FileProgram]

    def generate(self, inputs: Any = None, **kwargs: Any) -> Any:
        """What the model's own `generate` returns for the same arguments. Raises what it raises, and ContractError for
        a call that no program of the folder takes."""
        of_encoder = [each for name, each in self.programs.items() if name.startswith("encoder")]
        of_steps = [each for name, each in self.programs.items() if not name.startswith("encoder")]
        served = answered_by(self.model, FileStage("model", self.model, of_steps))
        if of_encoder:
            own = self.model.get_encoder()
            encoder = answered_by(own, FileStage("encoder", own, of_encoder))

            def get_encoder(*args: Any, **options: Any) -> Any:
                found = self.model.get_encoder(*args, **options)
                return encoder if found is own else found

            served.get_encoder = get_encoder
        with torch.no_grad():
            return served.generate(*(() if inputs is None else (inputs,)), **kwargs)

    def __repr__(self) -> str:
        return f"<Generation of {type(self.model).__name__}, loaded: {', '.join(self.programs)}>"


@attrs.frozen(eq=False)
class FileStage:
    """A module without numbers, and the programs in files that answer its calls."""

    name: str
    module: Any
    programs: Sequence[FileProgram]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the first program gives that takes the call. Raises ContractError where none does."""
        call, refused = (
            named_arguments(self.module, args, kwargs),
            ContractError(f"the {self.name} has no program", hint="save the generation anew"),
        )
        for program in self.programs:
            try:
                return in_own_caches(call, program(**call))
            except ContractError as error:
                refused = error
        what = f"no program of the {self.name} takes this call: {refused.what}"
        raise ContractError(what, source=refused.source, hint=refused.hint)


def load_generation(folder: str | Path, model_class: type[Any] | None = None) -> LoadedGeneration:
    """What a folder generates that `lowering.generation(model).save(folder)` wrote: the same tokens, on ONNX Runtime,
    without the model's weights in torch, and without a capture.

    Args:
        folder: with the models, their weights, `config.json` and `generation_config.json`.
        model_class: the class of the model; None for a class of transformers, whose name `config.json` tells.

    Raises LoadError for a folder that no generation was saved in, and for a class that transformers does not have.
    """
    folder = Path(folder)
    paths = {path.stem: path for path in sorted(folder.glob("*.onnx"))} if folder.is_dir() else {}
    if not paths or not (folder / "config.json").is_file():
        raise LoadError(
            f"{folder.name} has no saved generation", hint="give the folder of lowering.generation(model).save(folder)"
        )
    said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    name = (said.get("architectures") or [""])[0]
    kind = model_class or getattr(transformers, name, None)
    if kind is None:
        raise LoadError(
            f"transformers has no class {name!r}", hint="give it: lowering.load_generation(folder, model_class)"
        )
    config = kind.config_class.from_pretrained(folder)
    with torch.device("meta"):
        model = on_cpu(kind)(config).eval()
    if (folder / "generation_config.json").is_file():
        model.generation_config = transformers.GenerationConfig.from_pretrained(folder)
    programs = {name: FileProgram.of(path) for name, path in paths.items()}
    require_one_save(programs)
    return LoadedGeneration(model, programs)


def require_one_save(programs: Mapping[str, FileProgram]) -> None:
    """Raises LoadError for programs that were not saved together, or not all of those that were."""
    saves = {name: dict(each.graph.signature.metadata).get(SAVE_KEY, "{}") for name, each in programs.items()}
    first, *others = saves
    hint = "save the generation anew, into an empty folder"
    for name in others:
        if saves[name] != saves[first]:
            raise LoadError(f"{first}.onnx and {name}.onnx are of two saves", hint=hint)
    try:
        together = set[str](json.loads(saves[first]))
    except (ValueError, TypeError) as error:
        raise LoadError(f"{first}.onnx does not say what it was saved with: {error}", hint=hint) from error
    if missing := sorted(together - saves.keys()):
        raise LoadError(f"{missing[0]}.onnx is missing, which {first}.onnx was saved with", hint=hint)
    if foreign := sorted(saves.keys() - together):
        raise LoadError(f"{foreign[0]}.onnx is of another save, or under another name", hint=hint)


def on_cpu(kind: type[Any]) -> type[Any]:
    """The class, whose models say that they are on the CPU: there ONNX Runtime computes what they are asked for."""

    def device(self: Any) -> torch.device:
        return torch.device("cpu")

    return type(kind.__name__, (kind,), {"device": property(device), "__module__": kind.__module__})
