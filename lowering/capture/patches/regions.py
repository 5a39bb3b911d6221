"""Regions of torch that a direct capture runs in their place: compiled ones, associative scans, and what torch.func
takes in parts or records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from torch._export import wrappers
from torch._functorch import apis, eager_transforms
from torch._higher_order_ops.scan import scan_op
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from lowering.capture.patches.replaced import Replaced, replaced_attributes
from lowering.records.torch_internals import make_fx, samples_of_batch

SCANS = "torch._higher_order_ops.associative_scan"
PLACES = tuple(map(import_module, ("torch._higher_order_ops.invoke_subgraph", SCANS)))  # packages hide them


def regions_run_in_place(unrecorded: bool = False) -> Replaced:
    """A block in which functions that are to be compiled once are called, associative scans go step by step, batches
    are taken whole, and what is linear is computed where it is asked for; `unrecorded` says that gradients would be
    recorded in eager, and are not."""
    regions, scans = PLACES
    return replaced_attributes(
        (regions, "invoke_subgraph_placeholder", called),
        (scans, "generic_associative_scan", scanned_in_order),
        (wrappers, "_emit_flat_apply_call", compute_nothing),
        (apis, "vmap_impl", batched_whole(vars(apis)["vmap_impl"])),
        (eager_transforms, "lazy_dynamo_disallow", put_off),
        (eager_transforms, VJP, recorded(vars(eager_transforms)[VJP], unrecorded)),
    )


def compute_nothing(*args: Any, **kwargs: Any) -> None:
    """Nothing."""


def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the function of a region gives."""
    return function(*args, **kwargs)


def batched_whole(before: Callable[..., Any]) -> Callable[..., Any]:
    """`vmap` of a function: what each sample gives does not hang on how many are taken at once."""

    def vmap_impl(
        func: Any, in_dims: Any, out_dims: Any, randomness: str, chunk_size: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if chunk_size is None or randomness == "same":  # in one chunk, that is
            return before(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)
        size = samples_of_batch(in_dims, args, func)[0]
        torch._check(size >= 1, lambda: "vmap: a batch of no samples has no chunks")
        return before(func, in_dims, out_dims, randomness, None, *args, **kwargs)

    return vmap_impl


VJP = "_vjp_with_argnums"


def recorded(before: Callable[..., Any], unrecorded: bool) -> Callable[..., Any]:
    """`torch.func.vjp`, which has another derivative in forward mode where no gradients are recorded; a run in which
    these are `unrecorded`, and would be recorded in eager, begins anew there, and records."""

    def vjp(*args: Any, **kwargs: Any) -> Any:
        results, pull, *more = before(*args, **kwargs)

        def pulled(*given: Any, **named: Any) -> Any:
            if unrecorded and forward_ad._current_level >= 0 and not torch.is_grad_enabled():
                raise RuntimeError("what torch.func.vjp differentiates in forward mode does not require grad")
            return pull(*given, **named)

        return results, pulled, *more

    return vjp


def put_off(record: Callable[..., Any]) -> Callable[..., Any]:
    """What `torch.func.linearize` calls to record a function, and to fold what is constant in the record: that function
    itself, to which it is given one after the other."""
    if record is make_fx:
        return lambda function: lambda given: lambda *leaves: pytree.tree_leaves(function(leaves))
    return lambda recorded: recorded


def scanned_in_order(
    operator: Callable[..., Any], leaves: Sequence[torch.Tensor], dim: int = 0, additional_inputs: Sequence[Any] = ()
) -> list[torch.Tensor]:
    """The results of an associative scan along the first dimension, one after the other: the same steps for any length.

    `operator` takes the leaves of two stacks of elements, of which one element each is given here.
    """

    def step(*given: torch.Tensor) -> list[torch.Tensor]:
        before, element = given[: len(leaves)], given[len(leaves) :]
        whole = operator(*before, *(each.unsqueeze(0) for each in element), *additional_inputs)
        new = list(whole) if isinstance(whole, tuple | list) else [whole]
        return [*new, *(each.squeeze(0).clone() for each in new)]

    first = [leaf[:1] for leaf in leaves]
    # the operator, and not torch's function of that name, which wants an element
    found = scan_op(step, [each.clone() for each in first], [leaf[1:] for leaf in leaves], ())
    rest = found[len(leaves) :]
    return [torch.cat([one, many]) for one, many in zip(first, rest, strict=True)]
