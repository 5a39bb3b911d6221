"""Files from strangers: each gives one LoadError, soon, and none reads what it should not."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper

import irkit
from irkit.errors import LoadError
from irkit.onnx.writing.tensors import varint
from irkit.testing import random_graph
from tests.support.onnx_models import FLOAT, INT64, branch, function, make, model_of, small
from tests.support.timing import spent

# ---------------------------------------------------------------------------------------------- files from strangers


def external(location: str, offset: str = "0", length: str = "16", shape: tuple[int, ...] = (4,)) -> ModelProto:
    """A model whose weight lies at a place that the caller chooses."""
    model = model_of([make("Identity", ["w"], ["y"])], [], ["y"])
    made = model.graph.initializer.add(name="w", data_type=FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        made.external_data.add(key=key, value=value)
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a secret beside it, and links to the secret in it."""
    (tmp_path / "secret").write_bytes(bytes(64))
    inside = tmp_path / "models"
    (inside / "sub").mkdir(parents=True)
    (inside / "good.data").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    (inside / "link").symlink_to(tmp_path / "secret")
    (inside / "out").symlink_to(tmp_path)
    (inside / "loop").symlink_to(inside / "loop")
    os.mkfifo(inside / "pipe")
    return inside


PLACES = ["../secret", "/etc/passwd", "sub/../../secret", "link", "out/secret", "loop", "pipe", "sub", "", ".",
          "missing", "a\0b", "C:\\secret", "..\\secret", "x" * 5000, "sub/" * 400 + "x"]  # fmt: skip


@pytest.mark.parametrize("location", PLACES, ids=lambda p: ascii(p)[:30])
def test_weights_never_come_from_elsewhere(folder: Path, location: str) -> None:
    (folder / "m.onnx").write_bytes(external(location).SerializeToString())
    with spent() as cost, pytest.raises(LoadError):
        irkit.load(folder / "m.onnx").results[0].inputs[0].blob.array  # type: ignore[union-attr]  # noqa: B018
    assert cost.seconds < 1


def test_a_good_place_is_read(folder: Path) -> None:
    (folder / "m.onnx").write_bytes(external("good.data").SerializeToString())
    assert irkit.load(folder / "m.onnx").results[0].inputs[0].blob.array.tolist() == [0, 1, 2, 3]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("offset", "length", "shape"),
    [("8", "16", (4,)), ("-1", "16", (4,)), ("0", "12", (4,)), ("0", "16", (2**60,)), ("9" * 30, "16", (4,)),
     ("1e3", "16", (4,)), ("0", str(2**62), (2**60,)), ("0", "16", (-1,)), ("0", "16", (2, 2, 2))],
)  # fmt: skip
def test_sizes_are_checked_before_memory_is_taken(
    folder: Path, offset: str, length: str, shape: tuple[int, ...]
) -> None:
    (folder / "m.onnx").write_bytes(external("good.data", offset, length, shape).SerializeToString())
    with pytest.raises(LoadError):
        irkit.load(folder / "m.onnx")


def weight(**fields: Any) -> ModelProto:
    """A model whose weight is a tensor message of those fields."""
    model = model_of([make("Identity", ["w"], ["y"])], [], ["y"])
    model.graph.initializer.add(name="w", **{"data_type": FLOAT, "dims": [4], **fields})
    return model


def deep(levels: int) -> bytes:
    """Ifs in Ifs, deeper than protobuf's own functions would build them."""

    def field(number: int, content: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(content)) + content

    graph = field(1, field(1, b"x") + field(2, b"y") + field(4, b"Relu"))
    for _ in range(levels):
        attribute = field(1, b"then_branch") + varint(20 << 3) + b"\x05" + field(6, graph)
        graph = field(1, field(2, b"y") + field(4, b"If") + field(5, attribute))
    return field(7, graph)


def bomb(depth: int) -> ModelProto:
    """Functions that call each other twice, `depth` levels deep."""
    functions = [function("f0", ["a"], ["b"], [make("Relu", ["a"], ["b"])])]
    for level in range(1, depth):
        calls = [make(f"f{level - 1}", [a], [b], domain="local") for a, b in (("a", "c"), ("c", "b"))]
        functions.append(function(f"f{level}", ["a"], ["b"], calls))
    model = model_of([make(f"f{depth - 1}", ["x"], ["y"], domain="local")], [("x", (2,))], ["y"], functions=functions)
    model.opset_import.append(helper.make_opsetid("local", 1))
    return model


def recursive() -> ModelProto:
    """A function that calls itself."""
    made = function("f", ["a"], ["b"], [make("f", ["a"], ["b"], domain="local")])
    model = model_of([make("f", ["x"], ["y"], domain="local")], [("x", (2,))], ["y"], functions=[made])
    model.opset_import.append(helper.make_opsetid("local", 1))
    return model


def with_metadata(**pairs: str) -> ModelProto:
    model = model_of([make("Relu", ["x"], ["y"])], [("x", (2,))], ["y"])
    for key, value in pairs.items():
        model.metadata_props.add(key="irkit." + key, value=value)
    return model


def nodes_model(*nodes: Any, **initializers: Any) -> ModelProto:
    return model_of(list(nodes), [("x", (2, 3))], ["y"], 26, initializers)


HOSTILE: dict[str, Callable[[], Any]] = {
    "empty": lambda: b"",
    "noise": lambda: bytes(range(256)) * 40,
    "text": lambda: b"hello",
    "truncated": lambda: irkit.to_proto(small()).SerializeToString()[:-700],
    "no graph": lambda: ModelProto(ir_version=8).SerializeToString(),
    "too short": lambda: weight(raw_data=b"1234"),
    "too long": lambda: weight(raw_data=bytes(1000)),
    "huge shape": lambda: weight(dims=[2**60], raw_data=b"1234"),
    "product overflow": lambda: weight(dims=[2**32, 2**32], raw_data=b""),
    "negative shape": lambda: weight(dims=[-4], raw_data=b"1234"),
    "many axes": lambda: weight(dims=[1] * 5000, raw_data=b"1234"),
    "no data": lambda: weight(),
    "few numbers": lambda: weight(float_data=[1.0]),
    "wrong field": lambda: weight(data_type=TensorProto.STRING, float_data=[1.0] * 4),
    "no such element": lambda: weight(data_type=77, raw_data=bytes(16)),
    "undefined element": lambda: weight(data_type=0, raw_data=bytes(16)),
    "segment": lambda: weight(raw_data=bytes(16), segment=TensorProto.Segment(begin=0, end=2)),
    "undefined name": lambda: nodes_model(make("Relu", ["nothing"], ["y"])),
    "out of order": lambda: nodes_model(make("Relu", ["a"], ["y"]), make("Relu", ["x"], ["a"])),
    "defined twice": lambda: nodes_model(make("Relu", ["x"], ["y"]), make("Neg", ["x"], ["y"])),
    "input redefined": lambda: nodes_model(make("Relu", ["x"], ["x"]), make("Relu", ["x"], ["y"])),
    "itself": lambda: nodes_model(make("Add", ["x", "y"], ["y"])),
    "no such attribute": lambda: nodes_model(make("Relu", ["x"], ["y"], level=9000)),
    "wrong attribute": lambda: nodes_model(make("Transpose", ["x"], ["y"], perm="abc")),
    "bad axis": lambda: nodes_model(make("Softmax", ["x"], ["y"], axis=2**62)),
    "bad permutation": lambda: nodes_model(make("Transpose", ["x"], ["y"], perm=[0, 0])),
    "huge result": lambda: nodes_model(
        make("ConstantOfShape", ["s"], ["a"]), make("Add", ["a", "x"], ["y"]), s=np.array([2**62, 7])
    ),
    "too many operands": lambda: nodes_model(make("Relu", ["x"] * 9, ["y"])),
    "too many results": lambda: nodes_model(make("Relu", ["x"], ["y", "z"])),
    "no body": lambda: nodes_model(make("Loop", ["", "", "x"], ["y"])),
    "body too narrow": lambda: nodes_model(make("Loop", ["", "", "x"], ["y"], body=branch([], []))),
    "unknown domain": lambda: nodes_model(make("Relu", ["x"], ["y"], domain="acme")),
    "no opset": lambda: ModelProto(ir_version=8, graph=nodes_model(make("Relu", ["x"], ["y"])).graph),
    "future opset": lambda: model_of([make("SwiGLU", ["x"], ["y"])], [("x", (2,))], ["y"], 28),
    "deep": lambda: deep(60),
    "very deep": lambda: deep(5000),
    "function bomb inside": lambda: bomb(16),
    "function bomb": lambda: bomb(60),
    "recursive function": recursive,
    "metadata no json": lambda: with_metadata(ranges="{"),
    "metadata other json": lambda: with_metadata(ranges="[1]"),
    "metadata bad range": lambda: with_metadata(ranges='{"n": ["__import__", 2]}'),
    "metadata nested": lambda: with_metadata(guards="[" * 100_000),
    "metadata no fact": lambda: with_metadata(guards="[1]"),
    "metadata bad port": lambda: with_metadata(signature='{"params": [[1]], "results": []}'),
    "sparse bomb": lambda: sparse_bomb(),
    "no rank": lambda: no_rank(),
}  # fmt: skip


def size_bomb() -> ModelProto:
    """A size of two terms squared sixteen times, then flattened with others."""
    squares = [make("Mul", [f"s{i}", f"s{i}"], [f"s{i + 1}"]) for i in range(16)]
    texts = [" + ".join(f"{letter}{i}" for i in range(15)) for letter in "abcdefgh"]
    nodes = [make("Shape", ["x"], ["s0"], start=0, end=1), *squares, make("Flatten", ["x"], ["y"], axis=0)]
    return model_of(nodes, [("x", tuple(texts))], ["y", "s16"])


def sparse_bomb() -> ModelProto:
    """A sparse tensor of 2**50 elements, two of which are not 0."""
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("s", FLOAT, [2], [1, 2]), helper.make_tensor("i", INT64, [2], [1, 5]), [2**50]
    )
    return nodes_model(make("Constant", [], ["y"], sparse_value=sparse))


def no_rank() -> ModelProto:
    """An input of which only the element type is known."""
    model = nodes_model(make("Relu", ["x"], ["y"]))
    model.graph.input[0].type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_give_one_error_soon(name: str) -> None:
    source = HOSTILE[name]()
    data = source if isinstance(source, bytes) else source.SerializeToString()
    with spent() as cost, pytest.raises(LoadError) as caught:
        irkit.load(data)
    assert cost.seconds < 1
    assert len(str(caught.value)) < 2000


def test_sizes_of_a_million_terms_are_unknown_soon() -> None:
    with spent() as cost:
        graph = irkit.load(size_bomb())
    assert cost.seconds < 1
    assert irkit.dims.is_fresh(irkit.verify(graph).results[0].shape[1])


@settings(max_examples=200)
@given(st.integers(0, 20), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_files_load_or_give_a_load_error(seed: int, damage: list[tuple[int, int]]) -> None:
    data = bytearray(saved(seed))
    for place, byte in damage:
        data[place % len(data)] = byte
    try:
        graph = irkit.load(bytes(data))
    except LoadError:
        return
    assert isinstance(graph, irkit.Graph)


@cache
def saved(seed: int) -> bytes:
    """The bytes of a random model."""
    return irkit.to_proto(random_graph(np.random.default_rng(seed), 8)).SerializeToString()
