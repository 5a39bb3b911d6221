"""What a rule that is true of real numbers is held to, and what it is not held to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from irkit.build import const, op
from irkit.checking.accuracy import Reference, is_real_made, nudged_numbers, traced_values, worse
from irkit.checking.agreement import computed_results
from irkit.checking.draws import numbers
from irkit.checking.rules import check_rule
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, tensor
from irkit.errors import RewriteError
from irkit.evaluation.interpreter import evaluate
from irkit.pattern import hole, p
from irkit.rewriting.face import Match, decline, rule

x, y = hole("x", dtype="float"), hole("y", dtype="float")


def judged(old: Callable[..., Value], new: Callable[..., Value], *arrays: Any, seed: int = 0) -> Any:
    """How the new expression is worse than the old one over those arrays; None where it is not."""
    params = tuple(param(tensor(DType.of(a.dtype).short, *np.shape(a))) for a in arrays)
    left, right = (evaluate(Graph(params, (made(*params),)), arrays)[0] for made in (old, new))
    reference = Reference.of(params, (old(*params),), arrays, (left,))
    return worse(reference, 0, left, right, np.random.default_rng(seed))


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.FLOAT16, DType.BFLOAT16, DType.DOUBLE, DType.INT64, DType.BOOL])
def test_numbers_without_axes_are_arrays(dtype: DType) -> None:
    for seed in range(20):
        found = numbers(np.random.default_rng(seed), dtype, ())
        assert isinstance(found, np.ndarray) and found.shape == () and DType.of(found.dtype) is dtype


def test_an_overflow_in_float32_is_measured_against_float64_without_axes_too() -> None:
    array = np.array(99.1052, np.float32)
    written = lambda a: op.Reciprocal(op.Add(op.Exp(a), np.float32(1)))  # noqa: E731
    assert judged(written, lambda a: op.Sigmoid(op.Neg(a)), array) is None
    assert "the right one by 9.1e-44" in judged(lambda a: op.Sigmoid(op.Neg(a)), written, array).what  # it gives 0
    other = judged(
        lambda a: op.Sigmoid(op.Neg(a)), lambda a: op.Mul(written(a), np.float32(1.01)), np.array([5.0], np.float32)
    )
    assert "in float64 the left side is" in other.what


def test_roundings_of_subnormal_numbers_are_as_large_as_those_of_the_smallest_normal_ones() -> None:
    least = float(np.finfo(np.float32).smallest_subnormal)
    array = np.array([0.0, least, 100 * least, 1.0])
    gaps = np.abs(nudged_numbers(array, DType.FLOAT, np.random.default_rng(0)) - array)
    assert gaps[0] == 0 and 0.5 * least < gaps[1] <= least and 0.5 * least < gaps[2] <= least
    near = np.array([[-64.44023550606936, -727.1959248802316]])
    axes = np.array([1])
    plain = lambda a: op.Div(op.Exp(a), op.ReduceSum(op.Exp(a), axes))  # noqa: E731
    assert judged(plain, lambda a: op.Softmax(a, axis=1), near) is None
    deep = np.array([[786.7109755060943, 47.19808989784164]])
    log = lambda a: op.Log(op.Softmax(a, axis=1))  # noqa: E731
    assert judged(log, lambda a: op.LogSoftmax(a, axis=1), deep) is None
    assert judged(plain, lambda a: op.Mul(op.Softmax(a, axis=1), 1 + 1e-12), near / 100) is not None


def test_without_a_wider_type_what_leaves_the_range_says_nothing() -> None:
    far = np.array([800.0, -800.0])
    written = lambda a: op.Reciprocal(op.Add(op.Exp(op.Neg(a)), 1.0))  # noqa: E731
    assert judged(written, op.Sigmoid, far) is None
    assert judged(op.Sigmoid, lambda a: op.Mul(op.Sigmoid(a), 0.5), far / 100) is not None


@pytest.mark.parametrize("seed", range(12))
def test_operands_that_move_together_do_not_hide_how_far_they_move_the_result(seed: int) -> None:
    row = np.array([[179.02928753085874, -190.06909828983]])
    plain = lambda a: op.Div(op.Exp(a), op.ReduceSum(op.Exp(a), np.array([1])))  # noqa: E731
    for shift in range(12):
        assert judged(plain, lambda a: op.Softmax(a, axis=1), row + shift / 7, seed=seed) is None


@pytest.mark.parametrize("seed", range(6))
def test_two_summands_that_cancel_may_be_rounded_otherwise(seed: int) -> None:
    a, b = np.array([1.3333334], np.float32), np.array([-1.3260217], np.float32)
    exact = float(a[0]) * 1.1 + float(b[0]) * 1.1
    off = judged(
        lambda a, b: op.Mul(op.Add(a, b), np.float32(1.1)),
        lambda a, b: op.Add(op.Mul(a, np.float32(1.1)), op.Mul(b, np.float32(1.1))),
        a,
        b,
        seed=seed,
    )
    assert off is None and abs(exact) > 0


@pytest.mark.parametrize("seed", range(6))
def test_a_jump_at_the_very_numbers_is_no_matter_of_rounding(seed: int) -> None:
    half = np.array([0.5, 2.5, 4.5], np.float32)
    found = judged(op.Round, lambda a: op.Floor(op.Add(a, np.float32(0.5))), half, seed=seed)
    assert found is not None and "3 of 3" in found.what
    near = np.array([2.0000002], np.float32)
    third = const(np.float32(1 / 3))
    assert (
        judged(
            lambda a: op.Floor(op.Div(op.Mul(a, np.float32(3)), np.float32(3))),
            lambda a: op.Floor(op.Mul(op.Mul(a, np.float32(3)), third)),
            near,
            seed=seed,
        )
        is None
    )


def test_values_that_are_no_real_numbers_though_their_operands_are() -> None:
    a = param(tensor("f32", 2))
    made = {
        "root": op.Sqrt(a),
        "quotient": op.Reciprocal(a),
        "masked": op.Add(a, np.float32(-np.inf)),
        "sum": op.Neg(a),
    }
    for name, value in made.items():
        found = traced_values((a,), (value,), [np.array([-4.0, 0.0], np.float32)])
        assert found is not None
        assert is_real_made([value], found) is (name in ("masked", "sum")), name
        assert not is_real_made([a], traced_values((a,), (value,), [np.array([np.nan, 0.0], np.float32)]) or {})


@rule(p.Where(p.Greater(x, 0.0), x, 0.0), exact=False)
def relu(m: Match) -> Any:
    """Where(x > 0, x, 0) -> Relu(x), of real numbers"""
    return op.Relu(m.x) if m.x.type == m.root.type else decline("a constant broadcasts x")


@rule(p.Div(p.Mul(x, y), y), exact=False)
def no_quotient(m: Match) -> Any:
    """x * y / y -> y, which is wrong"""
    return m.y if m.y.type == m.root.type else decline("x is larger")


@pytest.mark.parametrize("seed", range(3))
def test_operands_that_are_no_real_numbers_say_nothing_of_a_rule_of_real_numbers(seed: int) -> None:
    assert (
        check_rule(relu, 60, seed=seed, onnxruntime=False).fired == 60
    )  # near misses put Sqrt of what is negative there
    with pytest.raises(RewriteError, match="off by more than roundings explain"):
        check_rule(no_quotient, seed=seed, onnxruntime=False)


def test_a_loop_that_does_not_end_has_no_results() -> None:
    _, rows = op.Loop(None, True, np.float32(1), body=lambda i, c, s: (True, op.Add(s, 1.0), s))
    assert computed_results(Graph((), (rows,)), []) is None
    few, _ = op.Loop(np.int64(3), True, np.float32(1), body=lambda i, c, s: (True, op.Add(s, 1.0), s))
    assert computed_results(Graph((), (few,)), []) == (np.float32(4),)
