"""torch's own operators on quantized tensors: those that move elements, those that compute with the floats that these
stand for, and those that make or take apart a quantized tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from lowering.capture.inputs.packed import Steps
from lowering.direct.quantized.tensors import (
    INTEGERS,
    Quantized,
    Tracer,
    alike,
    always_same,
    decomposed_operators,
    floats_of,
    in_steps,
)
from lowering.errors import CaptureError
from lowering.fold.registry import functional_of

ATEN = torch.ops.aten

MOVING = frozenset(
    f"aten::{name}" for name in """
    _reshape_alias _unsafe_view alias as_strided channel_shuffle chunk clone contiguous detach detach_ diagonal expand
    expand_as flatten flip index index_select mT movedim moveaxis narrow native_channel_shuffle numpy_T permute
    pixel_shuffle pixel_unshuffle ravel reflection_pad1d reflection_pad2d repeat repeat_interleave reshape reshape_as
    select slice split split_with_sizes squeeze swapaxes swapdims t tensor_split tile transpose unbind unflatten unfold
    unsafe_chunk unsafe_split unsqueeze view view_as
    """.split()
)  # fmt: skip
"""Operators whose result has elements of the first argument, which stand for the same."""

ASKING = frozenset(
    f"aten::{name}" for name in """
    is_contiguous is_non_overlapping_and_dense is_strides_like_format numel size storage_offset stride
    sym_is_contiguous sym_numel sym_size sym_storage_offset sym_stride _has_same_storage_numel
    """.split()
)  # fmt: skip
"""Questions about the layout."""

WIDENING = frozenset(
    f"aten::{name}" for name in """
    _prelu_kernel amax adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d
    _adaptive_avg_pool3d avg_pool1d avg_pool2d avg_pool3d clamp constant_pad_nd dropout gelu grid_sampler
    grid_sampler_2d hardtanh leaky_relu masked_fill max max_pool1d max_pool2d max_pool3d mean min pad
    quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d relu relu6 sort std threshold topk
    upsample_bilinear2d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact2d
    _upsample_nearest_exact3d
    """.split()
)  # fmt: skip
"""Operators that compute with floats, and give a quantized tensor of the steps of the first argument; of two results
the other is a tensor of places."""

COMPARING = frozenset(f"aten::{name}" for name in "eq ne lt le gt ge argsort item".split())
"""Operators that look at the floats alone."""

FIXED = frozenset(("aten::sigmoid", "aten::tanh", "aten::hardsigmoid"))
"""Operators whose result has steps that its element type tells."""

JOINING = frozenset(("aten::cat", "aten::concat", "aten::concatenate", "aten::stack", "aten::hstack", "aten::vstack"))
"""Operators that join tensors, in the steps of the first one."""

WRITING = frozenset(f"aten::{name}_" for name in "relu relu6 hardtanh leaky_relu gelu masked_fill dropout".split())
"""Operators that write the first argument, in its own steps."""


def moved(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What an operator that moves elements gives."""
    first = args[0]
    made = func(*integers_of(args), **kwargs)
    if first.steps.axis is not None and func._schema.name not in WHOLE:
        raise CaptureError(f"{func} of a tensor that is quantized per channel", hint="call dequantize() before it")
    return each_of(made, lambda x: Quantized(first.tracer, x, first.steps))


WHOLE = frozenset(("aten::alias", "aten::clone", "aten::contiguous", "aten::detach", "aten::detach_"))
"""Operators that leave each axis where it is."""


def integers_of(given: Any) -> Any:
    """Arguments with the integers of quantized tensors in their place."""
    if isinstance(given, list | tuple):
        return type(given)(map(integers_of, given))
    return given.integers if type(given) is Quantized else given


def each_of(made: Any, function: Callable[[Any], Any]) -> Any:
    """A function of one result, or of each of several."""
    return type(made)(map(function, made)) if isinstance(made, list | tuple) else function(made)


def widened(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What an operator gives of the floats, in the steps of its first argument."""
    steps = args[0].steps
    named = {name: each for name, each in kwargs.items() if name != "dtype" or each is not None}
    made = PLAIN.get(func._schema.name, func)(*floats_of(args), **named)
    if isinstance(made, list | tuple):
        return type(made)((in_steps(tracer, made[0], steps), *made[1:]))
    return in_steps(tracer, made, steps)


PLAIN: Mapping[str, Any] = MappingProxyType({
    f"aten::quantized_max_pool{n}d": getattr(ATEN, f"max_pool{n}d").default for n in (1, 2, 3)
})  # fmt: skip
"""The operator of floats, where it is another one."""


def fixed(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Quantized:
    """What an operator gives whose result has steps of its own."""
    kind = args[0].steps.kind
    bits = 32 if kind is torch.qint32 else 8
    symmetric = func._schema.name == "aten::tanh"
    scale = 2.0 ** (1 - bits) if symmetric else 2.0**-bits
    point = {torch.quint8: 128 if symmetric else 0, torch.qint8: 0 if symmetric else -128}.get(kind, 0)
    return in_steps(tracer, func(*floats_of(args), **kwargs), Steps(kind, scale, point))


def joined(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Quantized:
    """Tensors as one, in the steps of the first."""
    tensors = list(args[0])
    if not all(type(each) is Quantized for each in tensors):
        raise CaptureError(f"{func} of quantized tensors and others", hint="call dequantize() on the former")
    steps = tensors[0].steps
    if alike(tensors, steps):
        return Quantized(tracer, func(integers_of(tensors), *args[1:], **kwargs), steps)
    return in_steps(tracer, func(floats_of(tensors), *args[1:], **kwargs), steps)


def written(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The first argument, which is written in its own steps."""
    made = in_steps(tracer, functional_of(func)(*floats_of(args), **kwargs), args[0].steps)
    args[0].integers.copy_(made.integers)
    return args[0]


def filled(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """fill_(x, number), copy_(x, y), index_put_(x, places, y): x, which is written in its own steps."""
    target, source = (
        args[0],
        args[2] if func._schema.name.startswith(("aten::index_put", "aten::_index_put")) else args[1],
    )
    steps = target.steps
    if type(source) is Quantized:
        if not alike([source], steps):
            raise CaptureError(
                "the model copies a quantized tensor into one of another scale or zero point, which then has these",
                hint="assign it to the variable instead",
            )
        whole = source.integers
    else:
        floats = source if isinstance(source, torch.Tensor) else torch.full((), float(source))
        whole = in_steps(tracer, floats, steps).integers
    rest = [whole if each is source else each for each in args[1:]]
    if func._schema.name == "aten::fill_":
        target.integers.copy_(whole.expand(target.integers.shape))
    else:
        func(target.integers, *rest, **kwargs)
    return target


# ------------------------------------------------------------------------------------- made and taken apart


def quantize_per_tensor(tracer: Tracer, x: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """x in whole numbers of a scale, which is a number or a tensor of one."""
    if isinstance(x, list | tuple):
        each = zip(x, scale.unbind(0), zero_point.unbind(0), strict=True)
        return [quantize_per_tensor(tracer, *given, dtype) for given in each]
    scale, zero_point = known_number(tracer, scale), known_number(tracer, zero_point)
    if isinstance(scale, torch.Tensor) or isinstance(zero_point, torch.Tensor):
        scale, zero_point = (torch.as_tensor(each).reshape(()) for each in (scale, zero_point))
    return in_steps(tracer, x, Steps(dtype, scale, zero_point))


def known_number(tracer: Tracer, given: Any) -> Any:
    """A scale or zero point: the number where it is always the same, a tensor of one number where it is not."""
    if not isinstance(given, torch.Tensor):
        return given
    return given.item() if always_same(tracer, given) else given


def quantize_dynamically(tracer: Tracer, x: Any, dtype: Any, reduce_range: bool) -> Quantized:
    """x in whole numbers of the scale that its range tells, of 8 bits or of 7."""
    if dtype not in (torch.quint8, torch.qint8):
        raise CaptureError(f"the model quantizes to {dtype} by the range of a tensor", hint="give quint8 or qint8")
    plain, low, high = INTEGERS[dtype]
    ends = (int(low / 2), int(high / 2)) if reduce_range else (low, high)
    scale, point = decomposed_operators().choose_qparams.tensor(x, *ends, LEAST, plain)
    return in_steps(tracer, x, Steps(dtype, scale.reshape(()), point.reshape(())))


LEAST = 6.1e-5
"""The smallest scale that torch chooses."""


def quantize_per_channel(tracer: Tracer, x: Any, scales: Any, zero_points: Any, axis: int, dtype: Any) -> Quantized:
    """x in whole numbers of a scale for each place of an axis."""
    return in_steps(tracer, x, Steps(dtype, scales.to(torch.float32), zero_points, axis % x.dim()))


def of_integers(tracer: Tracer, x: Any, scale: Any, zero_point: Any, axis: int | None = None) -> Quantized:
    """A quantized tensor of integers that are there already."""
    kind = {torch.uint8: torch.quint8, torch.int8: torch.qint8, torch.int32: torch.qint32}.get(x.dtype)
    if kind is None:
        raise CaptureError(f"{x.dtype} is no element type of quantized tensors", hint="give uint8, int8 or int32")
    scale = scale.to(torch.float32) if axis is not None else scale
    return Quantized(tracer, x.clone(), Steps(kind, scale, zero_point, axis))


def integers_copied(tracer: Tracer, x: Any) -> Any:
    """int_repr(x)"""
    return x.integers.clone()


def dequantized(tracer: Tracer, x: Any) -> Any:
    """dequantize(x), of each of several; a tensor of floats is itself."""
    return each_of(x, lambda each: floats_of(each) if type(each) is Quantized else each.to(torch.float32))


def as_it_is(tracer: Tracer, x: Any, *args: Any, **kwargs: Any) -> Any:
    """x.to(device): x. Raises CaptureError for another element type, which torch refuses."""
    given = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.dtype)]
    given += [each.dtype for each in args if isinstance(each, torch.Tensor)]
    if any(each is not x.steps.kind for each in given):
        raise CaptureError("the model converts a quantized tensor to floats by to()", hint="call dequantize()")
    return x


def told_number(tracer: Tracer, x: Any) -> Any:
    """The scale of a tensor."""
    return x.q_scale()


def told_point(tracer: Tracer, x: Any) -> Any:
    """The zero point of a tensor."""
    return x.q_zero_point()


CALLS: Mapping[str, Callable[..., Any]] = MappingProxyType({
    "aten::quantize_per_tensor": quantize_per_tensor, "aten::quantize_per_channel": quantize_per_channel,
    "aten::quantize_per_tensor_dynamic": quantize_dynamically,
    "aten::_make_per_tensor_quantized_tensor": of_integers, "aten::_make_per_channel_quantized_tensor": of_integers,
    "aten::int_repr": integers_copied, "aten::dequantize": dequantized, "aten::to": as_it_is,
    "aten::_to_copy": as_it_is, "aten::q_scale": told_number, "aten::q_zero_point": told_point,
})  # fmt: skip
"""Operators by their name: functions of the tracer and of the operator's arguments."""

MAKING = frozenset(name for name in CALLS if "quantize" in name and name != "aten::dequantize")
"""Those that make quantized tensors of plain ones."""


def aten_call(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of one of torch's own operators; NotImplemented for one that is not met."""
    name = func._schema.name
    if name in CALLS:
        return CALLS[name](tracer, *args, **kwargs)
    if name in JOINING:
        return joined(tracer, func, args, kwargs)
    if name in COMPARING:
        return func(*floats_of(args), **kwargs)
    if name in ("aten::fill_", "aten::copy_", "aten::index_put_", "aten::_index_put_impl_"):
        return filled(tracer, func, args, kwargs) if type(args[0]) is Quantized else NotImplemented
    if not args or type(args[0]) is not Quantized:
        return NotImplemented
    if name in ASKING:
        return func(*integers_of(args), **kwargs)
    if name in MOVING:
        return moved(func, args, kwargs)
    if name in WIDENING and not (name.startswith("aten::dropout") and args[2]):
        return widened(tracer, func, args, kwargs)
    if name in FIXED:
        return fixed(tracer, func, args, kwargs)
    return written(tracer, func, args, kwargs) if name in WRITING else NotImplemented
