"""The rule from mixtures of experts, as models compute them, into ONNX Runtime's MoE.

Measured on ONNX Runtime's CPU provider, MoE takes longer than rows that are sorted by expert and meet the matrix of
their expert at once: ONNX Runtime packs those matrices before the first run. So the table of costs declines it there.
"""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.ir import Value, param
from irkit.core.types import DType, Tensor
from irkit.dims import Dim
from irkit.pattern import const as constant
from irkit.pattern import hole, p
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import lazily, same_shape
from passes.rules.onnxruntime.mixtures import Layer, mixture
from passes.rules.onnxruntime.reading import Other


def _mixture(rng: np.random.Generator) -> Value:
    return Sample(rng).made()


@rule(p.ReduceSum(hole("pairs", dtype="f32", rank=3), constant("axes"), keepdims=0), sample=_mixture, exact=False)
def mixture_of_experts(m: Match) -> Made:
    """ReduceSum(shares * experts(rows)) -> MoE(rows, logits, w1, b1, w2, b2)"""
    try:
        found = mixture(m.root)
    except Other as other:
        return decline(str(other))
    layers = (found.first, found.second)
    if any(v.blob is None for layer in layers for v in (*layer.weights, *([] if layer.bias is None else [layer.bias]))):
        return decline("the matrices or the biases of the experts are not constants")
    rows, logits = (flattened(m, v, m.root.shape[0]) for v in (found.rows, found.logits))
    if rows is None or logits is None or not same_shape(rows.shape, m.root.shape):
        return decline("the rows are no matrix, or the experts make another width")
    operands = [rows, logits]
    for layer, half in zip(layers, (found.activation.half, None), strict=True):
        operands += [matrices(layer, half), biases(layer, half)]
    given = {"k": found.k, "normalize_routing_weights": int(found.normal), **found.activation.given}
    return call("com.microsoft::MoE", operands, given)


def flattened(m: Match, value: Value, rows: Dim) -> Value | None:
    """The value as a matrix of so many rows; None where one of its sizes is not bound."""
    if value.rank == 2 and dims.same(value.shape[0], rows) is True:
        return value
    sizes, source = (rows, value.shape[-1]), bound_by(value, m.root)
    same = dims.same(dims.product(value.shape), dims.mul(*sizes)) is True
    return op.Reshape(value, sizes_value(m, sizes, 1, source)) if same and is_bound(m, sizes, source) else None


def matrices(layer: Layer, half: int | None) -> Value:
    """The weights as (experts, out, in), computed when loaded; gates, which are one half of the rows, go to the even
    rows."""
    first = layer.weights[0]
    if len(layer.weights) == 1 and not layer.turned and half is None:
        return first
    blobs = [v.blob for v in layer.weights if v.blob is not None]
    shape = first.shape if len(blobs) == 1 else (len(blobs), *first.shape)
    if layer.turned:
        shape = (shape[0], shape[2], shape[1])

    def content() -> np.ndarray:
        whole = blobs[0].read() if len(blobs) == 1 else np.stack([b.read() for b in blobs])
        return between(whole.swapaxes(1, 2) if layer.turned else whole, half)

    name = blobs[0].name if len(blobs) == 1 else blobs[0].name.removesuffix(".0")
    return lazily(first, shape, content, layer.weights, name)


def biases(layer: Layer, half: int | None) -> Value | None:
    """The biases as (experts, out), with those of the gates at even places."""
    bias = layer.bias
    if bias is None or bias.blob is None or half is None:
        return bias
    blob = bias.blob
    return lazily(bias, bias.shape, lambda: between(blob.read(), half), [bias])


def between(array: np.ndarray, half: int | None) -> np.ndarray:
    """The two halves along the second axis, row by row in turn, the given half first; the array itself where none is
    given."""
    if half is None:
        return np.ascontiguousarray(array)
    halves = array.reshape(array.shape[0], 2, -1, *array.shape[2:])
    return np.stack([halves[:, half], halves[:, 1 - half]], axis=2).reshape(array.shape)


# ---------------------------------------------------------------------------------------------- samples


class Sample:
    """A small mixture of experts in one of the ways in which models compute it."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.experts, self.k, self.width, self.inner = int(rng.integers(2, 5)), int(rng.integers(1, 3)), 4, 6
        self.rows, self.pairs = dims.symbol("rows"), dims.mul(dims.symbol("rows"), self.k)
        self.ids = self.order = self.lengths = None

    def maybe(self) -> bool:
        """True or False at random."""
        return bool(self.rng.random() < 0.5)

    def weight(self, *shape: int) -> Value:
        """A constant of random f32."""
        return const(self.rng.standard_normal(shape).astype(np.float32))

    def made(self) -> Value:
        """The sum over each row's experts."""
        x, logits = (param(Tensor(DType.FLOAT, (self.rows, n))) for n in (self.width, self.experts))
        shares, chosen = self.routed(logits)
        flat = op.Reshape(chosen, shape_vector((self.pairs,)))
        self.ids, of_pairs = flat, op.Reshape(shares, shape_vector((self.pairs, 1)))
        whole = shape_vector((self.rows, self.k, self.width))
        if self.maybe():
            found = op.Reshape(op.Expand(op.Unsqueeze(x, [1]), whole), shape_vector((self.pairs, self.width)))
            return self.summed(op.Mul(self.mixed(found), of_pairs), whole)
        self.sort(flat)
        of_pairs = op.Unsqueeze(op.Gather(op.Reshape(shares, shape_vector((self.pairs,))), self.order), [1])
        found = self.mixed(op.Gather(x, op.Div(self.order, np.int64(self.k))))
        ordinals = op.Range(np.int64(0), op.Squeeze(shape_vector((self.pairs,)), [0]), np.int64(1))
        empty = op.Expand(np.int64(0), shape_vector((self.pairs,)))
        back = op.ScatterND(empty, op.Unsqueeze(self.order, [1]), ordinals)
        return self.summed(op.Gather(op.Mul(found, of_pairs), back), whole)

    def summed(self, pairs: Value, whole: Value) -> Value:
        """The sum over each row's experts, of pairs of a row and an expert."""
        return op.ReduceSum(op.Reshape(pairs, whole), np.array([1]), keepdims=0)

    def routed(self, logits: Value) -> tuple[Value, Value]:
        """(shares, experts) of each row"""
        if self.maybe():
            chosen = op.TopK(logits, [self.k])[1]
            return op.Softmax(op.GatherElements(logits, chosen, axis=1)), chosen
        shares, chosen = op.TopK(op.Softmax(logits), [self.k])
        return (op.Div(shares, op.ReduceSum(shares, np.array([-1]))) if self.maybe() else shares), chosen

    def sort(self, flat: Value) -> None:
        """The pairs sorted by expert, and how many pairs each expert has"""
        self.ids, self.order = op.TopK(flat, shape_vector((self.pairs,)), largest=0)
        hits = op.Equal(op.Unsqueeze(self.ids, [1]), np.arange(self.experts))
        ends = op.CumSum(op.ReduceSum(op.Cast(hits, to=DType.INT64), np.array([0]), keepdims=0), np.int64(0))
        last = np.array([self.experts - 1])
        self.lengths = op.Sub(ends, op.Concat([0], op.Slice(ends, [0], last, [0]), axis=0))

    def mixed(self, rows: Value) -> Value:
        """Two layers and what stands between them"""
        kind = int(self.rng.integers(4))
        inner = self.layer(rows, self.width, self.inner * (1 if kind > 1 else 2))
        if kind == 0:
            gate, other = op.Split(inner, axis=1, num_outputs=2)
            made = op.Mul(op.Swish(gate), other) if self.maybe() else op.Mul(gate, op.Swish(other))
        elif kind == 1:
            gate, other = (op.Slice(inner, [i], [2**63 - 1], [1], [2]) for i in (0, 1))
            made = op.Mul(op.Swish(op.Min(gate, 0.7), alpha=1.702), op.Add(op.Clip(other, -0.7, 0.7), 1.0))
        else:
            made = op.Relu(inner) if kind == 2 else op.Gelu(inner, approximate="tanh")
        return self.layer(made, self.inner, self.width)

    def layer(self, rows: Value, width: int, out: int) -> Value:
        """The rows of pairs times the matrices of their experts"""
        if self.lengths is not None:
            parts = op.Split(rows, self.lengths, axis=0, outputs=self.experts)
            found = op.Concat(*(op.MatMul(part, self.weight(width, out)) for part in parts), axis=0)
            found = op.Reshape(found, shape_vector((self.pairs, out)))
        elif self.maybe():
            matrix = op.Gather(self.weight(self.experts, out, width), self.ids)
            found = op.Squeeze(op.MatMul(matrix, op.Unsqueeze(rows, [2])), [2])
        else:
            matrix = op.Gather(self.weight(self.experts, width, out), self.ids)
            found = op.Squeeze(op.MatMul(op.Unsqueeze(rows, [1]), matrix), [1])
        return op.Add(found, op.Gather(self.weight(self.experts, out), self.ids)) if self.maybe() else found


EXPERTS: tuple[Rule, ...] = (mixture_of_experts,)
"""Mixtures of experts in ONNX Runtime's own operator."""
