"""Elements at places that are data."""

from __future__ import annotations

from typing import Any

import torch

from lowering.torch_modules.common import number


def wrapped(places: torch.Tensor, size: Any) -> torch.Tensor:
    """Places counted from the front."""
    places = places.long()
    return torch.where(places < 0, places + size, places)


def gather(x: torch.Tensor, places: torch.Tensor, *, axis: int = 0) -> torch.Tensor:
    """Slices of x at places along an axis, in the shape of the places."""
    at = axis % x.dim()
    found = x.index_select(at, wrapped(places, x.shape[at]).reshape(-1))
    return found.reshape(*x.shape[:at], *places.shape, *x.shape[at + 1 :])


def gather_elements(x: torch.Tensor, places: torch.Tensor, *, axis: int = 0) -> torch.Tensor:
    """For each place along an axis the element that stands there."""
    return torch.gather(x, axis, wrapped(places, x.shape[axis]))


def index_tuple(x: torch.Tensor, places: torch.Tensor, batch: int) -> tuple[torch.Tensor, ...]:
    """The places of slices as torch's indices, one for each axis that they have."""
    parts = [wrapped(part, x.shape[batch + i]) for i, part in enumerate(places.unbind(-1))]
    outer = []
    for axis in range(batch):
        shape = [1] * (places.dim() - 1)
        shape[axis] = -1
        outer.append(torch.arange(x.shape[axis]).reshape(shape))
    return (*outer, *parts)


def gather_nd(x: torch.Tensor, places: torch.Tensor, *, batch_dims: int = 0) -> torch.Tensor:
    """The slices of x whose first places are given by the last axis of the places."""
    return x[index_tuple(x, places, batch_dims)]


REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def scatter_elements(
    x: torch.Tensor, places: torch.Tensor, updates: torch.Tensor, *, axis: int = 0, reduction: str = "none"
) -> torch.Tensor:
    """x with elements put at places along an axis, or added to what is there."""
    at = wrapped(places, x.shape[axis])
    if reduction == "none":
        return torch.scatter(x, axis, at, updates)
    return torch.scatter_reduce(x, axis, at, updates, REDUCE[reduction])


def scatter_nd(
    x: torch.Tensor, places: torch.Tensor, updates: torch.Tensor, *, reduction: str = "none"
) -> torch.Tensor:
    """x with slices put at places, or added to what is there."""
    index = index_tuple(x, places, 0)
    if reduction in ("none", "add"):
        return torch.index_put(x, index, updates, accumulate=reduction == "add")
    depth = places.shape[-1]
    flat = torch.zeros((), dtype=torch.int64)
    rows = 1
    for part, size in zip(index, x.shape[:depth], strict=True):
        flat, rows = flat * size + part, rows * size
    inner = x.reshape(rows, -1)
    given = updates.reshape(-1, inner.shape[1])
    at = flat.reshape(-1, 1).expand(given.shape)
    return torch.scatter_reduce(inner, 0, at, given, REDUCE[reduction]).reshape(x.shape)


def compress(x: torch.Tensor, condition: torch.Tensor, *, axis: Any = None) -> torch.Tensor:
    """The slices along an axis for which a condition holds; of all elements where no axis is given."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    return x.index_select(axis, torch.nonzero(condition).reshape(-1))


def nonzero(x: torch.Tensor) -> torch.Tensor:
    """The places of what is not 0, one column for each."""
    return torch.nonzero(x).t()


def one_hot(places: torch.Tensor, depth: Any, values: torch.Tensor, *, axis: int = -1) -> torch.Tensor:
    """The second value at the places along a new axis, else the first."""
    count = int(number(depth))
    at = places.long().remainder(count) if places.is_floating_point() else places.long()
    kept = (at >= -count) & (at < count)
    at = axis_last(wrapped(at, count), kept, count)
    return torch.where(at, values[1], values[0]).movedim(-1, axis)


def axis_last(places: torch.Tensor, kept: torch.Tensor, count: int) -> torch.Tensor:
    """Where each place is along a new last axis."""
    return (places.unsqueeze(-1) == torch.arange(count)) & kept.unsqueeze(-1)


def topk(
    x: torch.Tensor,
    k: Any,
    *,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(the k largest or smallest numbers along an axis, where they are): the first of equal ones."""
    values, places = torch.sort(x, stable=True, dim=axis, descending=bool(largest))
    count = number(k)
    return values.narrow(axis, 0, count), places.narrow(axis, 0, count)


TABLE = {
    "Compress": compress, "Gather": gather, "GatherElements": gather_elements, "GatherND": gather_nd,
    "NonZero": nonzero, "OneHot": one_hot, "ScatterElements": scatter_elements, "ScatterND": scatter_nd, "TopK": topk,
}  # fmt: skip
