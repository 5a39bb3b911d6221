"""The entrances that take what torch wrote: `.pt2` files, `dynamic_shapes`, and the command line, which reads both."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from typer.testing import CliRunner

import irkit
from irkit.doors.cli import app
from lowering import lower
from tests.fuzz.entrances import seeds, seeds_torch
from tests.fuzz.entrances.doors import Drawn, refused
from tests.fuzz.entrances.mutations import BROKEN, WORDS, any_json, damaged_bytes, damaged_json, damaged_text
from tests.fuzz.entrances.words import WORDS_OF_SIZES


def programs(drawn: Drawn) -> bool:
    """A `.pt2` file: its bytes, or the files of its archive."""
    random, path = drawn.random, drawn.folder / "m.pt2"
    data = seeds_torch.program()
    path.write_bytes(damaged_bytes(data, random) if random.random() < 0.4 else damaged_archive(data, random))
    graph = refused(lambda: lower(path))
    if graph is not None:
        irkit.verify(graph)
    return graph is not None


def damaged_archive(data: bytes, random: Random) -> bytes:
    """A zip archive one of whose files is damaged, missing or called otherwise."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        names = old.namelist()
        chosen = random.choice([n for n in names if n.endswith(".json")] if random.random() < 0.6 else names)
        for name in names:
            content = old.read(name)
            if name == chosen:
                kind = random.randrange(6)
                if kind == 0:
                    continue
                if kind == 1:
                    name = random.choice((name + "_", name.replace("/", "//", 1), "../" + name, random.choice(names)))
                elif kind == 2:
                    content = random.choice((b"", BROKEN, old.read(random.choice(names))))
                elif name.endswith(".json") and kind > 3:
                    content = json.dumps(damaged_json(json.loads(content), random)).encode()
                else:
                    content = damaged_bytes(content, random)
            new.writestr(name, content)
    return made.getvalue()


SPECS: tuple[Any, ...] = (
    {"x": {0: "batch"}},
    ({0: "batch"}, {"b": {0: "rows"}}),
    {"x": ("batch", None), "more": {"b": ["rows", "2"]}},
    {"x": {0: "n"}, "more": {"b": {0: "2*n + 1"}}},
    [{"0": "a"}, None],
    {"x": "n", "more": None},
    ["n", {"b": "m"}],
)


def shapes(drawn: Drawn) -> bool:
    """`dynamic_shapes` in forms that nobody meant, names of inputs and outputs too."""
    random = drawn.random
    spec = restored(damaged_json(random.choice(SPECS), random), random)
    more: dict[str, Any] = {}
    if random.random() < 0.3:
        key = random.choice(("input_names", "output_names", "scalar_inputs", "specialization"))
        more[key] = any_json(random)
    found = refused(lambda: lower(seeds_torch.Small(), seeds_torch.example(), dynamic_shapes=spec, widen=False, **more))
    if found is not None:
        irkit.verify(found)
    return found is not None


def restored(spec: Any, random: Random) -> Any:
    """Plain data with what JSON cannot say: keys that are numbers, tuples, texts of sizes that are damaged."""
    if isinstance(spec, dict):
        return {int(k) if k.lstrip("-").isdigit() and len(k) < 9 else k: restored(v, random) for k, v in spec.items()}
    if isinstance(spec, list):
        made = [restored(v, random) for v in spec]
        return tuple(made) if random.random() < 0.4 else made
    if isinstance(spec, str) and random.random() < 0.4:
        return damaged_text(spec, random, WORDS_OF_SIZES)
    return spec


LINES: tuple[tuple[str, ...], ...] = (
    ("show", "m.onnx"),
    ("show", "m.irkit"),
    ("contract", "m.onnx"),
    ("optimize", "m.onnx", "-o", "o.onnx"),
    ("optimize", "m.onnx", "-o", "o.irkit", "--level", "1", "--rules", "default-attention", "--fold", "3"),
    ("convert", "m.onnx", "-o", "o.onnx", "--opset", "17"),
    ("rules", "norms"),
    ("rules", "--families"),
    ("optimize", "m.onnx", "-o", "o.onnx", "--precision", "float16", "--keep", "Add", "--sample", "m.npz"),
    ("optimize", "m.onnx", "-o", "o.onnx", "--target", "onnx", "--opset", "18", "--no-share-weights"),
    ("export", "m.pt2", "-o", "o.onnx", "--dim", "x.0=batch", "--specialization", "report"),
    ("check", "m.onnx", "--against", "m.pt2", "--runs", "0"),
    ("--version",),
    ("show", "--help"),
)


def commands(drawn: Drawn) -> bool:
    """A line of the command line over files that may be damaged."""
    random, folder = drawn.random, drawn.folder
    line = list(random.choice(LINES))
    graph = random.choice(seeds.graphs()[:8])
    proto = refused(lambda: irkit.to_proto(graph)) or irkit.to_proto(seeds.contracted())
    archive = io.BytesIO()
    np.savez(archive, x=np.ones((2, 4), np.float32), cache=np.ones((3, 4), np.float32))
    files: Mapping[str, bytes] = {
        "m.onnx": proto.SerializeToString(),
        "m.irkit": str(graph).encode(),
        "m.npz": archive.getvalue(),
        "m.pt2": seeds_torch.program(),
    }
    for name in [each for each in files if each in line]:
        data = files[name]
        (folder / name).write_bytes(damaged_bytes(data, random) if random.random() < 0.4 else data)
    for _ in range(random.choice((0, 1, 1, 2))):
        at = random.randrange(len(line))
        kind = random.randrange(4)
        if kind == 0:
            del line[at]
        elif kind == 1:
            line.insert(
                at, random.choice((*WORDS[:30], "-o", "--opset", "--", "--level", "-1", "99", ".", "m.pt2", "x" * 300))
            )
        else:
            line[at] = damaged_text(line[at], random, WORDS[:30])
        line = line or ["show"]
    placed = [str(folder / word) if word.startswith(("m.", "o.")) else word for word in line]
    placed = [word.replace("\0", "").encode("utf-8", "replace").decode() for word in placed]  # no shell passes these
    before = set(Path.cwd().iterdir())
    result = CliRunner().invoke(app, placed)
    for stray in set(Path.cwd().iterdir()) - before:
        stray.unlink()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code not in (0, 1, 2):
        raise RuntimeError(f"{line} exits with {result.exit_code}")
    return result.exit_code == 0


TORCH_DOORS: Mapping[str, Callable[[Drawn], bool]] = {"programs": programs, "shapes": shapes, "commands": commands}
"""The entrances that need torch."""
