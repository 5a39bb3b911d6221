"""`torch.compile(backend="irkit")` and `irkit.compile` beside eager and inductor: seconds to compile, then a call.

    python -m benchmarks.compile
    python -m benchmarks.compile bert resnet18 --threads 2 --train

Each line has the time to the first result (capture and compilation) and the median of calls afterwards, taken in turns;
with --train a call is forward and backward, and irkit.compile, whose backward is torch's, is left out. --without leaves
a way out. Weights are random; what is kept on disk is left out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

import irkit
from lowering.dynamo.backend import irkit_backend

WAYS = ("eager", "irkit", "direct", "inductor")


def bert() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """BERT of 4 layers, 128 tokens."""
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=4, hidden_size=256, intermediate_size=1024, num_attention_heads=4)
    return BertModel(config), {"input_ids": torch.randint(0, 999, (2, 128))}


def llama() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """Llama of 4 layers, 64 tokens."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=1000,
        use_cache=False,
    )
    return LlamaForCausalLM(config), {"input_ids": torch.randint(0, 999, (2, 64))}


def resnet() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """ResNet-18's shape at 64 x 64."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic")
    return ResNetForImageClassification(config), {"pixel_values": torch.randn(2, 3, 64, 64)}


def vit() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """ViT of 4 layers at 64 x 64."""
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=192, num_hidden_layers=4, num_attention_heads=3, intermediate_size=768, image_size=64, patch_size=8
    )
    return ViTModel(config), {"pixel_values": torch.randn(2, 3, 64, 64)}


def mlp() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """Four linear layers on 64 rows."""
    layers: list[torch.nn.Module] = []
    for _ in range(4):
        layers += [torch.nn.Linear(512, 512), torch.nn.GELU()]
    return torch.nn.Sequential(*layers), {"input": torch.randn(64, 512)}


MODELS: Mapping[str, Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]]] = {
    "mlp": mlp, "bert": bert, "llama": llama, "resnet18": resnet, "vit": vit,
}  # fmt: skip


def first(result: Any) -> torch.Tensor:
    """The first tensor of a model's result."""
    return result if isinstance(result, torch.Tensor) else next(iter(result.values()))


def call(function: Callable[..., Any], given: dict[str, torch.Tensor], train: bool) -> torch.Tensor:
    """One call; with its gradients where the model is trained."""
    if train:
        result = first(function(**given))
        result.square().mean().backward()
        return result.detach()
    with torch.no_grad():
        return first(function(**given))


def measure(name: str, runs: int, train: bool, threads: int, without: list[str]) -> None:
    """Prints the line of a model."""
    ways = [way for way in WAYS if way not in without and not (train and way == "direct")]
    torch.compiler.reset()
    torch.manual_seed(0)
    model, given = MODELS[name]()
    model = model.train(train)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # so that results can be compared
    options = {"store": None, "fallback": False, "threads": threads}
    functions: dict[str, Callable[..., Any]] = {
        "eager": model,
        "irkit": torch.compile(model, backend=irkit_backend, options=options),
        "direct": irkit.compile(model, fallback=False, threads=threads),
        "inductor": torch.compile(model),
    }
    started, calls, results = {}, {way: [] for way in ways}, {}
    for way in ways:
        begin = time.perf_counter()
        results[way] = call(functions[way], given, train)
        started[way] = time.perf_counter() - begin
    for _ in range(runs):
        for way in ways:
            begin = time.perf_counter()
            call(functions[way], given, train)
            calls[way].append((time.perf_counter() - begin) * 1e3)
    medians = {way: statistics.median(calls[way]) for way in ways}
    error = max((results[way] - results["eager"]).abs().max().item() for way in ways if way in ("irkit", "direct"))
    cells = [f"{way} {started[way]:6.2f} s {medians[way]:7.2f} ms" for way in ways]
    ratios = [f"{way}/irkit {medians[way] / medians['irkit']:.2f}" for way in ways if way != "irkit"]
    print(f"{name:9s} {'   '.join(cells)}   {'  '.join(ratios)}  error {error:.1g}", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; all of them by default")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--without", nargs="*", default=[], choices=[way for way in WAYS if way not in ("eager", "irkit")]
    )
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    unknown = [name for name in asked.models if name not in MODELS]
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}")
    for name in asked.models or MODELS:
        measure(name, asked.runs, asked.train, asked.threads, asked.without)


if __name__ == "__main__":
    main()
