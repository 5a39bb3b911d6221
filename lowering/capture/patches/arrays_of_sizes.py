"""`np.arange(n)`, `np.zeros((n, 3))`: what NumPy makes of numbers that vary is an array that varies."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from lowering.capture.patches.arrays_of_tensors import OfTensor
from lowering.capture.patches.functions_of_numbers import any_varies, varies

OF_NUMPY = re.compile(
    r"of type Sym(Int|Float)\b|of type numpy\.object_|which has no callable \w+ method"
    r"|'int' object has no attribute '(hypot|arctan2)'|second argument to ldexp|`pad_width` must be of integral"
)
"""What NumPy, torch of an array of NumPy's, and ldexp say of a size that varies."""


def array_of(made: Any, dtype: Any) -> Any:
    """What stands for the array of a tensor that varies, with elements of a type of NumPy's; None where it is a tensor
    without numbers of another way of capture, or has no such type."""
    kind = getattr(torch, np.dtype(dtype).name, None)
    array = made.to(kind).numpy() if isinstance(kind, torch.dtype) else None
    return array if isinstance(array, OfTensor) else None


def counted(*ends: Any, dtype: Any = None) -> Any:
    """np.arange(...), where a number varies."""
    start, stop, step = (0, *ends, 1) if len(ends) == 1 else (*ends, 1)[:3]
    if len(ends) > 3 or varies(step) or not step:
        return None
    stop = torch.sym_max(start, stop) if step > 0 else torch.sym_min(start, stop)  # torch refuses to count nothing
    whole = all(isinstance(each, int | torch.SymInt) for each in ends)
    places = torch.arange(start, stop, step, dtype=torch.int64 if whole else torch.float64)
    return array_of(places, dtype or (int if whole else float))


def spaced(start: Any, stop: Any, num: Any = 50, dtype: Any = None) -> Any:
    """np.linspace(...) whose count varies."""
    return array_of(torch.linspace(start, stop, num, dtype=torch.float64), dtype or float)


def filled(number: Any) -> Callable[..., Any]:
    """np.zeros and np.ones of sizes that vary."""

    def of_shape(shape: Any, dtype: Any = float) -> Any:
        sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        return array_of(torch.full(sizes, number, dtype=torch.float64), dtype)

    return of_shape


def filled_with(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """np.full(...) of sizes, or with a number, that vary."""
    kind = kind_of([fill_value]) if dtype is None else dtype
    number: Any = fill_value.item() if isinstance(fill_value, np.generic) else fill_value
    own = kind_of(number)
    if kind is None or own is None:
        return None
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    wide = torch.float64 if own is float else torch.int64
    return array_of(torch.full(sizes, number, dtype=wide), kind)


def diagonal(rows: Any, columns: Any = None, dtype: Any = float) -> Any:
    """np.eye of sizes that vary."""
    return array_of(torch.eye(rows, rows if columns is None else columns, dtype=torch.float64), dtype)


def triangle(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Any:
    """np.tri(...) of sizes that vary."""
    whole = torch.ones((N, N if M is None else M), dtype=torch.float64)
    return array_of(torch.tril(whole, k), dtype) if isinstance(k, int) else None


def listed(numbers: Any, dtype: Any = None) -> Any:
    """np.array(...) of nested lists of numbers of which some vary."""
    kind = kind_of(numbers) if dtype is None else dtype
    if kind is None or kind_of(numbers) is None:
        return None
    wide = torch.float64 if kind_of(numbers) is float else torch.int64
    return array_of(torch.tensor(plain_lists(numbers), dtype=wide), kind)


def repeated(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """np.repeat(...) of an array of NumPy's own, as often as a size says."""
    if not varies(repeats) or isinstance(a, OfTensor):
        return None
    whole = torch.as_tensor(np.asarray(a).ravel() if axis is None else np.asarray(a))
    return array_of(torch.repeat_interleave(whole, repeats, 0 if axis is None else axis), np.asarray(a).dtype)


def tiled(A: Any, reps: Any) -> Any:
    """np.tile(...) of an array of NumPy's own, as often as sizes say."""
    if isinstance(A, OfTensor):
        return None
    return array_of(
        torch.as_tensor(np.asarray(A)).tile(reps if isinstance(reps, tuple | list) else (reps,)), np.asarray(A).dtype
    )


def counted_along(dimensions: Any, dtype: Any = int) -> Any:
    """np.indices(...) of sizes that vary."""
    rows = torch.meshgrid([torch.arange(size) for size in dimensions], indexing="ij")
    return array_of(torch.stack(rows), dtype)


class Grid:
    """What stands for np.mgrid, or np.ogrid: places between ends that vary."""

    def __init__(self, plain: Any, is_open: bool) -> None:
        self.plain, self.is_open = plain, is_open

    def __getitem__(self, key: Any) -> Any:
        axes = key if isinstance(key, tuple) else (key,)
        ends = [(each.start, each.stop, each.step) for each in axes if isinstance(each, slice)]
        if len(ends) < len(axes) or not any(map(any_varies, ends)):
            return self.plain[key]
        rows = [counted(0 if a is None else a, b, 1 if by is None else by) for a, b, by in ends]
        if any(each is None for each in rows):
            return self.plain[key]  # which refuses it, or takes the numbers of the example
        if not isinstance(key, tuple):
            return rows[0]
        kind = functools.reduce(torch.promote_types, (each.tensor.dtype for each in rows))
        grids = [each.tensor.to(kind) for each in rows]
        if not self.is_open:
            return array_of(torch.stack(torch.meshgrid(grids, indexing="ij")), str(kind).removeprefix("torch."))
        for place, each in enumerate(grids):
            grids[place] = each.reshape([-1 if axis == place else 1 for axis in range(len(grids))])
        return tuple(array_of(each, str(kind).removeprefix("torch.")) for each in grids)


def window(*factors: float) -> Callable[[Any], Any]:
    """np.hanning, np.hamming and np.blackman of a size: sums of cosines over -pi to pi, of these factors."""

    def of_length(M: Any) -> Any:
        if not isinstance(M, torch.SymInt):
            return None
        first: Any = 1 - M
        places = torch.arange(first, torch.sym_max(M, first), 2, dtype=torch.float64)
        turns = places * math.pi / torch.sym_max(M - 1, 1)
        made = sum(factor * torch.cos(turns * times) for times, factor in enumerate(factors[1:], 1))
        return array_of(factors[0] + made, float)

    return of_length


def plain_lists(numbers: Any) -> Any:
    """Nested lists in the place of tuples and shapes."""
    return [plain_lists(each) for each in numbers] if isinstance(numbers, list | tuple) else numbers


def kind_of(numbers: Any) -> type | None:
    """The kind that NumPy gives the elements of nested lists of numbers; None where others are among them, or none."""
    if isinstance(numbers, list | tuple):
        kinds = {kind_of(each) for each in numbers}
        return next((kind for kind in (None, float, int, bool) if kind in kinds), None)
    if isinstance(numbers, np.generic):
        numbers = numbers.item()
    for kind, symbolic in ((bool, torch.SymBool), (int, torch.SymInt), (float, torch.SymFloat)):
        if type(numbers) is kind or isinstance(numbers, symbolic):
            return kind
    return None


def of_sizes(plain: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`plain`, but with sizes that vary among its arguments `function`, where that takes these arguments."""

    @functools.wraps(plain)
    def made(*given: Any, **named: Any) -> Any:
        fits = any_varies((*given, *named.values())) and named.keys() <= TAKEN
        found = function(*given, **named) if fits else None
        return plain(*given, **named) if found is None else found

    return made


TAKEN = frozenset("dtype num shape fill_value N M k repeats axis reps dimensions".split())
"""What functions of NumPy's are given by name that are made of sizes."""


def in_own_order(a: Any, dtype: Any = None) -> Any:
    """np.ascontiguousarray(a, dtype)"""
    if not isinstance(a, OfTensor):
        return np.ascontiguousarray(a, dtype)
    made = a.in_own_order()
    return made if dtype is None or np.dtype(dtype) == made.dtype else made.astype(dtype)


class Numpy:
    """What stands for the module `numpy` in code whose sizes are kept: what it makes of sizes varies with them."""

    arange = staticmethod(of_sizes(np.arange, counted))
    linspace = staticmethod(of_sizes(np.linspace, spaced))
    eye = staticmethod(of_sizes(np.eye, diagonal))
    zeros = staticmethod(of_sizes(np.zeros, filled(0)))
    ones = staticmethod(of_sizes(np.ones, filled(1)))
    full = staticmethod(of_sizes(np.full, filled_with))
    tri = staticmethod(of_sizes(np.tri, triangle))
    array = staticmethod(of_sizes(np.array, listed))
    asarray = staticmethod(of_sizes(np.asarray, listed))
    repeat = staticmethod(of_sizes(np.repeat, repeated))
    tile = staticmethod(of_sizes(np.tile, tiled))
    indices = staticmethod(of_sizes(np.indices, counted_along))
    ascontiguousarray = staticmethod(in_own_order)
    hanning = staticmethod(of_sizes(np.hanning, window(0.5, 0.5)))
    hamming = staticmethod(of_sizes(np.hamming, window(0.54, 0.46)))
    blackman = staticmethod(of_sizes(np.blackman, window(0.42, 0.5, 0.08)))
    mgrid = Grid(np.mgrid, is_open=False)
    ogrid = Grid(np.ogrid, is_open=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


NUMPY = Numpy()
