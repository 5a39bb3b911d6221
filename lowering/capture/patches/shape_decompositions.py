"""Operators whose own kernels in torch ask for sizes as numbers, as Python functions of other operators.

torch records these operators whole. Their shapes come from these functions while the model is captured, and so does
what they are made of afterwards: sizes stay symbols, and what must hold of them is said to torch, as a guard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

Tensor = torch.Tensor


def gradient(x: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> list[Tensor]:
    """The results of aten.gradient: central differences along each dimension, one-sided ones of `edge_order` at its
    ends. `spacing` is a number, a list of numbers, or a list of vectors of coordinates, one for each dimension.

    A dimension must be longer than `edge_order`, and as long as its coordinates are many.
    """
    axes = list(range(x.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    steps = list(spacing) if isinstance(spacing, list | tuple) else [1 if spacing is None else spacing] * len(axes)
    torch._check(len(steps) == len(axes), lambda: "gradient: as many spacings as dimensions are wanted")
    torch._check(edge_order in (1, 2), lambda: "gradient: edge_order must be 1 or 2")
    found = []
    for axis, step in zip((a % x.dim() for a in axes), steps, strict=True):
        size = x.shape[axis]
        torch._check(size >= edge_order + 1, lambda: "gradient: a dimension must be longer than edge_order")
        if isinstance(step, Tensor):
            torch._check(step.shape[0] == size, lambda: "gradient: there must be a coordinate for every element")
            found.append(uneven(x, step, axis, edge_order))
        else:
            found.append(even(x, step, axis, edge_order))
    return found


def even(x: Tensor, step: Any, axis: int, order: int) -> Tensor:
    """Differences along an axis whose elements lie `step` apart."""

    def at(start: int, stop: int | None = None) -> Tensor:
        return torch.ops.aten.slice(x, axis, start, stop)

    if order == 1:
        first, last = (at(1, 2) - at(0, 1)) / step, (at(-1) - at(-2, -1)) / step
    else:
        first = (-1.5 * at(0, 1) + 2 * at(1, 2) - 0.5 * at(2, 3)) / step
        last = (0.5 * at(-3, -2) - 2 * at(-2, -1) + 1.5 * at(-1)) / step
    middle = (at(2) - at(0, -2)) / step / 2
    return torch.cat((first, middle, last), axis)


def uneven(x: Tensor, coordinates: Tensor, axis: int, order: int) -> Tensor:
    """Differences along an axis whose elements lie at these coordinates."""

    def at(start: int, stop: int | None = None) -> Tensor:
        return torch.ops.aten.slice(x, axis, start, stop)

    gaps = coordinates[1:] - coordinates[:-1]
    shape = [1] * x.dim()
    shape[axis] = -1
    before, after = gaps[:-1], gaps[1:]
    a = (-after / (before * (before + after))).reshape(shape)
    b = ((after - before) / (before * after)).reshape(shape)
    c = (before / (after * (before + after))).reshape(shape)
    middle = a * at(0, -2) + b * at(1, -1) + c * at(2)
    if order == 1:
        first, last = (at(1, 2) - at(0, 1)) / gaps[0], (at(-1) - at(-2, -1)) / gaps[-1]
        return torch.cat((first, middle, last), axis)
    p, q = gaps[0], gaps[1]
    first = (-(2 * p + q) / (p * (p + q))) * at(0, 1) + ((p + q) / (p * q)) * at(1, 2) + (-p / (q * (p + q))) * at(2, 3)
    p, q = gaps[-2], gaps[-1]
    last = (q / (p * (p + q))) * at(-3, -2) + (-(p + q) / (p * q)) * at(-2, -1)
    last = last + ((p + 2 * q) / (q * (p + q))) * at(-1)
    return torch.cat((first, middle, last), axis)


def trapezoids(y: Tensor, gaps: Any, dim: int, reduced: Callable[..., Tensor]) -> Tensor:
    """Means of neighbours along a dimension, summed up, times the gaps between them: numbers or differences of x. Of
    nothing, the sum has the element type of y."""
    size = y.shape[dim]
    if reduced is torch.sum and type(size) is int and size == 0:
        return torch.sum(y, dim, dtype=y.dtype)
    kinds = [each.dtype for each in (y, gaps) if isinstance(each, Tensor)]
    torch._check(torch.bool not in kinds, lambda: "trapezoid: numbers are wanted")
    if reduced is torch.sum and not isinstance(gaps, Tensor):
        return (torch.sum(y, dim) - both_ends(y, dim) * 0.5) * gaps  # as torch does it, by which infinite ends are NaN
    pairs = torch.ops.aten.slice(y, dim, 0, -1) + torch.ops.aten.slice(y, dim, 1)
    if isinstance(gaps, Tensor):
        return reduced(pairs * gaps, dim) / 2.0
    return (gaps / 2.0) * reduced(pairs, dim)


def both_ends(y: Tensor, dim: int) -> Tensor:
    """The sum of the first element and the last along a dimension; of none, 0."""
    if type(y.shape[dim]) is int:
        return y.select(dim, 0) + y.select(dim, -1)
    return torch.sum(torch.cat((torch.ops.aten.slice(y, dim, 0, 1), torch.ops.aten.slice(y, dim, -1)), dim), dim)


def gaps_of(y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The differences of x along a dimension of y: of a vector for it, or of a tensor whose last dimensions are y's."""
    if x.dim() == 1:
        torch._check(x.shape[0] == y.shape[dim], lambda: "trapezoid: there must be one x for every element")
        x = x.reshape([-1 if i == dim % y.dim() else 1 for i in range(y.dim())])
    elif x.dim() < y.dim():
        x = x[(None,) * (y.dim() - x.dim())]
    return torch.ops.aten.slice(x, dim, 1) - torch.ops.aten.slice(x, dim, 0, -1)


def trapezoid_x(y: Tensor, x: Tensor, *, dim: int = -1) -> Tensor:
    """The result of aten.trapezoid.x"""
    return trapezoids(y, gaps_of(y, x, dim), dim, torch.sum)


def trapezoid_dx(y: Tensor, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The result of aten.trapezoid.dx"""
    return trapezoids(y, dx, dim, torch.sum)


def cumulative_trapezoid_x(y: Tensor, x: Tensor, *, dim: int = -1) -> Tensor:
    """The result of aten.cumulative_trapezoid.x"""
    return trapezoids(y, gaps_of(y, x, dim), dim, torch.cumsum)


def cumulative_trapezoid_dx(y: Tensor, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The result of aten.cumulative_trapezoid.dx"""
    return trapezoids(y, dx, dim, torch.cumsum)


def cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """The result of aten.cov: covariances of the rows of x, whose columns count as often as `fweights` say, and weigh
    as much as `aweights` say. Weights must not be negative, nor add up to 0."""
    torch._check(x.dim() <= 2, lambda: "cov: at most two dimensions are taken")
    torch._check(x.dtype is not torch.bool, lambda: "cov: numbers are wanted")
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    given = [each for each in (fweights, aweights) if each is not None]
    for weights in given:
        torch._check(weights.dim() <= 1 and weights.numel() == rows.shape[1], lambda: "cov: a weight for each column")
        torch.ops.aten._assert_async.msg((weights >= 0).all(), "cov: weights are not negative")
    torch._check(fweights is None or not fweights.is_floating_point(), lambda: "cov: fweights must be integers")
    torch._check(aweights is None or aweights.is_floating_point(), lambda: "cov: aweights must be floats")
    if not given:
        whole, weighed = torch.scalar_tensor(rows.shape[1], dtype=torch.int64), rows
        return covariances(rows, weighed, whole, whole - correction)
    told = "cov: torch writes 0 into its input where one column is weighed, which no program does"
    torch._check(len(given) == 2 or rows.shape[1] != 1, lambda: told)
    both = given[0] * given[1] if len(given) == 2 else given[0]
    whole = both.sum()
    torch.ops.aten._assert_async.msg(whole != 0, "cov: the weights do not add up to 0")
    lost = correction * (both * aweights).sum() / whole if aweights is not None and correction else correction
    return covariances(rows, both, whole, whole - lost)


def covariances(rows: Tensor, weights: Tensor, whole: Tensor, freedom: Tensor) -> Tensor:
    """Products of the rows without their means, summed by these weights (the rows themselves where there are none), and
    divided by the degrees of freedom."""

    def weighed(each: Tensor) -> Tensor:
        return each if weights is rows else each * weights

    centred = rows - (weighed(rows).sum(1) / whole).unsqueeze(1)
    return (torch.mm(centred, weighed(centred).t().conj()) / freedom.clamp(min=0)).squeeze()


def corrcoef(x: Tensor) -> Tensor:
    """The result of aten.corrcoef: covariances of the rows of x, divided by the deviations of both."""
    covariance = cov(x)
    if not covariance.dim():
        return covariance / covariance
    if not covariance.is_complex():
        return correlations(covariance, covariance.diag())
    variances = covariance.diag().real
    return torch.complex(correlations(covariance.real, variances), correlations(covariance.imag, variances))


def correlations(covariance: Tensor, variances: Tensor) -> Tensor:
    """Covariances divided by the deviations of both, which rounding must not carry beyond 1."""
    deviations = torch.sqrt(variances)
    return (covariance / deviations.unsqueeze(1) / deviations.unsqueeze(0)).clamp(-1, 1)


aten = torch.ops.aten
WRITTEN: Mapping[Any, Callable[..., Any]] = MappingProxyType(
    {getattr(aten.gradient, overload): gradient for overload in aten.gradient.overloads()}
    | {
        aten.corrcoef.default: corrcoef,
        aten.cov.default: cov,
        aten.trapezoid.x: trapezoid_x,
        aten.trapezoid.dx: trapezoid_dx,
        aten.trapz.x: trapezoid_x,
        aten.trapz.dx: trapezoid_dx,
        aten.cumulative_trapezoid.x: cumulative_trapezoid_x,
        aten.cumulative_trapezoid.dx: cumulative_trapezoid_dx,
    }
)
"""What each operator is made of."""
