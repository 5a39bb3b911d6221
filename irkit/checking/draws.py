"""Random numbers for the parameters of instances: what breaks rules is drawn often."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import sympy

from irkit import dims
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from irkit.evaluation.kernels.common import Content

ZEROS = 0.25
"""How many arrays of real numbers hold zeros, and at how many places."""
NOTHING: Mapping[Value, Any] = MappingProxyType({})
STRINGS = ("", "a", "b c", "A", "a\n", "é")
LARGE, SMALL = 100.0, 1e-3
"""What some arrays of a rule that is true of real numbers are scaled by; of 8 and 16 bits they are not."""


def numbers(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], special: bool = False) -> np.ndarray:
    """Random elements of any element type.

    Mostly they are of moderate size. Where `special`, floats also hold NaN, infinities, zeros of both signs, the ends
    of their range, subnormal numbers and numbers beside 1. Without it floats are real numbers, of one of several
    scales, or integers and halves. Integers hold the ends of their range now and then, and small numbers of both signs.
    """
    if dtype is DType.BOOL:
        return np.asarray(rng.random(shape) < 0.5)
    if dtype is DType.STRING:
        return np.asarray(rng.choice(np.array(STRINGS, dtype=object), shape), dtype=object)
    if dtype.is_complex:
        half = DType.FLOAT if dtype is DType.COMPLEX64 else DType.DOUBLE
        parts = numbers(rng, half, shape, special), numbers(rng, half, shape, special)
        found = np.empty(shape, dtype.numpy)
        found.real, found.imag = parts
        return found
    if dtype.is_integer:
        return integers(rng, dtype, shape, special)
    with np.errstate(all="ignore"):
        found = np.asarray(reals(rng, dtype, shape)).astype(dtype.numpy)  # numpy makes numbers of arrays without axes
        if not special or not found.size:
            return found
        odd = rng.random(shape) < rng.choice([0.1, 0.3, 0.3, 0.6])
        return np.where(odd, rng.choice(specials(dtype), shape), found).astype(dtype.numpy)


def integers(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], special: bool) -> np.ndarray:
    """Small integers, and the ends of the range among them where `special`."""
    low, high = ends(dtype)
    found = rng.integers(max(low, -4), min(high, 4) + 1, shape)
    if special and rng.random() < 0.7:
        odd = rng.random(shape) < 0.2
        edges = np.array([low, high, high - 1, low + 1, high // 2 + 1], dtype=object)
        chosen = rng.choice(edges, shape)
        return np.where(odd, chosen, found.astype(object)).astype(wide_kind(dtype)).astype(dtype.numpy)
    return np.asarray(found).astype(dtype.numpy)


def wide_kind(dtype: DType) -> Any:
    """The numpy type that integers of an element type go through, so that none is rounded on the way."""
    return np.uint64 if dtype.is_unsigned else np.int64


@cache
def ends(dtype: DType) -> tuple[int, int]:
    """(the smallest, the largest) number of an element type of integers."""
    limits = ml_dtypes.iinfo(dtype.numpy) if dtype.bits < 8 else np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def reals(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Finite numbers of one of several scales, in float64."""
    way = rng.random()
    found = np.asarray(rng.normal(0, 2, shape))
    if way < 0.5 or dtype.bits < 8:
        return found
    if way < 0.62:
        return np.round(found)
    if way < 0.72:
        return np.round(found * 2) / 2
    if dtype.bits <= 16:
        return found / 4 if way < 0.86 else found * 2
    return found * SMALL if way < 0.78 else found * LARGE if way < 0.86 else found + LARGE


@cache
def specials(dtype: DType) -> np.ndarray:
    """The numbers of an element type of floats at which equations break: each where the type has it."""
    limits = ml_dtypes.finfo(dtype.numpy)
    top, tiny, least = (float(n) for n in (limits.max, limits.smallest_normal, limits.smallest_subnormal))
    beside = 1 + float(limits.eps)
    wanted = [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        -0.0,
        1.0,
        -1.5,
        top,
        -top,
        top / 2,
        tiny,
        -tiny,
        least,
        -least,
        beside,
    ]
    with np.errstate(all="ignore"):
        found = np.array(wanted, np.float64).astype(dtype.numpy)
    found.flags.writeable = False
    return found


# ---------------------------------------------------------------------------------------------- feeds

SIZES_OF_SYMBOLS = (1, 2, 3, 5)


def assignment(
    values: tuple[Value, ...],
    rng: np.random.Generator,
    arrays: Mapping[Value, np.ndarray] = NOTHING,
    *,
    empty: bool = True,
) -> dict[str, int]:
    """A number for each dimension symbol in the types of values, 1 among them, and 0 where they may be `empty`; what
    the shapes of `arrays` say of one is taken."""
    symbols = {s for v in values if isinstance(v.type, Tensor) for d in v.type.shape for s in dims.symbols_of(d)}
    sizes = (0, *SIZES_OF_SYMBOLS) if empty else SIZES_OF_SYMBOLS
    found = {dims.label(s): int(rng.choice(sizes)) for s in sorted(symbols, key=str)}
    for value in values:
        if value in arrays and isinstance(value.type, Tensor):
            known = zip(value.shape, np.shape(arrays[value]), strict=True)
            found.update({dims.label(d): n for d, n in known if isinstance(d, sympy.Symbol)})
    return found


def feeds(
    params: tuple[Value, ...],
    rng: np.random.Generator,
    special: bool,
    chosen: Mapping[str, int] | None = None,
    arrays: Mapping[Value, Content] = NOTHING,
    whole: bool = False,
    plain: bool = False,
    zeros: float = ZEROS,
) -> list[Content]:
    """An array for each parameter, under an assignment of the symbols, or a random one; that of `arrays` where it has
    one. Numbers are `special`, or those of integers are, where `whole`; where `plain`, all are of moderate size (see
    `numbers`). So many of the arrays of real numbers hold `zeros`."""
    chosen = assignment(params, rng, arrays) if chosen is None else chosen
    found: list[np.ndarray] = []
    for value in params:
        if value in arrays:
            found.append(arrays[value])
            continue
        shape = tuple(dims.evaluate(d, chosen) for d in value.shape)
        if plain and value.dtype.is_float:
            found.append(np.asarray(np.asarray(rng.normal(0, 2, shape)).astype(value.dtype.numpy)))
        else:
            array = numbers(rng, value.dtype, shape, special or (whole and value.dtype.is_integer))
            if not special and value.dtype.is_float and rng.random() < zeros:
                array = np.where(rng.random(shape) < ZEROS, array.dtype.type(0), array)
            found.append(array)
    return found
