"""Recurrent layers of float64, for which ONNX Runtime has no kernels that run: one Scan for each direction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType, Tuple
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match
from passes.analysis.expansions import Expanded, Expansion
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import is_known, number, operand, vector
from passes.legal.runtime.expansions import ordinals

GATES: Mapping[str, int] = MappingProxyType({"LSTM": 4, "GRU": 3, "RNN": 1})
USUAL: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
)
"""The activations of each layer that are meant where none are named."""

Activation = Callable[..., Value]
"""Takes a value and its parameters."""


def affine(v: Value, alpha: float, beta: float) -> Value:
    """alpha * v + beta"""
    return op.Add(op.Mul(v, number(v, alpha)), number(v, beta))


def kept_from(v: Value, alpha: float) -> Value:
    """v where it is at least alpha, 0 elsewhere"""
    return op.Where(op.GreaterOrEqual(v, number(v, alpha)), v, number(v, 0))


def leaky(v: Value, alpha: float) -> Value:
    """v where it is above 0, alpha * v elsewhere"""
    return op.LeakyRelu(v, alpha=alpha)


def exponential(v: Value, alpha: float) -> Value:
    """v where it is above 0, alpha * (e**v - 1) elsewhere"""
    return op.Elu(v, alpha=alpha)


def scaled_tanh(v: Value, alpha: float, beta: float) -> Value:
    """alpha * tanh(beta * v)"""
    return op.Mul(op.Tanh(op.Mul(v, number(v, beta))), number(v, alpha))


def hard_sigmoid(v: Value, alpha: float, beta: float) -> Value:
    """alpha * v + beta between 0 and 1"""
    return op.HardSigmoid(v, alpha=alpha, beta=beta)


ACTIVATIONS: Mapping[str, tuple[Activation, tuple[float, ...]]] = MappingProxyType(
    {
        "relu": (op.Relu, ()),
        "tanh": (op.Tanh, ()),
        "sigmoid": (op.Sigmoid, ()),
        "softsign": (op.Softsign, ()),
        "softplus": (op.Softplus, ()),
        "leakyrelu": (leaky, (0.01,)),
        "thresholdedrelu": (kept_from, (1.0,)),
        "elu": (exponential, (1.0,)),
        "affine": (affine, (1.0, 0.0)),
        "scaledtanh": (scaled_tanh, (1.0, 1.0)),
        "hardsigmoid": (hard_sigmoid, (0.2, 0.5)),
    }
)
"""By its name in small letters, for ONNX takes any: the activation, and the parameters where none are given."""


def recurrent(m: Match, value: Value) -> Expanded:
    """The layer as Scans; None where an activation is none of ONNX's"""
    x, w, r = value.inputs[:3]
    if x is None or w is None or r is None or value.attribute("layout"):
        return None
    hidden = value.attribute("hidden_size") or r.shape[2]
    count = {"bidirectional": 2}.get(attribute_of(value, "direction"), 1)
    shaped = activations(value, count)
    if shaped is None or type(hidden) is not int:
        return None
    begin = [initial(m, x, operand(value, i), count, hidden) for i in ((5, 6) if value.op == "LSTM" else (5,))]
    if any(state is None for state in begin):
        return None
    lengths, live = operand(value, 4), None
    if lengths is not None:
        times = ordinals(m, x.shape[0], x)
        if times is None:
            return None
        live = op.Unsqueeze(op.Less(op.Unsqueeze(times, vector([1])), op.Cast(lengths, to=DType.INT64)), vector([2]))
    found: list[tuple[Value, ...]] = []
    for d in range(count):
        backwards = int(d == 1 or attribute_of(value, "direction") == "reverse")
        bias = operand(value, 3)
        parts = [part(v, d) for v in (w, r)] + [None if v is None else part(v, d) for v in (bias, operand(value, 7))]
        found.append(direction(value, hidden, x, *parts, live, [part(s, d) for s in begin], shaped[d], backwards))  # type: ignore[arg-type]
    sides = [op.Unsqueeze(f[-1], vector([1])) for f in found]
    results = [sides[0] if count == 1 else op.Concat(*sides, axis=1)]
    for i in range(len(begin)):
        ended = [op.Unsqueeze(f[i], vector([0])) for f in found]
        results.append(ended[0] if count == 1 else op.Concat(*ended, axis=0))
    return tuple(results[: len(value.type.items)]) if isinstance(value.type, Tuple) else results[0]


Shaped = Sequence[Callable[[Value], Value]]
"""The activations of one direction."""


def activations(value: Value, count: int) -> Sequence[Shaped] | None:
    """The activations of each direction with their parameters, of what `clip` leaves of their operands; None where one
    is none of ONNX's."""
    usual, bound = USUAL[value.op], bounded(value)
    named = tuple(value.attribute("activations") or usual * count)
    alphas, betas = (iter(value.attribute(f"activation_{each}") or ()) for each in ("alpha", "beta"))
    if len(named) != len(usual) * count or any(name.lower() not in ACTIVATIONS for name in named):
        return None
    found: list[Callable[[Value], Value]] = []
    for name in named:
        function, defaults = ACTIVATIONS[name.lower()]
        given = tuple(next(each, d) for d, each in zip(defaults, (alphas, betas), strict=False))
        found.append(bounded_by(bound, function, given))
    return [found[d * len(usual) : (d + 1) * len(usual)] for d in range(count)]


def bounded_by(
    bound: Callable[[Value], Value], function: Activation, given: tuple[float, ...]
) -> Callable[[Value], Value]:
    """The activation with its parameters, of what `bound` leaves of its operand."""
    return lambda v: function(bound(v), *given)


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
    return op.Expand(number(x, 0), sizes_value(m, shape, 1, bound_by(x)))


def turned(v: Value) -> Value:
    """The transpose of a matrix."""
    return op.Transpose(v, perm=(1, 0))


def bounded(value: Value) -> Callable[[Value], Value]:
    """What the layer makes of the operand of an activation: it itself, or cut to what `clip` says."""
    limit = attribute_of(value, "clip")
    return lambda v: op.Min(op.Max(v, number(v, -limit)), number(v, limit)) if limit else v


def of_inputs(op_type: str, hidden: int, x: Value, w: Value, b: Value | None) -> tuple[Value, Value | None]:
    """(x @ w' + b of all gates at all times, the bias that a GRU adds to its new state inside of a product)."""
    sums = op.MatMul(x, turned(w))
    if b is None:
        return sums, None
    many, inner = GATES[op_type], None
    of_x, of_h = op.Split(b, vector([many * hidden] * 2), axis=0, outputs=2)
    if op_type == "GRU":
        outer, inner = op.Split(of_h, vector([2 * hidden, hidden]), axis=0, outputs=2)
        of_h = op.Pad(outer, vector([0, hidden]))
    return op.Add(sums, op.Add(of_x, of_h)), inner


def direction(
    value: Value,
    hidden: int,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None,
    peeped: Value | None,
    live: Value | None,
    states: list[Value],
    shaped: Shaped,
    backwards: int,
) -> tuple[Value, ...]:
    """(last states, what is seen at each time). What does not depend on the state is computed for all times at once.

    `live` says which times are within the length of each sample: beyond it its states stay, and 0 is seen of them.
    """
    many = GATES[value.op]
    gates = vector([hidden] * many)
    sums, inner = of_inputs(value.op, hidden, x, w, b)
    gate = shaped[0]

    # What the gates see of the cell through peepholes: of i, o and f, with nothing of the new one.
    holes = None if peeped is None else op.Split(peeped, vector([hidden] * 3), axis=0, outputs=3)

    def lstm(h: Value, c: Value, at: Value) -> tuple[Value, ...]:
        """The states after one time"""
        i, o, f, g = op.Split(op.Add(at, op.MatMul(h, turned(r))), gates, axis=1, outputs=many)
        if holes is not None:
            i, f = op.Add(i, op.Mul(holes[0], c)), op.Add(f, op.Mul(holes[2], c))
        i = gate(i)
        kept = op.Sub(number(i, 1), i) if value.attribute("input_forget") else gate(f)
        c = op.Add(op.Mul(kept, c), op.Mul(i, shaped[1](g)))
        o = o if holes is None else op.Add(o, op.Mul(holes[1], c))
        return op.Mul(gate(o), shaped[2](c)), c

    def gru(h: Value, at: Value) -> tuple[Value, ...]:
        """The state after one time"""
        of_z, of_r, of_n = op.Split(at, gates, axis=1, outputs=many)
        by_z, by_r, by_n = (turned(v) for v in op.Split(r, gates, axis=0, outputs=many))
        z, reset = gate(op.Add(of_z, op.MatMul(h, by_z))), gate(op.Add(of_r, op.MatMul(h, by_r)))
        if attribute_of(value, "linear_before_reset"):
            new = op.MatMul(h, by_n)
            new = op.Mul(reset, new if inner is None else op.Add(new, inner))
        else:
            new = op.MatMul(op.Mul(reset, h), by_n)
            new = new if inner is None else op.Add(new, inner)
        n = shaped[1](op.Add(of_n, new))
        return (op.Add(op.Mul(op.Sub(number(z, 1), z), n), op.Mul(z, h)),)

    def rnn(h: Value, at: Value) -> tuple[Value, ...]:
        """The state after one time"""
        return (gate(op.Add(at, op.MatMul(h, turned(r)))),)

    step = {"LSTM": lstm, "GRU": gru, "RNN": rnn}[value.op]
    return scanned(step, states, sums, live, backwards)


def scanned(
    step: Callable[..., tuple[Value, ...]], states: list[Value], sums: Value, live: Value | None, backwards: int
) -> tuple[Value, ...]:
    """(last states, what is seen of them at each time) where a step makes states of states and sums."""

    def body(*given: Value) -> tuple[Value, ...]:
        """The states after one time, and what is seen of them"""
        before, at = given[: len(states)], given[len(states)]
        after = step(*before, at)
        if live is None:
            return *after, op.Identity(after[0])
        after = tuple(op.Where(given[-1], v, old) for v, old in zip(after, before, strict=True))
        return *after, op.Where(given[-1], after[0], number(after[0], 0))

    given = (sums,) if live is None else (sums, live)
    ways = ([backwards] * len(given), [backwards]) if backwards else (None, None)
    return op.Scan(
        *states,
        *given,
        num_scan_inputs=len(given),
        body=body,
        scan_input_directions=ways[0],
        scan_output_directions=ways[1],
    )


RECURRENT: Mapping[str, Expansion] = MappingProxyType(dict.fromkeys(GATES, recurrent))
"""The expansion of each recurrent layer, for float64."""
