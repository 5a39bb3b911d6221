"""Layers whose weights are quantized, and whose inputs are at each call, by their own range: products, convolutions,
and recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch._higher_order_ops.scan import scan_op

from lowering.capture.inputs.packed import Cell, Layer
from lowering.direct.quantized.aten import LEAST
from lowering.direct.quantized.tensors import Tracer, decomposed_operators, floats_of_held
from lowering.errors import CaptureError

ATEN = torch.ops.aten

# ---------------------------------------------------------------------------------------------- layers


def product(x: Any, layer: Layer) -> Any:
    """A product of floats with a packed weight."""
    return ATEN.linear(x, floats_of_held(layer.weight), layer.bias)


CONVOLUTIONS = (ATEN.conv1d.default, ATEN.conv2d.default, ATEN.conv3d.default)
TRANSPOSED = (ATEN.conv_transpose1d.default, ATEN.conv_transpose2d.input, ATEN.conv_transpose3d.input)


def convolution_of(x: Any, layer: Layer) -> Any:
    """A convolution of floats with a packed weight, transposed where that is one for such."""
    weight, windows = floats_of_held(layer.weight), (layer.stride, layer.padding)
    if layer.transposed:
        return TRANSPOSED[weight.dim() - 3](x, weight, layer.bias, *windows, layer.more, layer.groups, layer.dilation)
    return CONVOLUTIONS[weight.dim() - 3](x, weight, layer.bias, *windows, layer.dilation, layer.groups)


def rounded(x: Any, reduced: bool) -> Any:
    """The floats that x stands for once it is quantized by its own range, in whole numbers of 8 bits, or of 7."""
    return rounded_to(x, *own_steps(x, reduced))


def own_steps(x: Any, reduced: bool) -> tuple[Any, Any]:
    """(scale, zero point) that the range of x tells."""
    return decomposed_operators().choose_qparams.tensor(x, 0, 127 if reduced else 255, LEAST, torch.uint8)


def rounded_to(x: Any, scale: Any, point: Any) -> Any:
    """The floats that x stands for in whole numbers of 8 bits of a scale."""
    operators = decomposed_operators()
    integers = operators.quantize_per_tensor.tensor(x, scale, point, 0, 255, torch.uint8)
    return operators.dequantize_per_tensor.tensor(integers, scale, point, 0, 255, torch.uint8)


def dynamic_product(x: Any, layer: Layer, reduced: bool) -> Any:
    """A product of floats, rounded by their range, with a packed weight; of floats as they are for float16."""
    return product(x if layer.weight.steps is None else rounded(x, reduced and layer.heeds), layer)


def dynamic(function: Callable[..., Any], activation: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    """quantized.linear_dynamic and its like, with an activation behind it."""

    def handler(tracer: Tracer, x: Any, layer: Layer, reduced: bool = False) -> Any:
        made = function(x, layer, reduced)
        return made if activation is None else activation(made)

    return handler


def dynamic_convolution(x: Any, layer: Layer, reduced: bool) -> Any:
    """A convolution of floats, rounded by their range, with a packed weight. torch rounds its result in the very steps
    of its inputs."""
    steps = own_steps(x, reduced and layer.heeds)
    return rounded_to(convolution_of(rounded_to(x, *steps), layer), *steps)


# ---------------------------------------------------------------------------------------------- recurrent layers


def lstm_step(cell: Cell, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """(h, c) of an LSTM behind one step; x is multiplied with its weight already."""
    gates = dynamic_product(h, cell.states, cell.reduced) + x
    inside, forget, new, out = gates.chunk(4, 1)
    c = torch.sigmoid(forget) * c + torch.sigmoid(inside) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(c), c


def gru_step(cell: Cell, x: Any, h: Any) -> tuple[Any]:
    """(h,) of a GRU behind one step."""
    x_reset, x_update, x_new = x.chunk(3, 1)
    h_reset, h_update, h_new = dynamic_product(h, cell.states, cell.reduced).chunk(3, 1)
    new = torch.tanh(x_new + h_new * torch.sigmoid(h_reset + x_reset))
    return ((h - new) * torch.sigmoid(h_update + x_update) + new,)


def one_direction(
    tracer: Tracer, step: Any, cell: Cell, x: Any, states: Sequence[Any], turned: bool
) -> tuple[Any, Any]:
    """(outputs of all steps, states behind the last) of a layer in one direction, over (steps, batch, features)."""
    x = dynamic_product(x.flip(0) if turned else x, cell.inputs, cell.reduced)

    def body(*given: Any) -> tuple[Any, ...]:
        made = step(cell, given[-1], *given[:-1])
        return (*made, made[0].clone())

    with tracer.functions:
        *last, outputs = scan_op(body, list(states), [x], ())
    return outputs.flip(0) if turned else outputs, last


def recurrent(
    tracer: Tracer, step: Any, x: Any, states: Sequence[Any], cells: Sequence[Cell], layers: int, both: bool,
    batch_first: bool,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """(outputs, states behind the last step) of several layers, in one or both directions; states are
    (layers * directions, batch, features)."""
    x = x.transpose(0, 1) if batch_first else x
    count, ends = 2 if both else 1, []
    for layer in range(layers):
        outputs = []
        for place in range(count):
            index = layer * count + place
            made, last = one_direction(tracer, step, cells[index], x, [s[index] for s in states], place == 1)
            outputs.append(made)
            ends.append(last)
        x = torch.cat(outputs, 2) if both else outputs[0]
    found = [torch.stack(list(each)) for each in zip(*ends, strict=True)]
    return (x.transpose(0, 1) if batch_first else x), found


def quantized_lstm(
    tracer: Tracer, x: Any, hx: Any, params: Any, has_biases: bool, layers: int, dropout: float, train: bool,
    both: bool, batch_first: bool, **more: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """aten.quantized_lstm.input"""
    refuse_dropout(dropout, train, layers)
    made, states = recurrent(tracer, lstm_step, x, hx, params, layers, both, batch_first)
    return (made, *states)


def quantized_gru(
    tracer: Tracer, x: Any, hx: Any, params: Any, has_biases: bool, layers: int, dropout: float, train: bool,
    both: bool, batch_first: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """aten.quantized_gru.input"""
    refuse_dropout(dropout, train, layers)
    made, states = recurrent(tracer, gru_step, x, [hx], params, layers, both, batch_first)
    return (made, *states)


def refuse_dropout(dropout: float, train: bool, layers: int) -> None:
    """Raises CaptureError for a recurrent layer that drops elements."""
    if train and dropout and layers > 1:
        raise CaptureError("a quantized recurrent layer drops elements at random", hint="call eval() on the model")


def lstm_cell(tracer: Tracer, x: Any, hx: Any, inputs: Layer, states: Layer, *biases: Any) -> tuple[Any, ...]:
    """quantized.quantized_lstm_cell_dynamic: (h, c)"""
    return lstm_step(Cell(inputs, states, True), dynamic_product(x, inputs, True), *hx)


def gru_cell(tracer: Tracer, x: Any, hx: Any, inputs: Layer, states: Layer, *biases: Any) -> Any:
    """quantized.quantized_gru_cell_dynamic: h"""
    return gru_step(Cell(inputs, states, True), dynamic_product(x, inputs, True), hx)[0]


def rnn_cell(activation: Callable[[Any], Any]) -> Callable[..., Any]:
    """quantized.quantized_rnn_tanh_cell_dynamic and its like: h"""

    def handler(tracer: Tracer, x: Any, hx: Any, inputs: Layer, states: Layer, *biases: Any) -> Any:
        return activation(dynamic_product(x, inputs, True) + dynamic_product(hx, states, True))

    return handler


DYNAMIC: Mapping[str, Callable[..., Any]] = MappingProxyType({
    "linear_dynamic": dynamic(dynamic_product), "linear_relu_dynamic": dynamic(dynamic_product, torch.relu),
    "linear_dynamic_fp16": dynamic(dynamic_product), "linear_relu_dynamic_fp16": dynamic(dynamic_product, torch.relu),
    **{f"conv{kind}d_dynamic": dynamic(dynamic_convolution) for kind in (1, 2, 3)},
    **{f"conv_transpose{kind}d_dynamic": dynamic(dynamic_convolution) for kind in (1, 2, 3)},
    "quantized_lstm_cell_dynamic": lstm_cell, "quantized_gru_cell_dynamic": gru_cell,
    "quantized_rnn_tanh_cell_dynamic": rnn_cell(torch.tanh), "quantized_rnn_relu_cell_dynamic": rnn_cell(torch.relu),
})  # fmt: skip
"""Operators of `torch.ops.quantized` by their name."""

RECURRENT: Mapping[str, Callable[..., Any]] = MappingProxyType({
    "aten::quantized_lstm.input": quantized_lstm, "aten::quantized_gru.input": quantized_gru,
})  # fmt: skip
"""torch's own recurrent operators over packed cells, by name and overload."""
