"""Generation on ONNX Runtime beside torch and other libraries: tokens a second, time to the first token, memory.

`python -m benchmarks.generation [--layers 8] [--width 256] [--prompt 32] [--tokens 64] [--batch 1] [--call [--read MB]]
[--only NAME ...]`

Each way runs in a process of its own, so that its memory is its own, and generates as many tokens greedily from the
same weights; tokens are compared with eager's. Times are the least of three runs after one that warms up.

| way | is |
| --- | --- |
| eager | the model's own `generate` |
| compile | the same with torch.compile of its forward, for sizes that vary; it needs a C++ compiler |
| irkit | `lowering.generation(model).generate` |
| loaded | `lowering.load_generation(folder).generate`: nothing is captured, and no weight is in torch |
| bound | a loop of one's own over `program.bound(keep="past_key_values")`: no loop of transformers' |
| optimum | optimum's own export of the model, and its ORTModelForCausalLM |
| irkit in optimum | what `lowering.export_hf(model, folder, "optimum")` writes, in the same |
| genai | onnxruntime-genai's own model of it, with GroupQueryAttention and shared buffers, and its generator |
| irkit in genai | what `lowering.export_hf(model, folder, "genai")` writes, in the same |

`--call` measures instead what a call of a bound program costs above its session, a step of one token behind the prompt,
beside `run_with_iobinding` of the same session over the same OrtValues: in turns in one process, by CPU time. With
`--read` the processor's caches hold other memory when a call begins.

optimum wants an older transformers, and so an environment of its own: `--optimum PATH` names its python, by default
that which `make layouts` installs.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

WAYS = ("eager", "compile", "irkit", "loaded", "bound", "optimum", "irkit in optimum", "genai", "irkit in genai")
HERE = Path(__file__).resolve().parent
VOCABULARY = 8000
OLDER = 20
"""An opset that the ONNX Runtime beside optimum reads, which may be an older one."""

Generate = Callable[[int], list[list[int]]]
"""Tokens by their number: those that were generated, for each prompt."""


def model_of(options: argparse.Namespace) -> Any:
    """A Llama with random weights."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=options.width,
        intermediate_size=3 * options.width,
        num_hidden_layers=options.layers,
        num_attention_heads=options.width // 32,
        num_key_value_heads=options.width // 64,
        max_position_embeddings=4096,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    return transformers.LlamaForCausalLM(config).eval()


def prompts_of(options: argparse.Namespace) -> list[list[int]]:
    """The prompts, all of one length."""
    import numpy as np

    drawn = np.random.default_rng(0).integers(5, VOCABULARY, (options.batch, options.prompt))
    return [[int(token) for token in row] for row in drawn]


# ---------------------------------------------------------------------------------------------- what others read


def write_folder(way: str, folder: Path, options: argparse.Namespace) -> None:
    """Writes what a way reads into a folder, which is not a part of what is measured of it."""
    import lowering

    model = model_of(options)
    if way == "optimum":
        model.save_pretrained(folder)
    elif way == "loaded":
        lowering.generation(model).save(folder)
    elif way == "genai":
        model.save_pretrained(folder / "model")
        write_for_genai(folder / "model", folder)
    elif way == "irkit in optimum":
        lowering.export_hf(model, folder, "optimum", opset=OLDER)
    else:
        lowering.export_hf(model, folder, "genai")


def write_for_genai(source: Path, folder: Path) -> None:
    """The model that onnxruntime-genai's own builder makes of a folder of transformers', without a tokenizer."""
    from transformers import AutoTokenizer

    builder: Any = import_module("onnxruntime_genai.models.builder")  # an extra

    class NoTokenizer:
        """What stands for a tokenizer: tokens are generated from tokens."""

        def save_pretrained(self, *_: Any, **__: Any) -> None:
            """Writes nothing."""

        def get_vocab(self) -> dict[str, int]:
            """No tokens."""
            return {}

    AutoTokenizer.from_pretrained = lambda *_, **__: NoTokenizer()
    asked = ("", str(source), str(folder), "fp32", "cpu", str(folder / "cache"))
    builder.create_model(*asked, **builder.parse_extra_options(*asked, []))


# ---------------------------------------------------------------------------------------------- ways to generate


def by_transformers(generate: Callable[..., Any], prompts: Sequence[Sequence[int]]) -> Generate:
    """Tokens by a `generate` of transformers' form."""
    import torch

    ids = torch.tensor(prompts)
    asked = {"attention_mask": torch.ones_like(ids), "do_sample": False, "pad_token_id": 0}

    def tokens(count: int) -> list[list[int]]:
        found = generate(ids, **asked, max_new_tokens=count, min_new_tokens=count)
        return found[:, ids.shape[1] :].tolist()

    return tokens


def by_bound(model: Any, prompts: Sequence[Sequence[int]]) -> Generate:
    """Tokens by a loop over one program, whose caches stay with ONNX Runtime."""
    import torch
    from transformers import DynamicCache

    import lowering

    step = lowering.generation(model).decode.bound(keep="past_key_values")
    ids = torch.tensor(prompts)

    def asked(tokens: torch.Tensor, past: int) -> dict[str, Any]:
        """The arguments of a step, as transformers' loop gives them."""
        places = torch.arange(past, past + tokens.shape[1]).expand(len(prompts), -1)
        mask = torch.ones((len(prompts), past + tokens.shape[1]), dtype=torch.int64)
        rest = {"logits_to_keep": 1, "use_cache": True, "return_dict": True}
        return {"input_ids": tokens, "attention_mask": mask, "position_ids": places, **rest}

    def tokens(count: int) -> list[list[int]]:
        result, kept = step.run(kwargs={**asked(ids, 0), "past_key_values": DynamicCache()})
        found: list[Any] = []
        while True:
            scores = result.logits[:, -1].clone()
            scores[:, 2] = -torch.inf  # the token that ends a text, which other ways may not choose either
            found.append(scores.argmax(-1, keepdim=True))
            if len(found) == count:
                return torch.cat(found, 1).tolist()
            result, kept = step.run(kwargs=asked(found[-1], ids.shape[1] + len(found) - 1), kept=kept)

    return tokens


def by_optimum(folder: Path, prompts: Sequence[Sequence[int]], options: argparse.Namespace, written: bool) -> Generate:
    """Tokens by optimum's ORTModelForCausalLM of a folder: as it exports it, or as it is `written`."""
    import onnxruntime
    from optimum.onnxruntime import ORTModelForCausalLM  # pyright: ignore[reportMissingImports]

    session = onnxruntime.SessionOptions()
    session.intra_op_num_threads = options.threads
    model = ORTModelForCausalLM.from_pretrained(
        folder, export=not written, use_io_binding=True, session_options=session
    )
    return by_transformers(model.generate, prompts)


def by_genai(folder: Path, prompts: Sequence[Sequence[int]], options: argparse.Namespace) -> Generate:
    """Tokens by onnxruntime-genai of a folder."""
    import numpy as np

    genai: Any = import_module("onnxruntime_genai")  # an extra
    config = genai.Config(str(folder))
    config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": options.threads}}}}))
    model, length = genai.Model(config), len(prompts[0])

    def tokens(count: int) -> list[list[int]]:
        wanted = genai.GeneratorParams(model)
        whole = length + count
        wanted.set_search_options(max_length=whole, min_length=whole, batch_size=len(prompts), do_sample=False)
        generator = genai.Generator(model, wanted)
        generator.append_tokens(np.array(prompts, np.int32))
        while not generator.is_done():
            generator.generate_next_token()
        return [[int(t) for t in generator.get_sequence(i)[length:whole]] for i in range(len(prompts))]

    return tokens


def ready_for(way: str, folder: Path, options: argparse.Namespace) -> Generate:
    """What generates in this way."""
    prompts = prompts_of(options)
    if way.endswith("optimum"):
        return by_optimum(folder, prompts, options, written=way != "optimum")
    if way.endswith("genai"):
        return by_genai(folder, prompts, options)
    import torch

    import lowering

    torch.set_num_threads(options.threads)
    if way == "loaded":
        return by_transformers(lowering.load_generation(folder).generate, prompts)
    model = model_of(options)
    if way == "bound":
        return by_bound(model, prompts)
    if way == "irkit":
        return by_transformers(lowering.generation(model).generate, prompts)
    if way == "compile":
        model.forward = torch.compile(model.forward, dynamic=True)
    return by_transformers(model.generate, prompts)


# ---------------------------------------------------------------------------------------------- a call


def calls_of(
    options: argparse.Namespace,
) -> tuple[Callable[[], object], dict[str, Callable[[], object]], Callable[[], Any]]:
    """(the session's run, a step by each way of calling a bound program, what makes the outputs of the run new): all
    over the same values."""
    import onnxruntime
    import torch
    from transformers import DynamicCache

    import lowering
    from irkit.onnx.bound_runs import CPU_DEVICE

    program = lowering.generation(model_of(options)).decode
    step, whole = program.bound(keep="past_key_values"), program.bound()
    ids, rest = torch.tensor(prompts_of(options)), {"logits_to_keep": 1, "use_cache": True, "return_dict": True}

    def asked(tokens: torch.Tensor, past: int) -> dict[str, Any]:
        places = torch.arange(past, past + tokens.shape[1]).expand(len(ids), -1)
        mask = torch.ones((len(ids), past + tokens.shape[1]), dtype=torch.int64)
        return {"input_ids": tokens, "attention_mask": mask, "position_ids": places, **rest}

    prompt, one = asked(ids, 0), asked(ids[:, :1], ids.shape[1])
    _, kept = step.run(kwargs={**prompt, "past_key_values": DynamicCache()})
    cache = whole(**prompt, past_key_values=DynamicCache()).past_key_values
    given = step.plainly_given(one, kept=kept)
    if given is None:
        raise SystemExit("a step is no plain call of the bound program, which is what is measured")
    inner, run_options = step.direct.session.inner, onnxruntime.RunOptions()
    binding = inner.io_binding()._iobinding
    for name, value in zip(step.direct.inputs, given[0], strict=True):
        binding.bind_ortvalue_input(name, value)

    def renew() -> None:
        """Has the session make its outputs anew, as each call does."""
        binding.clear_binding_outputs()
        for name in step.direct.outputs:
            binding.bind_output(name, CPU_DEVICE)

    ways = {"kept": lambda: step.run(kwargs=one, kept=kept), "plain": lambda: whole(**one, past_key_values=cache)}
    return lambda: inner._sess.run_with_iobinding(binding, run_options), ways, renew


def print_calls(options: argparse.Namespace) -> None:
    """Prints what a call costs above the session: the least of each, and the median of the differences of each turn."""
    import numpy as np
    import torch

    torch.set_num_threads(options.threads)
    session, ways, renew = calls_of(options)
    other = np.ones(options.read * 1_000_000 // 8)
    seen: dict[str, list[float]] = {name: [] for name in ("session", *ways)}
    for _ in range(options.turns):
        for name, call in {"session": session, **ways}.items():
            renew()
            other.sum()
            start = time.thread_time_ns()
            call()
            seen[name].append((time.thread_time_ns() - start) / 1e3)
    least = min(seen["session"])
    print("| call | least, µs | above the session | median of the differences |\n|" + " --- |" * 4)
    print(f"| session | {least:.0f} | | |")
    for name in ways:
        apart = statistics.median(a - b for a, b in zip(seen[name], seen["session"], strict=True))
        print(f"| {name} | {min(seen[name]):.0f} | {min(seen[name]) - least:.0f} | {apart:.0f} |")


# ---------------------------------------------------------------------------------------------- measured


def measured(way: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds until it can generate, seconds to the first token, tokens a second after it, MiB at most, tokens."""
    start = time.perf_counter()
    generate = ready_for(way, folder, options)
    tokens = generate(min(3, options.tokens))
    ready = time.perf_counter() - start

    def seconds(count: int) -> float:
        begun = time.perf_counter()
        generate(count)
        return time.perf_counter() - begun

    first = min(seconds(1) for _ in range(3))
    whole = min(seconds(options.tokens) for _ in range(3))
    tokens = generate(options.tokens)
    rate = options.batch * (options.tokens - 1) / max(whole - first, 1e-9)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"ready": ready, "first": first, "rate": rate, "peak": peak, "tokens": tokens}


def run_apart(way: str, folder: Path, options: argparse.Namespace, task: str) -> tuple[dict[str, Any] | None, str]:
    """(what a process of its own printed, why it failed) for a task, "write" or "measure"."""
    own = task == "measure" and way.endswith("optimum")
    python = options.optimum if own else sys.executable
    given = [f"--{n}={getattr(options, n)}" for n in ("layers", "width", "prompt", "tokens", "batch", "threads")]
    command = [python, "-m", "benchmarks.generation", *given, "--task", task, "--way", way, "--folder", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=options.environment)
    except OSError as error:
        return None, f"{error}"
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        said = done.stderr.strip().splitlines()
        return None, said[-1][:160] if said else f"ended with {done.returncode}"
    return json.loads(lines[-1]), ""


def row_of(
    way: str, options: argparse.Namespace, expected: list[list[int]] | None
) -> tuple[str, list[list[int]] | None]:
    """(the row of a way, its tokens)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if way not in ("eager", "compile", "irkit", "bound"):
            _, problem = run_apart(way, folder, options, "write")
            if problem:
                return f"| {way} | not written: {problem} | | | | |", None
        found, problem = run_apart(way, folder, options, "measure")
    if found is None:
        return f"| {way} | {problem} | | | | |", None
    tokens = found["tokens"]
    same = "" if expected is None else "equal" if tokens == expected else "others"
    times = f"{found['ready']:.1f} | {found['first'] * 1e3:.1f} | {found['rate']:.1f}"
    return f"| {way} | {times} | {found['peak']:.0f} | {same} |", tokens


def environment() -> dict[str, str]:
    """The environment of the processes: one thread for each library but for what is asked, no hub, this checkout."""
    import os

    return {**os.environ, "PYTHONPATH": str(HERE.parent), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def main() -> None:
    """Prints a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 8), ("width", 256), ("prompt", 32), ("tokens", 64), ("batch", 1), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", nargs="*", choices=WAYS, default=WAYS)
    parser.add_argument("--optimum", default=str(HERE.parent / "build" / "layouts" / "optimum" / "bin" / "python"))
    parser.add_argument("--call", action="store_true", help="measure what a call of a bound program costs instead")
    parser.add_argument("--turns", type=int, default=1000, help="of that")
    parser.add_argument(
        "--read", type=int, default=0, help="of that: MB of other memory that are read before each call"
    )
    parser.add_argument("--task", choices=("write", "measure"), help="do this in this process, and print JSON")
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.task:
        warnings.simplefilter("ignore")
        if options.task == "write":
            write_folder(options.way, options.folder, options)
        print(json.dumps({} if options.task == "write" else measured(options.way, options.folder, options)))
        return
    if options.call:
        warnings.simplefilter("ignore")
        print_calls(options)
        return
    options.environment = environment()
    print("| way | ready, s | first token, ms | tokens a second | memory at most, MiB | tokens |\n|" + " --- |" * 6)
    expected: list[list[int]] | None = None
    for way in options.only:
        row, tokens = row_of(way, options, expected)
        expected = tokens if expected is None else expected
        print(row, flush=True)


if __name__ == "__main__":
    main()
