"""Gradients of what a capture computed: the model runs once more, in torch, when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from lowering.compiled.capture import Capture
from lowering.records.pytrees import register_classes
from lowering.records.torch_internals import pytree


def later_gradients(model: Any, capture: Capture, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of a capture, of which gradients can be asked: for the arguments, and for the weights."""
    result = capture(args, kwargs)
    with register_classes(args, kwargs, result):
        leaves, spec = pytree.tree_flatten((args, kwargs))
        found, out_spec = pytree.tree_flatten(result)
    floats = [
        i for i, x in enumerate(found) if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())
    ]
    given = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.requires_grad]
    sources = [*(leaves[i] for i in given), *capture.trained]

    def again(held: Sequence[torch.Tensor], slopes: Sequence[Any]) -> list[Any]:
        """The gradients for the sources, from those for the results that are floats."""
        fresh = [each.detach().requires_grad_() for each in held[: len(given)]]
        changed = {**dict(enumerate(leaves)), **dict(zip(given, fresh, strict=True))}
        with torch.enable_grad():
            with register_classes(args, kwargs):
                inner_args, inner_kwargs = pytree.tree_unflatten([changed[i] for i in range(len(leaves))], spec)
            outputs = model(*inner_args, **inner_kwargs)
            with register_classes(outputs):
                flat = pytree.tree_leaves(outputs)
            pairs = [(flat[i], slope) for i, slope in zip(floats, slopes, strict=True) if flat[i].requires_grad]
            return list(
                torch.autograd.grad(
                    [y for y, _ in pairs], [*fresh, *held[len(given) :]], [s for _, s in pairs], allow_unused=True
                )
            )

    made = Later.apply(again, tuple(found[i] for i in floats), *sources)
    for i, tensor in zip(floats, made or (), strict=True):
        found[i] = tensor
    with register_classes(result):
        return pytree.tree_unflatten(found, out_spec)


class Later(torch.autograd.Function):
    """Results that are there already, whose gradients a function computes."""

    @staticmethod
    def forward(ctx: Any, again: Any, results: tuple[torch.Tensor, ...], *sources: torch.Tensor) -> Any:
        """The results."""
        ctx.again = again
        ctx.save_for_backward(*sources)
        return tuple(each.view_as(each) for each in results)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        """None for what is no tensor, and the gradients for the sources."""
        return (None, None, *ctx.again(ctx.saved_tensors, slopes))
