"""Scales, biases, norms and padding before and after convolutions and products, which become part of the weights.

The new weights are computed when they are loaded, and keep their names. A weight that is used elsewhere too is left
alone. No rule here is exact: weights are rounded once more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irkit.build import call, const, op
from irkit.core.attributes import Given
from irkit.core.ir import Value, param
from irkit.core.types import DType, tensor
from irkit.dims import Dim
from irkit.pattern import attr, attribute_of, hole, one_of, p, uniform
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import (
    OUT_OF_RANGE,
    axes_of,
    computed_constant,
    divides_moderately,
    holds_digits,
    is_float,
    is_moderate,
    lazily,
    same_type,
    wide,
)

x = hole("x")
_c = constant("c")
_bias = constant("b", optional=True)


def channels_of(value: Value, rank: int, count: Dim | None) -> Callable[[], np.ndarray] | None:
    """A constant read as one number for each of `count` channels, along axis 1 of a tensor of that rank; None where it
    is none."""
    shape = value.shape
    if value.blob is None or len(shape) > rank or type(count) is not int:
        return None
    full = (1,) * (rank - len(shape)) + shape
    if any(d != 1 for i, d in enumerate(full) if i != 1) or full[1] not in (1, count):
        return None
    return lambda: np.broadcast_to(wide(value).reshape(-1), (count,))


def _constants(m: Match) -> list[Value | None]:
    """The constants that a rule of this module computes with."""
    return [m.get(name) for name in ("w", "b", "c", "scale", "shift", "mean", "variance")]


def _scaled_rows(m: Match, name: str, factor: Callable[[], np.ndarray], transposed: bool, groups: int) -> Value:
    """The weight of a convolution with each output channel scaled."""
    weight: Value = m.w
    shape = weight.shape

    def compute() -> np.ndarray:
        data, each = _at_least_float(weight), factor()
        if not transposed:
            return data * each.reshape(-1, *[1] * (len(shape) - 1)).astype(data.dtype)
        split = data.reshape(groups, shape[0] // groups, *shape[1:])
        scaled = split * each.reshape(groups, 1, -1, *[1] * (len(shape) - 2)).astype(data.dtype)
        return scaled.reshape(shape)

    return lazily(weight, tuple(shape), compute, _constants(m), factored=name)


def _at_least_float(value: Value) -> np.ndarray:
    array = value.blob.read()  # type: ignore[union-attr]
    return array if value.dtype is DType.DOUBLE else array.astype(np.float32, copy=False)


def _biased(m: Match, weight: Value, count: int, compute: Callable[[np.ndarray], np.ndarray], like: Value) -> Value:
    """A new bias, computed from the old one or from zeros; it has the old one's name, or one made from what it is
    computed from."""
    before = m.get("b")

    def content() -> np.ndarray:
        return compute(np.zeros(count) if before is None else wide(before))

    names = [v.blob.name if v is not None and v.blob is not None else "" for v in (before, weight, like)]
    name = names[0] if before is not None else _bias_name(names[1], names[2])
    return lazily(weight, (count,), content, _constants(m), name)


def _bias_name(weight: str, other: str) -> str:
    if not weight:
        return other
    return f"{weight.removesuffix('weight')}bias" if weight.endswith("weight") else f"{weight}_bias"


def _results(conv: Value) -> int | None:
    """How many output channels a convolution has; None where that is not known."""
    count = conv.shape[1]
    return count if type(count) is int else None


CONVOLUTIONS = ("Conv", "ConvTranspose")
_conv = one_of(*CONVOLUTIONS)(x, constant("w").once(), _bias).named("conv").once()


def _image(rng: np.random.Generator) -> Value:
    return param(tensor("f32", "batch", 4, "height", 6))


def _numbers(rng: np.random.Generator, *shape: int) -> Value:
    return const(rng.uniform(0.5, 2.0, shape).astype(np.float32))


def _convolved(rng: np.random.Generator, image: Value | None = None, padded: bool = True) -> Value:
    groups = int(rng.choice([1, 2]))
    bias = _numbers(rng, 6) if rng.random() < 0.5 else None
    image = _image(rng) if image is None else image
    pads = [1, 1, 1, 1] if padded and rng.random() < 0.5 else [0, 0, 0, 0]
    if rng.random() < 0.6:
        return op.Conv(image, _numbers(rng, 6, 4 // groups, 3, 3), bias, group=groups, pads=pads)
    return op.ConvTranspose(image, _numbers(rng, 4, 6 // groups, 3, 3), bias, group=groups, pads=pads)


def _each_channel(rng: np.random.Generator, count: int) -> Value:
    shapes = ((), (1,), (count, 1, 1), (1, count, 1, 1), (1, 1, 1))
    return _numbers(rng, *shapes[int(rng.integers(len(shapes)))])


# ---------------------------------------------------------------------------------------------- after a convolution


@rule(
    one_of("Mul", "Div")(_conv, _c),
    exact=False,
    sample=lambda rng: (op.Mul if rng.random() < 0.5 else op.Div)(_convolved(rng), _each_channel(rng, 6)),
)
def channel_factor(m: Match) -> Made:
    """Conv(x, w, b) * c -> Conv(x, w * c, b * c), for a c for each channel"""
    count = _results(m.conv)
    factor = channels_of(m.c, m.conv.rank, count)
    if factor is None or count is None or not is_float(m.x) or (m.root.inputs[0] is m.c and m.root.op == "Div"):
        return decline("not a number for each channel")
    if m.root.rank != m.conv.rank:
        return decline("the factor has more axes")
    divides = m.root.op == "Div"
    if not is_moderate(m.w, m.b, m.c) or (divides and not divides_moderately(m.c)):
        return decline(OUT_OF_RANGE)

    def each() -> np.ndarray:
        return 1 / factor() if divides else factor()

    new = _scaled_rows(m, "channel_factor", each, m.conv.op == "ConvTranspose", attribute_of(m.conv, "group"))
    bias = None if m.b is None else _biased(m, m.w, count, lambda b: b * each(), m.c)
    return call(m.conv.op, [m.x, new, bias], dict(m.conv.attributes))


@rule(
    one_of("Add", "Sub")(_conv, _c),
    exact=False,
    sample=lambda rng: (op.Add if rng.random() < 0.5 else op.Sub)(_convolved(rng), _each_channel(rng, 6)),
)
def channel_bias(m: Match) -> Made:
    """Conv(x, w, b) + c -> Conv(x, w, b + c), for a c for each channel"""
    count = _results(m.conv)
    shift = channels_of(m.c, m.conv.rank, count)
    if shift is None or count is None or not is_float(m.x) or (m.root.inputs[0] is m.c and m.root.op == "Sub"):
        return decline("not a number for each channel")
    if m.root.rank != m.conv.rank:
        return decline("the bias has more axes")
    sign = -1 if m.root.op == "Sub" else 1
    bias = _biased(m, m.w, count, lambda b: b + sign * shift(), m.c)
    return call(m.conv.op, [m.x, m.w, bias], dict(m.conv.attributes))


_norm = (constant("scale"), constant("shift"), constant("mean"), constant("variance"))
_norm_attributes = {"epsilon": attr("epsilon"), "momentum": attr("momentum")}


def _normed(rng: np.random.Generator, made: Value, count: int) -> Value:
    return op.BatchNormalization(made, *(_numbers(rng, count) for _ in range(4)), epsilon=1e-3)


def _factor(m: Match) -> np.ndarray:
    return wide(m.scale) / np.sqrt(wide(m.variance) + m.epsilon)


def norm_numbers(m: Match) -> list[Value]:
    """What a batch norm adds, and what it multiplies by, as constants."""

    def factor(scale: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + m.epsilon)

    return [m.shift, m.mean, computed_constant(m.scale, m.scale.shape, factor, [m.scale, m.variance])]


def _one_type(m: Match) -> bool:
    return all(m[name].dtype is m.x.dtype for name in ("w", "scale", "shift", "mean", "variance")) and is_float(m.x)


def _transposed(rng: np.random.Generator) -> Value:
    bias = _numbers(rng, 6) if rng.random() < 0.5 else None
    groups = int(rng.choice([1, 2]))
    return _normed(rng, op.ConvTranspose(_image(rng), _numbers(rng, 4, 6 // groups, 3, 3), bias, group=groups), 6)


@rule(
    p.BatchNormalization(
        one_of("ConvTranspose")(x, constant("w").once(), _bias).named("conv").once(), *_norm, **_norm_attributes
    ),
    exact=False,
    sample=_transposed,
)
def conv_transpose_batch_norm(m: Match) -> Made:
    """BatchNormalization(ConvTranspose(x, w, b)) -> ConvTranspose(x, w', b')"""
    count = _results(m.conv)
    if count is None or not _one_type(m):
        return decline("the norm has another element type than the convolution")
    if not is_moderate(m.w, m.b, *norm_numbers(m)):
        return decline(OUT_OF_RANGE)
    new = _scaled_rows(m, "conv_transpose_batch_norm", lambda: _factor(m), True, attribute_of(m.conv, "group"))
    bias = _biased(m, m.w, count, lambda b: (b - wide(m.mean)) * _factor(m) + wide(m.shift), m.shift)
    return call("ConvTranspose", [m.x, new, bias], dict(m.conv.attributes))


# ---------------------------------------------------------------------------------------------- before a convolution


def _reached(weight: Value, factor: np.ndarray, groups: int) -> np.ndarray:
    """Numbers for each input channel, laid out as the elements of a weight that they multiply."""
    rows, columns = weight.shape[:2]
    each = np.repeat(factor.reshape(groups, columns), rows // groups, axis=0)
    return each.reshape(rows, columns, *[1] * (weight.rank - 2))


@rule(
    p.Conv(
        p.Mul(x, _c).named("product").once(),
        constant("w").once(),
        _bias,
        auto_pad=attr("auto_pad"),
        dilations=attr("dilations"),
        group=attr("group"),
        kernel_shape=attr("kernel"),
        pads=attr("pads"),
        strides=attr("strides"),
    ),
    exact=False,
    sample=lambda rng: _convolved(rng, op.Mul(_image(rng), _each_channel(rng, 4))),
)
def factor_conv(m: Match) -> Made:
    """Conv(x * c, w) -> Conv(x, w * c), for a c for each channel"""
    count = m.product.shape[1]
    factor = channels_of(m.c, m.product.rank, count)
    if factor is None or not is_float(m.x) or not same_type(m.x, m.product):
        return decline("not a number for each channel")
    if not is_moderate(m.w, m.c):
        return decline(OUT_OF_RANGE)

    def compute() -> np.ndarray:
        data = _at_least_float(m.w)
        return data * _reached(m.w, factor(), m.group).astype(data.dtype)

    weight = lazily(m.w, m.w.shape, compute, _constants(m), factored="factor_conv")
    return call("Conv", [m.x, weight, m.b], dict(m.root.attributes))


@rule(
    p.Conv(
        p.Add(x, _c).named("sum").once(),
        constant("w"),
        _bias,
        auto_pad=attr("auto_pad"),
        dilations=attr("dilations"),
        group=attr("group"),
        kernel_shape=attr("kernel"),
        pads=attr("pads"),
        strides=attr("strides"),
    ),
    exact=False,
    sample=lambda rng: _convolved(rng, op.Add(_image(rng), _each_channel(rng, 4)), padded=False),
)
def shift_conv(m: Match) -> Made:
    """Conv(x + c, w, b) -> Conv(x, w, b + sum(w * c)), for a c for each channel, where nothing is padded"""
    shift = channels_of(m.c, m.sum.rank, m.sum.shape[1])
    if shift is None or not is_float(m.x) or not same_type(m.x, m.sum):
        return decline("not a number for each channel")
    if any(m.pads or ()) or m.auto_pad not in ("NOTSET", "VALID"):
        return decline("zeros are padded, and no c")
    if not is_moderate(m.w, m.c, whole=True):  # the bias may be small enough to be computed at once, of all of w
        return decline(OUT_OF_RANGE)

    def more(before: np.ndarray) -> np.ndarray:
        weighted = wide(m.w) * _reached(m.w, shift(), m.group)
        return before + weighted.reshape(m.w.shape[0], -1).sum(axis=1)

    bias = _biased(m, m.w, m.w.shape[0], more, m.c)
    return call("Conv", [m.x, m.w, bias], dict(m.root.attributes))


# ---------------------------------------------------------------------------------------------- padding


def _padded(rng: np.random.Generator) -> Value:
    pads = [0, 0, int(rng.integers(3)), 1, 0, 0, int(rng.integers(3)), 0]
    image = op.Pad(_image(rng), np.array(pads), 0.0 if rng.random() < 0.5 else None)
    if rng.random() < 0.5:
        return op.Conv(image, _numbers(rng, 6, 4, 3, 3), pads=[0, 1, 1, 0], strides=[2, 1])
    return op.AveragePool(image, kernel_shape=[2, 2], count_include_pad=int(rng.random() < 0.5), strides=[1, 2])


_pad = p.Pad(x, constant("pads"), constant("value", optional=True), constant("axes", optional=True)).named("padded")


@rule(one_of("Conv", "AveragePool")(_pad, *(hole(n, optional=True) for n in ("w", "b"))), exact=False, sample=_padded)
def pad_window(m: Match) -> Made:
    """Conv(Pad(x, zeros)) -> Conv(x, pads), and so for AveragePool"""
    pads, rank, root = axes_of(m.pads), m.x.rank, m.root
    if pads is None or not is_float(m.x) or (m.value is not None and uniform(m.value) != 0):
        return decline("something else than zeros is padded")
    axes = tuple(a % rank for a in axes_of(m.axes) or ()) if m.axes is not None else tuple(range(rank))
    before, after = dict(zip(axes, pads[: len(axes)], strict=True)), dict(zip(axes, pads[len(axes) :], strict=True))
    every = [before.get(i, 0) for i in range(rank)] + [after.get(i, 0) for i in range(rank)]
    if min(every) < 0 or every[0] or every[1] or every[rank] or every[rank + 1]:
        return decline("batches or channels are padded, or something is cut off")
    own = attribute_of(root, "pads") or (0,) * (2 * (rank - 2))
    if attribute_of(root, "auto_pad") not in ("NOTSET", "VALID"):
        return decline("it pads by a rule of its own")
    given: Given = {**dict(root.attributes), "auto_pad": "NOTSET"}
    if root.op == "AveragePool":
        if attribute_of(root, "ceil_mode") or (any(own) and not attribute_of(root, "count_include_pad")):
            return decline("what it pads itself is not counted")
        given["count_include_pad"] = 1
        if any(a >= k for a, k in zip(every[2:rank] + every[rank + 2 :], (*given["kernel_shape"],) * 2, strict=True)):
            return decline("whole windows are padded")
    given["pads"] = tuple(a + b for a, b in zip(own, every[2:rank] + every[rank + 2 :], strict=True))
    return call(root.op, [m.x, *root.inputs[1:]], given)


# ---------------------------------------------------------------------------------------------- products

_gemm_names = ("transA", "transB", "alpha", "beta")
_gemm_attributes = {name: attr(name) for name in _gemm_names}
_gemm = p.Gemm(x, constant("w").once(), _bias, **_gemm_attributes).named("product").once()
_any_gemm = p.Gemm(x, hole("w"), hole("b", optional=True), **_gemm_attributes).named("product").once()


def _multiplied(rng: np.random.Generator) -> Value:
    matrix, turned = param(tensor("f32", "batch", 4)), int(rng.random() < 0.5)
    weight = _numbers(rng, 6, 4) if turned else _numbers(rng, 4, 6)
    bias = _numbers(rng, *([6] if rng.random() < 0.7 else [1, 6])) if rng.random() < 0.7 else None
    return op.Gemm(matrix, weight, bias, transB=turned, alpha=1.5, beta=0.5)


def _gemm_sample(rng: np.random.Generator) -> Value:
    other = _numbers(rng, *((), (1,), (6,), (1, 6))[int(rng.integers(4))])
    return (op.Mul if rng.random() < 0.5 else op.Div)(_multiplied(rng), other)


@rule(p.Mul(_any_gemm, _c), exact=False, sample=lambda rng: op.Mul(_multiplied(rng), 2.5))
def gemm_factor(m: Match) -> Made:
    """Gemm(a, b, c) * number -> Gemm(a, b, c, alpha * number, beta * number)"""
    found = uniform(m.c)
    if found is None or m.c.blob.size != 1 or m.c.rank > 2 or not is_float(m.x) or not np.isfinite(found):
        return decline("not a number")
    alpha, beta = m.alpha * found, m.beta if m.b is None else m.beta * found
    if not holds_digits(m.x, alpha, *([] if m.b is None else [beta])):
        return decline("more digits than the attributes have")
    given = {n: m[n] for n in _gemm_names} | {"alpha": alpha, "beta": beta}
    return op.Gemm(m.x, m.w, m.b, **given)


def _columns(value: Value, count: Dim) -> bool:
    """True for a constant with a number for each column of a matrix."""
    shape = value.shape
    return len(shape) <= 2 and shape[-1:] in ((count,), (1,), ()) and all(d == 1 for d in shape[:-1])


def _scaled_columns(m: Match, name: str, factor: Callable[[], np.ndarray]) -> Value:
    def compute() -> np.ndarray:
        data = _at_least_float(m.w)
        each = factor().astype(data.dtype)
        return data * (each[:, None] if m.get("transB") else each)

    return lazily(m.w, m.w.shape, compute, _constants(m), factored=name)


@rule(one_of("Mul", "Div")(_gemm, _c), exact=False, sample=_gemm_sample)
def gemm_factors(m: Match) -> Made:
    """Gemm(x, w, b) * c -> Gemm(x, w * c, b * c), for a c for each column"""
    count = m.product.shape[1]
    if type(count) is not int or not _columns(m.c, count) or not is_float(m.x) or m.root.inputs[0] is m.c:
        return decline("not a number for each column")
    if m.b is not None and not _columns(m.b, count):
        return decline("the bias is a matrix")
    divides = m.root.op == "Div"
    if not is_moderate(m.w, m.b, m.c) or (divides and not divides_moderately(m.c)):
        return decline(OUT_OF_RANGE)

    def each() -> np.ndarray:
        found = np.broadcast_to(wide(m.c).reshape(-1), (count,))
        return 1 / found if divides else found

    bias = None if m.b is None else _biased(m, m.w, count, lambda b: b.reshape(-1) * each(), m.c)
    return op.Gemm(m.x, _scaled_columns(m, "gemm_factors", each), bias, **{n: m[n] for n in _gemm_names})


def _gemm_norm(rng: np.random.Generator) -> Value:
    return _normed(rng, _multiplied(rng), 6)


@rule(p.BatchNormalization(_gemm, *_norm, **_norm_attributes), exact=False, sample=_gemm_norm)
def gemm_batch_norm(m: Match) -> Made:
    """BatchNormalization(Gemm(x, w, b)) -> Gemm(x, w', b')"""
    count = m.product.shape[1]
    if type(count) is not int or not _one_type(m) or (m.b is not None and not _columns(m.b, count)):
        return decline("the bias is a matrix, or the norm has another element type")
    if not is_moderate(m.w, m.b, *norm_numbers(m)):
        return decline(OUT_OF_RANGE)
    beta = m.beta

    def shifted(before: np.ndarray) -> np.ndarray:
        return (beta * before.reshape(-1) - wide(m.mean)) * _factor(m) + wide(m.shift)

    bias = _biased(m, m.w, count, shifted, m.shift)
    given: Given = {**{n: m[n] for n in _gemm_names}, "beta": 1.0}
    return op.Gemm(m.x, _scaled_columns(m, "gemm_batch_norm", lambda: _factor(m)), bias, **given)


# ---------------------------------------------------------------------------------------------- no bias

_zeros = constant("b", where=lambda value: uniform(value) == 0)


@rule(
    one_of("Conv", "ConvTranspose", "Gemm")(x, hole("w"), _zeros),
    exact=False,
    sample=lambda rng: op.Conv(_image(rng), _numbers(rng, 6, 4, 3, 3), np.zeros(6, np.float32)),
)
def no_bias(m: Match) -> Made:
    """Conv(x, w, zeros) -> Conv(x, w), and so for ConvTranspose and Gemm"""
    return call(m.root.op, [m.x, m.w], dict(m.root.attributes)) if is_float(m.x) else decline("integers")


AFFINE: tuple[Rule, ...] = (
    no_bias, pad_window, channel_factor, channel_bias, conv_transpose_batch_norm, factor_conv, shift_conv, gemm_factor,
    gemm_factors, gemm_batch_norm,
)  # fmt: skip
"""What stands around convolutions and products of matrices, made part of them."""
