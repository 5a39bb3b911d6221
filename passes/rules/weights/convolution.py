"""Convolutions and what follows them: batch norms and biases that become part of weights, computed when loaded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from irkit.build import call, const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, tensor
from irkit.pattern import Op, attr, attribute_of, hole, one_of, p
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import (
    OUT_OF_RANGE,
    is_float,
    is_moderate,
    joined_name,
    lazily,
    same_shape,
    wide,
    within_range,
)
from passes.rules.weights.affine import norm_numbers

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
        _conv,
        constant("scale"),
        constant("shift"),
        constant("mean"),
        constant("variance"),
        epsilon=attr("epsilon"),
        momentum=attr("momentum"),
    ),
    exact=False,
    sample=_normed,
)
def conv_batch_norm(m: Match) -> Made:
    """BatchNormalization(Conv(x, w, b)) -> Conv(x, w', b'), with w' = w * scale / Sqrt(variance + epsilon)"""
    parts = (m.w, m.scale, m.shift, m.mean, m.variance)
    if not is_float(m.x) or m.scale.rank != 1 or any(v.dtype is not m.x.dtype for v in parts):
        return decline("the norm has another element type than the convolution")
    if not is_moderate(m.w, m.b, *norm_numbers(m)):
        return decline(OUT_OF_RANGE)
    epsilon, weight, name = m.epsilon, m.w.blob, m.w.blob.name
    computed = DType.DOUBLE if m.w.dtype is DType.DOUBLE else DType.FLOAT  # as torch; writing takes less time than f64

    def factor() -> np.ndarray:
        return wide(m.scale) / np.sqrt(wide(m.variance) + epsilon)

    def each_factor() -> np.ndarray:
        return factor().reshape(-1, *[1] * (m.w.rank - 1))

    def times(rows: np.ndarray, each: np.ndarray) -> np.ndarray:
        return rows.astype(computed.numpy, copy=False) * each

    factors = within_range(each_factor, computed, "conv_batch_norm", name)
    product = within_range(times, m.w.dtype, "conv_batch_norm", name)

    def scaled() -> np.ndarray:
        return product(weight.read(), factors())

    def by_rows() -> Iterator[np.ndarray]:
        each, done = factors(), 0
        for rows in weight.rows():
            yield product(rows, each[done : done + len(rows)])
            done += len(rows)

    def shifted() -> np.ndarray:
        before = 0.0 if m.b is None else wide(m.b)
        return (before - wide(m.mean)) * factor() + wide(m.shift)

    bias = m.b.blob.name if m.b is not None else f"{name.removesuffix('weight')}bias" if name else ""
    new = lazily(m.w, weight.shape, scaled, parts, name, by_rows=by_rows)
    shift = lazily(m.w, (weight.shape[0],), shifted, [*parts, m.b], bias)
    return call("Conv", [m.x, new, shift], dict(m.conv.attributes))


def _conv_named(n: int) -> Op:
    weight, bias = constant(f"w{n}").once(), constant(f"b{n}", optional=True)
    return one_of("Conv")(hole(f"x{n}"), weight, bias).named(f"conv{n}").once()


def _shortcut(rng: np.random.Generator) -> Value:
    def conv(channels: int) -> Value:
        image = param(tensor("f32", "batch", channels, "height", "width"))
        weight = const(rng.standard_normal((8, channels, 1, 1)).astype(np.float32))
        return op.Conv(image, weight, const(rng.standard_normal(8).astype(np.float32)) if rng.random() < 0.6 else None)

    return op.Add(conv(3), conv(5))


def _is_pointwise(conv: Value, weight: Value) -> bool:
    """True for a convolution with kernels of one element, without strides, padding or groups."""
    steps, pads = attribute_of(conv, "strides") or (), attribute_of(conv, "pads") or ()
    return {*weight.shape[2:], *steps, attribute_of(conv, "group")} == {1} and not any(pads)


@rule(p.Add(_conv_named(1), _conv_named(2)), exact=False, sample=_shortcut)
def added_convolutions(m: Match) -> Made:
    """Conv(x, v, b) + Conv(y, w, c) -> Conv(Concat(x, y), Concat(v, w), b + c), for kernels of one element that lead to
    as many channels as x and y have, or more"""
    if not (_is_pointwise(m.conv1, m.w1) and _is_pointwise(m.conv2, m.w2)):
        return decline("a kernel has more than one element, moves in steps, is in groups or is padded")
    if not is_float(m.root) or not same_shape(m.conv1.shape, m.conv2.shape):
        return decline("the images differ in size")
    rows, columns = m.w1.shape[0], m.w1.shape[1] + m.w2.shape[1]
    if columns > rows:
        return decline("to join the images costs more than to add the results")
    weights, biases = (m.w1, m.w2), [b for b in (m.b1, m.b2) if b is not None]

    def compute() -> np.ndarray:
        return np.concatenate([w.blob.read() for w in weights], axis=1)

    weight = lazily(m.w1, (rows, columns, *m.w1.shape[2:]), compute, weights, joined_name(weights))
    if not biases:
        return op.Conv(op.Concat(m.x1, m.x2, axis=1), weight)
    bias = lazily(biases[0], (rows,), lambda: np.sum([wide(b) for b in biases], axis=0), biases, joined_name(biases))
    return op.Conv(op.Concat(m.x1, m.x2, axis=1), weight, bias)


def _of_all(rng: np.random.Generator) -> Value:
    height, width = (int(rng.integers(1, 5)) for _ in range(2))
    x, beyond = param(tensor("f32", "batch", 3, height, width)), int(rng.integers(3))
    steps = [int(rng.integers(1, 4)) for _ in range(2)]
    return op.AveragePool(x, kernel_shape=[height + beyond, width + beyond], strides=steps, ceil_mode=int(beyond > 0))


@rule(one_of("AveragePool")(hole("x")), exact=False, sample=_of_all)
def average_of_all(m: Match) -> Made:
    """AveragePool(x) -> GlobalAveragePool(x), where one window without padding holds the whole image"""
    sizes, kernel = m.x.shape[2:], attribute_of(m.root, "kernel_shape")
    if any(d != 1 for d in m.root.shape[2:]) or any(attribute_of(m.root, "pads") or ()):
        return decline("there are several windows, or padding counts")
    if any(type(d) is not int or d == 0 or d > k for d, k in zip(sizes, kernel, strict=True)):
        return decline("the window is smaller than the image")
    if set(attribute_of(m.root, "dilations") or (1,)) != {1} or attribute_of(m.root, "auto_pad") != "NOTSET":
        return decline("the window leaves elements out, or is padded")
    return op.GlobalAveragePool(m.x)


CONVOLUTION: tuple[Rule, ...] = (conv_batch_norm, added_convolutions, average_of_all)
"""Rules of convolutions; not exact: the weights are rounded once more."""
