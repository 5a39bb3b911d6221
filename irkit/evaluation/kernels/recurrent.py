"""RNN, GRU and LSTM: one step function each, and one driver for directions, lengths and layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from irkit.core.ir import Value
from irkit.evaluation.kernels.activations import elu, hard_sigmoid, leaky_relu, relu, sigmoid, softplus, softsign
from irkit.evaluation.kernels.common import Array, attr, narrowed_to, wide

Step = Callable[[Array, tuple[Array, ...]], tuple[Array, ...]]
"""One step: (x at t, states) -> new states, the first of which is the hidden state."""


def _thresholded(x: Array, alpha: float) -> Array:
    return np.where(x >= alpha, x, 0)


def _affine(x: Array, alpha: float, beta: float) -> Array:
    return alpha * x + beta


def _scaled_tanh(x: Array, alpha: float, beta: float) -> Array:
    return alpha * np.tanh(beta * x)


# Name: (function of x and of as many parameters as there are defaults, the defaults, of float32 as ONNX's attributes).
_ACTIVATIONS: Mapping[str, tuple[Callable[..., Array], tuple[float, ...]]] = {
    "relu": (relu, ()),
    "tanh": (np.tanh, ()),
    "sigmoid": (sigmoid, ()),
    "softsign": (softsign, ()),
    "softplus": (softplus, ()),
    "leakyrelu": (leaky_relu, (float(np.float32(0.01)),)),
    "thresholdedrelu": (_thresholded, (1.0,)),
    "elu": (elu, (1.0,)),
    "affine": (_affine, (1.0, 0.0)),
    "scaledtanh": (_scaled_tanh, (1.0, 1.0)),
    "hardsigmoid": (hard_sigmoid, (float(np.float32(0.2)), 0.5)),
}


def activations(node: Value, defaults: tuple[str, ...], direction: int) -> list[Callable[[Array], Array]]:
    """The activation functions of one direction, each with its parameters and the clipping of its operand."""
    directions = 2 if attr(node, "direction") == "bidirectional" else 1
    names = attr(node, "activations") or defaults * directions
    alphas: Iterator[float] = iter(attr(node, "activation_alpha") or ())
    betas: Iterator[float] = iter(attr(node, "activation_beta") or ())
    clip = attr(node, "clip")
    found: list[Callable[[Array], Array]] = []
    for name in names:
        function, parameters = _ACTIVATIONS[name.lower()]
        chosen = tuple(next(source, p) for p, source in zip(parameters, (alphas, betas), strict=False))
        found.append(_clipped(function, chosen, clip))
    count = len(defaults)
    return found[direction * count : (direction + 1) * count]


def _clipped(
    function: Callable[..., Array], parameters: tuple[float, ...], clip: float | None
) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        return function(np.clip(x, -clip, clip) if clip else x, *parameters)

    return apply


def run_direction(x: Array, states: tuple[Array, ...], step: Step, reverse: bool, lengths: Array) -> tuple[Array, ...]:
    """(hidden states of each t, last states): x (sequence, batch, size) from its start, or from its end, to the other.

    Beyond a sample's length its states stay, and its outputs are 0.
    """
    steps, batch = x.shape[:2]
    outputs = np.zeros((steps, *states[0].shape), dtype=x.dtype)
    for t in range(steps):
        # In reverse, step t of a sample reads place length - 1 - t, so that its padding comes last here too.
        place = np.maximum(lengths - 1 - t, 0) if reverse else np.full(batch, t)
        live = (t < lengths)[:, None]
        new = step(x[place, np.arange(batch)], states)
        states = tuple(np.where(live, n, old) for n, old in zip(new, states, strict=True))
        index = np.flatnonzero(live)
        outputs[place[index], index] = states[0][index]
    return outputs, *states


def run(
    node: Value, x: Array, make_step: Callable[[int], Step], states: tuple[Array | None, ...], lengths: Array | None
) -> tuple[Array, ...]:
    """(y, last states of each kind) over all directions, in the layout that the node asks for."""
    batch_first = bool(attr(node, "layout"))
    value = wide(x)
    value = value.swapaxes(0, 1) if batch_first else value
    steps, batch, _ = value.shape
    ends = np.full(batch, steps) if lengths is None else lengths.astype(np.int64)
    direction = attr(node, "direction")
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    hidden = attr(node, "hidden_size")
    starts = [
        np.zeros((len(ways), batch, hidden), value.dtype) if s is None else wide(s.swapaxes(0, 1) if batch_first else s)
        for s in states
    ]
    found = [
        run_direction(value, tuple(s[i] for s in starts), make_step(i), reverse, ends) for i, reverse in enumerate(ways)
    ]
    y = np.stack([f[0] for f in found], axis=1)
    last = [np.stack([f[1 + i] for f in found], axis=0) for i in range(len(states))]
    if batch_first:
        y, last = y.transpose(2, 0, 1, 3), [s.swapaxes(0, 1) for s in last]
    return tuple(narrowed_to(v, x.dtype) for v in (y, *last))


def gates(x: Array, hidden: Array, w: Array, r: Array, bias: Array, size: int) -> list[Array]:
    """x @ w^T + hidden @ r^T + bias, in pieces of the hidden size."""
    total = x @ w.T + hidden @ r.T + bias
    return [total[:, i : i + size] for i in range(0, total.shape[1], size)]


def halves(bias: Array | None, direction: int, width: int, dtype: np.dtype) -> tuple[Array, Array]:
    """The biases of the input and of the recurrence; zeros where none were given."""
    if bias is None:
        return np.zeros(width, dtype), np.zeros(width, dtype)
    found = wide(bias[direction])
    return found[:width], found[width:]


def kernel_RNN(
    node: Value,
    x: Array,
    w: Array,
    r: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    initial: Array | None = None,
) -> tuple[Array, ...]:
    """(y, last hidden state): h = f(x @ w^T + h @ r^T + biases)."""
    size = attr(node, "hidden_size")

    def make_step(direction: int) -> Step:
        (f,) = activations(node, ("Tanh",), direction)
        weight, recurrence = wide(w[direction]), wide(r[direction])
        total = sum(halves(bias, direction, size, weight.dtype))

        def step(x: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
            return (f(gates(x, states[0], weight, recurrence, np.asarray(total), size)[0]),)

        return step

    return run(node, x, make_step, (initial,), lengths)


def kernel_GRU(
    node: Value,
    x: Array,
    w: Array,
    r: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    initial: Array | None = None,
) -> tuple[Array, ...]:
    """(y, last hidden state): gates z, r, h; `linear_before_reset` multiplies r after the recurrent product."""
    size, late = attr(node, "hidden_size"), bool(attr(node, "linear_before_reset"))

    def make_step(direction: int) -> Step:
        f, g = activations(node, ("Sigmoid", "Tanh"), direction)
        weight, recurrence = wide(w[direction]), wide(r[direction])
        of_input, of_state = halves(bias, direction, 3 * size, weight.dtype)
        split = 2 * size

        def step(x: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
            (h,) = states
            both = (of_input + of_state)[:split]
            update, reset = map(f, gates(x, h, weight[:split], recurrence[:split], both, size))
            from_input = x @ weight[split:].T + of_input[split:]
            if late:
                from_state = reset * (h @ recurrence[split:].T + of_state[split:])
            else:
                from_state = (reset * h) @ recurrence[split:].T + of_state[split:]
            return ((1 - update) * g(from_input + from_state) + update * h,)

        return step

    return run(node, x, make_step, (initial,), lengths)


def kernel_LSTM(
    node: Value,
    x: Array,
    w: Array,
    r: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    peephole: Array | None = None,
) -> tuple[Array, ...]:
    """(y, last hidden state, last cell state): gates in the order i, o, f, c."""
    size, coupled = attr(node, "hidden_size"), bool(attr(node, "input_forget"))

    def make_step(direction: int) -> Step:
        f, g, h = activations(node, ("Sigmoid", "Tanh", "Tanh"), direction)
        weight, recurrence = wide(w[direction]), wide(r[direction])
        total = np.asarray(sum(halves(bias, direction, 4 * size, weight.dtype)))
        looks = np.zeros(3 * size, weight.dtype) if peephole is None else wide(peephole[direction])
        look_i, look_o, look_f = looks[:size], looks[size : 2 * size], looks[2 * size :]

        def step(x: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
            hidden, cell = states
            i, o, forget, c = gates(x, hidden, weight, recurrence, total, size)
            enter = f(i + look_i * cell)
            keep = 1 - enter if coupled else f(forget + look_f * cell)
            cell = keep * cell + enter * g(c)
            return f(o + look_o * cell) * h(cell), cell

        return step

    return run(node, x, make_step, (initial_h, initial_c), lengths)
