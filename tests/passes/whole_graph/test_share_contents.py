"""Weights of equal content are found where they lie in files, without being taken into memory."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irkit
from irkit.core.blobs import Blob, blob
from irkit.core.types import DType
from irkit.support.stored_files import Place, opened_file
from passes.whole_graph.share_contents import is_equal, is_stored, sample
from tests.support.large_models import run_within, write_large_model

SHAPES = st.lists(st.sampled_from((0, 1, 2, 3, 17, 70, 300)), min_size=1, max_size=3).filter(
    lambda shape: math.prod(shape) < 200_000
)


@settings(max_examples=20)
@given(SHAPES, st.sampled_from((np.float32, np.int8, np.float64)), st.integers(0, 9))
def test_a_stored_content_is_sampled_and_compared_as_an_array(
    tmp_path_factory: pytest.TempPathFactory, shape: list[int], dtype: type, seed: int
) -> None:
    array = (np.random.default_rng(seed).standard_normal(shape) * 50).astype(dtype)
    other = array.copy()
    if array.size:
        other.reshape(-1)[-1] += 1
    path = tmp_path_factory.mktemp("stored") / "w.data"
    path.write_bytes(b"head" + array.tobytes() + array.tobytes() + other.tobytes())
    file = opened_file(path, "the weights")
    kind = DType.of(np.dtype(dtype))
    size = array.nbytes
    one, same, changed = (
        Blob(kind, tuple(shape), lambda: array, f"w{i}", place=Place(file, 4 + i * size)) for i in range(3)
    )
    held = blob(array)
    assert is_stored(one) and one.digest == held.digest and (one.digest == changed.digest) == (not array.size)
    assert sample(one) == sample(held) == sample(same)
    assert is_equal(one, same) and (not array.size or is_equal(one, held))
    assert is_equal(one, changed) == (not array.size)


def test_large_models_are_handled_in_little_memory(tmp_path: Path) -> None:
    write_large_model(tmp_path, layers=3, width=2896, different=True)  # 32 MiB each
    commands = [
        "show {d}/m.onnx",
        "stats {d}/m.onnx --json",
        "optimize {d}/m.onnx -o {d}/o.onnx",
        "optimize {d}/o.onnx -o {d}/o.irkit",
        "extract {d}/m.onnx -y r1 -o {d}/p.onnx",
        "convert {d}/m.onnx --opset 17 -o {d}/c.onnx",
        "diff {d}/m.onnx {d}/c.onnx -o {d}/d.html",
        "viz {d}/m.onnx --plain -o {d}/m.html",
    ]
    run_within(24 << 20, [each.format(d=tmp_path) for each in commands])
    graph, ready = irkit.load(tmp_path / "m.onnx"), irkit.load(tmp_path / "o.onnx")
    assert sum(v.op == "Constant" for v in graph.order) == 3
    weights = [v.blob for v in ready.order if v.blob is not None]
    assert len(weights) == 2  # the first and the third are the same


def test_a_limit_of_memory_would_be_met(tmp_path: Path) -> None:
    write_large_model(tmp_path, layers=1, width=2896, different=False)
    with pytest.raises(MemoryError):
        run_within(24 << 20, [f"run {tmp_path}/m.onnx --runtime irkit"])
