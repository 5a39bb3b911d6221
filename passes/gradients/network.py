"""Gradients of convolutions, pools, normalizations and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from passes.gradients.movement import join_sizes, size_of
from passes.gradients.node import Node, Slopes, expand_to, in_shape_of, ints, num, sum_back, zeros


def window(n: Node, kernel: list[int]) -> tuple[list[int], list[int], list[int]]:
    """(strides, dilations, pads) of a convolution or pool."""
    count = len(kernel)
    strides = [int(s) for s in n.get("strides") or [1] * count]
    dilations = [int(d) for d in n.get("dilations") or [1] * count]
    pads = [int(p) for p in n.get("pads") or [0] * 2 * count]
    auto = n.get("auto_pad", "NOTSET")
    if auto.startswith("SAME"):
        sizes = n.x.shape[2:]
        if not all(type(size) is int for size in sizes):
            raise n.refuse(f"auto_pad={auto} of sizes that vary")
        whole = [
            max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
            for size, s, d, k in zip(sizes, strides, dilations, kernel, strict=True)
        ]
        small, large = [w // 2 for w in whole], [w - w // 2 for w in whole]
        pads = small + large if auto == "SAME_UPPER" else large + small
    return strides, dilations, pads


def kernel_of(n: Node, weight: Value) -> list[int]:
    """The sizes of the window of a convolution."""
    sizes = n.get("kernel_shape") or weight.shape[2:]
    if not all(type(size) is int for size in sizes):
        raise n.refuse("the sizes of its kernel vary")
    return [int(size) for size in sizes]


def back_through_window(
    slope: Value, weight: Value, like: Value, strides: list[int], dilations: list[int], pads: list[int], group: int
) -> Value:
    """The gradient of what a convolution was given, in the sizes of `like` behind the second axis."""
    count = len(strides)
    whole = op.ConvTranspose(
        slope, weight, strides=strides, dilations=dilations, group=group, pads=[*pads[:count], *[0] * count]
    )
    axes = list(range(2, 2 + count))
    rest = [s - 1 for s in strides]  # places that no window came to
    if any(rest):
        whole = op.Pad(whole, ints([*[0] * count, *rest]), None, ints(axes))
    ends = op.Slice(op.Shape(like), ints([2]), ints([2 + count]))
    return op.Slice(whole, ints([0] * count), ends, ints(axes))


def grad_Conv(n: Node) -> Slopes:
    """A transposed convolution of the slope; a convolution of what was given with the slope; a sum."""
    x, weight, bias = n.inputs[0], n.inputs[1], n.operand(2)
    kernel, group = kernel_of(n, weight), int(n.get("group", 1))
    strides, dilations, pads = window(n, kernel)
    first = in_shape_of(back_through_window(n.slope, weight, x, strides, dilations, pads, group), x)
    second = by_weight(x, n.slope, weight, strides, dilations, pads, group)
    if bias is None:
        return (first, second, None)[: len(n.inputs)]
    return first, second, op.ReduceSum(n.slope, ints([i for i in range(x.rank) if i != 1]), keepdims=0)


def by_weight(
    x: Value, slope: Value, weight: Value, strides: list[int], dilations: list[int], pads: list[int], group: int
) -> Value:
    """The gradient of the weights: batch and channels change places, strides and dilations too."""
    rank, axes = x.rank, list(range(2, x.rank))
    batch = size_of(x, 0)
    space = [size_of(x, i) for i in axes]
    inner = ints([weight.shape[1]]) if type(weight.shape[1]) is int else size_of(weight, 1)
    apart = op.Reshape(x, join_sizes(batch, ints([group]), inner, *space), allowzero=1)
    turned = op.Transpose(apart, perm=[2, 1, 0, *[i + 1 for i in axes]])
    given = op.Reshape(turned, join_sizes(inner, op.Mul(batch, ints([group])), *space), allowzero=1)
    kernels = op.Transpose(slope, perm=[1, 0, *axes])
    found = op.Conv(given, kernels, strides=dilations, dilations=strides, pads=pads, group=group)
    count = rank - 2
    ends = op.Slice(op.Shape(weight), ints([2]), ints([2 + count]))
    found = op.Slice(found, ints([0] * count), ends, ints(axes))
    return in_shape_of(op.Transpose(found, perm=[1, 0, *axes]), weight)


def grad_ConvTranspose(n: Node) -> Slopes:
    """A convolution of the slope; the weights as of that convolution; a sum."""
    x, weight, bias = n.inputs[0], n.inputs[1], n.operand(2)
    if n.get("auto_pad", "NOTSET").startswith("SAME") or n.get("output_shape"):
        raise n.refuse("auto_pad or output_shape say how it is padded")
    kernel, group = kernel_of(n, weight), int(n.get("group", 1))
    strides, dilations, pads = window(n, kernel)
    options: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads": pads, "group": group}
    count = len(kernel)
    extra = [int(p) for p in n.get("output_padding") or [0] * count]
    slope = n.slope
    first = op.Conv(slope, weight, **options)
    if any(extra):
        ends = op.Slice(op.Shape(x), ints([2]), ints([2 + count]))
        first = op.Slice(first, ints([0] * count), ends, ints(list(range(2, 2 + count))))
    second = by_weight(slope, x, weight, strides, dilations, pads, group)
    if bias is None:
        return (in_shape_of(first, x), second, None)[: len(n.inputs)]
    return in_shape_of(first, x), second, op.ReduceSum(slope, ints([i for i in range(x.rank) if i != 1]), keepdims=0)


# ---------------------------------------------------------------------------------------------- pools


def grad_MaxPool(n: Node) -> Slopes:
    """Where each greatest was found."""
    attributes = {k: v for k, v in n.value.attributes if k != "storage_order"}
    _, places = op.MaxPool(n.x, **attributes, outputs=2)
    flat = op.Reshape(zeros(n.x), ints([-1]))
    found = op.ScatterElements(flat, op.Reshape(places, ints([-1])), op.Reshape(n.slope, ints([-1])), reduction="add")
    return (in_shape_of(found, n.x),)


def grad_AveragePool(n: Node) -> Slopes:
    """A share for each place of the window."""
    if n.get("ceil_mode", 0):
        raise n.refuse("ceil_mode=1")
    kernel = [int(k) for k in n.get("kernel_shape")]
    strides, dilations, pads = window(n, kernel)
    rows = join_sizes(ints([-1]), ints([1]), *(size_of(n.slope, i) for i in range(2, n.x.rank)))
    filter_ = const(np.ones((1, 1, *kernel)).astype(n.x.dtype.numpy))
    if n.get("count_include_pad", 0) or not any(pads):
        share = op.Div(n.slope, num(n.slope, float(np.prod(kernel))))
    else:
        single = join_sizes(ints([1]), ints([1]), *(size_of(n.x, i) for i in range(2, n.x.rank)))
        places = op.Expand(num(n.x, 1), single)
        count = op.Conv(places, filter_, strides=strides, dilations=dilations, pads=pads)
        share = op.Div(n.slope, count)
    found = back_through_window(op.Reshape(share, rows), filter_, n.x, strides, dilations, pads, 1)
    return (in_shape_of(found, n.x),)


def grad_GlobalAveragePool(n: Node) -> Slopes:
    """A share for each place."""
    count = op.Div(op.Size(n.x), op.Max(op.Size(n.slope), ints([1])))
    return (expand_to(op.Div(n.slope, op.Cast(count, to=n.x.dtype)), n.x),)


def grad_GlobalMaxPool(n: Node) -> Slopes:
    """For the places that hold the greatest, in equal shares."""
    equal = op.Cast(op.Equal(n.x, n.y), to=n.x.dtype)
    axes = ints(list(range(2, n.x.rank)))
    return (op.Mul(equal, op.Div(n.slope, op.ReduceSum(equal, axes, keepdims=1))),)


# ---------------------------------------------------------------------------------------------- normalizations


def normalized(n: Node, axes: list[int], scale: Value, mean: Value, spread: Value) -> tuple[Value, Value]:
    """(the gradient of what was normalized over axes, the normalized numbers): `scale` times the slope, less its mean
    and less its share along the normalized numbers. `spread` is 1 / sqrt(variance + epsilon)."""
    hat = op.Mul(op.Sub(n.x, mean), spread)
    inner = op.Mul(n.slope, scale)
    flat = op.ReduceMean(inner, ints(axes), keepdims=1)
    along = op.ReduceMean(op.Mul(inner, hat), ints(axes), keepdims=1)
    return op.Mul(spread, op.Sub(op.Sub(inner, flat), op.Mul(hat, along))), hat


def moments(x: Value, axes: list[int], epsilon: float) -> tuple[Value, Value]:
    """(mean, 1 / sqrt(variance + epsilon)) over axes."""
    mean = op.ReduceMean(x, ints(axes), keepdims=1)
    gap = op.Sub(x, mean)
    variance = op.ReduceMean(op.Mul(gap, gap), ints(axes), keepdims=1)
    return mean, op.Reciprocal(op.Sqrt(op.Add(variance, num(x, epsilon))))


def only_first(n: Node) -> None:
    """Raises GraphError where more than the first result is used."""
    if len(n.slopes) > 1 and n.value.op == "LayerNormalization":
        raise n.refuse("mean and spread are results of it")


def grad_LayerNormalization(n: Node) -> Slopes:
    """Over the last axes; for scale and bias, sums."""
    only_first(n)
    x, scale, bias = n.inputs[0], n.inputs[1], n.operand(2)
    axes = list(range(n.axis(-1), x.rank))
    found, hat = normalized(n, axes, scale, *moments(x, axes, n.get("epsilon", 1e-5)))
    second = sum_back(op.Mul(n.slope, hat), scale)
    return (found, second, None if bias is None else sum_back(n.slope, bias))[: len(n.inputs)]


def grad_RMSNormalization(n: Node) -> Slopes:
    """Over the last axes; for the scale, a sum."""
    x, scale = n.inputs
    axes = ints(list(range(n.axis(-1), x.rank)))
    square = op.ReduceMean(op.Mul(x, x), axes, keepdims=1)
    spread = op.Reciprocal(op.Sqrt(op.Add(square, num(x, n.get("epsilon", 1e-5)))))
    hat, inner = op.Mul(x, spread), op.Mul(n.slope, scale)
    along = op.ReduceMean(op.Mul(inner, hat), axes, keepdims=1)
    return op.Mul(spread, op.Sub(inner, op.Mul(hat, along))), sum_back(op.Mul(n.slope, hat), scale)


def by_channel(value: Value, x: Value) -> Value:
    """A vector along the second axis."""
    return op.Reshape(value, ints([-1, *[1] * (x.rank - 2)]))


def grad_InstanceNormalization(n: Node) -> Slopes:
    """Over space; for scale and bias, sums."""
    x, scale, _ = n.inputs
    axes = list(range(2, x.rank))
    others = ints([i for i in range(x.rank) if i != 1])
    found, hat = normalized(n, axes, by_channel(scale, x), *moments(x, axes, n.get("epsilon", 1e-5)))
    return (
        found,
        op.ReduceSum(op.Mul(n.slope, hat), others, keepdims=0),
        op.ReduceSum(n.slope, others, keepdims=0),
    )


def grad_BatchNormalization(n: Node) -> Slopes:
    """Over batch and space in training; by the given mean and variance otherwise."""
    x, scale, _, mean, variance = n.inputs
    others = [i for i in range(x.rank) if i != 1]
    epsilon, wide = n.get("epsilon", 1e-5), by_channel(scale, x)
    if n.get("training_mode", 0):
        found, hat = normalized(n, others, wide, *moments(x, others, epsilon))
        by_mean = by_variance = None
        if len(n.slopes) > 1:
            kept = num(mean, n.get("momentum", 0.9))
            by_mean, by_variance = op.Mul(n.slopes[1], kept), op.Mul(n.slopes[2], kept)
    else:
        spread = op.Reciprocal(op.Sqrt(op.Add(by_channel(variance, x), num(variance, epsilon))))
        hat = op.Mul(op.Sub(x, by_channel(mean, x)), spread)
        found = op.Mul(n.slope, op.Mul(wide, spread))
        flat = op.ReduceSum(op.Mul(n.slope, hat), ints(others), keepdims=0)
        by_mean = op.Neg(op.ReduceSum(found, ints(others), keepdims=0))
        narrow = op.Add(variance, num(variance, epsilon))
        by_variance = op.Mul(num(scale, -0.5), op.Div(op.Mul(flat, scale), narrow))
    return (
        found,
        op.ReduceSum(op.Mul(n.slope, hat), ints(others), keepdims=0),
        op.ReduceSum(n.slope, ints(others), keepdims=0),
        by_mean,
        by_variance,
    )


def grad_Dropout(n: Node) -> Slopes:
    """What was kept, as it was scaled. Raises GraphError where the mask is not a result of it."""
    rest = (None,) * (len(n.inputs) - 1)
    if n.operand(2) is None:
        return (n.slope, *rest)
    if len(n.slopes) < 2:
        raise n.refuse("which places it kept is no result of it: build it with outputs=2")
    ratio = n.operand(1)
    kept = op.Sub(num(n.x, 1), num(n.x, 0.5) if ratio is None else op.Cast(ratio, to=n.x.dtype))
    scaled = op.Div(n.slope, kept)
    on = op.Where(n.result(1), scaled, num(n.x, 0))
    return (op.Where(n.operand(2), on, n.slope), *rest)


def grad_LpNormalization(n: Node) -> Slopes:
    """The slope less its share along what was normalized, over the norm; nothing where that is 0."""
    x, axis = n.x, ints([n.axis(-1)])
    square = n.get("p", 2) == 2
    norm = op.ReduceL2(x, axis, keepdims=1) if square else op.ReduceL1(x, axis, keepdims=1)
    along = op.ReduceSum(op.Mul(n.slope, n.y), axis, keepdims=1)
    flat = op.Sub(n.slope, op.Mul(n.y if square else op.Sign(x), along))
    nothing = op.Equal(norm, num(x, 0))
    return (op.Where(nothing, num(x, 0), op.Div(flat, op.Where(nothing, num(x, 1), norm))),)
