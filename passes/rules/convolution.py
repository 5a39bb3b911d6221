"""Convolutions and what follows them: batch norms and biases that become part of their weights, read when asked."""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit.build import call, const, op
from irkit.ir import Value, param
from irkit.pattern import attr, hole, one_of, p
from irkit.pattern import const as constant
from irkit.rewrite import Match, Rule, decline, rule
from irkit.types import DType, tensor
from passes.rules.common import is_float, lazily, wide

_conv = one_of("Conv")(hole("x"), constant("w"), constant("b", optional=True)).named("conv").once()


def _normed(rng: np.random.Generator) -> Value:
    channels, groups = (4, 2) if rng.random() < 0.5 else (3, 1)
    x = param(tensor("f32", "batch", 4 if groups == 2 else 5, "height", "width"))
    weight = rng.standard_normal((channels, x.shape[1] // groups, 3, 3)).astype(np.float32)
    bias = const(rng.standard_normal(channels).astype(np.float32)) if rng.random() < 0.5 else None
    made = op.Conv(x, weight, bias, group=groups, pads=[1, 1, 1, 1])
    scale, shift, mean = rng.standard_normal((3, channels)).astype(np.float32)
    variance = rng.uniform(0.5, 2.0, channels).astype(np.float32)
    return op.BatchNormalization(made, scale, shift, mean, variance, epsilon=1e-3)


@rule(
    p.BatchNormalization(
        _conv, constant("scale"), constant("shift"), constant("mean"), constant("variance"),
        epsilon=attr("epsilon"), momentum=attr("momentum"),
    ),
    exact=False,
    sample=_normed,
)  # fmt: skip
def conv_batch_norm(m: Match) -> Any:
    """BatchNormalization(Conv(x, w, b)) -> Conv(x, w', b'), with w' = w * scale / Sqrt(variance + epsilon)"""
    parts = (m.w, m.scale, m.shift, m.mean, m.variance)
    if not is_float(m.x) or m.scale.rank != 1 or any(v.dtype is not m.x.dtype for v in parts):
        return decline("the norm has another element type than the convolution")
    epsilon, weight = m.epsilon, m.w.blob

    def factor() -> np.ndarray:
        return wide(m.scale) / np.sqrt(wide(m.variance) + epsilon)

    def scaled() -> np.ndarray:  # in f32 at least, as torch computes: in f64 it would take longer than writing the file
        wide = np.float64 if m.w.dtype is DType.DOUBLE else np.float32
        each = factor().astype(wide).reshape(-1, *[1] * (m.w.rank - 1))
        return weight.array.astype(wide, copy=False) * each

    def shifted() -> np.ndarray:
        before = 0.0 if m.b is None else wide(m.b)
        return (before - wide(m.mean)) * factor() + wide(m.shift)

    name = weight.name
    bias = m.b.blob.name if m.b is not None else f"{name.removesuffix('weight')}bias" if name else ""
    new = lazily(m.w, weight.shape, scaled, name)
    return call("Conv", [m.x, new, lazily(m.w, (weight.shape[0],), shifted, bias)], dict(m.conv.attributes))


CONVOLUTION: tuple[Rule, ...] = (conv_batch_norm,)
"""Rules of convolutions; not exact: the weights are rounded once more."""
