"""Recurrent layers of float64, for which ONNX Runtime has no kernels that run: one Scan for each direction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from irkit.build import op
from irkit.ir import Value
from irkit.pattern import attribute_of
from irkit.rewrite import Match
from irkit.types import Tuple
from passes.expand import operand
from passes.rules.common import is_known, number, vector
from passes.rules.sizes import bound_by, built, is_bound

GATES: Mapping[str, int] = MappingProxyType({"LSTM": 4, "GRU": 3, "RNN": 1})
USUAL: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
)
"""The activations of each layer that are meant where none are named."""


def recurrent(m: Match, value: Value) -> Any:
    """The layer as Scans; None with lengths, a clip, or activations that are not the usual ones"""
    x, w, r = value.inputs[:3]
    left_out = [operand(value, 4), value.attribute("clip"), value.attribute("input_forget")]
    if x is None or w is None or r is None or any(left_out) or value.attribute("layout"):
        return None
    one = activation(value)
    hidden, count = r.shape[2], {"bidirectional": 2}.get(attribute_of(value, "direction"), 1)
    if one is None or type(hidden) is not int:
        return None
    begin = [initial(m, x, operand(value, i), count, hidden) for i in ((5, 6) if value.op == "LSTM" else (5,))]
    if any(state is None for state in begin):
        return None
    found = []
    for d in range(count):
        backwards = int(d == 1 or attribute_of(value, "direction") == "reverse")
        bias = operand(value, 3)
        parts = [part(v, d) for v in (w, r)] + [None if v is None else part(v, d) for v in (bias, operand(value, 7))]
        found.append(direction(value, x, *parts, [part(s, d) for s in begin], one, backwards))  # type: ignore[arg-type]
    sides = [op.Unsqueeze(f[-1], vector([1])) for f in found]
    results = [sides[0] if count == 1 else op.Concat(*sides, axis=1)]
    for i in range(len(begin)):
        ended = [op.Unsqueeze(f[i], vector([0])) for f in found]
        results.append(ended[0] if count == 1 else op.Concat(*ended, axis=0))
    return tuple(results[: len(value.type.items)]) if isinstance(value.type, Tuple) else results[0]


def activation(value: Value) -> Callable[[Value], Value] | None:
    """What becomes of the sums of an RNN; None where a layer has other activations than the usual ones."""
    named = tuple(value.attribute("activations") or ())
    usual = USUAL[value.op]
    if value.op == "RNN" and named and set(named) == {"Relu"}:
        return op.Relu
    return op.Tanh if named[: len(usual)] in ((), usual) and named[len(usual) :] in ((), usual) else None


def part(v: Value, d: int) -> Value:
    """Row d, which goes away as an axis."""
    return op.Squeeze(op.Slice(v, vector([d]), vector([d + 1]), vector([0])), vector([0]))


def initial(m: Match, x: Value, state: Value | None, count: int, hidden: int) -> Value | None:
    """The state before the first time: zeros where none is given; None where the batch is not bound."""
    if state is not None:
        return state
    shape = (count, x.shape[1], hidden)
    if not is_known(shape) or not is_bound(m, shape, bound_by(x)):
        return None
    return op.Expand(number(x, 0), built(m, shape, 1, bound_by(x)))


def turned(v: Value) -> Value:
    """The transpose of a matrix."""
    return op.Transpose(v, perm=(1, 0))


def direction(
    value: Value, x: Value, w: Value, r: Value, b: Value | None, peeped: Value | None, states: list[Value],
    one: Callable[[Value], Value], backwards: int,
) -> tuple[Value, ...]:  # fmt: skip
    """(last states, what is seen at each time). What does not depend on the state is computed for all times at once."""
    hidden, many = int(r.shape[1]), GATES[value.op]
    inner, gates = None, vector([hidden] * many)
    sums = op.MatMul(x, turned(w))
    if b is not None:
        of_x, of_h = op.Split(b, vector([many * hidden] * 2), axis=0, outputs=2)
        if value.op == "GRU":  # the bias of the new state may stand inside of a product
            outer, inner = op.Split(of_h, vector([2 * hidden, hidden]), axis=0, outputs=2)
            of_h = op.Pad(outer, vector([0, hidden]))
        sums = op.Add(sums, op.Add(of_x, of_h))

    # What the gates see of the cell through peepholes: of i, o and f, with nothing of the new one.
    holes = None if peeped is None else op.Split(peeped, vector([hidden] * 3), axis=0, outputs=3)

    def lstm(h: Value, c: Value, at: Value) -> tuple[Value, ...]:
        """The states after one time, and what is seen of them"""
        i, o, f, g = op.Split(op.Add(at, op.MatMul(h, turned(r))), gates, axis=1, outputs=many)
        if holes is not None:
            i, f = op.Add(i, op.Mul(holes[0], c)), op.Add(f, op.Mul(holes[2], c))
        c = op.Add(op.Mul(op.Sigmoid(f), c), op.Mul(op.Sigmoid(i), op.Tanh(g)))
        o = o if holes is None else op.Add(o, op.Mul(holes[1], c))
        h = op.Mul(op.Sigmoid(o), op.Tanh(c))
        return h, c, op.Identity(h)

    def gru(h: Value, at: Value) -> tuple[Value, ...]:
        """The state after one time, twice"""
        of_z, of_r, of_n = op.Split(at, gates, axis=1, outputs=many)
        by_z, by_r, by_n = (turned(v) for v in op.Split(r, gates, axis=0, outputs=many))
        z, reset = op.Sigmoid(op.Add(of_z, op.MatMul(h, by_z))), op.Sigmoid(op.Add(of_r, op.MatMul(h, by_r)))
        if attribute_of(value, "linear_before_reset"):
            new = op.MatMul(h, by_n)
            new = op.Mul(reset, new if inner is None else op.Add(new, inner))
        else:
            new = op.MatMul(op.Mul(reset, h), by_n)
            new = new if inner is None else op.Add(new, inner)
        n = op.Tanh(op.Add(of_n, new))
        h = op.Add(op.Mul(op.Sub(number(z, 1), z), n), op.Mul(z, h))
        return h, op.Identity(h)

    def rnn(h: Value, at: Value) -> tuple[Value, ...]:
        """The state after one time, twice"""
        h = one(op.Add(at, op.MatMul(h, turned(r))))
        return h, op.Identity(h)

    way = [backwards] if backwards else None
    step = {"LSTM": lstm, "GRU": gru, "RNN": rnn}[value.op]
    return op.Scan(*states, sums, num_scan_inputs=1, body=step, scan_input_directions=way, scan_output_directions=way)


RECURRENT: Mapping[str, Callable[[Match, Value], Any]] = MappingProxyType(dict.fromkeys(GATES, recurrent))
"""The expansion of each recurrent layer, for float64."""
