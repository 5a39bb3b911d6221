"""The folder that onnxruntime-genai loads: `onnxruntime_genai.Model(folder)`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irkit.core.ir import Graph
from irkit.core.types import Tensor
from irkit.support.files import atomic_write
from lowering.errors import CaptureError
from lowering.layouts.listening import CROSS, DECODER, ENCODER, SELF, SOUND, STATES, listening_parts
from lowering.layouts.parts import decoder_part
from lowering.layouts.shared_caches import shared_caches
from lowering.layouts.written import Layout, Order, graphs_of, programs_of, write_graphs
from lowering.program.program import Program

CONFIG = "genai_config.json"
WEIGHTS = "model.onnx.data"
KINDS = frozenset(
    "ernie4_5 gemma gemma2 gemma3_text granite internlm2 llama mistral nemotron olmo phi phi3 phimoe qwen2 qwen3 "
    "smollm3".split()
)
"""Decoders that onnxruntime-genai knows by transformers' own name, and reads as any "decoder"."""
LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length")
"""What configurations call the length of the longest text."""
LONGEST = 2048
"""The length of the longest text where a configuration says none, as of ALiBi."""


def write_genai(order: Order) -> Layout:
    """Writes the model, its configurations, and that of onnxruntime-genai. Caches are of one size where each attention
    is one that GroupQueryAttention computes; else they grow, and a note of the layout says why. Raises CaptureError for
    a model whose configuration does not say which token ends a text."""
    model = order.source.model
    if model.config.is_encoder_decoder:
        return write_listening(order)
    if not model.can_generate():
        raise CaptureError(
            f"{type(model).__name__} does not generate, and onnxruntime-genai does nothing else",
            hint="take the layout of optimum, or of transformers.js",
        )
    parts = [decoder_part(model)]
    programs = programs_of(parts, order.options)
    graph, reason = shared_caches(graphs_of(parts, programs)["model"])
    said = genai_config(model, graph, is_shared=not reason)
    notes = (f"caches grow, and are copied at each step: {reason}",) if reason else ()
    return written_folder(order, {"model": graph}, programs, said, notes)


def written_folder(
    order: Order, graphs: Mapping[str, Graph], programs: Mapping[str, Program], said: Any, notes: tuple[str, ...] = ()
) -> Layout:
    """Writes models over one file of weights, onnxruntime-genai's configuration and the model's own."""
    opset = next(iter(programs.values())).opset
    files = write_graphs(graphs, opset, order.folder, WEIGHTS)
    with atomic_write(order.folder / CONFIG) as file:
        file.write(json.dumps(said, indent=2).encode())
    beside: list[Path] = order.source.copy_beside(order.folder)
    return Layout(order.folder, (*files, order.folder / CONFIG, *beside), programs, notes)


def write_listening(order: Order) -> Layout:
    """Writes a model of Whisper's kind: an encoder that gives the keys and values which the decoder reads of it, too.
    Raises CaptureError for every other model with an encoder."""
    model = order.source.model
    parts = listening_parts(model)
    programs = programs_of(parts, order.options)
    graphs = graphs_of(parts, programs)
    return written_folder(order, graphs, programs, listening_config(model, graphs[DECODER]))


def listening_config(model: Any, graph: Graph) -> dict[str, Any]:
    """The same of a model with an encoder of sounds."""
    config, named = model.config, [port.name for port in graph.signature.params]
    kinds = [v.type for name, v in zip(named, graph.params, strict=True) if name.startswith(SELF.format("past", "key"))]
    heads, size = sizes_of(kinds[0])
    both = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "head_size": size,
        "hidden_size": config.d_model,
        "num_attention_heads": heads,
        "num_hidden_layers": len(kinds),
        "num_key_value_heads": heads,
    }
    sides = ("key", "value")
    inputs = {f"past_{each}_names": SELF.format("past", each) + "%d" for each in sides}
    inputs |= {f"cross_past_{each}_names": CROSS.format("past", each) + "%d" for each in sides}
    outputs = {f"present_{each}_names": SELF.format("present", each) + "%d" for each in sides}
    given = {f"cross_present_{each}_names": CROSS.format("present", each) + "%d" for each in sides}
    about = {
        **special_tokens(model),
        "context_length": config.max_target_positions,
        "decoder": {
            **both,
            "filename": f"{DECODER}.onnx",
            "inputs": {"input_ids": "input_ids", **inputs},
            "outputs": {"logits": "logits", **outputs},
        },
        "encoder": {
            **both,
            "filename": f"{ENCODER}.onnx",
            "inputs": {SOUND: SOUND},
            "outputs": {"encoder_hidden_states": STATES, **given},
        },
        "type": "whisper",
        "vocab_size": config.vocab_size,
    }
    return {"model": about, "search": search_options(model.generation_config, config.max_target_positions, False)}


def genai_config(model: Any, graph: Graph, is_shared: bool) -> dict[str, Any]:
    """What onnxruntime-genai reads of a model: tokens, sizes, names, and how it generates if nobody says otherwise."""
    config = model.config.get_text_config()
    named = [port.name for port in graph.signature.params]
    keys = [v.type for name, v in zip(named, graph.params, strict=True) if name.endswith(".key")]
    heads, size = sizes_of(keys[0])
    inputs = {name: name for name in ("input_ids", "attention_mask", "position_ids") if name in named}
    for each in ("key", "value"):
        inputs[f"past_{each}_names"] = f"past_key_values.%d.{each}"
    outputs = {"logits": "logits", **{f"present_{each}_names": f"present.%d.{each}" for each in ("key", "value")}}
    length = next((n for name in LENGTHS if isinstance(n := getattr(config, name, None), int) and n > 0), LONGEST)
    decoder = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": "model.onnx",
        "head_size": size,
        "hidden_size": config.hidden_size,
        "num_attention_heads": config.num_attention_heads,
        "num_hidden_layers": len(keys),
        "num_key_value_heads": heads,
        "inputs": inputs,
        "outputs": outputs,
    }
    about = {
        **special_tokens(model),
        "context_length": length,
        "decoder": decoder,
        "type": config.model_type if config.model_type in KINDS else "decoder",
        "vocab_size": config.vocab_size,
    }
    return {"model": about, "search": search_options(model.generation_config, length, is_shared)}


def sizes_of(kind: object) -> tuple[int, int]:
    """(heads, numbers of a head) of a cache."""
    if not isinstance(kind, Tensor) or type(kind.shape[1]) is not int or type(kind.shape[3]) is not int:
        raise CaptureError(
            f"a cache is {kind}", hint="onnxruntime-genai makes caches itself: heads and their sizes are numbers"
        )
    return kind.shape[1], kind.shape[3]


def special_tokens(model: Any) -> dict[str, Any]:
    """The tokens that begin, end and pad a text: those of the generation, else of the configuration. What pads is what
    ends where no other is known."""
    places = (model.generation_config, model.config, model.config.get_text_config())

    def told(name: str) -> Any:
        return next((found for place in places if (found := getattr(place, name, None)) is not None), None)

    ends = told("eos_token_id")
    if ends is None:
        raise CaptureError(
            "no token is said to end a text, and onnxruntime-genai wants one",
            hint="set eos_token_id in the configuration of the model or of its generation",
        )
    ends = list(ends) if isinstance(ends, list | tuple) else [ends]
    first, pads = told("bos_token_id"), told("pad_token_id")
    return {
        "bos_token_id": ends[0] if first is None else first,
        "eos_token_id": ends,
        "pad_token_id": ends[0] if pads is None else pads,
    }


def search_options(asked: Any, length: int, is_shared: bool) -> dict[str, Any]:
    """How to search, as the configuration of the generation says. Caches are as long as the longest text where they
    `is_shared` between steps, and grow where not."""
    usual = {
        "diversity_penalty": 0.0,
        "do_sample": False,
        "length_penalty": 1.0,
        "no_repeat_ngram_size": 0,
        "num_beams": 1,
        "num_return_sequences": 1,
        "repetition_penalty": 1.0,
        "temperature": 1.0,
        "top_k": 50,
        "top_p": 1.0,
    }
    found = {name: told if (told := getattr(asked, name, None)) is not None else each for name, each in usual.items()}
    lengths = {"max_length": length, "min_length": 0}
    return {**found, **lengths, "early_stopping": True, "past_present_share_buffer": is_shared}
