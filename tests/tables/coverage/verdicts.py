"""Results that differ from torch's and are right all the same: what must be shown before a measure says so.

Four things can be shown. In float16 and bfloat16, that torch is no nearer to the result: where the two differ, irkit's
number lies no further from the float64 evaluation of the same inputs than torch's, or within one unit in the last place
of it. In float32, that torch is off: all of irkit's numbers agree with that evaluation within the tolerance that holds
everywhere, and torch's do not. Of operators whose kernels in torch are off in float64 too, the same against numbers
from elsewhere (`REFERENCES`), in float64 as well. And where places in a sort are a result whose order of equal elements
torch leaves open, that the same elements stand at both. Everything else stays a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import ml_dtypes
import mpmath
import numpy as np
import torch
from torch.utils import _pytree as pytree

from irkit.checking.comparison import compare, tolerance
from irkit.core.types import DType
from tests.lowering.aten.oracle import Case, array, op_case, tensors_of

HALVES = {torch.float16: np.dtype(np.float16), torch.bfloat16: np.dtype(ml_dtypes.bfloat16)}
WIDENED = frozenset((*HALVES, torch.float32))
NO_NEARER = "torch is no nearer to the float64 result"
OFF = "torch is off the float64 result, irkit is not"
OFF_THERE_TOO = "torch is off, in float64 too, irkit is not"
EQUALS = "other places of equal elements"

ORDERED = {"sort": 0, "argsort": 0, "mode": 0, "topk": 1, "kthvalue": 1}
"""Operators that say where elements stand, and which of their arguments behind the tensor is the dimension."""

VALUES_FIRST = frozenset(("sort", "mode", "topk", "kthvalue"))
"""Those whose first result is the elements, the second their places."""


def by_digits(function: Callable[[float], Any]) -> Callable[[Any], Callable[[torch.Tensor], torch.Tensor]]:
    """What computes each element with 30 digits, in the place of any call."""

    def elementwise(x: torch.Tensor) -> torch.Tensor:
        with mpmath.workdps(30):
            return torch.tensor([float(function(float(n))) for n in x.flatten()], dtype=torch.float64).reshape(x.shape)

    return lambda call: elementwise


def bessel_y1(x: float) -> Any:
    """Y of order 1: -inf at 0, NaN below"""
    return mpmath.bessely(1, x) if x > 0 else -np.inf if x == 0 else np.nan


def of_wide_images(call: Callable[..., Any]) -> Callable[[torch.Tensor], Any]:
    """The call on images of width 1 as on those that are twice as wide, of which one column is the result."""
    return lambda x: call(torch.cat([x, x], -1))[..., :1] if x.shape[-1] == 1 else call(x)


REFERENCES: Mapping[str, Callable[[Any], Callable[..., Any]]] = {
    "special.bessel_j0": by_digits(lambda x: mpmath.besselj(0, x)),  # torch is off by 2e-7
    "special.bessel_y1": by_digits(bessel_y1),  # torch is off by 3e-7
    "_upsample_bilinear2d_aa": of_wide_images,  # of width 1, torch repeats one row
}
"""Operators whose kernels are off in float64 too, and what gives their results, made of torch's own call."""


@attrs.frozen(eq=False)
class Sampled(Case):
    """A sample call that can also be made in float64, and that knows the dimension it puts in order.

    `certain` says that `exact` is right where torch's kernel is off in float64 as well. `meant` says of other arguments
    whether torch, which does not ask, reads and writes nothing but their elements.
    """

    exact: Callable[..., Any] | None = None
    meant: Callable[..., bool] | None = None
    name: str = ""
    dim: int | None = None
    certain: bool = False


def sampled(info: Any, sample: Any) -> Sampled:
    """A sample of an operator as a module of its tensors."""
    case = op_case(info, sample)
    leaves = pytree.tree_leaves(((sample.input, *sample.args), sample.kwargs))
    narrow = any(doubled(leaf) is not leaf for leaf in leaves)
    reference = REFERENCES.get(info.name)
    exact = op_case(info, sample.transform(doubled)).model if narrow or reference else None
    exact = reference(exact) if reference else exact
    at = ORDERED.get(info.name)
    dim = None if at is None else sample.kwargs.get("dim", sample.args[at] if len(sample.args) > at else -1)
    return Sampled(case.model, case.args, case.kwargs, case.words, exact, None, info.name, dim, reference is not None)


def doubled(leaf: Any) -> Any:
    """A tensor or element type of floating point in float64; anything else as it is."""
    if isinstance(leaf, torch.dtype):
        return torch.float64 if leaf in WIDENED else leaf
    return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.dtype in WIDENED else leaf


def verdict(case: Case, args: Sequence[torch.Tensor], expected: Any, actual: Any) -> str:
    """What shows that `actual` is right though it differs from torch's `expected`; empty where nothing does."""
    if not isinstance(case, Sampled) or case.exact is None:
        return ""
    theirs, ours = ([array(t) for t in tensors_of(found)] for found in (expected, actual))
    if [(a.dtype, a.shape) for a in theirs] != [(a.dtype, a.shape) for a in ours]:
        return ""
    if case.dim is not None:
        return EQUALS if are_equal_elements(case, args[0], theirs, ours) else ""
    with torch.no_grad():
        try:
            exact = [array(t) for t in tensors_of(case.exact(*(doubled(a).clone() for a in args)))]
        except Exception:  # torch has no such kernel in float64
            return ""
    return shown_by(exact, theirs, ours, case.certain)


def shown_by(exact: list[np.ndarray], theirs: list[np.ndarray], ours: list[np.ndarray], certain: bool = False) -> str:
    """What the float64 evaluation shows of results that differ; empty where that is nothing."""
    if [a.shape for a in exact] != [a.shape for a in ours]:
        return ""
    shown = {shown_of(e, a, x, certain) for e, a, x in zip(theirs, ours, exact, strict=True)}
    return next((words for words in ("", OFF, OFF_THERE_TOO, NO_NEARER) if (words or None) in shown), "")


def shown_of(theirs: np.ndarray, ours: np.ndarray, exact: np.ndarray, certain: bool) -> str | None:
    """What shows that one result is right; "same" where it is torch's, None where nothing shows it. In float64 `exact`
    must be `certain`."""
    if compare(theirs, ours) is None:
        return "same"
    if theirs.dtype in set(HALVES.values()):
        return NO_NEARER if is_no_nearer(theirs, ours, exact.astype(np.float64)) else None
    if theirs.dtype != np.float32 and not (certain and theirs.dtype == np.float64):
        return None
    with np.errstate(over="ignore"):
        right = compare(exact.astype(theirs.dtype), ours) is None
    return (OFF_THERE_TOO if certain else OFF) if right else None


def is_no_nearer(theirs: np.ndarray, ours: np.ndarray, exact: np.ndarray) -> bool:
    """Whether torch's numbers are nowhere nearer to the exact ones where the two differ by more than is allowed.

    Ours passes at such a place where its error is at most torch's, or one unit in the last place of the exact number,
    or where it is what the exact number is as a half: infinite beyond the largest, NaN for NaN.
    """
    e, a = theirs.astype(np.float64), ours.astype(np.float64)
    allowed = tolerance(DType.of(theirs.dtype))
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = exact.astype(theirs.dtype).astype(np.float64)
        same = (np.abs(e - a) <= allowed.atol + allowed.rtol * np.abs(e)) | (e == a) | (np.isnan(e) & np.isnan(a))
        mine, other = np.abs(a - exact), np.abs(e - exact)
        right = (mine <= unit(exact, theirs.dtype)) | (a == rounded) | (np.isnan(a) & np.isnan(exact))
        right |= np.isfinite(mine) & ~(mine > np.where(np.isnan(other), np.inf, other))
    return bool((same | right).all())


def unit(exact: np.ndarray, dtype: Any) -> np.ndarray:
    """One unit in the last place of each number as a half; 0 where it is none."""
    info = ml_dtypes.finfo(dtype)
    finite = np.where(np.isfinite(exact), np.abs(exact), 0.0)
    _, exponent = np.frexp(np.maximum(finite, float(info.smallest_normal)))
    return np.where(np.isfinite(exact), np.ldexp(1.0, exponent - 1 - info.nmant), 0.0)


def are_equal_elements(case: Sampled, x: torch.Tensor, theirs: list[np.ndarray], ours: list[np.ndarray]) -> bool:
    """Whether the same elements stand at both results' places, and none is named twice."""
    if x.dim() == 0 or case.dim is None or ", stable=True" in case.words:
        return False
    if case.name in VALUES_FIRST and compare(theirs[0], ours[0]) is not None:
        return False
    table, axis = array(x).astype(np.float64), case.dim % x.dim()
    first, second = (
        found[-1] if found[-1].ndim == x.dim() else np.expand_dims(found[-1], axis) for found in (theirs, ours)
    )
    if second.min(initial=0) < 0 or second.max(initial=0) >= table.shape[axis]:
        return False
    alike = compare(np.take_along_axis(table, first, axis), np.take_along_axis(table, second, axis), rtol=0.0, atol=0.0)
    ordered = np.sort(second, axis)
    return alike is None and bool((np.diff(ordered, axis=axis) > 0).all())
