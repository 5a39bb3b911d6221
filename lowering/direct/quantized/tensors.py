"""Quantized tensors of a traced model: their integers are a traced tensor, beside which stands what they mean.

What torch's kernels compute of integers is written as floats that are rounded to integers again: DequantizeLinear, the
operator, QuantizeLinear, which is how files say it. The kernels round once, as that does, and so give the same integers
but where a number lies in the middle between two, to the rounding of floats: there they are one apart.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs
import torch
from torch.utils import _pytree as pytree

from lowering.capture.inputs.packed import Held, Steps
from lowering.errors import CaptureError

ATEN = torch.ops.aten
Tracer: TypeAlias = Any
"""A tracer of lowering/direct, which imports what is here."""

INTEGERS: Mapping[torch.dtype, tuple[torch.dtype, int, int]] = MappingProxyType({
    torch.quint8: (torch.uint8, 0, 255), torch.qint8: (torch.int8, -128, 127),
    torch.qint32: (torch.int32, -(2**31), 2**31 - 1),
})  # fmt: skip
"""The integers of an element type, with the least and the greatest."""


class Quantized(torch.Tensor):
    """A quantized tensor without numbers that a model computes with while it is traced."""

    integers: Any
    steps: Steps
    tracer: Any

    is_quantized = property(lambda self: True)  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, tracer: Tracer, integers: Any, steps: Steps) -> Quantized:
        twin, asked = integers.handle.twin, tracer.asked
        before, asked.silent = asked.silent, True
        try:
            made: Any = torch.Tensor._make_wrapper_subclass(
                cls, list(integers.shape), twin.stride(), dtype=steps.kind, device=torch.device("cpu"),
                dispatch_sizes_strides_policy="strides",
            )  # fmt: skip
        finally:
            asked.silent = before
        made.integers, made.steps, made.tracer = integers, steps, tracer
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore[reportAssignmentType]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = pytree.tree_leaves((args, kwargs or {}))
        tracer = next(each.tracer for each in given if isinstance(each, Quantized))
        return tracer.below.__torch_dispatch__(func, types, args, kwargs)

    def __repr__(self) -> str:  # type: ignore[override]
        return (
            f"Quantized({self.integers.handle.value.type!r}, scale={self.steps.scale}, zero_point={self.steps.point})"
        )

    def q_scale(self) -> Any:
        """The scale, a number."""
        return one_number(self.steps.scale, self.steps)

    def q_zero_point(self) -> Any:
        """The zero point, a number."""
        return one_number(self.steps.point, self.steps)

    def qscheme(self) -> torch.qscheme:
        """Whether there is one scale or one for each channel."""
        if self.steps.axis is None:
            return torch.per_tensor_affine
        floats = self.steps.point.is_floating_point()
        return torch.per_channel_affine_float_qparams if floats else torch.per_channel_affine

    def q_per_channel_scales(self) -> Any:
        """The scales of channels."""
        return self.steps.scale.to(torch.float64)

    def q_per_channel_zero_points(self) -> Any:
        """The zero points of channels."""
        return self.steps.point

    def q_per_channel_axis(self) -> int:
        """The axis of channels; -1 where there is one scale."""
        return -1 if self.steps.axis is None else self.steps.axis


def one_number(given: Any, steps: Steps) -> Any:
    """A scale or zero point as a number. Raises CaptureError where there is one for each channel."""
    if steps.axis is not None:
        raise CaptureError(
            "the model asks a tensor that is quantized per channel for its one scale",
            hint="ask for q_per_channel_scales() and q_per_channel_zero_points()",
        )
    return given.item() if isinstance(given, torch.Tensor) else given


def has_quantized(given: Any) -> bool:
    """Whether a quantized tensor is among arguments."""
    for each in given:
        kind = type(each)
        if kind is list or kind is tuple:
            if has_quantized(each):
                return True
        elif isinstance(each, torch.Tensor) and each.is_quantized:
            return True
    return False


def decomposed_operators() -> Any:
    """torch's operators that quantize plain tensors, which are registered when their module is first imported."""
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    return torch.ops.quantized_decomposed


def always_same(tracer: Tracer, tensor: torch.Tensor) -> bool:
    """Whether a tensor hangs on no input, met inside an operator."""
    with torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        return tracer.is_constant(tracer.read(tracer.handle(tensor)))


# ------------------------------------------------------------------------------------------ floats and back


def in_steps(tracer: Tracer, floats: Any, steps: Steps) -> Quantized:
    """Floats in whole numbers of steps."""
    found = INTEGERS.get(steps.kind)
    if found is None:
        what = f"the model makes a quantized tensor of {str(steps.kind).removeprefix('torch.')}"
        raise CaptureError(what, hint="quint8, qint8 and qint32 are met")
    if floats.dtype is not torch.float32:
        raise CaptureError(
            f"the model quantizes a tensor of {str(floats.dtype).removeprefix('torch.')}, which torch refuses",
            hint="call float() before it",
        )
    dtype, low, high = found
    made = parts_of(steps, "quantize")(floats, *numbers_of(steps), low, high, dtype)
    return Quantized(tracer, made, steps)


def floats_of(given: Any) -> Any:
    """The floats that a quantized tensor stands for; anything else as it is, the tensors in a list one by one."""
    if isinstance(given, list | tuple):
        return type(given)(map(floats_of, given))
    return floats_of_integers(given.integers, given.steps) if type(given) is Quantized else given


def floats_of_held(held: Held) -> Any:
    """The floats that a quantized tensor from outside stands for."""
    if held.steps is None:
        return held.integers.to(torch.float32)
    return floats_of_integers(held.integers, held.steps)


def floats_of_integers(integers: Any, steps: Steps) -> Any:
    """The floats that integers stand for."""
    dtype, low, high = INTEGERS[steps.kind]
    return parts_of(steps, "dequantize")(integers, *numbers_of(steps), low, high, dtype)


def parts_of(steps: Steps, name: str) -> Callable[..., Any]:
    """The operator that quantizes, or dequantizes, by one scale or by one for each channel."""
    operators = decomposed_operators()
    if steps.axis is not None:
        return getattr(operators, f"{name}_per_channel").default
    packet = getattr(operators, f"{name}_per_tensor")
    return packet.tensor if isinstance(steps.scale, torch.Tensor) else packet.default


def numbers_of(steps: Steps) -> list[Any]:
    """What such an operator takes of them."""
    return [steps.scale, steps.point, *([] if steps.axis is None else [steps.axis])]


def alike(tensors: list[Quantized], steps: Steps) -> bool:
    """Whether the integers of tensors stand for the same as those of steps."""
    mine = (steps.kind, steps.scale, steps.point)
    plain = not any(isinstance(each, torch.Tensor) for each in mine)
    return plain and all(
        x.steps.axis is None and not isinstance(x.steps.scale, torch.Tensor | torch.SymFloat)
        and (x.steps.kind, x.steps.scale, x.steps.point) == mine
        for x in tensors
    )  # fmt: skip


@attrs.frozen(eq=False)
class Whole:
    """Arguments of an operator with quantized tensors from outside as traced ones, and packed weights unpacked."""

    tracer: Tracer
    operator: str

    def of(self, given: Any) -> Any:
        """An argument."""
        if isinstance(given, list | tuple):
            return type(given)(map(self.of, given))
        if isinstance(given, torch.ScriptObject):
            return self.unpacked(given)
        if isinstance(given, torch.Tensor) and type(given) is not Quantized:
            return self.entered(given) if given.is_quantized else given
        return given

    def unpacked(self, packed: Any) -> Any:
        """What a packed weight, or cell of a recurrent layer, holds."""
        path, weights = self.tracer.modules[-1] if self.tracer.modules else "", self.tracer.weights
        try:
            is_cell = packed._type().name() == "CellParamsBase"
            found = weights.cell(packed, path) if is_cell else weights.layer(packed, self.operator, path)
        except ValueError as refused:
            hint = "pack it for another engine: torch.backends.quantized.engine = 'qnnpack' before it is converted"
            raise CaptureError(f"the model computes with {refused}", hint=hint) from None
        self.tracer.names.update(weights.names)
        return found

    def entered(self, tensor: torch.Tensor) -> Quantized:
        """A quantized tensor from outside as a traced one."""
        try:
            held = self.tracer.weights.tensor(tensor)
        except ValueError as refused:
            raise CaptureError(f"the model computes with {refused}", hint="quint8, qint8 and qint32 are met") from None
        self.tracer.names.update(self.tracer.weights.names)
        with self.tracer.resumed():
            integers = ATEN.alias.default(held.integers)
        return Quantized(self.tracer, integers, held.steps)
