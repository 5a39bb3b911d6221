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
    """Raises LoweringError for a recurrent operator over a packed sequence in a transform of torch.func."""
    raise LoweringError(
        "direct capture meets no recurrent layer over a packed sequence in a transform of torch.func",
        hint="give the layer the padded batch, and mask what is behind the end of each sequence in the loss",
    )


# ---------------------------------------------------------------------------------------------- any length


def recurrent_by_scan(
    scan: Scan, func: Any, x: torch.Tensor, hx: Any, weights: Tensors, biases: bool, layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    """A recurrent operator over sequences whose length varies, with a gradient; None where the length does not."""
    length = x.shape[1 if batch_first else 0]
    if type(length) is int:
        return None
    torch._check(length >= 1, lambda: "Expected sequence length to be larger than 0 in RNN")
    more = (weights, biases, layers, dropout, train, bidirectional)
    y, lasts = layers_by_scan(scan, CELLS[func], x.transpose(0, 1) if batch_first else x, states_in(hx), *more)
    return (y.transpose(0, 1) if batch_first else y, *lasts)


def states_in(hx: Any) -> list[torch.Tensor]:
    """The states that a recurrent operator begins with: two of an LSTM, else one."""
    return list(hx) if isinstance(hx, list | tuple) else [hx]


def packed_by_scan(
    scan: Scan, func: Any, data: torch.Tensor, batches: torch.Tensor, hx: Any, weights: Tensors, biases: bool,
    layers: int, dropout: float, train: bool, bidirectional: bool,
) -> Any:  # fmt: skip
    """A recurrent operator over a packed batch, with a gradient: over the padded one, where a sequence that has ended
    keeps its state. `batches` has how many sequences there are at each step, the longest first."""
    states = states_in(hx)
    rows, here = rows_of_steps(data, batches, states[0].shape[1])
    more = (weights, biases, layers, dropout, train, bidirectional)
    y, lasts = layers_by_scan(scan, CELLS[func], rows, states, *more, here.unsqueeze(-1))
    return (y[places_of_rows(data.shape[0], batches)], *lasts)


def rows_of_steps(data: torch.Tensor, batches: torch.Tensor, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """(the rows of a packed batch, (steps, batch, ...), which of them are there): the others are some row."""
    each = torch.arange(batch)
    here = each < batches.unsqueeze(1)
    places = torch.where(here, (batches.cumsum(0) - batches).unsqueeze(1) + each, 0)
    rows = data.index_select(0, places.reshape(-1))
    return rows.reshape(batches.shape[0], batch, *data.shape[1:]), here


def places_of_rows(count: Any, batches: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(the step, the place in the batch) of each row of a packed batch."""
    each, ends = torch.arange(count), batches.cumsum(0)
    step = torch.searchsorted(ends, each, right=True)
    return step, each - (ends - batches).index_select(0, step)


def packed_in_parts(x: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """aten._pack_padded_sequence of what has a gradient: its rows are taken by their places."""
    known, batches = ATEN._pack_padded_sequence.default(x.detach(), lengths, batch_first)
    step, place = places_of_rows(known.shape[0], batches)
    return x[place, step] if batch_first else x[step, place], batches


def padded_in_parts(data: torch.Tensor, batches: torch.Tensor, batch_first: bool, value: Any, length: Any) -> Any:
    """aten._pad_packed_sequence of what has a gradient, as long as the longest sequence, or of a length above 0."""
    rows, here = rows_of_steps(data, batches, batches[0].item())
    made = torch.where(here.reshape(*here.shape, *[1] * (rows.dim() - 2)), rows, value)
    if type(length) is not int or length > 0:
        torch._check(length >= made.shape[0], lambda: "a length below that of the longest sequence")
        made = torch.nn.functional.pad(made, (*[0, 0] * (made.dim() - 1), 0, length - made.shape[0]), value=value)
    return made.transpose(0, 1) if batch_first else made, here.sum(0)


def layers_by_scan(
    scan: Scan, cell: Cell, y: torch.Tensor, states: Tensors, weights: Tensors, biases: bool, layers: int,
    dropout: float, train: bool, bidirectional: bool, here: torch.Tensor | None = None,
) -> tuple[torch.Tensor, list[torch.Tensor]]:  # fmt: skip
    """(what the layers of a recurrent operator give for each element, their last states); `here` says which elements
    are there."""
    given, ends = iter(weights), list[Tensors]()
    projected = len({each.shape[-1] for each in states}) > 1
    for layer in range(layers):
        ways = list[torch.Tensor]()
        for back in (False, True)[: 1 + bidirectional]:
            own = [each[len(ends)] for each in states]
            found, last = direction(scan, cell, y, own, given, biases, projected, back, here)
            ways.append(found)
            ends.append(last)
        y = torch.cat(ways, -1) if bidirectional else ways[0]
        if dropout and train and layer < layers - 1:
            y = torch.dropout(y, dropout, True)
    return y, [torch.stack(each) for each in zip(*ends, strict=True)]


def direction(
    scan: Scan, cell: Cell, x: torch.Tensor, states: Tensors, weights: Iterator[torch.Tensor], biases: bool,
    projected: bool, back: bool, here: torch.Tensor | None,
) -> tuple[torch.Tensor, list[torch.Tensor]]:  # fmt: skip
    """(what one layer gives for each element in one direction, its last states), by the next of the weights."""
    inner, outer = next(weights), next(weights)
    bias, other = (next(weights), next(weights)) if biases else (None, None)
    projection = next(weights) if projected else None
    known = torch.nn.functional.linear(x.flip(0) if back else x, inner, bias)
    here = here.flip(0) if back and here is not None else here
    y, *cells = Recurrence.apply(known, outer, other, projection, here, cell, scan, *states)
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
    **dict.fromkeys((ATEN.lstm.input, ATEN.lstm.data), Cell(lstm_step, lstm_back)),
    **dict.fromkeys((ATEN.gru.input, ATEN.gru.data), Cell(gru_step, gru_back)),
    **dict.fromkeys((ATEN.rnn_tanh.input, ATEN.rnn_tanh.data), Cell(tanh_step, tanh_back)),
    **dict.fromkeys((ATEN.rnn_relu.input, ATEN.rnn_relu.data), Cell(relu_step, relu_back)),
})  # fmt: skip
BY_SCAN: Mapping[Any, Callable[..., Any]] = MappingProxyType({
    func: packed_by_scan if func._overloadname == "data" else recurrent_by_scan for func in CELLS
})  # fmt: skip
"""How the operators are met whose gradients are recorded."""


class Recurrence(torch.autograd.Function):
    """One layer in one direction, of what its linear layer makes of the elements: (what it gives for each, the last
    of its further states). An LSTM may project what it gives: that is the state by which it goes on. Where elements are
    not `here` the states stay what they are."""

    @staticmethod
    def forward(
        ctx: Any, known: torch.Tensor, weight: torch.Tensor, bias: Any, projection: Any, here: Any, cell: Cell,
        scan: Scan, *states: torch.Tensor,
    ) -> Any:  # fmt: skip
        """One step after the other."""
        more, count = [each for each in (projection, weight, bias) if each is not None], len(states)
        projected, over = projection is not None, [known] if here is None else [known, here]

        def step(*given: torch.Tensor) -> list[torch.Tensor]:
            before, (elements, others) = given[:count], split(given[count:], len(over))
            hidden = torch.nn.functional.linear(before[0], *others[projected:])
            (wide, *after), saved = cell.step(before, elements[0], hidden)
            made = [torch.nn.functional.linear(wide, others[0]) if projected else wide, *after]
            if here is not None:
                made = [torch.where(elements[1], *both) for both in zip(made, before, strict=True)]
            return [*made, *(each.clone() for each in (made[0], *([wide] if projected else []), *saved))]

        last, (y, *saved) = split(scan(step, states, over, more), count)
        ctx.cell, ctx.scan, ctx.biased, ctx.projected = cell, scan, bias is not None, projected
        ctx.here = here
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

        masks = [] if ctx.here is None else [ctx.here]

        def step(*given: torch.Tensor) -> list[torch.Tensor]:
            behind, rest = split(given, count)
            mask, (first, *rest) = split(rest, len(masks))
            kept, (matrix, *others) = split(rest, len(saved))
            whole = [behind[0] + first, *behind[1:]]
            made, *more = [torch.where(mask[0], each, 0) for each in whole] if mask else whole
            known, hidden, before = back((made @ others[0] if others else made, *more), kept)
            outer = hidden @ matrix
            own = [outer if before[0] is None else before[0] + outer, *before[1:]]
            own = [a + torch.where(mask[0], 0, b) for a, b in zip(own, whole, strict=True)] if mask else own
            own += [known.clone(), hidden.clone()]
            return [*own, made.clone()] if others else own

        first = (torch.zeros_like(start), *slopes)
        over = [each.flip(0) for each in (*masks, slope, *saved)]
        before, found = split(ctx.scan(step, first, over, [weight, *projection]), count)
        known, hidden, *made = (each.flip(0) for each in found)
        states = torch.cat([start.unsqueeze(0), y[:-1]])
        of_weight = hidden.flatten(0, 1).t() @ states.flatten(0, 1)
        narrowed = made[0].flatten(0, 1).t() @ of_projection[1].flatten(0, 1) if made else None
        return (known, of_weight, hidden.sum((0, 1)) if ctx.biased else None, narrowed, None, None, None, *before)


def split(found: Tensors, count: int) -> tuple[Tensors, Tensors]:
    """(the first ones, the others)"""
    return found[:count], found[count:]
