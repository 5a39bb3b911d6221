"""How results lie in memory on a CPU, which is asked where torch's meta device may say otherwise: where operands lie in
another order than that of their axes, and of a few operators always."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

TOLD_FOR_ANY = frozenset(
    "mm bmm addmm linear matmul embedding reshape reshape_as flatten ravel contiguous to type_as unflatten view_as "
    "expand_as item is_nonzero clone _to_copy is_same_size equal".split()
)
"""Operators whose results are told as they lie on a CPU whatever the order of their operands is."""
LAID_OTHERWISE = frozenset("svd linalg_svd _linalg_svd linalg_eig linalg_lstsq geqrf nonzero_static".split())
"""Operators of whose results the meta device says wrongly how they lie, also where their operands lie in order."""
TAKING_PLACES = frozenset(
    "index index_select gather take take_along_dim scatter scatter_add scatter_reduce index_add index_copy index_fill "
    "index_put index_reduce nll_loss nll_loss2d nll_loss_nd cross_entropy_loss multi_margin_loss put "
    "multilabel_margin_loss max_unpool2d max_unpool3d bucketize searchsorted batch_norm stack cat where "
    "floor_divide true_divide divide multiply subtract rsub ldexp float_power isclose".split()
)
"""Operators that take whole numbers beside others, and zeros for these: the kernels of others read wherever they are
told, as that of lu_unpack, and may end the process."""
ATTENTION = torch.ops.aten.scaled_dot_product_attention.default


def is_asked_for(func: Any) -> bool:
    """Whether how the results of an operator lie must be asked where operands lie in no order: they are new, or the
    operator is put together of others."""
    schema = func._schema
    space, _, name = schema.name.partition("::")
    views = any(each.alias_info is not None for each in schema.returns)
    return space == "aten" and bool(schema.returns) and not views and name not in TOLD_FOR_ANY


def laid_as_on_cpu(func: Any, args: Sequence[Any], named: Mapping[str, Any], told: Any) -> Any:
    """What an operator gives for arguments on the meta device, which tells the sizes, laid out as on a CPU."""
    given = list(tensors_in((args, tuple(named.values()))))
    if all(map(lies_in_order, given)) and func._schema.name.removeprefix("aten::") not in LAID_OTHERWISE:
        return told
    if any(not each.is_meta for each in given) or not takes_zeros(func, given):
        return told
    found = asked_of_cpu(func, args, named, told, given)
    several = isinstance(told, tuple | list)
    if found is None or isinstance(found, tuple | list) != several:
        return told
    if not several:
        return laid_as(told, found, given)
    return type(told)(laid_as(one, other, given) for one, other in zip(told, found, strict=True))


def takes_zeros(func: Any, given: Sequence[torch.Tensor]) -> bool:
    """Whether an operator takes zeros for each whole number that it is given."""
    whole = [each for each in given if each.dtype in (torch.int64, torch.int32)]
    name = func._schema.name.removeprefix("aten::")
    return len(whole) in (0, len(given)) or torch.Tag.pointwise in func.tags or name in TAKING_PLACES


def lies_in_order(x: torch.Tensor) -> bool:
    """Whether a tensor lies in order, its axes of one element, too."""
    return x.is_contiguous() and x.stride() == in_order_steps(x)


def asked_of_cpu(func: Any, args: Sequence[Any], named: Mapping[str, Any], told: Any, given: Sequence[Any]) -> Any:
    """What lies as the results of an operator do; of attention, and of what is large, it is asked at the smallest sizes
    at which that goes, as it takes long."""
    if func is ATTENTION or sum(each.numel() for each in given) > LARGE:
        found = on_cpu(func, args, named, partial(numbers_like, less=sizes_in_small(given)))
        if isinstance(found, torch.Tensor) and isinstance(told, torch.Tensor) and found.dim() == told.dim():
            return laid_out(found, told.shape)
    return on_cpu(func, args, named)


LARGE = 1 << 20
"""How many elements operands have together that are not asked of as they are."""


def laid_as(told: Any, found: Any, given: Sequence[torch.Tensor]) -> Any:
    """A result as it is told, with the steps that are found; itself where these are equal, or it is a view of what was
    given."""
    if not isinstance(told, torch.Tensor) or not isinstance(found, torch.Tensor) or found.shape != told.shape:
        return told
    memory = told.untyped_storage()._cdata
    shares = any(memory == each.untyped_storage()._cdata for each in given)
    if shares == (found._base is not None) and (shares or told.stride() == found.stride()):
        return told
    return torch.empty_strided(found.shape, found.stride(), dtype=told.dtype, device="meta")


# ---------------------------------------------------------------------------------------------- on numbers


def on_cpu(
    func: Any, args: Sequence[Any], named: Mapping[str, Any], like: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> Any:
    """What an operator gives for zeros that lie as the arguments do, or for matrices of ones along their diagonal where
    it refuses zeros; None where it refuses these, too."""
    for fill in (zeros_like, diagonals_like) if like is None else (like,):
        try:
            with torch.random.fork_rng(devices=[]):
                values = {name: with_numbers(each, fill) for name, each in named.items()}
                return func(*[with_numbers(each, fill) for each in args], **values)
        except (RuntimeError, IndexError, ValueError, TypeError):  # of which NotImplementedError is one
            continue
    return None


def with_numbers(given: Any, like: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """An argument whose tensors have numbers."""
    if isinstance(given, torch.Tensor):
        return like(given)
    if isinstance(given, list | tuple):
        return type(given)(with_numbers(each, like) for each in given)
    return torch.device("cpu") if isinstance(given, torch.device) else given


def zeros_like(x: torch.Tensor) -> torch.Tensor:
    """Zeros on a CPU that lie as a tensor does."""
    last = sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
    return torch.zeros(last + 1 if x.numel() else 0, dtype=x.dtype).as_strided(x.shape, x.stride())


def diagonals_like(x: torch.Tensor) -> torch.Tensor:
    """The same with ones along the diagonal of its matrices."""
    made = zeros_like(x)
    if x.dim() > 1 and x.numel() and 0 not in x.stride():
        made.diagonal(0, -2, -1).fill_(1)
    return made


def laid_out(like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A tensor on the meta device of another shape whose axes lie in memory in the order of a tensor's."""
    steps = like.stride()
    order = sorted(range(len(steps)), key=lambda axis: -steps[axis])
    made = torch.empty([shape[axis] for axis in order], dtype=like.dtype, device="meta")
    return made.permute([order.index(axis) for axis in range(len(order))])


def in_order_steps(x: torch.Tensor) -> tuple[int, ...]:
    """The strides of a tensor as it is laid out in order."""
    steps = [1]
    for size in reversed(x.shape[1:]):
        steps.append(steps[-1] * max(size, 1))
    return tuple(reversed(steps)) if x.dim() else ()


def numbers_like(x: torch.Tensor, less: Mapping[int, int]) -> torch.Tensor:
    """Zeros of other sizes that lie in the same order."""
    return zeros_like(laid_out(x, [less[size] for size in x.shape]))


def sizes_in_small(given: Sequence[torch.Tensor]) -> dict[int, int]:
    """The sizes of tensors, from 2 on as small as can be: those that differ do so still, in the same order."""
    sizes = sorted({size for each in given for size in each.shape} | {0, 1})
    return {size: place for place, size in enumerate(sizes)}


def tensors_in(given: Any) -> Iterator[torch.Tensor]:
    """The tensors among arguments."""
    for each in given:
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, list | tuple):
            yield from tensors_in(each)
