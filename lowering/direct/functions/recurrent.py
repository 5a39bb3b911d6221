"""Recurrent layers whose gradients are recorded: step by step, or, where their length varies, as a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs
import torch

from lowering.errors import LoweringError
from lowering.records.torch_internals import lstm_layer, lstm_layers, lstm_parameters

Tensors = Sequence[torch.Tensor]
Scan = Callable[[Callable[..., Any], Tensors, Tensors, Tensors], Tensors]
"""(a function of what is carried, elements, and others; what is carried first; what is gone over; others) -> what is
carried last, and the rest of what the function gives for each element."""


def lstm_in_steps(
    x: torch.Tensor, hx: Sequence[torch.Tensor], weights: Sequence[torch.Tensor], biases: bool, layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """aten.lstm.input in the operators of its steps, each of which has a gradient: where torch takes it apart on a CPU
    it makes one operator of oneDNN's of each layer."""
    given = lstm_parameters(weights, biases, hx[0].size(2) != hx[1].size(2))
    hidden = list(zip(hx[0], hx[1], strict=True))
    y, last = lstm_layers(x, hidden, given, biases, layers, dropout, train, bidirectional, batch_first, lstm_layer)
    states, cells = zip(*last, strict=True)
    return y, torch.stack(states), torch.stack(cells)


def refuse_packed(*_: Any) -> None:
    """Raises LoweringError for a recurrent operator over a packed sequence with a gradient."""
    raise LoweringError(
        "the gradient of a recurrent layer over a packed sequence is recorded, which direct capture does not compute",
        hint="give the layer the padded batch, and mask what is behind the end of each sequence in the loss",
    )


# ---------------------------------------------------------------------------------------------- any length


def recurrent_by_scan(
    scan: Scan, func: Any, x: torch.Tensor, hx: Any, weights: Tensors, biases: bool, layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    """A recurrent operator over sequences whose length varies, with a gradient; None where the length does not."""
    cell, states = CELLS[func], list(hx) if isinstance(hx, list | tuple) else [hx]
    length = x.shape[1 if batch_first else 0]
    if type(length) is int:
        return None
    torch._check(length >= 1, lambda: "Expected sequence length to be larger than 0 in RNN")
    y, given, ends = x.transpose(0, 1) if batch_first else x, iter(weights), list[Tensors]()
    projected = len({each.shape[-1] for each in states}) > 1
    for layer in range(layers):
        ways = list[torch.Tensor]()
        for back in (False, True)[: 1 + bidirectional]:
            place = len(ends)
            found, last = direction(scan, cell, y, [each[place] for each in states], given, biases, projected, back)
            ways.append(found)
            ends.append(last)
        y = torch.cat(ways, -1) if bidirectional else ways[0]
        if dropout and train and layer < layers - 1:
            y = torch.dropout(y, dropout, True)
    lasts = [torch.stack(each) for each in zip(*ends, strict=True)]
    return (y.transpose(0, 1) if batch_first else y, *lasts)


def direction(
    scan: Scan, cell: Cell, x: torch.Tensor, states: Tensors, weights: Iterator[torch.Tensor], biases: bool,
    projected: bool, back: bool,
) -> tuple[torch.Tensor, list[torch.Tensor]]:  # fmt: skip
    """(what one layer gives for each element in one direction, its last states), by the next of the weights."""
    inner, outer = next(weights), next(weights)
    bias, other = (next(weights), next(weights)) if biases else (None, None)
    projection = next(weights) if projected else None
    known = torch.nn.functional.linear(x.flip(0) if back else x, inner, bias)
    y, *cells = Recurrence.apply(known, outer, other, projection, cell, scan, *states)
    return y.flip(0) if back else y, [y[-1], *cells]


@attrs.frozen
class Cell:
    """A step of a recurrent layer: `step`, of the states before it and what it makes of the element and of the state by
    linear layers, gives the states behind it and what its gradient wants of it; `back`, of the gradients of those
    and that, the gradients of what both linear layers gave, and of the states before but by them, None for 0."""

    step: Callable[[Tensors, torch.Tensor, torch.Tensor], tuple[Tensors, Tensors]]
    back: Callable[[Tensors, Tensors], tuple[torch.Tensor, torch.Tensor, Sequence[Any]]]


def lstm_step(states: Tensors, known: torch.Tensor, hidden: torch.Tensor) -> tuple[Tensors, Tensors]:
    """The gates are input, forget, cell, output."""
    before = states[1]
    i, f, g, o = (known + hidden).chunk(4, -1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cell = f * before + i * g
    seen = cell.tanh()
    return (o * seen, cell), (i, f, g, o, before, seen)


def lstm_back(slopes: Tensors, saved: Tensors) -> tuple[torch.Tensor, torch.Tensor, Sequence[Any]]:
    """The same backwards."""
    i, f, g, o, before, seen = saved
    cell = slopes[1] + slopes[0] * o * (1 - seen * seen)
    parts = (
        cell * g * i * (1 - i), cell * before * f * (1 - f), cell * i * (1 - g * g), slopes[0] * seen * o * (1 - o)
    )  # fmt: skip
    found = torch.cat(parts, -1)
    return found, found, (None, cell * f)


def gru_step(states: Tensors, known: torch.Tensor, hidden: torch.Tensor) -> tuple[Tensors, Tensors]:
    """The gates are reset, update, new."""
    (r, z, n), (reset, update, new) = known.chunk(3, -1), hidden.chunk(3, -1)
    r, z = (r + reset).sigmoid(), (z + update).sigmoid()
    n = (n + r * new).tanh()
    return ((states[0] - n) * z + n,), (r, z, n, new, states[0])


def gru_back(slopes: Tensors, saved: Tensors) -> tuple[torch.Tensor, torch.Tensor, Sequence[Any]]:
    """The same backwards."""
    r, z, n, new, before = saved
    slope = slopes[0]
    of_new, of_update = slope * (1 - z) * (1 - n * n), slope * (before - n) * z * (1 - z)
    of_reset = of_new * new * r * (1 - r)
    known, hidden = (torch.cat((of_reset, of_update, each), -1) for each in (of_new, of_new * r))
    return known, hidden, (slope * z,)


def tanh_step(states: Tensors, known: torch.Tensor, hidden: torch.Tensor) -> tuple[Tensors, Tensors]:
    """A simple step by tanh."""
    found = (known + hidden).tanh()
    return (found,), (found,)


def tanh_back(slopes: Tensors, saved: Tensors) -> tuple[torch.Tensor, torch.Tensor, Sequence[Any]]:
    """The same backwards."""
    found = slopes[0] * (1 - saved[0] * saved[0])
    return found, found, (None,)


def relu_step(states: Tensors, known: torch.Tensor, hidden: torch.Tensor) -> tuple[Tensors, Tensors]:
    """A simple step by relu."""
    found = (known + hidden).relu()
    return (found,), (found,)


def relu_back(slopes: Tensors, saved: Tensors) -> tuple[torch.Tensor, torch.Tensor, Sequence[Any]]:
    """The same backwards."""
    found = torch.where(saved[0] > 0, slopes[0], 0)
    return found, found, (None,)


ATEN = torch.ops.aten
CELLS: Mapping[Any, Cell] = MappingProxyType({
    ATEN.lstm.input: Cell(lstm_step, lstm_back), ATEN.gru.input: Cell(gru_step, gru_back),
    ATEN.rnn_tanh.input: Cell(tanh_step, tanh_back), ATEN.rnn_relu.input: Cell(relu_step, relu_back),
})  # fmt: skip


class Recurrence(torch.autograd.Function):
    """One layer in one direction, of what its linear layer makes of the elements: (what it gives for each, the last
    of its further states). An LSTM may project what it gives: that is the state by which it goes on."""

    @staticmethod
    def forward(
        ctx: Any, known: torch.Tensor, weight: torch.Tensor, bias: Any, projection: Any, cell: Cell, scan: Scan,
        *states: torch.Tensor,
    ) -> Any:  # fmt: skip
        """One step after the other."""
        more, count = [each for each in (projection, weight, bias) if each is not None], len(states)
        projected = projection is not None

        def step(*given: torch.Tensor) -> list[torch.Tensor]:
            before, element, others = given[:count], given[count], given[count + 1 :]
            hidden = torch.nn.functional.linear(before[0], *others[projected:])
            (wide, *after), saved = cell.step(before, element, hidden)
            made = torch.nn.functional.linear(wide, others[0]) if projected else wide
            return [made, *after, *(each.clone() for each in (made, *([wide] if projected else []), *saved))]

        last, (y, *saved) = split(scan(step, states, [known], more), count)
        ctx.cell, ctx.scan, ctx.biased, ctx.projected = cell, scan, bias is not None, projected
        ctx.save_for_backward(*([projection, saved.pop(0)] if projected else []), weight, states[0], y, *saved)
        return (y, *last[1:])

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> Any:
        """One step after the other, from the last one on. Raises LoweringError where its own gradient is recorded."""
        if torch.is_grad_enabled():
            what = "the gradient of a recurrent layer whose length varies is asked for a gradient of its own"
            raise LoweringError(what, hint="leave their length out of dynamic_shapes, and the batch may vary")
        slope, *slopes = given
        of_projection, (weight, start, y, *saved) = split(ctx.saved_tensors, 2 * ctx.projected)
        count, back, projection = 1 + len(slopes), ctx.cell.back, of_projection[:1]

        def step(*given: torch.Tensor) -> list[torch.Tensor]:
            behind, rest = split(given, count)
            (first, *kept), (matrix, *others) = split(rest, 1 + len(saved))
            made = behind[0] + first
            known, hidden, before = back((made @ others[0] if others else made, *behind[1:]), kept)
            outer = hidden @ matrix
            own = [outer if before[0] is None else before[0] + outer, *before[1:], known.clone(), hidden.clone()]
            return [*own, made.clone()] if others else own

        first = (torch.zeros_like(start), *slopes)
        over = [each.flip(0) for each in (slope, *saved)]
        before, found = split(ctx.scan(step, first, over, [weight, *projection]), count)
        known, hidden, *made = (each.flip(0) for each in found)
        states = torch.cat([start.unsqueeze(0), y[:-1]])
        of_weight = hidden.flatten(0, 1).t() @ states.flatten(0, 1)
        narrowed = made[0].flatten(0, 1).t() @ of_projection[1].flatten(0, 1) if made else None
        return (known, of_weight, hidden.sum((0, 1)) if ctx.biased else None, narrowed, None, None, *before)


def split(found: Tensors, count: int) -> tuple[Tensors, Tensors]:
    """(the first ones, the others)"""
    return found[:count], found[count:]
