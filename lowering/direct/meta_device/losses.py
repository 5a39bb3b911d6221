"""What tells that a loss is one number, on the meta device: torch tells it by all operators that a loss is made of."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from lowering.direct.meta_device.arguments import with_defaults


def alike(*tensors: Any) -> bool:
    """Whether all are tensors of floats on the meta device, of one shape and type."""
    x = tensors[0]
    every = all(isinstance(each, torch.Tensor) and each.is_meta and each.dtype is x.dtype for each in tensors)
    return every and x.is_floating_point() and all(each.shape == x.shape for each in tensors)


def is_one(reduction: Any) -> bool:
    """Whether a loss is one number: the mean, or the sum, of all."""
    return reduction in (1, 2)


def of_elements_alike(func: Any, count: int, place: int, *args: Any, **named: Any) -> torch.Tensor:
    """What a loss gives that goes over the elements of so many tensors of one shape; its reduction is the argument at
    a place, and the mean where it is left out."""
    reduction = args[place] if len(args) > place else 1
    x, weights = args[0], [each for each in args[count:place] if isinstance(each, torch.Tensor)]
    fits = all(each.dtype is x.dtype and each.dim() < 2 and each.shape in ((), (1,), x.shape[-1:]) for each in weights)
    plain = fits and is_one(reduction) and alike(*args[:count])
    return x.new_empty(()) if plain else func(*args, **named)


def lost(func: Any, x: torch.Tensor, y: torch.Tensor, *rest: Any) -> torch.Tensor:
    """What a loss gives that compares two tensors element by element, of equal shapes that lie in order."""
    known = len(rest) < 2 or (isinstance(rest[1], float) and rest[1] > 0)  # another beta or delta may be refused
    plain = known and alike(x, y) and (rest[:1] in ((), (1,), (2,)) or (x.is_contiguous() and y.is_contiguous()))
    return x.new_empty(() if not rest or rest[0] else x.shape) if plain else func(x, y, *rest)


def by_class(func: Any, x: torch.Tensor, classes: torch.Tensor, weight: Any = None, *rest: Any) -> torch.Tensor:
    """What cross_entropy_loss and nll_loss_nd give of whole numbers for classes, as one number."""
    plain = x.is_meta and x.dim() > 1 and x.is_floating_point() and classes.dtype is torch.int64
    plain = plain and classes.shape == x.shape[:1] + x.shape[2:] and 0 not in x.shape
    fits = weight is None or (weight.shape == x.shape[1:2] and weight.dtype is x.dtype)
    return x.new_empty(()) if plain and fits and (not rest or is_one(rest[0])) else func(x, classes, weight, *rest)


def by_margin(x: torch.Tensor, classes: torch.Tensor, *rest: Any) -> torch.Tensor:
    """What multi_margin_loss gives of rows, as one number."""
    p, _, weight, reduction = with_defaults(rest, 1, 1, None, 1)
    plain = x.is_meta and x.dim() == 2 and x.is_floating_point() and 0 not in x.shape and classes.dtype is torch.int64
    if plain and classes.shape == x.shape[:1] and weight is None and p in (1, 2) and is_one(reduction):
        return x.new_empty(())
    return aten.multi_margin_loss.default(x, classes, *rest)


def margins(x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    """What multilabel_margin_loss gives on a CPU, of one row without an axis, while on the meta device it has one; it
    takes classes of 64 bits alone."""
    torch._check(target.dtype is torch.int64, lambda: f"multilabel_margin_loss: classes of {target.dtype}")
    rows = x.is_meta and x.dim() == 2 and x.is_floating_point() and x.shape == target.shape and 0 not in x.shape
    if rows and is_one(reduction):
        return x.new_empty(())
    result = aten.multilabel_margin_loss.default(x, target, reduction)
    return result.new_empty(()) if target.dim() < 2 else result


def of_pairs(
    x: torch.Tensor, y: torch.Tensor, target: torch.Tensor, margin: float = 0.0, reduction: int = 1
) -> torch.Tensor:
    """What cosine_embedding_loss gives of rows, as one number."""
    if alike(x, y) and x.dim() == 2 and target.is_meta and target.shape == x.shape[:1] and is_one(reduction):
        return x.new_empty((), dtype=torch.promote_types(x.dtype, target.dtype))
    return aten.cosine_embedding_loss.default(x, y, target, margin, reduction)


def of_rows(func: Any, x: torch.Tensor, y: torch.Tensor, *rest: Any) -> torch.Tensor:
    """What cosine_similarity and pairwise_distance give of tensors of one shape that lie in order: a number for each
    row, whose axis is left out."""
    distance = func is aten.pairwise_distance.default
    axis = -1 if distance else (rest[0] if rest else 1)
    keeps = distance and len(rest) > 2 and rest[2]
    plain = alike(x, y) and x.dim() > 0 and -x.dim() <= axis < x.dim() and x.is_contiguous() and y.is_contiguous()
    if not plain:
        return func(x, y, *rest)
    shape = list(x.shape)
    shape[axis : axis % x.dim() + 1] = [1] if keeps else []
    return x.new_empty(shape)


aten = torch.ops.aten
LOSSES = aten.l1_loss.default, aten.mse_loss.default, aten.smooth_l1_loss.default, aten.huber_loss.default
ALIKE = {
    aten.binary_cross_entropy.default: (2, 3), aten.binary_cross_entropy_with_logits.default: (2, 4),
    aten.triplet_margin_loss.default: (3, 7), aten.hinge_embedding_loss.default: (2, 3),
    aten.poisson_nll_loss.default: (2, 5), aten.margin_ranking_loss.default: (3, 4), aten.kl_div.default: (2, 2),
    aten.soft_margin_loss.default: (2, 2),
}  # fmt: skip
"""Losses that go over the elements of tensors, with how many these are, and the place of the reduction."""
LOST = {
    **{func: partial(lost, func) for func in LOSSES},
    **{func: partial(of_elements_alike, func, *each) for func, each in ALIKE.items()},
    **{func: partial(by_class, func) for func in (aten.cross_entropy_loss.default, aten.nll_loss_nd.default)},
    **{func: partial(of_rows, func) for func in (aten.cosine_similarity.default, aten.pairwise_distance.default)},
    aten.multi_margin_loss.default: by_margin, aten.multilabel_margin_loss.default: margins,
    aten.cosine_embedding_loss.default: of_pairs,
}  # fmt: skip
"""What tells the results of losses."""
