"""Weights that are kept as integers: what moves them moves the integers."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.pattern import attr, p
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, rule
from passes.rules.constants import viewed_constant


def _sample(rng: np.random.Generator) -> Value:
    integers = const(rng.integers(-128, 128, (3, 4)).astype(np.int8))
    scales = rng.uniform(0.1, 1, 4 if rng.random() < 0.7 else ()).astype(np.float32)
    points = rng.integers(-9, 9, scales.shape).astype(np.int8)
    held = op.DequantizeLinear(integers, const(scales), const(points) if rng.random() < 0.7 else None, axis=1)
    return op.Transpose(held, perm=(1, 0))


_held = p.DequantizeLinear(
    constant("q").once(),
    constant("scale"),
    constant("zero", optional=True),
    axis=attr("axis"),
    block_size=attr("block"),
)


@rule(p.Transpose(_held, perm=attr("perm")), sample=_sample)
def transpose_of_integers(m: Match) -> Made:
    """Transpose(DequantizeLinear(weight, ...)) -> DequantizeLinear(weight transposed, ...), if nothing else uses it"""
    perm = m.perm or tuple(reversed(range(m.q.rank)))

    def moved(value: Value) -> Value:
        shape = tuple(value.shape[i] for i in perm)
        return viewed_constant(value, shape, lambda array: np.transpose(array, perm))

    def along(value: Value | None) -> Value | None:
        return moved(value) if value is not None and value.rank == m.q.rank else value

    axis = perm.index(m.axis % m.q.rank) if m.scale.rank else 1
    return op.DequantizeLinear(moved(m.q), along(m.scale), along(m.zero), axis=axis, block_size=m.block)


QUANTIZED: tuple[Rule, ...] = (transpose_of_integers,)
"""To the same bits."""
