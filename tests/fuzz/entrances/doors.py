"""The entrances: what each takes from strangers, damaged, and what must hold of it where it is taken.

A door returns False where irkit refused, by an error of its own, and True where it did not: then what came in is a
valid value, which can be written and read again. Everything else that a door raises is a fault.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import attrs
import numpy as np
import sympy
import torch
from onnx import ModelProto
from typer.testing import CliRunner

import irkit
from irkit import dims
from irkit.contract.as_json import contract_of
from irkit.dims import conditions, notation
from irkit.doors.cli import app
from irkit.errors import IrkitError
from irkit.onnx.reading.types import read_dim
from irkit.onnx.writing.models import GUARDS_KEY, RANGES_KEY, SIGNATURE_KEY
from irkit.text.files import load_text, save_text
from lowering import lower
from passes import optimize, prepare
from passes.precision import Precision
from passes.targets import target_of
from tests.fuzz.entrances import seeds
from tests.fuzz.entrances.mutations import (
    BROKEN,
    NUMBERS,
    WORDS,
    any_json,
    damaged_bytes,
    damaged_json,
    damaged_message,
    damaged_text,
)
from tests.fuzz.entrances.words import SIZES, WORDS_OF_SIZES, WORDS_OF_TEXT


@attrs.frozen
class Drawn:
    """What a door may use: its randomness, a folder of its own, and whether slow sources of models are in it."""

    random: Random
    folder: Path
    wide: bool


def refused(action: Callable[[], Any]) -> Any:
    """The result of an action, or None where irkit refused, by an error that says what is wrong in moderate length."""
    try:
        return action()
    except IrkitError as error:
        text = str(error)
        if not error.what or len(text) > 6000:
            raise RuntimeError(f"an error of {len(text)} characters: {text[:200]}") from error
        text.encode()  # it can be printed
        return None


def sound(graph: Any) -> None:
    """Raises where a graph that came in breaks a law, or cannot be written and read again as what it is."""
    irkit.verify(graph)
    text = str(graph)
    again = irkit.parse(text, blobs=graph)
    if again != graph:
        raise RuntimeError("the text of the graph is another graph")
    proto = refused(lambda: irkit.to_proto(graph))  # what ONNX has no word for is refused
    if proto is not None:
        read = refused(lambda: irkit.load(proto.SerializeToString()))  # a size that is never above 0, say
        if read is not None and (len(read.params), len(read.results)) != (len(graph.params), len(graph.results)):
            raise RuntimeError("the file that was written holds another graph")


# ---------------------------------------------------------------------------------------------- ONNX


def some_model(drawn: Drawn) -> bytes:
    """A damaged model: two in three by its structure."""
    made = seeds.model(drawn.random, drawn.wide)
    if drawn.random.random() < 0.67:
        return damaged_message(made, drawn.random)
    return damaged_bytes(made.SerializeToString(), drawn.random)


def loads(drawn: Drawn) -> bool:
    """Bytes of a model."""
    data = some_model(drawn)
    graph = refused(lambda: irkit.load(data))
    if graph is not None:
        sound(graph)
    return graph is not None


def optimizes(drawn: Drawn) -> bool:
    """Bytes of a model, which is then optimized, prepared and written."""
    data = some_model(drawn)
    graph = refused(lambda: irkit.load(data))
    if graph is None:
        return False
    level = drawn.random.choice((0, 1, 2, 2))
    better = refused(lambda: optimize(graph, level))  # sizes that contradict one another come to light late
    if better is None:
        return False
    irkit.verify(better)
    target = drawn.random.choice(("onnxruntime-cpu", "onnx", "onnxruntime-cpu+com.microsoft"))
    opset = drawn.random.choice((None, None, 13, 17, 21))
    ready = refused(lambda: prepare(better, target, opset))
    if ready is not None:
        irkit.verify(ready)
        refused(lambda: irkit.to_proto(ready, opset=opset or target_of(target).opset))
    return ready is not None


def opens(drawn: Drawn) -> bool:
    """The files of a model whose weights lie beside it, one of them damaged; saved again."""
    random, path = drawn.random, drawn.folder / "m.onnx"
    graph = random.choice((seeds.contracted(), *seeds.graphs()[3:9]))
    irkit.save(graph, path, external=True, size_threshold=8)
    for beside in sorted(drawn.folder.iterdir()):
        if random.random() < 0.5 and beside != path:
            beside.write_bytes(damaged_bytes(beside.read_bytes(), random))
    model = ModelProto.FromString(path.read_bytes())
    data = damaged_message(model, random) if random.random() < 0.7 else damaged_bytes(path.read_bytes(), random)
    external = [t for t in model.graph.initializer if t.external_data]
    if external and random.random() < 0.6:
        data = damaged_message(random.choice(external), random)
        made = type(external[0])()
        try:
            made.ParseFromString(data)
        except Exception:
            made.Clear()
        external[0].CopyFrom(made)
        data = model.SerializeToString()
    path.write_bytes(data)

    def all_of_it() -> Any:
        found = irkit.load(path)
        _ = [value.blob.array for value in found.order if value.blob is not None]
        return found

    found = refused(all_of_it)
    if found is not None:
        irkit.verify(found)
        refused(lambda: irkit.save(found, drawn.folder / "again.onnx", external=random.random() < 0.5))
    return found is not None


def large(drawn: Drawn) -> bool:
    """A file of more than a megabyte, which is mapped and taken apart by irkit itself."""
    random, path = drawn.random, drawn.folder / "large.onnx"
    whole = large_model()
    at = random.choice((random.randrange(400), len(whole) - random.randrange(400), random.randrange(len(whole))))
    start, stop = max(0, at - 40), min(len(whole), at + 40)
    path.write_bytes(whole[:start] + damaged_bytes(whole[start:stop], random) + whole[stop:])

    def all_of_it() -> Any:
        found = irkit.load(path)
        _ = [value.blob.array for value in found.order if value.blob is not None]
        return found

    found = refused(all_of_it)
    if found is not None:
        irkit.verify(found)
    return found is not None


def large_model() -> bytes:
    """A model with 1.2 MB of weights inside."""
    x = irkit.param(irkit.tensor("f32", "n", 1000))
    w = irkit.const(np.arange(300_000, dtype=np.float32).reshape(1000, 300), name="w")
    return irkit.to_proto(irkit.Graph((x,), (irkit.op.MatMul(irkit.op.Relu(x), w),))).SerializeToString()


def metadata(drawn: Drawn) -> bool:
    """A model whose contract, as JSON in its metadata, is damaged."""
    random = drawn.random
    model = irkit.to_proto(seeds.contracted())
    rows = [
        p for p in model.metadata_props if p.key in (GUARDS_KEY, RANGES_KEY, SIGNATURE_KEY) or random.random() < 0.2
    ]
    for row in random.sample(rows, random.choice((1, 1, 2))):
        try:
            held = json.loads(row.value)
        except ValueError:
            held = row.value
        row.value = (
            json.dumps(damaged_json(held, random))
            if random.random() < 0.7
            else damaged_text(row.value, random, WORDS).replace("\ud800", "")
        )
    graph = refused(lambda: irkit.load(model.SerializeToString()))
    if graph is None:
        return False
    sound(graph)
    said = refused(lambda: contract_of(graph))
    if said is not None:
        json.dumps(said, allow_nan=False)
    return said is not None


# ---------------------------------------------------------------------------------------------- text


def parses(drawn: Drawn) -> bool:
    """The text of a graph."""
    random = drawn.random
    source = damaged_text(random.choice(seeds.texts()), random, WORDS_OF_TEXT)
    graph = refused(lambda: irkit.parse(source))
    if graph is None or refused(lambda: irkit.verify(graph)) is None:
        return False
    sound(graph)
    return True


def opens_text(drawn: Drawn) -> bool:
    """A text file and its side file, one of them damaged by bytes or by its header."""
    random, path = drawn.random, drawn.folder / "m.irkit"
    save_text(random.choice((seeds.contracted(), *seeds.graphs()[3:9])), path)
    beside = drawn.folder / "m.irkit.safetensors"
    if beside.exists() and random.random() < 0.8:
        data = beside.read_bytes()
        length = int.from_bytes(data[:8], "little")
        if random.random() < 0.6:
            header = json.dumps(damaged_json(json.loads(data[8 : 8 + length]), random)).encode()
            header += b" " * (-len(header) % 8)
            data = len(header).to_bytes(8, "little") + header + data[8 + length :]
        else:
            data = damaged_bytes(data, random)
        beside.write_bytes(data)
    else:
        path.write_bytes(damaged_bytes(path.read_bytes(), random))

    def all_of_it() -> Any:
        found = load_text(path)
        _ = [value.blob.array for value in found.order if value.blob is not None]
        return irkit.verify(found)

    found = refused(all_of_it)
    if found is not None:
        refused(lambda: save_text(found, drawn.folder / "again.irkit"))
    return found is not None


def sizes(drawn: Drawn) -> bool:
    """The text of a size, or of a condition over sizes."""
    random = drawn.random
    source = damaged_text(random.choice(SIZES), random, (*WORDS_OF_SIZES, *WORDS))
    given = {
        name: random.choice((0, 1, 2, 7, 64, 2**31, 10**18, *NUMBERS)) for name in ("n", "m", "a", "b", "batch", "seq")
    }
    read = read_dim(source) if source else 1
    notation.parse(notation.text(read)) if not dims.is_fresh(read) else None
    size = refused(lambda: notation.parse(source))
    if size is not None:
        exact = type(size) is int or not size.has(sympy.Float)
        if exact and dims.same(notation.parse(notation.text(size)), size) is not True:
            raise RuntimeError(f"{size} is printed as {notation.text(size)}")
        refused(lambda: dims.evaluate(size, given))
        dims.bounds(size, {name: dims.Range(0, 9) for name in given})
    held = refused(lambda: (conditions.holds(source, given),))
    return size is not None or held is not None


# ---------------------------------------------------------------------------------------------- torch


def programs(drawn: Drawn) -> bool:
    """A `.pt2` file: its bytes, or the files of its archive."""
    random, path = drawn.random, drawn.folder / "m.pt2"
    data = seeds.program()
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
    found = refused(lambda: lower(seeds.Small(), seeds.example(), dynamic_shapes=spec, widen=False, **more))
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


# ---------------------------------------------------------------------------------------------- options, commands


def options(drawn: Drawn) -> bool:
    """The texts that choose rules, targets, opsets and precisions."""
    random = drawn.random
    graph = random.choice(seeds.graphs())
    words = ("default", "-", "+", "norms", "casts", "attention", "exact", ",", " ", "float16", "bf16", "onnx", "cpu")

    def any_text(*of: str) -> Any:
        made = damaged_text(random.choice(of), random, words) if random.random() < 0.7 else random.choice(of)
        return any_json(random) if random.random() < 0.15 else made

    kind = random.randrange(4)
    action: Callable[[], Any]
    if kind == 0:
        rules, level, fold = (
            any_text("default-attention", "norms+casts", ""),
            random.choice((0, 1, 2, any_json(random))),
            random.choice((None, 0, 5, any_json(random))),
        )
        action = lambda: optimize(graph, level, rules=rules, fold=fold)  # noqa: E731
    elif kind == 1:
        name, opset = (
            any_text("onnxruntime-cpu", "onnx+com.microsoft", "onnxruntime-cuda"),
            random.choice((None, 17, any_json(random))),
        )
        action = lambda: target_of(name, opset)  # noqa: E731
    elif kind == 2:
        name, keep, keep_io = (
            any_text("float16", "bfloat16"),
            random.choice(((), ("Add",), any_json(random))),
            random.choice((True, any_json(random))),
        )
        action = lambda: Precision.of(Precision(name, keep, keep_io)).mixed(graph)  # noqa: E731
    else:
        given = random.choice((None, 13, any_json(random))), random.choice((None, 8, any_json(random)))
        action = lambda: irkit.to_proto(graph, opset=given[0], ir_version=given[1])  # noqa: E731
    return refused(action) is not None


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
        "m.pt2": seeds.program(),
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


DOORS: Mapping[str, tuple[Callable[[Drawn], bool], int]] = {
    "load": (loads, 30_000),
    "optimize": (optimizes, 15_000),
    "files": (opens, 8_000),
    "large": (large, 2_000),
    "contract": (metadata, 6_000),
    "text": (parses, 20_000),
    "side": (opens_text, 5_000),
    "sizes": (sizes, 10_000),
    "programs": (programs, 500),
    "shapes": (shapes, 1_500),
    "options": (options, 1_500),
    "commands": (commands, 500),
}
"""Each entrance, and its share of 100,000 draws."""


def settled() -> None:
    """Makes what is made once, so that no draw pays for it."""
    seeds.pool()
    seeds.node_models()
    seeds.texts()
    seeds.program()
    torch.manual_seed(0)


def doors() -> Iterator[str]:
    """The names of all entrances."""
    yield from DOORS
