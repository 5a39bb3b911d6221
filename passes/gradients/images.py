"""Gradients of images at other sizes, of pools of norms and of normalizations across channels."""

from __future__ import annotations

import numpy as np

from irkit.build import op
from irkit.core.ir import Value
from passes.gradients.network import grad_AveragePool
from passes.gradients.node import Node, Slopes, ints, keep_where, num


def grad_Resize(n: Node) -> Slopes:
    """The slope times the matrix that resizes along every axis: what Resize makes of the identity."""
    x, roi, scales, sizes = (n.operand(i) for i in range(4))
    if n.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise n.refuse("keep_aspect_ratio_policy says its sizes", hint="give the sizes themselves")
    given = n.get("axes")
    axes = [int(a) % x.rank for a in (range(x.rank) if given is None else given)]
    left_out = ("axes", "keep_aspect_ratio_policy", "extrapolation_value")
    attributes = {k: v for k, v in n.value.attributes if k not in left_out}
    slope = n.slope
    for i, axis in enumerate(axes):
        count = op.Gather(op.Shape(x), ints([axis]))
        square = op.Concat(ints([1, 1]), count, count, axis=0)
        place = op.Range(0, op.Squeeze(count, ints([0])), 1)
        ones = op.Cast(op.Equal(op.Unsqueeze(place, ints([0])), op.Unsqueeze(place, ints([1]))), to=x.dtype)
        part = (
            None
            if roi is None or n.get("coordinate_transformation_mode") != "tf_crop_and_resize"
            else op.Concat(op.Gather(roi, ints([i])), op.Gather(roi, ints([len(axes) + i])), axis=0)
        )
        by_scale = None if scales is None else op.Gather(scales, ints([i]))
        by_size = None if sizes is None else op.Gather(sizes, ints([i]))
        made = op.Resize(op.Reshape(ones, square), part, by_scale, by_size, axes=[2], **attributes)
        matrix = op.Squeeze(made, ints([0, 1]))  # (out, size)
        last = slope.rank - 1
        order = [*(a for a in range(slope.rank) if a != axis), axis]
        turned = slope if axis == last else op.Transpose(slope, perm=order)
        turned = op.MatMul(turned, matrix)
        slope = turned if axis == last else op.Transpose(turned, perm=[int(a) for a in np.argsort(order)])
    return (slope,)


def grad_LpPool(n: Node) -> Slopes:
    """Of each place of a window, by its share in the norm: sign(x) |x / y| ** (p - 1)."""
    x, y, p = n.x, n.y, n.get("p", 2)
    attributes = {k: v for k, v in n.value.attributes if k != "p"}
    average = op.AveragePool(x, **attributes, count_include_pad=1)
    some = op.Greater(y, num(y, 0))
    safe = op.Where(some, y, num(y, 1))
    count = float(np.prod([int(k) for k in n.get("kernel_shape")]))
    shares = keep_where(some, op.Div(op.Mul(n.slope, num(y, count)), op.Pow(safe, num(y, p - 1))))
    (back,) = grad_AveragePool(Node(average, (shares,)))
    steep = op.Mul(op.Sign(x), op.Pow(op.Abs(x), num(x, p - 1)))
    return (op.Mul(back, steep) if back is not None else None,)


def grad_LRN(n: Node) -> Slopes:
    """With b = bias + alpha mean(x ** 2): slope / b ** beta, less x times what each channel that sums it loses."""
    x, size = n.x, int(n.get("size"))
    alpha, beta, bias = n.get("alpha", 1e-4), n.get("beta", 0.75), n.get("bias", 1.0)
    flat = ints([0, 0, -1])
    channels = op.Squeeze(op.Gather(op.Shape(x), ints([1])), ints([0]))
    place = op.Range(0, channels, 1)
    gap = op.Sub(op.Unsqueeze(place, ints([0])), op.Unsqueeze(place, ints([1])))
    low, high = -((size - 1) // 2), -(-(size - 1) // 2)
    inside = op.And(op.GreaterOrEqual(gap, low), op.LessOrEqual(gap, high))
    window = op.Cast(inside, to=x.dtype)  # (channel, those that it sums)

    def summed(matrix: Value, v: Value) -> Value:
        """v summed over channels, as the matrix says."""
        return op.Reshape(op.MatMul(matrix, op.Reshape(v, flat)), op.Shape(x))

    base = op.Add(num(x, bias), op.Mul(num(x, alpha / size), summed(window, op.Mul(x, x))))
    loss = summed(op.Transpose(window, perm=[1, 0]), op.Div(op.Mul(n.slope, n.y), base))
    direct = op.Div(n.slope, op.Pow(base, num(x, beta)))
    return (op.Sub(direct, op.Mul(num(x, 2 * alpha * beta / size), op.Mul(x, loss))),)
