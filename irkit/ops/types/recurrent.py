"""Type rules of recurrent layers."""

from __future__ import annotations

from irkit import dims
from irkit.core.types import Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context


def recurrent(c: Context, gates: int, cell: bool) -> tuple[Type, ...]:
    """x[n, b, i], w[d, gates * h, i], r[d, gates * h, h] -> y[n, d, b, h], y_h[d, b, h], and y_c where there is a cell;
    with attribute `layout` 1 the batch stands first."""
    x, w, r = c.ranked(0, 3), c.ranked(1, 3).shape, c.ranked(2, 3).shape
    batch_first = bool(c.attr("layout"))
    steps, batch = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])
    directions = 2 if c.attr("direction") == "bidirectional" else 1
    size = c.attr("hidden_size")
    hidden: Dim = r[2] if size is None else c.unify(r[2], size, "hidden_size and the last size of R")
    for weights, name in ((w, "W"), (r, "R")):
        c.unify(weights[0], directions, f"the directions and the first size of {name}")
        c.unify(weights[1], dims.mul(hidden, gates), f"{gates} times hidden_size and the second size of {name}")
    c.unify(w[2], x.shape[2], "the input sizes of X and W")
    state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    every = (batch, steps, directions, hidden) if batch_first else (steps, directions, batch, hidden)
    if c.has(3):
        c.unify_shapes(c.shape(3), (directions, dims.mul(hidden, 2 * gates)), "the bias and what it must be")
    for index in (5, 6) if cell else (5,):
        if c.has(index):
            c.unify_shapes(c.shape(index), state, "an initial state and what it must be")
    last = Tensor(x.dtype, state)
    return c.several(Tensor(x.dtype, every), last, last)


def infer_RNN(c: Context) -> tuple[Type, ...]:
    """See `recurrent`: one gate."""
    return recurrent(c, 1, cell=False)


def infer_GRU(c: Context) -> tuple[Type, ...]:
    """See `recurrent`: three gates."""
    return recurrent(c, 3, cell=False)


def infer_LSTM(c: Context) -> tuple[Type, ...]:
    """See `recurrent`: four gates and a cell."""
    return recurrent(c, 4, cell=True)
