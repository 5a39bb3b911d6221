"""What a check computes is bounded: loops that do not end, and sizes drawn from the ends of integers, take neither long
nor much memory."""

from __future__ import annotations

import resource
import signal
import zlib
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest

from irkit import const, op
from irkit.checking.accuracy import MOST_ELEMENTS
from irkit.checking.agreement import computed_results, plainly
from irkit.checking.instances import Retry
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, tensor
from irkit.core.walk import post_order
from irkit.errors import EvaluateError
from irkit.evaluation.interpreter import evaluate, trace
from irkit.support.results import as_tuple
from tests.support.draws import drawn
from tests.support.operator_instances import graph_of, instances_of, names_with_samples

FAR = 2**31
IMAGE, NUMBER, PAIR, FOUR = (param(tensor("f32", 1, 1, 4, 4)), *(param(tensor("i64", *s)) for s in ((), (2,), (4,))))
SIGNAL, REAL = param(tensor("f32", 1, 16, 1)), param(tensor("f32"))


def endless(*, grows: bool = False) -> Value:
    """A loop whose count is fed."""
    found: Any = op.Loop(
        NUMBER, True, np.ones(1, np.float32), body=lambda i, c, s: (True, op.Concat(s, s, axis=0) if grows else s)
    )
    return as_tuple(found)[0]


SIZED: dict[str, Callable[[], Value]] = {
    "Expand": lambda: op.Expand(REAL, FOUR),
    "Tile": lambda: op.Tile(IMAGE, FOUR),
    "ConstantOfShape": lambda: op.ConstantOfShape(FOUR),
    "Range": lambda: op.Range(np.int64(0), NUMBER, np.int64(1)),
    "Range by a tiny step": lambda: op.Range(np.float32(0), np.float32(1), REAL),
    "Pad": lambda: op.Pad(IMAGE, op.Concat(FOUR, FOUR, axis=0)),
    "Resize": lambda: op.Resize(IMAGE, None, None, op.Max(FOUR, np.int64(1))),
    "Resize by scales": lambda: op.Resize(IMAGE, None, op.Cast(op.Max(FOUR, np.int64(1)), to="f32")),
    "OneHot": lambda: op.OneHot(PAIR, NUMBER, np.array([0.0, 1.0], np.float32)),
    "HannWindow": lambda: op.HannWindow(NUMBER),
    "BlackmanWindow": lambda: op.BlackmanWindow(NUMBER),
    "DFT": lambda: op.DFT(SIGNAL, NUMBER),
    "DFT back": lambda: op.DFT(SIGNAL, NUMBER, inverse=1),
    "MelWeightMatrix": lambda: op.MelWeightMatrix(
        NUMBER, np.int64(16), np.int64(8000), np.float32(0), np.float32(4000)
    ),
    "CenterCropPad": lambda: op.CenterCropPad(IMAGE, PAIR, axes=[2, 3]),
    "AffineGrid": lambda: op.AffineGrid(const(np.ones((1, 2, 3), np.float32)), FOUR),
    "TopK": lambda: op.TopK(SIGNAL, op.Reshape(NUMBER, [1]), axis=1)[0],
    "RandomUniform": lambda: op.RandomUniform(shape=[FAR, FAR]),
    "Multinomial": lambda: op.Multinomial(const(np.ones((1, 3), np.float32)), sample_size=2**40),
    "Loop": endless,
    "Loop that grows": lambda: endless(grows=True),
}
"""Values whose size, or whose time, hangs on numbers."""


@pytest.mark.parametrize("far", [FAR, 2**40, 2**62])
@pytest.mark.parametrize("name", SIZED)
def test_what_would_take_too_much_has_no_results(name: str, far: int) -> None:
    value = SIZED[name]()
    params = tuple(v for v in post_order((value,)) if v.op == "Param")
    feeds = {
        IMAGE: np.ones((1, 1, 4, 4), np.float32), NUMBER: np.int64(far), PAIR: np.array([far, far]),
        FOUR: np.array([1, 1, far, far]), SIGNAL: np.ones((1, 16, 1), np.float32), REAL: np.float32(1e-30),
    }  # fmt: skip
    graph, arrays = Graph(params, (value,)), [np.asarray(feeds[p]) for p in params]
    assert computed_results(graph, arrays) is None
    assert plainly(graph, arrays) is None
    with pytest.raises(EvaluateError):
        trace(graph, arrays, most=MOST_ELEMENTS)


def test_what_is_within_the_bound_is_computed() -> None:
    graph = Graph((NUMBER,), (op.Range(np.int64(0), NUMBER, np.int64(1)),))
    assert evaluate(graph, [np.int64(1000)], most=2000)[0].size == 1000
    with pytest.raises(EvaluateError, match="Range makes more elements than this run may have"):
        evaluate(graph, [np.int64(1000)], most=1500)  # the parameter and two constants count for 256 each
    with pytest.raises(EvaluateError, match="most"):
        evaluate(graph, [np.int64(1)], most=-1)
    words: Any = op.Loop(NUMBER, True, const("a"), body=lambda i, c, s: (True, op.StringConcat(s, s)))
    text = Graph((NUMBER,), as_tuple(words))
    assert computed_results(text, [np.int64(2**40)]) is None


# ---------------------------------------------------------------------------------------------- all operators

MEMORY = 6 << 30
SECONDS = 60


def tried(name: str, seeds: int, pipe: Connection) -> None:
    """Tells what of the instances of an operator whose integers are ends of their types asks for too much memory."""
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for _ in range(seeds):
        try:
            graph, arrays = graph_of(instances_of(name)(rng))
        except (Retry, IndexError, ValueError):
            continue
        given = [far_numbers(np.asarray(a), rng) if isinstance(a, np.ndarray) else a for a in arrays]
        try:
            evaluate(graph, given, most=MOST_ELEMENTS)
        except EvaluateError as error:
            if isinstance(error.__cause__, MemoryError):
                pipe.send(f"{error.what}\n{graph}\n{given}")
                return
    pipe.send("")


def far_numbers(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The array, some of its integers at an end of their type, or nearer."""
    kind = DType.of(array.dtype)
    if not kind.is_integer or kind.bits < 32 or not array.size:
        return array
    high = int(np.iinfo(array.dtype).max)
    ends = np.array([high, high - 1, high >> 20, 1 << 30, 0, 1], dtype=array.dtype)
    return np.where(rng.random(array.shape) < 0.6, rng.choice(ends, array.shape), array).astype(array.dtype)


@pytest.mark.parametrize("name", drawn("bounds", [n for n in names_with_samples() if n != "ImageDecoder"], 12))
def test_numbers_at_their_ends_take_no_memory(name: str) -> None:
    here, there = get_context("fork").Pipe()
    process = get_context("fork").Process(target=tried, args=(name, 12, there), daemon=True)
    process.start()
    there.close()
    try:
        assert here.poll(SECONDS) and here.recv() == ""
    finally:
        process.kill()
        process.join()
