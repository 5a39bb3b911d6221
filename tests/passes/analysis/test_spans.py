"""Spans of tensors hold every number that the evaluator gives, and are as narrow as what made them tells."""

from __future__ import annotations

import random

import numpy as np
import pytest

from irkit.build import const, op, shape_vector
from irkit.core.ir import Graph, Value, param
from irkit.core.types import tensor
from irkit.evaluation.interpreter import evaluate
from passes.analysis.spans import MOST, Span, span_of

X, SMALL = param(tensor("i64", "n", 3)), param(tensor("u8", "n", 3))
FLAGS, REAL = param(tensor("bool", "n", 3)), param(tensor("f32", "n", 3))


def whole(number: int) -> Value:
    return const(number, "i64")


def wide(value: Value) -> Value:
    return op.Cast(value, to=7)


def logarithm(value: Value) -> Value:
    """How often 8 doubles to a number, roughly: below 0 for numbers below 8."""
    real = op.Div(op.Cast(value, to=1), const(np.float32(8)))
    return wide(op.Div(op.Log(real), const(np.float32(0.5))))


COUNTS = wide(SMALL)
BACKWARDS = op.Slice(X, const([-1]), const([-(2**62)]), const([1]), const([-1]))
CASES: dict[str, tuple[Value, tuple[float, float]]] = {
    "an input": (X, (-(2**63), 2**63 - 1)),
    "truth values": (wide(FLAGS), (0, 1)),
    "bytes": (wide(SMALL), (0, 255)),
    "a running count": (op.CumSum(wide(FLAGS), const(0)), (0, MOST)),
    "a count less one": (op.Sub(op.CumSum(wide(FLAGS), const(0)), whole(1)), (-1, MOST - 1)),
    "clipped": (op.Max(X, whole(0)), (0, 2**63 - 1)),
    "clipped and one more": (op.Add(op.Max(X, whole(0)), whole(1)), (-(2**63), 2**63 - 1)),
    "a remainder": (op.Mod(X, whole(5)), (0, 5)),
    "a position": (op.Range(whole(0), op.Gather(shape_vector(X.shape, X), const(0)), whole(1)), (0, MOST)),
    "turned": (op.Sub(op.ArgMax(X, axis=1), whole(2)), (-2, MOST - 2)),
    "chosen": (op.Where(FLAGS, wide(SMALL), whole(-1)), (-1, 255)),
    "a float kept in": (wide(op.Clip(REAL, const(np.float32(0)), const(np.float32(9)))), (0, 9)),
    "a float": (wide(REAL), (-(2**63), 2**63 - 1)),
    "a float of one sign": (wide(op.Relu(REAL)), (0, 2**63 - 1)),
    "a constant": (const(np.array([3, -4])), (-4, 3)),
    "divided": (op.Div(wide(SMALL), whole(2)), (0, 255)),
    "divided by what may be 0": (op.Div(wide(SMALL), wide(FLAGS)), (-(2**63), 2**63 - 1)),
    "a way taken from 8 on": (
        op.Where(op.Less(COUNTS, whole(8)), whole(3), op.Min(logarithm(COUNTS), whole(4))),
        (0, 4),
    ),
    "the same of other numbers": (
        op.Where(op.Less(COUNTS, whole(8)), whole(3), op.Min(logarithm(wide(SMALL)), whole(4))),
        (-(2**63), 4),
    ),
    "the same of numbers at other places": (
        op.Where(op.Less(X, whole(0)), whole(3), op.Min(BACKWARDS, whole(4))),
        (-(2**63), 4),
    ),
    "the lower bits": (op.BitwiseAnd(X, whole(7)), (0, 7)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_span_is_told_by_what_made_a_tensor(name: str) -> None:
    value, (low, high) = CASES[name]
    assert span_of(value) == Span(low, high)


def drawn(rng: random.Random, depth: int) -> Value:
    """A tensor of integers, computed of the inputs."""
    if not depth:
        return rng.choice((X, wide(SMALL), wide(FLAGS), whole(rng.choice((-3, 0, 1, 2, 2**62))), wide(op.Relu(REAL))))
    a, b = drawn(rng, depth - 1), drawn(rng, rng.randrange(depth))
    positive = op.Max(b, whole(1))
    ways = (
        lambda: op.Add(a, b), lambda: op.Sub(a, b), lambda: op.Mul(a, b), lambda: op.Max(a, b), lambda: op.Min(a, b),
        lambda: op.Neg(a), lambda: op.Abs(a), lambda: op.Mod(a, positive), lambda: op.Div(a, positive),
        lambda: op.Mod(a, positive, fmod=1), lambda: op.Where(FLAGS, a, b), lambda: op.Clip(a, whole(-1), whole(6)),
        lambda: op.BitwiseAnd(a, b), lambda: op.Max(a, whole(0)), lambda: wide(op.Cast(a, to=6)),
        lambda: op.Where(op.Less(a, whole(3)), b, op.Min(op.Sub(a, whole(2)), whole(9))),
        lambda: op.Where(op.Less(X, whole(3)), b, BACKWARDS), lambda: op.Where(op.Less(a, whole(8)), b, logarithm(a)),
        lambda: wide(op.Floor(op.Cast(a, to=11))), lambda: op.ReduceSum(op.Min(a, whole(9)), keepdims=1),
    )  # fmt: skip
    return rng.choice(ways)()


@pytest.mark.parametrize("seed", range(120))
def test_the_numbers_of_drawn_tensors_lie_within_their_spans(seed: int) -> None:
    rng = random.Random(seed)
    value = drawn(rng, 4)
    ends = np.array([-(2**63), -(2**63) + 1, -2, -1, 0, 1, 2, 5, 2**31, 2**62, 2**63 - 2, 2**63 - 1])
    numbers = np.random.default_rng(seed)
    found = span_of(value)
    graph = Graph((X, SMALL, FLAGS, REAL), (value,))
    for _ in range(6):
        given = (
            numbers.choice(ends, (2, 3)), numbers.integers(0, 256, (2, 3)).astype(np.uint8),
            numbers.integers(0, 2, (2, 3)).astype(bool), numbers.normal(0, 4, (2, 3)).astype(np.float32),
        )  # fmt: skip
        with np.errstate(all="ignore"):
            (made,) = evaluate(graph, given)
        assert found.low <= int(made.min()) and int(made.max()) <= found.high, str(graph)
