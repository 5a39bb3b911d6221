"""What a rule that is true of real numbers is held to: its right side is no worse than its left.

Both sides are measured against the left side in float64, over the very numbers that they were given. How far the left
one is off, how far one rounding of an operand moves the result, and a few roundings of the result itself are what the
right one may be off by.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import cast

import attrs
import ml_dtypes
import numpy as np

from irkit.build import const
from irkit.checking.comparison import Difference
from irkit.checking.instances import Retry
from irkit.checking.near_misses import Instead, over, rebuild_over
from irkit.core.attributes import Given
from irkit.core.blobs import Blob, blob
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.core.walk import post_order
from irkit.errors import EvaluateError, IrkitError
from irkit.evaluation.interpreter import evaluate, trace
from irkit.evaluation.kernels.common import Content, Kernel, is_array
from irkit.evaluation.kernels.table import KERNELS
from irkit.support.tracebacks import is_told

__tracebackhide__ = is_told

ROUNDINGS = 8
"""How many roundings of the result the right side may be off by, whatever the left one is."""
WORSE = 4
"""How many times as far as the left side the right one may be off."""
MOVED = 8
"""How many times as far as a rounding of the operands moves the result the right side may be off by."""
UNMEASURED = 4
"""How many times as much all that is, where nothing is wider than the left side, and it is its own reference."""
SUMMANDS = 8
"""Sums of more are rounded more often, as the root of how many there are, in an order that nobody lays down."""
TRIES = 8
"""How often the operands are rounded to see how far that moves the result."""

SHAKES = 32
"""How often the operators round once more where that is needed. Two roundings in a row are whole steps of the element
type, and undo one another every second time: for one of many elements they may do so in a few tries running."""

SEVERAL = 4.0
"""By how many roundings numbers are moved in their own element type."""

HARDLY = 2.0**-16
"""What part of a rounding hardly moves a number: in float64 it still does."""

ABOVE_ZERO = ("Exp", "Softmax", "Sigmoid", "Softplus")
"""Operators whose results are above zero, unless they are too small for their element type."""

NAMES_OF_TYPES = ("to", "dtype", "output_dtype", "output_datatype")
"""Attributes that say an element type."""


@cache
def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next number of an element type of floats."""
    return float(ml_dtypes.finfo(dtype.numpy).eps)


@cache
def largest(dtype: DType) -> float:
    """The largest number of an element type of floats."""
    return float(ml_dtypes.finfo(dtype.numpy).max)


@cache
def least(dtype: DType) -> float:
    """The smallest normal number of an element type of floats."""
    return float(ml_dtypes.finfo(dtype.numpy).smallest_normal)


def is_narrow(value: Value) -> bool:
    """True for a tensor of floats of fewer than 64 bits."""
    return isinstance(value.type, Tensor) and value.dtype.is_float and value.dtype is not DType.DOUBLE


def wide(blob_: Blob) -> Value:
    """A constant in float64."""
    return const(blob_.array.astype(np.float64))


def widened(
    params: Sequence[Value], old: Sequence[Value], moved: np.random.Generator | None = None, by: float = 1.0
) -> Graph | None:
    """The values over float64 wherever they are over narrower floats, casts and constants included; None where an
    operator does not take it. Where `moved`, the numbers in constants are rounded up or down once, or by part of that.
    """
    order = post_order([*params, *old])
    instead: Instead = {}
    for value in order:
        if value.op == PARAM and is_narrow(value):
            instead[value] = param(Tensor(DType.DOUBLE, value.shape))
        elif value.op == CONSTANT and value.blob is not None and value.dtype.is_float and (moved or is_narrow(value)):
            array = value.blob.array.astype(np.float64)
            instead[value] = const(array if moved is None else nudged_numbers(array, value.dtype, moved, by))
        else:
            attributes = _wide_attributes(value)
            if attributes is not None:
                instead[value] = over(value, value.op, attributes)
    try:
        built = rebuild_over(order, instead)
        return Graph(tuple(built[p] for p in params), tuple(built[v] for v in old))
    except (IrkitError, Retry, KeyError, TypeError, ValueError):
        return None


def _wide_attributes(value: Value) -> Given | None:
    """The attributes that say float64 where they said a narrower float; None where there is no such attribute."""
    attributes = dict(value.attributes)
    found = {}
    for name, content in attributes.items():
        if name in NAMES_OF_TYPES and type(content) is int and content in list(DType) and DType(content).is_float:
            found[name] = int(DType.DOUBLE)
        elif value.op == "ConstantOfShape" and isinstance(content, Blob) and content.dtype.is_float:
            found[name] = blob(content.array.astype(np.float64))
    return {**attributes, **found} if found else None


def nudged_numbers(array: np.ndarray, dtype: DType, rng: np.random.Generator, by: float = 1.0) -> np.ndarray:
    """Numbers, each moved by one rounding of the element type that they come from or a little less, up or down; zeros
    stay. Subnormal numbers lie as far apart as the smallest normal ones. All that times `by`."""
    size = np.abs(array)
    step = np.where(size < least(dtype), np.where(size > 0, least(dtype), 0.0), size)
    # if all moved by one rounding, those of two summands would cancel every second time
    each = rng.choice((-1.0, 1.0), array.shape) * rng.uniform(0.6, 1.0, array.shape)
    return array + by * epsilon(dtype) * step * each


@attrs.frozen(eq=False)
class Reference:
    """The left side in float64: `graph` over the widened parameters, the `arrays` that it is given, and its `results`.
    The left side itself was `fed` the same numbers."""

    params: tuple[Value, ...]
    old: tuple[Value, ...]
    graph: Graph | None
    fed: tuple[Content, ...]
    arrays: tuple[Content, ...]
    results: tuple[Content, ...]

    @classmethod
    def of(
        cls,
        params: tuple[Value, ...],
        old: tuple[Value, ...],
        arrays: Sequence[Content],
        expected: Sequence[np.ndarray],
    ) -> Reference:
        """The reference for what the left side gives. Where float64 cannot be had, or is what the left side computes
        in, the left side itself is the reference."""
        graph, given = None, _wide_arrays(arrays)
        if any(is_narrow(v) for v in post_order(old)):
            graph = widened(params, old)
        results = None if graph is None else _computed(graph, given)
        if (
            graph is None
            or results is None
            or any(np.shape(a) != np.shape(b) for a, b in zip(results, expected, strict=True))
        ):
            return cls(params, old, None, tuple(arrays), tuple(arrays), tuple(expected))
        return cls(params, old, graph, tuple(arrays), given, results)

    @property
    def is_wide(self) -> bool:
        """Whether it is more precise than the left side."""
        return self.graph is not None

    @property
    def step(self) -> float:
        """By how many roundings operands are moved. Where they stay in their element type, one is a whole step: of two
        operands that are each moved by one, what they come to would not move every second time."""
        return 1.0 if self.is_wide else SEVERAL

    @property
    def longest(self) -> int:
        """The largest size of an operand: of so many numbers there may be a sum."""
        arrays = [a for a in self.fed if is_array(a)]
        arrays += [v.blob.array for v in post_order(self.old) if v.op == CONSTANT and v.blob is not None]
        return max((n for a in arrays for n in a.shape), default=1)

    @property
    def is_spent(self) -> bool:
        """Whether a number on the way to the left side's results is beyond the range of its element type: then they say
        what they do for want of range."""
        found = traced_values(self.params, self.old, self.fed)
        return found is not None and (
            not is_real_made(found, found)
            or any(v.op in ABOVE_ZERO and not np.all(array) and _are_finite(v, found) for v, array in found.items())
        )

    def nearby(self, rng: np.random.Generator) -> Iterator[tuple[tuple[Content, ...], tuple[Content, ...]]]:
        """The results for operands and constants moved by `step`, up or down, several times over, and beside each
        what they differ from: the results for what is hardly moved that way, so that a jump at the very numbers that
        are fed, as Round has it at a half, is no difference."""
        for _ in range(TRIES):
            seed = int(rng.integers(1 << 32))
            found = self.moved(np.random.default_rng(seed), self.step)
            hardly = self.moved(np.random.default_rng(seed), HARDLY) if self.is_wide else self.results
            if found is not None and hardly is not None:
                yield found, hardly

    def moved(self, rng: np.random.Generator, by: float) -> tuple[Content, ...] | None:
        """The results for operands and constants that are moved by a rounding, or by part of one."""
        arrays = [
            nudged_numbers(a.astype(np.float64), p.dtype, rng, by).astype(a.dtype) if _is_floats(a, p) else a
            for a, p in zip(self.arrays, self.params, strict=True)
        ]
        graph = widened(self.params, self.old, rng, by) if self.is_wide or _has_constants(self.old) else None
        return _computed(Graph(self.params, self.old) if graph is None else graph, arrays)

    def shaken(self, rng: np.random.Generator) -> Iterator[tuple[Content, ...]]:
        """What the left side gives where each of its operators rounds once more, several times over."""
        for _ in range(SHAKES):
            found = _computed(Graph(self.params, self.old), self.fed, Rounding(rng))
            if found is not None:
                yield found


MOST_ELEMENTS = 2**24
"""How many elements a check computes at most for one side of a rule: the near miss of a loop may go on for ever, and
the ends of integers are drawn for sizes as well."""


def traced_values(
    params: Sequence[Value], values: Sequence[Value], arrays: Sequence[Content]
) -> Mapping[Value, Content] | None:
    """What the evaluator makes of each value; None where it makes nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            return trace(Graph(tuple(params), tuple(values)), arrays, most=MOST_ELEMENTS)
        except EvaluateError:
            return None


def is_real_made(values: Iterable[Value], found: Mapping[Value, Content]) -> bool:
    """False where one of the values holds NaN or an infinity that no operand of it held, nor a constant: a division by
    zero, the root of a negative number, a sum beyond the range of its element type. What is fed counts as made."""
    return not any(
        v.op != CONSTANT and not _is_finite(found.get(v)) and _are_finite(v, found) for v in values if v in found
    )


def _are_finite(value: Value, found: Mapping[Value, Content]) -> bool:
    return all(_is_finite(found.get(v)) for v in value.inputs if v is not None)


def _is_finite(array: Content) -> bool:
    if not is_array(array) or not DType.of(array.dtype).is_float:
        return True
    return bool(np.isfinite(array.astype(np.float64)).all())


class Rounding(Mapping[str, Kernel]):
    """The kernels of the evaluator, each of which rounds its result once more, up or down: how far what a side computes
    is off by itself, where nothing wider tells it."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __getitem__(self, name: str) -> Kernel:
        kernel = KERNELS[name]
        return lambda *given, **named: self.rounded(kernel(*given, **named))

    def __iter__(self) -> Iterator[str]:
        return iter(KERNELS)

    def __len__(self) -> int:
        return len(KERNELS)

    def rounded(self, result: Content) -> Content:
        """What a kernel gave, its floats rounded once more."""
        if isinstance(result, tuple):
            return tuple(map(self.rounded, cast("tuple[Content, ...]", result)))
        if result is None or isinstance(result, list):
            return cast(Content, result)
        array = np.asarray(result)
        if array.dtype.kind not in "fV":
            return result
        return nudged_numbers(array.astype(np.float64), DType.of(array.dtype), self.rng).astype(array.dtype)


def _has_constants(old: Sequence[Value]) -> bool:
    return any(v.op == CONSTANT and isinstance(v.type, Tensor) and v.dtype.is_float for v in post_order(old))


def _is_floats(array: Content, value: Value) -> bool:
    return is_array(array) and isinstance(value.type, Tensor) and value.dtype.is_float


def _wide_arrays(arrays: Sequence[Content]) -> tuple[Content, ...]:
    return tuple(a.astype(np.float64) if is_array(a) and DType.of(a.dtype).is_float else a for a in arrays)


def _computed(
    graph: Graph, arrays: Sequence[Content], kernels: Mapping[str, Kernel] = KERNELS
) -> tuple[np.ndarray, ...] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            return evaluate(graph, arrays, kernels=kernels, most=MOST_ELEMENTS)
        except EvaluateError:
            return None


def worse(
    reference: Reference, index: int, left: np.ndarray, right: np.ndarray, rng: np.random.Generator
) -> Difference | None:
    """How the right side's result number `index` is worse than the left one's, as a Difference; None where it is not.

    Places where the left side, or the reference, is not a number are left out: of them real numbers say nothing.
    """
    kind = DType.of(left.dtype)
    exact = np.asarray(reference.results[index]).astype(np.float64)
    x, y = left.astype(np.float64), right.astype(np.float64)
    told = np.isfinite(x) & np.isfinite(exact) & (np.abs(exact) < largest(kind))
    slack = (1 if reference.is_wide else UNMEASURED) * max(1.0, reference.longest / SUMMANDS) ** 0.5
    with np.errstate(all="ignore"):
        off, allowed = np.abs(y - exact), np.abs(x - exact) * WORSE
        allowed = allowed + slack * ROUNDINGS * (epsilon(kind) * np.abs(exact) + epsilon(kind) * least(kind))
        bad = told & ~(off <= allowed)
        if not bad.any():
            return None
        moved = ((*each, slack * MOVED / reference.step) for each in reference.nearby(rng))
        shaken = ((each, reference.results, WORSE) for each in reference.shaken(rng))
        for each, base, factor in chain(moved, shaken):
            one, other = (np.asarray(found[index]).astype(np.float64) for found in (each, base))
            if one.shape == other.shape == exact.shape:
                allowed = np.fmax(allowed, factor * np.abs(one - other))
            bad = told & ~(off <= allowed)
            if not bad.any():
                return None
    if not reference.is_wide and reference.is_spent:
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return Difference(_said(reference, x[at], y[at], exact[at], int(bad.sum()), bad.size), "", at, left[at], right[at])


def _said(reference: Reference, left: float, right: float, exact: float, count: int, size: int) -> str:
    many = f"{count} of {size} elements are" if size > 1 else "it is"
    if not reference.is_wide:
        return f"{many} off by more than roundings explain"
    return (
        f"{many} off by more than roundings explain: in float64 the left side is {exact:.17g}, from which the left one "
        f"is off by {abs(left - exact):.3g}, the right one by {abs(right - exact):.3g}"
    )
