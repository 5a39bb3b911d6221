"""LSTM, GRU and simple recurrent networks as ONNX's own operators: whole sequences, packed sequences, single cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.build import op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.creation.draws import aten_dropout
from lowering.errors import Unsupported
from lowering.tensors.pieces import compress_rows, computed_weight, full, swap
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import concat, iota, permute, reshape, slice_axis, squeeze, unsqueeze


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


def ordered(kind: Kind, weight: np.ndarray) -> np.ndarray:
    """(gates * hidden, *) with its gates in ONNX's order"""
    parts = np.split(weight, len(kind.order))
    return np.concatenate([parts[i] for i in kind.order])


def packed(kind: Kind, weights: Sequence[Weights]) -> tuple[Value, Value, Value | None]:
    """(W, R, B) as ONNX has them, out of the weights of each direction"""
    bias = None if weights[0][2] is None and weights[0][3] is None else packed_biases(kind, weights)
    return stacked(kind, [_given(w[0]) for w in weights]), stacked(kind, [_given(w[1]) for w in weights]), bias


def stacked(kind: Kind, weights: Sequence[Value]) -> Value:
    """(directions, gates * hidden, *), the gates in ONNX's order"""
    shape = (len(weights), *weights[0].shape)
    if all(type(d) is int for d in shape):
        made = computed_weight(
            weights, shape, lambda *arrays: np.stack([ordered(kind, a) for a in arrays]), weight_name(weights[0])
        )
        if made is not None:
            return made
    return concat([unsqueeze(gates(kind, w), 0) for w in weights], 0)


def weight_name(weight: Value) -> str:
    """The name of a weight, or nothing"""
    return weight.blob.name if weight.blob is not None else ""


def packed_biases(kind: Kind, weights: Sequence[Weights]) -> Value:
    """(directions, 2 * gates * hidden): those of the input, then those of the state; zeros for one that is missing"""
    every: list[Value] = []
    for w in weights:
        given = next(b for b in (w[2], w[3]) if b is not None)
        every += [b if b is not None else full(0, given.shape, given.dtype) for b in (w[2], w[3])]
    size = every[0].shape[0]
    if type(size) is int:

        def joined(*arrays: np.ndarray) -> np.ndarray:
            return np.concatenate([ordered(kind, a) for a in arrays]).reshape(len(weights), 2 * size)

        made = computed_weight(every, (len(weights), 2 * size), joined, weight_name(every[0]))
        if made is not None:
            return made
    rows = [op.Concat(gates(kind, i), gates(kind, h), axis=0) for i, h in zip(every[::2], every[1::2], strict=True)]
    return concat([unsqueeze(row, 0) for row in rows], 0)


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
        x,
        w,
        r,
        b,
        lengths,
        *states,
        **attributes,
        hidden_size=r.shape[2],
        outputs=3 if kind.cells else 2,
        direction="bidirectional" if count == 2 else None,
    )
    y, *last = found
    if count == 1:
        return squeeze(y, 1), *last
    t, _, batch, size = y.shape
    return reshape(permute(y, (0, 2, 1, 3)), (t, batch, dims.mul(size, count))), *last


def stack(
    kind: Kind,
    x: Value,
    states: Sequence[Value],
    params: Weights,
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
    dropout: float,
    lengths: Value | None = None,
) -> tuple[Value, ...]:
    """(y, h, c) of all layers, each of which reads the one below, a share `dropout` of it dropped. states: (layers *
    directions, b, hidden) each."""
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    plain = 4 if has_biases else 2
    last: list[list[Value]] = [[] for _ in states]
    for index in range(num_layers):
        x = aten_dropout(x, dropout, train=index > 0)
        first = index * directions
        weights = []
        for d in range(first, first + directions):
            own = list(params[d * each : (d + 1) * each])
            weights.append([*own[:plain], *(() if has_biases else (None, None)), *own[plain:]])
        begin = [s if num_layers == 1 else slice_axis(s, 0, first, first + directions) for s in states]
        if each > plain or x.dtype is DType.DOUBLE:
            x, *ended = layer_by_steps(kind, x, weights, begin, lengths)
        else:
            x, *ended = layer(kind, x, weights, begin[0], begin[1] if kind.cells else None, lengths)
        for held, state in zip(last, ended, strict=True):
            held.append(state)
    return x, *(concat(held, 0) for held in last)


def layer_by_steps(
    kind: Kind, x: Value, weights: Sequence[Weights], states: Sequence[Value], lengths: Value | None
) -> tuple[Value, ...]:
    """(y, *last states) of one layer as a Scan: where an LSTM's hidden state is projected, which ONNX's LSTM cannot
    say, and in float64, which ONNX Runtime's kernels do not compute in.

    x: (t, b, features); states: (directions, b, hidden) each, an LSTM's hidden state (directions, b, projected).
    """
    running = None
    if lengths is not None:
        running = op.Less(unsqueeze(iota(x.shape[0]), 1, 2), unsqueeze(cast(lengths, DType.INT64), 1))
    found = []
    for d, own in enumerate(weights):
        begin = [squeeze(slice_axis(v, 0, d, d + 1), 0) if len(weights) > 1 else squeeze(v, 0) for v in states]
        found.append(one_way(kind, x, own, begin, running, backwards=d))
    *last, y = zip(*found, strict=True)
    return concat(list(y), 2), *(concat([unsqueeze(v, 0) for v in parts], 0) for parts in last)


def one_way(
    kind: Kind, x: Value, weights: Weights, states: Sequence[Value], running: Value | None, backwards: int
) -> tuple[Value, ...]:
    """(*last states, y) of one direction. What does not depend on the state is computed for all times at once.

    running: (t, b, 1), whether a sequence has not ended; one that has keeps its state.
    """
    w_ih, w_hh, b_ih, b_hh, *w_hr = weights
    gates_of_x = op.MatMul(x, swap(_given(w_ih)))
    gates_of_x = gates_of_x if b_ih is None else op.Add(gates_of_x, b_ih)
    by_state, projection = swap(_given(w_hh)), swap(_given(w_hr[0])) if w_hr else None

    def step(*given: Value) -> tuple[Value, ...]:
        """The states after one time, and what is seen of them"""
        old, of_x = given[: len(states)], given[len(states)]
        of_h = op.MatMul(old[0], by_state)
        of_h = of_h if b_hh is None else op.Add(of_h, b_hh)
        new = STEPS[kind.op](kind, of_x, of_h, old)
        if projection is not None:
            new = (op.MatMul(new[0], projection), *new[1:])
        if running is None:
            return *new, new[0]
        kept = tuple(op.Where(given[-1], n, o) for n, o in zip(new, old, strict=True))
        return *kept, op.Where(given[-1], new[0], scalar(0, new[0].dtype))

    over = [gates_of_x] if running is None else [gates_of_x, running]
    way = [backwards] if backwards else None
    return op.Scan(
        *states,
        *over,
        num_scan_inputs=len(over),
        body=step,
        scan_input_directions=way and way * len(over),
        scan_output_directions=way,
    )


def lstm_step(kind: Kind, of_x: Value, of_h: Value, states: Sequence[Value]) -> tuple[Value, ...]:
    """(h, c) out of the gates: input, forget, cell, output"""
    i, f, g, o = op.Split(op.Add(of_x, of_h), axis=1, num_outputs=4, outputs=4)
    c = op.Add(op.Mul(op.Sigmoid(f), states[1]), op.Mul(op.Sigmoid(i), op.Tanh(g)))
    return op.Mul(op.Sigmoid(o), op.Tanh(c)), c


def gru_step(kind: Kind, of_x: Value, of_h: Value, states: Sequence[Value]) -> tuple[Value, ...]:
    """(h,) out of the gates: reset, update, new"""
    of_input, of_state = (op.Split(v, axis=1, num_outputs=3, outputs=3) for v in (of_x, of_h))
    reset, update = (op.Sigmoid(op.Add(of_input[i], of_state[i])) for i in (0, 1))
    new = op.Tanh(op.Add(of_input[2], op.Mul(reset, of_state[2])))
    return (op.Add(new, op.Mul(update, op.Sub(states[0], new))),)


def rnn_step(kind: Kind, of_x: Value, of_h: Value, states: Sequence[Value]) -> tuple[Value, ...]:
    """(h,) by tanh or relu"""
    total = op.Add(of_x, of_h)
    return (op.Relu(total) if kind.attributes else op.Tanh(total),)


STEPS = {"LSTM": lstm_step, "GRU": gru_step, "RNN": rnn_step}


def of_padded(kind: Kind) -> Callable[..., tuple[Value, ...]]:
    """The converter of a layer over a padded batch: (y, h), of an LSTM (y, h, c)."""

    def convert(
        input: Value,
        hx: Value | Sequence[Value],
        params: Weights,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Value, ...]:
        """input: (t, b, features), or (b, t, features) where `batch_first`; hx: h, of an LSTM h and c."""
        share = dropout if train else 0.0
        if input.rank != 3:
            raise Unsupported("a recurrent layer takes (time, batch, features)")
        x, states = permute(input, (1, 0, 2)) if batch_first else input, [hx] if isinstance(hx, Value) else hx
        y, *last = stack(kind, x, states, params, has_biases, num_layers, bidirectional, share)
        return permute(y, (1, 0, 2)) if batch_first else y, *last

    return convert


def of_packed(kind: Kind) -> Callable[..., tuple[Value, ...]]:
    """The converter of a layer over a packed batch: (y, h), of an LSTM (y, h, c)."""

    def convert(
        data: Value,
        batch_sizes: Value,
        hx: Value | Sequence[Value],
        params: Weights,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
    ) -> tuple[Value, ...]:
        """data: (elements, features), time by time; batch_sizes: (t,); hx: h, of an LSTM h and c."""
        share = dropout if train else 0.0
        states = [hx] if isinstance(hx, Value) else hx
        place, inside, lengths = packing(batch_sizes, states[0].shape[1])
        most = op.Sub(op.Squeeze(op.Shape(data, start=0, end=1)), scalar(1, DType.INT64))
        padded = op.Gather(data, op.Min(place, most), axis=0)  # what lies past the end of a sequence is never read
        lasting = cast(lengths, DType.INT32)
        y, *last = stack(kind, padded, states, params, has_biases, num_layers, bidirectional, share, lasting)
        flat = reshape(y, (dims.mul(y.shape[0], y.shape[1]), y.shape[2]))
        kept = compress_rows(flat, op.Reshape(inside, [-1]))
        return op.Reshape(kept, shape_vector((data.shape[0], flat.shape[1]))), *last

    return convert


def packing(batch_sizes: Value, batch: Dim) -> tuple[Value, Value, Value]:
    """(place, inside, lengths): where element b of time t lies in packed data, whether it is there at all, both (t, b),
    and how long each sequence is, (b,)"""
    sizes = unsqueeze(cast(batch_sizes, DType.INT64), 1)
    row = iota(batch)
    starts = op.CumSum(sizes, 0, exclusive=1)
    inside = op.Greater(sizes, row)
    return op.Add(starts, row), inside, op.ReduceSum(cast(inside, DType.INT64), [0], keepdims=0)


# ---------------------------------------------------------------------------------------------- sequences

aten_lstm_input, aten_gru_input, aten_rnn_tanh_input, aten_rnn_relu_input = map(of_padded, (LSTM, GRU, TANH, RELU))
aten_lstm_data, aten_gru_data, aten_rnn_tanh_data, aten_rnn_relu_data = map(of_packed, (LSTM, GRU, TANH, RELU))


def aten__pack_padded_sequence(input: Value, lengths: Value, batch_first: bool) -> tuple[Value, Value]:
    """(data, batch_sizes): what lies inside the sequences, time by time, and how many run at each time.

    lengths: (b,), falling.
    """
    x = permute(input, (1, 0, *range(2, input.rank))) if batch_first else input
    inside = op.Greater(unsqueeze(cast(lengths, DType.INT64), 0), unsqueeze(iota(x.shape[0]), 1))
    flat = reshape(x, (dims.mul(x.shape[0], x.shape[1]), *x.shape[2:]))
    sizes = op.ReduceSum(cast(inside, DType.INT64), [1], keepdims=0)
    running = op.Compress(sizes, op.Greater(sizes, 0), axis=0)
    return compress_rows(flat, op.Reshape(inside, [-1])), running


def aten__pad_packed_sequence(
    data: Value, batch_sizes: Value, batch_first: bool, padding_value: Any, total_length: int
) -> tuple[Value, Value]:
    """(padded, lengths).  data: (elements, *); padded: (t, b, *), or (b, t, *) where `batch_first`.

    `total_length` is the least t, where it is above 0.
    """
    most = op.Sub(op.Squeeze(op.Shape(data, start=0, end=1)), scalar(1, DType.INT64))
    sizes = cast(batch_sizes, DType.INT64)
    if total_length > 0:
        sizes = op.Pad(sizes, shape_vector((0, dims.sub(total_length, sizes.shape[0]))))
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


def of_cell(kind: Kind) -> Callable[..., Any]:
    """The converter of one step: h, of an LSTM (h, c)."""

    def convert(
        input: Value,
        hx: Value | Sequence[Value],
        w_ih: Value,
        w_hh: Value,
        b_ih: Value | None = None,
        b_hh: Value | None = None,
    ) -> Any:
        """input: (b, features), or (features,); hx: h, of an LSTM h and c, (b, hidden) each."""
        lone, weights = input.rank == 1, (w_ih, w_hh, b_ih, b_hh)
        x, *states = [unsqueeze(v, 0) if lone else v for v in (input, *([hx] if isinstance(hx, Value) else hx))]
        begin = [unsqueeze(s, 0) for s in states]
        if x.dtype is DType.DOUBLE:
            _, *last = layer_by_steps(kind, unsqueeze(x, 0), [weights], begin, None)
        else:
            _, *last = layer(kind, unsqueeze(x, 0), [weights], begin[0], begin[1] if kind.cells else None)
        found = tuple(squeeze(s, 0, 1) if lone else squeeze(s, 0) for s in last)
        return found if kind.cells else found[0]

    return convert


aten_lstm_cell, aten_gru_cell, aten_rnn_tanh_cell, aten_rnn_relu_cell = map(of_cell, (LSTM, GRU, TANH, RELU))
