"""How results lie in memory on a CPU, which is asked where torch's meta device may say otherwise: where operands lie in
another order than that of their axes, and of a few operators always."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from lowering.direct.meta_device.arguments import in_order_steps, laid_out

TOLD_FOR_ANY = frozenset(
    "mm bmm addmm linear matmul embedding reshape reshape_as flatten ravel contiguous to type_as unflatten view_as "
    "expand_as layer_norm log_sigmoid floor_divide item is_nonzero clone _to_copy is_same_size equal".split()
)
"""Operators whose results are told as they lie on a CPU whatever the order of their operands is."""
LAID_OTHERWISE = frozenset("svd linalg_svd _linalg_svd linalg_eig linalg_lstsq nonzero_static".split())
"""Operators of whose results the meta device says wrongly how they lie, also where their operands lie in order."""
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
    ordered = all(each.is_contiguous() and each.stride() == in_order_steps(each) for each in given)
    if ordered and func._schema.name.removeprefix("aten::") not in LAID_OTHERWISE:
        return told
    if any(not each.is_meta for each in given) or has_plain_channels(func, args, given):
        return told
    if func is ATTENTION and isinstance(told, torch.Tensor):
        less = sizes_in_small(given)
        found = on_cpu(func, args, named, partial(numbers_like, less=less))
        if found is not None:
            return laid_out(found, told.shape) if found.stride() != in_order_steps(found) else told
    found = on_cpu(func, args, named)
    several = isinstance(told, tuple | list)
    if found is None or isinstance(found, tuple | list) != several:
        return told
    if not several:
        return laid_as(told, found, given)
    return type(told)(laid_as(one, other, given) for one, other in zip(told, found, strict=True))


def has_plain_channels(func: Any, args: Sequence[Any], given: Sequence[torch.Tensor]) -> bool:
    """Whether a convolution is one of floats in a single group, whose operands lie in order, or with their channels
    last: of these it is told how they lie."""
    names = [each.name for each in func._schema.arguments]
    if "conv" not in func._schema.name or "groups" not in names or not given[0].is_floating_point():
        return False
    place = names.index("groups")
    single = len(args) <= place or args[place] == 1
    last = {4: torch.channels_last, 5: torch.channels_last_3d}
    return single and all(
        each.is_contiguous() or (each.dim() in last and each.is_contiguous(memory_format=last[each.dim()]))
        for each in given
    )


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
