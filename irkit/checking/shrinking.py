"""Counterexamples made small: fewer operators, dimensions, elements, plainer numbers, as long as the rule is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np
import sympy

from irkit import dims
from irkit.build import const
from irkit.checking.accuracy import MOST_ELEMENTS
from irkit.checking.counterexamples import Counterexample
from irkit.checking.instances import Retry
from irkit.checking.near_misses import Instead, Made, rebuild_over, vector_over
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT, PARAM, SHAPE_VECTOR
from irkit.core.walk import post_order
from irkit.dims import Dim
from irkit.errors import IrkitError
from irkit.evaluation.interpreter import trace
from irkit.evaluation.kernels.common import Content, is_array
from irkit.support.tracebacks import is_told

__tracebackhide__ = is_told

MOST = 400
"""How many smaller instances are tried."""
SECONDS = 4.0
"""For how long that goes on at most, on the processor."""
LONG = 8
"""What a dimension that is a symbol counts as."""
FEW = 24
"""Arrays of up to so many elements are made plainer element by element."""


@attrs.frozen(eq=False)
class Smaller:
    """An instance: the roots, and what each of its parameters is fed; None where the numbers are not the matter."""

    roots: tuple[Value, ...]
    arrays: Mapping[Value, Content] | None

    @property
    def params(self) -> tuple[Value, ...]:
        """The parameters."""
        return tuple(v for v in post_order(self.roots) if v.op == PARAM)

    def size(self) -> tuple[int, int, int, int, float]:
        """What is to become smaller: operators, ranks, elements, symbols, and how odd the numbers are."""
        order = post_order(self.roots)
        leaves = [v for v in order if v.op in (PARAM, CONSTANT) and isinstance(v.type, Tensor)]
        contents = [v.blob.array for v in leaves if v.op == CONSTANT and v.blob is not None]
        contents += [a for a in (self.arrays or {}).values() if isinstance(a, np.ndarray)]
        symbols = {s for v in leaves for d in v.shape for s in dims.symbols_of(d)}
        odd = sum(oddness(a) for a in contents) + sum(v.dtype is not DType.FLOAT for v in leaves)
        static = sum(d if type(d) is int else LONG for v in leaves for d in v.shape)
        return (
            sum(v.op not in (PARAM, CONSTANT) for v in order),
            sum(v.rank for v in leaves),
            sum(a.size for a in contents) + static,
            len(symbols),
            odd,
        )


def oddness(array: np.ndarray) -> float:
    """How many elements are neither 0 nor 1, those that are no small whole numbers counted twice."""
    if array.dtype.kind not in "fiuV" or not array.size:
        return 0.0
    wide = array.astype(np.float64).reshape(-1)
    plain = (wide == 0) | (wide == 1)
    whole = np.isfinite(wide) & (wide == np.round(wide)) & (np.abs(wide) < 10)
    signed = np.signbit(wide) & (wide == 0)
    return float(np.sum(~plain) + np.sum(~whole) + 0.5 * np.sum(signed))


Test = Callable[[Smaller], Any]
"""The error where the rule is still wrong in the same way; None where it is not."""


def shrunk(found: Smaller, error: Counterexample, test: Test) -> Counterexample:
    """The error of the smallest instance that was found; `error` itself where there is none smaller."""
    tried, until = 0, time.thread_time() + SECONDS
    best, size, again = found, found.size(), True
    while again:
        again = False
        for candidate in candidates(best):
            if tried >= MOST or time.thread_time() > until:
                return error
            if candidate.size() >= size:
                continue
            tried += 1
            failure = test(candidate)
            if failure is not None:
                best, size, error, again = candidate, candidate.size(), failure, True
                break
    return error


def candidates(found: Smaller) -> Iterator[Smaller]:
    """Instances that are smaller in one way, the largest steps first; those that cannot be built are left out."""
    for step in STEPS:
        yield from (candidate for candidate in step(found) if candidate is not None)


def changed(found: Smaller, instead: Mapping[Value, Value | Made], arrays: Mapping[Value, Content]) -> Smaller | None:
    """The instance with other values for some; `arrays` are the numbers of new parameters. None where that cannot be
    built."""
    try:
        built = rebuild_over(post_order(found.roots), dict(instead))
    except (IrkitError, Retry, ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError):
        return None
    roots = tuple(built[r] for r in found.roots)
    if any(type(r) is not Value for r in roots):
        return None
    if found.arrays is None:
        return Smaller(roots, None)
    known = {**found.arrays, **arrays}
    used = [v for v in post_order(roots) if v.op == PARAM]
    return Smaller(roots, {v: known[v] for v in used}) if all(v in known for v in used) else None


# ---------------------------------------------------------------------------------------------- steps


def operands_for_operators(found: Smaller) -> Iterator[Smaller | None]:
    """A parameter in the place of an operator below the roots"""
    values: Mapping[Value, Content] = {}
    if found.arrays is not None:
        params = found.params
        try:
            values = trace(Graph(params, found.roots), [found.arrays[p] for p in params], most=MOST_ELEMENTS)
        except IrkitError:
            return
    for value in reversed(post_order(found.roots)):
        if value.op in (PARAM, CONSTANT, SHAPE_VECTOR) or value in found.roots or not isinstance(value.type, Tensor):
            continue
        own = param(value.type)
        yield changed(found, {value: own}, {own: values[value]} if value in values else {})


def sizes_for_symbols(found: Smaller) -> Iterator[Smaller | None]:
    """A number for each symbol"""
    symbols = {s for v in found.params if isinstance(v.type, Tensor) for d in v.shape for s in dims.symbols_of(d)}
    sizes: dict[sympy.Symbol, int] = {}
    for value, array in (found.arrays or {}).items():
        if isinstance(value.type, Tensor):
            sizes.update({d: n for d, n in zip(value.shape, np.shape(array), strict=True) if d in symbols})
    yield resized(found, lambda d: dims.substitute(d, sizes) if sizes else d, lambda array: array)


def smaller_sizes(found: Smaller) -> Iterator[Smaller | None]:
    """A smaller number for a size, wherever it stands"""
    sizes: set[int] = set()
    for value in post_order(found.roots):
        if value.op in (PARAM, CONSTANT) and isinstance(value.type, Tensor):
            sizes.update(d for d in value.shape if type(d) is int and d > 1)
    for array in (found.arrays or {}).values():
        sizes.update(n for n in np.shape(array) if n > 1)
    for size in sorted(sizes, reverse=True):
        for less in sorted({1, 2, size // 2, size - 1} & set(range(1, size))):
            for start in dict.fromkeys((0, size - less, (size - less) // 2)):
                yield resized(found, partial(_less, size, less), partial(_cut, size, start, less))


def _less(size: int, less: int, dim: Dim) -> Dim:
    """`less` for a dimension that is `size`; of a symbol only the numbers that are fed say what it is."""
    return less if type(dim) is int and dim == size else dim


def _cut(size: int, start: int, less: int, array: np.ndarray) -> np.ndarray:
    """The `less` elements from `start` on, along each axis of `size`."""
    return array[tuple(slice(start, start + less) if n == size else slice(None) for n in np.shape(array))]


def resized(found: Smaller, dim: Callable[[Dim], Dim], cut: Callable[[np.ndarray], np.ndarray]) -> Smaller | None:
    """The instance with every dimension changed by one function and every array by another."""
    instead: Instead = {}
    arrays: dict[Value, Content] = {}
    for value in post_order(found.roots):
        if value.op == PARAM and isinstance(value.type, Tensor):
            own = instead[value] = param(Tensor(value.dtype, tuple(dim(d) for d in value.shape)))
            if found.arrays is not None:
                arrays[own] = cut(found.arrays[value])
        elif value.op == CONSTANT and value.blob is not None and value.rank:
            instead[value] = const(np.ascontiguousarray(cut(value.blob.array)))
        elif value.op == SHAPE_VECTOR and len(value.attributes) == 1:
            sizes = tuple(dim(d) for d in value.attributes[0][1])
            instead[value] = vector_over(sizes)
    return changed(found, instead, arrays)


def fewer_dimensions(found: Smaller) -> Iterator[Smaller | None]:
    """The first or the last dimension left out, of all parameters and constants or of one"""
    leaves = [v for v in post_order(found.roots) if v.op in (PARAM, CONSTANT) and isinstance(v.type, Tensor) and v.rank]
    groups = [leaves, *([v] for v in leaves)] if len(leaves) > 1 else [leaves]
    given: Mapping[Value, Content] = found.arrays or {}
    for group in groups:
        for last in (False, True):
            instead: Instead = {}
            arrays: dict[Value, Content] = {}
            for value in group:
                array: Content = value.blob.array if value.blob is not None else given.get(value)
                if array is not None and not np.shape(array)[-1 if last else 0]:
                    break
                less = None if array is None else np.asarray(array[..., 0] if last else array[0])
                if value.op == CONSTANT:
                    instead[value] = const(np.array(less))
                else:
                    own = param(Tensor(value.dtype, value.shape[:-1] if last else value.shape[1:]))
                    instead[value] = own
                    if less is not None:
                        arrays[own] = less
            else:
                yield changed(found, instead, arrays)


def single_precision(found: Smaller) -> Iterator[Smaller | None]:
    """float32 for each other element type"""
    kinds = {v.dtype for v in found.params if isinstance(v.type, Tensor)} - {DType.FLOAT, DType.BOOL}
    for kind in sorted(kinds):
        instead: Instead = {}
        arrays: dict[Value, Content] = {}
        for value in post_order(found.roots):
            if not isinstance(value.type, Tensor) or value.dtype is not kind or kind is DType.STRING:
                continue
            with np.errstate(all="ignore"):
                if value.op == PARAM:
                    own = instead[value] = param(Tensor(DType.FLOAT, value.shape))
                    if found.arrays is not None:
                        arrays[own] = _narrowed(found.arrays[value])
                elif value.op == CONSTANT and value.blob is not None:
                    instead[value] = const(_narrowed(value.blob.array))
        yield changed(found, instead, arrays)


def _narrowed(array: np.ndarray) -> np.ndarray:
    """The numbers as float32; complex ones without their imaginary part."""
    return np.real(array).astype(np.float32) if array.dtype.kind == "c" else np.asarray(array).astype(np.float32)


def plainer_numbers(found: Smaller) -> Iterator[Smaller | None]:
    """0 or 1, a whole number, or one digit after the point, for all numbers of an array or for one of them"""
    for value in post_order(found.roots):
        if value.op == CONSTANT and value.blob is not None and value.dtype.is_float:
            for plain in _plainer(value.blob.array):
                yield changed(found, {value: const(plain)}, {})
    yield from plainer_everywhere(found)
    for value, array in (found.arrays or {}).items():
        if is_array(array):
            for plain in _plainer(array):
                yield Smaller(found.roots, {**(found.arrays or {}), value: plain})


def plainer_everywhere(found: Smaller) -> Iterator[Smaller]:
    """1, 0 or 2 for a number, wherever parameters hold it"""
    arrays = {v: a for v, a in (found.arrays or {}).items() if is_array(a) and a.dtype.kind in "fiuV"}
    wide = {v: a.astype(np.float64) for v, a in arrays.items() if 0 < a.size <= FEW}
    for number in sorted({n for a in wide.values() for n in np.abs(a).reshape(-1).tolist() if np.isfinite(n)})[:FEW]:
        for other in (1.0, 0.0, 2.0):
            if other != number:
                with np.errstate(all="ignore"):
                    plain = {v: np.where(np.abs(a) == number, np.copysign(other, a), a) for v, a in wide.items()}
                    cast = {v: a.astype(arrays[v].dtype) for v, a in plain.items()}
                yield Smaller(found.roots, {**(found.arrays or {}), **cast})


def _plainer(array: np.ndarray) -> Iterator[np.ndarray]:
    if array.dtype.kind not in "fiuV" or not array.size:
        return
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        for plain in (np.zeros_like(wide), np.ones_like(wide), np.round(wide), np.round(wide, 1)):
            yield np.where(np.isfinite(wide), plain, wide).astype(array.dtype)
        for at in np.ndindex(array.shape) if array.size <= FEW else ():
            number = wide[at]
            for other in (0.0, 1.0, np.round(number), np.round(number, 1), 2.0, -1.0):
                if other != number and np.isfinite(other):
                    one = array.copy()
                    one[at] = np.asarray(other).astype(array.dtype)
                    yield one


STEPS: Sequence[Callable[[Smaller], Iterator[Smaller | None]]] = (
    operands_for_operators, sizes_for_symbols, fewer_dimensions, smaller_sizes, single_precision, plainer_numbers,
)  # fmt: skip
"""The ways in which an instance becomes smaller."""
