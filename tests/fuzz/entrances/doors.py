"""The entrances: what each takes from strangers, damaged, and what must hold of it where it is taken.

A door returns False where irkit refused, by an error of its own, and True where it did not: then what came in is a
valid value, which can be written and read again. Everything else that a door raises is a fault.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import attrs
import numpy as np
import sympy
from onnx import ModelProto

import irkit
from irkit import dims
from irkit.contract.as_json import contract_of
from irkit.dims import conditions, notation
from irkit.errors import IrkitError
from irkit.onnx.reading.types import read_dim
from irkit.onnx.writing.models import GUARDS_KEY, RANGES_KEY, SIGNATURE_KEY
from irkit.text.files import load_text, save_text
from passes import optimize, prepare
from passes.precision import Precision
from passes.targets import target_of
from tests.fuzz.entrances import seeds
from tests.fuzz.entrances.mutations import (
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


# ---------------------------------------------------------------------------------------------- options


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


DOORS: Mapping[str, Callable[[Drawn], bool]] = {
    "load": loads,
    "optimize": optimizes,
    "files": opens,
    "large": large,
    "contract": metadata,
    "text": parses,
    "side": opens_text,
    "sizes": sizes,
    "options": options,
}
"""The entrances that need no torch."""
