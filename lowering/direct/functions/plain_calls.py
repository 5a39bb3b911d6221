"""Calls of torch's functions that come down to one operator, told without the way through torch's dispatcher.

Between `x.transpose(1, 2)` and direct capture, which meets `aten.transpose.int(x, 1, 2)`, torch reads the arguments,
looks for modes and takes the operator's handler: 50 microseconds each, a seventh of what a model of transformers takes
until it is a file. The functions that models call most are told here, where their arguments are plain: a traced tensor,
others beside it, numbers and sizes. Each rule has the arguments of its function, and says which operator torch calls
with which arguments, or nothing, where torch must read them itself.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

ATEN = torch.ops.aten
END = (1 << 63) - 1
"""What torch takes for the end of a slice that has none."""
Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
Rule = Callable[..., "Call | None"]


def plain_call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call | None:
    """(operator, its arguments, those by name) of a call of a function; None where torch must read the arguments, and
    where they do not fit."""
    rule = RULES.get(func)
    told = rule is not None and len(args) > 0 and (are_tensors(args[0]) or rule is counted)
    if rule is None or not told or torch._C._len_torch_function_stack():
        return None  # a mode of the user's around the export sees the calls as well
    try:
        return rule(*args, **kwargs)
    except TypeError:  # arguments that a rule does not have
        return None


def plain_steps(x: Any, index: Any) -> list[tuple[Any, ...]]:
    """The operators and arguments behind the tensor that give x[index] one after the other, where the index consists of
    plain integers, slices, None and an ellipsis; nothing elsewhere, and where it gives all of the tensor."""
    parts = index if type(index) is tuple else (index,)
    axes = sum(1 for part in parts if part is not None and part is not Ellipsis)
    shape = x.shape
    if not is_traced(x) or axes > len(shape) or torch._C._len_torch_function_stack():
        return []
    steps: list[tuple[Any, ...]] = []
    axis, before, whole = 0, 0, True
    for part in parts:
        if part is None:
            steps.append((ATEN.unsqueeze.default, axis))
            axis += 1
        elif part is Ellipsis and whole:
            whole, skipped = False, len(shape) - axes
            axis, before = axis + skipped, before + skipped
        elif type(part) is int:
            steps.append((ATEN.select.int, axis, part))
            before += 1
        elif type(part) is slice and all(end is None or is_int64(end) for end in (part.start, part.stop)):
            start, stop, step = part.start or 0, END if part.stop is None else part.stop, part.step
            if step not in (None, 1) or type(step) is bool:
                return []
            size = shape[before]
            if start != 0 or (stop < size if type(size) is int else stop != END):
                steps.append((ATEN.slice.Tensor, axis, start, stop))
            axis, before = axis + 1, before + 1
        else:
            return []
    return steps


def call(func: Any, *args: Any, **kwargs: Any) -> Call:
    """A call of an operator."""
    return func, args, kwargs


def are_tensors(*given: Any) -> bool:
    """Whether all are tensors of no class that has its own way with torch's functions."""
    return all(type(each) in (torch.nn.Parameter, torch.Tensor) or is_traced(each) for each in given)


def is_traced(given: Any) -> bool:
    """Whether something stands for a tensor while a model is captured."""
    return "stands_for_tensor" in type(given).__dict__


def are_ints(*given: Any) -> bool:
    """Whether all are plain integers."""
    return all(type(each) is int for each in given)


def is_int64(given: Any) -> bool:
    """Whether something is a plain integer of 64 bits."""
    return type(given) is int and -END <= given <= END


def are_sizes(given: Sequence[Any]) -> bool:
    """Whether all are integers, or sizes that vary."""
    return all(type(each) is int or type(each) is torch.SymInt for each in given)


def alone(func: Any, x: Any) -> Call | None:
    """func(x)"""
    return call(func, x)


def with_other(tensor: Any, scalar: Any, x: Any, other: Any) -> Call | None:
    """An operator on two tensors, or on one and a number."""
    if are_tensors(other):
        return call(tensor, x, other)
    plain = type(other) is float or is_int64(other)
    return call(scalar, x, other) if plain and scalar is not None else None


def with_ints(func: Any, count: int, x: Any, *numbers: Any) -> Call | None:
    """func(x, 1, 2)"""
    return call(func, x, *numbers) if len(numbers) == count and are_ints(*numbers) else None


def with_sizes(func: Any, x: Any, *sizes: Any) -> Call | None:
    """func(x, 2, n) or func(x, [2, n])"""
    listed = sizes[0] if len(sizes) == 1 and type(sizes[0]) in (list, tuple, torch.Size) else sizes
    return call(func, x, [*listed]) if listed and are_sizes(listed) else None


def flattened(x: Any, start: int = 0, end: int = -1) -> Call | None:
    """x.flatten(start, end)"""
    return call(ATEN.flatten.using_ints, x, start, end) if are_ints(start, end) else None


def averaged(x: Any, dim: Any, keepdim: bool = False) -> Call | None:
    """x.mean(dim, keepdim)"""
    return call(ATEN.mean.dim, x, [dim], keepdim) if are_ints(dim) and type(keepdim) is bool else None


def moved(x: Any, to: Any) -> Call | None:
    """x.to(dtype) and x.to(device)"""
    if type(to) is torch.dtype:
        return call(ATEN.to.dtype, x, to)
    if type(to) is not torch.device or to.type != "cpu":
        return None
    return call(ATEN.to.dtype_layout, x, dtype=x.dtype, layout=x.layout, device=to)


def converted(to: torch.dtype, x: Any) -> Call | None:
    """x.float() and its like"""
    return call(ATEN.to.dtype, x, to)


def counted(end: Any, *, device: Any = None, dtype: Any = None) -> Call | None:
    """torch.arange(end)"""
    plain = are_sizes([end]) and (device is None or (type(device) is torch.device and device.type == "cpu"))
    named = {"device": device or torch.device("cpu"), "pin_memory": False}
    return (ATEN.arange.default, (end,), named if dtype is None else {"dtype": dtype, **named}) if plain else None


def multiplied(x: Any, weight: Any, bias: Any = None) -> Call | None:
    """F.linear"""
    given = (weight,) if bias is None else (weight, bias)
    return call(ATEN.linear.default, x, *given) if are_tensors(*given) else None


def convolved(
    func: Any, x: Any, weight: Any, bias: Any = None, stride: Any = None, padding: Any = None, dilation: Any = None,
    groups: Any = 1,
) -> Call | None:  # fmt: skip
    """F.conv2d and its like, as modules call them"""
    windows = (stride, padding, dilation)
    if not are_tensors(weight) or not (bias is None or are_tensors(bias)) or type(groups) is not int:
        return None
    if any(type(each) not in (tuple, list) or not are_ints(*each) for each in windows):
        return None
    return call(func, x, weight, bias, *map(list, windows), groups)


def dropped(x: Any, p: Any = 0.5, training: Any = True, inplace: Any = False) -> Call | None:
    """F.dropout, which gives the tensor back but in training"""
    plain = training is False and inplace is False and type(p) is float and 0 <= p <= 1
    return call(ATEN.dropout.default, x, p, False) if plain else None


def normalized(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Call | None:
    """F.layer_norm"""
    given = [each for each in (weight, bias) if each is not None]
    if type(normalized_shape) not in (tuple, list) or not are_ints(*normalized_shape) or type(eps) is not float:
        return None
    return call(ATEN.layer_norm.default, x, [*normalized_shape], weight, bias, eps) if are_tensors(*given) else None


def normalized_by_statistics(
    x: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: Any = False,
    momentum: Any = 0.1, eps: Any = 1e-5,
) -> Call | None:  # fmt: skip
    """F.batch_norm, but in training"""
    given = [each for each in (weight, bias) if each is not None]
    plain = training is False and type(momentum) is type(eps) is float
    if not plain or not are_tensors(running_mean, running_var, *given):
        return None
    rest = (momentum, eps, torch.backends.cudnn.enabled)
    return call(ATEN.batch_norm.default, x, weight, bias, running_mean, running_var, False, *rest)


def looked_up(
    x: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, norm_type: Any = 2.0,
    scale_grad_by_freq: Any = False, sparse: Any = False,
) -> Call | None:  # fmt: skip
    """F.embedding"""
    if not are_tensors(weight) or not (padding_idx is None or type(padding_idx) is int):
        return None
    if max_norm is not None or scale_grad_by_freq is not False or sparse is not False or is_traced(weight):
        return None
    rows = weight.shape[0]
    place = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else padding_idx + rows
    return call(ATEN.embedding.default, weight, x, place) if -1 <= place < rows else None


def softened(x: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Call | None:
    """F.softmax"""
    return call(ATEN.softmax.int, x, dim, *(() if dtype is None else (dtype,))) if are_ints(dim) else None


def softened_along(x: Any, dim: Any, dtype: Any = None) -> Call | None:
    """x.softmax(dim, dtype)"""
    return softened(x, dim, dtype=dtype)


def attended(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: Any = 0.0, is_causal: Any = False, *, scale: Any = None,
    enable_gqa: Any = False,
) -> Call | None:  # fmt: skip
    """F.scaled_dot_product_attention"""
    plain = type(dropout_p) is float and type(is_causal) is bool and enable_gqa is False
    plain = plain and (scale is None or type(scale) is float) and (attn_mask is None or are_tensors(attn_mask))
    if not plain or not are_tensors(k, v):
        return None
    named = {} if scale is None else {"scale": scale}
    return call(ATEN.scaled_dot_product_attention.default, q, k, v, attn_mask, dropout_p, is_causal, **named)


def rectified(x: Any, inplace: Any = False) -> Call | None:
    """F.relu"""
    return call(ATEN.relu.default, x) if inplace is False else None


ALONE = (
    "abs", "neg", "sqrt", "rsqrt", "square", "exp", "log", "sin", "cos", "tanh", "sigmoid", "relu", "erf", "clone",
)  # fmt: skip
AS_TENSORS = "add", "sub", "mul", "div"  # torch takes a number for a tensor here
AS_NUMBERS = "eq", "ne", "lt", "le", "gt", "ge"
KINDS = {
    "float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16,
    "long": torch.int64, "int": torch.int32, "bool": torch.bool,
}  # fmt: skip


def both(name: str, rule: Rule) -> dict[Any, Rule]:
    """A rule for a function and for the method of that name."""
    return {getattr(torch, name): rule, getattr(torch.Tensor, name): rule}


def of_each(names: Sequence[str], rule: Callable[[Any], Rule]) -> dict[Any, Rule]:
    """The rule for functions and methods of these names, made of the operators that are named so."""
    return {func: made for name in names for func, made in both(name, rule(getattr(ATEN, name))).items()}


RULES: Mapping[Any, Rule] = types.MappingProxyType({
    **of_each(ALONE, lambda op: partial(alone, op.default)),
    **of_each(AS_TENSORS, lambda op: partial(with_other, op.Tensor, op.Tensor)),
    **of_each(AS_NUMBERS, lambda op: partial(with_other, op.Tensor, op.Scalar)),
    **of_each(["matmul"], lambda op: partial(with_other, op.default, None)),
    **of_each(["pow"], lambda op: partial(with_other, op.Tensor_Tensor, op.Tensor_Scalar)),
    torch.Tensor.__and__: partial(with_other, ATEN.__and__.Tensor, None),
    torch.Tensor.__or__: partial(with_other, ATEN.__or__.Tensor, None),
    **of_each(["transpose"], lambda op: partial(with_ints, op.int, 2)),
    **of_each(["unsqueeze"], lambda op: partial(with_ints, op.default, 1)),
    **of_each(["squeeze"], lambda op: partial(with_ints, op.dim, 1)),
    **of_each(["reshape", "permute"], lambda op: partial(with_sizes, op.default)),
    torch.Tensor.view: partial(with_sizes, ATEN.view.default),
    torch.Tensor.expand: partial(with_sizes, ATEN.expand.default),
    **both("flatten", flattened), **both("mean", averaged), **both("softmax", softened_along), F.softmax: softened,
    torch.Tensor.to: moved, torch.arange: counted,
    **{getattr(torch.Tensor, name): partial(converted, dtype) for name, dtype in KINDS.items()},
    F.linear: multiplied, F.dropout: dropped, F.layer_norm: normalized, F.batch_norm: normalized_by_statistics,
    F.embedding: looked_up, F.relu: rectified, F.gelu: partial(alone, ATEN.gelu.default),
    F.scaled_dot_product_attention: attended,
    **{getattr(F, f"conv{n}d"): partial(convolved, getattr(ATEN, f"conv{n}d").default) for n in (1, 2, 3)},
})  # fmt: skip
"""What the functions come down to that models call most."""
