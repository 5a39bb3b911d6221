"""Weights that torch's quantized modules keep packed, in objects of C++: what each holds, unpacked once for a capture."""

from __future__ import annotations

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
    """A quantized tensor from outside: its integers, and what they stand for."""

    integers: torch.Tensor
    steps: Steps

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Held:
        """What a quantized tensor holds. Raises ValueError for one whose integers torch does not show."""
        if tensor.dtype not in (torch.quint8, torch.qint8, torch.qint32):
            raise ValueError(f"a quantized tensor of {str(tensor.dtype).removeprefix('torch.')}")
        integers = ATEN.int_repr(tensor)
        if ATEN.qscheme(tensor) in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            return cls(integers, Steps(tensor.dtype, ATEN.q_scale(tensor), ATEN.q_zero_point(tensor)))
        scales, points = ATEN.q_per_channel_scales(tensor), ATEN.q_per_channel_zero_points(tensor)
        kind = torch.float32 if points.is_floating_point() else torch.int64
        axis = ATEN.q_per_channel_axis(tensor)
        return cls(integers, Steps(tensor.dtype, scales.to(torch.float32), points.to(kind), axis))


@attrs.frozen(eq=False)
class Layer:
    """What a packed layer holds: its weight and bias, and of a convolution how its windows lie, and whether it is
    transposed."""

    weight: Held
    bias: torch.Tensor | None = None
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1
    more: tuple[int, ...] = ()
    transposed: bool = False

    @classmethod
    def of(cls, packed: Any, operator: str) -> Layer:
        """What the packed weight of an operator of `torch.ops.quantized` holds."""
        if operator.startswith("embedding"):
            return cls(Held.of(QUANTIZED.embedding_bag_unpack(packed)))
        if not operator.startswith("conv"):
            weight, bias = QUANTIZED.linear_unpack(packed)
            return cls(Held.of(weight), None if bias is None else bias.detach())
        kind = operator[: operator.index("d") + 1]  # conv2d of conv2d_add_relu, conv_transpose1d of its dynamic one
        weight, bias = getattr(QUANTIZED, f"{kind}_unpack")(packed)
        axes = weight.dim() - 2
        found = (packed.stride(), packed.padding(), packed.dilation(), packed.output_padding())
        stride, padding, dilation, more = (tuple(each)[-axes:] for each in found)
        bias = None if bias is None else bias.detach()
        transposed = bool(packed.transpose())
        return cls(Held.of(weight), bias, stride, padding, dilation, packed.groups(), more, transposed)


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
            layer, inside = Layer.of(packed, operator), f"{path}." if path else ""
            self.named(layer.weight, f"{inside}weight")
            if layer.bias is not None:
                self.names[id(layer.bias)] = f"{inside}bias"
            self.found[id(packed)] = (packed, layer)
        return self.found[id(packed)][1]

    def named(self, held: Held, name: str) -> Held:
        """The same, whose tensors have names from now on."""
        self.names[id(held.integers)] = name
        for each, end in ((held.steps.scale, "scale"), (held.steps.point, "zero_point")):
            if isinstance(each, torch.Tensor):
                self.names[id(each)] = f"{name}.{end}"
        return held
