"""`generation`: a model of transformers that generates on ONNX Runtime, by programs that share its weights."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import torch

from irkit.core.ir import Graph
from irkit.errors import IrkitError
from irkit.onnx.shared_weights import write_models
from lowering.capture.inputs.standing import Standing
from lowering.decoding.program_files import KEY, SAVE_KEY, file_graph
from lowering.decoding.stages import Stage
from lowering.decoding.steps import merged_steps, recorded_calls
from lowering.errors import CaptureError
from lowering.program.program import Program
from lowering.records.options import ExportOptions

NAMES = re.compile(r"model|prefill|decode|(step|encoder)_\d+|encoder")
"""The names of programs."""


@attrs.frozen(eq=False, repr=False)
class Generation:
    """What `lowering.generation` returns: `generate`, as the model's own, run by ONNX Runtime.

    `prefill` and `decode` are the programs that read a prompt and go on from a cache; often they are one. `steps` has
    all programs of the model's forward, and `encoder` those of its encoder, None where it has none. All of them are
    over the weights of `model`, which are in memory once but for what ONNX Runtime keeps for itself. `standing` is how
    the model stood when it was captured; None where the programs have weights of their own.
    """

    model: Any
    steps: Stage
    encoder: Stage | None
    prefill: Program
    decode: Program
    standing: Standing | None = None

    @property
    def programs(self) -> dict[str, Program]:
        """The programs by name: "model" where one serves all, else "prefill", "decode" and those for further calls."""
        found = {"model" if self.is_one else "decode": self.decode}
        if not self.is_one:
            found["prefill"] = self.prefill
        others = [each for each in self.steps.programs if each is not self.decode and each is not self.prefill]
        found |= {f"step_{i}": each for i, each in enumerate(others, 1)}
        for i, each in enumerate(self.encoder.programs if self.encoder else ()):
            found[f"encoder_{i}" if i else "encoder"] = each
        return found

    @property
    def is_one(self) -> bool:
        """Whether one program reads prompts and goes on from a cache."""
        return self.prefill is self.decode

    def generate(self, inputs: Any = None, **kwargs: Any) -> Any:
        """What `model.generate` returns for the same arguments: greedy, sampled, by beams, with left padding, in
        batches. Raises what it raises, ContractError for a call that no program takes and none may be captured, and
        StaleError where layers, attributes or the configuration of the model are others than when it was captured."""
        if self.standing is not None:
            self.standing.require(type(self.model).__name__)
        served = self.steps.served()
        if self.encoder is not None:
            own, encoder = self.encoder.module, self.encoder.served()

            def get_encoder(*args: Any, **options: Any) -> Any:
                found = self.model.get_encoder(*args, **options)
                return encoder if found is own else found

            served.get_encoder = get_encoder
        with torch.no_grad():
            return served.generate(*(() if inputs is None else (inputs,)), **kwargs)

    def save(self, folder: str | Path) -> dict[str, Path]:
        """Writes each program as an ONNX model into a folder, with the configuration beside them, and the weights of
        all of them, each once, in one file; returns the path of each. `lowering.load_generation(folder)` generates from
        it. Programs of an earlier save are removed. Raises SerializeError where no file can be made.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        programs = self.programs
        written = write_models(of_one_save({name: file_graph(each) for name, each in programs.items()}), folder)
        for path in set(folder.glob("*.onnx")) - set(written.values()):
            if NAMES.fullmatch(path.stem) and KEY.encode() in path.read_bytes():
                path.unlink()  # which would answer instead of those that were written now
        config = copy.copy(self.model.config)
        config.architectures = [type(self.model).__name__]  # by which `load_generation` finds the class
        config.save_pretrained(folder)
        if getattr(self.model, "generation_config", None) is not None:
            self.model.generation_config.save_pretrained(folder)
        return written

    def __repr__(self) -> str:
        return f"<Generation of {type(self.model).__name__}: {', '.join(self.programs)}>"


def of_one_save(graphs: Mapping[str, tuple[Graph, int]]) -> dict[str, tuple[Graph, int]]:
    """The graphs, each saying which others it is saved with: that of another save would answer in their place."""
    together = {name: graph.digest.hex() for name, (graph, _) in sorted(graphs.items())}
    said = SAVE_KEY, json.dumps(together)

    def saying(graph: Graph) -> Graph:
        signature = attrs.evolve(graph.signature, metadata=(*graph.signature.metadata, said))
        return attrs.evolve(graph, signature=signature)

    return {name: (saying(graph), opset) for name, (graph, opset) in graphs.items()}


def generation(
    model: Any, example: Mapping[str, Any] | torch.Tensor | None = None, *, fixed: bool = False, **options: Any
) -> Generation:
    """A model of transformers that generates on ONNX Runtime.

    Args:
        model: a model with transformers' `generate`, in eval mode.
        example: what its `generate` takes, by name, or token ids; random ids of two rows, one of them padded on the
            left, where it is not given. Three tokens are generated in torch, to see what the model is called with; give
            `cache_implementation="static"` here for caches of a fixed size.
        fixed: refuse calls that the programs of the example do not take, where otherwise one more is captured.
        options: those of `irkit.to_onnx` that say how to export: target, opset, rules, precision, progress, copy ...

    Raises CaptureError for a model that does not generate, and what `irkit.to_onnx` raises.
    """
    if not callable(getattr(model, "generate", None)):
        raise CaptureError(
            f"{type(model).__name__} has no generate", hint="give a model of transformers with a language head"
        )
    if getattr(model, "training", False):
        raise CaptureError(f"{type(model).__name__} is in training mode", hint="call model.eval() before")
    settings = ExportOptions(**options)
    if settings.dynamic_shapes is not None:
        raise CaptureError("a generation says itself which sizes vary", hint="leave dynamic_shapes out")
    calls = recorded_calls(model, example_of(model, example), 3)
    steps = Stage("model", model, settings)
    if len(calls) > 2 and (both := merged_steps(calls[1], calls[2])) is not None:
        first = attempt(steps, both)
        steps.bounds.extend(() if first is None else (first,))
    with torch.no_grad():
        served = [steps.answered(call)[0].program for call in calls]
    encoder = Stage("encoder", model.get_encoder(), settings) if model.config.is_encoder_decoder else None
    made = Generation(model, steps, encoder, served[0], served[-1])
    if encoder is not None:
        made.generate(**example_of(model, example), max_new_tokens=1, do_sample=False)
    made = made if settings.copy else attrs.evolve(made, standing=Standing.of_model(model))
    if not fixed:
        return made
    closed = attrs.evolve(steps, grows=False)
    return attrs.evolve(made, steps=closed, encoder=None if encoder is None else attrs.evolve(encoder, grows=False))


def attempt(steps: Stage, call: Mapping[str, Any]) -> Any:
    """The program for two steps at once; None where the model cannot be captured so: then each step has its own."""
    try:
        return steps.captured(call)
    except IrkitError:
        return None


def example_of(model: Any, example: Mapping[str, Any] | torch.Tensor | None) -> dict[str, Any]:
    """The arguments of `generate` to record. Raises CaptureError for a model that reads no token ids and none given."""
    if isinstance(example, torch.Tensor):
        return {"inputs": example}
    if example is not None:
        if not isinstance(example, Mapping):
            raise CaptureError(
                f"the example is {type(example).__name__}", hint="give token ids as a tensor, or what generate takes"
            )
        return dict(example)
    if model.main_input_name != "input_ids":
        raise CaptureError(
            f"{type(model).__name__} reads {model.main_input_name}",
            hint="give an example of what its generate takes: lowering.generation(model, {...})",
        )
    size = model.config.get_text_config().vocab_size
    ids = torch.randint(min(4, size - 1), size, (2, 6), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, :2] = 0
    return {"input_ids": ids, "attention_mask": mask}
