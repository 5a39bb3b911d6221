"""Contents that are given, made and written some rows at a time: the same bits as whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import irkit
from irkit.core.blobs import STRIP, Blob, computed_blob
from irkit.core.ir import Graph
from irkit.core.types import DType
from irkit.onnx.writing.tensors import chunks

KINDS = [dtype for dtype in DType if dtype is not DType.STRING]
SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 5, 700, 4096]), min_size=1, max_size=3).filter(
    lambda shape: np.prod(shape, dtype=float) <= 1 << 20
)


def drawn(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray:
    """Numbers that every element type of at least two bits holds."""
    whole = np.random.default_rng(seed).integers(0, 2, shape)
    return whole.astype(np.float32).astype(dtype.numpy) if dtype.is_float else whole.astype(dtype.numpy)


def doubled(blob: Blob) -> Blob:
    """Twice the content, which can be made by rows."""

    def by_rows() -> Iterator[np.ndarray]:
        yield from ((rows + rows).astype(blob.dtype.numpy) for rows in blob.rows())

    def load() -> np.ndarray:
        return (blob.read() + blob.read()).astype(blob.dtype.numpy)

    return Blob(blob.dtype, blob.shape, load, of=(blob,), by_rows=by_rows)


def bits(blob: Blob) -> bytes:
    return b"".join(bytes(chunk) for chunk in chunks(blob))


@given(SHAPES, st.sampled_from(KINDS))
def test_rows_are_the_content(tmp_path_factory: pytest.TempPathFactory, shape: list[int], dtype: DType) -> None:
    array = drawn(tuple(shape), dtype)
    path = tmp_path_factory.mktemp("rows") / "m.onnx"
    irkit.save(Graph((), (irkit.const(array, dtype),)), path, external=True, size_threshold=0)
    for held in (irkit.blob(array, dtype), irkit.load(path).results[0].blob):
        assert held is not None
        found = list(held.rows())
        assert sum(map(len, found)) == shape[0]
        assert all(each.nbytes <= STRIP or len(each) == 1 for each in found)
        assert np.concatenate([array[:0], *found]).tobytes() == array.tobytes()


@given(SHAPES, st.sampled_from([DType.FLOAT, DType.DOUBLE, DType.FLOAT16, DType.BFLOAT16, DType.INT64]), st.booleans())
def test_what_is_made_by_rows_is_written_as_what_is_made_whole(shape: list[int], dtype: DType, kept: bool) -> None:
    once = doubled(irkit.blob(drawn(tuple(shape), dtype), dtype))
    twice = doubled(once)
    if kept:
        assert once.array.shape == tuple(shape)
    assert bits(once) == once.read().tobytes()
    assert bits(twice) == twice.read().tobytes()


def test_rows_that_are_not_those_of_the_content_are_refused() -> None:
    blob = irkit.blob(drawn((4, 3), DType.FLOAT))
    for wrong, why in ((lambda: iter([blob.read()[:3]]), "3 rows"), (lambda: iter([blob.read().T]), "shape")):
        with pytest.raises(ValueError, match=why):
            bits(Blob(blob.dtype, blob.shape, blob.read, of=(blob,), by_rows=wrong))


def test_rows_of_a_file_that_was_written_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    array = drawn((1024, 1024), DType.FLOAT)
    irkit.save(Graph((), (irkit.const(array),)), path)
    blob = irkit.load(path).results[0].blob
    assert blob is not None
    rows = doubled(blob).rows()
    next(rows)
    path.write_bytes(path.read_bytes())  # in place
    with pytest.raises(irkit.StaleError):
        list(rows)
    assert computed_blob(blob.dtype, blob.shape, np.negative, [blob]).by_rows is None


@pytest.mark.parametrize("name", ["array", "integers", "uniform", "extremes", "digest"])
def test_what_is_known_of_a_content_is_refused_once_that_was_written(name: str) -> None:
    array = np.full(1 << 16, 3, np.int64)
    blob = irkit.blob(array, copy=False)
    getattr(blob, name)
    array[:] = 4
    with pytest.raises(irkit.StaleError):
        getattr(blob, name)
