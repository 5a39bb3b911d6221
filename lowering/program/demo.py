"""`make demo`: exports real models, checks them on ONNX Runtime at several sizes, prints a table."""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from irkit.doors.to_onnx import to_onnx
from irkit.errors import IrkitError

Example = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], Any]


def perceptron() -> Example:
    """Two linear layers over a batch of any size."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    return model, (torch.randn(3, 8),), {}, ({0: "batch"},)


def lstm() -> Example:
    """A bidirectional LSTM over sequences of any length."""
    model = torch.nn.LSTM(16, 32, num_layers=2, bidirectional=True, batch_first=True)
    return model, (torch.randn(2, 5, 16),), {}, ({0: "batch", 1: "seq"},)


def bert() -> Example:
    """A small BERT encoder."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    inputs = {"input_ids": torch.randint(5, 200, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    return BertModel(config), (), inputs, {name: {0: "batch", 1: "seq"} for name in inputs}


def llama() -> Example:
    """A small Llama with a key-value cache in and out."""
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=200, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256,
    )  # fmt: skip
    past = DynamicCache(config=config)
    for layer in range(2):
        past.update(torch.randn(2, 2, 6, 16), torch.randn(2, 2, 6, 16), layer)
    inputs = {
        "input_ids": torch.randint(0, 200, (2, 3)),
        "attention_mask": torch.ones(2, 9, dtype=torch.int64),
        "past_key_values": past,
    }
    shapes = {
        "input_ids": {0: "batch", 1: "seq"},
        "attention_mask": {0: "batch", 1: "past + seq"},
        "past_key_values": {0: "batch", 2: "past"},
    }
    return LlamaForCausalLM(config), (), inputs, shapes


def vit() -> Example:
    """A small vision transformer."""
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        image_size=32, patch_size=8, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    return ViTModel(config), (), {"pixel_values": torch.randn(2, 3, 32, 32)}, {"pixel_values": {0: "batch"}}


EXAMPLES: dict[str, Callable[[], Example]] = {
    "MLP": perceptron, "LSTM": lstm, "BERT": bert, "Llama with cache": llama, "ViT": vit,
}  # fmt: skip


def row(name: str, build: Callable[[], Example], folder: Path) -> tuple[list[str], bool]:
    """(cells, agrees): one line of the table."""
    torch.manual_seed(0)
    model, args, kwargs, shapes = build()
    start = time.perf_counter()
    program = to_onnx(model.eval(), args, kwargs, dynamic_shapes=shapes)
    seconds = time.perf_counter() - start
    own = seconds - program.report.seconds["capture"]
    path = program.save(folder / "model.onnx")
    report = program.check(n=3)
    worst = max((e[1] for run in report.runs for e in run.errors), default=float("nan"))
    verdict = "[green]yes[/]" if report else "[red]no[/]"
    nodes = program.report.nodes
    return [
        name, str(nodes["FX"]), str(nodes["ONNX"]), f"{program.report.seconds['capture']:.2f} s", f"{own:.2f} s",
        f"{path.stat().st_size / 1024:.0f} KiB", str(len(report.runs)), f"{worst:.1e}", verdict,
    ], bool(report)  # fmt: skip


def main() -> int:
    """Prints the table; the exit status is 1 where a model failed or differs from torch."""
    warnings.filterwarnings("ignore", category=UserWarning, module="torch")
    console, good = Console(), True
    title = "PyTorch to ONNX with irkit, checked on ONNX Runtime"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)  # fits into 80 columns
    titles = ("model", "torch\ncalls", "ONNX\nnodes", "capture", "irkit", "file", "sizes", "largest\nerror", "same")
    for title in titles:
        table.add_column(title, justify="left" if title in ("model", "same") else "right", no_wrap=title != "same")
    with tempfile.TemporaryDirectory() as folder, console.status("exporting"):
        for name, build in EXAMPLES.items():
            try:
                cells, agrees = row(name, build, Path(folder))
            except (IrkitError, ImportError) as error:
                cells, agrees = [name, *[""] * 7, f"[red]{type(error).__name__}: {escape(str(error)[:200])}[/]"], False
            table.add_row(*cells)
            good = good and agrees
    console.print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
