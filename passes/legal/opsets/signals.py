"""Fourier transforms before ONNX had them: products with matrices of sines and cosines."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Graph, Value
from irkit.core.types import DType
from irkit.evaluation.interpreter import evaluate
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match
from passes.analysis.known_sizes import Sizes, bound_by, is_bound, sizes_held, sizes_value
from passes.analysis.questions import axes_of, is_known, number, operand, vector
from passes.legal.runtime.expansions import ordinals, reshape_if_bound

LARGEST = 1 << 22
"""Matrices of more numbers than this are not written."""


def dft(m: Match, value: Value) -> Value | None:
    """The transform is linear: the numbers along the axis times the transforms of each unit vector"""
    x, axes = value.inputs[0], axes_of(operand(value, 2)) if operand(value, 2) is not None else (-2,)
    length = operand(value, 1)
    if x is None or axes is None:
        return None
    axis = axes[0] % x.rank
    size, count = x.shape[axis], value.shape[axis]
    parts, results = x.shape[-1], value.shape[-1]
    if type(parts) is not int or type(results) is not int:
        return None
    if any(type(n) is not int for n in (size, count)) or (length is not None and length.blob is None):
        return by_waves(m, value, x, axis)
    if size * parts * count * results > LARGEST:
        return None
    units = np.eye(size * parts).reshape(size * parts, size, parts)
    given = {name: attribute_of(value, name) for name in ("inverse", "onesided")}
    matrix = evaluate(Graph((), (op.DFT(const(units), length, const(np.array(1)), **given),)), [])[0]
    order = [i for i in range(x.rank - 1) if i != axis] + [axis, x.rank - 1]
    turned = op.Transpose(x, perm=order)
    flat = reshape_if_bound(m, turned, (*turned.shape[:-2], size * parts), x)
    if flat is None:
        return None
    made = op.MatMul(flat, number(x, np.asarray(matrix).reshape(size * parts, count * results)))
    found = reshape_if_bound(m, made, (*turned.shape[:-2], count, results), x)
    return None if found is None else op.Transpose(found, perm=[order.index(i) for i in range(x.rank)])


def by_waves(m: Match, value: Value, x: Value, axis: int) -> Value | None:
    """The numbers along the axis times sines and cosines that are computed when the model runs, in double precision"""
    inverse, onesided = (bool(attribute_of(value, name)) for name in ("inverse", "onesided"))
    size, count, length = x.shape[axis], value.shape[axis], operand(value, 1)
    given = Sizes((size if onesided and not inverse else count,), 0) if length is None else sizes_held(length)
    if given is None:
        return None
    sizes, sources = (size, count, *given.dims), (bound_by(x), given)
    if not is_known(sizes) or not is_bound(m, sizes, *sources):
        return None
    places, waves = (op.Range(0, sizes_value(m, (n,), 0, *sources), 1) for n in (size, count))
    whole = op.Max(sizes_value(m, given.dims, 0, *sources), const(np.array(1)))
    column = op.Unsqueeze(places, vector([1]))
    turns = op.Cast(op.Mod(op.Mul(column, waves), whole), to=DType.DOUBLE)
    angle = op.Div(op.Mul(turns, 2 * np.pi), op.Cast(whole, to=DType.DOUBLE))
    share: Value = op.Cast(op.Less(column, whole), to=DType.DOUBLE)  # what is beyond the length is cut off
    if inverse and onesided:  # of the first half, all but its ends stand for two
        twice = op.Mul(column, const(np.array(2)))
        inner = op.And(op.Greater(twice, const(np.array(0))), op.Less(twice, whole))
        share = op.Add(op.Cast(op.LessOrEqual(twice, whole), to=DType.DOUBLE), op.Cast(inner, to=DType.DOUBLE))
    if inverse:
        share = op.Div(share, op.Cast(whole, to=DType.DOUBLE))
    cosine, sine = (op.Mul(wave, share) for wave in (op.Cos(angle), op.Sin(angle)))
    order = [i for i in range(x.rank - 1) if i != axis] + [axis, x.rank - 1]
    turned = op.Cast(op.Transpose(x, perm=order), to=DType.DOUBLE)
    real, *more = (op.Gather(turned, const(np.array(i)), axis=-1) for i in range(x.shape[-1]))
    found = [op.MatMul(real, cosine), op.MatMul(real, sine if inverse else op.Neg(sine))]
    if more:
        other = op.MatMul(more[0], sine), op.MatMul(more[0], cosine)
        found = [(op.Sub if inverse else op.Add)(found[0], other[0]), op.Add(found[1], other[1])]
    made = op.Concat(*(op.Unsqueeze(part, vector([-1])) for part in found[: value.shape[-1]]), axis=-1)
    return op.Cast(op.Transpose(made, perm=[order.index(i) for i in range(x.rank)]), to=x.dtype)


def stft(m: Match, value: Value) -> Value | None:
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
