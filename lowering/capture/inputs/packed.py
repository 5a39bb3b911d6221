"""Weights that torch's quantized modules keep packed, in objects of C++: what each holds, unpacked once."""

from __future__ import annotations

import math
from typing import Any

import attrs
import torch

ATEN, QUANTIZED = torch.ops.aten, torch.ops.quantized


@attrs.frozen(eq=False)
class Steps:
    """What the integers of a quantized tensor stand for, (integer - point) * scale: numbers, or tensors of them, of
    which `axis` tells the place; and torch's element type, which names the integers."""

    kind: torch.dtype
    scale: Any
    point: Any
    axis: int | None = None


@attrs.frozen(eq=False)
class Held:
    """A quantized tensor from outside: its integers, and what they stand for; a tensor of float16 stands for itself."""

    integers: torch.Tensor
    steps: Any

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Held:
        """What a quantized tensor holds. Raises ValueError for one whose integers torch does not show."""
        if tensor.dtype not in (torch.quint8, torch.qint8, torch.qint32):
            raise ValueError(f"a quantized tensor of {str(tensor.dtype).removeprefix('torch.')}")
        integers = ATEN.int_repr(tensor)
        if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            return cls(integers, Steps(tensor.dtype, ATEN.q_scale(tensor), ATEN.q_zero_point(tensor)))
        scales, points = ATEN.q_per_channel_scales(tensor), ATEN.q_per_channel_zero_points(tensor)
        kind = torch.float32 if points.is_floating_point() else torch.int64
        axis = ATEN.q_per_channel_axis(tensor)
        return cls(integers, Steps(tensor.dtype, scales.to(torch.float32), points.to(kind), axis))


@attrs.frozen(eq=False)
class Layer:
    """What a packed layer holds: its weight and bias, of a convolution how its windows lie, and whether it is
    transposed; and of a product whether it heeds that inputs are to be integers of 7 bits, which one packed for
    QNNPACK does not."""

    weight: Held
    bias: torch.Tensor | None = None
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1
    more: tuple[int, ...] = ()
    transposed: bool = False
    heeds: bool = True

    @classmethod
    def of(cls, packed: Any, operator: str) -> Layer:
        """What the packed weight of an operator of `torch.ops.quantized` holds."""
        if operator.startswith("embedding"):
            return cls(Held.of(QUANTIZED.embedding_bag_unpack(packed)))
        if not operator.startswith("conv"):
            halves = operator.endswith("fp16")
            weight, bias = (QUANTIZED.linear_unpack_fp16 if halves else QUANTIZED.linear_unpack)(packed)
            bias = None if bias is None else bias.detach()
            if halves:
                return cls(Held(weight.to(torch.float16), None), bias)
            heeds = "dynamic" not in operator or heeds_bits(packed, QUANTIZED.linear_dynamic, [weight.shape[1]])
            return cls(Held.of(weight), bias, heeds=heeds)
        kind = operator[: operator.index("d") + 1]  # conv2d of conv2d_add_relu
        weight, bias = getattr(QUANTIZED, f"{kind}_unpack")(packed)
        axes = weight.dim() - 2
        found = (packed.stride(), packed.padding(), packed.dilation(), packed.output_padding())
        stride, padding, dilation, more = (tuple(each)[-axes:] for each in found)
        bias = None if bias is None else bias.detach()
        transposed = bool(packed.transpose())
        groups = packed.groups()
        channels = weight.shape[0] if transposed else weight.shape[1] * groups
        window = [d * (k - 1) + 1 + 2 * p for d, k, p in zip(dilation, weight.shape[2:], padding, strict=True)]
        if transposed and not is_transposed(packed, getattr(QUANTIZED, kind), weight, [channels, *window]):
            raise ValueError(f"quantized.{kind}, whose kernel gives something else here than it says: {ENGINE}")
        dynamic = "dynamic" in operator
        heeds = not dynamic or heeds_bits(packed, getattr(QUANTIZED, operator), [channels, *window])
        return cls(Held.of(weight), bias, stride, padding, dilation, groups, more, transposed, heeds)


ENGINE = "of a packed weight of torch's engine x86 or onednn"


def is_transposed(packed: Any, operator: Any, weight: torch.Tensor, sizes: list[int]) -> bool:
    """Whether an operator gives, for one input of some sizes, the transposed convolution that it says. Those of
    oneDNN do not in torch 2.13. The input has 7 bits: some processors add up two products in 16."""
    x = ATEN.quantize_per_tensor(torch.linspace(-1, 1, math.prod(sizes)).reshape(1, *sizes), 2 / 126, 64, torch.quint8)
    _, bias = packed.unpack()
    axes = len(sizes) - 1
    stride, padding, dilation, more = (
        list(each)[-axes:] for each in (packed.stride(), packed.padding(), packed.dilation(), packed.output_padding())
    )
    plain = getattr(torch, f"conv_transpose{axes}d")
    floats = ATEN.dequantize(x), ATEN.dequantize(weight), None if bias is None else bias.detach()
    expected = plain(*floats, stride, padding, more, packed.groups(), dilation)
    step = max(float(expected.abs().max()), 1e-6) / 100
    found = ATEN.dequantize(operator(x, packed, step, 128))
    return bool((found - expected).abs().max() <= 2 * step)


def heeds_bits(packed: Any, operator: Any, sizes: list[int]) -> bool:
    """Whether an operator gives something else, for one input of some sizes, where it is to be integers of 7 bits."""
    x = torch.linspace(-1, 1, math.prod(sizes)).reshape(1, *sizes)
    one, other = (operator(x, packed, reduced) for reduced in (True, False))
    return not torch.equal(one, other)


@attrs.frozen(eq=False)
class Cell:
    """What a packed cell of a recurrent layer holds: what inputs and states are multiplied with, and whether their
    integers are of 7 bits."""

    inputs: Layer
    states: Layer
    reduced: bool = False


@attrs.frozen(eq=False)
class Weights:
    """What packed objects and quantized tensors from outside hold, as it was found, by their identity, with the objects
    so that none dies; and the names of the tensors among it, by theirs."""

    found: dict[int, tuple[Any, Any]] = attrs.field(factory=dict)
    names: dict[int, str] = attrs.field(factory=dict)

    def tensor(self, tensor: torch.Tensor) -> Held:
        """What a quantized tensor holds."""
        if id(tensor) not in self.found:
            self.found[id(tensor)] = (tensor, self.named(Held.of(tensor), f"quantized_{len(self.found)}"))
        return self.found[id(tensor)][1]

    def layer(self, packed: Any, operator: str, path: str) -> Layer:
        """What the packed weight of an operator holds, in the module of a path."""
        if id(packed) not in self.found:
            self.found[id(packed)] = (packed, self.named_layer(Layer.of(packed, operator), path))
        return self.found[id(packed)][1]

    def cell(self, packed: Any, path: str) -> Cell:
        """What the packed cell of a recurrent layer holds."""
        if id(packed) not in self.found:
            kind, _, _, numbers, (inputs, states) = packed.__getstate__()[0]
            operator = "linear_fp16" if kind == "quantized_fp16" else "linear_dynamic"
            path, count = f"{path}." if path else "", len(self.found)
            cell = Cell(
                self.named_layer(Layer.of(inputs, operator), f"{path}ih_{count}"),
                self.named_layer(Layer.of(states, operator), f"{path}hh_{count}"),
                bool(numbers and numbers[0]),
            )
            self.found[id(packed)] = (packed, cell)
        return self.found[id(packed)][1]

    def named_layer(self, layer: Layer, path: str) -> Layer:
        """The same, whose tensors have names from now on."""
        inside = f"{path}." if path else ""
        self.named(layer.weight, f"{inside}weight")
        if layer.bias is not None:
            self.names[id(layer.bias)] = f"{inside}bias"
        return layer

    def named(self, held: Held, name: str) -> Held:
        """The same, whose tensors have names from now on."""
        self.names[id(held.integers)] = name
        steps = held.steps
        for each, end in ((steps.scale, "scale"), (steps.point, "zero_point")) if steps is not None else ():
            if isinstance(each, torch.Tensor):
                self.names[id(each)] = f"{name}.{end}"
        return held
