"""Compiled graphs on disk: an equal graph, in this process or another, is neither lowered nor optimized again.

A folder holds for each graph a model, `<key>.onnx`, and what a call needs beside it, `<key>.json`. The key is a digest
of the FX graph with the types of its nodes, of the numbers that are part of it, of the options, and of the versions of
torch, ONNX Runtime and irkit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import onnxruntime
import torch
from torch.fx import GraphModule, Node

from irkit.core.ir import Graph
from irkit.errors import IrkitError
from irkit.onnx.load import load
from irkit.onnx.save import Form, write_model
from irkit.support.files import atomic_write
from lowering.dynamo.runner import Entry, Exit
from lowering.records.types import array_of

MOST = 512
"""So many graphs a folder keeps; those that were not read for the longest time go first."""

FORMAT = 1
"""Of what is kept. A folder may have several."""


@attrs.frozen(eq=False)
class Kept:
    """What a runner is made of: a graph that its target runs, and what a call needs beside it."""

    graph: Graph
    opset: int
    entries: tuple[Entry, ...]
    exits: tuple[Exit, ...]
    checks: tuple[str, ...]


def default_folder() -> Path | None:
    """The folder of $IRKIT_COMPILED, or one in the user's folder of caches; None where $IRKIT_COMPILED is empty."""
    named = os.environ.get("IRKIT_COMPILED")
    if named is not None:
        return Path(named) if named else None
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "irkit" / "compiled"


def key_of(module: GraphModule, options: str) -> str:
    """The digest of an FX graph and of what is asked for."""
    digest = hashlib.sha256(
        f"{FORMAT} {torch.__version__} {onnxruntime.__version__} {own_version()} {options}".encode()
    )
    for part in parts_of(module):
        digest.update(part)
        digest.update(b"\0")
    return digest.hexdigest()[:40]


def parts_of(module: GraphModule) -> Iterator[bytes]:
    """What decides what a graph computes, piece by piece."""
    for node in module.graph.nodes:
        yield f"{node.name} {node.op} {node.target} {node.args} {node.kwargs} {types_of(node)}".encode()
        if node.op == "get_attr":
            held: Any = module
            for step in str(node.target).split("."):
                held = getattr(held, step)
            if isinstance(held, GraphModule):
                yield from parts_of(held)
            elif isinstance(held, torch.Tensor):
                yield array_of(held).tobytes()
            else:
                yield repr(held).encode()


def types_of(node: Node) -> str:
    """The element type, the sizes and the layout that torch recorded of a node."""
    recorded = node.meta.get("val")
    if isinstance(recorded, torch.Tensor):
        return f"{recorded.dtype} {tuple(recorded.shape)} {recorded.stride()} {recorded.device}"
    return str(recorded)


def own_version() -> str:
    """irkit's version; the newest change of its files, where they lie in a folder that is worked in."""
    root = Path(__file__).resolve().parents[2]
    newest = max(p.stat().st_mtime_ns for top in ("irkit", "passes", "lowering") for p in (root / top).rglob("*.py"))
    return str(newest)


def read_kept(folder: Path, key: str) -> Kept | None:
    """What is kept under a key; None where there is nothing, or nothing that can be read."""
    path = folder / f"{key}.onnx"
    try:
        said = json.loads((folder / f"{key}.json").read_text(encoding="utf-8"))
        graph = load(path)
        with contextlib.suppress(OSError):
            os.utime(path)
        return Kept(
            graph,
            said["opset"],
            tuple(Entry(**each) for each in said["entries"]),
            tuple(Exit(**{**each, "strides": tuple(each["strides"])}) for each in said["exits"]),
            tuple(said["checks"]),
        )
    except (OSError, ValueError, KeyError, TypeError, IrkitError):
        return None


def write_kept(folder: Path, key: str, kept: Kept) -> None:
    """Keeps a graph under a key. Raises OSError or SerializeError where the folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_model(kept.graph, folder / f"{key}.onnx", Form(False, opset=kept.opset))
    said: Mapping[str, Any] = {
        "opset": kept.opset,
        "entries": [attrs.asdict(each) for each in kept.entries],
        "exits": [attrs.asdict(each) for each in kept.exits],
        "checks": list(kept.checks),
    }
    with atomic_write(folder / f"{key}.json") as file:
        file.write(json.dumps(said).encode())
    models = sorted(folder.glob("*.onnx"), key=lambda p: p.stat().st_mtime_ns)
    for old in models[:-MOST]:
        for suffix in (".json", ".onnx"):
            old.with_suffix(suffix).unlink(missing_ok=True)
