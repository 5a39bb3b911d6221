"""LSTM, GRU and simple recurrent networks as ONNX's own operators: whole sequences, packed sequences, single cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from irkit import dims
from irkit.build import op, shape_vector
from irkit.dims import Dim
from irkit.ir import Value
from irkit.types import DType
from lowering.errors import Unsupported
from lowering.pieces import full
from lowering.promotion import cast, scalar
from lowering.shaping import concat, iota, permute, reshape, sliced, squeeze, unsqueeze


@attrs.frozen
class Kind:
    """One recurrent operator: its ONNX name, the order in which ONNX takes torch's gates, whether it has cell state."""

    op: str
    order: tuple[int, ...]
    cells: bool = False
    attributes: tuple[tuple[str, Any], ...] = ()


# torch holds the gates of an LSTM as input, forget, cell, output, ONNX as input, output, forget, cell; those of a GRU
# as reset, update, new, ONNX as update, reset, hidden.
LSTM = Kind("LSTM", (0, 3, 1, 2), cells=True)
GRU = Kind("GRU", (1, 0, 2), attributes=(("linear_before_reset", 1),))
TANH = Kind("RNN", (0,))
RELU = Kind("RNN", (0,), attributes=(("activations", ("Relu",)),))

Weights = Sequence[Value | None]
"""One direction of one layer: w_ih, w_hh, b_ih, b_hh (either bias None), and for an LSTM with projections w_hr."""


def gates(kind: Kind, weight: Value) -> Value:
    """(gates * hidden, *) with its gates in ONNX's order"""
    count = len(kind.order)
    if count == 1:
        return weight
    parts = op.Split(weight, axis=0, num_outputs=count, outputs=count)
    return op.Concat(*(parts[i] for i in kind.order), axis=0)


def packed(kind: Kind, weights: Sequence[Weights]) -> tuple[Value, Value, Value | None]:
    """(W, R, B) as ONNX has them, out of the weights of each direction"""

    def stacked(pick: Callable[[Weights], Value]) -> Value:
        return concat([unsqueeze(pick(w), 0) for w in weights], 0)

    def biases(w: Weights) -> Value:
        parts = [gates(kind, b) if b is not None else None for b in (w[2], w[3])]
        given = next(b for b in parts if b is not None)
        return op.Concat(*(b if b is not None else full(0, given.shape, given.dtype) for b in parts), axis=0)

    bias = None if weights[0][2] is None and weights[0][3] is None else stacked(biases)
    return stacked(lambda w: gates(kind, _given(w[0]))), stacked(lambda w: gates(kind, _given(w[1]))), bias


def _given(weight: Value | None) -> Value:
    if weight is None:
        raise Unsupported("a recurrent layer lacks a weight")
    return weight


def layer(
    kind: Kind, x: Value, weights: Sequence[Weights], hidden: Value, cell: Value | None, lengths: Value | None = None
) -> tuple[Value, ...]:
    """(y, last h, last c) of one layer; c only for an LSTM.

    x: (t, b, features); hidden, cell: (directions, b, hidden); y: (t, b, directions * hidden).
    """
    w, r, b = packed(kind, weights)
    count = len(weights)
    attributes: dict[str, Any] = dict(kind.attributes)
    if "activations" in attributes:
        attributes["activations"] = attributes["activations"] * count
    states = (hidden, cell) if kind.cells else (hidden,)
    found = getattr(op, kind.op)(
        x, w, r, b, lengths, *states, **attributes, hidden_size=r.shape[2], outputs=3 if kind.cells else 2,
        direction="bidirectional" if count == 2 else None,
    )  # fmt: skip
    y, *last = found
    if count == 1:
        return squeeze(y, 1), *last
    t, _, batch, size = y.shape
    return reshape(permute(y, (0, 2, 1, 3)), (t, batch, dims.mul(size, count))), *last


def stack(
    kind: Kind, x: Value, states: Sequence[Value], params: Weights, has_biases: bool, num_layers: int,
    bidirectional: bool, lengths: Value | None = None,
) -> tuple[Value, ...]:  # fmt: skip
    """(y, h, c) of all layers, each of which reads the one below. states: (layers * directions, b, hidden) each."""
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    if each != (4 if has_biases else 2):
        raise Unsupported("an LSTM with projections has no ONNX operator")
    last: list[list[Value]] = [[] for _ in states]
    for index in range(num_layers):
        first = index * directions
        weights = []
        for d in range(first, first + directions):
            own = list(params[d * each : (d + 1) * each])
            weights.append(own if has_biases else [*own, None, None])
        begin = [s if num_layers == 1 else sliced(s, 0, first, first + directions) for s in states]
        x, *ended = layer(kind, x, weights, begin[0], begin[1] if kind.cells else None, lengths)
        for held, state in zip(last, ended, strict=True):
            held.append(state)
    return x, *(concat(held, 0) for held in last)


def sequence(
    kind: Kind, x: Value, states: Sequence[Value], params: Weights, has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """(y, h, c) of a padded batch"""
    if dropout and train and num_layers > 1:
        raise Unsupported("dropout between recurrent layers in training mode")
    if x.rank != 3:
        raise Unsupported("a recurrent layer takes (time, batch, features)")
    turned = permute(x, (1, 0, 2)) if batch_first else x
    y, *last = stack(kind, turned, states, params, has_biases, num_layers, bidirectional)
    return permute(y, (1, 0, 2)) if batch_first else y, *last


def packed_sequence(
    kind: Kind, data: Value, batch_sizes: Value, states: Sequence[Value], params: Weights, has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """(y, h, c) of a packed batch.  data: (elements, features), time by time; batch_sizes: (t,)."""
    if dropout and train and num_layers > 1:
        raise Unsupported("dropout between recurrent layers in training mode")
    batch = states[0].shape[1]
    place, inside, lengths = packing(batch_sizes, batch)
    most = op.Sub(op.Squeeze(op.Shape(data, start=0, end=1)), scalar(1, DType.INT64))
    padded = op.Gather(data, op.Min(place, most), axis=0)  # what lies past the end of a sequence is never read
    y, *last = stack(kind, padded, states, params, has_biases, num_layers, bidirectional, cast(lengths, DType.INT32))
    flat = reshape(y, (dims.mul(y.shape[0], y.shape[1]), y.shape[2]))
    kept = op.Compress(flat, op.Reshape(inside, [-1]), axis=0)
    return op.Reshape(kept, shape_vector((data.shape[0], flat.shape[1]))), *last


def packing(batch_sizes: Value, batch: Dim) -> tuple[Value, Value, Value]:
    """(place, inside, lengths): where element b of time t lies in packed data, whether it is there at all, both (t, b),
    and how long each sequence is, (b,)"""
    sizes = unsqueeze(cast(batch_sizes, DType.INT64), 1)
    row = iota(batch)
    starts = op.CumSum(sizes, 0, exclusive=1)
    inside = op.Greater(sizes, row)
    return op.Add(starts, row), inside, op.ReduceSum(cast(inside, DType.INT64), [0], keepdims=0)


# ---------------------------------------------------------------------------------------------- sequences


def aten_lstm_input(
    input: Value, hx: Sequence[Value], params: Weights, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """(y, h, c).  input: (t, b, features), or (b, t, features) where `batch_first`; hx: h and c."""
    return sequence(LSTM, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


def aten_lstm_data(
    data: Value, batch_sizes: Value, hx: Sequence[Value], params: Weights, has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """(y, h, c) of a packed sequence"""
    return packed_sequence(LSTM, data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)


def aten_gru_input(
    input: Value, hx: Value, params: Weights, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """(y, h).  input: (t, b, features), or (b, t, features) where `batch_first`."""
    return sequence(GRU, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


def aten_gru_data(
    data: Value, batch_sizes: Value, hx: Value, params: Weights, has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """(y, h) of a packed sequence"""
    return packed_sequence(GRU, data, batch_sizes, [hx], params, has_biases, num_layers, dropout, train, bidirectional)


def aten_rnn_tanh_input(
    input: Value, hx: Value, params: Weights, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """(y, h).  input: (t, b, features), or (b, t, features) where `batch_first`."""
    return sequence(TANH, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


def aten_rnn_tanh_data(
    data: Value, batch_sizes: Value, hx: Value, params: Weights, has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """(y, h) of a packed sequence"""
    return packed_sequence(TANH, data, batch_sizes, [hx], params, has_biases, num_layers, dropout, train, bidirectional)


def aten_rnn_relu_input(
    input: Value, hx: Value, params: Weights, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """(y, h).  input: (t, b, features), or (b, t, features) where `batch_first`."""
    return sequence(RELU, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


def aten_rnn_relu_data(
    data: Value, batch_sizes: Value, hx: Value, params: Weights, has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """(y, h) of a packed sequence"""
    return packed_sequence(RELU, data, batch_sizes, [hx], params, has_biases, num_layers, dropout, train, bidirectional)


def aten__pack_padded_sequence(input: Value, lengths: Value, batch_first: bool) -> tuple[Value, Value]:
    """(data, batch_sizes): what lies inside the sequences, time by time, and how many run at each time.

    lengths: (b,), falling.
    """
    x = permute(input, (1, 0, *range(2, input.rank))) if batch_first else input
    inside = op.Greater(unsqueeze(cast(lengths, DType.INT64), 0), unsqueeze(iota(x.shape[0]), 1))
    flat = reshape(x, (dims.mul(x.shape[0], x.shape[1]), *x.shape[2:]))
    sizes = op.ReduceSum(cast(inside, DType.INT64), [1], keepdims=0)
    running = op.Compress(sizes, op.Greater(sizes, 0), axis=0)
    return op.Compress(flat, op.Reshape(inside, [-1]), axis=0), running


def aten__pad_packed_sequence(
    data: Value, batch_sizes: Value, batch_first: bool, padding_value: Any, total_length: int
) -> tuple[Value, Value]:
    """(padded, lengths).  data: (elements, *); padded: (t, b, *), or (b, t, *) where `batch_first`."""
    if total_length > 0:
        raise Unsupported("pad_packed_sequence with a total length")
    most = op.Sub(op.Squeeze(op.Shape(data, start=0, end=1)), scalar(1, DType.INT64))
    sizes = cast(batch_sizes, DType.INT64)
    batch = op.Gather(sizes, scalar(0, DType.INT64), axis=0)
    row = op.Range(scalar(0, DType.INT64), batch, scalar(1, DType.INT64))
    column = unsqueeze(sizes, 1)
    inside = op.Greater(column, row)
    place = op.Add(op.CumSum(column, 0, exclusive=1), row)
    taken = op.Gather(data, op.Min(place, most), axis=0)
    made = op.Where(unsqueeze(inside, *range(2, taken.rank)), taken, scalar(padding_value, data.dtype))
    lengths = op.ReduceSum(cast(inside, DType.INT64), [0], keepdims=0)
    return permute(made, (1, 0, *range(2, made.rank))) if batch_first else made, lengths


# ---------------------------------------------------------------------------------------------- cells


def one_step(kind: Kind, x: Value, states: Sequence[Value], weights: Weights) -> tuple[Value, ...]:
    """The states after one step.  x: (b, features); states: (b, hidden) each."""
    lone = x.rank == 1
    x, *states = [unsqueeze(v, 0) if lone else v for v in (x, *states)]
    begin = [unsqueeze(s, 0) for s in states]
    _, *last = layer(kind, unsqueeze(x, 0), [weights], begin[0], begin[1] if kind.cells else None)
    return tuple(squeeze(s, 0, 1) if lone else squeeze(s, 0) for s in last)


def aten_lstm_cell(
    input: Value, hx: Sequence[Value], w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
) -> tuple[Value, ...]:
    """(h, c) after one step.  input: (b, features); hx: h and c, (b, hidden) each."""
    return one_step(LSTM, input, hx, (w_ih, w_hh, b_ih, b_hh))


def aten_gru_cell(
    input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
) -> Value:
    """h after one step.  input: (b, features); hx: (b, hidden)."""
    return one_step(GRU, input, [hx], (w_ih, w_hh, b_ih, b_hh))[0]


def aten_rnn_tanh_cell(
    input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
) -> Value:
    """tanh(w_ih x + b_ih + w_hh h + b_hh).  input: (b, features); hx: (b, hidden)."""
    return one_step(TANH, input, [hx], (w_ih, w_hh, b_ih, b_hh))[0]


def aten_rnn_relu_cell(
    input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
) -> Value:
    """relu(w_ih x + b_ih + w_hh h + b_hh).  input: (b, features); hx: (b, hidden)."""
    return one_step(RELU, input, [hx], (w_ih, w_hh, b_ih, b_hh))[0]
