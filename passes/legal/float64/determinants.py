"""Determinants in float64, for which ONNX Runtime has a kernel of float32 only: a Loop over the columns."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from irkit import dims
from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.rewriting.face import Match
from passes.analysis.expansions import Expansion
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import number, vector
from passes.legal.runtime.expansions import ordinals, reshape_if_bound


def determinant(m: Match, value: Value) -> Value | None:
    """The product of pivots, the largest of each column, with the sign of the order in which their rows are taken"""
    x = value.inputs[0]
    if x is None or not is_bound(m, x.shape, bound_by(x)):
        return None
    size = x.shape[-1]
    stack = dims.product(x.shape[:-2])
    matrices, rows, count = (
        reshape_if_bound(m, x, (stack, size, size)),
        ordinals(m, size, x),
        sizes_value(m, (size,), 0, bound_by(x)),
    )
    if matrices is None or rows is None:
        return None
    ones = op.Expand(number(x, 1), sizes_value(m, (stack,), 1, bound_by(x)))
    left = op.Expand(np.array(True), sizes_value(m, (stack, size), 1, bound_by(x)))

    def step(i: Value, go: Value, a: Value, left: Value, found: Value) -> tuple[Value, ...]:
        """One column: the row of its largest element is taken from the others that are left"""
        column = op.Gather(a, i, axis=2)
        large = op.Where(op.IsNaN(column), number(column, np.inf), op.Abs(column))
        place = op.ArgMax(op.Where(left, large, number(column, -1)), axis=1)
        is_pivot = op.Equal(place, rows)
        passed = op.Cast(op.And(left, op.Less(rows, place)), to=DType.INT64)
        sign = op.Mod(op.ReduceSum(passed, vector([1]), keepdims=0), np.int64(2))
        pivot = op.GatherElements(column, place, axis=1)
        left = op.And(left, op.Not(is_pivot))
        zero = number(column, 0)
        share = op.Where(op.And(left, op.Not(op.Equal(pivot, zero))), op.Div(column, pivot), zero)
        row = op.ReduceSum(op.Where(op.Unsqueeze(is_pivot, vector([2])), a, zero), vector([1]))
        a = op.Sub(a, op.Mul(op.Unsqueeze(share, vector([2])), row))
        signed = op.Where(op.Equal(sign, np.int64(1)), op.Neg(found), found)
        return go, a, left, op.Mul(signed, op.Squeeze(pivot, vector([1])))

    found = op.Loop(count, np.array(True), matrices, left, ones, body=step)[2]
    return reshape_if_bound(m, found, value.shape, x)


DETERMINANTS: Mapping[str, Expansion] = MappingProxyType({"Det": determinant})
"""The expansion of Det, for float64."""
