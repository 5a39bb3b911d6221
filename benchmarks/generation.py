"""Generation on ONNX Runtime beside torch: tokens a second, time to the first token, memory.

`python -m benchmarks.generation [--layers 8] [--width 256] [--prompt 32] [--tokens 64] [--batch 1] [--only NAME ...]`

Each way runs in a process of its own, so that its memory is its own. `compile` is torch.compile of the model's forward
with dynamic sizes, left out where there is no C++ compiler. Times are the least of three runs after one that warms up.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

WAYS = ("eager", "compile", "irkit")


def model_of(options: argparse.Namespace) -> Any:
    """A Llama with random weights."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=8000,
        hidden_size=options.width,
        intermediate_size=3 * options.width,
        num_hidden_layers=options.layers,
        num_attention_heads=options.width // 32,
        num_key_value_heads=options.width // 64,
        max_position_embeddings=4096,
    )
    return transformers.LlamaForCausalLM(config).eval()


def generator_of(way: str, model: Any) -> Callable[..., Any]:
    """What generates in this way."""
    import torch

    import lowering

    if way == "irkit":
        return lowering.generation(model).generate
    if way == "compile":
        model.forward = torch.compile(model.forward, dynamic=True)
    return model.generate


def measured(way: str, options: argparse.Namespace) -> dict[str, float]:
    """Seconds until it can generate, seconds to the first token, tokens a second after it, MiB at most."""
    import torch

    torch.set_num_threads(options.threads)
    model = model_of(options)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.perf_counter()
    generate = generator_of(way, model)
    ids = torch.randint(5, 8000, (options.batch, options.prompt), generator=torch.Generator().manual_seed(0))
    asked = {"attention_mask": torch.ones_like(ids), "do_sample": False, "pad_token_id": 0}

    def seconds(count: int) -> float:
        begun = time.perf_counter()
        generate(ids, **asked, max_new_tokens=count, min_new_tokens=count)
        return time.perf_counter() - begun

    seconds(3)
    ready = time.perf_counter() - start
    first = min(seconds(1) for _ in range(3))
    whole = min(seconds(options.tokens) for _ in range(3))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = options.batch * (options.tokens - 1) / (whole - first)
    return {"ready": ready, "first": first, "rate": rate, "peak": peak, "above": peak - before}


def main() -> None:
    """Prints a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("layers", 8), ("width", 256), ("prompt", 32), ("tokens", 64), ("batch", 1), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", nargs="*", choices=WAYS, default=WAYS)
    parser.add_argument("--here", choices=WAYS, help="measure this one in this process, and print JSON")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measured(options.here, options)))
        return
    print("| way | ready, s | first token, ms | tokens a second | memory above the model, MiB |\n|" + " --- |" * 5)
    for way in options.only:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.generation", *sys.argv[1:], "--here", way],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            print(
                f"| {way} | {done.stderr.strip().splitlines()[-1][:200] if done.stderr.strip() else 'failed'} | | | |"
            )
            continue
        found = json.loads(done.stdout.strip().splitlines()[-1])
        times = f"{found['ready']:.1f} | {found['first'] * 1e3:.1f} | {found['rate']:.1f}"
        print(f"| {way} | {times} | {found['above']:.0f} |")


if __name__ == "__main__":
    main()
