"""Numeric comparison of results: the one place that says when two answers are the same.

Everything that shows by numbers that meaning was kept (tests, `check`, oracles) asks `compare`. Another kind, element
type or shape, a NaN or an infinity in one of the two is always a difference; tolerances apply to finite numbers only.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeGuard

import attrs
import numpy as np

from irkit.core.types import DType
from irkit.support.arguments import type_text
from irkit.support.counts import count_text


@attrs.frozen
class Tolerance:
    """A number `a` passes for `e` where |a - e| <= atol + rtol * |e|; of complex numbers these are their lengths."""

    rtol: float = 0.0
    atol: float = 0.0


EXACT = Tolerance()

# Element by element. A few units in the last place for a single operation would be 1e-6 for f32; whole models sum
# thousands of products in another order than their oracle does, which is what these leave room for.
TOLERANCES: Mapping[DType, Tolerance] = MappingProxyType(
    {
        DType.DOUBLE: Tolerance(1e-7, 1e-8),
        DType.COMPLEX128: Tolerance(1e-7, 1e-8),
        DType.FLOAT: Tolerance(1e-4, 1e-5),
        DType.COMPLEX64: Tolerance(1e-4, 1e-5),
        DType.FLOAT16: Tolerance(1e-2, 1e-3),
        DType.BFLOAT16: Tolerance(2e-2, 1e-2),
        # One unit in the last place of the format: 2 ** -mantissa bits.
        DType.FLOAT8E4M3FN: Tolerance(0.125, 0.002),
        DType.FLOAT8E4M3FNUZ: Tolerance(0.125, 0.001),
        DType.FLOAT8E5M2: Tolerance(0.25, 2e-5),
        DType.FLOAT8E5M2FNUZ: Tolerance(0.25, 1e-5),
        DType.FLOAT8E8M0: Tolerance(0.5, 0.0),
        DType.FLOAT6E2M3: Tolerance(0.125, 0.125),
        DType.FLOAT6E3M2: Tolerance(0.25, 0.0625),
        DType.FLOAT4E2M1: Tolerance(0.5, 0.5),
    }
)
"""How far two correct answers may lie apart, by element type. Types that are missing are compared exactly."""


@attrs.frozen
class Difference:
    """Where and how `actual` departs from `expected`.

    `path` leads through nested lists and dicts (`[0]['cache']`), `index` to the worst element of the array, whose two
    values are `expected` and `actual`; `max_abs` and `max_rel` are the largest errors over the finite elements.
    """

    what: str
    path: str = ""
    index: tuple[int, ...] | None = None
    expected: object = None
    actual: object = None
    max_abs: float = 0.0
    max_rel: float = 0.0

    def __str__(self) -> str:
        place = f"at {self.path}: " if self.path else ""
        if self.index is None:
            return f"{place}{self.what}"
        return (
            f"{place}{self.what}; worst at {list(self.index)}: expected {self.expected}, got {self.actual} "
            f"(max abs error {self.max_abs:.3g}, max rel error {self.max_rel:.3g})"
        )


def compare(
    expected: object, actual: object, *, rtol: float | None = None, atol: float | None = None
) -> Difference | None:
    """The first difference between two results, or None where they are the same within tolerance.

    Results are arrays, numbers, strings, None, or lists, tuples and mappings of results; a list passes for a tuple.
    `rtol` and `atol`, where given, stand in for `TOLERANCES` of the element type of floats; integers, booleans and
    strings are compared exactly whatever they say.
    """
    return _compare(expected, actual, rtol, atol, "")


def tolerance(dtype: DType | str, *, rtol: float | None = None, atol: float | None = None) -> Tolerance:
    """The tolerance for an element type, with `rtol` and `atol` in place of its own where they are given."""
    kind = DType.of(dtype)
    if not (kind.is_float or kind.is_complex):
        return EXACT
    base = TOLERANCES.get(kind, EXACT)
    return Tolerance(base.rtol if rtol is None else rtol, base.atol if atol is None else atol)


def _compare(expected: object, actual: object, rtol: float | None, atol: float | None, path: str) -> Difference | None:
    if expected is None or actual is None:
        return None if expected is actual else Difference(f"expected {_kind(expected)}, got {_kind(actual)}", path)
    if not any(_is_mapping(each) or _is_list(each) for each in (expected, actual)):
        return _arrays(np.asarray(expected), np.asarray(actual), rtol, atol, path)
    if _is_mapping(expected) and _is_mapping(actual):
        if set(expected) != set(actual):
            return Difference(f"expected the keys {sorted(map(str, expected))}, got {sorted(map(str, actual))}", path)
        pairs = [(f"{path}[{key!r}]", expected[key], actual[key]) for key in expected]
    elif _is_list(expected) and _is_list(actual):
        if len(expected) != len(actual):
            return Difference(f"expected {count_text(len(expected), 'result')}, got {len(actual)}", path)
        pairs = [(f"{path}[{i}]", e, a) for i, (e, a) in enumerate(zip(expected, actual, strict=True))]
    else:
        return Difference(f"expected {_kind(expected)}, got {_kind(actual)}", path)
    for where, left, right in pairs:
        found = _compare(left, right, rtol, atol, where)
        if found is not None:
            return found
    return None


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    return isinstance(value, list | tuple)


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    if _is_mapping(value) or _is_list(value):
        return f"{type_text(value)} of {len(value)}"
    array = np.asarray(value)
    return f"a {array.dtype} array of shape {array.shape}"


def _arrays(e: np.ndarray, a: np.ndarray, rtol: float | None, atol: float | None, path: str) -> Difference | None:
    kinds = DType.of(e.dtype), DType.of(a.dtype)
    if kinds[0] is not kinds[1]:
        return Difference(f"expected {kinds[0].short} elements, got {kinds[1].short}", path)
    if e.shape != a.shape:
        return Difference(f"expected the shape {e.shape}, got {a.shape}", path)
    if e.size == 0:
        return None
    if kinds[0].is_float or kinds[0].is_complex:
        return _floats(e, a, tolerance(kinds[0], rtol=rtol, atol=atol), path)
    wrong = np.asarray(e != a, dtype=bool)
    if not wrong.any():
        return None
    at = _first(wrong)
    what = f"{int(wrong.sum())} of {wrong.size} elements differ"
    if not kinds[0].is_integer:
        return Difference(what, path, at, e[at], a[at])
    gap = np.abs(e.astype(np.float64) - a.astype(np.float64))
    at = _worst(np.where(wrong, gap, -1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = float(np.where(wrong, gap / np.abs(e.astype(np.float64)), 0.0).max())
    return Difference(what, path, at, e[at], a[at], float(gap.max()), relative)


def _floats(e: np.ndarray, a: np.ndarray, allowed: Tolerance, path: str) -> Difference | None:
    x, y = _parts(e), _parts(a)
    nans = np.isnan(x) != np.isnan(y)
    if nans.any():
        at = _first(nans)[: e.ndim]
        return Difference(f"NaN stands in one of the two at {int(nans.sum())} places", path, at, e[at], a[at])
    finite = np.isfinite(x) & np.isfinite(y)
    with np.errstate(invalid="ignore"):
        infinite = ~finite & ~np.isnan(x) & (x != y)
    if infinite.any():
        at = _first(infinite)[: e.ndim]
        return Difference(f"infinities differ at {int(infinite.sum())} places", path, at, e[at], a[at])
    x, y = np.where(finite, x, 0.0), np.where(finite, y, 0.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        gap, size = np.abs(x - y), np.abs(x)
        if e.dtype.kind == "c":
            gap, size = (np.hypot(v[..., 0], v[..., 1]) for v in (gap, size))
        excess = gap - (allowed.atol + allowed.rtol * size)
        relative = np.where(gap > 0, gap / size, 0.0)
    wrong = excess > 0
    if not wrong.any():
        return None
    at = _worst(excess)[: e.ndim]
    bound = f"{allowed.atol:g} + {allowed.rtol:g} * |expected|"
    what = f"{int(wrong.sum())} of {wrong.size} elements differ by more than {bound}"
    return Difference(what, path, at, e[at], a[at], float(gap.max()), float(relative.max()))


def _parts(array: np.ndarray) -> np.ndarray:
    """The numbers as float64; those of complex arrays with a last axis of real and imaginary part."""
    if array.dtype.kind == "c":
        return np.stack([np.real(array), np.imag(array)], axis=-1).astype(np.float64)
    return array.astype(np.float64)


def _first(where: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(where)[0])


def _worst(amount: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(amount)), amount.shape))
