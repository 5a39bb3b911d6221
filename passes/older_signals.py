"""Fourier transforms before ONNX had them: products with matrices of sines and cosines."""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit.build import const, op
from irkit.evaluate import evaluate
from irkit.ir import Graph, Value
from irkit.pattern import attribute_of
from irkit.rewrite import Match
from passes.expand import operand, ordinals, reshaped
from passes.rules.common import axes_of, number, vector

LARGEST = 1 << 22
"""Matrices of more numbers than this are not written."""


def dft(m: Match, value: Value) -> Any:
    """The transform is linear: the numbers along the axis times the transforms of each unit vector"""
    x, axes = value.inputs[0], axes_of(operand(value, 2)) if operand(value, 2) is not None else (-2,)
    length = operand(value, 1)
    if x is None or axes is None or (length is not None and length.blob is None):
        return None
    axis = axes[0] % x.rank
    size, count = x.shape[axis], value.shape[axis]
    parts, results = x.shape[-1], value.shape[-1]
    if any(type(n) is not int for n in (size, count, parts, results)) or size * parts * count * results > LARGEST:
        return None
    units = np.eye(size * parts).reshape(size * parts, size, parts)
    given = {name: attribute_of(value, name) for name in ("inverse", "onesided")}
    matrix = evaluate(Graph((), (op.DFT(const(units), length, const(np.array(1)), **given),)), [])[0]
    order = [i for i in range(x.rank - 1) if i != axis] + [axis, x.rank - 1]
    turned = op.Transpose(x, perm=order)
    flat = reshaped(m, turned, (*turned.shape[:-2], size * parts), x)
    if flat is None:
        return None
    made = op.MatMul(flat, number(x, np.asarray(matrix).reshape(size * parts, count * results)))
    found = reshaped(m, made, (*turned.shape[:-2], count, results), x)
    return None if found is None else op.Transpose(found, perm=[order.index(i) for i in range(x.rank)])


def stft(m: Match, value: Value) -> Any:
    """The transform of each windowed frame of the signal"""
    x, step, window = value.inputs[0], axes_of(operand(value, 1)), operand(value, 2)
    sizes = (
        axes_of(operand(value, 3)) if operand(value, 3) is not None else window.shape if window is not None else None
    )
    if x is None or step is None or sizes is None or type(sizes[0]) is not int:
        return None
    starts = ordinals(m, value.shape[1], x)
    if starts is None:
        return None
    places = op.Add(op.Unsqueeze(op.Mul(starts, const(np.array(step[0]))), vector([1])), const(np.arange(sizes[0])))
    signal = x if x.rank == 3 else op.Unsqueeze(x, vector([2]))
    frames = op.Gather(signal, places, axis=1)
    if window is not None:
        shape = op.Unsqueeze(window, vector([1]))
        frames = op.Mul(frames, op.Cast(shape, to=x.dtype) if window.dtype is not x.dtype else shape)
    return op.DFT(frames, None, const(np.array(-2)), onesided=attribute_of(value, "onesided"))
