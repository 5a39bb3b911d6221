"""What is met otherwise where torch takes operators apart: where it records gradients, or transforms functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import Any

import torch
from torch._C._functorch import TransformType
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from lowering.direct.functions.recurrent import lstm_in_steps, packed_in_parts, padded_in_parts, refuse_packed
from lowering.errors import LoweringError
from lowering.records.torch_internals import FUNCTORCH

# ---------------------------------------------------------------------------------------------- when


def is_taken_apart(args: Sequence[Any]) -> bool:
    """Whether a call is to be met below autograd, whose operators are others; inside a transform of torch.func also
    one of plain tensors, which the transform wraps."""
    return any(map(is_transformed, args)) or torch.is_autocast_enabled("cpu") or is_in_transform()


def is_in_transform() -> bool:
    """Whether torch.func transforms what runs, or its forward mode is at work."""
    return forward_ad._current_level >= 0 or torch._C._functorch.maybe_current_level() is not None  # type: ignore[attr-defined]


def is_transformed(given: Any) -> bool:
    """Whether an argument is a tensor whose gradient is recorded, or that torch.func transforms."""
    if isinstance(given, torch.Tensor):
        return (given.requires_grad and torch.is_grad_enabled()) or is_wrapped(given)
    return isinstance(given, list | tuple) and any(map(is_transformed, given))


def is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether a transform of torch.func (vmap, grad) holds a tensor."""
    return FUNCTORCH.is_functorch_wrapped_tensor(tensor)


def is_forward() -> bool:
    """Whether torch's forward mode is at work, in a transform (jvp, jacfwd, hessian, linearize) or by dual numbers."""
    return forward_ad._current_level >= 0


# ---------------------------------------------------------------------------------------------- sizes

QUESTIONS = frozenset((
    torch.ops.aten.size.default, torch.ops.aten.size.int, torch.ops.aten.sym_size.default, torch.ops.aten.sym_size.int,
    torch.ops.aten.numel.default, torch.ops.aten.sym_numel.default, torch.ops.aten.dim.default,
))  # fmt: skip
"""What torch asks of the sizes of a tensor. It asks modes for them also of one that a transform holds."""


def held_by_transforms(tensor: torch.Tensor) -> torch.Tensor:
    """What transforms of torch.func hold a tensor of, of the same sizes; itself where none does, or a batch of it."""
    while is_wrapped(tensor) and FUNCTORCH.maybe_get_bdim(tensor) < 0:
        tensor = FUNCTORCH.get_unwrapped(tensor)
    return tensor


# ---------------------------------------------------------------------------------------------- operators


def max_pool1d_as_2d(x: torch.Tensor, *windows: Any) -> torch.Tensor:
    """aten.max_pool1d, which taken apart makes a number of the length."""
    blank = (1, 1, 0, 1)
    around = [[first, *each] if each else [] for first, each in zip(blank, windows, strict=False)]
    return torch.ops.aten.max_pool2d.default(x.unsqueeze(-2), *around, *windows[len(blank) :]).squeeze(-2)


def scalar_overload(func: Any, args: Sequence[Any]) -> Any:
    """The overload of an operator that takes numbers, where one stands for a tensor and a transform is at work, which
    would wrap it as a tensor, and read the number out of that when it computes the gradient."""
    name = func._overloadname
    if "Tensor" not in name or not is_in_transform():
        return func
    pairs = zip(func._schema.arguments[1:], args[1:], strict=False)
    if not any(isinstance(given, bool | int | float | complex) and str(to.type) == "Tensor" for to, given in pairs):
        return func
    return getattr(func.overloadpacket, name.replace("Tensor", "Scalar"), func)


def layer_norm_in_parts(
    x: torch.Tensor, shape: Sequence[Any], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Any:
    """aten.layer_norm in operators whose derivatives of every order are such themselves; None outside forward mode."""
    if not is_forward():
        return None
    return scaled(normalized(x, [*range(-len(shape), 0)], eps), weight, bias).to(x.dtype)


def group_norm_in_parts(
    x: torch.Tensor, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Any:
    """aten.group_norm, likewise."""
    if not is_forward():
        return None
    apart = x.unflatten(1, (groups, x.shape[1] // groups))
    y = normalized(apart, [*range(2, apart.dim())], eps).flatten(1, 2)
    return scaled(y, *map(as_channels, (weight, bias), (x, x))).to(x.dtype)


def batch_norm_in_parts(
    x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, _: Any, eps: float, *more: Any
) -> Any:
    """aten.batch_norm, likewise; None where it writes its averages, too."""
    if not is_forward() or (training and mean is not None):
        return None
    given = [as_channels(each, x) for each in (weight, bias, mean, var)]
    if training:
        return scaled(normalized(x, [0, *range(2, x.dim())], eps), *given[:2]).to(x.dtype)
    return scaled((wide(x) - given[2]) * torch.rsqrt(wide(given[3]) + eps), *given[:2]).to(x.dtype)


def instance_norm_in_parts(
    x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, _: Any, eps: float, *more: Any
) -> Any:
    """aten.instance_norm, likewise."""
    if not is_forward() or mean is not None or not training:
        return None
    y = normalized(x, [*range(2, x.dim())], eps)
    return scaled(y, *map(as_channels, (weight, bias), (x, x))).to(x.dtype)


def normalized(x: torch.Tensor, axes: list[int], eps: float) -> torch.Tensor:
    """x with mean 0 and variance 1 over axes."""
    centered = wide(x) - wide(x).mean(axes, keepdim=True)
    return centered * torch.rsqrt((centered * centered).mean(axes, keepdim=True) + eps)


def wide(x: torch.Tensor) -> torch.Tensor:
    """x, in float32 where it is narrower: so do torch's kernels compute."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def scaled(x: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
    """x * weight + bias, of those that there are"""
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def as_channels(each: Any, x: torch.Tensor) -> Any:
    """A tensor of one number for each channel of x, the second axis, as one that is broadcast with x; None of None."""
    return None if each is None else each.reshape(1, -1, *[1] * (x.dim() - 2))


def glu_in_parts(x: torch.Tensor, dim: int = -1) -> Any:
    """aten.glu, whose derivative torch computes by operators for this alone, of numbers of sizes."""
    axis, half = dim % x.dim(), x.shape[dim] // 2
    torch._check(x.shape[dim] % 2 == 0, lambda: "Halving dimension must be even")
    parts = x.unflatten(axis, (2, half))
    return parts.select(axis, 0) * parts.select(axis, 1).sigmoid()


def bilinear_in_parts(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> Any:
    """aten.bilinear, which torch takes apart into an operator that makes numbers of sizes in a transform."""
    if not is_in_transform():
        return None
    found = torch.einsum("...i,oij,...j->...o", x, weight, y)
    return found if bias is None else found + bias


def linear_in_parts(x: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> Any:
    """aten.linear of more than rows, of whose sizes torch makes numbers in a transform."""
    if not is_in_transform() or x.dim() < 3 or weight.dim() != 2 or torch.is_autocast_enabled("cpu"):
        return None
    found = torch.matmul(x, weight.t())
    return found if bias is None else found + bias


def sgn_in_parts(x: torch.Tensor) -> Any:
    """aten.sgn of real numbers, of whose derivative torch makes zeros for numbers of sizes."""
    return None if x.is_complex() else x.sign()


def prod_in_parts(x: torch.Tensor, dim: int, keepdim: bool = False, *more: Any) -> Any:
    """aten.prod along an axis of a few elements, by products; torch's derivative of it joins parts by their numbers."""
    if not is_forward() or more or type(x.shape[dim]) is not int or not 0 < x.shape[dim] <= FEW:
        return None
    found = reduce(torch.mul, x.unbind(dim))
    return found.unsqueeze(dim) if keepdim else found


def cross_entropy_in_parts(
    x: torch.Tensor,
    target: torch.Tensor,
    weight: Any = None,
    reduction: int = 1,
    ignored: int = -100,
    smooth: float = 0.0,
) -> Any:
    """aten.cross_entropy_loss of classes; None of probabilities."""
    if not is_forward() or target.is_floating_point() or smooth:
        return None
    return nll_loss_in_parts(x.log_softmax(min(1, x.dim() - 1)), target, weight, reduction, ignored)


def nll_loss_in_parts(
    x: torch.Tensor, target: torch.Tensor, weight: Any = None, reduction: int = 1, ignored: int = -100
) -> Any:
    """aten.nll_loss_nd, whose gradient has no derivative in forward mode but one of numbers of sizes."""
    if not is_forward():
        return None
    axis, skipped = min(1, x.dim() - 1), target == ignored
    places = torch.where(skipped, 0, target)
    torch.ops.aten._assert_async.default(((places >= 0) & (places < x.shape[axis])).all())
    weights = torch.ones_like(places, dtype=x.dtype) if weight is None else weight[places]
    weights = torch.where(skipped, 0, weights)
    losses = -x.gather(axis, places.unsqueeze(axis)).squeeze(axis) * weights
    if reduction == 0:
        return losses
    return losses.sum() if reduction == 2 else losses.sum() / weights.sum()


def batch_norm_back_in_parts(
    gradient: torch.Tensor, x: torch.Tensor, weight: Any, mean: Any, var: Any, saved: Any, inverse: Any,
    training: bool, eps: float, mask: Sequence[bool],
) -> Any:  # fmt: skip
    """aten.native_batch_norm_backward where its own gradient is recorded, for which torch makes numbers of sizes."""
    axes, g = [0, *range(2, x.dim())], wide(gradient)
    if training:
        normal = normalized(x, axes, eps)
        centered = wide(x) - wide(x).mean(axes, keepdim=True)
        factor = torch.rsqrt((centered * centered).mean(axes, keepdim=True) + eps)
    else:
        factor = torch.rsqrt(wide(as_channels(var, x)) + eps)
        normal = (wide(x) - as_channels(mean, x)) * factor
    back = g - g.mean(axes, keepdim=True) - normal * (g * normal).mean(axes, keepdim=True) if training else g
    found = (scaled(back * factor, as_channels(weight, x), None).to(x.dtype), (g * normal).sum(axes), g.sum(axes))
    return tuple(each if asked else None for each, asked in zip(found, mask, strict=True))


def joined_in_parts(function: Callable[..., Any], tensors: Sequence[torch.Tensor], *dim: int) -> Any:
    """aten.cat or aten.stack: torch makes the derivatives of those that have none for numbers of sizes."""
    floats = [each for each in tensors if each.is_floating_point()]
    if not is_forward() or len(floats) < len(tensors) or len(tensors) < 2:
        return None
    nothing = torch.where(torch.zeros((), dtype=torch.bool), reduce(torch.add, [each.sum() for each in floats]), 0.0)
    return function([each - nothing.to(each.dtype) for each in tensors], *dim)


FEW = 64
aten = torch.ops.aten
IN_PARTS: Mapping[Any, Callable[..., Any]] = MappingProxyType({
    aten.max_pool1d.default: max_pool1d_as_2d, aten.lstm.input: lstm_in_steps, aten.glu.default: glu_in_parts,
    aten.layer_norm.default: layer_norm_in_parts, aten.group_norm.default: group_norm_in_parts,
    aten.batch_norm.default: batch_norm_in_parts, aten.instance_norm.default: instance_norm_in_parts,
    aten.bilinear.default: bilinear_in_parts, aten.linear.default: linear_in_parts, aten.sgn.default: sgn_in_parts,
    aten.prod.dim_int: prod_in_parts, aten.cross_entropy_loss.default: cross_entropy_in_parts,
    aten.nll_loss_nd.default: nll_loss_in_parts, aten.native_batch_norm_backward.default: batch_norm_back_in_parts,
    **dict.fromkeys((aten.lstm.data, aten.gru.data, aten.rnn_tanh.data, aten.rnn_relu.data), refuse_packed),
    aten._pack_padded_sequence.default: packed_in_parts, aten._pad_packed_sequence.default: padded_in_parts,
    aten.cat.default: partial(joined_in_parts, torch.cat), aten.stack.default: partial(joined_in_parts, torch.stack),
})  # fmt: skip
"""Operators that are met by others where torch takes operators apart, or not, where that gives None."""


# ---------------------------------------------------------------------------------------------- branches


def is_batched(pred: Any, *_: Any) -> bool:
    """Whether torch.func.vmap is what is at work, and the condition of a branch is a tensor."""
    kind = retrieve_current_functorch_interpreter().key()
    return kind == TransformType.Vmap and isinstance(pred, torch.Tensor)


def where(pred: Any, true: Any, false: Any, operands: Sequence[Any]) -> Any:
    """torch.cond for each of a batch: what both branches give, and of each what its condition chooses. torch's own rule
    does so with the first result, and does not know of tensors that the branches find around them."""
    (chosen, spec), (other, rest) = (pytree.tree_flatten(branch(*operands)) for branch in (true, false))
    if spec != rest:
        raise LoweringError("the branches of torch.cond return different structures", hint="return the same from both")
    pairs = zip(chosen, other, strict=True)
    return pytree.tree_unflatten([torch.where(pred.reshape(()), a, b) for a, b in pairs], spec)
