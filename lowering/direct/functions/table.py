"""Functions of torch whose numbers are plain integers, which a model calls with sizes.

`F.max_pool1d(x, x.size(2))`, `torch.hann_window(n)` and `torch.triu_indices(n, n)` make torch take the number that the
example has, and the size then varies no more. Two things stand for them where a number among the arguments varies: the
operator itself, handed to its converter as it is, which takes dimensions there; or the same by functions that take
sizes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from lowering.direct.functions.arrays import Array
from lowering.direct.functions.computed_sparse import FROM_PARTS
from lowering.direct.functions.copies import deep_copied, refuse_pickled
from lowering.direct.functions.images import affine_grid, shuffled_pixels, unshuffled_pixels
from lowering.direct.functions.numbers import (
    evenly_spaced,
    frequencies,
    half_frequencies,
    hangs_on_data,
    has_symbols,
    tensor_of,
)
from lowering.direct.functions.orders import combinations_of, powers
from lowering.direct.functions.parts_taken import PARTS
from lowering.direct.functions.pooling import POOLS

ATEN = torch.ops.aten

OPERATORS: Mapping[Any, Any] = types.MappingProxyType({
    torch.Tensor.unfold: ATEN.unfold.default,
    torch.istft: ATEN.istft.default,
    torch.Tensor.istft: ATEN.istft.default,
    F.one_hot: ATEN.one_hot.default,
    torch.logspace: ATEN.logspace.default,
    torch.tril_indices: ATEN.tril_indices.default,
    torch.triu_indices: ATEN.triu_indices.default,
    torch.diagonal: ATEN.diagonal.default,
    torch.Tensor.diagonal: ATEN.diagonal.default,
    torch.diag_embed: ATEN.diag_embed.default,
    torch.Tensor.diag_embed: ATEN.diag_embed.default,
    torch.diag: ATEN.diag.default,
    torch.Tensor.diag: ATEN.diag.default,
    torch.hann_window: ATEN.hann_window.periodic,
    torch.hamming_window: ATEN.hamming_window.periodic_alpha_beta,
    torch.blackman_window: ATEN.blackman_window.periodic,
    torch.bartlett_window: ATEN.bartlett_window.periodic,
})  # fmt: skip
"""The operator behind a function, whose converter takes a dimension where torch takes an integer."""

DEFAULTS: Mapping[Any, Sequence[tuple[str, Any]]] = types.MappingProxyType({
    torch.hann_window: (("periodic", True),),
    torch.hamming_window: (("periodic", True), ("alpha", 0.54), ("beta", 0.46)),
    torch.blackman_window: (("periodic", True),),
    torch.bartlett_window: (("periodic", True),),
})  # fmt: skip
"""What a function takes for arguments that are left out and that its operator wants, behind the first one."""


def tensor_of_sizes(data: Any, dtype: Any = None, **more: Any) -> Any:
    """torch.tensor(data), of nested lists of numbers of which some vary, or of what stands for an array; None where
    torch must take it."""
    if isinstance(data, Array):
        return data.tensor.to(dtype or data.tensor.dtype, copy=True)
    return tensor_of(data, dtype) if has_symbols(data) else None


def tensor_in_place(data: Any, dtype: Any = None, **more: Any) -> Any:
    """torch.as_tensor(data), of an array in its memory; otherwise as `tensor_of_sizes`."""
    return data.tensor.to(dtype or data.tensor.dtype) if isinstance(data, Array) else tensor_of_sizes(data, dtype)


def tensor_like(x: torch.Tensor, data: Any, dtype: Any = None, **more: Any) -> Any:
    """x.new_tensor(data), as `tensor_of_sizes`"""
    return tensor_of_sizes(data, dtype or x.dtype)


def checked_sum_to_size(x: torch.Tensor, *sizes: Any, size: Sequence[Any] = ()) -> None:
    """Asks what x.sum_to_size(*sizes), or of `size`, requires: each that is not 1 is that of the tensor. torch does the
    rest, and gives a tensor of those sizes back as it is, by no operator that would be asked. Raises RuntimeError as
    torch does."""
    wanted = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], Sequence) else (*sizes, *size)
    held = x.shape[x.dim() - len(wanted) :] if len(wanted) <= x.dim() else ()
    for own, number in zip(held, wanted, strict=False):
        if number != own and number != 1:
            raise RuntimeError(f"size {list(wanted)} is not expandable to size {list(x.shape)}.")


def batch_norm(
    x: torch.Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: Any,
    eps: Any, cudnn_enabled: bool = True,
) -> Any:  # fmt: skip
    """torch.batch_norm whose running statistics move by a number that varies, which torch takes as it is for the
    example; None where they do not."""
    if not has_symbols(momentum):
        return None
    if not training or running_mean is None:
        return torch.batch_norm(x, weight, bias, running_mean, running_var, training, 0.0, eps, cudnn_enabled)
    own = running_mean.clone(), running_var.clone()  # which those of the batch take the place of, where it has any
    made = torch.batch_norm(x, weight, bias, *own, training, 1.0, eps, cudnn_enabled)
    part = tensor_of(momentum, torch.float64)
    with torch.no_grad():
        for mean, new in zip((running_mean, running_var), own, strict=True):
            mean.copy_(mean * (1.0 - part) + new * part)
    return made


def checked_batch_norm(
    input: torch.Tensor, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: Any = 0.1, eps: Any = 1e-5,
) -> Any:  # fmt: skip
    """F.batch_norm, as `batch_norm`: it asks first whether a channel has more than one number."""
    if not has_symbols(momentum):
        return None
    if training:
        F.batch_norm(input, None, None, weight, bias, training, 0.0, eps)
    return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


ATTRIBUTES: Mapping[Any, tuple[int, ...]] = types.MappingProxyType({
    F.conv1d: (3, 5), F.conv2d: (3, 5), F.conv3d: (3, 5),
    F.conv_transpose1d: (3, 5, 7), F.conv_transpose2d: (3, 5, 7), F.conv_transpose3d: (3, 5, 7),
})  # fmt: skip
"""Which arguments of a function are attributes in ONNX, though torch takes sizes for them: strides, dilations,
and what is added to the end of a transposed convolution."""
NAMES = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
TRANSPOSED = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")


def with_plain_numbers(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """(args, kwargs) of a call in which the numbers that must be plain are those of the example, which fixes them."""
    places = ATTRIBUTES[func]
    names = {(TRANSPOSED if 7 in places else NAMES)[place] for place in places}
    if not has_symbols(args[3:]) and not has_symbols((*kwargs.values(),)):
        return args, kwargs
    plain = [plain_number(each) if place in places else each for place, each in enumerate(args)]
    return plain, {name: plain_number(each) if name in names else each for name, each in kwargs.items()}


def plain_number(given: Any) -> Any:
    """A number, or several, as plain integers."""
    if isinstance(given, list | tuple):
        return [plain_number(each) for each in given]
    return int(given) if isinstance(given, torch.SymInt) else given


SUMS_TO_SIZE = (torch.Tensor.sum_to_size, ATEN.sum_to_size, ATEN.sum_to_size.default)


FUNCTIONS: Mapping[Any, Callable[..., Any]] = types.MappingProxyType({
    torch.Tensor.__deepcopy__: deep_copied, torch.Tensor.__reduce_ex__: refuse_pickled,
    torch.linspace: evenly_spaced, torch.tensor: tensor_of_sizes, torch.as_tensor: tensor_in_place,
    torch.asarray: tensor_in_place, torch.Tensor.new_tensor: tensor_like, **POOLS,
    torch.fft.fftfreq: frequencies, torch.fft.rfftfreq: half_frequencies,
    F.pixel_shuffle: shuffled_pixels, F.pixel_unshuffle: unshuffled_pixels, F.affine_grid: affine_grid,
    torch.combinations: combinations_of, torch.vander: powers, torch.batch_norm: batch_norm,
    F.batch_norm: checked_batch_norm, **dict.fromkeys(SUMS_TO_SIZE, checked_sum_to_size), **PARTS, **FROM_PARTS,
})  # fmt: skip
"""What gives the same by functions that take sizes; it gives None where it does not serve."""


def operator_with_sizes(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any] | None, dict[str, Any]]:
    """(arguments by position, by name) of the operator for a call of a function with sizes; None for a call that has
    none, or that torch must take."""
    if not (has_symbols(args) or has_symbols((*kwargs.values(),))) or kwargs.get("out") is not None:
        return None, {}
    numbers = (*args, *kwargs.values())
    if func is torch.Tensor.unfold and hangs_on_data(numbers):  # how many windows there are is asked of the example
        return None, {}
    named, given = {key: value for key, value in kwargs.items() if value is not None}, list(args)
    if named.pop("requires_grad", False):
        return None, {}
    names = [argument.name for argument in OPERATORS[func]._schema.arguments]
    for name in names[len(given) : len(given) + 1]:  # in torch's functions the first is named otherwise, at times
        given += [named.pop(each) for each in (name, "input") if each in named][:1]
    for place, (name, number) in enumerate(DEFAULTS.get(func, ()), 1):
        if len(given) == place:
            given.append(named.pop(name, number))
    return given, named
