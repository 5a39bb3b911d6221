"""Graphs of files that other programs write, cut short, replace and remove; and saving over what a graph reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irkit
from irkit import op, tensor
from irkit.core.ir import Graph
from irkit.errors import LoadError, StaleError
from irkit.onnx.sessions import session
from irkit.support.stored_files import CHUNK, opened_file
from passes.files import optimize_file

ROWS = 600
"""A square matrix of so many rows takes more than a megabyte."""


def graph_of(number: float = 1.0, rows: int = ROWS) -> Graph:
    x = irkit.param(tensor("f32", "n", rows))
    first, second = (np.full((rows, rows), number + i, np.float32) for i in range(2))
    return Graph((x,), (op.MatMul(op.MatMul(x, irkit.const(first, name="a")), irkit.const(second, name="b")),))


def written(folder: Path, form: str) -> tuple[Graph, Path]:
    """A graph as it is read, and the file that its weights lie in."""
    path = folder / "m.onnx"
    if form == "text":
        irkit.save_text(graph_of(), folder / "m.irkit")
        return irkit.load_text(folder / "m.irkit"), folder / "m.irkit.safetensors"
    irkit.save(graph_of(), path, external=form != "inside")
    if form == "onnx_ir":
        onnx_ir = pytest.importorskip("onnx_ir")
        return irkit.load(onnx_ir.load(path)), folder / "m.onnx.data"
    return irkit.load(path), path if form == "inside" else folder / "m.onnx.data"


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"other")


CHANGES: Mapping[str, Callable[[Path], Any]] = {
    "overwritten": overwrite, "cut short": lambda p: os.truncate(p, p.stat().st_size // 3),
    "emptied": lambda p: os.truncate(p, 0), "longer": lambda p: p.write_bytes(p.read_bytes() + b"more"),
    "written anew in place": lambda p: p.write_bytes(bytes(p.stat().st_size)),
}  # fmt: skip

READS: Mapping[str, Callable[[Graph, Path], Any]] = {
    "evaluate": lambda g, _: irkit.evaluate(g, [np.ones((1, ROWS), np.float32)]),
    "proto": lambda g, _: irkit.to_proto(g),
    "save": lambda g, p: irkit.save(g, p), "save beside": lambda g, p: irkit.save(g, p, external=True),
    "digest": lambda g, _: g.digest, "session": lambda g, _: session(g), "freeze": lambda g, _: irkit.freeze(g),
    "save_text": lambda g, p: irkit.save_text(g, p),
}  # fmt: skip


@pytest.mark.parametrize("form", ["inside", "beside", "text", "onnx_ir"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_was_written_is_refused(tmp_path: Path, form: str, change: str) -> None:
    graph, source = written(tmp_path, form)
    if change == "longer":  # and what was read before changes nothing
        for name, read in READS.items():
            read(graph, tmp_path / f"{name}.new")
    kept = irkit.freeze(graph)
    CHANGES[change](source)
    for name, read in READS.items():
        with pytest.raises(StaleError, match=rf"the file '{source.name}' was written .*\n  try: load it again"):
            read(graph, tmp_path / f"{name}.other")
            pytest.fail(name)
    assert not list(tmp_path.glob("*.other*")) and "MatMul" in str(graph)
    assert kept == graph_of()


@pytest.mark.parametrize("form", ["inside", "beside", "text", "onnx_ir"])
@pytest.mark.parametrize("change", ["replaced", "removed", "moved"])
def test_a_file_that_is_gone_stays_what_it_was(tmp_path: Path, form: str, change: str) -> None:
    graph, source = written(tmp_path, form)
    if change == "removed":
        source.unlink()
    else:
        source.rename(tmp_path / "elsewhere")
    if change == "replaced":
        source.write_bytes(bytes(5000))
    assert graph == graph_of()
    irkit.save(graph, tmp_path / "again.onnx", external=True)
    assert irkit.load(tmp_path / "again.onnx") == graph_of()


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_saving_over_the_source_is_safe(tmp_path: Path, external: bool, first: bool) -> None:
    path = tmp_path / "m.onnx"
    irkit.save(graph_of(), path, external=first)
    graph = irkit.load(path)
    for _ in range(3):
        irkit.save(graph, path, external=external)
        assert irkit.load(path) == graph == graph_of()
    optimize_file(path, path)
    assert irkit.load(path) != graph == graph_of()


def test_saving_over_the_data_file_that_a_graph_reads_is_safe(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    irkit.save(graph_of(), path, external=True)
    graph = irkit.load(path)
    irkit.save(graph, tmp_path / "m.onnx.data")
    assert irkit.load(tmp_path / "m.onnx.data") == graph == graph_of()
    text = tmp_path / "m.irkit"
    irkit.save_text(graph_of(), text)
    graph = irkit.load_text(text)
    irkit.save_text(graph, text)
    assert irkit.load_text(text) == graph == graph_of()


def test_a_write_right_after_reading_is_noticed(tmp_path: Path) -> None:
    """The times of files go in steps: what is written within one of them is told apart nevertheless."""
    path = tmp_path / "file"
    for _ in range(20):
        path.write_bytes(b"a" * 8)
        file = opened_file(path, "it")
        assert file.read(0, 8).tobytes() == b"a" * 8
        with path.open("r+b") as other:
            other.write(b"b")
        with pytest.raises(StaleError):
            file.read(0, 8)


def test_contents_of_all_sizes_are_read_and_written_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 4096, 16384, 16385, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 77):
        array = rng.integers(0, 255, size).astype(np.uint8)
        for external in (False, True):
            path = tmp_path / f"{external}.onnx"
            irkit.save(
                Graph((), (irkit.const(array), irkit.const(np.ones(CHUNK // 4, np.float32)))), path, external=external
            )
            irkit.save(irkit.load(path), path, external=external)
            found = irkit.evaluate(irkit.load(path), [])
            assert bool((found[0] == array).all()) and bool((found[1] == 1).all())


def test_a_file_is_closed_with_the_last_graph_of_it(tmp_path: Path) -> None:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("the system does not list open files")
    path = tmp_path / "m.onnx"
    irkit.save(graph_of(), path)
    before = len(list(folder.iterdir()))
    for _ in range(5):
        irkit.load(path)
    graph = irkit.load(path)
    assert len(list(folder.iterdir())) == before + 1
    del graph
    assert len(list(folder.iterdir())) == before


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LoadError, match="not a regular file"):
        opened_file(tmp_path / "pipe", "it")
    with pytest.raises(LoadError, match="cannot be opened"):
        opened_file(tmp_path / "nothing", "it")
