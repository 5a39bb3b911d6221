"""Module to file, beside torch.export alone: CPU seconds in one process, each way in turns, the least of a few runs.

    python -m benchmarks.whole
    python -m benchmarks.whole llama16_cache bert --runs 3 --exporter

Each line has irkit by direct capture, irkit by torch.export, torch.export alone, and with --exporter torch.onnx.export;
then the ratio of direct capture to torch.export alone, and how many nodes the file has.
"""

from __future__ import annotations

import argparse
import copy
import gc
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import irkit

AUTO = torch.export.Dim.AUTO
Case = tuple[Any, tuple[Any, ...], dict[str, Any], Any, Any]
"""Model, arguments, keyword arguments, dynamic_shapes of irkit and of torch.export."""


def llama(layers: int, cached: bool) -> Case:
    """A Llama of hidden size 256, with dynamic batch and length, and past where it has a cache."""
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=1000,
    )
    model = LlamaForCausalLM(config).eval()
    given: dict[str, Any] = {"input_ids": torch.randint(0, 999, (2, 3))}
    if not cached:
        given["use_cache"] = False
        return (
            model,
            (),
            given,
            {"input_ids": {0: "batch", 1: "seq"}},
            {"input_ids": {0: AUTO, 1: AUTO}, "use_cache": None},
        )
    cache = DynamicCache(config=config)
    for layer in range(layers):
        cache.update(torch.randn(2, 2, 5, 64), torch.randn(2, 2, 5, 64), layer)
    given |= {"attention_mask": torch.ones(2, 8, dtype=torch.int64), "past_key_values": cache}
    names = {
        "input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "past + seq"},
        "past_key_values": {0: "batch", 2: "past"},
    }  # fmt: skip
    both = {0: AUTO, 1: AUTO}
    theirs = {"input_ids": both, "attention_mask": both, "past_key_values": [[{0: AUTO, 2: AUTO}] * layers] * 2}
    return model, (), given, names, theirs


def bert() -> Case:
    """BERT-base, with dynamic batch and length."""
    from transformers import BertConfig, BertModel

    given = {"input_ids": torch.randint(0, 999, (2, 9)), "attention_mask": torch.ones(2, 9, dtype=torch.int64)}
    names = {key: {0: "batch", 1: "seq"} for key in given}
    return BertModel(BertConfig()).eval(), (), given, names, {key: {0: AUTO, 1: AUTO} for key in given}


def resnet() -> Case:
    """ResNet-50, with a dynamic batch."""
    from transformers import ResNetConfig, ResNetForImageClassification

    given = {"pixel_values": torch.randn(2, 3, 224, 224)}
    model = ResNetForImageClassification(ResNetConfig()).eval()
    return model, (), given, {"pixel_values": {0: "batch"}}, {"pixel_values": {0: AUTO}}


def whisper() -> Case:
    """The encoder of Whisper-small, with a dynamic batch."""
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        d_model=768,
        encoder_layers=12,
        decoder_layers=1,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
    )
    given = {"input_features": torch.randn(2, 80, 3000)}
    encoder = WhisperModel(config).get_encoder().eval()
    return encoder, (), given, {"input_features": {0: "batch"}}, {"input_features": {0: AUTO}}


CASES: Mapping[str, Callable[[], Case]] = {
    "llama16": lambda: llama(16, False), "llama16_cache": lambda: llama(16, True), "bert": bert, "resnet50": resnet,
    "whisper_encoder": whisper, "llama64_cache": lambda: llama(64, True), "llama64": lambda: llama(64, False),
    "llama8_cache": lambda: llama(8, True), "llama8": lambda: llama(8, False),
}  # fmt: skip


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """(CPU seconds, result) of some work, with nothing left to collect before it."""
    gc.collect()
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def ways_of(case: Case, folder: Path, exporter: bool) -> dict[str, Callable[[], Any]]:
    """What is measured, by name; each takes the model from module to file, but for torch.export alone."""
    model, args, kwargs, names, theirs = case
    path = folder / "model.onnx"

    def whole(way: str) -> int:
        for each in folder.iterdir():  # its pages serve again: those that a machine has not used yet cost far more
            each.unlink()
        program = irkit.to_onnx(model, args, copy.deepcopy(kwargs), dynamic_shapes=names, capture=way)
        program.save(path)
        return program.report.nodes["ONNX"]

    def alone() -> Any:
        torch.export.export(model, args, copy.deepcopy(kwargs), dynamic_shapes=theirs, strict=False)

    def peer() -> Any:
        try:
            torch.onnx.export(model, args, path, kwargs=copy.deepcopy(kwargs), dynamic_shapes=theirs, dynamo=True)
        except torch.onnx.OnnxExporterError as error:
            return f"torch.onnx refuses it: {str(error).strip().splitlines()[0]}"
        return None

    found = {"direct": lambda: whole("direct"), "irkit": lambda: whole("torch.export"), "torch.export": alone}
    return {**found, "torch.onnx": peer} if exporter else found


def main(arguments: Sequence[str]) -> int:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=[], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--exporter", action="store_true", help="torch.onnx.export too")
    parser.add_argument("--without", default="", help="ways to leave out, with commas between")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.cases if name not in CASES]:
        parser.error(f"there is no case {unknown[0]!r}; there are {', '.join(CASES)}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        from transformers.integrations.executorch import register_dynamic_cache_export_support

        register_dynamic_cache_export_support()
    except ImportError:
        pass
    irkit.to_onnx(torch.nn.Linear(2, 2), (torch.ones(1, 2),), capture="direct")  # what is loaded once
    for name in given.cases or CASES:
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as folder:
            ways = ways_of(CASES[name](), Path(folder), given.exporter)
            least: dict[str, float] = {}
            nodes, refused = 0, ""
            for _ in range(given.runs):
                for way in (w for w in ways if w not in given.without.split(",")):
                    spent, result = seconds(ways[way])
                    if isinstance(result, str):  # the time until a refusal is no time to a file
                        refused = result
                        continue
                    least[way] = min(spent, least.get(way, spent))
                    nodes = result if way == "direct" else nodes
        texts = [f"{way} {spent:.2f}" for way, spent in least.items()]
        alone = least.get("torch.export")
        ratio = "" if alone is None else f"  direct : torch.export {least['direct'] / alone:.3f}"
        print(f"{name:16} {'  '.join(texts)}{ratio}  {nodes} nodes  {refused}".rstrip(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
